/* minicpm3.c - MiniCPM3: latent attention; factors on embeddings, residuals and logits. */
#include <math.h>

#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),
    FX_PARAM(mlp_bias, BOOL, false, NULL, "mlp_bias"),
    FX_PARAM(embed_scale, F64, false, NULL, "scale_emb"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* Numbers that a file leaves out, as GGUF's do, are those of the one model there is. */
static fx_status adjust(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    double depth = 1.4, base = 256;

    if (!gguf) {
        FX_TRY(fx_config_opt_f64(w, "scale_depth", &depth, err));
        FX_TRY(fx_config_opt_f64(w, "dim_model_base", &base, err));
    }
    if (!(base > 0 && base <= 1e30))
        return fx_param_fail(w, FORNAX_EFORMAT, "dim_model_base", err, "expected a positive number, found %g", base);
    if (!(fabs(depth) <= 1e30))
        return fx_param_fail(w, FORNAX_EFORMAT, "scale_depth", err, "expected a number up to 1e30, found %g", depth);
    p->residual_scale = depth / sqrt((double)p->layers);
    p->logit_scale = base / (double)p->dim;
    return fx_mla_read(&fx_arch_minicpm3, w, p, err);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h = fx_b_mla(b, i, fx_b_norm(b, i, "attn_norm", x));

    x = fx_b_residual(b, "attn_residual", x, h);
    return fx_b_residual(b, "ffn_residual", x, fx_b_mlp(b, i, fx_b_norm(b, i, "ffn_norm", x)));
}

const fx_arch fx_arch_minicpm3 = {
    .name = "minicpm3", .hf_name = "MiniCPM3ForCausalLM", .gguf_name = "minicpm3",
    .params = params, .defaults = { .tied = true, .eps = 1e-5, .embed_scale = 12 },
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF,
    .adjust = adjust, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768)),
};
