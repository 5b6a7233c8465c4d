/* experts.c - mixtures of experts: routing, slots, products by expert, the weighted sum.
 *
 *     route -> dispatch -> slots -> product (gate and up) -> slots (rounding) -> product (down) -> combine
 *
 * Dispatch sorts the step's (row, choice) pairs by expert, so that each expert multiplies
 * consecutive rows, by the same kernels as any product: only the chosen experts' weights are
 * read.  A row's bits don't depend on its company: matmul kernels see to that for products, and
 * combine adds a row's experts in the order of its choice, wherever their slots are.
 *
 * One code for all levels; only rounding to int8 calls that of the level. */
#include "kernels/experts.h"

#include <math.h>

#include "kernels/kernel_set.h"
#include "kernels/quant.h"

/* ---- Route: a task is a row --------------------------------------------------------------- */

static int64_t route_tasks(const void *args) { return ((const fx_route_args *)args)->n_rows; }

/* score[experts], choice[experts], a flag each. */
static size_t route_scratch(const void *args)
{
    return (size_t)((const fx_route_args *)args)->experts * (2 * sizeof(float) + 1);
}

static void softmax(const float *x, float *y, int32_t n)
{
    double sum = 0;
    float max = x[0];

    for (int32_t i = 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - max);
    for (int32_t i = 0; i < n; i++)
        y[i] = (float)(exp((double)x[i] - max) / sum);
}

/* The largest of those that aren't taken, the first of equals; n > 0 of them are left. A NaN
 * is chosen only for want of others. */
static int32_t best_of(const float *x, const uint8_t *taken, int32_t n)
{
    int32_t best = -1;

    for (int32_t i = 0; i < n; i++) {
        if (!taken[i] && (best < 0 || x[i] > x[best] || (isnan(x[best]) && !isnan(x[i]))))
            best = i;
    }
    return best;
}

/* Takes the experts out of the running whose group isn't among the best. */
static void limit_groups(const fx_route_args *a, const float *choice, uint8_t *taken)
{
    int32_t each = a->experts / a->groups, left = a->groups;
    float worth[FX_MAX_GROUPS];
    uint8_t out[FX_MAX_GROUPS] = { 0 };

    for (int32_t g = 0; g < a->groups; g++) {
        double sum = 0;

        for (int32_t k = 0; k < FX_MIN(a->group_best, each); k++) {
            int32_t i = g * each + best_of(choice + g * each, taken + g * each, each);

            sum += choice[i];
            taken[i] = 1;
        }
        memset(taken + g * each, 0, (size_t)each);
        worth[g] = (float)sum;
    }
    for (int32_t k = 0; k < a->top_groups; k++)
        out[best_of(worth, out, left)] = 1;
    for (int32_t i = 0; i < a->experts; i++)
        taken[i] = !out[i / each];
}

static void route_row(const fx_route_args *a, const float *x, float *y, float *score)
{
    float *choice = score + a->experts, *weight = y + a->top;
    uint8_t *taken = (uint8_t *)(choice + a->experts);
    double sum = 0;

    for (int32_t i = 0; i < a->experts; i++)
        score[i] = a->score == FX_ROUTE_SIGMOID ? (float)(1 / (1 + exp(-(double)x[i]))) : x[i];
    if (a->score == FX_ROUTE_SOFTMAX)
        softmax(x, score, a->experts);
    for (int32_t i = 0; i < a->experts; i++)
        choice[i] = score[i] + (a->bias ? a->bias[i] : 0);
    memset(taken, 0, (size_t)a->experts);
    if (a->top_groups < a->groups)
        limit_groups(a, choice, taken);
    for (int32_t j = 0; j < a->top; j++) {
        int32_t i = best_of(choice, taken, a->experts);

        taken[i] = 1;
        y[j] = (float)i;
        weight[j] = score[i];
    }
    if (a->score == FX_ROUTE_SOFTMAX_TOP)
        softmax(weight, weight, a->top);
    for (int32_t j = 0; j < a->top; j++)
        sum += weight[j];
    for (int32_t j = 0; j < a->top; j++)
        weight[j] = (float)((a->normalize ? weight[j] / sum : weight[j]) * (double)a->scale);
}

static void route(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_route_args *a = args;

    for (int64_t r = t0; r < t1; r++)
        route_row(a, a->logits.p + r * a->logits.ld, a->y.p + r * a->y.ld, scratch);
}

/* ---- Dispatch: one task -------------------------------------------------------------------- */

static int64_t dispatch_tasks(const void *args)
{
    (void)args;
    return 1;
}

static void dispatch(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_dispatch_args *a = args;
    fx_experts_table t = fx_experts_table_of(a->table.p, a->n_rows, a->experts, a->top);
    int32_t n = 0;

    (void)scratch;
    if (t0 >= t1)
        return;
    memset(t.first, 0, ((size_t)a->experts + 1) * sizeof(*t.first));
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int32_t j = 0; j < a->top; j++)
            t.first[(int32_t)a->routes.p[r * a->routes.ld + j] + 1]++;
    for (int32_t e = 0; e < a->experts; e++) {
        if (t.first[e + 1])
            t.expert[n++] = e;
        t.first[e + 1] += t.first[e];
    }
    *t.used = n;
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int32_t j = 0; j < a->top; j++) {
            int32_t entry = (int32_t)r * a->top + j, e = (int32_t)a->routes.p[r * a->routes.ld + j];

            t.slot[entry] = t.first[e]++;
            t.entry[t.slot[entry]] = entry;
        }
    for (int32_t e = a->experts; e > 0; e--)     /* they have moved on to the next one's */
        t.first[e] = t.first[e - 1];
    t.first[0] = 0;
}

/* ---- Slots: a task is a slot ---------------------------------------------------------------- */

static int64_t slots_tasks(const void *args)
{
    const fx_slots_args *a = args;

    return a->n_rows * a->top;
}

/* Where the rounded slots of an expert begin, whose first slot is 'first'. */
static fx_q8 expert_q8(const fx_q8 *q8, int64_t first)
{
    return (fx_q8){ (uint8_t *)q8->data + first * (q8->k / 32) * FX_Q8_WORDS * 4, q8->k };
}

static void slots(const fx_slots_args *a, int64_t t0, int64_t t1, fx_q8_put_fn put)
{
    fx_experts_table t = fx_experts_table_of(a->table.p, a->n_rows, a->experts, a->top);
    int32_t i = 0;

    for (int64_t s = t0; s < t1; s++) {
        int32_t e;

        while (t.first[t.expert[i] + 1] <= s)
            i++;
        e = t.expert[i];
        const float *x = a->x.p + (a->x_slots ? s * a->dim : t.entry[s] / a->top * a->x.ld);
        if (a->q8.data) {
            fx_q8 q8 = expert_q8(&a->q8, t.first[e]);

            put(&q8, t.first[e + 1] - t.first[e], s - t.first[e], 1, 0, q8.k, (fx_cmat){ x, 0 });
        }
        if (a->y.p)
            memcpy(a->y.p + s * a->dim, x, (size_t)a->dim * sizeof(float));
    }
}

#define SLOTS(name, put)                                                            \
    static void name(const void *args, int64_t t0, int64_t t1, void *scratch)      \
    {                                                                               \
        (void)scratch;                                                              \
        slots(args, t0, t1, put);                                                   \
    }
SLOTS(slots_ref, fx_q8_put)
#if defined(__x86_64__)
SLOTS(slots_avx2, fx_q8_put_avx2)
SLOTS(slots_avx512, fx_q8_put_avx512)
#elif defined(__aarch64__)
SLOTS(slots_neon, fx_q8_put_neon)
#endif

/* ---- Products: a task is a tile of an expert in use ------------------------------------------- */

static int64_t matmul_tasks(const void *args)
{
    const fx_expert_matmul_args *a = args;

    return *fx_experts_table_of(a->table.p, a->n_rows, a->experts, a->top).used * fx_matmul_tasks(&a->m);
}

static size_t matmul_scratch(const void *args)
{
    const fx_expert_matmul_args *a = args;
    fx_matmul_args all = a->m;

    all.n_rows = a->n_rows * a->top;
    return a->scratch_bytes ? a->scratch_bytes(&all) : 0;
}

/* The product of one expert. */
static fx_matmul_args of_expert(const fx_expert_matmul_args *a, const fx_experts_table *t, int32_t e)
{
    fx_matmul_args m = a->m;
    int64_t first = t->first[e];

    m.n_rows = t->first[e + 1] - first;
    m.w += (size_t)e * a->expert_bytes;
    if (m.x.p)
        m.x.p += first * m.x.ld;
    if (m.q8.data)
        m.q8 = expert_q8(&m.q8, first);
    m.epi.y.p += first * m.epi.y.ld;
    if (m.epi.bias)
        m.epi.bias += e * m.n;
    if (m.epi.addend)
        m.epi.addend += first;
    return m;
}

static void matmul(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_expert_matmul_args *a = args;
    fx_experts_table t = fx_experts_table_of(a->table.p, a->n_rows, a->experts, a->top);
    int64_t tiles = fx_matmul_tasks(&a->m);

    while (t0 < t1) {
        int64_t i = t0 / tiles, end = FX_MIN(t1, (i + 1) * tiles);
        fx_matmul_args m = of_expert(a, &t, t.expert[i]);

        a->run(&m, t0 - i * tiles, end - i * tiles, scratch);
        t0 = end;
    }
}

/* ---- Activation of gate and up: a task is a row of slots ---------------------------------------- */

static int64_t glu_tasks(const void *args) { return ((const fx_glu_args *)args)->n_rows; }

static double clamped(const fx_glu_args *a, double g, double u)
{
    double limit = (double)a->limit;

    if (limit > 0) {
        g = g > limit ? limit : g;
        u = u > limit ? limit : u < -limit ? -limit : u;
    }
    return g / (1 + exp(-(double)a->alpha * g)) * (u + 1);
}

static double glu_of(const fx_glu_args *a, double g, double u)
{
    switch (a->act) {
    case FX_GLU_SILU: return g / (1 + exp(-g)) * u;
    case FX_GLU_GELU: return 0.5 * g * erfc(-g * M_SQRT1_2) * u;
    case FX_GLU_GELU_TANH: return g / (1 + exp(-2 * 0.79788456080286535588 * (g + 0.044715 * g * g * g))) * u;
    case FX_GLU_RELU: return g < 0 ? 0 : g * u;
    case FX_GLU_CLAMPED: return clamped(a, g, u);
    }
    return 0;
}

static void glu(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_glu_args *a = args;
    bool apart = a->up.p != NULL;
    int64_t width = apart ? a->dim : 2 * a->dim, step = !apart && a->interleaved ? 2 : 1;

    (void)scratch;
    for (int64_t r = t0; r < t1; r++)
        for (int32_t s = 0; s < a->slots; s++) {
            const float *g = a->gate.p + r * a->gate.ld + s * width;
            const float *u = apart ? a->up.p + r * a->up.ld + s * width : g + (step == 2 ? 1 : a->dim);
            float *y = a->y.p + r * a->y.ld + s * a->dim;

            for (int64_t i = 0; i < a->dim; i++)
                y[i] = (float)glu_of(a, g[i * step], u[i * step]);
        }
}

/* ---- Combine: a task is a row ---------------------------------------------------------------------- */

static int64_t combine_tasks(const void *args) { return ((const fx_combine_args *)args)->n_rows; }

static void combine(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_combine_args *a = args;
    fx_experts_table t = fx_experts_table_of(a->table.p, a->n_rows, a->experts, a->top);

    (void)scratch;
    for (int64_t r = t0; r < t1; r++) {
        const float *weight = a->routes.p + r * a->routes.ld + a->top;
        float *y = a->y.p + r * a->y.ld;

        for (int32_t j = 0; j < a->top; j++) {
            const float *x = a->x.p + t.slot[r * a->top + j] * a->dim;

            for (int64_t i = 0; i < a->dim; i++)
                y[i] = j ? y[i] + weight[j] * x[i] : weight[j] * x[i];
        }
    }
}

/* ---- A factor for each row -------------------------------------------------------------------------- */

static int64_t mul_rows_tasks(const void *args) { return ((const fx_map_args *)args)->n_rows; }

static void mul_rows(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_map_args *a = args;

    (void)scratch;
    for (int64_t r = t0; r < t1; r++) {
        const float *x = a->a.p + r * a->a.ld;
        float *y = a->y.p + r * a->y.ld, f = a->b.p[r * a->b.ld];

        for (int64_t i = 0; i < a->dim; i++)
            y[i] = x[i] * f;
    }
}

static const fx_kernel rows[] = {
    { FX_K_ROUTE, FX_CPU_SCALAR, "route_ref", route_tasks, route, route_scratch },
    { FX_K_DISPATCH, FX_CPU_SCALAR, "dispatch_ref", dispatch_tasks, dispatch, NULL },
    { FX_K_SLOTS, FX_CPU_SCALAR, "slots_ref", slots_tasks, slots_ref, NULL },
#if defined(__x86_64__)
    { FX_K_SLOTS, FX_CPU_AVX2, "slots_avx2", slots_tasks, slots_avx2, NULL },
    { FX_K_SLOTS, FX_CPU_AVX512, "slots_avx512", slots_tasks, slots_avx512, NULL },
#elif defined(__aarch64__)
    { FX_K_SLOTS, FX_CPU_NEON, "slots_neon", slots_tasks, slots_neon, NULL },
#endif
    { FX_K_EXPERT_MATMUL, FX_CPU_SCALAR, "expert_matmul", matmul_tasks, matmul, matmul_scratch },
    { FX_K_GLU, FX_CPU_SCALAR, "glu_ref", glu_tasks, glu, NULL },
    { FX_K_COMBINE, FX_CPU_SCALAR, "combine_ref", combine_tasks, combine, NULL },
    { FX_K_MUL_ROWS, FX_CPU_SCALAR, "mul_rows_ref", mul_rows_tasks, mul_rows, NULL },
};
const fx_kernel_set fx_kernels_experts = { rows, FX_COUNT(rows) };
