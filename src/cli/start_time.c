/* start_time.c - starts this program anew and waits for the first byte of what it generates. */
#include "cli/start_time.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

enum { MAX_ARGS = 32 };

typedef struct command {
    const char *args[MAX_ARGS];
    size_t n;
    char threads[24], ctx[24], mib[24];
} command;

static void add(command *c, const char *name, const char *value)
{
    if (!value)
        return;
    c->args[c->n++] = name;
    if (*value)
        c->args[c->n++] = value;
}

static const char *number(char text[24], int64_t x)
{
    snprintf(text, 24, "%lld", (long long)x);
    return x ? text : NULL;
}

static void make_command(command *c, const char *model, const fx_model_opts *o)
{
    *c = (command){ .args = { "fornax", "generate", model, "-p", "Hello", "-n", "1", "--quiet" }, .n = 8 };
    add(c, "--threads", number(c->threads, o->threads));
    add(c, "--ctx", number(c->ctx, o->ctx));
    add(c, "--dtype", o->dtype);
    add(c, "--kv-dtype", o->kv_dtype);
    add(c, "--chat-template", o->chat_template);
    add(c, "--cache", o->cache);
    add(c, "--cache-mib", number(c->mib, o->cache_mib));
    add(c, "--no-cache", o->no_cache ? "" : NULL);
    add(c, "--code", o->code);
}

/* Reads to the end; when did the first byte come? 0: never. */
static uint64_t first_byte_ns(int fd)
{
    char piece[4096];
    uint64_t first = 0;
    ssize_t n;

    while ((n = read(fd, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0 && !first)
            first = fx_clock_ns();
    return first;
}

fornax_status fx_start_time_measure(fx_start_time *out, const char *model, const fx_model_opts *opt, fornax_error *err)
{
    struct rusage used = { 0 };
    uint64_t start, first;
    command c;
    int ends[2], status = -1;
    pid_t pid;

    make_command(&c, model, opt);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fx_fail(err, FORNAX_EIO, "can't make a pipe");
    start = fx_clock_ns();
    pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        execv("/proc/self/exe", (char *const *)c.args);
        _exit(127);
    }
    close(ends[1]);
    first = first_byte_ns(ends[0]);
    close(ends[0]);
    while (pid > 0 && wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
        ;
    if (pid < 0 || status != 0 || !first)
        return fx_fail(err, FORNAX_EIO, "%s: a process that generates one token failed", model);
    out->first_ms = (double)(first - start) / 1e6;
    out->rss_bytes = used.ru_maxrss * 1024;
    return FORNAX_OK;
}
