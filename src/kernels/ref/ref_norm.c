/* ref_norm.c - reference kernels: norms by row and group; the RMS norm after an optional residual.
 *
 *     s = x (+ residual)                             each addition rounded to f32
 *     y = s * (1 / sqrt(mean(s^2) + eps)) * (w + w_offset)
 *
 * The mean is kept in double.  A task is a row. */
#include <math.h>

#include "kernels/kernel_set.h"
#include "kernels/quant.h"

static int64_t tasks(const void *args) { return ((const fx_rmsnorm_args *)args)->n_rows; }

/* s itself and, if q8 is wanted without y, the row that is quantized. */
static size_t scratch_bytes(const void *args)
{
    const fx_rmsnorm_args *a = args;

    return (size_t)(a->dim * a->n_groups) * sizeof(float);
}

static void norm_group(const fx_rmsnorm_args *a, const float *s, float *y)
{
    double sum = 0;
    float inv;

    for (int64_t i = 0; i < a->dim; i++)
        sum += (double)s[i] * s[i];
    inv = (float)(1.0 / sqrt(sum / (double)a->dim + (double)a->eps));
    for (int64_t i = 0; i < a->dim; i++)
        y[i] = s[i] * inv * (a->w[i] + a->w_offset);
}

static void run(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_rmsnorm_args *a = args;
    int64_t columns = a->dim * a->n_groups;

    for (int64_t r = t0; r < t1; r++) {
        const float *x = a->x.p + r * a->x.ld;
        const float *res = a->residual.p ? a->residual.p + r * a->residual.ld : NULL;
        float *s = a->sum.p ? a->sum.p + r * a->sum.ld : scratch;
        float *y = a->y.p ? a->y.p + r * a->y.ld : scratch;

        for (int64_t i = 0; i < columns; i++)
            s[i] = res ? x[i] + res[i] : x[i];
        for (int64_t g = 0; g < a->n_groups; g++)
            norm_group(a, s + g * a->dim, y + g * a->dim);
        if (a->q8.data)
            fx_q8_put(&a->q8, a->n_rows, r, 1, 0, a->q8.k, (fx_cmat){ y, 0 });
    }
}

static int64_t layernorm_tasks(const void *args) { return ((const fx_layernorm_args *)args)->n_rows; }

/* y = (x - mean) * (1 / sqrt(mean((x - mean)^2) + eps)) * (w + w_offset) + b */
static void layernorm_group(const fx_layernorm_args *a, const float *x, const float *w, const float *b, float *y)
{
    double mean = 0, var = 0, inv;

    for (int64_t i = 0; i < a->dim; i++)
        mean += (double)x[i];
    mean /= (double)a->dim;
    for (int64_t i = 0; i < a->dim; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean);
    inv = 1.0 / sqrt(var / (double)a->dim + (double)a->eps);
    for (int64_t i = 0; i < a->dim; i++) {
        double v = ((double)x[i] - mean) * inv;

        y[i] = (float)(v * (w ? (double)w[i] + (double)a->w_offset : 1) + (b ? (double)b[i] : 0));
    }
}

static void layernorm(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_layernorm_args *a = args;

    (void)scratch;
    for (int64_t r = t0; r < t1; r++) {
        for (int64_t g = 0; g < a->n_groups; g++)
            layernorm_group(a, a->x.p + r * a->x.ld + g * a->dim, a->w ? a->w + g * a->w_step : NULL,
                            a->b ? a->b + g * a->b_step : NULL, a->y.p + r * a->y.ld + g * a->dim);
    }
}

static const fx_kernel rows[] = {
    { FX_K_LAYERNORM, FX_CPU_SCALAR, "layernorm_ref", layernorm_tasks, layernorm, NULL },
    { FX_K_RMSNORM, FX_CPU_SCALAR, "rmsnorm_ref", tasks, run, scratch_bytes },
};
const fx_kernel_set fx_kernels_ref_norm = { rows, FX_COUNT(rows) };
