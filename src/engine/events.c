/* events.c - see events.h.
 *
 * A record is a fornax_event whose pointers lead to the bytes right behind it (top
 * log-probabilities, text); stop strings belong to the request.  The taker's current
 * record is the one before 'read' of the first chunk: a chunk is put aside only when the
 * taker comes for a record of the next one. */
#include "engine/events.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"

#define CHUNK_BYTES 4096

struct fx_event_chunk {
    fx_event_chunk *next;
    size_t size, used, read;       /* of 'bytes' */
    char bytes[] FX_ALIGNED(16);
};

static fx_event_chunk *new_chunk(const fx_mem *mem, size_t size)
{
    fx_event_chunk *c = fx_mem_alloc(mem, sizeof *c + size);

    if (c)
        *c = (fx_event_chunk){ .size = size };
    return c;
}

static void free_chunks(const fx_mem *mem, fx_event_chunk *c)
{
    while (c) {
        fx_event_chunk *next = c->next;

        fx_mem_free(mem, c, sizeof *c + c->size);
        c = next;
    }
}

fx_status fx_events_init(fx_events *q, const fx_mem *mem, bool queued, fx_error *err)
{
    memset(q, 0, sizeof *q);
    q->mem = mem;
    q->fd = -1;
    if (queued) {
        q->first = q->last = new_chunk(mem, CHUNK_BYTES);
        q->spare = new_chunk(mem, CHUNK_BYTES);
        if (!q->first || !q->spare) {
            free_chunks(mem, q->first);
            free_chunks(mem, q->spare);
            q->mem = NULL;
            return fx_nomem(err, "the event queue");
        }
    }
    pthread_mutex_init(&q->lock, NULL);
    fx_thread_cond_init(&q->more);
    return FORNAX_OK;
}

void fx_events_done(fx_events *q)
{
    if (!q->mem)
        return;
    free_chunks(q->mem, q->first);
    free_chunks(q->mem, q->spare);
    if (q->fd >= 0)
        close(q->fd);
    pthread_cond_destroy(&q->more);
    pthread_mutex_destroy(&q->lock);
    q->mem = NULL;
}

/* ---- In -------------------------------------------------------------------------------- */

static bool waiting(const fx_events *q)
{
    return q->n > 0 || (q->finished && !q->last_taken);
}

static void set_readable(fx_events *q, bool on)
{
    uint64_t one = 1;
    ssize_t done;

    if (q->fd < 0)
        return;
    do
        done = on ? write(q->fd, &one, sizeof one) : read(q->fd, &one, sizeof one);
    while (done < 0 && errno == EINTR);
}

static void announce(fx_events *q)
{
    set_readable(q, true);
    pthread_cond_signal(&q->more);
}

/* A chunk with room for so many bytes becomes the last. */
static bool add_chunk(fx_events *q, size_t bytes)
{
    fx_event_chunk *c = q->spare;

    if (c && c->size >= bytes)
        q->spare = NULL;
    else
        c = new_chunk(q->mem, FX_MAX(bytes, CHUNK_BYTES));
    if (!c)
        return false;
    c->next = NULL;
    c->used = c->read = 0;
    q->last->next = c;
    q->last = c;
    return true;
}

static size_t record_bytes(const fornax_event *e)
{
    return FX_ROUND_UP(sizeof *e + (size_t)e->n_top * sizeof *e->top + e->text_n + 1, 16);
}

static bool push_locked(fx_events *q, const fornax_event *e)
{
    size_t bytes = record_bytes(e);
    fornax_event *copy;
    char *rest;

    if (q->last->size - q->last->used < bytes && !add_chunk(q, bytes))
        return false;
    copy = (fornax_event *)(void *)(q->last->bytes + q->last->used);
    q->last->used += bytes;
    *copy = *e;
    rest = (char *)(copy + 1);
    if (e->n_top > 0) {
        copy->top = (const fornax_top_logprob *)(void *)rest;
        memcpy(rest, e->top, (size_t)e->n_top * sizeof *e->top);
        rest += (size_t)e->n_top * sizeof *e->top;
    }
    copy->text = rest;
    if (e->text_n > 0)
        memcpy(rest, e->text, e->text_n);
    rest[e->text_n] = 0;
    if (q->n++ == 0)
        announce(q);
    return true;
}

bool fx_events_push(fx_events *q, const fornax_event *e)
{
    bool ok;

    pthread_mutex_lock(&q->lock);
    ok = push_locked(q, e);
    pthread_mutex_unlock(&q->lock);
    return ok;
}

void fx_events_push_last(fx_events *q, const fornax_event *e)
{
    pthread_mutex_lock(&q->lock);
    q->last_event = *e;
    q->last_event.text = "";
    if (e->error) {
        fx_format(q->error, sizeof q->error, "%s", e->error);
        q->last_event.error = q->error;
    }
    q->finished = true;
    if (q->n == 0)
        announce(q);
    pthread_mutex_unlock(&q->lock);
}

/* ---- Out ----------------------------------------------------------------------------------- */

static const fornax_event *take_locked(fx_events *q)
{
    const fornax_event *e = &q->last_event;

    if (q->n > 0) {
        while (q->first->read == q->first->used) {
            fx_event_chunk *c = q->first;

            q->first = c->next;
            if (!q->spare && c->size == CHUNK_BYTES) {
                c->next = NULL;
                q->spare = c;
            } else {
                fx_mem_free(q->mem, c, sizeof *c + c->size);
            }
        }
        e = (const fornax_event *)(const void *)(q->first->bytes + q->first->read);
        q->first->read += record_bytes(e);
        q->n--;
    } else {
        q->last_taken = true;
    }
    if (!waiting(q))
        set_readable(q, false);
    return e;
}

fx_status fx_events_next(fx_events *q, const fornax_event **out, int timeout_ms, fx_error *err)
{
    struct timespec until = { 0 };
    fx_status st = FORNAX_OK;

    *out = NULL;
    if (timeout_ms > 0)
        until = fx_thread_in(timeout_ms);
    pthread_mutex_lock(&q->lock);
    while (!waiting(q) && !q->last_taken && st == FORNAX_OK) {
        if (timeout_ms < 0)
            pthread_cond_wait(&q->more, &q->lock);
        else if (timeout_ms == 0 || pthread_cond_timedwait(&q->more, &q->lock, &until) == ETIMEDOUT)
            st = waiting(q) ? FORNAX_OK : FORNAX_ETIMEOUT;
    }
    if (waiting(q))
        *out = take_locked(q);
    else if (q->last_taken)
        st = FORNAX_ENOTFOUND;
    pthread_mutex_unlock(&q->lock);
    if (st == FORNAX_ETIMEOUT)
        return fx_fail(err, st, "no event within %d ms", timeout_ms);
    if (st == FORNAX_ENOTFOUND)
        return fx_fail(err, st, "the request's last event was taken");
    return FORNAX_OK;
}

int fx_events_fd(fx_events *q)
{
    int fd;

    pthread_mutex_lock(&q->lock);
    if (q->fd < 0) {
        q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (waiting(q))
            set_readable(q, true);
    }
    fd = q->fd;
    pthread_mutex_unlock(&q->lock);
    return fd;
}
