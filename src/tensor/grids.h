/* grids.h - blocks of 256 whose elements are small signed integers times scales of 16: IQ4_XS,
 * whose codes are looked up, and the IQ1, IQ2 and IQ3 types, whose codes name whole groups of
 * elements in a code book.
 *
 *     fx_grid_block b;
 *     fx_grid_expand(FX_IQ2_XS, block, &b);
 *     x[i] = d * factor * scale[i / 16] * v[i]
 *
 * Every product but the last is exact in f32, and so, to within the range of f32, is that
 * one: the order of the multiplications doesn't matter.  All functions are pure. */
#ifndef FX_GRIDS_H
#define FX_GRIDS_H

#include "tensor/dtype.h"

typedef struct fx_grid_block {
    float d;                     /* of the block, an f16 */
    float factor;                /* of the type, a power of two */
    int8_t scale[16];            /* equal in pairs for types with scales of 32 */
    int8_t v[256];
} fx_grid_block;

/* Is t one of these types? */
bool fx_grid_has(fx_dtype t);
void fx_grid_expand(fx_dtype t, const void *block, fx_grid_block *out);
/* The at most 16 integers that v may be, ascending, repeated from the last on. */
const int8_t *fx_grid_values(fx_dtype t);
/* Has t a scale for each 16 elements (else 32)? */
bool fx_grid_scales_16(fx_dtype t);
/* The factor of t. */
float fx_grid_factor(fx_dtype t);

#endif
