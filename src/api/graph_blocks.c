/* graph_blocks.c - blocks, and the ops that own them or call other graphs: how effects go through. */
#include "api/graph_api.h"

#undef fornax_block_new
#undef fornax_op_cond
#undef fornax_op_while
#undef fornax_op_call

/* ---- Blocks ------------------------------------------------------------------------------ */

/* The hidden argument of a block: where its chain begins. */
static fx_value *hidden_chain(const fornax_block *b)
{
    return &b->b->args[b->n_args];
}

static bool has_effects(const fornax_block *b)
{
    return b->chain != hidden_chain(b);
}

fornax_block *fornax_block_new(fornax_graph *g, const fornax_type *types, size_t n)
{
    fornax_block *b;
    fx_type *args;

    if (fx_api_broken(g))
        return NULL;
    if (n > 4096 || (n && !types))
        return fx_api_fault(g, FORNAX_EARG, "block: its types are NULL or too many");
    b = FX_ARENA_NEW(&g->owner->arena, fornax_block);
    args = FX_ARENA_NEWN(&g->owner->arena, fx_type, n + 1);
    if (!b || !args)
        return fx_api_no_memory(g);
    for (size_t i = 0; i < n; i++) {
        if (!fx_api_type(g, &types[i], &args[i]))
            return NULL;
    }
    args[n] = fx_type0(FX_CHAIN);
    b->b = fx_block_new(fx_api_module(g), args, (int)n + 1);
    if (!b->b)
        return NULL;
    b->b->n_args = b->n_args = (int)n;
    b->chain = hidden_chain(b);
    b->graph = g;
    b->outer = g->block;
    b->was = g->at;
    g->block = b;
    g->at = (fx_point){ b->b, NULL };
    return b;
}

fornax_value *fornax_block_argument(fornax_block *b, size_t i)
{
    return b && i < (size_t)b->n_args ? fx_api_of_value(&b->b->args[i]) : NULL;
}

void fornax_block_end(fornax_block *b, fornax_value *const *values, size_t n)
{
    fornax_graph *g = b ? b->graph : NULL;

    if (fx_api_broken(g))
        return;
    if (b != g->block || n > 4096 || (n && !values)) {
        fx_api_fault(g, FORNAX_EARG, b != g->block ? "block: ended already, or another one in it isn't"
                                                   : "block: its values are NULL or too many");
        return;
    }
    b->values = FX_ARENA_NEWN(&g->owner->arena, fx_value *, n + 1);
    if (!b->values) {
        fx_api_no_memory(g);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        b->values[i] = fx_api_value(values[i]);
        if (!values[i]) {
            fx_api_fault(g, FORNAX_EARG, "block: value %zu of its end is NULL", i);
            return;
        }
    }
    b->n_values = (int)n;
    b->ended = true;
    g->block = b->outer;
    g->at = b->was;
}

/* Whether blocks of this graph can become an op's. */
static bool can_own(fornax_graph *g, const char *op, fornax_block *const b[2])
{
    for (int i = 0; i < 2; i++) {
        if (!b[i])
            return fx_api_fault(g, FORNAX_EARG, "%s: a block is NULL", op);
        if (b[i]->graph != g || !b[i]->ended || b[i]->owned || b[0] == b[1])
            return fx_api_fault(g, FORNAX_EARG, "%s: block %d is another graph's or op's, or isn't ended", op, i);
    }
    if ((has_effects(b[0]) || has_effects(b[1])) && g->at.before)
        return fx_api_fault(g, FORNAX_EARG, "%s: effects go to the end of a block", op);
    return true;
}

/* The block's yield: its values, then the chain where one is carried. */
static fx_region *close_block(fornax_graph *g, fornax_block *b, fx_value *chain)
{
    fx_point was = g->at;

    b->values[b->n_values] = chain;
    g->at = (fx_point){ b->b, NULL };
    fx_api_make(g, (fx_op_init){ .code = FX_OP_YIELD, .in = b->values, .n_in = b->n_values + (chain != NULL) });
    g->at = was;
    b->owned = true;
    return fx_api_broken(g) ? NULL : fx_region_new(fx_api_module(g), b->b);
}

/* The op that owns them; its last result is the chain from now on, if it carries one. */
static fornax_op *own(fornax_graph *g, fx_opcode code, fx_value *const *in, int n_in, fx_region *const *regions, bool chain)
{
    fx_op *op;

    if (!regions[0] || !regions[1])
        return NULL;
    op = fx_api_make(g, (fx_op_init){ .code = code, .in = in, .n_in = n_in, .regions = regions, .n_regions = 2 });
    if (op && chain)
        fx_api_set_chain(g, &op->out[op->n_out - 1]);
    return fx_api_of_op(op);
}

fornax_op *fornax_op_cond(fornax_graph *g, fornax_value *p, fornax_block *then, fornax_block *otherwise)
{
    fornax_block *const b[2] = { then, otherwise };
    fx_value *in[2] = { fx_api_value(p), NULL };
    fx_region *regions[2];
    bool effects;

    if (fx_api_broken(g) || !can_own(g, "cond", b))
        return NULL;
    if (then->n_args || otherwise->n_args)
        return fx_api_fault(g, FORNAX_EARG, "cond: its blocks have no arguments");
    effects = has_effects(then) || has_effects(otherwise);
    if (effects && !(in[1] = fx_api_chain(g)))
        return NULL;
    for (int i = 0; i < 2; i++) {
        fx_value *hidden = hidden_chain(b[i]), *last = has_effects(b[i]) ? b[i]->chain : in[1];

        if (hidden->uses)
            fx_value_replace(hidden, in[1]);
        regions[i] = close_block(g, b[i], effects ? last : NULL);
    }
    return own(g, FX_OP_COND, in, 2, regions, effects);
}

fornax_op *fornax_op_while(fornax_graph *g, fornax_value *const *values, size_t n, fornax_block *test,
                           fornax_block *next)
{
    fornax_block *const b[2] = { test, next };
    fx_region *regions[2];
    fx_value **in;
    bool effects;

    if (fx_api_broken(g) || !can_own(g, "while", b))
        return NULL;
    if (n > 4096 || (n && !values))
        return fx_api_fault(g, FORNAX_EARG, "while: its values are NULL or too many");
    if (has_effects(test))
        return fx_api_fault(g, FORNAX_EARG, "while: its test has effects");
    in = FX_ARENA_NEWN(&g->owner->arena, fx_value *, n + 1);
    if (!in)
        return fx_api_no_memory(g);
    for (size_t i = 0; i < n; i++)
        in[i] = fx_api_value(values[i]);
    effects = has_effects(next);
    if (effects && !(in[n] = fx_api_chain(g)))
        return NULL;
    for (int i = 0; i < 2; i++)
        b[i]->b->n_args += effects;      /* the hidden one is an argument like the others */
    regions[0] = close_block(g, test, NULL);
    regions[1] = close_block(g, next, effects ? next->chain : NULL);
    return own(g, FX_OP_WHILE, in, (int)n + effects, regions, effects);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

fornax_op *fornax_op_call(fornax_graph *g, fornax_graph *callee, fornax_value *const *in, size_t n)
{
    fx_value **all;
    fx_op *op;

    if (fx_api_broken(g))
        return NULL;
    if (!callee || callee->owner != g->owner || !callee->g->subgraph || callee == g)
        return fx_api_fault(g, FORNAX_EARG, "call: expected a subgraph of the module");
    if (n > 4096 || (n && !in))
        return fx_api_fault(g, FORNAX_EARG, "call: its inputs are NULL or too many");
    all = FX_ARENA_NEWN(&g->owner->arena, fx_value *, n + 1);
    if (!all)
        return fx_api_no_memory(g);
    for (size_t i = 0; i < n; i++)
        all[i] = fx_api_value(in[i]);
    if (callee->chain && !(all[n] = fx_api_chain(g)))
        return NULL;
    op = fx_api_make(g, (fx_op_init){ .code = FX_OP_CALL, .in = all, .n_in = (int)n + (callee->chain != NULL),
                                      FX_ATTRS(FX_AS(CALLEE, callee->g->name)) });
    if (op && callee->chain)
        fx_api_set_chain(g, &op->out[op->n_out - 1]);
    return fx_api_of_op(op);
}
