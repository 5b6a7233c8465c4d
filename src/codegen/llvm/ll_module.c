/* ll_module.c - a compile: a module of kir becomes one of LLVM, is improved, and written as what was asked for.
 *
 * An object must stand alone (code_load.h): after it is made, its symbols are read, and one that isn't defined in it is a
 * bug of ours that is reported, not something to find at run time. */
#include <pthread.h>

#include "codegen/code_load.h"
#include "codegen/llvm/ll.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Object.h>
#include <llvm-c/Transforms/PassBuilder.h>

/* ---- Targets ----------------------------------------------------------------------------------------- */

#define START(T) LLVMInitialize##T##TargetInfo(), LLVMInitialize##T##Target(), LLVMInitialize##T##TargetMC(), LLVMInitialize##T##AsmPrinter()

static pthread_once_t started[4] = { PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT };
static void start_x86(void) { START(X86); }
static void start_aarch64(void) { START(AArch64); }
static void start_nvptx(void) { START(NVPTX); }
static void start_amdgpu(void) { START(AMDGPU); }

/* Only what is asked for: each takes time and memory. */
static void start_target(fx_target_arch arch)
{
    static void (*const start[4])(void) = { start_x86, start_aarch64, start_nvptx, start_amdgpu };

    pthread_once(&started[arch], start[arch]);
}

static LLVMTargetMachineRef open_target(const fx_target *t, fx_error *err)
{
    LLVMTargetRef target;
    LLVMTargetMachineOptionsRef o;
    LLVMTargetMachineRef tm;
    char *text = NULL;

    start_target(t->arch);
    if (LLVMGetTargetFromTriple(t->triple, &target, &text)) {
        fx_fail(err, FORNAX_EUNSUP, "this LLVM makes no code for %s: %s", t->triple, text);
        LLVMDisposeMessage(text);
        return NULL;
    }
    o = LLVMCreateTargetMachineOptions();
    LLVMTargetMachineOptionsSetCPU(o, t->cpu);
    LLVMTargetMachineOptionsSetFeatures(o, t->features);
    LLVMTargetMachineOptionsSetABI(o, t->abi);
    LLVMTargetMachineOptionsSetCodeGenOptLevel(o, LLVMCodeGenLevelDefault);
    LLVMTargetMachineOptionsSetRelocMode(o, LLVMRelocPIC);
    tm = LLVMCreateTargetMachineWithOptions(target, t->triple, o);
    LLVMDisposeTargetMachineOptions(o);
    if (!tm)
        fx_fail(err, FORNAX_EUNSUP, "this LLVM makes no code for %s, cpu %s", t->triple, t->cpu);
    return tm;
}

/* ---- Functions ------------------------------------------------------------------------------------------- */

static void attribute(fx_ll *l, LLVMValueRef fn, const char *name, const char *value)
{
    LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(l->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

/* Of every function: what code may use, and that calls of the C library are not among it. */
static void mark_function(fx_ll *l, LLVMValueRef fn)
{
    fx_ll_flag(l, fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, "nounwind", 0);
    attribute(l, fn, "no-builtins", "true");
    attribute(l, fn, "target-cpu", l->target->cpu);
    if (*l->target->features)
        attribute(l, fn, "target-features", l->target->features);
    if (l->target->arch == FX_ARCH_X86_64 && l->lanes_bits > 256) {
        attribute(l, fn, "prefer-vector-width", "512");
        attribute(l, fn, "min-legal-vector-width", "512");
    }
}

/* Functions that kernels call: made by lowering when first needed. */
static void mark_helpers(fx_ll *l)
{
    for (LLVMValueRef fn = LLVMGetFirstFunction(l->module); fn; fn = LLVMGetNextFunction(fn)) {
        if (LLVMGetLinkage(fn) == LLVMInternalLinkage)
            mark_function(l, fn);
    }
}

static void mark_id(fx_ll *l, LLVMValueRef fn, int64_t id)
{
    LLVMMetadataRef node = LLVMValueAsMetadata(fx_ll_index(l, id));

    LLVMGlobalSetMetadata(fn, LLVMGetMDKindIDInContext(l->context, "fornax.kernel.id", 16), LLVMMDNodeInContext2(l->context, &node, 1));
}

/* Opens the kernel's function of this name; what its parameters tell is read at its entry. */
static void open_function(fx_ll *l, const char *suffix, LLVMTypeRef *params, int n)
{
    const char *name = fx_arena_printf(l->arena, "%.*s%s", FX_STR_ARG(l->k->name), suffix);
    LLVMTypeRef result = n > 1 ? l->none : l->i64;
    LLVMBasicBlockRef start;

    if (!name || LLVMGetNamedFunction(l->module, name) || fx_str_starts(l->k->name, FX_STR("fx.")))
        fx_ll_fail(l, NULL, FORNAX_EARG, "there is another function of this name");
    l->fn = LLVMAddFunction(l->module, name ? name : "", LLVMFunctionType(result, params, (unsigned)n, 0));
    l->args = LLVMGetParam(l->fn, 0);
    l->buffers = n > 1 ? LLVMGetParam(l->fn, 1) : NULL;
    l->fault = n > 1 ? LLVMGetParam(l->fn, 4) : NULL;
    l->entry = fx_ll_block(l, "entry");
    start = fx_ll_block(l, "start");
    l->alone = false;
    fx_ll_at(l, l->entry);
    LLVMBuildBr(l->b, start);
    LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
    fx_ll_places(l);
    fx_ll_at(l, start);
}

/* int64_t k_tasks(const uint64_t *args) */
static void lower_grid(fx_ll *l)
{
    open_function(l, "_tasks", &l->ptr, 1);
    fx_ll_body(l, l->k->grid);
    LLVMBuildRet(l->b, l->val[l->k->grid->last->in[0]->id]);
    mark_function(l, l->fn);
}

/* On a GPU a block is a task, from t0 on. */
static void one_task(fx_ll *l, LLVMValueRef t0, LLVMValueRef t1)
{
    LLVMBasicBlockRef task = fx_ll_block(l, "task"), done = fx_ll_block(l, "done");
    LLVMValueRef t = LLVMBuildAdd(l->b, t0, fx_ll_task(l), "");

    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, t, t1, ""), task, done);
    fx_ll_at(l, task);
    l->val[l->k->task->id] = t;
    fx_ll_body(l, l->k->body);
    LLVMBuildBr(l->b, done);
    fx_ll_at(l, done);
}

static void all_tasks(fx_ll *l, LLVMValueRef t0, LLVMValueRef t1)
{
    fx_ll_loop loop;

    fx_ll_loop_open(l, &loop, t0, t1, NULL);
    l->val[l->k->task->id] = loop.i;
    fx_ll_body(l, l->k->body);
    fx_ll_loop_close(l, &loop);
}

/* void k(const uint64_t *args, void *const *buffers, int64_t t0, int64_t t1, fx_kir_fault *fault) */
static void lower_body(fx_ll *l, int64_t id)
{
    LLVMTypeRef params[] = { l->ptr, l->ptr, l->i64, l->i64, l->ptr };

    open_function(l, "", params, 5);
    for (unsigned i = 0; i < 5; i++) {
        if (params[i] == l->ptr)
            fx_ll_flag(l, l->fn, i + 1, "noalias", 0);
    }
    (fx_ll_gpu(l) ? one_task : all_tasks)(l, LLVMGetParam(l->fn, 2), LLVMGetParam(l->fn, 3));
    LLVMBuildRetVoid(l->b);
    mark_function(l, l->fn);
    if (id >= 0)
        mark_id(l, l->fn, id);
    if (fx_ll_gpu(l))
        fx_ll_mark_kernel(l, l->fn);
}

static bool has_halves(const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (op->type.t == FX_F16 || (op->block[0] && has_halves(op->block[0])) || (op->block[1] && has_halves(op->block[1])))
            return true;
    }
    return false;
}

static fx_status lower_kernel(fx_ll *l, fx_kir_kernel *k, int64_t id)
{
    l->k = k;
    l->halves = has_halves(k->body);
    l->lanes_bits = 0;
    fx_kir_number(k);
    l->val = fx_arena_array(l->arena, (size_t)k->n_ops + 1, sizeof(*l->val));
    l->place = fx_arena_array(l->arena, (size_t)k->n_ops + 1, sizeof(*l->place));
    if (!l->val || !l->place)
        return fx_nomem(l->err, "compiling a kernel");
    if (fx_ll_gpu(l) && id < 0)
        return fx_fail(l->err, FORNAX_EARG, "kernel %.*s: no fornax.kernel.id, which code for %s needs", FX_STR_ARG(k->name), l->target->cpu);
    lower_body(l, id);
    if (l->st == FORNAX_OK && !fx_ll_gpu(l))
        lower_grid(l);
    return l->st;
}

/* The kernels asked for: all, or one (a GPU's object is made for one: the module is cut down to what it needs). */
static fx_status lower_module(fx_ll *l, fx_kir_module *m, const fx_codegen_options *o)
{
    int n = 0, made = 0;

    for (fx_kir_kernel *k = m->first; k; k = k->next, n++) {
        int64_t id = o->ids ? o->ids[n] : o->form == FX_CODE_ASM && o->kernel.n ? 0 : -1;

        if (o->kernel.n && !fx_str_eq(o->kernel, k->name))
            continue;
        made++;
        FX_TRY(lower_kernel(l, k, id));
    }
    mark_helpers(l);
    return made ? FORNAX_OK : fx_fail(l->err, FORNAX_ENOTFOUND, "no kernel '%.*s' in the module", FX_STR_ARG(o->kernel));
}

/* ---- Code --------------------------------------------------------------------------------------------------- */

static fx_status failed(fx_ll *l, LLVMErrorRef e)
{
    char *text;

    if (!e)
        return FORNAX_OK;
    text = LLVMGetErrorMessage(e);
    fx_fail(l->err, FORNAX_EINTERNAL, "LLVM: %s", text);
    LLVMDisposeErrorMessage(text);
    return FORNAX_EINTERNAL;
}

/* Few and cheap: kernels come fused and widened, what is left to do is registers for locals, and what doesn't change out of loops. */
#define PASSES "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint;max-iterations=1>,simplifycfg," \
    "reassociate,loop-mssa(licm),early-cse<memssa>,instcombine<no-verify-fixpoint;max-iterations=1>,simplifycfg)"

static fx_status improve(fx_ll *l, LLVMTargetMachineRef tm)
{
    LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
    fx_status st = failed(l, LLVMRunPasses(l->module, PASSES, tm, o));

    LLVMDisposePassBuilderOptions(o);
    return st;
}

static fx_status verify(fx_ll *l)
{
#ifdef FX_NDEBUG
    (void)l;
#else
    char *text = NULL;

    if (LLVMVerifyModule(l->module, LLVMReturnStatusAction, &text)) {
        fx_fail(l->err, FORNAX_EINTERNAL, "LLVM: %s", text);
        LLVMDisposeMessage(text);
        return FORNAX_EINTERNAL;
    }
    LLVMDisposeMessage(text);
#endif
    return FORNAX_OK;
}

static fx_status emit(fx_ll *l, LLVMTargetMachineRef tm, const fx_codegen_options *o, fx_buf *out)
{
    LLVMMemoryBufferRef code = NULL;
    char *text = NULL;
    fx_str bytes, symbol;

    if (LLVMTargetMachineEmitToMemoryBuffer(tm, l->module, o->form == FX_CODE_ASM ? LLVMAssemblyFile : LLVMObjectFile, &text, &code)) {
        fx_fail(l->err, FORNAX_EINTERNAL, "LLVM: %s", text);
        LLVMDisposeMessage(text);
        return FORNAX_EINTERNAL;
    }
    bytes = fx_str_n(LLVMGetBufferStart(code), LLVMGetBufferSize(code));
    if (o->form == FX_CODE_OBJECT && fx_code_undefined(bytes, &symbol) && l->st == FORNAX_OK)
        l->st = fx_fail(l->err, FORNAX_EINTERNAL, "compiled code calls %.*s", FX_STR_ARG(symbol));
    fx_buf_str(out, bytes);
    LLVMDisposeMemoryBuffer(code);
    return out->failed ? fx_nomem(l->err, "compiled code") : l->st;
}

static fx_status print(fx_ll *l, fx_buf *out)
{
    char *text = LLVMPrintModuleToString(l->module);

    fx_buf_puts(out, text);
    LLVMDisposeMessage(text);
    return out->failed ? fx_nomem(l->err, "LLVM's text") : FORNAX_OK;
}

/* LLVM tells of what a target can't do by a diagnostic, and goes on. */
static void diagnosed(LLVMDiagnosticInfoRef info, void *user)
{
    fx_ll *l = user;
    char *text;

    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || l->st != FORNAX_OK)
        return;
    text = LLVMGetDiagInfoDescription(info);
    l->st = fx_fail(l->err, FORNAX_EINTERNAL, "LLVM: %s", text);
    LLVMDisposeMessage(text);
}

static void name_types(fx_ll *l)
{
    LLVMContextRef c = l->context;
    LLVMMetadataRef weights[3];

    l->i1 = LLVMInt1TypeInContext(c);
    l->i8 = LLVMInt8TypeInContext(c);
    l->i32 = LLVMInt32TypeInContext(c);
    l->i64 = LLVMInt64TypeInContext(c);
    l->f32 = LLVMFloatTypeInContext(c);
    l->f64 = LLVMDoubleTypeInContext(c);
    l->ptr = LLVMPointerTypeInContext(c, 0);
    l->none = LLVMVoidTypeInContext(c);
    l->empty = LLVMMDNodeInContext2(c, NULL, 0);
    weights[0] = LLVMMDStringInContext2(c, "branch_weights", 14);
    weights[1] = LLVMValueAsMetadata(LLVMConstInt(l->i32, 2000, 0));
    weights[2] = LLVMValueAsMetadata(LLVMConstInt(l->i32, 1, 0));
    l->likely = LLVMMetadataAsValue(c, LLVMMDNodeInContext2(c, weights, 3));
}

static fx_status set_layout(fx_ll *l, LLVMTargetMachineRef tm)
{
    LLVMTargetDataRef data = LLVMCreateTargetDataLayout(tm);
    char *text = LLVMCopyStringRepOfTargetData(data);
    fx_status st = FORNAX_OK;

    if (*l->target->layout && strcmp(text, l->target->layout) != 0)
        st = fx_fail(l->err, FORNAX_EARG, "data layout %s was asked for, but %s has %s", l->target->layout, l->target->triple, text);
    LLVMSetModuleDataLayout(l->module, data);
    LLVMSetTarget(l->module, l->target->triple);
    LLVMDisposeMessage(text);
    LLVMDisposeTargetData(data);
    return st;
}

static fx_status compile(fx_ll *l, LLVMTargetMachineRef tm, fx_kir_module *m, const fx_codegen_options *o, fx_buf *out)
{
    FX_TRY(set_layout(l, tm));
    FX_TRY(lower_module(l, m, o));
    FX_TRY(verify(l));
    if (!o->unoptimized)
        FX_TRY(improve(l, tm));
    return o->form == FX_CODE_LLVM ? print(l, out) : emit(l, tm, o, out);
}

static fx_status check_wish(const fx_target *t, const fx_codegen_options *o, fx_error *err)
{
    if (t->arch == FX_ARCH_NVPTX && o->form == FX_CODE_OBJECT)
        return fx_fail(err, FORNAX_EARG, "%s has no objects: ask for assembly, which is PTX", t->cpu);
    if (fx_target_is_offload(t) && !o->kernel.n && o->form == FX_CODE_OBJECT)
        return fx_fail(err, FORNAX_EARG, "code for %s is made of one kernel, to be named", t->cpu);
    return FORNAX_OK;
}

fx_status fx_ll_compile(fx_buf *out, fx_kir_module *m, const fx_target *t, const fx_codegen_options *o, fx_error *err)
{
    fx_arena arena;
    fx_ll l = { .target = t, .arena = &arena, .err = err };
    LLVMTargetMachineRef tm;
    fx_status st;

    FX_TRY(check_wish(t, o, err));
    tm = open_target(t, err);
    if (!tm)
        return FORNAX_EUNSUP;
    fx_arena_init(&arena, out->mem, 0);
    l.context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(l.context, diagnosed, &l);
    l.module = LLVMModuleCreateWithNameInContext("fornax", l.context);
    l.b = LLVMCreateBuilderInContext(l.context);
    name_types(&l);
    st = compile(&l, tm, m, o, out);
    LLVMDisposeBuilder(l.b);
    LLVMDisposeModule(l.module);
    LLVMContextDispose(l.context);
    LLVMDisposeTargetMachine(tm);
    fx_arena_done(&arena);
    return st;
}
