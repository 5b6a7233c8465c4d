/* schema_number_plain.c - numbers without exponents and needless digits: intervals as expressions over digits. */
#include "grammar/schema_number_int.h"

/* ---- the plain spelling: expressions over digits --------------------------------------------------- */

static fx_re digit_range(fx_sc *c, int a, int b)
{
    uint64_t set[4] = { 0 };

    for (int d = a; d <= b; d++)
        set[0] |= 1ull << ('0' + d);
    return a > b ? FX_RE_NONE : fx_re_byte_set(c->re, set);
}

static fx_re some_digits(fx_sc *c, uint32_t min, uint32_t max)
{
    return max == 0 ? FX_RE_EMPTY : fx_re_repeat(c->re, digit_range(c, 0, 9), min, max);
}

typedef struct bound {          /* a magnitude as digits around the point */
    char *whole, *frac;
    size_t n_whole, n_frac;
    bool ex, inf;
} bound;

typedef struct plain {
    fx_sc *c;
    bound lo, hi;
    bool integer;
    fx_re frac_any;
} plain;

static bool set_bound(fx_sc *c, bound *b, fx_dec d, bool ex)
{
    size_t whole = d.e > 0 ? (size_t)d.e : 1;
    int64_t frac = (int64_t)d.n - d.e;

    *b = (bound){ .ex = ex, .n_whole = whole, .n_frac = d.n && frac > 0 ? (size_t)frac : 0 };
    b->whole = FX_SC_NEWN(c, char, whole + 1);
    b->frac = FX_SC_NEWN(c, char, b->n_frac + 1);
    if (!b->whole || !b->frac)
        return false;
    memset(b->whole, '0', whole);
    memset(b->frac, '0', b->n_frac);
    for (int64_t i = 0; i < (int64_t)d.n; i++) {
        int64_t at = i - d.e;           /* places after the point */

        if (at < 0)
            b->whole[at + (int64_t)whole] = d.d[i];
        else
            b->frac[at] = d.d[i];
    }
    return true;
}

/* Each digit either follows a bound (tl: the lower, th: the upper) or has left it for good. */
static fx_re frac_from(plain *p, size_t i, bool tl, bool th);

static fx_re after_digit(plain *p, int a, int b, size_t i, bool tl, bool th)
{
    fx_re d = digit_range(p->c, a, b);

    return d == FX_RE_NONE ? d : fx_re_cat(p->c->re, d, frac_from(p, i + 1, tl, th));
}

static fx_re frac_from(plain *p, size_t i, bool tl, bool th)
{
    fx_re_pool *re = p->c->re;
    bool lo_done = i >= p->lo.n_frac, hi_done = i >= p->hi.n_frac;
    bool end = (!tl || (lo_done && !p->lo.ex)) && (!th || !hi_done || !p->hi.ex);
    fx_re out = end ? FX_RE_EMPTY : FX_RE_NONE;
    int a = tl && !lo_done ? p->lo.frac[i] - '0' : 0, b = th && !hi_done ? p->hi.frac[i] - '0' : 9;

    if (tl && lo_done && !p->lo.ex)
        tl = false;
    if (!tl && !th)
        return some_digits(p->c, 0, FX_RE_INF);
    if (th && hi_done)
        return out;                     /* a longer fraction is above the bound, or ends with zeros */
    if (tl && lo_done && !th)           /* more than zeros has to follow */
        return fx_re_cat(re, some_digits(p->c, 0, FX_RE_INF),
                         fx_re_cat(re, digit_range(p->c, 1, 9), some_digits(p->c, 0, FX_RE_INF)));
    if (a == b && tl && th)
        return fx_re_alt(re, out, after_digit(p, a, a, i, true, true));
    if (tl)
        out = fx_re_alt(re, out, after_digit(p, a, a, i, true, false));
    if (th)
        out = fx_re_alt(re, out, after_digit(p, b, b, i, false, true));
    return fx_re_alt(re, out, after_digit(p, a + tl, b - th, i, false, false));
}

static fx_re frac_of(plain *p, bool tl, bool th)
{
    fx_re_pool *re = p->c->re;
    bool end = (!tl || (p->lo.n_frac == 0 && !p->lo.ex)) && (!th || p->hi.n_frac || !p->hi.ex);
    fx_re out = end ? FX_RE_EMPTY : FX_RE_NONE;

    if (p->integer)
        return out;
    if (!tl && !th)
        return p->frac_any;
    return fx_re_alt(re, out, fx_re_cat(re, fx_re_literal(re, FX_STR(".")), frac_from(p, 0, tl, th)));
}

/* Whole parts of n digits; bounds that are followed have as many. */
static fx_re whole_from(plain *p, size_t i, size_t n, bool tl, bool th)
{
    fx_re_pool *re = p->c->re;
    int a = tl ? p->lo.whole[i] - '0' : i == 0 && n > 1, b = th ? p->hi.whole[i] - '0' : 9;
    fx_re out = FX_RE_NONE;

    if (i == n)
        return frac_of(p, tl, th);
    if (!tl && !th) {
        fx_re rest = fx_re_cat(re, some_digits(p->c, (uint32_t)(n - i - 1), (uint32_t)(n - i - 1)), p->frac_any);

        return fx_re_cat(re, digit_range(p->c, a, 9), rest);
    }
    if (a == b && tl && th)
        return fx_re_cat(re, digit_range(p->c, a, a), whole_from(p, i + 1, n, true, true));
    if (tl)
        out = fx_re_cat(re, digit_range(p->c, a, a), whole_from(p, i + 1, n, true, false));
    if (th)
        out = fx_re_alt(re, out, fx_re_cat(re, digit_range(p->c, b, b), whole_from(p, i + 1, n, false, true)));
    if (a + tl <= b - th)
        out = fx_re_alt(re, out, fx_re_cat(re, digit_range(p->c, a + tl, b - th), whole_from(p, i + 1, n, false, false)));
    return out;
}

/* Magnitudes between the bounds, by the length of the whole part. */
static fx_re magnitudes(plain *p)
{
    fx_re_pool *re = p->c->re;
    size_t nl = p->lo.n_whole, nh = p->hi.n_whole;
    fx_re out, many;

    if (!p->hi.inf && nl > nh)
        return FX_RE_NONE;
    out = whole_from(p, 0, nl, true, !p->hi.inf && nl == nh);
    if (p->hi.inf || nh > nl + 1) {     /* longer than the lower bound, shorter than the upper */
        many = some_digits(p->c, (uint32_t)nl, p->hi.inf ? FX_RE_INF : (uint32_t)nh - 2);
        out = fx_re_alt(re, out, fx_re_cat(re, digit_range(p->c, 1, 9), fx_re_cat(re, many, p->frac_any)));
    }
    if (!p->hi.inf && nh > nl)
        out = fx_re_alt(re, out, whole_from(p, 0, nh, false, true));
    return out;
}

static fx_re plain_side(plain *p, const fx_num_side *d, bool zero)
{
    fx_dec none = { false, 0, "", 0 };

    if (!d->possible && !zero)
        return FX_RE_NONE;
    if (!d->possible)
        return fx_re_literal(p->c->re, FX_STR("0"));
    if (!set_bound(p->c, &p->lo, d->has_lo ? d->lo : none, d->has_lo ? d->lo_ex : !zero)
        || !set_bound(p->c, &p->hi, d->has_hi ? d->hi : none, d->hi_ex))
        return FX_RE_NONE;
    p->hi.inf = !d->has_hi;
    return magnitudes(p);
}

fx_re fx_num_plain_syntax(fx_sc *c, bool integer)
{
    fx_re_pool *re = c->re;
    fx_re frac = fx_re_cat(re, fx_re_literal(re, FX_STR(".")),
                           fx_re_cat(re, some_digits(c, 0, FX_RE_INF), digit_range(c, 1, 9)));
    fx_re natural = fx_re_cat(re, digit_range(c, 1, 9), some_digits(c, 0, FX_RE_INF));
    fx_re zero = fx_re_literal(re, FX_STR("0")), minus = fx_re_repeat(re, fx_re_literal(re, FX_STR("-")), 0, 1);

    if (integer)
        return fx_re_alt(re, zero, fx_re_cat(re, minus, natural));
    return fx_re_alt(re, fx_re_alt(re, zero, fx_re_cat(re, minus, fx_re_cat(re, zero, frac))),
                     fx_re_cat(re, minus, fx_re_cat(re, natural, fx_re_repeat(re, frac, 0, 1))));
}

/* JSON's numbers. */
fx_re fx_num_syntax(fx_sc *c)
{
    fx_re_pool *re = c->re;
    static const uint64_t signs[4] = { 1ull << '+' | 1ull << '-' }, letters[4] = { 0, 1ull << ('e' - 64) | 1ull << ('E' - 64) };
    fx_re some = some_digits(c, 1, FX_RE_INF), sign = fx_re_repeat(re, fx_re_byte_set(re, signs), 0, 1);
    fx_re frac = fx_re_repeat(re, fx_re_cat(re, fx_re_literal(re, FX_STR(".")), some), 0, 1);
    fx_re e = fx_re_byte_set(re, letters);

    return fx_re_cat(re, fx_num_whole_syntax(c),
                     fx_re_cat(re, frac, fx_re_repeat(re, fx_re_cat(re, e, fx_re_cat(re, sign, some)), 0, 1)));
}

/* JSON's integers as their spelling says. */
fx_re fx_num_whole_syntax(fx_sc *c)
{
    fx_re zero = fx_re_literal(c->re, FX_STR("0")), minus = fx_re_repeat(c->re, fx_re_literal(c->re, FX_STR("-")), 0, 1);

    return fx_re_cat(c->re, minus, fx_re_alt(c->re, zero, fx_re_cat(c->re, digit_range(c, 1, 9),
                                                                    some_digits(c, 0, FX_RE_INF))));
}

fx_re fx_num_plain(fx_sc *c, const fx_numrec *r, bool integer)
{
    fx_re_pool *re = c->re;
    plain p = { .c = c, .integer = integer };
    fx_numrec low = fx_num_mirrored(r);
    fx_num_side up = fx_num_upper(r), down = fx_num_upper(&low);
    fx_re frac = fx_re_cat(re, fx_re_literal(re, FX_STR(".")),
                           fx_re_cat(re, some_digits(c, 0, FX_RE_INF), digit_range(c, 1, 9)));
    fx_re out;

    if (!r->has_lo && !r->has_hi)
        return fx_num_plain_syntax(c, integer);
    p.frac_any = integer ? FX_RE_EMPTY : fx_re_repeat(re, frac, 0, 1);
    out = plain_side(&p, &up, fx_num_holds_zero(r));
    out = fx_re_alt(re, out, fx_re_cat(re, fx_re_literal(re, FX_STR("-")), plain_side(&p, &down, false)));
    return integer ? out : fx_re_and(re, out, fx_num_plain_syntax(c, false));
}
