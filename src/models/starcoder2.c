/* starcoder2.c - StarCoder2: layer norms, a plain feed-forward part with GELU, biases everywhere, a window. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(eps, F64, false, NULL, "norm_epsilon"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "use_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "use_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "use_bias"),
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static const fx_tensor_name names[] = {
    { "ffn_up", "model.layers.%d.mlp.c_fc" },
    { "ffn_down", "model.layers.%d.mlp.c_proj" },
    { NULL, NULL },
};

const fx_arch fx_arch_starcoder2 = {
    .name = "starcoder2", .hf_name = "Starcoder2ForCausalLM", .gguf_name = "starcoder2", .params = params,
    .names = names, .norm = FX_NORM_LAYER, .norm_bias = true, .plain_mlp = true,
    .defaults = { .tied = true, .act = FX_ACTIV_GELU_TANH, .eps = 1e-5, .attention_bias = true, .out_bias = true,
                  .mlp_bias = true },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 4096), FX_DEFAULT(kv_heads, I64, 2)),
};
