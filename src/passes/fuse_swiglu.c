/* fuse_swiglu.c - silu(a) * b  ==>  swiglu(a, b).
 *
 * Why:       one pass over the rows instead of two.
 * Gives up:  when silu(a) has another reader, or a and b differ in shape. */
#include "passes/passes.h"

static fx_value *rewrite(fx_graph *g, fx_op *mul, const char **why)
{
    for (int i = 0; i < 2; i++) {
        fx_op *silu = fx_arg_of(mul, i, FX_OP_SILU);
        fx_value *a = silu ? fx_op_in(silu, 0) : NULL, *b = fx_other_in(mul, i);

        if (!silu)
            continue;
        if (fx_single_use(&silu->out[0]) && a->type.dtype == FX_F32 && fx_type_eq(&a->type, &b->type))
            return FX_OP1(g->module, SWIGLU, FX_IN(a, b), FX_NOATTR);
        *why = fx_single_use(&silu->out[0]) ? "the factors differ in shape, or aren't f32" : "the activation has another reader";
    }
    return NULL;
}

const fx_pass fx_pass_fuse_swiglu = { .name = "fuse-swiglu", .root = FX_OP_MUL, .rewrite = rewrite };
