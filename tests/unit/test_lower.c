/* test_lower.c - graphs of tensors lowered to the loop IR and interpreted: results, and how many launches it takes. Products
 * are also lowered in tiles: the bits may not differ. */
#include "fxtest.h"

#include "lower_cases.h"
#include "passes/lower_kir.h"

/* Results of the graph as text; the number of launches, or -1 with the fault as text. */
static int run_graph(const char *text, int lanes, fx_buf *out)
{
    fx_kvalue in[MAX_ENDS] = { 0 }, results[MAX_ENDS] = { 0 };
    fx_error err = { 0 };
    fx_kexec *x = NULL;
    fx_kplan *p = NULL;
    fx_module *m;
    fx_arena a;
    int launches = -1;

    fx_arena_init(&a, &fx_mem_libc, 0);
    if (fx_module_parse(&m, &a, "test", fx_str_of(text), &err) == FORNAX_OK && fx_lower_kir(&a, m->last, &(fx_lower_options){ .lanes = lanes }, &p, &err) == FORNAX_OK) {
        fx_status st = FORNAX_OK;

        for (int32_t i = 0; i < p->n_kernels && st == FORNAX_OK; i++)
            st = fx_kir_check(p->kernels[i], &err);
        for (int32_t i = 0; i < p->n_inputs; i++)
            make_input(p, &p->tensors[p->inputs[i]], &in[i]);
        if (st == FORNAX_OK && fx_kexec_new(&x, &fx_mem_libc, p, NULL, NULL, &err) == FORNAX_OK &&
            fx_kexec_run(x, in, results, &err) == FORNAX_OK) {
            launches = p->n_launches;
            for (int32_t i = 0; i < p->n_outputs; i++)
                show(out, &results[i]);
        }
        for (int32_t i = 0; i < p->n_inputs; i++)
            free(in[i].data);
    }
    if (launches < 0)
        fx_buf_puts(out, err.text);
    fx_kexec_free(x);
    fx_arena_done(&a);
    return launches;
}

TEST(results)
{
    for (size_t i = 0; i < FX_COUNT(lower_cases); i++) {
        for (int lanes = 1; lanes <= 16; lanes *= 4) {
            fx_buf got;
            int launches;

            fx_buf_init(&got, &fx_mem_libc);
            launches = run_graph(lower_cases[i].graph, lanes, &got);
            if (!fx_str_is(fx_buf_view(&got), lower_cases[i].results))
                FXTEST_FAIL("%s (lanes %d):\n%s\nexpected\n%s", lower_cases[i].name, lanes, got.p, lower_cases[i].results);
            if (launches >= 0 && launches != lower_cases[i].launches)
                FXTEST_FAIL("%s: %d launches, expected %d", lower_cases[i].name, launches, lower_cases[i].launches);
            fx_buf_done(&got);
        }
    }
}

/* What a run refuses, and with what sentence. */
static const struct { const char *graph, *fault; } faults[] = {
    { "%x = input f32[2]\n%i = input i64[4]\n%j = add %i, %i\n%y = gather %x, %j, axis=0\noutput %y",
      "y: index 2 is outside of axis 0, which has 2" },
    { "%x = input f32[n]\n%y = input f32[2*n]\noutput %x, %y", "graph main: input (y): a size of an input must be a number or a name" },
    { "%x = input f32[2]\n%b = buffer_create f32[2]\noutput %x", NULL },
    { "%x = input i64[7]\n%z = input i64[3]\n%p = nonzero %x, out_dim=k\n%q = nonzero %z, out_dim=k\noutput %p, %q",
      "q: k is 4, but its operands make it 2" },
    { "%x = input i64[7]\n%p = nonzero %x, out_dim=3\noutput %p", "p: a size is 3, but its operands make it 4" },
    { "%x = input f32[n]\n%y = rebind %x, shape={4}, message=\"rows of four\"\noutput %y",
      "y: a size is 4, but its operands make it 3: rows of four" },
    { "%x = input f32[3]\n%r = input i64[3]\n%m = negate %r\n%y = repeat_interleave %x, %m, out_dim=k\noutput %y",
      "y: its operands ask for a size of -2" },
    { "%z = constant i64, {0}\n%x = input i64\n%y = range %x, %x, %z, i64[k]\noutput %y", "y: its operands ask for a size of -1" },
    { "%x = input f32[n]\n%y = broadcast_to %x, shape={m, n}\noutput %y",
      "graph main: broadcast_to (y): one of its sizes has a name that nothing before it gives a value" },
};

TEST(refused)
{
    for (size_t i = 0; i < FX_COUNT(faults); i++) {
        fx_buf got;

        fx_buf_init(&got, &fx_mem_libc);
        CHECK(run_graph(faults[i].graph, 1, &got) < 0);
        if (faults[i].fault)
            CHECK_STR(got.p, faults[i].fault);
        CHECK(got.n > 0);
        fx_buf_done(&got);
    }
}

/* ---- Runs that are checked ------------------------------------------------------------------------------- */

/* Kernel 'which' of the graph writes, and nothing else is changed, only the first of its four elements. */
static void run_without(const char *graph, int which, const char *fault)
{
    static const char text[] = "kernel @k(%y: f32[4] out, %x: f32[4] in) {\n  grid {\n    yield 1\n  }\n  body %t {\n    %v = load f32 %x[0]\n"
                               "    store %v, %y[0]\n  }\n}\n";
    fx_kvalue in[MAX_ENDS] = { 0 }, results[MAX_ENDS] = { 0 };
    fx_error err = { 0 };
    fx_kexec *x = NULL;
    fx_kplan *p = NULL;
    fx_kir_module *other;
    fx_module *m;
    fx_arena a;

    fx_arena_init(&a, &fx_mem_libc, 0);
    CHECK_OK(fx_module_parse(&m, &a, "test", fx_str_of(graph), &err), err);
    CHECK_OK(fx_lower_kir(&a, m->last, &(fx_lower_options){ .unfused = true }, &p, &err), err);
    CHECK_OK(fx_kir_parse(&other, &a, "test", fx_str_of(text), &err), err);
    if (which >= 0)
        p->kernels[which] = other->first;
    for (int32_t i = 0; i < p->n_kernels; i++)
        CHECK_OK(fx_kir_check(p->kernels[i], &err), err);
    make_input(p, &p->tensors[p->inputs[0]], &in[0]);
    CHECK_OK(fx_kexec_new(&x, &fx_mem_libc, p, NULL, NULL, &err), err);
    CHECK_OK(fx_kexec_check(x, &(fx_kexec_checks){ .unset = true }, &err), err);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_EQ_I64(fx_kexec_run(x, in, results, &err), fault ? FORNAX_EARG : FORNAX_OK);
        if (fault)
            CHECK_STR(err.text, fault);
    }
    fx_kexec_free(x);
    free(in[0].data);
    fx_arena_done(&a);
}

TEST(reads_of_what_nobody_wrote)
{
    static const char graph[] = "%x = input f32[4]\n%a = negate %x\n%b = abs %a\noutput %b";

    run_without(graph, -1, NULL);
    run_without(graph, 0, "b (abs): it reads element [1] of a, which nobody wrote");
    run_without(graph, 1, "output 0 (b): nobody wrote its element [1]");
}

FXTEST_MAIN()
