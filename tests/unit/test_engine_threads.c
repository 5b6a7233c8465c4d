/* test_engine_threads.c - the engine on its own thread: many submitters and takers, cancel from
 * anywhere, callbacks, close while it runs, fork. Made for the thread sanitizer too. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "toy_model.h"

static fornax_engine_options threaded(int max_batch)
{
    fornax_engine_options o = FORNAX_OPTIONS(fornax_engine_options);

    o.max_batch = max_batch;
    o.step_tokens = 64;
    o.queue_limit = 1000;
    return o;
}

#define CLIENTS 6
#define EACH 25

typedef struct client {
    rig *r;
    int id;
    gotten got[EACH];
    int failures;
} client;

static fornax_request_options ask(int id, int i, int32_t *ids)
{
    int n = 3 + (id * 31 + i * 17) % 60;
    fornax_request_options o;

    make_prompt(ids, n, (uint32_t)(i % 4));
    o = asks(ids, (size_t)n, 10 + i % 20);
    o.temperature = 1;
    o.seed = (uint64_t)(id * 100 + i);
    o.n = i % 7 == 0 ? 2 : 1;
    return o;
}

static void *run_client(void *user)
{
    client *c = user;
    int32_t ids[64];

    for (int i = 0; i < EACH; i++) {
        fornax_request_options o = ask(c->id, i, ids);
        fx_request *q = NULL;

        if (fx_request_submit(&q, c->r->engine, &o, NULL) != FORNAX_OK) {
            c->failures++;
            continue;
        }
        if (i % 5 == 4) {
            const fornax_event *e;

            fx_request_next(q, &e, i % 2 ? -1 : 0, NULL);
            if (i % 2)
                fx_request_cancel(q);
        } else if (i % 5 == 3) {
            struct pollfd p = { fx_request_fd(q), POLLIN, 0 };

            while (!c->got[i].done && poll(&p, 1, 10000) == 1)
                take_events(q, &c->got[i], 0);
        } else {
            take_events(q, &c->got[i], -1);
        }
        fx_request_close(q);
    }
    return NULL;
}

TEST(many_clients)
{
    static client c[CLIENTS];
    pthread_t t[CLIENTS];
    fornax_engine_options o = threaded(8);
    static gotten want;
    rig r, alone;

    memset(c, 0, sizeof c);
    REQUIRE(rig_open(&r, 8, 60, o, 200));
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = (client){ .r = &r, .id = i };
        pthread_create(&t[i], NULL, run_client, &c[i]);
    }
    for (int i = 0; i < 50; i++) {
        fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);

        fx_engine_get_stats(r.engine, &s);
        fx_engine_drop_cache(r.engine);
        usleep(1000);
    }
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(t[i], NULL);
    o.manual = 1;
    REQUIRE(rig_open(&alone, 8, 60, o, 200));
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ_I64(c[i].failures, 0);
        for (int k = 0; k < EACH; k++) {
            int32_t ids[64];
            fornax_request_options ro = ask(i, k, ids);

            if (k % 5 == 4)
                continue;
            run_alone(&alone, &ro, &want);
            CHECK(same_output(&want.at[0], &c[i].got[k].at[0]));
            CHECK(same_output(&want.at[1], &c[i].got[k].at[1]));
        }
    }
    rig_close(&alone);
    rig_close(&r);
}

/* What was dropped is gone for the next request, whatever the engine's thread does between them. */
TEST(a_dropped_cache_is_gone)
{
    rig r;

    REQUIRE(rig_open(&r, 8, 60, threaded(8), 200));
    for (int i = 0; i < 40; i++) {
        static gotten all;
        int32_t ids[40];
        fornax_request_options o;
        fx_request *q = NULL;

        make_prompt(ids, 40, 1);
        o = asks(ids, 40, 1);
        memset(&all, 0, sizeof all);
        REQUIRE(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
        take_events(q, &all, -1);
        CHECK_EQ_I64(all.cached, i % 2 ? 32 : 0);
        fx_request_close(q);
        usleep((useconds_t)(i % 5) * 10000);
        if (i % 2)
            fx_engine_drop_cache(r.engine);
    }
    rig_close(&r);
}

/* ---- Callbacks -------------------------------------------------------------------------- */

typedef struct counted {
    pthread_mutex_t lock;
    pthread_cond_t over;
    int tokens, finishes, dones, stop_after;
    fornax_status status;
    bool closed;
    fx_request *self;
    fx_engine *engine;
} counted;

static int on_event(void *user, const fornax_event *e)
{
    counted *c = user;
    int stop;

    pthread_mutex_lock(&c->lock);
    CHECK(!c->closed);
    c->tokens += e->kind == FORNAX_EVENT_TOKEN;
    c->finishes += e->kind == FORNAX_EVENT_FINISH;
    if (e->kind == FORNAX_EVENT_DONE) {
        c->dones++;
        c->status = e->status;
        pthread_cond_signal(&c->over);
    }
    stop = c->stop_after && c->tokens >= c->stop_after;
    pthread_mutex_unlock(&c->lock);
    return stop;
}

static void wait_done(counted *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->dones)
        pthread_cond_wait(&c->over, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

TEST(callbacks)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 30);
    const fornax_event *e;
    fx_request *q;
    rig r;

    REQUIRE(rig_open(&r, 8, 60, threaded(8), 200));
    r.model.no_eos = true;
    o.on_event = on_event;
    for (int stop = 0; stop < 3; stop++) {
        counted c = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER, .stop_after = stop * 5 };

        o.event_user = &c;
        CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
        wait_done(&c);
        CHECK(fx_request_next(q, &e, 0, NULL) == FORNAX_EARG);
        fx_request_close(q);
        CHECK_EQ_I64(c.tokens, stop ? stop * 5 : 30);
        CHECK(c.finishes == 1 && c.dones == 1);
        CHECK(c.status == (stop ? FORNAX_ECANCEL : FORNAX_OK));
    }
    rig_close(&r);
}

/* After close returned, what the callback uses may be freed. */
TEST(no_callback_after_close)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 190);
    rig r;

    REQUIRE(rig_open(&r, 8, 60, threaded(8), 200));
    r.model.no_eos = true;
    o.on_event = on_event;
    for (int i = 0; i < 40; i++) {
        counted *c = calloc(1, sizeof *c);
        fx_request *q;

        pthread_mutex_init(&c->lock, NULL);
        pthread_cond_init(&c->over, NULL);
        o.event_user = c;
        CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
        usleep((unsigned)(i * 20));
        fx_request_close(q);
        pthread_mutex_lock(&c->lock);
        c->closed = true;
        pthread_mutex_unlock(&c->lock);
        pthread_mutex_destroy(&c->lock);
        pthread_cond_destroy(&c->over);
        free(c);
    }
    rig_close(&r);
}

static int close_myself(void *user, const fornax_event *e)
{
    counted *c = user;

    pthread_mutex_lock(&c->lock);
    if (e->kind == FORNAX_EVENT_TOKEN && ++c->tokens == 3) {
        fx_request *q;
        static const int32_t ids[] = { 4, 5 };
        fornax_request_options o = asks(ids, 2, 2);

        CHECK(fx_request_submit(&q, c->engine, &o, NULL) == FORNAX_OK);   /* allowed, too */
        fx_request_close(q);
        fx_request_close(c->self);
        c->dones = 1;
        pthread_cond_signal(&c->over);
    }
    pthread_mutex_unlock(&c->lock);
    return 0;
}

TEST(a_callback_may_close_its_request)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 30);
    counted c = { .lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER };
    rig r;

    REQUIRE(rig_open(&r, 8, 60, threaded(8), 200));
    r.model.no_eos = true;
    c.engine = r.engine;
    o.on_event = close_myself;
    o.event_user = &c;
    o.n = 3;
    pthread_mutex_lock(&c.lock);
    CHECK(fx_request_submit(&c.self, r.engine, &o, NULL) == FORNAX_OK);
    pthread_mutex_unlock(&c.lock);
    wait_done(&c);
    rig_close(&r);
    CHECK_EQ_I64(c.tokens, 3);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

TEST(close_with_running_requests)
{
    static int32_t ids[100];
    rig r;

    make_prompt(ids, 100, 1);
    for (int i = 0; i < 12; i++) {
        fx_request *q[10];
        fornax_request_options o = asks(ids, 100, 90);

        REQUIRE(rig_open(&r, 8, 60, threaded(4), 200));
        r.model.no_eos = true;
        for (int k = 0; k < 10; k++)
            CHECK(fx_request_submit(&q[k], r.engine, &o, NULL) == FORNAX_OK);
        usleep((unsigned)(i * 300));
        fx_engine_close(r.engine);
        r.engine = NULL;
        for (int k = 0; k < 10; k++) {
            static gotten g;

            memset(&g, 0, sizeof g);
            take_events(q[k], &g, -1);
            CHECK(g.done && (g.status == FORNAX_ECANCEL || g.status == FORNAX_OK));
            fx_request_cancel(q[k]);
            fx_request_close(q[k]);
        }
        rig_close(&r);
    }
}

TEST(a_waiting_taker_wakes_at_close)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 100);
    fx_request *q;
    static gotten g;
    rig r;

    REQUIRE(rig_open(&r, 8, 60, threaded(4), 200));
    r.model.no_eos = true;
    r.model.delay_us = 2000;
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    memset(&g, 0, sizeof g);
    take_events(q, &g, 5);
    fx_engine_close(r.engine);
    r.engine = NULL;
    take_events(q, &g, -1);
    CHECK(g.done);
    fx_request_close(q);
    rig_close(&r);
}

TEST(an_idle_engine_sleeps)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 5);
    struct timespec a, b;
    static gotten g;
    fx_request *q;
    rig r;

    REQUIRE(rig_open(&r, 8, 60, threaded(4), 200));
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    memset(&g, 0, sizeof g);
    take_events(q, &g, -1);
    fx_request_close(q);
    usleep(20000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    usleep(200000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    CHECK((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < 50);
    rig_close(&r);
}

/* In the child other calls refuse and close returns, though no thread is there. */
static void forked(bool manual_too)
{
    static const int32_t ids[] = { 1, 2, 3 };
    fornax_request_options o = asks(ids, 3, 100);
    fornax_engine_options e = threaded(4);
    const fornax_event *ev;
    fx_request *q, *q2;
    static gotten g;
    int status = 0, did;
    pid_t pid;
    rig r;

    e.manual = manual_too;
    if (!rig_open(&r, 8, 60, e, 200))
        return;
    r.model.delay_us = 1000;
    r.model.no_eos = true;
    CHECK(fx_request_submit(&q, r.engine, &o, NULL) == FORNAX_OK);
    pid = fork();
    if (pid == 0) {
        fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);
        bool ok;

        alarm(10);
        ok = fx_request_submit(&q2, r.engine, &o, NULL) == FORNAX_EARG;
        ok = ok && fx_request_next(q, &ev, -1, NULL) == FORNAX_EARG;
        ok = ok && fx_engine_step(r.engine, &did, NULL) == FORNAX_EARG;
        fx_engine_get_stats(r.engine, &s);
        fx_engine_drop_cache(r.engine);
        fx_request_cancel(q);
        fx_request_close(q);
        fx_engine_close(r.engine);
        _exit(ok ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    memset(&g, 0, sizeof g);
    if (manual_too)
        rig_steps(&r, 1000);
    take_events(q, &g, -1);
    CHECK(g.status == FORNAX_OK && g.at[0].n == 100);
    fx_request_close(q);
    rig_close(&r);
}

TEST(after_fork)
{
    forked(false);
    forked(true);
}

/* Signals go to the application's threads. */
static _Atomic(pthread_t *) handler_thread;
static pthread_t handled_by;
static void on_signal(int sig)
{
    (void)sig;
    handled_by = pthread_self();
    handler_thread = &handled_by;
}

TEST(signals_are_the_applications)
{
    struct sigaction act = { .sa_handler = on_signal }, old;
    rig r;

    REQUIRE(rig_open(&r, 8, 60, threaded(4), 200));
    sigaction(SIGUSR1, &act, &old);
    for (int i = 0; i < 20; i++) {
        handler_thread = NULL;
        kill(getpid(), SIGUSR1);
        for (int k = 0; k < 1000 && !handler_thread; k++)
            usleep(100);
        CHECK(handler_thread && pthread_equal(handled_by, pthread_self()));
    }
    sigaction(SIGUSR1, &old, NULL);
    rig_close(&r);
}

FXTEST_MAIN()
