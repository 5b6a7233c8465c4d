/* limited.h - an allocator that notices memory which a file merely claims: more than 'most' at once aborts. */
#ifndef LIMITED_H
#define LIMITED_H

#include <stdlib.h>

#include "base/mem.h"

typedef struct limit {
    size_t used, most;
} limit;

static inline void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    limit *l = user;
    size_t now = __atomic_load_n(&l->used, __ATOMIC_RELAXED);

    if (new_size > old_size && (now > l->most || new_size - old_size > l->most - now))
        abort();
    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (p || !new_size)
        __atomic_add_fetch(&l->used, new_size - old_size, __ATOMIC_RELAXED);
    return p;
}

#endif
