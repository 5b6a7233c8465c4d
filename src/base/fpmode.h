/* fpmode.h - every entry and worker computes in one floating-point mode (round to
 * nearest, no flush-to-zero, no traps) and gives the caller's mode back.
 *
 *     fx_fpmode old = fx_fpmode_enter();  ...  fx_fpmode_leave(old); */
#ifndef FX_FPMODE_H
#define FX_FPMODE_H
#include "base/compiler.h"
typedef struct fx_fpmode {
    uint64_t control;
} fx_fpmode;
fx_fpmode fx_fpmode_enter(void);
void fx_fpmode_leave(fx_fpmode old);
#endif
