/* epilogue_avx2.c - the standard epilogue at level AVX2: the body of epilogue_simd.def with 8 lanes. */
#define FX_SIMD_AVX2
#define NAME fx_epilogue_store_avx2
#include "kernels/epilogue_simd.def"
