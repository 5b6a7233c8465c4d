/* rows.c - where the state of each layer lies in pages and slots.
 *
 * A page is the concatenation of its column's layers in layer order, K before V, each part
 * beginning at a multiple of 64 bytes.  A shared layer has no part of its own: it takes the
 * place of its source.  A latent layer keeps K only, and its V is a view of the last columns
 * of K.  A model without any such layer still has pages, of PART_ALIGN bytes: what is known
 * of a prefix hangs on them.
 *
 * With two groups pages are as large as they can be without wasting more than 1/MOST_WASTE of
 * either group's: larger pages mean fewer columns.  Layers of one size, as models have them, are dealt out
 * by a common divisor of their numbers, or nearly.
 *
 * A slot is the concatenation of the recurrent layers' parts, the convolution's before
 * the scan's. */
#include "tensor/rows.h"

#define PART_ALIGN 64
#define MOST_WASTE 16

static size_t take(size_t *at, size_t bytes)
{
    size_t offset = *at;

    *at = FX_ROUND_UP(offset + bytes, (size_t)PART_ALIGN);
    return offset;
}

static bool has_pages(const fx_state_layer *l)
{
    return l->kind == FX_STATE_FULL || l->kind == FX_STATE_WINDOW || l->kind == FX_STATE_LATENT;
}

static size_t kv_bytes(const fx_state_table *t, const fx_state_layer *l, int32_t width)
{
    return (size_t)l->kv_heads * (size_t)(t->page_tokens / FX_KV_BLOCK) * fx_kv_block_bytes(t->kv_dtype, width);
}

/* Puts the layer's part behind *at. */
static void place(const fx_state_table *t, fx_state_layer *l, size_t *at)
{
    l->k_offset = l->v_offset = take(at, kv_bytes(t, l, l->k_dim));
    if (l->kind != FX_STATE_LATENT)
        l->v_offset = take(at, kv_bytes(t, l, l->v_dim));
}

static size_t part_bytes(const fx_state_table *t, const fx_state_layer *l)
{
    fx_state_layer copy = *l;
    size_t at = 0;

    place(t, &copy, &at);
    return at;
}

static bool is_windowed(const fx_state_layer *l) { return l->kind == FX_STATE_WINDOW; }

/* Whether layer i has pages, in group g. */
static bool is_of(const fx_state_table *t, int32_t i, int g)
{
    const fx_state_layer *l = &t->layers[i];

    return has_pages(l) && (t->n_groups == 1 || is_windowed(l) == (g == 1));
}

/* Bytes of the group's layers. */
static size_t group_bytes(const fx_state_table *t, int g)
{
    size_t sum = 0;

    for (int32_t i = 0; i < t->n_layers; i++)
        sum += is_of(t, i, g) ? part_bytes(t, &t->layers[i]) : 0;
    return sum;
}

/* Deals the group's layers out, in order, to columns from 'first' on whose pages have so many bytes. Returns
 * their number, 0: a layer is too large. */
static int32_t deal(fx_state_table *t, int g, int32_t first, size_t bytes)
{
    int32_t n = 1;
    size_t at = 0;

    for (int32_t i = 0; i < t->n_layers; i++) {
        fx_state_layer *l = &t->layers[i];
        size_t part = is_of(t, i, g) ? part_bytes(t, l) : 0;

        if (!is_of(t, i, g))
            continue;
        if (part > bytes)
            return 0;
        if (at + part > bytes) {
            at = 0;
            n++;
        }
        l->column = first + n - 1;
        place(t, l, &at);
    }
    return n;
}

/* What pages of so many bytes waste, SIZE_MAX: a layer has no room in them; *little: in each group. */
static size_t waste_of(fx_state_table *t, size_t bytes, bool *little)
{
    size_t sum = 0;

    *little = true;
    for (int g = 0; g < t->n_groups; g++) {
        size_t want = group_bytes(t, g), have = (size_t)deal(t, g, 0, bytes) * bytes;

        *little = *little && have > 0 && (have - want) * MOST_WASTE <= want;
        if (have == 0)
            return SIZE_MAX;
        sum += have - want;
    }
    return sum;
}

/* Of the sizes that a group's first layers make: the largest that wastes little, else the one that wastes least. */
static size_t find_page_bytes(fx_state_table *t)
{
    size_t best = 0, spare = 0, least = SIZE_MAX;

    for (int g = 0; g < t->n_groups; g++) {
        size_t bytes = 0;

        for (int32_t i = 0; i < t->n_layers; i++) {
            size_t wasted;
            bool little;

            if (!is_of(t, i, g))
                continue;
            bytes += part_bytes(t, &t->layers[i]);
            wasted = waste_of(t, bytes, &little);
            if (little)
                best = FX_MAX(best, bytes);
            if (wasted < least) {
                least = wasted;
                spare = bytes;
            }
        }
    }
    return best ? best : spare;
}

/* Who keeps all, and who a window: the largest of theirs and of those who read them. */
static void make_groups(fx_state_table *t)
{
    bool all = false;
    int32_t window = 0;

    for (int32_t i = 0; i < t->n_layers; i++) {
        const fx_state_layer *l = &t->layers[i], *source = l;

        if (l->kind == FX_STATE_SHARED) {                /* reads its source's, through a window of its own */
            FX_ASSERT(l->source >= 0 && l->source < t->n_layers && t->layers[l->source].kind != FX_STATE_SHARED);
            source = &t->layers[l->source];
        }
        all = all || (has_pages(source) && !is_windowed(source));
        if (is_windowed(source))
            window = FX_MAX(window, FX_MAX(source->window, l->window));
    }
    t->n_groups = all && window > 0 ? 2 : 1;
    t->groups[0] = (fx_state_group){ .window = all ? 0 : window };
    t->groups[1] = (fx_state_group){ .window = window };
}

static void share_places(fx_state_table *t)
{
    for (int32_t i = 0; i < t->n_layers; i++) {
        fx_state_layer *l = &t->layers[i];

        if (l->kind != FX_STATE_SHARED)
            continue;
        l->column = t->layers[l->source].column;
        l->k_offset = t->layers[l->source].k_offset;
        l->v_offset = t->layers[l->source].v_offset;
    }
}

static void lay_slots(fx_state_table *t)
{
    t->slot_bytes = 0;
    for (int32_t i = 0; i < t->n_layers; i++) {
        fx_state_layer *l = &t->layers[i];

        if (l->kind != FX_STATE_RECURRENT)
            continue;
        l->conv_offset = take(&t->slot_bytes, (size_t)l->conv_len * sizeof(float));
        l->scan_offset = take(&t->slot_bytes, (size_t)l->scan_len * sizeof(float));
    }
}

void fx_state_layout(fx_state_table *t)
{
    FX_ASSERT(t->page_tokens > 0 && t->page_tokens % FX_KV_BLOCK == 0);
    make_groups(t);
    t->page_bytes = t->n_groups == 1 ? group_bytes(t, 0) : find_page_bytes(t);
    t->page_bytes = FX_MAX(t->page_bytes, (size_t)PART_ALIGN);
    t->n_columns = 0;
    for (int g = 0; g < t->n_groups; g++) {
        t->groups[g].first = t->n_columns;
        t->groups[g].n = deal(t, g, t->n_columns, t->page_bytes);
        t->n_columns += t->groups[g].n;
    }
    share_places(t);
    lay_slots(t);
}

int32_t fx_state_length_class(const fx_state_table *t, int64_t n_prompt)
{
    if (t->long_from <= 0 || n_prompt <= t->long_from)
        return 0;
    return t->long_each ? (int32_t)FX_MIN(n_prompt, INT32_MAX) : t->long_from + 1;
}
