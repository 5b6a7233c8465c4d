/* cmd_chat.c - fornax chat MODEL: an interactive conversation with line editing and history. */
#include <histedit.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct chat_opts {
    fx_model_opts model;
    fx_sampling_opts sampling;
    const char *system;
} chat_opts;

static const fx_opt opts[] = {
    { "system", 0, FX_OPT_STR, offsetof(chat_opts, system), "TEXT", "system message" },
    FX_SAMPLING_OPTS(chat_opts, sampling),
    FX_MODEL_OPTS(chat_opts, model),
    { 0 },
};
static const chat_opts defaults = { .sampling = FX_SAMPLING_DEFAULTS };

/* Where lines come from: libedit on a terminal, standard input otherwise. */
typedef struct line_source {
    EditLine *edit;
    History *history;
    char *line;
    size_t cap;
} line_source;

static char *prompt_text(EditLine *e)
{
    static char text[] = "> ";

    (void)e;
    return text;
}

static void open_lines(line_source *s)
{
    HistEvent ev;

    *s = (line_source){ 0 };
    if (!isatty(0) || !isatty(1))
        return;
    s->edit = el_init("fornax", stdin, stdout, stderr);
    s->history = history_init();
    if (!s->edit || !s->history)
        return;
    history(s->history, &ev, H_SETSIZE, 1000);
    el_set(s->edit, EL_PROMPT, prompt_text);
    el_set(s->edit, EL_EDITOR, "emacs");
    el_set(s->edit, EL_SIGNAL, 0);
    el_set(s->edit, EL_HIST, history, s->history);
    el_source(s->edit, NULL);
}

static void close_lines(line_source *s)
{
    if (s->history)
        history_end(s->history);
    if (s->edit)
        el_end(s->edit);
    free(s->line);
}

/* The next line without its newline; false at the end. */
static bool next_line(line_source *s, fx_str *out)
{
    HistEvent ev;

    if (s->edit) {
        int n = 0;
        const char *p = el_gets(s->edit, &n);
        if (!p || n <= 0)
            return false;
        if (n > 1)
            history(s->history, &ev, H_ENTER, p);
        *out = fx_str_n(p, (size_t)n);
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

static int print_piece(void *user, const char *text, size_t n)
{
    (void)user;
    fwrite(text, 1, n, stdout);
    fflush(stdout);
    return fx_cli_interrupted();
}

static bool command(fornax_session *s, fx_str line, bool *quit)
{
    if (fx_str_is(line, "/quit") || fx_str_is(line, "/exit")) {
        *quit = true;
    } else if (fx_str_is(line, "/clear")) {
        fornax_session_clear(s);
        printf("(forgotten)\n");
    } else if (fx_str_is(line, "/help")) {
        printf("/clear  forget the conversation\n/quit   leave (also ^D)\n^C      stop a reply\n");
    } else {
        return false;
    }
    return true;
}

static int converse(fornax_session *s)
{
    fornax_error err = { 0 };
    line_source lines;
    fx_str line;
    bool quit = false;
    int status = FX_EXIT_OK;

    open_lines(&lines);
    while (!quit && next_line(&lines, &line)) {
        fx_buf text;

        fx_cli_clear_interrupt();
        if (line.n == 0 || command(s, line, &quit))
            continue;
        fx_buf_init(&text, &fx_mem_libc);
        fx_buf_str(&text, line);
        fornax_status st = fornax_session_say(s, fx_buf_view(&text).p, print_piece, NULL, &err);
        fx_buf_done(&text);
        printf("\n");
        if (st != FORNAX_OK && st != FORNAX_ECANCEL) {
            status = fx_cli_fail(&err);
            if (!lines.edit)
                break;
        }
    }
    close_lines(&lines);
    return status;
}

static int run(const void *o, int n, char **args)
{
    const chat_opts *opt = o;
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_session_options so = FORNAX_OPTIONS(fornax_session_options);
    fornax_request_options sampling = FORNAX_OPTIONS(fornax_request_options);
    fornax_string stops[FX_COUNT(opt->sampling.stop.at)];
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    fornax_session *session = NULL;
    int status;

    (void)n;
    fx_cli_catch_interrupt();
    fx_cli_sampling(&sampling, &opt->sampling, stops);
    so.system = opt->system;
    so.sampling = &sampling;
    if (fx_cli_model(&ctx, &model, args[0], &opt->model, &err) != FORNAX_OK ||
        fornax_engine_open(&engine, model, &eo, &err) != FORNAX_OK ||
        fornax_session_open(&session, engine, &so, &err) != FORNAX_OK) {
        status = fx_cli_fail(&err);
    } else {
        if (isatty(0) && isatty(1))
            printf("%s. /help shows commands.\n", fornax_model_get_info(model)->name);
        status = converse(session);
    }
    fornax_session_close(session);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_chat = {
    .name = "chat", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "talk with a model in the terminal",
    .examples = "  fornax chat model.gguf\n  fornax chat model.gguf --system 'Answer in one sentence.' -T 0.7\n"
                "  printf 'What is gravity?\\n' | fornax chat model.gguf\n",
    .opts = opts, .opts_bytes = sizeof(chat_opts), .defaults = &defaults, .run = run,
};
