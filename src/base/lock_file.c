/* lock_file.c - a lock is a byte of the file, held by the open file (F_OFD_*), which needn't be that long. */
#include "base/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"

struct fx_lock_file {
    const fx_mem *mem;
    int fd;
};

fx_status fx_lock_file_open(fx_lock_file **out, const fx_mem *mem, const char *path, fx_error *err)
{
    fx_lock_file *l = fx_mem_zalloc(mem, sizeof *l);
    char text[128];

    *out = NULL;
    if (!l)
        return fx_nomem(err, path);
    l->mem = mem;
    l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (l->fd < 0) {
        fx_status st = fx_fail(err, FORNAX_EIO, "%s: %s", path, fx_errno_text(errno, text, sizeof text));

        fx_mem_free(mem, l, sizeof *l);
        return st;
    }
    *out = l;
    return FORNAX_OK;
}

void fx_lock_file_close(fx_lock_file *l)
{
    if (!l)
        return;
    close(l->fd);
    fx_mem_free(l->mem, l, sizeof *l);
}

static bool lock(const fx_lock_file *l, uint64_t number, int command, short type)
{
    struct flock f = { .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(number & INT64_MAX), .l_len = 1 };
    int rc;

    do {
        rc = fcntl(l->fd, command, &f);
    } while (rc != 0 && errno == EINTR);
    return rc == 0;
}

bool fx_lock_try(fx_lock_file *l, uint64_t number) { return lock(l, number, F_OFD_SETLK, F_WRLCK); }
bool fx_lock_take(fx_lock_file *l, uint64_t number) { return lock(l, number, F_OFD_SETLKW, F_WRLCK); }
void fx_lock_drop(fx_lock_file *l, uint64_t number) { lock(l, number, F_OFD_SETLK, F_UNLCK); }
