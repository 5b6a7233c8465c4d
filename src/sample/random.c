/* random.c - see random.h. */
#include "sample/random.h"

double fx_random_unit(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw)
{
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t counter[4] = { (uint32_t)position, (uint32_t)(position >> 32), choice, draw };
    uint32_t r[4];

    fx_philox(key, counter, r);
    return (double)(((uint64_t)r[1] << 32 | r[0]) >> 11) * 0x1p-53;
}
