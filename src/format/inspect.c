/* inspect.c - prints an open model file.
 *
 * Both forms walk the same lists: file, metadata, tensors, totals.  Arrays are read
 * in place, element by element, so that printing the first few of a large one costs
 * nothing. */
#include "format/inspect.h"

#include <math.h>

#include "format/weights_int.h"

enum { TEXT_ELEMS = 6, TEXT_CHARS = 100 };

/* ---- Numbers and strings --------------------------------------------------------------- */

/* JSON has no infinities and no NaN: they become strings. */
static void put_double(fx_buf *b, double x, bool json)
{
    const char *z = isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";

    if (isfinite(x))
        fx_buf_double(b, x);
    else
        fx_buf_printf(b, json ? "\"%s\"" : "%s", z);
}

/* Cut between characters; control characters escaped, so that a line stays one. */
static void put_short(fx_buf *b, fx_str s)
{
    size_t n = s.n;

    if (n > TEXT_CHARS) {
        n = TEXT_CHARS;
        while (n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
            n--;
    }
    fx_buf_json_string(b, fx_str_n(s.p, n));
    if (n < s.n)
        fx_buf_printf(b, "... (%zu bytes)", s.n);
}

static void put_string(fx_buf *b, fx_str s, bool json)
{
    if (json)
        fx_buf_json_string(b, s);
    else
        put_short(b, s);
}

static void put_shape(fx_buf *b, const fx_weight *t)
{
    fx_buf_putc(b, '[');
    for (int i = 0; i < t->rank; i++)
        fx_buf_printf(b, "%s%lld", i ? "," : "", (long long)t->shape[i]);
    fx_buf_putc(b, ']');
}

/* ---- Metadata ---------------------------------------------------------------------------- */

static void put_value(fx_buf *b, const fx_meta *m, bool json);

static void put_array(fx_buf *b, const fx_meta *m, bool json)
{
    uint64_t n = m->v.array.n, shown = json ? n : FX_MIN(n, (uint64_t)TEXT_ELEMS);
    const char *type = fx_meta_type_name(m->v.array.type);
    fx_meta_iter it = fx_meta_iter_of(m);
    fx_meta e;

    if (json && n > FX_INSPECT_ELEMS) {
        fx_buf_printf(b, "{\"type\":\"%s\",\"count\":%llu}", type, (unsigned long long)n);
        return;
    }
    fx_buf_putc(b, '[');
    for (uint64_t i = 0; i < shown && fx_meta_next(&it, &e); i++) {
        fx_buf_puts(b, i == 0 ? "" : json ? "," : ", ");
        put_value(b, &e, json);
    }
    fx_buf_puts(b, shown < n ? ", ...]" : "]");
    if (!json)
        fx_buf_printf(b, " (%llu of %s)", (unsigned long long)n, type);
}

static void put_value(fx_buf *b, const fx_meta *m, bool json)
{
    switch (m->type) {
    case FX_META_STR: put_string(b, m->v.s, json); break;
    case FX_META_ARRAY: put_array(b, m, json); break;
    case FX_META_BOOL: fx_buf_puts(b, m->v.b ? "true" : "false"); break;
    case FX_META_F32:
    case FX_META_F64: put_double(b, m->v.f, json); break;
    case FX_META_I8:
    case FX_META_I16:
    case FX_META_I32:
    case FX_META_I64: fx_buf_printf(b, "%lld", (long long)m->v.i); break;
    default: fx_buf_printf(b, "%llu", (unsigned long long)m->v.u);
    }
}

/* ---- Configuration ---------------------------------------------------------------------- */

static void put_json(fx_buf *b, const json_t *j, bool json);

static void put_json_list(fx_buf *b, const json_t *j, bool json)
{
    size_t n = json_array_size(j), shown = json ? n : FX_MIN(n, (size_t)TEXT_ELEMS);

    if (json && n > FX_INSPECT_ELEMS) {
        fx_buf_printf(b, "{\"type\":\"list\",\"count\":%zu}", n);
        return;
    }
    fx_buf_putc(b, '[');
    for (size_t i = 0; i < shown; i++) {
        fx_buf_puts(b, i == 0 ? "" : json ? "," : ", ");
        put_json(b, json_array_get(j, i), json);
    }
    fx_buf_puts(b, shown < n ? ", ...]" : "]");
    if (shown < n)
        fx_buf_printf(b, " (%zu)", n);
}

static void put_json_object(fx_buf *b, const json_t *j, bool json)
{
    const char *key, *comma = "";
    json_t *v;

    fx_buf_putc(b, '{');
    json_object_foreach((json_t *)j, key, v) {
        fx_buf_puts(b, comma);
        fx_buf_json_string(b, fx_str_of(key));
        fx_buf_puts(b, json ? ":" : ": ");
        put_json(b, v, json);
        comma = json ? "," : ", ";
    }
    fx_buf_putc(b, '}');
}

static void put_json(fx_buf *b, const json_t *j, bool json)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT: put_json_object(b, j, json); break;
    case JSON_ARRAY: put_json_list(b, j, json); break;
    case JSON_STRING: put_string(b, fx_str_n(json_string_value(j), json_string_length(j)), json); break;
    case JSON_INTEGER: fx_buf_printf(b, "%lld", (long long)json_integer_value(j)); break;
    case JSON_REAL: put_double(b, json_real_value(j), json); break;
    case JSON_TRUE: fx_buf_puts(b, "true"); break;
    case JSON_FALSE: fx_buf_puts(b, "false"); break;
    default: fx_buf_puts(b, "null");
    }
}

/* ---- Totals -------------------------------------------------------------------------------- */

typedef struct totals {
    struct {
        uint64_t tensors, elems, bytes;
    } of[FX_DTYPE_COUNT], all;
} totals;

static totals sum_up(const fx_weights *w)
{
    totals s = { 0 };

    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);

        s.of[t->dtype].tensors++;
        s.of[t->dtype].elems += (uint64_t)t->n_elems;
        s.of[t->dtype].bytes += t->bytes;
        s.all.tensors++;
        s.all.elems += (uint64_t)t->n_elems;
        s.all.bytes += t->bytes;
    }
    return s;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static const char *kind_name(const fx_weights *w)
{
    static const char *const names[] = { "gguf", "safetensors", "hub" };

    return names[fx_weights_kind_of(w)];
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void text_head(fx_buf *b, const fx_weights *w)
{
    fx_buf_printf(b, "file        %s\nformat      %s", fx_weights_path(w), kind_name(w));
    if (fx_meta_version(w))
        fx_buf_printf(b, " version %d", fx_meta_version(w));
    fx_buf_printf(b, "\nsize        %llu bytes in %zu file%s\n", (unsigned long long)fx_weights_file_bytes(w),
                  fx_weights_files(w), fx_weights_files(w) == 1 ? "" : "s");
}

static void text_config(fx_buf *b, const char *title, const json_t *object)
{
    const char *key;
    json_t *v;

    if (!object)
        return;
    fx_buf_printf(b, "\n%s\n", title);
    json_object_foreach((json_t *)object, key, v) {
        fx_buf_puts(b, "  ");
        fx_buf_json(b, fx_str_of(key));
        fx_buf_puts(b, " = ");
        put_json(b, v, false);
        fx_buf_putc(b, '\n');
    }
}

static void text_meta(fx_buf *b, const fx_weights *w)
{
    if (fx_meta_count(w) > 0)
        fx_buf_printf(b, "\nmetadata (%zu keys)\n", fx_meta_count(w));
    for (size_t i = 0; i < fx_meta_count(w); i++) {
        const fx_meta *m = fx_meta_at(w, i);

        fx_buf_puts(b, "  ");
        fx_buf_json(b, m->key);
        fx_buf_puts(b, " = ");
        put_value(b, m, false);
        fx_buf_putc(b, '\n');
    }
    text_config(b, "__metadata__", fx_weights_st_metadata(w));
    text_config(b, "config.json", fx_weights_config(w));
    text_config(b, "generation_config.json", fx_weights_generation_config(w));
}

static void text_tensors(fx_buf *b, const fx_weights *w)
{
    fx_buf_printf(b, "\ntensors (%zu)\n", fx_weights_count(w));
    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);

        fx_buf_printf(b, "  %-7s ", fx_dtype_name(t->dtype));
        fx_buf_json(b, t->name);
        fx_buf_putc(b, ' ');
        put_shape(b, t);
        fx_buf_printf(b, "  %zu bytes at %llu", t->bytes, (unsigned long long)t->offset);
        if (fx_weights_files(w) > 1)
            fx_buf_printf(b, " of %s", base_name(fx_file_path(t->file)));
        fx_buf_putc(b, '\n');
    }
}

static void text_totals(fx_buf *b, const fx_weights *w)
{
    totals s = sum_up(w);

    fx_buf_puts(b, "\ntotals\n");
    for (int t = 0; t < FX_DTYPE_COUNT; t++) {
        if (s.of[t].tensors > 0)
            fx_buf_printf(b, "  %-7s %llu tensors, %llu elements, %llu bytes\n", fx_dtype_name((fx_dtype)t),
                          (unsigned long long)s.of[t].tensors, (unsigned long long)s.of[t].elems,
                          (unsigned long long)s.of[t].bytes);
    }
    fx_buf_printf(b, "  all     %llu tensors, %llu parameters, %llu bytes\n", (unsigned long long)s.all.tensors,
                  (unsigned long long)s.all.elems, (unsigned long long)s.all.bytes);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static void json_named(fx_buf *b, const char *name, const json_t *object)
{
    if (!object)
        return;
    fx_buf_printf(b, ",\"%s\":", name);
    put_json(b, object, true);
}

static void json_meta(fx_buf *b, const fx_weights *w)
{
    json_named(b, "config", fx_weights_config(w));
    json_named(b, "generation_config", fx_weights_generation_config(w));
    json_named(b, "metadata", fx_weights_st_metadata(w));
    if (fx_weights_kind_of(w) != FX_WEIGHTS_GGUF)
        return;
    fx_buf_puts(b, ",\"metadata\":{");
    for (size_t i = 0; i < fx_meta_count(w); i++) {
        const fx_meta *m = fx_meta_at(w, i);

        fx_buf_puts(b, i ? "," : "");
        fx_buf_json_string(b, m->key);
        fx_buf_putc(b, ':');
        put_value(b, m, true);
    }
    fx_buf_putc(b, '}');
}

static void json_tensors(fx_buf *b, const fx_weights *w)
{
    fx_buf_puts(b, ",\"tensors\":[");
    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);

        fx_buf_puts(b, i ? ",{\"name\":" : "{\"name\":");
        fx_buf_json_string(b, t->name);
        fx_buf_printf(b, ",\"dtype\":\"%s\",\"shape\":", fx_dtype_name(t->dtype));
        put_shape(b, t);
        fx_buf_printf(b, ",\"bytes\":%zu,\"offset\":%llu,\"file\":", t->bytes, (unsigned long long)t->offset);
        fx_buf_json_string(b, fx_str_of(base_name(fx_file_path(t->file))));
        fx_buf_putc(b, '}');
    }
    fx_buf_putc(b, ']');
}

static void json_totals(fx_buf *b, const fx_weights *w)
{
    totals s = sum_up(w);
    const char *comma = "";

    fx_buf_puts(b, ",\"dtypes\":{");
    for (int t = 0; t < FX_DTYPE_COUNT; t++) {
        if (s.of[t].tensors == 0)
            continue;
        fx_buf_printf(b, "%s\"%s\":{\"tensors\":%llu,\"elements\":%llu,\"bytes\":%llu}", comma,
                      fx_dtype_name((fx_dtype)t), (unsigned long long)s.of[t].tensors,
                      (unsigned long long)s.of[t].elems, (unsigned long long)s.of[t].bytes);
        comma = ",";
    }
    fx_buf_printf(b, "},\"tensor_count\":%llu,\"parameter_count\":%llu,\"tensor_bytes\":%llu",
                  (unsigned long long)s.all.tensors, (unsigned long long)s.all.elems,
                  (unsigned long long)s.all.bytes);
}

fx_status fx_inspect(const fx_weights *w, bool json, fx_buf *out, fx_error *err)
{
    if (json) {
        fx_buf_puts(out, "{\"file\":");
        fx_buf_json_string(out, fx_str_of(fx_weights_path(w)));
        fx_buf_printf(out, ",\"format\":\"%s\",\"version\":%d,\"file_bytes\":%llu,\"files\":%zu", kind_name(w),
                      fx_meta_version(w), (unsigned long long)fx_weights_file_bytes(w), fx_weights_files(w));
        json_meta(out, w);
        json_totals(out, w);
        json_tensors(out, w);
        fx_buf_putc(out, '}');
    } else {
        text_head(out, w);
        text_meta(out, w);
        text_tensors(out, w);
        text_totals(out, w);
    }
    return out->failed ? fx_nomem(err, "the description of a model") : FORNAX_OK;
}
