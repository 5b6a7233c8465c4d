/* normalize.h - the steps that rewrite a text before it is split.
 *
 * A text may carry a mark for each byte (1: it came from data); steps keep the
 * marks, so that special tokens matched after normalization still know where
 * they came from.  A byte made of several takes the highest mark among them. */
#ifndef FX_NORMALIZE_H
#define FX_NORMALIZE_H

#include "base/status.h"
#include "base/str.h"
#include "text/charsmap.h"
#include "text/split_regex.h"

typedef enum fx_norm_kind {
    FX_NORM_NFC, FX_NORM_NFD, FX_NORM_NFKC, FX_NORM_NFKD,
    FX_NORM_LOWER,
    FX_NORM_STRIP,              /* white space; left, right */
    FX_NORM_STRIP_ACCENTS,      /* marks dropped */
    FX_NORM_STRIP_NONSPACING,   /* Mn dropped */
    FX_NORM_REPLACE,            /* pattern or literal, content */
    FX_NORM_PREPEND,            /* content, to a text that isn't empty */
    FX_NORM_BERT,
    FX_NORM_NMT,
    FX_NORM_BYTE_LEVEL,         /* into GPT-2's alphabet */
    FX_NORM_PRECOMPILED,        /* charsmap, by grapheme as the "tokenizers" library applies it */
    FX_NORM_SENTENCEPIECE       /* charsmap by longest match, spaces, 'content' for a space */
} fx_norm_kind;

typedef struct fx_norm_step {
    fx_norm_kind kind;
    fx_regex *pattern;          /* REPLACE: NULL if 'literal' is meant; owned */
    fx_str literal, content;
    bool left, right;                               /* STRIP */
    bool clean, spaced_cjk, strip_accents, lower;   /* BERT */
    fx_charsmap charsmap;                           /* PRECOMPILED, SENTENCEPIECE */
    bool prefix, suffix, remove_extra;              /* SENTENCEPIECE: a space at the start or end; runs are one space */
} fx_norm_step;

typedef struct fx_marked {
    fx_buf text;
    fx_buf marks;               /* as long as text, or unused */
    bool marked;
} fx_marked;
void fx_marked_init(fx_marked *m, const fx_mem *mem, bool marked);
void fx_marked_done(fx_marked *m);

/* Applies the steps in order to valid UTF-8.  'work' is the result's other half:
 * both are overwritten, the result is in *out.  marks: one byte a byte, or NULL. */
fx_status fx_normalize(const fx_norm_step *steps, size_t n_steps, fx_str text, const char *marks, fx_marked *out,
                       fx_marked *work, fx_error *err);

#endif
