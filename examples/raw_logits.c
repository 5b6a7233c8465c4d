/* raw_logits.c - changes the raw logits before sampling: here, no token may hold the letter 'e'.
 *
 *     raw_logits MODEL "The capital of France is"
 *
 * The hook runs on the engine's thread, once per sampled token and choice, and sees the
 * logits before any penalty, temperature or filter. */
#include <fornax.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void ban_letter(void *user, int choice, const int32_t *tokens, size_t n_tokens, float *logits, int64_t vocab)
{
    const fornax_tokenizer *tok = user;

    (void)choice, (void)tokens, (void)n_tokens;
    for (int64_t id = 0; id < vocab; id++) {
        size_t n;
        const char *text = fornax_token_bytes(tok, (int32_t)id, &n);
        if (text && memchr(text, 'e', n))
            logits[id] = -INFINITY;
    }
}

static int run(fornax_engine *engine, const fornax_tokenizer *tok, const char *prompt, fornax_error *err)
{
    fornax_request_options opt = FORNAX_OPTIONS(fornax_request_options);
    fornax_request *req = NULL;
    const fornax_event *e;
    int32_t ids[512];
    fornax_status st;

    st = fornax_tokenize(tok, prompt, SIZE_MAX, FORNAX_TOKENIZE_ADD, ids, 512, &opt.n_ids, err);
    if (st || opt.n_ids > 512)
        return 1;
    opt.ids = ids;
    opt.max_tokens = 24;
    opt.logits_hook = ban_letter;
    opt.logits_user = (void *)tok;
    if (fornax_request_submit(&req, engine, &opt, err))
        return 1;
    while ((st = fornax_request_next(req, &e, -1, err)) == FORNAX_OK && e->kind != FORNAX_EVENT_DONE)
        fwrite(e->text, 1, e->text_n, stdout);
    putchar('\n');
    if (st == FORNAX_OK && e->status != FORNAX_OK)
        st = e->status;
    fornax_request_close(req);
    return st != FORNAX_OK;
}

int main(int argc, char **argv)
{
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    int failed;

    if (argc != 3)
        return fprintf(stderr, "usage: raw_logits MODEL PROMPT\n"), 2;
    failed = fornax_context_open(&ctx, NULL, &err) || fornax_model_open(&model, ctx, argv[1], NULL, &err) ||
             fornax_engine_open(&engine, model, NULL, &err) ||
             run(engine, fornax_model_tokenizer(model), argv[2], &err);
    if (failed)
        fprintf(stderr, "%s\n", err.text);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return failed;
}
