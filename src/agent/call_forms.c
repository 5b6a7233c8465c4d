/* call_forms.c - calls whose arguments aren't written as JSON: given out whole, as JSON, at their end. */
#include <stdlib.h>
#include <string.h>

#include "agent/reply_int.h"

/* ---- Helpers ---- */

fx_str fx_trim(fx_str s)
{
    while (s.n > 0 && fx_blank(s.p[0]))
        s = fx_str_n(s.p + 1, s.n - 1);
    while (s.n > 0 && fx_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

fx_str fx_tag(const char *tag) { return fx_trim(fx_str_of(tag ? tag : "")); }

const json_t *fx_tool_find(const json_t *tools, fx_str name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i), *f = json_object_get(tool, "function");
        const json_t *n = json_object_get(f ? f : tool, "name");

        if (json_is_string(n) && fx_str_eq(name, fx_str_n(json_string_value(n), json_string_length(n))))
            return f ? f : tool;
    }
    return NULL;
}

static bool wants_string(const json_t *function, fx_str key)
{
    const json_t *props = json_object_get(json_object_get(function, "parameters"), "properties");
    const json_t *type = json_object_get(json_object_getn(props, key.p, key.n), "type");

    return json_is_string(type) && strcmp(json_string_value(type), "string") == 0;
}

static void put_string(fx_buf *out, fx_str s)
{
    fx_buf_putc(out, '"');
    fx_buf_json(out, s);
    fx_buf_putc(out, '"');
}

void fx_put_value(fx_buf *out, const json_t *function, fx_str key, fx_str value)
{
    fx_str t = fx_trim(value);
    json_t *v = wants_string(function, key) ? NULL : json_loadb(t.p, t.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    if (v)
        fx_buf_str(out, t);
    else
        put_string(out, value);
    json_decref(v);
}

/* The text between 'open' and 'close' from *at on; *at is put behind it. False: not there. */
static bool between(fx_str text, const char *open, const char *close, size_t *at, fx_str *out)
{
    size_t a = fx_str_find(text, fx_str_of(open), *at), b;

    if (a == FX_STR_NONE)
        return false;
    a += strlen(open);
    b = fx_str_find(text, fx_str_of(close), a);
    if (b == FX_STR_NONE)
        return false;
    *out = fx_str_n(text.p + a, b - a);
    *at = b + strlen(close);
    return true;
}

/* The body, when its close tag is there. */
static fx_scan whole_body(const fx_reply *r, bool last, fx_str *body, size_t *end)
{
    fx_str text = fx_buf_view(&r->held), tag = fx_tag(r->o.codec->close);
    size_t at = fx_str_find(text, tag, r->body);

    if (at == FX_STR_NONE)
        return last ? FX_SCAN_BAD : FX_SCAN_MORE;
    *body = fx_str_n(text.p + r->body, at - r->body);
    *end = at + tag.n;
    return FX_SCAN_DONE;
}

static void give_whole(fx_reply *r, fx_str name)
{
    fx_reply_give(r, FX_PART_CALL, name);
    fx_reply_give(r, FX_PART_ARGUMENTS, fx_buf_view(&r->scratch));
}

static void put_member(fx_buf *b, fx_str key)
{
    if (b->n > 1)
        fx_buf_puts(b, ", ");
    put_string(b, key);
    fx_buf_puts(b, ": ");
}

/* ---- NAME <arg_key>K</arg_key> <arg_value>V</arg_value> ... ---- */

fx_scan fx_body_xml_pairs(fx_reply *r, bool last, size_t *end)
{
    fx_str body, name, key, value;
    const json_t *function;
    size_t at;
    fx_scan got = whole_body(r, last, &body, end);

    if (got != FX_SCAN_DONE)
        return got;
    at = FX_MIN(fx_str_find(body, FX_STR("<arg_key>"), 0), body.n);
    name = fx_trim(fx_str_n(body.p, at));
    if (name.n == 0 || fx_str_find(name, FX_STR("<"), 0) != FX_STR_NONE || fx_str_find(name, FX_STR("{"), 0) != FX_STR_NONE)
        return FX_SCAN_BAD;
    function = fx_tool_find(r->o.tools, name);
    fx_buf_clear(&r->scratch);
    fx_buf_putc(&r->scratch, '{');
    while (between(body, "<arg_key>", "</arg_key>", &at, &key)) {
        if (!between(body, "<arg_value>", "</arg_value>", &at, &value))
            return FX_SCAN_BAD;
        key = fx_trim(key);
        put_member(&r->scratch, key);
        fx_put_value(&r->scratch, function, key, value);
    }
    fx_buf_putc(&r->scratch, '}');
    give_whole(r, name);
    return FX_SCAN_DONE;
}

/* ---- <function=NAME> <parameter=K> V </parameter> ... </function> ---- */

/* The line ends that the form puts around a value aren't part of it. */
static fx_str without_line_ends(fx_str v)
{
    if (v.n > 0 && v.p[0] == '\n')
        v = fx_str_n(v.p + 1, v.n - 1);
    if (v.n > 0 && v.p[v.n - 1] == '\n')
        v.n--;
    return v;
}

fx_scan fx_body_xml_function(fx_reply *r, bool last, size_t *end)
{
    fx_str body, inner, name, key, value;
    const json_t *function;
    size_t at = 0, in = 0;
    fx_scan got = whole_body(r, last, &body, end);

    if (got != FX_SCAN_DONE)
        return got;
    if (!between(body, "<function=", ">", &at, &name))
        return FX_SCAN_BAD;
    inner = fx_str_n(body.p + at, body.n - at);
    inner.n = FX_MIN(fx_str_find(inner, FX_STR("</function>"), 0), inner.n);
    name = fx_trim(name);
    function = fx_tool_find(r->o.tools, name);
    fx_buf_clear(&r->scratch);
    fx_buf_putc(&r->scratch, '{');
    while (between(inner, "<parameter=", ">", &in, &key)) {
        size_t close = fx_str_find(inner, FX_STR("</parameter>"), in);

        if (close == FX_STR_NONE)
            return FX_SCAN_BAD;
        value = without_line_ends(fx_str_n(inner.p + in, close - in));
        in = close;
        key = fx_trim(key);
        put_member(&r->scratch, key);
        fx_put_value(&r->scratch, function, key, value);
    }
    fx_buf_putc(&r->scratch, '}');
    give_whole(r, name);
    return FX_SCAN_DONE;
}

/* ---- [NAME(K=V, ...), ...]: Python literals ---- */

typedef struct py {
    const char *p, *end;
    fx_buf *out;                     /* JSON */
    int depth;
} py;

static void py_blanks(py *y)
{
    while (y->p < y->end && fx_blank(*y->p))
        y->p++;
}

static bool py_take(py *y, char c)
{
    py_blanks(y);
    if (y->p == y->end || *y->p != c)
        return false;
    y->p++;
    return true;
}

static fx_str py_name(py *y)
{
    const char *from;

    py_blanks(y);
    from = y->p;
    while (y->p < y->end && (strchr("_.-", *y->p) || (*y->p >= '0' && *y->p <= '9') || (*y->p >= 'a' && *y->p <= 'z') ||
                             (*y->p >= 'A' && *y->p <= 'Z') || (unsigned char)*y->p >= 0x80) && *y->p)
        y->p++;
    return fx_str_n(from, (size_t)(y->p - from));
}

/* The escapes that both languages know go over as they are; \' is ' and \x41 is \u0041. */
static bool py_escape(py *y)
{
    char c = *y->p++;

    if (c == '\'')
        fx_buf_putc(y->out, '\'');
    else if (c == 'x' && y->end - y->p >= 2)
        fx_buf_puts(y->out, "\\u00");
    else if (strchr("\\\"nrtbfu/", c) && c)
        fx_buf_printf(y->out, "\\%c", c);
    else
        fx_buf_printf(y->out, "\\\\%c", c);
    return true;
}

static bool py_string(py *y)
{
    char quote = *y->p++;

    fx_buf_putc(y->out, '"');
    while (y->p < y->end && *y->p != quote) {
        if (*y->p == '\\' && y->p + 1 < y->end) {
            y->p++;
            py_escape(y);
        } else if (*y->p == '"') {
            fx_buf_puts(y->out, "\\\"");
            y->p++;
        } else {
            const char *from = y->p++;

            while (y->p < y->end && ((unsigned char)*y->p & 0xC0) == 0x80)
                y->p++;
            fx_buf_json(y->out, fx_str_n(from, (size_t)(y->p - from)));
        }
    }
    fx_buf_putc(y->out, '"');
    return y->p < y->end && *y->p++ == quote;
}

static bool py_value(py *y);

static bool py_list(py *y, char close)
{
    fx_buf_putc(y->out, '[');
    for (size_t n = 0; !py_take(y, close); n++) {
        if (n > 0) {
            if (!py_take(y, ','))
                return false;
            if (py_take(y, close))
                break;
            fx_buf_puts(y->out, ", ");
        }
        if (!py_value(y))
            return false;
    }
    fx_buf_putc(y->out, ']');
    return true;
}

static bool py_dict(py *y)
{
    fx_buf_putc(y->out, '{');
    for (size_t n = 0; !py_take(y, '}'); n++) {
        if (n > 0) {
            if (!py_take(y, ','))
                return false;
            if (py_take(y, '}'))
                break;
            fx_buf_puts(y->out, ", ");
        }
        py_blanks(y);
        if (y->p == y->end || (*y->p != '"' && *y->p != '\'') || !py_string(y) || !py_take(y, ':'))
            return false;
        fx_buf_puts(y->out, ": ");
        if (!py_value(y))
            return false;
    }
    fx_buf_putc(y->out, '}');
    return true;
}

static bool py_word(py *y)
{
    static const char *const words[][2] = { { "True", "true" }, { "False", "false" }, { "None", "null" },
                                            { "true", "true" }, { "false", "false" }, { "null", "null" } };
    fx_str w = py_name(y);

    for (size_t i = 0; i < FX_COUNT(words); i++) {
        if (fx_str_is(w, words[i][0])) {
            fx_buf_puts(y->out, words[i][1]);
            return true;
        }
    }
    return false;
}

static bool py_number(py *y)
{
    const char *from = y->p;
    json_t *v;

    while (y->p < y->end && strchr("+-.0123456789eE_", *y->p) && *y->p)
        y->p++;
    v = json_loadb(from, (size_t)(y->p - from), JSON_DECODE_ANY, NULL);
    if (v)
        fx_buf_add(y->out, from, (size_t)(y->p - from));
    json_decref(v);
    return v != NULL;
}

static bool py_value(py *y)
{
    bool ok;

    py_blanks(y);
    if (y->p == y->end || y->depth > 100)
        return false;
    if (*y->p == '"' || *y->p == '\'')
        return py_string(y);
    if (strchr("-.0123456789", *y->p) && *y->p)
        return py_number(y);
    if (*y->p != '{' && *y->p != '[' && *y->p != '(')
        return py_word(y);
    y->depth++;
    ok = *y->p == '{' ? (y->p++, py_dict(y)) : py_list(y, *y->p++ == '[' ? ']' : ')');
    y->depth--;
    return ok;
}

/* NAME(K=V, ...): its JSON arguments into y->out. */
static bool py_call(py *y, fx_str *name)
{
    *name = py_name(y);
    if (name->n == 0 || !py_take(y, '('))
        return false;
    fx_buf_putc(y->out, '{');
    for (size_t n = 0; !py_take(y, ')'); n++) {
        fx_str key;

        if (n > 0 && !py_take(y, ','))
            return false;
        if (n > 0 && py_take(y, ')'))
            break;
        key = py_name(y);
        if (key.n == 0 || !py_take(y, '='))
            return false;
        put_member(y->out, key);
        if (!py_value(y))
            return false;
    }
    fx_buf_putc(y->out, '}');
    return true;
}

/* Where the list that begins at 'at' ends; 0: not yet. Brackets inside strings don't count. */
static size_t list_end(fx_str text, size_t at)
{
    int depth = 0;
    char quote = 0;

    for (; at < text.n; at++) {
        char c = text.p[at];

        if (quote) {
            if (c == '\\')
                at++;
            else if (c == quote)
                quote = 0;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '[' || c == '(' || c == '{') {
            depth++;
        } else if ((c == ']' || c == ')' || c == '}') && --depth == 0) {
            return at + 1;
        }
    }
    return 0;
}

/* All calls of the list; dry: only looks whether it is one (and, where no tag says so, of known tools). */
static bool py_calls(fx_reply *r, fx_str list, bool dry)
{
    bool tagged = fx_tag(r->o.codec->open).n > 0;
    py y = { list.p + 1, list.p + list.n - 1, &r->scratch, 0 };
    fx_str name;

    for (size_t n = 0; n == 0 || py_take(&y, ','); n++) {
        fx_buf_clear(&r->scratch);
        if (!py_call(&y, &name) || (!tagged && !fx_tool_find(r->o.tools, name)))
            return false;
        if (!dry && n > 0)
            fx_reply_give(r, FX_PART_CALL_END, FX_STR(""));
        if (!dry)
            give_whole(r, name);
    }
    py_blanks(&y);
    return y.p == y.end;
}

fx_scan fx_body_python(fx_reply *r, bool last, size_t *end)
{
    fx_str text = fx_buf_view(&r->held), tag = fx_tag(r->o.codec->close), list;
    size_t at = r->body, stop;

    while (at < text.n && fx_blank(text.p[at]))
        at++;
    if (at == text.n)
        return last ? FX_SCAN_BAD : FX_SCAN_MORE;
    if (text.p[at] != '[')
        return FX_SCAN_BAD;
    stop = list_end(text, at);
    if (stop == 0)
        return last ? FX_SCAN_BAD : FX_SCAN_MORE;
    list = fx_str_n(text.p + at, stop - at);
    if (tag.n > 0) {
        size_t close = fx_str_find(text, tag, stop);

        if (close == FX_STR_NONE && !last)
            return FX_SCAN_MORE;
        stop = close == FX_STR_NONE ? stop : close + tag.n;
    }
    if (!py_calls(r, list, true))
        return FX_SCAN_BAD;
    py_calls(r, list, false);
    *end = stop;
    return FX_SCAN_DONE;
}
