/* weights_int.h - what the readers of the formats share; only for files of this folder. */
#ifndef FX_WEIGHTS_INT_H
#define FX_WEIGHTS_INT_H

#include "format/weights.h"

typedef struct fx_made_pages {
    void *p;
    size_t bytes;
} fx_made_pages;

struct fx_weights {
    const fx_mem *mem;
    fx_arena arena;
    const char *path;
    fx_weights_kind kind;
    unsigned flags;

    FX_VEC(fx_weight) tensors;
    fx_map by_name;                      /* to an index in tensors */
    FX_VEC(fx_file *) files;
    FX_VEC(fx_made_pages) made;          /* data of tensors that no file has as they are */

    int gguf_version;
    FX_VEC(fx_meta) meta;
    fx_map by_key;                       /* to an index in meta */

    json_t *config, *generation_config;
    json_t *st_metadata;                 /* __metadata__ of the first safetensors file with one */
    fx_file *text[FX_TEXT_FILES];
};

/* The unsigned little-endian number in p[0, n), n up to 8. */
static inline uint64_t fx_le_read(const char *p, int n)
{
    uint64_t u = 0;

    for (int i = n - 1; i >= 0; i--)
        u = u << 8 | (unsigned char)p[i];
    return u;
}

/* Bytes of a value in the file; 0: not fixed (strings, arrays). */
extern const uint8_t fx_meta_bytes[FX_META_TYPES];
/* Reads the value of m->type at p, which must have been checked; where it ends. */
const char *fx_meta_decode(const char *p, fx_meta *m);

/* Maps 'path' and adds it to w->files. */
fx_status fx_weights_map(fx_weights *w, const char *path, fx_file **out, fx_error *err);

/* Fills bytes and n_elems from dtype and shape; a sentence about the tensor if they
 * don't go together. */
fx_status fx_weight_measure(fx_weight *t, const char *file, fx_error *err);

/* Adds t, whose file, offset, bytes and name are checked: sets data (a copy if the
 * file's is misaligned) and enters the name, which must be new. */
fx_status fx_weights_add(fx_weights *w, fx_weight *t, fx_error *err);

/* Adds the tensors of a mapped file. */
fx_status fx_gguf_read(fx_weights *w, fx_file *file, fx_error *err);
/* n keys with their values, which must be all of 'bytes'. */
fx_status fx_gguf_read_keys(fx_weights *w, fx_str bytes, uint64_t n, fx_error *err);
int fx_gguf_type_number(fx_dtype t);                 /* as it stands in GGUF files; -1: in none */
fx_status fx_safetensors_read(fx_weights *w, fx_file *file, fx_error *err);
/* path is a folder, or a tokenizer.json. */
fx_status fx_hub_read(fx_weights *w, const char *path, fx_error *err);
/* Layers that quantization_config describes become tensors (requant.c). */
fx_status fx_hub_requant(fx_weights *w, fx_error *err);

/* Parses JSON text, of a file or a part of one, whose outermost value must be an object. */
fx_status fx_format_json(json_t **out, const char *where, fx_str text, size_t flags, fx_error *err);

#endif
