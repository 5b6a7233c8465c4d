/* cmd_quantize.c - fornax quantize IN OUT --type T: a GGUF file or hub folder as a GGUF in other types. */
#include <unistd.h>

#include "cli/cli.h"

typedef struct quantize_opts {
    const char *type;
    bool pure, quiet;
    int64_t threads;
} quantize_opts;

static const fx_opt opts[] = {
    { "type", 't', FX_OPT_STR, offsetof(quantize_opts, type), "T",
      "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 iq4_nl q6_k, or a mix: q2_k, q3_k_s, _m, _l, q4_k_s, _m, q5_k_s, _m", 0, 0 },
    { "pure", 0, FX_OPT_FLAG, offsetof(quantize_opts, pure), NULL, "no mix: that type for every matrix", 0, 0 },
    { "threads", 0, FX_OPT_INT, offsetof(quantize_opts, threads), "N",
      "compute threads (default: all this process may use)", 0, 1024 },
    { "quiet", 'q', FX_OPT_FLAG, offsetof(quantize_opts, quiet), NULL, "no progress display", 0, 0 },
    { 0 },
};

static int show(void *user, double fraction)
{
    int *shown = user, percent = (int)(fraction * 100);

    if (*shown != -2 && percent != *shown) {
        *shown = percent;
        fprintf(stderr, "\rquantizing %3d %%", percent);
    }
    return fx_cli_interrupted();
}

static int run(const void *o, int n, char **args)
{
    const quantize_opts *q = o;
    fornax_quantize_options opt = FORNAX_OPTIONS(fornax_quantize_options);
    int shown = isatty(2) && !q->quiet ? -1 : -2;
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_status st;

    (void)n;
    if (!q->type)
        return fx_cli_usage("--type is missing");
    fx_cli_catch_interrupt();
    opt.type = q->type;
    opt.pure = q->pure;
    opt.progress = show;
    opt.progress_user = &shown;
    st = fx_cli_context(&ctx, &(fx_model_opts){ .threads = q->threads }, &err);
    if (st == FORNAX_OK)
        st = fornax_quantize(ctx, args[0], args[1], &opt, &err);
    if (shown >= 0)
        fprintf(stderr, "\r\033[K");
    fornax_context_close(ctx);
    if (st == FORNAX_ECANCEL && fx_cli_interrupted())
        return FX_EXIT_INTERRUPTED;
    return st == FORNAX_OK ? FX_EXIT_OK : fx_cli_fail(&err);
}

const fx_cmd fx_cmd_quantize = {
    .name = "quantize", .args = "IN OUT.gguf", .min_args = 2, .max_args = 2,
    .summary = "write a GGUF file or model folder as GGUF, its matrices in another type",
    .examples = "  fornax quantize model-f16.gguf model-q4.gguf --type q4_k_m\n"
                "  fornax quantize Qwen3-0.6B/ qwen3-bf16.gguf --type bf16\n"
                "  fornax quantize model-bf16.gguf model-q8.gguf --type q8_0 --pure\n",
    .opts = opts, .opts_bytes = sizeof(quantize_opts), .run = run,
};
