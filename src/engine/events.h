/* events.h - events of one request, from the engine's thread to whoever takes them.
 *
 * Events lie in chunks that never move, so what next() handed out stays valid until the
 * following call.  Two chunks are made with the queue and take turns: as long as the taker
 * keeps up, nothing is allocated.  The last event has a place of its own: it can always
 * be delivered.
 *
 * Threads: one pusher, one taker. */
#ifndef FX_EVENTS_H
#define FX_EVENTS_H

#include <pthread.h>

#include "base/status.h"
#include "base/mem.h"

typedef struct fx_event_chunk fx_event_chunk;

typedef struct fx_events {
    const fx_mem *mem;
    pthread_mutex_t lock;
    pthread_cond_t more;
    fx_event_chunk *first, *last, *spare;
    size_t n;                      /* queued, the last event not counted */
    bool finished, last_taken;     /* the last event is there / was taken */
    fornax_event last_event;
    char error[1024];              /* of the last event */
    int fd;                        /* eventfd, -1 until asked for; readable while events are there */
} fx_events;

fx_status fx_events_init(fx_events *q, const fx_mem *mem, bool queued, fx_error *err);
void fx_events_done(fx_events *q);
bool fx_events_push(fx_events *q, const fornax_event *e);     /* copies; false: no memory */
void fx_events_push_last(fx_events *q, const fornax_event *e);
/* FORNAX_ETIMEOUT, FORNAX_ENOTFOUND after the last. */
fx_status fx_events_next(fx_events *q, const fornax_event **out, int timeout_ms, fx_error *err);
int fx_events_fd(fx_events *q);

#endif
