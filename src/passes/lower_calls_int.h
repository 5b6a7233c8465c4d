/* lower_calls_int.h - between the files that make calls of launches.
 *
 * A maker fills the body of a kernel whose tasks are rows.  It gets at the launch's memory through places: a buffer of the plan from a
 * column on is one BUFFER of the kernel, whichever slots name it, so what is done in place needs no more words. */
#ifndef FX_LOWER_CALLS_INT_H
#define FX_LOWER_CALLS_INT_H

#include <stddef.h>

#include "kir/kir_act.h"
#include "passes/lower_calls.h"

typedef struct fx_lc_place {
    int32_t buf;
    int64_t col, cols;
    fx_kop *op;
} fx_lc_place;

/* A call being made. */
typedef struct fx_lc {
    const fx_plan *plan;
    const fx_dtype *tables;
    const fx_state_table *state;
    fx_kir_module *m;
    fx_kir_kernel *k;
    const fx_launch *l;          /* the one at hand, */
    int32_t at;                  /* its number */
    int32_t n;                   /* launches from the first one on */
    int n_args, n_buffers, n_places;
    fx_call_ref args[FX_CALL_MAX], buffers[FX_CALL_MAX];
    fx_lc_place places[FX_CALL_MAX];
    fx_kop *rows;                /* how many */
    fx_kop *row;                 /* the task's */
    bool rest, epilogue;         /* of the call */
} fx_lc;

/* A row of the table of makers. */
#define FX_LC_STEP_ROWS UINT32_MAX
#define FX_LC_TILE_ROWS (UINT32_MAX - 1)       /* those of the tile */
typedef struct fx_lc_maker {
    fx_launch_op op;
    void (*make)(fx_lc *c);
    uint32_t n_rows;             /* offset in the launch's arguments; FX_LC_STEP_ROWS: those of the step */
    bool (*can)(const fx_lc *c); /* NULL: always */
    int32_t (*span)(const fx_lc *c);     /* how many launches from this one on; NULL: 1 */
} fx_lc_maker;

/* ---- lower_calls.c: parameters ------------------------------------------------------------------------ */

enum { FX_LC_OUT = 8 };          /* slot FX_LC_OUT + i is out[i] */
static inline const fx_ref *fx_lc_ref(const fx_lc *c, int slot) { return slot >= FX_LC_OUT ? &c->l->out[slot - FX_LC_OUT] : &c->l->in[slot]; }
static inline bool fx_lc_has(const fx_lc *c, int slot) { return fx_lc_ref(c, slot)->kind != FX_REF_NONE; }
fx_kop *fx_lc_arg(fx_lc *c, fx_call_ref ref, const char *name);
fx_kop *fx_lc_buffer(fx_lc *c, fx_call_ref ref, const fx_kir_buf *buf);
static inline bool fx_lc_same(const fx_ref *a, const fx_ref *b) { return a->kind == b->kind && a->index == b->index && a->col == b->col; }
/* Goes on to the next launch. */
static inline void fx_lc_next(fx_lc *c)
{
    c->l++;
    c->at++;
}
static inline fx_call_ref fx_lc_in_tile(size_t at) { return (fx_call_ref){ .from = FX_FROM_TILE, .at = (uint32_t)at }; }
static inline fx_call_ref fx_lc_in_step(size_t at, bool narrow)
{
    return (fx_call_ref){ .from = FX_FROM_STEP, .at = (uint32_t)at, .narrow = narrow };
}
static inline fx_call_ref fx_lc_at(const fx_lc *c, size_t at) { return (fx_call_ref){ .from = FX_FROM_ARGS, .launch = c->at, .at = (uint32_t)at }; }
/* Rows of f32 in a slot, so many columns of them; at: of the pointer in the arguments. */
fx_kop *fx_lc_mat(fx_lc *c, int slot, size_t at, int64_t cols, fx_kir_access access);
/* A vector of n in a slot. */
fx_kop *fx_lc_vec(fx_lc *c, int slot, size_t at, int64_t n);

/* The row in blocks of bytes, to a slot; q8: offset of the fx_q8.  value makes the 32 numbers from column j on. */
typedef fx_kop *(*fx_lc_block_fn)(fx_lc *c, const void *user, fx_kop *j);
void fx_lc_put_blocks(fx_lc *c, int slot, size_t q8, fx_lc_block_fn value, const void *user);

/* ---- Code ------------------------------------------------------------------------------------------------- */

static inline fx_kop *fx_lc_num(fx_lc *c, int64_t n) { return fx_kir_index(c->m, n); }
static inline fx_kop *fx_lc_f32(fx_lc *c, double x, int lanes) { return fx_kir_float(c->m, fx_ktype_of(FX_F32, lanes), x); }
static inline fx_kop *op1(fx_lc *c, fx_kir_code code, fx_kop *a) { return fx_kir_op1(c->m, code, a); }
static inline fx_kop *op2(fx_lc *c, fx_kir_code code, fx_kop *a, fx_kop *b) { return fx_kir_op2(c->m, code, a, b); }
static inline fx_kop *select3(fx_lc *c, fx_kop *on, fx_kop *a, fx_kop *b) { return fx_kir_op3(c->m, FX_KIR_SELECT, on, a, b); }
/* Columns from j on of this row, or of the vector that is the same for all. */
fx_kop *fx_lc_load(fx_lc *c, fx_kop *buf, fx_kop *j, int lanes);
void fx_lc_store(fx_lc *c, fx_kop *buf, fx_kop *value, fx_kop *j);
/* A loop whose iterations are independent, one in order, or a sum in 64 lanes: what is made next goes inside, until the end. */
typedef struct fx_lc_loop {
    fx_kop *op, *i;              /* i: the counter */
    fx_kir_block *outside;
} fx_lc_loop;
fx_lc_loop fx_lc_each(fx_lc *c, int64_t n);
fx_lc_loop fx_lc_each_below(fx_lc *c, fx_kop *n);
fx_lc_loop fx_lc_times(fx_lc *c, int64_t n);
void fx_lc_end(fx_lc *c, const fx_lc_loop *loop);
fx_lc_loop fx_lc_fold(fx_lc *c, fx_kir_combine kind, int64_t n);
fx_kop *fx_lc_folded(fx_lc *c, const fx_lc_loop *loop, fx_kop *a, fx_kop *b);    /* b: of FX_KIR_DOT */

/* Columns that are normed: x, or x + residual where that isn't kept. */
typedef struct fx_lc_normed {
    fx_kop *x, *residual, *w, *y;
    int64_t dim;
    float eps, w_offset;
} fx_lc_normed;
/* y = those from column 'first' on; y may be x. */
void fx_lc_rms(fx_lc *c, const fx_lc_normed *s, fx_kop *first);

/* lower_calls_map.c, lower_calls_norm.c, lower_calls_rope.c */
void fx_lc_make_rope(fx_lc *c);
bool fx_lc_can_rope(const fx_lc *c);
extern const fx_lc_maker fx_lc_maps[];
extern const size_t fx_lc_n_maps;
extern const fx_lc_maker fx_lc_norms[];
extern const size_t fx_lc_n_norms;

#endif
