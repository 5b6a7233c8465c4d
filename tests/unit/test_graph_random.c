/* test_graph_random.c - random graphs: fused or not, in tiles or not, interpreted or compiled, the bits are the same.
 *
 * What is kept in memory and what is computed where it is read must not show in results: 200 graphs, or 5,000 with
 * FXTEST_LONG. */
#include "fxtest.h"

#include "compile/tgraph.h"
#include "lower_cases.h"
#include "passes/lower_kir.h"

static uint64_t state;

static uint32_t rnd(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

#define POOL 24
typedef struct maker {
    fx_module *m;
    fx_dim n;                    /* the symbol */
    fx_value *pool[POOL];        /* f32 values */
    int n_pool, extras;
} maker;

static fx_value *any(maker *k) { return k->pool[rnd((uint32_t)k->n_pool)]; }

static void put(maker *k, fx_value *v)
{
    if (v && k->n_pool < POOL)
        k->pool[k->n_pool++] = v;
    else if (v)
        k->pool[rnd(POOL)] = v;
}

static fx_dim random_dim(maker *k)
{
    static const int64_t sizes[] = { 1, 2, 3, 5, 8, 17, 40 };

    return rnd(5) ? fx_dim_of(sizes[rnd(FX_COUNT(sizes))]) : k->n;
}

static fx_value *random_input(maker *k)
{
    fx_type t = { .dtype = FX_F32, .rank = (int)rnd(3) + 1 };
    char name[16];

    for (int i = 0; i < t.rank; i++)
        t.dim[i] = random_dim(k);
    snprintf(name, sizeof(name), "x%d", k->n_pool);
    return fx_op_result(fx_op_make(k->m, &(fx_op_init){ .code = FX_OP_INPUT, .attrs = (const fx_attr[]){ FX_AT(TYPE, &t) }, .n_attrs = 1,
                                                        .name = fx_str_of(name), .file = __FILE__, .line = __LINE__ }));
}

static fx_value *op1(maker *k, fx_opcode code, fx_value *x)
{
    return fx_op_result(fx_op_make(k->m, &(fx_op_init){ .code = code, .in = &x, .n_in = 1, .file = __FILE__, .line = __LINE__ }));
}

static fx_value *op2(maker *k, fx_opcode code, fx_value *a, fx_value *b)
{
    return fx_op_result(fx_op_make(k->m, &(fx_op_init){ .code = code, .in = (fx_value *const[]){ a, b }, .n_in = 2, .file = __FILE__,
                                                        .line = __LINE__ }));
}

/* Something that broadcasts with x: of the pool, or x summed along an axis. */
static fx_value *partner(maker *k, fx_value *x)
{
    fx_value *sum;

    for (int turn = 0; turn < 6; turn++) {
        fx_value *y = any(k);

        if (fx_type_eq(&x->type, &y->type))
            return y;
    }
    sum = FX_OP1(k->m, SUM, FX_IN(x), FX_ATTRS(FX_AI(AXIS, rnd((uint32_t)x->type.rank))));
    return rnd(2) && sum ? sum : x;
}

static fx_value *map_op(maker *k, fx_value *x)
{
    static const fx_opcode ones[] = { FX_OP_NEGATE, FX_OP_ABS, FX_OP_RELU, FX_OP_SIGMOID, FX_OP_TANH, FX_OP_EXP, FX_OP_SILU, FX_OP_GELU,
                                      FX_OP_FLOOR, FX_OP_SQRT, FX_OP_SIN };
    static const fx_opcode twos[] = { FX_OP_ADD, FX_OP_SUB, FX_OP_MUL, FX_OP_MAX, FX_OP_MIN, FX_OP_DIV };
    fx_value *y;

    switch (rnd(4)) {
    case 0: return op1(k, ones[rnd(FX_COUNT(ones))], x);
    case 1:
        y = FX_OP1(k->m, CAST, FX_IN(x), FX_ATTRS(FX_AI(DTYPE, rnd(2) ? FX_BF16 : FX_F16)));
        y = y ? op2(k, FX_OP_MUL, y, y) : NULL;
        return y ? FX_OP1(k->m, CAST, FX_IN(y), FX_ATTRS(FX_AI(DTYPE, FX_F32))) : NULL;
    case 2:
        y = partner(k, x);
        return y ? FX_OP1(k->m, WHERE, FX_IN(op2(k, FX_OP_GREATER, x, y), x, y), FX_NOATTR) : NULL;
    default:
        y = partner(k, x);
        return y ? op2(k, twos[rnd(FX_COUNT(twos))], x, y) : NULL;
    }
}

static fx_value *row_op(maker *k, fx_value *x)
{
    static const fx_opcode codes[] = { FX_OP_SUM, FX_OP_MEAN, FX_OP_REDUCE_MAX, FX_OP_REDUCE_MIN, FX_OP_SOFTMAX, FX_OP_LOGSOFTMAX, FX_OP_CUMSUM,
                                       FX_OP_ARGMAX };
    fx_opcode code = codes[rnd(FX_COUNT(codes))];
    fx_attr axis = FX_AI(AXIS, rnd((uint32_t)x->type.rank));
    fx_value *y = fx_op_result(fx_op_make(k->m, &(fx_op_init){ .code = code, .in = &x, .n_in = 1, .attrs = &axis, .n_attrs = 1,
                                                               .file = __FILE__, .line = __LINE__ }));

    if (code == FX_OP_ARGMAX && y)
        y = FX_OP1(k->m, CAST, FX_IN(y), FX_ATTRS(FX_AI(DTYPE, FX_F32)));
    return y;
}

/* Products of x and x transposed, always of fitting sizes. */
static fx_value *product_op(maker *k, fx_value *x)
{
    fx_value *t, *y;

    if (x->type.rank < 2)
        return op2(k, FX_OP_MATMUL, x, x);
    t = op1(k, FX_OP_TRANSPOSE, x);
    if (rnd(2) && t)
        t = op1(k, FX_OP_RELU, t);
    y = t ? op2(k, FX_OP_MATMUL, x, t) : NULL;
    return rnd(2) && y ? op2(k, FX_OP_MATMUL, y, x) : y;
}

static fx_value *view_op(maker *k, fx_value *x)
{
    const fx_type *t = &x->type;
    int axis = (int)rnd((uint32_t)t->rank);
    fx_type flat;

    switch (rnd(5)) {
    case 0: return t->rank > 1 ? op1(k, FX_OP_TRANSPOSE, x) : x;
    case 1: return FX_OP1(k->m, CONCAT, FX_IN(x, x), FX_ATTRS(FX_AI(AXIS, axis)));
    case 2:
        if (!fx_dim_is_static(t->dim[axis]))
            return x;
        return FX_OP1(k->m, SLICE, FX_IN(x), FX_ATTRS(FX_AI(START, t->dim[axis].n / 2), FX_AI(LENGTH, t->dim[axis].n - t->dim[axis].n / 2), FX_AI(AXIS, axis)));
    case 3: return FX_OP1(k->m, UNSQUEEZE, FX_IN(x), FX_ATTRS(FX_AI(AXIS, axis)));
    default:
        flat = fx_type1(FX_F32, fx_dim_of(1));
        for (int i = 0; i < t->rank; i++) {
            if (fx_dim_mul(k->m->arena, flat.dim[0], t->dim[i], &flat.dim[0]) != FORNAX_OK)
                return x;
        }
        return FX_OP1(k->m, RESHAPE, FX_IN(x), FX_ATTRS(FX_AT(TYPE, &flat)));
    }
}

/* ---- The patterns that lowering knows (passes/lower_fuse.def), with something different here and there ---- */

static fx_value *extra_input(maker *k, fx_dtype t, int rank, fx_dim a, fx_dim b)
{
    fx_type type = { .dtype = t, .rank = rank, .dim = { a, b } };
    char name[16];

    if (k->extras == 4)
        return NULL;
    snprintf(name, sizeof(name), "e%d", k->extras++);
    return fx_op_result(fx_op_make(k->m, &(fx_op_init){ .code = FX_OP_INPUT, .attrs = (const fx_attr[]){ FX_AT(TYPE, &type) }, .n_attrs = 1,
                                                        .name = fx_str_of(name), .file = __FILE__, .line = __LINE__ }));
}

static fx_value *cast(maker *k, fx_value *x, fx_dtype t) { return x ? FX_OP1(k->m, CAST, FX_IN(x), FX_ATTRS(FX_AI(DTYPE, t))) : NULL; }

/* softmax(f(x @ x')) @ x, masked by row, by key, or not. */
static fx_value *attention_op(maker *k, fx_value *x)
{
    fx_value *t, *s, *mask, *p;

    if (x->type.rank < 2)
        return x;
    t = op1(k, FX_OP_TRANSPOSE, x);
    s = t ? op2(k, FX_OP_MATMUL, x, t) : NULL;
    if (s && rnd(2))
        s = FX_OP1(k->m, SCALE, FX_IN(s), FX_ATTRS(FX_AF(FACTOR, 0.0625)));
    mask = FX_OP1(k->m, SUM, FX_IN(x), FX_NOATTR);
    if (mask && rnd(2))
        mask = op1(k, FX_OP_TRANSPOSE, mask);
    if (s && mask && rnd(2))
        s = rnd(2) ? op2(k, FX_OP_ADD, mask, s) : FX_OP1(k->m, WHERE, FX_IN(op2(k, FX_OP_GREATER, mask, op1(k, FX_OP_TANH, mask)), mask, s), FX_NOATTR);
    p = s ? op1(k, FX_OP_SOFTMAX, s) : NULL;
    if (p && rnd(4) == 0)
        put(k, p);
    if (p && rnd(3) == 0)
        p = cast(k, cast(k, p, FX_BF16), FX_F32);
    return p ? op2(k, FX_OP_MATMUL, p, x) : NULL;
}

/* f(x @ a) * (x @ b) */
static fx_value *gate_op(maker *k, fx_value *x)
{
    fx_value *t, *a, *b, *g, *u;

    if (x->type.rank < 2)
        return x;
    t = op1(k, FX_OP_TRANSPOSE, x);
    a = t ? op1(k, FX_OP_TANH, t) : NULL;
    b = t ? op1(k, rnd(2) ? FX_OP_RELU : FX_OP_NEGATE, t) : NULL;
    g = a ? op2(k, FX_OP_MATMUL, x, a) : NULL;
    u = b ? op2(k, FX_OP_MATMUL, x, b) : NULL;
    if (g && rnd(5) == 0)
        put(k, g);
    g = g ? op1(k, FX_OP_SILU, g) : NULL;
    return g && u ? op2(k, rnd(3) ? FX_OP_MUL : FX_OP_ADD, rnd(2) ? g : u, rnd(2) ? u : g) : NULL;
}

static fx_value *norm_of(maker *k, fx_value *x)
{
    fx_dim last = fx_type_last(&x->type);
    fx_value *w = rnd(2) && fx_dim_is_static(last) ? extra_input(k, FX_F32, 1, last, fx_dim_of(0)) : NULL;

    if (!w)
        return FX_OP1(k->m, LAYERNORM, FX_IN(x, NULL, NULL), FX_ATTRS(FX_AF(EPS, 1e-5)));
    return FX_OP1(k->m, RMSNORM, FX_IN(x, w), FX_ATTRS(FX_AF(EPS, 1e-5)));
}

/* The sum of x and others like it. */
static fx_value *ranks_op(maker *k, fx_value *x)
{
    fx_value *in[4] = { x };
    int n = 1;

    for (int more = (int)rnd(4); more > 0; more--) {
        fx_value *y = partner(k, x);

        if (y && fx_type_eq(&x->type, &y->type))
            in[n++] = y;
    }
    return fx_op_result(fx_op_make(k->m, &(fx_op_init){ .code = FX_OP_ALL_REDUCE, .in = in, .n_in = n, .file = __FILE__, .line = __LINE__ }));
}

/* norm(x + y), perhaps with a norm or a sum of several inside, and the sum. */
static fx_value *add_norm_op(maker *k, fx_value *x)
{
    fx_value *y = partner(k, x), *s;

    if (rnd(3) == 0)
        x = norm_of(k, x);
    if (x && rnd(3) == 0)
        x = ranks_op(k, x);
    s = x && y ? op2(k, FX_OP_ADD, x, y) : NULL;
    if (!s || s->type.rank < 1)
        return s;
    if (rnd(4))
        put(k, s);
    return norm_of(k, s);
}

/* A norm whose halves change places and signs. */
static fx_value *rope_op(maker *k, fx_value *x)
{
    fx_dim last = fx_type_last(&x->type);
    fx_value *h, *a, *b, *r;

    if (!fx_dim_is_static(last) || last.n < 2 || last.n % 2)
        return x;
    h = norm_of(k, x);
    a = h ? FX_OP1(k->m, SLICE, FX_IN(h), FX_ATTRS(FX_AI(START, 0), FX_AI(LENGTH, last.n / 2))) : NULL;
    b = a ? FX_OP1(k->m, SLICE, FX_IN(h), FX_ATTRS(FX_AI(START, last.n / 2), FX_AI(LENGTH, last.n / 2))) : NULL;
    b = b ? op1(k, FX_OP_NEGATE, b) : NULL;
    r = a && b ? FX_OP1(k->m, CONCAT, FX_IN(b, a), FX_NOATTR) : NULL;
    if (h && rnd(5) == 0)
        put(k, h);
    if (!r || rnd(4) == 0)
        return r;
    return op2(k, FX_OP_ADD, op2(k, FX_OP_MUL, h, partner(k, h)), r);
}

/* A norm in eight bits, and its scale. */
static fx_value *quant_op(maker *k, fx_value *x)
{
    fx_value *h = norm_of(k, x), *d, *q;

    d = h ? op1(k, FX_OP_ABS, h) : NULL;
    d = d ? FX_OP1(k->m, REDUCE_MAX, FX_IN(d), FX_ATTRS(FX_AI(AXIS, -1))) : NULL;
    q = d ? op2(k, FX_OP_DIV, h, d) : NULL;
    q = q ? FX_OP1(k->m, SCALE, FX_IN(q), FX_ATTRS(FX_AF(FACTOR, 127))) : NULL;
    q = cast(k, cast(k, q, FX_I8), FX_F32);
    if (d && rnd(3))
        put(k, d);
    return q && rnd(2) ? op2(k, FX_OP_MUL, q, d) : q;
}

/* Sums of rows that are named by an input. */
static fx_value *bag_op(maker *k, fx_value *x)
{
    fx_value *i, *g;

    if (x->type.rank < 2 || !fx_dim_is_static(x->type.dim[0]) || x->type.dim[0].n < 3)
        return x;
    i = extra_input(k, FX_I64, 2, k->n, fx_dim_of(3));
    g = i ? FX_OP1(k->m, GATHER, FX_IN(x, i), FX_ATTRS(FX_AI(AXIS, 0))) : NULL;
    if (!g)
        return x;
    if (rnd(3) == 0)
        g = op1(k, FX_OP_RELU, g);
    return g ? FX_OP1(k->m, SUM, FX_IN(g), FX_ATTRS(FX_AI(AXIS, 1))) : NULL;
}

static fx_value *pattern_op(maker *k, fx_value *x)
{
    static fx_value *(*const ops[])(maker *k, fx_value *x) = { attention_op, gate_op, add_norm_op, rope_op, quant_op, bag_op,
                                                               ranks_op };

    return ops[rnd(FX_COUNT(ops))](k, x);
}

static int64_t size_of(const fx_value *v)
{
    int64_t n = 1;

    for (int i = 0; i < v->type.rank; i++)
        n *= fx_dim_is_static(v->type.dim[i]) ? v->type.dim[i].n : 12;
    return n;
}

static fx_module *random_graph(fx_arena *a)
{
    static fx_value *(*const ops[])(maker *k, fx_value *x) = { map_op, map_op, map_op, row_op, view_op, product_op, pattern_op, pattern_op };
    maker k = { .m = fx_module_new(a) };
    fx_value *out[4];
    int n_out = (int)rnd(3) + 1;

    fx_graph_new(k.m, FX_STR("main"));
    fx_dim_symbol(a, FX_STR("n"), &k.n);
    for (int i = (int)rnd(3) + 1; i > 0; i--)
        put(&k, random_input(&k));
    for (int i = (int)rnd(14) + 2; i > 0; i--) {
        fx_value *x = any(&k);

        if (x->type.rank > 0 && size_of(x) < 3000)
            put(&k, ops[rnd(FX_COUNT(ops))](&k, x));
    }
    for (int i = 0; i < n_out; i++)
        out[i] = k.pool[k.n_pool - 1 - (int)rnd((uint32_t)FX_MIN(k.n_pool, 3))];
    fx_op_make(k.m, &(fx_op_init){ .code = FX_OP_OUTPUT, .in = out, .n_in = n_out, .file = __FILE__, .line = __LINE__ });
    return k.m;
}

/* ---- Running ----------------------------------------------------------------------------------------- */

typedef struct results {
    fx_kvalue v[MAX_ENDS];
    int n;
} results;

static void free_results(results *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->v[i].data);
    r->n = 0;
}

/* Copies: a program's own memory goes with it. */
static bool run_plan(const fx_kplan *p, const fx_kcode *code, results *r, fx_error *err)
{
    fx_kvalue in[MAX_ENDS] = { 0 }, out[MAX_ENDS] = { 0 };
    fx_kexec *x = NULL;
    fx_status st = fx_kexec_new(&x, &fx_mem_libc, p, code, NULL, err);

    for (int32_t i = 0; i < p->n_inputs; i++)
        make_input(p, &p->tensors[p->inputs[i]], &in[i]);
    if (st == FORNAX_OK)
        st = fx_kexec_run(x, in, out, err);
    r->n = st == FORNAX_OK ? p->n_outputs : 0;
    for (int i = 0; i < r->n; i++) {
        size_t bytes = (size_t)elements(&out[i]) * fx_dtype_size(out[i].dtype);

        r->v[i] = out[i];
        r->v[i].data = calloc(bytes + 1, 1);
        memcpy(r->v[i].data, out[i].data, bytes);
    }
    for (int32_t i = 0; i < p->n_inputs; i++)
        free(in[i].data);
    fx_kexec_free(x);
    return st == FORNAX_OK;
}

static bool lower_and_run(fx_arena *a, const fx_graph *g, const fx_lower_options *o, results *r, fx_error *err)
{
    fx_kplan *p;

    if (fx_lower_kir(a, g, o, &p, err) != FORNAX_OK)
        return false;
    for (int32_t i = 0; i < p->n_kernels; i++) {
        if (fx_kir_expand_math(p->kernels[i], err) != FORNAX_OK || fx_kir_check(p->kernels[i], err) != FORNAX_OK)
            return false;
    }
    return run_plan(p, NULL, r, err);
}

/* NaN is as good as any other. */
static bool same(const results *a, const results *b)
{
    for (int i = 0; i < a->n && a->n == b->n; i++) {
        for (int64_t k = 0; k < elements(&a->v[i]); k++) {
            float x = ((float *)a->v[i].data)[k], y = ((float *)b->v[i].data)[k];

            if (fx_f32_bits(x) != fx_f32_bits(y) && (x == x || y == y))
                return false;
        }
    }
    return a->n == b->n;
}

static void fail(const fx_module *m, uint64_t seed, const char *what)
{
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_module_print(m, &b);
    FXTEST_FAIL("graph %llu, %s:\n%s", (unsigned long long)seed, what, b.p);
    fx_buf_done(&b);
}

static void compare(fx_arena *a, const fx_module *m, uint64_t seed, const fx_codegen *cg, const fx_target *host)
{
    static const fx_lower_options ways[] = { { .lanes = 1 }, { .lanes = 4 }, { .lanes = 16 } };
    results plain = { .n = 0 }, got = { .n = 0 };
    fx_error err = { 0 };
    fx_tgraph *t = NULL;

    if (!lower_and_run(a, m->last, &(fx_lower_options){ .unfused = true }, &plain, &err))
        fail(m, seed, err.text);
    for (size_t i = 0; i < FX_COUNT(ways); i++) {
        if (!lower_and_run(a, m->last, &ways[i], &got, &err))
            fail(m, seed, err.text);
        else if (!same(&plain, &got))
            fail(m, seed, "fused, it has other bits");
        free_results(&got);
    }
    if (cg && fx_tgraph_compile(&t, &fx_mem_libc, m->last, &(fx_tgraph_options){ .codegen = cg, .target = host }, &err) != FORNAX_OK)
        fail(m, seed, err.text);
    else if (cg && (!run_plan(fx_tgraph_plan(t), fx_tgraph_code(t), &got, &err) || !same(&plain, &got)))
        fail(m, seed, err.text[0] ? err.text : "compiled, it has other bits");
    fx_tgraph_free(t);
    free_results(&got);
    free_results(&plain);
}

TEST(fused_or_not)
{
    uint64_t count = getenv("FXTEST_LONG") ? 5000 : 200;
    fx_codegen *cg = NULL;
    fx_target host;

    if (!FXTEST_LLVM[0] || fx_codegen_open(&cg, &fx_mem_libc, FXTEST_LLVM, NULL) != FORNAX_OK ||
        fx_target_named(&host, FX_STR("host"), NULL) != FORNAX_OK)
        cg = NULL;                       /* interpreted then */
    for (uint64_t seed = 1; seed <= count && fxtest_bad == 0; seed++) {
        fx_error err = { 0 };
        fx_module *m;
        fx_arena a;

        fx_arena_init(&a, &fx_mem_libc, 0);
        state = seed * 0x9E3779B97F4A7C15u;
        m = random_graph(&a);
        if (fx_module_check(m, &err) != FORNAX_OK)
            FXTEST_FAIL("graph %llu: %s", (unsigned long long)seed, err.text);
        else
            compare(&a, m, seed, seed % 4 ? NULL : cg, &host);       /* a compile takes longer than all else */
        fx_arena_done(&a);
    }
    fx_codegen_close(cg);
}

FXTEST_MAIN()
