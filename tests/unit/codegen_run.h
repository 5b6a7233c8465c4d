/* codegen_run.h - kernels run twice, by the interpreter and as compiled code, and their buffers compared.
 *
 * The bits must be the same, but a NaN is as good as any other. A kernel's fault counts as well. */
#ifndef FX_CODEGEN_RUN_H
#define FX_CODEGEN_RUN_H

#include "codegen/code_load.h"
#include "codegen/codegen.h"
#include "fxtest.h"
#include "kir/kir_eval.h"

typedef struct run_buffer {
    fx_dtype t;
    int64_t n;                   /* elements */
    void *data;                  /* what it holds before */
} run_buffer;

#define RUN_BUFFERS 8

static uint64_t run_seed = 88172645463325252u;

static inline uint64_t run_random(void)
{
    run_seed ^= run_seed << 13;
    run_seed ^= run_seed >> 7;
    return run_seed ^= run_seed << 17;
}

static inline bool run_is_nan(fx_dtype t, uint64_t x)
{
    switch (t) {
    case FX_F64: return (x & INT64_MAX) > 0x7ff0000000000000u;
    case FX_F32: return (x & 0x7fffffff) > 0x7f800000;
    case FX_F16: return (x & 0x7fff) > 0x7c00;
    case FX_BF16: return (x & 0x7fff) > 0x7f80;
    case FX_F8E5M2: return (x & 0x7f) > 0x7c;
    case FX_F8E4M3: return (x & 0x7f) == 0x7f;
    default: return false;
    }
}

/* Elements that differ; the first is told. */
static inline int run_differences(const char *what, int buffer, fx_dtype t, int64_t n, const uint8_t *want, const uint8_t *got)
{
    size_t size = fx_dtype_size(t);
    int bad = 0;

    for (int64_t i = 0; i < n; i++) {
        uint64_t a = 0, b = 0;

        memcpy(&a, want + (size_t)i * size, size);
        memcpy(&b, got + (size_t)i * size, size);
        if (a == b || (run_is_nan(t, a) && run_is_nan(t, b)))
            continue;
        if (bad++ == 0)
            FXTEST_FAIL("%s: buffer %d, element %" PRId64 ": %s %" PRIx64 " compiled, %" PRIx64 " interpreted", what, buffer, i,
                        fx_dtype_name(t), b, a);
    }
    return bad;
}

/* Runs all tasks of kernel k both ways on copies of the buffers; returns how many elements differ. */
static inline int run_both(fx_kir_kernel *k, const fx_code *code, const uint64_t *args, const run_buffer *buffers, int n)
{
    uint8_t *copy[2][RUN_BUFFERS] = { { NULL } };
    void *at[2][RUN_BUFFERS] = { { NULL } };
    char name[128], tasks_name[140];
    fx_kir_fault fault[2];
    fx_kir_interp *x = NULL;
    fx_error err = { 0 };
    fx_code_run run;
    fx_code_tasks tasks;
    int64_t n_tasks;
    int bad = 0;

    snprintf(name, sizeof(name), "%.*s", FX_STR_ARG(k->name));
    snprintf(tasks_name, sizeof(tasks_name), "%s_tasks", name);
    run = (fx_code_run)fx_code_find(code, fx_str_of(name));
    tasks = (fx_code_tasks)fx_code_find(code, fx_str_of(tasks_name));
    if (!run || !tasks || fx_kir_interp_new(&x, &fx_mem_libc, k, &err) != FORNAX_OK) {
        FXTEST_FAIL("%s: no code, or no interpreter: %s", name, err.text);
        return 1;
    }
    memset(fault, 0, sizeof(fault));
    for (int v = 0; v < 2; v++) {
        fault[v].op = -1;
        for (int i = 0; i < n; i++) {
            size_t bytes = (size_t)buffers[i].n * fx_dtype_size(buffers[i].t);

            copy[v][i] = malloc(bytes + 1);
            memcpy(copy[v][i], buffers[i].data, bytes);
            at[v][i] = copy[v][i];
        }
    }
    n_tasks = fx_kir_interp_tasks(x, &(fx_kir_launch){ args, at[0] });
    if (n_tasks != tasks(args))
        FXTEST_FAIL("%s: %" PRId64 " tasks compiled, %" PRId64 " interpreted", name, tasks(args), n_tasks);
    fx_kir_interp_run(x, &(fx_kir_launch){ args, at[0] }, 0, n_tasks, &fault[0]);
    run(args, at[1], 0, n_tasks, &fault[1]);
    if (memcmp(&fault[0], &fault[1], sizeof(fault[0])) != 0)
        FXTEST_FAIL("%s: fault op %d axis %d index %" PRId64 " of %" PRId64 " compiled, op %d axis %d index %" PRId64 " of %" PRId64 " interpreted",
                    name, fault[1].op, fault[1].axis, fault[1].index, fault[1].extent, fault[0].op, fault[0].axis, fault[0].index,
                    fault[0].extent);
    for (int i = 0; i < n; i++) {
        bad += run_differences(name, i, buffers[i].t, buffers[i].n, copy[0][i], copy[1][i]);
        free(copy[0][i]);
        free(copy[1][i]);
    }
    fx_kir_interp_free(x);
    return bad;
}

/* ---- Kernels and values -------------------------------------------------------------------------------- */

static const fx_dtype all_types[] = {
    FX_BOOL, FX_I8, FX_I16, FX_I32, FX_I64, FX_U8, FX_U16, FX_U32, FX_U64, FX_F32, FX_F64, FX_F16, FX_BF16, FX_F8E4M3, FX_F8E5M2,
};

static inline bool op_takes(const fx_kir_row *row, fx_kir_code code, fx_dtype t)
{
    if (code == FX_KIR_SELECT)
        return t == FX_BOOL || fx_dtype_is_int(t) || t == FX_F32 || t == FX_F64;
    if ((row->form != FX_KFORM_SAME && row->form != FX_KFORM_COMPARE) || (row->flags & FX_KOPF_MATH) || code == FX_KIR_INSERT)
        return false;
    return ((row->flags & FX_KOPF_F) && (t == FX_F32 || t == FX_F64)) || ((row->flags & FX_KOPF_I) && fx_dtype_is_int(t)) ||
           ((row->flags & FX_KOPF_B) && t == FX_BOOL);
}

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

#define N_VALUES 2560

static inline uint64_t edge(fx_dtype t, uint64_t i)
{
    uint64_t u;

    switch (t) {
    case FX_F32: return f32_edges[i % FX_COUNT(f32_edges)];
    case FX_F64: memcpy(&u, &f64_edges[i % FX_COUNT(f64_edges)], sizeof(u)); return u;
    default: return fx_dtype_is_float(t) ? i * 257 : (uint64_t)int_edges[i % FX_COUNT(int_edges)];
    }
}

/* Edges against edges first, then random bits. Which: 0, 1, 2 of three operands. */
static inline void fill(fx_dtype t, uint8_t *p, int which)
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

/* All ops and conversions of type t, by the threads of a block; also what threads do together. */
static inline void gpu_kernel(fx_buf *b, fx_dtype t)
{
    const char *in = fx_dtype_name(t);
    int n = 0;

    fx_buf_printf(b, "kernel @gpu(%%n: size, %%a: %s[%%n,128] in, %%y: %s[%%n,128,64] out, %%z: bool[%%n,128,64] inout, %%f: f64[%%n,128,32] out, "
                     "%%s: i64[%%n] out) {\ngrid { yield %%n }\nbody %%t {\n%%sh = alloc shared %s[128]\nthreads %%th = 0 to 128 {\n"
                     "%%l = load %s %%a[%%t,%%th]\nstore %%l, %%sh[%%th]\n}\nforall %%i = 0 to 128 {\n%%j = sub 127, %%i\n", in, in, in, in);
    fx_buf_printf(b, "%%x0 = load %s %%sh[%%i]\n%%x1 = load %s %%sh[%%j]\n%%x2 = load %s %%a[%%t,%%j]\n", in, in, in);
    for (int c = 0; c < FX_KIR_COUNT; c++) {
        const fx_kir_row *row = &fx_kir_rows[c];

        if (!op_takes(row, (fx_kir_code)c, t) || c == FX_KIR_SELECT)
            continue;
        fx_buf_printf(b, "%%r%d = %s %%x0", n, row->text);
        for (int i = 1; i < row->operands; i++)
            fx_buf_printf(b, ", %%x%d", i);
        fx_buf_printf(b, "\nstore %%r%d, %%%c[%%t,%%i,%d]\n", n, row->form == FX_KFORM_COMPARE ? 'z' : 'y', n);
        n++;
    }
    for (size_t i = 0; i < FX_COUNT(all_types); i++) {
        if (all_types[i] == t)
            continue;
        fx_buf_printf(b, "%%c%zu = convert %s %%x0\n", i, fx_dtype_name(all_types[i]));
        if (all_types[i] != FX_F64)
            fx_buf_printf(b, "%%d%zu = convert f64 %%c%zu\n", i, i);
        fx_buf_printf(b, "store %%%c%zu, %%f[%%t,%%i,%zu]\n", all_types[i] == FX_F64 ? 'c' : 'd', i, i);
    }
    fx_buf_puts(b, "}\n%sum = local 0\nfor %p = 0 to 128 {\n%o = load bool %z[%t,%p,0]\n%q = convert i64 %o\n%g = get %sum\n%h = add %g, %q\nset %sum, %h\n}\n"
                   "%total = get %sum\nstore %total, %s[%t]\n} }\n");
}

#endif
