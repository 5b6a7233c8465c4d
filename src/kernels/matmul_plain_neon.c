/* matmul_plain_neon.c - products with F32, F16 and BF16 weights at level NEON: 16 x 6 accumulators. */
#define FX_SIMD_NEON
#include "kernels/vmath.def"

#define LEVEL FX_CPU_NEON
#define NAMED(op) op "_neon"
#define SET fx_matmul_plain_neon

SIMD float32x4_t even_lanes(const uint8_t *p)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_u8(vld1q_u8(p)), 16));
}
SIMD float32x4_t odd_lanes(const uint8_t *p)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u8(vld1q_u8(p)), vdupq_n_u32(0xffff0000u)));
}
SIMD vf load_bf16_even(const uint8_t *p) { return PAIR(even_lanes(p), even_lanes(p + 16)); }
SIMD vf load_bf16_odd(const uint8_t *p) { return PAIR(odd_lanes(p), odd_lanes(p + 16)); }

#include "kernels/matmul_plain_simd.def"
