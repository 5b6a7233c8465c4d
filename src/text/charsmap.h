/* charsmap.h - SentencePiece's compiled table of character replacements.
 *
 * The table is a trie in an array of 32-bit units (the double array of Darts) and a block
 * of zero-terminated replacements.  Nothing in it is trusted: every step is held
 * against the array, and a walk ends after FX_CHARSMAP_LONGEST bytes. */
#ifndef FX_CHARSMAP_H
#define FX_CHARSMAP_H

#include "base/status.h"
#include "base/str.h"

#define FX_CHARSMAP_LONGEST 64

typedef struct fx_charsmap {
    const unsigned char *units;     /* [n_units] little-endian, unaligned; NULL: no table */
    size_t n_units;
    fx_str texts;
} fx_charsmap;

/* 'blob' is borrowed: u32 bytes of units, units, replacements. An empty one is no table. */
fx_status fx_charsmap_init(fx_charsmap *m, fx_str blob, const char *where, fx_error *err);
/* Bytes at the start of s that have a replacement (*out), 0: none.  longest: the
 * longest such prefix, else the shortest. */
size_t fx_charsmap_match(const fx_charsmap *m, fx_str s, bool longest, fx_str *out);

#endif
