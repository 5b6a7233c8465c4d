/* mamba.c - Mamba and Mamba 2: norm, mixer, residual; nothing else, and no attention.
 *
 * A mixer is a short causal convolution and a selective scan; Mamba 2's scan has heads, its b and
 * c come out of the first product, and a gated norm follows. GGUF stores a where the hub stores log(-a). */
#include <math.h>

#include "models/models_int.h"

#define END { 0, FX_PARAM_I64, false, NULL, NULL }
#define COMMON                                                                  \
    FX_PARAM(eps, F64, false, NULL, "layer_norm_epsilon"),                      \
    FX_PARAM(rec.conv_width, I64, true, "ssm.conv_kernel", "conv_kernel"),      \
    FX_PARAM(rec.inner, I64, false, "ssm.inner_size", NULL),                    \
    FX_PARAM(rec.state, I64, true, "ssm.state_size", "state_size"),             \
    FX_PARAM(rec.conv_bias, BOOL, false, NULL, "use_conv_bias"),                \
    FX_PARAM(rec.proj_bias, BOOL, false, NULL, "use_bias")

static const fx_param params1[] = {
    COMMON,
    FX_PARAM(rec.dt_rank, I64, true, "ssm.time_step_rank", NULL),
    END,
};
static const fx_param params2[] = {
    COMMON,
    FX_PARAM(rec.heads, I64, true, "ssm.time_step_rank", "num_heads"),
    FX_PARAM(rec.groups, I64, true, "ssm.group_count", "n_groups"),
    END,
};

static fx_status set_inner(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    double expand = 2;

    fx_recurrent_only(p);
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_f64(w, "expand", &expand, err));
    if (!(expand * (double)p->dim >= 1 && expand * (double)p->dim <= 1 << 20))
        return fx_param_fail(w, FORNAX_EFORMAT, "expand", err, "expected 1 to %d columns, found %g times %lld", 1 << 20, expand,
                             (long long)p->dim);
    p->rec.inner = (int64_t)(expand * (double)p->dim);
    return FORNAX_OK;
}

static fx_status adjust1(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool norms = false;

    FX_TRY(set_inner(w, p, err));
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF) {
        FX_TRY(fx_meta_opt_bool(w, "mamba.ssm.dt_b_c_rms", &norms, err));
        return norms ? fx_param_refuse(w, "mamba.ssm.dt_b_c_rms", err) : FORNAX_OK;
    }
    return fx_recurrent_rank(w, "time_step_rank", p, err);
}

/* time_step_limit: two numbers; infinity is 1.8e308 or {"__float__": "Infinity"}. */
static fx_status read_limits(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    json_t *limits = fx_config_find(w, "time_step_limit");
    double at[2] = { 0, INFINITY };

    for (size_t i = 0; limits && i < 2; i++) {
        json_t *x = json_array_get(limits, i);
        const char *text = json_string_value(json_object_get(x, "__float__"));

        if (json_is_number(x))
            at[i] = json_number_value(x);
        else if (!text || strcmp(text, i ? "Infinity" : "-Infinity"))
            return fx_fail_param(err, FORNAX_EFORMAT, "time_step_limit",
                                 "%s: config.json: time_step_limit: expected two numbers", fx_weights_path(w));
        else
            at[i] = i ? INFINITY : -INFINITY;
    }
    if (!(at[0] <= at[1]))
        return fx_fail_param(err, FORNAX_EFORMAT, "time_step_limit",
                             "%s: config.json: time_step_limit: the first number is the larger", fx_weights_path(w));
    p->rec.dt_min = FX_MAX(at[0], 0);                    /* softplus is never below */
    p->rec.dt_max = FX_MIN(at[1], 3e38);
    return FORNAX_OK;
}

static fx_status heads_dont_fit(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    bool groups = p->rec.heads > 0 && p->rec.inner % p->rec.heads == 0 && (p->rec.groups < 1 || p->rec.heads % p->rec.groups);
    char key[FX_PARAM_KEY];

    fx_param_key(w, p, groups ? offsetof(fx_model_params, rec.groups) : offsetof(fx_model_params, rec.heads), key);
    return fx_param_fail(w, FORNAX_EFORMAT, key, err, "%lld columns don't make %lld heads in %lld groups",
                         (long long)p->rec.inner, (long long)p->rec.heads, (long long)p->rec.groups);
}

static fx_status adjust2(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    int64_t head_dim = 0;

    FX_TRY(set_inner(w, p, err));
    p->rec.dt_max = 3e38;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB) {
        FX_TRY(fx_config_opt_i64(w, "head_dim", &head_dim, err));
        FX_TRY(read_limits(w, p, err));
    }
    if (p->rec.heads < 1 || p->rec.inner % p->rec.heads || p->rec.groups < 1 || p->rec.heads % p->rec.groups ||
        (head_dim && head_dim * p->rec.heads != p->rec.inner))
        return heads_dont_fit(w, p, err);
    return FORNAX_OK;
}

static fx_status check2(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    return fx_recurrent_check(w, p, 2 | 4 | 16 | 32, err);
}

static fx_status layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    (void)w, (void)err;
    memset(flags, FX_LAYER_LINEAR, (size_t)p->layers);
    return FORNAX_OK;
}

static fx_value *block1(fx_build *b, fx_value *x, int64_t i)
{
    return fx_nn_add(&b->nn, "residual", x, fx_b_mamba(b, i, fx_b_norm(b, i, "attn_norm", x), false));
}

static void state2(const fx_model_params *p, fx_state_layer *l)
{
    l->conv_len = (p->rec.conv_width - 1) * (p->rec.inner + 2 * p->rec.groups * p->rec.state);
    l->scan_len = p->rec.inner * p->rec.state;
}

static fx_value *block2(fx_build *b, fx_value *x, int64_t i)
{
    const fx_model_params *p = b->p;
    const fx_recurrent_params *r = &p->rec;
    fx_nn *nn = &b->nn;
    int64_t bc = r->groups * r->state, conv = r->inner + 2 * bc;
    fx_value *all, *h, *z, *dt;
    fx_op *scan;

    all = fx_b_product(b, i, "ssm_in", fx_b_norm(b, i, "attn_norm", x), r->inner + conv + r->heads, p->dim, r->proj_bias);
    z = fx_nn_slice(nn, "ssm_z", all, 0, r->inner);
    dt = fx_nn_slice(nn, "ssm_dt_in", all, r->inner + conv, r->heads);
    h = fx_b_conv(b, i, "ssm_conv1d", fx_nn_slice(nn, "ssm_xbc", all, r->inner, conv), r->conv_bias, true);
    if (nn->m->failed)
        return NULL;
    scan = FX_OP(nn->m, SSM_SCAN,
                 FX_IN(fx_nn_slice(nn, "ssm_xs", h, 0, r->inner), dt, fx_nn_slice(nn, "ssm_b", h, r->inner, bc),
                       fx_nn_slice(nn, "ssm_c", h, r->inner + bc, bc), fx_w_loose(b, i, "ssm_a", r->heads, 0),
                       fx_w_loose(b, i, "ssm_d", r->heads, 0), fx_w1(b, i, "ssm_dt.bias", r->heads), nn->chain),
                 FX_ATTRS(FX_AI(LAYER, i), FX_AI(HEADS, r->heads), FX_AI(GROUPS, r->groups),
                          FX_AI(LOG_A, !fx_is_gguf(b)), FX_AF(DT_MIN, r->dt_min), FX_AF(DT_MAX, r->dt_max)),
                 .name = fx_nn_scoped(nn, "ssm_scan"));
    if (!scan)
        return NULL;
    nn->chain = &scan->out[1];
    h = FX_OP1(nn->m, GATED_NORM, FX_IN(&scan->out[0], z, fx_w_loose(b, i, "ssm_norm", r->inner, 0)),
               FX_ATTRS(FX_AF(EPS, p->eps), FX_AI(GROUPS, r->groups), FX_AI(GATE_FIRST, 1)),
               .name = fx_nn_scoped(nn, "ssm_norm"));
    return fx_nn_add(nn, "residual", x, fx_b_product(b, i, "ssm_out", h, p->dim, r->inner, r->proj_bias));
}

#define MIXER "backbone.layers.%d.mixer."
#define NAMES                                       \
    { "token_embd", "backbone.embeddings" },        \
    { "output_norm", "backbone.norm_f" },           \
    { "attn_norm", "backbone.layers.%d.norm" },     \
    { "ssm_in", MIXER "in_proj" },                  \
    { "ssm_conv1d", MIXER "conv1d" },               \
    { "ssm_a", MIXER "A_log!" },                    \
    { "ssm_d", MIXER "D!" },                        \
    { "ssm_out", MIXER "out_proj" }

static const fx_tensor_name names1[] = {
    NAMES, { "ssm_x", MIXER "x_proj" }, { "ssm_dt", MIXER "dt_proj" }, { NULL, NULL },
};
/* The bias of ssm_dt alone: "dt_bias". */
static const fx_tensor_name names2[] = {
    NAMES, { "ssm_dt", MIXER "dt_bias!" }, { "ssm_norm", MIXER "norm" }, { NULL, NULL },
};

#define DEFAULTS .heads = 1, .ffn = 1, .context = 1 << 20, .eps = 1e-5, .rec = { .conv_bias = true }

const fx_arch fx_arch_mamba = {
    .name = "mamba", .hf_name = "MambaForCausalLM", .gguf_name = "mamba",
    .params = params1, .defaults = { DEFAULTS, .tied = true }, .names = names1,
    .check = fx_mamba_check, .adjust = adjust1, .layers = layers, .state = fx_mamba_state, .block = block1,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(rec.conv_width, I64, 4), FX_DEFAULT(rec.state, I64, 16)),
};
const fx_arch fx_arch_mamba2 = {
    .name = "mamba2", .hf_name = "Mamba2ForCausalLM", .gguf_name = "mamba2",
    .params = params2, .defaults = { DEFAULTS }, .names = names2,
    .check = check2, .adjust = adjust2, .layers = layers, .state = state2, .block = block2,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(rec.conv_width, I64, 4), FX_DEFAULT(rec.state, I64, 128),
                                FX_DEFAULT(rec.heads, I64, 128), FX_DEFAULT(rec.groups, I64, 8)),
};
