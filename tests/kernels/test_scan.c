/* test_scan.c - the recurrent layers' kernels against the reference, and the reduction contract: bits
 * don't depend on how a sequence is cut into steps, on the others in a step, or on the cut into
 * tasks; snapshots are the slot as of their page end. */
#include <math.h>

#include "kerneltest.h"

#define ROWS 70
#define PT 32
#define SLOT 200000                      /* floats */

typedef struct sizes {
    int heads, head_dim, groups, n_state;
    bool a_per_state;
    int width;
    int k_heads, k_dim, v_dim;
} sizes;

static const sizes shapes[] = {
    { 128, 1, 1, 16, true, 4, 2, 16, 16 },  { 8, 16, 2, 16, false, 4, 4, 32, 40 }, { 5, 7, 5, 3, false, 1, 5, 7, 3 },
    { 6, 1, 1, 5, true, 3, 1, 128, 128 },   { 12, 10, 3, 33, false, 6, 3, 64, 17 },
    { 70, 1, 1, 16, true, 4, 70, 4, 4 },
};

/* Everything that the four kernels read and write, for one sequence of ROWS rows. */
typedef struct data {
    sizes z;
    int64_t dim, kd, vd;
    float *x, *dt, *b, *c, *q, *k, *v, *bb, *aa;
    float *w, *bias, *a, *d, *dtb, *alog;
} data;

static data make(const sizes *z)
{
    data m = { .z = *z };

    m.dim = (int64_t)z->heads * z->head_dim;
    m.kd = (int64_t)z->k_heads * z->k_dim;
    m.vd = (int64_t)z->heads / z->k_heads * z->k_heads * z->v_dim;
    m.x = kt_floats(ROWS * m.dim, 1);
    m.dt = kt_floats(ROWS * z->heads, 2);
    m.b = kt_floats((int64_t)ROWS * z->groups * z->n_state, 1);
    m.c = kt_floats((int64_t)ROWS * z->groups * z->n_state, 1);
    m.q = kt_floats(ROWS * m.kd, 1);
    m.k = kt_floats(ROWS * m.kd, 1);
    m.v = kt_floats(ROWS * m.vd, 1);
    m.bb = kt_floats(ROWS * z->heads, 1);
    m.aa = kt_floats(ROWS * z->heads, 1);
    m.w = kt_floats(m.dim * z->width, 0.5f);
    m.bias = kt_floats(m.dim, 0.2f);
    m.a = kt_floats((int64_t)z->heads * z->n_state, 0.7f);
    m.d = kt_floats(z->heads, 1);
    m.dtb = kt_floats(z->heads, 1);
    m.alog = kt_floats(z->heads, 0.7f);
    return m;
}

static void drop(data *m)
{
    float *all[] = { m->x, m->dt, m->b, m->c, m->q, m->k, m->v, m->bb, m->aa, m->w, m->bias, m->a, m->d, m->dtb, m->alog };

    for (size_t i = 0; i < FX_COUNT(all); i++)
        free(all[i]);
}

static int v_heads(const data *m) { return (int)(m->vd / m->z.v_dim); }

/* Columns of y, and floats of state. */
static int64_t width_of(const data *m, fx_kernel_op op) { return op == FX_K_DELTA_RULE ? m->vd : m->dim; }
static int64_t state_of(const data *m, fx_kernel_op op)
{
    return op == FX_K_CONV1D ? (m->z.width - 1) * m->dim
           : op == FX_K_SSM_SCAN ? m->dim * m->z.n_state : (int64_t)v_heads(m) * m->z.k_dim * m->z.v_dim;
}

/* Runs rows of one step; row 0 of the step's arrays is row 'from' of the data. */
static void run(const fx_kernel *k, const data *m, const fx_step *step, int64_t from, float *y, int64_t grain, int extra)
{
    const sizes *z = &m->z;
    int64_t n = (int64_t)z->groups * z->n_state;
    fx_conv1d_args conv = { .x = { m->x + from * m->dim, m->dim }, .y = { y, m->dim }, .w = m->w,
                            .bias = extra ? m->bias : NULL, .dim = m->dim, .width = z->width, .silu = extra & 1,
                            .step = step };
    fx_ssm_scan_args ssm = { .x = { m->x + from * m->dim, m->dim }, .dt = { m->dt + from * z->heads, z->heads },
                             .b = { m->b + from * n, n }, .c = { m->c + from * n, n }, .y = { y, m->dim }, .a = m->a,
                             .d = extra ? m->d : NULL, .dt_bias = extra ? m->dtb : NULL, .heads = z->heads,
                             .head_dim = z->head_dim, .groups = z->groups, .n_state = z->n_state,
                             .a_per_state = z->a_per_state, .log_a = true, .dt_min = 0.01f,
                             .dt_max = extra ? 1.5f : 3e38f, .step = step };
    int64_t vh = v_heads(m);
    fx_delta_rule_args delta = { .q = { m->q + from * m->kd, m->kd }, .k = { m->k + from * m->kd, m->kd },
                                 .v = { m->v + from * m->vd, m->vd }, .b = { m->bb + from * z->heads, z->heads },
                                 .a = { m->aa + from * z->heads, z->heads }, .y = { y, m->vd }, .a_log = m->alog,
                                 .dt_bias = m->dtb, .k_heads = z->k_heads, .v_heads = (int32_t)vh, .k_dim = z->k_dim,
                                 .v_dim = z->v_dim, .log_a = true, .tiled = extra & 1, .step = step };

    kt_run(k, k->op == FX_K_CONV1D ? (void *)&conv : k->op == FX_K_SSM_SCAN ? (void *)&ssm : (void *)&delta, grain);
}

/* The whole sequence in chunks; snapshots of both page ends. */
static void run_chunks(const fx_kernel *k, const data *m, int chunk, int64_t grain, int extra, float *slot, float *snaps,
                       float *y)
{
    memset(slot, 0, SLOT * sizeof *slot);
    for (int at = 0; at < ROWS; at += chunk) {
        int n = FX_MIN(chunk, ROWS - at);
        uint8_t *wanted[ROWS / PT + 1];
        fx_step_seq seq = { .n_rows = n, .pos0 = at, .slot = (uint8_t *)slot, .snapshots = wanted };
        fx_step step = { .n_rows = n, .n_seqs = 1, .seqs = &seq, .page_tokens = PT };

        for (int i = at / PT; i < (at + n) / PT; i++)
            wanted[i - at / PT] = (uint8_t *)(snaps + (int64_t)i * SLOT);
        run(k, m, &step, at, y + at * width_of(m, k->op), grain, extra);
    }
}

static void check_kernel(const fx_kernel *k, const fx_kernel *ref, const data *m, int extra)
{
    static const int chunks[] = { 1, 2, 7, 64 };
    static float slot[SLOT], other[SLOT], snaps[2 * SLOT], other_snaps[2 * SLOT], ref_slot[SLOT];
    int64_t cols = width_of(m, k->op), state = state_of(m, k->op);
    float *want = kt_floats(ROWS * cols, 1), *y = kt_floats(ROWS * cols, 1), *got = kt_floats(ROWS * cols, 1);
    double worst = 0, size = 1e-3;

    REQUIRE(state <= SLOT);
    run_chunks(ref, m, ROWS, 1, extra, ref_slot, snaps, want);
    run_chunks(k, m, ROWS, 1, extra, slot, snaps, y);
    for (int64_t i = 0; i < ROWS * cols; i++) {
        size = fmax(size, fabs(want[i]));
        worst = fmax(worst, fabs((double)want[i] - y[i]));
    }
    if (!(worst <= 2e-5 * size))
        FXTEST_FAIL("%s: error %g of %g", k->name, worst, size);
    for (int64_t i = 0; i < state; i++)
        if (!kt_near(slot[i], ref_slot[i], 1e-4, 1e-4))
            FXTEST_FAIL("%s: state %lld is %g, expected %g", k->name, (long long)i, slot[i], ref_slot[i]);
    for (size_t c = 0; c < FX_COUNT(chunks); c++) {
        run_chunks(k, m, chunks[c], 1 + (int64_t)c * 2, extra, other, other_snaps, got);
        if (memcmp(got, y, (size_t)(ROWS * cols) * sizeof *y) || memcmp(slot, other, (size_t)state * sizeof *slot))
            FXTEST_FAIL("%s: other bits in chunks of %d", k->name, chunks[c]);
        for (int s = 0; s < 2; s++)
            if (memcmp(snaps + (int64_t)s * SLOT, other_snaps + (int64_t)s * SLOT, (size_t)state * sizeof *slot))
                FXTEST_FAIL("%s: another snapshot in chunks of %d", k->name, chunks[c]);
    }
    /* From the second snapshot on, beside another sequence. */
    {
        float *two = kt_floats((ROWS - 2 * PT + PT) * cols, 1);
        fx_step_seq seqs[2] = { { .n_rows = PT, .pos0 = PT, .slot = (uint8_t *)other },
                                { .row0 = PT, .n_rows = ROWS - 2 * PT, .pos0 = 2 * PT,
                                  .slot = (uint8_t *)(other_snaps + SLOT) } };
        fx_step step = { .n_rows = ROWS - PT, .n_seqs = 2, .seqs = seqs, .page_tokens = PT };

        memcpy(other, snaps, (size_t)state * sizeof *slot);
        memcpy(other_snaps + SLOT, snaps + SLOT, (size_t)state * sizeof *slot);
        run(k, m, &step, PT, two, 2, extra);
        if (memcmp(two, y + PT * cols, (size_t)((ROWS - PT) * cols) * sizeof *y))
            FXTEST_FAIL("%s: other bits from a snapshot", k->name);
        free(two);
    }
    free(want);
    free(y);
    free(got);
}

static void check_op(fx_kernel_op op)
{
    for (size_t s = 0; s < FX_COUNT(shapes); s++) {
        data m = make(&shapes[s]);
        const fx_kernel *k;

        for (size_t i = 0; (k = kt_variant(op, i)) != NULL; i++)
            for (int extra = 0; extra < 3; extra++)
                check_kernel(k, kt_variant(op, 0), &m, extra);
        drop(&m);
    }
}

TEST(convolution) { check_op(FX_K_CONV1D); }
TEST(selective_scan) { check_op(FX_K_SSM_SCAN); }
TEST(delta_rule) { check_op(FX_K_DELTA_RULE); }

/* By hand: a scan of two channels, two rows. */
TEST(selective_scan_by_hand)
{
    const fx_kernel *k;

    for (size_t i = 0; (k = kt_variant(FX_K_SSM_SCAN, i)) != NULL; i++) {
        float x[4] = { 1, 2, 3, 4 }, dt[4] = { 0, 0, 0, 0 }, b[2] = { 1, 2 }, c[2] = { 1, 0.5f }, a[2] = { 0, -1 };
        float y[4], d[2] = { 10, 0 }, slot[2] = { 0, 0 };
        fx_step_seq seq = { .n_rows = 2, .slot = (uint8_t *)slot };
        fx_step step = { .n_rows = 2, .n_seqs = 1, .seqs = &seq, .page_tokens = PT };
        fx_ssm_scan_args args = { .x = { x, 2 }, .dt = { dt, 2 }, .b = { b, 1 }, .c = { c, 1 }, .y = { y, 2 }, .a = a,
                                  .d = d, .heads = 2, .head_dim = 1, .groups = 1, .n_state = 1, .a_per_state = true,
                                  .dt_max = 3e38f, .step = &step };
        double dt2 = log(2), h0 = dt2 * 1, h1 = dt2 * 2;

        kt_run(k, &args, 1);
        CHECK_NEAR(y[0], h0 + 10, 1e-5);
        CHECK_NEAR(y[1], h1, 1e-6);
        CHECK_NEAR(y[2], 0.5 * (h0 + dt2 * 3 * 2) + 30, 1e-5);
        CHECK_NEAR(y[3], 0.5 * (0.5 * h1 + dt2 * 4 * 2), 1e-5);
    }
}

TEST(gated_norm)
{
    static const struct {
        int64_t dim, groups;
        bool shared, first;
    } rows[] = { { 64, 2, false, true }, { 16, 4, true, false }, { 7, 3, true, true }, { 130, 1, true, false } };

    for (size_t r = 0; r < FX_COUNT(rows); r++) {
        int64_t cols = rows[r].dim * rows[r].groups;
        float *x = kt_floats(5 * cols, 2), *z = kt_floats(5 * cols, 2), *w = kt_floats(cols, 1);
        float *want = kt_floats(5 * cols, 1), *y = kt_floats(5 * cols, 1), *one = kt_floats(cols, 1);
        fx_gated_norm_args a = { .x = { x, cols }, .z = { z, cols }, .y = { want, cols }, .w = w,
                                 .w_step = rows[r].shared ? 0 : rows[r].dim, .eps = 1e-5f, .gate_first = rows[r].first,
                                 .n_rows = 5, .dim = rows[r].dim, .n_groups = rows[r].groups };
        const fx_kernel *k;

        kt_run(kt_variant(FX_K_GATED_NORM, 0), &a, 1);
        for (size_t i = 0; (k = kt_variant(FX_K_GATED_NORM, i)) != NULL; i++) {
            fx_gated_norm_args alone = a;

            a.y.p = y;
            kt_run(k, &a, 2);
            for (int64_t c = 0; c < 5 * cols; c++)
                CHECK(kt_near(y[c], want[c], 1e-5, 1e-5));
            alone.x.p = x + 3 * cols;
            alone.z.p = z + 3 * cols;
            alone.y.p = one;
            alone.n_rows = 1;
            kt_run(k, &alone, 1);
            CHECK(memcmp(one, y + 3 * cols, (size_t)cols * sizeof *y) == 0);
        }
        free(x), free(z), free(w), free(want), free(y), free(one);
    }
}

FXTEST_MAIN()
