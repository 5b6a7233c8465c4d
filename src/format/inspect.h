/* inspect.h - what is inside a model file or folder, as text for people or as JSON.
 *
 * Metadata (or configuration), tensors with their place in the file, totals by element
 * type.  Long arrays and strings are cut short in the text; in JSON an array of more
 * than FX_INSPECT_ELEMS elements becomes {"type", "count"}, strings are whole. */
#ifndef FX_INSPECT_H
#define FX_INSPECT_H

#include "format/weights.h"

#define FX_INSPECT_ELEMS 32

/* Appended to out; FORNAX_ENOMEM if that failed. */
fx_status fx_inspect(const fx_weights *w, bool json, fx_buf *out, fx_error *err);

#endif
