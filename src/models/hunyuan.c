/* hunyuan.c - Hunyuan dense: Llama blocks, with a norm on each head's q and k after they were rotated. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};
static const fx_tensor_name names[] = {
    { "attn_q_norm", "model.layers.%d.self_attn.query_layernorm" },
    { "attn_k_norm", "model.layers.%d.self_attn.key_layernorm" },
    { NULL, NULL },
};

const fx_arch fx_arch_hunyuan = {
    .name = "hunyuan", .hf_name = "HunYuanDenseV1ForCausalLM", .hf_type = "hunyuan_v1_dense", .gguf_name = "hunyuan-dense",
    .params = params, .defaults = { .qk_norm = true, .eps = 1e-5 }, .names = names, .norm_last = true,
    .ntk_alpha = true, .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048)),
};
