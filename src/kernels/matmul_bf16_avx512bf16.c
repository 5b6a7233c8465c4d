/* matmul_bf16_avx512bf16.c - products with BF16 weights by vdpbf16ps, where it pays (base/cpu.h): level AVX512.
 *
 * The kernel rounds x to bf16 (nearest even).  An element is one chain over the pairs of k:
 *
 *     acc = x[2i+1] * w[2i+1] + (x[2i] * w[2i] + acc)      as the instruction rounds, subnormals as zeros
 *
 * A word of x is a pair, a line of a tile belongs to one; an odd last k has a zero beside it.
 * The loops are those of matmul_plain_walk.def. */
#define FX_SIMD_AVX512
#include "kernels/matmul_set.h"
#include "kernels/pack.h"
#include "kernels/vmath.def"

#define PANEL 12
#define WORD_K 2
#define STEP 512
#define AHEAD 128

typedef uint32_t word;

SIMD v4 four_words(const float *x, int64_t i)
{
    return _mm_castsi128_ps((__m128i)_mm256_cvtneps_pbh(_mm256_loadu_ps(x + 2 * i)));
}

SIMD word word_at(const float *x, int64_t i, int64_t k)
{
    vf pair = vf_load_n(x + 2 * i, FX_MIN(k - 2 * i, 2));

    return (word)_mm256_cvtsi256_si32((__m256i)_mm512_cvtneps_pbh(pair));
}

static const word *one_row(const fx_matmul_args *a, void *scratch)
{
    word *out = scratch;
    int64_t i = 0;

    for (; (i + 4) * WORD_K <= a->k; i += 4)
        v4_store((float *)out + i, four_words(a->x.p, i));
    for (; i * WORD_K < a->k; i++)
        out[i] = word_at(a->x.p, i, a->k);
    return out;
}

static int64_t bytes_before(fx_dtype type, int64_t i) { return (void)type, i * 64; }

#include "kernels/matmul_plain_walk.def"

/* acc (+)= M rows of x times V tiles. */
SIMD void micro(const int V, const int M, const operands *o)
{
    __m512 a[PANEL * 2];
    const uint8_t *p = o->w;
    const word *x = o->x;

    FX_UNROLL
    for (int i = 0; i < M * V; i++)
        a[i] = o->first ? _mm512_setzero_ps() : _mm512_load_ps(acc_at(o, i / V, i % V));
    for (int64_t n = o->n; n > 0; n--, x += M, p += 64) {
        const char *ahead = (const char *)p + fetch_at(o, n * 64, V);
        __m512bh w[4];

        FX_UNROLL
        for (int v = 0; v < V; v++) {
            w[v] = (__m512bh)_mm512_load_si512(p + (size_t)v * o->tile_bytes);
            if (M <= FEW)
                _mm_prefetch(ahead + (size_t)v * o->tile_bytes, _MM_HINT_T0);
            else
                FX_PREFETCH_L2(p + (size_t)(V + v) * o->tile_bytes);
        }
        FX_UNROLL
        for (int i = 0; i < M * V; i++)
            a[i] = _mm512_dpbf16_ps(a[i], w[i % V], (__m512bh)_mm512_set1_epi32((int)x[i / V]));
    }
    FX_UNROLL
    for (int i = 0; i < M * V; i++)
        _mm512_store_ps(acc_at(o, i / V, i % V), a[i]);
}

/* ---- Instances ---- */

#define MICRO(V, M) static void micro_##V##_##M(const operands *o) { micro(V, M, o); }
#define BOTH(M) MICRO(1, M) MICRO(2, M)
BOTH(1) BOTH(2) BOTH(3) BOTH(4) BOTH(5) BOTH(6) BOTH(7) BOTH(8) BOTH(9) BOTH(10) BOTH(11) BOTH(12)
MICRO(4, 1)
#define LIST(V)                                                                                        \
    { NULL,         micro_##V##_1, micro_##V##_2, micro_##V##_3,  micro_##V##_4,  micro_##V##_5, micro_##V##_6, \
      micro_##V##_7, micro_##V##_8, micro_##V##_9, micro_##V##_10, micro_##V##_11, micro_##V##_12 }

static void run_bf16(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch)
{
    static const micros m = { FX_BF16, { LIST(1), LIST(2), { NULL, micro_4_1 } } };

    run(a, t0, t1, scratch, &m);
}

static bool usable(const fx_cpu *cpu) { return cpu->bf16_fast; }

static const fx_matmul_kernel rows[] = {
    { FX_BF16, FX_ACT_BF16, FX_CPU_AVX512, usable, "matmul_bf16_avx512bf16", fx_pack_tile_bytes_bf16,
      fx_pack_tile_bf16, run_bf16, scratch_bytes },
};
const fx_matmul_set fx_matmul_bf16_avx512bf16 = { rows, FX_COUNT(rows) };
