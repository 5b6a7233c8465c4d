/* kir_widen.h - what kir_widen.c (loops) and kir_wide.c (what stands in them) share. */
#ifndef FX_KIR_WIDEN_H
#define FX_KIR_WIDEN_H

#include "kir/kir_range.h"

/* What an op of the block that is widened has become, in the place being built.  Affine: lane j holds scalar + j * step (i64; step 0:
 * the same in all lanes, of any type); its vector is made when it is wanted.  Of a local: the vector is the local. */
typedef struct fx_wide {
    bool affine;
    int64_t step;
    fx_kop *scalar, *vector;
} fx_wide;

typedef struct fx_widener {
    fx_kir_module *m;
    int lanes;
    fx_wide *of;                 /* by id */
    int32_t n;
    const fx_kir_block *block;   /* being widened: ops outside stay */
    fx_kop *mask;                /* lanes that are on; NULL: all */
    bool conditional;            /* the mask may be empty: what isn't masked mustn't run */
} fx_widener;

/* Where ops are made. */
typedef struct fx_kplace {
    fx_kir_block *at;
    fx_kop *before;
} fx_kplace;
static inline fx_kplace fx_kplace_of(const fx_kir_module *m) { return (fx_kplace){ m->at, m->before }; }
static inline void fx_kplace_return(fx_kir_module *m, fx_kplace p)
{
    m->at = p.at;
    m->before = p.before;
}

/* kir_wide.c: whether all ops of the block can be widened by this counter; makes them, but for a yield. */
bool fx_wide_can(const fx_kir_block *b, const fx_kir_block *loop, int depth);
bool fx_wide_block(fx_widener *w, const fx_kir_block *b);
fx_kop *fx_wide_vector(fx_widener *w, const fx_kop *op);
fx_kop *fx_wide_splat(fx_widener *w, fx_kop *scalar);
/* The neutral element, and acc combined with x (and y, of DOT), in the lanes of acc. */
fx_kop *fx_wide_neutral(fx_kir_module *m, fx_kir_combine kind, fx_dtype t, int lanes);
fx_kop *fx_wide_combine(fx_kir_module *m, fx_kir_combine kind, fx_kop *acc, fx_kop *x, fx_kop *y);
/* Whether lo and hi are far from where sums with a few lanes wrap. */
bool fx_wide_bounded(const fx_kop *lo, const fx_kop *hi);
/* lo + max(hi - lo, 0) / by * by: what whole steps leave. */
fx_kop *fx_wide_rest(fx_kir_module *m, fx_kop *lo, fx_kop *hi, int by);

#endif
