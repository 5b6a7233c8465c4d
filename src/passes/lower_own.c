/* lower_own.c - ops that have kernels of their own: running sums, scatters, orders.
 *
 * Their operands and results are kept.  Where an op works along one axis, tensors are seen as [before, axis, behind]: a task is one of
 * 'before', a loop goes over 'behind'.  What depends on an order over all elements is one task. */
#include "passes/lower_loops.h"

/* ---- Running sums ------------------------------------------------------------------------------------------ */

static void make_cumsum(fx_lk *c, fx_op *op, const int32_t *result)
{
    const fx_type *t = &op->out[0].type;
    along at = along_axis(c, t, fx_op_axis(op, FX_A_AXIS, t->rank));
    fx_dtype wide = fx_lk_wide(t->dtype);
    fx_kop *y = fx_lk_buffer_as(c, result[0], FX_KIR_OUT, at.dim, 3), *x = fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, at.dim, 3);
    fx_kop *acc, *i, *n, *sum, *v;
    inside behind, axis;

    tasks(c, at.dim[0]);
    behind = open_block(c, fx_kir_forall(c->m, fx_lk_num(c, 0), fx_lk_size(c, at.dim[2])), 0);
    acc = fx_kir_local(c->m, fx_lower_zero(c, fx_ktype_of(wide, 1)), FX_STR("sum"));
    n = fx_lk_size(c, at.dim[1]);
    axis = open_for(c, fx_lk_num(c, 0), n, NULL);
    i = counter(&axis);
    if (fx_op_i(op, FX_A_REVERSE))
        i = fx_lk_sub(c, fx_lk_sub(c, n, fx_lk_num(c, 1)), i);
    v = load3(c, x, c->k->task, i, counter(&behind));
    sum = fx_kir_get(c->m, acc);
    v = v && sum ? op2(c, FX_KIR_ADD, sum, fx_kir_convert(c->m, v, wide)) : NULL;
    fx_kir_set(c->m, acc, v);
    v = fx_op_i(op, FX_A_EXCLUSIVE) ? sum : v;
    store3(c, y, v ? fx_kir_convert(c->m, v, t->dtype) : NULL, c->k->task, i, counter(&behind));
    close_block(c, &axis);
    close_block(c, &behind);
}

/* ---- Scatters ------------------------------------------------------------------------------------------------- */

typedef struct scatter_row {
    fx_opcode op;
    bool nd;
    fx_kir_code code;            /* what becomes of old and new; CONST: the new one stays */
} scatter_row;

static const scatter_row scatter_rows[] = {
    { FX_OP_SCATTER, false, FX_KIR_CONST },      { FX_OP_SCATTER_ADD, false, FX_KIR_ADD },
    { FX_OP_SCATTER_MAX, false, FX_KIR_MAX },    { FX_OP_SCATTER_MIN, false, FX_KIR_MIN },
    { FX_OP_SCATTER_MUL, false, FX_KIR_MUL },    { FX_OP_SCATTER_ND, true, FX_KIR_CONST },
    { FX_OP_SCATTER_ND_ADD, true, FX_KIR_ADD },  { FX_OP_SCATTER_ND_MAX, true, FX_KIR_MAX },
    { FX_OP_SCATTER_ND_MIN, true, FX_KIR_MIN },  { FX_OP_SCATTER_ND_MUL, true, FX_KIR_MUL },
};

static const scatter_row *scatter_row_of(fx_opcode code)
{
    for (size_t i = 0; i < FX_COUNT(scatter_rows); i++) {
        if (scatter_rows[i].op == code)
            return &scatter_rows[i];
    }
    return NULL;
}

/* y is x to begin with. */
static void copy_all(fx_lk *c, fx_kop *y, fx_kop *x, const fx_type *t)
{
    fx_kop *index[FX_MAX_RANK], *v;
    inside loops[FX_MAX_RANK];

    for (int i = 0; i < t->rank; i++) {
        loops[i] = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, t->dim[i]), NULL);
        index[i] = counter(&loops[i]);
    }
    v = fx_kir_load(c->m, x, index, t->rank, 1, NULL);
    fx_kir_store(c->m, y, v, index, t->rank, NULL);
    for (int i = t->rank; i-- > 0;)
        close_block(c, &loops[i]);
}

static void update(fx_lk *c, fx_kop *y, fx_kop *const *index, int rank, fx_kop *v, fx_kir_code code, fx_dtype t)
{
    fx_kop *old;

    if (code != FX_KIR_CONST && v) {
        old = fx_kir_load(c->m, y, index, rank, 1, NULL);
        old = old ? op2(c, code, fx_kir_convert(c->m, old, fx_lk_wide(t)), fx_kir_convert(c->m, v, fx_lk_wide(t))) : NULL;
        v = old ? fx_kir_convert(c->m, old, t) : NULL;
    }
    fx_kir_store(c->m, y, v, index, rank, NULL);
}

/* One task: later updates of a place come after earlier ones. */
static void make_scatter(fx_lk *c, fx_op *op, const int32_t *result)
{
    const scatter_row *row = scatter_row_of(op->code);
    const fx_type *t = &op->out[0].type, *u = &fx_op_in(op, 1)->type, *at = &fx_op_in(op, 2)->type;
    fx_kop *y = fx_lk_buffer_as(c, result[0], FX_KIR_INOUT, t->dim, t->rank), *index[FX_MAX_RANK], *place[FX_MAX_RANK], *v;
    int axis = row->nd ? 0 : fx_op_axis(op, FX_A_AXIS, t->rank), named = row->nd ? (int)at->dim[at->rank - 1].n : 0;
    inside loops[FX_MAX_RANK];

    tasks(c, fx_dim_of(1));
    copy_all(c, y, fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, t->dim, t->rank), t);
    for (int i = 0; i < u->rank; i++) {
        loops[i] = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, u->dim[i]), NULL);
        index[i] = counter(&loops[i]);
    }
    for (int i = 0; i < t->rank && !c->m->failed; i++) {
        fx_kop *own[FX_MAX_RANK];

        memcpy(own, index, sizeof(own));
        if (row->nd && i < named)
            own[at->rank - 1] = fx_lk_num(c, i);
        if (row->nd ? i < named : i == axis)
            place[i] = fx_lk_from_end(c, fx_lk_value(c, fx_op_in(op, 2), own), t->dim[i]);
        else
            place[i] = row->nd ? index[at->rank - 1 + i - named] : index[i];
    }
    v = fx_lk_value(c, fx_op_in(op, 1), index);
    update(c, y, place, t->rank, v, row->code, t->dtype);
    for (int i = u->rank; i-- > 0;)
        close_block(c, &loops[i]);
}

static void make_masked_scatter(fx_lk *c, fx_op *op, const int32_t *result)
{
    const fx_type *t = &op->out[0].type, *u = &fx_op_in(op, 2)->type;
    fx_kop *y = fx_lk_buffer_as(c, result[0], FX_KIR_OUT, t->dim, t->rank), *index[FX_MAX_RANK], *next, *on, *v, *place[FX_MAX_RANK], *local;
    inside loops[FX_MAX_RANK], taken;

    tasks(c, fx_dim_of(1));
    next = fx_kir_local(c->m, fx_lk_num(c, 0), FX_STR("next"));
    for (int i = 0; i < t->rank; i++) {
        loops[i] = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, t->dim[i]), NULL);
        index[i] = counter(&loops[i]);
    }
    local = fx_kir_local(c->m, fx_lk_value(c, fx_op_in(op, 0), index), FX_STR("value"));
    on = fx_lk_operand(c, op, 1, t, index);
    taken = open_if(c, on && on->type.t != FX_BOOL ? fx_kir_convert(c->m, on, FX_BOOL) : on);
    fx_lk_unravel(c, fx_kir_get(c->m, next), u->dim, u->rank, place);
    v = fx_lk_value(c, fx_op_in(op, 2), place);
    fx_kir_set(c->m, local, v);
    fx_kir_set(c->m, next, add1(c, fx_kir_get(c->m, next)));
    close_block(c, &taken);
    fx_kir_store(c->m, y, fx_kir_get(c->m, local), index, t->rank, NULL);
    for (int i = t->rank; i-- > 0;)
        close_block(c, &loops[i]);
}

/* ---- Orders ------------------------------------------------------------------------------------------------------- */

/* Whether a comes strictly before b: the greater first, NaN before all; or the smaller first, NaN behind all. */
static fx_kop *goes_before(fx_lk *c, fx_kop *a, fx_kop *b, bool greatest)
{
    fx_kop *less = greatest ? op2(c, FX_KIR_LT, b, a) : op2(c, FX_KIR_LT, a, b), *a_nan, *b_nan;

    if (!a || !b || !fx_dtype_is_float(a->type.t))
        return less;
    a_nan = op2(c, FX_KIR_NE, a, a);
    b_nan = op2(c, FX_KIR_NE, b, b);
    if (greatest)
        return select3(c, b_nan, bool_of(c, false), op2(c, FX_KIR_OR, a_nan, less));
    return select3(c, a_nan, bool_of(c, false), op2(c, FX_KIR_OR, b_nan, less));
}

typedef struct insertion {
    fx_kop *values, *at, *a, *b, *slot, *x;      /* slot: local, where x would go */
    fx_dtype wide;
    bool greatest;
} insertion;

/* Whether what lies before the slot goes behind x. */
static fx_kop *must_shift(fx_lk *c, void *user)
{
    insertion *s = user;
    fx_kop *slot = fx_kir_get(c->m, s->slot), *some = op2(c, FX_KIR_LT, fx_lk_num(c, 0), slot), *before, *old;

    before = op2(c, FX_KIR_MAX, op2(c, FX_KIR_SUB, slot, fx_lk_num(c, 1)), fx_lk_num(c, 0));
    old = fx_kir_load(c->m, s->values, (fx_kop *const[]){ s->a, before, s->b }, 3, 1, some);
    return old ? op2(c, FX_KIR_AND, some, goes_before(c, s->x, fx_kir_convert(c->m, old, s->wide), s->greatest)) : NULL;
}

static void shift(fx_lk *c, insertion *s)
{
    fx_kop *slot = fx_kir_get(c->m, s->slot), *before = op2(c, FX_KIR_SUB, slot, fx_lk_num(c, 1));

    store3(c, s->values, load3(c, s->values, s->a, before, s->b), s->a, slot, s->b);
    store3(c, s->at, load3(c, s->at, s->a, before, s->b), s->a, slot, s->b);
    fx_kir_set(c->m, s->slot, before);
}

/* The results are lists in order; an element that goes before the last one of a full list takes its place and moves up. */
static void make_top_k(fx_lk *c, fx_op *op, const int32_t *result)
{
    const fx_type *t = &fx_op_in(op, 0)->type;
    int axis = fx_op_axis(op, FX_A_AXIS, t->rank);
    along from = along_axis(c, t, axis), to = along_axis(c, &op->out[0].type, axis);
    insertion s = { .wide = fx_lk_wide(t->dtype), .greatest = op->code == FX_OP_TOP_K, .a = c->k->task };
    fx_kop *x = fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, from.dim, 3), *k, *v, *i, *last, *full;
    inside behind, all, enters, loop;

    s.values = fx_lk_buffer_as(c, result[0], FX_KIR_INOUT, to.dim, 3);
    s.at = fx_lk_buffer_as(c, result[1], FX_KIR_INOUT, to.dim, 3);
    tasks(c, from.dim[0]);
    behind = open_block(c, fx_kir_forall(c->m, fx_lk_num(c, 0), fx_lk_size(c, from.dim[2])), 0);
    s.b = counter(&behind);
    k = fx_lk_size(c, to.dim[1]);
    s.slot = fx_kir_local(c->m, fx_lk_num(c, 0), FX_STR("slot"));
    all = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, from.dim[1]), NULL);
    i = counter(&all);
    v = load3(c, x, s.a, i, s.b);
    s.x = v ? fx_kir_convert(c->m, v, s.wide) : NULL;
    last = fx_lk_sub(c, k, fx_lk_num(c, 1));
    fx_kir_set(c->m, s.slot, op2(c, FX_KIR_MIN, i, last));
    full = op2(c, FX_KIR_AND, op2(c, FX_KIR_LE, k, i), op2(c, FX_KIR_LT, fx_lk_num(c, 0), k));
    last = fx_kir_load(c->m, s.values, (fx_kop *const[]){ s.a, last, s.b }, 3, 1, full);
    last = last ? goes_before(c, s.x, fx_kir_convert(c->m, last, s.wide), s.greatest) : NULL;
    enters = open_if(c, select3(c, full, last, op2(c, FX_KIR_LT, i, k)));
    loop = open_while(c, must_shift, &s);
    shift(c, &s);
    close_block(c, &loop);
    store3(c, s.values, v, s.a, fx_kir_get(c->m, s.slot), s.b);
    store3(c, s.at, i, s.a, fx_kir_get(c->m, s.slot), s.b);
    close_block(c, &enters);
    close_block(c, &all);
    close_block(c, &behind);
}

typedef struct merging {
    fx_kop *n, *x, *from, *to, *width, *p, *q;   /* width, p, q: locals */
    fx_dtype wide;
    bool greatest;
} merging;

static fx_kop *still_narrow(fx_lk *c, void *user)
{
    merging *s = user;

    return op2(c, FX_KIR_LT, fx_kir_get(c->m, s->width), s->n);
}

/* x at place list[i], where 'on'. */
static fx_kop *listed(fx_lk *c, merging *s, fx_kop *i, fx_kop *on)
{
    fx_kop *at = fx_kir_load(c->m, s->from, &i, 1, 1, on), *v = fx_kir_load(c->m, s->x, &at, 1, 1, on);

    return v ? fx_kir_convert(c->m, v, s->wide) : NULL;
}

/* Elements p..mid and q..hi of 'from', each in order, become o.. of 'to'. */
static void merge(fx_lk *c, merging *s, fx_kop *lo, fx_kop *mid, fx_kop *hi)
{
    fx_kop *p, *q, *has_p, *has_q, *second, *at;
    inside loop;

    fx_kir_set(c->m, s->p, lo);
    fx_kir_set(c->m, s->q, mid);
    loop = open_for(c, lo, hi, NULL);
    p = fx_kir_get(c->m, s->p);
    q = fx_kir_get(c->m, s->q);
    has_p = op2(c, FX_KIR_LT, p, mid);
    has_q = op2(c, FX_KIR_LT, q, hi);
    second = goes_before(c, listed(c, s, q, has_q), listed(c, s, p, has_p), s->greatest);
    second = op2(c, FX_KIR_AND, has_q, op2(c, FX_KIR_OR, op1(c, FX_KIR_NOT, has_p), second));
    at = select3(c, second, q, p);
    store1(c, s->to, load1(c, s->from, at), counter(&loop));
    fx_kir_set(c->m, s->p, select3(c, second, p, add1(c, p)));
    fx_kir_set(c->m, s->q, select3(c, second, add1(c, q), q));
    close_block(c, &loop);
}

/* Merges ever wider runs; each turn's lists are copied back. */
static void make_argsort(fx_lk *c, fx_op *op, const int32_t *result)
{
    const fx_type *t = &fx_op_in(op, 0)->type;
    merging s = { .wide = fx_lk_wide(t->dtype), .greatest = !fx_op_i(op, FX_A_ASCENDING) };
    int32_t spare = fx_lower_spare(c->l, &op->out[0]);
    fx_kop *width, *lo, *mid;
    inside loop, runs, back;

    if (spare < 0) {
        fx_kir_fail(c->m, FORNAX_ENOMEM, "no memory for a plan");
        return;
    }
    s.from = fx_lk_buffer_as(c, result[0], FX_KIR_INOUT, t->dim, 1);
    s.to = fx_lk_buffer_as(c, spare, FX_KIR_INOUT, t->dim, 1);
    s.x = fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, t->dim, 1);
    tasks(c, fx_dim_of(1));
    s.n = fx_lk_size(c, t->dim[0]);
    s.width = fx_kir_local(c->m, fx_lk_num(c, 1), FX_STR("width"));
    s.p = fx_kir_local(c->m, fx_lk_num(c, 0), FX_STR("p"));
    s.q = fx_kir_local(c->m, fx_lk_num(c, 0), FX_STR("q"));
    back = open_for(c, fx_lk_num(c, 0), s.n, NULL);
    store1(c, s.from, counter(&back), counter(&back));
    close_block(c, &back);
    loop = open_while(c, still_narrow, &s);
    width = op2(c, FX_KIR_MIN, fx_kir_get(c->m, s.width), fx_lk_num(c, FX_KIR_MAX_SIZE));
    width = op2(c, FX_KIR_MAX, width, fx_lk_num(c, 1));
    runs = open_for(c, fx_lk_num(c, 0), s.n, op2(c, FX_KIR_ADD, width, width));
    lo = counter(&runs);
    mid = op2(c, FX_KIR_MIN, op2(c, FX_KIR_ADD, lo, width), s.n);
    merge(c, &s, lo, mid, op2(c, FX_KIR_MIN, op2(c, FX_KIR_ADD, mid, width), s.n));
    close_block(c, &runs);
    back = open_for(c, fx_lk_num(c, 0), s.n, NULL);
    store1(c, s.from, load1(c, s.to, counter(&back)), counter(&back));
    close_block(c, &back);
    fx_kir_set(c->m, s.width, op2(c, FX_KIR_ADD, width, width));
    close_block(c, &loop);
}

/* ---- The table ------------------------------------------------------------------------------------------------------ */

fx_own_fn fx_own_of(fx_opcode code)
{
    if (scatter_row_of(code))
        return make_scatter;
    switch (code) {
    case FX_OP_CUMSUM: return make_cumsum;
    case FX_OP_MASKED_SCATTER: return make_masked_scatter;
    case FX_OP_TOP_K: case FX_OP_BOTTOM_K: return make_top_k;
    case FX_OP_ARGSORT: return make_argsort;
    default: return NULL;
    }
}
