/* export.c - a hub folder as the GGUF that it would be: keys, and tensors under their names there.
 *
 * For families whose tensors go over one by one (families[]). Where GGUF rotates neighbours and the folder
 * halves, rows of q and k must change places: the tensor says in how many heads ("turn"), and who
 * writes the file does it. */
#include <math.h>
#include <stdio.h>

#include "models/models_int.h"

static const struct { const fx_arch *from, *to; } families[] = {
    { &fx_arch_llama, &fx_arch_llama },       { &fx_arch_mistral, &fx_arch_llama },
    { &fx_arch_qwen2, &fx_arch_qwen2 },       { &fx_arch_qwen3, &fx_arch_qwen3 },
    { &fx_arch_arcee, &fx_arch_arcee },       { &fx_arch_seed_oss, &fx_arch_seed_oss },
    { &fx_arch_ernie4_5, &fx_arch_ernie4_5 },
};
static const char *const once[] = { "token_embd", "output_norm", "output" };
static const char *const each_layer[] = {
    "attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm", "attn_k_norm",
    "ffn_norm",  "ffn_gate", "ffn_up", "ffn_down",
};

typedef struct exporter {
    const fx_weights *w;
    const fx_arch *from, *to;
    const fx_model_params *p;
    fx_arena *a;
    fx_gguf_keys *keys;
    fx_export *out;
    size_t taken;                /* tensors of the folder */
    fx_error *err;
} exporter;

/* ---- Keys ------------------------------------------------------------------------------------- */

static const char *key(char out[96], const exporter *e, const char *name)
{
    snprintf(out, 96, "%s.%s", e->to->gguf_name, name);
    return out;
}

static void put_u32(exporter *e, const char *name, int64_t value)
{
    char k[96];

    fx_gguf_put_u32(e->keys, key(k, e, name), (uint32_t)value);
}

static void put_f32(exporter *e, const char *name, double value)
{
    char k[96];

    fx_gguf_put_f32(e->keys, key(k, e, name), (float)value);
}

static void put_general(exporter *e)
{
    const char *path = fx_weights_path(e->w), *slash;
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    for (slash = path + n; slash > path && slash[-1] != '/'; slash--)
        ;
    fx_gguf_put_str(e->keys, "general.architecture", fx_str_of(e->to->gguf_name));
    fx_gguf_put_str(e->keys, "general.type", FX_STR("model"));
    fx_gguf_put_str(e->keys, "general.name", fx_str_n(slash, (size_t)(path + n - slash)));
}

static void put_sizes(exporter *e)
{
    const fx_model_params *p = e->p;

    put_u32(e, "vocab_size", p->vocab);
    put_u32(e, "context_length", p->context);
    put_u32(e, "embedding_length", p->dim);
    put_u32(e, "block_count", p->layers);
    put_u32(e, "feed_forward_length", p->ffn);
    put_u32(e, "attention.head_count", p->heads);
    put_u32(e, "attention.head_count_kv", p->kv_heads);
    put_u32(e, "attention.key_length", p->head_dim);
    put_u32(e, "attention.value_length", p->v_dim);
    put_f32(e, "attention.layer_norm_rms_epsilon", p->eps);
    put_u32(e, "rope.dimension_count", p->rot_dim);
    put_f32(e, "rope.freq_base", p->rope_theta);
    if (p->window)
        put_u32(e, "attention.sliding_window", p->window);
}

static fx_status check_layers(const exporter *e)
{
    const fx_model_params *p = e->p;

    for (int64_t i = 0; p->layer_flags && i < p->layers; i++) {
        if (p->layer_flags[i] != (p->window ? FX_LAYER_WINDOW : 0))
            return fx_fail_param(e->err, FORNAX_EUNSUP, "layer_types", "%s: a window in some layers only can't be written "
                                 "as a GGUF file of this architecture", fx_weights_path(e->w));
    }
    return FORNAX_OK;
}

/* ---- Tensors ------------------------------------------------------------------------------------ */

static fx_status add(exporter *e, fx_weight t, const char *name, int64_t turn)
{
    t.name = fx_str_of(fx_arena_strdup(e->a, name, strlen(name)));
    if (!t.name.p)
        return fx_nomem(e->err, "the names of tensors");
    e->out->tensors[e->out->n] = t;
    e->out->turn[e->out->n++] = turn;
    return FORNAX_OK;
}

static int64_t turn_of(const exporter *e, const char *role)
{
    if (e->from->hf_rope == e->to->gguf_rope)
        return 0;
    if (strncmp(role, "attn_q", 6) == 0)
        return e->p->heads;
    return strncmp(role, "attn_k", 6) == 0 ? e->p->kv_heads : 0;
}

/* A role's tensor, if the folder has it; the graph was built, so that what must be there is. */
static fx_status add_role(exporter *e, int64_t layer, const char *role)
{
    char from[128], to[128];
    const fx_weight *t;

    if (!fx_role_name(e->from, e->w, layer, role, from, sizeof(from)) ||
        !fx_role_gguf_name(layer, role, to, sizeof(to)))
        return FORNAX_OK;
    t = fx_weights_find(e->w, fx_str_of(from));
    if (!t)
        return FORNAX_OK;
    e->taken++;
    if (e->p->tied && layer == FX_ONCE && strcmp(role, "output") == 0)
        return FORNAX_OK;
    return add(e, *t, to, turn_of(e, role));
}

static fx_status add_with_bias(exporter *e, int64_t layer, const char *role)
{
    char bias[64];

    snprintf(bias, sizeof(bias), "%s.bias", role);
    FX_TRY(add_role(e, layer, role));
    return add_role(e, layer, bias);
}

/* Nothing that the graph might need stays behind; buffers that old folders have may. */
static fx_status check_rest(const exporter *e)
{
    size_t spare = 0;

    for (size_t i = 0; i < fx_weights_count(e->w); i++)
        spare += fx_str_ends(fx_weights_at(e->w, i)->name, FX_STR("rotary_emb.inv_freq"));
    if (e->taken + spare == fx_weights_count(e->w))
        return FORNAX_OK;
    return fx_fail(e->err, FORNAX_EUNSUP, "%s: expected %zu tensors that a GGUF file of %s has names for, found %zu",
                   fx_weights_path(e->w), e->taken + spare, e->to->gguf_name, fx_weights_count(e->w));
}

static fx_status add_tensors(exporter *e)
{
    for (size_t i = 0; i < FX_COUNT(once); i++)
        FX_TRY(add_with_bias(e, FX_ONCE, once[i]));
    for (int64_t layer = 0; layer < e->p->layers; layer++) {
        for (size_t i = 0; i < FX_COUNT(each_layer); i++)
            FX_TRY(add_with_bias(e, layer, each_layer[i]));
    }
    return check_rest(e);
}

/* ---- Rotation -------------------------------------------------------------------------------------- */

typedef struct rotation {
    const char *object;          /* "rope_parameters" or "rope_scaling" */
    fx_rope rope;
} rotation;

static fx_status scaling_number(const exporter *e, const rotation *r, const char *name, double *io)
{
    char path[96];

    snprintf(path, sizeof(path), "%s.%s", r->object, name);
    return fx_config_opt_f64(e->w, path, io, e->err);
}

static fx_status put_none(exporter *e, const rotation *r)
{
    (void)e, (void)r;
    return FORNAX_OK;
}

static void put_type(exporter *e, const char *type, double factor)
{
    char k[96];

    fx_gguf_put_str(e->keys, key(k, e, "rope.scaling.type"), fx_str_of(type));
    put_f32(e, "rope.scaling.factor", factor);
}

static fx_status put_linear(exporter *e, const rotation *r)
{
    double factor = 1;

    FX_TRY(scaling_number(e, r, "factor", &factor));
    put_type(e, "linear", factor);
    return FORNAX_OK;
}

/* Divisors of the frequencies, as a tensor. */
static fx_status put_divisors(exporter *e, const rotation *r)
{
    int64_t n = e->p->rot_dim / 2;
    fx_weight t = { .dtype = FX_F32, .rank = 1, .n_elems = n, .bytes = (size_t)n * sizeof(float), .made = true };
    float *f = FX_ARENA_NEWN(e->a, float, (size_t)n + 1);

    if (!e->to->rope_factors)
        return fx_param_refuse(e->w, "rope_scaling", e->err);
    if (!f)
        return fx_nomem(e->err, "RoPE frequencies");
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)(pow(e->p->rope_theta, -2.0 * (double)i / (double)e->p->rot_dim) / (double)r->rope.inv_freq[i]);
    for (int i = 0; i < FX_WEIGHT_RANK; i++)
        t.shape[i] = i ? 1 : n;
    t.data = f;
    return add(e, t, "rope_freqs.weight", 0);
}

/* What readers multiply cos and sin with beside attn_factor follows from the factor. */
static fx_status put_yarn(exporter *e, const rotation *r)
{
    double old = (double)e->p->context, factor, fast = 32, slow = 1, by;
    bool truncate = true;
    char path[96];

    FX_TRY(scaling_number(e, r, "original_max_position_embeddings", &old));
    FX_TRY(fx_config_opt_f64(e->w, "original_max_position_embeddings", &old, e->err));
    factor = (double)e->p->context / old;
    FX_TRY(scaling_number(e, r, "factor", &factor));
    FX_TRY(scaling_number(e, r, "beta_fast", &fast));
    FX_TRY(scaling_number(e, r, "beta_slow", &slow));
    snprintf(path, sizeof(path), "%s.truncate", r->object);
    FX_TRY(fx_config_opt_bool(e->w, path, &truncate, e->err));
    if (!truncate)
        return fx_param_refuse(e->w, path, e->err);
    by = factor > 1 ? 0.1 * log(factor) + 1 : 1;
    put_type(e, "yarn", factor);
    put_u32(e, "rope.scaling.original_context_length", (int64_t)old);
    put_f32(e, "rope.scaling.yarn_beta_fast", fast);
    put_f32(e, "rope.scaling.yarn_beta_slow", slow);
    if (fabs(r->rope.attn_scale / by - 1) > 1e-6)
        put_f32(e, "rope.scaling.attn_factor", r->rope.attn_scale / by);
    return FORNAX_OK;
}

static const struct { const char *name; fx_status (*put)(exporter *e, const rotation *r); } scalings[] = {
    { "default", put_none }, { "none", put_none }, { "linear", put_linear }, { "llama3", put_divisors },
    { "yarn", put_yarn },
};

static fx_status put_rotation(exporter *e)
{
    rotation r = { json_is_object(fx_config_find(e->w, "rope_parameters")) ? "rope_parameters" : "rope_scaling", { 0 } };
    fx_str type = FX_STR("default");
    char path[96];

    FX_TRY(fx_rope_read(e->from, e->w, e->p, false, e->a, &r.rope, e->err));
    snprintf(path, sizeof(path), "%s.type", r.object);
    FX_TRY(fx_config_opt_str(e->w, path, &type, e->err));
    snprintf(path, sizeof(path), "%s.rope_type", r.object);
    FX_TRY(fx_config_opt_str(e->w, path, &type, e->err));
    for (size_t i = 0; i < FX_COUNT(scalings); i++) {
        if (fx_str_is(type, scalings[i].name))
            return scalings[i].put(e, &r);
    }
    return fx_fail_param(e->err, FORNAX_EUNSUP, "rope_scaling", "%s: RoPE scaling \"%s\" can't be written as GGUF",
                         fx_weights_path(e->w), FX_SHOW(type));
}

/* ---- The whole --------------------------------------------------------------------------------------- */

static fx_status find_family(exporter *e)
{
    char list[256] = "";
    size_t n = 0;

    FX_TRY(fx_arch_of(e->w, &e->from, e->err));
    for (size_t i = 0; i < FX_COUNT(families); i++) {
        if (families[i].from == e->from)
            e->to = families[i].to;
        n += (size_t)snprintf(list + n, sizeof(list) - n, i ? ", %s" : "%s", families[i].from->hf_name);
    }
    if (e->to)
        return FORNAX_OK;
    return fx_fail_param(e->err, FORNAX_EUNSUP, "architectures", "%s: folders of %s can't be made GGUF files here (those of "
                         "%s can)", fx_weights_path(e->w), e->from->hf_name, list);
}

fx_status fx_model_export(fx_arena *arena, const fx_weights *w, fx_gguf_keys *keys, fx_export *out, fx_error *err)
{
    exporter e = { .w = w, .a = arena, .keys = keys, .out = out, .err = err };
    fx_model_options opt = { .kv_auto = true };
    fx_model_desc desc;
    size_t room = fx_weights_count(w) + 1;

    FX_TRY(find_family(&e));
    FX_TRY(fx_model_build(arena, w, &opt, &desc, err));      /* so that all is there, and of the right shape */
    e.p = &desc.params;
    *out = (fx_export){ .tensors = FX_ARENA_NEWN(arena, fx_weight, room), .turn = FX_ARENA_NEWN(arena, int64_t, room),
                        .vocab = desc.params.vocab };
    if (!out->tensors || !out->turn)
        return fx_nomem(err, "the list of tensors");
    FX_TRY(check_layers(&e));
    put_general(&e);
    put_sizes(&e);
    FX_TRY(put_rotation(&e));
    return add_tensors(&e);
}
