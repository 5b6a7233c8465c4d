/* lower_at.c - what a value holds at an index: the common part, and ops that go element by element.
 *
 * fx_lk_value asks the op that made the value, which asks for its operands: code comes out where the
 * question was put.  What was computed at the same index before (the same ops of the loop IR) is
 * used again while it is in scope.  Indices are arithmetic on i64 with constants folded.
 *
 * Narrow floats are values of their dtype between ops, since that is where they are rounded; inside an
 * op they are f32. */
#include "kir/kir_act.h"
#include "passes/lower_kir_int.h"

#include <math.h>

/* ---- Indices ------------------------------------------------------------------------------------ */

fx_kop *fx_lk_num(fx_lk *c, int64_t n) { return fx_kir_index(c->m, n); }

static bool number(const fx_kop *x, int64_t *n)
{
    if (!x || x->code != FX_KIR_CONST || x->type.lanes != 1 || x->type.t != FX_I64)
        return false;
    *n = x->u.i;
    return true;
}

static bool is_number(const fx_kop *x, int64_t n)
{
    int64_t k;

    return number(x, &k) && k == n;
}

static fx_kop *index_op(fx_lk *c, fx_kir_code code, fx_kop *a, fx_kop *b)
{
    fx_kop *in[2] = { a, b }, *own[2], *op;
    fx_lk_scope s;
    int64_t x, y;

    if (number(a, &x) && number(b, &y)) {
        uint64_t u = code == FX_KIR_ADD ? (uint64_t)x + (uint64_t)y : code == FX_KIR_SUB ? (uint64_t)x - (uint64_t)y
                     : code == FX_KIR_MUL ? (uint64_t)x * (uint64_t)y : 0;

        if (code != FX_KIR_DIV && code != FX_KIR_REM)
            return fx_lk_num(c, (int64_t)u);
        if (x >= 0 && y > 0)
            return fx_lk_num(c, code == FX_KIR_DIV ? x / y : x % y);
    }
    s = fx_lk_hoist(c, in, 2, own);
    op = op2(c, code, own[0], own[1]);
    fx_lk_leave(c, s);
    return op;
}

fx_kop *fx_lk_add(fx_lk *c, fx_kop *a, fx_kop *b)
{
    return is_number(a, 0) ? b : is_number(b, 0) ? a : index_op(c, FX_KIR_ADD, a, b);
}

fx_kop *fx_lk_sub(fx_lk *c, fx_kop *a, fx_kop *b) { return is_number(b, 0) ? a : index_op(c, FX_KIR_SUB, a, b); }

fx_kop *fx_lk_mul(fx_lk *c, fx_kop *a, fx_kop *b)
{
    return is_number(a, 1) ? b : is_number(b, 1) ? a : is_number(a, 0) ? a : is_number(b, 0) ? b : index_op(c, FX_KIR_MUL, a, b);
}

fx_kop *fx_lk_div(fx_lk *c, fx_kop *a, fx_kop *b) { return is_number(b, 1) ? a : index_op(c, FX_KIR_DIV, a, b); }

fx_kop *fx_lk_rem(fx_lk *c, fx_kop *a, fx_kop *b)
{
    return is_number(b, 1) ? fx_lk_num(c, 0) : index_op(c, FX_KIR_REM, a, b);
}

void fx_lk_unravel(fx_lk *c, fx_kop *at, const fx_dim *dim, int rank, fx_kop **index)
{
    for (int i = rank - 1; i > 0; i--) {
        fx_kop *n = fx_lk_size(c, dim[i]);

        index[i] = fx_lk_rem(c, at, n);
        at = fx_lk_div(c, at, n);
    }
    if (rank > 0)
        index[0] = at;
}

fx_kop *fx_lk_ravel(fx_lk *c, fx_kop *const *index, const fx_dim *dim, int rank)
{
    fx_kop *at = fx_lk_num(c, 0);

    for (int i = 0; i < rank; i++)
        at = fx_lk_add(c, fx_lk_mul(c, at, fx_lk_size(c, dim[i])), index[i]);
    return at;
}

fx_kop *fx_lk_mask(fx_lk *c, fx_kop *on)
{
    fx_kop *was = c->mask;

    c->mask = was && on ? op2(c, FX_KIR_AND, was, on) : on ? on : was;
    return was;
}

fx_kop *fx_lk_guard(fx_lk *c, fx_kop *on, fx_kop *of)
{
    fx_kop *was = fx_lk_mask(c, on);
    fx_lk_guarded g = { c->mask, was, of };

    if (c->mask && !FX_VEC_PUSH(&c->guards, c->m->mem, g))
        fx_kir_fail(c->m, FORNAX_ENOMEM, "no memory for a kernel");
    return was;
}

static bool depends_on(const fx_kop *x, const fx_kop *of)
{
    if (x == of)
        return true;
    for (int i = 0; x && !x->block[0] && i < x->n_in; i++) {
        if (depends_on(x->in[i], of))
            return true;
    }
    return false;
}

fx_kop *fx_lk_mask_for(const fx_lk *c, fx_kop *const *index, int n)
{
    fx_kop *mask = c->mask;

    for (size_t i = c->guards.n; mask && i-- > 0;) {
        const fx_lk_guarded *g = &c->guards.at[i];

        if (g->mask != mask)
            continue;
        for (int k = 0; g->of && k < n; k++) {
            if (g->of->code == FX_KIR_CONST || depends_on(index[k], g->of))
                return mask;
        }
        mask = g->was;
    }
    return mask;
}

void *fx_lk_fail(fx_lk *c, const fx_op *op, const char *what)
{
    return fx_kir_fail(c->m, FORNAX_EUNSUP, "%s (%.*s): %s", fx_opcode_name(op->code), FX_STR_ARG(fx_op_label(op)), what);
}

/* ---- Scopes --------------------------------------------------------------------------------------- */

/* Whether op stands in b or a block around it. */
static bool visible(const fx_kop *op, const fx_kir_block *b)
{
    if (!op->parent)
        return true;                     /* a parameter */
    for (; b; b = b->owner ? b->owner->parent : NULL) {
        if (op->parent == b)
            return true;
    }
    return false;
}

static bool inside(const fx_kop *op, const fx_kop *loop)
{
    for (const fx_kir_block *b = op->parent; b; b = b->owner ? b->owner->parent : NULL) {
        if (b->owner == loop)
            return true;
    }
    return false;
}

/* The outermost loop around the place where code is made that none of these depends on; NULL: none. */
static fx_kop *free_of(fx_lk *c, fx_kop *const *index, int n)
{
    fx_kop *loop = NULL;

    for (const fx_kir_block *b = c->m->at; b->owner; b = b->owner->parent) {
        for (int i = 0; i <= n; i++) {
            const fx_kop *x = i < n ? index[i] : c->mask;

            if ((!x && i < n) || (x && x->code != FX_KIR_CONST && inside(x, b->owner)))
                return loop;
        }
        if (b->owner->code == FX_KIR_IF || b->owner->code == FX_KIR_WHILE)
            return loop;
        loop = b->owner;
    }
    return loop;
}

fx_kop *fx_lk_recall(fx_lk *c, const fx_value *v, int part, fx_kop *const *index, int n)
{
    int64_t x, y;

    for (size_t i = c->memo.n; i-- > 0;) {
        const fx_lk_memo *m = &c->memo.at[i];
        int k = 0;

        if (m->value != v || m->part != part || m->n != n || m->mask != c->mask || !visible(m->at, c->m->at))
            continue;
        while (k < n && (m->index[k] == index[k] || (number(m->index[k], &x) && number(index[k], &y) && x == y)))
            k++;
        if (k == n)
            return m->at;
    }
    return NULL;
}

fx_kop *fx_lk_remember(fx_lk *c, const fx_value *v, int part, fx_kop *const *index, int n, fx_kop *at)
{
    fx_lk_memo m = { .value = v, .part = part, .n = n, .at = at, .mask = c->mask };

    for (int i = 0; i < n; i++)
        m.index[i] = index[i];
    if (at && !FX_VEC_PUSH(&c->memo, c->m->mem, m))
        return fx_kir_fail(c->m, FORNAX_ENOMEM, "no memory for a kernel");
    return at;
}

fx_lk_scope fx_lk_hoist(fx_lk *c, fx_kop *const *index, int n, fx_kop **own)
{
    fx_lk_scope s = { c->m->at, c->m->before };
    fx_kop *loop = free_of(c, index, n);
    int64_t x;

    if (loop)
        fx_kir_before(c->m, loop);
    for (int i = 0; i < n; i++)          /* constants stand where they were asked for, perhaps in the loop */
        own[i] = loop && number(index[i], &x) ? fx_lk_num(c, x) : index[i];
    return s;
}

void fx_lk_leave(fx_lk *c, fx_lk_scope s)
{
    c->m->at = s.at;
    c->m->before = s.before;
}

/* ---- Values ------------------------------------------------------------------------------------------ */

/* A constant of one element is part of the code. */
static fx_kop *immediate(fx_lk *c, const fx_op *op)
{
    const fx_attr *a = fx_op_attr(op, FX_A_VALUES);
    fx_dtype t = a->u.v.dtype;
    uint64_t x = fx_kir_read(t, a->u.v.at);

    if (fx_dtype_is_int(t) || t == FX_BOOL)
        return fx_kir_int(c->m, fx_ktype_of(t, 1), (int64_t)x);
    if (t == FX_F32)
        return fx_kir_float(c->m, fx_ktype_of(t, 1), (double)fx_f32_of_bits((uint32_t)x));
    if (t == FX_F64) {
        double d;

        memcpy(&d, &x, sizeof(d));
        return fx_kir_float(c->m, fx_ktype_of(t, 1), d);
    }
    return NULL;
}

fx_kop *fx_lk_value(fx_lk *c, fx_value *v, fx_kop *const *index)
{
    int n = v->type.rank;
    int32_t tensor = fx_lower_kept(c->l, v);
    fx_kop *at = fx_lk_recall(c, v, 0, index, n), *own[FX_MAX_RANK];
    fx_lk_scope s;

    if (at || c->m->failed)
        return at;
    if (v->def && v->def->code == FX_OP_CONSTANT && fx_op_attr(v->def, FX_A_VALUES)->u.v.n == 1)
        at = immediate(c, v->def);
    if (at)
        return at;
    s = fx_lk_hoist(c, index, n, own);
    if (tensor >= 0)
        at = fx_lk_load(c, tensor, &v->type, own);
    else if (!v->def || !fx_at_of(v->def))
        at = fx_kir_fail(c->m, FORNAX_EINTERNAL, "%s is read before it is there", v->def ? fx_opcode_name(v->def->code) : "an argument");
    else
        at = fx_at_of(v->def)(c, v->def, v->index, own);
    fx_lk_leave(c, s);
    return fx_lk_remember(c, v, 0, index, n, at);
}

/* ---- Reductions ---------------------------------------------------------------------------------------- */

fx_lk_fold fx_lk_fold_begin(fx_lk *c, fx_kir_combine kind, int lanes, fx_dtype t, fx_kop *n)
{
    fx_lk_fold f = { .outside = { c->m->at, c->m->before } };

    f.loop = fx_kir_reduce(c->m, kind, lanes, t, fx_lk_num(c, 0), n);
    if (f.loop) {
        fx_kir_at(c->m, f.loop->block[0]);
        f.k = f.loop->block[0]->arg;
    }
    return f;
}

fx_kop *fx_lk_fold_end(fx_lk *c, const fx_lk_fold *f, fx_kop *a, fx_kop *b)
{
    fx_kir_yield(c->m, (fx_kop *const[]){ a, b }, b ? 2 : 1);
    fx_lk_leave(c, f->outside);
    return f->loop;
}

fx_kop *fx_lk_within(fx_lk *c, fx_kop *at, fx_kop *lo, fx_kop *hi)
{
    return op2(c, FX_KIR_AND, op2(c, FX_KIR_LE, lo, at), op2(c, FX_KIR_LT, at, hi));
}

/* ---- Element by element -------------------------------------------------------------------------------- */


/* x's number in the type of 'like'. */
fx_kop *fx_lk_const(fx_lk *c, const fx_kop *like, double x)
{
    if (!like)
        return NULL;
    if (fx_dtype_is_float(like->type.t) && fx_lk_wide(like->type.t) != like->type.t)     /* only f32 and f64 have constants */
        return fx_kir_convert(c->m, fx_kir_float(c->m, fx_ktype_of(FX_F32, like->type.lanes), x), like->type.t);
    return fx_dtype_is_float(like->type.t) ? fx_kir_float(c->m, like->type, x) : fx_kir_int(c->m, like->type, (int64_t)x);
}
#define NUM(x) fx_lk_const(c, a, (x))

fx_kop *fx_lk_operand(fx_lk *c, const fx_op *op, int i, const fx_type *result, fx_kop *const *index)
{
    fx_value *v = fx_op_in(op, i);
    fx_kop *own[FX_MAX_RANK];
    int off = result->rank - v->type.rank;

    for (int k = 0; k < v->type.rank; k++) {
        bool repeated = fx_dim_eq(v->type.dim[k], fx_dim_of(1)) && !fx_dim_eq(result->dim[k + off], fx_dim_of(1));

        own[k] = repeated ? fx_lk_num(c, 0) : index[k + off];
    }
    return fx_lk_value(c, v, own);
}

static fx_kop *map_same(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)op;
    return b ? op2(c, code, a, b) : op1(c, code, a);
}

static fx_kop *map_scale(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)b, (void)code;
    return op2(c, FX_KIR_MUL, a, NUM((double)(float)fx_op_f(op, FX_A_FACTOR)));
}

static fx_kop *map_sigmoid(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)b, (void)code;
    if (op->code == FX_OP_GELU_QUICK)
        return op2(c, FX_KIR_MUL, a, fx_kir_sigmoid(c->m, op2(c, FX_KIR_MUL, a, NUM(1.702))));
    return op->code == FX_OP_SILU ? fx_kir_silu(c->m, a) : fx_kir_sigmoid(c->m, a);
}

static fx_kop *map_swiglu(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)op, (void)code;
    return op2(c, FX_KIR_MUL, fx_kir_silu(c->m, a), b);
}

static fx_kop *map_gelu(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    fx_kop *erf;

    (void)b, (void)code;
    if (a->type.t == FX_F32)
        return op->code == FX_OP_GELU ? fx_kir_gelu(c->m, a) : fx_kir_gelu_tanh(c->m, a);
    if (op->code == FX_OP_GELU_TANH) {
        fx_kop *cube = op2(c, FX_KIR_MUL, op2(c, FX_KIR_MUL, a, a), a);

        return fx_kir_sigmoid_times(c->m, op2(c, FX_KIR_MUL, fx_kir_op3(c->m, FX_KIR_FMA, cube, NUM(0.044715), a), NUM(1.59576912160573071176)), a);
    }
    erf = op1(c, FX_KIR_ERF, op2(c, FX_KIR_MUL, a, NUM(0.70710678118654752440)));
    return op2(c, FX_KIR_MUL, op2(c, FX_KIR_MUL, a, NUM(0.5)), op2(c, FX_KIR_ADD, NUM(1), erf));
}

static fx_kop *map_relu(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    fx_kop *y = op2(c, FX_KIR_MAX, a, NUM(0));

    (void)b, (void)code;
    return op->code == FX_OP_RELU2 ? op2(c, FX_KIR_MUL, y, y) : y;
}

static fx_kop *map_clamp(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    double limit = (double)(float)fx_op_f(op, FX_A_LIMIT);

    (void)b, (void)code;
    return op2(c, FX_KIR_MIN, op2(c, FX_KIR_MAX, a, NUM(-limit)), NUM(limit));
}

static fx_kop *map_rsqrt(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)op, (void)b, (void)code;
    return op2(c, FX_KIR_DIV, NUM(1), op1(c, FX_KIR_SQRT, a));
}

/* a - b floor(a / b): what REM leaves, brought to b's sign; of integers 0 where b is 0. */
static fx_kop *map_mod(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    fx_kop *r = op2(c, FX_KIR_REM, a, b), *zero = NUM(0), *other, *y;

    (void)op, (void)code;
    if (!a || !r)
        return NULL;
    other = op2(c, FX_KIR_NE, op2(c, FX_KIR_LT, r, zero), op2(c, FX_KIR_LT, b, zero));
    y = select3(c, op2(c, FX_KIR_AND, other, op2(c, FX_KIR_NE, r, zero)), op2(c, FX_KIR_ADD, r, b), r);
    if (fx_dtype_is_float(a->type.t))    /* a zero has b's sign */
        return select3(c, op2(c, FX_KIR_EQ, r, zero), op2(c, FX_KIR_COPYSIGN, zero, b), y);
    return select3(c, op2(c, FX_KIR_EQ, b, zero), zero, y);
}

/* Of integers: by squaring. */
static fx_kop *int_pow(fx_lk *c, fx_kop *a, fx_kop *b)
{
    fx_dtype t = a->type.t;
    bool s = fx_dtype_is_signed(t);
    fx_kop *zero = NUM(0), *one = NUM(1);
    fx_kop *neg = s ? op2(c, FX_KIR_LT, b, zero) : fx_kir_int(c->m, fx_ktype_of(FX_BOOL, 1), 0);
    fx_kop *y = fx_kir_local(c->m, one, FX_STR("y")), *x = fx_kir_local(c->m, a, FX_STR("x")),
           *e = fx_kir_local(c->m, select3(c, neg, zero, b), FX_STR("e")), *loop, *odd, *v;
    fx_kir_block *here = c->m->at;
    fx_kop *before = c->m->before;

    loop = fx_kir_while(c->m);
    if (!loop)
        return NULL;
    fx_kir_at(c->m, loop->block[0]);
    v = op2(c, FX_KIR_NE, fx_kir_get(c->m, e), NUM(0));
    fx_kir_yield(c->m, &v, 1);
    fx_kir_at(c->m, loop->block[1]);
    odd = op2(c, FX_KIR_NE, op2(c, FX_KIR_AND, fx_kir_get(c->m, e), NUM(1)), NUM(0));
    v = fx_kir_get(c->m, y);
    fx_kir_set(c->m, y, select3(c, odd, op2(c, FX_KIR_MUL, v, fx_kir_get(c->m, x)), v));
    fx_kir_set(c->m, x, op2(c, FX_KIR_MUL, fx_kir_get(c->m, x), fx_kir_get(c->m, x)));
    fx_kir_set(c->m, e, op2(c, FX_KIR_SHR, fx_kir_get(c->m, e), NUM(1)));
    fx_kir_at(c->m, here);
    c->m->before = before;
    v = fx_kir_get(c->m, y);
    if (!s)
        return v;
    /* 1 / a^-b: of 1 it is 1, of -1 its power, else 0. */
    odd = op2(c, FX_KIR_NE, op2(c, FX_KIR_AND, b, NUM(1)), NUM(0));
    fx_kop *minus = select3(c, odd, NUM(-1), NUM(1));
    fx_kop *inverse = select3(c, op2(c, FX_KIR_EQ, a, NUM(1)), NUM(1),
                                 select3(c, op2(c, FX_KIR_EQ, a, NUM(-1)), minus, NUM(0)));
    return select3(c, neg, inverse, v);
}

static fx_kop *map_pow(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)op, (void)code;
    if (!a || !b)
        return NULL;
    return fx_dtype_is_float(a->type.t) ? op2(c, FX_KIR_POW, a, b) : int_pow(c, a, b);
}

/* Operands the other way round: a > b is b < a. */
static fx_kop *map_turned(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)op;
    return op2(c, code, b, a);
}

static fx_kop *map_is_inf(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)op, (void)b, (void)code;
    return op2(c, FX_KIR_EQ, op1(c, FX_KIR_ABS, a), NUM(INFINITY));
}

static fx_kop *map_is_nan(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code)
{
    (void)op, (void)b, (void)code;
    return op2(c, FX_KIR_NE, a, a);
}

typedef struct map_row {
    fx_opcode op;
    fx_kop *(*make)(fx_lk *c, const fx_op *op, fx_kop *a, fx_kop *b, fx_kir_code code);
    fx_kir_code code;
} map_row;

static const map_row map_rows[] = {
    { FX_OP_ADD, map_same, FX_KIR_ADD },
    { FX_OP_SUB, map_same, FX_KIR_SUB },
    { FX_OP_MUL, map_same, FX_KIR_MUL },
    { FX_OP_DIV, map_same, FX_KIR_DIV },
    { FX_OP_MAX, map_same, FX_KIR_MAX },
    { FX_OP_MIN, map_same, FX_KIR_MIN },
    { FX_OP_POW, map_pow, FX_KIR_POW },
    { FX_OP_MOD, map_mod, FX_KIR_REM },
    { FX_OP_EQUAL, map_same, FX_KIR_EQ },
    { FX_OP_NOT_EQUAL, map_same, FX_KIR_NE },
    { FX_OP_GREATER, map_turned, FX_KIR_LT },
    { FX_OP_GREATER_EQUAL, map_turned, FX_KIR_LE },
    { FX_OP_LOGICAL_AND, map_same, FX_KIR_AND },
    { FX_OP_LOGICAL_OR, map_same, FX_KIR_OR },
    { FX_OP_LOGICAL_XOR, map_same, FX_KIR_XOR },
    { FX_OP_LOGICAL_NOT, map_same, FX_KIR_NOT },
    { FX_OP_ABS, map_same, FX_KIR_ABS },
    { FX_OP_NEGATE, map_same, FX_KIR_NEG },
    { FX_OP_EXP, map_same, FX_KIR_EXP },
    { FX_OP_LOG, map_same, FX_KIR_LOG },
    { FX_OP_LOG1P, map_same, FX_KIR_LOG1P },
    { FX_OP_SQRT, map_same, FX_KIR_SQRT },
    { FX_OP_RSQRT, map_rsqrt, FX_KIR_SQRT },
    { FX_OP_SIN, map_same, FX_KIR_SIN },
    { FX_OP_COS, map_same, FX_KIR_COS },
    { FX_OP_ACOS, map_same, FX_KIR_ACOS },
    { FX_OP_TANH, map_same, FX_KIR_TANH },
    { FX_OP_ATANH, map_same, FX_KIR_ATANH },
    { FX_OP_ERF, map_same, FX_KIR_ERF },
    { FX_OP_CEIL, map_same, FX_KIR_CEIL },
    { FX_OP_FLOOR, map_same, FX_KIR_FLOOR },
    { FX_OP_ROUND, map_same, FX_KIR_RINT },
    { FX_OP_TRUNC, map_same, FX_KIR_TRUNC },
    { FX_OP_IS_NAN, map_is_nan, FX_KIR_NE },
    { FX_OP_IS_INF, map_is_inf, FX_KIR_EQ },
    { FX_OP_SCALE, map_scale, FX_KIR_MUL },
    { FX_OP_SILU, map_sigmoid, FX_KIR_EXP },
    { FX_OP_SIGMOID, map_sigmoid, FX_KIR_EXP },
    { FX_OP_GELU_QUICK, map_sigmoid, FX_KIR_EXP },
    { FX_OP_SWIGLU, map_swiglu, FX_KIR_EXP },
    { FX_OP_GELU, map_gelu, FX_KIR_ERF },
    { FX_OP_GELU_TANH, map_gelu, FX_KIR_EXP },
    { FX_OP_RELU, map_relu, FX_KIR_MAX },
    { FX_OP_RELU2, map_relu, FX_KIR_MAX },
    { FX_OP_CLAMP, map_clamp, FX_KIR_MIN },
};

static const map_row *map_row_of(fx_opcode code)
{
    for (size_t i = 0; i < FX_COUNT(map_rows); i++) {
        if (map_rows[i].op == code)
            return &map_rows[i];
    }
    return NULL;
}

bool fx_lower_is_map(fx_opcode code) { return map_row_of(code) != NULL; }

/* Integers have no fractions; ops that would round them leave them as they are. */
static bool leaves_integers(fx_opcode code)
{
    return code == FX_OP_CEIL || code == FX_OP_FLOOR || code == FX_OP_ROUND || code == FX_OP_TRUNC;
}

/* Of two dtypes of a graph's op one holds all numbers of the other: that one. */
static fx_dtype common_dtype(const fx_op *op)
{
    fx_dtype a = fx_op_in(op, 0)->type.dtype, b = op->n_in > 1 ? fx_op_in(op, 1)->type.dtype : a;

    if (a == FX_BOOL || b == FX_BOOL || fx_dtype_is_float(a) != fx_dtype_is_float(b))
        return a == FX_BOOL || (b != FX_BOOL && fx_dtype_is_float(b)) ? b : a;
    return fx_dtype_size(b) > fx_dtype_size(a) ? b : a;
}

AT_FN(fx_at_map)
{
    const map_row *row = map_row_of(op->code);
    const fx_type *t = &op->out[result].type;
    fx_kop *in[2] = { NULL }, *y;

    for (int i = 0; i < op->n_in && i < 2; i++) {
        fx_dtype from = common_dtype(op), to = fx_lk_wide(from);

        in[i] = fx_lk_operand(c, op, i, t, index);
        if (op->code == FX_OP_DIV && !fx_dtype_is_float(from))
            to = FX_F64;
        in[i] = in[i] ? fx_kir_convert(c->m, in[i], to) : NULL;
    }
    if (!in[0] || (op->n_in > 1 && !in[1]))
        return NULL;
    if (leaves_integers(op->code) && !fx_dtype_is_float(t->dtype))
        return in[0];
    y = row->make(c, op, in[0], in[1], row->code);
    return y ? fx_kir_convert(c->m, y, t->dtype) : NULL;
}

AT_FN(fx_at_cast)
{
    fx_kop *x = fx_lk_operand(c, op, 0, &op->out[result].type, index);

    return x ? fx_kir_convert(c->m, x, op->out[result].type.dtype) : NULL;
}

AT_FN(fx_at_where)
{
    const fx_type *t = &op->out[result].type;
    fx_kop *p = fx_lk_operand(c, op, 0, t, index), *a = fx_lk_operand(c, op, 1, t, index),
           *b = fx_lk_operand(c, op, 2, t, index);

    if (!p || !a || !b)
        return NULL;
    return select3(c, p, fx_kir_convert(c->m, a, t->dtype), fx_kir_convert(c->m, b, t->dtype));
}

AT_FN(fx_at_all_reduce)
{
    fx_dtype t = op->out[result].type.dtype;
    fx_kop *y = NULL;

    for (int i = 0; i < op->n_in; i++) {
        fx_kop *x = fx_lk_value(c, fx_op_in(op, i), index);

        x = x ? fx_kir_convert(c->m, x, fx_lk_wide(t)) : NULL;
        y = i && x ? op2(c, FX_KIR_ADD, y, x) : x;
        if (!y)
            return NULL;
    }
    return fx_kir_convert(c->m, y, t);
}

/* ---- The table --------------------------------------------------------------------------------------------- */

fx_at_fn fx_at_of(const fx_op *op)
{
    static const fx_at_fn rows[FX_OP_COUNT] = {
#define AT(code, fn) [FX_OP_##code] = fn,
#include "passes/lower_at.def"
    };

    if (op->code == FX_OP_REPEAT_INTERLEAVE && fx_op_in(op, 1))
        return NULL;                     /* lower_sized.c */
    return map_row_of(op->code) ? fx_at_map : rows[op->code];
}
