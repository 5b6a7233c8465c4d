/* qwen2.c - Qwen2: Llama blocks with biases on q, k and v; later layers may have a window. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* The window counts only where use_sliding_window says so. */
fx_status fx_qwen_adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool use = false;

    if (fx_weights_kind_of(w) != FX_WEIGHTS_HUB)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_bool(w, "use_sliding_window", &use, err));
    if (!use)
        p->window = 0;
    return FORNAX_OK;
}

/* Layers from max_window_layers on have it. */
fx_status fx_qwen_layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    int64_t full = 28;

    if (fx_weights_kind_of(w) != FX_WEIGHTS_HUB || !p->window)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_i64(w, "max_window_layers", &full, err));
    for (int64_t i = 0; i < p->layers && i < full; i++)
        flags[i] = 0;
    return FORNAX_OK;
}

const fx_arch fx_arch_qwen2 = {
    .name = "qwen2", .hf_name = "Qwen2ForCausalLM", .gguf_name = "qwen2",
    .params = params, .defaults = { .attention_bias = true },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = fx_qwen_adjust, .layers = fx_qwen_layers, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(kv_heads, I64, 32), FX_DEFAULT(window, I64, 4096)),
};
