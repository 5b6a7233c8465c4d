/* schema_string.c - sets of strings: a regular language and a finite set of texts side by side.
 *
 * The finite part stays a sorted list as long as it can, so that enum, const and oneOf's discriminators
 * are compared and filtered as lists.  A large list becomes a machine over a trie (fx_re_machine) that
 * reads any JSON spelling of its texts; its states are always alive. */
#include <stdlib.h>

#include "base/text.h"
#include "grammar/schema_int.h"

#define BUDGET 500          /* states looked at to prove a language empty */
#define FEW 6               /* texts that become an expression instead of a machine */

/* ---- the trie ------------------------------------------------------------------------ */

typedef struct edge {
    uint32_t rune, to;
} edge;
typedef struct trie_node {
    uint32_t first, n;      /* edges, sorted by rune */
    bool end;
} trie_node;
typedef struct trie {
    const trie_node *nodes;
    const edge *edges;
} trie;

/* A state: node 24 bits, phase 4 bits, what was read of a character 28 bits. */
enum { TEXT, BACKSLASH, HEX0, HEX1, HEX2, HEX3, HIGH, HIGH_U, LOW0, LOW1, LOW2, LOW3, UTF1, UTF2, UTF3 };
#define NODE(s) ((uint32_t)(s) & 0xFFFFFF)
#define PHASE(s) ((uint32_t)((s) >> 24) & 15)
#define READ(s) ((uint32_t)((s) >> 28))
#define STATE(node, phase, read) ((uint64_t)(node) | (uint64_t)(phase) << 24 | (uint64_t)(read) << 28)
#define MAX_TRIE (1u << 24)

static const edge *first_edge(const trie *t, uint32_t node, uint32_t lo, uint32_t hi)
{
    const edge *e = t->edges + t->nodes[node].first;
    uint32_t a = 0, b = t->nodes[node].n;

    while (a < b) {
        uint32_t mid = (a + b) / 2;

        if (e[mid].rune < lo)
            a = mid + 1;
        else
            b = mid;
    }
    return a < t->nodes[node].n && e[a].rune <= hi ? &e[a] : NULL;
}

static bool take(const trie *t, uint32_t node, uint32_t rune, uint64_t *to)
{
    const edge *e = first_edge(t, node, rune, rune);

    if (e)
        *to = STATE(e->to, TEXT, 0);
    return e != NULL;
}

/* May a \u escape whose digits lie between lo and hi go on? */
static bool unit_alive(const trie *t, uint32_t node, uint32_t lo, uint32_t hi)
{
    uint32_t a = FX_MAX(lo, 0xD800u), b = FX_MIN(hi, 0xDBFFu);

    if (first_edge(t, node, lo, hi))
        return true;
    return a <= b && first_edge(t, node, 0x10000 + ((a - 0xD800) << 10), 0x10000 + ((b - 0xD800) << 10) + 0x3FF);
}

static int hex_digit(unsigned char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static bool next_hex(const trie *t, uint64_t s, unsigned char byte, uint64_t *to)
{
    uint32_t node = NODE(s), phase = PHASE(s), left = 4 * (HEX3 - phase), v;
    int digit = hex_digit(byte);

    if (digit < 0)
        return false;
    v = READ(s) << 4 | (uint32_t)digit;
    if (!unit_alive(t, node, v << left, ((v + 1) << left) - 1))
        return false;
    if (phase < HEX3) {
        *to = STATE(node, phase + 1, v);
        return true;
    }
    if (v < 0xD800 || v > 0xDBFF)
        return take(t, node, v, to);
    *to = STATE(node, HIGH, v - 0xD800);
    return true;
}

/* 'read' holds the ten bits of the first half and the digits of the second so far. */
static bool next_low(const trie *t, uint64_t s, unsigned char byte, uint64_t *to)
{
    uint32_t node = NODE(s), phase = PHASE(s), done = phase - LOW0 + 1, left = 4 * (4 - done);
    uint32_t high = READ(s) >> 4 * (done - 1), v = READ(s) & ((1u << 4 * (done - 1)) - 1), lo, hi, base;
    int digit = hex_digit(byte);

    if (digit < 0)
        return false;
    v = v << 4 | (uint32_t)digit;
    lo = FX_MAX(v << left, 0xDC00u);
    hi = FX_MIN(((v + 1) << left) - 1, 0xDFFFu);
    base = 0x10000 + (high << 10);
    if (lo > hi || !first_edge(t, node, base + lo - 0xDC00, base + hi - 0xDC00))
        return false;
    if (phase == LOW3)
        return take(t, node, base + lo - 0xDC00, to);
    *to = STATE(node, phase + 1, high << 4 * done | v);
    return true;
}

/* 'read' holds the bits of the bytes so far; phase UTFk: k bytes are missing. */
static bool next_utf8(const trie *t, uint64_t s, unsigned char byte, uint64_t *to)
{
    uint32_t missing = PHASE(s) - UTF1, v = READ(s) << 6 | (byte & 0x3F);

    if ((byte & 0xC0) != 0x80 || !first_edge(t, NODE(s), v << 6 * missing, ((v + 1) << 6 * missing) - 1))
        return false;
    if (!missing)
        return take(t, NODE(s), v, to);
    *to = STATE(NODE(s), PHASE(s) - 1, v);
    return true;
}

static bool next_text(const trie *t, uint64_t s, unsigned char byte, uint64_t *to)
{
    static const struct { uint32_t bits, phase; } lead[] = { { 0x1F, UTF1 }, { 0x0F, UTF2 }, { 0x07, UTF3 } };
    int k = byte >= 0xF0 ? 2 : byte >= 0xE0 ? 1 : 0;
    uint32_t v, shift = 6 * ((uint32_t)k + 1), lowest = k == 0 ? 0x80 : k == 1 ? 0x800 : 0x10000;

    if (byte == '\\') {
        *to = STATE(NODE(s), BACKSLASH, 0);
        return t->nodes[NODE(s)].n > 0;
    }
    if (byte < 0x80)
        return byte >= 0x20 && byte != '"' && take(t, NODE(s), byte, to);
    if (byte < 0xC2 || byte > 0xF4)
        return false;
    v = byte & lead[k].bits;
    if (!first_edge(t, NODE(s), FX_MAX(v << shift, lowest), ((v + 1) << shift) - 1))
        return false;
    *to = STATE(NODE(s), lead[k].phase, v);
    return true;
}

static bool next_escape(const trie *t, uint64_t s, unsigned char byte, uint64_t *to)
{
    static const char from[] = "\"\\/bfnrt", runes[] = "\"\\/\b\f\n\r\t";
    const char *at = byte ? strchr(from, byte) : NULL;

    if (at)
        return take(t, NODE(s), (unsigned char)runes[at - from], to);
    *to = STATE(NODE(s), HEX0, 0);
    return byte == 'u';
}

static bool trie_next(const void *user, uint64_t s, unsigned char byte, uint64_t *to)
{
    const trie *t = user;
    uint32_t phase = PHASE(s);

    if (phase == TEXT)
        return next_text(t, s, byte, to);
    if (phase == BACKSLASH)
        return next_escape(t, s, byte, to);
    if (phase <= HEX3)
        return next_hex(t, s, byte, to);
    if (phase <= HIGH_U) {
        *to = phase == HIGH ? STATE(NODE(s), HIGH_U, READ(s)) : STATE(NODE(s), LOW0, READ(s));
        return byte == (phase == HIGH ? '\\' : 'u');
    }
    return phase <= LOW3 ? next_low(t, s, byte, to) : next_utf8(t, s, byte, to);
}

static bool trie_accepts(const void *user, uint64_t s)
{
    return PHASE(s) == TEXT && ((const trie *)user)->nodes[NODE(s)].end;
}

static const fx_re_machine trie_machine = { trie_next, trie_accepts, NULL };

typedef struct trie_build {
    fx_sc *c;
    FX_VEC(trie_node) nodes;
    FX_VEC(edge) edges;
    const fx_str *texts;
} trie_build;

/* Nodes come in order of breadth: a queue of (range of texts, depth), one for each node. */
typedef struct trie_range {
    uint32_t lo, hi;
    size_t depth;           /* bytes */
} trie_range;
typedef FX_VEC(trie_range) trie_queue;

static bool add_edges(trie_build *b, trie_range r, trie_queue *q)
{
    trie_node node = { (uint32_t)b->edges.n, 0, b->texts[r.lo].n == r.depth };

    for (uint32_t i = r.lo + node.end; i < r.hi;) {
        size_t at = r.depth;
        uint32_t rune = fx_utf8_next(b->texts[i], &at), from = i;
        edge e = { rune, (uint32_t)q->n };

        while (i < r.hi && b->texts[i].n >= at
               && memcmp(b->texts[i].p + r.depth, b->texts[from].p + r.depth, at - r.depth) == 0)
            i++;
        if (!FX_VEC_PUSH(&b->edges, b->c->mem, e)
            || !FX_VEC_PUSH(q, b->c->mem, ((trie_range){ from, i, at })))
            return fx_sc_nomem(b->c);
        node.n++;
    }
    return FX_VEC_PUSH(&b->nodes, b->c->mem, node) || fx_sc_nomem(b->c);
}

static trie *trie_keep(trie_build *b)
{
    trie *t = fx_re_pool_alloc(b->c->re, sizeof(*t));
    trie_node *nodes = fx_re_pool_alloc(b->c->re, b->nodes.n * sizeof(*nodes));
    edge *edges = fx_re_pool_alloc(b->c->re, (b->edges.n + 1) * sizeof(*edges));

    if (!t || !nodes || !edges) {
        fx_sc_nomem(b->c);
        return NULL;
    }
    memcpy(nodes, b->nodes.at, b->nodes.n * sizeof(*nodes));
    if (b->edges.n)
        memcpy(edges, b->edges.at, b->edges.n * sizeof(*edges));
    *t = (trie){ nodes, edges };
    return t;
}

static fx_re texts_machine(fx_sc *c, const fx_str *texts, uint32_t n)
{
    trie_build b = { .c = c, .texts = texts };
    trie_queue q = { 0 };
    bool ok = FX_VEC_PUSH(&q, c->mem, ((trie_range){ 0, n, 0 }));
    trie *t = NULL;

    for (size_t i = 0; ok && i < q.n; i++) {
        ok = add_edges(&b, q.at[i], &q);
        if (ok && q.n >= MAX_TRIE)
            ok = fx_sc_over(c, "texts of an enum");
    }
    if (ok)
        t = trie_keep(&b);
    else if (!c->st)
        fx_sc_nomem(c);
    FX_VEC_FREE(&q, c->mem);
    FX_VEC_FREE(&b.nodes, c->mem);
    FX_VEC_FREE(&b.edges, c->mem);
    if (!t)
        return FX_RE_NONE;
    /* The machine knows every escape. */
    fx_re re = fx_re_of_machine(c->re, &trie_machine, t, STATE(0, TEXT, 0));
    return c->opt->any_number ? re : fx_re_and(c->re, re, c->any_text);
}

/* ---- finite sets ------------------------------------------------------------------------ */

static int by_text(const void *a, const void *b)
{
    return fx_str_cmp(*(const fx_str *)a, *(const fx_str *)b);
}

void fx_sort_texts(fx_str *texts, uint32_t *n)
{
    uint32_t kept = 0;

    qsort(texts, *n, sizeof(*texts), by_text);
    for (uint32_t i = 0; i < *n; i++)
        if (!kept || !fx_str_eq(texts[kept - 1], texts[i]))
            texts[kept++] = texts[i];
    *n = kept;
}

static bool has(fx_sstr s, fx_str text)
{
    return s.n_fin && bsearch(&text, s.fin, s.n_fin, sizeof(text), by_text);
}

fx_re fx_texts_re(fx_sc *c, const fx_str *texts, uint32_t n)
{
    fx_re re = FX_RE_NONE;

    if (n > FEW)
        return texts_machine(c, texts, n);
    for (uint32_t i = 0; i < n; i++)
        re = fx_re_alt(c->re, re, fx_re_text(c->re, FX_SPELL_JSON, texts[i]));
    return re;
}

/* ---- languages ---------------------------------------------------------------------------- */

bool fx_re_has_text(fx_sc *c, fx_re re, fx_str text)
{
    fx_buf b;
    bool yes;

    if (re == FX_RE_NONE || re == c->any_text)
        return re != FX_RE_NONE;
    fx_buf_init(&b, c->mem);
    fx_buf_json(&b, text);
    yes = !b.failed && fx_re_matches(c->re, re, fx_buf_view(&b));
    if (b.failed)
        fx_sc_nomem(c);
    fx_buf_done(&b);
    return yes;
}

/* Proved empty?  Within the budget of states and what is left of that of the whole schema. */
static bool proved_empty(fx_sc *c, fx_re re, size_t budget)
{
    if (re == FX_RE_NONE || re == c->any_text)
        return re == FX_RE_NONE;
    return fx_re_pool_bytes(c->re) - c->re_bytes < FX_S_MAX_RE_BYTES && fx_re_is_none(c->re, re, budget) == FX_YES;
}

bool fx_re_empty(fx_sc *c, fx_re re)
{
    return proved_empty(c, re, BUDGET);
}

static fx_re re_and(fx_sc *c, fx_re a, fx_re b)
{
    if (a == c->any_text || a == b)
        return b;
    if (b == c->any_text)
        return a;
    return a == FX_RE_NONE || b == FX_RE_NONE ? FX_RE_NONE : fx_re_and(c->re, a, b);
}

static fx_re re_not(fx_sc *c, fx_re a)
{
    if (a == FX_RE_NONE || a == c->any_text)
        return a == FX_RE_NONE ? c->any_text : FX_RE_NONE;
    return fx_re_text_not(c->re, FX_SPELL_JSON, a);
}

fx_re fx_re_minus(fx_sc *c, fx_re a, fx_re b)
{
    return a == FX_RE_NONE || b == FX_RE_NONE ? a : re_and(c, a, re_not(c, b));
}

fx_re fx_re_length(fx_sc *c, uint32_t min, uint32_t max)
{
    if (min > max)
        return FX_RE_NONE;
    return min == 0 && max == FX_S_INF ? c->any_text : fx_re_repeat(c->re, c->any_char, min, max);
}

bool fx_sc_pattern(fx_sc *c, const fx_jv *at, const char *kw, fx_str pattern, fx_re *out)
{
    fx_error err = { 0 };
    fx_status st = fx_re_ecma(out, c->re, FX_SPELL_JSON, pattern, false, &err);

    return st == FORNAX_OK || fx_sc_fail(c, st, at, kw, "%s", err.text);
}

/* ---- sets ------------------------------------------------------------------------------------ */

/* The texts of a that are in b. */
static uint32_t keep_in(fx_sc *c, fx_str *out, uint32_t n, fx_sstr a, fx_sstr b)
{
    for (uint32_t i = 0; i < a.n_fin; i++)
        if (has(b, a.fin[i]) || fx_re_has_text(c, b.gen, a.fin[i]))
            out[n++] = a.fin[i];
    return n;
}

fx_sstr fx_sstr_and(fx_sc *c, fx_sstr a, fx_sstr b)
{
    fx_sstr s = { re_and(c, a.gen, b.gen), NULL, 0 };
    fx_str *fin;

    if (!a.n_fin && !b.n_fin)
        return s;
    if ((a.gen == c->any_text && !a.n_fin) || (b.gen == c->any_text && !b.n_fin))
        return a.n_fin ? a : b;
    if (!(fin = FX_SC_NEWN(c, fx_str, (size_t)a.n_fin + b.n_fin)))
        return s;
    s.n_fin = keep_in(c, fin, keep_in(c, fin, 0, a, b), b, a);
    fx_sort_texts(fin, &s.n_fin);
    s.fin = fin;
    return s;
}

fx_sstr fx_sstr_or(fx_sc *c, fx_sstr a, fx_sstr b)
{
    fx_sstr s = { a.gen, a.fin, a.n_fin };
    fx_str *fin;

    if (a.gen == c->any_text || b.gen == c->any_text)
        return (fx_sstr){ c->any_text, NULL, 0 };
    if (a.gen == FX_RE_NONE || b.gen == FX_RE_NONE || a.gen == b.gen)
        s.gen = a.gen == FX_RE_NONE ? b.gen : a.gen;
    else
        s.gen = fx_re_alt(c->re, a.gen, b.gen);
    if (!b.n_fin)
        return s;
    if (!a.n_fin) {
        s.fin = b.fin;
        s.n_fin = b.n_fin;
        return s;
    }
    if (!(fin = FX_SC_NEWN(c, fx_str, (size_t)a.n_fin + b.n_fin)))
        return s;
    memcpy(fin, a.fin, a.n_fin * sizeof(*fin));
    memcpy(fin + a.n_fin, b.fin, b.n_fin * sizeof(*fin));
    s.n_fin = a.n_fin + b.n_fin;
    fx_sort_texts(fin, &s.n_fin);
    s.fin = fin;
    return s;
}

fx_re fx_sstr_re(fx_sc *c, fx_sstr s)
{
    fx_re fin = fx_texts_re(c, s.fin, s.n_fin);

    return s.gen == FX_RE_NONE ? fin : s.n_fin ? fx_re_alt(c->re, s.gen, fin) : s.gen;
}

fx_sstr fx_sstr_not(fx_sc *c, fx_sstr a)
{
    return (fx_sstr){ re_not(c, fx_sstr_re(c, a)), NULL, 0 };
}

bool fx_sstr_is_none(fx_sc *c, fx_sstr a, size_t budget)
{
    return !a.n_fin && proved_empty(c, a.gen, budget);
}
