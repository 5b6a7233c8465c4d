/* kir_wide.c - the ops of a loop's block, made again for several iterations at once.
 *
 * Iterations i, i + 1, ... become lanes.  What is the same in all stays a scalar; sums and multiples of the counter stay the scalar of the
 * first lane and a step, so that addresses are computed once and accesses along the last axis are plain vectors. An 'if' that lanes
 * decide differently becomes a mask; loops with the same bounds in all lanes stay loops. */
#include "kir/kir_eval.h"
#include "kir/kir_widen.h"

#define MAX_UNROLL 8             /* lanes of a reduction in a loop that is widened */
#define FAR ((int64_t)1 << 60)

/* ---- What can be widened ---------------------------------------------------------------------------- */

static bool is_plain_op(const fx_kop *op)
{
    fx_kir_form form = fx_kir_rows[op->code].form;

    return op->type.lanes == 1 && op->code != FX_KIR_INSERT &&
           (form == FX_KFORM_CONST || form == FX_KFORM_SAME || form == FX_KFORM_COMPARE || form == FX_KFORM_SELECT ||
            form == FX_KFORM_CONVERT || form == FX_KFORM_BITCAST) &&
           (op->n_in == 0 || op->in[0]->type.lanes == 1);
}

static bool is_access(const fx_kop *op)
{
    int lanes = op->code == FX_KIR_STORE ? op->in[1]->type.lanes : op->type.lanes;

    return (op->code == FX_KIR_LOAD || (op->code == FX_KIR_STORE && op->in[0]->u.buf->rank)) && lanes == 1;
}

bool fx_wide_bounded(const fx_kop *lo, const fx_kop *hi)
{
    fx_krange a = fx_kir_range(lo), b = fx_kir_range(hi);

    return a.lo > -FAR && a.hi < FAR && b.lo > -FAR && b.hi < FAR;
}

/* A loop whose bounds are the same in all lanes. */
static bool is_even(const fx_kop *op, const fx_kir_block *loop)
{
    for (int i = 0; i < op->n_in; i++) {
        if (fx_kir_varies(op->in[i], loop))
            return false;
    }
    return fx_wide_bounded(op->in[0], op->in[1]);
}

static bool can(const fx_kop *op, const fx_kir_block *loop, int depth)
{
    switch (op->code) {
    case FX_KIR_YIELD: return true;
    case FX_KIR_LOCAL: case FX_KIR_GET: return op->type.lanes == 1;
    case FX_KIR_SET: return op->in[1]->type.lanes == 1;
    case FX_KIR_LOAD: case FX_KIR_STORE: return is_access(op);
    case FX_KIR_FOR: return is_even(op, loop);
    case FX_KIR_REDUCE: return is_even(op, loop) && op->u.reduce.lanes <= MAX_UNROLL && op->u.reduce.kind < FX_KIR_ARGLEAST;
    case FX_KIR_IF: return true;
    default: return is_plain_op(op) && depth < 8;
    }
}

bool fx_wide_can(const fx_kir_block *b, const fx_kir_block *loop, int depth)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (!can(op, loop, depth))
            return false;
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && !fx_wide_can(op->block[i], loop, depth + 1))
                return false;
        }
    }
    return true;
}

/* ---- Values --------------------------------------------------------------------------------------------- */

static bool inside(const fx_widener *w, const fx_kop *op) { return op->parent && fx_kir_inside(op->parent, w->block); }

/* What an operand has become; what stands outside is as it was. */
static fx_wide value_of(const fx_widener *w, const fx_kop *op)
{
    fx_kop *self = (fx_kop *)(uintptr_t)op;

    return inside(w, op) ? w->of[op->id] : (fx_wide){ .affine = true, .scalar = self };
}

static bool is_even_value(const fx_wide *v) { return v->affine && v->step == 0; }

static void set(fx_widener *w, const fx_kop *op, fx_wide v) { w->of[op->id] = v; }
static void set_even(fx_widener *w, const fx_kop *op, fx_kop *scalar) { set(w, op, (fx_wide){ .affine = true, .scalar = scalar }); }
static void set_vector(fx_widener *w, const fx_kop *op, fx_kop *vector) { set(w, op, (fx_wide){ .vector = vector }); }

fx_kop *fx_wide_splat(fx_widener *w, fx_kop *scalar)
{
    if (scalar && scalar->code == FX_KIR_CONST && fx_dtype_is_float(scalar->type.t))
        return fx_kir_float(w->m, fx_ktype_of(scalar->type.t, w->lanes), scalar->u.f);
    if (scalar && scalar->code == FX_KIR_CONST)
        return fx_kir_int(w->m, fx_ktype_of(scalar->type.t, w->lanes), scalar->u.i);
    return fx_kir_splat(w->m, scalar, w->lanes);
}

/* Not kept: what is made in one block can't be used in the next. */
fx_kop *fx_wide_vector(fx_widener *w, const fx_kop *op)
{
    fx_wide v = value_of(w, op);
    fx_ktype t = fx_ktype_of(FX_I64, w->lanes);
    fx_kop *first, *lane;

    if (!v.affine)
        return v.vector;
    first = fx_wide_splat(w, v.scalar);
    if (v.step == 0)
        return first;
    lane = fx_kir_iota(w->m, t);
    if (v.step != 1)
        lane = fx_kir_op2(w->m, FX_KIR_MUL, lane, fx_kir_int(w->m, t, v.step));
    return fx_kir_op2(w->m, FX_KIR_ADD, first, lane);
}

/* ---- Plain ops --------------------------------------------------------------------------------------------- */

/* The same op with other operands, in so many lanes. */
static fx_kop *again(fx_widener *w, const fx_kop *op, fx_kop *const *in, int lanes)
{
    fx_ktype t = fx_ktype_of(op->type.t, lanes);

    if (op->code == FX_KIR_CONST)
        return fx_dtype_is_float(t.t) ? fx_kir_float(w->m, t, op->u.f) : fx_kir_int(w->m, t, op->u.i);
    if (op->code == FX_KIR_CONVERT)
        return fx_kir_convert(w->m, in[0], t.t);
    if (op->code == FX_KIR_BITCAST)
        return fx_kir_bitcast(w->m, in[0], t);
    return fx_kir_op(w->m, op->code, in, op->n_in);
}

/* The step of a sum or multiple of affine values; false: it is neither. */
static bool step_of(const fx_kop *op, const fx_wide *a, const fx_wide *b, int64_t *step)
{
    uint64_t x = (uint64_t)a->step, y = (uint64_t)b->step;

    if (op->type.t != FX_I64 || !a->affine || !b->affine)
        return false;
    if (op->code == FX_KIR_ADD || op->code == FX_KIR_SUB) {
        *step = (int64_t)(op->code == FX_KIR_ADD ? x + y : x - y);
        return true;
    }
    if (a->step == 0) {
        const fx_wide *swap = a;

        a = b;
        b = swap;
    }
    if (op->code != FX_KIR_MUL || b->step != 0 || b->scalar->code != FX_KIR_CONST)
        return false;
    *step = (int64_t)((uint64_t)a->step * (uint64_t)b->scalar->u.i);
    return true;
}

static bool make_plain(fx_widener *w, const fx_kop *op)
{
    fx_wide v[3];
    fx_kop *in[3];
    bool even = true, affine;
    int64_t step = 0;

    for (int i = 0; i < op->n_in; i++) {
        v[i] = value_of(w, op->in[i]);
        even = even && is_even_value(&v[i]);
        in[i] = v[i].scalar;
    }
    affine = even || (op->n_in == 2 && step_of(op, &v[0], &v[1], &step));
    if (affine) {
        set(w, op, (fx_wide){ .affine = true, .step = step, .scalar = again(w, op, in, 1) });
        return true;
    }
    for (int i = 0; i < op->n_in; i++)
        in[i] = fx_wide_vector(w, op->in[i]);
    set_vector(w, op, again(w, op, in, w->lanes));
    return true;
}

/* ---- Memory --------------------------------------------------------------------------------------------------- */

/* How the lanes of an access lie. */
typedef enum layout { EVEN, SIDE_BY_SIDE, SCATTERED } layout;

static layout layout_of(const fx_widener *w, const fx_kop *op)
{
    const fx_kir_buf *b = op->in[0]->u.buf;
    const fx_kop *stride = b->rank ? b->stride[b->rank - 1] : NULL;
    bool unit = !stride || (stride->code == FX_KIR_CONST && stride->u.i == 1);
    int from = fx_kir_index_from(op);
    layout l = EVEN;

    for (int i = 0; i < b->rank; i++) {
        fx_wide v = value_of(w, op->in[from + i]);

        if (is_even_value(&v))
            continue;
        if (i < b->rank - 1 || !v.affine || v.step != 1 || !unit)
            return SCATTERED;
        l = SIDE_BY_SIDE;
    }
    return l;
}

/* The indices: scalars where they are the same in all lanes, or where 'l' wants the first lane's. */
static void indices(fx_widener *w, const fx_kop *op, layout l, fx_kop **out)
{
    int from = fx_kir_index_from(op);

    for (int i = 0; i < op->in[0]->u.buf->rank; i++) {
        fx_wide v = value_of(w, op->in[from + i]);

        out[i] = l == SIDE_BY_SIDE || is_even_value(&v) ? v.scalar : fx_wide_vector(w, op->in[from + i]);
    }
}

static bool make_load(fx_widener *w, const fx_kop *op)
{
    fx_kop *index[FX_KIR_MAX_RANK], *buf = op->in[0];
    layout l = layout_of(w, op);
    int rank = buf->u.buf->rank;

    indices(w, op, l, index);
    if (l == EVEN && !w->conditional)
        set_even(w, op, fx_kir_load(w->m, buf, index, rank, 1, NULL));
    else if (l == SIDE_BY_SIDE)
        set_vector(w, op, fx_kir_load(w->m, buf, index, rank, w->lanes, w->mask));
    else
        set_vector(w, op, fx_kir_gather(w->m, buf, index, rank, w->mask));
    return true;
}

static bool make_store(fx_widener *w, const fx_kop *op)
{
    fx_kop *index[FX_KIR_MAX_RANK], *buf = op->in[0], *value = fx_wide_vector(w, op->in[1]);
    layout l = layout_of(w, op);
    int rank = buf->u.buf->rank;

    indices(w, op, l, index);
    if (l == EVEN && rank)
        index[rank - 1] = fx_wide_splat(w, index[rank - 1]);
    return l == SIDE_BY_SIDE ? fx_kir_store(w->m, buf, value, index, rank, w->mask) != NULL
                             : fx_kir_scatter(w->m, buf, value, index, rank, w->mask) != NULL;
}

static bool make_local(fx_widener *w, const fx_kop *op)
{
    set_vector(w, op, fx_kir_local(w->m, fx_wide_vector(w, op->in[0]), op->name));
    return true;
}

static bool make_get(fx_widener *w, const fx_kop *op)
{
    if (inside(w, op->in[0]))
        set_vector(w, op, fx_kir_get(w->m, w->of[op->in[0]->id].vector));
    else
        set_even(w, op, fx_kir_get(w->m, op->in[0]));
    return true;
}

static bool make_set(fx_widener *w, const fx_kop *op)
{
    fx_kop *local = w->of[op->in[0]->id].vector, *value = fx_wide_vector(w, op->in[1]);

    if (w->conditional)
        value = fx_kir_op3(w->m, FX_KIR_SELECT, w->mask, value, fx_kir_get(w->m, local));
    return fx_kir_set(w->m, local, value) != NULL;
}

/* ---- Under a condition ------------------------------------------------------------------------------------------- */

/* The block with only those lanes on that 'more' has, of those that are on. */
static bool under(fx_widener *w, fx_kop *more, const fx_kop *op, bool (*make)(fx_widener *, const fx_kop *), const fx_kir_block *b)
{
    fx_kop *mask = w->mask;
    bool conditional = w->conditional, ok;

    w->mask = mask ? fx_kir_op2(w->m, FX_KIR_AND, mask, more) : more;
    w->conditional = true;
    ok = b ? fx_wide_block(w, b) : make(w, op);
    w->mask = mask;
    w->conditional = conditional;
    return ok;
}

static bool make_access(fx_widener *w, const fx_kop *op)
{
    bool (*make)(fx_widener *, const fx_kop *) = op->code == FX_KIR_LOAD ? make_load : make_store;

    return op->masked ? under(w, fx_wide_vector(w, fx_kir_mask_of(op)), op, make, NULL) : make(w, op);
}

static bool in_block(fx_widener *w, fx_kir_block *to, const fx_kir_block *from)
{
    fx_kplace back = fx_kplace_of(w->m);
    bool ok;

    fx_kir_at(w->m, to);
    ok = fx_wide_block(w, from);
    fx_kplace_return(w->m, back);
    return ok;
}

static bool make_if(fx_widener *w, const fx_kop *op)
{
    fx_wide c = value_of(w, op->in[0]);
    fx_kop *yes, *made;

    if (is_even_value(&c)) {
        made = fx_kir_if(w->m, c.scalar, op->block[1] != NULL);
        return made && in_block(w, made->block[0], op->block[0]) && (!op->block[1] || in_block(w, made->block[1], op->block[1]));
    }
    yes = fx_wide_vector(w, op->in[0]);
    if (!under(w, yes, NULL, NULL, op->block[0]))
        return false;
    return !op->block[1] || under(w, fx_kir_op1(w->m, FX_KIR_NOT, yes), NULL, NULL, op->block[1]);
}

/* ---- Loops --------------------------------------------------------------------------------------------------------- */

static bool make_for(fx_widener *w, const fx_kop *op)
{
    fx_wide lo = value_of(w, op->in[0]), hi = value_of(w, op->in[1]), step = value_of(w, op->in[2]);
    fx_kop *made = fx_kir_for(w->m, lo.scalar, hi.scalar, step.scalar);

    if (!made)
        return false;
    set_even(w, op->block[0]->arg, made->block[0]->arg);
    return in_block(w, made->block[0], op->block[0]);
}

fx_kop *fx_wide_rest(fx_kir_module *m, fx_kop *lo, fx_kop *hi, int by)
{
    fx_kop *n = fx_kir_op2(m, FX_KIR_MAX, fx_kir_op2(m, FX_KIR_SUB, hi, lo), fx_kir_index(m, 0)), *k = fx_kir_index(m, by);

    return fx_kir_op2(m, FX_KIR_ADD, lo, fx_kir_op2(m, FX_KIR_MUL, fx_kir_op2(m, FX_KIR_DIV, n, k), k));
}

fx_kop *fx_wide_neutral(fx_kir_module *m, fx_kir_combine kind, fx_dtype t, int lanes)
{
    uint64_t bits = fx_kir_neutral(kind, t);
    double f;

    if (t == FX_F32)
        return fx_kir_float(m, fx_ktype_of(t, lanes), fx_f32_of_bits((uint32_t)bits));
    memcpy(&f, &bits, sizeof(f));
    return t == FX_F64 ? fx_kir_float(m, fx_ktype_of(t, lanes), f) : fx_kir_int(m, fx_ktype_of(t, lanes), (int64_t)bits);
}

static const fx_kir_code combining[FX_KIR_COMBINES] = {
    [FX_KIR_SUM] = FX_KIR_ADD,   [FX_KIR_PROD] = FX_KIR_MUL, [FX_KIR_LEAST] = FX_KIR_MIN, [FX_KIR_GREATEST] = FX_KIR_MAX,
    [FX_KIR_ALL] = FX_KIR_AND,   [FX_KIR_ANY] = FX_KIR_OR,   [FX_KIR_DOT] = FX_KIR_ADD,
};

fx_kop *fx_wide_combine(fx_kir_module *m, fx_kir_combine kind, fx_kop *acc, fx_kop *x, fx_kop *y)
{
    return y ? fx_kir_op3(m, FX_KIR_FMA, x, y, acc) : fx_kir_op2(m, combining[kind], acc, x);
}

/* One iteration of a reduction, into one of its accumulators. */
static bool make_turn(fx_widener *w, const fx_kop *op, fx_kop *counter, fx_kop *acc)
{
    const fx_kop *yield = op->block[0]->last;
    fx_kop *x, *y;

    set_even(w, op->block[0]->arg, counter);
    if (!fx_wide_block(w, op->block[0]))
        return false;
    x = fx_wide_vector(w, yield->in[0]);
    y = yield->n_in > 1 ? fx_wide_vector(w, yield->in[1]) : NULL;
    return fx_kir_set(w->m, acc, fx_wide_combine(w->m, op->u.reduce.kind, fx_kir_get(w->m, acc), x, y)) != NULL;
}

static fx_kop *plus(fx_widener *w, fx_kop *a, int n)
{
    return n ? fx_kir_op2(w->m, FX_KIR_ADD, a, fx_kir_index(w->m, n)) : a;
}

/* The whole turns of n accumulators, then the rest, one if after another. */
static bool make_turns(fx_widener *w, const fx_kop *op, fx_kop *lo, fx_kop *hi, fx_kop *const *acc, int n)
{
    fx_kplace back = fx_kplace_of(w->m);
    fx_kop *loop = fx_kir_for(w->m, lo, plus(w, hi, 1 - n), fx_kir_index(w->m, n)), *rest;

    if (!loop)
        return false;
    fx_kir_at(w->m, loop->block[0]);
    for (int r = 0; r < n; r++) {
        if (!make_turn(w, op, plus(w, loop->block[0]->arg, r), acc[r]))
            return false;
    }
    fx_kplace_return(w->m, back);
    rest = n > 1 ? fx_wide_rest(w->m, lo, hi, n) : NULL;
    for (int r = 0; r < n - 1; r++) {
        fx_kop *k = plus(w, rest, r), *some = fx_kir_if(w->m, fx_kir_op2(w->m, FX_KIR_LT, k, hi), false);

        if (!some)
            return false;
        fx_kir_at(w->m, some->block[0]);
        if (!make_turn(w, op, k, acc[r]))
            return false;
        fx_kplace_return(w->m, back);
    }
    return true;
}

/* Every lane reduces by itself: an accumulator is a vector, and as many of them as the reduction has lanes. */
static bool make_reduce(fx_widener *w, const fx_kop *op)
{
    fx_kir_combine kind = op->u.reduce.kind;
    fx_wide lo = value_of(w, op->in[0]), hi = value_of(w, op->in[1]);
    fx_kop *acc[MAX_UNROLL];
    int n = op->u.reduce.lanes;

    for (int r = 0; r < n; r++)
        acc[r] = fx_kir_local(w->m, fx_wide_neutral(w->m, kind, op->type.t, w->lanes), FX_STR("acc"));
    if (!make_turns(w, op, lo.scalar, hi.scalar, acc, n))
        return false;
    for (int r = 0; r < n; r++)
        acc[r] = fx_kir_get(w->m, acc[r]);
    for (int half = n / 2; half; half /= 2) {
        for (int r = 0; r < half; r++)
            acc[r] = fx_wide_combine(w->m, kind, acc[r], acc[r + half], NULL);
    }
    set_vector(w, op, acc[0]);
    return true;
}

static bool (*const makers[FX_KIR_COUNT])(fx_widener *, const fx_kop *) = {
    [FX_KIR_LOAD] = make_access, [FX_KIR_STORE] = make_access, [FX_KIR_LOCAL] = make_local, [FX_KIR_GET] = make_get,
    [FX_KIR_SET] = make_set,     [FX_KIR_IF] = make_if,        [FX_KIR_FOR] = make_for,     [FX_KIR_REDUCE] = make_reduce,
};

bool fx_wide_block(fx_widener *w, const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op && op->code != FX_KIR_YIELD; op = op->next) {
        w->m->line = op->line;
        if (!(makers[op->code] ? makers[op->code] : make_plain)(w, op) || w->m->failed)
            return false;
    }
    return !w->m->failed;
}
