/* custom_op_kernel.c - a kernel package: y = x * factor + shift, with two parameters of the op.
 *
 *     cc -shared -fPIC custom_op_kernel.c -o custom_op.so $(pkg-config --cflags fornax) */
#include <fornax_kernel.h>
#include <stdio.h>
#include <string.h>

static int64_t parameter(const fornax_kernel_call *c, const char *name, int64_t otherwise)
{
    for (size_t i = 0; i < c->n_params; i++) {
        if (strcmp(c->params[i].name, name) == 0)
            return c->params[i].i;
    }
    return otherwise;
}

static int affine(const fornax_kernel_call *c)
{
    float factor = (float)parameter(c, "factor", 1), shift = (float)parameter(c, "shift", 0);
    const float *x = c->in[0].data;
    float *y = c->out[0].data;

    if (c->in[0].dtype != FORNAX_F32 || fornax_kernel_count(&c->in[0]) != fornax_kernel_count(&c->out[0])) {
        snprintf(c->error, c->error_bytes, "affine is for f32, and keeps the shape");
        return 1;
    }
    for (int64_t i = 0; i < fornax_kernel_count(&c->out[0]); i++)
        y[i] = x[i] * factor + shift;
    return 0;
}

static const fornax_kernel kernels[] = { { "affine", affine } };
FORNAX_KERNEL_PACKAGE(kernels)
