/* lfm2.c - LFM2: most layers mix by a short gated convolution, c * conv(b * x), the others by attention
 * with head norms; each has a gated feed-forward part. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(eps, F64, false, NULL, "norm_eps"),
    FX_PARAM(eps, F64, false, NULL, "block_norm_eps"),
    FX_PARAM(ffn, I64, false, NULL, "block_ff_dim"),
    FX_PARAM(tied, BOOL, false, NULL, "tie_embedding"),
    FX_PARAM(rec.conv_width, I64, false, "shortconv.l_cache", "conv_L_cache"),
    FX_PARAM(rec.conv_bias, BOOL, false, NULL, "conv_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* The width that config.json states is before two thirds are taken, multiplied and rounded up. */
static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool adjusts = true;
    double times = 1;
    int64_t multiple = 256;

    p->act = FX_ACTIV_SILU;                              /* whatever hidden_act says */
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_bool(w, "block_auto_adjust_ff_dim", &adjusts, err));
    if (!json_is_null(fx_config_find(w, "block_ffn_dim_multiplier")))
        FX_TRY(fx_config_opt_f64(w, "block_ffn_dim_multiplier", &times, err));
    FX_TRY(fx_config_opt_i64(w, "block_multiple_of", &multiple, err));
    if (!adjusts)
        return FORNAX_OK;
    FX_TRY(fx_param_limit(w, "block_multiple_of", multiple, 1, 1 << 24, err));
    if (!(times > 0 && times < 1e6))
        return fx_param_fail(w, FORNAX_EFORMAT, "block_ffn_dim_multiplier", err, "expected a positive number below 1e6, found %g",
                             times);
    p->ffn = FX_ROUND_UP((int64_t)(times * (double)(2 * p->ffn / 3)), multiple);
    return FORNAX_OK;
}

/* Without layer_types: those of full_attn_idxs have attention, or all. */
static fx_status layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    json_t *list = gguf ? NULL : fx_config_find(w, "full_attn_idxs"), *item;
    size_t i;

    if (!json_is_array(list))
        return FORNAX_OK;
    memset(flags, FX_LAYER_LINEAR, (size_t)p->layers);
    json_array_foreach(list, i, item) {
        if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= p->layers)
            return fx_fail_param(err, FORNAX_EFORMAT, "full_attn_idxs",
                                 "%s: config.json: full_attn_idxs[%zu]: expected a layer", fx_weights_path(w), i);
        flags[json_integer_value(item)] = 0;
    }
    return FORNAX_OK;
}

static fx_status check(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    return fx_recurrent_check(w, p, 0, err);
}

static void state(const fx_model_params *p, fx_state_layer *l)
{
    l->conv_len = (p->rec.conv_width - 1) * p->dim;
}

static fx_value *short_conv(fx_build *b, int64_t i, fx_value *x)
{
    int64_t dim = b->p->dim;
    bool bias = b->p->rec.conv_bias;
    fx_nn *nn = &b->nn;
    fx_value *all = fx_b_product(b, i, "shortconv_in", x, 3 * dim, dim, bias);
    fx_value *c = fx_nn_slice(nn, "shortconv_c", all, dim, dim);

    x = fx_nn_mul(nn, "shortconv_bx", fx_nn_slice(nn, "shortconv_b", all, 0, dim),
                  fx_nn_slice(nn, "shortconv_x", all, 2 * dim, dim));
    x = fx_nn_mul(nn, "shortconv_y", c, fx_b_conv(b, i, "shortconv_conv", x, bias, false));
    return fx_b_product(b, i, "shortconv_out", x, dim, dim, bias);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h = fx_b_norm(b, i, "attn_norm", x);

    h = fx_b_is_recurrent(b, i) ? short_conv(b, i, h) : fx_b_attention(b, i, h);
    x = fx_nn_add(&b->nn, "attn_residual", x, h);
    return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_mlp(b, i, fx_b_norm(b, i, "ffn_norm", x)));
}

/* GGUF calls it a norm of the embeddings, which it isn't. */
static fx_value *finish(fx_build *b, fx_value *x)
{
    bool other = fx_is_gguf(b) && fx_w_exists(b, FX_ONCE, "token_embd_norm");

    return fx_b_norm(b, FX_ONCE, other ? "token_embd_norm" : "output_norm", x);
}

#define LAYER "model.layers.%d."
static const fx_tensor_name names[] = {
    { "output_norm", "model.embedding_norm" },         { "attn_norm", LAYER "operator_norm" },
    { "ffn_norm", LAYER "ffn_norm" },                  { "ffn_gate", LAYER "feed_forward.w1" },
    { "ffn_up", LAYER "feed_forward.w3" },             { "ffn_down", LAYER "feed_forward.w2" },
    { "attn_q_norm", LAYER "self_attn.q_layernorm" },  { "attn_k_norm", LAYER "self_attn.k_layernorm" },
    { "attn_output", LAYER "self_attn.out_proj" },     { "shortconv_in", LAYER "conv.in_proj" },
    { "shortconv_conv", LAYER "conv.conv" },           { "shortconv_out", LAYER "conv.out_proj" },
    { NULL, NULL },
};

const fx_arch fx_arch_lfm2 = {
    .name = "lfm2", .hf_name = "Lfm2ForCausalLM", .gguf_name = "lfm2", .params = params,
    .defaults = { .eps = 1e-5, .tied = true, .rope_theta = 1000000, .qk_norm = true, .rec = { .conv_width = 3 } },
    .names = names, .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .check = check, .adjust = adjust, .layers = layers, .state = state, .block = block, .finish = finish,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 128000), FX_DEFAULT(kv_heads, I64, 8)),
};
