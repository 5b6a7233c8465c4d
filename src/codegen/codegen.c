/* codegen.c - opens the LLVM part of the library when code is first to be made.
 *
 * It stays in the process once opened: LLVM's own globals don't bear being unloaded. */
#include "codegen/codegen.h"

#include <dlfcn.h>
#include <stdio.h>

#include "codegen/codegen_plugin.h"

#define PLUGIN_FILE "libfornax-llvm.so.0"       /* 0: the soname's, as libfornax.so.0 */

struct fx_codegen {
    const fx_mem *mem;
    void *handle;
    const fx_codegen_plugin *plugin;
};

/* The same name in the folder of the file that this code came from; false: it doesn't fit. */
static bool beside_us(char *out, size_t size)
{
    Dl_info info;
    const char *slash;

    if (!dladdr((void *)(uintptr_t)fx_codegen_open, &info) || !info.dli_fname)
        return false;
    slash = strrchr(info.dli_fname, '/');
    if (!slash)
        return false;
    return (size_t)snprintf(out, size, "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname, PLUGIN_FILE) < size;
}

static void *open_file(const char *path)
{
    char near[4096];
    void *handle = NULL;

    if (path)
        return dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (beside_us(near, sizeof(near)))
        handle = dlopen(near, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    return handle ? handle : dlopen(PLUGIN_FILE, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
}

static fx_status open_plugin(fx_codegen *cg, const char *path, fx_error *err)
{
    const fx_codegen_plugin *(*entry)(void);
    void *symbol;

    cg->handle = open_file(path);
    if (!cg->handle)
        return fx_fail(err, FORNAX_EUNSUP, "can't compile kernels without %s (Fornax's LLVM part): %s",
                       path ? path : PLUGIN_FILE, dlerror());
    symbol = dlsym(cg->handle, "fornax_llvm_plugin");
    memcpy(&entry, &symbol, sizeof(entry));
    cg->plugin = symbol ? entry() : NULL;
    if (!cg->plugin || cg->plugin->abi() != fx_codegen_abi())
        return fx_fail(err, FORNAX_EUNSUP, "%s is of another build than this library", path ? path : PLUGIN_FILE);
    return FORNAX_OK;
}

fx_status fx_codegen_open(fx_codegen **out, const fx_mem *mem, const char *path, fx_error *err)
{
    fx_codegen *cg = fx_mem_zalloc(mem, sizeof(*cg));
    fx_status st;

    *out = NULL;
    if (!cg)
        return fx_nomem(err, "a code generator");
    cg->mem = mem;
    st = open_plugin(cg, path, err);
    if (st == FORNAX_OK)
        *out = cg;
    else
        fx_codegen_close(cg);
    return st;
}

void fx_codegen_close(fx_codegen *cg)
{
    if (!cg)
        return;
    if (cg->handle)
        dlclose(cg->handle);
    fx_mem_free(cg->mem, cg, sizeof(*cg));
}

const char *fx_codegen_version(const fx_codegen *cg) { return cg->plugin->llvm; }

fx_status fx_codegen_compile(const fx_codegen *cg, fx_buf *out, fx_kir_module *m, const fx_target *t,
                             const fx_codegen_options *o, fx_error *err)
{
    return cg->plugin->compile(out, m, t, o, err);
}
