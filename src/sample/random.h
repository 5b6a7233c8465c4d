/* random.h - counter-based random numbers: Philox4x32-10 (Salmon et al., SC11).
 *
 * A number is a pure function of (seed, choice, position, draw), so that what a sequence
 * draws doesn't depend on what else runs, and any draw can be repeated alone.  Key: the
 * seed's two words; counter: position (two words), choice, draw. */
#ifndef FX_RANDOM_H
#define FX_RANDOM_H

#include "base/compiler.h"

void fx_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);
/* Uniform in [0, 1), 53 bits. */
double fx_random_unit(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw);

#endif
