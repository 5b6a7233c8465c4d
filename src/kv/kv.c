/* kv.c - see kv.h.
 *
 * A set of the tree *is* its node: everything about the set whose first page is p lies at index p
 * of arrays made at open, so nothing is allocated later.
 *
 *     pages   [n] refs, parent, number of children, key, hash chain, heap place, last use
 *     units   [n][page_tokens] ids, valid for sets of the tree; -1 behind the end of one that isn't full
 *     buckets [2^k] first set of each hash chain
 *     heap    [n] sets that may be evicted (in the tree, refs 0, no children; or hung, refs 0): a
 *                 binary heap with the least recently used on top
 *
 * The pages of a set are a chain through 'more'.  Free pages are a chain through 'next'; pages never
 * used yet lie at [n_touched, n) and are not in it, so that memory is first touched when it is needed, or by fx_kv_touch. */
#include "kv/kv.h"

#include "kv/slots.h"

struct fx_kv_scope {
    const fx_mem *mem;
    fx_kv_scope *next;
    uint64_t refs;              /* joins, and pages of the tree */
    fx_page child;              /* newest of its sets without a parent */
    fx_hash128 hash;
    size_t n_adapter, n_bytes;
    char bytes[];               /* adapter, then salt */
};

typedef struct kv_page {
    uint32_t refs;
    uint32_t children;
    fx_page parent;             /* of a hung set: what it hangs on */
    fx_page next;               /* hash chain (in the tree) or free chain */
    fx_page child;              /* newest of its children, */
    fx_page newer, older;       /* and these among each other; not where there are holes */
    fx_page more;               /* next page of the set */
    fx_page hung;               /* the set of group 1 that hangs on it, or FX_PAGE_NONE */
    uint32_t heap_at;           /* place in the heap, or NOT_IN_HEAP */
    uint8_t group;
    bool in_tree;               /* or hung on it */
    uint32_t snapshot;          /* FX_SNAPSHOT_NONE: it has none */
    uint64_t id, parent_id;     /* of the tree: never given twice, 0: no parent */
    uint64_t used_at;           /* kv->clock when it was last let go of; LIKELY is added, or not */
    fx_hash128 key;
    fx_kv_scope *scope;
} kv_page;

#define NOT_IN_HEAP UINT32_MAX
#define LIKELY ((uint64_t)1 << 63)

struct fx_kv {
    const fx_mem *mem;
    uint8_t *base;
    size_t page_bytes;
    int32_t page_tokens, n_columns;
    int n_groups;
    fx_state_group groups[FX_STATE_GROUPS];
    uint32_t n, n_touched, n_free, n_used, n_cached;
    size_t in_memory;           /* bytes from the base on that fx_kv_touch has been over */
    fx_page free;               /* head of the free chain */
    kv_page *pages;
    int32_t *units;
    fx_page *buckets;
    uint32_t n_buckets;         /* a power of two */
    fx_page *heap;
    uint32_t n_heap;
    uint64_t clock, ids;
    size_t slot_bytes;
    fx_slots slots;
    fx_hash128 root;            /* of the identity bytes */
    fx_kv_scope *scopes;
};

/* ---- Scopes ------------------------------------------------------------------ */

fx_kv_scope *fx_kv_scope_new(const fx_mem *mem, fx_str adapter, fx_str salt)
{
    fx_kv_scope *s;

    if (salt.n > SIZE_MAX / 4 || adapter.n > SIZE_MAX / 4)
        return NULL;
    s = fx_mem_alloc(mem, sizeof *s + adapter.n + salt.n);
    if (!s)
        return NULL;
    *s = (fx_kv_scope){ .mem = mem, .child = FX_PAGE_NONE, .n_adapter = adapter.n, .n_bytes = adapter.n + salt.n };
    if (adapter.n)
        memcpy(s->bytes, adapter.p, adapter.n);
    if (salt.n)
        memcpy(s->bytes + adapter.n, salt.p, salt.n);
    s->hash = fx_hash128_of(s->bytes, s->n_bytes, adapter.n);
    return s;
}

void fx_kv_scope_free(fx_kv_scope *s)
{
    if (s)
        fx_mem_free(s->mem, s, sizeof *s + s->n_bytes);
}

fx_kv_scope *fx_kv_scope_join(fx_kv *kv, fx_kv_scope *s)
{
    for (fx_kv_scope *o = kv->scopes; o; o = o->next) {
        if (o->n_bytes == s->n_bytes && o->n_adapter == s->n_adapter &&
            memcmp(o->bytes, s->bytes, s->n_bytes) == 0) {
            fx_kv_scope_free(s);
            o->refs++;
            return o;
        }
    }
    s->refs = 1;
    s->next = kv->scopes;
    kv->scopes = s;
    return s;
}

void fx_kv_scope_leave(fx_kv *kv, fx_kv_scope *s)
{
    fx_kv_scope **at = &kv->scopes;

    FX_ASSERT(s->refs > 0);
    if (--s->refs > 0)
        return;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    fx_kv_scope_free(s);
}

/* ---- The heap of pages that may be evicted ------------------------------------- */

static void heap_set(fx_kv *kv, uint32_t at, fx_page p)
{
    kv->heap[at] = p;
    kv->pages[p].heap_at = at;
}

static bool older(const fx_kv *kv, fx_page a, fx_page b)
{
    return kv->pages[a].used_at < kv->pages[b].used_at;
}

static void sift_up(fx_kv *kv, uint32_t at)
{
    fx_page p = kv->heap[at];

    while (at > 0 && older(kv, p, kv->heap[(at - 1) / 2])) {
        heap_set(kv, at, kv->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(kv, at, p);
}

static void sift_down(fx_kv *kv, uint32_t at)
{
    fx_page p = kv->heap[at];

    for (;;) {
        uint64_t child = 2 * (uint64_t)at + 1;

        if (child >= kv->n_heap)
            break;
        if (child + 1 < kv->n_heap && older(kv, kv->heap[child + 1], kv->heap[child]))
            child++;
        if (!older(kv, kv->heap[child], p))
            break;
        heap_set(kv, at, kv->heap[child]);
        at = (uint32_t)child;
    }
    heap_set(kv, at, p);
}

static void heap_add(fx_kv *kv, fx_page p)
{
    heap_set(kv, kv->n_heap++, p);
    sift_up(kv, kv->n_heap - 1);
}

static void heap_remove(fx_kv *kv, fx_page p)
{
    uint32_t at = kv->pages[p].heap_at;
    fx_page last = kv->heap[--kv->n_heap];

    kv->pages[p].heap_at = NOT_IN_HEAP;
    if (last == p)
        return;
    heap_set(kv, at, last);
    sift_up(kv, at);
    sift_down(kv, kv->pages[last].heap_at);
}

/* ---- Open and close -------------------------------------------------------------- */

static fx_status check_state(const fx_state_table *state, uint32_t n_pages, fx_error *err)
{
    if (state->page_tokens < 1 || state->page_bytes < 1 || state->n_groups < 1)
        return fx_fail(err, FORNAX_EINTERNAL, "kv: a page of %d tokens and %zu bytes in %d groups",
                       (int)state->page_tokens, state->page_bytes, (int)state->n_groups);
    if (n_pages < 1 || n_pages > UINT32_MAX / 4 || n_pages > SIZE_MAX / state->page_bytes)
        return fx_fail(err, FORNAX_EARG, "kv: %u pages of %zu bytes", n_pages, state->page_bytes);
    return FORNAX_OK;
}

fx_status fx_kv_open(fx_kv **out, const fx_mem *mem, const fx_state_table *state, uint32_t n_pages,
                     fx_str identity, fx_error *err)
{
    fx_kv *kv;

    *out = NULL;
    FX_TRY(check_state(state, n_pages, err));
    kv = fx_mem_zalloc(mem, sizeof *kv);
    if (!kv)
        return fx_nomem(err, "the page pool");
    kv->mem = mem;
    kv->page_bytes = state->page_bytes;
    kv->page_tokens = state->page_tokens;
    kv->n_columns = state->n_columns;
    kv->n_groups = state->n_groups;
    memcpy(kv->groups, state->groups, sizeof kv->groups);
    kv->slot_bytes = state->slot_bytes;
    kv->n = kv->n_free = n_pages;
    kv->free = FX_PAGE_NONE;
    kv->root = fx_hash128_of(identity.p, identity.n, 0);
    for (kv->n_buckets = 16; kv->n_buckets < 2 * n_pages; kv->n_buckets *= 2)
        ;
    kv->pages = fx_mem_array(mem, n_pages, sizeof *kv->pages);
    kv->units = fx_mem_array(mem, n_pages, (size_t)kv->page_tokens * sizeof *kv->units);
    kv->buckets = fx_mem_array(mem, kv->n_buckets, sizeof *kv->buckets);
    kv->heap = fx_mem_array(mem, n_pages, sizeof *kv->heap);
    kv->base = fx_pages_alloc((size_t)n_pages * kv->page_bytes);
    if (!kv->pages || !kv->units || !kv->buckets || !kv->heap || !kv->base) {
        fx_kv_close(kv);
        return fx_fail(err, FORNAX_ENOMEM, "no memory for a pool of %u pages, %zu bytes each", n_pages,
                       state->page_bytes);
    }
    memset(kv->buckets, 0xff, kv->n_buckets * sizeof *kv->buckets);   /* FX_PAGE_NONE */
    *out = kv;
    return FORNAX_OK;
}

fx_status fx_kv_add_slots(fx_kv *kv, uint32_t slots, uint32_t snapshots, fx_error *err)
{
    FX_ASSERT(kv->slot_bytes > 0 && !kv->slots.base);
    return fx_slots_init(&kv->slots, kv->mem, kv->slot_bytes, slots, snapshots, err);
}

void fx_kv_close(fx_kv *kv)
{
    if (!kv)
        return;
    fx_slots_done(&kv->slots);
    while (kv->scopes) {
        fx_kv_scope *s = kv->scopes;

        kv->scopes = s->next;
        fx_kv_scope_free(s);
    }
    fx_pages_free(kv->base, (size_t)kv->n * kv->page_bytes);
    fx_mem_free(kv->mem, kv->pages, kv->n * sizeof *kv->pages);
    fx_mem_free(kv->mem, kv->units, (size_t)kv->n * (size_t)kv->page_tokens * sizeof *kv->units);
    fx_mem_free(kv->mem, kv->buckets, kv->n_buckets * sizeof *kv->buckets);
    fx_mem_free(kv->mem, kv->heap, kv->n * sizeof *kv->heap);
    fx_mem_free(kv->mem, kv, sizeof *kv);
}

uint8_t *fx_kv_base(const fx_kv *kv)
{
    return kv->base;
}

size_t fx_kv_page_bytes(const fx_kv *kv)
{
    return kv->page_bytes;
}

int32_t fx_kv_page_tokens(const fx_kv *kv)
{
    return kv->page_tokens;
}

size_t fx_kv_slot_bytes(const fx_kv *kv)
{
    return kv->slot_bytes;
}

int32_t fx_kv_columns(const fx_kv *kv)
{
    return kv->n_columns;
}

int fx_kv_groups(const fx_kv *kv)
{
    return kv->n_groups;
}

const fx_state_group *fx_kv_group(const fx_kv *kv, int g)
{
    return &kv->groups[g];
}

fx_kv_counts fx_kv_count(const fx_kv *kv)
{
    return (fx_kv_counts){ .total = kv->n, .used = kv->n_used, .cached = kv->n_cached, .free = kv->n_free };
}

uint32_t fx_kv_room(const fx_kv *kv)
{
    return kv->n_free + kv->n_cached;
}

#define TOUCH_STEP ((size_t)2 << 20)         /* a huge page */
#define SMALL_PAGE 4096

bool fx_kv_touch(fx_kv *kv, size_t ahead)
{
    size_t used = (size_t)kv->n_touched * kv->page_bytes, end = (size_t)kv->n * kv->page_bytes;
    size_t given_back = (size_t)(kv->n_free - (kv->n - kv->n_touched)) * kv->page_bytes;

    end = FX_MIN(end, used + (ahead > given_back ? ahead - given_back : 0));
    kv->in_memory = FX_MAX(kv->in_memory, used);
    if (kv->in_memory >= end)
        return false;
    for (end = FX_MIN(end, kv->in_memory + TOUCH_STEP); kv->in_memory < end; kv->in_memory += SMALL_PAGE)
        *(volatile uint8_t *)(kv->base + kv->in_memory) = 0;
    return true;
}

/* ---- Pages ---------------------------------------------------------------------- */

static fx_page *bucket_of(const fx_kv *kv, const fx_hash128 *key)
{
    return &kv->buckets[key->lo & (kv->n_buckets - 1)];
}

static int32_t *units_of(const fx_kv *kv, fx_page p)
{
    return kv->units + (size_t)p * (size_t)kv->page_tokens;
}

static uint32_t pages_of(const fx_kv *kv, const kv_page *set)
{
    return (uint32_t)kv->groups[set->group].n;
}

static void free_set(fx_kv *kv, fx_page p)
{
    while (p != FX_PAGE_NONE) {
        fx_page more = kv->pages[p].more;

        kv->pages[p].next = kv->free;
        kv->free = p;
        kv->n_free++;
        p = more;
    }
}

/* Whether what the tree holds of sets may have holes: parents that went before their children. */
static bool has_holes(const fx_kv *kv) { return kv->groups[0].window > 0; }

/* The set's parent, or FX_PAGE_NONE if it has none or none any more. */
static fx_page parent_of(const fx_kv *kv, const kv_page *page)
{
    const kv_page *parent = page->parent == FX_PAGE_NONE ? NULL : &kv->pages[page->parent];

    return parent && parent->in_tree && parent->id == page->parent_id ? page->parent : FX_PAGE_NONE;
}

/* The newest of the children of a set of the tree, or of its scope's first sets. */
static fx_page newest_child(const fx_kv *kv, fx_page parent, const fx_kv_scope *s)
{
    return parent == FX_PAGE_NONE ? s->child : kv->pages[parent].child;
}

static void set_newest_child(fx_kv *kv, fx_page parent, fx_kv_scope *s, fx_page p)
{
    if (parent == FX_PAGE_NONE)
        s->child = p;
    else
        kv->pages[parent].child = p;
}

static void add_child(fx_kv *kv, fx_page p)
{
    kv_page *page = &kv->pages[p];

    if (has_holes(kv))
        return;
    page->older = newest_child(kv, page->parent, page->scope);
    if (page->older != FX_PAGE_NONE)
        kv->pages[page->older].newer = p;
    set_newest_child(kv, page->parent, page->scope, p);
}

static void remove_child(fx_kv *kv, fx_page p)
{
    kv_page *page = &kv->pages[p];

    if (has_holes(kv))
        return;
    if (page->newer != FX_PAGE_NONE)
        kv->pages[page->newer].older = page->older;
    else
        set_newest_child(kv, page->parent, page->scope, page->older);
    if (page->older != FX_PAGE_NONE)
        kv->pages[page->older].newer = page->newer;
    page->newer = page->older = FX_PAGE_NONE;
}

static bool is_evictable(const fx_kv *kv, const kv_page *page)
{
    return page->in_tree && page->refs == 0 && (page->children == 0 || has_holes(kv));
}

static void take_snapshot_off(fx_kv *kv, kv_page *page)
{
    if (page->snapshot != FX_SNAPSHOT_NONE)
        fx_slots_give(&kv->slots, page->snapshot);
    page->snapshot = FX_SNAPSHOT_NONE;
}

/* Out of its hash chain and of its parent's children, who may become a leaf. */
static void take_out_of_tree(fx_kv *kv, fx_page p)
{
    kv_page *page = &kv->pages[p];
    fx_page *at = bucket_of(kv, &page->key);

    take_snapshot_off(kv, page);
    while (*at != p)
        at = &kv->pages[*at].next;
    *at = page->next;
    remove_child(kv, p);
    if (parent_of(kv, page) != FX_PAGE_NONE) {
        kv_page *parent = &kv->pages[page->parent];

        parent->children--;
        if (is_evictable(kv, parent) && parent->heap_at == NOT_IN_HEAP)
            heap_add(kv, page->parent);
    }
    fx_kv_scope_leave(kv, page->scope);
    page->scope = NULL;
}

/* A cached set, and what hangs on it, becomes free. */
static void evict(fx_kv *kv, fx_page p)
{
    kv_page *page = &kv->pages[p];

    FX_ASSERT(is_evictable(kv, page));
    if (page->hung != FX_PAGE_NONE)
        evict(kv, page->hung);
    heap_remove(kv, p);
    if (page->group == 0)
        take_out_of_tree(kv, p);
    else
        kv->pages[page->parent].hung = FX_PAGE_NONE;
    page->in_tree = false;
    kv->n_cached -= pages_of(kv, page);
    free_set(kv, p);
}

static fx_page take_page(fx_kv *kv, fx_page more)
{
    fx_page p = kv->free;

    if (p != FX_PAGE_NONE)
        kv->free = kv->pages[p].next;
    else
        p = kv->n_touched++;
    kv->n_free--;
    kv->pages[p] = (kv_page){ .parent = FX_PAGE_NONE, .next = FX_PAGE_NONE, .more = more, .hung = FX_PAGE_NONE,
                              .child = FX_PAGE_NONE, .newer = FX_PAGE_NONE, .older = FX_PAGE_NONE,
                              .heap_at = NOT_IN_HEAP, .snapshot = FX_SNAPSHOT_NONE };
    return p;
}

fx_page fx_kv_take(fx_kv *kv, int group)
{
    uint32_t n = (uint32_t)kv->groups[group].n;
    fx_page p = FX_PAGE_NONE;

    FX_ASSERT(group < kv->n_groups);
    if (fx_kv_room(kv) < n)
        return FX_PAGE_NONE;
    while (kv->n_free < n)
        evict(kv, kv->heap[0]);
    for (uint32_t i = 0; i < n; i++)
        p = take_page(kv, p);
    kv->n_used += n;
    kv->pages[p].refs = 1;
    kv->pages[p].group = (uint8_t)group;
    return p;
}

void fx_kv_list(const fx_kv *kv, fx_page set, fx_page *at)
{
    for (; set != FX_PAGE_NONE; set = kv->pages[set].more)
        *at++ = set;
}

void fx_kv_ref(fx_kv *kv, fx_page p)
{
    kv_page *page = &kv->pages[p];

    FX_ASSERT(p < kv->n_touched && (page->refs > 0 || page->in_tree));
    if (page->refs++ > 0)
        return;
    kv->n_cached -= pages_of(kv, page);
    kv->n_used += pages_of(kv, page);
    if (page->heap_at != NOT_IN_HEAP)
        heap_remove(kv, p);
}

static void drop(fx_kv *kv, fx_page p, uint64_t likely)
{
    kv_page *page = &kv->pages[p];

    FX_ASSERT(p < kv->n_touched && page->refs > 0);
    if (--page->refs > 0)
        return;
    kv->n_used -= pages_of(kv, page);
    if (!page->in_tree) {
        free_set(kv, p);
        return;
    }
    kv->n_cached += pages_of(kv, page);
    page->used_at = ++kv->clock + likely;
    if (is_evictable(kv, page))
        heap_add(kv, p);
}

void fx_kv_drop(fx_kv *kv, fx_page p)
{
    drop(kv, p, LIKELY);
}

void fx_kv_drop_unlikely(fx_kv *kv, fx_page p)
{
    drop(kv, p, 0);
}

uint32_t fx_kv_refs(const fx_kv *kv, fx_page p)
{
    return kv->pages[p].refs;
}

void fx_kv_copy(fx_kv *kv, fx_page to, fx_page from)
{
    FX_ASSERT(to != from && kv->pages[to].refs == 1 && !kv->pages[to].in_tree);
    FX_ASSERT(kv->pages[to].group == kv->pages[from].group);
    for (; to != FX_PAGE_NONE; to = kv->pages[to].more, from = kv->pages[from].more)
        memcpy(kv->base + (size_t)to * kv->page_bytes, kv->base + (size_t)from * kv->page_bytes, kv->page_bytes);
}

/* ---- The tree -------------------------------------------------------------------- */

fx_hash128 fx_kv_key(const fx_kv *kv, const fx_kv_scope *s, const fx_hash128 *before, const int32_t *units)
{
    fx_hash128 chain[3];
    fx_hash128 own = fx_hash128_of(units, (size_t)kv->page_tokens * sizeof *units, 0);

    if (before) {
        chain[0] = *before;
        chain[1] = own;
        return fx_hash128_of(chain, 2 * sizeof *chain, 2);
    }
    chain[0] = kv->root;
    chain[1] = s->hash;
    chain[2] = own;
    return fx_hash128_of(chain, sizeof chain, 1);
}

fx_page fx_kv_find(const fx_kv *kv, const fx_kv_scope *s, fx_page parent, const fx_hash128 *key,
                   const int32_t *units)
{
    size_t bytes = (size_t)kv->page_tokens * sizeof *units;
    uint64_t parent_id = parent == FX_PAGE_NONE ? 0 : kv->pages[parent].id;

    for (fx_page p = *bucket_of(kv, key); p != FX_PAGE_NONE; p = kv->pages[p].next) {
        const kv_page *page = &kv->pages[p];

        if (page->key.lo == key->lo && page->key.hi == key->hi && page->parent == parent &&
            page->parent_id == parent_id && page->scope == s && memcmp(units_of(kv, p), units, bytes) == 0)
            return p;
    }
    return FX_PAGE_NONE;
}

fx_page fx_kv_find_beginning(const fx_kv *kv, const fx_kv_scope *s, fx_page parent, const int32_t *units, int32_t n,
                             int32_t *m)
{
    fx_page best = FX_PAGE_NONE, p = newest_child(kv, parent, s);

    FX_ASSERT(n <= kv->page_tokens);
    *m = 0;
    for (int i = 0; i < FX_KV_SIBLINGS && p != FX_PAGE_NONE && *m < n; i++, p = kv->pages[p].older) {
        const int32_t *own = units_of(kv, p);
        int32_t same = 0;

        while (same < n && own[same] == units[same])
            same++;
        if (same > *m) {
            *m = same;
            best = p;
        }
    }
    return best;
}

bool fx_kv_ends_at(const fx_kv *kv, fx_page p, int32_t m)
{
    return m == kv->page_tokens || units_of(kv, p)[m] < 0;
}

void fx_kv_renew(fx_kv *kv, fx_page p)
{
    FX_ASSERT(kv->pages[p].in_tree && kv->pages[p].group == 0);
    remove_child(kv, p);
    add_child(kv, p);
    fx_kv_ref(kv, p);
    fx_kv_drop(kv, p);
}

fx_page fx_kv_insert(fx_kv *kv, fx_kv_scope *s, fx_page parent, const fx_hash128 *key, const int32_t *units,
                     fx_page p)
{
    kv_page *page = &kv->pages[p];
    fx_page known = fx_kv_find(kv, s, parent, key, units);
    fx_page *bucket = bucket_of(kv, key);

    FX_ASSERT(page->refs > 0 && !page->in_tree && page->group == 0);
    if (known != FX_PAGE_NONE) {
        fx_kv_renew(kv, known);
        fx_kv_ref(kv, known);
        fx_kv_drop(kv, p);
        return known;
    }
    if (parent != FX_PAGE_NONE) {
        FX_ASSERT(kv->pages[parent].in_tree && kv->pages[parent].refs > 0);
        kv->pages[parent].children++;
    }
    memcpy(units_of(kv, p), units, (size_t)kv->page_tokens * sizeof *units);
    page->key = *key;
    page->parent = parent;
    page->parent_id = parent == FX_PAGE_NONE ? 0 : kv->pages[parent].id;
    page->id = ++kv->ids;
    page->scope = s;
    s->refs++;
    page->in_tree = true;
    page->next = *bucket;
    *bucket = p;
    add_child(kv, p);
    return p;
}

fx_page fx_kv_hang(fx_kv *kv, fx_page p, fx_page set)
{
    kv_page *page = &kv->pages[p], *hung = &kv->pages[set];

    FX_ASSERT(page->in_tree && page->refs > 0 && page->group == 0);
    FX_ASSERT(hung->refs > 0 && !hung->in_tree && hung->group == 1);
    if (page->hung != FX_PAGE_NONE) {
        fx_kv_ref(kv, page->hung);
        fx_kv_drop(kv, set);
        return page->hung;
    }
    page->hung = set;
    hung->parent = p;
    hung->in_tree = true;
    return set;
}

fx_page fx_kv_hung(const fx_kv *kv, fx_page p)
{
    return kv->pages[p].hung;
}

void fx_kv_forget(fx_kv *kv)
{
    while (kv->n_heap > 0)
        evict(kv, kv->heap[0]);
}

/* ---- Slots and snapshots ------------------------------------------------------------ */

uint8_t *fx_kv_slot_take(fx_kv *kv)
{
    uint8_t *slot;

    FX_ASSERT(kv->slots.n_free_slots > 0);
    slot = kv->slots.base + (size_t)kv->slots.free_slots[--kv->slots.n_free_slots] * kv->slot_bytes;
    memset(slot, 0, kv->slot_bytes);
    return slot;
}

void fx_kv_slot_drop(fx_kv *kv, uint8_t *slot)
{
    FX_ASSERT(kv->slots.n_free_slots < kv->slots.n_slots);
    kv->slots.free_slots[kv->slots.n_free_slots++] = (uint32_t)((size_t)(slot - kv->slots.base) / kv->slot_bytes);
}

uint8_t *fx_kv_snapshot_take(fx_kv *kv, bool likely)
{
    uint32_t i = fx_slots_take_free(&kv->slots);

    if (i == FX_SNAPSHOT_NONE && likely && kv->slots.n_attached > 0) {
        take_snapshot_off(kv, &kv->pages[kv->slots.snapshots[kv->slots.last].page]);
        i = fx_slots_take_free(&kv->slots);
    }
    if (i == FX_SNAPSHOT_NONE)
        return NULL;
    kv->slots.snapshots[i].likely = likely;
    return fx_slots_snapshot_at(&kv->slots, i);
}

void fx_kv_snapshot_drop(fx_kv *kv, uint8_t *snapshot)
{
    fx_slots_give(&kv->slots, fx_slots_snapshot_of(&kv->slots, snapshot));
}

void fx_kv_snapshot_attach(fx_kv *kv, fx_page p, uint8_t *snapshot)
{
    kv_page *page = &kv->pages[p];
    uint32_t i = fx_slots_snapshot_of(&kv->slots, snapshot);

    FX_ASSERT(page->in_tree);
    if (page->snapshot != FX_SNAPSHOT_NONE) {
        fx_slots_give(&kv->slots, i);
        return;
    }
    page->snapshot = i;
    fx_slots_attach(&kv->slots, i, p);
}

uint8_t *fx_kv_snapshot_detach(fx_kv *kv, fx_page p)
{
    if (kv->pages[p].snapshot == FX_SNAPSHOT_NONE)
        return NULL;
    take_snapshot_off(kv, &kv->pages[p]);
    return fx_kv_snapshot_take(kv, false);
}

bool fx_kv_has_snapshot(const fx_kv *kv, fx_page p)
{
    return kv->pages[p].snapshot != FX_SNAPSHOT_NONE;
}

void fx_kv_snapshot_load(fx_kv *kv, fx_page p, uint8_t *slot)
{
    FX_ASSERT(fx_kv_has_snapshot(kv, p));
    fx_slots_touch(&kv->slots, kv->pages[p].snapshot);
    memcpy(slot, fx_slots_snapshot_at(&kv->slots, kv->pages[p].snapshot), kv->slot_bytes);
}

uint32_t fx_kv_snapshots(const fx_kv *kv)
{
    return kv->slots.n_attached;
}

/* ---- Self-check -------------------------------------------------------------------- */

/* A set of the tree, in its place there. */
static void check_place(const fx_kv *kv, fx_page p, uint32_t *children)
{
    const kv_page *page = &kv->pages[p];
    fx_page parent = parent_of(kv, page);

    FX_ASSERT(page->scope && page->scope->refs > 0);
    if (page->parent == FX_PAGE_NONE || parent != FX_PAGE_NONE)
        FX_ASSERT(fx_kv_find(kv, page->scope, page->parent, &page->key, units_of(kv, p)) == p);
    else
        FX_ASSERT(has_holes(kv));
    if (parent != FX_PAGE_NONE) {
        FX_ASSERT(has_holes(kv) || page->refs == 0 || kv->pages[parent].refs > 0);
        FX_ASSERT(kv->pages[parent].scope == page->scope);
        children[parent]++;
    }
    if (page->older != FX_PAGE_NONE)
        FX_ASSERT(kv->pages[page->older].newer == p && kv->pages[page->older].parent == page->parent);
    if (page->newer != FX_PAGE_NONE)
        FX_ASSERT(kv->pages[page->newer].older == p);
    else if (!has_holes(kv))
        FX_ASSERT(p == newest_child(kv, parent, page->scope));
    if (page->hung != FX_PAGE_NONE)
        FX_ASSERT(kv->pages[page->hung].in_tree && kv->pages[page->hung].parent == p);
}

static void check_hung(const fx_kv *kv, fx_page p)
{
    const kv_page *page = &kv->pages[p], *on = &kv->pages[page->parent];

    FX_ASSERT(on->in_tree && on->group == 0 && on->hung == p && page->children == 0);
    FX_ASSERT(page->refs <= on->refs);
}

/* A used or cached set; returns the number of its pages. */
static uint32_t check_set(const fx_kv *kv, fx_page p, uint32_t *children)
{
    const kv_page *page = &kv->pages[p];
    bool evictable = is_evictable(kv, page);
    uint32_t n = 0;

    for (fx_page at = p; at != FX_PAGE_NONE; at = kv->pages[at].more, n++)
        FX_ASSERT(at == p || (kv->pages[at].refs == 0 && !kv->pages[at].in_tree));
    FX_ASSERT(n == pages_of(kv, page));
    FX_ASSERT((page->heap_at != NOT_IN_HEAP) == evictable);
    FX_ASSERT(page->snapshot == FX_SNAPSHOT_NONE ||
              (page->in_tree && kv->slots.snapshots[page->snapshot].page == p));
    if (evictable)
        FX_ASSERT(page->heap_at < kv->n_heap && kv->heap[page->heap_at] == p);
    if (page->in_tree && page->group == 0 && children)
        check_place(kv, p, children);
    if (page->in_tree && page->group > 0)
        check_hung(kv, p);
    return n;
}

void fx_kv_check(const fx_kv *kv)
{
    uint32_t *children = fx_mem_array(kv->mem, kv->n, sizeof *children);
    uint32_t used = 0, cached = 0, snapshots = 0, free = kv->n - kv->n_touched;

    for (fx_page p = kv->free; p != FX_PAGE_NONE; p = kv->pages[p].next) {
        FX_ASSERT(kv->pages[p].refs == 0 && !kv->pages[p].in_tree);
        free++;
    }
    for (fx_page p = 0; p < kv->n_touched; p++) {
        const kv_page *page = &kv->pages[p];

        if (page->refs > 0)
            used += check_set(kv, p, children);
        else if (page->in_tree)
            cached += check_set(kv, p, children);
        snapshots += page->in_tree && page->snapshot != FX_SNAPSHOT_NONE;
    }
    FX_ASSERT(free == kv->n_free && used == kv->n_used && cached == kv->n_cached);
    FX_ASSERT(free + used + cached == kv->n);
    FX_ASSERT(snapshots == kv->slots.n_attached && snapshots + kv->slots.n_free <= kv->slots.n_snapshots);
    for (fx_page p = 0; children && p < kv->n_touched; p++)
        FX_ASSERT(!kv->pages[p].in_tree || kv->pages[p].children == children[p]);
    for (uint32_t i = 1; i < kv->n_heap; i++)
        FX_ASSERT(!older(kv, kv->heap[i], kv->heap[(i - 1) / 2]));
    fx_mem_free(kv->mem, children, kv->n * sizeof *children);
}
