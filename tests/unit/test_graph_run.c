/* test_graph_run.c - graphs compiled, kept, bound and run through fornax_graph.h. Without LLVM they are interpreted where that is
 * all the same, else skipped. */
#include "fxtest.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "fornax_graph.h"

static fornax_context *ctx;
static fornax_error err;
static char dir[64];

static void setup(const char *cache)
{
    fornax_context_options o = FORNAX_OPTIONS(fornax_context_options);

    err = (fornax_error){ 0 };
    if (FXTEST_LLVM[0])
        setenv("FORNAX_LLVM", FXTEST_LLVM, 1);
    o.threads = 2;
    o.cache_dir = cache;
    CHECK_OK(fornax_context_open(&ctx, &o, &err), err);
}

/* y = relu(x @ w + b), its sizes n, in, out; w and b weights. */
static fornax_graph *build_layer(fornax_module *m, const char *name, int64_t in, int64_t out)
{
    fornax_graph *g = fornax_graph_new(m, name);
    fornax_type xt = fornax_type2(FORNAX_F32, fornax_dim_named(m, "n"), fornax_dim_of(in));
    fornax_type wt = fornax_type2(FORNAX_F32, fornax_dim_of(in), fornax_dim_of(out)), bt = fornax_type1(FORNAX_F32, fornax_dim_of(out));
    fornax_value *x = fornax_graph_input(g, "x", &xt), *w = fornax_graph_weight(g, "w", &wt), *b = fornax_graph_weight(g, "b", &bt);
    fornax_value *y = fornax_op_relu(g, fornax_op_add(g, fornax_op_matmul(g, x, w), b));

    fornax_graph_output(g, &y, 1);
    return g;
}

static bool compile_layer(fornax_compiled **c, bool interpret)
{
    fornax_compile_options o = FORNAX_OPTIONS(fornax_compile_options);
    fornax_module *m = NULL;
    fornax_status st;

    o.interpret = interpret;
    CHECK_OK(fornax_module_open(&m, ctx, &err), err);
    st = fornax_graph_compile(c, build_layer(m, "layer", 3, 2), &o, &err);
    fornax_module_close(m);
    return st == FORNAX_OK;
}

static const float w[6] = { 1, 2, 3, 4, 5, 6 }, b[2] = { 10, -100 }, x[6] = { 1, 0, -1, 2, 2, 2 };

static fornax_tensor tensor(int rank, int64_t a, int64_t c, const float *data)
{
    return (fornax_tensor){ FORNAX_F32, rank, { a, c }, (void *)(uintptr_t)data };
}

static fornax_status set_weights(fornax_program *p)
{
    fornax_tensor wt = tensor(2, 3, 2, w), bt = tensor(1, 2, 0, b);
    fornax_status st = fornax_program_set_weight(p, "w", &wt, &err);

    return st == FORNAX_OK ? fornax_program_set_weight(p, "b", &bt, &err) : st;
}

/* x @ w + b = [6 -104; 28 -76], relu. */
static void check_layer(fornax_compiled *c)
{
    fornax_tensor in = tensor(2, 2, 3, x), out = { 0 };
    float mine[4] = { 9, 9, 9, 9 };
    fornax_program *p = NULL;

    CHECK_OK(fornax_program_open(&p, c, &err), err);
    CHECK_EQ_I64(fornax_program_run(p, &in, 1, &out, 1, &err), FORNAX_EARG);
    CHECK_STR(err.text, "weight w has no data");
    CHECK_OK(set_weights(p), err);
    CHECK_OK(fornax_program_run(p, &in, 1, &out, 1, &err), err);
    CHECK(out.rank == 2 && out.dim[0] == 2 && out.dim[1] == 2);
    CHECK_MEM(out.data, ((float[]){ 6, 0, 28, 0 }), sizeof(mine));
    out.data = mine;
    CHECK_OK(fornax_program_run(p, &in, 1, &out, 1, &err), err);
    CHECK_MEM(mine, ((float[]){ 6, 0, 28, 0 }), sizeof(mine));
    in.dim[0] = 0;
    CHECK_OK(fornax_program_shapes(p, &in, 1, &out, 1, &err), err);
    CHECK_EQ_I64(out.dim[0], 0);
    CHECK_OK(fornax_program_run(p, &in, 1, &out, 1, &err), err);
    fornax_program_close(p);
}

TEST(a_layer_compiled_and_interpreted)
{
    fornax_compiled *c = NULL;

    setup(NULL);
    CHECK(compile_layer(&c, true));
    check_layer(c);
    CHECK_EQ_I64(fornax_compiled_save(c, "/tmp/never", &err), FORNAX_EUNSUP);
    fornax_compiled_close(c);
    if (compile_layer(&c, false)) {
        check_layer(c);
        fornax_compiled_close(c);
    } else {
        CHECK_EQ_I64(err.status, FORNAX_EUNSUP);
    }
    fornax_context_close(ctx);
}

TEST(wrong_arguments)
{
    fornax_tensor in = tensor(2, 2, 3, x), out = { 0 }, bad = tensor(2, 2, 3, w);
    fornax_compiled *c = NULL;
    fornax_program *p = NULL;

    setup(NULL);
    CHECK(compile_layer(&c, true));
    CHECK_OK(fornax_program_open(&p, c, &err), err);
    CHECK_EQ_I64(fornax_program_set_weight(p, "w", &bad, &err), FORNAX_EARG);
    CHECK_STR(err.text, "weight w: another dtype or shape than the graph has");
    CHECK_EQ_I64(fornax_program_set_weight(p, "v", &bad, &err), FORNAX_ENOTFOUND);
    CHECK_OK(set_weights(p), err);
    CHECK_EQ_I64(fornax_program_run(p, &in, 1, NULL, 0, &err), FORNAX_EARG);
    CHECK_STR(err.text, "the graph has 1 inputs and 1 outputs, not 1 and 0");
    in.dim[1] = 4;
    CHECK_EQ_I64(fornax_program_run(p, &in, 1, &out, 1, &err), FORNAX_EARG);
    CHECK_STR(err.text, "input 0 (x): axis 1 has 4, not 3");
    in = tensor(1, 3, 0, x);
    CHECK_EQ_I64(fornax_program_run(p, &in, 1, &out, 1, &err), FORNAX_EARG);
    CHECK_STR(err.text, "input 0 (x): another dtype or number of axes than the graph has");
    fornax_program_close(p);
    fornax_compiled_close(c);
    fornax_context_close(ctx);
}

static void file_in(char *out, size_t n, const char *name) { snprintf(out, n, "%s/%s", dir, name); }

static void make_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/fx-graph-XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
}

static bool remove_entry(void *user, const fx_folder_entry *e)
{
    char path[400];

    (void)user;
    snprintf(path, sizeof(path), "%s/%s", dir, e->name);
    return unlink(path) == 0;
}

static void remove_dir(void)
{
    CHECK_OK(fx_folder_list(dir, remove_entry, NULL, &err), err);
    rmdir(dir);
}

/* Eight different graphs, compiled at once and one after another, give the same files. */
typedef struct one_compile {
    int n;
    const char *suffix;
    fornax_status st;
    fornax_error err;
} one_compile;

static void *compile_one(void *user)
{
    one_compile *o = user;
    fornax_module *m = NULL;
    fornax_compiled *c = NULL;
    char path[128], name[32];

    snprintf(name, sizeof(name), "g%d.%s", o->n, o->suffix);
    file_in(path, sizeof(path), name);
    o->st = fornax_module_open(&m, ctx, &o->err);
    if (o->st == FORNAX_OK)
        o->st = fornax_graph_compile(&c, build_layer(m, "layer", 3 + o->n, 2 + 3 * o->n), NULL, &o->err);
    if (o->st == FORNAX_OK)
        o->st = fornax_compiled_save(c, path, &o->err);
    fornax_compiled_close(c);
    fornax_module_close(m);
    return NULL;
}

static bool same_file(int n)
{
    char one[128], other[128], name[32];
    fx_buf x0, x1;
    bool same;

    snprintf(name, sizeof(name), "g%d.a", n);
    file_in(one, sizeof(one), name);
    snprintf(name, sizeof(name), "g%d.b", n);
    file_in(other, sizeof(other), name);
    fx_buf_init(&x0, &fx_mem_libc);
    fx_buf_init(&x1, &fx_mem_libc);
    same = fx_file_read(&x0, one, 1 << 24, NULL) == FORNAX_OK && fx_file_read(&x1, other, 1 << 24, NULL) == FORNAX_OK &&
           fx_str_eq(fx_buf_view(&x0), fx_buf_view(&x1)) && x0.n > 1000;
    fx_buf_done(&x0);
    fx_buf_done(&x1);
    unlink(one);
    unlink(other);
    return same;
}

TEST(compiles_at_once)
{
    one_compile all[8];
    pthread_t threads[8];

    setup(NULL);
    make_dir();
    for (int i = 0; i < 8; i++) {
        all[i] = (one_compile){ .n = i, .suffix = "a" };
        CHECK_EQ_I64(pthread_create(&threads[i], NULL, compile_one, &all[i]), 0);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    if (all[0].st == FORNAX_EUNSUP) {
        static char why[sizeof(all[0].err.text)];

        fornax_context_close(ctx);
        rmdir(dir);
        memcpy(why, all[0].err.text, sizeof(why));
        SKIP(why);
    }
    for (int i = 0; i < 8; i++) {
        CHECK_OK(all[i].st, all[i].err);
        all[i].suffix = "b";
        compile_one(&all[i]);
        CHECK(same_file(i));
    }
    rmdir(dir);
    fornax_context_close(ctx);
}

/* A compile by itself, its module closed at once; then from the cache folder. */
TEST(async_and_reusing)
{
    fornax_cache_stats stats = { .size = sizeof(stats) };
    fornax_module *m = NULL;
    fornax_compiled *c = NULL;
    char manifest[128];

    make_dir();
    setup(dir);
    CHECK_OK(fornax_module_open(&m, ctx, &err), err);
    if (fornax_graph_compile_async(&c, build_layer(m, "layer", 3, 2), NULL, &err) == FORNAX_EUNSUP) {
        static char why[sizeof(err.text)];

        memcpy(why, err.text, sizeof(why));
        fornax_module_close(m);
        fornax_context_close(ctx);
        SKIP(why);
    }
    fornax_module_close(m);
    CHECK_OK(fornax_compiled_wait(c, &err), err);
    check_layer(c);
    fornax_compiled_close(c);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_OK(fornax_module_open(&m, ctx, &err), err);
        CHECK_OK(fornax_graph_compile_reusing(&c, build_layer(m, "layer", 3, 2), NULL, &err), err);
        fornax_module_close(m);
        check_layer(c);
        fornax_compiled_close(c);
    }
    fornax_context_get_cache(ctx, &stats);
    CHECK(stats.hits == 1 && stats.misses == 1 && stats.written == 1 && stats.faults == 0);
    fornax_context_close(ctx);
    file_in(manifest, sizeof(manifest), "manifest");
    CHECK_EQ_I64(access(manifest, R_OK), 0);
    remove_dir();
}

/* A file whose bytes are changed, one here, one there (each one in a long run), is refused with its name. */
TEST(damaged_files)
{
    size_t step = getenv("FXTEST_LONG") ? 1 : 211;
    fornax_compiled *c = NULL, *again = NULL;
    char path[128];
    fx_buf file;

    setup(NULL);
    make_dir();
    file_in(path, sizeof(path), "x.fxa");
    if (!compile_layer(&c, false)) {
        static char why[sizeof(err.text)];

        memcpy(why, err.text, sizeof(why));
        fornax_context_close(ctx);
        SKIP(why);
    }
    CHECK_OK(fornax_compiled_save(c, path, &err), err);
    fornax_compiled_close(c);
    CHECK_OK(fornax_compiled_load(&again, ctx, path, &err), err);
    check_layer(again);
    fornax_compiled_close(again);
    fx_buf_init(&file, &fx_mem_libc);
    CHECK_OK(fx_file_read(&file, path, 1 << 24, &err), err);
    for (size_t i = 0; i < file.n; i += step) {
        FILE *f = fopen(path, "wb");

        file.p[i] ^= 0x20;
        CHECK(f && fwrite(file.p, 1, file.n, f) == file.n && fclose(f) == 0);
        file.p[i] ^= 0x20;
        if (fornax_compiled_load(&again, ctx, path, &err) == FORNAX_OK || !strstr(err.text, path))
            FXTEST_FAIL("byte %zu of %zu: %s", i, file.n, err.text);
        fornax_compiled_close(again);
        again = NULL;
    }
    fx_buf_done(&file);
    remove_dir();
    fornax_context_close(ctx);
}

/* ---- Processes that are killed --------------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t draw(uint64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % n;
}

/* Compiles layers that differ, by the cache folder and to a file in turn, until it is killed. */
static void compile_forever(int first)
{
    char path[128];

    setup(dir);
    for (int i = first;; i++) {
        fornax_module *m = NULL;
        fornax_compiled *c = NULL;

        if (fornax_module_open(&m, ctx, &err) != FORNAX_OK ||
            fornax_graph_compile_reusing(&c, build_layer(m, "layer", 3, 2 + i % 5), NULL, &err) != FORNAX_OK)
            _exit(1);
        fornax_module_close(m);
        file_in(path, sizeof(path), "saved.fxa");
        if (fornax_compiled_save(c, path, &err) != FORNAX_OK)
            _exit(2);
        fornax_compiled_close(c);
        file_in(path, sizeof(path), i % 2 ? "manifest" : "no file");
        unlink(path);                    /* what the folder says of itself may be lost at any time */
    }
}

static pid_t start_compiler(int first)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0)
        compile_forever(first);
    return pid;
}

static bool remove_artifact(void *user, const fx_folder_entry *e)
{
    (void)user;
    if (strstr(e->name, ".fxa") && strcmp(e->name, "saved.fxa") != 0)
        remove_entry(NULL, e);
    return true;
}

/* What is there is used, or made anew: nothing wrong runs, and the file that was saved is whole or isn't there. */
static void check_what_is_left(void)
{
    fornax_cache_stats stats = { .size = sizeof(stats) };
    fornax_compiled *c = NULL;
    fornax_module *m = NULL;
    char path[128];

    setup(dir);
    CHECK_OK(fornax_module_open(&m, ctx, &err), err);
    CHECK_OK(fornax_graph_compile_reusing(&c, build_layer(m, "layer", 3, 2), NULL, &err), err);
    fornax_module_close(m);
    check_layer(c);
    fornax_compiled_close(c);
    fornax_context_get_cache(ctx, &stats);
    CHECK_EQ_U64(stats.faults, 0);
    file_in(path, sizeof(path), "saved.fxa");
    if (access(path, F_OK) == 0) {
        c = NULL;
        CHECK_OK(fornax_compiled_load(&c, ctx, path, &err), err);
        fornax_compiled_close(c);
    }
    fornax_context_close(ctx);
}

TEST(killed_at_any_moment)
{
    int tries = getenv("FXTEST_LONG") ? 200 : 5, status;
    fornax_compiled *c = NULL;

    setup(NULL);
    if (!compile_layer(&c, false)) {
        static char why[sizeof(err.text)];

        memcpy(why, err.text, sizeof(why));
        fornax_context_close(ctx);
        SKIP(why);
    }
    fornax_compiled_close(c);
    fornax_context_close(ctx);
    make_dir();
    random_state = (uint64_t)getpid();
    for (int t = 0; t < tries; t++) {
        pid_t one = start_compiler(t), other = start_compiler(t + 1);
        const struct timespec wait = { 0, (long)draw(t % 4 ? 60000000 : 300000000) };

        nanosleep(&wait, NULL);
        CHECK(kill(one, SIGKILL) == 0 && waitpid(one, &status, 0) == one && WIFSIGNALED(status));
        check_what_is_left();
        CHECK(kill(other, SIGKILL) == 0 && waitpid(other, &status, 0) == other);
        if (!WIFSIGNALED(status))
            FXTEST_FAIL("a compile failed beside one that was killed: status %d", status);
        fx_folder_list(dir, remove_artifact, NULL, NULL);        /* to be written again */
    }
    remove_dir();
}

/* ---- Sizes that a run tells, and what it prints ------------------------------------------------------------ */

static char printed[8][200];
static int n_printed;

static void take_line(void *user, int level, const char *line)
{
    (void)user;
    if (level == 2 && n_printed < 8)
        snprintf(printed[n_printed++], sizeof(printed[0]), "%s", line);
}

static void open_with_log(void)
{
    fornax_context_options o = FORNAX_OPTIONS(fornax_context_options);

    setup(NULL);
    fornax_context_close(ctx);
    o.log = take_line;
    o.log_level = 2;
    CHECK_OK(fornax_context_open(&ctx, &o, &err), err);
    n_printed = 0;
}

/* Where x isn't 0; printed before and behind a loop of two turns, each of which prints. */
static const char places[] =
    "graph @main {\n"
    "  %x = input f32[n]\n"
    "  %zero = constant i64, {0}\n"
    "  %one = constant i64, {1}\n"
    "  %two = constant i64, {2}\n"
    "  %c0 = chain\n"
    "  %c1 = print %x, %c0, label=\"x\"\n"
    "  %p = nonzero %x, out_dim=k\n"
    "  %i, %c2 = while %zero, %c1 { %a: i64, %ca: chain\n"
    "    %more = greater %two, %a\n"
    "    yield %more\n"
    "  } { %b: i64, %cb: chain\n"
    "    %cc = print %b, %cb, label=\"turn\"\n"
    "    %next = add %b, %one\n"
    "    yield %next, %cc\n"
    "  }\n"
    "  %c3 = print %p, %c2\n"
    "  %c4 = print _, %c3, label=\"the end\"\n"
    "  output %p\n"
    "}\n";

static void run_places(fornax_program *p, const float *numbers, int64_t n, const char *const *lines)
{
    fornax_tensor in = tensor(1, n, 0, numbers), out = { 0 };
    int64_t mine[8], at = 0;

    CHECK_OK(fornax_program_shapes(p, &in, 1, &out, 1, &err), err);
    CHECK(out.rank == 2 && out.dim[0] == -1 && out.dim[1] == 1);
    n_printed = 0;
    CHECK_OK(fornax_program_run(p, &in, 1, &out, 1, &err), err);
    for (int64_t i = 0; i < n; i++) {
        if (numbers[i] != 0)
            CHECK_EQ_I64(((int64_t *)out.data)[at++], i);
    }
    CHECK(out.rank == 2 && out.dim[0] == at && out.dim[1] == 1);
    CHECK_EQ_I64(n_printed, 5);
    for (int i = 0; i < 5; i++)
        CHECK_STR(printed[i], lines[i]);
    out.data = mine;
    CHECK_EQ_I64(fornax_program_run(p, &in, 1, &out, 1, &err), FORNAX_EARG);
    CHECK_STR(err.text, "output 0 (p): only the run tells how large it is: it can't be given a place");
}

static void check_places(bool interpret)
{
    static const float some[] = { 0, 2.5f, -1, 0, 7 }, none[] = { 0, 0, 0 };
    fornax_compile_options o = FORNAX_OPTIONS(fornax_compile_options);
    fornax_module *m = NULL;
    fornax_compiled *c = NULL;
    fornax_program *p = NULL;
    fornax_status st;

    o.interpret = interpret;
    CHECK_OK(fornax_module_parse(&m, ctx, "places", places, sizeof(places) - 1, &err), err);
    st = fornax_graph_compile(&c, fornax_module_graph(m, 0), &o, &err);
    fornax_module_close(m);
    if (st == FORNAX_EUNSUP && !interpret)
        return;
    CHECK_OK(st, err);
    CHECK_OK(fornax_program_open(&p, c, &err), err);
    run_places(p, some, 5, (const char *const[]){ "x: f32[5] [0, 2.5, -1, 0, 7]", "turn: i64 0", "turn: i64 1", "i64[3,1] [[1], [2], [4]]",
                                               "the end" });
    run_places(p, none, 3, (const char *const[]){ "x: f32[3] [0, 0, 0]", "turn: i64 0", "turn: i64 1", "i64[0,1] []", "the end" });
    run_places(p, some, 5, (const char *const[]){ "x: f32[5] [0, 2.5, -1, 0, 7]", "turn: i64 0", "turn: i64 1", "i64[3,1] [[1], [2], [4]]",
                                               "the end" });
    fornax_program_close(p);
    fornax_compiled_close(c);
}

TEST(sizes_that_a_run_tells_and_what_it_prints)
{
    open_with_log();
    check_places(true);
    check_places(false);
    fornax_context_close(ctx);
}

/* ---- Runs that are looked at ----------------------------------------------------------------------------------- */

/* Of a graph as text, its one input two numbers; the status of compiling, or else of running. */
static fornax_status run_with(const char *text, const fornax_compile_options *o, const float numbers[2], float results[2])
{
    fornax_tensor in = tensor(1, 2, 0, numbers), out = tensor(1, 2, 0, results);
    fornax_module *m = NULL;
    fornax_compiled *c = NULL;
    fornax_program *p = NULL;
    fornax_status st;

    CHECK_OK(fornax_module_parse(&m, ctx, "text", text, strlen(text), &err), err);
    st = fornax_graph_compile(&c, fornax_module_graph(m, 0), o, &err);
    fornax_module_close(m);
    if (st == FORNAX_OK)
        st = fornax_program_open(&p, c, &err);
    if (st == FORNAX_OK)
        st = fornax_program_run(p, &in, 1, &out, 1, &err);
    fornax_program_close(p);
    fornax_compiled_close(c);
    return st;
}

static const char logs[] = "graph @main {\n  %x = input f32[n]\n  %l = log %x\n  %s = add %l, %l\n  %y = abs %s\n  output %y\n}\n";

static void check_options(bool interpret)
{
    fornax_compile_options o = FORNAX_OPTIONS(fornax_compile_options);
    static const float sound[2] = { 1, 1 }, unsound[2] = { 1, -1 }, nan_given[2] = { 1, NAN };
    const char *names[] = { "s", "l" };
    float y[2];
    fornax_status st;

    o.interpret = interpret;
    o.check_nan = 1;
    st = run_with(logs, &o, sound, y);
    if (st == FORNAX_EUNSUP && !interpret)
        return;
    CHECK_OK(st, err);
    CHECK_EQ_I64(run_with(logs, &o, unsound, y), FORNAX_EARG);
    CHECK_STR(err.text, "l (log): element [1] of its result is NaN, and none of its operands has one");
    CHECK_OK(run_with(logs, &o, nan_given, y), err);
    CHECK(y[0] == 0 && isnan(y[1]));
    o.check_nan = 0;
    CHECK_OK(run_with(logs, &o, unsound, y), err);
    n_printed = 0;
    o.print = names;
    o.n_print = 2;
    CHECK_OK(run_with(logs, &o, sound, y), err);
    CHECK_EQ_I64(n_printed, 2);
    CHECK_STR(printed[0], "l: f32[2] [0, 0]");
    CHECK_STR(printed[1], "s: f32[2] [0, 0]");
    names[1] = "nothing";
    CHECK_EQ_I64(run_with(logs, &o, sound, y), FORNAX_ENOTFOUND);
    CHECK_STR(err.text, "print: graph main has no value nothing");
    o.n_print = 65;
    CHECK_EQ_I64(run_with(logs, &o, sound, y), FORNAX_EARG);
    CHECK_STR(err.param, "print");
    o.n_print = 0;
    o.log_launches = 1;
    n_printed = 0;
    CHECK_OK(run_with(logs, &o, sound, y), err);
    CHECK_EQ_I64(n_printed, 1);
    CHECK(strstr(printed[0], "launch 1: y (abs) reads x f32[2], writes y f32[2], ") == printed[0]);
}

TEST(options_for_finding_faults)
{
    open_with_log();
    check_options(true);
    check_options(false);
    fornax_context_close(ctx);
}

/* Kernels that the library makes never read what they didn't write; what it is like if one does is in test_lower.c. */
TEST(reads_are_checked_by_the_interpreter)
{
    fornax_compile_options o = FORNAX_OPTIONS(fornax_compile_options);
    static const float numbers[2] = { 1, 1 };
    float y[2];

    setup(NULL);
    o.check_unset = 1;
    CHECK_OK(run_with(logs, &o, numbers, y), err);
    CHECK(y[0] == 0 && y[1] == 0);
    o.target = "host";
    CHECK_EQ_I64(run_with(logs, &o, numbers, y), FORNAX_EARG);
    CHECK_STR(err.param, "target");
    fornax_context_close(ctx);
}

TEST(stages_go_to_a_folder)
{
    static const struct { const char *file, *has; bool code; } stages[] = {
        { "1-graph.txt", "%l = log %x", false },   { "2-plan.txt", "launch 1: kernel abs_0, for %y", false },
        { "3-kir.txt", " = log ", false },         { "4-math.txt", "kernel @abs_0(", false },
        { "5-wide.txt", "kernel @abs_0(", false }, { "6-llvm.txt", "define ", true },
        { "7-asm.txt", "abs_0", true },
    };
    fornax_compile_options o = FORNAX_OPTIONS(fornax_compile_options);
    static const float numbers[2] = { 1, 1 };
    float y[2];

    setup(NULL);
    for (int interpret = 1; interpret >= 0; interpret--) {
        fornax_status st;

        make_dir();
        o.interpret = interpret;
        o.dump_dir = dir;
        st = run_with(logs, &o, numbers, y);
        for (size_t i = 0; i < sizeof(stages) / sizeof(*stages) && st == FORNAX_OK; i++) {
            char path[128];
            fx_buf text;

            fx_buf_init(&text, &fx_mem_libc);
            file_in(path, sizeof(path), stages[i].file);
            CHECK_EQ_I64(fx_file_read(&text, path, 1 << 24, &err), stages[i].code && interpret ? FORNAX_ENOTFOUND : FORNAX_OK);
            fx_buf_putc(&text, 0);
            if (!(stages[i].code && interpret) && !strstr(text.p, stages[i].has))
                FXTEST_FAIL("%s has no \"%s\"", stages[i].file, stages[i].has);
            fx_buf_done(&text);
        }
        CHECK(st == FORNAX_OK || (st == FORNAX_EUNSUP && !interpret));
        remove_dir();
    }
    o.dump_dir = "/dev/null/x";
    CHECK(run_with(logs, &o, numbers, y) != FORNAX_OK);
    fornax_context_close(ctx);
}

FXTEST_MAIN()
