/* params.c - a model's sizes, from GGUF keys or config.json keys, by one table. */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "models/models_int.h"

#define MAX_SIZE (INT64_C(1) << 31)

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
    FX_PARAM(rot_part, F64, false, NULL, "rope_scaling.partial_rotary_factor"),
    FX_PARAM(rot_part, F64, false, NULL, "partial_rotary_factor"),
    FX_PARAM(rope_theta, F64, false, "rope.freq_base", "rope_parameters.full_attention.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_parameters.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_scaling.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_theta"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

/* What every norm has; which key, its kind says. */
static const fx_param rms_eps[] = {
    FX_PARAM(eps, F64, true, "attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};
static const fx_param layer_eps[] = {
    FX_PARAM(eps, F64, true, "attention.layer_norm_epsilon", "layer_norm_eps"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

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
    return fx_param_fail(w, FORNAX_EUNSUP, key, err, "\"%s\" isn't supported", FX_SHOW(name));
}

fx_status fx_param_refuse(const fx_weights *w, const char *key, fx_error *err)
{
    return fx_param_fail(w, FORNAX_EUNSUP, key, err, "it isn't supported for this architecture");
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
            return fx_param_fail(w, FORNAX_EFORMAT, key, err, "expected integers");
        if (n && *out && n != *out)
            return fx_param_fail(w, FORNAX_EUNSUP, key, err, "layers of different sizes (%lld and %lld) aren't supported",
                                 (long long)*out, (long long)n);
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
    char key[FX_PARAM_KEY];
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
    char key[FX_PARAM_KEY];
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
    char key[FX_PARAM_KEY];
    bool there;

    key_of(arch, w, row, key, sizeof(key), &there);
    if (is_filled(f, row) || !row->required || !*key || memcmp((const char *)p + row->at, zeros, sizeof(zeros)))
        return FORNAX_OK;
    return read_value(w, row, key, (char *)p + row->at, err);
}

/* Keys of config.json that the reference library doesn't look at in this architecture: among them the usual
 * ones of epsilon and activation where it has others. */
static bool is_ignored(const fx_arch *arch, const fx_weights *w, const fx_param *row)
{
    bool others = false;

    if (fx_weights_kind_of(w) != FX_WEIGHTS_HUB)
        return false;
    if (row->at == offsetof(fx_model_params, rot_part))
        return arch->defaults.rot_part == 0;
    if (row->at == offsetof(fx_model_params, eps) && arch->hub_eps)
        return true;
    if (row->at != offsetof(fx_model_params, eps) && row->at != offsetof(fx_model_params, act))
        return false;
    for (const fx_param *own = arch->params; own && (own->gguf || own->hf); own++) {
        if (own == row)
            return false;
        others |= own->at == row->at && own->hf;
    }
    return others;
}

static fx_status read_rows(const fx_arch *arch, const fx_weights *w, const fx_param *rows, fields *f,
                           fx_model_params *p, fx_error *err)
{
    for (; rows && (rows->gguf || rows->hf); rows++)
        if (!is_ignored(arch, w, rows))
            FX_TRY(read_row(arch, w, rows, f, p, err));
    return FORNAX_OK;
}

/* ---- Which key of the file a value has ------------------------------------------------------- */

#define AT(field) offsetof(fx_model_params, field)

static const fx_param *eps_of(const fx_arch *arch) { return arch->norm == FX_NORM_RMS ? rms_eps : layer_eps; }

/* Where the value comes from that a file leaves out. */
static const struct { size_t at, from; } sources[] = {
    { AT(kv_heads), AT(heads) },    { AT(head_dim), AT(dim) },      { AT(v_dim), AT(head_dim) },
    { AT(rot_dim), AT(rot_part) },  { AT(rot_part), AT(head_dim) }, { AT(embed_dim), AT(dim) },
    { AT(moe.ffn), AT(ffn) },       { AT(rec.inner), AT(dim) },     { AT(rec.dt_rank), AT(dim) },
};

/* The key of the field at 'at': the one that the file has (true), else the first that it might have. */
static bool own_key(const fx_arch *arch, const fx_weights *w, size_t at, char *key, size_t cap)
{
    const fx_param *const tables[] = { arch->params, common, eps_of(arch) };
    char next[FX_PARAM_KEY];
    bool there = false;

    *key = 0;
    for (size_t i = 0; i < FX_COUNT(tables) && !there; i++) {
        for (const fx_param *row = tables[i]; row && (row->gguf || row->hf) && !there; row++) {
            if (row->at != at)
                continue;
            key_of(arch, w, row, next, sizeof(next), &there);
            if (there || !*key)
                fx_format(key, cap, "%s", next);
        }
    }
    return there;
}

void fx_param_key(const fx_weights *w, const fx_model_params *p, size_t at, char key[FX_PARAM_KEY])
{
    char other[FX_PARAM_KEY];

    if (own_key(p->arch, w, at, key, FX_PARAM_KEY))
        return;
    for (size_t i = 0; i < FX_COUNT(sources); i++) {
        if (sources[i].at != at)
            continue;
        fx_param_key(w, p, sources[i].from, other);
        if (*other)
            memcpy(key, other, sizeof(other));
        return;
    }
}

fx_status fx_param_fail(const fx_weights *w, fx_status st, const char *key, fx_error *err, const char *fmt, ...)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    char text[sizeof(err->text)];
    va_list ap;

    va_start(ap, fmt);
    fx_vformat(text, sizeof(text), fmt, ap);
    va_end(ap);
    return fx_fail_param(err, st, key, "%s%s: %s%s%s", fx_weights_path(w), gguf ? "" : "/config.json", key,
                         *key ? ": " : "", text);
}

fx_status fx_param_limit(const fx_weights *w, const char *key, int64_t n, int64_t lo, int64_t hi, fx_error *err)
{
    if (n >= lo && n <= hi)
        return FORNAX_OK;
    return fx_param_fail(w, FORNAX_EFORMAT, key, err, "expected %lld to %lld, found %lld", (long long)lo, (long long)hi,
                         (long long)n);
}

fx_status fx_param_range(const fx_weights *w, const fx_model_params *p, size_t at, const char *what, int64_t lo,
                         int64_t hi, fx_error *err)
{
    char key[FX_PARAM_KEY];
    int64_t n;

    memcpy(&n, (const char *)p + at, sizeof(n));
    if (n >= lo && n <= hi)
        return FORNAX_OK;
    fx_param_key(w, p, at, key);
    return fx_param_fail(w, FORNAX_EFORMAT, key, err, "%s: expected %lld to %lld, found %lld", what, (long long)lo,
                         (long long)hi, (long long)n);
}

/* ---- Ranges ------------------------------------------------------------------------------------- */

/* Integers, as the file has them and as they are in the end. What needs more than this is checked where it is used. */
static const struct { size_t at; int64_t lo, hi; const char *what; } integers[] = {
    { AT(dim), 1, 1 << 20, "embedding size" },
    { AT(embed_dim), 0, 1 << 20, "width of the embedding table" },
    { AT(layers), 1, 4096, "number of layers" },
    { AT(heads), 1, 1 << 16, "number of heads" },
    { AT(kv_heads), 1, 1 << 16, "number of kv heads" },
    { AT(head_dim), 1, 1 << 16, "key size of a head" },
    { AT(v_dim), 1, 1 << 16, "value size of a head" },
    { AT(ffn), 1, 1 << 24, "feed-forward size" },
    { AT(vocab), 1, MAX_SIZE - 1, "vocabulary size" },
    { AT(context), 1, MAX_SIZE - 1, "context length" },
    { AT(window), 0, MAX_SIZE - 1, "window of attention" },
    { AT(moe.experts), 0, 1 << 16, "number of experts" },
    { AT(moe.top), 0, 1 << 16, "experts of a row" },
    { AT(moe.ffn), 0, 1 << 24, "feed-forward size of an expert" },
    { AT(moe.shared_ffn), 0, 1 << 24, "feed-forward size of shared experts" },
    { AT(moe.groups), 0, FX_MAX_GROUPS, "groups of experts" },
    { AT(moe.top_groups), 0, FX_MAX_GROUPS, "groups of experts that are kept" },
    { AT(moe.dense_layers), 0, 1 << 16, "layers without experts" },
    { AT(moe.step), 0, 1 << 16, "layers from one with experts to the next" },
    { AT(rec.conv_width), 0, 64, "width of the convolution" },
    { AT(rec.inner), 0, 1 << 20, "columns of the scan" },
    { AT(rec.state), 0, 1 << 16, "state size" },
    { AT(rec.dt_rank), 0, 1 << 16, "rank of the time step" },
    { AT(rec.groups), 0, 1 << 16, "groups of the scan" },
    { AT(rec.heads), 0, 1 << 16, "heads of the scan" },
    { AT(rec.key_heads), 0, 1 << 16, "key heads" },
    { AT(rec.value_heads), 0, 1 << 16, "value heads" },
    { AT(rec.key_dim), 0, 1 << 16, "key size of a head" },
    { AT(rec.value_dim), 0, 1 << 16, "value size of a head" },
};

/* Numbers; zero: 0 is right too. Kernels have them as f32. */
static const struct { size_t at; double lo, hi; bool zero; const char *what; } numbers[] = {
    { AT(eps), 0, 0.99, true, "epsilon of norms" },
    { AT(attn_scale), 1e-30, 1e30, false, "factor of scores" },
    { AT(rot_part), 1e-6, 1, false, "rotated part of a head" },
    { AT(rope_theta), 1, 1e30, false, "rope base" },
    { AT(rope_local), 1, 1e30, true, "rope base of layers with a window" },
    { AT(embed_scale), -1e30, 1e30, true, "factor of embeddings" },
    { AT(residual_scale), -1e30, 1e30, true, "factor of residuals" },
    { AT(logit_scale), -1e30, 1e30, true, "factor of logits" },
    { AT(attn_softcap), 1e-3, 1e9, true, "cap of scores" },
    { AT(logit_softcap), 1e-3, 1e9, true, "cap of logits" },
    { AT(qkv_limit), 0, 1e30, true, "limit of q, k and v" },
    { AT(moe.scale), -1e30, 1e30, true, "factor of experts" },
    { AT(moe.alpha), 0, 1e30, true, "slope of experts' activation" },
    { AT(moe.limit), 0, 1e30, true, "limit of experts' activation" },
};

/* 'early': fields without a value as yet are 0. */
static fx_status check_ranges(const fx_weights *w, const fx_model_params *p, bool early, fx_error *err)
{
    char key[FX_PARAM_KEY];
    double x;

    for (size_t i = 0; i < FX_COUNT(integers); i++)
        FX_TRY(fx_param_range(w, p, integers[i].at, integers[i].what, early ? 0 : integers[i].lo, integers[i].hi, err));
    for (size_t i = 0; i < FX_COUNT(numbers); i++) {
        memcpy(&x, (const char *)p + numbers[i].at, sizeof(x));
        if ((x >= numbers[i].lo && x <= numbers[i].hi) || (x == 0 && (early || numbers[i].zero)))
            continue;
        fx_param_key(w, p, numbers[i].at, key);
        return fx_param_fail(w, FORNAX_EFORMAT, key, err, "%s: expected %s%g to %g, found %g", numbers[i].what,
                             numbers[i].zero && numbers[i].lo > 0 ? "0 or " : "", numbers[i].lo, numbers[i].hi, x);
    }
    return FORNAX_OK;
}

/* Sizes fit each other. */
static fx_status check_heads(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    char key[FX_PARAM_KEY];

    FX_TRY(fx_param_range(w, p, AT(kv_heads), "number of kv heads", 1, p->heads, err));
    if (p->heads % p->kv_heads) {
        fx_param_key(w, p, AT(kv_heads), key);
        return fx_param_fail(w, FORNAX_EFORMAT, key, err, "expected heads to be a multiple of kv heads, found %lld and %lld",
                             (long long)p->heads, (long long)p->kv_heads);
    }
    FX_TRY(fx_param_range(w, p, AT(rot_dim), "rotated columns of a head", 0, p->head_dim, err));
    if (p->rot_dim % 2 == 0)
        return FORNAX_OK;
    fx_param_key(w, p, AT(rot_dim), key);
    return fx_param_fail(w, FORNAX_EFORMAT, key, err, "expected an even number of rotated columns, found %lld",
                         (long long)p->rot_dim);
}

static fx_status check_experts(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    const fx_moe_params *moe = &p->moe;
    int64_t groups = FX_MAX(moe->groups, 1), kept = FX_MAX(moe->top_groups, 1);
    char key[FX_PARAM_KEY];

    if (!moe->experts)
        return FORNAX_OK;
    FX_TRY(fx_param_range(w, p, AT(moe.top), "experts of a row", 1, moe->experts, err));
    FX_TRY(fx_param_range(w, p, AT(moe.ffn), "feed-forward size of an expert", 1, 1 << 24, err));
    FX_TRY(fx_param_range(w, p, AT(moe.groups), "groups of experts", 0, moe->experts, err));
    FX_TRY(fx_param_range(w, p, AT(moe.top_groups), "groups of experts that are kept", 0, groups, err));
    if (moe->experts % groups == 0 && moe->top <= moe->experts / groups * kept)
        return FORNAX_OK;
    fx_param_key(w, p, AT(moe.groups), key);
    return fx_param_fail(w, FORNAX_EFORMAT, key, err, "%lld experts in %lld groups, %lld of %lld: these don't fit together",
                         (long long)moe->experts, (long long)groups, (long long)moe->top, (long long)kept);
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
        return fx_param_fail(w, FORNAX_EFORMAT, "layer_types", err, "expected a list of %lld", (long long)p->layers);
    json_array_foreach(types, i, type) {
        const char *name = json_is_string(type) ? json_string_value(type) : "?";

        if (strcmp(name, "full_attention") == 0)
            flags[i] &= (uint8_t)~(FX_LAYER_WINDOW | FX_LAYER_LINEAR);
        else if (strcmp(name, "sliding_attention") == 0)
            flags[i] |= FX_LAYER_WINDOW;
        else if (arch->state && (strcmp(name, "linear_attention") == 0 || strcmp(name, "conv") == 0))
            flags[i] = (uint8_t)((flags[i] & ~FX_LAYER_WINDOW) | FX_LAYER_LINEAR);
        else
            return fx_param_fail(w, FORNAX_EUNSUP, "layer_types", err, "\"%s\" (layer %zu) isn't supported",
                                 FX_SHOW(fx_str_of(name)), i);
        if ((flags[i] & FX_LAYER_WINDOW) && !p->window)
            return fx_param_fail(w, FORNAX_EFORMAT, "layer_types", err, "it has layers with a window, sliding_window is missing");
    }
    return FORNAX_OK;
}

/* GGUF's kv heads by layer, NULL: it has one number. Layers without any are recurrent. */
static const fx_meta *kv_heads_by_layer(const fx_arch *arch, const fx_weights *w)
{
    char key[FX_PARAM_KEY];
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
        return fx_param_fail(w, FORNAX_EFORMAT, FX_SHOW(list->key), err, "expected %lld numbers, found %llu",
                             (long long)p->layers, (unsigned long long)list->v.array.n);
    for (; fx_meta_next(&it, &e); i++) {
        if (!element_i64(&e, &n) || n)
            continue;
        if (!arch->state)
            return fx_param_fail(w, FORNAX_EUNSUP, FX_SHOW(list->key), err, "layer %lld has no attention", (long long)i);
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

/* Sizes that a file may leave out, but not call 0. Layers without attention have no heads. */
static fx_status refuse_zeros(const fx_arch *arch, const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    static const struct { size_t at; const char *what; } rows[] = {
        { AT(kv_heads), "number of kv heads" }, { AT(head_dim), "key size of a head" },
        { AT(v_dim), "value size of a head" },  { AT(vocab), "vocabulary size" },
    };
    char key[FX_PARAM_KEY];

    for (size_t i = 0; !arch->state && i < FX_COUNT(rows); i++) {
        if (own_key(arch, w, rows[i].at, key, sizeof(key)))
            FX_TRY(fx_param_range(w, p, rows[i].at, rows[i].what, 1, MAX_SIZE - 1, err));
    }
    return FORNAX_OK;
}

/* Sizes that follow from others. */
static fx_status derive(const fx_arch *arch, const fx_weights *w, fx_model_params *p, fx_error *err)
{
    char key[FX_PARAM_KEY];

    FX_TRY(refuse_zeros(arch, w, p, err));
    if (!p->vocab)
        FX_TRY(vocab_from_table(arch, w, p, err));
    FX_TRY(fx_param_range(w, p, AT(heads), "number of heads", 1, 1 << 16, err));
    if (!p->head_dim && p->heads > p->dim) {
        fx_param_key(w, p, AT(heads), key);
        return fx_param_fail(w, FORNAX_EFORMAT, key, err, "%lld heads of %lld columns have none each", (long long)p->heads,
                             (long long)p->dim);
    }
    if (!p->kv_heads)
        p->kv_heads = p->heads;
    if (!p->head_dim)
        p->head_dim = p->dim / p->heads;
    if (!p->v_dim)
        p->v_dim = p->head_dim;
    if (p->rot_dim < 0)
        p->rot_dim = (int64_t)((double)p->head_dim * p->rot_part);
    if (p->attn_scale == 0)
        p->attn_scale = 1 / sqrt((double)p->head_dim);
    p->moe.ffn = p->moe.ffn ? p->moe.ffn : p->ffn;
    return FORNAX_OK;
}

static void set_hub_defaults(const fx_default *list, fx_model_params *p)
{
    for (const fx_default *d = list; d && d->value != 0; d++) {
        int64_t n = (int64_t)d->value;

        memcpy((char *)p + d->at, d->kind == FX_PARAM_I64 ? (const void *)&n : &d->value, 8);
    }
}

/* What an architecture reckons with (adjust) is there and in range. */
static fx_status read_raw(const fx_arch *arch, const fx_weights *w, fields *f, fx_model_params *p, fx_error *err)
{
    const fx_param *const tables[] = { arch->params, common, eps_of(arch) };

    for (size_t i = 0; i < FX_COUNT(tables); i++)
        FX_TRY(read_rows(arch, w, tables[i], f, p, err));
    for (const fx_param *row = common; row->gguf || row->hf; row++) {
        if (row->at == AT(dim) || row->at == AT(layers))
            FX_TRY(check_row(arch, w, row, f, p, err));
    }
    FX_TRY(fx_param_range(w, p, AT(dim), "embedding size", 1, 1 << 20, err));
    FX_TRY(fx_param_range(w, p, AT(layers), "number of layers", 1, 4096, err));
    return check_ranges(w, p, true, err);
}

fx_status fx_params_read(const fx_arch *arch, const fx_weights *w, fx_arena *a, fx_model_params *p, fx_error *err)
{
    const fx_param *const tables[] = { arch->params, common, eps_of(arch) };
    fields f = { { 0 } };

    *p = arch->defaults;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB)
        set_hub_defaults(arch->hub_defaults, p);
    p->arch = arch;
    p->rope_theta = p->rope_theta ? p->rope_theta : 10000;
    p->rot_dim = p->rot_dim ? p->rot_dim : -1;
    p->rot_part = p->rot_part ? p->rot_part : 1;
    p->embed_scale = p->embed_scale ? p->embed_scale : 1;
    p->residual_scale = p->residual_scale ? p->residual_scale : 1;
    p->logit_scale = p->logit_scale ? p->logit_scale : 1;
    p->moe.scale = p->moe.scale ? p->moe.scale : 1;
    FX_TRY(read_raw(arch, w, &f, p, err));
    if (arch->adjust)
        FX_TRY(arch->adjust(w, p, err));
    for (size_t i = 0; i < FX_COUNT(tables); i++) {
        for (const fx_param *row = tables[i]; row && (row->gguf || row->hf); row++)
            FX_TRY(check_row(arch, w, row, &f, p, err));
    }
    FX_TRY(derive(arch, w, p, err));
    FX_TRY(check_ranges(w, p, false, err));
    FX_TRY(check_heads(w, p, err));
    FX_TRY(check_experts(w, p, err));
    return read_layers(arch, w, a, p, err);
}
