/* kir_pow.c - pow as arithmetic of kir: exp(y log|x|), and C's many special cases.
 *
 * Of f32 it is computed in f64.  Of f64 the logarithm is a sum of two numbers, good for about 65 bits, since an
 * error in it counts y log|x| times: up to 745. */
#include <math.h>

#include "kir/kir_math.h"

#define NUM(x) fx_kmath_num(e, x)

/* (log((1+s)/(1-s)) - 2s - 2s^3/3) / s^5 in s^2, (1+s)/(1-s) from sqrt(1/2) to sqrt(2); of s: 9.67e-25 */
static const double atanh64[] = {
    0x1.999999999999ap-2, 0x1.249249249246fp-2, 0x1.c71c71c722802p-3, 0x1.745d17417961ep-3, 0x1.3b13b313be3p-3,
    0x1.111093de11a3ap-3, 0x1.e20b9e4d02b88p-4, 0x1.aae9cc12024cep-4, 0x1.c32bbd0474698p-4,
};

/* a + b is *hi + *lo, for |a| >= |b| or a = 0. */
static void add_exactly(const fx_kmath *e, fx_kop *a, fx_kop *b, fx_kop **hi, fx_kop **lo)
{
    *hi = k_add(e, a, b);
    *lo = k_sub(e, b, k_sub(e, *hi, a));
}

/* x * y is *hi + *lo. */
static void mul_exactly(const fx_kmath *e, fx_kop *x, fx_kop *y, fx_kop **hi, fx_kop **lo)
{
    *hi = k_mul(e, x, y);
    *lo = k_fma(e, x, y, k_neg(e, *hi));
}

/* s = t / (2 + t) as two numbers. */
static void quotient(const fx_kmath *e, fx_kop *t, fx_kop **s, fx_kop **s_lo)
{
    fx_kop *d, *d_lo, *left;

    add_exactly(e, NUM(2), t, &d, &d_lo);
    *s = k_div(e, t, d);
    left = k_fma(e, k_neg(e, *s), d, t);
    *s_lo = k_div(e, k_fma(e, k_neg(e, *s), d_lo, left), d);
}

/* 2/3 s^3 as two numbers, and the rest of log((1+s)/(1-s)) - 2s added to the second. */
static void cubic(const fx_kmath *e, fx_kop *s, fx_kop *s_lo, fx_kop **y, fx_kop **y_lo)
{
    fx_kop *z, *z_lo, *c, *c_lo, *third = NUM(0x1.5555555555555p-1);

    mul_exactly(e, s, s, &z, &z_lo);
    z_lo = k_fma(e, k_add(e, s, s), s_lo, z_lo);
    mul_exactly(e, z, s, &c, &c_lo);
    c_lo = k_fma(e, z_lo, s, k_fma(e, z, s_lo, c_lo));
    mul_exactly(e, c, third, y, y_lo);
    *y_lo = k_fma(e, c_lo, third, k_fma(e, c, NUM(0x1.5555555555555p-55), *y_lo));
    *y_lo = k_fma(e, k_mul(e, c, z), fx_kmath_poly(e, atanh64, FX_COUNT(atanh64), z), *y_lo);
}

/* log(x) of f64 as two numbers, for x > 0. */
static void log_exactly(const fx_kmath *e, fx_kop *x, fx_kop **hi, fx_kop **lo)
{
    fx_kop *m, *k, *s, *s_lo, *y, *y_lo, *a, *a_lo, *b, *b_lo;

    fx_kmath_split(e, x, &m, &k);
    quotient(e, k_sub(e, m, NUM(1)), &s, &s_lo);
    cubic(e, s, s_lo, &y, &y_lo);
    add_exactly(e, k_mul(e, k, NUM(e->kind->ln2_short)), k_add(e, s, s), &a, &a_lo);
    add_exactly(e, a, y, &b, &b_lo);
    *lo = k_fma(e, k, NUM(e->kind->ln2_short_rest), k_add(e, y_lo, k_add(e, a_lo, b_lo)));
    *lo = k_add(e, *lo, k_add(e, s_lo, s_lo));
    add_exactly(e, b, *lo, hi, lo);
}

/* |x| ^ y for |x| that is a number above 0. */
static fx_kop *power64(const fx_kmath *e, fx_kop *a, fx_kop *y)
{
    fx_kop *hi, *lo, *p, *p_lo, *small;

    log_exactly(e, a, &hi, &lo);
    hi = k_select(e, k_eq(e, a, NUM(0)), NUM(-HUGE_VAL), hi);
    hi = k_select(e, k_lt(e, a, NUM(HUGE_VAL)), hi, a);
    mul_exactly(e, y, hi, &p, &p_lo);
    p_lo = k_fma(e, y, lo, p_lo);
    small = k_lt(e, k_abs(e, p), NUM(2000));         /* else 0 or infinity, and nothing to add */
    return fx_kmath_exp(e, p, k_select(e, small, p_lo, NUM(0)));
}

static fx_kop *power32(const fx_kmath *e, fx_kop *a, fx_kop *y)
{
    fx_kmath wide = fx_kmath_of(e->m, fx_ktype_of(FX_F64, e->t.lanes));
    fx_kop *l = fx_kmath_log(&wide, fx_kir_convert(e->m, a, FX_F64));

    return fx_kir_convert(e->m, fx_kmath_exp(&wide, k_mul(&wide, fx_kir_convert(e->m, y, FX_F64), l), NULL), FX_F32);
}

fx_kop *fx_kmath_pow(const fx_kmath *e, fx_kop *const *in)
{
    fx_kop *x = in[0], *y = in[1], *a = k_abs(e, x), *zero = NUM(0), *one = NUM(1), *r, *half, *whole, *odd, *always_1, *nan;

    r = (e->kind->t == FX_F32 ? power32 : power64)(e, a, y);
    r = k_select(e, k_and(e, k_eq(e, a, one), k_eq(e, y, y)), one, r);
    whole = k_eq(e, k_trunc(e, y), y);
    half = k_mul(e, y, NUM(0.5));
    odd = k_and(e, whole, k_ne(e, k_trunc(e, half), half));
    r = k_select(e, odd, k_copysign(e, r, x), r);
    nan = k_and(e, k_and(e, k_lt(e, x, zero), k_lt(e, NUM(-HUGE_VAL), x)), k_eq(e, whole, k_lt(e, one, zero)));
    r = k_select(e, nan, NUM(NAN), r);
    always_1 = k_or(e, k_eq(e, x, one), k_eq(e, y, zero));
    return k_select(e, always_1, one, r);
}
