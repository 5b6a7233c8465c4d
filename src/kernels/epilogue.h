/* epilogue.h - the standard epilogue at each level; all give the same bits.  Callers
 * take fx_epilogue_find's. */
#ifndef FX_EPILOGUE_H
#define FX_EPILOGUE_H

#include "kernels/kernels.h"

void fx_epilogue_store_avx2(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0,
                            int64_t n);
void fx_epilogue_store_avx512(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m,
                              int64_t col0, int64_t n);
void fx_epilogue_store_neon(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0,
                            int64_t n);

#endif
