/* engine.c - see engine.h: options, open and close, the thread, stats. */
#include "engine/engine.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpmode.h"
#include "base/text.h"
#include "base/thread.h"
#include "engine/engine_int.h"
#include "engine/memory.h"

#define MAX_SCRATCH 16             /* rows sampled at the same time at most */
#define IDLE_MS 20                 /* without work, before there is time for that: */
#define TOUCH_BYTES ((size_t)32 << 20)     /* of pages that are got ready for what comes next */

/* ---- Options ------------------------------------------------------------------------------ */

static fx_status bad_option(fx_error *err, const char *name, const char *expected, int64_t found)
{
    return fx_fail_param(err, FORNAX_EARG, name, "%s: expected %s, found %lld", name, expected, (long long)found);
}

static fx_status check_options(const fornax_engine_options *o, fx_error *err)
{
    const struct {
        const char *name;
        int64_t value, most;
    } rows[] = {
        { "manual", o->manual, 1 },
        { "max_batch", o->max_batch, 1 << 16 },
        { "step_tokens", o->step_tokens, 1 << 24 },
        { "prefill_chunk", o->prefill_chunk, INT32_MAX },
        { "queue_limit", o->queue_limit, INT32_MAX },
        { "kv_bytes", o->kv_bytes, INT64_MAX },
        { "page_tokens", o->page_tokens, INT32_MAX },
        { "no_prefix_cache", o->no_prefix_cache, 1 },
        { "snapshot_bytes", o->snapshot_bytes, INT64_MAX },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (rows[i].value < 0 || rows[i].value > rows[i].most)
            return fx_fail_param(err, FORNAX_EARG, rows[i].name, "%s: expected 0 to %lld, found %lld", rows[i].name,
                                 (long long)rows[i].most, (long long)rows[i].value);
    return FORNAX_OK;
}

/* Of the pages for some tokens, of all columns. */
static int64_t all_columns_bytes(const fx_state_table *state)
{
    return (int64_t)state->page_bytes * state->n_columns;
}

/* Enough for the whole context, at least SOME tokens, at most a quarter of memory. Of layers that keep a window beside
 * others that keep all: for SOME tokens, or two windows and a step if that is more. */
static int64_t default_kv_bytes(const fx_state_table *state, const fornax_engine_options *o, int64_t max_context)
{
    enum { SOME = 4 * 4096 };
    int64_t quarter = (int64_t)(fx_memory_bytes(&fx_mem_libc, "") / 4), page = (int64_t)state->page_bytes, pages = 0;

    for (int g = 0; g < state->n_groups; g++) {
        int64_t tokens = FX_MAX(max_context, SOME);

        if (g > 0)
            tokens = FX_MIN(tokens, FX_MAX(SOME, 2 * (int64_t)state->groups[g].window + o->step_tokens));
        pages += state->groups[g].n * FX_DIV_UP(tokens, state->page_tokens);
    }
    return FX_MAX(FX_MIN(pages, quarter / page), state->n_columns) * page;
}

static int64_t default_snapshot_bytes(const fx_state_table *state)
{
    int64_t eighth = (int64_t)(fx_memory_bytes(&fx_mem_libc, "") / 8);

    return FX_MIN(FX_MAX(256 * (int64_t)state->slot_bytes, (int64_t)64 << 20), eighth);
}

fx_status fx_engine_resolve(fornax_engine_options *out, const fornax_engine_options *given,
                            const fx_state_table *state, int64_t max_context, fx_error *err)
{
    fornax_engine_options o = { .size = sizeof o };
    uint64_t memory = fx_memory_bytes(&fx_mem_libc, "");

    if (given)
        o = *given;
    FX_TRY(check_options(&o, err));
    if (max_context < 1 || max_context > INT32_MAX)
        return bad_option(err, "max_context", "1 to 2147483647", max_context);
    if (state->page_tokens < 1 || state->page_bytes < 1 || state->n_columns < 1)
        return fx_fail(err, FORNAX_EINTERNAL, "the model's pages have %d tokens and %zu bytes",
                       (int)state->page_tokens, state->page_bytes);
    o.step_tokens = o.step_tokens ? o.step_tokens : FX_MAX(512, o.max_batch);
    o.max_batch = o.max_batch ? o.max_batch : FX_MIN(64, o.step_tokens);
    o.prefill_chunk = FX_MIN(o.prefill_chunk ? o.prefill_chunk : o.step_tokens, o.step_tokens);
    o.queue_limit = o.queue_limit ? o.queue_limit : 256;
    o.page_tokens = o.page_tokens ? o.page_tokens : state->page_tokens;
    o.kv_bytes = o.kv_bytes ? o.kv_bytes : default_kv_bytes(state, &o, max_context);
    o.snapshot_bytes = o.snapshot_bytes ? o.snapshot_bytes : default_snapshot_bytes(state);
    if (o.max_batch > o.step_tokens)
        return bad_option(err, "max_batch", "at most step_tokens, one row for each sequence", o.max_batch);
    if (o.page_tokens != state->page_tokens)
        return fx_fail_param(err, FORNAX_EUNSUP, "page_tokens",
                             "page_tokens: the model was compiled for pages of %d tokens, not %d",
                             (int)state->page_tokens, o.page_tokens);
    if ((uint64_t)o.kv_bytes > memory)
        return fx_fail_param(err, FORNAX_ENOMEM, "kv_bytes", "kv_bytes: %lld is more than the memory of this process, "
                             "%llu bytes", (long long)o.kv_bytes, (unsigned long long)memory);
    if (o.kv_bytes < all_columns_bytes(state))
        return fx_fail_param(err, FORNAX_EARG, "kv_bytes", "kv_bytes: %lld is less than pages for %d tokens (%lld bytes)",
                             (long long)o.kv_bytes, (int)state->page_tokens, (long long)all_columns_bytes(state));
    *out = o;
    return FORNAX_OK;
}

/* ---- Open ------------------------------------------------------------------------------------ */

static bool can_come(const fx_engine_config *c, int32_t id) { return id >= 0 && id < c->stepper.vocab; }

/* End tokens that the model can't make, as small copies of large models have them, are left out. */
static fx_status copy_config(fx_engine *e, const fx_engine_config *c, fx_error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < c->n_eos; i++)
        n += can_come(c, c->eos[i]);
    e->eos = fx_mem_array(e->mem, n + 1, sizeof *e->eos);
    if (!e->eos)
        return fx_nomem(err, "the engine");
    for (size_t i = 0; i < c->n_eos; i++)
        if (can_come(c, c->eos[i]))
            e->eos[e->n_eos++] = c->eos[i];
    return FORNAX_OK;
}

static fx_status make_buffers(fx_engine *e, fx_error *err)
{
    int32_t threads = fx_pool_threads(e->pool), batch = e->opt.max_batch;

    e->n_scratch = FX_MIN(FX_MIN(threads, batch), MAX_SCRATCH);
    e->scratch = fx_mem_array(e->mem, (size_t)e->n_scratch, sizeof *e->scratch);
    e->jobs = fx_mem_array(e->mem, (size_t)batch, sizeof *e->jobs);
    if (!e->scratch || !e->jobs)
        return fx_nomem(err, "the engine");
    FX_TRY(fx_forced_init(&e->forced, e->mem, err));
    for (int32_t i = 0; i < e->n_scratch; i++)
        FX_TRY(fx_sample_scratch_init(&e->scratch[i], e->mem, e->stepper.vocab, err));
    return FORNAX_OK;
}

/* As many as the budget holds; one a page is enough. */
static uint32_t count_snapshots(const fx_engine *e, const fx_state_table *state, uint64_t pages)
{
    return e->opt.no_prefix_cache ? 0 : (uint32_t)FX_MIN((uint64_t)e->opt.snapshot_bytes / state->slot_bytes, pages);
}

static fx_status make_cache(fx_engine *e, const fx_engine_config *c, fx_error *err)
{
    const fx_state_table *state = c->stepper.state;
    uint64_t pages = (uint64_t)e->opt.kv_bytes / state->page_bytes;
    fx_sched_limits limits = {
        .max_batch = e->opt.max_batch, .step_tokens = e->opt.step_tokens, .prefill_chunk = e->opt.prefill_chunk,
        .share = !e->opt.no_prefix_cache,
    };

    pages = FX_MIN(pages, UINT32_MAX / 4);           /* fx_kv_open's limit */
    FX_TRY(fx_kv_open(&e->kv, e->mem, state, (uint32_t)pages, c->identity, err));
    if (state->slot_bytes > 0)
        FX_TRY(fx_kv_add_slots(e->kv, (uint32_t)e->opt.max_batch, count_snapshots(e, state, pages), err));
    e->now.pages_total = pages;
    e->now.page_tokens = (uint64_t)state->page_tokens;
    e->now.page_bytes = state->page_bytes;
    FX_TRY(fx_sched_init(&e->sched, e->mem, e->kv, &limits, err));
    e->context = fx_sched_longest(&e->sched, c->max_context);
    return FORNAX_OK;
}

/* What close frees; the rest goes with the last reference. */
static void free_parts(fx_engine *e)
{
    fx_sched_done(&e->sched);
    fx_kv_close(e->kv);
    e->kv = NULL;
    fx_forced_done(&e->forced);
    for (int32_t i = 0; e->scratch && i < e->n_scratch; i++)
        fx_sample_scratch_done(&e->scratch[i]);
    fx_mem_free(e->mem, e->scratch, (size_t)e->n_scratch * sizeof *e->scratch);
    fx_mem_free(e->mem, e->jobs, (size_t)e->opt.max_batch * sizeof *e->jobs);
    e->scratch = NULL;
    e->jobs = NULL;
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
}

void fx_engine_unref(fx_engine *e)
{
    const fx_mem *mem = e->mem;

    if (atomic_fetch_sub(&e->refs, 1) != 1)
        return;
    fx_mem_free(mem, e->eos, (e->n_eos + 1) * sizeof *e->eos);
    pthread_cond_destroy(&e->step_over);
    pthread_cond_destroy(&e->wake);
    pthread_mutex_destroy(&e->lock);
    fx_mem_free(mem, e, sizeof *e);
}

static void find_entropy(uint64_t out[2])
{
    if (getrandom(out, 2 * sizeof *out, GRND_NONBLOCK) == 2 * (ssize_t)sizeof *out)
        return;
    out[0] = fx_clock_ns() ^ (uint64_t)getpid() << 32;
    out[1] = (uint64_t)fx_clock_unix() ^ (uint64_t)(uintptr_t)out;
}

/* ---- The thread -------------------------------------------------------------------------------- */

static bool has_work(const fx_engine *e)
{
    return e->inbox || e->busy;
}

/* lock is held. */
static void set_readable(fx_engine *e, bool on)
{
    uint64_t one = 1;
    ssize_t done;

    if (e->fd < 0)
        return;
    do
        done = on ? write(e->fd, &one, sizeof one) : read(e->fd, &one, sizeof one);
    while (done < 0 && errno == EINTR);
}

void fx_engine_notify(fx_engine *e)
{
    set_readable(e, true);
    pthread_cond_signal(&e->wake);
}

/* No step runs. */
static void forget_locked(fx_engine *e)
{
    fx_kv_forget(e->kv);
    e->stats.pages_cached = e->now.pages_cached = 0;
    e->drop = false;
}

/* lock is held, and again afterwards. */
static bool step_locked(fx_engine *e)
{
    bool did;

    e->stepping = true;
    pthread_mutex_unlock(&e->lock);
    did = fx_step_run(e);
    pthread_mutex_lock(&e->lock);
    e->stepping = false;
    if (e->drop)
        forget_locked(e);
    if (!has_work(e))
        set_readable(e, false);
    pthread_cond_broadcast(&e->step_over);
    return did;
}

/* Waits for work. When none came for a while, there is time to get memory for the next pages, which a step would else
 * wait for: a host may take milliseconds for each huge page. */
static void idle_locked(fx_engine *e)
{
    struct timespec until;

    if (e->pages_ready) {
        pthread_cond_wait(&e->wake, &e->lock);
        return;
    }
    until = fx_thread_in(IDLE_MS);
    if (pthread_cond_timedwait(&e->wake, &e->lock, &until) == ETIMEDOUT && !has_work(e) && !e->closing)
        e->pages_ready = !fx_kv_touch(e->kv, TOUCH_BYTES);
}

static void *run_thread(void *user)
{
    fx_engine *e = user;

    fx_fpmode_enter();
    pthread_mutex_lock(&e->lock);
    while (!e->closing) {
        if (has_work(e)) {
            e->pages_ready = false;
            step_locked(e);
        } else {
            idle_locked(e);
        }
    }
    e->stepping = true;
    pthread_mutex_unlock(&e->lock);
    fx_step_end_all(e);
    return NULL;
}

static fx_status start_thread(fx_engine *e, fx_error *err)
{
    char why[128];
    int rc = fx_thread_start(&e->thread, run_thread, e);

    if (rc != 0)
        return fx_fail(err, FORNAX_ENOMEM, "the system has no thread for the engine: %s",
                       fx_errno_text(rc, why, sizeof why));
    e->has_thread = true;
    return FORNAX_OK;
}

static fx_status start(fx_engine *e, fx_error *err)
{
    char why[128];

    if (!e->opt.manual)
        return start_thread(e, err);
    e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->fd < 0)
        return fx_fail(err, FORNAX_EIO, "eventfd: %s", fx_errno_text(errno, why, sizeof why));
    return FORNAX_OK;
}

fx_status fx_engine_open(fx_engine **out, const fx_engine_config *c, fx_error *err)
{
    fx_engine *e;
    fx_status st;

    *out = NULL;
    e = fx_mem_zalloc(c->mem, sizeof *e);
    if (!e)
        return fx_nomem(err, "the engine");
    e->mem = c->mem;
    e->log = c->log;
    e->pool = c->pool;
    e->stepper = c->stepper;
    e->tokenizer = c->tokenizer;
    e->opt = *c->options;
    e->fd = -1;
    e->pid = getpid();
    e->inbox_end = &e->inbox;
    atomic_store(&e->refs, 1);
    find_entropy(e->entropy);
    pthread_mutex_init(&e->lock, NULL);
    fx_thread_cond_init(&e->wake);
    pthread_cond_init(&e->step_over, NULL);
    st = copy_config(e, c, err);
    if (st == FORNAX_OK)
        st = make_cache(e, c, err);
    if (st == FORNAX_OK)
        st = make_buffers(e, err);
    e->stats = e->now;
    if (st == FORNAX_OK)
        st = start(e, err);
    if (st != FORNAX_OK) {
        free_parts(e);
        fx_engine_unref(e);
        return st;
    }
    *out = e;
    return FORNAX_OK;
}

/* ---- Close, and the calls from outside ------------------------------------------------------------- */

static void stop(fx_engine *e)
{
    fx_fpmode old = fx_fpmode_enter();

    pthread_mutex_lock(&e->lock);
    e->closing = true;
    pthread_cond_broadcast(&e->wake);
    if (!e->has_thread) {
        while (e->stepping)
            pthread_cond_wait(&e->step_over, &e->lock);
        e->stepping = true;
    }
    pthread_mutex_unlock(&e->lock);
    if (e->has_thread)
        pthread_join(e->thread, NULL);
    else
        fx_step_end_all(e);
    fx_fpmode_leave(old);
}

void fx_engine_close(fx_engine *e)
{
    if (!e)
        return;
    if (fx_engine_usable(e, NULL) == FORNAX_OK)
        stop(e);
    free_parts(e);
    fx_engine_unref(e);
}

fx_status fx_engine_step(fx_engine *e, int *did, fx_error *err)
{
    fx_fpmode old;
    bool busy;

    *did = 0;
    FX_TRY(fx_engine_usable(e, err));
    if (!e->opt.manual)
        return fx_fail(err, FORNAX_EARG, "the engine has a thread of its own; open it with manual to step it");
    pthread_mutex_lock(&e->lock);
    busy = e->stepping || e->closing;
    if (!busy) {
        old = fx_fpmode_enter();
        *did = has_work(e) && step_locked(e);
        fx_fpmode_leave(old);
    }
    pthread_mutex_unlock(&e->lock);
    if (busy)
        return fx_fail(err, FORNAX_EARG, "a step of this engine is in progress");
    return FORNAX_OK;
}

int fx_engine_fd(const fx_engine *e)
{
    return e->fd;
}

int64_t fx_engine_context(const fx_engine *e)
{
    return e->context;
}

void fx_engine_get_stats(fx_engine *e, fornax_engine_stats *stats)
{
    size_t size = stats->size;

    if (fx_engine_usable(e, NULL) != FORNAX_OK) {
        *stats = (fornax_engine_stats){ .size = size };
        return;
    }
    pthread_mutex_lock(&e->lock);
    *stats = e->stats;
    stats->waiting = (uint64_t)e->n_queued;
    stats->context_tokens = (uint64_t)e->context;
    pthread_mutex_unlock(&e->lock);
    stats->size = size;
}

void fx_engine_drop_cache(fx_engine *e)
{
    if (fx_engine_usable(e, NULL) != FORNAX_OK)
        return;
    pthread_mutex_lock(&e->lock);
    if (e->stepping)
        e->drop = true;
    else
        forget_locked(e);
    pthread_mutex_unlock(&e->lock);
}
