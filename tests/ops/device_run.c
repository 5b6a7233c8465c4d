/* device_run.c - see device_run.h. A launch is a program of its own: its buffers go there, and come back if it writes them. */
#include "device_run.h"

#include <stdlib.h>

#include "codegen/opencl.h"
#include "opencl_device.h"

enum { ITEMS = 4, MAX_BUFFERS = 64, READ_WRITE_COPIED = 1 | 32 };

void *device_open(void)
{
    opencl *cl = calloc(1, sizeof(*cl));

    if (cl && opencl_open(cl))
        return cl;
    free(cl);
    return NULL;
}

void device_close(void *device)
{
    if (device)
        opencl_close(device);
    free(device);
}

static void need(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "graphrun: OpenCL: %s\n", what);
    exit(2);
}

static void *make_kernel(opencl *cl, fx_kir_kernel *k, void **program)
{
    fx_error err = { 0 };
    char name[160];
    void *kernel;
    fx_buf text;
    int st = 0;

    fx_buf_init(&text, &fx_mem_libc);
    need(fx_opencl_print(&text, k, &err) == FORNAX_OK, err.text);
    *program = opencl_build(cl, text.p, FX_OPENCL_OPTIONS);
    need(*program != NULL, "a program isn't built");
    snprintf(name, sizeof(name), "%.*s", FX_STR_ARG(k->name));
    kernel = cl->clCreateKernel(*program, name, &st);
    need(kernel != NULL && st == 0, "there is no kernel");
    fx_buf_done(&text);
    return kernel;
}

static size_t bytes_of(const fx_kir_buf *b, const uint64_t *args)
{
    size_t n = fx_dtype_size(b->dtype);

    for (int i = 0; i < b->rank; i++)
        n *= (size_t)(b->extent[i]->code == FX_KIR_CONST ? b->extent[i]->u.i : (int64_t)args[b->extent[i]->u.i]);
    return n;
}

static void *copied(opencl *cl, const void *data, size_t n)
{
    static uint64_t nothing;
    int st = 0;
    void *mem = cl->clCreateBuffer(cl->context, READ_WRITE_COPIED, n ? n : 1, (void *)(uintptr_t)(n ? data : &nothing), &st);

    need(mem != NULL && st == 0, "no memory");
    return mem;
}

void device_run(void *user, fx_kir_kernel *k, const fx_kir_launch *l, int64_t tasks, fx_kir_fault *fault)
{
    opencl *cl = user;
    void *program, *kernel = make_kernel(cl, k, &program), *mem[MAX_BUFFERS], *args, *faults;
    const fx_kir_buf *buf[MAX_BUFFERS];
    size_t items = ITEMS, global = (size_t)tasks * ITEMS;
    int64_t t0 = 0;
    int n = 0, st = 0;

    for (size_t i = 0; i < k->params.n; i++) {
        if (k->params.at[i]->code != FX_KIR_BUFFER)
            continue;
        need(n < MAX_BUFFERS, "too many buffers");
        buf[n] = k->params.at[i]->u.buf;
        mem[n] = copied(cl, l->buffers[n], bytes_of(buf[n], l->args));
        st |= cl->clSetKernelArg(kernel, (unsigned)n + 4, sizeof(void *), &mem[n]);
        n++;
    }
    args = copied(cl, l->args, (size_t)k->n_args * 8);
    faults = copied(cl, fault, sizeof(*fault));
    st |= cl->clSetKernelArg(kernel, 0, sizeof(void *), &args) | cl->clSetKernelArg(kernel, 1, 8, &t0) |
          cl->clSetKernelArg(kernel, 2, 8, &tasks) | cl->clSetKernelArg(kernel, 3, sizeof(void *), &faults);
    if (tasks > 0)
        st |= cl->clEnqueueNDRangeKernel(cl->queue, kernel, 1, NULL, &global, &items, 0, NULL, NULL);
    st |= cl->clEnqueueReadBuffer(cl->queue, faults, 1, 0, sizeof(*fault), fault, 0, NULL, NULL);
    for (int i = 0; i < n; i++) {
        size_t bytes = bytes_of(buf[i], l->args);

        if (buf[i]->access != FX_KIR_IN && bytes)
            st |= cl->clEnqueueReadBuffer(cl->queue, mem[i], 1, 0, bytes, l->buffers[i], 0, NULL, NULL);
        cl->clReleaseMemObject(mem[i]);
    }
    need(st == 0, "a call failed");
    cl->clReleaseMemObject(args);
    cl->clReleaseMemObject(faults);
    cl->clReleaseKernel(kernel);
    cl->clReleaseProgram(program);
}
