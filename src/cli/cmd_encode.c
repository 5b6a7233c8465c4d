/* cmd_encode.c - fornax encode MODEL: one vector for each text. */
#include "base/status.h"
#include "cli/cli.h"

typedef struct encode_opts {
    fx_model_opts model;
    const char *input;
    bool json, no_normalize, truncate;
    int64_t dimensions;
} encode_opts;

static const fx_opt opts[] = {
    { "input", 'i', FX_OPT_STR, offsetof(encode_opts, input), "FILE", "a text a line (default: standard input is one text)", 0, 0 },
    { "dimensions", 0, FX_OPT_INT, offsetof(encode_opts, dimensions), "N", "only the first N numbers, normalized again", 0, INT32_MAX },
    { "no-normalize", 0, FX_OPT_FLAG, offsetof(encode_opts, no_normalize), NULL, "leave the vectors' lengths as they are", 0, 0 },
    { "truncate", 0, FX_OPT_FLAG, offsetof(encode_opts, truncate), NULL, "cut texts that are too long, and say so", 0, 0 },
    { "json", 0, FX_OPT_FLAG, offsetof(encode_opts, json), NULL, "{\"embeddings\": [[...] per text]}", 0, 0 },
    FX_LORA_OPT(encode_opts, model),
    FX_MODEL_OPTS(encode_opts, model),
    { 0 },
};

typedef FX_VEC(fornax_embed_input) input_vec;

/* The lines of a file, or all of it as one text. */
static bool split(const encode_opts *opt, const fx_buf *text, input_vec *out)
{
    fx_str s = fx_buf_view(text);

    if (!opt->input)
        return FX_VEC_PUSH(out, &fx_mem_libc, ((fornax_embed_input){ .text = s.p, .n = s.n }));
    for (size_t at = 0; at < s.n;) {
        const char *end = memchr(s.p + at, '\n', s.n - at);
        size_t n = end ? (size_t)(end - (s.p + at)) : s.n - at, line = n;

        if (line && s.p[at + line - 1] == '\r')
            line--;
        if (!FX_VEC_PUSH(out, &fx_mem_libc, ((fornax_embed_input){ .text = s.p + at, .n = line })))
            return false;
        at += n + 1;
    }
    return true;
}

static void print_rows(const encode_opts *opt, const fornax_embeddings *e)
{
    size_t n = fornax_embeddings_count(e);
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    printf("%s", opt->json ? "{\"embeddings\": [" : "");
    for (size_t i = 0; i < n; i++) {
        const float *row = fornax_embeddings_row(e, i);

        fx_buf_clear(&b);
        fx_buf_puts(&b, !opt->json ? "" : i ? ",\n[" : "[");
        for (int64_t k = 0; k < fornax_embeddings_dim(e); k++) {
            fx_buf_puts(&b, !k ? "" : opt->json ? "," : " ");
            fx_buf_float(&b, row[k]);
        }
        fx_buf_puts(&b, opt->json ? "]" : "\n");
        fwrite(b.p, 1, b.n, stdout);
        if (fornax_embeddings_cut(e, i))
            fprintf(stderr, "fornax encode: text %zu: cut to %zu tokens, %zu left out\n", i, fornax_embeddings_tokens(e, i),
                    fornax_embeddings_cut(e, i));
    }
    printf("%s", opt->json ? "]}\n" : "");
    fx_buf_done(&b);
}

static int embed(const encode_opts *opt, fornax_model *model, fornax_error *err)
{
    fornax_embed_options eo = FORNAX_OPTIONS(fornax_embed_options);
    fornax_embeddings *e = NULL;
    fornax_adapter *adapter = NULL;
    input_vec inputs = { 0 };
    int status = FX_EXIT_FAILED;
    fx_buf text;

    if (fx_cli_adapter(&adapter, model, &opt->model, err) != FORNAX_OK)
        return fx_cli_fail(err);
    eo.adapter = adapter;
    eo.dimensions = opt->dimensions;
    eo.no_normalize = opt->no_normalize;
    eo.truncate = opt->truncate;
    eo.progress = fx_cli_check_interrupt;
    fx_buf_init(&text, &fx_mem_libc);
    if (fx_cli_read(&text, opt->input ? opt->input : "-")) {
        fx_cli_catch_interrupt();
        if (!split(opt, &text, &inputs)) {
            fx_nomem(err, "the texts");
            status = fx_cli_fail(err);
        } else if (fornax_embed(&e, model, inputs.at, inputs.n, &eo, err) != FORNAX_OK) {
            status = fx_cli_fail(err);
        } else {
            print_rows(opt, e);
            status = FX_EXIT_OK;
        }
    }
    fornax_embeddings_close(e);
    fornax_adapter_close(adapter);
    FX_VEC_FREE(&inputs, &fx_mem_libc);
    fx_buf_done(&text);
    return status;
}

static int run(const void *o, int n, char **args)
{
    const encode_opts *opt = o;
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    int status;

    (void)n;
    if (fx_cli_model_for(&ctx, &model, args[0], &opt->model, true, &err) != FORNAX_OK)
        status = fx_cli_fail(&err);
    else
        status = embed(opt, model, &err);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_encode = {
    .name = "encode", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "turn texts into vectors",
    .examples = "  echo -n 'What is gravity?' | fornax encode folder/ --json\n"
                "  echo -n 'What is gravity?' | fornax encode folder/ --lora adapter/\n"
                "  fornax encode folder/ --input lines.txt --dimensions 256 --json\n",
    .opts = opts, .opts_bytes = sizeof(encode_opts), .run = run,
};
