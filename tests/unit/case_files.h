/* case_files.h - cases kept as text: the lines of all .txt files of a folder. */
#ifndef FX_CASE_FILES_H
#define FX_CASE_FILES_H

#include "fxtest.h"

#include <dirent.h>

#include "base/file.h"

/* number: of the line in its file, from 1 on; 0: the file has ended. */
typedef void (*case_line_fn)(void *user, const char *file, int number, fx_str line);

static inline void each_line(const char *folder, const char *file, case_line_fn take, void *user)
{
    fx_error err = { 0 };
    int number = 0;
    char path[512];
    fx_buf text;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    fx_buf_init(&text, &fx_mem_libc);
    CHECK_OK(fx_file_read(&text, path, 1 << 20, &err), err);
    for (size_t i = 0; i < text.n;) {
        const char *end = memchr(text.p + i, '\n', text.n - i);
        fx_str line = fx_str_n(text.p + i, end ? (size_t)(end - text.p) - i : text.n - i);

        i += line.n + 1;
        take(user, file, ++number, line);
    }
    take(user, file, 0, FX_STR(""));
    fx_buf_done(&text);
}

static inline void each_case_line(const char *folder, case_line_fn take, void *user)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    int files = 0;

    REQUIRE(d != NULL);
    while ((e = readdir(d)) != NULL) {
        size_t n = strlen(e->d_name);

        if (n < 4 || strcmp(e->d_name + n - 4, ".txt"))
            continue;
        each_line(folder, e->d_name, take, user);
        files++;
    }
    closedir(d);
    CHECK(files > 0);
}

#endif
