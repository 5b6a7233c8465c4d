/* gpt_neox.c - GPT-NeoX: attention beside feed-forward, each behind its norm; q, k and v by heads in one tensor;
 * part of a head rotates. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(parallel, BOOL, false, "use_parallel_residual", "use_parallel_residual"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(rot_part, F64, false, NULL, "rope_parameters.partial_rotary_factor"),
    FX_PARAM(rot_part, F64, false, NULL, "rotary_pct"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_parameters.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rotary_emb_base"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    return (b->p->parallel ? fx_block_parallel : fx_block_sequential)(b, x, i);
}

static const fx_tensor_name names[] = {
    { "token_embd", "gpt_neox.embed_in" },
    { "output", "embed_out" },
    { "output", "lm_head" },
    { "output_norm", "gpt_neox.final_layer_norm" },
    { "attn_norm", "gpt_neox.layers.%d.input_layernorm" },
    { "attn_qkv", "gpt_neox.layers.%d.attention.query_key_value" },
    { "attn_output", "gpt_neox.layers.%d.attention.dense" },
    { "ffn_norm", "gpt_neox.layers.%d.post_attention_layernorm" },
    { "ffn_up", "gpt_neox.layers.%d.mlp.dense_h_to_4h" },
    { "ffn_down", "gpt_neox.layers.%d.mlp.dense_4h_to_h" },
    { NULL, NULL },
};

const fx_arch fx_arch_gpt_neox = {
    .name = "gpt_neox", .hf_name = "GPTNeoXForCausalLM", .gguf_name = "gptneox", .params = params, .names = names,
    .defaults = { .act = FX_ACTIV_GELU, .eps = 1e-5, .parallel = true, .rot_part = 0.25, .attention_bias = true,
                  .out_bias = true, .mlp_bias = true },
    .norm = FX_NORM_LAYER, .norm_bias = true, .hf_qkv = FX_QKV_GROUPS, .plain_mlp = true,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048)),
};
