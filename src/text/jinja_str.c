/* jinja_str.c - strings that know which of their bytes are data.
 *
 * A jj_str is a view: bytes, and the offsets where the origin flips.  A
 * substring shares both arrays: 'base' says what its first byte is called in
 * them.  So slicing, stripping and splitting copy nothing.
 *
 * A jj_buf is the growing text behind every operation that makes bytes.  A
 * string taken from a buffer remembers it: as long as the string still ends
 * where the buffer ends, "s ~ more" appends in place, so that building a text
 * piece by piece (the habit of chat templates) costs linear time.  When the
 * buffer moves, older strings keep the old bytes, which the arena still holds. */
#include <stdarg.h>
#include <stdio.h>
#include <utf8proc.h>

#include "text/jinja.h"
#include "text/jinja_case.h"

/* ---- making and cutting ------------------------------------------------------ */

jj_str *fx_jj_str(jj_run *r, const char *p, size_t n, bool data)
{
    jj_str *s = fx_jj_alloc(r, sizeof *s);

    if (!s)
        return NULL;
    s->p = n ? p : "";
    s->n = n;
    s->chars = n ? JJ_UNKNOWN : 0;
    s->data = data;
    return s;
}

jj_str *fx_jj_strz(jj_run *r, const char *z)
{
    return fx_jj_str(r, z, strlen(z), false);
}

jj_str *fx_jj_strf(jj_run *r, const char *fmt, ...)
{
    char text[512];
    jj_buf b;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fx_jj_buf_init(&b, r);
    fx_jj_buf_add(&b, text, FX_MIN((size_t)FX_MAX(n, 0), sizeof text - 1), false);
    return fx_jj_buf_take(r, &b);
}

jj_val fx_jj_sv(jj_str *s)
{
    return s ? (jj_val){ .type = JJ_STR, .u.s = s } : (jj_val){ 0 };
}

/* How many flips lie at or before 'at' (a byte offset within s). */
static size_t flips_before(const jj_str *s, size_t at)
{
    size_t lo = 0, hi = s->n_flips;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (s->flips[mid] <= s->base + at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool fx_jj_origin(const jj_str *s, size_t at)
{
    return s->data ^ (s->n_flips ? flips_before(s, at) & 1 : 0);
}

jj_str *fx_jj_sub(jj_run *r, const jj_str *s, size_t a, size_t b)
{
    jj_str *out = fx_jj_alloc(r, sizeof *out);

    if (!out)
        return NULL;
    *out = *s;
    if (a == 0 && b == s->n)
        return out;
    if (a >= b) {
        *out = (jj_str){ .p = "", .markup = s->markup };
        return out;
    }
    out->p = s->p + a;
    out->n = b - a;
    out->base = s->base + a;
    out->chars = s->chars == s->n ? out->n : JJ_UNKNOWN;
    if (s->n_flips) {
        size_t before = flips_before(s, a), last = flips_before(s, b - 1);

        out->data = s->data ^ (before & 1);
        out->flips = s->flips + before;
        out->n_flips = last - before;
    }
    return out;
}

size_t fx_jj_chars(jj_str *s)
{
    if (s->chars == JJ_UNKNOWN)
        s->chars = fx_utf8_count(fx_jj_view(s));
    return s->chars;
}

size_t fx_jj_byte_of(jj_str *s, size_t chars)
{
    size_t i = 0;

    if (chars >= fx_jj_chars(s))
        return s->n;
    if (s->chars == s->n)
        return chars;
    for (; chars; chars--)
        for (i++; i < s->n && ((unsigned char)s->p[i] & 0xC0) == 0x80;)
            i++;
    return i;
}

/* ---- the growing buffer --------------------------------------------------------- */

void fx_jj_buf_init(jj_buf *b, jj_run *r)
{
    *b = (jj_buf){ .run = r };
}

static bool buf_room(jj_buf *b, size_t more)
{
    size_t cap;
    char *p;

    if (b->run->status != FORNAX_OK)
        return false;
    if (!b->run->capturing && b == b->run->out && more > b->run->max_output - FX_MIN(b->n, b->run->max_output))
        return fx_jj_fail(b->run, "the rendered text exceeds the limit of %zu bytes", b->run->max_output);
    if (b->cap - b->n >= more)
        return true;
    if (more > SIZE_MAX / 4)
        return fx_jj_nomem(b->run);
    cap = FX_MAX((b->n + more) + (b->n + more) / 2, (size_t)48);
    p = fx_jj_alloc(b->run, cap);
    if (!p)
        return false;
    if (b->n)
        memcpy(p, b->p, b->n);
    b->p = p;
    b->cap = cap;
    return true;
}

static bool buf_flip(jj_buf *b, size_t at)
{
    if (b->n_flips == b->cap_flips) {
        size_t cap = b->cap_flips ? b->cap_flips * 2 : 8;
        size_t *flips = fx_jj_alloc(b->run, cap * sizeof *flips);

        if (!flips)
            return false;
        if (b->n_flips)
            memcpy(flips, b->flips, b->n_flips * sizeof *flips);
        b->flips = flips;
        b->cap_flips = cap;
    }
    b->flips[b->n_flips++] = at;
    return true;
}

/* The next byte will be of this origin. */
static bool buf_origin(jj_buf *b, bool data)
{
    if (b->n == 0)
        b->first = b->last = data;
    if (b->last != data && !buf_flip(b, b->n))
        return false;
    b->last = data;
    return true;
}

void fx_jj_buf_add(jj_buf *b, const char *p, size_t n, bool data)
{
    if (!n || !buf_room(b, n) || !buf_origin(b, data))
        return;
    memcpy(b->p + b->n, p, n);
    b->n += n;
    fx_jj_work(b->run, n / 64);
}

void fx_jj_buf_z(jj_buf *b, const char *z, bool data)
{
    fx_jj_buf_add(b, z, strlen(z), data);
}

void fx_jj_buf_rune(jj_buf *b, uint32_t rune, bool data)
{
    char text[4];

    if (rune == FX_BAD_RUNE)
        rune = 0xFFFD;
    fx_jj_buf_add(b, text, fx_utf8_put(text, rune), data);
}

void fx_jj_buf_sub(jj_buf *b, const jj_str *s, size_t a, size_t e)
{
    size_t k = s->n_flips ? flips_before(s, a) : 0;
    bool data = s->data ^ (k & 1);

    if (a >= e || !buf_room(b, e - a))
        return;
    while (a < e) {
        size_t end = k < s->n_flips ? FX_MIN(s->flips[k] - s->base, e) : e;

        fx_jj_buf_add(b, s->p + a, end - a, data);
        if (b->run->status != FORNAX_OK)
            return;
        a = end;
        data = !data;
        k++;
    }
}

void fx_jj_buf_str(jj_buf *b, const jj_str *s)
{
    fx_jj_buf_sub(b, s, 0, s->n);
}

void fx_jj_buf_pad(jj_buf *b, const jj_str *fill, size_t n)
{
    if (!fill->n || !buf_room(b, n > b->run->max_bytes ? b->run->max_bytes : n * fill->n))
        return;
    for (; n && b->run->status == FORNAX_OK; n--)
        fx_jj_buf_str(b, fill);
}

/* The string of b's bytes from 'start' on. */
static jj_str *buf_tail(jj_run *r, jj_buf *b, size_t start, bool first, size_t n_flips_before)
{
    jj_str *s = fx_jj_str(r, b->p + start, b->n - start, first);

    if (!s)
        return NULL;
    s->base = start;
    s->n_flips = b->n_flips - n_flips_before;
    s->flips = s->n_flips ? b->flips + n_flips_before : NULL;
    s->buf = b;
    return s;
}

jj_str *fx_jj_buf_take(jj_run *r, jj_buf *b)
{
    jj_buf *kept;

    if (r->status != FORNAX_OK)
        return NULL;
    if (!b->n)
        return fx_jj_str(r, "", 0, false);
    kept = fx_jj_alloc(r, sizeof *kept);
    if (!kept)
        return NULL;
    *kept = *b;
    fx_jj_buf_init(b, r);       /* two owners of one tail would write over each other */
    return buf_tail(r, kept, 0, kept->first, 0);
}

static bool can_append(const jj_str *s)
{
    const jj_buf *b = s->buf;

    return b && s->p + s->n == b->p + b->n && s->p >= b->p;
}

jj_str *fx_jj_cat(jj_run *r, jj_str *a, jj_str *b)
{
    jj_str *out;

    if (!b->n && a->markup == b->markup)
        return a;
    if (!a->n)
        return b;
    if (can_append(a)) {
        size_t start = (size_t)(a->p - a->buf->p), skipped = a->buf->n_flips - a->n_flips;

        fx_jj_buf_str(a->buf, b);
        if (r->status != FORNAX_OK)
            return NULL;
        out = buf_tail(r, a->buf, start, a->data, skipped);
    } else {
        jj_buf fresh;

        fx_jj_buf_init(&fresh, r);
        fx_jj_buf_str(&fresh, a);
        fx_jj_buf_str(&fresh, b);
        out = fx_jj_buf_take(r, &fresh);
    }
    if (out)
        out->markup = a->markup || b->markup;
    return out;
}

jj_str *fx_jj_repeat(jj_run *r, jj_str *s, int64_t n)
{
    jj_buf b;
    jj_str *out;

    fx_jj_buf_init(&b, r);
    if (n > 0 && s->n && (uint64_t)n > r->max_bytes / s->n) {
        fx_jj_fail(r, "a repeated string exceeds the memory limit");
        return NULL;
    }
    if (n > 0)
        fx_jj_buf_pad(&b, s, (size_t)n);
    out = fx_jj_buf_take(r, &b);
    if (out)
        out->markup = s->markup;
    return out;
}

jj_str *fx_jj_slice_chars(jj_run *r, jj_str *s, int64_t start, int64_t step, int64_t n)
{
    size_t *offset;
    jj_buf b;
    jj_str *out;

    if (n <= 0)
        return fx_jj_sub(r, s, 0, 0);
    if (step == 1)
        return fx_jj_sub(r, s, fx_jj_byte_of(s, (size_t)start), fx_jj_byte_of(s, (size_t)(start + n)));
    offset = NULL;
    if (fx_jj_chars(s) != s->n) {
        size_t k = 0;

        offset = fx_jj_alloc(r, (s->chars + 1) * sizeof *offset);
        if (!offset)
            return NULL;
        for (size_t i = 0; i < s->n;) {
            offset[k++] = i;
            fx_utf8_next(fx_jj_view(s), &i);
        }
        offset[k] = s->n;
    }
    fx_jj_buf_init(&b, r);
    for (; n && r->status == FORNAX_OK; n--, start += step) {
        size_t a = offset ? offset[start] : (size_t)start;

        fx_jj_buf_sub(&b, s, a, offset ? offset[start + 1] : a + 1);
    }
    out = fx_jj_buf_take(r, &b);
    if (out)
        out->markup = s->markup;
    return out;
}

/* ---- walking ---------------------------------------------------------------------- */

jj_walk fx_jj_walk(const jj_str *s)
{
    return (jj_walk){ .s = s };
}

bool fx_jj_walk_next(jj_walk *w)
{
    if (w->i >= w->s->n)
        return false;
    while (w->flip < w->s->n_flips && w->s->flips[w->flip] <= w->s->base + w->i)
        w->flip++;
    w->data = w->s->data ^ (w->flip & 1);
    if ((unsigned char)w->s->p[w->i] < 0x80)
        w->rune = (unsigned char)w->s->p[w->i++];
    else
        w->rune = fx_utf8_next(fx_jj_view(w->s), &w->i);
    return true;
}

/* ---- characters --------------------------------------------------------------------- */

bool fx_jj_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

static utf8proc_category_t category(uint32_t c)
{
    return c <= 0x10FFFF ? utf8proc_category((utf8proc_int32_t)c) : UTF8PROC_CATEGORY_CN;
}

bool fx_jj_is_word(uint32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM: case UTF8PROC_CATEGORY_LO: case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC: case UTF8PROC_CATEGORY_ND: case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return false;
    }
}

bool fx_jj_is_identifier(fx_str s)
{
    size_t i = 0;

    while (i < s.n) {
        bool first = i == 0;
        uint32_t c = fx_utf8_next(s, &i);
        utf8proc_category_t k = category(c);

        if (!fx_jj_is_word(c) || k == UTF8PROC_CATEGORY_NO)
            return false;
        if (first && c != '_' &&
            (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC ||
             k == UTF8PROC_CATEGORY_PC))
            return false;
    }
    return s.n > 0;
}

static bool is_cased(uint32_t c)
{
    utf8proc_category_t k = category(c);

    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
           c == 0xAA || c == 0xBA;
}

static bool is_case_ignorable(uint32_t c)
{
    utf8proc_category_t k = category(c);

    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' ||
           c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2027;
}

/* The special upper or title case of c, 0-terminated in 3 places; NULL: it has none. */
static const uint16_t *special_case(uint32_t c, jj_case how)
{
    size_t lo = 0, hi = FX_COUNT(jj_special_case);

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (jj_special_case[mid].rune == c)
            return how == JJ_UPPER ? jj_special_case[mid].upper : jj_special_case[mid].title;
        if (jj_special_case[mid].rune < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static void buf_fold(jj_buf *b, uint32_t rune, bool data)
{
    utf8proc_int32_t out[8];
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)rune, out, 8, UTF8PROC_CASEFOLD, &last);

    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++)
        fx_jj_buf_rune(b, (uint32_t)out[i], data);
}

void fx_jj_buf_case(jj_buf *b, uint32_t rune, jj_case how, bool data)
{
    const uint16_t *special;

    if (rune < 0x80) {
        if (how == JJ_LOWER || how == JJ_FOLD)
            rune += rune >= 'A' && rune <= 'Z' ? 32 : 0;
        else
            rune -= rune >= 'a' && rune <= 'z' ? 32 : 0;
        fx_jj_buf_rune(b, rune, data);
    } else if (rune > 0x10FFFF) {
        fx_jj_buf_rune(b, FX_BAD_RUNE, data);
    } else if (how == JJ_FOLD) {
        buf_fold(b, rune, data);
    } else if (how == JJ_LOWER) {
        if (rune == 0x130) {
            fx_jj_buf_rune(b, 'i', data);
            rune = 0x307;
        } else {
            rune = (uint32_t)utf8proc_tolower((utf8proc_int32_t)rune);
        }
        fx_jj_buf_rune(b, rune, data);
    } else if ((special = special_case(rune, how)) != NULL) {
        for (int i = 0; i < 3 && special[i]; i++)
            fx_jj_buf_rune(b, special[i], data);
    } else {
        fx_jj_buf_rune(b, (uint32_t)(how == JJ_UPPER ? utf8proc_toupper((utf8proc_int32_t)rune)
                                                     : utf8proc_totitle((utf8proc_int32_t)rune)), data);
    }
}

/* A capital sigma that ends a word becomes the final one: 'after' is behind it. */
static bool final_sigma(const jj_str *s, size_t after)
{
    size_t at = after - 2, i;
    uint32_t c = 0;
    bool before = false;

    while (at) {
        size_t j;

        for (at--; at && ((unsigned char)s->p[at] & 0xC0) == 0x80;)
            at--;
        j = at;
        c = fx_utf8_next(fx_jj_view(s), &j);
        if (!is_case_ignorable(c)) {
            before = is_cased(c);
            break;
        }
    }
    for (i = after; before && i < s->n;) {
        c = fx_utf8_next(fx_jj_view(s), &i);
        if (!is_case_ignorable(c))
            return !is_cased(c);
    }
    return before;
}

static void buf_lower(jj_buf *b, const jj_walk *w)
{
    if (w->rune == 0x3A3)
        fx_jj_buf_rune(b, final_sigma(w->s, w->i) ? 0x3C2 : 0x3C3, w->data);
    else
        fx_jj_buf_case(b, w->rune, JJ_LOWER, w->data);
}

static jj_str *take_like(jj_run *r, jj_buf *b, const jj_str *s)
{
    jj_str *out = fx_jj_buf_take(r, b);

    if (out)
        out->markup = s->markup;
    return out;
}

jj_str *fx_jj_str_case(jj_run *r, jj_str *s, jj_case how)
{
    jj_walk w = fx_jj_walk(s);
    jj_buf b;

    fx_jj_buf_init(&b, r);
    buf_room(&b, s->n);
    while (fx_jj_walk_next(&w)) {
        if (how == JJ_LOWER)
            buf_lower(&b, &w);
        else
            fx_jj_buf_case(&b, w.rune, how, w.data);
    }
    return take_like(r, &b, s);
}

jj_str *fx_jj_str_title(jj_run *r, jj_str *s)
{
    jj_walk w = fx_jj_walk(s);
    bool in_word = false;
    jj_buf b;

    fx_jj_buf_init(&b, r);
    while (fx_jj_walk_next(&w)) {
        if (in_word)
            buf_lower(&b, &w);
        else
            fx_jj_buf_case(&b, w.rune, JJ_TITLE, w.data);
        in_word = is_cased(w.rune);
    }
    return take_like(r, &b, s);
}

jj_str *fx_jj_str_capitalize(jj_run *r, jj_str *s)
{
    jj_walk w = fx_jj_walk(s);
    bool first = true;
    jj_buf b;

    fx_jj_buf_init(&b, r);
    for (; fx_jj_walk_next(&w); first = false) {
        if (first)
            fx_jj_buf_case(&b, w.rune, JJ_TITLE, w.data);
        else
            buf_lower(&b, &w);
    }
    return take_like(r, &b, s);
}

/* ---- operations --------------------------------------------------------------------- */

static bool strips(const jj_str *chars, fx_str s, size_t at, size_t *end)
{
    size_t i = at;
    uint32_t c = fx_utf8_next(s, &i);

    *end = i;
    if (!chars)
        return fx_jj_is_space(c);
    for (size_t k = 0; k < chars->n;)
        if (fx_utf8_next(fx_jj_view(chars), &k) == c)
            return true;
    return false;
}

jj_str *fx_jj_str_strip(jj_run *r, jj_str *s, const jj_str *chars, int sides)
{
    size_t a = 0, b = s->n, end;
    fx_str v = fx_jj_view(s);

    if (!fx_jj_work(r, s->n / 64))
        return NULL;
    while ((sides & 1) && a < b && strips(chars, v, a, &end))
        a = end;
    while ((sides & 2) && b > a) {
        size_t at = b - 1;

        while (at > a && ((unsigned char)s->p[at] & 0xC0) == 0x80)
            at--;
        if (!strips(chars, v, at, &end))
            break;
        b = at;
    }
    return fx_jj_sub(r, s, a, b);
}

/* Between every two characters and at both ends, 'count' times at most. */
static void replace_empty(jj_buf *b, jj_str *s, jj_str *with, int64_t count)
{
    size_t i = 0;

    for (; count && i <= s->n && b->run->status == FORNAX_OK; count--) {
        size_t j = i;

        fx_jj_buf_str(b, with);
        if (i == s->n)
            return;
        fx_utf8_next(fx_jj_view(s), &j);
        fx_jj_buf_sub(b, s, i, j);
        i = j;
    }
    fx_jj_buf_sub(b, s, i, s->n);
}

jj_str *fx_jj_str_replace(jj_run *r, jj_str *s, jj_str *old, jj_str *with, int64_t count)
{
    size_t i = 0, at;
    jj_buf b;

    if (count < 0)
        count = INT64_MAX;
    fx_jj_buf_init(&b, r);
    if (!fx_jj_work(r, s->n / 64))
        return NULL;
    if (!old->n) {
        replace_empty(&b, s, with, count);
        return take_like(r, &b, s);
    }
    for (; count && r->status == FORNAX_OK; count--) {
        at = fx_str_find(fx_jj_view(s), fx_jj_view(old), i);
        if (at == FX_STR_NONE)
            break;
        fx_jj_buf_sub(&b, s, i, at);
        fx_jj_buf_str(&b, with);
        i = at + old->n;
    }
    if (i == 0)
        return s;
    fx_jj_buf_sub(&b, s, i, s->n);
    return take_like(r, &b, s);
}

jj_str *fx_jj_str_center(jj_run *r, jj_str *s, int64_t width, jj_str *fill)
{
    int64_t have = (int64_t)fx_jj_chars(s), pad = width - have, left;
    jj_buf b;

    if (pad <= 0)
        return s;
    left = pad / 2 + (pad & width & 1);
    fx_jj_buf_init(&b, r);
    fx_jj_buf_pad(&b, fill, (size_t)left);
    fx_jj_buf_str(&b, s);
    fx_jj_buf_pad(&b, fill, (size_t)(pad - left));
    return take_like(r, &b, s);
}

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

jj_list *fx_jj_str_lines(jj_run *r, jj_str *s, bool keep)
{
    jj_list *out = fx_jj_list(r, 0);
    size_t start = 0, i = 0;

    while (out && i < s->n) {
        size_t at = i;
        uint32_t c = fx_utf8_next(fx_jj_view(s), &i);

        if (ends_line(c)) {
            if (c == '\r' && i < s->n && s->p[i] == '\n')
                i++;
            if (!fx_jj_push(r, out, fx_jj_sv(fx_jj_sub(r, s, start, keep ? i : at))))
                return NULL;
            start = i;
        }
    }
    if (out && start < s->n && !fx_jj_push(r, out, fx_jj_sv(fx_jj_sub(r, s, start, s->n))))
        return NULL;
    return out;
}

/* ---- markup and repr ------------------------------------------------------------------ */

jj_str *fx_jj_markup(jj_run *r, jj_str *s)
{
    jj_str *out = fx_jj_sub(r, s, 0, s->n);

    if (out)
        out->markup = true;
    return out;
}

jj_str *fx_jj_escape(jj_run *r, jj_str *s)
{
    size_t from = 0;
    jj_str *out;
    jj_buf b;

    if (s->markup)
        return s;
    fx_jj_buf_init(&b, r);
    for (size_t i = 0; i < s->n; i++) {
        char c = s->p[i];
        const char *as = c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" :
                         c == '\'' ? "&#39;" : c == '"' ? "&#34;" : NULL;

        if (!as)
            continue;
        fx_jj_buf_sub(&b, s, from, i);
        fx_jj_buf_z(&b, as, fx_jj_origin(s, i));
        from = i + 1;
    }
    if (!from)
        return fx_jj_markup(r, s);
    fx_jj_buf_sub(&b, s, from, s->n);
    out = fx_jj_buf_take(r, &b);
    if (out)
        out->markup = true;
    return out;
}

static bool is_printable(uint32_t c)
{
    if (c < 0x7F)
        return c >= 0x20;
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

void fx_jj_repr_str(jj_buf *b, const jj_str *s)
{
    char quote = memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
    bool first = s->data, last = s->n ? fx_jj_origin(s, s->n - 1) : s->data;
    jj_walk w = fx_jj_walk(s);
    char text[12];

    if (s->markup)
        fx_jj_buf_z(b, "Markup(", first);
    fx_jj_buf_add(b, &quote, 1, first);
    while (fx_jj_walk_next(&w)) {
        uint32_t c = w.rune;

        if (c == (uint32_t)quote || c == '\\')
            snprintf(text, sizeof text, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (is_printable(c)) {
            fx_jj_buf_rune(b, c, w.data);
            continue;
        } else
            snprintf(text, sizeof text, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        fx_jj_buf_z(b, text, w.data);
    }
    fx_jj_buf_add(b, &quote, 1, last);
    if (s->markup)
        fx_jj_buf_z(b, ")", last);
}
