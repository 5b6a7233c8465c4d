/* jinja_methods.c - methods of values, and the functions a chat template may call.
 *
 * Methods that would change their object are hidden, as in the immutable sandbox
 * that chat templates are written for: they read as undefined, and calling that
 * says why. */
#include <utf8proc.h>

#include "text/jinja.h"

#define METHOD(name) \
    static bool name(jj_run *r, jj_val self, const jj_val *a, const jj_args *all, jj_val *out)
#define UNUSED2 (void)a, (void)all
#define UNUSED1 (void)all

static bool give_str(jj_str *s, jj_val *out)
{
    *out = fx_jj_sv(s);
    return s != NULL;
}

/* A string of the subject's kind: markup stays markup. */
static bool give_like(jj_run *r, jj_str *s, const jj_str *like, jj_val *out)
{
    if (s && s->markup != like->markup && (s = fx_jj_sub(r, s, 0, s->n)) != NULL)
        s->markup = like->markup;
    return give_str(s, out);
}

static bool absent(jj_val v)
{
    return !fx_jj_given(v) || v.type == JJ_NONE;
}

static bool opt_str(jj_run *r, jj_val v, const char *what, jj_str **out)
{
    *out = NULL;
    return absent(v) || fx_jj_arg_str(r, v, what, out);
}

static bool opt_int(jj_run *r, jj_val v, const char *what, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    return absent(v) || fx_jj_arg_int(r, v, what, out);
}

/* ---- strings: case, stripping, padding ------------------------------------------------ */

METHOD(s_upper) { UNUSED2; return give_str(fx_jj_str_case(r, self.u.s, JJ_UPPER), out); }
METHOD(s_lower) { UNUSED2; return give_str(fx_jj_str_case(r, self.u.s, JJ_LOWER), out); }
METHOD(s_casefold) { UNUSED2; return give_str(fx_jj_str_case(r, self.u.s, JJ_FOLD), out); }
METHOD(s_title) { UNUSED2; return give_str(fx_jj_str_title(r, self.u.s), out); }
METHOD(s_capitalize) { UNUSED2; return give_str(fx_jj_str_capitalize(r, self.u.s), out); }

static utf8proc_category_t category(uint32_t c)
{
    return c <= 0x10FFFF ? utf8proc_category((utf8proc_int32_t)c) : UTF8PROC_CATEGORY_CN;
}

static bool is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
static bool is_title(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
static bool is_lower(uint32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

METHOD(s_swapcase)
{
    jj_walk w = fx_jj_walk(self.u.s);
    jj_buf b;

    UNUSED2;
    fx_jj_buf_init(&b, r);
    while (fx_jj_walk_next(&w)) {
        if (is_upper(w.rune) || is_lower(w.rune))
            fx_jj_buf_case(&b, w.rune, is_upper(w.rune) ? JJ_LOWER : JJ_UPPER, w.data);
        else
            fx_jj_buf_rune(&b, w.rune, w.data);
    }
    return give_like(r, fx_jj_buf_take(r, &b), self.u.s, out);
}

static bool strip(jj_run *r, jj_val self, jj_val chars, int sides, jj_val *out)
{
    jj_str *c;

    return opt_str(r, chars, "strip", &c) && give_str(fx_jj_str_strip(r, self.u.s, c, sides), out);
}

METHOD(s_strip) { UNUSED1; return strip(r, self, a[0], 3, out); }
METHOD(s_lstrip) { UNUSED1; return strip(r, self, a[0], 1, out); }
METHOD(s_rstrip) { UNUSED1; return strip(r, self, a[0], 2, out); }

static bool fill_char(jj_run *r, jj_val v, jj_str **fill)
{
    JJ_TRY((*fill = fx_jj_strz(r, " ")));
    if (!fx_jj_given(v))
        return true;
    JJ_TRY(fx_jj_arg_str(r, v, "fill character", fill));
    return fx_jj_chars(*fill) == 1 || fx_jj_fail(r, "The fill character must be exactly one character long");
}

METHOD(s_center)
{
    int64_t width;
    jj_str *fill;

    UNUSED1;
    JJ_TRY(fx_jj_arg_int(r, a[0], "center", &width) && fill_char(r, a[1], &fill));
    return give_str(fx_jj_str_center(r, self.u.s, width, fill), out);
}

static bool justify(jj_run *r, jj_val self, const jj_val *a, bool left, jj_val *out)
{
    int64_t width, pad;
    jj_str *fill;
    jj_buf b;

    JJ_TRY(fx_jj_arg_int(r, a[0], "width", &width) && fill_char(r, a[1], &fill));
    pad = width - (int64_t)fx_jj_chars(self.u.s);
    if (width < 0 || pad <= 0)
        return give_str(self.u.s, out);
    fx_jj_buf_init(&b, r);
    if (!left)
        fx_jj_buf_pad(&b, fill, (size_t)pad);
    fx_jj_buf_str(&b, self.u.s);
    if (left)
        fx_jj_buf_pad(&b, fill, (size_t)pad);
    return give_like(r, fx_jj_buf_take(r, &b), self.u.s, out);
}

METHOD(s_ljust) { UNUSED1; return justify(r, self, a, true, out); }
METHOD(s_rjust) { UNUSED1; return justify(r, self, a, false, out); }

METHOD(s_zfill)
{
    jj_str *s = self.u.s, *zero = fx_jj_strz(r, "0");
    size_t sign = s->n && (*s->p == '+' || *s->p == '-');
    int64_t width, pad;
    jj_buf b;

    UNUSED1;
    JJ_TRY(zero && fx_jj_arg_int(r, a[0], "zfill", &width));
    pad = width - (int64_t)fx_jj_chars(s);
    if (width < 0 || pad <= 0)
        return give_str(s, out);
    fx_jj_buf_init(&b, r);
    fx_jj_buf_sub(&b, s, 0, sign);
    fx_jj_buf_pad(&b, zero, (size_t)pad);
    fx_jj_buf_sub(&b, s, sign, s->n);
    return give_like(r, fx_jj_buf_take(r, &b), s, out);
}

METHOD(s_expandtabs)
{
    jj_walk w = fx_jj_walk(self.u.s);
    int64_t size, column = 0;
    jj_str *blank = fx_jj_strz(r, " ");
    jj_buf b;

    UNUSED1;
    JJ_TRY(blank && opt_int(r, a[0], "expandtabs", 8, &size));
    fx_jj_buf_init(&b, r);
    while (fx_jj_walk_next(&w)) {
        if (w.rune == '\t') {
            int64_t n = size > 0 ? size - column % size : 0;

            fx_jj_buf_pad(&b, blank, (size_t)n);
            column += n;
            continue;
        }
        column = w.rune == '\n' || w.rune == '\r' ? 0 : column + 1;
        fx_jj_buf_rune(&b, w.rune, w.data);
    }
    return give_like(r, fx_jj_buf_take(r, &b), self.u.s, out);
}

/* ---- strings: searching ------------------------------------------------------------------ */

/* The bytes [*from, *to) that optional start and end arguments select; false in
 * *some when start lies behind the end. */
static bool window(jj_run *r, jj_str *s, const jj_val *a, size_t *from, size_t *to, bool *some)
{
    int64_t n = (int64_t)fx_jj_chars(s), start, end;

    JJ_TRY(opt_int(r, a[0], "start", 0, &start) && opt_int(r, a[1], "end", n, &end));
    if (start < 0)
        start = start < -n ? 0 : start + n;
    if (end < 0)
        end = end < -n ? 0 : end + n;
    if (end > n)
        end = n;
    *some = start <= end;
    if (!*some)
        start = end = 0;
    *from = fx_jj_byte_of(s, (size_t)start);
    *to = fx_jj_byte_of(s, (size_t)end);
    return true;
}

static size_t find_last(fx_str hay, fx_str needle, size_t from)
{
    if (needle.n > hay.n)
        return FX_STR_NONE;
    for (size_t i = hay.n - needle.n + 1; i-- > from;)
        if (memcmp(hay.p + i, needle.p, needle.n) == 0)
            return i;
    return FX_STR_NONE;
}

/* The code point where the argument is found, or -1. */
static bool find(jj_run *r, jj_val self, const jj_val *a, bool last, int64_t *out)
{
    jj_str *s = self.u.s, *needle;
    size_t from, to, at;
    bool some;

    JJ_TRY(fx_jj_arg_str(r, a[0], "find", &needle) && window(r, s, a + 1, &from, &to, &some) &&
           fx_jj_work(r, s->n / (last ? 4 : 64)));
    *out = -1;
    if (!some)
        return true;
    at = last ? find_last(fx_str_n(s->p, to), fx_jj_view(needle), from)
              : fx_str_find(fx_str_n(s->p, to), fx_jj_view(needle), from);
    if (at != FX_STR_NONE)
        *out = (int64_t)fx_utf8_count(fx_str_n(s->p, at));
    return true;
}

static bool find_or(jj_run *r, jj_val self, const jj_val *a, bool last, bool must, jj_val *out)
{
    int64_t at;

    JJ_TRY(find(r, self, a, last, &at));
    if (at < 0 && must)
        return fx_jj_fail(r, "substring not found");
    *out = fx_jj_int(at);
    return true;
}

METHOD(s_find) { UNUSED1; return find_or(r, self, a, false, false, out); }
METHOD(s_rfind) { UNUSED1; return find_or(r, self, a, true, false, out); }
METHOD(s_index) { UNUSED1; return find_or(r, self, a, false, true, out); }
METHOD(s_rindex) { UNUSED1; return find_or(r, self, a, true, true, out); }

METHOD(s_count)
{
    jj_str *s = self.u.s, *needle;
    size_t from, to;
    int64_t n = 0;
    bool some;

    UNUSED1;
    JJ_TRY(fx_jj_arg_str(r, a[0], "count", &needle) && window(r, s, a + 1, &from, &to, &some) &&
           fx_jj_work(r, s->n / 64));
    if (some && !needle->n)
        n = (int64_t)fx_utf8_count(fx_str_n(s->p + from, to - from)) + 1;
    while (some && needle->n && (from = fx_str_find(fx_str_n(s->p, to), fx_jj_view(needle), from)) != FX_STR_NONE) {
        from += needle->n;
        n++;
    }
    *out = fx_jj_int(n);
    return true;
}

/* startswith and endswith: a string or a tuple of them, within a window. */
static bool affix(jj_run *r, jj_val self, const jj_val *a, bool at_end, jj_val *out)
{
    jj_str *s = self.u.s, *one;
    jj_list single = { .at = (jj_val *)(uintptr_t)a, .n = 1 };
    const jj_list *list = a[0].type == JJ_TUPLE ? a[0].u.l : &single;
    size_t from, to;
    bool some, hit = false;

    if (a[0].type != JJ_TUPLE && a[0].type != JJ_STR)
        return fx_jj_fail(r, "%s first arg must be str or a tuple of str, not %s", at_end ? "endswith" : "startswith",
                          fx_jj_type_name(a[0]));
    JJ_TRY(window(r, s, a + 1, &from, &to, &some));
    for (size_t i = 0; some && !hit && i < list->n; i++) {
        fx_str part = fx_str_n(s->p + from, to - from);

        JJ_TRY(fx_jj_arg_str(r, list->at[i], "tuple for startswith and endswith", &one));
        hit = at_end ? fx_str_ends(part, fx_jj_view(one)) : fx_str_starts(part, fx_jj_view(one));
    }
    *out = fx_jj_bool(hit);
    return true;
}

METHOD(s_startswith) { UNUSED1; return affix(r, self, a, false, out); }
METHOD(s_endswith) { UNUSED1; return affix(r, self, a, true, out); }

METHOD(s_removeprefix)
{
    jj_str *s = self.u.s, *x;

    UNUSED1;
    JJ_TRY(fx_jj_arg_str(r, a[0], "removeprefix", &x));
    return give_str(fx_str_starts(fx_jj_view(s), fx_jj_view(x)) ? fx_jj_sub(r, s, x->n, s->n) : s, out);
}

METHOD(s_removesuffix)
{
    jj_str *s = self.u.s, *x;

    UNUSED1;
    JJ_TRY(fx_jj_arg_str(r, a[0], "removesuffix", &x));
    return give_str(fx_str_ends(fx_jj_view(s), fx_jj_view(x)) ? fx_jj_sub(r, s, 0, s->n - x->n) : s, out);
}

METHOD(s_replace)
{
    jj_str *s = self.u.s, *old, *with;
    int64_t count;

    UNUSED1;
    JJ_TRY(fx_jj_arg_str(r, a[0], "replace", &old) && fx_jj_arg_str(r, a[1], "replace", &with) &&
           opt_int(r, a[2], "replace", -1, &count));
    if (s->markup)
        JJ_TRY((with = fx_jj_escape(r, with)));
    return give_like(r, fx_jj_str_replace(r, s, old, with, count), s, out);
}

/* ---- strings: splitting and joining -------------------------------------------------------- */

static bool push_sub(jj_run *r, jj_list *l, jj_str *s, size_t from, size_t to)
{
    return fx_jj_push(r, l, fx_jj_sv(fx_jj_sub(r, s, from, to)));
}

/* At runs of blanks, at most 'max' times from the left. */
static bool split_blanks(jj_run *r, jj_str *s, int64_t max, jj_list *l)
{
    fx_str v = fx_jj_view(s);
    size_t i = 0;

    for (;;) {
        size_t from, j;

        for (j = i; j < s->n && fx_jj_is_space(fx_utf8_next(v, &j));)
            i = j;
        if (i >= s->n)
            return true;
        if (max-- == 0)
            return push_sub(r, l, s, i, s->n);
        for (from = i, j = i; j < s->n && !fx_jj_is_space(fx_utf8_next(v, &j));)
            i = j;
        JJ_TRY(push_sub(r, l, s, from, i));
    }
}

static size_t rune_before(const jj_str *s, size_t at)
{
    do
        at--;
    while (at && ((unsigned char)s->p[at] & 0xC0) == 0x80);
    return at;
}

static bool space_before(const jj_str *s, size_t at)
{
    size_t i = rune_before(s, at);

    return fx_jj_is_space(fx_utf8_next(fx_jj_view(s), &i));
}

static void reverse(jj_list *l)
{
    for (size_t i = 0; i + i + 1 < l->n; i++) {
        jj_val t = l->at[i];

        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = t;
    }
}

static bool rsplit_blanks(jj_run *r, jj_str *s, int64_t max, jj_list *l)
{
    size_t end = s->n;

    for (;;) {
        size_t from;

        while (end && space_before(s, end))
            end = rune_before(s, end);
        if (!end)
            break;
        if (max-- == 0) {
            JJ_TRY(push_sub(r, l, s, 0, end));
            break;
        }
        for (from = end; from && !space_before(s, from);)
            from = rune_before(s, from);
        JJ_TRY(push_sub(r, l, s, from, end));
        end = from;
    }
    reverse(l);
    return true;
}

static bool split_at(jj_run *r, jj_str *s, jj_str *sep, int64_t max, jj_list *l)
{
    size_t i = 0, at;

    while (max-- != 0 && (at = fx_str_find(fx_jj_view(s), fx_jj_view(sep), i)) != FX_STR_NONE) {
        JJ_TRY(push_sub(r, l, s, i, at));
        i = at + sep->n;
    }
    return push_sub(r, l, s, i, s->n);
}

static bool rsplit_at(jj_run *r, jj_str *s, jj_str *sep, int64_t max, jj_list *l)
{
    size_t end = s->n, at;

    while (max-- != 0 && (at = find_last(fx_str_n(s->p, end), fx_jj_view(sep), 0)) != FX_STR_NONE) {
        JJ_TRY(push_sub(r, l, s, at + sep->n, end));
        end = at;
    }
    JJ_TRY(push_sub(r, l, s, 0, end));
    reverse(l);
    return true;
}

static bool split(jj_run *r, jj_val self, const jj_val *a, bool right, jj_val *out)
{
    jj_list *l = fx_jj_list(r, 0);
    jj_str *sep;
    int64_t max;

    JJ_TRY(l && opt_str(r, a[0], "split", &sep) && opt_int(r, a[1], "split", -1, &max) &&
           fx_jj_work(r, self.u.s->n / 16));
    if (sep && !sep->n)
        return fx_jj_fail(r, "empty separator");
    if (!sep)
        JJ_TRY(right ? rsplit_blanks(r, self.u.s, max, l) : split_blanks(r, self.u.s, max, l));
    else
        JJ_TRY(right ? rsplit_at(r, self.u.s, sep, max, l) : split_at(r, self.u.s, sep, max, l));
    *out = fx_jj_lv(l);
    return true;
}

METHOD(s_split) { UNUSED1; return split(r, self, a, false, out); }
METHOD(s_rsplit) { UNUSED1; return split(r, self, a, true, out); }

METHOD(s_splitlines)
{
    int64_t keep = 0;

    UNUSED1;
    if (fx_jj_given(a[0]))
        JJ_TRY(fx_jj_arg_int(r, a[0], "splitlines", &keep));
    *out = fx_jj_lv(fx_jj_str_lines(r, self.u.s, keep != 0));
    return fx_jj_given(*out);
}

static bool partition(jj_run *r, jj_val self, const jj_val *a, bool right, jj_val *out)
{
    jj_str *s = self.u.s, *sep;
    jj_list *l = fx_jj_list(r, 3);
    size_t at, end;

    JJ_TRY(l && fx_jj_arg_str(r, a[0], "partition", &sep) && fx_jj_work(r, s->n / 16));
    if (!sep->n)
        return fx_jj_fail(r, "empty separator");
    at = right ? find_last(fx_jj_view(s), fx_jj_view(sep), 0) : fx_str_find(fx_jj_view(s), fx_jj_view(sep), 0);
    end = at + sep->n;
    if (at == FX_STR_NONE)
        at = end = right ? 0 : s->n;
    JJ_TRY(push_sub(r, l, s, 0, at) && push_sub(r, l, s, at, end) && push_sub(r, l, s, end, s->n));
    *out = (jj_val){ .type = JJ_TUPLE, .u.l = l };
    return true;
}

METHOD(s_partition) { UNUSED1; return partition(r, self, a, false, out); }
METHOD(s_rpartition) { UNUSED1; return partition(r, self, a, true, out); }

METHOD(s_join)
{
    jj_list *items;
    jj_buf b;

    UNUSED1;
    if (!fx_jj_iterable(a[0]))
        return fx_jj_fail(r, "can only join an iterable");
    JJ_TRY((items = fx_jj_collect(r, a[0])));
    fx_jj_buf_init(&b, r);
    for (size_t i = 0; i < items->n; i++) {
        jj_str *s;

        if (items->at[i].type != JJ_STR && !self.u.s->markup)
            return fx_jj_fail(r, "sequence item %zu: expected str instance, %s found", i,
                              fx_jj_type_name(items->at[i]));
        JJ_TRY((s = fx_jj_to_str(r, items->at[i])));
        if (self.u.s->markup)
            JJ_TRY((s = fx_jj_escape(r, s)));
        if (i)
            fx_jj_buf_str(&b, self.u.s);
        fx_jj_buf_str(&b, s);
    }
    return give_like(r, fx_jj_buf_take(r, &b), self.u.s, out);
}

METHOD(s_format)
{
    (void)a;
    return give_str(fx_jj_str_format(r, self.u.s, all, NULL), out);
}

METHOD(s_format_map)
{
    if (a[0].type != JJ_DICT)
        return fx_jj_fail(r, "format_map: expected a mapping, found '%s'", fx_jj_type_name(a[0]));
    return give_str(fx_jj_str_format(r, self.u.s, all, a[0].u.d), out);
}

/* ---- strings: questions ---------------------------------------------------------------------- */

typedef bool (*rune_test)(uint32_t c);

static bool is_alpha(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM: case UTF8PROC_CATEGORY_LO:
        return true;
    default:
        return false;
    }
}

static bool is_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
static bool is_digit(uint32_t c)
{
    return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
           (c >= 0x2488 && c <= 0x2490) || (c >= 0x2776 && c <= 0x277E);
}
static bool is_numeric(uint32_t c)
{
    utf8proc_category_t k = category(c);

    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
static bool is_alnum(uint32_t c) { return is_alpha(c) || is_numeric(c); }

static bool all_runes(jj_val self, rune_test test, jj_val *out)
{
    jj_walk w = fx_jj_walk(self.u.s);
    bool holds = self.u.s->n > 0;

    while (holds && fx_jj_walk_next(&w))
        holds = test(w.rune);
    *out = fx_jj_bool(holds);
    return true;
}

#define ASK(name, test) METHOD(name) { (void)r; UNUSED2; return all_runes(self, test, out); }
ASK(s_isalpha, is_alpha)
ASK(s_isdecimal, is_decimal)
ASK(s_isdigit, is_digit)
ASK(s_isnumeric, is_numeric)
ASK(s_isalnum, is_alnum)
ASK(s_isspace, fx_jj_is_space)

static bool cased(jj_val self, rune_test good, rune_test bad, jj_val *out)
{
    jj_walk w = fx_jj_walk(self.u.s);
    bool seen = false, holds = true;

    while (holds && fx_jj_walk_next(&w)) {
        holds = !bad(w.rune) && !is_title(w.rune);
        seen = seen || good(w.rune);
    }
    *out = fx_jj_bool(holds && seen);
    return true;
}

METHOD(s_isupper) { (void)r; UNUSED2; return cased(self, is_upper, is_lower, out); }
METHOD(s_islower) { (void)r; UNUSED2; return cased(self, is_lower, is_upper, out); }

METHOD(s_istitle)
{
    jj_walk w = fx_jj_walk(self.u.s);
    bool in_word = false, seen = false, holds = true;

    (void)r;
    UNUSED2;
    while (holds && fx_jj_walk_next(&w)) {
        bool up = is_upper(w.rune) || is_title(w.rune), low = is_lower(w.rune);

        holds = up ? !in_word : !low || in_word;
        in_word = up || low;
        seen = seen || in_word;
    }
    *out = fx_jj_bool(holds && seen);
    return true;
}

METHOD(s_isascii)
{
    jj_str *s = self.u.s;

    (void)r;
    UNUSED2;
    *out = fx_jj_bool(fx_jj_chars(s) == s->n);
    return true;
}

METHOD(s_isidentifier)
{
    (void)r;
    UNUSED2;
    *out = fx_jj_bool(fx_jj_is_identifier(fx_jj_view(self.u.s)));
    return true;
}

/* ---- dicts ------------------------------------------------------------------------------------ */

static bool view(jj_run *r, jj_val self, jj_view_kind kind, jj_val *out)
{
    jj_view *v = fx_jj_alloc(r, sizeof *v);

    JJ_TRY(v);
    *v = (jj_view){ self, kind };
    *out = (jj_val){ .type = JJ_VIEW, .u.view = v };
    return true;
}

METHOD(d_keys) { UNUSED2; return view(r, self, JJ_KEYS, out); }
METHOD(d_values) { UNUSED2; return view(r, self, JJ_VALUES, out); }
METHOD(d_items) { UNUSED2; return view(r, self, JJ_ITEMS, out); }

METHOD(d_get)
{
    int got = fx_jj_dict_get(r, self.u.d, a[0], out, true);

    UNUSED1;
    if (got == 0)
        *out = fx_jj_given(a[1]) ? a[1] : fx_jj_none();
    return got >= 0;
}

METHOD(d_copy)
{
    jj_dict *d = fx_jj_dict(r);

    UNUSED2;
    JJ_TRY(d && fx_jj_work(r, self.u.d->n));
    for (size_t i = 0; i < self.u.d->n; i++)
        JJ_TRY(fx_jj_dict_put(r, d, self.u.d->at[i].key, self.u.d->at[i].value));
    *out = fx_jj_dv(d);
    out->data = self.data;
    return true;
}

/* dict.fromkeys(keys, value) */
METHOD(d_fromkeys)
{
    jj_dict *d = fx_jj_dict(r);
    jj_list *keys = fx_jj_collect(r, a[0]);

    (void)self;
    UNUSED1;
    JJ_TRY(d && keys);
    for (size_t i = 0; i < keys->n; i++)
        JJ_TRY(fx_jj_dict_put(r, d, keys->at[i], fx_jj_given(a[1]) ? a[1] : fx_jj_none()));
    *out = fx_jj_dv(d);
    return true;
}

/* ---- lists, tuples, ranges ---------------------------------------------------------------------- */

METHOD(l_count)
{
    jj_list *l = fx_jj_collect(r, self);
    int64_t n = 0;

    UNUSED1;
    JJ_TRY(l);
    for (size_t i = 0; i < l->n; i++) {
        int eq = fx_jj_eq(r, l->at[i], a[0]);

        if (eq < 0)
            return false;
        n += eq;
    }
    *out = fx_jj_int(n);
    return true;
}

METHOD(l_index)
{
    jj_list *l = fx_jj_collect(r, self);
    int64_t n, start, end;

    UNUSED1;
    JJ_TRY(l && opt_int(r, a[1], "index", 0, &start) && opt_int(r, a[2], "index", INT64_MAX, &end));
    n = (int64_t)l->n;
    start = start < 0 ? FX_MAX(start, -n) + n : start;
    end = end < 0 ? FX_MAX(end, -n) + n : FX_MIN(end, n);
    for (int64_t i = start; i < end; i++) {
        int eq = fx_jj_work(r, 1) ? fx_jj_eq(r, l->at[i], a[0]) : -1;

        if (eq < 0)
            return false;
        if (eq) {
            *out = fx_jj_int(i);
            return true;
        }
    }
    return fx_jj_fail(r, "the value is not in the %s", fx_jj_type_name(self));
}

METHOD(l_copy)
{
    UNUSED2;
    *out = fx_jj_lv(fx_jj_collect(r, self));
    out->data = self.data;
    return fx_jj_given(*out);
}

/* ---- loops, cyclers, numbers ---------------------------------------------------------------------- */

METHOD(loop_cycle)
{
    (void)a;
    if (!all->n || all->n_kw)
        return fx_jj_fail(r, "no items for cycling given");
    *out = all->pos[self.u.loop->index0 % (int64_t)all->n];
    return true;
}

METHOD(loop_changed)
{
    jj_list *now = fx_jj_list(r, all->n);
    jj_val v;
    int same = 0;

    (void)a;
    JJ_TRY(now);
    for (size_t i = 0; i < all->n; i++)
        JJ_TRY(fx_jj_push(r, now, all->pos[i]));
    v = (jj_val){ .type = JJ_TUPLE, .u.l = now };
    if (fx_jj_given(self.u.loop->changed))
        same = fx_jj_eq(r, self.u.loop->changed, v);
    self.u.loop->changed = v;
    *out = fx_jj_bool(!same);
    return same >= 0;
}

METHOD(cycler_next)
{
    jj_cycler *c = self.u.cycler;

    (void)r;
    UNUSED2;
    *out = c->items.at[c->pos];
    c->pos = (c->pos + 1) % c->items.n;
    return true;
}

METHOD(cycler_reset)
{
    (void)r;
    UNUSED2;
    self.u.cycler->pos = 0;
    *out = fx_jj_none();
    return true;
}

METHOD(n_is_integer)
{
    (void)r;
    UNUSED2;
    *out = fx_jj_bool(self.u.f - self.u.f == 0 && self.u.f == (self.u.f < 9e15 && self.u.f > -9e15
                                                                   ? (double)(int64_t)self.u.f : self.u.f));
    return true;
}

METHOD(n_bit_length)
{
    int64_t i = 0, n = 0;
    uint64_t v;

    (void)r;
    UNUSED2;
    fx_jj_is_int(self, &i);
    for (v = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; v; v >>= 1)
        n++;
    *out = fx_jj_int(n);
    return true;
}

METHOD(m_refused)
{
    (void)self;
    (void)out;
    UNUSED2;
    return fx_jj_fail(r, "this method is not supported in chat templates");
}

/* ---- the tables ---------------------------------------------------------------------------------- */

static const jj_def str_methods[] = {
    { "capitalize", s_capitalize, "/" }, { "casefold", s_casefold, "/" },
    { "center", s_center, "/width fillchar?" }, { "count", s_count, "/sub start? end?" },
    { "encode", m_refused, "*" }, { "endswith", s_endswith, "/suffix start? end?" },
    { "expandtabs", s_expandtabs, "tabsize?" }, { "find", s_find, "/sub start? end?" },
    { "format", s_format, "*" }, { "format_map", s_format_map, "/mapping" },
    { "index", s_index, "/sub start? end?" }, { "isalnum", s_isalnum, "/" },
    { "isalpha", s_isalpha, "/" }, { "isascii", s_isascii, "/" }, { "isdecimal", s_isdecimal, "/" },
    { "isdigit", s_isdigit, "/" }, { "isidentifier", s_isidentifier, "/" },
    { "islower", s_islower, "/" }, { "isnumeric", s_isnumeric, "/" }, { "isspace", s_isspace, "/" },
    { "istitle", s_istitle, "/" }, { "isupper", s_isupper, "/" }, { "join", s_join, "/iterable" },
    { "ljust", s_ljust, "/width fillchar?" }, { "lower", s_lower, "/" },
    { "lstrip", s_lstrip, "/chars?" }, { "maketrans", m_refused, "*" },
    { "partition", s_partition, "/sep" }, { "removeprefix", s_removeprefix, "/prefix" },
    { "removesuffix", s_removesuffix, "/suffix" }, { "replace", s_replace, "/old new count?" },
    { "rfind", s_rfind, "/sub start? end?" }, { "rindex", s_rindex, "/sub start? end?" },
    { "rjust", s_rjust, "/width fillchar?" }, { "rpartition", s_rpartition, "/sep" },
    { "rsplit", s_rsplit, "sep? maxsplit?" }, { "rstrip", s_rstrip, "/chars?" },
    { "split", s_split, "sep? maxsplit?" }, { "splitlines", s_splitlines, "keepends?" },
    { "startswith", s_startswith, "/prefix start? end?" }, { "strip", s_strip, "/chars?" },
    { "swapcase", s_swapcase, "/" }, { "title", s_title, "/" }, { "translate", m_refused, "*" },
    { "upper", s_upper, "/" }, { "zfill", s_zfill, "/width" },
};
static const jj_def dict_methods[] = {
    { "copy", d_copy, "/" }, { "fromkeys", d_fromkeys, "/iterable value?" }, { "get", d_get, "/key default?" },
    { "items", d_items, "/" }, { "keys", d_keys, "/" }, { "values", d_values, "/" },
};
static const jj_def list_methods[] = {
    { "copy", l_copy, "/" }, { "count", l_count, "/value" }, { "index", l_index, "/value start? stop?" },
};
static const jj_def tuple_methods[] = {
    { "count", l_count, "/value" }, { "index", l_index, "/value start? stop?" },
};
static const jj_def loop_methods[] = {
    { "changed", loop_changed, "*" }, { "cycle", loop_cycle, "*" },
};
static const jj_def cycler_methods[] = {
    { "next", cycler_next, "/" }, { "reset", cycler_reset, "/" },
};
static const jj_def int_methods[] = { { "bit_length", n_bit_length, "/" } };
static const jj_def float_methods[] = { { "is_integer", n_is_integer, "/" } };

const jj_def *fx_jj_method(jj_type type, fx_str name)
{
    switch (type) {
    case JJ_STR: return fx_jj_find(str_methods, FX_COUNT(str_methods), name);
    case JJ_DICT: return fx_jj_find(dict_methods, FX_COUNT(dict_methods), name);
    case JJ_LIST: return fx_jj_find(list_methods, FX_COUNT(list_methods), name);
    case JJ_TUPLE: case JJ_RANGE: return fx_jj_find(tuple_methods, FX_COUNT(tuple_methods), name);
    case JJ_LOOP: return fx_jj_find(loop_methods, FX_COUNT(loop_methods), name);
    case JJ_CYCLER: return fx_jj_find(cycler_methods, FX_COUNT(cycler_methods), name);
    case JJ_INT: case JJ_BOOL: return fx_jj_find(int_methods, FX_COUNT(int_methods), name);
    case JJ_FLOAT: return fx_jj_find(float_methods, FX_COUNT(float_methods), name);
    default: return NULL;
    }
}

bool fx_jj_method_forbidden(jj_type type, fx_str name)
{
    static const char *const dict[] = { "clear", "pop", "popitem", "setdefault", "update" };
    static const char *const list[] = { "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort" };

    for (size_t i = 0; type == JJ_DICT && i < FX_COUNT(dict); i++)
        if (fx_str_is(name, dict[i]))
            return true;
    for (size_t i = 0; type == JJ_LIST && i < FX_COUNT(list); i++)
        if (fx_str_is(name, list[i]))
            return true;
    return false;
}
