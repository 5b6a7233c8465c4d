/* agent_calls.c - asks whether a tool may run, runs it; see agent.h. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/agent.h"

/* ---- Asking ---- */

/* Nobody can answer where no terminal is. */
static bool can_ask(void) { return isatty(0) && isatty(2); }

/* A line from the terminal, its first letter in lower case; 0: ^C, ^D or nothing. */
static char read_letter(void)
{
    char first = 0, c;
    ssize_t n;

    while ((n = read(0, &c, 1)) == 1 || (n < 0 && errno == EINTR && !fx_cli_interrupted())) {
        if (n < 0)
            continue;
        if (c == '\n')
            break;
        if (!first && !fx_blank(c))
            first = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
    }
    return n == 1 ? first : 0;
}

/* Names and arguments as ASCII, so that nothing in them looks like something else. */
static void name_call(FILE *to, const fx_tool *tool, const json_t *arguments, size_t most)
{
    char *text = json_dumps(arguments, JSON_COMPACT | JSON_ENSURE_ASCII);
    size_t n = text ? strlen(text) : 0;

    fprintf(to, "%s ", FX_SHOW(fx_str_of(tool->name)));
    fwrite(text ? text : "", 1, FX_MIN(n, most), to);
    fputs(n > most ? "..." : "", to);
    free(text);
}

static bool may_run(fx_tool *tool, const json_t *arguments, const char **why)
{
    char answer;

    *why = "it isn't allowed to run, and there is no terminal where somebody could be asked";
    if (tool->allowed)
        return true;
    if (!can_ask())
        return false;
    for (;;) {
        fprintf(stderr, "run ");
        name_call(stderr, tool, arguments, SIZE_MAX);
        fprintf(stderr, " ? [y]es, [n]o, [a]lways: ");
        answer = read_letter();
        if (answer == 'y' || answer == 'a' || answer == 'n' || answer == 0)
            break;
    }
    tool->allowed = answer == 'a';
    *why = "the user doesn't allow this call";
    return answer == 'y' || answer == 'a';
}

/* ---- Running ---- */

static const json_t *last_calls(const fx_agent *a, size_t *answered)
{
    size_t n = json_array_size(a->messages);
    const json_t *m;

    *answered = 0;
    while (n > 0) {
        const char *role = json_string_value(json_object_get(m = json_array_get(a->messages, --n), "role"));

        if (!role || strcmp(role, "tool") != 0)
            return json_object_get(m, "tool_calls");
        ++*answered;
    }
    return NULL;
}

bool fx_agent_has_calls(const fx_agent *a)
{
    size_t answered;

    return json_array_size(last_calls(a, &answered)) > answered;
}

static fx_status add_result(fx_agent *a, const json_t *call, const fx_buf *content, fx_error *err)
{
    const char *name = json_string_value(json_object_get(json_object_get(call, "function"), "name"));

    if (content->failed)
        return fx_nomem(err, "a tool's result");
    return fx_agent_add(a, json_pack("{s:s,s:O,s:s,s:o}", "role", "tool", "tool_call_id", json_object_get(call, "id"), "name", name ? name : "",
                                     "content", fx_agent_string(fx_buf_view(content))), NULL, err);
}

static void show_result(const fx_agent *a, fx_str content)
{
    const char *end = content.n > 0 ? memchr(content.p, '\n', content.n) : NULL;
    fx_str first = end ? fx_str_n(content.p, (size_t)(end - content.p)) : content;

    if (!a->opt->json && !a->opt->model.quiet)
        fprintf(stderr, "  %s%s (%zu bytes)\n", FX_SHOW(first), end ? " ..." : "", content.n);
}

static void run_one(fx_agent *a, const json_t *call, fx_buf *content, bool *stopped)
{
    const json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
    fx_tool *tool = fx_tools_find(&a->tools, fx_str_of(json_string_value(json_object_get(function, "name"))));
    const char *why = "there is no such tool";

    if (*stopped) {
        fx_tool_error(content, "not run: the user interrupted the turn");
        return;
    }
    if (!tool || !may_run(tool, arguments, &why)) {
        fx_tool_error(content, why);
        if (tool && !a->opt->json)
            fprintf(stderr, "%s was not run: %s\n", FX_SHOW(fx_str_of(tool->name)), why);
    } else {
        if (!a->opt->json && !a->opt->model.quiet) {
            fprintf(stderr, "* ");
            name_call(stderr, tool, arguments, 200);
            fprintf(stderr, "\n");
        }
        *stopped = !fx_tool_run(tool, arguments, content);
        show_result(a, fx_buf_view(content));
    }
    *stopped |= fx_cli_interrupted();
}

fx_status fx_agent_run_calls(fx_agent *a, fx_error *err)
{
    size_t answered;
    json_t *calls = json_incref((json_t *)last_calls(a, &answered));
    fx_status st = FORNAX_OK;
    bool stopped = false;

    for (size_t i = answered; st == FORNAX_OK && i < json_array_size(calls); i++) {
        fx_buf content;

        fx_buf_init(&content, &fx_mem_libc);
        run_one(a, json_array_get(calls, i), &content, &stopped);
        st = add_result(a, json_array_get(calls, i), &content, err);
        fx_buf_done(&content);
    }
    json_decref(calls);
    return st == FORNAX_OK && stopped ? fx_fail(err, FORNAX_ECANCEL, "the tool was stopped") : st;
}
