/* lower_calls_rope.c - the call of FX_L_ROPE_STORE: norms and rotation of queries and keys, in place of the keys.
 *
 * Storing them is left to the launch's own kernel: where a row goes in the page pool is known to the page tables alone, so that the loop
 * IR can't see that rows don't meet there.  Cos and sin of a row's position are made once for all its heads, as kernels/rope_simd.def
 * does it and with the same operations. */
#include "kir/kir_math.h"
#include "passes/lower_calls_int.h"


/* ---- Angles ----------------------------------------------------------------------------------------- */

#define NUM(x) fx_kmath_num(e, x)

/* Taylor's series of (sin(r) - r) / r^3 and cos(r), in r^2. */
static const double sines[] = { -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362880.0, -1.0 / 39916800.0, 1.0 / 6227020800.0 };
static const double cosines[] = { 1, -0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40320.0, -1.0 / 3628800.0, 1.0 / 479001600.0, -1.0 / 87178291200.0 };

static fx_kop *is_set(const fx_kmath *e, fx_kop *q, int64_t bit)
{
    return k_ne(e, k_and(e, q, fx_kmath_int(e, bit)), fx_kmath_int(e, 0));
}

/* vmath.def's vd_sincos: reduction by pi/2 in two steps, then the quadrant. */
static void sincos_of(const fx_kmath *e, fx_kop *angle, fx_kop **sn, fx_kop **cs)
{
    fx_kop *magic = NUM(0x1.8p52), *z = k_add(e, k_mul(e, angle, NUM(0x1.45f306dc9c883p-1)), magic), *n = k_sub(e, z, magic);
    fx_kop *q = fx_kmath_bits(e, z), *r, *u, *s, *k, *odd;

    r = k_fma(e, n, NUM(-0x1.921fb54442d18p0), angle);
    r = k_fma(e, n, NUM(-0x1.1a62633145c07p-54), r);
    u = k_mul(e, r, r);
    s = k_fma(e, k_mul(e, fx_kmath_poly(e, sines, (int)FX_COUNT(sines), u), u), r, r);
    k = fx_kmath_poly(e, cosines, (int)FX_COUNT(cosines), u);
    odd = is_set(e, q, 1);
    *sn = k_select(e, odd, k, s);
    *cs = k_select(e, odd, s, k);
    *sn = k_select(e, is_set(e, q, 2), k_neg(e, *sn), *sn);
    *cs = k_select(e, is_set(e, k_add(e, q, fx_kmath_int(e, 1)), 2), k_neg(e, *cs), *cs);
}

/* A column of the step's row table, at this row. */
static fx_kop *of_row(fx_lc *c, size_t at, const char *name)
{
    fx_kir_buf b = { .dtype = FX_I32, .rank = 1, .extent = { c->rows }, .access = FX_KIR_IN, .name = fx_str_of(name) };
    fx_kop *column = fx_lc_buffer(c, fx_lc_in_step(at, false), &b);

    return fx_kir_convert(c->m, fx_kir_load(c->m, column, &c->row, 1, 1, NULL), FX_I64);
}

/* Where the frequencies of the row's sequence begin: those of long ones stand behind the others. */
static fx_kop *first_frequency(fx_lc *c, const fx_rope_store_args *a)
{
    const int64_t words = sizeof(fx_step_seq) / sizeof(int32_t);
    fx_kir_buf b = { .dtype = FX_I32, .rank = 2, .access = FX_KIR_IN, .name = FX_STR("sequences") };
    fx_kop *seqs, *seq, *length;

    _Static_assert(sizeof(fx_step_seq) % sizeof(int32_t) == 0, "sequences are rows of words");
    if (a->long_from <= 0)
        return fx_lc_num(c, 0);
    seq = of_row(c, offsetof(fx_step, seq), "seq");
    b.extent[0] = fx_lc_arg(c, fx_lc_in_step(offsetof(fx_step, n_seqs), true), "n_seqs");
    b.extent[1] = fx_kir_dim(c->m, words);
    seqs = fx_lc_buffer(c, fx_lc_in_step(offsetof(fx_step, seqs), false), &b);
    length = fx_lc_num(c, offsetof(fx_step_seq, length_class) / sizeof(int32_t));
    length = fx_kir_convert(c->m, fx_kir_load(c->m, seqs, (fx_kop *const[]){ seq, length }, 2, 1, NULL), FX_I64);
    return select3(c, op2(c, FX_KIR_LT, fx_lc_num(c, a->long_from), length), fx_lc_num(c, a->rot_dim / 2), fx_lc_num(c, 0));
}

typedef struct turning {
    const fx_rope_store_args *a;
    fx_kop *cs, *sn;             /* [rot_dim / 2]; of pairs side by side [rot_dim], each twice, sines as -s, s */
} turning;

static void put_pair(fx_lc *c, const turning *t, fx_kop *i, fx_kop *cs, fx_kop *sn)
{
    fx_kop *two, *next;

    if (t->a->style == FX_ROPE_HALF) {
        fx_kir_store(c->m, t->cs, cs, &i, 1, NULL);
        fx_kir_store(c->m, t->sn, sn, &i, 1, NULL);
        return;
    }
    two = op2(c, FX_KIR_ADD, i, i);
    next = op2(c, FX_KIR_ADD, two, fx_lc_num(c, 1));
    fx_kir_store(c->m, t->cs, cs, &two, 1, NULL);
    fx_kir_store(c->m, t->cs, cs, &next, 1, NULL);
    fx_kir_store(c->m, t->sn, op1(c, FX_KIR_NEG, sn), &two, 1, NULL);
    fx_kir_store(c->m, t->sn, sn, &next, 1, NULL);
}

static void fill_tables(fx_lc *c, turning *t)
{
    const fx_rope_store_args *a = t->a;
    int64_t half = a->rot_dim / 2, n = a->style == FX_ROPE_HALF ? half : a->rot_dim;
    fx_kmath k = fx_kmath_of(c->m, fx_ktype_of(FX_F64, 1)), *e = &k;
    fx_kop *freq = fx_lc_vec(c, 5, offsetof(fx_rope_store_args, inv_freq), a->long_from > 0 ? a->rot_dim : half), *first, *pos, *at, *sn, *cs;
    fx_lc_loop each;

    t->cs = fx_kir_alloc(c->m, FX_KIR_PRIVATE, FX_F32, &n, 1, FX_STR("cos"));
    t->sn = fx_kir_alloc(c->m, FX_KIR_PRIVATE, FX_F32, &n, 1, FX_STR("sin"));
    pos = fx_kir_convert(c->m, of_row(c, offsetof(fx_step, pos), "pos"), FX_F64);
    first = first_frequency(c, a);
    each = fx_lc_each(c, half);
    at = op2(c, FX_KIR_ADD, first, each.i);
    at = fx_kir_load(c->m, freq, &at, 1, 1, NULL);
    sincos_of(e, k_mul(e, pos, at ? fx_kir_convert(c->m, at, FX_F64) : NULL), &sn, &cs);
    sn = k_mul(e, sn, NUM((double)a->attn_scale));
    cs = k_mul(e, cs, NUM((double)a->attn_scale));
    put_pair(c, t, each.i, cs ? fx_kir_convert(c->m, cs, FX_F32) : NULL, sn ? fx_kir_convert(c->m, sn, FX_F32) : NULL);
    fx_lc_end(c, &each);
}

/* ---- Heads ---------------------------------------------------------------------------------------------- */

/* Lanes that divide n: up to 16. */
static int lanes_of(int64_t n)
{
    int lanes = 16;

    while (n % lanes)
        lanes /= 2;
    return lanes;
}

/* (x, y) becomes (x c - y s, y c + x s), y half a rotation behind x. */
static void rotate_half(fx_lc *c, const turning *t, fx_kop *from, fx_kop *to, fx_kop *first)
{
    int64_t half = t->a->rot_dim / 2;
    int lanes = lanes_of(half);
    fx_lc_loop loop = fx_lc_times(c, half / lanes);
    fx_kop *i = op2(c, FX_KIR_MUL, loop.i, fx_lc_num(c, lanes)), *low = op2(c, FX_KIR_ADD, first, i);
    fx_kop *high = op2(c, FX_KIR_ADD, low, fx_lc_num(c, half));
    fx_kop *cs = fx_kir_load(c->m, t->cs, &i, 1, lanes, NULL), *sn = fx_kir_load(c->m, t->sn, &i, 1, lanes, NULL);
    fx_kop *x = fx_lc_load(c, from, low, lanes), *y = fx_lc_load(c, from, high, lanes);

    fx_lc_store(c, to, fx_kir_op3(c->m, FX_KIR_FMA, op1(c, FX_KIR_NEG, y), sn, op2(c, FX_KIR_MUL, x, cs)), low);
    fx_lc_store(c, to, fx_kir_op3(c->m, FX_KIR_FMA, x, sn, op2(c, FX_KIR_MUL, y, cs)), high);
    fx_lc_end(c, &loop);
}

/* The same of neighbours: x c + swapped(x) s. */
static void rotate_pairs(fx_lc *c, const turning *t, fx_kop *from, fx_kop *to, fx_kop *first)
{
    static const uint8_t swapped[16] = { 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14 };
    int lanes = lanes_of(t->a->rot_dim);
    fx_lc_loop loop = fx_lc_times(c, t->a->rot_dim / lanes);
    fx_kop *i = op2(c, FX_KIR_MUL, loop.i, fx_lc_num(c, lanes)), *at = op2(c, FX_KIR_ADD, first, i);
    fx_kop *cs = fx_kir_load(c->m, t->cs, &i, 1, lanes, NULL), *sn = fx_kir_load(c->m, t->sn, &i, 1, lanes, NULL);
    fx_kop *x = fx_lc_load(c, from, at, lanes);

    fx_lc_store(c, to, fx_kir_op3(c->m, FX_KIR_FMA, fx_kir_shuffle(c->m, x, x, swapped, lanes), sn, op2(c, FX_KIR_MUL, x, cs)), at);
    fx_lc_end(c, &loop);
}

static void copy_columns(fx_lc *c, fx_kop *from, fx_kop *to, fx_kop *first, int64_t lo, int64_t hi)
{
    fx_lc_loop each = fx_lc_each(c, hi - lo);
    fx_kop *at = op2(c, FX_KIR_ADD, op2(c, FX_KIR_ADD, first, fx_lc_num(c, lo)), each.i);

    fx_lc_store(c, to, fx_lc_load(c, from, at, 1), at);
    fx_lc_end(c, &each);
}

/* 'heads' heads of from to 'to', which may be from; norm NULL: none. */
static void turn_heads(fx_lc *c, const turning *t, fx_kop *from, fx_kop *to, fx_kop *norm, int64_t heads)
{
    const fx_rope_store_args *a = t->a;
    fx_lc_loop loop = fx_lc_times(c, heads);
    fx_kop *first = op2(c, FX_KIR_MUL, loop.i, fx_lc_num(c, a->head_dim));
    fx_lc_normed n = { .x = from, .w = norm, .y = to, .dim = a->head_dim, .eps = a->eps, .w_offset = a->norm_offset };

    if (norm && !a->norm_last) {
        fx_lc_rms(c, &n, first);
        n.x = to;
    }
    if (a->rot_dim > 0)
        (a->style == FX_ROPE_HALF ? rotate_half : rotate_pairs)(c, t, n.x, to, first);
    if (n.x != to && a->rot_dim < a->head_dim)
        copy_columns(c, n.x, to, first, a->rot_dim, a->head_dim);
    n.x = to;
    if (norm && a->norm_last)
        fx_lc_rms(c, &n, first);
    fx_lc_end(c, &loop);
}

/* ---- The call ------------------------------------------------------------------------------------------------ */

/* Not where frequencies change with a sequence's length by a power. */
bool fx_lc_can_rope(const fx_lc *c)
{
    const fx_rope_store_args *a = &c->l->args.rope_store;
    bool turns = a->rot_dim > 0 || fx_lc_has(c, 3) || fx_lc_has(c, 4);

    return turns && (a->kv_heads == 0 || a->k_free) && !(a->long_from > 0 && a->growth > 0) && a->rot_dim % 2 == 0;
}

void fx_lc_make_rope(fx_lc *c)
{
    const fx_rope_store_args *a = &c->l->args.rope_store;
    int64_t q_cols = (int64_t)a->heads * a->head_dim, k_cols = (int64_t)a->kv_heads * a->head_dim;
    turning t = { .a = a };
    fx_kop *q = fx_lc_mat(c, 0, offsetof(fx_rope_store_args, q.p), q_cols, FX_KIR_IN), *k, *q_norm, *k_norm;
    fx_kop *out = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_rope_store_args, q_out.p), q_cols, FX_KIR_INOUT);

    q_norm = fx_lc_has(c, 3) ? fx_lc_vec(c, 3, offsetof(fx_rope_store_args, q_norm), a->head_dim) : NULL;
    k_norm = fx_lc_has(c, 4) ? fx_lc_vec(c, 4, offsetof(fx_rope_store_args, k_norm), a->head_dim) : NULL;
    if (a->rot_dim > 0)
        fill_tables(c, &t);
    turn_heads(c, &t, q, out, q_norm, a->heads);
    if (a->kv_heads > 0) {
        k = fx_lc_mat(c, 1, offsetof(fx_rope_store_args, k.p), k_cols, FX_KIR_INOUT);
        turn_heads(c, &t, k, k, k_norm, a->kv_heads);
    }
    c->rest = a->kv_heads > 0;
}
