/* philox.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC11).
 *
 * Four words that are a pure function of a key and a counter. */
#ifndef FX_PHILOX_H
#define FX_PHILOX_H

#include "base/compiler.h"

void fx_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

#endif
