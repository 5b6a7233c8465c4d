/* fields.h - a request body read by a table of fields.
 *
 * A row names a field, its type and range and where it goes; reading parses, checks
 * and writes the sentence for the 400.  null counts as absent.  Absent numbers are
 * FX_NO_INT and NaN, absent strings NULL, absent JSON NULL.  Fields without effect on
 * the output are rows too (FX_F_IGNORE); anything else is unknown, which is an error
 * unless the caller collects the names. */
#ifndef FX_FIELDS_H
#define FX_FIELDS_H

#include <jansson.h>

#include "base/status.h"
#include "base/str.h"
#include "base/text.h"

#define FX_NO_INT INT64_MIN

typedef enum fx_field_type {
    FX_F_BOOL,       /* bool                                */
    FX_F_INT,        /* int64_t, in [min, max]              */
    FX_F_NUM,        /* double, in [min, max]               */
    FX_F_STR,        /* fx_str                              */
    FX_F_JSON,       /* const json_t *, any type            */
    FX_F_IGNORE,     /* accepted, cannot change the output  */
    FX_F_REFUSE      /* known, would change the output, not to be had: 400 unless false, null or empty */
} fx_field_type;

typedef struct fx_field {
    const char *name;
    fx_field_type type;
    size_t at;
    double min, max;
} fx_field;

/* 'out' holds its defaults already; it borrows from 'object'. within: what the object is a field of, or NULL.
 * unknown: names are appended, joined by ", ", fit for a header (other characters are '?', and no more than
 * a few hundred bytes); NULL: unknown fields are errors. */
fx_status fx_fields_read(const json_t *object, const fx_field *table, void *out, const char *within, fx_buf *unknown,
                         fx_error *err);

#endif
