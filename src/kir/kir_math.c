/* kir_math.c - exp, log and their kin as arithmetic of kir, so that they have the same bits wherever they run.
 *
 * Branch-free, the same for any number of lanes.  The polynomials are our own fits (Remez' exchange, weighted to the relative
 * error of the result, coefficients then rounded); each states the error of the fit alone.  Errors of the functions in ulp,
 * held to by tests/unit/test_kir_math.c over samples (exp and exp2 of f32 were measured over all arguments,
 * the others of f32 over one in a thousand):
 *
 *            f32    f64
 *     exp    1      1          sin, cos   2      2, for |x| up to 2^38; beyond, f64 is in [-1, 1] and no more is said
 *     exp2   1      1          acos       1.5    1.5
 *     log    1      1          tanh       2.5    2.5
 *     log1p  1.5    1.5        atanh      2.5    2.5
 *     erf    1.5    1.5        pow        1      1.5
 *
 * Special values are those of C. */
#include <math.h>

#include "kir/kir_math.h"

/* ---- Fits ------------------------------------------------------------------------------------------- */

/* (exp(r) - 1 - r) / r^2, |r| <= ln 2 / 2; of exp(r): 3.06e-9 */
static const double exp32[] = {
    0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.1239f2p-7, 0x1.6a2414p-10,
};

/* (exp(r) - 1 - r) / r^2, |r| <= ln 2 / 2; of exp(r): 5.32e-20 */
static const double exp64[] = {
    0x1p-1, 0x1.555555555555bp-3, 0x1.5555555555503p-5, 0x1.111111110ec56p-7, 0x1.6c16c16c304e7p-10,
    0x1.a01a01b38124bp-13, 0x1.a01a01367c99fp-16, 0x1.71ddf0194ba12p-19, 0x1.27e5b45f93f5bp-22, 0x1.af6bf54a9c3b3p-26,
    0x1.1e3d19a5d74fp-29,
};

/* (2^r - 1) / r, |r| <= 1/2; of 2^r: 1.97e-9 */
static const double exp2_32[] = {
    0x1.62e43p-1, 0x1.ebfbdcp-3, 0x1.c6aee8p-5, 0x1.3b2d4cp-7, 0x1.5f3e54p-10, 0x1.41fbbep-13,
};

/* (2^r - 1) / r, |r| <= 1/2; of 2^r: 4.22e-20 */
static const double exp2_64[] = {
    0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58fp-3, 0x1.c6b08d704a0cfp-5, 0x1.3b2ab6fba4e22p-7, 0x1.5d87fe78a26cap-10,
    0x1.430912f883ce7p-13, 0x1.ffcbfc74d5e6cp-17, 0x1.62c021e2720bfp-20, 0x1.b524dd55983a4p-24, 0x1.e4d06c68aa999p-28,
    0x1.ea014e773c88ep-32, 0x1.c2cea76e10801p-36,
};

/* (log(1+f) - f + f^2/2) / f^3, sqrt(1/2) <= 1+f <= sqrt(2); of f: 5.88e-9 */
static const double log32[] = {
    0x1.55554ap-2, -0x1.00022p-2, 0x1.99a596p-3, -0x1.54788cp-3, 0x1.226e4cp-3, -0x1.0ce072p-3, 0x1.07d0eap-3,
    -0x1.41ee1ap-4,
};

/* (log(1+f) - f + f^2/2) / f^3, sqrt(1/2) <= 1+f <= sqrt(2); of f: 1.41e-18 */
static const double log64[] = {
    0x1.555555555556ep-2, -0x1.ffffffffffeeep-3, 0x1.99999999944efp-3, -0x1.5555555563914p-3, 0x1.249249279765cp-3,
    -0x1.fffffff99771p-4, 0x1.c71c7018f1737p-4, -0x1.9999996ece2f4p-4, 0x1.745d5a7b17496p-4, -0x1.555599da92b0ep-4,
    0x1.3b0d78319c67p-4, -0x1.2486ea64fe21fp-4, 0x1.1167ae5e54d59p-4, -0x1.00e7470a16bfdp-4, 0x1.dced59aa35b6cp-5,
    -0x1.b377637e25e1ap-5, 0x1.b91df7ca4c6d6p-5, -0x1.017822a5a59cbp-4, 0x1.da19cc8f3b0b2p-5, -0x1.99268525512bp-6,
};

/* (sin(r) - r) / r^3 in r^2, |r| <= pi/4; of r: 4.9e-12 */
static const double sin32[] = {
    -0x1.555556p-3, 0x1.111108p-7, -0x1.a00f9cp-13, 0x1.6cd7d8p-19,
};

/* (sin(r) - r) / r^3 in r^2, |r| <= pi/4; of r: 1.94e-21 */
static const double sin64[] = {
    -0x1.5555555555555p-3, 0x1.111111111110bp-7, -0x1.a01a01a018adcp-13, 0x1.71de3a5338c7ap-19, -0x1.ae6452976291p-26,
    0x1.612092205df25p-33, -0x1.aaa4fadb3911ap-41,
};

/* (cos(r) - 1 + r^2/2) / r^4 in r^2: 9.93e-14 */
static const double cos32[] = {
    0x1.555556p-5, -0x1.6c16b8p-10, 0x1.a0111ep-16, -0x1.242a74p-22,
};

/* (cos(r) - 1 + r^2/2) / r^4 in r^2: 2.25e-23 */
static const double cos64[] = {
    0x1.5555555555555p-5, -0x1.6c16c16c16c1p-10, 0x1.a01a01a018de2p-16, -0x1.27e4fb75fcf5ap-22, 0x1.1eed8ca317f2cp-29,
    -0x1.9393379aa386dp-37, 0x1.aac56101fdd7bp-45,
};

/* (asin(s) - s) / s^3 in s^2, |s| <= 1/2; of s: 4.97e-9 */
static const double asin32[] = {
    0x1.5555cap-3, 0x1.33014ep-4, 0x1.748c64p-5, 0x1.8ba266p-6, 0x1.59dabep-5,
};

/* (asin(s) - s) / s^3 in s^2, |s| <= 1/2; of s: 9.77e-19 */
static const double asin64[] = {
    0x1.5555555555578p-3, 0x1.333333332df7ep-4, 0x1.6db6db72260f8p-5, 0x1.f1c71a8dc1835p-6, 0x1.6e8bdfa6aa0ccp-6,
    0x1.1c49e2b6890ffp-6, 0x1.ca20ce94b82e5p-7, 0x1.757b75574014ep-7, 0x1.617410201afeep-7, 0x1.e2bcc81771ep-9,
    0x1.64933f8048b81p-6, -0x1.5955573890524p-6, 0x1.0bb0a7f5d1785p-5,
};

/* erf(x) / x - 1 in x^2, |x| <= 1: 3.24e-11 */
static const double erf32[] = {
    0x1.06eba8p-3, -0x1.812746p-2, 0x1.ce2f0ap-4, -0x1.b829d8p-6, 0x1.562b1ap-8, -0x1.bcd7ep-11, 0x1.d8b892p-14,
    -0x1.44cfc6p-17,
};

/* erf(x) / x - 1 in x^2, |x| <= 1: 4.77e-25 */
static const double erf64[] = {
    0x1.06eba8214db69p-3, -0x1.812746b0379e7p-2, 0x1.ce2f21a042be2p-4, -0x1.b82ce31288b51p-6, 0x1.565bcd0e6a531p-8,
    -0x1.c02db400406b4p-11, 0x1.f9a326f9a7ab3p-14, -0x1.f4d25c3b796dap-17, 0x1.b9e6c994ebe1ap-20,
    -0x1.5f74291e1cfefp-23, 0x1.fcc4c9eb16116p-27, -0x1.51cfe8a9bd4cp-30, 0x1.9df864e288ce7p-34,
    -0x1.d3362338d3421p-38, 0x1.cfa0afe184298p-42, -0x1.3ac4cec2b1646p-46,
};

/* log(erfc(t)), 1 <= t <= 4; of erf(t): 1.69e-11 */
static const double erfc32[] = {
    0x1.a7c2dcp-13, -0x1.2130b4p+0, -0x1.442132p-1, -0x1.bcda46p-4, 0x1.9f511ap-6, -0x1.17e16ap-8, 0x1.e2b88ep-12,
    -0x1.9f4f5p-16, 0x1.c77b46p-23,
};

/* ... 1 <= t <= 6: 5.56e-21 */
static const double erfc64[] = {
    0x1.2c5b992cb02d2p-25, -0x1.20dd7c48cc5fcp+0, -0x1.45f2b18934b27p-1, -0x1.a4fec068e4038p-4, 0x1.39cdd529ff05ap-6,
    0x1.50f467444aabap-13, -0x1.a912ee5f6153dp-10, 0x1.052ccc415c0ccp-11, 0x1.1578f50351ec1p-14,
    -0x1.2576ee62d6cc8p-13, 0x1.5178556358ad1p-14, -0x1.05a2bbe93902cp-15, 0x1.36f23d46ef92ep-17,
    -0x1.26991d5c41e03p-19, 0x1.c1d2ea2e506a6p-22, -0x1.13c4cabf4f6ebp-24, 0x1.0bbf359caebf9p-27,
    -0x1.918bf00ce3daap-31, 0x1.bec4bbd6f3cfcp-35, -0x1.590cbbd2e732ap-39, 0x1.471bac3c32244p-44,
    -0x1.1a5a77f63cb16p-50,
};

static const fx_kmath_kind kinds[] = {
    { FX_F32, FX_I32, 23, 127, 64, 0x1.8p23, 0x1.62e43p-1, -0x1.05c61p-29, 0x1.62e4p-1, 0x1.7f7d1cp-20, -104, 89, -151, 129, 9.5, 4,
      0x1.921fb6p0, -0x1.777a5cp-25, exp32, exp2_32, log32, sin32, cos32, asin32, erf32, erfc32, FX_COUNT(exp32), FX_COUNT(exp2_32),
      FX_COUNT(log32), FX_COUNT(sin32), FX_COUNT(cos32), FX_COUNT(asin32), FX_COUNT(erf32), FX_COUNT(erfc32) },
    { FX_F64, FX_I64, 52, 1023, 512, 0x1.8p52, 0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56, 0x1.62e42fefa38p-1, 0x1.ef35793c7673p-45,
      -746, 710, -1076, 1025, 20, 6, 0x1.921fb54442d18p0, 0x1.1a62633145c07p-54, exp64, exp2_64, log64, sin64, cos64, asin64, erf64,
      erfc64, FX_COUNT(exp64), FX_COUNT(exp2_64), FX_COUNT(log64), FX_COUNT(sin64), FX_COUNT(cos64), FX_COUNT(asin64),
      FX_COUNT(erf64), FX_COUNT(erfc64) },
};

/* ---- Making ops -------------------------------------------------------------------------------------- */

fx_kmath fx_kmath_of(fx_kir_module *m, fx_ktype t) { return (fx_kmath){ m, t, &kinds[t.t == FX_F64] }; }
fx_kop *fx_kmath_num(const fx_kmath *e, double x) { return fx_kir_float(e->m, e->t, x); }
fx_kop *fx_kmath_int(const fx_kmath *e, int64_t x) { return fx_kir_int(e->m, fx_ktype_of(e->kind->bits, e->t.lanes), x); }
fx_kop *fx_kmath_bits(const fx_kmath *e, fx_kop *x) { return fx_kir_bitcast(e->m, x, fx_ktype_of(e->kind->bits, e->t.lanes)); }
fx_kop *fx_kmath_float(const fx_kmath *e, fx_kop *bits) { return fx_kir_bitcast(e->m, bits, e->t); }

#define NUM(x) fx_kmath_num(e, x)
#define INT(x) fx_kmath_int(e, x)

fx_kop *fx_kmath_poly(const fx_kmath *e, const double *c, int n, fx_kop *x)
{
    fx_kop *p = NUM(c[n - 1]);

    for (int i = n - 2; i >= 0; i--)
        p = k_fma(e, p, x, NUM(c[i]));
    return p;
}

fx_kop *fx_kmath_at_most(const fx_kmath *e, fx_kop *x, double limit)
{
    fx_kop *k = NUM(limit);

    return k_select(e, k_lt(e, k, x), k, x);
}

static fx_kop *at_least(const fx_kmath *e, fx_kop *x, double limit)
{
    fx_kop *k = NUM(limit);

    return k_select(e, k_lt(e, x, k), k, x);
}

/* ---- Powers ------------------------------------------------------------------------------------------------ */

/* 2^(n + more), n being the integer in the low bits of z. */
static fx_kop *power_of_2(const fx_kmath *e, fx_kop *z, fx_kop *more)
{
    fx_kop *n = k_shl(e, fx_kmath_bits(e, z), INT(e->kind->mantissa));

    return fx_kmath_float(e, k_add(e, n, more));
}

static int64_t exponent(const fx_kmath *e, int64_t n) { return (e->kind->bias + n) << e->kind->mantissa; }

/* p * 2^n, n in the low bits of z, also where 2^n is no number: in two steps, of which the second rounds. */
static fx_kop *scale(const fx_kmath *e, fx_kop *p, fx_kop *z)
{
    int64_t half = e->kind->half;
    fx_kop *small = k_lt(e, z, NUM(e->kind->magic));
    fx_kop *one = power_of_2(e, z, k_select(e, small, INT(exponent(e, half)), INT(exponent(e, -half))));
    fx_kop *two = k_select(e, small, NUM(ldexp(1, (int)-half)), NUM(ldexp(1, (int)half)));

    return k_mul(e, k_mul(e, p, one), two);
}

/* r = x - n ln 2, for the integer n nearest to x / ln 2; returns what holds n in its low bits. */
static fx_kop *reduce(const fx_kmath *e, fx_kop *x, fx_kop **r)
{
    fx_kop *z = k_fma(e, x, NUM(0x1.71547652b82fep0), NUM(e->kind->magic)), *n = k_sub(e, z, NUM(e->kind->magic));

    *r = k_fma(e, n, NUM(-e->kind->ln2), x);
    *r = k_fma(e, n, NUM(-e->kind->ln2_rest), *r);
    return z;
}

static fx_kop *exp_poly(const fx_kmath *e, fx_kop *r)
{
    fx_kop *q = fx_kmath_poly(e, e->kind->exp, e->kind->n_exp, r), *one = NUM(1);

    return k_fma(e, k_fma(e, q, r, one), r, one);
}

fx_kop *fx_kmath_exp(const fx_kmath *e, fx_kop *x, fx_kop *rest)
{
    fx_kop *r, *z;

    x = at_least(e, fx_kmath_at_most(e, x, e->kind->most), e->kind->least);
    z = reduce(e, x, &r);
    if (rest)
        r = k_add(e, r, rest);
    return scale(e, exp_poly(e, r), z);
}

static fx_kop *make_exp(const fx_kmath *e, fx_kop *const *in) { return fx_kmath_exp(e, in[0], NULL); }

static fx_kop *make_exp2(const fx_kmath *e, fx_kop *const *in)
{
    fx_kop *x = at_least(e, fx_kmath_at_most(e, in[0], e->kind->most2), e->kind->least2);
    fx_kop *z = k_add(e, x, NUM(e->kind->magic)), *r = k_sub(e, x, k_sub(e, z, NUM(e->kind->magic)));
    fx_kop *q = fx_kmath_poly(e, e->kind->exp2, e->kind->n_exp2, r);

    return scale(e, k_fma(e, q, r, NUM(1)), z);
}

/* u / (u + 2) with u = exp(2|x|) - 1. */
static fx_kop *make_tanh(const fx_kmath *e, fx_kop *const *in)
{
    fx_kop *a = fx_kmath_at_most(e, k_abs(e, in[0]), e->kind->tanh_1), *r, *z = reduce(e, k_add(e, a, a), &r);
    fx_kop *q = fx_kmath_poly(e, e->kind->exp, e->kind->n_exp, r), *s = power_of_2(e, z, INT(exponent(e, 0))), *u;

    q = k_fma(e, k_mul(e, r, r), q, r);
    u = k_fma(e, s, q, k_sub(e, s, NUM(1)));
    return k_copysign(e, k_div(e, u, k_add(e, u, NUM(2))), in[0]);
}

/* x + x * p(x^2) below 1, then 1 - erfc(x), whose logarithm is a polynomial. */
static fx_kop *make_erf(const fx_kmath *e, fx_kop *const *in)
{
    fx_kop *x = in[0], *a = k_abs(e, x), *t = fx_kmath_at_most(e, a, e->kind->erf_1), *r, *z, *near, *far;

    near = k_fma(e, x, fx_kmath_poly(e, e->kind->erf, e->kind->n_erf, k_mul(e, x, x)), x);
    z = reduce(e, fx_kmath_poly(e, e->kind->erfc, e->kind->n_erfc, t), &r);
    far = k_mul(e, exp_poly(e, r), power_of_2(e, z, INT(exponent(e, 0))));
    far = k_copysign(e, k_sub(e, NUM(1), far), x);
    return k_select(e, k_lt(e, a, NUM(1)), near, far);
}

/* ---- Logarithms ---------------------------------------------------------------------------------------------- */

/* The exponent that takes bits of a positive number into [sqrt(1/2), sqrt(2)). */
static fx_kop *exponent_of(const fx_kmath *e, fx_kop *bits)
{
    int64_t root = e->kind->t == FX_F32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;

    return k_shr(e, k_sub(e, bits, INT(root)), INT(e->kind->mantissa));
}

static fx_kop *int_to_float(const fx_kmath *e, fx_kop *n)
{
    int64_t magic = e->kind->t == FX_F32 ? 0x4b400000 : 0x4338000000000000;

    return k_sub(e, fx_kmath_float(e, k_add(e, n, INT(magic))), NUM(e->kind->magic));
}

void fx_kmath_split(const fx_kmath *e, fx_kop *x, fx_kop **m, fx_kop **k)
{
    int up = e->kind->mantissa + 2;
    fx_kop *tiny = k_lt(e, x, NUM(ldexp(1, (int)(1 - e->kind->bias)))), *bits, *n;

    x = k_select(e, tiny, k_mul(e, x, NUM(ldexp(1, up))), x);
    bits = fx_kmath_bits(e, x);
    n = exponent_of(e, bits);
    *m = fx_kmath_float(e, k_sub(e, bits, k_shl(e, n, INT(e->kind->mantissa))));
    *k = int_to_float(e, k_add(e, n, k_select(e, tiny, INT(-up), INT(0))));
}

/* log(1 + f) + k ln 2. */
static fx_kop *log_poly(const fx_kmath *e, fx_kop *f, fx_kop *k)
{
    fx_kop *f2 = k_mul(e, f, f), *q = fx_kmath_poly(e, e->kind->log, e->kind->n_log, f), *y;

    y = k_fma(e, k_mul(e, f2, f), q, k_mul(e, f2, NUM(-0.5)));
    y = k_fma(e, k, NUM(e->kind->ln2_short_rest), y);
    return k_fma(e, k, NUM(e->kind->ln2_short), k_add(e, f, y));
}

/* r where x lies between 'zero' and infinity; -infinity at zero, NaN below, else x. */
static fx_kop *log_specials(const fx_kmath *e, fx_kop *x, fx_kop *zero, fx_kop *r)
{
    fx_kop *above = k_select(e, k_lt(e, x, NUM(HUGE_VAL)), r, x);

    return k_select(e, k_lt(e, zero, x), above, k_select(e, k_eq(e, x, zero), NUM(-HUGE_VAL), NUM(NAN)));
}

fx_kop *fx_kmath_log(const fx_kmath *e, fx_kop *x)
{
    fx_kop *m, *k;

    fx_kmath_split(e, x, &m, &k);
    return log_specials(e, x, NUM(0), log_poly(e, k_sub(e, m, NUM(1)), k));
}

static fx_kop *make_log(const fx_kmath *e, fx_kop *const *in) { return fx_kmath_log(e, in[0]); }

/* log of u = 1 + x rounded, corrected by what the rounding took. */
static fx_kop *log1p_of(const fx_kmath *e, fx_kop *x)
{
    fx_kop *one = NUM(1), *u = k_add(e, one, x), *bits = fx_kmath_bits(e, u), *n = exponent_of(e, bits), *f, *rest, *big;
    fx_kop *shifted = k_shl(e, n, INT(e->kind->mantissa)), *down, *r;

    big = k_lt(e, one, x);
    rest = k_select(e, big, k_sub(e, one, k_sub(e, u, x)), k_sub(e, x, k_sub(e, u, one)));
    f = k_sub(e, fx_kmath_float(e, k_sub(e, bits, shifted)), one);
    down = fx_kir_op2(e->m, FX_KIR_MAX, k_sub(e, INT(exponent(e, 0)), shifted), INT(0));
    f = k_fma(e, rest, fx_kmath_float(e, down), f);
    r = k_copysign(e, log_poly(e, f, int_to_float(e, n)), x);
    return log_specials(e, x, NUM(-1), r);
}

static fx_kop *make_log1p(const fx_kmath *e, fx_kop *const *in) { return log1p_of(e, in[0]); }

/* log1p(2|x| / (1 - |x|)) / 2 */
static fx_kop *make_atanh(const fx_kmath *e, fx_kop *const *in)
{
    fx_kop *a = k_abs(e, in[0]), *r = log1p_of(e, k_div(e, k_add(e, a, a), k_sub(e, NUM(1), a)));

    return k_copysign(e, k_mul(e, r, NUM(0.5)), in[0]);
}

/* ---- acos ------------------------------------------------------------------------------------------------------ */

/* pi/2 - asin(x) up to 1/2; beyond, 2 asin(sqrt((1 - x) / 2)), or pi less that. */
static fx_kop *make_acos(const fx_kmath *e, fx_kop *const *in)
{
    fx_kop *x = in[0], *a = k_abs(e, x), *big = k_lt(e, NUM(0.5), a), *z, *s, *p, *w;

    z = k_select(e, big, k_mul(e, k_sub(e, NUM(1), a), NUM(0.5)), k_mul(e, x, x));
    s = k_select(e, big, k_sqrt(e, z), x);
    p = k_fma(e, k_mul(e, s, z), fx_kmath_poly(e, e->kind->asin, e->kind->n_asin, z), s);
    w = k_sub(e, NUM(e->kind->pi_2), k_sub(e, p, NUM(e->kind->pi_2_rest)));
    return k_select(e, big, k_select(e, k_lt(e, x, NUM(0)), k_add(e, w, w), k_add(e, p, p)), w);
}

/* ---- Replacing --------------------------------------------------------------------------------------------------- */

static fx_kop *(*const makers[FX_KIR_COUNT])(const fx_kmath *, fx_kop *const *) = {
    [FX_KIR_EXP] = make_exp,     [FX_KIR_EXP2] = make_exp2,   [FX_KIR_LOG] = make_log,   [FX_KIR_LOG1P] = make_log1p,
    [FX_KIR_SIN] = fx_kmath_sin, [FX_KIR_COS] = fx_kmath_cos, [FX_KIR_ACOS] = make_acos, [FX_KIR_TANH] = make_tanh,
    [FX_KIR_ATANH] = make_atanh, [FX_KIR_ERF] = make_erf,     [FX_KIR_POW] = fx_kmath_pow,
};

/* Makes what op computes in front of it; op then becomes the last of these. */
static bool expand(fx_kir_module *m, fx_kop *op)
{
    fx_kmath e = fx_kmath_of(m, op->type);
    fx_kop *last;

    m->line = op->line;
    fx_kir_before(m, op);
    last = makers[op->code](&e, op->in);
    if (!last)
        return false;
    FX_ASSERT(last == op->prev);
    op->code = last->code;
    op->n_in = last->n_in;
    op->in = last->in;
    op->u = last->u;
    op->prev = last->prev;
    *(op->prev ? &op->prev->next : &op->parent->first) = op;
    return true;
}

static bool expand_block(fx_kir_module *m, fx_kir_block *b)
{
    for (fx_kop *op = b->first; op; op = op->next) {
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && !expand_block(m, op->block[i]))
                return false;
        }
        if ((fx_kir_rows[op->code].flags & FX_KOPF_MATH) && !expand(m, op))
            return false;
    }
    return true;
}

fx_status fx_kir_expand_math(fx_kir_kernel *k, fx_error *err)
{
    fx_kir_module *m = k->module;
    fx_kir_block *was = m->at;
    fx_kop *before = m->before;
    uint32_t line = m->line;

    if (!m->failed && expand_block(m, k->grid))
        expand_block(m, k->body);
    m->at = was;
    m->before = before;
    m->line = line;
    return fx_kir_status(m, err);
}
