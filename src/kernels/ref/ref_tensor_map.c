/* ref_tensor_map.c - what the elementwise ops compute. */
#include "kernels/ref/ref_tensor.h"

#include <math.h>

/* ---- Two operands --------------------------------------------------------------------------- */

static double f_max(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static double f_min(double a, double b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }

/* With the sign of b. */
static double f_mod(double a, double b)
{
    double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r == 0 ? copysign(0, b) : r;
}

static double binary_f64(fx_opcode op, double a, double b)
{
    switch (op) {
    case FX_OP_ADD: return a + b;
    case FX_OP_SUB: return a - b;
    case FX_OP_MUL: return a * b;
    case FX_OP_DIV: return a / b;
    case FX_OP_POW: return pow(a, b);
    case FX_OP_MAX: return f_max(a, b);
    case FX_OP_MIN: return f_min(a, b);
    default: return f_mod(a, b);
    }
}

/* a to the b by squaring, wrapping; of a negative b, 1 / a^-b cut to an integer. */
static uint64_t i_pow(uint64_t a, uint64_t b, bool is_signed)
{
    uint64_t y = 1;

    if (is_signed && (int64_t)b < 0)
        return a == 1 ? 1 : a == UINT64_MAX ? (b & 1 ? UINT64_MAX : 1) : 0;
    for (; b; b >>= 1) {
        if (b & 1)
            y *= a;
        a *= a;
    }
    return y;
}

static uint64_t i_mod(uint64_t a, uint64_t b, bool is_signed)
{
    int64_t r;

    if (b == 0 || (is_signed && b == UINT64_MAX))
        return 0;
    if (!is_signed)
        return a % b;
    r = (int64_t)a % (int64_t)b;
    return (uint64_t)(r != 0 && (r < 0) != ((int64_t)b < 0) ? r + (int64_t)b : r);
}

static bool i_less(uint64_t a, uint64_t b, bool is_signed)
{
    return is_signed ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t binary_i64(fx_opcode op, uint64_t a, uint64_t b, bool is_signed)
{
    switch (op) {
    case FX_OP_ADD: return a + b;
    case FX_OP_SUB: return a - b;
    case FX_OP_MUL: return a * b;
    case FX_OP_POW: return i_pow(a, b, is_signed);
    case FX_OP_MAX: return i_less(a, b, is_signed) ? b : a;
    case FX_OP_MIN: return i_less(a, b, is_signed) ? a : b;
    default: return i_mod(a, b, is_signed);
    }
}

static void set_binary(fx_opcode op, const fx_tensor *y, const int64_t *i, const fx_tensor *a, const int64_t *ia,
                       const fx_tensor *b, const int64_t *ib)
{
    if (fx_dtype_is_float(y->dtype))
        fx_tensor_set_f64(y, i, binary_f64(op, fx_tensor_f64(a, ia), fx_tensor_f64(b, ib)));
    else
        fx_tensor_set_i64(y, i, (int64_t)binary_i64(op, (uint64_t)fx_tensor_i64(a, ia), (uint64_t)fx_tensor_i64(b, ib),
                                                    fx_dtype_is_signed(y->dtype)));
}

fx_status fx_ref_binary(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    fx_tensor a = fx_tensor_broadcast(c->in[0], y), b = fx_tensor_broadcast(c->in[1], y);
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        set_binary(c->op, y, i, &a, i, &b, i);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_outer(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        set_binary(FX_OP_MUL, y, i, c->in[0], &i[0], c->in[1], &i[1]);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

static bool compare_f64(fx_opcode op, double a, double b)
{
    switch (op) {
    case FX_OP_EQUAL: return a == b;
    case FX_OP_NOT_EQUAL: return a != b;
    case FX_OP_GREATER: return a > b;
    default: return a >= b;
    }
}

static bool compare_i64(fx_opcode op, uint64_t a, uint64_t b, bool is_signed)
{
    switch (op) {
    case FX_OP_EQUAL: return a == b;
    case FX_OP_NOT_EQUAL:
    case FX_OP_LOGICAL_XOR: return a != b;
    case FX_OP_GREATER: return i_less(b, a, is_signed);
    case FX_OP_LOGICAL_AND: return a && b;
    case FX_OP_LOGICAL_OR: return a || b;
    default: return !i_less(a, b, is_signed);
    }
}

fx_status fx_ref_compare(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    fx_tensor a = fx_tensor_broadcast(c->in[0], y), b = fx_tensor_broadcast(c->in[1], y);
    bool floats = fx_dtype_is_float(a.dtype) || fx_dtype_is_float(b.dtype);
    bool is_signed = fx_dtype_is_signed(a.dtype) || fx_dtype_is_signed(b.dtype);
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        bool r = floats ? compare_f64(c->op, fx_tensor_f64(&a, i), fx_tensor_f64(&b, i))
                        : compare_i64(c->op, (uint64_t)fx_tensor_i64(&a, i), (uint64_t)fx_tensor_i64(&b, i), is_signed);

        fx_tensor_set_i64(y, i, r);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Any number of operands ---------------------------------------------------------------------- */

/* Sums in rank order have one result: each is rounded to f32, unless they are of f64. */
static void set_sum(const fx_ref_call *c, const int64_t *i)
{
    const fx_tensor *y = &c->out[0];
    double sum = 0;
    uint64_t wrapped = 0;

    for (int k = 0; k < c->n_in; k++) {
        if (fx_dtype_is_float(y->dtype)) {
            double x = fx_tensor_f64(c->in[k], i);

            sum = k ? sum + x : x;
            sum = y->dtype == FX_F64 ? sum : (double)(float)sum;
        } else {
            wrapped += (uint64_t)fx_tensor_i64(c->in[k], i);
        }
    }
    if (fx_dtype_is_float(y->dtype))
        fx_tensor_set_f64(y, i, sum);
    else
        fx_tensor_set_i64(y, i, (int64_t)wrapped);
}

fx_status fx_ref_all_reduce(const fx_ref_call *c)
{
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(&c->out[0]) == 0)
        return FORNAX_OK;
    do {
        set_sum(c, i);
    } while (fx_tensor_next(&c->out[0], i));
    return FORNAX_OK;
}

/* ---- One operand -------------------------------------------------------------------------------- */

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }

static double unary_f64(fx_opcode op, double x)
{
    static const double sqrt_2_over_pi = 0.79788456080286535588;

    switch (op) {
    case FX_OP_ABS: return fabs(x);
    case FX_OP_NEGATE: return -x;
    case FX_OP_RELU: return isnan(x) ? x : x > 0 ? x : 0;
    case FX_OP_RELU2: return isnan(x) ? x : x > 0 ? x * x : 0;
    case FX_OP_EXP: return exp(x);
    case FX_OP_LOG: return log(x);
    case FX_OP_LOG1P: return log1p(x);
    case FX_OP_SQRT: return sqrt(x);
    case FX_OP_RSQRT: return 1 / sqrt(x);
    case FX_OP_SIN: return sin(x);
    case FX_OP_COS: return cos(x);
    case FX_OP_ACOS: return acos(x);
    case FX_OP_TANH: return tanh(x);
    case FX_OP_ATANH: return atanh(x);
    case FX_OP_ERF: return erf(x);
    case FX_OP_CEIL: return ceil(x);
    case FX_OP_FLOOR: return floor(x);
    case FX_OP_ROUND: return nearbyint(x);          /* the library's mode is to nearest, ties to even */
    case FX_OP_TRUNC: return trunc(x);
    case FX_OP_GELU: return isinf(x) ? (x > 0 ? x : -0.0) : x * erfc(-x / 1.41421356237309504880) / 2;
    case FX_OP_GELU_TANH: return isinf(x) ? (x > 0 ? x : -0.0) : x * (1 + tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x))) / 2;
    case FX_OP_GELU_QUICK: return isinf(x) ? (x > 0 ? x : -0.0) : x * sigmoid(1.702 * x);
    case FX_OP_SIGMOID: return sigmoid(x);
    default: return isinf(x) ? (x > 0 ? x : -0.0) : x * sigmoid(x);      /* SILU */
    }
}

static uint64_t unary_i64(fx_opcode op, uint64_t x, bool is_signed)
{
    bool negative = is_signed && (int64_t)x < 0;

    switch (op) {
    case FX_OP_ABS: return negative ? -x : x;
    case FX_OP_NEGATE: return -x;
    case FX_OP_RELU: return negative ? 0 : x;
    default: return !x;                             /* LOGICAL_NOT */
    }
}

fx_status fx_ref_unary(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        if (fx_dtype_is_float(y->dtype))
            fx_tensor_set_f64(y, i, unary_f64(c->op, fx_tensor_f64(x, i)));
        else
            fx_tensor_set_i64(y, i, (int64_t)unary_i64(c->op, (uint64_t)fx_tensor_i64(x, i), fx_dtype_is_signed(y->dtype)));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_scale(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        fx_tensor_set_f64(y, i, fx_tensor_f64(x, i) * fx_ref_f(c, FX_A_FACTOR));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_clamp(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    double limit = fx_ref_f(c, FX_A_LIMIT);
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        double v = fx_tensor_f64(x, i);

        fx_tensor_set_f64(y, i, isnan(v) ? v : f_min(f_max(v, -limit), limit));
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_test(const fx_ref_call *c)
{
    const fx_tensor *x = c->in[0], *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        double v = fx_tensor_f64(x, i);

        fx_tensor_set_i64(y, i, c->op == FX_OP_IS_NAN ? isnan(v) != 0 : isinf(v) != 0);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

/* ---- Casts ----------------------------------------------------------------------------------------- */

/* Cut towards 0 and kept in range; NaN is 0. */
static int64_t float_to_int(fx_dtype t, double x)
{
    int bits = (int)fx_dtype_size(t) * 8 - fx_dtype_is_signed(t);
    double high = ldexp(1, bits), low = fx_dtype_is_signed(t) ? -high : 0;

    if (isnan(x))
        return 0;
    x = trunc(x);
    if (x >= high)
        return (int64_t)(bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1);
    if (x <= low)
        return fx_dtype_is_signed(t) ? (int64_t)(-(uint64_t)1 << bits) : 0;
    return t == FX_U64 ? (int64_t)(uint64_t)x : (int64_t)x;
}

/* An integer as a double that rounds to a smaller float as the integer itself would: where f64
 * doesn't hold it, bits are cut off and the last one that stays is set. */
static double int_to_f64(fx_dtype t, int64_t x)
{
    bool negative = t != FX_U64 && x < 0;
    uint64_t size = negative ? -(uint64_t)x : (uint64_t)x;
    double d;

    if (size >> 53)
        size = (size & ~(uint64_t)2047) | (size & 2047 ? 2048 : 0);
    d = (double)size;
    return negative ? -d : d;
}

static void cast_one(const fx_tensor *y, const fx_tensor *x, const int64_t *i)
{
    bool from_float = fx_dtype_is_float(x->dtype), to_float = fx_dtype_is_float(y->dtype);

    if (from_float && to_float)
        fx_tensor_set_f64(y, i, fx_tensor_f64(x, i));
    else if (to_float)
        fx_tensor_set_f64(y, i, y->dtype == FX_F64 ? fx_tensor_f64(x, i) : int_to_f64(x->dtype, fx_tensor_i64(x, i)));
    else if (from_float)
        fx_tensor_set_i64(y, i, y->dtype == FX_BOOL ? fx_tensor_f64(x, i) != 0 : float_to_int(y->dtype, fx_tensor_f64(x, i)));
    else
        fx_tensor_set_i64(y, i, fx_tensor_i64(x, i));
}

fx_status fx_ref_cast(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_dtype_is_quant(c->in[0]->dtype))
        return fx_ref_fail(c, "blocks are unpacked by dequantize");
    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        cast_one(y, c->in[0], i);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}

fx_status fx_ref_where(const fx_ref_call *c)
{
    const fx_tensor *y = &c->out[0];
    fx_tensor p = fx_tensor_broadcast(c->in[0], y), a = fx_tensor_broadcast(c->in[1], y);
    fx_tensor b = fx_tensor_broadcast(c->in[2], y);
    int64_t i[FX_MAX_RANK] = { 0 };

    if (fx_tensor_count(y) == 0)
        return FORNAX_OK;
    do {
        cast_one(y, fx_tensor_i64(&p, i) ? &a : &b, i);
    } while (fx_tensor_next(y, i));
    return FORNAX_OK;
}
