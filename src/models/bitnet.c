/* bitnet.c - BitNet b1.58 with its weights as plain numbers: Llama blocks with squared ReLU gates, and a norm
 * before each output product. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    const fx_model_params *p = b->p;
    fx_value *h = fx_b_attend(b, i, fx_b_norm(b, i, "attn_norm", x));

    h = fx_b_norm_of(b, i, "attn_sub_norm", h, 1, p->heads * p->v_dim);
    h = fx_b_product(b, i, "attn_output", h, p->dim, p->heads * p->v_dim, p->out_bias);
    x = fx_nn_add(&b->nn, "attn_residual", x, h);
    h = fx_b_gated(b, i, fx_b_norm(b, i, "ffn_norm", x));
    h = fx_b_norm_of(b, i, "ffn_sub_norm", h, 1, p->ffn);
    return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_product(b, i, "ffn_down", h, p->dim, p->ffn, false));
}

static const fx_tensor_name names[] = {
    { "attn_sub_norm", "model.layers.%d.self_attn.attn_sub_norm" },
    { "ffn_sub_norm", "model.layers.%d.mlp.ffn_sub_norm" },
    { NULL, NULL },
};

const fx_arch fx_arch_bitnet = {
    .name = "bitnet", .hf_name = "BitNetForCausalLM", .params = params, .names = names,
    .defaults = { .act = FX_ACTIV_RELU2, .eps = 1e-5 }, .hf_rope = FX_ROPE_HALF, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048), FX_DEFAULT(kv_heads, I64, 5),
                                FX_DEFAULT(rope_theta, F64, 500000)),
};
