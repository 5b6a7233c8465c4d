/* granite.c - Granite dense: Llama blocks with factors on embeddings, scores, residuals and logits. */
#include <math.h>

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
    char key[FX_PARAM_KEY];

    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB && p->attn_scale == 0)
        p->attn_scale = 1;
    if (fabs(p->logit_scale) < 1e-30) {
        fx_param_key(w, p, offsetof(fx_model_params, logit_scale), key);
        return fx_param_fail(w, FORNAX_EFORMAT, key, err, "expected other than 0, found %g", p->logit_scale);
    }
    p->logit_scale = 1 / p->logit_scale;
    return FORNAX_OK;
}

const fx_arch fx_arch_granite = {
    .name = "granite", .hf_name = "GraniteForCausalLM", .gguf_name = "granite",
    .params = params, .gguf_rope = FX_ROPE_PAIRS, .hf_rope = FX_ROPE_HALF,
    .adjust = fx_granite_adjust, .block = fx_block_sequential,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 2048), FX_DEFAULT(eps, F64, 1e-6)),
};
