/* quant_avx2.c - activations to int8 blocks at level AVX2; the numbers are those of quant.h. */
#include <immintrin.h>

#include "kernels/quant.h"

static uint32_t top(__m256i v)
{
    __m128i a = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_max_epu32(a, _mm_shuffle_epi32(a, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(a);
}

static int32_t sum(__m256i v)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1));
    return _mm_cvtsi128_si32(a);
}

/* 16 integers in [-127, 127] as bytes, in order */
static __m128i narrow(__m256i a, __m256i b)
{
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);

    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

static void quantize(fx_q8_block *b, const float *x)
{
    __m256i magnitude = _mm256_set1_epi32(0x7fffffff), most = _mm256_setzero_si256(), q[4];
    uint32_t max;
    __m256 inv;

    for (int i = 0; i < 4; i++)
        most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_loadu_si256((const void *)(x + 8 * i)), magnitude));
    max = top(most);
    if (FX_UNLIKELY(fx_q8_special(b, max)))
        return;
    b->d = fx_f32_of_bits(max) / 127.0f;
    inv = _mm256_set1_ps(1.0f / b->d);
    for (int i = 0; i < 4; i++)
        q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8 * i), inv));
    _mm_storeu_si128((void *)b->q, narrow(q[0], q[1]));
    _mm_storeu_si128((void *)(b->q + 16), narrow(q[2], q[3]));
    b->sum16 = sum(_mm256_add_epi32(q[0], q[1]));
    b->sum = b->sum16 + sum(_mm256_add_epi32(q[2], q[3]));
}

#define PUT fx_q8_put_avx2
#define LEVEL FX_CPU_AVX2
#define NAMED(op) op "_avx2"
#define SET fx_kernels_quant_avx2
#include "kernels/quant_rows.def"
