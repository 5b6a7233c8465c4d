/* lower_loops.h - loops, tensors seen as [before, axis, behind] and places of them, for kernels that are written out:
 * lower_own.c, lower_sized.c. */
#ifndef FX_LOWER_LOOPS_H
#define FX_LOWER_LOOPS_H

#include "passes/lower_kir_int.h"

static inline fx_kop *add1(fx_lk *c, fx_kop *x) { return fx_lk_add(c, x, fx_lk_num(c, 1)); }
static inline fx_kop *bool_of(fx_lk *c, bool x) { return fx_kir_int(c->m, fx_ktype_of(FX_BOOL, 1), x); }

/* ---- Blocks ---------------------------------------------------------------------------------------- */

typedef struct inside {
    fx_kop *op;
    fx_kir_block *outer;
} inside;

static inline inside open_block(fx_lk *c, fx_kop *op, int block)
{
    inside in = { op, c->m->at };

    if (op)
        fx_kir_at(c->m, op->block[block]);
    return in;
}

static inline fx_kop *counter(const inside *in) { return in->op ? in->op->block[0]->arg : NULL; }
static inline void close_block(fx_lk *c, const inside *in) { fx_kir_at(c->m, in->outer); }

static inline inside open_for(fx_lk *c, fx_kop *lo, fx_kop *hi, fx_kop *step) { return open_block(c, fx_kir_for(c->m, lo, hi, step), 0); }
static inline inside open_if(fx_lk *c, fx_kop *cond) { return open_block(c, fx_kir_if(c->m, cond, false), 0); }

/* The loop runs while what 'cond' makes is true. */
static inline inside open_while(fx_lk *c, fx_kop *(*cond)(fx_lk *c, void *user), void *user)
{
    fx_kop *loop = fx_kir_while(c->m), *go;
    inside in = open_block(c, loop, 0);

    if (loop) {
        go = cond(c, user);
        fx_kir_yield(c->m, &go, 1);
        fx_kir_at(c->m, loop->block[1]);
    }
    return in;
}

static inline void tasks(fx_lk *c, fx_dim n)
{
    fx_kop *count;

    fx_kir_at(c->m, c->k->grid);
    count = fx_lk_size(c, n);
    fx_kir_yield(c->m, &count, 1);
    fx_kir_at(c->m, c->k->body);
}

/* t as [before, axis, behind]. */
typedef struct along {
    fx_dim dim[3];
} along;

static inline along along_axis(fx_lk *c, const fx_type *t, int axis)
{
    fx_type tail = { .rank = t->rank - axis - 1 };

    for (int i = 0; i < tail.rank; i++)
        tail.dim[i] = t->dim[axis + 1 + i];
    return (along){ { fx_lower_rows(c->l, t, axis), t->dim[axis], fx_lower_rows(c->l, &tail, tail.rank) } };
}

static inline int32_t kept_of(fx_lk *c, const fx_op *op, int i) { return fx_lower_kept(c->l, fx_op_in(op, i)); }

static inline fx_kop *load3(fx_lk *c, fx_kop *buf, fx_kop *a, fx_kop *i, fx_kop *b)
{
    return fx_kir_load(c->m, buf, (fx_kop *const[]){ a, i, b }, 3, 1, NULL);
}

static inline void store3(fx_lk *c, fx_kop *buf, fx_kop *x, fx_kop *a, fx_kop *i, fx_kop *b)
{
    fx_kir_store(c->m, buf, x, (fx_kop *const[]){ a, i, b }, 3, NULL);
}

static inline fx_kop *load1(fx_lk *c, fx_kop *buf, fx_kop *i) { return fx_kir_load(c->m, buf, &i, 1, 1, NULL); }
static inline void store1(fx_lk *c, fx_kop *buf, fx_kop *x, fx_kop *i) { fx_kir_store(c->m, buf, x, &i, 1, NULL); }

#endif
