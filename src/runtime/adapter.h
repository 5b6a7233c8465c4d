/* adapter.h - low-rank adapters (LoRA, arXiv 2106.09685): y = x W^T + scale (x A^T) B^T.
 *
 * An adapter belongs to a program compiled with room for adapters and is immutable;
 * a step names one for each sequence (tensor/rows.h).  For the rows of such sequences
 * the product's tile gets (x A^T) B^T, computed in f32 by the same kernels as any f32 product,
 * before bias, residual and scale; other rows run the code they run without
 * adapters, so their bits are those of the bare model.  A table's rows get A's column of
 * their token times B^T, an expert's slots their expert's pair.
 *
 *     fx_adapter_new(&a, program, &source, err);
 *     step.adapters = (const fx_adapter *const[]){ a };  step.seqs[0].adapter = 0;
 *
 * A caller frees an adapter when no step can name it any more. */
#ifndef FX_ADAPTER_H
#define FX_ADAPTER_H

#include "base/str.h"
#include "runtime/program.h"

/* What the program wants to know: the pair for a matrix of the model. */
typedef struct fx_adapter_ask {
    fx_str tensor;               /* of the model's file */
    bool table;                  /* rows are looked up, not multiplied */
    bool transposed;             /* the matrix is the tensor with its axes exchanged */
    int32_t expert;              /* of a stacked tensor; else -1 */
    int32_t half;                /* of a tensor of gate and up: 1 gate, 2 up; 0: all of it */
    int64_t k, n;                /* columns; rows (of one expert, of the half); n 0: all of the tensor's */
} fx_adapter_ask;

typedef struct fx_adapter_pair {
    const float *a, *b;          /* [rank, k], [n, rank]; of a table [rank, n], [k, rank] */
    int64_t rank, n;             /* rank 0: there is none */
    float scale;
} fx_adapter_pair;

/* Gives the pair with shapes as asked for; it is borrowed until the next call. */
typedef struct fx_adapter_source {
    fx_status (*find)(void *user, const fx_adapter_ask *ask, fx_adapter_pair *out, fx_error *err);
    int64_t (*rows)(void *user, fx_str tensor);      /* of a matrix of the model's file */
    void *user;
} fx_adapter_source;

#define FX_ADAPTER_MAX_RANK 512

fx_status fx_adapter_new(fx_adapter **out, const fx_program *p, const fx_adapter_source *source, fx_error *err);
void fx_adapter_free(fx_adapter *a);

#endif
