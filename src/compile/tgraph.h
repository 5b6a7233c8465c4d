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
#include "compile/artifact.h"
#include "graph/graph.h"
#include "runtime/kexec.h"

typedef struct fx_tgraph fx_tgraph;

typedef struct fx_tgraph_options {
    const fx_codegen *codegen;   /* NULL: kernels are interpreted */
    const fx_target *target;     /* with codegen; must run here unless 'foreign' */
    bool foreign;                /* only to be saved or printed */
    bool unfused;                /* passes/lower_kir.h */
    const char *const *print;
    size_t n_print;
    /* Told each stage as it is there: "graph", "plan", "kir", "math", "wide", "llvm", "asm" and its text, numbered from 1; of graphs that
     * are interpreted the first five. */
    fx_status (*stage)(void *user, int number, const char *name, fx_str text, fx_error *err);
    void *stage_user;
} fx_tgraph_options;

fx_status fx_tgraph_compile(fx_tgraph **out, const fx_mem *mem, const fx_graph *g, const fx_tgraph_options *o, fx_error *err);
/* The same in two steps: a plan, which has nothing of the graph any more, and its code. What fails in the second leaves t to be
 * freed. */
fx_status fx_tgraph_begin(fx_tgraph **out, const fx_mem *mem, const fx_graph *g, const fx_tgraph_options *o, fx_error *err);
fx_status fx_tgraph_finish(fx_tgraph *t, const fx_tgraph_options *o, fx_error *err);
void fx_tgraph_free(fx_tgraph *t);                       /* no fx_kexec may be left; NULL is fine */
/* The kernels as they are, or as what LLVM makes of them. FORNAX_EUNSUP of a graph that was loaded. */
fx_status fx_tgraph_print(const fx_tgraph *t, const fx_codegen *cg, const fx_code_form *form, fx_buf *out, fx_error *err);
const fx_kplan *fx_tgraph_plan(const fx_tgraph *t);
const fx_kcode *fx_tgraph_code(const fx_tgraph *t);      /* one for each kernel of the plan; NULL: interpreted */

/* ---- Files (compile/artifact.h) ---- */

/* What compiling g for this target is found by. */
fx_status fx_tgraph_identity(const fx_graph *g, const fx_target *target, const fx_mem *mem, fx_artifact_id *out, fx_error *err);

/* A compiled graph as sections of an artifact; they are good as long as both it and t are. FORNAX_EUNSUP: it is interpreted. */
typedef struct fx_tgraph_bytes {
    fx_buf plan, target;
    fx_section_data sections[3];
} fx_tgraph_bytes;
fx_status fx_tgraph_sections(const fx_tgraph *t, fx_tgraph_bytes *b, fx_error *err);
void fx_tgraph_bytes_done(fx_tgraph_bytes *b);
/* The graph that is in an artifact, which isn't needed afterwards. FORNAX_EFORMAT: of another version, for another machine, damaged. */
fx_status fx_tgraph_take(fx_tgraph **out, const fx_mem *mem, fx_artifact *a, fx_error *err);

fx_status fx_tgraph_save(const fx_tgraph *t, const char *path, fx_error *err);
fx_status fx_tgraph_load(fx_tgraph **out, const fx_mem *mem, const char *path, fx_error *err);

#endif
