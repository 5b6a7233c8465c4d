/* mem.h - where memory comes from: the caller's allocator, and arenas by lifetime.
 *
 * fx_mem is the allocator that the application put in its context; everything
 * that the library allocates goes through one.  An fx_arena hands out pieces
 * that are all freed together: one a model, a compile, a request, a step.
 *
 *     fx_arena a;
 *     fx_arena_init(&a, mem, 0);
 *     char *p = fx_arena_alloc(&a, 100);     NULL when memory ran out
 *     fx_arena_done(&a);
 *
 * Every function returns NULL when memory ran out; the caller turns that into
 * FORNAX_ENOMEM (fx_nomem).  fx_mem may be used by any thread if the
 * application's allocator may; an arena belongs to one thread at a time. */
#ifndef FX_MEM_H
#define FX_MEM_H

#include "base/compiler.h"

/* realloc in one call: p NULL allocates, new_size 0 frees (returns NULL). Always
 * told the old size.  At least 16-byte alignment. */
typedef struct fx_mem {
    void *(*fn)(void *user, void *p, size_t old_size, size_t new_size);
    void *user;
} fx_mem;

extern const fx_mem fx_mem_libc;            /* malloc and free */

void *fx_mem_alloc(const fx_mem *m, size_t size);              /* not cleared */
void *fx_mem_zalloc(const fx_mem *m, size_t size);             /* cleared */
void *fx_mem_array(const fx_mem *m, size_t n, size_t each);    /* cleared; checks n*each */
void *fx_mem_resize(const fx_mem *m, void *p, size_t old_size, size_t new_size);
void fx_mem_free(const fx_mem *m, void *p, size_t size);       /* NULL is fine */

/* Big zeroed buffers (weights, KV, activations): page-aligned, huge pages where
 * the system allows.  Straight from the operating system, not from fx_mem,
 * unless the system refuses. */
void *fx_pages_alloc(size_t size);
void fx_pages_free(void *p, size_t size);

typedef struct fx_arena_chunk fx_arena_chunk;
typedef struct fx_arena {
    const fx_mem *mem;
    fx_arena_chunk *chunks;         /* newest first */
    size_t chunk_bytes;             /* of a usual chunk */
    size_t total_bytes;             /* taken from mem */
} fx_arena;

void fx_arena_init(fx_arena *a, const fx_mem *mem, size_t chunk_bytes /* 0: 16 KiB */);
void fx_arena_done(fx_arena *a);                  /* frees all; may be inited again */
void fx_arena_reset(fx_arena *a);                 /* forgets all, keeps one chunk */
void *fx_arena_alloc(fx_arena *a, size_t size);   /* 16-byte aligned, cleared */
void *fx_arena_array(fx_arena *a, size_t n, size_t each);   /* cleared; checks n*each */
char *fx_arena_strdup(fx_arena *a, const char *p, size_t n);  /* zero-terminated copy */
char *fx_arena_printf(fx_arena *a, const char *fmt, ...) FX_PRINTF(2, 3);
#define FX_ARENA_NEW(a, type) ((type *)fx_arena_alloc((a), sizeof(type)))
#define FX_ARENA_NEWN(a, type, n) ((type *)fx_arena_array((a), (n), sizeof(type)))

#endif
