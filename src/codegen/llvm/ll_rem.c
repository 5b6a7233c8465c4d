/* ll_rem.c - the remainder of floats, exact, without fmod.
 *
 * With x = m * 2^e as integers of mantissa and exponent, a % b is (ma * 2^(ea - eb) % mb) * 2^eb; the power of two is
 * multiplied in piece by piece, as much as fits 64 bits beside a mantissa. One function a type in the module, by lane. */
#include "codegen/llvm/ll.h"

typedef struct format {
    LLVMTypeRef type, bits;
    int mantissa, width;
} format;

static LLVMValueRef shl(fx_ll *l, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildShl(l->b, a, b, ""); }
static LLVMValueRef shr(fx_ll *l, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildLShr(l->b, a, b, ""); }
static LLVMValueRef sub(fx_ll *l, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSub(l->b, a, b, ""); }

/* |x|'s bits as i64. */
static LLVMValueRef magnitude(fx_ll *l, const format *f, LLVMValueRef x)
{
    LLVMValueRef u = LLVMBuildZExt(l->b, LLVMBuildBitCast(l->b, x, f->bits, ""), l->i64, "");

    return LLVMBuildAnd(l->b, u, fx_ll_index(l, (int64_t)(((uint64_t)1 << (f->width - 1)) - 1)), "");
}

/* Of |x|'s bits: the mantissa with its hidden one, and the exponent (1 for numbers below the least normal one). */
static void parts(fx_ll *l, const format *f, LLVMValueRef u, LLVMValueRef *m, LLVMValueRef *e)
{
    LLVMValueRef hidden = fx_ll_index(l, (int64_t)1 << f->mantissa), exponent = shr(l, u, fx_ll_index(l, f->mantissa));
    LLVMValueRef tiny = LLVMBuildICmp(l->b, LLVMIntEQ, exponent, fx_ll_index(l, 0), "");
    LLVMValueRef low = LLVMBuildAnd(l->b, u, fx_ll_index(l, ((int64_t)1 << f->mantissa) - 1), "");

    *m = LLVMBuildSelect(l->b, tiny, low, LLVMBuildOr(l->b, low, hidden, ""), "");
    *e = LLVMBuildSelect(l->b, tiny, fx_ll_index(l, 1), exponent, "");
}

/* m * 2^d % by. */
static LLVMValueRef power_rem(fx_ll *l, const format *f, LLVMValueRef m, LLVMValueRef d, LLVMValueRef by)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(l->b), head = fx_ll_block(l, "step"), body = fx_ll_block(l, "more"),
                      done = fx_ll_block(l, "done");
    LLVMValueRef left, value, piece, next[2], first;

    first = LLVMBuildURem(l->b, m, by, "");
    LLVMBuildBr(l->b, head);
    fx_ll_at(l, head);
    left = LLVMBuildPhi(l->b, l->i64, "");
    value = LLVMBuildPhi(l->b, l->i64, "");
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, left, fx_ll_index(l, 0), ""), done, body);
    fx_ll_at(l, body);
    piece = fx_ll_call2(l, "llvm.umin", left, fx_ll_index(l, 63 - f->mantissa));
    next[0] = sub(l, left, piece);
    next[1] = LLVMBuildURem(l->b, shl(l, value, piece), by, "");
    LLVMBuildBr(l->b, head);
    LLVMAddIncoming(left, (LLVMValueRef[]){ d, next[0] }, (LLVMBasicBlockRef[]){ from, body }, 2);
    LLVMAddIncoming(value, (LLVMValueRef[]){ first, next[1] }, (LLVMBasicBlockRef[]){ from, body }, 2);
    fx_ll_at(l, done);
    return value;
}

/* The bits of m * 2^e, e as parts() has it. */
static LLVMValueRef assemble(fx_ll *l, const format *f, LLVMValueRef m, LLVMValueRef e)
{
    LLVMValueRef zeros = fx_ll_intrinsic(l, "llvm.ctlz", &l->i64, 1, (LLVMValueRef[]){ m, LLVMConstNull(l->i1) }, 2);
    LLVMValueRef room = sub(l, e, fx_ll_index(l, 1)), up = sub(l, zeros, fx_ll_index(l, 63 - f->mantissa));
    LLVMValueRef by = fx_ll_call2(l, "llvm.umin", room, up), r = shl(l, m, by), exponent;

    exponent = shl(l, sub(l, room, by), fx_ll_index(l, f->mantissa));      /* the hidden one is the exponent's last */
    r = LLVMBuildAdd(l->b, r, exponent, "");
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntEQ, m, fx_ll_index(l, 0), ""), m, r, "");
}

static void emit(fx_ll *l, const format *f, LLVMValueRef a, LLVMValueRef b)
{
    uint64_t top = (((uint64_t)1 << (f->width - 1 - f->mantissa)) - 1) << f->mantissa;
    LLVMValueRef ua = magnitude(l, f, a), ub = magnitude(l, f, b), ma, mb, ea, eb, wrong, r, sign;
    LLVMBasicBlockRef nan = fx_ll_block(l, "nan"), number = fx_ll_block(l, "number"), small = fx_ll_block(l, "small"),
                      large = fx_ll_block(l, "large");

    wrong = LLVMBuildICmp(l->b, LLVMIntUGE, ua, fx_ll_index(l, (int64_t)top), "");
    wrong = LLVMBuildOr(l->b, wrong, LLVMBuildICmp(l->b, LLVMIntEQ, ub, fx_ll_index(l, 0), ""), "");
    wrong = LLVMBuildOr(l->b, wrong, LLVMBuildICmp(l->b, LLVMIntUGT, ub, fx_ll_index(l, (int64_t)top), ""), "");
    LLVMBuildCondBr(l->b, wrong, nan, number);
    fx_ll_at(l, nan);
    LLVMBuildRet(l->b, LLVMConstBitCast(LLVMConstInt(f->bits, top | (uint64_t)1 << (f->mantissa - 1), 0), f->type));
    fx_ll_at(l, number);
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntULT, ua, ub, ""), small, large);
    fx_ll_at(l, small);                  /* an infinite b too */
    LLVMBuildRet(l->b, a);
    fx_ll_at(l, large);
    parts(l, f, ua, &ma, &ea);
    parts(l, f, ub, &mb, &eb);
    r = assemble(l, f, power_rem(l, f, ma, sub(l, ea, eb), mb), eb);
    sign = LLVMBuildAnd(l->b, LLVMBuildBitCast(l->b, a, f->bits, ""), LLVMConstInt(f->bits, (uint64_t)1 << (f->width - 1), 0), "");
    r = LLVMBuildOr(l->b, LLVMBuildTrunc(l->b, r, f->bits, ""), sign, "");
    LLVMBuildRet(l->b, LLVMBuildBitCast(l->b, r, f->type, ""));
}

/* The function of this type, made when first asked for. */
static LLVMValueRef function_of(fx_ll *l, fx_dtype t, LLVMTypeRef type)
{
    format f = t == FX_F32 ? (format){ l->f32, l->i32, 23, 32 } : (format){ l->f64, l->i64, 52, 64 };
    const char *name = t == FX_F32 ? "fx.rem.f32" : "fx.rem.f64";
    LLVMValueRef fn = LLVMGetNamedFunction(l->module, name), was = l->fn;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);

    if (fn)
        return fn;
    fn = LLVMAddFunction(l->module, name, type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    fx_ll_flag(l, fn, LLVMAttributeFunctionIndex, "memory", 0);        /* touches none */
    l->fn = fn;
    fx_ll_at(l, fx_ll_block(l, "entry"));
    emit(l, &f, LLVMGetParam(fn, 0), LLVMGetParam(fn, 1));
    l->fn = was;
    fx_ll_at(l, here);
    return fn;
}

LLVMValueRef fx_ll_rem_float(fx_ll *l, fx_dtype t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef element = fx_ll_scalar(l, t), type = LLVMFunctionType(element, (LLVMTypeRef[]){ element, element }, 2, 0);
    LLVMValueRef fn = function_of(l, t, type), r = LLVMGetPoison(LLVMTypeOf(a));

    if (LLVMGetTypeKind(LLVMTypeOf(a)) != LLVMVectorTypeKind)
        return LLVMBuildCall2(l->b, type, fn, (LLVMValueRef[]){ a, b }, 2, "");
    for (unsigned i = 0; i < LLVMGetVectorSize(LLVMTypeOf(a)); i++) {
        LLVMValueRef lane = fx_ll_index(l, i), in[2] = { LLVMBuildExtractElement(l->b, a, lane, ""), LLVMBuildExtractElement(l->b, b, lane, "") };

        r = LLVMBuildInsertElement(l->b, r, LLVMBuildCall2(l->b, type, fn, in, 2, ""), lane, "");
    }
    return r;
}
