/* test_graph.c - axis sizes, types, building with its faults, the text form, the verifier. */
#include "fxtest.h"

#include "base/file.h"
#include "base/text.h"
#include "graph/nn.h"

static fx_arena arena;

static void setup(void) { fx_arena_init(&arena, &fx_mem_libc, 0); }
static void teardown(void) { fx_arena_done(&arena); }

/* ---- Sizes ----------------------------------------------------------------------------- */

/* The type text f32[SIZE] read and printed again shows the canonical form of SIZE. */
static const struct { const char *size, *canonical; } sizes[] = {
    { "7", "7" },
    { "2+3*4", "14" },
    { "x", "x" },
    { "x+1+1", "x+2" },
    { "1+x+1", "x+2" },
    { "x-x", "0" },
    { "x+x", "2*x" },
    { "2*x-x", "x" },
    { "x*y-y*x", "0" },
    { "y*x", "x*y" },
    { "(x+1)*(x-1)", "x*x-1" },
    { "-x+1", "-x+1" },
    { "1-x", "-x+1" },
    { "7//2", "3" },
    { "4*x//4", "x" },
    { "(4*x+6)//4", "x+1" },
    { "(4*x+y)//4", "x+y//4" },
    { "(x+6)//4", "(x+2)//4+1" },
    { "(x+2)//4+1", "(x+2)//4+1" },
    { "x*y//y", "x" },
    { "x//1", "x" },
    { "x//y", "x//y" },
    { "2*(x//2)", "2*(x//2)" },
    { "x//2*2", "2*(x//2)" },
    { "(x//2)*y", "y*(x//2)" },
    { "(x//2)//3", "(x//2)//3" },
    { "x-(x//2)", "x-(x//2)" },
    { "((((x))))", "x" },
    { "x*0", "0" },
    { "x*0+3", "3" },
};

TEST(sizes_are_canonical)
{
    for (size_t i = 0; i < FX_COUNT(sizes); i++) {
        char text[200];
        fx_error err = { 0 };
        fx_module *m;
        fx_buf out;

        setup();
        fx_buf_init(&out, &fx_mem_libc);
        snprintf(text, sizeof(text), "%%x = input f32[9,%s]\noutput %%x\n", sizes[i].size);
        CHECK_OK(fx_module_parse(&m, &arena, "t", fx_str_of(text), &err), err);
        if (m) {
            fx_dim_print(fx_graph_body(m->first)->first->out[0].type.dim[1], &out);
            CHECK_STR(out.p, sizes[i].canonical);
        }
        fx_buf_done(&out);
        teardown();
    }
}

static const struct { const char *a, *b; bool equal; } equalities[] = {
    { "x+1+1", "x+2", true },       { "x+1", "x+2", false },  { "x", "y", false },
    { "(x+y)*2", "2*y+2*x", true }, { "x//2", "x//3", false }, { "(2*x+1)//2", "x", true },
    { "x*x", "x", false },          { "3", "3", true },        { "x//2+x//2", "2*(x//2)", true },
};

static fx_dim size_of(const char *size)
{
    char text[200];
    fx_error err = { 0 };
    fx_module *m;

    snprintf(text, sizeof(text), "%%x = input f32[%s]\noutput %%x\n", size);
    CHECK_OK(fx_module_parse(&m, &arena, "t", fx_str_of(text), &err), err);
    return m ? fx_graph_body(m->first)->first->out[0].type.dim[0] : fx_dim_of(-1);
}

TEST(sizes_compare)
{
    setup();
    for (size_t i = 0; i < FX_COUNT(equalities); i++) {
        if (fx_dim_eq(size_of(equalities[i].a), size_of(equalities[i].b)) != equalities[i].equal)
            FXTEST_FAIL("%s and %s", equalities[i].a, equalities[i].b);
    }
    teardown();
}

static bool lookup(void *user, fx_str name, int64_t *value)
{
    (void)user;
    *value = fx_str_is(name, "x") ? 10 : 3;
    return fx_str_is(name, "x") || fx_str_is(name, "y");
}

TEST(sizes_have_values)
{
    static const struct { const char *size; int64_t value; } table[] = {
        { "x", 10 }, { "x*y+1", 31 }, { "x//y", 3 }, { "(x*x-1)//y", 33 }, { "5", 5 }, { "2*(x//4)+y//2", 5 },
    };
    int64_t v;

    setup();
    for (size_t i = 0; i < FX_COUNT(table); i++) {
        CHECK(fx_dim_eval(size_of(table[i].size), lookup, NULL, &v));
        CHECK_EQ_I64(v, table[i].value);
    }
    CHECK(!fx_dim_eval(size_of("z"), lookup, NULL, &v));
    teardown();
}

TEST(sizes_that_do_not_fit_are_refused)
{
    fx_dim big = fx_dim_of(INT64_MAX), low = fx_dim_of(INT64_MIN), d, x;

    setup();
    CHECK_EQ_I64(fx_dim_add(&arena, big, fx_dim_of(1), &d), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_dim_mul(&arena, big, fx_dim_of(2), &d), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_dim_mul(&arena, low, fx_dim_of(-1), &d), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_dim_mul(&arena, low, fx_dim_of(2), &d), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_dim_mul(&arena, big, fx_dim_of(-2), &d), FORNAX_EFORMAT);
    CHECK(fx_dim_mul(&arena, fx_dim_of(-3), fx_dim_of(-4), &d) == FORNAX_OK && d.n == 12);
    CHECK(fx_dim_div(&arena, fx_dim_of(-7), fx_dim_of(2), &d) == FORNAX_OK && d.n == -4);     /* floor */
    CHECK(fx_dim_div(&arena, fx_dim_of(7), fx_dim_of(-2), &d) == FORNAX_OK && d.n == -4);
    CHECK_EQ_I64(fx_dim_div(&arena, big, fx_dim_of(0), &d), FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_dim_div(&arena, low, fx_dim_of(-1), &d), FORNAX_EFORMAT);
    CHECK(fx_dim_symbol(&arena, FX_STR("x"), &x) == FORNAX_OK);
    CHECK(fx_dim_mul(&arena, x, big, &d) == FORNAX_OK && fx_dim_add(&arena, d, d, &d) == FORNAX_EFORMAT);
    CHECK_EQ_I64(fx_dim_div(&arena, x, fx_dim_of(0), &d), FORNAX_EFORMAT);
    teardown();
}

/* ---- Building ------------------------------------------------------------------------------ */

static fx_type rows_by(fx_module *m, const char *rows, int64_t cols)
{
    fx_dim d;

    CHECK(fx_dim_symbol(m->arena, fx_str_of(rows), &d) == FORNAX_OK);
    return fx_type2(FX_F32, d, fx_dim_of(cols));
}

static fx_value *add_input(fx_module *m, const char *name, fx_type t)
{
    return FX_OP1(m, INPUT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &t)), .name = fx_str_of(name));
}

TEST(a_fault_names_line_op_and_shapes)
{
    fx_error err = { 0 };
    char want[64];
    fx_module *m;
    fx_value *x, *y;

    setup();
    m = fx_module_new(&arena);
    fx_graph_new(m, FX_STR("g"));
    x = add_input(m, "x", rows_by(m, "rows", 64));
    y = add_input(m, "y", rows_by(m, "rows", 32));
    CHECK(!FX_OP1(m, ADD, FX_IN(x, y), FX_NOATTR));
    snprintf(want, sizeof(want), "test_graph.c:%d: add: ", __LINE__ - 1);
    CHECK(fx_module_status(m, &err) == FORNAX_EFORMAT);
    CHECK(strstr(err.text, want) != NULL);
    CHECK(strstr(err.text, "f32[rows,64], f32[rows,32]") != NULL);
    /* Later makes do nothing and the first fault stays. */
    CHECK(!FX_OP1(m, SILU, FX_IN(x), FX_NOATTR));
    CHECK(!FX_OP1(m, SILU, FX_IN((fx_value *)NULL), FX_NOATTR));
    CHECK(fx_module_status(m, &err) == FORNAX_EFORMAT && strstr(err.text, want));
    teardown();
}

TEST(words_name_the_line_that_used_them)
{
    fx_error err = { 0 };
    char want[64];
    fx_module *m;
    fx_nn nn = { 0 };
    fx_value *x;

    setup();
    m = fx_module_new(&arena);
    fx_graph_new(m, FX_STR("g"));
    nn.m = m;
    x = add_input(m, "x", rows_by(m, "rows", 64));
    CHECK(!fx_nn_embed(&nn, x, x, 1));
    snprintf(want, sizeof(want), "test_graph.c:%d: embed: ", __LINE__ - 1);
    CHECK(fx_module_status(m, &err) != FORNAX_OK && strstr(err.text, want));
    teardown();
}

TEST(ops_go_to_the_insertion_point)
{
    fx_module *m;
    fx_graph *g;
    fx_value *x, *a, *b;
    fx_point was;

    setup();
    m = fx_module_new(&arena);
    g = fx_graph_new(m, FX_STR("g"));
    x = add_input(m, "x", rows_by(m, "rows", 64));
    b = FX_OP1(m, RELU, FX_IN(x), FX_NOATTR);
    was = fx_insert_at(m, fx_before(b->def));
    a = FX_OP1(m, TANH, FX_IN(x), FX_NOATTR);
    fx_insert_at(m, was);
    FX_OP0(m, OUTPUT, FX_IN(a, b), FX_NOATTR);
    CHECK(fx_module_check(m, NULL) == FORNAX_OK);
    CHECK(x->def->next == a->def && a->def->next == b->def && b->def->next == fx_graph_output(g));
    CHECK(fx_op_before(a->def, b->def) && !fx_op_before(b->def, a->def));
    CHECK_EQ_I64(fx_value_uses(x), 2);
    CHECK(!FX_OP1(m, RELU, FX_IN(x), FX_NOATTR));       /* behind the end of the block */
    CHECK(m->failed);
    teardown();
}

/* Regions are built before the cond that owns them; only then their ends are judged. */
static fx_op *build_cond(fx_module *m, fx_opcode end_of_second)
{
    fx_type pt = fx_type0(FX_BOOL);
    fx_value *p = FX_OP1(m, INPUT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &pt)));
    fx_value *x = add_input(m, "x", rows_by(m, "rows", 64)), *y;
    fx_region *r[2];
    fx_op *cond;

    for (int i = 0; i < 2; i++) {
        fx_block *b = fx_block_new(m, NULL, 0);
        fx_point was = fx_insert_at(m, (fx_point){ b, NULL });

        y = i ? FX_OP1(m, RELU, FX_IN(x), FX_NOATTR) : FX_OP1(m, TANH, FX_IN(x), FX_NOATTR);
        if (i && end_of_second == FX_OP_OUTPUT)
            FX_OP0(m, OUTPUT, FX_IN(y), FX_NOATTR);
        else
            FX_OP0(m, YIELD, FX_IN(y), FX_NOATTR);
        CHECK(!m->failed);                              /* its parent isn't known yet */
        r[i] = fx_region_new(m, b);
        fx_insert_at(m, was);
    }
    cond = FX_OP(m, COND, FX_IN(p), FX_NOATTR, .regions = r, .n_regions = 2);
    if (cond)
        FX_OP0(m, OUTPUT, FX_IN(&cond->out[0]), FX_NOATTR);
    return cond;
}

TEST(blocks_may_come_before_their_owner)
{
    fx_error err = { 0 };
    fx_module *m;
    fx_op *cond;

    setup();
    m = fx_module_new(&arena);
    fx_graph_new(m, FX_STR("g"));
    cond = build_cond(m, FX_OP_YIELD);
    CHECK_OK(fx_module_check(m, &err), err);
    CHECK(cond && cond->n_out == 1 && cond->out[0].type.rank == 2);
    m = fx_module_new(&arena);
    fx_graph_new(m, FX_STR("g"));
    CHECK(!build_cond(m, FX_OP_OUTPUT));
    CHECK(fx_module_status(m, &err) == FORNAX_EFORMAT && strstr(err.text, "yield"));
    teardown();
}

TEST(a_module_holds_graphs_by_name)
{
    fx_module *m;
    fx_graph *a, *b;

    setup();
    m = fx_module_new(&arena);
    a = fx_graph_new(m, FX_STR("a"));
    b = fx_graph_new(m, FX_STR("b"));
    CHECK(fx_graph_find(m, FX_STR("a")) == a && fx_graph_find(m, FX_STR("b")) == b);
    CHECK(!fx_graph_find(m, FX_STR("c")));
    CHECK(!fx_graph_new(m, FX_STR("a")) && m->failed);
    teardown();
}

/* ---- Text -------------------------------------------------------------------------------------- */

static const char *const texts[] = {
    "graph @main {\n"
    "  %tokens = input i32[rows]\n"
    "  %w = weight \"token_embd.weight\", q8_0[512,64]\n"
    "  %x = embed %tokens, %w, scale=8  # f32[rows,64]\n"
    "  %0 = constant f32[4], {1, 0.5, -0.25, 1e+20}\n"
    "  %1 = constant f32[64], {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,"
    " 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,"
    " 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63}\n"
    "  %n = rmsnorm %x, %1, eps=1e-05, offset=1  # f32[rows,64]\n"
    "  %h = reshape %n, f32[rows,4,16]\n"
    "  %s = slice %h, start=4, length=8  # f32[rows,4,8]\n"
    "  %c = concat %s, %s  # f32[rows,4,16]\n"
    "  %r = reshape %c, f32[rows,64]\n"
    "  output %r\n"
    "}\n",

    "graph @a {\n"
    "  %x = input f32[rows,64]\n"
    "  %a = weight \"odd \\\"name\\\"\\n\", f32[128,64]\n"
    "  %b = cast %a, bf16  # bf16[128,64]\n"
    "  %r = input f32[rows,128]\n"
    "  %v = weight \"v\", f32[128]\n"
    "  %m = linear %x, %b, _, %r, scale=0.125  # f32[rows,128]\n"
    "  %sum, %y = add_rmsnorm %m, %r, %v, eps=1e-06  # f32[rows,128], f32[rows,128]\n"
    "  output %sum, %y\n"
    "}\n"
    "graph @b {\n"
    "  %p = input bool\n"
    "  %x = input f32[rows,64]\n"
    "  %y = cond %p {\n"
    "    %t = tanh %x  # f32[rows,64]\n"
    "    yield %t\n"
    "  } {\n"
    "    %u = relu %x  # f32[rows,64]\n"
    "    yield %u\n"
    "  }  # f32[rows,64]\n"
    "  output %y\n"
    "}\n",

    "graph @step {\n"
    "  %q = input f32[rows,256]\n"
    "  %k = input f32[rows,64]\n"
    "  %v = input f32[rows,64]\n"
    "  %f = input f32[16]\n"
    "  %0 = chain  # chain\n"
    "  %qr = rope %q, %f, head_dim=32, rot_dim=32, style=pairs, attn_scale=1.5  # f32[rows,256]\n"
    "  %kr = rope %k, %f, head_dim=32, rot_dim=32  # f32[rows,64]\n"
    "  %c = kv_store %kr, %v, %0, layer=3, kv_heads=2  # chain\n"
    "  %y = attend %qr, %c, layer=3, heads=8, kv_heads=2, head_dim=32, v_dim=32, scale=0.125, window=16,"
    " softcap=50  # f32[rows,256]\n"
    "  %q.2, %c.2 = rope_store %q, %k, %v, _, _, %f, %c, layer=4, heads=8, kv_heads=2, head_dim=32,"
    " v_dim=32, rot_dim=32, eps=0  # f32[rows,256], chain\n"
    "  output %y, %q.2, %c.2\n"
    "}\n",

    "library \"kernels/a \\\"b\\\".so\"\n"
    "library \"kernels/src\"\n"
    "subgraph @half {\n"
    "  %x = input f32[n,4]\n"
    "  %l, %r = chunk %x, parts=2  # f32[n,2], f32[n,2]\n"
    "  output %r, %l\n"
    "}\n"
    "graph @main {\n"
    "  %b = input buffer f32[2*k+1,4]\n"
    "  %i = constant u64[3], {0, 1, 18446744073709551615}\n"
    "  %h = constant bf16[2,2], {0.1, -0.5, inf, nan}\n"
    "  %t = constant bool, {1}\n"
    "  %0 = chain  # chain\n"
    "  %v, %c = buffer_load %b, %0  # f32[2*k+1,4], chain\n"
    "  %p, %q = call %v, callee=\"half\"  # f32[2*k+1,2], f32[2*k+1,2]\n"
    "  %s = pad %p, paddings={0, 1, 2*k, 0}, mode=edge  # f32[2*k+2,2*k+2]\n"
    "  %d, %e, %c.2 = inplace_custom %b, %c, kernel=\"k\\\"1\", types={i8[k], f16}, params={n=-4, fast=true, mode=\"a b\", t=bf16}"
    "  # i8[k], f16, chain\n"
    "  output %s\n"
    "}\n",

    "graph @main {\n"
    "  %x = input f32[n]\n"
    "  %n = constant i64, {5}\n"
    "  %one = constant i64, {1}\n"
    "  %y, %left = while %x, %n { %a: f32[n], %i: i64\n"
    "    %more = greater %i, %one  # bool\n"
    "    yield %more\n"
    "  } { %a.2: f32[n], %i.2: i64\n"
    "    %b = add %a.2, %a.2  # f32[n]\n"
    "    %j = sub %i.2, %one  # i64\n"
    "    yield %b, %j\n"
    "  }  # f32[n], i64\n"
    "  output %y\n"
    "}\n",
};

TEST(text_reads_back)
{
    for (size_t i = 0; i < FX_COUNT(texts); i++) {
        fx_error err = { 0 };
        fx_module *m;
        fx_buf out;

        setup();
        fx_buf_init(&out, &fx_mem_libc);
        CHECK_OK(fx_module_parse(&m, &arena, "t", fx_str_of(texts[i]), &err), err);
        if (m) {
            fx_module_print(m, &out);
            CHECK_STR(out.p, texts[i]);
        }
        fx_buf_done(&out);
        teardown();
    }
}

TEST(hints_that_clash_or_cannot_be_written)
{
    fx_error err = { 0 };
    fx_module *m, *again;
    fx_value *x;
    fx_buf one, two;

    setup();
    m = fx_module_new(&arena);
    fx_graph_new(m, FX_STR("g"));
    x = add_input(m, "h", rows_by(m, "rows", 64));
    x = FX_OP1(m, RELU, FX_IN(x), FX_NOATTR, .name = FX_STR("h"));
    x = FX_OP1(m, RELU, FX_IN(x), FX_NOATTR, .name = FX_STR("h.2"));
    x = FX_OP1(m, RELU, FX_IN(x), FX_NOATTR, .name = FX_STR("h"));
    x = FX_OP1(m, RELU, FX_IN(x), FX_NOATTR, .name = FX_STR("a b"));
    x = FX_OP1(m, RELU, FX_IN(x), FX_NOATTR, .name = FX_STR("_"));
    FX_OP0(m, OUTPUT, FX_IN(x), FX_NOATTR);
    fx_buf_init(&one, &fx_mem_libc);
    fx_buf_init(&two, &fx_mem_libc);
    fx_module_print(m, &one);
    CHECK_OK(fx_module_parse(&again, &arena, "t", fx_buf_view(&one), &err), err);
    if (again)
        fx_module_print(again, &two);
    CHECK_STR(two.p, one.p);
    fx_buf_done(&one);
    fx_buf_done(&two);
    teardown();
}

/* Text that is refused: where, and a part of why. */
static const struct { const char *text, *where, *why; } refused[] = {
    { "%x = inpt f32[4]\noutput %x", "t:1:6:", "no such op: inpt" },
    { "%x = input f32[4]\n  %y = silu %z\noutput %y", "t:2:13:", "no such value: z" },
    { "%x = input f32[4]\n%x = input f32[4]\noutput %x", "t:2:1:", "there already: x" },
    { "%x = input f33[4]\noutput %x", "t:1:12:", "expected a type" },
    { "%x = input f32[4\noutput %x", "t:2:1:", "expected ]" },
    { "%x = input f32[4,]\noutput %x", "t:1:18:", "expected a size" },
    { "%x = input f32[-4]\noutput %x", "t:1:16:", "negative" },
    { "%x = input f32[4//0]\noutput %x", "t:1:17:", "zero" },
    { "%x = input f32[1,1,1,1,1,1,1,1,1]\noutput %x", "t:1:32:", "too many axes" },
    { "%x = input f32[99999999999999999999]\noutput %x", "t:1:16:", "whole number" },
    { "%x = input f32[9999999999*9999999999]\noutput %x", "t:1:26:", "too large" },
    { "%x = input f32[4]@gpu\noutput %x", "t:1:19:", "device" },
    { "%x = input f32[4]\n%y = silu %x, eps=1\noutput %y", "t:2:6:", "attribute" },
    { "%x = input f32[4]\n%y = silu %x, speed=1\noutput %y", "t:2:15:", "no such attribute: speed" },
    { "%x = input f32[4]\n%y = scale %x\noutput %y", "t:2:6:", "factor is missing" },
    { "%x = input f32[4]\n%y = scale %x, factor=fast\noutput %y", "t:2:23:", "number" },
    { "%x = input f32[4]\n%y = silu %x, %x\noutput %y", "t:2:6:", "2 operands" },
    { "%x = input f32[4]\n%y = add %x\noutput %y", "t:2:6:", "b is missing" },
    { "%x = input f32[4]\n%y, %z = silu %x\noutput %y", "t:2:10:", "1 results, 2 are named" },
    { "%x = input f32[4]\nsilu %x\noutput %x", "t:2:1:", "1 results, 0 are named" },
    { "%x = input f32[4]\n", "t:1:1:", "doesn't end in output" },
    { "%x = input f32[4]\noutput %x\n%y = silu %x", "t:3:6:", "behind output" },
    { "%x = input f32[4]\nyield %x", "t:2:1:", "ends in output" },
    { "%x = input f32[4] %y\noutput %x", "t:1:19:", "end of the line" },
    { "%x = weight \"a, f32[4]\noutput %x", "t:1:13:", "doesn't end" },
    { "%x = weight \"\\q\", f32[4]\noutput %x", "t:1:13:", "escape" },
    { "%x = weight \"a\", f32[rows]\noutput %x", "t:1:6:", "numbers" },
    { "%x = weight \"a\", q8[4,32]\noutput %x", "t:1:6:", "numbers, bools or quantized" },
    { "%x = constant u8[1], {256}\noutput %x", "t:1:23:", "too large for its type" },
    { "%x = constant f16[1], {1e5}\noutput %x", "t:1:24:", "too large for its type" },
    { "%x = constant {1}, i8[1]\noutput %x", "t:1:15:", "behind their type" },
    { "%x = input f32[4]\n%y = pad %x, paddings={1,1}, mode=wrap\noutput %y", "t:2:35:", "no such word for this attribute: wrap" },
    { "%x = input f32[4,4]\n%y = band_part %x, exclude=1\noutput %y", "t:2:28:", "true or false" },
    { "%x = input f32[4]\n%y = tile %x, repeats={2\noutput %y", "t:3:1:", "expected } or ," },
    { "%x = input buffer f32[4]\n%y = silu %x\noutput %y", "t:2:6:", "takes values, not buffers; operands buffer f32[4]" },
    { "%x = weight \"a\", q4_0[4,33]\noutput %x", "t:1:6:", "whole blocks" },
    { "%x = constant f32[3], {1, 2}\noutput %x", "t:1:6:", "as many values" },
    { "%x = input f32[rows,64]\n%w = weight \"w\", f32[8,32]\n%y = linear %x, %w\noutput %y", "t:3:6:",
      "last axes of x and w differ; operands f32[rows,64], f32[8,32]" },
    { "%x = input f32[rows,64]\n%y = input f32[outs,64]\n%z = add %x, %y\noutput %z", "t:3:6:", "broadcast" },
    { "%x = input f32[rows,64]\n%y = reshape %x, f32[rows,63]\noutput %y", "t:2:6:", "number of elements" },
    { "%x = input f32[rows,64]\n%y = slice %x, start=60, length=8\noutput %y", "t:2:6:", "leave the axis" },
    { "%x = input f32[rows,48]\n%y = quant %x\noutput %y", "t:2:6:", "multiple of 32" },
    { "%x = input q8[rows,64]\n%w = weight \"w\", f32[8,64]\n%y = linear %x, %w\noutput %y", "t:3:6:",
      "quantized activations need quantized weights" },
    { "%x = input f32[rows,60]\n%w = weight \"w\", f32[16]\n%y = rmsnorm %x, %w, eps=1e-5\noutput %y", "t:3:6:",
      "whole groups" },
    { "%x = input f32[rows,64]\n%f = input f32[8]\n%y = rope %x, %f, head_dim=16, rot_dim=15\noutput %y", "t:3:6:",
      "rot_dim" },
    { "%c = chain\n%k = input f32[rows,64]\n%a = kv_store %k, %k, %c, layer=0, kv_heads=2\n"
      "%b = kv_store %k, %k, %c, layer=1, kv_heads=2\noutput %a, %b", "", "chain forks" },
    { "library kernels\ngraph @a { output }", "t:1:9:", "path of a kernel library" },
    { "graph @a { output }\nlibrary \"x\"", "t:2:1:", "expected graph @name" },
    { "graph @a { output }\ngraph @a { output }", "t:2:8:", "of this name" },
    { "graph @a { output", "t:1:18:", "expected }" },
    { "%x = input f32[4]; output %x", "t:1:18:", "means nothing" },
    { "%p = input bool\n%x = input f32[4]\n%y = cond %p { %a = silu %x\n yield %a } { yield %a }\noutput %y",
      "t:4:21:", "block that is closed: a" },
    { "%p = input bool\n%x = input f32[4]\n%y = cond %p { yield %x }\noutput %y", "t:3:6:", "two regions" },
};

TEST(faults_in_text_have_a_place)
{
    for (size_t i = 0; i < FX_COUNT(refused); i++) {
        fx_error err = { 0 };
        fx_module *m;
        fx_status st;

        setup();
        st = fx_module_parse(&m, &arena, "t", fx_str_of(refused[i].text), &err);
        if (st != FORNAX_EFORMAT || m || strncmp(err.text, refused[i].where, strlen(refused[i].where)) ||
            !strstr(err.text, refused[i].why))
            FXTEST_FAIL("case %zu: %s\n-- gives %d: %s\n-- expected %s %s", i, refused[i].text, (int)st, err.text,
                        refused[i].where, refused[i].why);
        teardown();
    }
}

/* Every prefix, and every byte changed: an error or a graph, never a crash. */
TEST(broken_text_is_survived)
{
    const char *text = texts[0];
    size_t n = strlen(text);
    char *copy = malloc(n);

    for (size_t i = 0; copy && i < n; i++) {
        fx_module *m;

        setup();
        (void)fx_module_parse(&m, &arena, "t", fx_str_n(text, i), NULL);
        memcpy(copy, text, n);
        copy[i] = "%{}[](),=\"#x9\n\0"[i % 14];
        (void)fx_module_parse(&m, &arena, "t", fx_str_n(copy, n), NULL);
        teardown();
    }
    free(copy);
}

/* ---- The verifier ---------------------------------------------------------------------------------- */

TEST(the_verifier_sees_what_a_pass_breaks)
{
    static const char text[] = "%x = input f32[rows,64]\n%y = silu %x\n%z = relu %y\noutput %z\n";
    fx_error err = { 0 };
    fx_module *m;
    fx_op *y, *z;

    setup();
    CHECK_OK(fx_module_parse(&m, &arena, "t", fx_str_of(text), &err), err);
    y = fx_graph_body(m->first)->first->next;
    z = y->next;
    fx_op_set_in(y, 0, &z->out[0]);                     /* a loop */
    CHECK(fx_module_check(m, &err) == FORNAX_EINTERNAL && strstr(err.text, "isn't made before"));
    fx_op_set_in(y, 0, &fx_graph_body(m->first)->first->out[0]);
    CHECK_OK(fx_module_check(m, &err), err);
    z->out[0].type.dim[1] = fx_dim_of(32);              /* another type than the rule's */
    CHECK(fx_module_check(m, &err) == FORNAX_EINTERNAL && strstr(err.text, "another type"));
    z->out[0].type.dim[1] = fx_dim_of(64);
    fx_op_set_in(fx_graph_output(m->first), 0, &y->out[0]);
    fx_op_erase(z);
    CHECK_OK(fx_module_check(m, &err), err);
    fx_op_erase(fx_graph_output(m->first));
    CHECK(fx_module_check(m, &err) == FORNAX_EINTERNAL && strstr(err.text, "doesn't end"));
    teardown();
}

/* ---- The table ----------------------------------------------------------------------------------------- */

TEST(every_op_is_found_by_its_name_and_documented)
{
    fx_buf doc;

    fx_buf_init(&doc, &fx_mem_libc);
    fx_ops_document(&doc);
    for (int c = 0; c < FX_OP_COUNT; c++) {
        fx_opcode back = FX_OP_COUNT;
        char row[64];

        CHECK(fx_opcode_of_name(&back, fx_str_of(fx_op_rows[c].text)) && back == (fx_opcode)c);
        snprintf(row, sizeof(row), "| %s |", fx_op_rows[c].text);
        CHECK(strstr(doc.p, row) != NULL);
    }
    fx_buf_done(&doc);
}

/* docs/ops.md ends in the table that fx_ops_document makes. */
TEST(the_reference_of_ops_is_up_to_date)
{
    fx_error err = { 0 };
    fx_buf doc, page;
    size_t at;

    fx_buf_init(&doc, &fx_mem_libc);
    fx_buf_init(&page, &fx_mem_libc);
    fx_ops_document(&doc);
    CHECK_OK(fx_file_read(&page, FXTEST_SOURCE "/docs/ops.md", 1 << 20, &err), err);
    at = fx_str_find(fx_buf_view(&page), FX_STR("| op |"), 0);
    CHECK(at != FX_STR_NONE);
    if (at != FX_STR_NONE)
        CHECK_STR(page.p + at, doc.p);
    fx_buf_done(&doc);
    fx_buf_done(&page);
}

TEST(signatures_are_read)
{
    bool optional;

    CHECK_EQ_I64(fx_op_names_of("").n, 0);
    CHECK_EQ_I64(fx_op_names_of("a, b?").n, 2);
    CHECK(fx_op_names_of("x...").variadic && !fx_op_names_of("a, b?").variadic);
    CHECK(fx_str_is(fx_op_name_at("a, b?", 1, &optional), "b") && optional);
    CHECK(fx_str_is(fx_op_name_at("a, b?", 0, &optional), "a") && !optional);
    CHECK(fx_op_name_at("a, b?", 2, &optional).n == 0);
    CHECK(fx_str_is(fx_op_name_at("a, x...", 5, &optional), "x") && !optional);
}

/* Memory that runs out at the n-th request is a status, for every n. */
typedef struct failing {
    int64_t left;
} failing;

static void *failing_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    failing *f = user;

    if (new_size && f->left-- <= 0)
        return NULL;
    return fx_mem_libc.fn(fx_mem_libc.user, p, old_size, new_size);
}

TEST(memory_may_run_out_anywhere)
{
    for (size_t i = 0; i < FX_COUNT(texts); i++) {
        for (int64_t n = 0; n < 300; n++) {
            failing f = { n };
            fx_mem mem = { failing_alloc, &f };
            fx_arena a;
            fx_module *m;
            fx_error err = { 0 };
            fx_status st;

            fx_arena_init(&a, &mem, 256);
            st = fx_module_parse(&m, &a, "t", fx_str_of(texts[i]), &err);
            if (st != FORNAX_OK && st != FORNAX_ENOMEM)
                FXTEST_FAIL("text %zu, request %lld: %s", i, (long long)n, err.text);
            CHECK((st == FORNAX_OK) == (m != NULL));
            if (st == FORNAX_OK) {
                fx_buf out;

                fx_buf_init(&out, &mem);
                fx_module_print(m, &out);
                CHECK(out.failed || !strcmp(out.p, texts[i]));
                fx_buf_done(&out);
            }
            fx_arena_done(&a);
        }
    }
}

FXTEST_MAIN()
