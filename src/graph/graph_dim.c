/* graph_dim.c - axis sizes as polynomials over names and floor quotients.
 *
 * A poly is a sum of terms; a term is a coefficient and a product of factors, sorted
 * (powers repeat the factor).  Terms are sorted: higher degree first, then by
 * factors; no two have the same factors, no coefficient is zero, and a poly without
 * names is folded into fx_dim.n.  Everything is made anew in the arena; nothing changes
 * after it was made. */
#include "graph/graph_dim.h"

typedef struct factor {
    fx_str name;                 /* a name, or, if den is not NULL, num // den */
    const fx_dim *num, *den;
} factor;

typedef struct term {
    int64_t coef;
    int n;
    const factor *const *factors;
} term;

struct fx_poly {
    int n;
    term terms[];
};

#define MAX_TERMS 32             /* of a sum, and factors of a product: sizes of tensors have few */

static bool add64(int64_t a, int64_t b, int64_t *out)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return false;
    *out = a + b;
    return true;
}

static bool mul64(int64_t a, int64_t b, int64_t *out)
{
    if (a == 0 || b == 0) {
        *out = 0;
        return true;
    }
    if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN))
        return false;
    if (a != -1 && b != -1 && ((b > 0) == (a > 0) ? (a > 0 ? a > INT64_MAX / b : a < INT64_MAX / b)
                                                  : (a > 0 ? b < INT64_MIN / a : a < INT64_MIN / b)))
        return false;
    *out = a * b;
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int cmp_factor(const factor *a, const factor *b)
{
    if (!a->den || !b->den)
        return a->den ? 1 : b->den ? -1 : fx_str_cmp(a->name, b->name);
    int c = fx_dim_cmp(*a->num, *b->num);
    return c ? c : fx_dim_cmp(*a->den, *b->den);
}

/* Order of the products: higher degree first. */
static int cmp_product(const term *a, const term *b)
{
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    for (int i = 0; i < a->n; i++) {
        int c = cmp_factor(a->factors[i], b->factors[i]);

        if (c)
            return c;
    }
    return 0;
}

int fx_dim_cmp(fx_dim x, fx_dim y)
{
    if (!x.sym || !y.sym)
        return x.sym ? 1 : y.sym ? -1 : (x.n > y.n) - (x.n < y.n);
    for (int i = 0; i < x.sym->n && i < y.sym->n; i++) {
        const term *a = &x.sym->terms[i], *b = &y.sym->terms[i];
        int c = cmp_product(a, b);

        if (c)
            return c;
        if (a->coef != b->coef)
            return a->coef < b->coef ? -1 : 1;
    }
    return (x.sym->n > y.sym->n) - (x.sym->n < y.sym->n);
}

bool fx_dim_eq(fx_dim x, fx_dim y)
{
    return fx_dim_cmp(x, y) == 0;
}

/* The terms of a dim; a static one is a term without factors, in *room. */
static const term *terms_of(const fx_dim *d, term *room, int *n)
{
    if (d->sym) {
        *n = d->sym->n;
        return d->sym->terms;
    }
    *room = (term){ d->n, 0, NULL };
    *n = d->n != 0;
    return room;
}

/* Takes ownership of p, whose terms are in order; folds it to a number if it is one. */
static fx_dim fold(const fx_poly *p)
{
    if (p->n == 0)
        return fx_dim_of(0);
    if (p->n == 1 && p->terms[0].n == 0)
        return fx_dim_of(p->terms[0].coef);
    return (fx_dim){ 0, p };
}

static fx_poly *new_poly(fx_arena *a, int n_terms)
{
    return fx_arena_alloc(a, sizeof(fx_poly) + (size_t)n_terms * sizeof(term));
}

static fx_status one_term(fx_arena *a, int64_t coef, int n, const factor *const *factors, fx_dim *out)
{
    fx_poly *p = new_poly(a, 1);

    if (!p)
        return FORNAX_ENOMEM;
    p->terms[0] = (term){ coef, n, factors };
    p->n = coef != 0;
    *out = fold(p);
    return FORNAX_OK;
}

static fx_status one_factor(fx_arena *a, factor f, fx_dim *out)
{
    factor *copy = FX_ARENA_NEW(a, factor);
    const factor **list = FX_ARENA_NEWN(a, const factor *, 1);

    if (!copy || !list)
        return FORNAX_ENOMEM;
    *copy = f;
    list[0] = copy;
    return one_term(a, 1, 1, list, out);
}

fx_status fx_dim_symbol(fx_arena *a, fx_str name, fx_dim *out)
{
    char *copy = fx_arena_strdup(a, name.p, name.n);

    if (!copy)
        return FORNAX_ENOMEM;
    return one_factor(a, (factor){ { copy, name.n }, NULL, NULL }, out);
}

bool fx_dim_is_symbol(fx_dim d, fx_str *name)
{
    if (!d.sym || d.sym->n != 1 || d.sym->terms[0].coef != 1 || d.sym->terms[0].n != 1 ||
        d.sym->terms[0].factors[0]->den)
        return false;
    *name = d.sym->terms[0].factors[0]->name;
    return true;
}

/* x + sign * y: a merge of two sorted lists. */
static fx_status add_scaled(fx_arena *a, fx_dim x, fx_dim y, int64_t sign, fx_dim *out)
{
    term rx, ry;
    int nx, ny, i = 0, j = 0, n = 0;
    const term *tx = terms_of(&x, &rx, &nx), *ty = terms_of(&y, &ry, &ny);
    fx_poly *p;

    if (nx + ny > MAX_TERMS)
        return FORNAX_EFORMAT;
    p = new_poly(a, nx + ny);
    if (!p)
        return FORNAX_ENOMEM;
    while (i < nx || j < ny) {
        int c = i == nx ? 1 : j == ny ? -1 : cmp_product(&tx[i], &ty[j]);
        term t = c <= 0 ? tx[i++] : (term){ 0, ty[j].n, ty[j].factors };
        int64_t more;

        if (c >= 0) {
            if (!mul64(ty[j++].coef, sign, &more) || !add64(t.coef, more, &t.coef))
                return FORNAX_EFORMAT;
        }
        if (t.coef)
            p->terms[n++] = t;
    }
    p->n = n;
    *out = fold(p);
    return FORNAX_OK;
}

fx_status fx_dim_add(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out)
{
    if (!x.sym && !y.sym) {
        int64_t n;

        if (!add64(x.n, y.n, &n))
            return FORNAX_EFORMAT;
        *out = fx_dim_of(n);
        return FORNAX_OK;
    }
    return add_scaled(a, x, y, 1, out);
}

fx_status fx_dim_sub(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out)
{
    return add_scaled(a, x, y, -1, out);
}

/* The product of two terms: coefficients multiply, sorted factors merge. */
static fx_status mul_terms(fx_arena *a, const term *x, const term *y, fx_dim *out)
{
    int n = x->n + y->n, i = 0, j = 0;
    const factor **list = FX_ARENA_NEWN(a, const factor *, (size_t)n + 1);
    int64_t coef;

    if (!list)
        return FORNAX_ENOMEM;
    if (n > MAX_TERMS)
        return FORNAX_EFORMAT;
    if (!mul64(x->coef, y->coef, &coef))
        return FORNAX_EFORMAT;
    for (int k = 0; k < n; k++) {
        bool from_x = j == y->n || (i < x->n && cmp_factor(x->factors[i], y->factors[j]) <= 0);

        list[k] = from_x ? x->factors[i++] : y->factors[j++];
    }
    return one_term(a, coef, n, list, out);
}

fx_status fx_dim_mul(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out)
{
    term rx, ry;
    int nx, ny;
    const term *tx = terms_of(&x, &rx, &nx), *ty = terms_of(&y, &ry, &ny);
    fx_dim sum = fx_dim_of(0), part;

    for (int i = 0; i < nx; i++) {
        for (int j = 0; j < ny; j++) {
            FX_TRY(mul_terms(a, &tx[i], &ty[j], &part));
            FX_TRY(fx_dim_add(a, sum, part, &sum));
        }
    }
    *out = sum;
    return FORNAX_OK;
}

/* x / y where y's product divides x's and its coefficient divides x's; false if it doesn't. */
static bool divide_term(const term *x, const term *y, const factor **list, int *n, int64_t *coef)
{
    int j = 0;

    if (y->coef == 0 || (y->coef == -1 && x->coef == INT64_MIN) || x->coef % y->coef)
        return false;
    *n = 0;
    for (int i = 0; i < x->n; i++) {
        if (j < y->n && cmp_factor(x->factors[i], y->factors[j]) == 0)
            j++;
        else
            list[(*n)++] = x->factors[i];
    }
    *coef = x->coef / y->coef;
    return j == y->n;
}

/* num // den as a factor of its own. */
static fx_status quotient(fx_arena *a, fx_dim num, fx_dim den, fx_dim *out)
{
    fx_dim *copy = FX_ARENA_NEWN(a, fx_dim, 2);

    if (!copy)
        return FORNAX_ENOMEM;
    copy[0] = num;
    copy[1] = den;
    return one_factor(a, (factor){ { "", 0 }, &copy[0], &copy[1] }, out);
}

/* x as whole * y + rest, term by term; only a y of one term comes out of any. */
static fx_status split_terms(fx_arena *a, fx_dim x, fx_dim y, fx_dim *whole, fx_dim *rest)
{
    term rx, ry;
    int nx, ny;
    const term *tx = terms_of(&x, &rx, &nx), *ty = terms_of(&y, &ry, &ny);
    fx_dim part;

    *whole = *rest = fx_dim_of(0);
    for (int i = 0; i < nx; i++) {
        const factor **list = FX_ARENA_NEWN(a, const factor *, (size_t)tx[i].n + 1);
        int64_t coef;
        int n;

        if (!list)
            return FORNAX_ENOMEM;
        if (ny == 1 && divide_term(&tx[i], &ty[0], list, &n, &coef)) {
            FX_TRY(one_term(a, coef, n, list, &part));
            FX_TRY(fx_dim_add(a, *whole, part, whole));
        } else {
            FX_TRY(one_term(a, tx[i].coef, tx[i].n, tx[i].factors, &part));
            FX_TRY(fx_dim_add(a, *rest, part, rest));
        }
    }
    return FORNAX_OK;
}

/* Takes the multiples of y out of the rest's constant, so that 0 <= constant / y < 1. */
static fx_status split_constant(fx_arena *a, int64_t y, fx_dim *whole, fx_dim *rest)
{
    term room;
    int n;
    const term *t = terms_of(rest, &room, &n);
    int64_t c = n && t[n - 1].n == 0 ? t[n - 1].coef : 0, q;

    if (y == -1 && c == INT64_MIN)
        return FORNAX_EFORMAT;
    q = floor_div(c, y);
    FX_TRY(fx_dim_add(a, *whole, fx_dim_of(q), whole));
    return fx_dim_sub(a, *rest, fx_dim_of(q * y), rest);
}

fx_status fx_dim_div(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out)
{
    fx_dim whole, rest, part;

    if (!y.sym && y.n == 0)
        return FORNAX_EFORMAT;
    FX_TRY(split_terms(a, x, y, &whole, &rest));
    if (!y.sym)
        FX_TRY(split_constant(a, y.n, &whole, &rest));
    if (!rest.sym && (!y.sym || rest.n == 0)) {
        *out = whole;
        return FORNAX_OK;
    }
    FX_TRY(quotient(a, rest, y, &part));
    return fx_dim_add(a, whole, part, out);
}

static bool eval_factor(const factor *f, fx_dim_lookup lookup, void *user, int64_t *out)
{
    int64_t num, den;

    if (!f->den)
        return lookup(user, f->name, out);
    if (!fx_dim_eval(*f->num, lookup, user, &num) || !fx_dim_eval(*f->den, lookup, user, &den) || den == 0 ||
        (den == -1 && num == INT64_MIN))
        return false;
    *out = floor_div(num, den);
    return true;
}

bool fx_dim_eval(fx_dim d, fx_dim_lookup lookup, void *user, int64_t *out)
{
    int64_t sum = 0;

    if (!d.sym) {
        *out = d.n;
        return true;
    }
    for (int i = 0; i < d.sym->n; i++) {
        const term *t = &d.sym->terms[i];
        int64_t product = t->coef, value;

        for (int k = 0; k < t->n; k++) {
            if (!eval_factor(t->factors[k], lookup, user, &value) || !mul64(product, value, &product))
                return false;
        }
        if (!add64(sum, product, &sum))
            return false;
    }
    *out = sum;
    return true;
}

static fx_status subst_factor(fx_arena *a, const factor *f, fx_dim_rename lookup, void *user, fx_dim *out)
{
    fx_dim num, den;

    if (!f->den)
        return lookup(user, f->name, out) ? FORNAX_OK : one_factor(a, *f, out);
    FX_TRY(fx_dim_subst(a, *f->num, lookup, user, &num));
    FX_TRY(fx_dim_subst(a, *f->den, lookup, user, &den));
    return fx_dim_div(a, num, den, out);
}

fx_status fx_dim_subst(fx_arena *a, fx_dim d, fx_dim_rename lookup, void *user, fx_dim *out)
{
    fx_dim sum = fx_dim_of(0);

    for (int i = 0; d.sym && i < d.sym->n; i++) {
        const term *t = &d.sym->terms[i];
        fx_dim product = fx_dim_of(t->coef), part;

        for (int k = 0; k < t->n; k++) {
            FX_TRY(subst_factor(a, t->factors[k], lookup, user, &part));
            FX_TRY(fx_dim_mul(a, product, part, &product));
        }
        FX_TRY(fx_dim_add(a, sum, product, &sum));
    }
    *out = d.sym ? sum : d;
    return FORNAX_OK;
}

static void print_operand(fx_dim d, fx_buf *out)
{
    fx_str name;
    bool bare = fx_dim_is_symbol(d, &name) || (!d.sym && d.n >= 0);

    fx_buf_puts(out, bare ? "" : "(");
    fx_dim_print(d, out);
    fx_buf_puts(out, bare ? "" : ")");
}

static void print_factor(const factor *f, bool alone, fx_buf *out)
{
    if (!f->den) {
        fx_buf_str(out, f->name);
        return;
    }
    fx_buf_puts(out, alone ? "" : "(");
    print_operand(*f->num, out);
    fx_buf_puts(out, "//");
    print_operand(*f->den, out);
    fx_buf_puts(out, alone ? "" : ")");
}

void fx_dim_print(fx_dim d, fx_buf *out)
{
    if (!d.sym) {
        fx_buf_printf(out, "%lld", (long long)d.n);
        return;
    }
    for (int i = 0; i < d.sym->n; i++) {
        const term *t = &d.sym->terms[i];
        bool number = t->n == 0 || (t->coef != 1 && t->coef != -1);

        if (t->coef < 0)
            fx_buf_putc(out, '-');
        else if (i)
            fx_buf_putc(out, '+');
        if (number)
            fx_buf_printf(out, "%llu", (unsigned long long)(t->coef < 0 ? -(uint64_t)t->coef : (uint64_t)t->coef));
        for (int k = 0; k < t->n; k++) {
            if (k || number)
                fx_buf_putc(out, '*');
            print_factor(t->factors[k], t->n == 1 && !number && t->coef > 0, out);
        }
    }
}

void fx_dim_walk(fx_dim d, const fx_dim_sink *sink)
{
    if (!d.sym) {
        sink->num(sink->user, d.n);
        return;
    }
    for (int i = 0; i < d.sym->n; i++) {
        const term *t = &d.sym->terms[i];

        sink->num(sink->user, t->coef);
        for (int k = 0; k < t->n; k++) {
            const factor *f = t->factors[k];

            if (f->den) {
                fx_dim_walk(*f->num, sink);
                fx_dim_walk(*f->den, sink);
                sink->op(sink->user, '/');
            } else {
                sink->name(sink->user, f->name);
            }
            sink->op(sink->user, '*');
        }
        if (i > 0)
            sink->op(sink->user, '+');
    }
}
