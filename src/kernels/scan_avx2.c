/* scan_avx2.c - kernels of recurrent layers at level AVX2: the body of scan_simd.def with 8 lanes. */
#include <math.h>

#define FX_SIMD_AVX2
#define LEVEL FX_CPU_AVX2
#define NAMED(op) op "_avx2"
#define SET fx_kernels_scan_avx2
#include "kernels/scan_simd.def"
