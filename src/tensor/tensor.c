/* tensor.c - walks over strided tensors. */
#include "tensor/tensor.h"

fx_tensor fx_tensor_dense(fx_dtype dtype, int rank, const int64_t *dims, void *data)
{
    fx_tensor t = { .dtype = dtype, .rank = rank, .data = data };
    int64_t step = 1;

    FX_ASSERT(rank >= 0 && rank <= FX_MAX_RANK);
    for (int i = rank; i-- > 0; step *= dims[i]) {
        t.dim[i] = dims[i];
        t.stride[i] = step;
    }
    return t;
}

int64_t fx_tensor_count(const fx_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

bool fx_tensor_next(const fx_tensor *t, int64_t *index)
{
    for (int i = t->rank; i-- > 0;) {
        if (++index[i] < t->dim[i])
            return true;
        index[i] = 0;
    }
    return false;
}

fx_tensor fx_tensor_broadcast(const fx_tensor *t, const fx_tensor *y)
{
    fx_tensor b = { .dtype = t->dtype, .rank = y->rank, .data = t->data };
    int more = y->rank - t->rank;

    FX_ASSERT(more >= 0);
    for (int i = 0; i < y->rank; i++) {
        b.dim[i] = y->dim[i];
        b.stride[i] = i < more || t->dim[i - more] == 1 ? 0 : t->stride[i - more];
    }
    return b;
}

double fx_tensor_f64(const fx_tensor *t, const int64_t *index)
{
    const void *at = fx_tensor_at(t, index);
    int64_t i;

    if (fx_dtype_is_float(t->dtype))
        return fx_scalar_f64(t->dtype, at);
    i = fx_scalar_i64(t->dtype, at);
    return t->dtype == FX_U64 ? (double)(uint64_t)i : (double)i;
}
