/* pretok.h - cutting a text into words, by a chain of steps.
 *
 * Each step cuts every word of the step before.  They run depth first: a word
 * goes down the whole chain before its neighbour is looked for, so that no list
 * of words is ever held.  What comes out at the end goes to fx_pretok.word. */
#ifndef FX_PRETOK_H
#define FX_PRETOK_H

#include "base/status.h"
#include "base/str.h"
#include "text/split_regex.h"

typedef enum fx_cut {               /* what becomes of a match */
    FX_CUT_ISOLATED,                /* a word of its own */
    FX_CUT_REMOVED,
    FX_CUT_MERGED_WITH_PREVIOUS,
    FX_CUT_MERGED_WITH_NEXT,
    FX_CUT_CONTIGUOUS               /* neighbouring matches become one word */
} fx_cut;

typedef enum fx_pretok_kind {
    FX_PRETOK_SPLIT,                /* pattern or literal */
    FX_PRETOK_BYTE_LEVEL,           /* optional space in front, optional pattern, into GPT-2's alphabet */
    FX_PRETOK_CHARACTERS,           /* matches are single characters of a kind */
    FX_PRETOK_METASPACE,            /* ' ' to 'literal', perhaps one in front, cut before each */
    FX_PRETOK_FIXED_LENGTH          /* words of 'length' characters */
} fx_pretok_kind;

typedef enum fx_prefix { FX_PREFIX_NEVER, FX_PREFIX_FIRST, FX_PREFIX_ALWAYS } fx_prefix;

typedef struct fx_pretok_step {
    fx_pretok_kind kind;
    fx_regex *pattern;              /* owned; NULL: 'literal' */
    fx_str literal;
    bool (*is_match)(uint32_t rune);    /* CHARACTERS; NULL: 'rune' itself */
    uint32_t rune;
    fx_cut cut;
    bool invert;                    /* what doesn't match is the match */
    fx_prefix prefix;
    bool raw;                       /* BYTE_LEVEL: the model takes raw bytes, leave them */
    bool split;                     /* METASPACE */
    size_t length;
} fx_pretok_step;

typedef struct fx_pretok {
    const fx_pretok_step *steps;
    size_t n_steps;
    fx_match **matches;             /* [n_steps], NULL where a step has no pattern */
    fx_buf *texts;                  /* [n_steps], where a step rewrites its word */
    fx_status (*word)(void *user, fx_str word, fx_error *err);
    void *user;
    fx_error *err;
} fx_pretok;

/* Scratch for one thread. */
fx_status fx_pretok_init(fx_pretok *p, const fx_mem *mem, const fx_pretok_step *steps, size_t n, fx_error *err);
void fx_pretok_done(fx_pretok *p, const fx_mem *mem);
/* at_start: the text's first byte is the first of the whole input (FX_PREFIX_FIRST). */
fx_status fx_pretok_run(fx_pretok *p, fx_str text, bool at_start);

#endif
