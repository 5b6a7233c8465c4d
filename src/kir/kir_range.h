/* kir_range.h - what can be said about the integers of a kernel without running it.
 *
 * Values are sums of numbers times 'atoms' (counters, sizes, whatever else isn't a sum), as far as their ranges show that
 * nothing wraps.  A claim "a < b" is proved by replacing atoms by their bounds (of a counter: where its loop ends; of
 * a minimum: either part; ...) until numbers are left, with the conditions of the ifs and the mask around the
 * place to help.  Everything is bounded: what isn't found in so many steps isn't known.
 *
 * Of kir_check.c, kir_apart.c, kir_widen.c; ops are numbered and their operands checked. */
#ifndef FX_KIR_RANGE_H
#define FX_KIR_RANGE_H

#include "kir/kir.h"

/* A sum: k + c[0] * atom[0] + ... */
#define FX_KLIN_MAX 8
typedef struct fx_klin {
    int n;
    bool bad;                    /* too long or too large: means nothing */
    int64_t k, c[FX_KLIN_MAX];
    const fx_kop *atom[FX_KLIN_MAX];
} fx_klin;

typedef struct fx_krange {
    int64_t lo, hi;              /* both may be reached */
} fx_krange;

/* The bounds of an integer, in all lanes; of u64 from 2^63 on: all of i64, by the bits. */
fx_krange fx_kir_range(const fx_kop *op);
/* Whether two ops surely give the same value: the same op, or pure ones of the same. */
bool fx_kir_alike(const fx_kop *a, const fx_kop *b);
fx_klin fx_kir_lin(const fx_kop *op);                    /* of an i64 */
fx_klin fx_klin_add(const fx_klin *a, const fx_klin *b, int64_t times);      /* a + b * times */
static inline fx_klin fx_klin_of(int64_t k) { return (fx_klin){ .k = k }; }
/* Whether the sum is below 0 wherever 'at' is reached and, if that is a masked access, in each lane that is on. */
bool fx_kir_negative(const fx_klin *sum, const fx_kop *at);
/* Index i of the last lane of an access that is on. */
fx_klin fx_kir_last_index(const fx_kop *access, int i);
/* Whether op may differ from one run of block b to the next: it is made in there, not of constants alone. */
bool fx_kir_varies(const fx_kop *op, const fx_kir_block *b);
bool fx_kir_inside(const fx_kir_block *inner, const fx_kir_block *outer);    /* or the same */

/* kir_apart.c: whether n accesses of one buffer touch different elements for different values of a counter, whatever else changes. */
bool fx_kir_apart(const fx_kop *const *access, int n, const fx_kop *counter);
/* Whether two accesses of one buffer, in different ops of a block, never touch the same element in one run of that block. */
bool fx_kir_disjoint(const fx_kop *a, const fx_kop *b);

#endif
