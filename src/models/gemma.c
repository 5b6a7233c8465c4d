/* gemma.c - Gemma, Gemma 2 and Gemma 3: embeddings times sqrt(dim), GELU gates, norm weights of which 1 is left out.
 *
 * 2: norms around attention and feed-forward, caps on scores and logits, a window in every
 *    other layer.
 * 3: head norms instead of caps; five layers in six have a window and another rope base. */
#include <math.h>

#include "models/models_int.h"

#define END { 0, FX_PARAM_I64, false, NULL, NULL }

/* query_pre_attn_scalar is what scores are divided by the root of; GGUF leaves it out: the size
 * of a head, but in the largest models, dim / heads. */
static void set_scale(const fx_weights *w, fx_model_params *p, int64_t large_layers)
{
    if (fx_weights_kind_of(w) != FX_WEIGHTS_GGUF)
        p->attn_scale = 1 / sqrt(p->attn_scale > 0 ? p->attn_scale : 256);
    else if (p->layers == large_layers && p->heads > 0)
        p->attn_scale = 1 / sqrt((double)(p->dim / p->heads));
    else
        p->attn_scale = 0;
}

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool both = false;

    if (fx_weights_kind_of(w) != FX_WEIGHTS_GGUF)
        FX_TRY(fx_config_opt_bool(w, "use_bidirectional_attention", &both, err));
    p->embed_scale = sqrt((double)p->dim);
    return both ? fx_param_refuse(w, "use_bidirectional_attention", err) : FORNAX_OK;
}

/* Early files say "gelu" and mean its approximation. */
static fx_status adjust1(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    if (p->act == FX_ACTIV_GELU)
        p->act = FX_ACTIV_GELU_TANH;
    return adjust(w, p, err);
}

static fx_status adjust2(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    set_scale(w, p, 46);
    return adjust(w, p, err);
}

static fx_status adjust3(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    set_scale(w, p, 62);
    return adjust(w, p, err);
}

/* All layers have the window but each 'step'-th. */
static void every(const fx_model_params *p, int64_t step, uint8_t *flags)
{
    for (int64_t i = 0; i < p->layers; i++) {
        if ((i + 1) % step == 0)
            flags[i] &= (uint8_t)~FX_LAYER_WINDOW;
    }
}

static fx_status layers2(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    (void)w, (void)err;
    every(p, 2, flags);
    return FORNAX_OK;
}

static fx_status layers3(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    int64_t step = 6;

    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB)
        FX_TRY(fx_config_opt_i64(w, "sliding_window_pattern", &step, err));
    FX_TRY(fx_param_limit(w, "sliding_window_pattern", step, 1, INT64_MAX, err));
    every(p, step, flags);
    return FORNAX_OK;
}

/* Each part's result is normed before it is added. */
static fx_value *block2(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h = fx_b_attention(b, i, fx_b_norm(b, i, "attn_norm", x));

    x = fx_nn_add(&b->nn, "attn_residual", x, fx_b_norm(b, i, "post_attention_norm", h));
    h = fx_b_mlp(b, i, fx_b_norm(b, i, "ffn_norm", x));
    return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_norm(b, i, "post_ffw_norm", h));
}

static const fx_param params1[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    END,
};
#define LATER                                                                                               \
    FX_PARAM(act, ACT, false, NULL, "hidden_activation"),                                                   \
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),                                          \
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),                                                \
    FX_PARAM(attn_scale, F64, false, NULL, "query_pre_attn_scalar"),                                        \
    FX_PARAM(logit_softcap, F64, false, "final_logit_softcapping", "final_logit_softcapping"),              \
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),                             \
    FX_PARAM(rope_local, F64, false, "rope.freq_base_swa", "rope_parameters.sliding_attention.rope_theta"), \
    FX_PARAM(rope_local, F64, false, NULL, "rope_local_base_freq")

static const fx_param params2[] = {
    LATER,
    FX_PARAM(attn_softcap, F64, false, "attn_logit_softcapping", "attn_logit_softcapping"),
    END,
};
static const fx_param params3[] = { LATER, END };        /* attn_logit_softcapping has no effect in it */
static const fx_tensor_name names2[] = {
    { "post_attention_norm", "model.layers.%d.post_attention_layernorm" },
    { "ffn_norm", "model.layers.%d.pre_feedforward_layernorm" },
    { NULL, NULL },
};

#define GEMMA .tied = true, .head_dim = 256, .eps = 1e-6, .act = FX_ACTIV_GELU_TANH
const fx_arch fx_arch_gemma = {
    .name = "gemma", .hf_name = "GemmaForCausalLM", .gguf_name = "gemma",
    .params = params1, .defaults = { GEMMA }, .hf_norm_offset = 1,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = adjust1, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 8192), FX_DEFAULT(kv_heads, I64, 16)),
};
const fx_arch fx_arch_gemma2 = {
    .name = "gemma2", .hf_name = "Gemma2ForCausalLM", .gguf_name = "gemma2",
    .params = params2, .defaults = { GEMMA }, .names = names2, .hf_norm_offset = 1,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = adjust2, .layers = layers2, .block = block2,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 8192), FX_DEFAULT(kv_heads, I64, 4),
                                FX_DEFAULT(window, I64, 4096), FX_DEFAULT(attn_softcap, F64, 50),
                                FX_DEFAULT(logit_softcap, F64, 30)),
};
const fx_arch fx_arch_gemma3 = {
    .name = "gemma3", .hf_name = "Gemma3ForCausalLM", .hf_type = "gemma3_text",
    .hf_outer = "Gemma3ForConditionalGeneration", .gguf_name = "gemma3",
    .params = params3, .defaults = { GEMMA, .rope_theta = 1000000, .rope_local = 10000, .qk_norm = true },
    .names = names2, .hf_norm_offset = 1,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = adjust3, .layers = layers3, .block = block2,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 131072), FX_DEFAULT(heads, I64, 8),
                                FX_DEFAULT(kv_heads, I64, 4), FX_DEFAULT(window, I64, 4096),
                                FX_DEFAULT(vocab, I64, 262208), FX_DEFAULT(dim, I64, 2304),
                                FX_DEFAULT(layers, I64, 26), FX_DEFAULT(ffn, I64, 9216)),
};
