/* reply.c - answers: the error object, whole answers, and how they reach libmicrohttpd. */
#include <stdlib.h>

#include "server/http.h"

/* ---- Errors ---- */

static const struct { fornax_status status; int http; const char *type, *code; } error_rows[] = {
    { FORNAX_EARG, 400, "invalid_request_error", NULL },
    { FORNAX_EFORMAT, 400, "invalid_request_error", NULL },
    { FORNAX_EUNSUP, 400, "invalid_request_error", "unsupported" },
    { FORNAX_ENOTFOUND, 404, "not_found_error", NULL },
    { FORNAX_EBUSY, 429, "rate_limit_error", "queue_full" },
    { FORNAX_ECANCEL, 499, "api_error", "cancelled" },
    { FORNAX_ETIMEOUT, 504, "api_error", "timeout" },
    { FORNAX_ENOMEM, 503, "api_error", "out_of_memory" },
    { FORNAX_EINTERNAL, 500, "api_error", "internal" },
};

/* Where the code doesn't follow from the status alone: by HTTP status or by parameter. */
static const struct { int http; fornax_status status; const char *param, *code; } code_rows[] = {
    { 400, FORNAX_EARG, "context_length", "context_length_exceeded" },
    { 404, FORNAX_ENOTFOUND, "model", "model_not_found" },
    { 405, FORNAX_EARG, NULL, "method_not_allowed" },
    { 413, FORNAX_EARG, NULL, "request_too_large" },
    { 503, FORNAX_ECANCEL, NULL, "shutting_down" },
};

static size_t error_row(const fx_error *err)
{
    size_t i = 0;

    while (i + 1 < FX_COUNT(error_rows) && error_rows[i].status != err->status)
        i++;
    return i;
}

int fx_error_status(const fx_error *err) { return error_rows[error_row(err)].http; }

static const char *error_code(const fx_error *err, int http)
{
    for (size_t i = 0; i < FX_COUNT(code_rows); i++) {
        if (code_rows[i].http == http && code_rows[i].status == err->status &&
            (!code_rows[i].param || strcmp(code_rows[i].param, err->param) == 0))
            return code_rows[i].code;
    }
    return error_rows[error_row(err)].code;
}

void fx_error_json(fx_buf *out, const fx_error *err, int status)
{
    const char *code = error_code(err, status);

    fx_buf_puts(out, "{\"error\": {\"message\": \"");
    fx_buf_json(out, fx_str_of(err->text));
    fx_buf_printf(out, "\", \"type\": \"%s\", \"param\": ", error_rows[error_row(err)].type);
    if (err->param[0]) {
        fx_buf_puts(out, "\"");
        fx_buf_json(out, fx_str_of(err->param));
        fx_buf_puts(out, "\"");
    } else {
        fx_buf_puts(out, "null");
    }
    if (code)
        fx_buf_printf(out, ", \"code\": \"%s\"}}", code);
    else
        fx_buf_puts(out, ", \"code\": null}}");
}

/* ---- Whole answers ---- */

void fx_reply_text(fx_call *c, int status, const char *content_type, fx_str text)
{
    fx_buf_clear(&c->out);
    fx_buf_str(&c->out, text);
    c->out_at = 0;
    c->status = status;
    c->content_type = content_type;
    c->streaming = false;
    c->done = c->ready = true;
}

void fx_reply_json(fx_call *c, int status, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    fx_error err = { 0 };

    json_decref(body);
    if (text) {
        fx_reply_text(c, status, "application/json", fx_str_of(text));
    } else {
        fx_nomem(&err, "the answer");
        fx_reply_error(c, &err);
    }
    free(text);
}

void fx_reply_error_as(fx_call *c, const fx_error *err, int status)
{
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_error_json(&b, err, status);
    fx_buf_putc(&b, '\n');
    if (err->status == FORNAX_EBUSY)
        snprintf(c->retry_after, sizeof c->retry_after, "%u", FX_MAX(1u, err->retry_after_ms / 1000 + 1));
    fx_reply_text(c, status, "application/json", fx_buf_view(&b));
    c->out.failed |= b.failed;
    fx_buf_done(&b);
}

void fx_reply_error(fx_call *c, const fx_error *err) { fx_reply_error_as(c, err, fx_error_status(err)); }

void fx_reply_stopping(fx_call *c)
{
    fx_error err = { 0 };

    fx_fail(&err, FORNAX_ECANCEL, "the server is shutting down");
    fx_reply_error_as(c, &err, 503);
}

void fx_reply_unwanted(fx_call *c)
{
    fx_error err = { 0 };
    bool stopping;

    pthread_mutex_lock(&c->http->lock);
    stopping = c->http->stopping;
    pthread_mutex_unlock(&c->http->lock);
    fx_fail(&err, FORNAX_ECANCEL, "the client hung up");
    if (stopping)
        fx_reply_stopping(c);
    else
        fx_reply_error(c, &err);
}

json_t *fx_call_json(fx_call *c)
{
    fx_error err = { 0 };
    json_error_t je;
    json_t *v = json_loadb(fx_buf_view(&c->body).p, c->body.n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &je);

    if (v && json_is_object(v))
        return v;
    if (v)
        fx_fail(&err, FORNAX_EARG, "request body: expected a JSON object");
    else
        fx_fail(&err, FORNAX_EARG, "request body: line %d, column %d: %s", je.line, je.column, je.text);
    json_decref(v);
    fx_reply_error(c, &err);
    return NULL;
}

/* ---- Sending ---- */

/* Drops what was sent once it is much, so that a long answer doesn't pile up behind a steady reader. */
static void drop_sent(fx_call *c)
{
    fx_buf *b = &c->out;

    if (c->out_at < b->n && (c->out_at < 65536 || c->out_at < b->n / 2))
        return;
    b->n -= c->out_at;
    memmove(b->p, b->p + c->out_at, b->n + 1);
    c->out_at = 0;
}

static ssize_t read_stream(void *user, uint64_t pos, char *to, size_t max)
{
    fx_call *c = user;
    ssize_t n;

    (void)pos;
    pthread_mutex_lock(&c->http->lock);
    n = (ssize_t)FX_MIN(max, c->out.n - c->out_at);
    if (c->out.failed) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (n > 0) {
        memcpy(to, c->out.p + c->out_at, (size_t)n);
        c->out_at += (size_t)n;
        drop_sent(c);
    } else if (c->done || c->http->stopping) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        c->suspended = true;
        MHD_suspend_connection(c->conn);
    }
    pthread_mutex_unlock(&c->http->lock);
    return n;
}

static void add_headers(const fx_call *c, struct MHD_Response *r)
{
    MHD_add_response_header(r, "Content-Type", c->content_type);
    MHD_add_response_header(r, "X-Request-Id", c->id);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    if (c->retry_after[0])
        MHD_add_response_header(r, "Retry-After", c->retry_after);
    if (c->truncated[0])
        MHD_add_response_header(r, "X-Fornax-Truncated-Tokens", c->truncated);
    if (c->ignored.n > 0)
        MHD_add_response_header(r, "X-Fornax-Ignored-Fields", fx_buf_view(&c->ignored).p);
    if (c->gates.n > 0)
        MHD_add_response_header(r, "X-Fornax-Open-Tools", fx_buf_view(&c->gates).p);
    if (c->status == 405 && c->route)
        MHD_add_response_header(r, "Allow", strcmp(c->route->method, "GET") == 0 ? "GET, HEAD" : c->route->method);
    if (c->http->closing)
        MHD_add_response_header(r, "Connection", "close");
}

enum MHD_Result fx_call_send(fx_call *c)
{
    struct MHD_Response *r;
    enum MHD_Result ok;

    if (c->streaming)
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, c, NULL);
    else if (!c->out.failed)
        r = MHD_create_response_from_buffer(c->out.n, c->out.p ? c->out.p : (char *)"", MHD_RESPMEM_PERSISTENT);
    else
        r = NULL;
    if (!r)
        return MHD_NO;
    add_headers(c, r);
    c->queued = true;
    ok = MHD_queue_response(c->conn, (unsigned)c->status, r);
    MHD_destroy_response(r);
    return ok;
}
