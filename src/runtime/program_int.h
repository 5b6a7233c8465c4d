/* program_int.h - the inside of fx_program, shared by program.c and exec.c. */
#ifndef FX_PROGRAM_INT_H
#define FX_PROGRAM_INT_H

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "kir/plan.h"
#include "runtime/bind.h"
#include "runtime/program.h"

/* A plan weight in the form its launches read. */
typedef struct fx_bound_weight {
    const void *data;            /* TABLE: file rows or 'owned'; VECTOR: f32; MATMUL: tiles */
    void *owned;                 /* in a region of the program, or NULL: a view of the file */
    size_t owned_bytes;
    fx_dtype dtype;              /* as held */
    size_t row_bytes;            /* TABLE */
    size_t tile_bytes, expert_bytes;   /* MATMUL; of one expert */
    const fx_matmul_kernel *kernel;
} fx_bound_weight;

/* Pages that many weights share: most weights are smaller than a huge page. */
typedef struct fx_weight_region {
    struct fx_weight_region *next;
    uint8_t *at;                 /* from fx_pages_alloc */
    size_t bytes, used;
} fx_weight_region;

struct fx_program {
    const fx_mem *mem;
    fx_arena arena;              /* the plan lives here */
    const fx_plan *plan;
    fx_state_table state;
    fx_cpu cpu;
    bool adapters;               /* steps may name adapters */
    fx_bound_weight *weights;    /* [plan->n_weights] */
    fx_weight_region *regions;   /* newest first */
    size_t weight_bytes;         /* resident, owned */
};

#endif
