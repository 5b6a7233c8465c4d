/* kcode.h - kernels on their way to code, and code on its way to who runs it. */
#ifndef FX_KCODE_H
#define FX_KCODE_H

#include "codegen/code_load.h"
#include "codegen/codegen.h"
#include "runtime/kexec.h"

/* As codegen takes them: math expanded, checked, widened to 'lanes'. */
fx_status fx_kernels_ready(fx_kir_kernel *const *kernels, int32_t n, int lanes, fx_error *err);
/* The code of kernels by their names; *out: [n + 1], from mem. FORNAX_EFORMAT: one has none. */
fx_status fx_kcode_find(fx_kcode **out, const fx_mem *mem, const fx_code *loaded, const fx_str *names, int32_t n, fx_error *err);

#endif
