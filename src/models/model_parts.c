/* model_parts.c - parts of layers that architectures share: norms, attention, feed-forward.
 *
 * What differs between architectures in them stands in fx_arch (kind of norm, layout of
 * fused tensors) and in the parameters (activation, multipliers, biases); an architecture's file
 * says only how the parts are put together. */
#include <math.h>
#include <stdio.h>

#include "models/models_int.h"

fx_value *fx_b_scale(fx_build *b, const char *name, fx_value *x, double factor)
{
    return factor == 1 ? x : fx_nn_scale(&b->nn, name, x, factor);
}

fx_value *fx_b_residual(fx_build *b, const char *name, fx_value *x, fx_value *h)
{
    return fx_nn_add(&b->nn, name, x, fx_b_scale(b, "residual_scale", h, b->p->residual_scale));
}

fx_value *fx_b_rows(fx_build *b, fx_value *w, int64_t start, int64_t n, int64_t run, int64_t stride)
{
    if (!w)
        return NULL;
    return FX_OP1(b->nn.m, ROWS, FX_IN(w),
                  FX_ATTRS(FX_AI(START, start), FX_AI(LENGTH, n), FX_AI(RUN, run), FX_AI(STRIDE, stride)),
                  .name = w->name);
}

/* ---- Norms and activations ------------------------------------------------------------------ */

fx_value *fx_b_norm_of(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t groups, int64_t n)
{
    const fx_arch *arch = b->arch;
    fx_nn_norm norm = { b->p->eps, fx_is_gguf(b) ? 0 : arch->hf_norm_offset, groups };
    fx_value *w = arch->norm == FX_NORM_NONE ? NULL : fx_w1(b, layer, role, n), *bias = NULL;
    char bias_role[64];

    if (arch->norm == FX_NORM_RMS)
        return fx_nn_rmsnorm1(&b->nn, role, x, w, norm.eps, norm.offset);
    snprintf(bias_role, sizeof(bias_role), "%s.bias", role);
    if (w && (fx_is_gguf(b) ? fx_w_exists(b, layer, bias_role) : arch->norm_bias))
        bias = fx_w1(b, layer, bias_role, n);
    return fx_nn_layernorm(&b->nn, role, x, w, bias, &norm);
}

fx_value *fx_b_norm(fx_build *b, int64_t layer, const char *role, fx_value *x)
{
    return fx_b_norm_of(b, layer, role, x, 1, b->p->dim);
}

fx_value *fx_b_activation(fx_build *b, const char *name, fx_value *x)
{
    static const fx_opcode codes[] = {
        [FX_ACTIV_SILU] = FX_OP_SILU,           [FX_ACTIV_GELU] = FX_OP_GELU,
        [FX_ACTIV_GELU_TANH] = FX_OP_GELU_TANH, [FX_ACTIV_GELU_QUICK] = FX_OP_SIGMOID,
        [FX_ACTIV_RELU] = FX_OP_RELU,           [FX_ACTIV_RELU2] = FX_OP_RELU2,
        [FX_ACTIV_SIGMOID] = FX_OP_SIGMOID,     [FX_ACTIV_TANH] = FX_OP_TANH,
    };
    fx_activation act = b->p->act;

    if (act == FX_ACTIV_NONE)
        return x;
    if (act == FX_ACTIV_GELU_QUICK)             /* x sigmoid(1.702 x) */
        return fx_nn_mul(&b->nn, name, x,
                         fx_nn_unary(&b->nn, FX_OP_SIGMOID, name, fx_nn_scale(&b->nn, name, x, 1.702)));
    return fx_nn_unary(&b->nn, codes[act], name, x);
}

/* ---- Attention --------------------------------------------------------------------------------- */

/* The fused tensor's rows of q, k or v where they lie by groups: 'first' heads into the group. */
static fx_value *group_product(fx_build *b, fx_value *x, fx_value *w, fx_value *bias, int64_t first,
                               int64_t heads)
{
    const fx_model_params *p = b->p;
    int64_t dim = p->head_dim, stride = (p->heads / p->kv_heads + 2) * dim, n = heads * dim * p->kv_heads;

    w = fx_b_rows(b, w, first * dim, n, heads * dim, stride);
    return fx_nn_linear(&b->nn, x, w, bias ? fx_b_rows(b, bias, first * dim, n, heads * dim, stride) : NULL);
}

static void fused_qkv(fx_build *b, int64_t layer, fx_value *x, fx_value *qkv[3])
{
    const fx_model_params *p = b->p;
    int64_t q = p->heads * p->head_dim, k = p->kv_heads * p->head_dim, v = p->kv_heads * p->v_dim;
    int64_t group = p->heads / p->kv_heads;
    fx_value *w, *bias = NULL, *all;

    if (fx_is_gguf(b) || b->arch->hf_qkv == FX_QKV_ROWS) {
        all = fx_b_product(b, layer, "attn_qkv", x, q + k + v, p->dim, p->attention_bias);
        qkv[0] = fx_nn_slice(&b->nn, "attn_q", all, 0, q);
        qkv[1] = fx_nn_slice(&b->nn, "attn_k", all, q, k);
        qkv[2] = fx_nn_slice(&b->nn, "attn_v", all, q + k, v);
        return;
    }
    w = fx_w2(b, layer, "attn_qkv", q + k + v, p->dim);
    if (p->attention_bias)
        bias = fx_w1(b, layer, "attn_qkv.bias", q + k + v);
    qkv[0] = group_product(b, x, w, bias, 0, group);
    qkv[1] = group_product(b, x, w, bias, group, 1);
    qkv[2] = group_product(b, x, w, bias, group + 1, 1);
}

void fx_b_qkv(fx_build *b, int64_t layer, fx_value *x, fx_value *qkv[3])
{
    const fx_model_params *p = b->p;

    if (fx_w_exists(b, layer, "attn_qkv")) {
        fused_qkv(b, layer, x, qkv);
    } else {
        qkv[0] = fx_b_product(b, layer, "attn_q", x, p->heads * p->head_dim, p->dim, p->attention_bias);
        qkv[1] = fx_b_product(b, layer, "attn_k", x, p->kv_heads * p->head_dim, p->dim, p->attention_bias);
        qkv[2] = fx_b_product(b, layer, "attn_v", x, p->kv_heads * p->v_dim, p->dim, p->attention_bias);
    }
    for (int i = 0; i < 3 && p->qkv_limit > 0; i++)
        qkv[i] = fx_nn_clamp(&b->nn, "qkv_clamp", qkv[i], p->qkv_limit);
}

/* Norms of the heads of q and k, which share their weights. */
static void head_norms(fx_build *b, int64_t layer, fx_value *qkv[3])
{
    const fx_model_params *p = b->p;

    qkv[0] = fx_b_norm_of(b, layer, "attn_q_norm", qkv[0], p->heads, p->head_dim);
    qkv[1] = fx_b_norm_of(b, layer, "attn_k_norm", qkv[1], p->kv_heads, p->head_dim);
}

fx_value *fx_b_attend(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    fx_value *qkv[3];

    fx_b_qkv(b, layer, x, qkv);
    if (p->qk_norm && !b->arch->norm_last)
        head_norms(b, layer, qkv);
    qkv[0] = fx_nn_rope(&b->nn, &b->attn, "q_rope", qkv[0]);
    qkv[1] = fx_nn_rope(&b->nn, &b->attn, "k_rope", qkv[1]);
    if (p->qk_norm && b->arch->norm_last)
        head_norms(b, layer, qkv);
    return fx_nn_attend(&b->nn, &b->attn, qkv[0], qkv[1], qkv[2]);
}

fx_value *fx_b_attention(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;

    x = fx_b_attend(b, layer, x);
    return fx_b_product(b, layer, "attn_output", x, p->dim, p->heads * p->v_dim, p->out_bias);
}

/* 2^(-8 i / n) for n heads, a power of two; heads beyond it take every other slope of twice as many. */
static float alibi_slope(int64_t head, int64_t heads)
{
    int64_t n = 1;

    while (n * 2 <= heads)
        n *= 2;
    return (float)(head < n ? pow(2, -8.0 * (double)(head + 1) / (double)n)
                            : pow(2, -4.0 * (double)(2 * (head - n) + 1) / (double)n));
}

fx_value *fx_b_alibi(fx_build *b, float (*round)(const fx_build *b, float slope))
{
    int64_t heads = b->p->heads;
    float *slopes = FX_ARENA_NEWN(b->nn.m->arena, float, (size_t)heads);
    fx_type t = fx_type1(FX_F32, fx_dim_of(heads));

    if (!slopes)
        return fx_module_fail(b->nn.m, FORNAX_ENOMEM, "no memory for a graph");
    for (int64_t i = 0; i < heads; i++)
        slopes[i] = round(b, alibi_slope(i, heads));
    return FX_OP1(b->nn.m, CONSTANT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &t), FX_AV(VALUES, slopes, heads)),
                  .name = FX_STR("slopes"));
}

/* ---- Feed-forward -------------------------------------------------------------------------------- */

/* Gate and up of one tensor: its first and its second half. */
static void gate_up_halves(fx_build *b, int64_t layer, const char *role, fx_value *x, fx_value *out[2])
{
    const fx_model_params *p = b->p;
    char bias_role[64];
    fx_value *w = fx_w2(b, layer, role, 2 * p->ffn, p->dim), *bias = NULL;

    snprintf(bias_role, sizeof(bias_role), "%s.bias", role);
    if (fx_is_gguf(b) ? fx_w_exists(b, layer, bias_role) : p->mlp_bias)
        bias = fx_w1(b, layer, bias_role, 2 * p->ffn);
    for (int i = 0; i < 2; i++)
        out[i] = fx_nn_linear(&b->nn, x, fx_b_rows(b, w, i * p->ffn, p->ffn, 0, 0),
                              bias ? fx_b_rows(b, bias, i * p->ffn, p->ffn, 0, 0) : NULL);
}

fx_value *fx_b_gated(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    fx_value *h[2];

    if (fx_w_exists(b, layer, "ffn_gate_up")) {
        gate_up_halves(b, layer, "ffn_gate_up", x, h);
    } else if (fx_is_gguf(b) && !fx_w_exists(b, layer, "ffn_gate")) {
        gate_up_halves(b, layer, "ffn_up", x, h);        /* where GGUF has both */
    } else {
        h[0] = fx_b_product(b, layer, "ffn_gate", x, p->ffn, p->dim, p->mlp_bias);
        h[1] = fx_b_product(b, layer, "ffn_up", x, p->ffn, p->dim, p->mlp_bias);
    }
    return fx_nn_mul(&b->nn, "ffn_act", fx_b_activation(b, "ffn_gate_act", h[0]), h[1]);
}

fx_value *fx_b_swiglu(fx_build *b, int64_t layer, fx_value *x)
{
    x = fx_b_gated(b, layer, x);
    return fx_b_product(b, layer, "ffn_down", x, b->p->dim, b->p->ffn, b->p->mlp_bias);
}

fx_value *fx_b_mlp(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;

    if (fx_b_has_experts(b, layer))
        return fx_b_moe(b, layer, x);
    if (!b->arch->plain_mlp)
        return fx_b_swiglu(b, layer, x);
    x = fx_b_product(b, layer, "ffn_up", x, p->ffn, p->dim, p->mlp_bias);
    x = fx_b_activation(b, "ffn_act", x);
    return fx_b_product(b, layer, "ffn_down", x, p->dim, p->ffn, p->mlp_bias);
}

/* The norm before the feed-forward part; some GGUF files call it by what comes before it. */
static fx_value *ffn_norm(fx_build *b, int64_t layer, fx_value *x)
{
    bool other = fx_is_gguf(b) && !fx_w_exists(b, layer, "ffn_norm") && fx_w_exists(b, layer, "post_attention_norm");

    return fx_b_norm(b, layer, other ? "post_attention_norm" : "ffn_norm", x);
}

/* ---- Blocks ---------------------------------------------------------------------------------------- */

fx_value *fx_block_sequential(fx_build *b, fx_value *x, int64_t layer)
{
    fx_value *h = fx_b_attention(b, layer, fx_b_norm(b, layer, "attn_norm", x));

    x = fx_b_residual(b, "attn_residual", x, h);
    h = fx_b_mlp(b, layer, ffn_norm(b, layer, x));
    return fx_b_residual(b, "ffn_residual", x, h);
}

fx_value *fx_block_parallel(fx_build *b, fx_value *x, int64_t layer)
{
    fx_value *h = fx_b_norm(b, layer, "attn_norm", x), *g = h, *a;

    if (fx_w_exists(b, layer, "ffn_norm"))
        g = fx_b_norm(b, layer, "ffn_norm", x);
    a = fx_b_attention(b, layer, h);
    return fx_nn_add(&b->nn, "ffn_residual", fx_nn_add(&b->nn, "attn_residual", x, a), fx_b_mlp(b, layer, g));
}
