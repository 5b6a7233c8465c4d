/* regex_ecma_parse.c - reads an ECMA-262 pattern (flag u) into a tree.
 *
 * More is read than flag u allows where the meaning is plain and other readers of schemas agree:
 * escapes of any ASCII punctuation, a lone ']' or brace as itself. */
#include <ctype.h>
#include <stdlib.h>

#include "base/text.h"
#include "grammar/regex_ecma.h"

#define DEPTH_MAX 100           /* of nested groups */
#define ATOMS_MAX 100000

typedef FX_VEC(fx_ecma_node *) node_list;

typedef struct reader {
    fx_str s;
    size_t i;
    fx_arena *arena;
    const fx_mem *mem;
    fx_error *err;
    int depth;
    size_t atoms;
    bool has_edge;
} reader;

static fx_status bad(const reader *r, fx_status st, size_t at, const char *what)
{
    return fx_fail(r->err, st, "pattern, offset %zu: %s", at, what);
}

static fx_status nomem(const reader *r)
{
    if (r->atoms > ATOMS_MAX)
        return fx_fail(r->err, FORNAX_EUNSUP, "pattern: more than %d parts", ATOMS_MAX);
    return fx_nomem(r->err, "a pattern");
}

static int peek(const reader *r, size_t ahead)
{
    return r->s.n - r->i > ahead ? (unsigned char)r->s.p[r->i + ahead] : -1;
}

static bool take(reader *r, const char *z)
{
    if (!fx_str_starts(fx_str_n(r->s.p + r->i, r->s.n - r->i), fx_str_of(z)))
        return false;
    r->i += strlen(z);
    return true;
}

static fx_ecma_node *new_node(reader *r, fx_ecma_kind kind, size_t at)
{
    fx_ecma_node *n = r->atoms++ < ATOMS_MAX ? FX_ARENA_NEW(r->arena, fx_ecma_node) : NULL;

    if (n) {
        n->kind = kind;
        n->offset = at;
    }
    return n;
}

/* ---- Classes and escapes ------------------------------------------------------------- */

static const fx_rune_range digits[] = { { '0', '9' } };
static const fx_rune_range words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
static const fx_rune_range blanks[] = {
    { 9, 13 }, { 32, 32 }, { 0xa0, 0xa0 }, { 0x1680, 0x1680 }, { 0x2000, 0x200a }, { 0x2028, 0x2029 },
    { 0x202f, 0x202f }, { 0x205f, 0x205f }, { 0x3000, 0x3000 }, { 0xfeff, 0xfeff },
};
static const fx_rune_range line_ends[] = { { '\n', '\n' }, { '\r', '\r' }, { 0x2028, 0x2029 } };
static const struct { char letter; const fx_rune_range *at; size_t n; } shorthands[] = {
    { 'd', digits, FX_COUNT(digits) }, { 'w', words, FX_COUNT(words) }, { 's', blanks, FX_COUNT(blanks) },
};
static const struct { char letter; uint32_t rune; } controls[] = {
    { 'f', '\f' }, { 'n', '\n' }, { 'r', '\r' }, { 't', '\t' }, { 'v', '\v' },
};

static bool add_range(reader *r, fx_rune_ranges *c, uint32_t lo, uint32_t hi)
{
    return FX_VEC_PUSH(c, r->mem, ((fx_rune_range){ lo, hi }));
}

static int by_lo(const void *a, const void *b)
{
    const fx_rune_range *x = a, *y = b;

    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Everything that c's ranges from 'first' on don't hold, in their place. */
static bool complement(reader *r, fx_rune_ranges *c, size_t first)
{
    size_t n = c->n - first;
    uint32_t next = 0;

    if (n)
        qsort(c->at + first, n, sizeof(*c->at), by_lo);
    if (!FX_VEC_RESERVE(c, r->mem, n + 1))
        return false;
    fx_rune_range *at = c->at + first, *out = at + n;

    for (size_t i = 0; i < n; i++) {
        if (at[i].lo > next)
            *out++ = (fx_rune_range){ next, at[i].lo - 1 };
        next = FX_MAX(next, at[i].hi + 1);
    }
    if (next <= 0x10ffff)
        *out++ = (fx_rune_range){ next, 0x10ffff };
    c->n = first + (size_t)(out - (at + n));
    memmove(at, at + n, (size_t)(out - (at + n)) * sizeof(*at));
    return true;
}

static bool hex_digits(const reader *r, size_t at, size_t n, uint32_t *out)
{
    *out = 0;
    for (size_t k = 0; k < n; k++) {
        int c = at + k < r->s.n ? (unsigned char)r->s.p[at + k] : -1;

        if (c < 0 || !isxdigit(c))
            return false;
        *out = *out * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return true;
}

/* \uXXXX, \u{X...}, \xXX at the cursor, which stands on the u or x. */
static fx_status numbered(reader *r, uint32_t *out)
{
    size_t at = r->i, end;
    uint32_t low;

    if (peek(r, 0) == 'x') {
        if (!hex_digits(r, at + 1, 2, out))
            return bad(r, FORNAX_EFORMAT, at, "expected two hexadecimal digits after \\x");
        r->i = at + 3;
        return FORNAX_OK;
    }
    if (peek(r, 1) == '{') {
        end = fx_str_find(r->s, FX_STR("}"), at);
        if (end == FX_STR_NONE || end - at - 2 < 1 || end - at - 2 > 8 || !hex_digits(r, at + 2, end - at - 2, out) ||
            *out > 0x10ffff)
            return bad(r, FORNAX_EFORMAT, at, "expected a code point in \\u{...}");
        r->i = end + 1;
        return FORNAX_OK;
    }
    if (!hex_digits(r, at + 1, 4, out))
        return bad(r, FORNAX_EFORMAT, at, "expected four hexadecimal digits after \\u");
    r->i = at + 5;
    if (*out >= 0xd800 && *out < 0xdc00 && peek(r, 0) == '\\' && peek(r, 1) == 'u' && hex_digits(r, r->i + 2, 4, &low) &&
        low >= 0xdc00 && low < 0xe000) {
        *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
        r->i += 6;
    }
    return FORNAX_OK;
}

static fx_status property(reader *r, fx_rune_ranges *c)
{
    size_t at = r->i, end = fx_str_find(r->s, FX_STR("}"), at), first = c->n;
    bool negated = peek(r, 0) == 'P';
    fx_error why = { 0 };
    fx_status st;

    if (peek(r, 1) != '{' || end == FX_STR_NONE)
        return bad(r, FORNAX_EFORMAT, at, "expected \\p{name}");
    st = fx_ecma_property(c, r->mem, fx_str_n(r->s.p + at + 2, end - at - 2), &why);
    if (st != FORNAX_OK)
        return bad(r, st, at, why.text);
    r->i = end + 1;
    return !negated || complement(r, c, first) ? FORNAX_OK : nomem(r);
}

/* After a backslash: one character (*single), or a class appended to c. */
static fx_status escape(reader *r, bool in_class, fx_rune_ranges *c, bool *single, uint32_t *rune)
{
    size_t at = r->i - 1, first = c->n;
    int x = peek(r, 0);

    *single = true;
    if (x < 0)
        return bad(r, FORNAX_EFORMAT, at, "a backslash at the end");
    if (x == 'x' || x == 'u')
        return numbered(r, rune);
    if (x == 'p' || x == 'P') {
        *single = false;
        return property(r, c);
    }
    for (size_t k = 0; k < FX_COUNT(controls); k++)
        if (x == controls[k].letter) {
            r->i++;
            *rune = controls[k].rune;
            return FORNAX_OK;
        }
    for (size_t k = 0; k < FX_COUNT(shorthands); k++)
        if ((x | 32) == shorthands[k].letter) {
            r->i++;
            *single = false;
            for (size_t i = 0; i < shorthands[k].n; i++)
                if (!FX_VEC_PUSH(c, r->mem, shorthands[k].at[i]))
                    return nomem(r);
            return x != shorthands[k].letter - 32 || complement(r, c, first) ? FORNAX_OK : nomem(r);
        }
    if (x == 'c' && isalpha(peek(r, 1))) {
        *rune = (uint32_t)peek(r, 1) % 32;
        r->i += 2;
        return FORNAX_OK;
    }
    if (x == '0' && !isdigit(peek(r, 1))) {
        *rune = 0;
        r->i++;
        return FORNAX_OK;
    }
    if (in_class && x == 'b') {
        *rune = '\b';
        r->i++;
        return FORNAX_OK;
    }
    if (isdigit(x) || x == 'k')
        return bad(r, FORNAX_EUNSUP, at, "backreferences can't be expressed");
    if (!ispunct(x) && x != ' ')
        return bad(r, FORNAX_EFORMAT, at, "no such escape");
    *rune = (uint32_t)x;
    r->i++;
    return FORNAX_OK;
}

static fx_status class_atom(reader *r, fx_rune_ranges *c, bool *single, uint32_t *rune)
{
    if (take(r, "\\"))
        return escape(r, true, c, single, rune);
    *single = true;
    *rune = fx_utf8_next(r->s, &r->i);
    return FORNAX_OK;
}

/* After '['. */
static fx_status char_class(reader *r, fx_rune_ranges *c)
{
    size_t at = r->i - 1;
    bool negated = take(r, "^");

    while (!take(r, "]")) {
        uint32_t lo = 0, hi = 0;
        bool single, range_end;
        size_t here = r->i;

        if (peek(r, 0) < 0)
            return bad(r, FORNAX_EFORMAT, at, "a character class without its ]");
        FX_TRY(class_atom(r, c, &single, &lo));
        if (!single)
            continue;
        hi = lo;
        if (peek(r, 0) == '-' && peek(r, 1) >= 0 && peek(r, 1) != ']') {
            r->i++;
            FX_TRY(class_atom(r, c, &range_end, &hi));
            if (!range_end) {                   /* [a-\d]: the dash is itself */
                hi = lo;
                if (!add_range(r, c, '-', '-'))
                    return nomem(r);
            }
        }
        if (lo > hi)
            return bad(r, FORNAX_EFORMAT, here, "a range of characters that is out of order");
        if (!add_range(r, c, lo, hi))
            return nomem(r);
    }
    return !negated || complement(r, c, 0) ? FORNAX_OK : nomem(r);
}

static fx_status class_node(reader *r, fx_ecma_node **out, size_t at, const fx_rune_range *ranges, size_t n)
{
    fx_ecma_node *x = new_node(r, FX_ECMA_CLASS, at);

    if (!x || !(x->ranges = FX_ARENA_NEWN(r->arena, fx_rune_range, n ? n : 1)))
        return nomem(r);
    if (n)
        memcpy(x->ranges, ranges, n * sizeof(*ranges));
    x->n = n;
    *out = x;
    return FORNAX_OK;
}

static fx_status one_char(reader *r, fx_ecma_node **out, size_t at, uint32_t rune)
{
    fx_rune_range one = { rune, rune };

    return class_node(r, out, at, &one, 1);
}

/* ---- Atoms, quantifiers, alternatives ------------------------------------------------- */

static fx_status alternatives(reader *r, fx_ecma_node **out);

static fx_status group(reader *r, fx_ecma_node **out, size_t at)
{
    static const struct { const char *z, *what; } refused[] = {
        { "?<=", "lookbehind (?<= can't be expressed" }, { "?<!", "lookbehind (?<! can't be expressed" },
        { "?>", "atomic groups can't be expressed" }, { "?P", "(?P isn't ECMA-262" }, { "?#", "(?# isn't ECMA-262" },
    };
    fx_ecma_node *look = NULL, *body;

    for (size_t i = 0; i < FX_COUNT(refused); i++)
        if (take(r, refused[i].z))
            return bad(r, FORNAX_EUNSUP, at, refused[i].what);
    if (peek(r, 0) == '?' && (peek(r, 1) == '=' || peek(r, 1) == '!')) {
        if (!(look = new_node(r, FX_ECMA_LOOK, at)) || !(look->kids = FX_ARENA_NEWN(r->arena, fx_ecma_node *, 1)))
            return nomem(r);
        look->negated = peek(r, 1) == '!';
        look->looks = true;
        r->i += 2;
    } else if (take(r, "?<")) {
        size_t end = fx_str_find(r->s, FX_STR(">"), r->i);

        if (end == FX_STR_NONE || end == r->i)
            return bad(r, FORNAX_EFORMAT, at, "a group's name without its >");
        r->i = end + 1;
    } else if (!take(r, "?:") && peek(r, 0) == '?') {
        return bad(r, FORNAX_EUNSUP, at, "no such kind of group in ECMA-262");
    }
    if (++r->depth > DEPTH_MAX)
        return bad(r, FORNAX_EFORMAT, at, "groups nested too deeply");
    FX_TRY(alternatives(r, &body));
    r->depth--;
    if (!take(r, ")"))
        return bad(r, FORNAX_EFORMAT, at, "a group without its )");
    if (look) {
        look->kids[0] = body;
        look->n = 1;
        body = look;
    }
    *out = body;
    return FORNAX_OK;
}

static fx_status simple_atom(reader *r, fx_ecma_node **out, fx_ecma_kind kind, size_t at)
{
    *out = new_node(r, kind, at);
    return *out ? FORNAX_OK : nomem(r);
}

static fx_status set_atom(reader *r, fx_ecma_node **out, size_t at)
{
    fx_rune_ranges c = { 0 };
    bool single = false;
    uint32_t rune = 0;
    fx_status st = FORNAX_OK;

    if (take(r, "[")) {
        st = char_class(r, &c);
    } else if (take(r, ".")) {
        for (size_t i = 0; i < FX_COUNT(line_ends) && st == FORNAX_OK; i++)
            st = FX_VEC_PUSH(&c, r->mem, line_ends[i]) ? FORNAX_OK : nomem(r);
        if (st == FORNAX_OK && !complement(r, &c, 0))
            st = nomem(r);
    } else {
        r->i++;                                 /* the backslash */
        st = escape(r, false, &c, &single, &rune);
    }
    if (st == FORNAX_OK)
        st = single ? one_char(r, out, at, rune) : class_node(r, out, at, c.at, c.n);
    FX_VEC_FREE(&c, r->mem);
    return st;
}

static fx_status atom(reader *r, fx_ecma_node **out)
{
    size_t at = r->i;
    int x = peek(r, 0);

    if (take(r, "^"))
        return simple_atom(r, out, FX_ECMA_START, at);
    if (take(r, "$"))
        return simple_atom(r, out, FX_ECMA_END, at);
    if (take(r, "("))
        return group(r, out, at);
    if (take(r, "\\b") || take(r, "\\B")) {
        FX_TRY(simple_atom(r, out, FX_ECMA_EDGE, at));
        (*out)->negated = r->s.p[at + 1] == 'B';
        (*out)->looks = r->has_edge = true;
        return FORNAX_OK;
    }
    if (x == '*' || x == '+' || x == '?')
        return bad(r, FORNAX_EFORMAT, at, "a quantifier with nothing before it");
    if (x == '[' || x == '.' || x == '\\')
        return set_atom(r, out, at);
    return one_char(r, out, at, fx_utf8_next(r->s, &r->i));
}

static bool number(const reader *r, size_t *at, uint32_t *out)
{
    uint64_t x = 0;
    size_t from = *at;

    while (*at < r->s.n && isdigit((unsigned char)r->s.p[*at]) && x < FX_RE_INF)
        x = x * 10 + (uint64_t)(r->s.p[(*at)++] - '0');
    *out = (uint32_t)FX_MIN(x, FX_RE_INF);
    return *at > from && x < FX_RE_INF;
}

/* {m}, {m,}, {m,n} at the cursor; false: the brace is a character. */
static bool braces(reader *r, uint32_t *min, uint32_t *max)
{
    size_t at = r->i + 1;

    if (peek(r, 0) != '{' || !number(r, &at, min))
        return false;
    *max = *min;
    if (at < r->s.n && r->s.p[at] == ',') {
        at++;
        if (at < r->s.n && r->s.p[at] == '}')
            *max = FX_RE_INF;
        else if (!number(r, &at, max))
            return false;
    }
    if (at >= r->s.n || r->s.p[at] != '}')
        return false;
    r->i = at + 1;
    return true;
}

static fx_status quantified(reader *r, fx_ecma_node **out)
{
    fx_ecma_node *x, *rep;
    uint32_t min, max;
    size_t at;

    FX_TRY(atom(r, &x));
    at = r->i;
    if (take(r, "*"))
        min = 0, max = FX_RE_INF;
    else if (take(r, "+"))
        min = 1, max = FX_RE_INF;
    else if (take(r, "?"))
        min = 0, max = 1;
    else if (!braces(r, &min, &max)) {
        *out = x;
        return FORNAX_OK;
    }
    take(r, "?");                               /* lazy: the same language */
    if (min > max)
        return bad(r, FORNAX_EFORMAT, at, "a quantifier whose bounds are out of order");
    if (x->kind == FX_ECMA_START || x->kind == FX_ECMA_END || x->kind == FX_ECMA_EDGE || x->kind == FX_ECMA_LOOK)
        return bad(r, FORNAX_EFORMAT, at, "a quantifier after an assertion");
    rep = new_node(r, FX_ECMA_REPEAT, x->offset);
    if (!rep || !(rep->kids = FX_ARENA_NEWN(r->arena, fx_ecma_node *, 1)))
        return nomem(r);
    rep->kids[0] = x;
    rep->n = 1;
    rep->min = min;
    rep->max = max;
    rep->looks = x->looks;
    *out = rep;
    if (peek(r, 0) == '+')
        return bad(r, FORNAX_EUNSUP, r->i, "possessive quantifiers aren't ECMA-262");
    return FORNAX_OK;
}

/* A node of 'kind' over the list, which is emptied; one kid stands for itself. */
static fx_status wrap(reader *r, fx_ecma_node **out, fx_ecma_kind kind, node_list *list, size_t at)
{
    fx_ecma_node *x = list->n == 1 ? list->at[0] : new_node(r, kind, at);

    if (!x)
        return nomem(r);
    if (list->n != 1) {
        if (!(x->kids = FX_ARENA_NEWN(r->arena, fx_ecma_node *, list->n ? list->n : 1)))
            return nomem(r);
        x->n = list->n;
        for (size_t i = 0; i < list->n; i++) {
            x->kids[i] = list->at[i];
            x->looks |= list->at[i]->looks;
        }
    }
    *out = x;
    return FORNAX_OK;
}

static fx_status sequence(reader *r, fx_ecma_node **out)
{
    node_list list = { 0 };
    size_t at = r->i;
    fx_status st = FORNAX_OK;

    while (st == FORNAX_OK && peek(r, 0) >= 0 && peek(r, 0) != '|' && peek(r, 0) != ')') {
        fx_ecma_node *x = NULL;

        st = quantified(r, &x);
        if (st == FORNAX_OK && !FX_VEC_PUSH(&list, r->mem, x))
            st = nomem(r);
    }
    if (st == FORNAX_OK)
        st = wrap(r, out, FX_ECMA_SEQ, &list, at);
    FX_VEC_FREE(&list, r->mem);
    return st;
}

static fx_status alternatives(reader *r, fx_ecma_node **out)
{
    node_list list = { 0 };
    size_t at = r->i;
    fx_status st;

    do {
        fx_ecma_node *x = NULL;

        st = sequence(r, &x);
        if (st == FORNAX_OK && !FX_VEC_PUSH(&list, r->mem, x))
            st = nomem(r);
    } while (st == FORNAX_OK && take(r, "|"));
    if (st == FORNAX_OK)
        st = wrap(r, out, FX_ECMA_ALT, &list, at);
    FX_VEC_FREE(&list, r->mem);
    return st;
}

fx_status fx_ecma_parse(fx_ecma_node **out, fx_arena *arena, fx_str pattern, bool *has_edge, fx_error *err)
{
    reader r = { .s = pattern, .arena = arena, .mem = arena->mem, .err = err };

    if (!fx_utf8_valid(pattern))
        return bad(&r, FORNAX_EFORMAT, 0, "expected valid UTF-8");
    FX_TRY(alternatives(&r, out));
    if (r.i < pattern.n)
        return bad(&r, FORNAX_EFORMAT, r.i, "a ) without its group");
    *has_edge = r.has_edge;
    return FORNAX_OK;
}
