/* pool_cpus.c - how many processors this process may use.
 *
 * The affinity mask (which cpuset cgroups narrow too), and the CPU bandwidth quota
 * of every cgroup from the process's own up to the root of the mount, in both
 * versions of the interface. /proc/self/cgroup has a line a hierarchy:
 *
 *     0::/user.slice/app                v2: cpu.max holds "quota period" or "max period"
 *     3:cpu,cpuacct:/docker/4f2         v1: cpu.cfs_quota_us (-1: none), cpu.cfs_period_us
 *
 * Inside a container the path often names folders that its mount doesn't have; the
 * walk up then begins where they do exist, at the latest at the mount itself. */
#include <sched.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/text.h"

#define SMALL_FILE ((size_t)1 << 20)

static int affinity_cpus(void)
{
    for (int n = 1024; n <= 1 << 20; n *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        size_t bytes = CPU_ALLOC_SIZE((size_t)n);
        int count = 0;

        if (!set)
            break;
        if (sched_getaffinity(0, bytes, set) == 0)
            count = CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    return (int)FX_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
}

static fx_str next_word(fx_str *s)
{
    size_t i = 0, from;

    while (i < s->n && (s->p[i] == ' ' || s->p[i] == '\n'))
        i++;
    from = i;
    while (i < s->n && s->p[i] != ' ' && s->p[i] != '\n')
        i++;
    fx_str word = fx_str_n(s->p + from, i - from);
    *s = fx_str_n(s->p + i, s->n - i);
    return word;
}

/* Reads the file dir/name into b; false if there is none. */
static bool read_small(fx_buf *b, fx_str dir, const char *name)
{
    fx_buf path;
    bool ok;

    fx_buf_clear(b);
    fx_buf_init(&path, &fx_mem_libc);
    fx_buf_str(&path, dir);
    fx_buf_putc(&path, '/');
    fx_buf_puts(&path, name);
    ok = !path.failed && fx_file_read(b, path.p, SMALL_FILE, NULL) == FORNAX_OK;
    fx_buf_done(&path);
    return ok;
}

/* quota/period rounded up, or INT_MAX when there is no limit in these words. */
static int quota_cpus(fx_str quota, fx_str period)
{
    int64_t q, p;

    if (!fx_parse_i64(quota, &q) || !fx_parse_i64(period, &p) || q <= 0 || p <= 0)
        return INT32_MAX;
    return (int)FX_MIN((q - 1) / p + 1, INT32_MAX);
}

static int limit_v2(fx_str dir, fx_buf *b)
{
    fx_str s, quota;

    if (!read_small(b, dir, "cpu.max"))
        return INT32_MAX;
    s = fx_buf_view(b);
    quota = next_word(&s);
    return quota_cpus(quota, next_word(&s));
}

static int limit_v1(fx_str dir, fx_buf *b)
{
    fx_str s, quota;
    char text[24];

    if (!read_small(b, dir, "cpu.cfs_quota_us"))
        return INT32_MAX;
    s = fx_buf_view(b);
    quota = next_word(&s);
    if (quota.n >= sizeof(text))
        return INT32_MAX;
    memcpy(text, quota.p, quota.n);
    quota.p = text;
    if (!read_small(b, dir, "cpu.cfs_period_us"))
        return INT32_MAX;
    s = fx_buf_view(b);
    return quota_cpus(quota, next_word(&s));
}

/* The least limit from mount/path up to the mount itself. */
static int walk_up(const char *root, const char *mount, fx_str path, int (*limit)(fx_str dir, fx_buf *b))
{
    int best = INT32_MAX;
    fx_buf dir, scratch;
    size_t base;

    fx_buf_init(&dir, &fx_mem_libc);
    fx_buf_init(&scratch, &fx_mem_libc);
    fx_buf_puts(&dir, root);
    fx_buf_puts(&dir, mount);
    base = dir.n;
    if (fx_str_find(path, FX_STR(".."), 0) == FX_STR_NONE)      /* never out of the mount */
        fx_buf_str(&dir, path);
    while (!dir.failed) {
        int here = limit(fx_buf_view(&dir), &scratch);

        best = FX_MIN(best, here);
        if (dir.n <= base)
            break;
        while (dir.n > base && dir.p[dir.n - 1] != '/')
            dir.n--;
        if (dir.n > base)
            dir.n--;
        dir.p[dir.n] = 0;
    }
    fx_buf_done(&scratch);
    fx_buf_done(&dir);
    return best;
}

/* Whether a comma-separated list holds "cpu". */
static bool has_cpu(fx_str list)
{
    size_t i = 0;

    while (i <= list.n) {
        size_t comma = fx_str_find(list, FX_STR(","), i);
        size_t end = comma == FX_STR_NONE ? list.n : comma;

        if (fx_str_is(fx_str_n(list.p + i, end - i), "cpu"))
            return true;
        i = end + 1;
    }
    return false;
}

/* One line of /proc/self/cgroup, "id:controllers:path". */
static int line_limit(const char *root, fx_str line)
{
    static const char *const v1_mounts[] = { "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct",
                                             "/sys/fs/cgroup/cpuacct,cpu" };
    size_t a = fx_str_find(line, FX_STR(":"), 0), b;
    int best = INT32_MAX;
    fx_str list, path;

    if (a == FX_STR_NONE)
        return best;
    b = fx_str_find(line, FX_STR(":"), a + 1);
    if (b == FX_STR_NONE)
        return best;
    list = fx_str_n(line.p + a + 1, b - a - 1);
    path = fx_str_n(line.p + b + 1, line.n - b - 1);
    if (list.n == 0) {
        int hybrid = walk_up(root, "/sys/fs/cgroup/unified", path, limit_v2);

        best = walk_up(root, "/sys/fs/cgroup", path, limit_v2);
        return FX_MIN(best, hybrid);
    }
    if (!has_cpu(list))
        return best;
    for (size_t i = 0; i < FX_COUNT(v1_mounts); i++) {
        int here = walk_up(root, v1_mounts[i], path, limit_v1);

        best = FX_MIN(best, here);
    }
    return best;
}

int fx_pool_cpus_allowed(const char *root)
{
    int best = affinity_cpus();
    fx_buf text, path;

    fx_buf_init(&text, &fx_mem_libc);
    fx_buf_init(&path, &fx_mem_libc);
    fx_buf_puts(&path, root);
    fx_buf_puts(&path, "/proc/self/cgroup");
    if (!path.failed && fx_file_read(&text, path.p, SMALL_FILE, NULL) == FORNAX_OK) {
        fx_str all = fx_buf_view(&text);

        for (size_t i = 0; i < all.n;) {
            size_t end = fx_str_find(all, FX_STR("\n"), i);
            int here;

            end = end == FX_STR_NONE ? all.n : end;
            here = line_limit(root, fx_str_n(all.p + i, end - i));
            best = FX_MIN(best, here);
            i = end + 1;
        }
    }
    fx_buf_done(&path);
    fx_buf_done(&text);
    return FX_MAX(best, 1);
}
