/* graph_api.h - the objects behind fornax_graph.h, and what its files share.
 *
 * Ops and values are those of graph/graph.h under another name. A module, a graph and a block have a
 * little more around theirs: where ops go, the chain of effects, the seed.
 *
 * The chain of a block begins as a hidden argument behind its own. Once the block has an owner it is
 * an argument indeed (while), the outer chain itself (cond), or nothing, if there were no effects. */
#ifndef FX_GRAPH_API_H
#define FX_GRAPH_API_H

#include "base/mem.h"
#include "fornax_graph.h"
#include "graph/graph.h"

struct fornax_module {
    fornax_context *ctx;
    fx_arena arena;
    fx_module *m;
    fornax_graph *first, *last;
};

struct fornax_graph {
    fornax_module *owner;
    fx_graph *g;
    fornax_graph *next;
    fornax_block *block;         /* being built; NULL: the body */
    fx_point at;
    fx_value *chain;             /* of the body; NULL: no effects yet */
    fx_op *last_input, *last_weight;
    fx_value *seed;              /* what random ops start from, or NULL for ... */
    int64_t seed_number;
    bool seeded;
    int64_t draws;
    const char *file;            /* of the line that calls, or NULL */
    int line;
};

struct fornax_block {
    fornax_graph *graph;
    fx_block *b;
    int n_args;                  /* without the hidden chain */
    fx_value *chain;             /* the last one; at first the hidden argument */
    fornax_block *outer;
    fx_point was;                /* where ops went before it */
    fx_value **values;           /* what it yields, once it is ended */
    int n_values;
    bool ended, owned;
};

static inline fx_value *fx_api_value(const fornax_value *v) { return (fx_value *)(uintptr_t)v; }
static inline fornax_value *fx_api_of_value(fx_value *v) { return (fornax_value *)v; }
static inline fx_op *fx_api_op(const fornax_op *op) { return (fx_op *)(uintptr_t)op; }
static inline fornax_op *fx_api_of_op(fx_op *op) { return (fornax_op *)op; }

static inline fx_module *fx_api_module(const fornax_graph *g) { return g->owner->m; }
static inline bool fx_api_broken(const fornax_graph *g) { return !g || g->owner->m->failed; }

/* Records "file:line: what" unless there is a fault already; NULL for 'return'. */
void *fx_api_fault(fornax_graph *g, fx_status st, const char *fmt, ...) FX_PRINTF(3, 4);
void *fx_api_no_memory(fornax_graph *g);
/* The caller's type; false: a fault was recorded. */
bool fx_api_type(fornax_graph *g, const fornax_type *type, fx_type *out);
fornax_type fx_api_of_type(const fx_type *t);

/* fx_op_make at the graph's point, with its line. */
fx_op *fx_api_make(fornax_graph *g, fx_op_init init);
/* The chain of the block being built; made if there is none. NULL after a fault. */
fx_value *fx_api_chain(fornax_graph *g);
void fx_api_set_chain(fornax_graph *g, fx_value *chain);
/* A constant scalar. */
fx_value *fx_api_constant(fornax_graph *g, fx_dtype dtype, const void *data);

#endif
