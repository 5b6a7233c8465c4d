/* route_chat.c - POST /v1/chat/completions: the next turn of a conversation. */
#include <stdlib.h>

#include "server/gen.h"
#include "server/messages.h"

static const fx_field fields[] = {
    FX_GEN_FIELDS,
    { "messages", FX_F_JSON, offsetof(fx_gen_body, messages), 0, 0 },
    { "max_tokens", FX_F_INT, offsetof(fx_gen_body, max_tokens), 1, 1e9 },
    { "max_completion_tokens", FX_F_INT, offsetof(fx_gen_body, max_completion_tokens), 1, 1e9 },
    { "logprobs", FX_F_BOOL, offsetof(fx_gen_body, logprobs), 0, 0 },
    { "top_logprobs", FX_F_INT, offsetof(fx_gen_body, top_logprobs), 0, 20 },
    { "tools", FX_F_JSON, offsetof(fx_gen_body, tools), 0, 0 },
    { "tool_choice", FX_F_JSON, offsetof(fx_gen_body, tool_choice), 0, 0 },
    { "parallel_tool_calls", FX_F_IGNORE, 0, 0, 0 },
    { "response_format", FX_F_JSON, offsetof(fx_gen_body, response_format), 0, 0 },
    { "modalities", FX_F_JSON, offsetof(fx_gen_body, modalities), 0, 0 },
    { "chat_template_kwargs", FX_F_JSON, offsetof(fx_gen_body, kwargs), 0, 0 },
    { "truncation", FX_F_STR, offsetof(fx_gen_body, truncation), 0, 0 },
    { "add_generation_prompt", FX_F_BOOL, offsetof(fx_gen_body, add_generation_prompt), 0, 0 },
    { "prediction", FX_F_IGNORE, 0, 0, 0 },
    { "functions", FX_F_REFUSE, 0, 0, 0 },
    { "function_call", FX_F_REFUSE, 0, 0, 0 },
    { "audio", FX_F_REFUSE, 0, 0, 0 },
    { "reasoning_effort", FX_F_REFUSE, 0, 0, 0 },
    { "verbosity", FX_F_REFUSE, 0, 0, 0 },
    { "web_search_options", FX_F_REFUSE, 0, 0, 0 },
    { 0 },
};

/* ---- Fields that would change the output in ways not to be had yet ---- */

static bool is_string(const json_t *v, const char *text)
{
    return json_is_string(v) && strcmp(json_string_value(v), text) == 0;
}

static fx_status check_modes(const fx_gen_body *b, fx_error *err)
{
    const json_t *type = json_object_get(b->response_format, "type");
    bool none = is_string(b->tool_choice, "none");

    if (b->response_format && !is_string(type, "text"))
        return fx_fail_param(err, FORNAX_EUNSUP, "response_format", "response_format: only {\"type\": \"text\"} is supported");
    if (b->tools && !json_is_array(b->tools))
        return fx_fail_param(err, FORNAX_EARG, "tools", "tools: expected a list");
    if (json_array_size(b->tools) > 0 && !none)
        return fx_fail_param(err, FORNAX_EUNSUP, "tools",
                             "tools: calls aren't supported yet; tool_choice \"none\" shows them to the model");
    if (b->tool_choice && !none && !is_string(b->tool_choice, "auto"))
        return fx_fail_param(err, FORNAX_EUNSUP, "tool_choice", "tool_choice: only \"auto\" without tools, or \"none\"");
    if (b->modalities && (json_array_size(b->modalities) != 1 || !is_string(json_array_get(b->modalities, 0), "text")))
        return fx_fail_param(err, FORNAX_EUNSUP, "modalities", "modalities: only [\"text\"] is supported");
    if (b->truncation.p && !fx_str_is(b->truncation, "auto") && !fx_str_is(b->truncation, "disabled"))
        return fx_fail_param(err, FORNAX_EARG, "truncation", "truncation: expected auto or disabled, found '%s'",
                             fx_show(b->truncation).z);
    if (b->kwargs && !json_is_object(b->kwargs))
        return fx_fail_param(err, FORNAX_EARG, "chat_template_kwargs", "chat_template_kwargs: expected an object");
    return FORNAX_OK;
}

/* ---- The route ---- */

static fx_status render_messages(fornax_prompt **out, const fornax_tokenizer *tok, const fx_gen_body *b,
                                 const json_t *messages, fx_error *err)
{
    json_t *whole = json_pack("{s:O, s:b}", "messages", messages, "add_generation_prompt", b->add_generation_prompt);
    fx_status st = FORNAX_OK;
    char *text;

    *out = NULL;
    if (whole && b->tools)
        json_object_set(whole, "tools", (json_t *)b->tools);
    if (whole && b->kwargs)
        json_object_set(whole, "kwargs", (json_t *)b->kwargs);
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
