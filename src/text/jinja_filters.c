/* jinja_filters.c - filters on single values: text, numbers, JSON, HTML.
 *
 * Each is bool f(run, subject, bound arguments, all arguments, out), see jj_def;
 * a[i] is MISSING where an argument was left out.  Parameters and defaults are
 * Jinja's, but tojson, which is the one that chat templates get. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/jinja.h"

#define FILTER(name) \
    static bool name(jj_run *r, jj_val self, const jj_val *a, const jj_args *all, jj_val *out)
#define UNUSED2 (void)a, (void)all
#define UNUSED1 (void)all

static bool give_str(jj_str *s, jj_val *out)
{
    *out = fx_jj_sv(s);
    return s != NULL;
}

static bool flag(jj_val v, bool otherwise)
{
    return fx_jj_given(v) ? fx_jj_truth(v) : otherwise;
}

static bool int_or(jj_run *r, jj_val v, const char *what, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return !fx_jj_given(v) || fx_jj_arg_int(r, v, what, out);
}

/* Where Python would need a str: no conversion. */
static bool need_str(jj_run *r, jj_val v, const char *what, jj_str **out)
{
    if (v.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, v);
    return fx_jj_arg_str(r, v, what, out);
}

/* ---- text ---------------------------------------------------------------------- */

static bool with_case(jj_run *r, jj_val self, jj_case how, jj_val *out)
{
    jj_str *s = fx_jj_to_str(r, self);

    return s && give_str(fx_jj_str_case(r, s, how), out);
}

FILTER(f_upper) { UNUSED2; return with_case(r, self, JJ_UPPER, out); }
FILTER(f_lower) { UNUSED2; return with_case(r, self, JJ_LOWER, out); }

FILTER(f_capitalize)
{
    jj_str *s = fx_jj_to_str(r, self);

    UNUSED2;
    return s && give_str(fx_jj_str_capitalize(r, s), out);
}

static bool parts_title(uint32_t c)
{
    return fx_jj_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/* Jinja's own rule: words are what blanks, '-' and opening brackets part. */
FILTER(f_title)
{
    jj_str *s = fx_jj_to_str(r, self), *rest;
    bool more;
    jj_walk w;
    jj_buf b;

    UNUSED2;
    JJ_TRY(s);
    fx_jj_buf_init(&b, r);
    w = fx_jj_walk(s);
    for (more = fx_jj_walk_next(&w); more && r->status == FORNAX_OK;) {
        bool parts = parts_title(w.rune);
        size_t from = w.i, to = from;

        fx_jj_buf_case(&b, w.rune, JJ_UPPER, w.data);
        while ((more = fx_jj_walk_next(&w)) && parts_title(w.rune) == parts)
            to = w.i;
        JJ_TRY((rest = fx_jj_sub(r, s, from, to)) && (rest = fx_jj_str_case(r, rest, JJ_LOWER)));
        fx_jj_buf_str(&b, rest);
    }
    return give_str(fx_jj_buf_take(r, &b), out);
}

FILTER(f_trim)
{
    jj_str *s = fx_jj_to_str(r, self), *chars = NULL;

    UNUSED1;
    JJ_TRY(s);
    if (fx_jj_given(a[0]) && a[0].type != JJ_NONE)
        JJ_TRY(need_str(r, a[0], "trim", &chars));
    return give_str(fx_jj_str_strip(r, s, chars, 3), out);
}

FILTER(f_replace)
{
    jj_str *s = fx_jj_to_str(r, self), *old = fx_jj_to_str(r, a[0]), *with = fx_jj_to_str(r, a[1]);
    int64_t count = -1;

    UNUSED1;
    JJ_TRY(s && old && with);
    if (fx_jj_given(a[2]) && a[2].type != JJ_NONE)
        JJ_TRY(fx_jj_arg_int(r, a[2], "replace", &count));
    s = fx_jj_str_replace(r, s, old, with, count);
    if (s && s->markup && (s = fx_jj_sub(r, s, 0, s->n)) != NULL)
        s->markup = false;
    return give_str(s, out);
}

FILTER(f_string)
{
    UNUSED2;
    return give_str(fx_jj_to_str(r, self), out);
}

FILTER(f_center)
{
    jj_str *s = fx_jj_to_str(r, self);
    int64_t width;

    UNUSED1;
    JJ_TRY(s && int_or(r, a[0], "center", 80, &width));
    return give_str(fx_jj_str_center(r, s, width, fx_jj_strz(r, " ")), out);
}

FILTER(f_indent)
{
    bool first = flag(a[1], false), blank = flag(a[2], false);
    jj_str *s, *by, *nl = fx_jj_strz(r, "\n");
    jj_list *lines;
    int64_t width;
    jj_buf b;

    UNUSED1;
    if (self.type != JJ_STR && self.type != JJ_UNDEF)
        return fx_jj_fail(r, "unsupported operand type(s) for +=: '%s' and 'str'", fx_jj_type_name(self));
    JJ_TRY(nl && need_str(r, self, "indent", &s));
    if (fx_jj_given(a[0]) && a[0].type == JJ_STR) {
        by = a[0].u.s;
    } else {
        JJ_TRY(int_or(r, a[0], "indent", 4, &width));
        by = fx_jj_repeat(r, fx_jj_strz(r, " "), width);
    }
    JJ_TRY(by && (s = fx_jj_cat(r, s, nl)) && (lines = fx_jj_str_lines(r, s, false)));
    fx_jj_buf_init(&b, r);
    if (first)
        fx_jj_buf_str(&b, by);
    for (size_t i = 0; i < lines->n; i++) {
        if (i) {
            fx_jj_buf_str(&b, nl);
            if (blank || lines->at[i].u.s->n)
                fx_jj_buf_str(&b, by);
        }
        fx_jj_buf_str(&b, lines->at[i].u.s);
    }
    return give_str(fx_jj_buf_take(r, &b), out);
}

FILTER(f_truncate)
{
    int64_t length, leeway, n, keep;
    jj_str *s, *end = NULL, *cut;
    size_t at;

    UNUSED1;
    JJ_TRY(int_or(r, a[0], "truncate", 255, &length));
    leeway = 5;
    if (fx_jj_given(a[3]) && a[3].type != JJ_NONE)
        JJ_TRY(fx_jj_arg_int(r, a[3], "truncate", &leeway));
    if (fx_jj_given(a[2]))
        JJ_TRY(need_str(r, a[2], "truncate", &end));
    else
        JJ_TRY((end = fx_jj_strz(r, "...")));
    n = (int64_t)fx_jj_chars(end);
    if (length < n || leeway < 0)
        return fx_jj_fail(r, "truncate: expected length >= %lld and leeway >= 0, got %lld and %lld", (long long)n,
                          (long long)length, (long long)leeway);
    if (fx_jj_len(self) >= 0 && fx_jj_len(self) - length <= leeway) {   /* whatever it is */
        *out = self;
        return true;
    }
    JJ_TRY(need_str(r, self, "truncate", &s));
    keep = length - n;
    JJ_TRY((cut = fx_jj_sub(r, s, 0, fx_jj_byte_of(s, (size_t)keep))));
    if (!flag(a[1], false)) {
        for (at = cut->n; at && cut->p[at - 1] != ' ';)
            at--;
        if (at)
            cut = fx_jj_sub(r, cut, 0, at - 1);
    }
    return cut && give_str(fx_jj_cat(r, cut, end), out);
}

FILTER(f_wordcount)
{
    jj_str *s = fx_jj_to_str(r, self);
    bool in_word = false;
    int64_t n = 0;
    jj_walk w;

    UNUSED2;
    JJ_TRY(s && fx_jj_work(r, s->n / 16));
    for (w = fx_jj_walk(s); fx_jj_walk_next(&w);) {
        bool is = fx_jj_is_word(w.rune);

        n += is && !in_word;
        in_word = is;
    }
    *out = fx_jj_int(n);
    return true;
}

FILTER(f_format)
{
    jj_str *s = fx_jj_to_str(r, self);
    jj_val arg;

    (void)a;
    JJ_TRY(s);
    if (all->n && all->n_kw)
        return fx_jj_fail(r, "can't handle positional and keyword arguments at the same time");
    if (all->n_kw) {
        jj_dict *d = fx_jj_dict(r);

        JJ_TRY(d);
        for (size_t i = 0; i < all->n_kw; i++)
            JJ_TRY(fx_jj_dict_put(r, d, fx_jj_sv(all->kw[i].name), all->kw[i].v));
        arg = fx_jj_dv(d);
    } else {
        jj_list *l = fx_jj_list(r, 0);

        JJ_TRY(l);
        l->at = all->pos;
        l->n = l->cap = all->n;
        arg = (jj_val){ .type = JJ_TUPLE, .u.l = l };
    }
    return give_str(fx_jj_percent(r, s, arg), out);
}

/* ---- HTML, URLs ------------------------------------------------------------------- */

FILTER(f_safe)
{
    jj_str *s = fx_jj_to_str(r, self);

    UNUSED2;
    return s && give_str(fx_jj_markup(r, s), out);
}

FILTER(f_escape)
{
    jj_str *s = fx_jj_to_str(r, self);

    UNUSED2;
    return s && give_str(fx_jj_escape(r, s), out);
}

FILTER(f_forceescape)
{
    jj_str *s = fx_jj_to_str(r, self), *plain;

    UNUSED2;
    JJ_TRY(s && (plain = fx_jj_sub(r, s, 0, s->n)));
    plain->markup = false;
    return give_str(fx_jj_escape(r, plain), out);
}

static void url_quote(jj_buf *b, const jj_str *s, bool for_query)
{
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->p[i];
        bool plain = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 0x80) ||
                     (c && strchr("_.-~", c)) || (c == '/' && !for_query);
        char text[4];

        if (plain)
            snprintf(text, sizeof text, "%c", c);
        else if (c == ' ' && for_query)
            snprintf(text, sizeof text, "+");
        else
            snprintf(text, sizeof text, "%%%02X", c);
        fx_jj_buf_z(b, text, fx_jj_origin(s, i));
    }
}

FILTER(f_urlencode)
{
    jj_list *pairs;
    jj_buf b;

    UNUSED2;
    fx_jj_buf_init(&b, r);
    if (self.type == JJ_STR || !fx_jj_iterable(self)) {
        jj_str *s = fx_jj_to_str(r, self);

        JJ_TRY(s);
        url_quote(&b, s, false);
        return give_str(fx_jj_buf_take(r, &b), out);
    }
    if (self.type == JJ_DICT) {
        jj_view *v = fx_jj_alloc(r, sizeof *v);

        JJ_TRY(v);
        *v = (jj_view){ self, JJ_ITEMS };
        self = (jj_val){ .type = JJ_VIEW, .u.view = v };
    }
    JJ_TRY((pairs = fx_jj_collect(r, self)));
    for (size_t i = 0; i < pairs->n; i++) {
        jj_list *pair = fx_jj_collect(r, pairs->at[i]);
        jj_str *key, *value;

        JJ_TRY(pair);
        if (pair->n != 2)
            return fx_jj_fail(r, "urlencode: expected pairs of key and value");
        JJ_TRY((key = fx_jj_to_str(r, pair->at[0])) && (value = fx_jj_to_str(r, pair->at[1])));
        if (i)
            fx_jj_buf_z(&b, "&", false);
        url_quote(&b, key, true);
        fx_jj_buf_z(&b, "=", false);
        url_quote(&b, value, true);
    }
    return give_str(fx_jj_buf_take(r, &b), out);
}

/* Without the parts between 'open' and 'close'; an unclosed one stays. */
static jj_str *without(jj_run *r, jj_str *s, const char *open, const char *close)
{
    size_t at, end;
    jj_buf b;

    while ((at = fx_str_find(fx_jj_view(s), fx_str_of(open), 0)) != FX_STR_NONE) {
        size_t from = 0;

        fx_jj_buf_init(&b, r);
        while (at != FX_STR_NONE && (end = fx_str_find(fx_jj_view(s), fx_str_of(close), at)) != FX_STR_NONE) {
            fx_jj_buf_sub(&b, s, from, at);
            from = end + strlen(close);
            at = fx_str_find(fx_jj_view(s), fx_str_of(open), from);
        }
        if (!from)
            return s;
        fx_jj_buf_sub(&b, s, from, s->n);
        s = fx_jj_buf_take(r, &b);          /* what was removed may have left a new one */
        if (!s)
            return NULL;
    }
    return s;
}

static bool is_plain_word(fx_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] | 0x20) >= 'a' && (s.p[i] | 0x20) <= 'z') && (i == 0 || s.p[i] < '0' || s.p[i] > '9'))
            return false;
    return s.n > 1;
}

/* The entity at s[*i] ('&'): its rune; 0: none there. */
static uint32_t entity(jj_run *r, fx_str s, size_t *i)
{
    static const struct { const char *name; uint32_t rune; } known[] = {
        { "amp", '&' }, { "lt", '<' }, { "gt", '>' }, { "quot", '"' }, { "apos", '\'' }, { "nbsp", 0xA0 },
    };
    size_t end = *i + 1;
    uint32_t rune = 0;
    fx_str name;

    while (end < s.n && end - *i < 40 && s.p[end] != ';' && s.p[end] != '&' && (unsigned char)s.p[end] > ' ')
        end++;
    if (end >= s.n || s.p[end] != ';')
        return 0;
    name = fx_str_n(s.p + *i + 1, end - *i - 1);
    if (name.n > 1 && name.p[0] == '#') {
        bool hex = (name.p[1] | 0x20) == 'x', big;
        int64_t v;

        if (!fx_jj_parse_int(fx_str_n(name.p + 1 + hex, name.n - 1 - hex), hex ? 16 : 10, &v, &big) || v <= 0)
            return 0;
        rune = v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF) ? 0xFFFD : (uint32_t)v;
    }
    for (size_t k = 0; !rune && k < FX_COUNT(known); k++)
        if (fx_str_is(name, known[k].name))
            rune = known[k].rune;
    if (!rune && is_plain_word(name))
        fx_jj_fail(r, "striptags: the entity '&%.*s;' is not supported", FX_STR_ARG(name));
    *i = end + 1;
    return rune;
}

static jj_str *collapse_blanks(jj_run *r, jj_str *s)
{
    bool pending = false;
    jj_walk w;
    jj_buf b;

    fx_jj_buf_init(&b, r);
    for (w = fx_jj_walk(s); fx_jj_walk_next(&w);) {
        if (fx_jj_is_space(w.rune)) {
            pending = b.n > 0;
            continue;
        }
        if (pending)
            fx_jj_buf_z(&b, " ", w.data);
        pending = false;
        fx_jj_buf_rune(&b, w.rune, w.data);
    }
    return fx_jj_buf_take(r, &b);
}

FILTER(f_striptags)
{
    jj_str *s = fx_jj_to_str(r, self);
    size_t from = 0;
    jj_buf b;

    UNUSED2;
    JJ_TRY(s && (s = without(r, s, "<!--", "-->")) && (s = without(r, s, "<", ">")));
    JJ_TRY((s = collapse_blanks(r, s)));
    fx_jj_buf_init(&b, r);
    for (size_t i = 0; i < s->n;) {
        size_t at = i;
        uint32_t rune = s->p[i] == '&' ? entity(r, fx_jj_view(s), &i) : 0;

        if (!rune) {
            i = at + 1;
            continue;
        }
        fx_jj_buf_sub(&b, s, from, at);
        fx_jj_buf_rune(&b, rune, fx_jj_origin(s, at));
        from = i;
    }
    fx_jj_buf_sub(&b, s, from, s->n);
    return give_str(fx_jj_buf_take(r, &b), out);
}

FILTER(f_xmlattr)
{
    jj_buf b;

    UNUSED1;
    if (self.type != JJ_DICT)
        return fx_jj_fail(r, "xmlattr: expected a mapping, found '%s'", fx_jj_type_name(self));
    fx_jj_buf_init(&b, r);
    for (size_t i = 0; i < self.u.d->n; i++) {
        jj_val v = self.u.d->at[i].value;
        jj_str *key, *value;

        if (v.type == JJ_NONE || v.type == JJ_UNDEF)
            continue;
        JJ_TRY(need_str(r, self.u.d->at[i].key, "xmlattr", &key));
        for (size_t k = 0; k < key->n; k++)
            if (strchr(" \t\n\r\f\v/>=", key->p[k]))
                return fx_jj_fail(r, "Invalid character in attribute name: '%.*s'", (int)FX_MIN(key->n, 100), key->p);
        JJ_TRY((key = fx_jj_escape(r, key)) && (value = fx_jj_to_str(r, v)) && (value = fx_jj_escape(r, value)));
        if (b.n || flag(a[0], true))
            fx_jj_buf_z(&b, " ", false);
        fx_jj_buf_str(&b, key);
        fx_jj_buf_z(&b, "=\"", false);
        fx_jj_buf_str(&b, value);
        fx_jj_buf_z(&b, "\"", false);
    }
    return give_str(fx_jj_buf_take(r, &b), out);
}

/* ---- numbers -------------------------------------------------------------------------- */

FILTER(f_abs)
{
    UNUSED2;
    if (self.type == JJ_FLOAT) {
        *out = fx_jj_float(fabs(self.u.f));
        out->data = self.data;
        return true;
    }
    if (self.type != JJ_INT && self.type != JJ_BOOL)
        return fx_jj_fail(r, "bad operand type for abs(): '%s'", fx_jj_type_name(self));
    return fx_jj_negate(r, self, self.type == JJ_INT && self.u.i < 0, out);
}

/* int(float), the way Python truncates. */
static bool truncate_float(jj_run *r, double x, jj_val *out)
{
    if (!(fabs(x) < 9.2233720368547758e18))
        return fx_jj_fail(r, isinf(x) ? "cannot convert float infinity to integer"
                                      : "integers beyond 64 bits are not supported");
    *out = fx_jj_int((int64_t)x);
    return true;
}

FILTER(f_int)
{
    jj_val otherwise = fx_jj_given(a[0]) ? a[0] : fx_jj_int(0);
    int64_t base, i;
    double x;
    bool big;

    UNUSED1;
    JJ_TRY(int_or(r, a[1], "int", 10, &base));
    *out = otherwise;
    if (self.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, self);
    if (self.type == JJ_STR) {
        fx_str s = fx_jj_view(self.u.s);

        if (fx_jj_parse_int(s, base, &i, &big))
            *out = fx_jj_int(i);
        else if (big)
            return fx_jj_fail(r, "integers beyond 64 bits are not supported");
        else if (fx_jj_parse_float(s, &x) && isfinite(x))
            JJ_TRY(truncate_float(r, x, out));
        out->data = out->data || fx_jj_origin(self.u.s, 0);
    } else if (fx_jj_is_int(self, &i)) {
        *out = fx_jj_int(i);
        out->data = self.data;
    } else if (self.type == JJ_FLOAT && !isnan(self.u.f)) {
        JJ_TRY(truncate_float(r, self.u.f, out));
        out->data = self.data;
    }
    return true;
}

FILTER(f_float)
{
    double x;

    UNUSED1;
    *out = fx_jj_given(a[0]) ? a[0] : fx_jj_float(0);
    if (self.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, self);
    if (self.type == JJ_STR ? fx_jj_parse_float(fx_jj_view(self.u.s), &x) : fx_jj_is_num(self, &x)) {
        *out = fx_jj_float(x);
        out->data = self.type == JJ_STR ? fx_jj_origin(self.u.s, 0) : self.data;
    }
    return true;
}

FILTER(f_round)
{
    int64_t precision;
    jj_str *method = NULL;
    double x, unit;

    UNUSED1;
    JJ_TRY(int_or(r, a[0], "round", 0, &precision));
    if (fx_jj_given(a[1]))
        JJ_TRY(need_str(r, a[1], "round", &method));
    if (!method || fx_str_is(fx_jj_view(method), "common"))
        return fx_jj_round(r, self, precision, out);
    if (!fx_str_is(fx_jj_view(method), "ceil") && !fx_str_is(fx_jj_view(method), "floor"))
        return fx_jj_fail(r, "method must be common, ceil or floor");
    if (self.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, self);
    if (!fx_jj_is_num(self, &x))
        return fx_jj_fail(r, "must be real number, not %s", fx_jj_type_name(self));
    unit = pow(10.0, (double)precision);
    if (!isfinite(x * unit) || unit == 0)
        return fx_jj_fail(r, "round: the number can't be rounded to %lld places", (long long)precision);
    *out = fx_jj_float((fx_str_is(fx_jj_view(method), "ceil") ? ceil(x * unit) : floor(x * unit)) / unit);
    out->data = self.data;
    return true;
}

FILTER(f_filesizeformat)
{
    static const char *const dec[] = { "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB" };
    static const char *const bin[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB" };
    bool binary = flag(a[0], false), data = self.data;
    double x, base = binary ? 1024 : 1000, unit;
    char text[64];
    size_t i = 0;
    jj_buf b;

    UNUSED1;
    if (self.type == JJ_UNDEF)
        return fx_jj_undef_fail(r, self);
    if (self.type == JJ_STR ? !fx_jj_parse_float(fx_jj_view(self.u.s), &x) : !fx_jj_is_num(self, &x))
        return fx_jj_fail(r, "filesizeformat: expected a number, found '%s'", fx_jj_type_name(self));
    if (!isfinite(x))
        return fx_jj_fail(r, "filesizeformat: expected a finite number");
    if (x == 1)
        snprintf(text, sizeof text, "1 Byte");
    else if (x < base && fabs(x) < 1e18)
        snprintf(text, sizeof text, "%lld Bytes", (long long)x);
    else {
        for (unit = base * base; i < 7 && x >= unit; i++)
            unit *= base;
        fx_format(text, sizeof text, "%.1f %s", base * x / unit, (binary ? bin : dec)[i]);
    }
    fx_jj_buf_init(&b, r);
    fx_jj_buf_z(&b, text, data);
    return give_str(fx_jj_buf_take(r, &b), out);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static bool json_indent(jj_run *r, jj_val v, jj_json *how)
{
    int64_t n;

    how->pretty = true;
    if (v.type == JJ_STR) {
        how->indent = v.u.s;
        return true;
    }
    JJ_TRY(fx_jj_arg_int(r, v, "tojson: indent", &n));
    how->indent = fx_jj_repeat(r, fx_jj_strz(r, " "), n);
    return how->indent != NULL;
}

static bool json_separators(jj_run *r, jj_val v, jj_json *how)
{
    jj_list *l = fx_jj_collect(r, v);

    JJ_TRY(l);
    if (l->n != 2 || l->at[0].type != JJ_STR || l->at[1].type != JJ_STR)
        return fx_jj_fail(r, "tojson: separators: expected two strings");
    how->item_sep = l->at[0].u.s;
    how->key_sep = l->at[1].u.s;
    return true;
}

FILTER(f_tojson)
{
    jj_json how = { .ensure_ascii = flag(a[0], false), .sort_keys = flag(a[3], false) };
    jj_buf b;

    UNUSED1;
    if (fx_jj_given(a[1]) && a[1].type != JJ_NONE)
        JJ_TRY(json_indent(r, a[1], &how));
    how.item_sep = fx_jj_strz(r, how.pretty ? "," : ", ");
    how.key_sep = fx_jj_strz(r, ": ");
    JJ_TRY(how.item_sep && how.key_sep);
    if (fx_jj_given(a[2]) && a[2].type != JJ_NONE)
        JJ_TRY(json_separators(r, a[2], &how));
    fx_jj_buf_init(&b, r);
    return fx_jj_to_json(r, &b, self, &how) && give_str(fx_jj_buf_take(r, &b), out);
}

/* ---- the rest ------------------------------------------------------------------------------- */

FILTER(f_default)
{
    UNUSED1;
    *out = self;
    if (self.type == JJ_UNDEF || (flag(a[1], false) && !fx_jj_truth(self)))
        *out = fx_jj_given(a[0]) ? a[0] : fx_jj_sv(fx_jj_strz(r, ""));
    return fx_jj_given(*out);
}

/* Attributes only, never items. */
FILTER(f_attr)
{
    jj_str *name;
    jj_val v;

    UNUSED1;
    JJ_TRY(need_str(r, a[0], "attr", &name));
    if (self.type == JJ_DICT && !fx_jj_method(JJ_DICT, fx_jj_view(name)) &&
        !fx_jj_method_forbidden(JJ_DICT, fx_jj_view(name)) && !fx_str_starts(fx_jj_view(name), FX_STR("__"))) {
        return fx_jj_undef(r, fx_jj_obj_name(self), fx_jj_sv(name), out);
    }
    JJ_TRY(fx_jj_getattr(r, self, name, &v));
    *out = v;
    return true;
}

FILTER(f_refused)
{
    (void)self;
    (void)out;
    UNUSED2;
    return fx_jj_fail(r, "this filter is not supported in chat templates");
}

static const jj_def filters[] = {
    { "abs", f_abs, "" },
    { "attr", f_attr, "name" },
    { "capitalize", f_capitalize, "" },
    { "center", f_center, "width?" },
    { "d", f_default, "default_value? boolean?" },
    { "default", f_default, "default_value? boolean?" },
    { "e", f_escape, "" },
    { "escape", f_escape, "" },
    { "filesizeformat", f_filesizeformat, "binary?" },
    { "float", f_float, "default?" },
    { "forceescape", f_forceescape, "" },
    { "format", f_format, "*" },
    { "indent", f_indent, "width? first? blank?" },
    { "int", f_int, "default? base?" },
    { "lower", f_lower, "" },
    { "pprint", f_refused, "*" },
    { "random", f_refused, "*" },
    { "replace", f_replace, "old new count?" },
    { "round", f_round, "precision? method?" },
    { "safe", f_safe, "" },
    { "string", f_string, "" },
    { "striptags", f_striptags, "" },
    { "title", f_title, "" },
    { "tojson", f_tojson, "ensure_ascii? indent? separators? sort_keys?" },
    { "trim", f_trim, "chars?" },
    { "truncate", f_truncate, "length? killwords? end? leeway?" },
    { "upper", f_upper, "" },
    { "urlencode", f_urlencode, "" },
    { "urlize", f_refused, "*" },
    { "wordcount", f_wordcount, "" },
    { "wordwrap", f_refused, "*" },
    { "xmlattr", f_xmlattr, "autospace?" },
};

const jj_def *fx_jj_find(const jj_def *table, size_t n, fx_str name)
{
    for (size_t i = 0; i < n; i++)
        if (fx_str_is(name, table[i].name))
            return &table[i];
    return NULL;
}

const jj_def *fx_jj_filter(fx_str name)
{
    const jj_def *def = fx_jj_find(filters, FX_COUNT(filters), name);

    return def ? def : fx_jj_sequence_filter(name);
}
