/* embedder.c - reads how a model's rows become a vector, and does it.
 *
 * Sums are in double and in the order of rows: a text's vector doesn't depend on what was
 * computed beside it. */
#include "api/embed.h"

#include <math.h>

#include "base/file.h"

#define JSON_LIMIT ((size_t)1 << 20)

typedef struct reader {
    fx_embedder *e;
    fx_arena *a;
    const fx_weights *w;
    int64_t dim;                 /* columns so far */
    fx_error *err;
} reader;

static fx_str text_of(const json_t *v)
{
    return json_is_string(v) ? fx_str_n(json_string_value(v), json_string_length(v)) : (fx_str){ NULL, 0 };
}

static fx_status unsupported(reader *r, const char *param, fx_str what)
{
    return fx_fail_param(r->err, FORNAX_EUNSUP, param, "%s: %s: \"%.*s\" isn't supported", fx_weights_path(r->w), param,
                         (int)FX_MIN(what.n, 100), what.p ? what.p : "");
}

/* ---- Files of the folder ------------------------------------------------------------------- */

/* folder/sub/name; sub may be empty, and is a plain name. */
static fx_status path_of(reader *r, fx_str sub, const char *name, fx_buf *out)
{
    bool plain = sub.n < 128 && !memchr(sub.n ? sub.p : "", '/', sub.n) && !fx_str_is(sub, "..") && !fx_str_is(sub, ".");

    if (!plain)
        return fx_fail_param(r->err, FORNAX_EFORMAT, "path", "%s: modules.json: expected the name of a folder, found \"%.*s\"",
                             fx_weights_path(r->w), (int)FX_MIN(sub.n, 100), sub.p);
    fx_buf_clear(out);
    fx_buf_printf(out, "%s/", fx_weights_path(r->w));
    fx_buf_str(out, sub);
    fx_buf_printf(out, "%s%s", sub.n ? "/" : "", name);
    return out->failed ? fx_nomem(r->err, "a path") : FORNAX_OK;
}

/* A JSON object in a file; *out NULL if there is no such file. New reference. */
static fx_status read_json(reader *r, fx_str sub, const char *name, json_t **out)
{
    fx_buf path, text;
    json_error_t je;
    fx_status st;

    *out = NULL;
    fx_buf_init(&path, r->a->mem);
    fx_buf_init(&text, r->a->mem);
    st = path_of(r, sub, name, &path);
    if (st == FORNAX_OK && fx_path_exists(path.p)) {
        st = fx_file_read(&text, path.p, JSON_LIMIT, r->err);
        if (st == FORNAX_OK) {
            *out = json_loadb(fx_buf_view(&text).p, text.n, 0, &je);
            if (!json_is_object(*out))
                st = fx_fail(r->err, FORNAX_EFORMAT, "%s: expected a JSON object", path.p);
        }
    }
    if (st != FORNAX_OK) {
        json_decref(*out);
        *out = NULL;
    }
    fx_buf_done(&text);
    fx_buf_done(&path);
    return st;
}

/* ---- Pooling ---------------------------------------------------------------------------------- */

static const struct { const char *key, *word; fx_pooling pooling; } poolings[] = {
    { "pooling_mode_cls_token", "cls", FX_POOL_CLS },
    { "pooling_mode_max_tokens", "max", FX_POOL_MAX },
    { "pooling_mode_mean_tokens", "mean", FX_POOL_MEAN },
    { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", FX_POOL_MEAN_SQRT },
    { "pooling_mode_weightedmean_tokens", "weightedmean", FX_POOL_WEIGHTED },
    { "pooling_mode_lasttoken", "lasttoken", FX_POOL_LAST },
};

static fx_status add_word(reader *r, fx_str word)
{
    for (size_t i = 0; i < FX_COUNT(poolings); i++) {
        if (fx_str_is(word, poolings[i].word)) {
            r->e->pooling |= 1u << poolings[i].pooling;
            return FORNAX_OK;
        }
    }
    return unsupported(r, "pooling_mode", word);
}

static fx_status read_pooling_modes(reader *r, const json_t *o)
{
    const json_t *mode = json_object_get(o, "pooling_mode"), *one;
    const char *key;
    size_t i;

    if (json_is_string(mode))
        FX_TRY(add_word(r, text_of(mode)));
    json_array_foreach(mode, i, one)
        FX_TRY(add_word(r, text_of(one)));
    json_object_foreach((json_t *)(uintptr_t)o, key, one) {
        bool known = strncmp(key, "pooling_mode_", 13) != 0;

        for (i = 0; i < FX_COUNT(poolings) && !known; i++) {
            known = strcmp(key, poolings[i].key) == 0;
            if (known && json_is_true(one))
                r->e->pooling |= 1u << poolings[i].pooling;
        }
        if (!known && json_is_true(one))
            return unsupported(r, key, FX_STR("true"));
    }
    return FORNAX_OK;
}

static int count_bits(unsigned x)
{
    int n = 0;

    for (; x; x &= x - 1)
        n++;
    return n;
}

static fx_status read_pooling(reader *r, fx_str sub)
{
    json_t *o = NULL, *include;
    fx_status st;

    FX_TRY(read_json(r, sub, "config.json", &o));
    if (!o)
        return fx_fail(r->err, FORNAX_EFORMAT, "%s: modules.json names a pooling whose config.json is missing", fx_weights_path(r->w));
    r->e->pooling = 0;
    st = read_pooling_modes(r, o);
    include = json_object_get(o, "include_prompt");
    if (st == FORNAX_OK && json_is_false(include) && r->e->prompt.n)
        st = unsupported(r, "include_prompt", FX_STR("false"));
    json_decref(o);
    FX_TRY(st);
    if (!r->e->pooling)
        return fx_fail(r->err, FORNAX_EFORMAT, "%s: the pooling's config.json chooses no mode", fx_weights_path(r->w));
    r->dim *= count_bits(r->e->pooling);
    return FORNAX_OK;
}

/* ---- Dense layers -------------------------------------------------------------------------------- */

static fx_status read_activation(reader *r, fx_str name, fx_dense_act *out)
{
    static const struct { const char *end; fx_dense_act act; } rows[] = {
        { "Tanh", FX_DENSE_TANH }, { "Identity", FX_DENSE_NONE }, { "ReLU", FX_DENSE_RELU }, { "GELU", FX_DENSE_GELU },
        { "SiLU", FX_DENSE_SILU }, { "Sigmoid", FX_DENSE_SIGMOID },
    };
    size_t at = name.n;

    while (at > 0 && name.p[at - 1] != '.')
        at--;
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (fx_str_is(fx_str_n(name.p + at, name.n - at), rows[i].end)) {
            *out = rows[i].act;
            return FORNAX_OK;
        }
    }
    return unsupported(r, "activation_function", name);
}

/* A tensor of the layer as f32 in the arena. */
static fx_status take_tensor(reader *r, const fx_weight *t, int64_t rows, int64_t cols, const float **out)
{
    float *p;

    if (!t || t->n_elems != rows * cols || t->shape[0] != rows || !fx_dtype_is_float(t->dtype))
        return fx_fail(r->err, FORNAX_EFORMAT, "%s: a dense layer: expected a tensor of floats [%lld,%lld]", fx_weights_path(r->w),
                       (long long)rows, (long long)cols);
    p = FX_ARENA_NEWN(r->a, float, (size_t)(rows * cols));
    if (!p)
        return fx_nomem(r->err, "a dense layer");
    fx_dequantize_row(t->dtype, t->data, p, rows * cols);
    *out = p;
    return FORNAX_OK;
}

static fx_status read_dense_weights(reader *r, fx_dense *d, fx_str sub)
{
    fx_weights *w = NULL;
    const fx_weight *matrix;
    fx_buf path;
    fx_status st;

    fx_buf_init(&path, r->a->mem);
    st = path_of(r, sub, "model.safetensors", &path);
    if (st == FORNAX_OK && !fx_path_exists(path.p))
        st = fx_fail(r->err, FORNAX_EUNSUP, "%s: a dense layer's weights must be in safetensors form", path.p);
    if (st == FORNAX_OK)
        st = fx_weights_open(&w, r->a->mem, path.p, 0, r->err);
    fx_buf_done(&path);
    FX_TRY(st);
    matrix = fx_weights_find(w, FX_STR("linear.weight"));
    d->n_in = r->dim;
    d->n_out = matrix && matrix->rank == 2 ? matrix->shape[0] : 0;
    st = d->n_out < 1 || d->n_out > 1 << 20 ? take_tensor(r, NULL, d->n_out, d->n_in, &d->w)
                                            : take_tensor(r, matrix, d->n_out, d->n_in, &d->w);
    if (st == FORNAX_OK && fx_weights_find(w, FX_STR("linear.bias")))
        st = take_tensor(r, fx_weights_find(w, FX_STR("linear.bias")), d->n_out, 1, &d->b);
    fx_weights_close(w);
    return st;
}

static fx_status read_dense(reader *r, fx_str sub)
{
    fx_dense *d = &r->e->dense[r->e->n_dense];
    json_t *o = NULL;
    fx_status st = FORNAX_OK;
    fx_str name;

    if (r->e->n_dense == FX_DENSE_MAX)
        return fx_fail(r->err, FORNAX_EUNSUP, "%s: modules.json: more than %d dense layers", fx_weights_path(r->w), FX_DENSE_MAX);
    FX_TRY(read_json(r, sub, "config.json", &o));
    name = text_of(json_object_get(o, "activation_function"));
    d->act = FX_DENSE_TANH;                          /* what the layer has unless it says otherwise */
    if (name.p)
        st = read_activation(r, name, &d->act);
    json_decref(o);
    FX_TRY(st);
    FX_TRY(read_dense_weights(r, d, sub));
    r->dim = d->n_out;
    r->e->n_dense++;
    return FORNAX_OK;
}

/* ---- modules.json ------------------------------------------------------------------------------------ */

static fx_status read_transformer(reader *r, fx_str sub)
{
    json_t *o = NULL, *n, *lower;

    if (sub.n)
        return unsupported(r, "modules.json: path", sub);
    FX_TRY(read_json(r, sub, "sentence_bert_config.json", &o));
    n = json_object_get(o, "max_seq_length");
    lower = json_object_get(o, "do_lower_case");
    if (json_is_integer(n) && json_integer_value(n) > 0)
        r->e->max_tokens = json_integer_value(n);
    r->e->lower = json_is_true(lower);
    json_decref(o);
    return FORNAX_OK;
}

static fx_status read_normalize(reader *r, fx_str sub)
{
    (void)r, (void)sub;
    return FORNAX_OK;                                /* done by default */
}

static const struct { const char *end; fx_status (*read)(reader *r, fx_str sub); } modules[] = {
    { "Transformer", read_transformer }, { "Pooling", read_pooling }, { "Dense", read_dense }, { "Normalize", read_normalize },
};

static fx_status read_module(reader *r, const json_t *o)
{
    fx_str type = text_of(json_object_get(o, "type")), sub = text_of(json_object_get(o, "path"));
    size_t at = type.n;

    while (at > 0 && type.p[at - 1] != '.')
        at--;
    for (size_t i = 0; i < FX_COUNT(modules) && type.p; i++)
        if (fx_str_is(fx_str_n(type.p + at, type.n - at), modules[i].end))
            return modules[i].read(r, sub.p ? sub : FX_STR(""));
    return unsupported(r, "modules.json: type", type);
}

/* The prompt that every text gets, if the model names one. */
static fx_status read_prompt(reader *r)
{
    json_t *o = NULL;
    fx_str name, text;
    fx_status st = FORNAX_OK;

    FX_TRY(read_json(r, FX_STR(""), "config_sentence_transformers.json", &o));
    name = text_of(json_object_get(o, "default_prompt_name"));
    if (name.p) {
        text = text_of(json_object_get(json_object_get(o, "prompts"), json_string_value(json_object_get(o, "default_prompt_name"))));
        r->e->prompt = fx_str_n(fx_arena_strdup(r->a, text.n ? text.p : "", text.n), text.n);
        if (!r->e->prompt.p)
            st = fx_nomem(r->err, "a prompt");
    }
    json_decref(o);
    return st;
}

static fx_status read_modules(reader *r, fx_str text)
{
    json_error_t je;
    json_t *list = json_loadb(text.p, text.n, 0, &je), *one;
    fx_status st = FORNAX_OK;
    size_t i;

    if (!json_is_array(list))
        st = fx_fail(r->err, FORNAX_EFORMAT, "%s: modules.json: expected a list", fx_weights_path(r->w));
    if (st == FORNAX_OK)
        st = read_prompt(r);
    json_array_foreach(list, i, one)
        if (st == FORNAX_OK)
            st = read_module(r, one);
    json_decref(list);
    return st;
}

/* ---- GGUF ---------------------------------------------------------------------------------------------- */

static bool pooling_key(const fx_weights *w, char *key, size_t cap)
{
    fx_str arch;

    if (fx_weights_kind_of(w) != FX_WEIGHTS_GGUF || fx_meta_str(w, "general.architecture", &arch, NULL) != FORNAX_OK)
        return false;
    snprintf(key, cap, "%.*s.pooling_type", (int)FX_MIN(arch.n, 60), arch.p);
    return fx_meta_find(w, key) != NULL;
}

static fx_status read_gguf(reader *r)
{
    static const int rows[] = { -1, FX_POOL_MEAN, FX_POOL_CLS, FX_POOL_LAST };
    char key[96];
    int64_t n = 1;

    if (pooling_key(r->w, key, sizeof(key)))
        FX_TRY(fx_meta_i64(r->w, key, &n, r->err));
    if (n < 1 || n >= (int64_t)FX_COUNT(rows))
        return fx_fail_param(r->err, FORNAX_EUNSUP, "pooling_type", "%s: pooling_type %lld isn't supported (1 mean, 2 cls, 3 last)",
                             fx_weights_path(r->w), (long long)n);
    r->e->pooling = 1u << rows[n];
    return FORNAX_OK;
}

/* ---- Shorter vectors ------------------------------------------------------------------------------------ */

static fx_status read_matryoshka(reader *r)
{
    const json_t *list = fx_config_find(r->w, "matryoshka_dimensions"), *one;
    int64_t *dims;
    size_t i;

    r->e->matryoshka = json_is_true(fx_config_find(r->w, "is_matryoshka")) || json_array_size(list) > 0;
    if (json_array_size(list) == 0)
        return FORNAX_OK;
    r->e->dims = dims = FX_ARENA_NEWN(r->a, int64_t, json_array_size(list));
    if (!dims)
        return fx_nomem(r->err, "dimensions");
    json_array_foreach(list, i, one) {
        if (!json_is_integer(one) || json_integer_value(one) < 1 || json_integer_value(one) > r->dim)
            return fx_fail_param(r->err, FORNAX_EFORMAT, "matryoshka_dimensions", "%s: matryoshka_dimensions: expected numbers from 1 to %lld",
                                 fx_weights_path(r->w), (long long)r->dim);
        dims[r->e->n_dims++] = json_integer_value(one);
    }
    return FORNAX_OK;
}

bool fx_embed_meant(const fx_weights *w)
{
    fx_str name = text_of(json_array_get(fx_config_find(w, "architectures"), 0));
    char key[96];

    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return pooling_key(w, key, sizeof(key));
    name = name.p ? name : FX_STR("");
    return fx_weights_text(w, FX_TEXT_MODULES).p ||
           (fx_str_ends(name, FX_STR("Model")) && !fx_str_ends(name, FX_STR("LMHeadModel")));   /* GPT-2 writes text */
}

fx_status fx_embedder_read(fx_embedder *e, fx_arena *a, const fx_weights *w, int64_t dim, fx_error *err)
{
    reader r = { .e = e, .a = a, .w = w, .dim = dim, .err = err };
    fx_str text = fx_weights_text(w, FX_TEXT_MODULES);

    *e = (fx_embedder){ .pooling = 1u << FX_POOL_MEAN, .prompt = FX_STR("") };
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        FX_TRY(read_gguf(&r));
    else if (text.p)
        FX_TRY(read_modules(&r, text));
    if (fx_weights_kind_of(w) != FX_WEIGHTS_GGUF)
        FX_TRY(read_matryoshka(&r));
    e->dim = r.dim;
    return FORNAX_OK;
}

/* ---- Rows to a vector -------------------------------------------------------------------------------------- */

size_t fx_pool_sums_doubles(int64_t dim) { return (size_t)dim * 4; }

void fx_pool_begin(fx_pool_sums *s, double *room, int64_t dim)
{
    float *f = (float *)(void *)(room + 2 * dim);

    *s = (fx_pool_sums){ .mean = room, .weighted = room + dim, .first = f, .last = f + dim, .max = f + 2 * dim };
    memset(room, 0, fx_pool_sums_doubles(dim) * sizeof(*room));
}

void fx_pool_row(fx_pool_sums *s, const float *row, int64_t dim)
{
    double weight = (double)(s->n_rows + 1);

    if (s->n_rows == 0) {
        memcpy(s->first, row, (size_t)dim * sizeof(*row));
        memcpy(s->max, row, (size_t)dim * sizeof(*row));
    }
    memcpy(s->last, row, (size_t)dim * sizeof(*row));
    for (int64_t i = 0; i < dim; i++) {
        s->mean[i] += (double)row[i];
        s->weighted[i] += (double)row[i] * weight;
        s->max[i] = row[i] > s->max[i] ? row[i] : s->max[i];
    }
    s->n_rows++;
    s->weights += weight;
}

static double pooled(const fx_pool_sums *s, fx_pooling p, int64_t i)
{
    switch (p) {
    case FX_POOL_CLS: return (double)s->first[i];
    case FX_POOL_MAX: return (double)s->max[i];
    case FX_POOL_MEAN: return s->mean[i] / (double)s->n_rows;
    case FX_POOL_MEAN_SQRT: return s->mean[i] / sqrt((double)s->n_rows);
    case FX_POOL_WEIGHTED: return s->weighted[i] / s->weights;
    case FX_POOL_LAST: return (double)s->last[i];
    case FX_POOL_KINDS: break;
    }
    return 0;
}

static double activate(fx_dense_act act, double x)
{
    switch (act) {
    case FX_DENSE_NONE: break;
    case FX_DENSE_TANH: return tanh(x);
    case FX_DENSE_RELU: return x > 0 ? x : 0;
    case FX_DENSE_GELU: return x * (1 + erf(x / sqrt(2.0))) / 2;
    case FX_DENSE_SILU: return x / (1 + exp(-x));
    case FX_DENSE_SIGMOID: return 1 / (1 + exp(-x));
    }
    return x;
}

int64_t fx_embedder_widest(const fx_embedder *e, int64_t dim)
{
    int64_t n = FX_MAX(dim * count_bits(e->pooling), e->dim);

    for (int i = 0; i < e->n_dense; i++)
        n = FX_MAX(n, e->dense[i].n_out);
    return n;
}

void fx_embedder_finish(const fx_embedder *e, const fx_pool_sums *s, int64_t dim, float *out, double *work)
{
    double *x = work, *y = work + fx_embedder_widest(e, dim), *t;
    int64_t n = 0;

    for (int p = 0; p < FX_POOL_KINDS; p++)
        for (int64_t i = 0; i < dim && (e->pooling >> p & 1); i++)
            x[n++] = pooled(s, (fx_pooling)p, i);
    for (int k = 0; k < e->n_dense; k++) {
        const fx_dense *d = &e->dense[k];

        for (int64_t r = 0; r < d->n_out; r++) {
            double sum = d->b ? (double)d->b[r] : 0;

            for (int64_t c = 0; c < d->n_in; c++)
                sum += (double)d->w[r * d->n_in + c] * x[c];
            y[r] = activate(d->act, sum);
        }
        t = x;
        x = y;
        y = t;
        n = d->n_out;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)x[i];
}
