/* fuzz_http.c - the server: bytes of any kind on a connection, and bodies of any kind for its routes.
 *
 * An input that begins with '/' is a path, a newline and a body, to which a proper request is made; any other is
 * sent as it is.  The server runs on its own threads with a small model; it must answer, and never with a 500. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"
#include "server/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static fornax_context *ctx;
static fornax_model *model;
static fornax_engine *engine;
static pthread_t thread;
static volatile int port, stop;

static void ready(void *user, int p)
{
    (void)user;
    port = p;
}

static int stopping(void *user)
{
    (void)user;
    return stop;
}

static void *serve(void *user)
{
    static const char *const names[] = { "m" };
    fx_server_options so = { .host = "127.0.0.1", .names = names, .n_names = 1, .max_body_bytes = 1 << 20, .idle_timeout_s = 2,
                             .ready = ready, .stopping = stopping, .default_temperature = -1 };

    (void)user;
    if (fx_server_run(engine, &so, NULL) != FORNAX_OK)
        abort();
    return NULL;
}

static void finish(void)
{
    stop = 1;
    pthread_join(thread, NULL);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
}

static void start(void)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);

    co.threads = 1;
    mo.max_context = 64;
    if (fornax_context_open(&ctx, &co, NULL) || fornax_model_open(&model, ctx, FUZZ_DATA "/models/llama3", &mo, NULL) ||
        fornax_engine_open(&engine, model, NULL, NULL) || pthread_create(&thread, NULL, serve, NULL))
        abort();
    while (!port)
        usleep(1000);
    atexit(finish);
}

/* Sends, and reads until the answer ends or 'ms' without a byte have passed. Whether there was an answer. */
static bool talk(fx_str request, int ms)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char in[4096];
    size_t sent = 0, got = 0;
    ssize_t n = 1;

    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        abort();
    while (sent < request.n && (n = send(fd, request.p + sent, request.n - sent, MSG_NOSIGNAL)) > 0)
        sent += (size_t)n;
    while (got < 65536 && poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, ms) > 0 && (n = recv(fd, in, sizeof(in), 0)) > 0) {
        if (got == 0 && n > 12 && memcmp(in + 9, "500", 3) == 0)
            abort();
        got += (size_t)n;
    }
    close(fd);
    return got > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_str all = fx_str_n((const char *)data, size);
    size_t line = fx_str_find(all, FX_STR("\n"), 0);
    fx_buf b;

    if (!port)
        start();
    if (size == 0 || data[0] != '/' || line == FX_STR_NONE || line > 200 || memchr(data, ' ', line) || memchr(data, '\r', line) ||
        memchr(data, 0, line)) {
        talk(all, 20);
        return 0;
    }
    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_printf(&b, "POST %.*s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                  (int)line, all.p, size - line - 1);
    fx_buf_add(&b, all.p + line + 1, size - line - 1);
    if (!talk(fx_buf_view(&b), 20000))
        abort();
    fx_buf_done(&b);
    return 0;
}
