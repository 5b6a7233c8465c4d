/* select.h - passes over a row of logits, and the cut that top-k and top-p make.
 *
 * Rows are walked in blocks of FX_BLOCK values; sums go over 16 lanes within a block and in
 * double over blocks, always in this order, so a result depends on the row alone. Loops
 * have fixed trip counts so that compilers vectorise them without reordering. */
#ifndef FX_SELECT_H
#define FX_SELECT_H

#include "base/compiler.h"

#define FX_BLOCK 128

/* Largest value of each block into block_max, of all into *max; false: there is a NaN. */
bool fx_scan_max(const float *x, int64_t n, float *block_max, float *max);
/* e[i] = exp((x[i] - max) * scale), 0 below about 1e-38 or below 'least'; the sum. x <= max. e may be x. */
double fx_scan_exp(const float *x, int64_t n, float max, float scale, float least, float *e);
/* Sum of exp(x[i] - max). */
double fx_scan_sum_exp(const float *x, int64_t n, float max);
float fx_exp_neg(float x);                 /* the exp of these passes; x <= 0 */

/* The first elements in the order (x descending, index ascending) end with this one. */
typedef struct fx_cut {
    float x;
    int32_t index;
} fx_cut;
/* Cuts after k elements, or when their e (may be NULL if mass is infinite) sum to 'mass',
 * whichever comes first. n >= 1, k >= 1; x finite. work: [n]. Linear but for odd values. */
fx_cut fx_cut_find(const float *x, const float *e, int32_t n, int32_t k, double mass, int32_t *work);
static inline bool fx_cut_keeps(fx_cut cut, float x, int32_t index)
{
    return x > cut.x || (x == cut.x && index <= cut.index);
}

#endif
