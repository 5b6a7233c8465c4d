/* granitemoe.c - Granite with experts, chosen by logits and weighed by a softmax over the chosen. */
#include "models/models_int.h"
#include "tensor/args.h"

static const fx_param params[] = {
    FX_PARAM(moe.experts, I64, true, "expert_count", "num_local_experts"),
    FX_PARAM(moe.top, I64, true, "expert_used_count", "num_experts_per_tok"),
    FX_PARAM(moe.shared_ffn, I64, false, "expert_shared_feed_forward_length", NULL),
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(embed_scale, F64, false, "embedding_scale", "embedding_multiplier"),
    FX_PARAM(attn_scale, F64, false, "attention.scale", "attention_multiplier"),
    FX_PARAM(residual_scale, F64, false, "residual_scale", "residual_multiplier"),
    FX_PARAM(logit_scale, F64, false, "logit_scale", "logits_scaling"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};
static const fx_tensor_name names[] = {
    { "ffn_gate_inp", "model.layers.%d.block_sparse_moe.router.layer" },
    { "ffn_gate_inp", "model.layers.%d.block_sparse_moe.router" },
    { NULL, NULL },
};

const fx_arch fx_arch_granitemoe = {
    .name = "granitemoe", .hf_name = "GraniteMoeForCausalLM", .gguf_name = "granitemoe",
    .params = params, .defaults = { .eps = 1e-6, .moe = { .score = FX_ROUTE_SOFTMAX_TOP } }, .names = names,
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF,
    .adjust = fx_granite_adjust, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048), FX_DEFAULT(moe.experts, I64, 8),
                                FX_DEFAULT(moe.top, I64, 2)),
};
