/* matmul_epilogue.c - what is added to a product goes into it: two passes.
 *
 *     add(linear(x, w), b)  ==>  linear(x, w, bias=b)            b a vector known before any step
 *     add(linear(x, w), r)  ==>  linear(x, w, residual=r)        r rows of the same shape
 *
 * Why:       the tile is in cache when it is added to; a following norm reads one buffer.
 * Needs:     matmul-bias first, so that the order is product, bias, residual.
 * Preserves: values: floats add in the same order (a sum of two commutes exactly).
 * Gives up:  when the product has another reader or its place is taken. */
#include "passes/passes.h"

static fx_value *with(fx_graph *g, fx_op *linear, fx_value *bias, fx_value *residual)
{
    return FX_OP1(g->module, LINEAR, FX_IN(fx_op_in(linear, 0), fx_op_in(linear, 1), bias, residual),
                  FX_ATTRS(FX_AF(SCALE, fx_op_f(linear, FX_A_SCALE))), .name = linear->out[0].name);
}

static fx_value *rewrite_bias(fx_graph *g, fx_op *add, const char **why)
{
    for (int i = 0; i < 2; i++) {
        fx_op *linear = fx_arg_of(add, i, FX_OP_LINEAR);
        fx_value *b = fx_other_in(add, i);

        if (!linear || b->type.rank != 1)
            continue;                    /* a residual, perhaps */
        if (!fx_single_use(&linear->out[0]))
            *why = "the product has another reader";
        else if (fx_op_in(linear, 2) || fx_op_in(linear, 3))
            *why = "the product has a bias or a residual already";
        else if (fx_value_is_const(b) && fx_dim_eq(b->type.dim[0], linear->out[0].type.dim[1]))
            return with(g, linear, b, NULL);
        else
            *why = "what is added isn't known before a step, or not as long as a row";
    }
    return NULL;
}

/* The product of the two to fold into: the later one, so that nothing moves far. */
static int pick(const fx_op *add, const char **why)
{
    int best = -1;

    for (int i = 0; i < 2; i++) {
        fx_op *linear = fx_arg_of(add, i, FX_OP_LINEAR);

        if (!linear)
            continue;
        if (!fx_single_use(&linear->out[0]) || fx_op_in(linear, 3) || linear->block != add->block) {
            *why = fx_op_in(linear, 3) ? "the product has a residual already" : "the product has another reader, or is of another block";
            continue;
        }
        if (best < 0 || fx_op_before(fx_op_in(add, best)->def, linear))
            best = i;
    }
    return best;
}

static fx_value *rewrite_residual(fx_graph *g, fx_op *add, const char **why)
{
    int i = pick(add, why);
    fx_op *linear = i < 0 ? NULL : fx_op_in(add, i)->def;

    if (!linear)
        return NULL;
    if (!fx_type_eq(&linear->out[0].type, &fx_other_in(add, i)->type))
        return fx_give_up(why, "what is added has another shape");
    return with(g, linear, fx_op_in(linear, 2), fx_other_in(add, i));
}

const fx_pass fx_pass_matmul_bias = { .name = "matmul-bias", .root = FX_OP_ADD, .rewrite = rewrite_bias };
const fx_pass fx_pass_matmul_residual = { .name = "matmul-residual", .root = FX_OP_ADD, .rewrite = rewrite_residual };
