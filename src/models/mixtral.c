/* mixtral.c - Mixtral: Mistral with experts, whose weights sum to 1. GGUF has it as a llama. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(window, I64, false, NULL, "sliding_window"),
    FX_PARAM(moe.experts, I64, true, NULL, "num_local_experts"),
    FX_PARAM(moe.experts, I64, false, NULL, "num_experts"),
    FX_PARAM(moe.top, I64, true, NULL, "num_experts_per_tok"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};
static const fx_tensor_name names[] = {
    { "ffn_gate_inp", "model.layers.%d.block_sparse_moe.gate" },
    { "ffn_gate_inp", "model.layers.%d.mlp.gate" },
    { NULL, NULL },
};

const fx_arch fx_arch_mixtral = {
    .name = "mixtral", .hf_name = "MixtralForCausalLM",
    .params = params, .defaults = { .rope_theta = 1e6, .moe = { .normalize = true } }, .names = names,
    .hf_rope = FX_ROPE_HALF, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 131072), FX_DEFAULT(eps, F64, 1e-5),
                                FX_DEFAULT(kv_heads, I64, 8), FX_DEFAULT(moe.experts, I64, 8),
                                FX_DEFAULT(moe.top, I64, 2)),
};
