/* passes.h - graph to faster graph, graph to plan.
 *
 *     fx_pass_options opt = { .mode = FX_MODE_AUTO };
 *     FX_TRY(fx_passes_run(graph, &opt, err));
 *     FX_TRY(fx_lower_plan(&arena, graph, false, &plan, err));
 *
 * A pass is a row: a rule that is tried at every op of one code ('root'), or a
 * function over the whole graph.  pipeline.c has them in order.  A rule looks at its
 * root and returns the value that replaces the root's result: NULL for "not here",
 * the root's own result if it changed the root in place; if it gives up where it might have fired, it says why.  The
 * driver owns iteration and termination, and takes out what nobody uses any more. */
#ifndef FX_PASSES_H
#define FX_PASSES_H

#include "graph/graph.h"
#include "kir/plan.h"
#include "tensor/mode.h"

typedef struct fx_pass fx_pass;

typedef struct fx_pass_options {
    fx_dtype_mode mode;
    bool adapters;               /* products keep what low-rank adapters need */
    /* Called with the graph after each pass (and before the first, as "start"); NULL: not.
     * 'changes' counts rewrites. */
    void (*trace)(void *user, const char *pass, const fx_graph *g, int64_t changes);
    /* Called for each root that a pass left though it looked like one of its own, when nothing changes any more; NULL: not. */
    void (*miss)(void *user, const char *pass, const fx_op *root, const char *why);
    void *trace_user;            /* of both */
} fx_pass_options;

#define FX_ROOT_ANY FX_OP_COUNT
struct fx_pass {
    const char *name;            /* "fuse-gate" */
    bool hides_products;         /* not run where adapters add to each product */
    fx_opcode root;
    fx_value *(*rewrite)(fx_graph *g, fx_op *root, const char **why);      /* *why: set where it gives up late */
    fx_status (*run)(fx_graph *g, const fx_pass_options *opt, int64_t *changes, fx_error *err);   /* instead */
};

/* All passes in order. */
fx_status fx_passes_run(fx_graph *g, const fx_pass_options *opt, fx_error *err);
size_t fx_pass_count(void);
const fx_pass *fx_pass_at(size_t i);
const fx_pass *fx_pass_find(fx_str name);             /* NULL: none */
/* One pass until nothing changes. */
fx_status fx_pass_run(const fx_pass *pass, fx_graph *g, const fx_pass_options *opt, int64_t *changes, fx_error *err);

/* The plan of a graph "step" (models.h), in 'arena'; nothing of it points into the graph.
 * adapters: products of experts keep their sums apart, as the passes do with others.
 * Ops without a kernel are FORNAX_EUNSUP. */
fx_status fx_lower_plan(fx_arena *arena, const fx_graph *g, bool adapters, fx_plan **out, fx_error *err);

/* ---- For passes ---------------------------------------------------------------------------- */

/* Takes op out if nothing uses it, and then what only it used. */
void fx_drop_dead(fx_op *op);
/* For rules that give up. */
static inline fx_value *fx_give_up(const char **why, const char *reason)
{
    *why = reason;
    return NULL;
}
/* Other operand of a two-operand op; b where a is asked for. */
static inline fx_value *fx_other_in(const fx_op *op, int i) { return fx_op_in(op, 1 - i); }

#define PASS(name) extern const fx_pass fx_pass_##name;
#include "passes/passes.def"

#endif
