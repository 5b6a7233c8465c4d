/* glm.c - GLM-4 (9B): Llama blocks with biases on q, k, v, gate and up in one tensor; half of a head rotates, by
 * neighbouring pairs.  GGUF calls it "chatglm". */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

const fx_arch fx_arch_glm = {
    .name = "glm", .hf_name = "GlmForCausalLM", .gguf_name = "chatglm",
    .params = params, .defaults = { .attention_bias = true, .rot_part = 0.5, .eps = 1.5625e-7 },
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_PAIRS, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 131072), FX_DEFAULT(kv_heads, I64, 2),
                                FX_DEFAULT(head_dim, I64, 128)),
};
