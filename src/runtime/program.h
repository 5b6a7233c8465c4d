/* program.h - a compiled model, and one that runs it.
 *
 * fx_program: plan, packed weights, chosen kernels; immutable, shared by engines.
 * fx_exec:    buffers and bound arguments of one caller; runs one step at a time.
 *
 *     fx_exec *x;
 *     fx_exec_new(&x, program, pool, max_rows, max_logits, err);
 *     fx_exec_run(x, &step);                       allocates nothing
 *     const float *row = fx_exec_logits(x, i);      [vocab], until the next run
 *
 * Threads: an exec belongs to one thread at a time; the pool may be shared. */
#ifndef FX_PROGRAM_H
#define FX_PROGRAM_H

#include "base/pool.h"
#include "base/status.h"
#include "tensor/rows.h"

typedef struct fx_program fx_program;
typedef struct fx_exec fx_exec;

const fx_state_table *fx_program_state(const fx_program *p);
int64_t fx_program_vocab(const fx_program *p);
/* Multiplications with weights, by how they are done. */
typedef struct fx_products {
    int64_t int8, bf16, f32;
} fx_products;

/* What a row costs: bytes of weights read, products of one without logits, those that logits add. And for each position
 * before it, in layers that see all of them: bytes of keys and values, multiplications with them. */
typedef struct fx_program_work {
    int64_t bytes;
    fx_products row, logits;
    int64_t context_bytes, context_products;
} fx_program_work;
fx_program_work fx_program_row_work(const fx_program *p);

/* Do some of its products round activations to bf16 (part of the numerics id)? */
bool fx_program_rounds_bf16(const fx_program *p);
void fx_program_free(fx_program *p);

/* A step may have at most max_rows rows, max_logits of them wanting logits. */
fx_status fx_exec_new(fx_exec **out, const fx_program *p, fx_pool *pool, int64_t max_rows, int64_t max_logits,
                      fx_error *err);
void fx_exec_free(fx_exec *x);
void fx_exec_run(fx_exec *x, const fx_step *step);
uint64_t fx_exec_launches(const fx_exec *x);       /* begun so far, by any number of runs; any thread */
uint64_t fx_exec_generated(const fx_exec *x);      /* of those, generated kernels */
float *fx_exec_logits(fx_exec *x, int64_t i);      /* row i of the step's logit_rows; writable */

#endif
