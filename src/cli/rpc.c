/* rpc.c - see rpc.h. */
#include "cli/rpc.h"

#include "base/text.h"

void fx_rpc_init(fx_rpc_reader *r, size_t limit)
{
    *r = (fx_rpc_reader){ .limit = limit };
    fx_buf_init(&r->held, &fx_mem_libc);
}

void fx_rpc_done(fx_rpc_reader *r)
{
    fx_buf_done(&r->held);
    json_decref(r->batch);
}

bool fx_rpc_feed(fx_rpc_reader *r, fx_str bytes)
{
    if (r->at > 0) {                     /* what was read makes room */
        memmove(r->held.p, r->held.p + r->at, r->held.n - r->at);
        r->held.n -= r->at;
        r->seen -= FX_MIN(r->seen, r->at);
        r->at = 0;
    }
    fx_buf_str(&r->held, bytes);
    return !r->held.failed;
}

static fx_rpc_kind bad(fx_rpc_message *m, const char *what, fx_str line)
{
    fx_shown shown = fx_show(line);

    fx_format(m->why, sizeof m->why, "%s: '%.60s%s'", what, shown.z, strlen(shown.z) > 60 ? "..." : "");
    return FX_RPC_BAD;
}

static fx_rpc_kind classify(fx_rpc_message *m, json_t *v)
{
    const json_t *version = json_object_get(v, "jsonrpc"), *id = json_object_get(v, "id");
    const json_t *method = json_object_get(v, "method");

    m->id = json_is_integer(id) ? json_integer_value(id) : -1;
    if (!json_is_object(v) || !json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
        return bad(m, "not a message of JSON-RPC 2.0", FX_STR(""));
    m->json = json_incref(v);
    m->method = json_string_value(method);
    if (m->method)
        return id && !json_is_null(id) ? FX_RPC_REQUEST : FX_RPC_NOTIFICATION;
    if (id && (json_object_get(v, "result") || json_is_object(json_object_get(v, "error"))))
        return FX_RPC_RESPONSE;
    json_decref(m->json);
    m->json = NULL;
    return bad(m, "neither a request nor an answer", FX_STR(""));
}

static fx_rpc_kind next_of_batch(fx_rpc_reader *r, fx_rpc_message *m)
{
    fx_rpc_kind kind = classify(m, json_array_get(r->batch, r->batch_at++));

    if (r->batch_at == json_array_size(r->batch)) {
        json_decref(r->batch);           /* m->json holds its own */
        r->batch = NULL;
    }
    return kind;
}

static fx_rpc_kind read_line(fx_rpc_reader *r, fx_rpc_message *m, fx_str line)
{
    json_t *v = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    fx_rpc_kind kind;

    if (!v)
        return bad(m, "a line that isn't JSON", line);
    if (json_is_array(v) && json_array_size(v) > 0) {
        r->batch = v;
        r->batch_at = 0;
        return next_of_batch(r, m);
    }
    kind = classify(m, v);
    json_decref(v);
    return kind;
}

/* The next line that isn't blank; false: it isn't there yet. */
static bool take_line(fx_rpc_reader *r, fx_str *line, bool *too_long)
{
    fx_str text = fx_buf_view(&r->held);

    *too_long = false;
    for (;;) {
        const char *from = text.p + r->at, *end;
        size_t seen = FX_MAX(r->seen, r->at);
        bool was = r->skipping;

        end = seen < text.n ? memchr(text.p + seen, '\n', text.n - seen) : NULL;
        r->seen = text.n;
        if (!end && text.n - r->at <= r->limit)
            return false;
        r->skipping = !end;
        *line = fx_str_n(from, end ? (size_t)(end - from) : text.n - r->at);
        r->at += line->n + (end != NULL);
        r->seen = r->at;
        if (was)
            continue;                    /* the rest of a line that was reported */
        *too_long = line->n > r->limit;
        *line = fx_str_trim(*line);
        if (line->n > 0 || *too_long)
            return true;
    }
}

fx_rpc_kind fx_rpc_next(fx_rpc_reader *r, fx_rpc_message *m)
{
    fx_str line;
    bool too_long;

    *m = (fx_rpc_message){ .id = -1 };
    if (r->batch)
        return next_of_batch(r, m);
    if (!take_line(r, &line, &too_long))
        return FX_RPC_NONE;
    if (too_long) {
        fx_format(m->why, sizeof m->why, "a line of more than %zu bytes", r->limit);
        return FX_RPC_BAD;
    }
    return read_line(r, m, line);
}

void fx_rpc_message_done(fx_rpc_message *m)
{
    json_decref(m->json);
    m->json = NULL;
}
