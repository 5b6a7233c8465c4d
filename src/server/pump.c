/* pump.c - generations under way: the engine's events become bytes of answers.
 *
 * While a generation runs, its connection is suspended whenever there is nothing to send.
 * The pump thread waits (epoll) for the engine's requests, lets gen.c turn their events into
 * bytes and resumes the connection.  libmicrohttpd doesn't look at the sockets of suspended
 * connections, so the pump watches them for hang-ups, and cancels what the client no
 * longer waits for: in the queue, in prefill or in decode. A client that closes only
 * its sending side counts as gone: nothing tells the two apart. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/gen.h"

/* An epoll key: slot, serial (so that a stale event finds nothing) and which descriptor. */
#define KEY_SOCKET 0xFFFFu
#define KEY_WAKE UINT64_MAX
static uint64_t key_of(const fx_call *c, uint32_t index)
{
    return (uint64_t)(c->serial & 0x7FFFu) << 48 | (uint64_t)index << 32 | c->slot;
}

static int socket_of(const fx_call *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c->conn, MHD_CONNECTION_INFO_CONNECTION_FD);

    return info ? (int)info->connect_fd : -1;
}

static bool take_slot(fx_http *h, fx_call *c)
{
    for (uint32_t i = 0; i < h->n_slots; i++) {
        if (!h->slots[i].call) {
            h->slots[i].call = c;
            c->slot = i;
            c->serial = ++h->slots[i].serial;
            return true;
        }
    }
    return false;
}

static bool watch(const fx_call *c, int fd, uint32_t index)
{
    struct epoll_event ev = { .events = index == KEY_SOCKET ? EPOLLRDHUP | EPOLLONESHOT : EPOLLIN,
                              .data.u64 = key_of(c, index) };

    return epoll_ctl(c->http->epoll, EPOLL_CTL_ADD, fd, &ev) == 0;
}

void fx_call_forget(fx_call *c)
{
    fx_http *h = c->http;

    for (size_t i = 0; c->gen && i < fx_gen_requests(c->gen); i++)
        epoll_ctl(h->epoll, EPOLL_CTL_DEL, fx_gen_fd(c->gen, i), NULL);
    if (!c->gen || h->slots[c->slot].call != c)
        return;
    epoll_ctl(h->epoll, EPOLL_CTL_DEL, socket_of(c), NULL);
    h->slots[c->slot].call = NULL;
}

void fx_call_run(fx_call *c, fx_gen *g)
{
    fx_http *h = c->http;
    bool ok;

    pthread_mutex_lock(&h->lock);
    c->gen = g;
    ok = take_slot(h, c);
    for (size_t i = 0; ok && i < fx_gen_requests(g); i++)
        ok = watch(c, fx_gen_fd(g, i), (uint32_t)i);
    if (!ok || !watch(c, socket_of(c), KEY_SOCKET)) {
        fx_error err = { 0 };

        fx_call_forget(c);
        fx_gen_cancel(g);
        fx_fail(&err, FORNAX_EBUSY, "too many requests at once");
        fx_reply_error(c, &err);
    }
    pthread_mutex_unlock(&h->lock);
}

void fx_call_wake(fx_call *c)
{
    if (!c->suspended || c->routing)
        return;
    c->suspended = false;
    MHD_resume_connection(c->conn);
}

bool fx_call_unwanted(fx_call *c)
{
    struct pollfd p = { .fd = socket_of(c), .events = POLLRDHUP };
    bool stopping;

    pthread_mutex_lock(&c->http->lock);
    stopping = c->http->stopping;
    pthread_mutex_unlock(&c->http->lock);
    return stopping || (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)));
}

void fx_calls_keep_alive(fx_http *h)
{
    uint64_t silence = (uint64_t)h->opt.keep_alive_s * 1000000000u, now = fx_clock_ns();

    pthread_mutex_lock(&h->lock);
    for (uint32_t i = 0; i < h->n_slots && silence > 0; i++) {
        fx_call *c = h->slots[i].call;

        if (c && fx_gen_keep_alive(c->gen, now - silence))
            fx_call_wake(c);
    }
    pthread_mutex_unlock(&h->lock);
}

static void pump_event(fx_http *h, uint64_t key)
{
    uint32_t slot = (uint32_t)key, index = (uint32_t)(key >> 32) & 0xFFFFu;
    fx_call *c = slot < h->n_slots ? h->slots[slot].call : NULL;

    if (!c || (c->serial & 0x7FFFu) != (uint32_t)(key >> 48))
        return;
    if (index == KEY_SOCKET)
        fx_gen_cancel(c->gen);
    else if (fx_gen_drain(c->gen, index) && c->ready)
        fx_call_wake(c);
}

static void *pump_main(void *user)
{
    fx_http *h = user;
    struct epoll_event events[64];

    for (;;) {
        int n = epoll_wait(h->epoll, events, FX_COUNT(events), -1);

        if (n < 0 && errno != EINTR)
            return NULL;
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == KEY_WAKE)
                return NULL;
            pthread_mutex_lock(&h->lock);
            pump_event(h, events[i].data.u64);
            pthread_mutex_unlock(&h->lock);
        }
    }
}

fx_status fx_pump_start(fx_http *h, fx_error *err)
{
    struct epoll_event ev = { .events = EPOLLIN, .data.u64 = KEY_WAKE };
    sigset_t all, old;
    int failed;

    h->n_slots = (uint32_t)h->opt.max_connections;
    h->slots = calloc(h->n_slots, sizeof *h->slots);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    failed = !h->slots || h->epoll < 0 || h->wake < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->wake, &ev) != 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = failed || pthread_create(&h->pump, NULL, pump_main, h) != 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!failed)
        return FORNAX_OK;
    if (h->wake >= 0)
        close(h->wake);
    h->wake = -1;                        /* no thread to stop */
    return fx_fail(err, FORNAX_EIO, "can't start the server: no more descriptors, memory or threads");
}

void fx_pump_stop(fx_http *h)
{
    uint64_t one = 1;

    if (h->wake >= 0) {
        while (write(h->wake, &one, sizeof one) < 0 && errno == EINTR)
            continue;
        pthread_join(h->pump, NULL);
        close(h->wake);
    }
    if (h->epoll >= 0)
        close(h->epoll);
    free(h->slots);
}
