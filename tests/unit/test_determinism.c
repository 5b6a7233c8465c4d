/* test_determinism.c - the same answer, always: greedy and sampled outputs of 16 prompts are
 * bit-equal (ids and log-probabilities) alone, in a batch, with 1, 2 and 3 threads, with prefill
 * chunks of 1, 7, 64 and 512 tokens, with cold and warm prefix cache, with generated kernels, and with so few pages that
 * sequences are preempted.
 *
 * Runs on a tiny checkpoint of each family, and on SmolLM2 where FORNAX_MODEL names it. */
#include "fornax.h"
#include "fxtest.h"

enum { PROMPTS = 16, GEN = 20, MAX_PROMPT = 160, PAGE = 32 };

typedef struct answer {
    int n;
    int32_t ids[GEN];
    float logprobs[GEN];
} answer;

typedef struct setting {
    const char *what;
    int threads, chunk, batch;           /* batch 0: one after another */
    int cached;                          /* prefix cache on, and run twice */
    const char *code;                    /* NULL: "off" */
    int pages;                           /* that all layers have; 0: plenty */
} setting;

static const setting settings[] = {
    { "alone", 1, 512, 0, 0, NULL, 0 },
    { "batch of 16", 1, 512, 1, 0, NULL, 0 },
    { "2 threads", 2, 512, 1, 0, NULL, 0 },
    { "3 threads, alone", 3, 512, 0, 0, NULL, 0 },
    { "chunks of 1", 2, 1, 1, 0, NULL, 0 },
    { "chunks of 7", 2, 7, 1, 0, NULL, 0 },
    { "chunks of 64, alone", 2, 64, 0, 0, NULL, 0 },
    { "warm cache", 2, 512, 1, 1, NULL, 0 },
    { "warm cache, chunks of 7", 3, 7, 0, 1, NULL, 0 },
    { "generated kernels", 2, 64, 1, 0, "now", 0 },
    { "few pages", 2, 64, 1, 1, NULL, 8 },
};

/* Prompts of 1 to 160 ids; every fourth one begins like the one before, so that prefixes are shared. */
static size_t make_prompt(int32_t *ids, int p, int64_t vocab)
{
    size_t n = p == 0 ? 1 : (size_t)(p * 37 % 150 + 10);
    uint32_t x = (uint32_t)(p % 4 == 3 ? p - 1 : p) * 2654435761u + 12345u;

    for (size_t i = 0; i < n; i++) {
        if (i == 70 && p % 4 == 3)
            x += 99;
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)((x >> 8) % (uint32_t)vocab);
    }
    return n;
}

static fornax_request *submit(fornax_engine *engine, int p, int sampled)
{
    fornax_request_options o = FORNAX_OPTIONS(fornax_request_options);
    fornax_error err = { 0 };
    fornax_request *req = NULL;
    int32_t ids[MAX_PROMPT];

    o.ids = ids;
    o.n_ids = make_prompt(ids, p, fornax_model_get_info(fornax_engine_model(engine))->vocab_size);
    o.max_tokens = GEN;
    o.ignore_eos = 1;
    o.logprobs = 1;
    if (sampled) {
        o.temperature = 0.9f;
        o.top_k = 50;
        o.top_p = 0.95f;
        o.min_p = 0.01f;
        o.repetition_penalty = 1.1f;
        o.seed = 1000 + (uint64_t)p;
        o.has_seed = 1;
    }
    CHECK_OK(fornax_request_submit(&req, engine, &o, &err), err);
    return req;
}

static void collect(fornax_request *req, answer *a)
{
    const fornax_event *e;
    fornax_error err = { 0 };

    a->n = 0;
    while (fornax_request_next(req, &e, -1, &err) == FORNAX_OK && e->kind != FORNAX_EVENT_DONE) {
        if (e->kind == FORNAX_EVENT_TOKEN && a->n < GEN) {
            a->ids[a->n] = e->token;
            a->logprobs[a->n++] = e->logprob;
        }
    }
    fornax_request_close(req);
}

static void run_prompts(fornax_engine *engine, const setting *s, answer *out)
{
    fornax_request *reqs[2 * PROMPTS];

    for (int i = 0; i < 2 * PROMPTS; i++) {
        reqs[i] = submit(engine, i % PROMPTS, i / PROMPTS);
        if (!s->batch && reqs[i])
            collect(reqs[i], &out[i]);
    }
    for (int i = 0; s->batch && i < 2 * PROMPTS; i++)
        collect(reqs[i], &out[i]);
}

static void compare(const setting *s, const answer *got, const answer *want)
{
    for (int i = 0; i < 2 * PROMPTS; i++) {
        bool same = got[i].n == GEN && want[i].n == GEN && memcmp(got[i].ids, want[i].ids, sizeof got[i].ids) == 0 &&
                    memcmp(got[i].logprobs, want[i].logprobs, sizeof got[i].logprobs) == 0;
        int k = 0;

        while (k < GEN && got[i].ids[k] == want[i].ids[k] && got[i].logprobs[k] == want[i].logprobs[k])
            k++;
        if (!same)
            FXTEST_FAIL("%s: prompt %d (%s) differs at token %d: %d %.9g, expected %d %.9g", s->what, i % PROMPTS,
                        i < PROMPTS ? "greedy" : "sampled", k, got[i].ids[k % GEN], (double)got[i].logprobs[k % GEN],
                        want[i].ids[k % GEN], (double)want[i].logprobs[k % GEN]);
    }
}

static void run_setting(const char *path, const char *dtype, const char *kv, const setting *s, answer *out)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_engine_stats stats = FORNAX_OPTIONS(fornax_engine_stats);
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;

    if (FXTEST_LLVM[0])
        setenv("FORNAX_LLVM", FXTEST_LLVM, 0);
    co.threads = s->threads;
    mo.dtype = dtype;
    mo.kv_dtype = kv;
    mo.code = s->code ? s->code : "off";
    eo.prefill_chunk = s->chunk;
    eo.max_batch = 2 * PROMPTS;
    eo.no_prefix_cache = !s->cached;
    if (fornax_context_open(&ctx, &co, &err) == FORNAX_OK && fornax_model_open(&model, ctx, path, &mo, &err) == FORNAX_OK) {
        eo.kv_bytes = fornax_model_get_info(model)->kv_bytes_per_token * PAGE * s->pages;
        fornax_engine_open(&engine, model, &eo, &err);
    }
    if (!engine) {
        FXTEST_FAIL("%s: %s", path, err.text);
    } else {
        for (int round = 0; round <= s->cached; round++)
            run_prompts(engine, s, out);
        fornax_engine_get_stats(engine, &stats);
        CHECK(s->cached ? stats.cached_tokens > 0 : stats.cached_tokens == 0);
        CHECK((stats.generated > 0) == (s->code && FXTEST_LLVM[0] && strcmp(fornax_context_cpu(ctx), "scalar") != 0));
    }
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
}

static void check_kv(const char *path, const char *dtype, const char *kv)
{
    static answer want[2 * PROMPTS], got[2 * PROMPTS];

    run_setting(path, dtype, kv, &settings[0], want);
    for (size_t i = 1; i < sizeof settings / sizeof *settings; i++) {
        memset(got, 0, sizeof got);
        run_setting(path, dtype, kv, &settings[i], got);
        compare(&settings[i], got, want);
    }
}

static void check_model(const char *path, const char *dtype) { check_kv(path, dtype, "auto"); }

TEST(qwen3_tiny) { check_model(FXTEST_DATA "/models/qwen3", "auto"); }
TEST(llama_tiny_exact) { check_model(FXTEST_DATA "/models/llama3", "f32"); }

TEST(mistral_tiny_windowed) { check_model(FXTEST_DATA "/models/mistral", "auto"); }
TEST(gemma3_tiny_windows_beside_full) { check_model(FXTEST_DATA "/models/gemma3", "f32"); }
TEST(mamba_tiny_recurrent) { check_model(FXTEST_DATA "/models/mamba", "auto"); }
TEST(mamba2_tiny_recurrent) { check_model(FXTEST_DATA "/models/mamba2", "f32"); }
TEST(lfm2_tiny_hybrid) { check_model(FXTEST_DATA "/models/lfm2", "auto"); }
TEST(qwen3_5_tiny_hybrid) { check_model(FXTEST_DATA "/models/qwen3_5", "auto"); }

TEST(gpt_oss_tiny) { check_model(FXTEST_DATA "/models/gpt_oss", "auto"); }         /* experts, windows, sinks */
TEST(minicpm3_tiny_latent) { check_model(FXTEST_DATA "/models/minicpm3", "f32"); }
TEST(deepseek_v2_tiny) { check_model(FXTEST_DATA "/models/deepseek_v2", "auto"); } /* latent attention, experts */

TEST(mistral_tiny_int8) { check_kv(FXTEST_DATA "/models/mistral", "auto", "int8"); }
TEST(llama_tiny_int8) { check_kv(FXTEST_DATA "/models/llama3", "auto", "int8"); }
TEST(deepseek_v2_tiny_int8) { check_kv(FXTEST_DATA "/models/deepseek_v2", "auto", "int8"); }
TEST(gemma3_tiny_int8) { check_kv(FXTEST_DATA "/models/gemma3", "auto", "int8"); }
TEST(lfm2_tiny_bf16) { check_kv(FXTEST_DATA "/models/lfm2", "auto", "bf16"); }

/* Tokens after one prompt, from an engine with so many pages (0: plenty). */
static int generate_long(fornax_model *model, int64_t pages, int32_t *out, int most, fornax_engine_stats *stats)
{
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_request_options o = FORNAX_OPTIONS(fornax_request_options);
    fornax_error err = { 0 };
    fornax_engine *engine = NULL;
    fornax_request *req = NULL;
    const fornax_event *e;
    int32_t ids[MAX_PROMPT];
    int n = 0;

    eo.step_tokens = eo.prefill_chunk = PAGE;
    eo.max_batch = 1;
    eo.kv_bytes = pages * (int64_t)stats->page_bytes;
    CHECK_OK(fornax_engine_open(&engine, model, &eo, &err), err);
    fornax_engine_get_stats(engine, stats);
    o.ids = ids;
    o.n_ids = make_prompt(ids, 5, fornax_model_get_info(model)->vocab_size);
    o.max_tokens = most;
    o.ignore_eos = 1;
    CHECK_OK(fornax_request_submit(&req, engine, &o, &err), err);
    while (req && fornax_request_next(req, &e, -1, &err) == FORNAX_OK && e->kind != FORNAX_EVENT_DONE)
        if (e->kind == FORNAX_EVENT_TOKEN && n < most)
            out[n++] = e->token;
    fornax_request_close(req);
    fornax_engine_close(engine);
    return n;
}

/* 14 pages of the layer that keeps all, and for each of the five with a window of 16 what that and a step of 32 touch, and three:
 * less than half of what all would need, and the same tokens. */
TEST(gemma3_tiny_keeps_windows_only)
{
    enum { TOKENS = 400, FEW = 14 + 5 * 5 };
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_engine_stats stats = FORNAX_OPTIONS(fornax_engine_stats);
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    int32_t want[TOKENS], got[TOKENS];

    CHECK_OK(fornax_context_open(&ctx, &co, &err), err);
    CHECK_OK(fornax_model_open(&model, ctx, FXTEST_DATA "/models/gemma3", &mo, &err), err);
    CHECK_EQ_I64(generate_long(model, 0, want, TOKENS, &stats), TOKENS);
    CHECK_EQ_I64((int64_t)stats.page_bytes * 6, fornax_model_get_info(model)->kv_bytes_per_token * PAGE);
    CHECK_EQ_I64(generate_long(model, FEW, got, TOKENS, &stats), TOKENS);
    CHECK_EQ_I64(stats.pages_total, FEW);
    CHECK(stats.context_tokens >= 14 * PAGE);
    CHECK(memcmp(want, got, sizeof want) == 0);
    fornax_model_close(model);
    fornax_context_close(ctx);
}

/* Where experts are chosen activations aren't rounded to bf16, and the numerics id doesn't say so. */
TEST(routers_see_unrounded_activations)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;

    mo.dtype = "bf16";
    CHECK_OK(fornax_context_open(&ctx, &co, &err), err);
    CHECK_OK(fornax_model_open(&model, ctx, FXTEST_DATA "/models/granitemoe", &mo, &err), err);
    CHECK(model && strstr(fornax_model_get_info(model)->numerics_id, "+bf16") == NULL);
    fornax_model_close(model);
    fornax_context_close(ctx);
}

TEST(smollm2)
{
    const char *path = getenv("FORNAX_MODEL"), *level = getenv("FORNAX_CPU");

    if (!path || !*path)
        SKIP("FORNAX_MODEL doesn't name SmolLM2");
    if (level && strcmp(level, "scalar") == 0)
        SKIP("the reference kernels need hours for SmolLM2; the tiny checkpoints above ran on them");
    check_model(path, "auto");
}

FXTEST_MAIN()
