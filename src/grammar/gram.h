/* gram.h - the grammar IR: what JSON Schema, regexes, EBNF, choices and tool sets are compiled to.
 *
 * A builder makes nodes bottom-up; references to rules make recursion.  A finished grammar is
 * immutable and counted by reference: any number of matchers on any threads share it.
 *
 *     fx_gram_builder *b = fx_gram_builder_new(mem, &limits);
 *     fx_gnode name = fx_gram_lexeme(b, re);
 *     fx_gnode list = fx_gram_array(b, &(fx_gram_array_spec){ .rest = name, .max = FX_GRAM_INF });
 *     fx_gram_finish(&g, b, list, err);           the builder is gone
 *
 * The language is over bytes and exact: a union keeps all its branches alive, a lexeme ends wherever
 * it may.  Constructors return FX_GNODE_FAIL when memory or a limit ran out and pass it on; finish says which. */
#ifndef FX_GRAMMAR_GRAM_H
#define FX_GRAMMAR_GRAM_H

#include "grammar/regex.h"

typedef uint32_t fx_gnode;
#define FX_GNODE_NEVER ((fx_gnode)0)        /* matches nothing: a forbidden property, an empty union */
#define FX_GNODE_EMPTY ((fx_gnode)1)        /* matches the empty string */
#define FX_GNODE_FAIL ((fx_gnode)UINT32_MAX)
#define FX_GRAM_INF UINT32_MAX

typedef struct fx_gram fx_gram;
typedef struct fx_gram_builder fx_gram_builder;

typedef struct fx_gram_limits {             /* 0: the default */
    size_t max_nodes, max_re_nodes;
    size_t max_bytes;                       /* of the finished grammar with its lazily made states */
    uint32_t max_depth;                     /* of nested frames while matching */
    bool allow_never;                       /* a grammar that matches nothing is finished too: its masks are empty */
} fx_gram_limits;

/* How JSON made from here on is spaced. */
typedef enum fx_gram_space {
    FX_SPACE_COMPACT,                       /* none */
    FX_SPACE_NEAT,                          /* as people write it: behind { [ , and before ] } one space, or a line's end and its
                                             * successor's indentation; behind a colon one space */
    FX_SPACE_BOUNDED,                       /* runs of at most 64 JSON blanks, none before the first or after the last byte */
    FX_SPACE_ANY                            /* any JSON blanks between tokens */
} fx_gram_space;

fx_gram_builder *fx_gram_builder_new(const fx_mem *mem, const fx_gram_limits *limits);   /* NULL: no memory */
void fx_gram_builder_free(fx_gram_builder *b);                 /* when it isn't finished */
fx_re_pool *fx_gram_regexes(fx_gram_builder *b);               /* the pool for this grammar's lexemes */
void fx_gram_set_space(fx_gram_builder *b, fx_gram_space space);
void fx_gram_set_separators(fx_gram_builder *b, fx_str comma, fx_str colon);   /* exact bytes, instead of blanks; p NULL: off */

fx_gnode fx_gram_lexeme(fx_gram_builder *b, fx_re re);
fx_gnode fx_gram_token(fx_gram_builder *b, int32_t id);        /* one special token, which no text matches */
fx_gnode fx_gram_seq(fx_gram_builder *b, const fx_gnode *kids, size_t n);
fx_gnode fx_gram_alt(fx_gram_builder *b, const fx_gnode *kids, size_t n);
fx_gnode fx_gram_repeat(fx_gram_builder *b, fx_gnode kid, uint32_t min, uint32_t max);   /* counted, not unrolled */

/* Recursion: make the rule, use it, define it once.  Left recursion is allowed. */
fx_gnode fx_gram_rule(fx_gram_builder *b, fx_str name /* for messages */);
void fx_gram_define(fx_gram_builder *b, fx_gnode rule, fx_gnode body);

/* A JSON object.  Names are compared decoded, whatever their spelling; no name comes twice. */
typedef struct fx_gram_prop {
    fx_str name;                            /* decoded, UTF-8 */
    fx_gnode value;                         /* FX_GNODE_NEVER: this name is forbidden */
    bool required;
} fx_gram_prop;
typedef struct fx_gram_names {              /* names that aren't declared */
    fx_re name;                             /* the inside of the string, FX_SPELL_JSON */
    fx_gnode value;
    uint32_t marks;                         /* bits of the object's 'marks' that its members bring */
} fx_gram_names;
typedef struct fx_gram_object_spec {
    const fx_gram_prop *props;              /* in declared order */
    size_t n_props;
    const fx_gram_names *others;            /* names or else values disjoint; the engine takes declared names out */
    size_t n_others;
    uint32_t min, max;                      /* members in all; FX_GRAM_INF */
    uint32_t marks;                         /* each bit has to be brought by a member of the others */
    bool any_order;                         /* else declared ones in order, then the others */
} fx_gram_object_spec;
fx_gnode fx_gram_object(fx_gram_builder *b, const fx_gram_object_spec *spec);

/* A JSON array. */
typedef struct fx_gram_contains {           /* between min and max items match 'yes' */
    fx_gnode yes, no;                       /* the item schema with and without it: disjoint languages */
    uint32_t min, max;
} fx_gram_contains;
typedef struct fx_gram_array_spec {
    const fx_gnode *prefix;                 /* items 0..n_prefix-1 */
    size_t n_prefix;
    fx_gnode rest;                          /* later items; FX_GNODE_NEVER: none */
    uint32_t min, max;
    const fx_gram_contains *contains;       /* NULL, or one that replaces 'rest' (prefix empty) */
    bool unique;                            /* no two items equal as JSON values */
} fx_gram_array_spec;
fx_gnode fx_gram_array(fx_gram_builder *b, const fx_gram_array_spec *spec);

/* For arrays that a spec can't say: the blanks that the space policy allows inside of brackets (maybe none),
 * and a comma between items as that policy or the separators spell it. */
fx_gnode fx_gram_blanks(fx_gram_builder *b);
fx_gnode fx_gram_comma(fx_gram_builder *b);

/* Checks that every rule is defined and that the root can match something (FORNAX_EFORMAT says
 * which rule can't); frees the builder in any case. */
fx_status fx_gram_finish(fx_gram **out, fx_gram_builder *b, fx_gnode root, fx_error *err);
fx_gram *fx_gram_ref(fx_gram *g);
void fx_gram_unref(fx_gram *g);
size_t fx_gram_bytes(const fx_gram *g);     /* memory now, lazily made states included */
/* The IR as text, for tests and people. */
void fx_gram_print(fx_buf *out, const fx_gram *g);

#endif
