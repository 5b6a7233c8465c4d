/* regex.h - regular languages over bytes, as hash-consed expressions with derivatives.
 *
 * A pool owns expressions; an fx_re is an index into it and equal languages built the same
 * way get the same index.  The derivative of an expression by a byte is an expression
 * (Brzozowski 1964; with and/not as in Owens, Reppy, Turon 2009), so the deterministic
 * automaton is made state by state as bytes come; nothing is unrolled at compile: {0,65536}
 * is one node.
 *
 * Characters: a class of code points becomes bytes in one of two spellings, FX_SPELL_UTF8
 * or FX_SPELL_JSON (the inside of a JSON string: literal, short escape, \uXXXX, surrogate
 * pair).  A language of decoded text maps to that of its spellings homomorphically, so an
 * escaped spelling can't slip past a comparison.
 *
 * Limits: a pool refuses to grow past max_nodes; from then on every constructor returns
 * FX_RE_FAIL, which every constructor passes on, so that one check at the end suffices.
 * Building isn't thread-safe; one pool belongs to one thread or one lock at a time. */
#ifndef FX_GRAMMAR_REGEX_H
#define FX_GRAMMAR_REGEX_H

#include "base/status.h"
#include "base/str.h"

typedef uint32_t fx_re;
typedef struct fx_re_pool fx_re_pool;
#define FX_RE_NONE ((fx_re)0)              /* the empty language */
#define FX_RE_EMPTY ((fx_re)1)             /* the empty string only */
#define FX_RE_ALL ((fx_re)2)               /* every byte string */
#define FX_RE_FAIL ((fx_re)UINT32_MAX)     /* no memory, or too many nodes */
#define FX_RE_INF UINT32_MAX               /* no upper bound of a repeat */

typedef enum fx_spell { FX_SPELL_UTF8, FX_SPELL_JSON } fx_spell;
typedef struct fx_rune_range {
    uint32_t lo, hi;                       /* inclusive; surrogates are left out */
} fx_rune_range;

fx_re_pool *fx_re_pool_new(const fx_mem *mem, size_t max_nodes);
void fx_re_pool_free(fx_re_pool *p);
size_t fx_re_pool_bytes(const fx_re_pool *p);
bool fx_re_pool_failed(const fx_re_pool *p);
void *fx_re_pool_alloc(fx_re_pool *p, size_t size);                        /* cleared; lives as long as the pool; NULL: no memory */

/* From here on FX_SPELL_JSON has escapes only for characters that need one. */
void fx_re_pool_plain(fx_re_pool *p);
fx_re fx_re_byte_set(fx_re_pool *p, const uint64_t set[4]);
fx_re fx_re_literal(fx_re_pool *p, fx_str bytes);                          /* exactly these bytes */
fx_re fx_re_runes(fx_re_pool *p, fx_spell s, const fx_rune_range *r, size_t n);   /* one character */
fx_re fx_re_text(fx_re_pool *p, fx_spell s, fx_str utf8);                  /* this text, in any spelling */
fx_re fx_re_any_text(fx_re_pool *p, fx_spell s);                           /* any characters, any number */
fx_re fx_re_cat(fx_re_pool *p, fx_re a, fx_re b);
fx_re fx_re_alt(fx_re_pool *p, fx_re a, fx_re b);
fx_re fx_re_alt_of(fx_re_pool *p, const fx_re *kids, size_t n);            /* quicker than one by one */
fx_re fx_re_and(fx_re_pool *p, fx_re a, fx_re b);
fx_re fx_re_not(fx_re_pool *p, fx_re a);                                   /* among all byte strings */
fx_re fx_re_text_not(fx_re_pool *p, fx_spell s, fx_re a);                  /* among well-spelled texts */
fx_re fx_re_repeat(fx_re_pool *p, fx_re a, uint32_t min, uint32_t max);

/* A language given by a machine of the caller's: for remainders, number intervals and the like.
 * States are 64-bit values; next returns false where no string of the language goes on.
 * 'm' and 'user' live as long as the pool. */
typedef struct fx_re_machine {
    bool (*next)(const void *user, uint64_t state, unsigned char byte, uint64_t *to);
    bool (*accepts)(const void *user, uint64_t state);
    /* Adds the bytes for which next may say true, and perhaps more; NULL: all. Makes much quicker where they are few. */
    void (*first)(const void *user, uint64_t state, uint64_t set[4]);
} fx_re_machine;
/* A 'first' for machines of JSON numbers. */
void fx_re_first_of_number(const void *user, uint64_t state, uint64_t set[4]);
fx_re fx_re_of_machine(fx_re_pool *p, const fx_re_machine *m, const void *user, uint64_t state);

bool fx_re_nullable(const fx_re_pool *p, fx_re a);
fx_re fx_re_derive(fx_re_pool *p, fx_re a, unsigned char byte);
bool fx_re_matches(fx_re_pool *p, fx_re a, fx_str bytes);

/* Is the language empty?  Explores at most 'budget' states. */
typedef enum fx_tristate { FX_NO, FX_YES, FX_UNKNOWN } fx_tristate;
fx_tristate fx_re_is_none(fx_re_pool *p, fx_re a, size_t budget);

/* An ECMA-262 pattern (flag u) over decoded characters, in spelling 's'.  Unanchored patterns
 * match anywhere, as JSON Schema's "pattern" does, unless whole: then the whole text.
 * FORNAX_EUNSUP names a construct outside the subset (backreferences, \b inside, ...) and
 * its offset; FORNAX_EFORMAT a malformed pattern. */
fx_status fx_re_ecma(fx_re *out, fx_re_pool *p, fx_spell s, fx_str pattern, bool whole, fx_error *err);

#endif
