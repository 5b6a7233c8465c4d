/* lower_sized.c - results whose size only their operands' values tell, and names that ops give to sizes.
 *
 * A kernel counts, a launch of kind SIZE gives the size its value (or holds it to the one that it has), another kernel fills
 * the result: places that aren't 0, boxes, repeats that are a tensor.  A rebind and a range tell sizes of what is computed elsewhere. */
#include "passes/lower_loops.h"

#include <math.h>

typedef void (*make_fn)(fx_lk *c, fx_op *op, const int32_t *tensor);

static fx_status run_kernel(fx_lower *l, fx_op *op, make_fn make, const int32_t *tensor)
{
    fx_lk c;

    fx_lk_begin(l, &c);
    if (c.k)
        make(&c, op, tensor);
    return fx_lk_end(&c, op);
}

static fx_status new_scratch(fx_lower *l, const fx_op *op, fx_dtype t, int rank, const fx_dim *dim, int32_t *out)
{
    fx_type type = { .dtype = t, .rank = rank };

    for (int i = 0; i < rank; i++)
        type.dim[i] = dim[i];
    return fx_lower_scratch(l, op, &type, FX_STR(""), out);
}

static fx_status take_text(fx_lower *l, fx_str s, fx_str *out)
{
    char *p = fx_arena_strdup(l->arena, s.p, s.n);

    *out = fx_str_n(p ? p : "", p ? s.n : 0);
    return p ? FORNAX_OK : fx_nomem(l->err, "a plan");
}

/* 'size' is what the i64 in 'tensor' says, or (is) that size. */
static fx_status tell_size(fx_lower *l, const fx_op *op, fx_dim size, int32_t tensor, const fx_dim *is, fx_str why)
{
    int32_t *args = FX_ARENA_NEWN(l->arena, int32_t, 2);
    fx_klaunch *n;
    size_t at;

    if (!args)
        return fx_nomem(l->err, "a plan");
    FX_TRY(fx_lower_launch(l, FX_KLAUNCH_SIZE, op, &at));
    args[0] = fx_lower_size_number(l, size);
    args[1] = is ? fx_lower_size_number(l, *is) : 0;
    n = &l->launches.at[at];
    n->args = args;
    n->n_args = is ? 2 : 1;
    n->pred = tensor;
    fx_lower_know(l, size);
    return take_text(l, why, &n->text);
}

static void store_count(fx_lk *c, int32_t tensor, fx_kop *n)
{
    fx_kir_store(c->m, fx_lk_buffer_as(c, tensor, FX_KIR_OUT, NULL, 0), n, NULL, 0, NULL);
}

static fx_kop *as_i64(fx_lk *c, fx_kop *x) { return x ? fx_kir_convert(c->m, x, FX_I64) : NULL; }
static fx_kop *as_f64(fx_lk *c, fx_kop *x) { return x ? fx_kir_convert(c->m, x, FX_F64) : NULL; }
static fx_kop *as_bool(fx_lk *c, fx_kop *x) { return x ? fx_kir_convert(c->m, x, FX_BOOL) : NULL; }
static fx_kop *new_local(fx_lk *c, int64_t n, const char *name) { return fx_kir_local(c->m, fx_lk_num(c, n), fx_str_of(name)); }
static void count_up(fx_lk *c, fx_kop *local) { fx_kir_set(c->m, local, op2(c, FX_KIR_ADD, fx_kir_get(c->m, local), fx_lk_num(c, 1))); }

/* ---- Places that aren't 0 ---------------------------------------------------------------------------- */

#define COUNT_LANES 16

static void count_places(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    const fx_type *t = &fx_op_in(op, 0)->type;
    fx_dim n = fx_lower_rows(c->l, t, t->rank);
    fx_kop *x = fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, &n, 1);
    fx_lk_fold f;

    tasks(c, fx_dim_of(1));
    f = fx_lk_fold_begin(c, FX_KIR_SUM, COUNT_LANES, FX_I64, fx_lk_size(c, n));
    store_count(c, tensor[0], fx_lk_fold_end(c, &f, as_i64(c, as_bool(c, load1(c, x, f.k))), NULL));
}

static void fill_places(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    const fx_type *t = &fx_op_in(op, 0)->type, *u = &op->out[0].type;
    fx_kop *x = fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, t->dim, t->rank), *y = fx_lk_buffer_as(c, tensor[0], FX_KIR_OUT, u->dim, 2);
    fx_kop *index[FX_MAX_RANK], *next;
    inside loops[FX_MAX_RANK], found;

    tasks(c, fx_dim_of(1));
    next = new_local(c, 0, "next");
    for (int i = 0; i < t->rank; i++) {
        loops[i] = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, t->dim[i]), NULL);
        index[i] = counter(&loops[i]);
    }
    found = open_if(c, as_bool(c, fx_kir_load(c->m, x, index, t->rank, 1, NULL)));
    for (int i = 0; i < t->rank; i++)
        fx_kir_store(c->m, y, index[i], (fx_kop *const[]){ fx_kir_get(c->m, next), fx_lk_num(c, i) }, 2, NULL);
    count_up(c, next);
    close_block(c, &found);
    for (int i = t->rank; i-- > 0;)
        close_block(c, &loops[i]);
}

fx_status fx_lower_nonzero(fx_lower *l, fx_op *op)
{
    int32_t count, y;

    FX_TRY(new_scratch(l, op, FX_I64, 0, NULL, &count));
    FX_TRY(run_kernel(l, op, count_places, &count));
    FX_TRY(tell_size(l, op, op->out[0].type.dim[0], count, NULL, FX_STR("")));
    FX_TRY(fx_lower_own_tensor(l, &op->out[0], &y));
    return run_kernel(l, op, fill_places, &y);
}

/* ---- Boxes ------------------------------------------------------------------------------------------------- */

enum { SEEN, KEPT, N_KEPT, TOTAL, RESULT, N_TENSORS };

typedef struct boxes {
    fx_lk *c;
    fx_op *op;
    fx_dim pairs[2];             /* of batch and class; boxes */
    fx_kop *boxes, *scores, *seen, *kept;
    fx_kop *batch, *n_kept, *best, *most, *more;         /* the last four are locals */
} boxes;

static fx_status pairs_of(fx_lower *l, const fx_op *op, fx_dim pairs[2])
{
    const fx_type *scores = &fx_op_in(op, 1)->type;

    pairs[0] = fx_lower_rows(l, scores, 2);
    pairs[1] = scores->dim[2];
    return l->no_memory ? fx_nomem(l->err, "a plan") : FORNAX_OK;
}

static fx_kop *greater(fx_lk *c, fx_kop *a, fx_kop *b) { return op2(c, FX_KIR_LT, b, a); }

/* Sides of a box in order: low y, low x, high y, high x. */
static void load_box(boxes *b, fx_kop *box, fx_kop *out[4])
{
    fx_lk *c = b->c;
    fx_kop *raw[4];

    for (int e = 0; e < 4; e++)
        raw[e] = as_f64(c, load3(c, b->boxes, b->batch, box, fx_lk_num(c, e)));
    for (int e = 0; e < 2; e++) {
        out[e] = op2(c, FX_KIR_MIN, raw[e], raw[e + 2]);
        out[e + 2] = op2(c, FX_KIR_MAX, raw[e], raw[e + 2]);
    }
}

/* What two boxes share, as part of what they cover together; 0 if that is nothing, or no number. */
static fx_kop *overlap(fx_lk *c, fx_kop *const a[4], fx_kop *const b[4])
{
    fx_kop *side[2], *area[2], *shared, *all, *zero = fx_lk_const(c, a[0], 0);

    for (int i = 0; i < 2; i++)
        side[i] = op2(c, FX_KIR_SUB, op2(c, FX_KIR_MIN, a[i + 2], b[i + 2]), op2(c, FX_KIR_MAX, a[i], b[i]));
    shared = op2(c, FX_KIR_AND, greater(c, side[0], zero), greater(c, side[1], zero));
    shared = select3(c, shared, op2(c, FX_KIR_MUL, side[0], side[1]), zero);
    for (int i = 0; i < 2; i++) {
        fx_kop *const *box = i ? b : a;

        area[i] = op2(c, FX_KIR_MUL, op2(c, FX_KIR_SUB, box[2], box[0]), op2(c, FX_KIR_SUB, box[3], box[1]));
    }
    all = op2(c, FX_KIR_SUB, op2(c, FX_KIR_ADD, area[0], area[1]), shared);
    return select3(c, greater(c, all, zero), op2(c, FX_KIR_DIV, shared, all), zero);
}

/* The best box that nobody has looked at becomes 'best', -1 if there is none above the threshold. */
static void find_best(boxes *b)
{
    fx_lk *c = b->c;
    fx_kop *score, *best, *better;
    inside loop;

    fx_kir_set(c->m, b->best, fx_lk_num(c, -1));
    loop = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, b->pairs[1]), NULL);
    score = as_f64(c, fx_kir_load(c->m, b->scores, (fx_kop *const[]){ c->k->task, counter(&loop) }, 2, 1, NULL));
    best = fx_kir_get(c->m, b->best);
    better = op2(c, FX_KIR_OR, op2(c, FX_KIR_LT, best, fx_lk_num(c, 0)), greater(c, score, fx_kir_get(c->m, b->most)));
    better = op2(c, FX_KIR_AND, better, greater(c, score, fx_lk_const(c, score, fx_op_f(b->op, FX_A_MIN_SCORE))));
    better = op2(c, FX_KIR_AND, better, op1(c, FX_KIR_NOT,
                 fx_kir_load(c->m, b->seen, (fx_kop *const[]){ c->k->task, counter(&loop) }, 2, 1, NULL)));
    fx_kir_set(c->m, b->best, select3(c, better, counter(&loop), best));
    fx_kir_set(c->m, b->most, select3(c, better, score, fx_kir_get(c->m, b->most)));
    close_block(c, &loop);
}

/* Keeps the best box unless it overlaps one that is kept by too much. */
static void take_best(boxes *b)
{
    fx_lk *c = b->c;
    fx_kop *best = fx_kir_get(c->m, b->best), *mine[4], *other[4], *keep, *at;
    inside found = open_if(c, op2(c, FX_KIR_LE, fx_lk_num(c, 0), best)), loop, kept;

    fx_kir_store(c->m, b->seen, bool_of(c, true), (fx_kop *const[]){ c->k->task, best }, 2, NULL);
    load_box(b, best, mine);
    keep = fx_kir_local(c->m, bool_of(c, true), FX_STR("keep"));
    loop = open_for(c, fx_lk_num(c, 0), fx_kir_get(c->m, b->n_kept), NULL);
    load_box(b, fx_kir_load(c->m, b->kept, (fx_kop *const[]){ c->k->task, counter(&loop) }, 2, 1, NULL), other);
    at = overlap(c, mine, other);
    at = op1(c, FX_KIR_NOT, greater(c, at, fx_lk_const(c, at, fx_op_f(b->op, FX_A_MAX_OVERLAP))));
    fx_kir_set(c->m, keep, op2(c, FX_KIR_AND, fx_kir_get(c->m, keep), at));
    close_block(c, &loop);
    kept = open_if(c, fx_kir_get(c->m, keep));
    fx_kir_store(c->m, b->kept, best, (fx_kop *const[]){ c->k->task, fx_kir_get(c->m, b->n_kept) }, 2, NULL);
    count_up(c, b->n_kept);
    close_block(c, &kept);
    close_block(c, &found);
    at = op2(c, FX_KIR_LT, fx_kir_get(c->m, b->n_kept), fx_lk_num(c, fx_op_i(b->op, FX_A_MAX_BOXES)));
    fx_kir_set(c->m, b->more, op2(c, FX_KIR_AND, at, op2(c, FX_KIR_LE, fx_lk_num(c, 0), best)));
}

static fx_kop *any_more(fx_lk *c, void *user) { return fx_kir_get(c->m, ((boxes *)user)->more); }

/* A task is a batch and a class. */
static void choose_boxes(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    const fx_type *t = &fx_op_in(op, 0)->type;
    boxes b = { .c = c, .op = op };
    inside loop;
    fx_kop *n;

    if (pairs_of(c->l, op, b.pairs) != FORNAX_OK)
        return;
    b.boxes = fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, t->dim, 3);
    b.scores = fx_lk_buffer_as(c, kept_of(c, op, 1), FX_KIR_IN, b.pairs, 2);
    b.seen = fx_lk_buffer_as(c, tensor[SEEN], FX_KIR_INOUT, b.pairs, 2);
    b.kept = fx_lk_buffer_as(c, tensor[KEPT], FX_KIR_INOUT, b.pairs, 2);
    n = fx_lk_buffer_as(c, tensor[N_KEPT], FX_KIR_OUT, b.pairs, 1);
    tasks(c, b.pairs[0]);
    b.batch = fx_lk_div(c, c->k->task, fx_lk_size(c, fx_op_in(op, 1)->type.dim[1]));
    loop = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, b.pairs[1]), NULL);
    fx_kir_store(c->m, b.seen, bool_of(c, false), (fx_kop *const[]){ c->k->task, counter(&loop) }, 2, NULL);
    close_block(c, &loop);
    b.n_kept = new_local(c, 0, "n_kept");
    b.best = new_local(c, -1, "best");
    b.most = fx_kir_local(c->m, fx_kir_float(c->m, fx_ktype_of(FX_F64, 1), 0), FX_STR("most"));
    b.more = fx_kir_local(c->m, bool_of(c, fx_op_i(op, FX_A_MAX_BOXES) > 0), FX_STR("more"));
    loop = open_while(c, any_more, &b);
    find_best(&b);
    take_best(&b);
    close_block(c, &loop);
    store1(c, n, fx_kir_get(c->m, b.n_kept), c->k->task);
}

static void count_boxes(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    fx_dim pairs[2];
    fx_lk_fold f;
    fx_kop *n;

    if (pairs_of(c->l, op, pairs) != FORNAX_OK)
        return;
    n = fx_lk_buffer_as(c, tensor[N_KEPT], FX_KIR_IN, pairs, 1);
    tasks(c, fx_dim_of(1));
    f = fx_lk_fold_begin(c, FX_KIR_SUM, 1, FX_I64, fx_lk_size(c, pairs[0]));
    store_count(c, tensor[TOTAL], fx_lk_fold_end(c, &f, load1(c, n, f.k), NULL));
}

static void fill_boxes(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    fx_kop *y = fx_lk_buffer_as(c, tensor[RESULT], FX_KIR_OUT, op->out[0].type.dim, 2), *kept, *n, *next, *cell[3], *classes;
    inside loop, list;
    fx_dim pairs[2];

    if (pairs_of(c->l, op, pairs) != FORNAX_OK)
        return;
    kept = fx_lk_buffer_as(c, tensor[KEPT], FX_KIR_IN, pairs, 2);
    n = fx_lk_buffer_as(c, tensor[N_KEPT], FX_KIR_IN, pairs, 1);
    tasks(c, fx_dim_of(1));
    next = new_local(c, 0, "next");
    classes = fx_lk_size(c, fx_op_in(op, 1)->type.dim[1]);
    loop = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, pairs[0]), NULL);
    cell[0] = fx_lk_div(c, counter(&loop), classes);
    cell[1] = fx_lk_rem(c, counter(&loop), classes);
    list = open_for(c, fx_lk_num(c, 0), load1(c, n, counter(&loop)), NULL);
    cell[2] = fx_kir_load(c->m, kept, (fx_kop *const[]){ counter(&loop), counter(&list) }, 2, 1, NULL);
    for (int e = 0; e < 3; e++)
        fx_kir_store(c->m, y, cell[e], (fx_kop *const[]){ fx_kir_get(c->m, next), fx_lk_num(c, e) }, 2, NULL);
    count_up(c, next);
    close_block(c, &list);
    close_block(c, &loop);
}

fx_status fx_lower_nms(fx_lower *l, fx_op *op)
{
    int32_t tensor[N_TENSORS];
    fx_dim pairs[2];

    FX_TRY(pairs_of(l, op, pairs));
    FX_TRY(new_scratch(l, op, FX_BOOL, 2, pairs, &tensor[SEEN]));
    FX_TRY(new_scratch(l, op, FX_I64, 2, pairs, &tensor[KEPT]));
    FX_TRY(new_scratch(l, op, FX_I64, 1, pairs, &tensor[N_KEPT]));
    FX_TRY(new_scratch(l, op, FX_I64, 0, NULL, &tensor[TOTAL]));
    FX_TRY(run_kernel(l, op, choose_boxes, tensor));
    FX_TRY(run_kernel(l, op, count_boxes, tensor));
    FX_TRY(tell_size(l, op, op->out[0].type.dim[0], tensor[TOTAL], NULL, FX_STR("")));
    FX_TRY(fx_lower_own_tensor(l, &op->out[0], &tensor[RESULT]));
    return run_kernel(l, op, fill_boxes, tensor);
}

/* ---- Repeats that are a tensor -------------------------------------------------------------------------------- */

/* How often element e is there: each has a number of its own, or all one. */
static fx_kop *times_of(fx_lk *c, fx_op *op, fx_kop *repeats, fx_kop *e)
{
    bool one = fx_dim_eq(fx_op_in(op, 1)->type.dim[0], fx_dim_of(1));

    return as_i64(c, load1(c, repeats, one ? fx_lk_num(c, 0) : e));
}

static along axis_of(fx_lk *c, const fx_op *op, const fx_type *t) { return along_axis(c, t, fx_op_axis(op, FX_A_AXIS, t->rank)); }

/* Their sum, which no numbers can make small again; the least one if that is negative. */
static void count_repeats(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    along x = axis_of(c, op, &fx_op_in(op, 0)->type);
    fx_kop *repeats = fx_lk_buffer_as(c, kept_of(c, op, 1), FX_KIR_IN, fx_op_in(op, 1)->type.dim, 1), *sum, *least, *n, *old;
    inside loop;

    tasks(c, fx_dim_of(1));
    sum = new_local(c, 0, "sum");
    least = new_local(c, 0, "least");
    loop = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, x.dim[1]), NULL);
    n = times_of(c, op, repeats, counter(&loop));
    fx_kir_set(c->m, least, op2(c, FX_KIR_MIN, n, fx_kir_get(c->m, least)));
    old = fx_kir_get(c->m, sum);
    n = op2(c, FX_KIR_ADD, old, op2(c, FX_KIR_MIN, n, fx_lk_num(c, 2 * FX_KIR_MAX_SIZE)));
    fx_kir_set(c->m, sum, op2(c, FX_KIR_MIN, n, fx_lk_num(c, 2 * FX_KIR_MAX_SIZE)));
    close_block(c, &loop);
    n = fx_kir_get(c->m, least);
    store_count(c, tensor[0], select3(c, op2(c, FX_KIR_LT, n, fx_lk_num(c, 0)), n, fx_kir_get(c->m, sum)));
}

static void fill_repeats(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    along from = axis_of(c, op, &fx_op_in(op, 0)->type), to = axis_of(c, op, &op->out[0].type);
    fx_kop *x = fx_lk_buffer_as(c, kept_of(c, op, 0), FX_KIR_IN, from.dim, 3), *y = fx_lk_buffer_as(c, tensor[0], FX_KIR_OUT, to.dim, 3);
    fx_kop *repeats = fx_lk_buffer_as(c, kept_of(c, op, 1), FX_KIR_IN, fx_op_in(op, 1)->type.dim, 1), *next, *at;
    inside axis, times, behind;

    tasks(c, from.dim[0]);
    next = new_local(c, 0, "next");
    axis = open_for(c, fx_lk_num(c, 0), fx_lk_size(c, from.dim[1]), NULL);
    times = open_for(c, fx_lk_num(c, 0), times_of(c, op, repeats, counter(&axis)), NULL);
    at = fx_kir_get(c->m, next);
    behind = open_block(c, fx_kir_forall(c->m, fx_lk_num(c, 0), fx_lk_size(c, from.dim[2])), 0);
    store3(c, y, load3(c, x, c->k->task, counter(&axis), counter(&behind)), c->k->task, at, counter(&behind));
    close_block(c, &behind);
    count_up(c, next);
    close_block(c, &times);
    close_block(c, &axis);
}

fx_status fx_lower_repeats(fx_lower *l, fx_op *op)
{
    const fx_type *t = &op->out[0].type;
    int32_t count, y;

    FX_TRY(new_scratch(l, op, FX_I64, 0, NULL, &count));
    FX_TRY(run_kernel(l, op, count_repeats, &count));
    FX_TRY(tell_size(l, op, t->dim[fx_op_axis(op, FX_A_AXIS, t->rank)], count, NULL, FX_STR("")));
    FX_TRY(fx_lower_own_tensor(l, &op->out[0], &y));
    return run_kernel(l, op, fill_repeats, &y);
}

/* ---- Names of sizes --------------------------------------------------------------------------------------------- */

/* ceil((stop - start) / step), 0 if that is negative, -1 where the step is 0. */
static void count_range(fx_lk *c, fx_op *op, const int32_t *tensor)
{
    fx_kop *v[3], *n, *zero;

    tasks(c, fx_dim_of(1));
    for (int i = 0; i < 3; i++)
        v[i] = as_f64(c, fx_lk_value(c, fx_op_in(op, i), NULL));
    n = op1(c, FX_KIR_CEIL, op2(c, FX_KIR_DIV, op2(c, FX_KIR_SUB, v[1], v[0]), v[2]));
    zero = n ? fx_lk_const(c, n, 0) : NULL;
    n = as_i64(c, select3(c, greater(c, n, zero), n, zero));
    store_count(c, tensor[0], select3(c, op2(c, FX_KIR_EQ, v[2], zero), fx_lk_num(c, -1), n));
}

/* The number that v is; false if it is no constant. */
static bool constant_number(const fx_value *v, double *out)
{
    const fx_attr *a = v->def && v->def->code == FX_OP_CONSTANT ? fx_op_attr(v->def, FX_A_VALUES) : NULL;

    if (!a || a->u.v.n != 1)
        return false;
    *out = fx_dtype_is_float(a->u.v.dtype) ? fx_scalar_f64(a->u.v.dtype, a->u.v.at) : (double)fx_scalar_i64(a->u.v.dtype, a->u.v.at);
    return true;
}

static fx_status size_of_range(fx_lower *l, fx_op *op)
{
    fx_dim size = op->out[0].type.dim[0];
    double start, stop, step, n;
    int32_t count;

    if (fx_dim_is_static(size) && constant_number(fx_op_in(op, 0), &start) && constant_number(fx_op_in(op, 1), &stop) &&
        constant_number(fx_op_in(op, 2), &step)) {
        n = ceil((stop - start) / step);
        return step != 0 && (double)size.n == (n > 0 ? n : 0) ? FORNAX_OK
               : fx_lower_unsupported(l, op, "its step is 0, or its size isn't ceil((stop - start) / step)");
    }
    FX_TRY(new_scratch(l, op, FX_I64, 0, NULL, &count));
    FX_TRY(run_kernel(l, op, count_range, &count));
    return tell_size(l, op, size, count, NULL, FX_STR(""));
}

static fx_status sizes_of_rebind(fx_lower *l, const fx_op *op)
{
    const fx_type *x = &fx_op_in(op, 0)->type, *y = &op->out[0].type;

    for (int i = 0; i < y->rank; i++) {
        if (!fx_dim_eq(x->dim[i], y->dim[i]))
            FX_TRY(tell_size(l, op, y->dim[i], 0, &x->dim[i], fx_op_attr(op, FX_A_MESSAGE)->u.s));
    }
    return FORNAX_OK;
}

fx_status fx_lower_sizes(fx_lower *l, fx_op *op)
{
    if (op->code == FX_OP_RANGE)
        return size_of_range(l, op);
    return op->code == FX_OP_REBIND ? sizes_of_rebind(l, op) : FORNAX_OK;
}
