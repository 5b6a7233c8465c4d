/* slots.c - see slots.h. */
#include "kv/slots.h"

fx_status fx_slots_init(fx_slots *s, const fx_mem *mem, size_t bytes, uint32_t n_slots, uint32_t n_snapshots,
                        fx_error *err)
{
    uint64_t n = (uint64_t)n_slots + n_snapshots;

    *s = (fx_slots){ .mem = mem, .bytes = bytes, .n_slots = n_slots, .n_snapshots = n_snapshots,
                     .n_free_slots = n_slots, .n_free = n_snapshots,
                     .first = FX_SNAPSHOT_NONE, .last = FX_SNAPSHOT_NONE, .free = FX_SNAPSHOT_NONE };
    if (bytes == 0)
        return FORNAX_OK;
    if (n > SIZE_MAX / bytes)
        return fx_fail(err, FORNAX_ENOMEM, "no memory for %llu states of %zu bytes", (unsigned long long)n, bytes);
    s->free_slots = fx_mem_array(mem, (size_t)n_slots + 1, sizeof *s->free_slots);
    s->snapshots = fx_mem_array(mem, (size_t)n_snapshots + 1, sizeof *s->snapshots);
    s->base = fx_pages_alloc((size_t)n * bytes);
    if (!s->free_slots || !s->snapshots || !s->base) {
        fx_slots_done(s);
        return fx_fail(err, FORNAX_ENOMEM, "no memory for %llu states of %zu bytes", (unsigned long long)n, bytes);
    }
    for (uint32_t i = 0; i < n_slots; i++)
        s->free_slots[i] = n_slots - 1 - i;
    for (uint32_t i = n_snapshots; i-- > 0;) {
        s->snapshots[i] = (fx_snapshot){ .page = FX_PAGE_NONE, .prev = FX_SNAPSHOT_NONE, .next = s->free };
        s->free = i;
    }
    return FORNAX_OK;
}

void fx_slots_done(fx_slots *s)
{
    if (!s->mem)
        return;
    fx_mem_free(s->mem, s->free_slots, ((size_t)s->n_slots + 1) * sizeof *s->free_slots);
    fx_mem_free(s->mem, s->snapshots, ((size_t)s->n_snapshots + 1) * sizeof *s->snapshots);
    fx_pages_free(s->base, ((size_t)s->n_slots + s->n_snapshots) * s->bytes);
    *s = (fx_slots){ 0 };
}

static void unlink_snapshot(fx_slots *s, uint32_t i)
{
    fx_snapshot *x = &s->snapshots[i];

    *(x->prev == FX_SNAPSHOT_NONE ? &s->first : &s->snapshots[x->prev].next) = x->next;
    *(x->next == FX_SNAPSHOT_NONE ? &s->last : &s->snapshots[x->next].prev) = x->prev;
}

static void link_first(fx_slots *s, uint32_t i)
{
    s->snapshots[i].prev = FX_SNAPSHOT_NONE;
    s->snapshots[i].next = s->first;
    *(s->first == FX_SNAPSHOT_NONE ? &s->last : &s->snapshots[s->first].prev) = i;
    s->first = i;
}

static void link_last(fx_slots *s, uint32_t i)
{
    s->snapshots[i].next = FX_SNAPSHOT_NONE;
    s->snapshots[i].prev = s->last;
    *(s->last == FX_SNAPSHOT_NONE ? &s->first : &s->snapshots[s->last].next) = i;
    s->last = i;
}

uint32_t fx_slots_take_free(fx_slots *s)
{
    uint32_t i = s->free;

    if (s->n_free == 0)
        return FX_SNAPSHOT_NONE;
    s->free = s->snapshots[i].next;
    s->n_free--;
    return i;
}

void fx_slots_give(fx_slots *s, uint32_t i)
{
    fx_snapshot *x = &s->snapshots[i];

    if (x->page != FX_PAGE_NONE) {
        unlink_snapshot(s, i);
        s->n_attached--;
    }
    *x = (fx_snapshot){ .page = FX_PAGE_NONE, .prev = FX_SNAPSHOT_NONE, .next = s->free };
    s->free = i;
    s->n_free++;
}

void fx_slots_attach(fx_slots *s, uint32_t i, fx_page page)
{
    FX_ASSERT(s->snapshots[i].page == FX_PAGE_NONE);
    s->snapshots[i].page = page;
    s->n_attached++;
    (s->snapshots[i].likely ? link_first : link_last)(s, i);
}

void fx_slots_touch(fx_slots *s, uint32_t i)
{
    FX_ASSERT(s->snapshots[i].page != FX_PAGE_NONE);
    unlink_snapshot(s, i);
    link_first(s, i);
}
