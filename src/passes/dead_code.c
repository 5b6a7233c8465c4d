/* dead_code.c - takes out ops whose results nobody uses.
 *
 * Why: passes leave some; models may build what an option turns off.
 * Preserves: inputs and block ends (they are the graph's interface).  An effect whose
 *            chain nobody takes up isn't part of the graph's meaning, so it goes too. */
#include "passes/passes.h"

static int64_t sweep(fx_block *b)
{
    int64_t n = 0;
    fx_op *prev;

    for (fx_op *op = b->last; op; op = prev) {
        bool used = fx_op_rows[op->code].flags & FX_OPF_KEEP;

        prev = op->prev;
        for (int i = 0; i < op->n_regions; i++)
            n += sweep(op->regions[i]->first);
        for (int i = 0; i < op->n_out; i++)
            used = used || op->out[i].uses;
        if (!used) {
            fx_op_erase(op);
            n++;
        }
    }
    return n;
}

static fx_status run(fx_graph *g, const fx_pass_options *opt, int64_t *changes, fx_error *err)
{
    (void)opt, (void)err;
    *changes = sweep(fx_graph_body(g));
    return FORNAX_OK;
}

const fx_pass fx_pass_dead_code = { .name = "dead-code", .run = run };
