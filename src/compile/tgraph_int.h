/* tgraph_int.h - the inside of a compiled graph. */
#ifndef FX_TGRAPH_INT_H
#define FX_TGRAPH_INT_H

#include "codegen/code_load.h"
#include "compile/tgraph.h"

struct fx_tgraph {
    const fx_mem *mem;
    fx_arena arena;
    fx_kplan *plan;
    fx_str *names;               /* of the kernels */
    fx_target target;
    fx_buf object;
    fx_code *loaded;
    fx_kcode *code;
    size_t n_code;
};

#define FX_KPLAN_VERSION 4               /* of that text, and of what kernels compute */

/* tgraph_text.c: a plan without its kernels, which are named. What is read is checked. */
void fx_kplan_write(const fx_kplan *p, const fx_str *names, fx_buf *out);
fx_status fx_kplan_read(fx_arena *arena, const char *path, fx_str text, fx_kplan **out, fx_str **names, fx_error *err);

#endif
