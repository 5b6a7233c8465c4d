/* shape_nn.c - shape rules of reductions, norms, products, windows, resizing, transforms. */
#include "graph/shape_int.h"

/* ---- Along an axis ----------------------------------------------------------------------------- */

/* x with a size of 1 at its axis; 'some': which may not be empty. */
static bool reduced(fx_module *m, const fx_op *op, bool some, fx_type *y)
{
    int axis;

    *y = *in_type(op, 0);
    if (!fx_rule_axis(m, op, FX_A_AXIS, y->rank, &axis))
        return false;
    if (some && fx_dim_is_static(y->dim[axis]) && y->dim[axis].n == 0)
        return fx_rule_bad(m, op, "axis %d is empty", axis);
    y->dim[axis] = fx_dim_of(1);
    return true;
}

static bool reduces(fx_module *m, fx_op *op, bool some)
{
    fx_type y;

    if (!is_numbers(in_type(op, 0)))
        return fx_rule_bad(m, op, "expected numbers");
    return reduced(m, op, some, &y) && set_out(op, 0, y);
}

bool fx_rule_reduce(fx_module *m, fx_op *op) { return reduces(m, op, false); }
bool fx_rule_extreme(fx_module *m, fx_op *op) { return reduces(m, op, true); }

bool fx_rule_mean(fx_module *m, fx_op *op)
{
    return is_floats(in_type(op, 0)) ? reduces(m, op, true) : fx_rule_bad(m, op, "expected floats");
}

bool fx_rule_arg_extreme(fx_module *m, fx_op *op)
{
    if (!reduces(m, op, true))
        return false;
    op->out[0].type.dtype = FX_I64;
    return true;
}

bool fx_rule_cumsum(fx_module *m, fx_op *op)
{
    int axis;

    return fx_rule_number(m, op) && fx_rule_axis(m, op, FX_A_AXIS, in_type(op, 0)->rank, &axis);
}

/* ---- Norms ---------------------------------------------------------------------------------------- */

static bool eps_fits(fx_module *m, const fx_op *op)
{
    if (!in_range(fx_op_f(op, FX_A_EPS), 0, 1e9))
        return fx_rule_bad(m, op, "eps must be a number >= 0");
    if (fx_op_has(op, FX_A_OFFSET) && !isfinite(fx_op_f(op, FX_A_OFFSET)))
        return fx_rule_bad(m, op, "offset must be a finite number");
    return true;
}

/* Over groups of len(w) along the last axis: mostly one. */
bool fx_rule_norm(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1);
    fx_dim cols = fx_type_last(x);

    if (!is_floats(x) || x->rank < 1 || w->rank != 1 || !is_floats(w))
        return fx_rule_bad(m, op, "expected floats with an axis, and a vector of floats");
    if (!eps_fits(m, op))
        return false;
    if (!fx_dim_eq(cols, w->dim[0]) && (!fx_dim_is_static(cols) || !fx_dim_is_static(w->dim[0]) || w->dim[0].n < 1 ||
                                        cols.n % w->dim[0].n))
        return fx_rule_bad(m, op, "the last axis must be whole groups of len(w)");
    return set_out(op, 0, *x);
}

bool fx_rule_layernorm(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    int64_t groups = fx_op_i(op, FX_A_GROUPS);
    fx_dim cols = fx_type_last(x), part;

    if (!is_floats(x) || x->rank < 1)
        return fx_rule_bad(m, op, "expected floats with an axis");
    if (groups < 1 || (groups > 1 && (!fx_dim_is_static(cols) || cols.n % groups)))
        return fx_rule_bad(m, op, "expected rows of whole groups");
    part = groups > 1 ? fx_dim_of(cols.n / groups) : cols;
    for (int i = 1; i <= 2; i++) {
        if (!is_float_vector(in_type(op, i), cols) && !is_float_vector(in_type(op, i), part))
            return fx_rule_bad(m, op, "w and b must be floats, as many as a group or all groups have columns");
    }
    return eps_fits(m, op) && set_out(op, 0, *x);
}

bool fx_rule_group_norm(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    int64_t groups = fx_op_i(op, FX_A_GROUPS);

    if (!is_floats(x) || x->rank < 2 || !fx_dim_is_static(x->dim[1]))
        return fx_rule_bad(m, op, "expected floats [n, channels, ...] with a number of channels");
    if (groups < 1 || x->dim[1].n % groups)
        return fx_rule_bad(m, op, "channels must be whole groups");
    if (!is_float_vector(in_type(op, 1), x->dim[1]) || !is_float_vector(in_type(op, 2), x->dim[1]))
        return fx_rule_bad(m, op, "w and b must be floats, one for each channel");
    return eps_fits(m, op) && set_out(op, 0, *x);
}

/* ---- Products --------------------------------------------------------------------------------------- */

bool fx_rule_matmul(fx_module *m, fx_op *op)
{
    const fx_type *a = in_type(op, 0), *b = in_type(op, 1);
    fx_type outer_a = *a, outer_b = *b, y = { 0 };

    if (!is_numbers(a) || !is_numbers(b) || a->rank < 1 || b->rank < 1)
        return fx_rule_bad(m, op, "expected two of numbers with axes");
    if (!fx_dim_eq(fx_type_last(a), b->dim[b->rank > 1 ? b->rank - 2 : 0]))
        return fx_rule_bad(m, op, "inner axes differ");
    outer_a.rank = a->rank > 2 ? a->rank - 2 : 0;
    outer_b.rank = b->rank > 2 ? b->rank - 2 : 0;
    if (!fx_rule_promote(m, op, a, b, &y.dtype) || !fx_rule_broadcast(m, op, &outer_a, &outer_b, &y))
        return false;
    if (a->rank > 1)
        y.dim[y.rank++] = a->dim[a->rank - 2];
    if (b->rank > 1)
        y.dim[y.rank++] = b->dim[b->rank - 1];
    return set_out(op, 0, y);
}

/* ---- Windows ------------------------------------------------------------------------------------------ */

/* A list of an attribute: empty, or n numbers of at least 'least'. */
static bool list_fits(fx_module *m, const fx_op *op, fx_attr_key key, int64_t n, int64_t least)
{
    const fx_attr *a = fx_op_attr(op, key);

    if (a->u.ints.n && a->u.ints.n != n)
        return fx_rule_bad(m, op, "%s: expected %lld numbers", fx_attr_rows[key].text, (long long)n);
    for (int64_t i = 0; i < a->u.ints.n; i++) {
        if (a->u.ints.at[i] < least || a->u.ints.at[i] > INT32_MAX)
            return fx_rule_bad(m, op, "%s: %lld is out of range", fx_attr_rows[key].text, (long long)a->u.ints.at[i]);
    }
    return true;
}

static bool window_lists_fit(fx_module *m, const fx_op *op, int n)
{
    return list_fits(m, op, FX_A_STRIDES, n, 1) && list_fits(m, op, FX_A_DILATIONS, n, 1) &&
           list_fits(m, op, FX_A_PADDING, 2 * n, 0);
}

/* How many places a window of k elements has on axis i of a size:
 * (size + padding - dilation * (k - 1) - 1) // stride + 1, rounded up if asked for. */
static bool places_of(fx_module *m, const fx_op *op, int i, fx_dim size, fx_dim k, bool up, fx_dim *out)
{
    int64_t stride = fx_op_int_at(op, FX_A_STRIDES, i, 1), dilation = fx_op_int_at(op, FX_A_DILATIONS, i, 1);
    int64_t pads = fx_op_int_at(op, FX_A_PADDING, 2 * i, 0) + fx_op_int_at(op, FX_A_PADDING, 2 * i + 1, 0);
    fx_arena *a = m->arena;
    fx_dim reach, d;

    if (!fx_rule_dim(m, op, fx_dim_sub(a, k, fx_dim_of(1), &reach)) ||
        !fx_rule_dim(m, op, fx_dim_mul(a, reach, fx_dim_of(dilation), &reach)) ||
        !fx_rule_dim(m, op, fx_dim_add(a, size, fx_dim_of(pads - 1 + (up ? stride - 1 : 0)), &d)) ||
        !fx_rule_dim(m, op, fx_dim_sub(a, d, reach, &d)) ||
        !fx_rule_dim(m, op, fx_dim_div(a, d, fx_dim_of(stride), &d)) ||
        !fx_rule_dim(m, op, fx_dim_add(a, d, fx_dim_of(1), out)))
        return false;
    if (fx_dim_is_static(*out) && out->n < 1 && fx_dim_is_static(size))
        return fx_rule_bad(m, op, "the window is larger than axis %d of what it goes over", i);
    return true;
}

/* Where axes lie in x and in the filter. */
typedef struct conv_axes {
    int n;                       /* of a window */
    int x_channels, x_first;     /* channels, and the first axis that the window goes over */
    int w_channels, w_filters, w_first;
} conv_axes;

static conv_axes axes_of(const fx_op *op, int n)
{
    bool channels_first = fx_op_i(op, FX_A_INPUT_LAYOUT) == 1, filters_first = fx_op_i(op, FX_A_FILTER_LAYOUT) == 1;

    return (conv_axes){ n, channels_first ? 1 : n + 1, channels_first ? 2 : 1,
                        filters_first ? 1 : n, filters_first ? 0 : n + 1, filters_first ? 2 : 0 };
}

static bool conv_operands_fit(fx_module *m, const fx_op *op, int n)
{
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1), *bias = in_type(op, 2);

    if (!is_floats(x) || w->dtype != x->dtype || x->rank != n + 2 || w->rank != n + 2 ||
        (bias && bias->dtype != x->dtype))
        return fx_rule_bad(m, op, "expected x, w and bias of one float type, x and w with %d axes", n + 2);
    return window_lists_fit(m, op, n);
}

static bool bias_fits(fx_module *m, const fx_op *op, fx_dim filters)
{
    return is_float_vector(in_type(op, 2), filters) || fx_rule_bad(m, op, "bias must have a number for each filter");
}

bool fx_rule_conv(fx_module *m, fx_op *op)
{
    int n = op->code == FX_OP_CONV3D ? 3 : 2;
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1);
    conv_axes a = axes_of(op, n);
    int64_t groups = fx_op_i(op, FX_A_GROUPS);
    fx_type y = *x;
    fx_dim c, f;

    if (!conv_operands_fit(m, op, n))
        return false;
    c = x->dim[a.x_channels];
    f = w->dim[a.w_filters];
    if (groups < 1 || (groups > 1 && (!fx_dim_is_static(c) || !fx_dim_is_static(f) || c.n % groups || f.n % groups)))
        return fx_rule_bad(m, op, "channels and filters must be whole groups");
    if (!fx_dim_eq(groups > 1 ? fx_dim_of(c.n / groups) : c, w->dim[a.w_channels]))
        return fx_rule_bad(m, op, "the filter has another number of channels than x, by groups");
    for (int i = 0; i < n; i++) {
        if (!places_of(m, op, i, x->dim[a.x_first + i], w->dim[a.w_first + i], false, &y.dim[a.x_first + i]))
            return false;
    }
    y.dim[a.x_channels] = f;
    return bias_fits(m, op, f) && set_out(op, 0, y);
}

/* (size - 1) * stride - padding + dilation * (k - 1) + output padding + 1 */
static bool spread_of(fx_module *m, const fx_op *op, int i, fx_dim size, fx_dim k, fx_dim *out)
{
    int64_t stride = fx_op_int_at(op, FX_A_STRIDES, i, 1), dilation = fx_op_int_at(op, FX_A_DILATIONS, i, 1);
    int64_t pads = fx_op_int_at(op, FX_A_PADDING, 2 * i, 0) + fx_op_int_at(op, FX_A_PADDING, 2 * i + 1, 0);
    int64_t more = fx_op_int_at(op, FX_A_OUTPUT_PADDINGS, i, 0);
    fx_arena *a = m->arena;
    fx_dim reach;

    if (more >= stride && more >= dilation)
        return fx_rule_bad(m, op, "output padding must be less than stride or dilation");
    if (!fx_rule_dim(m, op, fx_dim_sub(a, size, fx_dim_of(1), out)) ||
        !fx_rule_dim(m, op, fx_dim_mul(a, *out, fx_dim_of(stride), out)) ||
        !fx_rule_dim(m, op, fx_dim_sub(a, k, fx_dim_of(1), &reach)) ||
        !fx_rule_dim(m, op, fx_dim_mul(a, reach, fx_dim_of(dilation), &reach)) ||
        !fx_rule_dim(m, op, fx_dim_add(a, *out, reach, out)) ||
        !fx_rule_dim(m, op, fx_dim_add(a, *out, fx_dim_of(more + 1 - pads), out)))
        return false;
    if (fx_dim_is_static(*out) && out->n < 1)
        return fx_rule_bad(m, op, "nothing of axis %d stays", i);
    return true;
}

bool fx_rule_conv_transpose(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1);
    conv_axes a = axes_of(op, 2);
    fx_type y = *x;
    int c = a.w_filters, f = a.w_channels;           /* they change places: w makes channels from filters */

    if (!conv_operands_fit(m, op, 2) || !list_fits(m, op, FX_A_OUTPUT_PADDINGS, 2, 0))
        return false;
    if (!fx_dim_eq(x->dim[a.x_channels], w->dim[c]))
        return fx_rule_bad(m, op, "the filter has another number of channels than x");
    for (int i = 0; i < 2; i++) {
        if (!spread_of(m, op, i, x->dim[a.x_first + i], w->dim[a.w_first + i], &y.dim[a.x_first + i]))
            return false;
    }
    y.dim[a.x_channels] = w->dim[f];
    return bias_fits(m, op, w->dim[f]) && set_out(op, 0, y);
}

bool fx_rule_pool(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    const fx_attr *kernel = fx_op_attr(op, FX_A_KERNEL);
    bool avg = op->code == FX_OP_AVG_POOL2D;
    fx_type y = *x;

    if (!(avg ? is_floats(x) : is_numbers(x)) || x->rank != 4)
        return fx_rule_bad(m, op, "expected %s [n, h, w, c]", avg ? "floats" : "numbers");
    if (kernel->u.ints.n != 2)
        return fx_rule_bad(m, op, "kernel: expected 2 numbers");
    if (!list_fits(m, op, FX_A_KERNEL, 2, 1) || !window_lists_fit(m, op, 2))
        return false;
    for (int i = 0; i < 2; i++) {
        if (!places_of(m, op, i, x->dim[1 + i], fx_dim_of(kernel->u.ints.at[i]), fx_op_i(op, FX_A_CEIL_MODE) != 0,
                       &y.dim[1 + i]))
            return false;
    }
    return set_out(op, 0, y);
}

/* x [n, c * r * s, windows]: as many windows as they have places in the output. */
bool fx_rule_fold(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    const fx_attr *kernel = fx_op_attr(op, FX_A_KERNEL), *size = fx_op_attr(op, FX_A_OUTPUT_SIZE);
    fx_dim windows = fx_dim_of(1), n, c, back;
    fx_type y = { .dtype = x->dtype, .rank = 4 };
    int64_t area;

    if (!is_floats(x) || x->rank != 3)
        return fx_rule_bad(m, op, "expected floats [n, c * r * s, windows]");
    if (kernel->u.ints.n != 2 || size->u.dims.n != 2)
        return fx_rule_bad(m, op, "kernel and output_size: expected 2 numbers");
    if (!list_fits(m, op, FX_A_KERNEL, 2, 1) || !window_lists_fit(m, op, 2))
        return false;
    for (int i = 0; i < 2; i++) {
        y.dim[2 + i] = size->u.dims.at[i];
        if (!places_of(m, op, i, size->u.dims.at[i], fx_dim_of(kernel->u.ints.at[i]), false, &n) ||
            !fx_rule_dim(m, op, fx_dim_mul(m->arena, windows, n, &windows)))
            return false;
    }
    area = kernel->u.ints.at[0] * kernel->u.ints.at[1];
    if (!fx_rule_dim(m, op, fx_dim_div(m->arena, x->dim[1], fx_dim_of(area), &c)) ||
        !fx_rule_dim(m, op, fx_dim_mul(m->arena, c, fx_dim_of(area), &back)))
        return false;
    if (!fx_dim_eq(back, x->dim[1]) || !fx_dim_eq(windows, x->dim[2]))
        return fx_rule_bad(m, op, "x hasn't the columns and windows that kernel and output_size make");
    y.dim[0] = x->dim[0];
    y.dim[1] = c;
    return set_out(op, 0, y);
}

bool fx_rule_roi_align(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *rois = in_type(op, 1);
    double scale = fx_op_f(op, FX_A_SPATIAL_SCALE), ratio = fx_op_f(op, FX_A_SAMPLING_RATIO);
    fx_type y = *x;

    if (!is_floats(x) || x->rank != 4 || rois->dtype != x->dtype || rois->rank != 2 ||
        !fx_dim_eq(rois->dim[1], fx_dim_of(5)))
        return fx_rule_bad(m, op, "expected floats x [n, h, w, c] and rois [m, 5]");
    if (!(scale > 0 && isfinite(scale)) || !in_range(ratio, 0, 1024) || ratio != floor(ratio))
        return fx_rule_bad(m, op, "spatial_scale must be positive, sampling_ratio a whole number up to 1024");
    y.dim[0] = rois->dim[0];
    y.dim[1] = fx_op_dim(op, FX_A_OUT_HEIGHT);
    y.dim[2] = fx_op_dim(op, FX_A_OUT_WIDTH);
    for (int i = 1; i <= 2; i++) {
        if (fx_dim_is_static(y.dim[i]) && y.dim[i].n < 1)
            return fx_rule_bad(m, op, "output_height and output_width must be positive");
    }
    return set_out(op, 0, y);
}

/* ---- Resizing, transforms, windows of numbers ------------------------------------------------------------ */

bool fx_rule_resize(fx_module *m, fx_op *op)
{
    const fx_attr *shape = fx_op_attr(op, FX_A_SHAPE);
    fx_type y = *in_type(op, 0);

    if (!is_floats(&y))
        return fx_rule_bad(m, op, "expected floats");
    if (shape->u.dims.n != y.rank)
        return fx_rule_bad(m, op, "expected a size for each of %d axes", y.rank);
    for (int i = 0; i < y.rank; i++) {
        fx_dim d = shape->u.dims.at[i];

        if (fx_dim_is_static(d) && (d.n < 0 || (d.n > 0 && fx_dim_is_static(y.dim[i]) && y.dim[i].n == 0)))
            return fx_rule_bad(m, op, "axis %d can't get that size", i);
        y.dim[i] = d;
    }
    return set_out(op, 0, y);
}

bool fx_rule_irfft(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    fx_dim n = fx_op_dim(op, FX_A_N);
    fx_type y = *x;
    int axis;

    if (!is_floats(x) || x->rank < 2 || !fx_dim_eq(fx_type_last(x), fx_dim_of(2)))
        return fx_rule_bad(m, op, "expected floats in pairs [.., 2]");
    y.rank--;
    if (!fx_rule_axis(m, op, FX_A_AXIS, y.rank, &axis))
        return false;
    if (fx_dim_is_static(n) && n.n == 0 &&
        (!fx_rule_dim(m, op, fx_dim_sub(m->arena, y.dim[axis], fx_dim_of(1), &n)) ||
         !fx_rule_dim(m, op, fx_dim_mul(m->arena, n, fx_dim_of(2), &n))))
        return false;
    if (fx_dim_is_static(n) && n.n < 1)
        return fx_rule_bad(m, op, "n must be positive");
    y.dim[axis] = n;
    return set_out(op, 0, y);
}

bool fx_rule_hann_window(fx_module *m, fx_op *op)
{
    const fx_type *t = fx_op_attr(op, FX_A_TYPE)->u.type;

    if (!is_floats(t) || t->rank != 1 || t->buffer)
        return fx_rule_bad(m, op, "expected a type of floats with one axis");
    return set_out(op, 0, *t);
}

/* ---- Quantized blocks as bytes ----------------------------------------------------------------------------- */

/* The elements that a row of bytes holds in blocks of the dtype attribute. */
static bool unpacked(fx_module *m, const fx_op *op, const fx_type *bytes, int64_t *elems)
{
    fx_dtype t = (fx_dtype)fx_op_i(op, FX_A_DTYPE);
    fx_dim row = fx_type_last(bytes);

    if (t >= FX_DTYPE_COUNT || !fx_dtype_is_quant(t) || !fx_dequantize_supports(t))
        return fx_rule_bad(m, op, "%s isn't a type of quantized blocks", fx_vtype_name(t));
    if (bytes->dtype != FX_U8 || bytes->rank < 1 || !fx_dim_is_static(row) || row.n % fx_dtype_rows[t].block_bytes)
        return fx_rule_bad(m, op, "expected u8 whose last axis is whole blocks of %d bytes", fx_dtype_rows[t].block_bytes);
    *elems = row.n / fx_dtype_rows[t].block_bytes * fx_dtype_rows[t].block_elems;
    return true;
}

bool fx_rule_dequantize(fx_module *m, fx_op *op)
{
    fx_type y = *in_type(op, 0);
    int64_t n;

    if (!unpacked(m, op, &y, &n))
        return false;
    y.dtype = FX_F32;
    y.dim[y.rank - 1] = fx_dim_of(n);
    return set_out(op, 0, y);
}

bool fx_rule_qmatmul(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1);
    fx_type y = *x;
    int64_t k;

    if (x->dtype != FX_F32 || x->rank < 1 || w->rank != 2)
        return fx_rule_bad(m, op, "expected x as f32 with an axis, w as rows of bytes");
    if (!unpacked(m, op, w, &k))
        return false;
    if (!fx_dim_eq(fx_type_last(x), fx_dim_of(k)))
        return fx_rule_bad(m, op, "x has not the %lld columns that w unpacks to", (long long)k);
    y.dim[y.rank - 1] = w->dim[0];
    return set_out(op, 0, y);
}
