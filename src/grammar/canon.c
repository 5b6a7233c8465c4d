/* canon.c - JSON values in one spelling: equal values have equal text.
 *
 * A string is a quote and its decoded bytes (a number tells its length inside arrays and objects); a number is
 * its digits without needless zeros, 'e' and an exponent; an object has its members in order of names. */
#include "grammar/run.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/text.h"

#define DEPTH_MAX 500

typedef struct reader {
    fx_str s;
    size_t i;
} reader;

static int peek(const reader *r) { return r->i < r->s.n ? (unsigned char)r->s.p[r->i] : -1; }

static void blanks(reader *r)
{
    while (peek(r) >= 0 && strchr(" \t\r\n", peek(r)))
        r->i++;
}

static uint32_t hex4(const reader *r, size_t at)
{
    uint32_t x = 0;

    for (size_t k = at; k < at + 4; k++) {
        int c = k < r->s.n ? (unsigned char)r->s.p[k] : 0;

        x = x * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return x;
}

static bool escaped(fx_buf *out, reader *r)
{
    static const char letters[] = "btnfr\"/\\", runes[] = "\b\t\n\f\r\"/\\";
    const char *p = peek(r) > 0 ? strchr(letters, peek(r)) : NULL;
    char u[4];
    uint32_t x;

    if (p) {
        fx_buf_putc(out, runes[p - letters]);
        r->i++;
        return true;
    }
    if (peek(r) != 'u' || r->s.n - r->i < 5)
        return false;
    x = hex4(r, r->i + 1);
    r->i += 5;
    if (x >= 0xd800 && x < 0xdc00 && r->s.n - r->i >= 6) {
        x = 0x10000 + ((x - 0xd800) << 10) + (hex4(r, r->i + 2) - 0xdc00);
        r->i += 6;
    }
    if (x > 0x10ffff)
        return false;
    fx_buf_add(out, u, fx_utf8_put(u, x));
    return true;
}

/* The inside of a string whose opening quote is behind us, with its closing one. */
static bool string(fx_buf *out, reader *r)
{
    while (peek(r) >= 0 && peek(r) != '"') {
        if (peek(r) != '\\') {
            fx_buf_putc(out, r->s.p[r->i++]);
            continue;
        }
        r->i++;
        if (!escaped(out, r))
            return false;
    }
    r->i++;
    return r->i <= r->s.n;
}

/* "-12.50e3" is -125e2; every zero is 0e0. */
static bool number(fx_buf *out, reader *r)
{
    char digits[1024];
    size_t n = 0;
    bool minus = peek(r) == '-', point = false, any = false;
    long long exponent = 0;

    r->i += minus;
    for (; isdigit(peek(r)) || (peek(r) == '.' && !point); r->i++) {
        if (peek(r) == '.') {
            point = true;
            continue;
        }
        any = true;
        exponent -= point;
        if (n == sizeof(digits))
            return false;
        if (n || peek(r) != '0')
            digits[n++] = (char)peek(r);
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        long long x = 0;
        bool down;

        r->i++;
        down = peek(r) == '-';
        r->i += down || peek(r) == '+';
        for (; isdigit(peek(r)); r->i++)
            x = FX_MIN(x * 10 + (peek(r) - '0'), 1000000000000ll);
        exponent += down ? -x : x;
    }
    while (n && digits[n - 1] == '0') {
        n--;
        exponent++;
    }
    if (n == 0)
        fx_buf_puts(out, "0e0");
    else
        fx_buf_printf(out, "%s%.*se%lld", minus ? "-" : "", (int)n, digits, exponent);
    return any;
}

static bool value(fx_buf *out, reader *r, int depth, bool nested);

static bool word(fx_buf *out, reader *r)
{
    size_t from = r->i;

    while (isalpha(peek(r)))
        r->i++;
    fx_buf_add(out, r->s.p + from, r->i - from);
    return r->i > from;
}

static bool array(fx_buf *out, reader *r, int depth)
{
    fx_buf_putc(out, '[');
    r->i++;
    for (blanks(r); peek(r) != ']'; blanks(r)) {
        if (!value(out, r, depth, true))
            return false;
        fx_buf_putc(out, ',');
        blanks(r);
        if (peek(r) == ',')
            r->i++;
        else if (peek(r) != ']')
            return false;
    }
    r->i++;
    fx_buf_putc(out, ']');
    return true;
}

typedef struct member {
    const char *p;              /* the buffer */
    size_t at, end;             /* of the name and value in it */
} member;

static int by_text(const void *a, const void *b)
{
    const member *x = a, *y = b;

    return fx_str_cmp(fx_str_n(x->p + x->at, x->end - x->at), fx_str_n(y->p + y->at, y->end - y->at));
}

/* Members go to a buffer of their own, then in order to 'out'. */
static bool object(fx_buf *out, reader *r, int depth)
{
    FX_VEC(member) list = { 0 };
    fx_buf own;
    bool ok = true;

    fx_buf_init(&own, out->mem);
    r->i++;
    for (blanks(r); ok && peek(r) != '}'; blanks(r)) {
        member m = { NULL, own.n, 0 };

        ok = peek(r) == '"' && value(&own, r, depth, true);
        blanks(r);
        ok = ok && peek(r) == ':';
        r->i++;
        blanks(r);
        ok = ok && value(&own, r, depth, true);
        m.end = own.n;
        ok = ok && FX_VEC_PUSH(&list, out->mem, m);
        blanks(r);
        if (ok && peek(r) == ',')
            r->i++;
        else
            ok = ok && peek(r) == '}';
    }
    r->i++;
    for (size_t i = 0; i < list.n; i++)
        list.at[i].p = own.p;
    if (list.n)
        qsort(list.at, list.n, sizeof(*list.at), by_text);
    fx_buf_putc(out, '{');
    for (size_t i = 0; i < list.n; i++)
        fx_buf_add(out, own.p + list.at[i].at, list.at[i].end - list.at[i].at);
    fx_buf_putc(out, '}');
    ok = ok && !own.failed;
    FX_VEC_FREE(&list, out->mem);
    fx_buf_done(&own);
    return ok;
}

static bool value(fx_buf *out, reader *r, int depth, bool nested)
{
    int c = peek(r);

    if (depth > DEPTH_MAX)
        return false;
    if (c == '"') {
        fx_buf text;
        bool ok;

        r->i++;
        if (!nested) {
            fx_buf_putc(out, '"');
            return string(out, r);
        }
        fx_buf_init(&text, out->mem);
        ok = string(&text, r);
        fx_buf_printf(out, "\"%zu:", text.n);
        fx_buf_str(out, fx_buf_view(&text));
        ok = ok && !text.failed;
        fx_buf_done(&text);
        return ok;
    }
    if (c == '-' || isdigit(c))
        return number(out, r);
    if (c == '[')
        return array(out, r, depth + 1);
    return c == '{' ? object(out, r, depth + 1) : word(out, r);
}

bool fx_json_canon(fx_buf *out, fx_str json, int depth)
{
    reader r = { json, 0 };

    return value(out, &r, depth, false) && r.i == json.n && !out->failed;
}

/* Where the string that ends at 'end' (its closing quote is the byte before) begins. */
static size_t string_begin(fx_str s, size_t end)
{
    size_t i = end - 1;

    while (i-- > 0)
        if (s.p[i] == '"') {
            size_t k = i;

            while (k > 0 && s.p[k - 1] == '\\')
                k--;
            if ((i - k) % 2 == 0)
                return i;
        }
    return 0;
}

fx_str fx_json_last(fx_str s)
{
    size_t i = s.n;
    int depth = 0;

    if (s.n == 0)
        return s;
    do {
        char c = s.p[i - 1];

        if (c == '"')
            i = string_begin(s, i);
        else
            i--;
        depth += (c == '}' || c == ']') - (c == '{' || c == '[');
    } while (i > 0 && depth > 0);
    if (i > 0 && !strchr("\"]}", s.p[s.n - 1]))
        while (i > 0 && (isalnum((unsigned char)s.p[i - 1]) || strchr("+-.", s.p[i - 1])))
            i--;
    return fx_str_n(s.p + i, s.n - i);
}
