/* call_json.c - calls whose arguments are written as JSON, given out byte for byte as they come. */
#include <string.h>

#include "agent/reply_int.h"

/* ---- One value ---- */

static fx_scan scan_string(fx_json_scan *s, fx_str text)
{
    while (s->at < text.n) {
        char c = text.p[s->at++];

        if (s->escaped) {
            s->escaped = false;
        } else if (c == '\\') {
            s->escaped = true;
        } else if (c == '"') {
            s->in_string = false;
            return FX_SCAN_DONE;
        }
    }
    return FX_SCAN_MORE;
}

static fx_scan scan_scalar(fx_json_scan *s, fx_str text)
{
    for (; s->at < text.n; s->at++)
        if (!strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", text.p[s->at]) || text.p[s->at] == 0)
            return FX_SCAN_DONE;
    return FX_SCAN_MORE;
}

/* One byte outside strings; DONE: the outermost bracket was closed. */
static fx_scan scan_byte(fx_json_scan *s, char c)
{
    s->at++;
    if (c == '"')
        s->in_string = true;
    else if (c == '{' || c == '[')
        s->depth++;
    else if (c == '}' || c == ']')
        s->depth--;
    else if (s->depth == 0)
        return FX_SCAN_BAD;
    return s->depth == 0 && !s->in_string ? FX_SCAN_DONE : FX_SCAN_MORE;
}

fx_scan fx_json_scan_value(fx_json_scan *s, fx_str text)
{
    fx_scan got = FX_SCAN_MORE;

    if (s->done)
        return FX_SCAN_DONE;
    if (s->scalar)
        return scan_scalar(s, text);
    while (got == FX_SCAN_MORE && s->at < text.n) {
        if (s->in_string) {
            got = scan_string(s, text);
            if (got == FX_SCAN_DONE && s->depth > 0)
                got = FX_SCAN_MORE;
            continue;
        }
        if (!s->started && !strchr("{[\"", text.p[s->at])) {
            s->scalar = true;
            return strchr("-0123456789tfn", text.p[s->at]) && text.p[s->at] ? scan_scalar(s, text) : FX_SCAN_BAD;
        }
        s->started = true;
        got = scan_byte(s, text.p[s->at]);
    }
    s->done = got == FX_SCAN_DONE;
    return got;
}

/* ---- The object of a call ---- */

enum { AT_OPEN, AT_KEY, IN_KEY, AT_COLON, AT_VALUE, IN_VALUE, AT_END };

static bool key_is(const fx_call_scan *s, fx_str text, const char *key)
{
    return fx_str_is(fx_str_n(text.p + s->key_from, s->key_to - s->key_from), key);
}

static void end_value(fx_call_scan *s, fx_str text, const char *name_key, const char *args_key)
{
    if (key_is(s, text, name_key) && text.p[s->value_from] == '"') {
        s->has_name = true;
        s->name_from = s->value_from;
        s->name_to = s->at;
    } else if (key_is(s, text, args_key)) {
        s->has_args = true;
        s->args_open = false;
        s->args_from = s->value_from;
        s->args_to = s->at;
    }
    s->phase = AT_KEY;
}

static fx_scan scan_member(fx_call_scan *s, fx_str text, const char *name_key, const char *args_key)
{
    fx_scan got = fx_json_scan_value(&s->value, text);

    s->at = s->value.at;
    if (got == FX_SCAN_MORE && key_is(s, text, args_key)) {
        s->args_open = true;
        s->args_from = s->value_from;
        s->args_to = s->at;
    }
    if (got == FX_SCAN_DONE)
        end_value(s, text, name_key, args_key);
    return got == FX_SCAN_BAD ? FX_SCAN_BAD : got == FX_SCAN_MORE ? FX_SCAN_MORE : FX_SCAN_DONE;
}

/* One step at a byte that isn't a blank; false: it can't be there. */
static bool scan_mark(fx_call_scan *s, char c)
{
    static const char expected[] = { [AT_OPEN] = '{', [AT_KEY] = '"', [AT_COLON] = ':' };

    if (s->phase == AT_KEY && c == ',') {
        s->at++;
        return true;
    }
    if (c != expected[s->phase])
        return false;
    s->at++;
    s->phase = s->phase == AT_OPEN ? AT_KEY : s->phase == AT_KEY ? IN_KEY : AT_VALUE;
    s->key_from = s->phase == IN_KEY ? s->at : s->key_from;
    return true;
}

static fx_scan scan_key(fx_call_scan *s, fx_str text)
{
    for (; s->at < text.n; s->at++) {
        if (text.p[s->at] == '\\')
            return FX_SCAN_BAD;              /* no family's keys need it */
        if (text.p[s->at] == '"') {
            s->key_to = s->at++;
            s->phase = AT_COLON;
            return FX_SCAN_DONE;
        }
    }
    return FX_SCAN_MORE;
}

fx_scan fx_call_scan_object(fx_call_scan *s, fx_str text, const char *name_key, const char *args_key)
{
    fx_scan got;

    if (s->phase == AT_END)
        return FX_SCAN_DONE;
    while (s->at < text.n) {
        char c = text.p[s->at];

        if (s->phase == IN_KEY || s->phase == IN_VALUE) {
            got = s->phase == IN_KEY ? scan_key(s, text) : scan_member(s, text, name_key, args_key);
            if (got != FX_SCAN_DONE)
                return got;
        } else if (fx_blank(c)) {
            s->at++;
        } else if (s->phase == AT_KEY && c == '}') {
            s->at++;
            s->phase = AT_END;
            return FX_SCAN_DONE;
        } else if (s->phase == AT_VALUE) {
            s->value_from = s->at;
            s->value = (fx_json_scan){ .at = s->at };
            s->phase = IN_VALUE;
        } else if (!scan_mark(s, c)) {
            return FX_SCAN_BAD;
        }
    }
    return FX_SCAN_MORE;
}

/* ---- Giving out ---- */

/* A JSON string's value into r->scratch; false: it isn't one. */
static bool decode(fx_reply *r, fx_str json)
{
    json_t *v = json_loadb(json.p, json.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    bool ok = json_is_string(v);

    fx_buf_clear(&r->scratch);
    if (ok)
        fx_buf_add(&r->scratch, json_string_value(v), json_string_length(v));
    json_decref(v);
    return ok;
}

static bool known(const fx_reply *r, fx_str name)
{
    return fx_codec_tagged(r->o.codec) || fx_tool_find(r->o.tools, name) != NULL;
}

/* Once the name is there: the call's beginning, then its arguments as far as they are. */
static bool give_call(fx_reply *r, const fx_call_scan *s)
{
    const char *held = r->held.p;

    if (!s->has_name)
        return true;
    if (!r->open) {
        if (!decode(r, fx_str_n(held + s->name_from, s->name_to - s->name_from)) || !known(r, fx_buf_view(&r->scratch)))
            return false;
        fx_reply_give(r, FX_PART_CALL, fx_buf_view(&r->scratch));
        r->sent = 0;
    }
    if ((s->has_args || s->args_open) && (held[s->args_from] == '{' || held[s->args_from] == '[')) {
        r->sent = FX_MAX(r->sent, s->args_from);
        fx_reply_give(r, FX_PART_ARGUMENTS, fx_str_n(held + r->sent, s->args_to - r->sent));
        r->sent = s->args_to;
    }
    return true;
}

/* Arguments that are absent, null, or JSON inside a string. */
static void give_odd_arguments(fx_reply *r, const fx_call_scan *s)
{
    fx_str args = s->has_args ? fx_str_n(r->held.p + s->args_from, s->args_to - s->args_from) : FX_STR("null");

    if (args.p[0] == '{' || args.p[0] == '[')
        return;
    if (args.p[0] == '"' && decode(r, args))
        fx_reply_give(r, FX_PART_ARGUMENTS, fx_buf_view(&r->scratch));
    else
        fx_reply_give(r, FX_PART_ARGUMENTS, fx_str_is(args, "null") ? FX_STR("{}") : args);
}

/* Blanks and the tag from 'at' on. MORE: the tag may still come. */
static fx_scan skip_tag(const fx_reply *r, const char *tag, bool last, size_t *at)
{
    fx_str t = fx_tag(tag), text = fx_buf_view(&r->held);
    size_t i = *at;

    if (t.n == 0)
        return FX_SCAN_DONE;
    while (i < text.n && fx_blank(text.p[i]))
        i++;
    if (fx_str_starts(fx_str_n(text.p + i, text.n - i), t)) {
        *at = i + t.n;
        return FX_SCAN_DONE;
    }
    if (!last && text.n - i < t.n && memcmp(text.p + i, t.p, text.n - i) == 0)
        return FX_SCAN_MORE;
    return FX_SCAN_BAD;
}

/* Behind a call's body: a close tag that doesn't come ends a begun call all the same. */
static fx_scan end_call(fx_reply *r, bool last, size_t at, size_t *end)
{
    fx_scan got = skip_tag(r, r->o.codec->close, last, &at);

    if (got == FX_SCAN_MORE)
        return got;
    *end = at;
    return FX_SCAN_DONE;
}

fx_scan fx_body_json(fx_reply *r, bool last, size_t *end)
{
    fx_call_scan *s = &r->scan;
    fx_scan got;

    if (s->at < r->body)
        s->at = r->body;
    got = fx_call_scan_object(s, fx_buf_view(&r->held), r->o.codec->name_key, r->o.codec->args_key);
    if (got == FX_SCAN_BAD || !give_call(r, s))
        return FX_SCAN_BAD;
    if (got == FX_SCAN_MORE)
        return last && !r->open ? FX_SCAN_BAD : FX_SCAN_MORE;
    if (!r->open)
        return FX_SCAN_BAD;                  /* an object without a name */
    got = end_call(r, last, s->at, end);
    if (got == FX_SCAN_DONE)
        give_odd_arguments(r, s);
    return got;
}

/* ---- NAME, a tag, arguments ---- */

/* "functions.get_weather:0" is get_weather, unless a tool is called just so. */
static fx_str plain_name(const fx_reply *r, fx_str name)
{
    const fx_codec *c = r->o.codec;
    fx_str before = fx_tag(c->before_name), functions = FX_STR("functions.");
    size_t colon;

    name = fx_str_trim(name);
    if (fx_str_starts(name, before))
        name = fx_str_n(name.p + before.n, name.n - before.n);
    if (fx_tool_find(r->o.tools, name))
        return name;
    if (fx_str_starts(name, functions))
        name = fx_str_n(name.p + functions.n, name.n - functions.n);
    colon = c->indexed ? fx_str_find(name, FX_STR(":"), 0) : name.n;
    return fx_str_n(name.p, FX_MIN(colon, name.n));
}

static fx_scan open_named(fx_reply *r)
{
    fx_str text = fx_buf_view(&r->held), tag = fx_tag(r->o.codec->after_name), name;
    size_t at = fx_str_find(text, tag, r->body);

    if (at == FX_STR_NONE)
        return text.n - r->body > 512 ? FX_SCAN_BAD : FX_SCAN_MORE;      /* no name is that long */
    name = plain_name(r, fx_str_n(text.p + r->body, at - r->body));
    if (name.n == 0)
        return FX_SCAN_BAD;
    for (at += tag.n; at < text.n && fx_blank(text.p[at]); at++)
        ;
    if (at == text.n)
        return FX_SCAN_MORE;
    if (text.p[at] != '{')
        return FX_SCAN_BAD;
    fx_reply_give(r, FX_PART_CALL, name);
    r->value = (fx_json_scan){ .at = at };
    r->sent = at;
    return FX_SCAN_DONE;
}

fx_scan fx_body_name_json(fx_reply *r, bool last, size_t *end)
{
    fx_scan got;

    if (!r->open) {
        got = open_named(r);
        if (got != FX_SCAN_DONE)
            return last ? FX_SCAN_BAD : got;
    }
    got = fx_json_scan_value(&r->value, fx_buf_view(&r->held));
    fx_reply_give(r, FX_PART_ARGUMENTS, fx_str_n(r->held.p + r->sent, r->value.at - r->sent));
    r->sent = r->value.at;
    return got == FX_SCAN_DONE ? end_call(r, last, r->value.at, end) : got;
}
