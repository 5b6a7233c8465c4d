/* pipeline.c - the passes in order, and the driver that applies rules.
 *
 * A rule pass walks the ops of the graph's body and of nested blocks in order and
 * tries its rule at each op of its root; sweeps repeat until one changes nothing.  The number
 * of rewrites is bounded by the size the graph had: a rule that doesn't end is
 * a bug, reported as one. */
#include "passes/passes.h"

static const fx_pass *const pipeline[] = {
#define PASS(name) &fx_pass_##name,
#include "passes/passes.def"
};

size_t fx_pass_count(void) { return FX_COUNT(pipeline); }
const fx_pass *fx_pass_at(size_t i) { return pipeline[i]; }

const fx_pass *fx_pass_find(fx_str name)
{
    for (size_t i = 0; i < FX_COUNT(pipeline); i++) {
        if (fx_str_is(name, pipeline[i]->name))
            return pipeline[i];
    }
    return NULL;
}

static bool is_dead(const fx_op *op)
{
    if (!op->block || (fx_op_rows[op->code].flags & FX_OPF_KEEP))
        return false;
    for (int i = 0; i < op->n_out; i++) {
        if (op->out[i].uses)
            return false;
    }
    return true;
}

void fx_drop_dead(fx_op *op)
{
    fx_op *defs[8];
    int n = 0;

    if (!is_dead(op))
        return;
    for (int i = 0; i < op->n_in; i++) {
        if (n < (int)FX_COUNT(defs) && op->in[i].value && op->in[i].value->def)
            defs[n++] = op->in[i].value->def;
    }
    fx_op_erase(op);
    for (int i = 0; i < n; i++)
        fx_drop_dead(defs[i]);           /* is_dead is false for one taken out already */
}

static int64_t count_ops(const fx_block *b)
{
    int64_t n = 0;

    for (const fx_op *op = b->first; op; op = op->next) {
        n++;
        for (int i = 0; i < op->n_regions; i++)
            n += count_ops(op->regions[i]->first);
    }
    return n;
}

/* One sweep over a block; the number of rewrites. opt: misses are told. */
static int64_t sweep(const fx_pass *pass, fx_graph *g, fx_block *b, const fx_pass_options *opt)
{
    int64_t changes = 0;
    fx_op *next;

    for (fx_op *op = b->first; op && !g->module->failed; op = next) {
        const char *why = NULL;
        fx_point was;
        fx_value *v = NULL;

        for (int i = 0; i < op->n_regions; i++)
            changes += sweep(pass, g, op->regions[i]->first, opt);
        if (pass->root == FX_ROOT_ANY || op->code == pass->root) {
            was = fx_insert_at(g->module, fx_before(op));
            v = pass->rewrite(g, op, &why);
            fx_insert_at(g->module, was);
        }
        if (opt && !v && why)
            opt->miss(opt->trace_user, pass->name, op, why);
        next = op->next;
        if (!v)
            continue;
        changes++;
        if (v->def != op) {
            fx_value_replace(&op->out[0], v);
            fx_drop_dead(op);
        }
    }
    return changes;
}

static fx_status run_rule(const fx_pass *pass, fx_graph *g, const fx_pass_options *opt, int64_t *changes, fx_error *err)
{
    int64_t limit = 64 + 16 * count_ops(fx_graph_body(g)), n;

    do {
        n = sweep(pass, g, fx_graph_body(g), NULL);
        *changes += n;
        if (*changes > limit)
            return fx_fail(err, FORNAX_EINTERNAL, "pass %s doesn't end", pass->name);
    } while (n && !g->module->failed);
    if (opt->miss && !g->module->failed)
        sweep(pass, g, fx_graph_body(g), opt);
    return fx_module_status(g->module, err);
}

fx_status fx_pass_run(const fx_pass *pass, fx_graph *g, const fx_pass_options *opt, int64_t *changes, fx_error *err)
{
    *changes = 0;
    FX_TRY(pass->run ? pass->run(g, opt, changes, err) : run_rule(pass, g, opt, changes, err));
#ifndef FX_NDEBUG
    FX_TRY(fx_module_check(g->module, err));
#endif
    return FORNAX_OK;
}

fx_status fx_passes_run(fx_graph *g, const fx_pass_options *opt, fx_error *err)
{
    int64_t changes;

    if (opt->trace)
        opt->trace(opt->trace_user, "start", g, 0);
    for (size_t i = 0; i < FX_COUNT(pipeline); i++) {
        changes = 0;
        if (opt->adapters && pipeline[i]->hides_products)
            continue;
        FX_TRY(fx_pass_run(pipeline[i], g, opt, &changes, err));
        if (opt->trace)
            opt->trace(opt->trace_user, pipeline[i]->name, g, changes);
    }
    return FORNAX_OK;
}
