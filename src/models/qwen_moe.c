/* qwen_moe.c - Qwen2-MoE: Qwen2 with experts, beside which a gated one serves all rows.
 * Qwen3-MoE: Qwen3 with experts.  Some layers may have none. */
#include "models/models_int.h"

#define END { 0, FX_PARAM_I64, false, NULL, NULL }
#define EXPERTS                                                                              \
    FX_PARAM(moe.experts, I64, true, "expert_count", "num_experts"),                         \
    FX_PARAM(moe.experts, I64, false, NULL, "num_local_experts"),                            \
    FX_PARAM(moe.top, I64, true, "expert_used_count", "num_experts_per_tok"),                \
    FX_PARAM(moe.ffn, I64, false, "expert_feed_forward_length", "moe_intermediate_size"),    \
    FX_PARAM(moe.normalize, BOOL, false, NULL, "norm_topk_prob"),                            \
    FX_PARAM(moe.step, I64, false, NULL, "decoder_sparse_step")

static const fx_param params2[] = {
    EXPERTS,
    FX_PARAM(moe.shared_ffn, I64, false, "expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "qkv_bias"),
    FX_PARAM(window, I64, false, NULL, "sliding_window"),
    END,
};
static const fx_param params3[] = {
    EXPERTS,
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(window, I64, false, NULL, "sliding_window"),
    END,
};

/* Older GGUF files leave out what follows from other sizes. */
static fx_status adjust2(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF) {
        if (!p->moe.ffn && p->moe.top > 0)
            p->moe.ffn = p->ffn / p->moe.top;
        if (!p->moe.shared_ffn)
            p->moe.shared_ffn = p->ffn;
    }
    return fx_qwen_adjust(w, p, err);
}

/* GGUF doesn't say that Qwen3's weights are normalized. */
static fx_status adjust3(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        p->moe.normalize = true;
    return fx_qwen_adjust(w, p, err);
}

/* Layers named in mlp_only_layers have no experts. */
fx_status fx_qwen_dense_layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    json_t *list = fx_weights_kind_of(w) == FX_WEIGHTS_HUB ? fx_config_find(w, "mlp_only_layers") : NULL, *item;
    size_t i;

    if (list && !json_is_array(list))
        return fx_param_fail(w, FORNAX_EFORMAT, "mlp_only_layers", err, "expected a list of layers");
    json_array_foreach(list, i, item) {
        if (!json_is_integer(item))
            return fx_param_fail(w, FORNAX_EFORMAT, "mlp_only_layers", err, "expected a layer at place %zu", i);
        if (json_integer_value(item) >= 0 && json_integer_value(item) < p->layers)
            flags[json_integer_value(item)] |= FX_LAYER_DENSE;
    }
    return FORNAX_OK;
}

/* Where windows are used, every other of the first max_window_layers has one. */
static fx_status layers2(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    int64_t most = 28;

    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB)
        FX_TRY(fx_config_opt_i64(w, "max_window_layers", &most, err));
    for (int64_t i = 0; i < p->layers; i++) {
        if (i % 2 == 1 || i >= most)
            flags[i] &= (uint8_t)~FX_LAYER_WINDOW;
    }
    return fx_qwen_dense_layers(w, p, flags, err);
}

const fx_arch fx_arch_qwen2_moe = {
    .name = "qwen2_moe", .hf_name = "Qwen2MoeForCausalLM", .gguf_name = "qwen2moe",
    .params = params2, .defaults = { .attention_bias = true, .moe = { .shared_gate = true } },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = adjust2, .layers = layers2, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(kv_heads, I64, 16), FX_DEFAULT(window, I64, 4096),
                                FX_DEFAULT(moe.experts, I64, 60), FX_DEFAULT(moe.top, I64, 4),
                                FX_DEFAULT(moe.ffn, I64, 1408), FX_DEFAULT(moe.shared_ffn, I64, 5632)),
};

const fx_arch fx_arch_qwen3_moe = {
    .name = "qwen3_moe", .hf_name = "Qwen3MoeForCausalLM", .gguf_name = "qwen3moe",
    .params = params3, .defaults = { .qk_norm = true },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = adjust3, .layers = fx_qwen_dense_layers, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(kv_heads, I64, 4), FX_DEFAULT(window, I64, 4096),
                                FX_DEFAULT(moe.experts, I64, 128), FX_DEFAULT(moe.top, I64, 8),
                                FX_DEFAULT(moe.ffn, I64, 768)),
};
