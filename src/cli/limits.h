/* limits.h - what this machine can do at most, measured: reading memory, and multiplying.
 *
 * fornax bench states its rates as shares of these. */
#ifndef FX_LIMITS_H
#define FX_LIMITS_H

#include <stdint.h>

#include "base/status.h"

/* All threads together, at the instruction-set level named ("avx2", "avx512", ...); 0: not known how to measure.
 * A multiply and an add are two operations. */
typedef struct fx_limits {
    double read;                 /* bytes a second, of memory that no cache holds */
    double int8, bf16, f32;      /* operations a second; bf16 0: no such instruction */
} fx_limits;

/* Best of several short runs, about a second in all. */
fx_status fx_limits_measure(fx_limits *out, int threads, const char *level, fx_error *err);

#endif
