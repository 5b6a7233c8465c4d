/* ebnf_int.h - the rules of an EBNF text, between its reader (ebnf_parse.c) and the grammar (ebnf.c). */
#ifndef FX_GRAMMAR_EBNF_INT_H
#define FX_GRAMMAR_EBNF_INT_H

#include "grammar/ebnf.h"

typedef enum fx_ebnf_kind {
    FX_EBNF_RE,                 /* re */
    FX_EBNF_NODE,               /* node: a special token or a schema */
    FX_EBNF_REF,                /* rule */
    FX_EBNF_SEQ,                /* kids */
    FX_EBNF_ALT,
    FX_EBNF_REPEAT              /* kid 0, min..max */
} fx_ebnf_kind;

typedef struct fx_ebnf_node fx_ebnf_node;
struct fx_ebnf_node {
    fx_ebnf_kind kind;
    fx_re re;
    fx_gnode node;
    uint32_t rule, min, max;
    size_t offset;
    fx_ebnf_node **kids;
    size_t n;
};

typedef struct fx_ebnf_rule {
    fx_str name;
    fx_ebnf_node *body;         /* NULL: not defined */
    size_t offset;              /* where it is first named */
    bool terminal;              /* Lark, in capitals: nothing is ignored inside */
    enum { FX_EBNF_UNSEEN, FX_EBNF_SEEING, FX_EBNF_REGULAR, FX_EBNF_FREE } state;
    fx_re re, inner;            /* of a regular one: in rules, in terminals; 0: not made */
    fx_gnode node;              /* of one that isn't; 0: not made */
} fx_ebnf_rule;

typedef struct fx_ebnf {
    fx_str text;
    size_t i;
    const char *name;
    const fx_ebnf_options *opt;
    fx_gram_builder *b;
    fx_re_pool *p;
    const fx_mem *mem;
    fx_arena *arena;
    fx_buf *warnings;
    fx_error *err;
    bool lark;
    int depth;
    FX_VEC(fx_ebnf_rule) rules;
    fx_map names;
    fx_ebnf_node *ignored;      /* what %ignore says, as alternatives; NULL: nothing */
} fx_ebnf;

fx_status fx_ebnf_parse(fx_ebnf *e);
fx_status fx_ebnf_bad(fx_ebnf *e, fx_status st, size_t at, const char *what);

#endif
