/* ll_offload.c - what is different on a GPU: a task is a block of threads.
 *
 * The threads of a block do everything outside of FORALL and THREADS alike, each with registers of its own; what is written
 * to memory there is written by the first of them while the others wait. The iterations of the outermost FORALL and
 * of THREADS are spread over them, between barriers. So conditions around a barrier are the same for all. */
#include "codegen/llvm/ll.h"

static bool ptx(const fx_ll *l) { return l->target->arch == FX_ARCH_NVPTX; }

static LLVMValueRef special(fx_ll *l, const char *name)
{
    LLVMValueRef x = fx_ll_intrinsic(l, name, NULL, 0, NULL, 0);

    return LLVMBuildZExt(l->b, x, l->i64, "");
}

LLVMValueRef fx_ll_thread(fx_ll *l) { return special(l, ptx(l) ? "llvm.nvvm.read.ptx.sreg.tid.x" : "llvm.amdgcn.workitem.id.x"); }
LLVMValueRef fx_ll_task(fx_ll *l) { return special(l, ptx(l) ? "llvm.nvvm.read.ptx.sreg.ctaid.x" : "llvm.amdgcn.workgroup.id.x"); }

/* AMD's stand in the packet that dispatched the kernel, a 16-bit number at byte 4. */
LLVMValueRef fx_ll_threads(fx_ll *l)
{
    LLVMTypeRef i16 = LLVMInt16TypeInContext(l->context);
    LLVMValueRef at = fx_ll_index(l, 4), p;

    if (ptx(l))
        return special(l, "llvm.nvvm.read.ptx.sreg.ntid.x");
    p = fx_ll_intrinsic(l, "llvm.amdgcn.dispatch.ptr", NULL, 0, NULL, 0);
    p = LLVMBuildInBoundsGEP2(l->b, l->i8, p, &at, 1, "");
    return LLVMBuildZExt(l->b, LLVMBuildLoad2(l->b, i16, p, ""), l->i64, "");
}

void fx_ll_barrier(fx_ll *l)
{
    LLVMValueRef zero = LLVMConstInt(l->i32, 0, 0);

    if (ptx(l) && fx_ll_intrinsic_params(l, "llvm.nvvm.barrier0", NULL, 0) == 0) {
        fx_ll_intrinsic(l, "llvm.nvvm.barrier0", NULL, 0, NULL, 0);
        return;
    }
    if (ptx(l)) {                        /* its name from LLVM 21 on */
        fx_ll_intrinsic(l, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, 0, &zero, 1);
        return;
    }
    LLVMBuildFence(l->b, LLVMAtomicOrderingRelease, 0, "");
    fx_ll_intrinsic(l, "llvm.amdgcn.s.barrier", NULL, 0, NULL, 0);
    LLVMBuildFence(l->b, LLVMAtomicOrderingAcquire, 0, "");
}

void fx_ll_mark_kernel(fx_ll *l, LLVMValueRef fn)
{
    LLVMSetFunctionCallConv(fn, ptx(l) ? LLVMPTXKernelCallConv : LLVMAMDGPUKERNELCallConv);
    LLVMSetVisibility(fn, ptx(l) ? LLVMDefaultVisibility : LLVMProtectedVisibility);
}

LLVMBasicBlockRef fx_ll_first_thread_open(fx_ll *l)
{
    LLVMBasicBlockRef first, after;

    if (!fx_ll_gpu(l) || l->alone)
        return NULL;
    fx_ll_barrier(l);
    first = fx_ll_block(l, "first");
    after = fx_ll_block(l, "all");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, fx_ll_thread(l), fx_ll_index(l, 0), ""), first, after);
    fx_ll_at(l, first);
    return after;
}

void fx_ll_first_thread_close(fx_ll *l, LLVMBasicBlockRef after)
{
    if (!after)
        return;
    LLVMBuildBr(l->b, after);
    fx_ll_at(l, after);
    fx_ll_barrier(l);
}

/* lo + thread, lo + thread + threads, ...: also if there are fewer threads than iterations. */
void fx_ll_spread(fx_ll *l, const fx_kop *op)
{
    bool forall = op->code == FX_KIR_FORALL;
    LLVMValueRef lo = forall ? l->val[op->in[0]->id] : fx_ll_index(l, 0), hi = l->val[op->in[forall ? 1 : 0]->id];
    fx_ll_loop loop;

    fx_ll_barrier(l);
    l->alone = true;
    fx_ll_loop_of_threads(l, &loop, lo, hi);
    l->val[op->block[0]->arg->id] = loop.i;
    fx_ll_body(l, op->block[0]);
    fx_ll_loop_close(l, &loop);
    l->alone = false;
    fx_ll_barrier(l);
}
