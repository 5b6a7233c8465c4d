/* cpu.c - CPUID and XGETBV by hand, as compilers disagree on which names
 * __builtin_cpu_supports knows. A feature counts only if the operating system
 * saves the registers it needs. On aarch64 the system is asked, as its programs
 * can't read the processor's own registers. */
#include "base/cpu.h"

#include <unistd.h>

const char *fx_cpu_level_name(fx_cpu_level l)
{
    static const char *const names[FX_CPU_LEVELS] = { "scalar", "avx2", "avx512", "neon" };

    return (unsigned)l < FX_CPU_LEVELS ? names[l] : "?";
}

size_t fx_cpu_shared_cache(void)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);

    return bytes > 0 ? (size_t)bytes : 0;
#else
    return 0;
#endif
}

#if defined(__x86_64__)
#include <cpuid.h>

#define BIT(word, n) (((word) >> (n)) & 1u)

static uint64_t xcr0(void)
{
    uint32_t lo, hi;

    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo | (uint64_t)hi << 32;
}

/* Where vdpbf16ps exists: on AMD's Zen 4 and later it has twice the rate of float FMA
 * (234 to 117 Gflop/s measured), on an Intel Xeon half of it (83 to 167). */
static bool bf16_pays(void)
{
    uint32_t a, b, c, d;

    __cpuid(0, a, b, c, d);
    return b == signature_AMD_ebx;
}

fx_cpu fx_cpu_detect(void)
{
    fx_cpu cpu = { .level = FX_CPU_SCALAR };
    uint32_t a, b1, c1, d, b7 = 0, c7 = 0, a71 = 0, b, c, d7 = 0;
    uint64_t saved;
    bool ymm, zmm;

    if (!__get_cpuid(1, &a, &b1, &c1, &d) || !BIT(c1, 27))      /* OSXSAVE */
        return cpu;
    saved = xcr0();
    ymm = (saved & 0x06) == 0x06;
    zmm = (saved & 0xE6) == 0xE6;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d7) || !ymm)
        return cpu;
    if (a >= 1)
        __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    /* FMA, F16C, AVX; AVX2, BMI2 */
    if (!(BIT(c1, 12) && BIT(c1, 29) && BIT(c1, 28) && BIT(b7, 5) && BIT(b7, 8)))
        return cpu;
    cpu.level = FX_CPU_AVX2;
    cpu.avx_vnni = BIT(a71, 4);
    /* F, DQ, BW, VL; VNNI */
    if (!(zmm && BIT(b7, 16) && BIT(b7, 17) && BIT(b7, 30) && BIT(b7, 31) && BIT(c7, 11)))
        return cpu;
    cpu.level = FX_CPU_AVX512;
    cpu.avx512_bf16 = BIT(a71, 5);
    cpu.bf16_fast = cpu.avx512_bf16 && bf16_pays();
    return cpu;
}

#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

fx_cpu fx_cpu_detect(void)
{
    fx_cpu cpu = { .level = FX_CPU_NEON };

    cpu.dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
    cpu.i8mm = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
    return cpu;
}

#else

fx_cpu fx_cpu_detect(void)
{
    return (fx_cpu){ .level = FX_CPU_SCALAR };
}

#endif

/* The levels below the machine's own: scalar everywhere, and the smaller x86 ones. */
static bool has_level(const fx_cpu *best, fx_cpu_level want)
{
    if (want == FX_CPU_SCALAR || want == best->level)
        return true;
    return want == FX_CPU_AVX2 && best->level == FX_CPU_AVX512;
}

fx_status fx_cpu_choose(fx_cpu *out, const char *name, fx_error *err)
{
    fx_cpu best = fx_cpu_detect();

    for (int l = 0; l < FX_CPU_LEVELS; l++) {
        if (strcmp(name, fx_cpu_level_name((fx_cpu_level)l)) != 0)
            continue;
        if (!has_level(&best, (fx_cpu_level)l))
            return fx_fail_param(err, FORNAX_EUNSUP, "cpu", "cpu level %s: this machine has %s", name,
                                 fx_cpu_level_name(best.level));
        *out = best;
        out->level = (fx_cpu_level)l;
        out->avx_vnni = best.avx_vnni && l != FX_CPU_SCALAR;
        out->avx512_bf16 = best.avx512_bf16 && l == FX_CPU_AVX512;
        out->bf16_fast = best.bf16_fast && l == FX_CPU_AVX512;
        out->dotprod = best.dotprod && l == FX_CPU_NEON;
        out->i8mm = best.i8mm && l == FX_CPU_NEON;
        return FORNAX_OK;
    }
    return fx_fail_param(err, FORNAX_EARG, "cpu",
                         "cpu level: expected scalar, avx2, avx512 or neon, found \"%s\"", name);
}
