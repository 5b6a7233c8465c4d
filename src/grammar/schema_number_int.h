/* schema_number_int.h - what the files that spell numbers share.
 *
 * Of any spelling (schema_number_any.c, schema_number_values.c) a language is a machine, because an exponent
 * comes after the digits that it moves; of the plain one (schema_number_plain.c: no exponent, no needless
 * digits) an expression over digits.  schema_number_re.c chooses. */
#ifndef FX_GRAMMAR_SCHEMA_NUMBER_INT_H
#define FX_GRAMMAR_SCHEMA_NUMBER_INT_H

#include "grammar/schema_int.h"

#define FX_NUM_EXP_MAX 8000            /* where exponents saturate; larger than any that matters */
#define FX_NUM_ZEROS_MAX 1000          /* a spelling with more digits beside the point isn't offered */

/* Phases of a JSON number. */
enum { FX_NP_START, FX_NP_MINUS, FX_NP_ZERO, FX_NP_INT, FX_NP_POINT, FX_NP_FRAC, FX_NP_EXP, FX_NP_EXP_SIGN, FX_NP_EXP_DIGITS };

/* The next phase; false: not a number. */
bool fx_num_next_phase(unsigned phase, unsigned char ch, unsigned *to);
bool fx_num_may_end(unsigned phase);
/* Can an exponent whose digits so far say 'e' still become one between lo and hi?  Before the sign
 * (phase FX_NP_EXP) it may be any; 'minus' and e say the rest. */
bool fx_num_exponent_alive(unsigned phase, bool minus, int64_t e, int64_t lo, int64_t hi);

typedef struct fx_num_side {           /* numbers of one sign, as magnitudes above 0 */
    bool possible, has_lo, has_hi, lo_ex, hi_ex;
    fx_dec lo, hi;
} fx_num_side;
fx_num_side fx_num_upper(const fx_numrec *r);           /* the positive part of an interval */
fx_numrec fx_num_mirrored(const fx_numrec *r);          /* its bounds with the other sign */
bool fx_num_holds_zero(const fx_numrec *r);
bool fx_num_keep_digits(fx_sc *c, fx_dec *d);           /* where they live as long as the pool */

/* Any spelling. */
fx_re fx_num_syntax(fx_sc *c);
fx_re fx_num_interval(fx_sc *c, const fx_numrec *r, bool step, int64_t scale);  /* step: multiples of 10^-scale only */
fx_re fx_num_multiple(fx_sc *c, uint64_t p, int64_t s, bool plain);             /* of p / 10^s; plain: without exponents */
/* Multiples of p / 10^s of one sign, if they are few; FX_RE_FAIL: they aren't. */
fx_re fx_num_few(fx_sc *c, fx_num_side d, bool neg, bool zero, uint64_t p, int64_t s);
fx_re fx_num_values(fx_sc *c, const fx_dec *list, uint32_t n);                  /* in the spelling of c->opt */

/* The plain spelling. */
fx_re fx_num_plain(fx_sc *c, const fx_numrec *r, bool integer);                 /* an interval */
fx_re fx_num_plain_syntax(fx_sc *c, bool integer);
fx_re fx_num_whole_syntax(fx_sc *c);                    /* JSON's integers as they look, -0 too */

#endif
