/* jinja_json.c - JSON trees to values, and values to JSON text as Python's json.dumps. */
#include <math.h>
#include <stdio.h>

#include "text/jinja.h"

static bool from_array(jj_run *r, const json_t *j, bool data, jj_val *out)
{
    size_t n = json_array_size(j);
    jj_list *l = fx_jj_list(r, n);

    JJ_TRY(l);
    for (size_t i = 0; i < n; i++) {
        jj_val v;

        JJ_TRY(fx_jj_from_json(r, json_array_get(j, i), data, &v) && fx_jj_push(r, l, v));
    }
    *out = fx_jj_lv(l);
    return true;
}

static bool from_object(jj_run *r, const json_t *j, bool data, jj_val *out)
{
    jj_dict *d = fx_jj_dict(r);
    json_t *obj = (json_t *)(uintptr_t)j;       /* iterating doesn't change it */

    JJ_TRY(d);
    for (void *it = json_object_iter(obj); it; it = json_object_iter_next(obj, it)) {
        jj_str *key = fx_jj_str(r, json_object_iter_key(it), json_object_iter_key_len(it), data);
        jj_val v;

        JJ_TRY(key && fx_jj_from_json(r, json_object_iter_value(it), data, &v) &&
               fx_jj_dict_put(r, d, fx_jj_sv(key), v));
    }
    *out = fx_jj_dv(d);
    return true;
}

bool fx_jj_from_json(jj_run *r, const json_t *j, bool data, jj_val *out)
{
    bool ok = true;

    JJ_TRY(fx_jj_enter(r) && fx_jj_work(r, 1));
    *out = fx_jj_none();
    switch (json_typeof(j)) {
    case JSON_OBJECT: ok = from_object(r, j, data, out); break;
    case JSON_ARRAY: ok = from_array(r, j, data, out); break;
    case JSON_STRING:
        *out = fx_jj_sv(fx_jj_str(r, json_string_value(j), json_string_length(j), data));
        ok = out->type == JJ_STR;
        break;
    case JSON_INTEGER: *out = fx_jj_int(json_integer_value(j)); break;
    case JSON_REAL: *out = fx_jj_float(json_real_value(j)); break;
    case JSON_TRUE: *out = fx_jj_bool(true); break;
    case JSON_FALSE: *out = fx_jj_bool(false); break;
    case JSON_NULL: break;
    }
    out->data = data;
    fx_jj_leave(r);
    return ok;
}

/* ---- printing --------------------------------------------------------------------- */

static void put_string(jj_buf *b, const jj_str *s, bool ascii)
{
    bool first = s->data, last = s->n ? fx_jj_origin(s, s->n - 1) : s->data;
    jj_walk w = fx_jj_walk(s);
    size_t from = 0, at = 0;
    char text[16];

    fx_jj_buf_z(b, "\"", first);
    for (; fx_jj_walk_next(&w); at = w.i) {
        uint32_t c = w.rune;
        const char *as = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\r' ? "\\r" :
                         c == '\t' ? "\\t" : c == '\f' ? "\\f" : c == '\b' ? "\\b" : NULL;

        if (!as) {
            if (c >= 0x20 && (!ascii || c < 0x7F))
                continue;
            if (c > 0xFFFF && c != FX_BAD_RUNE)
                snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                         0xDC00 + ((c - 0x10000) & 0x3FF));
            else
                snprintf(text, sizeof text, "\\u%04x", c == FX_BAD_RUNE ? 0xFFFD : c);
            as = text;
        }
        fx_jj_buf_sub(b, s, from, at);
        fx_jj_buf_z(b, as, w.data);
        from = w.i;
    }
    fx_jj_buf_sub(b, s, from, s->n);
    fx_jj_buf_z(b, "\"", last);
}

static void put_float(jj_buf *b, double x, bool data)
{
    char text[40];

    if (isnan(x))
        fx_jj_buf_z(b, "NaN", data);
    else if (isinf(x))
        fx_jj_buf_z(b, x > 0 ? "Infinity" : "-Infinity", data);
    else
        fx_jj_buf_add(b, text, fx_jj_float_repr(text, x), data);
}

static bool put_scalar(jj_buf *b, jj_val v)
{
    char text[24];

    if (v.type == JJ_NONE)
        fx_jj_buf_z(b, "null", v.data);
    else if (v.type == JJ_BOOL)
        fx_jj_buf_z(b, v.u.b ? "true" : "false", v.data);
    else if (v.type == JJ_INT)
        fx_jj_buf_add(b, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v.u.i), v.data);
    else if (v.type == JJ_FLOAT)
        put_float(b, v.u.f, v.data);
    else
        return false;
    return true;
}

static bool put_key(jj_run *r, jj_buf *b, jj_val key, const jj_json *how)
{
    if (key.type == JJ_STR) {
        put_string(b, key.u.s, how->ensure_ascii);
        return true;
    }
    fx_jj_buf_z(b, "\"", key.data);
    if (!put_scalar(b, key))
        return fx_jj_fail(r, "keys must be str, int, float, bool or None, not %s", fx_jj_type_name(key));
    fx_jj_buf_z(b, "\"", key.data);
    return true;
}

static void new_line(jj_buf *b, const jj_json *how, int level, bool data)
{
    if (!how->pretty)
        return;
    fx_jj_buf_z(b, "\n", data);
    for (int i = 0; i < level && b->run->status == FORNAX_OK; i++)
        fx_jj_buf_add(b, how->indent->p, how->indent->n, data);
}

static bool to_json(jj_run *r, jj_buf *b, jj_val v, const jj_json *how, int level);

static bool put_list(jj_run *r, jj_buf *b, jj_val v, const jj_json *how, int level)
{
    const jj_list *l = v.u.l;

    if (!l->n) {
        fx_jj_buf_z(b, "[]", v.data);
        return true;
    }
    fx_jj_buf_z(b, "[", v.data);
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            fx_jj_buf_add(b, how->item_sep->p, how->item_sep->n, v.data);
        new_line(b, how, level + 1, v.data);
        JJ_TRY(to_json(r, b, l->at[i], how, level + 1));
    }
    new_line(b, how, level, v.data);
    fx_jj_buf_z(b, "]", v.data);
    return true;
}

/* Entry numbers in the order of their keys: an insertion into sorted runs, merged. */
static bool sort_entries(jj_run *r, const jj_dict *d, size_t *order, size_t *scratch, size_t n)
{
    size_t half = n / 2, i = 0, j = half, k = 0;

    if (n < 2)
        return true;
    JJ_TRY(sort_entries(r, d, order, scratch, half));
    JJ_TRY(sort_entries(r, d, order + half, scratch, n - half));
    while (i < half && j < n) {
        int less = fx_jj_less(r, d->at[order[j]].key, d->at[order[i]].key, JJO_LT);

        if (less < 0)
            return false;
        scratch[k++] = less ? order[j++] : order[i++];
    }
    while (i < half)
        scratch[k++] = order[i++];
    memcpy(order, scratch, k * sizeof *order);
    return true;
}

static bool put_dict(jj_run *r, jj_buf *b, jj_val v, const jj_json *how, int level)
{
    const jj_dict *d = v.u.d;
    size_t *order = NULL;

    if (!d->n) {
        fx_jj_buf_z(b, "{}", v.data);
        return true;
    }
    if (how->sort_keys) {
        order = fx_jj_alloc(r, 2 * d->n * sizeof *order);
        JJ_TRY(order);
        for (size_t i = 0; i < d->n; i++)
            order[i] = i;
        JJ_TRY(sort_entries(r, d, order, order + d->n, d->n));
    }
    fx_jj_buf_z(b, "{", v.data);
    for (size_t i = 0; i < d->n; i++) {
        const jj_entry *e = &d->at[order ? order[i] : i];

        if (i)
            fx_jj_buf_add(b, how->item_sep->p, how->item_sep->n, v.data);
        new_line(b, how, level + 1, v.data);
        JJ_TRY(put_key(r, b, e->key, how));
        fx_jj_buf_add(b, how->key_sep->p, how->key_sep->n, v.data);
        JJ_TRY(to_json(r, b, e->value, how, level + 1));
    }
    new_line(b, how, level, v.data);
    fx_jj_buf_z(b, "}", v.data);
    return true;
}

static bool to_json(jj_run *r, jj_buf *b, jj_val v, const jj_json *how, int level)
{
    bool ok = true;

    JJ_TRY(fx_jj_enter(r) && r->status == FORNAX_OK);
    if (v.type == JJ_STR)
        put_string(b, v.u.s, how->ensure_ascii);
    else if (v.type == JJ_LIST || v.type == JJ_TUPLE)
        ok = put_list(r, b, v, how, level);
    else if (v.type == JJ_DICT)
        ok = put_dict(r, b, v, how, level);
    else if (!put_scalar(b, v))
        ok = fx_jj_fail(r, "Object of type %s is not JSON serializable", fx_jj_type_name(v));
    fx_jj_leave(r);
    return ok;
}

bool fx_jj_to_json(jj_run *r, jj_buf *b, jj_val v, const jj_json *how)
{
    return to_json(r, b, v, how, 0);
}
