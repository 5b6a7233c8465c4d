/* vocab.h - tokens by id and by spelling, and the byte-level alphabet.
 *
 * All spellings lie in one block of bytes; a token is an offset and a length.
 * The index is an open-addressing table of (hash tag, id).  A spelling that
 * occurs twice is found under its last id, as in the files' own reader. */
#ifndef FX_VOCAB_H
#define FX_VOCAB_H

#include "base/status.h"
#include "base/str.h"

#define FX_NO_TOKEN UINT32_MAX      /* fx_piece.at of an id that has no token */

typedef struct fx_piece {           /* bytes of a block */
    uint32_t at, n;
} fx_piece;

typedef struct fx_vocab_slot {
    uint32_t tag;                   /* upper half of the hash */
    int32_t id;                     /* -1: empty */
    fx_piece text;                  /* the id's, so that a probe needn't look for it */
} fx_vocab_slot;

typedef struct fx_vocab {
    char *block;
    size_t block_n, block_cap;
    fx_piece *pieces;               /* [n] */
    size_t n;                       /* ids are 0..n-1 */
    fx_vocab_slot *slots;           /* [mask + 1] */
    size_t mask;
    uint64_t seed;                  /* differs by process, so that a file can't choose collisions */
} fx_vocab;

/* Room for ids 0..n-1 and 'bytes' bytes of spelling, all ids still without a token. */
bool fx_vocab_init(fx_vocab *v, fx_arena *arena, size_t n, size_t bytes);
/* Sets id's spelling (copied) and indexes it.  The room given to init must suffice. */
void fx_vocab_put(fx_vocab *v, int32_t id, fx_str spelling);
/* The same for bytes that already lie in the block. */
void fx_vocab_put_piece(fx_vocab *v, int32_t id, fx_piece p);
int32_t fx_vocab_find(const fx_vocab *v, fx_str spelling);      /* -1: none */
/* The ids of "<0x00>" to "<0xFF>", -1 where there is none. */
void fx_vocab_find_bytes(const fx_vocab *v, int32_t ids[256]);
/* fx_vocab_find with the hash at hand. Fetching its slot early, and then the text
 * that the slot points to, overlaps the cache misses of many lookups. */
int32_t fx_vocab_find_hashed(const fx_vocab *v, fx_str spelling, uint64_t hash);
static inline uint64_t fx_vocab_hash(const fx_vocab *v, fx_str s) { return fx_hash64(s.p, s.n, v->seed); }
static inline void fx_vocab_prefetch(const fx_vocab *v, uint64_t hash)
{
    FX_PREFETCH(&v->slots[hash & v->mask]);
}
static inline void fx_vocab_prefetch_text(const fx_vocab *v, uint64_t hash)
{
    const fx_vocab_slot *slot = &v->slots[hash & v->mask];

    if (slot->id >= 0)
        FX_PREFETCH(v->block + slot->text.at);
}
static inline fx_str fx_vocab_text(const fx_vocab *v, int32_t id)   /* p NULL: no such token */
{
    if (id < 0 || (size_t)id >= v->n || v->pieces[id].at == FX_NO_TOKEN)
        return (fx_str){ NULL, 0 };
    return (fx_str){ v->block + v->pieces[id].at, v->pieces[id].n };
}

/* GPT-2's alphabet: each byte is written as one printable character (itself, or
 * U+0100 and up).  All take one or two bytes of UTF-8. */
uint32_t fx_bytelevel_rune(unsigned char byte);
int fx_bytelevel_byte(uint32_t rune);            /* -1: not of the alphabet */
/* 'text' in the alphabet, appended. */
void fx_bytelevel_write(fx_buf *out, fx_str text);
/* The bytes that 's' stands for into out[0..s.n); SIZE_MAX if a character isn't of the alphabet. */
size_t fx_bytelevel_read(char *out, fx_str s);

#endif
