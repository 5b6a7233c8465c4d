/* conns.c - how long a client may take to send a request.
 *
 * libmicrohttpd closes connections on which nothing happens for a while.  A client that sends a
 * byte now and then would hold one for ever, so each has a deadline too: the idle timeout, and
 * a second more for each SLOWEST bytes of a body that came in. */
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "server/http.h"

#define SLOWEST 16384u

struct fx_conn {
    fx_http *http;
    int fd;
    bool busy;                   /* we are at work, not the client */
    uint64_t since_ns, bytes;    /* of the request that comes in */
    fx_conn *prev, *next;
};

static fx_conn *conn_of(struct MHD_Connection *conn)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void opened(fx_http *h, struct MHD_Connection *conn, void **context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
    fx_conn *k = info ? calloc(1, sizeof *k) : NULL;

    *context = k;
    if (!k)
        return;                          /* no memory: no deadline for this one */
    k->http = h;
    k->fd = (int)info->connect_fd;
    k->since_ns = fx_clock_ns();
    pthread_mutex_lock(&h->lock);
    k->next = h->conns;
    if (k->next)
        k->next->prev = k;
    h->conns = k;
    pthread_mutex_unlock(&h->lock);
}

static void closed(fx_http *h, fx_conn *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&h->lock);
    if (k->prev)
        k->prev->next = k->next;
    else
        h->conns = k->next;
    if (k->next)
        k->next->prev = k->prev;
    pthread_mutex_unlock(&h->lock);
    free(k);
}

void fx_conn_notify(void *http, struct MHD_Connection *conn, void **socket_context,
                    enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        opened(http, conn, socket_context);
    else
        closed(http, *socket_context);
}

void fx_conn_busy(struct MHD_Connection *conn, bool busy)
{
    fx_conn *k = conn_of(conn);

    if (!k)
        return;
    k->busy = busy;
    k->since_ns = fx_clock_ns();
    k->bytes = 0;
}

void fx_conn_received(struct MHD_Connection *conn, size_t n)
{
    fx_conn *k = conn_of(conn);

    if (k)
        k->bytes += n;
}

void fx_conns_sweep(fx_http *h)
{
    uint64_t now = fx_clock_ns(), second = 1000000000u;

    pthread_mutex_lock(&h->lock);
    for (fx_conn *k = h->conns; k; k = k->next) {
        uint64_t allowed = ((uint64_t)h->opt.idle_timeout_s + k->bytes / SLOWEST) * second;

        if (!k->busy && now > k->since_ns && now - k->since_ns > allowed)
            shutdown(k->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&h->lock);
}
