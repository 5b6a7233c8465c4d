/* cmd_agent.c - fornax agent MODEL: a conversation in which the model may use tools. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/agent.h"

static const fx_opt opts[] = {
    { "tools", 0, FX_OPT_STR, offsetof(fx_agent_opts, tools), "FILE", "JSON: commands, and MCP servers to start (docs/agent.md)", 0, 0 },
    { "allow", 0, FX_OPT_STRS, offsetof(fx_agent_opts, allow), "TOOL", "run it without asking; 'all' for every tool; may be given again", 0, 0 },
    { "policy", 0, FX_OPT_STR, offsetof(fx_agent_opts, policy), "FILE", "which tools may be called when (docs/gates.md)", 0, 0 },
    { "transcript", 0, FX_OPT_STR, offsetof(fx_agent_opts, transcript), "FILE", "keep the conversation there, and go on with what is in it", 0, 0 },
    { "check", 0, FX_OPT_FLAG, offsetof(fx_agent_opts, check), NULL, "only render the transcript's prompts again and compare; loads no model", 0, 0 },
    { "prompt", 'p', FX_OPT_STR, offsetof(fx_agent_opts, prompt), "TEXT", "one turn with this message, then end", 0, 0 },
    { "system", 0, FX_OPT_STR, offsetof(fx_agent_opts, system), "TEXT", "system message", 0, 0 },
    { "call", 0, FX_OPT_STR, offsetof(fx_agent_opts, call), "TOOL", "the first reply to each message calls it; 'any': one that is open", 0, 0 },
    { "max-rounds", 0, FX_OPT_INT, offsetof(fx_agent_opts, max_rounds), "N", "replies with calls to one message at most (default: 16)", 0, 1000000 },
    { "max-turns", 0, FX_OPT_INT, offsetof(fx_agent_opts, max_turns), "N", "messages taken at most (default: no limit)", 1, INT32_MAX },
    { "kwargs", 0, FX_OPT_STR, offsetof(fx_agent_opts, kwargs), "JSON", "variables for the chat template: {\"enable_thinking\": false}", 0, 0 },
    { "log", 0, FX_OPT_STR, offsetof(fx_agent_opts, log), "FILE", "what MCP servers write to standard error is appended there", 0, 0 },
    { "json", 0, FX_OPT_FLAG, offsetof(fx_agent_opts, json), NULL, "a JSON object for each reply and result instead of text", 0, 0 },
    FX_LORA_OPT(fx_agent_opts, model),
    FX_SAMPLING_OPTS(fx_agent_opts, sampling),
    FX_MODEL_OPTS(fx_agent_opts, model),
    { 0 },
};
static const fx_agent_opts defaults = { .sampling = FX_SAMPLING_DEFAULTS, .max_rounds = 16 };

/* ---- Tools ---- */

/* Whether the grammar can hold calls to this tool's schema. */
static fx_status vet(const fx_agent *a, const fx_tool *tool, fx_error *err)
{
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    json_t *list = json_pack("[O]", tool->declared);
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    fornax_turn *turn = NULL;
    fx_status st;

    o.tools = text;
    st = text ? fornax_turn_open(&turn, a->tok, &o, err) : fx_nomem(err, "tools");
    fornax_turn_close(turn);
    json_decref(list);
    free(text);
    return st;
}

/* A command that can't be used is a fault of the file; a server's is left out. */
static fx_status vet_all(fx_agent *a, fx_error *err)
{
    for (size_t i = a->tools.list.n; i-- > 0;) {
        const fx_tool *tool = &a->tools.list.at[i];
        fx_error why = { 0 };
        fx_status st = vet(a, tool, &why);

        if (st == FORNAX_OK)
            continue;
        if (!tool->server || st == FORNAX_ENOMEM)
            return fx_fail(err, st, "%s: the tool '%s': %s", FX_SHOW(fx_str_of(a->opt->tools)), FX_SHOW(fx_str_of(tool->name)), why.text);
        fprintf(stderr, "fornax agent: warning: the tool '%s' of the server '%s' is left out: %s\n", FX_SHOW(fx_str_of(tool->name)),
                FX_SHOW(fx_str_of(tool->server->name)), why.text);
        fx_tools_drop(&a->tools, i);
    }
    return FORNAX_OK;
}

/* Servers may have changed their tools since. */
static fx_status look_at_tools(fx_agent *a, fx_error *err)
{
    bool changed;

    FX_TRY(fx_tools_refresh(&a->tools, &changed, err));
    if (!changed)
        return FORNAX_OK;
    FX_TRY(vet_all(a, err));
    return fx_agent_tools_changed(a, err);
}

/* ---- Turns ---- */

/* tool_choice for a reply. */
static fx_status choose(fx_buf *out, const fx_agent *a, int64_t round, fx_error *err)
{
    const char *call = a->opt->call;

    fx_buf_clear(out);
    if (round >= a->opt->max_rounds) {
        fx_buf_puts(out, "\"none\"");
    } else if (round > 0 || !call) {
        fx_buf_puts(out, "\"auto\"");
    } else if (strcmp(call, "any") == 0) {
        fx_buf_puts(out, "\"required\"");
    } else {
        fx_buf_puts(out, "{\"type\":\"function\",\"function\":{\"name\":");
        fx_buf_json_string(out, fx_str_of(call));
        fx_buf_puts(out, "}}");
    }
    return out->failed ? fx_nomem(err, "a turn") : FORNAX_OK;
}

/* Replies and calls until a reply has none.  The conversation ends with a message of the user or a result. */
static fx_status take_turn(fx_agent *a, fx_error *err)
{
    fx_status st = look_at_tools(a, err);
    fx_buf choice;

    fx_buf_init(&choice, &fx_mem_libc);
    for (int64_t round = 0; st == FORNAX_OK; round++) {
        st = choose(&choice, a, round, err);
        if (st == FORNAX_OK)
            st = fx_agent_reply(a, fx_buf_view(&choice).p, err);
        if (st == FORNAX_OK && !fx_agent_has_calls(a))
            break;
        if (st == FORNAX_OK)
            st = fx_agent_run_calls(a, err);
        if (st == FORNAX_OK)
            st = look_at_tools(a, err);
    }
    fx_buf_done(&choice);
    return st;
}

static const char *last_role(const fx_agent *a)
{
    size_t n = json_array_size(a->messages);
    const char *role = n > 0 ? json_string_value(json_object_get(json_array_get(a->messages, n - 1), "role")) : NULL;

    return role ? role : "";
}

/* The user's last message, or a result, has no reply: the program ended before there was one. */
static bool waits(const fx_agent *a) { return strcmp(last_role(a), "user") == 0 || strcmp(last_role(a), "tool") == 0; }

static fx_status say(fx_agent *a, fx_str text, fx_error *err)
{
    json_t *m = json_pack("{s:s,s:o}", "role", "user", "content", fx_agent_string(text));
    size_t before = json_array_size(a->messages);
    fornax_prompt *prompt = NULL;
    fornax_engine_stats stats = FORNAX_OPTIONS(fornax_engine_stats);
    size_t n = 0;
    fx_status st;

    /* A message that doesn't fit isn't said: the transcript would never get past it. */
    if (!m || json_array_append(a->messages, m) != 0) {
        json_decref(m);
        return fx_nomem(err, "a message");
    }
    st = fx_agent_prompt(&prompt, a, before + 1, err);
    json_array_remove(a->messages, before);
    if (st == FORNAX_OK)
        fornax_prompt_ids(prompt, &n);
    fornax_prompt_close(prompt);
    fornax_engine_get_stats(a->engine, &stats);
    if (st == FORNAX_OK && n >= stats.context_tokens)
        st = fx_fail(err, FORNAX_EARG, "with this message the conversation has %zu tokens; the context has %llu", n,
                     (unsigned long long)stats.context_tokens);
    if (st != FORNAX_OK) {
        json_decref(m);
        return st;
    }
    FX_TRY(fx_agent_add(a, m, NULL, err));
    return take_turn(a, err);
}

/* ---- Conversations ---- */

static int one_turn(fx_agent *a, fx_error *err)
{
    size_t n = json_array_size(a->messages);
    const json_t *last = n > 0 ? json_object_get(json_array_get(a->messages, n - 1), "content") : NULL;
    bool same = strcmp(last_role(a), "user") == 0 && strcmp(json_string_value(last), a->opt->prompt) == 0;
    fx_status st = waits(a) ? take_turn(a, err) : FORNAX_OK;

    if (st == FORNAX_OK && !same)        /* the same message that had no reply yet isn't said twice */
        st = say(a, fx_str_of(a->opt->prompt), err);
    if (st == FORNAX_ECANCEL)
        return FX_EXIT_INTERRUPTED;
    return st == FORNAX_OK ? FX_EXIT_OK : fx_cli_fail(err);
}

/* The end of a turn: true to go on. */
static bool after_turn(fx_agent *a, fx_status st, const fx_error *err, bool terminal, int *status)
{
    if (st == FORNAX_ECANCEL && !fx_cli_terminated()) {
        if (terminal)
            fprintf(stderr, "(stopped)\n");
        fx_cli_clear_interrupt();
        return true;
    }
    if (st != FORNAX_OK)
        *status = fx_cli_fail(err);
    (void)a;
    return st == FORNAX_OK || terminal;
}

static int converse(fx_agent *a, fx_error *err)
{
    int status = FX_EXIT_OK;
    int64_t turns = 0;
    fx_lines lines;
    fx_str line;
    bool on = true;

    fx_lines_open(&lines);
    if (waits(a))
        on = after_turn(a, take_turn(a, err), err, lines.edit, &status);
    while (on && fx_cli_output_ok() && !fx_cli_terminated() && (!a->opt->max_turns || turns < a->opt->max_turns) &&
           fx_lines_next(&lines, &line)) {
        fx_cli_clear_interrupt();
        if (fx_str_is(line, "/quit") || fx_str_is(line, "/exit"))
            break;
        if (fx_str_is(line, "/help")) {
            printf("/quit   leave (also ^D)\n^C      stop a reply or a tool\n");
        } else if (line.n > 0) {
            turns++;
            on = after_turn(a, say(a, line, err), err, lines.edit, &status);
        }
    }
    fx_lines_close(&lines);
    return fx_cli_terminated() ? FX_EXIT_INTERRUPTED : lines.edit ? FX_EXIT_OK : status;
}

/* ---- Beginning ---- */

static fx_status allow(fx_agent *a, fx_error *err)
{
    for (size_t i = 0; i < a->opt->allow.n; i++) {
        const char *name = a->opt->allow.at[i];
        bool all = strcmp(name, "all") == 0;
        fx_tool *tool = fx_tools_find(&a->tools, fx_str_of(name));

        if (!all && !tool)
            return fx_fail_param(err, FORNAX_EARG, "allow", "there is no tool '%s'", FX_SHOW(fx_str_of(name)));
        for (size_t k = 0; k < a->tools.list.n; k++)
            a->tools.list.at[k].allowed |= all || &a->tools.list.at[k] == tool;
    }
    if (a->opt->call && strcmp(a->opt->call, "any") != 0 && !fx_tools_find(&a->tools, fx_str_of(a->opt->call)))
        return fx_fail_param(err, FORNAX_EARG, "call", "there is no tool '%s'", FX_SHOW(fx_str_of(a->opt->call)));
    return FORNAX_OK;
}

static fx_status read_tools(fx_agent *a, fx_error *err)
{
    fx_buf text;
    fx_status st;

    if (!a->opt->tools)
        return FORNAX_OK;
    fx_buf_init(&text, &fx_mem_libc);
    st = fx_file_read(&text, a->opt->tools, (size_t)16 << 20, err);
    if (st == FORNAX_OK)
        st = fx_tools_read(&a->tools, fx_buf_view(&text), a->opt->tools, err);
    fx_buf_done(&text);
    return st;
}

static fx_status start_servers(fx_agent *a, fx_error *err)
{
    int fd = a->opt->log ? open(a->opt->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    char words[128];
    fx_status st;

    if (a->opt->log && fd < 0)
        return fx_fail(err, FORNAX_EIO, "%s: %s", FX_SHOW(fx_str_of(a->opt->log)), fx_errno_text(errno, words, sizeof words));
    st = fx_tools_start(&a->tools, fd >= 0 ? fd : a->opt->model.verbose ? 2 : -1, err);
    if (fd >= 0)
        close(fd);                       /* the servers have it */
    return st;
}

static fx_status read_policy(fx_agent *a, fx_error *err)
{
    fx_error why = { 0 };
    fx_buf text;
    fx_status st;

    if (!a->opt->policy)
        return FORNAX_OK;
    fx_buf_init(&text, &fx_mem_libc);
    st = fx_file_read(&text, a->opt->policy, (size_t)16 << 20, err);
    if (st == FORNAX_OK && fornax_policy_open(&a->policy, a->ctx, fx_buf_view(&text).p, text.n, &why) != FORNAX_OK)
        st = fx_fail(err, why.status, "%s: %s", FX_SHOW(fx_str_of(a->opt->policy)), why.text);
    fx_buf_done(&text);
    return st;
}

static fx_status read_kwargs(fx_agent *a, fx_error *err)
{
    json_error_t je;

    if (!a->opt->kwargs)
        return FORNAX_OK;
    a->kwargs = json_loads(a->opt->kwargs, JSON_REJECT_DUPLICATES, &je);
    if (!a->kwargs)
        return fx_fail(err, FORNAX_EARG, "--kwargs: column %d: %s", je.column, je.text);
    return json_is_object(a->kwargs) ? FORNAX_OK : fx_fail(err, FORNAX_EARG, "--kwargs: expected a JSON object");
}

static fx_status begin(fx_agent *a, const char *path, bool *resumed, fx_error *err)
{
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);

    FX_TRY(read_tools(a, err));
    FX_TRY(fx_cli_model(&a->ctx, &a->model, path, &a->opt->model, err));
    a->tok = fornax_model_tokenizer(a->model);
    FX_TRY(fx_cli_adapter(&a->adapter, a->model, &a->opt->model, err));
    FX_TRY(read_policy(a, err));
    FX_TRY(start_servers(a, err));
    FX_TRY(vet_all(a, err));
    FX_TRY(allow(a, err));
    FX_TRY(fornax_engine_open(&a->engine, a->model, &eo, err));
    return fx_agent_open_history(a, resumed, err);
}

static void end(fx_agent *a)
{
    fornax_engine_close(a->engine);
    fornax_policy_close(a->policy);
    fornax_adapter_close(a->adapter);
    fx_tools_done(&a->tools);
    fx_transcript_close(&a->log);
    json_decref(a->declared);
    json_decref(a->messages);
    json_decref(a->kwargs);
    fornax_model_close(a->model);
    fornax_context_close(a->ctx);
}

static int check(fx_agent *a, const char *path, fx_error *err)
{
    fornax_tokenizer *tok = NULL;
    size_t n = 0;
    fx_status st = fx_cli_context(&a->ctx, &a->opt->model, err);

    if (st == FORNAX_OK)
        st = fornax_tokenizer_open(&tok, a->ctx, path, err);
    a->tok = tok;
    if (st == FORNAX_OK)
        st = fx_agent_check_history(a, &n, err);
    if (st == FORNAX_OK)
        printf("%zu prompts, all the same\n", n);
    fornax_tokenizer_close(tok);
    return st == FORNAX_OK ? FX_EXIT_OK : fx_cli_fail(err);
}

static int run(const void *o, int n, char **args)
{
    const fx_agent_opts *opt = o;
    fx_agent a = { .opt = opt, .log.fd = -1 };
    fx_error err = { 0 };
    bool resumed = false;
    int status;

    (void)n;
    if (opt->check && !opt->transcript)
        return fx_cli_usage("--check needs --transcript");
    if (opt->check && opt->prompt)
        return fx_cli_usage("--check takes no --prompt");
    fx_cli_catch_interrupt();
    a.messages = json_array();
    if (!a.messages) {
        fx_nomem(&err, "the conversation");
        status = fx_cli_fail(&err);
    } else if (read_kwargs(&a, &err) != FORNAX_OK) {
        status = fx_cli_fail(&err);
    } else if (opt->check) {
        status = check(&a, args[0], &err);
    } else if (begin(&a, args[0], &resumed, &err) != FORNAX_OK) {
        status = fx_cli_fail(&err);
    } else {
        if (resumed && isatty(2))
            fprintf(stderr, "(going on with %zu messages)\n", json_array_size(a.messages));
        status = opt->prompt ? one_turn(&a, &err) : converse(&a, &err);
    }
    end(&a);
    return status;
}

const fx_cmd fx_cmd_agent = {
    .name = "agent", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "talk with a model that may use tools",
    .examples = "  fornax agent model.gguf --tools tools.json\n"
                "  fornax agent model.gguf --tools tools.json --allow get_weather -p 'Is it cold in Oslo?'\n"
                "  fornax agent model.gguf --tools tools.json --policy policy.json --transcript talk.jsonl\n"
                "  fornax agent model.gguf --transcript talk.jsonl --check\n",
    .opts = opts, .opts_bytes = sizeof(fx_agent_opts), .defaults = &defaults, .run = run,
};
