/* kir_eval.h - what the ops without effects compute, lane by lane.
 *
 * A lane is 64 bits: integers extended by their sign or with zeroes, bool 0 or 1, floats their bits
 * (f32 and narrower in the low ones).  This is the meaning of the ops (docs/kir.md): the interpreter runs it,
 * passes fold constants with it. */
#ifndef FX_KIR_EVAL_H
#define FX_KIR_EVAL_H

#include "kir/kir.h"

/* in[i]: the lanes of operand i; out: op->type.lanes of them.  For ops of the forms CONST to BITCAST, and SPLAT to SHUFFLE;
 * not for those with FX_KOPF_MATH, which fx_kir_expand_math replaces. */
void fx_kir_eval(const fx_kop *op, const uint64_t *const *in, uint64_t *out);

/* x's low bits as a lane of type t. */
uint64_t fx_kir_lane(fx_dtype t, uint64_t x);
uint64_t fx_kir_read(fx_dtype t, const void *p);                /* an element in memory */
void fx_kir_write(fx_dtype t, void *p, uint64_t lane);

/* acc combined with x (and y, of DOT), for all kinds but ARG. */
uint64_t fx_kir_combined(fx_kir_combine kind, fx_dtype t, uint64_t acc, uint64_t x, uint64_t y);
uint64_t fx_kir_neutral(fx_kir_combine kind, fx_dtype t);
/* Whether x at a later place goes before 'best' of an ARG kind. */
bool fx_kir_beats(fx_kir_combine kind, fx_dtype t, uint64_t x, uint64_t best);

#endif
