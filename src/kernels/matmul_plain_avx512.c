/* matmul_plain_avx512.c - products with F32, F16 and BF16 weights at level AVX512: 32 x 12 accumulators. */
#define FX_SIMD_AVX512
#include "kernels/vmath.def"

#define LEVEL FX_CPU_AVX512
#define NAMED(op) op "_avx512"
#define SET fx_matmul_plain_avx512
#define PANEL 12

SIMD vf load_bf16_even(const uint8_t *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
SIMD vf load_bf16_odd(const uint8_t *p)
{
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32((int)0xffff0000)));
}

#define BOTH(T, t, M) MICRO(T, t, 1, M) MICRO(T, t, 2, M)
#define MICROS(T, t)                                                                                   \
    BOTH(T, t, 1) BOTH(T, t, 2) BOTH(T, t, 3) BOTH(T, t, 4) BOTH(T, t, 5) BOTH(T, t, 6)                \
    BOTH(T, t, 7) BOTH(T, t, 8) BOTH(T, t, 9) BOTH(T, t, 10) BOTH(T, t, 11) BOTH(T, t, 12)             \
    MICRO(T, t, 4, 1)
#define LIST(tv)                                                                                       \
    { NULL, tv##_1, tv##_2, tv##_3, tv##_4, tv##_5, tv##_6, tv##_7, tv##_8, tv##_9, tv##_10, tv##_11, tv##_12 }
#define SINGLES(t) LIST(t##_1)
#define PAIRS(t) LIST(t##_2)
#include "kernels/matmul_plain_simd.def"
