/* ll_ops.c - types, and the ops without effects. */
#include <stdarg.h>
#include <stdio.h>

#include "codegen/llvm/ll.h"
#include "kir/kir_eval.h"

LLVMValueRef fx_ll_fail(fx_ll *l, LLVMTypeRef t, fx_status st, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    if (l->st == FORNAX_OK) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        l->st = fx_fail(l->err, st, "kernel %.*s: %s", FX_STR_ARG(l->k->name), text);
    }
    return t ? LLVMGetUndef(t) : NULL;
}

/* ---- Types -------------------------------------------------------------------------------------- */

LLVMTypeRef fx_ll_scalar(fx_ll *l, fx_dtype t)
{
    switch (t) {
    case FX_F32: return l->f32;
    case FX_F64: return l->f64;
    case FX_BOOL: return l->i1;
    default: return LLVMIntTypeInContext(l->context, (unsigned)fx_dtype_size(t) * 8);
    }
}

LLVMTypeRef fx_ll_lanes(LLVMTypeRef t, int lanes) { return lanes > 1 ? LLVMVectorType(t, (unsigned)lanes) : t; }

LLVMTypeRef fx_ll_type(fx_ll *l, fx_ktype t)
{
    unsigned bits = (unsigned)t.lanes * (unsigned)fx_dtype_size(t.t) * 8;

    if (t.lanes > 1)
        l->lanes_bits = FX_MAX(l->lanes_bits, bits);
    return fx_ll_lanes(fx_ll_scalar(l, t.t), t.lanes);
}

static int lanes_of(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1; }
static LLVMTypeRef element_of(LLVMTypeRef t) { return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t; }
LLVMTypeRef fx_ll_with_element(LLVMTypeRef t, LLVMTypeRef element) { return fx_ll_lanes(element, lanes_of(t)); }

static LLVMValueRef in_all_lanes(LLVMValueRef x, int lanes)
{
    LLVMValueRef v[FX_KIR_MAX_LANES];

    for (int i = 0; i < lanes; i++)
        v[i] = x;
    return lanes > 1 ? LLVMConstVector(v, (unsigned)lanes) : x;
}

/* The low bits of x. */
static LLVMValueRef bits_of(LLVMTypeRef t, uint64_t x)
{
    unsigned width = LLVMGetIntTypeWidth(t);

    return LLVMConstInt(t, width < 64 ? x & (((uint64_t)1 << width) - 1) : x, 0);
}

LLVMValueRef fx_ll_int(LLVMTypeRef t, uint64_t x) { return in_all_lanes(bits_of(element_of(t), x), lanes_of(t)); }
LLVMValueRef fx_ll_float(LLVMTypeRef t, double x) { return in_all_lanes(LLVMConstReal(element_of(t), x), lanes_of(t)); }

LLVMValueRef fx_ll_splat(fx_ll *l, LLVMValueRef x, int lanes)
{
    LLVMTypeRef t;
    LLVMValueRef v;

    if (lanes == 1)
        return x;
    if (LLVMIsConstant(x) && !LLVMIsUndef(x))
        return in_all_lanes(x, lanes);
    t = LLVMVectorType(LLVMTypeOf(x), (unsigned)lanes);
    v = LLVMBuildInsertElement(l->b, LLVMGetPoison(t), x, fx_ll_index(l, 0), "");
    return LLVMBuildShuffleVector(l->b, v, LLVMGetPoison(t), LLVMConstNull(LLVMVectorType(l->i32, (unsigned)lanes)), "");
}

LLVMValueRef fx_ll_iota(fx_ll *l, LLVMTypeRef element, int lanes)
{
    LLVMValueRef v[FX_KIR_MAX_LANES];

    (void)l;
    for (int i = 0; i < lanes; i++)
        v[i] = LLVMConstInt(element, (uint64_t)i, 0);
    return lanes > 1 ? LLVMConstVector(v, (unsigned)lanes) : v[0];
}

/* ---- Calls and blocks -------------------------------------------------------------------------------- */

/* Versions of LLVM differ in which there are. */
static LLVMTypeRef intrinsic_type(fx_ll *l, const char *name, LLVMTypeRef *types, int n_types, unsigned *id)
{
    *id = LLVMLookupIntrinsicID(name, strlen(name));
    return *id ? LLVMIntrinsicGetType(l->context, *id, types, (size_t)n_types) : NULL;
}

int fx_ll_intrinsic_params(fx_ll *l, const char *name, LLVMTypeRef *types, int n_types)
{
    unsigned id;
    LLVMTypeRef type = intrinsic_type(l, name, types, n_types, &id);

    return type ? (int)LLVMCountParamTypes(type) : -1;
}

LLVMValueRef fx_ll_intrinsic(fx_ll *l, const char *name, LLVMTypeRef *types, int n_types, LLVMValueRef *args, int n_args)
{
    unsigned id;
    LLVMTypeRef type = intrinsic_type(l, name, types, n_types, &id);

    if (!type || (int)LLVMCountParamTypes(type) != n_args)
        return fx_ll_fail(l, n_types ? types[0] : l->i32, FORNAX_EUNSUP, "this LLVM has no %s of %d operands", name, n_args);
    return LLVMBuildCall2(l->b, type, LLVMGetIntrinsicDeclaration(l->module, id, types, (size_t)n_types), args, (unsigned)n_args, "");
}

LLVMValueRef fx_ll_call1(fx_ll *l, const char *name, LLVMValueRef a)
{
    LLVMTypeRef t = LLVMTypeOf(a);

    return fx_ll_intrinsic(l, name, &t, 1, &a, 1);
}

LLVMValueRef fx_ll_call2(fx_ll *l, const char *name, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef t = LLVMTypeOf(a);

    return fx_ll_intrinsic(l, name, &t, 1, (LLVMValueRef[]){ a, b }, 2);
}

LLVMValueRef fx_ll_alloca(fx_ll *l, LLVMTypeRef t, const char *name)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(l->b);
    LLVMValueRef a;

    LLVMPositionBuilderBefore(l->b, LLVMGetBasicBlockTerminator(l->entry));
    a = LLVMBuildAlloca(l->b, t, name);
    fx_ll_at(l, here);
    return a;
}

void fx_ll_flag(fx_ll *l, LLVMValueRef fn, unsigned at, const char *name, uint64_t value)
{
    LLVMAddAttributeAtIndex(fn, at, LLVMCreateEnumAttribute(l->context, LLVMGetEnumAttributeKindForName(name, strlen(name)), value));
}

LLVMBasicBlockRef fx_ll_block(fx_ll *l, const char *name) { return LLVMAppendBasicBlockInContext(l->context, l->fn, name); }

/* ---- Integers ------------------------------------------------------------------------------------------ */

/* a / b and a % b with the cases that LLVM leaves open: b = 0, and the least number / -1. */
static LLVMValueRef divide(fx_ll *l, fx_dtype t, bool rem, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef zero = fx_ll_int(type, 0), one = fx_ll_int(type, 1);
    LLVMValueRef by_zero = LLVMBuildICmp(l->b, LLVMIntEQ, b, zero, ""), minus = NULL, q;
    LLVMValueRef odd = by_zero;

    if (fx_dtype_is_signed(t)) {
        minus = LLVMBuildICmp(l->b, LLVMIntEQ, b, fx_ll_int(type, UINT64_MAX), "");
        odd = LLVMBuildOr(l->b, by_zero, minus, "");
    }
    b = LLVMBuildSelect(l->b, odd, one, b, "");
    if (rem) {
        q = minus ? LLVMBuildSRem(l->b, a, b, "") : LLVMBuildURem(l->b, a, b, "");
        return LLVMBuildSelect(l->b, by_zero, a, q, "");         /* a % -1 is a % 1 */
    }
    q = minus ? LLVMBuildSDiv(l->b, a, b, "") : LLVMBuildUDiv(l->b, a, b, "");
    if (minus)
        q = LLVMBuildSelect(l->b, minus, LLVMBuildNeg(l->b, a, ""), q, "");
    return LLVMBuildSelect(l->b, by_zero, zero, q, "");
}

static LLVMValueRef shift(fx_ll *l, fx_dtype t, bool left, LLVMValueRef a, LLVMValueRef n)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    unsigned width = (unsigned)fx_dtype_size(t) * 8;
    LLVMValueRef top = fx_ll_int(type, width - 1), fits = LLVMBuildICmp(l->b, LLVMIntULT, n, fx_ll_int(type, width), "");
    LLVMValueRef by = LLVMBuildSelect(l->b, fits, n, top, ""), r;

    if (!left && fx_dtype_is_signed(t))
        return LLVMBuildAShr(l->b, a, by, "");
    r = left ? LLVMBuildShl(l->b, a, by, "") : LLVMBuildLShr(l->b, a, by, "");
    return LLVMBuildSelect(l->b, fits, r, fx_ll_int(type, 0), "");
}

static LLVMValueRef integer(fx_ll *l, fx_kir_code code, fx_dtype t, const LLVMValueRef *in)
{
    bool s = fx_dtype_is_signed(t);

    switch (code) {
    case FX_KIR_ADD: return LLVMBuildAdd(l->b, in[0], in[1], "");
    case FX_KIR_SUB: return LLVMBuildSub(l->b, in[0], in[1], "");
    case FX_KIR_MUL: return LLVMBuildMul(l->b, in[0], in[1], "");
    case FX_KIR_DIV: return divide(l, t, false, in[0], in[1]);
    case FX_KIR_REM: return divide(l, t, true, in[0], in[1]);
    case FX_KIR_NEG: return LLVMBuildNeg(l->b, in[0], "");
    case FX_KIR_ABS:
        return s ? fx_ll_intrinsic(l, "llvm.abs", (LLVMTypeRef[]){ LLVMTypeOf(in[0]) }, 1,
                                   (LLVMValueRef[]){ in[0], LLVMConstNull(l->i1) }, 2) : in[0];
    case FX_KIR_AND: return LLVMBuildAnd(l->b, in[0], in[1], "");
    case FX_KIR_OR: return LLVMBuildOr(l->b, in[0], in[1], "");
    case FX_KIR_XOR: return LLVMBuildXor(l->b, in[0], in[1], "");
    case FX_KIR_NOT: return LLVMBuildNot(l->b, in[0], "");
    case FX_KIR_SHL: return shift(l, t, true, in[0], in[1]);
    case FX_KIR_SHR: return shift(l, t, false, in[0], in[1]);
    case FX_KIR_EQ: return LLVMBuildICmp(l->b, LLVMIntEQ, in[0], in[1], "");
    case FX_KIR_NE: return LLVMBuildICmp(l->b, LLVMIntNE, in[0], in[1], "");
    case FX_KIR_LT: return fx_ll_less(l, t, in[0], in[1]);
    case FX_KIR_LE: return LLVMBuildICmp(l->b, s ? LLVMIntSLE : LLVMIntULE, in[0], in[1], "");
    default: return fx_ll_fail(l, LLVMTypeOf(in[0]), FORNAX_EUNSUP, "no code for %s", fx_kir_name(code));
    }
}

LLVMValueRef fx_ll_less(fx_ll *l, fx_dtype t, LLVMValueRef a, LLVMValueRef b)
{
    if (fx_dtype_is_float(t))
        return LLVMBuildFCmp(l->b, LLVMRealOLT, a, b, "");
    return LLVMBuildICmp(l->b, fx_dtype_is_signed(t) ? LLVMIntSLT : LLVMIntULT, a, b, "");
}

/* ---- Floats -------------------------------------------------------------------------------------------- */

/* Of equal numbers (zeroes) the signs decide. */
static LLVMValueRef minmax_by_hand(fx_ll *l, bool least, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    unsigned bits = LLVMGetTypeKind(element_of(type)) == LLVMFloatTypeKind ? 32 : 64;
    LLVMTypeRef itype = fx_ll_with_element(type, LLVMIntTypeInContext(l->context, bits));
    LLVMValueRef ia = LLVMBuildBitCast(l->b, a, itype, ""), ib = LLVMBuildBitCast(l->b, b, itype, "");
    LLVMValueRef both = least ? LLVMBuildOr(l->b, ia, ib, "") : LLVMBuildAnd(l->b, ia, ib, "");
    LLVMValueRef first = LLVMBuildFCmp(l->b, least ? LLVMRealOLT : LLVMRealOGT, a, b, "");
    LLVMValueRef r = LLVMBuildSelect(l->b, first, a, b, "");

    r = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOEQ, a, b, ""), LLVMBuildBitCast(l->b, both, type, ""), r, "");
    return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealUNO, a, b, ""), LLVMBuildFAdd(l->b, a, b, ""), r, "");
}

LLVMValueRef fx_ll_minmax(fx_ll *l, fx_dtype t, bool least, LLVMValueRef a, LLVMValueRef b)
{
    bool s = fx_dtype_is_signed(t);

    if (!fx_dtype_is_float(t))
        return fx_ll_call2(l, least ? (s ? "llvm.smin" : "llvm.umin") : s ? "llvm.smax" : "llvm.umax", a, b);
    /* GPUs have no instruction. Of numbers that were f16, LLVM 19 makes one of f16, whose vectors it gets wrong: 0 for 0 and NaN. */
    if (fx_ll_gpu(l) || l->halves)
        return minmax_by_hand(l, least, a, b);
    return fx_ll_call2(l, least ? "llvm.minimum" : "llvm.maximum", a, b);
}

static LLVMValueRef floating(fx_ll *l, fx_kir_code code, fx_dtype t, LLVMValueRef *in)
{
    LLVMTypeRef type = LLVMTypeOf(in[0]);

    switch (code) {
    case FX_KIR_ADD: return LLVMBuildFAdd(l->b, in[0], in[1], "");
    case FX_KIR_SUB: return LLVMBuildFSub(l->b, in[0], in[1], "");
    case FX_KIR_MUL: return LLVMBuildFMul(l->b, in[0], in[1], "");
    case FX_KIR_DIV: return LLVMBuildFDiv(l->b, in[0], in[1], "");
    case FX_KIR_REM: return fx_ll_rem_float(l, t, in[0], in[1]);
    case FX_KIR_FMA: return fx_ll_intrinsic(l, "llvm.fma", &type, 1, in, 3);
    case FX_KIR_NEG: return LLVMBuildFNeg(l->b, in[0], "");
    case FX_KIR_ABS: return fx_ll_call1(l, "llvm.fabs", in[0]);
    case FX_KIR_SQRT: return fx_ll_call1(l, "llvm.sqrt", in[0]);
    case FX_KIR_FLOOR: return fx_ll_call1(l, "llvm.floor", in[0]);
    case FX_KIR_CEIL: return fx_ll_call1(l, "llvm.ceil", in[0]);
    case FX_KIR_TRUNC: return fx_ll_call1(l, "llvm.trunc", in[0]);
    case FX_KIR_RINT: return fx_ll_call1(l, "llvm.roundeven", in[0]);
    case FX_KIR_COPYSIGN: return fx_ll_call2(l, "llvm.copysign", in[0], in[1]);
    case FX_KIR_EQ: return LLVMBuildFCmp(l->b, LLVMRealOEQ, in[0], in[1], "");
    case FX_KIR_NE: return LLVMBuildFCmp(l->b, LLVMRealUNE, in[0], in[1], "");
    case FX_KIR_LT: return fx_ll_less(l, t, in[0], in[1]);
    case FX_KIR_LE: return LLVMBuildFCmp(l->b, LLVMRealOLE, in[0], in[1], "");
    default: return fx_ll_fail(l, type, FORNAX_EUNSUP, "no code for %s; its math was to be expanded first", fx_kir_name(code));
    }
}

/* ---- Vectors and bits -------------------------------------------------------------------------------------- */

/* A lane as kir_eval.h has them. */
static LLVMValueRef constant_lane(fx_ll *l, fx_dtype t, uint64_t lane)
{
    LLVMTypeRef bits = LLVMIntTypeInContext(l->context, (unsigned)fx_dtype_size(t) * 8);

    return t == FX_BOOL ? bits_of(l->i1, lane) : LLVMConstBitCast(bits_of(bits, lane), fx_ll_scalar(l, t));
}

static LLVMValueRef constant(fx_ll *l, const fx_kop *op)
{
    uint64_t lanes[FX_KIR_MAX_LANES];

    fx_kir_eval(op, NULL, lanes);
    return in_all_lanes(constant_lane(l, op->type.t, lanes[0]), op->type.lanes);
}

LLVMValueRef fx_ll_neutral(fx_ll *l, fx_kir_combine kind, fx_dtype t)
{
    return constant_lane(l, t, fx_kir_neutral(kind, t));
}

static LLVMValueRef as_vector(fx_ll *l, LLVMValueRef x)
{
    LLVMTypeRef t = LLVMTypeOf(x);

    return lanes_of(t) > 1 ? x : LLVMBuildInsertElement(l->b, LLVMGetPoison(LLVMVectorType(t, 1)), x, fx_ll_index(l, 0), "");
}

static LLVMValueRef shuffle(fx_ll *l, const fx_kop *op, const LLVMValueRef *in)
{
    LLVMValueRef lanes[FX_KIR_MAX_LANES], r;

    for (int i = 0; i < op->type.lanes; i++)
        lanes[i] = LLVMConstInt(l->i32, op->u.lanes[i], 0);
    r = LLVMBuildShuffleVector(l->b, as_vector(l, in[0]), as_vector(l, in[1]), LLVMConstVector(lanes, op->type.lanes), "");
    return op->type.lanes > 1 ? r : LLVMBuildExtractElement(l->b, r, fx_ll_index(l, 0), "");
}

static LLVMValueRef insert(fx_ll *l, const fx_kop *op, const LLVMValueRef *in)
{
    return op->type.lanes == 1 ? in[1] : LLVMBuildInsertElement(l->b, in[0], in[1], fx_ll_index(l, op->u.i), "");
}

static LLVMValueRef extract(fx_ll *l, const fx_kop *op, LLVMValueRef x)
{
    return op->in[0]->type.lanes == 1 ? x : LLVMBuildExtractElement(l->b, x, fx_ll_index(l, op->u.i), "");
}

LLVMValueRef fx_ll_pure(fx_ll *l, const fx_kop *op)
{
    LLVMValueRef in[3] = { NULL };
    fx_dtype t = op->n_in ? op->in[0]->type.t : op->type.t;

    for (int i = 0; i < op->n_in && i < 3; i++)
        in[i] = l->val[op->in[i]->id];
    switch (op->code) {
    case FX_KIR_CONST: return constant(l, op);
    case FX_KIR_SELECT: return LLVMBuildSelect(l->b, in[0], in[1], in[2], "");
    case FX_KIR_CONVERT: return fx_ll_convert(l, in[0], t, op->type.t);
    case FX_KIR_BITCAST: return LLVMBuildBitCast(l->b, in[0], fx_ll_type(l, op->type), "");
    case FX_KIR_SPLAT: return fx_ll_splat(l, in[0], op->type.lanes);
    case FX_KIR_IOTA: return fx_ll_iota(l, fx_ll_scalar(l, op->type.t), op->type.lanes);
    case FX_KIR_EXTRACT: return extract(l, op, in[0]);
    case FX_KIR_INSERT: return insert(l, op, in);
    case FX_KIR_SHUFFLE: return shuffle(l, op, in);
    case FX_KIR_MIN: case FX_KIR_MAX: return fx_ll_minmax(l, t, op->code == FX_KIR_MIN, in[0], in[1]);
    default: return fx_dtype_is_float(t) ? floating(l, op->code, t, in) : integer(l, op->code, t, in);
    }
}
