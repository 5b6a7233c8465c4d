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
typedef enum fx_param_kind { FX_PARAM_I64, FX_PARAM_F64, FX_PARAM_BOOL } fx_param_kind;

typedef struct fx_param {
    size_t at;                   /* in fx_model_params */
    fx_param_kind kind;
    bool required;
    const char *gguf, *hf;       /* NULL: this family has no such key */
} fx_param;
#define FX_PARAM(field, kind, required, gguf, hf) \
    { offsetof(fx_model_params, field), FX_PARAM_##kind, required, gguf, hf }

typedef struct fx_build fx_build;

struct fx_arch {
    const char *name;            /* general.architecture of GGUF, and ours */
    const char *hf_name;         /* of "architectures" in config.json */
    const char *gguf_name;       /* NULL: GGUF doesn't tell it from another */
    const fx_param *params;      /* beside those that all decoders have; ends in {0} */
    /* Style of rotation of GGUF's q and k rows (the converter permutes some) and of the hub's. */
    fx_rope_style gguf_rope, hf_rope;
    bool rope_factors;           /* GGUF may bring rope_freqs.weight */
    /* Refuses what this build doesn't do; may be NULL. */
    fx_status (*check)(const fx_weights *w, const fx_model_params *p, fx_error *err);
    fx_value *(*block)(fx_build *b, fx_value *x, int64_t layer);
};

#define ARCH(name) extern const fx_arch fx_arch_##name;
#include "models/all.def"

/* Fills p from the file; checks ranges. */
fx_status fx_params_read(const fx_arch *arch, const fx_weights *w, fx_model_params *p, fx_error *err);

/* ---- Rotation ------------------------------------------------------------------------- */

typedef struct fx_rope {
    float *inv_freq;             /* [rot_dim/2], scaled */
    double attn_scale;           /* on cos and sin */
} fx_rope;
fx_status fx_rope_read(const fx_arch *arch, const fx_weights *w, const fx_model_params *p, fx_arena *a, fx_rope *out,
                       fx_error *err);

/* ---- Building ---------------------------------------------------------------------------- */

#define FX_ONCE (-1)             /* layer of a tensor that isn't one of a layer's */

struct fx_build {
    const fx_arch *arch;
    const fx_weights *weights;
    const fx_model_params *p;
    fx_nn nn;
    fx_nn_attn attn;             /* of the layer being built; block may change it */
    char scope[32];
};

/* The tensor of a role ("attn_q", "attn_q.bias"), as a weight of this shape.  A fault
 * names the tensor; then NULL. */
fx_value *fx_w1(fx_build *b, int64_t layer, const char *role, int64_t n);
fx_value *fx_w2(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols);
/* NULL without a fault if the file has none. */
fx_value *fx_w1_opt(fx_build *b, int64_t layer, const char *role, int64_t n);
bool fx_w_exists(const fx_build *b, int64_t layer, const char *role);
/* The name of a role's tensor in this file; false: the family has no such role. */
bool fx_role_name(const fx_weights *w, int64_t layer, const char *role, char *out, size_t cap);

/* x @ w^T of a role, with the bias of the role "<role>.bias" where asked for. */
fx_value *fx_b_linear(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t rows, int64_t cols, bool bias);
/* down(silu(gate x) * up x), the feed-forward part that most share. */
fx_value *fx_b_swiglu(fx_build *b, int64_t layer, fx_value *x);

#endif
