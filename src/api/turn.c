/* turn.c - fornax_turn, fornax_reply: agent/ under its public names. */
#include "agent/turn.h"

#include <string.h>

#include "agent/policy.h"
#include "agent/reply.h"
#include "api/api.h"

struct fornax_turn {
    const fx_mem *mem;
    const fornax_tokenizer *tok;
    const fx_codec *codec;
    json_t *tools, *choice;
    fornax_grammar *grammar;
    bool thinking, thought_over, keep_thoughts, single, special, gated;
    char *gates;                               /* the policy's report */
    const fx_grammar_source *format;           /* while opening; NULL: none */
};

struct fornax_policy {
    const fx_mem *mem;
    fx_policy *p;
};

struct fornax_reply {
    const fx_mem *mem;
    fx_reply *r;
    fornax_part_fn part;
    void *user;
};

/* ---- Opening ---- */

static fx_status read_json(json_t **out, const char *text, size_t n, const char *name, fx_error *err)
{
    json_error_t je;

    *out = text ? json_loadb(text, n == SIZE_MAX ? strlen(text) : n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &je) : NULL;
    if (!text || *out)
        return FORNAX_OK;
    return fx_fail_param(err, FORNAX_EFORMAT, name, "%s: line %d, column %d: %s", name, je.line, je.column, je.text);
}

static const char *chat_template(const fornax_tokenizer *tok, bool tools)
{
    const char *text = tools && tok->tool_template ? tok->tool_template : tok->template_text;

    return text ? text : "";
}

const fx_codec *fx_api_codec(const fornax_tokenizer *tok, bool tools)
{
    return fx_codec_of_template(fx_str_of(chat_template(tok, tools)));
}

static fx_status choose_codec(fornax_turn *t, const char *family, fx_error *err)
{
    t->codec = family ? fx_codec_find(fx_str_of(family)) : fx_api_codec(t->tok, json_array_size(t->tools) > 0);
    if (!t->codec)
        return fx_fail_param(err, FORNAX_EARG, "family", "family: no such family: '%s'", family);
    return FORNAX_OK;
}

bool fx_api_thinking(const fx_codec *codec, fx_str prompt)
{
    return codec->think_open && fx_str_ends(fx_str_trim(prompt), fx_str_of(codec->think_open));
}

/* Whether the prompt ends inside a thought, or right behind one; models whose template knows none have none. */
static void look_at_prompt(fornax_turn *t, fx_str prompt)
{
    fx_str end = fx_str_trim(prompt);

    if (!t->codec->think_open)
        return;
    t->thinking = fx_api_thinking(t->codec, prompt);
    t->thought_over = fx_str_ends(end, fx_str_of(t->codec->think_close)) ||
                      !strstr(chat_template(t->tok, json_array_size(t->tools) > 0), t->codec->think_open);
}

fx_status fx_api_special_tags(bool *special, const fornax_tokenizer *tok, const fx_codec *c, bool calls, fx_error *err)
{
    const char *const tags[] = { c->think_open, c->think_close, calls ? c->section_open : NULL, calls ? c->open : NULL,
                                 calls ? c->close : NULL, calls ? c->after_name : NULL, c->form == FX_CALL_HARMONY ? c->open : NULL };
    fx_ids ids;
    fx_status st = FORNAX_OK;

    fx_ids_init(&ids, &tok->ctx->mem);
    for (size_t i = 0; st == FORNAX_OK && i < FX_COUNT(tags); i++)
        if (tags[i] && tags[i][0])
            st = fx_tokenizer_encode(tok->t, fx_str_of(tags[i]), NULL, 0, FX_ENCODE_SPECIAL, &ids, err);
    for (size_t i = 0; i < ids.n; i++)
        *special |= fx_tokenizer_special(tok->t, ids.at[i]);
    fx_ids_done(&ids);
    return st;
}

static fx_status build(void *user, fx_gnode *root, fx_gram_builder *b, fx_buf *warnings, fx_error *err)
{
    const fornax_turn *t = user;
    fx_turn_spec spec = { .codec = t->codec, .tokenizer = t->tok->t, .tools = t->tools, .tool_choice = t->choice,
                          .single = t->single, .thinking = t->thinking, .no_thoughts = t->thought_over,
                          .strict = t->gated, .text = FX_GNODE_FAIL };

    if (t->format)
        FX_TRY(fx_api_source_build(t->format, &spec.text, b, warnings, err));
    return fx_turn_build(root, b, t->mem, &spec, err);
}

static void put_part(fx_buf *key, const json_t *v)
{
    if (v)
        fx_put_json(key, v);
    fx_buf_putc(key, '\n');
}

static fx_status make_grammar(fornax_turn *t, fx_error *err)
{
    fx_buf key;

    fx_buf_init(&key, t->mem);
    fx_buf_printf(&key, "turn %s %llu %d %d %d %d\n", t->codec->name, (unsigned long long)t->tok->serial, t->single, t->thinking,
                  t->thought_over, t->gated);
    put_part(&key, t->tools);
    put_part(&key, t->choice);
    if (t->format)
        fx_api_source_key(&key, t->format);
    return fx_api_grammar(&t->grammar, t->tok->ctx, &key, NULL, build, t, err);
}

/* From here on the turn's tools are those that the policy opens. */
static fx_status judge(fornax_turn *t, const fornax_turn_options *o, fx_error *err)
{
    json_t *messages = NULL;
    fx_gates g = { 0 };
    fx_status st;

    if (!o->policy)
        return FORNAX_OK;
    st = read_json(&messages, o->messages, o->messages_n ? o->messages_n : SIZE_MAX, "messages", err);
    if (st == FORNAX_OK)
        st = fx_policy_judge(&g, o->policy->p, t->tools, messages, err);
    if (st == FORNAX_OK && !(t->gates = json_dumps(g.report, JSON_COMPACT)))
        st = fx_nomem(err, "the policy's report");
    if (st == FORNAX_OK && o->format && fx_turn_has_calls(g.tools, t->choice))
        st = fx_fail_param(err, FORNAX_EUNSUP, "format", "format: where a policy opens tools, text can't be held to a format as well");
    if (st == FORNAX_OK) {
        json_decref(t->tools);
        t->tools = json_incref(g.tools);
        t->single |= g.single;
        t->gated = true;
        st = fx_turn_check(t->tools, t->choice, err);
    }
    json_decref(messages);
    fx_gates_done(&g);
    return st;
}

static fx_status open_turn(fornax_turn *t, const fornax_turn_options *o, const fx_grammar_source *format, fx_error *err)
{
    bool calls;

    FX_TRY(read_json(&t->tools, o->tools, SIZE_MAX, "tools", err));
    FX_TRY(read_json(&t->choice, o->tool_choice, SIZE_MAX, "tool_choice", err));
    FX_TRY(fx_turn_check(t->tools, t->choice, err));
    FX_TRY(choose_codec(t, o->family, err));
    t->single = o->single_call != 0;
    FX_TRY(judge(t, o, err));
    calls = fx_turn_has_calls(t->tools, t->choice);
    t->keep_thoughts = o->keep_thoughts != 0;
    look_at_prompt(t, fx_str_n(o->prompt ? o->prompt : "", !o->prompt ? 0 : o->prompt_n == SIZE_MAX ? strlen(o->prompt) : o->prompt_n));
    FX_TRY(fx_api_special_tags(&t->special, t->tok, t->codec, calls, err));
    t->format = format;
    if (calls || format || t->gated)
        FX_TRY(make_grammar(t, err));
    t->format = NULL;
    return FORNAX_OK;
}

fornax_status fornax_turn_open(fornax_turn **out, const fornax_tokenizer *tok, const fornax_turn_options *opt, fornax_error *err)
{
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    fx_grammar_source format;
    fornax_turn *t;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(tok);
    FX_TRY(fx_api_usable(tok->ctx, err));
    FX_TRY(fx_api_options(&o, sizeof o, opt, "fornax_turn_options", err));
    if (o.format)
        FX_TRY(fx_api_source(&format, &tok->ctx->mem, o.format, o.format_n, o.format_options, err));
    if (!tok->t)
        return fx_fail(err, FORNAX_EUNSUP, "the folder has a chat template only, no tokenizer");
    t = fx_mem_zalloc(&tok->ctx->mem, sizeof *t);
    if (!t)
        return fx_nomem(err, "a turn");
    t->mem = &tok->ctx->mem;
    t->tok = tok;
    st = open_turn(t, &o, o.format ? &format : NULL, err);
    if (st != FORNAX_OK) {
        fornax_turn_close(t);
        return st;
    }
    *out = t;
    return FORNAX_OK;
}

const fornax_grammar *fornax_turn_grammar(const fornax_turn *turn) { return turn->grammar; }
const char *fornax_turn_gates(const fornax_turn *turn) { return turn->gates; }
const char *fornax_turn_family(const fornax_turn *turn) { return turn->codec->name; }
int fornax_turn_special_text(const fornax_turn *turn) { return turn->special; }

void fornax_turn_close(fornax_turn *turn)
{
    if (!turn)
        return;
    fornax_grammar_close(turn->grammar);
    json_decref(turn->tools);
    json_decref(turn->choice);
    fx_api_json_free(turn->gates);
    fx_mem_free(turn->mem, turn, sizeof *turn);
}

/* ---- Policies ---- */

fornax_status fornax_policy_open(fornax_policy **out, fornax_context *ctx, const char *json, size_t n, fornax_error *err)
{
    fornax_policy *p;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_TRY(fx_api_usable(ctx, err));
    FX_API_NEED(json);
    p = fx_mem_zalloc(&ctx->mem, sizeof *p);
    if (!p)
        return fx_nomem(err, "a policy");
    p->mem = &ctx->mem;
    st = fx_policy_new(&p->p, &ctx->mem, fx_str_n(json, n == SIZE_MAX ? strlen(json) : n), err);
    if (st != FORNAX_OK) {
        fornax_policy_close(p);
        return st;
    }
    *out = p;
    return FORNAX_OK;
}

void fornax_policy_close(fornax_policy *policy)
{
    if (!policy)
        return;
    fx_policy_free(policy->p);
    fx_mem_free(policy->mem, policy, sizeof *policy);
}

/* ---- Replies ---- */

static void hand_on(void *user, const fx_part *part)
{
    static const fornax_part_kind kinds[] = {
        [FX_PART_TEXT] = FORNAX_PART_TEXT, [FX_PART_THOUGHT] = FORNAX_PART_THOUGHT, [FX_PART_CALL] = FORNAX_PART_CALL,
        [FX_PART_ARGUMENTS] = FORNAX_PART_ARGUMENTS, [FX_PART_CALL_END] = FORNAX_PART_CALL_END,
    };
    const fornax_reply *r = user;
    const fornax_part p = { kinds[part->kind], part->call, part->text.p, part->text.n };

    r->part(r->user, &p);
}

fornax_status fornax_reply_open(fornax_reply **out, const fornax_turn *turn, fornax_part_fn part, void *user, fornax_error *err)
{
    fx_reply_options o = { 0 };
    fornax_reply *r;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(turn);
    FX_API_NEED((const void *)(uintptr_t)part);
    r = fx_mem_zalloc(turn->mem, sizeof *r);
    if (!r)
        return fx_nomem(err, "a reply");
    r->mem = turn->mem;
    r->part = part;
    r->user = user;
    o = (fx_reply_options){ .codec = turn->codec, .thinking = turn->thinking && !turn->keep_thoughts,
                            .tools = fx_turn_has_calls(turn->tools, turn->choice) ? turn->tools : NULL,
                            .keep_thoughts = turn->keep_thoughts, .part = hand_on, .user = r };
    r->r = fx_reply_new(r->mem, &o);
    if (!r->r) {
        fornax_reply_close(r);
        return fx_nomem(err, "a reply");
    }
    *out = r;
    return FORNAX_OK;
}

fornax_status fornax_reply_feed(fornax_reply *r, const char *text, size_t n, fornax_error *err)
{
    FX_API_NEED(r);
    if (n > 0)
        FX_API_NEED(text);
    return fx_reply_feed(r->r, fx_str_n(text, n == SIZE_MAX ? strlen(text) : n)) ? FORNAX_OK : fx_nomem(err, "a reply");
}

fornax_status fornax_reply_end(fornax_reply *r, fornax_error *err)
{
    FX_API_NEED(r);
    return fx_reply_end(r->r) ? FORNAX_OK : fx_nomem(err, "a reply");
}

void fornax_reply_close(fornax_reply *r)
{
    if (!r)
        return;
    fx_reply_free(r->r);
    fx_mem_free(r->mem, r, sizeof *r);
}
