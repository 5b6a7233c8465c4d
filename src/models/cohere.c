/* cohere.c - Cohere Command-R: attention beside feed-forward behind one norm without bias; neighbouring pairs
 * rotate; logits have a factor; large models norm each head of q and k with weights of its own. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(logit_scale, F64, false, "logit_scale", "logit_scale"),
    FX_PARAM(qk_norm, BOOL, false, NULL, "use_qk_norm"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_value *head_norm(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t heads)
{
    const fx_nn_norm norm = { b->p->eps, 0, heads };

    return fx_nn_layernorm(&b->nn, role, x, fx_w_flat(b, layer, role, heads, b->p->head_dim), NULL, &norm);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    const fx_model_params *p = b->p;
    fx_value *h = fx_b_norm(b, i, "attn_norm", x), *qkv[3], *a;

    fx_b_qkv(b, i, h, qkv);
    if (fx_is_gguf(b) ? fx_w_exists(b, i, "attn_q_norm") : p->qk_norm) {
        qkv[0] = head_norm(b, i, "attn_q_norm", qkv[0], p->heads);
        qkv[1] = head_norm(b, i, "attn_k_norm", qkv[1], p->kv_heads);
    }
    qkv[0] = fx_nn_rope(&b->nn, &b->attn, "q_rope", qkv[0]);
    qkv[1] = fx_nn_rope(&b->nn, &b->attn, "k_rope", qkv[1]);
    a = fx_nn_attend(&b->nn, &b->attn, qkv[0], qkv[1], qkv[2]);
    a = fx_b_product(b, i, "attn_output", a, p->dim, p->heads * p->v_dim, p->out_bias);
    return fx_nn_add(&b->nn, "ffn_residual", fx_nn_add(&b->nn, "attn_residual", x, a), fx_b_mlp(b, i, h));
}

const fx_arch fx_arch_cohere = {
    .name = "cohere", .hf_name = "CohereForCausalLM", .gguf_name = "command-r", .params = params,
    .defaults = { .tied = true, .eps = 1e-5, .logit_scale = 0.0625 }, .norm = FX_NORM_LAYER,
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_PAIRS, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 8192), FX_DEFAULT(rope_theta, F64, 500000)),
};
