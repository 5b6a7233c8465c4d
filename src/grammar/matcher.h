/* matcher.h - which tokens may come next, and what happened when one came.
 *
 * A vocabulary is prepared once a tokenizer and shared.  A matcher is one sequence's place in a
 * grammar: O(1) to copy and to roll back.  Masks are made lazily, interned by content, and kept in
 * caches under a byte cap that the vocabulary owns; they are shared by all matchers on it.
 *
 * Mask bit i (word i/32, bit i%32) is set when token i may come next: its bytes keep the sequence a
 * prefix of the language.  Ids of 'eos' have their bit set exactly when the sequence may end here; behind one nothing may come.
 * Special tokens match only fx_gram_token nodes.
 *
 * Threads: a matcher belongs to one thread at a time; different matchers may be used at once even on
 * the same grammar and vocabulary. */
#ifndef FX_GRAMMAR_MATCHER_H
#define FX_GRAMMAR_MATCHER_H

#include "grammar/gram.h"

typedef struct fx_gvocab fx_gvocab;
typedef struct fx_matcher fx_matcher;

typedef struct fx_gvocab_desc {
    size_t n;                               /* ids 0..n-1; rows of masks have this many bits, rounded up to 32 */
    fx_str (*bytes)(const void *user, int32_t id);      /* in running text; p NULL or n 0: never allowed */
    bool (*special)(const void *user, int32_t id);
    const void *user;                       /* used during the call only */
    const int32_t *eos;
    size_t n_eos;
    size_t cache_bytes;                     /* cap of all mask caches; 0: 256 MiB */
} fx_gvocab_desc;
fx_status fx_gvocab_new(fx_gvocab **out, const fx_mem *mem, const fx_gvocab_desc *desc, fx_error *err);
fx_gvocab *fx_gvocab_ref(fx_gvocab *v);
void fx_gvocab_unref(fx_gvocab *v);
size_t fx_gvocab_words(const fx_gvocab *v);              /* uint32 words in a mask */

fx_status fx_matcher_new(fx_matcher **out, const fx_mem *mem, fx_gram *g, fx_gvocab *v, fx_error *err);
fx_status fx_matcher_copy(fx_matcher **out, const fx_matcher *m, fx_error *err);   /* for n > 1 */
void fx_matcher_free(fx_matcher *m);

/* Fills fx_gvocab_words words.  A failure (FORNAX_ENOMEM: a limit) ends the request: never an unmasked row. */
fx_status fx_matcher_mask(fx_matcher *m, uint32_t *bits, fx_error *err);
/* FORNAX_EARG: the token isn't allowed here (the place is unchanged). An eos id needs can_end. */
fx_status fx_matcher_accept(fx_matcher *m, int32_t id, fx_error *err);
fx_status fx_matcher_accept_bytes(fx_matcher *m, fx_str bytes, fx_error *err);    /* all or nothing */
void fx_matcher_rollback(fx_matcher *m, size_t n_tokens);  /* undoes the last accepted ones (or accept_bytes calls) */
size_t fx_matcher_length(const fx_matcher *m);             /* how many there are to undo */
bool fx_matcher_can_end(const fx_matcher *m);              /* the sequence is a whole word of the language */
bool fx_matcher_must_end(const fx_matcher *m);             /* and nothing can follow */
/* The bytes that must come next whatever is chosen, appended to 'out'; at most 'limit'. */
fx_status fx_matcher_forced(fx_matcher *m, size_t limit, fx_buf *out, fx_error *err);

#endif
