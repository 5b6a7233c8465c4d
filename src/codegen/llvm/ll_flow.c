/* ll_flow.c - loops, branches, locals and reductions.
 *
 * A counter is a phi, a local an alloca that LLVM makes registers of. A loop tests before its first and after each
 * iteration, the form that LLVM's passes want. */
#include "codegen/llvm/ll.h"

/* ---- Loops ------------------------------------------------------------------------------------------- */

/* The last i: lo + (hi - 1 - lo) / step * step, of lo < hi, in 64 bits without a sign; so no i is beyond what 64 bits hold. */
static LLVMValueRef last_of(fx_ll *l, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step)
{
    LLVMValueRef span = LLVMBuildSub(l->b, LLVMBuildSub(l->b, hi, fx_ll_index(l, 1), ""), lo, "");

    return LLVMBuildAdd(l->b, lo, LLVMBuildMul(l->b, LLVMBuildUDiv(l->b, span, step, ""), step, ""), "");
}

/* Before the first iteration; what is emitted next is run if there is one. */
static void guard(fx_ll *l, fx_ll_loop *loop, LLVMValueRef lo, LLVMValueRef hi)
{
    LLVMBasicBlockRef before = fx_ll_block(l, "loop.before");

    loop->head = fx_ll_block(l, "loop");
    loop->exit = fx_ll_block(l, "loop.end");
    loop->hi = hi;
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, lo, hi, ""), before, loop->exit);
    fx_ll_at(l, before);
}

static void enter(fx_ll *l, fx_ll_loop *loop, LLVMValueRef lo)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);

    LLVMBuildBr(l->b, loop->head);
    fx_ll_at(l, loop->head);
    loop->i = LLVMBuildPhi(l->b, l->i64, "i");
    LLVMAddIncoming(loop->i, &lo, &from, 1);
}

void fx_ll_loop_open(fx_ll *l, fx_ll_loop *loop, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step)
{
    guard(l, loop, lo, hi);
    loop->step = step && LLVMIsAConstantInt(step) && LLVMConstIntGetSExtValue(step) == 1 ? NULL : step;
    loop->last = loop->step ? last_of(l, lo, hi, loop->step) : NULL;
    enter(l, loop, lo);
}

/* Bounds are far from what 64 bits hold: those of FORALL and THREADS are of axes, or constants. */
void fx_ll_loop_of_threads(fx_ll *l, fx_ll_loop *loop, LLVMValueRef lo, LLVMValueRef hi)
{
    lo = LLVMBuildAdd(l->b, lo, fx_ll_thread(l), "");
    guard(l, loop, lo, hi);
    loop->step = fx_ll_threads(l);
    loop->last = NULL;
    enter(l, loop, lo);
}

void fx_ll_loop_close(fx_ll *l, fx_ll_loop *loop)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b);
    LLVMValueRef step = loop->step ? loop->step : fx_ll_index(l, 1), next, more;

    if (loop->last) {
        next = LLVMBuildAdd(l->b, loop->i, step, "");
        more = LLVMBuildICmp(l->b, LLVMIntNE, loop->i, loop->last, "");
    } else {
        next = LLVMBuildNSWAdd(l->b, loop->i, step, "");
        more = LLVMBuildICmp(l->b, LLVMIntSLT, next, loop->hi, "");
    }
    LLVMAddIncoming(loop->i, &next, &from, 1);
    LLVMBuildCondBr(l->b, more, loop->head, loop->exit);
    fx_ll_at(l, loop->exit);
}

static void counted(fx_ll *l, const fx_kop *op, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step)
{
    fx_ll_loop loop;

    fx_ll_loop_open(l, &loop, lo, hi, step);
    l->val[op->block[0]->arg->id] = loop.i;
    fx_ll_body(l, op->block[0]);
    fx_ll_loop_close(l, &loop);
}

/* A GPU's threads do what FORALL and THREADS leave open in which order it is done. */
static void region(fx_ll *l, const fx_kop *op)
{
    LLVMValueRef lo = l->val[op->in[0]->id];

    if (fx_ll_gpu(l) && !l->alone && op->code != FX_KIR_FOR)
        fx_ll_spread(l, op);
    else if (op->code == FX_KIR_THREADS)
        counted(l, op, fx_ll_index(l, 0), lo, NULL);
    else
        counted(l, op, lo, l->val[op->in[1]->id], op->n_in > 2 ? l->val[op->in[2]->id] : NULL);
}

/* ---- Branches ------------------------------------------------------------------------------------------- */

static void branch(fx_ll *l, const fx_kop *op)
{
    LLVMBasicBlockRef way[2] = { fx_ll_block(l, "then"), NULL }, after;

    way[1] = op->block[1] ? fx_ll_block(l, "else") : NULL;
    after = fx_ll_block(l, "after");
    LLVMBuildCondBr(l->b, l->val[op->in[0]->id], way[0], way[1] ? way[1] : after);
    for (int i = 0; i < 2; i++) {
        if (!way[i])
            continue;
        fx_ll_at(l, way[i]);
        fx_ll_body(l, op->block[i]);
        LLVMBuildBr(l->b, after);
    }
    fx_ll_at(l, after);
}

static void repeat(fx_ll *l, const fx_kop *op)
{
    LLVMBasicBlockRef test = fx_ll_block(l, "while"), body = fx_ll_block(l, "do"), after = fx_ll_block(l, "after");

    LLVMBuildBr(l->b, test);
    fx_ll_at(l, test);
    fx_ll_body(l, op->block[0]);
    LLVMBuildCondBr(l->b, l->val[op->block[0]->last->in[0]->id], body, after);
    fx_ll_at(l, body);
    fx_ll_body(l, op->block[1]);
    LLVMBuildBr(l->b, test);
    fx_ll_at(l, after);
}

/* ---- Reductions -------------------------------------------------------------------------------------------- */

static LLVMValueRef combined(fx_ll *l, fx_kir_combine kind, fx_dtype t, LLVMValueRef acc, LLVMValueRef x, LLVMValueRef y)
{
    LLVMTypeRef type = LLVMTypeOf(acc);
    bool f = fx_dtype_is_float(t);

    switch (kind) {
    case FX_KIR_SUM: return f ? LLVMBuildFAdd(l->b, acc, x, "") : LLVMBuildAdd(l->b, acc, x, "");
    case FX_KIR_PROD: return f ? LLVMBuildFMul(l->b, acc, x, "") : LLVMBuildMul(l->b, acc, x, "");
    case FX_KIR_LEAST: case FX_KIR_GREATEST: return fx_ll_minmax(l, t, kind == FX_KIR_LEAST, acc, x);
    case FX_KIR_ALL: return LLVMBuildAnd(l->b, acc, x, "");
    case FX_KIR_ANY: return LLVMBuildOr(l->b, acc, x, "");
    case FX_KIR_DOT: return fx_ll_intrinsic(l, "llvm.fma", &type, 1, (LLVMValueRef[]){ x, y, acc }, 3);      /* floats only */
    default: return fx_ll_fail(l, type, FORNAX_EUNSUP, "no code for a reduction by %s", fx_kir_combine_name(kind));
    }
}

/* Iterations one after another; lane 'k mod lanes' of an array is what is combined. With one lane it becomes a register. */
static LLVMValueRef lanes_reduce(fx_ll *l, const fx_kop *op)
{
    fx_kir_combine kind = op->u.reduce.kind, tree = kind == FX_KIR_DOT ? FX_KIR_SUM : kind;
    int lanes = op->u.reduce.lanes;
    fx_dtype t = op->type.t;
    LLVMTypeRef type = fx_ll_scalar(l, t);
    LLVMValueRef neutral = fx_ll_neutral(l, kind, t), array = fx_ll_alloca(l, LLVMArrayType2(type, (uint64_t)lanes), "lanes");
    LLVMValueRef lo = l->val[op->in[0]->id], at[FX_KIR_MAX_LANES], acc[FX_KIR_MAX_LANES], j, p, x;
    const fx_kop *yield = op->block[0]->last;
    fx_ll_loop loop;

    for (int i = 0; i < lanes; i++) {
        LLVMValueRef n = fx_ll_index(l, i);

        at[i] = LLVMBuildInBoundsGEP2(l->b, type, array, &n, 1, "");
        LLVMBuildStore(l->b, neutral, at[i]);
    }
    fx_ll_loop_open(l, &loop, lo, l->val[op->in[1]->id], NULL);
    l->val[op->block[0]->arg->id] = loop.i;
    fx_ll_body(l, op->block[0]);
    j = LLVMBuildAnd(l->b, LLVMBuildSub(l->b, loop.i, lo, ""), fx_ll_index(l, lanes - 1), "");
    p = lanes > 1 ? LLVMBuildInBoundsGEP2(l->b, type, array, &j, 1, "") : at[0];
    x = LLVMBuildLoad2(l->b, type, p, "");
    x = combined(l, kind, t, x, l->val[yield->in[0]->id], yield->n_in > 1 ? l->val[yield->in[1]->id] : NULL);
    LLVMBuildStore(l->b, x, p);
    fx_ll_loop_close(l, &loop);
    for (int i = 0; i < lanes; i++)
        acc[i] = LLVMBuildLoad2(l->b, type, at[i], "");
    for (int half = lanes / 2; half; half /= 2) {
        for (int i = 0; i < half; i++)
            acc[i] = combined(l, tree, t, acc[i], acc[i + half], NULL);
    }
    return acc[0];
}

/* Whether x at a later place goes before 'best'. */
static LLVMValueRef beats(fx_ll *l, fx_kir_combine kind, fx_dtype t, LLVMValueRef x, LLVMValueRef best)
{
    bool least = kind == FX_KIR_ARGLEAST;
    LLVMValueRef less = fx_ll_less(l, t, least ? x : best, least ? best : x), nan[2];

    if (!fx_dtype_is_float(t))
        return less;
    nan[0] = LLVMBuildFCmp(l->b, LLVMRealUNO, x, x, "");
    nan[1] = LLVMBuildFCmp(l->b, LLVMRealORD, best, best, "");
    return LLVMBuildOr(l->b, less, LLVMBuildAnd(l->b, nan[0], nan[1], ""), "");
}

static LLVMValueRef arg_reduce(fx_ll *l, const fx_kop *op)
{
    const fx_kop *yield = op->block[0]->last;
    fx_dtype t = yield->in[0]->type.t;
    LLVMTypeRef type = fx_ll_scalar(l, t);
    LLVMValueRef best = fx_ll_alloca(l, type, "best"), at = fx_ll_alloca(l, l->i64, "at"), x, was, first, take;
    fx_ll_loop loop;

    LLVMBuildStore(l->b, LLVMConstNull(type), best);
    LLVMBuildStore(l->b, fx_ll_index(l, -1), at);
    fx_ll_loop_open(l, &loop, l->val[op->in[0]->id], l->val[op->in[1]->id], NULL);
    l->val[op->block[0]->arg->id] = loop.i;
    fx_ll_body(l, op->block[0]);
    x = l->val[yield->in[0]->id];
    was = LLVMBuildLoad2(l->b, type, best, "");
    first = LLVMBuildICmp(l->b, LLVMIntEQ, loop.i, l->val[op->in[0]->id], "");
    take = LLVMBuildOr(l->b, first, beats(l, op->u.reduce.kind, t, x, was), "");
    LLVMBuildStore(l->b, LLVMBuildSelect(l->b, take, x, was, ""), best);
    LLVMBuildStore(l->b, LLVMBuildSelect(l->b, take, loop.i, LLVMBuildLoad2(l->b, l->i64, at, ""), ""), at);
    fx_ll_loop_close(l, &loop);
    return LLVMBuildLoad2(l->b, l->i64, at, "");
}

/* ---- Ops -------------------------------------------------------------------------------------------------------- */

static void local(fx_ll *l, const fx_kop *op)
{
    l->val[op->id] = fx_ll_alloca(l, fx_ll_type(l, op->type), "local");
    LLVMBuildStore(l->b, l->val[op->in[0]->id], l->val[op->id]);
}

static void lower(fx_ll *l, const fx_kop *op)
{
    switch (op->code) {
    case FX_KIR_ALLOC: fx_ll_alloc(l, op); break;
    case FX_KIR_LOAD: case FX_KIR_STORE: case FX_KIR_GATHER: case FX_KIR_SCATTER: l->val[op->id] = fx_ll_access(l, op); break;
    case FX_KIR_LOCAL: local(l, op); break;
    case FX_KIR_GET: l->val[op->id] = LLVMBuildLoad2(l->b, fx_ll_type(l, op->type), l->val[op->in[0]->id], ""); break;
    case FX_KIR_SET: LLVMBuildStore(l->b, l->val[op->in[1]->id], l->val[op->in[0]->id]); break;
    case FX_KIR_FOR: case FX_KIR_FORALL: case FX_KIR_THREADS: region(l, op); break;
    case FX_KIR_IF: branch(l, op); break;
    case FX_KIR_WHILE: repeat(l, op); break;
    case FX_KIR_REDUCE:
        l->val[op->id] = op->u.reduce.kind >= FX_KIR_ARGLEAST ? arg_reduce(l, op) : lanes_reduce(l, op);
        break;
    case FX_KIR_YIELD: break;            /* read by whom the block belongs to */
    default: l->val[op->id] = fx_ll_pure(l, op); break;
    }
}

void fx_ll_body(fx_ll *l, const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next)
        lower(l, op);
}
