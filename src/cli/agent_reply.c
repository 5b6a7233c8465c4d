/* agent_reply.c - the conversation as a prompt, and one reply of the model; see agent.h. */
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/agent.h"

/* ---- The prompt ---- */

/* A template that doesn't speak of tools: then the system message does. */
static bool template_knows_tools(const fx_agent *a)
{
    const char *text = fornax_tokenizer_template(a->tok);

    return text && strstr(text, "tools");
}

static void describe_tools(fx_buf *b, const json_t *declared)
{
    fx_buf_puts(b, "You can call these functions, described by a JSON object each:\n");
    for (size_t i = 0; i < json_array_size(declared); i++) {
        char *text = json_dumps(json_object_get(json_array_get(declared, i), "function"), JSON_COMPACT);

        b->failed |= !text;
        fx_buf_puts(b, text ? text : "");
        fx_buf_putc(b, '\n');
        free(text);
    }
    fx_buf_puts(b, "To call one, write\n<tool_call>\n{\"name\": \"NAME\", \"arguments\": {...}}\n</tool_call>");
}

/* The first n messages, with the description of tools where the template has none; new. */
static json_t *told(const fx_agent *a, size_t n)
{
    json_t *list = json_array(), *first = json_array_get(a->messages, 0), *system;
    bool ok = list != NULL, has_system = false;
    fx_buf text;

    if (json_array_size(a->declared) > 0 && !template_knows_tools(a)) {
        const char *role = json_string_value(json_object_get(first, "role"));

        fx_buf_init(&text, &fx_mem_libc);
        has_system = role && strcmp(role, "system") == 0;
        if (has_system) {
            fx_buf_puts(&text, json_string_value(json_object_get(first, "content")));
            fx_buf_puts(&text, "\n\n");
        }
        describe_tools(&text, a->declared);
        system = text.failed ? NULL : json_pack("{s:s,s:o}", "role", "system", "content", fx_agent_string(fx_buf_view(&text)));
        ok = system && json_array_append_new(list, system) == 0;
        fx_buf_done(&text);
    }
    for (size_t i = has_system; ok && i < n; i++)
        ok = json_array_append(list, json_array_get(a->messages, i)) == 0;
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

fx_status fx_agent_prompt(fornax_prompt **out, const fx_agent *a, size_t n, fx_error *err)
{
    json_t *list = told(a, n);
    json_t *whole = json_pack("{s:O*,s:I,s:O*}", "messages", list, "now", (json_int_t)a->now, "kwargs", a->kwargs);
    char *text;
    fx_status st;

    if (whole && json_array_size(a->declared) > 0 && json_object_set(whole, "tools", a->declared) != 0) {
        json_decref(whole);
        whole = NULL;
    }
    text = list && whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    json_decref(whole);
    json_decref(list);
    *out = NULL;
    st = text ? fornax_prompt_render(out, a->tok, text, SIZE_MAX, err) : fx_nomem(err, "the conversation");
    free(text);
    return st;
}

void fx_agent_fingerprint(const fornax_prompt *p, char out[64])
{
    size_t n;
    const int32_t *ids = fornax_prompt_ids(p, &n);
    fx_hash128 h = fx_hash128_of(ids, n * sizeof *ids, 0);

    snprintf(out, 64, "%zu:%016llx%016llx", n, (unsigned long long)h.hi, (unsigned long long)h.lo);
}

/* ---- What is shown ---- */

static bool steers(unsigned char c) { return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F; }

void fx_agent_show(fx_agent *a, fx_str text)
{
    bool raw = !isatty(1);

    if (a->opt->json || text.n == 0)
        return;
    for (size_t i = 0, from = 0; i <= text.n; i++) {
        /* C1 controls are C2 80 to C2 9F */
        bool c1 = i + 1 < text.n && (unsigned char)text.p[i] == 0xC2 && (unsigned char)text.p[i + 1] < 0xA0;

        if (i < text.n && (raw || !(c1 || steers((unsigned char)text.p[i]))))
            continue;
        fx_cli_write(fx_str_n(text.p + from, i - from));
        if (i < text.n)
            fx_cli_write(FX_STR("?"));
        i += c1;
        from = i + 1;
    }
    a->streaming = text.p[text.n - 1] != '\n';
}

void fx_agent_end_line(fx_agent *a)
{
    if (a->streaming)
        fx_cli_write(FX_STR("\n"));
    a->streaming = false;
}

/* ---- A reply as it comes in ---- */

typedef struct hearing {
    fx_agent *a;
    fx_buf text, thought, arguments;
    json_t *calls;               /* OpenAI's tool_calls */
    json_t *ids;                 /* of all tokens */
    fornax_event end;
    char error[256];
    bool failed, cut;            /* no memory; a call isn't whole */
} hearing;

static void begin_call(hearing *h, fx_str name)
{
    char id[16];
    json_t *call;

    snprintf(id, sizeof id, "c%08llx", (unsigned long long)(uint32_t)h->a->n_calls++);    /* nine letters: some templates ask for that */
    call = json_pack("{s:s,s:s,s:{s:o}}", "id", id, "type", "function", "function", "name", fx_agent_string(name));
    h->failed |= json_array_append_new(h->calls, call) != 0;
    fx_buf_clear(&h->arguments);
}

/* A call without arguments that can be read isn't one: the reply was cut off. */
static void end_call(hearing *h)
{
    size_t last = json_array_size(h->calls) - 1;
    fx_str text = fx_buf_view(&h->arguments);
    json_t *arguments = json_loadb(text.p, text.n, JSON_ALLOW_NUL, NULL);

    if (json_is_object(arguments)) {
        h->failed |= json_object_set(json_object_get(json_array_get(h->calls, last), "function"), "arguments", arguments) != 0;
    } else {
        h->cut = true;
        json_array_remove(h->calls, last);
    }
    json_decref(arguments);
}

static void take_part(void *user, const fornax_part *p)
{
    hearing *h = user;
    fx_str text = fx_str_n(p->text, p->n);

    if (h->failed)
        return;
    switch (p->kind) {
    case FORNAX_PART_TEXT:
        fx_buf_str(&h->text, text);
        fx_agent_show(h->a, text);
        break;
    case FORNAX_PART_THOUGHT: fx_buf_str(&h->thought, text); break;
    case FORNAX_PART_CALL: begin_call(h, text); break;
    case FORNAX_PART_ARGUMENTS: fx_buf_str(&h->arguments, text); break;
    case FORNAX_PART_CALL_END: end_call(h); break;
    }
}

static void take_event(hearing *h, fornax_reply *reply, const fornax_event *e)
{
    if (e->kind == FORNAX_EVENT_DONE) {
        h->end.status = e->status;
        snprintf(h->error, sizeof h->error, "%s", e->error ? e->error : fornax_status_name(e->status));
        return;
    }
    if (e->token >= 0)
        h->failed |= json_array_append_new(h->ids, json_integer(e->token)) != 0;
    h->failed |= fornax_reply_feed(reply, e->text, e->text_n, NULL) != FORNAX_OK;
    if (e->kind == FORNAX_EVENT_FINISH)
        h->end = *e;
}

/* Follows the request to its end; ^C, and nobody who reads, end it early. */
static void follow(hearing *h, fornax_request *req, fornax_reply *reply)
{
    bool over = false;

    while (!over) {
        const fornax_event *e;
        fornax_error err = { 0 };
        fornax_status st = fornax_request_next(req, &e, 50, &err);

        if (fx_cli_interrupted() || !fx_cli_output_ok() || h->failed)
            fornax_request_cancel(req);
        if (st == FORNAX_OK) {
            over = e->kind == FORNAX_EVENT_DONE;
            take_event(h, reply, e);
        } else if (st != FORNAX_ETIMEOUT) {
            h->end.status = st;
            over = true;
        }
    }
    h->failed |= fornax_reply_end(reply, NULL) != FORNAX_OK;
}

/* What was said, as a message.  The tokens are kept only of a reply that is whole. */
static json_t *message_of(const hearing *h)
{
    bool whole = h->end.status == FORNAX_OK && !h->cut;
    json_t *m = json_pack("{s:s,s:o}", "role", "assistant", "content", fx_agent_string(fx_buf_view(&h->text)));

    if (m && h->thought.n > 0)
        json_object_set_new(m, "reasoning_content", fx_agent_string(fx_buf_view(&h->thought)));
    if (m && json_array_size(h->calls) > 0)
        json_object_set(m, "tool_calls", h->calls);
    if (m && whole)
        json_object_set(m, "emitted", h->ids);
    return m;
}

static const char *finish_of(const hearing *h)
{
    return h->end.status != FORNAX_OK ? "cancel" : h->end.finish == FORNAX_FINISH_LENGTH ? "length"
           : json_array_size(h->calls) > 0 ? "tool_calls" : "stop";
}

static json_t *turn_of(const hearing *h, const fornax_prompt *prompt, const fornax_turn *turn, uint64_t seed)
{
    const char *gates = fornax_turn_gates(turn);
    char fingerprint[64], digits[24];

    fx_agent_fingerprint(prompt, fingerprint);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    return json_pack("{s:s,s:I,s:I,s:I,s:s,s:s,s:o*}", "prompt", fingerprint, "prompt_tokens", (json_int_t)h->end.prompt_tokens,
                     "cached_tokens", (json_int_t)h->end.cached_tokens, "generated_tokens", (json_int_t)h->end.generated_tokens,
                     "finish", finish_of(h), "seed", digits, "gates", gates ? json_loads(gates, JSON_ALLOW_NUL, NULL) : NULL);
}

/* Keeps the reply. A reply that failed without a word is none. */
static fx_status keep(hearing *h, const fornax_prompt *prompt, const fornax_turn *turn, uint64_t seed, fx_error *err)
{
    fx_status st = h->end.status, kept;

    if (h->failed || h->text.failed || h->thought.failed || h->arguments.failed)
        return fx_nomem(err, "the reply");
    if (st != FORNAX_OK && st != FORNAX_ECANCEL)
        return fx_fail(err, st, "%s", h->error);
    kept = fx_agent_add(h->a, message_of(h), turn_of(h, prompt, turn, seed), err);
    if (kept != FORNAX_OK)
        return kept;
    return st == FORNAX_OK ? st : fx_fail(err, st, "the reply was stopped");
}

static fx_status listen(fx_agent *a, const fornax_prompt *prompt, const fornax_turn *turn, fx_error *err)
{
    fornax_request_options r = FORNAX_OPTIONS(fornax_request_options);
    fornax_string stops[FX_COUNT(a->opt->sampling.stop.at)];
    hearing h = { .a = a, .calls = json_array(), .ids = json_array() };
    fx_buf *bufs[] = { &h.text, &h.thought, &h.arguments };
    fornax_request *req = NULL;
    fornax_reply *reply = NULL;
    fx_status st = h.calls && h.ids ? FORNAX_OK : fx_nomem(err, "the reply");

    for (size_t i = 0; i < FX_COUNT(bufs); i++)
        fx_buf_init(bufs[i], &fx_mem_libc);
    fx_cli_sampling(&r, &a->opt->sampling, stops);
    r.ids = fornax_prompt_ids(prompt, &r.n_ids);
    r.grammar = fornax_turn_grammar(turn);
    r.special_text = fornax_turn_special_text(turn);
    r.adapter = a->adapter;
    if (st == FORNAX_OK)
        st = fornax_reply_open(&reply, turn, take_part, &h, err);
    if (st == FORNAX_OK)
        st = fornax_request_submit(&req, a->engine, &r, err);
    if (st == FORNAX_OK) {
        follow(&h, req, reply);
        st = keep(&h, prompt, turn, fornax_request_seed(req), err);
    }
    fornax_request_close(req);
    fornax_reply_close(reply);
    for (size_t i = 0; i < FX_COUNT(bufs); i++)
        fx_buf_done(bufs[i]);
    json_decref(h.calls);
    json_decref(h.ids);
    return st;
}

fx_status fx_agent_reply(fx_agent *a, const char *choice, fx_error *err)
{
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    bool any = json_array_size(a->declared) > 0;
    char *tools = any ? json_dumps(a->declared, JSON_COMPACT) : NULL;
    char *messages = json_dumps(a->messages, JSON_COMPACT);
    fornax_prompt *prompt = NULL;
    fornax_turn *turn = NULL;
    fx_status st = messages && (tools || !any) ? fx_agent_prompt(&prompt, a, json_array_size(a->messages), err)
                                               : fx_nomem(err, "the conversation");

    o.tools = tools;
    o.tool_choice = any ? choice : NULL;
    o.policy = a->policy;
    o.messages = messages;
    if (st == FORNAX_OK) {
        o.prompt = fornax_prompt_text(prompt, &o.prompt_n);
        st = fornax_turn_open(&turn, a->tok, &o, err);
    }
    if (st == FORNAX_OK)
        st = listen(a, prompt, turn, err);
    fx_agent_end_line(a);
    fornax_turn_close(turn);
    fornax_prompt_close(prompt);
    free(tools);
    free(messages);
    return st;
}
