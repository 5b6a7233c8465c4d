/* ref_graph.h - a graph executed op by op with the reference functions (kernels/ref/ref_tensor.h).
 *
 * The slow, plain execution that others are compared with: no fusion, no planning, a new tensor for
 * each value. Inputs may have any strides. */
#ifndef FX_REF_GRAPH_H
#define FX_REF_GRAPH_H

#include "graph/graph.h"
#include "kernels/ref/ref_tensor.h"

/* What a size's name stands for: those of inputs are found by themselves, others must be given. */
typedef struct fx_ref_symbol {
    fx_str name;
    int64_t value;
} fx_ref_symbol;

/* outputs: room for one tensor for each operand of the graph's output, made in the arena; chains have none. */
fx_status fx_ref_graph_run(const fx_graph *g, fx_arena *arena, const fx_tensor *inputs, int n_inputs,
                           const fx_ref_symbol *symbols, int n_symbols, fx_tensor *outputs, int *n_outputs, fx_error *err);

#endif
