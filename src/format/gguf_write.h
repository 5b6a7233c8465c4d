/* gguf_write.h - the head of a GGUF file that is another one with its tensors in new types.
 *
 *     fx_gguf_plan plan = { ... types[i] for tensor i of w ... };
 *     FX_TRY(fx_gguf_head(w, &plan, &head, err));
 *     write head, then each tensor in order, each padded to plan.alignment
 *
 * Metadata is kept as it is, but for what the new types and the single file change:
 * general.file_type, general.quantization_version, split.*. */
#ifndef FX_GGUF_WRITE_H
#define FX_GGUF_WRITE_H

#include "format/weights.h"

typedef struct fx_gguf_plan {
    const fx_dtype *types;       /* [fx_weights_count] */
    int file_type;               /* general.file_type */
    bool quantized;              /* general.quantization_version is wanted */
    uint64_t alignment;          /* set by fx_gguf_head: of each tensor's data */
} fx_gguf_plan;

/* Appends everything up to the first tensor's data. w is an open GGUF. */
fx_status fx_gguf_head(const fx_weights *w, fx_gguf_plan *plan, fx_buf *out, fx_error *err);

#endif
