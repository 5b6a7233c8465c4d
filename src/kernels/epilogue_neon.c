/* epilogue_neon.c - the standard epilogue at level NEON: the body of epilogue_simd.def with 8 lanes. */
#define FX_SIMD_NEON
#define NAME fx_epilogue_store_neon
#include "kernels/epilogue_simd.def"
