/* http.h - what routes see of the server: a call, and how to answer it.
 *
 * A call is one HTTP request from its first header to its last byte.  Routes run on
 * a thread of libmicrohttpd when the body is complete; they answer at once
 * (fx_reply_*) or start a generation (gen.h), whose events arrive on the pump thread.
 * A call is guarded by the server's one lock; it is freed when the connection is done
 * with it, which also cancels what it still runs. */
#ifndef FX_HTTP_H
#define FX_HTTP_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>

#include "base/status.h"
#include "base/str.h"
#include "server/server.h"

typedef struct fx_http fx_http;
typedef struct fx_call fx_call;
typedef struct fx_gen fx_gen;

typedef struct fx_route {
    const char *method, *path;
    bool prefix;                 /* matches everything that begins with path */
    void (*handle)(fx_call *c);
} fx_route;

extern const fx_route *const fx_routes[];      /* ends with NULL; routes.c */

struct fx_call {
    fx_http *http;
    struct MHD_Connection *conn;
    const fx_route *route;
    char *method, *path;
    fx_buf body;
    bool too_large, handled;     /* the route ran */

    /* The answer. Guarded by http->lock once a generation runs. */
    bool ready;                  /* status and headers are known */
    bool queued;                 /* handed to libmicrohttpd */
    bool streaming;              /* out is sent as it grows, until 'done' */
    bool done, suspended;
    int status;
    const char *content_type;
    char retry_after[16];
    fx_buf ignored;              /* unknown fields accepted, for a header */
    fx_buf out;
    size_t out_at;

    fx_gen *gen;                 /* or NULL */
    uint32_t slot, serial;       /* in http->slots */
    uint64_t start_ns;
};

struct fx_http {
    fornax_engine *engine;
    fornax_model *model;
    const fornax_tokenizer *tok;
    fx_server_options opt;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    /* The pump: drains requests' events, watches for clients that hang up. */
    pthread_t pump;
    int epoll, wake;
    bool stopping;
    struct { fx_call *call; uint32_t serial; } *slots;
    uint32_t n_slots, used_slots;
    int64_t started;
    uint64_t n_calls;            /* answered */
    uint64_t statuses[6];        /* by hundreds */
};

/* Whole answers. The route returns right after. */
void fx_reply_json(fx_call *c, int status, json_t *body);      /* takes body */
void fx_reply_text(fx_call *c, int status, const char *content_type, fx_str text);
void fx_reply_error(fx_call *c, const fx_error *err);          /* status by err->status */
void fx_error_json(fx_buf *out, const fx_error *err, int status);   /* the error object */
int fx_error_status(const fx_error *err);

/* The body as a JSON object, or NULL after an error answer. New reference. */
json_t *fx_call_json(fx_call *c);

/* A generation's requests were submitted: events go to fx_gen_drain. Takes 'g'. */
void fx_call_run(fx_call *c, fx_gen *g);
bool fx_http_watch_fd(fx_http *h, int fd, const fx_call *c, uint32_t index);

#endif
