/* ref_tensor_view.c - what views, parts, joins and margins are: for each element of the result, where
 * it comes from. */
#include "kernels/ref/ref_tensor.h"

#include <math.h>

/* Copies x to y, element k of one to element k of the other in row-major order. */
fx_status fx_ref_reshape(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(x) != fx_tensor_count(y))
        return fx_ref_fail(c, "the shapes have different numbers of elements");
    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        fx_tensor_copy(y, i, x, k);
        fx_tensor_next(x, k);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_rebind(const fx_ref_call *c)
{
    for (int i = 0; i < c->in[0]->rank; i++) {
        if (c->in[0]->dim[i] != c->out[0].dim[i])
            return fx_ref_fail(c, "an axis has another size");
    }
    return fx_ref_reshape(c);
}

fx_status fx_ref_broadcast_to(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    fx_tensor x = fx_tensor_broadcast(c->in[0], y);
    fx_tensor *px = &x;
    fx_ref_call copy = *c;
    const fx_tensor *in[1] = { px };

    copy.in = in;
    return fx_ref_reshape(&copy);
}

/* Where axis i of the result comes from. */
static int axis_of(const fx_ref_call *c, int i)
{
    int rank = c->in[0]->rank;
    int64_t a;

    if (c->op == FX_OP_PERMUTE) {
        a = fx_ref_list(c, FX_A_AXES, i, 0);
        return (int)(a < 0 ? a + rank : a);
    }
    if (i == fx_ref_axis(c, FX_A_AXIS_A, rank))
        return fx_ref_axis(c, FX_A_AXIS_B, rank);
    return i == fx_ref_axis(c, FX_A_AXIS_B, rank) ? fx_ref_axis(c, FX_A_AXIS_A, rank) : i;
}

fx_status fx_ref_transpose(const fx_ref_call *c)
{
    fx_tensor x = *c->in[0];
    const fx_tensor *in[1] = { &x };
    fx_ref_call copy = *c;

    for (int i = 0; i < x.rank; i++) {
        x.dim[i] = c->in[0]->dim[axis_of(c, i)];
        x.stride[i] = c->in[0]->stride[axis_of(c, i)];
    }
    copy.in = in;
    return fx_ref_reshape(&copy);
}

fx_status fx_ref_shape_to_tensor(const fx_ref_call *c)
{
    for (int64_t i = 0; i < c->out[0].dim[0]; i++)
        fx_tensor_set_i64(&c->out[0], &i, fx_ref_list(c, FX_A_SHAPE, i, 0));
    return FORNAX_OK;
}

fx_status fx_ref_slice(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0], *at = c->in[1];
    fx_tensor x = *c->in[0];
    int axis = fx_ref_axis(c, FX_A_AXIS, x.rank);
    int64_t zero = 0, start = fx_ref_i(c, FX_A_START) + (at ? fx_tensor_i64(at, &zero) : 0), n = y->dim[axis];
    int64_t step = fx_ref_i(c, FX_A_STEP), last = start + (n - 1) * step;
    const fx_tensor *in[1] = { &x };
    fx_ref_call copy = *c;

    if (n < 0)
        return fx_ref_fail(c, "length is negative");
    if (n && (start < 0 || start >= x.dim[axis]))
        return fx_ref_outside(c, start, x.dim[axis]);
    if (n && (last < 0 || last >= x.dim[axis]))
        return fx_ref_outside(c, last, x.dim[axis]);
    if (n)
        x.data = (char *)x.data + start * x.stride[axis] * (int64_t)fx_dtype_size(x.dtype);
    x.stride[axis] *= step;
    x.dim[axis] = n;
    copy.in = in;
    return fx_ref_reshape(&copy);
}

/* The part of t along an axis from 'start' on, n elements long. */
static fx_tensor part_of(const fx_tensor *t, int axis, int64_t start, int64_t n)
{
    fx_tensor p = *t;

    p.dim[axis] = n;
    if (n)
        p.data = (char *)p.data + start * p.stride[axis] * (int64_t)fx_dtype_size(p.dtype);
    return p;
}

static fx_status copy_to(const fx_ref_call *c, const fx_tensor *y, const fx_tensor *x)
{
    fx_ref_call copy = *c;
    const fx_tensor *in[1] = { x };

    copy.in = in;
    copy.out = y;
    return fx_ref_reshape(&copy);
}

fx_status fx_ref_concat(const fx_ref_call *c)
{
    int axis = fx_ref_axis(c, FX_A_AXIS, c->out[0].rank);
    int64_t start = 0;

    for (int i = 0; i < c->n_in; i++) {
        fx_tensor y = part_of(&c->out[0], axis, start, c->in[i]->dim[axis]);

        FX_TRY(copy_to(c, &y, c->in[i]));
        start += c->in[i]->dim[axis];
    }
    return FORNAX_OK;
}

fx_status fx_ref_stack(const fx_ref_call *c)
{
    int axis = fx_ref_axis(c, FX_A_AXIS, c->out[0].rank);

    for (int i = 0; i < c->n_in; i++) {
        fx_tensor y = part_of(&c->out[0], axis, i, 1);

        FX_TRY(copy_to(c, &y, c->in[i]));
    }
    return FORNAX_OK;
}

/* SPLIT and CHUNK: the results have their sizes already. */
fx_status fx_ref_split(const fx_ref_call *c)
{
    int axis = fx_ref_axis(c, FX_A_AXIS, c->in[0]->rank);
    int64_t start = 0;

    for (int i = 0; i < c->n_out; i++) {
        fx_tensor x = part_of(c->in[0], axis, start, c->out[i].dim[axis]);

        FX_TRY(copy_to(c, &c->out[i], &x));
        start += c->out[i].dim[axis];
    }
    return FORNAX_OK;
}

fx_status fx_ref_tile(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        for (int a = 0; a < x->rank; a++)
            k[a] = i[a] % x->dim[a];
        fx_tensor_copy(y, i, x, k);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* Element e of the axis so many times. */
static int64_t times_of(const fx_ref_call *c, int64_t e)
{
    const fx_tensor *repeats = c->in[1];

    if (!repeats)
        return fx_ref_i(c, FX_A_TIMES);
    if (repeats->dim[0] == 1)
        e = 0;
    return fx_tensor_i64(repeats, &e);
}

fx_status fx_ref_repeat_interleave(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0];
    int axis = fx_ref_axis(c, FX_A_AXIS, x->rank);
    int64_t start = 0;

    for (int64_t e = 0; e < x->dim[axis]; e++) {
        fx_tensor from = part_of(x, axis, e, 1);
        int64_t n = times_of(c, e);

        if (n < 0 || n > c->out[0].dim[axis] - start)
            return fx_ref_fail(c, "repeats are negative, or together more than out_dim");
        for (int64_t r = 0; r < n; r++) {
            fx_tensor y = part_of(&c->out[0], axis, start++, 1);

            FX_TRY(copy_to(c, &y, &from));
        }
    }
    return start == c->out[0].dim[axis] ? FORNAX_OK : fx_ref_fail(c, "repeats are together less than out_dim");
}

/* Where element i of a padded axis comes from: -1 from the margin's value. */
static int64_t source_of(int64_t mode, int64_t i, int64_t size)
{
    if (i >= 0 && i < size)
        return i;
    if (mode == 0)
        return -1;
    if (mode == 2)
        return i < 0 ? 0 : size - 1;
    return i < 0 ? -i : 2 * (size - 1) - i;
}

static void set_fill(const fx_ref_call *c, const fx_tensor *y, const int64_t *i)
{
    double value = fx_ref_f(c, FX_A_FILL);

    if (fx_dtype_is_float(y->dtype))
        fx_tensor_set_f64(y, i, value);
    else
        fx_tensor_set_i64(y, i, (int64_t)value);
}

fx_status fx_ref_pad(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK] = { 0 }, mode = fx_ref_i(c, FX_A_PAD_MODE);

    for (int a = 0; a < x->rank; a++) {
        int64_t before = fx_ref_list(c, FX_A_PADDINGS, 2 * a, 0), after = fx_ref_list(c, FX_A_PADDINGS, 2 * a + 1, 0);
        int64_t most = FX_MAX(before, after);

        if (before < 0 || after < 0 || (most && ((mode == 1 && most >= x->dim[a]) || (mode == 2 && x->dim[a] == 0))))
            return fx_ref_fail(c, "a padding is negative, or more than its axis has");
    }
    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        bool inside = true;

        for (int a = 0; a < x->rank; a++) {
            k[a] = source_of(mode, i[a] - fx_ref_list(c, FX_A_PADDINGS, 2 * a, 0), x->dim[a]);
            inside = inside && k[a] >= 0;
        }
        if (inside)
            fx_tensor_copy(y, i, x, k);
        else
            set_fill(c, y, i);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_range(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int64_t zero = 0;
    double start = fx_tensor_f64(c->in[0], &zero), stop = fx_tensor_f64(c->in[1], &zero);
    double step = fx_tensor_f64(c->in[2], &zero), n = ceil((stop - start) / step);

    if (!(step != 0) || (double)y->dim[0] != (n > 0 ? n : 0))
        return fx_ref_fail(c, "step is 0, or the size isn't ceil((stop - start) / step)");
    for (int64_t i = 0; i < y->dim[0]; i++) {
        if (fx_dtype_is_float(y->dtype))
            fx_tensor_set_f64(y, &i, start + (double)i * step);
        else
            fx_tensor_set_i64(y, &i, fx_tensor_i64(c->in[0], &zero) + i * fx_tensor_i64(c->in[2], &zero));
    }
    return FORNAX_OK;
}

fx_status fx_ref_band_part(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t lower = fx_ref_i(c, FX_A_LOWER), upper = fx_ref_i(c, FX_A_UPPER), i[FX_MAX_RANK] = { 0 };
    uint64_t zero = 0;

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        int64_t below = i[y->rank - 2] - i[y->rank - 1];
        bool in_band = (lower < 0 || below <= lower) && (upper < 0 || -below <= upper);

        if (in_band != (fx_ref_i(c, FX_A_EXCLUDE) != 0))
            fx_tensor_copy(y, i, x, i);
        else
            memcpy(fx_tensor_at(y, i), &zero, fx_dtype_size(y->dtype));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}
