/* fornax_kernel.h - kernels of your own for graphs (fornax_graph.h): C code in a shared object, a *package*.
 *
 *     static int gated_logits(const fornax_kernel_call *c)
 *     {
 *         const float *logits = c->in[0].data, *mask = c->in[1].data;
 *         float *y = c->out[0].data;
 *         for (int64_t i = 0; i < fornax_kernel_count(&c->out[0]); i++)
 *             y[i] = logits[i] + mask[i];
 *         return 0;
 *     }
 *     static const fornax_kernel kernels[] = { { "gated_logits", gated_logits } };
 *     FORNAX_KERNEL_PACKAGE(kernels)
 *
 *     cc -shared -fPIC gated.c -o gated.so
 *
 * A module that was told of the package (fornax_module_add_library) may name its kernels in custom ops. The file is opened
 * when a program is, also one of a graph that was loaded. Kernels must be functions of their operands: runs with the
 * same inputs are expected to give the same bits, and any number of threads may be in a kernel at once. */
#ifndef FORNAX_KERNEL_H
#define FORNAX_KERNEL_H

#include "fornax_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FORNAX_KERNEL_ABI 1

/* Row-major; data may be NULL if there are no elements. */
typedef struct fornax_kernel_tensor {
    fornax_dtype dtype;
    int rank;
    const int64_t *dim;
    void *data;
} fornax_kernel_tensor;

static inline int64_t fornax_kernel_count(const fornax_kernel_tensor *t)
{
    int64_t n = 1;
    int i;

    for (i = 0; i < t->rank; i++)
        n *= t->dim[i];
    return n;
}

typedef struct fornax_kernel_call fornax_kernel_call;
struct fornax_kernel_call {
    size_t size;                /* of this struct; it grows at the end */
    const fornax_kernel_tensor *in, *out;    /* operands (buffers among them may be written), results */
    size_t n_in, n_out;
    const fornax_param *params; /* of the op */
    size_t n_params;
    char *error;                /* for a sentence, if the kernel fails */
    size_t error_bytes;
};

typedef struct fornax_kernel {
    const char *name;
    int (*run)(const fornax_kernel_call *call);      /* 0, or 1 with a sentence in 'error' */
} fornax_kernel;

typedef struct fornax_kernel_package {
    int abi;                    /* FORNAX_KERNEL_ABI */
    size_t n;
    const fornax_kernel *kernels;
} fornax_kernel_package;

#if defined(__GNUC__)
#define FORNAX_KERNEL_EXPORT __attribute__((visibility("default")))
#else
#define FORNAX_KERNEL_EXPORT
#endif

/* The package's one symbol: its table. */
#define FORNAX_KERNEL_PACKAGE(table)                                                                                  \
    FORNAX_KERNEL_EXPORT const fornax_kernel_package *fornax_kernels(void);                                           \
    const fornax_kernel_package *fornax_kernels(void)                                                                 \
    {                                                                                                                 \
        static const fornax_kernel_package package = { FORNAX_KERNEL_ABI, sizeof(table) / sizeof((table)[0]), table }; \
        return &package;                                                                                              \
    }

#ifdef __cplusplus
}
#endif
#endif
