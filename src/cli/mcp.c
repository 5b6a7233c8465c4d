/* mcp.c - see mcp.h. */
#include "cli/mcp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/proc.h"
#include "cli/rpc.h"

#define MAX_UNSENT ((size_t)4 << 20)    /* bytes that it doesn't take */
#define MAX_TOOLS 1024
#define MAX_BANNER 100                  /* lines before its first message that are none */

/* Newest first: what we ask for, and what we take. */
static const char *const versions[] = { "2025-06-18", "2025-03-26", "2024-11-05" };

struct fx_mcp {
    fx_mcp_options o;
    fx_proc proc;
    fx_rpc_reader reader;
    fx_buf unsent;
    int64_t last_id;
    json_t *tools;
    bool dead, changed, speaks;         /* it changed its tools; it has sent a message */
    size_t banner;
    char why[256];                      /* it's dead */
};

static fx_status die(fx_mcp *m, fx_error *err, const char *why)
{
    char how[64];

    m->dead = true;
    if (m->proc.pid == 0)
        fx_format(m->why, sizeof m->why, "%s (%s)", why, fx_proc_how(m->proc.status, how));
    else
        fx_format(m->why, sizeof m->why, "%s", why);
    return fx_fail(err, FORNAX_EIO, "the server '%s' %s", FX_SHOW(fx_str_of(m->o.name)), m->why);
}

static fx_status still_dead(const fx_mcp *m, fx_error *err)
{
    return fx_fail(err, FORNAX_EIO, "the server '%s' isn't there any more: it %s", FX_SHOW(fx_str_of(m->o.name)), m->why);
}

/* ---- Sending ---- */

/* Takes 'message'. */
static fx_status send(fx_mcp *m, json_t *message, fx_error *err)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

    json_decref(message);
    if (text) {
        fx_buf_puts(&m->unsent, text);
        fx_buf_putc(&m->unsent, '\n');
    }
    free(text);
    return text && !m->unsent.failed ? FORNAX_OK : fx_nomem(err, "a message");
}

static json_t *request(int64_t id, const char *method, json_t *params)
{
    return json_pack("{s:s,s:I,s:s,s:o*}", "jsonrpc", "2.0", "id", (json_int_t)id, "method", method, "params", params);
}

static json_t *notification(const char *method, json_t *params)
{
    return json_pack("{s:s,s:s,s:o*}", "jsonrpc", "2.0", "method", method, "params", params);
}

/* What the server asks of us: whether we are there, and things that we don't do. */
static fx_status answer(fx_mcp *m, const fx_rpc_message *asked, fx_error *err)
{
    json_t *id = json_object_get(asked->json, "id");

    if (strcmp(asked->method, "ping") == 0)
        return send(m, json_pack("{s:s,s:O,s:{}}", "jsonrpc", "2.0", "id", id, "result"), err);
    return send(m, json_pack("{s:s,s:O,s:{s:i,s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", -32601, "message",
                             "this client has no such method"), err);
}

static void flush(fx_mcp *m)
{
    ssize_t n = m->unsent.n > 0 ? write(m->proc.in, m->unsent.p, m->unsent.n) : 0;

    if (n > 0) {
        memmove(m->unsent.p, m->unsent.p + n, m->unsent.n - (size_t)n);
        m->unsent.n -= (size_t)n;
    }
}

/* ---- Receiving ---- */

/* One message; *response: it's the answer to request 'id', new. response NULL: none is waited for. */
static fx_status take(fx_mcp *m, fx_rpc_kind kind, const fx_rpc_message *got, int64_t id, json_t **response, fx_error *err)
{
    char why[200];

    if (kind == FX_RPC_BAD) {
        if (!m->speaks && ++m->banner <= MAX_BANNER)
            return FORNAX_OK;
        fx_format(why, sizeof why, "sent what isn't a message of the protocol: %s", got->why);
        return fx_fail(err, FORNAX_EIO, "the server '%s' %s", FX_SHOW(fx_str_of(m->o.name)), why);
    }
    m->speaks = true;
    if (kind == FX_RPC_REQUEST)
        return answer(m, got, err);
    if (kind == FX_RPC_NOTIFICATION)
        m->changed |= strcmp(got->method, "notifications/tools/list_changed") == 0;
    else if (response && got->id == id && !*response)
        *response = json_incref(got->json);
    return FORNAX_OK;                    /* other answers come too late for somebody */
}

/* What it has sent so far. */
static fx_status take_all(fx_mcp *m, int64_t id, json_t **response, fx_error *err)
{
    fx_rpc_message got;
    fx_rpc_kind kind;
    fx_status st = FORNAX_OK;

    while (st == FORNAX_OK && (kind = fx_rpc_next(&m->reader, &got)) != FX_RPC_NONE) {
        st = take(m, kind, &got, id, response, err);
        fx_rpc_message_done(&got);
    }
    if (st == FORNAX_OK && m->unsent.n > MAX_UNSENT)
        return die(m, err, "doesn't read what it is sent");
    return st;
}

/* Reads once, writes once; waits for it, but at most 'ms'. */
static fx_status exchange(fx_mcp *m, int ms, fx_error *err)
{
    struct pollfd fds[2] = { { m->proc.out, POLLIN, 0 }, { m->unsent.n > 0 ? m->proc.in : -1, POLLOUT, 0 } };
    char piece[65536];
    ssize_t n;

    if (poll(fds, 2, ms) <= 0)
        return FORNAX_OK;
    if (fds[1].revents)
        flush(m);
    if (!fds[0].revents)
        return FORNAX_OK;
    n = read(m->proc.out, piece, sizeof piece);
    if (n > 0)
        return fx_rpc_feed(&m->reader, fx_str_n(piece, (size_t)n)) ? FORNAX_OK : fx_nomem(err, "a server's answer");
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return FORNAX_OK;
    fx_proc_stop(&m->proc, 200);
    return die(m, err, "ended");
}

static fx_status wait_for(fx_mcp *m, int64_t id, double timeout_s, json_t **response, fx_error *err)
{
    uint64_t end = fx_clock_ns() + (uint64_t)(timeout_s * 1e9);

    *response = NULL;
    for (;;) {
        fx_status st = take_all(m, id, response, err);

        if (st == FORNAX_OK && *response)
            return st;
        if (st == FORNAX_OK && fx_cli_interrupted())
            st = fx_fail(err, FORNAX_ECANCEL, "interrupted by the user");
        if (st == FORNAX_OK && fx_clock_ns() >= end)
            st = fx_fail(err, FORNAX_ETIMEOUT, "the server '%s' didn't answer within %g s", FX_SHOW(fx_str_of(m->o.name)), timeout_s);
        if (st == FORNAX_OK)
            st = exchange(m, 50, err);
        if (st != FORNAX_OK) {
            json_decref(*response);
            *response = NULL;
            return st;
        }
    }
}

/* What it sent since the last call: asked and changed is noticed, faults are nobody's. */
static void drain(fx_mcp *m)
{
    fx_error ignored;

    if (!m->dead && exchange(m, 0, &ignored) == FORNAX_OK)
        while (take_all(m, 0, NULL, &ignored) != FORNAX_OK && !m->dead)
            ;
}

/* The result of a request, new. Takes 'params'. */
static fx_status ask(fx_mcp *m, const char *method, json_t *params, double timeout_s, json_t **result, fx_error *err)
{
    const json_t *error, *message;
    int64_t id = ++m->last_id;
    json_t *response;
    fx_status st;

    *result = NULL;
    drain(m);
    if (m->dead) {
        json_decref(params);
        return still_dead(m, err);
    }
    FX_TRY(send(m, request(id, method, params), err));
    st = wait_for(m, id, timeout_s, &response, err);
    if (st == FORNAX_ETIMEOUT || st == FORNAX_ECANCEL) {   /* it may stop now; what it still says isn't waited for */
        send(m, notification("notifications/cancelled", json_pack("{s:I,s:s}", "requestId", (json_int_t)id, "reason",
                                                                  st == FORNAX_ECANCEL ? "interrupted" : "timeout")), NULL);
        flush(m);
    }
    FX_TRY(st);
    error = json_object_get(response, "error");
    message = json_object_get(error, "message");
    if (json_is_object(error))
        st = fx_fail(err, FORNAX_EARG, "%s: error %lld: %s", method, (long long)json_integer_value(json_object_get(error, "code")),
                     json_is_string(message) ? fx_show(fx_str_n(json_string_value(message), json_string_length(message))).z : "without a message");
    else
        *result = json_incref(json_object_get(response, "result"));
    json_decref(response);
    return st;
}

/* ---- Beginning ---- */

static fx_status bad_answer(const fx_mcp *m, const char *method, const char *what, fx_error *err)
{
    return fx_fail(err, FORNAX_EFORMAT, "the server '%s': the answer to %s: %s", FX_SHOW(fx_str_of(m->o.name)), method, what);
}

static fx_status initialize(fx_mcp *m, fx_error *err)
{
    json_t *result, *params = json_pack("{s:s,s:{},s:{s:s,s:s}}", "protocolVersion", versions[0], "capabilities", "clientInfo", "name",
                                        "fornax", "version", fornax_version());
    const char *version;
    bool known = false;

    FX_TRY(ask(m, "initialize", params, m->o.start_timeout_s, &result, err));
    version = json_string_value(json_object_get(result, "protocolVersion"));
    for (size_t i = 0; version && i < FX_COUNT(versions); i++)
        known |= strcmp(version, versions[i]) == 0;
    if (!version)
        bad_answer(m, "initialize", "no protocolVersion", err);
    else if (!known)
        fx_fail(err, FORNAX_EUNSUP, "the server '%s' speaks version '%s' of the protocol only", FX_SHOW(fx_str_of(m->o.name)),
                FX_SHOW(fx_str_of(version)));
    json_decref(result);
    if (!known)
        return version ? FORNAX_EUNSUP : FORNAX_EFORMAT;
    return send(m, notification("notifications/initialized", NULL), err);
}

static fx_status add_tools(const fx_mcp *m, json_t *all, const json_t *page, fx_error *err)
{
    if (!json_is_array(page))
        return bad_answer(m, "tools/list", "no list of tools", err);
    for (size_t i = 0; i < json_array_size(page); i++) {
        json_t *tool = json_array_get(page, i), *schema = json_object_get(tool, "inputSchema");
        const char *name = json_string_value(json_object_get(tool, "name"));

        if (!name || strlen(name) != json_string_length(json_object_get(tool, "name")) || (schema && !json_is_object(schema)))
            return bad_answer(m, "tools/list", "a tool without a name, or whose inputSchema is no object", err);
        if (json_array_append(all, tool) != 0)
            return fx_nomem(err, "tools");
    }
    return json_array_size(all) <= MAX_TOOLS ? FORNAX_OK : bad_answer(m, "tools/list", "more than 1024 tools", err);
}

/* All pages. */
static fx_status list_tools(fx_mcp *m, double timeout_s, fx_error *err)
{
    json_t *all = json_array(), *cursor = NULL;
    fx_status st = all ? FORNAX_OK : fx_nomem(err, "tools");

    m->changed = false;
    for (size_t pages = 0; st == FORNAX_OK; pages++) {
        json_t *result, *next;

        st = ask(m, "tools/list", cursor ? json_pack("{s:O}", "cursor", cursor) : json_object(), timeout_s, &result, err);
        if (st == FORNAX_OK)
            st = add_tools(m, all, json_object_get(result, "tools"), err);
        if (st == FORNAX_OK && pages >= MAX_TOOLS)
            st = bad_answer(m, "tools/list", "pages without end", err);
        next = json_is_string(json_object_get(result, "nextCursor")) ? json_incref(json_object_get(result, "nextCursor")) : NULL;
        json_decref(cursor);
        json_decref(result);
        cursor = next;
        if (!cursor)
            break;
    }
    json_decref(cursor);
    if (st == FORNAX_OK) {
        json_decref(m->tools);
        m->tools = json_incref(all);
    }
    json_decref(all);
    return st;
}

fx_status fx_mcp_open(fx_mcp **out, const fx_mcp_options *o, fx_error *err)
{
    fx_proc_spec spec = { .argv = o->argv, .dir = o->dir, .env = o->env, .with_input = true, .errors_to = o->log_to };
    fx_mcp *m = calloc(1, sizeof *m);
    fx_status st;

    *out = NULL;
    if (!m)
        return fx_nomem(err, "a server");
    m->o = *o;
    fx_rpc_init(&m->reader, FX_RPC_LINE);
    fx_buf_init(&m->unsent, &fx_mem_libc);
    st = fx_proc_start(&m->proc, &spec, err);
    if (st == FORNAX_OK)
        st = initialize(m, err);
    if (st == FORNAX_OK)
        st = list_tools(m, o->start_timeout_s, err);
    if (st != FORNAX_OK) {
        fx_mcp_close(m);
        return st;
    }
    *out = m;
    return FORNAX_OK;
}

const json_t *fx_mcp_tools(const fx_mcp *m) { return m->tools; }

fx_status fx_mcp_refresh(fx_mcp *m, bool *changed, fx_error *err)
{
    drain(m);
    *changed = m->changed && !m->dead;
    return *changed ? list_tools(m, m->o.timeout_s, err) : FORNAX_OK;
}

/* ---- Calls ---- */

static fx_str string_of(const json_t *v) { return fx_str_n(json_string_value(v), json_string_length(v)); }

/* What isn't text is named. */
static void put_other(fx_buf *out, const char *type, const json_t *part)
{
    const json_t *mime = json_object_get(part, "mimeType"), *uri = json_object_get(part, "uri"), *data = json_object_get(part, "data");

    fx_buf_printf(out, "[%s", FX_SHOW(fx_str_of(type)));
    if (json_is_string(uri))
        fx_buf_printf(out, " %s", FX_SHOW(string_of(uri)));
    if (json_is_string(mime))
        fx_buf_printf(out, " %s", FX_SHOW(string_of(mime)));
    if (json_is_string(data))
        fx_buf_printf(out, ", %zu bytes", json_string_length(data) / 4 * 3);
    fx_buf_putc(out, ']');
}

static void put_part(fx_buf *out, const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *resource = json_object_get(part, "resource"), *text = json_object_get(resource ? resource : part, "text");

    if (!type)
        return;
    if (out->n > 0)
        fx_buf_putc(out, '\n');
    if (json_is_string(text) && (strcmp(type, "text") == 0 || strcmp(type, "resource") == 0))
        fx_buf_str(out, string_of(text));
    else
        put_other(out, type, resource ? resource : part);
}

bool fx_mcp_result_text(fx_buf *out, const json_t *result)
{
    const json_t *content = json_object_get(result, "content"), *data = json_object_get(result, "structuredContent");

    for (size_t i = 0; i < json_array_size(content); i++)
        put_part(out, json_array_get(content, i));
    if (json_array_size(content) == 0 && data) {
        char *text = json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY);

        if (text)
            fx_buf_puts(out, text);
        else
            out->failed = true;
        free(text);
    }
    return !json_is_true(json_object_get(result, "isError"));
}

fx_status fx_mcp_call(fx_mcp *m, const char *tool, const json_t *arguments, fx_buf *text, fx_error *err)
{
    json_t *result, *params = json_pack("{s:s,s:O}", "name", tool, "arguments", arguments);
    bool well;

    FX_TRY(ask(m, "tools/call", params, m->o.timeout_s, &result, err));
    well = fx_mcp_result_text(text, result);
    json_decref(result);
    if (text->failed)
        return fx_nomem(err, "a tool's answer");
    return well ? FORNAX_OK : fx_fail(err, FORNAX_EFORMAT, "the tool reports an error");
}

void fx_mcp_close(fx_mcp *m)
{
    if (!m)
        return;
    fx_proc_stop(&m->proc, 2000);
    fx_rpc_done(&m->reader);
    fx_buf_done(&m->unsent);
    json_decref(m->tools);
    free(m);
}
