/* keep_plain.c - products with rounded activations keep the unrounded ones beside them.
 *
 *     linear(quant(x), w)  ==>  linear(quant(x), w, plain=x)
 *
 * Why:       a low-rank adapter multiplies x in f32 (DESIGN "LoRA adds (xA)B in f32").
 * Needs:     quantize-activations and norm-quant have run; only where adapters are wanted.
 * Preserves: values: the product itself doesn't read it. */
#include "passes/passes.h"

/* What was rounded into q. */
static fx_value *plain_of(const fx_value *q)
{
    fx_op *def = q->def;

    if (def && def->code == FX_OP_QUANT)
        return fx_op_in(def, 0);
    if (def && def->code == FX_OP_RMSNORM_QUANT && q->index == 2)
        return &def->out[1];
    return NULL;
}

static fx_status run(fx_graph *g, const fx_pass_options *opt, int64_t *changes, fx_error *err)
{
    for (fx_op *op = fx_graph_body(g)->first; opt->adapters && op; op = op->next) {
        fx_value *plain;

        if (op->code != FX_OP_LINEAR || fx_op_in(op, 0)->type.dtype != FX_Q8_ACT || fx_op_in(op, 4))
            continue;
        plain = plain_of(fx_op_in(op, 0));
        if (!plain)
            return fx_fail(err, FORNAX_EINTERNAL, "keep-plain: a product whose activations were rounded by %s",
                           fx_opcode_name(fx_op_in(op, 0)->def ? fx_op_in(op, 0)->def->code : op->code));
        fx_op_set_in(op, 4, plain);
        ++*changes;
    }
    return FORNAX_OK;
}

const fx_pass fx_pass_keep_plain = { .name = "keep-plain", .run = run };
