/* test_shapes.c - the shape rules, by the cases of tests/cases/shapes.
 *
 * A case is a line: "OP types of operands [| attributes] -> types of results", or
 * "-> ! part of the fault" instead.  What makes an op is also printed and read back. */
#include "fxtest.h"

#include "base/file.h"
#include "base/text.h"
#include "graph/graph.h"

#define CASES FXTEST_SOURCE "/tests/cases/shapes/"

static int made[FX_OP_COUNT], refused[FX_OP_COUNT];

/* The part of a list up to a comma outside of brackets; *rest moves behind it. */
static fx_str next_item(fx_str *rest)
{
    size_t i = 0;
    int depth = 0;
    fx_str item;

    for (; i < rest->n && (depth || rest->p[i] != ','); i++)
        depth += rest->p[i] == '[' ? 1 : rest->p[i] == ']' ? -1 : 0;
    item = fx_str_trim(fx_str_n(rest->p, i));
    *rest = i < rest->n ? fx_str_n(rest->p + i + 1, rest->n - i - 1) : fx_str_n(NULL, 0);
    return item;
}

/* What is before 'mark', which *s loses with it; all of *s if there is none. */
static fx_str before(fx_str *s, const char *mark)
{
    size_t at = fx_str_find(*s, fx_str_of(mark), 0), n = strlen(mark);
    fx_str head = *s;

    if (at == FX_STR_NONE) {
        *s = fx_str_n(NULL, 0);
        return fx_str_trim(head);
    }
    head.n = at;
    *s = fx_str_n(s->p + at + n, s->n - at - n);
    return fx_str_trim(head);
}

/* The graph text of a case whose op has n results. */
static void spell(fx_buf *out, fx_str op, fx_str operands, fx_str attrs, int n)
{
    fx_buf list;
    int i = 0;

    fx_buf_init(&list, &fx_mem_libc);
    while (operands.n) {
        fx_str type = next_item(&operands);

        fx_buf_puts(&list, i ? ", " : " ");
        if (fx_str_is(type, "_"))
            fx_buf_puts(&list, "_");
        else {
            fx_buf_printf(out, "%%x%d = input %.*s\n", i, FX_STR_ARG(type));
            fx_buf_printf(&list, "%%x%d", i);
        }
        i++;
    }
    for (int k = 0; k < n; k++)
        fx_buf_printf(out, "%s%%y%d", k ? ", " : "", k);
    fx_buf_printf(out, "%s%.*s", n ? " = " : "", FX_STR_ARG(op));
    fx_buf_str(out, fx_buf_view(&list));
    if (attrs.n)
        fx_buf_printf(out, "%s%.*s", i ? ", " : " ", FX_STR_ARG(attrs));
    fx_buf_puts(out, "\noutput\n");
    fx_buf_done(&list);
}

static void check_made(const char *where, const fx_module *m, fx_str want)
{
    const fx_op *op = fx_graph_output(m->first)->prev;
    fx_buf got, again;
    fx_module *back;
    fx_error err = { 0 };
    fx_arena a;

    fx_arena_init(&a, &fx_mem_libc, 0);
    fx_buf_init(&got, &fx_mem_libc);
    fx_buf_init(&again, &fx_mem_libc);
    for (int i = 0; i < op->n_out; i++) {
        fx_buf_puts(&got, i ? ", " : "");
        fx_type_print(&op->out[i].type, &got);
    }
    if (!fx_str_eq(fx_buf_view(&got), want))
        FXTEST_FAIL("%s: makes %s, expected %.*s", where, got.p, FX_STR_ARG(want));
    fx_buf_clear(&got);
    fx_module_print(m, &got);
    CHECK_OK(fx_module_parse(&back, &a, where, fx_buf_view(&got), &err), err);
    if (back) {
        fx_module_print(back, &again);
        CHECK_STR(again.p, got.p);
    }
    fx_buf_done(&got);
    fx_buf_done(&again);
    fx_arena_done(&a);
}

static int count_items(fx_str list)
{
    int n = 0;

    for (; list.n; n++)
        next_item(&list);
    return n;
}

static void run_case(const char *where, fx_str line)
{
    fx_str left = before(&line, " -> "), operands, op, want = fx_str_trim(line);
    bool fault = want.n && want.p[0] == '!';
    fx_opcode code;
    fx_buf text;
    fx_error err = { 0 };
    fx_module *m;
    fx_arena a;

    operands = before(&left, "|");
    op = before(&operands, " ");
    if (!fx_opcode_of_name(&code, op)) {
        FXTEST_FAIL("%s: no op %.*s", where, FX_STR_ARG(op));
        return;
    }
    fx_arena_init(&a, &fx_mem_libc, 0);
    fx_buf_init(&text, &fx_mem_libc);
    spell(&text, op, operands, fx_str_trim(left), fault ? 1 : count_items(want));
    fx_module_parse(&m, &a, where, fx_buf_view(&text), &err);
    if (fault) {
        fx_str why = fx_str_trim(fx_str_n(want.p + 1, want.n - 1));

        if (m || fx_str_find(fx_str_of(err.text), why, 0) == FX_STR_NONE)
            FXTEST_FAIL("%s: gives \"%s\", expected \"%.*s\"", where, m ? "a graph" : err.text, FX_STR_ARG(why));
        refused[code]++;
    } else {
        if (!m)
            FXTEST_FAIL("%s: %s", where, err.text);
        else
            check_made(where, m, want);
        made[code]++;
    }
    fx_buf_done(&text);
    fx_arena_done(&a);
}

static void run_file(const char *name)
{
    char path[512];
    fx_error err = { 0 };
    fx_buf text;
    fx_str rest;

    snprintf(path, sizeof(path), CASES "%s", name);
    fx_buf_init(&text, &fx_mem_libc);
    CHECK_OK(fx_file_read(&text, path, 1 << 20, &err), err);
    rest = fx_buf_view(&text);
    for (int line_number = 1; rest.n; line_number++) {
        fx_str line = before(&rest, "\n");

        snprintf(path, sizeof(path), "%s:%d", name, line_number);
        if (line.n && line.p[0] != '#')
            run_case(path, line);
    }
    fx_buf_done(&text);
}

TEST(elements) { run_file("map.txt"); }
TEST(views) { run_file("view.txt"); }
TEST(indices) { run_file("index.txt"); }
TEST(networks) { run_file("nn.txt"); }
TEST(effects) { run_file("flow.txt"); }

/* Ops that need more than operands and attributes, and those of language models: tested elsewhere. */
static bool is_elsewhere(fx_opcode c)
{
    static const fx_opcode list[] = {
        FX_OP_INPUT, FX_OP_WEIGHT, FX_OP_CONSTANT, FX_OP_CHAIN, FX_OP_OUTPUT, FX_OP_YIELD, FX_OP_COND, FX_OP_WHILE,
        FX_OP_CALL, FX_OP_SCALE, FX_OP_RELU2, FX_OP_CLAMP, FX_OP_SWIGLU, FX_OP_EMBED, FX_OP_ADD_RMSNORM,
        FX_OP_RMSNORM_QUANT, FX_OP_QUANT, FX_OP_SPLICE, FX_OP_ROWS, FX_OP_LINEAR, FX_OP_BY_HEAD, FX_OP_GATE,
        FX_OP_ROUTE, FX_OP_EXPERTS, FX_OP_ROPE, FX_OP_KV_STORE, FX_OP_ATTEND, FX_OP_ROPE_STORE, FX_OP_CONV1D,
        FX_OP_SSM_SCAN, FX_OP_DELTA_RULE, FX_OP_GATED_NORM,
    };

    for (size_t i = 0; i < FX_COUNT(list); i++) {
        if (list[i] == c)
            return true;
    }
    return false;
}

TEST(every_op_has_a_case_of_both_kinds)
{
    for (int c = 0; c < FX_OP_COUNT; c++) {
        if (!is_elsewhere((fx_opcode)c) && (!made[c] || !refused[c]))
            FXTEST_FAIL("%s: %d cases that make it, %d that refuse", fx_op_rows[c].text, made[c], refused[c]);
    }
}

FXTEST_MAIN()
