/* test_generated.c - generated kernels in the place of hand-written ones: the same bits for each family of models, made
 * beside a model's work, kept, found, and done without where they can't be. */
#include <dirent.h>
#include <unistd.h>

#include "api/api.h"
#include "fxtest.h"

enum { TOKENS = 70 };

static bool has_llvm(void)
{
    fx_codegen *cg = NULL;
    fx_error err;
    bool has;

    if (FXTEST_LLVM[0])
        setenv("FORNAX_LLVM", FXTEST_LLVM, 0);
    has = fx_codegen_open(&cg, &fx_mem_libc, getenv("FORNAX_LLVM"), &err) == FORNAX_OK;
    fx_codegen_close(cg);
    return has;
}

static bool has_code(void)
{
    const char *level = getenv("FORNAX_CPU");

    return has_llvm() && !(level && strcmp(level, "scalar") == 0) &&
           fx_target_of_level(&(fx_target){ 0 }, fx_cpu_detect().level, NULL) == FORNAX_OK;
}

/* ---- Bits ---- */

typedef struct numbers {
    float *at;
    size_t n, room;
} numbers;

static void put(numbers *v, const float *at, size_t n)
{
    if (v->n + n > v->room) {
        v->room = 2 * (v->n + n);
        v->at = realloc(v->at, v->room * sizeof(float));
    }
    memcpy(v->at + v->n, at, n * sizeof(float));
    v->n += n;
}

static int put_logits(void *user, int64_t position, const float *logits, int64_t vocab)
{
    (void)position;
    put(user, logits, (size_t)vocab);
    return 0;
}

/* Many rows with logits, some, one. */
static void evaluate(fornax_model *m, numbers *out)
{
    static const size_t lengths[] = { TOKENS, 5, 1 };
    int64_t vocab = fornax_model_get_info(m)->vocab_size;
    fornax_error err = { 0 };
    int32_t ids[TOKENS];

    for (int i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((uint32_t)(i + 3) * 2654435761u % (uint32_t)vocab);
    for (size_t i = 0; i < FX_COUNT(lengths); i++)
        CHECK_OK(fornax_model_evaluate(m, ids, lengths[i], i == 0 ? 0 : lengths[i] / 2, put_logits, out, &err), err);
}

static void embed(fornax_model *m, numbers *out)
{
    static const char *const texts[] = { "Hello", "a longer text, which has a few more words than the first one" };
    fornax_embed_options o = FORNAX_OPTIONS(fornax_embed_options);
    fornax_embed_input in[2];
    fornax_embeddings *e = NULL;
    fornax_error err = { 0 };

    for (int i = 0; i < 2; i++)
        in[i] = (fornax_embed_input){ .text = texts[i], .n = strlen(texts[i]) };
    CHECK_OK(fornax_embed(&e, m, in, 2, &o, &err), err);
    for (size_t i = 0; e && i < 2; i++)
        put(out, fornax_embeddings_row(e, i), (size_t)fornax_embeddings_dim(e));
    fornax_embeddings_close(e);
}

/* The same with an adapter that adds to products and to the lookup, by which a call's launch has jobs before or behind it. */
static void adapt(fornax_model *m, numbers *out)
{
    fornax_adapter *a = NULL;
    fornax_error err = { 0 };
    int32_t ids[TOKENS];

    for (int i = 0; i < TOKENS; i++)
        ids[i] = i * 7 % 500;
    CHECK_OK(fornax_adapter_open(&a, m, FXTEST_DATA "/lora/wide", NULL, &err), err);
    for (size_t n = 1; a && n <= TOKENS; n += TOKENS - 1)
        CHECK_OK(fornax_adapter_evaluate(a, ids, n, n / 2, put_logits, out, &err), err);
    fornax_adapter_close(a);
}

/* With generated kernels or without; how many of their calls the model has. */
static int32_t compute(const char *path, const char *dtype, const char *code, numbers *out)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_context *ctx = NULL;
    fornax_model *m = NULL;
    fornax_error err = { 0 };
    int32_t calls = 0;

    co.threads = 2;
    mo.code = code;
    mo.dtype = dtype;
    mo.adapters = strstr(path, "/lora_llama3") != NULL;
    CHECK_OK(fornax_context_open(&ctx, &co, &err), err);
    CHECK_OK(fornax_model_open(&m, ctx, path, &mo, &err), err);
    if (m) {
        CHECK(fx_program_has_code(m->program) == (m->code != NULL));
        calls = m->code ? fx_program_calls(m->program)->n_calls : 0;
        if (mo.adapters)
            adapt(m, out);
        if (m->hidden)
            embed(m, out);
        else
            evaluate(m, out);
    }
    fornax_model_close(m);
    fornax_context_close(ctx);
    return calls;
}

/* In the first n modes. */
static void check_bits(const char *path, size_t n)
{
    static const char *const dtypes[] = { "auto", "f32", "bf16" };

    for (size_t i = 0; i < n; i++) {
        numbers want = { 0 }, got = { 0 };

        CHECK_EQ_I64(compute(path, dtypes[i], "off", &want), 0);
        if (compute(path, dtypes[i], "now", &got) <= 0)
            FXTEST_FAIL("%s, %s: nothing is generated", path, dtypes[i]);
        if (want.n == 0 || got.n != want.n || memcmp(got.at, want.at, want.n * sizeof(float)) != 0)
            FXTEST_FAIL("%s, %s: generated kernels give other bits", path, dtypes[i]);
        free(want.at);
        free(got.at);
    }
}

static void check_folder(const char *folder)
{
    char path[600];
    DIR *d = opendir(folder);
    const struct dirent *e;
    int n = 0;

    REQUIRE(d);
    while ((e = readdir(d))) {
        snprintf(path, sizeof path, "%s/%s/config.json", folder, e->d_name);
        if (e->d_name[0] == '.' || access(path, R_OK) != 0)
            continue;
        *strrchr(path, '/') = 0;
        check_bits(path, strstr(path, "/llama3") || strstr(path, "/gpt_oss") ? 3 : 1);
        n++;
    }
    closedir(d);
    CHECK(n > 2);
}

TEST(generated_kernels_give_the_same_bits)
{
    if (!has_code())
        SKIP("no LLVM, or no code for this machine");
    check_folder(FXTEST_DATA "/models");
    check_folder(FXTEST_DATA "/embed");
}

TEST(smollm2)
{
    const char *path = getenv("FORNAX_MODEL");

    if (!path || !*path)
        SKIP("FORNAX_MODEL doesn't name SmolLM2");
    if (!has_code())
        SKIP("no LLVM, or no code for the level");
    check_bits(path, 1);
}

/* ---- Launches of a layer ---- */

typedef struct layer {
    int n, generated;            /* launches of a decode step between two attentions; generated ones */
    int shared;                  /* those that threads share: only they cost a barrier */
} layer;

static layer count_layer(const fx_program *p)
{
    const fx_plan *plan = fx_program_plan(p);
    const fx_plan_calls *calls = fx_program_calls(p);
    layer out = { 0 };
    int32_t at = 0, c = 0;

    while (at < plan->n_launches && plan->launches[at].op != FX_L_ATTEND)
        at++;
    do {
        fx_launch_op op = plan->launches[at].op;

        while (c < calls->n_calls && calls->calls[c].first < at)
            c++;
        out.n += !plan->launches[at].beside;
        out.shared += (op == FX_L_MATMUL && !plan->launches[at].beside) || op == FX_L_ATTEND;
        if (c < calls->n_calls && calls->calls[c].first == at) {
            out.generated += !calls->calls[c].epilogue;
            at += calls->calls[c].n;
        } else {
            at++;
        }
    } while (at < plan->n_launches && plan->launches[at].op != FX_L_ATTEND);
    return out;
}

static void check_layer(const char *path, layer want)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_context *ctx = NULL;
    fornax_model *m = NULL;
    fornax_error err = { 0 };

    CHECK_OK(fornax_context_open(&ctx, &co, &err), err);
    CHECK_OK(fornax_model_open(&m, ctx, path, NULL, &err), err);
    if (m && fx_program_calls(m->program)) {
        layer got = count_layer(m->program);

        if (got.n != want.n || got.generated != want.generated || got.shared != want.shared)
            FXTEST_FAIL("%s: a layer has %d launches, %d generated, %d shared; expected %d, %d, %d", path, got.n, got.generated,
                        got.shared, want.n, want.generated, want.shared);
    }
    CHECK(!m || fx_program_calls(m->program) || strcmp(fornax_context_cpu(ctx), "scalar") == 0);
    fornax_model_close(m);
    fornax_context_close(ctx);
}

TEST(launches_of_a_layer)
{
    const char *smol = getenv("FORNAX_MODEL");

    check_layer(FXTEST_DATA "/models/llama3", (layer){ 8, 3, 5 });
    check_layer(FXTEST_DATA "/models/qwen3", (layer){ 8, 3, 5 });
    check_layer(FXTEST_DATA "/embed/nomic_bert", (layer){ 8, 3, 5 });
    check_layer(FXTEST_DATA "/embed/xlm_roberta", (layer){ 8, 2, 5 });   /* nothing turns */
    if (smol && *smol)                   /* in blocks: norms, attention and products round what they make */
        check_layer(smol, (layer){ 8, 3, 5 });
}

/* ---- Beside a model's work ---- */

typedef struct running {
    fornax_context *ctx;
    fornax_model *model;
    fornax_engine *engine;
} running;

static void start(running *r, const char *dir, const char *code)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_error err = { 0 };

    *r = (running){ 0 };
    co.threads = 2;
    co.cache_dir = dir;
    co.cache_min_bytes = 1;
    mo.code = code;
    eo.no_prefix_cache = 1;
    CHECK_OK(fornax_context_open(&r->ctx, &co, &err), err);
    CHECK_OK(fornax_model_open(&r->model, r->ctx, FXTEST_DATA "/models/llama3", &mo, &err), err);
    CHECK_OK(fornax_engine_open(&r->engine, r->model, &eo, &err), err);
}

static void stop(running *r)
{
    fornax_engine_close(r->engine);
    fornax_model_close(r->model);
    fornax_context_close(r->ctx);
}

static uint64_t generated(const running *r)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);

    fornax_engine_get_stats(r->engine, &s);
    return s.generated;
}

typedef struct answer {
    int n;
    int32_t ids[40];
    float logprobs[40];
} answer;

static void ask(running *r, answer *a)
{
    static const int32_t prompt[] = { 5, 17, 200, 31, 64, 9 };
    fornax_request_options o = FORNAX_OPTIONS(fornax_request_options);
    fornax_request *req = NULL;
    fornax_error err = { 0 };
    const fornax_event *e;

    *a = (answer){ 0 };
    o.ids = prompt;
    o.n_ids = FX_COUNT(prompt);
    o.max_tokens = (int)FX_COUNT(a->ids);
    o.ignore_eos = o.logprobs = 1;
    CHECK_OK(fornax_request_submit(&req, r->engine, &o, &err), err);
    while (req && fornax_request_next(req, &e, -1, &err) == FORNAX_OK && e->kind != FORNAX_EVENT_DONE) {
        if (e->kind == FORNAX_EVENT_TOKEN && a->n < (int)FX_COUNT(a->ids)) {
            a->ids[a->n] = e->token;
            a->logprobs[a->n++] = e->logprob;
        }
    }
    fornax_request_close(req);
}

static void remove_folder(const char *dir)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK(system(command) == 0);
}

/* The first start makes code while it answers, and its answers stay what they are; the next one has it at once. */
TEST(code_comes_between_two_steps)
{
    char dir[] = "/tmp/fx-generated-XXXXXX";
    answer want, got;
    running r;

    if (!has_code())
        SKIP("no LLVM, or no code for this machine");
    CHECK(mkdtemp(dir) != NULL);
    start(&r, dir, "off");
    ask(&r, &want);
    CHECK(want.n == (int)FX_COUNT(want.ids));
    CHECK_EQ_U64(generated(&r), 0);
    stop(&r);

    start(&r, dir, "auto");
    for (int i = 0; i < 100000 && generated(&r) == 0; i++) {
        ask(&r, &got);
        CHECK_MEM(&got, &want, sizeof want);
    }
    CHECK(generated(&r) > 0);
    ask(&r, &got);
    CHECK_MEM(&got, &want, sizeof want);
    stop(&r);

    start(&r, dir, "auto");
    CHECK(fx_program_has_code(r.model->program));
    ask(&r, &got);
    CHECK_MEM(&got, &want, sizeof want);
    CHECK(generated(&r) > 0);
    stop(&r);
    remove_folder(dir);
}

/* A model that is closed at once waits for what it makes, which the next start has. */
TEST(closed_while_it_is_made)
{
    char dir[] = "/tmp/fx-generated-XXXXXX";
    running r;

    if (!has_code())
        SKIP("no LLVM, or no code for this machine");
    CHECK(mkdtemp(dir) != NULL);
    start(&r, dir, "auto");
    stop(&r);
    start(&r, dir, "auto");
    CHECK(fx_program_has_code(r.model->program));
    stop(&r);
    remove_folder(dir);
}

/* Where code can't be made hand-written kernels do all the work; who insists gets the reason. */
TEST(without_llvm)
{
    const char *path = getenv("FORNAX_LLVM");
    char dir[] = "/tmp/fx-generated-XXXXXX", old[600];
    fornax_error err = { 0 };
    answer want, got;
    running r;

    snprintf(old, sizeof old, "%s", path ? path : "");
    setenv("FORNAX_LLVM", "/nowhere/libfornax-llvm.so", 1);
    CHECK(mkdtemp(dir) != NULL);
    start(&r, dir, "off");
    ask(&r, &want);
    CHECK(fornax_model_compile(r.model, &err) == FORNAX_EARG && strcmp(err.param, "code") == 0);
    stop(&r);
    start(&r, dir, "now");
    ask(&r, &got);
    CHECK_MEM(&got, &want, sizeof want);
    CHECK_EQ_U64(generated(&r), 0);
    CHECK(fornax_model_compile(r.model, &err) == FORNAX_EUNSUP);
    CHECK(has_code() || strstr(err.text, "/nowhere/libfornax-llvm.so") || strstr(err.text, "level"));
    stop(&r);
    if (*old)
        setenv("FORNAX_LLVM", old, 1);
    else
        unsetenv("FORNAX_LLVM");
    remove_folder(dir);
}

TEST(the_option_is_checked)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_context *ctx = NULL;
    fornax_model *m = NULL;
    fornax_error err = { 0 };

    mo.code = "soon";
    CHECK_OK(fornax_context_open(&ctx, &co, &err), err);
    CHECK(fornax_model_open(&m, ctx, FXTEST_DATA "/models/llama3", &mo, &err) == FORNAX_EARG);
    CHECK(strcmp(err.param, "code") == 0 && strstr(err.text, "soon"));
    fornax_context_close(ctx);
}

FXTEST_MAIN()
