/* pretok_names.h - the pre-tokenizers that GGUF files name in tokenizer.ggml.pre. */
#ifndef FX_PRETOK_NAMES_H
#define FX_PRETOK_NAMES_H

#include "base/str.h"

typedef struct fx_pretok_name {
    const char *names;              /* separated by blanks */
    const char *patterns[8];        /* each cuts what the ones before left, matches isolated */
    bool nfc;                       /* the model's own tokenizer normalizes to NFC first */
    bool ignore_merges;
    bool add_bos;                   /* where the file doesn't say */
} fx_pretok_name;

const fx_pretok_name *fx_pretok_find(fx_str name);      /* NULL: unknown; "" is "default" */

#endif
