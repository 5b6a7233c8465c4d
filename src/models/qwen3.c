/* qwen3.c - Qwen3 dense: Llama blocks, with a norm on each head's q and k. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    const fx_model_params *p = b->p;
    fx_nn *nn = &b->nn;
    bool bias = p->attention_bias;
    fx_value *h, *q, *k, *v;

    h = fx_nn_rmsnorm(nn, "attn_norm", x, fx_w1(b, i, "attn_norm", p->dim), p->eps);
    q = fx_b_linear(b, i, "attn_q", h, p->heads * p->head_dim, p->dim, bias);
    k = fx_b_linear(b, i, "attn_k", h, p->kv_heads * p->head_dim, p->dim, bias);
    v = fx_b_linear(b, i, "attn_v", h, p->kv_heads * p->v_dim, p->dim, bias);
    q = fx_nn_rmsnorm(nn, "q_norm", q, fx_w1(b, i, "attn_q_norm", p->head_dim), p->eps);
    k = fx_nn_rmsnorm(nn, "k_norm", k, fx_w1(b, i, "attn_k_norm", p->head_dim), p->eps);
    q = fx_nn_rope(nn, &b->attn, "q_rope", q);
    k = fx_nn_rope(nn, &b->attn, "k_rope", k);
    h = fx_nn_attend(nn, &b->attn, q, k, v);
    h = fx_b_linear(b, i, "attn_output", h, p->dim, p->heads * p->v_dim, bias);
    x = fx_nn_add(nn, "attn_residual", x, h);

    h = fx_nn_rmsnorm(nn, "ffn_norm", x, fx_w1(b, i, "ffn_norm", p->dim), p->eps);
    return fx_nn_add(nn, "ffn_residual", x, fx_b_swiglu(b, i, h));
}

static fx_status check(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    bool window = false;

    (void)p;
    if (fx_weights_kind_of(w) != FX_WEIGHTS_HUB)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_bool(w, "use_sliding_window", &window, err));
    if (window)
        return fx_fail_param(err, FORNAX_EUNSUP, "use_sliding_window",
                             "%s: use_sliding_window isn't supported for this architecture", fx_weights_path(w));
    return FORNAX_OK;
}

const fx_arch fx_arch_qwen3 = {
    .name = "qwen3", .hf_name = "Qwen3ForCausalLM", .gguf_name = "qwen3",
    .params = params, .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .check = check, .block = block,
};
