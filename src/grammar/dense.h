/* dense.h - how many interior characters (gvocab.h) an expression takes in any case. */
#ifndef FX_GRAMMAR_DENSE_H
#define FX_GRAMMAR_DENSE_H

#include "grammar/run.h"

/* Exactly the interior tokens of at most so many characters stay inside 're', and none of them ends it.
 * FX_RE_INF: all.  0: not known. */
uint32_t fx_run_dense(fx_run *r, fx_re re);

#endif
