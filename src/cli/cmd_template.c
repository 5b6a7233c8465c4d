/* cmd_template.c - fornax template MODEL: a conversation (JSON on standard input) rendered by
 * the model's chat template. */
#include "cli/cli.h"

typedef struct template_opts {
    bool json, ids;
} template_opts;

static const fx_opt opts[] = {
    { "json", 0, FX_OPT_FLAG, offsetof(template_opts, json), NULL, "{\"text\": ..., \"ids\": [...]}", 0, 0 },
    { "ids", 0, FX_OPT_FLAG, offsetof(template_opts, ids), NULL, "token ids instead of text", 0, 0 },
    { 0 },
};

static void print_prompt(const template_opts *opt, const fornax_prompt *prompt)
{
    size_t n, n_ids;
    const char *text = fornax_prompt_text(prompt, &n);
    const int32_t *ids = fornax_prompt_ids(prompt, &n_ids);

    if (!opt->json && !opt->ids) {
        fwrite(text, 1, n, stdout);
        return;
    }
    if (opt->json) {
        fx_buf b;

        fx_buf_init(&b, &fx_mem_libc);
        fx_buf_json(&b, fx_str_n(text, n));
        fputs("{\"text\": \"", stdout);
        fwrite(fx_buf_view(&b).p, 1, b.n, stdout);
        fputs("\", \"ids\": [", stdout);
        fx_buf_done(&b);
    }
    for (size_t i = 0; i < n_ids; i++)
        printf("%s%d", i == 0 ? "" : opt->json ? ", " : " ", ids[i]);
    printf(opt->json ? "]}\n" : "\n");
}

static int run(const void *o, int n, char **args)
{
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_tokenizer *tok = NULL;
    fornax_prompt *prompt = NULL;
    fx_buf json;
    int status = FX_EXIT_FAILED;

    (void)n;
    fx_buf_init(&json, &fx_mem_libc);
    if (fx_cli_read(&json, "-")) {
        if (fx_cli_context(&ctx, &(fx_model_opts){ .threads = 1 }, &err) != FORNAX_OK ||
            fornax_tokenizer_open(&tok, ctx, args[0], &err) != FORNAX_OK ||
            fornax_prompt_render(&prompt, tok, json.p, json.n, &err) != FORNAX_OK) {
            status = fx_cli_fail(&err);
        } else {
            print_prompt(o, prompt);
            status = FX_EXIT_OK;
        }
    }
    fornax_prompt_close(prompt);
    fornax_tokenizer_close(tok);
    fornax_context_close(ctx);
    fx_buf_done(&json);
    return status;
}

const fx_cmd fx_cmd_template = {
    .name = "template", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "render a conversation with the model's chat template",
    .examples = "  echo '{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}' | fornax template model.gguf\n"
                "  FORNAX_NOW=2026-11-30T12:00:00 fornax template --json folder/ < conversation.json\n",
    .opts = opts, .opts_bytes = sizeof(template_opts), .run = run,
};
