/* status.h - how a call says that it failed, and why.
 *
 * A status says what a program can do about it, the sentence says what a person
 * should know.  Whoever detects the fault writes the sentence, once: "where:
 * what was expected, what was found".  Callers pass the status up.
 *
 *     if (n > limit)
 *         return fx_fail(err, FORNAX_EFORMAT, "%s: %zu tensors, limit %zu", path, n, limit);
 *
 * 'err' may be NULL everywhere.  Any thread; an fx_error belongs to its caller. */
#ifndef FX_STATUS_H
#define FX_STATUS_H

#include "base/compiler.h"
#include "fornax.h"

typedef fornax_status fx_status;
typedef fornax_error fx_error;

/* Fills *err (status, text; param and retry cleared) and returns 'st'. */
fx_status fx_fail(fx_error *err, fx_status st, const char *fmt, ...) FX_PRINTF(3, 4);
/* The same, naming the option, field or key at fault. */
fx_status fx_fail_param(fx_error *err, fx_status st, const char *param, const char *fmt, ...)
    FX_PRINTF(4, 5);
/* "no memory for <what>". */
fx_status fx_nomem(fx_error *err, const char *what);

/* For functions that have nothing to clean up. */
#define FX_TRY(x)                         \
    do {                                  \
        fx_status fx_try_st_ = (x);       \
        if (fx_try_st_ != FORNAX_OK)      \
            return fx_try_st_;            \
    } while (0)

#endif
