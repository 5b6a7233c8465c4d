/* jamba.c - Jamba: Mamba mixers whose dt, b and c are normed, attention without rotation in one layer of
 * each period, experts in one feed-forward part of each of another period. */
#include "base/text.h"
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(rec.state, I64, false, "ssm.state_size", "mamba_d_state"),
    FX_PARAM(rec.conv_width, I64, false, "ssm.conv_kernel", "mamba_d_conv"),
    FX_PARAM(rec.inner, I64, false, "ssm.inner_size", NULL),
    FX_PARAM(rec.dt_rank, I64, false, "ssm.time_step_rank", NULL),
    FX_PARAM(rec.conv_bias, BOOL, false, NULL, "mamba_conv_bias"),
    FX_PARAM(rec.proj_bias, BOOL, false, NULL, "mamba_proj_bias"),
    FX_PARAM(moe.experts, I64, false, "expert_count", "num_experts"),
    FX_PARAM(moe.experts, I64, false, NULL, "num_local_experts"),
    FX_PARAM(moe.top, I64, false, "expert_used_count", "num_experts_per_tok"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    int64_t expand = 2;

    p->rot_dim = 0;
    p->moe.ffn = p->ffn;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_i64(w, "mamba_expand", &expand, err));
    FX_TRY(fx_param_limit(w, "mamba_expand", expand, 1, FX_MIN(1024, (1 << 20) / p->dim), err));
    p->rec.inner = expand * p->dim;
    return fx_recurrent_rank(w, "mamba_dt_rank", p, err);
}

/* One layer of each period, at an offset. */
static fx_status read_period(const fx_weights *w, const char *what, int64_t at[2], fx_error *err)
{
    char key[64];

    fx_format(key, sizeof(key), "%s_layer_period", what);
    FX_TRY(fx_config_opt_i64(w, key, &at[0], err));
    FX_TRY(fx_param_limit(w, key, at[0], 1, INT64_MAX, err));
    fx_format(key, sizeof(key), "%s_layer_offset", what);
    FX_TRY(fx_config_opt_i64(w, key, &at[1], err));
    return fx_param_limit(w, key, at[1], 0, at[0] - 1, err);
}

/* GGUF tells by the tensors which layers have experts, and by the kv heads which are recurrent. */
static fx_status layers_gguf(const fx_weights *w, const fx_model_params *p, uint8_t *flags)
{
    char name[64];

    for (int64_t i = 0; i < p->layers; i++) {
        fx_format(name, sizeof(name), "blk.%lld.ffn_gate_inp.weight", (long long)i);
        if (!fx_weights_find(w, fx_str_of(name)))
            flags[i] |= FX_LAYER_DENSE;
    }
    return FORNAX_OK;
}

static fx_status layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    int64_t attention[2] = { 8, 4 }, experts[2] = { 2, 1 };

    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return layers_gguf(w, p, flags);

    FX_TRY(read_period(w, "attn", attention, err));
    FX_TRY(read_period(w, "expert", experts, err));
    for (int64_t i = 0; i < p->layers; i++)
        flags[i] = (uint8_t)((i % attention[0] == attention[1] ? 0 : FX_LAYER_LINEAR) |
                             (i % experts[0] == experts[1] && p->moe.experts > 1 ? 0 : FX_LAYER_DENSE));
    return FORNAX_OK;
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h = fx_b_norm(b, i, "attn_norm", x);

    h = fx_b_is_recurrent(b, i) ? fx_b_mamba(b, i, h, true) : fx_b_attention(b, i, h);
    x = fx_nn_add(&b->nn, "attn_residual", x, h);
    return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_mlp(b, i, fx_b_norm(b, i, "ffn_norm", x)));
}

#define LAYER "model.layers.%d."
static const fx_tensor_name names[] = {
    { "output_norm", "model.final_layernorm" },          { "ffn_norm", LAYER "pre_ff_layernorm" },
    { "ffn_gate", LAYER "feed_forward.gate_proj" },      { "ffn_up", LAYER "feed_forward.up_proj" },
    { "ffn_down", LAYER "feed_forward.down_proj" },      { "ffn_gate_inp", LAYER "feed_forward.router" },
    { "ssm_in", LAYER "mamba.in_proj" },                 { "ssm_conv1d", LAYER "mamba.conv1d" },
    { "ssm_x", LAYER "mamba.x_proj" },                   { "ssm_dt", LAYER "mamba.dt_proj" },
    { "ssm_a", LAYER "mamba.A_log!" },                   { "ssm_d", LAYER "mamba.D!" },
    { "ssm_out", LAYER "mamba.out_proj" },               { "ssm_dt_norm", LAYER "mamba.dt_layernorm" },
    { "ssm_b_norm", LAYER "mamba.b_layernorm" },         { "ssm_c_norm", LAYER "mamba.c_layernorm" },
    { NULL, NULL },
};

const fx_arch fx_arch_jamba = {
    .name = "jamba", .hf_name = "JambaForCausalLM", .gguf_name = "jamba", .params = params,
    .defaults = { .eps = 1e-6, .moe = { .experts = 16, .top = 2 },
                  .rec = { .state = 16, .conv_width = 4, .conv_bias = true } },
    .names = names,
    .check = fx_mamba_check, .adjust = adjust, .layers = layers, .state = fx_mamba_state, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 262144), FX_DEFAULT(kv_heads, I64, 8)),
};
