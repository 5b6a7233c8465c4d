/* gated_logits.c - a custom op of a graph within the sampler: tokens are masked by out = logits + mask at each step of decoding.
 *
 *     gated_logits MODEL ./gated_logits.so              (the package: gated_logits_kernel.c)
 *
 * Four prompts go on freely; then again with the tokens that came forbidden (mask -1e30). A case holds if none of them
 * comes again and others do. It shows how a custom op is used, and is no gate: see masked_words.c. */
#include <fornax_graph.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 8 };

typedef struct gate {
    fornax_program *program;
    float *mask;                /* [vocab] */
    fornax_error *err;
} gate;

/* The program adds the mask; what it gives replaces the logits. */
static void apply(void *user, int choice, const int32_t *tokens, size_t n_tokens, float *logits, int64_t vocab)
{
    gate *g = user;
    fornax_tensor in[2] = { { FORNAX_F32, 1, { vocab }, logits }, { FORNAX_F32, 1, { vocab }, g->mask } }, out = { 0 };

    (void)choice, (void)tokens, (void)n_tokens;
    if (fornax_program_run(g->program, in, 2, &out, 1, g->err) == FORNAX_OK)
        memcpy(logits, out.data, (size_t)vocab * sizeof(float));
}

static fornax_status open_program(fornax_program **p, fornax_compiled **c, fornax_context *ctx, const char *package, fornax_error *err)
{
    fornax_module *m = NULL;
    fornax_graph *g;
    fornax_type t;
    fornax_value *in[2], *y;
    fornax_status st = fornax_module_open(&m, ctx, err);

    if (st)
        return st;
    st = fornax_module_add_library(m, package, err);
    g = fornax_graph_new(m, "gate");
    t = fornax_type1(FORNAX_F32, fornax_dim_named(m, "vocab"));
    in[0] = fornax_graph_input(g, "logits", &t);
    in[1] = fornax_graph_input(g, "mask", &t);
    y = fornax_op_result(fornax_op_custom(g, in, 2, "gated_logits", &t, 1, NULL, 0), 0);
    fornax_graph_output(g, &y, 1);
    st = st ? st : fornax_graph_compile(c, g, NULL, err);
    fornax_module_close(m);
    return st ? st : fornax_program_open(p, *c, err);
}

/* Generates TOKENS tokens; g NULL: freely. */
static fornax_status generate(fornax_engine *e, const fornax_tokenizer *tok, const char *prompt, gate *g, int32_t *out, fornax_error *err)
{
    fornax_request_options opt = FORNAX_OPTIONS(fornax_request_options);
    fornax_request *req = NULL;
    const fornax_event *ev;
    int32_t ids[64];
    fornax_status st = fornax_tokenize(tok, prompt, SIZE_MAX, FORNAX_TOKENIZE_ADD, ids, 64, &opt.n_ids, err);

    opt.ids = ids;
    opt.max_tokens = TOKENS;
    opt.ignore_eos = 1;
    opt.logits_hook = g ? apply : NULL;
    opt.logits_user = g;
    st = st ? st : fornax_request_submit(&req, e, &opt, err);
    for (int n = 0; st == FORNAX_OK && (st = fornax_request_next(req, &ev, -1, err)) == FORNAX_OK && ev->kind != FORNAX_EVENT_DONE;) {
        if (ev->kind == FORNAX_EVENT_TOKEN && n < TOKENS)
            out[n++] = ev->token;
    }
    fornax_request_close(req);
    return st;
}

/* 1: the case holds; 0: not; -1: a fault. */
static int run_case(fornax_engine *e, const fornax_tokenizer *tok, const char *prompt, gate *g, int64_t vocab, fornax_error *err)
{
    int32_t free_ids[TOKENS], gated[TOKENS];
    int holds = 1;

    memset(g->mask, 0, (size_t)vocab * sizeof(float));
    if (generate(e, tok, prompt, NULL, free_ids, err))
        return -1;
    for (int i = 0; i < TOKENS; i++)
        g->mask[free_ids[i]] = -1e30f;
    if (generate(e, tok, prompt, g, gated, err))
        return -1;
    for (int i = 0; i < TOKENS; i++)
        holds = holds && g->mask[gated[i]] == 0;
    return holds;
}

static int run_all(fornax_engine *e, const fornax_tokenizer *tok, gate *g, int64_t vocab, fornax_error *err)
{
    static const char *const prompts[] = { "The capital of France is", "Water boils at", "Once upon a time", "def main():" };
    int good = 0;

    for (int i = 0; i < 4; i++) {
        int holds = run_case(e, tok, prompts[i], g, vocab, err);

        if (holds < 0 || err->status != FORNAX_OK)
            return 1;
        if (!holds)
            printf("case %d failed: %s\n", i + 1, prompts[i]);
        good += holds;
    }
    printf(good == 4 ? "GATE_OP_DEMO_OK %d/4\n" : "GATE_OP_DEMO_FAILED %d/4\n", good);
    return good != 4;
}

int main(int argc, char **argv)
{
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    fornax_compiled *c = NULL;
    gate g = { NULL, NULL, &err };
    static float mask[1 << 20];
    int failed = 1;

    if (argc != 3)
        return fprintf(stderr, "usage: gated_logits MODEL PACKAGE\n"), 2;
    g.mask = mask;
    if (!fornax_context_open(&ctx, NULL, &err) && !fornax_model_open(&model, ctx, argv[1], NULL, &err) &&
        !fornax_engine_open(&engine, model, NULL, &err) && !open_program(&g.program, &c, ctx, argv[2], &err))
        failed = run_all(engine, fornax_model_tokenizer(model), &g, fornax_model_get_info(model)->vocab_size, &err);
    if (err.status != FORNAX_OK)
        fprintf(stderr, "%s\n", err.text);
    fornax_engine_close(engine);
    fornax_program_close(g.program);
    fornax_compiled_close(c);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return failed;
}
