/* program_int.h - the inside of fx_program, shared by program.c and exec.c. */
#ifndef FX_PROGRAM_INT_H
#define FX_PROGRAM_INT_H

#include <stdatomic.h>

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "runtime/bind.h"

/* A plan weight in the form its launches read. */
typedef struct fx_bound_weight {
    const void *data;            /* TABLE: file rows or converted; VECTOR: f32; MATMUL: tiles */
    size_t place, owned_bytes;   /* among those that the program owns; 0 bytes: a view of the file */
    fx_dtype dtype;              /* as held */
    size_t row_bytes;            /* TABLE */
    size_t tile_bytes, expert_bytes;   /* MATMUL; of one expert */
    const fx_matmul_kernel *kernel;
} fx_bound_weight;

struct fx_program {
    const fx_mem *mem;
    fx_arena arena;              /* the plan lives here */
    const fx_plan *plan;
    fx_state_table state;
    fx_cpu cpu;
    bool adapters;               /* steps may name adapters */
    fx_bound_weight *weights;    /* [plan->n_weights] */
    const uint8_t *owned;        /* all weights that aren't views of the file, in the order of the plan: most are */
    size_t owned_bytes;          /* smaller than a huge page */
    uint8_t *pages;              /* where they were filled in, from fx_pages_alloc; NULL: they were found */
    const fx_plan_calls *calls;  /* generated kernels instead of launches, or NULL */
    _Atomic(const fx_kcode *) code;      /* of their kernels; NULL: not there (yet) */
    void (*on_free)(void *user); /* or NULL */
    void *on_free_user;
};

/* What the owned bytes are made of and how: equal for two programs whose weights have equal bytes in files of equal content. */
fx_status fx_program_recipe(const fx_program *p, const fx_weight_source *source, fx_hash128 *out, fx_error *err);

#endif
