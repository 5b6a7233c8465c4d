/* kernels.c - the table of all row kernels, and the choice by level. */
#include "kernels/kernels.h"

#include "kernels/kernel_set.h"

static const fx_kernel_set *const sets[] = {
    &fx_kernels_ref_embed,
    &fx_kernels_ref_norm,
    &fx_kernels_ref_rope,
    &fx_kernels_ref_attend,
    &fx_kernels_ref_map,
    &fx_kernels_experts,
    &fx_kernels_by_head,
    &fx_kernels_ref_scan,
#if defined(__x86_64__)
    &fx_kernels_rowops_avx2,
    &fx_kernels_attend_avx2,
    &fx_kernels_rowops_avx512,
    &fx_kernels_attend_avx512,
    &fx_kernels_scan_avx2,
    &fx_kernels_scan_avx512,
#elif defined(__aarch64__)
    &fx_kernels_rowops_neon,
    &fx_kernels_attend_neon,
    &fx_kernels_scan_neon,
#endif
    &fx_kernels_quant,
#if defined(__x86_64__)
    &fx_kernels_quant_avx2,
    &fx_kernels_quant_avx512,
#elif defined(__aarch64__)
    &fx_kernels_quant_neon,
#endif
};

size_t fx_kernel_count(void)
{
    size_t n = 0;

    for (size_t i = 0; i < FX_COUNT(sets); i++)
        n += sets[i]->n;
    return n;
}

const fx_kernel *fx_kernel_at(size_t i)
{
    for (size_t s = 0; s < FX_COUNT(sets); s++) {
        if (i < sets[s]->n)
            return &sets[s]->rows[i];
        i -= sets[s]->n;
    }
    return NULL;
}

/* May code of 'level' run where 'cpu' was chosen? */
static bool allowed(fx_cpu_level level, fx_cpu_level cpu)
{
    return level == FX_CPU_SCALAR || level == cpu || (level == FX_CPU_AVX2 && cpu == FX_CPU_AVX512);
}

const fx_kernel *fx_kernel_find(fx_kernel_op op, const fx_cpu *cpu)
{
    const fx_kernel *best = NULL, *k;

    for (size_t i = 0; (k = fx_kernel_at(i)) != NULL; i++)
        if (k->op == op && allowed(k->level, cpu->level) && (!best || k->level > best->level))
            best = k;
    FX_ASSERT(best);
    return best;
}
