/* kir_eval.c - ops on lanes of 64 bits.
 *
 * Integers are computed in 64 bits and brought back to their width.  The file is compiled without contraction (like
 * all of the library), so an operation of C on floats is one rounding. */
#include "kir/kir_eval.h"

#include <math.h>

static float f32_of(uint64_t x) { return fx_f32_of_bits((uint32_t)x); }
static uint64_t of_f32(float x) { return fx_f32_bits(x); }

static double f64_of(uint64_t x)
{
    double d;

    memcpy(&d, &x, sizeof(d));
    return d;
}

static uint64_t of_f64(double d)
{
    uint64_t x;

    memcpy(&x, &d, sizeof(x));
    return x;
}

static int width(fx_dtype t) { return t == FX_BOOL ? 1 : (int)fx_dtype_size(t) * 8; }

uint64_t fx_kir_lane(fx_dtype t, uint64_t x)
{
    int off = 64 - width(t);

    if (t == FX_BOOL)
        return x & 1;
    return fx_dtype_is_int(t) && fx_dtype_is_signed(t) ? (uint64_t)((int64_t)(x << off) >> off) : x << off >> off;
}

uint64_t fx_kir_read(fx_dtype t, const void *p)
{
    uint64_t x = 0;

    memcpy(&x, p, fx_dtype_size(t));     /* little-endian, as all that Fornax runs on */
    return t == FX_BOOL ? x != 0 : fx_kir_lane(t, x);
}

void fx_kir_write(fx_dtype t, void *p, uint64_t lane)
{
    memcpy(p, &lane, fx_dtype_size(t));
}

/* ---- Floats ------------------------------------------------------------------------------------ */

#define LEAST(a, b) ((a) != (a) || (b) != (b) ? NAN : (a) < (b) ? (a) : (b) < (a) ? (b) : signbit(a) ? (a) : (b))
#define GREATEST(a, b) ((a) != (a) || (b) != (b) ? NAN : (a) > (b) ? (a) : (b) > (a) ? (b) : signbit(a) ? (b) : (a))

static uint64_t float32(fx_kir_code code, float a, float b, float c)
{
    switch (code) {
    case FX_KIR_ADD: return of_f32(a + b);
    case FX_KIR_SUB: return of_f32(a - b);
    case FX_KIR_MUL: return of_f32(a * b);
    case FX_KIR_DIV: return of_f32(a / b);
    case FX_KIR_REM: return of_f32(fmodf(a, b));
    case FX_KIR_FMA: return of_f32(fmaf(a, b, c));
    case FX_KIR_NEG: return of_f32(a) ^ 0x80000000u;
    case FX_KIR_ABS: return of_f32(a) & 0x7fffffffu;
    case FX_KIR_MIN: return of_f32(LEAST(a, b));
    case FX_KIR_MAX: return of_f32(GREATEST(a, b));
    case FX_KIR_SQRT: return of_f32(sqrtf(a));
    case FX_KIR_FLOOR: return of_f32(floorf(a));
    case FX_KIR_CEIL: return of_f32(ceilf(a));
    case FX_KIR_TRUNC: return of_f32(truncf(a));
    case FX_KIR_RINT: return of_f32(rintf(a));
    case FX_KIR_COPYSIGN: return (of_f32(a) & 0x7fffffffu) | (of_f32(b) & 0x80000000u);
    case FX_KIR_EQ: return a == b;
    case FX_KIR_NE: return a != b;
    case FX_KIR_LT: return a < b;
    case FX_KIR_LE: return a <= b;
    default: return 0;
    }
}

static uint64_t float64(fx_kir_code code, double a, double b, double c)
{
    const uint64_t sign = (uint64_t)1 << 63;

    switch (code) {
    case FX_KIR_ADD: return of_f64(a + b);
    case FX_KIR_SUB: return of_f64(a - b);
    case FX_KIR_MUL: return of_f64(a * b);
    case FX_KIR_DIV: return of_f64(a / b);
    case FX_KIR_REM: return of_f64(fmod(a, b));
    case FX_KIR_FMA: return of_f64(fma(a, b, c));
    case FX_KIR_NEG: return of_f64(a) ^ sign;
    case FX_KIR_ABS: return of_f64(a) & ~sign;
    case FX_KIR_MIN: return of_f64(LEAST(a, b));
    case FX_KIR_MAX: return of_f64(GREATEST(a, b));
    case FX_KIR_SQRT: return of_f64(sqrt(a));
    case FX_KIR_FLOOR: return of_f64(floor(a));
    case FX_KIR_CEIL: return of_f64(ceil(a));
    case FX_KIR_TRUNC: return of_f64(trunc(a));
    case FX_KIR_RINT: return of_f64(rint(a));
    case FX_KIR_COPYSIGN: return (of_f64(a) & ~sign) | (of_f64(b) & sign);
    case FX_KIR_EQ: return a == b;
    case FX_KIR_NE: return a != b;
    case FX_KIR_LT: return a < b;
    case FX_KIR_LE: return a <= b;
    default: return 0;
    }
}

/* ---- Integers ------------------------------------------------------------------------------------ */

static uint64_t divided(bool is_signed, uint64_t a, uint64_t b)
{
    if (b == 0)
        return 0;
    if (!is_signed)
        return a / b;
    return b == UINT64_MAX ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b);
}

static uint64_t shifted_right(bool is_signed, uint64_t a, uint64_t n)
{
    return is_signed ? (uint64_t)((int64_t)a >> FX_MIN(n, 63)) : n > 63 ? 0 : a >> n;
}

/* a and b are lanes, that is, extended to 64 bits; the result is brought back by the caller. */
static uint64_t integer(fx_kir_code code, fx_dtype t, uint64_t a, uint64_t b)
{
    bool s = fx_dtype_is_signed(t), less = s ? (int64_t)a < (int64_t)b : a < b;
    uint64_t n = b < (uint64_t)width(t) ? b : 64;        /* a negative one is a large one */

    switch (code) {
    case FX_KIR_ADD: return a + b;
    case FX_KIR_SUB: return a - b;
    case FX_KIR_MUL: return a * b;
    case FX_KIR_DIV: return divided(s, a, b);
    case FX_KIR_REM: return a - divided(s, a, b) * b;
    case FX_KIR_NEG: return 0 - a;
    case FX_KIR_ABS: return s && (int64_t)a < 0 ? 0 - a : a;
    case FX_KIR_MIN: return less ? a : b;
    case FX_KIR_MAX: return less ? b : a;
    case FX_KIR_AND: return a & b;
    case FX_KIR_OR: return a | b;
    case FX_KIR_XOR: return a ^ b;
    case FX_KIR_NOT: return ~a;
    case FX_KIR_SHL: return n > 63 ? 0 : a << n;
    case FX_KIR_SHR: return shifted_right(s, a, n);
    case FX_KIR_EQ: return a == b;
    case FX_KIR_NE: return a != b;
    case FX_KIR_LT: return less;
    case FX_KIR_LE: return less || a == b;
    default: return 0;
    }
}

static uint64_t arithmetic(fx_kir_code code, fx_dtype t, fx_dtype result, uint64_t a, uint64_t b, uint64_t c)
{
    if (t == FX_F32)
        return float32(code, f32_of(a), f32_of(b), f32_of(c));
    if (t == FX_F64)
        return float64(code, f64_of(a), f64_of(b), f64_of(c));
    return fx_kir_lane(result, integer(code, t, a, b));
}

/* ---- Conversions ------------------------------------------------------------------------------------ */

/* The f32 toward zero from x, its last bit set if something was cut off: rounding that once more to fewer
 * bits is rounding x. */
static float to_odd(double x)
{
    float f = (float)x;
    uint32_t u = fx_f32_bits(f);

    if (x != x || (double)f == x)
        return f;
    if (fabs((double)f) > fabs(x))
        u--;                             /* towards zero: of infinity the largest */
    return fx_f32_of_bits(u | 1);
}

static uint64_t narrowed(fx_dtype t, float x)
{
    switch (t) {
    case FX_F16: return fx_f32_to_f16(x);
    case FX_BF16: return fx_f32_to_bf16(x);
    case FX_F8E4M3: return fx_f32_to_f8e4m3(x);
    case FX_F8E5M2: return fx_f32_to_f8e5m2(x);
    default: return of_f32(x);
    }
}

static double widened(fx_dtype t, uint64_t x)
{
    switch (t) {
    case FX_F16: return (double)fx_f16_to_f32((uint16_t)x);
    case FX_BF16: return (double)fx_bf16_to_f32((uint16_t)x);
    case FX_F8E4M3: return (double)fx_f8e4m3_to_f32((uint8_t)x);
    case FX_F8E5M2: return (double)fx_f8e5m2_to_f32((uint8_t)x);
    case FX_F32: return (double)f32_of(x);
    default: return f64_of(x);
    }
}

static uint64_t float_of_int(fx_dtype from, fx_dtype to, uint64_t x)
{
    bool s = fx_dtype_is_signed(from);

    if (to == FX_F64)
        return of_f64(s ? (double)(int64_t)x : (double)x);
    return narrowed(to, s ? (float)(int64_t)x : (float)x);
}

static uint64_t int_of_float(fx_dtype to, double x)
{
    int w = width(to);
    bool s = fx_dtype_is_signed(to);
    double top = ldexp(1, s ? w - 1 : w);        /* the first number that is too large */

    if (x != x)
        return 0;
    if (x >= top)
        return s ? ((uint64_t)1 << (w - 1)) - 1 : fx_kir_lane(to, UINT64_MAX);
    if (s)
        return x < -top ? fx_kir_lane(to, (uint64_t)1 << (w - 1)) : (uint64_t)(int64_t)x;
    return x <= 0 ? 0 : (uint64_t)x;
}

static uint64_t converted(fx_dtype from, fx_dtype to, uint64_t x)
{
    bool from_float = fx_dtype_is_float(from), to_float = fx_dtype_is_float(to);

    if (from == to)
        return x;
    if (to == FX_BOOL)
        return from_float ? widened(from, x) != 0 : x != 0;
    if (!from_float)
        return to_float ? float_of_int(from, to, x) : fx_kir_lane(to, x);
    if (!to_float)
        return int_of_float(to, widened(from, x));
    if (to == FX_F64)
        return of_f64(widened(from, x));
    if (to == FX_F32)
        return of_f32((float)widened(from, x));
    return narrowed(to, to_odd(widened(from, x)));
}

/* The lanes' bytes one after another, taken as lanes of another width. */
static void bitcast(const fx_kop *op, const uint64_t *in, uint64_t *out)
{
    uint8_t bytes[FX_KIR_MAX_LANES * 8];
    fx_ktype from = op->in[0]->type, to = op->type;

    for (int i = 0; i < from.lanes; i++)
        fx_kir_write(from.t, bytes + (size_t)i * fx_dtype_size(from.t), in[i]);
    for (int i = 0; i < to.lanes; i++)
        out[i] = fx_kir_read(to.t, bytes + (size_t)i * fx_dtype_size(to.t));
}

/* ---- Ops ------------------------------------------------------------------------------------------------ */

static uint64_t constant(const fx_kop *op)
{
    if (op->type.t == FX_F64)
        return of_f64(op->u.f);
    return op->type.t == FX_F32 ? of_f32((float)op->u.f)
           : fx_dtype_is_float(op->type.t) ? narrowed(op->type.t, to_odd(op->u.f)) : fx_kir_lane(op->type.t, (uint64_t)op->u.i);
}

static uint64_t shuffled(const fx_kop *op, const uint64_t *const *in, int lane)
{
    int from = op->u.lanes[lane], n = op->in[0]->type.lanes;

    return from < n ? in[0][from] : in[1][from - n];
}

static uint64_t lane_of(const fx_kop *op, const uint64_t *const *in, int i)
{
    switch (op->code) {
    case FX_KIR_CONST: return constant(op);
    case FX_KIR_SELECT: return in[0][i] ? in[1][i] : in[2][i];
    case FX_KIR_CONVERT: return converted(op->in[0]->type.t, op->type.t, in[0][i]);
    case FX_KIR_SPLAT: return in[0][0];
    case FX_KIR_IOTA: return fx_kir_lane(op->type.t, (uint64_t)i);
    case FX_KIR_EXTRACT: return in[0][op->u.i];
    case FX_KIR_INSERT: return i == op->u.i ? in[1][0] : in[0][i];
    case FX_KIR_SHUFFLE: return shuffled(op, in, i);
    default:
        return arithmetic(op->code, op->in[0]->type.t, op->type.t, in[0][i], op->n_in > 1 ? in[1][i] : 0,
                          op->n_in > 2 ? in[2][i] : 0);
    }
}

void fx_kir_eval(const fx_kop *op, const uint64_t *const *in, uint64_t *out)
{
    if (op->code == FX_KIR_BITCAST) {
        bitcast(op, in[0], out);
        return;
    }
    for (int i = 0; i < op->type.lanes; i++)
        out[i] = lane_of(op, in, i);
}

/* ---- Reductions --------------------------------------------------------------------------------------------- */

static const fx_kir_code combine_codes[] = {
    [FX_KIR_SUM] = FX_KIR_ADD, [FX_KIR_PROD] = FX_KIR_MUL, [FX_KIR_LEAST] = FX_KIR_MIN, [FX_KIR_GREATEST] = FX_KIR_MAX,
    [FX_KIR_ALL] = FX_KIR_AND, [FX_KIR_ANY] = FX_KIR_OR,
};

uint64_t fx_kir_combined(fx_kir_combine kind, fx_dtype t, uint64_t acc, uint64_t x, uint64_t y)
{
    if (kind == FX_KIR_DOT && fx_dtype_is_float(t))
        return arithmetic(FX_KIR_FMA, t, t, x, y, acc);
    if (kind == FX_KIR_DOT)
        return fx_kir_lane(t, acc + x * y);
    return arithmetic(combine_codes[kind], t, t, acc, x, 0);
}

static uint64_t extreme(fx_dtype t, bool least)
{
    bool s = fx_dtype_is_signed(t);
    uint64_t top = (uint64_t)1 << (width(t) - 1);

    if (t == FX_F32)
        return of_f32(least ? -INFINITY : INFINITY);
    if (t == FX_F64)
        return of_f64(least ? -(double)INFINITY : (double)INFINITY);
    return fx_kir_lane(t, s ? (least ? top : top - 1) : least ? 0 : UINT64_MAX);
}

uint64_t fx_kir_neutral(fx_kir_combine kind, fx_dtype t)
{
    switch (kind) {
    case FX_KIR_PROD: return t == FX_F32 ? of_f32(1) : t == FX_F64 ? of_f64(1) : 1;
    case FX_KIR_LEAST: return extreme(t, false);
    case FX_KIR_GREATEST: return extreme(t, true);
    case FX_KIR_ALL: return fx_kir_lane(t, UINT64_MAX);
    default: return 0;
    }
}

static bool is_nan(fx_dtype t, uint64_t x) { return arithmetic(FX_KIR_NE, t, FX_BOOL, x, x, 0) != 0; }

bool fx_kir_beats(fx_kir_combine kind, fx_dtype t, uint64_t x, uint64_t best)
{
    bool x_nan = fx_dtype_is_float(t) && is_nan(t, x), best_nan = fx_dtype_is_float(t) && is_nan(t, best);

    if (x_nan || best_nan)
        return x_nan && !best_nan;
    return kind == FX_KIR_ARGLEAST ? arithmetic(FX_KIR_LT, t, FX_BOOL, x, best, 0) != 0
                                   : arithmetic(FX_KIR_LT, t, FX_BOOL, best, x, 0) != 0;
}
