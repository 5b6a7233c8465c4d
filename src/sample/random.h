/* random.h - random numbers by counter, not by state (tensor/philox.h).
 *
 * A number is a pure function of (seed, choice, position, draw), so that what a sequence
 * draws doesn't depend on what else runs, and any draw can be repeated alone.  Key: the
 * seed's two words; counter: position (two words), choice, draw. */
#ifndef FX_RANDOM_H
#define FX_RANDOM_H

#include "tensor/philox.h"

/* Uniform in [0, 1), 53 bits. */
double fx_random_unit(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw);

#endif
