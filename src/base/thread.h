/* thread.h - threads of the library's own: signals are for the application's. */
#ifndef FX_THREAD_H
#define FX_THREAD_H

#include <pthread.h>
#include <time.h>

/* pthread_create with all signals blocked in the new thread; its result. */
int fx_thread_start(pthread_t *out, void *(*run)(void *user), void *user);
/* The calling thread gives way to others from now on: 0 ... 19, a nice value. */
void fx_thread_give_way(int nice);

/* A condition for pthread_cond_timedwait until fx_thread_in(ms): by the clock that nobody sets. */
void fx_thread_cond_init(pthread_cond_t *cond);
struct timespec fx_thread_in(int ms);

#endif
