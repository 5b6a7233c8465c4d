/* regex_ecma.h - the tree of an ECMA-262 pattern, between its reader and its meaning. */
#ifndef FX_GRAMMAR_REGEX_ECMA_H
#define FX_GRAMMAR_REGEX_ECMA_H

#include "grammar/regex.h"

typedef enum fx_ecma_kind {
    FX_ECMA_CLASS,              /* one character of 'ranges' */
    FX_ECMA_SEQ,                /* kids in a row; none: the empty string */
    FX_ECMA_ALT,                /* one of the kids */
    FX_ECMA_REPEAT,             /* kid 0, min..max times */
    FX_ECMA_START,
    FX_ECMA_END,
    FX_ECMA_EDGE,               /* \b; negated: \B */
    FX_ECMA_LOOK                /* kid 0 matches here; negated: doesn't */
} fx_ecma_kind;

typedef struct fx_ecma_node fx_ecma_node;
struct fx_ecma_node {
    fx_ecma_kind kind;
    bool negated;
    bool looks;                 /* an EDGE or LOOK is within */
    uint32_t min, max;
    size_t offset;              /* in the pattern, for messages */
    fx_rune_range *ranges;      /* in the arena, as are kids */
    fx_ecma_node **kids;
    size_t n;                   /* of ranges or kids */
};

fx_status fx_ecma_parse(fx_ecma_node **out, fx_arena *arena, fx_str pattern, bool *has_edge, fx_error *err);

typedef FX_VEC(fx_rune_range) fx_rune_ranges;
/* The characters of \p{name}, appended; FORNAX_EUNSUP: no such property. */
fx_status fx_ecma_property(fx_rune_ranges *out, const fx_mem *mem, fx_str name, fx_error *err);

#endif
