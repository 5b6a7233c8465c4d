/* kexec.h - runs a plan of kernels over tensors (kir/kplan.h).
 *
 *     fx_kexec_new(&x, mem, plan, code or NULL, pool or NULL, err);
 *     fx_kexec_weight(x, i, data);                  for each tensor of kind WEIGHT
 *     fx_kexec_run(x, inputs, outputs, err);
 *
 * Without code every kernel is interpreted, by one thread.  Inputs give the plan's symbols their values; a run with the same
 * sizes as the one before allocates nothing.
 *
 * Threads: one at a time. */
#ifndef FX_KEXEC_H
#define FX_KEXEC_H

#include "base/log.h"
#include "base/pool.h"
#include "kir/kplan.h"

/* A tensor of the caller, row by row. */
typedef struct fx_kvalue {
    fx_dtype dtype;
    int rank;
    int64_t dim[FX_KIR_MAX_RANK];
    void *data;
} fx_kvalue;

/* Compiled code of a kernel (docs/kir.md). */
typedef struct fx_kcode {
    int64_t (*tasks)(const uint64_t *args);
    void (*run)(const uint64_t *args, void *const *buffers, int64_t t0, int64_t t1, fx_kir_fault *fault);
} fx_kcode;

typedef struct fx_kexec fx_kexec;

/* plan and code (one for each kernel of it) must outlive x. */
fx_status fx_kexec_new(fx_kexec **out, const fx_mem *mem, const fx_kplan *plan, const fx_kcode *code, fx_pool *pool, fx_error *err);
void fx_kexec_free(fx_kexec *x);
void fx_kexec_weight(fx_kexec *x, int32_t tensor, const void *data);
/* Where ops print to, at level information; NULL, as at first: nowhere. */
void fx_kexec_log(fx_kexec *x, const fx_log *log);

/* All tasks of a launch's kernel are run by this function, in place of code or the interpreter. */
typedef void (*fx_kexec_device_fn)(void *user, fx_kir_kernel *k, const fx_kir_launch *l, int64_t tasks, fx_kir_fault *fault);
void fx_kexec_device(fx_kexec *x, fx_kexec_device_fn run, void *user);

/* Runs that are looked at, for finding faults. */
typedef struct fx_kexec_checks {
    bool nan;                    /* a result with a NaN ends the run if no operand of the launch has one */
    bool unset;                  /* so does a read of what nobody wrote; kernels must be interpreted */
    bool log;                    /* a line for each launch */
} fx_kexec_checks;
fx_status fx_kexec_check(fx_kexec *x, const fx_kexec_checks *c, fx_error *err);

/* inputs: [plan->n_inputs], whose types must fit.  outputs: [plan->n_outputs], filled: where data is NULL the result lies in memory of
 * x until the next run, else there (it must be large enough for the sizes that the inputs give; see fx_kexec_sizes): not
 * for one whose size only the run tells.  An index outside an axis is FORNAX_EARG, with the op and the axis. */
fx_status fx_kexec_run(fx_kexec *x, const fx_kvalue *inputs, fx_kvalue *outputs, fx_error *err);
/* Only the outputs' types; sizes that only a run tells are -1. */
fx_status fx_kexec_sizes(fx_kexec *x, const fx_kvalue *inputs, fx_kvalue *outputs, fx_error *err);

#endif
