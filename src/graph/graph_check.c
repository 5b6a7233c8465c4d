/* graph_check.c - the verifier: the invariants that graph.h promises, over a whole module.
 *
 * It finds bugs of ours (a pass that leaves a graph broken), and faults of a text that was read.
 * Every fault is a sentence; nothing is asserted. */
#include "graph/graph.h"

typedef struct checker {
    const fx_module *m;
    const fx_graph *g;
    fx_error *err;
} checker;

static fx_status fault(checker *c, const fx_op *op, const char *what)
{
    return fx_fail(c->err, FORNAX_EINTERNAL, "graph %.*s: %s (%.*s): %s", FX_STR_ARG(c->g->name),
                   fx_opcode_name(op->code), FX_STR_ARG(fx_op_label(op)), what);
}

/* Whether v can be seen where 'op' stands: made before, in op's block or one around it. */
static bool visible(const fx_value *v, const fx_op *op)
{
    const fx_op *at = op;

    while (at) {
        fx_block *b = at->block;

        if (v->block == b)
            return !v->def || fx_op_before(v->def, (fx_op *)at);
        at = b->region ? b->region->op : NULL;
    }
    return false;
}

static fx_status check_uses(checker *c, const fx_op *op, const fx_value *v)
{
    for (fx_use *const *link = &v->uses; *link; link = &(*link)->next) {
        const fx_use *u = *link;

        if (u->value != v || u->link != link || !u->user->block)
            return fault(c, op, "a list of uses is broken");
    }
    return FORNAX_OK;
}

static fx_status check_operands(checker *c, const fx_op *op)
{
    fx_op_names names = fx_op_names_of(fx_op_rows[op->code].operands);

    if (!names.variadic && op->n_in != names.n)
        return fault(c, op, "wrong number of operands");
    for (int i = 0; i < op->n_in; i++) {
        const fx_value *v = op->in[i].value;
        bool optional;

        fx_op_name_at(fx_op_rows[op->code].operands, i, &optional);
        if (!v && !optional)
            return fault(c, op, "an operand is missing");
        if (v && (op->in[i].user != op || !visible(v, op)))
            return fault(c, op, "an operand isn't made before it");
    }
    return FORNAX_OK;
}

/* Infers the types again on a copy and compares. */
static fx_status check_types(checker *c, fx_op *op)
{
    fx_module scratch = { .arena = c->m->arena, .first = c->m->first };
    fx_value room[4], *out = room, *was = op->out;
    fx_status st = FORNAX_OK;

    if (op->n_out > (int)FX_COUNT(room) && !(out = FX_ARENA_NEWN(c->m->arena, fx_value, (size_t)op->n_out)))
        return fx_nomem(c->err, "a graph");
    memcpy(out, op->out, (size_t)op->n_out * sizeof(*out));
    op->out = out;
    if (!fx_shape_infer(&scratch, op))
        st = fx_fail(c->err, scratch.err.status == FORNAX_ENOMEM ? FORNAX_ENOMEM : FORNAX_EINTERNAL, "graph %.*s: %s",
                     FX_STR_ARG(c->g->name), scratch.err.text);
    op->out = was;
    for (int i = 0; i < op->n_out && st == FORNAX_OK; i++) {
        if (!fx_type_eq(&out[i].type, &op->out[i].type))
            st = fault(c, op, "a result has another type than its rule gives");
    }
    return st;
}

/* A chain may have many readers but only one op that carries it on. */
static fx_status check_chain(checker *c, const fx_op *op, const fx_value *v)
{
    int carriers = 0;

    for (const fx_use *u = v->uses; u; u = u->next) {
        for (int i = 0; i < u->user->n_out; i++)
            carriers += u->user->out[i].type.dtype == FX_CHAIN && u->user->block == op->block;
    }
    return carriers > 1 ? fault(c, op, "its chain forks") : FORNAX_OK;
}

static fx_status check_block(checker *c, const fx_block *b);

static fx_status check_op(checker *c, fx_op *op, const fx_block *b)
{
    if (op->block != b || (op->next && op->next->prev != op) || (!op->next && b->last != op))
        return fault(c, op, "the list of ops is broken");
    if ((fx_op_rows[op->code].flags & FX_OPF_END) && op->next)
        return fault(c, op, "stands in the middle of a block");
    FX_TRY(check_operands(c, op));
    FX_TRY(check_types(c, op));
    for (int i = 0; i < op->n_out; i++) {
        FX_TRY(check_uses(c, op, &op->out[i]));
        if (op->out[i].def != op || op->out[i].block != b)
            return fault(c, op, "a result isn't its own");
        if (op->out[i].type.dtype == FX_CHAIN)
            FX_TRY(check_chain(c, op, &op->out[i]));
    }
    for (int i = 0; i < op->n_regions; i++) {
        if (op->regions[i]->op != op)
            return fault(c, op, "a region isn't its own");
        FX_TRY(check_block(c, op->regions[i]->first));
    }
    return FORNAX_OK;
}

static fx_status check_block(checker *c, const fx_block *b)
{
    fx_opcode end = b->region->graph ? FX_OP_OUTPUT : FX_OP_YIELD;

    if (!b->last || b->last->code != end)
        return fx_fail(c->err, FORNAX_EINTERNAL, "graph %.*s: a block doesn't end in %s", FX_STR_ARG(c->g->name),
                       fx_opcode_name(end));
    for (fx_op *op = b->first; op; op = op->next)
        FX_TRY(check_op(c, op, b));
    return FORNAX_OK;
}

fx_status fx_module_check(const fx_module *m, fx_error *err)
{
    FX_TRY(fx_module_status(m, err));
    for (const fx_graph *g = m->first; g; g = g->next) {
        checker c = { m, g, err };

        FX_TRY(check_block(&c, fx_graph_body(g)));
    }
    return FORNAX_OK;
}
