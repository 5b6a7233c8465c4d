/* quant_avx512.c - activations to int8 blocks at level AVX512; the numbers are those of quant.h. */
#include <immintrin.h>

#include "kernels/quant.h"

/* The bits of the largest of the absolute values. */
static uint32_t largest(__m512 x0, __m512 x1)
{
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i m = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x0), magnitude), _mm512_and_si512(_mm512_castps_si512(x1), magnitude));
    __m256i half = _mm256_max_epu32(_mm512_castsi512_si256(m), _mm512_extracti64x4_epi64(m, 1));
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));

    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(four, _mm_shuffle_epi32(four, 0xb1)));
}

static void quantize(fx_q8_block *b, const float *x)
{
    __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16), inv;
    uint32_t max = largest(x0, x1);
    __m256i q, sums;

    if (FX_UNLIKELY(fx_q8_special(b, max)))
        return;
    b->d = fx_f32_of_bits(max) / 127.0f;
    inv = _mm512_set1_ps(1.0f / b->d);
    q = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x0, inv)))),
                                _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(x1, inv))), 1);
    _mm256_storeu_si256((void *)b->q, q);
    sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);      /* four of each half */
    sums = _mm256_hadd_epi32(sums, sums);
    sums = _mm256_hadd_epi32(sums, sums);
    b->sum16 = _mm256_extract_epi32(sums, 0);
    b->sum = b->sum16 + _mm256_extract_epi32(sums, 4);
}

/* Pairs, then fours of rows: v[g] = word g of eight rows. */
static void transpose(__m256i *v)
{
    __m256i a[8], b[8];

    FX_UNROLL
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_epi32(v[i], v[i + 1]);        /* words 0, 1 and 4, 5 of two rows */
        a[i + 1] = _mm256_unpackhi_epi32(v[i], v[i + 1]);    /* 2, 3 and 6, 7 */
    }
    FX_UNROLL
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);        /* 0 and 4 of four rows */
        b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
        b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
        b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    FX_UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

#define PUT_ROWS 8
static void put_blocks(uint32_t *p, int width, const fx_q8_block *b, int n)
{
    __mmask8 rows = (__mmask8)((1 << n) - 1);
    __m256i v[8];

    if (n == 1) {
        fx_q8_put_block(p, width, b);
        return;
    }
    for (int i = 0; i < 8; i++)
        v[i] = _mm256_loadu_si256((const void *)b[FX_MIN(i, n - 1)].q);
    transpose(v);
    for (int i = 0; i < 8; i++)
        _mm256_mask_storeu_epi32(p + i * width, rows, v[i]);
    for (int i = 0; i < n; i++) {
        memcpy(&p[8 * width + i], &b[i].d, 4);
        p[9 * width + i] = (uint32_t)-b[i].sum;
        p[10 * width + i] = (uint32_t)-b[i].sum16;
    }
}

#define PUT fx_q8_put_avx512
#define LEVEL FX_CPU_AVX512
#define NAMED(op) op "_avx512"
#define SET fx_kernels_quant_avx512
#include "kernels/quant_rows.def"
