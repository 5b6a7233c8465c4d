/* mutate.h - damage for test files: cut at every byte, and changed at random places with a fixed seed.
 *
 * FXTEST_LONG=1 (scripts/test --long) cuts at every byte and makes MUTATIONS_LONG changes of each file, else
 * some of both.  A failing case is named by its file and number. */
#ifndef MUTATE_H
#define MUTATE_H

#include "base/str.h"
#include "fxtest.h"

enum { MUTATIONS = 250, MUTATIONS_LONG = 10000 };

static inline bool mutate_long(void) { return getenv("FXTEST_LONG") != NULL; }
static inline int mutations(void) { return mutate_long() ? MUTATIONS_LONG : MUTATIONS; }

static uint64_t mutate_state = 88172645463325252u;

static inline uint64_t draw(uint64_t n)
{
    mutate_state ^= mutate_state << 13;
    mutate_state ^= mutate_state >> 7;
    mutate_state ^= mutate_state << 17;
    return mutate_state % n;
}

static inline void mutate_number(char *p, size_t room)
{
    static const uint64_t numbers[] = {
        0, 1, 2, 7, 9, 12, 13, 32, 255, 0x7fffffff, 0x80000000u, 0xffffffffu, (uint64_t)1 << 32, INT64_MAX,
        (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 62, (uint64_t)1 << 61,
    };
    uint64_t u = numbers[draw(FX_COUNT(numbers))];
    size_t n = draw(2) ? 8 : 4;

    for (size_t i = 0; i < n && i < room; i++)
        p[i] = (char)(u >> (8 * i));
}

/* In text: a digit more, another digit, or a word for a number. */
static inline void mutate_text(fx_buf *b, size_t at)
{
    static const char *const words[] = { "-1", "0", "1e300", "null", "\"x\"", "[]", "{}", "999999999999", "true", "0.5" };
    const char *word = words[draw(FX_COUNT(words))];
    size_t from = at, to = at, n = strlen(word);

    while (from < b->n && !strchr("0123456789", b->p[from]))
        from++;
    for (to = from; to < b->n && strchr("0123456789.e-", b->p[to]);)
        to++;
    if (from == b->n || !fx_buf_reserve(b, n))
        return;
    memmove(b->p + from + n, b->p + to, b->n - to);
    memcpy(b->p + from, word, n);
    b->n = b->n - (to - from) + n;
}

/* One to four changes: a bit, a byte, a number, a piece removed, doubled or swapped; most within the first
 * 'head' bytes. */
static inline void mutate(fx_buf *b, size_t head)
{
    for (uint64_t times = draw(4) + 1; times > 0 && b->n > 16; times--) {
        size_t at = draw(draw(4) ? FX_MIN(head, b->n) : b->n), n = draw(12) + 1;

        n = FX_MIN(n, b->n - at);
        switch (draw(7)) {
        case 0: b->p[at] ^= (char)(1 << draw(8)); break;
        case 1: b->p[at] = (char)draw(256); break;
        case 2: mutate_number(b->p + at, b->n - at); break;
        case 3:
            memmove(b->p + at, b->p + at + n, b->n - at - n);
            b->n -= n;
            break;
        case 4:
            if (!fx_buf_reserve(b, n))
                return;
            memmove(b->p + at + n, b->p + at, b->n - at);
            b->n += n;
            break;
        case 5: mutate_text(b, at); break;
        default: memmove(b->p + at, b->p + draw(b->n - n + 1), n);
        }
    }
}

/* Calls use(user, damaged, what, number) for the cuts and changes of 'data'. */
static inline void each_damage(fx_str data, size_t head, void (*use)(void *user, fx_str damaged, const char *what, int number),
                               void *user)
{
    size_t step = mutate_long() ? 1 : data.n / 300 + 1;
    fx_buf b;

    for (size_t n = 0; n < data.n; n += step)
        use(user, fx_str_n(data.p, n), "cut at", (int)n);
    fx_buf_init(&b, &fx_mem_libc);
    mutate_state = 88172645463325252u;
    for (int i = 0; i < mutations(); i++) {
        fx_buf_clear(&b);
        fx_buf_str(&b, data);
        mutate(&b, head);
        use(user, fx_buf_view(&b), "mutation", i);
    }
    fx_buf_done(&b);
}

#endif
