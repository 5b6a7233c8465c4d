/* unigram.h - the best segmentation of a text into scored pieces.
 *
 * The pieces form a trie; one pass over the text keeps, for each position, the best way
 * to arrive there (Viterbi), so time is linear in the text and the longest piece. */
#ifndef FX_UNIGRAM_H
#define FX_UNIGRAM_H

#include "text/bpe.h"

typedef struct fx_edge {
    uint32_t key;                   /* node << 8 | byte; UINT32_MAX: empty */
    uint32_t child;
} fx_edge;

typedef struct fx_unigram {
    const fx_mem *mem;
    double *scores;                 /* [vocab.n when built] */
    fx_edge *edges;                 /* [mask + 1], open addressing */
    size_t mask, n_nodes, cap_nodes;
    int32_t *piece;                 /* [n_nodes] id of the piece that ends at a node, or -1 */
    double unknown_score;
    int32_t unk;                    /* -1: none; a character without a piece is an error */
    bool byte_fallback;
    bool single;                    /* sums are rounded to single precision, as SentencePiece's own */
    int32_t fallback[256];          /* ids of "<0x00>".., -1: none */
} fx_unigram;

/* A piece of the model; 'in_trie' false: never matched in text (control tokens of SentencePiece). */
typedef struct fx_scored {
    double score;
    bool in_trie;
} fx_scored;

/* 'lowest' is the lowest score that unknown characters must stay below. */
fx_status fx_unigram_init(fx_unigram *u, fx_arena *arena, const fx_vocab *v, const fx_scored *pieces, size_t n,
                          double lowest, const char *where, fx_error *err);
void fx_unigram_done(fx_unigram *u);
/* Appends the word's ids; false: no memory, or w->unknown is set. */
bool fx_unigram_encode(const fx_unigram *u, const fx_vocab *v, fx_str word, fx_bpe_work *w, fx_ids *ids);

#endif
