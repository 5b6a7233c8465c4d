/* cmd_explain.c - fornax explain MODEL|GRAPH.txt: what compiling does to a graph. */
#include "cli/cli.h"

static int run(const void *o, int n, char **args)
{
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_text *text = NULL;
    fornax_status st = fx_cli_context(&ctx, &(fx_model_opts){ .threads = 1 }, &err);
    size_t bytes;

    (void)o, (void)n;
    if (st == FORNAX_OK)
        st = fornax_explain(&text, ctx, args[0], &err);
    if (st == FORNAX_OK) {
        const char *p = fornax_text_bytes(text, &bytes);

        fwrite(p, 1, bytes, stdout);
    }
    fornax_text_close(text);
    fornax_context_close(ctx);
    return st == FORNAX_OK ? FX_EXIT_OK : fx_cli_fail(&err);
}

static const fx_opt opts[] = { { 0 } };

const fx_cmd fx_cmd_explain = {
    .name = "explain", .args = "MODEL|GRAPH.txt", .min_args = 1, .max_args = 1,
    .summary = "show what passes make of a model's graph, or what of a graph is kept in memory and why",
    .examples = "  fornax explain model.gguf | less\n"
                "  fornax explain mlp.txt\n",
    .opts = opts, .opts_bytes = 1, .run = run,
};
