/* unigram.c - the trie of pieces, and the pass over a text. */
#include "text/unigram.h"

#include "base/text.h"

#define NO_EDGE UINT32_MAX
#define NODES_MAX (1u << 24)        /* a node and a byte share 32 bits */
#define UNKNOWN_PENALTY 10.0

/* ---- The trie -------------------------------------------------------------------- */

static size_t edge_slot(const fx_unigram *u, uint32_t key)
{
    uint64_t x = key * 0x9e3779b97f4a7c15u;

    return (size_t)(x ^ x >> 32) & u->mask;
}

static int64_t find_child(const fx_unigram *u, uint32_t node, unsigned char byte)
{
    uint32_t key = node << 8 | byte;

    for (size_t i = edge_slot(u, key);; i = (i + 1) & u->mask) {
        if (u->edges[i].key == key)
            return u->edges[i].child;
        if (u->edges[i].key == NO_EDGE)
            return -1;
    }
}

static void put_edge(fx_unigram *u, fx_edge e)
{
    size_t i = edge_slot(u, e.key);

    while (u->edges[i].key != NO_EDGE)
        i = (i + 1) & u->mask;
    u->edges[i] = e;
}

/* Twice the slots; at least two for every node. */
static bool grow_edges(fx_unigram *u)
{
    size_t n_old = u->edges ? u->mask + 1 : 0, n = n_old ? n_old * 2 : 1024;
    fx_edge *old = u->edges;

    u->edges = fx_mem_alloc(u->mem, n * sizeof(*u->edges));
    if (!u->edges) {
        u->edges = old;
        return false;
    }
    memset(u->edges, 0xff, n * sizeof(*u->edges));
    u->mask = n - 1;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].key != NO_EDGE)
            put_edge(u, old[i]);
    fx_mem_free(u->mem, old, n_old * sizeof(*old));
    return true;
}

static bool add_node(fx_unigram *u)
{
    if (u->n_nodes == u->cap_nodes) {
        size_t cap = u->cap_nodes ? u->cap_nodes * 2 : 1024;
        int32_t *p = fx_mem_resize(u->mem, u->piece, u->cap_nodes * sizeof(*p), cap * sizeof(*p));

        if (!p)
            return false;
        u->piece = p;
        u->cap_nodes = cap;
    }
    u->piece[u->n_nodes++] = -1;
    return true;
}

static fx_status add_piece(fx_unigram *u, fx_str s, int32_t id, const char *where, fx_error *err)
{
    uint32_t node = 0;

    for (size_t i = 0; i < s.n; i++) {
        int64_t child = find_child(u, node, (unsigned char)s.p[i]);

        if (child < 0) {
            child = (int64_t)u->n_nodes;
            if (u->n_nodes + 1 >= NODES_MAX)
                return fx_fail(err, FORNAX_EUNSUP, "%s: more than %u different beginnings of pieces", where, NODES_MAX);
            if ((u->n_nodes * 2 >= u->mask && !grow_edges(u)) || !add_node(u))
                return fx_nomem(err, "pieces");
            put_edge(u, (fx_edge){ node << 8 | (unsigned char)s.p[i], (uint32_t)child });
        }
        node = (uint32_t)child;
    }
    if (s.n)
        u->piece[node] = id;
    return FORNAX_OK;
}

fx_status fx_unigram_init(fx_unigram *u, fx_arena *arena, const fx_vocab *v, const fx_scored *pieces, size_t n,
                          double lowest, const char *where, fx_error *err)
{
    u->mem = arena->mem;
    u->unknown_score = lowest - UNKNOWN_PENALTY;
    u->scores = FX_ARENA_NEWN(arena, double, n + 1);
    if (!u->scores || !grow_edges(u) || !add_node(u))
        return fx_nomem(err, "pieces");
    for (size_t i = 0; i < n; i++) {
        u->scores[i] = pieces[i].score;
        if (pieces[i].in_trie)
            FX_TRY(add_piece(u, fx_vocab_text(v, (int32_t)i), (int32_t)i, where, err));
    }
    fx_vocab_find_bytes(v, u->fallback);
    return FORNAX_OK;
}

void fx_unigram_done(fx_unigram *u)
{
    if (u->edges)
        fx_mem_free(u->mem, u->edges, (u->mask + 1) * sizeof(*u->edges));
    if (u->piece)
        fx_mem_free(u->mem, u->piece, u->cap_nodes * sizeof(*u->piece));
}

/* ---- A text ------------------------------------------------------------------------ */

/* A better way to arrive at 'to'? */
static void offer(const fx_unigram *u, fx_best *to, double before, double score, int32_t from, int32_t id)
{
    double sum = u->single ? (double)((float)before + (float)score) : before + score;

    if (to->from < 0 || sum > to->score)
        *to = (fx_best){ .score = sum, .from = from, .id = id };
}

/* All pieces that begin at 'at'; then the character itself as unknown if it isn't one. */
static void offer_pieces(const fx_unigram *u, fx_best *best, fx_str word, size_t at)
{
    double before = best[at].score;
    size_t next = at;
    bool single = false;
    uint32_t node = 0;

    fx_utf8_next(word, &next);
    for (size_t i = at; i < word.n;) {
        int64_t child = find_child(u, node, (unsigned char)word.p[i++]);

        if (child < 0)
            break;
        node = (uint32_t)child;
        if (u->piece[node] < 0)
            continue;
        offer(u, &best[i], before, u->scores[u->piece[node]], (int32_t)at, u->piece[node]);
        single |= i == next;
    }
    if (!single)
        offer(u, &best[next], before, u->unknown_score, (int32_t)at, u->unk);
}

/* A stretch of unknown characters. */
static bool push_unknown(const fx_unigram *u, const fx_vocab *v, fx_str s, fx_ids *ids)
{
    int32_t id = u->single ? -1 : fx_vocab_find(v, s);
    bool bytes = u->byte_fallback;

    if (id >= 0)                                    /* together they spell a token after all */
        return fx_ids_push(ids, id);
    for (size_t i = 0; i < s.n && bytes; i++)
        bytes = u->fallback[(unsigned char)s.p[i]] >= 0;
    if (!bytes)
        return fx_ids_push(ids, u->unk);
    for (size_t i = 0; i < s.n; i++)
        if (!fx_ids_push(ids, u->fallback[(unsigned char)s.p[i]]))
            return false;
    return true;
}

/* Turns the chain of 'from' around: afterwards best[i].from is where the piece at i ends. */
static void turn_around(fx_best *best, size_t n)
{
    int32_t end = (int32_t)n, to = 0;

    while (end > 0) {
        int32_t from = best[end].from, id = best[end].id;

        best[end].from = to;                        /* the piece that begins at 'end' ends at 'to' */
        best[end].id = to ? best[end].next_id : -1;
        best[from].next_id = id;
        to = end;
        end = from;
    }
    best[0].from = to;
    best[0].id = best[0].next_id;
}

static bool collect(const fx_unigram *u, const fx_vocab *v, fx_str word, const fx_best *best, fx_ids *ids)
{
    for (size_t at = 0; at < word.n;) {
        size_t begin = at;
        int32_t id = best[at].id;

        at = (size_t)best[at].from;
        if (id != u->unk) {
            if (!fx_ids_push(ids, id))
                return false;
            continue;
        }
        while (at < word.n && best[at].id == u->unk)
            at = (size_t)best[at].from;
        if (!push_unknown(u, v, fx_str_n(word.p + begin, at - begin), ids))
            return false;
    }
    return true;
}

bool fx_unigram_encode(const fx_unigram *u, const fx_vocab *v, fx_str word, fx_bpe_work *w, fx_ids *ids)
{
    fx_best *best;

    w->best.n = 0;
    if (!FX_VEC_RESERVE(&w->best, w->mem, word.n + 1))
        return false;
    best = w->best.at;
    for (size_t i = 0; i <= word.n; i++)
        best[i] = (fx_best){ .from = -1 };
    for (size_t i = 0; i < word.n;) {
        offer_pieces(u, best, word, i);
        fx_utf8_next(word, &i);
    }
    turn_around(best, word.n);
    for (size_t i = 0; i < word.n && u->unk < 0; i = (size_t)best[i].from)
        w->unknown |= best[i].id < 0;
    return !w->unknown && collect(u, v, word, best, ids);
}
