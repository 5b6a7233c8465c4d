/* regex_runes.c - classes of characters as byte expressions, in each spelling.
 *
 * A spelling of a block of code points is a row of digits of fixed width: UTF-8 has blocks of
 * 7, 5+6, 4+6+6 and 3+6+6+6 bits, \uXXXX one of 4+4+4+4, a surrogate pair 2+4+4+2+4+4.  A class is
 * built digit by digit from the front; digits after which the same follows become one byte set.
 * That is the smallest automaton, and a class of one range costs a few nodes. */
#include "grammar/regex_int.h"

#include <stdlib.h>

#include "base/text.h"

#define DIGITS_MAX 6

typedef struct digit {
    uint8_t bits;
    char kind;                  /* 'b': byte 'base' + value; 'h': a hexadecimal digit, 'base' + value */
    uint8_t base;
    const char *before;         /* bytes in front of it, or NULL */
} digit;

typedef struct block {
    uint32_t lo, hi;            /* code points it spells */
    uint32_t origin;            /* the code point that is written with all digits 0 */
    int n;
    digit digits[DIGITS_MAX];
} block;

static const block utf8_blocks[] = {
    { 0, 0x7f, 0, 1, { { 7, 'b', 0, NULL } } },
    { 0x80, 0x7ff, 0, 2, { { 5, 'b', 0xc0, NULL }, { 6, 'b', 0x80, NULL } } },
    { 0x800, 0xffff, 0, 3, { { 4, 'b', 0xe0, NULL }, { 6, 'b', 0x80, NULL }, { 6, 'b', 0x80, NULL } } },
    { 0x10000, 0x10ffff, 0, 4,
      { { 3, 'b', 0xf0, NULL }, { 6, 'b', 0x80, NULL }, { 6, 'b', 0x80, NULL }, { 6, 'b', 0x80, NULL } } },
};
static const block escape_blocks[] = {
    { 0, 0xffff, 0, 4, { { 4, 'h', 0, "u" }, { 4, 'h', 0, NULL }, { 4, 'h', 0, NULL }, { 4, 'h', 0, NULL } } },
    { 0x10000, 0x10ffff, 0x10000, 6,
      { { 2, 'h', 8, "uD" }, { 4, 'h', 0, NULL }, { 4, 'h', 0, NULL }, { 2, 'h', 12, "\\uD" }, { 4, 'h', 0, NULL },
        { 4, 'h', 0, NULL } } },
};
static const struct { char rune, letter; } short_escapes[] = {
    { '\b', 'b' }, { '\t', 't' }, { '\n', 'n' }, { '\f', 'f' }, { '\r', 'r' }, { '"', '"' }, { '/', '/' }, { '\\', '\\' },
};

typedef struct ranges {
    const fx_rune_range *at;    /* sorted, apart */
    size_t n;
} ranges;

static bool overlaps(ranges r, uint32_t lo, uint32_t hi)
{
    for (size_t i = 0; i < r.n; i++)
        if (r.at[i].lo <= hi && r.at[i].hi >= lo)
            return true;
    return false;
}

static void digit_bytes(fx_re_set *s, const digit *d, uint32_t value)
{
    if (d->kind == 'b') {
        fx_re_set_add(s, (unsigned char)(d->base + value));
        return;
    }
    fx_re_set_add(s, (unsigned char)"0123456789abcdef"[d->base + value]);
    fx_re_set_add(s, (unsigned char)"0123456789ABCDEF"[d->base + value]);
}

/* Bytes that stand in front of a digit; letters in either case where it is hexadecimal. */
static fx_re before(fx_re_pool *p, const digit *d, fx_re rest)
{
    for (size_t i = d->before ? strlen(d->before) : 0; i-- > 0;) {
        fx_re_set s = { { 0 } };

        fx_re_set_add(&s, (unsigned char)d->before[i]);
        if (d->before[i] == 'D')
            fx_re_set_add(&s, 'd');
        rest = fx_re_cat(p, fx_re_byte_set(p, s.w), rest);
    }
    return rest;
}

/* Ranges that touch [lo, hi], without a copy. */
static ranges clip(ranges r, uint32_t lo, uint32_t hi)
{
    while (r.n && r.at[0].hi < lo)
        r.at++, r.n--;
    while (r.n && r.at[r.n - 1].lo > hi)
        r.n--;
    return r;
}

/* Digits i.. of the block, for the code points from 'first' on whose earlier digits are fixed. */
static fx_re spell_from(fx_re_pool *p, const block *b, int i, uint32_t first, ranges r)
{
    const digit *d = &b->digits[i];
    fx_re kids[128], subs[128];
    fx_re_set sets[128];
    size_t n = 0;
    int below = 0;

    if (i == b->n)
        return overlaps(r, first, first) ? FX_RE_EMPTY : FX_RE_NONE;
    for (int k = i + 1; k < b->n; k++)
        below += b->digits[k].bits;
    fx_re whole = FX_RE_FAIL;           /* what follows a digit all of whose code points are in */

    for (uint32_t v = 0; v < 1u << d->bits; v++) {
        uint32_t lo = first + (v << below), hi = lo + (1u << below) - 1;
        ranges c = lo > b->hi || hi < b->lo ? (ranges){ NULL, 0 } : clip(r, lo, hi);
        bool all = c.n == 1 && c.at[0].lo <= lo && c.at[0].hi >= hi && lo >= b->lo && hi <= b->hi;
        fx_re sub = c.n == 0 ? FX_RE_NONE
                  : all && whole != FX_RE_FAIL ? whole : spell_from(p, b, i + 1, lo, c);
        size_t k = 0;

        if (all)
            whole = sub;
        if (sub == FX_RE_NONE)
            continue;
        while (k < n && subs[k] != sub)
            k++;
        if (k == n) {
            subs[n] = sub;
            memset(&sets[n++], 0, sizeof(sets[0]));
        }
        digit_bytes(&sets[k], d, v);
    }
    for (size_t k = 0; k < n; k++)
        kids[k] = fx_re_cat(p, fx_re_byte_set(p, sets[k].w), subs[k]);
    return before(p, d, fx_re_alt_of(p, kids, n));
}

static fx_re spell_block(fx_re_pool *p, const block *b, ranges r)
{
    r = clip(r, b->lo, b->hi);
    return r.n ? spell_from(p, b, 0, b->origin, r) : FX_RE_NONE;
}

static int by_lo(const void *a, const void *b)
{
    const fx_rune_range *x = a, *y = b;

    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Sorted, joined, inside Unicode; returns how many. */
static size_t tidy(fx_rune_range *r, size_t n)
{
    size_t k = 0, m = 0;

    for (size_t i = 0; i < n; i++)
        if (r[i].lo <= FX_MIN(r[i].hi, 0x10ffff))
            r[k++] = (fx_rune_range){ r[i].lo, FX_MIN(r[i].hi, 0x10ffff) };
    qsort(r, k, sizeof(*r), by_lo);
    for (size_t i = 0; i < k; i++) {
        if (m && r[i].lo <= r[m - 1].hi + 1)
            r[m - 1].hi = FX_MAX(r[m - 1].hi, r[i].hi);
        else
            r[m++] = r[i];
    }
    return m;
}

/* Takes [lo, hi] out of sorted ranges; 'r' has room for one more. */
static size_t take_out(fx_rune_range *r, size_t n, uint32_t lo, uint32_t hi)
{
    for (size_t i = 0; i < n; i++) {
        if (r[i].hi < lo || r[i].lo > hi)
            continue;
        if (r[i].lo < lo && r[i].hi > hi) {
            memmove(r + i + 2, r + i + 1, (n - i - 1) * sizeof(*r));
            r[i + 1] = (fx_rune_range){ hi + 1, r[i].hi };
            r[i].hi = lo - 1;
            return n + 1;
        }
        if (r[i].lo < lo) {
            r[i].hi = lo - 1;
        } else if (r[i].hi > hi) {
            r[i].lo = hi + 1;
        } else {
            memmove(r + i, r + i + 1, (n - i - 1) * sizeof(*r));
            i--;
            n--;
        }
    }
    return n;
}

/* Those of the classes that can't come as they are. They are 34 characters. */
static ranges needy(ranges r, fx_rune_range out[34])
{
    static const fx_rune_range all[3] = { { 0, 0x1f }, { '"', '"' }, { '\\', '\\' } };
    size_t n = 0;

    for (size_t i = 0; i < FX_COUNT(all); i++)
        for (size_t k = 0; k < r.n; k++)
            if (r.at[k].lo <= all[i].hi && r.at[k].hi >= all[i].lo)
                out[n++] = (fx_rune_range){ FX_MAX(r.at[k].lo, all[i].lo), FX_MIN(r.at[k].hi, all[i].hi) };
    return (ranges){ out, n };
}

static fx_re escapes(fx_re_pool *p, ranges r)
{
    fx_rune_range few[34];
    fx_re_set letters = { { 0 } }, slash = { { 0 } };
    fx_re kids[3];

    if (p->plain)
        r = needy(r, few);
    for (size_t i = 0; i < FX_COUNT(short_escapes); i++)
        if (overlaps(r, (uint32_t)short_escapes[i].rune, (uint32_t)short_escapes[i].rune))
            fx_re_set_add(&letters, (unsigned char)short_escapes[i].letter);
    fx_re_set_add(&slash, '\\');
    kids[0] = fx_re_byte_set(p, letters.w);
    for (size_t i = 0; i < FX_COUNT(escape_blocks); i++)
        kids[1 + i] = spell_block(p, &escape_blocks[i], r);
    return fx_re_cat(p, fx_re_byte_set(p, slash.w), fx_re_alt_of(p, kids, 3));
}

static fx_re spell(fx_re_pool *p, fx_spell s, fx_rune_range *r, size_t n)
{
    fx_re kids[FX_COUNT(utf8_blocks) + 1], escaped = FX_RE_NONE;

    if (s == FX_SPELL_JSON) {               /* 'r' has room for two more: each cut adds at most one */
        escaped = escapes(p, (ranges){ r, n });
        n = take_out(r, n, 0, 0x1f);
        n = take_out(r, n, '"', '"');
        n = take_out(r, n, '\\', '\\');
    }
    for (size_t i = 0; i < FX_COUNT(utf8_blocks); i++)
        kids[i] = spell_block(p, &utf8_blocks[i], (ranges){ r, n });
    kids[FX_COUNT(utf8_blocks)] = escaped;
    return fx_re_alt_of(p, kids, FX_COUNT(kids));
}

fx_re fx_re_runes(fx_re_pool *p, fx_spell s, const fx_rune_range *r, size_t n)
{
    size_t room = n + 5;
    fx_rune_range few[16], *own = room <= FX_COUNT(few) ? few : fx_mem_array(p->mem, room, sizeof(*own));
    fx_re out;

    if (!own || p->failed) {
        p->failed = true;
        return FX_RE_FAIL;
    }
    if (n)
        memcpy(own, r, n * sizeof(*own));
    n = tidy(own, n);
    n = take_out(own, n, 0xd800, 0xdfff);
    out = spell(p, s, own, n);
    if (own != few)
        fx_mem_free(p->mem, own, room * sizeof(*own));
    return out;
}

static fx_re one_rune(fx_re_pool *p, fx_spell s, uint32_t rune)
{
    fx_rune_range r = { rune, rune };
    fx_re x;

    if (rune < 128 && p->spelled[s][rune])
        return p->spelled[s][rune];
    x = fx_re_runes(p, s, &r, 1);
    if (rune < 128 && x != FX_RE_FAIL)
        p->spelled[s][rune] = x;
    return x;
}

/* The last character of s, whose bytes are well formed; s loses it. */
static uint32_t last_rune(fx_str *s)
{
    size_t n = s->n - 1, i;

    while (n > 0 && ((unsigned char)s->p[n] & 0xc0) == 0x80)
        n--;
    i = n;
    uint32_t rune = fx_utf8_next(*s, &i);

    s->n = n;
    return rune;
}

fx_re fx_re_text(fx_re_pool *p, fx_spell s, fx_str utf8)
{
    fx_re r = FX_RE_EMPTY;

    if (!fx_utf8_valid(utf8))
        return FX_RE_NONE;
    while (utf8.n && r != FX_RE_FAIL) {
        uint32_t rune = last_rune(&utf8);

        r = fx_re_cat(p, one_rune(p, s, rune), r);
    }
    return r;
}

fx_re fx_re_any_text(fx_re_pool *p, fx_spell s)
{
    static const fx_rune_range all = { 0, 0x10ffff };

    if (!p->any_rune[s]) {
        fx_re x = fx_re_runes(p, s, &all, 1);

        if (x == FX_RE_FAIL)
            return x;
        p->any_rune[s] = x;
    }
    return fx_re_repeat(p, p->any_rune[s], 0, FX_RE_INF);
}
