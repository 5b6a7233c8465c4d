/* gguf_write.h - heads of GGUF files: keys and values one by one, and the head of a file that is
 * another one with its tensors in new types.
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

/* Keys with their values, as they stand in a head; check bytes.failed at the end. */
typedef struct fx_gguf_keys {
    fx_buf bytes;
    uint64_t n;
} fx_gguf_keys;
void fx_gguf_put_str(fx_gguf_keys *k, const char *key, fx_str value);
void fx_gguf_put_u32(fx_gguf_keys *k, const char *key, uint32_t value);
void fx_gguf_put_f32(fx_gguf_keys *k, const char *key, float value);
void fx_gguf_put_bool(fx_gguf_keys *k, const char *key, bool value);
void fx_gguf_put_strs(fx_gguf_keys *k, const char *key, const fx_str *values, size_t n);
void fx_gguf_put_i32s(fx_gguf_keys *k, const char *key, const int32_t *values, size_t n);
void fx_gguf_put_f32s(fx_gguf_keys *k, const char *key, const float *values, size_t n);

typedef struct fx_gguf_plan {
    const fx_dtype *types;       /* [fx_weights_count] */
    int file_type;               /* general.file_type */
    bool quantized;              /* general.quantization_version is wanted */
    uint64_t alignment;          /* set by fx_gguf_head: of each tensor's data */
} fx_gguf_plan;

/* Appends everything up to the first tensor's data. w is an open GGUF. */
fx_status fx_gguf_head(const fx_weights *w, fx_gguf_plan *plan, fx_buf *out, fx_error *err);

#endif
