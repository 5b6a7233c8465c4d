/* stablelm.c - StableLM: Llama blocks with layer norms; part of a head rotates; the 12B has attention beside
 * feed-forward and norms of heads, each head with its own weights. */
#include <stdio.h>

#include "models/models_int.h"

static const fx_param params[] = {
    FX_PARAM(attention_bias, BOOL, false, NULL, "use_qkv_bias"),
    FX_PARAM(parallel, BOOL, false, "use_parallel_residual", "use_parallel_residual"),
    FX_PARAM(qk_norm, BOOL, false, NULL, "qk_layernorm"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* A hub folder has the weights of all heads as a tensor each: one after another. */
static bool gather_heads(fx_build *b, int64_t layer, const char *role, int64_t heads, float *out)
{
    int64_t dim = b->p->head_dim;
    char head[64], name[128];

    for (int64_t i = 0; i < heads; i++) {
        const fx_weight *t = NULL;

        snprintf(head, sizeof(head), "%s.norms.%lld.weight", role, (long long)i);
        if (fx_role_name(b->arch, b->weights, layer, head, name, sizeof(name)))
            t = fx_weights_find(b->weights, fx_str_of(name));
        if (!t || t->rank != 1 || t->shape[0] != dim || !fx_dequantize_supports(t->dtype)) {
            fx_w1(b, layer, head, dim);                  /* says so */
            return false;
        }
        fx_dequantize_row(t->dtype, t->data, out + i * dim, dim);
    }
    return true;
}

/* The weights of all heads; GGUF has them as a matrix. */
static fx_value *head_weights(fx_build *b, int64_t layer, const char *role, int64_t heads)
{
    int64_t n = heads * b->p->head_dim;
    fx_type type = fx_type1(FX_F32, fx_dim_of(n));
    float *all;

    if (fx_is_gguf(b))
        return fx_w_flat(b, layer, role, heads, b->p->head_dim);
    all = FX_ARENA_NEWN(b->nn.m->arena, float, (size_t)n);
    if (!all)
        return fx_module_fail(b->nn.m, FORNAX_ENOMEM, "no memory for a graph");
    if (b->nn.m->failed || !gather_heads(b, layer, role, heads, all))
        return NULL;
    return FX_OP1(b->nn.m, CONSTANT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &type), FX_AV(VALUES, all, n)), .name = fx_str_of(role));
}

static fx_value *attention(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    fx_nn_norm norm = { p->eps, 0, p->heads };
    fx_value *qkv[3];

    fx_b_qkv(b, layer, x, qkv);
    if (fx_is_gguf(b) ? fx_w_exists(b, layer, "attn_q_norm") : p->qk_norm) {
        qkv[0] = fx_nn_layernorm(&b->nn, "q_norm", qkv[0], head_weights(b, layer, "attn_q_norm", p->heads), NULL, &norm);
        norm.groups = p->kv_heads;
        qkv[1] = fx_nn_layernorm(&b->nn, "k_norm", qkv[1], head_weights(b, layer, "attn_k_norm", p->kv_heads), NULL,
                                 &norm);
    }
    qkv[0] = fx_nn_rope(&b->nn, &b->attn, "q_rope", qkv[0]);
    qkv[1] = fx_nn_rope(&b->nn, &b->attn, "k_rope", qkv[1]);
    x = fx_nn_attend(&b->nn, &b->attn, qkv[0], qkv[1], qkv[2]);
    return fx_b_product(b, layer, "attn_output", x, p->dim, p->heads * p->v_dim, p->out_bias);
}

static fx_value *block(fx_build *b, fx_value *x, int64_t i)
{
    fx_value *h = fx_b_norm(b, i, "attn_norm", x), *a = fx_nn_add(&b->nn, "attn_residual", x, attention(b, i, h));
    bool parallel = fx_is_gguf(b) ? !fx_w_exists(b, i, "ffn_norm") : b->p->parallel;

    return fx_nn_add(&b->nn, "ffn_residual", a, fx_b_mlp(b, i, parallel ? h : fx_b_norm(b, i, "ffn_norm", a)));
}

static const fx_tensor_name names[] = {
    { "attn_q_norm", "model.layers.%d.self_attn.q_layernorm" },
    { "attn_k_norm", "model.layers.%d.self_attn.k_layernorm" },
    { NULL, NULL },
};

const fx_arch fx_arch_stablelm = {
    .name = "stablelm", .hf_name = "StableLmForCausalLM", .gguf_name = "stablelm", .params = params, .names = names,
    .defaults = { .eps = 1e-5, .rot_part = 0.25 }, .norm = FX_NORM_LAYER, .norm_bias = true,
    .gguf_rope = FX_ROPE_HALF, .hf_rope = FX_ROPE_HALF, .block = block,
    .hub_defaults = FX_DEFAULTS(FX_DEFAULT(context, I64, 4096), FX_DEFAULT(kv_heads, I64, 32)),
};
