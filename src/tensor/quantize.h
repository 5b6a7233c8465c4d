/* quantize.h - rows of f32 become blocks (blocks.h): the inverse of fx_dequantize_row.
 *
 * All round as llama.cpp's quantizer does without an importance matrix: Q4_0 to Q8_0 by a fixed rule, the K types
 * and IQ4_NL by its search for scales (quantize_k.c).  A block's bytes depend on its values only. */
#ifndef FX_QUANTIZE_H
#define FX_QUANTIZE_H

#include "tensor/dtype.h"

/* F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL. */
bool fx_quantize_supports(fx_dtype t);
/* n is a whole number of blocks; dst has the type's alignment.  False: a value isn't finite, or
 * a block's scale is beyond f16; dst then holds nothing of use. */
bool fx_quantize_row(fx_dtype t, const float *src, void *dst, int64_t n);

/* One block each; the values are finite. False as above. */
bool fx_quantize_q2_k(const float *x, void *dst);
bool fx_quantize_q3_k(const float *x, void *dst);
bool fx_quantize_q4_k(const float *x, void *dst);
bool fx_quantize_q5_k(const float *x, void *dst);
bool fx_quantize_q6_k(const float *x, void *dst);
bool fx_quantize_iq4_nl(const float *x, void *dst);

#endif
