/* gather_early.c - gather(op(x))  ==>  op(gather(x)), for ops that work row by row.
 *
 * Why:       only rows that want logits need what follows the last layer's keys and values: a
 *            prefill chunk skips that layer's output and feed-forward products. Costs a
 *            second small gather.
 * Needs:     the clear ops: comes before fusions.
 * Preserves: values: a row's result doesn't depend on the other rows (the reduction contract).
 * Gives up:  at ops whose result someone else reads, and at those that read the step's row
 *            table (attend, kv_store).
 * Two gathers of the same rows of one value become one. */
#include "passes/passes.h"

/* The operands of a by-row op that hold rows of the result, as bits; 0: not such an op. */
static unsigned row_operands(const fx_op *op)
{
    switch (op->code) {
    case FX_OP_ADD:
    case FX_OP_MUL:
    case FX_OP_GATED_NORM:
    case FX_OP_SWIGLU:
    case FX_OP_EXPERTS:
    case FX_OP_SPLICE:
        return 1 | 2;
    case FX_OP_ROUTE:
    case FX_OP_SCALE:
    case FX_OP_SILU:
    case FX_OP_GELU:
    case FX_OP_GELU_TANH:
    case FX_OP_RELU:
    case FX_OP_RELU2:
    case FX_OP_CLAMP:
    case FX_OP_SIGMOID:
    case FX_OP_TANH:
    case FX_OP_RMSNORM:
    case FX_OP_LAYERNORM:
    case FX_OP_SOFTMAX:
    case FX_OP_SLICE:
    case FX_OP_GATE:
    case FX_OP_BY_HEAD:
        return 1;
    case FX_OP_LINEAR:
        return 1 | 8;
    default:
        return 0;
    }
}

static fx_value *earlier_twin(fx_op *gather)
{
    for (const fx_use *u = fx_op_in(gather, 0)->uses; u; u = u->next) {
        fx_op *op = u->user;

        if (op != gather && op->code == FX_OP_GATHER && fx_gather_is_rows(op) && op->block == gather->block &&
            fx_op_in(op, 1) == fx_op_in(gather, 1) && fx_op_before(op, gather))
            return &op->out[0];
    }
    return NULL;
}

/* Whether operand i is one row for all, which isn't gathered. */
static bool is_shared(const fx_op *op, int i)
{
    const fx_type *t = &fx_op_in(op, i)->type;

    return t->rank < 2 || (fx_dim_eq(t->dim[0], fx_dim_of(1)) && !fx_dim_eq(op->out[0].type.dim[0], fx_dim_of(1)));
}

/* Whether an op that has axes works within rows. */
static bool keeps_rows(const fx_op *op)
{
    if (op->code == FX_OP_SLICE)
        return fx_slice_is_columns(op);
    return op->code != FX_OP_SOFTMAX || fx_op_axis(op, FX_A_AXIS, op->out[0].type.rank) == op->out[0].type.rank - 1;
}

static bool can_gather(const fx_op *op, unsigned rows)
{
    for (int i = 0; i < op->n_in; i++) {
        const fx_value *v = fx_op_in(op, i);

        if (v && (rows >> i & 1) && !is_shared(op, i) && (v->type.rank != 2 || v->type.dtype != FX_F32))
            return false;
    }
    return true;
}

static fx_value *rewrite(fx_graph *g, fx_op *gather, const char **why)
{
    fx_value *x = fx_op_in(gather, 0), *wanted = fx_op_in(gather, 1), *twin = earlier_twin(gather), *in[8];
    fx_op *op = x->def;
    unsigned rows = op ? row_operands(op) : 0;

    if (!fx_gather_is_rows(gather))
        return NULL;
    if (twin)
        return twin;
    if (!rows || !keeps_rows(op))
        return op && op->n_in ? fx_give_up(why, "what it takes rows of isn't made row by row") : NULL;
    if (op->block != gather->block || !fx_single_use(x))
        return fx_give_up(why, "all rows have another reader, or are of another block");
    if (op->n_in > (int)FX_COUNT(in) || !can_gather(op, rows))
        return fx_give_up(why, "what it takes rows of isn't made of rows of f32");
    for (int i = 0; i < op->n_in; i++) {
        in[i] = fx_op_in(op, i);
        if (in[i] && (rows >> i & 1) && !is_shared(op, i))
            in[i] = FX_OP1(g->module, GATHER, FX_IN(in[i], wanted), FX_ATTRS(FX_AI(AXIS, 0)), .name = gather->out[0].name);
    }
    return fx_op_result(fx_op_make(g->module, &(fx_op_init){ .code = op->code, .in = in, .n_in = op->n_in,
                                                             .attrs = op->attrs, .n_attrs = op->n_attrs,
                                                             .name = x->name, .file = __FILE__, .line = __LINE__ }));
}

const fx_pass fx_pass_gather_early = { .name = "gather-early", .root = FX_OP_GATHER, .rewrite = rewrite };
