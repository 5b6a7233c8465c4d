/* test_kir_compiled.c - random kernels: compiled, and widened before that, they compute what the interpreter says of them as they
 * were made. Without LLVM the test is skipped. */
#include "fxtest.h"

#include "codegen/code_load.h"
#include "codegen/codegen.h"
#include "kir_run.h"

static fx_arena arena;

static bool run_compiled(const fx_codegen *cg, const fx_target *host, fx_kir_module *m, kir_data *d)
{
    fx_kir_fault fault = { .op = -1 };
    fx_code *code = NULL;
    fx_error err = { 0 };
    fx_buf object;

    fx_buf_init(&object, &fx_mem_libc);
    CHECK_OK(fx_codegen_compile(cg, &object, m, host, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, &err), err);
    CHECK_OK(fx_code_load(&code, &fx_mem_libc, fx_buf_view(&object), "random", &err), err);
    if (code) {
        fx_code_tasks tasks = (fx_code_tasks)fx_code_find(code, FX_STR("random_tasks"));
        fx_code_run run = (fx_code_run)fx_code_find(code, FX_STR("random"));

        run(d->args, d->buffers, 0, tasks(d->args), &fault);
    }
    fx_code_free(code);
    fx_buf_done(&object);
    return fault.op >= 0;
}

static void compare(const fx_codegen *cg, const fx_target *host, int seed, int lanes)
{
    int64_t sizes[] = { 3, 1 + seed * 11 % 61 };
    fx_error err = { 0 };
    fx_kir_module *m;
    fx_kir_kernel *k;
    kir_data one, two;
    bool fault;

    fx_arena_init(&arena, &fx_mem_libc, 0);
    m = fx_kir_module_new(&arena);
    k = kir_random_kernel(m, (uint64_t)seed);
    REQUIRE(k);
    CHECK_OK(fx_kir_expand_math(k, &err), err);
    kir_data_init(&one, k, sizes, (uint64_t)seed);
    kir_data_init(&two, k, sizes, (uint64_t)seed);
    fault = interpret(k, &one);
    if (lanes > 1)
        CHECK_OK(fx_kir_widen(k, lanes, &err), err);
    CHECK_OK(fx_kir_check(k, &err), err);
    if (run_compiled(cg, host, m, &two) != fault || !kir_data_same(&one, &two))
        FXTEST_FAIL("seed %d, %d lanes: not the same", seed, lanes);
    kir_data_done(&two);
    kir_data_done(&one);
    fx_arena_done(&arena);
}

static fx_codegen *open_for_host(fx_target *host)
{
    fx_codegen *cg = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_codegen_open(&cg, &fx_mem_libc, FXTEST_LLVM, &err), err);
    CHECK_OK(fx_target_named(host, FX_STR("host"), &err), err);
    return cg;
}

TEST(compiled_kernels_have_the_same_bits)
{
    fx_codegen *cg;
    fx_target host;

    if (!*FXTEST_LLVM)
        SKIP("built without LLVM");
    cg = open_for_host(&host);
    for (int seed = 0; cg && seed < (getenv("FXTEST_LONG") ? 2000 : 24); seed++)
        compare(cg, &host, seed, seed % 4 ? 4 << seed % 3 : 1);
    fx_codegen_close(cg);
}

static bool same_number(fx_dtype t, uint16_t a, uint16_t b) { return a == b || (kir_random_is_nan(t, a) && kir_random_is_nan(t, b)); }

/* The lesser or the greater (op) of each two of these narrow floats; in vectors as far as they go. */
static void compare_extremes(const fx_codegen *cg, const fx_target *host, const char *op, fx_dtype t, int lanes)
{
    static const float special[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1, -2, 65504 };
    char text[600];
    uint16_t in[2][64], y[2][64] = { { 0 } };
    fx_error err = { 0 };
    fx_kir_module *m = NULL;

    for (int i = 0; i < 64; i++) {
        in[0][i] = t == FX_F16 ? fx_f32_to_f16(special[i / 8]) : fx_f32_to_bf16(special[i / 8]);
        in[1][i] = t == FX_F16 ? fx_f32_to_f16(special[i % 8]) : fx_f32_to_bf16(special[i % 8]);
    }
    snprintf(text, sizeof(text), "kernel @random(%%a: %1$s[64] in, %%b: %1$s[64] in, %%y: %1$s[64] out) {\n  grid {\n    yield 1\n  }\n"
             "  body %%t {\n    forall %%i = 0 to 64 {\n      %%p = load %1$s %%a[%%i]\n      %%q = load %1$s %%b[%%i]\n"
             "      %%r = convert f32 %%p\n      %%s = convert f32 %%q\n      %%l = %2$s %%r, %%s\n      %%u = convert %1$s %%l\n"
             "      store %%u, %%y[%%i]\n    }\n  }\n}\n", fx_dtype_name(t), op);
    fx_arena_init(&arena, &fx_mem_libc, 0);
    CHECK_OK(fx_kir_parse(&m, &arena, "test", fx_str_of(text), &err), err);
    for (int compiled = 0; m && compiled < 2; compiled++) {
        kir_data d = { .buffers = { in[0], in[1], y[compiled] } };

        if (compiled && lanes > 1)
            CHECK_OK(fx_kir_widen(m->first, lanes, &err), err);
        CHECK_OK(fx_kir_check(m->first, &err), err);
        CHECK(!(compiled ? run_compiled(cg, host, m, &d) : interpret(m->first, &d)));
    }
    for (int i = 0; i < 64; i++) {
        if (!same_number(t, y[0][i], y[1][i]))
            FXTEST_FAIL("%s, %d lanes: %s of %g and %g: %04x, compiled %04x", fx_dtype_name(t), lanes, op, (double)special[i / 8],
                        (double)special[i % 8], y[0][i], y[1][i]);
    }
    fx_arena_done(&arena);
}

TEST(extremes_of_narrow_floats)
{
    fx_codegen *cg;
    fx_target host;

    if (!*FXTEST_LLVM)
        SKIP("built without LLVM");
    cg = open_for_host(&host);
    for (int lanes = 1; cg && lanes <= 16; lanes *= 4) {
        compare_extremes(cg, &host, "min", FX_F16, lanes);
        compare_extremes(cg, &host, "max", FX_F16, lanes);
        compare_extremes(cg, &host, "min", FX_BF16, lanes);
        compare_extremes(cg, &host, "max", FX_BF16, lanes);
    }
    fx_codegen_close(cg);
}

FXTEST_MAIN()
