/* kerneltest.h - what tests of kernels share: random numbers, buffers, variants, and
 * runs by any cut into task ranges. */
#ifndef KERNELTEST_H
#define KERNELTEST_H

#include "fxtest.h"
#include "kernels/kernels.h"

static uint64_t kt_seed = 1;

static inline uint32_t kt_random(void)
{
    kt_seed = kt_seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(kt_seed >> 33);
}

static inline float kt_uniform(void) { return (float)((double)kt_random() / 1073741824.0 - 1.0); }
/* Nearly normal, unit variance. */
static inline float kt_normal(void) { return (kt_uniform() + kt_uniform() + kt_uniform()); }

static inline void *kt_alloc(size_t size)
{
    void *p = aligned_alloc(64, FX_ROUND_UP(size + 1, (size_t)64));

    if (!p)
        abort();
    memset(p, 0xff, FX_ROUND_UP(size + 1, (size_t)64));       /* NaNs: whoever reads too much shows it */
    return p;
}

static inline float *kt_floats(int64_t n, float size)
{
    float *p = kt_alloc((size_t)n * sizeof(float));

    for (int64_t i = 0; i < n; i++)
        p[i] = size * kt_normal();
    return p;
}

/* The i-th variant of op that this machine can run; NULL after the last. */
static inline const fx_kernel *kt_variant(fx_kernel_op op, size_t i)
{
    fx_cpu cpu = fx_cpu_detect();
    const fx_kernel *k;

    for (size_t j = 0; (k = j < fx_kernel_count() ? fx_kernel_at(j) : NULL) != NULL; j++) {
        bool runs = k->level == FX_CPU_SCALAR || k->level == cpu.level ||
                    (k->level == FX_CPU_AVX2 && cpu.level == FX_CPU_AVX512);

        if (k->op == op && runs && i-- == 0)
            return k;
    }
    return NULL;
}

/* All tasks in ranges of 'grain', backwards (as threads might), scratch poisoned. */
static inline void kt_run(const fx_kernel *k, const void *args, int64_t grain)
{
    size_t size = k->scratch_bytes ? k->scratch_bytes(args) : 0;
    void *scratch = kt_alloc(size);
    int64_t n = k->tasks(args);

    for (int64_t t = (n - 1) / grain * grain; n > 0 && t >= 0; t -= grain)
        k->run(args, t, FX_MIN(n, t + grain), scratch);
    free(scratch);
}

/* |a - b| <= abs + rel * |b|, or both NaN, or equal. */
static inline bool kt_near(double a, double b, double abs, double rel)
{
    return fabs(a - b) <= abs + rel * fabs(b) || a == b || (isnan(a) && isnan(b));
}

#endif
