/* merge_matmuls.c - x @ A, x @ B, ...  ==>  slices of x @ concat(A, B, ...).
 *
 * Why:       one launch and one read of x; small matrices (k and v) fill the threads.
 * Needs:     biases folded (matmul-bias), gates fused: they would be taken apart.
 * Preserves: values: each column is the same sum.
 * Merges:    those products of x that are alike: weights of one held type, all with a
 *            bias of one type or none, the same scale, no residual, rows a multiple of 16 (a tile
 *            of the packed weights), so Q4_K_M merges q and k and leaves a Q6_K v alone. */
#include "passes/passes.h"

#define MAX_PARTS FX_PLAN_MAX_SRC

/* Why op can't be merged with any; NULL: it can. */
static const char *what_is_odd(const fx_op *op)
{
    const fx_value *w = fx_op_in(op, 1), *bias = fx_op_in(op, 2);

    if (!fx_value_is_const(w) || (bias && !fx_value_is_const(bias)))
        return "a weight or bias isn't known before a step";
    if (w->def->code == FX_OP_CONCAT || (bias && bias->def->code == FX_OP_CONCAT))
        return "it is of several weights already";
    if (w->type.dim[0].n % 16)
        return "its rows end inside a tile of 16";
    return fx_op_in(op, 3) ? "it has a residual" : NULL;
}

/* Why the two can't be merged; NULL: they can. */
static const char *difference(const fx_op *a, const fx_op *b)
{
    const fx_value *bias_a = fx_op_in(a, 2), *bias_b = fx_op_in(b, 2);

    if (what_is_odd(b))
        return what_is_odd(b);
    if (a->block != b->block)
        return "another product of its input is of another block";
    if (fx_op_in(a, 1)->type.dtype != fx_op_in(b, 1)->type.dtype)
        return "another product of its input has a weight of another type";
    if (fx_op_f(a, FX_A_SCALE) != fx_op_f(b, FX_A_SCALE))
        return "another product of its input has another scale";
    if (!bias_a != !bias_b || (bias_a && bias_a->type.dtype != bias_b->type.dtype))
        return "of it and another product of its input only one has a bias, or they differ in type";
    return NULL;
}

/* Products of root's x that may be merged with root, in the order of the block; 0 if one
 * comes before root (it is the root, then) or there are too few. */
static int collect(fx_op *root, fx_op *parts[MAX_PARTS], const char **why)
{
    int n = 0;

    for (const fx_use *u = fx_op_in(root, 0)->uses; u && n < MAX_PARTS; u = u->next) {
        fx_op *op = u->user;
        int i = n;

        if (op->code != FX_OP_LINEAR || u != &op->in[0])
            continue;
        if (op != root && difference(root, op)) {
            *why = difference(root, op);
            continue;
        }
        if (op != root && fx_op_before(op, root))
            return 0;
        for (; i > 0 && fx_op_before(op, parts[i - 1]); i--)
            parts[i] = parts[i - 1];
        parts[i] = op;
        n++;
    }
    return n < 2 ? 0 : n;
}

/* Operand 'which' of all parts, one after another; NULL if they have none. */
static fx_value *joined(fx_graph *g, fx_op *const *parts, int n, int which)
{
    fx_value *in[MAX_PARTS];

    if (!fx_op_in(parts[0], which))
        return NULL;
    for (int i = 0; i < n; i++) {
        in[i] = fx_op_in(parts[i], which);
        fx_value_hoist(in[i], parts[0]);
    }
    return fx_op_result(fx_op_make(g->module, &(fx_op_init){ .code = FX_OP_CONCAT, .in = in, .n_in = n,
                                                             FX_ATTRS(FX_AI(AXIS, 0)), .file = __FILE__,
                                                             .line = __LINE__ }));
}

/* "blk.0.attn_q+attn_k+attn_v" */
static fx_str joined_name(fx_graph *g, fx_op *const *parts, int n)
{
    fx_str name = parts[0]->out[0].name;

    for (int i = 1; i < n; i++) {
        fx_str more = parts[i]->out[0].name;
        size_t dot = more.n;

        while (dot && more.p[dot - 1] != '.')
            dot--;
        char *p = fx_arena_printf(g->module->arena, "%.*s+%.*s", FX_STR_ARG(name), (int)(more.n - dot), more.p + dot);
        name = p ? fx_str_of(p) : name;
    }
    return name;
}

static fx_value *rewrite(fx_graph *g, fx_op *root, const char **why)
{
    fx_op *parts[MAX_PARTS];
    fx_value *w, *y, *first = NULL;
    int n = what_is_odd(root) ? 0 : collect(root, parts, why);
    int64_t start = 0;

    if (!n)
        return NULL;
    w = joined(g, parts, n, 1);
    y = FX_OP1(g->module, LINEAR, FX_IN(fx_op_in(root, 0), w, joined(g, parts, n, 2), NULL),
               FX_ATTRS(FX_AF(SCALE, fx_op_f(root, FX_A_SCALE))), .name = joined_name(g, parts, n));
    for (int i = 0; i < n; i++) {
        int64_t cols = fx_op_in(parts[i], 1)->type.dim[0].n;
        fx_value *v = FX_OP1(g->module, SLICE, FX_IN(y), FX_ATTRS(FX_AI(START, start), FX_AI(LENGTH, cols)),
                             .name = parts[i]->out[0].name);

        if (!v)
            return NULL;
        start += cols;
        if (i == 0) {
            first = v;
            continue;
        }
        fx_value_replace(&parts[i]->out[0], v);
        fx_op_erase(parts[i]);
    }
    return first;
}

const fx_pass fx_pass_merge_matmuls = { .name = "merge-matmuls", .root = FX_OP_LINEAR, .rewrite = rewrite };
