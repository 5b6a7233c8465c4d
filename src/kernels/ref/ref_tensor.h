/* ref_tensor.h - the meaning of the general graph ops, one function an op over strided tensors.
 *
 *     fx_ref_call c = { .op = FX_OP_ADD, .n_in = 2, .in = in, .n_out = 1, .out = &y, .err = err };
 *     FX_TRY(fx_ref_run(&c));
 *
 * As plain as they can be: floats are computed in f64 and rounded once to the result's dtype (but for
 * all_reduce, whose order is part of its meaning: summed in f32, f64 of f64); integers wrap. Other code
 * is measured against them, and constants are folded by them. Operands and results have the types that
 * the op's shape rule gives, with all sizes known; results must not overlap operands. Data that an op
 * can't take (an index outside of its axis) is FORNAX_EARG.
 *
 * Ops without a function here have no elements of their own: sources, control flow, buffers, calls,
 * prints, others' kernels. Those of language models have theirs in this folder's other files. */
#ifndef FX_REF_TENSOR_H
#define FX_REF_TENSOR_H

#include "base/status.h"
#include "tensor/ops.h"
#include "tensor/tensor.h"

/* An attribute with its sizes worked out. */
typedef struct fx_ref_attr {
    fx_attr_key key;
    int64_t i;                   /* INT, BOOL, WORD, DTYPE, DIM */
    double f;                    /* FLOAT */
    const int64_t *list;         /* INTS, DIMS */
    int64_t n;
} fx_ref_attr;

typedef struct fx_ref_call {
    fx_opcode op;
    int n_in, n_out, n_attrs;
    const fx_tensor *const *in;  /* NULL: an optional one left out */
    const fx_tensor *out;
    const fx_ref_attr *attrs;    /* all of the op's row */
    const fx_mem *mem;           /* for scratch */
    fx_error *err;
} fx_ref_call;

bool fx_ref_has(fx_opcode op);
fx_status fx_ref_run(const fx_ref_call *c);

/* ---- For the functions ------------------------------------------------------------------- */

typedef fx_status (*fx_ref_fn)(const fx_ref_call *c);
#define REF(op, name) fx_status fx_ref_##name(const fx_ref_call *c);
#include "kernels/ref/ref_tensor.def"

const fx_ref_attr *fx_ref_attr_of(const fx_ref_call *c, fx_attr_key key);
static inline int64_t fx_ref_i(const fx_ref_call *c, fx_attr_key key) { return fx_ref_attr_of(c, key)->i; }
static inline double fx_ref_f(const fx_ref_call *c, fx_attr_key key) { return fx_ref_attr_of(c, key)->f; }
/* Element i of a list, 'dflt' where it is shorter. */
int64_t fx_ref_list(const fx_ref_call *c, fx_attr_key key, int64_t i, int64_t dflt);
/* The axis attribute, counted from the front. */
int fx_ref_axis(const fx_ref_call *c, fx_attr_key key, int rank);
/* index, which may count from the end of an axis of that size, from the front; false: outside. */
static inline bool fx_ref_index(int64_t *index, int64_t size)
{
    *index += *index < 0 ? size : 0;
    return *index >= 0 && *index < size;
}
/* "gather: index 9 is outside of an axis of 4" */
fx_status fx_ref_outside(const fx_ref_call *c, int64_t index, int64_t size);
static inline fx_status fx_ref_fail(const fx_ref_call *c, const char *what)
{
    return fx_fail(c->err, FORNAX_EARG, "%s: %s", fx_opcode_name(c->op), what);
}

/* Whether a comes before b in rising order; NaN is the largest. */
bool fx_ref_less(const fx_tensor *t, const int64_t *a, const int64_t *b);

#endif
