/* olmo.c - OLMo: Llama blocks whose layer norms have no weights, q, k and v clamped.
 * OLMo 2: norms come after attention and feed-forward, and over all of q and k. */
#include "models/models_int.h"

#define END { 0, FX_PARAM_I64, false, NULL, NULL }

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(qkv_limit, F64, false, "attention.clamp_kqv", "clip_qkv"),
    END,
};
const fx_arch fx_arch_olmo = {
    .name = "olmo", .hf_name = "OlmoForCausalLM", .gguf_name = "olmo",
    .params = params, .defaults = { .eps = 1e-5 }, .norm = FX_NORM_NONE, .hub_eps = true,
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048)),
};

static fx_value *block2(fx_build *b, fx_value *x, int64_t i)
{
    const fx_model_params *p = b->p;
    fx_value *qkv[3], *h;

    fx_b_qkv(b, i, x, qkv);
    qkv[0] = fx_b_norm_of(b, i, "attn_q_norm", qkv[0], 1, p->heads * p->head_dim);
    qkv[1] = fx_b_norm_of(b, i, "attn_k_norm", qkv[1], 1, p->kv_heads * p->head_dim);
    qkv[0] = fx_nn_rope(&b->nn, &b->attn, "q_rope", qkv[0]);
    qkv[1] = fx_nn_rope(&b->nn, &b->attn, "k_rope", qkv[1]);
    h = fx_nn_attend(&b->nn, &b->attn, qkv[0], qkv[1], qkv[2]);
    h = fx_b_product(b, i, "attn_output", h, p->dim, p->heads * p->v_dim, p->out_bias);
    x = fx_nn_add(&b->nn, "attn_residual", x, fx_b_norm(b, i, "post_attention_norm", h));
    h = fx_b_norm(b, i, "post_ffw_norm", fx_b_mlp(b, i, x));
    return fx_nn_add(&b->nn, "ffn_residual", x, h);
}

static const fx_param params2[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    END,
};
static const fx_tensor_name names2[] = {
    { "post_attention_norm", "model.layers.%d.post_attention_layernorm" },
    { NULL, NULL },
};
const fx_arch fx_arch_olmo2 = {
    .name = "olmo2", .hf_name = "Olmo2ForCausalLM", .gguf_name = "olmo2",
    .params = params2, .defaults = { .eps = 1e-5 }, .names = names2,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = block2,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048)),
};
