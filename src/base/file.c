/* file.c - mapped files, small files read whole, files replaced atomically, folders. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

struct fx_file {
    const fx_mem *mem;
    char *bytes;                /* NULL when the file is empty */
    size_t n;
    fx_file_id id;
    bool others;
    size_t path_n;
    char path[];
};

/* The sentence for an errno of the system, about 'path'. */
static fx_status fail_errno(fx_error *err, const char *path, int e)
{
    fx_status st = FORNAX_EIO;
    char text[128];

    if (e == ENOENT || e == ENOTDIR)
        st = FORNAX_ENOTFOUND;
    if (e == ENOMEM)
        st = FORNAX_ENOMEM;
    return fx_fail(err, st, "%s: %s", path, fx_errno_text(e, text, sizeof(text)));
}

/* O_NONBLOCK: opening a named pipe without a writer must not hang. */
static fx_status open_regular(int *fd, struct stat *info, const char *path, fx_error *err)
{
    fx_status st;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0)
        return fail_errno(err, path, errno);
    if (fstat(*fd, info) != 0)
        st = fail_errno(err, path, errno);
    else if (S_ISREG(info->st_mode))
        return FORNAX_OK;
    else
        st = fx_fail(err, FORNAX_EIO, "%s: expected a file, found %s", path,
                     S_ISDIR(info->st_mode) ? "a folder" : "a device or pipe");
    close(*fd);
    *fd = -1;
    return st;
}

static uint64_t in_ns(struct timespec t) { return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec; }

fx_status fx_file_map(fx_file **out, const fx_mem *mem, const char *path, fx_error *err)
{
    size_t path_n = strlen(path);
    struct stat info;
    void *bytes = NULL;
    fx_file *f;
    int fd, e = 0;

    *out = NULL;
    FX_TRY(open_regular(&fd, &info, path, err));
    if ((uint64_t)info.st_size > PTRDIFF_MAX)
        e = EFBIG;
    else if (info.st_size > 0)
        bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        e = errno;
    close(fd);
    if (e)
        return fail_errno(err, path, e);
    f = fx_mem_zalloc(mem, sizeof(*f) + path_n + 1);
    if (!f) {
        if (bytes)
            munmap(bytes, (size_t)info.st_size);
        return fx_nomem(err, path);
    }
    f->mem = mem;
    f->bytes = bytes;
    f->n = (size_t)info.st_size;
    f->id = (fx_file_id){ (uint64_t)info.st_dev, (uint64_t)info.st_ino, (uint64_t)info.st_size, in_ns(info.st_mtim),
                          in_ns(info.st_ctim) };
    f->others = (info.st_uid != geteuid() && info.st_uid != 0) || (info.st_mode & S_IWOTH) != 0;
    f->path_n = path_n;
    memcpy(f->path, path, path_n + 1);
    *out = f;
    return FORNAX_OK;
}

bool fx_file_is_others(const fx_file *f) { return f->others; }

void fx_file_unmap(fx_file *f)
{
    if (!f)
        return;
    if (f->bytes)
        munmap(f->bytes, f->n);
    fx_mem_free(f->mem, f, sizeof(*f) + f->path_n + 1);
}

fx_str fx_file_bytes(const fx_file *f)
{
    return fx_str_n(f->bytes ? f->bytes : "", f->n);
}

const char *fx_file_path(const fx_file *f)
{
    return f->path;
}

fx_file_id fx_file_identity(const fx_file *f)
{
    return f->id;
}

/* Calls madvise on the pages of p[0..n); only those wholly inside if 'inner'. */
static void advise(const fx_file *f, const void *p, size_t n, int advice, bool inner)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), a = (uintptr_t)p, b = a + n;

    if (!f->bytes || n == 0)
        return;
    FX_ASSERT((const char *)p >= f->bytes && n <= f->n - (size_t)((const char *)p - f->bytes));
    a = inner ? FX_ROUND_UP(a, page) : a / page * page;
    if (inner && b != (uintptr_t)f->bytes + f->n)
        b = b / page * page;
    if (a < b)
        madvise((void *)a, b - a, advice);
}

void fx_file_release(const fx_file *f, const void *p, size_t n)
{
    advise(f, p, n, MADV_DONTNEED, true);
}

void fx_file_prefetch(const fx_file *f, const void *p, size_t n)
{
    advise(f, p, n, MADV_WILLNEED, false);
}

void fx_file_huge(const fx_file *f)
{
#ifdef MADV_HUGEPAGE
    if (f->bytes)
        madvise(f->bytes, f->n, MADV_HUGEPAGE);         /* advice: a refusal costs only speed */
#endif
}

/* The number of kilobytes behind 'field' in the lines of a mapping, which end where the next one's begin. */
static size_t field_kib(fx_str lines, const char *field)
{
    size_t at = fx_str_find(lines, fx_str_of(field), 0), end;
    int64_t kib = 0;

    if (at == FX_STR_NONE)
        return 0;
    for (at += strlen(field); at < lines.n && lines.p[at] == ' ';)
        at++;
    for (end = at; end < lines.n && lines.p[end] >= '0' && lines.p[end] <= '9';)
        end++;
    return fx_parse_i64(fx_str_n(lines.p + at, end - at), &kib) ? (size_t)kib : 0;
}

size_t fx_file_huge_bytes(const fx_file *f)
{
    enum { MOST = 8 << 20 };                    /* of text: a process with more mappings isn't asked */
    size_t at, end, kib = 0;
    char head[32];
    fx_buf b;
    fx_str s;

    fx_buf_init(&b, &fx_mem_libc);
    fx_format(head, sizeof head, "\n%llx-", (unsigned long long)(uintptr_t)f->bytes);
    if (f->bytes && fx_file_read(&b, "/proc/self/smaps", MOST, NULL) == FORNAX_OK) {
        s = fx_buf_view(&b);
        at = fx_str_find(s, fx_str_of(head), 0);
        end = at == FX_STR_NONE ? at : fx_str_find(s, FX_STR("VmFlags:"), at);
        if (end != FX_STR_NONE)
            kib = field_kib(fx_str_n(s.p + at, end - at), "FilePmdMapped:") + field_kib(fx_str_n(s.p + at, end - at), "ShmemPmdMapped:");
    }
    fx_buf_done(&b);
    return kib << 10;
}

/* Appends what is left of fd. 'limit' counts the bytes added. */
static fx_status read_all(fx_buf *out, int fd, const char *path, size_t limit, fx_error *err)
{
    size_t start = out->n;

    for (;;) {
        ssize_t got;

        if (!fx_buf_reserve(out, 4096))
            return fx_nomem(err, path);
        got = read(fd, out->p + out->n, out->cap - out->n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, path, errno);
        if (got == 0)
            break;
        out->n += (size_t)got;
        if (out->n - start > limit)
            return fx_fail(err, FORNAX_EFORMAT, "%s: expected at most %zu bytes, found more", path, limit);
    }
    out->p[out->n] = 0;
    return FORNAX_OK;
}

fx_status fx_file_read(fx_buf *out, const char *path, size_t limit, fx_error *err)
{
    struct stat info;
    size_t start = out->n;
    fx_status st;
    int fd;

    if (out->failed)
        return fx_nomem(err, path);
    FX_TRY(open_regular(&fd, &info, path, err));
    if (info.st_size > 0 && (uint64_t)info.st_size > limit)
        st = fx_fail(err, FORNAX_EFORMAT, "%s: expected at most %zu bytes, found %lld", path, limit,
                     (long long)info.st_size);
    else if (!fx_buf_reserve(out, (size_t)info.st_size + 4096))
        st = fx_nomem(err, path);
    else
        st = read_all(out, fd, path, limit, err);
    close(fd);
    if (st != FORNAX_OK && out->p) {
        out->n = start;
        out->p[start] = 0;
    }
    return st;
}

/* Writes everything; 0 or an errno. */
static int write_all(int fd, fx_str data)
{
    int e = 0;

    while (data.n > 0 && !e) {
        ssize_t put = write(fd, data.p, FX_MIN(data.n, (size_t)1 << 30));

        if (put > 0)
            data = fx_str_n(data.p + put, data.n - (size_t)put);
        else if (put < 0 && errno != EINTR)
            e = errno;
        else if (put == 0)
            e = EIO;
    }
    return e;
}

/* Makes the rename itself durable. Filesystems that can't sync a folder say EINVAL. */
static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    fx_buf dir;
    int fd, e = 0;

    fx_buf_init(&dir, &fx_mem_libc);
    if (!slash)
        fx_buf_puts(&dir, ".");
    else
        fx_buf_add(&dir, path, slash == path ? 1 : (size_t)(slash - path));
    fd = dir.failed ? -1 : open(dir.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        e = dir.failed ? ENOMEM : errno;
    else {
        if (fsync(fd) != 0 && errno != EINVAL)
            e = errno;
        close(fd);
    }
    fx_buf_done(&dir);
    return e;
}

#define TEMPORARY ".tmp"

bool fx_file_is_temporary(const char *name) { return fx_str_ends(fx_str_of(name), FX_STR(TEMPORARY)); }

/* Opens a new file beside 'path' under a name nobody has; its name goes to 'name'. */
static int open_temporary(fx_buf *name, const char *path)
{
    for (int i = 0; i < 100; i++) {
        int fd;

        fx_buf_clear(name);
        fx_buf_printf(name, "%s.%lx-%llx" TEMPORARY, path, (long)getpid(), (unsigned long long)fx_clock_ns());
        if (name->failed) {
            errno = ENOMEM;
            return -1;
        }
        fd = open(name->p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0664);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

struct fx_file_writer {
    const fx_mem *mem;
    int fd;
    fx_buf temporary;
    size_t path_n;
    char path[];
};

fx_status fx_file_writer_open(fx_file_writer **out, const fx_mem *mem, const char *path, fx_error *err)
{
    size_t n = strlen(path);
    fx_file_writer *w = fx_mem_zalloc(mem, sizeof(*w) + n + 1);
    int e;

    *out = NULL;
    if (!w)
        return fx_nomem(err, path);
    w->mem = mem;
    w->path_n = n;
    memcpy(w->path, path, n);
    fx_buf_init(&w->temporary, mem);
    w->fd = open_temporary(&w->temporary, path);
    if (w->fd >= 0) {
        *out = w;
        return FORNAX_OK;
    }
    e = errno;
    fx_buf_done(&w->temporary);
    fx_mem_free(mem, w, sizeof(*w) + n + 1);
    return fail_errno(err, path, e);
}

static void free_writer(fx_file_writer *w)
{
    fx_buf_done(&w->temporary);
    fx_mem_free(w->mem, w, sizeof(*w) + w->path_n + 1);
}

fx_status fx_file_writer_reserve(fx_file_writer *w, uint64_t bytes, fx_error *err)
{
    int e = fallocate(w->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) != 0 ? errno : 0;

    return e == ENOSPC || e == EDQUOT || e == EFBIG ? fail_errno(err, w->path, e) : FORNAX_OK;
}

fx_status fx_file_writer_put(fx_file_writer *w, fx_str data, fx_error *err)
{
    int e = write_all(w->fd, data);

    return e ? fail_errno(err, w->path, e) : FORNAX_OK;
}

fx_status fx_file_writer_commit(fx_file_writer *w, fx_error *err)
{
    fx_status st = FORNAX_OK;
    int e = fsync(w->fd) != 0 ? errno : 0;

    if (close(w->fd) != 0 && !e)
        e = errno;
    if (!e && rename(w->temporary.p, w->path) != 0)
        e = errno;
    if (e)
        unlink(w->temporary.p);
    else
        e = sync_folder(w->path);
    if (e)
        st = fail_errno(err, w->path, e);
    free_writer(w);
    return st;
}

void fx_file_writer_abort(fx_file_writer *w)
{
    if (!w)
        return;
    close(w->fd);
    unlink(w->temporary.p);
    free_writer(w);
}

fx_status fx_file_write_atomic(const char *path, fx_str data, fx_error *err)
{
    fx_file_writer *w;
    fx_status st;

    FX_TRY(fx_file_writer_open(&w, &fx_mem_libc, path, err));
    st = fx_file_writer_put(w, data, err);
    if (st == FORNAX_OK)
        return fx_file_writer_commit(w, err);
    fx_file_writer_abort(w);
    return st;
}

fx_status fx_file_remove(const char *path, fx_error *err)
{
    return unlink(path) == 0 ? FORNAX_OK : fail_errno(err, path, errno);
}

fx_status fx_file_touch(const char *path, fx_error *err)
{
    return utimensat(AT_FDCWD, path, NULL, 0) == 0 ? FORNAX_OK : fail_errno(err, path, errno);
}

/* ---- Folders ---- */

fx_status fx_folder_make(const char *path, fx_error *err)
{
    fx_status st = FORNAX_OK;
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_puts(&b, path);
    for (size_t i = 1; !b.failed && st == FORNAX_OK && i <= b.n; i++) {
        char kept = b.p[i];

        if (kept != '/' && kept != 0)
            continue;
        b.p[i] = 0;
        if (mkdir(b.p, 0700) != 0 && errno != EEXIST && !fx_path_is_dir(b.p))
            st = fail_errno(err, b.p, errno);
        b.p[i] = kept;
    }
    if (b.failed)
        st = fx_nomem(err, path);
    else if (st == FORNAX_OK && !fx_path_is_dir(path))
        st = fail_errno(err, path, ENOTDIR);
    fx_buf_done(&b);
    return st;
}

fx_status fx_folder_list(const char *path, bool (*each)(void *user, const fx_folder_entry *e), void *user, fx_error *err)
{
    DIR *d = opendir(path);
    struct dirent *e;
    struct stat info;
    bool more = true;

    if (!d)
        return fail_errno(err, path, errno);
    while (more && (e = readdir(d)) != NULL) {
        if (fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
            continue;                           /* gone meanwhile, or none of ours */
        more = each(user, &(fx_folder_entry){ e->d_name, (uint64_t)info.st_size, in_ns(info.st_mtim) });
    }
    closedir(d);
    return FORNAX_OK;
}

bool fx_path_is_dir(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool fx_path_exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

bool fx_path_join(fx_buf *out, const char *dir, const char *name)
{
    size_t n = strlen(dir);

    fx_buf_add(out, dir, n);
    if (n && dir[n - 1] != '/')
        fx_buf_putc(out, '/');
    fx_buf_puts(out, name);
    return !out->failed;
}
