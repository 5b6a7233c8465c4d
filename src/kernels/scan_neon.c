/* scan_neon.c - kernels of recurrent layers at level NEON: the body of scan_simd.def with 8 lanes. */
#include <math.h>

#define FX_SIMD_NEON
#define LEVEL FX_CPU_NEON
#define NAMED(op) op "_neon"
#define SET fx_kernels_scan_neon
#include "kernels/scan_simd.def"
