/* matmul_quant_avxvnni.c - quantized weights times int8 activations with AVX-VNNI, at level AVX2:
 * the body of matmul_quant_by8.def, and the bits of AVX2. */
#define FX_SIMD_AVX2
#define BIASED 1                     /* vpdpbusd multiplies unsigned by signed bytes */
#include "kernels/matmul_quant_groups.def"

typedef char partial;                /* none */

SIMD void multiply(const fx_pack p, int g, vi w, vi x, partial *s, vi *sum)
{
    (void)p, (void)g, (void)s;
    *sum = _mm256_dpbusd_avx_epi32(*sum, w, x);
}

static bool usable(const fx_cpu *cpu) { return cpu->avx_vnni; }

#define LEVEL FX_CPU_AVX2
#define USABLE usable
#define NAMED(op) op "_avxvnni"
#define SET fx_matmul_quant_avxvnni
#include "kernels/matmul_quant_by8.def"
