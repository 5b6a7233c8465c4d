/* scan_avx512.c - kernels of recurrent layers at level AVX512: the body of scan_simd.def with 16 lanes. */
#include <math.h>

#define FX_SIMD_AVX512
#define LEVEL FX_CPU_AVX512
#define NAMED(op) op "_avx512"
#define SET fx_kernels_scan_avx512
#include "kernels/scan_simd.def"
