/* fuse_gate.c - silu(x @ A) * (x @ B)  ==>  gate(x, A, B).
 *
 * Why:       one read of x and no intermediate rows; worth it at any size.
 * Needs:     weights held in one type (hold-weights), known before any step.
 * Preserves: values: the same sums in the same order.
 * Gives up:  when either product has another reader, a bias, a scale or a residual, or is
 *            of another type or number of columns (fuse-swiglu does that one). */
#include "passes/passes.h"

static bool is_plain(const fx_op *linear)
{
    return fx_single_use(&linear->out[0]) && !fx_op_in(linear, 2) && !fx_op_in(linear, 3) &&
           fx_op_f(linear, FX_A_SCALE) == 1 && fx_value_is_const(fx_op_in(linear, 1));
}

static fx_value *try(fx_graph *g, fx_op *mul, int i)
{
    fx_op *silu = fx_arg_of(mul, i, FX_OP_SILU), *up = fx_arg_of(mul, 1 - i, FX_OP_LINEAR);
    fx_op *gate = silu ? fx_arg_of(silu, 0, FX_OP_LINEAR) : NULL;

    if (!gate || !up || gate == up || fx_op_in(gate, 0) != fx_op_in(up, 0))
        return NULL;
    if (!fx_single_use(&silu->out[0]) || !is_plain(gate) || !is_plain(up))
        return NULL;
    if (!fx_type_eq(&fx_op_in(gate, 1)->type, &fx_op_in(up, 1)->type))
        return NULL;
    return FX_OP1(g->module, GATE, FX_IN(fx_op_in(up, 0), fx_op_in(gate, 1), fx_op_in(up, 1)), FX_NOATTR);
}

static fx_value *rewrite(fx_graph *g, fx_op *mul)
{
    fx_value *v = try(g, mul, 0);

    return v ? v : try(g, mul, 1);
}

const fx_pass fx_pass_fuse_gate = { .name = "fuse-gate", .hides_products = true, .root = FX_OP_MUL, .rewrite = rewrite };
