/* compile.h - a graph becomes a program: passes, plan, packed weights.
 *
 *     fx_compile_options opt = { .mode = FX_MODE_AUTO, .cpu = cpu, .pool = pool };
 *     FX_TRY(fx_compile(&program, mem, graph, &state, &source, &opt, err));
 *
 * Blocks until the program can run; rewrites the graph in place.  With a store, packed weights that an earlier compile
 * left there are used as they are, and those packed now are kept, which fx_program_free waits for. */
#ifndef FX_COMPILE_H
#define FX_COMPILE_H

#include "base/cpu.h"
#include "compile/store.h"
#include "graph/graph.h"
#include "runtime/bind.h"
#include "tensor/mode.h"

typedef struct fx_compile_options {
    fx_dtype_mode mode;
    bool adapters;               /* sequences may have adapters (runtime/adapter.h) */
    fx_cpu cpu;
    fx_pool *pool;               /* packs the weights */
    fx_store *store;             /* outlives the program; NULL: none */
    fx_hash128 content;          /* of the weights' files: equal only if they are */
    size_t store_min;            /* fewer bytes than this aren't kept: packing them takes no longer */
    const char *library;         /* whose version the kept weights are of */
    const char *label;           /* what the weights are, for people */
} fx_compile_options;

fx_status fx_compile(fx_program **out, const fx_mem *mem, fx_graph *graph, const fx_state_table *state,
                     const fx_weight_source *source, const fx_compile_options *opt, fx_error *err);

#endif
