/* log.c - formats one line and hands it to the callback. */
#include "base/log.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"

#define LINE_BYTES 2048

void fx_log_print(const fx_log *log, fx_log_level level, const char *fmt, ...)
{
    char line[LINE_BYTES];
    va_list ap;
    size_t n;

    if (!log || !log->fn || level > log->max)
        return;
    va_start(ap, fmt);
    fx_vformat(line, sizeof(line), fmt, ap);
    va_end(ap);
    n = strlen(line);
    if (n == sizeof(line) - 1)                  /* cut: not inside a character */
        line[n - fx_utf8_open_tail(fx_str_n(line, n))] = 0;
    for (char *p = line; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    log->fn(log->user, (int)level, line);
}
