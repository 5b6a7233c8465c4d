/* names.h - a fixed set of names (an object's declared keys), recognised in any JSON spelling.
 *
 * A trie over decoded characters, walked by a machine of the regex pool.  A view is the subset that
 * may come now; states below which everything may come are the same in every view, so that what is
 * learnt about them is shared.
 *
 *     fx_re key = fx_names_key(names, pool, view);      inside of the string and its closing quote
 *     fx_names_label(names, pool, state, &index)        in the state after that quote
 *
 * Threads: under the lock of the grammar that owns it. */
#ifndef FX_GRAMMAR_NAMES_H
#define FX_GRAMMAR_NAMES_H

#include "grammar/regex.h"

typedef struct fx_names fx_names;

/* 'names' are distinct, sorted bytewise, valid UTF-8; their bytes are borrowed for good. plain: keys have
 * escapes only where they need them. NULL: no memory. */
fx_names *fx_names_new(const fx_mem *mem, const fx_str *names, size_t n, bool plain);
void fx_names_free(fx_names *d);
size_t fx_names_words(const fx_names *d);               /* of a subset's bits */
size_t fx_names_bytes(const fx_names *d);
/* The number of a subset; UINT32_MAX: no memory, or too many. */
uint32_t fx_names_view(fx_names *d, const uint64_t *bits);
const uint64_t *fx_names_view_bits(const fx_names *d, uint32_t view);

fx_re fx_names_key(const fx_names *d, fx_re_pool *p, uint32_t view);
fx_re fx_names_inside(const fx_names *d, fx_re_pool *p);   /* all of them, without the quote */
bool fx_names_label(const fx_names *d, const fx_re_pool *p, fx_re state, uint32_t *index);

#endif
