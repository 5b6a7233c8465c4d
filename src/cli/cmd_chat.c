/* cmd_chat.c - fornax chat MODEL: an interactive conversation with line editing and history. */
#include <unistd.h>

#include "base/status.h"
#include "cli/lines.h"

typedef struct chat_opts {
    fx_model_opts model;
    fx_sampling_opts sampling;
    fx_held_opts held;
    const char *system;
} chat_opts;

static const fx_opt opts[] = {
    { "system", 0, FX_OPT_STR, offsetof(chat_opts, system), "TEXT", "system message", 0, 0 },
    FX_LORA_OPT(chat_opts, model),
    FX_HELD_OPTS(chat_opts, held),
    FX_SAMPLING_OPTS(chat_opts, sampling),
    FX_MODEL_OPTS(chat_opts, model),
    { 0 },
};
static const chat_opts defaults = { .sampling = FX_SAMPLING_DEFAULTS };

static int print_piece(void *user, const char *text, size_t n)
{
    (void)user;
    fx_cli_write(fx_str_n(text, n));
    return fx_cli_interrupted() || !fx_cli_output_ok();
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

/* Sends a line and prints the reply. */
static fornax_status say(fornax_session *s, fx_str line, fornax_error *err)
{
    fornax_status st;
    fx_buf text;

    if (memchr(line.p, 0, line.n))
        return fx_fail(err, FORNAX_EARG, "a message can't hold a zero byte");
    fx_buf_init(&text, &fx_mem_libc);
    fx_buf_str(&text, line);
    st = text.failed ? fx_nomem(err, "the message")
                     : fornax_session_say(s, fx_buf_view(&text).p, print_piece, NULL, err);
    fx_buf_done(&text);
    fx_cli_write(st == FORNAX_ECANCEL ? FX_STR(" (stopped)\n") : FX_STR("\n"));
    return st == FORNAX_ECANCEL ? FORNAX_OK : st;
}

static int converse(fornax_session *s)
{
    fornax_error err = { 0 };
    fx_lines lines;
    fx_str line;
    bool quit = false;
    int status = FX_EXIT_OK;

    fx_lines_open(&lines);
    while (!quit && fx_cli_output_ok() && !fx_cli_terminated() && fx_lines_next(&lines, &line)) {
        fx_cli_clear_interrupt();
        if (line.n == 0 || command(s, line, &quit) || say(s, line, &err) == FORNAX_OK)
            continue;
        status = fx_cli_fail(&err);
        if (!lines.edit)
            break;
    }
    fx_lines_close(&lines);
    return fx_cli_terminated() ? FX_EXIT_INTERRUPTED : lines.edit ? FX_EXIT_OK : status;
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
    fornax_adapter *adapter = NULL;
    fornax_grammar *grammar = NULL;
    int status;

    (void)n;
    if (!fx_cli_held_once(&opt->held))
        return fx_cli_usage(FX_HELD_TWICE);
    fx_cli_catch_interrupt();
    fx_cli_sampling(&sampling, &opt->sampling, stops);
    so.system = opt->system;
    so.sampling = &sampling;
    if (fx_cli_model(&ctx, &model, args[0], &opt->model, &err) == FORNAX_OK &&
        fx_cli_adapter(&adapter, model, &opt->model, &err) == FORNAX_OK &&
        fx_cli_held(&grammar, ctx, &opt->held, &err) == FORNAX_OK) {
        sampling.adapter = adapter;
        sampling.grammar = grammar;
    }
    if (err.status != FORNAX_OK || fornax_engine_open(&engine, model, &eo, &err) != FORNAX_OK ||
        fornax_session_open(&session, engine, &so, &err) != FORNAX_OK) {
        status = fx_cli_fail(&err);
    } else {
        if (isatty(0) && isatty(1))
            printf("%s. /help shows commands.\n", fornax_model_get_info(model)->name);
        status = converse(session);
    }
    fornax_session_close(session);
    fornax_adapter_close(adapter);
    fornax_grammar_close(grammar);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_chat = {
    .name = "chat", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "talk with a model in the terminal",
    .examples = "  fornax chat model.gguf\n  fornax chat model.gguf --system 'Answer in one sentence.' -T 0.7\n"
                "  printf 'What is gravity?\\n' | fornax chat model.gguf\n"
                "  fornax chat folder/ --lora adapter/\n"
                "  fornax chat model.gguf --schema answer.json\n",
    .opts = opts, .opts_bytes = sizeof(chat_opts), .defaults = &defaults, .run = run,
};
