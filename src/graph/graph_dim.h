/* graph_dim.h - the size of an axis: a number, a name, or an expression of both.
 *
 * Names stand for sizes known only when a step runs ("rows").  Expressions of + - *
 * and // (floor division) are kept in one canonical form, a sum of products sorted by
 * degree and name, so that equal expressions compare equal: x+1+1 == x+2.
 *
 *     fx_dim x, y;
 *     FX_TRY(fx_dim_symbol(arena, FX_STR("x"), &x));
 *     FX_TRY(fx_dim_add(arena, x, fx_dim_of(1), &y));
 *
 * The makers return FORNAX_ENOMEM when memory ran out, FORNAX_EFORMAT when a coefficient leaves
 * 64 bits, an expression grows past 32 terms, or a divisor is 0 (without a sentence: callers know what they were making). */
#ifndef FX_GRAPH_DIM_H
#define FX_GRAPH_DIM_H

#include "base/status.h"
#include "base/str.h"

typedef struct fx_poly fx_poly;
typedef struct fx_dim {
    int64_t n;                   /* the size, if sym is NULL */
    const fx_poly *sym;
} fx_dim;

static inline fx_dim fx_dim_of(int64_t n) { return (fx_dim){ n, NULL }; }
static inline bool fx_dim_is_static(fx_dim d) { return !d.sym; }
fx_status fx_dim_symbol(fx_arena *a, fx_str name, fx_dim *out);
/* The name if d is nothing but a name. */
bool fx_dim_is_symbol(fx_dim d, fx_str *name);

fx_status fx_dim_add(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out);
fx_status fx_dim_sub(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out);
fx_status fx_dim_mul(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out);
/* Floor division.  Terms that y divides come out of it: (4*x+6)//4 == x+1.  y may not be 0. */
fx_status fx_dim_div(fx_arena *a, fx_dim x, fx_dim y, fx_dim *out);

bool fx_dim_eq(fx_dim x, fx_dim y);
/* Order of canonical forms, for sorting. */
int fx_dim_cmp(fx_dim x, fx_dim y);
/* The value, given what each name stands for; false if a name is unknown or a number leaves 64 bits. */
typedef bool (*fx_dim_lookup)(void *user, fx_str name, int64_t *value);
bool fx_dim_eval(fx_dim d, fx_dim_lookup lookup, void *user, int64_t *out);
/* d with some of its names replaced by other sizes; names that lookup doesn't know stay. */
typedef bool (*fx_dim_rename)(void *user, fx_str name, fx_dim *now);
fx_status fx_dim_subst(fx_arena *a, fx_dim d, fx_dim_rename lookup, void *user, fx_dim *out);
/* d as steps of a stack machine: numbers and names are pushed, '+', '*' and '/' (floor division) take two. */
typedef struct fx_dim_sink {
    void (*num)(void *user, int64_t n);
    void (*name)(void *user, fx_str name);
    void (*op)(void *user, char op);
    void *user;
} fx_dim_sink;
void fx_dim_walk(fx_dim d, const fx_dim_sink *sink);
void fx_dim_print(fx_dim d, fx_buf *out);

#endif
