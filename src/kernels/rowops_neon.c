/* rowops_neon.c - the row kernels at level NEON: the bodies of rowops_simd.def with 8 lanes. */
#define FX_SIMD_NEON
#define LEVEL FX_CPU_NEON
#define NAMED(op) op "_neon"
#define PUT_Q8 fx_q8_put_neon
#define SET fx_kernels_rowops_neon
#include "kernels/rowops_simd.def"
