/* tensor.h - elements in memory with up to FX_MAX_RANK axes, each with a stride of its own.
 *
 * Strides count elements and may be 0 (an axis repeated) or negative. A tensor borrows its data.
 *
 *     fx_tensor t = fx_tensor_dense(FX_F32, 2, dims, data);
 *     int64_t at[FX_MAX_RANK] = { 0 };
 *     do {
 *         x = fx_tensor_f64(&t, at);
 *     } while (fx_tensor_next(&t, at));          (a tensor without elements: see fx_tensor_count)
 *
 * Numbers are read as f64 or i64 (u64 by its bits), whatever the dtype; all functions are pure. */
#ifndef FX_TENSOR_H
#define FX_TENSOR_H

#include "tensor/scalar.h"

#define FX_MAX_RANK 8

typedef struct fx_tensor {
    fx_dtype dtype;              /* a plain one */
    int rank;
    int64_t dim[FX_MAX_RANK], stride[FX_MAX_RANK];
    void *data;                  /* of the element at 0, 0, ... */
} fx_tensor;

/* Row-major. */
fx_tensor fx_tensor_dense(fx_dtype dtype, int rank, const int64_t *dims, void *data);
int64_t fx_tensor_count(const fx_tensor *t);

static inline void *fx_tensor_at(const fx_tensor *t, const int64_t *index)
{
    int64_t offset = 0;

    for (int i = 0; i < t->rank; i++)
        offset += index[i] * t->stride[i];
    return (char *)t->data + offset * (int64_t)fx_dtype_size(t->dtype);
}

/* The next index in row-major order; false behind the last one, when index is all 0 again. */
bool fx_tensor_next(const fx_tensor *t, int64_t *index);
/* t as an operand that broadcasts to the shape of y: axes aligned at the end, those of size 1 repeated. */
fx_tensor fx_tensor_broadcast(const fx_tensor *t, const fx_tensor *y);

/* The element as a double; integers are rounded to it. */
double fx_tensor_f64(const fx_tensor *t, const int64_t *index);
/* Of integers and bools. */
static inline int64_t fx_tensor_i64(const fx_tensor *t, const int64_t *index)
{
    return fx_scalar_i64(t->dtype, fx_tensor_at(t, index));
}
/* x rounded to t's dtype, which holds floats. */
static inline void fx_tensor_set_f64(const fx_tensor *t, const int64_t *index, double x)
{
    fx_scalar_set_f64(t->dtype, fx_tensor_at(t, index), x);
}
static inline void fx_tensor_set_i64(const fx_tensor *t, const int64_t *index, int64_t x)
{
    fx_scalar_set_i64(t->dtype, fx_tensor_at(t, index), x);
}
/* The element itself, between tensors of one dtype. */
static inline void fx_tensor_copy(const fx_tensor *to, const int64_t *i, const fx_tensor *from, const int64_t *k)
{
    memcpy(fx_tensor_at(to, i), fx_tensor_at(from, k), fx_dtype_size(to->dtype));
}

#endif
