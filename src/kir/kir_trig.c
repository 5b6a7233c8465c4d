/* kir_trig.c - sin and cos as arithmetic of kir.
 *
 * The argument becomes q quarter turns and a rest r in [-pi/4, pi/4]; sin and cos of r are polynomials, and q chooses.
 *
 * f32 reduces any argument exactly: |x| is an integer of 24 bits times 2^k, so its turns modulo 1 are that integer times a window of the
 * bits of 1 / (2 pi), which is a product in integers.  f64 subtracts q times pi/2 in three pieces, by fma, which
 * is good up to 2^38. */
#include <math.h>

#include "kir/kir_math.h"

#define NUM(x) fx_kmath_num(e, x)
#define INT(x) fx_kmath_int(e, x)

static fx_kop *word(const fx_kmath *e, uint64_t x) { return fx_kir_int(e->m, fx_ktype_of(FX_U64, e->t.lanes), (int64_t)x); }

/* 64 bits of 1 / (2 pi) from bit s of the words a, b on. */
static fx_kop *window(const fx_kmath *e, fx_kop *a, fx_kop *b, fx_kop *s)
{
    return k_or(e, k_shl(e, a, s), k_shr(e, b, k_sub(e, word(e, 64), s)));
}

/* Turns of |x| >= 1/2, modulo 1, in units of 2^-64.  |x| = m * 2^(p - 24), and words[] hold 24 bits 0, then 1 / (2 pi). */
static fx_kop *turns(const fx_kmath *e, fx_kop *bits)
{
    static const uint64_t words[4] = { 0x28be60db93, 0x91054a7f09d5f47d, 0x4d377036d8a5664f, 0x10e4107f9458eaf7 };
    fx_kop *p = fx_kir_convert(e->m, k_sub(e, k_shr(e, bits, INT(23)), INT(126)), FX_U64);
    fx_kop *m = fx_kir_convert(e->m, k_or(e, k_and(e, bits, INT(0x7fffff)), INT(0x800000)), FX_U64);
    fx_kop *below64 = k_lt(e, p, word(e, 64)), *below128 = k_lt(e, p, word(e, 128)), *s = k_and(e, p, word(e, 63));
    fx_kop *at[3], *lo;

    for (int i = 0; i < 3; i++) {
        fx_kop *third = word(e, i == 0 ? words[2] : i == 1 ? words[3] : 0);

        at[i] = k_select(e, below64, word(e, words[i]), k_select(e, below128, word(e, words[i + 1]), third));
    }
    lo = k_shr(e, window(e, at[1], at[2], s), word(e, 32));
    return k_add(e, k_mul(e, m, window(e, at[0], at[1], s)), k_shr(e, k_mul(e, m, lo), word(e, 32)));
}

/* The rest of |x|, and its quarter turns as 'bits'. */
static fx_kop *reduce32(const fx_kmath *e, fx_kop *a, fx_kop **q)
{
    fx_kop *t = turns(e, fx_kmath_bits(e, a)), *near = k_lt(e, a, NUM(0x1.921fb4p-1)), *n, *rest;
    fx_kop *scale = fx_kir_float(e->m, fx_ktype_of(FX_F64, e->t.lanes), 0x1.921fb54442d18p-62);

    n = k_shr(e, k_add(e, t, word(e, UINT64_C(1) << 61)), word(e, 62));
    rest = fx_kir_bitcast(e->m, k_sub(e, t, k_shl(e, n, word(e, 62))), fx_ktype_of(FX_I64, e->t.lanes));
    rest = fx_kir_convert(e->m, k_mul(e, fx_kir_convert(e->m, rest, FX_F64), scale), FX_F32);
    *q = k_select(e, near, INT(0), fx_kir_convert(e->m, n, FX_I32));
    return k_select(e, near, a, rest);
}

static fx_kop *reduce64(const fx_kmath *e, fx_kop *a, fx_kop **q)
{
    fx_kop *z = k_fma(e, a, NUM(0x1.45f306dc9c883p-1), NUM(e->kind->magic)), *n = k_sub(e, z, NUM(e->kind->magic)), *r;

    r = k_fma(e, n, NUM(-e->kind->pi_2), a);
    r = k_fma(e, n, NUM(-e->kind->pi_2_rest), r);
    r = k_fma(e, n, NUM(0x1.f1976b7ed8fbcp-110), r);
    *q = fx_kmath_bits(e, z);
    return k_select(e, k_lt(e, k_abs(e, r), NUM(1)), r, NUM(0));
}

/* sin(|x| + shift quarter turns), its sign exchanged where 'sign' has the sign bit. */
static fx_kop *sine(const fx_kmath *e, fx_kop *x, int shift, fx_kop *sign)
{
    int width = e->kind->t == FX_F32 ? 32 : 64;
    fx_kop *a = k_abs(e, x), *q, *r = (width == 32 ? reduce32 : reduce64)(e, a, &q), *r2 = k_mul(e, r, r), *s, *c, *y, *flip;

    s = k_fma(e, k_mul(e, r2, r), fx_kmath_poly(e, e->kind->sin, e->kind->n_sin, r2), r);
    c = k_fma(e, r2, NUM(-0.5), NUM(1));
    c = k_fma(e, k_mul(e, r2, r2), fx_kmath_poly(e, e->kind->cos, e->kind->n_cos, r2), c);
    q = shift ? k_add(e, q, INT(shift)) : q;
    y = k_select(e, k_eq(e, k_and(e, q, INT(1)), INT(0)), s, c);
    flip = k_shl(e, k_and(e, q, INT(2)), INT(width - 2));
    if (sign)
        flip = k_xor(e, flip, sign);
    y = fx_kmath_float(e, k_xor(e, fx_kmath_bits(e, y), flip));
    return k_select(e, k_lt(e, a, NUM(HUGE_VAL)), y, NUM(NAN));
}

fx_kop *fx_kmath_sin(const fx_kmath *e, fx_kop *const *in)
{
    return sine(e, in[0], 0, k_and(e, fx_kmath_bits(e, in[0]), INT(e->kind->t == FX_F32 ? INT32_MIN : INT64_MIN)));
}

fx_kop *fx_kmath_cos(const fx_kmath *e, fx_kop *const *in) { return sine(e, in[0], 1, NULL); }
