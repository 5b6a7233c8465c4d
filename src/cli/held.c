/* held.c - what a command's output is held to: --schema, --regex, --grammar or --choice. */
#include "base/file.h"
#include "base/status.h"
#include "cli/cli.h"

typedef struct source {
    const char *option, *kind;
    const char *path, *text;     /* a file that holds it, or itself */
} source;

enum { N_SOURCES = 4 };

static void list_sources(source out[N_SOURCES], const fx_held_opts *h)
{
    out[0] = (source){ "schema", "json_schema", h->schema, NULL };
    out[1] = (source){ "regex", "regex", NULL, h->regex };
    out[2] = (source){ "grammar", "ebnf", h->grammar, NULL };
    out[3] = (source){ "choice", "choice", NULL, h->choice.n > 0 ? "" : NULL };
}

bool fx_cli_held_once(const fx_held_opts *h)
{
    return !!h->schema + !!h->regex + !!h->grammar + (h->choice.n > 0) <= 1;
}

static void put_choices(fx_buf *b, const fx_strs *choices)
{
    for (size_t i = 0; i < choices->n; i++) {
        fx_buf_putc(b, i ? ',' : '[');
        fx_buf_json_string(b, fx_str_of(choices->at[i]));
    }
    fx_buf_putc(b, ']');
}

static fornax_status compile(fornax_grammar **out, fornax_context *ctx, const source *s, fx_str text, fornax_error *err)
{
    fornax_grammar_options o = FORNAX_OPTIONS(fornax_grammar_options);
    fornax_error why = { 0 };

    o.kind = s->kind;
    if (fornax_grammar_open(out, ctx, text.p, text.n, &o, &why) != FORNAX_OK)
        return fx_fail(err, why.status, "--%s: %s", s->option, why.text);
    fputs(fornax_grammar_warnings(*out), stderr);
    return FORNAX_OK;
}

fornax_status fx_cli_held(fornax_grammar **out, fornax_context *ctx, const fx_held_opts *h, fornax_error *err)
{
    source sources[N_SOURCES], *s = sources;
    fornax_status st = FORNAX_OK;
    fx_buf text;

    *out = NULL;
    list_sources(sources, h);
    while (s < sources + N_SOURCES && !s->path && !s->text)
        s++;
    if (s == sources + N_SOURCES)
        return FORNAX_OK;
    fx_buf_init(&text, &fx_mem_libc);
    if (s->path)
        st = fx_file_read(&text, s->path, 64u << 20, err);
    else if (h->choice.n > 0)
        put_choices(&text, &h->choice);
    else
        fx_buf_puts(&text, s->text);
    if (st == FORNAX_OK)
        st = text.failed ? fx_nomem(err, "a grammar") : compile(out, ctx, s, fx_buf_view(&text), err);
    fx_buf_done(&text);
    return st;
}
