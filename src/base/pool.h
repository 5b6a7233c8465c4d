/* pool.h - the thread pool: one launch at a time, all its tasks, then the next.
 *
 * A launch is n tasks numbered 0..n-1; threads (the caller among them) take
 * ranges of them until none is left, each beginning with the same share of all (worker
 * i of w with task n * i / w), if it comes in time.  What a task computes must not depend on
 * which thread runs it.
 *
 *     static void run(void *user, int64_t t0, int64_t t1, int worker) { ... }
 *     fx_pool_run(pool, run, &args, n_tasks, grain);       returns when all are done
 *
 * Threads: fx_pool_run may be called from any thread; callers queue by
 * priority and launches of several engines interleave.  Workers spin briefly,
 * then park: an idle pool uses no CPU.  Workers set the library's
 * floating-point mode (base/fpmode.h). */
#ifndef FX_POOL_H
#define FX_POOL_H

#include "base/status.h"
#include "base/mem.h"

typedef struct fx_pool fx_pool;

/* How many threads this process may use: affinity mask and cgroup quota (v1
 * and v2, up the parents), rounded up, at least 1.  'root' is "" in production;
 * tests point it at a made-up tree holding proc/self/cgroup and sys/fs/cgroup. */
int fx_pool_cpus_allowed(const char *root);

/* n_threads counts the caller's too: n-1 workers are started. 0: as many as allowed. */
fx_status fx_pool_new(fx_pool **out, const fx_mem *mem, int n_threads, fx_error *err);
void fx_pool_free(fx_pool *p);
int fx_pool_threads(const fx_pool *p);

typedef void (*fx_task_fn)(void *user, int64_t t0, int64_t t1, int worker);
/* 'worker' passed to fn is 0..threads-1, for per-thread scratch.  grain: fewest tasks
 * taken at a time, at least 1. */
void fx_pool_run(fx_pool *p, fx_task_fn fn, void *user, int64_t n_tasks, int64_t grain);

/* A sequence of launches run back to back by the same threads with barriers
 * between (cheaper than a pool_run each; used by plans).  step(user, i, &job)
 * fills launch i and returns false when there is none; it is called by one
 * thread while the others wait, and may not block. */
typedef struct fx_pool_job {
    fx_task_fn fn;
    void *user;
    int64_t n_tasks, grain;
} fx_pool_job;
typedef bool (*fx_pool_next_fn)(void *user, int64_t i, fx_pool_job *job);
void fx_pool_run_list(fx_pool *p, fx_pool_next_fn next, void *user);

#endif
