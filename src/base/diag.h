/* diag.h - the one printer of faults in a text we read (templates, graph text,
 * grammars, kernels): "file:line:col: message", the line, a caret. */
#ifndef FX_DIAG_H
#define FX_DIAG_H
#include "base/status.h"
#include "base/str.h"
typedef struct fx_pos {
    uint32_t line, col;      /* from 1; col counts code points */
} fx_pos;
fx_pos fx_diag_pos(fx_str source, size_t offset);
/* Fills err with FORNAX_EFORMAT and the three lines; returns FORNAX_EFORMAT. */
fx_status fx_diag(fx_error *err, const char *name, fx_str source, size_t offset,
                  const char *fmt, ...) FX_PRINTF(5, 6);
#endif
