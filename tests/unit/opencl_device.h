/* opencl_device.h - runs a program on the first OpenCL device that has doubles; libOpenCL is opened at run time. */
#ifndef FX_OPENCL_DEVICE_H
#define FX_OPENCL_DEVICE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Of the OpenCL specification: */
#define CL_FN(name, ...) int (*name)(__VA_ARGS__)
#define CL_MAKE(name, ...) void *(*name)(__VA_ARGS__)
typedef struct opencl {
    void *lib, *device, *context, *queue;
    CL_FN(clGetPlatformIDs, unsigned, void **, unsigned *);
    CL_FN(clGetDeviceIDs, void *, uint64_t, unsigned, void **, unsigned *);
    CL_MAKE(clCreateContext, const intptr_t *, unsigned, void *const *, void *, void *, int *);
    CL_MAKE(clCreateCommandQueue, void *, void *, uint64_t, int *);
    CL_MAKE(clCreateProgramWithSource, void *, unsigned, const char **, const size_t *, int *);
    CL_FN(clBuildProgram, void *, unsigned, void *const *, const char *, void *, void *);
    CL_FN(clGetProgramBuildInfo, void *, void *, unsigned, size_t, void *, size_t *);
    CL_MAKE(clCreateKernel, void *, const char *, int *);
    CL_MAKE(clCreateBuffer, void *, uint64_t, size_t, void *, int *);
    CL_FN(clSetKernelArg, void *, unsigned, size_t, const void *);
    CL_FN(clEnqueueNDRangeKernel, void *, void *, unsigned, const size_t *, const size_t *, const size_t *, unsigned, void *, void *);
    CL_FN(clEnqueueReadBuffer, void *, void *, unsigned, size_t, size_t, void *, unsigned, void *, void *);
    CL_FN(clReleaseMemObject, void *);
    CL_FN(clReleaseKernel, void *);
    CL_FN(clReleaseProgram, void *);
    CL_FN(clReleaseCommandQueue, void *);
    CL_FN(clReleaseContext, void *);
} opencl;

static inline bool opencl_symbols(opencl *cl)
{
    struct { const char *name; void *at; } rows[] = {
#define ROW(f) { #f, &cl->f }
        ROW(clGetPlatformIDs), ROW(clGetDeviceIDs), ROW(clCreateContext), ROW(clCreateCommandQueue), ROW(clCreateProgramWithSource),
        ROW(clBuildProgram), ROW(clGetProgramBuildInfo), ROW(clCreateKernel), ROW(clCreateBuffer), ROW(clSetKernelArg),
        ROW(clEnqueueNDRangeKernel), ROW(clEnqueueReadBuffer), ROW(clReleaseMemObject), ROW(clReleaseKernel), ROW(clReleaseProgram),
        ROW(clReleaseCommandQueue), ROW(clReleaseContext),
#undef ROW
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *p = dlsym(cl->lib, rows[i].name);

        if (!p)
            return false;
        memcpy(rows[i].at, &p, sizeof(p));
    }
    return true;
}

/* False: there is no device. */
static inline bool opencl_open(opencl *cl)
{
    void *platforms[8];
    unsigned n = 0;
    int st = 0;

    memset(cl, 0, sizeof(*cl));
    cl->lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cl->lib || !opencl_symbols(cl) || cl->clGetPlatformIDs(8, platforms, &n) != 0)
        return false;
    for (unsigned i = 0; i < n && i < 8 && !cl->device; i++) {
        unsigned devices = 0;

        if (cl->clGetDeviceIDs(platforms[i], 0xffffffffu, 1, &cl->device, &devices) != 0 || !devices)
            cl->device = NULL;
    }
    if (!cl->device)
        return false;
    cl->context = cl->clCreateContext(NULL, 1, &cl->device, NULL, NULL, &st);
    cl->queue = cl->context ? cl->clCreateCommandQueue(cl->context, cl->device, 0, &st) : NULL;
    return cl->queue != NULL;
}

static inline void opencl_close(opencl *cl)
{
    if (cl->queue)
        cl->clReleaseCommandQueue(cl->queue);
    if (cl->context)
        cl->clReleaseContext(cl->context);
}

/* NULL: it isn't built; what the compiler said goes to standard error. */
static inline void *opencl_build(opencl *cl, const char *text, const char *options)
{
    int st;
    void *program = cl->clCreateProgramWithSource(cl->context, 1, &text, NULL, &st);

    if (program && cl->clBuildProgram(program, 1, &cl->device, options, NULL, NULL) != 0) {
        static char said[20000];

        cl->clGetProgramBuildInfo(program, cl->device, 0x1183, sizeof(said) - 1, said, NULL);
        fprintf(stderr, "%s\n%s\n", said, text);
        cl->clReleaseProgram(program);
        return NULL;
    }
    return program;
}

#endif
