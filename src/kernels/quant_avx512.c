/* quant_avx512.c - activations to int8 blocks at level AVX512; the numbers are those of quant.h. */
#include <immintrin.h>

#include "kernels/quant.h"

static void quantize(fx_q8_block *b, const float *x)
{
    __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16), inv;
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff), q0, q1;
    uint32_t max = _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x0), magnitude),
                                                            _mm512_and_si512(_mm512_castps_si512(x1), magnitude)));

    if (FX_UNLIKELY(fx_q8_special(b, max)))
        return;
    b->d = fx_f32_of_bits(max) / 127.0f;
    inv = _mm512_set1_ps(1.0f / b->d);
    q0 = _mm512_cvtps_epi32(_mm512_mul_ps(x0, inv));
    q1 = _mm512_cvtps_epi32(_mm512_mul_ps(x1, inv));
    _mm_storeu_si128((void *)b->q, _mm512_cvtepi32_epi8(q0));
    _mm_storeu_si128((void *)(b->q + 16), _mm512_cvtepi32_epi8(q1));
    b->sum16 = _mm512_reduce_add_epi32(q0);
    b->sum = b->sum16 + _mm512_reduce_add_epi32(q1);
}

#define PUT fx_q8_put_avx512
#define LEVEL FX_CPU_AVX512
#define NAMED(op) op "_avx512"
#define SET fx_kernels_quant_avx512
#include "kernels/quant_rows.def"
