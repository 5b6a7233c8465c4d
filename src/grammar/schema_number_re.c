/* schema_number_re.c - the spellings of sets of numbers, as languages.
 *
 * Of the plain spelling (no exponent, no needless digits) intervals are expressions over digits and
 * multiples are a machine of remainders.  Of any spelling all three are machines, because an exponent
 * comes after the digits that it moves: they keep how the digits so far compare, and where the point is.
 * The state of a machine is alive: some ending of the number is accepted. */
#include <stdlib.h>

#include "grammar/schema_int.h"

#define EXP_MAX 8000            /* where exponents saturate; larger than any that matters */
#define MAX_PIECES 64           /* of an interval between values that are left out */
#define ZEROS_MAX 1000          /* a spelling with more digits beside the point isn't offered */

/* ---- the syntax, shared by the machines ------------------------------------------------- */

enum { START, MINUS, ZERO, INT, POINT, FRAC, EXP, EXP_SIGN, EXP_DIGITS };

/* The next phase of a JSON number; false: not one. */
static bool next_phase(unsigned phase, unsigned char ch, unsigned *to)
{
    bool digit = ch >= '0' && ch <= '9', e = (ch | 0x20) == 'e';

    switch (phase) {
    case START:
        *to = ch == '-' ? MINUS : ch == '0' ? ZERO : INT;
        return digit || ch == '-';
    case MINUS:
        *to = ch == '0' ? ZERO : INT;
        return digit;
    case ZERO:
        *to = ch == '.' ? POINT : EXP;
        return ch == '.' || e;
    case INT:
        *to = digit ? INT : ch == '.' ? POINT : EXP;
        return digit || ch == '.' || e;
    case POINT:
        *to = FRAC;
        return digit;
    case FRAC:
        *to = digit ? FRAC : EXP;
        return digit || e;
    case EXP:
        *to = digit ? EXP_DIGITS : EXP_SIGN;
        return digit || ch == '+' || ch == '-';
    default:
        *to = EXP_DIGITS;
        return digit;
    }
}

static bool may_end(unsigned phase)
{
    return phase == ZERO || phase == INT || phase == FRAC || phase == EXP_DIGITS;
}

/* Can an exponent whose digits so far say 'e' still become one between lo and hi?  Before the sign
 * (phase EXP) it may be any; 'minus' and e say the rest. */
static bool exponent_alive(unsigned phase, bool minus, int64_t e, int64_t lo, int64_t hi)
{
    if (lo > hi)
        return false;
    if (phase < EXP_SIGN)
        return true;
    if (minus) {
        int64_t t = -lo;

        lo = -hi;
        hi = t;
    }
    if (phase == EXP_SIGN || e == 0)
        return hi >= 0;
    for (int64_t a = e, b = e; a <= EXP_MAX * 10; a *= 10, b = b * 10 + 9)
        if (a <= hi && b >= lo)
            return true;
    return false;
}

static bool syntax_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    unsigned phase;
    bool ok = next_phase((unsigned)state, ch, &phase);

    (void)user;
    *to = phase;
    return ok;
}

static bool syntax_accepts(const void *user, uint64_t state)
{
    (void)user;
    return may_end((unsigned)state);
}

static const fx_re_machine syntax_machine = { syntax_next, syntax_accepts };

/* ---- intervals, any spelling ---------------------------------------------------------------- */

typedef struct side {           /* numbers of one sign, as magnitudes above 0 */
    bool possible, has_lo, has_hi, lo_ex, hi_ex;
    fx_dec lo, hi;
} side;
typedef struct interval {
    side sides[2];              /* positive, negative */
    bool zero;
    bool step;                  /* only multiples of 10^-scale; the bounds are such and not excluded */
    int64_t scale;
} interval;

/* How the digits read compare with a bound's digits: equal so far, below, above. */
enum { SAME, BELOW, ABOVE };
typedef struct istate {
    unsigned phase, neg, nonzero, vs_lo, vs_hi, minus;
    int64_t point;              /* the value is 0.digits * 10^point */
    uint32_t digits, zeros;     /* from the first that isn't zero to the last such, and the zeros after it */
    int64_t e;                  /* from EXP on, instead of the zeros */
} istate;
#define DIGITS_MAX 8000u

static uint64_t pack_interval(istate s)
{
    return (uint64_t)s.phase | (uint64_t)s.neg << 4 | (uint64_t)s.nonzero << 5 | (uint64_t)s.vs_lo << 6
           | (uint64_t)s.vs_hi << 8 | (uint64_t)s.minus << 10 | (uint64_t)(s.point + 8192) << 11
           | (uint64_t)s.digits << 25 | (s.phase >= EXP ? (uint64_t)s.e : s.zeros) << 38;
}

static istate unpack_interval(uint64_t v)
{
    istate s = { .phase = v & 15, .neg = v >> 4 & 1, .nonzero = v >> 5 & 1, .vs_lo = v >> 6 & 3, .vs_hi = v >> 8 & 3,
                 .minus = v >> 10 & 1, .point = (int64_t)(v >> 11 & 0x3FFF) - 8192, .digits = v >> 25 & 0x1FFF };

    if (s.phase >= EXP)
        s.e = (int64_t)(v >> 38);
    else
        s.zeros = (uint32_t)(v >> 38);
    return s;
}

/* The smallest and the largest of point + exponent with which the digits so far, and maybe more of them
 * unless they are 'final', make a number within the bounds. */
static void points(const interval *iv, const istate *s, bool final, int64_t *lo, int64_t *hi)
{
    const side *d = &iv->sides[s->neg];
    unsigned a = s->vs_lo, b = s->vs_hi;
    uint32_t read = s->digits + s->zeros;

    if (final && a == SAME && read < d->lo.n)
        a = BELOW;
    if (final && b == SAME && read < d->hi.n)
        b = BELOW;
    bool at_lo = final ? a == ABOVE || (a == SAME && !d->lo_ex) : a != BELOW;
    bool at_hi = b == BELOW || (b == SAME && (!d->hi_ex || (!final && read < d->hi.n)));
    *lo = d->has_lo ? d->lo.e + !at_lo : -EXP_MAX;
    *hi = d->has_hi ? d->hi.e - !at_hi : EXP_MAX;
    if (iv->step)
        *lo = FX_MAX(*lo, (int64_t)s->digits - iv->scale);
}

static bool interval_alive(const interval *iv, const istate *s)
{
    bool final = s->phase >= EXP;
    int64_t lo, hi;

    if (s->phase == START)
        return true;
    if (!s->nonzero)
        return iv->zero || (!final && iv->sides[s->neg].possible);
    if (!iv->sides[s->neg].possible)
        return false;
    points(iv, s, final, &lo, &hi);
    if (!final)
        return lo <= hi;
    return exponent_alive(s->phase, s->minus, s->e, lo - s->point, hi - s->point);
}

static unsigned compare_digit(unsigned so_far, fx_dec bound, uint32_t read, unsigned char ch)
{
    unsigned char other = read < bound.n ? (unsigned char)bound.d[read] : '0';

    return so_far != SAME || ch == other ? so_far : ch < other ? BELOW : ABOVE;
}

static bool mantissa_digit(const interval *iv, istate *s, unsigned phase, unsigned char ch)
{
    const side *d = &iv->sides[s->neg];
    uint32_t read = s->digits + s->zeros;

    if (!d->has_lo && !d->has_hi && !iv->step) {
        s->nonzero |= ch != '0';
        return true;                /* nothing to compare with: one state */
    }
    if (!s->nonzero && ch == '0') {
        s->point -= phase == FRAC;
        return s->point > -ZEROS_MAX;
    }
    s->nonzero = 1;
    s->point += phase == INT;
    s->vs_lo = d->has_lo ? compare_digit(s->vs_lo, d->lo, read, ch) : SAME;
    s->vs_hi = d->has_hi ? compare_digit(s->vs_hi, d->hi, read, ch) : SAME;
    s->digits = ch == '0' ? s->digits : read + 1;
    s->zeros = ch == '0' ? s->zeros + 1 : 0;
    return read < DIGITS_MAX && s->zeros < ZEROS_MAX && s->point < DIGITS_MAX;
}

static bool interval_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    const interval *iv = user;
    istate s = unpack_interval(state);
    unsigned phase;

    if (!next_phase(s.phase, ch, &phase))
        return false;
    s.neg |= phase == MINUS;
    if (phase <= FRAC && ch >= '0' && ch <= '9' && !mantissa_digit(iv, &s, phase, ch))
        return false;
    if (phase == EXP)
        s.e = s.zeros = 0;
    if (phase == EXP_SIGN)
        s.minus = ch == '-';
    if (phase == EXP_DIGITS)
        s.e = FX_MIN(s.e * 10 + (ch - '0'), EXP_MAX);
    s.phase = phase;
    *to = pack_interval(s);
    return interval_alive(iv, &s);
}

static bool interval_accepts(const void *user, uint64_t state)
{
    const interval *iv = user;
    istate s = unpack_interval(state);
    int64_t lo, hi, at = s.point + (s.minus ? -s.e : s.e);

    if (!may_end(s.phase))
        return false;
    if (!s.nonzero)
        return iv->zero;
    points(iv, &s, true, &lo, &hi);
    return iv->sides[s.neg].possible && at >= lo && (!iv->sides[s.neg].has_hi || at <= hi);
}

static const fx_re_machine interval_machine = { interval_next, interval_accepts };

/* The positive part of an interval. */
static side upper_side(const fx_numrec *r)
{
    side d = { .possible = true };

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

static fx_numrec mirrored(const fx_numrec *r)
{
    return (fx_numrec){ .has_lo = r->has_hi, .has_hi = r->has_lo, .lo = negated(r->hi), .hi = negated(r->lo),
                        .lo_ex = r->hi_ex, .hi_ex = r->lo_ex };
}

static bool holds_zero(const fx_numrec *r)
{
    return !(r->has_lo && (r->lo.n ? !r->lo.neg : r->lo_ex)) && !(r->has_hi && (r->hi.n ? r->hi.neg : r->hi_ex));
}

/* The digits of a bound, where the machine outlives the schema. */
static bool keep_digits(fx_sc *c, fx_dec *d)
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

static void step_side(fx_sc *c, side *d, int64_t scale)
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
static fx_re interval_re(fx_sc *c, const fx_numrec *r, bool step, int64_t scale)
{
    interval *iv = fx_re_pool_alloc(c->re, sizeof(*iv));
    fx_numrec low = mirrored(r);

    if (!iv) {
        fx_sc_nomem(c);
        return FX_RE_NONE;
    }
    *iv = (interval){ { upper_side(r), upper_side(&low) }, holds_zero(r), step, scale };
    for (int k = 0; k < 2; k++) {
        if (step)
            step_side(c, &iv->sides[k], scale);
        if (c->st || (iv->sides[k].has_lo && !keep_digits(c, &iv->sides[k].lo))
            || (iv->sides[k].has_hi && !keep_digits(c, &iv->sides[k].hi)))
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
    int64_t need, e;            /* from EXP on: the exponent has to be that at least */
} mstate;
#define NEVER 8000

static uint64_t pack_multiple(mstate s)
{
    uint64_t head = (uint64_t)s.phase | (uint64_t)s.nonzero << 4 | (uint64_t)s.minus << 5;

    if (s.phase >= EXP)
        return head | (uint64_t)(s.need + 8192) << 6 | (uint64_t)s.e << 21;
    return head | (uint64_t)s.zeros << 6 | (uint64_t)s.after << 18 | s.r << 30;
}

static mstate unpack_multiple(uint64_t v)
{
    mstate s = { .phase = v & 15, .nonzero = v >> 4 & 1, .minus = v >> 5 & 1 };

    if (s.phase >= EXP) {
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
        return -EXP_MAX / 2;
    for (; r && t < 64; t++)
        r = r * 10 % m->p;
    return r ? NEVER : t - ((int64_t)s->zeros - s->after + m->s);
}

static bool multiple_digit(const multiple *m, mstate *s, unsigned phase, unsigned char ch)
{
    s->after += phase == FRAC;
    if (ch == '0') {
        s->zeros += s->nonzero;
        return s->zeros < ZEROS_MAX && s->after < ZEROS_MAX;
    }
    for (; s->zeros; s->zeros--)
        s->r = s->r * 10 % m->p;
    s->r = (s->r * 10 + (uint64_t)(ch - '0')) % m->p;
    s->nonzero = 1;
    return s->after < ZEROS_MAX;
}

static bool multiple_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    const multiple *m = user;
    mstate s = unpack_multiple(state);
    unsigned phase;

    if (!next_phase(s.phase, ch, &phase) || (phase == EXP && m->plain))
        return false;
    if (phase <= FRAC && ch >= '0' && ch <= '9' && !multiple_digit(m, &s, phase, ch))
        return false;
    if (phase == EXP) {
        s.need = exponent_needed(m, &s);
        s.e = 0;
    }
    if (phase == EXP_SIGN)
        s.minus = ch == '-';
    if (phase == EXP_DIGITS)
        s.e = FX_MIN(s.e * 10 + (ch - '0'), EXP_MAX);
    s.phase = phase;
    *to = pack_multiple(s);
    if (phase < EXP)
        return !m->plain || phase < POINT || (phase == POINT ? m->s > 0 : s.after <= m->s);
    return s.need != NEVER && exponent_alive(phase, s.minus, s.e, s.need, EXP_MAX * 20);
}

static bool multiple_accepts(const void *user, uint64_t state)
{
    const multiple *m = user;
    mstate s = unpack_multiple(state);

    if (!may_end(s.phase))
        return false;
    if (s.phase < EXP)
        return exponent_needed(m, &s) <= 0;
    return s.need != NEVER && (s.minus ? -s.e : s.e) >= s.need;
}

static const fx_re_machine multiple_machine = { multiple_next, multiple_accepts };

static fx_re multiple_re(fx_sc *c, uint64_t p, int64_t s, bool plain)
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
    unsigned phase, neg, minus;
    uint64_t value;             /* the digits up to the last that isn't zero */
    int64_t point;
    uint32_t zeros;
    int64_t e;
} fstate;
#define FEW_MAX (1ull << 31)

static uint64_t pack_few(fstate s)
{
    return (uint64_t)s.phase | (uint64_t)s.neg << 4 | (uint64_t)s.minus << 5 | s.value << 6
           | (uint64_t)(s.point + 2048) << 38 | (s.phase >= EXP ? (uint64_t)s.e : s.zeros) << 50;
}

static fstate unpack_few(uint64_t v)
{
    fstate s = { .phase = v & 15, .neg = v >> 4 & 1, .minus = v >> 5 & 1, .value = v >> 6 & 0xFFFFFFFF,
                 .point = (int64_t)(v >> 38 & 0xFFF) - 2048 };

    if (s.phase >= EXP)
        s.e = (int64_t)(v >> 50);
    else
        s.zeros = (uint32_t)(v >> 50);
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
    int64_t base = s->point + f->s - digits_of(s->value);      /* the digits are value * 10^(base + exponent) units */
    uint64_t unit = 1, tail = 1;        /* 10^j, 10^(j - zeros) */

    if (s->phase == START)
        return true;
    if (s->neg != f->neg || !s->value)
        return f->zero || (!s->value && s->neg == f->neg && s->phase < EXP);
    for (int64_t j = 0; s->value * unit <= f->max; j++, unit *= 10) {
        tail = j > (int64_t)s->zeros ? tail * 10 : 1;
        if (s->phase < EXP ? has_multiple(f, s->value * unit, s->value * unit + tail - 1)
                           : has_multiple(f, s->value * unit, s->value * unit)
                                 && exponent_alive(s->phase, s->minus, s->e, j - base, j - base))
            return true;
    }
    return false;
}

static bool few_digit(fstate *s, unsigned phase, unsigned char ch)
{
    if (!s->value && ch == '0') {
        s->point -= phase == FRAC;
        return s->point > -ZEROS_MAX;
    }
    s->point += phase == INT;
    if (ch == '0') {
        s->zeros++;
        return s->zeros < ZEROS_MAX && s->point < ZEROS_MAX;
    }
    for (; s->zeros && s->value < FEW_MAX; s->zeros--)
        s->value *= 10;
    s->zeros = 0;
    s->value = s->value * 10 + (uint64_t)(ch - '0');
    return s->value < FEW_MAX && s->point < ZEROS_MAX;
}

static bool few_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    const few *f = user;
    fstate s = unpack_few(state);
    unsigned phase;

    if (!next_phase(s.phase, ch, &phase))
        return false;
    s.neg |= phase == MINUS;
    if (phase <= FRAC && ch >= '0' && ch <= '9' && !few_digit(&s, phase, ch))
        return false;
    if (phase == EXP)
        s.e = s.zeros = 0;
    if (phase == EXP_SIGN)
        s.minus = ch == '-';
    if (phase == EXP_DIGITS)
        s.e = FX_MIN(s.e * 10 + (ch - '0'), EXP_MAX);
    s.phase = phase;
    *to = pack_few(s);
    return few_alive(f, &s);
}

static bool few_accepts(const void *user, uint64_t state)
{
    const few *f = user;
    fstate s = unpack_few(state);
    int64_t j = s.point + f->s - digits_of(s.value) + (s.minus ? -s.e : s.e);

    if (!may_end(s.phase))
        return false;
    if (!s.value)
        return f->zero;
    for (; j > 0 && s.value <= f->max; j--)
        s.value *= 10;
    return s.neg == f->neg && j == 0 && has_multiple(f, s.value, s.value);
}

static const fx_re_machine few_machine = { few_next, few_accepts };

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
static fx_re few_re(fx_sc *c, side d, bool neg, bool zero, uint64_t p, int64_t s)
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

/* ---- values, any spelling: a trie of digits --------------------------------------------------------- */

typedef struct values {
    const fx_dec *sorted;       /* magnitudes, by digits, then by exponent */
    uint32_t n;
    bool zero, plain;           /* plain: no exponents, no needless zeros */
} values;
typedef struct vstate {         /* the values lo.. whose first 'read' digits are those read */
    unsigned phase, neg, minus;
    uint32_t lo, read, zeros;
    int64_t point, e;
} vstate;
#define VREAD_MAX 1023u

static uint64_t pack_value(vstate s)
{
    uint64_t head = (uint64_t)s.phase | (uint64_t)s.neg << 4 | (uint64_t)s.minus << 5 | (uint64_t)s.lo << 6
                    | (uint64_t)s.read << 22;

    return head | (uint64_t)(s.point + 2048) << 32 | (s.phase >= EXP ? (uint64_t)s.e : (uint64_t)s.zeros) << 45;
}

static vstate unpack_value(uint64_t v)
{
    vstate s = { .phase = v & 15, .neg = v >> 4 & 1, .minus = v >> 5 & 1, .lo = v >> 6 & 0xFFFF, .read = v >> 22 & 0x3FF,
                 .point = (int64_t)(v >> 32 & 0x1FFF) - 2048 };

    if (s.phase >= EXP)
        s.e = (int64_t)(v >> 45);
    else
        s.zeros = (uint32_t)(v >> 45);
    return s;
}

/* Do the digits of v begin with the first 'read' of those of 'like' and then 'zeros' zeros? */
static bool begins(const fx_dec *v, const fx_dec *like, uint32_t read, uint32_t zeros)
{
    if (v->n < read + zeros || memcmp(v->d, like->d, read) != 0)
        return false;
    for (uint32_t i = 0; i < zeros; i++)
        if (v->d[read + i] != '0')
            return false;
    return true;
}

/* The plain spelling: where the point is, or will be, has to fit too. */
static bool plain_alive(const values *u, const vstate *s)
{
    bool whole = s->phase == MINUS || s->phase == INT;

    if (s->phase == ZERO && u->zero && !s->neg)
        return true;
    for (uint32_t i = s->read ? s->lo : 0; i < u->n; i++) {
        const fx_dec *v = &u->sorted[i];
        bool fits = whole ? v->e >= s->point : s->read ? v->e == s->point : v->e <= s->point;

        if (s->read && !begins(v, &u->sorted[s->lo], s->read, 0))
            return false;
        if (v->neg != (bool)s->neg || !fits || (s->phase == POINT && v->e >= (int64_t)v->n))
            continue;
        if (!s->read || begins(v, &u->sorted[s->lo], s->read, s->zeros) || (v->n == s->read && s->phase != FRAC))
            return true;
    }
    return false;
}

/* Values whose digits go on after the zeros read, or that end before them with a fitting exponent. */
static bool value_alive(const values *u, const vstate *s)
{
    bool final = s->phase >= EXP;

    if (u->plain)
        return !final && plain_alive(u, s);
    if (!s->read)
        return u->zero || (!final && u->n > 0);
    for (uint32_t i = s->lo; i < u->n && begins(&u->sorted[i], &u->sorted[s->lo], s->read, 0); i++) {
        const fx_dec *v = &u->sorted[i];

        if (v->neg != (bool)s->neg)
            continue;
        if (!final && (v->n == s->read || begins(v, &u->sorted[s->lo], s->read, s->zeros)))
            return true;
        if (final && v->n == s->read
            && exponent_alive(s->phase, s->minus, s->e, v->e - s->point, v->e - s->point))
            return true;
    }
    return false;
}

/* Moves to the values that go on with the zeros read and then ch. */
static bool value_digit(const values *u, vstate *s, unsigned phase, unsigned char ch)
{
    if (!s->read && ch == '0') {
        s->point -= phase == FRAC;
        return s->point > -ZEROS_MAX;
    }
    s->point += phase == INT;
    if (s->point >= ZEROS_MAX)
        return false;
    if (ch == '0') {
        s->zeros++;
        return s->zeros < VREAD_MAX;
    }
    for (uint32_t i = s->read ? s->lo : 0; i < u->n; i++) {
        const fx_dec *v = &u->sorted[i];

        if (s->read && !begins(v, &u->sorted[s->lo], s->read, 0))
            return false;
        if (v->n > s->read + s->zeros && v->d[s->read + s->zeros] == (char)ch
            && (!s->read || begins(v, &u->sorted[s->lo], s->read, s->zeros))) {
            s->lo = i;
            s->read += s->zeros + 1;
            s->zeros = 0;
            return true;
        }
    }
    return false;
}

static bool values_next(const void *user, uint64_t state, unsigned char ch, uint64_t *to)
{
    const values *u = user;
    vstate s = unpack_value(state);
    unsigned phase;

    if (!next_phase(s.phase, ch, &phase))
        return false;
    s.neg |= phase == MINUS;
    if (phase <= FRAC && ch >= '0' && ch <= '9' && !value_digit(u, &s, phase, ch))
        return false;
    if (phase == EXP)
        s.e = 0;
    if (phase == EXP_SIGN)
        s.minus = ch == '-';
    if (phase == EXP_DIGITS)
        s.e = FX_MIN(s.e * 10 + (ch - '0'), EXP_MAX * 2);
    s.phase = phase;
    *to = pack_value(s);
    return value_alive(u, &s);
}

static bool values_accept(const void *user, uint64_t state)
{
    const values *u = user;
    vstate s = unpack_value(state);
    int64_t at = s.point + (s.phase >= EXP ? s.minus ? -s.e : s.e : 0);

    if (!may_end(s.phase) || (u->plain && s.phase == FRAC && (s.zeros || !s.read)))
        return false;
    if (!s.read)
        return u->zero && !(u->plain && s.neg);
    for (uint32_t i = s.lo; i < u->n && u->sorted[i].n == s.read
                            && begins(&u->sorted[i], &u->sorted[s.lo], s.read, 0); i++)
        if (u->sorted[i].neg == (bool)s.neg && u->sorted[i].e == at)
            return true;
    return false;
}

static const fx_re_machine values_machine = { values_next, values_accept };

static int by_digits(const void *pa, const void *pb)
{
    const fx_dec *a = pa, *b = pb;
    int order = memcmp(a->d, b->d, FX_MIN(a->n, b->n));

    if (order || a->n != b->n)
        return order ? order : a->n < b->n ? -1 : 1;
    return (a->e > b->e) - (a->e < b->e);
}

static fx_re values_re(fx_sc *c, const fx_dec *list, uint32_t n)
{
    values *u = fx_re_pool_alloc(c->re, sizeof(*u));
    fx_dec *sorted = fx_re_pool_alloc(c->re, (n + 1u) * sizeof(*sorted));

    if (!u || !sorted) {
        fx_sc_nomem(c);
        return FX_RE_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        u->zero |= list[i].n == 0;
        if (!list[i].n)
            continue;
        sorted[u->n] = list[i];
        if (list[i].n > VREAD_MAX || list[i].e > ZEROS_MAX || list[i].e < -ZEROS_MAX || u->n == 0xFFFF) {
            fx_sc_over(c, "the numbers of an enum");
            return FX_RE_NONE;
        }
        if (!keep_digits(c, &sorted[u->n++]))
            return FX_RE_NONE;
    }
    qsort(sorted, u->n, sizeof(*sorted), by_digits);
    u->sorted = sorted;
    u->plain = !c->opt->any_number;
    return fx_re_of_machine(c->re, &values_machine, u, pack_value((vstate){ 0 }));
}

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

static fx_re plain_side(plain *p, const side *d, bool zero)
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

static fx_re plain_syntax(fx_sc *c, bool integer)
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

/* ---- a set ----------------------------------------------------------------------------------------------- */

static fx_re plain_interval(fx_sc *c, const fx_numrec *r, bool integer)
{
    fx_re_pool *re = c->re;
    plain p = { .c = c, .integer = integer };
    fx_numrec low = mirrored(r);
    side up = upper_side(r), down = upper_side(&low);
    fx_re frac = fx_re_cat(re, fx_re_literal(re, FX_STR(".")),
                           fx_re_cat(re, some_digits(c, 0, FX_RE_INF), digit_range(c, 1, 9)));
    fx_re out;

    if (!r->has_lo && !r->has_hi)
        return plain_syntax(c, integer);
    p.frac_any = integer ? FX_RE_EMPTY : fx_re_repeat(re, frac, 0, 1);
    out = plain_side(&p, &up, holds_zero(r));
    out = fx_re_alt(re, out, fx_re_cat(re, fx_re_literal(re, FX_STR("-")), plain_side(&p, &down, false)));
    return integer ? out : fx_re_and(re, out, plain_syntax(c, false));
}

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
    fx_numrec low = mirrored(r), part;
    fx_dec zero = { false, 0, "", 0 };
    fx_re re = FX_RE_NONE;

    if (!r->has_lo && !r->has_hi)
        return multiple_re(c, p, s, false);
    if (p == 1)
        return interval_re(c, r, true, s);
    for (int neg = 0; neg < 2 && !c->st; neg++) {
        fx_re one = few_re(c, upper_side(neg ? &low : r), neg, !neg && holds_zero(r), p, s);

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
            one = fx_re_and(c->re, interval_re(c, &part, true, s), multiple_re(c, p, s, false));
        }
        re = fx_re_alt(c->re, re, one);
    }
    return re;
}

/* JSON's integers as their spelling says. */
static fx_re whole_syntax(fx_sc *c)
{
    fx_re zero = fx_re_literal(c->re, FX_STR("0")), minus = fx_re_repeat(c->re, fx_re_literal(c->re, FX_STR("-")), 0, 1);

    return fx_re_cat(c->re, minus, fx_re_alt(c->re, zero, fx_re_cat(c->re, digit_range(c, 1, 9),
                                                                    some_digits(c, 0, FX_RE_INF))));
}

/* Draft 4: without a point or an exponent. */
static fx_re whole_integers(fx_sc *c, const fx_numrec *r, uint64_t p, int64_t s)
{
    fx_re re = r->has_lo || r->has_hi ? plain_interval(c, r, true) : whole_syntax(c);

    if (holds_zero(r))
        re = fx_re_alt(c->re, re, fx_re_literal(c->re, FX_STR("-0")));
    return p == 1 && s == 0 ? re : fx_re_and(c->re, re, multiple_re(c, p, s, true));
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
        re = r->has_lo || r->has_hi ? interval_re(c, r, false, 0)
                                    : fx_re_of_machine(c->re, &syntax_machine, NULL, START);
    else
        re = plain_interval(c, r, integer);
    if (!any && r->n_mult && (p != 1 || s != 0))
        re = fx_re_and(c->re, re, multiple_re(c, p, s, true));
    for (uint32_t i = 0; i < r->n_nmult && fx_dec_ratio(r->nmult[i], &p, &s); i++)
        re = fx_re_and(c->re, re, fx_re_not(c->re, any || p != 1 || s != 0 ? multiple_re(c, p, s, !any)
                                                                            : plain_syntax(c, true)));
    if (r->n_ex)
        re = fx_re_and(c->re, re, fx_re_not(c->re, values_re(c, r->ex, r->n_ex)));
    return re;
}

fx_re fx_snum_re(fx_sc *c, fx_snum s)
{
    fx_re re = s.n_fin ? values_re(c, s.fin, s.n_fin) : FX_RE_NONE;

    for (uint32_t i = 0; i < s.n_recs && !c->st; i++)
        re = fx_re_alt(c->re, re, record_re(c, &s.recs[i]));
    return re;
}
