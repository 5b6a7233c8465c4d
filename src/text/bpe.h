/* bpe.h - byte-pair encoding: the table of merges, and merging one word.
 *
 * A word starts as one symbol a character (or a byte, in byte-level models).
 * The pair with the lowest rank, leftmost first, is merged until no pair is in
 * the table.  Short words look for the lowest rank by walking; longer ones keep
 * the pairs in a heap over a linked list, so that n symbols take O(n log n). */
#ifndef FX_BPE_H
#define FX_BPE_H

#include "text/tokenizer.h"
#include "text/vocab.h"

typedef struct fx_merge {
    int32_t left, right;            /* left -1: empty slot */
    uint32_t rank;
    int32_t merged;
} fx_merge;

typedef struct fx_bpe {
    fx_merge *merges;               /* [mask + 1], open addressing by (left, right) */
    size_t mask;
    int32_t byte_ids[256];          /* byte-level: of a byte; else: of an ASCII character; -1: none */
    int32_t fallback[256];          /* ids of "<0x00>".., -1: none */
    bool bytes;                     /* words are raw bytes, in GPT-2's alphabet */
    bool byte_fallback, fuse_unk, ignore_merges;
    int32_t unk;                    /* -1: unknown characters are left out */
    bool unk_missing;               /* an unknown token is named but not there: unknown characters are an error */
    fx_str prefix, suffix;          /* continuing_subword_prefix, end_of_word_suffix */
    size_t longest;                 /* bytes of the longest spelling */
} fx_bpe;

typedef struct fx_merge_text {      /* spellings of a merge's two sides */
    fx_str left, right;
} fx_merge_text;

/* Fills the table from spellings, in order of rank.  'where' begins the error text. */
fx_status fx_bpe_init(fx_bpe *b, fx_arena *arena, const fx_vocab *v, const fx_merge_text *merges, size_t n,
                      const char *where, fx_error *err);

/* The same from scores, as SentencePiece merges: two neighbours become the piece that they
 * spell together, the one with the highest score first.  usable[id]: may be merged. */
fx_status fx_bpe_init_scored(fx_bpe *b, fx_arena *arena, const fx_vocab *v, const float *scores, const bool *usable,
                             const char *where, fx_error *err);

typedef struct fx_symbol {
    int32_t id;                     /* -1: merged into an earlier one */
    int32_t prev, next;             /* indices; -1: none */
    uint32_t rank;                  /* of the pair that begins here; UINT32_MAX: no merge */
    int32_t merged;                 /* what that pair becomes */
} fx_symbol;

typedef struct fx_best {            /* unigram.c: the best way to arrive at a position */
    double score;
    int32_t from, id, next_id;      /* where its last piece begins (-1: no way), and that piece */
} fx_best;

typedef struct fx_bpe_work {        /* scratch that grows with the longest word */
    const fx_mem *mem;
    FX_VEC(fx_best) best;
    FX_VEC(fx_symbol) symbols;
    FX_VEC(uint64_t) heap;          /* rank << 32 | index */
    fx_buf text;
    bool unknown;                   /* a character met bpe.unk_missing */
} fx_bpe_work;
void fx_bpe_work_init(fx_bpe_work *w, const fx_mem *mem);
void fx_bpe_work_done(fx_bpe_work *w);

/* Appends the word's ids.  False: no memory.  At most INT32_MAX bytes. */
bool fx_bpe_encode(const fx_bpe *b, const fx_vocab *v, fx_str word, fx_bpe_work *w, fx_ids *ids);

#endif
