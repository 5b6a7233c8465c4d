/* tools.c - servers' tools, and running tools; see tools.h. */
#include "cli/tools.h"

#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/proc.h"

/* ---- The list ---- */

fx_tool *fx_tools_find(const fx_tools *t, fx_str name)
{
    for (size_t i = 0; i < t->list.n; i++)
        if (fx_str_is(name, t->list.at[i].name))
            return &t->list.at[i];
    return NULL;
}

json_t *fx_tools_declared(const fx_tools *t)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < t->list.n; i++) {
        if (json_array_append(list, t->list.at[i].declared) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

static void free_tool(fx_tool *tool)
{
    json_decref(tool->declared);
}

void fx_tools_drop(fx_tools *t, size_t i)
{
    free_tool(&t->list.at[i]);
    memmove(&t->list.at[i], &t->list.at[i + 1], (t->list.n - i - 1) * sizeof t->list.at[0]);
    t->list.n--;
}

void fx_tools_done(fx_tools *t)
{
    for (size_t i = 0; i < t->list.n; i++)
        free_tool(&t->list.at[i]);
    for (size_t i = 0; i < t->servers.n; i++) {
        fx_mcp_close(t->servers.at[i].mcp);
        free(t->servers.at[i].argv);
    }
    FX_VEC_FREE(&t->list, &fx_mem_libc);
    FX_VEC_FREE(&t->servers, &fx_mem_libc);
    json_decref(t->file);
    t->file = NULL;
}

/* ---- Servers ---- */

static double number_or(const json_t *spec, const char *key, double other)
{
    const json_t *v = json_object_get(spec, key);

    return v ? json_number_value(v) : other;
}

static bool wanted(const fx_tool_server *s, const char *name)
{
    const json_t *list = json_object_get(s->spec, "tools");

    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
            return true;
    return !list;
}

/* A server's tool under the name that the model uses: its own, behind the server's prefix. */
static fx_status add_tool(fx_tools *t, fx_tool_server *s, const json_t *listed, fx_error *err)
{
    const char *prefix = json_string_value(json_object_get(s->spec, "prefix"));
    const json_t *description = json_object_get(listed, "description");
    fx_tool tool = { .server = s, .server_name = json_string_value(json_object_get(listed, "name")) };
    fx_buf name;

    fx_buf_init(&name, &fx_mem_libc);
    fx_buf_puts(&name, prefix ? prefix : "");
    fx_buf_puts(&name, tool.server_name);
    tool.declared = json_pack("{s:s,s:{s:s,s:O*,s:O*}}", "type", "function", "function", "name", fx_buf_view(&name).p, "description",
                              json_is_string(description) ? description : NULL, "parameters", json_object_get(listed, "inputSchema"));
    fx_buf_done(&name);
    tool.name = json_string_value(json_object_get(json_object_get(tool.declared, "function"), "name"));
    tool.timeout_s = number_or(s->spec, "timeout", 60);
    tool.max_output = (size_t)number_or(s->spec, "max_output", 16384);
    if (tool.name && fx_tools_find(t, fx_str_of(tool.name))) {
        fprintf(stderr, "fornax agent: warning: the tool '%s' of the server '%s' is left out: an earlier one has its name (see \"prefix\")\n",
                FX_SHOW(fx_str_of(tool.name)), FX_SHOW(fx_str_of(s->name)));
        json_decref(tool.declared);
        return FORNAX_OK;
    }
    if (tool.name && FX_VEC_PUSH(&t->list, &fx_mem_libc, tool))
        return FORNAX_OK;
    json_decref(tool.declared);
    return fx_nomem(err, "tools");
}

static fx_status add_tools(fx_tools *t, fx_tool_server *s, fx_error *err)
{
    const json_t *listed = fx_mcp_tools(s->mcp), *names = json_object_get(s->spec, "tools");
    size_t found = 0;

    for (size_t i = 0; i < json_array_size(listed); i++) {
        const json_t *tool = json_array_get(listed, i);

        if (!wanted(s, json_string_value(json_object_get(tool, "name"))))
            continue;
        FX_TRY(add_tool(t, s, tool, err));
        found++;
    }
    if (found < json_array_size(names))
        fprintf(stderr, "fornax agent: warning: the server '%s' doesn't have all the tools that \"tools\" names\n", FX_SHOW(fx_str_of(s->name)));
    return FORNAX_OK;
}

fx_status fx_tools_start(fx_tools *t, int log_to, fx_error *err)
{
    for (size_t i = 0; i < t->servers.n; i++) {
        fx_tool_server *s = &t->servers.at[i];
        fx_mcp_options o = { .name = s->name, .argv = s->argv, .dir = json_string_value(json_object_get(s->spec, "directory")),
                             .env = json_object_get(s->spec, "env"), .start_timeout_s = number_or(s->spec, "start_timeout", 30),
                             .timeout_s = number_or(s->spec, "timeout", 60), .log_to = log_to };

        FX_TRY(fx_mcp_open(&s->mcp, &o, err));
        FX_TRY(add_tools(t, s, err));
    }
    return FORNAX_OK;
}

/* Its tools anew; those that could run unasked still may. */
static fx_status list_again(fx_tools *t, fx_tool_server *s, fx_error *err)
{
    json_t *allowed = json_object();
    fx_status st = allowed ? FORNAX_OK : fx_nomem(err, "tools");

    for (size_t i = t->list.n; st == FORNAX_OK && i-- > 0;) {
        if (t->list.at[i].server != s)
            continue;
        if (t->list.at[i].allowed && json_object_set_new(allowed, t->list.at[i].name, json_true()) != 0)
            st = fx_nomem(err, "tools");
        fx_tools_drop(t, i);
    }
    if (st == FORNAX_OK)
        st = add_tools(t, s, err);
    for (size_t i = 0; i < t->list.n; i++)
        if (t->list.at[i].server == s)
            t->list.at[i].allowed = json_object_get(allowed, t->list.at[i].name) != NULL;
    json_decref(allowed);
    return st;
}

fx_status fx_tools_refresh(fx_tools *t, bool *changed, fx_error *err)
{
    *changed = false;
    for (size_t i = 0; i < t->servers.n; i++) {
        bool now;

        FX_TRY(fx_mcp_refresh(t->servers.at[i].mcp, &now, err));
        if (now)
            FX_TRY(list_again(t, &t->servers.at[i], err));
        *changed |= now;
    }
    return FORNAX_OK;
}

/* ---- Arguments on a command line ---- */

/* An argument as a word; false: it's not given. */
static bool put_argument(fx_buf *b, const json_t *v)
{
    char *text;

    if (!v || json_is_null(v))
        return false;
    if (json_is_string(v)) {
        fx_buf_str(b, fx_str_n(json_string_value(v), json_string_length(v)));
        return true;
    }
    text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    b->failed |= !text;
    fx_buf_puts(b, text ? text : "");
    free(text);
    return true;
}

/* One word of "argv" with the arguments in it. False: one of them isn't given. */
static bool expand_word(fx_buf *b, const char *p, const json_t *arguments)
{
    for (; *p; p++) {
        const char *end = *p == '{' && p[1] != '{' ? strchr(p, '}') : NULL;

        if (end) {
            if (!put_argument(b, json_object_getn(arguments, p + 1, (size_t)(end - p) - 1)))
                return false;
            p = end;
        } else {
            fx_buf_putc(b, *p);
            p += *p == '{' || *p == '}';     /* doubled */
        }
    }
    return true;
}

typedef FX_VEC(char *) words;

/* Adds a list's words. A word with an argument that isn't given is left out, and so is a list within the list that has one. */
static fx_status expand_list(words *out, const json_t *list, const json_t *arguments, bool inner, fx_error *err)
{
    size_t before = out->n;

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        fx_buf b;
        bool given;

        if (json_is_array(e)) {
            FX_TRY(expand_list(out, e, arguments, true, err));
            continue;
        }
        fx_buf_init(&b, &fx_mem_libc);
        fx_buf_puts(&b, "");
        given = expand_word(&b, json_string_value(e), arguments);
        if (b.failed || (given && memchr(fx_buf_view(&b).p, 0, b.n)) || (given && !FX_VEC_PUSH(out, &fx_mem_libc, b.p))) {
            bool zero = !b.failed && memchr(fx_buf_view(&b).p, 0, b.n);

            fx_buf_done(&b);
            return zero ? fx_fail(err, FORNAX_EARG, "an argument holds a zero character") : fx_nomem(err, "a command");
        }
        if (given)
            continue;                        /* its bytes are the list's now */
        fx_buf_done(&b);
        while (inner && out->n > before)
            free(out->at[--out->n]);
        if (inner)
            return FORNAX_OK;
    }
    return FORNAX_OK;
}

fx_status fx_tool_argv(char ***argv, const fx_tool *tool, const json_t *arguments, fx_error *err)
{
    words all = { 0 };
    fx_status st = expand_list(&all, json_object_get(tool->spec, "argv"), arguments, false, err);

    *argv = NULL;
    if (st == FORNAX_OK && !FX_VEC_PUSH(&all, &fx_mem_libc, (char *)NULL))
        st = fx_nomem(err, "a command");
    if (st != FORNAX_OK) {
        for (size_t i = 0; i < all.n; i++)
            free(all.at[i]);
        free(all.at);
        return st;
    }
    *argv = all.at;
    return FORNAX_OK;
}

void fx_tool_argv_free(char **argv)
{
    for (size_t i = 0; argv && argv[i]; i++)
        free(argv[i]);
    free(argv);
}

/* ---- Running ---- */

void fx_tool_error(fx_buf *content, const char *text)
{
    fx_buf_puts(content, "{\"error\": ");
    fx_buf_json_string(content, fx_str_of(text));
    fx_buf_putc(content, '}');
}

/* At most 'max' bytes, whole characters, with a word on what is missing of 'total'. */
static void put_cut(fx_buf *out, fx_str text, size_t max, size_t total)
{
    bool cut = text.n > max || total > text.n;

    if (cut) {
        text.n = FX_MIN(text.n, max);
        text.n -= fx_utf8_open_tail(text);
    }
    fx_buf_str(out, text);
    if (cut)
        fx_buf_printf(out, "\n[cut: these are the first %zu of %zu bytes]", text.n, total);
}

static void put_member(fx_buf *content, const char *key, fx_str text)
{
    fx_buf_printf(content, ", \"%s\": ", key);
    fx_buf_json_string(content, text);
}

static void put_failure(fx_buf *content, const char *why, fx_str output, fx_str errors)
{
    fx_buf_puts(content, "{\"error\": ");
    fx_buf_json_string(content, fx_str_of(why));
    if (output.n > 0)
        put_member(content, "output", output);
    if (errors.n > 0)
        put_member(content, "stderr", errors);
    fx_buf_putc(content, '}');
}

static void report(fx_buf *content, const fx_tool *tool, const fx_proc_result *r)
{
    char why[96], how[64];
    fx_buf output;

    fx_buf_init(&output, &fx_mem_libc);
    put_cut(&output, fx_buf_view(&r->out), tool->max_output, r->out_bytes);
    if (r->interrupted)
        fx_format(why, sizeof why, "the user interrupted it");
    else if (r->timed_out)
        fx_format(why, sizeof why, "it didn't end within %g s and was ended", tool->timeout_s);
    else
        fx_format(why, sizeof why, "%s", fx_proc_how(r->status, how));
    if (r->interrupted || r->timed_out || r->status != 0)
        put_failure(content, why, fx_buf_view(&output), fx_buf_view(&r->errors));
    else
        fx_buf_str(content, fx_buf_view(&output));
    content->failed |= output.failed;
    fx_buf_done(&output);
}

static bool run_command(const fx_tool *tool, const json_t *arguments, fx_buf *content)
{
    const char *input = json_string_value(json_object_get(tool->spec, "stdin"));
    bool with_input = input && strcmp(input, "arguments") == 0, interrupted = false;
    char *text = with_input ? json_dumps(arguments, JSON_COMPACT) : NULL, **argv = NULL;
    fx_proc_result r = { 0 };
    fx_error err = { 0 };
    fx_status st = with_input && !text ? fx_nomem(&err, "a tool's arguments") : fx_tool_argv(&argv, tool, arguments, &err);

    if (st == FORNAX_OK) {
        fx_proc_spec spec = { .argv = (const char *const *)argv, .dir = json_string_value(json_object_get(tool->spec, "directory")),
                              .env = json_object_get(tool->spec, "env"), .with_input = with_input, .with_errors = true, .errors_to = -1 };

        st = fx_proc_run(&r, &spec, fx_str_of(text), tool->timeout_s, tool->max_output, &err);
        if (st == FORNAX_OK)
            report(content, tool, &r);
        interrupted = r.interrupted;
        fx_proc_result_done(&r);
    }
    if (st != FORNAX_OK)
        fx_tool_error(content, err.text);
    fx_tool_argv_free(argv);
    free(text);
    return !interrupted;
}

static bool call_server(const fx_tool *tool, const json_t *arguments, fx_buf *content)
{
    fx_error err = { 0 };
    fx_buf text, cut;
    fx_status st;

    fx_buf_init(&text, &fx_mem_libc);
    fx_buf_init(&cut, &fx_mem_libc);
    st = fx_mcp_call(tool->server->mcp, tool->server_name, arguments, &text, &err);
    put_cut(&cut, fx_buf_view(&text), tool->max_output, text.n);
    if (st == FORNAX_OK)
        fx_buf_str(content, fx_buf_view(&cut));
    else if (st == FORNAX_EFORMAT && cut.n > 0)
        fx_tool_error(content, fx_buf_view(&cut).p);
    else
        fx_tool_error(content, err.text);
    content->failed |= cut.failed;
    fx_buf_done(&text);
    fx_buf_done(&cut);
    return st != FORNAX_ECANCEL;
}

bool fx_tool_run(const fx_tool *tool, const json_t *arguments, fx_buf *content)
{
    return tool->server ? call_server(tool, arguments, content) : run_command(tool, arguments, content);
}
