/* olmoe.c - OLMoE: norms over all of q and of k, then a limit on q, k and v; experts. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(moe.experts, I64, true, "expert_count", "num_experts"),
    FX_PARAM(moe.experts, I64, false, NULL, "num_local_experts"),
    FX_PARAM(moe.top, I64, true, "expert_used_count", "num_experts_per_tok"),
    FX_PARAM(moe.normalize, BOOL, false, "expert_weights_norm", "norm_topk_prob"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(qkv_limit, F64, false, "attention.clamp_kqv", "clip_qkv"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    static const char *const roles[] = { "attn_q", "attn_k", "attn_v" };
    static const char *const norms[] = { "attn_q_norm", "attn_k_norm" };
    const fx_model_params *p = b->p;
    int64_t cols[] = { p->heads * p->head_dim, p->kv_heads * p->head_dim, p->kv_heads * p->v_dim };
    fx_value *h = fx_b_norm(b, i, "attn_norm", x), *qkv[3];

    for (int k = 0; k < 3; k++) {
        qkv[k] = fx_b_product(b, i, roles[k], h, cols[k], p->dim, p->attention_bias);
        if (k < 2)
            qkv[k] = fx_b_norm_of(b, i, norms[k], qkv[k], 1, cols[k]);
        if (p->qkv_limit > 0)
            qkv[k] = fx_nn_clamp(&b->nn, "qkv_clamp", qkv[k], p->qkv_limit);
    }
    qkv[0] = fx_nn_rope(&b->nn, &b->attn, "q_rope", qkv[0]);
    qkv[1] = fx_nn_rope(&b->nn, &b->attn, "k_rope", qkv[1]);
    h = fx_nn_attend(&b->nn, &b->attn, qkv[0], qkv[1], qkv[2]);
    h = fx_b_product(b, i, "attn_output", h, p->dim, p->heads * p->v_dim, p->out_bias);
    x = fx_nn_add(&b->nn, "attn_residual", x, h);
    return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_mlp(b, i, fx_b_norm(b, i, "ffn_norm", x)));
}

const fx_arch fx_arch_olmoe = {
    .name = "olmoe", .hf_name = "OlmoeForCausalLM", .gguf_name = "olmoe",
    .params = params, .defaults = { .eps = 1e-5 },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 4096), FX_DEFAULT(moe.experts, I64, 64),
                                FX_DEFAULT(moe.top, I64, 8)),
};
