/* schema_number.c - sets of numbers, exact whatever their size.
 *
 * A set is a union of records (interval, multiples, no multiples, values left out) and a sorted list of
 * values.  An integer is a multiple of 1.  Records that hold one value become that value. */
#include <stdlib.h>

#include "base/text.h"
#include "grammar/schema_int.h"

#define MAX_EXPONENT 4000       /* of a number in a schema */

/* ---- decimals ------------------------------------------------------------------------- */

static fx_dec trimmed(bool neg, const char *d, size_t n, int64_t e)
{
    while (n && d[0] == '0') {
        d++;
        n--;
        e--;
    }
    while (n && d[n - 1] == '0')
        n--;
    return n ? (fx_dec){ neg, (uint32_t)n, d, e } : (fx_dec){ false, 0, "", 0 };
}

fx_dec fx_dec_trimmed(const char *d, size_t n, int64_t e)
{
    return trimmed(false, d, n, e);
}

bool fx_dec_parse(fx_sc *c, const fx_jv *number, fx_dec *out)
{
    fx_str s = number->text;
    bool neg = s.n && s.p[0] == '-';
    char *d = FX_SC_NEWN(c, char, s.n + 1);
    size_t n = 0, i = neg;
    int64_t e = 0, exponent = 0;

    if (!d)
        return false;
    for (; i < s.n && s.p[i] != '.' && (s.p[i] | 0x20) != 'e'; i++, e++)
        d[n++] = s.p[i];
    if (i < s.n && s.p[i] == '.')
        for (i++; i < s.n && (s.p[i] | 0x20) != 'e'; i++)
            d[n++] = s.p[i];
    if (i < s.n) {
        bool minus = s.p[i + 1] == '-';

        for (i += 1 + (minus || s.p[i + 1] == '+'); i < s.n; i++)
            exponent = FX_MIN(exponent * 10 + (s.p[i] - '0'), INT32_MAX);
        e += minus ? -exponent : exponent;
    }
    *out = trimmed(neg, d, n, e);
    if (out->n && (out->e > MAX_EXPONENT || out->e - (int64_t)out->n < -MAX_EXPONENT))
        return fx_sc_fail(c, FORNAX_EUNSUP, number, NULL, "a number of more than %d digits", MAX_EXPONENT);
    return true;
}

fx_dec fx_dec_int(fx_sc *c, int64_t v)
{
    char *d = FX_SC_NEWN(c, char, 24);
    int n = d ? fx_format(d, 24, "%llu", v < 0 ? 0ULL - (unsigned long long)v : (unsigned long long)v) : 0;

    return trimmed(v < 0, d, (size_t)n, n);
}

static int magnitude_cmp(fx_dec a, fx_dec b)
{
    int order;

    if (!a.n || !b.n)
        return (a.n > 0) - (b.n > 0);
    if (a.e != b.e)
        return a.e < b.e ? -1 : 1;
    order = memcmp(a.d, b.d, FX_MIN(a.n, b.n));
    return order ? (order > 0) - (order < 0) : (a.n > b.n) - (a.n < b.n);
}

int fx_dec_cmp(fx_dec a, fx_dec b)
{
    if (a.neg != b.neg)
        return a.neg ? -1 : 1;
    return a.neg ? -magnitude_cmp(a, b) : magnitude_cmp(a, b);
}

bool fx_dec_count(fx_dec d, uint32_t *out)
{
    uint64_t v = 0;

    if (d.neg || d.e < (int64_t)d.n)
        return !d.n && (*out = 0, true);
    for (int64_t i = 0; i < d.e && v < UINT32_MAX; i++)
        v = v * 10 + (i < (int64_t)d.n ? (uint64_t)(d.d[i] - '0') : 0);
    *out = (uint32_t)FX_MIN(v, UINT32_MAX - 1);
    return true;
}

bool fx_dec_ratio(fx_dec m, uint64_t *p, int64_t *s)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < m.n; i++) {
        v = v * 10 + (uint64_t)(m.d[i] - '0');
        if (v > UINT32_MAX)
            return false;
    }
    *p = v;
    *s = (int64_t)m.n - m.e;
    return true;
}

/* Is v a multiple of m = p / 10^s?  v = V * 10^(e-n), so v/m = V * 10^(e-n+s) / p, and 10 doesn't divide V. */
static bool is_multiple(fx_dec v, fx_dec m)
{
    uint64_t p, r = 0;
    int64_t s, t;

    if (!v.n)
        return true;
    if (!fx_dec_ratio(m, &p, &s) || (t = v.e - (int64_t)v.n + s) < 0)
        return false;
    for (uint32_t i = 0; i < v.n; i++)
        r = (r * 10 + (uint64_t)(v.d[i] - '0')) % p;
    for (int64_t i = 0; i < t && r && i < 64; i++)      /* after 64 no power of 2 or 5 of p is left */
        r = r * 10 % p;
    return r == 0;
}

/* ---- values in records ------------------------------------------------------------------ */

static bool in_list(const fx_dec *list, uint32_t n, fx_dec v)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        int order = fx_dec_cmp(list[mid], v);

        if (!order)
            return true;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

static bool in_record(const fx_numrec *r, fx_dec v)
{
    int lo = r->has_lo ? fx_dec_cmp(v, r->lo) : 1, hi = r->has_hi ? fx_dec_cmp(v, r->hi) : -1;

    if (lo < 0 || hi > 0 || (lo == 0 && r->lo_ex) || (hi == 0 && r->hi_ex))
        return false;
    for (uint32_t i = 0; i < r->n_mult; i++)
        if (!is_multiple(v, r->mult[i]))
            return false;
    for (uint32_t i = 0; i < r->n_nmult; i++)
        if (is_multiple(v, r->nmult[i]))
            return false;
    return !in_list(r->ex, r->n_ex, v);
}

/* *whole: only as it is spelled in draft 4. */
static bool in_set(fx_snum s, fx_dec v, bool *whole)
{
    bool found = in_list(s.fin, s.n_fin, v);

    *whole = !found;
    for (uint32_t i = 0; i < s.n_recs; i++)
        if (in_record(&s.recs[i], v)) {
            found = true;
            *whole &= s.recs[i].whole;
        }
    return found;
}

static int by_value(const void *a, const void *b)
{
    return fx_dec_cmp(*(const fx_dec *)a, *(const fx_dec *)b);
}

void fx_sort_decs(fx_dec *v, uint32_t *n)
{
    uint32_t kept = 0;

    qsort(v, *n, sizeof(*v), by_value);
    for (uint32_t i = 0; i < *n; i++)
        if (!kept || fx_dec_cmp(v[kept - 1], v[i]))
            v[kept++] = v[i];
    *n = kept;
}

/* Both lists, each value once. */
static const fx_dec *list_or(fx_sc *c, const fx_dec *a, uint32_t n_a, const fx_dec *b, uint32_t n_b, uint32_t *n)
{
    fx_dec *v;

    *n = n_a ? n_a : n_b;
    if (!n_a || !n_b)
        return n_a ? a : b;
    *n = 0;
    if (!(v = FX_SC_NEWN(c, fx_dec, (size_t)n_a + n_b)))
        return NULL;
    memcpy(v, a, n_a * sizeof(*v));
    memcpy(v + n_a, b, n_b * sizeof(*v));
    *n = n_a + n_b;
    fx_sort_decs(v, n);
    return v;
}

/* ---- records ------------------------------------------------------------------------------ */

/* The numbers in |units| of 10^-scale, where they fit: for small bounds. */
static bool scaled(fx_dec d, int64_t scale, int64_t *out)
{
    int64_t v = 0, zeros = d.e - (int64_t)d.n + scale;

    if (zeros < 0 || zeros > 18 || d.n + zeros > 18)
        return false;
    for (uint32_t i = 0; i < d.n; i++)
        v = v * 10 + (d.d[i] - '0');
    while (zeros-- > 0)
        v *= 10;
    *out = d.neg ? -v : v;
    return true;
}

/* Bounded on both sides without a multiple in between. */
static bool no_multiple(const fx_numrec *r, fx_dec m)
{
    int64_t lo, hi, step, scale = FX_MAX(FX_MAX((int64_t)r->lo.n - r->lo.e, (int64_t)r->hi.n - r->hi.e),
                                         FX_MAX((int64_t)m.n - m.e, 0));

    if (!r->has_lo || !r->has_hi || scale > 18 || !scaled(r->lo, scale, &lo) || !scaled(r->hi, scale, &hi)
        || !scaled(m, scale, &step))
        return false;
    lo += r->lo_ex;
    hi -= r->hi_ex;
    int64_t first = lo / step * step;
    if (first < lo)
        first += step;
    return first > hi;
}

/* Adds what r holds to out; a single value goes to *fin. */
static bool settle(fx_numrec *r, fx_numrec *out, uint32_t *n, fx_dec *fin, uint32_t *n_fin)
{
    int order = r->has_lo && r->has_hi ? fx_dec_cmp(r->lo, r->hi) : -1;

    if (order > 0 || (order == 0 && (r->lo_ex || r->hi_ex)))
        return true;
    if (order == 0) {
        if (in_record(r, r->lo) && r->whole)
            out[(*n)++] = *r;
        else if (in_record(r, r->lo))
            fin[(*n_fin)++] = r->lo;
        return true;
    }
    for (uint32_t i = 0; i < r->n_mult; i++)
        for (uint32_t k = 0; k < r->n_nmult; k++)
            if (is_multiple(r->mult[i], r->nmult[k]))
                return true;
    for (uint32_t i = 0; i < r->n_mult; i++)
        if (no_multiple(r, r->mult[i]))
            return true;
    out[(*n)++] = *r;
    return true;
}

static fx_numrec record_and(fx_sc *c, const fx_numrec *a, const fx_numrec *b)
{
    fx_numrec r = *a;

    if (b->has_lo) {
        int order = a->has_lo ? fx_dec_cmp(b->lo, a->lo) : 1;

        r.lo = order > 0 ? b->lo : a->lo;
        r.lo_ex = order > 0 ? b->lo_ex : order < 0 ? a->lo_ex : a->lo_ex || b->lo_ex;
        r.has_lo = true;
    }
    if (b->has_hi) {
        int order = a->has_hi ? fx_dec_cmp(b->hi, a->hi) : -1;

        r.hi = order < 0 ? b->hi : a->hi;
        r.hi_ex = order < 0 ? b->hi_ex : order > 0 ? a->hi_ex : a->hi_ex || b->hi_ex;
        r.has_hi = true;
    }
    r.whole |= b->whole;
    r.mult = list_or(c, a->mult, a->n_mult, b->mult, b->n_mult, &r.n_mult);
    r.nmult = list_or(c, a->nmult, a->n_nmult, b->nmult, b->n_nmult, &r.n_nmult);
    r.ex = list_or(c, a->ex, a->n_ex, b->ex, b->n_ex, &r.n_ex);
    return r;
}

static bool is_all(const fx_numrec *r)
{
    return !r->whole && !r->has_lo && !r->has_hi && !r->n_mult && !r->n_nmult && !r->n_ex;
}

/* ---- sets ------------------------------------------------------------------------------------ */

fx_snum fx_snum_of(fx_sc *c, const fx_numrec *r)
{
    fx_snum s = { NULL, NULL, 0, 0 };
    fx_numrec *recs = FX_SC_NEWN(c, fx_numrec, 1), copy = *r;
    fx_dec *fin = FX_SC_NEWN(c, fx_dec, 1);

    if (recs && fin)
        settle(&copy, recs, &s.n_recs, fin, &s.n_fin);
    s.recs = recs;
    s.fin = fin;
    return s;
}

fx_snum fx_snum_all(fx_sc *c)
{
    return fx_snum_of(c, &(fx_numrec){ 0 });
}

fx_snum fx_snum_integers(fx_sc *c, bool whole)
{
    fx_dec *one = FX_SC_NEWN(c, fx_dec, 1);

    if (!one)
        return (fx_snum){ NULL, NULL, 0, 0 };
    *one = fx_dec_int(c, 1);
    return fx_snum_of(c, &(fx_numrec){ .mult = one, .n_mult = 1, .whole = whole });
}

/* The values of a that are in b go to fin, or to recs. */
static void keep_in(fx_snum *s, fx_numrec *recs, fx_dec *fin, fx_snum a, fx_snum b)
{
    bool whole;

    for (uint32_t i = 0; i < a.n_fin; i++) {
        fx_dec v = a.fin[i];

        if (in_set(b, v, &whole) && whole)
            recs[s->n_recs++] = (fx_numrec){ .has_lo = true, .has_hi = true, .lo = v, .hi = v, .whole = true };
        else if (in_set(b, v, &whole))
            fin[s->n_fin++] = v;
    }
}

fx_snum fx_snum_and(fx_sc *c, fx_snum a, fx_snum b)
{
    size_t n = (size_t)a.n_recs * b.n_recs;
    fx_snum s = { NULL, NULL, 0, 0 };
    fx_numrec *recs;
    fx_dec *fin;

    if (a.n_recs == 1 && is_all(&a.recs[0]))
        return b;
    if (b.n_recs == 1 && is_all(&b.recs[0]))
        return a;
    if (n > FX_S_MAX_RECORDS) {
        fx_sc_over(c, "intervals of numbers");
        return s;
    }
    recs = FX_SC_NEWN(c, fx_numrec, n + a.n_fin + b.n_fin);
    fin = FX_SC_NEWN(c, fx_dec, n + a.n_fin + b.n_fin);
    if (!recs || !fin)
        return s;
    for (uint32_t i = 0; i < a.n_recs; i++)
        for (uint32_t k = 0; k < b.n_recs; k++) {
            fx_numrec r = record_and(c, &a.recs[i], &b.recs[k]);

            settle(&r, recs, &s.n_recs, fin, &s.n_fin);
        }
    keep_in(&s, recs, fin, a, b);
    keep_in(&s, recs, fin, b, a);
    fx_sort_decs(fin, &s.n_fin);
    s.recs = recs;
    s.fin = fin;
    return s;
}

fx_snum fx_snum_or(fx_sc *c, fx_snum a, fx_snum b)
{
    fx_snum s = { NULL, NULL, 0, 0 };
    fx_numrec *recs;

    for (uint32_t i = 0; i < a.n_recs; i++)
        if (is_all(&a.recs[i]))
            return a;
    if (!a.n_recs && !a.n_fin)
        return b;
    if (!(recs = FX_SC_NEWN(c, fx_numrec, (size_t)a.n_recs + b.n_recs)))
        return s;
    if (a.n_recs)
        memcpy(recs, a.recs, a.n_recs * sizeof(*recs));
    if (b.n_recs)
        memcpy(recs + a.n_recs, b.recs, b.n_recs * sizeof(*recs));
    s.recs = recs;
    s.n_recs = a.n_recs + b.n_recs;
    s.fin = list_or(c, a.fin, a.n_fin, b.fin, b.n_fin, &s.n_fin);
    return s;
}

/* Everything that a record leaves out: a union of records with one bound each, and its exceptions. */
static fx_snum record_not(fx_sc *c, const fx_numrec *r)
{
    fx_snum s = { NULL, r->ex, 0, r->n_ex };
    fx_numrec *v = FX_SC_NEWN(c, fx_numrec, 2 + (size_t)r->n_mult + r->n_nmult);

    if (!v)
        return s;
    if (r->has_lo)
        v[s.n_recs++] = (fx_numrec){ .has_hi = true, .hi = r->lo, .hi_ex = !r->lo_ex };
    if (r->has_hi)
        v[s.n_recs++] = (fx_numrec){ .has_lo = true, .lo = r->hi, .lo_ex = !r->hi_ex };
    for (uint32_t i = 0; i < r->n_mult; i++)
        v[s.n_recs++] = (fx_numrec){ .nmult = &r->mult[i], .n_nmult = 1 };
    for (uint32_t i = 0; i < r->n_nmult; i++)
        v[s.n_recs++] = (fx_numrec){ .mult = &r->nmult[i], .n_mult = 1 };
    s.recs = v;
    return s;
}

fx_snum fx_snum_not(fx_sc *c, fx_snum a)
{
    fx_numrec left_out = { .ex = a.fin, .n_ex = a.n_fin };
    fx_snum s = fx_snum_of(c, &left_out);

    for (uint32_t i = 0; i < a.n_recs && !c->st; i++)
        s = fx_snum_and(c, s, record_not(c, &a.recs[i]));
    return s;
}
