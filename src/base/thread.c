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
