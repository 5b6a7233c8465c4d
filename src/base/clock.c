/* clock.c - the system's clocks. */
#include "base/clock.h"

#include <time.h>

uint64_t fx_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int64_t fx_clock_unix(void)
{
    return (int64_t)time(NULL);
}
