/* http.h - what routes see of the server: a call, and how to answer it.
 *
 * A call is one HTTP request from its first header to its last byte.  libmicrohttpd's
 * thread gathers its body; then its route runs: GET routes there and then, others on a
 * thread of jobs.h while the connection is suspended.  A route answers (fx_reply_*) or
 * starts a generation (gen.h), whose events arrive on the pump thread (pump.c).
 *
 * One lock guards calls, connections and slots.  It is held for microseconds: what reads
 * bodies or may wait for the engine happens outside. A call is freed when its
 * connection is done with it, which also cancels what it still runs. */
#ifndef FX_HTTP_H
#define FX_HTTP_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>

#include "base/status.h"
#include "base/str.h"
#include "server/emitted.h"
#include "server/jobs.h"
#include "server/loras.h"
#include "server/server.h"

typedef struct fx_http fx_http;
typedef struct fx_call fx_call;
typedef struct fx_gen fx_gen;
typedef struct fx_conn fx_conn;

typedef struct fx_route {
    const char *method, *path;
    bool prefix;                 /* matches everything that begins with path */
    void (*handle)(fx_call *c);
    bool watches;                /* a probe's: its answers aren't counted, so that looking changes nothing */
} fx_route;

extern const fx_route *const fx_routes[];      /* ends with NULL; routes.c */

/* Times in seconds, counted by size (route_metrics.c has the bounds). */
typedef struct fx_histogram {
    uint64_t counts[13];
    double sum;
} fx_histogram;
void fx_histogram_add(fx_histogram *h, uint64_t from_ns, uint64_t to_ns);

struct fx_call {
    fx_http *http;
    struct MHD_Connection *conn;
    const fx_route *route;
    char *method, *path;
    char id[20];                 /* in a header, the log and the answer's id */
    fx_buf body;
    size_t received;             /* bytes of the body, also those not kept */
    bool too_large, no_room;     /* why they weren't */
    bool handled;                /* the route was started or is not needed */
    uint64_t start_ns;

    /* Guarded by http->lock once the route runs. */
    bool routing;                /* on a thread of jobs.h: the connection stays suspended */
    bool ready;                  /* status and headers are known */
    bool queued;                 /* handed to libmicrohttpd */
    bool streaming;              /* out is sent as it grows, until 'done' */
    bool done, suspended;
    int status;
    const char *content_type;
    char retry_after[16];
    char truncated[24];          /* tokens left out of the conversation, for a header */
    fx_buf ignored;              /* names of unknown fields, for a header */
    fx_buf gates;                /* names of the tools that the policy opened, for a header */
    fx_buf out;
    size_t out_at;               /* sent before this */

    fx_gen *gen;                 /* or NULL */
    uint32_t slot, serial;       /* in http->slots */
    fx_job job;
};

struct fx_http {
    fornax_engine *engine;
    fornax_model *model;
    const fornax_tokenizer *tok;
    fx_server_options opt;
    struct MHD_Daemon *daemon;
    fx_jobs jobs;
    fx_loras loras;
    fx_emitted emitted;
    pthread_mutex_t lock;
    /* The pump: drains requests' events, watches for clients that hang up. */
    pthread_t pump;
    int epoll, wake;
    struct { fx_call *call; uint32_t serial; } *slots;
    uint32_t n_slots;
    bool closing;                /* new requests are refused */
    bool stopping;               /* nothing may be suspended any more */
    fx_conn *conns;              /* all connections (conns.c) */
    size_t body_bytes;           /* of all calls */
    uint64_t n_open, n_calls;    /* calls under way, and ever begun */
    int64_t started;
    uint64_t id_seed;
    uint64_t statuses[6];        /* answers by hundreds */
    uint64_t launches, moved_ns; /* the engine's, when last seen; when it was last seen to move or to be idle */
    fx_histogram first_token, whole;     /* of generations that went well */
};

/* ---- reply.c: whole answers. The route returns right after. ---- */

void fx_reply_json(fx_call *c, int status, json_t *body);      /* takes body */
void fx_reply_text(fx_call *c, int status, const char *content_type, fx_str text);
void fx_reply_error(fx_call *c, const fx_error *err);          /* status by err->status */
void fx_reply_error_as(fx_call *c, const fx_error *err, int status);
void fx_error_json(fx_buf *out, const fx_error *err, int status);   /* the error object */
int fx_error_status(const fx_error *err);

void fx_reply_stopping(fx_call *c);                             /* 503: the server shuts down */
void fx_reply_unwanted(fx_call *c);                             /* after fx_call_unwanted */

/* The body as a JSON object, or NULL after an error answer. New reference. */
json_t *fx_call_json(fx_call *c);

/* Hands the answer to libmicrohttpd, on its thread. */
enum MHD_Result fx_call_send(fx_call *c);

/* ---- pump.c: generations under way ---- */

fx_status fx_pump_start(fx_http *h, fx_error *err);
void fx_pump_stop(fx_http *h);
/* A generation's requests were submitted: events go to fx_gen_drain. Takes 'g'. */
void fx_call_run(fx_call *c, fx_gen *g);
void fx_call_forget(fx_call *c);       /* under the lock: no events any more */
/* On a thread of jobs.h: nobody waits for the answer any more, since the client hung up or the server stops. */
bool fx_call_unwanted(fx_call *c);
void fx_calls_keep_alive(fx_http *h);  /* comments for streams that have been silent for long */
void fx_call_wake(fx_call *c);         /* under the lock: the answer goes on, unless its route still runs */

/* ---- conns.c: connections, and how long they may take ---- */

void fx_conn_notify(void *http, struct MHD_Connection *conn, void **socket_context,
                    enum MHD_ConnectionNotificationCode code);
/* Under the lock: its call has come in whole, or (busy false) is over. */
void fx_conn_busy(struct MHD_Connection *conn, bool busy);
void fx_conn_received(struct MHD_Connection *conn, size_t n);
/* Hangs up on clients that take too long to send a request. */
void fx_conns_sweep(fx_http *h);

#endif
