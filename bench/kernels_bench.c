/* kernels_bench.c - speed of the matmul kernels and of attention on one thread, beside the machine's limits.
 *
 *     kernels_bench [LEVEL [NAME [ROWS N K]]]     all levels, all kernels, 1 and 256 rows of 3072 x 1024
 *     kernels_bench avx512 attend [HEADS KV_HEADS DIM CONTEXT]     1 row and 512 at the end of 8,192 positions
 *
 * Products of one row stream 256 MiB of weights (GB/s, share of the read bandwidth);
 * larger ones are counted in Gop/s, a multiply and an add each, as a share of the f32
 * FMA peak or, with int8 activations, of four times that (VNNI), with bf16 ones of twice that. Best of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "kernels/kernels.h"
#include "kernels/kv_page.h"
#include "kernels/quant.h"

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Limits ---- */

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static double read_gbs(const void *p, size_t bytes)
{
    double best = 0;

    for (int rep = 0; rep < 4; rep++) {
        __m256i s[4] = { { 0 } };
        const __m256i *v = p;
        double t = now();

        for (size_t i = 0; i + 4 <= bytes / 32; i += 4)
            for (int j = 0; j < 4; j++)
                s[j] = _mm256_xor_si256(s[j], _mm256_load_si256(v + i + (size_t)j));
        __asm__ volatile("" ::"x"(s[0]), "x"(s[1]), "x"(s[2]), "x"(s[3]));
        t = (double)bytes / (now() - t) / 1e9;
        best = t > best ? t : best;
    }
    return best;
}

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FMA_PEAK(name, isa, reg)                                                             \
    __attribute__((target(isa))) static double name(void)                                   \
    {                                                                                        \
        double t = now(), best = 0;                                                          \
        for (int rep = 0; rep < 4; rep++, t = now()) {                                       \
            for (long i = 0; i < 2000000; i++)                                               \
                __asm__ volatile(TWELVE(reg)::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", \
                                 "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13"); \
            t = 24e6 / (now() - t) / 1e9;                                                    \
            best = t > best ? t : best;                                                      \
        }                                                                                    \
        return best;                                                                         \
    }
#define YMM(n) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #n "\n"
#define ZMM(n) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #n "\n"
FMA_PEAK(fma_ymm, "avx2,fma", YMM)
FMA_PEAK(fma_zmm, "avx512f", ZMM)

static double f32_peak(fx_cpu_level level)
{
    return level == FX_CPU_AVX512 ? fma_zmm() * 32 : level == FX_CPU_AVX2 ? fma_ymm() * 16 : 0;
}
#else
static double read_gbs(const void *p, size_t bytes) { return (void)p, (void)bytes, 0; }
static double f32_peak(fx_cpu_level level) { return (void)level, 0; }
#endif

/* ---- Kernels ---- */

typedef struct limits {
    double gbs, f32[FX_CPU_LEVELS];
} limits;

#define SEED_BYTES 65536
#define STREAM_BYTES ((size_t)256 << 20)

static void *need(size_t bytes)
{
    void *p = fx_pages_alloc(bytes);

    if (!p)
        abort();
    return p;
}

static void bench(const fx_matmul_kernel *m, int64_t rows, int64_t n, int64_t k, const limits *lim)
{
    size_t tile_bytes = m->tile_bytes(k), tiles = (size_t)(n + 15) / 16;
    size_t copies = rows == 1 ? STREAM_BYTES / (tiles * tile_bytes) + 1 : 1, total = copies * tiles * tile_bytes;
    uint8_t *w = need(total);
    float *x = need((size_t)(rows * k) * 4), *y = need((size_t)(rows * n * (int64_t)copies) * 4);
    fx_q8 q8 = { need(fx_q8_bytes(rows, k)), k };
    fx_matmul_args a = { { x, k }, q8, w, tile_bytes, rows, n * (int64_t)copies, k, false,
                         { .fn = fx_epilogue_find(&(fx_cpu){ .level = m->level }), .y = { y, n * (int64_t)copies }, .scale = 1 } };
    size_t room = m->scratch_bytes ? m->scratch_bytes(&a) : 0;
    void *scratch = need(room + 64);
    double best = 1e9;

    for (size_t i = 0; i < total / 2; i++) {
        uint16_t small = (uint16_t)(0x1000 + i % 97);   /* a small number in every float type */

        memcpy(w + 2 * i, &small, 2);
    }
    for (int64_t i = 0; i < rows * k; i++)
        x[i] = (float)(i % 19 - 9);
    fx_q8_put(&q8, rows, 0, rows, 0, k, (fx_cmat){ x, k });
    for (int rep = 0; rep < 5 && m->level != FX_CPU_SCALAR; rep++) {
        double t = now();

        m->run(&a, 0, fx_matmul_tasks(&a), scratch);
        t = now() - t;
        best = t < best ? t : best;
    }
    double gop = 2e-9 * (double)rows * (double)a.n * (double)k / best, gbs = 1e-9 * (double)total / best;
    double peak = lim->f32[m->level] * (m->act == FX_ACT_Q8 ? 4 : m->act == FX_ACT_BF16 ? 2 : 1);

    if (m->level != FX_CPU_SCALAR)
        printf("%-24s rows %4d  n %5d  k %5d  %6.1f GB/s (%3.0f%%)  %7.1f Gop/s (%3.0f%%)\n", m->name, (int)rows, (int)n,
               (int)k, gbs, 100 * gbs / lim->gbs, gop, 100 * gop / peak);
    fx_pages_free(w, total);
    fx_pages_free(x, (size_t)(rows * k) * 4);
    fx_pages_free(y, (size_t)(rows * n * (int64_t)copies) * 4);
    fx_pages_free(q8.data, fx_q8_bytes(rows, k));
    fx_pages_free(scratch, room + 64);
}

/* ---- Attention ---- */

typedef struct shape {
    int32_t heads, kv_heads, dim, context;
} shape;

/* The last 'rows' positions of a context; one row is done for as many layers as fill STREAM_BYTES. */
static void bench_attend(const fx_kernel *k, fx_dtype type, const shape *s, int32_t rows, const limits *lim)
{
    size_t part = (size_t)s->kv_heads * fx_kv_block_bytes(type, s->dim), layer = 2 * part * (size_t)s->context / FX_KV_BLOCK;
    size_t layers = rows == 1 ? STREAM_BYTES / layer + 1 : 1, floats = (size_t)rows * (size_t)(s->heads * s->dim);
    int32_t *numbers = need((size_t)(2 * rows) * 4);
    fx_page *pages = need((size_t)(s->context / FX_KV_BLOCK) * sizeof *pages);
    uint8_t *kv = need(layers * layer);
    float *x = need(2 * floats * sizeof(float));
    fx_step_seq seq = { .n_rows = rows, .pos0 = s->context - rows, .pages = pages, .adapter = -1 };
    fx_step step = { .n_rows = rows, .n_seqs = 1, .pos = numbers, .seq = numbers + rows, .seqs = &seq,
                     .page_bytes = 2 * part, .page_tokens = FX_KV_BLOCK, .n_columns = 1 };
    fx_attend_args a = { .q = { x, s->heads * s->dim }, .out = { x + floats, s->heads * s->dim }, .heads = s->heads,
                         .kv_heads = s->kv_heads, .head_dim = s->dim, .v_dim = s->dim, .scale = 0.1f, .kv_dtype = type,
                         .v_offset = part, .step = &step };
    size_t room = k->scratch_bytes(&a) + 64;
    void *scratch = need(room);
    double best = 1e9, products = 0;

    memset(kv, 0x1c, layers * layer);        /* a small number in every type */
    for (size_t i = 0; i < floats; i++)
        x[i] = (float)(i % 19) - 9;
    for (int32_t r = 0; r < rows; r++) {
        numbers[r] = seq.pos0 + r;
        products += 2.0 * s->heads * s->dim * (numbers[r] + 1);
    }
    for (int32_t p = 0; p < s->context / FX_KV_BLOCK; p++)
        pages[p] = (fx_page)(s->context / FX_KV_BLOCK - 1 - p);
    for (int rep = 0; rep < 5; rep++) {
        double t = now();

        for (size_t l = 0; l < layers; l++) {
            step.kv = kv + l * layer;
            k->run(&a, 0, k->tasks(&a), scratch);
        }
        t = (now() - t) / (double)layers;
        best = t < best ? t : best;
    }
    double gop = 2e-9 * products / best, gbs = 1e-9 * (double)layer / best;

    printf("%-16s %-5s heads %2d/%d  dim %3d  rows %3d  context %6d  %6.1f GB/s (%3.0f%%)  %7.1f Gop/s (%3.0f%%)\n", k->name,
           fx_dtype_name(type), s->heads, s->kv_heads, s->dim, rows, s->context, gbs, 100 * gbs / lim->gbs, gop,
           100 * gop / lim->f32[k->level]);
    fx_pages_free(numbers, (size_t)(2 * rows) * 4);
    fx_pages_free(pages, (size_t)(s->context / FX_KV_BLOCK) * sizeof *pages);
    fx_pages_free(kv, layers * layer);
    fx_pages_free(x, 2 * floats * sizeof(float));
    fx_pages_free(scratch, room);
}

static void bench_attends(int argc, char **argv, const fx_cpu *cpu, const limits *lim)
{
    static const fx_dtype types[] = { FX_F32, FX_F16, FX_BF16, FX_I8 };
    shape shapes[] = { { 9, 3, 64, 8192 }, { 16, 8, 128, 8192 } };
    size_t n = FX_COUNT(shapes);

    if (argc > 6) {
        shapes[0] = (shape){ atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]) / FX_KV_BLOCK * FX_KV_BLOCK };
        n = 1;
    }
    for (size_t i = 0; i < fx_kernel_count(); i++) {
        const fx_kernel *k = fx_kernel_at(i);

        if (k->op != FX_K_ATTEND || k->level == FX_CPU_SCALAR || k->level > cpu->level ||
            (argc > 1 && strcmp(argv[1], fx_cpu_level_name(k->level)) != 0) || (argc > 2 && !strstr(k->name, argv[2])))
            continue;
        for (size_t s = 0; s < n; s++)
            for (size_t t = 0; t < FX_COUNT(types); t++) {
                bench_attend(k, types[t], &shapes[s], 1, lim);
                bench_attend(k, types[t], &shapes[s], FX_MIN(512, shapes[s].context), lim);
            }
    }
}

int main(int argc, char **argv)
{
    fx_cpu cpu = fx_cpu_detect();
    limits lim = { 0 };
    void *p = need(STREAM_BYTES);

    memset(p, 1, STREAM_BYTES);
    lim.gbs = read_gbs(p, STREAM_BYTES);
    fx_pages_free(p, STREAM_BYTES);
    for (int l = FX_CPU_AVX2; l <= (int)cpu.level && l != FX_CPU_NEON; l++)
        lim.f32[l] = f32_peak((fx_cpu_level)l);
    printf("read %.1f GB/s, f32 %.1f Gop/s, int8 %.1f Gop/s\n", lim.gbs, lim.f32[cpu.level], 4 * lim.f32[cpu.level]);
    for (size_t i = 0; i < fx_matmul_count(); i++) {
        const fx_matmul_kernel *m = fx_matmul_at(i);

        if (!fx_matmul_usable(m, &cpu) || (argc > 1 && strcmp(argv[1], fx_cpu_level_name(m->level)) != 0) ||
            (argc > 2 && !strstr(m->name, argv[2])))
            continue;
        if (argc > 5) {
            bench(m, atoll(argv[3]), atoll(argv[4]), atoll(argv[5]), &lim);
        } else {
            bench(m, 1, 3072, 1024, &lim);
            bench(m, 256, 3072, 1024, &lim);
        }
    }
    bench_attends(argc, argv, &cpu, &lim);
    return 0;
}
