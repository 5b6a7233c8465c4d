/* pool.c - launches published by a word for each thread, and taken from by compare-and-swap.
 *
 * A launch's tasks are cut into as many equal ranges as there are threads, one for each: what lies side by
 * side in successive launches (a sequence's rows, its keys) is met by the same core again.  The whole
 * state of a range is one 64-bit word:
 *
 *     ticket = [ generation : 32 | next task not yet taken : 32 ]
 *
 * A thread takes tasks t..t+piece by swapping the word from (g, t) to (g, t+piece); a piece
 * is half of what is left of the range, but not below the grain.  Its own range first, then
 * those of the others, so that all threads end together.
 * If that succeeds, the fields of the launch (fn, user, ...) that it read just
 * before belong to generation g: before they change, all words become CLOSED,
 * and they do so only when launch g is complete. So a worker that comes late, or
 * was descheduled anywhere, is harmless: its swap fails. No launch waits for a
 * worker that took nothing, which matters where other processes want the cores.
 *
 * 'done' counts finished tasks; the caller computes too, then waits for done == n.
 *
 * Waiting is always: spin with pauses for SPIN_NS, then park. Parking and waking
 * follow one pattern on both sides (all sequentially consistent):
 *
 *     sleeper: announce itself, look again, park      waker: change, look for sleepers
 *
 * so one of the two sees the other. Workers park on 'work', the caller on 'idle'.
 *
 * Callers take turns by tickets. A caller that runs a list gives its turn away
 * between two launches if others wait and its slice is over. A launch from inside
 * a task (known by a thread-local mark) runs inline: the pool never waits for itself.
 *
 * After fork the child has no workers, but a launch needs none: the caller takes
 * all tasks itself. Freeing only frees memory then. */
#include "base/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpmode.h"
#include "base/text.h"

#define SPIN_NS 50000           /* before a worker or caller parks */
#define SLICE_NS 200000         /* a list's turn, if others wait */
#define MAX_THREADS 1024
#define MAX_TASKS ((int64_t)1 << 30)    /* in one launch; more are cut into several */
#define CLOSED UINT32_MAX       /* as next task: more than any launch has */
#define LINE FX_ALIGNED(64)

typedef struct worker {
    fx_pool *pool;
    pthread_t thread;
    int id;
} worker;

/* A thread's part of the tasks. */
typedef struct range {
    LINE _Atomic uint64_t ticket;
} range;

struct fx_pool {
    const fx_mem *mem;
    void *block;                /* what mem returned; the pool is aligned within */
    size_t block_bytes;
    int n_threads;              /* the caller among them */
    int n_started;              /* workers that run */
    pid_t pid;
    worker *workers;            /* [n_threads - 1] */

    range *ranges;              /* [n_threads] */
    LINE _Atomic int64_t done;
    _Atomic int caller_parked;

    /* The launch; constant while its generation is unfinished. */
    LINE _Atomic(fx_task_fn) fn;
    void *_Atomic user;
    _Atomic int64_t first;      /* added to the task numbers */
    _Atomic uint32_t n_tasks, grain, n_ranges;
    _Atomic uint32_t generation;

    LINE _Atomic int sleepers;  /* workers parked or about to */
    _Atomic bool stop;

    LINE _Atomic uint64_t turns_taken;
    _Atomic uint64_t turn;

    pthread_mutex_t lock;       /* for the three conditions only */
    pthread_cond_t work, idle, turn_cond;
};

/* Which pool's task this thread is running, and as which worker. */
static _Thread_local const fx_pool *inside;
static _Thread_local int inside_worker;

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Calls 'ready' until it is true or SPIN_NS have passed. The clock is read now and
 * then only. On the second half other threads get the core, if they need it. */
static inline bool spin(bool (*ready)(const fx_pool *p, uint64_t want), const fx_pool *p, uint64_t want)
{
    uint64_t until = 0, now;

    for (unsigned i = 1;; i++) {
        if (ready(p, want))
            return true;
        pause_cpu();
        if (i % 64)
            continue;
        now = fx_clock_ns();
        if (!until)
            until = now + SPIN_NS;
        else if (now >= until)
            return false;
        else if (until - now < SPIN_NS / 2)
            sched_yield();
    }
}

/* The first task of range i of n, each with its share of 'tasks'. */
static uint32_t range_begin(uint32_t tasks, uint32_t i, uint32_t n) { return (uint32_t)((uint64_t)tasks * i / n); }

/* Takes and runs tasks of the launch's range i until none is left; returns the number of ranges, 0: another launch has begun. */
static uint32_t run_range(fx_pool *p, uint32_t generation, uint32_t i, int id)
{
    _Atomic uint64_t *ticket = &p->ranges[i].ticket;
    uint64_t seen = atomic_load_explicit(ticket, memory_order_acquire);

    for (;;) {
        fx_task_fn fn = atomic_load_explicit(&p->fn, memory_order_acquire);
        void *user = atomic_load_explicit(&p->user, memory_order_acquire);
        int64_t first = atomic_load_explicit(&p->first, memory_order_acquire);
        uint32_t n = atomic_load_explicit(&p->n_tasks, memory_order_acquire);
        uint32_t grain = atomic_load_explicit(&p->grain, memory_order_acquire);
        uint32_t ranges = atomic_load_explicit(&p->n_ranges, memory_order_acquire);
        uint32_t t0 = (uint32_t)seen, end = i < ranges ? range_begin(n, i + 1, ranges) : 0, t1, piece;

        if (seen >> 32 != generation)
            return 0;
        if (t0 >= end)
            return ranges;
        piece = FX_MAX(grain, (end - t0) / 2);
        t1 = end - t0 > piece ? t0 + piece : end;
        if (!atomic_compare_exchange_weak_explicit(ticket, &seen, (seen & ~(uint64_t)UINT32_MAX) | t1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        fn(user, first + t0, first + t1, id);
        if (atomic_fetch_add(&p->done, t1 - t0) + (t1 - t0) == n && atomic_load(&p->caller_parked)) {
            pthread_mutex_lock(&p->lock);
            pthread_cond_signal(&p->idle);
            pthread_mutex_unlock(&p->lock);
        }
        seen = atomic_load_explicit(ticket, memory_order_acquire);
    }
}

/* Takes and runs tasks of the launch until none is left: the thread's own, then others'. */
static void run_tasks(fx_pool *p, uint32_t generation, int id)
{
    uint32_t n = run_range(p, generation, (uint32_t)id, id);

    for (uint32_t k = 1, i = (uint32_t)id; k <= n; k++) {
        i = i + 1 < n ? i + 1 : 0;
        n = run_range(p, generation, i, id);
    }
}

/* True when there is something for a worker that last saw generation 'want'. */
static bool has_work(const fx_pool *p, uint64_t want)
{
    return atomic_load_explicit(&p->generation, memory_order_acquire) != want ||
           atomic_load_explicit(&p->stop, memory_order_relaxed);
}

static void park_worker(fx_pool *p, uint32_t generation)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->sleepers, 1);
    while (atomic_load(&p->generation) == generation && !atomic_load(&p->stop))
        pthread_cond_wait(&p->work, &p->lock);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    fx_pool *p = w->pool;
    uint32_t generation;

    fx_fpmode_enter();
    inside = p;
    inside_worker = w->id;
    while (!atomic_load_explicit(&p->stop, memory_order_acquire)) {
        generation = atomic_load_explicit(&p->generation, memory_order_acquire);
        run_tasks(p, generation, w->id);
        if (!spin(has_work, p, generation))
            park_worker(p, generation);
    }
    return NULL;
}

static bool all_done(const fx_pool *p, uint64_t want)
{
    return atomic_load_explicit(&p->done, memory_order_acquire) == (int64_t)want;
}

/* Wakes as many parked workers as there are pieces for. */
static void wake_workers(fx_pool *p, int64_t pieces)
{
    int sleepers = atomic_load(&p->sleepers);

    if (sleepers == 0)
        return;
    pthread_mutex_lock(&p->lock);
    if (pieces >= sleepers)
        pthread_cond_broadcast(&p->work);
    else
        while (pieces-- > 0)
            pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

/* One launch of at most MAX_TASKS tasks; the caller has its turn. */
static void launch(fx_pool *p, const fx_pool_job *job, int64_t first, int64_t n)
{
    uint32_t generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
    int64_t grain = FX_MIN(FX_MAX(job->grain, 1), n);
    uint32_t ranges = (uint32_t)FX_MIN(p->n_threads, FX_DIV_UP(n, grain));

    /* Release: whoever reads a new field also finds the old generation closed. */
    for (int i = 0; i < p->n_threads; i++)
        atomic_store_explicit(&p->ranges[i].ticket, CLOSED, memory_order_relaxed);
    atomic_store_explicit(&p->fn, job->fn, memory_order_release);
    atomic_store_explicit(&p->user, job->user, memory_order_release);
    atomic_store_explicit(&p->first, first, memory_order_release);
    atomic_store_explicit(&p->n_tasks, (uint32_t)n, memory_order_release);
    atomic_store_explicit(&p->grain, (uint32_t)grain, memory_order_release);
    atomic_store_explicit(&p->n_ranges, ranges, memory_order_release);
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < ranges; i++)
        atomic_store_explicit(&p->ranges[i].ticket, (uint64_t)generation << 32 | range_begin((uint32_t)n, i, ranges),
                              memory_order_release);
    atomic_store(&p->generation, generation);
    wake_workers(p, FX_DIV_UP(n, grain) - 1);
    run_tasks(p, generation, 0);
    if (spin(all_done, p, (uint64_t)n))
        return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->caller_parked, 1);
    while (atomic_load(&p->done) != n)
        pthread_cond_wait(&p->idle, &p->lock);
    atomic_store(&p->caller_parked, 0);
    pthread_mutex_unlock(&p->lock);
}

/* Whether a job needs nobody but the thread that has it. */
static bool needs_one(const fx_pool *p, const fx_pool_job *job)
{
    return p->n_threads == 1 || job->n_tasks <= FX_MAX(job->grain, 1);
}

static void run_inline(const fx_pool *p, const fx_pool_job *job)
{
    if (job->n_tasks > 0)
        job->fn(job->user, 0, job->n_tasks, inside == p ? inside_worker : 0);
}

static void run_job(fx_pool *p, const fx_pool_job *job)
{
    if (needs_one(p, job)) {
        run_inline(p, job);
        return;
    }
    for (int64_t first = 0; first < job->n_tasks; first += MAX_TASKS)
        launch(p, job, first, FX_MIN(job->n_tasks - first, MAX_TASKS));
}

static bool has_turn(const fx_pool *p, uint64_t want)
{
    return atomic_load(&p->turn) == want;
}

/* A caller's stay: its number, and what its thread was inside of before. */
typedef struct stay {
    uint64_t turn;
    const fx_pool *outer;
    int outer_worker;
} stay;

static void wait_turn(fx_pool *p, stay *s)
{
    s->turn = atomic_fetch_add(&p->turns_taken, 1);
    if (has_turn(p, s->turn) || spin(has_turn, p, s->turn))
        return;
    pthread_mutex_lock(&p->lock);
    while (!has_turn(p, s->turn))
        pthread_cond_wait(&p->turn_cond, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void give_turn(fx_pool *p, const stay *s)
{
    atomic_store(&p->turn, s->turn + 1);
    if (atomic_load(&p->turns_taken) == s->turn + 1)
        return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->turn_cond);
    pthread_mutex_unlock(&p->lock);
}

static stay enter(fx_pool *p)
{
    stay s = { 0, inside, inside_worker };

    wait_turn(p, &s);
    inside = p;
    inside_worker = 0;
    return s;
}

static void leave(fx_pool *p, const stay *s)
{
    inside = s->outer;
    inside_worker = s->outer_worker;
    give_turn(p, s);
}

void fx_pool_run(fx_pool *p, fx_task_fn fn, void *user, int64_t n_tasks, int64_t grain)
{
    fx_pool_job job = { fn, user, n_tasks, grain };
    stay s;

    if (needs_one(p, &job) || inside == p) {
        run_inline(p, &job);
        return;
    }
    s = enter(p);
    run_job(p, &job);
    leave(p, &s);
}

void fx_pool_run_list(fx_pool *p, fx_pool_next_fn next, void *user)
{
    uint64_t since = 0;
    fx_pool_job job;
    stay s;

    if (p->n_threads == 1 || inside == p) {
        for (int64_t i = 0; next(user, i, &job); i++)
            run_inline(p, &job);
        return;
    }
    s = enter(p);
    for (int64_t i = 0; next(user, i, &job); i++) {
        run_job(p, &job);
        if (atomic_load_explicit(&p->turns_taken, memory_order_relaxed) == s.turn + 1)
            continue;
        if (!since)
            since = fx_clock_ns();              /* somebody waits: the slice begins */
        else if (fx_clock_ns() - since > SLICE_NS) {
            give_turn(p, &s);
            wait_turn(p, &s);
            since = 0;
        }
    }
    leave(p, &s);
}

int fx_pool_threads(const fx_pool *p)
{
    return p->n_threads;
}

/* Starts the workers with all signals blocked: they are the application's. */
static fx_status start_workers(fx_pool *p, fx_error *err)
{
    sigset_t all, old;
    char text[80];
    int e = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    for (int i = 0; i < p->n_threads - 1; i++) {
        worker *w = &p->workers[i];

        w->pool = p;
        w->id = i + 1;
        e = pthread_create(&w->thread, NULL, worker_main, w);
        if (e)
            break;
        p->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e)
        return fx_fail(err, e == ENOMEM ? FORNAX_ENOMEM : FORNAX_EIO, "threads: starting number %d of %d: %s",
                       p->n_started + 2, p->n_threads, fx_errno_text(e, text, sizeof(text)));
    return FORNAX_OK;
}

fx_status fx_pool_new(fx_pool **out, const fx_mem *mem, int n_threads, fx_error *err)
{
    size_t pool_bytes = FX_ROUND_UP(sizeof(fx_pool), 64), bytes;
    fx_status st;
    fx_pool *p;
    void *block;

    *out = NULL;
    if (n_threads == 0)
        n_threads = FX_MIN(fx_pool_cpus_allowed(""), MAX_THREADS);
    if (n_threads < 0 || n_threads > MAX_THREADS)
        return fx_fail_param(err, FORNAX_EARG, "threads", "threads: expected 0 to %d, found %d", MAX_THREADS,
                             n_threads);
    bytes = pool_bytes + 64 + (size_t)n_threads * (sizeof(range) + sizeof(worker));
    block = fx_mem_zalloc(mem, bytes);
    if (!block)
        return fx_nomem(err, "the thread pool");
    p = (fx_pool *)FX_ROUND_UP((uintptr_t)block, 64);
    p->mem = mem;
    p->block = block;
    p->block_bytes = bytes;
    p->n_threads = n_threads;
    p->pid = getpid();
    p->ranges = (range *)((char *)p + pool_bytes);
    p->workers = (worker *)(p->ranges + n_threads);
    for (int i = 0; i < n_threads; i++)
        atomic_init(&p->ranges[i].ticket, CLOSED);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->idle, NULL);
    pthread_cond_init(&p->turn_cond, NULL);
    st = start_workers(p, err);
    if (st != FORNAX_OK) {
        fx_pool_free(p);
        return st;
    }
    *out = p;
    return FORNAX_OK;
}

void fx_pool_free(fx_pool *p)
{
    if (!p)
        return;
    if (p->pid == getpid()) {
        pthread_mutex_lock(&p->lock);
        atomic_store(&p->stop, true);
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->lock);
        for (int i = 0; i < p->n_started; i++)
            pthread_join(p->workers[i].thread, NULL);
        pthread_cond_destroy(&p->turn_cond);
        pthread_cond_destroy(&p->idle);
        pthread_cond_destroy(&p->work);
        pthread_mutex_destroy(&p->lock);
    }
    fx_mem_free(p->mem, p->block, p->block_bytes);
}
