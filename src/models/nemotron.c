/* nemotron.c - Nemotron: layer norms of whose weights 1 is left out, squared ReLU, part of a head rotates. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(eps, F64, false, NULL, "norm_eps"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

const fx_arch fx_arch_nemotron = {
    .name = "nemotron", .hf_name = "NemotronForCausalLM", .gguf_name = "nemotron", .params = params,
    .defaults = { .act = FX_ACTIV_RELU2, .eps = 1e-5, .rot_part = 0.5 },
    .norm = FX_NORM_LAYER, .norm_bias = true, .hf_norm_offset = 1, .plain_mlp = true,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 4096)),
};
