/* models_int.h - what an architecture's file is written with (models/ only). */
#ifndef FX_MODELS_INT_H
#define FX_MODELS_INT_H

#include "graph/nn.h"
#include "models/models.h"

/* ---- Parameters ----------------------------------------------------------------------
 *
 * A row says where a number goes and what it is called: in GGUF metadata behind the
 * architecture's prefix ("llama." + key), in config.json as a path.  Several rows may
 * fill one field: the first that the file has wins. */
typedef enum fx_param_kind {
    FX_PARAM_I64,
    FX_PARAM_F64,
    FX_PARAM_BOOL,
    FX_PARAM_ACT                 /* an activation, by the names that configurations use */
} fx_param_kind;

typedef struct fx_param {
    size_t at;                   /* in fx_model_params */
    fx_param_kind kind;
    bool required;
    const char *gguf, *hf;       /* NULL: this family has no such key */
} fx_param;
#define FX_PARAM(field, kind, required, gguf, hf) \
    { offsetof(fx_model_params, field), FX_PARAM_##kind, required, gguf, hf }

/* A number that config.json means where it lacks the key; the last of a list is 0. */
typedef struct fx_default {
    size_t at;                   /* in fx_model_params */
    fx_param_kind kind;          /* I64 or F64 */
    double value;
} fx_default;
#define FX_DEFAULT(field, kind, value) { offsetof(fx_model_params, field), FX_PARAM_##kind, value }
#define FX_DEFAULTS(...) (const fx_default[]) { __VA_ARGS__, { 0, FX_PARAM_I64, 0 } }

typedef struct fx_build fx_build;

/* What a role's tensor is called in a hub folder, where it isn't as usual (tensor_names.c); the first of a
 * role's names that the file has counts. */
typedef struct fx_tensor_name {
    const char *role, *form;     /* "%d": the layer */
} fx_tensor_name;

typedef enum fx_norm_kind { FX_NORM_RMS, FX_NORM_LAYER, FX_NORM_NONE } fx_norm_kind;

/* How a hub folder's one tensor of q, k and v is laid out (GGUF's: q, then k, then v). */
typedef enum fx_qkv_layout {
    FX_QKV_ROWS,                 /* q, then k, then v */
    FX_QKV_GROUPS                /* for each kv head: its q heads, k, v */
} fx_qkv_layout;

struct fx_arch {
    const char *name;            /* general.architecture of GGUF, and ours */
    const char *hf_name;         /* of "architectures" in config.json */
    const char *hf_type;         /* of "model_type", which tells where "architectures" is missing; NULL: 'name' */
    const char *hf_outer;        /* of a model of more kinds, of which this is the part for text; or NULL */
    const char *gguf_name;       /* NULL: GGUF doesn't tell it from another */
    const fx_param *params;      /* beside those that all decoders have, and before them; ends in {0} */
    fx_model_params defaults;    /* of what a file doesn't say; 0: as usual */
    const fx_default *hub_defaults;      /* beside and before them, in hub folders; may be NULL */
    const fx_tensor_name *names; /* ends in {0}; NULL: as usual */
    fx_norm_kind norm;
    bool norm_bias;              /* layer norms have one */
    bool hub_eps;                /* norms' epsilon in hub folders is that of 'defaults' */
    double hf_norm_offset;       /* added to a hub folder's norm weights (GGUF's have it in them) */
    bool norm_last;              /* head norms come after the rotation */
    fx_qkv_layout hf_qkv;
    bool hf_transposed;          /* weights of a layer's products are [in, out] */
    bool plain_mlp;              /* down(act(up x)) instead of down(act(gate x) * up x) */
    /* Style of rotation of GGUF's q and k rows (the converter permutes some) and of the hub's. */
    fx_rope_style gguf_rope, hf_rope;
    bool rope_factors;           /* GGUF may bring rope_freqs.weight */
    bool hf_mxfp4;               /* its folders may hold experts so */
    bool ntk_alpha;              /* "dynamic" scaling with an alpha is fixed */
    struct { double factor, context; } hub_yarn;     /* YaRN's, not truncated, where config.json has no scaling */
    /* Refuses what this build doesn't do; may be NULL. */
    fx_status (*check)(const fx_weights *w, const fx_model_params *p, fx_error *err);
    /* Completes p by what tables of keys can't say; may be NULL. */
    fx_status (*adjust)(const fx_weights *w, fx_model_params *p, fx_error *err);
    /* Flags of the layers where the file has no list of kinds; may be NULL. */
    fx_status (*layers)(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err);
    /* What a recurrent layer keeps: sets conv_len and scan_len; NULL: the architecture has none. */
    void (*state)(const fx_model_params *p, fx_state_layer *l);
    fx_value *(*embed)(fx_build *b, fx_value *tokens);      /* NULL: the table, times embed_scale */
    fx_value *(*block)(fx_build *b, fx_value *x, int64_t layer);
    fx_value *(*finish)(fx_build *b, fx_value *x);          /* before the logits; NULL: output_norm */
};

#define ARCH(name) extern const fx_arch fx_arch_##name;
#include "models/all.def"

/* The architecture that a file names. */
fx_status fx_arch_of(const fx_weights *w, const fx_arch **out, fx_error *err);
/* Fills p from the file; checks ranges. */
fx_status fx_params_read(const fx_arch *arch, const fx_weights *w, fx_arena *a, fx_model_params *p, fx_error *err);
#define FX_PARAM_KEY 128
/* The file's key of a field of p (by its offset), of what the field follows from if the file has none. */
void fx_param_key(const fx_weights *w, const fx_model_params *p, size_t at, char key[FX_PARAM_KEY]);
/* A fault that names a key of the file: "FOLDER/config.json: num_heads: ...". */
fx_status fx_param_fail(const fx_weights *w, fx_status st, const char *key, fx_error *err, const char *fmt, ...)
    FX_PRINTF(5, 6);
/* Whether n, the value of a key, lies in a range; the same for the integer of p at an offset. */
fx_status fx_param_limit(const fx_weights *w, const char *key, int64_t n, int64_t lo, int64_t hi, fx_error *err);
fx_status fx_param_range(const fx_weights *w, const fx_model_params *p, size_t at, const char *what, int64_t lo,
                         int64_t hi, fx_error *err);
/* EUNSUP that names a key of the file. */
fx_status fx_param_refuse(const fx_weights *w, const char *key, fx_error *err);
/* A key of this file's architecture in GGUF ("gemma2." + key), or of config.json; the value stays if
 * the file has none. NULL names: its family has no such key. */
fx_status fx_param_opt_i64(const fx_arch *arch, const fx_weights *w, const char *gguf, const char *hf, int64_t *io,
                           fx_error *err);

/* ---- Rotation ------------------------------------------------------------------------- */

typedef struct fx_rope {
    float *inv_freq;             /* [n], scaled: rot_dim/2, or twice that, see long_from */
    int64_t n;
    double attn_scale;           /* on cos and sin */
    int64_t long_from;           /* as in ops.def */
    double growth;
    int64_t context;             /* to which the model is stretched; 0: its own */
} fx_rope;
/* local: of the layers with a window, where they turn otherwise. */
fx_status fx_rope_read(const fx_arch *arch, const fx_weights *w, const fx_model_params *p, bool local, fx_arena *a,
                       fx_rope *out, fx_error *err);

/* ---- Building ---------------------------------------------------------------------------- */

#define FX_ONCE (-1)             /* layer of a tensor that isn't one of a layer's */

struct fx_build {
    const fx_arch *arch;
    const fx_weights *weights;
    const fx_model_params *p;
    fx_nn nn;
    fx_nn_attn attn;             /* of the layer being built; block may change it */
    const fx_rope *rope, *rope_local;
    fx_value *inv_freq, *inv_freq_local;     /* NULL: nothing rotates; no others */
    char scope[32];
    bool hidden;                 /* no logits */
};

/* The tensor of a role ("attn_q", "attn_q.bias"), as a weight of this shape.  A fault
 * names the tensor; then NULL. */
fx_value *fx_w1(fx_build *b, int64_t layer, const char *role, int64_t n);
fx_value *fx_w2(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols);
fx_value *fx_w_role(fx_build *b, int64_t layer, const char *role, const int64_t *shape, int rank);
/* A matrix as one long vector. */
fx_value *fx_w_flat(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols);
/* A tensor by its name in the file. */
fx_value *fx_w_named(fx_build *b, const char *name, const int64_t *shape, int rank);
/* NULL without a fault if the file has none. */
/* A matrix, or with cols 0 a vector, that may have axes of length 1 as well; a vector in any shape. */
fx_value *fx_w_loose(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols);
fx_value *fx_w1_opt(fx_build *b, int64_t layer, const char *role, int64_t n);
bool fx_w_exists(const fx_build *b, int64_t layer, const char *role);
/* The name of a role's tensor in this file; false: the family has no such role. */
bool fx_role_name(const fx_arch *arch, const fx_weights *w, int64_t layer, const char *role, char *out, size_t cap);
/* ... and in GGUF files. */
bool fx_role_gguf_name(int64_t layer, const char *role, char *out, size_t cap);
/* A tensor's usual hub name as this file has it ("layers." for "model.layers."); GGUF's stay. */
void fx_hub_name(const fx_arch *arch, const fx_weights *w, const char *form, char *out, size_t cap);
bool fx_is_gguf(const fx_build *b);

/* x @ w^T of a role, with the bias of the role "<role>.bias" where asked for. */
fx_value *fx_b_linear(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t rows, int64_t cols, bool bias);
/* The same; a GGUF file tells of biases by having them. */
fx_value *fx_b_product(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t rows, int64_t cols, bool bias);

/* ---- Words that architectures share (model_parts.c) ---------------------------------------- */

/* The norm of a role, of the architecture's kind. */
fx_value *fx_b_norm(fx_build *b, int64_t layer, const char *role, fx_value *x);
/* The same over 'groups' equal parts of x's columns; its weights are n numbers: a part's, or all. */
fx_value *fx_b_norm_of(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t groups, int64_t n);
fx_value *fx_b_activation(fx_build *b, const char *name, fx_value *x);
/* x + h * residual_scale */
fx_value *fx_b_residual(fx_build *b, const char *name, fx_value *x, fx_value *h);
/* x * factor; x itself where that is 1. */
fx_value *fx_b_scale(fx_build *b, const char *name, fx_value *x, double factor);
/* q, k and v of x, from three tensors or one. */
void fx_b_qkv(fx_build *b, int64_t layer, fx_value *x, fx_value *qkv[3]);
/* q, k, v, head norms, rotation, attention, without the product that follows. */
fx_value *fx_b_attend(fx_build *b, int64_t layer, fx_value *x);
fx_value *fx_b_attention(fx_build *b, int64_t layer, fx_value *x);
/* The feed-forward part, plain or gated. */
fx_value *fx_b_mlp(fx_build *b, int64_t layer, fx_value *x);
/* act(gate x) * up x, from two tensors or one. */
fx_value *fx_b_gated(fx_build *b, int64_t layer, fx_value *x);
fx_value *fx_b_swiglu(fx_build *b, int64_t layer, fx_value *x);
/* Latent attention (model_mla.c): reads its sizes, which come before others; builds it. */
fx_status fx_mla_read(const fx_arch *arch, const fx_weights *w, fx_model_params *p, fx_error *err);
fx_value *fx_b_mla(fx_build *b, int64_t layer, fx_value *x);
/* Whether a layer has experts; what they make of x (model_moe.c). fx_b_mlp asks. */
bool fx_b_has_experts(const fx_build *b, int64_t layer);
fx_value *fx_b_moe(fx_build *b, int64_t layer, fx_value *x);
/* Rows of a weight: see ROWS in ops.def. */
fx_value *fx_b_rows(fx_build *b, fx_value *w, int64_t start, int64_t n, int64_t run, int64_t stride);
/* Positions of the rows, an input of the graph. */
fx_value *fx_b_positions(fx_build *b);
/* ALiBi's slopes of all heads, of which 'round' makes numbers as the model knows them. */
fx_value *fx_b_alibi(fx_build *b, float (*round)(const fx_build *b, float slope));

/* Recurrent layers (model_recurrent.c). */
bool fx_b_is_recurrent(const fx_build *b, int64_t layer);
/* The convolution of a role over x's columns; act: and the model's activation. */
fx_value *fx_b_conv(fx_build *b, int64_t layer, const char *role, fx_value *x, bool bias, bool act);
/* Mamba 1's mixer; norms: of dt, b and c. */
fx_value *fx_b_mamba(fx_build *b, int64_t layer, fx_value *x, bool norms);
/* Sizes of recurrent layers are in range; needs: bit i for row i of the table there. Mamba 1's are. */
fx_status fx_recurrent_check(const fx_weights *w, const fx_model_params *p, unsigned needs, fx_error *err);
/* dt_rank of config.json: a number, or "auto" (also where it is missing). */
fx_status fx_recurrent_rank(const fx_weights *w, const char *key, fx_model_params *p, fx_error *err);
fx_status fx_mamba_check(const fx_weights *w, const fx_model_params *p, fx_error *err);
/* All layers are recurrent: what only attention needs gets values that change nothing. */
void fx_recurrent_only(fx_model_params *p);
void fx_mamba_state(const fx_model_params *p, fx_state_layer *l);

/* Windows as Qwen's configurations have them (qwen2.c). */
fx_status fx_qwen_adjust(const fx_weights *w, fx_model_params *p, fx_error *err);
fx_status fx_qwen_layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err);
fx_status fx_qwen_dense_layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err);
/* Granite's factors (granite.c). */
fx_status fx_granite_adjust(const fx_weights *w, fx_model_params *p, fx_error *err);

/* Blocks that architectures share. */
fx_value *fx_block_sequential(fx_build *b, fx_value *x, int64_t layer);   /* attn_norm, attention; ffn_norm, mlp */
/* Attention and feed-forward side by side; from one norm, or from ffn_norm too if the file has it. */
fx_value *fx_block_parallel(fx_build *b, fx_value *x, int64_t layer);

#endif
