/* added.c - matching added tokens: a sorted list, narrowed byte by byte. */
#include "text/added.h"

#include <stdlib.h>

#include "base/text.h"
#include "text/runes.h"

static int by_content(const void *a, const void *b)
{
    const fx_added *x = a, *y = b;
    int c = fx_str_cmp(x->content, y->content);

    return c ? c : (x->id > y->id) - (x->id < y->id);
}

void fx_added_set_init(fx_added_set *s, fx_added *at, size_t n)
{
    size_t kept = 0;

    *s = (fx_added_set){ .at = at };
    if (n)
        qsort(at, n, sizeof(*at), by_content);
    for (size_t i = 0; i < n; i++) {
        if (!at[i].content.n)
            continue;
        if (kept && fx_str_eq(at[kept - 1].content, at[i].content))
            kept--;
        at[kept++] = at[i];
    }
    s->n = kept;
    for (size_t i = 0, c = 0; c < 257; c++) {
        while (i < kept && (unsigned char)at[i].content.p[0] < c)
            i++;
        s->first[c] = (uint32_t)i;
    }
}

static bool overlaps(const fx_data *d, size_t begin, size_t end)
{
    size_t low = 0, high = d->n_spans;

    if (d->marks)
        return memchr(d->marks + begin, 1, end - begin) != NULL;
    while (low < high) {                        /* the first span that ends after 'begin' */
        size_t mid = low + (high - low) / 2;

        if (d->spans[mid].end <= begin)
            low = mid + 1;
        else
            high = mid;
    }
    return low < d->n_spans && d->spans[low].begin < end && d->spans[low].end > d->spans[low].begin;
}

static bool word_before(fx_str text, size_t at)
{
    size_t i = at;

    if (at == 0)
        return false;
    do
        i--;
    while (i > 0 && ((unsigned char)text.p[i] & 0xc0) == 0x80);
    return fx_rune_is_word(fx_utf8_next(text, &i));
}

static bool word_after(fx_str text, size_t at)
{
    return at < text.n && fx_rune_is_word(fx_utf8_next(text, &at));
}

static bool usable(const fx_added *a, fx_str text, const fx_data *data, bool specials, size_t begin)
{
    size_t end = begin + a->content.n;

    if (a->special && !specials)
        return false;
    if (a->control && overlaps(data, begin, end))
        return false;
    return !a->single_word || (!word_before(text, begin) && !word_after(text, end));
}

/* The longest usable token that begins at 'begin'. */
static const fx_added *longest_at(const fx_added_set *s, fx_str text, const fx_data *data, bool specials, size_t begin)
{
    unsigned char c = (unsigned char)text.p[begin];
    size_t low = s->first[c], high = s->first[c + 1];
    const fx_added *best = NULL;

    for (size_t depth = 1; low < high; depth++) {
        size_t a, b;

        if (s->at[low].content.n == depth) {    /* sorts before all that it begins */
            if (usable(&s->at[low], text, data, specials, begin))
                best = &s->at[low];
            low++;
        }
        if (begin + depth >= text.n)
            break;
        c = (unsigned char)text.p[begin + depth];
        for (a = low, b = high; a < b;) {       /* low: the first whose byte isn't below c */
            size_t mid = a + (b - a) / 2;

            if ((unsigned char)s->at[mid].content.p[depth] < c)
                a = mid + 1;
            else
                b = mid;
        }
        low = a;
        for (b = high; a < b;) {                /* high: the first whose byte is above c */
            size_t mid = a + (b - a) / 2;

            if ((unsigned char)s->at[mid].content.p[depth] <= c)
                a = mid + 1;
            else
                b = mid;
        }
        high = a;
    }
    return best;
}

static size_t blanks_before(fx_str text, size_t at, size_t floor)
{
    while (at > floor) {
        size_t i = at - 1, next;

        while (i > floor && ((unsigned char)text.p[i] & 0xc0) == 0x80)
            i--;
        next = i;
        if (!fx_rune_is_space(fx_utf8_next(text, &next)))
            break;
        at = i;
    }
    return at;
}

static size_t blanks_after(fx_str text, size_t at)
{
    while (at < text.n) {
        size_t next = at;

        if (!fx_rune_is_space(fx_utf8_next(text, &next)))
            break;
        at = next;
    }
    return at;
}

bool fx_added_next(const fx_added_set *s, fx_str text, const fx_data *data, bool specials, size_t from, size_t taken,
                   fx_added_match *m)
{
    if (!s->n)
        return false;
    for (size_t i = from; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        const fx_added *a;

        if (s->first[c] == s->first[c + 1])
            continue;
        a = longest_at(s, text, data, specials, i);
        if (!a)
            continue;
        m->token = a;
        m->begin = a->lstrip ? blanks_before(text, i, FX_MIN(taken, i)) : i;
        m->end = m->next = i + a->content.n;
        if (a->rstrip)
            m->end = blanks_after(text, m->end);
        return true;
    }
    return false;
}

bool fx_added_looks_control(fx_str s)
{
    return s.n > 4 && ((fx_str_starts(s, FX_STR("<|")) && fx_str_ends(s, FX_STR("|>"))) ||
                       (fx_str_starts(s, FX_STR("<\xef\xbd\x9c")) && fx_str_ends(s, FX_STR("\xef\xbd\x9c>"))));
}
