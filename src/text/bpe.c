/* bpe.c - the table of merges, and merging one word. */
#include "text/bpe.h"

#include <stdlib.h>

#include "base/text.h"

#define NO_RANK UINT32_MAX
#define WALK_MAX 32             /* symbols up to which walking beats the heap */

static size_t pair_slot(const fx_bpe *b, int32_t left, int32_t right)
{
    uint64_t x = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;

    return (size_t)(x ^ x >> 32) & b->mask;
}

static const fx_merge *find_merge(const fx_bpe *b, int32_t left, int32_t right)
{
    for (size_t i = pair_slot(b, left, right);; i = (i + 1) & b->mask) {
        const fx_merge *m = &b->merges[i];

        if (m->left == left && m->right == right)
            return m;
        if (m->left < 0)
            return NULL;
    }
}

/* A pair given twice keeps its last rank, as the reference does. */
static void put_merge(fx_bpe *b, fx_merge m)
{
    size_t i = pair_slot(b, m.left, m.right);

    while (b->merges[i].left >= 0 && (b->merges[i].left != m.left || b->merges[i].right != m.right))
        i = (i + 1) & b->mask;
    b->merges[i] = m;
}

static fx_status not_in_vocabulary(const char *where, size_t rank, fx_str token, fx_error *err)
{
    return fx_fail(err, FORNAX_EFORMAT, "%s: merge %zu: expected tokens of the vocabulary, found \"%.*s\"", where,
                   rank, (int)FX_MIN(token.n, 200), token.p);
}

/* Merges are looked up in batches, and each step is done for the whole batch before
 * the next one, so that the cache misses of its random accesses overlap. */
#define BATCH 16
typedef struct merge_batch {
    fx_str text[BATCH][3];          /* left, right, both */
    uint64_t hash[BATCH][3];
    fx_merge found[BATCH];
    fx_buf joined;
} merge_batch;

static bool hash_batch(const fx_bpe *b, const fx_vocab *v, merge_batch *m, const fx_merge_text *at, size_t n)
{
    size_t bytes = 0, used = 0;

    for (size_t i = 0; i < n; i++)
        bytes += at[i].left.n + at[i].right.n;
    fx_buf_clear(&m->joined);
    if (!fx_buf_reserve(&m->joined, bytes))
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t cut = FX_MIN(b->prefix.n, at[i].right.n), begin = used;

        memcpy(m->joined.p + used, at[i].left.p, at[i].left.n);
        used += at[i].left.n;
        memcpy(m->joined.p + used, at[i].right.p + cut, at[i].right.n - cut);
        used += at[i].right.n - cut;
        m->text[i][0] = at[i].left;
        m->text[i][1] = at[i].right;
        m->text[i][2] = fx_str_n(m->joined.p + begin, used - begin);
        for (int j = 0; j < 3; j++) {
            m->hash[i][j] = fx_vocab_hash(v, m->text[i][j]);
            fx_vocab_prefetch(v, m->hash[i][j]);
        }
    }
    return true;
}

static fx_status put_batch(fx_bpe *b, const fx_vocab *v, merge_batch *m, size_t first, size_t n, const char *where,
                           fx_error *err)
{
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < 3; j++)
            fx_vocab_prefetch_text(v, m->hash[i][j]);
    for (size_t i = 0; i < n; i++) {
        int32_t id[3];

        for (int j = 0; j < 3; j++) {
            id[j] = fx_vocab_find_hashed(v, m->text[i][j], m->hash[i][j]);
            if (id[j] < 0)
                return not_in_vocabulary(where, first + i, m->text[i][j], err);
        }
        m->found[i] = (fx_merge){ id[0], id[1], (uint32_t)(first + i), id[2] };
        FX_PREFETCH(&b->merges[pair_slot(b, id[0], id[1])]);
    }
    for (size_t i = 0; i < n; i++)
        put_merge(b, m->found[i]);
    return FORNAX_OK;
}

static fx_status put_merges(fx_bpe *b, const fx_vocab *v, const fx_merge_text *merges, size_t n, const fx_mem *mem,
                            const char *where, fx_error *err)
{
    merge_batch m;
    fx_status st = FORNAX_OK;

    fx_buf_init(&m.joined, mem);
    for (size_t i = 0; i < n && st == FORNAX_OK; i += BATCH) {
        size_t part = FX_MIN(n - i, BATCH);

        st = hash_batch(b, v, &m, merges + i, part) ? put_batch(b, v, &m, i, part, where, err) : fx_nomem(err, "merges");
    }
    fx_buf_done(&m.joined);
    return st;
}

static void find_single_ids(fx_bpe *b, const fx_vocab *v)
{
    char text[8];

    for (int i = 0; i < 256; i++) {
        size_t n = 1;

        text[0] = (char)i;
        if (b->bytes)
            n = fx_utf8_put(text, fx_bytelevel_rune((unsigned char)i));
        b->byte_ids[i] = b->bytes || i < 0x80 ? fx_vocab_find(v, fx_str_n(text, n)) : -1;
    }
    fx_vocab_find_bytes(v, b->fallback);
}

/* Room for n merges. */
static fx_status make_table(fx_bpe *b, fx_arena *arena, size_t n, const char *where, fx_error *err)
{
    size_t slots = 16;

    if (n >= NO_RANK)
        return fx_fail(err, FORNAX_EUNSUP, "%s: %zu merges, limit %u", where, n, NO_RANK - 1);
    while (slots < n + n / 2)
        slots *= 2;
    b->mask = slots - 1;
    b->merges = FX_ARENA_NEWN(arena, fx_merge, slots);
    if (!b->merges)
        return fx_nomem(err, "merges");
    memset(b->merges, 0xff, slots * sizeof(*b->merges));
    return FORNAX_OK;
}

static void finish_table(fx_bpe *b, const fx_vocab *v)
{
    find_single_ids(b, v);
    for (size_t i = 0; i < v->n; i++)
        if (v->pieces[i].at != FX_NO_TOKEN)
            b->longest = FX_MAX(b->longest, v->pieces[i].n);
}

fx_status fx_bpe_init(fx_bpe *b, fx_arena *arena, const fx_vocab *v, const fx_merge_text *merges, size_t n,
                      const char *where, fx_error *err)
{
    fx_status st = make_table(b, arena, n, where, err);

    if (st == FORNAX_OK)
        st = put_merges(b, v, merges, n, arena->mem, where, err);
    finish_table(b, v);
    return st;
}

/* ---- Merges by score --------------------------------------------------------------- */

typedef struct by_score {
    float score;
    int32_t id;
} by_score;

static int higher_first(const void *a, const void *b)
{
    const by_score *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

typedef FX_VEC(fx_merge) merge_list;

/* All ways to cut a piece in two usable ones. */
static bool cut_piece(const fx_vocab *v, const bool *usable, int32_t id, uint32_t rank, const fx_mem *mem, merge_list *out)
{
    fx_str s = fx_vocab_text(v, id);

    for (size_t i = 1; i < s.n; i++) {
        int32_t left, right;

        if (((unsigned char)s.p[i] & 0xc0) == 0x80)
            continue;
        left = fx_vocab_find(v, fx_str_n(s.p, i));
        if (left < 0 || !usable[left])
            continue;
        right = fx_vocab_find(v, fx_str_n(s.p + i, s.n - i));
        if (right >= 0 && usable[right] && !FX_VEC_PUSH(out, mem, ((fx_merge){ left, right, rank, id })))
            return false;
    }
    return true;
}

#define PIECE_MAX 1024          /* bytes: cutting takes time that grows with the square */

static fx_status list_merges(const fx_vocab *v, by_score *order, size_t n, const bool *usable, const fx_mem *mem,
                             merge_list *out, const char *where, fx_error *err)
{
    uint32_t rank = 0;

    qsort(order, n, sizeof(*order), higher_first);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = fx_vocab_text(v, order[i].id).n;

        if (bytes > PIECE_MAX)
            return fx_fail(err, FORNAX_EUNSUP, "%s: piece %d has %zu bytes, limit %d", where, order[i].id, bytes, PIECE_MAX);
        rank += i > 0 && order[i].score != order[i - 1].score;
        if (!cut_piece(v, usable, order[i].id, rank, mem, out))
            return fx_nomem(err, "merges");
    }
    return FORNAX_OK;
}

fx_status fx_bpe_init_scored(fx_bpe *b, fx_arena *arena, const fx_vocab *v, const float *scores, const bool *usable,
                             const char *where, fx_error *err)
{
    by_score *order = fx_mem_array(arena->mem, v->n + 1, sizeof(*order));
    merge_list merges = { 0 };
    size_t n = 0;
    fx_status st;

    if (!order)
        return fx_nomem(err, "merges");
    for (size_t i = 0; i < v->n; i++)
        if (usable[i])
            order[n++] = (by_score){ scores[i], (int32_t)i };
    st = list_merges(v, order, n, usable, arena->mem, &merges, where, err);
    if (st == FORNAX_OK)
        st = make_table(b, arena, merges.n, where, err);
    for (size_t i = 0; st == FORNAX_OK && i < merges.n; i++)
        put_merge(b, merges.at[i]);
    finish_table(b, v);
    FX_VEC_FREE(&merges, arena->mem);
    fx_mem_free(arena->mem, order, (v->n + 1) * sizeof(*order));
    return st;
}

void fx_bpe_work_init(fx_bpe_work *w, const fx_mem *mem)
{
    *w = (fx_bpe_work){ .mem = mem };
    fx_buf_init(&w->text, mem);
}

void fx_bpe_work_done(fx_bpe_work *w)
{
    FX_VEC_FREE(&w->best, w->mem);
    FX_VEC_FREE(&w->symbols, w->mem);
    FX_VEC_FREE(&w->heap, w->mem);
    fx_buf_done(&w->text);
}

/* ---- The word as symbols ----------------------------------------------------- */

static bool push_symbol(fx_bpe_work *w, int32_t id)
{
    return FX_VEC_PUSH(&w->symbols, w->mem, ((fx_symbol){ .id = id }));
}

/* Raw bytes are only given to a model that has a token for each of them. */
static bool byte_symbols(const fx_bpe *b, fx_str word, fx_bpe_work *w)
{
    if (!FX_VEC_RESERVE(&w->symbols, w->mem, word.n))
        return false;
    for (size_t i = 0; i < word.n; i++)
        w->symbols.at[w->symbols.n++] = (fx_symbol){ .id = b->byte_ids[(unsigned char)word.p[i]] };
    return true;
}

/* One character's token, with the prefix and suffix that some models write. */
static int32_t find_character(const fx_bpe *b, const fx_vocab *v, fx_str c, bool first, bool last, fx_buf *scratch)
{
    if (!(b->prefix.n && !first) && !(b->suffix.n && last))
        return c.n == 1 ? b->byte_ids[(unsigned char)c.p[0] & 0x7f] : fx_vocab_find(v, c);
    fx_buf_clear(scratch);
    if (!first)
        fx_buf_str(scratch, b->prefix);
    fx_buf_str(scratch, c);
    if (last)
        fx_buf_str(scratch, b->suffix);
    return fx_vocab_find(v, fx_buf_view(scratch));
}

/* The bytes of a character without a token; false if one of them has none either. */
static bool fallback_symbols(const fx_bpe *b, fx_str c, fx_bpe_work *w, bool *failed)
{
    for (size_t i = 0; i < c.n; i++)
        if (b->fallback[(unsigned char)c.p[i]] < 0)
            return false;
    for (size_t i = 0; i < c.n; i++)
        *failed |= !push_symbol(w, b->fallback[(unsigned char)c.p[i]]);
    return true;
}

/* An unknown stays pending until the next known character, and then comes before
 * it; bytes of a fallback overtake it, as in the reference. */
static bool character_symbols(const fx_bpe *b, const fx_vocab *v, fx_str word, fx_bpe_work *w)
{
    bool pending = false, failed = false;

    for (size_t i = 0; i < word.n;) {
        size_t begin = i;
        fx_str c;
        int32_t id;

        fx_utf8_next(word, &i);
        c = fx_str_n(word.p + begin, i - begin);
        id = find_character(b, v, c, begin == 0, i == word.n, &w->text);
        if (id >= 0) {
            if (pending)
                failed |= !push_symbol(w, b->unk);
            pending = false;
            failed |= !push_symbol(w, id);
        } else if (!(b->byte_fallback && fallback_symbols(b, c, w, &failed)) && (b->unk >= 0 || b->unk_missing)) {
            w->unknown |= b->unk_missing;
            if (pending && !b->fuse_unk)
                failed |= !push_symbol(w, b->unk);
            pending = true;
        }
        if (failed || w->text.failed)
            return false;
    }
    return !pending || push_symbol(w, b->unk);
}

/* ---- Merging ------------------------------------------------------------------- */

static void rank_pair(const fx_bpe *b, fx_symbol *left, const fx_symbol *right)
{
    const fx_merge *m = find_merge(b, left->id, right->id);

    left->rank = m ? m->rank : NO_RANK;
    left->merged = m ? m->merged : -1;
}

static size_t merge_walking(const fx_bpe *b, fx_symbol *s, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        rank_pair(b, &s[i], &s[i + 1]);
    while (n > 1) {
        size_t best = 0;

        for (size_t i = 1; i + 1 < n; i++)
            if (s[i].rank < s[best].rank)
                best = i;
        if (s[best].rank == NO_RANK)
            break;
        s[best].id = s[best].merged;
        memmove(&s[best + 1], &s[best + 2], (n - best - 2) * sizeof(*s));
        n--;
        if (best + 1 < n)
            rank_pair(b, &s[best], &s[best + 1]);
        else
            s[best].rank = NO_RANK;
        if (best > 0)
            rank_pair(b, &s[best - 1], &s[best]);
    }
    return n;
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    uint64_t x = heap[i];

    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (x <= heap[child])
            break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

static bool heap_push(fx_bpe_work *w, uint64_t x)
{
    size_t i = w->heap.n;
    uint64_t *heap;

    if (!FX_VEC_PUSH(&w->heap, w->mem, x))
        return false;
    heap = w->heap.at;
    for (; i > 0 && x < heap[(i - 1) / 2]; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
    return true;
}

static uint64_t heap_pop(fx_bpe_work *w)
{
    uint64_t top = w->heap.at[0];

    w->heap.at[0] = w->heap.at[--w->heap.n];
    if (w->heap.n)
        sift_down(w->heap.at, w->heap.n, 0);
    return top;
}

static bool rank_and_push(const fx_bpe *b, fx_bpe_work *w, int32_t i)
{
    fx_symbol *s = w->symbols.at;

    s[i].rank = NO_RANK;
    if (s[i].next < 0)
        return true;
    rank_pair(b, &s[i], &s[s[i].next]);
    return s[i].rank == NO_RANK || heap_push(w, (uint64_t)s[i].rank << 32 | (uint32_t)i);
}

/* Entries of the heap are never taken out when their pair changes: one whose rank
 * is no longer that of its place is stale. */
static bool merge_by_heap(const fx_bpe *b, fx_bpe_work *w)
{
    fx_symbol *s = w->symbols.at;
    int32_t n = (int32_t)w->symbols.n;

    w->heap.n = 0;
    for (int32_t i = 0; i < n; i++) {
        s[i].prev = i - 1;
        s[i].next = i + 1 < n ? i + 1 : -1;
    }
    for (int32_t i = 0; i < n; i++) {
        s[i].rank = NO_RANK;
        if (i + 1 < n)
            rank_pair(b, &s[i], &s[i + 1]);
        if (s[i].rank != NO_RANK && !FX_VEC_PUSH(&w->heap, w->mem, (uint64_t)s[i].rank << 32 | (uint32_t)i))
            return false;
    }
    for (size_t i = w->heap.n / 2; i-- > 0;)
        sift_down(w->heap.at, w->heap.n, i);
    while (w->heap.n) {
        uint64_t top = heap_pop(w);
        int32_t i = (int32_t)(uint32_t)top, gone = s[i].next;

        if (s[i].rank != (uint32_t)(top >> 32) || s[i].id < 0)
            continue;
        s[i].id = s[i].merged;
        s[i].next = s[gone].next;
        s[gone].id = -1;
        s[gone].rank = NO_RANK;
        if (s[i].next >= 0)
            s[s[i].next].prev = i;
        if (!rank_and_push(b, w, i) || (s[i].prev >= 0 && !rank_and_push(b, w, s[i].prev)))
            return false;
    }
    return true;
}

/* ---- One word -------------------------------------------------------------------- */

static int32_t whole_word(const fx_bpe *b, const fx_vocab *v, fx_str word, fx_bpe_work *w)
{
    if (word.n > b->longest)
        return -1;
    if (!b->bytes)
        return fx_vocab_find(v, word);
    fx_buf_clear(&w->text);
    fx_bytelevel_write(&w->text, word);
    return w->text.failed ? -1 : fx_vocab_find(v, fx_buf_view(&w->text));
}

bool fx_bpe_encode(const fx_bpe *b, const fx_vocab *v, fx_str word, fx_bpe_work *w, fx_ids *ids)
{
    size_t n;

    if (b->ignore_merges) {
        int32_t id = whole_word(b, v, word, w);

        if (w->text.failed)
            return false;
        if (id >= 0)
            return fx_ids_push(ids, id);
    }
    w->symbols.n = 0;
    if (!(b->bytes ? byte_symbols(b, word, w) : character_symbols(b, v, word, w)))
        return false;
    n = w->symbols.n;
    if (n <= WALK_MAX)
        n = merge_walking(b, w->symbols.at, n);
    else if (!merge_by_heap(b, w))
        return false;
    for (size_t i = 0; i < n; i++)
        if (w->symbols.at[i].id >= 0 && !fx_ids_push(ids, w->symbols.at[i].id))
            return false;
    return true;
}
