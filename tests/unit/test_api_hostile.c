/* test_api_hostile.c - the public interface in the hands of a caller who gets everything wrong:
 * NULL, zero, huge and negative options, events after close, cancels from many threads, callbacks
 * that submit and close, memory that runs out at every allocation in turn, a forked child.
 *
 * Tables of options say which field is refused ("" : accepted).  Runs on the tiny Qwen3, whose
 * vocabulary and context are 512. */
#include <float.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fornax.h"
#include "fxtest.h"

#define MODEL FXTEST_DATA "/models/qwen3"
#define TEMPLATE_MODEL FXTEST_DATA "/models/llama3"
enum { VOCAB = 512, CONTEXT = 512 };

static const int32_t prompt_ids[] = { 39, 472, 364, 11, 12, 13 };
#define N_PROMPT (sizeof prompt_ids / sizeof *prompt_ids)

typedef struct world {
    fornax_context *ctx;
    fornax_model *model;
    fornax_engine *engine;
    fornax_error err;
} world;

static bool open_world(world *w, const char *path, const fornax_engine_options *eo)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);

    memset(w, 0, sizeof *w);
    co.threads = 2;
    if (fornax_context_open(&w->ctx, &co, &w->err) || fornax_model_open(&w->model, w->ctx, path, NULL, &w->err) ||
        fornax_engine_open(&w->engine, w->model, eo, &w->err)) {
        FXTEST_FAIL("%s: %s", path, w->err.text);
        return false;
    }
    return true;
}

static void close_world(world *w)
{
    fornax_engine_close(w->engine);
    fornax_model_close(w->model);
    fornax_context_close(w->ctx);
}

static fornax_request_options usual(void)
{
    fornax_request_options o = FORNAX_OPTIONS(fornax_request_options);

    o.ids = prompt_ids;
    o.n_ids = N_PROMPT;
    o.max_tokens = 8;
    o.ignore_eos = 1;
    return o;
}

/* A failed call says which option, in one sentence, and leaves *out alone but for NULL. */
static void check_refused_(const char *what, fornax_status st, const void *out, const fornax_error *err,
                          fornax_status want, const char *param)
{
    if (st != want || out || err->status != st || strcmp(err->param, param) != 0 || strlen(err->text) < 8 ||
        strchr(err->text, '\n'))
        FXTEST_FAIL("%s: %s, param \"%s\", \"%s\"; expected %s of \"%s\"", what, fornax_status_name(st), err->param,
                    err->text, fornax_status_name(want), param);
}

/* 'out' is looked at after the call. */
#define check_refused(what, call, out, err, want, param)                  \
    do {                                                                  \
        fornax_status st_ = (call);                                       \
        check_refused_(what, st_, out, err, want, param);                 \
    } while (0)

/* Takes events to the end; the status of DONE. */
typedef struct tally {
    int tokens, finished, done;
    fornax_status status;
    fornax_finish finish;
    int64_t generated;
    char text[4096], error[256], stop[64];
} tally;

static void drain(fornax_request *r, tally *t)
{
    const fornax_event *e;
    fornax_error err = { 0 };
    fornax_status st;

    memset(t, 0, sizeof *t);
    while ((st = fornax_request_next(r, &e, 20000, &err)) == FORNAX_OK) {
        t->tokens += e->kind == FORNAX_EVENT_TOKEN;
        t->finished += e->kind == FORNAX_EVENT_FINISH;
        if (strlen(t->text) + e->text_n < sizeof t->text)
            strcat(t->text, e->text);
        if (e->stop_string)
            snprintf(t->stop, sizeof t->stop, "%s", e->stop_string);
        if (e->kind == FORNAX_EVENT_DONE) {
            t->done++;
            t->status = e->status;
            t->finish = e->finish;
            t->generated = e->generated_tokens;
            snprintf(t->error, sizeof t->error, "%s", e->error ? e->error : "");
        }
    }
    if (st != FORNAX_ENOTFOUND || t->done != 1)
        FXTEST_FAIL("%s: %s; %d last events", fornax_status_name(st), err.text, t->done);
}

static void run(fornax_engine *engine, const fornax_request_options *o, tally *t)
{
    fornax_error err = { 0 };
    fornax_request *r = NULL;

    memset(t, 0, sizeof *t);
    CHECK_OK(fornax_request_submit(&r, engine, o, &err), err);
    if (r)
        drain(r, t);
    fornax_request_close(r);
}

static int count_rows(void *user, int64_t position, const float *logits, int64_t vocab);

/* ---- NULL, and paths that are none ------------------------------------------------------- */

TEST(null_is_an_error_of_the_caller)
{
    world w;
    fornax_error err = { 0 };
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    fornax_request *req = NULL;
    fornax_session *session = NULL;
    fornax_tokenizer *tok = NULL;
    fornax_prompt *prompt = NULL;
    fornax_text *text = NULL;
    fornax_adapter *adapter = NULL;
    fornax_embeddings *vectors = NULL;
    const fornax_embed_input input = { .text = "a", .n = 1 };
    fornax_request_options o = usual();
    const fornax_tokenizer *t;
    int32_t ids[4];
    size_t n;
    int did;

    if (!open_world(&w, MODEL, NULL))
        return;
    t = fornax_model_tokenizer(w.model);
#define REFUSED(param, out, call) check_refused(#call, call, out, &err, FORNAX_EARG, param)
    REFUSED("ctx", model, fornax_model_open(&model, NULL, MODEL, NULL, &err));
    REFUSED("path", model, fornax_model_open(&model, w.ctx, NULL, NULL, &err));
    REFUSED("ctx", text, fornax_inspect(&text, NULL, MODEL, 0, &err));
    REFUSED("path", text, fornax_inspect(&text, w.ctx, NULL, 0, &err));
    REFUSED("ctx", tok, fornax_tokenizer_open(&tok, NULL, MODEL, &err));
    REFUSED("path", tok, fornax_tokenizer_open(&tok, w.ctx, NULL, &err));
    REFUSED("model", NULL, fornax_model_evaluate(NULL, prompt_ids, 1, 0, NULL, NULL, &err));
    REFUSED("ids", NULL, fornax_model_evaluate(w.model, NULL, 1, 0, NULL, NULL, &err));
    REFUSED("each", NULL, fornax_model_evaluate(w.model, prompt_ids, 1, 0, NULL, NULL, &err));
    REFUSED("tok", NULL, fornax_tokenize(NULL, "a", 1, 0, ids, 4, &n, &err));
    REFUSED("text", NULL, fornax_tokenize(t, NULL, 1, 0, ids, 4, &n, &err));
    REFUSED("text", NULL, fornax_tokenize(t, NULL, SIZE_MAX, 0, ids, 4, &n, &err));
    REFUSED("ids", NULL, fornax_tokenize(t, "abc", 3, 0, NULL, 4, &n, &err));
    REFUSED("flags", NULL, fornax_tokenize(t, "abc", 3, 4, ids, 4, &n, &err));
    REFUSED("tok", text, fornax_detokenize(NULL, ids, 1, 0, &text, &err));
    REFUSED("ids", text, fornax_detokenize(t, NULL, 1, 0, &text, &err));
    REFUSED("tok", prompt, fornax_prompt_render(&prompt, NULL, "{}", 2, &err));
    REFUSED("json", prompt, fornax_prompt_render(&prompt, t, NULL, 2, &err));
    REFUSED("model", engine, fornax_engine_open(&engine, NULL, NULL, &err));
    REFUSED("engine", NULL, fornax_engine_step(NULL, &did, &err));
    REFUSED("engine", req, fornax_request_submit(&req, NULL, &o, &err));
    REFUSED("opt", req, fornax_request_submit(&req, w.engine, NULL, &err));
    REFUSED("engine", session, fornax_session_open(&session, NULL, NULL, &err));
    REFUSED("model", adapter, fornax_adapter_open(&adapter, NULL, MODEL, NULL, &err));
    REFUSED("path", adapter, fornax_adapter_open(&adapter, w.model, NULL, NULL, &err));
    REFUSED("adapter", NULL, fornax_adapter_evaluate(NULL, prompt_ids, 1, 0, count_rows, &did, &err));
    REFUSED("model", vectors, fornax_embed(&vectors, NULL, &input, 1, NULL, &err));
    REFUSED("inputs", vectors, fornax_embed(&vectors, w.model, NULL, 1, NULL, &err));
    REFUSED("in", NULL, fornax_quantize(w.ctx, NULL, "/tmp/x.gguf", NULL, &err));
    REFUSED("ctx", NULL, fornax_quantize(NULL, MODEL, "/tmp/x.gguf", NULL, &err));
    CHECK_OK(fornax_session_open(&session, w.engine, NULL, &err), err);
    REFUSED("text", NULL, fornax_session_say(session, NULL, NULL, NULL, &err));
    REFUSED("session", NULL, fornax_session_say(NULL, "hello", NULL, NULL, &err));
    CHECK_EQ_I64(fornax_tokenize(t, NULL, 0, 0, NULL, 0, &n, NULL), FORNAX_OK);
    CHECK_EQ_U64(n, 0);
    CHECK_EQ_I64(fornax_model_open(&model, NULL, MODEL, NULL, NULL), FORNAX_EARG);
    fornax_session_close(session);
    fornax_session_close(NULL);
    fornax_request_close(NULL);
    fornax_prompt_close(NULL);
    fornax_text_close(NULL);
    fornax_tokenizer_close(NULL);
    fornax_engine_close(NULL);
    fornax_model_close(NULL);
    fornax_context_close(NULL);
    close_world(&w);
}

TEST(counts_may_be_left_out)
{
    world w;
    fornax_error err = { 0 };
    fornax_prompt *prompt = NULL;
    const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}";

    if (!open_world(&w, TEMPLATE_MODEL, NULL))
        return;
    const fornax_tokenizer *t = fornax_model_tokenizer(w.model);
    CHECK(fornax_token_bytes(t, 5, NULL) != NULL);
    CHECK_OK(fornax_prompt_render(&prompt, t, json, SIZE_MAX, &err), err);
    if (prompt)
        CHECK(fornax_prompt_ids(prompt, NULL) != NULL && fornax_prompt_text(prompt, NULL) != NULL);
    fornax_prompt_close(prompt);
    close_world(&w);
}

TEST(paths)
{
    static const struct { const char *path; fornax_status want; } rows[] = {
        { "", FORNAX_ENOTFOUND }, { "/nowhere/at/all", FORNAX_ENOTFOUND }, { "/dev/null", FORNAX_EFORMAT },
        { "/tmp", FORNAX_ENOTFOUND }, { FXTEST_DATA "/models/qwen3/config.json/", FORNAX_EIO },
        { FXTEST_DATA "/models/qwen3/model.safetensors", FORNAX_EUNSUP },
    };
    char fifo[] = "/tmp/fxhostileXXXXXX", deep[8192];
    fornax_context *ctx = NULL;
    fornax_error err = { 0 };
    fornax_model *m = NULL;
    fornax_tokenizer *t = NULL;

    REQUIRE(fornax_context_open(&ctx, NULL, &err) == FORNAX_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fornax_status st = fornax_model_open(&m, ctx, rows[i].path, NULL, &err);

        if (st == FORNAX_OK || m || (rows[i].want != FORNAX_EIO && rows[i].want != FORNAX_EFORMAT && st != rows[i].want))
            FXTEST_FAIL("\"%s\": %s: %s", rows[i].path, fornax_status_name(st), err.text);
        CHECK(fornax_tokenizer_open(&t, ctx, rows[i].path, &err) != FORNAX_OK && !t);
    }
    close(mkstemp(fifo));
    unlink(fifo);
    REQUIRE(mkfifo(fifo, 0600) == 0);
    CHECK(fornax_model_open(&m, ctx, fifo, NULL, &err) != FORNAX_OK);   /* and doesn't wait for a writer */
    CHECK(strstr(err.text, fifo) != NULL);
    unlink(fifo);
    memset(deep, 'a', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    CHECK(fornax_model_open(&m, ctx, deep, NULL, &err) != FORNAX_OK);
    fornax_context_close(ctx);
}

/* ---- Options ------------------------------------------------------------------------------ */

TEST(contexts)
{
    struct { fornax_context_options o; char more[64]; } newer = { .o = { .size = sizeof newer } };
    static const struct { size_t size; int threads; const char *cpu; fornax_status want; const char *param; } rows[] = {
        { 0, 0, NULL, FORNAX_EARG, "size" },
        { 7, 0, NULL, FORNAX_EARG, "size" },
        { SIZE_MAX, 0, NULL, FORNAX_EARG, "size" },
        { sizeof(fornax_context_options), -1, NULL, FORNAX_EARG, "threads" },
        { sizeof(fornax_context_options), INT32_MAX, NULL, FORNAX_EARG, "threads" },
        { sizeof(fornax_context_options), INT32_MIN, NULL, FORNAX_EARG, "threads" },
        { sizeof(fornax_context_options), 1, "pentium", FORNAX_EARG, "cpu" },
        { sizeof(fornax_context_options), 1, "AVX2 ", FORNAX_EARG, "cpu" },
        { sizeof(size_t), INT32_MIN, "pentium", FORNAX_OK, "" },      /* of an older header: not there */
    };
    fornax_context *ctx;
    fornax_error err;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fornax_context_options o = { .size = rows[i].size, .threads = rows[i].threads, .cpu = rows[i].cpu };
        fornax_status st;

        memset(&err, 0, sizeof err);
        st = fornax_context_open(&ctx, &o, &err);
        if (rows[i].want)
            check_refused(rows[i].cpu ? rows[i].cpu : "context", st, ctx, &err, rows[i].want, rows[i].param);
        else
            CHECK_OK(st, err);
        fornax_context_close(ctx);
    }
    CHECK_OK(fornax_context_open(&ctx, &newer.o, &err), err);
    fornax_context_close(ctx);
    newer.more[63] = 1;
    check_refused("newer", fornax_context_open(&ctx, &newer.o, &err), ctx, &err, FORNAX_EUNSUP, "size");
}

static int stop_loading(void *user, double fraction)
{
    int *calls = user;

    CHECK(fraction >= 0 && fraction <= 1);
    return --*calls == 0;
}

TEST(models)
{
    static const struct {
        const char *dtype, *kv, *template;
        int64_t max_context;
        fornax_status want;
        const char *param;
    } rows[] = {
        { "", NULL, NULL, 0, FORNAX_EARG, "dtype" },
        { "F32", NULL, NULL, 0, FORNAX_EARG, "dtype" },
        { "int8", NULL, NULL, 0, FORNAX_EARG, "dtype" },
        { NULL, "", NULL, 0, FORNAX_EARG, "kv_dtype" },
        { NULL, "i8", NULL, 0, FORNAX_EARG, "kv_dtype" },
        { NULL, NULL, NULL, -1, FORNAX_EARG, "max_context" },
        { NULL, NULL, NULL, CONTEXT + 1, FORNAX_EARG, "max_context" },
        { NULL, NULL, NULL, INT64_MAX, FORNAX_EARG, "max_context" },
        { NULL, NULL, NULL, INT64_MIN, FORNAX_EARG, "max_context" },
        { "auto", "auto", "{{ 1 }}", CONTEXT, FORNAX_OK, "" },
        { "f32", "f16", "", 1, FORNAX_OK, "" },
        { "bf16", "f32", NULL, 33, FORNAX_OK, "" },
        { "f16", NULL, NULL, 0, FORNAX_OK, "" },
        { NULL, "bf16", NULL, 0, FORNAX_OK, "" },
        { "f32", "int8", NULL, 0, FORNAX_OK, "" },
    };
    fornax_context *ctx = NULL;
    fornax_model *m;
    fornax_error err = { 0 };
    int left;

    REQUIRE(fornax_context_open(&ctx, NULL, &err) == FORNAX_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fornax_model_options o = FORNAX_OPTIONS(fornax_model_options);
        fornax_status st;

        o.dtype = rows[i].dtype;
        o.kv_dtype = rows[i].kv;
        o.chat_template = rows[i].template;
        o.max_context = rows[i].max_context;
        memset(&err, 0, sizeof err);
        st = fornax_model_open(&m, ctx, MODEL, &o, &err);
        if (rows[i].want)
            check_refused(rows[i].param, st, m, &err, rows[i].want, rows[i].param);
        else
            CHECK_OK(st, err);
        fornax_model_close(m);
    }
    for (int at = 1; at < 12; at += 5) {
        fornax_model_options o = FORNAX_OPTIONS(fornax_model_options);

        left = at;
        o.progress = stop_loading;
        o.progress_user = &left;
        check_refused("progress", fornax_model_open(&m, ctx, MODEL, &o, &err), m, &err, FORNAX_ECANCEL, "");
    }
    fornax_context_close(ctx);
}

TEST(engines)
{
    static const struct {
        int manual, max_batch, step_tokens, chunk, queue, page, no_cache;
        int64_t kv, snapshots;
        fornax_status want;
        const char *param;
    } rows[] = {
        { .manual = -1, .want = FORNAX_EARG, .param = "manual" },
        { .manual = 2, .want = FORNAX_EARG, .param = "manual" },
        { .max_batch = -1, .want = FORNAX_EARG, .param = "max_batch" },
        { .max_batch = INT32_MAX, .want = FORNAX_EARG, .param = "max_batch" },
        { .max_batch = 8, .step_tokens = 4, .want = FORNAX_EARG, .param = "max_batch" },
        { .step_tokens = INT32_MIN, .want = FORNAX_EARG, .param = "step_tokens" },
        { .step_tokens = INT32_MAX, .want = FORNAX_EARG, .param = "step_tokens" },
        { .chunk = -1, .want = FORNAX_EARG, .param = "prefill_chunk" },
        { .queue = -1, .want = FORNAX_EARG, .param = "queue_limit" },
        { .kv = -1, .want = FORNAX_EARG, .param = "kv_bytes" },
        { .kv = 1, .want = FORNAX_EARG, .param = "kv_bytes" },
        { .kv = INT64_MAX, .want = FORNAX_ENOMEM, .param = "kv_bytes" },
        { .page = -32, .want = FORNAX_EARG, .param = "page_tokens" },
        { .page = 31, .want = FORNAX_EUNSUP, .param = "page_tokens" },
        { .page = INT32_MAX, .want = FORNAX_EUNSUP, .param = "page_tokens" },
        { .no_cache = 7, .want = FORNAX_EARG, .param = "no_prefix_cache" },
        { .snapshots = -1, .want = FORNAX_EARG, .param = "snapshot_bytes" },
        { .max_batch = 1, .step_tokens = 1, .chunk = 1, .queue = 1, .kv = 1 << 20, .snapshots = INT64_MAX },
        { .max_batch = 300, .step_tokens = 300, .chunk = INT32_MAX, .queue = INT32_MAX },
    };
    world w;

    if (!open_world(&w, MODEL, NULL))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fornax_engine_options o = FORNAX_OPTIONS(fornax_engine_options);
        fornax_engine *e;
        fornax_error err = { 0 };
        fornax_status st;

        o.manual = rows[i].manual;
        o.max_batch = rows[i].max_batch;
        o.step_tokens = rows[i].step_tokens;
        o.prefill_chunk = rows[i].chunk;
        o.queue_limit = rows[i].queue;
        o.page_tokens = rows[i].page;
        o.no_prefix_cache = rows[i].no_cache;
        o.kv_bytes = rows[i].kv;
        o.snapshot_bytes = rows[i].snapshots;
        st = fornax_engine_open(&e, w.model, &o, &err);
        if (rows[i].want) {
            check_refused(rows[i].param, st, e, &err, rows[i].want, rows[i].param);
        } else {
            fornax_request_options ro = usual();
            tally t;

            CHECK_OK(st, err);
            if (e)
                run(e, &ro, &t);
            CHECK_EQ_I64(t.generated, 8);
        }
        fornax_engine_close(e);
    }
    close_world(&w);
}

/* ---- Requests ------------------------------------------------------------------------------ */

static const fornax_string no_text = { NULL, 3 }, empty = { "", 0 }, broken = { "a\xff", 2 }, fine = { "zz", SIZE_MAX };
static const fornax_logit_bias bias_low = { -1, 0 }, bias_high = { VOCAB, 0 }, bias_nan = { 3, NAN },
                               bias_inf = { 3, INFINITY }, bias_ban = { 3, -INFINITY }, bias_big = { 3, FLT_MAX };
static const int32_t id_low[] = { 5, -1 }, id_high[] = { VOCAB };

static const struct request_row {
    const char *param;           /* "": accepted */
    fornax_status want;
    fornax_request_options o;    /* what isn't 0 replaces the usual */
} request_rows[] = {
    { "temperature", FORNAX_EARG, { .temperature = -0.1f } },
    { "temperature", FORNAX_EARG, { .temperature = NAN } },
    { "temperature", FORNAX_EARG, { .temperature = INFINITY } },
    { "top_k", FORNAX_EARG, { .top_k = -1 } },
    { "top_p", FORNAX_EARG, { .top_p = 1.5f } },
    { "top_p", FORNAX_EARG, { .top_p = NAN } },
    { "top_p", FORNAX_EARG, { .top_p = -0.0001f } },
    { "min_p", FORNAX_EARG, { .min_p = 1.01f } },
    { "min_p", FORNAX_EARG, { .min_p = NAN } },
    { "repetition_penalty", FORNAX_EARG, { .repetition_penalty = -1 } },
    { "repetition_penalty", FORNAX_EARG, { .repetition_penalty = NAN } },
    { "frequency_penalty", FORNAX_EARG, { .frequency_penalty = 2.5f } },
    { "presence_penalty", FORNAX_EARG, { .presence_penalty = -INFINITY } },
    { "max_tokens", FORNAX_EARG, { .max_tokens = -2 } },
    { "max_tokens", FORNAX_EARG, { .max_tokens = INT64_MIN } },
    { "min_tokens", FORNAX_EARG, { .min_tokens = -1 } },
    { "min_tokens", FORNAX_EARG, { .max_tokens = 4, .min_tokens = 5 } },
    { "n", FORNAX_EARG, { .n = -1 } },
    { "n", FORNAX_EARG, { .n = 65 } },
    { "n", FORNAX_EARG, { .n = INT32_MAX } },
    { "logprobs", FORNAX_EARG, { .logprobs = 2 } },
    { "top_logprobs", FORNAX_EARG, { .top_logprobs = 1 } },
    { "top_logprobs", FORNAX_EARG, { .logprobs = 1, .top_logprobs = 21 } },
    { "top_logprobs", FORNAX_EARG, { .logprobs = 1, .top_logprobs = -1 } },
    { "prompt_logprobs", FORNAX_EUNSUP, { .prompt_logprobs = 1 } },
    { "deadline_ms", FORNAX_EARG, { .deadline_ms = -1 } },
    { "ids", FORNAX_EARG, { .ids = id_low, .n_ids = 2 } },
    { "ids", FORNAX_EARG, { .ids = id_high, .n_ids = 1 } },
    { "context_length", FORNAX_EARG, { .n_ids = SIZE_MAX } },
    { "context_length", FORNAX_EARG, { .n_ids = SIZE_MAX - 1 } },
    { "context_length", FORNAX_EARG, { .n_ids = (size_t)INT64_MAX } },
    { "context_length", FORNAX_EARG, { .n_ids = CONTEXT } },
    { "context_length", FORNAX_EARG, { .n_ids = CONTEXT + 1, .max_tokens = -1 } },
    { "stop_ids", FORNAX_EARG, { .stop_ids = id_high, .n_stop_ids = 1 } },
    { "stop_ids", FORNAX_EARG, { .n_stop_ids = 1 } },
    { "stop", FORNAX_EARG, { .n_stop = 1 } },
    { "stop", FORNAX_EARG, { .stop = &no_text, .n_stop = 1 } },
    { "stop", FORNAX_EARG, { .stop = &empty, .n_stop = 1 } },
    { "stop", FORNAX_EARG, { .stop = &broken, .n_stop = 1 } },
    { "logit_bias", FORNAX_EARG, { .n_logit_bias = 2 } },
    { "logit_bias", FORNAX_EARG, { .logit_bias = &bias_low, .n_logit_bias = 1 } },
    { "logit_bias", FORNAX_EARG, { .logit_bias = &bias_high, .n_logit_bias = 1 } },
    { "logit_bias", FORNAX_EARG, { .logit_bias = &bias_nan, .n_logit_bias = 1 } },
    { "logit_bias", FORNAX_EARG, { .logit_bias = &bias_inf, .n_logit_bias = 1 } },
    { "", FORNAX_OK, { .logit_bias = &bias_ban, .n_logit_bias = 1 } },
    { "", FORNAX_OK, { .logit_bias = &bias_big, .n_logit_bias = 1 } },
    { "", FORNAX_OK, { .logit_bias = &bias_big, .n_logit_bias = 1, .temperature = 1, .logprobs = 1, .top_logprobs = 20 } },
    { "", FORNAX_OK, { .stop = &fine, .n_stop = 1 } },
    { "", FORNAX_OK, { .temperature = FLT_MIN } },
    { "", FORNAX_OK, { .temperature = 1e-45f } },
    { "", FORNAX_OK, { .temperature = 3e38f, .top_p = FLT_MIN } },
    { "", FORNAX_OK, { .temperature = 1, .top_k = INT32_MAX, .min_p = 1 } },
    { "", FORNAX_OK, { .temperature = 1, .top_k = 1, .top_p = 1e-45f, .min_p = 1e-45f } },
    { "", FORNAX_OK, { .repetition_penalty = 1e-45f } },
    { "", FORNAX_OK, { .repetition_penalty = 3e38f, .temperature = 1 } },
    { "", FORNAX_OK, { .repetition_penalty = 3e38f, .frequency_penalty = -2, .presence_penalty = 2, .temperature = 5 } },
    { "", FORNAX_OK, { .priority = INT32_MIN } },
    { "", FORNAX_OK, { .priority = INT32_MAX, .deadline_ms = INT64_MAX } },
    { "", FORNAX_OK, { .has_seed = 1, .seed = UINT64_MAX, .temperature = 1 } },
    { "", FORNAX_OK, { .has_seed = INT32_MIN, .seed = 0, .temperature = 1 } },
    { "", FORNAX_OK, { .cache_salt = "\xff\xfe not UTF-8" } },
};

static fornax_request_options merged(const fornax_request_options *m)
{
    fornax_request_options o = *m, u = usual();

    o.size = sizeof o;
    o.ignore_eos = 1;
    o.ids = m->ids ? m->ids : u.ids;
    o.n_ids = m->n_ids ? m->n_ids : u.n_ids;
    o.max_tokens = m->max_tokens ? m->max_tokens : u.max_tokens;
    return o;
}

TEST(requests)
{
    world w;

    if (!open_world(&w, MODEL, NULL))
        return;
    for (size_t i = 0; i < sizeof request_rows / sizeof *request_rows; i++) {
        const struct request_row *row = &request_rows[i];
        fornax_request_options o = merged(&row->o);
        fornax_request *r = NULL;
        fornax_error err = { 0 };
        fornax_status st = fornax_request_submit(&r, w.engine, &o, &err);
        char what[64];
        tally t;

        snprintf(what, sizeof what, "row %zu (%s)", i, row->param);
        if (row->want) {
            check_refused(what, st, r, &err, row->want, row->param);
        } else if (!r) {
            FXTEST_FAIL("%s: %s", what, err.text);
        } else {
            drain(r, &t);
            if (t.status != FORNAX_OK || t.tokens + (t.stop[0] != 0) < 1 || t.finished != 1)
                FXTEST_FAIL("%s: %s %s, %d tokens", what, fornax_status_name(t.status), t.error, t.tokens);
        }
        fornax_request_close(r);
    }
    close_world(&w);
}

/* More tokens than a context has end at its end; so does the largest number there is. */
TEST(lengths)
{
    static const struct { int64_t max, min, want; } rows[] = {
        { INT64_MAX, 0, CONTEXT - (int64_t)N_PROMPT }, { INT64_MAX, INT64_MAX, CONTEXT - (int64_t)N_PROMPT },
        { 0, INT64_MAX, CONTEXT - (int64_t)N_PROMPT }, { -1, 0, 0 }, { -1, INT64_MAX, 0 }, { 1, 1, 1 },
    };
    world w;

    if (!open_world(&w, MODEL, NULL))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fornax_request_options o = usual();
        tally t;

        o.max_tokens = rows[i].max;
        o.min_tokens = rows[i].min;
        run(w.engine, &o, &t);
        CHECK_EQ_I64(t.generated, rows[i].want);
        CHECK_EQ_I64(t.finish, FORNAX_FINISH_LENGTH);
    }
    close_world(&w);
}

TEST(long_prompts_and_small_pools)
{
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    enum { LONG = 100000 };
    int32_t *ids = calloc(LONG, sizeof *ids);
    fornax_request_options o = usual();
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);
    fornax_request *r = NULL;
    fornax_error err = { 0 };
    world w;
    tally t;

    if (!ids || !open_world(&w, MODEL, NULL))
        return;
    fornax_engine_get_stats(w.engine, &s);
    eo.kv_bytes = (int64_t)(2 * s.page_bytes);           /* two pages of 32 tokens */
    fornax_engine_close(w.engine);
    w.engine = NULL;
    CHECK_OK(fornax_engine_open(&w.engine, w.model, &eo, &err), err);
    o.ids = ids;
    o.n_ids = LONG;
    check_refused("100k", fornax_request_submit(&r, w.engine, &o, &err), r, &err, FORNAX_EARG, "context_length");
    o.n_ids = 64;
    check_refused("64", fornax_request_submit(&r, w.engine, &o, &err), r, &err, FORNAX_EARG, "context_length");
    o.n_ids = 63;
    o.max_tokens = 0;
    run(w.engine, &o, &t);
    CHECK_EQ_I64(t.generated, 1);
    o.n_ids = 30;                                        /* two choices that must take turns */
    o.n = 2;
    run(w.engine, &o, &t);
    CHECK_EQ_I64(t.generated, 2 * 34);
    CHECK_EQ_I64(t.status, FORNAX_OK);
    close_world(&w);
    free(ids);
}

TEST(everything_banned)
{
    fornax_logit_bias all[VOCAB];
    fornax_request_options o = usual();
    world w;
    tally t;

    if (!open_world(&w, MODEL, NULL))
        return;
    for (int i = 0; i < VOCAB; i++)
        all[i] = (fornax_logit_bias){ i, -100 };
    o.logit_bias = all;
    o.n_logit_bias = VOCAB;
    run(w.engine, &o, &t);
    CHECK_EQ_I64(t.status, FORNAX_EARG);
    CHECK_EQ_I64(t.finish, FORNAX_FINISH_ERROR);
    CHECK(strstr(t.error, "banned") != NULL);
    o.n_logit_bias = VOCAB - 1;                          /* all but one: that one, eight times */
    o.temperature = 2;
    o.logprobs = 1;
    o.top_logprobs = 20;
    run(w.engine, &o, &t);
    CHECK_EQ_I64(t.status, FORNAX_OK);
    CHECK_EQ_I64(t.tokens, 8);
    for (int i = 0; i < VOCAB; i++)                      /* one id over and over: biases add up */
        all[i] = (fornax_logit_bias){ 7, i % 2 ? FLT_MAX : -1 };
    o.n_logit_bias = VOCAB;
    run(w.engine, &o, &t);
    CHECK_EQ_I64(t.status, FORNAX_OK);
    CHECK_EQ_I64(t.tokens, 8);
    close_world(&w);
}

TEST(stop_strings)
{
    enum { MEG = 1 << 20, MANY = 1000 };
    char *big = malloc(MEG);
    fornax_string many[MANY];
    fornax_request_options o = usual();
    world w;
    tally plain, t;

    if (!big || !open_world(&w, MODEL, NULL))
        return;
    run(w.engine, &o, &plain);
    memset(big, 'a', MEG);
    for (int i = 0; i < MANY; i++)
        many[i] = (fornax_string){ big, (size_t)i + 1000 };
    many[0].n = MEG;
    o.stop = many;
    o.n_stop = 1;
    run(w.engine, &o, &t);
    CHECK_EQ_I64(t.status, FORNAX_OK);
    CHECK_STR(t.text, plain.text);
    o.n_stop = MANY;
    run(w.engine, &o, &t);
    CHECK_STR(t.text, plain.text);
    memset(big, 0, 64);                                  /* zeros are valid UTF-8 too */
    many[0] = (fornax_string){ big, 64 };
    o.n_stop = 1;
    run(w.engine, &o, &t);
    CHECK_STR(t.text, plain.text);
    many[0] = (fornax_string){ plain.text, SIZE_MAX };   /* the whole text: ends before it */
    run(w.engine, &o, &t);
    CHECK_STR(t.text, "");
    CHECK_EQ_I64(t.finish, FORNAX_FINISH_STOP);
    o.min_tokens = 8;                                    /* not before so many tokens */
    run(w.engine, &o, &t);
    CHECK_STR(t.text, plain.text);
    CHECK_EQ_I64(t.finish, FORNAX_FINISH_LENGTH);
    close_world(&w);
    free(big);
}

TEST(many_choices)
{
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_request_options o = usual();
    fornax_request *r = NULL;
    fornax_error err = { 0 };
    const fornax_event *e;
    int tokens[128] = { 0 }, finished[128] = { 0 }, done = 0;
    world w;

    eo.max_batch = 128;
    if (!open_world(&w, MODEL, &eo))
        return;
    o.n = 128;
    o.temperature = 1;
    o.logprobs = 1;
    o.top_logprobs = 5;
    CHECK_OK(fornax_request_submit(&r, w.engine, &o, &err), err);
    while (r && fornax_request_next(r, &e, 20000, &err) == FORNAX_OK) {
        bool ok = e->choice >= 0 && e->choice < 128;

        if (e->kind == FORNAX_EVENT_TOKEN && ok) {
            tokens[e->choice]++;
            ok = e->logprob <= 0 && isfinite(e->logprob) && e->n_top == 5 && e->token >= 0;
            for (int i = 1; ok && i < e->n_top; i++)
                ok = e->top[i].logprob <= e->top[i - 1].logprob && e->top[i].id != e->top[i - 1].id;
        }
        if (e->kind == FORNAX_EVENT_FINISH && ok)
            finished[e->choice]++;
        if (e->kind == FORNAX_EVENT_DONE) {
            done++;
            CHECK_EQ_I64(e->generated_tokens, 128 * 8);
        }
        CHECK(ok);
    }
    CHECK_EQ_I64(done, 1);
    for (int i = 0; i < 128; i++)
        CHECK(tokens[i] == 8 && finished[i] == 1);
    fornax_request_close(r);
    close_world(&w);
}

static void spoil(void *user, int choice, const int32_t *tokens, size_t n, float *logits, int64_t vocab)
{
    float with = *(float *)user;

    (void)choice;
    (void)tokens;
    for (int64_t i = 0; n >= 2 && i < vocab; i++)
        logits[i] = with;
}

TEST(hooks_that_spoil_the_logits)
{
    static float with[] = { NAN, -INFINITY, INFINITY, 0, FLT_MAX, -FLT_MAX };
    static const fornax_status want[] = { FORNAX_EINTERNAL, FORNAX_EARG, FORNAX_OK, FORNAX_OK, FORNAX_OK, FORNAX_OK };
    world w;

    if (!open_world(&w, MODEL, NULL))
        return;
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        for (int hot = 0; hot < 2; hot++) {
            fornax_request_options o = usual();
            tally t;

            o.logits_hook = spoil;
            o.logits_user = &with[i];
            o.temperature = (float)hot;
            o.top_p = hot ? 0.9f : 0;
            o.top_k = hot ? 40 : 0;
            o.logprobs = 1;
            o.top_logprobs = 20;
            o.repetition_penalty = 1.5f;
            run(w.engine, &o, &t);
            if (t.status != want[i])
                FXTEST_FAIL("logits of %g: %s", (double)with[i], fornax_status_name(t.status));
        }
    }
    close_world(&w);
}

/* ---- Order of calls ------------------------------------------------------------------------- */

TEST(requests_outlive_their_engine)
{
    fornax_request *r[4] = { NULL };
    fornax_request_options o = usual();
    const fornax_event *e;
    fornax_error err = { 0 };
    world w;
    tally t;

    if (!open_world(&w, MODEL, NULL))
        return;
    o.max_tokens = 0;
    for (int i = 0; i < 4; i++)
        CHECK_OK(fornax_request_submit(&r[i], w.engine, &o, &err), err);
    CHECK_OK(fornax_request_next(r[0], &e, -1, &err), err);
    fornax_engine_close(w.engine);
    w.engine = NULL;
    for (int i = 0; i < 4; i++) {
        fornax_request_cancel(r[i]);
        drain(r[i], &t);
        CHECK(t.done == 1 && t.finished == 1);
        CHECK_EQ_I64(fornax_request_next(r[i], &e, 0, NULL), FORNAX_ENOTFOUND);
        CHECK(e == NULL);
        fornax_request_close(r[i]);
    }
    close_world(&w);
}

typedef struct retries {
    fornax_engine *engine;
    fornax_request *made[64];
    atomic_int n, refused, done;
} retries;

/* Tries anew whenever its request ends, come what may. */
static int resubmit(void *user, const fornax_event *e)
{
    retries *a = user;
    fornax_request_options o = usual();
    fornax_error err = { 0 };
    int at;

    if (e->kind != FORNAX_EVENT_DONE)
        return 0;
    a->done++;
    o.on_event = resubmit;
    o.event_user = user;
    at = a->n++;
    if (at < 64 && fornax_request_submit(&a->made[at], a->engine, &o, &err) != FORNAX_OK) {
        a->refused++;
        CHECK_EQ_I64(err.status, FORNAX_ECANCEL);
    }
    return 0;
}

/* Every request has a last event, those too that a callback submits while the engine closes. */
TEST(callbacks_that_submit_while_the_engine_closes)
{
    for (int manual = 0; manual < 2; manual++) {
        fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
        fornax_request_options o = usual();
        fornax_error err = { 0 };
        retries a = { 0 };
        world w;
        int did, made = 0;

        eo.manual = manual;
        if (!open_world(&w, MODEL, &eo))
            return;
        a.engine = w.engine;
        o.on_event = resubmit;
        o.event_user = &a;
        a.n = 1;
        CHECK_OK(fornax_request_submit(&a.made[0], w.engine, &o, &err), err);
        for (int i = 0; manual && i < 3; i++)
            fornax_engine_step(w.engine, &did, &err);
        fornax_engine_close(w.engine);
        w.engine = NULL;
        for (int i = 0; i < 64; i++) {
            made += a.made[i] != NULL;
            fornax_request_close(a.made[i]);
        }
        CHECK_EQ_I64(a.done, made);
        close_world(&w);
    }
}

typedef struct storm {
    world *w;
    atomic_int done, events;
    unsigned seed;
} storm;

static void *storm_thread(void *user)
{
    storm *s = user;
    unsigned x = s->seed;
    fornax_error err = { 0 };

    for (int i = 0; i < 40; i++) {
        fornax_request_options o = usual();
        fornax_request *r[3] = { NULL };
        const fornax_event *e;

        for (int k = 0; k < 3; k++) {
            x = x * 1664525u + 1013904223u;
            o.n = (int)(x >> 16) % 3 + 1;
            o.max_tokens = (int64_t)(x >> 20) % 40;
            o.temperature = (float)(x >> 28) / 8;
            o.n_ids = 1 + (x >> 8) % N_PROMPT;
            o.cache_salt = x & 64 ? "a" : NULL;
            o.deadline_ms = x & 128 ? 1 : 0;
            if (fornax_request_submit(&r[k], s->w->engine, &o, &err) != FORNAX_OK)
                CHECK_EQ_I64(err.status, FORNAX_EBUSY);
        }
        for (int k = 0; k < 3; k++) {
            if (r[k] && x >> (10 + k) & 1)
                fornax_request_cancel(r[k]);
            if (r[k] && x >> (14 + k) & 1)
                while (fornax_request_next(r[k], &e, 20000, &err) == FORNAX_OK)
                    s->done += e->kind == FORNAX_EVENT_DONE;
        }
        if (i % 8 == 0)
            fornax_engine_drop_cache(s->w->engine);
        for (int k = 0; k < 3; k++)
            fornax_request_close(r[k]);
    }
    return NULL;
}

TEST(cancel_storm)
{
    enum { THREADS = 6 };
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_engine_stats st = FORNAX_OPTIONS(fornax_engine_stats);
    pthread_t thread[THREADS];
    storm s[THREADS];
    fornax_request_options o = usual();
    world w;
    tally t;

    eo.max_batch = 8;
    eo.queue_limit = 16;
    if (!open_world(&w, MODEL, &eo))
        return;
    for (int i = 0; i < THREADS; i++) {
        s[i] = (storm){ .w = &w, .seed = (unsigned)i * 77 + 1 };
        REQUIRE(pthread_create(&thread[i], NULL, storm_thread, &s[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    fornax_engine_get_stats(w.engine, &st);
    for (int i = 0; i < 2000 && st.waiting; i++) {         /* what was cancelled keeps its place until the engine's next step */
        usleep(10000);
        fornax_engine_get_stats(w.engine, &st);
    }
    run(w.engine, &o, &t);
    CHECK_EQ_I64(t.tokens, 8);
    fornax_engine_get_stats(w.engine, &st);
    CHECK(st.requests_total > 0);
    for (int i = 0; i < 200 && (st.requests_done + st.requests_failed + st.requests_cancelled != st.requests_total || st.running ||
                                st.pages_used); i++) {           /* a request counts as done before its sequence is put away */
        usleep(10000);
        fornax_engine_get_stats(w.engine, &st);
    }
    CHECK_EQ_U64(st.requests_done + st.requests_failed + st.requests_cancelled, st.requests_total);
    CHECK_EQ_U64(st.waiting, 0);
    CHECK_EQ_U64(st.running, 0);
    CHECK_EQ_U64(st.pages_used, 0);
    close_world(&w);
}

TEST(two_engines_on_one_model)
{
    fornax_engine *other = NULL;
    fornax_request *a = NULL, *b = NULL;
    fornax_request_options o = usual();
    fornax_error err = { 0 };
    world w;
    tally ta, tb;

    if (!open_world(&w, MODEL, NULL))
        return;
    CHECK_OK(fornax_engine_open(&other, w.model, NULL, &err), err);
    o.temperature = 1;
    o.has_seed = 1;
    o.max_tokens = 60;
    CHECK_OK(fornax_request_submit(&a, w.engine, &o, &err), err);
    CHECK_OK(fornax_request_submit(&b, other, &o, &err), err);
    drain(a, &ta);
    drain(b, &tb);
    CHECK_STR(ta.text, tb.text);
    CHECK_EQ_I64(ta.tokens, 60);
    fornax_engine_close(w.engine);                       /* in the other order, and a request last */
    w.engine = NULL;
    fornax_request_close(b);
    fornax_engine_close(other);
    fornax_request_close(a);
    close_world(&w);
}

/* ---- Evaluation, tokenizers, prompts ---------------------------------------------------------- */

static int count_rows(void *user, int64_t position, const float *logits, int64_t vocab)
{
    int *left = user;

    CHECK(position >= 0 && vocab == VOCAB && isfinite(logits[0]) && isfinite(logits[vocab - 1]));
    return --*left == 0;
}

TEST(evaluation)
{
    int32_t ids[CONTEXT + 1] = { 0 };
    fornax_error err = { 0 };
    world w;
    int left;

    if (!open_world(&w, MODEL, NULL))
        return;
    left = -1;
#define EVAL(n, first) fornax_model_evaluate(w.model, ids, n, first, count_rows, &left, &err)
    check_refused("none", EVAL(0, 0), NULL, &err, FORNAX_EARG, "ids");
    check_refused("first", EVAL(4, 4), NULL, &err, FORNAX_EARG, "ids");
    check_refused("first", EVAL(4, SIZE_MAX), NULL, &err, FORNAX_EARG, "ids");
    check_refused("long", EVAL(CONTEXT + 1, 0), NULL, &err, FORNAX_EARG, "context_length");
    check_refused("huge", EVAL(SIZE_MAX, 0), NULL, &err, FORNAX_EARG, "context_length");
    ids[3] = VOCAB;
    check_refused("id", EVAL(4, 0), NULL, &err, FORNAX_EARG, "ids");
    ids[3] = INT32_MIN;
    check_refused("id", EVAL(4, 0), NULL, &err, FORNAX_EARG, "ids");
    ids[3] = 0;
    left = 3;
    check_refused("cancel", EVAL(CONTEXT, 0), NULL, &err, FORNAX_ECANCEL, "");
    left = -1;
    CHECK_OK(EVAL(CONTEXT, 0), err);
    CHECK_EQ_I64(left, -1 - CONTEXT);
    left = -1;
    CHECK_OK(EVAL(CONTEXT, CONTEXT - 1), err);
    CHECK_EQ_I64(left, -2);
    close_world(&w);
}

TEST(tokenizer)
{
    enum { BIG = 1 << 20 };
    static const int32_t odd[] = { -1, INT32_MIN, INT32_MAX, VOCAB, 1 << 20 };
    char *big = malloc(BIG);
    int32_t few[3];
    fornax_error err = { 0 };
    fornax_text *text = NULL;
    size_t n, again;
    world w;

    if (!big || !open_world(&w, MODEL, NULL))
        return;
    const fornax_tokenizer *t = fornax_model_tokenizer(w.model);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        CHECK(fornax_token_bytes(t, odd[i], &n) == NULL && n == 0);
        CHECK(!fornax_token_is_special(t, odd[i]) && !fornax_token_is_eos(t, odd[i]));
        check_refused("detokenize", fornax_detokenize(t, &odd[i], 1, 0, &text, &err), text, &err, FORNAX_EARG, "ids");
    }
    CHECK_EQ_I64(fornax_token_find(t, "", 0), -1);
    CHECK_EQ_I64(fornax_token_find(t, NULL, 0), -1);
    CHECK_OK(fornax_detokenize(t, NULL, 0, 0, &text, &err), err);
    CHECK_STR(fornax_text_bytes(text, NULL), "");
    fornax_text_close(text);
    memset(big, 'a', BIG);
    CHECK_OK(fornax_tokenize(t, big, BIG, 3, NULL, 0, &n, &err), err);
    CHECK_OK(fornax_tokenize(t, big, BIG, 3, few, 3, &again, &err), err);
    CHECK_EQ_U64(n, again);
    CHECK(n > 3);
    for (int i = 0; i < 4096; i++)
        big[i] = (char)(i * 37 + i / 256);               /* every byte, hardly ever UTF-8, zeros too */
    CHECK_OK(fornax_tokenize(t, big, 4096, 0, NULL, 0, &n, &err), err);
    close_world(&w);
    free(big);
}

TEST(conversations)
{
    static const char *const bad[] = {
        "", "{", "[]", "null", "{}", "{\"messages\": 3}", "{\"messages\": [3]}", "{\"messages\": [{}]}",
        "{\"messages\": [{\"role\": 1, \"content\": \"x\"}]}", "{\"messages\": [], \"messages\": []}",
        "{\"messages\": [], \"tools\": {}}", "{\"messages\": [], \"kwargs\": []}", "{\"messages\": [], \"temperature\": 1}",
        "{\"messages\": [], \"add_generation_prompt\": 1}", "{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\"}]}",
    };
    char deep[6000];
    fornax_error err = { 0 };
    fornax_prompt *p = NULL;
    world w;

    if (!open_world(&w, TEMPLATE_MODEL, NULL))
        return;
    const fornax_tokenizer *t = fornax_model_tokenizer(w.model);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fornax_status st = fornax_prompt_render(&p, t, bad[i], SIZE_MAX, &err);

        if ((st != FORNAX_EFORMAT && st != FORNAX_EARG) || p)
            FXTEST_FAIL("%s: %s %s", bad[i], fornax_status_name(st), st ? err.text : "");
        fornax_prompt_close(p);
    }
    memset(deep, '[', sizeof deep);
    memcpy(deep, "{\"messages\":", 12);
    CHECK_EQ_I64(fornax_prompt_render(&p, t, deep, sizeof deep, &err), FORNAX_EFORMAT);
    CHECK_EQ_I64(fornax_prompt_render(&p, t, NULL, 0, &err), FORNAX_EFORMAT);
    CHECK_STR(err.text, "conversation: expected a JSON object, found nothing");
    close_world(&w);
}

/* ---- Sessions ------------------------------------------------------------------------------------ */

TEST(sessions)
{
    static const struct { fornax_request_options o; const char *kwargs, *param; fornax_status want; } rows[] = {
        { { .size = 0 }, NULL, "size", FORNAX_EARG },
        { { .size = sizeof(fornax_request_options), .n_stop = 1 }, NULL, "stop", FORNAX_EARG },
        { { .size = sizeof(fornax_request_options), .n_stop = 1, .stop = &no_text }, NULL, "stop", FORNAX_EARG },
        { { .size = sizeof(fornax_request_options), .n_logit_bias = 3 }, NULL, "logit_bias", FORNAX_EARG },
        { { .size = sizeof(fornax_request_options), .n_stop_ids = 3 }, NULL, "stop_ids", FORNAX_EARG },
        { { .size = sizeof(fornax_request_options), .n = 2 }, NULL, "n", FORNAX_EARG },
        { { .size = sizeof(fornax_request_options) }, "[", "kwargs", FORNAX_EFORMAT },
        { { .size = sizeof(fornax_request_options) }, "[]", "kwargs", FORNAX_EFORMAT },
    };
    world w;

    if (!open_world(&w, TEMPLATE_MODEL, NULL))
        return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fornax_session_options o = FORNAX_OPTIONS(fornax_session_options);
        fornax_session *s = NULL;
        fornax_error err = { 0 };
        fornax_status st;

        o.sampling = &rows[i].o;
        o.kwargs = rows[i].kwargs;
        st = fornax_session_open(&s, w.engine, &o, &err);
        check_refused(rows[i].param, st, s, &err, rows[i].want, rows[i].param);
        fornax_session_close(s);
    }
    close_world(&w);
}

static int stop_after_two(void *user, const char *text, size_t n)
{
    (void)text;
    (void)n;
    return ++*(int *)user >= 2;
}

/* What succeeds leaves no error behind; a manual engine is stepped by say itself. */
TEST(sessions_on_both_kinds_of_engine)
{
    for (int manual = 0; manual < 2; manual++) {
        fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
        fornax_session_options o = FORNAX_OPTIONS(fornax_session_options);
        fornax_request_options ro = FORNAX_OPTIONS(fornax_request_options);
        fornax_string stop = { "no such text", SIZE_MAX };
        fornax_session *s = NULL;
        fornax_error err = { 0 };
        world w;
        int pieces = 0;

        eo.manual = manual;
        if (!open_world(&w, TEMPLATE_MODEL, &eo))
            return;
        ro.max_tokens = 12;
        ro.ignore_eos = 1;
        ro.stop = &stop;
        ro.n_stop = 1;
        o.sampling = &ro;
        o.system = "Be brief.";
        CHECK_OK(fornax_session_open(&s, w.engine, &o, &err), err);
        CHECK_OK(fornax_session_say(s, "Hello", NULL, NULL, &err), err);
        CHECK_EQ_I64(err.status, FORNAX_OK);
        CHECK_EQ_I64(fornax_session_say(s, "not UTF-8: \xff", NULL, NULL, &err), FORNAX_EFORMAT);
        CHECK_EQ_I64(fornax_session_say(s, "Again", stop_after_two, &pieces, &err), FORNAX_ECANCEL);
        CHECK(strstr(fornax_session_messages(s), "Again") != NULL);
        CHECK(strstr(fornax_session_messages(s), "not UTF-8") == NULL);
        fornax_session_clear(s);
        CHECK_STR(fornax_session_messages(s), "[{\"role\":\"system\",\"content\":\"Be brief.\"}]");
        fornax_session_close(s);
        close_world(&w);
    }
}

/* ---- Memory that runs out, and fork ---------------------------------------------------------------- */

typedef struct budget {
    atomic_llong left;           /* allocations until one fails; then all do */
    atomic_llong bytes, blocks;  /* held now */
} budget;

static void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    budget *b = user;
    void *q;

    if (new_size == 0) {
        b->bytes -= (long long)old_size;
        b->blocks--;
        free(p);
        return NULL;
    }
    if (b->left-- <= 0)
        return NULL;
    q = realloc(p, new_size);
    b->bytes += (long long)new_size - (long long)(p ? old_size : 0);
    b->blocks += !p;
    return q;
}

/* Opens, runs and closes everything; the first failure, if any. */
static fornax_status whole_life(budget *b, fornax_error *err)
{
    static const char json[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}";
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_context *ctx = NULL;
    fornax_model *m = NULL;
    fornax_engine *e = NULL;
    fornax_prompt *p = NULL;
    fornax_request *r = NULL;
    fornax_request_options o = usual();
    fornax_string stop = { "zzz", 3 };
    fornax_status st;

    co.threads = 1;
    co.alloc = limited;
    co.alloc_user = b;
    st = fornax_context_open(&ctx, &co, err);
    if (!st)
        st = fornax_model_open(&m, ctx, TEMPLATE_MODEL, NULL, err);
    if (!st)
        st = fornax_engine_open(&e, m, NULL, err);
    if (!st)
        st = fornax_prompt_render(&p, fornax_model_tokenizer(m), json, SIZE_MAX, err);
    if (!st) {
        o.ids = fornax_prompt_ids(p, &o.n_ids);
        o.n = 2;
        o.stop = &stop;
        o.n_stop = 1;
        o.repetition_penalty = 1.2f;
        o.logprobs = 1;
        o.top_logprobs = 20;
        o.max_tokens = 60;
        st = fornax_request_submit(&r, e, &o, err);
    }
    if (!st) {
        tally t;

        drain(r, &t);
        st = t.status;
        if (st)
            snprintf(err->text, sizeof err->text, "%s", t.error);
        err->status = st;
    }
    fornax_request_close(r);
    fornax_prompt_close(p);
    fornax_engine_close(e);
    fornax_model_close(m);
    fornax_context_close(ctx);
    return st;
}

TEST(memory_runs_out_at_every_allocation)
{
    budget b = { .left = 1LL << 40 };
    fornax_error err = { 0 };
    long long all;

    CHECK_OK(whole_life(&b, &err), err);
    all = (1LL << 40) - b.left;
    CHECK_EQ_I64(b.blocks, 0);
    CHECK_EQ_I64(b.bytes, 0);
    for (long long n = 0; n < all; n += n < 40 || all < 300 ? 1 : all / 150) {
        fornax_status st;

        memset(&err, 0, sizeof err);
        b.left = n;
        st = whole_life(&b, &err);
        if (st != FORNAX_ENOMEM && st != FORNAX_OK)
            FXTEST_FAIL("allocation %lld of %lld: %s: %s", n, all, fornax_status_name(st), err.text);
        if (b.blocks || b.bytes) {
            FXTEST_FAIL("allocation %lld of %lld (%s): %lld blocks, %lld bytes are left", n, all, err.text,
                        (long long)b.blocks, (long long)b.bytes);
            b.blocks = b.bytes = 0;
        }
    }
}

/* Exit status of the child: which of its checks failed. */
static int child(world *w, fornax_request *r, fornax_session *s)
{
    fornax_error err = { 0 };
    fornax_model *m = NULL;
    fornax_engine *e = NULL;
    fornax_request *q = NULL;
    fornax_request_options o = usual();
    const fornax_event *ev;
    int did, bad = 0;
    size_t n;

    bad |= (fornax_model_open(&m, w->ctx, MODEL, NULL, &err) != FORNAX_EARG) << 0;
    bad |= (fornax_engine_open(&e, w->model, NULL, &err) != FORNAX_EARG) << 1;
    bad |= (fornax_request_submit(&q, w->engine, &o, &err) != FORNAX_EARG) << 2;
    bad |= (fornax_request_next(r, &ev, -1, &err) != FORNAX_EARG) << 3;
    bad |= (fornax_engine_step(w->engine, &did, &err) != FORNAX_EARG) << 4;
    bad |= (fornax_session_say(s, "hi", NULL, NULL, &err) != FORNAX_EARG) << 5;
    bad |= (fornax_tokenize(fornax_model_tokenizer(w->model), "a", 1, 0, NULL, 0, &n, &err) != FORNAX_EARG) << 6;
    fornax_request_cancel(r);
    fornax_session_close(s);
    fornax_request_close(r);
    close_world(w);
    return bad;
}

TEST(a_forked_child_may_only_close)
{
    fornax_request *r = NULL;
    fornax_session *s = NULL;
    fornax_request_options o = usual();
    fornax_error err = { 0 };
    world w;
    tally t;
    int status = -1;
    pid_t pid;

    if (!open_world(&w, TEMPLATE_MODEL, NULL))
        return;
    o.max_tokens = 0;
    CHECK_OK(fornax_session_open(&s, w.engine, NULL, &err), err);
    CHECK_OK(fornax_request_submit(&r, w.engine, &o, &err), err);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        _exit(child(&w, r, s));
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ_I64(WEXITSTATUS(status), 0);
    drain(r, &t);                                        /* the parent's goes on */
    CHECK(t.tokens > 100);
    fornax_session_close(s);
    fornax_request_close(r);
    close_world(&w);
}

FXTEST_MAIN()
