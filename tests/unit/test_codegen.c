/* test_codegen.c - compiled kernels compute what the interpreter computes, bit for bit; objects stand alone, are the same
 * whoever makes them, and hostile ones aren't loaded. Without LLVM the tests that compile are skipped. */
#include <pthread.h>

#include "codegen_run.h"

#define NEED_LLVM() do { if (!*FXTEST_LLVM) SKIP("built without LLVM"); } while (0)

static fx_arena arena;
static fx_codegen *cg;
static fx_target host;

static bool setup(const char *target)
{
    fx_error err = { 0 };

    fx_arena_init(&arena, &fx_mem_libc, 0);
    if (fx_codegen_open(&cg, &fx_mem_libc, FXTEST_LLVM, &err) != FORNAX_OK || fx_target_named(&host, fx_str_of(target), &err) != FORNAX_OK) {
        FXTEST_FAIL("%s", err.text);
        return false;
    }
    return true;
}

static void teardown(void)
{
    fx_codegen_close(cg);
    fx_arena_done(&arena);
}

static fx_kir_module *parse(const char *text)
{
    fx_kir_module *m = NULL;
    fx_error err = { 0 };

    if (fx_kir_parse(&m, &arena, "test", fx_str_of(text), &err) != FORNAX_OK)
        FXTEST_FAIL("%s", err.text);
    return m;
}

/* Compiles and loads; NULL is a failed check. */
static fx_code *code_of(fx_kir_module *m)
{
    fx_code *code = NULL;
    fx_error err = { 0 };
    fx_buf object;

    fx_buf_init(&object, &fx_mem_libc);
    if (fx_codegen_compile(cg, &object, m, &host, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, &err) != FORNAX_OK ||
        fx_code_load(&code, &fx_mem_libc, fx_buf_view(&object), "test", &err) != FORNAX_OK)
        FXTEST_FAIL("%s", err.text);
    fx_buf_done(&object);
    return code;
}

/* ---- Ops ------------------------------------------------------------------------------------------- */

static const uint64_t f32_edges[] = {
    0, 0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0x3fc00000, 0x40200000, 0xc0200000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
    1, 0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x4b000001, 0x4b800001, 0x4effffff, 0x4f000000, 0xcf000000, 0x4f800000,
    0x5effffff, 0x5f000000, 0xdf000000, 0x5f800000, 0x42fe0000, 0x43000000, 0xc3000000, 0x437f0000, 0x43800000, 0x477ff000, 0x477fefff,
    0x33000000, 0x33000001, 0x38800000, 0x387fffff, 0x43e80000, 0x43e80001, 0x3f808000, 0x3f818000, 0x4048f5c3,
};
static const double f64_edges[] = {
    0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, INFINITY, -INFINITY, NAN, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
    4503599627370497.0, 9007199254740993.0, 2147483647, 2147483648, -2147483648.0, -2147483649.0, 4294967295, 4294967296, 9223372036854775807.0,
    -9223372036854775808.0, 18446744073709551615.0, 1e300, 3.4028235677973366e38, 3.4028234663852886e38, 1.401298464324817e-45, 7e-46,
    1.00000001, 65519.99999, 65520, 464, 464.0000001, 1.0009765625001, 1.00048828125, 3.14159265358979, 127, 128, -128, -129, 255, 256,
};
static const int64_t int_edges[] = {
    0, 1, -1, 2, -2, 3, 7, -7, 8, 15, 16, 31, 32, 63, 64, 127, -128, 128, 255, 256, 32767, -32768, 65535, 65536, 2147483647, -2147483648LL,
    4294967295LL, 4294967296LL, INT64_MAX, INT64_MIN, INT64_MAX - 1, INT64_MIN + 1, 16777217, -16777217, 9007199254740993LL, 1000000007,
};

#define N_VALUES 4096

static uint64_t edge(fx_dtype t, uint64_t i)
{
    uint64_t u;

    switch (t) {
    case FX_F32: return f32_edges[i % FX_COUNT(f32_edges)];
    case FX_F64: memcpy(&u, &f64_edges[i % FX_COUNT(f64_edges)], sizeof(u)); return u;
    default: return fx_dtype_is_float(t) ? i * 257 : (uint64_t)int_edges[i % FX_COUNT(int_edges)];
    }
}

/* Edges against edges first, then random bits. Which: 0, 1, 2 of three operands. */
static void fill(fx_dtype t, uint8_t *p, int which)
{
    size_t size = fx_dtype_size(t);

    for (uint64_t i = 0; i < N_VALUES; i++) {
        uint64_t n = t == FX_F32 ? FX_COUNT(f32_edges) : t == FX_F64 ? FX_COUNT(f64_edges) : FX_COUNT(int_edges);
        uint64_t x = edge(t, which == 0 ? i : which == 1 ? i / n : i * 7 / 3);

        if (i >= N_VALUES * 3 / 4)
            x = run_random() >> (run_random() % 3 * 16);
        if (t == FX_BOOL)
            x &= 1;
        memcpy(p + i * size, &x, size);
    }
}

static const int lane_counts[] = { 1, 4, 16, 64 };

static void kernel_head(fx_buf *b, int number, const char *in, const char *out)
{
    fx_buf_printf(b, "kernel @k%d(%%n: size, %%a: %s[%%n] in, %%b: %s[%%n] in, %%c: %s[%%n] in, %%y: %s[%%n] out) {\n"
                     "grid { yield 2 }\nbody %%t {\n", number, in, in, in, out);
}

/* Two tasks, each half of the values. */
static void op_kernel(fx_buf *b, int number, fx_kir_code code, fx_dtype t, int lanes)
{
    const fx_kir_row *row = &fx_kir_rows[code];
    const char *in = fx_dtype_name(t);
    char x[16] = "";

    if (lanes > 1)
        snprintf(x, sizeof(x), "x%d", lanes);
    kernel_head(b, number, in, row->form == FX_KFORM_COMPARE ? "bool" : in);
    fx_buf_printf(b, "%%half = div %%n, 2\n%%lo = mul %%t, %%half\n%%hi = add %%lo, %%half\nfor %%i = %%lo to %%hi step %d {\n", lanes);
    for (int i = 0; i < 3; i++)
        fx_buf_printf(b, "%%x%d = load %s%s %%%c[%%i]\n", i, in, x, "abc"[i]);
    if (code == FX_KIR_SELECT)
        fx_buf_puts(b, t == FX_BOOL ? "%m = eq %x0, %x1\n" : fx_dtype_is_float(t) && fx_dtype_size(t) < 4 ? "" : "%m = lt %x0, %x1\n");
    fx_buf_printf(b, "%%r = %s ", row->text);
    for (int i = 0; i < row->operands; i++)
        fx_buf_printf(b, "%s%s%d", i ? ", " : "", code == FX_KIR_SELECT && i == 0 ? "%m#" : "%x", i);
    fx_buf_puts(b, "\nstore %r, %y[%i]\n}\n}\n}\n");
    for (char *p = b->p; (p = strchr(p, '#')); p++) {            /* %m#0 is %m */
        p[0] = ' ';
        p[1] = ' ';
    }
}

static bool op_takes(const fx_kir_row *row, fx_kir_code code, fx_dtype t)
{
    if (code == FX_KIR_SELECT)
        return t == FX_BOOL || fx_dtype_is_int(t) || t == FX_F32 || t == FX_F64;
    if ((row->form != FX_KFORM_SAME && row->form != FX_KFORM_COMPARE) || (row->flags & FX_KOPF_MATH) || code == FX_KIR_INSERT)
        return false;
    return ((row->flags & FX_KOPF_F) && (t == FX_F32 || t == FX_F64)) || ((row->flags & FX_KOPF_I) && fx_dtype_is_int(t)) ||
           ((row->flags & FX_KOPF_B) && t == FX_BOOL);
}

/* Runs all kernels of the text, which take three of t and give some type. */
static int run_kernels(const fx_buf *text, fx_dtype t)
{
    fx_kir_module *m = parse(text->p);
    fx_code *code = m ? code_of(m) : NULL;
    run_buffer in[4];
    uint64_t args[] = { N_VALUES };
    int bad = 0;

    for (int i = 0; i < 4; i++) {
        in[i] = (run_buffer){ t, N_VALUES, calloc(N_VALUES, 8) };
        if (i < 3)
            fill(t, in[i].data, i);
    }
    for (fx_kir_kernel *k = code ? m->first : NULL; k; k = k->next) {
        in[3].t = k->params.at[4]->u.buf->dtype;
        if (run_both(k, code, args, in, 4))
            bad++;
    }
    for (int i = 0; i < 4; i++)
        free(in[i].data);
    fx_code_free(code);
    return bad + !code;
}

static void ops_of(fx_dtype t)
{
    fx_buf text;
    int n = 0;

    fx_buf_init(&text, &fx_mem_libc);
    for (size_t l = 0; l < FX_COUNT(lane_counts); l++) {
        for (int c = 0; c < FX_KIR_COUNT; c++) {
            if (op_takes(&fx_kir_rows[c], (fx_kir_code)c, t))
                op_kernel(&text, n++, (fx_kir_code)c, t, lane_counts[l]);
        }
    }
    if (run_kernels(&text, t))
        FXTEST_FAIL("of %s", fx_dtype_name(t));
    fx_buf_done(&text);
}

static const fx_dtype types[] = {
    FX_BOOL, FX_I8, FX_I16, FX_I32, FX_I64, FX_U8, FX_U16, FX_U32, FX_U64, FX_F32, FX_F64, FX_F16, FX_BF16, FX_F8E4M3, FX_F8E5M2,
};

static void all_ops(const char *target)
{
    if (!setup(target))
        return;
    for (int i = 0; i < 11; i++)
        ops_of(types[i]);
    teardown();
}

TEST(ops_equal_the_interpreters)
{
    NEED_LLVM();
    all_ops("host");
}

/* ---- Conversions -------------------------------------------------------------------------------------- */

static void convert_kernel(fx_buf *b, int number, fx_dtype from, fx_dtype to, int lanes)
{
    char x[16] = "";

    if (lanes > 1)
        snprintf(x, sizeof(x), "x%d", lanes);
    kernel_head(b, number, fx_dtype_name(from), fx_dtype_name(to));
    fx_buf_printf(b, "%%half = div %%n, 2\n%%lo = mul %%t, %%half\n%%hi = add %%lo, %%half\nfor %%i = %%lo to %%hi step %d {\n", lanes);
    fx_buf_printf(b, "%%x = load %s%s %%a[%%i]\n%%r = convert %s%s %%x\nstore %%r, %%y[%%i]\n}\n}\n}\n", fx_dtype_name(from), x, fx_dtype_name(to), x);
}

static void all_conversions(const char *target)
{
    if (!setup(target))
        return;
    for (size_t from = 0; from < FX_COUNT(types); from++) {
        fx_buf text;
        int n = 0;

        fx_buf_init(&text, &fx_mem_libc);
        for (size_t l = 0; l < FX_COUNT(lane_counts); l++) {
            for (size_t to = 0; to < FX_COUNT(types); to++) {
                if (to != from)
                    convert_kernel(&text, n++, types[from], types[to], lane_counts[l]);
            }
        }
        if (run_kernels(&text, types[from]))
            FXTEST_FAIL("from %s", fx_dtype_name(types[from]));
        fx_buf_done(&text);
    }
    teardown();
}

TEST(conversions_equal_the_interpreters)
{
    NEED_LLVM();
    all_conversions("host");
}

FXTEST_MAIN()
