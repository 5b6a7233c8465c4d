/* test_server_health.c - /health of a server whose engine stands still: the engine is one that nobody
 * steps, which looks from outside like one whose thread hangs. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "fxtest.h"
#include "server/server.h"

typedef struct host {
    fornax_engine *engine;
    atomic_int port;             /* 0: not listening yet */
    atomic_bool stop;
    fornax_status status;
    pthread_t thread;
} host;

static void ready(void *user, int port) { atomic_store(&((host *)user)->port, port); }
static int stopping(void *user) { return atomic_load(&((host *)user)->stop); }

static void *serve(void *user)
{
    static const char *const names[] = { "m" };
    host *h = user;
    const fx_server_options opt = {
        .host = "127.0.0.1", .names = names, .n_names = 1, .stall_ms = 1500, .default_temperature = -1,
        .ready = ready, .ready_user = h, .stopping = stopping, .stopping_user = h,
    };

    h->status = fx_server_run(h->engine, &opt, NULL);
    return NULL;
}

/* Sends bytes on a connection of its own; the answer's status, or 0. *fd: the connection is kept open and nothing read. */
static int talk(const host *h, const char *request, int *fd)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atomic_load(&h->port)) };
    char answer[4096] = "";
    int s = socket(AF_INET, SOCK_STREAM, 0), status = 0;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(s, (struct sockaddr *)&at, sizeof at) != 0 || write(s, request, strlen(request)) < 0)
        FXTEST_FAIL("can't talk to the server");
    if (fd) {
        *fd = s;
        return 0;
    }
    if (read(s, answer, sizeof answer - 1) > 0 && sscanf(answer, "HTTP/1.1 %d", &status) != 1)
        FXTEST_FAIL("not HTTP: %s", answer);
    close(s);
    return status;
}

static int health(const host *h) { return talk(h, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", NULL); }

/* Whether health becomes 'status' before long. */
static bool becomes(const host *h, int status)
{
    uint64_t end = fx_clock_ns() + 20000000000u;

    while (health(h) != status && fx_clock_ns() < end)
        usleep(50000);
    return health(h) == status;
}

TEST(an_engine_that_stands_still_is_not_healthy)
{
    static const char post[] = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n"
                               "{\"prompt\": [1, 2, 3], \"max_tokens\": 2}  ";
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_error err = { 0 };
    host h = { 0 };
    int client, did = 1;

    eo.manual = 1;
    CHECK_OK(fornax_context_open(&ctx, NULL, &err), err);
    CHECK_OK(fornax_model_open(&model, ctx, FXTEST_DATA "/models/llama3", NULL, &err), err);
    CHECK_OK(fornax_engine_open(&h.engine, model, &eo, &err), err);
    CHECK(pthread_create(&h.thread, NULL, serve, &h) == 0);
    while (!atomic_load(&h.port))
        usleep(1000);
    usleep(3000000);
    CHECK_EQ_I64(health(&h), 200);               /* nothing to do is no stall */
    talk(&h, post, &client);
    CHECK(becomes(&h, 503));
    while (did)
        CHECK_OK(fornax_engine_step(h.engine, &did, &err), err);
    CHECK(becomes(&h, 200));
    close(client);
    atomic_store(&h.stop, true);
    pthread_join(h.thread, NULL);
    CHECK(h.status == FORNAX_OK);
    fornax_engine_close(h.engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
}

FXTEST_MAIN()
