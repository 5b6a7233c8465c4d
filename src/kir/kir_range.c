/* kir_range.c - ranges, sums and proofs of a < b; see kir_range.h.
 *
 * A proof of "sum < 0" takes one atom of the sum after another, puts a bound of it (from above where its factor is
 * positive, from below else) in its place, and tries what results: a search of bounded depth and number of
 * steps.  Sums are of mathematical integers: an op is taken apart only where ranges show that it doesn't
 * wrap, and the bound of a counter is a fact about the integers that it takes. */
#include "kir/kir_range.h"

#define MAX_DEPTH 16
#define FIRST_DEPTH 12
#define MAX_STEPS 1500
#define LIMIT ((int64_t)1 << 60)         /* of numbers in sums */
static const fx_krange unknown = { INT64_MIN, INT64_MAX };

typedef struct search {
    int steps;
    int deepest;
} search;

static bool is_const(const fx_kop *op, int64_t *n)
{
    while (op->code == FX_KIR_SPLAT)
        op = op->in[0];
    *n = op->u.i;
    return op->code == FX_KIR_CONST && !fx_dtype_is_float(op->type.t);
}

/* The loop whose counter this is; NULL: of another kind.  The task has none. */
static const fx_kop *loop_of(const fx_kop *op)
{
    return op->code == FX_KIR_ARG && op->parent && op->parent->arg == op ? op->parent->owner : NULL;
}

static bool is_task(const fx_kop *op) { return op->code == FX_KIR_ARG && op->parent && op->parent->kernel->task == op; }

/* What a counter stays below; NULL: none that is known. */
static const fx_kop *end_of(const fx_kop *counter)
{
    const fx_kop *loop = loop_of(counter);
    const fx_kir_block *grid = counter->parent->kernel->grid;

    if (loop)
        return loop->in[loop->code == FX_KIR_THREADS ? 0 : 1];
    return grid->last && grid->last->code == FX_KIR_YIELD && grid->last->n_in == 1 ? grid->last->in[0] : NULL;
}

/* ---- The same value ------------------------------------------------------------------------------------- */

static bool alike(const fx_kop *a, const fx_kop *b, int depth)
{
    if (a == b)
        return true;
    if (a->code != b->code || !fx_ktype_eq(a->type, b->type) || a->n_in != b->n_in || depth > 6)
        return false;
    if (a->code == FX_KIR_CONST)
        return fx_dtype_is_float(a->type.t) ? a->u.f == b->u.f : a->u.i == b->u.i;
    if (a->code == FX_KIR_ARG || a->code == FX_KIR_SHUFFLE || a->u.i != b->u.i ||
        (fx_kir_rows[a->code].flags & (FX_KOPF_EFFECT | FX_KOPF_REGION)))
        return false;
    for (int i = 0; i < a->n_in; i++) {
        if (!alike(a->in[i], b->in[i], depth + 1))
            return false;
    }
    return true;
}

bool fx_kir_alike(const fx_kop *a, const fx_kop *b) { return alike(a, b, 0); }

bool fx_kir_inside(const fx_kir_block *inner, const fx_kir_block *outer)
{
    while (inner && inner != outer)
        inner = inner->owner ? inner->owner->parent : NULL;
    return inner != NULL;
}

static bool varies(const fx_kop *op, const fx_kir_block *b, int depth)
{
    if (!op->parent || !fx_kir_inside(op->parent, b))
        return false;
    if (op->code == FX_KIR_ARG || depth > 6 || (fx_kir_rows[op->code].flags & (FX_KOPF_EFFECT | FX_KOPF_REGION)))
        return true;
    for (int i = 0; i < op->n_in; i++) {
        if (varies(op->in[i], b, depth + 1))
            return true;
    }
    return false;
}

bool fx_kir_varies(const fx_kop *op, const fx_kir_block *b) { return varies(op, b, 0); }

/* ---- Products ---------------------------------------------------------------------------------------------- */

/* number * factor[0] * ...; the factors aren't below 0. */
typedef struct product {
    int64_t number;
    int n;
    const fx_kop *factor[FX_KLIN_MAX];
} product;

static fx_krange range(search *s, const fx_kop *op, int depth);

/* Whether op is such a product of at most so many factors; multiplies it into *p. */
static bool multiply(search *s, product *p, const fx_kop *op, int depth)
{
    int64_t n;

    if (is_const(op, &n)) {
        if (n < 1 || n > LIMIT / p->number)
            return false;
        p->number *= n;
        return true;
    }
    if (op->code == FX_KIR_MUL && depth < s->deepest)
        return multiply(s, p, op->in[0], depth + 1) && multiply(s, p, op->in[1], depth + 1);
    if (p->n == FX_KLIN_MAX || range(s, op, depth + 1).lo < 0)
        return false;
    p->factor[p->n++] = op;
    return true;
}

/* Takes the factors of q out of p; false: they aren't there. */
static bool divide(product *p, const product *q)
{
    if (p->number % q->number)
        return false;
    p->number /= q->number;
    for (int i = 0; i < q->n; i++) {
        int at = 0;

        while (at < p->n && !fx_kir_alike(p->factor[at], q->factor[i]))
            at++;
        if (at == p->n)
            return false;
        p->factor[at] = p->factor[--p->n];
    }
    return true;
}

/* Whether op is at least 1 wherever block b runs: a factor of what bounds a counter around it, which else would have no value.  (That
 * bound may wrap: it isn't 0, so no factor is.) */
static bool positive(search *s, const fx_kop *op, const fx_kir_block *b, int depth)
{
    fx_krange r = range(s, op, depth + 1);

    if (r.lo != 0)
        return r.lo > 0;
    for (; b; b = b->owner ? b->owner->parent : NULL) {
        product all = { .number = 1 }, one = { .number = 1 };
        const fx_kop *end = b->arg ? end_of(b->arg) : NULL, *loop = b->owner;
        bool from_0 = end && (!loop || loop->code == FX_KIR_THREADS || range(s, loop->in[0], depth + 1).lo >= 0);

        if (from_0 && multiply(s, &all, end, depth + 1) && multiply(s, &one, op, depth + 1) && divide(&all, &one))
            return true;
    }
    return false;
}

/* Whether op (not below 0) is less than a product. */
static bool below(search *s, const fx_kop *op, product *p, int depth)
{
    product q = { .number = 1 };
    bool counter = loop_of(op) || is_task(op);

    if (depth > s->deepest)
        return false;
    *p = (product){ .number = 1 };
    if (counter)
        return end_of(op) && multiply(s, p, end_of(op), depth + 1);
    if ((op->code != FX_KIR_DIV && op->code != FX_KIR_REM) || range(s, op->in[0], depth + 1).lo < 0 ||
        !positive(s, op->in[1], op->parent, depth + 1))
        return false;
    if (op->code == FX_KIR_REM)
        return multiply(s, p, op->in[1], depth + 1);
    return below(s, op->in[0], p, depth + 1) && multiply(s, &q, op->in[1], depth + 1) && divide(p, &q);
}

/* ---- Ranges ------------------------------------------------------------------------------------------------- */

static bool add_fits(int64_t a, int64_t b) { return b < 0 ? a >= INT64_MIN - b : a <= INT64_MAX - b; }

static bool mul_fits(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return true;
    if (a == INT64_MIN || b == INT64_MIN)
        return false;
    return (a < 0 ? -a : a) <= INT64_MAX / (b < 0 ? -b : b);
}

static fx_krange of_type(fx_dtype t)
{
    int bits = (int)fx_dtype_size(t) * 8;

    if (t == FX_BOOL)
        return (fx_krange){ 0, 1 };
    if (!fx_dtype_is_int(t) || bits == 64)
        return unknown;
    if (!fx_dtype_is_signed(t))
        return (fx_krange){ 0, ((int64_t)1 << bits) - 1 };
    return (fx_krange){ -((int64_t)1 << (bits - 1)), ((int64_t)1 << (bits - 1)) - 1 };
}

static fx_krange range_add(fx_krange a, fx_krange b)
{
    return add_fits(a.lo, b.lo) && add_fits(a.hi, b.hi) ? (fx_krange){ a.lo + b.lo, a.hi + b.hi } : unknown;
}

static fx_krange range_neg(fx_krange a) { return a.lo == INT64_MIN ? unknown : (fx_krange){ -a.hi, -a.lo }; }

static fx_krange range_mul(fx_krange a, fx_krange b)
{
    const int64_t x[4] = { a.lo, a.lo, a.hi, a.hi }, y[4] = { b.lo, b.hi, b.lo, b.hi };
    fx_krange r = { INT64_MAX, INT64_MIN };

    for (int i = 0; i < 4; i++) {
        if (!mul_fits(x[i], y[i]))
            return unknown;
        r.lo = FX_MIN(r.lo, x[i] * y[i]);
        r.hi = FX_MAX(r.hi, x[i] * y[i]);
    }
    return r;
}

static fx_krange range_div(fx_krange a, fx_krange b)
{
    if (a.lo < 0 || b.lo < 0)
        return unknown;
    return (fx_krange){ b.lo > 0 ? a.lo / b.hi : 0, a.hi / FX_MAX(b.lo, 1) };
}

static fx_krange range_rem(search *s, const fx_kop *op, fx_krange a, fx_krange b, int depth)
{
    if (a.lo < 0)
        return unknown;
    if (b.lo < 1 && !(b.lo == 0 && positive(s, op->in[1], op->parent, depth + 1)))
        return (fx_krange){ 0, a.hi };
    return (fx_krange){ 0, FX_MIN(a.hi, FX_MAX(b.hi, 1) - 1) };
}

static fx_krange range_counter(search *s, const fx_kop *op, int depth)
{
    const fx_kop *loop = loop_of(op), *end;
    fx_krange r = { 0, FX_KIR_MAX_SIZE - 1 };

    if (!loop && !is_task(op))
        return op->size ? (fx_krange){ 0, FX_KIR_MAX_SIZE } : of_type(op->type.t);
    end = end_of(op);
    if (loop) {
        r.lo = loop->code == FX_KIR_THREADS ? 0 : range(s, loop->in[0], depth + 1).lo;
        r.hi = INT64_MAX;
    }
    if (end) {
        int64_t hi = range(s, end, depth + 1).hi;

        r.hi = FX_MIN(r.hi, hi > INT64_MIN ? hi - 1 : hi);
    }
    return r.hi < r.lo ? (fx_krange){ r.lo, r.lo } : r;
}

static fx_krange range_join(fx_krange a, fx_krange b) { return (fx_krange){ FX_MIN(a.lo, b.lo), FX_MAX(a.hi, b.hi) }; }

/* Of the ops with two operands. */
static fx_krange range_op2(search *s, const fx_kop *op, fx_krange a, fx_krange b, int depth)
{
    switch (op->code) {
    case FX_KIR_ADD: return range_add(a, b);
    case FX_KIR_SUB: return range_add(a, range_neg(b));
    case FX_KIR_MUL: return range_mul(a, b);
    case FX_KIR_DIV: return range_div(a, b);
    case FX_KIR_REM: return range_rem(s, op, a, b, depth);
    case FX_KIR_MIN: return (fx_krange){ FX_MIN(a.lo, b.lo), FX_MIN(a.hi, b.hi) };
    case FX_KIR_MAX: return (fx_krange){ FX_MAX(a.lo, b.lo), FX_MAX(a.hi, b.hi) };
    case FX_KIR_SHL: return b.lo == b.hi && b.lo >= 0 && b.lo < 62 ? range_mul(a, (fx_krange){ (int64_t)1 << b.lo, (int64_t)1 << b.lo }) : unknown;
    case FX_KIR_SHR: return a.lo >= 0 ? (fx_krange){ 0, a.hi >> (b.lo == b.hi && b.lo >= 0 && b.lo < 63 ? b.lo : 0) } : unknown;
    case FX_KIR_AND:
        return a.lo >= 0 || b.lo >= 0 ? (fx_krange){ 0, FX_MIN(a.lo >= 0 ? a.hi : INT64_MAX, b.lo >= 0 ? b.hi : INT64_MAX) } : unknown;
    default: return unknown;
    }
}

static fx_krange range_any(search *s, const fx_kop *op, int depth)
{
    fx_krange a = unknown, b = unknown;

    if (op->code == FX_KIR_CONST)
        return (fx_krange){ op->u.i, op->u.i };
    if (op->code == FX_KIR_ARG)
        return range_counter(s, op, depth);
    if (op->code == FX_KIR_IOTA)
        return (fx_krange){ 0, op->type.lanes - 1 };
    if (op->code == FX_KIR_SELECT)
        return range_join(range(s, op->in[1], depth + 1), range(s, op->in[2], depth + 1));
    if (op->n_in > 0)
        a = range(s, op->in[0], depth + 1);
    if (op->code == FX_KIR_SPLAT || op->code == FX_KIR_EXTRACT)
        return a;
    if (op->code == FX_KIR_CONVERT)
        return fx_dtype_is_float(op->in[0]->type.t) || op->type.t == FX_BOOL ? unknown : a;
    if (op->n_in != 2 || (fx_kir_rows[op->code].flags & (FX_KOPF_EFFECT | FX_KOPF_REGION)))
        return unknown;
    b = range(s, op->in[1], depth + 1);
    return range_op2(s, op, a, b, depth);
}

/* What an op gives lies in its type, whatever its operands do: where that isn't sure without it, it wraps. */
static fx_krange range(search *s, const fx_kop *op, int depth)
{
    fx_krange type = of_type(op->type.t), r;

    if (fx_dtype_is_float(op->type.t) || depth > s->deepest || s->steps++ > MAX_STEPS)
        return type;
    r = range_any(s, op, depth);
    return r.lo < type.lo || r.hi > type.hi || op->type.t == FX_U64 ? type : r;
}

fx_krange fx_kir_range(const fx_kop *op) { return range(&(search){ .deepest = MAX_DEPTH }, op, 0); }

/* ---- Sums ------------------------------------------------------------------------------------------------------- */

static void add_term(fx_klin *sum, const fx_kop *atom, int64_t c)
{
    int at = 0;

    while (at < sum->n && !fx_kir_alike(sum->atom[at], atom))
        at++;
    if (at == sum->n) {
        if (sum->n == FX_KLIN_MAX) {
            sum->bad = true;
            return;
        }
        sum->atom[sum->n] = atom;
        sum->c[sum->n++] = 0;
    }
    sum->c[at] += c;
    sum->bad = sum->bad || sum->c[at] > LIMIT || sum->c[at] < -LIMIT;
    if (sum->c[at] == 0) {
        sum->n--;
        sum->c[at] = sum->c[sum->n];
        sum->atom[at] = sum->atom[sum->n];
    }
}

/* times * n, within the limit of sums. */
static int64_t scaled(fx_klin *sum, int64_t n, int64_t times)
{
    if (mul_fits(n, times) && n * times <= LIMIT && n * times >= -LIMIT)
        return n * times;
    sum->bad = true;
    return 0;
}

fx_klin fx_klin_add(const fx_klin *a, const fx_klin *b, int64_t times)
{
    fx_klin sum = *a;

    sum.bad = a->bad || b->bad;
    sum.k += scaled(&sum, b->k, times);
    sum.bad = sum.bad || sum.k > LIMIT || sum.k < -LIMIT;
    for (int i = 0; i < b->n && !sum.bad; i++)
        add_term(&sum, b->atom[i], scaled(&sum, b->c[i], times));
    return sum;
}

static fx_klin atom_of(const fx_kop *op) { return (fx_klin){ .n = 1, .atom = { op }, .c = { 1 } }; }

static fx_klin lin(search *s, const fx_kop *op, int depth);

static fx_klin lin_op2(search *s, const fx_kop *op, int depth)
{
    fx_klin zero = fx_klin_of(0), a = lin(s, op->in[0], depth + 1), b = lin(s, op->in[1], depth + 1);
    int64_t n;

    if (op->code == FX_KIR_ADD || op->code == FX_KIR_SUB)
        return fx_klin_add(&a, &b, op->code == FX_KIR_ADD ? 1 : -1);
    if (is_const(op->in[1], &n))
        return fx_klin_add(&zero, &a, op->code == FX_KIR_SHL ? (int64_t)1 << n : n);
    return is_const(op->in[0], &n) ? fx_klin_add(&zero, &b, n) : atom_of(op);
}

static fx_klin lin(search *s, const fx_kop *op, int depth)
{
    bool sum = op->code == FX_KIR_ADD || op->code == FX_KIR_SUB || op->code == FX_KIR_MUL || op->code == FX_KIR_SHL;
    fx_krange r;
    fx_klin out;
    int64_t n;

    if (is_const(op, &n))
        return n <= LIMIT && n >= -LIMIT ? fx_klin_of(n) : atom_of(op);
    if (op->code == FX_KIR_SPLAT && depth < s->deepest)
        return lin(s, op->in[0], depth + 1);
    if (!sum || depth > s->deepest)
        return atom_of(op);
    r = range(s, op, depth);
    if ((r.lo == INT64_MIN && r.hi == INT64_MAX) || (op->code == FX_KIR_SHL && !is_const(op->in[1], &n)))
        return atom_of(op);              /* it may wrap */
    out = lin_op2(s, op, depth);
    return out.bad ? atom_of(op) : out;
}

fx_klin fx_kir_lin(const fx_kop *op) { return lin(&(search){ .deepest = MAX_DEPTH }, op, 0); }

/* ---- Proofs -------------------------------------------------------------------------------------------------------- */

static bool negative(search *s, const fx_klin *sum, const fx_kop *at, int depth);

/* By ranges alone. */
static bool surely_negative(search *s, const fx_klin *sum)
{
    fx_krange all = { sum->k, sum->k };

    for (int i = 0; i < sum->n; i++) {
        all = range_add(all, range_mul(range(s, sum->atom[i], 4), (fx_krange){ sum->c[i], sum->c[i] }));
        if (all.hi == INT64_MAX)
            return false;
    }
    return all.hi < 0;
}

/* Whether the sum is negative with 'bound + more' instead of its i-th atom. */
static bool with(search *s, const fx_klin *sum, int i, const fx_klin *bound, int64_t more, const fx_kop *at, int depth)
{
    fx_klin self = atom_of(sum->atom[i]), k = fx_klin_of(more), in_place = fx_klin_add(bound, &k, 1);

    in_place = fx_klin_add(&in_place, &self, -1);
    in_place = fx_klin_add(sum, &in_place, sum->c[i]);
    return !in_place.bad && negative(s, &in_place, at, depth + 1);
}

static bool with_op(search *s, const fx_klin *sum, int i, const fx_kop *bound, int64_t more, const fx_kop *at, int depth)
{
    fx_klin b = lin(s, bound, 0);

    return with(s, sum, i, &b, more, at, depth);
}

/* 'divisor' times the atom DIV(p, divisor) is between p - divisor + 1 and p; p isn't below 0. */
static bool with_quotient(search *s, const fx_klin *sum, int i, const fx_kop *at, int depth)
{
    const fx_kop *q = sum->atom[i];
    fx_klin self = atom_of(q), p = lin(s, q->in[0], 0), in_place;
    int64_t n, times;

    if (!is_const(q->in[1], &n) || n < 1 || sum->c[i] % n || range(s, q->in[0], 4).lo < 0)
        return false;
    times = sum->c[i] / n;
    if (times < 0)
        p.k -= n - 1;
    in_place = fx_klin_add(sum, &self, -sum->c[i]);
    in_place = fx_klin_add(&in_place, &p, times);
    return !in_place.bad && negative(s, &in_place, at, depth + 1);
}

/* The bound of an atom that is below a product with one factor at most. */
static bool with_product(search *s, const fx_klin *sum, int i, const fx_kop *at, int depth)
{
    fx_klin zero = fx_klin_of(0), b;
    product p;

    if (!below(s, sum->atom[i], &p, 4) || p.n > 1)
        return false;
    b = p.n ? lin(s, p.factor[0], 0) : fx_klin_of(1);
    b = fx_klin_add(&zero, &b, p.number);
    return with(s, sum, i, &b, -1, at, depth);
}

/* A counter stays below 'end', by its whole step if end lies so many steps from the beginning; of a minimum, below either. */
static bool with_end(search *s, const fx_klin *sum, int i, const fx_kop *end, const fx_kop *at, int depth)
{
    const fx_kop *loop = loop_of(sum->atom[i]);
    fx_klin e = lin(s, end, 0), lo, span;
    int64_t step = 1;
    bool whole = loop && loop->code == FX_KIR_FOR && is_const(loop->in[2], &step) && step > 1;

    if (end->code == FX_KIR_MIN && depth < s->deepest)
        return with_end(s, sum, i, end->in[0], at, depth + 1) || with_end(s, sum, i, end->in[1], at, depth + 1);
    if (whole) {
        lo = lin(s, loop->in[0], 0);
        span = fx_klin_add(&e, &lo, -1);
        whole = !span.bad && span.k % step == 0;
        for (int k = 0; k < span.n; k++)
            whole = whole && span.c[k] % step == 0;
    }
    return with(s, sum, i, &e, whole ? -step : -1, at, depth);
}

/* The i-th atom counts for more than 0: bounds from above. */
static bool with_upper(search *s, const fx_klin *sum, int i, const fx_kop *at, int depth)
{
    const fx_kop *a = sum->atom[i];

    if (a->code == FX_KIR_ARG)
        return a->parent && end_of(a) && with_end(s, sum, i, end_of(a), at, depth);
    if (a->code == FX_KIR_MIN)
        return with_op(s, sum, i, a->in[0], 0, at, depth) || with_op(s, sum, i, a->in[1], 0, at, depth);
    if (a->code == FX_KIR_MAX)
        return with_op(s, sum, i, a->in[0], 0, at, depth) && with_op(s, sum, i, a->in[1], 0, at, depth);
    if (a->code == FX_KIR_SELECT)
        return with_op(s, sum, i, a->in[1], 0, at, depth) && with_op(s, sum, i, a->in[2], 0, at, depth);
    if (a->code != FX_KIR_DIV && a->code != FX_KIR_REM)
        return false;
    if (with_product(s, sum, i, at, depth) || (a->code == FX_KIR_DIV && with_quotient(s, sum, i, at, depth)))
        return true;
    return range(s, a->in[0], 4).lo >= 0 && range(s, a->in[1], 4).lo >= 0 && with_op(s, sum, i, a->in[0], 0, at, depth);
}

/* ... for less than 0: from below. */
static bool with_lower(search *s, const fx_klin *sum, int i, const fx_kop *at, int depth)
{
    const fx_kop *a = sum->atom[i], *loop = loop_of(a);
    fx_klin one = fx_klin_of(1);

    if (loop)
        return loop->code != FX_KIR_THREADS && with_op(s, sum, i, loop->in[0], 0, at, depth);
    if (a->code == FX_KIR_MAX)
        return with_op(s, sum, i, a->in[0], 0, at, depth) || with_op(s, sum, i, a->in[1], 0, at, depth);
    if (a->code == FX_KIR_MIN)
        return with_op(s, sum, i, a->in[0], 0, at, depth) && with_op(s, sum, i, a->in[1], 0, at, depth);
    if (a->code == FX_KIR_SELECT)
        return with_op(s, sum, i, a->in[1], 0, at, depth) && with_op(s, sum, i, a->in[2], 0, at, depth);
    if (a->code == FX_KIR_DIV && with_quotient(s, sum, i, at, depth))
        return true;
    return range(s, a, 4).lo == 0 && positive(s, a, at->parent, 4) && with(s, sum, i, &one, 0, at, depth);
}

/* How often a fact goes into the sum, by the first atom of both; at least 1. */
static int64_t share(const fx_klin *sum, const fx_klin *fact)
{
    for (int i = 0; i < sum->n; i++) {
        for (int k = 0; k < fact->n; k++) {
            if (fx_kir_alike(sum->atom[i], fact->atom[k]))
                return FX_MAX(sum->c[i] / fact->c[k], 1);
        }
    }
    return 1;
}

/* Given that 'fact' < 0, so times it <= -times: the sum is negative if what is left is less than times. */
static bool with_fact(search *s, const fx_klin *sum, const fx_klin *fact, const fx_kop *at, int depth)
{
    int64_t times = share(sum, fact);
    fx_klin rest = fx_klin_add(sum, fact, -times);

    rest.k -= times;
    return !rest.bad && rest.n <= sum->n && negative(s, &rest, at, depth + 1);
}

/* What a condition that is 'truth' says. */
static bool with_condition(search *s, const fx_klin *sum, const fx_kop *c, bool truth, const fx_kop *at, int depth)
{
    fx_klin a, b, fact;
    bool swap = !truth;

    while (c->code == FX_KIR_SPLAT || c->code == FX_KIR_NOT) {
        truth ^= c->code == FX_KIR_NOT;
        swap = !truth;
        c = c->in[0];
    }
    if (c->code == (truth ? FX_KIR_AND : FX_KIR_OR) && depth < s->deepest)
        return with_condition(s, sum, c->in[0], truth, at, depth + 1) || with_condition(s, sum, c->in[1], truth, at, depth + 1);
    if ((c->code != FX_KIR_LT && c->code != FX_KIR_LE) || c->in[0]->type.t != FX_I64)
        return false;
    a = lin(s, c->in[swap], 0);          /* not a < b: b <= a */
    b = lin(s, c->in[!swap], 0);
    fact = fx_klin_add(&a, &b, -1);
    if ((c->code == FX_KIR_LE) == truth)
        fact.k--;                        /* a <= b: a - b - 1 < 0 */
    return !fact.bad && with_fact(s, sum, &fact, at, depth);
}

static bool with_conditions(search *s, const fx_klin *sum, const fx_kop *at, int depth)
{
    const fx_kir_block *b = at->parent;

    if (at->masked && with_condition(s, sum, fx_kir_mask_of(at), true, at, depth))
        return true;
    for (; b && b->owner; b = b->owner->parent) {
        if (b->owner->code == FX_KIR_IF && with_condition(s, sum, b->owner->in[0], b == b->owner->block[0], at, depth))
            return true;
    }
    return false;
}

static bool negative(search *s, const fx_klin *sum, const fx_kop *at, int depth)
{
    if (surely_negative(s, sum))
        return true;
    if (depth >= s->deepest || s->steps++ > MAX_STEPS)
        return false;
    if (depth == 0 && with_conditions(s, sum, at, depth + 1))      /* seldom many, and mostly to the point */
        return true;
    for (int i = 0; i < sum->n; i++) {
        if ((sum->c[i] > 0 ? with_upper : with_lower)(s, sum, i, at, depth))
            return true;
    }
    return depth > 0 && with_conditions(s, sum, at, depth);
}

/* Short proofs first: on the way to long ones the steps may be used up before a short one is found. */
bool fx_kir_negative(const fx_klin *sum, const fx_kop *at)
{
    return !sum->bad && (negative(&(search){ .deepest = FIRST_DEPTH }, sum, at, 0) || negative(&(search){ .deepest = MAX_DEPTH }, sum, at, 0));
}

/* ---- Bounds -------------------------------------------------------------------------------------------------------- */

/* An iota of so many lanes that a mask is made of; NULL: none. */
static const fx_kop *iota_in(const fx_kop *op, int lanes, int depth)
{
    const fx_kop *found = NULL;

    if (op->code == FX_KIR_IOTA && op->type.lanes == lanes && op->type.t == FX_I64)
        return op;
    for (int i = 0; i < op->n_in && !found && depth < MAX_DEPTH; i++)
        found = iota_in(op->in[i], lanes, depth + 1);
    return found;
}

fx_klin fx_kir_last_index(const fx_kop *access, int i)
{
    const fx_kir_buf *b = fx_kir_buffer_of(access)->u.buf;
    bool stores = access->code == FX_KIR_STORE, side_by_side = stores || access->code == FX_KIR_LOAD;
    int lanes = (stores ? access->in[1] : access)->type.lanes;
    fx_klin index = fx_kir_lin(access->in[fx_kir_index_from(access) + i]), lane;
    const fx_kop *iota;

    if (!side_by_side || lanes == 1 || i < b->rank - 1)
        return index;
    iota = access->masked ? iota_in(fx_kir_mask_of(access), lanes, 0) : NULL;
    lane = iota ? fx_kir_lin(iota) : fx_klin_of(lanes - 1);
    return fx_klin_add(&index, &lane, 1);
}

bool fx_kir_in_bounds(const fx_kop *access, int i)
{
    fx_klin index = fx_kir_lin(access->in[fx_kir_index_from(access) + i]), last = fx_kir_last_index(access, i);
    fx_klin extent = fx_kir_lin(fx_kir_buffer_of(access)->u.buf->extent[i]), minus_1 = fx_klin_of(-1);
    fx_klin before = fx_klin_add(&minus_1, &index, -1), beyond = fx_klin_add(&last, &extent, -1);

    return fx_kir_negative(&before, access) && fx_kir_negative(&beyond, access);
}
