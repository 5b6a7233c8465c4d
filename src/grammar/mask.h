/* mask.h - the mask of a place: which tokens its threads can take.
 *
 * A token is taken thread by thread: a *walk* of the trie with the thread's expression finds the tokens that
 * stay inside it, and the nodes where the expression is done with bytes of the token left.  From there the
 * frame says which expressions come next, and a walk from those nodes goes on.  A walk depends on the row of
 * expressions only, not on frames, so it is kept and shared; a new place costs a few lookups.
 *
 * Threads: under the grammar's lock. */
#ifndef FX_GRAMMAR_MASK_H
#define FX_GRAMMAR_MASK_H

#include "grammar/gvocab.h"
#include "grammar/run.h"

/* Whether the sequence may go on with this token, tried byte by byte. */
typedef bool (*fx_try_token)(void *user, int32_t id);

/* The tokens that may come at 'at'. false: memory or a limit ran out. */
bool fx_run_mask(fx_run *r, fx_gvocab *v, fx_place at, uint32_t *bits, fx_try_token attempt, void *user);

#endif
