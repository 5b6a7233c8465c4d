/* matmul_quant_avx2.c - quantized weights times int8 activations with AVX2: the body of matmul_quant_ymm.def. */
#define FX_SIMD_AVX2
#define VNNI 0
#define USABLE NULL
#define NAMED(op) op "_avx2"
#define SET fx_matmul_quant_avx2
#include "kernels/matmul_quant_ymm.def"
