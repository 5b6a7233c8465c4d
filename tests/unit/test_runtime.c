/* test_runtime.c - from a graph to numbers: compile, weight binding and its faults, plan execution
 * against sums in double, with any thread count and any number of rows. */
#include "fornax.h"
#include "fxtest.h"

#include "compile/compile.h"
#include "graph/graph.h"
#include "kir/plan.h"
#include "runtime/bind.h"

enum { VOCAB = 40, DIM = 64, FFN = 48, MAX_ROWS = 20 };

/* ---- Weights held in memory ---- */

typedef struct tensor {
    const char *name;
    int64_t rows, cols;
    float *at;
    uint16_t *half;              /* the same in f16, given out instead when set */
    int released;
} tensor;

static tensor tensors[] = {
    { "embd", VOCAB, DIM, NULL, NULL, 0 }, { "norm", 1, DIM, NULL, NULL, 0 },   { "gate", FFN, DIM, NULL, NULL, 0 },
    { "up", FFN, DIM, NULL, NULL, 0 },     { "down", DIM, FFN, NULL, NULL, 0 },
};
enum { EMBD, NORM, GATE, UP, DOWN, TENSORS };

static float pseudo(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return (float)(int32_t)*x / 4294967296.0f;
}

static void make_tensors(bool halves)
{
    uint32_t x = 7;

    for (int i = 0; i < TENSORS; i++) {
        tensor *t = &tensors[i];
        int64_t n = t->rows * t->cols;

        free(t->at);
        free(t->half);
        t->at = malloc((size_t)n * sizeof *t->at);
        t->half = halves ? malloc((size_t)n * sizeof *t->half) : NULL;
        t->released = 0;
        for (int64_t k = 0; k < n; k++) {
            t->at[k] = i == NORM ? 1 + 0.25f * pseudo(&x) : pseudo(&x);
            if (halves) {
                t->half[k] = fx_f32_to_f16(t->at[k]);
                t->at[k] = fx_f16_to_f32(t->half[k]);
            }
        }
    }
}

static tensor *find_tensor(fx_str name)
{
    for (int i = 0; i < TENSORS; i++) {
        if (fx_str_is(name, tensors[i].name))
            return &tensors[i];
    }
    return NULL;
}

static bool find(void *user, fx_str name, fx_weight_view *out)
{
    const char *missing = user;
    tensor *t = find_tensor(name);

    if (!t || (missing && fx_str_is(name, missing)))
        return false;
    *out = (fx_weight_view){ .data = t->half ? (const void *)t->half : t->at, .dtype = t->half ? FX_F16 : FX_F32,
                             .rows = t->rows, .cols = t->cols, .row_bytes = (size_t)t->cols * (t->half ? 2 : 4) };
    return true;
}

static void release(void *user, fx_str name)
{
    (void)user;
    find_tensor(name)->released++;
}

static bool never(void *user, double fraction)
{
    (void)user, (void)fraction;
    return false;
}

/* ---- The graph: embed, norm, gated FFN with residual, output by the embedding table ---- */

static void print_graph(char *text, size_t size, const char *dtype)
{
    snprintf(text, size,
             "%%tokens = input i32[rows]\n%%logit_rows = input i32[outs]\n"
             "%%embd = weight %1$s[40,64]\n%%norm = weight %1$s[64]\n%%gate = weight %1$s[48,64]\n"
             "%%up = weight %1$s[48,64]\n%%down = weight %1$s[64,48]\n"
             "%%x = embed %%tokens, %%embd\n%%h = rmsnorm %%x, %%norm, eps=1e-5\n"
             "%%g = linear %%h, %%gate\n%%s = silu %%g\n%%u = linear %%h, %%up\n%%f = mul %%s, %%u\n"
             "%%d = linear %%f, %%down\n%%y = add %%x, %%d\n%%z = gather %%y, %%logit_rows, axis=0\n"
             "%%logits = linear %%z, %%embd\noutput %%logits\n", dtype);
}

/* Row i of the logits, in double. */
static void expected(int32_t token, double *logits)
{
    double x[DIM], h[DIM], f[FFN], ss = 0;

    for (int i = 0; i < DIM; i++) {
        x[i] = (double)tensors[EMBD].at[token * DIM + i];
        ss += x[i] * x[i];
    }
    for (int i = 0; i < DIM; i++)
        h[i] = x[i] / sqrt(ss / DIM + 1e-5) * (double)tensors[NORM].at[i];
    for (int j = 0; j < FFN; j++) {
        double g = 0, u = 0;
        for (int i = 0; i < DIM; i++) {
            g += h[i] * (double)tensors[GATE].at[j * DIM + i];
            u += h[i] * (double)tensors[UP].at[j * DIM + i];
        }
        f[j] = g / (1 + exp(-g)) * u;
    }
    for (int i = 0; i < DIM; i++) {
        for (int j = 0; j < FFN; j++)
            x[i] += f[j] * (double)tensors[DOWN].at[i * FFN + j];
    }
    for (int v = 0; v < VOCAB; v++) {
        logits[v] = 0;
        for (int i = 0; i < DIM; i++)
            logits[v] += x[i] * (double)tensors[EMBD].at[v * DIM + i];
    }
}

/* ---- One compiled program ---- */

static _Atomic int64_t n_asked;          /* for memory, by programs and execs */

static void *counting_fn(void *user, void *p, size_t old_size, size_t new_size)
{
    n_asked++;
    return fx_mem_libc.fn(user, p, old_size, new_size);
}

static const fx_mem counting = { counting_fn, NULL };

typedef struct compiled {
    fx_arena arena;
    fx_pool *pool;
    fx_program *program;
    fx_status st;
    fx_error err;
} compiled;

static void compile_text(compiled *c, const char *text, int threads, fx_dtype_mode mode, const fx_weight_source *source,
                         fx_store *store, uint64_t content)
{
    fx_state_table state = { .kv_dtype = FX_F32, .page_tokens = 32 };
    fx_module *m = NULL;
    fx_graph *g;

    *c = (compiled){ 0 };
    fx_arena_init(&c->arena, &fx_mem_libc, 0);
    CHECK_OK(fx_pool_new(&c->pool, &fx_mem_libc, threads, &c->err), c->err);
    CHECK_OK(fx_module_parse(&m, &c->arena, "graph", fx_str_of(text), &c->err), c->err);
    g = m ? m->first : NULL;
    const fx_compile_options opt = { .mode = mode, .cpu = fx_cpu_detect(), .pool = c->pool, .store = store, .store_min = 1,
                                     .content = { content, 0 }, .library = "fornax test", .label = "a graph" };
    fx_state_layout(&state);
    c->st = g ? fx_compile(&c->program, &counting, g, &state, source, &opt, &c->err) : FORNAX_EFORMAT;
}

static void compile_in(compiled *c, const char *dtype, int threads, fx_dtype_mode mode, const fx_weight_source *source,
                       fx_store *store, uint64_t content)
{
    char text[1024];

    print_graph(text, sizeof text, dtype);
    compile_text(c, text, threads, mode, source, store, content);
}

static void compile(compiled *c, const char *dtype, int threads, fx_dtype_mode mode, const fx_weight_source *source)
{
    compile_in(c, dtype, threads, mode, source, NULL, 0);
}

static void drop(compiled *c)
{
    fx_program_free(c->program);
    fx_pool_free(c->pool);
    fx_arena_done(&c->arena);
}

/* Runs tokens as one step, logits for all of them, into out[n][VOCAB]. */
static void run_step(const compiled *c, const int32_t *tokens, int n, float *out)
{
    fx_error err = { 0 };
    fx_exec *x = NULL;
    int32_t pos[MAX_ROWS], seq[MAX_ROWS] = { 0 }, rows[MAX_ROWS];
    const fx_step_seq one = { .n_rows = n, .adapter = -1 };
    const fx_step step = { .n_rows = n, .n_seqs = 1, .n_logits = n, .token = tokens, .pos = pos, .seq = seq,
                           .seqs = &one, .logit_rows = rows, .page_tokens = 32 };

    for (int i = 0; i < n; i++)
        pos[i] = rows[i] = i;
    CHECK_OK(fx_exec_new(&x, c->program, c->pool, MAX_ROWS, MAX_ROWS, &err), err);
    if (!x)
        return;
    fx_exec_run(x, &step);
    for (int i = 0; i < n; i++)
        memcpy(out + i * VOCAB, fx_exec_logits(x, i), VOCAB * sizeof *out);
    fx_exec_free(x);
}

static const fx_weight_source plain_source = { .find = find, .release = release };

TEST(numbers_equal_sums_in_double)
{
    static const fx_dtype_mode modes[] = { FX_MODE_AUTO, FX_MODE_F32 };
    int32_t tokens[MAX_ROWS];
    float got[MAX_ROWS * VOCAB];
    double want[VOCAB];

    for (int i = 0; i < MAX_ROWS; i++)
        tokens[i] = i * 7 % VOCAB;
    for (int k = 0; k < 4; k++) {
        compiled c;

        make_tensors(k >= 2);
        compile(&c, k >= 2 ? "f16" : "f32", 1, modes[k % 2], &plain_source);
        CHECK_OK(c.st, c.err);
        if (c.program) {
            run_step(&c, tokens, MAX_ROWS, got);
            for (int i = 0; i < MAX_ROWS; i++) {
                expected(tokens[i], want);
                for (int v = 0; v < VOCAB; v++)
                    CHECK_NEAR((double)got[i * VOCAB + v], want[v], 1e-6 * fabs(want[v]) + 5e-5);
            }
            CHECK_EQ_I64(fx_program_vocab(c.program), VOCAB);
            CHECK(tensors[GATE].released == 1 && tensors[UP].released == 1);
        }
        drop(&c);
    }
}

static void check_bits(fx_dtype_mode mode)
{
    int32_t tokens[MAX_ROWS];
    float want[MAX_ROWS * VOCAB], got[MAX_ROWS * VOCAB];

    make_tensors(false);
    for (int i = 0; i < MAX_ROWS; i++)
        tokens[i] = i * 11 % VOCAB;
    for (int threads = 1; threads <= 3; threads++) {
        compiled c;

        compile(&c, "f32", threads, mode, &plain_source);
        CHECK_OK(c.st, c.err);
        if (c.program) {
            if (threads == 1) {
                for (int i = 0; i < MAX_ROWS; i++)
                    run_step(&c, &tokens[i], 1, want + i * VOCAB);
            }
            for (int n = 1; n <= MAX_ROWS; n += 3) {
                run_step(&c, tokens, n, got);
                CHECK_MEM(got, want, (size_t)(n * VOCAB) * sizeof *got);
            }
        }
        drop(&c);
    }
}

TEST(bits_do_not_depend_on_rows_or_threads)
{
    check_bits(FX_MODE_AUTO);
    check_bits(FX_MODE_BF16);
}

/* ---- Weights in blocks: products that round their results, and products of one operand at once ---- */

typedef struct block_tensor {
    const char *name;
    fx_dtype dtype;
    int64_t rows, cols;
} block_tensor;

static const block_tensor block_tensors[] = {
    { "embd", FX_F32, VOCAB, DIM }, { "norm", FX_F32, 1, DIM }, { "gate", FX_Q8_0, 96, DIM }, { "up", FX_Q8_0, 96, DIM },
    { "down", FX_Q8_0, DIM, 96 },   { "wq", FX_Q8_0, DIM, DIM }, { "wv", FX_Q4_0, DIM, DIM },   { "head", FX_Q8_0, VOCAB, DIM },
};
static void *block_data[FX_COUNT(block_tensors)];

/* Random numbers; blocks begin with a small f16. */
static void make_blocks(void)
{
    uint32_t x = 11;

    for (size_t i = 0; i < FX_COUNT(block_tensors); i++) {
        const block_tensor *t = &block_tensors[i];
        size_t bytes = (size_t)t->rows * fx_dtype_row_bytes(t->dtype, t->cols), block = fx_dtype_rows[t->dtype].block_bytes;
        uint8_t *p = block_data[i] = malloc(bytes);

        for (size_t k = 0; k < bytes; k += t->dtype == FX_F32 ? 4 : 1) {
            float f = pseudo(&x);

            if (t->dtype == FX_F32)
                memcpy(p + k, &f, 4);
            else
                p[k] = (uint8_t)(x >> 24);
        }
        for (size_t k = 0; t->dtype != FX_F32 && k < bytes; k += block)
            memcpy(p + k, &(uint16_t){ fx_f32_to_f16(0.001f * (float)(k / block % 7 + 1)) }, 2);
    }
}

static bool find_blocks(void *user, fx_str name, fx_weight_view *out)
{
    (void)user;
    for (size_t i = 0; i < FX_COUNT(block_tensors); i++) {
        const block_tensor *t = &block_tensors[i];

        if (fx_str_is(name, t->name)) {
            *out = (fx_weight_view){ .data = block_data[i], .dtype = t->dtype, .rows = t->rows, .cols = t->cols,
                                     .row_bytes = fx_dtype_row_bytes(t->dtype, t->cols) };
            return true;
        }
    }
    return false;
}

static void keep(void *user, fx_str name) { (void)user, (void)name; }

static const char block_graph[] =
    "%tokens = input i32[rows]\n%logit_rows = input i32[outs]\n%embd = weight f32[40,64]\n%norm = weight f32[64]\n"
    "%gate = weight q8_0[96,64]\n%up = weight q8_0[96,64]\n%down = weight q8_0[64,96]\n%wq = weight q8_0[64,64]\n"
    "%wv = weight q4_0[64,64]\n%head = weight q8_0[40,64]\n"
    "%x = embed %tokens, %embd\n%h = rmsnorm %x, %norm, eps=1e-5\n%q = linear %h, %wq\n%v = linear %h, %wv\n"
    "%g = linear %h, %gate\n%s = silu %g\n%u = linear %h, %up\n%f = mul %s, %u\n%d = linear %f, %down\n"
    "%a = add %q, %v\n%y = add %a, %d\n%z = gather %y, %logit_rows, axis=0\n%logits = linear %z, %head\noutput %logits\n";

static void check_block_plan(const fx_plan *p)
{
    int beside = 0, alone = 0;

    for (int32_t i = 0; i < p->n_launches; i++) {
        beside += p->launches[i].beside;
        alone += p->launches[i].op == FX_L_MATMUL && p->launches[i].out[0].kind == FX_REF_NONE;
    }
    CHECK(beside >= 1);
    CHECK_EQ_I64(alone, 1);              /* the gate, which only 'down' reads, rounded */
}

TEST(bits_of_blocks_do_not_depend_on_rows_or_threads)
{
    static const fx_weight_source source = { .find = find_blocks, .release = keep };
    int32_t tokens[MAX_ROWS];
    float want[MAX_ROWS * VOCAB], got[MAX_ROWS * VOCAB];

    make_blocks();
    for (int i = 0; i < MAX_ROWS; i++)
        tokens[i] = i * 11 % VOCAB;
    for (int threads = 1; threads <= 4; threads++) {
        compiled c;

        compile_text(&c, block_graph, threads, FX_MODE_AUTO, &source, NULL, 0);
        CHECK_OK(c.st, c.err);
        if (c.program) {
            check_block_plan(fx_program_plan(c.program));
            for (int i = 0; threads == 1 && i < MAX_ROWS; i++)
                run_step(&c, &tokens[i], 1, want + i * VOCAB);
            for (int n = 1; n <= MAX_ROWS; n++) {
                run_step(&c, tokens, n, got);
                CHECK_MEM(got, want, (size_t)(n * VOCAB) * sizeof *got);
            }
        }
        drop(&c);
    }
    for (size_t i = 0; i < FX_COUNT(block_data); i++)
        free(block_data[i]);
}

/* ... and what rounds activations says so, for the numerics id. */
TEST(a_program_knows_that_it_rounds_to_bf16)
{
    static const fx_dtype_mode modes[] = { FX_MODE_AUTO, FX_MODE_F32, FX_MODE_BF16 };

    make_tensors(false);
    for (size_t i = 0; i < FX_COUNT(modes); i++) {
        compiled c;

        compile(&c, "f32", 1, modes[i], &plain_source);
        CHECK(c.program && fx_program_rounds_bf16(c.program) == (modes[i] == FX_MODE_BF16 && fx_cpu_detect().bf16_fast));
        drop(&c);
    }
}

TEST(a_missing_tensor_is_named)
{
    const fx_weight_source source = { .find = find, .user = (void *)"down" };
    compiled c;

    make_tensors(false);
    compile(&c, "f32", 1, FX_MODE_AUTO, &source);
    CHECK(c.st == FORNAX_EFORMAT && !c.program);
    CHECK(strstr(c.err.text, "down") != NULL);
    drop(&c);
}

TEST(a_wrong_shape_is_named)
{
    compiled c;

    make_tensors(false);
    tensors[DOWN].rows--;
    compile(&c, "f32", 1, FX_MODE_AUTO, &plain_source);
    CHECK(c.st == FORNAX_EFORMAT && !c.program);
    CHECK(strstr(c.err.text, "down") && strstr(c.err.text, "64") && strstr(c.err.text, "63"));
    tensors[DOWN].rows++;
    drop(&c);
}

TEST(binding_can_be_cancelled)
{
    const fx_weight_source source = { .find = find, .progress = never };
    compiled c;

    make_tensors(false);
    compile(&c, "f32", 1, FX_MODE_AUTO, &source);
    CHECK(c.st == FORNAX_ECANCEL && !c.program);
    drop(&c);
}

/* ---- Generated kernels in place of launches; here they are C ---- */

static _Atomic int64_t n_copied, n_ended;        /* rows; tiles */

static int64_t rows_of(const uint64_t *args) { return (int64_t)args[0]; }

/* A gather: args n_rows; buffers x, rows, y. */
static void copy_rows(const uint64_t *args, void *const *buffers, int64_t t0, int64_t t1, fx_kir_fault *fault)
{
    const float *x = buffers[0];
    const int32_t *rows = buffers[1];
    float *y = buffers[2];

    (void)args, (void)fault;
    for (int64_t t = t0; t < t1; t++)
        memcpy(y + t * DIM, x + rows[t] * DIM, DIM * sizeof *y);
    n_copied += t1 - t0;
}

/* The end of a product's tile: args m, n, ld; buffers acc, residual, y. */
static void add_residual(const uint64_t *args, void *const *buffers, int64_t t0, int64_t t1, fx_kir_fault *fault)
{
    const float *acc = buffers[0], *residual = buffers[1];
    float *y = buffers[2];

    (void)fault;
    for (int64_t t = t0; t < t1; t++) {
        for (int64_t i = 0; i < (int64_t)args[1]; i++)
            y[t * DIM + i] = acc[t * (int64_t)args[2] + i] + residual[t * DIM + i];
    }
    n_ended++;
}

static int32_t launch_of(const fx_program *p, fx_launch_op op, fx_ref_kind residual)
{
    const fx_plan *plan = fx_program_plan(p);

    for (int32_t i = 0; i < plan->n_launches; i++) {
        if (plan->launches[i].op == op && (op != FX_L_MATMUL || plan->launches[i].in[3].kind == residual))
            return i;
    }
    return -1;
}

typedef struct two_calls {
    fx_call_ref args[4], buffers[6];
    fx_plan_call calls[2];
    fx_plan_calls all;
} two_calls;

static void make_calls(two_calls *c, const fx_program *p)
{
    const int32_t down = launch_of(p, FX_L_MATMUL, FX_REF_BUF), gather = launch_of(p, FX_L_GATHER, 0);

    *c = (two_calls){
        .args = { { .from = FX_FROM_TILE, .at = offsetof(fx_call_tile, m) }, { .from = FX_FROM_TILE, .at = offsetof(fx_call_tile, n) },
                  { .from = FX_FROM_TILE, .at = offsetof(fx_call_tile, ld) },
                  { .from = FX_FROM_STEP, .at = offsetof(fx_step, n_logits), .narrow = true } },
        .buffers = { { .from = FX_FROM_TILE, .at = offsetof(fx_call_tile, acc) }, { .from = FX_FROM_TILE, .at = offsetof(fx_call_tile, residual) },
                     { .from = FX_FROM_TILE, .at = offsetof(fx_call_tile, y) },
                     { .from = FX_FROM_ARGS, .launch = gather, .at = offsetof(fx_gather_args, x.p) },
                     { .from = FX_FROM_STEP, .at = offsetof(fx_step, logit_rows) },
                     { .from = FX_FROM_ARGS, .launch = gather, .at = offsetof(fx_gather_args, y.p) } },
    };
    CHECK(down > gather && gather >= 0);
    c->calls[1] = (fx_plan_call){ .first = down, .n = 1, .epilogue = true, .n_args = 3, .n_buffers = 3, .args = c->args, .buffers = c->buffers };
    c->calls[0] = (fx_plan_call){ .first = gather, .n = 1, .kernel = 1, .n_args = 1, .n_buffers = 3, .args = c->args + 3,
                                  .buffers = c->buffers + 3 };
    c->all = (fx_plan_calls){ .calls = c->calls, .n_kernels = 2, .n_calls = 2 };
}

/* Code comes between two steps of an exec, which ask for no memory; one that is made then has it from the start. */
TEST(calls_run_in_place_of_launches)
{
    static const fx_kcode code[] = { { rows_of, add_residual }, { rows_of, copy_rows } };
    static float want[MAX_ROWS * VOCAB], got[MAX_ROWS * VOCAB];
    int32_t tokens[MAX_ROWS], pos[MAX_ROWS], seq[MAX_ROWS] = { 0 }, rows[MAX_ROWS];
    const fx_step_seq one = { .n_rows = MAX_ROWS, .adapter = -1 };
    const fx_step step = { .n_rows = MAX_ROWS, .n_seqs = 1, .n_logits = MAX_ROWS, .token = tokens, .pos = pos, .seq = seq,
                           .seqs = &one, .logit_rows = rows, .page_tokens = 32 };
    fx_error err = { 0 };
    fx_exec *x = NULL;
    two_calls calls;
    compiled c;

    for (int i = 0; i < MAX_ROWS; i++) {
        tokens[i] = i * 13 % VOCAB;
        pos[i] = rows[i] = i;
    }
    make_tensors(false);
    compile(&c, "f32", 2, FX_MODE_AUTO, &plain_source);
    CHECK_OK(c.st, c.err);
    REQUIRE(c.program);
    run_step(&c, tokens, MAX_ROWS, want);
    make_calls(&calls, c.program);
    fx_program_set_calls(c.program, &calls.all);
    CHECK_OK(fx_exec_new(&x, c.program, c.pool, MAX_ROWS, MAX_ROWS, &err), err);
    for (int given = 0; x && given < 2; given++) {
        if (given)
            fx_program_give_code(c.program, code);
        int64_t asked = n_asked;

        memset(fx_exec_logits(x, 0), 0, VOCAB * sizeof *got);
        fx_exec_run(x, &step);
        CHECK_EQ_I64(n_asked, asked);
        for (int i = 0; i < MAX_ROWS; i++)
            CHECK_MEM(fx_exec_logits(x, i), want + i * VOCAB, VOCAB * sizeof *got);
        CHECK_EQ_I64(n_copied, given * MAX_ROWS);
        CHECK((n_ended > 0) == given);
        CHECK_EQ_U64(fx_exec_generated(x), (uint64_t)given);
    }
    fx_exec_free(x);
    run_step(&c, tokens, MAX_ROWS, got);
    CHECK_MEM(got, want, sizeof got);
    CHECK_EQ_I64(n_copied, 2 * MAX_ROWS);
    drop(&c);
}

/* ---- Packed weights that outlive their program ---- */

static char kept_dir[64];

static fx_store *new_store(void)
{
    const fx_log silent = { NULL, NULL, FX_LOG_ERROR };
    fx_store *s = NULL;
    fx_error err = { 0 };

    strcpy(kept_dir, "/tmp/fx-runtime-XXXXXX");
    CHECK(mkdtemp(kept_dir) != NULL);
    CHECK_OK(fx_store_open(&s, &fx_mem_libc, &silent, kept_dir, 1 << 20, &err), err);
    return s;
}

static void end_store(fx_store *s)
{
    char command[128];

    fx_store_close(s);
    snprintf(command, sizeof command, "rm -rf %s", kept_dir);
    CHECK(system(command) == 0);
}

/* Compiles, runs; were the weights found? Their logits must be 'want', if that isn't NULL. */
static bool found_weights(fx_store *s, fx_dtype_mode mode, uint64_t content, float *logits, const float *want)
{
    int32_t tokens[MAX_ROWS];
    bool found = false;
    compiled c;

    for (int i = 0; i < MAX_ROWS; i++)
        tokens[i] = i * 3 % VOCAB;
    compile_in(&c, "f32", 2, mode, &plain_source, s, content);
    CHECK_OK(c.st, c.err);
    if (c.program) {
        found = fx_program_found_weights(c.program);
        run_step(&c, tokens, MAX_ROWS, logits);
        if (want)
            CHECK_MEM(logits, want, sizeof(float) * MAX_ROWS * VOCAB);
    }
    drop(&c);
    return found;
}

TEST(packed_weights_are_found_again)
{
    static float first[MAX_ROWS * VOCAB], bf16[MAX_ROWS * VOCAB], again[MAX_ROWS * VOCAB];
    fx_store *s = new_store();

    make_tensors(false);
    CHECK(!found_weights(s, FX_MODE_AUTO, 1, first, NULL));
    CHECK_EQ_I64(tensors[GATE].released, 1);
    CHECK(found_weights(s, FX_MODE_AUTO, 1, again, first));
    CHECK_EQ_I64(tensors[GATE].released, 1);             /* nobody looked at them */
    CHECK(!found_weights(s, FX_MODE_BF16, 1, bf16, NULL));
    CHECK(found_weights(s, FX_MODE_BF16, 1, again, bf16));
    CHECK(!found_weights(s, FX_MODE_AUTO, 2, again, first));     /* another file */
    tensors[UP].at[5] = 2;                               /* the content, not these bytes, is what weights are known by */
    CHECK(found_weights(s, FX_MODE_AUTO, 2, again, first));
    CHECK_EQ_U64(fx_store_count(s).written, 3);
    make_tensors(true);                                  /* the same names, other types */
    CHECK(!found_weights(s, FX_MODE_AUTO, 1, again, NULL));
    CHECK_EQ_U64(fx_store_count(s).faults, 0);
    end_store(s);
}

static size_t kept_bytes;

/* Changes one byte of each kept file; 'at' counts from the front. */
static bool change_byte(void *user, const fx_folder_entry *e)
{
    const size_t *at = user;
    char name[400];
    FILE *f;

    if (!strstr(e->name, ".fxa"))
        return true;
    kept_bytes = e->bytes;
    snprintf(name, sizeof name, "%s/%s", kept_dir, e->name);
    f = *at < e->bytes ? fopen(name, "r+b") : NULL;
    if (f) {
        int c;

        fseek(f, (long)*at, SEEK_SET);
        c = fgetc(f);
        fseek(f, (long)*at, SEEK_SET);
        fputc(c ^ 0x10, f);
        fclose(f);
    }
    return true;
}

/* A byte of a kept file changes: the weights are packed anew and what is computed is what it was. */
TEST(no_damaged_byte_is_computed_with)
{
    static float first[MAX_ROWS * VOCAB], again[MAX_ROWS * VOCAB];
    size_t step = getenv("FXTEST_LONG") ? 41 : 397;          /* each is a new file, synced */
    fx_store *s = new_store();

    make_tensors(false);
    CHECK(!found_weights(s, FX_MODE_AUTO, 1, first, NULL));
    kept_bytes = 1;
    for (size_t at = 0; at < kept_bytes; at += step) {
        CHECK(fx_folder_list(kept_dir, change_byte, &at, NULL) == FORNAX_OK);
        if (found_weights(s, FX_MODE_AUTO, 1, again, first))
            FXTEST_FAIL("byte %zu of %zu", at, kept_bytes);
    }
    CHECK(kept_bytes > 10000);
    end_store(s);
}

FXTEST_MAIN()
