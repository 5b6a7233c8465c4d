/* kir_random.h - random kernels with data to run them on, for tests that compare executions.
 *
 *     k = kir_random_kernel(m, seed);                  passes the verifier
 *     kir_data_init(&a, k, (int64_t[]){ 5, 37 }, seed);
 *     ... run ...
 *     kir_data_same(&a, &b)                            all buffers, all NaNs alike
 *
 * The data works for any kernel: the k-th size of 'sizes' for the k-th size of the kernel, random scalars, buffers filled
 * with random elements, special values among them. */
#ifndef KIR_RANDOM_H
#define KIR_RANDOM_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kir/kir.h"
#include "kir/kir_eval.h"

#define KIR_DATA_MAX 24

typedef struct kir_data {
    const fx_kir_kernel *k;
    uint64_t args[KIR_DATA_MAX];
    void *buffers[KIR_DATA_MAX];
    size_t elements[KIR_DATA_MAX];
    fx_dtype type[KIR_DATA_MAX];
    int n_buffers;
} kir_data;

static inline uint64_t kir_random_next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

static inline uint64_t kir_random_seed(uint64_t seed) { return (seed + 1) * UINT64_C(0x9e3779b97f4a7c15); }
static inline int kir_random_below(uint64_t *s, int n) { return (int)(kir_random_next(s) >> 33) % n; }

/* ---- Data ------------------------------------------------------------------------------------------ */

/* Bits of an element: mostly a small number, sometimes a special one. */
static inline uint64_t kir_random_element(uint64_t *s, fx_dtype t)
{
    static const double special[] = { 0.0, -0.0, 1, -1, HUGE_VAL, -HUGE_VAL, NAN, 0x1p-149, 0x1.fffffep127, 65504 };
    double x = (double)kir_random_below(s, 4001) / 256 - 8;
    float f;
    uint64_t bits = 0;

    if (t == FX_BOOL)
        return (uint64_t)kir_random_below(s, 2);
    if (!fx_dtype_is_float(t))
        return kir_random_below(s, 4) ? (uint64_t)(int64_t)(kir_random_below(s, 41) - 20) : kir_random_next(s);
    if (kir_random_below(s, 8) == 0)
        x = special[kir_random_below(s, (int)FX_COUNT(special))];
    if (t == FX_F64) {
        memcpy(&bits, &x, sizeof(x));
        return bits;
    }
    f = (float)x;
    switch (t) {
    case FX_F16: return fx_f32_to_f16(f);
    case FX_BF16: return fx_f32_to_bf16(f);
    case FX_F8E4M3: return fx_f32_to_f8e4m3(f);
    case FX_F8E5M2: return fx_f32_to_f8e5m2(f);
    default: return fx_f32_bits(f);
    }
}

static inline int64_t kir_data_dim(const kir_data *d, const fx_kop *dim)
{
    return dim->code == FX_KIR_CONST ? dim->u.i : (int64_t)d->args[dim->u.i];
}

/* From the first element to the last: strides are at least 0 here. */
static inline size_t kir_data_span(const kir_data *d, const fx_kir_buf *b)
{
    int64_t span = 1, next = 1;

    for (int i = b->rank - 1; i >= 0; i--) {
        int64_t e = kir_data_dim(d, b->extent[i]), s = b->stride[i] ? kir_data_dim(d, b->stride[i]) : next;

        if (e == 0)
            return 0;
        span += (e - 1) * s;
        next = e * s;
    }
    return (size_t)span;
}

static inline void kir_data_init(kir_data *d, const fx_kir_kernel *k, const int64_t *sizes, uint64_t seed)
{
    uint64_t s = kir_random_seed(seed);

    *d = (kir_data){ .k = k };
    for (size_t i = 0; i < k->params.n; i++) {
        const fx_kop *op = k->params.at[i];

        if (op->code == FX_KIR_ARG)
            d->args[op->u.i] = op->size ? (uint64_t)*sizes++ : fx_kir_lane(op->type.t, kir_random_element(&s, op->type.t));
    }
    for (size_t i = 0; i < k->params.n; i++) {
        const fx_kop *op = k->params.at[i];
        size_t each = op->code == FX_KIR_BUFFER ? fx_dtype_size(op->u.buf->dtype) : 0;
        int at = d->n_buffers;

        if (!each)
            continue;
        d->n_buffers++;
        d->type[at] = op->u.buf->dtype;
        d->elements[at] = kir_data_span(d, op->u.buf);
        d->buffers[at] = malloc(d->elements[at] * each + 1);
        for (size_t j = 0; j < d->elements[at]; j++)
            fx_kir_write(d->type[at], (uint8_t *)d->buffers[at] + j * each, kir_random_element(&s, d->type[at]));
    }
}

static inline void kir_data_done(kir_data *d)
{
    for (int i = 0; i < d->n_buffers; i++)
        free(d->buffers[i]);
}

static inline bool kir_random_is_nan(fx_dtype t, uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof(x));
    switch (t) {
    case FX_F64: return isnan(x);
    case FX_F32: return isnan(fx_f32_of_bits((uint32_t)bits));
    case FX_F16: return isnan(fx_f16_to_f32((uint16_t)bits));
    case FX_BF16: return isnan(fx_bf16_to_f32((uint16_t)bits));
    case FX_F8E4M3: return isnan(fx_f8e4m3_to_f32((uint8_t)bits));
    case FX_F8E5M2: return isnan(fx_f8e5m2_to_f32((uint8_t)bits));
    default: return false;
    }
}

static inline bool kir_data_same(const kir_data *a, const kir_data *b)
{
    for (int i = 0; i < a->n_buffers; i++) {
        for (size_t j = 0; j < a->elements[i]; j++) {
            size_t at = j * fx_dtype_size(a->type[i]);
            uint64_t x = fx_kir_read(a->type[i], (uint8_t *)a->buffers[i] + at), y = fx_kir_read(a->type[i], (uint8_t *)b->buffers[i] + at);

            if (x != y && !(kir_random_is_nan(a->type[i], x) && kir_random_is_nan(a->type[i], y)))
                return false;
        }
    }
    return true;
}

/* ---- Kernels ------------------------------------------------------------------------------------------ */

/* Two sizes: rows, a task each, and columns.  Buffers of each row: a, b (in), h (narrow floats, in), p (i32, in), at (i64 by row: indices that may be
 * outside), y (out), z (inout: read where it is written), q (i32, out); r of a number a row. */
typedef struct kir_maker {
    fx_kir_module *m;
    fx_kir_kernel *k;
    uint64_t s;
    fx_kop *cols, *a, *b, *h, *p, *at, *y, *z, *q, *r;
    fx_kop *value[4][64];        /* by type: f32, i32, i64, bool */
    int n[4];
    fx_kop *local[8];            /* f32, of the blocks around */
    int n_local, first_local;    /* those from first_local on may be set */
    fx_kop *j;                   /* the counter of the FORALL or REDUCE around; NULL: none */
    bool reduces;                /* it is a REDUCE's */
    int depth, room;
} kir_maker;

static inline int kir_maker_kind(fx_dtype t) { return t == FX_F32 ? 0 : t == FX_I32 ? 1 : t == FX_I64 ? 2 : 3; }

static inline void kir_maker_keep(kir_maker *g, fx_kop *op)
{
    int k = op ? kir_maker_kind(op->type.t) : 0;

    if (op && g->n[k] < 64)
        g->value[k][g->n[k]++] = op;
}

static inline fx_kop *kir_maker_pick(kir_maker *g, fx_dtype t)
{
    int k = kir_maker_kind(t);

    if (g->n[k] && kir_random_below(&g->s, 6))
        return g->value[k][kir_random_below(&g->s, g->n[k])];
    if (t == FX_F32)
        return fx_kir_float(g->m, fx_ktype_of(t, 1), kir_random_below(&g->s, 64) / 8.0 - 3);
    return fx_kir_int(g->m, fx_ktype_of(t, 1), t == FX_BOOL ? kir_random_below(&g->s, 2) : kir_random_below(&g->s, 9) - 2);
}

static inline void kir_maker_plain(kir_maker *g)
{
    static const fx_dtype types[] = { FX_F32, FX_F32, FX_I32, FX_I64, FX_BOOL };
    fx_dtype t = types[kir_random_below(&g->s, 5)];
    fx_kir_code code = (fx_kir_code)(FX_KIR_ADD + kir_random_below(&g->s, FX_KIR_SPLAT - FX_KIR_ADD));
    const fx_kir_row *row = &fx_kir_rows[code];
    int want = t == FX_F32 ? FX_KOPF_F : t == FX_BOOL ? FX_KOPF_B : FX_KOPF_I;
    fx_kop *in[3];

    if (code == FX_KIR_CONVERT) {
        kir_maker_keep(g, fx_kir_convert(g->m, kir_maker_pick(g, t), types[kir_random_below(&g->s, 5)]));
    } else if (code == FX_KIR_BITCAST) {
        kir_maker_keep(g, fx_kir_bitcast(g->m, kir_maker_pick(g, FX_I32), fx_ktype_of(FX_F32, 1)));
    } else if (code == FX_KIR_SELECT) {
        in[0] = kir_maker_pick(g, FX_BOOL);
        in[1] = kir_maker_pick(g, t);
        in[2] = kir_maker_pick(g, t);
        kir_maker_keep(g, fx_kir_op(g->m, code, in, 3));
    } else if ((row->flags & want) && !((row->flags & FX_KOPF_MATH) && kir_random_below(&g->s, 8))) {
        for (int i = 0; i < row->operands; i++)
            in[i] = kir_maker_pick(g, t);
        kir_maker_keep(g, fx_kir_op(g->m, code, in, row->operands));
    }
}

/* An index into the columns: the counter, near it, or anything. */
static inline fx_kop *kir_maker_column(kir_maker *g)
{
    int how = kir_random_below(&g->s, 8);

    if (g->j && how < 5)
        return how ? g->j : fx_kir_op2(g->m, FX_KIR_ADD, g->j, fx_kir_index(g->m, kir_random_below(&g->s, 3) - 1));
    if (how == 5 && g->j)
        return fx_kir_op2(g->m, FX_KIR_MUL, g->j, fx_kir_index(g->m, 2));
    return how == 6 ? fx_kir_load(g->m, g->at, FX_KIN(g->k->task), 1, NULL) : kir_maker_pick(g, FX_I64);
}

static inline void kir_maker_load(kir_maker *g)
{
    fx_kop *from[] = { g->a, g->b, g->h, g->p }, *buf = from[kir_random_below(&g->s, 4)], *v;
    fx_kop *mask = kir_random_below(&g->s, 6) ? NULL : kir_maker_pick(g, FX_BOOL);

    if (g->j && !g->reduces && kir_random_below(&g->s, 5) == 0)
        v = fx_kir_load(g->m, g->z, FX_KIN(g->k->task, g->j), 1, mask);
    else
        v = fx_kir_load(g->m, buf, FX_KIN(g->k->task, kir_maker_column(g)), 1, mask);
    if (v && v->type.t != FX_F32 && v->type.t != FX_I32)
        v = fx_kir_convert(g->m, v, FX_F32);
    kir_maker_keep(g, v);
}

static inline void kir_maker_store(kir_maker *g)
{
    fx_kop *mask = kir_random_below(&g->s, 6) ? NULL : kir_maker_pick(g, FX_BOOL);

    if (!g->j)
        fx_kir_store(g->m, g->r, kir_maker_pick(g, FX_F32), FX_KIN(g->k->task), mask);
    else if (kir_random_below(&g->s, 3) == 0)
        fx_kir_store(g->m, g->q, kir_maker_pick(g, FX_I32), FX_KIN(g->k->task, g->j), mask);
    else
        fx_kir_store(g->m, kir_random_below(&g->s, 2) ? g->y : g->z, kir_maker_pick(g, FX_F32), FX_KIN(g->k->task, g->j), mask);
}

static inline void kir_maker_block(kir_maker *g, fx_kir_block *b, int ops, bool stores);

static inline void kir_maker_variable(kir_maker *g)
{
    if (g->n_local < 8 && kir_random_below(&g->s, 3) == 0)
        g->local[g->n_local++] = fx_kir_local(g->m, kir_maker_pick(g, FX_F32), FX_STR("v"));
    else if (g->n_local && kir_random_below(&g->s, 2))
        kir_maker_keep(g, fx_kir_get(g->m, g->local[kir_random_below(&g->s, g->n_local)]));
    else if (g->n_local > g->first_local)
        fx_kir_set(g->m, g->local[g->first_local + kir_random_below(&g->s, g->n_local - g->first_local)], kir_maker_pick(g, FX_F32));
}

/* Bounds of a loop: all columns, a constant number, a part of them. */
static inline void kir_maker_bounds(kir_maker *g, fx_kop **lo, fx_kop **hi)
{
    int how = kir_random_below(&g->s, 5);

    *lo = fx_kir_index(g->m, how == 4 ? kir_random_below(&g->s, 7) - 2 : 0);
    *hi = how < 3 ? g->cols : fx_kir_index(g->m, kir_random_below(&g->s, 40));
    if (how == 2)
        *hi = fx_kir_op2(g->m, FX_KIR_MIN, *hi, fx_kir_index(g->m, 19));
}

static inline void kir_maker_forall(kir_maker *g)
{
    int first = g->first_local;
    fx_kop *lo, *hi, *op;

    kir_maker_bounds(g, &lo, &hi);
    op = fx_kir_forall(g->m, lo, hi);
    if (!op)
        return;
    g->j = op->block[0]->arg;
    g->first_local = g->n_local;
    kir_maker_block(g, op->block[0], 4 + kir_random_below(&g->s, 12), true);
    g->first_local = first;
    g->j = NULL;
}

static inline void kir_maker_for(kir_maker *g, bool stores)
{
    fx_kop *op = fx_kir_for(g->m, fx_kir_index(g->m, kir_random_below(&g->s, 3)), fx_kir_index(g->m, kir_random_below(&g->s, 7)),
                            fx_kir_index(g->m, 1 + kir_random_below(&g->s, 2)));

    if (op)
        kir_maker_block(g, op->block[0], 2 + kir_random_below(&g->s, 5), stores);
}

static inline void kir_maker_if(kir_maker *g, bool stores)
{
    fx_kop *op = fx_kir_if(g->m, kir_maker_pick(g, FX_BOOL), kir_random_below(&g->s, 2));

    for (int i = 0; op && i < 2; i++) {
        if (op->block[i])
            kir_maker_block(g, op->block[i], 1 + kir_random_below(&g->s, 5), stores);
    }
}

static inline void kir_maker_reduce(kir_maker *g)
{
    fx_kir_combine kind = (fx_kir_combine)kir_random_below(&g->s, FX_KIR_COMBINES);
    bool logic = kind == FX_KIR_ALL || kind == FX_KIR_ANY, arg = kind >= FX_KIR_ARGLEAST;
    fx_dtype t = logic ? FX_BOOL : kind == FX_KIR_DOT || kir_random_below(&g->s, 3) ? FX_F32 : FX_I32;
    int lanes = arg ? 1 : 1 << kir_random_below(&g->s, 7), first = g->first_local, n[4], n_local = g->n_local;
    fx_kop *lo, *hi, *op, *j = g->j;
    fx_kir_block *was;

    kir_maker_bounds(g, &lo, &hi);
    lo = arg ? fx_kir_index(g->m, 0) : lo;
    op = fx_kir_reduce(g->m, kind, lanes, t, lo, hi);
    if (!op)
        return;
    memcpy(n, g->n, sizeof(n));
    g->j = kir_random_below(&g->s, 4) || !j ? op->block[0]->arg : j;
    g->reduces = true;
    g->first_local = g->n_local;
    kir_maker_keep(g, op->block[0]->arg);
    was = fx_kir_at(g->m, op->block[0]);
    for (int i = 2 + kir_random_below(&g->s, 4); i; i--)
        kir_random_below(&g->s, 3) ? kir_maker_load(g) : kir_maker_plain(g);
    if (kind == FX_KIR_DOT)
        fx_kir_yield(g->m, FX_KIN(kir_maker_pick(g, t), kir_maker_pick(g, t)));
    else
        fx_kir_yield(g->m, FX_KIN(kir_maker_pick(g, t)));
    fx_kir_at(g->m, was);
    g->j = j;
    g->reduces = false;
    g->first_local = first;
    g->n_local = n_local;
    memcpy(g->n, n, sizeof(n));
    kir_maker_keep(g, op);
}

static inline void kir_maker_one(kir_maker *g, bool stores)
{
    int how = kir_random_below(&g->s, 20);

    if (how < 9)
        kir_maker_plain(g);
    else if (how < 12)
        kir_maker_load(g);
    else if (how < 14)
        kir_maker_variable(g);
    else if (how < 16 && stores)
        kir_maker_store(g);
    else if (how == 16 && g->depth < 4)
        kir_maker_if(g, stores);
    else if (how == 17 && g->depth < 4)
        kir_maker_for(g, stores);
    else if (how == 18)
        kir_maker_reduce(g);
    else if (how == 19 && !g->j && g->depth < 3)
        kir_maker_forall(g);
}

static inline void kir_maker_block(kir_maker *g, fx_kir_block *b, int ops, bool stores)
{
    fx_kir_block *was = fx_kir_at(g->m, b);
    int n[4], n_local = g->n_local;

    memcpy(n, g->n, sizeof(n));
    if (b->arg)
        kir_maker_keep(g, b->arg);
    g->depth++;
    for (int i = 0; i < ops && g->room > 0; i++, g->room--)
        kir_maker_one(g, stores);
    g->depth--;
    g->n_local = n_local;
    memcpy(g->n, n, sizeof(n));
    fx_kir_at(g->m, was);
}

static inline fx_kop *kir_maker_buffer(kir_maker *g, const char *name, fx_dtype t, int rank, fx_kop *rows, fx_kir_access access)
{
    return fx_kir_buffer(g->k, &(fx_kir_buf){ .dtype = t, .rank = rank, .extent = { rows, g->cols }, .access = access, .name = fx_str_of(name) });
}

static inline fx_kir_kernel *kir_random_kernel(fx_kir_module *m, uint64_t seed)
{
    static const fx_dtype narrow[] = { FX_F16, FX_BF16, FX_F8E4M3, FX_F8E5M2 };
    kir_maker g = { .m = m, .k = fx_kir_kernel_new(m, FX_STR("random")), .s = kir_random_seed(seed), .room = 120 };
    fx_kop *rows = fx_kir_size(g.k, FX_STR("rows"));

    g.cols = fx_kir_size(g.k, FX_STR("cols"));
    kir_maker_keep(&g, g.cols);
    kir_maker_keep(&g, fx_kir_scalar(g.k, FX_STR("f"), FX_F32));
    kir_maker_keep(&g, fx_kir_scalar(g.k, FX_STR("i"), FX_I32));
    g.a = kir_maker_buffer(&g, "a", FX_F32, 2, rows, FX_KIR_IN);
    g.b = kir_maker_buffer(&g, "b", FX_F32, 2, rows, FX_KIR_IN);
    g.h = kir_maker_buffer(&g, "h", narrow[kir_random_below(&g.s, 4)], 2, rows, FX_KIR_IN);
    g.p = kir_maker_buffer(&g, "p", FX_I32, 2, rows, FX_KIR_IN);
    g.at = kir_maker_buffer(&g, "at", FX_I64, 1, rows, FX_KIR_IN);
    g.y = kir_maker_buffer(&g, "y", FX_F32, 2, rows, FX_KIR_OUT);
    g.z = kir_maker_buffer(&g, "z", FX_F32, 2, rows, FX_KIR_INOUT);
    g.q = kir_maker_buffer(&g, "q", FX_I32, 2, rows, FX_KIR_OUT);
    g.r = kir_maker_buffer(&g, "r", FX_F32, 1, rows, FX_KIR_OUT);
    fx_kir_at(m, g.k->grid);
    fx_kir_yield(m, FX_KIN(rows));
    fx_kir_at(m, g.k->body);
    kir_maker_forall(&g);
    kir_maker_block(&g, g.k->body, 30, true);
    return m->failed ? NULL : g.k;
}

#endif
