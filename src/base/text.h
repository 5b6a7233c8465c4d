/* text.h - UTF-8, and numbers whose spelling doesn't depend on the locale. */
#ifndef FX_TEXT_H
#define FX_TEXT_H

#include <stdarg.h>

#include "base/str.h"

/* One code point at s[*i], advancing *i by its bytes.  Ill-formed input yields
 * FX_BAD_RUNE and advances by the maximal ill-formed subpart (at least one byte,
 * as Unicode 3.9 / WHATWG, so that replacement text equals Python's). */
#define FX_BAD_RUNE 0xFFFFFFFFu
uint32_t fx_utf8_next(fx_str s, size_t *i);
size_t fx_utf8_put(char out[4], uint32_t rune);      /* bytes written */
bool fx_utf8_valid(fx_str s);
/* How many bytes at the end of s begin a character that more bytes could finish (0..3). */
size_t fx_utf8_open_tail(fx_str s);
size_t fx_utf8_count(fx_str s);                      /* code points (bad ones count one) */

/* A name from outside, for a sentence: control characters and what isn't UTF-8 become '?', and
 * what is longer than 100 bytes is cut. */
typedef struct fx_shown {
    char z[104];
} fx_shown;
fx_shown fx_show(fx_str s);
#define FX_SHOW(s) fx_show(s).z

/* Whole of s must be the number, no blanks around. */
bool fx_parse_i64(fx_str s, int64_t *out);
bool fx_parse_u64(fx_str s, uint64_t *out);
/* A decimal number in C syntax: sign, digits, '.', exponent. No hexadecimal, no
 * inf or nan; a number too large for a double is refused, one too small is 0. */
bool fx_parse_double(fx_str s, double *out);

/* snprintf in the C locale, whatever the process has set. Returns the length that
 * the whole text has; negative: it can't be formatted. */
int fx_format(char *out, size_t cap, const char *fmt, ...) FX_PRINTF(3, 4);
int fx_vformat(char *out, size_t cap, const char *fmt, va_list ap) FX_PRINTF(3, 0);
/* The system's words for an errno, in English, into out; returns out. */
const char *fx_errno_text(int e, char *out, size_t cap);

#endif
