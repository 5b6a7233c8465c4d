/* granite.c - Granite dense: Llama blocks with factors on embeddings, scores, residuals and logits. */
#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    FX_PARAM(embed_scale, F64, false, "embedding_scale", "embedding_multiplier"),
    FX_PARAM(attn_scale, F64, false, "attention.scale", "attention_multiplier"),
    FX_PARAM(residual_scale, F64, false, "residual_scale", "residual_multiplier"),
    FX_PARAM(logit_scale, F64, false, "logit_scale", "logits_scaling"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* Both spellings of the last factor divide. */
fx_status fx_granite_adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB && p->attn_scale == 0)
        p->attn_scale = 1;
    if (p->logit_scale == 0)
        return fx_fail_param(err, FORNAX_EFORMAT, "logits_scaling", "%s: logits_scaling: expected other than 0",
                             fx_weights_path(w));
    p->logit_scale = 1 / p->logit_scale;
    return FORNAX_OK;
}

const fx_arch fx_arch_granite = {
    .name = "granite", .hf_name = "GraniteForCausalLM", .gguf_name = "granite",
    .params = params, .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF,
    .adjust = fx_granite_adjust, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048), FX_DEFAULT(eps, F64, 1e-6)),
};
