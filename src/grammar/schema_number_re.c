/* schema_number_re.c - the spellings of a set of numbers, put together. */
#include "grammar/schema_number_int.h"

#define MAX_PIECES 64           /* of an interval between values that are left out */

/* ---- a set ----------------------------------------------------------------------------------------------- */

/* All multiples of m are integers: m is one. */
static bool is_integer(fx_dec m)
{
    return m.e >= (int64_t)m.n;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t r = a % b;

        a = b;
        b = r;
    }
    return a;
}

/* The multiples of both are those of one: p / 10^s. false: too large to say so. */
static bool least_common(uint64_t *p, int64_t *s, uint64_t p2, int64_t s2)
{
    int64_t scale = FX_MAX(*s, s2);
    uint64_t a = *p, b = p2, l;

    for (int64_t i = *s; i < scale; i++)
        if ((a *= 10) > UINT64_MAX / 100)
            return false;
    for (int64_t i = s2; i < scale; i++)
        if ((b *= 10) > UINT64_MAX / 100)
            return false;
    l = a / gcd(a, b);
    if (l > UINT64_MAX / b)
        return false;
    for (l *= b; l % 10 == 0; l /= 10)
        scale--;
    if (l > UINT32_MAX)
        return false;
    *p = l;
    *s = scale;
    return true;
}

/* Any spelling, within bounds, multiples of p / 10^s. */
static fx_re any_multiples(fx_sc *c, const fx_numrec *r, uint64_t p, int64_t s)
{
    fx_numrec low = fx_num_mirrored(r), part;
    fx_dec zero = { false, 0, "", 0 };
    fx_re re = FX_RE_NONE;

    if (!r->has_lo && !r->has_hi)
        return fx_num_multiple(c, p, s, false);
    if (p == 1)
        return fx_num_interval(c, r, true, s);
    for (int neg = 0; neg < 2 && !c->st; neg++) {
        fx_re one = fx_num_few(c, fx_num_upper(neg ? &low : r), neg, !neg && fx_num_holds_zero(r), p, s);

        if (one == FX_RE_FAIL) {
            part = *r;
            if (neg && !(r->has_hi && r->hi.neg)) {
                part.has_hi = part.hi_ex = true;
                part.hi = zero;
            } else if (!neg && (!r->has_lo || r->lo.neg)) {
                part.has_lo = true;
                part.lo_ex = false;
                part.lo = zero;
            }
            one = fx_re_and(c->re, fx_num_interval(c, &part, true, s), fx_num_multiple(c, p, s, false));
        }
        re = fx_re_alt(c->re, re, one);
    }
    return re;
}

/* Draft 4: without a point or an exponent. */
static fx_re whole_integers(fx_sc *c, const fx_numrec *r, uint64_t p, int64_t s)
{
    fx_re re = r->has_lo || r->has_hi ? fx_num_plain(c, r, true) : fx_num_whole_syntax(c);

    if (fx_num_holds_zero(r))
        re = fx_re_alt(c->re, re, fx_re_literal(c->re, FX_STR("-0")));
    return p == 1 && s == 0 ? re : fx_re_and(c->re, re, fx_num_multiple(c, p, s, true));
}

static fx_re record_re(fx_sc *c, const fx_numrec *r);

/* Between the values that are left out: each interval by itself tells at once which digits lead nowhere. */
static fx_re pieces(fx_sc *c, const fx_numrec *r)
{
    fx_numrec part = *r;
    fx_re re = FX_RE_NONE;

    part.n_ex = 0;
    for (uint32_t i = 0; i <= r->n_ex && !c->st; i++) {
        part.has_hi = i < r->n_ex || r->has_hi;
        part.hi = i < r->n_ex ? r->ex[i] : r->hi;
        part.hi_ex = i < r->n_ex || r->hi_ex;
        if (r->has_hi && fx_dec_cmp(part.hi, r->hi) >= 0) {
            part.hi_ex = r->hi_ex || (i < r->n_ex && fx_dec_cmp(part.hi, r->hi) == 0);
            part.hi = r->hi;
            i = r->n_ex;
        }
        if (!part.has_lo || !part.has_hi || fx_dec_cmp(part.lo, part.hi) < (part.lo_ex || part.hi_ex ? 0 : 1))
            re = fx_re_alt(c->re, re, record_re(c, &part));
        if (i < r->n_ex && (!r->has_lo || fx_dec_cmp(r->ex[i], r->lo) >= 0)) {
            part.has_lo = part.lo_ex = true;
            part.lo = r->ex[i];
        }
    }
    return re;
}

static fx_re record_re(fx_sc *c, const fx_numrec *r)
{
    bool any = c->opt->any_number, integer = false;
    uint64_t p = 1;
    int64_t s = 0;
    fx_re re;

    if (any && r->n_ex && r->n_ex <= MAX_PIECES)
        return pieces(c, r);
    for (uint32_t i = 0; i < r->n_mult; i++) {
        integer = integer || is_integer(r->mult[i]);
        uint64_t p2 = p;
        int64_t s2 = s;

        if (!fx_dec_ratio(r->mult[i], i ? &p2 : &p, i ? &s2 : &s) || (i && !least_common(&p, &s, p2, s2))) {
            fx_sc_over(c, "digits of multipleOf");
            return FX_RE_NONE;
        }
    }
    if (any && r->whole)
        re = whole_integers(c, r, p, s);
    else if (any && r->n_mult)
        re = any_multiples(c, r, p, s);
    else if (any)
        re = r->has_lo || r->has_hi ? fx_num_interval(c, r, false, 0)
                                    : fx_num_syntax(c);
    else
        re = fx_num_plain(c, r, integer);
    if (!any && r->n_mult && (p != 1 || s != 0))
        re = fx_re_and(c->re, re, fx_num_multiple(c, p, s, true));
    for (uint32_t i = 0; i < r->n_nmult && fx_dec_ratio(r->nmult[i], &p, &s); i++)
        re = fx_re_and(c->re, re, fx_re_not(c->re, any || p != 1 || s != 0 ? fx_num_multiple(c, p, s, !any)
                                                                            : fx_num_plain_syntax(c, true)));
    if (r->n_ex)
        re = fx_re_and(c->re, re, fx_re_not(c->re, fx_num_values(c, r->ex, r->n_ex)));
    return re;
}

fx_re fx_snum_re(fx_sc *c, fx_snum s)
{
    fx_re re = s.n_fin ? fx_num_values(c, s.fin, s.n_fin) : FX_RE_NONE;

    for (uint32_t i = 0; i < s.n_recs && !c->st; i++)
        re = fx_re_alt(c->re, re, record_re(c, &s.recs[i]));
    return re;
}
