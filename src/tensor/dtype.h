/* dtype.h - element types of tensors: plain numbers and the GGML quantized blocks.
 *
 * One row of a table per type: its name, how many elements make a block, how
 * many bytes that block takes.  Plain types have blocks of one element.
 * A quantized row of n elements is n / block_elems blocks, back to back.
 *
 *     size_t bytes = fx_dtype_row_bytes(FX_Q4_0, 576);       324; FX_ROW_BAD if impossible
 *     if (fx_dequantize_supports(t))
 *         fx_dequantize_row(t, src, dst, 576);               the definition of what a block means
 *
 * All functions are pure; any thread. */
#ifndef FX_DTYPE_H
#define FX_DTYPE_H

#include <string.h>

#include "base/compiler.h"
#include "base/str.h"

typedef enum fx_dtype {
    FX_BOOL,                     /* one byte, 0 or 1 */
    FX_I8, FX_I16, FX_I32, FX_I64,
    FX_U8, FX_U16, FX_U32, FX_U64,
    FX_F16, FX_BF16, FX_F32, FX_F64,
    FX_F8E4M3, FX_F8E5M2,        /* OCP: E4M3 has no infinities, NaN is S.1111.111 */
    FX_Q4_0, FX_Q4_1, FX_Q5_0, FX_Q5_1, FX_Q8_0,
    FX_Q2_K, FX_Q3_K, FX_Q4_K, FX_Q5_K, FX_Q6_K,
    FX_IQ4_NL, FX_IQ4_XS, FX_MXFP4,
    FX_IQ1_S, FX_IQ1_M, FX_IQ2_XXS, FX_IQ2_XS, FX_IQ2_S, FX_IQ3_XXS, FX_IQ3_S,
    FX_TQ1_0, FX_TQ2_0,
    FX_GROUP4, FX_GROUP8, FX_GROUPF8,   /* in memory only: blocks.h */
    FX_CHAIN,                    /* no data: orders side effects in graphs */
    FX_DTYPE_COUNT
} fx_dtype;

enum {
    FX_DT_FLOAT = 1,             /* f8 .. f64 */
    FX_DT_INT = 2,               /* i8 .. u64, not bool */
    FX_DT_SIGNED = 4,
    FX_DT_QUANT = 8              /* blocks of blocks.h */
};

typedef struct fx_dtype_row {
    const char *name;            /* "f32", "q4_k": lower case */
    uint16_t block_elems;
    uint16_t block_bytes;        /* 0: has no data */
    uint8_t align;               /* of the first byte of a row */
    uint8_t flags;
} fx_dtype_row;

extern const fx_dtype_row fx_dtype_rows[FX_DTYPE_COUNT];

static inline const char *fx_dtype_name(fx_dtype t)
{
    return (unsigned)t < FX_DTYPE_COUNT ? fx_dtype_rows[t].name : "dtype?";
}
static inline bool fx_dtype_is_float(fx_dtype t) { return fx_dtype_rows[t].flags & FX_DT_FLOAT; }
static inline bool fx_dtype_is_int(fx_dtype t) { return fx_dtype_rows[t].flags & FX_DT_INT; }
static inline bool fx_dtype_is_signed(fx_dtype t) { return fx_dtype_rows[t].flags & FX_DT_SIGNED; }
static inline bool fx_dtype_is_quant(fx_dtype t) { return fx_dtype_rows[t].flags & FX_DT_QUANT; }
/* Bytes of one element of a plain type; 0 for quantized types and chains. */
static inline size_t fx_dtype_size(fx_dtype t)
{
    return fx_dtype_is_quant(t) ? 0 : fx_dtype_rows[t].block_bytes;
}

/* Upper or lower case; false if there is no such type. */
bool fx_dtype_of_name(fx_dtype *out, fx_str name);

/* Bytes of n elements in one row.  FX_ROW_BAD if n is negative, not a whole number
 * of blocks, 2^63 bytes or more, or the type has no data. */
#define FX_ROW_BAD SIZE_MAX
size_t fx_dtype_row_bytes(fx_dtype t, int64_t n);

/* ---- Reference conversion ---------------------------------------------------------
 *
 * n is a whole number of blocks; src is aligned as the table says.  Every float and
 * quantized type is supported; integers, bool and chains aren't. */
bool fx_dequantize_supports(fx_dtype t);
void fx_dequantize_row(fx_dtype t, const void *src, float *dst, int64_t n);

/* ---- Scalars ------------------------------------------------------------------------
 *
 * Narrowing rounds to nearest, ties to even; NaN stays NaN (quiet, sign and upper
 * payload kept, as F16C and AVX512-BF16 do). */

static inline uint32_t fx_f32_bits(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u;
}

static inline float fx_f32_of_bits(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}

static inline float fx_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, em = h & 0x7fffu;

    if (em >= 0x7c00)            /* infinity, NaN */
        return fx_f32_of_bits(sign | 0x7f800000u | (em & 0x3ffu) << 13 | (em > 0x7c00 ? 0x400000u : 0));
    if (em >= 0x400)             /* the exponent's bias goes from 15 to 127 */
        return fx_f32_of_bits(sign | ((em << 13) + 0x38000000u));
    return fx_f32_of_bits(sign | fx_f32_bits((float)em * 0x1p-24f));
}

static inline uint16_t fx_f32_to_f16(float x)
{
    uint32_t u = fx_f32_bits(x), sign = u >> 16 & 0x8000u, em = u & 0x7fffffffu;

    if (em > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (em >> 13 & 0x3ffu));
    if (em >= 0x477ff000u)       /* 65520, halfway between the largest and what would follow */
        return (uint16_t)(sign | 0x7c00u);
    if (em < 0x38800000u) {      /* below 2^-14: a multiple of 2^-24, the last bit of 0.5f */
        float r = fx_f32_of_bits(em) + 0.5f;

        return (uint16_t)(sign | (fx_f32_bits(r) - 0x3f000000u));
    }
    em += 0xfffu + (em >> 13 & 1u);
    return (uint16_t)(sign | (em - 0x38000000u) >> 13);
}

static inline float fx_bf16_to_f32(uint16_t h)
{
    return fx_f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t fx_f32_to_bf16(float x)
{
    uint32_t u = fx_f32_bits(x);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

float fx_f8e4m3_to_f32(uint8_t h);
float fx_f8e5m2_to_f32(uint8_t h);
/* Too large becomes NaN in E4M3 (it has no infinity) and infinity in E5M2. */
uint8_t fx_f32_to_f8e4m3(float x);
uint8_t fx_f32_to_f8e5m2(float x);

#endif
