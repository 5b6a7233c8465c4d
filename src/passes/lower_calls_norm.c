/* lower_calls_norm.c - calls that look along a row: norms, softmax, and rows in blocks of bytes. */
#include "passes/lower_calls_int.h"

#define BLOCK 32                 /* numbers of an fx_q8 block (kernels/quant.h) */
#define WORDS 11                 /* of it: 8 of bytes, the factor, two sums */
#define TINY 0x1p-96             /* less than this is 0 */


/* ---- Blocks of bytes --------------------------------------------------------------------------------- */

static fx_call_ref panel_ref(const fx_lc *c, size_t q8, size_t at)
{
    return (fx_call_ref){ .from = FX_FROM_PANELS, .launch = c->at, .at = (uint32_t)at, .q8 = (uint32_t)q8 };
}

static fx_kop *panel_buffer(fx_lc *c, int64_t k, fx_kop *panels, fx_kop *rows, fx_call_ref ref, const char *name)
{
    fx_kir_buf b = { .dtype = FX_I32, .rank = 4, .access = FX_KIR_OUT, .name = fx_str_of(name),
                     .extent = { panels, fx_kir_dim(c->m, k / BLOCK), fx_kir_dim(c->m, WORDS), rows } };

    return fx_lc_buffer(c, ref, &b);
}

/* Quantized rows that are written: panels of one width, and where this row is among them. */
typedef struct panels {
    fx_kop *buf, *at[2];         /* its panel and its place in it */
} panels;

/* The wide panels' and the narrow ones'; whether the row is in a wide one. */
static fx_kop *find_panels(fx_lc *c, int slot, size_t q8, panels out[2])
{
    int64_t k = c->plan->bufs[fx_lc_ref(c, slot)->index].cols;
    fx_kop *n_wide = fx_lc_arg(c, panel_ref(c, q8, offsetof(fx_call_panels, n_wide)), "n_wide");
    fx_kop *wide = fx_lc_arg(c, panel_ref(c, q8, offsetof(fx_call_panels, wide)), "wide");
    fx_kop *n_narrow = fx_lc_arg(c, panel_ref(c, q8, offsetof(fx_call_panels, n_narrow)), "n_narrow");
    fx_kop *narrow = fx_lc_arg(c, panel_ref(c, q8, offsetof(fx_call_panels, narrow)), "narrow");
    fx_kop *edge = op2(c, FX_KIR_MUL, n_wide, wide), *behind = op2(c, FX_KIR_SUB, c->row, edge);

    out[0] = (panels){ panel_buffer(c, k, n_wide, wide, panel_ref(c, q8, offsetof(fx_call_panels, data)), "wide_panels"),
                       { op2(c, FX_KIR_DIV, c->row, wide), op2(c, FX_KIR_REM, c->row, wide) } };
    out[1] = (panels){ panel_buffer(c, k, n_narrow, narrow, panel_ref(c, q8, offsetof(fx_call_panels, rest)), "narrow_panels"),
                       { op2(c, FX_KIR_DIV, behind, narrow), op2(c, FX_KIR_REM, behind, narrow) } };
    return op2(c, FX_KIR_LT, c->row, edge);
}

/* One of all lanes (a power of two of them), by halves. */
static fx_kop *fold_lanes(fx_lc *c, fx_kir_code code, fx_kop *v)
{
    uint8_t lane[FX_KIR_MAX_LANES];

    for (int n = v ? v->type.lanes / 2 : 0; n > 0; n /= 2) {
        fx_kop *low, *high;

        for (int i = 0; i < 2 * n; i++)
            lane[i] = (uint8_t)i;
        low = fx_kir_shuffle(c->m, v, v, lane, n);
        high = fx_kir_shuffle(c->m, v, v, lane + n, n);
        v = op2(c, code, low, high);
    }
    return v && v->type.lanes == 1 ? fx_kir_extract(c->m, v, 0) : v;
}

static fx_kop *splat(fx_lc *c, fx_kop *x, int lanes) { return fx_kir_splat(c->m, x, lanes); }
static fx_kop *i32(fx_lc *c, int64_t x, int lanes) { return fx_kir_int(c->m, fx_ktype_of(FX_I32, lanes), x); }

typedef struct block {
    fx_kop *words;               /* 8 */
    fx_kop *d, *sum, *sum16;     /* i32: the factor by its bits, what is stored of the sums */
} block;

/* q = x / d rounded to nearest even, by adding 1.5 * 2^23; d and q of what isn't finite, or nearly nothing, are NaN and 0, or 0. */
static block quantized(fx_lc *c, fx_kop *v)
{
    static const uint8_t first[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    fx_ktype bits = fx_ktype_of(FX_I32, BLOCK), one = fx_ktype_of(FX_I32, 1);
    fx_kop *most = op2(c, FX_KIR_AND, fx_kir_bitcast(c->m, v, bits), i32(c, INT32_MAX, BLOCK)), *d, *inv, *q, *bad, *nothing, *zero;
    fx_kop *magic = fx_lc_f32(c, 0x1.8p23, BLOCK);
    block b;

    most = fold_lanes(c, FX_KIR_MAX, most);
    d = fx_kir_bitcast(c->m, most, fx_ktype_of(FX_F32, 1));
    bad = op2(c, FX_KIR_LE, i32(c, 0x7f800000, 1), most);
    nothing = op2(c, FX_KIR_LT, d, fx_lc_f32(c, TINY, 1));
    d = op2(c, FX_KIR_DIV, d, fx_lc_f32(c, 127, 1));
    inv = op2(c, FX_KIR_DIV, fx_lc_f32(c, 1, 1), d);
    q = op2(c, FX_KIR_ADD, op2(c, FX_KIR_MUL, v, splat(c, inv, BLOCK)), magic);
    q = op2(c, FX_KIR_SUB, fx_kir_bitcast(c->m, q, bits), fx_kir_bitcast(c->m, magic, bits));
    zero = op2(c, FX_KIR_OR, bad, nothing);
    q = select3(c, splat(c, zero, BLOCK), i32(c, 0, BLOCK), q);
    d = select3(c, nothing, i32(c, 0, 1), fx_kir_bitcast(c->m, d, one));
    b.d = select3(c, bad, i32(c, 0x7fc00000, 1), d);
    b.words = q ? fx_kir_bitcast(c->m, fx_kir_convert(c->m, q, FX_I8), fx_ktype_of(FX_I32, BLOCK / 4)) : NULL;
    b.sum = op1(c, FX_KIR_NEG, fold_lanes(c, FX_KIR_ADD, q));
    b.sum16 = op1(c, FX_KIR_NEG, fold_lanes(c, FX_KIR_ADD, fx_kir_shuffle(c->m, q, q, first, 16)));
    return b;
}

static void store_words(fx_lc *c, const panels *p, fx_kop *b, const block *w)
{
    for (int i = 0; i < WORDS; i++) {
        fx_kop *word = i < 8 ? fx_kir_extract(c->m, w->words, i) : i == 8 ? w->d : i == 9 ? w->sum : w->sum16;

        fx_kir_store(c->m, p->buf, word, (fx_kop *const[]){ p->at[0], b, fx_lc_num(c, i), p->at[1] }, 4, NULL);
    }
}

/* A loop for either kind of panels: each then has few addresses to go on with. */
void fx_lc_put_blocks(fx_lc *c, int slot, size_t q8, fx_lc_block_fn value, const void *user)
{
    int64_t n = c->plan->bufs[fx_lc_ref(c, slot)->index].cols / BLOCK;
    panels p[2];
    fx_kop *is_wide = find_panels(c, slot, q8, p), *either = fx_kir_if(c->m, is_wide, true);
    fx_kir_block *here = c->m->at;

    for (int i = 0; i < 2 && either; i++) {
        fx_lc_loop each;
        block w;

        fx_kir_at(c->m, either->block[i]);
        each = fx_lc_each(c, n);
        w = quantized(c, value(c, user, op2(c, FX_KIR_MUL, each.i, fx_lc_num(c, BLOCK))));
        store_words(c, &p[i], each.i, &w);
        fx_lc_end(c, &each);
    }
    fx_kir_at(c->m, here);
}

static fx_kop *plain_block(fx_lc *c, const void *x, fx_kop *j) { return fx_lc_load(c, (fx_kop *)(uintptr_t)x, j, BLOCK); }

static void make_quant(fx_lc *c)
{
    int64_t k = c->plan->bufs[fx_lc_ref(c, FX_LC_OUT)->index].cols;
    fx_kop *x = fx_lc_mat(c, 0, offsetof(fx_quant_args, x.p), k, FX_KIR_IN);

    fx_lc_put_blocks(c, FX_LC_OUT, offsetof(fx_quant_args, q8), plain_block, x);
}

/* ---- RMS norm ------------------------------------------------------------------------------------------- */

static fx_kop *row_value(fx_lc *c, const fx_lc_normed *s, fx_kop *j, int lanes)
{
    fx_kop *v = fx_lc_load(c, s->x, j, lanes);

    return s->residual ? op2(c, FX_KIR_ADD, v, fx_lc_load(c, s->residual, j, lanes)) : v;
}

/* 1 / sqrt(sum / n + eps) */
static fx_kop *inverse(fx_lc *c, fx_kop *sum, int64_t n, float eps)
{
    fx_kop *x = op2(c, FX_KIR_DIV, sum, fx_lc_f32(c, (double)(float)n, 1));

    x = op2(c, FX_KIR_ADD, x, fx_lc_f32(c, (double)eps, 1));
    return op2(c, FX_KIR_DIV, fx_lc_f32(c, 1, 1), op1(c, FX_KIR_SQRT, x));
}

static fx_kop *inverse_rms(fx_lc *c, const fx_lc_normed *s, fx_kop *first)
{
    fx_lc_loop loop = fx_lc_fold(c, FX_KIR_DOT, s->dim);
    fx_kop *v = row_value(c, s, op2(c, FX_KIR_ADD, first, loop.i), 1);

    return inverse(c, fx_lc_folded(c, &loop, v, v), s->dim, s->eps);
}

static fx_kop *normed_value(fx_lc *c, const fx_lc_normed *s, fx_kop *inv, fx_kop *at, fx_kop *j, int lanes)
{
    fx_kop *v = op2(c, FX_KIR_MUL, row_value(c, s, at, lanes), splat(c, inv, lanes));
    fx_kop *w = fx_kir_load(c->m, s->w, &j, 1, lanes, NULL);

    return op2(c, FX_KIR_MUL, v, op2(c, FX_KIR_ADD, w, fx_lc_f32(c, (double)s->w_offset, lanes)));
}

void fx_lc_rms(fx_lc *c, const fx_lc_normed *s, fx_kop *first)
{
    fx_kop *inv = inverse_rms(c, s, first), *at;
    fx_lc_loop each = fx_lc_each(c, s->dim);

    at = op2(c, FX_KIR_ADD, first, each.i);
    fx_lc_store(c, s->y, normed_value(c, s, inv, at, each.i, 1), at);
    fx_lc_end(c, &each);
}

typedef struct normed_row {
    const fx_lc_normed *s;
    fx_kop *inv;
} normed_row;

/* ... and stored where y is wanted as well. */
static fx_kop *normed_block(fx_lc *c, const void *user, fx_kop *j)
{
    const normed_row *r = user;
    fx_kop *v = normed_value(c, r->s, r->inv, j, j, BLOCK);

    if (r->s->y)
        fx_lc_store(c, r->s->y, v, j);
    return v;
}

/* The sum is kept, and is from then on what is normed. */
static void keep_sum(fx_lc *c, fx_lc_normed *s, int64_t cols)
{
    fx_kop *sum = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_rmsnorm_args, sum.p), cols, FX_KIR_INOUT);
    fx_lc_loop each;

    if (sum != s->x || s->residual) {
        each = fx_lc_each(c, cols);
        fx_lc_store(c, sum, row_value(c, s, each.i, 1), each.i);
        fx_lc_end(c, &each);
    }
    s->x = sum;
    s->residual = NULL;
}

static void make_rmsnorm(fx_lc *c)
{
    const fx_rmsnorm_args *a = &c->l->args.rmsnorm;
    int64_t cols = a->dim * a->n_groups;
    fx_lc_normed s = { .x = fx_lc_mat(c, 0, offsetof(fx_rmsnorm_args, x.p), cols, FX_KIR_IN), .dim = a->dim, .eps = a->eps,
                       .w_offset = a->w_offset };
    bool y = fx_lc_has(c, FX_LC_OUT + 1), q8 = fx_lc_has(c, FX_LC_OUT + 2);
    fx_lc_loop groups;

    if (fx_lc_has(c, 1))
        s.residual = fx_lc_mat(c, 1, offsetof(fx_rmsnorm_args, residual.p), cols, FX_KIR_IN);
    if (fx_lc_has(c, FX_LC_OUT))
        keep_sum(c, &s, cols);
    if (!y && !q8)
        return;
    s.w = fx_lc_vec(c, 2, offsetof(fx_rmsnorm_args, w), a->dim);
    s.y = y ? fx_lc_mat(c, FX_LC_OUT + 1, offsetof(fx_rmsnorm_args, y.p), cols, FX_KIR_OUT) : NULL;
    if (q8) {
        fx_lc_put_blocks(c, FX_LC_OUT + 2, offsetof(fx_rmsnorm_args, q8), normed_block,
                         &(normed_row){ &s, inverse_rms(c, &s, fx_lc_num(c, 0)) });
        return;
    }
    groups = fx_lc_times(c, a->n_groups);
    fx_lc_rms(c, &s, op2(c, FX_KIR_MUL, groups.i, fx_lc_num(c, a->dim)));
    fx_lc_end(c, &groups);
}

/* ---- Layer norm ------------------------------------------------------------------------------------------- */

typedef struct layer_norm {
    const fx_layernorm_args *a;
    fx_kop *x, *y, *w, *b;
} layer_norm;

static fx_kop *group_vector(fx_lc *c, fx_kop *v, int64_t step, fx_kop *first, fx_kop *j)
{
    fx_kop *at = step ? op2(c, FX_KIR_ADD, first, j) : j;

    return fx_kir_load(c->m, v, &at, 1, 1, NULL);
}

/* The mean first, then the squares of what lies around it. */
static void layer_norm_group(fx_lc *c, const layer_norm *n, fx_kop *g)
{
    fx_kop *first = op2(c, FX_KIR_MUL, g, fx_lc_num(c, n->a->dim)), *mean, *inv, *v;
    fx_lc_loop loop = fx_lc_fold(c, FX_KIR_SUM, n->a->dim);

    mean = fx_lc_folded(c, &loop, fx_lc_load(c, n->x, op2(c, FX_KIR_ADD, first, loop.i), 1), NULL);
    mean = op2(c, FX_KIR_DIV, mean, fx_lc_f32(c, (double)(float)n->a->dim, 1));
    loop = fx_lc_fold(c, FX_KIR_DOT, n->a->dim);
    v = op2(c, FX_KIR_SUB, fx_lc_load(c, n->x, op2(c, FX_KIR_ADD, first, loop.i), 1), mean);
    inv = inverse(c, fx_lc_folded(c, &loop, v, v), n->a->dim, n->a->eps);
    loop = fx_lc_each(c, n->a->dim);
    v = op2(c, FX_KIR_SUB, fx_lc_load(c, n->x, op2(c, FX_KIR_ADD, first, loop.i), 1), mean);
    v = op2(c, FX_KIR_MUL, v, inv);
    if (n->w)
        v = op2(c, FX_KIR_MUL, v, op2(c, FX_KIR_ADD, group_vector(c, n->w, n->a->w_step, first, loop.i),
                                      fx_lc_f32(c, (double)n->a->w_offset, 1)));
    if (n->b)
        v = op2(c, FX_KIR_ADD, v, group_vector(c, n->b, n->a->b_step, first, loop.i));
    fx_lc_store(c, n->y, v, op2(c, FX_KIR_ADD, first, loop.i));
    fx_lc_end(c, &loop);
}

static void make_layernorm(fx_lc *c)
{
    const fx_layernorm_args *a = &c->l->args.layernorm;
    layer_norm n = { .a = a, .x = fx_lc_mat(c, 0, offsetof(fx_layernorm_args, x.p), a->dim * a->n_groups, FX_KIR_IN) };
    fx_lc_loop groups;

    if (fx_lc_has(c, 1))
        n.w = fx_lc_vec(c, 1, offsetof(fx_layernorm_args, w), a->w_step ? a->dim * a->n_groups : a->dim);
    if (fx_lc_has(c, 2))
        n.b = fx_lc_vec(c, 2, offsetof(fx_layernorm_args, b), a->b_step ? a->dim * a->n_groups : a->dim);
    n.y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_layernorm_args, y.p), a->dim * a->n_groups, FX_KIR_OUT);
    groups = fx_lc_times(c, a->n_groups);
    layer_norm_group(c, &n, groups.i);
    fx_lc_end(c, &groups);
}

/* ---- Gated norm ------------------------------------------------------------------------------------------- */

typedef struct gated {
    const fx_gated_norm_args *a;
    fx_kop *x, *z, *w, *y;
} gated;

static fx_kop *gate_of(fx_lc *c, const gated *g, fx_kop *at) { return fx_kir_silu(c->m, fx_lc_load(c, g->z, at, 1)); }

/* What is normed: x, or x times the gate. */
static fx_kop *gated_value(fx_lc *c, const gated *g, fx_kop *at)
{
    fx_kop *v = fx_lc_load(c, g->x, at, 1);

    return g->a->gate_first ? op2(c, FX_KIR_MUL, v, gate_of(c, g, at)) : v;
}

static void gated_group(fx_lc *c, const gated *g, fx_kop *first)
{
    fx_lc_loop loop = fx_lc_fold(c, FX_KIR_DOT, g->a->dim);
    fx_kop *v = gated_value(c, g, op2(c, FX_KIR_ADD, first, loop.i)), *inv, *at;

    inv = inverse(c, fx_lc_folded(c, &loop, v, v), g->a->dim, g->a->eps);
    loop = fx_lc_each(c, g->a->dim);
    at = op2(c, FX_KIR_ADD, first, loop.i);
    v = op2(c, FX_KIR_MUL, gated_value(c, g, at), inv);
    v = op2(c, FX_KIR_MUL, v, group_vector(c, g->w, g->a->w_step, first, loop.i));
    if (!g->a->gate_first)
        v = op2(c, FX_KIR_MUL, v, gate_of(c, g, at));
    fx_lc_store(c, g->y, v, at);
    fx_lc_end(c, &loop);
}

static void make_gated_norm(fx_lc *c)
{
    const fx_gated_norm_args *a = &c->l->args.gated_norm;
    int64_t cols = a->dim * a->n_groups;
    gated g = { .a = a, .x = fx_lc_mat(c, 0, offsetof(fx_gated_norm_args, x.p), cols, FX_KIR_IN) };
    fx_lc_loop groups;

    g.z = fx_lc_mat(c, 1, offsetof(fx_gated_norm_args, z.p), cols, FX_KIR_IN);
    g.w = fx_lc_vec(c, 2, offsetof(fx_gated_norm_args, w), a->w_step ? cols : a->dim);
    g.y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_gated_norm_args, y.p), cols, FX_KIR_OUT);
    groups = fx_lc_times(c, a->n_groups);
    gated_group(c, &g, op2(c, FX_KIR_MUL, groups.i, fx_lc_num(c, a->dim)));
    fx_lc_end(c, &groups);
}

/* ---- Softmax --------------------------------------------------------------------------------------------------- */

static void make_softmax(fx_lc *c)
{
    int64_t n = c->l->args.softmax.dim;
    fx_kop *x = fx_lc_mat(c, 0, offsetof(fx_softmax_args, x.p), n, FX_KIR_IN), *y, *most, *sum;
    fx_lc_loop loop;

    y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_softmax_args, y.p), n, FX_KIR_INOUT);
    loop = fx_lc_fold(c, FX_KIR_GREATEST, n);
    most = fx_lc_folded(c, &loop, fx_lc_load(c, x, loop.i, 1), NULL);
    loop = fx_lc_each(c, n);
    fx_lc_store(c, y, op1(c, FX_KIR_EXP, op2(c, FX_KIR_SUB, fx_lc_load(c, x, loop.i, 1), most)), loop.i);
    fx_lc_end(c, &loop);
    loop = fx_lc_fold(c, FX_KIR_SUM, n);
    sum = fx_lc_folded(c, &loop, fx_lc_load(c, y, loop.i, 1), NULL);
    sum = op2(c, FX_KIR_DIV, fx_lc_f32(c, 1, 1), sum);
    loop = fx_lc_each(c, n);
    fx_lc_store(c, y, op2(c, FX_KIR_MUL, fx_lc_load(c, y, loop.i, 1), sum), loop.i);
    fx_lc_end(c, &loop);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

const fx_lc_maker fx_lc_norms[] = {
    { FX_L_QUANT, make_quant, offsetof(fx_quant_args, n_rows), NULL, NULL },
    { FX_L_RMSNORM, make_rmsnorm, offsetof(fx_rmsnorm_args, n_rows), NULL, NULL },
    { FX_L_LAYERNORM, make_layernorm, offsetof(fx_layernorm_args, n_rows), NULL, NULL },
    { FX_L_ROPE_STORE, fx_lc_make_rope, FX_LC_STEP_ROWS, fx_lc_can_rope, NULL },
    { FX_L_GATED_NORM, make_gated_norm, offsetof(fx_gated_norm_args, n_rows), NULL, NULL },
    { FX_L_SOFTMAX, make_softmax, offsetof(fx_softmax_args, n_rows), NULL, NULL },
};
const size_t fx_lc_n_norms = FX_COUNT(fx_lc_norms);
