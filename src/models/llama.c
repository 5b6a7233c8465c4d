/* llama.c - Llama and what is Llama but for names and biases: Mistral, Qwen2, Seed-OSS, Ernie 4.5, EXAONE, Arcee.
 *
 * GGUF's "llama" is also what Mistral, SmolLM and others are converted to.  Its converter
 * reorders the rows of q and k so that neighbours rotate together; the hub's files
 * rotate halves (but Ernie's). */
#include "models/models_int.h"

#define END { 0, FX_PARAM_I64, false, NULL, NULL }

static fx_status check(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    bool causal = true;

    (void)p;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        FX_TRY(fx_meta_opt_bool(w, "llama.attention.causal", &causal, err));
    return causal ? FORNAX_OK : fx_param_refuse(w, "llama.attention.causal", err);
}

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    FX_PARAM(window, I64, false, "attention.sliding_window", NULL),
    FX_PARAM(moe.experts, I64, false, "expert_count", NULL),     /* Mixtral is a llama there */
    FX_PARAM(moe.top, I64, false, "expert_used_count", NULL),
    END,
};
const fx_arch fx_arch_llama = {
    .name = "llama", .hf_name = "LlamaForCausalLM", .gguf_name = "llama",
    .params = params, .defaults = { .moe = { .normalize = true } },
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF, .rope_factors = true,
    .check = check, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048), FX_DEFAULT(eps, F64, 1e-6)),
};

static const fx_param mistral_params[] = {
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),
    END,
};

/* The text part of Mistral 3 may be another model. */
static fx_status check_mistral(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    fx_str type = FX_STR("mistral");

    (void)p;
    FX_TRY(fx_config_opt_str(w, "text_config.model_type", &type, err));
    return fx_str_is(type, "mistral") ? FORNAX_OK : fx_param_refuse(w, "text_config.model_type", err);
}

const fx_arch fx_arch_mistral = {
    .name = "mistral", .hf_name = "MistralForCausalLM", .hf_outer = "Mistral3ForConditionalGeneration",
    .params = mistral_params, .hf_rope = FX_ROPE_HALF, .check = check_mistral, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 131072), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(kv_heads, I64, 8), FX_DEFAULT(window, I64, 4096)),
};

static const fx_param arcee_params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    END,
};
const fx_arch fx_arch_arcee = {
    .name = "arcee", .hf_name = "ArceeForCausalLM", .gguf_name = "arcee",
    .params = arcee_params, .defaults = { .act = FX_ACTIV_RELU2, .eps = 1e-5 }, .plain_mlp = true,
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF, .rope_factors = true, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 4096)),
};

static const fx_param seed_params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_out_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    END,
};
const fx_arch fx_arch_seed_oss = {
    .name = "seed_oss", .hf_name = "SeedOssForCausalLM", .gguf_name = "seed_oss",
    .params = seed_params, .defaults = { .attention_bias = true, .eps = 1e-6 },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 524288), FX_DEFAULT(kv_heads, I64, 8),
                                FX_DEFAULT(head_dim, I64, 128)),
};

static const fx_param ernie_params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "use_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "use_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "use_bias"),
    END,
};
const fx_arch fx_arch_ernie4_5 = {
    .name = "ernie4_5", .hf_name = "Ernie4_5ForCausalLM", .gguf_name = "ernie4_5",
    .params = ernie_params, .defaults = { .tied = true, .eps = 1e-5 },
    .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_PAIRS, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 131072), FX_DEFAULT(kv_heads, I64, 2),
                                FX_DEFAULT(head_dim, I64, 128), FX_DEFAULT(rope_theta, F64, 500000)),
};

static const fx_param exaone_params[] = {
    FX_PARAM(layers, I64, false, NULL, "num_layers"),
    FX_PARAM(eps, F64, false, NULL, "layer_norm_epsilon"),
    FX_PARAM(act, ACT, false, NULL, "activation_function"),
    END,
};
const fx_arch fx_arch_exaone = {
    .name = "exaone", .hf_name = "ExaoneForCausalLM", .gguf_name = "exaone",
    .params = exaone_params, .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .rope_factors = true,
    .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048), FX_DEFAULT(eps, F64, 1e-5)),
};
