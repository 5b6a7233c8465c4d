/* test_codegen.c - compiled kernels compute what the interpreter computes, bit for bit; objects stand alone, are the same
 * whoever makes them, and hostile ones aren't loaded. Without LLVM the tests that compile are skipped. */
#include <pthread.h>
#include <unistd.h>

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
    for (fx_kir_kernel *k = m ? m->first : NULL; k; k = k->next) {
        if (fx_kir_check(k, &err) != FORNAX_OK) {
            FXTEST_FAIL("%s", err.text);
            return NULL;
        }
    }
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

static bool everything(void) { return getenv("FXTEST_LONG") != NULL; }

/* Lanes of all kernels of a run, a zero behind them. */
static const int all_lanes[] = { 1, 2, 4, 8, 16, 32, 64, 0 }, few_lanes[] = { 1, 16, 0 }, eight[] = { 8, 0 };
static const int *lanes_of_host(void) { return everything() ? all_lanes : few_lanes; }
static const int *lanes_elsewhere(void) { return everything() ? all_lanes : eight; }

static void kernel_head(fx_buf *b, int number, const char *in, const char *out)
{
    fx_buf_printf(b, "kernel @k%d(%%n: size, %%a: %s[%%n] in, %%b: %s[%%n] in, %%c: %s[%%n] in, %%y: %s[%%n] out) {\n"
                     "grid { yield 1 }\nbody %%t {\n", number, in, in, in, out);
}

static void op_kernel(fx_buf *b, int number, fx_kir_code code, fx_dtype t, int lanes)
{
    const fx_kir_row *row = &fx_kir_rows[code];
    const char *in = fx_dtype_name(t);
    char x[16] = "";

    if (lanes > 1)
        snprintf(x, sizeof(x), "x%d", lanes);
    kernel_head(b, number, in, row->form == FX_KFORM_COMPARE ? "bool" : in);
    fx_buf_printf(b, "for %%i = 0 to %%n step %d {\n", lanes);
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

static void ops_text(fx_buf *text, fx_dtype t, const int *lanes)
{
    int n = 0;

    for (; *lanes; lanes++) {
        for (int c = 0; c < FX_KIR_COUNT; c++) {
            if (op_takes(&fx_kir_rows[c], (fx_kir_code)c, t))
                op_kernel(text, n++, (fx_kir_code)c, t, *lanes);
        }
    }
}

#define N_ARITHMETIC 11          /* of 'all_types': those that have ops */

/* Runs what 'make' writes for the first n all_types. */
static void all_kernels(const char *target, void (*make)(fx_buf *text, fx_dtype t, const int *lanes), int n, const int *lanes)
{
    if (!setup(target))
        return;
    for (int i = 0; i < n; i++) {
        fx_buf text;

        fx_buf_init(&text, &fx_mem_libc);
        make(&text, all_types[i], lanes);
        if (run_kernels(&text, all_types[i]))
            FXTEST_FAIL("of %s", fx_dtype_name(all_types[i]));
        fx_buf_done(&text);
    }
    teardown();
}

TEST(ops_equal_the_interpreters)
{
    NEED_LLVM();
    all_kernels("host", ops_text, N_ARITHMETIC, lanes_of_host());
}

/* ---- Conversions -------------------------------------------------------------------------------------- */

static void convert_kernel(fx_buf *b, int number, fx_dtype from, fx_dtype to, int lanes)
{
    char x[16] = "";

    if (lanes > 1)
        snprintf(x, sizeof(x), "x%d", lanes);
    kernel_head(b, number, fx_dtype_name(from), fx_dtype_name(to));
    fx_buf_printf(b, "for %%i = 0 to %%n step %d {\n", lanes);
    fx_buf_printf(b, "%%x = load %s%s %%a[%%i]\n%%r = convert %s%s %%x\nstore %%r, %%y[%%i]\n}\n}\n}\n", fx_dtype_name(from), x, fx_dtype_name(to), x);
}

static void conversions_text(fx_buf *text, fx_dtype from, const int *lanes)
{
    int n = 0;

    for (; *lanes; lanes++) {
        for (size_t to = 0; to < FX_COUNT(all_types); to++) {
            if (all_types[to] != from)
                convert_kernel(text, n++, from, all_types[to], *lanes);
        }
    }
}

TEST(conversions_equal_the_interpreters)
{
    NEED_LLVM();
    all_kernels("host", conversions_text, FX_COUNT(all_types), lanes_of_host());
}

/* The same for the lower level of x86, where this machine is one. */
TEST(avx2_equals_the_interpreters)
{
    fx_target t;
    fx_error err;

    NEED_LLVM();
    if (fx_target_named(&t, FX_STR("x86-64-v3"), &err) != FORNAX_OK || !fx_target_runs_here(&t))
        SKIP("no AVX2");
    all_kernels("x86-64-v3", ops_text, N_ARITHMETIC, lanes_elsewhere());
    all_kernels("x86-64-v3", conversions_text, FX_COUNT(all_types), lanes_elsewhere());
}

/* Code for machines that this one isn't can't be run, but must stand alone as well. */
TEST(arm_objects_stand_alone)
{
    NEED_LLVM();
    for (size_t i = 0; i < FX_COUNT(all_types); i++) {
        fx_kir_module *m;
        fx_error err = { 0 };
        fx_buf text, object;

        if (!setup("neoverse-n1"))
            return;
        fx_buf_init(&text, &fx_mem_libc);
        fx_buf_init(&object, &fx_mem_libc);
        if (i < N_ARITHMETIC)
            ops_text(&text, all_types[i], lanes_elsewhere());
        else
            conversions_text(&text, all_types[i], lanes_elsewhere());
        m = parse(text.p);
        if (m && fx_codegen_compile(cg, &object, m, &host, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, &err) != FORNAX_OK)
            FXTEST_FAIL("%s", err.text);
        CHECK(object.n > 0);
        fx_buf_done(&object);
        fx_buf_done(&text);
        teardown();
    }
}

/* ---- Vectors and bits ----------------------------------------------------------------------------------- */

/* Of type T in 8 lanes: parts exchanged, lanes replaced, bits seen as another type and back. */
static const char vectors[] =
    "kernel @v(%n: size, %a: T[%n] in, %b: T[%n] in, %c: T[%n] in, %y: T[%n] out) { grid { yield 1 } body %t {\n"
    "for %i = 0 to %n step 32 {\n"
    "%p = load Tx8 %a[%i]\n%q = load Tx8 %b[%i]\n%i8 = add %i, 8\n%i16 = add %i, 16\n%i24 = add %i, 24\n%s = load T %c[%i]\n"
    "%u = shuffle Tx8 %p, %q, [15,0,8,7,3,3,9,1]\nstore %u, %y[%i]\n"
    "%e = extract %u, 5\n%w = splat Tx8 %e\n%x = insert %w, %s, 3\nstore %x, %y[%i8]\n"
    "%k = bitcast u8xN %q\n%m = bitcast Tx8 %k\n%h = shuffle Tx4 %m, %p, [1,3,5,15]\nstore %h, %y[%i16]\n"
    "%o = shuffle T %h, %h, [6]\nstore %o, %y[%i24]\n"
    "} } }\n";

static void replace_all(fx_buf *out, const char *text, const char *t, int bytes)
{
    for (const char *p = text; *p; p++) {
        bool type = *p == 'T' && strchr(" x[", p[1]), count = *p == 'N';

        if (type)
            fx_buf_puts(out, t);
        else if (count)
            fx_buf_printf(out, "%d", bytes);
        else
            fx_buf_putc(out, *p);
    }
}

TEST(vectors_equal_the_interpreters)
{
    NEED_LLVM();
    if (!setup("host"))
        return;
    for (size_t i = 1; i < FX_COUNT(all_types); i++) {        /* bool has no bits to cast */
        fx_buf text;

        fx_buf_init(&text, &fx_mem_libc);
        replace_all(&text, vectors, fx_dtype_name(all_types[i]), (int)fx_dtype_size(all_types[i]) * 8);
        if (run_kernels(&text, all_types[i]))
            FXTEST_FAIL("of %s", fx_dtype_name(all_types[i]));
        fx_buf_done(&text);
    }
    teardown();
}

/* ---- Structure -------------------------------------------------------------------------------------------- */

/* A kernel of %n, %x: i64[%n] in, %y: i64[%n] out; run for some n. */
static const struct { const char *name, *body; } flows[] = {
    { "loops", "%s = local 0\nfor %i = 3 to %n step 7 {\nfor %j = %i to 20 {\n%g = get %s\n%h = add %g, %j\nset %s, %h\n}\n%v = get %s\n"
               "store %v, %y[%i]\n}" },
    { "near the top", "%c = local 0\nfor %i = 9223372036854775800 to 9223372036854775807 step 3 {\n%g = get %c\n%h = add %g, 1\nset %c, %h\n}\n"
                      "for %j = 9223372036854775800 to 9223372036854775807 {\n%p = get %c\n%q = add %p, 100\nset %c, %q\n}\n"
                      "%v = get %c\nstore %v, %y[0]" },
    { "over all numbers", "%c = local 0\nfor %i = -9223372036854775807 to 9223372036854775807 step 4611686018427387904 {\n%g = get %c\n"
                          "%h = add %g, 1\nset %c, %h\n}\n%v = get %c\nstore %v, %y[0]" },
    { "branches", "for %i = 0 to %n {\n%v = load i64 %x[%i]\n%o = and %v, 1\n%c = eq %o, 1\nif %c {\n%d = mul %v, 3\nstore %d, %y[%i]\n} else {\n"
                  "%b = lt %v, 100\nif %b {\nstore %v, %y[%i]\n}\n} }" },
    { "a while", "for %i = 0 to %n {\n%v = load i64 %x[%i]\n%w = and %v, 255\n%l = local %w\n%k = local 0\nwhile {\n%g = get %l\n%c = lt 1, %g\nyield %c\n} do {\n"
                 "%f = get %l\n%h = div %f, 2\nset %l, %h\n%a = get %k\n%b = add %a, 1\nset %k, %b\n}\n%r = get %k\nstore %r, %y[%i]\n}" },
    { "an array", "for %i = 0 to %n {\n%m = alloc private i64[4,3]\n%v = load i64 %x[%i]\n%a = and %v, 3\n%p = load i64 %m[%a,1]\nstore %v, %m[%a,1]\n"
                  "%q = load i64 %m[%a,1]\n%r = add %p, %q\nstore %r, %y[%i]\n}" },
    { "threads", "%m = alloc shared i64[64]\nthreads %i = 0 to 64 {\n%c = lt %i, %n\n%v = load i64 %x[%i] if %c\nstore %v, %m[%i]\n}\nthreads %k = 0 to 64 {\n"
                 "%j = sub 63, %k\n%w = load i64 %m[%j]\n%d = lt %k, %n\nstore %w, %y[%k] if %d\n}" },
    { "forall", "forall %i = 0 to %n {\n%v = load i64 %x[%i]\n%w = mul %v, %v\nstore %w, %y[%i]\n}" },
    { "a big array", "%m = alloc private i32[1000]\nfor %i = 0 to %n {\n%j = rem %i, 1000\n%k = convert i32 %i\nstore %k, %m[%j]\n}\nfor %p = 0 to %n {\n"
                     "%q = rem %p, 1000\n%v = load i32 %m[%q]\n%w = convert i64 %v\nstore %w, %y[%p]\n}" },
    /* faults: */
    { "a load outside", "for %i = 0 to %n {\n%j = add %i, 2\n%v = load i64 %x[%j]\n%w = add %v, 1\nstore %w, %y[%i]\n}" },
    { "a store outside", "for %i = 0 to %n {\n%j = sub %i, 1\nstore %i, %y[%j]\n}" },
    { "vectors partly outside", "for %i = -8 to %n step 4 {\n%v = load i64x8 %x[%i]\nstore %v, %y[%i]\n}" },
    { "under a mask", "for %i = 0 to %n step 8 {\n%a = iota i64x8\n%s = splat i64x8 %i\n%b = add %a, %s\n%l = splat i64x8 %n\n%m = lt %b, %l\n"
                      "%v = load i64x8 %x[%i] if %m\n%w = add %v, %a\nstore %w, %y[%i] if %m\n}" },
    { "a mask of one", "for %i = -3 to %n {\n%c = lt -2, %i\n%v = load i64 %x[%i] if %c\nstore %v, %y[%i] if %c\n}" },
    { "under half a mask", "for %i = 0 to %n step 8 {\n%a = iota i64x8\n%f = splat i64x8 5\n%m = lt %a, %f\n"
                           "%v = load i64x8 %x[%i] if %m\nstore %v, %y[%i] if %m\n}" },
    { "gathered", "for %i = 0 to %n step 4 {\n%a = iota i64x4\n%s = splat i64x4 %i\n%t3 = splat i64x4 3\n%b = mul %a, %t3\n%d = sub %s, %b\n"
                  "%v = gather i64x4 %x[%d]\n%q = add %s, %a\nscatter %v, %y[%q]\n}" },
    { "scattered in order", "%z = const i64x8 0\n%a = iota i64x8\nscatter %a, %y[%z]\n%o = const i64x8 1\n%m = lt %z, %a\nscatter %a, %y[%o] if %m\n"
                            "%g = gather i64x8 %x[%a] if %m\n%e = extract %g, 7\nstore %e, %y[0]" },
};

static const int64_t counts[] = { 0, 1, 3, 8, 50, 64, 1003 };

TEST(structure_equals_the_interpreters)
{
    NEED_LLVM();
    if (!setup("host"))
        return;
    for (size_t f = 0; f < FX_COUNT(flows); f++) {
        char text[3000];
        fx_kir_module *m;
        fx_code *code;

        snprintf(text, sizeof(text), "kernel @k(%%n: size, %%x: i64[%%n] in, %%y: i64[%%n] out) { grid { yield 1 } body %%t {\n%s\n} }\n", flows[f].body);
        m = parse(text);
        code = m ? code_of(m) : NULL;
        for (size_t c = 0; code && c < FX_COUNT(counts); c++) {
            run_buffer b[] = { { FX_I64, counts[c], calloc(1024, 8) }, { FX_I64, counts[c], calloc(1024, 8) } };

            for (int i = 0; i < 1024; i++)
                ((int64_t *)b[0].data)[i] = (int64_t)run_random() >> 40;
            if (run_both(m->first, code, (uint64_t[]){ (uint64_t)counts[c] }, b, 2))
                FXTEST_FAIL("%s, n = %" PRId64, flows[f].name, counts[c]);
            free(b[0].data);
            free(b[1].data);
        }
        fx_code_free(code);
    }
    teardown();
}

/* Tensors of two axes with strides, and a second axis that runs backwards; indices outside of either. */
static const char strided[] =
    "kernel @k(%n: size, %m: size, %s: i64, %x: f32[%n,%m] in, %z: f32[%n:8,4:2] in, %y: f32[%n:%s,%m:1] inout, %f: i64) {\n"
    "grid {\n%e = add %n, 1\nyield %e\n}\nbody %t {\n%h = add %m, %f\nfor %j = %f to %h {\n%v = load f32 %x[%t,%j]\n%w = load f32 %z[%t,%j]\n"
    "%o = load f32 %y[%t,%j]\n%a = add %v, %w\n%b = add %a, %o\nstore %b, %y[%t,%j]\n} } }\n";

TEST(strides_equal_the_interpreters)
{
    fx_kir_module *m;
    fx_code *code;

    NEED_LLVM();
    if (!setup("host"))
        return;
    m = parse(strided);
    code = m ? code_of(m) : NULL;
    for (int64_t f = -1; code && f < 3; f++) {
        float data[3][64];
        run_buffer b[] = { { FX_F32, 64, data[0] }, { FX_F32, 64, data[1] }, { FX_F32, 64, data[2] } };

        for (int i = 0; i < 3 * 64; i++)
            data[i / 64][i % 64] = (float)i;
        run_both(m->first, code, (uint64_t[]){ 5, 4, 7, (uint64_t)f }, b, 3);
    }
    fx_code_free(code);
    teardown();
}

/* ---- Reductions -------------------------------------------------------------------------------------------- */

static void reduce_kernel(fx_buf *b, int number, fx_kir_combine kind, fx_dtype t, int lanes)
{
    const char *in = fx_dtype_name(t);
    bool arg = kind >= FX_KIR_ARGLEAST;

    kernel_head(b, number, in, arg ? "i64" : in);
    fx_buf_printf(b, "for %%i = 0 to 40 {\n%%o = mul %%i, %%i\n%%hi = add %%o, %%i\n%%r = reduce %s %s %d, %%k = %%o to %%hi {\n%%p = load %s %%a[%%k]\n",
                  arg ? "i64" : in, fx_kir_combine_name(kind), lanes, in);
    fx_buf_printf(b, "%s", kind == FX_KIR_DOT ? "%q = load " : "");
    if (kind == FX_KIR_DOT)
        fx_buf_printf(b, "%s %%b[%%k]\nyield %%p, %%q\n}\n", in);
    else
        fx_buf_puts(b, "yield %p\n}\n");
    fx_buf_puts(b, "store %r, %y[%i]\n}\n}\n}\n");
}

static bool reduces(fx_kir_combine kind, fx_dtype t, int lanes)
{
    if (kind == FX_KIR_ALL || kind == FX_KIR_ANY)
        return t == FX_BOOL;
    return t != FX_BOOL && (kind != FX_KIR_DOT || fx_dtype_is_float(t)) && (kind < FX_KIR_ARGLEAST || lanes == 1);
}

TEST(reductions_equal_the_interpreters)
{
    static const int lanes[] = { 1, 2, 16, 64 };

    NEED_LLVM();
    if (!setup("host"))
        return;
    for (int t = 0; t < 11; t++) {
        fx_buf text;
        int n = 0;

        fx_buf_init(&text, &fx_mem_libc);
        for (int kind = 0; kind < FX_KIR_COMBINES; kind++) {
            for (size_t l = 0; l < FX_COUNT(lanes); l++) {
                if (reduces((fx_kir_combine)kind, all_types[t], lanes[l]))
                    reduce_kernel(&text, n++, (fx_kir_combine)kind, all_types[t], lanes[l]);
            }
        }
        if (run_kernels(&text, all_types[t]))
            FXTEST_FAIL("of %s", fx_dtype_name(all_types[t]));
        fx_buf_done(&text);
    }
    teardown();
}

/* ---- Compiles ---------------------------------------------------------------------------------------------- */

typedef struct job {
    int number;
    fx_buf object;
} job;

static const char saxpy[] =
    "kernel @saxpy%d(%%n: size, %%a: f32, %%x: f32[%%n] in, %%y: f32[%%n] inout) { grid { yield 1 } body %%t {\n%%v = splat f32x16 %%a\n"
    "for %%i = 0 to %%n step 16 {\n%%p = load f32x16 %%x[%%i]\n%%q = load f32x16 %%y[%%i]\n%%r = fma %%p, %%v, %%q\n%%c = const f32x16 %d\n%%s = add %%r, %%c\n"
    "store %%s, %%y[%%i]\n} } }\n";

static void *compile_job(void *user)
{
    job *j = user;
    char text[800];
    fx_arena own;
    fx_kir_module *m = NULL;
    fx_target t;
    fx_error err = { 0 };

    fx_arena_init(&own, &fx_mem_libc, 0);
    snprintf(text, sizeof(text), saxpy, j->number, j->number);
    fx_target_named(&t, FX_STR("host"), &err);
    if (fx_kir_parse(&m, &own, "test", fx_str_of(text), &err) == FORNAX_OK)
        fx_codegen_compile(cg, &j->object, m, &t, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, &err);
    fx_arena_done(&own);
    return NULL;
}

TEST(threads_make_the_same_objects)
{
    job jobs[2][8];
    pthread_t threads[8];

    NEED_LLVM();
    if (!setup("host"))
        return;
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < 8; i++) {
            jobs[v][i].number = i;
            fx_buf_init(&jobs[v][i].object, &fx_mem_libc);
        }
    }
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, compile_job, &jobs[0][i]);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 8; i++) {
        compile_job(&jobs[1][i]);
        CHECK(jobs[1][i].object.n > 0);
        CHECK(fx_str_eq(fx_buf_view(&jobs[0][i].object), fx_buf_view(&jobs[1][i].object)));
    }
    CHECK(!fx_str_eq(fx_buf_view(&jobs[1][0].object), fx_buf_view(&jobs[1][1].object)));
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < 8; i++)
            fx_buf_done(&jobs[v][i].object);
    }
    teardown();
}

/* One form of the kernels of a text; the sentence of a fault, or "". */
static const char *compiled(fx_buf *out, const char *text, const char *target, const fx_codegen_options *o)
{
    static fx_error err;
    fx_kir_module *m = parse(text);
    fx_target t;

    err = (fx_error){ 0 };
    if (m && fx_target_named(&t, fx_str_of(target), &err) == FORNAX_OK)
        fx_codegen_compile(cg, out, m, &t, o, &err);
    return err.text;
}

static const char two[] =
    "kernel @one(%x: f32[4] inout) { grid { yield 1 } body %t {\n%v = load f32 %x[1]\nstore %v, %x[0]\n} }\n"
    "kernel @two(%x: f32[4] inout) { grid { yield 1 } body %t {\n%v = load f32 %x[2]\nstore %v, %x[0]\n} }\n";

TEST(forms)
{
    fx_buf out;

    NEED_LLVM();
    if (!setup("host"))
        return;
    fx_buf_init(&out, &fx_mem_libc);
    CHECK_STR(compiled(&out, two, "host", &(fx_codegen_options){ .form = FX_CODE_LLVM, .ids = (int64_t[]){ 7, -1 } }), "");
    CHECK(strstr(out.p, "@one(") && strstr(out.p, "@two(") && strstr(out.p, "@two_tasks("));
    CHECK(strstr(out.p, "!fornax.kernel.id") && strstr(out.p, "= !{i64 7}"));
    fx_buf_clear(&out);
    CHECK_STR(compiled(&out, two, "host", &(fx_codegen_options){ .form = FX_CODE_ASM, .kernel = FX_STR("two") }), "");
    CHECK(strstr(out.p, "two_tasks:") && !strstr(out.p, "one:"));
    fx_buf_clear(&out);
    CHECK_STR(compiled(&out, two, "host", &(fx_codegen_options){ .form = FX_CODE_LLVM, .kernel = FX_STR("three") }), "no kernel 'three' in the module");
    CHECK_STR(compiled(&out, two, "sm_80", &(fx_codegen_options){ .form = FX_CODE_LLVM, .kernel = FX_STR("two") }),
              "kernel two: no fornax.kernel.id, which code for sm_80 needs");
    CHECK_STR(compiled(&out, two, "sm_80", &(fx_codegen_options){ .form = FX_CODE_OBJECT, .kernel = FX_STR("two") }),
              "sm_80 has no objects: ask for assembly, which is PTX");
    CHECK_STR(compiled(&out, two, "gfx90a", &(fx_codegen_options){ .form = FX_CODE_OBJECT }), "code for gfx90a is made of one kernel, to be named");
    CHECK(strstr(compiled(&out, two, "i386", &(fx_codegen_options){ .form = FX_CODE_ASM }), "no code for 'i386': known are host, x86-64-v3"));
    CHECK(strstr(compiled(&out, "kernel @e(%x: f32[1] inout) { grid { yield 1 } body %t {\n%v = load f32 %x[0]\n%e = exp %v\nstore %e, %x[0]\n} }\n", "host",
                          &(fx_codegen_options){ .form = FX_CODE_OBJECT }), "no code for exp"));
    CHECK_STR(compiled(&out, "kernel @a(%x: f32[4] inout) { grid { yield 1 } body %t { } }\nkernel @a_tasks(%x: f32[4] inout) { grid { yield 1 } body %t { } }\n",
                       "host", &(fx_codegen_options){ .form = FX_CODE_OBJECT }), "kernel a_tasks: there is another function of this name");
    fx_buf_clear(&out);                  /* rounded to nearest, by name: ptxas makes fma of a mul and an add that don't say so */
    CHECK_STR(compiled(&out, "kernel @m(%x: f32[4] inout) { grid { yield 1 } body %t {\n%v = load f32 %x[1]\n%p = mul %v, %v\n%s = add %p, %v\nstore %s, %x[0]\n} }\n",
                       "sm_90", &(fx_codegen_options){ .form = FX_CODE_ASM, .kernel = FX_STR("m") }), "");
    CHECK(strstr(out.p, ".visible .entry m(") && strstr(out.p, "mul.rn.f32") && strstr(out.p, "add.rn.f32") && !strstr(out.p, "fma."));
    fx_buf_done(&out);
    teardown();
}

TEST(every_cpu_has_code)
{
    fx_buf out;

    NEED_LLVM();
    if (!setup("host"))
        return;
    fx_buf_init(&out, &fx_mem_libc);
    for (int i = 0; fx_target_name(i); i++) {
        fx_target t;
        fx_error err;

        CHECK_EQ_I64(fx_target_named(&t, fx_str_of(fx_target_name(i)), &err), FORNAX_OK);
        if (fx_target_is_offload(&t))
            continue;
        fx_buf_clear(&out);
        CHECK_STR(compiled(&out, two, fx_target_name(i), &(fx_codegen_options){ .form = FX_CODE_OBJECT }), "");
        CHECK(out.n > 0);
    }
    fx_buf_done(&out);
    teardown();
}

TEST(a_missing_part_is_named)
{
    fx_codegen *none;
    fx_error err = { 0 };

    CHECK_EQ_I64(fx_codegen_open(&none, &fx_mem_libc, "/nonexistent/libfornax-llvm.so.0", &err), FORNAX_EUNSUP);
    CHECK(!none);
    CHECK(strstr(err.text, "can't compile kernels without /nonexistent/libfornax-llvm.so.0 (Fornax's LLVM part)"));
    CHECK_EQ_I64(fx_codegen_open(&none, &fx_mem_libc, "libc.so.6", &err), FORNAX_EUNSUP);
    CHECK_STR(err.text, "libc.so.6 is of another build than this library");
}

/* ---- GPUs: what their tools say of the code ---------------------------------------------------------------------- */

/* Whether a program of this name is in PATH or where its maker puts it; 'out' gets what to call. */
static bool find_tool(char *out, size_t size, const char *const *names)
{
    for (int i = 0; names[i]; i++) {
        char command[200];

        snprintf(command, sizeof(command), "command -v %s >/dev/null 2>&1", names[i]);
        if (system(command) == 0)
            return (size_t)snprintf(out, size, "%s", names[i]) < size;
    }
    return false;
}

/* Compiles the kernel of each type from a first one on and has the tool read it: the command's %s is the file. */
static void gpu_tool(const char *target, fx_code_form form, const char *command, size_t first_type)
{
    if (!setup(target))
        return;
    for (size_t i = first_type; i < FX_COUNT(all_types); i++) {
        fx_buf text, code;
        char path[] = "/tmp/fornax-gpu-XXXXXX", line[600];
        int fd = mkstemp(path);
        FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");

        fx_buf_init(&text, &fx_mem_libc);
        fx_buf_init(&code, &fx_mem_libc);
        gpu_kernel(&text, all_types[i]);
        CHECK_STR(compiled(&code, text.p, target, &(fx_codegen_options){ .form = form, .kernel = FX_STR("gpu"), .ids = (int64_t[]){ 3 } }), "");
        CHECK(f && code.n && fwrite(code.p, 1, code.n, f) == code.n && fclose(f) == 0);
        snprintf(line, sizeof(line), "%s %s", command, path);
        if (code.n && system(line) != 0)
            FXTEST_FAIL("%s: %s refuses the code for %s", target, command, fx_dtype_name(all_types[i]));
        remove(path);
        fx_buf_done(&text);
        fx_buf_done(&code);
    }
    teardown();
}

TEST(ptxas_takes_the_ptx)
{
    char tool[100], command[300];

    NEED_LLVM();
    if (!find_tool(tool, sizeof(tool), (const char *const[]){ "ptxas", "/usr/local/cuda/bin/ptxas", NULL }))
        SKIP("no ptxas");
    snprintf(command, sizeof(command), "%s -o /dev/null -arch=sm_80", tool);
    gpu_tool("sm_80", FX_CODE_ASM, command, 0);
    snprintf(command, sizeof(command), "%s -o /dev/null -arch=sm_90", tool);
    gpu_tool("sm_90", FX_CODE_ASM, command, everything() ? 0 : 12);
}

TEST(amd_objects_disassemble)
{
    char tool[100], command[300];

    NEED_LLVM();
    if (!find_tool(tool, sizeof(tool), (const char *const[]){ "llvm-objdump-19", "llvm-objdump", NULL }))
        SKIP("no llvm-objdump");
    snprintf(command, sizeof(command), "f() { %s -d \"$1\" | grep -q s_endpgm; }; f", tool);
    gpu_tool("gfx90a", FX_CODE_OBJECT, command, 0);
    gpu_tool("gfx942", FX_CODE_OBJECT, command, everything() ? 0 : 12);
}

/* ---- Memory runs out ------------------------------------------------------------------------------------------ */

/* Fails at the n-th allocation from now, counting down in 'user'. */
static void *counting(void *user, void *p, size_t old_size, size_t new_size)
{
    int *left = user;

    if (new_size > old_size && --*left == 0)
        return NULL;
    return fx_mem_libc.fn(fx_mem_libc.user, p, old_size, new_size);
}

TEST(memory_runs_out)
{
    job j = { .number = 0 };
    fx_status st = FORNAX_ENOMEM;
    int n = 0;

    NEED_LLVM();
    if (!setup("host"))
        return;
    fx_buf_init(&j.object, &fx_mem_libc);
    compile_job(&j);
    while (st != FORNAX_OK && n < 100) {                         /* loading */
        int left = ++n;
        fx_mem mem = { counting, &left };
        fx_error err = { 0 };
        fx_code *code;

        st = fx_code_load(&code, &mem, fx_buf_view(&j.object), "short", &err);
        CHECK(st == FORNAX_OK || (st == FORNAX_ENOMEM && !code && err.text[0]));
        fx_code_free(code);
    }
    CHECK(st == FORNAX_OK && n > 3);
    fx_buf_done(&j.object);
    st = FORNAX_ENOMEM;
    for (n = 0; st != FORNAX_OK && n < 100;) {                   /* compiling */
        int left = ++n;
        fx_mem mem = { counting, &left };
        fx_kir_module *m = parse(two);
        fx_error err = { 0 };
        fx_buf out;

        fx_buf_init(&out, &mem);
        st = fx_codegen_compile(cg, &out, m, &host, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, &err);
        CHECK(st == FORNAX_OK || (st == FORNAX_ENOMEM && err.text[0]));
        left = 0;
        fx_buf_done(&out);
    }
    CHECK(st == FORNAX_OK && n > 1);
    teardown();
}

/* ---- Hostile objects ------------------------------------------------------------------------------------------- */

/* Loads a changed object; whatever comes of it, no byte outside of it is touched (sanitizers look). */
static void load_changed(const char *p, size_t n)
{
    char *copy = malloc(n ? n : 1);
    fx_code *code = NULL;
    fx_error err = { 0 };
    fx_str name;

    memcpy(copy, p, n);
    if (fx_code_load(&code, &fx_mem_libc, fx_str_n(copy, n), "hostile", &err) == FORNAX_OK)
        fx_code_find(code, FX_STR("saxpy0"));
    else
        CHECK(strstr(err.text, "hostile: "));
    fx_code_free(code);
    fx_code_undefined(fx_str_n(copy, n), &name);
    free(copy);
}

TEST(hostile_objects)
{
    job j = { .number = 0 };
    char *p;

    NEED_LLVM();
    if (!setup("host"))
        return;
    fx_buf_init(&j.object, &fx_mem_libc);
    compile_job(&j);
    REQUIRE(j.object.n > 0);
    p = j.object.p;
    for (size_t i = 0; i < j.object.n; i++)
        load_changed(p, i);
    for (size_t i = 0; i < j.object.n; i++) {
        char was = p[i];

        p[i] = (char)0xff;
        load_changed(p, j.object.n);
        p[i] = (char)(was ^ (1 << run_random() % 8));
        load_changed(p, j.object.n);
        p[i] = was;
    }
    load_changed(p, j.object.n);
    fx_buf_done(&j.object);
    teardown();
}

FXTEST_MAIN()
