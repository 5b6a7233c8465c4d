/* test_experts.c - routing against a plain sort, and a layer of experts from its kernels: against
 * sums in double, and a row's bytes against those of the row alone, whatever its batch mates. */
#include <math.h>

#include "kernels/experts.h"
#include "kerneltest.h"

/* ---- Routing ------------------------------------------------------------------------------- */

typedef struct route_case {
    int32_t experts, top, groups, top_groups, group_best;
    fx_route_score score;
    bool normalize, bias;
    float scale;
} route_case;

static const route_case route_cases[] = {
    { 4, 2, 1, 1, 1, FX_ROUTE_SOFTMAX, true, false, 1 },
    { 7, 7, 1, 1, 1, FX_ROUTE_SOFTMAX, false, false, 2.5f },
    { 64, 6, 8, 3, 1, FX_ROUTE_SOFTMAX, false, false, 16 },
    { 64, 8, 8, 4, 2, FX_ROUTE_SIGMOID, true, true, 2.5f },
    { 32, 4, 1, 1, 1, FX_ROUTE_SOFTMAX_TOP, false, false, 1 },
    { 1, 1, 1, 1, 1, FX_ROUTE_SIGMOID, false, false, 1 },
};

static double score_of(const route_case *c, const float *x, int i)
{
    double sum = 0;

    if (c->score == FX_ROUTE_SIGMOID)
        return 1 / (1 + exp(-(double)x[i]));
    if (c->score == FX_ROUTE_SOFTMAX_TOP)
        return (double)x[i];
    for (int k = 0; k < c->experts; k++)
        sum += exp((double)x[k]);
    return exp((double)x[i]) / sum;
}

/* How many of n values come before value i: greater ones, or equal ones of lower number. */
static int rank_of(const double *v, int n, int i)
{
    int before = 0;

    for (int k = 0; k < n; k++)
        before += v[k] > v[i] || (v[k] == v[i] && k < i);
    return before;
}

static bool group_kept(const route_case *c, const double *choice, int group)
{
    double worth[FX_MAX_GROUPS] = { 0 };
    int each = c->experts / c->groups;

    for (int g = 0; g < c->groups; g++)
        for (int i = 0; i < each; i++)
            worth[g] += rank_of(choice + g * each, each, i) < c->group_best ? choice[g * each + i] : 0;
    return rank_of(worth, c->groups, group) < c->top_groups;
}

static void check_route(const route_case *c, const float *x, const float *bias, const float *y)
{
    double score[64], choice[64], kept[64], sum = 0, top = 0;

    for (int i = 0; i < c->experts; i++) {
        score[i] = (float)score_of(c, x, i);
        choice[i] = (float)score[i] + (bias ? bias[i] : 0);
    }
    for (int i = 0; i < c->experts; i++)
        kept[i] = group_kept(c, choice, i / (c->experts / c->groups)) ? choice[i] : -1e30;
    for (int i = 0; i < c->experts; i++) {
        int rank = rank_of(kept, c->experts, i);

        if (rank < c->top) {
            CHECK_EQ_I64((int64_t)y[rank], i);
            sum += score[i];
            top += exp(score[i]);
        }
    }
    for (int j = 0; j < c->top; j++) {
        double w = score[(int)y[j]];

        w = c->score == FX_ROUTE_SOFTMAX_TOP ? exp(w) / top : c->normalize ? w / sum : w;
        CHECK(kt_near((double)y[c->top + j], w * (double)c->scale, 1e-7, 1e-5));
    }
}

TEST(routes_are_the_best_in_order)
{
    const fx_kernel *k = kt_variant(FX_K_ROUTE, 0);

    for (size_t i = 0; i < FX_COUNT(route_cases); i++) {
        const route_case *c = &route_cases[i];
        enum { ROWS = 9 };
        float x[ROWS * 64], bias[64], y[ROWS * 128];
        fx_route_args a = { { x, 64 }, c->bias ? bias : NULL, { y, 128 }, ROWS, c->experts, c->top, c->groups,
                            c->top_groups, c->group_best, c->score, c->normalize, c->scale };

        for (int n = 0; n < ROWS * 64; n++)
            x[n] = n % 3 ? kt_normal() : 0.5f;       /* ties */
        for (int n = 0; n < 64; n++)
            bias[n] = 0.1f * kt_normal();
        kt_run(k, &a, 2);
        for (int r = 0; r < ROWS; r++)
            check_route(c, x + r * 64, a.bias, y + r * 128);
    }
}

TEST(routes_of_odd_logits_are_still_experts)
{
    const fx_kernel *k = kt_variant(FX_K_ROUTE, 0);
    float x[4] = { NAN, -INFINITY, NAN, INFINITY }, y[6];
    fx_route_args a = { { x, 4 }, NULL, { y, 6 }, 1, 4, 3, 1, 1, 1, FX_ROUTE_SOFTMAX_TOP, false, 1 };
    bool seen[4] = { false };

    kt_run(k, &a, 1);
    for (int j = 0; j < 3; j++) {
        REQUIRE(y[j] >= 0 && y[j] < 4);
        CHECK(!seen[(int)y[j]]);
        seen[(int)y[j]] = true;
    }
}

/* ---- A layer ---------------------------------------------------------------------------------- */

enum { DIM = 64, OUT = 64 };

typedef struct layer {
    const fx_matmul_kernel *kernel;
    int32_t experts, top;
    int64_t ffn;
    float *gate, *up, *down;             /* [experts][rows][cols], as the kernel sees them */
    uint8_t *gate_up_tiles, *down_tiles;
    size_t gate_up_each, down_each;      /* bytes of an expert */
} layer;

/* Random rows of n columns, in file form; values back to w. */
static uint8_t *random_rows(const layer *l, int64_t rows, int64_t n, float *w)
{
    size_t bytes = fx_dtype_row_bytes(l->kernel->weight, n);
    uint8_t *file = kt_alloc((size_t)rows * bytes);

    for (int64_t r = 0; r < rows; r++) {
        uint8_t *row = file + (size_t)r * bytes;

        for (int64_t i = 0; i < n; i++)
            w[r * n + i] = 0.2f * kt_normal();
        if (l->kernel->weight == FX_F32)
            memcpy(row, w + r * n, bytes);
        for (int64_t b = 0; l->kernel->weight == FX_Q8_0 && b < n / 32; b++) {
            uint16_t d = fx_f32_to_f16(0.01f);

            memcpy(row + b * 34, &d, 2);
            for (int i = 0; i < 32; i++)
                row[b * 34 + 2 + i] = (uint8_t)(kt_random() % 41 - 20);
        }
        fx_dequantize_row(l->kernel->weight, row, w + r * n, n);
    }
    return file;
}

static void pack(const layer *l, const uint8_t *file, int64_t rows, int64_t n, uint8_t *tiles, size_t step)
{
    size_t bytes = fx_dtype_row_bytes(l->kernel->weight, n);

    for (int64_t t = 0; t * 16 < rows; t++) {
        const void *at[16];

        for (int64_t i = 0; i < 16; i++)
            at[i] = t * 16 + i < rows ? file + (size_t)(t * 16 + i) * bytes : NULL;
        l->kernel->pack(at, n, tiles + (size_t)t * step);
    }
}

static layer make_layer(fx_dtype type, int32_t experts, int32_t top, int64_t ffn)
{
    fx_cpu cpu = fx_cpu_detect();
    layer l = { fx_matmul_find(type, type == FX_F32 ? FX_ACT_F32 : FX_ACT_Q8, DIM, &cpu), experts, top, ffn,
                NULL, NULL, NULL, NULL, NULL, 0, 0 };
    size_t in = l.kernel->tile_bytes(DIM), out = l.kernel->tile_bytes(ffn);
    int64_t pairs = (ffn + 15) / 16;

    l.gate_up_each = (size_t)pairs * 2 * in;
    l.down_each = OUT / 16 * out;
    l.gate = kt_alloc((size_t)(experts * ffn * DIM) * 4);
    l.up = kt_alloc((size_t)(experts * ffn * DIM) * 4);
    l.down = kt_alloc((size_t)(experts * ffn * OUT) * 4);
    l.gate_up_tiles = kt_alloc((size_t)experts * l.gate_up_each);
    l.down_tiles = kt_alloc((size_t)experts * l.down_each);
    for (int32_t e = 0; e < experts; e++) {
        uint8_t *g = random_rows(&l, ffn, DIM, l.gate + e * ffn * DIM);
        uint8_t *u = random_rows(&l, ffn, DIM, l.up + e * ffn * DIM);
        uint8_t *d = random_rows(&l, OUT, ffn, l.down + e * ffn * OUT);

        pack(&l, g, ffn, DIM, l.gate_up_tiles + (size_t)e * l.gate_up_each, 2 * in);
        pack(&l, u, ffn, DIM, l.gate_up_tiles + (size_t)e * l.gate_up_each + in, 2 * in);
        pack(&l, d, OUT, ffn, l.down_tiles + (size_t)e * l.down_each, out);
        free(g);
        free(u);
        free(d);
    }
    return l;
}

static void free_layer(layer *l)
{
    free(l->gate);
    free(l->up);
    free(l->down);
    free(l->gate_up_tiles);
    free(l->down_tiles);
}

static void product(const layer *l, const float *table, int64_t n_rows, const float *x, const fx_q8 *q8,
                    const uint8_t *w, size_t each, int64_t n, int64_t k, bool paired, int64_t cut, float *y)
{
    fx_cpu cpu = fx_cpu_detect();
    fx_expert_matmul_args a = { .m = { .x = { x, k }, .w = w, .tile_bytes = l->kernel->tile_bytes(k), .n = n, .k = k,
                                       .paired = paired, .epi = { .fn = fx_epilogue_find(&cpu), .y = { y, n }, .scale = 1 } },
                                .table = { table, 0 }, .n_rows = n_rows, .experts = l->experts, .top = l->top,
                                .expert_bytes = each, .run = l->kernel->run, .scratch_bytes = l->kernel->scratch_bytes };

    if (q8)
        a.m.q8 = *q8;
    kt_run(kt_variant(FX_K_EXPERT_MATMUL, 0), &a, cut);
}

/* y[rows][OUT] of x[rows][DIM] and routes[rows][2 * top], tasks cut at 'cut', slots by variant v. */
static void run_layer(const layer *l, int64_t rows, const float *x, const float *routes, const fx_kernel *slots,
                      int64_t cut, float *y)
{
    int64_t n = rows * l->top;
    bool quant = l->kernel->act == FX_ACT_Q8;
    float *table = kt_alloc((size_t)(rows * fx_experts_table_cols(l->experts, l->top)) * 4);
    float *xs = kt_alloc((size_t)(n * DIM) * 4), *h = kt_alloc((size_t)(n * l->ffn) * 4), *ys = kt_alloc((size_t)(n * OUT) * 4);
    fx_q8 xq = { kt_alloc(fx_q8_bytes(n, DIM)), DIM }, hq = { kt_alloc(fx_q8_bytes(n, l->ffn)), l->ffn };
    fx_dispatch_args d = { { routes, 2 * l->top }, { table, 0 }, rows, l->experts, l->top };
    fx_slots_args s = { { x, DIM }, { table, 0 }, { quant ? NULL : xs, DIM }, quant ? xq : (fx_q8){ NULL, 0 }, rows, DIM,
                        l->experts, l->top, false };
    fx_combine_args c = { { ys, OUT }, { routes, 2 * l->top }, { table, 0 }, { y, OUT }, rows, OUT, l->experts, l->top };

    kt_run(kt_variant(FX_K_DISPATCH, 0), &d, 1);
    kt_run(slots, &s, cut);
    product(l, table, rows, xs, quant ? &xq : NULL, l->gate_up_tiles, l->gate_up_each, l->ffn, DIM, true, cut, h);
    if (quant) {
        s = (fx_slots_args){ { h, l->ffn }, { table, 0 }, { NULL, 0 }, hq, rows, l->ffn, l->experts, l->top, true };
        kt_run(slots, &s, cut);
    }
    product(l, table, rows, h, quant ? &hq : NULL, l->down_tiles, l->down_each, OUT, l->ffn, false, cut, ys);
    kt_run(kt_variant(FX_K_COMBINE, 0), &c, cut);
    free(table);
    free(xs);
    free(h);
    free(ys);
    free(xq.data);
    free(hq.data);
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The row in double, without rounding of activations. */
static void expected_row(const layer *l, const float *x, const float *routes, double *y)
{
    for (int64_t i = 0; i < OUT; i++)
        y[i] = 0;
    for (int32_t j = 0; j < l->top; j++) {
        int64_t e = (int64_t)routes[j];
        float h[256];

        for (int64_t i = 0; i < l->ffn; i++) {
            double g = dot(l->gate + (e * l->ffn + i) * DIM, x, DIM), u = dot(l->up + (e * l->ffn + i) * DIM, x, DIM);

            h[i] = (float)(g / (1 + exp(-g)) * u);
        }
        for (int64_t i = 0; i < OUT; i++)
            y[i] += (double)routes[l->top + j] * dot(l->down + (e * OUT + i) * l->ffn, h, l->ffn);
    }
}

static void check_layer(layer *l, double tolerance)
{
    enum { ROWS = 37 };
    float *x = kt_floats(ROWS * DIM, 1), *logits = kt_floats(ROWS * l->experts, 1), *y = kt_alloc(ROWS * OUT * 4);
    float *routes = kt_alloc((size_t)(ROWS * 2 * l->top) * 4), *alone = kt_alloc(ROWS * OUT * 4);
    fx_route_args a = { { logits, l->experts }, NULL, { routes, 2 * l->top }, ROWS, l->experts, l->top, 1, 1, 1,
                        FX_ROUTE_SOFTMAX, false, 1 };
    const fx_kernel *slots = kt_variant(FX_K_SLOTS, 0), *other;
    double want[OUT];

    kt_run(kt_variant(FX_K_ROUTE, 0), &a, 5);
    for (int r = 0; r < ROWS; r++) {
        run_layer(l, 1, x + r * DIM, routes + r * 2 * l->top, slots, 1, alone + r * OUT);
        expected_row(l, x + r * DIM, routes + r * 2 * l->top, want);
        for (int i = 0; i < OUT; i++)
            CHECK(kt_near((double)alone[r * OUT + i], want[i], tolerance, tolerance));
    }
    for (size_t v = 0; (other = kt_variant(FX_K_SLOTS, v)) != NULL; v++)
        for (int64_t rows = 1; rows <= ROWS; rows += 1 + rows / 3)
            for (int64_t r0 = 0; r0 + rows <= ROWS; r0 += 11) {
                run_layer(l, rows, x + r0 * DIM, routes + r0 * 2 * l->top, other, 1 + r0 % 4, y);
                CHECK(memcmp(y, alone + r0 * OUT, (size_t)(rows * OUT) * 4) == 0);
            }
    free(x);
    free(logits);
    free(y);
    free(routes);
    free(alone);
}

TEST(rows_dont_know_their_mates_f32)
{
    layer l = make_layer(FX_F32, 5, 2, 40);

    check_layer(&l, 1e-4);
    free_layer(&l);
}

TEST(rows_dont_know_their_mates_q8)
{
    layer l = make_layer(FX_Q8_0, 9, 3, 96);

    check_layer(&l, 0.05);
    free_layer(&l);
}

TEST(one_expert_for_all)
{
    layer l = make_layer(FX_F32, 1, 1, 32);

    check_layer(&l, 1e-4);
    free_layer(&l);
}

/* ---- Activations -------------------------------------------------------------------------------- */

TEST(glu_of_each_layout)
{
    enum { N = 5, SLOTS = 2, ROWS = 3 };
    float x[ROWS * SLOTS * 2 * N], g[ROWS * SLOTS * N], u[ROWS * SLOTS * N], y[ROWS * SLOTS * N], z[ROWS * SLOTS * N];
    const fx_kernel *k = kt_variant(FX_K_GLU, 0);

    for (int i = 0; i < ROWS * SLOTS * N; i++) {
        g[i] = 6 * kt_normal();
        u[i] = 6 * kt_normal();
    }
    for (int form = 0; form < 3; form++)
        for (int act = FX_GLU_SILU; act <= FX_GLU_CLAMPED; act++) {
            fx_glu_args a = { { form ? x : g, SLOTS * N * (form ? 2 : 1) }, { form ? NULL : u, SLOTS * N },
                              { form ? z : y, SLOTS * N }, ROWS, N, SLOTS, form == 2, (fx_glu_act)act, 1.702f, 7 };

            for (int i = 0; i < ROWS * SLOTS * N; i++) {
                x[form == 2 ? 2 * i : i / N * 2 * N + i % N] = g[i];
                x[form == 2 ? 2 * i + 1 : i / N * 2 * N + N + i % N] = u[i];
            }
            kt_run(k, &a, 2);
            if (form == 0 && act == FX_GLU_CLAMPED) {
                double gg = FX_MIN((double)g[0], 7.0), uu = FX_MAX(-7.0, FX_MIN((double)u[0], 7.0));

                CHECK(kt_near((double)y[0], (uu + 1) * gg / (1 + exp(-1.702 * gg)), 1e-6, 1e-5));
            }
            if (form == 0 && act == FX_GLU_SILU)
                CHECK(kt_near((double)y[1], (double)g[1] / (1 + exp(-(double)g[1])) * (double)u[1], 1e-6, 1e-5));
            if (form) {
                a = (fx_glu_args){ { g, SLOTS * N }, { u, SLOTS * N }, { y, SLOTS * N }, ROWS, N, SLOTS, false,
                                   (fx_glu_act)act, 1.702f, 7 };
                kt_run(k, &a, 1);
                CHECK(memcmp(y, z, sizeof(y)) == 0);
            }
        }
}

FXTEST_MAIN()
