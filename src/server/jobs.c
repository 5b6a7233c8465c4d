/* jobs.c - a queue of jobs and its threads; see jobs.h. */
#include "server/jobs.h"

#include <signal.h>

static void *jobs_main(void *user)
{
    fx_jobs *j = user;

    pthread_mutex_lock(&j->lock);
    for (;;) {
        fx_job *job = j->first;

        if (!job && j->stopping)
            break;
        if (!job) {
            pthread_cond_wait(&j->more, &j->lock);
            continue;
        }
        j->first = job->next;
        if (!j->first)
            j->end = &j->first;
        j->busy++;
        pthread_mutex_unlock(&j->lock);
        job->run(job->user);             /* may free the job */
        pthread_mutex_lock(&j->lock);
        if (--j->busy == 0 && !j->first)
            pthread_cond_broadcast(&j->idle);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

fx_status fx_jobs_start(fx_jobs *j, fx_error *err)
{
    sigset_t all, old;
    int failed = 0;

    *j = (fx_jobs){ .n_threads = 0 };
    j->end = &j->first;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->more, NULL);
    pthread_cond_init(&j->idle, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (j->n_threads < FX_JOBS_THREADS && !failed) {
        failed = pthread_create(&j->threads[j->n_threads], NULL, jobs_main, j);
        j->n_threads += !failed;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return j->n_threads > 0 ? FORNAX_OK : fx_fail(err, FORNAX_EIO, "can't start a thread");
}

void fx_jobs_push(fx_jobs *j, fx_job *job, void (*run)(void *user), void *user)
{
    *job = (fx_job){ run, user, NULL };
    pthread_mutex_lock(&j->lock);
    *j->end = job;
    j->end = &job->next;
    pthread_cond_signal(&j->more);
    pthread_mutex_unlock(&j->lock);
}

void fx_jobs_wait(fx_jobs *j)
{
    pthread_mutex_lock(&j->lock);
    while (j->first || j->busy > 0)
        pthread_cond_wait(&j->idle, &j->lock);
    pthread_mutex_unlock(&j->lock);
}

void fx_jobs_stop(fx_jobs *j)
{
    pthread_mutex_lock(&j->lock);
    j->stopping = true;
    pthread_cond_broadcast(&j->more);
    pthread_mutex_unlock(&j->lock);
    while (j->n_threads > 0)
        pthread_join(j->threads[--j->n_threads], NULL);
    pthread_mutex_destroy(&j->lock);
    pthread_cond_destroy(&j->more);
    pthread_cond_destroy(&j->idle);
}
