/* compile.h - a graph becomes a program: passes, plan, packed weights.
 *
 *     fx_compile_options opt = { .mode = FX_MODE_AUTO, .cpu = cpu, .pool = pool };
 *     FX_TRY(fx_compile(&program, mem, graph, &state, &source, &opt, err));
 *
 * Blocks until the program can run; rewrites the graph in place. */
#ifndef FX_COMPILE_H
#define FX_COMPILE_H

#include "base/cpu.h"
#include "graph/graph.h"
#include "runtime/bind.h"
#include "tensor/mode.h"

typedef struct fx_compile_options {
    fx_dtype_mode mode;
    bool adapters;               /* sequences may have adapters (runtime/adapter.h) */
    fx_cpu cpu;
    fx_pool *pool;               /* packs the weights */
} fx_compile_options;

fx_status fx_compile(fx_program **out, const fx_mem *mem, fx_graph *graph, const fx_state_table *state,
                     const fx_weight_source *source, const fx_compile_options *opt, fx_error *err);

#endif
