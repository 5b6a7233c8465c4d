/* gvocab.c - preparing a vocabulary, and the table of walks that all grammars on it share. */
#include "grammar/gvocab.h"

#include <stdlib.h>

#include "base/text.h"

#define CACHE_BYTES ((size_t)256 << 20)
#define TOKENS_MAX (1u << 24)
#define LEN_MAX 4096u           /* bytes of a token that can come as text */

/* ---- Sets of tokens --------------------------------------------------------------------- */

size_t fx_bits_bytes(const fx_bits *b) { return sizeof(*b) + b->n * sizeof(uint32_t); }

fx_bits *fx_bits_new(const fx_gvocab *v, bool dense, uint32_t n)
{
    fx_bits *b = fx_mem_zalloc(v->mem, sizeof(*b) + n * sizeof(uint32_t));

    if (b) {
        atomic_init(&b->refs, 1);
        b->dense = dense;
        b->n = n;
    }
    return b;
}

void fx_bits_unref(const fx_gvocab *v, fx_bits *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        fx_mem_free(v->mem, b, fx_bits_bytes(b));
}

/* ---- Sorting --------------------------------------------------------------------------------- */

typedef struct sorted {
    uint64_t head;              /* the first eight bytes, as a number */
    uint32_t len;
    int32_t id;
    const char *p;
} sorted;

static uint64_t head_of(fx_str s)
{
    uint64_t x = 0;

    for (size_t i = 0; i < 8; i++)
        x = x << 8 | (i < s.n ? (unsigned char)s.p[i] : 0);
    return x;
}

static int by_bytes(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    int c;

    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    c = x->len > 8 && y->len > 8 ? memcmp(x->p + 8, y->p + 8, FX_MIN(x->len, y->len) - 8) : 0;
    if (c)
        return c;
    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* A pass of counting by byte 'shift' of the head. */
static void count_pass(const sorted *from, sorted *to, size_t n, unsigned shift)
{
    size_t at[256] = { 0 }, sum = 0;

    for (size_t i = 0; i < n; i++)
        at[from[i].head >> shift & 255]++;
    for (int b = 0; b < 256; b++) {
        size_t k = at[b];

        at[b] = sum;
        sum += k;
    }
    for (size_t i = 0; i < n; i++)
        to[at[from[i].head >> shift & 255]++] = from[i];
}

/* By the first three bytes in passes, then each run by comparison. */
static bool sort_tokens(const fx_mem *mem, sorted *s, size_t n)
{
    sorted *other = fx_mem_array(mem, n + 1, sizeof(*other));

    if (!other)
        return false;
    count_pass(s, other, n, 40);
    count_pass(other, s, n, 48);
    count_pass(s, other, n, 56);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && other[end].head >> 40 == other[i].head >> 40;)
            end++;
        qsort(other + i, end - i, sizeof(*other), by_bytes);
    }
    memcpy(s, other, n * sizeof(*s));
    fx_mem_free(mem, other, (n + 1) * sizeof(*other));
    return true;
}

/* ---- Tries -------------------------------------------------------------------------------------- */

static size_t common(const sorted *a, const sorted *b)
{
    size_t n = FX_MIN(a->len, b->len), i = 0;

    while (i < n && a->p[i] == b->p[i])
        i++;
    return i;
}

/* A trie of those of 's' for which 'wanted' (by id; NULL: all) is false. */
static bool build_trie(fx_gvocab *v, fx_trie *t, const sorted *s, size_t n, const uint8_t *left_out)
{
    const sorted *last = NULL;
    uint32_t *open = fx_mem_array(v->mem, LEN_MAX + 1, sizeof(*open));  /* the node at each depth of the last token */
    size_t depth = 0;

    if (!open)
        return false;
    t->cap = 1;
    for (size_t i = 0; i < n; i++)
        t->cap += left_out && left_out[s[i].id] ? 0 : s[i].len;     /* at most; cut below */
    t->at = fx_mem_array(v->mem, t->cap, sizeof(*t->at));
    if (!t->at) {
        fx_mem_free(v->mem, open, (LEN_MAX + 1) * sizeof(*open));
        return false;
    }
    t->n = 1;
    t->at[0].token = -1;
    for (size_t i = 0; i < n; i++) {
        size_t k;

        if (left_out && left_out[s[i].id])
            continue;
        k = last ? common(last, &s[i]) : 0;
        for (; depth > k; depth--)
            t->at[open[depth]].end = t->n;
        if (last && k == s[i].len && k == last->len) {              /* the same bytes again */
            last = &s[i];
            continue;
        }
        for (; depth < s[i].len; depth++) {
            t->at[t->n] = (fx_trie_node){ .token = -1, .depth = (uint16_t)(depth + 1), .byte = (uint8_t)s[i].p[depth] };
            open[depth + 1] = t->n++;
        }
        t->at[open[depth]].token = s[i].id;
        t->at[open[depth]].same = v->same[s[i].id] >= 0;
        last = &s[i];
    }
    for (; depth > 0; depth--)
        t->at[open[depth]].end = t->n;
    t->at[0].end = t->n;
    fx_mem_free(v->mem, open, (LEN_MAX + 1) * sizeof(*open));
    fx_trie_node *tight = fx_mem_resize(v->mem, t->at, t->cap * sizeof(*t->at), t->n * sizeof(*t->at));

    if (!tight)
        return false;
    t->at = tight;
    t->cap = t->n;
    return true;
}

static void link_same(fx_gvocab *v, const sorted *s, size_t n)
{
    for (size_t i = 0; i < v->n; i++)
        v->same[i] = -1;
    for (size_t i = 0; i + 1 < n; i++)
        if (s[i].len == s[i + 1].len && !memcmp(s[i].p, s[i + 1].p, s[i].len))
            v->same[s[i].id] = s[i + 1].id;
}

/* ---- Interior tokens -------------------------------------------------------------------------------- */

/* How many characters an interior token has; 0: it isn't one. */
static size_t interior_chars(fx_str s)
{
    size_t chars = 0;

    for (size_t i = 0; i < s.n; chars++) {
        unsigned char c = (unsigned char)s.p[i];
        uint32_t rune = c;

        if (c < 0x80)
            i++;
        else
            rune = fx_utf8_next(s, &i);
        if (rune < 0x20 || rune == '"' || rune == '\\' || rune == 0x2028 || rune == 0x2029 || rune == FX_BAD_RUNE)
            return 0;
    }
    return chars;
}

/* Sets 'chars' by id (0: not interior; at most FX_SLICES), and the slices. */
static bool make_slices(fx_gvocab *v, uint8_t *chars)
{
    uint32_t counts[FX_SLICES + 1] = { 0 };

    for (size_t id = 0; id < v->n; id++) {
        size_t k = interior_chars(v->bytes[id]);

        chars[id] = (uint8_t)FX_MIN(k, FX_SLICES);
        counts[chars[id]]++;
        v->max_chars = FX_MAX(v->max_chars, k);
        v->n_interior += k > 0;
    }
    for (size_t k = 1; k <= FX_SLICES; k++) {
        if (k > 1 && counts[k] == 0) {
            v->slices[k] = fx_bits_ref(v->slices[k - 1]);
            continue;
        }
        if (!(v->slices[k] = fx_bits_new(v, true, (uint32_t)v->words)))
            return false;
        if (k > 1)
            memcpy(v->slices[k]->at, v->slices[k - 1]->at, v->words * sizeof(uint32_t));
        for (size_t id = 0; id < v->n; id++)
            if (chars[id] == k)
                v->slices[k]->at[id / 32] |= 1u << id % 32;
    }
    return true;
}

/* twin and interior_from: both tries are in the same order, so one pass over them pairs their nodes. */
static bool pair_nodes(fx_gvocab *v, const uint8_t *chars)
{
    uint32_t *path = fx_mem_array(v->mem, LEN_MAX + 2, sizeof(*path)), j = 1, k = 0;

    v->twin = fx_mem_array(v->mem, v->all.n, sizeof(*v->twin));
    v->interior_from = fx_mem_array(v->mem, v->all.n + 1, sizeof(*v->interior_from));
    v->interior = fx_mem_array(v->mem, v->n_interior + 1, sizeof(*v->interior));
    if (!path || !v->twin || !v->interior_from || !v->interior) {
        fx_mem_free(v->mem, path, (LEN_MAX + 2) * sizeof(*path));
        return false;
    }
    for (uint32_t i = 0; i < v->all.n; i++) {
        const fx_trie_node *x = &v->all.at[i];
        uint32_t up = i == 0 ? 0 : path[x->depth - 1];

        v->interior_from[i] = k;
        for (int32_t id = x->token; id >= 0; id = v->same[id])
            if (chars[id])
                v->interior[k++] = id;
        /* The next node of the rest is this one's twin if it hangs below the twin of our parent by the same byte. */
        if (i == 0) {
            path[0] = v->twin[0] = 0;
        } else if (up != FX_TRIE_NONE && j < v->rest.n && v->rest.at[j].depth == x->depth && v->rest.at[j].byte == x->byte &&
                   j < v->rest.at[up].end) {
            path[x->depth] = v->twin[i] = j++;
        } else {
            path[x->depth] = v->twin[i] = FX_TRIE_NONE;
        }
    }
    v->interior_from[v->all.n] = k;
    fx_mem_free(v->mem, path, (LEN_MAX + 2) * sizeof(*path));
    return j == v->rest.n;
}

/* ---- Making one -------------------------------------------------------------------------------------- */

static bool copy_tokens(fx_gvocab *v, const fx_gvocab_desc *d)
{
    size_t at = 0;

    v->bytes = fx_mem_array(v->mem, v->n + 1, sizeof(*v->bytes));
    v->special = fx_mem_zalloc(v->mem, v->n + 1);
    v->same = fx_mem_array(v->mem, v->n + 1, sizeof(*v->same));
    v->eos_cap = d->n_eos + 1;
    v->eos = fx_mem_array(v->mem, v->eos_cap, sizeof(*v->eos));
    if (!v->bytes || !v->special || !v->same || !v->eos)
        return false;
    for (size_t i = 0; i < d->n_eos; i++)
        if (d->eos[i] >= 0 && (size_t)d->eos[i] < v->n)
            v->eos[v->n_eos++] = d->eos[i];
    for (size_t id = 0; id < v->n; id++) {
        v->special[id] = d->special && d->special(d->user, (int32_t)id);
        v->bytes[id] = v->special[id] ? fx_str_n(NULL, 0) : d->bytes(d->user, (int32_t)id);
        if (v->bytes[id].n > LEN_MAX)
            v->bytes[id].n = 0;
        v->text_bytes += v->bytes[id].n;
    }
    for (size_t i = 0; i < v->n_eos; i++) {         /* an end token is never text */
        v->text_bytes -= v->bytes[v->eos[i]].n;
        v->bytes[v->eos[i]].n = 0;
    }
    if (!(v->text = fx_mem_alloc(v->mem, v->text_bytes + 1)))
        return false;
    for (size_t id = 0; id < v->n; id++) {
        if (v->bytes[id].n)
            memcpy(v->text + at, v->bytes[id].p, v->bytes[id].n);
        v->bytes[id].p = v->text + at;
        at += v->bytes[id].n;
        v->max_len = FX_MAX(v->max_len, v->bytes[id].n);
    }
    return true;
}

static bool prepare(fx_gvocab *v)
{
    sorted *s = fx_mem_array(v->mem, v->n + 1, sizeof(*s));
    uint8_t *chars = fx_mem_zalloc(v->mem, v->n + 1);
    size_t n = 0;
    bool ok = s && chars;

    for (size_t id = 0; ok && id < v->n; id++)
        if (v->bytes[id].n)
            s[n++] = (sorted){ head_of(v->bytes[id]), (uint32_t)v->bytes[id].n, (int32_t)id, v->bytes[id].p };
    ok = ok && sort_tokens(v->mem, s, n);
    if (ok)
        link_same(v, s, n);
    ok = ok && make_slices(v, chars) && build_trie(v, &v->all, s, n, NULL) && build_trie(v, &v->rest, s, n, chars) &&
         pair_nodes(v, chars);
    fx_mem_free(v->mem, s, (v->n + 1) * sizeof(*s));
    fx_mem_free(v->mem, chars, v->n + 1);
    return ok;
}

static void free_vocab(fx_gvocab *v)
{
    for (size_t i = 0; i < v->table_cap; i++)
        for (fx_found *f = v->table[i], *next; f; f = next) {
            next = f->next;
            fx_found_unref(v, f);
        }
    fx_mem_free(v->mem, v->table, v->table_cap * sizeof(*v->table));
    for (size_t k = 0; k <= FX_SLICES; k++)
        fx_bits_unref(v, v->slices[k]);
    fx_mem_free(v->mem, v->all.at, v->all.cap * sizeof(*v->all.at));
    fx_mem_free(v->mem, v->rest.at, v->rest.cap * sizeof(*v->rest.at));
    fx_mem_free(v->mem, v->twin, v->all.n * sizeof(*v->twin));
    fx_mem_free(v->mem, v->interior_from, (v->all.n + 1) * sizeof(*v->interior_from));
    fx_mem_free(v->mem, v->interior, (v->n_interior + 1) * sizeof(*v->interior));
    fx_mem_free(v->mem, v->bytes, (v->n + 1) * sizeof(*v->bytes));
    fx_mem_free(v->mem, v->special, v->n + 1);
    fx_mem_free(v->mem, v->eos, v->eos_cap * sizeof(*v->eos));
    fx_mem_free(v->mem, v->same, (v->n + 1) * sizeof(*v->same));
    fx_mem_free(v->mem, v->text, v->text_bytes + 1);
    pthread_mutex_destroy(&v->lock);
    fx_mem_free(v->mem, v, sizeof(*v));
}

fx_status fx_gvocab_new(fx_gvocab **out, const fx_mem *mem, const fx_gvocab_desc *desc, fx_error *err)
{
    fx_gvocab *v;

    *out = NULL;
    if (desc->n == 0 || desc->n > TOKENS_MAX)
        return fx_fail(err, FORNAX_EARG, "a vocabulary of %zu tokens, expected 1 to %u", desc->n, TOKENS_MAX);
    v = fx_mem_zalloc(mem, sizeof(*v));
    if (!v)
        return fx_nomem(err, "a vocabulary");
    v->mem = mem;
    v->n = desc->n;
    v->words = FX_DIV_UP(desc->n, 32);
    v->cache_cap = desc->cache_bytes ? desc->cache_bytes : CACHE_BYTES;
    atomic_init(&v->refs, 1);
    if (pthread_mutex_init(&v->lock, NULL)) {
        fx_mem_free(mem, v, sizeof(*v));
        return fx_nomem(err, "a vocabulary");
    }
    v->table_cap = 4096;
    v->table = fx_mem_array(mem, v->table_cap, sizeof(*v->table));
    if (!v->table || !copy_tokens(v, desc) || !prepare(v)) {
        v->table_cap = v->table ? v->table_cap : 0;
        free_vocab(v);
        return fx_nomem(err, "a vocabulary");
    }
    *out = v;
    return FORNAX_OK;
}

fx_gvocab *fx_gvocab_ref(fx_gvocab *v)
{
    atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void fx_gvocab_unref(fx_gvocab *v)
{
    if (v && atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) == 1)
        free_vocab(v);
}

size_t fx_gvocab_words(const fx_gvocab *v) { return v->words; }

/* ---- The table of walks ----------------------------------------------------------------------------------- */

void fx_found_unref(const fx_gvocab *v, fx_found *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    fx_bits_unref(v, f->bits);
    fx_mem_free(v->mem, f->tails, f->n_tails * sizeof(*f->tails));
    fx_mem_free(v->mem, f->nodes, f->n_nodes * sizeof(*f->nodes));
    fx_mem_free(v->mem, f, sizeof(*f));
}

fx_found *fx_gvocab_find(fx_gvocab *v, fx_hash128 print)
{
    fx_found *f;

    pthread_mutex_lock(&v->lock);
    f = v->table[print.lo & (v->table_cap - 1)];
    while (f && (f->print.lo != print.lo || f->print.hi != print.hi))
        f = f->next;
    if (f)
        atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&v->lock);
    return f;
}

/* Under the lock: lets go what only the table holds. */
static void evict(fx_gvocab *v)
{
    for (size_t i = 0; i < v->table_cap; i++)
        for (fx_found **at = &v->table[i]; *at;) {
            fx_found *f = *at;

            if (atomic_load_explicit(&f->refs, memory_order_acquire) > 1) {
                at = &f->next;
                continue;
            }
            *at = f->next;
            v->bytes_cached -= f->bytes;
            v->n_found--;
            fx_found_unref(v, f);
        }
}

void fx_gvocab_keep(fx_gvocab *v, fx_found *f)
{
    fx_found **at;

    pthread_mutex_lock(&v->lock);
    at = &v->table[f->print.lo & (v->table_cap - 1)];
    for (fx_found *x = *at; x; x = x->next)
        if (x->print.lo == f->print.lo && x->print.hi == f->print.hi) {     /* another thread was first */
            pthread_mutex_unlock(&v->lock);
            return;
        }
    if (v->bytes_cached + f->bytes > v->cache_cap)
        evict(v);
    if (v->bytes_cached + f->bytes <= v->cache_cap) {
        atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
        f->next = *at;
        *at = f;
        v->n_found++;
        v->bytes_cached += f->bytes;
    }
    pthread_mutex_unlock(&v->lock);
}

fx_bits *fx_gvocab_intern(fx_gvocab *v, const uint32_t *words)
{
    fx_hash128 print = fx_hash128_of(words, v->words * sizeof(*words), 0x6d61736b);
    fx_found *f = fx_gvocab_find(v, print);
    fx_bits *b;

    if (f) {
        b = fx_bits_ref(f->bits);
        fx_found_unref(v, f);
        return b;
    }
    b = fx_bits_new(v, true, (uint32_t)v->words);
    if (!b)
        return NULL;
    memcpy(b->at, words, v->words * sizeof(*words));
    f = fx_mem_zalloc(v->mem, sizeof(*f));
    if (f) {                            /* else it just isn't shared */
        atomic_init(&f->refs, 1);
        f->print = print;
        f->bits = fx_bits_ref(b);
        f->bytes = sizeof(*f) + fx_bits_bytes(b);
        fx_gvocab_keep(v, f);
        fx_found_unref(v, f);
    }
    return b;
}

void fx_gvocab_charge(fx_gvocab *v, ptrdiff_t bytes)
{
    atomic_fetch_add_explicit(&v->bytes_cached, (size_t)bytes, memory_order_relaxed);
}

bool fx_gvocab_full(fx_gvocab *v)
{
    return atomic_load_explicit(&v->bytes_cached, memory_order_relaxed) > v->cache_cap;
}
