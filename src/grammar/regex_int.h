/* regex_int.h - what the files of the regex engine share: the pool's nodes.
 *
 * A node is 20 bytes; kids of alternatives and conjunctions, byte sets and machines lie in arrays
 * beside.  Invariants: kids are sorted and distinct, an alternative holds at most one byte set, a
 * concatenation leans to the right, no node but NONE is built from NONE where the result is NONE. */
#ifndef FX_GRAMMAR_REGEX_INT_H
#define FX_GRAMMAR_REGEX_INT_H

#include "grammar/regex.h"

typedef enum fx_re_kind {
    FX_RE_K_NONE,
    FX_RE_K_EMPTY,
    FX_RE_K_SET,                /* a: index of the byte set */
    FX_RE_K_CAT,                /* a, b */
    FX_RE_K_ALT,                /* a: first kid, b: how many */
    FX_RE_K_AND,
    FX_RE_K_NOT,                /* a */
    FX_RE_K_REPEAT,             /* a; b: min, c: max */
    FX_RE_K_MACHINE             /* a: index of the machine; b, c: state, low and high half */
} fx_re_kind;

enum {
    FX_RE_F_NULLABLE = 1,
    FX_RE_F_CHECK = 2,          /* holds and, not or a machine: may be empty without being NONE */
    FX_RE_F_LIVE = 4,           /* proven not empty */
    FX_RE_F_DEAD = 8            /* proven empty */
};

typedef struct fx_re_node {
    uint8_t kind, flags;
    uint16_t depth;             /* how deep derive recurses */
    uint32_t a, b, c;
    uint32_t hash;
} fx_re_node;

typedef struct fx_re_set {
    uint64_t w[4];
} fx_re_set;

typedef struct fx_re_machine_ref {
    const fx_re_machine *m;
    const void *user;
} fx_re_machine_ref;

struct fx_re_pool {
    const fx_mem *mem;
    size_t max_nodes;
    bool failed;
    fx_arena arena;             /* of fx_re_pool_alloc */
    FX_VEC(fx_re_node) nodes;
    FX_VEC(uint32_t) kids;
    FX_VEC(fx_re_set) sets;
    FX_VEC(fx_re_machine_ref) machines;
    FX_VEC(uint32_t) stack;     /* scratch: kids being collected, from the bottom up */
    FX_VEC(uint32_t) spine;     /* scratch: the parts of a concatenation, which may be as long as any text */
    FX_VEC(fx_hash128) prints;  /* fingerprints, as far as asked for; zero: not yet */
    FX_VEC(uint32_t) marks;     /* by node: the search that saw it last */
    uint32_t mark;
    uint32_t *table;            /* node ids + 1, open addressing */
    size_t table_cap;           /* a power of two */
    bool plain;                 /* JSON: only characters that must be escaped are */
    fx_re spelled[2][128];      /* one ASCII character in each spelling; 0: not made */
    fx_re any_rune[2];
};

/* What JSON can't have in a string as it is. */
static inline bool fx_json_escapes(uint32_t rune) { return rune < 0x20 || rune == '"' || rune == '\\'; }

static inline bool fx_re_set_has(const fx_re_set *s, unsigned char b) { return s->w[b >> 6] >> (b & 63) & 1; }
static inline void fx_re_set_add(fx_re_set *s, unsigned char b) { s->w[b >> 6] |= 1ull << (b & 63); }

/* A pool with the same expressions under the same numbers; 'p' must outlive it. NULL: no memory. */
fx_re_pool *fx_re_pool_clone(const fx_re_pool *p);
/* Bit b of *out (b > 0) is set where the derivatives by b-1 and b may differ. */
void fx_re_boundaries(const fx_re_pool *p, fx_re a, fx_re_set *out);
/* Adds the bytes that words of 'a' may begin with, and perhaps some more. */
void fx_re_first(const fx_re_pool *p, fx_re a, fx_re_set *out);
/* Whether 'a' surely has 'want' words or more: counted over short ones, with a bound on the work. */
bool fx_re_has_words(fx_re_pool *p, fx_re a, uint64_t want);
/* 128 bits that equal expressions share, in any pool; false: it holds a machine, or no memory. */
bool fx_re_fingerprint(fx_re_pool *p, fx_re a, fx_hash128 *out);
/* 'a' without the empty string. */
fx_re fx_re_nonempty(fx_re_pool *p, fx_re a);

#endif
