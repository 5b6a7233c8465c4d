/* transcript.c - see transcript.h. */
#include "cli/transcript.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/str.h"
#include "base/text.h"

#define MAX_BYTES ((size_t)1 << 30)

static fx_status system_fault(const fx_transcript *t, fx_error *err)
{
    char words[128];

    return fx_fail(err, FORNAX_EIO, "%s: %s", FX_SHOW(fx_str_of(t->path)), fx_errno_text(errno, words, sizeof words));
}

static fx_status read_all(const fx_transcript *t, fx_buf *out, fx_error *err)
{
    char piece[65536];
    ssize_t n;

    while ((n = read(t->fd, piece, sizeof piece)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_fault(t, err);
        if (out->n + (size_t)n > MAX_BYTES)
            return fx_fail(err, FORNAX_EFORMAT, "%s: larger than %zu bytes", FX_SHOW(fx_str_of(t->path)), MAX_BYTES);
        fx_buf_add(out, piece, (size_t)n);
    }
    return out->failed ? fx_nomem(err, "a transcript") : FORNAX_OK;
}

/* All whole lines; *whole: how many bytes they are. */
static fx_status read_lines(fx_transcript *t, fx_str text, size_t *whole, fx_error *err)
{
    const char *end;

    *whole = 0;
    while (*whole < text.n && (end = memchr(text.p + *whole, '\n', text.n - *whole))) {
        json_error_t je;
        json_t *v = json_loadb(text.p + *whole, (size_t)(end - text.p) - *whole, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &je);

        if (!json_is_object(v)) {
            bool parsed = v != NULL;

            json_decref(v);
            return fx_fail(err, FORNAX_EFORMAT, "%s:%zu: %s", FX_SHOW(fx_str_of(t->path)), json_array_size(t->lines) + 1,
                           parsed ? "expected an object" : je.text);
        }
        if (json_array_append_new(t->lines, v) != 0)
            return fx_nomem(err, "a transcript");
        *whole = (size_t)(end - text.p) + 1;
    }
    return FORNAX_OK;
}

static fx_status begin(fx_transcript *t, bool write, fx_error *err)
{
    fx_buf text;
    size_t whole = 0;
    fx_status st;

    if (flock(t->fd, (write ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? fx_fail(err, FORNAX_EBUSY, "%s: another program has it open", FX_SHOW(fx_str_of(t->path)))
                                    : system_fault(t, err);
    fx_buf_init(&text, &fx_mem_libc);
    st = read_all(t, &text, err);
    if (st == FORNAX_OK)
        st = read_lines(t, fx_buf_view(&text), &whole, err);
    if (st == FORNAX_OK && write && whole < text.n && ftruncate(t->fd, (off_t)whole) != 0)
        st = system_fault(t, err);
    fx_buf_done(&text);
    return st;
}

fx_status fx_transcript_open(fx_transcript *t, const char *path, bool write, fx_error *err)
{
    fx_status st;

    *t = (fx_transcript){ .path = path, .lines = json_array() };
    t->fd = open(path, write ? O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0600);
    st = !t->lines ? fx_nomem(err, "a transcript") : t->fd < 0 ? system_fault(t, err) : begin(t, write, err);
    if (st != FORNAX_OK)
        fx_transcript_close(t);
    return st;
}

fx_status fx_transcript_add(fx_transcript *t, json_t *line, fx_error *err)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    size_t n = text ? strlen(text) : 0, at = 0;
    fx_status st = text ? FORNAX_OK : fx_nomem(err, "a transcript");

    json_decref(line);
    if (text)
        text[n++] = '\n';                /* in place of the zero */
    while (st == FORNAX_OK && at < n) {
        ssize_t k = write(t->fd, text + at, n - at);

        if (k >= 0)
            at += (size_t)k;
        else if (errno != EINTR)
            st = system_fault(t, err);
    }
    if (st != FORNAX_OK && at > 0) {     /* a full disk: no half line stays */
        off_t end = lseek(t->fd, 0, SEEK_END);

        if (end < 0 || ftruncate(t->fd, end - (off_t)at) != 0)
            st = system_fault(t, err);
    }
    free(text);
    return st;
}

void fx_transcript_close(fx_transcript *t)
{
    if (t->fd >= 0)
        close(t->fd);
    json_decref(t->lines);
    *t = (fx_transcript){ .fd = -1 };
}
