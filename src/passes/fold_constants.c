/* fold_constants.c - computes what is known, and brings ops into the form others expect.
 *
 *     add(c, x), mul(c, x)           ==>  add(x, c), mul(x, c)       constants come second
 *     scale(x, 1), cast to x's type, slice of all, reshape to x's shape, concat of one  ==>  x
 *     slice of slice, reshape of reshape                             ==>  one
 *     add, mul, scale, relu, slice, reshape, concat of constants     ==>  a constant
 *
 * Preserves: values, bit for bit.  Functions that kernels compute by their own polynomials
 *            (silu, tanh, ...) aren't folded: the result would be another. */
#include "passes/passes.h"

/* A constant of f32, which is all that folds here. */
static bool is_constant(const fx_value *v)
{
    return fx_def_of(v, FX_OP_CONSTANT) && v->type.dtype == FX_F32;
}

static const float *values_of(const fx_value *v, int64_t *n)
{
    const fx_attr *a = fx_op_attr(v->def, FX_A_VALUES);

    *n = a->u.v.n;
    return a->u.v.at;
}

static fx_value *constant(fx_graph *g, const fx_type *t, const float *at, int64_t n)
{
    return FX_OP1(g->module, CONSTANT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, t), FX_AV(VALUES, at, n)));
}

static float *room(fx_graph *g, int64_t n)
{
    float *p = FX_ARENA_NEWN(g->module->arena, float, (size_t)n + 1);

    return p ? p : fx_module_fail(g->module, FORNAX_ENOMEM, "no memory for a constant");
}

static fx_value *fold_map(fx_graph *g, fx_op *op)
{
    fx_value *va = fx_op_in(op, 0), *vb = fx_op_in(op, 1);
    int64_t n, nb = 0;
    const float *a, *b;
    float *y;

    if (!is_constant(va) || (op->n_in == 2 && (!is_constant(vb) || !fx_type_eq(&va->type, &vb->type))))
        return NULL;
    a = values_of(va, &n);
    b = op->n_in == 2 ? values_of(vb, &nb) : NULL;
    y = room(g, n);
    for (int64_t i = 0; y && i < n; i++) {
        switch (op->code) {
        case FX_OP_ADD: y[i] = a[i] + b[i]; break;
        case FX_OP_MUL: y[i] = a[i] * b[i]; break;
        case FX_OP_SCALE: y[i] = a[i] * (float)fx_op_f(op, FX_A_FACTOR); break;
        default: y[i] = a[i] > 0 ? a[i] : 0; break;     /* RELU */
        }
    }
    return y ? constant(g, &va->type, y, n) : NULL;
}

/* add(c, x) and mul(c, x), where x isn't known. */
static fx_value *constant_last(fx_op *op)
{
    fx_value *a = fx_op_in(op, 0), *b = fx_op_in(op, 1);

    if (!fx_value_is_const(a) || fx_value_is_const(b))
        return NULL;
    fx_op_set_in(op, 0, b);
    fx_op_set_in(op, 1, a);
    return &op->out[0];
}

static fx_value *fold_slice(fx_graph *g, fx_op *op)
{
    fx_value *x = fx_op_in(op, 0);
    fx_op *inner = fx_arg_of(op, 0, FX_OP_SLICE);
    int64_t start = fx_op_i(op, FX_A_START), len = fx_op_i(op, FX_A_LENGTH), cols = fx_type_last(&x->type).n, n;
    const float *at;
    float *y;

    if (!fx_slice_is_columns(op))
        return NULL;
    if (len == cols)
        return x;
    if (inner && fx_slice_is_columns(inner))
        return FX_OP1(g->module, SLICE, FX_IN(fx_op_in(inner, 0)),
                      FX_ATTRS(FX_AI(START, start + fx_op_i(inner, FX_A_START)), FX_AI(LENGTH, len)));
    if (!is_constant(x))
        return NULL;
    at = values_of(x, &n);
    y = room(g, n / cols * len);
    if (!y)
        return NULL;
    for (int64_t r = 0; r < n / cols; r++)
        memcpy(y + r * len, at + r * cols + start, (size_t)len * sizeof(float));
    return constant(g, &op->out[0].type, y, n / cols * len);
}

static fx_value *fold_reshape(fx_graph *g, fx_op *op)
{
    fx_value *x = fx_op_in(op, 0);
    fx_op *inner = fx_arg_of(op, 0, FX_OP_RESHAPE);
    int64_t n;

    if (fx_type_eq(&x->type, &op->out[0].type))
        return x;
    if (inner)
        return FX_OP1(g->module, RESHAPE, FX_IN(fx_op_in(inner, 0)), FX_ATTRS(FX_AT(TYPE, &op->out[0].type)));
    if (!is_constant(x))
        return NULL;
    const float *at = values_of(x, &n);
    return constant(g, &op->out[0].type, at, n);
}

/* Constants along the first axis lie one after another as they are. */
static fx_value *fold_concat(fx_graph *g, fx_op *op)
{
    int64_t axis = fx_op_i(op, FX_A_AXIS), total = 0, n, done = 0;
    float *y;

    if (op->n_in == 1)
        return fx_op_in(op, 0);
    if (axis != 0 && axis != -op->out[0].type.rank)
        return NULL;
    for (int i = 0; i < op->n_in; i++) {
        if (!is_constant(fx_op_in(op, i)))
            return NULL;
        values_of(fx_op_in(op, i), &n);
        total += n;
    }
    y = room(g, total);
    for (int i = 0; y && i < op->n_in; i++) {
        const float *at = values_of(fx_op_in(op, i), &n);

        memcpy(y + done, at, (size_t)n * sizeof(float));
        done += n;
    }
    return y ? constant(g, &op->out[0].type, y, total) : NULL;
}

static fx_value *rewrite(fx_graph *g, fx_op *op, const char **why)
{
    fx_value *v = NULL;

    (void)why;

    switch (op->code) {
    case FX_OP_ADD:
    case FX_OP_MUL:
        v = fold_map(g, op);
        return v ? v : constant_last(op);
    case FX_OP_SCALE:
        return fx_op_f(op, FX_A_FACTOR) == 1 ? fx_op_in(op, 0) : fold_map(g, op);
    case FX_OP_RELU:
        return fold_map(g, op);
    case FX_OP_CAST:
        return fx_op_in(op, 0)->type.dtype == op->out[0].type.dtype ? fx_op_in(op, 0) : NULL;
    case FX_OP_SLICE:
        return fold_slice(g, op);
    case FX_OP_RESHAPE:
        return fold_reshape(g, op);
    case FX_OP_CONCAT:
        return fold_concat(g, op);
    default:
        return NULL;
    }
}

const fx_pass fx_pass_fold_constants = { .name = "fold-constants", .root = FX_ROOT_ANY, .rewrite = rewrite };
