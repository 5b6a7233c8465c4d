/* phi3.c - Phi-3: Llama blocks with q, k, v in one tensor and gate and up in one; a window, part of a head rotates. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

const fx_arch fx_arch_phi3 = {
    .name = "phi3", .hf_name = "Phi3ForCausalLM", .gguf_name = "phi3",
    .params = params, .defaults = { .eps = 1e-5, .rot_part = 1 },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 4096)),
};
