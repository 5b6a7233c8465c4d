/* added.h - tokens that are matched as a whole before the text is cut into words.
 *
 * Two sets: spellings matched in the raw text, and spellings matched after
 * normalization.  In each the leftmost match wins, the longest of those that
 * begin there.  A match that may not be used (a special token that lies in data,
 * or a whole-word token within a word) is as if it weren't in the set. */
#ifndef FX_ADDED_H
#define FX_ADDED_H

#include "base/status.h"
#include "base/str.h"
#include "text/tokenizer.h"

typedef struct fx_added {
    fx_str content;             /* as matched: normalized if it is of the second set */
    int32_t id;
    bool special;               /* control token: left out of decoded text */
    bool control;               /* never matched in data: special, or written like <|this|> */
    bool single_word, lstrip, rstrip, normalized;
    bool exact;                 /* normalized, but 'content' is already what normalizing gives */
} fx_added;

typedef struct fx_added_set {
    fx_added *at;               /* sorted by content */
    size_t n;
    uint32_t first[257];        /* first[c]..first[c+1]: those that begin with byte c */
} fx_added_set;

/* Sorts 'at' (kept) and drops empty and repeated contents (the later one stays). */
void fx_added_set_init(fx_added_set *s, fx_added *at, size_t n);

typedef struct fx_added_match {
    const fx_added *token;
    size_t begin, end;          /* with the blanks that it takes along */
    size_t next;                /* where its spelling ends: look for the next one from here */
} fx_added_match;

/* What is data in a text: spans, or one mark a byte, or neither. */
typedef struct fx_data {
    const fx_span *spans;
    size_t n_spans;
    const char *marks;
} fx_data;

/* The next usable match at or after 'from'; false: none.  specials false: none of
 * the special tokens is usable. 'taken' is where the last match ended. */
bool fx_added_next(const fx_added_set *s, fx_str text, const fx_data *data, bool specials, size_t from, size_t taken,
                   fx_added_match *m);

/* <|x|> and its full-width twin: written like a control token, whatever the file says. */
bool fx_added_looks_control(fx_str content);

#endif
