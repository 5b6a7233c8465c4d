/* matmul_plain_avx2.c - products with F32, F16 and BF16 weights at level AVX2: 16 x 6 accumulators. */
#define FX_SIMD_AVX2
#include "kernels/vmath.def"

#define LEVEL FX_CPU_AVX2
#define NAMED(op) op "_avx2"
#define SET fx_matmul_plain_avx2

SIMD vf load_bf16_even(const uint8_t *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_loadu_si256((const void *)p), 16));
}
SIMD vf load_bf16_odd(const uint8_t *p)
{
    return _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_loadu_si256((const void *)p), _mm256_set1_epi32((int)0xffff0000)));
}

#include "kernels/matmul_plain_simd.def"
