/* format_files.h - small model files made in memory, and files and folders to put them
 * in, for the tests of format/. */
#ifndef FORMAT_FILES_H
#define FORMAT_FILES_H

#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/weights.h"

/* ---- Numbers of the file formats ----------------------------------------------------- */

static inline void put_le(fx_buf *b, uint64_t u, int n)
{
    for (int i = 0; i < n; i++)
        fx_buf_putc(b, (char)(u >> (8 * i)));
}

/* A length and the bytes. */
static inline void put_str(fx_buf *b, const char *z)
{
    put_le(b, strlen(z), 8);
    fx_buf_puts(b, z);
}

static inline void gguf_head(fx_buf *b, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    fx_buf_puts(b, "GGUF");
    put_le(b, version, 4);
    put_le(b, n_tensors, 8);
    put_le(b, n_keys, 8);
}

static inline void gguf_key(fx_buf *b, const char *key, fx_meta_type type)
{
    put_str(b, key);
    put_le(b, type, 4);
}

static inline void gguf_u32(fx_buf *b, const char *key, uint32_t value)
{
    gguf_key(b, key, FX_META_U32);
    put_le(b, value, 4);
}

/* Dimensions as in the file: innermost first. */
static inline void gguf_tensor(fx_buf *b, const char *name, uint32_t type, uint64_t offset, int n_dims, ...)
{
    va_list dims;

    put_str(b, name);
    put_le(b, (uint64_t)n_dims, 4);
    va_start(dims, n_dims);
    for (int i = 0; i < n_dims; i++)
        put_le(b, va_arg(dims, uint64_t), 8);
    va_end(dims);
    put_le(b, type, 4);
    put_le(b, offset, 8);
}

static inline void gguf_data(fx_buf *b, size_t alignment, size_t bytes)
{
    while (b->n % alignment != 0)
        fx_buf_putc(b, 0);
    for (size_t i = 0; i < bytes; i++)
        fx_buf_putc(b, (char)i);
}

static inline void safetensors(fx_buf *b, const char *header, size_t data_bytes)
{
    put_le(b, strlen(header), 8);
    fx_buf_puts(b, header);
    for (size_t i = 0; i < data_bytes; i++)
        fx_buf_putc(b, (char)i);
}

/* ---- A folder of its own --------------------------------------------------------------- */

typedef struct scratch {
    char dir[64];
    char path[256];              /* what scratch_path made last */
} scratch;

static inline bool scratch_open(scratch *s)
{
    strcpy(s->dir, "/tmp/fxformatXXXXXX");
    return mkdtemp(s->dir);
}

static inline const char *scratch_path(scratch *s, const char *name)
{
    snprintf(s->path, sizeof(s->path), "%s/%s", s->dir, name);
    return s->path;
}

static inline const char *scratch_write(scratch *s, const char *name, fx_str data)
{
    FILE *f;

    unlink(scratch_path(s, name));       /* a new file: some file systems write an overwritten one out at once */
    f = fopen(s->path, "wb");
    if (f) {
        fwrite(data.p, 1, data.n, f);
        fclose(f);
    }
    return s->path;
}

static inline void scratch_remove(scratch *s, const char *name)
{
    unlink(scratch_path(s, name));
}

/* Sums every byte of every tensor, so that a sanitizer sees a view that is too long. */
static inline uint64_t touch_all(const fx_weights *w)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);

        for (size_t k = 0; k < t->bytes; k++)
            sum += ((const unsigned char *)t->data)[k];
    }
    return sum;
}

#endif
