/* model_recurrent.c - words for recurrent layers that architectures share. */
#include "base/text.h"
#include "models/models_int.h"

bool fx_b_is_recurrent(const fx_build *b, int64_t layer)
{
    return b->p->layer_flags && b->p->layer_flags[layer] & FX_LAYER_LINEAR;
}

/* Sizes that an architecture has no use for are 0; 'needs' are those it can't do without. */
fx_status fx_recurrent_check(const fx_weights *w, const fx_model_params *p, unsigned needs, fx_error *err)
{
#define ROW(field, what, hi) { offsetof(fx_model_params, rec.field), what, hi }
    static const struct { size_t at; const char *what; int64_t hi; } rows[] = {
        ROW(conv_width, "width of the convolution", 64), ROW(inner, "columns of the scan", 1 << 20),
        ROW(state, "state size", 1 << 16),               ROW(dt_rank, "rank of the time step", 1 << 16),
        ROW(groups, "groups of the scan", 1 << 16),      ROW(heads, "heads of the scan", 1 << 16),
        ROW(key_heads, "key heads", 1 << 16),            ROW(value_heads, "value heads", 1 << 16),
        ROW(key_dim, "key size of a head", 1 << 16),     ROW(value_dim, "value size of a head", 1 << 16),
    };
#undef ROW

    for (size_t i = 0; i < FX_COUNT(rows); i++)
        FX_TRY(fx_param_range(w, p, rows[i].at, rows[i].what, i == 0 || needs >> i & 1, rows[i].hi, err));
    return FORNAX_OK;
}

fx_status fx_mamba_check(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    return fx_recurrent_check(w, p, 2 | 4 | 8, err);
}

fx_status fx_recurrent_rank(const fx_weights *w, const char *key, fx_model_params *p, fx_error *err)
{
    json_t *rank = fx_config_find(w, key);

    if (rank && (!json_is_string(rank) || strcmp(json_string_value(rank), "auto")))
        FX_TRY(fx_config_opt_i64(w, key, &p->rec.dt_rank, err));
    else
        p->rec.dt_rank = p->dim / 16 + (p->dim % 16 > 0);
    return fx_param_limit(w, key, p->rec.dt_rank, 1, 1 << 16, err);
}

void fx_recurrent_only(fx_model_params *p)
{
    p->heads = p->kv_heads = p->head_dim = p->v_dim = p->ffn = 1;
    p->rot_dim = 0;
}

fx_value *fx_b_conv(fx_build *b, int64_t layer, const char *role, fx_value *x, bool bias, bool act)
{
    bool silu = act && b->p->act == FX_ACTIV_SILU;
    char bias_role[64] = "";
    fx_op *op;

    if (b->nn.m->failed)
        return NULL;
    fx_format(bias_role, sizeof(bias_role), "%s.bias", role);
    if (fx_is_gguf(b))
        bias = fx_w_exists(b, layer, bias_role);
    op = FX_OP(b->nn.m, CONV1D,
               FX_IN(x, fx_w_loose(b, layer, role, x->type.dim[1].n, b->p->rec.conv_width),
                     bias ? fx_w1(b, layer, bias_role, x->type.dim[1].n) : NULL, b->nn.chain),
               FX_ATTRS(FX_AI(LAYER, layer), FX_AI(SILU, silu)), .name = fx_nn_scoped(&b->nn, role));
    if (!op)
        return NULL;
    b->nn.chain = &op->out[1];
    return act && !silu ? fx_b_activation(b, "conv_act", &op->out[0]) : &op->out[0];
}

void fx_mamba_state(const fx_model_params *p, fx_state_layer *l)
{
    l->conv_len = (p->rec.conv_width - 1) * p->rec.inner;
    l->scan_len = p->rec.inner * p->rec.state;
}

fx_value *fx_b_mamba(fx_build *b, int64_t layer, fx_value *x, bool norms)
{
    const fx_model_params *p = b->p;
    const fx_recurrent_params *r = &p->rec;
    fx_nn *nn = &b->nn;
    fx_value *z, *proj, *dt, *bs, *cs;
    fx_op *scan;

    proj = fx_b_product(b, layer, "ssm_in", x, 2 * r->inner, p->dim, r->proj_bias);
    x = fx_nn_slice(nn, "ssm_xs", proj, 0, r->inner);
    z = fx_nn_slice(nn, "ssm_z", proj, r->inner, r->inner);
    x = fx_b_conv(b, layer, "ssm_conv1d", x, r->conv_bias, true);
    proj = fx_b_product(b, layer, "ssm_x", x, r->dt_rank + 2 * r->state, r->inner, false);
    dt = fx_nn_slice(nn, "ssm_dt_in", proj, 0, r->dt_rank);
    bs = fx_nn_slice(nn, "ssm_b", proj, r->dt_rank, r->state);
    cs = fx_nn_slice(nn, "ssm_c", proj, r->dt_rank + r->state, r->state);
    if (norms) {
        dt = fx_b_norm_of(b, layer, "ssm_dt_norm", dt, 1, r->dt_rank);
        bs = fx_b_norm_of(b, layer, "ssm_b_norm", bs, 1, r->state);
        cs = fx_b_norm_of(b, layer, "ssm_c_norm", cs, 1, r->state);
    }
    dt = fx_b_linear(b, layer, "ssm_dt", dt, r->inner, r->dt_rank, true);
    if (nn->m->failed)
        return NULL;
    scan = FX_OP(nn->m, SSM_SCAN,
                 FX_IN(x, dt, bs, cs, fx_w_loose(b, layer, "ssm_a", r->inner, r->state),
                       fx_w_loose(b, layer, "ssm_d", r->inner, 0), NULL, nn->chain),
                 FX_ATTRS(FX_AI(LAYER, layer), FX_AI(HEADS, r->inner), FX_AI(LOG_A, !fx_is_gguf(b))),
                 .name = fx_nn_scoped(nn, "ssm_scan"));
    if (!scan)
        return NULL;
    nn->chain = &scan->out[1];
    x = fx_nn_mul(nn, "ssm_gated", &scan->out[0], fx_nn_silu(nn, "ssm_gate", z));
    return fx_b_product(b, layer, "ssm_out", x, p->dim, r->inner, r->proj_bias);
}
