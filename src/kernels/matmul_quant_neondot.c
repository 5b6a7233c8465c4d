/* matmul_quant_neondot.c - quantized weights times int8 activations with sdot, at level NEON: the body of
 * matmul_quant_by8.def, and the bits of matmul_quant_neon.c. */
#define FX_SIMD_NEON
#define BIASED 0
#include "kernels/matmul_quant_groups.def"

typedef char partial;                /* none */

SIMD void multiply(const fx_pack p, int g, vi w, vi x, partial *s, vi *sum)
{
    (void)p, (void)g, (void)s;
    *sum = vi_dot(*sum, w, x);
}

static bool usable(const fx_cpu *cpu) { return cpu->dotprod; }

#define LEVEL FX_CPU_NEON
#define USABLE usable
#define NAMED(op) op "_neondot"
#define SET fx_matmul_quant_neondot
#include "kernels/matmul_quant_by8.def"
