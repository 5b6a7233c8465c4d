/* limits.c - small loops that do nothing but read, or nothing but multiply.
 *
 * All threads run a loop at once; a run takes as long as its slowest thread, and the best of RUNS runs
 * counts.  Multiplying: twelve accumulators, so that neither latency nor memory matters. */
#include "cli/limits.h"

#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/pool.h"

#define RUNS 6
#define READ_BYTES ((size_t)256 << 20)
#define STEPS 200000                 /* of twelve instructions */

typedef void (*loop_fn)(const uint8_t *p, size_t bytes);

/* ---- Loops ---- */

#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

#if defined(__x86_64__)

#define CLOBBERS                                                                                        \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", \
        "xmm14"
#define MULTIPLY(name, isa, op)                                                                         \
    __attribute__((target(isa))) static void name(const uint8_t *p, size_t bytes)                       \
    {                                                                                                   \
        (void)p, (void)bytes;                                                                           \
        for (long i = 0; i < STEPS; i++)                                                                \
            __asm__ volatile(TWELVE(op)::: CLOBBERS);                                                   \
        __asm__ volatile("vzeroupper");                                                                 \
    }
#define F32_YMM(n) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #n "\n"
#define F32_ZMM(n) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #n "\n"
#define INT8_AVX2(n)                                                                                    \
    "vpmaddubsw %%ymm12, %%ymm13, %%ymm14\nvpmaddwd %%ymm13, %%ymm14, %%ymm14\nvpaddd %%ymm14, %%ymm" #n ", %%ymm" #n "\n"
#define INT8_VEX(n) "%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm" #n "\n"
#define INT8_ZMM(n) "vpdpbusd %%zmm12, %%zmm13, %%zmm" #n "\n"
#define BF16_ZMM(n) "vdpbf16ps %%zmm12, %%zmm13, %%zmm" #n "\n"
MULTIPLY(f32_ymm, "avx2,fma", F32_YMM)
MULTIPLY(f32_zmm, "avx512f", F32_ZMM)
MULTIPLY(int8_avx2, "avx2", INT8_AVX2)
MULTIPLY(int8_vex, "avx2", INT8_VEX)
MULTIPLY(int8_zmm, "avx512f", INT8_ZMM)
MULTIPLY(bf16_zmm, "avx512f", BF16_ZMM)

__attribute__((target("avx2"))) static void read_avx2(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 128)
        __asm__ volatile("vpxor (%0), %%ymm0, %%ymm0\nvpxor 32(%0), %%ymm1, %%ymm1\n"
                         "vpxor 64(%0), %%ymm2, %%ymm2\nvpxor 96(%0), %%ymm3, %%ymm3\n"
                         ::"r"(p + i) : "xmm0", "xmm1", "xmm2", "xmm3");
    __asm__ volatile("vzeroupper");
}

#elif defined(__aarch64__)

#define MULTIPLY(name, isa, op)                                                                         \
    static void name(const uint8_t *p, size_t bytes)                                                    \
    {                                                                                                   \
        (void)p, (void)bytes;                                                                           \
        for (long i = 0; i < STEPS; i++)                                                                \
            __asm__ volatile(isa TWELVE(op)::: "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", \
                             "v14");                                                                    \
    }
#define F32_NEON(n) "fmla v" #n ".4s, v12.4s, v13.4s\n"
#define INT8_NEON(n) "smull v14.8h, v12.8b, v13.8b\nsmlal2 v14.8h, v12.16b, v13.16b\nsadalp v" #n ".4s, v14.8h\n"
#define INT8_DOT(n) "sdot v" #n ".4s, v12.16b, v13.16b\n"
#define INT8_MM(n) "smmla v" #n ".4s, v12.16b, v13.16b\n"
MULTIPLY(f32_neon, "", F32_NEON)
MULTIPLY(int8_neon, "", INT8_NEON)
MULTIPLY(int8_dot, ".arch armv8.2-a+dotprod\n", INT8_DOT)
MULTIPLY(int8_mm, ".arch armv8.2-a+i8mm\n", INT8_MM)

#endif

static void read_plain(const uint8_t *p, size_t bytes)
{
    uint64_t sum[4] = { 0 }, v[4];

    for (size_t i = 0; i < bytes; i += sizeof(v)) {
        memcpy(v, p + i, sizeof(v));
        for (int j = 0; j < 4; j++)
            sum[j] ^= v[j];
    }
    __asm__ volatile("" ::"r"(sum[0] ^ sum[1] ^ sum[2] ^ sum[3]));
}

typedef struct loops {
    loop_fn read, int8, bf16, f32;
    int int8_ops, bf16_ops, f32_ops;     /* of an instruction */
} loops;

static loops loops_of(const fx_cpu *cpu)
{
    loops l = { .read = read_plain };

#if defined(__x86_64__)
    if (cpu->level == FX_CPU_AVX512)
        l = (loops){ read_avx2, int8_zmm, cpu->avx512_bf16 ? bf16_zmm : NULL, f32_zmm, 128, 64, 32 };
    else if (cpu->level == FX_CPU_AVX2 && cpu->avx_vnni)
        l = (loops){ read_avx2, int8_vex, NULL, f32_ymm, 64, 0, 16 };
    else if (cpu->level == FX_CPU_AVX2)
        l = (loops){ read_avx2, int8_avx2, NULL, f32_ymm, 64, 0, 16 };
#elif defined(__aarch64__)
    if (cpu->level == FX_CPU_NEON)
        l = (loops){ read_plain, cpu->i8mm ? int8_mm : cpu->dotprod ? int8_dot : int8_neon, NULL, f32_neon,
                     cpu->i8mm ? 64 : 32, 0, 8 };
#else
    (void)cpu;
#endif
    return l;
}

/* ---- All threads ---- */

typedef struct crew {
    loop_fn fn;
    const uint8_t *p;
    size_t each;                     /* bytes of p a thread */
} crew;

static void work(void *user, int64_t t0, int64_t t1, int worker)
{
    const crew *c = user;

    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        c->fn(c->p + (size_t)t * c->each, c->each);
}

/* Seconds of the fastest of some runs of the loop, a task for each thread. */
static double time_loop(fx_pool *pool, crew *c, loop_fn fn)
{
    double best = 1e9;

    c->fn = fn;
    for (int run = 0; run < RUNS; run++) {
        uint64_t start = fx_clock_ns();

        fx_pool_run(pool, work, c, fx_pool_threads(pool), 1);
        best = FX_MIN(best, (double)(fx_clock_ns() - start) / 1e9);
    }
    return best;
}

static void time_all(fx_pool *pool, crew *c, const loops *l, fx_limits *out)
{
    const struct { loop_fn fn; double amount, *rate; } all[] = {
        { l->read, (double)c->each, &out->read },
        { l->int8, 12.0 * STEPS * l->int8_ops, &out->int8 },
        { l->bf16, 12.0 * STEPS * l->bf16_ops, &out->bf16 },
        { l->f32, 12.0 * STEPS * l->f32_ops, &out->f32 },
    };

    for (size_t i = 0; i < FX_COUNT(all); i++) {
        if (all[i].fn)
            *all[i].rate = all[i].amount * fx_pool_threads(pool) / time_loop(pool, c, all[i].fn);
    }
}

fx_status fx_limits_measure(fx_limits *out, int threads, const char *level, fx_error *err)
{
    fx_pool *pool = NULL;
    uint8_t *p = fx_pages_alloc(READ_BYTES);
    crew c = { .p = p, .each = READ_BYTES / (size_t)threads / 4096 * 4096 };
    fx_status st = p ? fx_pool_new(&pool, &fx_mem_libc, threads, err) : fx_nomem(err, "measuring the machine");
    fx_cpu cpu;

    *out = (fx_limits){ 0 };
    if (st == FORNAX_OK)
        st = fx_cpu_choose(&cpu, level, err);
    if (st == FORNAX_OK) {
        loops l = loops_of(&cpu);

        memset(p, 1, READ_BYTES);    /* or all pages would be the one of zeros */
        time_all(pool, &c, &l, out);
    }
    fx_pool_free(pool);
    fx_pages_free(p, READ_BYTES);
    return st;
}
