/* qwen3_next.c - Qwen3-Next and Qwen3.5's text models: three layers in four mix by the gated delta rule, the
 * fourth by attention whose result is gated; norm weights lack 1.
 *
 * Qwen3-Next keeps what goes into a layer of the first kind in one tensor, by key head: q, k, and v and z
 * of the value heads that share it; b and a of these in another. It has experts, one of them shared.
 * Qwen3.5 has tensors apart, and no experts. */
#include "models/models_int.h"

#define END { 0, FX_PARAM_I64, false, NULL, NULL }
#define DELTA                                                                   \
    FX_PARAM(attention_bias, BOOL, false, NULL, "attention_bias"),              \
    FX_PARAM(out_bias, BOOL, false, NULL, "attention_bias"),                    \
    FX_PARAM(rec.conv_width, I64, false, NULL, "linear_conv_kernel_dim"),       \
    FX_PARAM(rec.key_heads, I64, false, NULL, "linear_num_key_heads"),          \
    FX_PARAM(rec.value_heads, I64, false, NULL, "linear_num_value_heads"),      \
    FX_PARAM(rec.key_dim, I64, false, NULL, "linear_key_head_dim"),             \
    FX_PARAM(rec.value_dim, I64, false, NULL, "linear_value_head_dim")

static const fx_param params_next[] = {
    DELTA,
    FX_PARAM(moe.experts, I64, false, NULL, "num_experts"),
    FX_PARAM(moe.top, I64, false, NULL, "num_experts_per_tok"),
    FX_PARAM(moe.ffn, I64, false, NULL, "moe_intermediate_size"),
    FX_PARAM(moe.shared_ffn, I64, false, NULL, "shared_expert_intermediate_size"),
    FX_PARAM(moe.normalize, BOOL, false, NULL, "norm_topk_prob"),
    FX_PARAM(moe.step, I64, false, NULL, "decoder_sparse_step"),
    END,
};
static const fx_param params_3_5[] = { DELTA, END };

static fx_status layers(const fx_weights *w, const fx_model_params *p, uint8_t *flags, fx_error *err)
{
    int64_t interval = 4;

    FX_TRY(fx_config_opt_i64(w, "full_attention_interval", &interval, err));
    FX_TRY(fx_param_limit(w, "full_attention_interval", interval, 1, INT64_MAX - 4096, err));
    for (int64_t i = 0; i < p->layers; i++)
        flags[i] = (i + 1) % interval ? FX_LAYER_LINEAR : 0;
    return fx_qwen_dense_layers(w, p, flags, err);
}

static fx_status check(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    const fx_recurrent_params *r = &p->rec;

    FX_TRY(fx_recurrent_check(w, p, 64 | 128 | 256 | 512, err));
    if (r->value_heads % r->key_heads)
        return fx_param_fail(w, FORNAX_EFORMAT, "linear_num_value_heads", err,
                             "expected value heads to be a multiple of key heads, found %lld and %lld",
                             (long long)r->value_heads, (long long)r->key_heads);
    return FORNAX_OK;
}

static void state(const fx_model_params *p, fx_state_layer *l)
{
    const fx_recurrent_params *r = &p->rec;

    l->conv_len = (r->conv_width - 1) * (2 * r->key_heads * r->key_dim + r->value_heads * r->value_dim);
    l->scan_len = r->value_heads * r->key_dim * r->value_dim;
}

/* Rows [first, first + run) of each of n groups of 'stride' rows of w. */
static fx_value *of_groups(fx_build *b, fx_value *w, int64_t first, int64_t run, int64_t stride, int64_t n)
{
    return fx_b_rows(b, w, first, n * run, run, stride);
}

/* What goes into the delta rule, by products of x: q, k and v as one; z, b, a. */
static void delta_inputs(fx_build *b, int64_t i, fx_value *x, fx_value *out[4])
{
    const fx_recurrent_params *r = &b->p->rec;
    int64_t dim = b->p->dim, kd = r->key_dim, heads = r->key_heads, each = r->value_heads / heads, vd = each * r->value_dim;
    int64_t stride = 2 * kd + 2 * vd;
    fx_value *w, *ba, *q, *k, *v;

    if (fx_w_exists(b, i, "delta_qkv")) {
        out[0] = fx_b_linear(b, i, "delta_qkv", x, heads * (2 * kd + vd), dim, false);
        out[1] = fx_b_linear(b, i, "delta_z", x, heads * vd, dim, false);
        out[2] = fx_b_linear(b, i, "delta_b", x, r->value_heads, dim, false);
        out[3] = fx_b_linear(b, i, "delta_a", x, r->value_heads, dim, false);
        return;
    }
    w = fx_w2(b, i, "delta_qkvz", heads * stride, dim);
    ba = fx_w2(b, i, "delta_ba", 2 * r->value_heads, dim);
    if (b->nn.m->failed)
        return;
    q = of_groups(b, w, 0, kd, stride, heads);
    k = of_groups(b, w, kd, kd, stride, heads);
    v = of_groups(b, w, 2 * kd, vd, stride, heads);
    out[0] = fx_nn_linear(&b->nn, x, FX_OP1(b->nn.m, CONCAT, FX_IN(q, k, v), FX_ATTRS(FX_AI(AXIS, 0)), .name = w->name), NULL);
    out[1] = fx_nn_linear(&b->nn, x, of_groups(b, w, 2 * kd + vd, vd, stride, heads), NULL);
    out[2] = fx_nn_linear(&b->nn, x, of_groups(b, ba, 0, each, 2 * each, heads), NULL);
    out[3] = fx_nn_linear(&b->nn, x, of_groups(b, ba, each, each, 2 * each, heads), NULL);
}

static fx_value *delta_net(fx_build *b, int64_t i, fx_value *x)
{
    const fx_recurrent_params *r = &b->p->rec;
    int64_t k = r->key_heads * r->key_dim, v = r->value_heads * r->value_dim;
    fx_nn *nn = &b->nn;
    fx_value *in[4] = { NULL }, *h;
    fx_op *rule;

    delta_inputs(b, i, x, in);
    h = fx_b_conv(b, i, "delta_conv", in[0], false, true);
    if (nn->m->failed)
        return NULL;
    rule = FX_OP(nn->m, DELTA_RULE,
                 FX_IN(fx_nn_slice(nn, "delta_q", h, 0, k), fx_nn_slice(nn, "delta_k", h, k, k),
                       fx_nn_slice(nn, "delta_v", h, 2 * k, v), in[2], in[3], fx_w1(b, i, "delta_rate", r->value_heads),
                       fx_w1(b, i, "delta_dt", r->value_heads), nn->chain),
                 FX_ATTRS(FX_AI(LAYER, i), FX_AI(HEADS, r->value_heads), FX_AI(KV_HEADS, r->key_heads),
                          FX_AI(LOG_A, 1)),
                 .name = fx_nn_scoped(nn, "delta_rule"));
    if (!rule)
        return NULL;
    nn->chain = &rule->out[1];
    h = FX_OP1(nn->m, GATED_NORM, FX_IN(&rule->out[0], in[1], fx_w1(b, i, "delta_norm", r->value_dim)),
               FX_ATTRS(FX_AF(EPS, b->p->eps), FX_AI(GROUPS, r->value_heads)), .name = fx_nn_scoped(nn, "delta_norm"));
    return fx_b_linear(b, i, "delta_out", h, b->p->dim, v, false);
}

/* q's tensor has, head by head, q and the gate of the result. */
static fx_value *gated_attention(fx_build *b, int64_t i, fx_value *x)
{
    const fx_model_params *p = b->p;
    int64_t n = p->heads * p->head_dim, d = p->head_dim, kv = p->kv_heads * d;
    fx_nn *nn = &b->nn;
    fx_value *w = fx_w2(b, i, "attn_q", 2 * n, p->dim), *bias = p->attention_bias ? fx_w1(b, i, "attn_q.bias", 2 * n) : NULL;
    fx_value *q, *k, *v, *gate;

    if (nn->m->failed)
        return NULL;
    q = fx_nn_linear(nn, x, of_groups(b, w, 0, d, 2 * d, p->heads), bias ? of_groups(b, bias, 0, d, 2 * d, p->heads) : NULL);
    gate = fx_nn_linear(nn, x, of_groups(b, w, d, d, 2 * d, p->heads),
                        bias ? of_groups(b, bias, d, d, 2 * d, p->heads) : NULL);
    k = fx_b_linear(b, i, "attn_k", x, kv, p->dim, p->attention_bias);
    v = fx_b_linear(b, i, "attn_v", x, kv, p->dim, p->attention_bias);
    q = fx_nn_rope(nn, &b->attn, "q_rope", fx_b_norm_of(b, i, "attn_q_norm", q, p->heads, d));
    k = fx_nn_rope(nn, &b->attn, "k_rope", fx_b_norm_of(b, i, "attn_k_norm", k, p->kv_heads, d));
    x = fx_nn_attend(nn, &b->attn, q, k, v);
    x = fx_nn_mul(nn, "attn_gated", x, fx_nn_unary(nn, FX_OP_SIGMOID, "attn_gate", gate));
    return fx_b_linear(b, i, "attn_output", x, p->dim, n, p->out_bias);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h = fx_b_norm(b, i, "attn_norm", x);

    h = fx_b_is_recurrent(b, i) ? delta_net(b, i, h) : gated_attention(b, i, h);
    x = fx_nn_add(&b->nn, "attn_residual", x, h);
    return fx_nn_add(&b->nn, "ffn_residual", x, fx_b_mlp(b, i, fx_b_norm(b, i, "ffn_norm", x)));
}

#define LINEAR "model.layers.%d.linear_attn."
static const fx_tensor_name names[] = {
    { "delta_qkvz", LINEAR "in_proj_qkvz" }, { "delta_ba", LINEAR "in_proj_ba" }, { "delta_qkv", LINEAR "in_proj_qkv" },
    { "delta_z", LINEAR "in_proj_z" },       { "delta_b", LINEAR "in_proj_b" },   { "delta_a", LINEAR "in_proj_a" },
    { "delta_conv", LINEAR "conv1d" },       { "delta_rate", LINEAR "A_log!" },   { "delta_dt", LINEAR "dt_bias!" },
    { "delta_norm", LINEAR "norm" },         { "delta_out", LINEAR "out_proj" },  { NULL, NULL },
};

#define DEFAULTS                                                                                            \
    .head_dim = 256, .eps = 1e-6, .rot_part = 0.25,                                                         \
    .rec = { .conv_width = 4, .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128 }

const fx_arch fx_arch_qwen3_next = {
    .name = "qwen3_next", .hf_name = "Qwen3NextForCausalLM", .params = params_next,
    .defaults = { DEFAULTS, .moe = { .experts = 512, .top = 10, .ffn = 512, .shared_ffn = 512, .normalize = true,
                                     .shared_gate = true } },
    .names = names, .hf_norm_offset = 1, .hf_rope = FX_ROPE_HALF,
    .check = check, .layers = layers, .state = state, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768), FX_DEFAULT(kv_heads, I64, 2)),
};
const fx_arch fx_arch_qwen3_5 = {
    .name = "qwen3_5", .hf_name = "Qwen3_5ForCausalLM", .hf_type = "qwen3_5_text",
    .hf_outer = "Qwen3_5ForConditionalGeneration",
    .params = params_3_5, .defaults = { DEFAULTS },
    .names = names, .hf_norm_offset = 1, .hf_rope = FX_ROPE_HALF,
    .check = check, .layers = layers, .state = state, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 32768), FX_DEFAULT(kv_heads, I64, 4)),
};
