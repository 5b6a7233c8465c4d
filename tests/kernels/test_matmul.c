/* test_matmul.c - every matmul kernel that this machine can run, against sums in double
 * over rows that tensor/ dequantized, and the reduction contract: a row's bytes are those
 * of the row computed alone, whatever the rows beside it, the task ranges and the offsets. */
#include "base/mem.h"
#include "fxtest.h"
#include "kernels/kernels.h"
#include "kernels/quant.h"

static uint64_t seed = 1;

static uint32_t random32(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
}

static float uniform(void) { return (float)((double)random32() / 1073741824.0 - 1.0); }

static void *aligned(size_t size)
{
    void *p = aligned_alloc(64, FX_ROUND_UP(size + 1, 64));

    if (!p)
        abort();
    return p;
}

/* ---- A product to compute ---- */

typedef struct problem {
    const fx_matmul_kernel *kernel;
    int64_t rows, n, k, n_src;           /* n_src: rows of w in file form (twice n when paired) */
    bool paired;
    uint8_t *tiles;
    size_t tile_bytes;
    float *w;                            /* [n_src][k] dequantized */
    float *x;                            /* [rows][k] */
    float *y0;                           /* [rows][n] each row computed alone */
} problem;

static void put_f32(uint8_t *p, float v) { memcpy(p, &v, 4); }

/* Scales that aren't f16 numbers at a fixed place. */
static void random_scale(fx_dtype type, uint8_t *block)
{
    uint16_t h = fx_f32_to_f16(uniform() * 0.01f);

    if (type == FX_MXFP4)
        block[0] = (uint8_t)(120 + random32() % 6);
    for (int i = 0; type == FX_IQ1_M && i < 4; i++)
        block[49 + 2 * i] = (uint8_t)((block[49 + 2 * i] & 15) | (h >> 4 * i & 15) << 4);
    if (type == FX_GROUP4 || type == FX_GROUP8)
        put_f32(block, uniform() * 0.01f);
    if (type == FX_GROUP4)
        block[4] &= 15;
}

/* Random blocks whose f16 fields are small numbers; every other bit is free. */
static void random_row(fx_dtype type, uint8_t *row, int64_t k)
{
    static const struct { fx_dtype type; int at[2]; } halves[] = {
        { FX_Q4_0, { 0, -1 } }, { FX_Q4_1, { 0, 2 } }, { FX_Q5_0, { 0, -1 } }, { FX_Q5_1, { 0, 2 } },
        { FX_Q8_0, { 0, -1 } }, { FX_Q4_K, { 0, 2 } }, { FX_Q5_K, { 0, 2 } }, { FX_Q6_K, { 208, -1 } },
        { FX_Q2_K, { 80, 82 } }, { FX_Q3_K, { 108, -1 } }, { FX_IQ4_NL, { 0, -1 } }, { FX_IQ4_XS, { 0, -1 } },
        { FX_IQ1_S, { 0, -1 } }, { FX_IQ2_XXS, { 0, -1 } }, { FX_IQ2_XS, { 0, -1 } }, { FX_IQ2_S, { 0, -1 } },
        { FX_IQ3_XXS, { 0, -1 } }, { FX_IQ3_S, { 0, -1 } }, { FX_TQ1_0, { 52, -1 } }, { FX_TQ2_0, { 64, -1 } },
    };
    size_t bytes = fx_dtype_row_bytes(type, k), block = fx_dtype_rows[type].block_bytes;

    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)random32();
    for (int64_t i = 0; i < k && !fx_dtype_is_quant(type); i++) {
        float v = uniform();
        uint16_t h = type == FX_F16 ? fx_f32_to_f16(v) : fx_f32_to_bf16(v);

        if (type == FX_F32)
            memcpy(row + i * 4, &v, 4);
        else
            memcpy(row + i * 2, &h, 2);
    }
    for (size_t t = 0; t < FX_COUNT(halves); t++)
        for (size_t b = 0; halves[t].type == type && b < bytes; b += block)
            for (int i = 0; i < 2 && halves[t].at[i] >= 0; i++) {
                uint16_t h = fx_f32_to_f16(uniform() * 0.01f);

                memcpy(row + b + halves[t].at[i], &h, 2);
            }
    for (size_t b = 0; fx_dtype_is_quant(type) && b < bytes; b += block)
        random_scale(type, row + b);
}

static void make_weights(problem *p)
{
    size_t row_bytes = fx_dtype_row_bytes(p->kernel->weight, p->k);
    int64_t tiles = (p->n + 15) / 16 * (p->paired ? 2 : 1);
    uint8_t *file = aligned((size_t)p->n_src * row_bytes);

    p->tile_bytes = p->kernel->tile_bytes(p->k);
    p->tiles = aligned((size_t)tiles * p->tile_bytes);
    p->w = aligned((size_t)(p->n_src * p->k) * sizeof(float));
    for (int64_t i = 0; i < p->n_src; i++) {
        random_row(p->kernel->weight, file + (size_t)i * row_bytes, p->k);
        fx_dequantize_row(p->kernel->weight, file + (size_t)i * row_bytes, p->w + i * p->k, p->k);
    }
    for (int64_t t = 0; t < tiles; t++) {
        const void *rows[16];
        int64_t first = p->paired ? t / 2 * 16 : t * 16, half = p->paired ? t % 2 * p->n : 0;

        for (int64_t i = 0; i < 16; i++)
            rows[i] = first + i < p->n ? file + (size_t)(half + first + i) * row_bytes : NULL;
        p->kernel->pack(rows, p->k, p->tiles + (size_t)t * p->tile_bytes);
    }
    free(file);
}

static problem make(const fx_matmul_kernel *kernel, int64_t rows, int64_t n, int64_t k, bool paired)
{
    problem p = { kernel, rows, n, k, paired ? 2 * n : n, paired, NULL, 0, NULL, NULL, NULL };

    make_weights(&p);
    p.x = aligned((size_t)(rows * k) * sizeof(float));
    p.y0 = aligned((size_t)(rows * n) * sizeof(float));
    for (int64_t i = 0; i < rows * k; i++)
        p.x[i] = uniform() * (i % 7 == 0 ? 4 : 1);
    return p;
}

static void done(problem *p)
{
    free(p->tiles);
    free(p->w);
    free(p->x);
    free(p->y0);
}

/* Something that is fetched meanwhile: pages of more and of less than a tile, with a table that a sanitizer sees the end of. */
static fx_ahead some_ahead(int64_t m, size_t tile_bytes)
{
    static uint8_t pool[4096];
    fx_ahead a = { pool, NULL, m % 7 + 1, 64, m % 2 ? 3 * tile_bytes + 64 : 64 };

    a.pages = calloc((size_t)a.n, sizeof *a.pages);
    return a;
}

/* Rows [row0, row0 + m) of the product to y[m][ld], tasks cut at 'cut'. x may be given an odd place. */
static void compute(const problem *p, int64_t row0, int64_t m, int64_t cut, float *y, int64_t ld)
{
    const fx_matmul_kernel *k = p->kernel;
    int64_t x_ld = p->k + (m > 1 ? 3 : 0), tasks;
    float *x = aligned((size_t)(m * x_ld + 1) * sizeof(float));
    fx_q8 q8 = { NULL, p->k };
    fx_ahead ahead = some_ahead(m, p->tile_bytes);
    void *scratch;
    fx_matmul_args a = { 0 };

    for (int64_t r = 0; r < m; r++)
        memcpy(x + 1 + r * x_ld, p->x + (row0 + r) * p->k, (size_t)p->k * sizeof(float));
    if (k->act == FX_ACT_Q8) {
        q8.data = aligned(fx_q8_bytes(m, p->k));
        fx_q8_put(&q8, m, 0, m, 0, p->k, (fx_cmat){ x + 1, x_ld });
    }
    a = (fx_matmul_args){ { x + 1, x_ld }, q8, p->tiles, p->tile_bytes, m, p->n, p->k, p->paired,
                          { .fn = fx_epilogue_find(&(fx_cpu){ .level = k->level }), .y = { y, ld }, .scale = 1 }, &ahead };
    tasks = fx_matmul_tasks(&a);
    scratch = aligned(k->scratch_bytes ? k->scratch_bytes(&a) : 0);
    k->run(&a, 0, FX_MIN(cut, tasks), scratch);
    if (cut < tasks)
        k->run(&a, cut, tasks, scratch);
    free(scratch);
    free(q8.data);
    free((void *)(uintptr_t)ahead.pages);
    free(x);
}

/* To the nearest of 8 significant bits, ties to even, by the libm's rule. */
static double to_bf16(double x)
{
    int e;
    double m = frexp(x, &e);

    return ldexp(nearbyint(ldexp(m, 8)), e - 8);
}

/* x as the kernel sees it: by the definition in quant.h, or rounded to bf16. */
static void seen(const problem *p, const float *x, double *out)
{
    for (int64_t i = 0; i < p->k; i++)
        out[i] = p->kernel->act == FX_ACT_BF16 ? to_bf16(x[i]) : x[i];
    for (int64_t b = 0; p->kernel->act == FX_ACT_Q8 && b < p->k; b += 32) {
        float max = 0, d;

        for (int i = 0; i < 32; i++)
            max = fmaxf(max, fabsf(x[b + i]));
        d = max / 127;
        for (int i = 0; i < 32; i++)
            out[b + i] = max > 0 ? (double)d * nearbyintf(x[b + i] * (1 / d)) : 0;
    }
}

static double dot(const double *x, const float *w, int64_t k, double *magnitude)
{
    double sum = 0;

    *magnitude = 0;
    for (int64_t i = 0; i < k; i++) {
        sum += x[i] * w[i];
        *magnitude += fabs(x[i] * w[i]);
    }
    return sum;
}

/* Largest error of row r in units of what rounding may do to a sum of such terms. */
static double row_error(const problem *p, int64_t r, const float *y)
{
    double *x = aligned((size_t)p->k * sizeof(double)), worst = 0;

    seen(p, p->x + r * p->k, x);
    for (int64_t i = 0; i < p->n; i++) {
        double mag, want = dot(x, p->w + i * p->k, p->k, &mag), allowed = 2e-7 * (mag + 1e-30) * sqrt((double)p->k + 16);

        if (p->paired) {
            double mag2, up = dot(x, p->w + (p->n + i) * p->k, p->k, &mag2);

            allowed = 1.2 * allowed * fabs(up) + 2e-7 * mag2 * sqrt((double)p->k + 16) * fabs(want) +
                      allowed * mag2 * 1e-6 + 3e-7 * fabs(want * up) + 1e-30;
            want = want / (1 + exp(-want)) * up;
        }
        worst = fmax(worst, fabs(y[i] - want) / allowed);
        if (!(fabs(y[i] - want) <= allowed))
            worst = fmax(worst, 2);
    }
    free(x);
    return worst;
}

/* ---- The grid ---- */

static bool runs_here(const fx_matmul_kernel *k)
{
    fx_cpu cpu = fx_cpu_detect();

    return fx_matmul_usable(k, &cpu);
}

static const int64_t ks_plain[] = { 1, 2, 3, 31, 33, 100, 577, 1030, 0 };
static const int64_t ks_small[] = { 32, 64, 96, 288, 1056, 0 };
static const int64_t ks_k[] = { 256, 768, 2304, 0 };

static const int64_t *ks_of(const fx_matmul_kernel *k)
{
    int elems = fx_dtype_rows[k->weight].block_elems;

    return elems == 1 ? ks_plain : elems == 32 ? ks_small : ks_k;
}

static void check_shape(const fx_matmul_kernel *kernel, int64_t n, int64_t k, bool paired)
{
    enum { ROWS = 3 };
    problem p = make(kernel, ROWS, n, k, paired);
    double worst = 0;

    for (int64_t r = 0; r < ROWS; r++) {
        compute(&p, r, 1, INT64_MAX, p.y0 + r * n, n);
        worst = fmax(worst, row_error(&p, r, p.y0 + r * n));
    }
    if (!(worst <= 1))
        FXTEST_FAIL("%s n=%d k=%d paired=%d: error %g of what is allowed", kernel->name, (int)n, (int)k, paired, worst);
    done(&p);
}

TEST(each_kernel_computes_the_product)
{
    static const int64_t ns[] = { 1, 15, 16, 17, 80, 0 };

    for (size_t i = 0; i < fx_matmul_count(); i++) {
        const fx_matmul_kernel *kernel = fx_matmul_at(i);

        for (const int64_t *n = ns; runs_here(kernel) && *n; n++)
            for (const int64_t *k = ks_of(kernel); *k; k++) {
                check_shape(kernel, *n, *k, false);
                check_shape(kernel, *n, *k, true);
            }
    }
}

/* m rows from row0 on, with tasks cut: bytes as alone, nothing written beside the columns. */
static void check_rows(const problem *p, int64_t row0, int64_t m, int64_t cut)
{
    int64_t ld = p->n + 5;
    float *y = aligned((size_t)(m * ld + 1) * sizeof(float));
    int bad = 0;

    memset(y, 0x55, (size_t)(m * ld + 1) * sizeof(float));
    compute(p, row0, m, cut, y + 1, ld);
    for (int64_t r = 0; r < m; r++) {
        bad += memcmp(y + 1 + r * ld, p->y0 + (row0 + r) * p->n, (size_t)p->n * sizeof(float)) != 0;
        for (int64_t i = p->n; i < ld; i++)
            bad += fx_f32_bits(y[1 + r * ld + i]) != 0x55555555u;
    }
    if (bad)
        FXTEST_FAIL("%s n=%d k=%d paired=%d: %d of rows %d..%d, tasks cut at %d, differ", p->kernel->name, (int)p->n,
                    (int)p->k, p->paired, bad, (int)row0, (int)(row0 + m), (int)cut);
    free(y);
}

/* m rows whose results are also rounded, or nothing else is kept of them, tasks cut at 'cut' blocks: those are what quantizing the
 * results gives. */
static void check_rounding(const problem *p, int64_t m, int64_t cut, bool alone)
{
    const fx_matmul_kernel *k = p->kernel;
    fx_cpu cpu = { .level = k->level };
    fx_q8 q8 = { aligned(fx_q8_bytes(m, p->k)), p->k }, got = { aligned(fx_q8_bytes(m, p->n)), p->n };
    fx_q8 want = { aligned(fx_q8_bytes(m, p->n)), p->n };
    float *y = aligned((size_t)(m * p->n) * sizeof(float));
    fx_matmul_args a = { { p->x, p->k }, q8, p->tiles, p->tile_bytes, m, p->n, p->k, p->paired,
                         { .fn = fx_epilogue_round, .y = { y, p->n }, .scale = alone ? 1 : 0.5f, .q8 = got, .put = fx_q8_put_find(&cpu),
                           .store = fx_epilogue_find(&cpu), .n_rows = &m }, NULL };
    int64_t tasks = fx_matmul_tasks(&a);
    void *scratch = aligned(k->scratch_bytes ? k->scratch_bytes(&a) : 0);

    fx_q8_put(&q8, m, 0, m, 0, p->k - p->k % 32, (fx_cmat){ p->x, p->k });
    memset(y, 0x55, (size_t)(m * p->n) * sizeof(float));
    if (alone) {                             /* y first, then without one */
        k->run(&a, 0, tasks, scratch);
        a.epi.y.p = NULL;
        memset(got.data, 0x55, (size_t)(m * (p->n / 32) * FX_Q8_WORDS) * 4);
    }
    if (cut * FX_ROUND_TILES < tasks)        /* the later part first, as another thread might */
        k->run(&a, cut * FX_ROUND_TILES, tasks, scratch);
    k->run(&a, 0, FX_MIN(cut * FX_ROUND_TILES, tasks), scratch);
    for (int64_t r = 0; r < m; r++)
        fx_q8_put(&want, m, r, 1, 0, p->n, (fx_cmat){ y + r * p->n, 0 });
    if (memcmp(want.data, got.data, (size_t)(m * (p->n / 32) * FX_Q8_WORDS) * 4) != 0)
        FXTEST_FAIL("%s n=%d k=%d paired=%d: %d rows, tasks cut at block %d: not rounded right", k->name, (int)p->n, (int)p->k,
                    p->paired, (int)m, (int)cut);
    free(scratch);
    free(y);
    free(want.data);
    free(got.data);
    free(q8.data);
}

TEST(products_round_what_they_make)
{
    static const int64_t rows[] = { 1, 2, 5, 13, 15, 40 };

    for (size_t i = 0; i < fx_matmul_count(); i++)
        for (int paired = 0; runs_here(fx_matmul_at(i)) && paired < 2; paired++) {
            problem p = make(fx_matmul_at(i), 40, 160, 256, paired);

            for (size_t r = 0; r < FX_COUNT(rows); r++)
                for (int64_t cut = 1; cut <= 5; cut += 2) {
                    check_rounding(&p, rows[r], cut, false);
                    if (p.kernel->act == FX_ACT_Q8)
                        check_rounding(&p, rows[r], cut, true);
                }
            done(&p);
        }
}

/* A level is one set of bits, whichever of its rows runs. */
TEST(kernels_of_one_level_agree)
{
    for (size_t i = 0; i < fx_matmul_count(); i++)
        for (size_t j = 0; j < i; j++) {
            const fx_matmul_kernel *a = fx_matmul_at(i), *b = fx_matmul_at(j);
            problem p;

            if (a->weight != b->weight || a->act != b->act || a->level != b->level || !runs_here(a) || !runs_here(b))
                continue;
            p = make(a, 1, 40, 768, false);
            compute(&p, 0, 1, INT64_MAX, p.y0, p.n);
            p.kernel = b;
            check_rows(&p, 0, 1, INT64_MAX);
            done(&p);
        }
}

static void check_contract(const fx_matmul_kernel *kernel, int64_t n, int64_t k, bool paired)
{
    enum { ROWS = 80 };
    problem p = make(kernel, ROWS, n, k, paired);

    for (int64_t r = 0; r < ROWS; r++)
        compute(&p, r, 1, INT64_MAX, p.y0 + r * n, n);
    for (int64_t m = 1; m <= 64; m++)
        check_rows(&p, m % 17, m, m % ((n + 15) / 16 + 1));
    for (int64_t cut = 0; cut <= (n + 15) / 16; cut++)
        check_rows(&p, 1, 29, cut);
    done(&p);
}

TEST(a_row_is_the_same_in_any_company)
{
    for (size_t i = 0; i < fx_matmul_count(); i++) {
        const fx_matmul_kernel *kernel = fx_matmul_at(i);
        int64_t k = fx_dtype_rows[kernel->weight].block_elems == 1 ? 77 : ks_of(kernel)[2];

        if (!runs_here(kernel))
            continue;
        check_contract(kernel, 70, FX_MIN(k, 768), false);
        check_contract(kernel, 40, FX_MIN(k, 768), true);
    }
}

/* Many rows and a wide k, so that loops over rows are cut for caches. */
TEST(a_row_is_the_same_in_a_long_prefill)
{
    for (size_t i = 0; i < fx_matmul_count(); i++) {
        const fx_matmul_kernel *kernel = fx_matmul_at(i);
        problem p;

        if (!runs_here(kernel) || kernel->level == FX_CPU_SCALAR)
            continue;
        p = make(kernel, 300, 33, 2304, false);
        for (int64_t r = 0; r < p.rows; r += 1)
            compute(&p, r, 1, INT64_MAX, p.y0 + r * p.n, p.n);
        check_rows(&p, 0, 300, 1);
        done(&p);
    }
}

/* ---- Epilogue ---- */

enum { EPI_ROWS = 5, EPI_LD = 40 };

static void check_epilogue(fx_epilogue_fn fn, int64_t n, bool with_bias, bool with_residual)
{
    float acc[EPI_ROWS * 16], bias[EPI_LD], res[EPI_ROWS * EPI_LD], y[EPI_ROWS * EPI_LD], want;
    fx_epilogue e = { .fn = fn, .y = { y, EPI_LD }, .residual = { with_residual ? res : NULL, EPI_LD },
                      .bias = with_bias ? bias : NULL, .scale = 0.3f };

    for (int i = 0; i < EPI_ROWS * EPI_LD; i++) {
        y[i] = 7;
        res[i] = uniform();
        bias[i % EPI_LD] = uniform();
        acc[i % (EPI_ROWS * 16)] = uniform();
    }
    fn(&e, acc, 16, 1, EPI_ROWS - 1, 3, n);
    for (int r = 0; r < EPI_ROWS; r++)
        for (int c = 0; c < EPI_LD; c++) {
            bool inside = r >= 1 && c >= 3 && c < 3 + n;

            want = 7;
            if (inside) {
                want = 0.3f * acc[(r - 1) * 16 + c - 3];
                want = with_bias ? want + bias[c] : want;
                want = with_residual ? want + res[r * EPI_LD + c] : want;
            }
            CHECK_EQ_I64(fx_f32_bits(y[r * EPI_LD + c]), fx_f32_bits(want));
        }
}

TEST(epilogues_scale_then_add_bias_then_residual)
{
    fx_error err = { 0 };
    fx_cpu cpu;

    for (int l = 0; l < FX_CPU_LEVELS; l++) {
        if (fx_cpu_choose(&cpu, fx_cpu_level_name((fx_cpu_level)l), &err) != FORNAX_OK)
            continue;                    /* not of this machine */
        for (int64_t n = 1; n <= 16; n++)
            for (int flags = 0; flags < 4; flags++)
                check_epilogue(fx_epilogue_find(&cpu), n, flags & 1, flags & 2);
    }
}

/* ---- What the table answers ---- */

TEST(find_takes_whole_blocks_only)
{
    static const struct { fx_dtype type; fx_act act; int64_t k; bool found; } cases[] = {
        { FX_F32, FX_ACT_F32, 1, true },    { FX_F16, FX_ACT_F32, 7, true },    { FX_BF16, FX_ACT_F32, 577, true },
        { FX_F32, FX_ACT_F32, 0, false },   { FX_F32, FX_ACT_Q8, 32, false },   { FX_Q4_0, FX_ACT_Q8, 32, true },
        { FX_Q4_0, FX_ACT_Q8, 48, false },  { FX_Q4_0, FX_ACT_F32, 32, false }, { FX_Q4_K, FX_ACT_Q8, 256, true },
        { FX_Q4_K, FX_ACT_Q8, 288, false }, { FX_Q6_K, FX_ACT_Q8, 512, true },
        { FX_IQ1_M, FX_ACT_Q8, 256, true },  { FX_TQ1_0, FX_ACT_Q8, 256, true }, { FX_GROUP4, FX_ACT_Q8, 96, true },
         { FX_I8, FX_ACT_F32, 32, false },
        { FX_BF16, FX_ACT_BF16, 577, true }, { FX_F16, FX_ACT_BF16, 32, false },
    };
    static const fx_cpu_level levels[] = { FX_CPU_SCALAR, FX_CPU_AVX2, FX_CPU_AVX512, FX_CPU_NEON };

    for (size_t i = 0; i < FX_COUNT(cases); i++)
        for (size_t l = 0; l < FX_COUNT(levels); l++) {
            fx_cpu cpu = { .level = levels[l] };
            const fx_matmul_kernel *m = fx_matmul_find(cases[i].type, cases[i].act, cases[i].k, &cpu);

            CHECK((m != NULL) == cases[i].found);
            CHECK(!m || fx_matmul_usable(m, &cpu));
        }
}

/* Only where the instruction pays are activations rounded to bf16, and only beside bf16 weights. */
TEST(activations_are_a_choice_of_weights_and_processor)
{
    fx_cpu slow = { .level = FX_CPU_AVX512, .avx512_bf16 = true }, fast = { .level = FX_CPU_AVX512, .avx512_bf16 = true, .bf16_fast = true };

    CHECK(fx_matmul_act(FX_BF16, false, &slow) == FX_ACT_F32);
    CHECK(fx_matmul_act(FX_BF16, false, &fast) == FX_ACT_BF16);
    CHECK(fx_matmul_act(FX_F16, false, &fast) == FX_ACT_F32);
    CHECK(fx_matmul_act(FX_Q4_0, true, &fast) == FX_ACT_Q8);
}

/* ---- Activations ---- */

/* A row read back from any number of rows. */
static void read_row(const fx_q8 *q, int64_t rows, int64_t row, uint32_t *words)
{
    fx_q8_panel at = fx_q8_panel_of_row(rows, row);
    const uint32_t *p = fx_q8_panel_words(q, at.row0) + (row - at.row0);

    for (int64_t i = 0; i < q->k / 32 * FX_Q8_WORDS; i++)
        words[i] = p[i * at.width];
}

TEST(panels_cover_the_rows)
{
    for (int64_t rows = 1; rows < 200; rows++) {
        int64_t next = 0;

        for (int64_t i = 0; i < fx_q8_panels(rows); i++) {
            fx_q8_panel p = fx_q8_panel_at(rows, i);

            CHECK_EQ_I64(p.row0, next);
            CHECK(p.width >= 1 && p.width <= FX_Q8_PANEL);
            for (int64_t r = p.row0; r < p.row0 + p.width; r++)
                CHECK_EQ_I64(fx_q8_panel_of_row(rows, r).row0, p.row0);
            next = p.row0 + p.width;
        }
        CHECK_EQ_I64(next, rows);
    }
}

static const float hard_rows[][4] = {    /* repeated along the row */
    { 0, 0, 0, 0 },          { 1, -1, 0.5f, -0.5f },     { 127, 0.5f, 1.5f, 2.5f },       { -127, -0.5f, -1.5f, -2.5f },
    { 1e-44f, 0, 0, 0 },     { 1e-38f, 1e-39f, 0, 0 },   { 3.4e38f, -3.4e38f, 1e38f, 0 }, { 1e-29f, -2e-29f, 0, 1e-30f },
    { INFINITY, 1, 2, 3 },   { 1, -INFINITY, 2, 3 },     { NAN, 1, 2, 3 },                { -NAN, INFINITY, 0, 0 },
};

static void check_put(fx_q8_put_fn put, const float *x, int64_t k)
{
    fx_q8 one = { aligned(fx_q8_bytes(1, k)), k }, many = { aligned(fx_q8_bytes(31, k)), k };
    uint32_t *a = aligned((size_t)k * 8), *b = aligned((size_t)k * 8);
    static float rows[31 * 320];

    for (int r = 0; r < 31; r++)
        for (int64_t j = 0; j < k; j++)
            rows[r * 320 + j] = x[(j + 5 * r) % k];
    put(&many, 31, 28, 3, 0, k, (fx_cmat){ rows + 28 * 320, 320 });
    put(&many, 31, 0, 24, k / 64 * 32, k - k / 64 * 32, (fx_cmat){ rows + k / 64 * 32, 320 });    /* in two parts, the later first */
    put(&many, 31, 0, 24, 0, k / 64 * 32, (fx_cmat){ rows, 320 });
    for (int r = 0; r < 31; r += r == 23 ? 5 : 1) {
        fx_q8_put(&one, 1, 0, 1, 0, k, (fx_cmat){ rows + r * 320, 0 });
        read_row(&one, 1, 0, a);
        read_row(&many, 31, r, b);
        CHECK(memcmp(a, b, (size_t)(k / 32 * FX_Q8_WORDS) * 4) == 0);
    }
    free(one.data);
    free(many.data);
    free(a);
    free(b);
}

TEST(quantized_rows_are_the_same_at_all_levels)
{
    static const struct { fx_q8_put_fn put; fx_cpu_level level; } puts[] = {
        { fx_q8_put, FX_CPU_SCALAR },
#if defined(__x86_64__)
        { fx_q8_put_avx2, FX_CPU_AVX2 },
        { fx_q8_put_avx512, FX_CPU_AVX512 },
#elif defined(__aarch64__)
        { fx_q8_put_neon, FX_CPU_NEON },
#endif
    };
    fx_error err = { 0 };
    fx_cpu cpu;
    float x[1 + 320];

    for (size_t i = 0; i < FX_COUNT(puts); i++) {
        if (fx_cpu_choose(&cpu, fx_cpu_level_name(puts[i].level), &err) != FORNAX_OK)
            continue;                    /* not of this machine */
        for (size_t h = 0; h < FX_COUNT(hard_rows); h++) {
            for (int j = 0; j < 320; j++)
                x[1 + j] = hard_rows[h][j % 4];
            check_put(puts[i].put, x + 1, 320);
        }
        for (int rep = 0; rep < 200; rep++) {
            for (int j = 0; j < 320; j++)
                x[1 + j] = uniform() * (float)(rep + 1);
            check_put(puts[i].put, x + 1, 32 * (1 + rep % 10));
        }
    }
}

TEST(quantized_blocks_are_as_defined)
{
    float x[32] = { 127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -127, 3, 4 };
    static const int8_t want[10] = { 127, 0, 2, 2, 0, -2, -2, -127, 3, 4 };
    uint32_t w[FX_Q8_WORDS];
    fx_q8 q = { w, 32 };

    x[20] = 5;
    fx_q8_put(&q, 1, 0, 1, 0, 32, (fx_cmat){ x, 0 });
    for (int i = 0; i < 10; i++)
        CHECK_EQ_I64(((const int8_t *)w)[i], want[i]);
    CHECK(fx_f32_of_bits(w[8]) == 1.0f);
    CHECK_EQ_I64((int32_t)w[9], -12);
    CHECK_EQ_I64((int32_t)w[10], -7);
    x[3] = NAN;
    fx_q8_put(&q, 1, 0, 1, 0, 32, (fx_cmat){ x, 0 });
    CHECK(isnan(fx_f32_of_bits(w[8])));
    CHECK_EQ_I64(w[0], 0);
}

FXTEST_MAIN()
