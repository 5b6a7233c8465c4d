/* fuse_gate.c - silu(x @ A) * (x @ B)  ==>  gate(x, A, B).
 *
 * Why:       one read of x and no intermediate rows; worth it at any size.
 * Needs:     weights held in one type (hold-weights), known before any step.
 * Preserves: values: the same sums in the same order.
 * Gives up:  when either product has another reader, a bias, a scale or a residual, or is
 *            of another type or number of columns (fuse-swiglu does that one). */
#include "passes/passes.h"

/* NULL: the gate can do this product. */
static const char *what_is_odd(const fx_op *linear)
{
    if (!fx_single_use(&linear->out[0]))
        return "a product has another reader";
    if (fx_op_in(linear, 2) || fx_op_in(linear, 3) || fx_op_f(linear, FX_A_SCALE) != 1)
        return "a product has a bias, a residual or a scale";
    return fx_value_is_const(fx_op_in(linear, 1)) ? NULL : "a weight isn't known before a step";
}

static fx_value *try(fx_graph *g, fx_op *mul, int i, const char **why)
{
    fx_op *silu = fx_arg_of(mul, i, FX_OP_SILU), *up = fx_arg_of(mul, 1 - i, FX_OP_LINEAR);
    fx_op *gate = silu ? fx_arg_of(silu, 0, FX_OP_LINEAR) : NULL;

    if (!gate || !up)
        return NULL;
    if (gate == up || fx_op_in(gate, 0) != fx_op_in(up, 0))
        return fx_give_up(why, gate == up ? "it is one product, not two" : "the products are of two inputs");
    if (!fx_single_use(&silu->out[0]))
        return fx_give_up(why, "the activation has another reader");
    *why = what_is_odd(gate) ? what_is_odd(gate) : what_is_odd(up);
    if (*why)
        return NULL;
    if (!fx_type_eq(&fx_op_in(gate, 1)->type, &fx_op_in(up, 1)->type))
        return fx_give_up(why, "the weights differ in type or shape");
    return FX_OP1(g->module, GATE, FX_IN(fx_op_in(up, 0), fx_op_in(gate, 1), fx_op_in(up, 1)), FX_NOATTR);
}

static fx_value *rewrite(fx_graph *g, fx_op *mul, const char **why)
{
    fx_value *v = try(g, mul, 0, why);

    return v ? v : try(g, mul, 1, why);
}

const fx_pass fx_pass_fuse_gate = { .name = "fuse-gate", .hides_products = true, .root = FX_OP_MUL, .rewrite = rewrite };
