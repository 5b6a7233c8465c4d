/* cmd_logits.c - fornax logits MODEL --tokens 1,2,3: the raw logits of a forward pass. */
#include <stdlib.h>

#include "cli/cli.h"

typedef struct logits_opts {
    fx_model_opts model;
    const char *tokens, *text, *positions;
    bool json;
    int64_t top;
} logits_opts;

static const fx_opt opts[] = {
    { "tokens", 0, FX_OPT_STR, offsetof(logits_opts, tokens), "IDS", "ids joined by commas", 0, 0 },
    { "text", 0, FX_OPT_STR, offsetof(logits_opts, text), "TEXT", "tokenize this instead", 0, 0 },
    { "positions", 0, FX_OPT_STR, offsetof(logits_opts, positions), "P", "all or last (default: last)", 0, 0 },
    { "top", 0, FX_OPT_INT, offsetof(logits_opts, top), "N", "the N largest of each position (default: 10)", 1, 1000 },
    { "json", 0, FX_OPT_FLAG, offsetof(logits_opts, json), NULL, "{\"logits\": [[...] per position]}, whole rows", 0, 0 },
    FX_LORA_OPT(logits_opts, model),
    FX_MODEL_OPTS(logits_opts, model),
    { 0 },
};
static const logits_opts defaults = { .top = 10 };

typedef struct printer {
    const logits_opts *opt;
    const fornax_tokenizer *tok;
    fx_buf line;
    bool first;
} printer;

static void print_json_row(printer *p, const float *row, int64_t n)
{
    fx_buf_clear(&p->line);
    fx_buf_puts(&p->line, p->first ? "[" : ",\n[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            fx_buf_putc(&p->line, ',');
        fx_buf_double(&p->line, (double)row[i]);
    }
    fx_buf_putc(&p->line, ']');
    fwrite(p->line.p, 1, p->line.n, stdout);
}

static void print_top(printer *p, int64_t position, const float *row, int64_t n)
{
    float below = 0;
    int64_t last = -1;

    printf("position %lld\n", (long long)position);
    for (int64_t k = 0; k < p->opt->top && k < n; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++) {        /* the next one in (value, id) order */
            bool after = last < 0 || row[i] < below || (row[i] == below && i > last);
            if (after && (best < 0 || row[i] > row[best]))
                best = i;
        }
        if (best < 0)
            break;
        size_t bytes;
        const char *text = fornax_token_bytes(p->tok, (int32_t)best, &bytes);
        fx_buf_clear(&p->line);
        fx_buf_json(&p->line, fx_str_n(text ? text : "", text ? bytes : 0));
        printf("  %6lld  %10.5f  \"%s\"\n", (long long)best, (double)row[best], fx_buf_view(&p->line).p);
        below = row[best];
        last = best;
    }
}

static int each(void *user, int64_t position, const float *logits, int64_t vocab)
{
    printer *p = user;

    if (p->opt->json)
        print_json_row(p, logits, vocab);
    else
        print_top(p, position, logits, vocab);
    p->first = false;
    return !fx_cli_output_ok() || p->line.failed || fx_cli_interrupted();
}

static bool get_ids(fx_id_vec *ids, const logits_opts *opt, const fornax_tokenizer *tok, int *status)
{
    fornax_error err = { 0 };

    *status = FX_EXIT_USAGE;
    if (opt->tokens)
        return fx_cli_ids(ids, "tokens", opt->tokens);
    if (fx_cli_tokenize(ids, tok, fx_str_of(opt->text), FORNAX_TOKENIZE_ADD | FORNAX_TOKENIZE_SPECIAL, &err))
        return true;
    *status = fx_cli_fail(&err);
    return false;
}

static fornax_status evaluate(fornax_model *model, const fx_model_opts *opt, const fx_id_vec *ids, size_t first, printer *p,
                              fornax_error *err)
{
    fornax_adapter *adapter = NULL;
    fornax_status st;

    st = fx_cli_adapter(&adapter, model, opt, err);
    if (st == FORNAX_OK && !adapter)
        st = fornax_model_evaluate(model, ids->at, ids->n, first, each, p, err);
    else if (st == FORNAX_OK)
        st = fornax_adapter_evaluate(adapter, ids->at, ids->n, first, each, p, err);
    fornax_adapter_close(adapter);
    return st;
}

static int run(const void *o, int n, char **args)
{
    const logits_opts *opt = o;
    bool all = opt->positions && strcmp(opt->positions, "all") == 0;
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fx_id_vec ids = { 0 };
    int status;

    (void)n;
    if (!opt->tokens == !opt->text)
        return fx_cli_usage("give --tokens or --text");
    if (opt->positions && !all && strcmp(opt->positions, "last") != 0)
        return fx_cli_usage("--positions: expected all or last, found '%s'", opt->positions);
    fx_cli_catch_interrupt();
    if (fx_cli_model(&ctx, &model, args[0], &opt->model, &err) != FORNAX_OK) {
        status = fx_cli_fail(&err);
    } else if (get_ids(&ids, opt, fornax_model_tokenizer(model), &status)) {
        printer p = { .opt = opt, .tok = fornax_model_tokenizer(model), .first = true };

        fx_buf_init(&p.line, &fx_mem_libc);
        if (opt->json)
            printf("{\"logits\": [");
        status = FX_EXIT_OK;
        if (evaluate(model, &opt->model, &ids, all || ids.n == 0 ? 0 : ids.n - 1, &p, &err) != FORNAX_OK)
            status = fx_cli_fail(&err);
        else if (opt->json)
            printf("]}\n");
        fx_buf_done(&p.line);
    }
    FX_VEC_FREE(&ids, &fx_mem_libc);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_logits = {
    .name = "logits", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "print the raw logits of a forward pass",
    .examples = "  fornax logits model.gguf --text 'The capital of France is'\n"
                "  fornax logits model.gguf --text 'The capital of France is' --lora adapter.gguf\n"
                "  fornax logits folder/ --tokens 1,2,3 --positions all --dtype f32 --json\n",
    .opts = opts, .opts_bytes = sizeof(logits_opts), .defaults = &defaults, .run = run,
};
