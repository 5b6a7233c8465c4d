/* http.c - connections: libmicrohttpd, the pump thread, answers.
 *
 * libmicrohttpd runs the sockets on its own threads.  While a generation runs its
 * connection is suspended; the pump thread waits (epoll) for the engine's requests, turns
 * their events into bytes of the answer and resumes the connection.  libmicrohttpd doesn't
 * look at the sockets of suspended connections, so the pump watches them for hang-ups
 * and cancels what the client no longer waits for, in the queue, in prefill or in decode.
 *
 * One lock guards calls and slots.  It is held for microseconds; engine calls that may
 * wait (closing a request) happen outside. */
#include "server/http.h"

#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/gen.h"

/* ---- Answers ---- */

static const struct { fornax_status status; int http; const char *type, *code; } error_rows[] = {
    { FORNAX_EARG, 400, "invalid_request_error", NULL },
    { FORNAX_EFORMAT, 400, "invalid_request_error", NULL },
    { FORNAX_EUNSUP, 400, "invalid_request_error", "unsupported" },
    { FORNAX_ENOTFOUND, 404, "not_found_error", NULL },
    { FORNAX_EBUSY, 429, "rate_limit_error", "queue_full" },
    { FORNAX_ECANCEL, 499, "api_error", "cancelled" },
    { FORNAX_ETIMEOUT, 504, "api_error", "timeout" },
    { FORNAX_ENOMEM, 503, "api_error", "out_of_memory" },
};

static size_t error_row(const fx_error *err)
{
    for (size_t i = 0; i < FX_COUNT(error_rows); i++) {
        if (error_rows[i].status == err->status)
            return i;
    }
    return SIZE_MAX;
}

int fx_error_status(const fx_error *err)
{
    size_t i = error_row(err);

    return i == SIZE_MAX ? 500 : error_rows[i].http;
}

static const char *error_code(const fx_error *err)
{
    size_t i = error_row(err);

    if (strcmp(err->param, "context_length") == 0)
        return "context_length_exceeded";
    if (err->status == FORNAX_ENOTFOUND && strcmp(err->param, "model") == 0)
        return "model_not_found";
    return i == SIZE_MAX ? "internal" : error_rows[i].code;
}

void fx_error_json(fx_buf *out, const fx_error *err, int status)
{
    static const struct { int http; const char *type; } types[] = {
        { 405, "invalid_request_error" }, { 413, "invalid_request_error" }
    };
    size_t i = error_row(err);
    const char *type = i == SIZE_MAX ? "api_error" : error_rows[i].type, *code = error_code(err);

    for (size_t t = 0; t < FX_COUNT(types); t++)
        type = types[t].http == status ? types[t].type : type;
    fx_buf_puts(out, "{\"error\": {\"message\": \"");
    fx_buf_json(out, fx_str_of(err->text));
    fx_buf_printf(out, "\", \"type\": \"%s\", \"param\": ", type);
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

void fx_reply_text(fx_call *c, int status, const char *content_type, fx_str text)
{
    fx_buf_clear(&c->out);
    fx_buf_str(&c->out, text);
    c->status = status;
    c->content_type = content_type;
    c->streaming = false;
    c->done = c->ready = true;
}

void fx_reply_json(fx_call *c, int status, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

    json_decref(body);
    fx_reply_text(c, text ? status : 500, "application/json",
                  text ? fx_str_of(text) : FX_STR("{\"error\": {\"message\": \"no memory for the answer\"}}"));
    free(text);
}

static void reply_error_status(fx_call *c, const fx_error *err, int status)
{
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_error_json(&b, err, status);
    if (err->status == FORNAX_EBUSY)
        snprintf(c->retry_after, sizeof c->retry_after, "%u", FX_MAX(1u, (err->retry_after_ms + 999) / 1000));
    fx_reply_text(c, status, "application/json", fx_buf_view(&b));
    fx_buf_done(&b);
}

void fx_reply_error(fx_call *c, const fx_error *err) { reply_error_status(c, err, fx_error_status(err)); }

json_t *fx_call_json(fx_call *c)
{
    fx_error err = { 0 };
    json_error_t je;
    json_t *v = json_loadb(fx_buf_view(&c->body).p, c->body.n, JSON_ALLOW_NUL, &je);

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

static ssize_t read_stream(void *user, uint64_t pos, char *to, size_t max)
{
    fx_call *c = user;
    ssize_t n;

    (void)pos;
    pthread_mutex_lock(&c->http->lock);
    n = (ssize_t)FX_MIN(max, c->out.n - c->out_at);
    if (n > 0) {
        memcpy(to, c->out.p + c->out_at, (size_t)n);
        c->out_at += (size_t)n;
        if (c->out_at == c->out.n) {
            fx_buf_clear(&c->out);
            c->out_at = 0;
        }
    } else if (c->out.failed) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (c->done) {
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
    if (c->streaming)
        MHD_add_response_header(r, "Cache-Control", "no-cache");
    if (c->retry_after[0])
        MHD_add_response_header(r, "Retry-After", c->retry_after);
    if (c->ignored.n > 0)
        MHD_add_response_header(r, "X-Fornax-Ignored-Fields", fx_buf_view(&c->ignored).p);
    if (c->status == 405)
        MHD_add_response_header(r, "Allow", c->route ? c->route->method : "GET");
}

static enum MHD_Result send_answer(fx_call *c)
{
    struct MHD_Response *r;
    enum MHD_Result ok;

    if (c->streaming)
        r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, c, NULL);
    else
        r = MHD_create_response_from_buffer(c->out.n, c->out.p ? c->out.p : (char *)"", MHD_RESPMEM_PERSISTENT);
    if (!r)
        return MHD_NO;
    add_headers(c, r);
    c->queued = true;
    ok = MHD_queue_response(c->conn, (unsigned)c->status, r);
    MHD_destroy_response(r);
    return ok;
}

/* ---- Slots and the pump ---- */

static bool take_slot(fx_http *h, fx_call *c)
{
    for (uint32_t i = 0; i < h->n_slots; i++) {
        if (!h->slots[i].call) {
            h->slots[i].call = c;
            c->slot = i;
            c->serial = ++h->slots[i].serial;
            h->used_slots++;
            return true;
        }
    }
    return false;
}

/* An epoll key: slot, serial (so that a stale event finds nothing) and which descriptor. */
#define KEY_SOCKET 0xFFFFu
static uint64_t key_of(const fx_call *c, uint32_t index)
{
    return (uint64_t)(c->serial & 0xFFFFu) << 48 | (uint64_t)index << 32 | c->slot;
}

bool fx_http_watch_fd(fx_http *h, int fd, const fx_call *c, uint32_t index)
{
    struct epoll_event ev = { .events = index == KEY_SOCKET ? EPOLLRDHUP | EPOLLONESHOT : EPOLLIN,
                              .data.u64 = key_of(c, index) };

    return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static int socket_of(const fx_call *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c->conn, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? (int)info->connect_fd : -1;
}

static void unwatch(fx_call *c)
{
    for (size_t i = 0; c->gen && i < fx_gen_requests(c->gen); i++)
        epoll_ctl(c->http->epoll, EPOLL_CTL_DEL, fx_gen_fd(c->gen, i), NULL);
    epoll_ctl(c->http->epoll, EPOLL_CTL_DEL, socket_of(c), NULL);
}

void fx_call_run(fx_call *c, fx_gen *g)
{
    fx_http *h = c->http;
    fx_error err = { 0 };
    bool ok;

    pthread_mutex_lock(&h->lock);
    ok = take_slot(h, c);
    c->gen = g;
    for (size_t i = 0; ok && i < fx_gen_requests(g); i++)
        ok = fx_http_watch_fd(h, fx_gen_fd(g, i), c, (uint32_t)i);
    if (ok)
        fx_http_watch_fd(h, socket_of(c), c, KEY_SOCKET);
    pthread_mutex_unlock(&h->lock);
    if (ok)
        return;
    fx_fail(&err, FORNAX_EBUSY, "too many requests at once");
    fx_reply_error(c, &err);
}

static void wake_connection(fx_call *c)
{
    if (!c->suspended)
        return;
    c->suspended = false;
    MHD_resume_connection(c->conn);
}

static void pump_event(fx_http *h, uint64_t key)
{
    uint32_t slot = (uint32_t)key, index = (uint32_t)(key >> 32) & 0xFFFFu;
    fx_call *c = slot < h->n_slots ? h->slots[slot].call : NULL;

    if (!c || (c->serial & 0xFFFFu) != (uint32_t)(key >> 48) || !c->gen)
        return;
    if (index == KEY_SOCKET)
        fx_gen_cancel(c->gen);
    else if (fx_gen_drain(c->gen, index) && c->ready)
        wake_connection(c);
}

static void *pump_main(void *user)
{
    fx_http *h = user;
    struct epoll_event events[64];

    for (;;) {
        int n = epoll_wait(h->epoll, events, FX_COUNT(events), -1);

        pthread_mutex_lock(&h->lock);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 != UINT64_MAX)
                pump_event(h, events[i].data.u64);
        }
        bool stop = h->stopping;
        pthread_mutex_unlock(&h->lock);
        if (stop || (n < 0 && errno != EINTR))
            return NULL;
    }
}

/* ---- Connections ---- */

static fx_call *new_call(fx_http *h, struct MHD_Connection *conn, const char *path, const char *method)
{
    fx_call *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->http = h;
    c->conn = conn;
    c->start_ns = fx_clock_ns();
    c->method = strdup(method);
    c->path = strdup(path);
    fx_buf_init(&c->body, &fx_mem_libc);
    fx_buf_init(&c->out, &fx_mem_libc);
    fx_buf_init(&c->ignored, &fx_mem_libc);
    if (!c->method || !c->path) {
        free(c->method);
        free(c->path);
        free(c);
        return NULL;
    }
    return c;
}

static void log_call(const fx_call *c)
{
    char line[512];

    if (!c->http->opt.log)
        return;
    snprintf(line, sizeof line, "%s %.300s %d %.1f ms", c->method, c->path, c->status,
             (double)(fx_clock_ns() - c->start_ns) / 1e6);
    c->http->opt.log(c->http->opt.log_user, line);
}

static void completed(void *user, struct MHD_Connection *conn, void **state, enum MHD_RequestTerminationCode how)
{
    fx_http *h = user;
    fx_call *c = *state;

    (void)conn, (void)how;
    if (!c)
        return;
    pthread_mutex_lock(&h->lock);
    if (c->gen) {
        unwatch(c);
        if (h->slots[c->slot].call == c) {
            h->slots[c->slot].call = NULL;
            h->used_slots--;
        }
    }
    h->n_calls++;
    h->statuses[FX_MIN(c->status / 100, 5)]++;
    pthread_mutex_unlock(&h->lock);
    log_call(c);
    fx_gen_free(c->gen);
    fx_buf_done(&c->body);
    fx_buf_done(&c->out);
    fx_buf_done(&c->ignored);
    free(c->method);
    free(c->path);
    free(c);
    *state = NULL;
}

static bool path_matches(const fx_route *r, const char *path)
{
    return r->prefix ? strncmp(path, r->path, strlen(r->path)) == 0 : strcmp(path, r->path) == 0;
}

/* The route, or an error answer (404, 405). HEAD is GET without a body, which libmicrohttpd sees to. */
static void find_route(fx_call *c)
{
    const char *method = strcmp(c->method, "HEAD") == 0 ? "GET" : c->method;
    fx_error err = { 0 };

    for (size_t i = 0; fx_routes[i]; i++) {
        if (!path_matches(fx_routes[i], c->path))
            continue;
        c->route = fx_routes[i];
        if (strcmp(method, c->route->method) == 0)
            return;
    }
    if (c->route) {
        fx_fail(&err, FORNAX_EARG, "%s: expected %s, found %s", c->path, c->route->method, c->method);
        reply_error_status(c, &err, 405);
    } else {
        fx_fail(&err, FORNAX_ENOTFOUND, "%s %s: no such route", c->method, c->path);
        reply_error_status(c, &err, 404);
    }
}

static void take_body(fx_call *c, const char *data, size_t n)
{
    size_t limit = c->http->opt.max_body_bytes;

    if (c->ready)                        /* an error answer waits for the body's end */
        return;
    if (c->body.n + n > limit)
        c->too_large = true;
    else
        fx_buf_add(&c->body, data, n);
}

static void run_route(fx_call *c)
{
    fx_error err = { 0 };

    c->handled = true;
    if (c->ready)
        return;
    if (c->too_large) {
        fx_fail(&err, FORNAX_EARG, "request body: expected at most %zu bytes", c->http->opt.max_body_bytes);
        reply_error_status(c, &err, 413);
    } else if (c->body.failed) {
        fx_fail(&err, FORNAX_ENOMEM, "no memory for the request body");
        fx_reply_error(c, &err);
    } else {
        c->route->handle(c);
    }
}

static enum MHD_Result handle(void *user, struct MHD_Connection *conn, const char *path, const char *method,
                              const char *version, const char *data, size_t *n, void **state)
{
    fx_http *h = user;
    fx_call *c = *state;
    bool ready;

    (void)version;
    if (!c) {
        c = new_call(h, conn, path, method);
        *state = c;
        if (!c)
            return MHD_NO;
        find_route(c);
        return MHD_YES;
    }
    if (*n > 0) {
        take_body(c, data, *n);
        *n = 0;
        return MHD_YES;
    }
    if (c->queued)
        return MHD_YES;
    if (!c->handled)
        run_route(c);
    pthread_mutex_lock(&h->lock);
    ready = c->ready;
    if (!ready) {
        c->suspended = true;
        MHD_suspend_connection(conn);
    }
    pthread_mutex_unlock(&h->lock);
    return ready ? send_answer(c) : MHD_YES;
}

/* ---- Start and stop ---- */

static fx_status start_daemon(fx_http *h, fx_error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *list = NULL;
    char port[16];
    int one = 1, fd = -1, gai;

    snprintf(port, sizeof port, "%d", h->opt.port);
    gai = getaddrinfo(h->opt.host, port, &hints, &list);
    if (gai != 0)
        return fx_fail_param(err, FORNAX_EARG, "host", "%s: %s", h->opt.host, gai_strerror(gai));
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, 511) != 0) {
        int e = errno;
        freeaddrinfo(list);
        if (fd >= 0)
            close(fd);
        return fx_fail(err, FORNAX_EIO, "%s port %d: %s", h->opt.host, h->opt.port, strerror(e));
    }
    freeaddrinfo(list);
    h->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
                                 handle, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, completed, h,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->opt.max_connections,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->opt.idle_timeout_s, MHD_OPTION_END);
    if (!h->daemon) {
        close(fd);
        return fx_fail(err, FORNAX_EIO, "%s port %d: can't start the HTTP server", h->opt.host, h->opt.port);
    }
    return FORNAX_OK;
}

static int port_in_use(const fx_http *h)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    struct sockaddr_storage at;
    socklen_t n = sizeof at;

    if (!info || getsockname(info->listen_fd, (struct sockaddr *)&at, &n) != 0)
        return h->opt.port;
    return at.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&at)->sin6_port)
                                    : ntohs(((struct sockaddr_in *)&at)->sin_port);
}

static fx_status start_pump(fx_http *h, fx_error *err)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = UINT64_MAX };
    sigset_t all, old;
    int failed;

    h->n_slots = (uint32_t)h->opt.max_connections;
    h->slots = calloc(h->n_slots, sizeof *h->slots);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!h->slots || h->epoll < 0 || h->wake < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &ev) != 0)
        return fx_fail(err, FORNAX_EIO, "can't start the server: %s", strerror(errno));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&h->pump, NULL, pump_main, h);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? fx_fail(err, FORNAX_EIO, "can't start the server: %s", strerror(failed)) : FORNAX_OK;
}

/* Ends what runs: cancels, gives the answers a moment to leave, then lets go. */
static void drain_calls(fx_http *h)
{
    for (int i = 0; i < 50; i++) {
        bool busy = false;

        pthread_mutex_lock(&h->lock);
        for (uint32_t s = 0; s < h->n_slots; s++) {
            fx_call *c = h->slots[s].call;
            if (!c)
                continue;
            busy = true;
            if (i == 0)
                fx_gen_cancel(c->gen);
        }
        pthread_mutex_unlock(&h->lock);
        if (!busy)
            return;
        usleep(100000);
    }
}

static void stop(fx_http *h, bool pump_runs)
{
    uint64_t one = 1;

    if (h->daemon) {
        MHD_socket listening = MHD_quiesce_daemon(h->daemon);
        if (listening != MHD_INVALID_SOCKET)
            close(listening);
        drain_calls(h);
    }
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    for (uint32_t s = 0; s < h->n_slots && h->slots; s++) {
        if (h->slots[s].call) {
            h->slots[s].call->done = h->slots[s].call->ready = true;
            wake_connection(h->slots[s].call);
        }
    }
    pthread_mutex_unlock(&h->lock);
    if (pump_runs && write(h->wake, &one, sizeof one) == sizeof one)
        pthread_join(h->pump, NULL);
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->wake >= 0)
        close(h->wake);
    free(h->slots);
    pthread_mutex_destroy(&h->lock);
}

fornax_status fx_server_run(fornax_engine *engine, const fx_server_options *opt, fornax_error *err)
{
    fx_http h = { .engine = engine, .model = fornax_engine_model(engine), .opt = *opt, .epoll = -1, .wake = -1 };
    bool pump_runs = false;
    fx_status st;

    h.tok = fornax_model_tokenizer(h.model);
    h.started = fx_clock_unix();
    h.opt.max_body_bytes = opt->max_body_bytes ? opt->max_body_bytes : (size_t)64 << 20;
    h.opt.max_connections = opt->max_connections ? opt->max_connections : 1024;
    h.opt.idle_timeout_s = opt->idle_timeout_s ? opt->idle_timeout_s : 60;
    h.opt.default_temperature = opt->default_temperature < 0 ? 1 : opt->default_temperature;
    pthread_mutex_init(&h.lock, NULL);
    st = start_pump(&h, err);
    pump_runs = st == FORNAX_OK;
    if (st == FORNAX_OK)
        st = start_daemon(&h, err);
    if (st == FORNAX_OK) {
        if (h.opt.ready)
            h.opt.ready(h.opt.ready_user, port_in_use(&h));
        while (!h.opt.stopping || !h.opt.stopping(h.opt.stopping_user))
            usleep(100000);
    }
    stop(&h, pump_runs);
    return st;
}
