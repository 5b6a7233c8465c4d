/* quant.h - rows of activations become int8 blocks (fx_q8, tensor/args.h).
 *
 * Kernels that produce a row and hand it on quantized (rmsnorm) call fx_q8_put_row,
 * so that there is one definition of the numbers and of the layout. */
#ifndef FX_QUANT_H
#define FX_QUANT_H

#include "kernels/kernel_set.h"

/* q8's row 'row' of 'n_rows' = x, q8->k values. Rows may be put in any order and by any thread. */
void fx_q8_put_row(const fx_q8 *q8, int64_t n_rows, int64_t row, const float *x);

#endif
