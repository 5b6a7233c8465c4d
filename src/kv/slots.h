/* slots.h - fixed-size state of running sequences, and copies of it (kv/ only).
 *
 * Slots belong to running sequences.  A snapshot is a slot's contents as of a page end; it is
 * in the hands of whoever took it, or attached to a page of the tree, and then the least
 * recently used may be displaced for another.  All memory is mapped at open and touched
 * when it is used. */
#ifndef FX_SLOTS_H
#define FX_SLOTS_H

#include "base/status.h"
#include "tensor/rows.h"

#define FX_SNAPSHOT_NONE UINT32_MAX

typedef struct fx_snapshot {
    fx_page page;                /* it is attached to, or FX_PAGE_NONE */
    uint32_t prev, next;         /* attached: by use, newest first; free: next only */
    bool likely;                 /* taken for a place where it is likely to be of use */
} fx_snapshot;

typedef struct fx_slots {
    const fx_mem *mem;
    size_t bytes;                /* of one; 0: there are none */
    uint8_t *base;               /* slots, then snapshots */
    uint32_t n_slots, n_snapshots;
    uint32_t *free_slots, n_free_slots;
    fx_snapshot *snapshots;
    uint32_t first, last;        /* attached ones */
    uint32_t free, n_free, n_attached;
} fx_slots;

fx_status fx_slots_init(fx_slots *s, const fx_mem *mem, size_t bytes, uint32_t n_slots, uint32_t n_snapshots,
                        fx_error *err);
void fx_slots_done(fx_slots *s);

/* A free snapshot, or FX_SNAPSHOT_NONE. */
uint32_t fx_slots_take_free(fx_slots *s);
/* Back to the free ones; takes it off its page's list, if it is on one. */
void fx_slots_give(fx_slots *s, uint32_t snapshot);
/* One that isn't likely to be of use is displaced before all others, until it is used. */
void fx_slots_attach(fx_slots *s, uint32_t snapshot, fx_page page);
void fx_slots_touch(fx_slots *s, uint32_t snapshot);      /* an attached one was used */

static inline uint8_t *fx_slots_snapshot_at(const fx_slots *s, uint32_t i)
{
    return s->base + ((size_t)s->n_slots + i) * s->bytes;
}

static inline uint32_t fx_slots_snapshot_of(const fx_slots *s, const uint8_t *p)
{
    return (uint32_t)((size_t)(p - s->base) / s->bytes) - s->n_slots;
}

#endif
