/* mix.h - which type each tensor of a quantized GGUF gets.
 *
 *     const fx_mix *mix = fx_mix_find(FX_STR("q4_k_m"));
 *     FX_TRY(fx_mix_types(mix, w, false, types, err));
 *
 * The choice is that of llama.cpp's quantizer, whose names these are (q3_k, q4_k and q5_k
 * mean the _m mixes there, and here): embeddings that serve as output matrix, attention
 * values and down projections get more bits.  Only matrices ("...weight" of two or more axes)
 * that aren't norms, routers or positions change; others are kept as they are.  A tensor whose
 * rows aren't whole blocks gets the nearest type of 32-blocks, or f16. */
#ifndef FX_MIX_H
#define FX_MIX_H

#include "format/weights.h"

typedef struct fx_mix {
    const char *name;            /* "q4_k_m" */
    fx_dtype base;
    int file_type;               /* general.file_type */
} fx_mix;

const fx_mix *fx_mix_find(fx_str name);           /* upper or lower case; NULL: none */
size_t fx_mix_count(void);
const fx_mix *fx_mix_at(size_t i);

/* Whether a tensor keeps its type in every mix. */
bool fx_mix_keeps(const fx_weight *t);
/* types[i] for each tensor of w; pure: the base type for all that change, as far as it fits. */
fx_status fx_mix_types(const fx_mix *mix, const fx_weights *w, bool pure, fx_dtype *types, fx_error *err);

#endif
