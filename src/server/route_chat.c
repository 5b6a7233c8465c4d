/* route_chat.c - POST /v1/chat/completions: the next turn of a conversation. */
#include <stdlib.h>

#include "server/gen.h"
#include "server/messages.h"
#include "server/wanted.h"

static const fx_field fields[] = {
    FX_GEN_FIELDS,
    { "messages", FX_F_JSON, offsetof(fx_gen_body, messages), 0, 0 },
    { "max_tokens", FX_F_INT, offsetof(fx_gen_body, max_tokens), 1, 1e9 },
    { "max_completion_tokens", FX_F_INT, offsetof(fx_gen_body, max_completion_tokens), 1, 1e9 },
    { "logprobs", FX_F_BOOL, offsetof(fx_gen_body, logprobs), 0, 0 },
    { "top_logprobs", FX_F_INT, offsetof(fx_gen_body, top_logprobs), 0, 20 },
    { "tools", FX_F_JSON, offsetof(fx_gen_body, tools), 0, 0 },
    { "tool_choice", FX_F_JSON, offsetof(fx_gen_body, tool_choice), 0, 0 },
    { "parallel_tool_calls", FX_F_BOOL, offsetof(fx_gen_body, parallel_tool_calls), 0, 0 },
    { "modalities", FX_F_JSON, offsetof(fx_gen_body, modalities), 0, 0 },
    { "chat_template_kwargs", FX_F_JSON, offsetof(fx_gen_body, kwargs), 0, 0 },
    { "truncation", FX_F_STR, offsetof(fx_gen_body, truncation), 0, 0 },
    { "add_generation_prompt", FX_F_BOOL, offsetof(fx_gen_body, add_generation_prompt), 0, 0 },
    { "prediction", FX_F_IGNORE, 0, 0, 0 },
    { "functions", FX_F_REFUSE, 0, 0, 0 },
    { "function_call", FX_F_REFUSE, 0, 0, 0 },
    { "audio", FX_F_REFUSE, 0, 0, 0 },
    { "reasoning_effort", FX_F_STR, offsetof(fx_gen_body, reasoning_effort), 0, 0 },
    { "verbosity", FX_F_REFUSE, 0, 0, 0 },
    { "web_search_options", FX_F_REFUSE, 0, 0, 0 },
    { 0 },
};

/* ---- Fields that would change the output in ways not to be had yet ---- */

static fx_status check_modes(const fx_gen_body *b, fx_error *err)
{
    if (b->modalities && (json_array_size(b->modalities) != 1 || !json_is_string(json_array_get(b->modalities, 0)) ||
        strcmp(json_string_value(json_array_get(b->modalities, 0)), "text") != 0))
        return fx_fail_param(err, FORNAX_EUNSUP, "modalities", "modalities: only [\"text\"] is supported");
    if (b->truncation.p && !fx_str_is(b->truncation, "auto") && !fx_str_is(b->truncation, "disabled"))
        return fx_fail_param(err, FORNAX_EARG, "truncation", "truncation: expected auto or disabled, found '%s'",
                             fx_show(b->truncation).z);
    if (b->kwargs && !json_is_object(b->kwargs))
        return fx_fail_param(err, FORNAX_EARG, "chat_template_kwargs", "chat_template_kwargs: expected an object");
    return FORNAX_OK;
}

/* ---- Thoughts: a switch of the template's ---- */

/* "none" switches them off; other efforts are the template's own words. */
static fx_status pass_effort(json_t *kwargs, const char *template, fx_str effort, fx_error *err)
{
    bool off = fx_str_is(effort, "none"), knows = template && strstr(template, "reasoning_effort");

    if (!off && !knows)
        return fx_fail_param(err, FORNAX_EUNSUP, "reasoning_effort", "reasoning_effort: this model's chat template has no such setting");
    if (off && !(template && strstr(template, "enable_thinking")) && !knows)
        return fx_fail_param(err, FORNAX_EUNSUP, "reasoning_effort", "reasoning_effort: this model's thoughts can't be switched off");
    if (off && strstr(template, "enable_thinking"))
        return json_object_set_new(kwargs, "enable_thinking", json_false()) ? fx_nomem(err, "the template's variables") : FORNAX_OK;
    return json_object_set_new(kwargs, "reasoning_effort", json_stringn(effort.p, effort.n))
               ? fx_nomem(err, "the template's variables") : FORNAX_OK;
}

/* The request's kwargs, with the effort among them; new reference, or NULL. */
static fx_status make_kwargs(json_t **out, const fornax_tokenizer *tok, const fx_gen_body *b, fx_error *err)
{
    fx_status st = FORNAX_OK;

    *out = b->kwargs ? json_copy((json_t *)b->kwargs) : json_object();
    if (!*out)
        return fx_nomem(err, "the template's variables");
    if (b->reasoning_effort.p)
        st = pass_effort(*out, fornax_tokenizer_template(tok), b->reasoning_effort, err);
    if (st != FORNAX_OK)
        json_decref(*out);
    return st;
}

/* ---- The route ---- */

static fx_status render_messages(fornax_prompt **out, const fornax_tokenizer *tok, const fx_gen_body *b,
                                 const json_t *messages, fx_error *err)
{
    json_t *whole, *kwargs;
    fx_status st = FORNAX_OK;
    char *text;

    *out = NULL;
    FX_TRY(make_kwargs(&kwargs, tok, b, err));
    whole = json_pack("{s:O, s:b, s:o}", "messages", messages, "add_generation_prompt", b->add_generation_prompt, "kwargs", kwargs);
    if (whole && b->tools)
        json_object_set(whole, "tools", (json_t *)b->tools);
    text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    st = text ? fornax_prompt_render(out, tok, text, SIZE_MAX, err) : fx_nomem(err, "the conversation");
    json_decref(whole);
    free(text);
    return st;
}

static size_t prompt_length(const fornax_prompt *p)
{
    size_t n = 0;

    if (p)
        fornax_prompt_ids(p, &n);
    return n;
}

static fx_status render_without(fornax_prompt **out, const fornax_tokenizer *tok, const fx_gen_body *b, size_t turns,
                                fx_error *err)
{
    json_t *rest = fx_messages_without(b->messages, turns);
    fx_status st = rest ? render_messages(out, tok, b, rest, err) : fx_nomem(err, "the conversation");

    json_decref(rest);
    return st;
}

/* Leaves out the first turns, as few as will do, when the conversation is longer than the context: then the prompt
 * has at most 'fits' tokens. The last turn always stays. Replaces *prompt. */
static fx_status drop_turns(fornax_prompt **prompt, fx_call *c, const fx_gen_body *b, size_t fits, fx_error *err)
{
    const fornax_tokenizer *tok = c->http->tok;
    size_t low = 1, high = fx_messages_turns(b->messages);
    fornax_prompt *shorter;

    if (high < 2)
        return FORNAX_OK;
    for (high--; low < high;) {
        size_t middle = (low + high) / 2;

        if (fx_call_unwanted(c))
            return fx_fail(err, FORNAX_ECANCEL, "the client hung up or the server stops");
        FX_TRY(render_without(&shorter, tok, b, middle, err));
        if (prompt_length(shorter) > fits)
            low = middle + 1;
        else
            high = middle;
        fornax_prompt_close(shorter);
    }
    FX_TRY(render_without(&shorter, tok, b, low, err));
    fornax_prompt_close(*prompt);
    *prompt = shorter;
    return FORNAX_OK;
}

/* How long a prompt may be after turns were left out: a quarter of the context is for the answer, or what it may have. */
static size_t room_for_prompt(size_t context, const fx_gen_body *b)
{
    int64_t asked = b->max_completion_tokens != FX_NO_INT ? b->max_completion_tokens : b->max_tokens;
    size_t answer = FX_MAX(context / 4, (size_t)1);

    return context - (asked == FX_NO_INT ? answer : FX_MIN((size_t)asked, answer));
}

/* ---- What the reply may be ---- */

/* The names of what is open, for a header: characters that can't stand there are shown as '?'. */
static void name_open_tools(fx_call *c, const json_t *open)
{
    for (size_t i = 0; i < json_array_size(open); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(open, i), "name"));

        fx_buf_puts(&c->gates, i ? ", " : "");
        for (; name && *name; name++)
            fx_buf_putc(&c->gates, (unsigned char)*name < 0x80 ? *name : '?');
    }
    if (json_array_size(open) == 0)
        fx_buf_puts(&c->gates, "none");
}

/* What the policy opened goes into a header and into the audit log. */
static fx_status tell_gates(fx_call *c, const fornax_turn *turn, fx_error *err)
{
    const fx_server_options *o = &c->http->opt;
    json_t *report = o->policy ? json_loads(fornax_turn_gates(turn), JSON_ALLOW_NUL, NULL) : NULL;
    fx_buf line;
    bool ok;

    if (!o->policy)
        return FORNAX_OK;
    name_open_tools(c, json_object_get(report, "open"));
    fx_buf_init(&line, &fx_mem_libc);
    fx_buf_printf(&line, "gates %s %s", c->id, fornax_turn_gates(turn));
    ok = report && !line.failed && !c->gates.failed;
    if (ok && o->audit)
        o->audit(o->audit_user, line.p);
    fx_buf_done(&line);
    json_decref(report);
    return ok ? FORNAX_OK : fx_nomem(err, "the policy's report");
}

/* A part of the request as JSON text; NULL stays NULL. */
static fx_status dump(char **out, const json_t *v, fx_error *err)
{
    *out = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    return v && !*out ? fx_nomem(err, "the request's tools") : FORNAX_OK;
}

static fx_status open_turn(fornax_turn **turn, fornax_turn_options *o, const fx_http *h, const fx_gen_body *b, fx_error *err)
{
    char *tools = NULL, *choice = NULL, *messages = NULL;
    fx_status st = dump(&tools, b->tools, err);

    if (st == FORNAX_OK)
        st = dump(&choice, b->tool_choice, err);
    if (st == FORNAX_OK)
        st = dump(&messages, h->opt.policy ? b->messages : NULL, err);
    o->tools = tools;
    o->tool_choice = choice;
    o->policy = h->opt.policy;
    o->messages = messages;
    if (st == FORNAX_OK)
        st = fornax_turn_open(turn, h->tok, o, err);
    free(tools);
    free(choice);
    free(messages);
    return st;
}

static fx_status begin_turn(fx_gen *g, fx_call *c, const fx_gen_body *b, const fornax_prompt *prompt, fx_error *err)
{
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    fornax_turn *turn = NULL;
    fx_wanted format;
    fx_status st = fx_wanted_read(&format, b, err);

    o.single_call = !b->parallel_tool_calls;
    o.format = format.text;
    o.format_n = format.n;
    o.format_options = format.on ? &format.o : NULL;
    o.prompt = fornax_prompt_text(prompt, &o.prompt_n);
    if (st == FORNAX_OK) {
        st = open_turn(&turn, &o, c->http, b, err);
        if (st != FORNAX_OK)
            fx_wanted_fault(&format, err);
    }
    if (st == FORNAX_OK) {
        st = tell_gates(c, turn, err);
        fx_gen_turn(g, turn);
    }
    fx_wanted_free(&format);
    return st;
}

static fx_status render(fx_gen *g, fx_call *c, const fx_gen_body *b, fx_error *err)
{
    const fx_http *h = c->http;
    fornax_engine_stats stats = FORNAX_OPTIONS(fornax_engine_stats);
    fornax_prompt *prompt = NULL;
    fx_status st = render_messages(&prompt, h->tok, b, b->messages, err);
    size_t n, before;
    const int32_t *ids;

    if (st == FORNAX_EFORMAT && fx_messages_merge_system((json_t *)b->messages))
        st = render_messages(&prompt, h->tok, b, b->messages, err);
    before = prompt_length(prompt);
    fornax_engine_get_stats(h->engine, &stats);
    if (st == FORNAX_OK && fx_str_is(b->truncation, "auto") && before >= stats.context_tokens)
        st = drop_turns(&prompt, c, b, room_for_prompt((size_t)stats.context_tokens, b), err);
    if (st == FORNAX_OK) {
        ids = fornax_prompt_ids(prompt, &n);
        fx_gen_truncated(g, before - FX_MIN(n, before));
        st = fx_gen_prompt(g, ids, n, FX_STR(""), err);
    }
    if (st == FORNAX_OK)
        st = begin_turn(g, c, b, prompt, err);
    fornax_prompt_close(prompt);
    return st;
}

/* Whether the template has a place for developer messages of its own. */
static bool knows_developer(const fx_http *h)
{
    const char *text = fornax_tokenizer_template(h->tok);

    return text && strstr(text, "developer");
}

static void chat(fx_call *c)
{
    fx_gen_body body = fx_gen_defaults;
    json_t *json = fx_call_json(c);
    fx_error err = { 0 };
    fx_gen *g = NULL;
    fx_status st;

    if (!json)
        return;
    st = fx_fields_read(json, fields, &body, NULL, c->http->opt.lenient_fields ? &c->ignored : NULL, &err);
    if (st == FORNAX_OK)
        st = check_modes(&body, &err);
    if (st == FORNAX_OK)
        st = fx_messages_read((json_t *)body.messages, knows_developer(c->http), &err);
    if (st == FORNAX_OK && !fx_emitted_attach(&c->http->emitted, (json_t *)body.messages))
        st = fx_nomem(&err, "the conversation");
    if (st == FORNAX_OK)
        st = fx_gen_new(&g, c, &body, true, &err);
    if (st == FORNAX_OK) {
        st = render(g, c, &body, &err);
        if (st == FORNAX_ENOTFOUND)      /* no chat template: the request can't be served, the route exists */
            err.status = FORNAX_EUNSUP;
    }
    if (st == FORNAX_OK)
        st = fx_gen_submit(g, &err);
    if (st == FORNAX_OK) {
        fx_call_run(c, g);
    } else {
        fx_gen_free(g);
        if (st == FORNAX_ECANCEL)
            fx_reply_unwanted(c);
        else
            fx_reply_error(c, &err);
    }
    json_decref(json);
}

const fx_route fx_route_chat = { "POST", "/v1/chat/completions", false, chat, false };
