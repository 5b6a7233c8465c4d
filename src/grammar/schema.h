/* schema.h - JSON Schema to the grammar IR.
 *
 * Draft 2020-12 with draft-7 spellings (definitions, dependencies, items as a list).  Every keyword is
 * enforced or refused by its JSON pointer (err->param); none is dropped.  The schema's text is read by a
 * reader that keeps the order of keys and the spelling of numbers. */
#ifndef FX_GRAMMAR_SCHEMA_H
#define FX_GRAMMAR_SCHEMA_H

#include "grammar/gram.h"

typedef struct fx_schema_options {
    bool any_order;                         /* properties in any order; else as declared */
    bool any_number;                        /* any spelling of numbers and characters; else no needless digits, escapes */
    bool annotate_formats;                  /* "format" is an annotation; else known ones are enforced */
    bool strict_formats;                    /* an unknown format is refused; else it is a warning */
    const fx_str *remote_uris, *remote_texts;   /* documents that $ref may name */
    size_t n_remotes;
} fx_schema_options;

/* Adds the schema to 'b' as the node *root; FX_GNODE_NEVER where it is found that no value satisfies it.
 * FORNAX_EFORMAT: not a schema; FORNAX_EUNSUP: a keyword or combination that can't be enforced, or too
 * complex; err->param holds the pointer ("#/properties/a/pattern").  Warnings (unknown formats, unknown
 * keywords), one a line, are appended to 'warnings' where it isn't NULL. */
fx_status fx_schema_build(fx_gnode *root, fx_gram_builder *b, const fx_mem *mem, fx_str text,
                          const fx_schema_options *options, fx_buf *warnings, fx_error *err);

#endif
