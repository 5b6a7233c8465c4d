/* cmd_generate.c - fornax generate MODEL: continues a prompt, streaming to standard output. */
#include <stdlib.h>

#include "base/status.h"
#include "cli/cli.h"

typedef struct generate_opts {
    fx_model_opts model;
    fx_sampling_opts sampling;
    fx_held_opts held;
    const char *prompt, *file, *tokens, *system;
    bool chat, json;
} generate_opts;

static const fx_opt opts[] = {
    { "prompt", 'p', FX_OPT_STR, offsetof(generate_opts, prompt), "TEXT", "the prompt (default: standard input)", 0, 0 },
    { "file", 'f', FX_OPT_STR, offsetof(generate_opts, file), "FILE", "read the prompt from a file", 0, 0 },
    { "tokens", 0, FX_OPT_STR, offsetof(generate_opts, tokens), "IDS", "the prompt as ids joined by commas", 0, 0 },
    { "chat", 0, FX_OPT_FLAG, offsetof(generate_opts, chat), NULL, "send the prompt as a user message through the chat template", 0, 0 },
    { "system", 0, FX_OPT_STR, offsetof(generate_opts, system), "TEXT", "system message, with --chat", 0, 0 },
    FX_HELD_OPTS(generate_opts, held),
    FX_SAMPLING_OPTS(generate_opts, sampling),
    { "logprobs", 0, FX_OPT_INT, offsetof(generate_opts, sampling.logprobs), "N", "with --json: log-probabilities and N alternatives", -1, 20 },
    { "choices", 0, FX_OPT_INT, offsetof(generate_opts, sampling.n), "N", "with --json: that many continuations (default: 1)", 1, 128 },
    { "json", 0, FX_OPT_FLAG, offsetof(generate_opts, json), NULL, "one JSON object at the end instead of streaming text", 0, 0 },
    FX_LORA_OPT(generate_opts, model),
    FX_MODEL_OPTS(generate_opts, model),
    { 0 },
};
static const generate_opts defaults = { .sampling = FX_SAMPLING_DEFAULTS };

/* What is collected of one choice for --json. */
typedef struct choice {
    fx_buf ids, text, logprobs;
    const char *finish;
} choice;

typedef struct output {
    const generate_opts *opt;
    choice *choices;
    fornax_event done;
} output;

static void add_logprobs(fx_buf *b, const fornax_event *e)
{
    fx_buf_printf(b, "%s{\"id\": %d, \"logprob\": ", b->n ? ", " : "", e->token);
    fx_buf_double(b, (double)e->logprob);
    fx_buf_puts(b, ", \"top\": [");
    for (int i = 0; i < e->n_top; i++) {
        fx_buf_printf(b, "%s[%d, ", i ? ", " : "", e->top[i].id);
        fx_buf_double(b, (double)e->top[i].logprob);
        fx_buf_putc(b, ']');
    }
    fx_buf_puts(b, "]}");
}

static const char *finish_name(fornax_finish f)
{
    static const char *const names[] = { "none", "stop", "length", "cancel", "error" };

    return names[f];
}

static void take_event(output *out, const fornax_event *e)
{
    if (e->kind == FORNAX_EVENT_DONE) {
        out->done = *e;
        return;
    }
    if (!out->opt->json) {
        fx_cli_write(fx_str_n(e->text, e->text_n));
        return;
    }
    choice *c = &out->choices[e->choice];
    fx_buf_json(&c->text, fx_str_n(e->text, e->text_n));
    if (e->kind == FORNAX_EVENT_FINISH) {
        c->finish = finish_name(e->finish);
        return;
    }
    fx_buf_printf(&c->ids, "%s%d", c->ids.n ? ", " : "", e->token);
    if (out->opt->sampling.logprobs >= 0)
        add_logprobs(&c->logprobs, e);
}

static void print_json(const output *out)
{
    int n = (int)out->opt->sampling.n;

    printf("{");
    for (int i = 0; i < n; i++) {
        const choice *c = &out->choices[i];
        if (n > 1)
            printf("%s{", i == 0 ? "\"choices\": [" : ", ");
        printf("\"ids\": [%s], \"text\": \"%s\", \"finish_reason\": \"%s\"", fx_buf_view(&c->ids).p,
               fx_buf_view(&c->text).p, c->finish ? c->finish : "none");
        if (out->opt->sampling.logprobs >= 0)
            printf(", \"logprobs\": [%s]", fx_buf_view(&c->logprobs).p);
        printf(n > 1 ? "}" : "");
    }
    printf("%s, \"prompt_tokens\": %lld, \"cached_tokens\": %lld, \"generated_tokens\": %lld}\n", n > 1 ? "]" : "",
           (long long)out->done.prompt_tokens, (long long)out->done.cached_tokens,
           (long long)out->done.generated_tokens);
}

static bool make_choices(output *out)
{
    size_t n = (size_t)out->opt->sampling.n;

    out->choices = calloc(n, sizeof *out->choices);
    for (size_t i = 0; out->choices && i < n; i++) {
        fx_buf_init(&out->choices[i].ids, &fx_mem_libc);
        fx_buf_init(&out->choices[i].text, &fx_mem_libc);
        fx_buf_init(&out->choices[i].logprobs, &fx_mem_libc);
    }
    return out->choices != NULL;
}

/* False when memory ran out for one of them. */
static bool free_choices(output *out)
{
    bool ok = true;

    for (int64_t i = 0; out->choices && i < out->opt->sampling.n; i++) {
        choice *c = &out->choices[i];

        ok = ok && !c->ids.failed && !c->text.failed && !c->logprobs.failed;
        fx_buf_done(&c->ids);
        fx_buf_done(&c->text);
        fx_buf_done(&c->logprobs);
    }
    free(out->choices);
    return ok;
}

/* Takes events until the request is done; stops it on ^C, and when nobody reads any more. */
static void follow(output *out, fornax_request *req)
{
    while (out->done.kind != FORNAX_EVENT_DONE) {
        const fornax_event *e;
        fornax_error err = { 0 };
        fornax_status st = fornax_request_next(req, &e, 100, &err);

        if (fx_cli_interrupted() || !fx_cli_output_ok())
            fornax_request_cancel(req);
        if (st == FORNAX_OK)
            take_event(out, e);
        else if (st != FORNAX_ETIMEOUT)
            out->done = (fornax_event){ .kind = FORNAX_EVENT_DONE, .status = st };
    }
}

static int report(const output *out, fornax_error *err)
{
    fornax_status st = out->done.status;

    if (st != FORNAX_OK && st != FORNAX_ECANCEL) {
        fx_fail(err, st, "%s", out->done.error ? out->done.error : fornax_status_name(st));
        return fx_cli_fail(err);
    }
    if (out->opt->json)
        print_json(out);
    else
        putchar('\n');
    return fx_cli_interrupted() ? FX_EXIT_INTERRUPTED : FX_EXIT_OK;
}

static int generate(const generate_opts *opt, fornax_engine *engine, const fx_id_vec *ids, const fornax_grammar *grammar,
                    fornax_error *err)
{
    fornax_request_options r = FORNAX_OPTIONS(fornax_request_options);
    fornax_string stops[FX_COUNT(opt->sampling.stop.at)];
    fornax_request *req = NULL;
    fornax_adapter *adapter = NULL;
    output out = { .opt = opt };
    int status = FX_EXIT_FAILED;

    if (fx_cli_adapter(&adapter, fornax_engine_model(engine), &opt->model, err) != FORNAX_OK)
        return fx_cli_fail(err);
    r.adapter = adapter;
    r.grammar = grammar;
    fx_cli_sampling(&r, &opt->sampling, stops);
    r.ids = ids->at;
    r.n_ids = ids->n;
    if (make_choices(&out)) {
        if (fornax_request_submit(&req, engine, &r, err) == FORNAX_OK) {
            follow(&out, req);
            status = report(&out, err);
        } else {
            status = fx_cli_fail(err);
        }
        fornax_request_close(req);
    }
    fornax_adapter_close(adapter);
    if (!out.choices || !free_choices(&out)) {
        fx_nomem(err, "the reply");
        status = fx_cli_fail(err);
    }
    return status;
}

/* The prompt's ids, by way of the chat template or not. */
static bool get_chat_ids(fx_id_vec *ids, const generate_opts *opt, const fornax_tokenizer *tok, fx_str text,
                         fornax_error *err)
{
    fornax_prompt *prompt = NULL;
    fx_buf json;
    size_t n = 0;
    bool ok;

    fx_buf_init(&json, &fx_mem_libc);
    fx_buf_puts(&json, "{\"messages\":[");
    if (opt->system) {
        fx_buf_puts(&json, "{\"role\":\"system\",\"content\":\"");
        fx_buf_json(&json, fx_str_of(opt->system));
        fx_buf_puts(&json, "\"},");
    }
    fx_buf_puts(&json, "{\"role\":\"user\",\"content\":\"");
    fx_buf_json(&json, text);
    fx_buf_puts(&json, "\"}]}");
    ok = !json.failed || fx_nomem(err, "the prompt") == FORNAX_OK;
    ok = ok && fornax_prompt_render(&prompt, tok, json.p, json.n, err) == FORNAX_OK;
    const int32_t *at = ok ? fornax_prompt_ids(prompt, &n) : NULL;
    if (ok && !FX_VEC_RESERVE(ids, &fx_mem_libc, n + 1))
        ok = fx_nomem(err, "the prompt") == FORNAX_OK;
    if (ok && n > 0)
        memcpy(ids->at, at, n * sizeof *at);
    ids->n = ok ? n : 0;
    fornax_prompt_close(prompt);
    fx_buf_done(&json);
    return ok;
}

static bool get_ids(fx_id_vec *ids, const generate_opts *opt, const fornax_tokenizer *tok, int *status)
{
    fornax_error err = { 0 };
    fx_buf text;
    bool ok;

    *status = FX_EXIT_USAGE;
    if (opt->tokens)
        return fx_cli_ids(ids, "tokens", opt->tokens);
    *status = FX_EXIT_FAILED;
    fx_buf_init(&text, &fx_mem_libc);
    if (opt->prompt)
        fx_buf_puts(&text, opt->prompt);
    if (!opt->prompt && !fx_cli_read(&text, opt->file ? opt->file : "-")) {
        fx_buf_done(&text);
        return false;
    }
    ok = opt->chat ? get_chat_ids(ids, opt, tok, fx_buf_view(&text), &err)
                   : fx_cli_tokenize(ids, tok, fx_buf_view(&text), FORNAX_TOKENIZE_ADD | FORNAX_TOKENIZE_SPECIAL, &err);
    if (!ok)
        *status = fx_cli_fail(&err);
    fx_buf_done(&text);
    return ok;
}

static int run(const void *o, int n, char **args)
{
    const generate_opts *opt = o;
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    fornax_grammar *grammar = NULL;
    fx_id_vec ids = { 0 };
    int status;

    (void)n;
    if (!!opt->prompt + !!opt->file + !!opt->tokens > 1)
        return fx_cli_usage("give one of --prompt, --file and --tokens");
    if (opt->system && !opt->chat)
        return fx_cli_usage("--system needs --chat");
    if (opt->sampling.n > 1 && !opt->json)
        return fx_cli_usage("--choices needs --json");
    if (opt->chat && opt->tokens)
        return fx_cli_usage("--chat takes text, not --tokens");
    if (opt->sampling.logprobs >= 0 && !opt->json)
        return fx_cli_usage("--logprobs needs --json");
    if (!fx_cli_held_once(&opt->held))
        return fx_cli_usage(FX_HELD_TWICE);
    fx_cli_catch_interrupt();
    if (fx_cli_model(&ctx, &model, args[0], &opt->model, &err) != FORNAX_OK ||
        fx_cli_held(&grammar, ctx, &opt->held, &err) != FORNAX_OK)
        status = fx_cli_fail(&err);
    else if (get_ids(&ids, opt, fornax_model_tokenizer(model), &status))
        status = fornax_engine_open(&engine, model, &eo, &err) == FORNAX_OK ? generate(opt, engine, &ids, grammar, &err)
                                                                            : fx_cli_fail(&err);
    FX_VEC_FREE(&ids, &fx_mem_libc);
    fornax_engine_close(engine);
    fornax_grammar_close(grammar);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_generate = {
    .name = "generate", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "continue a prompt",
    .examples = "  fornax generate model.gguf -p 'The capital of France is' -n 32\n"
                "  fornax generate folder/ --lora adapter/:0.5 --chat -p 'Hello'\n"
                "  fornax generate model.gguf --chat -p 'What is gravity?' -T 0.7 --top-p 0.9 --seed 1\n"
                "  fornax generate model.gguf --chat -p 'Who wrote Faust?' --schema person.json\n"
                "  fornax generate model.gguf -p 'Born on ' --regex '[0-9]{4}-[0-9]{2}-[0-9]{2}'\n"
                "  fornax generate model.gguf --chat -p 'Is tea hot?' --choice yes --choice no\n"
                "  fornax generate model.gguf --tokens 504,3575 -n 8 --json\n",
    .opts = opts, .opts_bytes = sizeof(generate_opts), .defaults = &defaults, .run = run,
};
