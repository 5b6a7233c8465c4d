/* ref_tensor_reduce.c - what reductions, scans, norms and softmax compute: by lines along an axis. */
#include "kernels/ref/ref_tensor.h"

#include <math.h>

/* ---- Reductions ------------------------------------------------------------------------------ */

/* Sum or product of integers along the axis from 'index' on. */
static int64_t fold_ints(const fx_ref_call *c, int axis, int64_t *index)
{
    uint64_t y = c->op == FX_OP_PROD;

    for (index[axis] = 0; index[axis] < c->in[0]->dim[axis]; index[axis]++) {
        uint64_t x = (uint64_t)fx_tensor_i64(c->in[0], index);

        y = c->op == FX_OP_PROD ? y * x : y + x;
    }
    index[axis] = 0;
    return (int64_t)y;
}

static double fold_floats(const fx_ref_call *c, int axis, int64_t *index)
{
    int64_t n = c->in[0]->dim[axis];
    double y = c->op == FX_OP_PROD;

    for (index[axis] = 0; index[axis] < n; index[axis]++)
        y = c->op == FX_OP_PROD ? y * fx_tensor_f64(c->in[0], index) : y + fx_tensor_f64(c->in[0], index);
    index[axis] = 0;
    return c->op == FX_OP_MEAN ? y / (double)n : y;
}

fx_status fx_ref_reduce(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int axis = fx_ref_axis(c, FX_A_AXIS, y->rank);
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        if (fx_dtype_is_float(y->dtype))
            fx_tensor_set_f64(y, i, fold_floats(c, axis, i));
        else
            fx_tensor_set_i64(y, i, fold_ints(c, axis, i));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

static bool is_nan(const fx_tensor *x, const int64_t *index)
{
    return fx_dtype_is_float(x->dtype) && isnan(fx_tensor_f64(x, index));
}

/* Whether the element at b takes the place of the one at a, which comes first: a NaN stays. */
static bool beats(const fx_ref_call *c, const int64_t *b, const int64_t *a)
{
    const fx_tensor *x = c->in[0];

    if (is_nan(x, a) || is_nan(x, b))
        return !is_nan(x, a);
    return c->op == FX_OP_ARGMAX || c->op == FX_OP_REDUCE_MAX ? fx_ref_less(x, a, b) : fx_ref_less(x, b, a);
}

fx_status fx_ref_extreme(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int axis = fx_ref_axis(c, FX_A_AXIS, x->rank);
    int64_t i[FX_MAX_RANK] = { 0 }, k[FX_MAX_RANK], best[FX_MAX_RANK];

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    if (x->dim[axis] == 0)
        return fx_ref_fail(c, "the axis is empty");
    do {
        memcpy(k, i, sizeof(k));
        memcpy(best, i, sizeof(best));
        for (k[axis] = 1; k[axis] < x->dim[axis]; k[axis]++) {
            if (beats(c, k, best))
                best[axis] = k[axis];
        }
        if (c->op == FX_OP_ARGMAX || c->op == FX_OP_ARGMIN)
            fx_tensor_set_i64(y, i, best[axis]);
        else
            fx_tensor_copy(y, i, x, best);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Lines along an axis ------------------------------------------------------------------------- */

/* Calls fn at the first element of each line along the axis. */
typedef void (*line_fn)(const fx_ref_call *c, int axis, int64_t *index);
static fx_status each_line(const fx_ref_call *c, int axis, line_fn fn)
{
    fx_tensor lines = *c->in[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(&lines) == 0)
        return FORNAX_OK;
    lines.dim[axis] = 1;
    do {
        fn(c, axis, i);
        i[axis] = 0;
    } while (fx_tensor_next(&lines, i));
    return FORNAX_OK;
}

static void cumsum_line(const fx_ref_call *c, int axis, int64_t *i)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    bool reverse = fx_ref_i(c, FX_A_REVERSE) != 0, exclusive = fx_ref_i(c, FX_A_EXCLUSIVE) != 0;
    bool floats = fx_dtype_is_float(x->dtype);
    double f = 0;
    uint64_t n = 0;

    for (int64_t e = 0; e < x->dim[axis]; e++) {
        double was = f;
        uint64_t n_was = n;

        i[axis] = reverse ? x->dim[axis] - 1 - e : e;
        if (floats) {
            f += fx_tensor_f64(x, i);
            fx_tensor_set_f64(y, i, exclusive ? was : f);
        } else {
            n += (uint64_t)fx_tensor_i64(x, i);
            fx_tensor_set_i64(y, i, (int64_t)(exclusive ? n_was : n));
        }
    }
}

fx_status fx_ref_cumsum(const fx_ref_call *c)
{
    return each_line(c, fx_ref_axis(c, FX_A_AXIS, c->in[0]->rank), cumsum_line);
}

static void softmax_line(const fx_ref_call *c, int axis, int64_t *i)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    double most = -INFINITY, sum = 0;

    for (i[axis] = 0; i[axis] < x->dim[axis]; i[axis]++) {
        double v = fx_tensor_f64(x, i);

        most = v > most || isnan(v) ? v : most;
    }
    for (i[axis] = 0; i[axis] < x->dim[axis]; i[axis]++)
        sum += exp(fx_tensor_f64(x, i) - most);
    for (i[axis] = 0; i[axis] < x->dim[axis]; i[axis]++) {
        double d = fx_tensor_f64(x, i) - most;

        fx_tensor_set_f64(y, i, c->op == FX_OP_SOFTMAX ? exp(d) / sum : d - log(sum));
    }
}

fx_status fx_ref_softmax(const fx_ref_call *c)
{
    return each_line(c, fx_ref_axis(c, FX_A_AXIS, c->in[0]->rank), softmax_line);
}

/* ---- Norms ----------------------------------------------------------------------------------------- */

static double weight_at(const fx_tensor *w, int64_t i, double offset, double without)
{
    return w ? fx_tensor_f64(w, &i) + offset : without;
}

/* Rounded to the dtype of t, unless the weight is to meet the number as it is. */
static double rounded(const fx_tensor *t, double x)
{
    char room[8];

    fx_scalar_set_f64(t->dtype, room, x);
    return fx_scalar_f64(t->dtype, room);
}

/* Groups of len(w) along the last axis. */
static void rmsnorm_line(const fx_ref_call *c, int axis, int64_t *i)
{
    const fx_tensor *x = c->in[0], *w = c->in[1], *y = &c->out[0];
    bool first = fx_ref_i(c, FX_A_MULTIPLY_FIRST) != 0;
    int64_t n = w->dim[0];

    for (int64_t start = 0; start < x->dim[axis]; start += n) {
        double sum = 0, scale;

        for (i[axis] = start; i[axis] < start + n; i[axis]++)
            sum += fx_tensor_f64(x, i) * fx_tensor_f64(x, i);
        scale = 1 / sqrt(sum / (double)n + fx_ref_f(c, FX_A_EPS));
        for (i[axis] = start; i[axis] < start + n; i[axis]++) {
            double v = fx_tensor_f64(x, i) * scale;

            v = first ? v : rounded(y, v);
            fx_tensor_set_f64(y, i, v * weight_at(w, i[axis] - start, fx_ref_f(c, FX_A_OFFSET), 1));
        }
    }
}

fx_status fx_ref_rmsnorm(const fx_ref_call *c)
{
    if (c->in[1]->dim[0] < 1 || c->in[0]->dim[c->in[0]->rank - 1] % c->in[1]->dim[0])
        return fx_ref_fail(c, "the last axis must be whole groups of len(w)");
    return each_line(c, c->in[0]->rank - 1, rmsnorm_line);
}

static void layernorm_line(const fx_ref_call *c, int axis, int64_t *i)
{
    const fx_tensor *x = c->in[0], *w = c->in[1], *b = c->in[2], *y = &c->out[0];
    int64_t cols = x->dim[axis], n = cols / fx_ref_i(c, FX_A_GROUPS);

    for (int64_t start = 0; start < cols; start += n) {
        double mean = 0, variance = 0, scale;

        for (i[axis] = start; i[axis] < start + n; i[axis]++)
            mean += fx_tensor_f64(x, i) / (double)n;
        for (i[axis] = start; i[axis] < start + n; i[axis]++)
            variance += pow(fx_tensor_f64(x, i) - mean, 2) / (double)n;
        scale = 1 / sqrt(variance + fx_ref_f(c, FX_A_EPS));
        for (i[axis] = start; i[axis] < start + n; i[axis]++) {
            int64_t k = i[axis] - start;
            double v = (fx_tensor_f64(x, i) - mean) * scale;

            v *= weight_at(w, w && w->dim[0] == cols ? i[axis] : k, fx_ref_f(c, FX_A_OFFSET), 1);
            fx_tensor_set_f64(y, i, v + weight_at(b, b && b->dim[0] == cols ? i[axis] : k, 0, 0));
        }
    }
}

fx_status fx_ref_layernorm(const fx_ref_call *c)
{
    return each_line(c, c->in[0]->rank - 1, layernorm_line);
}

/* Sums over the channels of a group and all axes behind them: mean (m NULL) or variance. */
static double group_mean(const fx_tensor *x, int64_t batch, int64_t first, int64_t channels, const double *m)
{
    fx_tensor part = *x;
    int64_t i[FX_MAX_RANK] = { 0 };
    double sum = 0, n;

    part.data = fx_tensor_at(x, (int64_t[FX_MAX_RANK]){ batch, first });
    part.dim[0] = 1;
    part.dim[1] = channels;
    n = (double)fx_tensor_count(&part);
    do {
        double v = fx_tensor_f64(&part, i);

        sum += m ? (v - *m) * (v - *m) : v;
    } while (fx_tensor_next(&part, i));
    return sum / n;
}

fx_status fx_ref_group_norm(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t channels = x->dim[1] / fx_ref_i(c, FX_A_GROUPS), i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        int64_t first = i[1] / channels * channels;
        double mean = group_mean(x, i[0], first, channels, NULL);
        double scale = 1 / sqrt(group_mean(x, i[0], first, channels, &mean) + fx_ref_f(c, FX_A_EPS));

        fx_tensor_set_f64(y, i, (fx_tensor_f64(x, i) - mean) * scale * weight_at(c->in[1], i[1], 0, 1) +
                                    weight_at(c->in[2], i[1], 0, 0));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}
