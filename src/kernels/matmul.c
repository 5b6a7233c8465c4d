/* matmul.c - the table of matmul kernels, and the choice by weight type and level. */
#include "kernels/matmul_set.h"

static const fx_matmul_set *const sets[] = {
    &fx_matmul_ref,
#if defined(__x86_64__)
    &fx_matmul_plain_avx2,
    &fx_matmul_plain_avx512,
    &fx_matmul_quant_avxvnni,        /* before AVX2: the first usable row of the best level wins */
    &fx_matmul_quant_avx2,
    &fx_matmul_quant_avx512,
    &fx_matmul_bf16_avx512bf16,
#elif defined(__aarch64__)
    &fx_matmul_plain_neon,
    &fx_matmul_quant_neoni8mm,       /* the best of one level first here as well */
    &fx_matmul_quant_neondot,
    &fx_matmul_quant_neon,
#endif
};

size_t fx_matmul_count(void)
{
    size_t n = 0;

    for (size_t i = 0; i < FX_COUNT(sets); i++)
        n += sets[i]->n;
    return n;
}

const fx_matmul_kernel *fx_matmul_at(size_t i)
{
    for (size_t s = 0; s < FX_COUNT(sets); s++) {
        if (i < sets[s]->n)
            return &sets[s]->rows[i];
        i -= sets[s]->n;
    }
    return NULL;
}

bool fx_matmul_usable(const fx_matmul_kernel *m, const fx_cpu *cpu)
{
    bool level = m->level == FX_CPU_SCALAR || m->level == cpu->level ||
                 (m->level == FX_CPU_AVX2 && cpu->level == FX_CPU_AVX512);

    return level && (!m->usable || m->usable(cpu));
}

/* Whole blocks of weights and, if those are quantized, of activations. */
static bool divides(const fx_matmul_kernel *m, int64_t k)
{
    return k > 0 && k % fx_dtype_rows[m->weight].block_elems == 0 && (m->act != FX_ACT_Q8 || k % 32 == 0);
}

fx_act fx_matmul_act(fx_dtype weight, bool q8, const fx_cpu *cpu)
{
    if (q8)
        return FX_ACT_Q8;
    return weight == FX_BF16 && cpu->bf16_fast ? FX_ACT_BF16 : FX_ACT_F32;
}

const fx_matmul_kernel *fx_matmul_find(fx_dtype weight, fx_act act, int64_t k, const fx_cpu *cpu)
{
    const fx_matmul_kernel *best = NULL, *m;

    for (size_t i = 0; (m = fx_matmul_at(i)) != NULL; i++)
        if (m->weight == weight && m->act == act && divides(m, k) && fx_matmul_usable(m, cpu) &&
            (!best || m->level > best->level))
            best = m;
    return best;
}
