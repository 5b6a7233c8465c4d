/* params.c - a model's sizes, from GGUF keys or config.json keys, by one table. */
#include <math.h>
#include <stdio.h>

#include "models/models_int.h"

#define MAX_SIZE (INT64_C(1) << 31)
#define N_TABLES 3u          /* of rows: the architecture's, those of all decoders, the norm's */

/* What every decoder has. */
static const fx_param common[] = {
    FX_PARAM(dim, I64, true, "embedding_length", "hidden_size"),
    FX_PARAM(layers, I64, true, "block_count", "num_hidden_layers"),
    FX_PARAM(heads, I64, true, "attention.head_count", "num_attention_heads"),
    FX_PARAM(kv_heads, I64, false, "attention.head_count_kv", "num_key_value_heads"),
    FX_PARAM(head_dim, I64, false, "attention.key_length", "head_dim"),
    FX_PARAM(v_dim, I64, false, "attention.value_length", NULL),
    FX_PARAM(ffn, I64, true, "feed_forward_length", "intermediate_size"),
    FX_PARAM(context, I64, true, "context_length", "max_position_embeddings"),
    FX_PARAM(act, ACT, false, NULL, "hidden_act"),
    FX_PARAM(vocab, I64, false, NULL, "vocab_size"),
    FX_PARAM(attn_scale, F64, false, "attention.scale", NULL),
    FX_PARAM(tied, BOOL, false, NULL, "tie_word_embeddings"),
    FX_PARAM(rot_dim, I64, false, "rope.dimension_count", NULL),
    FX_PARAM(rot_part, F64, false, NULL, "rope_parameters.partial_rotary_factor"),
    FX_PARAM(rot_part, F64, false, NULL, "partial_rotary_factor"),
    FX_PARAM(rope_theta, F64, false, "rope.freq_base", "rope_parameters.full_attention.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_parameters.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_scaling.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_theta"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* What every norm has; which key, its kind says. */
static const fx_param rms_eps = FX_PARAM(eps, F64, true, "attention.layer_norm_rms_epsilon", "rms_norm_eps");
static const fx_param layer_eps = FX_PARAM(eps, F64, true, "attention.layer_norm_epsilon", "layer_norm_eps");

static const struct { const char *name; fx_activation act; } activations[] = {
    { "silu", FX_ACTIV_SILU },
    { "swish", FX_ACTIV_SILU },
    { "gelu", FX_ACTIV_GELU },
    { "gelu_python", FX_ACTIV_GELU },
    { "gelu_new", FX_ACTIV_GELU_TANH },
    { "gelu_fast", FX_ACTIV_GELU_TANH },
    { "gelu_pytorch_tanh", FX_ACTIV_GELU_TANH },
    { "gelu_accurate", FX_ACTIV_GELU_TANH },
    { "gelu_python_tanh", FX_ACTIV_GELU_TANH },
    { "quick_gelu", FX_ACTIV_GELU_QUICK },
    { "relu", FX_ACTIV_RELU },
    { "relu2", FX_ACTIV_RELU2 },
    { "sigmoid", FX_ACTIV_SIGMOID },
    { "tanh", FX_ACTIV_TANH },
    { "linear", FX_ACTIV_NONE },
};

static fx_status read_activation(const fx_weights *w, const char *key, fx_activation *out, fx_error *err)
{
    fx_str name;

    FX_TRY(fx_config_str(w, key, &name, err));
    for (size_t i = 0; i < FX_COUNT(activations); i++) {
        if (fx_str_is(name, activations[i].name)) {
            *out = activations[i].act;
            return FORNAX_OK;
        }
    }
    return fx_fail_param(err, FORNAX_EUNSUP, key, "%s: %s \"%.*s\" isn't supported", fx_weights_path(w), key,
                         FX_STR_ARG(name));
}

fx_status fx_param_refuse(const fx_weights *w, const char *key, fx_error *err)
{
    return fx_fail_param(err, FORNAX_EUNSUP, key, "%s: %s isn't supported for this architecture", fx_weights_path(w),
                         key);
}

/* An integer of any width in an array; false: it is none. */
static bool element_i64(const fx_meta *e, int64_t *out)
{
    switch (e->type) {
    case FX_META_I8: case FX_META_I16: case FX_META_I32: case FX_META_I64:
        *out = e->v.i;
        return true;
    case FX_META_U8: case FX_META_U16: case FX_META_U32: case FX_META_U64:
        *out = (int64_t)FX_MIN(e->v.u, (uint64_t)INT64_MAX);
        return true;
    default:
        return false;
    }
}

/* GGUF has some numbers layer by layer: all must be one, but for those that are 0 (see flag_list). */
static fx_status read_i64(const fx_weights *w, const char *key, int64_t *out, fx_error *err)
{
    const fx_meta *m = fx_meta_find(w, key);
    fx_meta_iter it;
    fx_meta e;
    int64_t n;

    if (!m || m->type != FX_META_ARRAY)
        return fx_meta_i64(w, key, out, err);
    *out = 0;
    for (it = fx_meta_iter_of(m); fx_meta_next(&it, &e);) {
        if (!element_i64(&e, &n))
            return fx_fail_param(err, FORNAX_EFORMAT, key, "%s: %s: expected integers", fx_weights_path(w), key);
        if (n && *out && n != *out)
            return fx_fail_param(err, FORNAX_EUNSUP, key, "%s: %s: layers of different sizes (%lld and %lld) aren't supported",
                                 fx_weights_path(w), key, (long long)*out, (long long)n);
        *out = n ? n : *out;
    }
    return FORNAX_OK;
}

static fx_status read_value(const fx_weights *w, const fx_param *row, const char *key, void *at, fx_error *err)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;

    switch (row->kind) {
    case FX_PARAM_I64: return (gguf ? read_i64 : fx_config_i64)(w, key, at, err);
    case FX_PARAM_F64: return (gguf ? fx_meta_f64 : fx_config_f64)(w, key, at, err);
    case FX_PARAM_BOOL: return (gguf ? fx_meta_bool : fx_config_bool)(w, key, at, err);
    case FX_PARAM_ACT: return read_activation(w, key, at, err);
    }
    return FORNAX_EINTERNAL;
}

/* The file's key of a row, "" if its family has none; *there: whether the file has it. */
static void key_of(const fx_arch *arch, const fx_weights *w, const fx_param *row, char *key, size_t cap, bool *there)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;

    *key = 0;
    *there = false;
    if (gguf && row->gguf) {
        snprintf(key, cap, "%s.%s", arch->gguf_name, row->gguf);
        *there = fx_meta_find(w, key) != NULL;
    } else if (!gguf && row->hf) {
        snprintf(key, cap, "%s", row->hf);
        *there = fx_config_find(w, key) != NULL;
    }
}

fx_status fx_param_opt_i64(const fx_arch *arch, const fx_weights *w, const char *gguf, const char *hf, int64_t *io,
                           fx_error *err)
{
    fx_param row = { 0, FX_PARAM_I64, false, gguf, hf };
    char key[128];
    bool there;

    key_of(arch, w, &row, key, sizeof(key), &there);
    return there ? read_value(w, &row, key, io, err) : FORNAX_OK;
}

/* A bit per byte of the parameters: the field that starts there has its value. */
typedef struct fields {
    uint64_t bits[(sizeof(fx_model_params) + 63) / 64];
} fields;

static bool is_filled(const fields *f, const fx_param *row) { return f->bits[row->at / 64] >> row->at % 64 & 1; }

/* Whether a row's key is there as null, and that says "none" or "as others have it" rather than nothing. */
static bool is_none(const fx_weights *w, const fx_param *row)
{
    static const size_t at[] = {
        offsetof(fx_model_params, kv_heads),     offsetof(fx_model_params, head_dim),
        offsetof(fx_model_params, window),       offsetof(fx_model_params, attn_softcap),
        offsetof(fx_model_params, logit_softcap),
    };
    bool may = false;

    for (size_t i = 0; i < FX_COUNT(at); i++)
        may |= row->at == at[i];
    return may && row->hf && fx_weights_kind_of(w) == FX_WEIGHTS_HUB && fx_config_is_null(w, row->hf);
}

static fx_status read_row(const fx_arch *arch, const fx_weights *w, const fx_param *row, fields *f, fx_model_params *p,
                          fx_error *err)
{
    char key[128];
    bool there;

    key_of(arch, w, row, key, sizeof(key), &there);
    if (is_filled(f, row) || (!there && !is_none(w, row)))
        return FORNAX_OK;
    f->bits[row->at / 64] |= UINT64_C(1) << row->at % 64;
    if (!there) {
        memset((char *)p + row->at, 0, 8);               /* all are of that size */
        return FORNAX_OK;
    }
    return read_value(w, row, key, (char *)p + row->at, err);
}

/* The message for a key that must be there, if its field has no value and no default. */
static fx_status check_row(const fx_arch *arch, const fx_weights *w, const fx_param *row, const fields *f,
                           fx_model_params *p, fx_error *err)
{
    static const char zeros[8] = { 0 };
    char key[128];
    bool there;

    key_of(arch, w, row, key, sizeof(key), &there);
    if (is_filled(f, row) || !row->required || !*key || memcmp((const char *)p + row->at, zeros, sizeof(zeros)))
        return FORNAX_OK;
    return read_value(w, row, key, (char *)p + row->at, err);
}

static fx_status read_rows(const fx_arch *arch, const fx_weights *w, const fx_param *rows, fields *f,
                           fx_model_params *p, fx_error *err)
{
    for (; rows && (rows->gguf || rows->hf); rows++)
        FX_TRY(read_row(arch, w, rows, f, p, err));
    return FORNAX_OK;
}

/* What is checked: the parameters, and the rows that filled them. */
typedef struct checked {
    const fx_arch *arch;
    const fx_weights *w;
    const fx_model_params *p;
    const fx_param *const *tables;       /* [N_TABLES] */
    fx_error *err;
} checked;

/* The file's key of the field at 'at' and what it is; what it is alone if the file doesn't say it. */
static const char *field_name(const checked *c, size_t at, const char *what, char *room, size_t cap)
{
    char key[128];
    bool there = false;

    for (size_t i = 0; i < N_TABLES; i++) {
        for (const fx_param *row = c->tables[i]; !there && row && (row->gguf || row->hf); row++) {
            if (row->at == at)
                key_of(c->arch, c->w, row, key, sizeof(key), &there);
        }
    }
    if (!there)
        return what;
    snprintf(room, cap, "%s (%s)", key, what);
    return room;
}

static fx_status in_range(const checked *c, size_t at, const char *what, int64_t n, int64_t lo, int64_t hi)
{
    char room[256];

    if (n >= lo && n <= hi)
        return FORNAX_OK;
    return fx_fail(c->err, FORNAX_EFORMAT, "%s: %s: expected %lld to %lld, found %lld", fx_weights_path(c->w),
                   field_name(c, at, what, room, sizeof(room)), (long long)lo, (long long)hi, (long long)n);
}

#define IN_RANGE(field, what, lo, hi) FX_TRY(in_range(c, offsetof(fx_model_params, field), what, c->p->field, lo, hi))

static fx_status check_heads(const checked *c)
{
    const fx_model_params *p = c->p;
    char heads[256], kv[256], rotated[256];

    if (p->heads % p->kv_heads)
        return fx_fail(c->err, FORNAX_EFORMAT, "%s: %s: expected a multiple of %s, found %lld and %lld", fx_weights_path(c->w),
                       field_name(c, offsetof(fx_model_params, heads), "heads", heads, sizeof(heads)),
                       field_name(c, offsetof(fx_model_params, kv_heads), "kv heads", kv, sizeof(kv)), (long long)p->heads,
                       (long long)p->kv_heads);
    if (p->rot_dim % 2)
        return fx_fail(c->err, FORNAX_EFORMAT, "%s: %s: expected an even number, found %lld", fx_weights_path(c->w),
                       field_name(c, offsetof(fx_model_params, rot_dim), "rotated columns of a head", rotated, sizeof(rotated)),
                       (long long)p->rot_dim);
    return FORNAX_OK;
}

static fx_status check_factors(const checked *c)
{
    const fx_model_params *p = c->p;
    const struct { size_t at; const char *what; double x; bool ok; } rows[] = {
        { offsetof(fx_model_params, rot_part), "part of a head that is rotated", p->rot_part, p->rot_part > 0 && p->rot_part <= 1 },
        { offsetof(fx_model_params, eps), "epsilon of norms", p->eps, p->eps >= 0 && p->eps < 1 },
        { offsetof(fx_model_params, rope_theta), "rope base", p->rope_theta, p->rope_theta > 0 && p->rope_theta <= 1e30 },
        { offsetof(fx_model_params, rope_local), "local rope base", p->rope_local, p->rope_local >= 0 && p->rope_local <= 1e30 },
        { offsetof(fx_model_params, attn_scale), "attention scale", p->attn_scale, p->attn_scale > 0 && p->attn_scale <= 1e30 },
        { offsetof(fx_model_params, embed_scale), "embedding multiplier", p->embed_scale, isfinite(p->embed_scale) },
        { offsetof(fx_model_params, residual_scale), "residual multiplier", p->residual_scale, isfinite(p->residual_scale) },
        { offsetof(fx_model_params, logit_scale), "logit multiplier", p->logit_scale, isfinite(p->logit_scale) },
        { offsetof(fx_model_params, attn_softcap), "cap of scores", p->attn_softcap, p->attn_softcap >= 0 && p->attn_softcap <= 1e9 },
        { offsetof(fx_model_params, logit_softcap), "cap of logits", p->logit_softcap, p->logit_softcap >= 0 && p->logit_softcap <= 1e9 },
        { offsetof(fx_model_params, qkv_limit), "limit of queries, keys and values", p->qkv_limit, p->qkv_limit >= 0 && p->qkv_limit <= 1e30 },
    };
    char room[256];

    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (!rows[i].ok)
            return fx_fail(c->err, FORNAX_EFORMAT, "%s: %s: %g is out of range", fx_weights_path(c->w),
                           field_name(c, rows[i].at, rows[i].what, room, sizeof(room)), rows[i].x);
    return FORNAX_OK;
}

static fx_status check_sizes(const checked *c)
{
    IN_RANGE(dim, "embedding size", 1, 1 << 20);
    IN_RANGE(embed_dim, "width of the embedding table", 0, 1 << 20);
    IN_RANGE(layers, "number of layers", 1, 4096);
    IN_RANGE(heads, "number of heads", 1, 1 << 16);
    IN_RANGE(kv_heads, "number of kv heads", 1, c->p->heads);
    IN_RANGE(head_dim, "key size of a head", 1, 1 << 16);
    IN_RANGE(v_dim, "value size of a head", 1, 1 << 16);
    IN_RANGE(ffn, "feed-forward size", 1, 1 << 24);
    IN_RANGE(vocab, "vocabulary size", 1, MAX_SIZE - 1);
    IN_RANGE(context, "context length", 1, MAX_SIZE - 1);
    IN_RANGE(window, "window of attention", 0, MAX_SIZE - 1);
    FX_TRY(check_factors(c));
    IN_RANGE(rot_dim, "rotated columns of a head", 0, c->p->head_dim);
    return check_heads(c);
}

static fx_status check_experts(const checked *c)
{
    const fx_moe_params *moe = &c->p->moe;
    int64_t groups = FX_MAX(moe->groups, 1), kept = FX_MAX(moe->top_groups, 1);

    if (!moe->experts)
        return FORNAX_OK;
    IN_RANGE(moe.experts, "number of experts", 1, 1 << 16);
    IN_RANGE(moe.top, "experts of a row", 1, moe->experts);
    IN_RANGE(moe.ffn, "feed-forward size of an expert", 1, 1 << 24);
    IN_RANGE(moe.shared_ffn, "feed-forward size of shared experts", 0, 1 << 24);
    IN_RANGE(moe.groups, "groups of experts", 0, FX_MIN(moe->experts, FX_MAX_GROUPS));
    IN_RANGE(moe.top_groups, "groups of experts that are kept", 0, groups);
    IN_RANGE(moe.dense_layers, "layers without experts", 0, 1 << 16);
    IN_RANGE(moe.step, "layers from one with experts to the next", 0, 1 << 16);
    if (moe->experts % groups || moe->top > moe->experts / groups * kept)
        return fx_fail(c->err, FORNAX_EFORMAT, "%s: %lld experts in %lld groups, %lld of %lld: these don't fit together",
                       fx_weights_path(c->w), (long long)moe->experts, (long long)groups, (long long)moe->top,
                       (long long)kept);
    if (!isfinite(moe->scale) || !isfinite(moe->alpha) || !(moe->limit >= 0 && moe->limit <= 1e30))
        return fx_fail(c->err, FORNAX_EFORMAT, "%s: a factor or limit of experts is out of range", fx_weights_path(c->w));
    return FORNAX_OK;
}

/* A size that may be left out, because it follows from others, isn't 0 where it is given. Layers without attention
 * have no heads. */
static fx_status check_given(const checked *c, const fields *f)
{
    static const struct { size_t at; const char *what; } rows[] = {
        { offsetof(fx_model_params, kv_heads), "number of kv heads" },
        { offsetof(fx_model_params, head_dim), "key size of a head" },
        { offsetof(fx_model_params, v_dim), "value size of a head" },
        { offsetof(fx_model_params, vocab), "vocabulary size" },
    };

    for (size_t i = 0; !c->arch->state && i < FX_COUNT(rows); i++) {
        const fx_param row = { .at = rows[i].at };
        int64_t n;

        memcpy(&n, (const char *)c->p + row.at, sizeof(n));
        if (is_filled(f, &row))
            FX_TRY(in_range(c, row.at, rows[i].what, n, 1, MAX_SIZE - 1));
    }
    return FORNAX_OK;
}

/* GGUF files state the vocabulary by the table's rows. */
static fx_status vocab_from_table(const fx_arch *arch, const fx_weights *w, fx_model_params *p, fx_error *err)
{
    char name[64];
    const fx_weight *t;

    fx_role_name(arch, w, FX_ONCE, "token_embd", name, sizeof(name));
    t = fx_weights_find(w, fx_str_of(name));
    if (!t)
        return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s is missing", fx_weights_path(w), name);
    p->vocab = t->shape[0];
    return FORNAX_OK;
}

/* Kinds of layers, one by one: config.json's layer_types. */
static fx_status read_layer_types(const fx_arch *arch, const fx_weights *w, const fx_model_params *p, json_t *types, uint8_t *flags,
                                  fx_error *err)
{
    json_t *type;
    size_t i;

    if (!json_is_array(types) || (int64_t)json_array_size(types) != p->layers)
        return fx_fail_param(err, FORNAX_EFORMAT, "layer_types", "%s: config.json: layer_types: expected a list of %lld",
                             fx_weights_path(w), (long long)p->layers);
    json_array_foreach(types, i, type) {
        const char *name = json_is_string(type) ? json_string_value(type) : "?";

        if (strcmp(name, "full_attention") == 0)
            flags[i] &= (uint8_t)~(FX_LAYER_WINDOW | FX_LAYER_LINEAR);
        else if (strcmp(name, "sliding_attention") == 0)
            flags[i] |= FX_LAYER_WINDOW;
        else if (arch->state && (strcmp(name, "linear_attention") == 0 || strcmp(name, "conv") == 0))
            flags[i] = (uint8_t)((flags[i] & ~FX_LAYER_WINDOW) | FX_LAYER_LINEAR);
        else
            return fx_fail_param(err, FORNAX_EUNSUP, "layer_types", "%s: layer_types[%zu]: \"%s\" isn't supported",
                                 fx_weights_path(w), i, name);
        if ((flags[i] & FX_LAYER_WINDOW) && !p->window)
            return fx_fail_param(err, FORNAX_EFORMAT, "sliding_window",
                                 "%s: config.json: layer_types has layers with a window, sliding_window is missing",
                                 fx_weights_path(w));
    }
    return FORNAX_OK;
}

/* GGUF's kv heads by layer, NULL: it has one number. Layers without any are recurrent. */
static const fx_meta *kv_heads_by_layer(const fx_arch *arch, const fx_weights *w)
{
    char key[128];
    const fx_meta *m;

    if (fx_weights_kind_of(w) != FX_WEIGHTS_GGUF)
        return NULL;
    snprintf(key, sizeof(key), "%s.attention.head_count_kv", arch->gguf_name);
    m = fx_meta_find(w, key);
    return m && m->type == FX_META_ARRAY ? m : NULL;
}

static fx_status flag_list(const fx_arch *arch, const fx_weights *w, const fx_model_params *p, const fx_meta *list,
                           uint8_t *flags, fx_error *err)
{
    fx_meta_iter it = fx_meta_iter_of(list);
    fx_meta e;
    int64_t n, i = 0;

    if (list->v.array.n != (uint64_t)p->layers)
        return fx_fail(err, FORNAX_EFORMAT, "%s: %.*s: expected %lld numbers, found %llu", fx_weights_path(w),
                       FX_STR_ARG(list->key), (long long)p->layers, (unsigned long long)list->v.array.n);
    for (; fx_meta_next(&it, &e); i++) {
        if (!element_i64(&e, &n) || n)
            continue;
        if (!arch->state)
            return fx_fail_param(err, FORNAX_EUNSUP, "attention.head_count_kv", "%s: %.*s: layer %lld has no attention",
                                 fx_weights_path(w), FX_STR_ARG(list->key), (long long)i);
        flags[i] = (uint8_t)((flags[i] & ~FX_LAYER_WINDOW) | FX_LAYER_LINEAR);
    }
    return FORNAX_OK;
}

static fx_status read_layers(const fx_arch *arch, const fx_weights *w, fx_arena *a, fx_model_params *p, fx_error *err)
{
    json_t *types = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF ? NULL : fx_config_find(w, "layer_types");
    const fx_meta *list = kv_heads_by_layer(arch, w);
    uint8_t *flags;

    if (!types && !arch->layers && !list)
        return FORNAX_OK;
    flags = fx_arena_array(a, (size_t)p->layers, 1);
    if (!flags)
        return fx_nomem(err, "a model's layers");
    memset(flags, p->window ? FX_LAYER_WINDOW : 0, (size_t)p->layers);
    if (arch->layers)
        FX_TRY(arch->layers(w, p, flags, err));
    if (list)
        FX_TRY(flag_list(arch, w, p, list, flags, err));
    if (types)
        FX_TRY(read_layer_types(arch, w, p, types, flags, err));
    p->layer_flags = flags;
    return FORNAX_OK;
}

/* Sizes that follow from others; c->p is 'p'. */
static fx_status derive(const checked *c, fx_model_params *p)
{
    if (!p->vocab)
        FX_TRY(vocab_from_table(c->arch, c->w, p, c->err));
    if (!p->kv_heads)
        p->kv_heads = p->heads;
    IN_RANGE(layers, "number of layers", 1, 4096);
    IN_RANGE(heads, "number of heads", 1, 1 << 16);
    IN_RANGE(dim, "embedding size", 1, 1 << 20);
    if (!p->head_dim)
        p->head_dim = p->dim / p->heads;
    IN_RANGE(head_dim, "key size of a head", 1, 1 << 16);
    if (!p->v_dim)
        p->v_dim = p->head_dim;
    if (p->rot_dim < 0)
        p->rot_dim = (int64_t)((double)p->head_dim * p->rot_part);
    return FORNAX_OK;
}

static void set_hub_defaults(const fx_default *list, fx_model_params *p)
{
    for (const fx_default *d = list; d && d->value != 0; d++) {
        int64_t n = (int64_t)d->value;

        memcpy((char *)p + d->at, d->kind == FX_PARAM_I64 ? (const void *)&n : &d->value, 8);
    }
}

fx_status fx_params_read(const fx_arch *arch, const fx_weights *w, fx_arena *a, fx_model_params *p, fx_error *err)
{
    const fx_param eps[] = { arch->norm == FX_NORM_RMS ? rms_eps : layer_eps, { 0, FX_PARAM_I64, false, NULL, NULL } };
    const fx_param *const tables[N_TABLES] = { arch->params, common, eps };
    const checked c = { arch, w, p, tables, err };
    fields f = { { 0 } };

    *p = arch->defaults;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB)
        set_hub_defaults(arch->hub_defaults, p);
    p->rope_theta = p->rope_theta ? p->rope_theta : 10000;
    p->rot_dim = p->rot_dim ? p->rot_dim : -1;
    p->rot_part = p->rot_part ? p->rot_part : 1;
    p->embed_scale = p->embed_scale ? p->embed_scale : 1;
    p->residual_scale = p->residual_scale ? p->residual_scale : 1;
    p->logit_scale = p->logit_scale ? p->logit_scale : 1;
    p->moe.scale = p->moe.scale ? p->moe.scale : 1;
    for (size_t i = 0; i < FX_COUNT(tables); i++)
        FX_TRY(read_rows(arch, w, tables[i], &f, p, err));
    if (arch->adjust)
        FX_TRY(arch->adjust(w, p, err));
    for (size_t i = 0; i < FX_COUNT(tables); i++) {
        for (const fx_param *row = tables[i]; row && (row->gguf || row->hf); row++)
            FX_TRY(check_row(arch, w, row, &f, p, err));
    }
    FX_TRY(check_given(&c, &f));
    FX_TRY(derive(&c, p));
    if (p->attn_scale == 0)
        p->attn_scale = 1 / sqrt((double)p->head_dim);
    p->moe.ffn = p->moe.ffn ? p->moe.ffn : p->ffn;
    FX_TRY(check_experts(&c));
    FX_TRY(read_layers(arch, w, a, p, err));
    return check_sizes(&c);
}
