/* fpmode.c - the control registers of the floating-point units.
 *
 * x86-64: MXCSR in the low half, the x87 control word (long double, and the C
 * library's idea of the rounding mode) in the high half. aarch64: FPCR. Leaving
 * restores the whole register, so the caller's exception flags come back too. */
#include "base/fpmode.h"

#if defined(__x86_64__)

#define MXCSR_DEFAULT 0x1F80u       /* all masked, nearest, no FTZ, no DAZ */
#define X87_DEFAULT 0x037Fu         /* all masked, nearest, extended precision */

static uint64_t read_control(void)
{
    uint32_t mxcsr;
    uint16_t x87;

    __asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return mxcsr | (uint64_t)x87 << 32;
}

static void write_control(uint64_t now, uint64_t control)
{
    uint32_t mxcsr = (uint32_t)control;
    uint16_t x87 = (uint16_t)(control >> 32);

    __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
    if (x87 != (uint16_t)(now >> 32))           /* slow, and almost never needed */
        __asm__ volatile("fldcw %0" : : "m"(x87) : "memory");
}

#define CONTROL_DEFAULT (MXCSR_DEFAULT | (uint64_t)X87_DEFAULT << 32)

#elif defined(__aarch64__)

#define CONTROL_DEFAULT 0u          /* nearest, no flush-to-zero, no traps */

static uint64_t read_control(void)
{
    uint64_t fpcr;

    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

static void write_control(uint64_t now, uint64_t control)
{
    if (now != control)
        __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}

#else
#include <fenv.h>

#define CONTROL_DEFAULT 0u

/* Portable C knows the rounding mode only. */
static uint64_t read_control(void)
{
    return (uint64_t)fegetround() << 1;
}

static void write_control(uint64_t now, uint64_t control)
{
    (void)now;
    fesetround(control ? (int)(control >> 1) : FE_TONEAREST);
}

#endif

fx_fpmode fx_fpmode_enter(void)
{
    fx_fpmode old = { read_control() };

    write_control(old.control, CONTROL_DEFAULT);
    return old;
}

void fx_fpmode_leave(fx_fpmode old)
{
    write_control(read_control(), old.control);
}
