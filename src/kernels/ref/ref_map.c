/* ref_map.c - reference kernels: elementwise maps, and softmax by row.
 *
 * Each value is computed in double with libm and rounded once, so that a
 * variant's error is its own.  A task is a row. */
#include <math.h>

#include "kernels/kernel_set.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double add(double a, double b, double alpha) { (void)alpha; return a + b; }
static double mul(double a, double b, double alpha) { (void)alpha; return a * b; }
static double scale(double a, double b, double alpha) { (void)b; return a * alpha; }
static double silu(double a, double b, double alpha) { (void)b; (void)alpha; return a * sigmoid(a); }
static double gelu(double a, double b, double alpha)
{
    (void)b;
    (void)alpha;
    return 0.5 * a * erfc(-a * M_SQRT1_2);
}
/* 0.5 a (1 + tanh(u)) = a sigmoid(2u), u = sqrt(2/pi) (a + 0.044715 a^3) */
static double gelu_tanh(double a, double b, double alpha)
{
    (void)b;
    (void)alpha;
    return a * sigmoid(2 * 0.79788456080286535588 * (a + 0.044715 * a * a * a));
}
static double relu(double a, double b, double alpha) { (void)b; (void)alpha; return a < 0 ? 0 : a; }
static double relu2(double a, double b, double alpha) { (void)b; (void)alpha; return a < 0 ? 0 : a * a; }
static double clamp(double a, double b, double alpha) { (void)b; return a < -alpha ? -alpha : a > alpha ? alpha : a; }
static double sigm(double a, double b, double alpha) { (void)b; (void)alpha; return sigmoid(a); }
static double tanh1(double a, double b, double alpha) { (void)b; (void)alpha; return tanh(a); }
static double swiglu(double a, double b, double alpha) { (void)alpha; return a * sigmoid(a) * b; }

static int64_t map_tasks(const void *args) { return ((const fx_map_args *)args)->n_rows; }

static void map(const fx_map_args *a, int64_t t0, int64_t t1, double (*f)(double, double, double))
{
    for (int64_t r = t0; r < t1; r++) {
        const float *x = a->a.p + r * a->a.ld;
        const float *z = a->b.p ? a->b.p + (a->b_row ? 0 : r * a->b.ld) : x;
        float *y = a->y.p + r * a->y.ld;

        for (int64_t i = 0; i < a->dim; i++)
            y[i] = (float)f(x[i], z[i], a->alpha);
    }
}

#define MAP(name, f)                                                                \
    static void name(const void *args, int64_t t0, int64_t t1, void *scratch)      \
    {                                                                               \
        (void)scratch;                                                              \
        map(args, t0, t1, f);                                                       \
    }
MAP(map_add, add)
MAP(map_mul, mul)
MAP(map_scale, scale)
MAP(map_silu, silu)
MAP(map_gelu, gelu)
MAP(map_gelu_tanh, gelu_tanh)
MAP(map_relu, relu)
MAP(map_relu2, relu2)
MAP(map_clamp, clamp)
MAP(map_sigmoid, sigm)
MAP(map_tanh, tanh1)
MAP(map_swiglu, swiglu)

static int64_t softmax_tasks(const void *args) { return ((const fx_softmax_args *)args)->n_rows; }

/* y = exp(x - max) / sum exp(x - max); y may be x. */
static void softmax(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_softmax_args *a = args;

    (void)scratch;
    for (int64_t r = t0; r < t1; r++) {
        const float *x = a->x.p + r * a->x.ld;
        float *y = a->y.p + r * a->y.ld, max = -INFINITY;
        double sum = 0;

        for (int64_t i = 0; i < a->dim; i++)
            max = x[i] > max ? x[i] : max;
        for (int64_t i = 0; i < a->dim; i++)
            sum += exp((double)x[i] - max);
        for (int64_t i = 0; i < a->dim; i++)
            y[i] = (float)(exp((double)x[i] - max) / sum);
    }
}

static int64_t splice_tasks(const void *args) { return ((const fx_splice_args *)args)->n_rows; }

static void splice(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_splice_args *a = args;

    (void)scratch;
    for (int64_t r = t0; r < t1; r++) {
        const float *x = a->a.p + r * a->a.ld + a->a_start;
        float *y = a->y.p + r * a->y.ld;

        for (int64_t h = 0; h < a->heads; h++, y += a->a_len + a->b_len) {
            memcpy(y, x + h * a->a_width, (size_t)a->a_len * sizeof(float));
            if (a->b_len)
                memcpy(y + a->a_len, a->b.p + r * a->b.ld + h * a->b_width, (size_t)a->b_len * sizeof(float));
        }
    }
}

static const fx_kernel rows[] = {
    { FX_K_ADD, FX_CPU_SCALAR, "add_ref", map_tasks, map_add, NULL },
    { FX_K_MUL, FX_CPU_SCALAR, "mul_ref", map_tasks, map_mul, NULL },
    { FX_K_SCALE, FX_CPU_SCALAR, "scale_ref", map_tasks, map_scale, NULL },
    { FX_K_SILU, FX_CPU_SCALAR, "silu_ref", map_tasks, map_silu, NULL },
    { FX_K_GELU, FX_CPU_SCALAR, "gelu_ref", map_tasks, map_gelu, NULL },
    { FX_K_GELU_TANH, FX_CPU_SCALAR, "gelu_tanh_ref", map_tasks, map_gelu_tanh, NULL },
    { FX_K_RELU, FX_CPU_SCALAR, "relu_ref", map_tasks, map_relu, NULL },
    { FX_K_RELU2, FX_CPU_SCALAR, "relu2_ref", map_tasks, map_relu2, NULL },
    { FX_K_CLAMP, FX_CPU_SCALAR, "clamp_ref", map_tasks, map_clamp, NULL },
    { FX_K_SIGMOID, FX_CPU_SCALAR, "sigmoid_ref", map_tasks, map_sigmoid, NULL },
    { FX_K_TANH, FX_CPU_SCALAR, "tanh_ref", map_tasks, map_tanh, NULL },
    { FX_K_SWIGLU, FX_CPU_SCALAR, "swiglu_ref", map_tasks, map_swiglu, NULL },
    { FX_K_SPLICE, FX_CPU_SCALAR, "splice_ref", splice_tasks, splice, NULL },
    { FX_K_SOFTMAX, FX_CPU_SCALAR, "softmax_ref", softmax_tasks, softmax, NULL },
};
const fx_kernel_set fx_kernels_ref_map = { rows, FX_COUNT(rows) };
