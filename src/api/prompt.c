/* prompt.c - a conversation rendered by the chat template, then tokenized with the spans that
 * came from messages and tools kept free of special tokens; replies whose ids were kept (kept.c) get those. */
#include "api/kept.h"

struct fornax_prompt {
    const fx_mem *mem;
    fx_rendered text;
    fx_ids ids;
};

/* The template for this call, parsed once. */
fx_status fx_api_template(const fx_template **out, const fornax_tokenizer *tok, bool tools, fx_error *err)
{
    fornax_tokenizer *mut = (fornax_tokenizer *)tok;      /* the cache of parsed templates, under its lock */
    const char *text = tools && tok->tool_template ? tok->tool_template : tok->template_text;
    fx_template **slot = text == tok->template_text ? &mut->parsed : &mut->parsed_tool;
    fx_status st = FORNAX_OK;

    if (!text)
        return fx_fail(err, FORNAX_ENOTFOUND, "the model has no chat template");
    pthread_mutex_lock(&mut->lock);
    if (!*slot)
        st = fx_template_parse(slot, &tok->ctx->mem, "chat_template", fx_str_of(text), err);
    *out = *slot;
    pthread_mutex_unlock(&mut->lock);
    return st;
}

static fx_status need_type(const json_t *v, bool ok, const char *key, const char *type, fx_error *err)
{
    if (!v || json_is_null(v) || ok)
        return FORNAX_OK;
    return fx_fail_param(err, FORNAX_EARG, key, "%s: expected %s", key, type);
}

/* ---- Arguments of calls: OpenAI's form has JSON text, templates expect the object ---- */

static fx_status bad_arguments(size_t i, size_t k, fx_error *err)
{
    char param[64];

    fx_format(param, sizeof param, "messages[%zu].tool_calls[%zu]", i, k);
    return fx_fail_param(err, FORNAX_EARG, param, "%s.function.arguments: expected an object, or its JSON text", param);
}

/* New reference; NULL: they are no object. None at all, and an empty text, are an object without members. */
static json_t *opened(const json_t *arguments)
{
    fx_str text = fx_str_trim(fx_str_n(json_string_value(arguments), json_string_length(arguments)));
    json_t *v;

    if (json_is_object(arguments))
        return json_incref((json_t *)(uintptr_t)arguments);
    if (!arguments || json_is_null(arguments) || (json_is_string(arguments) && text.n == 0))
        return json_object();
    v = text.n > 0 ? json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL) : NULL;
    if (json_is_object(v))
        return v;
    json_decref(v);
    return NULL;
}

static fx_status open_arguments(const json_t *messages, fx_error *err)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *calls = json_object_get(json_array_get(messages, i), "tool_calls");

        for (size_t k = 0; k < json_array_size(calls); k++) {
            json_t *function = json_object_get(json_array_get(calls, k), "function"), *arguments;

            if (!json_is_object(function))
                continue;
            arguments = opened(json_object_get(function, "arguments"));
            if (!arguments || json_object_set_new(function, "arguments", arguments) != 0)
                return bad_arguments(i, k, err);
        }
    }
    return FORNAX_OK;
}

/* The template's variables from the request; new reference. */
static fx_status make_vars(json_t **out, json_t *request, fx_error *err)
{
    static const char *const known[] = { "messages", "tools", "documents", "add_generation_prompt", "kwargs", "now" };
    json_t *messages = json_object_get(request, "messages"), *tools = json_object_get(request, "tools");
    json_t *documents = json_object_get(request, "documents"), *kwargs = json_object_get(request, "kwargs");
    json_t *gen = json_object_get(request, "add_generation_prompt"), *vars;
    const char *key;
    json_t *value;

    json_object_foreach(request, key, value) {
        bool found = false;
        for (size_t i = 0; i < FX_COUNT(known); i++)
            found |= strcmp(key, known[i]) == 0;
        if (!found)
            return fx_fail_param(err, FORNAX_EARG, key, "%s: no such field; template variables go into kwargs", key);
    }
    if (!json_is_array(messages))
        return fx_fail_param(err, FORNAX_EARG, "messages", "messages: expected an array");
    FX_TRY(need_type(tools, json_is_array(tools), "tools", "an array", err));
    FX_TRY(need_type(documents, json_is_array(documents), "documents", "an array", err));
    FX_TRY(need_type(kwargs, json_is_object(kwargs), "kwargs", "an object", err));
    FX_TRY(need_type(gen, json_is_boolean(gen), "add_generation_prompt", "true or false", err));
    FX_TRY(need_type(json_object_get(request, "now"), json_is_integer(json_object_get(request, "now")), "now", "seconds since 1970", err));
    FX_TRY(open_arguments(messages, err));
    FX_TRY(fx_template_messages(&messages, messages, err));
    vars = json_object();
    if (json_object_set_new(vars, "messages", messages) != 0 ||
        json_object_set(vars, "tools", tools ? tools : json_null()) != 0 ||
        json_object_set(vars, "documents", documents ? documents : json_null()) != 0 ||
        json_object_set(vars, "add_generation_prompt", gen && !json_is_null(gen) ? gen : json_true()) != 0 ||
        (json_is_object(kwargs) && json_object_update(vars, kwargs) != 0)) {
        json_decref(vars);
        return fx_nomem(err, "the template's variables");
    }
    *out = vars;
    return FORNAX_OK;
}

fx_status fx_api_render(fx_rendered *out, const fornax_tokenizer *tok, json_t *request, fx_error *err)
{
    const json_t *now = json_object_get(request, "now");
    fx_render_options opt = { .trusted = tok->trusted, .now = json_is_integer(now) ? json_integer_value(now) : fx_api_now(tok->ctx) };
    const fx_template *t = NULL;
    json_t *vars = NULL;
    bool tools = json_array_size(json_object_get(request, "tools")) > 0;

    FX_TRY(make_vars(&vars, request, err));
    opt.vars = vars;
    fx_status st = fx_api_template(&t, tok, tools, err);
    if (st == FORNAX_OK)
        st = fx_template_render(t, &opt, out, err);
    json_decref(vars);
    return st;
}

static fx_status render(fornax_prompt *p, const fornax_tokenizer *tok, json_t *request, fx_error *err)
{
    fx_kept kept;
    fx_status st = fx_kept_take(&kept, tok, request, err);

    if (st == FORNAX_OK)
        st = fx_api_render(&p->text, tok, request, err);
    if (st == FORNAX_OK)
        st = fx_kept_place(&kept, &p->text, err);
    if (st == FORNAX_OK && tok->t)
        st = fx_kept_encode(&kept, &p->text, &p->ids, err);
    fx_kept_done(&kept);
    return st;
}

fornax_status fornax_prompt_render(fornax_prompt **out, const fornax_tokenizer *tok, const char *json, size_t json_n,
                                   fornax_error *err)
{
    fornax_prompt *p;
    json_error_t je;
    json_t *request;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(tok);
    if (json_n > 0)
        FX_API_NEED(json);
    FX_TRY(fx_api_usable(tok->ctx, err));
    if (json_n == SIZE_MAX)
        json_n = strlen(json);
    if (json_n == 0)
        return fx_fail(err, FORNAX_EFORMAT, "conversation: expected a JSON object, found nothing");
    request = json_loadb(json, json_n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &je);
    if (!request)
        return fx_fail(err, FORNAX_EFORMAT, "conversation: line %d, column %d: %s", je.line, je.column, je.text);
    p = fx_mem_zalloc(&tok->ctx->mem, sizeof *p);
    if (!p) {
        json_decref(request);
        return fx_nomem(err, "a prompt");
    }
    p->mem = &tok->ctx->mem;
    fx_ids_init(&p->ids, p->mem);
    fx_buf_init(&p->text.text, p->mem);
    fx_fpmode old = fx_fpmode_enter();   /* templates compute too */
    st = json_is_object(request) ? render(p, tok, request, err)
                                 : fx_fail(err, FORNAX_EFORMAT, "conversation: expected a JSON object");
    fx_fpmode_leave(old);
    json_decref(request);
    if (st != FORNAX_OK) {
        fornax_prompt_close(p);
        return st;
    }
    *out = p;
    return FORNAX_OK;
}

const char *fornax_prompt_text(const fornax_prompt *prompt, size_t *n)
{
    fx_str s = fx_buf_view(&prompt->text.text);

    if (n)
        *n = s.n;
    return s.p;
}

const int32_t *fornax_prompt_ids(const fornax_prompt *prompt, size_t *n)
{
    if (n)
        *n = prompt->ids.n;
    return prompt->ids.at;
}

void fornax_prompt_close(fornax_prompt *prompt)
{
    if (!prompt)
        return;
    fx_rendered_done(&prompt->text, prompt->mem);
    fx_ids_done(&prompt->ids);
    fx_mem_free(prompt->mem, prompt, sizeof *prompt);
}
