/* mask.c - walks, and masks made of them (see mask.h). */
#include "grammar/mask.h"

#include <stdlib.h>

#include "grammar/dense.h"
#include "grammar/frames.h"

#define ROOT UINT32_MAX         /* the parent of a walk from the trie's root */
#define SPARSE_MAX 1024u        /* tokens that are kept as a list */
#define LESS_MAX 48u            /* bytes at which a walk may differ from the one it is less than */
#define DENSE_SUBTREE 256u      /* nodes below which a subtree is worth asking about */

typedef struct walk {
    uint32_t parent, tail;      /* the walk and its tail that this one goes on from */
    fx_re re;
    fx_found *found;
} walk;

typedef struct mask {
    fx_bits *bits;
    bool ends;                  /* with the end tokens */
} mask;

struct fx_walks {
    struct fx_walks *next;
    fx_gvocab *v;
    const fx_mem *mem;
    FX_VEC(walk) walks;
    uint32_t *table;            /* walk + 1 */
    size_t table_cap;
    FX_VEC(mask) masks;
    FX_VEC(uint32_t) mask_of;   /* by place: mask + 1; 0: not made */
    size_t bytes;               /* of masks and of walks that no other grammar shares */
    /* What is being collected. */
    FX_VEC(int32_t) ids;
    bool dense;
    uint32_t *words;
    FX_VEC(uint32_t) nodes;
    FX_VEC(fx_re) ends;         /* the expression at each of 'nodes' */
    FX_VEC(uint64_t) ranges;    /* dropped ones, in order */
    fx_re *states;              /* by depth */
    bool failed;
};

/* ---- Collecting tokens ------------------------------------------------------------------------- */

static void collect_bit(struct fx_walks *w, int32_t id) { w->words[id / 32] |= 1u << id % 32; }

static void go_dense(struct fx_walks *w)
{
    memset(w->words, 0, w->v->words * sizeof(*w->words));
    for (size_t i = 0; i < w->ids.n; i++)
        collect_bit(w, w->ids.at[i]);
    w->ids.n = 0;
    w->dense = true;
}

static void collect(struct fx_walks *w, int32_t id)
{
    for (; id >= 0; id = w->v->same[id]) {
        if (!w->dense && w->ids.n >= SPARSE_MAX)
            go_dense(w);
        if (w->dense)
            collect_bit(w, id);
        else if (!FX_VEC_PUSH(&w->ids, w->mem, id))
            w->failed = true;
    }
}

static void collect_bits(struct fx_walks *w, const fx_bits *b)
{
    if (!b->dense) {
        for (uint32_t i = 0; i < b->n; i++) {
            if (!w->dense && w->ids.n >= SPARSE_MAX)
                go_dense(w);
            if (w->dense)
                collect_bit(w, (int32_t)b->at[i]);
            else if (!FX_VEC_PUSH(&w->ids, w->mem, (int32_t)b->at[i]))
                w->failed = true;
        }
        return;
    }
    if (!w->dense)
        go_dense(w);
    for (size_t i = 0; i < w->v->words; i++)
        w->words[i] |= b->at[i];
}

static fx_bits *collected(struct fx_walks *w)
{
    fx_bits *b;

    if (w->dense) {
        b = fx_gvocab_intern(w->v, w->words);
        w->failed |= !b;
        return b;
    }
    b = fx_bits_new(w->v, false, (uint32_t)w->ids.n);
    if (!b)
        w->failed = true;
    else if (b->n)
        memcpy(b->at, w->ids.at, b->n * sizeof(uint32_t));
    return b;
}

/* What a set weighs for its owner: dense ones belong to the vocabulary. */
static size_t own_bytes(const fx_bits *b) { return b->dense ? 0 : fx_bits_bytes(b); }

static void begin(struct fx_walks *w)
{
    w->ids.n = w->nodes.n = w->ends.n = 0;
    w->dense = false;
}

/* ---- Walks ------------------------------------------------------------------------------------------ */

static void crossing(struct fx_walks *w, uint32_t node, fx_re re)
{
    if (!FX_VEC_PUSH(&w->nodes, w->mem, node) || !FX_VEC_PUSH(&w->ends, w->mem, re))
        w->failed = true;
}

static void walk_nodes(struct fx_walks *w, fx_run *r, bool rest, uint32_t from, uint32_t to);

/* Below node i every interior token is taken; the others are walked in their own trie. */
static void take_subtree(struct fx_walks *w, fx_run *r, uint32_t i)
{
    const fx_gvocab *v = w->v;
    uint32_t twin = v->twin[i], lo = v->interior_from[i], hi = v->interior_from[v->all.at[i].end];

    if (!w->dense && hi - lo > SPARSE_MAX)
        go_dense(w);
    if (w->dense) {
        for (uint32_t k = lo; k < hi; k++)
            collect_bit(w, v->interior[k]);
    } else {
        for (uint32_t k = lo; k < hi; k++)
            if (!FX_VEC_PUSH(&w->ids, w->mem, v->interior[k]))
                w->failed = true;
    }
    if (twin != FX_TRIE_NONE)
        walk_nodes(w, r, true, twin + 1, v->rest.at[twin].end);
}

/* Nodes from..to-1, the kids of one node whose expression is in w->states at its depth. */
static void walk_nodes(struct fx_walks *w, fx_run *r, bool rest, uint32_t from, uint32_t to)
{
    const fx_trie_node *t = rest ? w->v->rest.at : w->v->all.at;
    uint32_t flag = rest ? FX_NODE_REST : 0;

    for (uint32_t i = from; i < to;) {
        const fx_trie_node *n = &t[i];
        fx_re d = fx_run_next(r, w->states[n->depth - 1], n->byte);

        if (d == FX_RE_NONE) {
            i = n->end;
            continue;
        }
        if (d == FX_RE_FAIL || w->failed) {
            w->failed = true;
            return;
        }
        w->states[n->depth] = d;
        if (n->token >= 0) {
            if (w->dense && !n->same)
                collect_bit(w, n->token);
            else
                collect(w, n->token);
        }
        if (n->end > i + 1 && fx_re_nullable(r->pool, d))
            crossing(w, i | flag, d);
        if (d == FX_RE_EMPTY) {
            i = n->end;
        } else if (!rest && n->end - i > DENSE_SUBTREE && fx_run_dense(r, d) == FX_RE_INF) {
            take_subtree(w, r, i);
            i = n->end;
        } else {
            i++;
        }
    }
}

static void walk_root(struct fx_walks *w, fx_run *r, fx_re re)
{
    uint32_t k = fx_run_dense(r, re);

    w->states[0] = re;
    if (k && (k == FX_RE_INF || k < FX_SLICES || k >= w->v->max_chars)) {
        collect_bits(w, w->v->slices[FX_MIN(k, FX_SLICES)]);
        walk_nodes(w, r, true, 1, w->v->rest.n);
    } else {
        walk_nodes(w, r, false, 1, w->v->all.n);
    }
}

/* ---- Less than another walk -------------------------------------------------------------------------- */

/* An expression (A & ~N) R takes what D = A R takes, but for the words of N; N is small where it is a few names.
 * Its walk is the walk of D less what lies on the paths that N still goes along. */

typedef struct less {
    fx_re_pool *p;
    fx_re without;              /* D */
    uint32_t n;                 /* parts of N */
    fx_re_set bytes;            /* others lead to the same place as they do in D */
} less;

/* Splits 're'; false: it hasn't this shape. D only where asked for. */
static bool split_less(fx_re_pool *p, fx_re re, less *out, bool make_without)
{
    const fx_re_node *n = &p->nodes.at[re];
    uint32_t first, count;
    fx_re both = n->kind == FX_RE_K_CAT ? n->a : re, rest = n->kind == FX_RE_K_CAT ? n->b : FX_RE_EMPTY, a = FX_RE_ALL;

    if (p->nodes.at[both].kind != FX_RE_K_AND)
        return false;
    *out = (less){ .p = p };
    first = p->nodes.at[both].a;
    count = p->nodes.at[both].b;
    for (uint32_t i = 0; i < count; i++) {
        fx_re kid = p->kids.at[first + i];

        if (p->nodes.at[kid].kind == FX_RE_K_NOT) {
            fx_re not_this = p->nodes.at[kid].a;

            out->n++;
            fx_re_first(p, not_this, &out->bytes);
            if (fx_re_nullable(p, not_this))
                fx_re_first(p, rest, &out->bytes);
        } else if (make_without) {
            a = fx_re_and(p, a, kid);
        }
    }
    if (out->n == 0 || out->n == count)
        return false;
    if (make_without)
        out->without = fx_re_cat(p, a, rest);
    return !p->failed;
}

static void drop_range(struct fx_walks *w, uint32_t from, uint32_t to)
{
    if (from < to && (!FX_VEC_PUSH(&w->ends, w->mem, from) || !FX_VEC_PUSH(&w->ends, w->mem, to)))
        w->failed = true;
}

/* Nothing on the way through node i is taken, or (only_end) nothing that is done there is. */
static void drop_node(struct fx_walks *w, uint32_t i, bool only_end)
{
    const fx_gvocab *v = w->v;
    uint32_t end = only_end ? i + 1 : v->all.at[i].end, twin = v->twin[i];

    if (!only_end)
        for (uint32_t k = i; k < end; k++)
            for (int32_t id = v->all.at[k].token; id >= 0; id = v->same[id])
                w->words[id / 32] &= ~(1u << id % 32);
    drop_range(w, i, end);
    if (twin != FX_TRIE_NONE)
        drop_range(w, twin | FX_NODE_REST, (only_end ? twin + 1 : v->rest.at[twin].end) | FX_NODE_REST);
}

/* Corrects D's walk below node 'at', whose expression is 're' here and 'd' there. */
static void correct(struct fx_walks *w, fx_run *r, uint32_t at, fx_re re, fx_re d)
{
    less l;
    bool shaped = split_less(r->pool, re, &l, false);

    for (uint32_t i = at + 1; i < w->v->all.at[at].end && !w->failed; i = w->v->all.at[i].end) {
        unsigned char byte = w->v->all.at[i].byte;
        fx_re x, y;

        if (shaped && !fx_re_set_has(&l.bytes, byte))
            continue;
        x = fx_run_next(r, re, byte);
        y = fx_run_next(r, d, byte);
        if (x == FX_RE_FAIL || y == FX_RE_FAIL)
            w->failed = true;
        else if (x == FX_RE_NONE && y != FX_RE_NONE)
            drop_node(w, i, false);
        else if (x != y) {
            if (fx_re_nullable(r->pool, y) && !fx_re_nullable(r->pool, x))
                drop_node(w, i, true);
            correct(w, r, i, x, y);
        }
    }
}

static bool copy_nodes(struct fx_walks *w, const uint32_t *at, size_t n)
{
    if (!FX_VEC_RESERVE(&w->nodes, w->mem, n))
        w->failed = true;
    else if (n)
        memcpy(w->nodes.at + w->nodes.n, at, n * sizeof(*at));
    w->nodes.n += w->failed ? 0 : n;
    return !w->failed;
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* The nodes that lie in none of the dropped ranges, which are pairs in w->ends. */
static void keep_nodes(struct fx_walks *w, const uint32_t *nodes, uint32_t n)
{
    uint32_t at = 0;
    bool sorted = true;

    for (uint32_t i = 1; i < n; i++)
        sorted &= nodes[i - 1] <= nodes[i];
    if (!sorted) {
        for (uint32_t i = 0; i < n; i++) {
            bool dropped = false;

            for (size_t k = 0; k < w->ends.n && !dropped; k += 2)
                dropped = nodes[i] >= w->ends.at[k] && nodes[i] < w->ends.at[k + 1];
            if (!dropped && !copy_nodes(w, &nodes[i], 1))
                return;
        }
        return;
    }
    /* Ranges in order, the stretches between them whole. */
    w->ranges.n = 0;
    for (size_t k = 0; k < w->ends.n; k += 2)
        if (!FX_VEC_PUSH(&w->ranges, w->mem, (uint64_t)w->ends.at[k] << 32 | w->ends.at[k + 1]))
            w->failed = true;
    if (w->ranges.n)
        qsort(w->ranges.at, w->ranges.n, sizeof(*w->ranges.at), by_number);
    for (size_t k = 0; k < w->ranges.n && !w->failed; k++) {
        uint32_t from = (uint32_t)(w->ranges.at[k] >> 32), to = (uint32_t)w->ranges.at[k], lo = at, hi = n;

        while (lo < hi) {
            uint32_t mid = lo + (hi - lo) / 2;

            if (nodes[mid] < from)
                lo = mid + 1;
            else
                hi = mid;
        }
        if (!copy_nodes(w, nodes + at, lo - at))
            return;
        at = lo;
        while (at < n && nodes[at] < to)
            at++;
    }
    copy_nodes(w, nodes + at, n - at);
}

/* D's walk in 'full', corrected. */
static bool walk_less(struct fx_walks *w, fx_run *r, fx_re re, fx_re d, const fx_found *full)
{
    size_t bytes = w->v->words * sizeof(*w->words);

    if (!full->bits->dense || full->n_tails > 1)
        return false;
    begin(w);
    w->dense = true;
    memcpy(w->words, full->bits->at, bytes);
    correct(w, r, 0, re, d);
    keep_nodes(w, full->nodes, full->n_nodes);
    w->ends.n = 0;
    return true;
}

static void walk_tail(struct fx_walks *w, fx_run *r, const fx_found *up, const fx_tail *tail, fx_re re)
{
    for (uint32_t i = tail->first; i < tail->first + tail->n && !w->failed; i++) {
        uint32_t x = up->nodes[i] & ~FX_NODE_REST;
        bool rest = (up->nodes[i] & FX_NODE_REST) != 0;
        const fx_trie_node *n = &(rest ? &w->v->rest : &w->v->all)->at[x];

        w->states[n->depth] = re;
        walk_nodes(w, r, rest, x + 1, n->end);
    }
}

/* The nodes collected, in groups by the expression that was done ('labelled'), or as one. */
static bool make_tails(struct fx_walks *w, fx_found *f, bool labelled)
{
    uint32_t n = (uint32_t)w->nodes.n, k = 0;

    if (n == 0)
        return true;
    for (uint32_t i = 0; labelled && i < n; i++) {
        bool first = true;

        for (uint32_t j = 0; j < i && first; j++)
            first = w->ends.at[j] != w->ends.at[i];
        f->n_tails += first;
    }
    f->n_tails += !labelled;
    f->n_nodes = n;
    f->nodes = fx_mem_array(w->mem, n, sizeof(*f->nodes));
    f->tails = fx_mem_array(w->mem, f->n_tails, sizeof(*f->tails));
    if (!f->nodes || !f->tails)
        return false;
    if (!labelled) {
        f->tails[0] = (fx_tail){ 0, n, 0 };
        memcpy(f->nodes, w->nodes.at, n * sizeof(*f->nodes));
        return true;
    }
    f->n_tails = 0;
    for (uint32_t i = 0; i < n; i++) {
        fx_re re = w->ends.at[i];

        if (re == FX_RE_FAIL)               /* done with an earlier one */
            continue;
        f->tails[f->n_tails] = (fx_tail){ k, 0, re };
        for (uint32_t j = i; j < n; j++)
            if (w->ends.at[j] == re) {
                f->nodes[k++] = w->nodes.at[j];
                f->tails[f->n_tails].n++;
                w->ends.at[j] = FX_RE_FAIL;
            }
        f->n_tails++;
    }
    return true;
}

static fx_found *finish(struct fx_walks *w, fx_hash128 print, bool labelled)
{
    fx_found *f = w->failed ? NULL : fx_mem_zalloc(w->mem, sizeof(*f));

    if (!f)
        return NULL;
    atomic_init(&f->refs, 1);
    f->print = print;
    f->bits = collected(w);
    if (!f->bits || !make_tails(w, f, labelled)) {
        f->bits = f->bits ? f->bits : NULL;
        fx_found_unref(w->v, f);
        return NULL;
    }
    f->bytes = sizeof(*f) + own_bytes(f->bits) + f->n_tails * sizeof(*f->tails) + f->n_nodes * sizeof(*f->nodes);
    return f;
}

/* ---- The walks of a grammar ------------------------------------------------------------------------------ */

static uint32_t hash_walk(uint32_t parent, uint32_t tail, fx_re re)
{
    uint32_t h = (parent ^ 0x9E3779B1u) * 0x85EBCA6Bu;

    h = (h ^ h >> 13 ^ re) * 0xC2B2AE35u;
    h = (h ^ h >> 16 ^ tail) * 0x27D4EB2Fu;
    return h ^ h >> 15;
}

static bool grow_table(struct fx_walks *w)
{
    size_t cap = w->table_cap ? w->table_cap * 2 : 512;
    uint32_t *t = fx_mem_array(w->mem, cap, sizeof(*t));

    if (!t)
        return false;
    for (size_t i = 0; i < w->walks.n; i++) {
        const walk *x = &w->walks.at[i];
        size_t at = hash_walk(x->parent, x->tail, x->re) & (cap - 1);

        while (t[at])
            at = (at + 1) & (cap - 1);
        t[at] = (uint32_t)i + 1;
    }
    fx_mem_free(w->mem, w->table, w->table_cap * sizeof(*w->table));
    w->table = t;
    w->table_cap = cap;
    return true;
}

/* Of the row of expressions that led here; zero where it can't be told apart from other grammars'. */
static fx_hash128 print_of(struct fx_walks *w, fx_run *r, const fx_found *up, uint32_t tail, fx_re re)
{
    struct { fx_hash128 up, re; uint64_t tail; } key = { .tail = tail };

    (void)w;
    if (up && !(up->print.lo | up->print.hi))
        return (fx_hash128){ 0, 0 };
    if (up)
        key.up = up->print;
    if (!fx_re_fingerprint(r->pool, re, &key.re))
        return (fx_hash128){ 0, 0 };
    return fx_hash128_of(&key, sizeof(key), up ? 1 : 2);
}

static uint32_t find_walk(struct fx_walks *w, fx_run *r, uint32_t parent, uint32_t tail, fx_re re, bool labelled);

/* As less than another walk; false: it isn't one. */
static bool try_less(struct fx_walks *w, fx_run *r, fx_re re)
{
    less l;
    uint32_t full;
    unsigned n = 0;

    if (!split_less(r->pool, re, &l, true))
        return false;
    for (int b = 0; b < 256; b++)
        n += fx_re_set_has(&l.bytes, (unsigned char)b);
    if (n > LESS_MAX)
        return false;
    full = find_walk(w, r, ROOT, 0, l.without, false);
    return full != ROOT && walk_less(w, r, re, l.without, w->walks.at[full].found);
}

static fx_found *make_walk(struct fx_walks *w, fx_run *r, const fx_found *up, uint32_t tail, fx_re re, bool labelled)
{
    fx_hash128 print = print_of(w, r, up, tail, re);
    bool shared = (print.lo | print.hi) != 0 && !labelled;
    fx_found *f = shared ? fx_gvocab_find(w->v, print) : NULL;

    if (f)
        return f;
    if (up || labelled || !try_less(w, r, re)) {
        begin(w);
        if (up)
            walk_tail(w, r, up, &up->tails[tail], re);
        else
            walk_root(w, r, re);
    }
    f = finish(w, shared ? print : (fx_hash128){ 0, 0 }, labelled);
    if (f && shared)
        fx_gvocab_keep(w->v, f);
    else if (f)
        w->bytes += f->bytes;
    return f;
}

/* The walk with 're' from the tail of 'parent'; ROOT: failed. */
static uint32_t find_walk(struct fx_walks *w, fx_run *r, uint32_t parent, uint32_t tail, fx_re re, bool labelled)
{
    size_t at;
    fx_found *f;

    if (w->walks.n * 2 >= w->table_cap && !grow_table(w))
        return ROOT;
    at = hash_walk(parent, tail, re) & (w->table_cap - 1);
    for (; w->table[at]; at = (at + 1) & (w->table_cap - 1)) {
        const walk *x = &w->walks.at[w->table[at] - 1];

        if (x->re == re && x->parent == parent && x->tail == tail)
            return w->table[at] - 1;
    }
    f = make_walk(w, r, parent == ROOT ? NULL : w->walks.at[parent].found, tail, re, labelled);
    if (!f)
        return ROOT;
    if ((w->walks.n * 2 >= w->table_cap && !grow_table(w)) || !FX_VEC_PUSH(&w->walks, w->mem, ((walk){ parent, tail, re, f }))) {
        fx_found_unref(w->v, f);
        return ROOT;
    }
    at = hash_walk(parent, tail, re) & (w->table_cap - 1);      /* making it may have made others */
    while (w->table[at])
        at = (at + 1) & (w->table_cap - 1);
    w->table[at] = (uint32_t)w->walks.n;
    return (uint32_t)w->walks.n - 1;
}

static void forget(struct fx_walks *w)
{
    for (size_t i = 0; i < w->walks.n; i++)
        fx_found_unref(w->v, w->walks.at[i].found);
    for (size_t i = 0; i < w->masks.n; i++)
        fx_bits_unref(w->v, w->masks.at[i].bits);
    w->walks.n = w->masks.n = w->mask_of.n = 0;
    if (w->table)
        memset(w->table, 0, w->table_cap * sizeof(*w->table));
    fx_gvocab_charge(w->v, -(ptrdiff_t)w->bytes);
    w->bytes = 0;
}

void fx_walks_free(struct fx_walks *w)
{
    while (w) {
        struct fx_walks *next = w->next;

        forget(w);
        FX_VEC_FREE(&w->walks, w->mem);
        FX_VEC_FREE(&w->masks, w->mem);
        FX_VEC_FREE(&w->mask_of, w->mem);
        FX_VEC_FREE(&w->ids, w->mem);
        FX_VEC_FREE(&w->nodes, w->mem);
        FX_VEC_FREE(&w->ends, w->mem);
        FX_VEC_FREE(&w->ranges, w->mem);
        fx_mem_free(w->mem, w->table, w->table_cap * sizeof(*w->table));
        fx_mem_free(w->mem, w->words, w->v->words * sizeof(*w->words));
        fx_mem_free(w->mem, w->states, (w->v->max_len + 2) * sizeof(*w->states));
        fx_gvocab_unref(w->v);
        fx_mem_free(w->mem, w, sizeof(*w));
        w = next;
    }
}

size_t fx_walks_bytes(const struct fx_walks *w)
{
    size_t n = 0;

    for (; w; w = w->next)
        n += sizeof(*w) + w->bytes + w->walks.cap * sizeof(*w->walks.at) + w->table_cap * sizeof(*w->table) +
             w->masks.cap * sizeof(*w->masks.at) + w->mask_of.cap * sizeof(*w->mask_of.at);
    return n;
}

static struct fx_walks *walks_of(fx_run *r, fx_gvocab *v)
{
    struct fx_walks *w = r->walks;

    while (w && w->v != v)
        w = w->next;
    if (w || !(w = fx_mem_zalloc(r->mem, sizeof(*w))))
        return w;
    w->mem = r->mem;
    w->v = fx_gvocab_ref(v);
    w->words = fx_mem_array(w->mem, v->words, sizeof(*w->words));
    w->states = fx_mem_array(w->mem, v->max_len + 2, sizeof(*w->states));
    w->next = r->walks;
    r->walks = w;
    return w;
}

/* ---- Masks -------------------------------------------------------------------------------------------------- */

typedef struct maker {
    fx_run *r;
    struct fx_walks *w;
    uint32_t *bits;
    bool plain;                 /* nothing depended on the text: the mask may be kept */
    fx_try_token attempt;
    void *user;
} maker;

static void set_bit(uint32_t *bits, int32_t id) { bits[id / 32] |= 1u << id % 32; }

static void add_bits(maker *m, const fx_bits *b)
{
    if (b->dense) {
        for (uint32_t i = 0; i < b->n; i++)
            m->bits[i] |= b->at[i];
        return;
    }
    for (uint32_t i = 0; i < b->n; i++)
        set_bit(m->bits, (int32_t)b->at[i]);
}

static void try_one(maker *m, int32_t id)
{
    for (; id >= 0; id = m->w->v->same[id])
        if (m->attempt(m->user, id))
            set_bit(m->bits, id);
}

/* Tokens below the nodes of a tail, each tried byte by byte. */
static void try_tail(maker *m, const fx_found *f, const fx_tail *tail)
{
    m->plain = false;
    for (uint32_t i = tail->first; i < tail->first + tail->n; i++) {
        uint32_t x = f->nodes[i] & ~FX_NODE_REST;
        const fx_trie_node *t = f->nodes[i] & FX_NODE_REST ? m->w->v->rest.at : m->w->v->all.at;

        for (uint32_t k = x + 1; k < t[x].end; k++)
            if (t[k].token >= 0)
                try_one(m, t[k].token);
    }
}

static bool is_key(const fx_run *r, uint32_t frame)
{
    const fx_frame *f = &r->frames.at[frame];

    return f->node != FX_FRAME_UNION && r->g->nodes.at[f->node].kind == FX_G_OBJECT && f->phase == FX_PH_KEY;
}

static bool add_thread(maker *m, uint32_t parent, uint32_t tail, fx_thread t);

/* What comes after the expression of a walk is done, for one of its tails. */
static bool add_tail(maker *m, uint32_t walk_id, uint32_t tail, fx_place next)
{
    uint32_t n = m->r->sets.at[next].n;

    for (uint32_t i = 0; i < n; i++) {
        fx_thread t = m->r->threads.at[m->r->sets.at[next].first + i];

        if (!(t.re & FX_THREAD_TOKEN) && !add_thread(m, walk_id, tail, t))
            return false;
    }
    return true;
}

/* Whether the end of a thread may be refused when the text is known: a value that came before. */
static bool may_refuse(maker *m, const fx_found *f, uint32_t frame, bool *failed)
{
    fx_place next;

    if (!m->r->has_unique || f->bits->dense || is_key(m->r, frame))
        return false;
    next = fx_run_return(m->r, frame, FX_RE_EMPTY);
    *failed = next == FX_PLACE_FAIL;
    return !*failed && (m->r->sets.at[next].flags & FX_SET_REFUSES);
}

static bool add_thread(maker *m, uint32_t parent, uint32_t tail, fx_thread t)
{
    uint32_t id = find_walk(m->w, m->r, parent, tail, t.re, is_key(m->r, t.frame));
    const fx_found *f;
    bool failed = false;

    if (id == ROOT)
        return false;
    f = m->w->walks.at[id].found;
    if (f->bits->n == 0 && f->n_tails == 0)
        return true;
    if (may_refuse(m, f, t.frame, &failed)) {
        m->plain = false;
        for (uint32_t i = 0; i < f->bits->n; i++)
            if (m->attempt(m->user, (int32_t)f->bits->at[i]))
                set_bit(m->bits, (int32_t)f->bits->at[i]);
    } else {
        add_bits(m, f->bits);
    }
    for (uint32_t k = 0; k < f->n_tails && !failed; k++) {
        fx_place next = fx_run_return(m->r, t.frame, f->tails[k].re ? f->tails[k].re : FX_RE_EMPTY);

        if (next == FX_PLACE_FAIL)
            return false;
        if (m->r->sets.at[next].flags & (FX_SET_NEEDS_TEXT | FX_SET_REFUSES))
            try_tail(m, f, &f->tails[k]);
        else if (!add_tail(m, id, k, next))
            return false;
    }
    return !failed && !m->r->failed;
}

static mask *kept(struct fx_walks *w, fx_place at)
{
    return at < w->mask_of.n && w->mask_of.at[at] ? &w->masks.at[w->mask_of.at[at] - 1] : NULL;
}

/* Keeps the mask in 'bits' for the place; where memory is short it just isn't kept. */
static void keep(struct fx_walks *w, fx_place at, const uint32_t *bits)
{
    uint32_t count = 0;
    fx_bits *b;

    for (size_t i = 0; i < w->v->words && count <= SPARSE_MAX; i++)
        count += bits[i] != 0;
    while (w->mask_of.n <= at)
        if (!FX_VEC_PUSH(&w->mask_of, w->mem, 0))
            return;
    begin(w);
    if (count <= SPARSE_MAX / 8) {
        for (size_t i = 0; i < w->v->words; i++)
            for (uint32_t x = bits[i]; x; x &= x - 1)
                if (!FX_VEC_PUSH(&w->ids, w->mem, (int32_t)(i * 32) + __builtin_ctz(x)))
                    return;
    } else {
        memcpy(w->words, bits, w->v->words * sizeof(*bits));
        w->dense = true;
    }
    b = collected(w);
    if (!b || !FX_VEC_PUSH(&w->masks, w->mem, ((mask){ b, false }))) {
        fx_bits_unref(w->v, b);
        return;
    }
    w->mask_of.at[at] = (uint32_t)w->masks.n;
    w->bytes += own_bytes(b);
}

static void copy_bits(const fx_gvocab *v, const fx_bits *b, uint32_t *bits)
{
    if (b->dense) {
        memcpy(bits, b->at, v->words * sizeof(*bits));
        return;
    }
    memset(bits, 0, v->words * sizeof(*bits));
    for (uint32_t i = 0; i < b->n; i++)
        set_bit(bits, (int32_t)b->at[i]);
}

bool fx_run_mask(fx_run *r, fx_gvocab *v, fx_place at, uint32_t *bits, fx_try_token attempt, void *user)
{
    struct fx_walks *w = walks_of(r, v);
    maker m = { r, w, bits, true, attempt, user };
    const mask *old;
    size_t before;

    if (!w || !w->words || !w->states || r->failed)
        return false;
    old = kept(w, at);
    if (old) {
        copy_bits(v, old->bits, bits);
        return true;
    }
    if (fx_gvocab_full(v) || fx_walks_bytes(w) > r->g->limits.max_bytes / 2)
        forget(w);
    before = w->bytes;
    w->failed = false;
    memset(bits, 0, v->words * sizeof(*bits));
    for (uint32_t i = 0, n = r->sets.at[at].n; i < n; i++) {
        fx_thread t = r->threads.at[r->sets.at[at].first + i];

        if (t.re & FX_THREAD_TOKEN) {
            if ((t.re & ~FX_THREAD_TOKEN) < v->n)
                set_bit(bits, (int32_t)(t.re & ~FX_THREAD_TOKEN));
        } else if (!add_thread(&m, ROOT, 0, t)) {
            fx_gvocab_charge(v, (ptrdiff_t)(w->bytes - before));
            return false;
        }
    }
    if ((r->sets.at[at].flags & FX_SET_ACCEPT) && at != FX_PLACE_ENDED)
        for (size_t i = 0; i < v->n_eos; i++)
            set_bit(bits, v->eos[i]);
    if (m.plain)
        keep(w, at, bits);
    fx_gvocab_charge(v, (ptrdiff_t)(w->bytes - before));
    return true;
}
