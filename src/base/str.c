/* str.c - strings, buffers, vectors, the string map, hashes.
 *
 * The map is open addressing with linear probing; a slot keeps the hash, so a
 * probe compares bytes only where the 64 bits agree. The table is at most three
 * quarters full. The seed is an address of this process: whoever writes keys into
 * a file can't know which of them will collide. */
#include "base/str.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <xxhash.h>

#include "base/text.h"

bool fx_str_starts(fx_str s, fx_str prefix)
{
    return s.n >= prefix.n && fx_str_eq(fx_str_n(s.p, prefix.n), prefix);
}

fx_str fx_str_trim(fx_str s)
{
    while (s.n > 0 && fx_blank(s.p[0]))
        s = fx_str_n(s.p + 1, s.n - 1);
    while (s.n > 0 && fx_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool fx_str_ends(fx_str s, fx_str suffix)
{
    return s.n >= suffix.n && (suffix.n == 0 || memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0);
}

int fx_str_cmp(fx_str a, fx_str b)
{
    size_t n = FX_MIN(a.n, b.n);
    int c = n ? memcmp(a.p, b.p, n) : 0;

    if (c)
        return c;
    return a.n < b.n ? -1 : a.n > b.n;
}

size_t fx_str_find(fx_str hay, fx_str needle, size_t from)
{
    const char *at;

    if (from > hay.n || needle.n > hay.n - from)
        return FX_STR_NONE;
    if (needle.n == 0)
        return from;
    at = memmem(hay.p + from, hay.n - from, needle.p, needle.n);
    return at ? (size_t)(at - hay.p) : FX_STR_NONE;
}

void fx_buf_init(fx_buf *b, const fx_mem *mem)
{
    *b = (fx_buf){ .mem = mem };
}

void fx_buf_done(fx_buf *b)
{
    fx_mem_free(b->mem, b->p, b->cap);
    *b = (fx_buf){ .mem = b->mem };
}

void fx_buf_clear(fx_buf *b)
{
    b->n = 0;
    b->failed = false;
    if (b->p)
        b->p[0] = 0;
}

bool fx_buf_reserve(fx_buf *b, size_t more)
{
    size_t cap;
    char *p;

    if (b->failed)
        return false;
    if (b->p && more < b->cap - b->n)
        return true;
    if (more > PTRDIFF_MAX - 64 - b->n) {
        b->failed = true;
        return false;
    }
    cap = FX_MAX(b->n + more + 1, FX_MAX(b->cap + b->cap / 2, 32));
    p = fx_mem_resize(b->mem, b->p, b->cap, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    b->p[b->n] = 0;
    return true;
}

void fx_buf_add(fx_buf *b, const void *p, size_t n)
{
    if (!fx_buf_reserve(b, n))
        return;
    if (n)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
}

void fx_buf_putc(fx_buf *b, char c)
{
    fx_buf_add(b, &c, 1);
}

void fx_buf_puts(fx_buf *b, const char *z)
{
    fx_buf_add(b, z, strlen(z));
}

void fx_buf_str(fx_buf *b, fx_str s)
{
    fx_buf_add(b, s.p, s.n);
}

void fx_buf_printf(fx_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    size_t room;
    int n;

    if (!fx_buf_reserve(b, 64))
        return;
    va_start(ap, fmt);
    va_copy(again, ap);
    room = b->cap - b->n;
    n = fx_vformat(b->p + b->n, room, fmt, ap);
    if (n >= 0 && (size_t)n >= room && fx_buf_reserve(b, (size_t)n))
        fx_vformat(b->p + b->n, (size_t)n + 1, fmt, again);
    if (n < 0)
        b->failed = true;
    if (!b->failed)
        b->n += (size_t)n;
    b->p[b->n] = 0;
    va_end(again);
    va_end(ap);
}

/* 15 digits read back to any decimal that short, so for normal numbers %.15g
 * (which drops trailing zeros) is the shortest if it reads back at all; only
 * subnormals have fewer significant digits to try. */
void fx_buf_double(fx_buf *b, double x)
{
    char text[40];
    double back;
    int n = 0;

    if (isnan(x)) {
        fx_buf_puts(b, "nan");
        return;
    }
    if (isinf(x)) {
        fx_buf_puts(b, x < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = isnormal(x) || x == 0 ? 15 : 1; digits <= 17; digits++) {
        n = fx_format(text, sizeof(text), "%.*g", digits, x);
        if (n > 0 && fx_parse_double(fx_str_n(text, (size_t)n), &back) && back == x)
            break;
    }
    fx_buf_add(b, text, (size_t)FX_MAX(n, 0));
}

void fx_buf_float(fx_buf *b, float x)
{
    char text[40];
    double back;
    int n = 0;

    if (!isfinite(x)) {
        fx_buf_double(b, (double)x);
        return;
    }
    for (int digits = isnormal(x) || x == 0 ? 6 : 1; digits <= 9; digits++) {
        n = fx_format(text, sizeof(text), "%.*g", digits, (double)x);
        if (n > 0 && fx_parse_double(fx_str_n(text, (size_t)n), &back) && (float)back == x)
            break;
    }
    fx_buf_add(b, text, (size_t)FX_MAX(n, 0));
}

static void json_escape(fx_buf *b, unsigned char c)
{
    static const char names[] = "btn?fr";       /* 8..13 */

    if (c == '"' || c == '\\')
        fx_buf_printf(b, "\\%c", c);
    else if (c >= 8 && c <= 13 && c != 11)
        fx_buf_printf(b, "\\%c", names[c - 8]);
    else
        fx_buf_printf(b, "\\u%04x", c);
}

void fx_buf_json_string(fx_buf *b, fx_str s)
{
    fx_buf_putc(b, '"');
    fx_buf_json(b, s);
    fx_buf_putc(b, '"');
}

void fx_buf_json(fx_buf *b, fx_str s)
{
    size_t i = 0, plain = 0;                    /* s[plain..i) is copied as it is */

    while (i < s.n) {
        unsigned char c = (unsigned char)s.p[i];
        size_t at = i;

        if (c < 0x80) {
            i++;
            if (c >= 0x20 && c != '"' && c != '\\')
                continue;
            fx_buf_add(b, s.p + plain, at - plain);
            json_escape(b, c);
            plain = i;
        } else if (fx_utf8_next(s, &i) == FX_BAD_RUNE) {
            fx_buf_add(b, s.p + plain, at - plain);
            fx_buf_puts(b, "\xEF\xBF\xBD");
            plain = i;
        }
    }
    if (i > plain)
        fx_buf_add(b, s.p + plain, i - plain);
}

bool fx_vec_grow(const fx_mem *mem, void **at, size_t *cap, size_t each, size_t more)
{
    size_t limit = PTRDIFF_MAX / each, want;
    void *p;

    if (more > limit || *cap > limit - more)
        return false;
    want = FX_MAX(*cap + more, FX_MIN(*cap + *cap / 2, limit));
    want = FX_MAX(want, FX_MIN((size_t)8, limit));
    p = fx_mem_resize(mem, *at, *cap * each, want * each);
    if (!p)
        return false;
    *at = p;
    *cap = want;
    return true;
}

struct fx_map_slot {
    uint64_t hash;              /* 0: free; a hash of 0 is stored as 1 */
    fx_str key;
    uint64_t value;
};

static uint64_t map_hash(fx_str key)
{
    static const char address = 0;
    uint64_t h = fx_hash64(key.p, key.n, (uint64_t)(uintptr_t)&address);

    return h ? h : 1;
}

void fx_map_init(fx_map *m, const fx_mem *mem)
{
    *m = (fx_map){ .mem = mem };
}

void fx_map_done(fx_map *m)
{
    fx_mem_free(m->mem, m->slots, m->cap * sizeof(*m->slots));
    *m = (fx_map){ .mem = m->mem };
}

/* The slot that holds the key, or the free one where it would go. */
static struct fx_map_slot *map_slot(struct fx_map_slot *slots, size_t cap, fx_str key, uint64_t h)
{
    for (size_t i = h & (cap - 1);; i = (i + 1) & (cap - 1)) {
        struct fx_map_slot *s = &slots[i];

        if (!s->hash || (s->hash == h && fx_str_eq(s->key, key)))
            return s;
    }
}

bool fx_map_reserve(fx_map *m, size_t n)
{
    struct fx_map_slot *slots;
    size_t cap = m->cap ? m->cap : 16;

    if (n > SIZE_MAX / 128)
        return false;
    while (n > cap / 4 * 3)
        cap *= 2;
    if (cap == m->cap)
        return true;
    slots = fx_mem_array(m->mem, cap, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].hash)
            *map_slot(slots, cap, m->slots[i].key, m->slots[i].hash) = m->slots[i];
    fx_mem_free(m->mem, m->slots, m->cap * sizeof(*m->slots));
    m->slots = slots;
    m->cap = cap;
    return true;
}

bool fx_map_put(fx_map *m, fx_str key, uint64_t value)
{
    uint64_t h = map_hash(key);
    struct fx_map_slot *s;

    if (!fx_map_reserve(m, m->n + 1))
        return false;
    s = map_slot(m->slots, m->cap, key, h);
    if (!s->hash) {
        s->hash = h;
        s->key = key;
        m->n++;
    }
    s->value = value;
    return true;
}

bool fx_map_get(const fx_map *m, fx_str key, uint64_t *value)
{
    const struct fx_map_slot *s;

    if (!m->n)
        return false;
    s = map_slot(m->slots, m->cap, key, map_hash(key));
    if (!s->hash)
        return false;
    if (value)
        *value = s->value;
    return true;
}

uint64_t fx_hash64(const void *p, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(n ? p : "", n, seed);
}

fx_hash128 fx_hash128_of(const void *p, size_t n, uint64_t seed)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(n ? p : "", n, seed);

    return (fx_hash128){ h.low64, h.high64 };
}
