/* kcode.c - see kcode.h. */
#include "compile/kcode.h"

#include <stdio.h>

fx_status fx_kernels_ready(fx_kir_kernel *const *kernels, int32_t n, int lanes, fx_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        FX_TRY(fx_kir_expand_math(kernels[i], err));
        FX_TRY(fx_kir_check(kernels[i], err));
        if (lanes > 1)
            FX_TRY(fx_kir_widen(kernels[i], lanes, err));
    }
    return FORNAX_OK;
}

static fx_status find_one(fx_kcode *out, const fx_code *loaded, fx_str name, fx_error *err)
{
    char tasks[160];

    snprintf(tasks, sizeof(tasks), "%.*s_tasks", FX_STR_ARG(name));
    out->run = (fx_code_run)fx_code_find(loaded, name);
    out->tasks = (fx_code_tasks)fx_code_find(loaded, fx_str_of(tasks));
    if (out->run && out->tasks)
        return FORNAX_OK;
    return fx_fail(err, FORNAX_EFORMAT, "there is no compiled code for the kernel %.*s", FX_STR_ARG(name));
}

fx_status fx_kcode_find(fx_kcode **out, const fx_mem *mem, const fx_code *loaded, const fx_str *names, int32_t n, fx_error *err)
{
    fx_status st = FORNAX_OK;

    *out = fx_mem_array(mem, (size_t)n + 1, sizeof(**out));
    if (!*out)
        return fx_nomem(err, "compiled code");
    for (int32_t i = 0; i < n && st == FORNAX_OK; i++)
        st = find_one(&(*out)[i], loaded, names[i], err);
    if (st != FORNAX_OK) {
        fx_mem_free(mem, *out, ((size_t)n + 1) * sizeof(**out));
        *out = NULL;
    }
    return st;
}
