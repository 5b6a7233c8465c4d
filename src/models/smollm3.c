/* smollm3.c - SmolLM3: Llama blocks; in every fourth layer nothing rotates. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* A list that says for each layer whether it rotates, or every so many layers one that doesn't. */
static fx_status layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    bool hub = fx_weights_kind_of(w) == FX_WEIGHTS_HUB;
    json_t *list = hub ? fx_config_find(w, "no_rope_layers") : NULL;
    int64_t step = 4;

    if (hub)
        FX_TRY(fx_config_opt_i64(w, "no_rope_layer_interval", &step, err));
    FX_TRY(fx_param_limit(w, "no_rope_layer_interval", step, 1, INT64_MAX, err));
    if (list && (!json_is_array(list) || (int64_t)json_array_size(list) < p->layers))
        return fx_param_fail(w, FORNAX_EFORMAT, "no_rope_layers", err, "expected a list of %lld", (long long)p->layers);
    for (int64_t i = 0; i < p->layers; i++) {
        json_t *item = json_array_get(list, (size_t)i);
        bool rotates = list ? json_is_true(item) || json_integer_value(item) != 0 : (i + 1) % step != 0;

        if (!rotates)
            flags[i] |= FX_LAYER_NOPE;
        if (rotates && hub)
            flags[i] &= (uint8_t)~FX_LAYER_WINDOW;       /* a window is for the others */
    }
    return FORNAX_OK;
}

const fx_arch fx_arch_smollm3 = {
    .name = "smollm3", .hf_name = "SmolLM3ForCausalLM", .gguf_name = "smollm3",
    .params = params, .defaults = { .tied = true },
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF,
    .adjust = fx_qwen_adjust, .layers = layers, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(kv_heads, I64, 4), FX_DEFAULT(rope_theta, F64, 2000000)),
};
