/* step.c - one step of the engine.
 *
 *     take in     requests from the inbox become waiting sequences
 *     give up     cancelled requests and those past their deadline end
 *     plan, run   a batch goes through the model
 *     sample      hooks in turn, then all rows in parallel, masked by their grammars; each by
 *                 itself, so the result doesn't depend on the batch
 *     emit        in batch order: tokens become text and events, those that a grammar forces follow at
 *                 once, finished choices leave
 *
 * Requests that ended are let go of at the end of the step only: a callback may close its
 * request while the step still looks at its other choices. */
#include <stdarg.h>
#include "base/clock.h"
#include "base/text.h"
#include "engine/engine_int.h"

/* ---- Events out ------------------------------------------------------------------------- */

static void call_back(fx_request *r, const fornax_event *ev)
{
    bool stop;

    pthread_mutex_lock(&r->events.lock);
    if (r->closed) {
        pthread_mutex_unlock(&r->events.lock);
        return;
    }
    r->in_callback = true;
    r->callback_thread = pthread_self();
    pthread_mutex_unlock(&r->events.lock);
    stop = r->opt.on_event(r->opt.event_user, ev) != 0;
    if (stop)
        atomic_store(&r->cancel, true);
    pthread_mutex_lock(&r->events.lock);
    r->in_callback = false;
    pthread_cond_broadcast(&r->callback_over);
    pthread_mutex_unlock(&r->events.lock);
}

/* False: no memory for it. */
static bool deliver(fx_request *r, const fornax_event *ev)
{
    if (!r->opt.on_event)
        return fx_events_push(&r->events, ev);
    call_back(r, ev);
    return true;
}

static fornax_event event_of(const fx_choice *c, fornax_event_kind kind)
{
    const fx_request *r = c->req;

    return (fornax_event){
        .kind = kind,
        .choice = c->index,
        .token = -1,
        .text = c->stream.out.p ? c->stream.out.p : "",
        .text_n = c->stream.out.n,
        .stop_string = c->stream.stop >= 0 ? r->stops.at[c->stream.stop].text.p : NULL,
        .prompt_tokens = (int64_t)r->opt.n_ids,
        .cached_tokens = r->choices[0].seq.n_cached,
        .generated_tokens = c->sampler.n_generated,
    };
}

/* ---- Ends --------------------------------------------------------------------------------- */

static bool may_stop(const fx_choice *c)
{
    return c->sampler.n_generated >= c->req->opt.min_tokens;
}

/* The choice's last event. 'token': the end token, or -1. Doesn't end the request. */
static void finish_choice(fx_engine *e, fx_choice *c, fornax_finish finish, int32_t token)
{
    fornax_event ev;

    fx_sched_remove(&e->sched, &c->seq);
    if (!fx_stream_finish(&c->stream, may_stop(c)))
        fx_buf_clear(&c->stream.out);         /* the text is lost for want of memory */
    if (finish == FORNAX_FINISH_LENGTH && c->stream.stop >= 0)
        finish = FORNAX_FINISH_STOP;
    c->finish = finish;
    c->req->n_open--;
    ev = event_of(c, FORNAX_EVENT_FINISH);
    ev.finish = finish;
    ev.token = token;
    if (finish == FORNAX_FINISH_ERROR || finish == FORNAX_FINISH_CANCEL)
        ev.stop_string = NULL;
    deliver(c->req, &ev);                     /* if there is no memory, DONE says all */
}

/* Under the engine's lock: what others see of the counts is as of now. */
static void show_counts(fx_engine *e)
{
    e->now.requests_total = e->stats.requests_total;
    e->now.requests_rejected = e->stats.requests_rejected;
    e->stats = e->now;
}

/* Before the last event: who has it finds the request among those that ended. */
static void count_end(fx_engine *e, fx_status status)
{
    if (status == FORNAX_OK)
        e->now.requests_done++;
    else if (status == FORNAX_ECANCEL)
        e->now.requests_cancelled++;
    else
        e->now.requests_failed++;
    pthread_mutex_lock(&e->lock);
    show_counts(e);
    pthread_mutex_unlock(&e->lock);
}

/* Ends what is open, sends DONE, takes the request off the live list. */
static void end_request(fx_engine *e, fx_request *r, fx_status status, const char *error)
{
    fornax_finish why = status == FORNAX_OK ? FORNAX_FINISH_STOP
                        : status == FORNAX_ECANCEL ? FORNAX_FINISH_CANCEL : FORNAX_FINISH_ERROR;
    fornax_event ev;

    if (r->ended)
        return;
    r->ended = true;
    for (int32_t i = 0; i < r->n; i++)
        if (r->choices[i].finish == FORNAX_FINISH_NONE)
            finish_choice(e, &r->choices[i], why, -1);
    ev = event_of(&r->choices[0], FORNAX_EVENT_DONE);
    ev.choice = 0;
    ev.text = "";
    ev.text_n = 0;
    ev.stop_string = NULL;
    ev.finish = status == FORNAX_OK ? r->choices[0].finish : why;
    ev.status = status;
    ev.error = error;
    ev.generated_tokens = 0;
    for (int32_t i = 0; i < r->n; i++)
        ev.generated_tokens += r->choices[i].sampler.n_generated;
    count_end(e, status);
    if (r->prev)
        r->prev->next = r->next;
    else
        e->live = r->next;
    if (r->next)
        r->next->prev = r->prev;
    r->prev = NULL;
    r->next = e->ended;
    e->ended = r;
    if (r->opt.on_event)
        call_back(r, &ev);
    else
        fx_events_push_last(&r->events, &ev);
}

static void fail_request(fx_engine *e, fx_request *r, fx_status status, const char *fmt, ...) FX_PRINTF(4, 5);
static void fail_request(fx_engine *e, fx_request *r, fx_status status, const char *fmt, ...)
{
    char text[256];
    va_list ap;

    va_start(ap, fmt);
    fx_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    end_request(e, r, status, text);
}

static void cancel_request(fx_engine *e, fx_request *r)
{
    end_request(e, r, FORNAX_ECANCEL, "the request was cancelled");
}

/* ---- In ---------------------------------------------------------------------------------------- */

static void take_in(fx_engine *e)
{
    fx_request *r, *next;

    pthread_mutex_lock(&e->lock);
    r = e->inbox;
    e->inbox = NULL;
    e->inbox_end = &e->inbox;
    pthread_mutex_unlock(&e->lock);
    for (; r; r = next) {
        next = r->next;
        r->prev = NULL;
        r->next = e->live;
        if (r->next)
            r->next->prev = r;
        e->live = r;
        r->scope = fx_kv_scope_join(e->kv, r->scope);
        r->joined = true;
        for (int32_t i = 0; i < r->n; i++) {
            r->choices[i].seq.scope = r->scope;
            if (i == 0)
                fx_sched_add(&e->sched, &r->choices[0].seq);
            else if (r->max_new > 0)
                fx_sched_follow(&e->sched, &r->choices[i].seq, &r->choices[0].seq);
        }
    }
}

static void give_up(fx_engine *e)
{
    uint64_t now = fx_clock_ns();
    fx_request *next;

    for (fx_request *r = e->live; r; r = next) {
        next = r->next;
        if (atomic_load(&r->cancel))
            cancel_request(e, r);
        else if (r->opt.deadline_ms > 0 && (now - r->submitted_ns) / 1000000 >= (uint64_t)r->opt.deadline_ms)
            fail_request(e, r, FORNAX_ETIMEOUT, "the deadline of %lld ms passed", (long long)r->opt.deadline_ms);
    }
}

/* ---- Sampling ------------------------------------------------------------------------------------ */

static void sample_job(fx_sample_job *job, fx_sample_scratch *c)
{
    fx_choice *choice = job->choice;

    job->mask_err.status = FORNAX_OK;
    if (!choice->matcher || fx_matcher_mask(choice->matcher, c->mask, &job->mask_err) == FORNAX_OK)
        fx_sample(&choice->sampler, job->logits, choice->matcher ? c->mask : NULL, choice->seq.n_tokens, c, &job->out);
}

static void sample_some(void *user, int64_t t0, int64_t t1, int worker)
{
    fx_engine *e = user;

    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        for (int64_t j = t; j < e->n_jobs; j += e->n_scratch)
            sample_job(&e->jobs[j], &e->scratch[t]);
    }
}

static void sample(fx_engine *e)
{
    e->n_jobs = 0;
    for (int32_t i = 0; i < e->sched.n_items; i++) {
        fx_sched_item *item = &e->sched.items[i];
        fx_choice *c = item->seq->owner;
        fx_sample_job *job = &e->jobs[e->n_jobs];

        if (item->logit < 0)
            continue;
        e->n_jobs++;
        job->choice = c;
        job->logits = e->stepper.logits(e->stepper.user, item->logit);
        if (c->req->opt.logits_hook)
            c->req->opt.logits_hook(c->req->opt.logits_user, c->index, c->seq.tokens + c->seq.n_prompt,
                                    (size_t)c->sampler.n_generated, job->logits, e->stepper.vocab);
    }
    if (e->n_jobs == 1)
        sample_some(e, 0, 1, 0);
    else if (e->n_jobs > 1)
        fx_pool_run(e->pool, sample_some, e, FX_MIN(e->n_jobs, e->n_scratch), 1);
}

/* ---- Emitting --------------------------------------------------------------------------------------- */

/* The sampled token joins the sequence and goes out; FORNAX_FINISH_NONE: the choice goes on. */
static fornax_finish emit_token(fx_engine *e, fx_choice *c, const fx_sampled *s)
{
    fx_request *r = c->req;
    fornax_event ev;

    fx_sched_push(&e->sched, &c->seq, s->token);
    if (!fx_stream_push(&c->stream, s->token, may_stop(c)))
        return FORNAX_FINISH_ERROR;
    ev = event_of(c, FORNAX_EVENT_TOKEN);
    ev.token = s->token;
    ev.stop_string = NULL;
    if (r->opt.logprobs) {
        ev.logprob = s->logprob;
        ev.top = s->n_top > 0 ? s->top : NULL;
        ev.n_top = s->n_top;
    }
    if (!deliver(r, &ev))
        return FORNAX_FINISH_ERROR;
    if (c->stream.stop >= 0 || (c->matcher && fx_matcher_must_end(c->matcher)))
        return FORNAX_FINISH_STOP;
    return c->sampler.n_generated >= r->max_new ? FORNAX_FINISH_LENGTH : FORNAX_FINISH_NONE;
}

/* False: the request has failed. */
static bool sampled_well(fx_engine *e, fx_request *r, const fx_sample_job *job)
{
    int position = (int)job->choice->seq.n_tokens;

    if (job->mask_err.status != FORNAX_OK)
        fail_request(e, r, job->mask_err.status, "%s", job->mask_err.text);
    else if (job->out.status == FORNAX_EARG)
        fail_request(e, r, FORNAX_EARG, "every token is banned at position %d (grammar, logit bias, logits hook, end "
                     "tokens before min_tokens)", position);
    else if (job->out.status != FORNAX_OK)
        fail_request(e, r, job->out.status, "the logits at position %d are not numbers", position);
    return !r->ended;
}

/* False: the request has failed. */
static bool follow_grammar(fx_engine *e, fx_choice *c, int32_t token)
{
    fx_error err = { 0 };

    if (c->matcher && fx_matcher_accept(c->matcher, token, &err) != FORNAX_OK)
        fail_request(e, c->req, err.status, "%s", err.text);
    return !c->req->ended;
}

/* A token that was certain. The choice is done or its request has failed: not FORNAX_FINISH_NONE. */
static fornax_finish emit_forced(fx_engine *e, fx_choice *c, int32_t token)
{
    fx_sampled s = { .token = token, .n_top = c->req->opt.top_logprobs > 0, .top = { { token, 0 } } };

    if (!follow_grammar(e, c, token))
        return FORNAX_FINISH_ERROR;
    fx_sampler_accept(&c->sampler, &token, 1);
    e->now.generated_tokens++;
    return emit_token(e, c, &s);
}

/* What the grammar leaves no choice about comes at once. */
static fornax_finish emit_all_forced(fx_engine *e, fx_choice *c)
{
    fornax_finish finish = FORNAX_FINISH_NONE;
    fx_error err = { 0 };

    if (fx_forced_find(&e->forced, c, &err) != FORNAX_OK) {
        fail_request(e, c->req, err.status, "%s", err.text);
        return FORNAX_FINISH_ERROR;
    }
    for (size_t i = 0; i < e->forced.ids.n && finish == FORNAX_FINISH_NONE && !atomic_load(&c->req->cancel); i++)
        finish = emit_forced(e, c, e->forced.ids.at[i]);
    return finish;
}

static void emit(fx_engine *e, fx_sample_job *job)
{
    fx_choice *c = job->choice;
    fx_request *r = c->req;
    fornax_finish finish = FORNAX_FINISH_STOP;
    int32_t end = fx_request_ends_with(r, job->out.token) ? job->out.token : -1;

    if (r->ended || !sampled_well(e, r, job) || (end < 0 && !follow_grammar(e, c, job->out.token)))
        return;
    fx_sampler_accept(&c->sampler, &job->out.token, 1);
    e->now.generated_tokens++;
    if (end < 0)
        finish = emit_token(e, c, &job->out);
    if (finish == FORNAX_FINISH_NONE)
        finish = emit_all_forced(e, c);
    if (r->ended)
        return;
    if (finish == FORNAX_FINISH_ERROR)
        fail_request(e, r, FORNAX_ENOMEM, "no memory for the request's events");
    else if (finish != FORNAX_FINISH_NONE)
        finish_choice(e, c, finish, end);
    if (atomic_load(&r->cancel) && r->n_open > 0)
        cancel_request(e, r);
    else if (r->n_open == 0)
        end_request(e, r, FORNAX_OK, NULL);
}

/* The prompt of each request is counted once, when it is computed. */
static void count_prompt(fx_engine *e, fx_request *r)
{
    if (r->counted)
        return;
    r->counted = true;
    e->now.prompt_tokens += r->opt.n_ids;
    e->now.cached_tokens += (uint64_t)r->choices[0].seq.n_cached;
}

static void emit_all(fx_engine *e)
{
    for (int32_t i = 0; i < e->sched.n_items; i++) {
        fx_sched_item *item = &e->sched.items[i];
        fx_request *r = ((fx_choice *)item->seq->owner)->req;

        if (item->seq->n_computed < item->seq->n_tokens)
            continue;
        count_prompt(e, r);
        if (r->max_new > 0)
            continue;
        for (int32_t c = 0; c < r->n; c++)       /* only the prompt was wanted */
            finish_choice(e, &r->choices[c], FORNAX_FINISH_LENGTH, -1);
        end_request(e, r, FORNAX_OK, NULL);
    }
    for (int32_t j = 0; j < e->n_jobs; j++)
        emit(e, &e->jobs[j]);
}

/* ---- The step ------------------------------------------------------------------------------------------ */

/* Requests that got a place no longer count as queued. */
static int64_t count_admitted(fx_engine *e)
{
    int64_t n = 0;

    for (int32_t i = 0; i < e->sched.n_running; i++) {
        fx_request *r = ((fx_choice *)e->sched.running[i]->owner)->req;

        n += r->queued;
        r->queued = false;
    }
    return n;
}

/* Smoothed time between two ends: how soon a place in a full queue is to be expected. */
static void note_end(fx_engine *e)
{
    uint64_t now = fx_clock_ns();

    if (e->last_done_ns) {
        double ms = (double)(now - e->last_done_ns) / 1e6;

        e->done_interval_ms = e->done_interval_ms > 0 ? 0.8 * e->done_interval_ms + 0.2 * ms : ms;
    }
    e->last_done_ns = now;
}

/* How far the prompts in the batch have come. */
static void count_prefill(fx_engine *e)
{
    e->now.prefill_tokens = e->now.prefill_done = 0;
    for (int32_t i = 0; i < e->sched.n_running; i++) {
        const fx_seq *s = e->sched.running[i];

        if (s->n_computed >= s->n_prompt)
            continue;
        e->now.prefill_tokens += (uint64_t)s->n_prompt;
        e->now.prefill_done += (uint64_t)s->n_computed;
    }
}

static void publish(fx_engine *e, int64_t admitted)
{
    fx_kv_counts pages = fx_kv_count(e->kv);
    fx_request *ended = e->ended;

    e->ended = NULL;
    e->now.running = (uint64_t)(e->sched.n_running + e->sched.n_following);
    e->now.preemptions = e->sched.preemptions;
    count_prefill(e);
    e->now.pages_total = pages.total;
    e->now.pages_used = pages.used;
    e->now.pages_cached = pages.cached;
    pthread_mutex_lock(&e->lock);
    for (fx_request *r = ended; r; r = r->next) {
        admitted += r->queued;
        r->queued = false;
        note_end(e);
    }
    e->n_queued -= admitted;
    e->now.waiting = (uint64_t)e->n_queued;
    show_counts(e);
    e->busy = e->live != NULL;
    pthread_mutex_unlock(&e->lock);
    while (ended) {
        fx_request *next = ended->next;

        fx_kv_scope_leave(e->kv, ended->scope);
        ended->scope = NULL;
        fx_request_unref(ended);
        ended = next;
    }
}

/* Never happens; if it does, nobody waits for ever. */
static void give_up_stuck(fx_engine *e)
{
    fx_log_print(e->log, FX_LOG_ERROR, "engine: requests wait, but nothing can run");
    while (e->live)
        fail_request(e, e->live, FORNAX_EINTERNAL, "the scheduler found nothing to run");
}

bool fx_step_run(fx_engine *e)
{
    const fx_step *step;
    uint64_t start = fx_clock_ns();
    int64_t admitted;
    bool did;

    take_in(e);
    did = e->live != NULL;
    give_up(e);
    step = e->live ? fx_sched_plan(&e->sched) : NULL;
    admitted = count_admitted(e);
    if (step) {
        e->stepper.run(e->stepper.user, step);
        fx_sched_commit(&e->sched);
        sample(e);
        emit_all(e);
        e->now.steps++;
        e->now.step_ns_total += fx_clock_ns() - start;
    } else if (e->live) {
        give_up_stuck(e);
    }
    publish(e, admitted);
    return did;
}

void fx_step_end_all(fx_engine *e)
{
    take_in(e);
    while (e->live)
        end_request(e, e->live, FORNAX_ECANCEL, "the engine was closed");
    publish(e, 0);
}
