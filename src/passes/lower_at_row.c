/* lower_at_row.c - ops that look along an axis: reductions, softmax, norms, products, windows.
 *
 * What a row has in common (its maximum, its sum, its scale) is computed by a loop of its own, in front of
 * the loops that don't change it (fx_lk_hoist), once.
 *
 * How sums are formed is part of the op: along the last axis in LANES lanes, along others in order; products
 * add in order of k, by fma. */
#include "passes/lower_kir_int.h"

#include <math.h>

#define LANES 64

static const fx_type *type_in(const fx_op *op, int i) { return &fx_op_in(op, i)->type; }
static fx_kop *to(fx_lk *c, fx_kop *x, fx_dtype t) { return x ? fx_kir_convert(c->m, x, t) : NULL; }

/* ---- Rows ------------------------------------------------------------------------------------------- */

/* A row of operand 0: all along an axis (or a part of it), at one index of the others. */
typedef struct row {
    fx_op *op;
    int rank, axis, lanes;
    fx_dtype wide;
    fx_kop *index[FX_MAX_RANK];  /* that of the axis is where the row begins */
    fx_kop *n;                   /* its length */
} row;

static row row_of(fx_lk *c, fx_op *op, int axis, fx_kop *const *index)
{
    const fx_type *x = type_in(op, 0);
    row r = { .op = op, .rank = x->rank, .axis = axis, .lanes = axis == x->rank - 1 ? LANES : 1, .wide = fx_lk_wide(x->dtype) };

    memcpy(r.index, index, (size_t)x->rank * sizeof(*index));
    r.index[axis] = fx_lk_num(c, 0);
    r.n = fx_lk_size(c, x->dim[axis]);
    return r;
}

static fx_kop *element(fx_lk *c, const row *r, fx_kop *k)
{
    fx_kop *own[FX_MAX_RANK];

    memcpy(own, r->index, (size_t)r->rank * sizeof(*own));
    own[r->axis] = fx_lk_add(c, r->index[r->axis], k);
    return to(c, fx_lk_value(c, fx_op_in(r->op, 0), own), r->wide);
}

/* Something of the row that is made once: 'make' is called where the row's index is known. */
typedef fx_kop *(*row_fn)(fx_lk *c, const row *r);
enum { PART_MAX = 1, PART_SUM, PART_MEAN, PART_SCALE };
static fx_kop *of_row(fx_lk *c, const row *r, int part, row_fn make)
{
    const fx_value *v = &r->op->out[0];
    fx_kop *was = c->mask, *at;
    fx_lk_scope s;
    row own = *r;

    c->mask = fx_lk_mask_for(c, r->index, r->rank);      /* what only guards a place in the row doesn't matter to all of it */
    at = fx_lk_recall(c, v, part, r->index, r->rank);
    if (!at && !c->m->failed) {
        s = fx_lk_hoist(c, r->index, r->rank, own.index);
        own.n = r->n && r->n->code == FX_KIR_CONST ? fx_lk_num(c, r->n->u.i) : r->n;
        at = make(c, &own);
        fx_lk_leave(c, s);
        at = fx_lk_remember(c, v, part, r->index, r->rank, at);
    }
    c->mask = was;
    return at;
}

static fx_kop *row_max(fx_lk *c, const row *r)
{
    fx_lk_fold f = fx_lk_fold_begin(c, FX_KIR_GREATEST, r->lanes, r->wide, r->n);

    return fx_lk_fold_end(c, &f, element(c, r, f.k), NULL);
}

static fx_kop *row_mean(fx_lk *c, const row *r)
{
    fx_lk_fold f = fx_lk_fold_begin(c, FX_KIR_SUM, r->lanes, r->wide, r->n);
    fx_kop *sum = fx_lk_fold_end(c, &f, element(c, r, f.k), NULL);

    return op2(c, FX_KIR_DIV, sum, to(c, r->n, r->wide));
}

/* ---- Reductions ------------------------------------------------------------------------------------------ */

static fx_kir_combine kind_of(fx_opcode code)
{
    static const struct {
        fx_opcode op;
        fx_kir_combine kind;
    } rows[] = {
        { FX_OP_SUM, FX_KIR_SUM }, { FX_OP_MEAN, FX_KIR_SUM }, { FX_OP_PROD, FX_KIR_PROD }, { FX_OP_REDUCE_MAX, FX_KIR_GREATEST },
        { FX_OP_REDUCE_MIN, FX_KIR_LEAST }, { FX_OP_ARGMAX, FX_KIR_ARGGREATEST }, { FX_OP_ARGMIN, FX_KIR_ARGLEAST },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (rows[i].op == code)
            return rows[i].kind;
    }
    return FX_KIR_SUM;
}

static fx_kop *row_reduced(fx_lk *c, const row *r)
{
    fx_lk_fold f = fx_lk_fold_begin(c, kind_of(r->op->code), r->lanes, r->wide, r->n);
    fx_kop *y = fx_lk_fold_end(c, &f, element(c, r, f.k), NULL);

    return r->op->code == FX_OP_MEAN ? op2(c, FX_KIR_DIV, y, to(c, r->n, r->wide)) : y;
}

/* The first place of the extreme: that of the first element equal to it, or of the first NaN if it is NaN. */
static fx_kop *row_arg(fx_lk *c, const row *r)
{
    fx_kir_combine kind = kind_of(r->op->code) == FX_KIR_ARGLEAST ? FX_KIR_LEAST : FX_KIR_GREATEST;
    fx_lk_fold f = fx_lk_fold_begin(c, kind, r->lanes, r->wide, r->n), g;
    fx_kop *best = fx_lk_fold_end(c, &f, element(c, r, f.k), NULL), *x, *here, *at, *none;

    g = fx_lk_fold_begin(c, FX_KIR_LEAST, r->lanes, FX_I64, r->n);
    x = element(c, r, g.k);
    here = op2(c, FX_KIR_EQ, x, best);
    if (fx_dtype_is_float(r->wide))
        here = op2(c, FX_KIR_OR, here, op2(c, FX_KIR_NE, x, x));
    at = fx_lk_fold_end(c, &g, select3(c, here, g.k, fx_lk_num(c, INT64_MAX)), NULL);
    none = fx_lk_num(c, -1);             /* of an empty row */
    return select3(c, op2(c, FX_KIR_EQ, at, fx_lk_num(c, INT64_MAX)), none, at);
}

AT_FN(fx_at_reduce)
{
    bool arg = op->code == FX_OP_ARGMAX || op->code == FX_OP_ARGMIN;
    row r = row_of(c, op, fx_op_axis(op, FX_A_AXIS, type_in(op, 0)->rank), index);

    return to(c, of_row(c, &r, PART_SUM, arg ? row_arg : row_reduced), op->out[result].type.dtype);
}

/* ---- Softmax ------------------------------------------------------------------------------------------------ */

static fx_kop *row_exp_sum(fx_lk *c, const row *r)
{
    fx_kop *max = of_row(c, r, PART_MAX, row_max);
    fx_lk_fold f = fx_lk_fold_begin(c, FX_KIR_SUM, r->lanes, r->wide, r->n);

    return fx_lk_fold_end(c, &f, op1(c, FX_KIR_EXP, op2(c, FX_KIR_SUB, element(c, r, f.k), max)), NULL);
}

AT_FN(fx_at_softmax)
{
    row r = row_of(c, op, fx_op_axis(op, FX_A_AXIS, type_in(op, 0)->rank), index);
    fx_kop *max = of_row(c, &r, PART_MAX, row_max), *sum = of_row(c, &r, PART_SUM, row_exp_sum);
    fx_kop *x = op2(c, FX_KIR_SUB, element(c, &r, index[r.axis]), max);

    if (op->code == FX_OP_SOFTMAX)
        x = op2(c, FX_KIR_DIV, op1(c, FX_KIR_EXP, x), sum);
    else
        x = op2(c, FX_KIR_SUB, x, op1(c, FX_KIR_LOG, sum));
    return to(c, x, op->out[result].type.dtype);
}

/* ---- Norms ---------------------------------------------------------------------------------------------------- */

/* 1 / sqrt(x / n + eps) */
static fx_kop *scale_of(fx_lk *c, const row *r, fx_kop *squares)
{
    fx_kop *x = op2(c, FX_KIR_DIV, squares, to(c, r->n, r->wide));

    x = op2(c, FX_KIR_ADD, x, fx_lk_const(c, x, fx_op_f(r->op, FX_A_EPS)));
    return op2(c, FX_KIR_DIV, fx_lk_const(c, x, 1), op1(c, FX_KIR_SQRT, x));
}

static fx_kop *row_rms(fx_lk *c, const row *r)
{
    fx_lk_fold f = fx_lk_fold_begin(c, FX_KIR_DOT, r->lanes, r->wide, r->n);
    fx_kop *x = element(c, r, f.k);

    return scale_of(c, r, fx_lk_fold_end(c, &f, x, x));
}

static fx_kop *row_deviation(fx_lk *c, const row *r)
{
    fx_kop *mean = of_row(c, r, PART_MEAN, row_mean), *d;
    fx_lk_fold f = fx_lk_fold_begin(c, FX_KIR_DOT, r->lanes, r->wide, r->n);

    d = op2(c, FX_KIR_SUB, element(c, r, f.k), mean);
    return scale_of(c, r, fx_lk_fold_end(c, &f, d, d));
}

/* The group of 'width' columns of the last axis that holds column j. */
static row group_of(fx_lk *c, fx_op *op, fx_dim width, fx_kop *const *index)
{
    const fx_type *x = type_in(op, 0);
    row r = row_of(c, op, x->rank - 1, index);

    if (!fx_dim_eq(width, x->dim[x->rank - 1])) {
        r.n = fx_lk_size(c, width);
        r.index[r.axis] = fx_lk_mul(c, fx_lk_div(c, index[r.axis], r.n), r.n);
    }
    return r;
}

/* Element of a vector that is as long as a group or as all columns. */
static fx_kop *of_columns(fx_lk *c, const row *r, fx_value *v, fx_kop *col)
{
    fx_dim all = fx_type_last(type_in(r->op, 0));
    fx_kop *at = fx_dim_eq(v->type.dim[0], all) ? col : fx_lk_sub(c, col, r->index[r->axis]);

    return to(c, fx_lk_value(c, v, &at), r->wide);
}

static fx_kop *plus_offset(fx_lk *c, const fx_op *op, fx_kop *w)
{
    double offset = (double)(float)fx_op_f(op, FX_A_OFFSET);

    return offset == 0 || !w ? w : op2(c, FX_KIR_ADD, w, fx_lk_const(c, w, offset));
}

AT_FN(fx_at_rmsnorm)
{
    row r = group_of(c, op, type_in(op, 1)->dim[0], index);
    fx_kop *scale = of_row(c, &r, PART_SCALE, row_rms), *col = index[r.axis];
    fx_kop *x = op2(c, FX_KIR_MUL, to(c, fx_lk_value(c, fx_op_in(op, 0), index), r.wide), scale);
    fx_dtype t = op->out[result].type.dtype;

    if (!fx_op_i(op, FX_A_MULTIPLY_FIRST))
        x = to(c, to(c, x, t), r.wide);
    x = op2(c, FX_KIR_MUL, x, plus_offset(c, op, of_columns(c, &r, fx_op_in(op, 1), col)));
    return to(c, x, t);
}

AT_FN(fx_at_layernorm)
{
    int64_t groups = fx_op_i(op, FX_A_GROUPS);
    fx_dim all = fx_type_last(type_in(op, 0)), width = groups > 1 ? fx_dim_of(all.n / groups) : all;
    row r = group_of(c, op, width, index);
    fx_kop *mean = of_row(c, &r, PART_MEAN, row_mean), *scale = of_row(c, &r, PART_SCALE, row_deviation), *col = index[r.axis];
    fx_kop *x = op2(c, FX_KIR_SUB, to(c, fx_lk_value(c, fx_op_in(op, 0), index), r.wide), mean);

    x = op2(c, FX_KIR_MUL, x, scale);
    if (fx_op_in(op, 1))
        x = op2(c, FX_KIR_MUL, x, plus_offset(c, op, of_columns(c, &r, fx_op_in(op, 1), col)));
    if (fx_op_in(op, 2))
        x = op2(c, FX_KIR_ADD, x, of_columns(c, &r, fx_op_in(op, 2), col));
    return to(c, x, op->out[result].type.dtype);
}

/* A group of channels at all places is the row: channels first [n, channels, places...]. */
typedef struct places {
    row r;
    fx_dim dim[FX_MAX_RANK];     /* channels of a group, then the places */
    fx_kop *first;               /* channel */
} places;

static fx_kop *place_of(fx_lk *c, const places *p, fx_kop *k)
{
    fx_kop *own[FX_MAX_RANK];
    int rank = p->r.rank;

    own[0] = p->r.index[0];
    fx_lk_unravel(c, k, p->dim, rank - 1, own + 1);
    own[1] = fx_lk_add(c, own[1], p->first);
    return to(c, fx_lk_value(c, fx_op_in(p->r.op, 0), own), p->r.wide);
}

/* The row's index is [n, group]; that is all its statistics depend on. */
static places places_of(fx_lk *c, const row *r)
{
    const fx_type *x = type_in(r->op, 0);
    places p = { .r = *r };

    p.dim[0] = fx_dim_of(x->dim[1].n / fx_op_i(r->op, FX_A_GROUPS));
    p.r.n = fx_lk_size(c, p.dim[0]);
    for (int i = 2; i < x->rank; i++) {
        p.dim[i - 1] = x->dim[i];
        p.r.n = fx_lk_mul(c, p.r.n, fx_lk_size(c, x->dim[i]));
    }
    p.r.rank = x->rank;
    p.first = fx_lk_mul(c, r->index[1], fx_lk_num(c, p.dim[0].n));
    return p;
}

static fx_kop *group_mean(fx_lk *c, const row *r)
{
    places p = places_of(c, r);
    fx_lk_fold f = fx_lk_fold_begin(c, FX_KIR_SUM, LANES, r->wide, p.r.n);
    fx_kop *sum = fx_lk_fold_end(c, &f, place_of(c, &p, f.k), NULL);

    return op2(c, FX_KIR_DIV, sum, to(c, p.r.n, r->wide));
}

static fx_kop *group_scale(fx_lk *c, const row *r)
{
    places p = places_of(c, r);
    fx_kop *mean = of_row(c, r, PART_MEAN, group_mean), *d;
    fx_lk_fold f = fx_lk_fold_begin(c, FX_KIR_DOT, LANES, r->wide, p.r.n);

    d = op2(c, FX_KIR_SUB, place_of(c, &p, f.k), mean);
    return scale_of(c, &p.r, fx_lk_fold_end(c, &f, d, d));
}

AT_FN(fx_at_group_norm)
{
    const fx_type *x = type_in(op, 0);
    int64_t width = x->dim[1].n / fx_op_i(op, FX_A_GROUPS);
    row r = { .op = op, .rank = 2, .wide = fx_lk_wide(x->dtype), .index = { index[0], fx_lk_div(c, index[1], fx_lk_num(c, width)) } };
    fx_kop *mean = of_row(c, &r, PART_MEAN, group_mean), *scale = of_row(c, &r, PART_SCALE, group_scale), *y;

    y = op2(c, FX_KIR_SUB, to(c, fx_lk_value(c, fx_op_in(op, 0), index), r.wide), mean);
    y = op2(c, FX_KIR_MUL, y, scale);
    y = op2(c, FX_KIR_MUL, y, to(c, fx_lk_value(c, fx_op_in(op, 1), &index[1]), r.wide));
    y = op2(c, FX_KIR_ADD, y, to(c, fx_lk_value(c, fx_op_in(op, 2), &index[1]), r.wide));
    return to(c, y, op->out[result].type.dtype);
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* Operand i of a matmul at the outer axes of 'index', then at row and col; a vector has only k. */
static fx_kop *factor(fx_lk *c, fx_op *op, int i, int n_outer, fx_kop *const *index, fx_kop *row_at, fx_kop *col_at, fx_dtype wide)
{
    const fx_type *t = type_in(op, i);
    fx_kop *own[FX_MAX_RANK];
    int outer = t->rank > 2 ? t->rank - 2 : 0;

    for (int k = 0; k < outer; k++)
        own[k] = fx_dim_eq(t->dim[k], fx_dim_of(1)) ? fx_lk_num(c, 0) : index[n_outer - outer + k];
    if (t->rank == 1)
        own[0] = i == 0 ? col_at : row_at;
    else {
        own[outer] = row_at;
        own[outer + 1] = col_at;
    }
    return to(c, fx_lk_value(c, fx_op_in(op, i), own), wide);
}

AT_FN(fx_at_matmul)
{
    const fx_type *y = &op->out[result].type, *a = type_in(op, 0), *b = type_in(op, 1);
    int n_outer = y->rank - (a->rank > 1) - (b->rank > 1);
    fx_dtype wide = fx_lk_wide(y->dtype);
    fx_kop *i = a->rank > 1 ? index[n_outer] : NULL, *j = b->rank > 1 ? index[y->rank - 1] : NULL, *p, *q;
    bool fused = fx_dtype_is_float(wide);        /* integers are multiplied, then added */
    fx_lk_fold f = fx_lk_fold_begin(c, fused ? FX_KIR_DOT : FX_KIR_SUM, 1, wide, fx_lk_size(c, fx_type_last(a)));

    p = factor(c, op, 0, n_outer, index, i, f.k, wide);
    q = factor(c, op, 1, n_outer, index, f.k, j, wide);
    return to(c, fused ? fx_lk_fold_end(c, &f, p, q) : fx_lk_fold_end(c, &f, op2(c, FX_KIR_MUL, p, q), NULL), y->dtype);
}

/* x @ w^T: both lie along k. */
AT_FN(fx_at_linear)
{
    const fx_type *y = &op->out[result].type;
    fx_kop *own[2] = { index[0] }, *w[2] = { index[1] }, *v, *p, *q;
    fx_lk_fold f;

    if (fx_dtype_is_quant(type_in(op, 1)->dtype) || type_in(op, 0)->dtype != FX_F32 || fx_op_in(op, 4))
        return fx_lk_fail(c, op, "quantized products have kernels of their own");
    f = fx_lk_fold_begin(c, FX_KIR_DOT, LANES, FX_F32, fx_lk_size(c, fx_type_last(type_in(op, 0))));
    own[1] = w[1] = f.k;
    p = fx_lk_value(c, fx_op_in(op, 0), own);
    q = to(c, fx_lk_value(c, fx_op_in(op, 1), w), FX_F32);
    v = fx_lk_fold_end(c, &f, p, q);
    if (fx_op_f(op, FX_A_SCALE) != 1)
        v = op2(c, FX_KIR_MUL, v, fx_lk_const(c, v, fx_op_f(op, FX_A_SCALE)));
    if (fx_op_in(op, 2))
        v = op2(c, FX_KIR_ADD, v, to(c, fx_lk_value(c, fx_op_in(op, 2), &index[1]), FX_F32));
    if (fx_op_in(op, 3))
        v = op2(c, FX_KIR_ADD, v, to(c, fx_lk_value(c, fx_op_in(op, 3), index), FX_F32));
    return to(c, v, y->dtype);
}

/* ---- Windows --------------------------------------------------------------------------------------------------------- */

/* Where element r of the window at place i lies along axis n of an image: stride * i + dilation * r - padding. */
static fx_kop *in_window(fx_lk *c, const fx_op *op, int n, fx_kop *i, fx_kop *r)
{
    fx_kop *at = fx_lk_mul(c, i, fx_lk_num(c, fx_op_int_at(op, FX_A_STRIDES, n, 1)));

    at = fx_lk_add(c, at, fx_lk_mul(c, r, fx_lk_num(c, fx_op_int_at(op, FX_A_DILATIONS, n, 1))));
    return fx_lk_sub(c, at, fx_lk_num(c, fx_op_int_at(op, FX_A_PADDING, 2 * n, 0)));
}

static fx_kop *both(fx_lk *c, fx_kop *a, fx_kop *b) { return a && b ? op2(c, FX_KIR_AND, a, b) : a ? a : b; }

AT_FN(fx_at_conv)
{
    const fx_type *y = &op->out[result].type, *x = type_in(op, 0), *w = type_in(op, 1);
    int n = y->rank - 2, xc = fx_op_i(op, FX_A_INPUT_LAYOUT) ? 1 : n + 1, xs = fx_op_i(op, FX_A_INPUT_LAYOUT) ? 2 : 1;
    bool first = fx_op_i(op, FX_A_FILTER_LAYOUT) != 0;
    int wf = first ? 0 : n + 1, wc = first ? 1 : n, ws = first ? 2 : 0;
    int64_t groups = fx_op_i(op, FX_A_GROUPS);
    fx_dtype wide = fx_lk_wide(y->dtype);
    fx_dim dim[FX_MAX_RANK];             /* of the window, then channels: the order of summation */
    fx_kop *at[FX_MAX_RANK], *px[FX_MAX_RANK] = { index[0] }, *pw[FX_MAX_RANK], *on = NULL, *was, *p, *q, *total = fx_lk_num(c, 1);
    fx_lk_fold f;

    for (int i = 0; i <= n; i++) {
        dim[i] = w->dim[i < n ? ws + i : wc];
        total = fx_lk_mul(c, total, fx_lk_size(c, dim[i]));
    }
    f = fx_lk_fold_begin(c, FX_KIR_DOT, 1, wide, total);
    fx_lk_unravel(c, f.k, dim, n + 1, at);
    pw[wf] = index[xc];
    pw[wc] = px[xc] = at[n];
    if (groups > 1)
        px[xc] = fx_lk_add(c, at[n], fx_lk_mul(c, fx_lk_div(c, index[xc], fx_lk_num(c, w->dim[wf].n / groups)), fx_lk_size(c, dim[n])));
    for (int i = 0; i < n; i++) {
        pw[ws + i] = at[i];
        px[xs + i] = in_window(c, op, i, index[xs + i], at[i]);
        if (px[xs + i] != index[xs + i])
            on = both(c, on, fx_lk_within(c, px[xs + i], fx_lk_num(c, 0), fx_lk_size(c, x->dim[xs + i])));
    }
    was = fx_lk_mask(c, on);
    p = to(c, fx_lk_value(c, fx_op_in(op, 0), px), wide);
    c->mask = was;
    q = to(c, fx_lk_value(c, fx_op_in(op, 1), pw), wide);
    p = fx_lk_fold_end(c, &f, on && p ? select3(c, on, p, fx_lk_const(c, p, 0)) : p, q);
    if (fx_op_in(op, 2))
        p = op2(c, FX_KIR_ADD, p, to(c, fx_lk_value(c, fx_op_in(op, 2), &index[xc]), wide));
    return to(c, p, y->dtype);
}

/* Of the two axes of a pool: is a place of the window in the image; and, for an average, does it count? */
static void pool_places(fx_lk *c, fx_op *op, fx_kop *const *index, fx_kop *k, fx_kop **own, fx_kop **on, fx_kop **counts)
{
    const fx_type *x = type_in(op, 0);
    fx_dim dim[2] = { fx_dim_of(fx_op_int_at(op, FX_A_KERNEL, 0, 1)), fx_dim_of(fx_op_int_at(op, FX_A_KERNEL, 1, 1)) };
    fx_kop *at[2];

    own[0] = index[0];
    own[3] = index[3];
    *on = *counts = NULL;
    fx_lk_unravel(c, k, dim, 2, at);
    for (int i = 0; i < 2; i++) {
        fx_kop *n = fx_lk_size(c, x->dim[1 + i]), *lo, *hi;

        own[1 + i] = in_window(c, op, i, index[1 + i], at[i]);
        *on = both(c, *on, fx_lk_within(c, own[1 + i], fx_lk_num(c, 0), n));
        lo = fx_lk_num(c, -fx_op_int_at(op, FX_A_PADDING, 2 * i, 0));
        hi = fx_lk_add(c, n, fx_lk_num(c, fx_op_int_at(op, FX_A_PADDING, 2 * i + 1, 0)));
        *counts = both(c, *counts, fx_lk_within(c, own[1 + i], lo, hi));
    }
}

static fx_kop *pool_fold(fx_lk *c, fx_op *op, fx_kop *const *index, bool count, fx_dtype wide)
{
    bool max = op->code == FX_OP_MAX_POOL2D;
    int64_t n = fx_op_int_at(op, FX_A_KERNEL, 0, 1) * fx_op_int_at(op, FX_A_KERNEL, 1, 1);
    fx_lk_fold f = fx_lk_fold_begin(c, max ? FX_KIR_GREATEST : FX_KIR_SUM, 1, wide, fx_lk_num(c, n));
    fx_kop *own[4], *on, *counts, *was, *x, *none;

    if (!f.loop)
        return NULL;
    pool_places(c, op, index, f.k, own, &on, &counts);
    if (count) {
        if (!fx_op_i(op, FX_A_COUNT_BOUNDARY))
            counts = on;
        return fx_lk_fold_end(c, &f, select3(c, counts, fx_lk_const(c, f.loop, 1), fx_lk_const(c, f.loop, 0)), NULL);
    }
    was = fx_lk_mask(c, on);
    x = to(c, fx_lk_value(c, fx_op_in(op, 0), own), wide);
    c->mask = was;
    none = !x ? NULL : !max ? fx_lk_const(c, x, 0) : fx_dtype_is_float(wide) ? fx_lk_const(c, x, -INFINITY)
           : fx_kir_int(c->m, x->type, (int64_t)fx_kir_neutral(FX_KIR_GREATEST, wide));
    return fx_lk_fold_end(c, &f, select3(c, on, x, none), NULL);
}

AT_FN(fx_at_pool)
{
    fx_dtype t = op->out[result].type.dtype, wide = fx_lk_wide(t);
    fx_kop *y = pool_fold(c, op, index, false, wide), *n;

    if (op->code == FX_OP_MAX_POOL2D || !y)
        return to(c, y, t);
    n = pool_fold(c, op, index, true, wide);
    y = select3(c, op2(c, FX_KIR_EQ, n, fx_lk_const(c, y, 0)), fx_lk_const(c, y, 0), op2(c, FX_KIR_DIV, y, n));
    return to(c, y, t);
}
