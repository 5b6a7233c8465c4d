/* schema_number_any.c - numbers in any spelling: the machines of intervals and of multiples.
 *
 * They keep how the digits so far compare with the bounds, and where the point is.  The state of a machine
 * is alive: some ending of the number is accepted. */
#include "grammar/schema_number_int.h"

/* ---- the syntax, shared by the machines ------------------------------------------------- */

/* The next phase of a JSON number; false: not one. */
bool fx_num_next_phase(unsigned phase, unsigned char ch, unsigned *to)
{
    bool digit = ch >= '0' && ch <= '9', e = (ch | 0x20) == 'e';

    switch (phase) {
    case FX_NP_START:
        *to = ch == '-' ? FX_NP_MINUS : ch == '0' ? FX_NP_ZERO : FX_NP_INT;
        return digit || ch == '-';
    case FX_NP_MINUS:
        *to = ch == '0' ? FX_NP_ZERO : FX_NP_INT;
        return digit;
    case FX_NP_ZERO:
        *to = ch == '.' ? FX_NP_POINT : FX_NP_EXP;
        return ch == '.' || e;
    case FX_NP_INT:
        *to = digit ? FX_NP_INT : ch == '.' ? FX_NP_POINT : FX_NP_EXP;
        return digit || ch == '.' || e;
    case FX_NP_POINT:
        *to = FX_NP_FRAC;
        return digit;
    case FX_NP_FRAC:
        *to = digit ? FX_NP_FRAC : FX_NP_EXP;
        return digit || e;
    case FX_NP_EXP:
        *to = digit ? FX_NP_EXP_DIGITS : FX_NP_EXP_SIGN;
        return digit || ch == '+' || ch == '-';
    default:
        *to = FX_NP_EXP_DIGITS;
        return digit;
    }
}

bool fx_num_may_end(unsigned phase)
{
    return phase == FX_NP_ZERO || phase == FX_NP_INT || phase == FX_NP_FRAC || phase == FX_NP_EXP_DIGITS;
}

/* Can an exponent whose digits so far say 'e' still become one between lo and hi?  Before the sign
 * (phase FX_NP_EXP) it may be any; 'minus' and e say the rest. */
bool fx_num_exponent_alive(unsigned phase, bool minus, int64_t e, int64_t lo, int64_t hi)
{
    if (lo > hi)
        return false;
    if (phase < FX_NP_EXP_SIGN)
        return true;
    if (minus) {
        int64_t t = -lo;

        lo = -hi;
        hi = t;
    }
    if (phase == FX_NP_EXP_SIGN || e == 0)
        return hi >= 0;
    for (int64_t a = e, b = e; a <= FX_NUM_EXP_MAX * 10; a *= 10, b = b * 10 + 9)
        if (a <= hi && b >= lo)
            return true;
    return false;
}

/* ---- where in a number's spelling a machine is ------------------------------------------------- */

typedef struct place {
    unsigned phase, neg, minus;
    int64_t point;              /* the value is 0.digits * 10^point */
    uint32_t zeros;             /* after the last digit that isn't zero */
    int64_t e;                  /* from FX_NP_EXP on, instead of the zeros */
} place;

/* All of a byte but what a digit of the mantissa means. */
static bool step_place(place *at, unsigned char ch)
{
    if (!fx_num_next_phase(at->phase, ch, &at->phase))
        return false;
    at->neg |= at->phase == FX_NP_MINUS;
    if (at->phase == FX_NP_EXP)
        at->e = at->zeros = 0;
    if (at->phase == FX_NP_EXP_SIGN)
        at->minus = ch == '-';
    if (at->phase == FX_NP_EXP_DIGITS)
        at->e = FX_MIN(at->e * 10 + (ch - '0'), FX_NUM_EXP_MAX);
    return true;
}

static bool is_mantissa(const place *at, unsigned char ch) { return at->phase <= FX_NP_FRAC && ch >= '0' && ch <= '9'; }

/* ---- intervals, any spelling ---------------------------------------------------------------- */

typedef struct interval {
    fx_num_side sides[2];              /* positive, negative */
    bool zero;
    bool step;                  /* only multiples of 10^-scale; the bounds are such and not excluded */
    int64_t scale;
} interval;

/* How the digits read compare with a bound's digits: equal so far, below, above. */
enum { SAME, BELOW, ABOVE };
typedef struct istate {
    place at;
    unsigned nonzero, vs_lo, vs_hi;
    uint32_t digits;            /* from the first that isn't zero to the last such */
} istate;
#define DIGITS_MAX 8000u

static uint64_t pack_interval(istate s)
{
    return (uint64_t)s.at.phase | (uint64_t)s.at.neg << 4 | (uint64_t)s.nonzero << 5 | (uint64_t)s.vs_lo << 6
           | (uint64_t)s.vs_hi << 8 | (uint64_t)s.at.minus << 10 | (uint64_t)(s.at.point + 8192) << 11
           | (uint64_t)s.digits << 25 | (s.at.phase >= FX_NP_EXP ? (uint64_t)s.at.e : s.at.zeros) << 38;
}

static istate unpack_interval(uint64_t v)
{
    istate s = { .at = { .phase = v & 15, .neg = v >> 4 & 1, .minus = v >> 10 & 1, .point = (int64_t)(v >> 11 & 0x3FFF) - 8192 },
                 .nonzero = v >> 5 & 1, .vs_lo = v >> 6 & 3, .vs_hi = v >> 8 & 3, .digits = v >> 25 & 0x1FFF };

    if (s.at.phase >= FX_NP_EXP)
        s.at.e = (int64_t)(v >> 38);
    else
        s.at.zeros = (uint32_t)(v >> 38);
    return s;
}

/* The smallest and the largest of point + exponent with which the digits so far, and maybe more of them
 * unless they are 'final', make a number within the bounds. */
static void points(const interval *iv, const istate *s, bool final, int64_t *lo, int64_t *hi)
{
    const fx_num_side *d = &iv->sides[s->at.neg];
    unsigned a = s->vs_lo, b = s->vs_hi;
    uint32_t read = s->digits + s->at.zeros;

    if (final && a == SAME && read < d->lo.n)
        a = BELOW;
    if (final && b == SAME && read < d->hi.n)
        b = BELOW;
    bool at_lo = final ? a == ABOVE || (a == SAME && !d->lo_ex) : a != BELOW;
    bool at_hi = b == BELOW || (b == SAME && (!d->hi_ex || (!final && read < d->hi.n)));
    *lo = d->has_lo ? d->lo.e + !at_lo : -FX_NUM_EXP_MAX;
    *hi = d->has_hi ? d->hi.e - !at_hi : FX_NUM_EXP_MAX;
    if (iv->step)
        *lo = FX_MAX(*lo, (int64_t)s->digits - iv->scale);
}

static bool interval_alive(const interval *iv, const istate *s)
{
    bool final = s->at.phase >= FX_NP_EXP;
    int64_t lo, hi;

    if (s->at.phase == FX_NP_START)
        return true;
    if (!s->nonzero)
        return iv->zero || (!final && iv->sides[s->at.neg].possible);
    if (!iv->sides[s->at.neg].possible)
        return false;
    points(iv, s, final, &lo, &hi);
    if (!final)
        return lo <= hi;
    return fx_num_exponent_alive(s->at.phase, s->at.minus, s->at.e, lo - s->at.point, hi - s->at.point);
}

static unsigned compare_digit(unsigned so_far, fx_dec bound, uint32_t read, unsigned char ch)
{
    unsigned char other = read < bound.n ? (unsigned char)bound.d[read] : '0';

    return so_far != SAME || ch == other ? so_far : ch < other ? BELOW : ABOVE;
}

static bool mantissa_digit(const interval *iv, istate *s, unsigned phase, unsigned char ch)
{
    const fx_num_side *d = &iv->sides[s->at.neg];
    uint32_t read = s->digits + s->at.zeros;

    if (!d->has_lo && !d->has_hi && !iv->step) {
        s->nonzero |= ch != '0';
        return true;                /* nothing to compare with: one state */
    }
    if (!s->nonzero && ch == '0') {
        s->at.point -= phase == FX_NP_FRAC;
        return s->at.point > -FX_NUM_ZEROS_MAX;
    }
    s->nonzero = 1;
    s->at.point += phase == FX_NP_INT;
    s->vs_lo = d->has_lo ? compare_digit(s->vs_lo, d->lo, read, ch) : SAME;
    s->vs_hi = d->has_hi ? compare_digit(s->vs_hi, d->hi, read, ch) : SAME;
    s->digits = ch == '0' ? s->digits : read + 1;
    s->at.zeros = ch == '0' ? s->at.zeros + 1 : 0;
    return read < DIGITS_MAX && s->at.zeros < FX_NUM_ZEROS_MAX && s->at.point < DIGITS_MAX;
}

static bool interval_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    const interval *iv = user;
    istate s = unpack_interval(state);

    if (!step_place(&s.at, ch))
        return false;
    if (is_mantissa(&s.at, ch) && !mantissa_digit(iv, &s, s.at.phase, ch))
        return false;
    *to = pack_interval(s);
    return interval_alive(iv, &s);
}

static bool interval_accepts(const void *user, uint64_t state)
{
    const interval *iv = user;
    istate s = unpack_interval(state);
    int64_t lo, hi, at = s.at.point + (s.at.minus ? -s.at.e : s.at.e);

    if (!fx_num_may_end(s.at.phase))
        return false;
    if (!s.nonzero)
        return iv->zero;
    points(iv, &s, true, &lo, &hi);
    return iv->sides[s.at.neg].possible && at >= lo && (!iv->sides[s.at.neg].has_hi || at <= hi);
}

static const fx_re_machine interval_machine = { interval_next, interval_accepts, fx_re_first_of_number };

/* The positive part of an interval. */
fx_num_side fx_num_upper(const fx_numrec *r)
{
    fx_num_side d = { .possible = true };

    if (r->has_hi && (r->hi.neg || !r->hi.n))
        d.possible = false;
    if (r->has_lo && !r->lo.neg && r->lo.n) {
        d.has_lo = true;
        d.lo = r->lo;
        d.lo_ex = r->lo_ex;
    }
    d.has_hi = r->has_hi;
    d.hi = r->hi;
    d.hi_ex = r->hi_ex;
    return d;
}

static fx_dec negated(fx_dec d)
{
    d.neg = d.n > 0 && !d.neg;
    return d;
}

fx_numrec fx_num_mirrored(const fx_numrec *r)
{
    return (fx_numrec){ .has_lo = r->has_hi, .has_hi = r->has_lo, .lo = negated(r->hi), .hi = negated(r->lo),
                        .lo_ex = r->hi_ex, .hi_ex = r->lo_ex };
}

bool fx_num_holds_zero(const fx_numrec *r)
{
    return !(r->has_lo && (r->lo.n ? !r->lo.neg : r->lo_ex)) && !(r->has_hi && (r->hi.n ? r->hi.neg : r->hi_ex));
}

/* The digits of a bound, where the machine outlives the schema. */
bool fx_num_keep_digits(fx_sc *c, fx_dec *d)
{
    char *p = fx_re_pool_alloc(c->re, d->n + 1u);

    if (!p)
        return fx_sc_nomem(c);
    if (d->n)
        memcpy(p, d->d, d->n);
    d->d = p;
    return true;
}

/* The next multiple of 10^-scale, d itself included unless it is left out ('ex'); above d or below. */
static fx_dec stepped(fx_sc *c, fx_dec d, bool ex, int64_t scale, bool up)
{
    size_t n = (size_t)FX_MAX(d.e + scale, 0), i = n;
    bool exact = (int64_t)d.n <= d.e + scale;
    char *p;

    if ((exact && !ex) || !(p = FX_SC_NEWN(c, char, n + 1)))
        return d;
    memset(p, '0', n + 1);
    memcpy(p + 1, d.d, FX_MIN(n, d.n));
    if (up) {
        while (p[i] == '9')
            p[i--] = '0';
        p[i]++;
    } else if (exact) {
        while (p[i] == '0')
            p[i--] = '9';
        p[i]--;
    }
    return fx_dec_trimmed(p, n + 1, (int64_t)n + 1 - scale);
}

static void step_side(fx_sc *c, fx_num_side *d, int64_t scale)
{
    if (!d->possible)
        return;
    if (d->has_lo)
        d->lo = stepped(c, d->lo, d->lo_ex, scale, true);
    if (d->has_hi)
        d->hi = stepped(c, d->hi, d->hi_ex, scale, false);
    d->lo_ex = d->hi_ex = false;
    if (d->has_hi && (!d->hi.n || (d->has_lo && fx_dec_cmp(d->lo, d->hi) > 0)))
        d->possible = false;
}

/* 'step': only multiples of 10^-scale. */
fx_re fx_num_interval(fx_sc *c, const fx_numrec *r, bool step, int64_t scale)
{
    interval *iv = fx_re_pool_alloc(c->re, sizeof(*iv));
    fx_numrec low = fx_num_mirrored(r);

    if (!iv) {
        fx_sc_nomem(c);
        return FX_RE_NONE;
    }
    *iv = (interval){ { fx_num_upper(r), fx_num_upper(&low) }, fx_num_holds_zero(r), step, scale };
    for (int k = 0; k < 2; k++) {
        if (step)
            step_side(c, &iv->sides[k], scale);
        if (c->st || (iv->sides[k].has_lo && !fx_num_keep_digits(c, &iv->sides[k].lo))
            || (iv->sides[k].has_hi && !fx_num_keep_digits(c, &iv->sides[k].hi)))
            return FX_RE_NONE;
    }
    if (!iv->zero && !iv->sides[0].possible && !iv->sides[1].possible)
        return FX_RE_NONE;
    return fx_re_of_machine(c->re, &interval_machine, iv, pack_interval((istate){ 0 }));
}

/* ---- multiples, any spelling --------------------------------------------------------------------
 * A multiple of p / 10^s is m' * 10^t with m' the digits without zeros at the end and t = zeros - digits
 * after the point + exponent + s: p has to divide it, and t may not be negative, unless it is zero. */

typedef struct multiple {
    uint64_t p;
    int64_t s;
    bool plain;                 /* no exponents */
} multiple;
typedef struct mstate {
    unsigned phase, nonzero, minus;
    uint64_t r;                 /* m' mod p */
    uint32_t zeros, after;
    int64_t need, e;            /* from FX_NP_EXP on: the exponent has to be that at least */
} mstate;
#define NEVER 8000

static uint64_t pack_multiple(mstate s)
{
    uint64_t head = (uint64_t)s.phase | (uint64_t)s.nonzero << 4 | (uint64_t)s.minus << 5;

    if (s.phase >= FX_NP_EXP)
        return head | (uint64_t)(s.need + 8192) << 6 | (uint64_t)s.e << 21;
    return head | (uint64_t)s.zeros << 6 | (uint64_t)s.after << 18 | s.r << 30;
}

static mstate unpack_multiple(uint64_t v)
{
    mstate s = { .phase = v & 15, .nonzero = v >> 4 & 1, .minus = v >> 5 & 1 };

    if (s.phase >= FX_NP_EXP) {
        s.need = (int64_t)(v >> 6 & 0x7FFF) - 8192;
        s.e = (int64_t)(v >> 21);
    } else {
        s.zeros = v >> 6 & 0xFFF;
        s.after = v >> 18 & 0xFFF;
        s.r = v >> 30;
    }
    return s;
}

/* The exponent that the number needs at least. */
static int64_t exponent_needed(const multiple *m, const mstate *s)
{
    uint64_t r = s->r;
    int64_t t = 0;

    if (!s->nonzero)
        return -FX_NUM_EXP_MAX / 2;
    for (; r && t < 64; t++)
        r = r * 10 % m->p;
    return r ? NEVER : t - ((int64_t)s->zeros - s->after + m->s);
}

static bool multiple_digit(const multiple *m, mstate *s, unsigned phase, unsigned char ch)
{
    s->after += phase == FX_NP_FRAC;
    if (ch == '0') {
        s->zeros += s->nonzero;
        return s->zeros < FX_NUM_ZEROS_MAX && s->after < FX_NUM_ZEROS_MAX;
    }
    for (; s->zeros; s->zeros--)
        s->r = s->r * 10 % m->p;
    s->r = (s->r * 10 + (uint64_t)(ch - '0')) % m->p;
    s->nonzero = 1;
    return s->after < FX_NUM_ZEROS_MAX;
}

static bool multiple_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    const multiple *m = user;
    mstate s = unpack_multiple(state);
    unsigned phase;

    if (!fx_num_next_phase(s.phase, ch, &phase) || (phase == FX_NP_EXP && m->plain))
        return false;
    if (phase <= FX_NP_FRAC && ch >= '0' && ch <= '9' && !multiple_digit(m, &s, phase, ch))
        return false;
    if (phase == FX_NP_EXP) {
        s.need = exponent_needed(m, &s);
        s.e = 0;
    }
    if (phase == FX_NP_EXP_SIGN)
        s.minus = ch == '-';
    if (phase == FX_NP_EXP_DIGITS)
        s.e = FX_MIN(s.e * 10 + (ch - '0'), FX_NUM_EXP_MAX);
    s.phase = phase;
    *to = pack_multiple(s);
    if (phase < FX_NP_EXP)
        return !m->plain || phase < FX_NP_POINT || (phase == FX_NP_POINT ? m->s > 0 : s.after <= m->s);
    return s.need != NEVER && fx_num_exponent_alive(phase, s.minus, s.e, s.need, FX_NUM_EXP_MAX * 20);
}

static bool multiple_accepts(const void *user, uint64_t state)
{
    const multiple *m = user;
    mstate s = unpack_multiple(state);

    if (!fx_num_may_end(s.phase))
        return false;
    if (s.phase < FX_NP_EXP)
        return exponent_needed(m, &s) <= 0;
    return s.need != NEVER && (s.minus ? -s.e : s.e) >= s.need;
}

static const fx_re_machine multiple_machine = { multiple_next, multiple_accepts, fx_re_first_of_number };

fx_re fx_num_multiple(fx_sc *c, uint64_t p, int64_t s, bool plain)
{
    multiple *m = fx_re_pool_alloc(c->re, sizeof(*m));

    if (!m) {
        fx_sc_nomem(c);
        return FX_RE_NONE;
    }
    *m = (multiple){ p, s, plain };
    return fx_re_of_machine(c->re, &multiple_machine, m, pack_multiple((mstate){ 0 }));
}

/* ---- a few multiples, any spelling ----------------------------------------------------------------
 * k * p / 10^s between bounds of at most 31 bits (in units of 10^-s) and of one sign: here digits that can't
 * become such a number are told at once, which the two machines above can't say together. */

typedef struct few {
    uint64_t p, min, max;       /* magnitudes in units; min > 0 */
    int64_t s;
    bool neg, zero;
} few;
typedef struct fstate {
    place at;
    uint64_t value;             /* the digits up to the last that isn't zero */
} fstate;
#define FEW_MAX (1ull << 31)

static uint64_t pack_few(fstate s)
{
    return (uint64_t)s.at.phase | (uint64_t)s.at.neg << 4 | (uint64_t)s.at.minus << 5 | s.value << 6
           | (uint64_t)(s.at.point + 2048) << 38 | (s.at.phase >= FX_NP_EXP ? (uint64_t)s.at.e : s.at.zeros) << 50;
}

static fstate unpack_few(uint64_t v)
{
    fstate s = { .at = { .phase = v & 15, .neg = v >> 4 & 1, .minus = v >> 5 & 1, .point = (int64_t)(v >> 38 & 0xFFF) - 2048 },
                 .value = v >> 6 & 0xFFFFFFFF };

    if (s.at.phase >= FX_NP_EXP)
        s.at.e = (int64_t)(v >> 50);
    else
        s.at.zeros = (uint32_t)(v >> 50);
    return s;
}

static int64_t digits_of(uint64_t v)
{
    int64_t n = 0;

    for (; v; v /= 10)
        n++;
    return n;
}

/* A multiple in [a, b] and within the bounds? */
static bool has_multiple(const few *f, uint64_t a, uint64_t b)
{
    a = FX_MAX(a, f->min);
    b = FX_MIN(b, f->max);
    return a <= b && b / f->p * f->p >= a;
}

static bool few_alive(const few *f, const fstate *s)
{
    int64_t base = s->at.point + f->s - digits_of(s->value);      /* the digits are value * 10^(base + exponent) units */
    uint64_t unit = 1, tail = 1;        /* 10^j, 10^(j - zeros) */

    if (s->at.phase == FX_NP_START)
        return true;
    if (s->at.neg != f->neg || !s->value)
        return f->zero || (!s->value && s->at.neg == f->neg && s->at.phase < FX_NP_EXP);
    for (int64_t j = 0; s->value * unit <= f->max; j++, unit *= 10) {
        tail = j > (int64_t)s->at.zeros ? tail * 10 : 1;
        if (s->at.phase < FX_NP_EXP ? has_multiple(f, s->value * unit, s->value * unit + tail - 1)
                           : has_multiple(f, s->value * unit, s->value * unit)
                                 && fx_num_exponent_alive(s->at.phase, s->at.minus, s->at.e, j - base, j - base))
            return true;
    }
    return false;
}

static bool few_digit(fstate *s, unsigned phase, unsigned char ch)
{
    if (!s->value && ch == '0') {
        s->at.point -= phase == FX_NP_FRAC;
        return s->at.point > -FX_NUM_ZEROS_MAX;
    }
    s->at.point += phase == FX_NP_INT;
    if (ch == '0') {
        s->at.zeros++;
        return s->at.zeros < FX_NUM_ZEROS_MAX && s->at.point < FX_NUM_ZEROS_MAX;
    }
    for (; s->at.zeros && s->value < FEW_MAX; s->at.zeros--)
        s->value *= 10;
    s->at.zeros = 0;
    s->value = s->value * 10 + (uint64_t)(ch - '0');
    return s->value < FEW_MAX && s->at.point < FX_NUM_ZEROS_MAX;
}

static bool few_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    const few *f = user;
    fstate s = unpack_few(state);

    if (!step_place(&s.at, ch))
        return false;
    if (is_mantissa(&s.at, ch) && !few_digit(&s, s.at.phase, ch))
        return false;
    *to = pack_few(s);
    return few_alive(f, &s);
}

static bool few_accepts(const void *user, uint64_t state)
{
    const few *f = user;
    fstate s = unpack_few(state);
    int64_t j = s.at.point + f->s - digits_of(s.value) + (s.at.minus ? -s.at.e : s.at.e);

    if (!fx_num_may_end(s.at.phase))
        return false;
    if (!s.value)
        return f->zero;
    for (; j > 0 && s.value <= f->max; j--)
        s.value *= 10;
    return s.at.neg == f->neg && j == 0 && has_multiple(f, s.value, s.value);
}

static const fx_re_machine few_machine = { few_next, few_accepts, fx_re_first_of_number };

/* A magnitude in units of 10^-s; false: it is no whole number of them, or too large. */
static bool in_units(fx_dec d, int64_t s, uint64_t *out)
{
    int64_t n = d.e + s;

    *out = 0;
    if (!d.n)
        return true;
    if (n > 10 || (int64_t)d.n > n)
        return false;
    for (int64_t i = 0; i < n; i++)
        *out = *out * 10 + (uint64_t)(i < (int64_t)d.n ? d.d[i] - '0' : 0);
    return *out < FEW_MAX;
}

/* The part of one sign, if it is small; FX_RE_FAIL: it isn't. */
fx_re fx_num_few(fx_sc *c, fx_num_side d, bool neg, bool zero, uint64_t p, int64_t s)
{
    few *f;
    uint64_t min = 1, max;

    if (!d.possible && !zero)
        return FX_RE_NONE;
    step_side(c, &d, s);
    if (d.possible && (!d.has_hi || !in_units(d.hi, s, &max) || (d.has_lo && !in_units(d.lo, s, &min))))
        return FX_RE_FAIL;
    if (!(f = fx_re_pool_alloc(c->re, sizeof(*f)))) {
        fx_sc_nomem(c);
        return FX_RE_NONE;
    }
    *f = (few){ .p = p, .min = FX_MAX(min, 1u), .max = d.possible ? max : 0, .s = s, .neg = neg, .zero = zero };
    if (!zero && !has_multiple(f, f->min, f->max))
        return FX_RE_NONE;
    return fx_re_of_machine(c->re, &few_machine, f, pack_few((fstate){ 0 }));
}
