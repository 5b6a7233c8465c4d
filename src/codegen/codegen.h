/* codegen.h - kernels of the loop IR become machine code, assembly or LLVM's text.
 *
 * The compiler proper is LLVM, in a shared object of its own (libfornax-llvm.so.N, codegen/llvm) that is opened
 * on first need: the library runs without it, and code made earlier is loaded without it (code_load.h).
 *
 *     fx_codegen *cg;
 *     FX_TRY(fx_codegen_open(&cg, mem, NULL, err));            FORNAX_EUNSUP: this machine has no LLVM
 *     FX_TRY(fx_target_named(&t, FX_STR("host"), err));
 *     st = fx_codegen_compile(cg, &object, module, &t, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, err);
 *
 * A kernel 'k' becomes two functions, with the signatures of docs/kir.md: fx_code_tasks 'k_tasks' and fx_code_run 'k'.
 * They call nothing: an object has no undefined symbols. Kernels are ones that fx_kir_check accepts, with
 * their math expanded, and those for a CPU widened.
 *
 * Threads: a compile has an LLVM context of its own; any number may run at once, of different modules. */
#ifndef FX_CODEGEN_H
#define FX_CODEGEN_H

#include "base/cpu.h"
#include "kir/kir.h"

/* ---- What code is made for ------------------------------------------------------------------------ */

typedef enum fx_target_arch { FX_ARCH_X86_64, FX_ARCH_AARCH64, FX_ARCH_NVPTX, FX_ARCH_AMDGPU } fx_target_arch;

/* Everything that decides what code looks like. The texts are LLVM's. */
typedef struct fx_target {
    fx_target_arch arch;
    char triple[48];
    char cpu[32];
    char features[160];          /* "+a,-b", beyond what the cpu has; "": none */
    char abi[16];                /* "": the triple's usual one */
    char layout[192];            /* the data layout the code must have; "": whatever the triple's is */
} fx_target;

/* "host" (this machine's level: x86-64-v3, x86-64-v4, generic aarch64), or the name of a CPU or GPU, as rows of target.c
 * have it. */
fx_status fx_target_named(fx_target *out, fx_str name, fx_error *err);
/* What all machines of a level run. FORNAX_EUNSUP: there is no code for the level. */
fx_status fx_target_of_level(fx_target *out, fx_cpu_level level, fx_error *err);
static inline bool fx_target_is_offload(const fx_target *t) { return t->arch >= FX_ARCH_NVPTX; }
/* f32 in a vector of it; 1 for GPUs, whose kernels aren't widened. */
int fx_target_lanes(const fx_target *t);
/* Whether this machine runs code for it. */
bool fx_target_runs_here(const fx_target *t);
/* The n-th name that fx_target_named takes; NULL: there are no more. */
const char *fx_target_name(int n);
/* All fields as one line: equal lines, equal code. */
void fx_target_print(const fx_target *t, fx_buf *out);

/* ---- Compiling ---------------------------------------------------------------------------------------- */

typedef enum fx_code_form { FX_CODE_OBJECT, FX_CODE_ASM, FX_CODE_LLVM } fx_code_form;

typedef struct fx_codegen_options {
    fx_code_form form;           /* NVPTX has ASM (PTX) and LLVM only */
    fx_str kernel;               /* only this one; "": all of the module, but not as a GPU's object */
    /* Numbers of the module's kernels, in their order, -1: none; they go into the metadata fornax.kernel.id. NULL: none has one,
     * but a single kernel asked for as assembly, which is 0. Kernels for a GPU must have one. */
    const int64_t *ids;
    bool unoptimized;            /* no passes over LLVM's IR: shows what lowering made */
} fx_codegen_options;

typedef int64_t (*fx_code_tasks)(const uint64_t *args);
typedef void (*fx_code_run)(const uint64_t *args, void *const *buffers, int64_t t0, int64_t t1, fx_kir_fault *fault);

typedef struct fx_codegen fx_codegen;
/* path: of the shared object; NULL: beside this library, else where the system looks for libraries. */
fx_status fx_codegen_open(fx_codegen **out, const fx_mem *mem, const char *path, fx_error *err);
void fx_codegen_close(fx_codegen *cg);
const char *fx_codegen_version(const fx_codegen *cg);       /* of LLVM, "19.1.7" */
/* Appends the code to 'out'. Numbers the kernels (fx_kir_number). */
fx_status fx_codegen_compile(const fx_codegen *cg, fx_buf *out, fx_kir_module *m, const fx_target *t,
                             const fx_codegen_options *o, fx_error *err);

#endif
