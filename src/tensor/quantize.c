/* quantize.c - the block types whose rounding is fixed, plain types, and the table of all.
 *
 *     Q4_0 Q5_0   the value v of largest magnitude (the first of them) becomes the lowest code:
 *                 d = v / -8 or -16,  q = trunc(x / d + 8.5 or 16.5), at most 15 or 31
 *     Q4_1 Q5_1   d = (max - min) / 15 or 31,  m = min,  q = trunc((x - m) / d + 0.5)
 *     Q8_0        d = max|x| / 127,  q = x / d rounded half away from zero
 *
 * Divisions by d are multiplications with the f32 reciprocal of the f32 d; d is rounded to
 * f16 only for the file. */
#include "tensor/quantize.h"

#include <math.h>

#include "tensor/blocks.h"

static bool put_f16(uint16_t *out, float x)
{
    *out = fx_f32_to_f16(x);
    return (*out & 0x7c00) != 0x7c00;
}

/* The first value of largest magnitude. */
static float extreme(const float *x)
{
    float most = 0, v = 0;

    for (int i = 0; i < FX_QK; i++) {
        if (most < fabsf(x[i])) {
            most = fabsf(x[i]);
            v = x[i];
        }
    }
    return v;
}

static float inverse(float d)
{
    return fabsf(d) >= 0x1p-126f ? 1.0f / d : 0;      /* what is smaller is 0 as an f16 */
}

/* trunc(v) within [0, top]; v may be huge when d is subnormal. */
static uint8_t code(float v, int top)
{
    return v >= (float)top ? (uint8_t)top : v > 0 ? (uint8_t)v : 0;
}

/* Codes around a bias (half of the levels), and d. */
static float codes_d(const float *x, int levels, uint8_t q[FX_QK])
{
    float d = extreme(x) / (float)(-levels / 2), id = inverse(d), shift = (float)levels / 2 + 0.5f;

    for (int i = 0; i < FX_QK; i++) {
        float v = x[i] * id;

        q[i] = code(v + shift, levels - 1);
    }
    return d;
}

/* Codes from a minimum up. */
static float codes_dm(const float *x, int levels, uint8_t q[FX_QK], float *m)
{
    float lo = x[0], hi = x[0], d, id;

    for (int i = 1; i < FX_QK; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    d = (hi - lo) / (float)(levels - 1);
    id = inverse(d);
    for (int i = 0; i < FX_QK; i++) {
        float v = (x[i] - lo) * id;

        q[i] = code(v + 0.5f, levels - 1);
    }
    *m = lo;
    return d;
}

static void put_nibbles(const uint8_t q[FX_QK], uint8_t qs[16])
{
    for (int i = 0; i < 16; i++)
        qs[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void put_fifth_bits(const uint8_t q[FX_QK], uint8_t qh[4])
{
    memset(qh, 0, 4);
    for (int i = 0; i < FX_QK; i++)
        qh[i / 8] |= (uint8_t)((q[i] >> 4) << i % 8);
}

static bool block_q4_0(const float *x, void *dst)
{
    fx_block_q4_0 *b = dst;
    uint8_t q[FX_QK];
    float d = codes_d(x, 16, q);

    put_nibbles(q, b->qs);
    return put_f16(&b->d, d);
}

static bool block_q4_1(const float *x, void *dst)
{
    fx_block_q4_1 *b = dst;
    uint8_t q[FX_QK];
    float m, d = codes_dm(x, 16, q, &m);

    put_nibbles(q, b->qs);
    return put_f16(&b->d, d) && put_f16(&b->m, m);
}

static bool block_q5_0(const float *x, void *dst)
{
    fx_block_q5_0 *b = dst;
    uint8_t q[FX_QK];
    float d = codes_d(x, 32, q);

    put_nibbles(q, b->qs);
    put_fifth_bits(q, b->qh);
    return put_f16(&b->d, d);
}

static bool block_q5_1(const float *x, void *dst)
{
    fx_block_q5_1 *b = dst;
    uint8_t q[FX_QK];
    float m, d = codes_dm(x, 32, q, &m);

    put_nibbles(q, b->qs);
    put_fifth_bits(q, b->qh);
    return put_f16(&b->d, d) && put_f16(&b->m, m);
}

static bool block_q8_0(const float *x, void *dst)
{
    fx_block_q8_0 *b = dst;
    float d = fabsf(extreme(x)) / 127, id = inverse(d);

    for (int i = 0; i < FX_QK; i++) {
        float v = roundf(x[i] * id);

        b->qs[i] = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
    }
    return put_f16(&b->d, d);
}

/* ---- Rows ---- */

static bool row_f16(const float *src, void *dst, int64_t n)
{
    uint16_t *out = dst;
    bool fits = true;

    for (int64_t i = 0; i < n; i++)
        fits &= put_f16(&out[i], src[i]);
    return fits;
}

static bool row_bf16(const float *src, void *dst, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((uint16_t *)dst)[i] = fx_f32_to_bf16(src[i]);
    return true;
}

static bool row_f32(const float *src, void *dst, int64_t n)
{
    if (n > 0)
        memcpy(dst, src, (size_t)n * sizeof(float));
    return true;
}

typedef struct target {
    bool (*block)(const float *x, void *dst);
    bool (*row)(const float *src, void *dst, int64_t n);     /* instead, of plain types */
} target;

static const target targets[FX_DTYPE_COUNT] = {
    [FX_F32] = { NULL, row_f32 },            [FX_F16] = { NULL, row_f16 },
    [FX_BF16] = { NULL, row_bf16 },          [FX_Q4_0] = { block_q4_0, NULL },
    [FX_Q4_1] = { block_q4_1, NULL },        [FX_Q5_0] = { block_q5_0, NULL },
    [FX_Q5_1] = { block_q5_1, NULL },        [FX_Q8_0] = { block_q8_0, NULL },
    [FX_Q2_K] = { fx_quantize_q2_k, NULL },  [FX_Q3_K] = { fx_quantize_q3_k, NULL },
    [FX_Q4_K] = { fx_quantize_q4_k, NULL },  [FX_Q5_K] = { fx_quantize_q5_k, NULL },
    [FX_Q6_K] = { fx_quantize_q6_k, NULL },  [FX_IQ4_NL] = { fx_quantize_iq4_nl, NULL },
};

bool fx_quantize_supports(fx_dtype t)
{
    return (unsigned)t < FX_DTYPE_COUNT && (targets[t].block || targets[t].row);
}

static bool all_finite(const float *x, int64_t n)
{
    uint32_t bad = 0;

    for (int64_t i = 0; i < n; i++)
        bad |= (fx_f32_bits(x[i]) & 0x7f800000u) == 0x7f800000u;
    return !bad;
}

bool fx_quantize_row(fx_dtype t, const float *src, void *dst, int64_t n)
{
    const fx_dtype_row *r = &fx_dtype_rows[t];
    bool fits = true;

    FX_ASSERT(fx_quantize_supports(t) && n >= 0 && n % r->block_elems == 0);
    if (!all_finite(src, n))
        return false;
    if (targets[t].row)
        return targets[t].row(src, dst, n);
    for (int64_t i = 0; i < n / r->block_elems; i++)
        fits &= targets[t].block(src + i * r->block_elems, (uint8_t *)dst + i * r->block_bytes);
    return fits;
}
