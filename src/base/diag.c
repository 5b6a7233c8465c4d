/* diag.c - "file:line:col: message", the line, a caret below the fault.
 *
 * A long line is shown as a window around the column, so that the caret stays
 * near; control characters are shown as blanks (a tab as one), which keeps one
 * column a character. */
#include "base/diag.h"

#include <stdarg.h>

#include "base/text.h"

#define WINDOW 90               /* code points of the line shown at most */
#define BEFORE 60               /* ... of which before the fault */
#define NAME ((size_t)60)       /* bytes of the name shown at most */

/* Offset of the begin of the line that holds 'offset'. */
static size_t line_begin(fx_str source, size_t offset)
{
    while (offset > 0 && source.p[offset - 1] != '\n')
        offset--;
    return offset;
}

fx_pos fx_diag_pos(fx_str source, size_t offset)
{
    fx_pos pos = { 1, 1 };
    size_t begin;

    offset = FX_MIN(offset, source.n);
    begin = line_begin(source, offset);
    for (size_t i = 0; i < begin; i++)
        pos.line += source.p[i] == '\n';
    pos.col += (uint32_t)fx_utf8_count(fx_str_n(source.p + begin, offset - begin));
    return pos;
}

/* Appends z to text[*n..cap), leaving room for the final zero. */
static void append(char *text, size_t cap, size_t *n, const char *z, size_t len)
{
    if (len < cap - *n) {
        memcpy(text + *n, z, len);
        *n += len;
        text[*n] = 0;
    }
}

/* The line around 'offset' and the caret, into text. */
static void show(char *text, size_t cap, fx_str source, size_t offset)
{
    size_t i = line_begin(source, offset), n = 0;
    size_t before = fx_utf8_count(fx_str_n(source.p + i, offset - i)), skip = 0, shown;

    text[0] = 0;
    if (before > BEFORE)
        skip = before - BEFORE;
    for (size_t k = 0; k < skip; k++)
        fx_utf8_next(source, &i);
    append(text, cap, &n, skip ? "\n..." : "\n", skip ? 4 : 1);
    for (shown = 0; shown < WINDOW && i < source.n && source.p[i] != '\n'; shown++) {
        uint32_t rune = fx_utf8_next(source, &i);
        char z[4];

        if (rune < 32 || (rune >= 0x7F && rune < 0xA0))
            rune = ' ';
        append(text, cap, &n, z, fx_utf8_put(z, rune));
    }
    if (shown == WINDOW && i < source.n && source.p[i] != '\n')
        append(text, cap, &n, "...", 3);
    append(text, cap, &n, skip ? "\n   " : "\n", skip ? 4 : 1);
    for (size_t k = skip; k < before; k++)
        append(text, cap, &n, " ", 1);
    append(text, cap, &n, "^", 1);
}

fx_status fx_diag(fx_error *err, const char *name, fx_str source, size_t offset, const char *fmt, ...)
{
    char message[460], lines[500];
    fx_pos pos;
    va_list ap;
    size_t n;

    if (!err)
        return FORNAX_EFORMAT;
    offset = FX_MIN(offset, source.n);
    pos = fx_diag_pos(source, offset);
    va_start(ap, fmt);
    fx_vformat(message, sizeof(message), fmt, ap);
    va_end(ap);
    name += FX_MAX(strlen(name), NAME) - NAME;       /* a path's end says more than its beginning */
    n = strlen(message);
    message[n - fx_utf8_open_tail(fx_str_n(message, n))] = 0;
    show(lines, sizeof(lines), source, offset);
    return fx_fail(err, FORNAX_EFORMAT, "%s:%u:%u: %s%s", name, pos.line, pos.col, message, lines);
}
