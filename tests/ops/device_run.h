/* device_run.h - kernels of a plan on an OpenCL device, such as PoCL. */
#ifndef FX_DEVICE_RUN_H
#define FX_DEVICE_RUN_H

#include "runtime/kexec.h"

/* NULL: there is no device. */
void *device_open(void);
void device_close(void *device);
/* For fx_kexec_device; user: the device. What goes wrong ends the process. */
void device_run(void *user, fx_kir_kernel *k, const fx_kir_launch *l, int64_t tasks, fx_kir_fault *fault);

#endif
