/* split_regex.h - the regular expressions of tokenizer files, on PCRE2.
 *
 * Tokenizer files are written for Oniguruma (its Ruby-like syntax).  The pattern
 * is rewritten where PCRE2 would read it differently:
 *   \s \w \d \h and their opposites, [[:space:]]: Unicode's White_Space, word
 *     characters and so on, spelled out (PCRE2's \s has U+180E, \w lacks marks)
 *   X{n,m}+ is (?:X{n,m})+, not possessive; X{n}? is (?:X{n})?; {,m} is {0,m}
 *   [a[b]] and [a&&b]: unions and intersections of classes, by lookahead
 *   \uHHHH, \v, \e, (?m) meaning dot-all, ^ and $ at every line, long names of
 *     general categories (\p{Letter})
 * Matching is bounded: PCRE2's match limit, and its heap limit when the JIT's
 * stack is not enough.  Immutable once compiled; matching needs an fx_match. */
#ifndef FX_SPLIT_REGEX_H
#define FX_SPLIT_REGEX_H

#include "base/status.h"
#include "base/str.h"

typedef struct fx_regex fx_regex;
typedef struct fx_match fx_match;       /* scratch of one thread, for one regex */

/* 'where' begins error texts.  FORNAX_EUNSUP: a construct PCRE2 can't express. */
fx_status fx_regex_compile(fx_regex **out, const fx_mem *mem, fx_str pattern, const char *where, fx_error *err);
void fx_regex_free(fx_regex *re);
fx_str fx_regex_source(const fx_regex *re);                     /* the pattern that was given */

fx_match *fx_match_new(const fx_regex *re, const fx_mem *mem);  /* NULL: no memory */
void fx_match_free(fx_match *m);

/* All matches in order, in valid UTF-8; an empty one right after another match is
 * skipped.  scan->found false: none left.
 *     fx_scan scan = FX_SCAN_START;
 *     while ((st = fx_regex_scan(re, m, text, &scan, err)) == FORNAX_OK && scan.found) ... */
typedef struct fx_scan {
    size_t from, last;              /* where to look next; end of the last match */
    size_t begin, end;              /* the match */
    bool found;
} fx_scan;
#define FX_SCAN_START { 0, SIZE_MAX, 0, 0, false }
fx_status fx_regex_scan(const fx_regex *re, fx_match *m, fx_str text, fx_scan *scan, fx_error *err);

/* The rewritten pattern, appended to 'out' (for tests). */
fx_status fx_regex_translate(fx_buf *out, fx_str pattern, const char *where, fx_error *err);

#endif
