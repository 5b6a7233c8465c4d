/* rowops_avx2.c - the row kernels at level AVX2: the bodies of rowops_simd.def with 8 lanes. */
#define FX_SIMD_AVX2
#define LEVEL FX_CPU_AVX2
#define NAMED(op) op "_avx2"
#define PUT_Q8 fx_q8_put_avx2
#define SET fx_kernels_rowops_avx2
#include "kernels/rowops_simd.def"
