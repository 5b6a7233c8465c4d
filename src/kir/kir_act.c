/* kir_act.c - activations (kir_act.h).  kernels/vmath.def has the same operations by hand. */
#include "kir/kir_act.h"

#include "kir/kir_math.h"

#define NUM(x) fx_kmath_num(e, x)

fx_kop *fx_kir_sigmoid_times(fx_kir_module *m, fx_kop *x, fx_kop *factor)
{
    fx_kop *e = fx_kir_op1(m, FX_KIR_EXP, fx_kir_op1(m, FX_KIR_NEG, x));

    return e ? fx_kir_op2(m, FX_KIR_DIV, factor, fx_kir_op2(m, FX_KIR_ADD, fx_kir_float(m, e->type, 1), e)) : NULL;
}

fx_kop *fx_kir_silu(fx_kir_module *m, fx_kop *x) { return fx_kir_sigmoid_times(m, x, x); }

fx_kop *fx_kir_sigmoid(fx_kir_module *m, fx_kop *x)
{
    return x ? fx_kir_sigmoid_times(m, x, fx_kir_float(m, x->type, 1)) : NULL;
}

fx_kop *fx_kir_clamp(fx_kir_module *m, fx_kop *x, double lo, double hi)
{
    fx_kmath k, *e = &k;
    fx_kop *low;

    if (!x)
        return NULL;
    k = fx_kmath_of(m, x->type);
    x = fx_kmath_at_most(e, x, hi);
    low = NUM(lo);
    return k_select(e, k_lt(e, x, low), low, x);
}

fx_kop *fx_kir_relu(fx_kir_module *m, fx_kop *x)
{
    fx_kop *zero = x ? fx_kir_float(m, x->type, 0) : NULL;

    return fx_kir_op3(m, FX_KIR_SELECT, fx_kir_op2(m, FX_KIR_LT, x, zero), zero, x);
}

fx_kop *fx_kir_relu2(fx_kir_module *m, fx_kop *x)
{
    fx_kop *y = fx_kir_relu(m, x);

    return fx_kir_op2(m, FX_KIR_MUL, y, y);
}

/* With z = |x| / sqrt 2 and t = 1 / (1 + 0.4 z), erfc(z) = e^(-z^2) t P(t), of which half is the distribution function of -|x|; the
 * rounding error of z^2 is put back, because e^ magnifies it. */
static fx_kop *gelu_tail(const fx_kmath *e, fx_kop *x)
{
    static const double p[] = { (double)2.2563423e-01f, (double)2.2644305e-01f, (double)2.0188801e-01f, (double)1.933915e-01f,
                                (double)7.976063e-02f,  (double)8.795817e-02f,  (double)8.399282e-02f,  (double)-1.4032197e-01f,
                                (double)4.125361e-02f };
    fx_kop *a = fx_kmath_at_most(e, k_abs(e, x), 14.5), *half = k_mul(e, k_mul(e, a, a), NUM(0.5)), *lost, *t, *tail;

    lost = k_fma(e, k_mul(e, a, NUM(-0.5)), a, half);    /* half - a^2/2, exactly */
    t = k_div(e, NUM(1), k_fma(e, a, NUM((double)0.28284271247f), NUM(1)));
    tail = fx_kir_op1(e->m, FX_KIR_EXP, k_neg(e, half));
    return k_mul(e, k_fma(e, tail, lost, tail), k_mul(e, k_mul(e, fx_kmath_poly(e, p, (int)FX_COUNT(p), t), t), NUM(0.5)));
}

fx_kop *fx_kir_gelu(fx_kir_module *m, fx_kop *x)
{
    fx_kmath k, *e = &k;
    fx_kop *tail, *low;

    if (!x)
        return NULL;
    k = fx_kmath_of(m, x->type);
    tail = gelu_tail(e, x);
    tail = k_select(e, k_lt(e, NUM(0), x), k_sub(e, NUM(1), tail), tail);
    low = NUM(-14.5);                    /* -infinity gives 0, not NaN */
    return k_mul(e, k_select(e, k_lt(e, x, low), low, x), tail);
}

fx_kop *fx_kir_gelu_tanh(fx_kir_module *m, fx_kop *x)
{
    fx_kmath k, *e = &k;
    fx_kop *low, *c, *v;

    if (!x)
        return NULL;
    k = fx_kmath_of(m, x->type);
    low = NUM(-20);                      /* far into where it is 0 */
    c = k_select(e, k_lt(e, x, low), low, x);
    v = k_fma(e, k_mul(e, k_mul(e, c, c), NUM((double)0.044715f)), c, c);
    return fx_kir_sigmoid_times(m, k_mul(e, v, NUM((double)1.5957691216f)), c);
}
