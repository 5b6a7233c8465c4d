/* test_tgraph.c - compiled graphs: their results, and the way to a file and back. Without LLVM they are skipped. */
#include "fxtest.h"

#include <unistd.h>

#include "compile/tgraph.h"
#include "lower_cases.h"

static fx_codegen *codegen;
static fx_target host;
static fx_error no_llvm;

static bool have_llvm(void)
{
    if (!codegen && fx_codegen_open(&codegen, &fx_mem_libc, FXTEST_LLVM, &no_llvm) != FORNAX_OK)
        return false;
    CHECK_EQ_I64(fx_target_named(&host, FX_STR("host"), NULL), FORNAX_OK);
    return true;
}

/* Results of a compiled graph as text, or its fault. */
static void run_compiled(const fx_tgraph *t, fx_buf *out)
{
    const fx_kplan *p = fx_tgraph_plan(t);
    fx_kvalue in[MAX_ENDS] = { 0 }, results[MAX_ENDS] = { 0 };
    fx_error err = { 0 };
    fx_kexec *x = NULL;
    fx_status st;

    for (int32_t i = 0; i < p->n_inputs; i++)
        make_input(p, &p->tensors[p->inputs[i]], &in[i]);
    st = fx_kexec_new(&x, &fx_mem_libc, p, fx_tgraph_code(t), NULL, &err);
    if (st == FORNAX_OK)
        st = fx_kexec_run(x, in, results, &err);
    for (int32_t i = 0; i < p->n_outputs && st == FORNAX_OK; i++)
        show(out, &results[i]);
    if (st != FORNAX_OK)
        fx_buf_puts(out, err.text);
    for (int32_t i = 0; i < p->n_inputs; i++)
        free(in[i].data);
    fx_kexec_free(x);
}

static fx_status compile(fx_tgraph **t, fx_arena *a, const char *text, fx_error *err)
{
    fx_module *m;

    *t = NULL;
    FX_TRY(fx_module_parse(&m, a, "test", fx_str_of(text), err));
    return fx_tgraph_compile(t, &fx_mem_libc, m->last, &(fx_tgraph_options){ .codegen = codegen, .target = &host }, err);
}

static void check_case(const lower_case *c)
{
    fx_error err = { 0 };
    fx_tgraph *t, *again = NULL;
    char path[] = "/tmp/fornax-tgraph-XXXXXX";
    int fd = mkstemp(path);
    fx_arena a;
    fx_buf got;

    fx_arena_init(&a, &fx_mem_libc, 0);
    fx_buf_init(&got, &fx_mem_libc);
    if (compile(&t, &a, c->graph, &err) != FORNAX_OK)
        FXTEST_FAIL("%s: %s", c->name, err.text);
    else {
        run_compiled(t, &got);
        if (!fx_str_is(fx_buf_view(&got), c->results))
            FXTEST_FAIL("%s:\n%s\nexpected\n%s", c->name, got.p, c->results);
        fx_buf_clear(&got);
        if (fx_tgraph_save(t, path, &err) != FORNAX_OK || fx_tgraph_load(&again, &fx_mem_libc, path, &err) != FORNAX_OK)
            FXTEST_FAIL("%s: %s", c->name, err.text);
        else
            run_compiled(again, &got);
        if (again && !fx_str_is(fx_buf_view(&got), c->results))
            FXTEST_FAIL("%s, from a file:\n%s\nexpected\n%s", c->name, got.p, c->results);
    }
    fx_tgraph_free(t);
    fx_tgraph_free(again);
    fx_buf_done(&got);
    fx_arena_done(&a);
    close(fd);
    unlink(path);
}

TEST(results)
{
    if (!have_llvm())
        SKIP(no_llvm.text);
    for (size_t i = 0; i < FX_COUNT(lower_cases); i++)
        check_case(&lower_cases[i]);
}

FXTEST_MAIN()
