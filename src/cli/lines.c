/* lines.c - see lines.h. */
#include "cli/lines.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

static char *prompt_text(EditLine *e)
{
    static char text[] = "> ";

    (void)e;
    return text;
}

/* A character from the terminal; -1 on ^C, which libedit's own reader passes over. */
static int read_char(EditLine *e, wchar_t *out)
{
    mbstate_t state = { 0 };
    char byte;

    (void)e;
    for (;;) {
        ssize_t n = fx_cli_interrupted() ? -1 : read(0, &byte, 1);
        size_t used;

        if (n == 0)
            return 0;
        if (n < 0 && (fx_cli_interrupted() || errno != EINTR))
            return -1;
        if (n < 0)
            continue;
        used = mbrtowc(out, &byte, 1, &state);
        if (used == (size_t)-1)
            memset(&state, 0, sizeof state);         /* not a character: passed over */
        else if (used != (size_t)-2)
            return 1;
    }
}

/* Without a UTF-8 locale libedit takes a character for several. */
static void use_utf8(void)
{
    const char *codeset;

    setlocale(LC_CTYPE, "");
    codeset = nl_langinfo(CODESET);
    if (strcmp(codeset, "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

void fx_lines_open(fx_lines *s)
{
    HistEvent ev;

    *s = (fx_lines){ 0 };
    if (!isatty(0) || !isatty(1))
        return;
    use_utf8();
    s->edit = el_init("fornax", stdin, stdout, stderr);
    s->history = history_init();
    if (!s->edit || !s->history)
        return;
    history(s->history, &ev, H_SETSIZE, 1000);
    history(s->history, &ev, H_SETUNIQUE, 1);
    el_set(s->edit, EL_PROMPT, prompt_text);
    el_set(s->edit, EL_EDITOR, "emacs");
    el_set(s->edit, EL_GETCFN, read_char);
    el_set(s->edit, EL_SIGNAL, 1);       /* puts the terminal in order, then lets our handler run */
    el_set(s->edit, EL_HIST, history, s->history);
    el_source(s->edit, NULL);
}

void fx_lines_close(fx_lines *s)
{
    if (s->history)
        history_end(s->history);
    if (s->edit)
        el_end(s->edit);
    free(s->line);
}

/* A line at the terminal. ^C drops what was typed; on an empty line it says how to leave. */
static bool edit_line(fx_lines *s, fx_str *out)
{
    HistEvent ev;

    for (;;) {
        int n = 0;
        const char *p;

        el_resize(s->edit);
        p = el_gets(s->edit, &n);

        if (p && n > 0) {
            if (n > 1)
                history(s->history, &ev, H_ENTER, p);
            *out = fx_str_n(p, (size_t)n);
            return true;
        }
        if (!fx_cli_interrupted() || fx_cli_terminated())
            return false;
        fx_cli_clear_interrupt();
        el_reset(s->edit);
        printf("\n(^D or /quit leaves)\n");
    }
}

bool fx_lines_next(fx_lines *s, fx_str *out)
{
    if (s->edit) {
        if (!edit_line(s, out)) {
            putchar('\n');
            return false;
        }
    } else {
        ssize_t n = getline(&s->line, &s->cap, stdin);
        if (n < 0)
            return false;
        *out = fx_str_n(s->line, (size_t)n);
    }
    while (out->n > 0 && (out->p[out->n - 1] == '\n' || out->p[out->n - 1] == '\r'))
        out->n--;
    return true;
}
