/* matmul_quant_avx2.c - quantized weights times int8 activations with AVX2: the body of matmul_quant_by8.def.
 *
 * The four products of a 32-bit lane are summed by vpmaddubsw into 16-bit sums, of which as
 * many are added as can't overflow (a sum of two products is at most 2 * 127 * code):
 *
 *     4 bits  8 groups  8 * 3810  = 30480         6 bits  2 groups  2 * 16002 = 32004
 *     5 bits  4 groups  4 * 7874  = 31496         8 bits  1 group   2 * 128 * 127 = 32512,
 *     2, 3 bits  4 groups (half a block)                  of |w| and x with the sign of w;
 *                                                 so with looked-up codes */
#define FX_SIMD_AVX2
#define BIASED 0
#include "kernels/matmul_quant_groups.def"

/* Stops the compiler from computing ahead with more registers than there are. */
#define KEEP_V(v) __asm__("" : "+x"(v))

typedef vi partial;                  /* 16-bit sums */

/* Two products a 16-bit lane. */
SIMD vi products(const fx_pack p, vi w, vi x)
{
    return fx_pack_wide(p) ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)) : _mm256_maddubs_epi16(w, x);
}

SIMD void multiply(const fx_pack p, int g, vi w, vi x, partial *s, vi *sum)
{
    const int fit = fx_pack_wide(p) ? 1 : p.bits == 4 ? 8 : p.bits == 6 ? 2 : 4;

    *s = g % fit == 0 ? products(p, w, x) : _mm256_add_epi16(*s, products(p, w, x));
    KEEP_V(*s);
    if (g % fit == fit - 1)
        *sum = vi_add(*sum, _mm256_madd_epi16(*s, _mm256_set1_epi16(1)));
}

#define LEVEL FX_CPU_AVX2
#define USABLE NULL
#define NAMED(op) op "_avx2"
#define SET fx_matmul_quant_avx2
#include "kernels/matmul_quant_by8.def"
