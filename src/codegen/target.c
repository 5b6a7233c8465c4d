/* target.c - the CPUs and GPUs that code can be made for, by name.
 *
 * The host is one of a few levels, as for the hand-written kernels: code made on one machine of a level is the code of all.
 * An x86 CPU needs what x86-64-v3 has, as kir's fma and roundings are instructions there. */
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "codegen/codegen.h"

#define X86 FX_ARCH_X86_64, "x86_64-unknown-linux-gnu"
#define ARM FX_ARCH_AARCH64, "aarch64-unknown-linux-gnu"
#define PTX FX_ARCH_NVPTX, "nvptx64-nvidia-cuda"
#define AMD FX_ARCH_AMDGPU, "amdgcn-amd-amdhsa"

static const struct {
    const char *name;
    fx_target_arch arch;
    const char *triple;
    fx_cpu_level level;          /* what a machine needs to run it */
    const char *features;
} rows[] = {
    { "x86-64-v3", X86, FX_CPU_AVX2, "" },
    { "x86-64-v4", X86, FX_CPU_AVX512, "" },
    { "haswell", X86, FX_CPU_AVX2, "" },
    { "skylake", X86, FX_CPU_AVX2, "" },
    { "skylake-avx512", X86, FX_CPU_AVX512, "" },
    { "icelake-server", X86, FX_CPU_AVX512, "" },
    { "sapphirerapids", X86, FX_CPU_AVX512, "" },
    { "znver2", X86, FX_CPU_AVX2, "" },
    { "znver3", X86, FX_CPU_AVX2, "" },
    { "znver4", X86, FX_CPU_AVX512, "" },
    { "generic", ARM, FX_CPU_NEON, "" },
    { "cortex-a72", ARM, FX_CPU_NEON, "" },
    { "cortex-a76", ARM, FX_CPU_NEON, "" },
    { "neoverse-n1", ARM, FX_CPU_NEON, "" },
    { "neoverse-v1", ARM, FX_CPU_NEON, "" },
    { "neoverse-n2", ARM, FX_CPU_NEON, "" },
    { "neoverse-v2", ARM, FX_CPU_NEON, "" },
    { "sm_80", PTX, FX_CPU_LEVELS, "+ptx70" },
    { "sm_90", PTX, FX_CPU_LEVELS, "+ptx78" },
    { "gfx90a", AMD, FX_CPU_LEVELS, "" },
    { "gfx942", AMD, FX_CPU_LEVELS, "" },
};

const char *fx_target_name(int n) { return n >= 0 && (size_t)n < FX_COUNT(rows) ? rows[n].name : NULL; }

int fx_target_lanes(const fx_target *t)
{
    static const int lanes[FX_CPU_LEVELS] = { [FX_CPU_SCALAR] = 1, [FX_CPU_AVX2] = 8, [FX_CPU_AVX512] = 16, [FX_CPU_NEON] = 4 };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (strcmp(rows[i].name, t->cpu) == 0)
            return rows[i].level < FX_CPU_LEVELS ? lanes[rows[i].level] : 1;
    }
    return 1;
}

/* The row that is all of a level and nothing more; NULL: none. */
static const char *level_name(fx_cpu_level level)
{
    static const char *const names[FX_CPU_LEVELS] = { [FX_CPU_AVX512] = "x86-64-v4", [FX_CPU_AVX2] = "x86-64-v3", [FX_CPU_NEON] = "generic" };

    return names[level];
}

fx_status fx_target_of_level(fx_target *out, fx_cpu_level level, fx_error *err)
{
    if (!level_name(level))
        return fx_fail(err, FORNAX_EUNSUP, "no code for level %s: it needs AVX2 and FMA, or to be an aarch64", fx_cpu_level_name(level));
    return fx_target_named(out, fx_str_of(level_name(level)), err);
}

static fx_status no_such_target(fx_str name, fx_error *err)
{
    char names[400];
    size_t at = 0;

    for (size_t i = 0; i < FX_COUNT(rows); i++)
        at += (size_t)snprintf(names + at, sizeof(names) - at, ", %s", rows[i].name);
    return fx_fail(err, FORNAX_EARG, "no code for '%.*s': known are host%s", FX_STR_ARG(name), names);
}

fx_status fx_target_named(fx_target *out, fx_str name, fx_error *err)
{
    *out = (fx_target){ .arch = FX_ARCH_X86_64 };
    if (fx_str_is(name, "host")) {
        if (!level_name(fx_cpu_detect().level))
            return fx_fail(err, FORNAX_EUNSUP, "no code for this machine: it needs AVX2 and FMA, or to be an aarch64");
        name = fx_str_of(level_name(fx_cpu_detect().level));
    }
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (!fx_str_is(name, rows[i].name))
            continue;
        out->arch = rows[i].arch;
        snprintf(out->triple, sizeof(out->triple), "%s", rows[i].triple);
        snprintf(out->cpu, sizeof(out->cpu), "%s", rows[i].name);
        snprintf(out->features, sizeof(out->features), "%s", rows[i].features);
        return FORNAX_OK;
    }
    return no_such_target(name, err);
}

/* A machine's level tells less than the names of CPUs do: code for a CPU runs where that CPU's level is all that
 * it was made for, which is so for the levels themselves. */
bool fx_target_runs_here(const fx_target *t)
{
    fx_cpu_level here = fx_cpu_detect().level;
    bool level = !strcmp(t->cpu, "x86-64-v3") || !strcmp(t->cpu, "x86-64-v4") || !strcmp(t->cpu, "generic");

    for (size_t i = 0; level && i < FX_COUNT(rows); i++) {
        if (!strcmp(t->cpu, rows[i].name) && !strcmp(t->features, rows[i].features))
            return rows[i].level == here || (rows[i].level == FX_CPU_AVX2 && here == FX_CPU_AVX512);
    }
    return false;
}

void fx_target_print(const fx_target *t, fx_buf *out)
{
    fx_buf_printf(out, "%s cpu=%s features=%s abi=%s layout=%s", t->triple, t->cpu, t->features, t->abi, t->layout);
}
