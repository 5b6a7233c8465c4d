/* stepped.c - the engine driven from the caller's own loop: no thread is started by it, its
 * descriptor tells when there is work.  Two requests share each step.
 *
 *     stepped MODEL "The sun is" "The moon is" */
#include <fornax.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define MAX_REQUESTS 8

typedef struct job {
    fornax_request *req;
    char text[1024];
    size_t n;
    int done;
} job;

static int submit(job *j, fornax_engine *engine, const char *prompt, fornax_error *err)
{
    fornax_request_options opt = FORNAX_OPTIONS(fornax_request_options);
    const fornax_tokenizer *tok = fornax_model_tokenizer(fornax_engine_model(engine));
    int32_t ids[512];

    if (fornax_tokenize(tok, prompt, SIZE_MAX, FORNAX_TOKENIZE_ADD, ids, 512, &opt.n_ids, err) || opt.n_ids > 512)
        return 1;
    opt.ids = ids;
    opt.max_tokens = 16;
    return fornax_request_submit(&j->req, engine, &opt, err) != FORNAX_OK;
}

/* Takes what is there without waiting. */
static void drain(job *j)
{
    const fornax_event *e;

    while (!j->done && fornax_request_next(j->req, &e, 0, NULL) == FORNAX_OK) {
        if (e->kind == FORNAX_EVENT_DONE)
            j->done = 1;
        if (j->n + e->text_n < sizeof j->text) {
            memcpy(j->text + j->n, e->text, e->text_n);
            j->n += e->text_n;
        }
    }
}

static int run(fornax_engine *engine, int n, char **prompts, fornax_error *err)
{
    job jobs[MAX_REQUESTS] = { 0 };
    struct pollfd fd = { .fd = fornax_engine_fd(engine), .events = POLLIN };
    int failed = 0, open = 0, did;

    for (; open < n && !failed; open += !failed)
        failed = submit(&jobs[open], engine, prompts[open], err);
    for (int done = 0; !failed && done < n;) {
        if (poll(&fd, 1, 1000) > 0)              /* your other descriptors would be here too */
            failed = fornax_engine_step(engine, &did, err) != FORNAX_OK;
        done = 0;
        for (int i = 0; i < n; i++) {
            drain(&jobs[i]);
            done += jobs[i].done;
        }
    }
    for (int i = 0; i < open; i++) {
        if (!failed)
            printf("%s%.*s\n", prompts[i], (int)jobs[i].n, jobs[i].text);
        fornax_request_close(jobs[i].req);
    }
    return failed;
}

int main(int argc, char **argv)
{
    fornax_engine_options opt = FORNAX_OPTIONS(fornax_engine_options);
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    int failed;

    if (argc < 3 || argc - 2 > MAX_REQUESTS)
        return fprintf(stderr, "usage: stepped MODEL PROMPT...\n"), 2;
    opt.manual = 1;
    failed = fornax_context_open(&ctx, NULL, &err) || fornax_model_open(&model, ctx, argv[1], NULL, &err) ||
             fornax_engine_open(&engine, model, &opt, &err) || run(engine, argc - 2, argv + 2, &err);
    if (failed)
        fprintf(stderr, "%s\n", err.text);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return failed;
}
