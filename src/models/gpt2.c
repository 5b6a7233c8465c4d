/* gpt2.c - GPT-2: learned positions, layer norms, one tensor of q, k and v; the hub's weights are [in, out]. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(dim, I64, false, NULL, "n_embd"),
    FX_PARAM(layers, I64, false, NULL, "n_layer"),
    FX_PARAM(heads, I64, false, NULL, "n_head"),
    FX_PARAM(context, I64, false, NULL, "n_positions"),
    FX_PARAM(context, I64, false, NULL, "n_ctx"),
    FX_PARAM(ffn, I64, false, NULL, "n_inner"),
    FX_PARAM(act, ACT, false, NULL, "activation_function"),
    FX_PARAM(eps, F64, false, NULL, "layer_norm_epsilon"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static bool scales_by_layer(const fx_weights *w)
{
    bool yes = false;

    return fx_weights_kind_of(w) == FX_WEIGHTS_HUB &&
           fx_config_opt_bool(w, "scale_attn_by_inverse_layer_idx", &yes, NULL) == FORNAX_OK && yes;
}

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool scale = true, cross = false, by_layer = false;

    p->rot_dim = 0;
    if (!p->ffn)
        p->ffn = 4 * p->dim;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_bool(w, "scale_attn_weights", &scale, err));
    FX_TRY(fx_config_opt_bool(w, "add_cross_attention", &cross, err));
    FX_TRY(fx_config_opt_bool(w, "scale_attn_by_inverse_layer_idx", &by_layer, err));
    if (!scale)
        p->attn_scale = 1;
    return cross ? fx_param_refuse(w, "add_cross_attention", err) : FORNAX_OK;
}

static fx_value *embed(fx_build *b, fx_value *tokens)
{
    const fx_model_params *p = b->p;
    fx_value *x = fx_nn_embed(&b->nn, tokens, fx_w2(b, FX_ONCE, "token_embd", p->vocab, p->dim), 1);
    fx_value *y = fx_nn_embed(&b->nn, fx_b_positions(b), fx_w2(b, FX_ONCE, "position_embd", p->context, p->dim), 1);

    return fx_nn_add(&b->nn, "embed_sum", x, y);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    if (scales_by_layer(b->weights))
        b->attn.scale /= (double)(i + 1);
    return fx_block_sequential(b, x, i);
}

static const fx_tensor_name names[] = {
    { "token_embd", "transformer.wte" },
    { "position_embd", "transformer.wpe" },
    { "output_norm", "transformer.ln_f" },
    { "attn_norm", "transformer.h.%d.ln_1" },
    { "attn_qkv", "transformer.h.%d.attn.c_attn" },
    { "attn_output", "transformer.h.%d.attn.c_proj" },
    { "ffn_norm", "transformer.h.%d.ln_2" },
    { "ffn_up", "transformer.h.%d.mlp.c_fc" },
    { "ffn_down", "transformer.h.%d.mlp.c_proj" },
    { NULL, NULL },
};

const fx_arch fx_arch_gpt2 = {
    .name = "gpt2", .hf_name = "GPT2LMHeadModel", .gguf_name = "gpt2", .params = params, .names = names,
    .defaults = { .tied = true, .act = FX_ACTIV_GELU_TANH, .eps = 1e-5, .context = 1024, .attention_bias = true,
                  .out_bias = true, .mlp_bias = true },
    .norm = FX_NORM_LAYER, .norm_bias = true, .hf_transposed = true, .plain_mlp = true,
    .adjust = adjust, .embed = embed, .block = block,
};
