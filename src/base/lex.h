/* lex.h - the words of the text forms that we print and read back (graphs, loop IR).
 *
 *     fx_lex l = { .file = name, .text = text, .puncts = "=,[](){}:@-", .err = err };
 *     if (!fx_lex_next(&l)) return l.st;
 *     if (fx_lex_take(&l, "{")) ...
 *
 * '#' starts a comment.  Names are letters, digits, '_' and '.', a letter or '_' first; %name is a value; a number is whatever of
 * letters, digits and '.' follows a digit.  The first fault stays (fx_lex.st, base/diag.h) and ends the reading:
 * all functions return false from then on. */
#ifndef FX_LEX_H
#define FX_LEX_H

#include "base/diag.h"

typedef enum fx_token_kind { FX_T_END, FX_T_NAME, FX_T_VALUE, FX_T_NUMBER, FX_T_STRING, FX_T_PUNCT } fx_token_kind;

typedef struct fx_token {
    fx_token_kind kind;
    fx_str s;                    /* VALUE: without its '%'; STRING: without quotes, escapes as they are */
    size_t at;                   /* offset in the text */
    uint32_t line;               /* from 1 */
    bool first;                  /* on its line */
} fx_token;

typedef struct fx_lex {
    const char *file;
    fx_str text;
    const char *puncts;          /* the characters that are words by themselves; '"': there are strings; '/': it comes twice */
    fx_error *err;
    size_t i;                    /* behind t */
    uint32_t lines;              /* ends of line before i */
    fx_token t;                  /* the next word */
    fx_status st;
} fx_lex;

bool fx_lex_next(fx_lex *l);
/* The k-th character behind the next word; 0 beyond the end. */
static inline char fx_lex_peek(const fx_lex *l, size_t k) { return l->i + k < l->text.n ? l->text.p[l->i + k] : 0; }
static inline bool fx_lex_at(const fx_lex *l, const char *punct) { return l->t.kind == FX_T_PUNCT && fx_str_is(l->t.s, punct); }
static inline bool fx_lex_at_name(const fx_lex *l, const char *name) { return l->t.kind == FX_T_NAME && fx_str_is(l->t.s, name); }
/* Goes on if the next word is that one; else false, without a fault. */
bool fx_lex_take(fx_lex *l, const char *punct);
bool fx_lex_take_name(fx_lex *l, const char *name);
/* ... with the fault "expected ...". */
bool fx_lex_expect(fx_lex *l, const char *punct);
bool fx_lex_expect_name(fx_lex *l, const char *name);
/* A whole number, perhaps with a '-' before it. */
bool fx_lex_i64(fx_lex *l, int64_t *out);
/* Records a fault at a place of the text, or of memory; false for 'return'. */
bool fx_lex_fault(fx_lex *l, size_t at, const char *fmt, ...) FX_PRINTF(3, 4);
bool fx_lex_no_memory(fx_lex *l, const char *what);

#endif
