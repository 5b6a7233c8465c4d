/* gptj.c - GPT-J: attention beside feed-forward behind one norm; the first columns of a head rotate by
 * neighbouring pairs; logits have a bias. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(dim, I64, false, NULL, "n_embd"),
    FX_PARAM(layers, I64, false, NULL, "n_layer"),
    FX_PARAM(heads, I64, false, NULL, "n_head"),
    FX_PARAM(context, I64, false, NULL, "n_positions"),
    FX_PARAM(ffn, I64, false, NULL, "n_inner"),
    FX_PARAM(act, ACT, false, NULL, "activation_function"),
    FX_PARAM(eps, F64, false, NULL, "layer_norm_epsilon"),
    FX_PARAM(rot_dim, I64, false, NULL, "rotary_dim"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* Without rotary_dim (null) sines are as wide as the embedding, of which a head uses its part: not done here. */
static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    if (!p->ffn)
        p->ffn = 4 * p->dim;
    return p->rot_dim < 1 ? fx_param_refuse(w, "rotary_dim", err) : FORNAX_OK;
}

static const fx_tensor_name names[] = {
    { "token_embd", "transformer.wte" },
    { "output_norm", "transformer.ln_f" },
    { "attn_norm", "transformer.h.%d.ln_1" },
    { "attn_q", "transformer.h.%d.attn.q_proj" },
    { "attn_k", "transformer.h.%d.attn.k_proj" },
    { "attn_v", "transformer.h.%d.attn.v_proj" },
    { "attn_output", "transformer.h.%d.attn.out_proj" },
    { "ffn_norm", "transformer.h.%d.ln_2" },
    { "ffn_up", "transformer.h.%d.mlp.fc_in" },
    { "ffn_down", "transformer.h.%d.mlp.fc_out" },
    { NULL, NULL },
};

const fx_arch fx_arch_gptj = {
    .name = "gptj", .hf_name = "GPTJForCausalLM", .params = params, .names = names,
    .defaults = { .act = FX_ACTIV_GELU_TANH, .eps = 1e-5, .mlp_bias = true, .head_bias = true, .context = 2048 },
    .norm = FX_NORM_LAYER, .norm_bias = true, .plain_mlp = true, .hf_rope = FX_ROPE_PAIRS,
    .adjust = adjust, .block = fx_block_parallel,
};
