/* text.c - UTF-8 by the table of Unicode 3.9 (D92), and numbers in the C locale.
 *
 * Numbers go through uselocale(), which sets the locale of this thread only; the
 * C locale object costs nothing to get (glibc hands out a static one). */
#include "base/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* How many bytes follow the lead byte c, and which range the first of them has;
 * -1 for a byte that begins nothing. The narrowed ranges keep out overlong forms
 * (E0, F0), surrogates (ED) and what is above U+10FFFF (F4). */
static int lead(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    *hi = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (c < 0x80)
        return 0;
    if (c < 0xC2)
        return -1;
    if (c < 0xE0)
        return 1;
    if (c < 0xF0)
        return 2;
    return c < 0xF5 ? 3 : -1;
}

uint32_t fx_utf8_next(fx_str s, size_t *i)
{
    unsigned char c = (unsigned char)s.p[(*i)++], lo, hi;
    int follow = lead(c, &lo, &hi);
    uint32_t rune;

    if (follow <= 0)
        return follow < 0 ? FX_BAD_RUNE : c;
    rune = c & (0x3Fu >> follow);
    for (; follow > 0; follow--) {
        unsigned char d;

        if (*i >= s.n)
            return FX_BAD_RUNE;
        d = (unsigned char)s.p[*i];
        if (d < lo || d > hi)
            return FX_BAD_RUNE;
        rune = rune << 6 | (d & 0x3F);
        (*i)++;
        lo = 0x80;
        hi = 0xBF;
    }
    return rune;
}

size_t fx_utf8_put(char out[4], uint32_t rune)
{
    if (rune > 0x10FFFF || (rune >= 0xD800 && rune < 0xE000))
        rune = 0xFFFD;
    if (rune < 0x80) {
        out[0] = (char)rune;
        return 1;
    }
    if (rune < 0x800) {
        out[0] = (char)(0xC0 | rune >> 6);
        out[1] = (char)(0x80 | (rune & 0x3F));
        return 2;
    }
    if (rune < 0x10000) {
        out[0] = (char)(0xE0 | rune >> 12);
        out[1] = (char)(0x80 | (rune >> 6 & 0x3F));
        out[2] = (char)(0x80 | (rune & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | rune >> 18);
    out[1] = (char)(0x80 | (rune >> 12 & 0x3F));
    out[2] = (char)(0x80 | (rune >> 6 & 0x3F));
    out[3] = (char)(0x80 | (rune & 0x3F));
    return 4;
}

/* ASCII eight bytes at a time and two-byte characters here, the rest by fx_utf8_next. */
bool fx_utf8_valid(fx_str s)
{
    for (size_t i = 0; i < s.n;) {
        const unsigned char *p = (const unsigned char *)s.p + i;
        uint64_t eight = UINT64_MAX;

        if (s.n - i >= sizeof(eight))
            memcpy(&eight, p, sizeof(eight));
        if (!(eight & 0x8080808080808080u))
            i += sizeof(eight);
        else if (p[0] < 0x80)
            i++;
        else if (p[0] >= 0xC2 && p[0] < 0xE0 && s.n - i >= 2 && (p[1] & 0xC0) == 0x80)
            i += 2;
        else if (fx_utf8_next(s, &i) == FX_BAD_RUNE)
            return false;
    }
    return true;
}

size_t fx_utf8_open_tail(fx_str s)
{
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        unsigned char c = (unsigned char)s.p[s.n - back], lo, hi;
        size_t i = s.n - back;
        int follow;

        if ((c & 0xC0) == 0x80)
            continue;
        follow = lead(c, &lo, &hi);
        if (follow < (int)back)
            return 0;                           /* complete, or no lead byte at all */
        fx_utf8_next(s, &i);
        return i == s.n ? back : 0;             /* all there is fits: more could finish it */
    }
    return 0;
}

fx_shown fx_show(fx_str s)
{
    fx_shown out = { "" };
    size_t n = 0;

    for (size_t i = 0, from = 0; i < s.n; from = i) {
        uint32_t rune = fx_utf8_next(s, &i);

        if (n + (i - from) > sizeof(out.z) - 4) {
            memcpy(out.z + n, "...", 4);
            break;
        }
        if (rune == FX_BAD_RUNE || rune < 0x20 || (rune >= 0x7f && rune < 0xa0))
            out.z[n++] = '?';
        else
            n += fx_utf8_put(out.z + n, rune);
    }
    return out;
}

size_t fx_utf8_count(fx_str s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; n++)
        fx_utf8_next(s, &i);
    return n;
}

bool fx_parse_u64(fx_str s, uint64_t *out)
{
    uint64_t x = 0;

    if (s.n == 0)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned d = (unsigned)(unsigned char)s.p[i] - '0';

        if (d > 9 || x > (UINT64_MAX - d) / 10)
            return false;
        x = x * 10 + d;
    }
    *out = x;
    return true;
}

bool fx_parse_i64(fx_str s, int64_t *out)
{
    bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t x;

    if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'))
        s = fx_str_n(s.p + 1, s.n - 1);
    if (!fx_parse_u64(s, &x) || x > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - x) : (int64_t)x;
    return true;
}

static size_t skip_digits(fx_str s, size_t i)
{
    while (i < s.n && s.p[i] >= '0' && s.p[i] <= '9')
        i++;
    return i;
}

/* Whether s is [+-] digits [. digits] [e [+-] digits] with a digit in the mantissa. */
static bool is_decimal(fx_str s)
{
    size_t i = s.n > 0 && (s.p[0] == '-' || s.p[0] == '+'), from = i, digits;

    i = skip_digits(s, i);
    digits = i - from;
    if (i < s.n && s.p[i] == '.') {
        from = ++i;
        i = skip_digits(s, i);
        digits += i - from;
    }
    if (digits == 0)
        return false;
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.n && (s.p[i] == '-' || s.p[i] == '+'))
            i++;
        from = i;
        i = skip_digits(s, i);
        if (i == from)
            return false;
    }
    return i == s.n;
}

static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool fx_parse_double(fx_str s, double *out)
{
    char small[128], *z = small;
    locale_t c;
    double x;

    if (!is_decimal(s))
        return false;
    if (s.n >= sizeof(small)) {
        z = fx_mem_alloc(&fx_mem_libc, s.n + 1);
        if (!z)
            return false;
    }
    memcpy(z, s.p, s.n);
    z[s.n] = 0;
    c = c_locale();
    x = c ? strtod_l(z, NULL, c) : HUGE_VAL;
    if (c)
        freelocale(c);
    if (z != small)
        fx_mem_free(&fx_mem_libc, z, s.n + 1);
    if (isinf(x))
        return false;
    *out = x;
    return true;
}

int fx_vformat(char *out, size_t cap, const char *fmt, va_list ap)
{
    locale_t c = c_locale(), old = c ? uselocale(c) : (locale_t)0;
    int n = c ? vsnprintf(out, cap, fmt, ap) : -1;

    if (c) {
        uselocale(old);
        freelocale(c);
    }
    if (n < 0 && cap)
        out[0] = 0;
    return n;
}

int fx_format(char *out, size_t cap, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = fx_vformat(out, cap, fmt, ap);
    va_end(ap);
    return n;
}

const char *fx_errno_text(int e, char *out, size_t cap)
{
    locale_t c = c_locale();

    fx_format(out, cap, "%s", c ? strerror_l(e, c) : "error");
    if (c)
        freelocale(c);
    return out;
}
