/* config.c - typed lookups in config.json.
 *
 * A path is keys joined by dots; each but the last names an object.  The sentence for
 * a wrong value names the file, the path and the type that was expected. */
#include "format/weights_int.h"

json_t *fx_weights_config(const fx_weights *w)
{
    return w->config;
}

json_t *fx_weights_generation_config(const fx_weights *w)
{
    return w->generation_config;
}

json_t *fx_weights_st_metadata(const fx_weights *w)
{
    return w->st_metadata;
}

static json_t *at_path(json_t *at, const char *path)
{
    const char *dot;

    for (; at && (dot = strchr(path, '.')); path = dot + 1)
        at = json_object_getn(at, path, (size_t)(dot - path));
    return at ? json_object_get(at, path) : NULL;
}

/* A model of more kinds than text has what is its text part's in text_config. */
json_t *fx_config_find(const fx_weights *w, const char *path)
{
    json_t *at = at_path(w->config, path);

    if (!at || json_is_null(at))
        at = at_path(json_object_get(w->config, "text_config"), path);
    return json_is_null(at) ? NULL : at;
}

bool fx_config_is_null(const fx_weights *w, const char *path)
{
    json_t *at = at_path(w->config, path);

    if (!at)
        at = at_path(json_object_get(w->config, "text_config"), path);
    return at && !fx_config_find(w, path);
}

static const char *kind_of(const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "a bool";
    default: return "null";
    }
}

static fx_status wrong(const fx_weights *w, const char *path, const char *expected, const json_t *found,
                       fx_error *err)
{
    return fx_fail_param(err, found ? FORNAX_EFORMAT : FORNAX_ENOTFOUND, path, "%s/config.json: %s: expected %s, "
                         "found %s", w->path, path, expected, found ? kind_of(found) : "none");
}

/* A real number that is whole counts as an integer (some writers say 8192.0). */
static bool integer_of(const json_t *j, int64_t *out)
{
    double x = json_real_value(j);

    if (json_is_integer(j)) {
        *out = json_integer_value(j);
        return true;
    }
    if (!json_is_real(j) || !(x >= -0x1p53 && x <= 0x1p53) || x != (double)(int64_t)x)
        return false;
    *out = (int64_t)x;
    return true;
}

fx_status fx_config_opt_i64(const fx_weights *w, const char *path, int64_t *io, fx_error *err)
{
    json_t *j = fx_config_find(w, path);

    return !j || integer_of(j, io) ? FORNAX_OK : wrong(w, path, "an integer", j, err);
}

fx_status fx_config_opt_f64(const fx_weights *w, const char *path, double *io, fx_error *err)
{
    json_t *j = fx_config_find(w, path);

    if (j && !json_is_number(j))
        return wrong(w, path, "a number", j, err);
    if (j)
        *io = json_number_value(j);
    return FORNAX_OK;
}

fx_status fx_config_opt_bool(const fx_weights *w, const char *path, bool *io, fx_error *err)
{
    json_t *j = fx_config_find(w, path);

    if (j && !json_is_boolean(j))
        return wrong(w, path, "a bool", j, err);
    if (j)
        *io = json_is_true(j);
    return FORNAX_OK;
}

fx_status fx_config_opt_str(const fx_weights *w, const char *path, fx_str *io, fx_error *err)
{
    json_t *j = fx_config_find(w, path);

    if (j && !json_is_string(j))
        return wrong(w, path, "a string", j, err);
    if (j)
        *io = fx_str_n(json_string_value(j), json_string_length(j));
    return FORNAX_OK;
}

fx_status fx_config_i64(const fx_weights *w, const char *path, int64_t *out, fx_error *err)
{
    return fx_config_find(w, path) ? fx_config_opt_i64(w, path, out, err) : wrong(w, path, "an integer", NULL, err);
}

fx_status fx_config_f64(const fx_weights *w, const char *path, double *out, fx_error *err)
{
    return fx_config_find(w, path) ? fx_config_opt_f64(w, path, out, err) : wrong(w, path, "a number", NULL, err);
}

fx_status fx_config_bool(const fx_weights *w, const char *path, bool *out, fx_error *err)
{
    return fx_config_find(w, path) ? fx_config_opt_bool(w, path, out, err) : wrong(w, path, "a bool", NULL, err);
}

fx_status fx_config_str(const fx_weights *w, const char *path, fx_str *out, fx_error *err)
{
    return fx_config_find(w, path) ? fx_config_opt_str(w, path, out, err) : wrong(w, path, "a string", NULL, err);
}

fx_status fx_config_ids(const fx_weights *w, json_t *object, const char *key, fx_arena *a, int32_t **out,
                        size_t *n, fx_error *err)
{
    const char *file = object && object == w->generation_config ? "generation_config.json" : "config.json";
    json_t *j = json_object_get(object, key);
    bool list = json_is_array(j);
    size_t count = !j || json_is_null(j) ? 0 : list ? json_array_size(j) : 1;
    int32_t *at = fx_arena_array(a, count + 1, sizeof(*at));

    if (!at)
        return fx_nomem(err, key);
    for (size_t i = 0; i < count; i++) {
        int64_t id = -1;

        if (!integer_of(list ? json_array_get(j, i) : j, &id) || id < 0 || id > INT32_MAX)
            return fx_fail_param(err, FORNAX_EFORMAT, key, "%s/%s: %s: expected a token id or a list of them, found "
                                 "%s", w->path, file, key, kind_of(list ? json_array_get(j, i) : j));
        at[i] = (int32_t)id;
    }
    *out = at;
    *n = count;
    return FORNAX_OK;
}
