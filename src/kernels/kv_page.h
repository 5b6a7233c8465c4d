/* kv_page.h - where keys and values lie in the page pool.
 *
 * A head's keys in a page are [page_tokens/32] blocks, its values likewise, of 32 tokens each:
 *
 *     f32, f16, bf16   K [head_dim][32]         32 keys lie side by side for each component
 *                      V [32][v_dim]
 *     int8             K [head_dim/4][32][4]    numbers that a product sums lie in fours
 *                      V [32/4][v_dim][4]       ... of tokens
 *                      then [32] f32 scales, one a token: a number is its byte times that
 *
 * with head_dim and v_dim of int8 rounded up to fours.  A scale is max|x| / 127 over the token's
 * head, bytes are x / scale rounded to nearest even; NaN if some x isn't finite, 0 below FX_KV_TINY.
 * Offsets are in bytes. */
#ifndef FX_KV_PAGE_H
#define FX_KV_PAGE_H

#include <math.h>

#include "tensor/args.h"

#define FX_KV_TINY 0x1p-96f

/* First byte of the column's page that holds position 'pos' of a sequence. */
static inline uint8_t *fx_kv_page(const fx_step *s, const fx_step_seq *seq, int32_t column, int64_t pos)
{
    return s->kv + (size_t)seq->pages[pos / s->page_tokens * s->n_columns + column] * s->page_bytes;
}

/* The block of 'pos': of the part at 'offset' of a page of 'column', whose blocks have block_bytes. */
static inline uint8_t *fx_kv_block(const fx_step *s, const fx_step_seq *seq, int32_t column, size_t offset,
                                   size_t block_bytes, int64_t head, int64_t pos)
{
    int64_t block = head * (s->page_tokens / FX_KV_BLOCK) + pos % s->page_tokens / FX_KV_BLOCK;

    return fx_kv_page(s, seq, column, pos) + offset + (size_t)block * block_bytes;
}

/* Number of component d of the key, or value, j (0..31) in its block. */
static inline int64_t fx_kv_key_at(fx_dtype t, int64_t d, int64_t j)
{
    return t == FX_I8 ? (d / 4 * FX_KV_BLOCK + j) * 4 + d % 4 : d * FX_KV_BLOCK + j;
}

static inline int64_t fx_kv_value_at(fx_dtype t, int64_t v_dim, int64_t d, int64_t j)
{
    return t == FX_I8 ? (j / 4 * FX_ROUND_UP(v_dim, 4) + d) * 4 + j % 4 : j * v_dim + d;
}

/* The scales of an int8 block. */
static inline float *fx_kv_scales(const uint8_t *block, int64_t width)
{
    return (float *)(uintptr_t)(block + FX_KV_BLOCK * FX_ROUND_UP(width, 4));
}

/* The scale of numbers whose largest magnitude is 'top'; finite: all are. */
static inline float fx_kv_scale(float top, bool finite)
{
    if (!finite)
        return NAN;
    return top < FX_KV_TINY ? 0 : top / 127.0f;
}

/* What numbers are multiplied with to become bytes. */
static inline float fx_kv_inverse(float scale) { return scale > 0 ? 1.0f / scale : 0; }

/* How a row's sequence turns: frequencies, and the factor by which pair i turns slower is slow^(-2i / (rot - 2)). */
typedef struct fx_turning {
    const float *freq;
    double slow;                 /* 1: none */
} fx_turning;

static inline fx_turning fx_turning_of(const fx_rope_store_args *a, const fx_step_seq *seq)
{
    fx_turning t = { a->inv_freq, 1 };

    if (a->long_from <= 0 || seq->length_class <= a->long_from)
        return t;
    if (a->growth > 0)
        t.slow = (double)a->growth * seq->length_class / a->long_from - ((double)a->growth - 1);
    else
        t.freq += a->rot_dim / 2;
    return t;
}

#endif
