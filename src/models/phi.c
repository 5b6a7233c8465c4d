/* phi.c - Phi 1 and 2: attention beside feed-forward behind one norm, biases everywhere, part of a head rotates. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(qk_norm, BOOL, false, NULL, "qk_layernorm"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static const fx_tensor_name names[] = {
    { "output_norm", "model.final_layernorm" },
    { "attn_norm", "model.layers.%d.input_layernorm" },
    { "attn_output", "model.layers.%d.self_attn.dense" },
    { "attn_q_norm", "model.layers.%d.self_attn.q_layernorm" },
    { "attn_k_norm", "model.layers.%d.self_attn.k_layernorm" },
    { "ffn_up", "model.layers.%d.mlp.fc1" },
    { "ffn_down", "model.layers.%d.mlp.fc2" },
    { NULL, NULL },
};

const fx_arch fx_arch_phi = {
    .name = "phi", .hf_name = "PhiForCausalLM", .gguf_name = "phi2", .params = params, .names = names,
    .defaults = { .act = FX_ACTIV_GELU_TANH, .eps = 1e-5, .rot_part = 0.5, .attention_bias = true, .out_bias = true,
                  .mlp_bias = true, .head_bias = true },
    .norm = FX_NORM_LAYER, .norm_bias = true, .plain_mlp = true,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = fx_block_parallel,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048)),
};
