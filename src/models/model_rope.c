/* model_rope.c - the frequencies of rotary embeddings, with their scalings.
 *
 * Pair i of a head's rot_dim columns turns by position * inv_freq[i], where
 * inv_freq[i] = theta^(-2i/rot_dim), changed by a scaling that models trained for longer
 * contexts name.  Computed in double, rounded once to f32.
 *
 * config.json has them in rope_parameters (new) or rope_scaling (old), with rope_type or
 * type; GGUF has <arch>.rope.scaling.*, and llama3's as a tensor of divisors. */
#include <math.h>

#include "base/text.h"
#include "models/models_int.h"

/* Where the scaling's numbers are found. */
typedef struct scaling {
    const fx_arch *arch;
    const fx_weights *w;
    const fx_model_params *p;
    const char *object;          /* "rope_parameters" or "rope_scaling"; GGUF: NULL */
    bool local;
    double theta;
    double *freq;                /* [n] changed in place */
    int64_t n;
    double attn_scale;
    double *longer;              /* [n] of sequences past long_from; NULL: none */
    int64_t long_from, context;
    double growth;
    fx_arena *arena;
} scaling;

typedef struct scaling_row {
    const char *name;
    fx_status (*apply)(scaling *s, fx_error *err);   /* NULL: known, but not done yet */
} scaling_row;

/* A key of the scaling, by its two spellings. */
static void key_of(const scaling *s, const char *gguf, const char *hf, char key[FX_PARAM_KEY])
{
    const char *name = s->object ? hf : gguf;

    fx_format(key, FX_PARAM_KEY, "%s.%s%s", s->object ? s->object : s->arch->gguf_name, s->object ? "" : "rope.scaling.",
              name ? name : "");
}

static fx_status positive(const scaling *s, const char *key, double x, fx_error *err)
{
    if (x >= 1e-6 && x <= 1e30)
        return FORNAX_OK;
    return fx_param_fail(s->w, FORNAX_EFORMAT, key, err, "expected a positive number (1e-6 to 1e30), found %g", x);
}

/* A number of the scaling, by its two spellings; required unless 'fallback' is a number. */
static fx_status number(const scaling *s, const char *gguf, const char *hf, double fallback, double *out,
                        fx_error *err)
{
    char key[FX_PARAM_KEY];

    *out = fallback;
    key_of(s, gguf, hf, key);
    if (!s->object)
        FX_TRY((isnan(fallback) ? fx_meta_f64 : fx_meta_opt_f64)(s->w, key, out, err));
    else
        FX_TRY((isnan(fallback) ? fx_config_f64 : fx_config_opt_f64)(s->w, key, out, err));
    return positive(s, key, *out, err);
}

/* The context that the model was trained for before it was stretched; the model's own if nothing says. */
static fx_status old_context(const scaling *s, double *out, fx_error *err)
{
    char key[FX_PARAM_KEY];

    FX_TRY(number(s, "original_context_length", "original_max_position_embeddings", (double)s->p->context, out, err));
    if (s->object)
        FX_TRY(fx_config_opt_f64(s->w, "original_max_position_embeddings", out, err));
    if (*out >= 1 && *out <= INT32_MAX)
        return FORNAX_OK;
    key_of(s, "original_context_length", "original_max_position_embeddings", key);
    return fx_param_fail(s->w, FORNAX_EFORMAT, key, err, "expected 1 to %d, found %g", INT32_MAX, *out);
}

static fx_status apply_none(scaling *s, fx_error *err)
{
    (void)s, (void)err;
    return FORNAX_OK;
}

static fx_status apply_linear(scaling *s, fx_error *err)
{
    double factor;

    FX_TRY(number(s, "factor", "factor", NAN, &factor, err));
    for (int64_t i = 0; i < s->n; i++)
        s->freq[i] /= factor;
    return FORNAX_OK;
}

/* Llama 3: long waves are stretched by 'factor', short ones kept, those between blended. */
static fx_status apply_llama3(scaling *s, fx_error *err)
{
    double factor, low, high, old;

    FX_TRY(number(s, "factor", "factor", NAN, &factor, err));
    FX_TRY(number(s, "low_freq_factor", "low_freq_factor", NAN, &low, err));
    FX_TRY(number(s, "high_freq_factor", "high_freq_factor", NAN, &high, err));
    FX_TRY(old_context(s, &old, err));
    for (int64_t i = 0; i < s->n; i++) {
        double wave = 2 * 3.14159265358979323846 / s->freq[i];

        if (wave > old / low) {
            s->freq[i] /= factor;
        } else if (wave >= old / high) {
            double t = (old / wave - low) / (high - low);

            s->freq[i] = (1 - t) * s->freq[i] / factor + t * s->freq[i];
        }
    }
    return FORNAX_OK;
}

/* What scores gain at most where contexts are stretched by 'factor'. */
static double yarn_scale(double factor, double by) { return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1; }

/* The pair that turns 'turns' times over the old context. */
static double yarn_pair(const scaling *s, double turns, double old)
{
    double dim = 2.0 * (double)s->n;

    return dim * log(old / (turns * 2 * 3.14159265358979323846)) / (2 * log(s->theta));
}

static fx_status yarn_attn_scale(scaling *s, double factor, fx_error *err)
{
    double given = 0, m = 0, all = 0;
    char key[FX_PARAM_KEY];

    if (!s->object) {                    /* GGUF has what the rest is multiplied with */
        FX_TRY(number(s, "attn_factor", NULL, 1, &given, err));
        s->attn_scale = given * yarn_scale(factor, 1);
        return FORNAX_OK;
    }
    key_of(s, NULL, "attention_factor", key);
    FX_TRY(fx_config_opt_f64(s->w, key, &given, err));
    key_of(s, NULL, "mscale", key);
    FX_TRY(fx_config_opt_f64(s->w, key, &m, err));
    key_of(s, NULL, "mscale_all_dim", key);
    FX_TRY(fx_config_opt_f64(s->w, key, &all, err));
    if (given)
        s->attn_scale = given;
    else
        s->attn_scale = m && all ? yarn_scale(factor, m) / yarn_scale(factor, all) : yarn_scale(factor, 1);
    key_of(s, NULL, given ? "attention_factor" : "mscale", key);
    return positive(s, key, s->attn_scale, err);
}

/* YaRN: pairs up to 'low' are kept, those from 'high' on stretched by 'factor', those between blended. */
static void blend_yarn(scaling *s, double factor, double low, double high)
{
    low = fmax(low, 0);
    high = fmin(high, 2.0 * (double)s->n - 1);
    high = high == low ? high + 0.001 : high;
    for (int64_t i = 0; i < s->n; i++) {
        double t = fmin(fmax(((double)i - low) / (high - low), 0), 1);

        s->freq[i] = s->freq[i] / factor * t + s->freq[i] * (1 - t);
    }
}

static fx_status apply_yarn(scaling *s, fx_error *err)
{
    double factor, old, fast, slow, low, high;
    bool truncate = true;
    char key[FX_PARAM_KEY];

    FX_TRY(old_context(s, &old, err));
    FX_TRY(number(s, "factor", "factor", (double)s->p->context / old, &factor, err));
    FX_TRY(number(s, "yarn_beta_fast", "beta_fast", 32, &fast, err));
    FX_TRY(number(s, "yarn_beta_slow", "beta_slow", 1, &slow, err));
    if (s->object) {
        key_of(s, NULL, "truncate", key);
        FX_TRY(fx_config_opt_bool(s->w, key, &truncate, err));
    }
    FX_TRY(yarn_attn_scale(s, factor, err));
    low = yarn_pair(s, fast, old);
    high = yarn_pair(s, slow, old);
    blend_yarn(s, factor, truncate ? floor(low) : low, truncate ? ceil(high) : high);
    return FORNAX_OK;
}

/* Past the context it was trained for, a sequence turns slower by its length (ops.def, growth); the
 * longest is 'factor' times that. */
static fx_status apply_growth(scaling *s, fx_error *err)
{
    double factor;
    char key[FX_PARAM_KEY];

    FX_TRY(number(s, "factor", "factor", NAN, &factor, err));
    key_of(s, "factor", "factor", key);
    if (factor < 1 || s->n < 2 || factor * (double)s->p->context > (double)(INT32_MAX / 2))
        return fx_param_fail(s->w, FORNAX_EFORMAT, key, err, "expected 1 to %g, found %g",
                             (double)(INT32_MAX / 2) / (double)s->p->context, factor);
    s->long_from = s->p->context;
    s->growth = factor;
    s->context = (int64_t)((double)s->p->context * factor);
    return FORNAX_OK;
}

/* n divisors of the frequencies, from config.json. */
static fx_status read_divisors(const scaling *s, const char *name, double *freq, fx_error *err)
{
    char key[FX_PARAM_KEY];
    json_t *list, *item;
    size_t i;

    key_of(s, NULL, name, key);
    list = fx_config_find(s->w, key);
    if (!json_is_array(list) || (int64_t)json_array_size(list) != s->n)
        return fx_fail_param(err, FORNAX_EFORMAT, key, "%s: config.json: %s: expected a list of %lld numbers",
                             fx_weights_path(s->w), key, (long long)s->n);
    json_array_foreach(list, i, item) {
        double f = json_number_value(item);

        if (!(f > 0 && f <= 1e30))
            return fx_fail_param(err, FORNAX_EFORMAT, key, "%s: config.json: %s[%zu]: expected a positive number",
                                 fx_weights_path(s->w), key, i);
        freq[i] /= f;
    }
    return FORNAX_OK;
}

/* LongRoPE: each pair has a divisor, short sequences one and those past the old context another. */
static fx_status apply_longrope(scaling *s, fx_error *err)
{
    double old, factor, given = 0;
    char key[FX_PARAM_KEY];

    if (!s->object)                      /* GGUF brings tensors: apply_factors */
        return FORNAX_OK;
    FX_TRY(old_context(s, &old, err));
    if (!(old >= 2))
        return fx_param_fail(s->w, FORNAX_EFORMAT, "original_max_position_embeddings", err, "expected 2 or more, found %g", old);
    FX_TRY(number(s, NULL, "factor", (double)s->p->context / old, &factor, err));
    key_of(s, NULL, "attention_factor", key);
    FX_TRY(fx_config_opt_f64(s->w, key, &given, err));
    s->attn_scale = given ? given : factor <= 1 ? 1 : sqrt(1 + log(factor) / log(old));
    FX_TRY(positive(s, key, s->attn_scale, err));
    s->long_from = (int64_t)old;
    s->longer = FX_ARENA_NEWN(s->arena, double, (size_t)s->n + 1);
    if (!s->longer)
        return fx_nomem(err, "RoPE frequencies");
    memcpy(s->longer, s->freq, (size_t)s->n * sizeof(double));
    FX_TRY(read_divisors(s, "short_factor", s->freq, err));
    return read_divisors(s, "long_factor", s->longer, err);
}

/* Past the context by length, or by a fixed alpha. */
static fx_status apply_dynamic(scaling *s, fx_error *err)
{
    double alpha = 0, dim = 2.0 * (double)s->n;
    char key[FX_PARAM_KEY];

    if (s->object && s->arch->ntk_alpha) {
        key_of(s, NULL, "alpha", key);
        FX_TRY(fx_config_opt_f64(s->w, key, &alpha, err));
    }
    if (alpha == 0)
        return apply_growth(s, err);
    if (!(alpha > 0 && alpha <= 1e30) || s->n < 2)
        return fx_param_fail(s->w, FORNAX_EFORMAT, key, err, "expected a positive number, found %g", alpha);
    for (int64_t i = 0; i < s->n; i++)
        s->freq[i] = pow(s->theta * pow(alpha, dim / (dim - 2)), -2.0 * (double)i / dim);
    return FORNAX_OK;
}

/* Without a scaling in config.json, where the architecture has one of its own. */
static fx_status apply_hub_yarn(scaling *s)
{
    const double factor = s->arch->hub_yarn.factor;

    s->attn_scale = yarn_scale(factor, 1);
    blend_yarn(s, factor, yarn_pair(s, 32, s->arch->hub_yarn.context), yarn_pair(s, 1, s->arch->hub_yarn.context));
    return FORNAX_OK;
}

static const scaling_row scalings[] = {
    { "none", apply_none },
    { "default", apply_none },
    { "linear", apply_linear },
    { "llama3", apply_llama3 },
    { "yarn", apply_yarn },
    { "dynamic", apply_dynamic },
    { "longrope", apply_longrope },
    { "su", apply_longrope },    /* its old name */
    { "mrope", NULL },
};

static fx_status apply_named(scaling *s, const char *key, fx_str type, fx_error *err)
{
    for (size_t i = 0; i < FX_COUNT(scalings); i++) {
        if (fx_str_is(type, scalings[i].name) && scalings[i].apply)
            return scalings[i].apply(s, err);
    }
    return fx_param_fail(s->w, FORNAX_EUNSUP, key, err, "\"%s\" isn't supported", FX_SHOW(type));
}

static fx_status scale_hub(scaling *s, fx_error *err)
{
    fx_str type = FX_STR("default");
    char key[FX_PARAM_KEY];

    s->object = json_is_object(fx_config_find(s->w, "rope_parameters")) ? "rope_parameters" : "rope_scaling";
    if (s->arch->hub_yarn.factor > 0 && !fx_config_find(s->w, s->object))
        return apply_hub_yarn(s);
    if (fx_config_find(s->w, "rope_parameters.full_attention") || fx_config_find(s->w, "rope_parameters.sliding_attention"))
        s->object = s->local ? "rope_parameters.sliding_attention" : "rope_parameters.full_attention";
    else if (s->local)
        return FORNAX_OK;                /* scalings are of the layers that see everything */
    key_of(s, NULL, "rope_type", key);
    if (!fx_config_find(s->w, key))
        key_of(s, NULL, "type", key);
    FX_TRY(fx_config_opt_str(s->w, key, &type, err));
    return apply_named(s, key, type, err);
}

/* Divisors of the frequencies as a tensor; there must be one. */
static fx_status divide_by(const scaling *s, const char *name, double *freq, fx_error *err)
{
    const fx_weight *t = fx_weights_find(s->w, fx_str_of(name));

    if (!t)
        return fx_fail(err, FORNAX_EFORMAT, "%s: tensor %s is missing", fx_weights_path(s->w), name);
    if (t->dtype != FX_F32 || t->rank != 1 || t->shape[0] != s->n)
        return fx_fail(err, FORNAX_EFORMAT, "%s: %s: expected f32[%lld], found %s[%lld]", fx_weights_path(s->w), name,
                       (long long)s->n, fx_dtype_name(t->dtype), (long long)t->n_elems);
    for (int64_t i = 0; i < s->n; i++) {
        float f = ((const float *)t->data)[i];

        if (!(f > 0 && f <= 1e30f))
            return fx_fail(err, FORNAX_EFORMAT, "%s: %s[%lld]: expected a positive number, found %g",
                           fx_weights_path(s->w), name, (long long)i, (double)f);
        freq[i] /= (double)f;
    }
    return FORNAX_OK;
}

/* LongRoPE as GGUF has it. */
static fx_status divide_by_length(scaling *s, fx_error *err)
{
    double old;

    FX_TRY(old_context(s, &old, err));
    FX_TRY(number(s, "attn_factor", NULL, 1, &s->attn_scale, err));
    s->long_from = FX_MAX((int64_t)old, 1);
    s->longer = FX_ARENA_NEWN(s->arena, double, (size_t)s->n + 1);
    if (!s->longer)
        return fx_nomem(err, "RoPE frequencies");
    memcpy(s->longer, s->freq, (size_t)s->n * sizeof(double));
    FX_TRY(divide_by(s, "rope_factors_short.weight", s->freq, err));
    return divide_by(s, "rope_factors_long.weight", s->longer, err);
}

/* What the converter makes of llama3's scaling and of LongRoPE. */
static fx_status apply_factors(scaling *s, fx_error *err)
{
    if (fx_weights_find(s->w, FX_STR("rope_factors_long.weight")))
        return divide_by_length(s, err);
    if (fx_weights_find(s->w, FX_STR("rope_freqs.weight")) && s->arch->rope_factors)
        return divide_by(s, "rope_freqs.weight", s->freq, err);
    return FORNAX_OK;
}

static fx_status scale_gguf(scaling *s, fx_error *err)
{
    fx_str type = FX_STR("none");
    double old = 1;
    char key[FX_PARAM_KEY], linear[FX_PARAM_KEY];

    if (s->local)
        return FORNAX_OK;
    fx_format(linear, sizeof(linear), "%s.rope.scale_linear", s->arch->gguf_name);
    FX_TRY(fx_meta_opt_f64(s->w, linear, &old, err));    /* what old files have for "linear" */
    key_of(s, "type", NULL, key);
    FX_TRY(fx_meta_opt_str(s->w, key, &type, err));
    if (!fx_meta_find(s->w, key) && old != 1) {
        FX_TRY(positive(s, linear, old, err));
        for (int64_t i = 0; i < s->n; i++)
            s->freq[i] /= old;
    } else {
        FX_TRY(apply_named(s, key, type, err));
    }
    return apply_factors(s, err);
}

/* Sine and cosine are exact for angles up to 2^31 (kernels/vmath.def). */
static fx_status check_turns(const scaling *s, const double *freq, fx_error *err)
{
    double most = 0x1p31 / (double)s->p->context;
    char key[FX_PARAM_KEY];

    for (int64_t i = 0; i < s->n; i++) {
        if (freq[i] >= 0 && freq[i] <= most)
            continue;
        key_of(s, "factor", s->longer ? "short_factor" : "factor", key);
        return fx_param_fail(s->w, FORNAX_EFORMAT, key, err,
                             "pair %lld of a head turns by %g each position, expected 0 to %g", (long long)i, freq[i], most);
    }
    return FORNAX_OK;
}

fx_status fx_rope_read(const fx_arch *arch, const fx_weights *w, const fx_model_params *p, bool local, fx_arena *a,
                       fx_rope *out, fx_error *err)
{
    scaling s = { .arch = arch, .w = w, .p = p, .n = p->rot_dim / 2, .attn_scale = 1, .local = local,
                  .theta = local ? p->rope_local : p->rope_theta, .arena = a };

    s.freq = FX_ARENA_NEWN(a, double, (size_t)s.n + 1);
    out->inv_freq = FX_ARENA_NEWN(a, float, 2 * (size_t)s.n + 1);
    if (!s.freq || !out->inv_freq)
        return fx_nomem(err, "RoPE frequencies");
    for (int64_t i = 0; i < s.n; i++)
        s.freq[i] = pow(s.theta, -2.0 * (double)i / (double)p->rot_dim);
    FX_TRY((fx_weights_kind_of(w) == FX_WEIGHTS_GGUF ? scale_gguf : scale_hub)(&s, err));
    FX_TRY(check_turns(&s, s.freq, err));
    if (s.longer)
        FX_TRY(check_turns(&s, s.longer, err));
    for (int64_t i = 0; i < s.n; i++)
        out->inv_freq[i] = (float)s.freq[i];
    for (int64_t i = 0; s.longer && i < s.n; i++)
        out->inv_freq[s.n + i] = (float)s.longer[i];
    out->n = s.longer ? 2 * s.n : s.n;
    out->long_from = s.long_from;
    out->growth = s.growth;
    out->context = s.context;
    out->attn_scale = s.attn_scale;
    return FORNAX_OK;
}
