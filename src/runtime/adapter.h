/* adapter.h - low-rank adapters (LoRA, arXiv 2106.09685): y = x W^T + scale (x A^T) B^T.
 *
 * An adapter belongs to a program compiled with room for adapters and is immutable;
 * a step names one for each sequence (tensor/rows.h).  For the rows of such sequences
 * the product's tile gets (x A^T) B^T, computed in f32 by the same kernels as any f32 product,
 * before bias, residual and scale; other rows run the code they run without
 * adapters, so their bits are those of the bare model.
 *
 *     fx_adapter_new(&a, program, &source, err);
 *     step.adapters = (const fx_adapter *const[]){ a };  step.seqs[0].adapter = 0;
 *
 * A caller frees an adapter when no step can name it any more. */
#ifndef FX_ADAPTER_H
#define FX_ADAPTER_H

#include "base/str.h"
#include "runtime/program.h"

typedef struct fx_adapter_pair {
    const float *a, *b;          /* [rank, k], [n, rank] */
    int64_t rank, k, n;
    float scale;
} fx_adapter_pair;

typedef struct fx_adapter_source {
    /* The pair for the base tensor of this name; false: none. */
    bool (*find)(void *user, fx_str name, fx_adapter_pair *out);
    /* Rows of the base tensor. */
    int64_t (*rows)(void *user, fx_str name);
    void *user;
} fx_adapter_source;

#define FX_ADAPTER_MAX_RANK 512

fx_status fx_adapter_new(fx_adapter **out, const fx_program *p, const fx_adapter_source *source, fx_error *err);
void fx_adapter_free(fx_adapter *a);

#endif
