/* kir_widen.c - FORALLs and REDUCEs become loops over vectors.
 *
 *     forall %i = lo to hi { B }      for %v = lo to rest step L { B in lanes v, v+1, ... }
 *                                     if rest < hi { B in lanes rest, rest+1, ..., those below hi on }
 *
 *     reduce kind R, %k = lo to hi    R accumulators in R / W vectors of W lanes, of which turn after turn takes R iterations; those that
 *                                     are left are masked: a lane that is off keeps its accumulator, bit by bit; then the tree: whole
 *                                     vectors first, halves of the last one then
 *
 *     reduce argmin, argmax           the best of each lane and where it was; then the best of those, the first place where they are equal
 *
 * A loop within goes first.  A FORALL around a REDUCE (with few lanes) whose loads would not lie side by side is widened instead of it: then
 * every lane reduces by itself.  Where nothing of this fits, loops stay as they are. */
#include "kir/kir_widen.h"

#define MAX_VECTORS 16           /* of accumulators */

typedef struct pass {
    fx_kir_kernel *k;
    fx_kir_module *m;
    int lanes;
} pass;

/* ---- Choosing --------------------------------------------------------------------------------------------- */

/* Whether an access has the counter in its last index alone, as it is. */
static bool lies_along(const fx_kop *op, const fx_kop *counter)
{
    const fx_kir_buf *b = op->in[0]->u.buf;
    int from = fx_kir_index_from(op);

    for (int i = 0; i < b->rank; i++) {
        fx_klin sum = fx_kir_lin(op->in[from + i]);
        int64_t c = 0;

        for (int k = 0; k < sum.n; k++) {
            if (sum.atom[k] == counter)
                c = sum.c[k];
            else if (fx_kir_varies(sum.atom[k], counter->parent))
                return false;
        }
        if (c != 0 && (i < b->rank - 1 || c != 1 || b->stride[i]))
            return false;
    }
    return true;
}

static bool all_lie_along(const fx_kir_block *b, const fx_kop *counter)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if ((op->code == FX_KIR_LOAD || op->code == FX_KIR_STORE) && !lies_along(op, counter))
            return false;
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && !all_lie_along(op->block[i], counter))
                return false;
        }
    }
    return true;
}

static bool has_loop(const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (op->block[0] && op->code != FX_KIR_IF)
            return true;
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && has_loop(op->block[i]))
                return true;
        }
    }
    return false;
}

/* Float sums have the order that their lanes say; others may be taken in any. */
static bool has_order(const fx_kop *reduce)
{
    fx_kir_combine kind = reduce->u.reduce.kind;

    return fx_dtype_is_float(reduce->type.t) && (kind == FX_KIR_SUM || kind == FX_KIR_PROD || kind == FX_KIR_DOT);
}

static bool can_reduce(const fx_kop *op)
{
    return (!has_order(op) || op->u.reduce.lanes > 1) && !has_loop(op->block[0]) &&
           fx_wide_bounded(op->in[0], op->in[1]) && fx_wide_can(op->block[0], op->block[0], 0);
}

/* The iterations, where they are known; else -1. */
static int64_t trips(const fx_kop *op)
{
    fx_klin lo = fx_kir_lin(op->in[0]), hi = fx_kir_lin(op->in[1]), n = fx_klin_add(&hi, &lo, -1);

    return n.bad || n.n ? -1 : FX_MAX(n.k, 0);
}

/* Lanes for so many iterations: the power of two that they fill. */
static int lanes_for(int64_t n, int most)
{
    while (n >= 0 && most > n && most > 1)
        most /= 2;
    return most;
}

/* Whether a reduction in the block had better be widened by itself. */
static bool has_better_reduce(const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (op->code == FX_KIR_REDUCE && can_reduce(op) && all_lie_along(op->block[0], op->block[0]->arg))
            return true;
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && has_better_reduce(op->block[i]))
                return true;
        }
    }
    return false;
}

/* ---- FORALL ------------------------------------------------------------------------------------------------- */

static bool start(fx_widener *w, const pass *p, const fx_kir_block *b, int lanes)
{
    fx_kir_number(p->k);
    *w = (fx_widener){ .m = p->m, .lanes = lanes, .block = b, .n = p->k->n_ops };
    w->of = fx_mem_array(p->m->mem, (size_t)w->n, sizeof(*w->of));
    return w->of || fx_kir_fail(p->m, FORNAX_ENOMEM, "no memory for a kernel");
}

static void stop(fx_widener *w) { fx_mem_free(w->m->mem, w->of, (size_t)w->n * sizeof(*w->of)); }

/* The block for the iterations from 'first' on, at the place being built. */
static bool lanes_from(fx_widener *w, fx_kop *first)
{
    w->of[w->block->arg->id] = (fx_wide){ .affine = true, .step = 1, .scalar = first };
    return fx_wide_block(w, w->block);
}

/* Turns on the lanes of iterations from 'first' on that are below hi. */
static void mask_below(fx_widener *w, fx_kop *first, fx_kop *hi)
{
    fx_kop *lane = fx_kir_iota(w->m, fx_ktype_of(FX_I64, w->lanes));

    w->mask = fx_kir_op2(w->m, FX_KIR_LT, fx_kir_op2(w->m, FX_KIR_ADD, fx_wide_splat(w, first), lane), fx_wide_splat(w, hi));
}

/* A loop over as many whole steps as there are; *rest: where it ends, NULL if nothing is left.  (Of its two bounds one shows that it stays
 * before hi, the other that it stays before the rest.) */
static fx_kop *for_whole(fx_kir_module *m, const fx_kop *op, int by, fx_kop **rest)
{
    fx_kop *lo = op->in[0], *hi = op->in[1], *end = hi;

    *rest = NULL;
    if (trips(op) < 0 || trips(op) % by) {
        *rest = fx_wide_rest(m, lo, hi, by);
        end = fx_kir_op2(m, FX_KIR_MIN, *rest, fx_kir_op2(m, FX_KIR_SUB, hi, fx_kir_index(m, by - 1)));
    }
    return fx_kir_for(m, lo, end, fx_kir_index(m, by));
}

static bool widen_forall(const pass *p, fx_kop *op, int lanes)
{
    fx_kop *hi = op->in[1], *loop, *rest, *some;
    fx_kplace here;
    fx_widener w;
    bool ok;

    if (!start(&w, p, op->block[0], lanes))
        return false;
    fx_kir_before(p->m, op);
    here = fx_kplace_of(p->m);
    loop = for_whole(p->m, op, lanes, &rest);
    ok = loop && (fx_kir_at(p->m, loop->block[0]), lanes_from(&w, loop->block[0]->arg));
    fx_kplace_return(p->m, here);
    if (ok && rest) {
        some = fx_kir_if(p->m, fx_kir_op2(p->m, FX_KIR_LT, rest, hi), false);
        ok = some && (fx_kir_at(p->m, some->block[0]), mask_below(&w, rest, hi), lanes_from(&w, rest));
    }
    stop(&w);
    return ok;
}

/* ---- REDUCE ---------------------------------------------------------------------------------------------------- */

typedef struct reduction {
    fx_kop *op;
    int vectors;                 /* of w.lanes lanes */
    fx_kop *acc[MAX_VECTORS];
    fx_widener w;
} reduction;

/* One turn of all accumulators: iterations from 'first' on; those below hi, if there is one. */
static bool turn(reduction *r, fx_kop *first, fx_kop *hi)
{
    fx_kir_module *m = r->w.m;
    const fx_kop *yield = r->op->block[0]->last;

    for (int v = 0; v < r->vectors; v++) {
        fx_kop *k = v ? fx_kir_op2(m, FX_KIR_ADD, first, fx_kir_index(m, v * r->w.lanes)) : first, *acc, *x, *y;

        if (hi)
            mask_below(&r->w, k, hi);
        r->w.conditional = hi && v;      /* the first one has lanes that are on */
        if (!lanes_from(&r->w, k))
            return false;
        acc = fx_kir_get(m, r->acc[v]);
        x = fx_wide_vector(&r->w, yield->in[0]);
        y = yield->n_in > 1 ? fx_wide_vector(&r->w, yield->in[1]) : NULL;
        x = fx_wide_combine(m, r->op->u.reduce.kind, acc, x, y);
        if (!fx_kir_set(m, r->acc[v], hi ? fx_kir_op3(m, FX_KIR_SELECT, r->w.mask, x, acc) : x))
            return false;
    }
    return true;
}

static fx_kop *half_of(fx_kir_module *m, fx_kop *x, int from)
{
    int n = x->type.lanes / 2;
    uint8_t lanes[FX_KIR_MAX_LANES];

    if (n == 1)
        return fx_kir_extract(m, x, from);
    for (int i = 0; i < n; i++)
        lanes[i] = (uint8_t)(from + i);
    return fx_kir_shuffle(m, x, x, lanes, n);
}

/* Lane j with lane j + L/2, j + L/4, ...; the last op made is the result. */
static fx_kop *tree(reduction *r)
{
    fx_kir_module *m = r->w.m;
    fx_kir_combine kind = r->op->u.reduce.kind;
    fx_kop *acc[MAX_VECTORS], *x;

    for (int v = 0; v < r->vectors; v++)
        acc[v] = fx_kir_get(m, r->acc[v]);
    for (int half = r->vectors / 2; half; half /= 2) {
        for (int v = 0; v < half; v++)
            acc[v] = fx_wide_combine(m, kind, acc[v], acc[v + half], NULL);
    }
    for (x = acc[0]; x && x->type.lanes > 1;) {
        fx_kop *low = half_of(m, x, 0), *high = half_of(m, x, x->type.lanes / 2);

        x = fx_wide_combine(m, kind, low, high, NULL);
    }
    return x;
}

/* Turns, whole ones and one of what is left; 'one' takes 'all' iterations. */
static bool make_turns(reduction *r, int all, bool (*one)(reduction *, fx_kop *, fx_kop *))
{
    fx_kir_module *m = r->w.m;
    fx_kop *hi = r->op->in[1], *rest, *loop = for_whole(m, r->op, all, &rest), *some;
    fx_kplace here = fx_kplace_of(m);

    if (!loop || (fx_kir_at(m, loop->block[0]), !one(r, loop->block[0]->arg, NULL)))
        return false;
    fx_kplace_return(m, here);
    if (!rest)
        return true;
    some = fx_kir_if(m, fx_kir_op2(m, FX_KIR_LT, rest, hi), false);
    if (!some || (fx_kir_at(m, some->block[0]), !one(r, rest, hi)))
        return false;
    fx_kplace_return(m, here);
    return true;
}

static fx_kop *make_sums(reduction *r)
{
    for (int v = 0; v < r->vectors; v++)
        r->acc[v] = fx_kir_local(r->w.m, fx_wide_neutral(r->w.m, r->op->u.reduce.kind, r->op->type.t, r->w.lanes), FX_STR("acc"));
    return make_turns(r, r->vectors * r->w.lanes, turn) ? tree(r) : NULL;
}

/* ---- argmin, argmax: acc[0] the best, acc[1] its place, -1 while there is none -------------------------------------------- */

/* Whether x goes before best, if it came later: it is beyond it, or the first NaN. */
static fx_kop *beats(fx_kir_module *m, fx_kir_combine kind, fx_kop *x, fx_kop *best)
{
    bool least = kind == FX_KIR_ARGLEAST;
    fx_kop *beyond = fx_kir_op2(m, FX_KIR_LT, least ? x : best, least ? best : x), *first;

    if (!x || !fx_dtype_is_float(x->type.t))
        return beyond;
    first = fx_kir_op2(m, FX_KIR_AND, fx_kir_op2(m, FX_KIR_NE, x, x), fx_kir_op2(m, FX_KIR_EQ, best, best));
    return fx_kir_op2(m, FX_KIR_OR, beyond, first);
}

static fx_kop *is_none(fx_kir_module *m, fx_kop *place)
{
    return place ? fx_kir_op2(m, FX_KIR_LT, place, fx_kir_int(m, place->type, 0)) : NULL;
}

static bool arg_turn(reduction *r, fx_kop *first, fx_kop *hi)
{
    fx_kir_module *m = r->w.m;
    fx_kop *x, *at, *best, *place, *take;

    if (hi)
        mask_below(&r->w, first, hi);
    if (!lanes_from(&r->w, first))
        return false;
    x = fx_wide_vector(&r->w, r->op->block[0]->last->in[0]);
    at = fx_wide_vector(&r->w, r->op->block[0]->arg);
    best = fx_kir_get(m, r->acc[0]);
    place = fx_kir_get(m, r->acc[1]);
    take = fx_kir_op2(m, FX_KIR_OR, beats(m, r->op->u.reduce.kind, x, best), is_none(m, place));
    if (hi)
        take = fx_kir_op2(m, FX_KIR_AND, take, r->w.mask);
    return fx_kir_set(m, r->acc[0], fx_kir_op3(m, FX_KIR_SELECT, take, x, best)) &&
           fx_kir_set(m, r->acc[1], fx_kir_op3(m, FX_KIR_SELECT, take, at, place));
}

/* The places of two halves become that of the better one; *best likewise. */
static fx_kop *better_half(fx_kir_module *m, fx_kir_combine kind, fx_kop **best, fx_kop *place)
{
    int half = place->type.lanes / 2;
    fx_kop *x = half_of(m, *best, 0), *y = half_of(m, *best, half), *i = half_of(m, place, 0), *j = half_of(m, place, half), *take, *tie;

    tie = fx_kir_op2(m, FX_KIR_AND, fx_kir_op1(m, FX_KIR_NOT, beats(m, kind, x, y)), fx_kir_op2(m, FX_KIR_LT, j, i));
    take = fx_kir_op2(m, FX_KIR_OR, beats(m, kind, y, x), tie);
    take = fx_kir_op2(m, FX_KIR_OR, take, is_none(m, i));
    take = fx_kir_op2(m, FX_KIR_AND, take, fx_kir_op1(m, FX_KIR_NOT, is_none(m, j)));
    *best = fx_kir_op3(m, FX_KIR_SELECT, take, y, x);
    return fx_kir_op3(m, FX_KIR_SELECT, take, j, i);
}

static fx_kop *make_arg(reduction *r)
{
    fx_kir_module *m = r->w.m;
    fx_ktype t = fx_ktype_of(r->op->block[0]->last->in[0]->type.t, r->w.lanes);
    fx_kop *zero = fx_dtype_is_float(t.t) ? fx_kir_float(m, t, 0) : fx_kir_int(m, t, 0), *best, *place;

    r->acc[0] = fx_kir_local(m, zero, FX_STR("best"));
    r->acc[1] = fx_kir_local(m, fx_kir_int(m, fx_ktype_of(FX_I64, r->w.lanes), -1), FX_STR("place"));
    if (!make_turns(r, r->w.lanes, arg_turn))
        return NULL;
    best = fx_kir_get(m, r->acc[0]);
    place = fx_kir_get(m, r->acc[1]);
    while (place && place->type.lanes > 1)
        place = better_half(m, r->op->u.reduce.kind, &best, place);
    return place;
}

/* The op becomes another that was made just before it. */
static void become(fx_kop *op, fx_kop *made)
{
    FX_ASSERT(made == op->prev);
    op->code = made->code;
    op->n_in = made->n_in;
    op->in = made->in;
    op->u = made->u;
    op->block[0] = op->block[1] = NULL;
    op->prev = made->prev;
    *(op->prev ? &op->prev->next : &op->parent->first) = op;
}

static bool widen_reduce(const pass *p, fx_kop *op)
{
    int all = has_order(op) || op->u.reduce.lanes > p->lanes ? op->u.reduce.lanes : p->lanes;
    reduction r = { .op = op, .vectors = FX_MAX(all / p->lanes, 1) };
    fx_kop *x;

    if (r.vectors > MAX_VECTORS)
        return true;
    if (!start(&r.w, p, op->block[0], all / r.vectors))
        return false;
    fx_kir_before(p->m, op);
    x = (op->u.reduce.kind >= FX_KIR_ARGLEAST ? make_arg : make_sums)(&r);
    if (x)
        become(op, x);
    stop(&r.w);
    return x != NULL;
}

/* ---- All of a kernel ------------------------------------------------------------------------------------------------ */

static void take_out(fx_kop *op)
{
    *(op->prev ? &op->prev->next : &op->parent->first) = op->next;
    *(op->next ? &op->next->prev : &op->parent->last) = op->prev;
}

static bool widen_block(const pass *p, fx_kir_block *b);

static bool widen_op(const pass *p, fx_kop *op)
{
    int lanes = op->code == FX_KIR_FORALL ? lanes_for(trips(op), p->lanes) : 1;

    if (lanes > 1 && fx_wide_bounded(op->in[0], op->in[1]) && fx_wide_can(op->block[0], op->block[0], 0) && !has_better_reduce(op->block[0])) {
        if (!widen_forall(p, op, lanes))
            return false;
        take_out(op);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        if (op->block[i] && !widen_block(p, op->block[i]))
            return false;
    }
    return op->code != FX_KIR_REDUCE || !can_reduce(op) || widen_reduce(p, op);
}

static bool widen_block(const pass *p, fx_kir_block *b)
{
    for (fx_kop *op = b->first, *next; op; op = next) {
        next = op->next;
        if (!widen_op(p, op))
            return false;
    }
    return true;
}

fx_status fx_kir_widen(fx_kir_kernel *k, int lanes, fx_error *err)
{
    pass p = { k, k->module, FX_MIN(lanes, FX_KIR_MAX_LANES) };
    fx_kplace was = fx_kplace_of(k->module);
    uint32_t line = k->module->line;

    FX_ASSERT(lanes > 0 && !(lanes & (lanes - 1)));
    if (lanes > 1 && !k->module->failed)
        widen_block(&p, k->body);
    fx_kplace_return(k->module, was);
    k->module->line = line;
    fx_kir_number(k);
    return fx_kir_status(k->module, err);
}
