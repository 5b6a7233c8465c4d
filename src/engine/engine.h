/* engine.h - the loop: schedule, run, sample, emit. One engine per model and KV pool.
 *
 * Owns the page pool, the scheduler and the requests; knows the model only as a stepper
 * (a function that runs a step, and a state table), the tokenizer only for text.  api/
 * wraps these calls one to one; what they promise is written in fornax.h.
 *
 *     fornax_engine_options o;
 *     fx_engine_resolve(&o, given, state, max_context, err);    defaults filled in
 *     ... make a stepper for o.step_tokens rows and o.max_batch rows of logits ...
 *     fx_engine_open(&e, &config, err);
 *     fx_request_submit(&r, e, &options, err);
 *     while (!fx_request_next(r, &event, -1, err)) ...
 *     fx_request_close(r);  fx_engine_close(e);
 *
 * Option structs are complete here: api/ has copied the caller's by its 'size' into a
 * zeroed whole one.
 *
 * Threads: an engine that isn't manual steps on a thread of its own, with all signals
 * blocked; submit, cancel, close of a request, stats and drop_cache from any thread.
 * A request outlives its engine if need be: what is left of the engine goes with the last. */
#ifndef FX_ENGINE_H
#define FX_ENGINE_H

#include "base/log.h"
#include "base/pool.h"
#include "base/status.h"
#include "base/str.h"
#include "grammar/matcher.h"
#include "tensor/rows.h"
#include "text/tokenizer.h"

/* The model, as the engine sees it. One thread calls it, one step at a time. */
typedef struct fx_stepper {
    void *user;
    const fx_state_table *state;
    int64_t vocab;
    void (*run)(void *user, const fx_step *step);
    float *(*logits)(void *user, int64_t i);      /* row i of logit_rows; [vocab], writable */
} fx_stepper;

typedef struct fx_engine fx_engine;
typedef struct fx_request fx_request;

typedef struct fx_engine_config {      /* all pointers are kept but options, eos and identity */
    const fx_mem *mem;
    const fx_log *log;                 /* NULL: silent */
    fx_pool *pool;
    fx_stepper stepper;
    const fx_tokenizer *tokenizer;     /* NULL: events carry no text, stop strings are refused */
    const fornax_engine_options *options;   /* resolved */
    const int32_t *eos;                /* ids at which generation ends */
    size_t n_eos;
    fx_str identity;                   /* whatever decides the bits of a page: model fingerprint, numerics
                                          id, KV dtype, format version */
    int64_t max_context;               /* tokens in a sequence */
} fx_engine_config;

/* Checks options (NULL: defaults) and fills in what is 0. */
fx_status fx_engine_resolve(fornax_engine_options *out, const fornax_engine_options *given,
                            const fx_state_table *state, int64_t max_context, fx_error *err);
fx_status fx_engine_open(fx_engine **out, const fx_engine_config *config, fx_error *err);
/* Not from a callback. In a child after fork it frees what it can and touches no thread. */
void fx_engine_close(fx_engine *e);
fx_status fx_engine_step(fx_engine *e, int *did, fx_error *err);
int fx_engine_fd(const fx_engine *e);
void fx_engine_get_stats(fx_engine *e, fornax_engine_stats *stats);   /* all fields but size */
void fx_engine_drop_cache(fx_engine *e);
/* Tokens a sequence can have: the model's context, or less if the pool is smaller. */
int64_t fx_engine_context(const fx_engine *e);

/* An adapter for one request. The engine calls drop(user) when the request needs it no more (also when
 * submit fails). */
typedef struct fx_request_adapter {
    const fx_adapter *adapter;
    fx_str identity;                   /* of its content, scale included: pages are shared within it */
    void (*drop)(void *user);
    void *user;
} fx_request_adapter;
/* What the output is held to; the request's choices keep references of their own. */
typedef struct fx_request_grammar {
    fx_gram *gram;
    fx_gvocab *vocab;                  /* of as many ids as the logits have */
} fx_request_grammar;
/* adapter, grammar NULL: none. */
fx_status fx_request_submit_with(fx_request **out, fx_engine *e, const fornax_request_options *opt,
                                 const fx_request_adapter *adapter, const fx_request_grammar *grammar, fx_error *err);
fx_status fx_request_submit(fx_request **out, fx_engine *e, const fornax_request_options *opt, fx_error *err);
fx_status fx_request_next(fx_request *r, const fornax_event **event, int timeout_ms, fx_error *err);
int fx_request_fd(fx_request *r);                 /* -1: no descriptor to be had */
void fx_request_cancel(fx_request *r);
void fx_request_close(fx_request *r);
uint64_t fx_request_seed(const fx_request *r);    /* the one given, or drawn */

#endif
