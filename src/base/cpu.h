/* cpu.h - what the processor can do, and the level in use.
 *
 * Levels, not single features, choose kernels, so that "avx512" means one set
 * of bits everywhere: a level's kernels may use all features of its list. */
#ifndef FX_CPU_H
#define FX_CPU_H

#include "base/status.h"
#include "base/str.h"

typedef enum fx_cpu_level {
    FX_CPU_SCALAR = 0,
    FX_CPU_AVX2,        /* AVX2, FMA, F16C, BMI2 */
    FX_CPU_AVX512,      /* F, BW, DQ, VL, VNNI */
    FX_CPU_NEON,        /* aarch64: what every processor of it has */
    FX_CPU_LEVELS
} fx_cpu_level;

typedef struct fx_cpu {
    fx_cpu_level level;
    bool avx_vnni;          /* VEX-encoded vpdpbusd, usable at level AVX2 (same integers) */
    bool avx512_bf16;       /* vdpbf16ps exists */
    bool bf16_fast;         /* ... and pays on this microarchitecture */
    bool dotprod, i8mm;     /* sdot and smmla, usable at level NEON (same integers) */
} fx_cpu;

fx_cpu fx_cpu_detect(void);                        /* the best this machine has */
/* name "scalar", "avx2", "avx512", "neon": that level, or an error if the machine lacks it. */
fx_status fx_cpu_choose(fx_cpu *out, const char *name, fx_error *err);
const char *fx_cpu_level_name(fx_cpu_level l);
size_t fx_cpu_shared_cache(void);                  /* bytes of the cache that cores share; 0: unknown, or there is none */

/* Of functions fn, fn_avx2 and so on, which do the same, the one for the chosen level. */
#if defined(__x86_64__)
#define FX_OF_LEVEL(cpu, fn) ((cpu)->level == FX_CPU_AVX512 ? fn##_avx512 : (cpu)->level == FX_CPU_AVX2 ? fn##_avx2 : fn)
#elif defined(__aarch64__)
#define FX_OF_LEVEL(cpu, fn) ((cpu)->level == FX_CPU_NEON ? fn##_neon : fn)
#else
#define FX_OF_LEVEL(cpu, fn) ((void)(cpu), fn)
#endif

#endif
