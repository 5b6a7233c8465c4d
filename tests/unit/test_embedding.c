/* test_embedding.c - the library as a guest in other programs: a host that flushes denormals to
 * zero, that runs in a comma locale, that forks, that opens two contexts, that brings its own
 * allocator (which may fail at any moment), and that loads and unloads the library. */
#include <dirent.h>
#include <dlfcn.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fornax.h"
#include "floatmode.h"
#include "fxtest.h"

#define MODEL FXTEST_DATA "/models/qwen3"
enum { GEN = 12 };

typedef struct stack {
    fornax_context *ctx;
    fornax_model *model;
    fornax_engine *engine;
} stack;

static fornax_status open_stack(stack *s, const fornax_context_options *co, int manual, fornax_error *err)
{
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_status st;

    *s = (stack){ 0 };
    eo.manual = manual;
    eo.max_batch = 4;
    eo.step_tokens = 64;
    st = fornax_context_open(&s->ctx, co, err);
    if (!st)
        st = fornax_model_open(&s->model, s->ctx, MODEL, NULL, err);
    return st ? st : fornax_engine_open(&s->engine, s->model, &eo, err);
}

static void close_stack(stack *s)
{
    fornax_engine_close(s->engine);
    fornax_model_close(s->model);
    fornax_context_close(s->ctx);
}

/* Greedy ids and log-probabilities of a fixed prompt. */
typedef struct answer {
    int n;
    int32_t ids[GEN];
    float logprobs[GEN];
} answer;

static fornax_status ask(stack *s, answer *a, fornax_error *err)
{
    static const int32_t prompt[] = { 5, 17, 200, 31, 64, 9 };
    fornax_request_options o = FORNAX_OPTIONS(fornax_request_options);
    fornax_request *req = NULL;
    const fornax_event *e;
    int did, manual = fornax_engine_fd(s->engine) >= 0;
    fornax_status st;

    a->n = 0;
    o.ids = prompt;
    o.n_ids = sizeof prompt / sizeof *prompt;
    o.max_tokens = GEN;
    o.ignore_eos = 1;
    o.logprobs = 1;
    st = fornax_request_submit(&req, s->engine, &o, err);
    if (st)
        return st;
    for (;;) {
        st = fornax_request_next(req, &e, manual ? 0 : -1, err);
        if (st == FORNAX_ETIMEOUT && manual) {
            if ((st = fornax_engine_step(s->engine, &did, err)) != FORNAX_OK)
                break;
            continue;
        }
        if (st || e->kind == FORNAX_EVENT_DONE)
            break;
        if (e->kind == FORNAX_EVENT_TOKEN && a->n < GEN) {
            a->ids[a->n] = e->token;
            a->logprobs[a->n++] = e->logprob;
        }
    }
    if (!st)
        st = e->status;
    fornax_request_close(req);
    return st;
}

static bool same(const answer *a, const answer *b)
{
    return a->n == GEN && b->n == GEN && memcmp(a->ids, b->ids, sizeof a->ids) == 0 &&
           memcmp(a->logprobs, b->logprobs, sizeof a->logprobs) == 0;
}

static void plain_answer(answer *a)
{
    fornax_error err = { 0 };
    stack s;

    CHECK_OK(open_stack(&s, NULL, 0, &err), err);
    if (s.engine)
        CHECK_OK(ask(&s, a, &err), err);
    close_stack(&s);
}

/* ---- Floating-point mode ---- */

#ifdef FLOATMODE
TEST(host_flushes_to_zero)
{
    answer want, got;
    fornax_error err = { 0 };
    stack s;
    uint64_t old = floatmode_get();

    plain_answer(&want);
    for (int manual = 0; manual < 2; manual++) {
        floatmode_set(FLOATMODE_ODD);
        CHECK_OK(open_stack(&s, NULL, manual, &err), err);
        CHECK_EQ_U64(floatmode_get(), FLOATMODE_ODD);
        if (s.engine)
            CHECK_OK(ask(&s, &got, &err), err);
        CHECK_EQ_U64(floatmode_get(), FLOATMODE_ODD);
        CHECK(same(&got, &want));
        close_stack(&s);
        CHECK_EQ_U64(floatmode_get(), FLOATMODE_ODD);
        floatmode_set(old);
    }
}
#endif

/* ---- Locale ---- */

/* A locale with a decimal comma: one the system has, or one made with localedef in 'folder'. */
static const char *comma_locale(const char *folder)
{
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "it_IT.UTF-8", "es_ES.UTF-8" };
    char command[512];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (setlocale(LC_ALL, names[i]))
            return names[i];
    }
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    if (system(command) == -1)
        return NULL;
    setenv("LOCPATH", folder, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8") ? "de_DE.UTF-8" : NULL;
}

TEST(host_uses_a_comma_locale)
{
    static const char conversation[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"kwargs\": {\"t\": 0.5}}";
    char folder[] = "/tmp/fornax-locale-XXXXXX";
    answer want, got;
    fornax_error err = { 0 };
    fornax_text *text = NULL;
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_model *model = NULL;
    fornax_prompt *prompt = NULL;
    stack s;

    plain_answer(&want);
    REQUIRE(mkdtemp(folder));
    if (!comma_locale(folder)) {
        unsetenv("LOCPATH");
        SKIP("no locale with a decimal comma, and no localedef to make one");
    }
    CHECK_STR(localeconv()->decimal_point, ",");
    setenv("FORNAX_NOW", "2031-03-04T05:06:07", 1);
    CHECK_OK(open_stack(&s, NULL, 0, &err), err);
    if (s.engine) {
        CHECK_OK(ask(&s, &got, &err), err);
        CHECK(same(&got, &want));
        CHECK_OK(fornax_inspect(&text, s.ctx, MODEL, 1, &err), err);
        CHECK(text && strstr(fornax_text_bytes(text, NULL), "0.02") != NULL);      /* initializer_range */
        mo.chat_template = "{{ t }} {{ 1.5 * 2 }} {{ strftime_now('%d %b %Y, %A') }}";
        CHECK_OK(fornax_model_open(&model, s.ctx, MODEL, &mo, &err), err);
        if (model)
            CHECK_OK(fornax_prompt_render(&prompt, fornax_model_tokenizer(model), conversation, SIZE_MAX, &err), err);
        if (prompt)
            CHECK_STR(fornax_prompt_text(prompt, NULL), "0.5 3.0 04 Mar 2031, Tuesday");
    }
    CHECK_STR(localeconv()->decimal_point, ",");       /* ours to change, not the library's */
    fornax_prompt_close(prompt);
    fornax_model_close(model);
    fornax_text_close(text);
    close_stack(&s);
    setlocale(LC_ALL, "C");
    unsetenv("FORNAX_NOW");
    unsetenv("LOCPATH");
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
}

/* ---- Fork ---- */

static int in_child(stack *s, fornax_request *req)
{
    fornax_error err = { 0 };
    const fornax_event *e;
    answer a;
    int32_t id;
    size_t n;

    if (ask(s, &a, &err) != FORNAX_EARG || fornax_request_next(req, &e, 0, &err) != FORNAX_EARG ||
        fornax_tokenize(fornax_model_tokenizer(s->model), "x", 1, 0, &id, 1, &n, &err) != FORNAX_EARG)
        return 1;
    fornax_request_cancel(req);
    fornax_request_close(req);
    close_stack(s);
    return 0;
}

TEST(host_forks)
{
    static const int32_t prompt[] = { 1, 2, 3 };
    fornax_request_options o = FORNAX_OPTIONS(fornax_request_options);
    fornax_error err = { 0 };
    fornax_request *req = NULL;
    answer want, got;
    stack s;
    int status = -1;

    plain_answer(&want);
    CHECK_OK(open_stack(&s, NULL, 0, &err), err);
    REQUIRE(s.engine);
    o.ids = prompt;
    o.n_ids = 3;
    o.ignore_eos = 1;
    o.max_tokens = 400;
    CHECK_OK(fornax_request_submit(&req, s.engine, &o, &err), err);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(20);                       /* a hang is a failure */
        _exit(in_child(&s, req));
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fornax_request_close(req);
    CHECK_OK(ask(&s, &got, &err), err);
    CHECK(same(&got, &want));
    close_stack(&s);
}

/* ---- Several contexts ---- */

typedef struct worker {
    int threads;
    answer got;
    fornax_status st;
    fornax_error err;
} worker;

static void *run_worker(void *user)
{
    worker *w = user;
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    stack s;

    co.threads = w->threads;
    w->st = open_stack(&s, &co, 0, &w->err);
    for (int i = 0; !w->st && i < 3; i++)
        w->st = ask(&s, &w->got, &w->err);
    close_stack(&s);
    return NULL;
}

TEST(two_contexts_at_once)
{
    worker w[2] = { { .threads = 1 }, { .threads = 2 } };
    pthread_t t[2];
    answer want;

    plain_answer(&want);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&t[i], NULL, run_worker, &w[i]) == 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        CHECK_OK(w[i].st, w[i].err);
        CHECK(same(&w[i].got, &want));
    }
}

TEST(two_engines_of_one_model)
{
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_error err = { 0 };
    answer want, got;
    stack s, other;

    plain_answer(&want);
    CHECK_OK(open_stack(&s, NULL, 0, &err), err);
    REQUIRE(s.engine);
    other = s;
    CHECK_OK(fornax_engine_open(&other.engine, s.model, &eo, &err), err);
    CHECK_OK(ask(&other, &got, &err), err);
    CHECK(same(&got, &want));
    CHECK_OK(ask(&s, &got, &err), err);
    CHECK(same(&got, &want));
    fornax_engine_close(other.engine);
    close_stack(&s);
}

/* ---- Allocator ---- */

typedef struct counting {
    atomic_long blocks, bytes, calls, fail_at;      /* fail_at: the call that fails; 0: none */
} counting;

static void *count_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    counting *c = user;
    void *q;

    if (new_size == 0) {
        if (p) {
            atomic_fetch_sub(&c->blocks, 1);
            atomic_fetch_sub(&c->bytes, (long)old_size);
        }
        free(p);
        return NULL;
    }
    if (atomic_fetch_add(&c->calls, 1) + 1 == atomic_load(&c->fail_at))
        return NULL;
    q = realloc(p, new_size);
    if (q) {
        atomic_fetch_add(&c->blocks, p ? 0 : 1);
        atomic_fetch_add(&c->bytes, (long)new_size - (p ? (long)old_size : 0));
    }
    return q;
}

TEST(own_allocator_gets_everything_back)
{
    counting c = { 0 };
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_error err = { 0 };
    answer want, got;
    stack s;

    plain_answer(&want);
    co.alloc = count_alloc;
    co.alloc_user = &c;
    CHECK_OK(open_stack(&s, &co, 0, &err), err);
    if (s.engine)
        CHECK_OK(ask(&s, &got, &err), err);
    CHECK(same(&got, &want));
    CHECK(c.blocks > 0);
    close_stack(&s);
    CHECK_EQ_I64(c.blocks, 0);
    CHECK_EQ_I64(c.bytes, 0);                        /* each free told the size it was given */
}

/* Allocation n fails, for n = 1, 2, 3, ...: every call says ENOMEM or works, nothing leaks. */
TEST(any_allocation_may_fail)
{
    long last = 0;

    for (long n = 1; last == 0; n += n < 300 ? 1 : 7) {
        counting c = { .fail_at = n };
        fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
        fornax_error err = { 0 };
        answer a;
        stack s;
        fornax_status st;

        co.alloc = count_alloc;
        co.alloc_user = &c;
        co.threads = 1;
        st = open_stack(&s, &co, 1, &err);
        if (!st)
            st = ask(&s, &a, &err);
        if (st != FORNAX_OK && st != FORNAX_ENOMEM)
            FXTEST_FAIL("allocation %ld: %s: %s", n, fornax_status_name(st), err.text);
        close_stack(&s);
        if (c.blocks != 0)
            FXTEST_FAIL("allocation %ld: %ld blocks leak", n, (long)c.blocks);
        if (c.calls < n)                             /* none was left to fail */
            last = n;
        if (fxtest_bad > 20)
            return;
    }
    CHECK(last > 50);
}

/* ---- dlopen and dlclose ---- */

static int entries_of(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static bool is_mapped(const char *name)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[1024];
    bool found = false;

    while (f && !found && fgets(line, sizeof line, f))
        found = strstr(line, name) != NULL;
    if (f)
        fclose(f);
    return found;
}

TEST(loaded_and_unloaded)
{
    static const char *const wanted[] = { "fornax_context_open", "fornax_model_open", "fornax_engine_open",
                                          "fornax_engine_close", "fornax_model_close", "fornax_context_close" };
    int fds = 0, threads = 0;
    char path[512];

    if (access("./libfornax.so", R_OK) != 0)
        SKIP("no libfornax.so in the working directory");
    snprintf(path, sizeof path, "./libfornax.so");
    for (int round = 0; round < 8; round++) {
        void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL), *fn[6];
        fornax_error err = { 0 };
        stack s = { 0 };

        if (!lib) {
            FXTEST_FAIL("%s", dlerror());
            return;
        }
        for (int i = 0; i < 6; i++) {
            fn[i] = dlsym(lib, wanted[i]);
            REQUIRE(fn[i]);
        }
        fornax_status (*open_ctx)(fornax_context **, const fornax_context_options *, fornax_error *);
        fornax_status (*open_model)(fornax_model **, fornax_context *, const char *, const fornax_model_options *, fornax_error *);
        fornax_status (*open_engine)(fornax_engine **, fornax_model *, const fornax_engine_options *, fornax_error *);
        void (*close_any[3])(void *);
        memcpy(&open_ctx, &fn[0], sizeof open_ctx);
        memcpy(&open_model, &fn[1], sizeof open_model);
        memcpy(&open_engine, &fn[2], sizeof open_engine);
        memcpy(close_any, &fn[3], sizeof close_any);
        CHECK_OK(open_ctx(&s.ctx, NULL, &err), err);
        CHECK_OK(open_model(&s.model, s.ctx, MODEL, NULL, &err), err);
        CHECK_OK(open_engine(&s.engine, s.model, NULL, &err), err);
        close_any[0](s.engine);
        close_any[1](s.model);
        close_any[2](s.ctx);
        CHECK(dlclose(lib) == 0);
        CHECK(!is_mapped("libfornax.so"));
        if (round == 1) {
            fds = entries_of("/proc/self/fd");
            threads = entries_of("/proc/self/task");
        } else if (round > 1) {
            CHECK_EQ_I64(entries_of("/proc/self/fd"), fds);
            CHECK_EQ_I64(entries_of("/proc/self/task"), threads);
        }
    }
}

FXTEST_MAIN()
