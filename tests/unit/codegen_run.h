/* codegen_run.h - kernels run twice, by the interpreter and as compiled code, and their buffers compared.
 *
 * The bits must be the same, but a NaN is as good as any other. A kernel's fault counts as well. */
#ifndef FX_CODEGEN_RUN_H
#define FX_CODEGEN_RUN_H

#include "codegen/code_load.h"
#include "codegen/codegen.h"
#include "fxtest.h"
#include "kir/kir_eval.h"

typedef struct run_buffer {
    fx_dtype t;
    int64_t n;                   /* elements */
    void *data;                  /* what it holds before */
} run_buffer;

#define RUN_BUFFERS 8

static uint64_t run_seed = 88172645463325252u;

static inline uint64_t run_random(void)
{
    run_seed ^= run_seed << 13;
    run_seed ^= run_seed >> 7;
    return run_seed ^= run_seed << 17;
}

static inline bool run_is_nan(fx_dtype t, uint64_t x)
{
    switch (t) {
    case FX_F64: return (x & INT64_MAX) > 0x7ff0000000000000u;
    case FX_F32: return (x & 0x7fffffff) > 0x7f800000;
    case FX_F16: return (x & 0x7fff) > 0x7c00;
    case FX_BF16: return (x & 0x7fff) > 0x7f80;
    case FX_F8E5M2: return (x & 0x7f) > 0x7c;
    case FX_F8E4M3: return (x & 0x7f) == 0x7f;
    default: return false;
    }
}

/* Elements that differ; the first is told. */
static inline int run_differences(const char *what, int buffer, fx_dtype t, int64_t n, const uint8_t *want, const uint8_t *got)
{
    size_t size = fx_dtype_size(t);
    int bad = 0;

    for (int64_t i = 0; i < n; i++) {
        uint64_t a = 0, b = 0;

        memcpy(&a, want + (size_t)i * size, size);
        memcpy(&b, got + (size_t)i * size, size);
        if (a == b || (run_is_nan(t, a) && run_is_nan(t, b)))
            continue;
        if (bad++ == 0)
            FXTEST_FAIL("%s: buffer %d, element %" PRId64 ": %s %" PRIx64 " compiled, %" PRIx64 " interpreted", what, buffer, i,
                        fx_dtype_name(t), b, a);
    }
    return bad;
}

/* Runs all tasks of kernel k both ways on copies of the buffers; returns how many elements differ. */
static inline int run_both(fx_kir_kernel *k, const fx_code *code, const uint64_t *args, const run_buffer *buffers, int n)
{
    uint8_t *copy[2][RUN_BUFFERS] = { { NULL } };
    void *at[2][RUN_BUFFERS] = { { NULL } };
    char name[128], tasks_name[140];
    fx_kir_fault fault[2];
    fx_kir_interp *x = NULL;
    fx_error err = { 0 };
    fx_code_run run;
    fx_code_tasks tasks;
    int64_t n_tasks;
    int bad = 0;

    snprintf(name, sizeof(name), "%.*s", FX_STR_ARG(k->name));
    snprintf(tasks_name, sizeof(tasks_name), "%s_tasks", name);
    run = (fx_code_run)fx_code_find(code, fx_str_of(name));
    tasks = (fx_code_tasks)fx_code_find(code, fx_str_of(tasks_name));
    if (!run || !tasks || fx_kir_interp_new(&x, &fx_mem_libc, k, &err) != FORNAX_OK) {
        FXTEST_FAIL("%s: no code, or no interpreter: %s", name, err.text);
        return 1;
    }
    memset(fault, 0, sizeof(fault));
    for (int v = 0; v < 2; v++) {
        fault[v].op = -1;
        for (int i = 0; i < n; i++) {
            size_t bytes = (size_t)buffers[i].n * fx_dtype_size(buffers[i].t);

            copy[v][i] = malloc(bytes + 1);
            memcpy(copy[v][i], buffers[i].data, bytes);
            at[v][i] = copy[v][i];
        }
    }
    n_tasks = fx_kir_interp_tasks(x, &(fx_kir_launch){ args, at[0] });
    if (n_tasks != tasks(args))
        FXTEST_FAIL("%s: %" PRId64 " tasks compiled, %" PRId64 " interpreted", name, tasks(args), n_tasks);
    fx_kir_interp_run(x, &(fx_kir_launch){ args, at[0] }, 0, n_tasks, &fault[0]);
    run(args, at[1], 0, n_tasks, &fault[1]);
    if (memcmp(&fault[0], &fault[1], sizeof(fault[0])) != 0)
        FXTEST_FAIL("%s: fault op %d axis %d index %" PRId64 " of %" PRId64 " compiled, op %d axis %d index %" PRId64 " of %" PRId64 " interpreted",
                    name, fault[1].op, fault[1].axis, fault[1].index, fault[1].extent, fault[0].op, fault[0].axis, fault[0].index,
                    fault[0].extent);
    for (int i = 0; i < n; i++) {
        bad += run_differences(name, i, buffers[i].t, buffers[i].n, copy[0][i], copy[1][i]);
        free(copy[0][i]);
        free(copy[1][i]);
    }
    fx_kir_interp_free(x);
    return bad;
}

#endif
