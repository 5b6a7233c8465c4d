/* cmd_inspect.c - fornax inspect FILE: what is inside a model file or folder. */
#include "cli/cli.h"

typedef struct inspect_opts {
    bool json;
} inspect_opts;

static const fx_opt opts[] = {
    { "json", 0, FX_OPT_FLAG, offsetof(inspect_opts, json), NULL, "one JSON object", 0, 0 },
    { 0 },
};

static int run(const void *o, int n, char **args)
{
    const inspect_opts *opt = o;
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_text *text = NULL;
    int status = FX_EXIT_OK;

    (void)n;
    if (fx_cli_context(&ctx, &(fx_model_opts){ .threads = 1 }, &err) != FORNAX_OK ||
        fornax_inspect(&text, ctx, args[0], opt->json, &err) != FORNAX_OK) {
        status = fx_cli_fail(&err);
    } else {
        size_t bytes;
        const char *p = fornax_text_bytes(text, &bytes);
        fwrite(p, 1, bytes, stdout);
        if (bytes > 0 && p[bytes - 1] != '\n')
            putchar('\n');
    }
    fornax_text_close(text);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_inspect = {
    .name = "inspect", .args = "FILE", .min_args = 1, .max_args = 1,
    .summary = "show metadata and tensors of a model file or folder",
    .examples = "  fornax inspect model.gguf\n  fornax inspect --json folder/ | jq .tensors\n",
    .opts = opts, .opts_bytes = sizeof(inspect_opts), .run = run,
};
