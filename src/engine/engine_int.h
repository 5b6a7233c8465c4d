/* engine_int.h - what the files of engine/ share.
 *
 *     engine.c    open, close, the thread, stats
 *     request.c   options checked and copied; submit, take events, cancel, close
 *     step.c      one step: take in, give up on, plan, run, sample, emit
 *     forced.c    text that a grammar leaves no choice about
 *
 * Who may touch what: fields under 'lock' by anyone who holds it; the scheduler, the page
 * pool, the list of live requests and everything in their choices by whoever set 'stepping'
 * (the step in progress), or holds the lock while nobody steps. */
#ifndef FX_ENGINE_INT_H
#define FX_ENGINE_INT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "engine/events.h"
#include "engine/stream.h"
#include "grammar/matcher.h"
#include "sample/sample.h"
#include "sched/sched.h"

typedef struct fx_choice {
    fx_seq seq;                    /* owner: this choice */
    fx_request *req;
    int32_t index;
    fx_sampler sampler;
    fx_stream stream;
    fx_matcher *matcher;           /* its place in the grammar; NULL: free text */
    fornax_finish finish;
    void *block;                   /* tokens, keys, pages of seq */
    size_t block_bytes;
} fx_choice;

struct fx_request {
    fx_engine *engine;
    atomic_int refs;               /* the user's, and the engine's until it ended */
    atomic_bool cancel;
    fx_request *next, *prev;       /* inbox (next only) or live list */
    fx_arena arena;
    fornax_request_options opt;    /* pointers into the arena */
    fx_sample_params params;
    fx_stops stops;
    fx_choice *choices;
    int32_t n, n_open;             /* choices; not finished */
    int64_t max_new;               /* tokens of each choice; 0: only the prompt is computed */
    uint64_t submitted_ns;
    fx_kv_scope *scope;
    fx_request_adapter adapter;
    bool joined, queued, counted;  /* scope is the kv's; counts in n_queued; prompt was counted */
    bool ended;
    fx_events events;
    /* Callbacks; under events.lock. */
    bool closed, in_callback;
    pthread_t callback_thread;
    pthread_cond_t callback_over;
};

typedef struct fx_sample_job {
    fx_choice *choice;
    float *logits;
    fx_sampled out;
    fx_error mask_err;             /* status: why there is no mask, or FORNAX_OK */
} fx_sample_job;

typedef struct fx_forced {
    fx_buf text;
    fx_ids ids;
} fx_forced;

struct fx_engine {
    const fx_mem *mem;
    const fx_log *log;
    fx_pool *pool;
    fx_stepper stepper;
    const fx_tokenizer *tokenizer;
    fornax_engine_options opt;
    int32_t *eos;
    size_t n_eos;
    int64_t context;
    pid_t pid;
    uint64_t entropy[2];           /* for seeds that nobody gave */
    atomic_int refs;               /* the owner's and one per request */

    pthread_mutex_t lock;
    pthread_cond_t wake, step_over;
    pthread_t thread;
    bool has_thread;
    int fd;                        /* manual: eventfd, else -1 */
    /* Under lock: */
    fx_request *inbox, **inbox_end;
    uint64_t arrivals;
    int64_t n_queued;              /* requests not admitted yet, reservations included */
    bool stepping, closing, drop;
    bool pages_ready;              /* the next pages are in memory */
    bool busy;                     /* live requests after the last step */
    fornax_engine_stats stats;     /* as of the last step; totals and rejected always */
    double done_interval_ms;       /* between ends of requests, smoothed; 0: unknown */
    uint64_t last_done_ns;

    /* The step's: */
    fx_kv *kv;
    fx_sched sched;
    fx_request *live, *ended;
    fornax_engine_stats now;
    fx_sample_job *jobs;           /* [max_batch] */
    int32_t n_jobs;
    fx_sample_scratch *scratch;    /* [n_scratch] */
    int32_t n_scratch;
    fx_forced forced;
};

/* request.c */
void fx_request_unref(fx_request *r);
bool fx_request_ends_with(const fx_request *r, int32_t id);      /* an end token or stop id of this request */
fx_status fx_engine_usable(const fx_engine *e, fx_error *err);   /* EARG in a forked child */

/* step.c */
bool fx_step_run(fx_engine *e);               /* stepping is set; whether there was anything to do */
void fx_step_end_all(fx_engine *e);           /* everything is cancelled; stepping is set */

/* forced.c */
fx_status fx_forced_init(fx_forced *f, const fx_mem *mem, fx_error *err);
void fx_forced_done(fx_forced *f);
/* f->ids: tokens that come next whatever is sampled; often none. Only the grammar is asked. */
fx_status fx_forced_find(fx_forced *f, const fx_choice *c, fx_error *err);

/* engine.c */
void fx_engine_unref(fx_engine *e);
void fx_engine_notify(fx_engine *e);          /* there is work; lock is held */

#endif
