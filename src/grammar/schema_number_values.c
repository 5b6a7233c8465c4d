/* schema_number_values.c - the spellings of given numbers: a machine over the sorted list of their digits. */
#include <stdlib.h>

#include "grammar/schema_number_int.h"

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

    return head | (uint64_t)(s.point + 2048) << 32 | (s.phase >= FX_NP_EXP ? (uint64_t)s.e : (uint64_t)s.zeros) << 45;
}

static vstate unpack_value(uint64_t v)
{
    vstate s = { .phase = v & 15, .neg = v >> 4 & 1, .minus = v >> 5 & 1, .lo = v >> 6 & 0xFFFF, .read = v >> 22 & 0x3FF,
                 .point = (int64_t)(v >> 32 & 0x1FFF) - 2048 };

    if (s.phase >= FX_NP_EXP)
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
    bool whole = s->phase == FX_NP_MINUS || s->phase == FX_NP_INT;

    if (s->phase == FX_NP_ZERO && u->zero && !s->neg)
        return true;
    for (uint32_t i = s->read ? s->lo : 0; i < u->n; i++) {
        const fx_dec *v = &u->sorted[i];
        bool fits = whole ? v->e >= s->point : s->read ? v->e == s->point : v->e <= s->point;

        if (s->read && !begins(v, &u->sorted[s->lo], s->read, 0))
            return false;
        if (v->neg != (bool)s->neg || !fits || (s->phase == FX_NP_POINT && v->e >= (int64_t)v->n))
            continue;
        if (!s->read || begins(v, &u->sorted[s->lo], s->read, s->zeros) || (v->n == s->read && s->phase != FX_NP_FRAC))
            return true;
    }
    return false;
}

/* Values whose digits go on after the zeros read, or that end before them with a fitting exponent. */
static bool value_alive(const values *u, const vstate *s)
{
    bool final = s->phase >= FX_NP_EXP;

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
            && fx_num_exponent_alive(s->phase, s->minus, s->e, v->e - s->point, v->e - s->point))
            return true;
    }
    return false;
}

/* Moves to the values that go on with the zeros read and then ch. */
static bool value_digit(const values *u, vstate *s, unsigned phase, unsigned char ch)
{
    if (!s->read && ch == '0') {
        s->point -= phase == FX_NP_FRAC;
        return s->point > -FX_NUM_ZEROS_MAX;
    }
    s->point += phase == FX_NP_INT;
    if (s->point >= FX_NUM_ZEROS_MAX)
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

    if (!fx_num_next_phase(s.phase, ch, &phase))
        return false;
    s.neg |= phase == FX_NP_MINUS;
    if (phase <= FX_NP_FRAC && ch >= '0' && ch <= '9' && !value_digit(u, &s, phase, ch))
        return false;
    if (phase == FX_NP_EXP)
        s.e = 0;
    if (phase == FX_NP_EXP_SIGN)
        s.minus = ch == '-';
    if (phase == FX_NP_EXP_DIGITS)
        s.e = FX_MIN(s.e * 10 + (ch - '0'), FX_NUM_EXP_MAX * 2);
    s.phase = phase;
    *to = pack_value(s);
    return value_alive(u, &s);
}

static bool values_accept(const void *user, uint64_t state)
{
    const values *u = user;
    vstate s = unpack_value(state);
    int64_t at = s.point + (s.phase >= FX_NP_EXP ? s.minus ? -s.e : s.e : 0);

    if (!fx_num_may_end(s.phase) || (u->plain && s.phase == FX_NP_FRAC && (s.zeros || !s.read)))
        return false;
    if (!s.read)
        return u->zero && !(u->plain && s.neg);
    for (uint32_t i = s.lo; i < u->n && u->sorted[i].n == s.read
                            && begins(&u->sorted[i], &u->sorted[s.lo], s.read, 0); i++)
        if (u->sorted[i].neg == (bool)s.neg && u->sorted[i].e == at)
            return true;
    return false;
}

static const fx_re_machine values_machine = { values_next, values_accept, fx_re_first_of_number };

static int by_digits(const void *pa, const void *pb)
{
    const fx_dec *a = pa, *b = pb;
    int order = memcmp(a->d, b->d, FX_MIN(a->n, b->n));

    if (order || a->n != b->n)
        return order ? order : a->n < b->n ? -1 : 1;
    return (a->e > b->e) - (a->e < b->e);
}

fx_re fx_num_values(fx_sc *c, const fx_dec *list, uint32_t n)
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
        if (list[i].n > VREAD_MAX || list[i].e > FX_NUM_ZEROS_MAX || list[i].e < -FX_NUM_ZEROS_MAX || u->n == 0xFFFF) {
            fx_sc_over(c, "the numbers of an enum");
            return FX_RE_NONE;
        }
        if (!fx_num_keep_digits(c, &sorted[u->n++]))
            return FX_RE_NONE;
    }
    qsort(sorted, u->n, sizeof(*sorted), by_digits);
    u->sorted = sorted;
    u->plain = !c->opt->any_number;
    return fx_re_of_machine(c->re, &values_machine, u, pack_value((vstate){ 0 }));
}
