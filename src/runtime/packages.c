/* packages.c - see packages.h. */
#include "runtime/packages.h"

#include <dlfcn.h>
#include <sys/stat.h>

struct fx_packages {
    const fx_mem *mem;
    size_t n;
    void **handles;
    const fornax_kernel_package **tables;
};

typedef const fornax_kernel_package *(*package_fn)(void);

static fx_status open_one(fx_packages *p, size_t i, fx_str path, fx_error *err)
{
    char name[4096];
    struct stat s;
    package_fn get;

    if (path.n >= sizeof(name))
        return fx_fail(err, FORNAX_EARG, "the path of a kernel package is too long");
    memcpy(name, path.p, path.n);
    name[path.n] = 0;
    if (stat(name, &s) == 0 && S_ISDIR(s.st_mode))
        return fx_fail(err, FORNAX_EUNSUP, "%s: kernels in a folder of sources can't be compiled yet; build a package (fornax_kernel.h)", name);
    p->handles[i] = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!p->handles[i])
        return fx_fail(err, FORNAX_EIO, "kernel package %s", dlerror());
    get = (package_fn)(uintptr_t)dlsym(p->handles[i], "fornax_kernels");
    p->tables[i] = get ? get() : NULL;
    if (!p->tables[i])
        return fx_fail(err, FORNAX_EFORMAT, "%s: not a kernel package: it shows no fornax_kernels", name);
    if (p->tables[i]->abi != FORNAX_KERNEL_ABI)
        return fx_fail(err, FORNAX_EFORMAT, "%s: made for ABI %d of kernels, this is %d", name, p->tables[i]->abi, FORNAX_KERNEL_ABI);
    return FORNAX_OK;
}

fx_status fx_packages_open(fx_packages **out, const fx_mem *mem, const fx_str *paths, size_t n, fx_error *err)
{
    fx_packages *p = fx_mem_zalloc(mem, sizeof(*p));
    fx_status st = FORNAX_OK;

    *out = NULL;
    if (!p)
        return fx_nomem(err, "kernel packages");
    *p = (fx_packages){ .mem = mem, .n = n };
    p->handles = fx_mem_array(mem, n + 1, sizeof(*p->handles));
    p->tables = fx_mem_array(mem, n + 1, sizeof(*p->tables));
    if (!p->handles || !p->tables)
        st = fx_nomem(err, "kernel packages");
    for (size_t i = 0; i < n && st == FORNAX_OK; i++)
        st = open_one(p, i, paths[i], err);
    if (st != FORNAX_OK)
        fx_packages_close(p);
    else
        *out = p;
    return st;
}

void fx_packages_close(fx_packages *p)
{
    if (!p)
        return;
    for (size_t i = 0; p->handles && i < p->n; i++) {
        if (p->handles[i])
            dlclose(p->handles[i]);
    }
    fx_mem_free(p->mem, p->handles, (p->n + 1) * sizeof(*p->handles));
    fx_mem_free(p->mem, p->tables, (p->n + 1) * sizeof(*p->tables));
    fx_mem_free(p->mem, p, sizeof(*p));
}

const fornax_kernel *fx_packages_find(const fx_packages *p, fx_str name)
{
    for (size_t i = 0; i < p->n; i++) {
        for (size_t k = 0; k < p->tables[i]->n; k++) {
            if (fx_str_is(name, p->tables[i]->kernels[k].name))
                return &p->tables[i]->kernels[k];
        }
    }
    return NULL;
}
