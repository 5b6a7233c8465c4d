/* epilogue_avx512.c - the standard epilogue at level AVX512: the body of epilogue_simd.def with 16 lanes. */
#define FX_SIMD_AVX512
#define NAME fx_epilogue_store_avx512
#include "kernels/epilogue_simd.def"
