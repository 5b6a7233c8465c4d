/* pcode.h - machine code for a program's calls (kir/pcalls.h).
 *
 *     fx_pcode *c;
 *     FX_TRY(fx_pcode_new(&c, mem, program, &options, err));      bound, without an exec yet
 *     fx_pcode_wait(c, err);                                      optional: until code is there
 *     fx_pcode_free(c);                                           before the program
 *
 * Code that an earlier start left in the store is there at once, without LLVM. Else ('make') a thread makes it beside the
 * program's work, giving way to it; steps that begin when it is done run it, and the store keeps it. Until then, and where
 * there can be none, hand-written kernels do the work, with the same bits. */
#ifndef FX_PCODE_H
#define FX_PCODE_H

#include "base/cpu.h"
#include "codegen/codegen.h"
#include "compile/store.h"
#include "runtime/bind.h"

typedef struct fx_pcode fx_pcode;

typedef struct fx_pcode_options {
    bool make;                   /* what the store lacks; else only fx_pcode_wait does */
    fx_cpu_level level;
    fx_store *store;             /* or NULL */
    const fx_log *log;
    const char *library;         /* version */
    const char *label;           /* what the program is, for people */
    const char *llvm;            /* codegen's path, or NULL */
} fx_pcode_options;

/* Only memory can be lacking: what else is in the way of code goes to the log, and to who waits for it. */
fx_status fx_pcode_new(fx_pcode **out, const fx_mem *mem, fx_program *p, const fx_pcode_options *o, fx_error *err);
/* Makes it if nobody is at it. FORNAX_EUNSUP: no LLVM, or no code for the level. Any thread. */
fx_status fx_pcode_wait(fx_pcode *c, fx_error *err);
void fx_pcode_free(fx_pcode *c);         /* waits for the thread; NULL is fine */

/* What code for calls is kept by. Expands the math of their kernels. */
fx_status fx_pcode_identity(const fx_plan_calls *calls, const fx_target *target, const char *library, const fx_mem *mem,
                            fx_artifact_id *out, fx_error *err);

#endif
