/* shape_flow.c - shape rules of what values come from and go to: sources, control flow, buffers,
 * calls, others' kernels. */
#include "graph/shape_int.h"

static bool all_static(const fx_type *t)
{
    for (int i = 0; i < t->rank; i++) {
        if (!fx_dim_is_static(t->dim[i]))
            return false;
    }
    return true;
}

/* ---- Sources and ends -------------------------------------------------------------------- */

static bool weight_fits(fx_module *m, const fx_op *op, const fx_type *t)
{
    int64_t align = fx_op_i(op, FX_A_ALIGN);
    bool quant = t->dtype < FX_DTYPE_COUNT && fx_dtype_is_quant(t->dtype);

    if ((!is_plain(t) && !quant) || t->buffer)
        return fx_rule_bad(m, op, "expected a type of numbers, bools or quantized blocks");
    if (!all_static(t))
        return fx_rule_bad(m, op, "its sizes must be numbers");
    if (quant && (t->rank == 0 || t->dim[t->rank - 1].n % fx_dtype_rows[t->dtype].block_elems))
        return fx_rule_bad(m, op, "its last axis must be whole blocks");
    if (align < 0 || align > 4096 || (align & (align - 1)))
        return fx_rule_bad(m, op, "align must be a power of 2 up to 4096");
    return true;
}

bool fx_rule_typed(fx_module *m, fx_op *op)
{
    const fx_type *t = fx_op_attr(op, FX_A_TYPE)->u.type;

    if (op->code == FX_OP_WEIGHT && !weight_fits(m, op, t))
        return false;
    if (t->buffer && !is_plain(t))
        return fx_rule_bad(m, op, "a buffer holds numbers or bools");
    return set_out(op, 0, *t);
}

bool fx_rule_constant(fx_module *m, fx_op *op)
{
    const fx_type *t = fx_op_attr(op, FX_A_TYPE)->u.type;
    const fx_attr *values = fx_op_attr(op, FX_A_VALUES);
    int64_t n = 1;

    if (!is_plain(t) || t->buffer || values->u.v.dtype != t->dtype)
        return fx_rule_bad(m, op, "expected a type of numbers or bools, and values of it");
    for (int i = 0; i < t->rank; i++) {
        if (!fx_dim_is_static(t->dim[i]) || (t->dim[i].n && n > INT64_MAX / t->dim[i].n))
            return fx_rule_bad(m, op, "its sizes must be numbers");
        n *= t->dim[i].n;
    }
    if (n != values->u.v.n)
        return fx_rule_bad(m, op, "%lld values, not as many values as its shape has", (long long)values->u.v.n);
    return set_out(op, 0, *t);
}

bool fx_rule_chain(fx_module *m, fx_op *op)
{
    (void)m;
    return set_out(op, 0, fx_type0(FX_CHAIN));
}

bool fx_rule_output(fx_module *m, fx_op *op)
{
    (void)m, (void)op;
    return true;
}

bool fx_rule_yield(fx_module *m, fx_op *op)
{
    (void)m, (void)op;
    return true;
}

bool fx_rule_transfer(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);

    if (!is_plain(x))
        return fx_rule_bad(m, op, "expected numbers or bools");
    return set_out(op, 0, *x);
}

/* ---- Control flow ---------------------------------------------------------------------------- */

/* The yield that ends region i, or NULL. */
static const fx_op *yield_of(const fx_op *op, int i)
{
    const fx_op *end = op->regions[i]->first->last;

    return end && end->code == FX_OP_YIELD ? end : NULL;
}

bool fx_rule_cond(fx_module *m, fx_op *op)
{
    const fx_op *a, *b;

    if (!is_scalar(in_type(op, 0), FX_BOOL) || (in_type(op, 1) && !is_chain(in_type(op, 1))))
        return fx_rule_bad(m, op, "expected a bool scalar and a chain");
    if (op->n_regions != 2)
        return fx_rule_bad(m, op, "expected two regions");
    a = yield_of(op, 0);
    b = yield_of(op, 1);
    if (!a || !b || a->n_in != b->n_in)
        return fx_rule_bad(m, op, "both regions must end in a yield of as many values");
    for (int i = 0; i < op->n_out; i++) {
        if (!fx_type_eq(in_type(a, i), in_type(b, i)))
            return fx_rule_bad(m, op, "its regions yield different types");
        set_out(op, i, *in_type(a, i));
    }
    return true;
}

/* Whether a region takes values of these types and ends in a yield. */
static bool takes_the_values(const fx_op *op, int region)
{
    const fx_block *b = op->regions[region]->first;

    if (b->n_args != op->n_in || !yield_of(op, region))
        return false;
    for (int i = 0; i < op->n_in; i++) {
        if (!fx_type_eq(&b->args[i].type, in_type(op, i)))
            return false;
    }
    return true;
}

bool fx_rule_while(fx_module *m, fx_op *op)
{
    const fx_op *test, *next;

    if (op->n_regions != 2 || !takes_the_values(op, 0) || !takes_the_values(op, 1))
        return fx_rule_bad(m, op, "expected two regions whose arguments have the types of its operands");
    test = yield_of(op, 0);
    next = yield_of(op, 1);
    if (test->n_in != 1 || !is_scalar(in_type(test, 0), FX_BOOL))
        return fx_rule_bad(m, op, "its first region must yield one bool scalar");
    if (next->n_in != op->n_in)
        return fx_rule_bad(m, op, "its second region must yield %d values", op->n_in);
    for (int i = 0; i < op->n_in; i++) {
        if (!fx_type_eq(in_type(next, i), in_type(op, i)))
            return fx_rule_bad(m, op, "value %d comes back as another type", i);
        set_out(op, i, *in_type(op, i));
    }
    return true;
}

/* ---- Calls ------------------------------------------------------------------------------------- */

#define MAX_BOUND 64

typedef struct binding {
    int n;
    fx_str name[MAX_BOUND];
    fx_dim dim[MAX_BOUND];
} binding;

static bool find_bound(void *user, fx_str name, fx_dim *now)
{
    const binding *b = user;

    for (int i = 0; i < b->n; i++) {
        if (fx_str_eq(b->name[i], name)) {
            *now = b->dim[i];
            return true;
        }
    }
    return false;
}

/* What the callee's names mean for this call: a name takes the first size that meets it. */
static bool bind_type(binding *b, const fx_type *want, const fx_type *given)
{
    fx_str name;
    fx_dim was;

    if (want->dtype != given->dtype || want->rank != given->rank || want->buffer != given->buffer)
        return false;
    for (int i = 0; i < want->rank; i++) {
        if (!fx_dim_is_symbol(want->dim[i], &name) || find_bound(b, name, &was))
            continue;
        if (b->n == MAX_BOUND)
            return false;
        b->name[b->n] = name;
        b->dim[b->n++] = given->dim[i];
    }
    return true;
}

static bool renamed(fx_module *m, const fx_op *op, binding *b, const fx_type *t, fx_type *out)
{
    *out = *t;
    for (int i = 0; i < t->rank; i++) {
        if (!fx_rule_dim(m, op, fx_dim_subst(m->arena, t->dim[i], find_bound, b, &out->dim[i])))
            return false;
    }
    return true;
}

/* Operands against the callee's inputs, whose names the call binds. */
static bool inputs_fit(fx_module *m, const fx_op *op, const fx_graph *g, binding *b)
{
    int n = 0;

    for (const fx_op *in = fx_graph_body(g)->first; in; in = in->next) {
        fx_type want;

        if (in->code != FX_OP_INPUT)
            continue;
        if (n >= op->n_in)
            return fx_rule_bad(m, op, "%.*s takes more than %d operands", FX_STR_ARG(g->name), op->n_in);
        if (!bind_type(b, &in->out[0].type, in_type(op, n)))
            return fx_rule_bad(m, op, "operand %d isn't of the type that %.*s takes", n, FX_STR_ARG(g->name));
        if (!renamed(m, op, b, &in->out[0].type, &want))
            return false;
        if (!fx_type_eq(&want, in_type(op, n)))
            return fx_rule_bad(m, op, "operand %d hasn't the sizes that %.*s takes", n, FX_STR_ARG(g->name));
        n++;
    }
    return n == op->n_in || fx_rule_bad(m, op, "%.*s takes %d operands", FX_STR_ARG(g->name), n);
}

bool fx_rule_call(fx_module *m, fx_op *op)
{
    fx_str name = fx_op_attr(op, FX_A_CALLEE)->u.s;
    const fx_graph *g = fx_graph_find(m, name);
    const fx_op *end = g ? fx_graph_output(g) : NULL;
    binding b = { .n = 0 };
    fx_type y;

    if (!end)
        return fx_rule_bad(m, op, "no finished graph %.*s in the module", FX_STR_ARG(name));
    if (!inputs_fit(m, op, g, &b))
        return false;
    for (int i = 0; i < op->n_out; i++) {
        if (!renamed(m, op, &b, in_type(end, i), &y))
            return false;
        set_out(op, i, y);
    }
    return true;
}

/* ---- Buffers ------------------------------------------------------------------------------------- */

bool fx_rule_buffer_create(fx_module *m, fx_op *op)
{
    const fx_type *t = fx_op_attr(op, FX_A_TYPE)->u.type;

    if (!t->buffer || !is_plain(t))
        return fx_rule_bad(m, op, "expected a buffer type of numbers or bools");
    return set_out(op, 0, *t);
}

/* A buffer first and a chain last. */
static bool buffer_and_chain(fx_module *m, const fx_op *op)
{
    return (in_type(op, 0)->buffer && is_chain(in_type(op, op->n_in - 1))) ||
           fx_rule_bad(m, op, "expected a buffer, and a chain last");
}

bool fx_rule_buffer_load(fx_module *m, fx_op *op)
{
    fx_type y = *in_type(op, 0);

    y.buffer = false;
    return buffer_and_chain(m, op) && set_out(op, 0, y) && set_out(op, 1, fx_type0(FX_CHAIN));
}

bool fx_rule_buffer_store(fx_module *m, fx_op *op)
{
    fx_type held = *in_type(op, 0);

    held.buffer = false;
    if (!buffer_and_chain(m, op))
        return false;
    if (!fx_type_eq(&held, in_type(op, 1)))
        return fx_rule_bad(m, op, "the value hasn't the type that the buffer holds");
    return set_out(op, 0, fx_type0(FX_CHAIN));
}

bool fx_rule_buffer_store_slice(fx_module *m, fx_op *op)
{
    const fx_type *b = in_type(op, 0), *x = in_type(op, 1);
    const fx_attr *starts = fx_op_attr(op, FX_A_STARTS), *steps = fx_op_attr(op, FX_A_STEPS);

    if (!buffer_and_chain(m, op))
        return false;
    if (x->dtype != b->dtype || x->buffer || x->rank != b->rank)
        return fx_rule_bad(m, op, "the value hasn't the dtype and rank of the buffer");
    if (starts->u.dims.n != b->rank || (steps->u.ints.n && steps->u.ints.n != b->rank))
        return fx_rule_bad(m, op, "expected a start and a step for each axis");
    for (int i = 0; i < b->rank; i++) {
        if (!fx_rule_run_fits(b->dim[i], starts->u.dims.at[i], x->dim[i], fx_op_int_at(op, FX_A_STEPS, i, 1)))
            return fx_rule_bad(m, op, "the value leaves axis %d of the buffer", i);
    }
    return set_out(op, 0, fx_type0(FX_CHAIN));
}

/* ---- Others' kernels, effects, random numbers --------------------------------------------------- */

static bool custom(fx_module *m, fx_op *op, int n_types)
{
    const fx_attr *types = fx_op_attr(op, FX_A_TYPES);

    if (!fx_op_attr(op, FX_A_KERNEL_NAME)->u.s.n)
        return fx_rule_bad(m, op, "expected the name of a kernel");
    for (int i = 0; i < n_types; i++) {
        if (!is_plain(&types->u.types.at[i]) || types->u.types.at[i].buffer)
            return fx_rule_bad(m, op, "result %d must be numbers or bools", i);
        set_out(op, i, types->u.types.at[i]);
    }
    return true;
}

bool fx_rule_custom(fx_module *m, fx_op *op)
{
    return custom(m, op, op->n_out);
}

bool fx_rule_inplace_custom(fx_module *m, fx_op *op)
{
    bool buffer = false;

    for (int i = 0; i < op->n_in; i++)
        buffer = buffer || (in_type(op, i) && in_type(op, i)->buffer);
    if (!buffer || !is_chain(in_type(op, op->n_in - 1)))
        return fx_rule_bad(m, op, "expected a buffer among its operands, and a chain last");
    return custom(m, op, op->n_out - 1) && set_out(op, op->n_out - 1, fx_type0(FX_CHAIN));
}

bool fx_rule_print(fx_module *m, fx_op *op)
{
    if ((in_type(op, 0) && !is_plain(in_type(op, 0))) || !is_chain(in_type(op, 1)))
        return fx_rule_bad(m, op, "expected numbers or bools, and a chain");
    return set_out(op, 0, fx_type0(FX_CHAIN));
}

bool fx_rule_random(fx_module *m, fx_op *op)
{
    const fx_type *t = fx_op_attr(op, FX_A_TYPE)->u.type;
    bool normal = op->code == FX_OP_RANDOM_NORMAL;
    double a = fx_op_f(op, normal ? FX_A_MEAN : FX_A_LOW), b = fx_op_f(op, normal ? FX_A_STD : FX_A_HIGH);

    if (!is_scalar(in_type(op, 0), FX_I64))
        return fx_rule_bad(m, op, "seed must be an i64 scalar");
    if (!is_floats(t) || t->buffer)
        return fx_rule_bad(m, op, "expected a type of floats");
    if (!isfinite(a) || !isfinite(b) || (normal ? b < 0 : b < a))
        return fx_rule_bad(m, op, normal ? "mean must be finite, std finite and not negative"
                                         : "low and high must be finite, low at most high");
    return set_out(op, 0, *t);
}
