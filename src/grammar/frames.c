/* frames.c - frames and places: interning, closures, steps.
 *
 * A closure is a worklist of "enter this node below that frame" and "return to that frame"; it ends in
 * threads, each at the beginning of an expression.  The object's and array's parts are in frames_json.c. */
#include "grammar/frames.h"

#include <stdlib.h>

#define WORK_MAX 100000         /* items of one closure */
#define THREADS_MAX 10000       /* of one place */
#define JOINS_MAX 2000          /* frames put together for one place; beyond, unions stay as they are */

/* ---- Interning ------------------------------------------------------------------------------ */

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9E3779B1u;
    return h ^ h >> 15;
}

static uint32_t frame_hash(const fx_run *r, const fx_frame *f)
{
    uint32_t h = mix(mix(0x2545F491u, f->node), f->parent);

    if (f->node == FX_FRAME_UNION) {
        for (uint32_t i = 0; i < f->r[0]; i++)
            h = mix(h, r->lists.at[f->r[1] + i]);
        return h;
    }
    h = mix(h, f->phase);
    for (size_t i = 0; i < FX_COUNT(f->r); i++)
        h = mix(h, f->r[i]);
    return h;
}

static bool same_frame(const fx_run *r, const fx_frame *x, const fx_frame *y)
{
    if (x->node != y->node || x->parent != y->parent || x->r[0] != y->r[0])
        return false;
    if (x->node == FX_FRAME_UNION)
        return !memcmp(r->lists.at + x->r[1], r->lists.at + y->r[1], x->r[0] * sizeof(uint32_t));
    return x->phase == y->phase && !memcmp(x->r, y->r, sizeof(x->r));
}

static bool grow_frames(fx_run *r)
{
    size_t cap = r->frame_cap ? r->frame_cap * 2 : 1024;
    uint32_t *t = fx_mem_array(r->mem, cap, sizeof(*t));

    if (!t)
        return false;
    for (size_t i = 1; i < r->frames.n; i++) {
        size_t at = frame_hash(r, &r->frames.at[i]) & (cap - 1);

        while (t[at])
            at = (at + 1) & (cap - 1);
        t[at] = (uint32_t)i;
    }
    fx_mem_free(r->mem, r->frame_table, r->frame_cap * sizeof(*r->frame_table));
    r->frame_table = t;
    r->frame_cap = cap;
    return true;
}

static uint32_t fail(fx_run *r)
{
    r->failed = true;
    return UINT32_MAX;
}

uint32_t fx_frame_intern(fx_run *r, fx_frame f)
{
    size_t at;

    if (r->failed || (r->frames.n * 2 >= r->frame_cap && !grow_frames(r)))
        return fail(r);
    at = frame_hash(r, &f) & (r->frame_cap - 1);
    for (; r->frame_table[at]; at = (at + 1) & (r->frame_cap - 1))
        if (same_frame(r, &r->frames.at[r->frame_table[at]], &f))
            return r->frame_table[at];
    f.closed = 0;
    if (f.node != FX_FRAME_UNION)       /* a union has its deepest member's */
        f.depth = r->frames.at[f.parent].depth + 1;
    if (f.depth > r->g->limits.max_depth || fx_run_bytes(r) > r->g->limits.max_bytes || !FX_VEC_PUSH(&r->frames, r->mem, f))
        return fail(r);
    r->frame_table[at] = (uint32_t)r->frames.n - 1;
    return (uint32_t)r->frames.n - 1;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Whether two frames differ in nothing but their parents. */
static bool alike(const fx_run *r, uint32_t x, uint32_t y)
{
    const fx_frame *f = &r->frames.at[x], *g = &r->frames.at[y];

    return r->n_joins < JOINS_MAX && x != FX_FRAME_END && y != FX_FRAME_END && f->node != FX_FRAME_UNION && f->node == g->node &&
           f->phase == g->phase && !memcmp(f->r, g->r, sizeof(f->r));
}

static bool push_members(fx_run *r, uint32_t x)
{
    const fx_frame *f = &r->frames.at[x];

    if (f->node != FX_FRAME_UNION || x == FX_FRAME_END)
        return FX_VEC_PUSH(&r->lists, r->mem, x);
    if (!FX_VEC_RESERVE(&r->lists, r->mem, f->r[0]))
        return false;
    memcpy(r->lists.at + r->lists.n, r->lists.at + f->r[1], f->r[0] * sizeof(uint32_t));
    r->lists.n += f->r[0];
    return true;
}

static uint32_t join(fx_run *r, uint32_t x, uint32_t y);

/* One frame for two that are alike. */
static uint32_t join_alike(fx_run *r, uint32_t x, uint32_t y)
{
    fx_frame f = r->frames.at[x];

    r->n_joins++;
    f.parent = join(r, f.parent, r->frames.at[y].parent);
    return f.parent == UINT32_MAX ? UINT32_MAX : fx_frame_intern(r, f);
}

/* The union of two frames. */
static uint32_t join(fx_run *r, uint32_t x, uint32_t y)
{
    size_t first = r->lists.n, n;
    uint32_t *at, id, before = (uint32_t)r->frames.n;

    if (x == y)
        return x;
    if (alike(r, x, y))
        return join_alike(r, x, y);
    if (!push_members(r, x) || !push_members(r, y))
        return fail(r);
    for (size_t i = first; i < r->lists.n; i++)         /* members that are alike become one */
        for (size_t j = i + 1; j < r->lists.n; j++)
            if (r->lists.at[i] == r->lists.at[j] || alike(r, r->lists.at[i], r->lists.at[j])) {
                size_t keep = r->lists.n;
                uint32_t one = r->lists.at[i] == r->lists.at[j] ? r->lists.at[i]
                                                                : join_alike(r, r->lists.at[i], r->lists.at[j]);

                if (one == UINT32_MAX)
                    return one;
                if (r->lists.n != keep) {               /* a union was made behind ours: copy ours after it */
                    size_t own = keep - first;

                    if (!FX_VEC_RESERVE(&r->lists, r->mem, own))
                        return fail(r);
                    memcpy(r->lists.at + r->lists.n, r->lists.at + first, own * sizeof(uint32_t));
                    i += r->lists.n - first;
                    j += r->lists.n - first;
                    first = r->lists.n;
                    r->lists.n += own;
                }
                r->lists.at[i] = one;
                r->lists.at[j] = r->lists.at[--r->lists.n];
                j = i;
            }
    at = r->lists.at + first;
    n = r->lists.n - first;
    if (n == 1) {
        id = at[0];
        r->lists.n = first;
        return id;
    }
    qsort(at, n, sizeof(*at), by_number);
    fx_frame f = { .node = FX_FRAME_UNION, .r = { (uint32_t)n, (uint32_t)first } };

    for (size_t i = 0; i < n; i++)
        f.depth = FX_MAX(f.depth, r->frames.at[at[i]].depth);
    id = fx_frame_intern(r, f);
    if (id < before)
        r->lists.n = first;
    return id;
}

/* ---- Places ---------------------------------------------------------------------------------------- */

static bool grow_sets(fx_run *r)
{
    size_t cap = r->set_cap ? r->set_cap * 2 : 1024;
    uint32_t *t = fx_mem_array(r->mem, cap, sizeof(*t));

    if (!t)
        return false;
    for (size_t i = 0; i < r->sets.n; i++) {
        size_t at = r->sets.at[i].hash & (cap - 1);

        while (t[at])
            at = (at + 1) & (cap - 1);
        t[at] = (uint32_t)i + 1;
    }
    fx_mem_free(r->mem, r->set_table, r->set_cap * sizeof(*r->set_table));
    r->set_table = t;
    r->set_cap = cap;
    return true;
}

static int by_thread(const void *a, const void *b)
{
    const fx_thread *x = a, *y = b;

    if (x->re != y->re)
        return x->re < y->re ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static size_t sort_threads(fx_thread *t, size_t n)
{
    size_t k = 0;

    if (n > 1 && n <= 12) {
        for (size_t i = 1; i < n; i++) {
            fx_thread x = t[i];
            size_t j = i;

            for (; j > 0 && by_thread(&t[j - 1], &x) > 0; j--)
                t[j] = t[j - 1];
            t[j] = x;
        }
    } else if (n > 1) {
        qsort(t, n, sizeof(*t), by_thread);
    }
    for (size_t i = 0; i < n; i++)
        if (k == 0 || by_thread(&t[k - 1], &t[i]) != 0)
            t[k++] = t[i];
    return k;
}

/* Threads of one expression whose frames differ in their parents only become one; sorted before and after. */
static bool merge_threads(fx_run *r, size_t bottom)
{
    bool merged = false;

    for (size_t i = bottom; i < r->scratch.n; i++)
        for (size_t j = i + 1; j < r->scratch.n && r->scratch.at[j].re == r->scratch.at[i].re;) {
            uint32_t one;

            if (!alike(r, r->scratch.at[i].frame, r->scratch.at[j].frame)) {
                j++;
                continue;
            }
            one = join_alike(r, r->scratch.at[i].frame, r->scratch.at[j].frame);
            if (one == UINT32_MAX)
                return false;
            r->scratch.at[i].frame = one;
            memmove(r->scratch.at + j, r->scratch.at + j + 1, (r->scratch.n - j - 1) * sizeof(fx_thread));
            r->scratch.n--;
            merged = true;
        }
    if (merged)
        r->scratch.n = bottom + sort_threads(r->scratch.at + bottom, r->scratch.n - bottom);
    return true;
}

fx_place fx_place_intern(fx_run *r, size_t bottom, uint32_t flags)
{
    fx_set s = { .flags = flags };
    size_t at, n;

    r->n_joins = 0;
    r->scratch.n = bottom + sort_threads(r->scratch.at + bottom, r->scratch.n - bottom);
    if (r->failed || (r->sets.n * 2 >= r->set_cap && !grow_sets(r)) || !merge_threads(r, bottom)) {
        r->scratch.n = bottom;
        return fail(r);
    }
    const fx_thread *t = r->scratch.at + bottom;

    n = r->scratch.n - bottom;
    r->scratch.n = bottom;
    s.hash = mix(0x1234567u, flags);
    for (size_t i = 0; i < n; i++)
        s.hash = mix(mix(s.hash, t[i].re), t[i].frame);
    at = s.hash & (r->set_cap - 1);
    for (; r->set_table[at]; at = (at + 1) & (r->set_cap - 1)) {
        const fx_set *x = &r->sets.at[r->set_table[at] - 1];

        if (x->hash == s.hash && x->n == n && x->flags == flags &&
            (n == 0 || !memcmp(r->threads.at + x->first, t, n * sizeof(*t))))
            return r->set_table[at] - 1;
    }
    s.first = (uint32_t)r->threads.n;
    s.n = (uint32_t)n;
    if (n > THREADS_MAX || fx_run_bytes(r) > r->g->limits.max_bytes || !FX_VEC_RESERVE(&r->threads, r->mem, n) ||
        !FX_VEC_PUSH(&r->sets, r->mem, s))
        return fail(r);
    if (n)
        memcpy(r->threads.at + r->threads.n, t, n * sizeof(*t));
    r->threads.n += n;
    r->set_table[at] = (uint32_t)r->sets.n;
    return (fx_place)r->sets.n - 1;
}

/* ---- Closures -------------------------------------------------------------------------------------------- */

#define ENTER(node, frame) ((uint64_t)(node) << 32 | (frame))
#define RETURN(frame) ((uint64_t)FX_GNODE_FAIL << 32 | (frame))

static bool grow_visited(fx_run *r)
{
    size_t cap = r->visited_cap ? r->visited_cap * 2 : 64;
    fx_visit *t = fx_mem_array(r->mem, cap, sizeof(*t));

    if (!t)
        return false;
    for (size_t i = 0; i < r->visited_cap; i++)
        if (r->visited[i].closure == r->closure) {
            size_t at = (r->visited[i].item * 0x9E3779B97F4A7C15ull >> 32) & (cap - 1);

            while (t[at].closure == r->closure)
                at = (at + 1) & (cap - 1);
            t[at] = r->visited[i];
        }
    fx_mem_free(r->mem, r->visited, r->visited_cap * sizeof(*r->visited));
    r->visited = t;
    r->visited_cap = cap;
    return true;
}

/* Where the item is among those of this closure, or would be. */
static fx_visit *visit_of(const fx_run *r, uint64_t item)
{
    size_t at = (item * 0x9E3779B97F4A7C15ull >> 32) & (r->visited_cap - 1);

    while (r->visited[at].closure == r->closure && r->visited[at].item != item)
        at = (at + 1) & (r->visited_cap - 1);
    return &r->visited[at];
}

static void push(closure *c, uint64_t item)
{
    fx_run *r = c->r;
    fx_visit *x;

    if (c->n_items * 2 >= r->visited_cap && !grow_visited(r)) {
        r->failed = true;
        return;
    }
    x = visit_of(r, item);
    if (x->closure == r->closure)
        return;
    *x = (fx_visit){ item, r->closure };
    if (++c->n_items > WORK_MAX || !FX_VEC_PUSH(&r->work, r->mem, item))
        r->failed = true;
}

void fx_closure_enter(closure *c, fx_gnode node, uint32_t frame)
{
    if (frame != UINT32_MAX && node != FX_GNODE_NEVER)
        push(c, ENTER(node, frame));
}

void fx_closure_return(closure *c, uint32_t frame)
{
    if (frame != UINT32_MAX)
        push(c, RETURN(frame));
}

void fx_closure_thread(closure *c, fx_re re, uint32_t frame)
{
    if (frame == UINT32_MAX || re == FX_RE_NONE)
        return;
    if (re == FX_RE_FAIL || !FX_VEC_PUSH(&c->r->scratch, c->r->mem, ((fx_thread){ re, frame })))
        c->r->failed = true;
}

/* A frame's copy with another phase. */
uint32_t fx_frame_with(fx_run *r, const fx_frame *f, uint32_t phase)
{
    fx_frame k = *f;

    k.phase = phase;
    return fx_frame_intern(r, k);
}

static void next_in_seq(closure *c, const fx_gnode_data *n, const fx_frame *f, uint32_t pos)
{
    fx_gnode kid = c->r->g->kids.at[n->a + pos];
    uint32_t below = f->parent;

    if (pos + 1 < n->b)
        below = fx_frame_intern(c->r, (fx_frame){ .node = f->node, .phase = pos + 1, .parent = f->parent });
    fx_closure_enter(c, kid, below);
}

static bool born(const closure *c, fx_gnode kid, uint32_t frame)
{
    return c->r->visited_cap && visit_of(c->r, ENTER(kid, frame))->closure == c->r->closure;
}

/* 'f' counts the times done.  From 'frame' (its own number) a kid that matched nothing isn't tried again. */
static void next_in_repeat(closure *c, const fx_gnode_data *n, const fx_frame *f, uint32_t frame)
{
    uint32_t count = f->phase, most = n->c == FX_GRAM_INF ? n->b : n->c, up;
    bool empty = frame != UINT32_MAX && c->r->g->nodes.at[n->a].nullable && born(c, n->a, frame);

    if (count >= n->b)
        fx_closure_return(c, f->parent);
    if (empty || (n->c != FX_GRAM_INF && count >= n->c))
        return;
    up = FX_MIN(count + 1, most);
    fx_closure_enter(c, n->a, fx_frame_intern(c->r, (fx_frame){ .node = f->node, .phase = up, .parent = f->parent }));
}

static void enter(closure *c, fx_gnode x, uint32_t parent)
{
    const fx_gram *g = c->r->g;
    const fx_gnode_data *n = &g->nodes.at[x];
    fx_frame f = { .node = x, .parent = parent };

    switch ((fx_gkind)n->kind) {
    case FX_G_NEVER:
        return;
    case FX_G_EMPTY:
        fx_closure_return(c, parent);
        return;
    case FX_G_LEXEME:
        if (fx_run_goes_on(c->r, n->a))
            fx_closure_thread(c, n->a, parent);
        if (fx_re_nullable(c->r->pool, n->a))
            fx_closure_return(c, parent);
        return;
    case FX_G_TOKEN:
        fx_closure_thread(c, FX_THREAD_TOKEN | n->a, parent);
        return;
    case FX_G_SEQ:
        next_in_seq(c, n, &f, 0);
        return;
    case FX_G_ALT:
        for (uint32_t i = 0; i < n->b; i++)
            fx_closure_enter(c, g->kids.at[n->a + i], parent);
        return;
    case FX_G_REPEAT:
        next_in_repeat(c, n, &f, UINT32_MAX);
        return;
    case FX_G_RULE:
        fx_closure_enter(c, n->a, parent);
        return;
    case FX_G_OBJECT:
    case FX_G_ARRAY:
        fx_json_enter(c, x, parent);
        return;
    }
}

static void come_back(closure *c, uint32_t frame)
{
    fx_run *r = c->r;
    fx_frame f = r->frames.at[frame];               /* a copy: the array grows */

    if (frame == FX_FRAME_END) {
        c->flags |= FX_SET_ACCEPT;
        return;
    }
    if (f.node == FX_FRAME_UNION) {
        for (uint32_t i = 0; i < f.r[0]; i++)
            fx_closure_return(c, r->lists.at[f.r[1] + i]);
        return;
    }
    const fx_gnode_data *n = &r->g->nodes.at[f.node];

    if (n->kind == FX_G_SEQ)
        next_in_seq(c, n, &f, f.phase);
    else if (n->kind == FX_G_REPEAT)
        next_in_repeat(c, n, &f, frame);
    else
        fx_json_return(c, &f);
}

void fx_closure_work(closure *c, size_t bottom)
{
    fx_run *r = c->r;

    while (r->work.n > bottom && !r->failed) {
        uint64_t item = r->work.at[--r->work.n];

        if (item >> 32 == FX_GNODE_FAIL)
            come_back(c, (uint32_t)item);
        else
            enter(c, (fx_gnode)(item >> 32), (uint32_t)item);
    }
}

/* The place that 'item' leads to. */
static fx_place close_item(fx_run *r, uint64_t item)
{
    closure c = { .r = r };
    size_t work = r->work.n, threads = r->scratch.n;
    fx_place at;

    r->closure++;
    push(&c, item);
    fx_closure_work(&c, work);
    r->work.n = work;
    at = fx_place_intern(r, threads, c.flags);
    return r->failed ? FX_PLACE_FAIL : at;
}

fx_place fx_run_return(fx_run *r, uint32_t frame, fx_re re)
{
    fx_place at;

    frame = fx_json_done(r, frame, re);
    if (frame == UINT32_MAX)
        return FX_PLACE_FAIL;
    if (r->frames.at[frame].closed)
        return r->frames.at[frame].closed - 1;
    at = close_item(r, RETURN(frame));
    if (at != FX_PLACE_FAIL)
        r->frames.at[frame].closed = at + 1;
    return at;
}

fx_place fx_run_enter(fx_run *r, fx_gnode node, uint32_t frame) { return close_item(r, ENTER(node, frame)); }

/* ---- Steps ------------------------------------------------------------------------------------------------- */

/* Adds the threads and flags of a place to those being collected. */
static bool add_place(fx_run *r, fx_place at, uint32_t *flags)
{
    const fx_set *s;

    if (at == FX_PLACE_FAIL)
        return false;
    s = &r->sets.at[at];
    if (s->n && !FX_VEC_RESERVE(&r->scratch, r->mem, s->n))
        return false;
    if (s->n)
        memcpy(r->scratch.at + r->scratch.n, r->threads.at + s->first, s->n * sizeof(fx_thread));
    r->scratch.n += s->n;
    *flags |= s->flags;
    return true;
}

static fx_place make_step(fx_run *r, fx_place at, unsigned char byte)
{
    size_t bottom = r->scratch.n;
    uint32_t flags = 0, n = r->sets.at[at].n;

    for (uint32_t i = 0; i < n && !r->failed; i++) {
        fx_thread t = r->threads.at[r->sets.at[at].first + i];

        if (t.re & FX_THREAD_TOKEN)
            continue;
        t.re = fx_run_next(r, t.re, byte);
        if (t.re == FX_RE_NONE || r->failed)
            continue;
        if (fx_run_goes_on(r, t.re) && !FX_VEC_PUSH(&r->scratch, r->mem, t))
            r->failed = true;
        if (fx_re_nullable(r->pool, t.re) && !add_place(r, fx_run_return(r, t.frame, t.re), &flags))
            r->failed = true;
    }
    return fx_place_intern(r, bottom, flags);
}

static bool grow_steps(fx_run *r)
{
    size_t cap = r->step_cap ? r->step_cap * 2 : 4096;
    fx_step_slot *t = fx_mem_array(r->mem, cap, sizeof(*t));

    if (!t)
        return false;
    for (size_t i = 0; i < r->step_cap; i++)
        if (r->steps[i].key) {
            size_t at = (r->steps[i].key * 0x9E3779B97F4A7C15ull >> 32) & (cap - 1);

            while (t[at].key)
                at = (at + 1) & (cap - 1);
            t[at] = r->steps[i];
        }
    fx_mem_free(r->mem, r->steps, r->step_cap * sizeof(*r->steps));
    r->steps = t;
    r->step_cap = cap;
    return true;
}

fx_place fx_run_step(fx_run *r, fx_place at, unsigned char byte)
{
    uint64_t key = ((uint64_t)at << 8 | byte) + 1;
    size_t i;
    fx_place to;

    if (r->failed || (r->n_steps * 2 >= r->step_cap && !grow_steps(r)))
        return fail(r);
    i = (key * 0x9E3779B97F4A7C15ull >> 32) & (r->step_cap - 1);
    for (; r->steps[i].key; i = (i + 1) & (r->step_cap - 1))
        if (r->steps[i].key == key)
            return r->steps[i].to;
    to = make_step(r, at, byte);
    if (to == FX_PLACE_FAIL)
        return to;
    r->steps[i] = (fx_step_slot){ key, to };            /* make_step makes no steps of its own */
    r->n_steps++;
    return to;
}

fx_place fx_run_token(fx_run *r, fx_place at, int32_t id)
{
    size_t bottom = r->scratch.n;
    uint32_t flags = 0, n = r->sets.at[at].n;

    for (uint32_t i = 0; i < n && !r->failed; i++) {
        fx_thread t = r->threads.at[r->sets.at[at].first + i];

        if (t.re == (FX_THREAD_TOKEN | (uint32_t)id) && !add_place(r, fx_run_return(r, t.frame, FX_RE_EMPTY), &flags))
            r->failed = true;
    }
    return fx_place_intern(r, bottom, flags);
}

fx_place fx_run_join(fx_run *r, fx_place x, fx_place y)
{
    size_t bottom = r->scratch.n;
    uint32_t flags = 0;

    if (!add_place(r, x, &flags) || !add_place(r, y, &flags))
        r->failed = true;
    return fx_place_intern(r, bottom, flags);
}

/* ---- Making and freeing ---------------------------------------------------------------------------------------- */

fx_status fx_run_new(fx_run **out, fx_gram *g, fx_error *err)
{
    fx_run *r = fx_mem_zalloc(g->mem, sizeof(*r));

    *out = r;
    if (!r)
        return fx_nomem(err, "a grammar's states");
    r->g = g;
    r->mem = g->mem;
    r->refs = 1;
    r->pool = fx_re_pool_clone(g->pool);
    fx_arena_init(&r->arena, g->mem, (size_t)16 << 10);
    for (size_t i = 0; i < g->objects.n; i++)
        r->view_words = FX_MAX(r->view_words, fx_names_words(g->objects.at[i].dict));
    for (size_t i = 0; i < g->arrays.n; i++)
        r->has_unique |= g->arrays.at[i].unique;
    r->view = fx_mem_array(g->mem, r->view_words + 1, sizeof(*r->view));
    r->used = fx_used_new(g->mem);
    if (!r->pool || !r->view || !r->used || !FX_VEC_PUSH(&r->frames, r->mem, ((fx_frame){ .node = FX_FRAME_UNION })) ||
        fx_place_intern(r, 0, 0) != FX_PLACE_DEAD || fx_place_intern(r, 0, FX_SET_ACCEPT | FX_SET_ENDED) != FX_PLACE_ENDED)
        return fx_nomem(err, "a grammar's states");
    r->start = fx_run_enter(r, g->root, FX_FRAME_END);
    if (r->start == FX_PLACE_FAIL)
        return fx_fail(err, FORNAX_ENOMEM, "the grammar's first state is too large: left recursion, or too many choices");
    return FORNAX_OK;
}

/* Under the lock. */
static void unref(fx_run *r)
{
    if (--r->refs == 0)
        fx_run_free(r);
}

fx_status fx_run_take(fx_run **out, fx_gram *g, fx_error *err)
{
    fx_status st = FORNAX_OK;
    fx_run *fresh;

    pthread_mutex_lock(&g->lock);
    if (g->run->failed || fx_run_bytes(g->run) > g->limits.max_bytes / 4) {
        st = fx_run_new(&fresh, g, err);
        if (st == FORNAX_OK) {
            unref(g->run);              /* freed with its last matcher */
            g->run = fresh;
        } else {
            fx_run_free(fresh);
        }
    }
    if (st == FORNAX_OK) {
        g->run->refs++;
        *out = g->run;
    }
    pthread_mutex_unlock(&g->lock);
    return st;
}

void fx_run_drop(fx_run *r)
{
    fx_gram *g = r->g;

    pthread_mutex_lock(&g->lock);
    unref(r);
    pthread_mutex_unlock(&g->lock);
}

void fx_run_free(fx_run *r)
{
    if (!r)
        return;
    fx_walks_free(r->walks);
    fx_re_pool_free(r->pool);
    fx_used_free(r->used);
    fx_mem_free(r->mem, r->view, (r->view_words + 1) * sizeof(*r->view));
    FX_VEC_FREE(&r->rows, r->mem);
    FX_VEC_FREE(&r->ends, r->mem);
    FX_VEC_FREE(&r->covers, r->mem);
    FX_VEC_FREE(&r->frames, r->mem);
    FX_VEC_FREE(&r->lists, r->mem);
    FX_VEC_FREE(&r->sets, r->mem);
    FX_VEC_FREE(&r->threads, r->mem);
    FX_VEC_FREE(&r->scratch, r->mem);
    FX_VEC_FREE(&r->work, r->mem);
    fx_mem_free(r->mem, r->visited, r->visited_cap * sizeof(*r->visited));
    fx_mem_free(r->mem, r->frame_table, r->frame_cap * sizeof(*r->frame_table));
    fx_mem_free(r->mem, r->set_table, r->set_cap * sizeof(*r->set_table));
    fx_mem_free(r->mem, r->steps, r->step_cap * sizeof(*r->steps));
    fx_arena_done(&r->arena);
    fx_mem_free(r->mem, r, sizeof(*r));
}

size_t fx_run_bytes(const fx_run *r)
{
    if (!r)
        return 0;
    return sizeof(*r) + fx_re_pool_bytes(r->pool) + r->arena.total_bytes + r->rows.cap * (sizeof(*r->rows.at) + 1) +
           r->frames.cap * sizeof(*r->frames.at) + r->lists.cap * sizeof(*r->lists.at) +
           r->sets.cap * sizeof(*r->sets.at) + r->threads.cap * sizeof(*r->threads.at) +
           r->frame_cap * sizeof(*r->frame_table) + r->set_cap * sizeof(*r->set_table) +
           r->step_cap * sizeof(*r->steps) + fx_used_bytes(r->used) + fx_walks_bytes(r->walks);
}
