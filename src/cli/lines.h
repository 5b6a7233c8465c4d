/* lines.h - what a person says, line by line: edited and with a history on a terminal, from standard input otherwise. */
#ifndef FX_LINES_H
#define FX_LINES_H

#include "cli/cli.h"

typedef struct fx_lines {
    struct editline *edit;       /* NULL: no terminal */
    struct history *history;
    char *line;
    size_t cap;
} fx_lines;

void fx_lines_open(fx_lines *s);
/* The next line without its newline; false at the end. */
bool fx_lines_next(fx_lines *s, fx_str *out);
void fx_lines_close(fx_lines *s);

#endif
