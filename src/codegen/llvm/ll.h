/* ll.h - a kernel on its way into LLVM's IR: what the files of this folder share.
 *
 * One fx_ll a compile, with an LLVM context of its own. Values of kir are values of LLVM of the same type, but bool is i1,
 * and floats narrower than f32 are integers of their bits, which only conversions look at: no target and no run-time
 * library has a say in their rounding. Nothing that LLVM calls undefined or poison is ever used: each op guards
 * its operands as docs/kir.md says.
 *
 * A fault (an op that can't be lowered) is kept in the fx_ll; lowering goes on with 'undef' and the compile fails at its end. */
#ifndef FX_LL_H
#define FX_LL_H

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include "codegen/codegen.h"

/* Where a BUFFER or ALLOC lies. */
typedef struct fx_ll_place {
    LLVMValueRef base;           /* pointer */
    LLVMValueRef extent[FX_KIR_MAX_RANK], stride[FX_KIR_MAX_RANK];     /* i64 */
    LLVMValueRef scope, others;  /* metadata alias.scope and noalias; NULL: an alloca */
    bool constant;               /* nobody writes to it while the kernel runs */
} fx_ll_place;

typedef struct fx_ll {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    const fx_target *target;
    fx_arena *arena;
    fx_kir_kernel *k;
    /* Of the function in work: */
    LLVMValueRef fn, args, buffers, fault;
    LLVMBasicBlockRef entry;     /* allocas and parameters; ends in a branch */
    LLVMValueRef *val;           /* [n_ops]; of a LOCAL: its alloca */
    fx_ll_place *place;          /* [n_ops] */
    bool alone;                  /* GPU: in a region that one thread runs, or as one of its iterations */
    LLVMTypeRef i1, i8, i32, i64, f32, f64, ptr, none;     /* none: void */
    LLVMMetadataRef empty;       /* !{} */
    LLVMValueRef likely;         /* weights of a branch whose first way is the usual one */
    bool halves;                 /* the kernel has f16 in it */
    unsigned lanes_bits;         /* of the widest vector */
    fx_error *err;
    fx_status st;
} fx_ll;

/* Keeps a fault; an undef of type t (NULL: none). */
LLVMValueRef fx_ll_fail(fx_ll *l, LLVMTypeRef t, fx_status st, const char *fmt, ...) FX_PRINTF(4, 5);
static inline bool fx_ll_gpu(const fx_ll *l) { return fx_target_is_offload(l->target); }

/* ---- Types and small things (ll_ops.c) ------------------------------------------------------------- */
LLVMTypeRef fx_ll_scalar(fx_ll *l, fx_dtype t);          /* bool: i1 */
LLVMTypeRef fx_ll_type(fx_ll *l, fx_ktype t);
LLVMTypeRef fx_ll_lanes(LLVMTypeRef t, int lanes);       /* t, or a vector of it */
LLVMValueRef fx_ll_int(LLVMTypeRef t, uint64_t x);       /* in every lane of t, which may be a vector */
LLVMValueRef fx_ll_float(LLVMTypeRef t, double x);
static inline LLVMValueRef fx_ll_index(fx_ll *l, int64_t x) { return LLVMConstInt(l->i64, (uint64_t)x, 1); }
LLVMValueRef fx_ll_splat(fx_ll *l, LLVMValueRef x, int lanes);
LLVMValueRef fx_ll_iota(fx_ll *l, LLVMTypeRef element, int lanes);
LLVMTypeRef fx_ll_with_element(LLVMTypeRef t, LLVMTypeRef element);     /* t's lanes of another element */
/* A call of the intrinsic that is overloaded on these types. */
LLVMValueRef fx_ll_intrinsic(fx_ll *l, const char *name, LLVMTypeRef *types, int n_types, LLVMValueRef *args, int n_args);
int fx_ll_intrinsic_params(fx_ll *l, const char *name, LLVMTypeRef *types, int n_types);     /* -1: there is none */
LLVMValueRef fx_ll_call1(fx_ll *l, const char *name, LLVMValueRef a);
LLVMValueRef fx_ll_call2(fx_ll *l, const char *name, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef fx_ll_alloca(fx_ll *l, LLVMTypeRef t, const char *name);
/* An attribute of LLVM's; at: of the function (LLVMAttributeFunctionIndex), or its n-th parameter, from 1. */
void fx_ll_flag(fx_ll *l, LLVMValueRef fn, unsigned at, const char *name, uint64_t value);
LLVMBasicBlockRef fx_ll_block(fx_ll *l, const char *name);
/* Emission goes on in block b. */
static inline void fx_ll_at(fx_ll *l, LLVMBasicBlockRef b) { LLVMPositionBuilderAtEnd(l->b, b); }
LLVMValueRef fx_ll_minmax(fx_ll *l, fx_dtype t, bool least, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef fx_ll_less(fx_ll *l, fx_dtype t, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef fx_ll_neutral(fx_ll *l, fx_kir_combine kind, fx_dtype t);   /* what a reduction begins with */
LLVMValueRef fx_ll_pure(fx_ll *l, const fx_kop *op);     /* an op without effects */

LLVMValueRef fx_ll_convert(fx_ll *l, LLVMValueRef x, fx_dtype from, fx_dtype to);      /* ll_convert.c */
LLVMValueRef fx_ll_rem_float(fx_ll *l, fx_dtype t, LLVMValueRef a, LLVMValueRef b);    /* ll_rem.c */

/* ---- Memory (ll_memory.c) ------------------------------------------------------------------------------ */
void fx_ll_places(fx_ll *l);                             /* of the parameters, at the function's entry */
void fx_ll_alloc(fx_ll *l, const fx_kop *op);
LLVMValueRef fx_ll_access(fx_ll *l, const fx_kop *op);   /* LOAD ... SCATTER; NULL of stores */

/* ---- Structure (ll_flow.c) ------------------------------------------------------------------------------- */
typedef struct fx_ll_loop {
    LLVMBasicBlockRef head, exit;
    LLVMValueRef i, hi, step, last;      /* step NULL: 1; last: the last i, NULL where i + step doesn't wrap */
} fx_ll_loop;
void fx_ll_loop_open(fx_ll *l, fx_ll_loop *loop, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step /* NULL: 1 */);
/* From this thread's number on, in steps of as many as there are. */
void fx_ll_loop_of_threads(fx_ll *l, fx_ll_loop *loop, LLVMValueRef lo, LLVMValueRef hi);
void fx_ll_loop_close(fx_ll *l, fx_ll_loop *loop);
void fx_ll_body(fx_ll *l, const fx_kir_block *b);        /* its ops, one after another */

/* ---- GPUs (ll_offload.c) ------------------------------------------------------------------------------------ */
LLVMValueRef fx_ll_thread(fx_ll *l);                     /* number of this thread in its block, of how many, i64 */
LLVMValueRef fx_ll_threads(fx_ll *l);
LLVMValueRef fx_ll_task(fx_ll *l);                       /* number of this block, i64 */
void fx_ll_barrier(fx_ll *l);
void fx_ll_mark_kernel(fx_ll *l, LLVMValueRef fn);
/* Code between the two is run by the first thread alone; others wait. Nothing where all that is in work is one thread's. */
LLVMBasicBlockRef fx_ll_first_thread_open(fx_ll *l);
void fx_ll_first_thread_close(fx_ll *l, LLVMBasicBlockRef after);
void fx_ll_spread(fx_ll *l, const fx_kop *op);           /* FORALL or THREADS over the block's threads */

/* ---- A module (ll_module.c) -------------------------------------------------------------------------------------- */
fx_status fx_ll_compile(fx_buf *out, fx_kir_module *m, const fx_target *t, const fx_codegen_options *o, fx_error *err);

#endif
