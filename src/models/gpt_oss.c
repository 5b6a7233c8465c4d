/* gpt_oss.c - gpt-oss: every other layer with a window, sinks in attention, biases everywhere; experts
 * chosen by logits, whose activation is clamped. */
#include <stdio.h>

#include "models/models_int.h"
#include "tensor/args.h"

static const fx_param params[] = {
    FX_PARAM(moe.experts, I64, true, "expert_count", "num_local_experts"),
    FX_PARAM(moe.experts, I64, false, NULL, "num_experts"),
    FX_PARAM(moe.top, I64, true, "expert_used_count", "num_experts_per_tok"),
    FX_PARAM(moe.top, I64, false, NULL, "experts_per_token"),
    FX_PARAM(moe.ffn, I64, false, "expert_feed_forward_length", NULL),
    FX_PARAM(moe.alpha, F64, false, NULL, "swiglu_alpha"),
    FX_PARAM(moe.limit, F64, false, NULL, "swiglu_limit"),
    FX_PARAM(window, I64, false, "attention.sliding_window", "sliding_window"),
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};
static const fx_tensor_name names[] = {
    { "ffn_gate_inp", "model.layers.%d.mlp.router" },
    { NULL, NULL },
};

static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool alpha = p->moe.alpha > 0;

    if (!alpha || !(p->moe.limit > 0))
        return fx_param_fail(w, FORNAX_EFORMAT, alpha ? "swiglu_limit" : "swiglu_alpha", err,
                             "expected a positive number, found %g", alpha ? p->moe.limit : p->moe.alpha);
    return FORNAX_OK;
}

static fx_status layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    (void)w, (void)err;
    for (int64_t i = 1; i < p->layers; i += 2)
        flags[i] &= (uint8_t)~FX_LAYER_WINDOW;
    return FORNAX_OK;
}

/* The sinks have names without ".weight" in hub folders. */
static fx_value *sinks(fx_build *b, int64_t i)
{
    const char *form = fx_is_gguf(b) ? "blk.%lld.attn_sinks.weight" : "model.layers.%lld.self_attn.sinks";
    char usual[64], name[96];

    snprintf(usual, sizeof(usual), form, (long long)i);
    fx_hub_name(b->arch, b->weights, usual, name, sizeof(name));
    return fx_w_named(b, name, &b->p->heads, 1);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    b->attn.sinks = sinks(b, i);
    return fx_block_sequential(b, x, i);
}

const fx_arch fx_arch_gpt_oss = {
    .name = "gpt_oss", .hf_name = "GptOssForCausalLM", .gguf_name = "gpt-oss",
    .params = params, .names = names,
    .defaults = { .attention_bias = true, .out_bias = true, .eps = 1e-5, .window = 128, .rope_theta = 150000,
                  .moe = { .bias = true, .turned = true, .score = FX_ROUTE_SOFTMAX_TOP, .alpha = 1.702, .limit = 7 } },
    .hf_mxfp4 = true, .hub_yarn = { 32, 4096 }, .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = adjust, .layers = layers, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 131072), FX_DEFAULT(kv_heads, I64, 8),
                                FX_DEFAULT(head_dim, I64, 64), FX_DEFAULT(moe.experts, I64, 128),
                                FX_DEFAULT(moe.top, I64, 4)),
};
