/* ll_convert.c - conversions between the types of kir.
 *
 * Floats narrower than f32 are integers here, widened and rounded by the arithmetic of tensor/dtype.h, one row of a table a type;
 * f16 by F16C's instructions where there are such, which do the same. f64 goes to them by an f32 that is rounded to odd
 * (toward zero, the last bit set if something was cut off): rounding that once more is rounding once. */
#include "codegen/llvm/ll.h"

typedef struct narrow {
    int mantissa, bias;
    uint32_t infinite;           /* f32 bits from which on |x| becomes 'top' */
    uint32_t top, nan;           /* what too large numbers and NaNs become */
    bool infinity;               /* the type has one */
} narrow;

static narrow narrow_of(fx_dtype t)
{
    switch (t) {
    case FX_F16: return (narrow){ 10, 15, 0x477ff000u, 0x7c00, 0x7e00, true };
    case FX_F8E5M2: return (narrow){ 2, 15, 0x47700000u, 0x7c, 0x7e, true };
    default: return (narrow){ 3, 7, 0x43e80001u, 0x7f, 0x7f, false };        /* f8e4m3 */
    }
}

static bool is_narrow(fx_dtype t) { return fx_dtype_is_float(t) && fx_dtype_size(t) < 4; }

static LLVMValueRef bits_of(fx_ll *l, LLVMValueRef f) { return LLVMBuildBitCast(l->b, f, fx_ll_with_element(LLVMTypeOf(f), l->i32), ""); }
static LLVMValueRef of_bits(fx_ll *l, LLVMValueRef u) { return LLVMBuildBitCast(l->b, u, fx_ll_with_element(LLVMTypeOf(u), l->f32), ""); }
static LLVMValueRef c32(LLVMValueRef like, uint32_t x) { return fx_ll_int(LLVMTypeOf(like), x); }
static LLVMValueRef and32(fx_ll *l, LLVMValueRef a, uint32_t m) { return LLVMBuildAnd(l->b, a, c32(a, m), ""); }
static LLVMValueRef shl32(fx_ll *l, LLVMValueRef a, int n) { return LLVMBuildShl(l->b, a, c32(a, (uint32_t)n), ""); }
static LLVMValueRef shr32(fx_ll *l, LLVMValueRef a, int n) { return LLVMBuildLShr(l->b, a, c32(a, (uint32_t)n), ""); }

static LLVMValueRef above(fx_ll *l, LLVMValueRef a, uint32_t x) { return LLVMBuildICmp(l->b, LLVMIntUGT, a, c32(a, x), ""); }
static LLVMValueRef pick(fx_ll *l, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(l->b, c, a, b, ""); }

/* ---- To f32 ---------------------------------------------------------------------------------------- */

static LLVMValueRef half_type_cast(fx_ll *l, LLVMValueRef x)
{
    LLVMTypeRef half = fx_ll_with_element(LLVMTypeOf(x), LLVMHalfTypeInContext(l->context));

    return LLVMBuildBitCast(l->b, x, half, "");
}

static LLVMValueRef widen(fx_ll *l, LLVMValueRef x, fx_dtype from)
{
    narrow n = narrow_of(from);
    int width = (int)fx_dtype_size(from) * 8;
    uint32_t top = (uint32_t)((1 << (width - 1 - n.mantissa)) - 1) << n.mantissa;        /* the exponent's bits */
    LLVMTypeRef f32 = fx_ll_with_element(LLVMTypeOf(x), l->f32);
    LLVMValueRef sign, em, r, special;

    if (from == FX_F16)
        return LLVMBuildFPExt(l->b, half_type_cast(l, x), f32, "");
    x = LLVMBuildZExt(l->b, x, fx_ll_with_element(LLVMTypeOf(x), l->i32), "");
    if (from == FX_BF16)
        return of_bits(l, shl32(l, x, 16));
    sign = shl32(l, and32(l, x, 1u << (width - 1)), 32 - width);
    em = and32(l, x, (1u << (width - 1)) - 1);
    r = LLVMBuildAdd(l->b, shl32(l, em, 23 - n.mantissa), c32(em, (uint32_t)(127 - n.bias) << 23), "");
    /* below the least normal number: a multiple of the smallest one */
    special = LLVMBuildFMul(l->b, LLVMBuildUIToFP(l->b, em, f32, ""),
                            of_bits(l, c32(em, (uint32_t)(127 + 1 - n.bias - n.mantissa) << 23)), "");
    r = pick(l, above(l, em, (1u << n.mantissa) - 1), r, bits_of(l, special));
    if (n.infinity)
        r = pick(l, above(l, em, top - 1), LLVMBuildOr(l->b, shl32(l, em, 23 - n.mantissa), c32(em, 0x7f800000u), ""), r);
    r = pick(l, above(l, em, n.infinity ? top : 0x7e), c32(em, 0x7fc00000u), r);
    return of_bits(l, LLVMBuildOr(l->b, sign, r, ""));
}

/* ---- From f32 ------------------------------------------------------------------------------------------ */

static LLVMValueRef round_normal(fx_ll *l, LLVMValueRef em, const narrow *n)
{
    int drop = 23 - n->mantissa;
    LLVMValueRef even = and32(l, shr32(l, em, drop), 1);
    LLVMValueRef r = LLVMBuildAdd(l->b, em, LLVMBuildAdd(l->b, even, c32(em, (1u << (drop - 1)) - 1), ""), "");

    return shr32(l, LLVMBuildSub(l->b, r, c32(em, (uint32_t)(127 - n->bias) << 23), ""), drop);
}

/* Below the least normal number its unit is the last bit of a power of two. */
static LLVMValueRef round_tiny(fx_ll *l, LLVMValueRef em, const narrow *n)
{
    LLVMValueRef big = c32(em, (uint32_t)(127 + 1 - n->bias - n->mantissa + 23) << 23);
    LLVMValueRef r = LLVMBuildFAdd(l->b, of_bits(l, em), of_bits(l, big), "");

    return LLVMBuildSub(l->b, bits_of(l, r), big, "");
}

static LLVMValueRef round_bf16(fx_ll *l, LLVMValueRef u)
{
    LLVMValueRef nan = above(l, and32(l, u, 0x7fffffffu), 0x7f800000u);
    LLVMValueRef even = and32(l, shr32(l, u, 16), 1);
    LLVMValueRef r = LLVMBuildAdd(l->b, u, LLVMBuildAdd(l->b, even, c32(u, 0x7fff), ""), "");

    return shr32(l, pick(l, nan, LLVMBuildOr(l->b, u, c32(u, 0x400000u), ""), r), 16);
}

static LLVMValueRef narrowed(fx_ll *l, LLVMValueRef x, fx_dtype to)
{
    narrow n = narrow_of(to);
    int width = (int)fx_dtype_size(to) * 8;
    LLVMTypeRef type = fx_ll_with_element(LLVMTypeOf(x), fx_ll_scalar(l, to));
    LLVMValueRef u = bits_of(l, x), sign, em, r;

    if (to == FX_F16) {
        r = LLVMBuildFPTrunc(l->b, x, fx_ll_with_element(LLVMTypeOf(x), LLVMHalfTypeInContext(l->context)), "");
        return LLVMBuildBitCast(l->b, r, type, "");
    }
    if (to == FX_BF16)
        return LLVMBuildTrunc(l->b, round_bf16(l, u), type, "");
    sign = and32(l, shr32(l, u, 32 - width), 1u << (width - 1));
    em = and32(l, u, 0x7fffffffu);
    r = pick(l, above(l, em, (((uint32_t)(127 - n.bias + 1)) << 23) - 1), round_normal(l, em, &n), round_tiny(l, em, &n));
    r = pick(l, above(l, em, n.infinite - 1), c32(em, n.top), r);
    r = pick(l, above(l, em, 0x7f800000u), c32(em, n.nan), r);
    return LLVMBuildTrunc(l->b, LLVMBuildOr(l->b, sign, r, ""), type, "");
}

/* The f32 toward zero from a double, its last bit set if something was cut off. */
static LLVMValueRef to_odd(fx_ll *l, LLVMValueRef x)
{
    LLVMTypeRef f32 = fx_ll_with_element(LLVMTypeOf(x), l->f32);
    LLVMValueRef f = LLVMBuildFPTrunc(l->b, x, f32, ""), back = LLVMBuildFPExt(l->b, f, LLVMTypeOf(x), ""), u = bits_of(l, f);
    LLVMValueRef past = LLVMBuildFCmp(l->b, LLVMRealOGT, fx_ll_call1(l, "llvm.fabs", back), fx_ll_call1(l, "llvm.fabs", x), "");
    LLVMValueRef cut = LLVMBuildFCmp(l->b, LLVMRealONE, back, x, "");      /* false of NaN */
    LLVMValueRef lower = LLVMBuildSub(l->b, u, LLVMBuildZExt(l->b, past, LLVMTypeOf(u), ""), "");

    return of_bits(l, pick(l, cut, LLVMBuildOr(l->b, lower, c32(u, 1), ""), u));
}

/* ---- All ---------------------------------------------------------------------------------------------------- */

static LLVMValueRef from_float(fx_ll *l, LLVMValueRef x, fx_dtype to)
{
    LLVMTypeRef type = fx_ll_with_element(LLVMTypeOf(x), fx_ll_scalar(l, to));
    LLVMTypeRef types[] = { type, LLVMTypeOf(x) };

    if (to == FX_BOOL)
        return LLVMBuildFCmp(l->b, LLVMRealUNE, x, fx_ll_float(LLVMTypeOf(x), 0), "");
    return fx_ll_intrinsic(l, fx_dtype_is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", types, 2, &x, 1);
}

static LLVMValueRef from_int(fx_ll *l, LLVMValueRef x, fx_dtype from, fx_dtype to)
{
    bool s = fx_dtype_is_int(from) && fx_dtype_is_signed(from);
    LLVMTypeRef type = fx_ll_with_element(LLVMTypeOf(x), fx_ll_scalar(l, to));
    size_t had = from == FX_BOOL ? 0 : fx_dtype_size(from), has = fx_dtype_size(to);

    if (to == FX_BOOL)
        return LLVMBuildICmp(l->b, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "");
    if (fx_dtype_is_float(to))
        return s ? LLVMBuildSIToFP(l->b, x, type, "") : LLVMBuildUIToFP(l->b, x, type, "");
    if (had == has)
        return x;
    if (had > has)
        return LLVMBuildTrunc(l->b, x, type, "");
    return s ? LLVMBuildSExt(l->b, x, type, "") : LLVMBuildZExt(l->b, x, type, "");
}

LLVMValueRef fx_ll_convert(fx_ll *l, LLVMValueRef x, fx_dtype from, fx_dtype to)
{
    if (from == to)
        return x;
    if (is_narrow(from)) {
        x = widen(l, x, from);
        from = FX_F32;
        if (to == FX_F32)
            return x;
    }
    if (!fx_dtype_is_float(from)) {
        x = from_int(l, x, from, is_narrow(to) ? FX_F32 : to);
        return is_narrow(to) ? narrowed(l, x, to) : x;
    }
    if (!fx_dtype_is_float(to))
        return from_float(l, x, to);
    if (to == FX_F64)
        return LLVMBuildFPExt(l->b, x, fx_ll_with_element(LLVMTypeOf(x), l->f64), "");
    if (to == FX_F32)
        return LLVMBuildFPTrunc(l->b, x, fx_ll_with_element(LLVMTypeOf(x), l->f32), "");
    return narrowed(l, from == FX_F64 ? to_odd(l, x) : x, to);
}
