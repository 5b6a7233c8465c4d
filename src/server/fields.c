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
    double x = json_number_value(v);
    bool whole = json_is_integer(v) || (json_is_real(v) && x > -9e15 && x < 9e15 && x == (double)(int64_t)x);

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

/* Names are the client's: they must not make a header of their own, nor one that is too long. */
static void add_unknown(fx_buf *out, const char *key)
{
    if (out->n > 500)
        return;
    fx_buf_puts(out, out->n ? ", " : "");
    for (size_t i = 0; key[i] && i < 100; i++)
        fx_buf_putc(out, key[i] > 0x20 && key[i] < 0x7F && key[i] != ',' ? key[i] : '?');
    if (out->n > 500)
        fx_buf_puts(out, ", ...");
}

fx_status fx_fields_read(const json_t *object, const fx_field *table, void *out, const char *within, fx_buf *unknown,
                         fx_error *err)
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
            add_unknown(unknown, key);
        } else if (within) {
            return fx_fail_param(err, FORNAX_EARG, within, "%s: no such field in %s", fx_show(fx_str_of(key)).z, within);
        } else {
            return fx_fail_param(err, FORNAX_EARG, key, "%s: no such field", fx_show(fx_str_of(key)).z);
        }
    }
    return FORNAX_OK;
}
