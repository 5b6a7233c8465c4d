/* memory.h - how much memory this process may use: the machine's, or less if a memory
 * cgroup (v1 or v2, up the parents) says so.  'root' is "" in production; tests point
 * it at a made-up tree holding proc/self/cgroup and sys/fs/cgroup. */
#ifndef FX_MEMORY_H
#define FX_MEMORY_H

#include "base/mem.h"

uint64_t fx_memory_bytes(const fx_mem *mem, const char *root);

#endif
