/* adapter_int.h - the inside of an adapter, for exec.c and adapter_run.c. */
#ifndef FX_ADAPTER_INT_H
#define FX_ADAPTER_INT_H

#include "runtime/adapter.h"
#include "runtime/program_int.h"

/* What one matrix of a plan weight gets: a source tensor of a product, an expert, or a table. */
typedef struct fx_adapter_part {
    int64_t col0, n, k, rank;    /* columns [col0, col0 + n) of the product; rank 0: nothing */
    float scale;
    const uint8_t *a, *b;        /* packed for the f32 kernel: [rank, k], [n, rank]; of a table a is f32 [rows, rank] */
    size_t a_tile, b_tile;
} fx_adapter_part;

/* Pages that many matrices share. */
typedef struct fx_weight_region {
    struct fx_weight_region *next;
    uint8_t *at;                 /* from fx_pages_alloc */
    size_t bytes, used;
} fx_weight_region;

struct fx_adapter {
    const fx_mem *mem;
    const fx_matmul_kernel *kernel;
    int32_t n_weights;
    int32_t *first;              /* [n_weights + 1] into parts: of experts one for each */
    FX_VEC(fx_adapter_part) parts;
    fx_weight_region *regions;   /* newest first; from mem */
};

/* What an exec keeps for adapters; NULL where the program has no room for them. */
typedef struct fx_adapting fx_adapting;

fx_status fx_adapting_new(fx_adapting **out, const fx_program *p, int64_t max_rows, size_t *scratch, fx_error *err);
void fx_adapting_free(fx_adapting *x);
/* Which rows have adapters in this step. */
void fx_adapting_begin(fx_adapting *x, const fx_step *step);
/* Whether any has. */
bool fx_adapting_any(const fx_adapting *x);
/* Whether adapters add to this launch; 'plain' is x in f32. Before a product two jobs run then, and
 * *addend is what its epilogue adds (fx_epilogue_add); behind a lookup, one. */
bool fx_adapting_product(fx_adapting *x, const fx_launch *l, fx_cmat plain, const float *const **addend);
bool fx_adapting_experts(fx_adapting *x, const fx_launch *l, fx_cmat plain, const float *const **addend);
bool fx_adapting_table(fx_adapting *x, const fx_launch *l);
typedef enum fx_adapting_phase { FX_ADAPTING_INNER, FX_ADAPTING_OUTER } fx_adapting_phase;
void fx_adapting_job(fx_adapting *x, fx_adapting_phase phase, void *scratch, size_t scratch_each, fx_pool_job *job);

#endif
