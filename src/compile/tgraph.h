/* tgraph.h - a graph of tensors, compiled: a plan and machine code for its kernels.
 *
 *     FX_TRY(fx_tgraph_compile(&t, mem, graph, &(fx_tgraph_options){ .codegen = cg, .target = target }, err));
 *     FX_TRY(fx_tgraph_save(t, path, err));         ... in another process ...
 *     FX_TRY(fx_tgraph_load(&t, mem, path, err));   needs no LLVM
 *
 * Compiling takes no weights and keeps nothing of the graph.  What runs it is an fx_kexec (runtime/kexec.h) of
 * fx_tgraph_plan and fx_tgraph_code.
 *
 * Threads: a compiled graph doesn't change; any number may run it, each with an fx_kexec.  Compiles of different
 * modules may go on at once. */
#ifndef FX_TGRAPH_H
#define FX_TGRAPH_H

#include "codegen/codegen.h"
#include "graph/graph.h"
#include "runtime/kexec.h"

typedef struct fx_tgraph fx_tgraph;

/* What is made on the way, for people; any may be NULL. */
typedef struct fx_tgraph_dump {
    fx_buf *kir, *llvm, *assembly;
} fx_tgraph_dump;

typedef struct fx_tgraph_options {
    const fx_codegen *codegen;   /* NULL: kernels are interpreted */
    const fx_target *target;     /* with codegen; must run here unless 'foreign' */
    bool foreign;                /* only to be saved or dumped */
    fx_tgraph_dump dump;
} fx_tgraph_options;

fx_status fx_tgraph_compile(fx_tgraph **out, const fx_mem *mem, const fx_graph *g, const fx_tgraph_options *o, fx_error *err);
void fx_tgraph_free(fx_tgraph *t);                       /* no fx_kexec may be left; NULL is fine */
const fx_kplan *fx_tgraph_plan(const fx_tgraph *t);
const fx_kcode *fx_tgraph_code(const fx_tgraph *t);      /* one for each kernel of the plan; NULL: interpreted */

/* The identity of what compiling g for this target gives: text of the graph, target, versions. */
fx_status fx_tgraph_identity(const fx_graph *g, const fx_target *target, const fx_mem *mem, fx_hash128 *out, fx_error *err);
/* An artifact (compile/artifact.h).  Saving what is interpreted is FORNAX_EUNSUP; loading an artifact of other versions or another
 * machine FORNAX_EFORMAT. */
fx_status fx_tgraph_save(const fx_tgraph *t, const char *path, fx_error *err);
fx_status fx_tgraph_load(fx_tgraph **out, const fx_mem *mem, const char *path, fx_error *err);

#endif
