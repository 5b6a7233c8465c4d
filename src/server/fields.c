/* fields.c - reads a JSON object by a table; see fields.h. */
#include "server/fields.h"

static const char *json_type_name(const json_t *v)
{
    static const char *const names[] = { "an object", "an array", "a string", "an integer", "a number", "true", "false", "null" };

    return names[json_typeof(v)];
}

static fx_status wrong_type(const fx_field *f, const json_t *v, const char *expected, fx_error *err)
{
    return fx_fail_param(err, FORNAX_EARG, f->name, "%s: expected %s, found %s", f->name, expected, json_type_name(v));
}

static fx_status read_number(const fx_field *f, const json_t *v, void *at, fx_error *err)
{
    bool whole = json_is_integer(v) || (json_is_real(v) && json_real_value(v) == (double)(int64_t)json_real_value(v) &&
                                        json_real_value(v) > -9e15 && json_real_value(v) < 9e15);
    double x = json_number_value(v);

    if (f->type == FX_F_INT ? !whole : !json_is_number(v))
        return wrong_type(f, v, f->type == FX_F_INT ? "an integer" : "a number", err);
    if (!(x >= f->min && x <= f->max))
        return fx_fail_param(err, FORNAX_EARG, f->name, "%s: expected %g to %g, found %g", f->name, f->min, f->max, x);
    if (f->type == FX_F_INT)
        *(int64_t *)at = json_is_integer(v) ? json_integer_value(v) : (int64_t)x;
    else
        *(double *)at = x;
    return FORNAX_OK;
}

static bool is_nothing(const json_t *v)
{
    return json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0) || (json_is_string(v) && json_string_length(v) == 0);
}

static fx_status read_field(const fx_field *f, const json_t *v, void *out, fx_error *err)
{
    void *at = (char *)out + f->at;

    switch (f->type) {
    case FX_F_BOOL:
        if (!json_is_boolean(v))
            return wrong_type(f, v, "true or false", err);
        *(bool *)at = json_is_true(v);
        return FORNAX_OK;
    case FX_F_INT:
    case FX_F_NUM:
        return read_number(f, v, at, err);
    case FX_F_STR:
        if (!json_is_string(v))
            return wrong_type(f, v, "a string", err);
        *(fx_str *)at = fx_str_n(json_string_value(v), json_string_length(v));
        return FORNAX_OK;
    case FX_F_JSON:
        *(const json_t **)at = v;
        return FORNAX_OK;
    case FX_F_IGNORE:
        return FORNAX_OK;
    case FX_F_REFUSE:
        if (is_nothing(v))
            return FORNAX_OK;
        return fx_fail_param(err, FORNAX_EUNSUP, f->name, "%s: not supported by this server", f->name);
    }
    return FORNAX_OK;
}

fx_status fx_fields_read(const json_t *object, const fx_field *table, void *out, fx_buf *unknown, fx_error *err)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)object, key, v) {
        const fx_field *f = table;

        while (f->name && strcmp(f->name, key) != 0)
            f++;
        if (f->name) {
            if (!json_is_null(v))
                FX_TRY(read_field(f, v, out, err));
        } else if (unknown) {
            fx_buf_printf(unknown, "%s%s", unknown->n ? ", " : "", key);
        } else {
            return fx_fail_param(err, FORNAX_EARG, key, "%s: no such field", key);
        }
    }
    return FORNAX_OK;
}
