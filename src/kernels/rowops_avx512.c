/* rowops_avx512.c - the row kernels at level AVX512: the bodies of rowops_simd.def with 16 lanes. */
#define FX_SIMD_AVX512
#define LEVEL FX_CPU_AVX512
#define NAMED(op) op "_avx512"
#define PUT_Q8 fx_q8_put_avx512
#define SET fx_kernels_rowops_avx512
#include "kernels/rowops_simd.def"
