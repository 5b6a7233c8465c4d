/* mem.c - the allocator in front of malloc, page buffers, and arenas.
 *
 * An arena is a list of chunks, newest first; each is one block of fx_mem:
 *
 *     [ header | used .......| free ......... ]
 *
 * Pieces are cut from the newest chunk. A piece that is larger than a quarter of
 * a usual chunk and doesn't fit gets a chunk of its own behind the newest one,
 * so that the room left in the newest isn't lost. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.h"

#define ARENA_ALIGN 16
#define ARENA_CHUNK ((size_t)16 << 10)
#define HUGE_PAGE ((size_t)2 << 20)

static void *libc_fn(void *user, void *p, size_t old_size, size_t new_size)
{
    (void)user;
    (void)old_size;
    if (new_size == 0) {
        free(p);
        return NULL;
    }
    return realloc(p, new_size);
}

const fx_mem fx_mem_libc = { libc_fn, NULL };

void *fx_mem_alloc(const fx_mem *m, size_t size)
{
    if (size > PTRDIFF_MAX)
        return NULL;
    return m->fn(m->user, NULL, 0, size ? size : 1);
}

void *fx_mem_zalloc(const fx_mem *m, size_t size)
{
    void *p = fx_mem_alloc(m, size);

    if (p)
        memset(p, 0, size);
    return p;
}

void *fx_mem_array(const fx_mem *m, size_t n, size_t each)
{
    if (each && n > PTRDIFF_MAX / each)
        return NULL;
    return fx_mem_zalloc(m, n * each);
}

/* Sizes of 0 are held as blocks of one byte, so that NULL always means failure. */
void *fx_mem_resize(const fx_mem *m, void *p, size_t old_size, size_t new_size)
{
    if (!p)
        return fx_mem_alloc(m, new_size);
    if (new_size > PTRDIFF_MAX)
        return NULL;
    return m->fn(m->user, p, old_size ? old_size : 1, new_size ? new_size : 1);
}

void fx_mem_free(const fx_mem *m, void *p, size_t size)
{
    if (p)
        m->fn(m->user, p, size ? size : 1, 0);
}

static size_t page_round(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return FX_ROUND_UP(FX_MAX(size, 1), page);
}

/* A buffer of 2 MiB and more begins on a huge page: map with slack, cut both ends. */
void *fx_pages_alloc(size_t size)
{
    size_t want, slack, head;
    char *p, *q;

    if (size > PTRDIFF_MAX - 2 * HUGE_PAGE)
        return NULL;
    want = page_round(size);
    slack = want >= HUGE_PAGE ? HUGE_PAGE : 0;
    p = mmap(NULL, want + slack, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (!slack)
        return p;
    q = (char *)FX_ROUND_UP((uintptr_t)p, HUGE_PAGE);
    head = (size_t)(q - p);
    if (head)
        munmap(p, head);
    if (head < slack)
        munmap(q + want, slack - head);
#ifdef MADV_HUGEPAGE
    madvise(q, want, MADV_HUGEPAGE);            /* advice: a refusal costs only speed */
#endif
    return q;
}

void fx_pages_free(void *p, size_t size)
{
    if (p)
        munmap(p, page_round(size));
}

struct fx_arena_chunk {
    fx_arena_chunk *next;
    size_t size;                /* of the whole block */
    size_t used;                /* from the block's begin */
};

#define CHUNK_HEAD FX_ROUND_UP(sizeof(fx_arena_chunk), ARENA_ALIGN)

void fx_arena_init(fx_arena *a, const fx_mem *mem, size_t chunk_bytes)
{
    a->mem = mem;
    a->chunks = NULL;
    a->chunk_bytes = chunk_bytes ? FX_MAX(chunk_bytes, 4 * CHUNK_HEAD) : ARENA_CHUNK;
    a->total_bytes = 0;
}

static void free_chunks(fx_arena *a, fx_arena_chunk *c)
{
    while (c) {
        fx_arena_chunk *next = c->next;

        a->total_bytes -= c->size;
        fx_mem_free(a->mem, c, c->size);
        c = next;
    }
}

void fx_arena_done(fx_arena *a)
{
    free_chunks(a, a->chunks);
    a->chunks = NULL;
}

void fx_arena_reset(fx_arena *a)
{
    fx_arena_chunk *c = a->chunks;

    if (!c)
        return;
    free_chunks(a, c->next);
    c->next = NULL;
    c->used = CHUNK_HEAD;
}

static fx_arena_chunk *new_chunk(fx_arena *a, size_t payload)
{
    fx_arena_chunk *c;
    size_t size = CHUNK_HEAD + payload;

    c = fx_mem_alloc(a->mem, size);
    if (!c)
        return NULL;
    c->size = size;
    c->used = CHUNK_HEAD;
    c->next = NULL;
    a->total_bytes += size;
    return c;
}

/* The chunk in which 'size' bytes fit, made if need be. */
static fx_arena_chunk *chunk_for(fx_arena *a, size_t size)
{
    fx_arena_chunk *c = a->chunks;

    if (c && c->size - c->used >= size)
        return c;
    if (c && size > a->chunk_bytes / 4) {
        fx_arena_chunk *own = new_chunk(a, size);

        if (own) {
            own->next = c->next;
            c->next = own;
        }
        return own;
    }
    c = new_chunk(a, FX_MAX(size, a->chunk_bytes - CHUNK_HEAD));
    if (c) {
        c->next = a->chunks;
        a->chunks = c;
    }
    return c;
}

void *fx_arena_alloc(fx_arena *a, size_t size)
{
    fx_arena_chunk *c;
    char *p;

    if (size > PTRDIFF_MAX - 4096)
        return NULL;
    size = FX_ROUND_UP(FX_MAX(size, 1), ARENA_ALIGN);
    c = chunk_for(a, size);
    if (!c)
        return NULL;
    p = (char *)c + c->used;
    c->used += size;
    memset(p, 0, size);
    return p;
}

void *fx_arena_array(fx_arena *a, size_t n, size_t each)
{
    if (each && n > PTRDIFF_MAX / each)
        return NULL;
    return fx_arena_alloc(a, n * each);
}

char *fx_arena_strdup(fx_arena *a, const char *p, size_t n)
{
    char *s;

    if (n >= PTRDIFF_MAX)
        return NULL;
    s = fx_arena_alloc(a, n + 1);
    if (s && n)
        memcpy(s, p, n);
    return s;
}

char *fx_arena_printf(fx_arena *a, const char *fmt, ...)
{
    va_list ap, again;
    char *s = NULL;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = fx_vformat(NULL, 0, fmt, ap);
    if (n >= 0)
        s = fx_arena_alloc(a, (size_t)n + 1);
    if (s)
        fx_vformat(s, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return s;
}
