/* test_sample.c - sampling against straightforward definitions: full sort, sums in double. */
#include <float.h>

#include "base/clock.h"
#include "fxtest.h"
#include "sample/random.h"
#include "sample/sample.h"
#include "sample/select.h"

static fx_sample_params plain(void)
{
    return (fx_sample_params){ .temperature = 1, .top_p = 1, .repetition = 1, .seed = 7 };
}

static uint64_t state = 88172645463325252u;
static uint32_t rnd(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* Roughly normal logits, rounded so that equal values occur if asked. */
static void fill(float *x, int n, float spread, bool ties)
{
    for (int i = 0; i < n; i++) {
        float s = 0;

        for (int k = 0; k < 6; k++)
            s += (float)rnd() / 4294967296.0f - 0.5f;
        x[i] = ties ? floorf(s * spread) : s * spread;
    }
}

/* Known answers of the Philox4x32-10 reference (Random123's kat_vectors). */
TEST(philox_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } rows[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        uint32_t out[4];

        fx_philox(rows[i].key, rows[i].counter, out);
        CHECK_MEM(out, rows[i].out, sizeof out);
    }
    CHECK(fx_random_unit(1, 0, 0, 0) != fx_random_unit(1, 1, 0, 0));
    CHECK(fx_random_unit(1, 0, 0, 0) != fx_random_unit(1, 0, 1, 0));
    CHECK(fx_random_unit(1, 0, 0, 0) != fx_random_unit(1, 0, 0, 1));
    CHECK(fx_random_unit(1, 0, 0, 0) != fx_random_unit(2, 0, 0, 0));
}

TEST(exp_is_close)
{
    double worst = 0;

    for (int i = 0; i < 200000; i++) {
        float x = -(float)i * 0.00043f;
        double want = exp((double)x), got = fx_exp_neg(x);

        worst = fmax(worst, fabs(got - want) / want);
    }
    CHECK(worst < 4e-7);
    CHECK(fx_exp_neg(0.0f) == 1.0f);
    CHECK(fx_exp_neg(-INFINITY) == 0.0f);
    CHECK(fx_exp_neg(-1e30f) == 0.0f);
    CHECK(fx_exp_neg(-FLT_MAX) == 0.0f);
}

TEST(scans_over_any_length)
{
    float x[700], block_max[8], max;

    for (int n = 1; n < 700; n = n * 3 / 2 + 1) {
        float want = -INFINITY;
        double sum = 0;

        fill(x, n, 10, false);
        for (int i = 0; i < n; i++)
            want = fmaxf(want, x[i]);
        CHECK(fx_scan_max(x, n, block_max, &max));
        CHECK(max == want);
        for (int i = 0; i < n; i++)
            sum += exp((double)x[i] - (double)max);
        CHECK_NEAR(fx_scan_sum_exp(x, n, max), sum, 1e-5 * sum);
        for (int bad = 0; bad < n; bad += 37) {
            float keep = x[bad];

            x[bad] = NAN;
            CHECK(!fx_scan_max(x, n, block_max, &max));
            x[bad] = keep;
        }
    }
}

/* A mask leaves what it allows as it was and bans the rest, however full its words are and wherever the row ends. */
TEST(masks)
{
    enum { MOST = 32 * 9 + 17 };
    static const int sizes[] = { 1, 31, 32, 33, 64, 32 * 9, MOST };

    for (size_t k = 0; k < FX_COUNT(sizes); k++) {
        for (unsigned full = 0; full <= 8; full++) {
            float x[MOST], before[MOST];
            uint32_t mask[MOST / 32 + 1] = { 0 };
            fx_sample_params p = plain();
            fx_sample_scratch c;
            fx_sampler s;
            fx_sampled out;
            fx_error err = { 0 };
            int n = sizes[k], wrong = 0;

            CHECK_OK(fx_sampler_init(&s, &fx_mem_libc, &p, n, 0, 100, &err), err);
            CHECK_OK(fx_sample_scratch_init(&c, &fx_mem_libc, n, &err), err);
            fill(x, n, 10, false);
            memcpy(before, x, sizeof before);
            for (int i = 0; i < n; i++)
                if (full == 8 || (full > 0 && rnd() % 8 < full && (i / 32) % 4 != 1))
                    mask[i / 32] |= 1u << i % 32;
            mask[(n - 1) / 32] |= 1u << (n - 1) % 32;
            fx_sample(&s, x, mask, 0, &c, &out);
            for (int i = 0; i < n; i++)
                wrong += mask[i / 32] >> i % 32 & 1 ? x[i] != before[i] : x[i] != -INFINITY;
            CHECK_EQ_I64(wrong, 0);
            CHECK(out.status == FORNAX_OK && (mask[out.token / 32] >> out.token % 32 & 1));
            fx_sample_scratch_done(&c);
            fx_sampler_done(&s);
        }
    }
}

/* ---- The straightforward implementation ------------------------------------------------ */

typedef struct pair {
    float x;
    int id;
} pair;

static int by_value(const void *a, const void *b)
{
    const pair *p = a, *q = b;

    return p->x > q->x ? -1 : p->x < q->x ? 1 : p->id - q->id;
}

/* prob[i] of each token under the parameters. */
static void reference(const float *logits, int n, const fx_sample_params *p, double *prob)
{
    pair *at = malloc((size_t)n * sizeof *at);
    double *w = malloc((size_t)n * sizeof *w);
    double sum = 0, mass = 0;
    int kept = n;

    for (int i = 0; i < n; i++)
        at[i] = (pair){ logits[i], i };
    qsort(at, (size_t)n, sizeof *at, by_value);
    for (int i = 0; i < n; i++)
        w[i] = exp(((double)at[i].x - (double)at[0].x) / (double)p->temperature);
    if (p->top_k > 0 && p->top_k < kept)
        kept = p->top_k;
    for (int i = 0; i < kept; i++)
        sum += w[i];
    if (p->top_p < 1) {
        int i = 0;

        for (; i < kept; i++) {
            mass += w[i];
            if (mass >= sum * (double)p->top_p)
                break;
        }
        kept = i < kept ? i + 1 : kept;
    }
    while (kept > 1 && w[kept - 1] < (double)p->min_p)
        kept--;
    sum = 0;
    for (int i = 0; i < kept; i++)
        sum += w[i];
    for (int i = 0; i < n; i++)
        prob[at[i].id] = i < kept ? w[i] / sum : 0;
    free(at);
    free(w);
}

static int32_t sample_once(fx_sampler *s, const float *row, float *copy, int n, int64_t pos, fx_sample_scratch *c)
{
    fx_sampled out;

    memcpy(copy, row, (size_t)n * sizeof *row);
    fx_sample(s, copy, NULL, pos, c, &out);
    CHECK(out.status == FORNAX_OK);
    return out.token;
}

/* Every token that may be drawn is, no other is, and frequencies agree. */
TEST(distributions_match_the_definition)
{
    static const struct {
        int n, top_k;
        float temperature, top_p, min_p, spread;
        bool ties;
    } rows[] = {
        { 30, 0, 1, 1, 0, 8, false },      { 30, 5, 1, 1, 0, 8, false },     { 30, 0, 1, 0.8f, 0, 8, false },
        { 30, 0, 1, 1, 0.1f, 8, false },   { 30, 10, 0.7f, 0.9f, 0.05f, 8, false },
        { 300, 7, 1, 1, 0, 3, true },      { 300, 0, 1, 0.5f, 0, 3, true },  { 300, 40, 2, 0.6f, 0, 6, true },
        { 1000, 0, 1, 0.3f, 0, 1, false }, { 1000, 999, 1, 1, 0, 1, false }, { 1000, 1, 1, 1, 0, 5, true },
        { 1000, 50, 1, 1e-6f, 0, 5, false }, { 1000, 2000, 1, 1, 1, 5, false },
        { 500, 0, 100, 0.99f, 0, 1, false }, { 500, 0, 0.01f, 0.99f, 0, 30, false },
    };

    for (size_t r = 0; r < FX_COUNT(rows); r++) {
        int n = rows[r].n, draws = 20000;
        fx_sample_params p = plain();
        float *x = malloc((size_t)n * sizeof *x), *copy = malloc((size_t)n * sizeof *x);
        double *prob = calloc((size_t)n, sizeof *prob), chi = 0;
        int *count = calloc((size_t)n, sizeof *count), cells = 0;
        fx_sample_scratch c;
        fx_sampler s;

        p.top_k = rows[r].top_k;
        p.temperature = rows[r].temperature;
        p.top_p = rows[r].top_p;
        p.min_p = rows[r].min_p;
        fill(x, n, rows[r].spread, rows[r].ties);
        reference(x, n, &p, prob);
        CHECK(fx_sample_scratch_init(&c, &fx_mem_libc, n, NULL) == FORNAX_OK);
        CHECK(fx_sampler_init(&s, &fx_mem_libc, &p, n, 0, 1, NULL) == FORNAX_OK);
        for (int i = 0; i < draws; i++)
            count[sample_once(&s, x, copy, n, i, &c)]++;
        for (int i = 0; i < n; i++) {
            if (prob[i] == 0 && count[i] > 0)
                FXTEST_FAIL("row %zu: token %d was drawn but is cut off", r, i);
            if (prob[i] * draws >= 5) {
                chi += (count[i] - prob[i] * draws) * (count[i] - prob[i] * draws) / (prob[i] * draws);
                cells++;
            }
        }
        if (chi > cells + 5 * sqrt(2.0 * cells) + 5)
            FXTEST_FAIL("row %zu: chi square %g over %d cells", r, chi, cells);
        fx_sampler_done(&s);
        fx_sample_scratch_done(&c);
        free(x), free(copy), free(prob), free(count);
    }
}

/* The kept set is exactly the definition's, on big rows of every shape. */
TEST(cut_is_exact)
{
    enum { N = 20000 };
    static float x[N], e[N];
    static int32_t work[N];
    static pair at[N];

    for (int round = 0; round < 60; round++) {
        int32_t k = 1 + (int32_t)(rnd() % N);
        fx_cut cut;

        fill(x, N, round % 3 == 0 ? 1e-6f : (float)(1 + round), round % 4 == 1);
        if (round % 5 == 0)
            for (int i = 0; i < N; i++)
                x[i] = -exp2f(-(float)(rnd() % 140));
        for (int i = 0; i < N; i++)
            at[i] = (pair){ x[i], i };
        qsort(at, N, sizeof *at, by_value);
        cut = fx_cut_find(x, NULL, N, k, INFINITY, work);
        CHECK_EQ_I64(cut.index, at[k - 1].id);
        for (int i = 0; i < N; i++)
            e[i] = 1.0f;                    /* equal weights: mass k - 0.5 is k elements */
        cut = fx_cut_find(x, e, N, INT32_MAX, (double)k - 0.5, work);
        CHECK_EQ_I64(cut.index, at[k - 1].id);
    }
}

TEST(greedy_takes_the_lowest_of_equals)
{
    enum { N = 400 };
    float x[N];
    fx_sample_params p = plain();
    fx_sample_scratch c;
    fx_sampler s;
    fx_sampled out;

    p.temperature = 0;
    REQUIRE(fx_sample_scratch_init(&c, &fx_mem_libc, N, NULL) == FORNAX_OK);
    REQUIRE(fx_sampler_init(&s, &fx_mem_libc, &p, N, 0, 1, NULL) == FORNAX_OK);
    for (int at = 0; at < N; at += 13) {
        for (int i = 0; i < N; i++)
            x[i] = i >= at && i % 13 == 0 ? 2.5f : -INFINITY;
        fx_sample(&s, x, NULL, 0, &c, &out);
        CHECK_EQ_I64(out.token, at);
    }
    x[5] = NAN;
    fx_sample(&s, x, NULL, 0, &c, &out);
    CHECK(out.status == FORNAX_EINTERNAL);
    for (int i = 0; i < N; i++)
        x[i] = -INFINITY;
    fx_sample(&s, x, NULL, 0, &c, &out);
    CHECK(out.status == FORNAX_EARG);
    x[77] = INFINITY;
    fx_sample(&s, x, NULL, 0, &c, &out);
    CHECK(out.status == FORNAX_OK && out.token == 77);
    fx_sample_scratch_done(&c);
}

/* Extreme temperatures neither overflow nor give NaN. */
TEST(extreme_temperatures)
{
    static const float temperatures[] = { 1e-45f, 1e-30f, 1e-6f, 1e6f, 1e38f };
    float x[64], copy[64];
    fx_sample_scratch c;

    REQUIRE(fx_sample_scratch_init(&c, &fx_mem_libc, 64, NULL) == FORNAX_OK);
    fill(x, 64, 50, false);
    x[3] = -INFINITY;
    x[9] = 1000;
    for (size_t t = 0; t < FX_COUNT(temperatures); t++) {
        for (int k = 0; k < 3; k++) {
            fx_sample_params p = plain();
            fx_sampler s;

            p.temperature = temperatures[t];
            p.top_k = k == 1 ? 10 : 0;
            p.top_p = k == 2 ? 0.9f : 1;
            REQUIRE(fx_sampler_init(&s, &fx_mem_libc, &p, 64, 0, 1, NULL) == FORNAX_OK);
            for (int i = 0; i < 50; i++) {
                int32_t id = sample_once(&s, x, copy, 64, i, &c);

                CHECK(id >= 0 && id < 64 && id != 3);
                CHECK(temperatures[t] > 1 || id == 9);
            }
        }
    }
    fx_sample_scratch_done(&c);
}

/* Values worked out by hand. */
TEST(bias_penalties_and_logprobs)
{
    float x[6] = { 2, 1, -1, 0, 3, 0.5f };
    const int32_t prompt[] = { 0, 2 }, generated[] = { 1, 1, 4 };
    const fornax_logit_bias bias[] = { { 3, 4 }, { 5, -100 }, { 3, -1.5f } };
    const int32_t ends[] = { 4 };
    fx_sample_params p = plain();
    fx_sample_scratch c;
    fx_sampler s;
    fx_sampled out;
    double sum;

    p.temperature = 0;
    p.repetition = 2;
    p.frequency = 0.25f;
    p.presence = 0.5f;
    p.bias = bias;
    p.n_bias = 3;
    p.ends = ends;
    p.n_ends = 1;
    p.min_tokens = 4;
    p.logprobs = true;
    p.n_top = 6;
    REQUIRE(fx_sample_scratch_init(&c, &fx_mem_libc, 6, NULL) == FORNAX_OK);
    REQUIRE(fx_sampler_init(&s, &fx_mem_libc, &p, 6, 0, 10, NULL) == FORNAX_OK);
    fx_sampler_prompt(&s, prompt, 2);
    fx_sampler_accept(&s, generated, 3);
    fx_sample(&s, x, NULL, 5, &c, &out);
    CHECK_NEAR(x[0], 1, 0);                       /* 2 / 2, not generated */
    CHECK_NEAR(x[1], -0.5, 0);                    /* 1 / 2 - 2 * 0.25 - 0.5 */
    CHECK_NEAR(x[2], -2, 0);                      /* -1 * 2 */
    CHECK_NEAR(x[3], 2.5, 0);                     /* 0 + 4 - 1.5 */
    CHECK(x[4] == -INFINITY && x[5] == -INFINITY); /* an end too early; banned */
    CHECK_EQ_I64(out.token, 3);
    sum = exp(1 - 2.5) + exp(-0.5 - 2.5) + exp(-2 - 2.5) + 1;
    CHECK_NEAR(out.logprob, -log(sum), 1e-6);
    CHECK_EQ_I64(out.n_top, 4);
    CHECK(out.top[0].id == 3 && out.top[1].id == 0 && out.top[2].id == 1 && out.top[3].id == 2);
    CHECK_NEAR(out.top[2].logprob, -3 - log(sum), 1e-6);
    fx_sampler_rollback(&s, generated + 1, 2);
    CHECK_EQ_I64(s.n_generated, 1);
    CHECK_EQ_I64(s.count[4], 0);
    CHECK_EQ_I64(s.count[1], 2);
    CHECK_EQ_I64(s.n_seen, 3);
    fx_sampler_accept(&s, generated + 1, 2);
    CHECK_EQ_I64(s.count[1], 4);
    fx_sampler_done(&s);
    fx_sample_scratch_done(&c);
}

TEST(top_logprobs_on_a_big_row)
{
    enum { N = 50000 };
    static float x[N], copy[N];
    static pair at[N];
    fx_sample_params p = plain();
    fx_sample_scratch c;
    fx_sampler s;
    fx_sampled out;

    p.logprobs = true;
    p.n_top = 20;
    REQUIRE(fx_sample_scratch_init(&c, &fx_mem_libc, N, NULL) == FORNAX_OK);
    REQUIRE(fx_sampler_init(&s, &fx_mem_libc, &p, N, 0, 1, NULL) == FORNAX_OK);
    for (int round = 0; round < 10; round++) {
        double sum = 0;

        fill(x, N, 12, round % 2);
        for (int i = 0; i < N; i++)
            at[i] = (pair){ x[i], i };
        qsort(at, N, sizeof *at, by_value);
        for (int i = 0; i < N; i++)
            sum += exp((double)x[i] - (double)at[0].x);
        memcpy(copy, x, sizeof x);
        fx_sample(&s, copy, NULL, round, &c, &out);
        CHECK_EQ_I64(out.n_top, 20);
        for (int i = 0; i < 20; i++) {
            CHECK_EQ_I64(out.top[i].id, at[i].id);
            CHECK_NEAR(out.top[i].logprob, (double)at[i].x - (double)at[0].x - log(sum), 1e-5);
        }
        CHECK_NEAR(out.logprob, (double)x[out.token] - (double)at[0].x - log(sum), 1e-5);
    }
    fx_sample_scratch_done(&c);
}

/* Not a benchmark, but a bound that a full sort would miss by far. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW_BUILD 1
#endif
#endif

/* Times say nothing in a build with sanitizers. */
#ifndef SLOW_BUILD
TEST(fast_enough)
{
    enum { N = 151936 };
    static float x[N], copy[N];
    static const struct {
        const char *name;
        int top_k, n_top;
        float top_p, spread;
    } rows[] = {
        { "plain", 0, 0, 1, 12 },          { "top-k 40, top-p 0.9", 40, 0, 0.9f, 12 },
        { "top-p 0.9", 0, 0, 0.9f, 12 },   { "top-p 0.9, flat", 0, 0, 0.9f, 0.1f },
        { "top-k 5000", 5000, 0, 1, 12 },  { "logprobs 20", 0, 20, 1, 12 },
        { "top-p 0.9, all equal", 0, 0, 0.9f, 0 },
    };
    fx_sample_scratch c;

    REQUIRE(fx_sample_scratch_init(&c, &fx_mem_libc, N, NULL) == FORNAX_OK);
    for (size_t r = 0; r < FX_COUNT(rows); r++) {
        fx_sample_params p = plain();
        uint64_t best = UINT64_MAX;
        fx_sampler s;

        p.top_k = rows[r].top_k;
        p.top_p = rows[r].top_p;
        p.logprobs = rows[r].n_top > 0;
        p.n_top = rows[r].n_top;
        fill(x, N, rows[r].spread, false);
        REQUIRE(fx_sampler_init(&s, &fx_mem_libc, &p, N, 0, 1, NULL) == FORNAX_OK);
        for (int i = 0; i < 20; i++) {
            fx_sampled out;
            uint64_t t0;

            memcpy(copy, x, sizeof x);
            t0 = fx_clock_ns();
            fx_sample(&s, copy, NULL, i, &c, &out);
            best = FX_MIN(best, fx_clock_ns() - t0);
        }
        if (getenv("FXTEST_VERBOSE"))
            printf("%s: %.0f us\n", rows[r].name, (double)best / 1000);
        if (best > 20000000)
            FXTEST_FAIL("%s: %.0f us", rows[r].name, (double)best / 1000);
    }
    fx_sample_scratch_done(&c);
}
#endif

FXTEST_MAIN()
