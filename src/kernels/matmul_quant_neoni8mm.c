/* matmul_quant_neoni8mm.c - quantized weights times int8 activations with smmla, at level NEON: the body of
 * matmul_quant_by8.def, and the bits of matmul_quant_neon.c.
 *
 * smmla multiplies two rows of weights with two rows of x, eight k at once: two groups side by
 * side.  A row of x without a partner goes by sdot. */
#define FX_SIMD_NEON
#define BIASED 0
#define OWN_DOT
#include "kernels/matmul_quant_groups.def"

/* Groups g and g + 1 of rows r and r + 1 of x. */
SIMD int8x16_t two_rows(const block *b, int g, int r)
{
    const uint32_t *x = b->x + g * b->width + r;
    uint32x2x2_t v = vzip_u32(vld1_u32(x), vld1_u32(x + b->width));

    return vreinterpretq_s8_u32(vcombine_u32(v.val[0], v.val[1]));
}

/* s[i] += rows 2i and 2i + 1 of eight rows of weights times two rows of x */
SIMD void multiply_pairs(vi w0, vi w1, int8x16_t x, int32x4_t s[4])
{
    s[0] = vmmlaq_s32(s[0], I8(vzip1q_u32(w0.lo, w1.lo)), x);
    s[1] = vmmlaq_s32(s[1], I8(vzip2q_u32(w0.lo, w1.lo)), x);
    s[2] = vmmlaq_s32(s[2], I8(vzip1q_u32(w0.hi, w1.hi)), x);
    s[3] = vmmlaq_s32(s[3], I8(vzip2q_u32(w0.hi, w1.hi)), x);
}

/* The sums of the first and of the second row of x, from those of pairs. */
SIMD void add_pairs(const int32x4_t s[4], vi *first, vi *second)
{
    *first = vi_add(*first, PAIR_I(vreinterpretq_u32_s32(vuzp1q_s32(s[0], s[1])), vreinterpretq_u32_s32(vuzp1q_s32(s[2], s[3]))));
    *second = vi_add(*second, PAIR_I(vreinterpretq_u32_s32(vuzp2q_s32(s[0], s[1])), vreinterpretq_u32_s32(vuzp2q_s32(s[2], s[3]))));
}

/* sum[h][r] += the groups [g0, g0 + n) */
SIMD void dot(const fx_pack p, const int H, const int M, const block *b, int g0, int n, vi *sum)
{
    int32x4_t s[2 * MAX_M / 2][4];       /* of each half and pair of rows of x */

    FX_UNROLL
    for (int i = 0; i < H * (M / 2) * 4; i++)
        s[i / 4][i % 4] = vdupq_n_s32(0);
    FX_UNROLL
    for (int g = g0; g < g0 + n; g += 2) {
        FX_UNROLL
        for (int h = 0; h < H; h++) {
            vi w0 = group(p, b, g, h), w1 = group(p, b, g + 1, h), *last = &sum[h * M + M - 1];

            FX_UNROLL
            for (int r = 0; r < M / 2; r++)
                multiply_pairs(w0, w1, two_rows(b, g, 2 * r), s[h * (M / 2) + r]);
            if (M % 2 == 1)
                *last = vi_dot(vi_dot(*last, w0, word(b, g, M - 1)), w1, word(b, g + 1, M - 1));
        }
    }
    FX_UNROLL
    for (int h = 0; h < H; h++) {
        FX_UNROLL
        for (int r = 0; r < M / 2; r++)
            add_pairs(s[h * (M / 2) + r], &sum[h * M + 2 * r], &sum[h * M + 2 * r + 1]);
    }
}

static bool usable(const fx_cpu *cpu) { return cpu->dotprod && cpu->i8mm; }

#define LEVEL FX_CPU_NEON
#define USABLE usable
#define NAMED(op) op "_neoni8mm"
#define SET fx_matmul_quant_neoni8mm
#include "kernels/matmul_quant_by8.def"
