/* test_pool.c - the thread pool: every task once, in any mix of callers, and the
 * number of processors allowed by made-up cgroup trees. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/pool.h"
#include "floatmode.h"
#include "fxtest.h"

#define MANY 4096

typedef struct counts {
    _Atomic int hits[MANY];
    _Atomic int bad_worker;
    int threads;
} counts;

static void count(void *user, int64_t t0, int64_t t1, int worker)
{
    counts *c = user;

    if (worker < 0 || worker >= c->threads)
        atomic_fetch_add(&c->bad_worker, 1);
    for (int64_t t = t0; t < t1; t++)
        atomic_fetch_add(&c->hits[t], 1);
}

static bool each_once(counts *c, int n)
{
    bool ok = c->bad_worker == 0;

    for (int i = 0; i < MANY; i++)
        ok = ok && c->hits[i] == (i < n);
    return ok;
}

static fx_pool *new_pool(int threads)
{
    fx_error err = { 0 };
    fx_pool *p = NULL;

    CHECK_OK(fx_pool_new(&p, &fx_mem_libc, threads, &err), err);
    return p;
}

/* Both tasks of a launch at once; who ran which. */
typedef struct pair {
    _Atomic int begun;
    int worker[2];
} pair;

static void meet(void *user, int64_t t0, int64_t t1, int worker)
{
    pair *p = user;

    for (int64_t t = t0; t < t1; t++)
        p->worker[t] = worker;
    atomic_fetch_add(&p->begun, (int)(t1 - t0));
    for (uint64_t end = fx_clock_ns() + 20000000000u; atomic_load(&p->begun) < 2 && fx_clock_ns() < end;)
        sched_yield();
}

TEST(a_thread_begins_with_its_own_range)
{
    fx_pool *p = new_pool(2);

    for (int i = 0; i < 200; i++) {
        pair both = { 0 };

        fx_pool_run(p, meet, &both, 2, 1);
        CHECK_EQ_I64(both.worker[0], 0);
        CHECK_EQ_I64(both.worker[1], 1);
    }
    fx_pool_free(p);
}

TEST(each_task_runs_once)
{
    static const int tasks[] = { 0, 1, 2, 3, 7, 64, 1000, MANY }, grains[] = { -1, 1, 2, 3, 64, 100000 };

    for (int threads = 1; threads <= 5; threads++) {
        fx_pool *p = new_pool(threads);

        CHECK_EQ_I64(fx_pool_threads(p), threads);
        for (size_t i = 0; i < FX_COUNT(tasks); i++)
            for (size_t k = 0; k < FX_COUNT(grains); k++)
                for (int again = 0; again < 20; again++) {
                    counts c = { .threads = threads };

                    fx_pool_run(p, count, &c, tasks[i], grains[k]);
                    CHECK(each_once(&c, tasks[i]));
                }
        fx_pool_free(p);
    }
}

static void add(void *user, int64_t t0, int64_t t1, int worker)
{
    (void)worker;
    atomic_fetch_add((_Atomic int64_t *)user, t1 - t0);
}

TEST(more_tasks_than_one_launch_holds)
{
    fx_pool *p = new_pool(2);
    _Atomic int64_t sum = 0;
    int64_t n = ((int64_t)5 << 30) + 17;

    fx_pool_run(p, add, &sum, n, 1 << 20);
    CHECK_EQ_I64(sum, n);
    fx_pool_free(p);
}

/* A list whose launch i needs all results of launch i-1. */
typedef struct chain {
    int64_t cells[64];
    int launches;
    _Atomic int wrong;
} chain;

static void chain_task(void *user, int64_t t0, int64_t t1, int worker)
{
    chain *c = user;

    (void)worker;
    for (int64_t t = t0; t < t1; t++)
        c->cells[t]++;
}

static bool chain_next(void *user, int64_t i, fx_pool_job *job)
{
    chain *c = user;

    for (int k = 0; k < 64; k++)
        if (c->cells[k] != (k < 61 ? i : 0))
            atomic_fetch_add(&c->wrong, 1);
    if (i >= c->launches)
        return false;
    *job = (fx_pool_job){ chain_task, c, 61, 1 + i % 70 };
    return true;
}

TEST(lists_are_in_order)
{
    for (int threads = 1; threads <= 4; threads++) {
        fx_pool *p = new_pool(threads);
        chain c = { .launches = 3000 };

        fx_pool_run_list(p, chain_next, &c);
        CHECK_EQ_I64(c.wrong, 0);
        CHECK_EQ_I64(c.cells[60], 3000);
        fx_pool_free(p);
    }
}

static void *list_caller(void *arg)
{
    for (int i = 0; i < 5; i++) {
        chain c = { .launches = 400 };

        fx_pool_run_list(arg, chain_next, &c);
        if (c.wrong || c.cells[0] != 400)
            return arg;
    }
    return NULL;
}

static void *run_caller(void *arg)
{
    for (int i = 0; i < 500; i++) {
        counts *c = calloc(1, sizeof(*c));
        bool ok;

        c->threads = fx_pool_threads(arg);
        fx_pool_run(arg, count, c, 50, 3);
        ok = each_once(c, 50);
        free(c);
        if (!ok)
            return arg;
    }
    return NULL;
}

TEST(callers_take_turns)
{
    fx_pool *p = new_pool(3);
    pthread_t t[4];

    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, i % 2 ? list_caller : run_caller, p) == 0);
    for (int i = 0; i < 4; i++) {
        void *bad;

        pthread_join(t[i], &bad);
        CHECK(!bad);
    }
    fx_pool_free(p);
}

typedef struct nest {
    fx_pool *p;
    _Atomic int64_t sum;
    _Atomic int strange;
} nest;

static void nested(void *user, int64_t t0, int64_t t1, int worker)
{
    nest *n = user;

    if (worker < 0 || worker >= fx_pool_threads(n->p))
        n->strange++;
    for (int64_t t = t0; t < t1; t++)
        fx_pool_run(n->p, add, &n->sum, 10, 1);
}

static bool nested_next(void *user, int64_t i, fx_pool_job *job)
{
    *job = (fx_pool_job){ nested, user, i + 1, 4 };      /* small ones run inline */
    return i < 20;
}

TEST(launches_inside_tasks)
{
    nest n = { .p = new_pool(3) };

    fx_pool_run(n.p, nested, &n, 30, 1);
    CHECK_EQ_I64(n.sum, 300);
    n.sum = 0;
    fx_pool_run_list(n.p, nested_next, &n);
    CHECK_EQ_I64(n.sum, 2100);
    CHECK_EQ_I64(n.strange, 0);
    fx_pool_free(n.p);
}

TEST(idle_pools_use_no_time)
{
    fx_pool *p = new_pool(4);
    counts c = { .threads = 4 };
    struct timespec a, b;
    double ms;

    fx_pool_run(p, count, &c, 100, 1);
    usleep(20000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
    usleep(100000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
    ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
    CHECK(ms < 10);
    fx_pool_free(p);
}

static void slow(void *user, int64_t t0, int64_t t1, int worker)
{
    (void)worker;
    for (int64_t t = t0; t < t1; t++) {
        usleep(t == 1 ? 3000 : 0);
        atomic_fetch_add((_Atomic int64_t *)user, 1);
    }
}

TEST(a_caller_parks_for_slow_tasks)
{
    fx_pool *p = new_pool(3);

    for (int i = 0; i < 20; i++) {
        _Atomic int64_t sum = 0;

        fx_pool_run(p, slow, &sum, 3, 1);
        CHECK_EQ_I64(sum, 3);
    }
    fx_pool_free(p);
}

static void look(void *user, int64_t t0, int64_t t1, int worker)
{
    _Atomic int *bad = user;
    sigset_t set;

    (void)t0;
    (void)t1;
    usleep(200);
    if (worker == 0)
        return;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    if (!sigismember(&set, SIGINT) || !sigismember(&set, SIGUSR1))
        atomic_fetch_add(bad, 1);
#ifdef FLOATMODE
    if (floatmode_get() != FLOATMODE_DEFAULT)
        atomic_fetch_add(bad, 100);
#endif
}

TEST(workers_block_signals_and_set_the_mode)
{
    _Atomic int bad = 0;
    fx_pool *p;

#ifdef FLOATMODE
    uint64_t old = floatmode_get();

    floatmode_set(FLOATMODE_ODD);       /* threads inherit the creator's mode */
#endif
    p = new_pool(3);
    fx_pool_run(p, look, &bad, 50, 1);
    CHECK_EQ_I64(bad, 0);
#ifdef FLOATMODE
    floatmode_set(old);
#endif
    fx_pool_free(p);
}

TEST(free_after_fork_does_not_hang)
{
    fx_pool *p = new_pool(3);
    counts c = { .threads = 3 };
    int status = -1;
    pid_t child;

    fx_pool_run(p, count, &c, 100, 1);
    child = fork();
    if (child == 0) {
        alarm(5);
        fx_pool_free(p);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ_I64(status, 0);
    fx_pool_free(p);
}

TEST(refuses_silly_counts)
{
    fx_error err = { 0 };
    fx_pool *p = (fx_pool *)&err;

    CHECK_EQ_I64(fx_pool_new(&p, &fx_mem_libc, -1, &err), FORNAX_EARG);
    CHECK(!p);
    CHECK_STR(err.param, "threads");
    CHECK_EQ_I64(fx_pool_new(&p, &fx_mem_libc, 100000, &err), FORNAX_EARG);
}

/* ---- processors allowed --------------------------------------------------------- */

/* Writes text to root/path, making the folders. */
static void put(const char *root, const char *path, const char *text)
{
    char full[512], *slash;
    FILE *f;

    snprintf(full, sizeof(full), "%s/%s", root, path);
    for (slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(full, 0777);
        *slash = '/';
    }
    f = fopen(full, "w");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

typedef struct tree_case {
    const char *why;
    const char *files[9];       /* path, text, path, text, NULL */
    int limit;                  /* INT32_MAX: none */
} tree_case;

static const tree_case trees[] = {
    { "no cgroup file", { NULL }, INT32_MAX },
    { "v2, none", { "proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/cpu.max", "max 100000\n" }, INT32_MAX },
    { "v2, rounded up", { "proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/cpu.max", "100001 100000\n" }, 2 },
    { "v2, a tenth", { "proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/cpu.max", "10000 100000\n" }, 1 },
    { "v2, parent is tighter",
      { "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/cpu.max", "100000 100000\n",
        "sys/fs/cgroup/a/b/cpu.max", "800000 100000\n" }, 1 },
    { "v2, path of another namespace: the mount's root counts",
      { "proc/self/cgroup", "0::/kube/pod7\n", "sys/fs/cgroup/cpu.max", "100000 100000\n" }, 1 },
    { "v2, above the namespace",
      { "proc/self/cgroup", "0::/../x\n", "sys/fs/cgroup/cpu.max", "100000 100000\n" }, 1 },
    { "v2 beside v1",
      { "proc/self/cgroup", "3:memory:/q\n0::/a\n", "sys/fs/cgroup/unified/a/cpu.max", "50000 50000\n" }, 1 },
    { "v1, none",
      { "proc/self/cgroup", "2:cpu:/a\n", "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n",
        "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n" }, INT32_MAX },
    { "v1",
      { "proc/self/cgroup", "9:pids:/\n4:cpu,cpuacct:/d/1\n",
        "sys/fs/cgroup/cpu,cpuacct/d/1/cpu.cfs_quota_us", "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/d/1/cpu.cfs_period_us", "100000\n" }, 1 },
    { "v1, parent",
      { "proc/self/cgroup", "4:cpuacct,cpu:/d/1", "sys/fs/cgroup/cpu/d/cpu.cfs_quota_us", "90000\n",
        "sys/fs/cgroup/cpu/d/cpu.cfs_period_us", "90000\n" }, 1 },
    { "cpuset isn't cpu",
      { "proc/self/cgroup", "4:cpuset:/d\n", "sys/fs/cgroup/cpu/d/cpu.cfs_quota_us", "1\n",
        "sys/fs/cgroup/cpu/d/cpu.cfs_period_us", "1\n" }, INT32_MAX },
    { "garbage", { "proc/self/cgroup", "::\n:\n0::\nx", "sys/fs/cgroup/cpu.max", "zzz" }, INT32_MAX },
    { "zero period", { "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/cpu.max", "5 0" }, INT32_MAX },
};

TEST(cpus_allowed)
{
    cpu_set_t set;
    int mine;

    CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
    mine = CPU_COUNT(&set);
    for (size_t i = 0; i < FX_COUNT(trees); i++) {
        char root[] = "/tmp/fxpoolXXXXXX", command[64];
        const char *const *f = trees[i].files;
        int got;

        REQUIRE(mkdtemp(root));
        for (; f[0]; f += 2)
            put(root, f[0], f[1]);
        got = fx_pool_cpus_allowed(root);
        if (got != FX_MIN(mine, trees[i].limit))
            FXTEST_FAIL("%s: %d", trees[i].why, got);
        snprintf(command, sizeof(command), "rm -rf %s", root);
        CHECK(system(command) == 0);
    }
    CHECK(fx_pool_cpus_allowed("") >= 1);
}

TEST(launch_cost)
{
    fx_pool *p = new_pool(2);
    chain c = { .launches = 20000 };
    uint64_t t = fx_clock_ns();

    fx_pool_run_list(p, chain_next, &c);
    printf("launch_cost: %.2f us a launch of a list, 2 threads\n", (double)(fx_clock_ns() - t) / 20000e3);
    fx_pool_free(p);
}

FXTEST_MAIN()
