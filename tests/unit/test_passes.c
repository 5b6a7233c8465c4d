/* test_passes.c - the cases of tests/cases/passes, and what holds for the pipeline.
 *
 * A case is:  "pass NAME" (or "pass all": the whole pipeline), perhaps "mode f32" (or bf16, f16, adapters), a graph, then "expect" and
 * the graph it becomes, or "expect unchanged: why" (the reason that the rule gives; none: it gives none).  Names of values don't count, but
 * those of inputs and weights; the order of ops does. */
#include "case_files.h"
#include "passes/passes.h"

#define CASES FXTEST_SOURCE "/tests/cases/passes"

/* How often each pass has fired and not fired in a case. */
static int fired[64], kept[64];

typedef struct one_case {
    char pass[64], mode[16];
    fx_buf before, after;
    bool expecting;              /* lines are of 'after' */
    bool unchanged;
    char why[160], said[160];    /* expected, and the first one given */
    int line;
} one_case;

/* Names of results come and go with rewrites: leave only those that mean something. */
static void forget_names(fx_block *b)
{
    for (fx_op *op = b->first; op; op = op->next) {
        for (int i = 0; i < op->n_out && op->code != FX_OP_INPUT && op->code != FX_OP_WEIGHT; i++)
            op->out[i].name = FX_STR("");
        for (int i = 0; i < op->n_regions; i++)
            forget_names(op->regions[i]->first);
    }
}

static void print_plain(fx_module *m, fx_buf *out)
{
    forget_names(fx_graph_body(m->first));
    fx_module_print(m, out);
}

static fx_dtype_mode mode_of(const char *name)
{
    return !strcmp(name, "f32") ? FX_MODE_F32 : !strcmp(name, "bf16") ? FX_MODE_BF16
         : !strcmp(name, "f16") ? FX_MODE_F16 : FX_MODE_AUTO;
}

static void take_reason(void *user, const char *pass, const fx_op *root, const char *why)
{
    one_case *c = user;

    (void)pass, (void)root;
    if (!c->said[0])
        snprintf(c->said, sizeof(c->said), "%s", why);
}

static fx_status run_passes(one_case *c, fx_graph *g, int64_t *changes, fx_error *err)
{
    fx_pass_options opt = { .mode = mode_of(c->mode), .adapters = !strcmp(c->mode, "adapters"), .miss = take_reason, .trace_user = c };
    const fx_pass *pass = fx_pass_find(fx_str_of(c->pass));

    if (!strcmp(c->pass, "all")) {
        *changes = 1;
        return fx_passes_run(g, &opt, err);
    }
    if (!pass)
        return fx_fail(err, FORNAX_EARG, "no pass %s", c->pass);
    return fx_pass_run(pass, g, &opt, changes, err);
}

static void count(const one_case *c)
{
    for (size_t i = 0; i < fx_pass_count(); i++) {
        if (!strcmp(fx_pass_at(i)->name, c->pass))
            (c->unchanged ? kept : fired)[i]++;
    }
}

static void run_case(const char *file, one_case *c)
{
    fx_error err = { 0 };
    fx_arena a;
    fx_module *before, *after;
    fx_buf got, want;
    int64_t changes = 0;

    fx_arena_init(&a, &fx_mem_libc, 0);
    fx_buf_init(&got, &fx_mem_libc);
    fx_buf_init(&want, &fx_mem_libc);
    if (fx_module_parse(&before, &a, "before", fx_buf_view(&c->before), &err) ||
        fx_module_parse(&after, &a, "after", fx_buf_view(c->unchanged ? &c->before : &c->after), &err) ||
        run_passes(c, before->first, &changes, &err) || fx_module_check(before, &err)) {
        FXTEST_FAIL("%s:%d: %s", file, c->line, err.text);
    } else {
        print_plain(before, &got);
        print_plain(after, &want);
        if (strcmp(got.p, want.p))
            FXTEST_FAIL("%s:%d: %s gives\n%sinstead of\n%s", file, c->line, c->pass, got.p, want.p);
        if ((changes != 0) == c->unchanged)
            FXTEST_FAIL("%s:%d: %s counts %lld changes", file, c->line, c->pass, (long long)changes);
        if (c->unchanged && strcmp(c->why, c->said))
            FXTEST_FAIL("%s:%d: %s gives the reason: %s", file, c->line, c->pass, c->said);
        count(c);
    }
    fx_buf_done(&got);
    fx_buf_done(&want);
    fx_arena_done(&a);
}

static bool read_word(fx_str line, const char *key, char *out, size_t cap)
{
    size_t n = strlen(key);

    if (line.n <= n || memcmp(line.p, key, n) || line.p[n] != ' ' || line.n - n - 1 >= cap)
        return false;
    memcpy(out, line.p + n + 1, line.n - n - 1);
    out[line.n - n - 1] = 0;
    return true;
}

static void start_case(one_case *c, int line)
{
    fx_buf_clear(&c->before);
    fx_buf_clear(&c->after);
    c->expecting = c->unchanged = false;
    c->why[0] = c->said[0] = 0;
    strcpy(c->mode, "auto");
    c->line = line;
}

static void take_line(void *user, const char *file, int number, fx_str line)
{
    one_case *c = user;
    fx_buf *text = c->expecting ? &c->after : &c->before;
    char word[64];

    if (number == 0 || read_word(line, "pass", word, sizeof(word))) {
        if (c->pass[0])
            run_case(file, c);
        start_case(c, number);
        strcpy(c->pass, number ? word : "");
    } else if (read_word(line, "mode", word, sizeof(c->mode))) {
        strcpy(c->mode, word);
    } else if (fx_str_is(line, "expect") || fx_str_is(line, "expect unchanged") ||
               read_word(line, "expect unchanged:", c->why, sizeof(c->why))) {
        c->expecting = true;
        c->unchanged = !fx_str_is(line, "expect");
    } else {
        fx_buf_str(text, line);
        fx_buf_putc(text, '\n');
    }
}

TEST(cases)
{
    one_case c = { .pass = "" };

    fx_buf_init(&c.before, &fx_mem_libc);
    fx_buf_init(&c.after, &fx_mem_libc);
    each_case_line(CASES, take_line, &c);
    fx_buf_done(&c.before);
    fx_buf_done(&c.after);
    for (size_t i = 0; i < fx_pass_count(); i++) {
        if (!fired[i] || !kept[i])
            FXTEST_FAIL("pass %s: %d cases where it fires, %d where it must not", fx_pass_at(i)->name, fired[i], kept[i]);
    }
}

/* ---- The driver ---------------------------------------------------------------------------- */

static fx_value *forever(fx_graph *g, fx_op *op, const char **why)
{
    (void)why;
    return FX_OP1(g->module, RELU, FX_IN(fx_op_in(op, 0)), FX_NOATTR);
}

TEST(a_rule_that_does_not_end_is_reported)
{
    static const fx_pass pass = { .name = "forever", .root = FX_OP_RELU, .rewrite = forever };
    static const char text[] = "%x = input f32[rows,64]\n%y = relu %x\noutput %y\n";
    fx_error err = { 0 };
    fx_arena a;
    fx_module *m;
    int64_t changes;

    fx_arena_init(&a, &fx_mem_libc, 0);
    CHECK_OK(fx_module_parse(&m, &a, "t", fx_str_of(text), &err), err);
    CHECK_EQ_I64(fx_pass_run(&pass, m->first, &(fx_pass_options){ .mode = FX_MODE_AUTO }, &changes, &err),
                 FORNAX_EINTERNAL);
    CHECK(strstr(err.text, "forever doesn't end") != NULL);
    fx_arena_done(&a);
}

static void count_trace(void *user, const char *pass, const fx_graph *g, int64_t changes)
{
    (void)pass, (void)g, (void)changes;
    ++*(int *)user;
}

TEST(each_pass_is_traced_and_a_second_run_changes_nothing)
{
    static const char text[] =
        "%x = input f32[rows,64]\n%a = weight q4_0[128,64]\n%b = weight q4_0[128,64]\n%d = weight q4_0[64,128]\n"
        "%n = weight f32[64]\n%h = rmsnorm %x, %n, eps=1e-5\n%g = linear %h, %a\n%u = linear %h, %b\n"
        "%s = silu %g\n%m = mul %s, %u\n%y = linear %m, %d\n%r = add %x, %y\noutput %r\n";
    fx_error err = { 0 };
    fx_arena a;
    fx_module *m;
    int traced = 0;
    fx_pass_options opt = { .mode = FX_MODE_AUTO, .trace = count_trace, .trace_user = &traced };
    int64_t changes;

    fx_arena_init(&a, &fx_mem_libc, 0);
    CHECK_OK(fx_module_parse(&m, &a, "t", fx_str_of(text), &err), err);
    CHECK_OK(fx_passes_run(m->first, &opt, &err), err);
    CHECK_EQ_I64(traced, (int64_t)fx_pass_count() + 1);
    for (size_t i = 0; i < fx_pass_count(); i++) {
        CHECK_OK(fx_pass_run(fx_pass_at(i), m->first, &opt, &changes, &err), err);
        if (changes)
            FXTEST_FAIL("%s changes its own result", fx_pass_at(i)->name);
    }
    fx_arena_done(&a);
}

FXTEST_MAIN()
