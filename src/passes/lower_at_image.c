/* lower_at_image.c - resizing, boxes, spread windows, transforms and random numbers at an index.
 *
 * Places and weights are computed in f64 and rounded once, with the result. */
#include "passes/lower_kir_int.h"

#include <math.h>

static const fx_type *type_in(const fx_op *op, int i) { return &fx_op_in(op, i)->type; }
static fx_kop *to(fx_lk *c, fx_kop *x, fx_dtype t) { return x ? fx_kir_convert(c->m, x, t) : NULL; }
static fx_kop *f64(fx_lk *c, double x) { return fx_kir_float(c->m, fx_ktype_of(FX_F64, 1), x); }
static fx_kop *f64_of(fx_lk *c, fx_kop *x) { return to(c, x, FX_F64); }
static fx_kop *i64_of(fx_lk *c, fx_kop *x) { return to(c, x, FX_I64); }
static fx_kop *add(fx_lk *c, fx_kop *a, fx_kop *b) { return op2(c, FX_KIR_ADD, a, b); }
static fx_kop *sub(fx_lk *c, fx_kop *a, fx_kop *b) { return op2(c, FX_KIR_SUB, a, b); }
static fx_kop *mul(fx_lk *c, fx_kop *a, fx_kop *b) { return op2(c, FX_KIR_MUL, a, b); }
static fx_kop *divide(fx_lk *c, fx_kop *a, fx_kop *b) { return op2(c, FX_KIR_DIV, a, b); }

/* ---- Sums ------------------------------------------------------------------------------------------ */

/* In order of k, in f64. */
static fx_lk_fold fold_begin(fx_lk *c, fx_kir_combine kind, fx_kop *n) { return fx_lk_fold_begin(c, kind, 1, FX_F64, n); }
static fx_kop *fold_end(fx_lk *c, const fx_lk_fold *f, fx_kop *x) { return fx_lk_fold_end(c, f, x, NULL); }

static fx_kop *clamped(fx_lk *c, fx_kop *at, fx_kop *n)
{
    return op2(c, FX_KIR_MAX, op2(c, FX_KIR_MIN, at, fx_lk_sub(c, n, fx_lk_num(c, 1))), fx_lk_num(c, 0));
}

/* ---- Windows that spread ------------------------------------------------------------------------------ */

/* Which element the window's element r spreads to place p of an axis, and whether there is one among n. */
static fx_kop *spread_from(fx_lk *c, const fx_op *op, int axis, fx_kop *p, fx_kop *r, fx_kop *n, fx_kop **on)
{
    fx_kop *stride = fx_lk_num(c, fx_op_int_at(op, FX_A_STRIDES, axis, 1)), *reach, *from;

    reach = fx_lk_add(c, p, fx_lk_num(c, fx_op_int_at(op, FX_A_PADDING, 2 * axis, 0)));
    reach = fx_lk_sub(c, reach, fx_lk_mul(c, r, fx_lk_num(c, fx_op_int_at(op, FX_A_DILATIONS, axis, 1))));
    from = divide(c, reach, stride);
    *on = op2(c, FX_KIR_AND, op2(c, FX_KIR_EQ, mul(c, from, stride), reach), op2(c, FX_KIR_LE, fx_lk_num(c, 0), reach));
    *on = op2(c, FX_KIR_AND, *on, op2(c, FX_KIR_LT, from, n));
    return from;
}

/* Operand 0 at 'index' where 'on', else 0; in f64. */
static fx_kop *masked(fx_lk *c, fx_op *op, fx_kop *const *index, fx_kop *on)
{
    fx_kop *was = fx_lk_mask(c, on), *x = f64_of(c, fx_lk_value(c, fx_op_in(op, 0), index));

    c->mask = was;
    return select3(c, on, x, f64(c, 0));
}

AT_FN(fx_at_conv_transpose)
{
    const fx_type *y = &op->out[result].type, *x = type_in(op, 0), *w = type_in(op, 1);
    bool first = fx_op_i(op, FX_A_FILTER_LAYOUT) != 0;
    int xc = fx_op_i(op, FX_A_INPUT_LAYOUT) ? 1 : 3, xs = fx_op_i(op, FX_A_INPUT_LAYOUT) ? 2 : 1, ws = first ? 2 : 0;
    int wf = first ? 1 : 2, wc = first ? 0 : 3;      /* filters and channels have changed places */
    fx_dim dim[3] = { w->dim[ws], w->dim[ws + 1], w->dim[wc] };
    fx_kop *n = fx_lk_num(c, 1), *at[3], *px[4] = { index[0] }, *pw[4], *on = NULL, *one, *v;
    fx_lk_fold f;

    for (int i = 0; i < 3; i++)
        n = fx_lk_mul(c, n, fx_lk_size(c, dim[i]));
    f = fold_begin(c, FX_KIR_SUM, n);
    fx_lk_unravel(c, f.k, dim, 3, at);
    pw[wf] = index[xc];
    pw[wc] = px[xc] = at[2];
    for (int i = 0; i < 2; i++) {
        pw[ws + i] = at[i];
        px[xs + i] = spread_from(c, op, i, index[xs + i], at[i], fx_lk_size(c, x->dim[xs + i]), &one);
        on = on ? op2(c, FX_KIR_AND, on, one) : one;
    }
    v = mul(c, masked(c, op, px, on), f64_of(c, fx_lk_value(c, fx_op_in(op, 1), pw)));
    v = fold_end(c, &f, v);
    if (fx_op_in(op, 2))
        v = add(c, v, f64_of(c, fx_lk_value(c, fx_op_in(op, 2), &index[xc])));
    return to(c, v, y->dtype);
}

/* How many windows fit along an axis of the image. */
static fx_kop *windows_on(fx_lk *c, const fx_op *op, int axis, fx_kop *size)
{
    int64_t pads = fx_op_int_at(op, FX_A_PADDING, 2 * axis, 0) + fx_op_int_at(op, FX_A_PADDING, 2 * axis + 1, 0);
    int64_t reach = fx_op_int_at(op, FX_A_DILATIONS, axis, 1) * (fx_op_int_at(op, FX_A_KERNEL, axis, 1) - 1) + 1;
    fx_kop *n = fx_lk_add(c, size, fx_lk_num(c, pads - reach));

    return fx_lk_add(c, fx_lk_div(c, n, fx_lk_num(c, fx_op_int_at(op, FX_A_STRIDES, axis, 1))), fx_lk_num(c, 1));
}

AT_FN(fx_at_fold)
{
    const fx_type *y = &op->out[result].type;
    int64_t rows = fx_op_int_at(op, FX_A_KERNEL, 0, 1), cols = fx_op_int_at(op, FX_A_KERNEL, 1, 1);
    fx_dim dim[2] = { fx_dim_of(rows), fx_dim_of(cols) };
    fx_kop *down = windows_on(c, op, 0, fx_lk_size(c, y->dim[2])), *across = windows_on(c, op, 1, fx_lk_size(c, y->dim[3]));
    fx_kop *at[2], *on[2], *h, *w, *col;
    fx_lk_fold f = fold_begin(c, FX_KIR_SUM, fx_lk_num(c, rows * cols));

    fx_lk_unravel(c, f.k, dim, 2, at);
    h = spread_from(c, op, 0, index[2], at[0], down, &on[0]);
    w = spread_from(c, op, 1, index[3], at[1], across, &on[1]);
    col = fx_lk_add(c, fx_lk_mul(c, index[1], fx_lk_num(c, rows * cols)), f.k);
    w = fx_lk_add(c, fx_lk_mul(c, h, across), w);
    return to(c, fold_end(c, &f, masked(c, op, (fx_kop *const[]){ index[0], col, w }, op2(c, FX_KIR_AND, on[0], on[1]))), y->dtype);
}

/* ---- Resizing: axis by axis ------------------------------------------------------------------------------ */

enum { HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, HALF_PIXEL_1D };       /* as the words of ops.def */
enum { HALF_DOWN, HALF_UP, FLOOR, CEIL };

/* Where place p of a resized axis lies on the old one; sizes in f64. */
static fx_kop *place_on(fx_lk *c, int64_t coords, fx_kop *p, fx_kop *from, fx_kop *to_size)
{
    fx_kop *half = f64(c, 0.5), *alone = op2(c, FX_KIR_EQ, to_size, f64(c, 1)), *ratio = divide(c, from, to_size), *at;

    switch (coords) {
    case ALIGN_CORNERS:
        at = divide(c, mul(c, p, sub(c, from, f64(c, 1))), sub(c, to_size, f64(c, 1)));
        return select3(c, alone, f64(c, 0), at);
    case ASYMMETRIC: return mul(c, p, ratio);
    default:
        at = sub(c, mul(c, add(c, p, half), ratio), half);
        return coords == HALF_PIXEL_1D ? select3(c, alone, f64(c, 0), at) : at;
    }
}

static fx_kop *nearest(fx_lk *c, int64_t mode, fx_kop *at)
{
    switch (mode) {
    case HALF_DOWN: return op1(c, FX_KIR_CEIL, sub(c, at, f64(c, 0.5)));
    case HALF_UP: return op1(c, FX_KIR_FLOOR, add(c, at, f64(c, 0.5)));
    case FLOOR: return op1(c, FX_KIR_FLOOR, at);
    default: return op1(c, FX_KIR_CEIL, at);
    }
}

/* Cubic convolution with -0.75. */
static fx_kop *cubic(fx_lk *c, fx_kop *d)
{
    fx_kop *a = op1(c, FX_KIR_ABS, d), *near, *far;

    near = add(c, mul(c, mul(c, sub(c, mul(c, f64(c, 1.25), a), f64(c, 2.25)), a), a), f64(c, 1));
    far = add(c, mul(c, add(c, mul(c, f64(c, -0.75), a), f64(c, 3.75)), a), f64(c, -6));
    far = add(c, mul(c, far, a), f64(c, 3));
    far = select3(c, op2(c, FX_KIR_LT, a, f64(c, 2)), far, f64(c, 0));
    return select3(c, op2(c, FX_KIR_LE, a, f64(c, 1)), near, far);
}

static fx_kop *triangle(fx_lk *c, fx_kop *d) { return op2(c, FX_KIR_MAX, sub(c, f64(c, 1), op1(c, FX_KIR_ABS, d)), f64(c, 0)); }

/* The filter along one axis: elements first, first + 1, ... n of them; wide: how far it is stretched (NULL: it isn't). */
typedef struct filter {
    fx_op *op;
    fx_kop *at, *first, *n, *wide, *size;
} filter;

static fx_kop *weight_of(fx_lk *c, const filter *f, fx_kop *e)
{
    fx_kop *d = sub(c, f64_of(c, e), f->at), *w;

    if (f->op->code == FX_OP_RESIZE_BICUBIC)
        return cubic(c, d);
    if (!f->wide)
        return triangle(c, d);
    w = triangle(c, divide(c, d, f->wide));
    return select3(c, fx_lk_within(c, e, fx_lk_num(c, 0), f->size), w, f64(c, 0));
}

static filter filter_at(fx_lk *c, fx_op *op, int axis, fx_kop *at, fx_kop *from, fx_kop *to_size)
{
    const fx_dim *x = type_in(op, 0)->dim, *y = op->out[0].type.dim;
    bool narrower = op->code == FX_OP_RESIZE_LINEAR && fx_op_i(op, FX_A_ANTIALIAS) &&
                    !(fx_dim_is_static(x[axis]) && fx_dim_is_static(y[axis]) && y[axis].n >= x[axis].n);
    filter f = { .op = op, .at = at, .size = fx_lk_size(c, x[axis]), .n = fx_lk_num(c, 4) };
    fx_kop *reach = f64(c, 1);

    if (narrower) {
        f.wide = reach = op2(c, FX_KIR_MAX, divide(c, from, to_size), f64(c, 1));
        f.n = i64_of(c, add(c, mul(c, op1(c, FX_KIR_CEIL, reach), f64(c, 2)), f64(c, 2)));
    }
    f.first = i64_of(c, op1(c, FX_KIR_FLOOR, sub(c, at, reach)));
    return f;
}

/* The value at 'index' in axes from 'axis' on, in those before at 'own'. */
static fx_kop *resized(fx_lk *c, fx_op *op, fx_kop *const *index, fx_kop *const *before, int axis)
{
    const fx_type *x = type_in(op, 0), *y = &op->out[0].type;
    int64_t coords = op->code == FX_OP_RESIZE_BICUBIC ? HALF_PIXEL : axis < x->rank ? fx_op_i(op, FX_A_COORDS) : 0;
    fx_kop *own[FX_MAX_RANK], *from, *to_size, *at, *sum, *weights, *w;
    filter f;
    fx_lk_fold loop;

    if (axis == x->rank)
        return f64_of(c, fx_lk_value(c, fx_op_in(op, 0), before));
    memcpy(own, before, (size_t)axis * sizeof(*own));
    own[axis] = index[axis];
    if (fx_dim_eq(x->dim[axis], y->dim[axis]))
        return resized(c, op, index, own, axis + 1);
    from = f64_of(c, fx_lk_size(c, x->dim[axis]));
    to_size = f64_of(c, fx_lk_size(c, y->dim[axis]));
    at = place_on(c, coords, f64_of(c, index[axis]), from, to_size);
    if (op->code == FX_OP_RESIZE_NEAREST) {
        own[axis] = clamped(c, i64_of(c, nearest(c, fx_op_i(op, FX_A_ROUND_MODE), at)), fx_lk_size(c, x->dim[axis]));
        return resized(c, op, index, own, axis + 1);
    }
    f = filter_at(c, op, axis, at, from, to_size);
    loop = fold_begin(c, FX_KIR_SUM, f.n);
    weights = fold_end(c, &loop, weight_of(c, &f, fx_lk_add(c, f.first, loop.k)));
    loop = fold_begin(c, FX_KIR_SUM, f.n);
    w = weight_of(c, &f, fx_lk_add(c, f.first, loop.k));
    own[axis] = clamped(c, fx_lk_add(c, f.first, loop.k), f.size);
    sum = fold_end(c, &loop, mul(c, w, resized(c, op, index, own, axis + 1)));
    return divide(c, sum, weights);
}

AT_FN(fx_at_resize)
{
    return to(c, resized(c, op, index, index, 0), op->out[result].type.dtype);
}

/* ---- Boxes --------------------------------------------------------------------------------------------- */

/* Between the two places around v on an axis of n: their indices, and how far it is to the second. */
static fx_kop *around(fx_lk *c, fx_kop *v, fx_kop *n, fx_kop **first, fx_kop **second)
{
    fx_kop *last = f64_of(c, fx_lk_sub(c, n, fx_lk_num(c, 1)));

    v = op2(c, FX_KIR_MIN, op2(c, FX_KIR_MAX, v, f64(c, 0)), last);
    *first = i64_of(c, v);
    *second = op2(c, FX_KIR_MIN, fx_lk_add(c, *first, fx_lk_num(c, 1)), fx_lk_sub(c, n, fx_lk_num(c, 1)));
    return sub(c, v, f64_of(c, *first));
}

static fx_kop *mixed(fx_lk *c, fx_kop *a, fx_kop *b, fx_kop *t) { return add(c, mul(c, sub(c, f64(c, 1), t), a), mul(c, t, b)); }

/* x between pixels; 0 from a pixel outside on. */
static fx_kop *between(fx_lk *c, fx_op *op, fx_kop *batch, fx_kop *v, fx_kop *u, fx_kop *channel)
{
    const fx_type *x = type_in(op, 0);
    fx_kop *n[2] = { fx_lk_size(c, x->dim[1]), fx_lk_size(c, x->dim[2]) }, *p[2] = { v, u }, *in = NULL, *at[2][2], *t[2], *was, *row[2];

    for (int i = 0; i < 2; i++) {
        fx_kop *one = op2(c, FX_KIR_AND, op2(c, FX_KIR_LE, f64(c, -1), p[i]), op2(c, FX_KIR_LE, p[i], f64_of(c, n[i])));

        one = op2(c, FX_KIR_AND, one, op2(c, FX_KIR_LT, fx_lk_num(c, 0), n[i]));
        in = in ? op2(c, FX_KIR_AND, in, one) : one;
        t[i] = around(c, p[i], n[i], &at[i][0], &at[i][1]);
    }
    was = fx_lk_mask(c, in);
    for (int i = 0; i < 2; i++) {
        fx_kop *left = f64_of(c, fx_lk_value(c, fx_op_in(op, 0), (fx_kop *const[]){ batch, at[0][i], at[1][0], channel }));
        fx_kop *right = f64_of(c, fx_lk_value(c, fx_op_in(op, 0), (fx_kop *const[]){ batch, at[0][i], at[1][1], channel }));

        row[i] = mixed(c, left, right, t[1]);
    }
    c->mask = was;
    return select3(c, in, mixed(c, row[0], row[1], t[0]), f64(c, 0));
}

/* How many samples of a bin along an axis. */
static fx_kop *samples(fx_lk *c, const fx_op *op, fx_kop *size)
{
    double ratio = fx_op_f(op, FX_A_SAMPLING_RATIO);

    if (ratio > 0)
        return fx_lk_num(c, (int64_t)ratio);
    return i64_of(c, op2(c, FX_KIR_MIN, op2(c, FX_KIR_MAX, op1(c, FX_KIR_CEIL, size), f64(c, 0)), f64(c, 65536)));
}

static fx_kop *sample_place(fx_lk *c, fx_kop *at, fx_kop *i, fx_kop *size, fx_kop *n)
{
    return add(c, at, divide(c, mul(c, add(c, f64_of(c, i), f64(c, 0.5)), size), f64_of(c, n)));
}

AT_FN(fx_at_roi_align)
{
    const fx_type *y = &op->out[result].type;
    bool aligned = fx_op_i(op, FX_A_ALIGNED) != 0, most = fx_op_i(op, FX_A_POOLING) == 1;
    fx_kop *roi[5], *at[2], *size[2], *n[2], *count, *v, *u, *total;
    fx_lk_fold f;

    for (int e = 0; e < 5; e++)
        roi[e] = f64_of(c, fx_lk_value(c, fx_op_in(op, 1), (fx_kop *const[]){ index[0], fx_lk_num(c, e) }));
    for (int e = 0; e < 2; e++) {            /* down (y1, y2), across (x1, x2) */
        fx_kop *shift = f64(c, aligned ? 0.5 : 0), *scale = f64(c, fx_op_f(op, FX_A_SPATIAL_SCALE));
        fx_kop *first = sub(c, mul(c, roi[2 - e], scale), shift), *last = sub(c, mul(c, roi[4 - e], scale), shift);

        size[e] = sub(c, last, first);
        size[e] = divide(c, aligned ? size[e] : op2(c, FX_KIR_MAX, size[e], f64(c, 1)), f64_of(c, fx_lk_size(c, y->dim[1 + e])));
        at[e] = add(c, first, mul(c, f64_of(c, index[1 + e]), size[e]));
        n[e] = samples(c, op, size[e]);
    }
    count = fx_lk_mul(c, n[0], n[1]);
    f = fold_begin(c, most ? FX_KIR_GREATEST : FX_KIR_SUM, count);
    v = sample_place(c, at[0], divide(c, f.k, n[1]), size[0], n[0]);
    u = sample_place(c, at[1], op2(c, FX_KIR_REM, f.k, n[1]), size[1], n[1]);
    total = fold_end(c, &f, between(c, op, i64_of(c, op1(c, FX_KIR_FLOOR, roi[0])), v, u, index[3]));
    if (!most)
        total = divide(c, total, f64_of(c, op2(c, FX_KIR_MAX, count, fx_lk_num(c, 1))));
    return to(c, select3(c, op2(c, FX_KIR_EQ, count, fx_lk_num(c, 0)), f64(c, 0), total), y->dtype);
}

/* ---- Transforms and random numbers --------------------------------------------------------------------------- */

#define PI 3.14159265358979323846

AT_FN(fx_at_irfft)
{
    const fx_type *y = &op->out[result].type, *x = type_in(op, 0);
    int axis = fx_op_axis(op, FX_A_AXIS, y->rank);
    int64_t norm = fx_op_i(op, FX_A_NORMALIZATION);
    fx_kop *n = fx_lk_size(c, y->dim[axis]), *own[FX_MAX_RANK], *m, *angle, *re, *im, *alone, *sum;
    fx_lk_fold f;

    m = op2(c, FX_KIR_MIN, fx_lk_size(c, x->dim[axis]), fx_lk_add(c, fx_lk_div(c, n, fx_lk_num(c, 2)), fx_lk_num(c, 1)));
    f = fold_begin(c, FX_KIR_SUM, m);
    memcpy(own, index, (size_t)y->rank * sizeof(*own));
    own[axis] = f.k;
    own[y->rank] = fx_lk_num(c, 0);
    re = f64_of(c, fx_lk_value(c, fx_op_in(op, 0), own));
    own[y->rank] = fx_lk_num(c, 1);
    im = f64_of(c, fx_lk_value(c, fx_op_in(op, 0), own));
    alone = op2(c, FX_KIR_OR, op2(c, FX_KIR_EQ, f.k, fx_lk_num(c, 0)), op2(c, FX_KIR_EQ, fx_lk_mul(c, f.k, fx_lk_num(c, 2)), n));
    im = select3(c, alone, f64(c, 0), im);
    angle = divide(c, mul(c, f64(c, 2 * PI), f64_of(c, op2(c, FX_KIR_REM, fx_lk_mul(c, f.k, index[axis]), n))), f64_of(c, n));
    sum = sub(c, mul(c, re, op1(c, FX_KIR_COS, angle)), mul(c, im, op1(c, FX_KIR_SIN, angle)));
    sum = fold_end(c, &f, mul(c, select3(c, alone, f64(c, 1), f64(c, 2)), sum));
    if (norm == 0)
        sum = divide(c, sum, f64_of(c, n));
    if (norm == 1)
        sum = divide(c, sum, op1(c, FX_KIR_SQRT, f64_of(c, n)));
    return to(c, sum, y->dtype);
}

static fx_kop *word(fx_lk *c, int64_t x) { return fx_kir_int(c->m, fx_ktype_of(FX_U32, 1), x); }

/* The low and the high word of a * b. */
static void multiply_words(fx_lk *c, int64_t a, fx_kop *b, fx_kop **low, fx_kop **high)
{
    fx_ktype u64 = fx_ktype_of(FX_U64, 1);
    fx_kop *p = mul(c, fx_kir_int(c->m, u64, a), to(c, b, FX_U64));

    *low = to(c, p, FX_U32);
    *high = to(c, op2(c, FX_KIR_SHR, p, fx_kir_int(c->m, u64, 32)), FX_U32);
}

/* Philox4x32-10 (tensor/philox.h): two words for a seed and a place. */
static void philox(fx_lk *c, fx_kop *seed, fx_kop *place, fx_kop **r0, fx_kop **r1)
{
    fx_kop *shift = fx_kir_int(c->m, fx_ktype_of(FX_U64, 1), 32), *n[4], *key[2], *low[2], *high[2];

    seed = to(c, seed, FX_U64);
    place = to(c, place, FX_U64);
    key[0] = to(c, seed, FX_U32);
    key[1] = to(c, op2(c, FX_KIR_SHR, seed, shift), FX_U32);
    n[0] = to(c, place, FX_U32);
    n[1] = to(c, op2(c, FX_KIR_SHR, place, shift), FX_U32);
    n[2] = n[3] = word(c, 0);
    for (int round = 0; round < 10; round++) {
        multiply_words(c, 0xD2511F53, n[0], &low[0], &high[0]);
        multiply_words(c, 0xCD9E8D57, n[2], &low[1], &high[1]);
        n[0] = op2(c, FX_KIR_XOR, op2(c, FX_KIR_XOR, high[1], n[1]), key[0]);
        n[2] = op2(c, FX_KIR_XOR, op2(c, FX_KIR_XOR, high[0], n[3]), key[1]);
        n[1] = low[1];
        n[3] = low[0];
        key[0] = add(c, key[0], word(c, 0x9E3779B9));
        key[1] = add(c, key[1], word(c, 0xBB67AE85));
    }
    *r0 = n[0];
    *r1 = n[1];
}

AT_FN(fx_at_random)
{
    const fx_type *y = &op->out[result].type;
    fx_kop *seed = fx_lk_value(c, fx_op_in(op, 0), NULL), *r0, *r1, *unit = f64(c, 0x1p-32), *x;

    philox(c, seed, fx_lk_ravel(c, index, y->dim, y->rank), &r0, &r1);
    if (op->code == FX_OP_RANDOM_UNIFORM) {
        double low = fx_op_f(op, FX_A_LOW), high = fx_op_f(op, FX_A_HIGH);

        return to(c, add(c, f64(c, low), mul(c, mul(c, f64_of(c, r0), unit), f64(c, high - low))), y->dtype);
    }
    x = op1(c, FX_KIR_LOG, mul(c, add(c, f64_of(c, r0), f64(c, 1)), unit));
    x = op1(c, FX_KIR_SQRT, mul(c, f64(c, -2), x));
    x = mul(c, x, op1(c, FX_KIR_COS, mul(c, f64(c, 2 * PI), mul(c, f64_of(c, r1), unit))));
    return to(c, add(c, f64(c, fx_op_f(op, FX_A_MEAN)), mul(c, f64(c, fx_op_f(op, FX_A_STD)), x)), y->dtype);
}
