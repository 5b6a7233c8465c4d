/* thread.c - starting threads. */
#include "base/thread.h"

#include <signal.h>
#include <sys/resource.h>

int fx_thread_start(pthread_t *out, void *(*run)(void *user), void *user)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(out, NULL, run, user);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* Of Linux: "process" 0 is the calling thread. */
void fx_thread_give_way(int nice) { setpriority(PRIO_PROCESS, 0, nice); }

void fx_thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

struct timespec fx_thread_in(int ms)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long)(ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}
