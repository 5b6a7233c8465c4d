/* jobs.h - a few threads for what would hold up the threads of the sockets: routes (they read,
 * render and tokenize whole bodies) and the closing of requests (which may wait for a step). */
#ifndef FX_JOBS_H
#define FX_JOBS_H

#include <pthread.h>

#include "base/status.h"

/* Part of the object that the job is about. */
typedef struct fx_job {
    void (*run)(void *user);
    void *user;
    struct fx_job *next;
} fx_job;

enum { FX_JOBS_THREADS = 3 };

typedef struct fx_jobs {
    pthread_mutex_t lock;
    pthread_cond_t more, idle;
    fx_job *first, **end;
    int busy;                    /* jobs being run */
    bool stopping;
    pthread_t threads[FX_JOBS_THREADS];
    int n_threads;
} fx_jobs;

fx_status fx_jobs_start(fx_jobs *j, fx_error *err);
void fx_jobs_push(fx_jobs *j, fx_job *job, void (*run)(void *user), void *user);
void fx_jobs_wait(fx_jobs *j);   /* until none is queued or running */
void fx_jobs_stop(fx_jobs *j);   /* runs what is queued, then ends the threads */

#endif
