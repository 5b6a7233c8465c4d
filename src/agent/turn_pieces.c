/* turn_pieces.c - what a turn's grammar is put together from. */
#include <stdarg.h>
#include <string.h>

#include "agent/reply_int.h"
#include "agent/turn_int.h"

fx_gnode fx_turn_literal(fx_turn *t, fx_str s)
{
    return s.n > 0 ? fx_gram_lexeme(t->b, fx_re_literal(t->re, s)) : FX_GNODE_EMPTY;
}

fx_gnode fx_turn_pair(fx_turn *t, fx_gnode a, fx_gnode b) { return fx_gram_seq(t->b, (fx_gnode[]){ a, b }, 2); }
fx_gnode fx_turn_maybe(fx_turn *t, fx_gnode a) { return fx_gram_alt(t->b, (fx_gnode[]){ FX_GNODE_EMPTY, a }, 2); }

/* ---- Prescribed text ---- */

/* The control tokens among 'ids', in the order they come in s, and the bytes between them. */
static bool split(fx_turn *t, fx_turn_nodes *out, fx_str s, const fx_ids *ids)
{
    const fx_tokenizer *tok = t->spec->tokenizer;
    size_t from = 0;
    bool room = true;

    for (size_t i = 0; i < ids->n; i++) {
        fx_str spelling = fx_tokenizer_spelling(tok, ids->at[i]);
        size_t at = fx_tokenizer_special(tok, ids->at[i]) ? fx_str_find(s, spelling, from) : FX_STR_NONE;

        if (at == FX_STR_NONE)
            continue;                    /* text, or a token for what the vocabulary lacks */
        room &= FX_VEC_PUSH(out, t->mem, fx_turn_literal(t, fx_str_n(s.p + from, at - from)));
        room &= FX_VEC_PUSH(out, t->mem, fx_gram_token(t->b, ids->at[i]));
        from = at + spelling.n;
    }
    return FX_VEC_PUSH(out, t->mem, fx_turn_literal(t, fx_str_n(s.p + from, s.n - from))) && room;
}

static fx_status spell(fx_gnode *out, fx_turn *t, const char *text, fx_error *err)
{
    fx_turn_nodes nodes = { 0 };
    fx_ids ids;
    fx_status st;

    fx_ids_init(&ids, t->mem);
    st = fx_tokenizer_encode(t->spec->tokenizer, fx_str_of(text), NULL, 0, FX_ENCODE_SPECIAL, &ids, err);
    if (st == FORNAX_OK && !split(t, &nodes, fx_str_of(text), &ids))
        st = fx_nomem(err, "the request's tools");
    if (st == FORNAX_OK)
        *out = fx_gram_seq(t->b, nodes.at, nodes.n);
    FX_VEC_FREE(&nodes, t->mem);
    fx_ids_done(&ids);
    return st;
}

fx_status fx_turn_spell(fx_gnode *out, fx_turn *t, const char *text, fx_error *err)
{
    *out = FX_GNODE_EMPTY;
    if (!text || !text[0])
        return FORNAX_OK;
    for (size_t i = 0; i < t->spelled.n; i++) {
        if (strcmp(t->spelled.at[i].text, text) == 0) {
            *out = t->spelled.at[i].node;
            return FORNAX_OK;
        }
    }
    FX_TRY(spell(out, t, text, err));
    return FX_VEC_PUSH(&t->spelled, t->mem, ((fx_turn_spelling){ text, *out })) ? FORNAX_OK : fx_nomem(err, "the request's tools");
}

fx_status fx_turn_form(fx_gnode *out, fx_turn *t, fx_error *err, const char *kinds, ...)
{
    fx_gnode parts[12];
    size_t n = strlen(kinds);
    fx_status st = FORNAX_OK;
    va_list args;

    FX_ASSERT(n <= FX_COUNT(parts));
    va_start(args, kinds);
    for (size_t i = 0; i < n && st == FORNAX_OK; i++) {
        if (kinds[i] == 's')
            st = fx_turn_spell(&parts[i], t, va_arg(args, const char *), err);
        else
            parts[i] = va_arg(args, fx_gnode);
    }
    va_end(args);
    if (st == FORNAX_OK)
        *out = fx_gram_seq(t->b, parts, n);
    return st;
}

/* ---- Free text ---- */

fx_re fx_turn_blanks(fx_turn *t, uint32_t max)
{
    static const fx_rune_range ranges[] = { { '\t', '\n' }, { '\r', '\r' }, { ' ', ' ' } };

    return fx_re_repeat(t->re, fx_re_runes(t->re, FX_SPELL_UTF8, ranges, FX_COUNT(ranges)), 0, max);
}

fx_re fx_turn_containing(fx_turn *t, const char *tag)
{
    fx_re any = fx_re_any_text(t->re, FX_SPELL_UTF8);
    fx_str s = fx_tag(tag);

    return s.n == 0 ? FX_RE_NONE : fx_re_cat(t->re, any, fx_re_cat(t->re, fx_re_literal(t->re, s), any));
}

fx_re fx_turn_call_beginnings(fx_turn *t)
{
    static const fx_rune_range brackets[] = { { '[', '[' }, { '{', '{' } };
    fx_re any = fx_re_any_text(t->re, FX_SPELL_UTF8), all = fx_turn_containing(t, FX_HARMONY_MESSAGE);
    const fx_codec *c;

    if (t->beginnings != FX_RE_FAIL)
        return t->beginnings;
    for (size_t i = 0; (c = fx_codec_at(i)); i++) {
        all = fx_re_alt(t->re, all, fx_turn_containing(t, c->section_open));
        all = fx_re_alt(t->re, all, fx_turn_containing(t, c->open));
    }
    if (t->spec->strict || !fx_codec_tagged(t->spec->codec)) {
        any = fx_re_cat(t->re, fx_re_runes(t->re, FX_SPELL_UTF8, brackets, FX_COUNT(brackets)), any);
        all = fx_re_alt(t->re, all, fx_re_cat(t->re, fx_turn_blanks(t, FX_RE_INF), any));
    }
    return t->beginnings = all;
}

fx_gnode fx_turn_text_not(fx_turn *t, fx_re what)
{
    return fx_gram_lexeme(t->b, fx_re_text_not(t->re, FX_SPELL_UTF8, what));
}
