/* exec_int.h - the inside of an exec, for exec.c, exec_calls.c and exec_ahead.c. */
#ifndef FX_EXEC_INT_H
#define FX_EXEC_INT_H

#include <stdatomic.h>

#include "runtime/adapter_int.h"

/* A launch with its code. */
typedef struct fx_exec_launch {
    fx_launch l;
    int64_t (*tasks)(const void *args);
    void (*run)(const void *args, int64_t t0, int64_t t1, void *scratch);
    const fx_matmul_kernel *matmul;   /* instead of run */
    fx_epilogue_fn epilogue;          /* of a product without adapters; NULL: it isn't one that may have some */
    const fx_plan_call *call;         /* that begins here, or NULL */
    fx_exec *owner;
    const struct fx_exec_launch *ahead_of;   /* an attention for which this product fetches; NULL: for none */
    double ahead_from, ahead_to;             /* its share of the pages */
    int32_t ahead_list;                      /* which of the exec's it is given them in */
    fx_ahead ahead;                          /* in this step */
} fx_exec_launch;

#define FX_AHEAD_PRODUCTS 2          /* before an attention that fetch for it */
#define FX_AHEAD_PAGES 1024          /* at most for one of them */

/* A call that is about to run. */
typedef struct fx_exec_call {
    const fx_kcode *code;
    const fx_exec_launch *rest;  /* whose own kernel then does what is left of the tasks; NULL: nothing is */
    uint64_t args[FX_CALL_MAX];
    void *buffers[FX_CALL_MAX];
} fx_exec_call;

struct fx_exec {
    const fx_program *program;
    const fx_mem *mem;
    fx_pool *pool;
    fx_plan plan;                /* own bufs (offsets), shared rest */
    fx_exec_launch *launches;
    const fx_kcode *code;        /* of the program's calls, in this step; NULL: there is none yet */
    fx_exec_call call;           /* the one that runs now */
    uint8_t *buffers, *scratch;
    void *shared;                /* of the tasks of an attention launch; NULL with one thread */
    size_t buffer_bytes, scratch_each, scratch_bytes;
    int64_t max_rows, max_logits;
    const fx_step *step;
    size_t ahead_most;           /* bytes that are fetched for one attention at most */
    fx_page ahead_pages[FX_AHEAD_PRODUCTS][FX_AHEAD_PAGES];
    fx_adapting *adapting;       /* NULL: no adapters here */
    int32_t at, phase;           /* of the walk over the launches */
    _Atomic uint64_t n_begun, n_generated;   /* launches, and calls among them, ever; read by others */
};

static inline void *fx_exec_scratch(const fx_exec *x, int worker) { return x->scratch + (size_t)worker * x->scratch_each; }

/* ---- Calls (exec_calls.c) ---- */

/* Joins the program's calls to the launches, which are bound. */
void fx_exec_join_calls(fx_exec *x);
/* Takes up code that has come since the last step. */
void fx_exec_take_code(fx_exec *x);
/* The call that runs instead of this launch, and maybe of some behind it; NULL: its own kernel does. */
static inline const fx_plan_call *fx_exec_call_at(const fx_exec *x, const fx_exec_launch *e)
{
    return x->code && e->call && !e->call->epilogue ? e->call : NULL;
}
/* Gathers what it is given in this step. */
void fx_exec_call_job(fx_exec *x, const fx_plan_call *c, int64_t n_rows, fx_pool_job *job);

/* ---- What attention will read (exec_ahead.c) ---- */

/* Finds out which products fetch for which attention; launches are bound. */
void fx_exec_join_ahead(fx_exec *x);
/* What e fetches in this step, if it does. */
void fx_exec_set_ahead(fx_exec *x, fx_exec_launch *e);

#endif
