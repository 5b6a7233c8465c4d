/* shape_map.c - shape rules of what works element by element, and what all rules share. */
#include "graph/shape_int.h"

#include <stdarg.h>

#include "base/text.h"
#include "tensor/scalar.h"

bool fx_rule_bad(fx_module *m, const fx_op *op, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    fx_vformat(text, sizeof(text), fmt, ap);
    va_end(ap);
    fx_module_fail(m, FORNAX_EFORMAT, "%s: %s", fx_opcode_name(op->code), text);
    return false;
}

bool fx_rule_dim(fx_module *m, const fx_op *op, fx_status st)
{
    if (st == FORNAX_ENOMEM)
        return fx_module_fail(m, st, "no memory for a graph");
    return st == FORNAX_OK || fx_rule_bad(m, op, "a size is too large");
}

bool fx_rule_axis(fx_module *m, const fx_op *op, fx_attr_key key, int rank, int *axis)
{
    int64_t a = fx_op_i(op, key);

    if (a < -rank || a >= rank)
        return fx_rule_bad(m, op, "%s %lld, there are %d axes", fx_attr_rows[key].text, (long long)a, rank);
    *axis = fx_op_axis(op, key, rank);
    return true;
}

fx_status fx_count_elements(fx_arena *a, const fx_type *t, fx_dim *out)
{
    *out = fx_dim_of(1);
    for (int i = 0; i < t->rank; i++)
        FX_TRY(fx_dim_mul(a, *out, t->dim[i], out));
    return FORNAX_OK;
}

bool fx_rule_broadcast(fx_module *m, const fx_op *op, const fx_type *a, const fx_type *b, fx_type *y)
{
    fx_type out = a->rank >= b->rank ? *a : *b;

    for (int i = 1; i <= out.rank; i++) {
        fx_dim da = i <= a->rank ? a->dim[a->rank - i] : fx_dim_of(1);
        fx_dim db = i <= b->rank ? b->dim[b->rank - i] : fx_dim_of(1);

        if (!fx_dim_eq(da, db) && !is_one(da) && !is_one(db))
            return fx_rule_bad(m, op, "shapes don't broadcast");
        out.dim[out.rank - i] = is_one(da) ? db : da;
    }
    out.dtype = y->dtype;
    *y = out;
    return true;
}

bool fx_rule_promote(fx_module *m, const fx_op *op, const fx_type *a, const fx_type *b, fx_dtype *out)
{
    if (fx_dtype_promote(a->dtype, b->dtype, out))
        return true;
    return fx_rule_bad(m, op, "neither %s nor %s holds all numbers of the other: cast one", fx_vtype_name(a->dtype),
                       fx_vtype_name(b->dtype));
}

bool fx_rule_run_fits(fx_dim size, fx_dim start, fx_dim n, int64_t step)
{
    if (step == 0 || step > INT32_MAX || step < -INT32_MAX)
        return false;
    if (!fx_dim_is_static(size) || !fx_dim_is_static(start) || !fx_dim_is_static(n))
        return true;
    if (n.n == 0)
        return true;
    if (start.n < 0 || start.n >= size.n)
        return false;
    return (n.n - 1) <= (step > 0 ? (size.n - 1 - start.n) / step : start.n / -step);
}

/* ---- Two operands ---------------------------------------------------------------------------- */

/* Both promoted and broadcast into y. */
static bool pair(fx_module *m, const fx_op *op, fx_type *y)
{
    const fx_type *a = in_type(op, 0), *b = in_type(op, 1);

    return fx_rule_promote(m, op, a, b, &y->dtype) && fx_rule_broadcast(m, op, a, b, y);
}

static bool two_numbers(fx_module *m, const fx_op *op)
{
    return (is_numbers(in_type(op, 0)) && is_numbers(in_type(op, 1))) || fx_rule_bad(m, op, "expected two of numbers");
}

bool fx_rule_arithmetic(fx_module *m, fx_op *op)
{
    fx_type y = { 0 };

    return two_numbers(m, op) && pair(m, op, &y) && set_out(op, 0, y);
}

bool fx_rule_divide(fx_module *m, fx_op *op)
{
    const fx_type *a = in_type(op, 0), *b = in_type(op, 1);
    fx_type y = { .dtype = FX_F64 };

    if (!two_numbers(m, op))
        return false;
    if (is_ints(a) && is_ints(b))
        return fx_rule_broadcast(m, op, a, b, &y) && set_out(op, 0, y);
    return pair(m, op, &y) && set_out(op, 0, y);
}

static bool compare(fx_module *m, fx_op *op)
{
    fx_type y = { 0 };

    if (!pair(m, op, &y))
        return false;
    y.dtype = FX_BOOL;
    return set_out(op, 0, y);
}

bool fx_rule_equal(fx_module *m, fx_op *op)
{
    if (!is_plain(in_type(op, 0)) || !is_plain(in_type(op, 1)))
        return fx_rule_bad(m, op, "expected numbers or bools");
    return compare(m, op);
}

bool fx_rule_greater(fx_module *m, fx_op *op)
{
    return two_numbers(m, op) && compare(m, op);
}

bool fx_rule_logic(fx_module *m, fx_op *op)
{
    if (in_type(op, 0)->dtype != FX_BOOL || in_type(op, 1)->dtype != FX_BOOL)
        return fx_rule_bad(m, op, "expected bools");
    return compare(m, op);
}

bool fx_rule_where(fx_module *m, fx_op *op)
{
    const fx_type *p = in_type(op, 0), *a = in_type(op, 1), *b = in_type(op, 2);
    fx_type y = { 0 };

    if (p->dtype != FX_BOOL || !is_plain(a) || !is_plain(b))
        return fx_rule_bad(m, op, "expected bools, and two of numbers or bools");
    return fx_rule_promote(m, op, a, b, &y.dtype) && fx_rule_broadcast(m, op, a, b, &y) &&
           fx_rule_broadcast(m, op, p, &y, &y) && set_out(op, 0, y);
}

bool fx_rule_outer(fx_module *m, fx_op *op)
{
    const fx_type *a = in_type(op, 0), *b = in_type(op, 1);
    fx_dtype t;

    if (!two_numbers(m, op) || !fx_rule_promote(m, op, a, b, &t))
        return false;
    if (a->rank != 1 || b->rank != 1)
        return fx_rule_bad(m, op, "expected two of one axis");
    return set_out(op, 0, fx_type2(t, a->dim[0], b->dim[0]));
}

/* ---- Any number of operands -------------------------------------------------------------------- */

bool fx_rule_all_reduce(fx_module *m, fx_op *op)
{
    if (op->n_in < 1)
        return fx_rule_bad(m, op, "expected operands");
    for (int i = 0; i < op->n_in; i++) {
        if (!is_numbers(in_type(op, i)))
            return fx_rule_bad(m, op, "expected numbers");
        if (!fx_type_eq(in_type(op, i), in_type(op, 0)))
            return fx_rule_bad(m, op, "operands must be of one type and shape");
    }
    return set_out(op, 0, *in_type(op, 0));
}

/* ---- One operand ------------------------------------------------------------------------------- */

static bool same_as(fx_module *m, fx_op *op, bool fits, const char *what)
{
    return fits ? set_out(op, 0, *in_type(op, 0)) : fx_rule_bad(m, op, "expected %s", what);
}

bool fx_rule_same(fx_module *m, fx_op *op) { return same_as(m, op, is_floats(in_type(op, 0)), "floats"); }
bool fx_rule_number(fx_module *m, fx_op *op) { return same_as(m, op, is_numbers(in_type(op, 0)), "numbers"); }

bool fx_rule_negate(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);

    return same_as(m, op, is_numbers(x) && fx_dtype_is_signed(x->dtype), "signed numbers");
}

bool fx_rule_logical_not(fx_module *m, fx_op *op)
{
    return same_as(m, op, in_type(op, 0)->dtype == FX_BOOL, "bools");
}

bool fx_rule_test(fx_module *m, fx_op *op)
{
    fx_type y = *in_type(op, 0);

    if (!is_floats(&y))
        return fx_rule_bad(m, op, "expected floats");
    y.dtype = FX_BOOL;
    return set_out(op, 0, y);
}

bool fx_rule_softmax(fx_module *m, fx_op *op)
{
    int axis;

    return fx_rule_same(m, op) && fx_rule_axis(m, op, FX_A_AXIS, in_type(op, 0)->rank, &axis);
}

bool fx_rule_cast(fx_module *m, fx_op *op)
{
    fx_type y = *in_type(op, 0);
    bool quant = y.dtype < FX_DTYPE_COUNT && fx_dtype_is_quant(y.dtype);

    y.dtype = (fx_dtype)fx_op_i(op, FX_A_DTYPE);
    if (!is_plain(in_type(op, 0)) && !quant)
        return fx_rule_bad(m, op, "expected numbers, bools or quantized blocks");
    if (!is_plain(&y) || (quant && !is_floats(&y)))
        return fx_rule_bad(m, op, "can't go to %s", fx_vtype_name(y.dtype));
    return set_out(op, 0, y);
}
