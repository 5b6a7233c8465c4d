/* qwen3.c - Qwen3 dense: Llama blocks, with a norm on each head's q and k. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

const fx_arch fx_arch_qwen3 = {
    .name = "qwen3", .hf_name = "Qwen3ForCausalLM", .gguf_name = "qwen3",
    .params = params, .defaults = { .qk_norm = true },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = fx_qwen_adjust, .layers = fx_qwen_layers, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(kv_heads, I64, 32), FX_DEFAULT(head_dim, I64, 128),
                                FX_DEFAULT(window, I64, 4096)),
};
