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
/* The name of what cuts by these n patterns, and is like 'traits' otherwise (add_bos aside); empty: it has none. */
fx_str fx_pretok_name_of(const fx_str *patterns, size_t n, const fx_pretok_name *traits);

#endif
