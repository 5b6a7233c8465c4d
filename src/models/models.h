/* models.h - the architectures: from a file's metadata and weights to a graph.
 *
 * One file an architecture (llama.c), one line each in all.def.  An architecture says
 * which parameters it reads (a table), which tensors by role, and builds the clear,
 * unfused graph with the words of graph/nn.h.  Loader, KV cache, scheduler and server learn of it only by
 * what is in fx_model_desc.
 *
 *     fx_model_desc d;
 *     st = fx_model_build(&arena, weights, &(fx_model_options){ .mode = FX_MODE_AUTO }, &d, err);
 *
 * The step graph: inputs tokens i32[rows] and logit_rows i32[outs]; outputs the logits
 * f32[outs,vocab] of those rows, and the chain of its effects on the KV pages.
 *
 * Every tensor used is checked against the parameters: "blk.3.attn_q.weight: expected
 * [576,576], found [576,192]".  Tensors that nobody asks for are left alone. */
#ifndef FX_MODELS_H
#define FX_MODELS_H

#include "format/gguf_write.h"
#include "format/weights.h"
#include "graph/graph.h"
#include "tensor/mode.h"

typedef struct fx_model_options {
    fx_dtype_mode mode;          /* decides here only what kv_auto means */
    bool kv_auto;                /* f16, in exact mode f32 */
    fx_dtype kv_dtype;           /* else this */
    int32_t page_tokens;         /* 0: 32; a multiple of 32 */
    int64_t max_context;         /* 0: the model's own; may not be more */
    bool adapters;               /* every product of the files is one of the graph, that adapters may change it */
    bool hidden;                 /* the step's output is the last layer's rows after the last norm, not logits */
} fx_model_options;

typedef struct fx_arch fx_arch;

typedef enum fx_activation {
    FX_ACTIV_SILU, FX_ACTIV_GELU, FX_ACTIV_GELU_TANH, FX_ACTIV_GELU_QUICK, FX_ACTIV_RELU, FX_ACTIV_RELU2,
    FX_ACTIV_SIGMOID, FX_ACTIV_TANH, FX_ACTIV_NONE
} fx_activation;

/* What a layer does otherwise than the others. */
enum {
    FX_LAYER_WINDOW = 1,         /* attention sees 'window' positions */
    FX_LAYER_NOPE = 2,           /* nothing rotates */
    FX_LAYER_DENSE = 4,          /* feed-forward without experts */
    FX_LAYER_LINEAR = 8          /* recurrent instead of attention */
};

/* Recurrent layers. */
typedef struct fx_recurrent_params {
    int64_t conv_width, inner;   /* of the convolution; columns of the scan */
    int64_t state, groups, heads;    /* numbers of a channel; groups of b and c; Mamba 2's heads */
    int64_t dt_rank;             /* Mamba 1 */
    int64_t key_heads, value_heads, key_dim, value_dim;   /* delta rule */
    bool conv_bias, proj_bias;
    double dt_min, dt_max;
} fx_recurrent_params;

/* A mixture of experts; experts 0: there are none. */
typedef struct fx_moe_params {
    int64_t experts, top, ffn;   /* of an expert; 0: the model's */
    int64_t shared_ffn;          /* of the experts that all rows have, together */
    int64_t score;               /* fx_route_score of tensor/args.h */
    int64_t groups, top_groups, group_best;
    int64_t dense_layers, step;  /* the first layers have none; then every step-th has */
    bool normalize;              /* weights of the chosen sum to 1 */
    bool bias;                   /* of experts and router */
    bool turned;                 /* a hub folder's tensors of both gate and up are [in, out], alternating */
    bool shared_gate;
    bool choice_bias;            /* the file has a vector that counts for the choice only */
    double scale;                /* of the weights */
    double alpha, limit;         /* of the clamped activation; alpha 0: the model's activation */
} fx_moe_params;

/* Latent attention: keys and values come from one narrow row; kv_rank 0: there is none.  A head's key is
 * 'nope' columns that don't rotate, then the model's rot_dim that do and are the same in all heads. */
typedef struct fx_mla_params {
    int64_t q_rank;              /* 0: q is one product */
    int64_t kv_rank, nope;
    bool expanded;               /* keys and values are kept by head */
} fx_mla_params;

/* What is known of a model; sizes in elements. */
typedef struct fx_model_params {
    const fx_arch *arch;         /* that read them; NULL: an encoder */
    int64_t embed_dim;           /* of the embedding table's rows; 0: dim */
    int64_t dim, layers, heads, kv_heads, head_dim, v_dim, ffn, vocab, context;
    double eps, attn_scale;      /* of scores; 0: 1/sqrt(head_dim) */
    bool tied;                   /* output weights are the embedding table */
    bool attention_bias, out_bias, mlp_bias, head_bias;   /* of q, k, v; of what follows attention; of logits */
    fx_activation act;
    bool parallel;               /* attention and feed-forward read the same rows */
    bool qk_norm;
    int64_t window;              /* positions that attention sees; 0: all */
    const uint8_t *layer_flags;  /* [layers] FX_LAYER_*; NULL: all have the window, if there is one */
    int64_t rot_dim;             /* columns of a head that rotate; -1: rot_part of it */
    double rot_part;
    double rope_theta, rope_local;   /* local: of layers with a window; 0: the same */
    double embed_scale, residual_scale, logit_scale;      /* factors; 1: none */
    double attn_softcap, logit_softcap, qkv_limit;        /* 0: none */
    fx_moe_params moe;
    fx_recurrent_params rec;
    fx_mla_params mla;
} fx_model_params;

typedef struct fx_model_desc {
    const char *arch;            /* "llama" */
    fx_str name;                 /* the file's own, or empty */
    fx_module *module;
    fx_graph *step;              /* the graph "step" */
    fx_state_table state;        /* laid out for kv dtype and page_tokens */
    fx_model_params params;
    int64_t vocab;               /* columns of logits */
    int64_t max_context;
    bool hidden;                 /* the output is f32[outs,dim]: asked for, or there is nothing else */
    bool both_ways;              /* rows see their whole sequence, which one step must hold */
} fx_model_desc;

/* Everything lives in 'arena'; 'w' is only read. */
fx_status fx_model_build(fx_arena *arena, const fx_weights *w, const fx_model_options *opt, fx_model_desc *out,
                         fx_error *err);

/* A hub folder's model as a GGUF would hold it, without its tokenizer; EUNSUP where that isn't known here. */
typedef struct fx_export {
    fx_weight *tensors;          /* [n] under GGUF's names; their data is the folder's */
    int64_t *turn;               /* [n] 0, or heads in each of which row 2i + s of the file is row s * size/2 + i */
    size_t n;
    int64_t vocab;               /* rows of the embedding table */
} fx_export;
fx_status fx_model_export(fx_arena *arena, const fx_weights *w, fx_gguf_keys *keys, fx_export *out, fx_error *err);

/* The architectures known, for messages and listings. */
size_t fx_arch_count(void);
const char *fx_arch_name(size_t i);                   /* "llama" */

#endif
