/* ref_tensor.c - the table of the general ops' meanings. */
#include "kernels/ref/ref_tensor.h"

#include <math.h>

static const fx_ref_fn table[FX_OP_COUNT] = {
#define REF(op, name) [FX_OP_##op] = fx_ref_##name,
#include "kernels/ref/ref_tensor.def"
};

bool fx_ref_has(fx_opcode op)
{
    return table[op] != NULL;
}

fx_status fx_ref_run(const fx_ref_call *c)
{
    if (!table[c->op])
        return fx_fail(c->err, FORNAX_EUNSUP, "%s: has no reference", fx_opcode_name(c->op));
    return table[c->op](c);
}

const fx_ref_attr *fx_ref_attr_of(const fx_ref_call *c, fx_attr_key key)
{
    int i = 0;

    while (i < c->n_attrs && c->attrs[i].key != key)
        i++;
    FX_ASSERT(i < c->n_attrs);
    return &c->attrs[i];
}

int64_t fx_ref_list(const fx_ref_call *c, fx_attr_key key, int64_t i, int64_t dflt)
{
    const fx_ref_attr *a = fx_ref_attr_of(c, key);

    return i < a->n ? a->list[i] : dflt;
}

int fx_ref_axis(const fx_ref_call *c, fx_attr_key key, int rank)
{
    int64_t axis = fx_ref_i(c, key);

    return (int)(axis < 0 ? axis + rank : axis);
}

fx_status fx_ref_outside(const fx_ref_call *c, int64_t index, int64_t size)
{
    return fx_fail(c->err, FORNAX_EARG, "%s: index %lld is outside of an axis of %lld", fx_opcode_name(c->op),
                   (long long)index, (long long)size);
}

bool fx_ref_less(const fx_tensor *t, const int64_t *a, const int64_t *b)
{
    double x, y;

    if (t->dtype == FX_U64)
        return (uint64_t)fx_tensor_i64(t, a) < (uint64_t)fx_tensor_i64(t, b);
    if (!fx_dtype_is_float(t->dtype))
        return fx_tensor_i64(t, a) < fx_tensor_i64(t, b);
    x = fx_tensor_f64(t, a);
    y = fx_tensor_f64(t, b);
    return isnan(y) ? !isnan(x) : x < y;
}
