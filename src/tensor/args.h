/* args.h - the argument struct of each kernel.
 *
 * One struct per op is what keeps parameter counts low and lets hand-written,
 * reference and compiled code stand in one table.  Activations are f32 rows,
 * 'ld' is the distance between rows in elements.  A kernel runs a half-open
 * range of tasks; what a task is, its table row says (kernels/kernels.h). */
#ifndef FX_ARGS_H
#define FX_ARGS_H

#include "tensor/rows.h"

/* A matrix of f32 rows. */
typedef struct fx_mat {
    float *p;
    int64_t ld;
} fx_mat;
typedef struct fx_cmat {
    const float *p;
    int64_t ld;
} fx_cmat;

/* Activations quantized to int8 in blocks of 32 along k: q = round(x / d), d = max|x| / 127.
 * Layout of 'data' is private to kernels/ (it may depend on n_rows; the numbers don't). */
typedef struct fx_q8 {
    void *data;                  /* fx_q8_bytes(n_rows, k), 64-byte aligned */
    int64_t k;                   /* multiple of 32 */
} fx_q8;

/* y[r] = table[token[r]] * scale; the table in its file form, rows of 'row_bytes'. */
typedef struct fx_embed_args {
    const void *table;
    fx_dtype dtype;
    size_t row_bytes;
    int64_t n_vocab, dim, n_rows;
    const int32_t *token;
    bool by_position;            /* token is the rows' positions (learned ones) */
    float scale;
    fx_mat y;
} fx_embed_args;

/* s = x (+ residual); n = s * rsqrt(mean(s^2) + eps) * (w + offset) over groups of 'dim' columns.
 * Writes what isn't NULL: sum (s), y (n, f32), q8 (n quantized).  residual.p may be NULL.
 * sum may alias x or residual; y may alias x. */
typedef struct fx_rmsnorm_args {
    fx_cmat x, residual;
    const float *w;              /* [dim] */
    float eps, w_offset;
    int64_t n_rows, dim, n_groups;   /* columns = dim * n_groups; q8 needs n_groups == 1 */
    fx_mat sum, y;
    fx_q8 q8;                    /* data NULL: not wanted */
} fx_rmsnorm_args;

/* y = (x - mean) / sqrt(variance + eps) * (w + w_offset) + b, over groups of 'dim' columns; w NULL: 1,
 * b NULL: 0.  y may alias x. */
typedef struct fx_layernorm_args {
    fx_cmat x;
    fx_mat y;
    const float *w, *b;
    int64_t w_step, b_step;      /* from group to group: dim, or 0 where all groups share them */
    float eps, w_offset;
    int64_t n_rows, dim, n_groups;
} fx_layernorm_args;

/* q8 = quantize(x). */
typedef struct fx_quant_args {
    fx_cmat x;
    int64_t n_rows;
    fx_q8 q8;
} fx_quant_args;

/* What happens to a tile of a product while it is in cache: called with the tile
 * acc[m][n] (f32, row distance ld) of rows [row0, row0+m) and columns [col0, col0+n). */
typedef struct fx_epilogue fx_epilogue;
struct fx_epilogue {
    void (*fn)(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n);
    fx_mat y;
    fx_cmat residual;            /* added after the bias; p NULL: none. May alias y. */
    const float *bias;           /* [columns] or NULL */
    float scale;                 /* of the product, before the bias; 1 usually */
};

/* y = epilogue(x @ w^T). w packed in tiles of 16 rows (= 16 columns of y): tile t holds
 * columns [16t, 16t+16); columns past n are zero rows and are not given to the epilogue.
 * With paired (gate·up) weights, tiles 2t and 2t+1 hold gate and up rows of the same 16
 * columns, n counts the columns of y, and a task is such a pair: y = silu(gate) * up. */
typedef struct fx_matmul_args {
    fx_cmat x;                   /* [n_rows, k] for kernels with f32 activations */
    fx_q8 q8;                    /* ... with quantized ones */
    const uint8_t *w;            /* packed; tile_bytes apart, 64-byte aligned */
    size_t tile_bytes;
    int64_t n_rows, n, k;
    bool paired;
    fx_epilogue epi;
} fx_matmul_args;

typedef enum fx_rope_style {
    FX_ROPE_HALF,               /* neox: pairs (i, i+rot/2) */
    FX_ROPE_PAIRS               /* (2i, 2i+1) */
} fx_rope_style;

/* Per row: optional RMS norm of each head of q and of k, rotation of q and k by the row's
 * position, q to q_out (may alias q), k and v to the KV page of the row. kv_heads 0: nothing
 * is stored (a layer that reads another's state). One task a row. */
typedef struct fx_rope_store_args {
    fx_cmat q, k, v;             /* columns heads*head_dim, kv_heads*head_dim, kv_heads*v_dim */
    fx_mat q_out;
    const float *q_norm, *k_norm;   /* [head_dim] or NULL */
    float eps, norm_offset;      /* offset: added to both */
    bool norm_last;              /* after the rotation */
    fx_rope_style style;
    int32_t rot_dim;             /* leading columns of a head that rotate; 0: none */
    const float *inv_freq;       /* [rot_dim/2] radians per position */
    float attn_scale;            /* factor on cos and sin (yarn); 1 usually */
    int32_t heads, kv_heads, head_dim, v_dim;
    fx_dtype kv_dtype;
    size_t k_offset, v_offset;   /* of the layer in a page */
    const fx_step *step;
} fx_rope_store_args;

/* out[r, h] = softmax(scale * q[r, h] . K[0..pos]) V over the paged state; heads/kv_heads
 * query heads share a kv head.  Key blocks of 32 at absolute positions, in order.
 * 'shared' is memory of all tasks of the launch, zeroed before its first use and then left
 * alone between launches: with it the keys of long sequences may be cut among tasks, for
 * which a few sequences of a step alone are too few.  Bits don't depend on it. */
typedef struct fx_attend_args {
    fx_cmat q;
    fx_mat out;                  /* [n_rows, heads*v_dim] */
    int32_t heads, kv_heads, head_dim, v_dim;
    float scale;
    int32_t window;              /* 0: whole context */
    float softcap;               /* 0: none */
    const float *slopes;         /* [heads]: score -= slope * (position - key's); NULL: none */
    fx_dtype kv_dtype;
    size_t k_offset, v_offset;
    void *shared;                /* 64-byte aligned, or NULL */
    size_t shared_bytes;         /* FX_ATTEND_SHARED is plenty; with less, less is cut */
    const fx_step *step;
} fx_attend_args;
#define FX_ATTEND_SHARED ((size_t)8 << 20)

/* y[i] = x[rows[i]] */
typedef struct fx_gather_args {
    fx_cmat x;
    fx_mat y;
    const int32_t *rows;
    int64_t n_rows, dim;
} fx_gather_args;

/* Elementwise over rows: y = a op b (b ignored by unary ops). b_row: b is one row for all. */
typedef struct fx_map_args {
    fx_cmat a, b;
    fx_mat y;
    int64_t n_rows, dim;
    bool b_row;
    float alpha;                 /* SCALE: factor; CLAMP: limit */
} fx_map_args;

/* y = softmax(x) by row. */
typedef struct fx_softmax_args {
    fx_cmat x;
    fx_mat y;
    int64_t n_rows, dim;
} fx_softmax_args;

#endif
