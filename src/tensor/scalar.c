/* scalar.c - plain dtypes and their elements. */
#include "tensor/scalar.h"

#include <math.h>

#include "base/text.h"

/* What numbers a plain type holds: whole ones up to 2^bits (and negative ones); of floats also
 * multiples of 2^low and exponents up to 'high'. */
static const struct { int8_t bits; bool negative; int16_t low, high; } ranges[] = {
    [FX_BOOL] = { 1, false, 0, 1 },     [FX_I8] = { 7, true, 0, 7 },       [FX_I16] = { 15, true, 0, 15 },
    [FX_I32] = { 31, true, 0, 31 },     [FX_I64] = { 63, true, 0, 63 },    [FX_U8] = { 8, false, 0, 8 },
    [FX_U16] = { 16, false, 0, 16 },    [FX_U32] = { 32, false, 0, 32 },   [FX_U64] = { 64, false, 0, 64 },
    [FX_F16] = { 11, true, -24, 16 },   [FX_BF16] = { 8, true, -133, 128 }, [FX_F32] = { 24, true, -149, 128 },
    [FX_F64] = { 53, true, -1074, 1024 }, [FX_F8E4M3] = { 4, true, -9, 9 }, [FX_F8E5M2] = { 3, true, -16, 16 },
};

static bool holds(fx_dtype big, fx_dtype small)
{
    return ranges[big].bits >= ranges[small].bits && ranges[big].negative >= ranges[small].negative &&
           ranges[big].low <= ranges[small].low && ranges[big].high >= ranges[small].high;
}

bool fx_dtype_promote(fx_dtype a, fx_dtype b, fx_dtype *out)
{
    if ((size_t)a >= FX_COUNT(ranges) || (size_t)b >= FX_COUNT(ranges))
        return false;
    *out = holds(a, b) ? a : b;
    return holds(*out, a) && holds(*out, b);
}

bool fx_dtype_counts_to(fx_dtype t, int64_t x)
{
    uint64_t size = x < 0 ? -(uint64_t)x : (uint64_t)x;
    int bits = ranges[t].bits;

    if (x < 0 && !ranges[t].negative)
        return false;
    if (bits >= 63)
        return true;
    if (fx_dtype_is_float(t) || x < 0)
        return size <= (uint64_t)1 << bits;      /* 2^bits itself: one bit, or two's complement */
    return size < (uint64_t)1 << bits;
}

double fx_scalar_f64(fx_dtype t, const void *at)
{
    uint16_t h;
    float f;
    double d;

    switch (t) {
    case FX_F8E4M3: return (double)fx_f8e4m3_to_f32(*(const uint8_t *)at);
    case FX_F8E5M2: return (double)fx_f8e5m2_to_f32(*(const uint8_t *)at);
    case FX_F16: memcpy(&h, at, sizeof(h)); return (double)fx_f16_to_f32(h);
    case FX_BF16: memcpy(&h, at, sizeof(h)); return (double)fx_bf16_to_f32(h);
    case FX_F32: memcpy(&f, at, sizeof(f)); return (double)f;
    default:
        FX_ASSERT(t == FX_F64);
        memcpy(&d, at, sizeof(d));
        return d;
    }
}

/* x as f32 rounded to odd: cut, its last bit set where anything was cut off. What is then rounded
 * to a dtype of fewer bits is rounded as x itself would be. */
static float to_odd(double x)
{
    float f = (float)x;
    uint32_t u;

    if ((double)f == x || isnan(x) || isinf(x))
        return f;
    u = fx_f32_bits(f);
    if (fabs((double)f) > fabs(x))           /* rounded away from 0: one step back */
        u--;
    return fx_f32_of_bits(u | 1);
}

void fx_scalar_set_f64(fx_dtype t, void *at, double x)
{
    uint16_t h;
    uint8_t b;
    float f;

    switch (t) {
    case FX_F8E4M3: b = fx_f32_to_f8e4m3(to_odd(x)); memcpy(at, &b, sizeof(b)); break;
    case FX_F8E5M2: b = fx_f32_to_f8e5m2(to_odd(x)); memcpy(at, &b, sizeof(b)); break;
    case FX_F16: h = fx_f32_to_f16(to_odd(x)); memcpy(at, &h, sizeof(h)); break;
    case FX_BF16: h = fx_f32_to_bf16(to_odd(x)); memcpy(at, &h, sizeof(h)); break;
    case FX_F32: f = (float)x; memcpy(at, &f, sizeof(f)); break;
    default:
        FX_ASSERT(t == FX_F64);
        memcpy(at, &x, sizeof(x));
    }
}

int64_t fx_scalar_i64(fx_dtype t, const void *at)
{
    int64_t x = 0;

    FX_ASSERT(t <= FX_U64);
    switch (fx_dtype_rows[t].block_bytes) {
    case 1: x = t == FX_I8 ? *(const int8_t *)at : *(const uint8_t *)at; break;
    case 2: {
        uint16_t h;

        memcpy(&h, at, sizeof(h));
        x = t == FX_I16 ? (int16_t)h : h;
        break;
    }
    case 4: {
        uint32_t w;

        memcpy(&w, at, sizeof(w));
        x = t == FX_I32 ? (int32_t)w : (int64_t)w;
        break;
    }
    default: memcpy(&x, at, sizeof(x)); break;
    }
    return x;
}

void fx_scalar_set_i64(fx_dtype t, void *at, int64_t x)
{
    uint64_t u = t == FX_BOOL ? x != 0 : (uint64_t)x;
    uint32_t w = (uint32_t)u;
    uint16_t h = (uint16_t)u;
    uint8_t b = (uint8_t)u;

    FX_ASSERT(t <= FX_U64);
    switch (fx_dtype_rows[t].block_bytes) {
    case 1: memcpy(at, &b, sizeof(b)); break;
    case 2: memcpy(at, &h, sizeof(h)); break;
    case 4: memcpy(at, &w, sizeof(w)); break;
    default: memcpy(at, &u, sizeof(u)); break;
    }
}

/* The fewest digits that read back as the same element. */
static void print_float(fx_dtype t, double x, fx_buf *out)
{
    char text[40];
    double back;
    char a[8], b[8];
    int n = 0;

    fx_scalar_set_f64(t, a, x);
    for (int digits = 1; digits <= 17; digits++) {
        n = fx_format(text, sizeof(text), "%.*g", digits, x);
        if (n > 0 && fx_parse_double(fx_str_n(text, (size_t)n), &back)) {
            fx_scalar_set_f64(t, b, back);
            if (!memcmp(a, b, fx_dtype_size(t)))
                break;
        }
    }
    fx_buf_add(out, text, (size_t)FX_MAX(n, 0));
}

void fx_scalar_print(fx_dtype t, const void *at, fx_buf *out)
{
    double x = fx_dtype_is_float(t) ? fx_scalar_f64(t, at) : 0;

    if (isnan(x) || isinf(x))
        fx_buf_double(out, x);
    else if (t == FX_F32)
        fx_buf_float(out, (float)x);
    else if (fx_dtype_is_float(t))
        print_float(t, x, out);
    else if (t == FX_U64)
        fx_buf_printf(out, "%llu", (unsigned long long)fx_scalar_i64(t, at));
    else
        fx_buf_printf(out, "%lld", (long long)fx_scalar_i64(t, at));
}
