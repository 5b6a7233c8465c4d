/* fuse_norm.c - what stands before and behind an RMS norm goes into it: two passes.
 *
 * add-rmsnorm:  rmsnorm(add(a, b), w)  ==>  sum, y = add_rmsnorm(a, b, w)
 *     Why:       the sum is read while it is in registers; later readers of it (the residual
 *                stream) get the first result, so chains fold from layer to layer.
 *     Gives up:  when the add broadcasts, the norm is by heads, or w isn't known by then.
 *
 * norm-quant:   quant(rmsnorm(x, w))  ==>  rmsnorm_quant(x, w), the same for add_rmsnorm
 *     Why:       no f32 row goes to memory and back; it is written only if someone else
 *                reads it (results without a reader aren't made).
 *     Gives up:  when the norm is by heads.
 *
 * Preserves: values. */
#include "passes/passes.h"

static bool by_heads(const fx_value *x, const fx_value *w)
{
    return !fx_dim_eq(fx_type_last(&x->type), w->type.dim[0]);
}

/* Brings w in front of op if it isn't; false if it can't be. */
static bool bring(fx_value *w, fx_op *op)
{
    if (fx_value_is_const(w)) {
        fx_value_hoist(w, op);
        return true;
    }
    return w->def && w->def->block == op->block && fx_op_before(w->def, op);
}

static fx_value *rewrite_add(fx_graph *g, fx_op *norm, const char **why)
{
    fx_op *add = fx_arg_of(norm, 0, FX_OP_ADD), *fused;
    fx_value *w = fx_op_in(norm, 1);

    if (!add)
        return NULL;
    if (add->block != norm->block || add->out[0].type.dtype != FX_F32)
        return fx_give_up(why, "the sum isn't f32, or of another block");
    if (by_heads(&add->out[0], w))
        return fx_give_up(why, "the norm is by heads");
    if (!fx_type_eq(&fx_op_in(add, 0)->type, &fx_op_in(add, 1)->type))
        return fx_give_up(why, "the sum broadcasts");
    if (!bring(w, add))
        return fx_give_up(why, "the norm's weight isn't there when the sum is");
    fx_insert_at(g->module, fx_before(add));
    fused = FX_OP(g->module, ADD_RMSNORM, FX_IN(fx_op_in(add, 0), fx_op_in(add, 1), w),
                  FX_ATTRS(FX_AF(EPS, fx_op_f(norm, FX_A_EPS)), FX_AF(OFFSET, fx_op_f(norm, FX_A_OFFSET))));
    if (!fused)
        return NULL;
    fx_op_set_in(norm, 0, &fused->out[0]);
    fx_value_replace(&add->out[0], &fused->out[0]);
    fx_op_erase(add);
    return &fused->out[1];
}

static fx_value *rewrite_quant(fx_graph *g, fx_op *quant, const char **why)
{
    fx_op *norm = fx_arg_of(quant, 0, FX_OP_RMSNORM), *fused;
    fx_value *residual = NULL, *w;
    int y = 0;

    if (!norm) {
        norm = fx_arg_of(quant, 0, FX_OP_ADD_RMSNORM);
        y = 1;
        if (!norm)
            return NULL;
        if (fx_op_in(quant, 0) != &norm->out[1])
            return fx_give_up(why, "what is rounded is the sum, not the norm");
        residual = fx_op_in(norm, 1);
    }
    w = fx_op_in(norm, y ? 2 : 1);
    if (norm->block != quant->block || by_heads(fx_op_in(norm, 0), w))
        return fx_give_up(why, norm->block != quant->block ? "the norm is of another block" : "the norm is by heads");
    fx_insert_at(g->module, fx_before(norm));
    fused = FX_OP(g->module, RMSNORM_QUANT, FX_IN(fx_op_in(norm, 0), residual, w),
                  FX_ATTRS(FX_AF(EPS, fx_op_f(norm, FX_A_EPS)), FX_AF(OFFSET, fx_op_f(norm, FX_A_OFFSET))));
    if (!fused)
        return NULL;
    if (y)
        fx_value_replace(&norm->out[0], &fused->out[0]);
    fx_value_replace(&norm->out[y], &fused->out[1]);
    fx_drop_dead(norm);
    return &fused->out[2];
}

const fx_pass fx_pass_add_rmsnorm = { .name = "add-rmsnorm", .root = FX_OP_RMSNORM, .rewrite = rewrite_add };
const fx_pass fx_pass_norm_quant = { .name = "norm-quant", .root = FX_OP_QUANT, .rewrite = rewrite_quant };
