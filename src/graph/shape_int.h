/* shape_int.h - what the files of shape rules share.
 *
 * A rule sets the types of op->out and returns true, or records the fault and returns
 * false; graph.c adds the place and the operands' types.  The same rules run again
 * in fx_module_check, so they may read nothing but the op (and, for calls, the module's graphs). */
#ifndef FX_SHAPE_INT_H
#define FX_SHAPE_INT_H

#include <math.h>

#include "graph/graph.h"

#define ATTR(key, text, kind, dflt)
#define OP(code, text, in, out, attrs, kind, rule, flags, doc) bool fx_rule_##rule(fx_module *m, fx_op *op);
#include "tensor/ops.def"

/* "add: what"; false. */
bool fx_rule_bad(fx_module *m, const fx_op *op, const char *fmt, ...) FX_PRINTF(3, 4);
/* Whether a size could be computed. */
bool fx_rule_dim(fx_module *m, const fx_op *op, fx_status st);
/* The op's axis for a value of that rank (up to rank itself where 'end' is 1: a new axis). */
bool fx_rule_axis(fx_module *m, const fx_op *op, fx_attr_key key, int rank, int *axis);
/* NumPy's: axes aligned at the end; a pair is equal, 1 or absent. y keeps its dtype. */
bool fx_rule_broadcast(fx_module *m, const fx_op *op, const fx_type *a, const fx_type *b, fx_type *y);
/* Elements start, start + step, ... of an axis of that size, n of them: whether they are some of it,
 * as far as sizes are numbers. */
bool fx_rule_run_fits(fx_dim size, fx_dim start, fx_dim n, int64_t step);
/* The dtype of two operands (fx_dtype_promote). */
bool fx_rule_promote(fx_module *m, const fx_op *op, const fx_type *a, const fx_type *b, fx_dtype *out);

static inline const fx_type *in_type(const fx_op *op, int i)
{
    fx_value *v = fx_op_in(op, i);

    return v ? &v->type : NULL;
}

static inline bool set_out(fx_op *op, int i, fx_type t)
{
    op->out[i].type = t;
    return true;
}

static inline bool is_chain(const fx_type *t) { return t->dtype == FX_CHAIN; }
static inline bool is_floats(const fx_type *t) { return t->dtype < FX_DTYPE_COUNT && fx_dtype_is_float(t->dtype); }
static inline bool is_ints(const fx_type *t) { return t->dtype < FX_DTYPE_COUNT && fx_dtype_is_int(t->dtype); }
static inline bool is_numbers(const fx_type *t) { return is_floats(t) || is_ints(t); }
/* Numbers or bools: one element after another. */
static inline bool is_plain(const fx_type *t) { return is_numbers(t) || t->dtype == FX_BOOL; }
static inline bool is_scalar(const fx_type *t, fx_dtype dtype) { return t->dtype == dtype && t->rank == 0; }
static inline bool is_one(fx_dim d) { return !d.sym && d.n == 1; }
static inline bool in_range(double x, double lo, double hi) { return x >= lo && x <= hi; }   /* false for NaN */

/* A vector of n floats, or none. */
static inline bool is_float_vector(const fx_type *t, fx_dim n)
{
    return !t || (is_floats(t) && t->rank == 1 && fx_dim_eq(t->dim[0], n));
}

#endif
