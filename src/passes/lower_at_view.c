/* lower_at_view.c - ops that move elements: what lies at an index is what lies at another one of an operand. */
#include "passes/lower_kir_int.h"

#include <math.h>

static const fx_type *type_in(const fx_op *op, int i) { return &fx_op_in(op, i)->type; }

AT_FN(fx_at_same)
{
    (void)result;
    return fx_lk_value(c, fx_op_in(op, 0), index);
}

AT_FN(fx_at_broadcast)
{
    return fx_lk_operand(c, op, 0, &op->out[result].type, index);
}

/* Axes [i, i + *ni) of a and [j, j + *nj) of b hold the same elements: the fewest that show it. */
static void match_axes(const fx_type *a, int i, const fx_type *b, int j, int *ni, int *nj)
{
    int64_t na, nb;

    *ni = *nj = 1;
    if (fx_dim_eq(a->dim[i], b->dim[j]))
        return;
    na = a->dim[i].n, nb = b->dim[j].n;
    for (bool known = fx_dim_is_static(a->dim[i]) && fx_dim_is_static(b->dim[j]); known && na != nb;) {
        const fx_type *t = na < nb ? a : b;
        int *n = na < nb ? ni : nj, at = (na < nb ? i : j) + *n;

        if (at >= t->rank || !fx_dim_is_static(t->dim[at]))
            break;
        *(na < nb ? &na : &nb) *= t->dim[at].n;
        ++*n;
    }
    if (na == nb && fx_dim_is_static(a->dim[i]) && fx_dim_is_static(b->dim[j]))
        return;
    *ni = a->rank - i;                   /* all that is left */
    *nj = b->rank - j;
}

/* The index in x of the element that lies at 'index' of a reshaped one. */
static void reshaped(fx_lk *c, const fx_type *y, fx_kop *const *index, const fx_type *x, fx_kop **own)
{
    int i = 0, j = 0, ni, nj;
    fx_kop *at;

    while (i < y->rank && j < x->rank) {
        if (fx_dim_eq(y->dim[i], fx_dim_of(1)) && !fx_dim_eq(x->dim[j], fx_dim_of(1))) {
            i++;
            continue;
        }
        if (fx_dim_eq(x->dim[j], fx_dim_of(1)) && !fx_dim_eq(y->dim[i], fx_dim_of(1))) {
            own[j++] = fx_lk_num(c, 0);
            continue;
        }
        match_axes(y, i, x, j, &ni, &nj);
        at = ni == 1 ? index[i] : fx_lk_ravel(c, index + i, y->dim + i, ni);
        fx_lk_unravel(c, at, x->dim + j, nj, own + j);
        i += ni;
        j += nj;
    }
    for (; j < x->rank; j++)
        own[j] = fx_lk_num(c, 0);
}

AT_FN(fx_at_reshape)
{
    fx_kop *own[FX_MAX_RANK];

    reshaped(c, &op->out[result].type, index, type_in(op, 0), own);
    return fx_lk_value(c, fx_op_in(op, 0), own);
}

AT_FN(fx_at_transpose)
{
    fx_kop *own[FX_MAX_RANK];
    int rank = op->out[result].type.rank, a = fx_op_axis(op, FX_A_AXIS_A, rank), b = fx_op_axis(op, FX_A_AXIS_B, rank);

    memcpy(own, index, (size_t)rank * sizeof(*own));
    own[a] = index[b];
    own[b] = index[a];
    return fx_lk_value(c, fx_op_in(op, 0), own);
}

AT_FN(fx_at_permute)
{
    fx_kop *own[FX_MAX_RANK];

    for (int i = 0; i < op->out[result].type.rank; i++) {
        int64_t axis = fx_op_int_at(op, FX_A_AXES, i, i);

        own[axis < 0 ? axis + op->out[result].type.rank : axis] = index[i];
    }
    return fx_lk_value(c, fx_op_in(op, 0), own);
}

/* Element of operand i with the axis' index replaced. */
static fx_kop *with_axis(fx_lk *c, const fx_op *op, int i, int axis, fx_kop *at, fx_kop *const *index)
{
    fx_kop *own[FX_MAX_RANK];

    memcpy(own, index, (size_t)type_in(op, i)->rank * sizeof(*own));
    own[axis] = at;
    return fx_lk_value(c, fx_op_in(op, i), own);
}

/* start + i * step, the start from the end where it is negative; an operand is added to it. */
AT_FN(fx_at_slice)
{
    int axis = fx_op_axis(op, FX_A_AXIS, op->out[result].type.rank);
    fx_kop *at = fx_lk_add(c, fx_lk_num(c, fx_op_i(op, FX_A_START)), fx_lk_mul(c, index[axis], fx_lk_num(c, fx_op_i(op, FX_A_STEP))));

    if (fx_op_in(op, 1)) {
        fx_kop *from = fx_lk_value(c, fx_op_in(op, 1), NULL);

        at = from ? fx_lk_add(c, at, fx_kir_convert(c->m, from, FX_I64)) : NULL;
    }
    return at ? with_axis(c, op, 0, axis, at, index) : NULL;
}

AT_FN(fx_at_split)
{
    int axis = fx_op_axis(op, FX_A_AXIS, op->out[result].type.rank);
    fx_kop *at = index[axis];

    for (int i = 0; i < result; i++)
        at = fx_lk_add(c, at, fx_lk_size(c, op->out[i].type.dim[axis]));
    return with_axis(c, op, 0, axis, at, index);
}

AT_FN(fx_at_tile)
{
    fx_kop *own[FX_MAX_RANK];
    const fx_type *x = type_in(op, 0);

    for (int i = 0; i < x->rank; i++)
        own[i] = fx_dim_eq(x->dim[i], op->out[result].type.dim[i]) ? index[i] : fx_lk_rem(c, index[i], fx_lk_size(c, x->dim[i]));
    return fx_lk_value(c, fx_op_in(op, 0), own);
}

AT_FN(fx_at_repeat)
{
    int axis = fx_op_axis(op, FX_A_AXIS, op->out[result].type.rank);

    return with_axis(c, op, 0, axis, fx_lk_div(c, index[axis], fx_lk_size(c, fx_op_dim(op, FX_A_TIMES))), index);
}

/* ---- Several operands ------------------------------------------------------------------------------ */

/* Where 'on', by which index 'of' is inside its axis: v at own; else 'other' (NULL: 0). */
static fx_kop *guarded(fx_lk *c, fx_kop *on, fx_kop *of, fx_value *v, fx_kop *const *own, fx_kop *other)
{
    fx_kop *was = fx_lk_guard(c, on, of), *x = fx_lk_value(c, v, own);

    c->mask = was;
    if (!x)
        return NULL;
    return select3(c, on, x, other ? other : fx_lk_const(c, x, 0));
}

AT_FN(fx_at_concat)
{
    const fx_type *t = &op->out[result].type;
    int axis = fx_op_axis(op, FX_A_AXIS, t->rank);
    fx_kop *from = fx_lk_num(c, 0), *y = NULL, *own[FX_MAX_RANK];

    memcpy(own, index, (size_t)t->rank * sizeof(*own));
    for (int i = 0; i < op->n_in; i++) {
        fx_kop *end = fx_lk_add(c, from, fx_lk_size(c, type_in(op, i)->dim[axis]));
        fx_kop *on = op2(c, FX_KIR_LT, index[axis], end);

        if (i > 0)
            on = op2(c, FX_KIR_AND, on, op2(c, FX_KIR_LE, from, index[axis]));
        own[axis] = fx_lk_sub(c, index[axis], from);
        y = guarded(c, on, own[axis], fx_op_in(op, i), own, y);
        from = end;
    }
    return y;
}

AT_FN(fx_at_stack)
{
    const fx_type *t = &op->out[result].type;
    int axis = fx_op_axis(op, FX_A_AXIS, t->rank);
    fx_kop *y = NULL, *own[FX_MAX_RANK];

    for (int i = 0, k = 0; i < t->rank; i++) {
        if (i != axis)
            own[k++] = index[i];
    }
    for (int i = 0; i < op->n_in; i++)
        y = guarded(c, op2(c, FX_KIR_EQ, index[axis], fx_lk_num(c, i)), NULL, fx_op_in(op, i), own, y);
    return y;
}

static bool is_zero(fx_dim d) { return fx_dim_eq(d, fx_dim_of(0)); }

enum { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE };    /* as the words of ops.def */

/* Place i of an axis of n, mirrored at both ends as often as it takes: period 2 (n - 1). */
static fx_kop *mirrored(fx_lk *c, fx_kop *i, fx_kop *n)
{
    fx_kop *last = fx_lk_sub(c, n, fx_lk_num(c, 1)), *period = op2(c, FX_KIR_MAX, fx_lk_mul(c, last, fx_lk_num(c, 2)), fx_lk_num(c, 1));
    fx_kop *r = op2(c, FX_KIR_REM, i, period);

    r = select3(c, op2(c, FX_KIR_LT, r, fx_lk_num(c, 0)), op2(c, FX_KIR_ADD, r, period), r);
    return op2(c, FX_KIR_MIN, r, op2(c, FX_KIR_SUB, period, r));
}

AT_FN(fx_at_pad)
{
    const fx_type *x = type_in(op, 0);
    const fx_attr *pads = fx_op_attr(op, FX_A_PADDINGS);
    int64_t mode = fx_op_i(op, FX_A_PAD_MODE);
    fx_kop *own[FX_MAX_RANK], *on = NULL, *was, *y;

    (void)result;
    for (int i = 0; i < x->rank; i++) {
        fx_kop *n = fx_lk_size(c, x->dim[i]);
        fx_kop *in;

        own[i] = fx_lk_sub(c, index[i], fx_lk_size(c, pads->u.dims.at[2 * i]));
        if (mode == PAD_REFLECT)
            own[i] = mirrored(c, own[i], n);
        if (mode == PAD_EDGE)
            own[i] = op2(c, FX_KIR_MAX, op2(c, FX_KIR_MIN, own[i], fx_lk_sub(c, n, fx_lk_num(c, 1))), fx_lk_num(c, 0));
        if (mode != PAD_CONSTANT || (is_zero(pads->u.dims.at[2 * i]) && is_zero(pads->u.dims.at[2 * i + 1])))
            continue;
        in = op2(c, FX_KIR_AND, op2(c, FX_KIR_LE, fx_lk_num(c, 0), own[i]), op2(c, FX_KIR_LT, own[i], n));
        on = on ? op2(c, FX_KIR_AND, on, in) : in;
    }
    if (!on)
        return fx_lk_value(c, fx_op_in(op, 0), own);
    was = fx_lk_mask(c, on);
    y = fx_lk_value(c, fx_op_in(op, 0), own);
    c->mask = was;
    return y ? select3(c, on, y, fx_lk_const(c, y, fx_op_f(op, FX_A_FILL))) : NULL;
}

/* ---- Made of indices --------------------------------------------------------------------------------- */

AT_FN(fx_at_outer)
{
    fx_kop *a = fx_lk_value(c, fx_op_in(op, 0), &index[0]), *b = fx_lk_value(c, fx_op_in(op, 1), &index[1]);
    fx_dtype t = op->out[result].type.dtype;

    if (!a || !b)
        return NULL;
    a = op2(c, t == FX_BOOL ? FX_KIR_AND : FX_KIR_MUL, fx_kir_convert(c->m, a, fx_lk_wide(t)), fx_kir_convert(c->m, b, fx_lk_wide(t)));
    return a ? fx_kir_convert(c->m, a, t) : NULL;
}

AT_FN(fx_at_band)
{
    int rank = op->out[result].type.rank;
    int64_t lower = fx_op_i(op, FX_A_LOWER), upper = fx_op_i(op, FX_A_UPPER);
    fx_kop *row = index[rank - 2], *col = index[rank - 1], *in = fx_kir_int(c->m, fx_ktype_of(FX_BOOL, 1), 1);
    fx_kop *x = fx_lk_value(c, fx_op_in(op, 0), index), *zero = fx_lk_const(c, x, 0);

    if (lower >= 0)
        in = op2(c, FX_KIR_AND, in, op2(c, FX_KIR_LE, fx_lk_sub(c, row, col), fx_lk_num(c, lower)));
    if (upper >= 0)
        in = op2(c, FX_KIR_AND, in, op2(c, FX_KIR_LE, fx_lk_sub(c, col, row), fx_lk_num(c, upper)));
    return fx_op_i(op, FX_A_EXCLUDE) ? select3(c, in, zero, x) : select3(c, in, x, zero);
}

AT_FN(fx_at_shape)
{
    const fx_attr *shape = fx_op_attr(op, FX_A_SHAPE);
    fx_kop *y = fx_lk_num(c, 0);

    (void)result;
    for (int64_t i = 0; i < shape->u.dims.n; i++) {
        fx_kop *here = op2(c, FX_KIR_EQ, index[0], fx_lk_num(c, i));

        y = select3(c, here, fx_lk_size(c, shape->u.dims.at[i]), y);
    }
    return y;
}

AT_FN(fx_at_range)
{
    fx_dtype t = op->out[result].type.dtype, wide = fx_lk_wide(t);
    fx_kop *start = fx_lk_value(c, fx_op_in(op, 0), NULL), *step = fx_lk_value(c, fx_op_in(op, 2), NULL), *i;

    if (!start || !step)
        return NULL;
    start = fx_kir_convert(c->m, start, wide);
    step = fx_kir_convert(c->m, step, wide);
    i = fx_kir_convert(c->m, index[0], wide);
    i = op2(c, FX_KIR_ADD, start, op2(c, FX_KIR_MUL, i, step));
    return i ? fx_kir_convert(c->m, i, t) : NULL;
}

AT_FN(fx_at_hann)
{
    const fx_type *t = &op->out[result].type;
    fx_kop *n = fx_lk_size(c, t->dim[0]), *i = fx_kir_convert(c->m, index[0], FX_F64), *len, *y;

    len = fx_op_i(op, FX_A_PERIODIC) ? n : fx_lk_sub(c, n, fx_lk_num(c, 1));
    len = len ? fx_kir_convert(c->m, len, FX_F64) : NULL;
    if (!len || !i)
        return NULL;
    y = op2(c, FX_KIR_DIV, op2(c, FX_KIR_MUL, i, fx_lk_const(c, i, 6.28318530717958647693)), len);
    y = op2(c, FX_KIR_SUB, fx_lk_const(c, i, 0.5), op2(c, FX_KIR_MUL, fx_lk_const(c, i, 0.5), op1(c, FX_KIR_COS, y)));
    y = select3(c, op2(c, FX_KIR_EQ, n, fx_lk_num(c, 1)), fx_lk_const(c, i, 1), y);
    return y ? fx_kir_convert(c->m, y, t->dtype) : NULL;
}

/* ---- Indices that are values -------------------------------------------------------------------------- */

fx_kop *fx_lk_from_end(fx_lk *c, fx_kop *at, fx_dim n)
{
    fx_kop *i = at ? fx_kir_convert(c->m, at, FX_I64) : NULL;

    if (!i || !fx_dtype_is_signed(at->type.t))
        return i;
    return select3(c, op2(c, FX_KIR_LT, i, fx_lk_num(c, 0)), op2(c, FX_KIR_ADD, i, fx_lk_size(c, n)), i);
}

AT_FN(fx_at_gather)
{
    const fx_type *x = type_in(op, 0), *at = type_in(op, 1);
    int axis = fx_op_axis(op, FX_A_AXIS, x->rank);
    fx_kop *own[FX_MAX_RANK], *i = fx_lk_value(c, fx_op_in(op, 1), index + axis);

    (void)result;
    for (int k = 0; k < x->rank; k++)
        own[k] = k < axis ? index[k] : k > axis ? index[k + at->rank - 1] : fx_lk_from_end(c, i, x->dim[k]);
    return i ? fx_lk_value(c, fx_op_in(op, 0), own) : NULL;
}

AT_FN(fx_at_gather_nd)
{
    const fx_type *x = type_in(op, 0), *at = type_in(op, 1);
    int batch = (int)fx_op_i(op, FX_A_BATCH_DIMS), named = (int)at->dim[at->rank - 1].n;
    fx_kop *own[FX_MAX_RANK], *place[FX_MAX_RANK];

    (void)result;
    memcpy(own, index, (size_t)batch * sizeof(*own));
    memcpy(place, index, (size_t)(at->rank - 1) * sizeof(*place));
    for (int k = 0; k < named; k++) {
        place[at->rank - 1] = fx_lk_num(c, k);
        own[batch + k] = fx_lk_from_end(c, fx_lk_value(c, fx_op_in(op, 1), place), x->dim[batch + k]);
    }
    for (int k = batch + named; k < x->rank; k++)
        own[k] = index[at->rank - 1 + k - batch - named];
    return fx_lk_value(c, fx_op_in(op, 0), own);
}
