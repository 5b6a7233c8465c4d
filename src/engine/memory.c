/* memory.c - see memory.h. */
#include "engine/memory.h"

#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

#define SMALL_FILE ((size_t)1 << 20)

/* The number in the file, or 'most' if there is none ("max", no such file). */
static uint64_t read_limit(const char *path, fx_buf *text, uint64_t most)
{
    fx_str s;
    uint64_t n;

    fx_buf_clear(text);
    if (fx_file_read(text, path, SMALL_FILE, NULL) != FORNAX_OK)
        return most;
    s = fx_buf_view(text);
    while (s.n > 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == ' '))
        s.n--;
    return fx_parse_u64(s, &n) && n > 0 ? FX_MIN(n, most) : most;
}

/* The least limit from mount/group up to the mount; 'file' is the limit's name. */
static uint64_t walk_up(const fx_mem *mem, const char *root, const char *mount, fx_str group, const char *file,
                        uint64_t most)
{
    fx_buf path, text;

    fx_buf_init(&path, mem);
    fx_buf_init(&text, mem);
    if (fx_str_find(group, FX_STR(".."), 0) != FX_STR_NONE)
        group.n = 0;                      /* never out of the mount */
    for (;;) {
        fx_buf_clear(&path);
        fx_buf_puts(&path, root);
        fx_buf_puts(&path, mount);
        fx_buf_str(&path, group);
        fx_buf_putc(&path, '/');
        fx_buf_puts(&path, file);
        if (path.failed)
            break;
        most = read_limit(path.p, &text, most);
        if (group.n == 0)
            break;
        do
            group.n--;
        while (group.n > 0 && group.p[group.n] != '/');
    }
    fx_buf_done(&text);
    fx_buf_done(&path);
    return most;
}

/* A line of /proc/self/cgroup: "0::/a/b" (v2) or "4:memory:/a/b" (v1). */
static uint64_t line_limit(const fx_mem *mem, const char *root, fx_str line, uint64_t most)
{
    size_t a = fx_str_find(line, FX_STR(":"), 0);
    size_t b = a == FX_STR_NONE ? FX_STR_NONE : fx_str_find(line, FX_STR(":"), a + 1);
    fx_str group;

    if (b == FX_STR_NONE)
        return most;
    group = fx_str_n(line.p + b + 1, line.n - b - 1);
    if (b == a + 1) {
        most = walk_up(mem, root, "/sys/fs/cgroup", group, "memory.max", most);
        return walk_up(mem, root, "/sys/fs/cgroup/unified", group, "memory.max", most);
    }
    if (fx_str_is(fx_str_n(line.p + a + 1, b - a - 1), "memory"))
        return walk_up(mem, root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", most);
    return most;
}

uint64_t fx_memory_bytes(const fx_mem *mem, const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t most = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : (uint64_t)1 << 32;
    fx_buf path, text;
    fx_str all;

    fx_buf_init(&path, mem);
    fx_buf_init(&text, mem);
    fx_buf_puts(&path, root);
    fx_buf_puts(&path, "/proc/self/cgroup");
    if (!path.failed && fx_file_read(&text, path.p, SMALL_FILE, NULL) == FORNAX_OK) {
        all = fx_buf_view(&text);
        for (size_t i = 0; i < all.n;) {
            size_t end = fx_str_find(all, FX_STR("\n"), i);

            end = end == FX_STR_NONE ? all.n : end;
            most = line_limit(mem, root, fx_str_n(all.p + i, end - i), most);
            i = end + 1;
        }
    }
    fx_buf_done(&text);
    fx_buf_done(&path);
    return most;
}
