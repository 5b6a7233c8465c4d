/* runes.h - what kind of character a code point is, as tokenizers ask. */
#ifndef FX_RUNES_H
#define FX_RUNES_H

#include "base/compiler.h"

bool fx_rune_is_space(uint32_t r);          /* White_Space */
bool fx_rune_is_numeric(uint32_t r);        /* Nd, Nl, No */
bool fx_rune_is_punctuation(uint32_t r);    /* P*, or an ASCII symbol */
bool fx_rune_is_mark(uint32_t r);           /* M* */
bool fx_rune_is_nonspacing(uint32_t r);     /* Mn */
bool fx_rune_is_other(uint32_t r);          /* Cc, Cf, Cs, Co: controls in BERT's sense */
bool fx_rune_is_word(uint32_t r);           /* \w: Alphabetic (nearly), M, Nd, Pc, joiners */
bool fx_rune_is_cjk(uint32_t r);            /* the ideographs that BERT sets apart */
int fx_rune_lower(uint32_t r, uint32_t out[2]);     /* how many */

#endif
