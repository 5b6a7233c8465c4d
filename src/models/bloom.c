/* bloom.c - BLOOM: no positions but ALiBi, a norm behind the embedding, q, k and v by heads in one tensor. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(dim, I64, false, NULL, "n_embed"),
    FX_PARAM(layers, I64, false, NULL, "n_layer"),
    FX_PARAM(heads, I64, false, NULL, "n_head"),
    FX_PARAM(context, I64, false, NULL, "seq_length"),
    FX_PARAM(eps, F64, false, NULL, "layer_norm_epsilon"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool post = false;

    p->rot_dim = 0;
    if (!p->ffn)
        p->ffn = 4 * p->dim;
    p->act = FX_ACTIV_GELU_TANH;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB)
        FX_TRY(fx_config_opt_bool(w, "apply_residual_connection_post_layernorm", &post, err));
    return FORNAX_OK;
}

static float as_it_is(const fx_build *b, float slope)
{
    (void)b;
    return slope;
}

static fx_value *embed(fx_build *b, fx_value *tokens)
{
    const fx_model_params *p = b->p;
    fx_value *x = fx_nn_embed(&b->nn, tokens, fx_w2(b, FX_ONCE, "token_embd", p->vocab, p->dim), 1);

    return fx_b_norm(b, FX_ONCE, "token_embd_norm", x);
}

/* What is added to: the part's input, or its norm. */
static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    bool post = false;
    fx_value *h = fx_b_norm(b, i, "attn_norm", x);

    if (!fx_is_gguf(b))
        (void)fx_config_opt_bool(b->weights, "apply_residual_connection_post_layernorm", &post, NULL);
    b->attn.slopes = fx_b_alibi(b, as_it_is);
    x = fx_nn_add(&b->nn, "attn_residual", post ? h : x, fx_b_attention(b, i, h));
    h = fx_b_norm(b, i, "ffn_norm", x);
    return fx_nn_add(&b->nn, "ffn_residual", post ? h : x, fx_b_mlp(b, i, h));
}

static const fx_tensor_name names[] = {
    { "token_embd", "transformer.word_embeddings" },
    { "token_embd_norm", "transformer.word_embeddings_layernorm" },
    { "output_norm", "transformer.ln_f" },
    { "attn_norm", "transformer.h.%d.input_layernorm" },
    { "attn_qkv", "transformer.h.%d.self_attention.query_key_value" },
    { "attn_output", "transformer.h.%d.self_attention.dense" },
    { "ffn_norm", "transformer.h.%d.post_attention_layernorm" },
    { "ffn_up", "transformer.h.%d.mlp.dense_h_to_4h" },
    { "ffn_down", "transformer.h.%d.mlp.dense_4h_to_h" },
    { NULL, NULL },
};

const fx_arch fx_arch_bloom = {
    .name = "bloom", .hf_name = "BloomForCausalLM", .gguf_name = "bloom", .params = params, .names = names,
    .defaults = { .tied = true, .eps = 1e-5, .context = 2048, .attention_bias = true, .out_bias = true,
                  .mlp_bias = true },
    .norm = FX_NORM_LAYER, .norm_bias = true, .hf_qkv = FX_QKV_GROUPS, .plain_mlp = true,
    .adjust = adjust, .embed = embed, .block = block,
};
