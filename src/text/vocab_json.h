/* vocab_json.h - the two big tables of a tokenizer.json, read without a JSON tree.
 *
 * model.vocab and model.merges are most of the file (some hundred thousand short
 * strings); here they are scanned into flat arrays, and the rest of the file is
 * handed back with null in their place, for an ordinary parser. */
#ifndef FX_VOCAB_JSON_H
#define FX_VOCAB_JSON_H

#include "base/status.h"
#include "base/str.h"
#include "text/bpe.h"

typedef struct fx_vocab_entry {
    fx_str text;                    /* borrows from the JSON text, or from 'scratch' */
    double value;                   /* id, or score where the table is a list */
} fx_vocab_entry;

typedef struct fx_vocab_json {
    const fx_mem *mem;
    FX_VEC(fx_vocab_entry) entries;
    FX_VEC(fx_merge_text) merges;
    bool has_vocab, has_merges;
    bool is_list;                   /* vocab is [[piece, score], ..]: the id is the index */
    fx_buf rest;
    char *scratch;                  /* strings that were written with escapes; as long as the file */
    size_t scratch_n, scratch_cap;
} fx_vocab_json;

/* 'json' is borrowed until done. Malformed tables are FORNAX_EFORMAT; malformed JSON
 * around them is left for the parser of 'rest' to report. */
fx_status fx_vocab_json_read(fx_vocab_json *v, const fx_mem *mem, fx_str json, fx_error *err);
void fx_vocab_json_done(fx_vocab_json *v);

#endif
