/* kir_apart.c - whether what the iterations of a loop touch lies apart.
 *
 * An axis tells x if all its indices are x * c + base + r with 0 <= r < c and one base that is the same in all
 * iterations: there, accesses with different x never meet.  (The counter of a FOR by steps of s: 0 <= r < c * s.)  Several
 * axes tell the counter t if t is among their x, or follows from them: x / m and x % m tell x (also where m is
 * 0: the quotient is 0, the remainder x), if m is the same in all iterations; x + m and x - m tell x. */
#include "kir/kir_range.h"

#define MAX_SPLITS 4
#define MAX_KNOWN 32

typedef struct split {
    const fx_kop *x;
    int64_t c;
    fx_klin base;
} split;

typedef struct splits {
    int n;
    split at[MAX_SPLITS];
} splits;

static bool tells(const fx_kop *x, const fx_kop *counter)
{
    return x == counter || ((x->code == FX_KIR_DIV || x->code == FX_KIR_REM) && x->type.lanes == 1);
}

/* How far values of x lie apart at least: the step of a FOR. */
static int64_t step_of(const fx_kop *x, const fx_kop *counter)
{
    const fx_kop *loop = x == counter && x->parent ? x->parent->owner : NULL;
    int64_t step = loop && loop->code == FX_KIR_FOR ? fx_kir_range(loop->in[2]).lo : 1;

    return FX_MIN(FX_MAX(step, 1), FX_KIR_MAX_SIZE);
}

/* Whether what index i of the access has beside x * c + base is in [0, c), c times the step of x. */
static bool is_split(const fx_kop *access, int i, const split *s, const fx_kop *counter)
{
    fx_klin index = fx_kir_lin(access->in[fx_kir_index_from(access) + i]), last = fx_kir_last_index(access, i);
    fx_klin self = fx_kir_lin(s->x), minus_1 = fx_klin_of(-1), rest = fx_klin_add(&index, &self, -s->c), before, beyond;
    fx_klin step = fx_klin_of(step_of(s->x, counter));

    rest = fx_klin_add(&rest, &s->base, -1);
    before = fx_klin_add(&minus_1, &rest, -1);
    beyond = fx_klin_add(&last, &self, -s->c);
    beyond = fx_klin_add(&beyond, &s->base, -1);
    beyond = fx_klin_add(&beyond, &step, -s->c);
    return fx_kir_negative(&before, access) && fx_kir_negative(&beyond, access);
}

/* Puts into *base what the index has of things from outside; returns the least that the rest beside x can be, 0 if that isn't
 * known. */
static int64_t find_base(fx_klin *base, const fx_klin *index, const fx_kop *x, const fx_kop *counter)
{
    fx_klin least = fx_klin_of(index->k);

    for (int k = 0; k < index->n; k++) {
        fx_klin one = fx_kir_lin(index->atom[k]);
        fx_krange r = fx_kir_range(index->atom[k]);
        fx_klin end = fx_klin_of(index->c[k] > 0 ? r.lo : r.hi);

        if (!fx_kir_varies(index->atom[k], counter->parent))
            *base = fx_klin_add(base, &one, index->c[k]);
        else if (!fx_kir_alike(index->atom[k], x))
            least = fx_klin_add(&least, &end, index->c[k]);
    }
    return least.bad ? 0 : least.k;
}

/* Adds x * c, with the first base that does: none, what the index has of things from outside, that and a number. */
static void try_split(splits *out, const fx_kop *access, int i, const fx_kop *x, int64_t c, const fx_kop *counter)
{
    fx_klin index = fx_kir_lin(access->in[fx_kir_index_from(access) + i]);
    split s = { x, c, fx_klin_of(0) };
    bool found = c > 0 && is_split(access, i, &s, counter);
    int64_t least = find_base(&s.base, &index, x, counter);

    for (int k = 0; k < 2 && c > 0 && !found; k++) {
        s.base.k = k ? least : 0;
        found = is_split(access, i, &s, counter);
    }
    if (found && out->n < MAX_SPLITS)
        out->at[out->n++] = s;
}

/* The x that index i of the access tells: atoms of its sum, or of where the counters in it begin. */
static void find_splits(splits *out, const fx_kop *access, int i, const fx_klin *sum, const fx_kop *counter, int depth)
{
    for (int k = 0; k < sum->n; k++) {
        const fx_kop *a = sum->atom[k], *loop = a->code == FX_KIR_ARG && a->parent ? a->parent->owner : NULL;
        fx_klin self = fx_kir_lin(a), lo;

        if (tells(a, counter))
            try_split(out, access, i, a, sum->c[k], counter);
        if (!loop || a == counter || loop->code == FX_KIR_THREADS || depth == 3)
            continue;
        lo = fx_kir_lin(loop->in[0]);
        lo = fx_klin_add(&lo, &self, -1);
        lo = fx_klin_add(sum, &lo, sum->c[k]);
        if (!lo.bad)
            find_splits(out, access, i, &lo, counter, depth + 1);
    }
}

static bool has_split(const splits *s, const split *one)
{
    for (int i = 0; i < s->n; i++) {
        fx_klin d = fx_klin_add(&s->at[i].base, &one->base, -1);

        if (s->at[i].c == one->c && !d.bad && d.n == 0 && d.k == 0 && fx_kir_alike(s->at[i].x, one->x))
            return true;
    }
    return false;
}

/* What axis i of all the accesses tells. */
static splits axis_splits(const fx_kop *const *access, int n, int i, const fx_kop *counter)
{
    splits all = { .n = 0 };

    for (int k = 0; k < n; k++) {
        fx_klin sum = fx_kir_lin(access[k]->in[fx_kir_index_from(access[k]) + i]);
        splits one = { .n = 0 };
        int kept = 0;

        find_splits(&one, access[k], i, &sum, counter, 0);
        if (k == 0) {
            all = one;
            continue;
        }
        for (int j = 0; j < all.n; j++) {
            if (has_split(&one, &all.at[j]))
                all.at[kept++] = all.at[j];
        }
        all.n = kept;
    }
    return all;
}

typedef struct known {
    int n;
    const fx_kop *at[MAX_KNOWN];
} known;

static bool add_known(known *k, const fx_kop *x)
{
    for (int i = 0; i < k->n; i++) {
        if (fx_kir_alike(k->at[i], x))
            return false;
    }
    if (k->n == MAX_KNOWN)
        return false;
    k->at[k->n++] = x;
    return true;
}

/* What a sum or difference tells, of which one operand is the same in all iterations: the other one. NULL: nothing. */
static const fx_kop *told_by_sum(const fx_kop *x, const fx_kop *counter)
{
    for (int i = 0; i < 2 && (x->code == FX_KIR_ADD || x->code == FX_KIR_SUB); i++) {
        if (!fx_kir_varies(x->in[i], counter->parent))
            return x->in[1 - i];
    }
    return NULL;
}

/* One more that follows from those that are known; false: none. */
static bool follow(known *k, const fx_kop *counter)
{
    for (int i = 0; i < k->n; i++) {
        const fx_kop *part = told_by_sum(k->at[i], counter);

        if (part && add_known(k, part))
            return true;
        for (int j = 0; j < k->n; j++) {
            const fx_kop *q = k->at[i], *r = k->at[j];

            if (q->code == FX_KIR_DIV && r->code == FX_KIR_REM && fx_kir_alike(q->in[0], r->in[0]) &&
                fx_kir_alike(q->in[1], r->in[1]) && !fx_kir_varies(q->in[1], counter->parent) && add_known(k, q->in[0]))
                return true;
        }
    }
    return false;
}

bool fx_kir_apart(const fx_kop *const *access, int n, const fx_kop *counter)
{
    known k = { 0 };

    for (int i = 0; i < fx_kir_buffer_of(access[0])->u.buf->rank; i++) {
        splits s = axis_splits(access, n, i, counter);

        for (int j = 0; j < s.n; j++)
            add_known(&k, s.at[j].x);
    }
    while (follow(&k, counter))
        continue;
    for (int i = 0; i < k.n; i++) {
        if (k.at[i] == counter)
            return true;
    }
    return false;
}

bool fx_kir_disjoint(const fx_kop *a, const fx_kop *b)
{
    for (int i = 0; i < fx_kir_buffer_of(a)->u.buf->rank; i++) {
        fx_klin first[2] = { fx_kir_lin(a->in[fx_kir_index_from(a) + i]), fx_kir_lin(b->in[fx_kir_index_from(b) + i]) };
        fx_klin last[2] = { fx_kir_last_index(a, i), fx_kir_last_index(b, i) };
        fx_klin before = fx_klin_add(&last[0], &first[1], -1), behind = fx_klin_add(&last[1], &first[0], -1);

        if (fx_kir_negative(&before, a) || fx_kir_negative(&behind, b))
            return true;
    }
    return false;
}
