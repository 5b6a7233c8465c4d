/* tokenizer.h - text to token ids and back, from a vocabulary that someone else found.
 *
 * Knows no files: built from the bytes of a tokenizer.json (+ tokenizer_config.json)
 * or from the arrays of a GGUF header.  Immutable once built; any thread may use it.
 *
 *     fx_tokenizer *t;
 *     fx_tokenizer_from_json(&t, mem, json, config_json, err);
 *     fx_tokenizer_encode(t, text, NULL, 0, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, &ids, err);
 *
 * Data spans: inside them the spellings of special tokens are ordinary text
 * (a chat template's strings that come from messages; DESIGN "text"). */
#ifndef FX_TOKENIZER_H
#define FX_TOKENIZER_H

#include "base/status.h"
#include "base/str.h"

typedef struct fx_tokenizer fx_tokenizer;

typedef struct fx_ids {            /* growing array of ids; memory from its mem */
    int32_t *at;
    size_t n, cap;
    const fx_mem *mem;
} fx_ids;
void fx_ids_init(fx_ids *ids, const fx_mem *mem);
void fx_ids_done(fx_ids *ids);
bool fx_ids_push(fx_ids *ids, int32_t id);

/* What a GGUF header holds of a tokenizer (all borrowed during the call). */
typedef struct fx_gguf_vocab {
    fx_str model;                  /* tokenizer.ggml.model: "gpt2", "llama", "bert", ... */
    fx_str pre;                    /* tokenizer.ggml.pre: "smollm", "qwen2", "llama-bpe", ... or "" */
    const fx_str *tokens;          /* [n] */
    size_t n;
    const int32_t *types;          /* [n] or NULL: 1 normal 2 unknown 3 control 4 user 5 unused 6 byte */
    const float *scores;           /* [n] or NULL */
    const fx_str *merges;          /* [n_merges] "a b" */
    size_t n_merges;
    int64_t bos, eos, eot, eom, unk, pad;   /* -1: absent */
    int64_t cls, sep;
    int add_bos, add_eos, add_space_prefix, remove_extra;   /* -1: absent; the last: remove_extra_whitespaces */
    fx_str charsmap;               /* precompiled_charsmap, or empty */
} fx_gguf_vocab;

fx_status fx_tokenizer_from_gguf(fx_tokenizer **out, const fx_mem *mem, const fx_gguf_vocab *v, fx_error *err);
/* The other way round: what a GGUF header would hold of t, in 'a' and in t; n_ids at least (an embedding table may
 * have more rows than there are tokens).  eot and eom stay -1.  EUNSUP: a header can't say what t does. */
fx_status fx_tokenizer_to_gguf(const fx_tokenizer *t, size_t n_ids, fx_arena *a, fx_gguf_vocab *out, fx_error *err);
/* json: tokenizer.json; config: tokenizer_config.json or an empty string. */
fx_status fx_tokenizer_from_json(fx_tokenizer **out, const fx_mem *mem, fx_str json, fx_str config, fx_error *err);
/* The files of a folder that has a tokenizer.model and no tokenizer.json; what isn't there is empty. */
typedef struct fx_spm_texts {
    fx_str model;                  /* tokenizer.model */
    fx_str config;                 /* tokenizer_config.json */
    fx_str special;                /* special_tokens_map.json */
    fx_str added;                  /* added_tokens.json */
} fx_spm_texts;
/* Without a configuration as SentencePiece has it: control tokens' spellings are text. */
fx_status fx_tokenizer_from_spm(fx_tokenizer **out, const fx_mem *mem, const fx_spm_texts *texts, fx_error *err);
void fx_tokenizer_free(fx_tokenizer *t);

typedef struct fx_span {           /* bytes [begin, end) of a text */
    size_t begin, end;
} fx_span;

enum {
    FX_ENCODE_SPECIAL = 1,         /* match special tokens' spellings (outside data spans) */
    FX_ENCODE_ADD = 2              /* begin/end tokens as the post-processor says */
};
/* Appends to 'ids'. data: ascending, disjoint. Text may hold any bytes. */
fx_status fx_tokenizer_encode(const fx_tokenizer *t, fx_str text, const fx_span *data, size_t n_data, unsigned flags,
                              fx_ids *ids, fx_error *err);

size_t fx_tokenizer_size(const fx_tokenizer *t);            /* ids are 0..size-1 (holes are empty) */
fx_str fx_tokenizer_bytes(const fx_tokenizer *t, int32_t id); /* bytes in running text; p NULL: no such id */
fx_str fx_tokenizer_spelling(const fx_tokenizer *t, int32_t id); /* as the vocabulary file spells it */
bool fx_tokenizer_special(const fx_tokenizer *t, int32_t id); /* control token: not part of the text */
int32_t fx_tokenizer_find(const fx_tokenizer *t, fx_str spelling);   /* -1: none */
int32_t fx_tokenizer_bos(const fx_tokenizer *t);            /* -1: none */
int32_t fx_tokenizer_eos(const fx_tokenizer *t);            /* the file's own; api adds generation_config's */
int32_t fx_tokenizer_unk(const fx_tokenizer *t);
int32_t fx_tokenizer_pad(const fx_tokenizer *t);

/* Streaming decoder: never emits part of a character, never loses a byte (what can't
 * become a character comes out as U+FFFD, as the reference decodes). One per stream. */
typedef struct fx_detok {
    const fx_tokenizer *t;
    bool skip_special, first;
    unsigned char tail[16];        /* bytes of a character not yet complete */
    size_t n_tail;
    size_t strip, held;            /* blanks still to leave out at the start; kept back at the end */
} fx_detok;
void fx_detok_init(fx_detok *d, const fx_tokenizer *t, bool skip_special);
void fx_detok_push(fx_detok *d, int32_t id, fx_buf *out);   /* appends what is certain */
void fx_detok_flush(fx_detok *d, fx_buf *out);              /* the rest */

/* All ids at once, appended to 'out' (check out->failed).  The same text as a stream's,
 * but where a run of byte tokens (<0x41>) isn't UTF-8: here each of them becomes U+FFFD,
 * as the reference has it; a stream has already given out the run's whole characters.
 * Where SentencePiece's own file is the reference, both are the same. */
void fx_tokenizer_decode(const fx_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, fx_buf *out);

#endif
