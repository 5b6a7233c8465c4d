/* agent_history.c - the transcript of an agent's conversation; see agent.h and docs/agent.md.
 *
 *     {"fornax_transcript": 1, "tokenizer": HASH, "now": SECONDS, "kwargs": {...}}     first
 *     {"tools": [...]}                                                        what the model is told, whenever that changes
 *     {"message": {...}}                                                      of the system, the user or a tool
 *     {"message": {..., "emitted": [ids]}, "turn": {"prompt": HASH, ...}}     of the model, behind that prompt */
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/agent.h"

json_t *fx_agent_string(fx_str text)
{
    json_t *v = json_stringn(text.p ? text.p : "", text.n);
    fx_buf b;

    if (v)
        return v;
    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_json_string(&b, text);
    v = b.failed ? NULL : json_loadb(b.p, b.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    fx_buf_done(&b);
    return v;
}

/* What the prompts' ids depend on beside the conversation: the tokens, and the template. */
static void tokenizer_hash(const fornax_tokenizer *tok, char out[40])
{
    const char *chat = fornax_tokenizer_template(tok);
    fx_hash128 h = fx_hash128_of(chat ? chat : "", chat ? strlen(chat) : 0, (uint64_t)fornax_tokenizer_size(tok));

    for (int64_t i = 0; i < fornax_tokenizer_size(tok); i++) {
        size_t n = 0;
        const char *p = fornax_token_bytes(tok, (int32_t)i, &n);

        h = fx_hash128_of(p ? p : "", p ? n : 0, h.lo ^ h.hi);
    }
    snprintf(out, 40, "%016llx%016llx", (unsigned long long)h.hi, (unsigned long long)h.lo);
}

/* ---- Writing ---- */

static fx_status write_line(fx_agent *a, json_t *line, fx_error *err)
{
    if (a->log.fd >= 0)
        return fx_transcript_add(&a->log, line, err);
    json_decref(line);
    return line ? FORNAX_OK : fx_nomem(err, "the conversation");
}

fx_status fx_agent_add(fx_agent *a, json_t *message, json_t *turn, fx_error *err)
{
    json_t *line = json_pack("{s:o*,s:o*}", "message", message, "turn", turn);
    char *text;

    if (!message || !line || json_array_append(a->messages, message) != 0) {
        json_decref(line);
        return fx_nomem(err, "the conversation");
    }
    if (a->opt->json && strcmp(json_string_value(json_object_get(message, "role")), "assistant") != 0 &&
        strcmp(json_string_value(json_object_get(message, "role")), "tool") != 0)
        return write_line(a, line, err);
    if (a->opt->json) {
        text = json_dumps(line, JSON_COMPACT);
        fx_cli_write(fx_str_of(text ? text : ""));
        fx_cli_write(FX_STR("\n"));
        free(text);
    }
    return write_line(a, line, err);
}

static fx_status write_tools(fx_agent *a, fx_error *err)
{
    return write_line(a, json_pack("{s:O}", "tools", a->declared), err);
}

fx_status fx_agent_tools_changed(fx_agent *a, fx_error *err)
{
    json_t *declared = fx_tools_declared(&a->tools);

    if (!declared)
        return fx_nomem(err, "tools");
    json_decref(a->declared);
    a->declared = declared;
    return write_tools(a, err);
}

/* ---- Reading ---- */

static fx_status fault(const fx_agent *a, size_t line, const char *what, fx_error *err)
{
    return fx_fail(err, FORNAX_EFORMAT, "%s:%zu: %s", FX_SHOW(fx_str_of(a->opt->transcript)), line + 1, what);
}

static fx_status read_head(fx_agent *a, const json_t *head, fx_error *err)
{
    const json_t *hash = json_object_get(head, "tokenizer"), *now = json_object_get(head, "now");
    json_t *kwargs = json_object_get(head, "kwargs");
    char own[40];

    if (json_integer_value(json_object_get(head, "fornax_transcript")) != 1 || !json_is_string(hash) || !json_is_integer(now))
        return fault(a, 0, "expected the head of a transcript, with \"fornax_transcript\": 1, \"tokenizer\" and \"now\"", err);
    tokenizer_hash(a->tok, own);
    if (strcmp(own, json_string_value(hash)) != 0)
        return fault(a, 0, "it was written with another tokenizer or chat template", err);
    if (a->kwargs && !json_equal(a->kwargs, kwargs))
        return fault(a, 0, "it was written with another --kwargs", err);
    json_decref(a->kwargs);
    a->kwargs = json_incref(kwargs);
    a->now = json_integer_value(now);
    return FORNAX_OK;
}

/* A message that the rest can rely on: its role, its content, its calls. */
static const char *check_message(const json_t *m)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    const json_t *calls = json_object_get(m, "tool_calls");
    const char *role = json_string_value(json_object_get(m, "role"));
    bool known = false;

    for (size_t i = 0; role && i < FX_COUNT(roles); i++)
        known |= strcmp(role, roles[i]) == 0;
    if (!known || !json_is_string(json_object_get(m, "content")))
        return "expected a message with a role and a content";
    if (calls && !json_is_array(calls))
        return "tool_calls: expected a list";
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *f = json_object_get(call, "function");

        if (!json_is_string(json_object_get(call, "id")) || !json_is_string(json_object_get(f, "name")) ||
            !json_is_object(json_object_get(f, "arguments")))
            return "tool_calls: expected an id, a name and arguments";
    }
    return NULL;
}

static fx_status read_line(fx_agent *a, size_t i, fx_error *err)
{
    const json_t *line = json_array_get(a->log.lines, i);
    json_t *message = json_object_get(line, "message"), *tools = json_object_get(line, "tools");
    const char *why = message ? check_message(message) : json_is_array(tools) ? NULL : "expected \"message\" or \"tools\"";

    if (why)
        return fault(a, i, why, err);
    if (message) {
        a->n_calls += (int64_t)json_array_size(json_object_get(message, "tool_calls"));
        return json_array_append(a->messages, message) == 0 ? FORNAX_OK : fx_nomem(err, "the conversation");
    }
    json_decref(a->declared);
    a->declared = json_incref(tools);
    return FORNAX_OK;
}

/* Calls that were under way when the program ended: nobody knows whether they ran. */
static fx_status answer_open_calls(fx_agent *a, fx_error *err)
{
    size_t n = json_array_size(a->messages), answered = 0;
    const json_t *calls;

    while (n > 0 && strcmp(json_string_value(json_object_get(json_array_get(a->messages, n - 1), "role")), "tool") == 0)
        n--, answered++;
    calls = n > 0 ? json_object_get(json_array_get(a->messages, n - 1), "tool_calls") : NULL;
    for (size_t i = answered; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);

        FX_TRY(fx_agent_add(a, json_pack("{s:s,s:O,s:O,s:s}", "role", "tool", "tool_call_id", json_object_get(call, "id"), "name",
                                         json_object_get(json_object_get(call, "function"), "name"), "content",
                                         "{\"error\": \"the program ended before this tool had answered; it may have run or not\"}"), NULL, err));
    }
    return FORNAX_OK;
}

static fx_status begin_history(fx_agent *a, json_t *tools, fx_error *err)
{
    char hash[40];

    tokenizer_hash(a->tok, hash);
    FX_TRY(write_line(a, json_pack("{s:i,s:s,s:I,s:O*}", "fornax_transcript", 1, "tokenizer", hash, "now", (json_int_t)a->now, "kwargs",
                                   a->kwargs), err));
    a->declared = json_incref(tools);
    FX_TRY(write_tools(a, err));
    if (!a->opt->system)
        return FORNAX_OK;
    return fx_agent_add(a, json_pack("{s:s,s:o}", "role", "system", "content", fx_agent_string(fx_str_of(a->opt->system))), NULL, err);
}

static fx_status check_system(const fx_agent *a, fx_error *err)
{
    const json_t *first = json_array_get(a->messages, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const char *said = role && strcmp(role, "system") == 0 ? json_string_value(json_object_get(first, "content")) : NULL;

    if (a->opt->system && (!said || strcmp(said, a->opt->system) != 0))
        return fx_fail(err, FORNAX_EARG, "%s: it was begun with another system message", FX_SHOW(fx_str_of(a->opt->transcript)));
    return FORNAX_OK;
}

static fx_status go_on(fx_agent *a, json_t *tools, fx_error *err)
{
    FX_TRY(read_head(a, json_array_get(a->log.lines, 0), err));
    for (size_t i = 1; i < json_array_size(a->log.lines); i++)
        FX_TRY(read_line(a, i, err));
    FX_TRY(check_system(a, err));
    FX_TRY(answer_open_calls(a, err));
    if (json_equal(a->declared, tools))
        return FORNAX_OK;
    json_decref(a->declared);
    a->declared = json_incref(tools);
    return write_tools(a, err);
}

fx_status fx_agent_open_history(fx_agent *a, bool *resumed, fx_error *err)
{
    json_t *tools = fx_tools_declared(&a->tools);
    fx_status st = tools ? FORNAX_OK : fx_nomem(err, "tools");

    a->now = fx_clock_unix();
    if (st == FORNAX_OK && a->opt->transcript)
        st = fx_transcript_open(&a->log, a->opt->transcript, true, err);
    *resumed = json_array_size(a->log.lines) > 0;
    if (st == FORNAX_OK)
        st = *resumed ? go_on(a, tools, err) : begin_history(a, tools, err);
    json_decref(tools);
    return st;
}

/* ---- Checking ---- */

static fx_status check_turn(const fx_agent *a, size_t line, const char *wanted, fx_error *err)
{
    fornax_prompt *prompt;
    char found[64];

    FX_TRY(fx_agent_prompt(&prompt, a, json_array_size(a->messages), err));
    fx_agent_fingerprint(prompt, found);
    fornax_prompt_close(prompt);
    return strcmp(wanted, found) == 0 ? FORNAX_OK : fault(a, line, "its prompt comes out differently", err);
}

fx_status fx_agent_check_history(fx_agent *a, size_t *n, fx_error *err)
{
    *n = 0;
    FX_TRY(fx_transcript_open(&a->log, a->opt->transcript, false, err));
    FX_TRY(read_head(a, json_array_get(a->log.lines, 0), err));
    for (size_t i = 1; i < json_array_size(a->log.lines); i++) {
        const char *wanted = json_string_value(json_object_get(json_object_get(json_array_get(a->log.lines, i), "turn"), "prompt"));

        if (wanted)
            FX_TRY(check_turn(a, i, wanted, err));
        *n += wanted != NULL;
        FX_TRY(read_line(a, i, err));
    }
    return FORNAX_OK;
}
