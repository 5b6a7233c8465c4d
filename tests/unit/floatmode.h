/* floatmode.h - the control register of float arithmetic, as a host that embeds the library may have set it.
 *
 * FLOATMODE is defined where it is known how to read and write it. */
#ifndef FLOATMODE_H
#define FLOATMODE_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

#define FLOATMODE
#define FLOATMODE_DEFAULT 0x1F80u    /* nearest, subnormals as they are, no traps */
#define FLOATMODE_ODD 0xFFC0u        /* towards zero, results and operands flushed to zero, no traps */

static inline uint64_t floatmode_get(void) { return _mm_getcsr() & 0xFFC0u; }      /* without the flags */
static inline void floatmode_set(uint64_t mode) { _mm_setcsr((unsigned)mode); }

#elif defined(__aarch64__)

#define FLOATMODE
#define FLOATMODE_DEFAULT 0u
#define FLOATMODE_ODD 0x1C00000u     /* FZ, and RMode towards zero */

static inline uint64_t floatmode_get(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}
static inline void floatmode_set(uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }

#endif
#endif
