/* call_forms.c - calls whose arguments aren't written as JSON: given out whole, as JSON, at their end. */
#include <stdlib.h>
#include <string.h>

#include "agent/reply_int.h"

/* ---- Helpers ---- */

fx_str fx_tag(const char *tag) { return fx_str_trim(fx_str_of(tag ? tag : "")); }

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

void fx_put_value(fx_buf *out, const json_t *function, fx_str key, fx_str value)
{
    fx_str t = fx_str_trim(value);
    json_t *v = wants_string(function, key) ? NULL : json_loadb(t.p, t.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    if (v)
        fx_buf_str(out, t);
    else
        fx_buf_json_string(out, value);
    json_decref(v);
}

/* The text up to 'tag', from *at on; *at is put behind the tag. */
static fx_scan take_until(fx_str text, const char *tag, size_t *at, fx_str *out)
{
    size_t end = fx_str_find(text, fx_str_of(tag), *at);

    if (end == FX_STR_NONE)
        return FX_SCAN_MORE;
    *out = fx_str_n(text.p + *at, end - *at);
    *at = end + strlen(tag);
    return FX_SCAN_DONE;
}

static size_t past_blanks(fx_str text, size_t at)
{
    while (at < text.n && fx_blank(text.p[at]))
        at++;
    return at;
}

/* Where JSON that begins at 'at' ends, if 'tag' is what follows it: tags inside its strings don't count. */
static fx_scan json_end(fx_str text, size_t at, fx_str tag, size_t *end)
{
    fx_json_scan scan = { .at = past_blanks(text, at) };
    fx_scan got = scan.at < text.n ? fx_json_scan_value(&scan, text) : FX_SCAN_MORE;
    size_t next;

    if (got != FX_SCAN_DONE)
        return got;
    *end = scan.at;
    next = past_blanks(text, scan.at);
    if (fx_str_starts(fx_str_n(text.p + next, text.n - next), tag))
        return FX_SCAN_DONE;
    return text.n - next < tag.n && memcmp(text.p + next, tag.p, text.n - next) == 0 ? FX_SCAN_MORE : FX_SCAN_BAD;
}

/* One parameter's value up to its tag; *at is put behind that. */
static fx_scan take_value(fx_reply *r, const json_t *function, fx_str key, const char *tag, bool last, size_t *at, fx_str *value)
{
    fx_str text = fx_buf_view(&r->held), t = fx_str_of(tag);
    size_t end = *at;
    fx_scan got = wants_string(function, key) ? FX_SCAN_BAD : json_end(text, *at, t, &end);

    if (got == FX_SCAN_MORE && !last)
        return got;
    if (got == FX_SCAN_DONE) {
        *value = fx_str_n(text.p + *at, end - *at);
        *at = past_blanks(text, end) + t.n;
        return got;
    }
    return take_until(text, tag, at, value);
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
    fx_buf_json_string(b, key);
    fx_buf_puts(b, ": ");
}

/* ---- Parameters between tags ---- */

/* The line ends that a form puts around a value aren't part of it. */
static fx_str without_line_ends(fx_str v)
{
    if (v.n > 0 && v.p[0] == '\n')
        v = fx_str_n(v.p + 1, v.n - 1);
    if (v.n > 0 && v.p[v.n - 1] == '\n')
        v.n--;
    return v;
}

typedef struct param_tags {
    const char *open, *after_key, *before_value, *close;   /* before_value "": the value follows after_key */
    bool lines;                                            /* each value is on lines of its own */
} param_tags;

/* Parameters into scratch, until none opens before the call's close tag. *at: behind that tag. */
static fx_scan params(fx_reply *r, const json_t *function, const param_tags *tags, bool last, size_t *at)
{
    fx_str text = fx_buf_view(&r->held), close = fx_tag(r->o.codec->close), key, value, skipped;

    fx_buf_clear(&r->scratch);
    fx_buf_putc(&r->scratch, '{');
    for (;;) {
        size_t end = fx_str_find(text, close, *at), next = fx_str_find(text, fx_str_of(tags->open), *at);

        if (end != FX_STR_NONE && (next == FX_STR_NONE || end < next)) {
            *at = end + close.n;
            fx_buf_putc(&r->scratch, '}');
            return FX_SCAN_DONE;
        }
        if (next == FX_STR_NONE)
            return FX_SCAN_MORE;
        *at = next + strlen(tags->open);
        if (take_until(text, tags->after_key, at, &key) != FX_SCAN_DONE || take_until(text, tags->before_value, at, &skipped) != FX_SCAN_DONE ||
            take_value(r, function, fx_str_trim(key), tags->close, last, at, &value) != FX_SCAN_DONE)
            return FX_SCAN_MORE;
        put_member(&r->scratch, fx_str_trim(key));
        fx_put_value(&r->scratch, function, fx_str_trim(key), tags->lines ? without_line_ends(value) : value);
    }
}

static fx_scan params_call(fx_reply *r, fx_str name, const param_tags *tags, bool last, size_t at, size_t *end)
{
    fx_scan got = params(r, fx_tool_find(r->o.tools, name), tags, last, &at);

    if (got != FX_SCAN_DONE)
        return last ? FX_SCAN_BAD : got;
    *end = at;
    give_whole(r, name);
    return FX_SCAN_DONE;
}

/* NAME <arg_key>K</arg_key> <arg_value>V</arg_value> ... */
fx_scan fx_body_xml_pairs(fx_reply *r, bool last, size_t *end)
{
    static const param_tags tags = { "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", false };
    fx_str text = fx_buf_view(&r->held), close = fx_tag(r->o.codec->close), name;
    size_t at = FX_MIN(fx_str_find(text, FX_STR("<arg_key>"), r->body), fx_str_find(text, close, r->body));

    if (at == FX_STR_NONE)
        return last ? FX_SCAN_BAD : FX_SCAN_MORE;
    name = fx_str_trim(fx_str_n(text.p + r->body, at - r->body));
    if (name.n == 0 || fx_str_find(name, FX_STR("<"), 0) != FX_STR_NONE || fx_str_find(name, FX_STR("{"), 0) != FX_STR_NONE)
        return FX_SCAN_BAD;
    return params_call(r, name, &tags, last, at, end);
}

/* <function=NAME> <parameter=K> V </parameter> ... </function> */
fx_scan fx_body_xml_function(fx_reply *r, bool last, size_t *end)
{
    static const param_tags tags = { "<parameter=", ">", "", "</parameter>", true };
    fx_str text = fx_buf_view(&r->held), name;
    size_t at = fx_str_find(text, FX_STR("<function="), r->body), close = fx_str_find(text, fx_tag(r->o.codec->close), r->body);

    if (at == FX_STR_NONE || close < at)
        return last || close != FX_STR_NONE ? FX_SCAN_BAD : FX_SCAN_MORE;
    at += strlen("<function=");
    if (take_until(text, ">", &at, &name) != FX_SCAN_DONE)
        return last ? FX_SCAN_BAD : FX_SCAN_MORE;
    return params_call(r, fx_str_trim(name), &tags, last, at, end);
}

/* NAME"> <parameter name="K">V</parameter> ... */
fx_scan fx_body_xml_invoke(fx_reply *r, bool last, size_t *end)
{
    static const param_tags tags = { "<parameter name=\"", "\">", "", "</parameter>", false };
    fx_str text = fx_buf_view(&r->held), name;
    size_t at = r->body;

    if (take_until(text, "\">", &at, &name) != FX_SCAN_DONE)
        return last ? FX_SCAN_BAD : FX_SCAN_MORE;
    if (name.n == 0 || fx_str_find(name, FX_STR("<"), 0) != FX_STR_NONE)
        return FX_SCAN_BAD;
    return params_call(r, name, &tags, last, at, end);
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
