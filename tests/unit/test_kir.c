/* test_kir.c - the loop IR: its text, with the faults that a reader of it finds. */
#include "fxtest.h"

#include "base/file.h"
#include "base/text.h"
#include "kir_run.h"

static fx_arena arena;
static fx_buf out;

static void setup(void)
{
    fx_arena_init(&arena, &fx_mem_libc, 0);
    fx_buf_init(&out, &fx_mem_libc);
}

static void teardown(void)
{
    fx_buf_done(&out);
    fx_arena_done(&arena);
}

/* ---- Text ------------------------------------------------------------------------------------------ */

/* Every way an op is written, as it is printed. */
static const char everything[] =
    "kernel @all.1(%n: size, %c: f32, %s: i64, %x: f32[%n,64] in, %z: bf16[4:-1,%n:%s] inout, %y: f32[%n,64] out same %x, %r: u8[] out) {\n"
    "  grid {\n"
    "    yield %n\n"
    "  }\n"
    "  body %t {\n"
    "    %0 = const i64 0\n"
    "    %1 = const i64 -9223372036854775808\n"
    "    %2 = const u64 18446744073709551615\n"
    "    %3 = const bool true\n"
    "    %4 = const f32 -0\n"
    "    %5 = const f64 1e-300\n"
    "    %6 = const f32x4 nan\n"
    "    %7 = const f32 -inf\n"
    "    %one = const i64 1\n"
    "    %eight = const i64 8\n"
    "    %a = load f32 %x[%t,%0]\n"
    "    %b = fma %a, %c, %7  # f32\n"
    "    %lt = lt %a, %b  # bool\n"
    "    %sel = select %lt, %a, %b  # f32\n"
    "    %8 = convert i32 %sel\n"
    "    %9 = bitcast u32 %a\n"
    "    %v = splat f32x4 %a\n"
    "    %10 = bitcast i64x2 %v\n"
    "    %11 = iota i64x4\n"
    "    %12 = extract %v, 3  # f32\n"
    "    %13 = insert %v, %12, 2  # f32x4\n"
    "    %14 = shuffle f32x8 %v, %13, [0,1,2,3,4,5,6,7]\n"
    "    %m = const boolx4 true\n"
    "    %15 = load f32x4 %x[%t,%0] if %m\n"
    "    store %15, %y[%t,%0]\n"
    "    if %lt {\n"
    "    }\n"
    "    %16 = gather f32x4 %x[%t,%11] if %m\n"
    "    store %15, %y[%t,%0] if %m\n"
    "    scatter %16, %y[%t,%11]\n"
    "    %tile = alloc shared f32[8,2]\n"
    "    %17 = alloc private i8[]\n"
    "    %acc = local %a  # f32\n"
    "    %18 = get %acc  # f32\n"
    "    set %acc, %18\n"
    "    for %i = %0 to %n step %one {\n"
    "      forall %i.2 = %0 to %eight {\n"
    "      }\n"
    "    }\n"
    "    if %lt {\n"
    "      %e = exp %a  # f32\n"
    "    } else {\n"
    "      if %lt {\n"
    "      }\n"
    "    }\n"
    "    while {\n"
    "      yield %lt\n"
    "    } do {\n"
    "      set %acc, %a\n"
    "    }\n"
    "    %sum = reduce f32 dot 16, %k = %0 to %n {\n"
    "      yield %a, %a\n"
    "    }\n"
    "    %best = reduce i64 argmax 1, %k.2 = %0 to %n {\n"
    "      yield %a\n"
    "    }\n"
    "    threads %thread = 0 to %eight {\n"
    "    }\n"
    "  }\n"
    "}\n";

static fx_kir_module *parse(const char *text, fx_error *err)
{
    fx_kir_module *m = NULL;

    fx_kir_parse(&m, &arena, "t", fx_str_of(text), err);
    return m;
}

TEST(text_prints_as_it_was_read)
{
    fx_error err = { 0 };
    fx_kir_module *m;

    setup();
    m = parse(everything, &err);
    CHECK_STR(err.text, "");
    if (m) {
        fx_kir_print(m, &out);
        CHECK_STR(out.p, everything);
        CHECK_EQ_I64(m->first->body->first->line, 6);
    }
    teardown();
}

TEST(numbers_as_operands_are_constants)
{
    fx_error err = { 0 };
    fx_kir_module *m;

    setup();
    m = parse("kernel @a() { grid { yield 1 } body %t { forall %j = -1 to 64 { } } }  # comment", &err);
    CHECK_STR(err.text, "");
    if (m) {
        fx_kir_print(m, &out);
        CHECK_STR(out.p, "kernel @a() {\n  grid {\n    %0 = const i64 1\n    yield %0\n  }\n  body %t {\n    %1 = const i64 -1\n"
                         "    %2 = const i64 64\n    forall %j = %1 to %2 {\n    }\n  }\n}\n");
    }
    teardown();
}

TEST(what_is_built_prints)
{
    fx_error err = { 0 };
    fx_kir_module *m;
    fx_kir_kernel *k;
    fx_kop *n, *x, *v, *loop;
    fx_kir_buf buf = { .dtype = FX_F32, .rank = 2, .access = FX_KIR_INOUT, .name = FX_STR("x") };

    setup();
    m = fx_kir_module_new(&arena);
    k = fx_kir_kernel_new(m, FX_STR("double"));
    n = fx_kir_size(k, FX_STR("n"));
    buf.extent[0] = n;
    buf.extent[1] = fx_kir_dim(m, 64);
    x = fx_kir_buffer(k, &buf);
    fx_kir_at(m, k->grid);
    fx_kir_yield(m, FX_KIN(n));
    fx_kir_at(m, k->body);
    n = fx_kir_index(m, 0);
    loop = fx_kir_forall(m, n, fx_kir_index(m, 64));
    fx_kir_at(m, loop->block[0]);
    v = fx_kir_load(m, x, FX_KIN(k->task, loop->block[0]->arg), 1, NULL);
    fx_kir_store(m, x, fx_kir_op2(m, FX_KIR_ADD, v, v), FX_KIN(k->task, loop->block[0]->arg), NULL);
    CHECK_EQ_I64(fx_kir_status(m, &err), FORNAX_OK);
    fx_kir_print(m, &out);
    CHECK_STR(out.p, "kernel @double(%n: size, %x: f32[%n,64] inout) {\n  grid {\n    yield %n\n  }\n  body %t {\n"
                     "    %0 = const i64 0\n    %1 = const i64 64\n    forall %i = %0 to %1 {\n      %2 = load f32 %x[%t,%i]\n"
                     "      %3 = add %2, %2  # f32\n      store %3, %x[%t,%i]\n    }\n  }\n}\n");
    teardown();
}

/* What stands in the body of a kernel with %n, %x: f32[%n] in, %b: bool, and where the fault lies. */
static const struct { const char *text, *fault; } faults[] = {
    { "%a = ad %n, %n", "t:2:6: no such op: ad" },
    { "%a = add %n, %q", "t:2:14: no such value: %q" },
    { "%a = add %n, %b", "t:2:6: add doesn't take i64, bool" },
    { "%a = add %n", "t:2:6: add takes 2 operands, not 1" },
    { "%a = add", "t:2:6: add takes 2 operands, not 0" },
    { "%a = add %x, %x", "t:2:6: add doesn't take a buffer, a buffer" },
    { "add %n, %n", "t:2:1: the result of add needs a name" },
    { "%n = add %n, %n", "t:2:1: %n is there already" },
    { "%a = store %n, %x[0]", "t:2:6: store has no result" },
    { "%a = const f32x3 1", "t:2:12: the lanes of a type are 2, 4, 8, 16, 32 or 64" },
    { "%a = const f32x128 1", "t:2:12: the lanes of a type are" },
    { "%a = const q4_0 1", "t:2:12: expected a type" },
    { "%a = const f32 1e39", "t:2:16: a number too large for f32" },
    { "%a = const f64 1e999", "t:2:16: expected a number" },
    { "%a = const i64 9223372036854775808", "t:2:16: expected a whole number" },
    { "%a = const u64 -1", "t:2:16: expected a whole number, not negative" },
    { "%a = const bool 1", "t:2:17: expected false" },
    { "%a = splat f32x8 %n", "t:2:6: splat doesn't make this type of its operand" },
    { "%a = convert i64 %n", "t:2:6: convert doesn't make this type of its operand" },
    { "%a = bitcast f32 %n", "t:2:6: bitcast doesn't take i64" },
    { "%a = extract %n, 1", "t:2:6: extract doesn't take i64" },
    { "%a = shuffle f32x2 %n, %n, [0,2]", "t:2:6: no such lane" },
    { "%a = load f64 %x[%n]", "t:2:6: load doesn't give this type here" },
    { "%a = load f32 %n[%n]", "t:2:15: expected a buffer or an array" },
    { "%a = load f32 %x[%n,%n,%n,%n,%n,%n,%n,%n,%n]", "t:2:42: too many operands" },
    { "%a = alloc shared f32[%n]", "t:2:6: the extents of an array are numbers" },
    { "%a = alloc global f32[2]", "t:2:12: expected private" },
    { "set %n, %n", "t:2:1: set takes a local" },
    { "for %i = 0 to 4 { } %a = add %i, %n", "t:2:21: expected the end of the line" },
    { "for %i = 0 to 4 { }\n%a = add %i, %n", "t:3:10: %i belongs to a block that is closed" },
    { "%a = reduce f32 mean 1, %k = 0 to 4 { yield %n }", "t:2:17: expected a kind of reduction" },
    { "%a = reduce f32 sum 65, %k = 0 to 4 { yield %n }", "t:2:6: a reduction has 1 to 64 lanes" },
    { "%a = reduce f32 argmax 1, %k = 0 to 4 { yield %n }", "t:2:6: argmin and argmax give i64" },
    { "threads %i = 1 to 4 { }", "t:2:1: threads begin at 0" },
    { "if %b { yield\nyield }", "t:3:1: yield behind a yield" },
    { "if %b {", "t:3:4: expected }" },
    { "$", "t:2:1: a character that means nothing here" },
};

TEST(faults_have_a_place)
{
    for (size_t i = 0; i < FX_COUNT(faults); i++) {
        fx_error err = { 0 };
        char text[500];

        setup();
        snprintf(text, sizeof(text), "kernel @k(%%n: i64, %%x: f32[%%n] in, %%b: bool) { grid { yield %%n } body %%t {\n%s\n} }", faults[i].text);
        CHECK(!parse(text, &err));
        if (strncmp(err.text, faults[i].fault, strlen(faults[i].fault)) != 0)
            FXTEST_FAIL("%s: \"%s\", expected \"%s\"", faults[i].text, err.text, faults[i].fault);
        teardown();
    }
}

TEST(deep_blocks_are_refused)
{
    fx_error err = { 0 };

    setup();
    fx_buf_puts(&out, "kernel @k(%b: bool) { grid { yield 1 } body %t { ");
    for (int i = 0; i < 100000; i++)
        fx_buf_puts(&out, "if %b {\n");
    CHECK(!parse(out.p, &err));
    CHECK(strstr(err.text, "too deep") != NULL);
    teardown();
}

/* ---- The verifier ------------------------------------------------------------------------------------ */

/* Around cases that don't begin with "kernel". */
static const char head[] = "kernel @k(%n: size, %m: size, %f: f32, %x: f32[%n,64] in, %y: f32[%n,64] out, %z: f32[%n,64] inout) {\n"
                           "grid { yield %n }\nbody %t {\n";

/* Per access, a digit an axis: whether it is known to be inside. */
static void print_bounds(const fx_kir_block *b, fx_buf *to)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (op->code >= FX_KIR_LOAD && op->code <= FX_KIR_SCATTER) {
            fx_buf_puts(to, " ");
            for (int i = 0; i < op->in[0]->u.buf->rank; i++)
                fx_buf_putc(to, fx_kir_in_bounds(op, i) ? '1' : '0');
        }
        for (int i = 0; i < 2; i++) {
            if (op->block[i])
                print_bounds(op->block[i], to);
        }
    }
}

/* A case is a kernel (or the body of one) and "expect ok", "expect" and what the fault ends with, or "expect inside" and
 * the digits of print_bounds. */
static void check_case(const char *file, int line, fx_str text, fx_str expect)
{
    bool whole = fx_str_find(text, FX_STR("kernel @"), 0) != FX_STR_NONE;
    fx_error err = { 0 };
    fx_kir_module *m = NULL;
    fx_buf all, got;

    setup();
    fx_buf_init(&all, &fx_mem_libc);
    fx_buf_init(&got, &fx_mem_libc);
    fx_buf_printf(&all, "%s%.*s%s", whole ? "" : head, FX_STR_ARG(text), whole ? "" : "}\n}\n");
    fx_buf_puts(&got, "");
    if (fx_kir_parse(&m, &arena, "t", fx_buf_view(&all), &err) != FORNAX_OK || fx_kir_check(m->first, &err) != FORNAX_OK)
        fx_buf_puts(&got, err.text);
    else if (fx_str_starts(expect, FX_STR("inside")))
        fx_buf_puts(&got, "inside"), print_bounds(m->first->body, &got);
    else
        fx_buf_puts(&got, "ok");
    if (!fx_str_ends(fx_buf_view(&got), expect))
        FXTEST_FAIL("%s:%d: \"%s\", expected \"%.*s\"", file, line, got.p, FX_STR_ARG(expect));
    fx_buf_done(&got);
    fx_buf_done(&all);
    teardown();
}

static int run_cases(const char *file)
{
    fx_file *f = NULL;
    fx_error err = { 0 };
    fx_str text;
    size_t from = 0;
    int n = 0, line = 1;

    CHECK_OK(fx_file_map(&f, &fx_mem_libc, file, &err), err);
    if (!f)
        return 0;
    text = fx_file_bytes(f);
    for (;;) {
        size_t at = fx_str_find(text, FX_STR("\nexpect "), from), end;

        if (at == FX_STR_NONE)
            break;
        end = fx_str_find(text, FX_STR("\n"), at + 8);
        end = end == FX_STR_NONE ? text.n : end;
        for (size_t i = from; i < at + 1; i++)
            line += text.p[i] == '\n';
        check_case(file, line, fx_str_n(text.p + from, at + 1 - from), fx_str_n(text.p + at + 8, end - at - 8));
        line++;
        from = end + (end < text.n);
        n++;
    }
    fx_file_unmap(f);
    return n;
}

/* ---- Runs that are checked ------------------------------------------------------------------------------- */

/* Runs one task of a kernel of one 'in' and one 'out' buffer of i32. */
static fx_kir_fault run_text(const char *text, const void *in, void *to, uint8_t *const *written)
{
    void *buffers[] = { (void *)(uintptr_t)in, to };
    fx_kir_launch l = { NULL, buffers };
    fx_kir_fault fault = { .op = -1 };
    fx_kir_interp *x = NULL;
    fx_kir_module *m = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_kir_parse(&m, &arena, "test", fx_str_of(text), &err), err);
    CHECK_OK(fx_kir_check(m->first, &err), err);
    CHECK_OK(fx_kir_interp_new(&x, &fx_mem_libc, m->first, &err), err);
    fx_kir_interp_watch(x, written);
    fx_kir_interp_run(x, &l, 0, 1, &fault);
    fx_kir_interp_free(x);
    return fault;
}

/* A reported case: of 7 numbers every third is seen, three of them, and four are loaded. The view has its own bounds; so has the memory. */
TEST(a_load_behind_a_strided_view)
{
    static const int32_t seven[7] = { 10, 11, 12, 13, 14, 15, 16 };
    static const char view[] = "kernel @k(%a: i32[3:3] in, %y: i32[4] out) {\n  grid {\n    yield 1\n  }\n  body %t {\n"
                               "    for %i = 0 to 4 {\n      %v = load i32 %a[%i]\n      store %v, %y[%i]\n    }\n  }\n}\n";
    static const char flat[] = "kernel @k(%a: i32[7] in, %y: i32[4] out) {\n  grid {\n    yield 1\n  }\n  body %t {\n"
                               "    for %i = 0 to 4 {\n      %j = mul %i, 3\n      %v = load i32 %a[%j]\n      store %v, %y[%i]\n    }\n  }\n}\n";
    int32_t y[4] = { 1, 1, 1, 1 };
    fx_kir_fault f;

    setup();
    f = run_text(view, seven, y, NULL);
    CHECK(f.op >= 0 && f.axis == 0 && f.index == 3 && f.extent == 3);
    CHECK_MEM(y, ((int32_t[]){ 10, 13, 16, 0 }), sizeof(y));
    f = run_text(flat, seven, y, NULL);
    CHECK(f.op >= 0 && f.axis == 0 && f.index == 9 && f.extent == 7);
    teardown();
}

TEST(reads_of_what_nobody_wrote)
{
    static const char text[] = "kernel @k(%a: i32[4] in, %y: i32[4] inout) {\n  grid {\n    yield 1\n  }\n  body %t {\n"
                               "    for %i = 0 to 4 {\n      %v = load i32 %a[%i]\n      store %v, %y[%i]\n      %w = load i32 %y[%i]\n    }\n  }\n}\n";
    static const int32_t a[4] = { 5, 6, 7, 8 };
    uint8_t of_a[4] = { 1, 1, 0, 1 }, of_y[4] = { 0 };
    int32_t y[4] = { 1, 1, 1, 1 };
    fx_kir_fault f;

    setup();
    f = run_text(text, a, y, (uint8_t *[]){ of_a, of_y });
    CHECK(f.op >= 0 && f.axis == FX_KIR_UNWRITTEN && f.index == 2 && f.extent == 0);
    CHECK_MEM(y, ((int32_t[]){ 5, 6, 0, 8 }), sizeof(y));
    CHECK_MEM(of_y, ((uint8_t[]){ 1, 1, 1, 1 }), sizeof(of_y));
    f = run_text(text, a, y, (uint8_t *[]){ NULL, of_y });
    CHECK(f.op < 0);
    teardown();
}

TEST(checks_hold_and_faults_are_found) { CHECK(run_cases(FXTEST_SOURCE "/tests/cases/kir/check.kir") > 40); }
TEST(bounds_are_found) { CHECK(run_cases(FXTEST_SOURCE "/tests/cases/kir/bounds.kir") > 10); }
TEST(what_is_apart_is_found) { CHECK(run_cases(FXTEST_SOURCE "/tests/cases/kir/apart.kir") > 20); }

/* ---- Random kernels ---------------------------------------------------------------------------------- */

static int random_kernels(void) { return getenv("FXTEST_LONG") ? 20000 : 300; }

TEST(random_kernels_pass_and_print)
{
    for (int seed = 0; seed < random_kernels(); seed++) {
        fx_error err = { 0 };
        fx_kir_module *m, *again = NULL;
        fx_buf twice;

        setup();
        fx_buf_init(&twice, &fx_mem_libc);
        m = fx_kir_module_new(&arena);
        CHECK(kir_random_kernel(m, (uint64_t)seed));
        CHECK_OK(fx_kir_status(m, &err), err);
        CHECK_OK(fx_kir_check(m->first, &err), err);
        fx_kir_print(m, &out);
        CHECK_OK(fx_kir_parse(&again, &arena, "t", fx_buf_view(&out), &err), err);
        if (again) {
            fx_kir_print(again, &twice);
            CHECK_STR(twice.p, out.p);
        }
        fx_buf_done(&twice);
        teardown();
    }
}

/* Bodies that leave no loop unwidened: the same bits, and all of their accesses known to be inside. */
static const char *const widened[] = {
    /* Sum of a row, then its elements by it. */
    "%s = reduce f32 sum 16, %k = 0 to %m { %v = load f32 %x[%t,%k]\n yield %v }\n"
    "forall %j = 0 to %m { %w = load f32 %x[%t,%j]\n %p = mul %w, %s\n store %p, %y[%t,%j] }\n",
    /* Every column its own sum over rows: a vector of sums. */
    "forall %j = 0 to %m { %s = reduce f32 dot 4, %k = 0 to %n { %v = load f32 %x[%k,%j]\n %w = load f32 %x[%k,%j]\n yield %v, %w }\n"
    "store %s, %y[%t,%j] }\n",
    /* Of every other column, where they are above 0; backwards. */
    "%h = div %m, 2\n"
    "forall %j = 0 to %h { %j2 = mul %j, 2\n %v = load f32 %x[%t,%j2]\n %z = const f32 0\n %c = lt %z, %v\n"
    "if %c { store %v, %y[%t,%j] } else { store %f, %y[%t,%j] } }\n",
    "forall %j = 0 to %m { %a = sub %m, 1\n %b = sub %a, %j\n %v = load f32 %x[%t,%b]\n store %v, %y[%t,%j] }\n",
    /* A local and a loop in every lane. */
    "forall %j = 0 to %m { %l = local %f\n for %i = 0 to %n { %v = load f32 %x[%i,%j]\n %g = get %l\n %s = fma %g, %f, %v\n set %l, %s }\n"
    "%r = get %l\n store %r, %y[%t,%j] }\n",
    /* Where the least lies. */
    "%s = reduce i64 argmin 1, %k = 0 to %m { %v = load f32 %x[%t,%k]\n %a = abs %v\n yield %a }\n"
    "%b = reduce i64 argmax 1, %k2 = 2 to %m { %w = load f32 %x[%t,%k2]\n yield %w }\n"
    "%d = sub %s, %b\n %r = convert f32 %d\n store %r, %y[%t,0]\n",
    /* The greatest, whatever the order; all above a number. */
    "%s = reduce f32 max 1, %k = 0 to %m { %v = load f32 %x[%t,%k]\n yield %v }\n"
    "%b = reduce bool all 1, %k2 = 0 to %m { %w = load f32 %x[%t,%k2]\n %c = lt %f, %w\n yield %c }\n"
    "%r = select %b, %s, %f\n store %r, %y[%t,0]\n",
};

static void compare_text(const char *body, int lanes, int64_t cols)
{
    static const char before[] = "kernel @k(%n: size, %m: size, %f: f32, %x: f32[%n,%m] in, %y: f32[%n,%m] out) { grid { yield %n } body %t {\n";
    int64_t sizes[] = { 5, cols };
    fx_error err = { 0 };
    fx_kir_module *m;
    kir_data one, two;
    fx_buf text;

    setup();
    fx_buf_init(&text, &fx_mem_libc);
    fx_buf_printf(&text, "%s%s} }", before, body);
    m = parse(text.p, &err);
    CHECK_STR(err.text, "");
    REQUIRE(m);
    CHECK_OK(fx_kir_check(m->first, &err), err);
    kir_data_init(&one, m->first, sizes, 1);
    kir_data_init(&two, m->first, sizes, 1);
    CHECK(!interpret(m->first, &one));
    CHECK_OK(fx_kir_widen(m->first, lanes, &err), err);
    CHECK_OK(fx_kir_check(m->first, &err), err);
    CHECK(!interpret(m->first, &two));
    if (!kir_data_same(&one, &two))
        FXTEST_FAIL("%d lanes, %d columns: not the same: %s", lanes, (int)cols, body);
    fx_kir_print(m, &out);
    CHECK(strstr(out.p, "forall") == NULL && strstr(out.p, "reduce") == NULL);
    fx_buf_clear(&text);
    fx_buf_puts(&text, "");
    print_bounds(m->first->body, &text);
    if (!strstr(body, "%y[%t,0]") && strchr(text.p, '0'))        /* of no columns there is no first one */
        FXTEST_FAIL("%d lanes: inside:%s: %s", lanes, text.p, body);
    fx_buf_done(&text);
    kir_data_done(&two);
    kir_data_done(&one);
    teardown();
}

/* What is written in the place of what is read is still read first when it is widened, also where lanes are left over. */
TEST(kernels_in_place_are_widened)
{
    fx_error err = { 0 };
    fx_kir_module *m;

    setup();
    m = parse("kernel @k(%n: size, %m: size, %x: f32[%n,%m] in, %y: f32[%n,%m] out same %x) { grid { yield %n } body %t {\n"
              "%s = reduce f32 sum 16, %k = 0 to %m { %v = load f32 %x[%t,%k]\n yield %v }\n"
              "forall %j = 0 to %m { %w = load f32 %x[%t,%j]\n %p = mul %w, %s\n store %p, %y[%t,%j] } } }", &err);
    REQUIRE(m);
    CHECK_OK(fx_kir_check(m->first, &err), err);
    CHECK_OK(fx_kir_widen(m->first, 8, &err), err);
    CHECK_OK(fx_kir_check(m->first, &err), err);
    teardown();
}

/* A random kernel widened to so many lanes computes what it computed. */
static void compare_widened(int seed, int lanes, int64_t cols)
{
    int64_t sizes[] = { 3, cols };
    fx_error err = { 0 };
    fx_kir_module *m;
    fx_kir_kernel *k;
    kir_data one, two;
    bool fault;

    setup();
    m = fx_kir_module_new(&arena);
    k = kir_random_kernel(m, (uint64_t)seed);
    REQUIRE(k);
    CHECK_OK(fx_kir_expand_math(k, &err), err);
    kir_data_init(&one, k, sizes, (uint64_t)seed);
    kir_data_init(&two, k, sizes, (uint64_t)seed);
    fault = interpret(k, &one);
    CHECK_OK(fx_kir_widen(k, lanes, &err), err);
    CHECK_OK(fx_kir_check(k, &err), err);
    CHECK(interpret(k, &two) == fault);
    if (!kir_data_same(&one, &two))
        FXTEST_FAIL("seed %d, %d lanes, %d columns: not the same", seed, lanes, (int)cols);
    kir_data_done(&two);
    kir_data_done(&one);
    teardown();
}

TEST(widened_kernels_have_the_same_bits)
{
    for (size_t i = 0; i < FX_COUNT(widened); i++) {
        for (int64_t cols = 1; cols < 40; cols++)
            compare_text(widened[i], 4 << cols % 3, cols);
    }
    for (int seed = 0; seed < random_kernels(); seed++)
        compare_widened(seed, 4 << seed % 3, 1 + seed * 7 % 53);
}

FXTEST_MAIN()
