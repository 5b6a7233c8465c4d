/* dtype.c - the table of element types, and what their bytes mean as floats.
 *
 * The block functions are the definition that every kernel is held against: one
 * multiplication and one addition per element, each rounded to f32 by itself.  A
 * product is always a statement of its own, so that no compiler fuses it with the
 * sum that follows. */
#include "tensor/dtype.h"

#include "tensor/blocks.h"
#include "tensor/grids.h"

#define PLAIN(name, type, flags) { name, 1, sizeof(type), sizeof(type), flags }
#define BLOCK(name, elems, type, align) { name, elems, sizeof(type), align, FX_DT_QUANT }
#define SIGNED_INT (FX_DT_INT | FX_DT_SIGNED)
#define REAL (FX_DT_FLOAT | FX_DT_SIGNED)

const fx_dtype_row fx_dtype_rows[FX_DTYPE_COUNT] = {
    [FX_BOOL] = PLAIN("bool", uint8_t, 0),
    [FX_I8] = PLAIN("i8", int8_t, SIGNED_INT),
    [FX_I16] = PLAIN("i16", int16_t, SIGNED_INT),
    [FX_I32] = PLAIN("i32", int32_t, SIGNED_INT),
    [FX_I64] = PLAIN("i64", int64_t, SIGNED_INT),
    [FX_U8] = PLAIN("u8", uint8_t, FX_DT_INT),
    [FX_U16] = PLAIN("u16", uint16_t, FX_DT_INT),
    [FX_U32] = PLAIN("u32", uint32_t, FX_DT_INT),
    [FX_U64] = PLAIN("u64", uint64_t, FX_DT_INT),
    [FX_F16] = PLAIN("f16", uint16_t, REAL),
    [FX_BF16] = PLAIN("bf16", uint16_t, REAL),
    [FX_F32] = PLAIN("f32", float, REAL),
    [FX_F64] = PLAIN("f64", double, REAL),
    [FX_F8E4M3] = PLAIN("f8e4m3", uint8_t, REAL),
    [FX_F8E5M2] = PLAIN("f8e5m2", uint8_t, REAL),
    [FX_Q4_0] = BLOCK("q4_0", FX_QK, fx_block_q4_0, 2),
    [FX_Q4_1] = BLOCK("q4_1", FX_QK, fx_block_q4_1, 2),
    [FX_Q5_0] = BLOCK("q5_0", FX_QK, fx_block_q5_0, 2),
    [FX_Q5_1] = BLOCK("q5_1", FX_QK, fx_block_q5_1, 2),
    [FX_Q8_0] = BLOCK("q8_0", FX_QK, fx_block_q8_0, 2),
    [FX_Q2_K] = BLOCK("q2_k", FX_QK_K, fx_block_q2_k, 2),
    [FX_Q3_K] = BLOCK("q3_k", FX_QK_K, fx_block_q3_k, 2),
    [FX_Q4_K] = BLOCK("q4_k", FX_QK_K, fx_block_q4_k, 2),
    [FX_Q5_K] = BLOCK("q5_k", FX_QK_K, fx_block_q5_k, 2),
    [FX_Q6_K] = BLOCK("q6_k", FX_QK_K, fx_block_q6_k, 2),
    [FX_IQ4_NL] = BLOCK("iq4_nl", FX_QK, fx_block_iq4_nl, 2),
    [FX_IQ4_XS] = BLOCK("iq4_xs", FX_QK_K, fx_block_iq4_xs, 2),
    [FX_MXFP4] = BLOCK("mxfp4", FX_QK, fx_block_mxfp4, 1),
    [FX_IQ1_S] = BLOCK("iq1_s", FX_QK_K, fx_block_iq1_s, 2),
    [FX_IQ1_M] = BLOCK("iq1_m", FX_QK_K, fx_block_iq1_m, 1),
    [FX_IQ2_XXS] = BLOCK("iq2_xxs", FX_QK_K, fx_block_iq2_xxs, 2),
    [FX_IQ2_XS] = BLOCK("iq2_xs", FX_QK_K, fx_block_iq2_xs, 2),
    [FX_IQ2_S] = BLOCK("iq2_s", FX_QK_K, fx_block_iq2_s, 2),
    [FX_IQ3_XXS] = BLOCK("iq3_xxs", FX_QK_K, fx_block_iq3_xxs, 2),
    [FX_IQ3_S] = BLOCK("iq3_s", FX_QK_K, fx_block_iq3_s, 2),
    [FX_TQ1_0] = BLOCK("tq1_0", FX_QK_K, fx_block_tq1_0, 2),
    [FX_TQ2_0] = BLOCK("tq2_0", FX_QK_K, fx_block_tq2_0, 2),
    [FX_GROUP4] = BLOCK("group4", FX_QK, fx_block_group4, 4),
    [FX_GROUP8] = BLOCK("group8", FX_QK, fx_block_group8, 4),
    [FX_GROUPF8] = BLOCK("groupf8", FX_QK, fx_block_groupf8, 4),
    [FX_CHAIN] = { "chain", 1, 0, 1, 0 },
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool fx_dtype_of_name(fx_dtype *out, fx_str name)
{
    for (int t = 0; t < FX_DTYPE_COUNT; t++) {
        const char *z = fx_dtype_rows[t].name;
        size_t i = 0;

        while (i < name.n && z[i] && lower(name.p[i]) == z[i])
            i++;
        if (i == name.n && !z[i]) {
            *out = (fx_dtype)t;
            return true;
        }
    }
    return false;
}

size_t fx_dtype_row_bytes(fx_dtype t, int64_t n)
{
    const fx_dtype_row *r;
    uint64_t blocks;

    if ((unsigned)t >= FX_DTYPE_COUNT || n < 0)
        return FX_ROW_BAD;
    r = &fx_dtype_rows[t];
    if (r->block_bytes == 0 || n % r->block_elems != 0)
        return FX_ROW_BAD;
    blocks = (uint64_t)n / r->block_elems;
    if (blocks > (uint64_t)PTRDIFF_MAX / r->block_bytes)
        return FX_ROW_BAD;
    return (size_t)(blocks * r->block_bytes);
}

/* ---- Eight-bit floats -------------------------------------------------------------- */

float fx_f8e4m3_to_f32(uint8_t h)
{
    int mant = h & 7, exp = h >> 3 & 15;
    float x;

    if (exp == 15 && mant == 7)
        return fx_f32_of_bits((uint32_t)(h & 0x80) << 24 | 0x7fc00000u);
    if (exp == 0)
        x = (float)mant * 0x1p-9f;
    else
        x = (float)((8 | mant) << (exp - 1)) * 0x1p-9f;
    return h & 0x80 ? -x : x;
}

float fx_f8e5m2_to_f32(uint8_t h)
{
    return fx_f16_to_f32((uint16_t)(h << 8));       /* it is the upper byte of an f16 */
}

/* Rounds |x| (bits 'em') to a float with m mantissa bits and the given bias: exponent
 * and mantissa in one number (a carry walks into the exponent, as it should). */
static uint32_t round_small(uint32_t em, int m, int bias)
{
    int drop = 23 - m;

    if (em < (uint32_t)(127 - bias + 1) << 23) {     /* below the smallest normal */
        /* the unit there is 2^(1-bias-m): let it be the last bit of a power of two */
        float big = fx_f32_of_bits((uint32_t)(127 + 1 - bias - m + 23) << 23);
        float r = fx_f32_of_bits(em) + big;

        return fx_f32_bits(r) - fx_f32_bits(big);
    }
    em += (1u << (drop - 1)) - 1 + (em >> drop & 1u);
    return (em - ((uint32_t)(127 - bias) << 23)) >> drop;
}

uint8_t fx_f32_to_f8e4m3(float x)
{
    uint32_t u = fx_f32_bits(x), sign = u >> 24 & 0x80u, em = u & 0x7fffffffu;

    if (em > 0x43e80000u)                            /* beyond 464, halfway past 448 */
        return (uint8_t)(sign | 0x7fu);
    return (uint8_t)(sign | round_small(em, 3, 7));
}

uint8_t fx_f32_to_f8e5m2(float x)
{
    uint32_t u = fx_f32_bits(x), sign = u >> 24 & 0x80u, em = u & 0x7fffffffu;

    if (em > 0x7f800000u)
        return (uint8_t)(sign | 0x7eu);
    if (em >= 0x47700000u)                           /* 61440, halfway past 57344 */
        return (uint8_t)(sign | 0x7cu);
    return (uint8_t)(sign | round_small(em, 2, 15));
}

/* ---- Rows of plain floats ------------------------------------------------------------ */

static void row_f16(const void *src, float *dst, int64_t n)
{
    const uint16_t *s = src;

    for (int64_t i = 0; i < n; i++)
        dst[i] = fx_f16_to_f32(s[i]);
}

static void row_bf16(const void *src, float *dst, int64_t n)
{
    const uint16_t *s = src;

    for (int64_t i = 0; i < n; i++)
        dst[i] = fx_bf16_to_f32(s[i]);
}

static void row_f32(const void *src, float *dst, int64_t n)
{
    if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof(float));
}

static void row_f64(const void *src, float *dst, int64_t n)
{
    const double *s = src;

    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)s[i];
}

static void row_f8e4m3(const void *src, float *dst, int64_t n)
{
    const uint8_t *s = src;

    for (int64_t i = 0; i < n; i++)
        dst[i] = fx_f8e4m3_to_f32(s[i]);
}

static void row_f8e5m2(const void *src, float *dst, int64_t n)
{
    const uint8_t *s = src;

    for (int64_t i = 0; i < n; i++)
        dst[i] = fx_f8e5m2_to_f32(s[i]);
}

/* ---- Blocks of 32 ----------------------------------------------------------------------- */

const int8_t fx_iq4_values[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                   1, 13, 25, 38, 53, 69, 89, 113 };
const int8_t fx_mxfp4_values[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static void row_q4_0(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q4_0 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK) {
        float d = fx_f16_to_f32(b->d);

        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)((b->qs[i] & 15) - 8);
            dst[i + 16] = d * (float)((b->qs[i] >> 4) - 8);
        }
    }
}

static void row_q4_1(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q4_1 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK) {
        float d = fx_f16_to_f32(b->d), m = fx_f16_to_f32(b->m);

        for (int i = 0; i < 16; i++) {
            float lo = d * (float)(b->qs[i] & 15);
            float hi = d * (float)(b->qs[i] >> 4);

            dst[i] = lo + m;
            dst[i + 16] = hi + m;
        }
    }
}

/* q of element i, 0..31: a nibble and its fifth bit. */
static int five_bits(const uint8_t qs[16], const uint8_t qh[4], int i)
{
    int nibble = i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;

    return nibble | (qh[i / 8] >> (i % 8) & 1) << 4;
}

static void row_q5_0(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q5_0 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK) {
        float d = fx_f16_to_f32(b->d);

        for (int i = 0; i < FX_QK; i++)
            dst[i] = d * (float)(five_bits(b->qs, b->qh, i) - 16);
    }
}

static void row_q5_1(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q5_1 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK) {
        float d = fx_f16_to_f32(b->d), m = fx_f16_to_f32(b->m);

        for (int i = 0; i < FX_QK; i++) {
            float p = d * (float)five_bits(b->qs, b->qh, i);

            dst[i] = p + m;
        }
    }
}

static void row_q8_0(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q8_0 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK) {
        float d = fx_f16_to_f32(b->d);

        for (int i = 0; i < FX_QK; i++)
            dst[i] = d * (float)b->qs[i];
    }
}

/* 32 elements of a 16-entry table, laid out like Q4_0's. */
static void table_block(const uint8_t qs[16], float d, const int8_t table[16], float *dst)
{
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)table[qs[i] & 15];
        dst[i + 16] = d * (float)table[qs[i] >> 4];
    }
}

static void row_iq4_nl(const void *src, float *dst, int64_t n)
{
    for (const fx_block_iq4_nl *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK)
        table_block(b->qs, fx_f16_to_f32(b->d), fx_iq4_values, dst);
}

static void row_mxfp4(const void *src, float *dst, int64_t n)
{
    for (const fx_block_mxfp4 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK) {
        /* 2^(e-128): half of E8M0, as the table is doubled; the first two are subnormal. */
        uint32_t bits = b->e < 2 ? 0x200000u << b->e : (uint32_t)(b->e - 1) << 23;

        table_block(b->qs, fx_f32_of_bits(bits), fx_mxfp4_values, dst);
    }
}

/* ---- Blocks of 256 ------------------------------------------------------------------------ */

static void row_q2_k(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q2_k *b = src; n > 0; b++, dst += FX_QK_K, n -= FX_QK_K) {
        float d = fx_f16_to_f32(b->d), dmin = fx_f16_to_f32(b->dmin);

        for (int i = 0; i < FX_QK_K; i++) {
            float dl = d * (float)(b->scales[i / 16] & 15);
            float ml = dmin * (float)(b->scales[i / 16] >> 4);
            int q = b->qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
            float p = dl * (float)q;

            dst[i] = p - ml;
        }
    }
}

static void row_q3_k(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q3_k *b = src; n > 0; b++, dst += FX_QK_K, n -= FX_QK_K) {
        float d = fx_f16_to_f32(b->d);

        for (int i = 0; i < FX_QK_K; i++) {
            float dl = d * (float)(fx_k3_scale(b->scales, i / 16) - 32);
            int q = b->qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
            int high = b->hmask[i % 32] >> (i / 32) & 1;

            dst[i] = dl * (float)(q + high * 4 - 4);
        }
    }
}

static void row_q4_k(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q4_k *b = src; n > 0; b++, dst += FX_QK_K, n -= FX_QK_K) {
        float d = fx_f16_to_f32(b->d), dmin = fx_f16_to_f32(b->dmin);

        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = b->qs + s / 2 * 32;
            uint8_t sc, mn;

            fx_k4_scale(b->scales, s, &sc, &mn);
            float dl = d * (float)sc, ml = dmin * (float)mn;
            for (int i = 0; i < 32; i++) {
                float p = dl * (float)(s & 1 ? qs[i] >> 4 : qs[i] & 15);

                dst[s * 32 + i] = p - ml;
            }
        }
    }
}

static void row_q5_k(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q5_k *b = src; n > 0; b++, dst += FX_QK_K, n -= FX_QK_K) {
        float d = fx_f16_to_f32(b->d), dmin = fx_f16_to_f32(b->dmin);

        for (int s = 0; s < 8; s++) {
            const uint8_t *qs = b->qs + s / 2 * 32;
            uint8_t sc, mn;

            fx_k4_scale(b->scales, s, &sc, &mn);
            float dl = d * (float)sc, ml = dmin * (float)mn;
            for (int i = 0; i < 32; i++) {
                int q = (s & 1 ? qs[i] >> 4 : qs[i] & 15) | (b->qh[i] >> s & 1) << 4;
                float p = dl * (float)q;

                dst[s * 32 + i] = p - ml;
            }
        }
    }
}

static void row_q6_k(const void *src, float *dst, int64_t n)
{
    for (const fx_block_q6_k *b = src; n > 0; b++, dst += FX_QK_K, n -= FX_QK_K) {
        float d = fx_f16_to_f32(b->d);

        for (int i = 0; i < FX_QK_K; i++) {
            int half = i / 128, part = i % 128 / 32, l = i % 32;
            int ql = b->ql[half * 64 + (part & 1) * 32 + l];
            int qh = b->qh[half * 32 + l] >> (part * 2) & 3;
            int q = (part < 2 ? ql & 15 : ql >> 4) | qh << 4;
            float dl = d * (float)b->scales[i / 16];

            dst[i] = dl * (float)(q - 32);
        }
    }
}

static void row_tq1_0(const void *src, float *dst, int64_t n)
{
    for (const fx_block_tq1_0 *b = src; n > 0; b++, dst += FX_QK_K, n -= FX_QK_K) {
        float d = fx_f16_to_f32(b->d);

        for (int i = 0; i < FX_QK_K; i++)
            dst[i] = d * (float)(fx_tq1_digit(b, i) - 1);
    }
}

static void row_tq2_0(const void *src, float *dst, int64_t n)
{
    for (const fx_block_tq2_0 *b = src; n > 0; b++, dst += FX_QK_K, n -= FX_QK_K) {
        float d = fx_f16_to_f32(b->d);

        for (int i = 0; i < FX_QK_K; i++)
            dst[i] = d * (float)((b->qs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
    }
}

/* ---- Blocks of 256 with code books ------------------------------------------------------------ */

static void grid_row(fx_dtype t, const void *src, float *dst, int64_t n)
{
    size_t bytes = fx_dtype_rows[t].block_bytes;
    fx_grid_block b;

    for (const uint8_t *p = src; n > 0; p += bytes, dst += FX_QK_K, n -= FX_QK_K) {
        fx_grid_expand(t, p, &b);
        for (int i = 0; i < FX_QK_K; i++) {
            float dl = b.d * b.factor * (float)b.scale[i / 16];

            dst[i] = dl * (float)b.v[i];
        }
    }
}

#define GRID_ROW(T, t) static void row_##t(const void *src, float *dst, int64_t n) { grid_row(FX_##T, src, dst, n); }
GRID_ROW(IQ4_XS, iq4_xs)
GRID_ROW(IQ1_S, iq1_s)
GRID_ROW(IQ1_M, iq1_m)
GRID_ROW(IQ2_XXS, iq2_xxs)
GRID_ROW(IQ2_XS, iq2_xs)
GRID_ROW(IQ2_S, iq2_s)
GRID_ROW(IQ3_XXS, iq3_xxs)
GRID_ROW(IQ3_S, iq3_s)

/* ---- Blocks of 32 that only memory holds ------------------------------------------------------- */

static void row_group4(const void *src, float *dst, int64_t n)
{
    for (const fx_block_group4 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK)
        for (int i = 0; i < 16; i++) {
            dst[i] = b->d * (float)((b->qs[i] & 15) - b->zero);
            dst[i + 16] = b->d * (float)((b->qs[i] >> 4) - b->zero);
        }
}

static void row_group8(const void *src, float *dst, int64_t n)
{
    for (const fx_block_group8 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK)
        for (int i = 0; i < FX_QK; i++)
            dst[i] = b->d * (float)b->qs[i];
}

static void row_groupf8(const void *src, float *dst, int64_t n)
{
    for (const fx_block_groupf8 *b = src; n > 0; b++, dst += FX_QK, n -= FX_QK)
        for (int i = 0; i < FX_QK; i++)
            dst[i] = b->d * fx_f8e4m3_to_f32(b->qs[i]);
}

/* ---- Dispatch ------------------------------------------------------------------------------- */

static void (*const row_functions[FX_DTYPE_COUNT])(const void *, float *, int64_t) = {
    [FX_F16] = row_f16,       [FX_BF16] = row_bf16,     [FX_F32] = row_f32,
    [FX_F64] = row_f64,       [FX_F8E4M3] = row_f8e4m3, [FX_F8E5M2] = row_f8e5m2,
    [FX_Q4_0] = row_q4_0,     [FX_Q4_1] = row_q4_1,     [FX_Q5_0] = row_q5_0,
    [FX_Q5_1] = row_q5_1,     [FX_Q8_0] = row_q8_0,     [FX_Q2_K] = row_q2_k,
    [FX_Q3_K] = row_q3_k,     [FX_Q4_K] = row_q4_k,     [FX_Q5_K] = row_q5_k,
    [FX_Q6_K] = row_q6_k,     [FX_IQ4_NL] = row_iq4_nl, [FX_IQ4_XS] = row_iq4_xs,
    [FX_MXFP4] = row_mxfp4,   [FX_IQ1_S] = row_iq1_s,   [FX_IQ1_M] = row_iq1_m,
    [FX_IQ2_XXS] = row_iq2_xxs, [FX_IQ2_XS] = row_iq2_xs, [FX_IQ2_S] = row_iq2_s,
    [FX_IQ3_XXS] = row_iq3_xxs, [FX_IQ3_S] = row_iq3_s, [FX_TQ1_0] = row_tq1_0,
    [FX_TQ2_0] = row_tq2_0,   [FX_GROUP4] = row_group4, [FX_GROUP8] = row_group8,
    [FX_GROUPF8] = row_groupf8,
};

bool fx_dequantize_supports(fx_dtype t)
{
    return (unsigned)t < FX_DTYPE_COUNT && row_functions[t];
}

void fx_dequantize_row(fx_dtype t, const void *src, float *dst, int64_t n)
{
    FX_ASSERT(fx_dequantize_supports(t));
    FX_ASSERT(n >= 0 && n % fx_dtype_rows[t].block_elems == 0);
    row_functions[t](src, dst, n);
}
