/* lower_fuse_rows.c - patterns within rows: norms with the sum in front of them, a rotation or a rounding behind, and sums of gathered
 * rows.
 *
 * What a row has in common is computed once and all else where it is wanted, so a kernel that has the whole row at hand may
 * give several results of it. */
#include "passes/lower_kir_int.h"

/* ---- Norms and sums --------------------------------------------------------------------------------------- */

static bool is_norm(const fx_op *op) { return op->code == FX_OP_RMSNORM || op->code == FX_OP_LAYERNORM; }

/* Whether the norm takes groups of columns each for itself. */
static bool by_groups(const fx_op *norm)
{
    if (norm->code == FX_OP_LAYERNORM)
        return fx_op_i(norm, FX_A_GROUPS) > 1;
    return !fx_dim_eq(fx_type_last(&fx_op_in(norm, 0)->type), fx_op_in(norm, 1)->type.dim[0]);
}

/* Ops worth computing twice rather than going through memory. */
static bool is_cheap(fx_opcode code)
{
    static const fx_opcode dear[] = { FX_OP_SILU, FX_OP_GELU, FX_OP_GELU_TANH, FX_OP_GELU_QUICK, FX_OP_SIGMOID, FX_OP_TANH, FX_OP_SWIGLU,
                                      FX_OP_POW, FX_OP_MOD, FX_OP_EXP, FX_OP_LOG, FX_OP_LOG1P, FX_OP_SIN, FX_OP_COS, FX_OP_ACOS, FX_OP_ATANH,
                                      FX_OP_ERF };

    for (size_t i = 0; i < FX_COUNT(dear); i++) {
        if (dear[i] == code)
            return false;
    }
    return fx_lower_by_element(code) || fx_lower_moves_only(code);
}

/* Why computing v at each turn over a row would cost too much; NULL: it wouldn't. */
static const char *too_dear(const fx_value *v, bool inside)
{
    const fx_op *op = v->def;

    if (!op || !op->n_in || (inside && !fx_single_use(v) && !fx_lower_moves_only(op->code)))
        return NULL;                     /* it lies in memory */
    if (fx_op_rows[op->code].kind == FX_KIND_CONTRACT)
        return "what is added is formed in the tiles of a product";
    if (!is_cheap(op->code) && !is_norm(op))
        return inside && fx_op_rows[op->code].kind != FX_KIND_MAP ? NULL : "what is added would be computed again for each turn over a row";
    for (int i = 0; i < op->n_in; i++) {
        const char *why = fx_op_in(op, i) ? too_dear(fx_op_in(op, i), true) : NULL;

        if (why)
            return why;
    }
    return NULL;
}

/* The sum that a norm is of: of two, or of the ranks' parts; NULL: it is of something else. */
static fx_op *sum_of(const fx_op *norm)
{
    fx_op *add = fx_arg_of(norm, 0, FX_OP_ADD);

    return add ? add : fx_arg_of(norm, 0, FX_OP_ALL_REDUCE);
}

static const char *sum_and_norm(fx_op *norm, fx_fused *f, bool twin)
{
    fx_op *sum = is_norm(norm) ? sum_of(norm) : NULL;
    bool found = false;
    const char *why;

    if (!sum || fx_single_use(&sum->out[0]) || sum->block != norm->block || !norm->out[0].uses)
        return FX_NO_PATTERN;
    for (int i = 0; i < sum->n_in; i++) {
        const fx_op *first = fx_op_in(sum, i)->def;

        found = found || (first && is_norm(first) && fx_single_use(&first->out[0]));
    }
    if (twin != found)
        return FX_NO_PATTERN;
    if (by_groups(norm))
        return "the norm is by groups of columns";
    why = too_dear(&sum->out[0], false);
    if (why)
        return why;
    fx_fuse_result(f, &sum->out[0]);
    fx_fuse_result(f, &norm->out[0]);
    f->make = fx_fuse_make_rows;
    return fx_fuse_place(f);
}

/* add-norm:  s = add(a, b); y = norm(s)  ==>  one kernel gives s and y, where s has other readers too. An all-reduce may be s, or in it:
 *            the parts are summed in rank order where the row is. */
const char *fx_fuse_add_norm(fx_lower *l, fx_op *root, fx_fused *f)
{
    (void)l;
    return sum_and_norm(root, f, false);
}

/* double-norm:  s = add(norm(x), r); y = norm(s)  ==>  one kernel gives s and y, and the first norm goes nowhere. */
const char *fx_fuse_double_norm(fx_lower *l, fx_op *root, fx_fused *f)
{
    (void)l;
    return sum_and_norm(root, f, true);
}

/* The sum in front of the norm, if it has other readers and may go along. */
static void take_sum(const fx_op *norm, fx_fused *f)
{
    fx_op *sum = sum_of(norm);

    if (sum && !fx_single_use(&sum->out[0]) && sum->block == norm->block && !too_dear(&sum->out[0], false))
        fx_fuse_result(f, &sum->out[0]);
}

/* ---- What is read along a row -------------------------------------------------------------------------------- */

/* Whether t's first axes are those of the rows' type, and nothing but columns comes behind. */
static bool has_rows_of(const fx_type *t, const fx_type *rows)
{
    if (t->rank < rows->rank)
        return false;
    for (int i = 0; i < rows->rank - 1; i++) {
        if (!fx_dim_eq(t->dim[i], rows->dim[i]))
            return false;
    }
    return true;
}

/* Whether op, which reads v, makes of each row a row. */
static bool keeps_rows(const fx_op *op, const fx_value *v, const fx_type *rows)
{
    const fx_type *y = op->n_out ? &op->out[0].type : NULL;
    int first = rows->rank - 1;

    if (!y || !fx_at_of(op) || !has_rows_of(y, rows))
        return false;
    if (fx_lower_by_element(op->code))
        return v->type.rank == y->rank;
    switch (op->code) {
    case FX_OP_SLICE:
        return !fx_op_in(op, 1) && fx_op_axis(op, FX_A_AXIS, y->rank) >= first;
    case FX_OP_SPLIT: case FX_OP_CHUNK: case FX_OP_CONCAT: case FX_OP_STACK:
        return fx_op_axis(op, FX_A_AXIS, y->rank) >= first;
    case FX_OP_RESHAPE: case FX_OP_UNSQUEEZE: case FX_OP_SQUEEZE: case FX_OP_FLATTEN: case FX_OP_AS_COMPLEX:
        return true;
    default:
        return false;
    }
}

static bool cuts(const fx_op *op) { return op->code == FX_OP_SLICE || op->code == FX_OP_SPLIT || op->code == FX_OP_CHUNK; }
static bool joins(const fx_op *op) { return op->code == FX_OP_CONCAT || op->code == FX_OP_STACK; }

/* One row of 'rows' is one row of t. */
static bool is_row(const fx_type *t, const fx_type *rows)
{
    for (int i = rows->rank - 1; i < t->rank - 1; i++) {
        if (!fx_dim_eq(t->dim[i], fx_dim_of(1)))
            return false;
    }
    return t->rank >= rows->rank;
}

/* Values that are made of the row and still have readers to be looked at, in order of the block. */
typedef struct front {
    int n;
    fx_value *v[FX_FUSE_INNER];
    bool cut, join;
} front;

static bool enter(front *w, fx_value *v)
{
    int at = w->n;

    for (int i = 0; i < w->n; i++) {
        if (w->v[i] == v)
            return true;
    }
    if (w->n == FX_FUSE_INNER)
        return false;
    for (; at > 0 && v->def != w->v[at - 1]->def && fx_op_before(v->def, w->v[at - 1]->def); at--)
        w->v[at] = w->v[at - 1];
    w->v[at] = v;
    w->n++;
    return true;
}

/* The first value goes inside, its readers' results come in. */
static const char *advance(front *w, fx_fused *f, const fx_type *rows)
{
    fx_value *v = w->v[0];

    w->n--;
    memmove(w->v, w->v + 1, (size_t)w->n * sizeof(w->v[0]));
    if (!fx_fuse_inner(f, v))
        return "so many steps lie between norm and rotation";
    for (const fx_use *u = v->uses; u; u = u->next)
        w->cut = w->cut || (cuts(u->user) && keeps_rows(u->user, v, rows));
    for (const fx_use *u = v->uses; u; u = u->next) {
        fx_op *op = u->user;

        if (op->block != v->def->block || !keeps_rows(op, v, rows))
            return w->cut ? "the norm, or a part of it, has a reader that isn't of the rotation" : FX_NO_PATTERN;
        w->join = w->join || joins(op);
        for (int i = 0; i < op->n_out; i++) {
            if (op->out[i].uses && !enter(w, &op->out[i]))
                return "so many steps lie between norm and rotation";
        }
    }
    return NULL;
}

/* norm-rope:  a rotation of a norm, made of slices, products with cos and sin, and their concatenation (or stack)  ==>  one kernel,
 *             with what is passed through unrotated. Halves or pairs, RMS or layer norm, casts between. */
const char *fx_fuse_norm_rope(fx_lower *l, fx_op *root, fx_fused *f)
{
    front w = { .n = 0 };
    const char *why = NULL;
    const fx_type *rows;

    (void)l;
    if (!is_norm(root) || !root->out[0].uses)
        return FX_NO_PATTERN;
    rows = &root->out[0].type;
    enter(&w, &root->out[0]);
    while (!why && (w.n != 1 || w.v[0]->def == root || !w.join || !is_row(&w.v[0]->type, rows)))
        why = w.n ? advance(&w, f, rows) : FX_NO_PATTERN;
    if (why)
        return why;
    if (!w.cut)
        return FX_NO_PATTERN;
    if (by_groups(root))
        return "the norm is by groups of columns";
    fx_fuse_result(f, w.v[0]);
    return NULL;
}

/* ---- Rounding ------------------------------------------------------------------------------------------------- */

static bool is_small(fx_dtype t) { return t == FX_I8 || t == FX_U8 || t == FX_F8E4M3 || t == FX_F8E5M2; }

/* Whether op works within rows (keeping them or reducing each to one element) and all else that it reads is there before the norm. */
static bool joins_in(const fx_op *op, const fx_type *rows, fx_op *norm, const fx_fused *f)
{
    if (op->block != norm->block || op->n_out != 1 || op->out[0].type.rank != rows->rank || !has_rows_of(&op->out[0].type, rows) ||
        !(is_cheap(op->code) || (op->code == FX_OP_REDUCE_MAX && fx_lower_is_rowwise(op))) || fx_op_rows[op->code].kind == FX_KIND_VIEW)
        return false;
    for (int i = 0; i < op->n_in; i++) {
        const fx_value *in = fx_op_in(op, i);
        bool own = in->def == norm;

        for (int k = 0; k < f->n_inner; k++)
            own = own || f->inner[k] == in;
        if (!own && in->def && in->def->block == norm->block && in->def->n_in && !fx_op_before(in->def, norm))
            return false;
    }
    return true;
}

/* Inner values that someone else reads are results. */
static bool split_results(fx_fused *f)
{
    int n = 0;

    for (int i = 0; i < f->n_inner; i++) {
        bool outside = false;

        for (const fx_use *u = f->inner[i]->uses; u; u = u->next) {
            bool own = false;

            for (int k = 0; k < f->n_inner; k++)
                own = own || (u->user->n_out && f->inner[k] == &u->user->out[0]);
            outside = outside || !own;
        }
        if (outside && f->n_results == FX_FUSE_RESULTS)
            return false;
        if (outside)
            f->result[f->n_results++] = f->inner[i];
        else
            f->inner[n++] = f->inner[i];
    }
    f->n_inner = n;
    return true;
}

/* norm-quant:  y = norm(x); d = its greatest magnitude, scaled; q = cast(y / d)  ==>  one kernel gives q and d, and y if someone else
 *              reads it. */
const char *fx_fuse_norm_quant(fx_lower *l, fx_op *root, fx_fused *f)
{
    bool abs = false, max = false, small = false;
    const fx_type *rows;

    (void)l;
    if (!is_norm(root) || !root->out[0].uses)
        return FX_NO_PATTERN;
    rows = &root->out[0].type;
    fx_fuse_inner(f, &root->out[0]);
    for (fx_op *op = root->next; op && f->n_inner < FX_FUSE_INNER; op = op->next) {
        bool reads = false;

        for (int i = 0; i < op->n_in && !reads; i++) {
            for (int k = 0; k < f->n_inner; k++)
                reads = reads || (f->inner[k] == fx_op_in(op, i) && !is_small(f->inner[k]->type.dtype));
        }
        if (!reads || !joins_in(op, rows, root, f))
            continue;
        fx_fuse_inner(f, &op->out[0]);
        abs = abs || op->code == FX_OP_ABS;
        max = max || op->code == FX_OP_REDUCE_MAX;
        small = small || (op->code == FX_OP_CAST && is_small(op->out[0].type.dtype));
    }
    if (!abs || !max || !small)
        return FX_NO_PATTERN;
    if (by_groups(root))
        return "the norm is by groups of columns";
    if (!split_results(f))
        return "so many of its values have other readers";
    take_sum(root, f);
    f->make = fx_fuse_make_rows;
    return fx_fuse_place(f);
}

/* ---- Sums of gathered rows -------------------------------------------------------------------------------------- */

/* gather-sum:  sum(f(gather(x, i)))  ==>  rows are read where they are summed; f, element by element, may weigh them. Also mean, max
 *              and their like. */
const char *fx_fuse_gather_sum(fx_lower *l, fx_op *root, fx_fused *f)
{
    const char *why = NULL;

    (void)l;
    if (!fx_op_has(root, FX_A_AXIS) || fx_at_of(root) != fx_at_reduce)
        return FX_NO_PATTERN;
    f->part[0] = fx_fuse_chain(f, fx_op_in(root, 0), FX_OP_GATHER, &why);
    return f->part[0] ? why : FX_NO_PATTERN;
}
