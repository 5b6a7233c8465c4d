/* matmul_quant_avx512.c - quantized weights times int8 activations with VNNI (level AVX512).
 *
 * One body for all types; the type and the number of rows M are constants of each instance.
 * In a tile a 32-bit lane is a row of weights, so vpdpbusd multiplies four k of 16 rows of
 * weights with four k of one row of x, broadcast from the panel:
 *
 *     block -> line -> (one or two unpacked registers) -> rows of the panel
 *
 * with M integer and M float accumulators in registers.  Per block and row, in this order:
 *
 *     I = sum q * (code - bias)             exact
 *     t = float(I) * s                      s = d, or sc * d
 *     t = t + m * float(sum q)              types with a minimum
 *     acc = acc + t * d of x
 *
 * Types with scales of 16 do it for each half of a block. */
#define FX_SIMD_AVX512
#include "kernels/matmul_walk.def"
#include "tensor/blocks.h"

#define MAX_M FX_Q8_PANEL

/* A block on its way through the registers. */
typedef struct block {
    const uint8_t *quants, *scales, *d;      /* pack.h */
    const uint32_t *x;                       /* the panel's block, from the first of these rows on */
    __m512i table;                           /* four times the 16 values + 128 of the codes */
} block;

SIMD __m512i bytes(uint32_t x) { return _mm512_set1_epi32((int32_t)(x * 0x01010101u)); }
SIMD __m512i line(const block *b, int i) { return _mm512_load_si512(b->quants + 64 * i); }
SIMD __m512i or_and(__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi32(a, b, c, 0xf8); }
/* v << n for n of either sign */
SIMD __m512i shift(__m512i v, int n)
{
    return n > 0 ? _mm512_slli_epi32(v, (unsigned)n) : n < 0 ? _mm512_srli_epi32(v, (unsigned)-n) : v;
}

/* What is multiplied in group g, as unsigned bytes. */
SIMD __m512i group(const fx_pack p, const block *b, int g)
{
    __m512i v;

    if (p.bits == 8)
        return line(b, g);
    if (p.bits <= 3) {
        v = _mm512_and_si512(shift(line(b, g & 1), -2 * (g / 2)), bytes(0x03));
        return p.bits == 3 ? or_and(v, shift(line(b, 2), 2 - g), bytes(0x04)) : v;
    }
    v = _mm512_and_si512(shift(line(b, g & 3), g < 4 ? 0 : -4), bytes(0x0f));
    if (p.bits == 5)
        v = or_and(v, shift(line(b, 4), 4 - g), bytes(0x10));
    if (p.bits == 6)
        v = or_and(v, shift(line(b, 4 + g / 4), 4 - 2 * (g & 3)), bytes(0x30));
    return p.table == FX_PACK_CODES ? v : _mm512_shuffle_epi8(b->table, v);
}

/* Word i of row r; W is the width of the panel. */
SIMD const uint32_t *at(const block *b, int W, int i, int r) { return &b->x[i * W + r]; }
SIMD __m512i word(const block *b, int W, int i, int r) { return _mm512_set1_epi32((int32_t)*at(b, W, i, r)); }

/* sum += the products of unsigned bytes and the word at x, the same for all rows of weights. By name and from memory: of the
 * intrinsic GCC makes two instructions, the broadcast being one of its own. */
SIMD void add_products(__m512i *sum, __m512i w, const uint32_t *x)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(*sum) : "v"(w), "m"(*x));
}

/* acc += t * the float at x; the same. */
SIMD void add_product(__m512 *acc, __m512 t, const uint32_t *x)
{
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(*acc) : "v"(t), "m"(*x));
}

/* sum[r] += the groups [g0, g0 + n) */
SIMD void dot(const fx_pack p, const int W, const int M, const block *b, int g0, int n, __m512i *sum)
{
    FX_UNROLL
    for (int g = g0; g < g0 + n; g++) {
        __m512i w = group(p, b, g);

        FX_UNROLL
        for (int r = 0; r < M; r++)
            add_products(&sum[r], w, at(b, W, g, r));
    }
}

SIMD __m512 f16_at(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_load_si256((const void *)p)); }
SIMD __m512 u8_at(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const void *)p)));
}
SIMD __m512 s8_at(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128((const void *)p)));
}

/* A block's own d. */
SIMD __m512 own_scale(const fx_pack p, const block *b)
{
    if (p.scale == FX_PACK_F32)
        return _mm512_load_ps(b->scales);
    return p.scale == FX_PACK_BF16 ? vf_load_bf16((const void *)b->scales) : f16_at(b->scales);
}

/* The super block's d times the signed scale of a block or half of one. */
SIMD __m512 signed_scale(const fx_pack p, const block *b, const uint8_t *scales)
{
    __m512 s = _mm512_mul_ps(s8_at(scales), f16_at(b->d));

    if (p.table == FX_PACK_IN_TILE)
        s = _mm512_mul_ps(s, _mm512_set1_ps(*(const float *)(b->d + FX_PACK_FACTOR_AT)));
    return s;
}

/* acc[r] += sum[r] * s * d of x */
SIMD void add_scaled(const int W, const int M, const block *b, const __m512i *sum, __m512 s, __m512 *acc)
{
    FX_UNROLL
    for (int r = 0; r < M; r++)
        add_product(&acc[r], _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r]), s), at(b, W, 8, r));
}

/* acc[r] += (sum[r] * s + neg_m[r'th negated sum of q]) * d of x */
SIMD void add_scaled_min(const int W, const int M, const block *b, const __m512i *sum, const __m512i *neg, __m512 s,
                         __m512 m, __m512 *acc)
{
    FX_UNROLL
    for (int r = 0; r < M; r++) {
        __m512 t = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[r]), s);

        t = _mm512_fmadd_ps(m, _mm512_cvtepi32_ps(neg[r]), t);
        add_product(&acc[r], t, at(b, W, 8, r));
    }
}

/* d * (q - bias): the bias goes into the starting value. */
SIMD void block_d(const fx_pack p, const int W, const int M, const block *b, __m512 *acc)
{
    __m512i sum[MAX_M];

    FX_UNROLL
    for (int r = 0; r < M; r++)
        sum[r] = shift(word(b, W, 9, r), p.bias_shift);
    dot(p, W, M, b, 0, 8, sum);
    add_scaled(W, M, b, sum, p.form == FX_PACK_D ? own_scale(p, b) : signed_scale(p, b, b->scales), acc);
}

/* s * q + m, where the panel holds the negated sum of q */
SIMD void block_dm(const fx_pack p, const int W, const int M, const block *b, __m512 *acc)
{
    __m512i sum[MAX_M], neg[MAX_M];
    __m512 s, neg_m;

    FX_UNROLL
    for (int r = 0; r < M; r++)
        sum[r] = _mm512_setzero_si512();
    dot(p, W, M, b, 0, 8, sum);
    if (p.form == FX_PACK_DM) {
        s = f16_at(b->scales);
        neg_m = _mm512_xor_ps(f16_at(b->scales + 32), _mm512_set1_ps(-0.0f));
    } else if (p.form == FX_PACK_DZ) {
        s = own_scale(p, b);
        neg_m = _mm512_mul_ps(u8_at(b->d), s);
    } else {
        s = _mm512_mul_ps(u8_at(b->scales), f16_at(b->d));
        neg_m = _mm512_mul_ps(u8_at(b->scales + 16), f16_at(b->d + 32));
    }
    FX_UNROLL
    for (int r = 0; r < M; r++)
        neg[r] = word(b, W, 9, r);
    add_scaled_min(W, M, b, sum, neg, s, neg_m, acc);
}

/* The negated sum of q over a half. */
SIMD __m512i half_neg(const block *b, int W, int half, int r)
{
    __m512i neg = word(b, W, 10, r);

    return half ? _mm512_sub_epi32(word(b, W, 9, r), neg) : neg;
}

/* d * sc * (q - bias), a scale each for k < 16 and for the rest */
SIMD void block_k16(const fx_pack p, const int W, const int M, const block *b, __m512 *acc)
{
    FX_UNROLL
    for (int half = 0; half < 2; half++) {
        __m512i sum[MAX_M];

        FX_UNROLL
        for (int r = 0; r < M; r++)
            sum[r] = shift(half_neg(b, W, half, r), p.bias_shift);
        dot(p, W, M, b, 4 * half, 4, sum);
        add_scaled(W, M, b, sum, signed_scale(p, b, b->scales + 16 * half), acc);
    }
}

/* d * sc * q - dmin * mn, the same */
SIMD void block_k16m(const fx_pack p, const int W, const int M, const block *b, __m512 *acc)
{
    FX_UNROLL
    for (int half = 0; half < 2; half++) {
        __m512i sum[MAX_M], neg[MAX_M];
        __m512i scm = _mm512_cvtepu8_epi32(_mm_load_si128((const void *)(b->scales + 16 * half)));
        __m512 sc = _mm512_cvtepi32_ps(_mm512_and_si512(scm, _mm512_set1_epi32(15)));
        __m512 mn = _mm512_cvtepi32_ps(_mm512_srli_epi32(scm, 4));

        FX_UNROLL
        for (int r = 0; r < M; r++) {
            sum[r] = _mm512_setzero_si512();
            neg[r] = half_neg(b, W, half, r);
        }
        dot(p, W, M, b, 4 * half, 4, sum);
        add_scaled_min(W, M, b, sum, neg, _mm512_mul_ps(sc, f16_at(b->d)), _mm512_mul_ps(mn, f16_at(b->d + 32)), acc);
    }
}

SIMD void any_block(const fx_pack p, const int W, const int M, const block *b, __m512 *acc)
{
    switch (p.form) {
    case FX_PACK_D:
    case FX_PACK_KS: block_d(p, W, M, b, acc); break;
    case FX_PACK_K16: block_k16(p, W, M, b, acc); break;
    case FX_PACK_K16M: block_k16m(p, W, M, b, acc); break;
    default: block_dm(p, W, M, b, acc);
    }
}

/* The table of the codes of the super block at w. */
SIMD __m512i table_of(const fx_pack p, const uint8_t *w)
{
    const void *values = p.table == FX_PACK_IQ4 ? fx_iq4_values : fx_mxfp4_values;

    if (p.table == FX_PACK_CODES)
        return _mm512_setzero_si512();
    if (p.table == FX_PACK_IN_TILE)
        return _mm512_broadcast_i32x4(_mm_load_si128((const void *)(w + FX_PACK_TABLE_AT)));
    return _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128(values)), bytes(0x80));
}

/* M rows of a panel of width W. */
SIMD void some_rows(const fx_dtype type, const int W, const int M, const uint8_t *w, const uint8_t *next, const uint32_t *x,
                    int64_t blocks, float *out, int64_t ld)
{
    const fx_pack p = fx_pack_of(type);
    const bool near = M <= (p.bits == 8 ? 4 : 1);     /* reading is slower than multiplying; else the next tile is fetched */
    __m512 acc[MAX_M];

    FX_UNROLL
    for (int r = 0; r < M; r++)
        acc[r] = _mm512_setzero_ps();
    if (near)
        next = w + AHEAD;
    for (; blocks > 0; blocks -= p.blocks, w += p.bytes, next += p.bytes)
        for (int i = 0; i < p.blocks && i < blocks; i++, x += FX_Q8_WORDS * W) {
            block b = { w + fx_pack_quants_at(p, i), w + fx_pack_scales_at(p, i), w + fx_pack_d_at(p, i), x, table_of(p, w) };

            fetch_block(p, next, i, near);
            any_block(p, W, M, &b, acc);
        }
    FX_UNROLL
    for (int r = 0; r < M; r++)
        _mm512_store_ps(out + r * ld, acc[r]);
}

/* Wide panels of types that need more registers go in two parts. */
SIMD void panel(const fx_dtype type, const int W, const uint8_t *w, const uint8_t *next, const uint32_t *x, int64_t blocks,
                float *out, int64_t ld)
{
    const fx_pack p = fx_pack_of(type);
    const bool many = p.form == FX_PACK_K16 || p.form == FX_PACK_K16M;
    const int M = many && W > 10 ? (W + 1) / 2 : W;

    some_rows(type, W, M, w, next, x, blocks, out, ld);
    if (M < W)
        some_rows(type, W, W - M, w, next, x + M, blocks, out + M * ld, ld);
}

/* ---- Instances ---- */

typedef void (*width_fn)(const uint8_t *w, const uint8_t *next, const uint32_t *x, int64_t blocks, float *out, int64_t ld);

#define PANEL(T, t, M)                                                                                 \
    static void t##_##M(const uint8_t *w, const uint8_t *next, const uint32_t *x, int64_t blocks, float *out, int64_t ld) \
    {                                                                                                  \
        panel(FX_##T, M, w, next, x, blocks, out, ld);                                                 \
    }
#define PANELS(T, t)                                                                                   \
    PANEL(T, t, 1) PANEL(T, t, 2) PANEL(T, t, 3) PANEL(T, t, 4) PANEL(T, t, 5) PANEL(T, t, 6)          \
    PANEL(T, t, 7) PANEL(T, t, 8) PANEL(T, t, 9) PANEL(T, t, 10) PANEL(T, t, 11) PANEL(T, t, 12)       \
    PANEL(T, t, 13) PANEL(T, t, 14)                                                                    \
    static void panel_##t(const uint8_t *w, const uint8_t *next, const uint32_t *x, int width, int64_t blocks, \
                          float *out, int64_t ld)                                                      \
    {                                                                                                  \
        static const width_fn fns[MAX_M + 1] = { NULL,  t##_1, t##_2,  t##_3,  t##_4,                  \
                                                 t##_5, t##_6, t##_7,  t##_8,  t##_9,                  \
                                                 t##_10, t##_11, t##_12, t##_13, t##_14 };             \
                                                                                                       \
        fns[width](w, next, x, blocks, out, ld);                                                             \
    }                                                                                                  \
    static void run_##t(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch)                \
    {                                                                                                  \
        (void)scratch;                                                                                 \
        walk(a, t0, t1, panel_##t);                                                                    \
    }
FX_PACK_QUANT(PANELS)

#define ROW(T, t)                                                                                      \
    { FX_##T, FX_ACT_Q8, FX_CPU_AVX512, NULL, "matmul_" #t "_avx512", fx_pack_tile_bytes_##t,          \
      fx_pack_tile_##t, run_##t, NULL },
#define ROW_SHARED(T, t, as)                                                                           \
    { FX_##T, FX_ACT_Q8, FX_CPU_AVX512, NULL, "matmul_" #t "_avx512", fx_pack_tile_bytes_##t,          \
      fx_pack_tile_##t, run_##as, NULL },
static const fx_matmul_kernel rows[] = { FX_PACK_QUANT(ROW) FX_PACK_SHARED(ROW_SHARED) };
const fx_matmul_set fx_matmul_quant_avx512 = { rows, FX_COUNT(rows) };
