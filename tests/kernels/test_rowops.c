/* test_rowops.c - every variant of the row kernels (but attention) against formulas in
 * double that this file states again, and the reduction contract: a row's bytes don't
 * depend on the rows beside it, on the cut into tasks, or on offsets. */
#include "kerneltest.h"
#include "kernels/quant.h"

/* ---- Elementwise maps -------------------------------------------------------------- */

static double f_add(double a, double b) { return a + b; }
static double f_mul(double a, double b) { return a * b; }
static double f_scale(double a, double b) { (void)b; return a * 0.37f; }
static double f_sigmoid(double a, double b) { (void)b; return 1 / (1 + exp(-a)); }
static double f_silu(double a, double b) { return a * f_sigmoid(a, b); }
static double f_gelu(double a, double b) { (void)b; return a * 0.5 * erfc(-a / sqrt(2)); }
static double f_gelu_tanh(double a, double b)
{
    return a * f_sigmoid(2 * sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a), b);
}
static double f_relu(double a, double b) { (void)b; return a > 0 ? a : 0; }
static double f_relu2(double a, double b) { (void)b; return a > 0 ? a * a : 0; }
static double f_clamp(double a, double b) { (void)b; return a > (double)0.37f ? (double)0.37f : a < -(double)0.37f ? -(double)0.37f : a; }
static double f_tanh(double a, double b) { (void)b; return tanh(a); }
static double f_swiglu(double a, double b) { return f_silu(a, b) * b; }

/* Relative bounds are of the result; 2^-23 is one ulp at most. */
static const struct { fx_kernel_op op; double (*f)(double, double); double abs, rel; bool rows; } maps[] = {
    { FX_K_ADD, f_add, 0, 0x1p-24, true },          { FX_K_MUL, f_mul, 1e-44, 0x1p-24, true },
    { FX_K_SCALE, f_scale, 1e-44, 0x1p-24, false }, { FX_K_SILU, f_silu, 1e-36, 0x1p-21, false },
    { FX_K_GELU, f_gelu, 1e-36, 1e-5, false },      { FX_K_GELU_TANH, f_gelu_tanh, 1e-30, 1e-5, false },
    { FX_K_RELU, f_relu, 0, 0, false },             { FX_K_SIGMOID, f_sigmoid, 1e-36, 0x1p-21, false },
    { FX_K_RELU2, f_relu2, 1e-44, 0x1p-24, false }, { FX_K_CLAMP, f_clamp, 0, 0, false },
    { FX_K_TANH, f_tanh, 0, 0x1p-21, false },       { FX_K_SWIGLU, f_swiglu, 1e-36, 0x1p-20, true },
};

/* All exponents, both signs, dense near 1, and the corners. */
static float *interesting(int64_t n)
{
    static const float corners[] = { 0, -0.0f, 1e-45f, -1e-45f, 1e-38f, 88.72f, -88.72f, 89, -89, 104, -104, 3e38f,
                                     -3e38f, 0.625f, -0.625f, 0.62500006f, 14.5f, -14.5f, 127, 128, -126, -127 };
    float *x = kt_alloc((size_t)n * sizeof(float));

    for (int64_t i = 0; i < n; i++) {
        float s = kt_random() & 1 ? 1.0f : -1.0f;

        if (i < (int64_t)FX_COUNT(corners))
            x[i] = corners[i];
        else if (i % 3 == 0)
            x[i] = s * ldexpf(1 + (float)kt_random() * 0x1p-31f, (int)(kt_random() % 250) - 125);
        else
            x[i] = s * (float)kt_random() * 0x1p-31f * (i % 3 == 1 ? 4 : 100);
    }
    return x;
}

static void check_map(size_t m, const fx_kernel *k, int64_t dim)
{
    int64_t rows = 3, ld = dim + 3;
    float *a = interesting(rows * ld), *b = kt_floats(rows * ld, 1), *y = kt_alloc((size_t)(rows * ld) * 4);
    int bad = 0;

    for (int b_row = 0; b_row < (maps[m].rows ? 2 : 1); b_row++) {
        fx_map_args args = { .a = { a, ld }, .b = { maps[m].rows ? b : NULL, ld }, .y = { y, ld }, .n_rows = rows,
                             .dim = dim, .b_row = b_row, .alpha = 0.37f };

        kt_run(k, &args, 2);
        for (int64_t i = 0; i < rows * ld && bad < 4; i++) {
            double z = (double)b[b_row ? i % ld : i], want = maps[m].f((double)a[i], z);

            if (i % ld >= dim) {
                bad += !isnan(y[i]);
            } else if (!kt_near((double)y[i], (double)(float)want, maps[m].abs, maps[m].rel)) {
                FXTEST_FAIL("%s(%.9g, %.9g) is %.9g, expected %.9g", k->name, a[i], z, y[i], want);
                bad++;
            }
        }
        CHECK(!bad);
        args.y = (fx_mat){ a, ld };                          /* in place gives the same */
        float *before = kt_alloc((size_t)(rows * ld) * 4);
        memcpy(before, a, (size_t)(rows * ld) * 4);
        kt_run(k, &args, 3);
        for (int64_t r = 0; r < rows; r++)
            CHECK_MEM(a + r * ld, y + r * ld, (size_t)dim * 4);
        memcpy(a, before, (size_t)(rows * ld) * 4);
        free(before);
    }
    free(a);
    free(b);
    free(y);
}

TEST(maps_are_accurate)
{
    static const int64_t dims[] = { 1, 7, 16, 33, 500, 20000 };
    const fx_kernel *k;

    for (size_t m = 0; m < FX_COUNT(maps); m++)
        for (size_t v = 0; (k = kt_variant(maps[m].op, v)) != NULL; v++)
            for (size_t d = 0; d < FX_COUNT(dims); d++)
                check_map(m, k, dims[d]);
}

TEST(maps_take_nan_and_infinity)
{
    const fx_kernel *k;

    for (size_t m = 0; m < FX_COUNT(maps); m++)
        for (size_t v = 0; (k = kt_variant(maps[m].op, v)) != NULL; v++) {
            float a[3] = { NAN, INFINITY, 2 }, b[3] = { 1, 1, 1 }, y[3];
            fx_map_args args = { .a = { a, 3 }, .b = { b, 3 }, .y = { y, 3 }, .n_rows = 1, .dim = 3, .alpha = 0.37f };

            kt_run(k, &args, 1);
            CHECK(isnan(y[0]));
            CHECK_NEAR(y[1], maps[m].f(INFINITY, 1), 0);
            CHECK_NEAR(y[2], maps[m].f(2, 1), 1e-5);
        }
}

/* ---- Softmax ------------------------------------------------------------------------- */

TEST(softmax_against_double)
{
    static const int64_t dims[] = { 1, 2, 15, 16, 17, 100, 1000, 49152 };
    const fx_kernel *k;

    for (size_t v = 0; (k = kt_variant(FX_K_SOFTMAX, v)) != NULL; v++)
        for (size_t i = 0; i < FX_COUNT(dims); i++) {
            int64_t n = dims[i];
            float *x = kt_floats(3 * n, 5), *y = kt_alloc((size_t)(3 * n) * 4), *one = kt_alloc((size_t)n * 4);
            fx_softmax_args a = { .x = { x, n }, .y = { y, n }, .n_rows = 3, .dim = n };

            for (int64_t j = 0; j < n / 2; j++)
                x[2 * n + j] = j % 2 ? -INFINITY : -1e30f;   /* masked */
            kt_run(k, &a, 2);
            for (int64_t r = 0; r < 3; r++) {
                double max = -INFINITY, sum = 0;

                for (int64_t j = 0; j < n; j++)
                    max = fmax(max, (double)x[r * n + j]);
                for (int64_t j = 0; j < n; j++)
                    sum += exp((double)x[r * n + j] - max);
                for (int64_t j = 0; j < n; j++) {
                    double want = exp((double)x[r * n + j] - max) / sum;

                    if (!kt_near((double)y[r * n + j], want, 1e-37, 2e-6)) {
                        FXTEST_FAIL("%s: %g, expected %g", k->name, (double)y[r * n + j], want);
                        break;
                    }
                }
                fx_softmax_args alone = { .x = { x + r * n, n }, .y = { one, n }, .n_rows = 1, .dim = n };
                kt_run(k, &alone, 1);
                CHECK_MEM(one, y + r * n, (size_t)n * 4);
            }
            free(x);
            free(y);
            free(one);
        }
}

/* ---- RMS norm ---------------------------------------------------------------------------- */

typedef struct norm_case {
    int64_t dim, groups;
    bool residual, sum, y, q8, in_place;
} norm_case;

static const norm_case norms[] = {
    { 1, 1, false, false, true, false, false },   { 7, 3, true, true, true, false, false },
    { 16, 1, true, false, true, false, true },    { 64, 9, false, false, true, false, true },
    { 100, 1, true, true, true, false, true },    { 128, 2, false, true, true, false, false },
    { 576, 1, true, true, true, true, false },    { 576, 1, true, true, false, true, true },
    { 960, 1, false, false, false, true, false }, { 4096, 1, true, false, false, true, false },
    { 2050, 1, true, true, true, false, false },  { 33, 1, true, true, false, false, true },
};

typedef struct norm_out {
    float *sum, *y;
    void *q8;
} norm_out;

/* Runs rows [r0, r0 + n) of x as a call of its own. */
static norm_out run_norm(const norm_case *c, const fx_kernel *k, const float *x, const float *res, const float *w,
                         int64_t r0, int64_t n, int64_t ld, int64_t grain)
{
    size_t bytes = (size_t)(n * ld) * sizeof(float);
    norm_out o = { kt_alloc(bytes), kt_alloc(bytes), NULL };
    fx_rmsnorm_args a = { .x = { x + r0 * ld, ld }, .w = w, .eps = 1e-5f, .w_offset = 0.25f, .n_rows = n,
                          .dim = c->dim, .n_groups = c->groups };

    if (c->residual)
        a.residual = (fx_cmat){ res + r0 * ld, ld };
    if (c->in_place) {                       /* sum over x, or y over x */
        float *to = c->sum ? o.sum : o.y;

        memcpy(to, x + r0 * ld, bytes);
        a.x.p = to;
    }
    if (c->sum)
        a.sum = (fx_mat){ o.sum, ld };
    if (c->y)
        a.y = (fx_mat){ o.y, ld };
    if (c->q8) {
        a.q8 = (fx_q8){ kt_alloc(fx_q8_bytes(n, c->dim)), c->dim };
        o.q8 = a.q8.data;
    }
    kt_run(k, &a, grain);
    return o;
}

static void norm_out_free(norm_out *o)
{
    free(o->sum);
    free(o->y);
    free(o->q8);
}

static void check_norm_values(const norm_case *c, const fx_kernel *k, const norm_out *o, const float *x,
                              const float *res, const float *w, int64_t rows, int64_t ld)
{
    int bad = 0;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t g = 0; g < c->groups; g++) {
            double sum = 0, inv;

            for (int64_t i = 0; i < c->dim; i++) {
                int64_t at = r * ld + g * c->dim + i;
                float s = c->residual ? x[at] + res[at] : x[at];

                sum += (double)s * (double)s;
                bad += c->sum && fx_f32_bits(o->sum[at]) != fx_f32_bits(s);
            }
            inv = 1 / sqrt(sum / (double)c->dim + (double)1e-5f);
            for (int64_t i = 0; i < c->dim && c->y; i++) {
                int64_t at = r * ld + g * c->dim + i;
                double s = (double)(c->residual ? x[at] + res[at] : x[at]);

                bad += !kt_near((double)o->y[at], s * inv * ((double)w[i] + 0.25), 0, 1e-6);
            }
        }
    if (bad)
        FXTEST_FAIL("%s: dim %d x %d: %d values off", k->name, (int)c->dim, (int)c->groups, bad);
}

/* The quantized row: words of row r among n, in the order of a row alone. */
static void q8_row(const void *data, int64_t n, int64_t k, int64_t r, uint32_t *out)
{
    fx_q8 q8 = { (void *)(uintptr_t)data, k };
    fx_q8_panel p = fx_q8_panel_of_row(n, r);
    const uint32_t *w = fx_q8_panel_words(&q8, p.row0) + (r - p.row0);

    for (int64_t i = 0; i < k / 32 * FX_Q8_WORDS; i++)
        out[i] = w[i * p.width];
}

static void check_norm(const norm_case *c, const fx_kernel *k)
{
    int64_t rows = 64, columns = c->dim * c->groups, ld = columns + (c->q8 ? 0 : 5), words = c->dim / 32 * FX_Q8_WORDS;
    float *x = kt_floats(rows * ld, 3), *res = kt_floats(rows * ld, 1), *w = kt_floats(c->dim, 1);
    uint32_t *q0 = kt_alloc((size_t)words * 4), *q1 = kt_alloc((size_t)words * 4);
    norm_out all = run_norm(c, k, x, res, w, 0, rows, ld, 5);

    check_norm_values(c, k, &all, x, res, w, rows, ld);
    for (int64_t n = 1; n <= rows; n += n < 5 ? 1 : 7) {
        int64_t r0 = (rows - n) / 2, pick = n / 3;
        norm_out part = run_norm(c, k, x, res, w, r0, n, ld, 1 + n / 4);

        for (int64_t r = 0; r < n; r++) {
            if (c->y)
                CHECK_MEM(part.y + r * ld, all.y + (r0 + r) * ld, (size_t)columns * 4);
            if (c->sum)
                CHECK_MEM(part.sum + r * ld, all.sum + (r0 + r) * ld, (size_t)columns * 4);
        }
        if (c->q8) {
            q8_row(part.q8, n, c->dim, pick, q0);
            q8_row(all.q8, rows, c->dim, r0 + pick, q1);
            CHECK_MEM(q0, q1, (size_t)words * 4);
        }
        norm_out_free(&part);
    }
    if (c->q8 && c->y) {                     /* what is quantized is y */
        fx_q8 q8 = { kt_alloc(fx_q8_bytes(1, c->dim)), c->dim };

        fx_q8_put(&q8, 1, 0, 1, 0, c->dim, (fx_cmat){ all.y + 9 * ld, 0 });
        q8_row(all.q8, rows, c->dim, 9, q0);
        q8_row(q8.data, 1, c->dim, 0, q1);
        CHECK_MEM(q0, q1, (size_t)words * 4);
        free(q8.data);
    }
    norm_out_free(&all);
    free(x);
    free(res);
    free(w);
    free(q0);
    free(q1);
}

TEST(rmsnorm_against_double_and_the_contract)
{
    const fx_kernel *k;

    for (size_t v = 0; (k = kt_variant(FX_K_RMSNORM, v)) != NULL; v++)
        for (size_t i = 0; i < FX_COUNT(norms); i++)
            check_norm(&norms[i], k);
}

/* ---- Layer norm ---------------------------------------------------------------------------- */

static const struct layer_norm_case {
    int64_t dim, groups;
    bool w, b, own, in_place;                /* own: weights of each group's own */
    float offset, shift;                     /* shift: of all values, where a naive variance cancels */
} layer_norms[] = {
    { 1, 1, true, true, false, false, 0, 0 },    { 7, 3, true, true, false, false, 1, 0 },
    { 16, 2, true, false, true, true, 0, 0 },    { 64, 1, false, false, false, true, 0, 0 },
    { 100, 4, true, true, true, false, 0.5f, 3 }, { 768, 1, true, true, false, true, 0, 100 },
    { 2050, 1, true, true, false, false, 1, -20 }, { 33, 5, false, true, true, false, 0, 0 },
};
typedef struct layer_norm_case layer_norm_case;

static void layer_norm_truth(const layer_norm_case *c, const float *x, const float *w, const float *b, double *y)
{
    for (int64_t g = 0; g < c->groups; g++) {
        const float *p = x + g * c->dim;
        int64_t at = c->own ? g * c->dim : 0;
        double mean = 0, var = 0;

        for (int64_t i = 0; i < c->dim; i++)
            mean += (double)p[i] / (double)c->dim;
        for (int64_t i = 0; i < c->dim; i++)
            var += ((double)p[i] - mean) * ((double)p[i] - mean) / (double)c->dim;
        for (int64_t i = 0; i < c->dim; i++) {
            double v = ((double)p[i] - mean) / sqrt(var + (double)1e-5f);

            v *= c->w ? (double)w[at + i] + (double)c->offset : 1;
            y[g * c->dim + i] = v + (c->b ? (double)b[at + i] : 0);
        }
    }
}

static void check_layer_norm(const layer_norm_case *c, const fx_kernel *k)
{
    int64_t rows = 21, n = c->dim * c->groups, ld = n + 3;
    float *x = kt_floats(rows * ld, 2), *w = kt_floats(n, 1), *b = kt_floats(n, 1);
    float *y = kt_alloc((size_t)(rows * ld) * 4), *one = kt_alloc((size_t)n * 4);
    double *want = kt_alloc((size_t)n * 8);
    fx_layernorm_args a = { .x = { x, ld }, .y = { y, ld }, .w = c->w ? w : NULL, .b = c->b ? b : NULL,
                            .w_step = c->own ? c->dim : 0, .b_step = c->own ? c->dim : 0, .eps = 1e-5f,
                            .w_offset = c->offset, .n_rows = rows, .dim = c->dim, .n_groups = c->groups };
    int bad = 0;

    for (int64_t i = 0; i < rows * ld; i++)
        x[i] += c->shift;
    if (c->in_place) {
        memcpy(y, x, (size_t)(rows * ld) * 4);
        a.x.p = y;
    }
    kt_run(k, &a, 4);
    for (int64_t r = 0; r < rows; r++) {
        fx_layernorm_args alone = a;

        layer_norm_truth(c, x + r * ld, w, b, want);
        for (int64_t i = 0; i < n; i++)
            bad += !kt_near((double)y[r * ld + i], want[i], 2e-6 * (1 + fabs((double)c->shift)), 4e-6);
        alone.x = (fx_cmat){ x + r * ld, 1 };
        alone.y = (fx_mat){ one, 1 };
        alone.n_rows = 1;
        kt_run(k, &alone, 1);
        CHECK_MEM(one, y + r * ld, (size_t)n * 4);
    }
    if (bad)
        FXTEST_FAIL("%s: dim %d x %d: %d values off", k->name, (int)c->dim, (int)c->groups, bad);
    free(x);
    free(w);
    free(b);
    free(y);
    free(one);
    free(want);
}

TEST(layer_norm_against_double_and_the_contract)
{
    const fx_kernel *k;

    for (size_t v = 0; (k = kt_variant(FX_K_LAYERNORM, v)) != NULL; v++)
        for (size_t i = 0; i < FX_COUNT(layer_norms); i++)
            check_layer_norm(&layer_norms[i], k);
}

/* ---- Rotation and the KV store ------------------------------------------------------------ */

typedef struct rope_case {
    int heads, kv_heads, head_dim, v_dim, rot_dim, page_tokens;
    fx_rope_style style;
    bool norms, in_place;
    float attn_scale;
    fx_dtype type;
    bool norm_last;
    float norm_offset;
    int long_from;                           /* rows at odd places are of sequences of 3 times as many */
    float growth;
} rope_case;

static const rope_case ropes[] = {
    { 3, 1, 64, 64, 64, 32, FX_ROPE_HALF, false, true, 1, FX_F16, false, 0, 0, 0 },
    { 9, 3, 64, 64, 64, 64, FX_ROPE_PAIRS, true, false, 1, FX_F32, false, 0, 0, 0 },
    { 4, 2, 128, 96, 128, 32, FX_ROPE_HALF, true, true, 1.3f, FX_F16, false, 0, 0, 0 },
    { 2, 2, 80, 80, 20, 96, FX_ROPE_HALF, false, false, 1, FX_F16, false, 0, 0, 0 },
    { 2, 1, 30, 6, 22, 32, FX_ROPE_PAIRS, false, true, 0.7f, FX_F32, false, 0, 0, 0 },
    { 1, 1, 2, 2, 2, 32, FX_ROPE_HALF, true, false, 1, FX_F16, false, 0, 0, 0 },
    { 2, 1, 64, 64, 32, 32, FX_ROPE_HALF, true, true, 1, FX_F16, true, 1, 0, 0 },
    { 2, 1, 48, 48, 40, 32, FX_ROPE_PAIRS, true, false, 1.2f, FX_F32, true, 0, 64, 0 },
    { 2, 1, 40, 40, 36, 32, FX_ROPE_HALF, true, false, 1, FX_F16, false, 1, 64, 4 },
    { 2, 1, 16, 16, 16, 32, FX_ROPE_PAIRS, false, false, 1, FX_F32, false, 0, 100, 2 },
    { 2, 1, 48, 40, 0, 32, FX_ROPE_HALF, true, false, 1, FX_F16, false, 0, 0, 0 },      /* not rotated */
    { 4, 0, 64, 64, 64, 32, FX_ROPE_HALF, false, true, 1, FX_F16, false, 0, 0, 0 },     /* nothing stored */
    { 3, 1, 64, 64, 64, 64, FX_ROPE_HALF, true, true, 1, FX_I8, false, 0, 0, 0 },
    { 4, 2, 30, 21, 22, 32, FX_ROPE_PAIRS, false, false, 0.7f, FX_I8, true, 0.5f, 0, 0 },
    { 2, 2, 6, 100, 6, 96, FX_ROPE_HALF, false, false, 1, FX_I8, false, 0, 0, 0 },
    { 3, 1, 64, 40, 64, 32, FX_ROPE_HALF, true, true, 1, FX_BF16, false, 0, 0, 0 },
};

static const int32_t rope_pos[] = { 0, 1, 30, 31, 32, 33, 34, 95, 96, 97, 4095, 131071, 1000003 };
#define ROPE_ROWS ((int64_t)FX_COUNT(rope_pos))

typedef struct rope_scene {
    const rope_case *c;
    fx_step step;
    fx_step_seq seqs[ROPE_ROWS];             /* a sequence a row */
    fx_page page[ROPE_ROWS];
    int32_t seq[ROPE_ROWS];
    size_t kv_bytes;
    float *q, *k, *v, *q_norm, *k_norm, *inv_freq;
    fx_rope_store_args args;
} rope_scene;

/* Of a page, for one head's keys or values. */
static size_t head_bytes(const rope_case *c, int width)
{
    if (c->type == FX_I8)
        return (size_t)c->page_tokens * (FX_ROUND_UP((size_t)width, 4u) + 4);
    return (size_t)c->page_tokens * (size_t)width * (c->type == FX_F32 ? 4 : 2);
}

static void rope_scene_new(rope_scene *s, const rope_case *c)
{
    size_t k_bytes = (size_t)c->kv_heads * head_bytes(c, c->head_dim), v_bytes = (size_t)c->kv_heads * head_bytes(c, c->v_dim);
    int32_t n_pages = rope_pos[ROPE_ROWS - 1] / 32 + 1;

    *s = (rope_scene){ .c = c };
    s->step.page_tokens = c->page_tokens;
    s->step.n_columns = 1;
    s->step.page_bytes = k_bytes + v_bytes + 64;
    s->kv_bytes = (size_t)ROPE_ROWS * s->step.page_bytes;
    for (int64_t i = 0; i < ROPE_ROWS; i++) {
        fx_page *pages = kt_alloc((size_t)n_pages * sizeof *pages);

        pages[rope_pos[i] / c->page_tokens] = (fx_page)(ROPE_ROWS - 1 - i);
        if (c->kv_heads == 0) {              /* no state, no pages */
            free(pages);
            pages = NULL;
        }
        s->seqs[i] = (fx_step_seq){ .row0 = (int32_t)i, .n_rows = 1, .pos0 = rope_pos[i], .pages = pages,
                                    .adapter = -1, .length_class = i % 2 ? 3 * c->long_from : 0 };
        s->seq[i] = (int32_t)i;
    }
    s->q = kt_floats(ROPE_ROWS * c->heads * c->head_dim, 1);
    s->k = kt_floats(ROPE_ROWS * c->kv_heads * c->head_dim, 1);
    s->v = kt_floats(ROPE_ROWS * c->kv_heads * c->v_dim, 1);
    s->q_norm = kt_floats(c->head_dim, 1);
    s->k_norm = kt_floats(c->head_dim, 1);
    s->inv_freq = kt_alloc((size_t)(c->rot_dim + 1) * 4);
    for (int i = 0; i < c->rot_dim / 2; i++)                 /* of long sequences */
        s->inv_freq[c->rot_dim / 2 + i] = (float)pow(5000, -3.0 * i / c->rot_dim);
    for (int i = 0; i < c->rot_dim / 2; i++)
        s->inv_freq[i] = (float)pow(10000, -2.0 * i / c->rot_dim);
    s->step.n_rows = s->step.n_seqs = (int32_t)ROPE_ROWS;
    s->step.pos = rope_pos;
    s->step.seq = s->seq;
    s->step.seqs = s->seqs;
    s->args = (fx_rope_store_args){
        .q = { s->q, c->heads * c->head_dim }, .k = { s->k, c->kv_heads * c->head_dim },
        .v = { s->v, c->kv_heads * c->v_dim }, .q_norm = c->norms ? s->q_norm : NULL,
        .k_norm = c->norms ? s->k_norm : NULL, .eps = 1e-6f, .norm_offset = c->norm_offset,
        .norm_last = c->norm_last, .long_from = c->long_from, .growth = c->growth, .style = c->style, .rot_dim = c->rot_dim,
        .inv_freq = s->inv_freq, .attn_scale = c->attn_scale, .heads = c->heads, .kv_heads = c->kv_heads,
        .head_dim = c->head_dim, .v_dim = c->v_dim, .kv_dtype = c->type, .k_offset = 0,
        .v_offset = k_bytes, .step = &s->step,
    };
}

static void rope_scene_free(rope_scene *s)
{
    for (int64_t i = 0; i < ROPE_ROWS; i++)
        free((void *)(uintptr_t)s->seqs[i].pages);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->q_norm);
    free(s->k_norm);
    free(s->inv_freq);
}

static void norm_truth(const rope_case *c, const float *norm, double *out)
{
    double sum = 0;

    for (int d = 0; d < c->head_dim; d++)
        sum += out[d] * out[d];
    for (int d = 0; d < c->head_dim && c->norms; d++)
        out[d] *= ((double)norm[d] + (double)c->norm_offset) / sqrt(sum / c->head_dim + (double)1e-6f);
}

/* Radians a position of pair i for the sequence of row r. */
static double rope_frequency(const rope_scene *s, int64_t r, int i)
{
    const rope_case *c = s->c;

    if (!c->long_from || r % 2 == 0)
        return (double)s->inv_freq[i];
    if (c->growth > 0)                       /* the base grows: theta (3 g - (g - 1))^(d / (d - 2)) */
        return (double)s->inv_freq[i] *
               pow(3 * (double)c->growth - ((double)c->growth - 1), -2.0 * i / c->rot_dim * c->rot_dim / (c->rot_dim - 2));
    return (double)s->inv_freq[c->rot_dim / 2 + i];
}

static void rope_truth(const rope_scene *s, int64_t r, const float *x, const float *norm, double *out)
{
    const rope_case *c = s->c;
    int64_t pos = rope_pos[r];

    for (int d = 0; d < c->head_dim; d++)
        out[d] = (double)x[d];
    if (!c->norm_last)
        norm_truth(c, norm, out);
    for (int i = 0; i < c->rot_dim / 2; i++) {
        int p = c->style == FX_ROPE_HALF ? i : 2 * i, q = c->style == FX_ROPE_HALF ? i + c->rot_dim / 2 : 2 * i + 1;
        double angle = (double)pos * rope_frequency(s, r, i), a = out[p], b = out[q];

        out[p] = (double)c->attn_scale * (a * cos(angle) - b * sin(angle));
        out[q] = (double)c->attn_scale * (b * cos(angle) + a * sin(angle));
    }
    if (c->norm_last)
        norm_truth(c, norm, out);
}

/* What a byte stands for where the largest of n numbers is max. */
static float byte_scale(const double *x, int n)
{
    double max = 0;

    for (int d = 0; d < n; d++)
        max = fmax(max, fabs(x[d]));
    return (float)max / 127.0f;
}

/* Component d of the key or value of head h at position 'in' of the page at byte 'page', by the layout of kv_page.h. */
static double kv_value(const rope_scene *s, size_t page, bool key, int64_t h, int64_t in, int64_t d)
{
    const rope_case *c = s->c;
    int64_t width = key ? c->head_dim : c->v_dim, j = in % 32, fours = FX_ROUND_UP(width, 4);
    const uint8_t *block = s->step.kv + page + (key ? s->args.k_offset : s->args.v_offset) +
                           (size_t)h * head_bytes(c, (int)width) + head_bytes(c, (int)width) / (size_t)c->page_tokens * (size_t)(in - j);
    int64_t i = key ? d * 32 + j : j * width + d;
    uint16_t half;
    float x;

    if (c->type == FX_I8) {
        memcpy(&x, block + 32 * fours + j * 4, 4);
        i = key ? d / 4 * 128 + j * 4 + d % 4 : (j / 4 * fours + d) * 4 + j % 4;
        return (double)x * ((const int8_t *)block)[i];
    }
    if (c->type != FX_F32) {
        memcpy(&half, block + i * 2, 2);
        return (double)(c->type == FX_F16 ? fx_f16_to_f32(half) : fx_bf16_to_f32(half));
    }
    memcpy(&x, block + i * 4, 4);
    return (double)x;
}

/* v[d] of n as it is stored. */
static double stored_value(const rope_case *c, const float *v, int n, int64_t d)
{
    double wide[256];
    float scale;

    if (c->type != FX_I8)
        return (double)(c->type == FX_F16    ? fx_f16_to_f32(fx_f32_to_f16(v[d]))
                        : c->type == FX_BF16 ? fx_bf16_to_f32(fx_f32_to_bf16(v[d]))
                                             : v[d]);
    for (int i = 0; i < n; i++)
        wide[i] = (double)v[i];
    scale = byte_scale(wide, n);
    return (double)scale * rint((double)(v[d] * (1.0f / scale)));
}

static int check_rope_row(const rope_scene *s, int64_t r, const float *q_out)
{
    const rope_case *c = s->c;
    double *want = kt_alloc((size_t)c->head_dim * sizeof *want), tol = c->type == FX_F16 || c->type == FX_BF16 ? 3e-3 : 2e-6;
    double rel = c->type == FX_F16 ? 0x1p-11 : c->type == FX_BF16 ? 0x1p-8 : 1e-6;
    int64_t pos = rope_pos[r], in = pos % c->page_tokens;
    size_t page = (size_t)(ROPE_ROWS - 1 - r) * s->step.page_bytes;
    int bad = 0;

    for (int64_t h = 0; h < c->heads; h++) {
        rope_truth(s, r, s->q + (r * c->heads + h) * c->head_dim, s->q_norm, want);
        for (int d = 0; d < c->head_dim; d++)
            bad += !kt_near((double)q_out[(r * c->heads + h) * c->head_dim + d], want[d], 2e-6, 1e-6);
    }
    for (int64_t h = 0; h < c->kv_heads; h++) {
        rope_truth(s, r, s->k + (r * c->kv_heads + h) * c->head_dim, s->k_norm, want);
        if (c->type == FX_I8)
            tol = 0.5001 * (double)byte_scale(want, c->head_dim) + 2e-6;
        for (int64_t d = 0; d < c->head_dim; d++)
            bad += !kt_near(kv_value(s, page, true, h, in, d), want[d], tol, rel);
        for (int64_t d = 0; d < c->v_dim; d++)
            bad += kv_value(s, page, false, h, in, d) !=
                   stored_value(c, s->v + (r * c->kv_heads + h) * c->v_dim, c->v_dim, d);
    }
    free(want);
    return bad;
}

/* Every byte of the pool that isn't the row's own is as it was (0xff). */
static int64_t bytes_written(const rope_scene *s)
{
    int64_t n = 0;

    for (size_t i = 0; i < s->kv_bytes; i++)
        n += s->step.kv[i] != 0xff;
    return n;
}

static void check_rope(const rope_case *c, const fx_kernel *k)
{
    rope_scene s;
    size_t q_bytes = (size_t)(ROPE_ROWS * c->heads * c->head_dim) * 4;
    int64_t most = ROPE_ROWS * c->kv_heads * (int64_t)((head_bytes(c, c->head_dim) + head_bytes(c, c->v_dim)) / (size_t)c->page_tokens);
    float *q1 = kt_alloc(q_bytes), *q2 = kt_alloc(q_bytes);
    uint8_t *kv1;

    rope_scene_new(&s, c);
    s.step.kv = kv1 = kt_alloc(s.kv_bytes);
    s.args.q_out = (fx_mat){ q1, s.args.q.ld };
    kt_run(k, &s.args, 4);
    for (int64_t r = 0; r < ROPE_ROWS; r++)
        CHECK_EQ_I64(check_rope_row(&s, r, q1), 0);
    CHECK(bytes_written(&s) <= most);
    s.step.kv = kt_alloc(s.kv_bytes);
    s.args.q_out = (fx_mat){ q2, s.args.q.ld };
    if (c->in_place) {
        memcpy(q2, s.q, q_bytes);
        s.args.q.p = q2;
    }
    kt_run(k, &s.args, 1);
    CHECK_MEM(q1, q2, q_bytes);
    CHECK_MEM(kv1, s.step.kv, s.kv_bytes);
    free(kv1);
    free(s.step.kv);
    free(q1);
    free(q2);
    rope_scene_free(&s);
}

TEST(rope_store_against_double)
{
    const fx_kernel *k;

    for (size_t v = 0; (k = kt_variant(FX_K_ROPE_STORE, v)) != NULL; v++)
        for (size_t i = 0; i < FX_COUNT(ropes); i++)
            check_rope(&ropes[i], k);
}

/* Numbers that bytes can't stand for: a head with a NaN or an infinity is NaN, one of nearly nothing 0. */
TEST(rope_store_of_bad_bytes)
{
    static const struct { float put, want; } bad[] = { { NAN, NAN }, { INFINITY, NAN }, { -INFINITY, NAN }, { 3e38f, 3e38f } };
    const rope_case *c = &ropes[13];         /* two heads, values of 21 */
    const fx_kernel *k;

    for (size_t v = 0; (k = kt_variant(FX_K_ROPE_STORE, v)) != NULL; v++)
        for (size_t b = 0; b < FX_COUNT(bad); b++) {
            rope_scene s;
            float *q;

            rope_scene_new(&s, c);
            s.step.kv = kt_alloc(s.kv_bytes);
            q = kt_alloc((size_t)(ROPE_ROWS * s.args.q.ld) * 4);
            s.args.q_out = (fx_mat){ q, s.args.q.ld };
            s.v[20] = bad[b].put;            /* row 0, head 0, its last */
            for (int d = 0; d < c->v_dim; d++)
                s.v[c->v_dim + d] = 1e-30f;
            kt_run(k, &s.args, 2);
            for (int d = 0; d < c->v_dim; d++) {
                double got = kv_value(&s, (size_t)(ROPE_ROWS - 1) * s.step.page_bytes, false, 0, 0, d);

                CHECK(isnan(bad[b].want) ? isnan(got) : kt_near(got, d == 20 ? (double)bad[b].want : 0, 0, 1e-6));
                CHECK_NEAR(kv_value(&s, (size_t)(ROPE_ROWS - 1) * s.step.page_bytes, false, 1, 0, d), 0.0, 0);
            }
            free(q);
            free(s.step.kv);
            rope_scene_free(&s);
        }
}

/* Without v, the pages' keys and q are what they are with it, and nothing else is written. */
TEST(rope_store_of_keys_alone)
{
    const rope_case *c = &ropes[1];
    const fx_kernel *k;

    for (size_t v = 0; (k = kt_variant(FX_K_ROPE_STORE, v)) != NULL; v++) {
        size_t q_bytes = (size_t)(ROPE_ROWS * c->heads * c->head_dim) * 4, key = 0;
        float *q[2] = { kt_alloc(q_bytes), kt_alloc(q_bytes) };
        uint8_t *kv[2];
        rope_scene s;

        rope_scene_new(&s, c);
        for (int i = 0; i < 2; i++) {
            s.step.kv = kv[i] = kt_alloc(s.kv_bytes);
            s.args.q_out = (fx_mat){ q[i], s.args.q.ld };
            if (i)
                s.args.v.p = NULL;
            kt_run(k, &s.args, 3);
        }
        CHECK_MEM(q[0], q[1], q_bytes);
        for (size_t at = 0; at < s.kv_bytes; at++) {
            bool is_value = at % s.step.page_bytes >= s.args.v_offset;

            if (kv[1][at] != (is_value ? 0xff : kv[0][at]))
                FXTEST_FAIL("%s: byte %zu", k->name, at);
            key += !is_value && kv[1][at] != 0xff;
        }
        CHECK(c->kv_heads == 0 || key > 0);
        for (int i = 0; i < 2; i++) {
            free(kv[i]);
            free(q[i]);
        }
        rope_scene_free(&s);
    }
}

/* ---- Products by head ---------------------------------------------------------------------- */

/* Each head against sums in double; each row as if alone. */
TEST(by_head_against_double)
{
    enum { HEADS = 3, N = 24, K = 40, ROWS = 17 };
    fx_cpu cpu = fx_cpu_detect();
    const fx_matmul_kernel *m = fx_matmul_find(FX_F32, FX_ACT_F32, K, &cpu);
    const fx_kernel *k = kt_variant(FX_K_BY_HEAD, 0);
    size_t tile = m->tile_bytes(K), head = 2 * tile;         /* 24 rows are two tiles */
    float *w = kt_floats(HEADS * N * K, 1), *x = kt_floats(ROWS * (HEADS * K + 5), 1);
    float *y = kt_alloc(ROWS * HEADS * N * 4), *alone = kt_alloc(ROWS * HEADS * N * 4);
    uint8_t *tiles = kt_alloc(HEADS * head);
    fx_by_head_args a = { .heads = HEADS, .n_rows = ROWS, .head_bytes = head, .run = m->run, .scratch_bytes = m->scratch_bytes,
                          .m = { .x = { x, HEADS * K + 5 }, .w = tiles, .tile_bytes = tile, .n = N, .k = K,
                                 .epi = { .fn = fx_epilogue_find(&cpu), .y = { y, HEADS * N }, .scale = 1 } } };

    for (int t = 0; t < 2 * HEADS; t++) {
        const void *rows[16];

        for (int i = 0; i < 16; i++)
            rows[i] = t % 2 * 16 + i < N ? w + (t / 2 * N + t % 2 * 16 + i) * K : NULL;
        m->pack(rows, K, tiles + (size_t)t * tile);
    }
    kt_run(k, &a, 4);
    for (int r = 0; r < ROWS; r++) {
        a.n_rows = 1;
        a.m.x.p = x + r * (HEADS * K + 5);
        a.m.epi.y.p = alone + r * HEADS * N;
        kt_run(k, &a, 1);
        for (int i = 0; i < HEADS * N; i++) {
            double want = 0;

            for (int c = 0; c < K; c++)
                want += (double)w[i * K + c] * (double)x[r * (HEADS * K + 5) + i / N * K + c];
            if (!kt_near((double)y[r * HEADS * N + i], want, 1e-4, 1e-5))
                FXTEST_FAIL("row %d column %d: %g, expected %g", r, i, (double)y[r * HEADS * N + i], want);
        }
    }
    CHECK_MEM(y, alone, ROWS * HEADS * N * 4);
    free(w);
    free(x);
    free(y);
    free(alone);
    free(tiles);
}

/* ---- Embed, gather ------------------------------------------------------------------------ */

TEST(embed_every_type)
{
    const fx_kernel *k;

    for (size_t v = 0; (k = kt_variant(FX_K_EMBED, v)) != NULL; v++)
        for (int t = 0; t < FX_DTYPE_COUNT; t++) {
            fx_dtype type = (fx_dtype)t;
            int64_t dim = type == FX_F16 || type == FX_BF16 || type == FX_F32 ? 37 : 512;
            size_t row = fx_dtype_row_bytes(type, dim);
            int32_t tokens[5] = { 3, 0, 6, 3, 5 };
            float y[5 * 512], want[512];

            if (!fx_dequantize_supports(type))
                continue;
            uint8_t *table = kt_alloc(7 * row);
            for (size_t i = 0; i < 7 * row; i++)
                table[i] = (uint8_t)kt_random();
            for (int s = 0; s < 2; s++) {
                float scale = s ? 2.5f : 1.0f;
                fx_embed_args a = { .table = table, .dtype = type, .row_bytes = row, .n_vocab = 7, .dim = dim,
                                    .n_rows = 5, .token = tokens, .scale = scale, .y = { y, dim } };

                kt_run(k, &a, 2);
                for (int r = 0; r < 5; r++) {
                    fx_dequantize_row(type, table + (size_t)tokens[r] * row, want, dim);
                    for (int64_t i = 0; i < dim; i++)
                        CHECK_NEAR(y[r * dim + i], s ? want[i] * scale : want[i], 0);
                }
            }
            free(table);
        }
}

TEST(gather_takes_rows)
{
    const fx_kernel *k;
    int32_t rows[4] = { 2, 3, 5, 9 };
    float *x = kt_floats(10 * 33, 1), y[4 * 30];

    for (size_t v = 0; (k = kt_variant(FX_K_GATHER, v)) != NULL; v++) {
        fx_gather_args a = { .x = { x, 33 }, .y = { y, 30 }, .rows = rows, .n_rows = 4, .dim = 30 };

        kt_run(k, &a, 3);
        for (int i = 0; i < 4; i++)
            CHECK_MEM(y + i * 30, x + rows[i] * 33, 30 * 4);
    }
    free(x);
}

/* ---- Pages, and the table -------------------------------------------------------------------- */

TEST(state_layout)
{
    fx_state_layer l[6] = {
        { .kind = FX_STATE_FULL, .kv_heads = 3, .k_dim = 64, .v_dim = 32 },
        { .kind = FX_STATE_NONE },
        { .kind = FX_STATE_SHARED, .source = 4 },
        { .kind = FX_STATE_WINDOW, .kv_heads = 1, .k_dim = 6, .v_dim = 2, .window = 128 },
        { .kind = FX_STATE_FULL, .kv_heads = 1, .k_dim = 2, .v_dim = 2 },
        { .kind = FX_STATE_LATENT, .kv_heads = 1, .k_dim = 10, .v_dim = 8 },
    };
    fx_state_table t = { .n_layers = 6, .layers = l, .kv_dtype = FX_F16, .page_tokens = 32 };
    static const size_t k[6] = { 0, 0, 18432, 0, 18432, 18688 }, v[6] = { 12288, 0, 18560, 384, 18560, 18688 };

    fx_state_layout(&t);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ_U64(l[i].k_offset, k[i]);
        CHECK_EQ_U64(l[i].v_offset, v[i]);
        CHECK_EQ_I64(l[i].column, i == 3);   /* the window's pages are its own */
    }
    CHECK_EQ_U64(t.page_bytes, 19328);
    t.kv_dtype = FX_I8;                      /* widths in fours, 4 bytes more a token */
    fx_state_layout(&t);
    CHECK_EQ_U64(l[0].v_offset, 3 * 32 * (64 + 4));
    CHECK_EQ_U64(l[3].k_offset, 0);
    CHECK_EQ_U64(l[3].v_offset, 32 * (8 + 4));
    CHECK_EQ_U64(l[4].k_offset, 3 * 32 * (64 + 4 + 32 + 4));
    CHECK_EQ_U64(l[2].v_offset, l[4].k_offset + 32 * (4 + 4));
    CHECK_EQ_U64(l[5].k_offset, l[4].v_offset + 32 * (4 + 4));
    CHECK_EQ_U64(t.page_bytes, l[5].k_offset + 32 * (12 + 4));
}

TEST(table_has_a_reference_for_every_op)
{
    for (int op = 0; op < FX_K_OPS; op++)
        for (int level = 0; level < FX_CPU_LEVELS; level++) {
            fx_cpu cpu = { .level = (fx_cpu_level)level };
            const fx_kernel *k = fx_kernel_find((fx_kernel_op)op, &cpu);

            CHECK(k && (int)k->op == op && k->level <= cpu.level);
            CHECK(level != FX_CPU_NEON || k->level == FX_CPU_SCALAR || k->level == FX_CPU_NEON);
        }
}

FXTEST_MAIN()
