/* route_completions.c - POST /v1/completions: continues raw prompts. */
#include "server/gen.h"
#include "server/wanted.h"

static const fx_field fields[] = {
    FX_GEN_FIELDS,
    { "prompt", FX_F_JSON, offsetof(fx_gen_body, prompt), 0, 0 },
    { "max_tokens", FX_F_INT, offsetof(fx_gen_body, max_tokens), 0, 1e9 },
    { "logprobs", FX_F_INT, offsetof(fx_gen_body, logprobs_int), 0, 20 },
    { "echo", FX_F_BOOL, offsetof(fx_gen_body, echo), 0, 0 },
    { "best_of", FX_F_INT, offsetof(fx_gen_body, best_of), 1, 128 },
    { "parse_special", FX_F_BOOL, offsetof(fx_gen_body, parse_special), 0, 0 },
    { "suffix", FX_F_REFUSE, 0, 0, 0 },
    { 0 },
};

static fx_status text_prompt(fx_gen *g, const fornax_tokenizer *tok, const json_t *v, bool special, fx_error *err)
{
    const char *text = json_string_value(v);
    size_t n = 0, text_n = json_string_length(v);
    FX_VEC(int32_t) ids = { 0 };
    unsigned flags = FORNAX_TOKENIZE_ADD | (special ? FORNAX_TOKENIZE_SPECIAL : 0);
    fx_status st = fornax_tokenize(tok, text, text_n, flags, NULL, 0, &n, err);

    if (st == FORNAX_OK && !FX_VEC_RESERVE(&ids, &fx_mem_libc, n + 1))
        st = fx_nomem(err, "a prompt");
    if (st == FORNAX_OK)
        st = fornax_tokenize(tok, text, text_n, flags, ids.at, ids.cap, &n, err);
    if (st == FORNAX_OK)
        st = fx_gen_prompt(g, ids.at, n, fx_str_n(text, text_n), err);
    FX_VEC_FREE(&ids, &fx_mem_libc);
    return st;
}

static fx_status ids_prompt(fx_gen *g, const fx_http *h, const json_t *list, fx_error *err)
{
    FX_VEC(int32_t) ids = { 0 };
    fornax_text *text = NULL;
    fx_status st = FORNAX_OK;
    fx_str shown = FX_STR("");

    for (size_t i = 0; st == FORNAX_OK && i < json_array_size(list); i++) {
        int32_t id;

        st = fx_gen_id(h, json_array_get(list, i), "prompt", i, &id, err);
        if (st == FORNAX_OK && !FX_VEC_PUSH(&ids, &fx_mem_libc, id))
            st = fx_nomem(err, "a prompt");
    }
    if (st == FORNAX_OK)
        st = fornax_detokenize(h->tok, ids.at, ids.n, 0, &text, err);
    if (st == FORNAX_OK) {
        shown.p = fornax_text_bytes(text, &shown.n);
        st = fx_gen_prompt(g, ids.at, ids.n, shown, err);
    }
    fornax_text_close(text);
    FX_VEC_FREE(&ids, &fx_mem_libc);
    return st;
}

static fx_status add_prompts(fx_gen *g, const fx_http *h, const fx_gen_body *b, fx_error *err)
{
    const json_t *prompt = b->prompt;

    if (json_is_string(prompt))
        return text_prompt(g, h->tok, prompt, b->parse_special, err);
    if (!json_is_array(prompt) || json_array_size(prompt) == 0 || json_array_size(prompt) > 1024 * 1024)
        return fx_fail_param(err, FORNAX_EARG, "prompt", "prompt: expected a string, token ids, or a list of either");
    if (json_is_integer(json_array_get(prompt, 0)))
        return ids_prompt(g, h, prompt, err);
    if (json_array_size(prompt) > 256)
        return fx_fail_param(err, FORNAX_EARG, "prompt", "prompt: expected at most 256 prompts, found %zu",
                             json_array_size(prompt));
    for (size_t i = 0; i < json_array_size(prompt); i++) {
        const json_t *v = json_array_get(prompt, i);
        if (json_is_string(v))
            FX_TRY(text_prompt(g, h->tok, v, b->parse_special, err));
        else if (json_is_array(v))
            FX_TRY(ids_prompt(g, h, v, err));
        else
            return fx_fail_param(err, FORNAX_EARG, "prompt", "prompt[%zu]: expected a string or a list of token ids", i);
    }
    return FORNAX_OK;
}

/* What the text is held to, if the request says so. */
static fx_status hold(fx_gen *g, const fx_http *h, const fx_gen_body *b, fx_error *err)
{
    fornax_grammar *grammar = NULL;
    fx_wanted format;
    fx_status st = fx_wanted_read(&format, b, err);

    if (st == FORNAX_OK && format.on) {
        st = fornax_grammar_open(&grammar, fornax_model_context(h->model), format.text, format.n, &format.o, err);
        if (st != FORNAX_OK)
            fx_wanted_fault(&format, err);
        else
            fx_gen_hold(g, grammar);
    }
    fx_wanted_free(&format);
    return st;
}

static void completions(fx_call *c)
{
    fx_gen_body body = fx_gen_defaults;
    json_t *json = fx_call_json(c);
    fx_error err = { 0 };
    fx_gen *g = NULL;
    fx_status st;

    if (!json)
        return;
    st = fx_fields_read(json, fields, &body, NULL, c->http->opt.lenient_fields ? &c->ignored : NULL, &err);
    if (st == FORNAX_OK && !body.prompt)
        st = fx_fail_param(&err, FORNAX_EARG, "prompt", "prompt: missing");
    if (st == FORNAX_OK)
        st = fx_gen_new(&g, c, &body, false, &err);
    if (st == FORNAX_OK)
        st = hold(g, c->http, &body, &err);
    if (st == FORNAX_OK)
        st = add_prompts(g, c->http, &body, &err);
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

const fx_route fx_route_completions = { "POST", "/v1/completions", false, completions, false };
