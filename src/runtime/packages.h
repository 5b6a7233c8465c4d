/* packages.h - kernel packages (include/fornax_kernel.h): shared objects opened, their kernels found by name.
 *
 *     FX_TRY(fx_packages_open(&p, mem, paths, n, err));
 *     const fornax_kernel *k = fx_packages_find(p, FX_STR("gated_logits"));      NULL: in none of them
 *
 * A path is opened as it is; what a package does is its own affair. */
#ifndef FX_PACKAGES_H
#define FX_PACKAGES_H

#include "base/status.h"
#include "base/str.h"
#include "fornax_kernel.h"

typedef struct fx_packages fx_packages;

/* FORNAX_EIO: a file can't be opened; FORNAX_EFORMAT: it is no package, or of another ABI; FORNAX_EUNSUP: a folder of sources. */
fx_status fx_packages_open(fx_packages **out, const fx_mem *mem, const fx_str *paths, size_t n, fx_error *err);
void fx_packages_close(fx_packages *p);                  /* NULL is fine */
/* In the first package that has it. */
const fornax_kernel *fx_packages_find(const fx_packages *p, fx_str name);

#endif
