/* params.c - a model's sizes, from GGUF keys or config.json keys, by one table. */
#include <math.h>
#include <stdio.h>

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
    FX_PARAM(vocab, I64, false, NULL, "vocab_size"),
    FX_PARAM(eps, F64, true, "attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    FX_PARAM(attn_scale, F64, false, "attention.scale", NULL),
    FX_PARAM(tied, BOOL, false, NULL, "tie_word_embeddings"),
    FX_PARAM(rot_dim, I64, false, "rope.dimension_count", NULL),
    FX_PARAM(rope_theta, F64, false, "rope.freq_base", "rope_parameters.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_scaling.rope_theta"),
    FX_PARAM(rope_theta, F64, false, NULL, "rope_theta"),
    { 0, FX_PARAM_I64, false, NULL, NULL },
};

static fx_status read_value(const fx_weights *w, const fx_param *row, const char *key, void *at, fx_error *err)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;

    switch (row->kind) {
    case FX_PARAM_I64: return (gguf ? fx_meta_i64 : fx_config_i64)(w, key, at, err);
    case FX_PARAM_F64: return (gguf ? fx_meta_f64 : fx_config_f64)(w, key, at, err);
    case FX_PARAM_BOOL: return (gguf ? fx_meta_bool : fx_config_bool)(w, key, at, err);
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

static fx_status read_rows(const fx_arch *arch, const fx_weights *w, const fx_param *rows, fx_model_params *p,
                           fx_error *err)
{
    uint64_t filled[(sizeof(*p) + 63) / 64] = { 0 };     /* a bit per byte: the field that starts there */

    for (; rows->gguf || rows->hf; rows++) {
        char key[128];
        bool there, done = filled[rows->at / 64] >> rows->at % 64 & 1;

        key_of(arch, w, rows, key, sizeof(key), &there);
        if (done || (!there && !(rows->required && *key)))
            continue;
        filled[rows->at / 64] |= UINT64_C(1) << rows->at % 64;
        FX_TRY(read_value(w, rows, key, (char *)p + rows->at, err));
    }
    return FORNAX_OK;
}

static fx_status in_range(const fx_weights *w, const char *what, int64_t n, int64_t lo, int64_t hi, fx_error *err)
{
    if (n >= lo && n <= hi)
        return FORNAX_OK;
    return fx_fail(err, FORNAX_EFORMAT, "%s: %s: expected %lld to %lld, found %lld", fx_weights_path(w), what,
                   (long long)lo, (long long)hi, (long long)n);
}

static fx_status check_sizes(const fx_weights *w, const fx_model_params *p, fx_error *err)
{
    FX_TRY(in_range(w, "embedding size", p->dim, 1, 1 << 20, err));
    FX_TRY(in_range(w, "number of layers", p->layers, 1, 4096, err));
    FX_TRY(in_range(w, "number of heads", p->heads, 1, 1 << 16, err));
    FX_TRY(in_range(w, "number of kv heads", p->kv_heads, 1, p->heads, err));
    FX_TRY(in_range(w, "key size of a head", p->head_dim, 1, 1 << 16, err));
    FX_TRY(in_range(w, "value size of a head", p->v_dim, 1, 1 << 16, err));
    FX_TRY(in_range(w, "feed-forward size", p->ffn, 1, 1 << 24, err));
    FX_TRY(in_range(w, "vocabulary size", p->vocab, 1, MAX_SIZE - 1, err));
    FX_TRY(in_range(w, "context length", p->context, 1, MAX_SIZE - 1, err));
    FX_TRY(in_range(w, "window of attention", p->window, 0, MAX_SIZE - 1, err));
    FX_TRY(in_range(w, "rotated columns of a head", p->rot_dim, 0, p->head_dim, err));
    if (p->heads % p->kv_heads)
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected heads to be a multiple of kv heads, found %lld and %lld",
                       fx_weights_path(w), (long long)p->heads, (long long)p->kv_heads);
    if (p->rot_dim % 2)
        return fx_fail(err, FORNAX_EFORMAT, "%s: expected an even number of rotated columns, found %lld",
                       fx_weights_path(w), (long long)p->rot_dim);
    if (!(p->eps >= 0 && p->eps < 1) || !(p->rope_theta > 0 && p->rope_theta <= 1e30) ||
        !(p->attn_scale > 0 && p->attn_scale <= 1e30))
        return fx_fail(err, FORNAX_EFORMAT, "%s: norm epsilon %g, rope base %g or attention scale %g is out of range",
                       fx_weights_path(w), p->eps, p->rope_theta, p->attn_scale);
    return FORNAX_OK;
}

/* GGUF files state the vocabulary by the table's rows. */
static fx_status vocab_from_table(const fx_weights *w, fx_model_params *p, fx_error *err)
{
    char name[64];
    const fx_weight *t;

    fx_role_name(w, FX_ONCE, "token_embd", name, sizeof(name));
    t = fx_weights_find(w, fx_str_of(name));
    if (!t)
        return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s is missing", fx_weights_path(w), name);
    p->vocab = t->shape[0];
    return FORNAX_OK;
}

fx_status fx_params_read(const fx_arch *arch, const fx_weights *w, fx_model_params *p, fx_error *err)
{
    *p = (fx_model_params){ .rope_theta = 10000, .rot_dim = -1 };
    FX_TRY(read_rows(arch, w, common, p, err));
    if (arch->params)
        FX_TRY(read_rows(arch, w, arch->params, p, err));
    if (!p->vocab)
        FX_TRY(vocab_from_table(w, p, err));
    if (!p->kv_heads)
        p->kv_heads = p->heads;
    if (!p->head_dim) {
        FX_TRY(in_range(w, "number of heads", p->heads, 1, 1 << 16, err));
        p->head_dim = p->dim / p->heads;
    }
    if (!p->v_dim)
        p->v_dim = p->head_dim;
    if (p->rot_dim < 0)
        p->rot_dim = p->head_dim;
    if (p->attn_scale == 0 && p->head_dim > 0)
        p->attn_scale = 1 / sqrt((double)p->head_dim);
    return check_sizes(w, p, err);
}
