/* gvocab.h - a tokenizer's vocabulary prepared for masks: tries of its tokens' bytes, and the caches.
 *
 * A trie lies flat in depth-first order: a node's kids follow it, 'end' is where its subtree ends.  There are
 * two: of all tokens, and of the rest, which aren't *interior*.  A token is interior when it is whole
 * characters that stand for themselves inside a JSON string (no quote, backslash, control, U+2028, U+2029). */
#ifndef FX_GRAMMAR_GVOCAB_H
#define FX_GRAMMAR_GVOCAB_H

#include <pthread.h>
#include <stdatomic.h>

#include "grammar/matcher.h"

#define FX_TRIE_NONE UINT32_MAX

typedef struct fx_trie_node {
    uint32_t end;
    int32_t token;              /* that ends here; others with the same bytes in 'same'; -1: none */
    uint16_t depth;             /* 1: below the root */
    uint8_t byte;
    bool same;                  /* the token has others with the same bytes */
} fx_trie_node;

typedef struct fx_trie {
    fx_trie_node *at;           /* 0 is the root */
    uint32_t n, cap;
} fx_trie;

/* A set of tokens; immutable, counted. */
typedef struct fx_bits {
    atomic_uint refs;
    bool dense;
    uint32_t n;                 /* ids, or words */
    uint32_t at[];
} fx_bits;

typedef struct fx_tail {        /* tokens go on behind these nodes, after the end of an expression */
    uint32_t first, n;          /* in the walk's 'nodes'; bit 31 of a node: in the trie of the rest */
    uint32_t re;                /* the expression when it was done; 0: whatever it is */
} fx_tail;
#define FX_NODE_REST 0x80000000u

/* What a walk of the trie found (mask.c): the same for every grammar that has the expression. */
typedef struct fx_found {
    atomic_uint refs;
    fx_hash128 print;           /* zero: of one grammar only */
    struct fx_found *next;      /* in the table */
    fx_bits *bits;
    uint32_t n_tails, n_nodes;
    fx_tail *tails;
    uint32_t *nodes;
    size_t bytes;
} fx_found;

#define FX_SLICES 128

struct fx_gvocab {
    const fx_mem *mem;
    atomic_uint refs;
    size_t n, words;
    fx_str *bytes;              /* by id, own copies; n 0: never allowed as text */
    char *text;
    size_t text_bytes;
    uint8_t *special;           /* by id */
    int32_t *eos;
    size_t n_eos, eos_cap;
    int32_t *same;              /* by id: the next one with the same bytes, or -1 */
    size_t max_len;             /* bytes of the longest token */
    fx_trie all, rest;
    uint32_t *twin;             /* by node of 'all': the node of 'rest' with the same bytes, or NONE */
    int32_t *interior;          /* interior tokens in the order of 'all' */
    uint32_t *interior_from;    /* by node of 'all', and one more: where its subtree's begin there */
    fx_bits *slices[FX_SLICES + 1];     /* interior tokens of at most k characters; the last: all */
    size_t n_interior, max_chars;
    size_t cache_cap;
    pthread_mutex_t lock;       /* of what follows */
    fx_found **table;
    size_t table_cap, n_found;
    atomic_size_t bytes_cached;
};

fx_bits *fx_bits_new(const fx_gvocab *v, bool dense, uint32_t n);
void fx_bits_unref(const fx_gvocab *v, fx_bits *b);
static inline fx_bits *fx_bits_ref(fx_bits *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}
size_t fx_bits_bytes(const fx_bits *b);
void fx_found_unref(const fx_gvocab *v, fx_found *f);
/* The table's walk with this fingerprint, with a reference for the caller; NULL: none. */
fx_found *fx_gvocab_find(fx_gvocab *v, fx_hash128 print);
/* Puts it in the table, which takes a reference of its own; over the cap, ones that nobody uses go. */
void fx_gvocab_keep(fx_gvocab *v, fx_found *f);
/* A dense set with these words, shared with whoever has the same. NULL: no memory. */
fx_bits *fx_gvocab_intern(fx_gvocab *v, const uint32_t *words);
void fx_gvocab_charge(fx_gvocab *v, ptrdiff_t bytes);   /* memory of a grammar's own walks and masks */
bool fx_gvocab_full(fx_gvocab *v);

#endif
