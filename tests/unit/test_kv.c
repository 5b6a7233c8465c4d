/* test_kv.c - the page pool and prefix tree: invariants under random use, eviction order,
 * what makes pages different. */
#include <sys/mman.h>

#include "fxtest.h"
#include "kv/kv.h"

#define PT 4

static fx_state_layer layer = { .kind = FX_STATE_FULL };
static const fx_state_table table = { .n_layers = 1, .layers = &layer, .page_tokens = PT, .page_bytes = 64,
                                      .n_columns = 1, .n_groups = 1, .groups = { { .n = 1 } } };

static fx_kv *open_kv(uint32_t pages)
{
    fx_kv *kv = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_kv_open(&kv, &fx_mem_libc, &table, pages, FX_STR("model"), &err), err);
    return kv;
}

static fx_kv_scope *scope(fx_kv *kv, const char *adapter, const char *salt)
{
    return fx_kv_scope_join(kv, fx_kv_scope_new(&fx_mem_libc, fx_str_of(adapter), fx_str_of(salt)));
}

static uint64_t state = 0x123456789abcdefu;
static uint32_t rnd(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 20) % n;
}

#define MOST 12
typedef struct seq {
    int32_t units[MOST * PT];
    fx_page pages[MOST];
    fx_hash128 keys[MOST];
    int n;
    fx_kv_scope *scope;
    uint64_t mark;          /* of the scope: what its pages hold begins with it */
} seq;

/* The content a page with this history must have. */
static uint64_t content(const seq *s, int page)
{
    uint64_t h = s->mark;

    for (int i = 0; i < (page + 1) * PT; i++)
        h = h * 1099511628211u + (uint64_t)s->units[i] + 1;
    return h;
}

static uint64_t *bytes(fx_kv *kv, fx_page p)
{
    return (uint64_t *)(void *)(fx_kv_base(kv) + (size_t)p * fx_kv_page_bytes(kv));
}

static void add_page(fx_kv *kv, seq *s)
{
    int i = s->n;
    fx_page parent = i ? s->pages[i - 1] : FX_PAGE_NONE, p;

    s->keys[i] = fx_kv_key(kv, s->scope, i ? &s->keys[i - 1] : NULL, s->units + i * PT);
    p = fx_kv_find(kv, s->scope, parent, &s->keys[i], s->units + i * PT);
    if (p != FX_PAGE_NONE && rnd(4) > 0) {
        fx_kv_ref(kv, p);
    } else {
        p = fx_kv_take(kv, 0);
        if (p == FX_PAGE_NONE)
            return;
        *bytes(kv, p) = content(s, i);
        p = fx_kv_insert(kv, s->scope, parent, &s->keys[i], s->units + i * PT, p);
    }
    s->pages[s->n++] = p;
    CHECK(*bytes(kv, p) == content(s, i));
}

static void drop_all(fx_kv *kv, seq *s)
{
    while (s->n > 0)
        fx_kv_drop(kv, s->pages[--s->n]);
}

TEST(random_use_keeps_the_invariants)
{
    fx_kv *kv = open_kv(40);
    fx_kv_scope *scopes[3] = { scope(kv, "", ""), scope(kv, "", "salt"), scope(kv, "s", "alt") };
    seq seqs[8] = { 0 };

    CHECK(scopes[1] != scopes[2]);
    for (int op = 0; op < 30000; op++) {
        seq *s = &seqs[rnd(8)];

        if (s->n == 0) {
            uint32_t which = rnd(3);

            for (int i = 0; i < MOST * PT; i++)
                s->units[i] = (int32_t)rnd(i % PT == 0 ? 2 : 1);    /* few different histories */
            s->scope = scopes[which];
            s->mark = which;
            add_page(kv, s);
        } else if (s->n == MOST || rnd(6) == 0) {
            drop_all(kv, s);
        } else {
            add_page(kv, s);
        }
        for (int i = 0; i < s->n; i++)
            CHECK(*bytes(kv, s->pages[i]) == content(s, i));
        if (op % 7 == 0)
            fx_kv_check(kv);
        if (op % 1000 == 0)
            fx_kv_forget(kv);
    }
    for (int i = 0; i < 8; i++)
        drop_all(kv, &seqs[i]);
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_count(kv).used, 0);
    fx_kv_forget(kv);
    CHECK_EQ_I64(fx_kv_count(kv).free, 40);
    for (int i = 0; i < 3; i++)
        fx_kv_scope_leave(kv, scopes[i]);
    fx_kv_close(kv);
}

TEST(eviction_is_least_recent_and_leaf_first)
{
    fx_kv *kv = open_kv(6);
    seq a = { .units = { 1 } }, b = { .units = { 2 } };
    fx_page first_a, p;

    a.scope = b.scope = scope(kv, "", "");
    for (int i = 0; i < 3; i++)
        add_page(kv, &a);
    for (int i = 0; i < 2; i++)
        add_page(kv, &b);
    first_a = a.pages[0];
    drop_all(kv, &a);                               /* older than b's */
    drop_all(kv, &b);
    CHECK_EQ_I64(fx_kv_count(kv).cached, 5);
    CHECK_EQ_I64(fx_kv_room(kv), 6);
    p = fx_kv_take(kv, 0);                             /* the free one */
    CHECK_EQ_I64(fx_kv_count(kv).cached, 5);
    CHECK(fx_kv_take(kv, 0) == a.pages[2]);
    CHECK(fx_kv_take(kv, 0) == a.pages[1]);
    CHECK(fx_kv_take(kv, 0) == first_a);
    CHECK(fx_kv_take(kv, 0) == b.pages[1]);
    CHECK(fx_kv_find(kv, b.scope, FX_PAGE_NONE, &b.keys[0], b.units) == b.pages[0]);
    CHECK(fx_kv_take(kv, 0) == b.pages[0]);
    CHECK(fx_kv_take(kv, 0) == FX_PAGE_NONE);
    CHECK(fx_kv_find(kv, b.scope, FX_PAGE_NONE, &b.keys[0], b.units) == FX_PAGE_NONE);
    fx_kv_check(kv);
    fx_kv_drop(kv, p);
    fx_kv_scope_leave(kv, a.scope);
    fx_kv_close(kv);
}

static fx_page insert(fx_kv *kv, fx_kv_scope *s, fx_page parent, const int32_t *units)
{
    fx_hash128 key = fx_kv_key(kv, s, NULL, units);      /* any will do */

    return fx_kv_insert(kv, s, parent, &key, units, fx_kv_take(kv, 0));
}

TEST(the_longest_beginning_is_found)
{
    static const int32_t units[][PT] = { { 1, 2, 3, 4 }, { 1, 2, 5, 6 }, { 1, 2, 3, -1 }, { 7, 8, 9, 9 } };
    static const struct {
        int32_t units[PT];
        int n, set, m;                   /* set -1: none */
    } rows[] = {
        { { 1, 2, 3, 4 }, 4, 0, 4 }, { { 1, 2, 3, 5 }, 4, 2, 3 }, { { 1, 2, 5, 5 }, 4, 1, 3 },   { { 7, 8, 9, 9 }, 2, 3, 2 },
        { { 1, 9, 9, 9 }, 4, 2, 1 }, { { 2, 2, 3, 4 }, 4, -1, 0 }, { { 1, 2, 3, 4 }, 0, -1, 0 },
    };
    fx_kv *kv = open_kv(200);
    fx_kv_scope *s = scope(kv, "", ""), *other = scope(kv, "", "salt");

    for (int depth = 0; depth < 2; depth++) {            /* first pages, and those after another */
        fx_page parent = depth ? insert(kv, s, FX_PAGE_NONE, (const int32_t[PT]){ 50, 50, 50, 50 }) : FX_PAGE_NONE, set[4];
        int32_t m;

        for (int i = 0; i < 4; i++)
            set[i] = insert(kv, s, parent, units[i]);
        for (size_t i = 0; i < FX_COUNT(rows); i++) {
            fx_page p = fx_kv_find_beginning(kv, s, parent, rows[i].units, rows[i].n, &m);

            CHECK(p == (rows[i].set < 0 ? FX_PAGE_NONE : set[rows[i].set]));
            CHECK_EQ_I64(m, rows[i].m);
        }
        if (depth == 0)
            CHECK(fx_kv_find_beginning(kv, other, parent, units[0], PT, &m) == FX_PAGE_NONE);
        fx_kv_check(kv);
        for (int32_t i = 0; i < FX_KV_SIBLINGS - 1; i++)         /* only the newest are looked at */
            fx_kv_drop(kv, insert(kv, s, parent, (const int32_t[PT]){ 60, i, i, i }));
        CHECK(fx_kv_find_beginning(kv, s, parent, units[0], PT, &m) == FX_PAGE_NONE);
        CHECK(fx_kv_find_beginning(kv, s, parent, units[3], PT, &m) == set[3]);
        fx_kv_renew(kv, set[0]);                                 /* by that it is the newest */
        CHECK(fx_kv_find_beginning(kv, s, parent, units[0], PT, &m) == set[0]);
        CHECK(fx_kv_find_beginning(kv, s, parent, units[3], PT, &m) == FX_PAGE_NONE);
        CHECK(fx_kv_ends_at(kv, set[0], 4) && !fx_kv_ends_at(kv, set[0], 3) && fx_kv_ends_at(kv, set[2], 3) && !fx_kv_ends_at(kv, set[2], 2));
        for (int i = 0; i < 4; i++)
            fx_kv_drop(kv, set[i]);
        if (depth)
            fx_kv_drop(kv, parent);
        fx_kv_forget(kv);
        fx_kv_check(kv);
        if (depth == 0)
            CHECK(fx_kv_find_beginning(kv, s, parent, units[0], PT, &m) == FX_PAGE_NONE);
    }
    fx_kv_scope_leave(kv, s);
    fx_kv_scope_leave(kv, other);
    fx_kv_close(kv);
}

static bool in_memory(uint8_t *p, size_t n)
{
    static unsigned char pages[1 << 16];

    CHECK(n / 4096 <= sizeof pages && mincore(p, n, pages) == 0);
    for (size_t i = 0; i < n / 4096; i++)
        if (!(pages[i] & 1))
            return false;
    return true;
}

/* What is touched is free: used pages keep what they hold. */
TEST(memory_is_touched_ahead)
{
    enum { PAGES = 450 };
    fx_state_table big = table;
    fx_error err = { 0 };
    fx_kv *kv = NULL;
    fx_page used[PAGES];
    int n = 0;

    big.page_bytes = 65536;
    CHECK_OK(fx_kv_open(&kv, &fx_mem_libc, &big, PAGES, FX_STR("m"), &err), err);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 70; i++)
            memset(fx_kv_base(kv) + (size_t)(used[n++] = fx_kv_take(kv, 0)) * big.page_bytes, 0x5a, big.page_bytes);
        for (int steps = 0; fx_kv_touch(kv, (size_t)8 << 20); steps++)
            REQUIRE(steps < 5);          /* of 2 MiB */
        CHECK(!fx_kv_touch(kv, 0));
        CHECK(in_memory(fx_kv_base(kv) + (size_t)n * big.page_bytes, (size_t)8 << 20));
        CHECK(!in_memory(fx_kv_base(kv) + (size_t)n * big.page_bytes, (size_t)12 << 20));
    }
    for (int i = 0; i < n; i++)
        for (size_t at = 0; at < big.page_bytes; at += 512)
            CHECK(fx_kv_base(kv)[used[i] * big.page_bytes + at] == 0x5a);
    for (int i = 0; i < 150; i++)        /* what came back will do */
        fx_kv_drop(kv, used[--n]);
    CHECK(!fx_kv_touch(kv, (size_t)8 << 20));
    CHECK(fx_kv_touch(kv, SIZE_MAX / 4));
    while (fx_kv_touch(kv, SIZE_MAX / 4))
        ;
    while (n > 0)
        fx_kv_drop(kv, used[--n]);
    fx_kv_close(kv);
}

/* Equal keys are not enough: scope, parent and units are compared. */
TEST(a_collision_is_a_miss)
{
    fx_kv *kv = open_kv(4);
    fx_kv_scope *s = scope(kv, "", ""), *other = scope(kv, "", "x");
    const int32_t units[PT] = { 1, 2, 3, 4 }, more[PT] = { 1, 2, 3, 5 };
    fx_hash128 key = fx_kv_key(kv, s, NULL, units);
    fx_page p = fx_kv_take(kv, 0);

    CHECK(fx_kv_insert(kv, s, FX_PAGE_NONE, &key, units, p) == p);
    CHECK(fx_kv_find(kv, s, FX_PAGE_NONE, &key, units) == p);
    CHECK(fx_kv_find(kv, s, FX_PAGE_NONE, &key, more) == FX_PAGE_NONE);
    CHECK(fx_kv_find(kv, s, p, &key, units) == FX_PAGE_NONE);
    CHECK(fx_kv_find(kv, other, FX_PAGE_NONE, &key, units) == FX_PAGE_NONE);
    fx_kv_drop(kv, p);
    fx_kv_scope_leave(kv, s);
    fx_kv_scope_leave(kv, other);
    fx_kv_close(kv);
}

TEST(keys_differ_by_model_scope_and_history)
{
    fx_kv *kv = open_kv(1), *kv2 = NULL;
    const int32_t units[PT] = { 1, 2, 3, 4 };
    fx_kv_scope *s = scope(kv, "", ""), *salted = scope(kv, "", "x"), *s2;
    fx_hash128 a = fx_kv_key(kv, s, NULL, units), b = fx_kv_key(kv, salted, NULL, units);
    fx_hash128 c = fx_kv_key(kv, s, &a, units), d;

    CHECK(fx_kv_open(&kv2, &fx_mem_libc, &table, 1, FX_STR("other model"), NULL) == FORNAX_OK);
    s2 = scope(kv2, "", "");
    d = fx_kv_key(kv2, s2, NULL, units);
    CHECK(a.lo != b.lo && a.lo != c.lo && a.lo != d.lo);
    fx_kv_scope_leave(kv, s);
    fx_kv_scope_leave(kv, salted);
    fx_kv_scope_leave(kv2, s2);
    fx_kv_close(kv);
    fx_kv_close(kv2);
}

static fx_kv *open_kind(fx_state_kind kind, uint32_t pages)
{
    fx_state_layer layers[2] = { { .kind = kind, .window = 6 }, { .kind = FX_STATE_NONE } };
    fx_state_table t = { .n_layers = 2, .layers = layers, .page_tokens = PT, .page_bytes = 64,
                         .slot_bytes = kind == FX_STATE_RECURRENT ? 128 : 0, .n_columns = 1, .n_groups = 1,
                         .groups = { { .window = kind == FX_STATE_WINDOW ? 6 : 0, .n = 1 } } };
    fx_kv *kv = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_kv_open(&kv, &fx_mem_libc, &t, pages, FX_STR("m"), &err), err);
    return kv;
}

/* A chain of n pages in the tree, all referred to. */
static void make_chain(fx_kv *kv, fx_kv_scope *s, int n, fx_page *pages, fx_hash128 *keys)
{
    for (int i = 0; i < n; i++) {
        const int32_t units[PT] = { i, i, i, i };

        keys[i] = fx_kv_key(kv, s, i ? &keys[i - 1] : NULL, units);
        pages[i] = fx_kv_insert(kv, s, i ? pages[i - 1] : FX_PAGE_NONE, &keys[i], units, fx_kv_take(kv, 0));
    }
}

TEST(a_parent_behind_the_window_may_go_first)
{
    fx_kv *kv = open_kind(FX_STATE_WINDOW, 4);
    fx_kv_scope *s = scope(kv, "", "");
    const int32_t third[PT] = { 2, 2, 2, 2 };
    fx_page pages[3], taken[2];
    fx_hash128 keys[3];

    make_chain(kv, s, 3, pages, keys);
    fx_kv_drop(kv, pages[0]);
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_room(kv), 2);
    taken[0] = fx_kv_take(kv, 0);
    taken[1] = fx_kv_take(kv, 0);                    /* the parent's page */
    CHECK(taken[1] == pages[0] && fx_kv_take(kv, 0) == FX_PAGE_NONE);
    fx_kv_check(kv);
    CHECK(fx_kv_find(kv, s, pages[1], &keys[2], third) == pages[2]);
    fx_kv_drop(kv, taken[0]);
    make_chain(kv, s, 1, taken, keys);            /* the same units again: another page of the tree */
    fx_kv_check(kv);
    CHECK(fx_kv_find(kv, s, taken[0], &keys[1], (const int32_t[PT]){ 1, 1, 1, 1 }) == FX_PAGE_NONE);
    fx_kv_drop(kv, taken[0]);
    fx_kv_drop(kv, taken[1]);
    fx_kv_drop(kv, pages[2]);
    fx_kv_drop(kv, pages[1]);
    fx_kv_forget(kv);
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_count(kv).free, 4);
    fx_kv_scope_leave(kv, s);
    fx_kv_close(kv);
}

static fx_kv *open_two_groups(uint32_t pages)
{
    fx_state_table t = { .page_tokens = PT, .page_bytes = 64, .n_columns = 3, .n_groups = 2,
                         .groups = { { .n = 1 }, { .window = 6, .first = 1, .n = 2 } } };
    fx_kv *kv = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_kv_open(&kv, &fx_mem_libc, &t, pages, FX_STR("m"), &err), err);
    return kv;
}

/* Sets of the second group hang on those of the tree, go before them where they were dropped as unlikely, by use else, and
 * with them at the latest. */
TEST(what_hangs_on_the_tree_goes_by_itself)
{
    fx_kv *kv = open_two_groups(10);
    fx_kv_scope *s = scope(kv, "", "");
    fx_page pages[3], hung[3], two[2], p;
    fx_hash128 keys[3];

    make_chain(kv, s, 3, pages, keys);
    for (int i = 0; i < 3; i++)
        hung[i] = fx_kv_hang(kv, pages[i], fx_kv_take(kv, 1));
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_count(kv).used, 9);
    CHECK(fx_kv_take(kv, 1) == FX_PAGE_NONE);     /* one page is free, two are needed */
    CHECK_EQ_I64(fx_kv_room(kv), 1);
    fx_kv_list(kv, hung[1], two);
    CHECK(two[0] == hung[1] && two[1] != hung[1]);
    fx_kv_drop(kv, hung[0]);
    fx_kv_drop_unlikely(kv, hung[1]);
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_count(kv).cached, 4);
    p = fx_kv_take(kv, 1);                        /* the free one, and the set that is unlikely to be of use */
    CHECK(fx_kv_hung(kv, pages[1]) == FX_PAGE_NONE && fx_kv_hung(kv, pages[0]) == hung[0]);
    fx_kv_check(kv);
    CHECK(fx_kv_hang(kv, pages[1], p) == p);
    hung[1] = p;
    p = fx_kv_take(kv, 1);
    CHECK(p != FX_PAGE_NONE && fx_kv_hung(kv, pages[0]) == FX_PAGE_NONE);
    CHECK(fx_kv_hang(kv, pages[1], p) == hung[1]);        /* it has one: that is referred to, this one is free */
    CHECK_EQ_I64(fx_kv_refs(kv, hung[1]), 2);
    CHECK_EQ_I64(fx_kv_room(kv), 3);
    fx_kv_drop(kv, hung[1]);
    fx_kv_drop(kv, hung[1]);
    for (int i = 2; i >= 0; i--) {
        if (i == 2)
            fx_kv_drop(kv, hung[i]);
        fx_kv_drop(kv, pages[i]);
    }
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_count(kv).used, 0);
    for (int i = 0; i < 5; i++)                   /* 3 free, then hung[1], hung[2], and a leaf of the tree */
        CHECK(fx_kv_take(kv, i < 3 ? 1 : 0) != FX_PAGE_NONE);
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_count(kv).used, 8);
    CHECK(fx_kv_find(kv, s, FX_PAGE_NONE, &keys[0], (const int32_t[PT]){ 0 }) == pages[0]);
    CHECK(fx_kv_find(kv, s, pages[1], &keys[2], (const int32_t[PT]){ 2, 2, 2, 2 }) == FX_PAGE_NONE);
    fx_kv_forget(kv);
    CHECK_EQ_I64(fx_kv_count(kv).cached, 0);
    fx_kv_scope_leave(kv, s);
    fx_kv_close(kv);
}

TEST(copies_are_of_all_of_a_set)
{
    fx_kv *kv = open_two_groups(4);
    fx_page a = fx_kv_take(kv, 1), b = fx_kv_take(kv, 1), at[2];

    fx_kv_list(kv, a, at);
    *bytes(kv, at[0]) = 7;
    *bytes(kv, at[1]) = 8;
    fx_kv_copy(kv, b, a);
    fx_kv_list(kv, b, at);
    CHECK(*bytes(kv, at[0]) == 7 && *bytes(kv, at[1]) == 8);
    fx_kv_drop(kv, a);
    fx_kv_drop(kv, b);
    CHECK_EQ_I64(fx_kv_count(kv).free, 4);
    fx_kv_close(kv);
}

TEST(snapshots_go_with_their_page_or_give_way)
{
    fx_kv *kv = open_kind(FX_STATE_RECURRENT, 8);
    fx_kv_scope *s = scope(kv, "", "");
    uint8_t *slot, *snap, *other;
    fx_page pages[3];
    fx_hash128 keys[3];

    CHECK(fx_kv_add_slots(kv, 2, 2, NULL) == FORNAX_OK);
    slot = fx_kv_slot_take(kv);
    CHECK(slot[0] == 0 && slot[127] == 0);
    make_chain(kv, s, 3, pages, keys);
    for (int i = 0; i < 2; i++) {
        snap = fx_kv_snapshot_take(kv, true);
        memset(snap, 10 + i, 128);
        fx_kv_snapshot_attach(kv, pages[i], snap);
    }
    fx_kv_check(kv);
    CHECK(fx_kv_snapshot_take(kv, false) == NULL);
    fx_kv_snapshot_load(kv, pages[0], slot);      /* page 1's is the least recently used now */
    CHECK(slot[0] == 10 && slot[127] == 10);
    snap = fx_kv_snapshot_take(kv, true);
    CHECK(snap && !fx_kv_has_snapshot(kv, pages[1]) && fx_kv_has_snapshot(kv, pages[0]));
    fx_kv_snapshot_attach(kv, pages[0], snap);    /* it has one: this goes back */
    other = fx_kv_snapshot_take(kv, false);
    CHECK(other != NULL);
    fx_kv_snapshot_drop(kv, other);
    other = fx_kv_snapshot_detach(kv, pages[0]);
    CHECK(other && !fx_kv_has_snapshot(kv, pages[0]) && !fx_kv_snapshot_detach(kv, pages[1]));
    fx_kv_snapshot_attach(kv, pages[2], other);
    for (int i = 2; i >= 0; i--)
        fx_kv_drop(kv, pages[i]);
    fx_kv_check(kv);
    CHECK_EQ_I64(fx_kv_snapshots(kv), 1);
    fx_kv_forget(kv);
    CHECK_EQ_I64(fx_kv_snapshots(kv), 0);
    memset(slot, 7, 128);
    fx_kv_slot_drop(kv, slot);
    CHECK(fx_kv_slot_take(kv)[5] == 0);
    fx_kv_check(kv);
    fx_kv_scope_leave(kv, s);
    fx_kv_close(kv);
}

/* Where each kind of layer lies, and what window bounds the pages of all. */
TEST(layout_of_mixed_layers)
{
    fx_state_layer layers[5] = {
        { .kind = FX_STATE_RECURRENT, .conv_len = 10, .scan_len = 100 },
        { .kind = FX_STATE_WINDOW, .kv_heads = 2, .k_dim = 16, .v_dim = 8, .window = 40 },
        { .kind = FX_STATE_SHARED, .source = 1 },
        { .kind = FX_STATE_RECURRENT, .conv_len = 0, .scan_len = 16 },
        { .kind = FX_STATE_NONE },
    };
    fx_state_table t = { .n_layers = 5, .layers = layers, .kv_dtype = FX_F32, .page_tokens = 32 };

    fx_state_layout(&t);
    CHECK_EQ_I64(t.page_bytes, 2 * 32 * (16 + 8) * 4);
    CHECK_EQ_I64(layers[1].v_offset, 2 * 32 * 16 * 4);
    CHECK(layers[2].k_offset == layers[1].k_offset && layers[2].v_offset == layers[1].v_offset);
    CHECK_EQ_I64(layers[0].conv_offset, 0);
    CHECK_EQ_I64(layers[0].scan_offset, 64);
    CHECK_EQ_I64(layers[3].conv_offset, 64 + 448);
    CHECK_EQ_I64(layers[3].scan_offset, 64 + 448);
    CHECK_EQ_I64(t.slot_bytes, 64 + 448 + 64);
    CHECK(t.n_groups == 1 && t.n_columns == 1 && t.groups[0].window == 40 && t.groups[0].n == 1);
    layers[2].window = 50;                            /* who reads another's pages may see more of them */
    fx_state_layout(&t);
    CHECK_EQ_I64(t.groups[0].window, 50);
    t.n_layers = 1;
    fx_state_layout(&t);
    CHECK_EQ_I64(t.page_bytes, 64);                   /* nothing in them, and yet there are pages */
    CHECK(t.n_groups == 1 && t.n_columns == 1 && t.groups[0].window == 0);
}

/* Layers with and without a window lie in columns of their own, whose pages are as large as wastes little. */
TEST(columns_of_two_groups)
{
    static const struct { int layers, every; int32_t per_page, full, windowed; } rows[] = {
        { 2, 2, 1, 1, 1 }, { 6, 6, 1, 1, 5 }, { 24, 2, 12, 1, 1 }, { 32, 4, 8, 1, 3 }, { 26, 6, 2, 2, 11 },
        { 34, 6, 5, 1, 6 },              /* 29 with a window take room for 30 */
        { 62, 6, 5, 2, 11 },
    };

    for (size_t r = 0; r < FX_COUNT(rows); r++) {
        fx_state_layer layers[64] = { 0 };
        fx_state_table t = { .n_layers = rows[r].layers, .layers = layers, .kv_dtype = FX_F16, .page_tokens = 32 };
        size_t part = 2 * 32 * 16 * 2;          /* of a layer */
        bool taken[64][64] = { 0 };

        for (int i = 0; i < rows[r].layers; i++)
            layers[i] = (fx_state_layer){ .kind = (i + 1) % rows[r].every ? FX_STATE_WINDOW : FX_STATE_FULL, .window = 100,
                                          .kv_heads = 1, .k_dim = 16, .v_dim = 16 };
        fx_state_layout(&t);
        CHECK_EQ_I64(t.page_bytes, rows[r].per_page * (int64_t)part);
        CHECK(t.n_groups == 2 && t.groups[0].window == 0 && t.groups[1].window == 100);
        CHECK_EQ_I64(t.groups[0].n, rows[r].full);
        CHECK_EQ_I64(t.groups[1].n, rows[r].windowed);
        CHECK(t.groups[0].first == 0 && t.groups[1].first == t.groups[0].n && t.n_columns == t.groups[0].n + t.groups[1].n);
        for (int i = 0; i < rows[r].layers; i++) {
            const fx_state_group *g = &t.groups[layers[i].kind == FX_STATE_WINDOW];
            size_t at = layers[i].k_offset / part;

            CHECK(layers[i].column >= g->first && layers[i].column < g->first + g->n && !taken[layers[i].column][at]);
            CHECK(layers[i].k_offset == at * part && layers[i].v_offset == layers[i].k_offset + part / 2);
            taken[layers[i].column][at] = true;
        }
    }
}

FXTEST_MAIN()
