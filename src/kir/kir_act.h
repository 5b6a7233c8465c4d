/* kir_act.h - the functions between the products of a network, as arithmetic of kir.
 *
 * What graphs and plans compute for an activation is what these make.  x is f32 or f64 in any lanes (fx_kir_gelu, fx_kir_gelu_tanh: their
 * polynomials are for f32).  NULL after a fault, like all makers. */
#ifndef FX_KIR_ACT_H
#define FX_KIR_ACT_H

#include "kir/kir.h"

/* factor / (1 + e^-x): with 1 the sigmoid, with x silu. */
fx_kop *fx_kir_sigmoid_times(fx_kir_module *m, fx_kop *x, fx_kop *factor);
fx_kop *fx_kir_silu(fx_kir_module *m, fx_kop *x);
fx_kop *fx_kir_sigmoid(fx_kir_module *m, fx_kop *x);
fx_kop *fx_kir_relu(fx_kir_module *m, fx_kop *x);        /* 0 where x is less; NaN and -0 stay */
fx_kop *fx_kir_relu2(fx_kir_module *m, fx_kop *x);
/* Kept in [lo, hi]; NaN stays. */
fx_kop *fx_kir_clamp(fx_kir_module *m, fx_kop *x, double lo, double hi);
fx_kop *fx_kir_gelu(fx_kir_module *m, fx_kop *x);        /* x times the normal distribution function */
fx_kop *fx_kir_gelu_tanh(fx_kir_module *m, fx_kop *x);   /* x / (1 + e^-2u), u = sqrt(2/pi) (x + 0.044715 x^3) */

#endif
