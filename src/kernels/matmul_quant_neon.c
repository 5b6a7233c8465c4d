/* matmul_quant_neon.c - quantized weights times int8 activations with the base of NEON: the body of matmul_quant_by8.def.
 *
 * Products are summed in 16 bits as long as they can't overflow (a product is at most 127 * code):
 *
 *     4 bits  8 groups   8 * 1905 = 15240         6 bits  4 groups  4 * 8001 = 32004
 *     5 bits  8 groups   8 * 3937 = 31496         8 bits  2 groups  2 * 128 * 127 = 32512;
 *     2, 3 bits  4 groups (half a block)                  so with looked-up codes */
#define FX_SIMD_NEON
#define BIASED 0
#include "kernels/matmul_quant_groups.def"

typedef struct partial {             /* 16-bit sums, of two rows each */
    int16x8_t a, b, c, d;
} partial;

SIMD int32x4_t fold(int16x8_t low, int16x8_t high) { return vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)); }

SIMD void multiply(const fx_pack p, int g, vi w, vi x, partial *s, vi *sum)
{
    const int fit = fx_pack_wide(p) ? 2 : p.bits == 4 || p.bits == 5 ? 8 : 4;
    int8x16_t lo = I8(w.lo), hi = I8(w.hi), y = I8(x.lo);

    if (g % fit == 0)
        *s = (partial){ vmull_s8(vget_low_s8(lo), vget_low_s8(y)), vmull_high_s8(lo, y),
                        vmull_s8(vget_low_s8(hi), vget_low_s8(y)), vmull_high_s8(hi, y) };
    else
        *s = (partial){ vmlal_s8(s->a, vget_low_s8(lo), vget_low_s8(y)), vmlal_high_s8(s->b, lo, y),
                        vmlal_s8(s->c, vget_low_s8(hi), vget_low_s8(y)), vmlal_high_s8(s->d, hi, y) };
    if (g % fit == fit - 1)
        *sum = vi_add(*sum, PAIR_I(vreinterpretq_u32_s32(fold(s->a, s->b)), vreinterpretq_u32_s32(fold(s->c, s->d))));
}

#define LEVEL FX_CPU_NEON
#define USABLE NULL
#define NAMED(op) op "_neon"
#define SET fx_matmul_quant_neon
#include "kernels/matmul_quant_by8.def"
