/* schema_json.c - a strict reader of JSON that keeps what JSON Schema needs.
 *
 * Members stay in order and numbers keep their spelling: 0.1, 1e400 and 12345678901234567890 are
 * exact later on.  The tree lies in an arena; strings without escapes are views of the text. */
#include <stdlib.h>

#include "base/diag.h"
#include "base/text.h"
#include "grammar/schema_int.h"

#define MAX_DEPTH 256

typedef struct reader {
    fx_arena *arena;
    const fx_mem *mem;
    fx_str text;
    const char *name;
    size_t i;
    FX_VEC(fx_jv) stack;        /* values of containers that are still open */
    FX_VEC(fx_str) keys;        /* beside the values: names, where the container is an object */
    fx_error *err;
} reader;

static fx_status fault(reader *r, const char *what)
{
    return fx_diag(r->err, r->name, r->text, FX_MIN(r->i, r->text.n), "%s", what);
}

static void blanks(reader *r)
{
    while (r->i < r->text.n && strchr(" \t\r\n", r->text.p[r->i]) && r->text.p[r->i])
        r->i++;
}

static int peek(const reader *r)
{
    return r->i < r->text.n ? (unsigned char)r->text.p[r->i] : -1;
}

static bool digits(reader *r)
{
    size_t from = r->i;

    while (peek(r) >= '0' && peek(r) <= '9')
        r->i++;
    return r->i > from;
}

static fx_status number(reader *r, fx_jv *out)
{
    size_t from = r->i;

    if (peek(r) == '-')
        r->i++;
    if (peek(r) == '0')
        r->i++;
    else if (!digits(r))
        return fault(r, "a value was expected");
    if (peek(r) == '.') {
        r->i++;
        if (!digits(r))
            return fault(r, "a digit was expected after the point");
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        r->i++;
        if (peek(r) == '+' || peek(r) == '-')
            r->i++;
        if (!digits(r))
            return fault(r, "a digit was expected in the exponent");
    }
    out->type = FX_JNUMBER;
    out->text = fx_str_n(r->text.p + from, r->i - from);
    return FORNAX_OK;
}

static bool hex4(reader *r, uint32_t *out)
{
    uint32_t v = 0;

    if (r->text.n - r->i < 4)
        return false;
    for (int k = 0; k < 4; k++) {
        int ch = peek(r), low = ch | 0x20;

        if (ch >= '0' && ch <= '9')
            v = v * 16 + (uint32_t)(ch - '0');
        else if (low >= 'a' && low <= 'f')
            v = v * 16 + (uint32_t)(low - 'a' + 10);
        else
            return false;
        r->i++;
    }
    *out = v;
    return true;
}

/* After "\u": one character, maybe of two escapes. */
static bool unicode_escape(reader *r, uint32_t *rune)
{
    uint32_t low;

    if (!hex4(r, rune) || (*rune >= 0xDC00 && *rune <= 0xDFFF))
        return false;
    if (*rune < 0xD800 || *rune > 0xDBFF)
        return true;
    if (r->text.n - r->i < 6 || r->text.p[r->i] != '\\' || r->text.p[r->i + 1] != 'u')
        return false;
    r->i += 2;
    if (!hex4(r, &low) || low < 0xDC00 || low > 0xDFFF)
        return false;
    *rune = 0x10000 + ((*rune - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

static fx_status escape(reader *r, char *out, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int ch = peek(r);
    const char *at = ch > 0 ? strchr(from, ch) : NULL;
    uint32_t rune;

    r->i++;
    if (at) {
        out[(*n)++] = to[at - from];
        return FORNAX_OK;
    }
    if (ch != 'u' || !unicode_escape(r, &rune))
        return fault(r, "not an escape of JSON, or half of a surrogate pair");
    *n += fx_utf8_put(out + *n, rune);
    return FORNAX_OK;
}

/* At the opening quote.  A decoded text is never longer than its spelling. */
static fx_status string(reader *r, fx_str *out)
{
    size_t from = ++r->i, n = 0;
    char *copy = NULL;

    for (;; r->i++) {
        int ch = peek(r);

        if (ch < 0x20)
            return fault(r, ch < 0 ? "a string isn't closed" : "a control character within a string");
        if (ch == '"' || ch == '\\')
            break;
    }
    n = r->i - from;
    if (peek(r) == '"') {
        *out = fx_str_n(r->text.p + from, n);
        r->i++;
        return FORNAX_OK;
    }
    size_t end = r->i;
    while (end < r->text.n && r->text.p[end] != '"')
        end += r->text.p[end] == '\\' ? 2 : 1;
    copy = fx_arena_alloc(r->arena, FX_MIN(end, r->text.n) - from + 1);
    if (!copy)
        return fx_nomem(r->err, r->name);
    memcpy(copy, r->text.p + from, n);
    for (int ch; (ch = peek(r)) != '"';) {
        if (ch < 0x20)
            return fault(r, ch < 0 ? "a string isn't closed" : "a control character within a string");
        r->i++;
        if (ch != '\\')
            copy[n++] = (char)ch;
        else
            FX_TRY(escape(r, copy, &n));
    }
    r->i++;
    *out = fx_str_n(copy, n);
    return FORNAX_OK;
}

static int by_text(const void *a, const void *b)
{
    return fx_str_cmp(*(const fx_str *)a, *(const fx_str *)b);
}

static fx_status check_names(reader *r, const fx_jv *o)
{
    fx_str *sorted = fx_mem_array(r->mem, o->n, sizeof(*sorted));
    fx_status st = FORNAX_OK;

    if (!sorted)
        return fx_nomem(r->err, r->name);
    memcpy(sorted, o->keys, o->n * sizeof(*sorted));
    qsort(sorted, o->n, sizeof(*sorted), by_text);
    for (uint32_t i = 1; i < o->n && st == FORNAX_OK; i++)
        if (fx_str_eq(sorted[i - 1], sorted[i]))
            st = fx_fail(r->err, FORNAX_EFORMAT, "%s: the name \"%.*s\" comes twice in one object", r->name,
                         (int)FX_MIN(sorted[i].n, 100u), sorted[i].p);
    fx_mem_free(r->mem, sorted, o->n * sizeof(*sorted));
    return st;
}

/* Moves what is above 'base' on the stack into the container. */
static fx_status close(reader *r, fx_jv *out, fx_jtype type, size_t base)
{
    size_t n = r->stack.n - base;

    out->type = type;
    out->n = (uint32_t)n;
    r->i++;
    if (!n)
        return FORNAX_OK;
    out->items = FX_ARENA_NEWN(r->arena, fx_jv, n);
    out->keys = type == FX_JOBJECT ? FX_ARENA_NEWN(r->arena, fx_str, n) : NULL;
    if (!out->items || (type == FX_JOBJECT && !out->keys))
        return fx_nomem(r->err, r->name);
    memcpy(out->items, r->stack.at + base, n * sizeof(fx_jv));
    if (out->keys)
        memcpy(out->keys, r->keys.at + base, n * sizeof(fx_str));
    for (uint32_t i = 0; i < n; i++) {
        out->items[i].at = i;
        for (uint32_t k = 0; k < out->items[i].n; k++)
            out->items[i].items[k].parent = &out->items[i];
    }
    r->stack.n = r->keys.n = base;
    return type == FX_JOBJECT ? check_names(r, out) : FORNAX_OK;
}

static fx_status value(reader *r, fx_jv *out, int depth);

static fx_status member(reader *r, fx_jtype type, int depth)
{
    fx_str key = { "", 0 };
    fx_jv v = { 0 };

    blanks(r);
    if (type == FX_JOBJECT) {
        if (peek(r) != '"')
            return fault(r, "a name in quotes was expected");
        FX_TRY(string(r, &key));
        blanks(r);
        if (peek(r) != ':')
            return fault(r, "':' was expected");
        r->i++;
        blanks(r);
    }
    FX_TRY(value(r, &v, depth + 1));
    if (!FX_VEC_PUSH(&r->stack, r->mem, v) || !FX_VEC_PUSH(&r->keys, r->mem, key))
        return fx_nomem(r->err, r->name);
    blanks(r);
    return FORNAX_OK;
}

static fx_status container(reader *r, fx_jv *out, int depth)
{
    fx_jtype type = peek(r) == '{' ? FX_JOBJECT : FX_JARRAY;
    int end = type == FX_JOBJECT ? '}' : ']';
    size_t base = r->stack.n;

    if (depth >= MAX_DEPTH)
        return fault(r, "nested too deeply: at most 256 levels");
    r->i++;
    blanks(r);
    if (peek(r) == end)
        return close(r, out, type, base);
    for (;;) {
        FX_TRY(member(r, type, depth));
        if (peek(r) == end)
            return close(r, out, type, base);
        if (peek(r) != ',')
            return fault(r, type == FX_JOBJECT ? "',' or '}' was expected" : "',' or ']' was expected");
        r->i++;
    }
}

static bool word(reader *r, const char *w)
{
    size_t n = strlen(w);

    if (r->text.n - r->i < n || memcmp(r->text.p + r->i, w, n) != 0)
        return false;
    r->i += n;
    return true;
}

static fx_status value(reader *r, fx_jv *out, int depth)
{
    switch (peek(r)) {
    case '{':
    case '[':
        return container(r, out, depth);
    case '"':
        out->type = FX_JSTRING;
        return string(r, &out->text);
    case 't':
    case 'f':
        out->type = FX_JBOOL;
        out->boolean = peek(r) == 't';
        return word(r, out->boolean ? "true" : "false") ? FORNAX_OK : fault(r, "a value was expected");
    case 'n':
        out->type = FX_JNULL;
        return word(r, "null") ? FORNAX_OK : fault(r, "a value was expected");
    default:
        return number(r, out);
    }
}

fx_status fx_jv_parse(fx_jv **out, fx_arena *a, const fx_mem *mem, fx_str text, const char *name, fx_error *err)
{
    reader r = { .arena = a, .mem = mem, .text = text, .name = name, .err = err };
    fx_jv *root = FX_ARENA_NEW(a, fx_jv);
    fx_status st;

    *out = NULL;
    if (!root)
        return fx_nomem(err, name);
    if (!fx_utf8_valid(text))
        return fx_fail(err, FORNAX_EFORMAT, "%s: the text isn't UTF-8", name);
    blanks(&r);
    st = value(&r, root, 0);
    if (st == FORNAX_OK) {
        blanks(&r);
        if (r.i < text.n)
            st = fault(&r, "text after the value");
    }
    for (uint32_t k = 0; k < root->n && st == FORNAX_OK; k++)
        root->items[k].parent = root;
    FX_VEC_FREE(&r.stack, mem);
    FX_VEC_FREE(&r.keys, mem);
    if (st == FORNAX_OK)
        *out = root;
    return st;
}

fx_jv *fx_jv_get(const fx_jv *object, fx_str key)
{
    if (object->type != FX_JOBJECT)
        return NULL;
    for (uint32_t i = 0; i < object->n; i++)
        if (fx_str_eq(object->keys[i], key))
            return &object->items[i];
    return NULL;
}

void fx_jv_pointer(fx_buf *out, const fx_jv *v)
{
    if (!v->parent) {
        fx_buf_putc(out, '#');
        return;
    }
    fx_jv_pointer(out, v->parent);
    fx_buf_putc(out, '/');
    if (v->parent->type != FX_JOBJECT) {
        fx_buf_printf(out, "%u", v->at);
        return;
    }
    fx_str key = v->parent->keys[v->at];
    for (size_t i = 0; i < key.n; i++) {
        if (key.p[i] == '~' || key.p[i] == '/')
            fx_buf_puts(out, key.p[i] == '~' ? "~0" : "~1");
        else
            fx_buf_putc(out, key.p[i]);
    }
}
