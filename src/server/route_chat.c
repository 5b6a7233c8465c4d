/* route_chat.c - POST /v1/chat/completions: the next turn of a conversation. */
#include <stdlib.h>

#include "server/gen.h"

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

/* ---- Messages: checked, and in the shape that templates know ---- */

static fx_status fault(fx_error *err, size_t i, const char *what)
{
    char param[64];

    snprintf(param, sizeof param, "messages[%zu]", i);
    return fx_fail_param(err, FORNAX_EARG, param, "messages[%zu]%s", i, what);
}

/* Content given as parts becomes one string, text parts a line each. */
static fx_status join_parts(json_t *message, size_t i, const json_t *parts, fx_error *err)
{
    fx_buf b;
    fx_status st = FORNAX_OK;

    fx_buf_init(&b, &fx_mem_libc);
    for (size_t p = 0; st == FORNAX_OK && p < json_array_size(parts); p++) {
        const json_t *part = json_array_get(parts, p), *type = json_object_get(part, "type");
        const json_t *text = json_object_get(part, "text");

        if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0 || !json_is_string(text)) {
            st = fault(err, i, ".content: only parts of type \"text\" with a string \"text\" are supported");
        } else {
            fx_buf_puts(&b, p ? "\n" : "");
            fx_buf_add(&b, json_string_value(text), json_string_length(text));
        }
    }
    if (st == FORNAX_OK && (b.failed || json_object_set_new(message, "content", json_stringn(fx_buf_view(&b).p, b.n)) != 0))
        st = fx_nomem(err, "a message");
    fx_buf_done(&b);
    return st;
}

/* Arguments come as JSON text; templates expect the object. */
static fx_status open_arguments(json_t *calls, size_t i, fx_error *err)
{
    for (size_t k = 0; k < json_array_size(calls); k++) {
        json_t *function = json_object_get(json_array_get(calls, k), "function");
        json_t *arguments = json_object_get(function, "arguments"), *opened;

        if (!json_is_object(function) || !json_is_string(json_object_get(function, "name")))
            return fault(err, i, ".tool_calls: expected objects with a function that has a name");
        if (!json_is_string(arguments))
            continue;
        opened = json_loadb(json_string_value(arguments), json_string_length(arguments), JSON_ALLOW_NUL, NULL);
        if (json_is_object(opened))
            json_object_set(function, "arguments", opened);
        json_decref(opened);
    }
    return FORNAX_OK;
}

static fx_status read_message(json_t *m, size_t i, fx_error *err)
{
    static const char *const roles[] = { "system", "developer", "user", "assistant", "tool", "function" };
    const json_t *role = json_object_get(m, "role");
    json_t *content = json_object_get(m, "content"), *calls = json_object_get(m, "tool_calls");
    bool known = false;

    if (!json_is_object(m) || !json_is_string(role))
        return fault(err, i, ": expected an object with a role");
    for (size_t r = 0; r < FX_COUNT(roles); r++)
        known |= strcmp(json_string_value(role), roles[r]) == 0;
    if (!known)
        return fault(err, i, ".role: expected system, developer, user, assistant, tool or function");
    if (strcmp(json_string_value(role), "developer") == 0)
        json_object_set_new(m, "role", json_string("system"));
    if (json_is_array(content))
        FX_TRY(join_parts(m, i, content, err));
    else if (json_is_null(content) || !content ? !json_is_array(calls) : !json_is_string(content))
        return fault(err, i, ".content: expected a string or a list of text parts");
    else if (!content || json_is_null(content))
        json_object_set_new(m, "content", json_string(""));
    if (calls && !json_is_null(calls)) {
        if (!json_is_array(calls))
            return fault(err, i, ".tool_calls: expected a list");
        return open_arguments(calls, i, err);
    }
    return FORNAX_OK;
}

static fx_status read_messages(const json_t *messages, fx_error *err)
{
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return fx_fail_param(err, FORNAX_EARG, "messages", "messages: expected a list with at least one message");
    for (size_t i = 0; i < json_array_size(messages); i++)
        FX_TRY(read_message(json_array_get(messages, i), i, err));
    return FORNAX_OK;
}

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
    if (b->kwargs && !json_is_object(b->kwargs))
        return fx_fail_param(err, FORNAX_EARG, "chat_template_kwargs", "chat_template_kwargs: expected an object");
    return FORNAX_OK;
}

/* ---- The route ---- */

static fx_status render(fx_gen *g, const fornax_tokenizer *tok, const fx_gen_body *b, fx_error *err)
{
    json_t *whole = json_pack("{s:O, s:b}", "messages", b->messages, "add_generation_prompt", b->add_generation_prompt);
    fornax_prompt *prompt = NULL;
    const int32_t *ids;
    char *text;
    size_t n;
    fx_status st;

    if (whole && b->tools)
        json_object_set(whole, "tools", (json_t *)b->tools);
    if (whole && b->kwargs)
        json_object_set(whole, "kwargs", (json_t *)b->kwargs);
    text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    json_decref(whole);
    if (!text)
        return fx_nomem(err, "the conversation");
    st = fornax_prompt_render(&prompt, tok, text, SIZE_MAX, err);
    free(text);
    FX_TRY(st);
    ids = fornax_prompt_ids(prompt, &n);
    st = fx_gen_prompt(g, ids, n, FX_STR(""), err);
    fornax_prompt_close(prompt);
    return st;
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
        st = read_messages(body.messages, &err);
    if (st == FORNAX_OK)
        st = fx_gen_new(&g, c, &body, true, &err);
    if (st == FORNAX_OK) {
        st = render(g, c->http->tok, &body, &err);
        if (st == FORNAX_ENOTFOUND)      /* no chat template: the request can't be served, the route exists */
            err.status = FORNAX_EUNSUP;
    }
    if (st == FORNAX_OK)
        st = fx_gen_submit(g, &err);
    if (st == FORNAX_OK) {
        fx_call_run(c, g);
    } else {
        fx_gen_free(g);
        fx_reply_error(c, &err);
    }
    json_decref(json);
}

const fx_route fx_route_chat = { "POST", "/v1/chat/completions", false, chat };
