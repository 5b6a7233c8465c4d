/* str.h - counted strings, growing buffers, growing arrays, string maps.
 *
 * fx_str borrows bytes; it need not be zero-terminated.  fx_buf owns a growing
 * byte string (always zero-terminated) and remembers that memory ran out, so a
 * run of appends is checked once at the end:
 *
 *     fx_buf b;  fx_buf_init(&b, mem);
 *     fx_buf_puts(&b, "x=");  fx_buf_printf(&b, "%d", x);
 *     if (b.failed) ...
 *     fx_buf_done(&b);
 *
 * FX_VEC(type) declares a growing array {type *at; size_t n, cap;}. */
#ifndef FX_STR_H
#define FX_STR_H

#include <string.h>

#include "base/mem.h"

typedef struct fx_str {
    const char *p;
    size_t n;
} fx_str;

#define FX_STR(lit) ((fx_str){ "" lit, sizeof(lit) - 1 })
static inline fx_str fx_str_of(const char *z) { return (fx_str){ z, z ? strlen(z) : 0 }; }
static inline fx_str fx_str_n(const char *p, size_t n) { return (fx_str){ p, n }; }
static inline bool fx_str_eq(fx_str a, fx_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}
static inline bool fx_str_is(fx_str a, const char *z) { return fx_str_eq(a, fx_str_of(z)); }
bool fx_str_starts(fx_str s, fx_str prefix);
bool fx_str_ends(fx_str s, fx_str suffix);
int fx_str_cmp(fx_str a, fx_str b);                 /* bytewise, like memcmp */
fx_str fx_str_trim(fx_str s);                       /* without the blanks at its ends */
static inline bool fx_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }   /* JSON's */
size_t fx_str_find(fx_str hay, fx_str needle, size_t from);   /* SIZE_MAX: not there */
#define FX_STR_NONE SIZE_MAX
/* For printf's "%.*s". */
#define FX_STR_ARG(s) (int)(s).n, (s).p

typedef struct fx_buf {
    char *p;            /* n bytes and a zero; never NULL after the first append */
    size_t n, cap;
    bool failed;        /* memory ran out; later appends do nothing */
    const fx_mem *mem;
} fx_buf;

void fx_buf_init(fx_buf *b, const fx_mem *mem);
void fx_buf_done(fx_buf *b);
void fx_buf_clear(fx_buf *b);                        /* keeps the memory */
bool fx_buf_reserve(fx_buf *b, size_t more);
void fx_buf_add(fx_buf *b, const void *p, size_t n);
void fx_buf_putc(fx_buf *b, char c);
void fx_buf_puts(fx_buf *b, const char *z);
void fx_buf_str(fx_buf *b, fx_str s);
void fx_buf_printf(fx_buf *b, const char *fmt, ...) FX_PRINTF(2, 3);
/* Locale-independent, shortest text that reads back as the same double. */
void fx_buf_double(fx_buf *b, double x);
/* ... as the same float: 0.1f gives 0.1. */
void fx_buf_float(fx_buf *b, float x);
/* As the inside of a JSON string (no quotes around); invalid UTF-8 becomes U+FFFD. */
void fx_buf_json(fx_buf *b, fx_str s);
void fx_buf_json_string(fx_buf *b, fx_str s);        /* the quotes too */
static inline fx_str fx_buf_view(const fx_buf *b) { return (fx_str){ b->p ? b->p : "", b->n }; }

#define FX_VEC(type)        \
    struct {                \
        type *at;           \
        size_t n, cap;      \
    }
/* Room for one more; false when memory ran out. */
#define FX_VEC_ROOM(v, mem) \
    ((v)->n < (v)->cap || fx_vec_grow((mem), (void **)&(v)->at, &(v)->cap, sizeof(*(v)->at), 1))
#define FX_VEC_PUSH(v, mem, value) (FX_VEC_ROOM(v, mem) ? ((v)->at[(v)->n++] = (value), true) : false)
#define FX_VEC_RESERVE(v, mem, more) \
    ((v)->cap - (v)->n >= (more) ||  \
     fx_vec_grow((mem), (void **)&(v)->at, &(v)->cap, sizeof(*(v)->at), (v)->n + (more) - (v)->cap))
#define FX_VEC_FREE(v, mem)                                        \
    (fx_mem_free((mem), (v)->at, (v)->cap * sizeof(*(v)->at)),     \
     (v)->at = NULL, (v)->n = (v)->cap = 0)
bool fx_vec_grow(const fx_mem *mem, void **at, size_t *cap, size_t each, size_t more);

/* String to 64-bit value, open addressing. Keys are borrowed: the caller keeps
 * their bytes alive. */
typedef struct fx_map {
    const fx_mem *mem;
    struct fx_map_slot *slots;
    size_t n, cap;
} fx_map;

void fx_map_init(fx_map *m, const fx_mem *mem);
void fx_map_done(fx_map *m);
bool fx_map_reserve(fx_map *m, size_t n);
bool fx_map_put(fx_map *m, fx_str key, uint64_t value);         /* replaces; false: no memory */
bool fx_map_get(const fx_map *m, fx_str key, uint64_t *value);  /* false: not there */

uint64_t fx_hash64(const void *p, size_t n, uint64_t seed);     /* XXH3 */
typedef struct fx_hash128 {
    uint64_t lo, hi;
} fx_hash128;
fx_hash128 fx_hash128_of(const void *p, size_t n, uint64_t seed);

#endif
