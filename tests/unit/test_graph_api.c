/* test_graph_api.c - graphs built through fornax_graph.h: what they print, and what is refused. */
#include "fxtest.h"

#include "fornax_graph.h"

static fornax_context *ctx;
static fornax_module *mod;
static fornax_error err;

static void setup(void)
{
    err = (fornax_error){ 0 };
    CHECK_OK(fornax_context_open(&ctx, NULL, &err), err);
    CHECK_OK(fornax_module_open(&mod, ctx, &err), err);
}

static void teardown(void)
{
    fornax_module_close(mod);
    fornax_context_close(ctx);
}

static fornax_type rows(const char *name, int64_t cols)
{
    return fornax_type2(FORNAX_F32, fornax_dim_named(mod, name), fornax_dim_of(cols));
}

static fornax_value *input(fornax_graph *g, const char *name, fornax_type t)
{
    return fornax_graph_input(g, name, &t);
}

/* The module is sound, prints like this, and so does what its text parses to. */
static void check_text(const char *want)
{
    fornax_text *text = NULL, *again = NULL;
    fornax_module *back = NULL;

    CHECK_OK(fornax_module_check(mod, &err), err);
    CHECK_OK(fornax_module_print(&text, mod, &err), err);
    CHECK_STR(fornax_text_bytes(text, NULL), want);
    CHECK_OK(fornax_module_parse(&back, ctx, "again", fornax_text_bytes(text, NULL), SIZE_MAX, &err), err);
    if (back) {
        CHECK_OK(fornax_module_print(&again, back, &err), err);
        CHECK_STR(fornax_text_bytes(again, NULL), want);
    }
    fornax_text_close(text);
    fornax_text_close(again);
    fornax_module_close(back);
}

/* The module's first fault has this status, and a sentence with all of these parts. */
static void check_fault(fornax_status st, const char *a, const char *b)
{
    CHECK_EQ_I64(fornax_module_check(mod, &err), st);
    if (!strstr(err.text, a) || !strstr(err.text, b))
        FXTEST_FAIL("fault \"%s\" lacks \"%s\" or \"%s\"", err.text, a, b);
}

/* ---- Building ------------------------------------------------------------------------------ */

TEST(a_layer_prints_and_parses)
{
    fornax_graph *g;
    fornax_type wt = fornax_type2(FORNAX_F32, fornax_dim_of(64), fornax_dim_of(8));
    fornax_value *x, *w, *y;

    setup();
    g = fornax_graph_new(mod, "layer");
    x = input(g, "x", rows("n", 64));
    y = fornax_op_silu(g, x);
    w = fornax_graph_weight(g, "w", &wt);
    CHECK(fornax_graph_weight(g, "w", &wt) == w);
    y = fornax_op_softmax(g, fornax_op_matmul(g, y, w), 0);
    y = fornax_op_add(g, y, fornax_graph_float(g, y, 0.5));
    y = fornax_value_set_name(g, y, "y");
    fornax_graph_output(g, &y, 1);
    check_text("graph @layer {\n"
               "  %x = input f32[n,64]\n"
               "  %w = weight \"w\", f32[64,8]\n"
               "  %0 = silu %x  # f32[n,64]\n"
               "  %1 = matmul %0, %w  # f32[n,8]\n"
               "  %2 = softmax %1, axis=0  # f32[n,8]\n"
               "  %3 = constant f32, {0.5}\n"
               "  %y = add %2, %3  # f32[n,8]\n"
               "  output %y\n"
               "}\n");
    CHECK_STR(fornax_graph_name(g), "layer");
    CHECK(fornax_module_graph(mod, 0) == g && !fornax_module_graph(mod, 1));
    teardown();
}

TEST(values_tell_what_they_are)
{
    fornax_graph *g;
    fornax_value *x, *y;
    fornax_type t, n = { FORNAX_F32, 0, 99, { { 0, NULL } } };
    fornax_text *text = NULL;

    setup();
    g = fornax_graph_new(mod, "g");
    x = input(g, "x", rows("n", 64));
    y = fornax_op_greater(g, x, x);
    t = fornax_value_type(y);
    CHECK(t.dtype == FORNAX_BOOL && t.rank == 2 && t.dim[1].n == 64 && !t.dim[1].expr);
    CHECK(fornax_dim_equal(t.dim[0], fornax_dim_named(mod, "n")));
    CHECK(!fornax_dim_equal(t.dim[0], fornax_dim_named(mod, "m")));
    CHECK_STR(fornax_value_name(x), "x");
    CHECK_STR(fornax_value_name(y), "");
    CHECK(fornax_op_result(fornax_value_op(y), 0) == y && !fornax_op_result(fornax_value_op(y), 1));
    t.dim[1] = fornax_dim_math(mod, fornax_dim_math(mod, t.dim[0], '*', fornax_dim_of(3)), '+', fornax_dim_of(1));
    t.dim[0] = fornax_dim_math(mod, fornax_dim_math(mod, t.dim[1], '-', fornax_dim_of(7)), '/', fornax_dim_of(2));
    t.buffer = 1;
    CHECK_OK(fornax_type_print(&text, mod, &t, &err), err);
    CHECK_STR(fornax_text_bytes(text, NULL), "buffer bool[(3*n)//2-3,3*n+1]");
    fornax_text_close(text);
    CHECK_EQ_I64(fornax_type_print(&text, mod, &n, &err), FORNAX_EARG);
    CHECK_OK(fornax_module_check(mod, NULL) == FORNAX_EARG ? FORNAX_OK : FORNAX_EINTERNAL, err);   /* no output yet */
    fornax_graph_output(g, &y, 1);
    CHECK_OK(fornax_module_check(mod, &err), err);
    teardown();
}

TEST(ops_go_where_they_are_told)
{
    fornax_graph *g;
    fornax_value *x, *a, *b, *out[2];

    setup();
    g = fornax_graph_new(mod, "g");
    x = input(g, "x", rows("n", 4));
    a = fornax_op_exp(g, x);
    fornax_graph_insert(g, FORNAX_BEFORE, fornax_value_op(a));
    b = fornax_op_sin(g, x);
    fornax_graph_insert(g, FORNAX_AFTER, fornax_value_op(a));
    out[0] = fornax_op_cos(g, b);
    fornax_graph_insert(g, FORNAX_AT_END, NULL);
    out[1] = fornax_op_log(g, a);
    input(g, "late", rows("n", 4));
    fornax_graph_output(g, out, 2);
    check_text("graph @g {\n"
               "  %x = input f32[n,4]\n"
               "  %late = input f32[n,4]\n"
               "  %0 = sin %x  # f32[n,4]\n"
               "  %1 = exp %x  # f32[n,4]\n"
               "  %2 = cos %0  # f32[n,4]\n"
               "  %3 = log %1  # f32[n,4]\n"
               "  output %2, %3\n"
               "}\n");
    teardown();
}

TEST(the_parts_of_ranks_are_a_list)
{
    fornax_graph *g;
    fornax_value *parts[3], *y;

    setup();
    g = fornax_graph_new(mod, "g");
    parts[0] = input(g, "x", rows("n", 4));
    parts[1] = fornax_op_exp(g, parts[0]);
    parts[2] = parts[0];
    y = fornax_op_all_reduce(g, parts, 3);
    fornax_graph_output(g, &y, 1);
    check_text("graph @g {\n"
               "  %x = input f32[n,4]\n"
               "  %0 = exp %x  # f32[n,4]\n"
               "  %1 = all_reduce %x, %0, %x  # f32[n,4]\n"
               "  output %1\n"
               "}\n");
    parts[2] = NULL;
    CHECK(!fornax_op_all_reduce(g, parts, 3));
    check_fault(FORNAX_EFORMAT, "all_reduce", "operand x is missing");
    teardown();
}

TEST(lists_words_and_parameters)
{
    static const fornax_param params[] = { { "fast", FORNAX_PARAM_BOOL, 1, NULL }, { "n", FORNAX_PARAM_INT, -3, NULL },
                                           { "mode", FORNAX_PARAM_TEXT, 0, "a b" },
                                           { "t", FORNAX_PARAM_DTYPE, FORNAX_BF16, NULL } };
    const int64_t strides[] = { 2, 2 }, pads[] = { 1, 1, 1, 1 };
    fornax_dim margins[4];
    fornax_type wt, types[2];
    fornax_graph *g;
    fornax_value *x, *v[2];
    fornax_op *op;
    int i;

    setup();
    g = fornax_graph_new(mod, "g");
    wt = fornax_type_of(FORNAX_F32, 4, (fornax_dim[]){ { 3, NULL }, { 3, NULL }, { 4, NULL }, { 6, NULL } });
    x = input(g, "x", fornax_type_of(FORNAX_F32, 4, (fornax_dim[]){ { 1, NULL }, fornax_dim_named(mod, "h"),
                                                                  { 8, NULL }, { 4, NULL } }));
    x = fornax_op_conv2d(g, x, fornax_graph_weight(g, "w", &wt), NULL, strides, 2, NULL, 0, pads, 4, 1, NULL, NULL);
    x = fornax_op_flatten(g, x, 0, -1);
    margins[0] = fornax_dim_of(1);
    margins[1] = fornax_dim_named(mod, "k");
    x = fornax_op_pad(g, x, margins, 2, "edge", 0);
    types[0] = fornax_type0(FORNAX_I8);
    types[1] = fornax_value_type(x);
    op = fornax_op_custom(g, &x, 1, "mine", types, 2, params, 4);
    for (i = 0; i < 2; i++)
        v[i] = fornax_op_result(op, (size_t)i);
    fornax_graph_output(g, v, 2);
    check_text("graph @g {\n"
               "  %x = input f32[1,h,8,4]\n"
               "  %w = weight \"w\", f32[3,3,4,6]\n"
               "  %0 = conv2d %x, %w, strides={2, 2}, padding={1, 1, 1, 1}  # f32[1,(h+1)//2,4,6]\n"
               "  %1 = flatten %0  # f32[24*((h+1)//2)]\n"
               "  %2 = pad %1, paddings={1, k}, mode=edge  # f32[k+24*((h+1)//2)+1]\n"
               "  %3, %4 = custom %2, kernel=\"mine\", types={i8, f32[k+24*((h+1)//2)+1]},"
               " params={fast=true, n=-3, mode=\"a b\", t=bf16}  # i8, f32[k+24*((h+1)//2)+1]\n"
               "  output %3, %4\n"
               "}\n");
    teardown();
}

TEST(reshape_fills_one_size)
{
    fornax_graph *g;
    fornax_value *x;
    fornax_dim dims[3];

    setup();
    g = fornax_graph_new(mod, "g");
    x = input(g, "x", rows("n", 12));
    dims[0] = fornax_dim_named(mod, "n");
    dims[1] = fornax_dim_of(-1);
    dims[2] = fornax_dim_of(4);
    x = fornax_op_reshape(g, x, dims, 3);
    CHECK(fornax_value_type(x).dim[1].n == 3);
    x = fornax_op_reshape(g, x, &dims[1], 1);
    CHECK(fornax_dim_equal(fornax_value_type(x).dim[0],
                           fornax_dim_math(mod, fornax_dim_named(mod, "n"), '*', fornax_dim_of(12))));
    CHECK(fornax_op_reshape(g, x, &dims[1], 2));   /* [-1, 4] of 12 * n */
    dims[1] = fornax_dim_of(5);
    dims[0] = fornax_dim_of(-1);
    CHECK(!fornax_op_reshape(g, x, dims, 2));
    check_fault(FORNAX_EARG, "test_graph_api.c:", "no size for -1");
    teardown();
}

/* ---- Indexing ---------------------------------------------------------------------------------- */

static fornax_value *range(fornax_graph *g, fornax_value *x, int64_t start, int64_t stop, int64_t step)
{
    fornax_index i = fornax_index_range(fornax_dim_of(start), fornax_dim_of(stop), step);

    return fornax_op_index(g, x, &i, 1);
}

/* As Python's range(10)[start:stop:step] has it. */
static const struct { int64_t start, stop, step, size, first; } ranges[] = {
    { 0, 10, 1, 10, 0 },   { 2, 5, 1, 3, 2 },     { -3, 100, 1, 3, 7 },  { -100, -8, 1, 2, 0 }, { 5, 2, 1, 0, 0 },
    { 0, 10, 3, 4, 0 },    { 9, -11, -1, 10, 9 }, { 100, 0, -2, 5, 9 }, { 3, 8, -1, 0, 0 },    { 8, 3, -2, 3, 8 },
};

TEST(ranges_are_cut_as_numpy_cuts_them)
{
    fornax_graph *g;
    fornax_value *x;
    size_t i;

    setup();
    g = fornax_graph_new(mod, "g");
    x = input(g, "x", fornax_type1(FORNAX_F32, fornax_dim_of(10)));
    for (i = 0; i < sizeof(ranges) / sizeof(*ranges); i++) {
        fornax_value *y = range(g, x, ranges[i].start, ranges[i].stop, ranges[i].step);

        if (!y || fornax_value_type(y).dim[0].n != ranges[i].size)
            FXTEST_FAIL("range %d", (int)i);
    }
    fornax_graph_output(g, &x, 1);
    CHECK_OK(fornax_module_check(mod, &err), err);
    teardown();
}

TEST(an_index_becomes_slices)
{
    fornax_graph *g;
    fornax_value *x, *k;
    fornax_index items[5];

    setup();
    g = fornax_graph_new(mod, "g");
    x = input(g, "x", fornax_type_of(FORNAX_F32, 4, (fornax_dim[]){ fornax_dim_named(mod, "n"), { 8, NULL }, { 5, NULL },
                                                                  { 6, NULL } }));
    k = input(g, "k", fornax_type2(FORNAX_I32, fornax_dim_of(2), fornax_dim_of(3)));
    items[0] = fornax_index_from(fornax_dim_of(-2));
    items[1] = fornax_index_by(k);
    items[2] = fornax_index_new_axis();
    items[3] = fornax_index_rest();
    items[4] = fornax_index_at(fornax_dim_of(-1));
    x = fornax_op_index(g, x, items, 5);
    items[0] = fornax_index_sized(fornax_dim_named(mod, "s"), 2, fornax_dim_of(1));
    items[1] = fornax_index_all(1);
    x = fornax_op_index(g, x, items, 2);
    fornax_graph_output(g, &x, 1);
    check_text("graph @g {\n"
               "  %x = input f32[n,8,5,6]\n"
               "  %k = input i32[2,3]\n"
               "  %0 = slice %x, start=n-2, length=2, axis=0  # f32[2,8,5,6]\n"
               "  %1 = gather %0, %k, axis=1  # f32[2,2,3,5,6]\n"
               "  %2 = unsqueeze %1, axis=3  # f32[2,2,3,1,5,6]\n"
               "  %3 = slice %2, start=5, length=1, axis=5  # f32[2,2,3,1,5,1]\n"
               "  %4 = squeeze %3, axis=5  # f32[2,2,3,1,5]\n"
               "  %5 = slice %4, start=s, length=1, axis=0, step=2  # f32[1,2,3,1,5]\n"
               "  output %5\n"
               "}\n");
    items[0] = items[1] = items[2] = items[3] = fornax_index_all(1);
    teardown();
}

/* A reported case: plain indexing of a matrix. What is wrong is said when it is made, with line, op and shapes. */
TEST(one_row_of_a_matrix)
{
    static const struct { int64_t at[3]; int n; const char *fault; } rows_at[] = {
        { { 1 }, 1, NULL }, { { -1 }, 1, NULL }, { { 3, -5 }, 2, NULL },
        { { 7 }, 1, "slice: start, length and step leave the axis; operands i32[4,5]" },
        { { -5 }, 1, "i32[4,5]" },
        { { 1, 2, 3 }, 3, "index: 3 items for 2 axes, of i32[4,5]" },
    };
    fornax_dim dims[2] = { { 3, NULL }, { -1, NULL } };
    fornax_index items[3];
    fornax_graph *g;
    fornax_value *x;

    for (size_t i = 0; i < sizeof(rows_at) / sizeof(*rows_at); i++) {
        setup();
        g = fornax_graph_new(mod, "g");
        x = input(g, "x", fornax_type2(FORNAX_I32, fornax_dim_of(4), fornax_dim_of(5)));
        for (int k = 0; k < 3; k++)
            items[k] = fornax_index_at(fornax_dim_of(rows_at[i].at[k]));
        x = fornax_op_index(g, x, items, (size_t)rows_at[i].n);
        if (rows_at[i].fault)
            check_fault(fornax_module_check(mod, NULL), "test_graph_api.c:", rows_at[i].fault);
        else
            CHECK(fornax_value_type(x).dtype == FORNAX_I32 && fornax_value_type(x).rank == 2 - rows_at[i].n);
        CHECK(!x == (rows_at[i].fault != NULL));
        teardown();
    }
    setup();
    g = fornax_graph_new(mod, "g");
    x = input(g, "x", fornax_type2(FORNAX_I32, fornax_dim_of(4), fornax_dim_of(5)));
    CHECK(!fornax_op_reshape(g, x, dims, 2));
    check_fault(FORNAX_EARG, "test_graph_api.c:", "reshape: no size for -1 makes as many elements: i32[4,5] to i32[3,-1]");
    teardown();
}

/* ---- Effects and control flow ---------------------------------------------------------------------- */

static fornax_type buffer_of(fornax_type t)
{
    t.buffer = 1;
    return t;
}

TEST(effects_are_chained)
{
    fornax_graph *g;
    fornax_value *b, *x, *u;
    fornax_type t;

    setup();
    g = fornax_graph_new(mod, "g");
    t = rows("n", 4);
    b = input(g, "b", buffer_of(t));
    x = fornax_op_result(fornax_value_op(fornax_op_buffer_load(g, b)), 0);
    fornax_graph_seed(g, NULL, 7);
    u = fornax_op_random_normal(g, &t, 0, 1);
    u = fornax_op_add(g, u, fornax_op_random_uniform(g, &t, -1, 1));
    CHECK(fornax_op_buffer_store(g, b, fornax_op_add(g, x, u)));
    fornax_op_print(g, x, "loaded");
    fornax_graph_output(g, &x, 1);
    check_text("graph @g {\n"
               "  %b = input buffer f32[n,4]\n"
               "  %0 = chain  # chain\n"
               "  %1, %2 = buffer_load %b, %0  # f32[n,4], chain\n"
               "  %3 = constant i64, {7}\n"
               "  %4 = random_normal %3, f32[n,4]\n"
               "  %5 = constant i64, {8}\n"
               "  %6 = random_uniform %5, f32[n,4], low=-1\n"
               "  %7 = add %4, %6  # f32[n,4]\n"
               "  %8 = add %1, %7  # f32[n,4]\n"
               "  %9 = buffer_store %b, %8, %2  # chain\n"
               "  %10 = print %1, %9, label=\"loaded\"  # chain\n"
               "  output %1\n"
               "}\n");
    teardown();
}

TEST(branches_carry_effects)
{
    fornax_graph *g;
    fornax_value *p, *b, *x, *y;
    fornax_block *then, *otherwise;
    fornax_op *op;

    setup();
    g = fornax_graph_new(mod, "g");
    p = input(g, "p", fornax_type0(FORNAX_BOOL));
    x = input(g, "x", rows("n", 4));
    b = input(g, "b", buffer_of(rows("n", 4)));
    then = fornax_block_new(g, NULL, 0);
    fornax_op_buffer_store(g, b, x);
    y = fornax_op_exp(g, x);
    fornax_block_end(then, &y, 1);
    otherwise = fornax_block_new(g, NULL, 0);
    fornax_block_end(otherwise, &x, 1);
    op = fornax_op_cond(g, p, then, otherwise);
    y = fornax_op_result(op, 0);
    CHECK(y && !fornax_op_result(op, 1));
    y = fornax_op_add(g, y, fornax_op_buffer_load(g, b));
    fornax_graph_output(g, &y, 1);
    check_text("graph @g {\n"
               "  %p = input bool\n"
               "  %x = input f32[n,4]\n"
               "  %b = input buffer f32[n,4]\n"
               "  %0 = chain  # chain\n"
               "  %1, %2 = cond %p, %0 {\n"
               "    %3 = buffer_store %b, %x, %0  # chain\n"
               "    %4 = exp %x  # f32[n,4]\n"
               "    yield %4, %3\n"
               "  } {\n"
               "    yield %x, %0\n"
               "  }  # f32[n,4], chain\n"
               "  %5, %6 = buffer_load %b, %2  # f32[n,4], chain\n"
               "  %7 = add %1, %5  # f32[n,4]\n"
               "  output %7\n"
               "}\n");
    teardown();
}

TEST(loops_carry_values_and_effects)
{
    fornax_graph *g;
    fornax_value *v[2], *i, *n;
    fornax_type types[2];
    fornax_block *test, *next;
    fornax_op *loop;

    setup();
    g = fornax_graph_new(mod, "g");
    v[0] = input(g, "x", rows("n", 4));
    n = input(g, "count", fornax_type0(FORNAX_I64));
    v[1] = fornax_graph_int(g, n, 0);
    types[0] = rows("n", 4);
    types[1] = fornax_type0(FORNAX_I64);
    test = fornax_block_new(g, types, 2);
    i = fornax_op_greater(g, n, fornax_block_argument(test, 1));
    CHECK(!fornax_block_argument(test, 2));
    fornax_block_end(test, &i, 1);
    next = fornax_block_new(g, types, 2);
    {
        fornax_value *made[2];

        made[0] = fornax_op_add(g, fornax_block_argument(next, 0), fornax_block_argument(next, 0));
        i = fornax_block_argument(next, 1);
        fornax_op_print(g, i, "step");
        made[1] = fornax_op_add(g, i, fornax_graph_int(g, i, 1));
        fornax_block_end(next, made, 2);
    }
    loop = fornax_op_while(g, v, 2, test, next);
    v[0] = fornax_op_result(loop, 0);
    fornax_op_print(g, NULL, "end");
    fornax_graph_output(g, v, 1);
    check_text("graph @g {\n"
               "  %x = input f32[n,4]\n"
               "  %count = input i64\n"
               "  %0 = constant i64, {0}\n"
               "  %1 = chain  # chain\n"
               "  %2, %3, %4 = while %x, %0, %1 { %5: f32[n,4], %6: i64, %7: chain\n"
               "    %8 = greater %count, %6  # bool\n"
               "    yield %8\n"
               "  } { %9: f32[n,4], %10: i64, %11: chain\n"
               "    %12 = add %9, %9  # f32[n,4]\n"
               "    %13 = print %10, %11, label=\"step\"  # chain\n"
               "    %14 = constant i64, {1}\n"
               "    %15 = add %10, %14  # i64\n"
               "    yield %12, %15, %13\n"
               "  }  # f32[n,4], i64, chain\n"
               "  %16 = print _, %4, label=\"end\"  # chain\n"
               "  output %2\n"
               "}\n");
    teardown();
}

TEST(subgraphs_are_called)
{
    fornax_graph *half, *g;
    fornax_value *x, *y, *b;
    fornax_op *call;

    setup();
    half = fornax_subgraph_new(mod, "store_half");
    b = input(half, "b", buffer_of(rows("n", 4)));
    x = fornax_op_buffer_load(half, b);
    y = input(half, "y", rows("n", 4));
    fornax_op_buffer_store(half, b, y);
    fornax_graph_output(half, &x, 1);
    g = fornax_graph_new(mod, "main");
    b = input(g, "b", buffer_of(rows("rows", 4)));
    y = input(g, "y", rows("rows", 4));
    call = fornax_op_call(g, half, (fornax_value *[]){ b, y }, 2);
    call = fornax_op_call(g, half, (fornax_value *[]){ b, fornax_op_result(call, 0) }, 2);
    y = fornax_op_result(call, 0);
    CHECK(!fornax_op_result(call, 1));
    fornax_graph_output(g, &y, 1);
    check_text("subgraph @store_half {\n"
               "  %b = input buffer f32[n,4]\n"
               "  %y = input f32[n,4]\n"
               "  %chain = input chain\n"
               "  %0, %1 = buffer_load %b, %chain  # f32[n,4], chain\n"
               "  %2 = buffer_store %b, %y, %1  # chain\n"
               "  output %0, %2\n"
               "}\n"
               "graph @main {\n"
               "  %b = input buffer f32[rows,4]\n"
               "  %y = input f32[rows,4]\n"
               "  %0 = chain  # chain\n"
               "  %1, %2 = call %b, %y, %0, callee=\"store_half\"  # f32[rows,4], chain\n"
               "  %3, %4 = call %b, %1, %2, callee=\"store_half\"  # f32[rows,4], chain\n"
               "  output %3\n"
               "}\n");
    teardown();
}

TEST(libraries_are_packages_or_folders)
{
    setup();
    CHECK_OK(fornax_module_add_library(mod, "/proc/self/exe", &err), err);
    CHECK_OK(fornax_module_add_library(mod, "/", &err), err);
    CHECK_OK(fornax_module_add_library(mod, "/", &err), err);
    CHECK_STR(fornax_module_library(mod, 0), "/proc/self/exe");
    CHECK_STR(fornax_module_library(mod, 1), "/");
    CHECK(!fornax_module_library(mod, 2));
    CHECK_EQ_I64(fornax_module_add_library(mod, FXTEST_DATA "/none.so", &err), FORNAX_ENOTFOUND);
    CHECK_EQ_I64(fornax_module_add_library(mod, FXTEST_SOURCE "/README.md", &err), FORNAX_EFORMAT);
    CHECK(strstr(err.text, "README.md: expected a package"));
    check_text("library \"/proc/self/exe\"\nlibrary \"/\"\n");
    teardown();
}

/* ---- Faults ------------------------------------------------------------------------------------------ */

static fornax_graph *g;
static fornax_value *x, *k;

static void too_wide(void) { fornax_op_add(g, x, k); }
static void null_operand(void) { fornax_op_add(g, x, NULL); }
static void no_op(void) { fornax_op_make(g, "adds", &x, 1, NULL, 0); }
static void own_op(void) { fornax_op_make(g, "yield", &x, 1, NULL, 0); }
static void no_attr(void)
{
    fornax_attr a = fornax_attr_int("speed", 1);
    fornax_op_make(g, "exp", &x, 1, &a, 1);
}
static void no_word(void)
{
    fornax_dim pads[4] = { { 0, NULL }, { 0, NULL }, { 0, NULL }, { 0, NULL } };
    fornax_op_pad(g, x, pads, 4, "wrap", 0);
}
static void no_seed(void)
{
    fornax_type t = fornax_type0(FORNAX_F32);
    fornax_op_random_normal(g, &t, 0, 1);
}
static void inexact(void) { fornax_graph_int(g, x, (INT64_C(1) << 24) + 1); }
static void fraction(void) { fornax_graph_float(g, k, 0.5); }
static void bad_name(void) { fornax_dim_named(mod, "2n"); }
static void bad_size(void) { fornax_dim_math(mod, fornax_dim_of(4), '/', fornax_dim_of(0)); }
static void bad_type(void)
{
    fornax_type t = fornax_type1(FORNAX_F32, fornax_dim_of(-4));
    fornax_graph_input(g, "t", &t);
}
static void no_dtype(void)
{
    fornax_type t = fornax_type0((fornax_dtype)99);
    fornax_graph_input(g, "t", &t);
}
static void other_weight(void)
{
    fornax_type t = fornax_type0(FORNAX_F32), u = fornax_type0(FORNAX_F16);
    fornax_graph_weight(g, "w", &t);
    fornax_graph_weight(g, "w", &u);
}
static void twice(void) { fornax_graph_new(mod, "g"); }
static void behind_the_end(void)
{
    fornax_graph_output(g, &x, 1);
    fornax_op_exp(g, x);
}
static void block_left_open(void)
{
    fornax_block_new(g, NULL, 0);
    fornax_graph_output(g, &x, 1);
}
static void one_block_twice(void)
{
    fornax_block *b = fornax_block_new(g, NULL, 0);
    fornax_type t = fornax_type0(FORNAX_BOOL);
    fornax_block_end(b, &x, 1);
    fornax_op_cond(g, fornax_graph_input(g, "p", &t), b, b);
}
static void yields_differ(void)
{
    fornax_block *a = fornax_block_new(g, NULL, 0), *b;
    fornax_type t = fornax_type0(FORNAX_BOOL);
    fornax_block_end(a, &x, 1);
    b = fornax_block_new(g, NULL, 0);
    fornax_block_end(b, &k, 1);
    fornax_op_cond(g, fornax_graph_input(g, "p", &t), a, b);
}
static void effect_in_the_middle(void)
{
    fornax_graph_insert(g, FORNAX_BEFORE, fornax_value_op(fornax_op_exp(g, x)));
    fornax_op_print(g, x, "x");
}
static void call_of_a_graph(void) { fornax_op_call(g, g, &x, 1); }
static void too_many_items(void)
{
    fornax_index i[3] = { fornax_index_all(1), fornax_index_all(1), fornax_index_all(1) };
    fornax_op_index(g, x, i, 3);
}
static void value_of_a_closed_block(void)
{
    fornax_block *a = fornax_block_new(g, NULL, 0), *b;
    fornax_type t = fornax_type0(FORNAX_BOOL);
    fornax_value *y = fornax_op_exp(g, x);
    fornax_block_end(a, &y, 1);
    b = fornax_block_new(g, NULL, 0);
    fornax_block_end(b, &y, 1);
    fornax_op_cond(g, fornax_graph_input(g, "p", &t), a, b);
    fornax_graph_output(g, &x, 1);
}

static const struct { void (*build)(void); fornax_status st; const char *what, *more; } faults[] = {
    { too_wide, FORNAX_EFORMAT, "test_graph_api.c:", "add: neither f32 nor i32 holds all numbers of the other: cast one;"
                                                     " operands f32[n,4], i32[n]" },
    { null_operand, FORNAX_EFORMAT, "test_graph_api.c:", "add: operand b is missing" },
    { no_op, FORNAX_EARG, "test_graph_api.c:", "there is no op adds" },
    { own_op, FORNAX_EARG, "test_graph_api.c:", "there is no op yield to make" },
    { no_attr, FORNAX_EARG, "test_graph_api.c:", "exp: it has no attribute speed" },
    { no_word, FORNAX_EARG, "test_graph_api.c:", "mode: there is no wrap" },
    { no_seed, FORNAX_EARG, "test_graph_api.c:", "no seed is set" },
    { inexact, FORNAX_EARG, "test_graph_api.c:", "f32 doesn't hold 16777217" },
    { fraction, FORNAX_EARG, "test_graph_api.c:", "a float can't become i32" },
    { bad_name, FORNAX_EARG, "a size's name", "2n" },
    { bad_size, FORNAX_EFORMAT, "divided by 0", "" },
    { bad_type, FORNAX_EARG, "test_graph_api.c:", "axis 0: a size can't be negative" },
    { no_dtype, FORNAX_EARG, "test_graph_api.c:", "no dtype 99" },
    { other_weight, FORNAX_EARG, "test_graph_api.c:", "weight w: there is one of another type" },
    { twice, FORNAX_EFORMAT, "graph g: there is one of this name", "" },
    { behind_the_end, FORNAX_EFORMAT, "test_graph_api.c:", "exp: made behind output" },
    { block_left_open, FORNAX_EARG, "test_graph_api.c:", "a block isn't ended" },
    { one_block_twice, FORNAX_EARG, "test_graph_api.c:", "cond: block 0 is another graph's or op's" },
    { yields_differ, FORNAX_EFORMAT, "test_graph_api.c:", "cond: its regions yield different types" },
    { effect_in_the_middle, FORNAX_EARG, "test_graph_api.c:", "print: effects go to the end" },
    { call_of_a_graph, FORNAX_EARG, "test_graph_api.c:", "expected a subgraph" },
    { too_many_items, FORNAX_EARG, "test_graph_api.c:", "index: 3 items for 2 axes" },
    { value_of_a_closed_block, FORNAX_EARG, "graph g: yield", "an operand isn't made before it" },
};

TEST(the_first_fault_stays)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
        setup();
        g = fornax_graph_new(mod, "g");
        x = input(g, "x", rows("n", 4));
        k = input(g, "k", fornax_type1(FORNAX_I32, fornax_dim_named(mod, "n")));
        faults[i].build();
        check_fault(faults[i].st, faults[i].what, faults[i].more);
        if (faults[i].build != value_of_a_closed_block) {
            CHECK(!fornax_op_exp(g, x) && !fornax_graph_new(mod, "later"));
            fornax_op_exp(g, fornax_op_sin(g, NULL));
            check_fault(faults[i].st, faults[i].what, faults[i].more);
        }
        teardown();
    }
}

TEST(nothing_breaks_on_nothing)
{
    fornax_type t = fornax_type0(FORNAX_F32);

    setup();
    CHECK(!fornax_op_exp(NULL, NULL) && !fornax_graph_new(NULL, "g") && !fornax_op_result(NULL, 0));
    CHECK(!fornax_graph_input(NULL, "x", &t) && !fornax_block_new(NULL, NULL, 0) && !fornax_value_op(NULL));
    fornax_block_end(NULL, NULL, 0);
    fornax_graph_output(NULL, NULL, 0);
    fornax_graph_insert(NULL, FORNAX_AT_END, NULL);
    CHECK_STR(fornax_value_name(NULL), "");
    CHECK(fornax_value_type(NULL).rank == 0);
    CHECK_EQ_I64(fornax_module_check(NULL, &err), FORNAX_EARG);
    CHECK_EQ_I64(fornax_module_open(NULL, ctx, &err), FORNAX_EARG);
    fornax_module_close(NULL);
    teardown();
}

/* Memory that runs out at the n-th request is a status, for every n. */
typedef struct failing {
    int64_t left;
} failing;

static void *failing_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    failing *f = user;

    (void)old_size;
    if (new_size && f->left-- <= 0)
        return NULL;
    if (!new_size) {
        free(p);
        return NULL;
    }
    return realloc(p, new_size);
}

TEST(memory_may_run_out_anywhere)
{
    int done = 0;

    for (int64_t n = 0; n < 400 && !done; n++) {
        failing f = { INT64_MAX };
        fornax_context_options opt = { .size = sizeof(opt), .alloc = failing_alloc, .alloc_user = &f };
        fornax_text *text = NULL;
        fornax_status st;

        err = (fornax_error){ 0 };
        CHECK_OK(fornax_context_open(&ctx, &opt, &err), err);
        mod = NULL;
        f.left = n;
        st = fornax_module_open(&mod, ctx, &err);
        if (st == FORNAX_OK) {
            fornax_graph *graph = fornax_graph_new(mod, "g");
            fornax_value *v = input(graph, "x", rows("n", 4)), *p = input(graph, "p", fornax_type0(FORNAX_BOOL));
            fornax_block *b[2];

            for (int i = 0; i < 2; i++) {
                fornax_value *y = v;

                b[i] = fornax_block_new(graph, NULL, 0);
                for (int r = 0; r < 60; r++)
                    y = fornax_op_exp(graph, y);
                fornax_op_print(graph, y, "y");
                fornax_block_end(b[i], &y, 1);
            }
            v = fornax_op_result(fornax_op_cond(graph, p, b[0], b[1]), 0);
            fornax_graph_output(graph, &v, 1);
            st = fornax_module_check(mod, &err);
            if (st == FORNAX_OK)
                st = fornax_module_print(&text, mod, &err);
        }
        if (st != FORNAX_OK && st != FORNAX_ENOMEM)
            FXTEST_FAIL("request %d: %s", (int)n, err.text);
        done = st == FORNAX_OK;
        fornax_text_close(text);
        fornax_module_close(mod);
        fornax_context_close(ctx);
    }
    CHECK(done);
}

FXTEST_MAIN()
