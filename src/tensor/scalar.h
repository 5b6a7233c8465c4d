/* scalar.h - plain dtypes: which holds the numbers of which; an element in memory read, written, printed.
 *
 * Floats go through f64, integers and bool through i64 (u64 by its bits).  A number that a
 * dtype can't hold: floats round to nearest, ties to even (f64 to the small ones by way of
 * f32 rounded to odd, so that they round once); integers keep their low bits.
 *
 * All functions are pure; any thread. */
#ifndef FX_SCALAR_H
#define FX_SCALAR_H

#include "tensor/dtype.h"

/* The one of a and b that holds all numbers of the other; false if neither does (u8 and i8), or
 * one is no plain type. */
bool fx_dtype_promote(fx_dtype a, fx_dtype b, fx_dtype *out);
/* Whether t, a plain type, holds x and all integers between 0 and x. */
bool fx_dtype_counts_to(fx_dtype t, int64_t x);
/* What sums of t are kept in: f32 for the smaller floats, else t. */
static inline fx_dtype fx_dtype_sums_in(fx_dtype t)
{
    return t == FX_F16 || t == FX_BF16 || t == FX_F8E4M3 || t == FX_F8E5M2 ? FX_F32 : t;
}

/* Float dtypes only. */
double fx_scalar_f64(fx_dtype t, const void *at);
void fx_scalar_set_f64(fx_dtype t, void *at, double x);
/* Integers and bool only. */
int64_t fx_scalar_i64(fx_dtype t, const void *at);
void fx_scalar_set_i64(fx_dtype t, void *at, int64_t x);

/* The shortest text that reads back as the same element. */
void fx_scalar_print(fx_dtype t, const void *at, fx_buf *out);

#endif
