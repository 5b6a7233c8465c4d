/* turn_int.h - what the files of a turn's grammar share. */
#ifndef FX_TURN_INT_H
#define FX_TURN_INT_H

#include "agent/turn.h"

typedef FX_VEC(fx_gnode) fx_turn_nodes;
typedef struct fx_turn_spelling {
    const char *text;                    /* of the codec or a literal: outlives the turn */
    fx_gnode node;
} fx_turn_spelling;

typedef struct fx_turn {
    fx_gram_builder *b;
    fx_re_pool *re;
    const fx_mem *mem;
    const fx_turn_spec *spec;
    FX_VEC(fx_turn_spelling) spelled;    /* each prescribed text is built once */
    fx_re beginnings;                    /* texts that hold a call's beginning; FX_RE_FAIL: not made yet */
} fx_turn;

/* ---- The request (turn_request.c) ---- */

fx_str fx_turn_name(const json_t *tool);
const json_t *fx_turn_parameters(const json_t *tool);                /* NULL: any object */
const char *fx_turn_mode(const json_t *tool_choice);                 /* "auto", "none", "required", "function"; else it's no choice */
bool fx_turn_allows(const json_t *tool_choice, fx_str name);

/* ---- Pieces (turn_pieces.c) ---- */

fx_gnode fx_turn_literal(fx_turn *t, fx_str s);
fx_gnode fx_turn_pair(fx_turn *t, fx_gnode a, fx_gnode b);
fx_gnode fx_turn_maybe(fx_turn *t, fx_gnode a);
/* Text that the form prescribes: control tokens where the tokenizer has them, the rest by its bytes. */
fx_status fx_turn_spell(fx_gnode *out, fx_turn *t, const char *text, fx_error *err);
/* A sequence of such texts ('s') and nodes ('n'): fx_turn_form(out, t, err, "sns", "<f>", node, "</f>"). */
fx_status fx_turn_form(fx_gnode *out, fx_turn *t, fx_error *err, const char *kinds, ...);
fx_re fx_turn_blanks(fx_turn *t, uint32_t max);
fx_re fx_turn_containing(fx_turn *t, const char *tag);               /* without the blanks at its ends; FX_RE_NONE: no tag */
/* Texts that some family's parser would take for a call, by the tags in them or, where the reply's family or
 * 'spec->strict' asks for it, by how they begin. */
fx_re fx_turn_call_beginnings(fx_turn *t);
fx_gnode fx_turn_text_not(fx_turn *t, fx_re what);

/* ---- Calls (turn_calls.c, turn_pairs.c) ---- */

fx_status fx_turn_calls(fx_gnode *out, fx_turn *t, fx_error *err);   /* all calls of a reply */
/* JSON that the schema allows; NULL: any object. where: below the tool's parameters, for messages. */
fx_status fx_turn_schema(fx_gnode *out, fx_turn *t, const json_t *schema, size_t tool, const char *where, fx_error *err);
/* A call in a form whose arguments aren't one JSON object. */
fx_status fx_turn_pairs(fx_gnode *out, fx_turn *t, const json_t *tool, size_t i, fx_error *err);

#endif
