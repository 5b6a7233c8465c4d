/* clock.h - time. */
#ifndef FX_CLOCK_H
#define FX_CLOCK_H
#include "base/compiler.h"
uint64_t fx_clock_ns(void);          /* monotonic */
int64_t fx_clock_unix(void);         /* seconds since 1970 */
#endif
