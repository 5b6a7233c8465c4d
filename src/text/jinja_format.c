/* jinja_format.c - "%s" % x, "{}".format(x) and strftime.
 *
 * Both styles of formatting end in put_field: a prefix (sign, "0x"), a body with
 * origins, and a field to pad it into.  Literal text keeps the origin of the
 * format string, what is filled in keeps its own. */
#include <math.h>
#include <stdio.h>

#include "text/jinja.h"

typedef struct field {
    uint32_t fill;
    char align;             /* '<' '>' '^' '=' */
    char sign;              /* '+', ' ' or 0 */
    bool alt, zero;
    char group;             /* ',' '_' or 0 */
    int64_t width, prec;    /* prec -1: not given */
    uint32_t type;          /* 0: not given */
} field;

static void put_fill(jj_buf *b, uint32_t rune, int64_t n)
{
    char text[4];
    jj_str fill = { .p = text, .n = fx_utf8_put(text, rune), .chars = 1 };

    if (n > 0)
        fx_jj_buf_pad(b, &fill, (size_t)n);
}

static void put_field(jj_buf *b, const field *f, const char *prefix, jj_str *body, bool data)
{
    int64_t pad = f->width - (int64_t)fx_jj_chars(body) - (int64_t)strlen(prefix), left = 0;

    if (pad < 0)
        pad = 0;
    if (f->align == '>')
        left = pad;
    else if (f->align == '^')
        left = pad / 2;
    if (f->align != '=')
        put_fill(b, f->fill, left);
    fx_jj_buf_z(b, prefix, data);
    if (f->align == '=')
        put_fill(b, f->fill, left = pad);
    fx_jj_buf_str(b, body);
    put_fill(b, f->fill, pad - left);
}

/* ---- numbers in a field ------------------------------------------------------------ */

static void group_digits(char *text, size_t *n, size_t cap, char sep, size_t each)
{
    char out[900];
    size_t digits = 0, k = 0, i = 0;

    while (digits < *n && ((text[digits] >= '0' && text[digits] <= '9') || (text[digits] | 0x20) >= 'a') &&
           text[digits] != 'e' && text[digits] != 'E')
        digits++;
    if (*n + *n / each + 1 > FX_MIN(cap, sizeof out))
        return;
    for (; i < *n; i++) {
        if (i && i < digits && (digits - i) % each == 0)
            out[k++] = sep;
        out[k++] = text[i];
    }
    memcpy(text, out, k);
    *n = k;
}

static const char *sign_of(bool minus, char sign)
{
    return minus ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

/* An integer in base 2, 8, 10 or 16 ("bodxX"), at least f->prec digits. */
static bool put_int(jj_run *r, jj_buf *b, const field *f, int64_t x, uint32_t type, bool data)
{
    static const char small[] = "0123456789abcdef", large[] = "0123456789ABCDEF";
    unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
    uint64_t v = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    char text[900], digits[72], prefix[4];
    size_t n = 0, k = 0;
    jj_str body = { 0 };

    do {
        digits[k++] = (type == 'X' ? large : small)[v % base];
        v /= base;
    } while (v);
    if (f->prec > 400)
        return fx_jj_fail(r, "a precision above 400 is not supported");
    for (int64_t i = (int64_t)k; i < f->prec; i++)
        text[n++] = '0';
    while (k)
        text[n++] = digits[--k];
    if (f->group)
        group_digits(text, &n, sizeof text, f->group, base == 10 ? 3 : 4);
    snprintf(prefix, sizeof prefix, "%s%s", sign_of(x < 0, f->sign),
             !f->alt || base == 10 ? "" : base == 2 ? "0b" : base == 8 ? "0o" : type == 'x' ? "0x" : "0X");
    body = (jj_str){ .p = text, .n = n, .chars = n, .data = data };
    put_field(b, f, prefix, &body, data);
    return true;
}

/* The float text of a format without a type letter but with a precision. */
static bool general(jj_buf *b, double x, int prec)
{
    char text[48];
    char *e;
    int64_t exp = 0;
    size_t n;

    if (prec > 17 || !isfinite(x) || x == 0)
        return false;
    prec = FX_MAX(prec, 1);
    n = (size_t)fx_format(text, sizeof text, "%.*e", prec - 1, x);
    e = strchr(text, 'e');
    if (!e || !fx_parse_i64(fx_str_of(e[1] == '+' ? e + 2 : e + 1), &exp))
        return false;
    if (exp < -4 || exp > prec - 2) {
        char tail[8];
        size_t m = (size_t)(e - text);

        snprintf(tail, sizeof tail, "%s", e);
        while (m > 1 && strchr(text, '.') && text[m - 1] == '0')
            m--;
        if (text[m - 1] == '.')
            m--;
        fx_jj_buf_add(b, text, m, false);
        fx_jj_buf_z(b, tail, false);
        return true;
    }
    n = (size_t)fx_format(text, sizeof text, "%.*f", (int)(prec - 1 - exp), x);
    while (n > 2 && text[n - 1] == '0' && text[n - 2] != '.')
        n--;
    fx_jj_buf_add(b, text, n, false);
    return true;
}

static bool put_float(jj_run *r, jj_buf *b, const field *f, double x, bool data)
{
    char conv = f->type == '%' ? 'f' : f->type == 'n' ? 'g' : (char)f->type, text[900];
    jj_buf num;
    jj_str *s;
    bool minus = signbit(x) && !isnan(x);
    size_t n;

    fx_jj_buf_init(&num, r);
    if (f->type == '%')
        x *= 100;
    x = fabs(x);
    if (!conv && f->prec < 0)
        fx_jj_buf_add(&num, text, fx_jj_float_repr(text, x), data);
    else if (conv || !general(&num, x, (int)FX_MIN(f->prec, 1000)))
        JJ_TRY(fx_jj_print_double(&num, x, conv ? conv : 'g', f->prec < 0 ? 6 : (int)FX_MIN(f->prec, 1000),
                                  f->alt, data));
    if (f->type == '%')
        fx_jj_buf_z(&num, "%", data);
    s = fx_jj_buf_take(r, &num);
    JJ_TRY(s);
    if (f->group && s->n < sizeof text / 2) {
        n = s->n;
        memcpy(text, s->p, n);
        group_digits(text, &n, sizeof text, f->group, 3);
        s = fx_jj_str(r, text, n, data);
        JJ_TRY(s);
    }
    put_field(b, f, sign_of(minus, f->sign), s, data);
    return true;
}

/* ---- printf style ---------------------------------------------------------------------- */

typedef struct percent {
    jj_run *r;
    jj_str *fmt;
    size_t i;
    jj_val arg;
    size_t used;            /* arguments taken */
    bool mapped;            /* a %(name) was used */
} percent;

static bool next_arg(percent *p, jj_val *out)
{
    if (p->arg.type == JJ_TUPLE) {
        if (p->used >= p->arg.u.l->n)
            return fx_jj_fail(p->r, "not enough arguments for format string");
        *out = p->arg.u.l->at[p->used++];
        return true;
    }
    if (p->used++)
        return fx_jj_fail(p->r, "not enough arguments for format string");
    *out = p->arg;
    return true;
}

static int peek(const percent *p)
{
    return p->i < p->fmt->n ? (unsigned char)p->fmt->p[p->i] : -1;
}

/* "(name)": the value under that key. */
static bool mapping_key(percent *p, jj_val *out)
{
    size_t start = ++p->i;
    int depth = 1, got;

    for (; p->i < p->fmt->n; p->i++) {
        depth += p->fmt->p[p->i] == '(' ? 1 : p->fmt->p[p->i] == ')' ? -1 : 0;
        if (!depth)
            break;
    }
    if (depth)
        return fx_jj_fail(p->r, "incomplete format key");
    if (p->arg.type != JJ_DICT)
        return fx_jj_fail(p->r, "format requires a mapping");
    got = fx_jj_dict_get(p->r, p->arg.u.d, fx_jj_sv(fx_jj_sub(p->r, p->fmt, start, p->i)), out, true);
    if (got == 0)
        fx_jj_fail(p->r, "no such key in the format's mapping: '%.*s'", (int)FX_MIN(p->i - start, 100),
                   p->fmt->p + start);
    p->i++;
    p->mapped = true;
    return got == 1;
}

/* Digits, or '*' for the next argument. */
static bool star_or_digits(percent *p, int64_t *out)
{
    jj_val v;

    *out = 0;
    if (peek(p) == '*') {
        p->i++;
        if (!next_arg(p, &v))
            return false;
        return fx_jj_is_int(v, out) || fx_jj_fail(p->r, "* wants int");
    }
    for (int c; (c = peek(p)) >= '0' && c <= '9'; p->i++)
        if (*out < INT32_MAX)
            *out = *out * 10 + (c - '0');
    return true;
}

static bool percent_field(percent *p, field *f)
{
    bool left = false;

    *f = (field){ .fill = ' ', .align = '>', .prec = -1 };
    for (;; p->i++) {
        int c = peek(p);

        if (c == '-') left = true;
        else if (c == '+') f->sign = '+';
        else if (c == ' ') f->sign = f->sign ? f->sign : ' ';
        else if (c == '#') f->alt = true;
        else if (c == '0') f->zero = true;
        else break;
    }
    JJ_TRY(star_or_digits(p, &f->width));
    if (f->width < 0) {
        left = true;
        f->width = -f->width;
    }
    if (peek(p) == '.') {
        p->i++;
        JJ_TRY(star_or_digits(p, &f->prec));
        f->prec = FX_MAX(f->prec, 0);
    }
    while (peek(p) == 'h' || peek(p) == 'l' || peek(p) == 'L')
        p->i++;
    if (peek(p) < 0)
        return fx_jj_fail(p->r, "incomplete format");
    f->type = fx_utf8_next(fx_jj_view(p->fmt), &p->i);
    if (left)
        f->align = '<';
    return true;
}

static jj_str *ascii_repr(jj_run *r, jj_val v)
{
    jj_str *s = fx_jj_repr(r, v);
    jj_walk w;
    jj_buf b;
    char text[12];

    if (!s || fx_jj_chars(s) == s->n)
        return s;
    fx_jj_buf_init(&b, r);
    for (w = fx_jj_walk(s); fx_jj_walk_next(&w);) {
        if (w.rune < 0x80)
            fx_jj_buf_rune(&b, w.rune, w.data);
        else {
            snprintf(text, sizeof text, w.rune < 0x100 ? "\\x%02x" : w.rune < 0x10000 ? "\\u%04x" : "\\U%08x", w.rune);
            fx_jj_buf_z(&b, text, w.data);
        }
    }
    return fx_jj_buf_take(r, &b);
}

static bool percent_text(percent *p, jj_buf *b, field *f, jj_val v)
{
    jj_run *r = p->r;
    int64_t i;
    jj_str *s;
    char text[4];

    if (f->type == 'c') {
        if (fx_jj_is_int(v, &i) && i >= 0 && i <= 0x10FFFF && (i < 0xD800 || i > 0xDFFF))
            s = fx_jj_str(r, text, fx_utf8_put(text, (uint32_t)i), v.data);
        else if (v.type == JJ_STR && fx_jj_chars(v.u.s) == 1)
            s = v.u.s;
        else
            return fx_jj_fail(r, "%%c requires int or char");
    } else {
        s = f->type == 's' ? fx_jj_to_str(r, v) : f->type == 'r' ? fx_jj_repr(r, v) : ascii_repr(r, v);
        if (s && f->type == 's' && p->fmt->markup)
            s = fx_jj_escape(r, s);
        if (s && f->prec >= 0)
            s = fx_jj_sub(r, s, 0, fx_jj_byte_of(s, (size_t)f->prec));
    }
    JJ_TRY(s);
    put_field(b, f, "", s, false);
    return true;
}

static bool percent_number(percent *p, jj_buf *b, field *f, jj_val v)
{
    bool whole = strchr("diuoxX", (int)f->type) != NULL, dec = strchr("diu", (int)f->type) != NULL;
    int64_t i;
    double x;

    if (f->zero && f->align == '>') {
        f->fill = '0';
        f->align = '=';
    }
    if (whole) {
        if (dec && v.type == JJ_FLOAT) {
            if (!(fabs(v.u.f) < 9.2e18))
                return fx_jj_fail(p->r, "%%d format: the number is too large or not finite");
            i = (int64_t)v.u.f;
        } else if (!fx_jj_is_int(v, &i)) {
            return v.type == JJ_UNDEF && dec ? fx_jj_undef_fail(p->r, v)
                 : fx_jj_fail(p->r, "%%%c format: %s is required, not %s", (char)f->type,
                              dec ? "a real number" : "an integer", fx_jj_type_name(v));
        }
        return put_int(p->r, b, f, i, f->type, v.data);
    }
    if (!fx_jj_is_num(v, &x))
        return v.type == JJ_UNDEF ? fx_jj_undef_fail(p->r, v)
                                  : fx_jj_fail(p->r, "must be real number, not %s", fx_jj_type_name(v));
    return put_float(p->r, b, f, x, v.data);
}

static bool percent_one(percent *p, jj_buf *b)
{
    jj_val v = { 0 };
    field f;

    if (peek(p) == '(')
        JJ_TRY(mapping_key(p, &v));
    JJ_TRY(percent_field(p, &f));
    if (f.type == '%') {
        fx_jj_buf_z(b, "%", false);
        return true;
    }
    if (f.type >= 0x80 || !strchr("diuoxXeEfFgGcrsa", (int)f.type))
        return fx_jj_fail(p->r, "unsupported format character '%c' (0x%x) at index %zu",
                          f.type < 0x7F && f.type > ' ' ? (char)f.type : '?', f.type, p->i - 1);
    if (v.type == JJ_MISSING)
        JJ_TRY(next_arg(p, &v));
    return strchr("crsa", (int)f.type) ? percent_text(p, b, &f, v) : percent_number(p, b, &f, v);
}

jj_str *fx_jj_percent(jj_run *r, jj_str *fmt, jj_val arg)
{
    percent p = { .r = r, .fmt = fmt, .arg = arg };
    bool lenient = arg.type == JJ_DICT || arg.type == JJ_LIST || arg.type == JJ_RANGE || arg.type == JJ_UNDEF;
    jj_buf b;
    jj_str *out;

    fx_jj_buf_init(&b, r);
    while (p.i < fmt->n && r->status == FORNAX_OK) {
        const char *at = memchr(fmt->p + p.i, '%', fmt->n - p.i);
        size_t to = at ? (size_t)(at - fmt->p) : fmt->n;

        fx_jj_buf_sub(&b, fmt, p.i, to);
        p.i = to + 1;
        if (at && !percent_one(&p, &b))
            return NULL;
    }
    if (arg.type == JJ_TUPLE ? p.used < arg.u.l->n && !p.mapped : !p.used && !lenient) {
        fx_jj_fail(r, "not all arguments converted during string formatting");
        return NULL;
    }
    out = fx_jj_buf_take(r, &b);
    if (out)
        out->markup = fmt->markup;
    return out;
}

/* ---- str.format --------------------------------------------------------------------------- */

typedef struct formatter {
    jj_run *r;
    const jj_args *args;
    const jj_dict *map;     /* format_map's, or NULL */
    int64_t next;           /* of automatic numbering; -1: explicit numbers were used */
} formatter;

static bool format_into(formatter *m, jj_buf *b, jj_str *fmt, int depth);

static bool named_value(formatter *m, fx_str name, jj_val *out)
{
    if (m->map && fx_jj_dict_getz(m->map, name, out))
        return true;
    for (size_t i = 0; !m->map && i < m->args->n_kw; i++) {
        if (fx_str_eq(fx_jj_view(m->args->kw[i].name), name)) {
            *out = m->args->kw[i].v;
            return true;
        }
    }
    return fx_jj_fail(m->r, "format: no argument named '%.*s'", (int)FX_MIN(name.n, 100), name.p);
}

/* The value that a field's name begins with: a number, nothing, or a keyword. */
static bool first_value(formatter *m, fx_str name, jj_val *out)
{
    int64_t i;

    if (!name.n) {
        if (m->next < 0)
            return fx_jj_fail(m->r, "cannot switch from manual field specification to automatic field numbering");
        i = m->next++;
    } else if (name.p[0] >= '0' && name.p[0] <= '9' && fx_parse_i64(name, &i)) {
        if (m->next > 0)
            return fx_jj_fail(m->r, "cannot switch from automatic field numbering to manual field specification");
        m->next = -1;
    } else {
        return named_value(m, name, out);
    }
    if (m->map || (uint64_t)i >= m->args->n)
        return fx_jj_fail(m->r, "Replacement index %lld out of range for positional args tuple", (long long)i);
    *out = m->args->pos[i];
    return true;
}

/* "name.attr[key]" */
static bool field_value(formatter *m, jj_str *fmt, size_t a, size_t e, jj_val *out)
{
    const char *p = fmt->p;
    size_t i = a;

    while (i < e && p[i] != '.' && p[i] != '[')
        i++;
    JJ_TRY(first_value(m, fx_str_n(p + a, i - a), out));
    while (i < e) {
        bool attr = p[i] == '.';
        size_t from = ++i;
        int64_t number;
        jj_str *name;

        while (i < e && (attr ? p[i] != '.' && p[i] != '[' : p[i] != ']'))
            i++;
        if ((!attr && i == e) || i == from)
            return fx_jj_fail(m->r, "malformed field name in format string");
        name = fx_jj_sub(m->r, fmt, from, i);
        JJ_TRY(name);
        if (attr)
            JJ_TRY(fx_jj_getattr(m->r, *out, name, out));
        else if (fx_parse_i64(fx_jj_view(name), &number) && number >= 0)
            JJ_TRY(fx_jj_getitem(m->r, *out, fx_jj_int(number), out));
        else
            JJ_TRY(fx_jj_getitem(m->r, *out, fx_jj_sv(name), out));
        i += !attr;
        if (!attr && i < e && p[i] != '.' && p[i] != '[')
            return fx_jj_fail(m->r, "Only '.' or '[' may follow ']' in format field specifier");
    }
    return true;
}

static bool spec_digits(fx_str s, size_t *i, int64_t *out)
{
    size_t from = *i;

    for (*out = 0; *i < s.n && s.p[*i] >= '0' && s.p[*i] <= '9'; ++*i)
        if (*out < INT32_MAX)
            *out = *out * 10 + (s.p[*i] - '0');
    return *i > from;
}

static bool is_align(const fx_str s, size_t i)
{
    return i < s.n && strchr("<>^=", s.p[i]) && s.p[i];
}

static bool parse_spec(jj_run *r, fx_str s, field *f)
{
    size_t i = 0, after = 0;

    *f = (field){ .fill = ' ', .prec = -1 };
    if (s.n) {
        uint32_t fill = fx_utf8_next(s, &after);

        if (is_align(s, after)) {
            f->fill = fill;
            f->align = s.p[after];
            i = after + 1;
        } else if (is_align(s, 0)) {
            f->align = s.p[i++];
        }
    }
    if (i < s.n && strchr("+- ", s.p[i]) && s.p[i])
        f->sign = s.p[i++];
    if (i < s.n && s.p[i] == '#')
        f->alt = s.p[i++] != 0;
    if (i < s.n && s.p[i] == '0' && !f->align) {
        f->zero = true;
        f->fill = '0';
        f->align = '=';
        i++;
    }
    spec_digits(s, &i, &f->width);
    if (i < s.n && (s.p[i] == ',' || s.p[i] == '_'))
        f->group = s.p[i++];
    if (i < s.n && s.p[i] == '.') {
        i++;
        if (!spec_digits(s, &i, &f->prec))
            return fx_jj_fail(r, "Format specifier missing precision");
    }
    if (i < s.n)
        f->type = fx_utf8_next(s, &i);
    if (i < s.n)
        return fx_jj_fail(r, "Invalid format specifier");
    if (f->group && f->zero && f->width)
        return fx_jj_fail(r, "zero padding together with digit grouping is not supported");
    return true;
}

static bool unknown_code(jj_run *r, const field *f, jj_val v)
{
    return fx_jj_fail(r, "Unknown format code '%c' for object of type '%s'",
                      f->type > ' ' && f->type < 0x7F ? (char)f->type : '?', fx_jj_type_name(v));
}

static bool format_str(jj_run *r, jj_buf *b, field *f, jj_val v)
{
    jj_str *s = v.u.s;

    if (f->type && f->type != 's')
        return unknown_code(r, f, v);
    if (f->sign)
        return fx_jj_fail(r, "Sign not allowed in string format specifier");
    if (f->align == '=' && !f->zero)
        return fx_jj_fail(r, "'=' alignment not allowed in string format specifier");
    if (f->group)
        return fx_jj_fail(r, "Cannot specify '%c' with 's'.", f->group);
    if (f->alt)
        return fx_jj_fail(r, "Alternate form (#) not allowed in string format specifier");
    if (!f->align || f->zero)
        f->align = '<';
    if (f->prec >= 0)
        s = fx_jj_sub(r, s, 0, fx_jj_byte_of(s, (size_t)f->prec));
    JJ_TRY(s);
    put_field(b, f, "", s, false);
    return true;
}

static bool format_int(jj_run *r, jj_buf *b, field *f, jj_val v, int64_t i)
{
    uint32_t type = f->type;
    char text[4];
    jj_str c;

    if (f->align == 0)
        f->align = '>';
    if (type && type < 0x80 && strchr("eEfFgG%", (int)type))
        return put_float(r, b, f, (double)i, v.data);
    if (type && (type >= 0x80 || !strchr("bcdoxXn", (int)type)))
        return unknown_code(r, f, v);
    if (f->prec >= 0)
        return fx_jj_fail(r, "Precision not allowed in integer format specifier");
    if (type == 'c') {
        if (i < 0 || i > 0x10FFFF || (i >= 0xD800 && i <= 0xDFFF))
            return fx_jj_fail(r, "%%c arg not in range(0x110000)");
        c = (jj_str){ .p = text, .n = fx_utf8_put(text, (uint32_t)i), .chars = 1, .data = v.data };
        put_field(b, f, "", &c, v.data);
        return true;
    }
    return put_int(r, b, f, i, type, v.data);
}

static bool format_value(jj_run *r, jj_buf *b, jj_val v, jj_str *spec)
{
    int64_t i;
    field f;

    if (!spec->n) {
        fx_jj_buf_value(b, v);
        return true;
    }
    if (v.type != JJ_STR && v.type != JJ_INT && v.type != JJ_BOOL && v.type != JJ_FLOAT)
        return fx_jj_fail(r, "unsupported format string passed to %s.__format__", fx_jj_type_name(v));
    JJ_TRY(parse_spec(r, fx_jj_view(spec), &f));
    if (v.type == JJ_STR)
        return format_str(r, b, &f, v);
    if (fx_jj_is_int(v, &i))
        return format_int(r, b, &f, v, i);
    if (f.type && (f.type >= 0x80 || !strchr("eEfFgG%n", (int)f.type)))
        return unknown_code(r, &f, v);
    if (!f.align)
        f.align = '>';
    return put_float(r, b, &f, v.u.f, v.data);
}

/* A replacement field, behind its '{'; *i ends behind its '}'. */
static bool format_field(formatter *m, jj_buf *b, jj_str *fmt, size_t *i, int depth)
{
    size_t a = *i, e, end, nest = 1;
    const char *p = fmt->p;
    jj_str *spec;
    jj_val v = { 0 };
    char conv = 0;
    jj_buf inner;

    for (end = a; end < fmt->n; end++) {
        nest += p[end] == '{' ? 1 : 0;
        if (p[end] == '}' && !--nest)
            break;
    }
    if (end >= fmt->n)
        return fx_jj_fail(m->r, a == fmt->n ? "Single '{' encountered in format string"
                                            : "expected '}' before end of string");
    *i = end + 1;
    for (e = a; e < end && p[e] != '!' && p[e] != ':'; e++)
        if (p[e] == '[')
            while (e + 1 < end && p[e] != ']')
                e++;
    JJ_TRY(field_value(m, fmt, a, e, &v));
    if (e < end && p[e] == '!') {
        conv = e + 1 < end ? p[e + 1] : 0;
        e += 2;
        if (!conv || (e < end && p[e] != ':'))
            return fx_jj_fail(m->r, "expected ':' after conversion specifier");
    }
    if (conv == 's' || conv == 'r' || conv == 'a')
        v = fx_jj_sv(conv == 's' ? fx_jj_to_str(m->r, v) : conv == 'r' ? fx_jj_repr(m->r, v) : ascii_repr(m->r, v));
    else if (conv)
        return fx_jj_fail(m->r, "Unknown conversion specifier '%c'", conv);
    JJ_TRY(fx_jj_given(v));
    fx_jj_buf_init(&inner, m->r);
    if (e < end) {
        jj_str *text = fx_jj_sub(m->r, fmt, e + 1, end);

        JJ_TRY(text && format_into(m, &inner, text, depth + 1));
    }
    spec = fx_jj_buf_take(m->r, &inner);
    JJ_TRY(spec);
    if (fmt->markup) {
        jj_buf raw;
        jj_str *s;

        fx_jj_buf_init(&raw, m->r);
        JJ_TRY(format_value(m->r, &raw, v, spec));
        s = v.type == JJ_STR && v.u.s->markup ? fx_jj_buf_take(m->r, &raw) : NULL;
        if (!s && (s = fx_jj_buf_take(m->r, &raw)) != NULL)
            s = fx_jj_escape(m->r, s);
        JJ_TRY(s);
        fx_jj_buf_str(b, s);
        return true;
    }
    return format_value(m->r, b, v, spec);
}

static bool format_into(formatter *m, jj_buf *b, jj_str *fmt, int depth)
{
    size_t i = 0;

    if (depth > 2)
        return fx_jj_fail(m->r, "Max string recursion exceeded");
    while (i < fmt->n) {
        size_t from = i;

        while (i < fmt->n && fmt->p[i] != '{' && fmt->p[i] != '}')
            i++;
        fx_jj_buf_sub(b, fmt, from, i);
        if (i == fmt->n)
            break;
        if (i + 1 < fmt->n && fmt->p[i + 1] == fmt->p[i]) {
            fx_jj_buf_sub(b, fmt, i, i + 1);
            i += 2;
        } else if (fmt->p[i] == '}') {
            return fx_jj_fail(m->r, "Single '}' encountered in format string");
        } else {
            i++;
            JJ_TRY(format_field(m, b, fmt, &i, depth));
        }
    }
    return m->r->status == FORNAX_OK;
}

jj_str *fx_jj_str_format(jj_run *r, jj_str *fmt, const jj_args *args, const jj_dict *map)
{
    formatter m = { .r = r, .args = args, .map = map };
    jj_buf b;
    jj_str *out;

    fx_jj_buf_init(&b, r);
    if (!format_into(&m, &b, fmt, 0))
        return NULL;
    out = fx_jj_buf_take(r, &b);
    if (out)
        out->markup = fmt->markup;
    return out;
}

/* ---- strftime ----------------------------------------------------------------------------- */

typedef struct when {
    int64_t seconds, year;
    int month, day, hour, minute, second, weekday, yearday;     /* month 1.., weekday 0 Sunday, yearday 0.. */
} when;

static bool is_leap(int64_t y)
{
    return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

static when civil(int64_t t)
{
    static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
    int64_t days = t / 86400 - (t % 86400 < 0), in_day = t - days * 86400;
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    when w = { .seconds = t };

    w.day = (int)(doy - (153 * mp + 2) / 5 + 1);
    w.month = (int)(mp < 10 ? mp + 3 : mp - 9);
    w.year = yoe + era * 400 + (w.month <= 2);
    w.hour = (int)(in_day / 3600);
    w.minute = (int)(in_day / 60 % 60);
    w.second = (int)(in_day % 60);
    w.weekday = (int)(((days + 4) % 7 + 7) % 7);
    w.yearday = before[w.month - 1] + w.day - 1 + (w.month > 2 && is_leap(w.year));
    return w;
}

/* ISO 8601: weeks begin on Monday, week 1 holds the year's first Thursday. */
static int iso_week(const when *w, int64_t *year)
{
    int monday0 = (w->weekday + 6) % 7, week = (w->yearday - monday0 + 10) / 7;
    int64_t y = w->year;

    if (week < 1) {
        int last_day = w->yearday + (is_leap(y - 1) ? 366 : 365);

        *year = y - 1;
        return (last_day - monday0 + 10) / 7;
    }
    if (week == 53 && w->yearday - monday0 + 3 >= (is_leap(y) ? 366 : 365)) {
        *year = y + 1;
        return 1;
    }
    *year = y;
    return week;
}

/* A numeric code: value, width and its usual padding; false: not numeric. */
static bool time_number(const when *w, char c, int64_t *v, int *width, char *pad)
{
    int64_t iso_year;
    int week = iso_week(w, &iso_year);

    *pad = '0';
    *width = 2;
    switch (c) {
    case 'd': *v = w->day; break;
    case 'e': *v = w->day; *pad = '_'; break;
    case 'm': *v = w->month; break;
    case 'y': *v = (w->year % 100 + 100) % 100; break;
    case 'Y': *v = w->year; *width = 1; break;
    case 'C': *v = w->year / 100; break;
    case 'G': *v = iso_year; *width = 1; break;
    case 'g': *v = (iso_year % 100 + 100) % 100; break;
    case 'H': *v = w->hour; break;
    case 'k': *v = w->hour; *pad = '_'; break;
    case 'I': *v = w->hour % 12 ? w->hour % 12 : 12; break;
    case 'l': *v = w->hour % 12 ? w->hour % 12 : 12; *pad = '_'; break;
    case 'M': *v = w->minute; break;
    case 'S': *v = w->second; break;
    case 'j': *v = w->yearday + 1; *width = 3; break;
    case 'f': *v = 0; *width = 6; break;
    case 'u': *v = w->weekday ? w->weekday : 7; *width = 1; break;
    case 'w': *v = w->weekday; *width = 1; break;
    case 'U': *v = (w->yearday + 7 - w->weekday) / 7; break;
    case 'W': *v = (w->yearday + 7 - (w->weekday + 6) % 7) / 7; break;
    case 'V': *v = week; break;
    case 's': *v = w->seconds; *width = 1; break;
    default: return false;
    }
    return true;
}

/* A code that stands for words or for other codes; NULL: neither. */
static const char *time_text(const when *w, char c)
{
    static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday" };
    static const char *const months[] = { "January", "February", "March", "April", "May", "June", "July", "August",
                                          "September", "October", "November", "December" };

    switch (c) {
    case 'A': case 'a': return days[w->weekday];
    case 'B': case 'b': case 'h': return months[w->month - 1];
    case 'p': return w->hour < 12 ? "AM" : "PM";
    case 'P': return w->hour < 12 ? "am" : "pm";
    case 'Z': case 'z': return "";          /* a time without a zone, as datetime.now() */
    case 'n': return "\n";
    case 't': return "\t";
    case '%': return "%";
    default: return NULL;
    }
}

static const char *time_codes(char c)
{
    switch (c) {
    case 'D': case 'x': return "%m/%d/%y";
    case 'F': return "%Y-%m-%d";
    case 'T': case 'X': return "%H:%M:%S";
    case 'R': return "%H:%M";
    case 'r': return "%I:%M:%S %p";
    case 'c': return "%a %b %e %H:%M:%S %Y";
    default: return NULL;
    }
}

static void put_time(jj_buf *b, const when *w, fx_str fmt, bool data)
{
    for (size_t i = 0; i < fmt.n; i++) {
        size_t start = i;
        char flag = 0, pad, text[32];
        const char *z;
        int64_t v;
        int width;

        if (fmt.p[i] != '%' || i + 1 >= fmt.n) {
            fx_jj_buf_add(b, fmt.p + i, 1, data);
            continue;
        }
        i++;
        while (i < fmt.n && (fmt.p[i] == '-' || fmt.p[i] == '_' || fmt.p[i] == '0' || fmt.p[i] == '^'))
            flag = fmt.p[i++];
        if (i >= fmt.n) {
            fx_jj_buf_add(b, fmt.p + start, fmt.n - start, data);
        } else if (time_number(w, fmt.p[i], &v, &width, &pad)) {
            if (flag == '-')
                width = 1;
            else if (flag == '_' || flag == '0')
                pad = flag;
            fx_jj_buf_add(b, text, (size_t)snprintf(text, sizeof text, pad == '_' ? "%*lld" : "%0*lld", width,
                                                    (long long)v), data);
        } else if ((z = time_text(w, fmt.p[i])) != NULL) {
            size_t n = strchr("abh", fmt.p[i]) ? 3 : strlen(z);

            for (size_t k = 0; k < n; k++)
                fx_jj_buf_rune(b, (uint32_t)(flag == '^' && z[k] >= 'a' && z[k] <= 'z' ? z[k] - 32 : z[k]), data);
        } else if ((z = time_codes(fmt.p[i])) != NULL) {
            put_time(b, w, fx_str_of(z), data);
        } else {
            fx_jj_buf_add(b, fmt.p + start, i + 1 - start, data);
        }
    }
}

jj_str *fx_jj_strftime(jj_run *r, jj_str *fmt, int64_t unix_seconds)
{
    when w = civil(unix_seconds);
    jj_buf b;

    fx_jj_buf_init(&b, r);
    put_time(&b, &w, fx_jj_view(fmt), fmt->data || fmt->n_flips > 0);
    return fx_jj_buf_take(r, &b);
}
