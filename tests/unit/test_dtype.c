/* test_dtype.c - element types against values of numpy, ml_dtypes and gguf
 * (tests/data/format/make_data.py). */
#include "fxtest.h"

#include "base/file.h"
#include "tensor/blocks.h"
#include "tensor/dtype.h"
#include "tensor/grids.h"

TEST(names_go_both_ways)
{
    for (int t = 0; t < FX_DTYPE_COUNT; t++) {
        fx_dtype back = FX_DTYPE_COUNT;

        CHECK(fx_dtype_of_name(&back, fx_str_of(fx_dtype_name((fx_dtype)t))));
        CHECK_EQ_I64(back, t);
    }
    fx_dtype t;
    CHECK(fx_dtype_of_name(&t, FX_STR("Q4_K")) && t == FX_Q4_K);
    CHECK(fx_dtype_of_name(&t, FX_STR("BF16")) && t == FX_BF16);
    CHECK(!fx_dtype_of_name(&t, FX_STR("q4")));
    CHECK(!fx_dtype_of_name(&t, FX_STR("q4_kk")));
    CHECK(!fx_dtype_of_name(&t, FX_STR("")));
    CHECK_STR(fx_dtype_name(FX_DTYPE_COUNT), "dtype?");
}

TEST(flags)
{
    CHECK(fx_dtype_is_float(FX_F8E4M3) && fx_dtype_is_float(FX_F64) && !fx_dtype_is_float(FX_Q4_0));
    CHECK(fx_dtype_is_int(FX_U8) && !fx_dtype_is_signed(FX_U8) && fx_dtype_is_signed(FX_I64));
    CHECK(!fx_dtype_is_int(FX_BOOL) && fx_dtype_is_quant(FX_MXFP4) && !fx_dtype_is_quant(FX_F16));
    CHECK_EQ_U64(fx_dtype_size(FX_F64), 8);
    CHECK_EQ_U64(fx_dtype_size(FX_Q4_0), 0);
    CHECK_EQ_U64(fx_dtype_size(FX_CHAIN), 0);
}

TEST(row_bytes)
{
    static const struct {
        fx_dtype t;
        int64_t n;
        size_t bytes;
    } cases[] = {
        { FX_F32, 0, 0 },          { FX_F32, 7, 28 },         { FX_BOOL, 3, 3 },       { FX_F8E5M2, 9, 9 },
        { FX_Q4_0, 576, 324 },     { FX_Q4_1, 32, 20 },       { FX_Q5_0, 64, 44 },     { FX_Q5_1, 32, 24 },
        { FX_Q8_0, 64, 68 },       { FX_Q2_K, 256, 84 },      { FX_Q3_K, 512, 220 },   { FX_Q4_K, 256, 144 },
        { FX_Q5_K, 256, 176 },     { FX_Q6_K, 256, 210 },     { FX_IQ4_NL, 32, 18 },   { FX_IQ4_XS, 256, 136 },
        { FX_MXFP4, 32, 17 },      { FX_IQ2_XS, 256, 74 },    { FX_TQ1_0, 512, 108 },   { FX_GROUP4, 64, 48 },
             { FX_F32, -1, FX_ROW_BAD }, { FX_Q4_0, 33, FX_ROW_BAD },
        { FX_Q6_K, 128, FX_ROW_BAD }, { FX_CHAIN, 1, FX_ROW_BAD }, { FX_CHAIN, 0, FX_ROW_BAD },
        { FX_F64, INT64_MAX, FX_ROW_BAD }, { FX_F32, INT64_MAX / 2, FX_ROW_BAD }, { FX_U8, INT64_MAX, INT64_MAX },
        { FX_DTYPE_COUNT, 1, FX_ROW_BAD },
    };

    for (size_t i = 0; i < FX_COUNT(cases); i++)
        CHECK_EQ_U64(fx_dtype_row_bytes(cases[i].t, cases[i].n), cases[i].bytes);
}

static fx_buf data(const char *name)
{
    fx_error err = { 0 };
    fx_buf path, out;

    fx_buf_init(&path, &fx_mem_libc);
    fx_buf_init(&out, &fx_mem_libc);
    fx_path_join(&path, FXTEST_DATA "/format", name);
    CHECK_OK(fx_file_read(&out, path.p, 1 << 20, &err), err);
    fx_buf_done(&path);
    return out;
}

static uint32_t u32_at(const char *p)
{
    uint32_t u;

    memcpy(&u, p, sizeof(u));
    return u;
}

static void check_dequantized(const char *file, int n_types)
{
    static uint64_t src[8192 / 8];
    static float dst[2048];
    fx_buf b = data(file);
    int types = 0;

    for (size_t at = 0; at + 24 <= b.n; types++) {
        const char *p = b.p + at;
        uint32_t bytes = u32_at(p + 16), n = u32_at(p + 20);
        fx_dtype t;

        REQUIRE(fx_dtype_of_name(&t, fx_str_of(p)));
        REQUIRE(bytes <= sizeof(src) && n * 4 <= sizeof(dst));
        CHECK_EQ_U64(fx_dtype_row_bytes(t, n), bytes);
        CHECK(fx_dequantize_supports(t));
        memcpy(src, p + 24, bytes);
        memset(dst, 0x55, sizeof(dst));
        fx_dequantize_row(t, src, dst, n);
        if (memcmp(dst, p + 24 + bytes, n * 4) != 0)
            FXTEST_FAIL("%s differs", p);
        at += 24 + bytes + n * 4;
    }
    CHECK_EQ_I64(types, n_types);
    fx_buf_done(&b);
}

TEST(dequantized_bits_are_ggufs)
{
    check_dequantized("dequant.bin", 16);
    check_dequantized("dequant_grids.bin", 10);
}

/* The integers of a type are those that its blocks can hold. */
TEST(grid_values)
{
    static const fx_dtype types[] = { FX_IQ1_S, FX_IQ1_M, FX_IQ2_XXS, FX_IQ2_XS, FX_IQ2_S, FX_IQ3_XXS, FX_IQ3_S, FX_IQ4_XS };
    uint64_t bytes[32];
    uint8_t *raw = (uint8_t *)bytes;
    fx_grid_block b;

    for (size_t t = 0; t < FX_COUNT(types); t++) {
        const int8_t *values = fx_grid_values(types[t]);
        bool seen[256] = { false };

        for (int rep = 0; rep < 200; rep++) {
            for (size_t i = 0; i < sizeof(bytes); i++)
                raw[i] = (uint8_t)(rep * 57 + (int)i * (rep | 1) * 31 + (int)(i * i) % 251 + (int)i / 7 * rep);
            fx_grid_expand(types[t], raw, &b);
            for (int i = 0; i < 256; i++) {
                CHECK(memchr(values, b.v[i], 16));
                CHECK(i % 2 == 0 || fx_grid_scales_16(types[t]) || b.scale[i / 32 * 2] == b.scale[i / 32 * 2 + 1]);
                seen[(uint8_t)b.v[i]] = true;
            }
        }
        for (int i = 0; i < 16; i++)
            CHECK(seen[(uint8_t)values[i]]);
    }
    CHECK(!fx_grid_has(FX_Q4_0) && !fx_grid_has(FX_DTYPE_COUNT));
}

TEST(group_blocks)
{
    fx_block_group4 a = { .d = 0.5f, .zero = 7 };
    fx_block_group8 b = { .d = -0.25f };
    fx_block_groupf8 c = { .d = 2 };
    float x[32];

    for (int i = 0; i < 16; i++)
        a.qs[i] = (uint8_t)(i | (15 - i) << 4);
    fx_dequantize_row(FX_GROUP4, &a, x, 32);
    CHECK(x[0] == -3.5f && x[15] == 4 && x[16] == 4 && x[31] == -3.5f);
    b.qs[3] = -128;
    b.qs[31] = 127;
    fx_dequantize_row(FX_GROUP8, &b, x, 32);
    CHECK(x[3] == 32 && x[31] == -31.75f && x[4] == 0);
    c.qs[0] = 0x7e;                  /* 448 */
    c.qs[1] = 0x81;                  /* -2^-9 */
    fx_dequantize_row(FX_GROUPF8, &c, x, 32);
    CHECK(x[0] == 896 && x[1] == -0x1p-8f && x[2] == 0);
}

TEST(no_conversion_of_integers)
{
    CHECK(!fx_dequantize_supports(FX_I8));
    CHECK(!fx_dequantize_supports(FX_BOOL));
    CHECK(!fx_dequantize_supports(FX_CHAIN));
    CHECK(!fx_dequantize_supports(FX_DTYPE_COUNT));
}

TEST(doubles_round)
{
    double src[3] = { 0.1, 1e300, -1e-320 };
    float dst[3];

    fx_dequantize_row(FX_F64, src, dst, 3);
    CHECK(dst[0] == 0.1f && isinf(dst[1]) && dst[2] == 0 && signbit(dst[2]));
}

TEST(narrowing_rounds_to_even)
{
    fx_buf b = data("narrow.bin");

    CHECK(b.n > 5000 && b.n % 10 == 0);
    for (size_t at = 0; at + 10 <= b.n; at += 10) {
        uint16_t f16, bf16;
        uint8_t e4m3 = (uint8_t)b.p[at + 8], e5m2 = (uint8_t)b.p[at + 9];
        float x;

        memcpy(&x, b.p + at, 4);
        memcpy(&f16, b.p + at + 4, 2);
        memcpy(&bf16, b.p + at + 6, 2);
        if (fx_f32_to_f16(x) != f16 || fx_f32_to_bf16(x) != bf16 || fx_f32_to_f8e4m3(x) != e4m3 ||
            fx_f32_to_f8e5m2(x) != e5m2)
            FXTEST_FAIL("%.9g: f16 %04x %04x bf16 %04x %04x e4m3 %02x %02x e5m2 %02x %02x", (double)x,
                        fx_f32_to_f16(x), f16, fx_f32_to_bf16(x), bf16, fx_f32_to_f8e4m3(x), e4m3,
                        fx_f32_to_f8e5m2(x), e5m2);
    }
    fx_buf_done(&b);
}

TEST(nan_stays_nan)
{
    static const uint32_t nans[] = { 0x7f800001, 0x7fffffff, 0xff800001, 0x7fc00000, 0xffbfffff };

    for (size_t i = 0; i < FX_COUNT(nans); i++) {
        float x = fx_f32_of_bits(nans[i]);
        bool sign = nans[i] >> 31;

        CHECK(isnan(fx_f16_to_f32(fx_f32_to_f16(x))) && isnan(fx_bf16_to_f32(fx_f32_to_bf16(x))));
        CHECK(isnan(fx_f8e4m3_to_f32(fx_f32_to_f8e4m3(x))) && isnan(fx_f8e5m2_to_f32(fx_f32_to_f8e5m2(x))));
        CHECK(fx_f32_to_f16(x) >> 15 == sign && fx_f32_to_bf16(x) >> 15 == sign);
    }
}

static uint64_t fnv(uint64_t h, float x)
{
    uint32_t u = isnan(x) ? 0x7fc00000u : fx_f32_bits(x);

    for (int i = 0; i < 4; i++)
        h = (h ^ (u >> (8 * i) & 255)) * 0x100000001b3u;
    return h;
}

TEST(widening_of_all_values)
{
    const uint64_t start = 0xcbf29ce484222325u;
    uint64_t f16 = start, bf16 = start, e4m3 = start, e5m2 = start;

    for (uint32_t i = 0; i < 65536; i++) {
        f16 = fnv(f16, fx_f16_to_f32((uint16_t)i));
        bf16 = fnv(bf16, fx_bf16_to_f32((uint16_t)i));
    }
    for (uint32_t i = 0; i < 256; i++) {
        e4m3 = fnv(e4m3, fx_f8e4m3_to_f32((uint8_t)i));
        e5m2 = fnv(e5m2, fx_f8e5m2_to_f32((uint8_t)i));
    }
    CHECK(f16 == 0x1f87f165810ea7c5u);
    CHECK(bf16 == 0xcf8e09175d8f5ba5u);
    CHECK(e4m3 == 0xdad1d9c50f749ca5u);
    CHECK(e5m2 == 0x6c1e56b6fb09c905u);
}

TEST(narrow_and_wide_are_inverse)
{
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;

        if (!isnan(fx_f16_to_f32(h)) && fx_f32_to_f16(fx_f16_to_f32(h)) != h)
            FXTEST_FAIL("f16 %04x", h);
        if (!isnan(fx_bf16_to_f32(h)) && fx_f32_to_bf16(fx_bf16_to_f32(h)) != h)
            FXTEST_FAIL("bf16 %04x", h);
    }
}

FXTEST_MAIN()
