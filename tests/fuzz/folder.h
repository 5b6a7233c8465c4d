/* folder.h - for targets whose input is several files: a bundle, in which "\n=== NAME\n" begins each file.
 *
 * fuzz_folder writes those of the names that a target knows into a folder of its own, which goes when the process ends. */
#ifndef FOLDER_H
#define FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

static char fuzz_dir[64];
static const char *const *fuzz_names;

static inline const char *fuzz_path(char out[256], const char *name)
{
    snprintf(out, 256, "%s/%s", fuzz_dir, name);
    return out;
}

static inline void fuzz_folder_remove(void)
{
    char path[256];

    for (const char *const *n = fuzz_names; *n; n++)
        unlink(fuzz_path(path, *n));
    rmdir(fuzz_dir);
}

static inline void fuzz_write(const char *name, fx_str data)
{
    char path[256];
    FILE *f;

    unlink(fuzz_path(path, name));
    f = fopen(path, "wb");
    if (!f)
        abort();
    fwrite(data.p, 1, data.n, f);
    fclose(f);
}

/* Where the next file of the bundle begins; the end if there is none. */
static inline size_t fuzz_next(fx_str all, size_t from)
{
    size_t at = fx_str_find(all, FX_STR("\n=== "), from);

    return at == FX_STR_NONE ? all.n : at;
}

static inline const char *fuzz_folder(const uint8_t *data, size_t size, const char *const *names)
{
    fx_str all = fx_str_n((const char *)data, size);
    char path[256];

    if (!fuzz_names) {
        fuzz_names = names;
        strcpy(fuzz_dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/fxfuzzXXXXXX" : "/tmp/fxfuzzXXXXXX");
        if (!mkdtemp(fuzz_dir))
            abort();
        atexit(fuzz_folder_remove);
    }
    for (const char *const *n = names; *n; n++)
        unlink(fuzz_path(path, *n));
    for (size_t at = fuzz_next(all, 0); at < size;) {
        size_t end = fuzz_next(all, at + 5), line = at + 5;
        size_t newline = fx_str_find(all, FX_STR("\n"), line);

        for (const char *const *n = names; *n && newline != FX_STR_NONE && newline <= end; n++) {
            if (fx_str_is(fx_str_n(all.p + line, newline - line), *n))
                fuzz_write(*n, fx_str_n(all.p + newline + 1, end > newline ? end - newline - 1 : 0));
        }
        at = end;
    }
    return fuzz_dir;
}

#endif
