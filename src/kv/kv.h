/* kv.h - the pool of pages that hold sequence state, and the prefix tree over them.
 *
 * Owns one big lazily touched buffer, cut into pages of state->page_bytes.  Knows page numbers,
 * reference counts, and which pages hold which units (token ids); knows nothing of
 * sequences (sched/) or of what is inside a page.
 *
 * Pages are taken in sets: those of all columns of one group (tensor/rows.h) for the same page_tokens
 * units, counted and given back together, and named by the first.  Sets of group 0 form the
 * tree; where there is a second group, its sets hang on them.
 *
 *     fx_page p = fx_kv_take(kv, 0);                    refs 1, contents undefined
 *     p = fx_kv_insert(kv, scope, parent, &key, units, p);   computed: others may find it
 *     fx_page hit = fx_kv_find(kv, scope, parent, &key, units);
 *     fx_kv_ref(kv, hit);  ...  fx_kv_drop(kv, hit);
 *     fx_page w = fx_kv_take(kv, 1);  ...  w = fx_kv_hang(kv, p, w);  ...  fx_kv_hung(kv, hit)
 *
 *     hit = fx_kv_find_beginning(kv, scope, parent, units, n, &m);   the first m of them lie in it
 *
 * Identity of a set: the model's identity bytes (given at open), its scope (adapter
 * fingerprint and cache salt), all units before it and its own units.  The key is a
 * 128-bit hash chained over all that; besides it the scope (interned by its bytes),
 * the parent and the units themselves are compared, so a collision is a miss.
 *
 * A set is free, used (refs > 0) or cached (refs 0, in the tree or hung on it).  Cached sets are
 * taken back when too few pages are free: least recently used first, children before parents, those
 * that were dropped as unlikely to be of use before all others.
 * Whoever refers to a set in the tree must refer to its parents too (a sequence does,
 * by its page table); so a cached set has only cached children.  What hangs on a set goes
 * at the latest with it, and is referred to only by who refers to that too.
 * Where all of a model's layers see a window only, a sequence lets go of the pages behind
 * it: there a parent may be cached under a used child, and be taken back before it; what
 * hangs on a page that is gone is no longer found.
 *
 * Recurrent state (tensor/rows.h) lies in slots, one for each running sequence.  Copies of it as
 * of page ends, the snapshots, hang on sets of the tree and go with them; a prefix
 * can be taken over only up to a page with a snapshot.
 *
 * Invariants, asserted by fx_kv_check: free + used + cached == total; a used set of the
 * tree has a used parent (without windows); child counts, hash chains, hung sets, snapshots and the
 * eviction heap agree with the sets; no two sets of the tree have the same scope, parent
 * and units.
 * Threads: one owner (the engine's step), no locks inside; fx_kv_scope_new from any. */
#ifndef FX_KV_H
#define FX_KV_H

#include "base/status.h"
#include "base/str.h"
#include "tensor/rows.h"

typedef struct fx_kv fx_kv;

/* What separates prefixes beside their units. */
typedef struct fx_kv_scope fx_kv_scope;

/* 'identity': whatever else decides the bits in a page (model fingerprint, numerics id).
 * Borrows state during the call. */
fx_status fx_kv_open(fx_kv **out, const fx_mem *mem, const fx_state_table *state, uint32_t n_pages,
                     fx_str identity, fx_error *err);
void fx_kv_close(fx_kv *kv);
uint8_t *fx_kv_base(const fx_kv *kv);
size_t fx_kv_page_bytes(const fx_kv *kv);
int32_t fx_kv_page_tokens(const fx_kv *kv);
int32_t fx_kv_columns(const fx_kv *kv);
int fx_kv_groups(const fx_kv *kv);
const fx_state_group *fx_kv_group(const fx_kv *kv, int g);

typedef struct fx_kv_counts {
    uint32_t total, used, cached, free;
} fx_kv_counts;
/* Room for the recurrent state of so many sequences, and for so many snapshots. Once, after
 * open, for a model whose state has slot_bytes. */
fx_status fx_kv_add_slots(fx_kv *kv, uint32_t slots, uint32_t snapshots, fx_error *err);
size_t fx_kv_slot_bytes(const fx_kv *kv);       /* 0: the model has no recurrent state */

fx_kv_counts fx_kv_count(const fx_kv *kv);      /* of pages */
/* Pages that fx_kv_take can hand out before it returns FX_PAGE_NONE. */
uint32_t fx_kv_room(const fx_kv *kv);

/* Has the system give memory for some of the pages that are taken next, so that taking them won't wait for it; false: 'ahead'
 * bytes of free pages have it. */
bool fx_kv_touch(fx_kv *kv, size_t ahead);

fx_page fx_kv_take(fx_kv *kv, int group);       /* refs becomes 1; FX_PAGE_NONE: too many are in use */
void fx_kv_list(const fx_kv *kv, fx_page set, fx_page *at);     /* its pages, a column each */
void fx_kv_ref(fx_kv *kv, fx_page set);
/* At zero: cached if in the tree or hung on it, else free. */
void fx_kv_drop(fx_kv *kv, fx_page set);
void fx_kv_drop_unlikely(fx_kv *kv, fx_page set);       /* ... and taken back before what was likely */
uint32_t fx_kv_refs(const fx_kv *kv, fx_page set);
void fx_kv_copy(fx_kv *kv, fx_page to, fx_page from);   /* the bytes of a set's pages */

/* A scope of one's own, NULL: no memory; join makes it the kv's (takes it; the result may be
 * another object with the same bytes) and leave gives it back. */
fx_kv_scope *fx_kv_scope_new(const fx_mem *mem, fx_str adapter, fx_str salt);
void fx_kv_scope_free(fx_kv_scope *s);          /* one that was never joined; NULL is fine */
fx_kv_scope *fx_kv_scope_join(fx_kv *kv, fx_kv_scope *s);
void fx_kv_scope_leave(fx_kv *kv, fx_kv_scope *s);

/* Key of the page with these page_tokens units, after the page with key 'before' (NULL: the first). */
fx_hash128 fx_kv_key(const fx_kv *kv, const fx_kv_scope *s, const fx_hash128 *before, const int32_t *units);
/* The computed set with these units after 'parent' (FX_PAGE_NONE: the first), or FX_PAGE_NONE.
 * Doesn't refer to it. */
fx_page fx_kv_find(const fx_kv *kv, const fx_kv_scope *s, fx_page parent, const fx_hash128 *key,
                   const int32_t *units);
/* The set after 'parent' that has most of these units, n <= page_tokens, at its beginning; FX_PAGE_NONE: none has the
 * first, or it is a pool whose parents may go before their children. *m: how many. Looks at the FX_KV_SIBLINGS sets that
 * were put in, or renewed, last. Doesn't refer to it. */
#define FX_KV_SIBLINGS 64
fx_page fx_kv_find_beginning(const fx_kv *kv, const fx_kv_scope *s, fx_page parent, const int32_t *units, int32_t n,
                             int32_t *m);
/* Whether a set of the tree holds no more than m units. */
bool fx_kv_ends_at(const fx_kv *kv, fx_page p, int32_t m);
/* A set of the tree counts as put in and used just now. */
void fx_kv_renew(fx_kv *kv, fx_page p);
/* Puts a computed set that the caller refers to into the tree; where it isn't full, the units behind its end are -1, and
 * it is found by its beginning. If its like is there already, renews and returns that one, referred to, and drops 'p';
 * else returns p. 'parent' must be in the tree. */
fx_page fx_kv_insert(fx_kv *kv, fx_kv_scope *s, fx_page parent, const fx_hash128 *key, const int32_t *units,
                     fx_page p);
/* The same for a set of group 1 with the units of p, which is in the tree. */
fx_page fx_kv_hang(fx_kv *kv, fx_page p, fx_page set);
fx_page fx_kv_hung(const fx_kv *kv, fx_page p);         /* FX_PAGE_NONE: none */
void fx_kv_forget(fx_kv *kv);                   /* frees all cached pages */

/* A slot, zeroed; asserts that there is one. */
uint8_t *fx_kv_slot_take(fx_kv *kv);
void fx_kv_slot_drop(fx_kv *kv, uint8_t *slot);
/* Where to write a snapshot; NULL: all are in use. For one that is likely to be of use, the least
 * recently used of a page gives way, those first that weren't likely. Then attach it to a page of
 * the tree (which keeps the one it has), or drop it. */
uint8_t *fx_kv_snapshot_take(fx_kv *kv, bool likely);
void fx_kv_snapshot_drop(fx_kv *kv, uint8_t *snapshot);
void fx_kv_snapshot_attach(fx_kv *kv, fx_page p, uint8_t *snapshot);
/* Takes the snapshot off a page; NULL: it has none. */
uint8_t *fx_kv_snapshot_detach(fx_kv *kv, fx_page p);
bool fx_kv_has_snapshot(const fx_kv *kv, fx_page p);
/* Copies the page's snapshot to the slot. */
void fx_kv_snapshot_load(fx_kv *kv, fx_page p, uint8_t *slot);
uint32_t fx_kv_snapshots(const fx_kv *kv);      /* that hang on pages */

void fx_kv_check(const fx_kv *kv);

#endif
