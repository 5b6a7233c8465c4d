/* deepseek_v2.c - DeepSeek-V2: latent attention; after some dense layers experts, chosen from the best
 * groups, beside shared ones.  norm_topk_prob has no meaning in it: its weights are never normalized.
 * DeepSeek-V3: scores are sigmoids; the choice, of groups by their two best, is by score and a bias.  GGUF has one name for both. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(moe.experts, I64, true, "expert_count", "n_routed_experts"),
    FX_PARAM(moe.experts, I64, false, NULL, "num_local_experts"),
    FX_PARAM(moe.top, I64, true, "expert_used_count", "num_experts_per_tok"),
    FX_PARAM(moe.ffn, I64, true, "expert_feed_forward_length", "moe_intermediate_size"),
    FX_PARAM(moe.shared_ffn, I64, false, "expert_shared_count", "n_shared_experts"),     /* as yet: how many */
    FX_PARAM(moe.scale, F64, false, "expert_weights_scale", "routed_scaling_factor"),
    FX_PARAM(moe.dense_layers, I64, false, "leading_dense_block_count", "first_k_dense_replace"),
    FX_PARAM(moe.groups, I64, false, "expert_group_count", "n_group"),
    FX_PARAM(moe.top_groups, I64, false, "expert_group_used_count", "topk_group"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};
static const fx_tensor_name names[] = {
    { "ffn_gate_shexp", "model.layers.%d.mlp.shared_experts.gate_proj" },
    { "ffn_up_shexp", "model.layers.%d.mlp.shared_experts.up_proj" },
    { "ffn_down_shexp", "model.layers.%d.mlp.shared_experts.down_proj" },
    { "exp_probs_b", "model.layers.%d.mlp.gate.e_score_correction_bias!" },
    { NULL, NULL },
};

static fx_status refuse(const fx_weights *w, const char *key, fx_str value, fx_error *err)
{
    return fx_param_fail(w, FORNAX_EUNSUP, key, err, "\"%s\" isn't supported for this architecture", FX_SHOW(value));
}

static fx_status adjust_hub(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    fx_str method = FX_STR("greedy"), score = FX_STR("softmax");
    int64_t step = 1;

    FX_TRY(fx_config_opt_str(w, "topk_method", &method, err));
    FX_TRY(fx_config_opt_str(w, "scoring_func", &score, err));
    FX_TRY(fx_config_opt_i64(w, "moe_layer_freq", &step, err));
    if (fx_str_is(method, "greedy"))
        p->moe.groups = p->moe.top_groups = 1;
    else if (!fx_str_is(method, "group_limited_greedy"))
        return refuse(w, "topk_method", method, err);
    if (!fx_str_is(score, "softmax"))
        return refuse(w, "scoring_func", score, err);
    return step == 1 ? FORNAX_OK : fx_param_refuse(w, "moe_layer_freq", err);
}

static fx_status by_sigmoid(fx_model_params *p, bool normalize)
{
    p->moe.score = FX_ROUTE_SIGMOID;
    p->moe.group_best = 2;
    p->moe.normalize = normalize;
    p->moe.choice_bias = true;
    return FORNAX_OK;
}

static fx_status adjust_v3_hub(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    fx_str method = FX_STR("noaux_tc"), score = FX_STR("sigmoid");
    bool normalize = true, pairs = true;

    FX_TRY(fx_config_opt_str(w, "topk_method", &method, err));
    FX_TRY(fx_config_opt_str(w, "scoring_func", &score, err));
    FX_TRY(fx_config_opt_bool(w, "norm_topk_prob", &normalize, err));
    FX_TRY(fx_config_opt_bool(w, "rope_interleave", &pairs, err));
    if (!fx_str_is(method, "noaux_tc"))
        return refuse(w, "topk_method", method, err);
    if (!fx_str_is(score, "sigmoid"))
        return refuse(w, "scoring_func", score, err);
    return by_sigmoid(p, normalize);
}

/* 1: softmax; 2: sigmoid. */
static fx_status adjust_gguf(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    int64_t gating = 1;
    bool normalize = false;

    FX_TRY(fx_meta_opt_i64(w, "deepseek2.expert_gating_func", &gating, err));
    FX_TRY(fx_meta_opt_bool(w, "deepseek2.expert_weights_norm", &normalize, err));
    if (gating == 2)
        return by_sigmoid(p, normalize);
    if (gating > 1)
        return fx_param_refuse(w, "deepseek2.expert_gating_func", err);
    return normalize ? fx_param_refuse(w, "deepseek2.expert_weights_norm", err) : FORNAX_OK;
}

static fx_status finish(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    p->moe.shared_ffn *= p->moe.ffn;
    return fx_mla_read(&fx_arch_deepseek_v2, w, p, err);
}

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    FX_TRY(fx_weights_kind_of(w) == FX_WEIGHTS_GGUF ? adjust_gguf(w, p, err) : adjust_hub(w, p, err));
    return finish(w, p, err);
}

static fx_status adjust_v3(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    FX_TRY(adjust_v3_hub(w, p, err));
    return finish(w, p, err);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h;

    if (fx_is_gguf(b))
        b->attn.attn_scale = 1;          /* there, all that YaRN scales is in the factor of the scores */
    h = fx_b_mla(b, i, fx_b_norm(b, i, "attn_norm", x));
    x = fx_nn_add(&b->nn, "attn_residual", x, h);
    return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_mlp(b, i, fx_b_norm(b, i, "ffn_norm", x)));
}

/* V3's folders may say that halves rotate; adjust has checked the type. */
static fx_value *block_v3(fx_build *b, fx_value *x, int64_t i)
{
    bool pairs = true;

    (void)fx_config_opt_bool(b->weights, "rope_interleave", &pairs, NULL);
    b->attn.style = pairs ? FX_ROPE_PAIRS : FX_ROPE_HALF;
    return block(b, x, i);
}

const fx_arch fx_arch_deepseek_v2 = {
    .name = "deepseek_v2", .hf_name = "DeepseekV2ForCausalLM", .gguf_name = "deepseek2",
    .params = params, .names = names, .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_PAIRS,
    .adjust = adjust, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(moe.experts, I64, 64), FX_DEFAULT(moe.ffn, I64, 1407),
                                FX_DEFAULT(moe.shared_ffn, I64, 2)),
};

const fx_arch fx_arch_deepseek_v3 = {
    .name = "deepseek_v3", .hf_name = "DeepseekV3ForCausalLM",
    .params = params, .names = names, .hf_rope = FX_ROPE_PAIRS,
    .adjust = adjust_v3, .block = block_v3,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 4096), FX_DEFAULT(eps, F64, 1e-6),
                                FX_DEFAULT(moe.experts, I64, 256), FX_DEFAULT(moe.ffn, I64, 2048),
                                FX_DEFAULT(moe.top, I64, 8), FX_DEFAULT(moe.shared_ffn, I64, 1),
                                FX_DEFAULT(moe.dense_layers, I64, 3), FX_DEFAULT(moe.groups, I64, 8),
                                FX_DEFAULT(moe.top_groups, I64, 4), FX_DEFAULT(moe.scale, F64, 2.5)),
};
