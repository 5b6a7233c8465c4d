/* adapter_int.h - the inside of an adapter, for exec.c and adapter_run.c. */
#ifndef FX_ADAPTER_INT_H
#define FX_ADAPTER_INT_H

#include "runtime/adapter.h"
#include "runtime/program_int.h"

/* What one source tensor of a plan weight gets. */
typedef struct fx_adapter_part {
    int32_t weight;              /* of the plan */
    int64_t col0, n, k, rank;    /* columns [col0, col0 + n) of the product */
    float scale;
    uint8_t *a, *b;              /* packed for the f32 kernel: [rank, k], [n, rank] */
    size_t a_tile, b_tile, a_bytes, b_bytes;
} fx_adapter_part;

struct fx_adapter {
    const fx_mem *mem;
    const fx_matmul_kernel *kernel;
    FX_VEC(fx_adapter_part) parts;   /* by weight */
};

/* Rows of a step that share an adapter. */
typedef struct fx_adapter_run {
    int32_t row0, n;
    const fx_adapter *adapter;
} fx_adapter_run;

typedef struct fx_adapter_item {
    const fx_adapter_run *run;
    const fx_adapter_part *part;
    bool first;                  /* of its run: clears the run's rows */
    int64_t t_col;
} fx_adapter_item;

/* What an exec keeps for adapters; NULL where the program has no room for them. */
typedef struct fx_adapting fx_adapting;

fx_status fx_adapting_new(fx_adapting **out, const fx_program *p, int64_t max_rows, size_t *scratch, fx_error *err);
void fx_adapting_free(fx_adapting *x);
/* Which rows have adapters in this step. */
void fx_adapting_begin(fx_adapting *x, const fx_step *step);
/* Whether this product has anything to add; then two jobs run before it, and fx_adapting_row gives
 * each row's addend. plain: x in f32. */
bool fx_adapting_product(fx_adapting *x, int32_t weight, fx_rows_of rows, fx_cmat plain, int64_t n);
void fx_adapting_job(fx_adapting *x, int phase, void *scratch, size_t scratch_each, fx_pool_job *job);
const float *fx_adapting_row(const fx_adapting *x, int64_t row);      /* NULL: none */

#endif
