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
/* Rounds whole blocks of some rows into q8 (kernels/quant.h). */
typedef void (*fx_q8_put_fn)(const fx_q8 *q8, int64_t n_rows, int64_t row, int64_t m, int64_t col0, int64_t n, fx_cmat x);

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
    /* fx_epilogue_add: for each row what is added to its sums, or NULL; then 'then' goes on. */
    const float *const *addend;
    void (*then)(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n);
    /* fx_epilogue_round: what 'store' has made of y is rounded into q8 by 'put', a block once it is whole; y.p NULL: the sums are. */
    fx_q8 q8;                    /* data NULL: it isn't wanted */
    fx_q8_put_fn put;
    void (*store)(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n);
    const int64_t *n_rows;       /* of the product */
    const void *call;            /* of a generated fn: which, with what (runtime/exec_calls.c) */
};

/* What is read after a product, for whose sake it may ask for it: 'bytes' at base + page_bytes * pages[i], i < n. */
typedef struct fx_ahead {
    const uint8_t *base;
    const fx_page *pages;
    int64_t n;
    size_t page_bytes, bytes;
} fx_ahead;

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
    const fx_ahead *ahead;       /* NULL: nothing; kernels that have no use for it leave it */
} fx_matmul_args;

/* y[:, h] = x[:, h] @ w_h^T for each head h; m is head 0's, whose x and y are the first k and n columns of
 * theirs. Each by the matmul kernel. */
typedef struct fx_by_head_args {
    fx_matmul_args m;
    int64_t n_rows, heads;
    size_t head_bytes;           /* from one head's weights to the next one's */
    void (*run)(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch);
    size_t (*scratch_bytes)(const fx_matmul_args *a);   /* or NULL */
} fx_by_head_args;

typedef enum fx_rope_style {
    FX_ROPE_HALF,               /* neox: pairs (i, i+rot/2) */
    FX_ROPE_PAIRS               /* (2i, 2i+1) */
} fx_rope_style;

/* Per row: optional RMS norm of each head of q and of k, rotation of q and k by the row's
 * position, q to q_out (may alias q), k and v to the KV page of the row. kv_heads 0: nothing
 * is stored (a layer that reads another's state); v.p NULL: values are part of keys. One task a row. */
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
    /* Sequences whose length_class c is more than long_from > 0: with growth g, pair i turns slower by
     * (g c / long_from - (g - 1))^(-2i / (rot_dim - 2)); else by inv_freq[rot_dim/2 + i]. */
    int32_t long_from;
    float growth;
    int32_t heads, kv_heads, head_dim, v_dim;
    fx_dtype kv_dtype;
    int32_t column;              /* of the page tables that holds the layer */
    size_t k_offset, v_offset;   /* of the layer in a page of it */
    bool k_free;                 /* nobody reads k afterwards */
    bool turned;                 /* q and k are normed and rotated already, in q_out and k: what is left is to store */
    const fx_step *step;
} fx_rope_store_args;

/* out[r, h] = softmax(scale * q[r, h] . K[0..pos]) V over the paged state; heads/kv_heads
 * query heads share a kv head.  Key blocks of 32 at absolute positions, in order.
 * 'shared' is memory of all tasks of the launch, zeroed before its first use and then left
 * alone between launches: with it the keys of long sequences may be cut among tasks, for
 * which a few sequences of a step alone are too few.  Bits don't depend on it.
 * latent: V[j] is the last v_dim components of K[j], as it is stored. */
typedef struct fx_attend_args {
    fx_cmat q;
    fx_mat out;                  /* [n_rows, heads*v_dim] */
    fx_q8 q8;                    /* out rounded, v_dim being a multiple of 32; data NULL: not wanted */
    int32_t heads, kv_heads, head_dim, v_dim;
    float scale;
    int32_t window;              /* 0: whole context; FX_WINDOW_BOTH: also what follows the row in its sequence */
    float softcap;               /* 0: none */
    const float *slopes;         /* [heads]: score -= slope * (position - key's); NULL: none */
    bool latent;
    const float *sinks;          /* [heads]: score of one more key, whose value is 0; NULL: none */
    fx_dtype kv_dtype;
    int32_t column;              /* as in fx_rope_store_args */
    size_t k_offset, v_offset;
    void *shared;                /* 64-byte aligned, or NULL */
    size_t shared_bytes;         /* FX_ATTEND_SHARED is plenty; with less, less is cut */
    const fx_step *step;
} fx_attend_args;
/* Encoders: a row sees all keys of its sequence, whose rows must all be in the step or before. */
#define FX_WINDOW_BOTH (-1)
#define FX_ATTEND_SHARED ((size_t)8 << 20)

/* Causal convolution of each column with its own 'width' weights: y[j] = bias + sum of w[k] x[j - width + 1 + k],
 * the inputs before a sequence's rows from its slot ([width - 1][dim], oldest first). y may not alias x. */
typedef struct fx_conv1d_args {
    fx_cmat x;
    fx_mat y;
    const float *w;              /* [dim][width] */
    const float *bias;           /* [dim] or NULL */
    int64_t dim, width;
    bool silu;                   /* of the result */
    size_t offset;               /* of the layer's inputs in a slot */
    const fx_step *step;
} fx_conv1d_args;

/* Selective scan (Mamba): a state of n_state numbers for each of heads * head_dim channels:
 *     dt = min(max(softplus(dt + dt_bias), dt_min), dt_max)
 *     h = exp(dt * a) * h + dt * x * b;   y = sum of c * h + d * x
 * dt, dt_bias, d and a by head, b and c by group of heads.  In a slot: [n_state][channels]. */
typedef struct fx_ssm_scan_args {
    fx_cmat x, dt, b, c;         /* columns heads*head_dim, heads, groups*n_state, the same */
    fx_mat y;
    const float *a, *d, *dt_bias;    /* [heads] or [heads][n_state]; [heads] or NULL; the same */
    int32_t heads, head_dim, groups, n_state;
    bool a_per_state;
    bool log_a;                  /* a is stored as log(-a) */
    float dt_min, dt_max;
    size_t offset;               /* of the layer's state in a slot */
    const fx_step *step;
} fx_ssm_scan_args;

/* Gated delta rule: a matrix S [k_dim][v_dim] for each value head, in a slot in order of heads.  q and k are brought
 * to length 1 (q then divided by sqrt(k_dim)); v_heads / k_heads value heads in turn share a key head.
 *     S = exp(a_log * softplus(a + dt_bias)) * S;   S += k (sigmoid(b) * (v - S^T k))^T;   y = S^T q */
typedef struct fx_delta_rule_args {
    fx_cmat q, k, v, b, a;       /* columns k_heads*k_dim twice, v_heads*v_dim, v_heads twice */
    fx_mat y;
    const float *a_log, *dt_bias;    /* [v_heads] */
    int32_t k_heads, v_heads, k_dim, v_dim;
    bool log_a;                  /* a_log is stored as log(-a_log) */
    bool tiled;                  /* value head h uses key head h % k_heads instead */
    size_t offset;
    const fx_step *step;
} fx_delta_rule_args;

/* y = norm(x * silu(z)) * w where gate_first, else norm(x) * w * silu(z); the norm is RMS over groups of
 * 'dim' columns. y may alias x or z. */
typedef struct fx_gated_norm_args {
    fx_cmat x, z;
    fx_mat y;
    const float *w;
    int64_t w_step;              /* from group to group: dim, or 0 where all share w */
    float eps;
    bool gate_first;
    int64_t n_rows, dim, n_groups;
} fx_gated_norm_args;

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

/* Which experts a row chooses, and with what weight (kernels/experts.c).  Scores come from the
 * logits; the choice is by score + bias, ties to the lower number; where there are groups, only
 * experts of the top_groups best groups may be chosen. */
typedef enum fx_route_score {
    FX_ROUTE_SOFTMAX,            /* over all experts */
    FX_ROUTE_SIGMOID,
    FX_ROUTE_SOFTMAX_TOP         /* the choice is by logits; softmax over the chosen */
} fx_route_score;
#define FX_MAX_GROUPS 64
typedef struct fx_route_args {
    fx_cmat logits;              /* [n_rows, experts] */
    const float *bias;           /* [experts], for the choice only; or NULL */
    fx_mat y;                    /* [n_rows, 2 * top]: numbers, then weights */
    int64_t n_rows;
    int32_t experts, top, groups, top_groups, group_best;
    fx_route_score score;
    bool normalize;
    float scale;
} fx_route_args;

/* The slots of a step: (row, choice) pairs sorted by expert, then by row: what an expert multiplies
 * lies side by side.  'table' is made by dispatch; its layout is private to kernels/. */
typedef struct fx_dispatch_args {
    fx_cmat routes;
    fx_mat table;                /* [n_rows, fx_experts_table_cols()] of int32 */
    int64_t n_rows;
    int32_t experts, top;
} fx_dispatch_args;

/* Columns of the table's buffer: enough for any number of rows. */
static inline int64_t fx_experts_table_cols(int64_t experts, int64_t top) { return 2 * (experts + 1) + 2 * top; }

/* y or q8 = the rows of x by slot; x_slots: x is in slots already (and only rounded). */
typedef struct fx_slots_args {
    fx_cmat x, table;
    fx_mat y;                    /* [n_rows * top, dim], rows dim apart; p NULL: not wanted */
    fx_q8 q8;                    /* of each expert's slots apart; k == dim */
    int64_t n_rows, dim;
    int32_t experts, top;
    bool x_slots;
} fx_slots_args;

/* The product of slots with their experts' weights, each by the matmul kernel. */
typedef struct fx_expert_matmul_args {
    fx_matmul_args m;            /* of the whole: w of expert 0, x and y of slot 0, bias [experts, n] */
    fx_cmat table;
    int64_t n_rows;
    int32_t experts, top;
    bool x_slots;                /* what adapters multiply (in[4], else x) is in slots; else in rows */
    size_t expert_bytes;         /* from one expert's weights to the next one's */
    void (*run)(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch);
    size_t (*scratch_bytes)(const fx_matmul_args *a);   /* or NULL */
} fx_expert_matmul_args;

/* y = act(gate) * up by element of n_rows * slots rows of dim. */
typedef enum fx_glu_act {
    FX_GLU_SILU, FX_GLU_GELU, FX_GLU_GELU_TANH, FX_GLU_RELU,
    FX_GLU_CLAMPED               /* g = min(gate, limit); u = clamp(up, limit): g * sigmoid(alpha g) * (u + 1) */
} fx_glu_act;
typedef struct fx_glu_args {
    fx_cmat gate, up;            /* up.p NULL: in gate's rows, by layout */
    fx_mat y;
    int64_t n_rows, dim;
    int32_t slots;               /* rows of dim in each row */
    bool interleaved;            /* gate and up alternate; else one follows the other */
    fx_glu_act act;
    float alpha, limit;
} fx_glu_args;

/* y[r] = sum over j = 0.. of weight[r][j] * x[slot of (r, j)], in this order. */
typedef struct fx_combine_args {
    fx_cmat x, routes, table;
    fx_mat y;
    int64_t n_rows, dim;
    int32_t experts, top;
} fx_combine_args;

/* By head: a_len columns of a's from a_start on, then b_len of b's; widths: from head to head, 0: one for all. */
typedef struct fx_splice_args {
    fx_cmat a, b;
    fx_mat y;
    int64_t n_rows, heads, a_width, a_start, a_len, b_width, b_len;
} fx_splice_args;

/* How the weight of experts' gate and up lie in tensors; down follows in orientation. */
typedef enum fx_expert_layout {
    FX_EXPERTS_APART,            /* a tensor each */
    FX_EXPERTS_HALVES,           /* one tensor: an expert's gate rows, then its up rows */
    FX_EXPERTS_TRANSPOSED,       /* one tensor, gate and up alternating; all as [experts, columns, rows] */
    FX_EXPERTS_BLOCKS            /* one tensor, gate and up alternating; MXFP4 as "x_blocks" of nibbles, "x_scales" */
} fx_expert_layout;

#endif
