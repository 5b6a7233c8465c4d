/* falcon.c - Falcon: attention beside feed-forward, behind one norm (7B) or two (40B, 180B), or after each other
 * (RW); q, k and v in one tensor by kv heads; rotation or ALiBi.
 *
 * GGUF has q, then k, then v; attn_norm_2 is the norm of attention where there are two. */
#include <math.h>

#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(heads, I64, false, NULL, "n_head"),
    FX_PARAM(layers, I64, false, NULL, "n_layer"),
    FX_PARAM(ffn, I64, false, NULL, "ffn_hidden_size"),
    FX_PARAM(kv_heads, I64, false, "attention.head_count_kv", "num_kv_heads"),
    FX_PARAM(kv_heads, I64, false, NULL, "n_head_kv"),
    FX_PARAM(act, ACT, false, NULL, "activation"),
    FX_PARAM(eps, F64, false, NULL, "layer_norm_epsilon"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "bias"),
    FX_PARAM(parallel, BOOL, false, NULL, "parallel_attn"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static bool is_set(const fx_weights *w, const char *key, bool fallback)
{
    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB)
        (void)fx_config_opt_bool(w, key, &fallback, NULL);
    return fallback;
}

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    static const char *const keys[] = { "alibi", "new_decoder_architecture", "multi_query" };
    int64_t norms = 2;
    bool value = false;

    if (!p->ffn)
        p->ffn = 4 * p->dim;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return FORNAX_OK;
    for (size_t i = 0; i < FX_COUNT(keys); i++)
        FX_TRY(fx_config_opt_bool(w, keys[i], &value, err));
    FX_TRY(fx_config_opt_i64(w, "num_ln_in_parallel_attn", &norms, err));
    if (norms != 1 && norms != 2)
        return fx_param_refuse(w, "num_ln_in_parallel_attn", err);
    if (!is_set(w, "new_decoder_architecture", false))
        p->kv_heads = is_set(w, "multi_query", true) ? 1 : p->heads;
    else
        p->parallel = true;
    if (is_set(w, "alibi", false))
        p->rot_dim = 0;
    return FORNAX_OK;
}

/* Falcon computes slopes in bf16, and divides them as it does scores. */
static float rounded(const fx_build *b, float slope)
{
    return (float)((double)fx_bf16_to_f32(fx_f32_to_bf16(slope)) / sqrt((double)b->p->head_dim));
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h, *g, *a;

    if (is_set(b->weights, "alibi", false))
        b->attn.slopes = fx_b_alibi(b, rounded);
    if (!b->p->parallel)
        return fx_block_sequential(b, x, i);
    if (fx_is_gguf(b) && fx_w_exists(b, i, "attn_norm_2")) {
        h = fx_b_norm(b, i, "attn_norm_2", x);
        g = fx_b_norm(b, i, "attn_norm", x);
    } else if (!fx_is_gguf(b) && fx_w_exists(b, i, "ln_attn")) {
        h = fx_b_norm(b, i, "ln_attn", x);
        g = fx_b_norm(b, i, "ln_mlp", x);
    } else {
        g = h = fx_b_norm(b, i, "attn_norm", x);
    }
    a = fx_b_attention(b, i, h);
    return fx_nn_add(&b->nn, "ffn_residual", fx_nn_add(&b->nn, "attn_residual", x, a), fx_b_mlp(b, i, g));
}

static const fx_tensor_name names[] = {
    { "token_embd", "transformer.word_embeddings" },
    { "output_norm", "transformer.ln_f" },
    { "attn_norm", "transformer.h.%d.input_layernorm" },
    { "ln_attn", "transformer.h.%d.ln_attn" },
    { "ln_mlp", "transformer.h.%d.ln_mlp" },
    { "attn_qkv", "transformer.h.%d.self_attention.query_key_value" },
    { "attn_output", "transformer.h.%d.self_attention.dense" },
    { "ffn_norm", "transformer.h.%d.post_attention_layernorm" },
    { "ffn_up", "transformer.h.%d.mlp.dense_h_to_4h" },
    { "ffn_down", "transformer.h.%d.mlp.dense_4h_to_h" },
    { NULL, NULL },
};

const fx_arch fx_arch_falcon = {
    .name = "falcon", .hf_name = "FalconForCausalLM", .gguf_name = "falcon", .params = params, .names = names,
    .defaults = { .tied = true, .act = FX_ACTIV_GELU, .eps = 1e-5, .context = 2048, .parallel = true },
    .norm = FX_NORM_LAYER, .norm_bias = true, .hf_qkv = FX_QKV_GROUPS, .plain_mlp = true,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .adjust = adjust, .block = block,
};
