/* status.c - errors are written into the caller's struct; nothing is allocated.
 *
 * Text longer than the struct's buffer is cut before a UTF-8 continuation byte,
 * so a cut sentence is still valid UTF-8. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* Number of bytes of z that fit into cap-1 without splitting a character. */
static size_t cut(const char *z, size_t n, size_t cap)
{
    if (n < cap)
        return n;
    n = cap - 1;
    while (n > 0 && ((unsigned char)z[n] & 0xC0) == 0x80)
        n--;
    return n;
}

/* What a sentence quotes may hold anything; a terminal or a log would obey control characters.  The two lines that
 * base/diag.h puts behind a sentence (the second ends with the caret) stay lines. */
static void tame(char *text, size_t n)
{
    size_t lines = n;

    for (int i = 0; n && text[n - 1] == '^' && i < 2; i++) {
        do {
            if (lines == 0)
                break;
        } while (text[--lines] != '\n');
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];

        if ((c < 32 || c == 127) && !(c == '\n' && i >= lines))
            text[i] = ' ';
    }
}

static void fill(fx_error *err, fx_status st, const char *param, const char *fmt, va_list ap)
{
    char text[sizeof(err->text) + 8];
    size_t n;

    /* Into a copy first: the arguments may point into *err. */
    fx_vformat(text, sizeof(text), fmt, ap);
    err->status = st;
    err->retry_after_ms = 0;
    n = cut(param, strlen(param), sizeof(err->param));
    memmove(err->param, param, n);
    err->param[n] = 0;
    n = cut(text, strlen(text), sizeof(err->text));
    memcpy(err->text, text, n);
    err->text[n] = 0;
    tame(err->text, n);
}

fx_status fx_fail(fx_error *err, fx_status st, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return st;
    va_start(ap, fmt);
    fill(err, st, "", fmt, ap);
    va_end(ap);
    return st;
}

fx_status fx_fail_param(fx_error *err, fx_status st, const char *param, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return st;
    va_start(ap, fmt);
    fill(err, st, param ? param : "", fmt, ap);
    va_end(ap);
    return st;
}

fx_status fx_nomem(fx_error *err, const char *what)
{
    return fx_fail(err, FORNAX_ENOMEM, "no memory for %s", what);
}

/* The one place where the library writes to a descriptor on its own and ends the
 * process: it is a bug of ours, and going on would risk wrong answers. */
void fx_assert_failed(const char *cond, const char *file, int line)
{
    char text[512];
    int n = snprintf(text, sizeof(text), "fornax: %s:%d: assertion failed: %s\n", file, line, cond);

    if (n > 0 && write(2, text, FX_MIN((size_t)n, sizeof(text) - 1)) < 0) {
        /* nothing left to tell it to */
    }
    abort();
}
