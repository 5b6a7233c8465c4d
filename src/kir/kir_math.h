/* kir_math.h - what the parts of kir_math.c share: ops made by the names of what they compute.
 *
 * An fx_kmath makes ops of one float type, f32 or f64 in some lanes, in front of the op that they are to replace. */
#ifndef FX_KIR_MATH_H
#define FX_KIR_MATH_H

#include "kir/kir.h"

typedef struct fx_kmath_kind {
    fx_dtype t, bits;            /* f32 and i32, f64 and i64 */
    int mantissa;                /* bits of it */
    int64_t bias, half;          /* of exponents; about half of that */
    double magic;                /* x + magic - magic is x rounded to an integer, which stands in the low bits of x + magic */
    double ln2, ln2_rest;        /* their sum is ln 2 */
    double ln2_short, ln2_short_rest;    /* ... and an exponent times the first is exact */
    double least, most;          /* beyond, exp gives 0, infinity */
    double least2, most2;        /* ... exp2 */
    double tanh_1, erf_1;        /* from here on, they give 1 */
    double pi_2, pi_2_rest;      /* pi / 2 */
    const double *exp, *exp2, *log, *sin, *cos, *asin, *erf, *erfc;
    int n_exp, n_exp2, n_log, n_sin, n_cos, n_asin, n_erf, n_erfc;
} fx_kmath_kind;

typedef struct fx_kmath {
    fx_kir_module *m;
    fx_ktype t;
    const fx_kmath_kind *kind;
} fx_kmath;

fx_kop *fx_kmath_num(const fx_kmath *e, double x);
fx_kop *fx_kmath_int(const fx_kmath *e, int64_t x);      /* of 'bits' */
#define FX_KMATH_OP1(name, code) static inline fx_kop *name(const fx_kmath *e, fx_kop *a) { return fx_kir_op1(e->m, FX_KIR_##code, a); }
#define FX_KMATH_OP2(name, code) \
    static inline fx_kop *name(const fx_kmath *e, fx_kop *a, fx_kop *b) { return fx_kir_op2(e->m, FX_KIR_##code, a, b); }
#define FX_KMATH_OP3(name, code) \
    static inline fx_kop *name(const fx_kmath *e, fx_kop *a, fx_kop *b, fx_kop *c) { return fx_kir_op3(e->m, FX_KIR_##code, a, b, c); }
FX_KMATH_OP1(k_neg, NEG)
FX_KMATH_OP1(k_abs, ABS)
FX_KMATH_OP1(k_sqrt, SQRT)
FX_KMATH_OP1(k_trunc, TRUNC)
FX_KMATH_OP2(k_add, ADD)
FX_KMATH_OP2(k_sub, SUB)
FX_KMATH_OP2(k_mul, MUL)
FX_KMATH_OP2(k_div, DIV)
FX_KMATH_OP2(k_and, AND)
FX_KMATH_OP2(k_or, OR)
FX_KMATH_OP2(k_xor, XOR)
FX_KMATH_OP2(k_shl, SHL)
FX_KMATH_OP2(k_shr, SHR)
FX_KMATH_OP2(k_lt, LT)
FX_KMATH_OP2(k_le, LE)
FX_KMATH_OP2(k_eq, EQ)
FX_KMATH_OP2(k_ne, NE)
FX_KMATH_OP2(k_copysign, COPYSIGN)
FX_KMATH_OP3(k_fma, FMA)
FX_KMATH_OP3(k_select, SELECT)
#undef FX_KMATH_OP1
#undef FX_KMATH_OP2
#undef FX_KMATH_OP3
fx_kop *fx_kmath_bits(const fx_kmath *e, fx_kop *x);     /* as 'bits' */
fx_kop *fx_kmath_float(const fx_kmath *e, fx_kop *bits);
/* c[0] + c[1] x + ... */
fx_kop *fx_kmath_poly(const fx_kmath *e, const double *c, int n, fx_kop *x);
/* x where it is less than the limit, else the limit; NaN stays. */
fx_kop *fx_kmath_at_most(const fx_kmath *e, fx_kop *x, double limit);

/* exp(x + rest); rest is small, or NULL. */
fx_kop *fx_kmath_exp(const fx_kmath *e, fx_kop *x, fx_kop *rest);
/* x = m * 2^k for x > 0, with m from sqrt(1/2) to sqrt(2); k as a float. */
void fx_kmath_split(const fx_kmath *e, fx_kop *x, fx_kop **m, fx_kop **k);
fx_kop *fx_kmath_log(const fx_kmath *e, fx_kop *x);
/* The same for other lanes or another float type. */
fx_kmath fx_kmath_of(fx_kir_module *m, fx_ktype t);

/* kir_trig.c, kir_pow.c */
fx_kop *fx_kmath_sin(const fx_kmath *e, fx_kop *const *in);
fx_kop *fx_kmath_cos(const fx_kmath *e, fx_kop *const *in);
fx_kop *fx_kmath_pow(const fx_kmath *e, fx_kop *const *in);

#endif
