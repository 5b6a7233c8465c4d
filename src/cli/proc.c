/* proc.c - see proc.h. */
#include "cli/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"

extern char **environ;

/* ---- Starting ---- */

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A pipe whose ends lie above the three that a program is given. */
static bool make_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, 3);
        close(low[i]);
    }
    if (ends[0] >= 0 && ends[1] >= 0)
        return true;
    shut(&ends[0]);
    shut(&ends[1]);
    return false;
}

typedef struct setup {
    int in[2], out[2], err[2];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    char **env;
} setup;

static bool names(const char *entry, const char *key)
{
    size_t n = strlen(key);

    return strncmp(entry, key, n) == 0 && entry[n] == '=';
}

/* Our environment with the entries of 'extra' in it; those are ours to free. */
static char **make_env(const json_t *extra, size_t *own)
{
    size_t n = 0, m = 0;
    const char *key;
    json_t *v;

    while (environ[n])
        n++;
    char **env = calloc(n + json_object_size(extra) + 1, sizeof *env);

    json_object_foreach((json_t *)extra, key, v) {
        fx_buf b;

        if (!env)
            break;
        fx_buf_init(&b, &fx_mem_libc);
        fx_buf_printf(&b, "%s=%s", key, json_string_value(v));
        env[m] = b.p ? strdup(b.p) : NULL;
        fx_buf_done(&b);
        if (!env[m])
            break;
        m++;
    }
    *own = m;
    for (size_t i = 0; env && i < n; i++) {
        bool replaced = false;

        json_object_foreach((json_t *)extra, key, v)
            replaced |= names(environ[i], key);
        if (!replaced)
            env[m++] = environ[i];
    }
    if (env && *own == json_object_size(extra))
        return env;
    for (size_t i = 0; env && i < *own; i++)
        free(env[i]);
    free(env);
    return NULL;
}

static int set_files(setup *s, const fx_proc_spec *spec)
{
    posix_spawn_file_actions_t *f = &s->files;
    int e = spec->with_input ? posix_spawn_file_actions_adddup2(f, s->in[0], 0)
                             : posix_spawn_file_actions_addopen(f, 0, "/dev/null", O_RDONLY, 0);

    e = e ? e : posix_spawn_file_actions_adddup2(f, s->out[1], 1);
    if (!e)
        e = spec->with_errors ? posix_spawn_file_actions_adddup2(f, s->err[1], 2)
            : spec->errors_to >= 0 ? posix_spawn_file_actions_adddup2(f, spec->errors_to, 2)
                                   : posix_spawn_file_actions_addopen(f, 2, "/dev/null", O_WRONLY, 0);
    e = e ? e : posix_spawn_file_actions_addclosefrom_np(f, 3);
    return e || !spec->dir ? e : posix_spawn_file_actions_addchdir_np(f, spec->dir);
}

static int set_attr(setup *s)
{
    sigset_t all, none;
    int e;

    sigfillset(&all);
    sigemptyset(&none);
    e = posix_spawnattr_setsigdefault(&s->attr, &all);
    e = e ? e : posix_spawnattr_setsigmask(&s->attr, &none);
    e = e ? e : posix_spawnattr_setpgroup(&s->attr, 0);
    return e ? e : posix_spawnattr_setflags(&s->attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
}

static int spawn(fx_proc *p, setup *s, const fx_proc_spec *spec)
{
    size_t own = 0;
    int e = posix_spawn_file_actions_init(&s->files);

    if (e)
        return e;
    e = posix_spawnattr_init(&s->attr);
    if (!e) {
        char **env = make_env(spec->env, &own);

        e = env ? set_files(s, spec) : ENOMEM;
        e = e ? e : set_attr(s);
        e = e ? e : posix_spawnp(&p->pid, spec->argv[0], &s->files, &s->attr, (char *const *)spec->argv, env);
        for (size_t i = 0; env && i < own; i++)
            free(env[i]);
        free(env);
        posix_spawnattr_destroy(&s->attr);
    }
    posix_spawn_file_actions_destroy(&s->files);
    return e;
}

static void keep(int *ours, int *end)
{
    *ours = *end;
    *end = -1;
    if (*ours >= 0)
        fcntl(*ours, F_SETFL, fcntl(*ours, F_GETFL) | O_NONBLOCK);
}

fx_status fx_proc_start(fx_proc *p, const fx_proc_spec *spec, fx_error *err)
{
    setup s = { .in = { -1, -1 }, .out = { -1, -1 }, .err = { -1, -1 } };
    char words[128];
    int e = 0;

    *p = (fx_proc){ .in = -1, .out = -1, .err = -1 };
    if ((spec->with_input && !make_pipe(s.in)) || !make_pipe(s.out) || (spec->with_errors && !make_pipe(s.err)))
        e = errno;
    if (!e)
        e = spawn(p, &s, spec);
    if (e) {
        p->pid = 0;
    } else {
        keep(&p->in, &s.in[1]);
        keep(&p->out, &s.out[0]);
        keep(&p->err, &s.err[0]);
    }
    for (int i = 0; i < 2; i++) {
        shut(&s.in[i]);
        shut(&s.out[i]);
        shut(&s.err[i]);
    }
    if (!e)
        return FORNAX_OK;
    return fx_fail(err, e == ENOENT ? FORNAX_ENOTFOUND : FORNAX_EIO, "%s: %s", FX_SHOW(fx_str_of(spec->argv[0])),
                   fx_errno_text(e, words, sizeof words));
}

/* ---- Ending ---- */

bool fx_proc_over(fx_proc *p)
{
    if (p->pid > 0 && waitpid(p->pid, &p->status, WNOHANG) == p->pid) {
        kill(-p->pid, SIGKILL);          /* what it left behind in its group */
        p->pid = 0;
    }
    return p->pid == 0;
}

static bool over_within(fx_proc *p, int ms)
{
    uint64_t end = fx_clock_ns() + (uint64_t)ms * 1000000;

    while (!fx_proc_over(p) && fx_clock_ns() < end)
        poll(NULL, 0, 5);
    return fx_proc_over(p);
}

void fx_proc_stop(fx_proc *p, int patience_ms)
{
    shut(&p->in);
    shut(&p->out);
    shut(&p->err);
    if (over_within(p, patience_ms))
        return;
    kill(-p->pid, SIGTERM);
    if (over_within(p, 500))
        return;
    kill(-p->pid, SIGKILL);
    while (waitpid(p->pid, &p->status, 0) < 0 && errno == EINTR)
        ;
    p->pid = 0;
}

const char *fx_proc_how(int status, char out[64])
{
    if (WIFSIGNALED(status))
        fx_format(out, 64, "signal %d", WTERMSIG(status));
    else
        fx_format(out, 64, "exit status %d", WEXITSTATUS(status));
    return out;
}

/* ---- Running to the end ---- */

/* What is there to read: up to 'cap' bytes are kept. False: nothing will come any more. */
static bool take(int *fd, fx_buf *to, size_t cap, size_t *total)
{
    char piece[16384];
    ssize_t n;

    while ((n = read(*fd, piece, sizeof piece)) > 0) {
        fx_buf_add(to, piece, FX_MIN((size_t)n, cap - FX_MIN(cap, to->n)));
        *total += (size_t)n;
        if ((size_t)n < sizeof piece)
            return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    shut(fd);
    return false;
}

static void give(int *fd, fx_str *input)
{
    ssize_t n = input->n > 0 ? write(*fd, input->p, input->n) : 0;

    if (n > 0)
        *input = fx_str_n(input->p + n, input->n - (size_t)n);
    if (input->n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        shut(fd);                        /* all given, or it doesn't want it */
}

/* One wait of at most 50 ms, and what it brings. */
static void exchange(fx_proc *p, fx_proc_result *r, fx_str *input, size_t cap)
{
    struct pollfd fds[3] = { { p->out, POLLIN, 0 }, { p->err, POLLIN, 0 }, { p->in, POLLOUT, 0 } };
    size_t ignored = 0;

    if (poll(fds, 3, 50) <= 0)
        return;
    if (p->out >= 0 && fds[0].revents)
        take(&p->out, &r->out, cap, &r->out_bytes);
    if (p->err >= 0 && fds[1].revents)
        take(&p->err, &r->errors, cap, &ignored);
    if (p->in >= 0 && fds[2].revents)
        give(&p->in, input);
}

fx_status fx_proc_run(fx_proc_result *r, const fx_proc_spec *spec, fx_str input, double timeout_s, size_t cap, fx_error *err)
{
    uint64_t end = fx_clock_ns() + (uint64_t)(timeout_s * 1e9), drained = 0;
    fx_proc p;

    *r = (fx_proc_result){ 0 };
    fx_buf_init(&r->out, &fx_mem_libc);
    fx_buf_init(&r->errors, &fx_mem_libc);
    FX_TRY(fx_proc_start(&p, spec, err));
    fx_cli_kill_at_exit(p.pid);
    /* When it has ended, others may still hold its pipes: what is in them is read, but nobody waits for more. */
    while (p.out >= 0 || p.err >= 0 || !fx_proc_over(&p)) {
        exchange(&p, r, &input, cap);
        r->interrupted = fx_cli_interrupted();
        r->timed_out = !r->interrupted && fx_clock_ns() >= end;
        if (r->interrupted || r->timed_out)
            break;
        if (fx_proc_over(&p) && drained == 0)
            drained = fx_clock_ns() + 200000000;
        if (drained && fx_clock_ns() >= drained)
            break;
    }
    fx_proc_stop(&p, 0);
    fx_cli_kill_at_exit(0);
    r->status = p.status;
    return r->out.failed || r->errors.failed ? fx_nomem(err, "a tool's output") : FORNAX_OK;
}

void fx_proc_result_done(fx_proc_result *r)
{
    fx_buf_done(&r->out);
    fx_buf_done(&r->errors);
}
