/* kv_page.h - where a key and a value lie in the page pool.
 *
 * K of a head is [page_tokens/32][head_dim][32]: 32 keys lie side by side for
 * each component.  V is [page_tokens][v_dim].  Offsets are in bytes. */
#ifndef FX_KV_PAGE_H
#define FX_KV_PAGE_H

#include "tensor/args.h"

#define FX_KV_BLOCK 32                   /* keys side by side */

static inline size_t fx_kv_elem(fx_dtype t) { return t == FX_F16 ? 2 : 4; }

/* First byte of the page that holds position 'pos' of a sequence. */
static inline uint8_t *fx_kv_page(const fx_step *s, const fx_step_seq *seq, int64_t pos)
{
    return s->kv + (size_t)seq->pages[pos / s->page_tokens] * s->page_bytes;
}

/* Component 0 of the key at 'pos'; component d is d * 32 elements further. */
static inline size_t fx_kv_k_at(const fx_step *s, size_t k_offset, size_t elem, int64_t head, int64_t head_dim,
                                int64_t pos)
{
    int64_t in_page = pos % s->page_tokens;
    int64_t block = head * (s->page_tokens / FX_KV_BLOCK) + in_page / FX_KV_BLOCK;

    return k_offset + elem * (size_t)(block * head_dim * FX_KV_BLOCK + in_page % FX_KV_BLOCK);
}

static inline size_t fx_kv_v_at(const fx_step *s, size_t v_offset, size_t elem, int64_t head, int64_t v_dim,
                                int64_t pos)
{
    return v_offset + elem * (size_t)((head * s->page_tokens + pos % s->page_tokens) * v_dim);
}

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
