/* quantize_activations.c - products with block-quantized weights take int8 activations.
 *
 *     linear(x, w)  ==>  linear(quant(x), w)        w quantized; gate(x, a, b) the same
 *
 * Why:       integer dot products are several times as fast as unpacking weights to floats.
 * Preserves: not values: this is where activations are rounded, and it stands in the graph.
 *            In exact mode weights are f32 by now, so nothing is.
 *            Experts round inside: their attribute q8 says so.
 * All readers of x share one quant. */
#include "passes/passes.h"

static fx_value *quant_of(fx_graph *g, fx_value *x, fx_op *reader)
{
    const char *name;

    for (const fx_use *u = x->uses; u; u = u->next) {
        if (u->user->code == FX_OP_QUANT && u->user->block == reader->block && fx_op_before(u->user, reader))
            return &u->user->out[0];
    }
    name = x->name.n ? fx_arena_printf(g->module->arena, "%.*s.q8", FX_STR_ARG(x->name)) : NULL;
    return FX_OP1(g->module, QUANT, FX_IN(x), FX_NOATTR, .name = fx_str_of(name));
}

/* Lets the quantized ones among its weights have rounded activations. */
static fx_value *mark_experts(fx_op *op)
{
    bool quant = false;

    for (int i = 2; i <= 4; i++)
        quant |= fx_op_in(op, i) && fx_dtype_is_quant(fx_op_in(op, i)->type.dtype);
    if (!quant || fx_op_i(op, FX_A_Q8))
        return NULL;
    for (int i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].key == FX_A_Q8)
            op->attrs[i].u.i = 1;
    }
    return &op->out[0];
}

static fx_value *rewrite(fx_graph *g, fx_op *op, const char **why)
{
    fx_value *x, *q;

    (void)why;
    if (op->code == FX_OP_EXPERTS)
        return mark_experts(op);
    if (op->code != FX_OP_LINEAR && op->code != FX_OP_GATE)
        return NULL;
    x = fx_op_in(op, 0);
    if (x->type.dtype != FX_F32 || !fx_dtype_is_quant(fx_op_in(op, 1)->type.dtype))
        return NULL;
    q = quant_of(g, x, op);
    if (!q)
        return NULL;
    fx_op_set_in(op, 0, q);
    return &op->out[0];
}

const fx_pass fx_pass_quantize_activations = {
    .name = "quantize-activations", .root = FX_ROOT_ANY, .rewrite = rewrite,
};
