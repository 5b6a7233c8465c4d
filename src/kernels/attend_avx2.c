/* attend_avx2.c - attention at level AVX2: the body of attend_simd.def with 8 lanes. */
#define FX_SIMD_AVX2
#define LEVEL FX_CPU_AVX2
#define NAMED(op) op "_avx2"
#define PUT_Q8 fx_q8_put_avx2
#define SET fx_kernels_attend_avx2
#include "kernels/attend_simd.def"
