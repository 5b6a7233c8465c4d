/* gated_logits_kernel.c - a kernel package with one kernel: out = logits + mask.
 *
 *     cc -shared -fPIC gated_logits_kernel.c -o gated_logits.so $(pkg-config --cflags fornax) */
#include <fornax_kernel.h>
#include <stdio.h>

static int gated_logits(const fornax_kernel_call *c)
{
    const float *logits, *mask;
    float *y;

    if (c->n_in != 2 || c->n_out != 1 || c->in[0].dtype != FORNAX_F32 || c->in[1].dtype != FORNAX_F32 ||
        fornax_kernel_count(&c->in[0]) != fornax_kernel_count(&c->in[1]) ||
        fornax_kernel_count(&c->in[0]) != fornax_kernel_count(&c->out[0])) {
        snprintf(c->error, c->error_bytes, "expected logits and a mask of the same size, f32");
        return 1;
    }
    logits = c->in[0].data;
    mask = c->in[1].data;
    y = c->out[0].data;
    for (int64_t i = 0; i < fornax_kernel_count(&c->out[0]); i++)
        y[i] = logits[i] + mask[i];
    return 0;
}

static const fornax_kernel kernels[] = { { "gated_logits", gated_logits } };
FORNAX_KERNEL_PACKAGE(kernels)
