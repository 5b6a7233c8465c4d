/* lower_kir.h - a graph of tensors becomes kernels of the loop IR and a plan of their launches.
 *
 *     FX_TRY(fx_lower_kir(&arena, graph, &(fx_lower_options){ .lanes = 16 }, &plan, err));
 *
 * A value is either *kept* (a tensor in memory) or computed where it is read.  lower_at*.c say what an
 * op's result is at an index, in terms of its operands at theirs: so elementwise ops, views and reductions fuse
 * into whatever reads them, by saying which values are kept (lower_kir.c).  Ops that aren't of that kind have kernels
 * of their own (lower_own.c).  Everything that is computed is rounded to its dtype where the graph says so: kept or not, the
 * bits are the same. */
#ifndef FX_LOWER_KIR_H
#define FX_LOWER_KIR_H

#include "graph/graph.h"
#include "kir/kplan.h"

typedef struct fx_lower_options {
    int lanes;                   /* of f32 in the machine's vectors: shapes tiles; 0, 1: no tiles */
    bool unfused;                /* every value is kept, a kernel for each op */
    const char *const *print;    /* [n_print] names of values that are kept, and printed when they are there; at most 64 */
    size_t n_print;
    fx_buf *explain;             /* gets a line for each value and each launch, for people; NULL: nobody asks */
} fx_lower_options;

/* The plan of g in 'arena'; nothing of it points into the graph.  Options change no bits.  Ops that need a model's state, or have no form in
 * the loop IR, are FORNAX_EUNSUP. */
fx_status fx_lower_kir(fx_arena *arena, const fx_graph *g, const fx_lower_options *o, fx_kplan **out, fx_error *err);

#endif
