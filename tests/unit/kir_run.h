/* kir_run.h - random kernels run by the interpreter, in tests. */
#ifndef FX_KIR_RUN_H
#define FX_KIR_RUN_H

#include "fxtest.h"
#include "kir_random.h"

/* Runs all tasks in the interpreter; whether there was a fault. */
static inline bool interpret(fx_kir_kernel *k, kir_data *d)
{
    fx_kir_launch l = { d->args, d->buffers };
    fx_kir_fault fault = { .op = -1 };
    fx_kir_interp *x = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_kir_interp_new(&x, &fx_mem_libc, k, &err), err);
    if (x)
        fx_kir_interp_run(x, &l, 0, fx_kir_interp_tasks(x, &l), &fault);
    fx_kir_interp_free(x);
    return fault.op >= 0;
}

#endif
