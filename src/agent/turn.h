/* turn.h - what one reply may be, as a grammar: thoughts, free text, calls of the tools that are open.
 *
 *     auto       text, then calls or none
 *     required   calls, no text before them
 *     named      one call of that tool
 *     none       text
 *
 * Calls are in the family's own form with arguments held to the tool's schema.  Free text holds no tag that
 * begins a call: neither the token nor its spelling, so what the grammar closes can't be spoken another way. */
#ifndef FX_TURN_H
#define FX_TURN_H

#include <jansson.h>

#include "agent/codec.h"
#include "grammar/schema.h"
#include "text/tokenizer.h"

typedef struct fx_turn_spec {
    const fx_codec *codec;
    const fx_tokenizer *tokenizer;       /* tags that it has as control tokens are those tokens */
    const json_t *tools;                 /* the request's list, in OpenAI's form; NULL: none */
    const json_t *tool_choice;           /* NULL: auto */
    bool single;                         /* at most one call */
    bool thinking;                       /* the prompt has opened a thought */
    bool no_thoughts;                    /* the reply may not open one */
    bool strict;                         /* text and thoughts hold nothing that any family's parser takes for a call */
    fx_gnode text;                       /* what text is held to; FX_GNODE_FAIL: nothing */
} fx_turn_spec;

/* Do the request's tools and choice make sense?  err->param is the field at fault. */
fx_status fx_turn_check(const json_t *tools, const json_t *tool_choice, fx_error *err);
/* Whether the reply may have calls at all. */
bool fx_turn_has_calls(const json_t *tools, const json_t *tool_choice);
/* A JSON text, compact, appended. */
void fx_put_json(fx_buf *out, const json_t *v);
/* FORNAX_EUNSUP: a tool's schema, or the family's form, can't express it. */
fx_status fx_turn_build(fx_gnode *root, fx_gram_builder *b, const fx_mem *mem, const fx_turn_spec *spec, fx_error *err);

#endif
