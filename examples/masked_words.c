/* masked_words.c - a gate that doesn't hold: the token ids of a forbidden name are masked, and the model says it all the same.
 *
 *     masked_words MODEL get_order_status issue_refund_quote Issue_Refund_Quote issue_request_for_a_quotation
 *
 * The ids of the second name are masked with a logit bias, as the tokenizer cuts it with and without a blank before it, but for
 * those that the first name, which is allowed, needs. Then the model is asked for each name; a grammar that knows no
 * other text stands for a model that wants to say it.  A list of ids can't name every text that means the forbidden
 * thing: the same name falls into other tokens, its case changes, other words say the same.  What holds is a grammar
 * without it: docs/gates.md. */
#include <fornax.h>
#include <stdio.h>
#include <string.h>

enum { MOST_IDS = 256 };

typedef struct mask {
    fornax_logit_bias ids[MOST_IDS];
    size_t n;
} mask;

/* Every id that the name is cut into. */
static int ids_of(int32_t *ids, size_t *n, const fornax_tokenizer *tok, const char *name, fornax_error *err)
{
    char blank[256];
    size_t more;

    snprintf(blank, sizeof blank, " %s", name);
    if (fornax_tokenize(tok, name, SIZE_MAX, 0, ids, MOST_IDS / 2, n, err) || *n > MOST_IDS / 2 ||
        fornax_tokenize(tok, blank, SIZE_MAX, 0, ids + *n, MOST_IDS / 2, &more, err) || more > MOST_IDS / 2)
        return 1;
    *n += more;
    return 0;
}

static int mask_name(mask *m, const fornax_tokenizer *tok, const char *allowed, const char *forbidden, fornax_error *err)
{
    int32_t good[MOST_IDS], bad[MOST_IDS];
    size_t n_good, n_bad;

    if (ids_of(good, &n_good, tok, allowed, err) || ids_of(bad, &n_bad, tok, forbidden, err))
        return 1;
    for (size_t i = 0; i < n_bad; i++) {
        size_t k = 0;

        while (k < n_good && good[k] != bad[i])
            k++;
        if (k == n_good)
            m->ids[m->n++] = (fornax_logit_bias){ bad[i], -100 };
    }
    return 0;
}

static fornax_grammar *only(fornax_context *ctx, const char *text, fornax_error *err)
{
    fornax_grammar_options o = FORNAX_OPTIONS(fornax_grammar_options);
    fornax_grammar *g = NULL;
    char json[512];

    snprintf(json, sizeof json, "[\"%s\"]", text);
    o.kind = "choice";
    fornax_grammar_open(&g, ctx, json, SIZE_MAX, &o, err);
    return g;
}

/* How many tokens it took; 0: no token was left to go on with; -1: a fault. */
static int say(fornax_engine *engine, const fornax_tokenizer *tok, const fornax_grammar *g, const mask *m, fornax_error *err)
{
    fornax_request_options opt = FORNAX_OPTIONS(fornax_request_options);
    fornax_request *req = NULL;
    const fornax_event *e;
    int32_t ids[16];
    int tokens = 0;

    if (fornax_tokenize(tok, "Call:", SIZE_MAX, FORNAX_TOKENIZE_ADD, ids, 16, &opt.n_ids, err))
        return -1;
    opt.ids = ids;
    opt.max_tokens = 100;
    opt.grammar = g;
    opt.logit_bias = m->ids;
    opt.n_logit_bias = m->n;
    if (fornax_request_submit(&req, engine, &opt, err))
        return -1;
    while (fornax_request_next(req, &e, -1, err) == FORNAX_OK && e->kind != FORNAX_EVENT_DONE)
        tokens += e->kind == FORNAX_EVENT_TOKEN;
    if (err->status == FORNAX_OK && e->status != FORNAX_OK)
        tokens = e->status == FORNAX_EARG ? 0 : -1;
    fornax_request_close(req);
    return err->status == FORNAX_OK ? tokens : -1;
}

static int try_names(fornax_context *ctx, fornax_engine *engine, int n, char **names, fornax_error *err)
{
    const fornax_tokenizer *tok = fornax_model_tokenizer(fornax_engine_model(engine));
    mask m = { .n = 0 };
    int spoken = 0;

    if (mask_name(&m, tok, names[0], names[1], err))
        return 1;
    for (int i = 0; i < n; i++) {
        fornax_grammar *g = only(ctx, names[i], err);
        int tokens = g ? say(engine, tok, g, &m, err) : -1;

        fornax_grammar_close(g);
        if (tokens < 0)
            return 1;
        spoken += tokens > 0;
        if (tokens > 0)
            printf("%-36s spoken, in %d tokens that aren't masked\n", names[i], tokens);
        else
            printf("%-36s can't be spoken\n", names[i]);
    }
    printf("masked: %zu ids of %s; spoken: %d of %d names\n", m.n, names[1], spoken, n);
    return 0;
}

int main(int argc, char **argv)
{
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    int failed;

    if (argc < 4)
        return fprintf(stderr, "usage: masked_words MODEL ALLOWED FORBIDDEN NAME...\n"), 2;
    failed = fornax_context_open(&ctx, NULL, &err) || fornax_model_open(&model, ctx, argv[1], NULL, &err) ||
             fornax_engine_open(&engine, model, NULL, &err) || try_names(ctx, engine, argc - 2, argv + 2, &err);
    if (failed)
        fprintf(stderr, "%s\n", err.text);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return failed;
}
