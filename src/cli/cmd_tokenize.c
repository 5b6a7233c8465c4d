/* cmd_tokenize.c - fornax tokenize MODEL: standard input, byte for byte, to token ids. */
#include <stdlib.h>

#include "cli/cli.h"

typedef struct tokenize_opts {
    const char *text, *decode;
    bool json, no_add, no_special, pieces;
} tokenize_opts;

static const fx_opt opts[] = {
    { "text", 0, FX_OPT_STR, offsetof(tokenize_opts, text), "TEXT", "this text instead of standard input", 0, 0 },
    { "decode", 'd', FX_OPT_STR, offsetof(tokenize_opts, decode), "IDS", "turn ids joined by commas into text instead", 0, 0 },
    { "no-add", 0, FX_OPT_FLAG, offsetof(tokenize_opts, no_add), NULL, "without begin and end tokens", 0, 0 },
    { "no-special", 0, FX_OPT_FLAG, offsetof(tokenize_opts, no_special), NULL,
      "spellings of special tokens are plain text; with --decode: leave such tokens out", 0, 0 },
    { "pieces", 0, FX_OPT_FLAG, offsetof(tokenize_opts, pieces), NULL, "an id and its text a line", 0, 0 },
    { "json", 0, FX_OPT_FLAG, offsetof(tokenize_opts, json), NULL, "{\"ids\": [...]}", 0, 0 },
    { 0 },
};

/* The text of one token, quoted. */
static void print_piece(const fornax_tokenizer *tok, int32_t id)
{
    size_t n;
    const char *p = fornax_token_bytes(tok, id, &n);
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_json(&b, fx_str_n(p ? p : "", p ? n : 0));
    printf("\"%s\"", fx_buf_view(&b).p);
    fx_buf_done(&b);
}

static void print_json(const tokenize_opts *opt, const fornax_tokenizer *tok, const fx_id_vec *ids)
{
    printf("{\"ids\": [");
    for (size_t i = 0; i < ids->n; i++)
        printf("%s%d", i == 0 ? "" : ", ", ids->at[i]);
    printf(opt->pieces ? "], \"pieces\": [" : "]");
    for (size_t i = 0; opt->pieces && i < ids->n; i++) {
        printf(i == 0 ? "" : ", ");
        print_piece(tok, ids->at[i]);
    }
    printf(opt->pieces ? "]}\n" : "}\n");
}

static void print_ids(const tokenize_opts *opt, const fornax_tokenizer *tok, const fx_id_vec *ids)
{
    for (size_t i = 0; i < ids->n; i++) {
        if (opt->pieces) {
            printf("%d\t", ids->at[i]);
            print_piece(tok, ids->at[i]);
            putchar('\n');
        } else {
            printf("%s%d", i == 0 ? "" : " ", ids->at[i]);
        }
    }
    if (!opt->pieces)
        putchar('\n');
}

static void print_text(const tokenize_opts *opt, const fornax_text *text)
{
    size_t n;
    const char *p = fornax_text_bytes(text, &n);
    fx_buf b;

    if (!opt->json) {
        fwrite(p, 1, n, stdout);
        return;
    }
    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_json(&b, fx_str_n(p, n));
    printf("{\"text\": \"");
    fwrite(fx_buf_view(&b).p, 1, b.n, stdout);
    printf("\"}\n");
    fx_buf_done(&b);
}

static int decode(const tokenize_opts *opt, const fornax_tokenizer *tok, fornax_error *err)
{
    fx_id_vec ids = { 0 };
    fornax_text *text = NULL;
    int status = FX_EXIT_USAGE;

    if (fx_cli_ids(&ids, "decode", opt->decode)) {
        status = FX_EXIT_OK;
        if (fornax_detokenize(tok, ids.at, ids.n, opt->no_special, &text, err) == FORNAX_OK)
            print_text(opt, text);
        else
            status = fx_cli_fail(err);
    }
    fornax_text_close(text);
    FX_VEC_FREE(&ids, &fx_mem_libc);
    return status;
}

static int encode(const tokenize_opts *opt, const fornax_tokenizer *tok, fornax_error *err)
{
    unsigned flags = (opt->no_add ? 0u : FORNAX_TOKENIZE_ADD) | (opt->no_special ? 0u : FORNAX_TOKENIZE_SPECIAL);
    fx_id_vec ids = { 0 };
    fx_buf text;
    int status = FX_EXIT_FAILED;

    fx_buf_init(&text, &fx_mem_libc);
    if (opt->text)
        fx_buf_puts(&text, opt->text);
    if (opt->text || fx_cli_read(&text, "-")) {
        if (fx_cli_tokenize(&ids, tok, fx_buf_view(&text), flags, err)) {
            (opt->json ? print_json : print_ids)(opt, tok, &ids);
            status = FX_EXIT_OK;
        } else {
            status = fx_cli_fail(err);
        }
    }
    FX_VEC_FREE(&ids, &fx_mem_libc);
    fx_buf_done(&text);
    return status;
}

static int run(const void *o, int n, char **args)
{
    const tokenize_opts *opt = o;
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_tokenizer *tok = NULL;
    int status;

    (void)n;
    if (opt->decode && (opt->text || opt->no_add || opt->pieces))
        return fx_cli_usage("--decode goes with --json and --no-special only");
    if (fx_cli_context(&ctx, &(fx_model_opts){ .threads = 1 }, &err) != FORNAX_OK ||
        fornax_tokenizer_open(&tok, ctx, args[0], &err) != FORNAX_OK)
        status = fx_cli_fail(&err);
    else
        status = opt->decode ? decode(opt, tok, &err) : encode(opt, tok, &err);
    fornax_tokenizer_close(tok);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_tokenize = {
    .name = "tokenize", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "turn text into token ids, and back",
    .examples = "  echo -n 'Hello' | fornax tokenize model.gguf\n"
                "  fornax tokenize --text 'Hello' --pieces folder/\n"
                "  fornax tokenize --decode 19556,28 model.gguf\n",
    .opts = opts, .opts_bytes = sizeof(tokenize_opts), .run = run,
};
