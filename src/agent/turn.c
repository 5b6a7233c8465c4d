/* turn.c - a reply put together: thoughts, text, calls. */
#include "agent/turn.h"

#include <string.h>

#include "agent/turn_int.h"

/* ---- Text ---- */

/* What text is held to: the request's format, or not to begin a call where there may be calls. */
static fx_gnode text(fx_turn *t, bool calls)
{
    if (t->spec->text != FX_GNODE_FAIL)
        return t->spec->text;
    return fx_turn_text_not(t, calls || t->spec->strict ? fx_turn_call_beginnings(t) : FX_RE_NONE);
}

static fx_status thought(fx_gnode *out, fx_turn *t, fx_error *err)
{
    const fx_codec *c = t->spec->codec;
    fx_gnode inside, blanks = fx_gram_lexeme(t->b, fx_turn_blanks(t, 8)), whole;
    fx_re not = fx_turn_containing(t, c->think_close);

    *out = FX_GNODE_EMPTY;
    if (!c->think_open || (t->spec->no_thoughts && !t->spec->thinking))
        return FORNAX_OK;
    if (t->spec->strict)
        not = fx_re_alt(t->re, not, fx_turn_call_beginnings(t));
    inside = fx_turn_text_not(t, not);
    FX_TRY(fx_turn_form(&whole, t, err, "snsn", t->spec->thinking ? "" : c->think_open, inside, c->think_close, blanks));
    *out = t->spec->thinking ? whole : fx_turn_maybe(t, whole);
    return FORNAX_OK;
}

/* ---- Replies on channels ---- */

/* What a message holds: no mark that ends it or begins another, neither as a token nor spelled. */
static fx_gnode message_text(fx_turn *t, bool calls)
{
    static const char *const marks[] = { "<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>", FX_HARMONY_MESSAGE };
    fx_re not = calls || t->spec->strict ? fx_turn_call_beginnings(t) : FX_RE_NONE;

    for (size_t i = 0; i < FX_COUNT(marks); i++)
        not = fx_re_alt(t->re, not, fx_turn_containing(t, marks[i]));
    return fx_turn_text_not(t, not);
}

static fx_status channels(fx_gnode *out, fx_turn *t, fx_gnode calls, bool must_call, bool may_call, fx_error *err)
{
    fx_gnode any = message_text(t, may_call), think, final;

    FX_TRY(fx_turn_form(&think, t, err, "sns", "<|channel|>analysis<|message|>", any, "<|end|><|start|>assistant"));
    FX_TRY(fx_turn_form(&final, t, err, "sn", "<|channel|>final<|message|>", t->spec->text != FX_GNODE_FAIL ? t->spec->text : any));
    if (may_call)
        final = must_call ? calls : fx_gram_alt(t->b, (fx_gnode[]){ final, calls }, 2);
    *out = fx_turn_pair(t, fx_turn_maybe(t, think), final);
    return FORNAX_OK;
}

/* ---- The whole ---- */

/* Text, then calls or none. Where no tag tells them apart, and where text is held to a format, it's one or the other. */
static fx_gnode text_or_calls(fx_turn *t, fx_gnode calls)
{
    bool either = !fx_codec_tagged(t->spec->codec) || t->spec->text != FX_GNODE_FAIL;
    fx_gnode said = text(t, true);

    return either ? fx_gram_alt(t->b, (fx_gnode[]){ said, calls }, 2) : fx_turn_pair(t, said, fx_turn_maybe(t, calls));
}

static fx_status build(fx_gnode *root, fx_turn *t, fx_error *err)
{
    const fx_turn_spec *spec = t->spec;
    bool may = fx_turn_has_calls(spec->tools, spec->tool_choice);
    bool must = may && strcmp(fx_turn_mode(spec->tool_choice), "auto") != 0;
    fx_gnode calls = FX_GNODE_NEVER, think;

    if (may)
        FX_TRY(fx_turn_calls(&calls, t, err));
    if (spec->codec->form == FX_CALL_HARMONY)
        return channels(root, t, calls, must, may, err);
    FX_TRY(thought(&think, t, err));
    *root = fx_turn_pair(t, think, must ? calls : may ? text_or_calls(t, calls) : text(t, false));
    return FORNAX_OK;
}

fx_status fx_turn_build(fx_gnode *root, fx_gram_builder *b, const fx_mem *mem, const fx_turn_spec *spec, fx_error *err)
{
    fx_turn t = { .b = b, .re = fx_gram_regexes(b), .mem = mem, .spec = spec, .beginnings = FX_RE_FAIL };
    fx_status st;

    fx_gram_set_space(b, FX_SPACE_COMPACT);
    st = build(root, &t, err);
    FX_VEC_FREE(&t.spelled, mem);
    return st;
}
