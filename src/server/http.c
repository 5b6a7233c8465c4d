/* http.c - the server: libmicrohttpd's callbacks, routing, start and stop. */
#include "server/http.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "server/gen.h"

#define BODIES 4            /* bodies of the largest size that may be held at once */
#define SMALL_BODY 65536u   /* always taken: large ones never keep these out */

/* ---- Calls ---- */

static void make_id(fx_http *h, fx_call *c)
{
    static const char hex[] = "0123456789abcdef";
    uint64_t x = fx_hash64(&h->n_calls, sizeof h->n_calls, h->id_seed);

    for (int i = 0; i < 16; i++)
        c->id[i] = hex[x >> (4 * i) & 15];
}

static void free_call(fx_call *c)
{
    fx_buf_done(&c->body);
    fx_buf_done(&c->out);
    fx_buf_done(&c->ignored);
    fx_buf_done(&c->gates);
    free(c->method);
    free(c->path);
    free(c);
}

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
    fx_buf_init(&c->gates, &fx_mem_libc);
    if (!c->method || !c->path) {
        free_call(c);
        return NULL;
    }
    pthread_mutex_lock(&h->lock);
    h->n_open++;
    h->n_calls++;
    make_id(h, c);
    pthread_mutex_unlock(&h->lock);
    return c;
}

static void log_call(const fx_call *c)
{
    char line[512];

    if (!c->http->opt.log)
        return;
    fx_format(line, sizeof line, "%s %s %s %d %.1f ms", c->id, fx_show(fx_str_of(c->method)).z,
              fx_show(fx_str_of(c->path)).z, c->status, (double)(fx_clock_ns() - c->start_ns) / 1e6);
    c->http->opt.log(c->http->opt.log_user, line);
}

static void free_gen(void *user) { fx_gen_free(user); }

/* libmicrohttpd is done with a request, well or not. */
static void completed(void *user, struct MHD_Connection *conn, void **state, enum MHD_RequestTerminationCode how)
{
    fx_http *h = user;
    fx_call *c = *state;
    fx_gen *g;

    (void)how;
    *state = NULL;
    if (!c)
        return;
    g = c->gen;
    pthread_mutex_lock(&h->lock);
    fx_call_forget(c);
    h->n_open--;
    h->body_bytes -= c->body.n;
    if (!c->route || !c->route->watches)
        h->statuses[FX_MIN(c->status / 100, 5)]++;
    fx_conn_busy(conn, false);
    pthread_mutex_unlock(&h->lock);
    log_call(c);
    free_call(c);
    if (g) {
        fx_gen_cancel(g);
        fx_jobs_push(&h->jobs, fx_gen_job(g), free_gen, g);
    }
}

/* ---- Routing ---- */

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
        fx_fail(&err, FORNAX_EARG, "%s: expected %s, found %s", fx_show(fx_str_of(c->path)).z, c->route->method,
                fx_show(fx_str_of(c->method)).z);
        fx_reply_error_as(c, &err, 405);
    } else {
        fx_fail(&err, FORNAX_ENOTFOUND, "%s %s: no such route", fx_show(fx_str_of(c->method)).z,
                fx_show(fx_str_of(c->path)).z);
        fx_reply_error(c, &err);
    }
}

static void reply_body_fault(fx_call *c)
{
    fx_error err = { 0 };

    if (c->too_large) {
        fx_fail(&err, FORNAX_EARG, "request body: expected at most %zu bytes", c->http->opt.max_body_bytes);
        fx_reply_error_as(c, &err, 413);
    } else if (c->no_room) {
        fx_fail(&err, FORNAX_EBUSY, "too many large requests at once");
        fx_reply_error(c, &err);
    } else if (c->body.failed) {
        fx_nomem(&err, "the request body");
        fx_reply_error(c, &err);
    }
}

static void drop_body(fx_call *c)
{
    c->http->body_bytes -= c->body.n;
    fx_buf_done(&c->body);
}

/* A route on a thread of jobs.h. */
static void run_route(void *user)
{
    fx_call *c = user;
    fx_http *h = c->http;

    if (fx_call_unwanted(c))
        fx_reply_unwanted(c);
    else
        c->route->handle(c);
    pthread_mutex_lock(&h->lock);
    drop_body(c);
    c->routing = false;
    if (!c->ready && h->stopping)
        fx_gen_stop(c->gen);
    if (c->ready)
        fx_call_wake(c);
    pthread_mutex_unlock(&h->lock);
}

/* ---- libmicrohttpd's thread ---- */

static bool header_is(struct MHD_Connection *conn, const char *name, const char *value)
{
    const char *found = MHD_lookup_connection_value(conn, MHD_HEADER_KIND, name);

    return found && strcasecmp(found, value) == 0;
}

static void refuse_if_closing(fx_call *c)
{
    pthread_mutex_lock(&c->http->lock);
    if (c->http->closing && !c->ready)
        fx_reply_stopping(c);
    pthread_mutex_unlock(&c->http->lock);
}

/* What is wrong with a request before its body. A client that asks first is answered at once;
 * others send their body in any case, and would miss an answer before its end. */
static enum MHD_Result begin(fx_call *c)
{
    const char *length = MHD_lookup_connection_value(c->conn, MHD_HEADER_KIND, "Content-Length");
    uint64_t n;

    find_route(c);
    refuse_if_closing(c);
    c->too_large = length && fx_parse_u64(fx_str_of(length), &n) && n > c->http->opt.max_body_bytes;
    if (c->too_large && !c->ready)
        reply_body_fault(c);
    return c->ready && header_is(c->conn, "Expect", "100-continue") ? fx_call_send(c) : MHD_YES;
}

/* False: the client has sent so much for nothing that its connection is closed. */
static bool take_body(fx_call *c, const char *data, size_t n)
{
    fx_http *h = c->http;
    size_t limit = h->opt.max_body_bytes;

    c->received += n;
    pthread_mutex_lock(&h->lock);
    fx_conn_received(c->conn, n);
    c->too_large |= c->received > limit;
    c->no_room |= c->received > SMALL_BODY && h->body_bytes + n > BODIES * limit;
    if (!c->ready && !c->too_large && !c->no_room) {
        size_t before = c->body.n;

        fx_buf_add(&c->body, data, n);
        h->body_bytes += c->body.n - before;
    } else if (c->body.n > 0) {
        drop_body(c);
    }
    pthread_mutex_unlock(&h->lock);
    return c->received <= limit || c->received - limit <= limit;
}

/* The body is there: the answer, or who makes it. */
static void start_route(fx_call *c)
{
    c->handled = true;
    pthread_mutex_lock(&c->http->lock);
    fx_conn_busy(c->conn, true);
    pthread_mutex_unlock(&c->http->lock);
    refuse_if_closing(c);
    if (!c->ready)
        reply_body_fault(c);
    if (!c->ready && strcmp(c->route->method, "GET") == 0)
        c->route->handle(c);
}

static enum MHD_Result handle(void *user, struct MHD_Connection *conn, const char *path, const char *method,
                              const char *version, const char *data, size_t *n, void **state)
{
    fx_http *h = user;
    fx_call *c = *state;
    bool ready, first;

    (void)version;
    if (!c) {
        *state = c = new_call(h, conn, path, method);
        return c ? begin(c) : MHD_NO;
    }
    if (*n > 0) {
        bool go_on = take_body(c, data, *n);
        *n = 0;
        return go_on ? MHD_YES : MHD_NO;
    }
    if (c->queued)
        return MHD_YES;
    first = !c->handled;
    if (first)
        start_route(c);
    pthread_mutex_lock(&h->lock);
    if (!c->ready && h->stopping && !c->gen)
        fx_reply_stopping(c);
    ready = c->ready;
    if (!ready) {
        c->suspended = true;
        MHD_suspend_connection(conn);
        if (first) {
            c->routing = true;
            fx_jobs_push(&h->jobs, &c->job, run_route, c);
        }
    }
    pthread_mutex_unlock(&h->lock);
    return ready ? fx_call_send(c) : MHD_YES;
}

/* ---- Start ---- */

static fx_status listen_at(fx_http *h, int *out, fx_error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV }, *list = NULL;
    char port[16], words[128];
    int one = 1, fd = -1, e = 0, gai;

    snprintf(port, sizeof port, "%d", h->opt.port);
    gai = getaddrinfo(h->opt.host, port, &hints, &list);
    if (gai != 0)
        return fx_fail_param(err, FORNAX_EARG, "host", "%s: %s", h->opt.host, gai_strerror(gai));
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
            bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 511) != 0) {
            e = errno;
            if (fd >= 0)
                close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    *out = fd;
    if (fd < 0)
        return fx_fail(err, FORNAX_EIO, "%s port %d: %s", h->opt.host, h->opt.port, fx_errno_text(e, words, sizeof words));
    return FORNAX_OK;
}

static fx_status start_daemon(fx_http *h, fx_error *err)
{
    int fd;

    FX_TRY(listen_at(h, &fd, err));
    h->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
                                 handle, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, completed, h,
                                 MHD_OPTION_NOTIFY_CONNECTION, fx_conn_notify, h,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)h->opt.max_connections,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)h->opt.idle_timeout_s, MHD_OPTION_END);
    if (h->daemon)
        return FORNAX_OK;
    close(fd);
    return fx_fail(err, FORNAX_EIO, "%s port %d: can't start the HTTP server", h->opt.host, h->opt.port);
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

/* ---- Stop ---- */

static void nap(long ms)
{
    struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

    nanosleep(&t, NULL);
}

/* Waits until no call is open, at most 'ms'. */
static void wait_calls(fx_http *h, int ms)
{
    for (;; ms -= 20) {
        pthread_mutex_lock(&h->lock);
        bool open = h->n_open > 0;
        pthread_mutex_unlock(&h->lock);
        if (!open || ms <= 0)
            return;
        nap(20);
    }
}

/* Ends every generation with an error that says why; the answers still have to leave. */
static void stop_calls(fx_http *h)
{
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    for (uint32_t s = 0; s < h->n_slots; s++) {
        fx_call *c = h->slots[s].call;

        if (!c)
            continue;
        fx_gen_stop(c->gen);
        fx_call_wake(c);
    }
    pthread_mutex_unlock(&h->lock);
    fx_jobs_wait(&h->jobs);              /* after that nothing is suspended */
}

/* New requests are refused, by answers as long as there is anything left to wait for. */
static void stop_daemon(fx_http *h)
{
    MHD_socket listening;

    pthread_mutex_lock(&h->lock);
    h->closing = true;
    pthread_mutex_unlock(&h->lock);
    wait_calls(h, h->opt.grace_ms);
    listening = MHD_quiesce_daemon(h->daemon);
    if (listening != MHD_INVALID_SOCKET)
        close(listening);
    stop_calls(h);
    wait_calls(h, 1000);
    MHD_stop_daemon(h->daemon);
}

/* Notes that the engine moves. Steps may take minutes on a slow machine, a kernel doesn't. */
static void watch_engine(fx_http *h)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);

    fornax_engine_get_stats(h->engine, &s);
    pthread_mutex_lock(&h->lock);
    if (s.running + s.waiting == 0 || s.launches != h->launches)
        h->moved_ns = fx_clock_ns();
    h->launches = s.launches;
    pthread_mutex_unlock(&h->lock);
}

static void serve_until_stopped(fx_http *h)
{
    for (unsigned tick = 0; !h->opt.stopping || !h->opt.stopping(h->opt.stopping_user); tick++) {
        watch_engine(h);
        if (tick % 10 == 9) {
            fx_conns_sweep(h);
            fx_calls_keep_alive(h);
        }
        nap(100);
    }
}

fornax_status fx_server_run(fornax_engine *engine, const fx_server_options *opt, fornax_error *err)
{
    fx_http h = { .engine = engine, .model = fornax_engine_model(engine), .opt = *opt, .epoll = -1, .wake = -1 };
    fx_status st;

    h.tok = fornax_model_tokenizer(h.model);
    h.started = fx_clock_unix();
    if (getrandom(&h.id_seed, sizeof h.id_seed, 0) != sizeof h.id_seed)
        h.id_seed = fx_clock_ns();
    h.opt.max_body_bytes = opt->max_body_bytes ? opt->max_body_bytes : (size_t)64 << 20;
    h.opt.max_connections = opt->max_connections ? opt->max_connections : 1024;
    h.opt.idle_timeout_s = opt->idle_timeout_s ? opt->idle_timeout_s : 60;
    h.opt.stall_ms = opt->stall_ms ? opt->stall_ms : 20000;
    h.moved_ns = fx_clock_ns();
    h.opt.default_temperature = opt->default_temperature < 0 ? 1 : opt->default_temperature;
    st = fx_loras_start(&h.loras, h.model, &h.opt, err);
    if (st != FORNAX_OK) {
        fx_loras_stop(&h.loras);
        return st;
    }
    pthread_mutex_init(&h.lock, NULL);
    fx_emitted_init(&h.emitted);
    st = fx_jobs_start(&h.jobs, err);
    if (st == FORNAX_OK)
        st = fx_pump_start(&h, err);
    if (st == FORNAX_OK)
        st = start_daemon(&h, err);
    if (st == FORNAX_OK) {
        if (h.opt.ready)
            h.opt.ready(h.opt.ready_user, port_in_use(&h));
        serve_until_stopped(&h);
        stop_daemon(&h);
    }
    fx_jobs_stop(&h.jobs);
    fx_pump_stop(&h);
    fx_loras_stop(&h.loras);
    fx_emitted_done(&h.emitted);
    pthread_mutex_destroy(&h.lock);
    return st;
}
