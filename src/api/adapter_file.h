/* adapter_file.h - what an adapter's files say, whichever form they have.
 *
 * Readers (adapter_peft.c, adapter_gguf.c) fill a list of entries, each a pair of matrices for a
 * place in the network (models/places.h); adapter.c finds them for the program's matrices. */
#ifndef FX_ADAPTER_FILE_H
#define FX_ADAPTER_FILE_H

#include "api/api.h"
#include "models/places.h"

typedef enum fx_lora_form {
    FX_LORA_PRODUCT,             /* a [rank, k], b [n, rank] */
    FX_LORA_TABLE,               /* a [rank, n], b [k, rank], of a table of n rows */
    FX_LORA_STACK                /* of all experts */
} fx_lora_form;

/* Element (expert, row, col) of a matrix is at[expert * each + row * rows + col * cols]. */
typedef struct fx_lora_view {
    const fx_weight *of;
    int64_t each, rows, cols;
} fx_lora_view;

typedef struct fx_lora_entry {
    fx_str name;                 /* for messages, as in the file */
    fx_place place;
    fx_lora_form form;
    fx_lora_view a, b;
    int64_t rank, k, n, experts; /* k columns and n rows of the matrix it adds to; experts 1: one */
    double scale;
    bool used;
} fx_lora_entry;

typedef struct fx_lora_file {
    fornax_model *model;
    const char *path;            /* for messages: the file with the tensors */
    fx_places places;
    fx_weights *w;
    fx_arena arena;
    fx_map pairs;                /* readers: an entry's name to its number */
    fx_lora_entry *entries;
    size_t n;
} fx_lora_file;

fx_status fx_lora_read_peft(fx_lora_file *f, const char *folder, fx_error *err);
fx_status fx_lora_read_gguf(fx_lora_file *f, const char *path, fx_error *err);

/* For readers: the entry of this name, made if there is none; NULL: no memory (a list as long as the file's). */
fx_lora_entry *fx_lora_entry_of(fx_lora_file *f, fx_str name);
/* A fault of a tensor or module: "FILE: NAME: ..." */
fx_status fx_lora_fault(const fx_lora_file *f, fx_str name, fx_status st, fx_error *err, const char *fmt, ...) FX_PRINTF(5, 6);
/* Both matrices are there, and are such as can be read: floats or blocks, of this rank (axes). */
fx_status fx_lora_check_pair(const fx_lora_file *f, const fx_lora_entry *e, int axes, fx_error *err);

#endif
