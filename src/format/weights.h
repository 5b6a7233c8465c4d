/* weights.h - a model file or folder as named, bounds-checked views of mapped bytes.
 *
 * Opens a .gguf file, a .safetensors file, a hub folder (config.json and
 * model.safetensors, or shards with model.safetensors.index.json), or, for tokenizer
 * and template only, a tokenizer.json.  Everything a file claims is checked against
 * its bytes here; who uses a view needn't check again.
 *
 *     fx_weights *w;
 *     FX_TRY(fx_weights_open(&w, mem, path, 0, err));
 *     const fx_weight *t = fx_weights_find(w, FX_STR("blk.0.attn_q.weight"));
 *     FX_TRY(fx_meta_i64(w, "llama.block_count", &layers, err));       GGUF
 *     FX_TRY(fx_config_i64(w, "num_hidden_layers", &layers, err));     hub folder
 *     fx_weights_close(w);
 *
 * Shapes are row-major, outermost dimension first, for both formats (GGUF files list
 * them the other way round).  Knows nothing of architectures.
 *
 * Owns the mapped files, the parsed JSON and its arena; every pointer handed out is
 * borrowed until close.  Immutable once open: any number of threads. */
#ifndef FX_WEIGHTS_H
#define FX_WEIGHTS_H

#include <jansson.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/status.h"
#include "base/str.h"
#include "base/text.h"
#include "tensor/dtype.h"

typedef struct fx_weights fx_weights;

typedef enum fx_weights_kind {
    FX_WEIGHTS_GGUF,
    FX_WEIGHTS_SAFETENSORS,      /* a single file, no configuration */
    FX_WEIGHTS_HUB               /* a folder */
} fx_weights_kind;

enum {
    FX_OPEN_HEADERS = 1,         /* metadata, configuration and texts only: tensors aren't looked
                                    at and needn't be there; config.json is optional */
    FX_OPEN_INSPECT = 2          /* tensors are listed and checked, but data may be misaligned;
                                    config.json is optional */
};

fx_status fx_weights_open(fx_weights **out, const fx_mem *mem, const char *path, unsigned flags,
                          fx_error *err);
void fx_weights_close(fx_weights *w);

fx_weights_kind fx_weights_kind_of(const fx_weights *w);
const char *fx_weights_path(const fx_weights *w);        /* as given to open */

/* ---- Tensors ------------------------------------------------------------------------- */

#define FX_WEIGHT_RANK 8

typedef struct fx_weight {
    fx_str name;
    fx_dtype dtype;
    int rank;
    int64_t shape[FX_WEIGHT_RANK];   /* [0, rank) row-major, outermost first; the rest are 1 */
    const void *data;            /* aligned for dtype (see FX_OPEN_INSPECT) */
    size_t bytes;                /* n_elems / block_elems * block_bytes */
    int64_t n_elems;
    uint64_t offset;             /* of the data in its file */
    const fx_file *file;
    bool copied;                 /* the file holds it misaligned; data is a copy in memory */
    bool made;                   /* from several tensors of the file; offset is that of its codes */
} fx_weight;

/* A GGUF that is in no file: n_keys keys with their values as in a head (copied), and tensors whose data lies elsewhere
 * (with the files they name) for longer than this. 'path' is for sentences. */
fx_status fx_weights_make(fx_weights **out, const fx_mem *mem, const char *path, fx_str keys, uint64_t n_keys,
                          const fx_weight *tensors, size_t n, fx_error *err);

size_t fx_weights_count(const fx_weights *w);
const fx_weight *fx_weights_at(const fx_weights *w, size_t i);              /* in file order */
const fx_weight *fx_weights_find(const fx_weights *w, fx_str name);         /* NULL: none */

/* The mapped weight files, in order, and the sum of their sizes. */
size_t fx_weights_files(const fx_weights *w);
const fx_file *fx_weights_file(const fx_weights *w, size_t i);
uint64_t fx_weights_file_bytes(const fx_weights *w);
/* t has been packed elsewhere: its pages needn't stay resident (it remains readable). */
void fx_weights_release(const fx_weights *w, const fx_weight *t);

/* ---- GGUF metadata --------------------------------------------------------------------- */

typedef enum fx_meta_type {      /* numbers as in the file */
    FX_META_U8, FX_META_I8, FX_META_U16, FX_META_I16, FX_META_U32, FX_META_I32, FX_META_F32,
    FX_META_BOOL, FX_META_STR, FX_META_ARRAY, FX_META_U64, FX_META_I64, FX_META_F64,
    FX_META_TYPES
} fx_meta_type;

typedef struct fx_meta {
    fx_str key;
    fx_meta_type type;
    union {
        uint64_t u;              /* U8 .. U64 */
        int64_t i;               /* I8 .. I64 */
        double f;
        bool b;
        fx_str s;                /* bytes as in the file, not checked to be UTF-8 */
        struct {
            fx_meta_type type;   /* of the elements */
            uint64_t n;
            fx_str bytes;        /* of the elements, unaligned */
        } array;
    } v;
} fx_meta;

const char *fx_meta_type_name(fx_meta_type t);                          /* "u8" .. "f64" */
size_t fx_meta_count(const fx_weights *w);                              /* 0 if not GGUF */
const fx_meta *fx_meta_at(const fx_weights *w, size_t i);               /* in file order */
const fx_meta *fx_meta_find(const fx_weights *w, const char *key);      /* NULL: none */
int fx_meta_version(const fx_weights *w);                               /* of the format: 2, 3; 0: not GGUF */

/* Typed lookups.  FORNAX_ENOTFOUND: no such key; FORNAX_EFORMAT: another type, or out
 * of range; both with a sentence.  Any integer type will do for i64, any number for
 * f64; 0 and 1 aren't bools. */
fx_status fx_meta_i64(const fx_weights *w, const char *key, int64_t *out, fx_error *err);
fx_status fx_meta_f64(const fx_weights *w, const char *key, double *out, fx_error *err);
fx_status fx_meta_bool(const fx_weights *w, const char *key, bool *out, fx_error *err);
fx_status fx_meta_str(const fx_weights *w, const char *key, fx_str *out, fx_error *err);
/* The same for keys that may be missing: then FORNAX_OK and *io stays as it was. */
fx_status fx_meta_opt_i64(const fx_weights *w, const char *key, int64_t *io, fx_error *err);
fx_status fx_meta_opt_f64(const fx_weights *w, const char *key, double *io, fx_error *err);
fx_status fx_meta_opt_bool(const fx_weights *w, const char *key, bool *io, fx_error *err);
fx_status fx_meta_opt_str(const fx_weights *w, const char *key, fx_str *io, fx_error *err);

/* Arrays, made anew in the caller's arena.  Strings point into the file.  Integers of
 * any type that fit in 32 bits will do for i32; any number for f32.  A missing key is
 * FORNAX_ENOTFOUND (test with fx_meta_find if it may be). */
fx_status fx_meta_strs(const fx_weights *w, const char *key, fx_arena *a, fx_str **out, size_t *n, fx_error *err);
fx_status fx_meta_i32s(const fx_weights *w, const char *key, fx_arena *a, int32_t **out, size_t *n, fx_error *err);
fx_status fx_meta_f32s(const fx_weights *w, const char *key, fx_arena *a, float **out, size_t *n, fx_error *err);
fx_status fx_meta_bools(const fx_weights *w, const char *key, fx_arena *a, bool **out, size_t *n, fx_error *err);

/* Walks an array in place; each element as a fx_meta without a key (arrays may hold arrays). */
typedef struct fx_meta_iter {
    const char *p;
    uint64_t left;
    fx_meta_type type;
} fx_meta_iter;
fx_meta_iter fx_meta_iter_of(const fx_meta *array);
bool fx_meta_next(fx_meta_iter *it, fx_meta *element);          /* false: no more */

/* ---- Hub folders ------------------------------------------------------------------------ */

/* Borrowed JSON objects; NULL if there is no such file. */
json_t *fx_weights_config(const fx_weights *w);
json_t *fx_weights_generation_config(const fx_weights *w);
/* __metadata__ (texts by name) of the first safetensors file that has one; NULL: none. */
json_t *fx_weights_st_metadata(const fx_weights *w);

/* Keys may be paths through objects: "rope_scaling.factor".
 * null counts as missing.  A number with integral value will do for i64, any for f64. */
json_t *fx_config_find(const fx_weights *w, const char *path);          /* NULL: missing */
bool fx_config_is_null(const fx_weights *w, const char *path);          /* it is there, as null */
fx_status fx_config_i64(const fx_weights *w, const char *path, int64_t *out, fx_error *err);
fx_status fx_config_f64(const fx_weights *w, const char *path, double *out, fx_error *err);
fx_status fx_config_bool(const fx_weights *w, const char *path, bool *out, fx_error *err);
fx_status fx_config_str(const fx_weights *w, const char *path, fx_str *out, fx_error *err);
fx_status fx_config_opt_i64(const fx_weights *w, const char *path, int64_t *io, fx_error *err);
fx_status fx_config_opt_f64(const fx_weights *w, const char *path, double *io, fx_error *err);
fx_status fx_config_opt_bool(const fx_weights *w, const char *path, bool *io, fx_error *err);
fx_status fx_config_opt_str(const fx_weights *w, const char *path, fx_str *io, fx_error *err);
/* A number or a list of numbers (eos_token_id), as ids; *n 0 if missing.
 * 'object' is one of the two JSON objects above, or NULL (missing). */
fx_status fx_config_ids(const fx_weights *w, json_t *object, const char *key, fx_arena *a, int32_t **out,
                        size_t *n, fx_error *err);

typedef enum fx_text_file {
    FX_TEXT_TOKENIZER,           /* tokenizer.json */
    FX_TEXT_TOKENIZER_CONFIG,    /* tokenizer_config.json */
    FX_TEXT_TEMPLATE,            /* chat_template.jinja */
    FX_TEXT_TEMPLATE_JSON,       /* chat_template.json: {"chat_template": text} */
    FX_TEXT_SPECIAL_TOKENS,      /* special_tokens_map.json */
    FX_TEXT_ADDED_TOKENS,        /* added_tokens.json */
    FX_TEXT_SENTENCEPIECE,       /* tokenizer.model */
    FX_TEXT_VOCAB_JSON,          /* vocab.json */
    FX_TEXT_MERGES,              /* merges.txt */
    FX_TEXT_VOCAB_TXT,           /* vocab.txt */
    FX_TEXT_MODULES,             /* modules.json: the stages of a sentence embedder */
    FX_TEXT_FILES
} fx_text_file;

const char *fx_text_file_name(fx_text_file t);
/* The file's bytes as they are; p NULL if the folder has none (always so for GGUF). */
fx_str fx_weights_text(const fx_weights *w, fx_text_file t);

#endif
