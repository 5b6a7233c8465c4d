/* rows.h - the row table of a step, and the state a sequence keeps.
 *
 * A step runs the model over one ragged batch: rows of several sequences, each
 * sequence's rows contiguous and in position order (a decode token is a run of
 * one row, a prefill chunk a longer run).  Kernels and epilogues get this table;
 * columns may be added without touching kernels that don't read them.
 *
 * State: layer by layer, what a sequence keeps (DESIGN "kv").  kv and sched see
 * only this table.  Layers whose keys and values grow with the sequence form groups by how
 * far back they are read: one that keeps all positions, one that keeps a window.  A group's
 * layers are dealt out to columns, and a page holds 'page_tokens' tokens of one column's
 * layers.  All pages are of one size, whatever their column, so that one pool serves all; a model with
 * one group has one column.  What doesn't grow with the sequence (recurrent layers) lies in a slot, one
 * for each running sequence; copies of slots as they were at page ends are its snapshots. */
#ifndef FX_ROWS_H
#define FX_ROWS_H

#include "base/compiler.h"
#include "tensor/dtype.h"

typedef uint32_t fx_page;                 /* index into the pool */
#define FX_PAGE_NONE UINT32_MAX

typedef struct fx_step_seq {
    int32_t row0, n_rows;                 /* its rows in the step */
    int32_t pos0;                         /* position of row0; it has pos0 + n_rows tokens afterwards */
    const fx_page *pages;                 /* [i*n_columns + c] holds positions [i*page_tokens, (i+1)*page_tokens)
                                             of column c; FX_PAGE_NONE: all behind the column's window */
    int32_t adapter;                      /* in step->adapters; -1: none */
    int32_t length_class;                 /* fx_state_length_class of its prompt */
    uint8_t *slot;                        /* recurrent state of the positions before pos0, [slot_bytes],
                                             read and brought up to its last row; NULL: the model has none */
    uint8_t *const *snapshots;            /* one for each page end among its rows, in order: where the slot as
                                             of there is also written, or NULL. NULL: none wanted */
} fx_step_seq;

typedef struct fx_adapter fx_adapter;     /* runtime/adapter.h */

typedef struct fx_step {
    int32_t n_rows, n_seqs, n_logits;
    const int32_t *token;                 /* [n_rows] */
    const int32_t *pos;                   /* [n_rows] */
    const int32_t *seq;                   /* [n_rows] index into seqs */
    const fx_step_seq *seqs;              /* [n_seqs] */
    const int32_t *logit_rows;            /* [n_logits] ascending: rows that want logits */
    uint8_t *kv;                          /* the page pool */
    size_t page_bytes;
    int32_t page_tokens;                  /* a multiple of 32 */
    int32_t n_columns;                    /* of page tables, at least 1 */
    const fx_adapter *const *adapters;    /* those that sequences name; NULL: none does */
} fx_step;

typedef enum fx_state_kind {
    FX_STATE_NONE,
    FX_STATE_FULL,                        /* paged K and V over the whole context */
    FX_STATE_WINDOW,                      /* ... over the last 'window' positions */
    FX_STATE_LATENT,                      /* MLA: paged keys of one head, values a view of them */
    FX_STATE_RECURRENT,
    FX_STATE_SHARED                       /* another layer's */
} fx_state_kind;

typedef struct fx_state_layer {
    fx_state_kind kind;
    int32_t kv_heads, k_dim, v_dim;       /* widths of one head */
    int32_t window, source;               /* WINDOW: positions; SHARED: layer */
    int32_t column;                       /* of the page tables; set by fx_state_layout */
    size_t k_offset, v_offset;            /* bytes into a page of it, 64-byte aligned; set by fx_state_layout */
    int64_t conv_len, scan_len;           /* RECURRENT: f32 numbers of the convolution's and the scan's state */
    size_t conv_offset, scan_offset;      /* bytes into a slot, 64-byte aligned; set by fx_state_layout */
} fx_state_layer;

/* Layers whose pages are let go of together: their columns are [first, first + n). */
typedef struct fx_state_group {
    int32_t window;                       /* positions that are read back at most; 0: all */
    int32_t first, n;
} fx_state_group;

#define FX_STATE_GROUPS 2                 /* with both kinds of layers the first keeps all, the second a window */

typedef struct fx_state_table {
    int32_t n_layers;
    fx_state_layer *layers;
    fx_dtype kv_dtype;                    /* one that fx_kv_type_known */
    int32_t page_tokens;
    /* Set by fx_state_layout: */
    int32_t n_columns, n_groups;          /* at least 1 */
    fx_state_group groups[FX_STATE_GROUPS];
    size_t page_bytes;                    /* never 0 */
    size_t slot_bytes;                    /* 0: no layer is recurrent */
    /* Models that turn positions otherwise in long sequences: those with a prompt of more tokens
     * than this (0: there are none), all alike or each length for itself. */
    int32_t long_from;
    bool long_each;
} fx_state_table;

/* Sets columns, groups, offsets, page_bytes and slot_bytes from kv_dtype and page_tokens. A layer's K in
 * a page is [kv_heads][page_tokens/32] blocks, its V likewise (kernels/kv_page.h). */
void fx_state_layout(fx_state_table *t);

#define FX_KV_BLOCK 32                    /* tokens of a block */
static inline bool fx_kv_type_known(fx_dtype t) { return t == FX_F16 || t == FX_BF16 || t == FX_F32 || t == FX_I8; }
/* Bytes of a block of keys or values of one head, each 'width' wide; I8: numbers in fours, then a scale a token. */
static inline size_t fx_kv_block_bytes(fx_dtype t, int32_t width)
{
    return t == FX_I8 ? FX_KV_BLOCK * (FX_ROUND_UP((size_t)width, (size_t)4) + sizeof(float))
                      : FX_KV_BLOCK * (size_t)width * fx_dtype_size(t);
}
/* Sequences of different classes can't share pages: 0 for a prompt of up to long_from tokens, else a
 * length that stands for all of its class. It holds as long as the sequence. */
int32_t fx_state_length_class(const fx_state_table *t, int64_t n_prompt);

#endif
