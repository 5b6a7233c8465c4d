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

TEST(compiled_kernels_have_the_same_bits)
{
    fx_codegen *cg = NULL;
    fx_error err = { 0 };
    fx_target host;

    if (!*FXTEST_LLVM)
        SKIP("built without LLVM");
    CHECK_OK(fx_codegen_open(&cg, &fx_mem_libc, FXTEST_LLVM, &err), err);
    CHECK_OK(fx_target_named(&host, FX_STR("host"), &err), err);
    for (int seed = 0; cg && seed < (getenv("FXTEST_LONG") ? 2000 : 24); seed++)
        compare(cg, &host, seed, seed % 4 ? 4 << seed % 3 : 1);
    fx_codegen_close(cg);
}

FXTEST_MAIN()
