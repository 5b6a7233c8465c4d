/* opt.c - OPT: learned positions from row 2 on, ReLU; norms before or (350M) after each part; embeddings may be
 * narrower than the rest. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(ffn, I64, false, NULL, "ffn_dim"),
    FX_PARAM(act, ACT, false, NULL, "activation_function"),
    FX_PARAM(embed_dim, I64, false, NULL, "word_embed_proj_dim"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "enable_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "enable_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "enable_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

#define FIRST_POSITION 2

/* A switch of the configuration, whose type adjust has checked. */
static bool is_set(const fx_build *b, const char *key, bool fallback)
{
    (void)fx_config_opt_bool(b->weights, key, &fallback, NULL);
    return fallback;
}

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    static const char *const keys[] = { "do_layer_norm_before", "_remove_final_layer_norm",
                                        "layer_norm_elementwise_affine" };
    bool value = false;

    for (size_t i = 0; i < FX_COUNT(keys); i++)
        FX_TRY(fx_config_opt_bool(w, keys[i], &value, err));
    p->rot_dim = 0;
    p->embed_dim = p->embed_dim ? p->embed_dim : p->dim;
    return FORNAX_OK;
}

static fx_value *norm(fx_build *b, int64_t layer, const char *role, fx_value *x)
{
    const fx_nn_norm plain = { b->p->eps, 0, 1 };

    if (is_set(b, "layer_norm_elementwise_affine", true))
        return fx_b_norm(b, layer, role, x);
    return fx_nn_layernorm(&b->nn, role, x, NULL, NULL, &plain);
}

static fx_value *embed(fx_build *b, fx_value *tokens)
{
    const fx_model_params *p = b->p;
    fx_value *x = fx_nn_embed(&b->nn, tokens, fx_w2(b, FX_ONCE, "token_embd", p->vocab, p->embed_dim), 1);
    fx_value *table = fx_w2(b, FX_ONCE, "position_embd", p->context + FIRST_POSITION, p->dim);

    if (p->embed_dim != p->dim)
        x = fx_b_linear(b, FX_ONCE, "project_in", x, p->dim, p->embed_dim, false);
    table = fx_b_rows(b, table, FIRST_POSITION, p->context, 0, 0);
    return fx_nn_add(&b->nn, "embed_sum", x, fx_nn_embed(&b->nn, fx_b_positions(b), table, 1));
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h;

    if (is_set(b, "do_layer_norm_before", true)) {
        x = fx_nn_add(&b->nn, "attn_residual", x, fx_b_attention(b, i, norm(b, i, "attn_norm", x)));
        return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_mlp(b, i, norm(b, i, "ffn_norm", x)));
    }
    h = norm(b, i, "attn_norm", fx_nn_add(&b->nn, "attn_residual", x, fx_b_attention(b, i, x)));
    return norm(b, i, "ffn_norm", fx_nn_add(&b->nn, "ffn_residual", h, fx_b_mlp(b, i, h)));
}

static fx_value *finish(fx_build *b, fx_value *x)
{
    const fx_model_params *p = b->p;

    if (is_set(b, "do_layer_norm_before", true) && !is_set(b, "_remove_final_layer_norm", false))
        x = norm(b, FX_ONCE, "output_norm", x);
    return p->embed_dim == p->dim ? x : fx_b_linear(b, FX_ONCE, "project_out", x, p->embed_dim, p->dim, false);
}

static const fx_tensor_name names[] = {
    { "token_embd", "model.decoder.embed_tokens" },
    { "position_embd", "model.decoder.embed_positions" },
    { "project_in", "model.decoder.project_in" },
    { "project_out", "model.decoder.project_out" },
    { "output_norm", "model.decoder.final_layer_norm" },
    { "attn_norm", "model.decoder.layers.%d.self_attn_layer_norm" },
    { "attn_q", "model.decoder.layers.%d.self_attn.q_proj" },
    { "attn_k", "model.decoder.layers.%d.self_attn.k_proj" },
    { "attn_v", "model.decoder.layers.%d.self_attn.v_proj" },
    { "attn_output", "model.decoder.layers.%d.self_attn.out_proj" },
    { "ffn_norm", "model.decoder.layers.%d.final_layer_norm" },
    { "ffn_up", "model.decoder.layers.%d.fc1" },
    { "ffn_down", "model.decoder.layers.%d.fc2" },
    { NULL, NULL },
};

const fx_arch fx_arch_opt = {
    .name = "opt", .hf_name = "OPTForCausalLM", .params = params, .names = names,
    .defaults = { .tied = true, .act = FX_ACTIV_RELU, .eps = 1e-5, .attention_bias = true, .out_bias = true,
                  .mlp_bias = true },
    .norm = FX_NORM_LAYER, .norm_bias = true, .hub_eps = true, .plain_mlp = true,
    .adjust = adjust, .embed = embed, .block = block, .finish = finish,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048)),
};
