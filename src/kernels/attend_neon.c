/* attend_neon.c - attention at level NEON: the body of attend_simd.def with 8 lanes. */
#define FX_SIMD_NEON
#define LEVEL FX_CPU_NEON
#define NAMED(op) op "_neon"
#define PUT_Q8 fx_q8_put_neon
#define SET fx_kernels_attend_neon
#include "kernels/attend_simd.def"
