/* names.c - the trie of names and its machine.
 *
 * A machine's state is (trie node, view, form, count, child): 'count' bytes of a character are behind
 * us, in one of its forms (literal, short escape, \u); 'child' is the first child of the node that is
 * spelled so far alike.  count 0: between characters. */
#include "grammar/names.h"

#include "base/text.h"
#include "grammar/regex_int.h"

#define VIEW_BITS 18
#define NODE_BITS 20
#define SPELL_MAX 12

typedef enum form { LITERAL, SHORT, NUMBERED, DONE } form;

typedef struct trie_node {
    uint32_t rune;              /* on the edge that leads here */
    uint32_t kids, n_kids;      /* contiguous, by rune */
    uint32_t lo, hi;            /* names below: lo..hi-1 */
    bool ends;                  /* name lo ends here */
} trie_node;

struct fx_names {
    const fx_mem *mem;
    const fx_str *names;
    size_t n, words;
    bool plain;
    FX_VEC(trie_node) nodes;
    FX_VEC(uint64_t) views;     /* words each; view 0 is everything */
    size_t n_views;
};

typedef struct state {
    uint32_t node, view, child;
    form form;
    unsigned count;
} state;

static uint64_t pack(state s)
{
    return s.node | (uint64_t)s.child << NODE_BITS | (uint64_t)s.view << (2 * NODE_BITS) |
           (uint64_t)s.form << (2 * NODE_BITS + VIEW_BITS) | (uint64_t)s.count << (2 * NODE_BITS + VIEW_BITS + 2);
}

static state unpack(uint64_t x)
{
    const uint64_t node_mask = (1u << NODE_BITS) - 1;

    return (state){ (uint32_t)(x & node_mask), (uint32_t)(x >> (2 * NODE_BITS) & ((1u << VIEW_BITS) - 1)),
                    (uint32_t)(x >> NODE_BITS & node_mask), (form)(x >> (2 * NODE_BITS + VIEW_BITS) & 3),
                    (unsigned)(x >> (2 * NODE_BITS + VIEW_BITS + 2)) };
}

/* ---- The trie --------------------------------------------------------------------------- */

/* Adds the kids of node 'at', whose names share their first 'skip' bytes; then goes down. */
static bool add_kids(fx_names *d, uint32_t at, size_t skip, int depth)
{
    uint32_t lo = d->nodes.at[at].lo, hi = d->nodes.at[at].hi, first = (uint32_t)d->nodes.n, n = 0;

    if (d->names[lo].n == skip) {
        d->nodes.at[at].ends = true;
        lo++;
    }
    while (lo < hi) {
        size_t i = skip, unused;
        uint32_t rune = fx_utf8_next(d->names[lo], &i), end = lo + 1;

        while (end < hi && (unused = skip, fx_utf8_next(d->names[end], &unused) == rune))
            end++;
        if (d->nodes.n >= 1u << NODE_BITS ||
            !FX_VEC_PUSH(&d->nodes, d->mem, ((trie_node){ .rune = rune, .lo = lo, .hi = end })))
            return false;
        n++;
        lo = end;
    }
    d->nodes.at[at].kids = first;
    d->nodes.at[at].n_kids = n;
    for (uint32_t k = first; k < first + n; k++) {
        size_t i = skip;

        fx_utf8_next(d->names[d->nodes.at[k].lo], &i);
        if (depth > 2000 || !add_kids(d, k, i, depth + 1))
            return false;
    }
    return true;
}

fx_names *fx_names_new(const fx_mem *mem, const fx_str *names, size_t n, bool plain)
{
    fx_names *d = fx_mem_zalloc(mem, sizeof(*d));

    if (!d)
        return NULL;
    d->mem = mem;
    d->names = names;
    d->n = n;
    d->plain = plain;
    d->words = FX_DIV_UP(n, 64) + (n == 0);
    if (!FX_VEC_PUSH(&d->nodes, mem, ((trie_node){ .hi = (uint32_t)n })) || (n && !add_kids(d, 0, 0, 0)) ||
        !FX_VEC_RESERVE(&d->views, mem, d->words)) {
        fx_names_free(d);
        return NULL;
    }
    memset(d->views.at, 0, d->words * sizeof(uint64_t));
    for (size_t i = 0; i < n; i++)
        d->views.at[i / 64] |= 1ull << i % 64;
    d->views.n = d->words;
    d->n_views = 1;
    return d;
}

void fx_names_free(fx_names *d)
{
    if (!d)
        return;
    FX_VEC_FREE(&d->nodes, d->mem);
    FX_VEC_FREE(&d->views, d->mem);
    fx_mem_free(d->mem, d, sizeof(*d));
}

size_t fx_names_words(const fx_names *d) { return d->words; }

size_t fx_names_bytes(const fx_names *d)
{
    return sizeof(*d) + d->nodes.cap * sizeof(*d->nodes.at) + d->views.cap * sizeof(*d->views.at);
}

uint32_t fx_names_view(fx_names *d, const uint64_t *bits)
{
    for (size_t v = d->n_views; v-- > 0;)
        if (!memcmp(d->views.at + v * d->words, bits, d->words * sizeof(*bits)))
            return (uint32_t)v;
    if (d->n_views + 1 >= 1u << VIEW_BITS || !FX_VEC_RESERVE(&d->views, d->mem, d->words))
        return UINT32_MAX;
    memcpy(d->views.at + d->views.n, bits, d->words * sizeof(*bits));
    d->views.n += d->words;
    return (uint32_t)d->n_views++;
}

const uint64_t *fx_names_view_bits(const fx_names *d, uint32_t view) { return d->views.at + view * d->words; }

/* ---- The machine ---------------------------------------------------------------------------- */

/* Whether some name (want true: of the view; false: that is not in it) lies in lo..hi-1. */
static bool any_in(const fx_names *d, uint32_t view, uint32_t lo, uint32_t hi, bool want)
{
    const uint64_t *bits = fx_names_view_bits(d, view);

    while (lo < hi) {
        uint64_t w = want ? bits[lo / 64] : ~bits[lo / 64];
        uint32_t in_word = FX_MIN(64 - lo % 64, hi - lo);

        w >>= lo % 64;
        if (in_word < 64)
            w &= (1ull << in_word) - 1;
        if (w)
            return true;
        lo += in_word;
    }
    return false;
}

static char short_letter(uint32_t rune)
{
    static const char runes[] = "\b\t\n\f\r\"/\\", letters[] = "btnfr\"/\\";
    const char *p = rune && rune < 128 ? strchr(runes, (int)rune) : NULL;

    return p ? letters[p - runes] : 0;
}

/* A character in one of its forms; lower case digits. 0: it has none. */
static size_t spelling(uint32_t rune, form f, char out[SPELL_MAX + 1])
{
    if (f == LITERAL)
        return rune < 0x20 || rune == '"' || rune == '\\' ? 0 : fx_utf8_put(out, rune);
    if (f == SHORT) {
        out[0] = '\\';
        out[1] = short_letter(rune);
        return out[1] ? 2 : 0;
    }
    if (rune < 0x10000)
        return (size_t)fx_format(out, SPELL_MAX + 1, "\\u%04x", (unsigned)rune);
    return (size_t)fx_format(out, SPELL_MAX + 1, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((rune - 0x10000) >> 10)),
                             (unsigned)(0xdc00 + ((rune - 0x10000) & 0x3ff)));
}

/* Byte 'i' of a \u spelling may be in either case where it is a digit. */
static bool same_byte(char spelled, char byte, form f, size_t i)
{
    bool digit = f == NUMBERED && i % 6 >= 2;

    return spelled == byte || (digit && spelled >= 'a' && byte == spelled - 32);
}

static bool key_accepts(const void *user, uint64_t x)
{
    (void)user;
    return unpack(x).form == DONE;
}

static bool inside_accepts(const void *user, uint64_t x)
{
    const fx_names *d = user;
    state s = unpack(x);

    return s.count == 0 && s.form != DONE && d->nodes.at[s.node].ends;
}

/* Whether the kid's character may come as an escape. */
static bool may_escape(const fx_names *d, uint32_t view, uint32_t kid)
{
    const trie_node *k = &d->nodes.at[kid];

    return (!d->plain || fx_json_escapes(k->rune)) && any_in(d, view, k->lo, k->hi, true);
}

/* The first kid that may, from k on; 'end': none. */
static uint32_t first_escape(const fx_names *d, uint32_t view, uint32_t k, uint32_t end)
{
    while (k < end && !may_escape(d, view, k))
        k++;
    return k;
}

/* The first kid from 'from' on that may come and whose 'f' spelling begins as 'like' does for 'n' bytes and goes on
 * with 'byte'. */
static uint32_t find_kid(const fx_names *d, state s, form f, const char *like, size_t n, char byte, size_t *spelled)
{
    const trie_node *t = &d->nodes.at[s.node];
    char own[SPELL_MAX + 1];

    for (uint32_t k = t->kids; k < t->kids + t->n_kids; k++) {
        const trie_node *kid = &d->nodes.at[k];

        if (f == LITERAL && n == 0 && kid->rune < 128 && kid->rune != (unsigned char)byte)
            continue;                                       /* the usual case, without spelling it out */
        *spelled = spelling(kid->rune, f, own);
        if (*spelled > n && !memcmp(own, like, n) && same_byte(own[n], byte, f, n) &&
            (f == LITERAL ? any_in(d, s.view, kid->lo, kid->hi, true) : may_escape(d, s.view, k)))
            return k;
    }
    return UINT32_MAX;
}

static bool step(const fx_names *d, state s, form f, char byte, uint64_t *to)
{
    char like[SPELL_MAX + 1] = "";
    size_t spelled;
    uint32_t k;

    if (s.count)
        spelling(d->nodes.at[s.child].rune, f, like);
    k = find_kid(d, s, f, like, s.count, byte, &spelled);
    if (k == UINT32_MAX)
        return false;
    if (s.count + 1 < spelled) {
        *to = pack((state){ s.node, s.view, k, f, s.count + 1 });
        return true;
    }
    /* A character is complete.  Where the whole subset below may come, every view is view 0. */
    *to = pack((state){ k, any_in(d, s.view, d->nodes.at[k].lo, d->nodes.at[k].hi, false) ? s.view : 0, 0, LITERAL, 0 });
    return true;
}

static bool inside_next(const void *user, uint64_t x, unsigned char byte, uint64_t *to)
{
    const fx_names *d = user;
    state s = unpack(x);

    if (s.form == DONE)
        return false;
    if (s.count == 0 && byte == '\\') {
        /* Which escape it is shows at the next byte; until then the form is SHORT. */
        const trie_node *t = &d->nodes.at[s.node];

        *to = pack((state){ s.node, s.view, 0, SHORT, 1 });
        return first_escape(d, s.view, t->kids, t->kids + t->n_kids) < t->kids + t->n_kids;
    }
    if (s.form == SHORT && s.count == 1) {
        const trie_node *t = &d->nodes.at[s.node];

        if (byte == 'u') {
            uint32_t end = t->kids + t->n_kids, k = first_escape(d, s.view, t->kids, end);

            *to = pack((state){ s.node, s.view, k, NUMBERED, 2 });
            return k < end;
        }
        for (uint32_t k = t->kids; k < t->kids + t->n_kids; k++)
            if (short_letter(d->nodes.at[k].rune) == (char)byte && byte && may_escape(d, s.view, k)) {
                s.child = k;
                return step(d, s, SHORT, (char)byte, to);
            }
        return false;
    }
    return step(d, s, s.count ? s.form : LITERAL, (char)byte, to);
}

static bool key_next(const void *user, uint64_t x, unsigned char byte, uint64_t *to)
{
    const fx_names *d = user;
    state s = unpack(x);
    const trie_node *t = &d->nodes.at[s.node];

    if (byte == '"' && s.count == 0 && s.form != DONE && t->ends && any_in(d, s.view, t->lo, t->lo + 1, true)) {
        *to = pack((state){ s.node, 0, 0, DONE, 0 });
        return true;
    }
    return inside_next(user, x, byte, to);
}

static void first_bytes(const void *user, uint64_t x, uint64_t set[4])
{
    const fx_names *d = user;
    state s = unpack(x);
    const trie_node *t = &d->nodes.at[s.node];

    if (s.form == DONE)
        return;
    if (s.count) {                              /* inside of a character: few, and seldom asked for */
        memset(set, 0xff, 4 * sizeof(*set));
        return;
    }
    set['"' >> 6] |= 1ull << ('"' & 63);
    set['\\' >> 6] |= 1ull << ('\\' & 63);
    for (uint32_t k = t->kids; k < t->kids + t->n_kids; k++) {
        char own[SPELL_MAX + 1];
        unsigned char b = 0;

        if (d->nodes.at[k].rune < 128)
            b = (unsigned char)d->nodes.at[k].rune;
        else if (spelling(d->nodes.at[k].rune, LITERAL, own))
            b = (unsigned char)own[0];
        set[b >> 6] |= 1ull << (b & 63);
    }
}

static const fx_re_machine key_machine = { key_next, key_accepts, first_bytes };
static const fx_re_machine inside_machine = { inside_next, inside_accepts, first_bytes };

fx_re fx_names_key(const fx_names *d, fx_re_pool *p, uint32_t view)
{
    if (!any_in(d, view, 0, (uint32_t)d->n, true))
        return FX_RE_NONE;
    return fx_re_of_machine(p, &key_machine, d, pack((state){ 0, view, 0, LITERAL, 0 }));
}

fx_re fx_names_inside(const fx_names *d, fx_re_pool *p)
{
    return d->n ? fx_re_of_machine(p, &inside_machine, d, 0) : FX_RE_NONE;
}

bool fx_names_label(const fx_names *d, const fx_re_pool *p, fx_re x, uint32_t *index)
{
    const fx_re_node *n = &p->nodes.at[x];
    state s = unpack(n->b | (uint64_t)n->c << 32);

    if (n->kind != FX_RE_K_MACHINE || p->machines.at[n->a].user != d || s.form != DONE)
        return false;
    *index = d->nodes.at[s.node].lo;
    return true;
}
