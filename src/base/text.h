/* text.h - UTF-8, and numbers whose spelling doesn't depend on the locale. */
#ifndef FX_TEXT_H
#define FX_TEXT_H

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

/* Whole of s must be the number, no blanks around. */
bool fx_parse_i64(fx_str s, int64_t *out);
bool fx_parse_u64(fx_str s, uint64_t *out);
bool fx_parse_double(fx_str s, double *out);         /* C syntax, '.' always */

#endif
