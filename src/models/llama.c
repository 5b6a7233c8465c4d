/* llama.c - Llama: norm, attention, residual; norm, SwiGLU, residual.
 *
 * GGUF's "llama" is also what Mistral, SmolLM and others are converted to.  Its converter
 * reorders the rows of q and k so that neighbours rotate together; the hub's files
 * rotate halves.  MistralForCausalLM is the same network without biases, some
 * of them with a window; the pages behind it are kept all the same. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* GGUF tells of biases by having them. */
static bool has_bias(const fx_build *b, int64_t layer, const char *role, bool config)
{
    return fx_weights_kind_of(b->weights) == FX_WEIGHTS_GGUF ? fx_w_exists(b, layer, role) : config;
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    const fx_model_params *p = b->p;
    fx_nn *nn = &b->nn;
    bool bias = has_bias(b, i, "attn_q.bias", p->attention_bias);
    fx_value *h, *q, *k, *v;

    h = fx_nn_rmsnorm(nn, "attn_norm", x, fx_w1(b, i, "attn_norm", p->dim), p->eps);
    q = fx_b_linear(b, i, "attn_q", h, p->heads * p->head_dim, p->dim, bias);
    k = fx_b_linear(b, i, "attn_k", h, p->kv_heads * p->head_dim, p->dim, bias);
    v = fx_b_linear(b, i, "attn_v", h, p->kv_heads * p->v_dim, p->dim, bias);
    q = fx_nn_rope(nn, &b->attn, "q_rope", q);
    k = fx_nn_rope(nn, &b->attn, "k_rope", k);
    h = fx_nn_attend(nn, &b->attn, q, k, v);
    bias = has_bias(b, i, "attn_output.bias", p->attention_bias);
    h = fx_b_linear(b, i, "attn_output", h, p->dim, p->heads * p->v_dim, bias);
    x = fx_nn_add(nn, "attn_residual", x, h);

    h = fx_nn_rmsnorm(nn, "ffn_norm", x, fx_w1(b, i, "ffn_norm", p->dim), p->eps);
    return fx_nn_add(nn, "ffn_residual", x, fx_b_swiglu(b, i, h));
}

static fx_status refuse(const fx_weights *w, const char *what, fx_error *err)
{
    return fx_fail_param(err, FORNAX_EUNSUP, what, "%s: %s isn't supported for this architecture", fx_weights_path(w),
                         what);
}

static fx_status check_gguf(const fx_weights *w, fx_error *err)
{
    int64_t experts = 0, window = 0;
    bool causal = true;

    FX_TRY(fx_meta_opt_i64(w, "llama.expert_count", &experts, err));
    FX_TRY(fx_meta_opt_i64(w, "llama.attention.sliding_window", &window, err));
    FX_TRY(fx_meta_opt_bool(w, "llama.attention.causal", &causal, err));
    if (experts > 0)
        return refuse(w, "llama.expert_count", err);
    if (window > 0)
        return refuse(w, "llama.attention.sliding_window", err);
    return causal ? FORNAX_OK : refuse(w, "llama.attention.causal", err);
}

static const fx_param mistral_params[] = {
    FX_PARAM(window, I64, false, NULL, "sliding_window"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_status check(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    (void)p;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return check_gguf(w, err);
    if (fx_config_find(w, "sliding_window"))
        return refuse(w, "sliding_window", err);
    return FORNAX_OK;
}

const fx_arch fx_arch_llama = {
    .name = "llama", .hf_name = "LlamaForCausalLM", .gguf_name = "llama",
    .params = params, .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF, .rope_factors = true,
    .check = check, .block = block,
};

const fx_arch fx_arch_mistral = {
    .name = "mistral", .hf_name = "MistralForCausalLM",
    .params = mistral_params, .hf_rope = FX_ROPE_HALF, .block = block,
};
