/* mode.h - how a model's numbers are held: part of its numerics id. */
#ifndef FX_MODE_H
#define FX_MODE_H

typedef enum fx_dtype_mode {
    FX_MODE_AUTO,                /* weights as stored; block-quantized ones meet int8 activations */
    FX_MODE_F32,                 /* exact: every weight dequantized to f32, f32 activations */
    FX_MODE_BF16,                /* f32, f16 and bf16 weights held as bf16; quantized ones as in auto */
    FX_MODE_F16                  /* ... as f16 */
} fx_dtype_mode;

#endif
