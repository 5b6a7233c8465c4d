/* rows.c - where the state of each layer lies in a page.
 *
 * A page is the concatenation of its layers' parts in layer order, K before V,
 * each part beginning at a multiple of 64 bytes.  A shared layer has no part of
 * its own: it takes the offsets of its source.  A latent layer keeps K only,
 * and its V is a view of the last columns of K.  A model without any such layer
 * still has pages, of PART_ALIGN bytes: what is known of a prefix hangs on them.
 *
 * A slot is the concatenation of the recurrent layers' parts, the convolution's before
 * the scan's. */
#include "tensor/rows.h"

#define PART_ALIGN 64

static size_t kv_bytes(const fx_state_table *t, const fx_state_layer *l, int32_t width)
{
    return (size_t)l->kv_heads * (size_t)(t->page_tokens / FX_KV_BLOCK) * fx_kv_block_bytes(t->kv_dtype, width);
}

static size_t take(size_t *at, size_t bytes)
{
    size_t offset = *at;

    *at = FX_ROUND_UP(offset + bytes, (size_t)PART_ALIGN);
    return offset;
}

void fx_state_layout(fx_state_table *t)
{
    size_t at = 0, slot = 0;

    FX_ASSERT(t->page_tokens > 0 && t->page_tokens % FX_KV_BLOCK == 0);
    for (int32_t i = 0; i < t->n_layers; i++) {
        fx_state_layer *l = &t->layers[i];

        switch (l->kind) {
        case FX_STATE_FULL:
        case FX_STATE_WINDOW:
            l->k_offset = take(&at, kv_bytes(t, l, l->k_dim));
            l->v_offset = take(&at, kv_bytes(t, l, l->v_dim));
            break;
        case FX_STATE_LATENT:
            l->k_offset = l->v_offset = take(&at, kv_bytes(t, l, l->k_dim));
            break;
        case FX_STATE_RECURRENT:
            l->conv_offset = take(&slot, (size_t)l->conv_len * sizeof(float));
            l->scan_offset = take(&slot, (size_t)l->scan_len * sizeof(float));
            break;
        case FX_STATE_SHARED:
        case FX_STATE_NONE:
            l->k_offset = l->v_offset = 0;
            break;
        }
    }
    for (int32_t i = 0; i < t->n_layers; i++) {          /* a source may come later */
        fx_state_layer *l = &t->layers[i];

        if (l->kind != FX_STATE_SHARED)
            continue;
        FX_ASSERT(l->source >= 0 && l->source < t->n_layers && t->layers[l->source].kind != FX_STATE_SHARED);
        l->k_offset = t->layers[l->source].k_offset;
        l->v_offset = t->layers[l->source].v_offset;
    }
    t->page_bytes = FX_MAX(at, (size_t)PART_ALIGN);
    t->slot_bytes = slot;
}

int32_t fx_state_length_class(const fx_state_table *t, int64_t n_prompt)
{
    if (t->long_from <= 0 || n_prompt <= t->long_from)
        return 0;
    return t->long_each ? (int32_t)FX_MIN(n_prompt, INT32_MAX) : t->long_from + 1;
}

int32_t fx_state_window(const fx_state_table *t)
{
    int32_t most = 0;

    for (int32_t i = 0; i < t->n_layers; i++) {
        const fx_state_layer *l = &t->layers[i];

        if (l->kind == FX_STATE_SHARED)              /* reads its source's, through a window of its own */
            l = &t->layers[l->source];
        if (l->kind == FX_STATE_FULL || l->kind == FX_STATE_LATENT)
            return 0;
        if (l->kind == FX_STATE_WINDOW)
            most = FX_MAX(most, FX_MAX(l->window, t->layers[i].window));
    }
    return most;
}

int64_t fx_state_low(const fx_state_table *t, int64_t pos)
{
    int64_t window = fx_state_window(t);

    return window > 0 ? FX_MAX(pos + 1 - window, 0) : 0;
}
