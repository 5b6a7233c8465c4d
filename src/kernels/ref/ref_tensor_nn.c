/* ref_tensor_nn.c - what products, windows, resizing, transforms and random numbers are. */
#include "kernels/ref/ref_tensor.h"

#include <math.h>

#include "tensor/philox.h"

static const double pi = 3.14159265358979323846;

/* ---- Products ---------------------------------------------------------------------------------- */

/* t with its last two axes as rows and columns; a vector is one row (of a) or one column (of b). */
static fx_tensor as_matrix(const fx_tensor *t, bool row)
{
    fx_tensor m = *t;

    if (t->rank > 1)
        return m;
    m.rank = 2;
    m.dim[0] = row ? 1 : t->dim[0];
    m.dim[1] = row ? t->dim[0] : 1;
    m.stride[0] = row ? 0 : t->stride[0];
    m.stride[1] = row ? t->stride[0] : 0;
    return m;
}

/* The element of a product: the row and column that i names, over the axes before, which broadcast. */
static void dot(const fx_tensor *y, const int64_t *iy, const fx_tensor *a, const fx_tensor *b, const int64_t *i, int rank)
{
    int64_t ka[FX_MAX_RANK], kb[FX_MAX_RANK], n = a->dim[a->rank - 1];
    double f = 0;
    uint64_t u = 0;

    for (int k = 0; k < a->rank; k++)
        ka[k] = a->dim[k] == 1 ? 0 : i[rank - a->rank + k];
    for (int k = 0; k < b->rank; k++)
        kb[k] = b->dim[k] == 1 ? 0 : i[rank - b->rank + k];
    for (int64_t k = 0; k < n; k++) {
        ka[a->rank - 1] = kb[b->rank - 2] = k;
        if (fx_dtype_is_float(y->dtype))
            f += fx_tensor_f64(a, ka) * fx_tensor_f64(b, kb);
        else
            u += (uint64_t)fx_tensor_i64(a, ka) * (uint64_t)fx_tensor_i64(b, kb);
    }
    if (fx_dtype_is_float(y->dtype))
        fx_tensor_set_f64(y, iy, f);
    else
        fx_tensor_set_i64(y, iy, (int64_t)u);
}

fx_status fx_ref_matmul(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    fx_tensor a = as_matrix(c->in[0], true), b = as_matrix(c->in[1], false);
    int rank = FX_MAX(a.rank, b.rank);
    int64_t iy[FX_MAX_RANK] = { 0 }, i[FX_MAX_RANK];

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        int outer = rank - 2, k = outer;

        memcpy(i, iy, sizeof(int64_t) * (size_t)outer);
        i[rank - 2] = c->in[0]->rank > 1 ? iy[k++] : 0;
        i[rank - 1] = c->in[1]->rank > 1 ? iy[k] : 0;
        dot(y, iy, &a, &b, i, rank);
    } while (fx_tensor_next(y, iy));
    return FORNAX_OK;
}

/* ---- Windows --------------------------------------------------------------------------------------- */

/* Where axes lie: of a window, and of x and w (graph/shape_nn.c has the same). */
typedef struct window {
    int n;
    int channels, first;         /* of x and y */
    int w_channels, w_filters, w_first;
} window;

static window window_of(const fx_ref_call *c, int n)
{
    bool channels_first = fx_ref_i(c, FX_A_INPUT_LAYOUT) == 1, filters_first = fx_ref_i(c, FX_A_FILTER_LAYOUT) == 1;

    return (window){ n, channels_first ? 1 : n + 1, channels_first ? 2 : 1,
                     filters_first ? 1 : n, filters_first ? 0 : n + 1, filters_first ? 2 : 0 };
}

/* The place on axis i of x under element r of the window that makes place p: may be outside. */
static int64_t under(const fx_ref_call *c, int i, int64_t p, int64_t r)
{
    return p * fx_ref_list(c, FX_A_STRIDES, i, 1) + r * fx_ref_list(c, FX_A_DILATIONS, i, 1) -
           fx_ref_list(c, FX_A_PADDING, 2 * i, 0);
}

static double bias_at(const fx_ref_call *c, int64_t filter)
{
    return c->in[2] ? fx_tensor_f64(c->in[2], &filter) : 0;
}

/* One element of a convolution: over the elements of the filter, iw. */
static double conv_at(const fx_ref_call *c, const window *a, const int64_t *iy)
{
    const fx_tensor *x = c->in[0], *w = c->in[1];
    int64_t filter = iy[a->channels], group = filter / (w->dim[a->w_filters] / fx_ref_i(c, FX_A_GROUPS));
    fx_tensor one = *w;
    int64_t iw[FX_MAX_RANK] = { 0 }, ix[FX_MAX_RANK] = { iy[0] };
    double sum = bias_at(c, filter);

    one.dim[a->w_filters] = 1;
    one.data = (char *)w->data + filter * w->stride[a->w_filters] * (int64_t)fx_dtype_size(w->dtype);
    if (fx_tensor_count(&one) == 0)
        return sum;
    do {
        bool inside = true;

        for (int i = 0; i < a->n; i++) {
            ix[a->first + i] = under(c, i, iy[a->first + i], iw[a->w_first + i]);
            inside = inside && ix[a->first + i] >= 0 && ix[a->first + i] < x->dim[a->first + i];
        }
        ix[a->channels] = group * w->dim[a->w_channels] + iw[a->w_channels];
        if (inside)
            sum += fx_tensor_f64(x, ix) * fx_tensor_f64(&one, iw);
    } while (fx_tensor_next(&one, iw));
    return sum;
}

fx_status fx_ref_conv(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    window a = window_of(c, y->rank - 2);
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        fx_tensor_set_f64(y, i, conv_at(c, &a, i));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* Which element of x the window's element r spreads to place p: false if none. */
static bool spread_from(const fx_ref_call *c, int i, int64_t p, int64_t r, int64_t size, int64_t *from)
{
    int64_t stride = fx_ref_list(c, FX_A_STRIDES, i, 1);
    int64_t reach = p + fx_ref_list(c, FX_A_PADDING, 2 * i, 0) - r * fx_ref_list(c, FX_A_DILATIONS, i, 1);

    *from = reach / stride;
    return reach >= 0 && reach % stride == 0 && *from < size;
}

/* One element of a transposed convolution. In w filters and channels have changed places. */
static double spread_at(const fx_ref_call *c, const window *a, const int64_t *iy)
{
    const fx_tensor *x = c->in[0], *w = c->in[1];
    fx_tensor one = *w;
    int64_t filter = iy[a->channels], iw[FX_MAX_RANK] = { 0 }, ix[FX_MAX_RANK] = { iy[0] };
    double sum = bias_at(c, filter);

    one.dim[a->w_channels] = 1;
    one.data = (char *)w->data + filter * w->stride[a->w_channels] * (int64_t)fx_dtype_size(w->dtype);
    if (fx_tensor_count(&one) == 0)
        return sum;
    do {
        bool inside = true;

        for (int i = 0; i < a->n; i++)
            inside = inside && spread_from(c, i, iy[a->first + i], iw[a->w_first + i], x->dim[a->first + i], &ix[a->first + i]);
        ix[a->channels] = iw[a->w_filters];
        if (inside)
            sum += fx_tensor_f64(x, ix) * fx_tensor_f64(&one, iw);
    } while (fx_tensor_next(&one, iw));
    return sum;
}

fx_status fx_ref_conv_transpose(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    window a = window_of(c, 2);
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        fx_tensor_set_f64(y, i, spread_at(c, &a, i));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* What a window of a pool saw. */
typedef struct seen {
    double sum;
    int64_t inside, padded;      /* elements of x; those and the padding's */
    int64_t best[4];             /* of MAX_POOL2D, if inside */
} seen;

static bool pool_better(const fx_tensor *x, const int64_t *i, const int64_t *best)
{
    if (fx_dtype_is_float(x->dtype) && isnan(fx_tensor_f64(x, best)))
        return false;
    return fx_ref_less(x, best, i);
}

static seen look(const fx_ref_call *c, const int64_t *iy)
{
    const fx_tensor *x = c->in[0];
    seen s = { 0, 0, 0, { 0 } };
    int64_t i[4] = { iy[0], 0, 0, iy[3] };

    for (int64_t r = 0; r < fx_ref_list(c, FX_A_KERNEL, 0, 1); r++) {
        for (int64_t q = 0; q < fx_ref_list(c, FX_A_KERNEL, 1, 1); q++) {
            i[1] = under(c, 0, iy[1], r);
            i[2] = under(c, 1, iy[2], q);
            s.padded += i[1] < x->dim[1] + fx_ref_list(c, FX_A_PADDING, 1, 0) &&
                        i[2] < x->dim[2] + fx_ref_list(c, FX_A_PADDING, 3, 0);
            if (i[1] < 0 || i[2] < 0 || i[1] >= x->dim[1] || i[2] >= x->dim[2])
                continue;
            s.sum += fx_tensor_f64(x, i);
            if (s.inside++ == 0 || pool_better(x, i, s.best))
                memcpy(s.best, i, sizeof(i));
        }
    }
    return s;
}

/* The least number of a dtype. */
static void set_least(const fx_tensor *y, const int64_t *i)
{
    if (fx_dtype_is_float(y->dtype))
        fx_tensor_set_f64(y, i, -INFINITY);
    else
        fx_tensor_set_i64(y, i, fx_dtype_is_signed(y->dtype) ? -(INT64_C(1) << (fx_dtype_size(y->dtype) * 8 - 1)) : 0);
}

fx_status fx_ref_pool(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    bool avg = c->op == FX_OP_AVG_POOL2D;
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        seen s = look(c, i);
        int64_t n = avg && fx_ref_i(c, FX_A_COUNT_BOUNDARY) ? s.padded : s.inside;

        if (avg)
            fx_tensor_set_f64(y, i, n ? s.sum / (double)n : 0);
        else if (s.inside)
            fx_tensor_copy(y, i, c->in[0], s.best);
        else
            set_least(y, i);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Fold: sums columns back into an image -------------------------------------------------------- */

/* How many windows fit on axis i of the image. */
static int64_t windows_on(const fx_ref_call *c, int i, int64_t size)
{
    int64_t pads = fx_ref_list(c, FX_A_PADDING, 2 * i, 0) + fx_ref_list(c, FX_A_PADDING, 2 * i + 1, 0);
    int64_t reach = fx_ref_list(c, FX_A_DILATIONS, i, 1) * (fx_ref_list(c, FX_A_KERNEL, i, 1) - 1) + 1;

    return (size + pads - reach) / fx_ref_list(c, FX_A_STRIDES, i, 1) + 1;
}

static double fold_at(const fx_ref_call *c, const int64_t *iy)
{
    const fx_tensor *y = &c->out[0];
    int64_t across = windows_on(c, 1, y->dim[3]), down = windows_on(c, 0, y->dim[2]), h, w;
    int64_t rows = fx_ref_list(c, FX_A_KERNEL, 0, 1), cols = fx_ref_list(c, FX_A_KERNEL, 1, 1);
    double sum = 0;

    for (int64_t r = 0; r < rows; r++) {
        for (int64_t q = 0; q < cols; q++) {
            if (spread_from(c, 0, iy[2], r, down, &h) && spread_from(c, 1, iy[3], q, across, &w))
                sum += fx_tensor_f64(c->in[0], (int64_t[]){ iy[0], (iy[1] * rows + r) * cols + q, h * across + w });
        }
    }
    return sum;
}

fx_status fx_ref_fold(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        fx_tensor_set_f64(y, i, fold_at(c, i));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Boxes --------------------------------------------------------------------------------------------- */

/* x between pixels: the four around (v, u) in proportion; 0 from a pixel outside on, edges repeated before that. */
static double between(const fx_tensor *x, int64_t batch, double v, double u, int64_t channel)
{
    int64_t h = x->dim[1], w = x->dim[2], v0, u0, v1, u1;

    if (h == 0 || w == 0 || !(v >= -1 && v <= (double)h && u >= -1 && u <= (double)w))
        return 0;
    v = fmin(fmax(v, 0), (double)(h - 1));
    u = fmin(fmax(u, 0), (double)(w - 1));
    v0 = (int64_t)v;
    u0 = (int64_t)u;
    v1 = FX_MIN(v0 + 1, h - 1);
    u1 = FX_MIN(u0 + 1, w - 1);
    v -= (double)v0;
    u -= (double)u0;
    return (1 - v) * ((1 - u) * fx_tensor_f64(x, (int64_t[]){ batch, v0, u0, channel }) +
                      u * fx_tensor_f64(x, (int64_t[]){ batch, v0, u1, channel })) +
           v * ((1 - u) * fx_tensor_f64(x, (int64_t[]){ batch, v1, u0, channel }) +
                u * fx_tensor_f64(x, (int64_t[]){ batch, v1, u1, channel }));
}

/* The samples of one bin, which begins at (v, u) and is h by w. */
static double bin(const fx_ref_call *c, int64_t batch, const double at[2], const double size[2], int64_t channel)
{
    double ratio = fx_ref_f(c, FX_A_SAMPLING_RATIO), sum = 0, most = -INFINITY;
    int64_t n[2];

    for (int i = 0; i < 2; i++)
        n[i] = ratio > 0 ? (int64_t)ratio : (int64_t)fmin(fmax(ceil(size[i]), 0), 1 << 16);
    for (int64_t r = 0; r < n[0]; r++) {
        for (int64_t q = 0; q < n[1]; q++) {
            double v = between(c->in[0], batch, at[0] + ((double)r + 0.5) * size[0] / (double)n[0],
                               at[1] + ((double)q + 0.5) * size[1] / (double)n[1], channel);

            sum += v;
            most = v > most ? v : most;
        }
    }
    if (n[0] * n[1] == 0)
        return 0;
    return fx_ref_i(c, FX_A_POOLING) == 1 ? most : sum / (double)(n[0] * n[1]);
}

fx_status fx_ref_roi_align(const fx_ref_call *c)
{
    const fx_tensor *rois = c->in[1], *y = &c->out[0];
    bool aligned = fx_ref_i(c, FX_A_ALIGNED) != 0;
    double scale = fx_ref_f(c, FX_A_SPATIAL_SCALE), shift = aligned ? 0.5 : 0;
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        double roi[5], at[2], size[2];

        for (int64_t e = 0; e < 5; e++)
            roi[e] = fx_tensor_f64(rois, (int64_t[]){ i[0], e });
        if (!(roi[0] >= 0 && roi[0] < (double)c->in[0]->dim[0]))
            return fx_ref_fail(c, "a box is of a batch that x hasn't");
        for (int e = 0; e < 2; e++) {    /* 0: down (y1, y2), 1: across (x1, x2) */
            double first = roi[2 - e] * scale - shift, last = roi[4 - e] * scale - shift;

            size[e] = (aligned ? last - first : fmax(last - first, 1)) / (double)y->dim[1 + e];
            at[e] = first + (double)i[1 + e] * size[e];
        }
        fx_tensor_set_f64(y, i, bin(c, (int64_t)roi[0], at, size, i[3]));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Resizing: axis by axis ------------------------------------------------------------------------------ */

enum { HALF_PIXEL, ALIGN_CORNERS, ASYMMETRIC, HALF_PIXEL_1D };

/* Where place p of a resized axis lies on the old one. */
static double place_on(int64_t coords, int64_t p, int64_t from, int64_t to)
{
    double ratio = (double)from / (double)to;

    switch (coords) {
    case ALIGN_CORNERS: return to == 1 ? 0 : (double)p * (double)(from - 1) / (double)(to - 1);
    case ASYMMETRIC: return (double)p * ratio;
    case HALF_PIXEL_1D: return to == 1 ? 0 : ((double)p + 0.5) * ratio - 0.5;
    default: return ((double)p + 0.5) * ratio - 0.5;
    }
}

static double cubic(double d)
{
    static const double a = -0.75;

    d = fabs(d);
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static double triangle(double d)
{
    return fmax(1 - fabs(d), 0);
}

static int64_t nearest(int64_t mode, double at)
{
    switch (mode) {
    case 0: return (int64_t)ceil(at - 0.5);
    case 1: return (int64_t)floor(at + 0.5);
    case 2: return (int64_t)floor(at);
    default: return (int64_t)ceil(at);
    }
}

/* The weight of old element e for what lies at 'at'; wide: how far the filter is stretched. */
static double filter_weight(const fx_ref_call *c, double at, int64_t e, double wide)
{
    return c->op == FX_OP_RESIZE_BICUBIC ? cubic((double)e - at) : triangle(((double)e - at) / wide);
}

/* Element i of y from x, in which all axes from 'axis' on have their old size. */
static double resized(const fx_ref_call *c, const int64_t *iy, int64_t *ix, int axis)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t from, to, coords = c->op == FX_OP_RESIZE_BICUBIC ? HALF_PIXEL : 0, low, high;
    double at, wide = 1, sum = 0, weights = 0;

    if (axis == x->rank)
        return fx_tensor_f64(x, ix);
    from = x->dim[axis];
    to = y->dim[axis];
    if (from == to) {
        ix[axis] = iy[axis];
        return resized(c, iy, ix, axis + 1);
    }
    if (c->op != FX_OP_RESIZE_BICUBIC)
        coords = fx_ref_i(c, FX_A_COORDS);
    at = place_on(coords, iy[axis], from, to);
    if (c->op == FX_OP_RESIZE_NEAREST) {
        ix[axis] = FX_MIN(FX_MAX(nearest(fx_ref_i(c, FX_A_ROUND_MODE), at), 0), from - 1);
        return resized(c, iy, ix, axis + 1);
    }
    if (c->op == FX_OP_RESIZE_LINEAR && fx_ref_i(c, FX_A_ANTIALIAS) && to < from)
        wide = (double)from / (double)to;
    low = (int64_t)floor(at - 2 * wide);
    high = (int64_t)ceil(at + 2 * wide);
    for (int64_t e = low; e <= high; e++) {
        double weight = filter_weight(c, at, e, wide);

        if (weight == 0 || (wide > 1 && (e < 0 || e >= from)))
            continue;                    /* a widened filter leaves out what isn't there */
        ix[axis] = FX_MIN(FX_MAX(e, 0), from - 1);
        sum += weight * resized(c, iy, ix, axis + 1);
        weights += weight;
    }
    return sum / weights;
}

fx_status fx_ref_resize(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK];

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    if (fx_tensor_count(c->in[0]) == 0)
        return fx_ref_fail(c, "nothing to make elements of");
    do {
        fx_tensor_set_f64(y, i, resized(c, i, k, 0));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Transforms, windows of numbers, random numbers ------------------------------------------------------- */

/* Element p of the transform of the m pairs along the axis; pairs past n / 2 aren't used, those that
 * are missing are 0. */
static double irfft_at(const fx_ref_call *c, int axis, const int64_t *iy, int64_t n)
{
    const fx_tensor *x = c->in[0];
    int64_t k[FX_MAX_RANK], m = FX_MIN(x->dim[axis], n / 2 + 1);
    double sum = 0;

    memcpy(k, iy, sizeof(k));
    for (int64_t f = 0; f < m; f++) {
        double angle = 2 * pi * (double)(f * iy[axis] % n) / (double)n, re, im;
        bool alone = f == 0 || 2 * f == n;

        k[axis] = f;
        k[x->rank - 1] = 0;
        re = fx_tensor_f64(x, k);
        k[x->rank - 1] = 1;
        im = alone ? 0 : fx_tensor_f64(x, k);
        sum += (alone ? 1 : 2) * (re * cos(angle) - im * sin(angle));
    }
    return sum;
}

fx_status fx_ref_irfft(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int axis = fx_ref_axis(c, FX_A_AXIS, y->rank);
    int64_t i[FX_MAX_RANK] = { 0 }, n = y->dim[axis], norm = fx_ref_i(c, FX_A_NORMALIZATION);

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        double sum = irfft_at(c, axis, i, n);

        fx_tensor_set_f64(y, i, norm == 0 ? sum / (double)n : norm == 1 ? sum / sqrt((double)n) : sum);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_hann_window(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int64_t n = y->dim[0], whole = fx_ref_i(c, FX_A_PERIODIC) ? n : n - 1;

    for (int64_t i = 0; i < n; i++)
        fx_tensor_set_f64(y, &i, n == 1 ? 1 : 0.5 - 0.5 * cos(2 * pi * (double)i / (double)whole));
    return FORNAX_OK;
}

/* Place i in row-major order: Philox4x32-10 of the seed and i; two of its words make two numbers of 32 bits. */
static double random_at(const fx_ref_call *c, uint64_t seed, uint64_t i)
{
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) }, counter[4] = { (uint32_t)i, (uint32_t)(i >> 32), 0, 0 };
    uint32_t r[4];

    fx_philox(key, counter, r);
    if (c->op == FX_OP_RANDOM_UNIFORM)
        return fx_ref_f(c, FX_A_LOW) + (double)r[0] * 0x1p-32 * (fx_ref_f(c, FX_A_HIGH) - fx_ref_f(c, FX_A_LOW));
    return fx_ref_f(c, FX_A_MEAN) + fx_ref_f(c, FX_A_STD) * sqrt(-2 * log(((double)r[0] + 1) * 0x1p-32)) *
                                        cos(2 * pi * (double)r[1] * 0x1p-32);
}

fx_status fx_ref_random(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 }, zero = 0;
    uint64_t n = 0, seed = (uint64_t)fx_tensor_i64(c->in[0], &zero);

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        fx_tensor_set_f64(y, i, random_at(c, seed, n++));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Quantized blocks as bytes ------------------------------------------------------------------------------ */

/* A row of bytes, wherever they lie, unpacked to n floats in 'out'; 'bytes' is room for the row. */
static void unpack_row(const fx_ref_call *c, const fx_tensor *x, int64_t *index, uint8_t *bytes, float *out, int64_t n)
{
    int last = x->rank - 1;

    for (index[last] = 0; index[last] < x->dim[last]; index[last]++)
        bytes[index[last]] = (uint8_t)fx_tensor_i64(x, index);
    index[last] = 0;
    fx_dequantize_row((fx_dtype)fx_ref_i(c, FX_A_DTYPE), bytes, out, n);
}

typedef struct unpacker {
    uint8_t *bytes;
    float *floats;
    size_t n_bytes, n_floats;
} unpacker;

static bool unpacker_init(unpacker *u, const fx_ref_call *c, int64_t n_bytes, int64_t n_floats)
{
    u->n_bytes = (size_t)n_bytes + 1;
    u->n_floats = (size_t)n_floats + 1;
    u->bytes = fx_mem_array(c->mem, u->n_bytes, 1);
    u->floats = fx_mem_array(c->mem, u->n_floats, sizeof(float));
    return u->bytes && u->floats;
}

static void unpacker_done(unpacker *u, const fx_ref_call *c)
{
    fx_mem_free(c->mem, u->bytes, u->n_bytes);
    fx_mem_free(c->mem, u->floats, u->n_floats * sizeof(float));
}

fx_status fx_ref_dequantize(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int last = x->rank - 1;
    int64_t i[FX_MAX_RANK] = { 0 }, n = y->dim[last];
    fx_tensor rows = *x;
    unpacker u;

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    if (!unpacker_init(&u, c, x->dim[last], n)) {
        unpacker_done(&u, c);
        return fx_nomem(c->err, "a row");
    }
    rows.dim[last] = 1;
    do {
        unpack_row(c, x, i, u.bytes, u.floats, n);
        for (i[last] = 0; i[last] < n; i[last]++)
            fx_tensor_set_f64(y, i, (double)u.floats[i[last]]);
        i[last] = 0;
    } while (fx_tensor_next(&rows, i));
    unpacker_done(&u, c);
    return FORNAX_OK;
}

/* Column j of y, for all rows of x: with row j of w unpacked. */
static void multiply_column(const fx_ref_call *c, const float *w, int64_t j)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int last = x->rank - 1;
    fx_tensor rows = *x;
    int64_t i[FX_MAX_RANK] = { 0 };

    rows.dim[last] = 1;
    do {
        double sum = 0;

        for (i[last] = 0; i[last] < x->dim[last]; i[last]++)
            sum += fx_tensor_f64(x, i) * (double)w[i[last]];
        i[last] = j;
        fx_tensor_set_f64(y, i, sum);
        i[last] = 0;
    } while (fx_tensor_next(&rows, i));
}

fx_status fx_ref_qmatmul(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *w = c->in[1];
    int64_t k = x->dim[x->rank - 1], i[2] = { 0, 0 };
    unpacker u;

    if (fx_tensor_count(&c->out[0]) == 0)
        return FORNAX_OK;
    if (!unpacker_init(&u, c, w->dim[1], k)) {
        unpacker_done(&u, c);
        return fx_nomem(c->err, "a row");
    }
    for (i[0] = 0; i[0] < w->dim[0]; i[0]++) {
        unpack_row(c, w, i, u.bytes, u.floats, k);
        multiply_column(c, u.floats, i[0]);
    }
    unpacker_done(&u, c);
    return FORNAX_OK;
}
