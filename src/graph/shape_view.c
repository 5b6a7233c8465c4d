/* shape_view.c - shape rules of what moves elements: views, parts, joins, margins. */
#include "graph/shape_int.h"

/* The operand, where it holds elements that can be moved one by one. */
static bool movable(fx_module *m, const fx_op *op, fx_type *y)
{
    *y = *in_type(op, 0);
    return is_plain(y) || fx_rule_bad(m, op, "expected numbers or bools");
}

/* ---- Shapes ------------------------------------------------------------------------------------ */

bool fx_rule_reshape(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *y = fx_op_attr(op, FX_A_TYPE)->u.type;
    fx_dim nx, ny;

    if (x->dtype != y->dtype || !is_plain(x) || y->buffer)
        return fx_rule_bad(m, op, "changes shapes of plain numbers, not types");
    if (!fx_rule_dim(m, op, fx_count_elements(m->arena, x, &nx)) ||
        !fx_rule_dim(m, op, fx_count_elements(m->arena, y, &ny)))
        return false;
    if (!fx_dim_eq(nx, ny))
        return fx_rule_bad(m, op, "the new shape has another number of elements");
    return set_out(op, 0, *y);
}

/* The shape attribute in y, whose rank may be at most FX_MAX_RANK. */
static bool take_shape(fx_module *m, const fx_op *op, fx_attr_key key, fx_type *y)
{
    const fx_attr *shape = fx_op_attr(op, key);

    if (shape->u.dims.n > FX_MAX_RANK)
        return fx_rule_bad(m, op, "too many axes");
    y->rank = (int)shape->u.dims.n;
    for (int i = 0; i < y->rank; i++) {
        y->dim[i] = shape->u.dims.at[i];
        if (fx_dim_is_static(y->dim[i]) && y->dim[i].n < 0)
            return fx_rule_bad(m, op, "a size can't be negative");
    }
    return true;
}

bool fx_rule_rebind(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    fx_type y;

    if (!movable(m, op, &y) || !take_shape(m, op, FX_A_SHAPE, &y))
        return false;
    if (y.rank != x->rank)
        return fx_rule_bad(m, op, "the new shape has another rank");
    for (int i = 0; i < y.rank; i++) {
        if (fx_dim_is_static(x->dim[i]) && fx_dim_is_static(y.dim[i]) && !fx_dim_eq(x->dim[i], y.dim[i]))
            return fx_rule_bad(m, op, "axis %d has another size", i);
    }
    return set_out(op, 0, y);
}

bool fx_rule_broadcast_to(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    fx_type y;

    if (!movable(m, op, &y) || !take_shape(m, op, FX_A_SHAPE, &y))
        return false;
    if (y.rank < x->rank)
        return fx_rule_bad(m, op, "the new shape has fewer axes");
    for (int i = 1; i <= x->rank; i++) {
        fx_dim d = x->dim[x->rank - i];

        if (!is_one(d) && !fx_dim_eq(d, y.dim[y.rank - i]))
            return fx_rule_bad(m, op, "axis %d can't become another size", x->rank - i);
    }
    return set_out(op, 0, y);
}

static void drop_axis(fx_type *t, int axis)
{
    for (int i = axis; i + 1 < t->rank; i++)
        t->dim[i] = t->dim[i + 1];
    t->rank--;
}

static bool insert_axis(fx_module *m, const fx_op *op, fx_type *t, int axis, fx_dim d)
{
    if (t->rank == FX_MAX_RANK)
        return fx_rule_bad(m, op, "too many axes");
    for (int i = t->rank++; i > axis; i--)
        t->dim[i] = t->dim[i - 1];
    t->dim[axis] = d;
    return true;
}

bool fx_rule_squeeze(fx_module *m, fx_op *op)
{
    fx_type y;
    int axis;

    if (!movable(m, op, &y) || !fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    if (!is_one(y.dim[axis]))
        return fx_rule_bad(m, op, "axis %d isn't of size 1", axis);
    drop_axis(&y, axis);
    return set_out(op, 0, y);
}

bool fx_rule_unsqueeze(fx_module *m, fx_op *op)
{
    fx_type y;
    int axis;

    return movable(m, op, &y) && fx_rule_axis(m, op, FX_A_AXIS, y.rank + 1, &axis) &&
           insert_axis(m, op, &y, axis, fx_dim_of(1)) && set_out(op, 0, y);
}

bool fx_rule_transpose(fx_module *m, fx_op *op)
{
    fx_type y;
    int a, b;
    fx_dim d;

    if (!movable(m, op, &y) || !fx_rule_axis(m, op, FX_A_AXIS_A, y.rank, &a) ||
        !fx_rule_axis(m, op, FX_A_AXIS_B, y.rank, &b))
        return false;
    d = y.dim[a];
    y.dim[a] = y.dim[b];
    y.dim[b] = d;
    return set_out(op, 0, y);
}

bool fx_rule_permute(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    const fx_attr *axes = fx_op_attr(op, FX_A_AXES);
    unsigned seen = 0;
    fx_type y;

    if (!movable(m, op, &y))
        return false;
    if (axes->u.ints.n != x->rank)
        return fx_rule_bad(m, op, "expected %d axes", x->rank);
    for (int i = 0; i < x->rank; i++) {
        int64_t a = axes->u.ints.at[i];

        if (a < -x->rank || a >= x->rank)
            return fx_rule_bad(m, op, "no axis %lld", (long long)a);
        a += a < 0 ? x->rank : 0;
        seen |= 1u << a;
        y.dim[i] = x->dim[a];
    }
    if (seen != (1u << x->rank) - 1)
        return fx_rule_bad(m, op, "an axis stands twice");
    return set_out(op, 0, y);
}

bool fx_rule_flatten(fx_module *m, fx_op *op)
{
    fx_type y;
    int first, last;

    if (!movable(m, op, &y))
        return false;
    if (y.rank == 0)
        return insert_axis(m, op, &y, 0, fx_dim_of(1)) && set_out(op, 0, y);
    if (!fx_rule_axis(m, op, FX_A_FIRST, y.rank, &first) || !fx_rule_axis(m, op, FX_A_LAST, y.rank, &last))
        return false;
    if (first > last)
        return fx_rule_bad(m, op, "first comes behind last");
    for (; last > first; last--) {
        if (!fx_rule_dim(m, op, fx_dim_mul(m->arena, y.dim[first], y.dim[first + 1], &y.dim[first])))
            return false;
        drop_axis(&y, first + 1);
    }
    return set_out(op, 0, y);
}

bool fx_rule_complex(fx_module *m, fx_op *op)
{
    fx_type y;
    fx_dim half, back;

    if (!movable(m, op, &y))
        return false;
    if (!is_floats(&y) || y.rank < 1)
        return fx_rule_bad(m, op, "expected floats with an axis");
    if (!fx_rule_dim(m, op, fx_dim_div(m->arena, y.dim[y.rank - 1], fx_dim_of(2), &half)) ||
        !fx_rule_dim(m, op, fx_dim_mul(m->arena, half, fx_dim_of(2), &back)))
        return false;
    if (!fx_dim_eq(back, y.dim[y.rank - 1]))
        return fx_rule_bad(m, op, "the last axis must be even");
    y.dim[y.rank - 1] = half;
    return insert_axis(m, op, &y, y.rank, fx_dim_of(2)) && set_out(op, 0, y);
}

bool fx_rule_shape_to_tensor(fx_module *m, fx_op *op)
{
    fx_type shape = { .dtype = FX_I64 };

    return take_shape(m, op, FX_A_SHAPE, &shape) && set_out(op, 0, fx_type1(FX_I64, fx_dim_of(shape.rank)));
}

/* ---- Parts --------------------------------------------------------------------------------------- */

bool fx_rule_slice(fx_module *m, fx_op *op)
{
    fx_type y = *in_type(op, 0);
    const fx_type *at = in_type(op, 1);
    fx_dim start = fx_op_dim(op, FX_A_START), n = fx_op_dim(op, FX_A_LENGTH);
    int64_t step = fx_op_i(op, FX_A_STEP);
    int axis;

    if (!is_plain(&y))
        return fx_rule_bad(m, op, "expected numbers or bools");
    if (!fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    if (at && (!is_ints(at) || at->rank != 0))
        return fx_rule_bad(m, op, "at must be an integer scalar");
    if (fx_dim_is_static(n) && n.n < 0)
        return fx_rule_bad(m, op, "length can't be negative");
    if (at ? !fx_rule_run_fits(y.dim[axis], fx_dim_of(step < 0 && fx_dim_is_static(y.dim[axis]) ? y.dim[axis].n - 1 : 0), n, step)
           : !fx_rule_run_fits(y.dim[axis], start, n, step))
        return fx_rule_bad(m, op, "start, length and step leave the axis");
    y.dim[axis] = n;
    return set_out(op, 0, y);
}

bool fx_rule_split(fx_module *m, fx_op *op)
{
    const fx_attr *sizes = fx_op_attr(op, FX_A_SIZES);
    fx_dim sum = fx_dim_of(0);
    fx_type y;
    int axis;

    if (!movable(m, op, &y) || !fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    for (int i = 0; i < op->n_out; i++) {
        fx_dim d = sizes->u.dims.at[i];

        if (fx_dim_is_static(d) && d.n < 1)
            return fx_rule_bad(m, op, "sizes must be positive");
        if (!fx_rule_dim(m, op, fx_dim_add(m->arena, sum, d, &sum)))
            return false;
        set_out(op, i, y);
        op->out[i].type.dim[axis] = d;
    }
    return fx_dim_eq(sum, y.dim[axis]) || fx_rule_bad(m, op, "sizes don't sum up to the axis");
}

bool fx_rule_chunk(fx_module *m, fx_op *op)
{
    int64_t n = fx_op_i(op, FX_A_PARTS);
    fx_dim part, back;
    fx_type y;
    int axis;

    if (!movable(m, op, &y) || !fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    if (n < 1)
        return fx_rule_bad(m, op, "parts must be at least 1");
    if (!fx_rule_dim(m, op, fx_dim_div(m->arena, y.dim[axis], fx_dim_of(n), &part)) ||
        !fx_rule_dim(m, op, fx_dim_mul(m->arena, part, fx_dim_of(n), &back)))
        return false;
    if (!fx_dim_eq(back, y.dim[axis]))
        return fx_rule_bad(m, op, "the axis isn't a multiple of %lld", (long long)n);
    y.dim[axis] = part;
    for (int i = 0; i < op->n_out; i++)
        set_out(op, i, y);
    return true;
}

bool fx_rule_band_part(fx_module *m, fx_op *op)
{
    fx_type y;

    if (!movable(m, op, &y))
        return false;
    if (y.rank < 2)
        return fx_rule_bad(m, op, "expected at least two axes");
    if (fx_op_i(op, FX_A_LOWER) < -1 || fx_op_i(op, FX_A_UPPER) < -1)
        return fx_rule_bad(m, op, "num_lower and num_upper must be -1 (all) or more");
    return set_out(op, 0, y);
}

/* ---- Joins and margins ----------------------------------------------------------------------------- */

/* Whole quantized rows may be joined too, but not within a row. */
static bool joinable(const fx_type *t, int axis)
{
    return is_plain(t) || (t->dtype < FX_DTYPE_COUNT && fx_dtype_is_quant(t->dtype) && axis < t->rank - 1);
}

bool fx_rule_concat(fx_module *m, fx_op *op)
{
    fx_type y;
    int axis;

    if (op->n_in < 1)
        return fx_rule_bad(m, op, "expected operands");
    y = *in_type(op, 0);
    if (!fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    if (!joinable(&y, axis))
        return fx_rule_bad(m, op, "expected numbers, bools, or rows of quantized blocks");
    for (int i = 1; i < op->n_in; i++) {
        const fx_type *t = in_type(op, i);

        if (t->rank != y.rank || t->dtype != y.dtype)
            return fx_rule_bad(m, op, "operands must be of one type and rank");
        for (int k = 0; k < y.rank; k++) {
            if (k != axis && !fx_dim_eq(t->dim[k], y.dim[k]))
                return fx_rule_bad(m, op, "operands may differ only along the axis");
        }
        if (!fx_rule_dim(m, op, fx_dim_add(m->arena, y.dim[axis], t->dim[axis], &y.dim[axis])))
            return false;
    }
    return set_out(op, 0, y);
}

bool fx_rule_stack(fx_module *m, fx_op *op)
{
    fx_type y;
    int axis;

    if (op->n_in < 1)
        return fx_rule_bad(m, op, "expected operands");
    if (!movable(m, op, &y) || !fx_rule_axis(m, op, FX_A_AXIS, y.rank + 1, &axis))
        return false;
    for (int i = 1; i < op->n_in; i++) {
        if (!fx_type_eq(&y, in_type(op, i)))
            return fx_rule_bad(m, op, "operands must be of one type and shape");
    }
    return insert_axis(m, op, &y, axis, fx_dim_of(op->n_in)) && set_out(op, 0, y);
}

bool fx_rule_tile(fx_module *m, fx_op *op)
{
    const fx_attr *repeats = fx_op_attr(op, FX_A_REPEATS);
    fx_type y;

    if (!movable(m, op, &y))
        return false;
    if (repeats->u.dims.n != y.rank)
        return fx_rule_bad(m, op, "expected %d repeats", y.rank);
    for (int i = 0; i < y.rank; i++) {
        fx_dim d = repeats->u.dims.at[i];

        if (fx_dim_is_static(d) && d.n < 1)
            return fx_rule_bad(m, op, "repeats must be positive");
        if (!fx_rule_dim(m, op, fx_dim_mul(m->arena, y.dim[i], d, &y.dim[i])))
            return false;
    }
    return set_out(op, 0, y);
}

bool fx_rule_repeat_interleave(fx_module *m, fx_op *op)
{
    const fx_type *repeats = in_type(op, 1);
    fx_dim times = fx_op_dim(op, FX_A_TIMES), out = fx_op_dim(op, FX_A_OUT_DIM);
    bool given = !(fx_dim_is_static(out) && out.n == -1);
    fx_type y;
    int axis;

    if (!movable(m, op, &y) || !fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    if (repeats && (!is_ints(repeats) || repeats->rank != 1 ||
                    (!is_one(repeats->dim[0]) && !fx_dim_eq(repeats->dim[0], y.dim[axis]))))
        return fx_rule_bad(m, op, "repeats must be integers, one for each element or for all");
    if (given != (repeats != NULL))
        return fx_rule_bad(m, op, "out_dim belongs to repeats that are an operand");
    if (fx_dim_is_static(times) && times.n < 0)
        return fx_rule_bad(m, op, "times can't be negative");
    if (repeats)
        y.dim[axis] = out;
    else if (!fx_rule_dim(m, op, fx_dim_mul(m->arena, y.dim[axis], times, &y.dim[axis])))
        return false;
    return set_out(op, 0, y);
}

/* Whether a margin can be made of what is there. */
static bool margin_fits(int64_t mode, fx_dim size, fx_dim margin)
{
    if (!fx_dim_is_static(margin))
        return true;
    if (margin.n < 0)
        return false;
    if (mode == 0 || margin.n == 0 || !fx_dim_is_static(size))
        return true;
    return mode == 1 ? margin.n < size.n : size.n > 0;
}

bool fx_rule_pad(fx_module *m, fx_op *op)
{
    const fx_attr *pads = fx_op_attr(op, FX_A_PADDINGS);
    fx_type y;

    if (!movable(m, op, &y))
        return false;
    if (pads->u.dims.n != 2 * y.rank)
        return fx_rule_bad(m, op, "expected %d paddings", 2 * y.rank);
    for (int i = 0; i < 2 * y.rank; i++) {
        if (!margin_fits(fx_op_i(op, FX_A_PAD_MODE), in_type(op, 0)->dim[i / 2], pads->u.dims.at[i]))
            return fx_rule_bad(m, op, "padding %d is negative or more than axis %d has", i, i / 2);
        if (!fx_rule_dim(m, op, fx_dim_add(m->arena, y.dim[i / 2], pads->u.dims.at[i], &y.dim[i / 2])))
            return false;
    }
    return set_out(op, 0, y);
}

bool fx_rule_range(fx_module *m, fx_op *op)
{
    const fx_type *y = fx_op_attr(op, FX_A_TYPE)->u.type;

    if (!is_numbers(y) || y->rank != 1 || y->buffer)
        return fx_rule_bad(m, op, "expected a type of numbers with one axis");
    for (int i = 0; i < 3; i++) {
        if (!is_scalar(in_type(op, i), y->dtype))
            return fx_rule_bad(m, op, "start, stop and step must be scalars of %s", fx_vtype_name(y->dtype));
    }
    return set_out(op, 0, *y);
}
