/* quant_neon.c - activations to int8 blocks at level NEON; the numbers are those of quant.h. */
#include <arm_neon.h>

#include "kernels/quant.h"

/* 16 integers in [-127, 127] as bytes, in order */
static int8x16_t narrow(const int32x4_t *q)
{
    int16x8_t low = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1])), high = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));

    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

static void quantize(fx_q8_block *b, const float *x)
{
    uint32x4_t most = vdupq_n_u32(0);
    int32x4_t q[8];
    uint32_t max;
    float inv;

    for (int i = 0; i < 8; i++)
        most = vmaxq_u32(most, vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + 4 * i))));
    max = vmaxvq_u32(most);
    if (FX_UNLIKELY(fx_q8_special(b, max)))
        return;
    b->d = fx_f32_of_bits(max) / 127.0f;
    inv = 1.0f / b->d;
    for (int i = 0; i < 8; i++)
        q[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inv));
    for (int i = 0; i < 2; i++)
        vst1q_s8(b->q + 16 * i, narrow(q + 4 * i));
    b->sum16 = vaddlvq_s8(vld1q_s8(b->q));
    b->sum = b->sum16 + vaddlvq_s8(vld1q_s8(b->q + 16));
}

#define PUT fx_q8_put_neon
#define LEVEL FX_CPU_NEON
#define NAMED(op) op "_neon"
#define SET fx_kernels_quant_neon
#include "kernels/quant_rows.def"
