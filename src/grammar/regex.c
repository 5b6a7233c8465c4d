/* regex.c - the pool of hash-consed expressions, and their derivatives (see regex.h).
 *
 * Constructors simplify by the laws that keep the number of derivatives small: neutral and
 * absorbing elements, flat sorted alternatives and conjunctions, byte sets merged, repeats of
 * the same thing joined.  Emptiness needs a search only below 'and', 'not' and machines. */
#include "grammar/regex_int.h"

#include <stdlib.h>

#define DEPTH_MAX 4000          /* of recursion in derive: some 200 bytes of stack each */
#define ALL FX_RE_ALL

fx_re_pool *fx_re_pool_new(const fx_mem *mem, size_t max_nodes)
{
    fx_re_pool *p = fx_mem_zalloc(mem, sizeof(*p));

    if (!p)
        return NULL;
    p->mem = mem;
    fx_arena_init(&p->arena, mem, 1024);
    p->max_nodes = max_nodes ? FX_MIN(max_nodes, (size_t)UINT32_MAX / 2) : 1 << 20;
    p->table_cap = 256;
    p->table = fx_mem_array(mem, p->table_cap, sizeof(*p->table));
    /* NONE, EMPTY and ALL have fixed places. */
    if (!p->table || !FX_VEC_RESERVE(&p->nodes, mem, 64)) {
        fx_re_pool_free(p);
        return NULL;
    }
    p->nodes.at[p->nodes.n++] = (fx_re_node){ .kind = FX_RE_K_NONE, .flags = FX_RE_F_DEAD };
    p->nodes.at[p->nodes.n++] = (fx_re_node){ .kind = FX_RE_K_EMPTY, .flags = FX_RE_F_NULLABLE | FX_RE_F_LIVE };
    p->nodes.at[p->nodes.n++] = (fx_re_node){ .kind = FX_RE_K_NOT, .depth = 1, .flags = FX_RE_F_NULLABLE | FX_RE_F_LIVE };
    return p;
}

void fx_re_pool_free(fx_re_pool *p)
{
    if (!p)
        return;
    FX_VEC_FREE(&p->nodes, p->mem);
    FX_VEC_FREE(&p->kids, p->mem);
    FX_VEC_FREE(&p->sets, p->mem);
    FX_VEC_FREE(&p->machines, p->mem);
    FX_VEC_FREE(&p->stack, p->mem);
    FX_VEC_FREE(&p->spine, p->mem);
    FX_VEC_FREE(&p->prints, p->mem);
    FX_VEC_FREE(&p->marks, p->mem);
    fx_arena_done(&p->arena);
    fx_mem_free(p->mem, p->table, p->table_cap * sizeof(*p->table));
    fx_mem_free(p->mem, p, sizeof(*p));
}

/* A vector's copy, with its exact size. */
#define COPY_VEC(to, from, mem) \
    ((from)->n == 0 || (FX_VEC_RESERVE(to, mem, (from)->n) && \
                        (memcpy((to)->at, (from)->at, (from)->n * sizeof(*(from)->at)), (to)->n = (from)->n, true)))

fx_re_pool *fx_re_pool_clone(const fx_re_pool *p)
{
    fx_re_pool *c = fx_mem_zalloc(p->mem, sizeof(*c));

    if (!c)
        return NULL;
    c->mem = p->mem;
    fx_arena_init(&c->arena, p->mem, 1024);
    c->max_nodes = p->max_nodes;
    c->table = fx_mem_array(p->mem, p->table_cap, sizeof(*c->table));
    c->table_cap = c->table ? p->table_cap : 0;
    if (!c->table || !COPY_VEC(&c->nodes, &p->nodes, p->mem) || !COPY_VEC(&c->kids, &p->kids, p->mem) ||
        !COPY_VEC(&c->sets, &p->sets, p->mem) || !COPY_VEC(&c->machines, &p->machines, p->mem)) {
        fx_re_pool_free(c);
        return NULL;
    }
    memcpy(c->table, p->table, p->table_cap * sizeof(*c->table));
    c->plain = p->plain;
    memcpy(c->spelled, p->spelled, sizeof(c->spelled));
    memcpy(c->any_rune, p->any_rune, sizeof(c->any_rune));
    return c;
}

void fx_re_pool_plain(fx_re_pool *p)
{
    if (p->plain)
        return;
    p->plain = true;
    memset(p->spelled[FX_SPELL_JSON], 0, sizeof(p->spelled[FX_SPELL_JSON]));
    p->any_rune[FX_SPELL_JSON] = 0;
}

size_t fx_re_pool_bytes(const fx_re_pool *p)
{
    return sizeof(*p) + p->arena.total_bytes + p->nodes.cap * sizeof(*p->nodes.at) + p->kids.cap * sizeof(*p->kids.at) +
           p->sets.cap * sizeof(*p->sets.at) + p->machines.cap * sizeof(*p->machines.at) +
           p->stack.cap * sizeof(*p->stack.at) + p->spine.cap * sizeof(*p->spine.at) + p->prints.cap * sizeof(*p->prints.at) +
           p->marks.cap * sizeof(*p->marks.at) +
           p->table_cap * sizeof(*p->table);
}

bool fx_re_pool_failed(const fx_re_pool *p) { return p->failed; }

void *fx_re_pool_alloc(fx_re_pool *p, size_t size)
{
    void *q = fx_arena_alloc(&p->arena, size);

    p->failed |= !q;
    return q;
}

static fx_re fail(fx_re_pool *p)
{
    p->failed = true;
    return FX_RE_FAIL;
}

#define NODES_A_STATE 8        /* made on average while looking for words */

/* ---- Interning ------------------------------------------------------------------ */

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9E3779B1u;
    return h ^ h >> 15;
}

static uint32_t hash_node(const fx_re_pool *p, const fx_re_node *n)
{
    uint32_t h = mix(n->kind, 0x51ed270bu);

    if (n->kind == FX_RE_K_ALT || n->kind == FX_RE_K_AND) {
        for (uint32_t i = 0; i < n->b; i++)
            h = mix(h, p->kids.at[n->a + i]);
        return h;
    }
    if (n->kind == FX_RE_K_SET) {
        for (int i = 0; i < 4; i++)
            h = mix(mix(h, (uint32_t)p->sets.at[n->a].w[i]), (uint32_t)(p->sets.at[n->a].w[i] >> 32));
        return h;
    }
    return mix(mix(mix(h, n->a), n->b), n->c);
}

static bool same_node(const fx_re_pool *p, const fx_re_node *x, const fx_re_node *y)
{
    if (x->hash != y->hash || x->kind != y->kind)
        return false;
    if (x->kind == FX_RE_K_ALT || x->kind == FX_RE_K_AND)
        return x->b == y->b && !memcmp(p->kids.at + x->a, p->kids.at + y->a, x->b * sizeof(uint32_t));
    if (x->kind == FX_RE_K_SET)
        return !memcmp(&p->sets.at[x->a], &p->sets.at[y->a], sizeof(fx_re_set));
    return x->a == y->a && x->b == y->b && x->c == y->c;
}

static bool grow_table(fx_re_pool *p)
{
    size_t cap = p->table_cap * 2;
    uint32_t *t = fx_mem_array(p->mem, cap, sizeof(*t));

    if (!t)
        return false;
    for (size_t i = 0; i < p->nodes.n; i++) {
        size_t at = p->nodes.at[i].hash & (cap - 1);

        while (t[at])
            at = (at + 1) & (cap - 1);
        t[at] = (uint32_t)i + 1;
    }
    fx_mem_free(p->mem, p->table, p->table_cap * sizeof(*p->table));
    p->table = t;
    p->table_cap = cap;
    return true;
}

/* The id of a node; *fresh says whether it is new (then its kids or set stay where they are). */
static fx_re intern(fx_re_pool *p, fx_re_node n, bool *fresh)
{
    size_t at;

    *fresh = false;
    n.hash = hash_node(p, &n);
    at = n.hash & (p->table_cap - 1);
    while (p->table[at]) {
        fx_re id = p->table[at] - 1;

        if (same_node(p, &p->nodes.at[id], &n))
            return id;
        at = (at + 1) & (p->table_cap - 1);
    }
    if (p->nodes.n >= p->max_nodes || n.depth > DEPTH_MAX || !FX_VEC_PUSH(&p->nodes, p->mem, n))
        return fail(p);
    p->table[at] = (uint32_t)p->nodes.n;
    if (p->nodes.n * 2 > p->table_cap && !grow_table(p)) {
        p->table[at] = 0;
        p->nodes.n--;
        return fail(p);
    }
    *fresh = true;
    return (fx_re)p->nodes.n - 1;
}

static const fx_re_node *node(const fx_re_pool *p, fx_re a) { return &p->nodes.at[a]; }
static uint8_t flags(const fx_re_pool *p, fx_re a) { return p->nodes.at[a].flags; }
static fx_re_kind kind(const fx_re_pool *p, fx_re a) { return (fx_re_kind)p->nodes.at[a].kind; }
static bool nullable(const fx_re_pool *p, fx_re a) { return flags(p, a) & FX_RE_F_NULLABLE; }
static uint16_t deeper(const fx_re_pool *p, fx_re a) { return (uint16_t)(p->nodes.at[a].depth + 1); }

bool fx_re_nullable(const fx_re_pool *p, fx_re a) { return a != FX_RE_FAIL && nullable(p, a); }

/* ---- Sets, concatenation, repeats ------------------------------------------------- */

fx_re fx_re_byte_set(fx_re_pool *p, const uint64_t set[4])
{
    fx_re_set s = { { set[0], set[1], set[2], set[3] } };
    bool fresh;
    fx_re r;

    if (p->failed)
        return FX_RE_FAIL;
    if (!(s.w[0] | s.w[1] | s.w[2] | s.w[3]))
        return FX_RE_NONE;
    if (!FX_VEC_PUSH(&p->sets, p->mem, s))
        return fail(p);
    r = intern(p, (fx_re_node){ .kind = FX_RE_K_SET, .flags = FX_RE_F_LIVE, .a = (uint32_t)p->sets.n - 1 }, &fresh);
    if (!fresh)
        p->sets.n--;
    return r;
}

static uint32_t add_bounds(uint32_t a, uint32_t b)
{
    if (a == FX_RE_INF || b == FX_RE_INF)
        return FX_RE_INF;
    return a > FX_RE_INF - 1 - b ? FX_RE_INF : a + b;
}

/* x as a repeat: what is repeated, and its bounds. */
static fx_re as_repeat(const fx_re_pool *p, fx_re x, uint32_t *min, uint32_t *max)
{
    const fx_re_node *n = node(p, x);

    *min = n->kind == FX_RE_K_REPEAT ? n->b : 1;
    *max = n->kind == FX_RE_K_REPEAT ? n->c : 1;
    return n->kind == FX_RE_K_REPEAT ? n->a : x;
}

/* a concatenation's parts, and then b: from the last part on, without recursion. */
static fx_re cat_parts(fx_re_pool *p, fx_re a, fx_re b)
{
    size_t bottom = p->spine.n;

    for (; kind(p, a) == FX_RE_K_CAT; a = node(p, a)->b)
        if (!FX_VEC_PUSH(&p->spine, p->mem, node(p, a)->a)) {
            p->spine.n = bottom;
            p->failed = true;
            return FX_RE_FAIL;
        }
    b = fx_re_cat(p, a, b);
    while (p->spine.n > bottom)
        b = fx_re_cat(p, p->spine.at[--p->spine.n], b);
    return b;
}

fx_re fx_re_cat(fx_re_pool *p, fx_re a, fx_re b)
{
    uint32_t amin, amax, bmin, bmax;
    fx_re head;
    bool fresh;

    if (a == FX_RE_FAIL || b == FX_RE_FAIL || p->failed)
        return FX_RE_FAIL;
    if (a == FX_RE_NONE || b == FX_RE_NONE)
        return FX_RE_NONE;
    if (a == FX_RE_EMPTY || b == FX_RE_EMPTY)
        return a == FX_RE_EMPTY ? b : a;
    if (kind(p, a) == FX_RE_K_CAT)
        return cat_parts(p, a, b);
    if (a == ALL && b == ALL)
        return ALL;
    head = kind(p, b) == FX_RE_K_CAT ? node(p, b)->a : b;
    /* x{i,j} x{k,l} = x{i+k,j+l}; two single things stay, so that literals don't change shape */
    if ((kind(p, a) == FX_RE_K_REPEAT || kind(p, head) == FX_RE_K_REPEAT) &&
        as_repeat(p, a, &amin, &amax) == as_repeat(p, head, &bmin, &bmax) &&
        add_bounds(amin, bmin) != FX_RE_INF) {
        fx_re x = fx_re_repeat(p, as_repeat(p, a, &amin, &amax), add_bounds(amin, bmin), add_bounds(amax, bmax));

        return head == b ? x : fx_re_cat(p, x, node(p, b)->b);
    }
    fx_re_node n = { .kind = FX_RE_K_CAT, .a = a, .b = b };

    n.depth = nullable(p, a) ? FX_MAX(deeper(p, a), deeper(p, b)) : FX_MAX(deeper(p, a), node(p, b)->depth);
    n.flags = (flags(p, a) & flags(p, b) & FX_RE_F_NULLABLE) | ((flags(p, a) | flags(p, b)) & FX_RE_F_CHECK);
    return intern(p, n, &fresh);
}

fx_re fx_re_repeat(fx_re_pool *p, fx_re a, uint32_t min, uint32_t max)
{
    bool fresh;
    const fx_re_node *n;

    if (a == FX_RE_FAIL || p->failed)
        return FX_RE_FAIL;
    if (min > max)
        return FX_RE_NONE;
    if (max == 0 || a == FX_RE_EMPTY)
        return FX_RE_EMPTY;
    if (a == FX_RE_NONE)
        return min ? FX_RE_NONE : FX_RE_EMPTY;
    if (nullable(p, a))
        min = 0;
    n = node(p, a);
    if ((min == 1 && max == 1) || a == ALL)
        return a;
    if (n->kind == FX_RE_K_REPEAT && n->b == 0 && (n->c == FX_RE_INF || (min == 0 && max == FX_RE_INF)))
        return fx_re_repeat(p, n->a, 0, FX_RE_INF);       /* (x*){..} and (x{0,n})* are x* */
    if (n->kind == FX_RE_K_REPEAT && n->b == 1 && n->c == FX_RE_INF && min <= 1)
        return fx_re_repeat(p, n->a, min, FX_RE_INF);     /* (x+)? and (x+)* are x* */
    fx_re_node r = { .kind = FX_RE_K_REPEAT, .a = a, .b = min, .c = max, .depth = deeper(p, a) };

    r.flags = (min == 0 ? FX_RE_F_NULLABLE | FX_RE_F_LIVE : 0) | (flags(p, a) & FX_RE_F_CHECK);
    return intern(p, r, &fresh);
}

fx_re fx_re_literal(fx_re_pool *p, fx_str bytes)
{
    fx_re r = FX_RE_EMPTY;

    for (size_t i = bytes.n; i-- > 0;) {
        fx_re_set s = { { 0 } };

        fx_re_set_add(&s, (unsigned char)bytes.p[i]);
        r = fx_re_cat(p, fx_re_byte_set(p, s.w), r);
    }
    return r;
}

/* ---- Alternatives, conjunctions, complements ---------------------------------------- */

/* Pushes x, or x's kids where x is of 'k' itself, onto the scratch stack. */
static bool push_flat(fx_re_pool *p, fx_re_kind k, fx_re x)
{
    const fx_re_node *n = node(p, x);

    if ((fx_re_kind)n->kind != k)
        return FX_VEC_PUSH(&p->stack, p->mem, x);
    if (!FX_VEC_RESERVE(&p->stack, p->mem, n->b))
        return false;
    memcpy(p->stack.at + p->stack.n, p->kids.at + n->a, n->b * sizeof(uint32_t));
    p->stack.n += n->b;
    return true;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static size_t sort_distinct(uint32_t *at, size_t n)
{
    size_t k = 0;

    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            uint32_t x = at[i];
            size_t j = i;

            for (; j > 0 && at[j - 1] > x; j--)
                at[j] = at[j - 1];
            at[j] = x;
        }
    } else {
        qsort(at, n, sizeof(*at), by_id);
    }
    for (size_t i = 0; i < n; i++)
        if (k == 0 || at[k - 1] != at[i])
            at[k++] = at[i];
    return k;
}

/* The byte sets among the kids become one: their union, or their intersection. */
static bool merge_sets(fx_re_pool *p, fx_re_kind k, uint32_t bottom)
{
    fx_re_set s = { { 0 } };
    size_t n = 0, out = bottom;
    fx_re merged;

    for (size_t i = bottom; i < p->stack.n; i++) {
        const fx_re_node *x = node(p, p->stack.at[i]);

        if (x->kind != FX_RE_K_SET) {
            p->stack.at[out++] = p->stack.at[i];
            continue;
        }
        for (int w = 0; w < 4; w++)
            s.w[w] = n == 0 ? p->sets.at[x->a].w[w]
                   : k == FX_RE_K_ALT ? s.w[w] | p->sets.at[x->a].w[w] : s.w[w] & p->sets.at[x->a].w[w];
        n++;
    }
    if (n == 0)
        return true;
    p->stack.n = out;
    merged = fx_re_byte_set(p, s.w);
    return merged != FX_RE_FAIL && FX_VEC_PUSH(&p->stack, p->mem, merged);
}

/* Kids on the stack from 'bottom' on, simplified; the whole may turn out to be one expression. */
static bool simplify_kids(fx_re_pool *p, fx_re_kind k, uint32_t bottom, fx_re *whole)
{
    fx_re neutral = k == FX_RE_K_ALT ? FX_RE_NONE : ALL, absorbing = k == FX_RE_K_ALT ? ALL : FX_RE_NONE;
    uint32_t *at;
    size_t n, out = 0;

    *whole = FX_RE_FAIL;
    if (!merge_sets(p, k, bottom))
        return false;
    at = p->stack.at + bottom;
    n = sort_distinct(at, p->stack.n - bottom);
    for (size_t i = 0; i < n; i++)
        if (at[i] != neutral)
            at[out++] = at[i];
    n = out;
    for (size_t i = 0; i < n && *whole == FX_RE_FAIL; i++) {
        const fx_re_node *x = node(p, at[i]);

        if (at[i] == absorbing)
            *whole = absorbing;
        else if (x->kind == FX_RE_K_NOT && bsearch(&x->a, at, n, sizeof(*at), by_id))
            *whole = absorbing;                             /* x | ~x, x & ~x */
        else if (k == FX_RE_K_AND && at[i] == FX_RE_EMPTY) {
            *whole = FX_RE_EMPTY;
            for (size_t j = 0; j < n; j++)
                if (!nullable(p, at[j]))
                    *whole = FX_RE_NONE;
        }
    }
    if (*whole == FX_RE_FAIL && k == FX_RE_K_ALT && n > 1 && at[0] == FX_RE_EMPTY)
        for (size_t i = 1; i < n; i++)
            if (nullable(p, at[i])) {                       /* empty | x with x nullable */
                memmove(at, at + 1, --n * sizeof(*at));
                break;
            }
    if (*whole == FX_RE_FAIL && n <= 1)
        *whole = n ? at[0] : neutral;
    p->stack.n = bottom + n;
    return true;
}

static int by_head(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* x a | x b is x (a | b): alternatives of words become a trie, whose derivatives look at one branch.  Replaces such
 * kids on the stack; *changed says whether there were any. */
static bool factor_heads(fx_re_pool *p, uint32_t bottom, bool *changed)
{
    size_t n = p->stack.n - bottom, cats = 0, bytes, out = bottom;
    uint64_t few[16], *heads = few;
    bool ok = true;

    *changed = false;
    for (size_t i = bottom; i < p->stack.n; i++)
        cats += kind(p, p->stack.at[i]) == FX_RE_K_CAT;
    if (cats < 2)
        return true;
    bytes = cats * sizeof(*heads);
    if (cats > FX_COUNT(few) && !(heads = fx_mem_alloc(p->mem, bytes)))
        return false;
    cats = 0;
    for (size_t i = 0; i < n; i++)
        if (kind(p, p->stack.at[bottom + i]) == FX_RE_K_CAT)
            heads[cats++] = (uint64_t)node(p, p->stack.at[bottom + i])->a << 32 | i;
    qsort(heads, cats, sizeof(*heads), by_head);
    for (size_t i = 0, end; i < cats && ok; i = end) {
        fx_re tail = FX_RE_NONE, head = (fx_re)(heads[i] >> 32);

        for (end = i + 1; end < cats && heads[end] >> 32 == head;)
            end++;
        if (end == i + 1)
            continue;
        for (size_t k = i; k < end; k++) {
            fx_re *kid = &p->stack.at[bottom + (uint32_t)heads[k]];
            fx_re rest = node(p, *kid)->b;

            *kid = FX_RE_NONE;
            tail = fx_re_alt(p, tail, rest);
        }
        head = fx_re_cat(p, head, tail);
        ok = head != FX_RE_FAIL;
        p->stack.at[bottom + (uint32_t)heads[i]] = ok ? head : FX_RE_NONE;
        *changed = true;
    }
    if (heads != few)
        fx_mem_free(p->mem, heads, bytes);
    for (size_t i = bottom; i < p->stack.n; i++)
        if (p->stack.at[i] != FX_RE_NONE)
            p->stack.at[out++] = p->stack.at[i];
    p->stack.n = out;
    return ok;
}

/* The kids on the stack from 'bottom' on as one node; pops them. */
static fx_re close_kids(fx_re_pool *p, fx_re_kind k, uint32_t bottom)
{
    fx_re_node r = { .kind = (uint8_t)k };
    fx_re whole, id;
    bool fresh, null_any = false, null_all = true, check = false, again = true;

    while (again) {
        if (p->failed || !simplify_kids(p, k, bottom, &whole) ||
            (again = false, whole == FX_RE_FAIL && k == FX_RE_K_ALT && !factor_heads(p, bottom, &again))) {
            p->stack.n = bottom;
            return fail(p);
        }
    }
    if (whole != FX_RE_FAIL) {
        p->stack.n = bottom;
        return whole;
    }
    r.a = (uint32_t)p->kids.n;
    r.b = (uint32_t)(p->stack.n - bottom);
    if (!FX_VEC_RESERVE(&p->kids, p->mem, r.b)) {
        p->stack.n = bottom;
        return fail(p);
    }
    memcpy(p->kids.at + r.a, p->stack.at + bottom, r.b * sizeof(uint32_t));
    p->stack.n = bottom;
    for (uint32_t i = 0; i < r.b; i++) {
        fx_re x = p->kids.at[r.a + i];

        null_any |= nullable(p, x);
        null_all &= nullable(p, x);
        check |= (flags(p, x) & FX_RE_F_CHECK) != 0;
        r.depth = FX_MAX(r.depth, deeper(p, x));
    }
    r.flags = (uint8_t)((k == FX_RE_K_ALT ? null_any : null_all) ? FX_RE_F_NULLABLE | FX_RE_F_LIVE : 0);
    if (check || k == FX_RE_K_AND)
        r.flags |= FX_RE_F_CHECK;
    p->kids.n += r.b;
    id = intern(p, r, &fresh);
    if (!fresh)
        p->kids.n -= r.b;
    return id;
}

static fx_re join(fx_re_pool *p, fx_re_kind k, fx_re a, fx_re b)
{
    uint32_t bottom = (uint32_t)p->stack.n;

    if (a == FX_RE_FAIL || b == FX_RE_FAIL || p->failed)
        return FX_RE_FAIL;
    if (a == b || (k == FX_RE_K_ALT && b == FX_RE_NONE))
        return a;
    if (k == FX_RE_K_ALT && a == FX_RE_NONE)
        return b;
    if (!push_flat(p, k, a) || !push_flat(p, k, b)) {
        p->stack.n = bottom;
        return fail(p);
    }
    return close_kids(p, k, bottom);
}

fx_re fx_re_alt(fx_re_pool *p, fx_re a, fx_re b) { return join(p, FX_RE_K_ALT, a, b); }
fx_re fx_re_and(fx_re_pool *p, fx_re a, fx_re b) { return join(p, FX_RE_K_AND, a, b); }

fx_re fx_re_alt_of(fx_re_pool *p, const fx_re *kids, size_t n)
{
    uint32_t bottom = (uint32_t)p->stack.n;

    for (size_t i = 0; i < n; i++)
        if (p->failed || kids[i] == FX_RE_FAIL || !push_flat(p, FX_RE_K_ALT, kids[i])) {
            p->stack.n = bottom;
            return fail(p);
        }
    return close_kids(p, FX_RE_K_ALT, bottom);
}

fx_re fx_re_not(fx_re_pool *p, fx_re a)
{
    bool fresh;

    if (a == FX_RE_FAIL || p->failed)
        return FX_RE_FAIL;
    if (a == FX_RE_NONE)
        return ALL;
    if (kind(p, a) == FX_RE_K_NOT)
        return node(p, a)->a;
    return intern(p, (fx_re_node){ .kind = FX_RE_K_NOT, .a = a, .depth = deeper(p, a),
                                   .flags = FX_RE_F_CHECK |
                                            (nullable(p, a) ? 0 : FX_RE_F_NULLABLE | FX_RE_F_LIVE) }, &fresh);
}

fx_re fx_re_text_not(fx_re_pool *p, fx_spell s, fx_re a)
{
    return fx_re_and(p, fx_re_any_text(p, s), fx_re_not(p, a));
}

fx_re fx_re_nonempty(fx_re_pool *p, fx_re a)
{
    const fx_re_node *n;

    if (a == FX_RE_FAIL || !nullable(p, a))
        return a;
    if (a == FX_RE_EMPTY)
        return FX_RE_NONE;
    n = node(p, a);
    if (n->kind == FX_RE_K_REPEAT && !nullable(p, n->a))
        return fx_re_repeat(p, n->a, 1, n->c);
    return fx_re_and(p, a, fx_re_not(p, FX_RE_EMPTY));
}

static fx_re machine_node(fx_re_pool *p, uint32_t index, uint64_t state)
{
    const fx_re_machine_ref *r = &p->machines.at[index];
    bool fresh, ok = r->m->accepts(r->user, state);

    return intern(p, (fx_re_node){ .kind = FX_RE_K_MACHINE, .a = index, .b = (uint32_t)state,
                                   .c = (uint32_t)(state >> 32), .depth = 1,
                                   .flags = FX_RE_F_CHECK | (ok ? FX_RE_F_NULLABLE | FX_RE_F_LIVE : 0) }, &fresh);
}

fx_re fx_re_of_machine(fx_re_pool *p, const fx_re_machine *m, const void *user, uint64_t state)
{
    size_t i = 0;

    if (p->failed)
        return FX_RE_FAIL;
    while (i < p->machines.n && (p->machines.at[i].m != m || p->machines.at[i].user != user))
        i++;
    if (i == p->machines.n && !FX_VEC_PUSH(&p->machines, p->mem, ((fx_re_machine_ref){ m, user })))
        return fail(p);
    return machine_node(p, (uint32_t)i, state);
}

/* ---- Derivatives --------------------------------------------------------------------- */

static fx_re derive(fx_re_pool *p, fx_re a, unsigned char byte);

static fx_re derive_kids(fx_re_pool *p, fx_re_node n, unsigned char byte)
{
    uint32_t bottom = (uint32_t)p->stack.n;

    for (uint32_t i = 0; i < n.b; i++) {
        fx_re d = derive(p, p->kids.at[n.a + i], byte);

        if (d == FX_RE_NONE && n.kind == FX_RE_K_ALT)
            continue;
        if (d == FX_RE_NONE || d == FX_RE_FAIL || !push_flat(p, (fx_re_kind)n.kind, d)) {
            p->stack.n = bottom;
            return d == FX_RE_NONE ? d : fail(p);
        }
    }
    return close_kids(p, (fx_re_kind)n.kind, bottom);
}

static fx_re derive_machine(fx_re_pool *p, fx_re_node n, unsigned char byte)
{
    fx_re_machine_ref r = p->machines.at[n.a];
    uint64_t to;
    fx_re id;

    if (!r.m->next(r.user, n.b | (uint64_t)n.c << 32, byte, &to))
        return FX_RE_NONE;
    id = machine_node(p, n.a, to);
    if (id != FX_RE_FAIL)
        p->nodes.at[id].flags |= FX_RE_F_LIVE;              /* next says false where nothing follows */
    return id;
}

static fx_re derive(fx_re_pool *p, fx_re a, unsigned char byte)
{
    fx_re_node n = *node(p, a);         /* a copy: the array moves as it grows */
    fx_re d;

    switch ((fx_re_kind)n.kind) {
    case FX_RE_K_NONE:
    case FX_RE_K_EMPTY:
        return FX_RE_NONE;
    case FX_RE_K_SET:
        return fx_re_set_has(&p->sets.at[n.a], byte) ? FX_RE_EMPTY : FX_RE_NONE;
    case FX_RE_K_CAT:
        d = fx_re_cat(p, derive(p, n.a, byte), n.b);
        return nullable(p, n.a) ? fx_re_alt(p, d, derive(p, n.b, byte)) : d;
    case FX_RE_K_ALT:
    case FX_RE_K_AND:
        return derive_kids(p, n, byte);
    case FX_RE_K_NOT:
        return fx_re_not(p, derive(p, n.a, byte));
    case FX_RE_K_REPEAT:
        d = derive(p, n.a, byte);
        if (d == FX_RE_NONE)
            return d;
        return fx_re_cat(p, d, fx_re_repeat(p, n.a, n.b ? n.b - 1 : 0, n.c == FX_RE_INF ? n.c : n.c - 1));
    case FX_RE_K_MACHINE:
        return derive_machine(p, n, byte);
    }
    return fail(p);
}

fx_re fx_re_derive(fx_re_pool *p, fx_re a, unsigned char byte)
{
    return a == FX_RE_FAIL || p->failed ? FX_RE_FAIL : derive(p, a, byte);
}

bool fx_re_matches(fx_re_pool *p, fx_re a, fx_str bytes)
{
    for (size_t i = 0; i < bytes.n && a != FX_RE_NONE && a != FX_RE_FAIL; i++)
        a = fx_re_derive(p, a, (unsigned char)bytes.p[i]);
    return fx_re_nullable(p, a);
}

void fx_re_first_of_number(const void *user, uint64_t state, uint64_t set[4])
{
    (void)user;
    (void)state;
    for (const char *p = "+-.0123456789Ee"; *p; p++)
        set[*p >> 6] |= 1ull << (*p & 63);
}

/* Bytes that a machine may go on with. */
static void first_of_machine(const fx_re_pool *p, const fx_re_node *n, fx_re_set *out)
{
    fx_re_machine_ref r = p->machines.at[n->a];

    if (r.m->first)
        r.m->first(r.user, n->b | (uint64_t)n->c << 32, out->w);
    else
        memset(out, 0xff, sizeof(*out));
}

static void collect_boundaries(const fx_re_pool *p, fx_re a, fx_re_set *out)
{
    const fx_re_node *n = node(p, a);

    while (n->kind == FX_RE_K_CAT) {
        collect_boundaries(p, n->a, out);
        if (!nullable(p, n->a))
            return;
        n = node(p, n->b);
    }
    if (n->kind == FX_RE_K_SET) {
        const uint64_t *w = p->sets.at[n->a].w;

        for (int i = 0; i < 4; i++)
            out->w[i] |= w[i] ^ (w[i] << 1 | (i ? w[i - 1] >> 63 : 0));
    } else if (n->kind == FX_RE_K_ALT || n->kind == FX_RE_K_AND) {
        for (uint32_t i = 0; i < n->b; i++)
            collect_boundaries(p, p->kids.at[n->a + i], out);
    } else if (n->kind == FX_RE_K_NOT || n->kind == FX_RE_K_REPEAT) {
        collect_boundaries(p, n->a, out);
    } else if (n->kind == FX_RE_K_MACHINE) {
        fx_re_set own = { { 0 } };

        first_of_machine(p, n, &own);
        for (int i = 0; i < 4; i++)             /* each byte that may come, and the one after it */
            out->w[i] |= own.w[i] | own.w[i] << 1 | (i ? own.w[i - 1] >> 63 : 0);
    }
}

void fx_re_boundaries(const fx_re_pool *p, fx_re a, fx_re_set *out)
{
    memset(out, 0, sizeof(*out));
    collect_boundaries(p, a, out);
    out->w[0] &= ~1ull;
}

void fx_re_first(const fx_re_pool *p, fx_re a, fx_re_set *out)
{
    const fx_re_node *n = node(p, a);

    while (n->kind == FX_RE_K_CAT) {
        fx_re_first(p, n->a, out);
        if (!nullable(p, n->a))
            return;
        n = node(p, n->b);
    }
    if (n->kind == FX_RE_K_SET)
        for (int i = 0; i < 4; i++)
            out->w[i] |= p->sets.at[n->a].w[i];
    else if (n->kind == FX_RE_K_ALT)
        for (uint32_t i = 0; i < n->b; i++)
            fx_re_first(p, p->kids.at[n->a + i], out);
    else if (n->kind == FX_RE_K_AND)
        fx_re_first(p, p->kids.at[n->a], out);
    else if (n->kind == FX_RE_K_REPEAT)
        fx_re_first(p, n->a, out);
    else if (n->kind == FX_RE_K_MACHINE)
        first_of_machine(p, n, out);
    else if (n->kind == FX_RE_K_NOT)
        memset(out, 0xff, sizeof(*out));
}

/* ---- Emptiness ------------------------------------------------------------------------ */

typedef struct search {
    FX_VEC(fx_re) list;         /* states seen, in order of distance */
    FX_VEC(uint32_t) from;      /* where in the list each was reached from */
} search;

static bool see(fx_re_pool *p, search *s, fx_re a, size_t from)
{
    while (p->marks.n < p->nodes.n)
        if (!FX_VEC_PUSH(&p->marks, p->mem, 0))
            return false;
    if (p->marks.at[a] == p->mark)
        return true;
    p->marks.at[a] = p->mark;
    return FX_VEC_PUSH(&s->list, p->mem, a) && FX_VEC_PUSH(&s->from, p->mem, (uint32_t)from);
}

static bool known_live(const fx_re_pool *p, fx_re a)
{
    return a != FX_RE_NONE && (!(flags(p, a) & FX_RE_F_CHECK) || (flags(p, a) & (FX_RE_F_LIVE | FX_RE_F_NULLABLE)));
}

/* Looks at the derivatives of list[i]; FX_NO when one is live, FX_UNKNOWN when memory ran out. */
static fx_tristate expand(fx_re_pool *p, search *s, size_t i)
{
    fx_re_set bounds;
    fx_re last = FX_RE_NONE;

    fx_re_boundaries(p, s->list.at[i], &bounds);
    for (unsigned b = 0; b < 256; b++) {
        if (b > 0 && !fx_re_set_has(&bounds, (unsigned char)b))
            continue;
        fx_re d = derive(p, s->list.at[i], (unsigned char)b);

        if (d == FX_RE_FAIL)
            return FX_UNKNOWN;
        if (known_live(p, d)) {
            for (size_t at = i;; at = s->from.at[at]) {
                p->nodes.at[s->list.at[at]].flags |= FX_RE_F_LIVE;
                if (at == 0)
                    return FX_NO;
            }
        }
        if (d != last && d != FX_RE_NONE && !(flags(p, d) & FX_RE_F_DEAD) && !see(p, s, d, i))
            return FX_UNKNOWN;
        last = d;
    }
    return FX_YES;
}

/* Breadth first over the derivatives of 'a', until one is live or all are seen. */
static fx_tristate explore(fx_re_pool *p, fx_re a, size_t budget)
{
    search s = { 0 };
    fx_tristate t = FX_UNKNOWN;
    size_t most = p->nodes.n + budget * NODES_A_STATE;      /* large expressions spend the budget sooner */

    p->mark++;
    if (see(p, &s, a, 0))
        for (size_t i = 0; i <= s.list.n; i++) {
            if (i == s.list.n) {
                for (i = 0; i < s.list.n; i++)
                    p->nodes.at[s.list.at[i]].flags |= FX_RE_F_DEAD;
                t = FX_YES;
                break;
            }
            t = i < budget && p->nodes.n < most ? expand(p, &s, i) : FX_UNKNOWN;
            if (t != FX_YES)
                break;
        }
    FX_VEC_FREE(&s.list, p->mem);
    FX_VEC_FREE(&s.from, p->mem);
    return t;
}

static fx_tristate is_none_of_alt(fx_re_pool *p, fx_re_node n, size_t budget)
{
    fx_tristate all = FX_YES;

    for (uint32_t i = 0; i < n.b; i++) {
        fx_tristate t = fx_re_is_none(p, p->kids.at[n.a + i], budget);

        if (t == FX_NO)
            return t;
        all = t == FX_UNKNOWN ? t : all;
    }
    return all;
}

fx_tristate fx_re_is_none(fx_re_pool *p, fx_re a, size_t budget)
{
    fx_tristate t = FX_NO, u;
    fx_re_node n;

    if (a == FX_RE_FAIL || p->failed)
        return FX_UNKNOWN;
    if (a == FX_RE_NONE || (flags(p, a) & FX_RE_F_DEAD))
        return FX_YES;
    if (known_live(p, a))
        return FX_NO;
    n = *node(p, a);
    switch ((fx_re_kind)n.kind) {
    case FX_RE_K_ALT:
        t = is_none_of_alt(p, n, budget);
        break;
    case FX_RE_K_REPEAT:                    /* min > 0, else it is nullable */
        t = fx_re_is_none(p, n.a, budget);
        break;
    case FX_RE_K_CAT:
        for (; t != FX_YES && n.kind == FX_RE_K_CAT; n = *node(p, n.b)) {
            u = fx_re_is_none(p, n.a, budget);
            t = u == FX_NO ? t : u;
            if (t != FX_YES && kind(p, n.b) != FX_RE_K_CAT) {
                u = fx_re_is_none(p, n.b, budget);
                t = u == FX_NO ? t : u;
            }
        }
        break;
    default:
        return explore(p, a, budget);
    }
    if (t != FX_UNKNOWN)
        p->nodes.at[a].flags |= t == FX_YES ? FX_RE_F_DEAD : FX_RE_F_LIVE;
    return t;
}

/* ---- Counting words ----------------------------------------------------------------------- */

#define COUNT_STATES 64         /* expressions in one step */
#define COUNT_STEPS 48          /* bytes in a word */

typedef struct counts {
    fx_re re[COUNT_STATES];
    uint64_t words[COUNT_STATES];   /* that lead there */
    size_t n;
} counts;

static void count_add(counts *c, fx_re re, uint64_t words)
{
    size_t i = 0;

    while (i < c->n && c->re[i] != re)
        i++;
    if (i == COUNT_STATES)
        return;                                 /* fewer are counted than there are */
    if (i == c->n) {
        c->re[c->n] = re;
        c->words[c->n++] = 0;
    }
    c->words[i] = FX_MIN(c->words[i] + words, (uint64_t)1 << 40);
}

static void count_step(fx_re_pool *p, fx_re re, uint64_t words, counts *to)
{
    fx_re_set bounds;

    fx_re_boundaries(p, re, &bounds);
    for (unsigned lo = 0, hi; lo < 256; lo = hi) {
        fx_re d = fx_re_derive(p, re, (unsigned char)lo);

        for (hi = lo + 1; hi < 256 && !fx_re_set_has(&bounds, (unsigned char)hi);)
            hi++;
        if (d != FX_RE_NONE && d != FX_RE_FAIL)
            count_add(to, d, FX_MIN(words * (hi - lo), (uint64_t)1 << 40));
    }
}

bool fx_re_has_words(fx_re_pool *p, fx_re a, uint64_t want)
{
    counts now = { .re = { a }, .words = { 1 }, .n = 1 }, next;
    uint64_t found = 0;

    for (int step = 0; step < COUNT_STEPS && now.n && found < want && !p->failed; step++) {
        next.n = 0;
        for (size_t i = 0; i < now.n; i++) {
            found += nullable(p, now.re[i]) ? now.words[i] : 0;
            count_step(p, now.re[i], now.words[i], &next);
        }
        now = next;
    }
    return found >= want;
}

/* ---- Fingerprints ----------------------------------------------------------------------- */

static fx_hash128 blend(fx_hash128 a, fx_hash128 b, uint64_t seed)
{
    fx_hash128 both[2] = { a, b };

    return fx_hash128_of(both, sizeof(both), seed);
}

static bool print_of(fx_re_pool *p, fx_re a, fx_hash128 *out);

static bool is_printed(const fx_re_pool *p, fx_re a) { return p->prints.at[a].lo | p->prints.at[a].hi; }

/* Of a concatenation: from its last part on, without recursion. */
static bool print_cat(fx_re_pool *p, fx_re a, fx_hash128 *out)
{
    size_t bottom = p->spine.n;
    fx_hash128 kid;
    bool ok = true;

    for (; ok && kind(p, a) == FX_RE_K_CAT && !is_printed(p, a); a = node(p, a)->b)
        ok = FX_VEC_PUSH(&p->spine, p->mem, a);
    ok = ok && print_of(p, a, out);
    while (ok && p->spine.n > bottom) {
        a = p->spine.at[--p->spine.n];
        ok = print_of(p, node(p, a)->a, &kid);
        if (!ok)
            break;                       /* a machine in it: it has no fingerprint */
        *out = blend(kid, *out, 1);
        p->prints.at[a] = *out = blend(*out, *out, 16 + FX_RE_K_CAT);
    }
    p->spine.n = bottom;
    return ok;
}

static bool print_of(fx_re_pool *p, fx_re a, fx_hash128 *out)
{
    const fx_re_node *n = node(p, a);
    fx_hash128 h = { n->b, n->c }, kid;

    if (is_printed(p, a)) {
        *out = p->prints.at[a];
        return true;
    }
    switch ((fx_re_kind)n->kind) {
    case FX_RE_K_NONE:
    case FX_RE_K_EMPTY:
        break;
    case FX_RE_K_SET:
        h = fx_hash128_of(&p->sets.at[n->a], sizeof(fx_re_set), 0);
        break;
    case FX_RE_K_CAT:
        return print_cat(p, a, out);
    case FX_RE_K_ALT:
    case FX_RE_K_AND:                       /* ids differ from pool to pool: a sum knows no order */
        h = (fx_hash128){ 0, 0 };
        for (uint32_t i = 0; i < n->b; i++) {
            if (!print_of(p, p->kids.at[n->a + i], &kid))
                return false;
            h.lo += kid.lo * 0x9E3779B97F4A7C15ull;
            h.hi += kid.hi ^ kid.lo >> 32;
        }
        break;
    case FX_RE_K_NOT:
    case FX_RE_K_REPEAT:
        if (!print_of(p, n->a, &kid))
            return false;
        h = blend(kid, h, 2);
        break;
    case FX_RE_K_MACHINE:
        return false;
    }
    h = blend(h, h, 16 + n->kind);
    p->prints.at[a] = *out = h;
    return true;
}

bool fx_re_fingerprint(fx_re_pool *p, fx_re a, fx_hash128 *out)
{
    size_t more = p->nodes.n > p->prints.n ? p->nodes.n - p->prints.n : 0;

    if (a == FX_RE_FAIL || !FX_VEC_RESERVE(&p->prints, p->mem, more + 1))
        return false;
    if (more)
        memset(p->prints.at + p->prints.n, 0, more * sizeof(*p->prints.at));
    p->prints.n += more;
    return print_of(p, a, out);
}
