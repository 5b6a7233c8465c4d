/* model_mla.c - latent attention, as architectures share it.
 *
 *     q = [q_nope | rope(q_rot)]     k = [k_nope | rope(k_rot)]     v
 *
 * k_nope = W_k c and v = W_v c are products of a narrow row c (the latent, normed) with each head's weights; k_rot
 * is the same in all heads.  So are c and k_rot all that a sequence keeps, as one key head of which the value is a part:
 *
 *     q_nope . (W_k c) = (W_k^T q_nope) . c          sum of p (W_v c) = W_v (sum of p c)
 *
 * W_k and W_v are the halves of each head's rows of kv_b; newer GGUF files have W_k^T and W_v apart, as k_b and v_b.
 * An adapter may change kv_b: models that are opened for adapters multiply with it as it is, and keep k and v by head. */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "models/models_int.h"

#define LATENT_EPS 1e-6              /* of the norms of latents in hub folders, whatever rms_norm_eps is */

/* YaRN's factor on scores: what DeepSeek calls mscale, squared; 1 without it. */
static fx_status score_factor(const fx_arch *arch, const fx_weights *w, double *out, fx_error *err)
{
    double factor = 1, by = 0;
    fx_str type = FX_STR("default");
    char key[FX_PARAM_KEY], other[FX_PARAM_KEY];

    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF) {
        snprintf(other, sizeof(other), "%s.rope.scaling.yarn_log_multiplier", arch->gguf_name);
        FX_TRY(fx_meta_opt_f64(w, other, &by, err));       /* has the 0.1 in it */
        snprintf(key, sizeof(key), "%s.rope.scaling.factor", arch->gguf_name);
        FX_TRY(fx_meta_opt_f64(w, key, &factor, err));
        by *= 10;
    } else {
        const char *object = json_is_object(fx_config_find(w, "rope_parameters")) ? "rope_parameters" : "rope_scaling";

        snprintf(key, sizeof(key), "%s.type", object);
        FX_TRY(fx_config_opt_str(w, key, &type, err));
        snprintf(key, sizeof(key), "%s.rope_type", object);
        FX_TRY(fx_config_opt_str(w, key, &type, err));
        snprintf(other, sizeof(other), "%s.mscale_all_dim", object);
        FX_TRY(fx_config_opt_f64(w, other, &by, err));
        snprintf(key, sizeof(key), "%s.factor", object);
        if (by != 0 && !fx_str_is(type, "default"))
            FX_TRY(fx_config_f64(w, key, &factor, err));
    }
    *out = by != 0 && factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
    *out *= *out;
    return *out > 0 && *out <= 1e30 ? FORNAX_OK
               : fx_param_fail(w, FORNAX_EFORMAT, key, err, "with %s = %g, scores are multiplied by %g", other, by, *out);
}

/* A size, by its key of either family. */
static fx_status size_of(const fx_arch *arch, const fx_weights *w, const char *gguf, const char *hf, int64_t n, fx_error *err)
{
    char key[FX_PARAM_KEY];

    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        fx_format(key, sizeof(key), "%s.%s", arch->gguf_name, gguf);
    else
        fx_format(key, sizeof(key), "%s", hf);
    return fx_param_limit(w, key, n, 1, 1 << 16, err);
}

fx_status fx_mla_read(const fx_arch *arch, const fx_weights *w, fx_model_params *p, fx_error *err)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    int64_t rot = 0, v = 0;
    double factor;

    FX_TRY(fx_param_opt_i64(arch, w, "attention.q_lora_rank", "q_lora_rank", &p->mla.q_rank, err));
    FX_TRY(fx_param_opt_i64(arch, w, "attention.kv_lora_rank", "kv_lora_rank", &p->mla.kv_rank, err));
    FX_TRY(fx_param_opt_i64(arch, w, "rope.dimension_count", "qk_rope_head_dim", &rot, err));
    FX_TRY(fx_param_opt_i64(arch, w, "attention.value_length", "v_head_dim", &v, err));
    FX_TRY(fx_param_opt_i64(arch, w, "attention.value_length_mla", NULL, &v, err));
    FX_TRY(fx_param_opt_i64(arch, w, NULL, "qk_nope_head_dim", &p->mla.nope, err));
    if (gguf) {
        int64_t key = 0;

        FX_TRY(fx_param_opt_i64(arch, w, "attention.key_length", NULL, &key, err));
        FX_TRY(fx_param_opt_i64(arch, w, "attention.key_length_mla", NULL, &key, err));
        FX_TRY(size_of(arch, w, "attention.key_length", NULL, key, err));
        FX_TRY(size_of(arch, w, "rope.dimension_count", NULL, rot, err));
        p->mla.nope = key - rot;
    }
    FX_TRY(size_of(arch, w, "attention.kv_lora_rank", "kv_lora_rank", p->mla.kv_rank, err));
    FX_TRY(size_of(arch, w, "rope.dimension_count", "qk_rope_head_dim", rot, err));
    FX_TRY(size_of(arch, w, "attention.key_length", "qk_nope_head_dim", p->mla.nope, err));
    if (p->mla.q_rank)
        FX_TRY(size_of(arch, w, "attention.q_lora_rank", "q_lora_rank", p->mla.q_rank, err));
    if (v)
        FX_TRY(size_of(arch, w, "attention.value_length", "v_head_dim", v, err));
    FX_TRY(fx_param_range(w, p, offsetof(fx_model_params, heads), "number of heads", 1, 1 << 16, err));
    p->v_dim = v ? v : p->dim / p->heads;
    p->rot_dim = rot;
    p->head_dim = p->mla.nope + rot;
    p->kv_heads = p->heads;
    FX_TRY(score_factor(arch, w, &factor, err));
    p->attn_scale = factor / sqrt((double)p->head_dim);
    return FORNAX_OK;
}

static fx_value *latent_norm(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t n)
{
    return fx_nn_rmsnorm(&b->nn, role, x, fx_w1(b, layer, role, n), fx_is_gguf(b) ? b->p->eps : LATENT_EPS);
}

static fx_value *queries(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    int64_t cols = p->heads * p->head_dim, rank = p->mla.q_rank;

    if (!rank)
        return fx_b_product(b, layer, "attn_q", x, cols, p->dim, false);
    x = fx_b_product(b, layer, "attn_q_a", x, rank, p->dim, p->attention_bias);
    return fx_b_product(b, layer, "attn_q_b", latent_norm(b, layer, "attn_q_a_norm", x, rank), cols, rank, false);
}

/* With keys and values of each head, its rotating columns first: scores are the same in any order that q and k share. */
static fx_value *by_head(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    fx_nn *nn = &b->nn;
    int64_t rank = p->mla.kv_rank, nope = p->mla.nope, rot = p->rot_dim;
    fx_value *q = queries(b, layer, x), *k, *v, *kv, *both;

    kv = fx_b_product(b, layer, "attn_kv_a_mqa", x, rank + rot, p->dim, p->attention_bias);
    both = latent_norm(b, layer, "attn_kv_a_norm", fx_nn_slice(nn, "kv_latent", kv, 0, rank), rank);
    both = fx_b_product(b, layer, "attn_kv_b", both, p->heads * (nope + p->v_dim), rank, false);
    q = fx_nn_splice(nn, "q_turned", p->heads, q, nope, rot, q, nope);
    k = fx_nn_splice(nn, "k_turned", p->heads, fx_nn_slice(nn, "k_rot", kv, rank, rot), 0, rot, both, nope);
    v = fx_nn_splice(nn, "v", p->heads, both, nope, p->v_dim, NULL, 0);
    q = fx_nn_rope(nn, &b->attn, "q_rope", q);
    k = fx_nn_rope(nn, &b->attn, "k_rope", k);
    x = fx_nn_attend(nn, &b->attn, q, k, v);
    return fx_b_product(b, layer, "attn_output", x, p->dim, p->heads * p->v_dim, p->attention_bias);
}

/* W_k^T q of each head's q_nope. */
static fx_value *absorb(fx_build *b, int64_t layer, fx_value *q)
{
    const fx_model_params *p = b->p;
    int64_t rank = p->mla.kv_rank, nope = p->mla.nope, shape[3] = { p->heads, rank, nope };

    if (fx_w_exists(b, layer, "attn_k_b"))
        return fx_nn_by_head(&b->nn, "q_latent", p->heads, q, fx_w_role(b, layer, "attn_k_b", shape, 3),
                             (&(fx_nn_part){ 0, rank, false }));
    return fx_nn_by_head(&b->nn, "q_latent", p->heads, q, fx_w2(b, layer, "attn_kv_b", p->heads * (nope + p->v_dim), rank),
                         (&(fx_nn_part){ 0, nope, true }));
}

/* W_v x of each head's sum of latents. */
static fx_value *expand(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    int64_t rank = p->mla.kv_rank, nope = p->mla.nope, shape[3] = { p->heads, p->v_dim, rank };

    if (fx_w_exists(b, layer, "attn_v_b"))
        return fx_nn_by_head(&b->nn, "attn_v", p->heads, x, fx_w_role(b, layer, "attn_v_b", shape, 3),
                             (&(fx_nn_part){ 0, p->v_dim, false }));
    return fx_nn_by_head(&b->nn, "attn_v", p->heads, x, fx_w2(b, layer, "attn_kv_b", p->heads * (nope + p->v_dim), rank),
                         (&(fx_nn_part){ nope, p->v_dim, false }));
}

fx_value *fx_b_mla(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    fx_nn *nn = &b->nn;
    int64_t rank = p->mla.kv_rank, nope = p->mla.nope, rot = p->rot_dim;
    fx_nn_attn attn = b->attn;
    fx_value *q, *k, *kv, *latent;

    if (p->mla.expanded)
        return by_head(b, layer, x);
    q = queries(b, layer, x);
    attn.kv_heads = 1;
    attn.head_dim = rot + rank;
    attn.v_dim = rank;
    kv = fx_b_product(b, layer, "attn_kv_a_mqa", x, rank + rot, p->dim, p->attention_bias);
    latent = latent_norm(b, layer, "attn_kv_a_norm", fx_nn_slice(nn, "kv_latent", kv, 0, rank), rank);
    k = fx_nn_splice(nn, "k_turned", 1, fx_nn_slice(nn, "k_rot", kv, rank, rot), 0, rot, latent, rank);
    latent = absorb(b, layer, fx_nn_splice(nn, "q_nope", p->heads, q, 0, nope, NULL, 0));
    q = fx_nn_splice(nn, "q_turned", p->heads, q, nope, rot, latent, rank);
    q = fx_nn_rope(nn, &attn, "q_rope", q);
    k = fx_nn_rope(nn, &attn, "k_rope", k);
    x = expand(b, layer, fx_nn_attend(nn, &attn, q, k, NULL));
    return fx_b_product(b, layer, "attn_output", x, p->dim, p->heads * p->v_dim, p->attention_bias);
}
