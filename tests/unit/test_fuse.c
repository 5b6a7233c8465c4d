/* test_fuse.c - the cases of tests/cases/fusions: what becomes one kernel in graphs of tensors, what doesn't and why.
 *
 * A case is:  "rule NAME", a graph, then "fires", "keeps" or "keeps: why" and lines of what is expected: "launches N", or "%value: how", as
 * fornax explain has it. Each graph also runs, fused in vectors of 1, 4 and 16 and unfused: the bits are the same. */
#include "case_files.h"
#include "lower_cases.h"
#include "passes/lower_kir.h"

#define CASES FXTEST_SOURCE "/tests/cases/fusions"

/* The patterns, and what is fused without one. */
static struct {
    const char *name;
    bool pattern;
    int fires, keeps;
} rules[] = {
#define FUSE(name, text) { text, true, 0, 0 },
#include "passes/lower_fuse.def"
    { "elementwise", false, 0, 0 }, { "view", false, 0, 0 },      { "prologue", false, 0, 0 },
    { "epilogue", false, 0, 0 },    { "horizontal", false, 0, 0 },
};

typedef struct one_case {
    const char *file;
    int line, rule;              /* line 0: no case has begun */
    bool fires, behind;          /* behind: lines are what is expected */
    char why[160];
    fx_buf graph, expected;
} one_case;

/* ---- What is said ------------------------------------------------------------------------------------ */

static bool says(const fx_buf *said, const char *what) { return said->p && strstr(said->p, what); }

static void check_line(const one_case *c, const fx_buf *said, fx_str line, int launches)
{
    const char *colon = memchr(line.p, ':', line.n), *at;
    char text[256], value[64];

    if (fx_str_starts(line, FX_STR("launches "))) {
        snprintf(text, sizeof(text), "launches %d", launches);
        if (!fx_str_is(line, text))
            FXTEST_FAIL("%s:%d: %s, expected %.*s\n%s", c->file, c->line, text, FX_STR_ARG(line), said->p);
        return;
    }
    REQUIRE(colon != NULL);
    snprintf(value, sizeof(value), "\n%.*s = ", (int)(colon - line.p), line.p);
    at = said->p ? strstr(said->p, value) : NULL;
    snprintf(text, sizeof(text), "%.*s\n", (int)(line.n - (size_t)(colon + 2 - line.p)), colon + 2);
    if (!at || !strstr(at, text) || strstr(at, text) > strchr(at + 1, '\n'))
        FXTEST_FAIL("%s:%d: expected %.*s in\n%s", c->file, c->line, FX_STR_ARG(line), said->p);
}

static void check_said(const one_case *c, const fx_buf *said, int launches)
{
    const char *name = rules[c->rule].name, *end;
    char text[256];

    snprintf(text, sizeof(text), "# rule %s: fires at", name);
    if (rules[c->rule].pattern && says(said, text) != c->fires)
        FXTEST_FAIL("%s:%d: %s %s:\n%s", c->file, c->line, name, c->fires ? "doesn't fire" : "fires", said->p);
    snprintf(text, sizeof(text), "# rule %s: not at", name);
    if (c->why[0]) {
        const char *at = said->p ? strstr(said->p, text) : NULL;

        end = at ? strchr(at, '\n') : NULL;
        if (!end || (size_t)(end - at) < strlen(c->why) || strncmp(end - strlen(c->why), c->why, strlen(c->why)))
            FXTEST_FAIL("%s:%d: the reason isn't given\n%s", c->file, c->line, said->p);
    } else if (!c->fires && says(said, text)) {
        FXTEST_FAIL("%s:%d: a reason is given\n%s", c->file, c->line, said->p);
    }
    for (size_t i = 0; i < c->expected.n;) {
        const char *nl = memchr(c->expected.p + i, '\n', c->expected.n - i);
        fx_str line = fx_str_n(c->expected.p + i, (size_t)(nl - c->expected.p) - i);

        i += line.n + 1;
        if (line.n && line.p[0] != '#')
            check_line(c, said, line, launches);
    }
}

/* ---- What is computed ----------------------------------------------------------------------------------- */

static fx_status run_plan(const fx_kplan *p, fx_buf *bytes, fx_error *err)
{
    fx_kvalue in[MAX_ENDS] = { 0 }, out[MAX_ENDS] = { 0 };
    fx_kexec *x = NULL;
    fx_status st = fx_kexec_new(&x, &fx_mem_libc, p, NULL, NULL, err);

    for (int32_t i = 0; i < p->n_inputs; i++)
        make_input(p, &p->tensors[p->inputs[i]], &in[i]);
    st = st == FORNAX_OK ? fx_kexec_run(x, in, out, err) : st;
    for (int i = 0; st == FORNAX_OK && i < p->n_outputs; i++)
        fx_buf_add(bytes, out[i].data, (size_t)elements(&out[i]) * fx_dtype_size(out[i].dtype));
    for (int32_t i = 0; i < p->n_inputs; i++)
        free(in[i].data);
    fx_kexec_free(x);
    return st;
}

static fx_status lower_and_run(const one_case *c, const fx_lower_options *o, fx_buf *bytes, int *launches, fx_error *err)
{
    fx_module *m;
    fx_kplan *p;
    fx_arena a;
    fx_status st;

    fx_arena_init(&a, &fx_mem_libc, 0);
    st = fx_module_parse(&m, &a, c->file, fx_buf_view(&c->graph), err);
    st = st == FORNAX_OK ? fx_lower_kir(&a, m->last, o, &p, err) : st;
    if (st == FORNAX_OK)
        *launches = p->n_launches;
    for (int32_t i = 0; st == FORNAX_OK && i < p->n_kernels; i++) {
        st = fx_kir_expand_math(p->kernels[i], err);
        st = st == FORNAX_OK ? fx_kir_check(p->kernels[i], err) : st;
        if (st == FORNAX_OK && o->lanes > 1)
            st = fx_kir_widen(p->kernels[i], o->lanes, err);
        st = st == FORNAX_OK ? fx_kir_check(p->kernels[i], err) : st;
    }
    st = st == FORNAX_OK ? run_plan(p, bytes, err) : st;
    fx_arena_done(&a);
    return st;
}

static void run_case(one_case *c)
{
    fx_error err = { 0 };
    fx_buf said, plain, fused;
    int launches = 0;

    fx_buf_init(&said, &fx_mem_libc);
    fx_buf_init(&plain, &fx_mem_libc);
    fx_buf_init(&fused, &fx_mem_libc);
    if (lower_and_run(c, &(fx_lower_options){ .unfused = true }, &plain, &launches, &err))
        FXTEST_FAIL("%s:%d: unfused: %s", c->file, c->line, err.text);
    for (int lanes = 1; lanes <= 16; lanes *= 4) {
        fx_buf_clear(&fused);
        if (lower_and_run(c, &(fx_lower_options){ .lanes = lanes, .explain = lanes == 16 ? &said : NULL }, &fused, &launches, &err))
            FXTEST_FAIL("%s:%d: %d lanes: %s", c->file, c->line, lanes, err.text);
        else if (!fx_str_eq(fx_buf_view(&plain), fx_buf_view(&fused)))
            FXTEST_FAIL("%s:%d: fused, in %d lanes, it has other bits", c->file, c->line, lanes);
    }
    if (!said.n)
        fx_buf_putc(&said, '\n');
    check_said(c, &said, launches);
    *(c->fires ? &rules[c->rule].fires : &rules[c->rule].keeps) += 1;
    fx_buf_done(&said);
    fx_buf_done(&plain);
    fx_buf_done(&fused);
}

/* ---- Files ------------------------------------------------------------------------------------------------ */

static int rule_of(fx_str name)
{
    for (size_t i = 0; i < FX_COUNT(rules); i++) {
        if (fx_str_is(name, rules[i].name))
            return (int)i;
    }
    return -1;
}

static bool take_verdict(one_case *c, fx_str line)
{
    fx_str keeps = FX_STR("keeps: ");

    if (fx_str_is(line, "fires") || fx_str_is(line, "keeps")) {
        c->fires = line.p[0] == 'f';
        return true;
    }
    if (!fx_str_starts(line, keeps))
        return false;
    snprintf(c->why, sizeof(c->why), "%.*s", (int)(line.n - keeps.n), line.p + keeps.n);
    return true;
}

static void start_case(one_case *c, const char *file, int line, fx_str rule)
{
    fx_buf_clear(&c->graph);
    fx_buf_clear(&c->expected);
    c->fires = c->behind = false;
    c->why[0] = 0;
    c->file = file;
    c->line = line;
    c->rule = rule_of(rule);
    if (c->rule < 0)
        FXTEST_FAIL("%s:%d: no rule %.*s", c->file, line, FX_STR_ARG(rule));
    c->rule = FX_MAX(c->rule, 0);
}

static void take_line(void *user, const char *file, int number, fx_str line)
{
    one_case *c = user;
    bool rule = fx_str_starts(line, FX_STR("rule "));

    if ((number == 0 || rule) && c->line)
        run_case(c);
    if (number == 0) {
        c->line = 0;
    } else if (rule) {
        start_case(c, file, number, fx_str_n(line.p + 5, line.n - 5));
    } else if (take_verdict(c, line)) {
        c->behind = true;
    } else {
        fx_buf_str(c->behind ? &c->expected : &c->graph, line);
        fx_buf_putc(c->behind ? &c->expected : &c->graph, '\n');
    }
}

TEST(cases)
{
    one_case c = { .line = 0 };

    fx_buf_init(&c.graph, &fx_mem_libc);
    fx_buf_init(&c.expected, &fx_mem_libc);
    each_case_line(CASES, take_line, &c);
    fx_buf_done(&c.graph);
    fx_buf_done(&c.expected);
    for (size_t i = 0; i < FX_COUNT(rules); i++) {
        if (!rules[i].fires || !rules[i].keeps)
            FXTEST_FAIL("rule %s: %d cases where it fires, %d where it must not", rules[i].name, rules[i].fires, rules[i].keeps);
    }
}

FXTEST_MAIN()
