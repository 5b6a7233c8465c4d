/* ebnf.h - grammars as text: GBNF ("name ::= ...", from 'root') and Lark-like ("name: ...", from 'start').
 *
 *     root   ::= "yes" | "no" (", " reason){0,3}        #  literals, groups, {m,n} * + ?
 *     reason ::= [a-z]+ | %json {"type": "integer"}     #  classes, JSON Schemas
 *     call   ::= <tool_call> .* <[151658]>              #  special tokens by name and by id
 *
 * Lark: /patterns/ (ECMA-262), "text"i, TERMINALS, [optional], x ~ 2..5, %import common.NAME, %ignore.
 * The language is that of the rules; terminals don't take the longest match. */
#ifndef FX_GRAMMAR_EBNF_H
#define FX_GRAMMAR_EBNF_H

#include "grammar/schema.h"

typedef struct fx_ebnf_options {
    const char *name;                       /* begins messages */
    int32_t (*find_token)(const void *user, fx_str spelling);   /* a special token's id or -1; NULL: there are none */
    const void *user;
    const fx_schema_options *schema;        /* for %json; NULL: the defaults */
} fx_ebnf_options;

/* Adds the grammar to 'b' as the node *root.  FORNAX_EFORMAT, FORNAX_EUNSUP: the text says where and shows the line. */
fx_status fx_ebnf_build(fx_gnode *root, fx_gram_builder *b, const fx_mem *mem, fx_str text,
                        const fx_ebnf_options *options, fx_buf *warnings, fx_error *err);

#endif
