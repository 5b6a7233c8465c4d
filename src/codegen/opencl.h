/* opencl.h - a kernel as OpenCL C, for devices that take source text.
 *
 * The kernel's parameters are those of docs/kir.md, but that each buffer is a parameter of its own:
 *
 *     __kernel void k(__global const ulong *args, long t0, long t1, __global fx_fault *fault, __global float *b3, ...)
 *
 * A work-group is a task, t0 + get_group_id(0).  As on other GPUs (codegen/llvm/ll_offload.c), its work-items share the
 * iterations of FORALL and THREADS, whatever their number; one does all of a kernel that has neither, nor arrays.  To be
 * built with FX_OPENCL_OPTIONS. */
#ifndef FX_OPENCL_H
#define FX_OPENCL_H

#include "kir/kir.h"

#define FX_OPENCL_OPTIONS "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"

extern const char fx_opencl_prelude[];           /* opencl_prelude.c: what the text leans on; fx_opencl_print begins with it */

/* Appends the program. Kernels must have had their math expanded, and not be widened. Numbers the ops. */
fx_status fx_opencl_print(fx_buf *out, fx_kir_kernel *k, fx_error *err);

#endif
