/* shape_index.c - shape rules of gathers, scatters and what sorts. */
#include "graph/shape_int.h"

/* Appends axes from..to-1 of t to y. */
static bool append(fx_module *m, const fx_op *op, fx_type *y, const fx_type *t, int from, int to)
{
    for (int i = from; i < to; i++) {
        if (y->rank == FX_MAX_RANK)
            return fx_rule_bad(m, op, "too many axes");
        y->dim[y->rank++] = t->dim[i];
    }
    return true;
}

static bool gathers(fx_module *m, const fx_op *op, const fx_type *x, const fx_type *indices)
{
    return (is_plain(x) && is_ints(indices)) || fx_rule_bad(m, op, "expected numbers or bools, and integer indices");
}

bool fx_rule_gather(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *indices = in_type(op, 1);
    fx_type y = { .dtype = x->dtype };
    int axis;

    return gathers(m, op, x, indices) && fx_rule_axis(m, op, FX_A_AXIS, x->rank, &axis) &&
           append(m, op, &y, x, 0, axis) && append(m, op, &y, indices, 0, indices->rank) &&
           append(m, op, &y, x, axis + 1, x->rank) && set_out(op, 0, y);
}

/* How many axes of x a row of indices names: its last axis, a number. */
static bool places(fx_module *m, const fx_op *op, const fx_type *x, const fx_type *indices, int batch, int *k)
{
    fx_dim last = fx_type_last(indices);

    if (indices->rank < 1 + batch || !fx_dim_is_static(last) || last.n < 1 || last.n > x->rank - batch)
        return fx_rule_bad(m, op, "the last axis of indices must be a number from 1 to %d", x->rank - batch);
    *k = (int)last.n;
    return true;
}

bool fx_rule_gather_nd(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *indices = in_type(op, 1);
    int64_t batch = fx_op_i(op, FX_A_BATCH_DIMS);
    fx_type y = { .dtype = x->dtype };
    int k, b;

    if (!gathers(m, op, x, indices))
        return false;
    if (batch < 0 || batch >= x->rank || batch >= indices->rank)
        return fx_rule_bad(m, op, "batch_dims must be less than both ranks");
    b = (int)batch;
    for (int i = 0; i < b; i++) {
        if (!fx_dim_eq(x->dim[i], indices->dim[i]))
            return fx_rule_bad(m, op, "batch axis %d differs", i);
    }
    return places(m, op, x, indices, b, &k) && append(m, op, &y, indices, 0, indices->rank - 1) &&
           append(m, op, &y, x, b + k, x->rank) && set_out(op, 0, y);
}

static bool scatters(fx_module *m, const fx_op *op)
{
    const fx_type *x = in_type(op, 0), *updates = in_type(op, 1);

    if (!gathers(m, op, x, in_type(op, 2)))
        return false;
    return x->dtype == updates->dtype || fx_rule_bad(m, op, "updates must have the dtype of x");
}

static bool only_numbers(fx_module *m, const fx_op *op)
{
    return is_numbers(in_type(op, 0)) || fx_rule_bad(m, op, "expected numbers");
}

bool fx_rule_scatter(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *updates = in_type(op, 1), *indices = in_type(op, 2);
    int axis;

    if (!scatters(m, op) || !fx_rule_axis(m, op, FX_A_AXIS, x->rank, &axis))
        return false;
    if (updates->rank != x->rank || indices->rank != x->rank)
        return fx_rule_bad(m, op, "x, updates and indices must have one rank");
    for (int i = 0; i < x->rank; i++) {
        fx_dim dx = x->dim[i], du = updates->dim[i];

        if (!fx_dim_eq(du, indices->dim[i]))
            return fx_rule_bad(m, op, "updates and indices must have one shape");
        if (i != axis && fx_dim_is_static(dx) && fx_dim_is_static(du) && du.n > dx.n)
            return fx_rule_bad(m, op, "updates leave axis %d of x", i);
    }
    return set_out(op, 0, *x);
}

bool fx_rule_scatter_number(fx_module *m, fx_op *op)
{
    return only_numbers(m, op) && fx_rule_scatter(m, op);
}

bool fx_rule_scatter_nd(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *updates = in_type(op, 1), *indices = in_type(op, 2);
    fx_type want = { .dtype = x->dtype };
    int k;

    if (!scatters(m, op) || !places(m, op, x, indices, 0, &k) ||
        !append(m, op, &want, indices, 0, indices->rank - 1) || !append(m, op, &want, x, k, x->rank))
        return false;
    if (!fx_type_eq(&want, updates))
        return fx_rule_bad(m, op, "updates must have the axes of indices but the last, then those of x behind the first %d", k);
    return set_out(op, 0, *x);
}

bool fx_rule_scatter_nd_number(fx_module *m, fx_op *op)
{
    return only_numbers(m, op) && fx_rule_scatter_nd(m, op);
}

bool fx_rule_masked_scatter(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *mask = in_type(op, 1), *updates = in_type(op, 2);
    fx_type y = { .dtype = x->dtype };

    if (!is_plain(x) || mask->dtype != FX_BOOL || updates->dtype != x->dtype)
        return fx_rule_bad(m, op, "expected numbers or bools, a mask of bools, and updates of x's dtype");
    if (!fx_rule_broadcast(m, op, x, mask, &y))
        return false;
    return fx_type_eq(&y, x) ? set_out(op, 0, *x) : fx_rule_bad(m, op, "the mask is larger than x");
}

/* An out_dim that the caller has named. */
static bool named_out(fx_module *m, const fx_op *op, fx_dim *out)
{
    *out = fx_op_dim(op, FX_A_OUT_DIM);
    return !fx_dim_is_static(*out) || out->n >= 0 || fx_rule_bad(m, op, "expected out_dim: a name or a number");
}

bool fx_rule_nonzero(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    fx_dim out;

    if (!is_plain(x) || x->rank < 1)
        return fx_rule_bad(m, op, "expected numbers or bools with an axis");
    return named_out(m, op, &out) && set_out(op, 0, fx_type2(FX_I64, out, fx_dim_of(x->rank)));
}

bool fx_rule_argsort(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);

    if (!is_numbers(x) || x->rank != 1)
        return fx_rule_bad(m, op, "expected numbers with one axis");
    return set_out(op, 0, fx_type1(FX_I64, x->dim[0]));
}

bool fx_rule_top_k(fx_module *m, fx_op *op)
{
    fx_type y = *in_type(op, 0);
    fx_dim k = fx_op_dim(op, FX_A_K);
    int axis;

    if (!only_numbers(m, op) || !fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    if (fx_dim_is_static(k) && (k.n < 0 || (fx_dim_is_static(y.dim[axis]) && k.n > y.dim[axis].n)))
        return fx_rule_bad(m, op, "k must be from 0 to what the axis has");
    y.dim[axis] = k;
    set_out(op, 0, y);
    y.dtype = FX_I64;
    return set_out(op, 1, y);
}

bool fx_rule_nms(fx_module *m, fx_op *op)
{
    const fx_type *boxes = in_type(op, 0), *scores = in_type(op, 1);
    fx_dim out;

    if (!is_floats(boxes) || boxes->dtype != scores->dtype || boxes->rank != 3 || scores->rank != 3 ||
        !fx_dim_eq(boxes->dim[2], fx_dim_of(4)))
        return fx_rule_bad(m, op, "expected floats boxes [n, b, 4] and scores [n, classes, b]");
    if (!fx_dim_eq(boxes->dim[0], scores->dim[0]) || !fx_dim_eq(boxes->dim[1], scores->dim[2]))
        return fx_rule_bad(m, op, "boxes and scores differ in batches or boxes");
    if (fx_op_i(op, FX_A_MAX_BOXES) < 0 || !in_range(fx_op_f(op, FX_A_MAX_OVERLAP), 0, 1) ||
        isnan(fx_op_f(op, FX_A_MIN_SCORE)))
        return fx_rule_bad(m, op, "max_boxes can't be negative, iou_threshold must be from 0 to 1, score_threshold a number");
    return named_out(m, op, &out) && set_out(op, 0, fx_type2(FX_I64, out, fx_dim_of(3)));
}
