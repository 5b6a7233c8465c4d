/* pcalls.h - kernels of the loop IR that do the work of a plan's launches.
 *
 * passes/lower_calls.c makes them of a plan (kir/plan.h).  Where a call has code, a runtime runs that instead of the launches
 * [first, first + n), else those: the bits are the same, at every level.
 *
 *     code->run(args, buffers, t0, t1, &fault)      t0 .. t1 of code->tasks(args)
 *
 * args[i] is what ref args[i] says, sizes and scalars as docs/kir.md has them; buffers[i] likewise.  What the refs read is final once a
 * launch's arguments are bound and the step's rows are set.  Strides, widths and factors are numbers in the kernel.  A call
 * neither waits nor keeps anything: its tasks may run in any order, by any threads.
 *
 * A call that begins with a product (FX_L_MATMUL; epilogue) stands for the end of its tiles, the fx_epilogue_fn, and for the
 * launches behind it, which go element by element over what it made: these aren't run. */
#ifndef FX_PCALLS_H
#define FX_PCALLS_H

#include "kir/kir.h"
#include "kir/plan.h"

/* Where a call finds a size or a pointer when it runs: at an offset of a struct. */
typedef enum fx_from {
    FX_FROM_ARGS,                /* the argument struct of a launch (tensor/args.h) */
    FX_FROM_STEP,                /* the step's fx_step */
    FX_FROM_PANELS,              /* the fx_call_panels of the fx_q8 at 'q8' in the launch's arguments, of its rows */
    FX_FROM_TILE                 /* fx_call_tile; epilogues only */
} fx_from;

typedef struct fx_call_ref {
    fx_from from;
    int32_t launch;              /* of the plan; ARGS and PANELS */
    uint32_t at;                 /* offset there: of an int64_t or int32_t size, or of a pointer */
    uint32_t q8;                 /* PANELS: offset of the fx_q8 in the arguments */
    bool narrow;                 /* the size is an int32_t */
} fx_call_ref;

/* How an fx_q8 of some rows lies (kernels/quant.h): n_wide panels of 'wide' rows, then, at 'rest', n_narrow of
 * 'narrow', each [k / 32][FX_Q8_WORDS][rows] words. */
typedef struct fx_call_panels {
    int64_t n_wide, wide, n_narrow, narrow;      /* wide and narrow are never 0 */
    void *data, *rest;
} fx_call_panels;

/* A tile on its way into y: m rows of n sums, ld apart; y, residual and bias at its first element. */
typedef struct fx_call_tile {
    int64_t m, n, ld;
    const float *acc, *residual, *bias;
    float *y;
} fx_call_tile;

typedef struct fx_plan_call {
    int32_t first, n;            /* launches of the plan that it stands for */
    bool epilogue;               /* ... the end of whose tiles it is */
    bool rest;                   /* then the launch's own kernel does what is left of the same tasks (rope_store.turned is set) */
    int32_t kernel;
    int32_t n_args, n_buffers;
    const fx_call_ref *args, *buffers;           /* one for each ARG and BUFFER of the kernel, in their order */
} fx_plan_call;

typedef struct fx_plan_calls {
    fx_kir_module *module;       /* its kernels are checked; math is not yet expanded, nothing widened */
    fx_kir_kernel **kernels;     /* equal kernels (of different layers) are one */
    fx_plan_call *calls;         /* by 'first'; no launch is in two */
    int32_t n_kernels, n_calls;
} fx_plan_calls;

/* The most ARGs and BUFFERs of a call. */
#define FX_CALL_MAX 16

#endif
