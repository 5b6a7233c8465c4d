/* request.c - requests from the caller's side.
 *
 * Everything a request will need is allocated when it is submitted (token and page
 * arrays for its greatest length, penalty counts, text buffers, two chunks of events), so
 * that generating allocates nothing. */
#include <float.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/engine_int.h"
#include "sample/random.h"

fx_status fx_engine_usable(const fx_engine *e, fx_error *err)
{
    if (e->pid != getpid())
        return fx_fail(err, FORNAX_EARG, "after fork the child may only close objects");
    return FORNAX_OK;
}

/* ---- Options ------------------------------------------------------------------------------- */

static fx_status bad_number(fx_error *err, const char *name, const char *expected, double found)
{
    return fx_fail_param(err, FORNAX_EARG, name, "%s: expected %s, found %g", name, expected, found);
}

static fx_status check_numbers(const fx_engine *e, const fornax_request_options *o, fx_error *err)
{
    const struct {
        const char *name;
        double value, least, most;
        const char *expected;
    } rows[] = {
        { "temperature", o->temperature, 0, FLT_MAX, "a finite number of at least 0" },
        { "top_k", o->top_k, 0, INT32_MAX, "0 (all) or more" },
        { "top_p", o->top_p, 0, 1, "0 to 1" },
        { "min_p", o->min_p, 0, 1, "0 to 1" },
        { "repetition_penalty", o->repetition_penalty, 0, FLT_MAX, "a finite number of at least 0" },
        { "frequency_penalty", o->frequency_penalty, -2, 2, "-2 to 2" },
        { "presence_penalty", o->presence_penalty, -2, 2, "-2 to 2" },
        { "max_tokens", (double)o->max_tokens, -1, 0x1p63, "-1 (none), 0 (up to the context's end) or more" },
        { "min_tokens", (double)o->min_tokens, 0, 0x1p63, "0 or more" },
        { "n", o->n, 0, e->opt.max_batch, "1 to the engine's max_batch" },
        { "logprobs", o->logprobs, 0, 1, "0 or 1" },
        { "top_logprobs", o->top_logprobs, 0, o->logprobs ? FX_TOP_LOGPROBS : 0,
          o->logprobs ? "0 to 20" : "0 without logprobs" },
        { "deadline_ms", (double)o->deadline_ms, 0, 0x1p63, "0 (none) or more" },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (!(rows[i].value >= rows[i].least && rows[i].value <= rows[i].most))
            return bad_number(err, rows[i].name, rows[i].expected, rows[i].value);
    if (o->max_tokens > 0 && o->min_tokens > o->max_tokens)
        return bad_number(err, "min_tokens", "at most max_tokens", (double)o->min_tokens);
    if (o->grammar && o->ignore_eos)
        return fx_fail_param(err, FORNAX_EARG, "ignore_eos", "ignore_eos: a text that is held to a grammar ends where that says");
    if (o->prompt_logprobs)
        return fx_fail_param(err, FORNAX_EUNSUP, "prompt_logprobs", "prompt_logprobs: not implemented, must be 0");
    return FORNAX_OK;
}

static fx_status check_ids(const int32_t *ids, size_t n, int64_t vocab, const char *name, fx_error *err)
{
    if (n > 0 && !ids)
        return fx_fail_param(err, FORNAX_EARG, name, "%s: NULL, but there should be %zu", name, n);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return fx_fail_param(err, FORNAX_EARG, name, "%s[%zu]: expected an id in 0..%lld, found %d", name, i,
                                 (long long)vocab - 1, (int)ids[i]);
    return FORNAX_OK;
}

static fx_status check_lists(const fx_engine *e, const fornax_request_options *o, fx_error *err)
{
    int64_t vocab = e->stepper.vocab;

    FX_TRY(check_ids(o->ids, o->n_ids, vocab, "ids", err));
    FX_TRY(check_ids(o->stop_ids, o->n_stop_ids, vocab, "stop_ids", err));
    if ((o->n_logit_bias && !o->logit_bias) || (o->n_stop && !o->stop))
        return fx_fail_param(err, FORNAX_EARG, o->n_stop && !o->stop ? "stop" : "logit_bias",
                             "a list is NULL, but its length isn't 0");
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        const fornax_logit_bias *b = &o->logit_bias[i];

        FX_TRY(check_ids(&b->id, 1, vocab, "logit_bias", err));
        if (!(b->bias <= FLT_MAX))
            return bad_number(err, "logit_bias", "a finite number or minus infinity", (double)b->bias);
    }
    if (o->n_stop && !e->tokenizer)
        return fx_fail_param(err, FORNAX_EUNSUP, "stop", "stop: this engine has no tokenizer to make text with");
    return FORNAX_OK;
}

/* Room for at least one new token, unless none is wanted. */
static fx_status check_length(const fx_engine *e, const fornax_request_options *o, fx_error *err)
{
    uint64_t most = (uint64_t)e->context - (o->max_tokens >= 0);

    if (o->n_ids < 1)
        return fx_fail_param(err, FORNAX_EARG, "ids", "ids: the prompt is empty");
    if (o->n_ids <= most)
        return FORNAX_OK;
    return fx_fail_param(err, FORNAX_EARG, "context_length",
                         "the prompt has %zu tokens%s; this engine's context is %lld tokens", o->n_ids,
                         o->max_tokens >= 0 ? " and needs room for at least one more" : "", (long long)e->context);
}

/* ---- Making --------------------------------------------------------------------------------------- */

static void *copy_of(fx_arena *a, const void *p, size_t n, size_t each, bool *ok)
{
    void *copy = fx_arena_array(a, n ? n : 1, each);

    if (!copy)
        *ok = false;
    else if (n)
        memcpy(copy, p, n * each);
    return copy;
}

/* End tokens: the model's, unless ignored, and the request's. */
static int32_t *list_ends(fx_request *r, size_t *n)
{
    const fx_engine *e = r->engine;
    size_t n_eos = r->opt.ignore_eos ? 0 : e->n_eos;
    int32_t *ends;

    if (r->opt.n_stop_ids > SIZE_MAX / sizeof *ends - n_eos - 1)
        return NULL;
    *n = n_eos + r->opt.n_stop_ids;
    ends = FX_ARENA_NEWN(&r->arena, int32_t, *n + 1);
    if (!ends)
        return NULL;
    if (n_eos)
        memcpy(ends, e->eos, n_eos * sizeof *ends);
    if (r->opt.n_stop_ids)
        memcpy(ends + n_eos, r->opt.stop_ids, r->opt.n_stop_ids * sizeof *ends);
    return ends;
}

bool fx_request_ends_with(const fx_request *r, int32_t id)
{
    for (size_t i = 0; i < r->params.n_ends; i++)
        if (r->params.ends[i] == id)
            return true;
    return false;
}

static uint64_t draw_seed(fx_engine *e, uint64_t arrival)
{
    uint32_t key[2] = { (uint32_t)e->entropy[0], (uint32_t)(e->entropy[0] >> 32) };
    uint32_t counter[4] = { (uint32_t)e->entropy[1], (uint32_t)(e->entropy[1] >> 32), (uint32_t)arrival,
                            (uint32_t)(arrival >> 32) };
    uint32_t out[4];

    fx_philox(key, counter, out);
    return ((uint64_t)out[1] << 32 | out[0]) >> 11;      /* 53 bits: JSON's readers have doubles */
}

/* Of whom pages may be shared with: adapter, salt, and where it matters the class of lengths. */
static fx_kv_scope *new_scope(fx_request *r, fx_str salt)
{
    const fx_engine *e = r->engine;
    const fx_state_table *state = e->stepper.state;
    int32_t class = fx_state_length_class(state, (int64_t)r->opt.n_ids);
    char *p;

    if (state->long_from > 0) {
        if (!(p = fx_arena_alloc(&r->arena, salt.n + sizeof(class))))
            return NULL;
        memcpy(p, salt.p ? salt.p : "", salt.n);
        memcpy(p + salt.n, &class, sizeof(class));
        salt = fx_str_n(p, salt.n + sizeof(class));
    }
    return fx_kv_scope_new(e->mem, r->adapter.adapter ? r->adapter.identity : FX_STR(""), salt);
}

static fx_status copy_options(fx_request *r, const fornax_request_options *o, fx_error *err)
{
    bool ok = true;

    r->opt = *o;
    r->opt.n = o->n > 0 ? o->n : 1;
    r->opt.ids = copy_of(&r->arena, o->ids, o->n_ids, sizeof *o->ids, &ok);
    r->opt.logit_bias = copy_of(&r->arena, o->logit_bias, o->n_logit_bias, sizeof *o->logit_bias, &ok);
    r->params = (fx_sample_params){
        .temperature = o->temperature, .top_k = o->top_k, .top_p = o->top_p > 0 ? o->top_p : 1, .min_p = o->min_p,
        .repetition = o->repetition_penalty > 0 ? o->repetition_penalty : 1,
        .frequency = o->frequency_penalty, .presence = o->presence_penalty,
        .bias = r->opt.logit_bias, .n_bias = o->n_logit_bias,
        .min_tokens = o->min_tokens, .logprobs = o->logprobs, .n_top = o->top_logprobs,
    };
    r->params.ends = list_ends(r, &r->params.n_ends);
    r->scope = new_scope(r, fx_str_of(o->cache_salt));
    if (!ok || !r->params.ends || !r->scope)
        return fx_nomem(err, "the request");
    FX_TRY(fx_stops_init(&r->stops, &r->arena, o->stop, o->n_stop, err));
    r->opt.stop_ids = NULL;                              /* copied elsewhere or no longer needed */
    r->opt.stop = NULL;
    r->opt.cache_salt = NULL;
    r->opt.grammar = NULL;
    return FORNAX_OK;
}

/* keys, tokens, pages in one block that isn't cleared: what isn't used isn't touched. */
static bool make_arrays(fx_choice *c, const fx_engine *e, int64_t longest)
{
    size_t cap = (size_t)longest;
    size_t pages = FX_DIV_UP(cap, (size_t)e->opt.page_tokens);
    size_t keys_bytes = pages * sizeof(fx_hash128), token_bytes = FX_ROUND_UP(cap * sizeof(int32_t), 16);
    char *p;

    c->block_bytes = keys_bytes + token_bytes + pages * (size_t)e->stepper.state->n_columns * sizeof(fx_page);
    c->block = p = fx_mem_alloc(e->mem, c->block_bytes);
    if (!p)
        return false;
    c->seq.keys = (fx_hash128 *)(void *)p;
    c->seq.tokens = (int32_t *)(void *)(p + keys_bytes);
    c->seq.pages = (fx_page *)(void *)(p + keys_bytes + token_bytes);
    c->seq.cap = (int32_t)longest;
    return true;
}

static fx_status make_choice(fx_request *r, int32_t i, const fx_request_grammar *grammar, fx_error *err)
{
    fx_choice *c = &r->choices[i];
    int32_t n_prompt = (int32_t)r->opt.n_ids;
    int64_t longest = n_prompt + r->max_new;

    c->req = r;
    c->index = i;
    if (!make_arrays(c, r->engine, longest))
        return fx_nomem(err, "the request");
    memcpy(c->seq.tokens, r->opt.ids, r->opt.n_ids * sizeof *r->opt.ids);
    c->seq.n_prompt = c->seq.n_tokens = n_prompt;
    c->seq.length_class = fx_state_length_class(r->engine->stepper.state, n_prompt);
    c->seq.priority = r->opt.priority;
    c->seq.choice = i;
    c->seq.wants_logits = r->max_new > 0;
    c->seq.adapter = r->adapter.adapter;
    c->seq.owner = c;
    FX_TRY(fx_sampler_init(&c->sampler, r->engine->mem, &r->params, r->engine->stepper.vocab, i, longest, err));
    fx_sampler_prompt(&c->sampler, r->opt.ids, r->params.repetition != 1.0f ? r->opt.n_ids : 0);
    if (grammar)
        FX_TRY(fx_matcher_new(&c->matcher, r->engine->mem, grammar->gram, grammar->vocab, err));
    FX_TRY(fx_stream_init(&c->stream, r->engine->mem, &r->arena, r->engine->tokenizer, &r->stops, err));
    c->stream.detok.skip_special = !r->opt.special_text;
    return FORNAX_OK;
}

static void drop_adapter(const fx_request_adapter *a)
{
    if (a->drop)
        a->drop(a->user);
}

static void free_request(fx_request *r)
{
    fx_engine *e = r->engine;

    for (int32_t i = 0; r->choices && i < r->n; i++) {
        fx_choice *c = &r->choices[i];

        fx_mem_free(e->mem, c->block, c->block_bytes);
        if (c->sampler.mem)
            fx_sampler_done(&c->sampler);
        fx_stream_done(&c->stream);
        fx_matcher_free(c->matcher);
    }
    if (!r->joined)
        fx_kv_scope_free(r->scope);
    drop_adapter(&r->adapter);
    fx_events_done(&r->events);
    pthread_cond_destroy(&r->callback_over);
    fx_arena_done(&r->arena);
    fx_mem_free(e->mem, r, sizeof *r);
    fx_engine_unref(e);
}

void fx_request_unref(fx_request *r)
{
    if (atomic_fetch_sub(&r->refs, 1) == 1)
        free_request(r);
}

static fx_status make_request(fx_request **out, fx_engine *e, const fornax_request_options *o,
                              const fx_request_adapter *adapter, const fx_request_grammar *grammar, fx_error *err)
{
    fx_request *r = fx_mem_zalloc(e->mem, sizeof *r);
    int64_t room = e->context - (int64_t)o->n_ids;
    fx_status st;

    *out = NULL;
    if (!r) {
        drop_adapter(adapter);
        return fx_nomem(err, "the request");
    }
    r->engine = e;
    r->adapter = *adapter;
    atomic_fetch_add(&e->refs, 1);
    atomic_store(&r->refs, 1);
    fx_arena_init(&r->arena, e->mem, 0);
    pthread_cond_init(&r->callback_over, NULL);
    st = fx_events_init(&r->events, e->mem, o->on_event == NULL, err);
    if (st == FORNAX_OK)
        st = copy_options(r, o, err);
    if (st == FORNAX_OK) {
        r->max_new = o->max_tokens < 0 ? 0 : o->max_tokens == 0 ? room : FX_MIN(o->max_tokens, room);
        r->choices = FX_ARENA_NEWN(&r->arena, fx_choice, (size_t)r->opt.n);
        r->n = r->n_open = r->choices ? r->opt.n : 0;
        if (!r->choices)
            st = fx_nomem(err, "the request");
    }
    for (int32_t i = 0; i < r->n && st == FORNAX_OK; i++)
        st = make_choice(r, i, grammar, err);
    if (st != FORNAX_OK) {
        free_request(r);
        return st;
    }
    *out = r;
    return FORNAX_OK;
}

/* ---- Submit ------------------------------------------------------------------------------------------ */

/* How soon a place may be free, from how often requests end. */
static uint32_t retry_after(const fx_engine *e)
{
    double ms = e->done_interval_ms > 0 ? e->done_interval_ms : 1000;

    return (uint32_t)FX_MIN(FX_MAX(ms, 50.0), 30000.0);
}

static fx_status take_place(fx_engine *e, fx_error *err)
{
    fx_status st = FORNAX_OK;
    uint32_t retry = 0;

    pthread_mutex_lock(&e->lock);
    if (e->closing) {
        st = FORNAX_ECANCEL;
    } else if (e->n_queued >= e->opt.queue_limit) {
        e->stats.requests_rejected++;
        retry = retry_after(e);
        st = FORNAX_EBUSY;
    } else {
        e->n_queued++;
    }
    pthread_mutex_unlock(&e->lock);
    if (st == FORNAX_OK)
        return st;
    if (st == FORNAX_ECANCEL)
        return fx_fail(err, st, "the engine is being closed");
    fx_fail(err, st, "the queue is full: %d requests wait", e->opt.queue_limit);
    if (err)
        err->retry_after_ms = retry;
    return st;
}

static void enqueue(fx_engine *e, fx_request *r)
{
    pthread_mutex_lock(&e->lock);
    e->stats.requests_total++;
    r->queued = true;
    for (int32_t i = 0; i < r->n; i++)
        r->choices[i].seq.arrival = e->arrivals;
    r->params.seed = r->opt.has_seed ? r->opt.seed : draw_seed(e, e->arrivals);
    e->arrivals++;
    atomic_fetch_add(&r->refs, 1);
    *e->inbox_end = r;
    e->inbox_end = &r->next;
    fx_engine_notify(e);
    pthread_mutex_unlock(&e->lock);
}

static fx_status check_request(fx_engine *e, const fornax_request_options *opt, fx_error *err)
{
    FX_TRY(fx_engine_usable(e, err));
    FX_TRY(check_numbers(e, opt, err));
    FX_TRY(check_length(e, opt, err));       /* before anybody walks so many ids */
    FX_TRY(check_lists(e, opt, err));
    return take_place(e, err);
}

fx_status fx_request_submit_with(fx_request **out, fx_engine *e, const fornax_request_options *opt,
                                 const fx_request_adapter *adapter, const fx_request_grammar *grammar, fx_error *err)
{
    static const fx_request_adapter none = { 0 };
    uint64_t now = fx_clock_ns();
    fx_status st = check_request(e, opt, err);

    *out = NULL;
    adapter = adapter ? adapter : &none;
    if (st != FORNAX_OK) {
        drop_adapter(adapter);
        return st;
    }
    st = make_request(out, e, opt, adapter, grammar, err);
    if (st != FORNAX_OK) {
        pthread_mutex_lock(&e->lock);
        e->n_queued--;
        pthread_mutex_unlock(&e->lock);
        return st;
    }
    (*out)->submitted_ns = now;
    enqueue(e, *out);
    return FORNAX_OK;
}

fx_status fx_request_submit(fx_request **out, fx_engine *e, const fornax_request_options *opt, fx_error *err)
{
    return fx_request_submit_with(out, e, opt, NULL, NULL, err);
}

/* ---- Afterwards ----------------------------------------------------------------------------------------- */

fx_status fx_request_next(fx_request *r, const fornax_event **event, int timeout_ms, fx_error *err)
{
    *event = NULL;
    FX_TRY(fx_engine_usable(r->engine, err));
    if (r->opt.on_event)
        return fx_fail(err, FORNAX_EARG, "the request's events go to its callback");
    return fx_events_next(&r->events, event, timeout_ms, err);
}

int fx_request_fd(fx_request *r)
{
    if (r->opt.on_event || fx_engine_usable(r->engine, NULL) != FORNAX_OK)
        return -1;
    return fx_events_fd(&r->events);
}

uint64_t fx_request_seed(const fx_request *r)
{
    return r->params.seed;
}

void fx_request_cancel(fx_request *r)
{
    if (fx_engine_usable(r->engine, NULL) == FORNAX_OK)
        atomic_store(&r->cancel, true);
}

/* When this returns, the callback isn't running and won't be called again (unless it is the
 * callback that closes). */
void fx_request_close(fx_request *r)
{
    if (!r)
        return;
    if (fx_engine_usable(r->engine, NULL) == FORNAX_OK) {
        atomic_store(&r->cancel, true);
        pthread_mutex_lock(&r->events.lock);
        r->closed = true;
        while (r->in_callback && !pthread_equal(r->callback_thread, pthread_self()))
            pthread_cond_wait(&r->callback_over, &r->events.lock);
        pthread_mutex_unlock(&r->events.lock);
    }
    fx_request_unref(r);
}
