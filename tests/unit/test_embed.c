/* test_embed.c - embeddings of tiny checkpoints against transformers' (reference.json of each), the
 * same bits at any batch size, and what the options do. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "fornax.h"
#include "fxtest.h"

static const char *const names[] = { "nomic_bert", "xlm_roberta", "qwen3_embedding" };

typedef struct setup {
    fornax_context *ctx;
    fornax_model *model;
    json_t *reference;
    const json_t *items;
} setup;

static void open_model(setup *s, const char *name, int threads)
{
    fornax_context_options co = FORNAX_OPTIONS(fornax_context_options);
    fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
    fornax_error err = { 0 };
    char path[512];

    co.threads = threads;
    mo.dtype = "f32";
    snprintf(path, sizeof(path), FXTEST_DATA "/embed/%s", name);
    CHECK_OK(fornax_context_open(&s->ctx, &co, &err), err);
    CHECK_OK(fornax_model_open(&s->model, s->ctx, path, &mo, &err), err);
    snprintf(path, sizeof(path), FXTEST_DATA "/embed/%s/reference.json", name);
    s->reference = json_load_file(path, 0, NULL);
    s->items = json_object_get(s->reference, "items");
    CHECK(json_array_size(s->items) > 0);
}

static void close_model(setup *s)
{
    fornax_model_close(s->model);
    fornax_context_close(s->ctx);
    json_decref(s->reference);
}

static fornax_embed_input input_of(const setup *s, size_t i)
{
    const json_t *text = json_object_get(json_array_get(s->items, i), "text");

    return (fornax_embed_input){ .text = json_string_value(text), .n = json_string_length(text) };
}

TEST(vectors_are_the_references)
{
    for (size_t m = 0; m < FX_COUNT(names); m++) {
        fornax_error err = { 0 };
        fornax_embeddings *e = NULL;
        setup s;

        open_model(&s, names[m], 1);
        for (size_t i = 0; i < json_array_size(s.items); i++) {
            const json_t *want = json_object_get(json_array_get(s.items, i), "embedding");
            const json_t *ids = json_object_get(json_array_get(s.items, i), "ids");
            fornax_embed_input in = input_of(&s, i);
            double worst = 0;

            CHECK_OK(fornax_embed(&e, s.model, &in, 1, NULL, &err), err);
            CHECK_EQ_I64(fornax_embeddings_dim(e), (int64_t)json_array_size(want));
            CHECK_EQ_I64((int64_t)fornax_embeddings_tokens(e, 0), (int64_t)json_array_size(ids));
            for (size_t k = 0; k < json_array_size(want); k++)
                worst = fmax(worst, fabs(json_number_value(json_array_get(want, k)) - (double)fornax_embeddings_row(e, 0)[k]));
            if (!(worst < 1e-5))
                FXTEST_FAIL("%s, item %zu: off by %g", names[m], i, worst);
            fornax_embeddings_close(e);
        }
        close_model(&s);
    }
}

enum { MANY = 200 };

TEST(the_same_bits_in_any_batch)
{
    for (size_t m = 0; m < FX_COUNT(names); m++) {
        fornax_embed_input in[MANY];
        fornax_embeddings *all = NULL, *one = NULL;
        fornax_error err = { 0 };
        setup s;

        open_model(&s, names[m], 1 + (int)m);
        for (size_t i = 0; i < MANY; i++)
            in[i] = input_of(&s, i * i % json_array_size(s.items));
        CHECK_OK(fornax_embed(&all, s.model, in, MANY, NULL, &err), err);
        for (size_t i = 0; i < MANY; i += 13) {
            CHECK_OK(fornax_embed(&one, s.model, &in[i], 1, NULL, &err), err);
            CHECK_MEM(fornax_embeddings_row(one, 0), fornax_embeddings_row(all, i),
                      (size_t)fornax_embeddings_dim(all) * sizeof(float));
            fornax_embeddings_close(one);
        }
        fornax_embeddings_close(all);
        close_model(&s);
    }
}

static double square(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

TEST(options)
{
    fornax_embed_options o = FORNAX_OPTIONS(fornax_embed_options);
    fornax_embeddings *e = NULL, *raw = NULL;
    fornax_embed_input in;
    fornax_error err = { 0 };
    setup s;

    open_model(&s, "nomic_bert", 1);
    in = input_of(&s, 1);
    o.dimensions = 16;
    CHECK_OK(fornax_embed(&e, s.model, &in, 1, &o, &err), err);
    CHECK_EQ_I64(fornax_embeddings_dim(e), 16);
    CHECK(fabs(square(fornax_embeddings_row(e, 0), 16) - 1) < 1e-5);
    o.no_normalize = 1;
    CHECK_OK(fornax_embed(&raw, s.model, &in, 1, &o, &err), err);
    CHECK(fabs(square(fornax_embeddings_row(raw, 0), 16) - 1) > 1e-3);
    CHECK(fornax_embeddings_row(raw, 1) == NULL);
    fornax_embeddings_close(e);
    fornax_embeddings_close(raw);
    o.dimensions = 65;
    CHECK_EQ_I64(fornax_embed(&e, s.model, &in, 1, &o, &err), FORNAX_EARG);
    CHECK_STR(err.param, "dimensions");
    CHECK(e == NULL);
    close_model(&s);
}

TEST(texts_that_are_too_long)
{
    fornax_embed_options o = FORNAX_OPTIONS(fornax_embed_options);
    fornax_embeddings *e = NULL;
    fornax_embed_input in[2];
    fornax_error err = { 0 };
    char text[4001];
    setup s;

    open_model(&s, "nomic_bert", 1);
    for (int i = 0; i < 4000; i++)
        text[i] = i % 2 ? ' ' : 'a';
    in[0] = input_of(&s, 0);
    in[1] = (fornax_embed_input){ .text = text, .n = 4000 };
    CHECK_EQ_I64(fornax_embed(&e, s.model, in, 2, &o, &err), FORNAX_EARG);
    CHECK_STR(err.param, "context_length");
    CHECK(strstr(err.text, "2002 tokens") && strstr(err.text, "256"));
    o.truncate = 1;
    CHECK_OK(fornax_embed(&e, s.model, in, 2, &o, &err), err);
    CHECK_EQ_I64((int64_t)fornax_embeddings_cut(e, 0), 0);
    CHECK_EQ_I64((int64_t)fornax_embeddings_tokens(e, 1), 256);
    CHECK_EQ_I64((int64_t)fornax_embeddings_cut(e, 1), 2002 - 256);
    fornax_embeddings_close(e);
    in[1] = (fornax_embed_input){ .ids = (const int32_t[]){ 704 }, .n_ids = 1 };
    CHECK_EQ_I64(fornax_embed(&e, s.model, in, 2, &o, &err), FORNAX_EARG);
    close_model(&s);
}

/* Decoders of every kind of state embed too, and a text beside others has the bits that it has alone. */
TEST(decoders_with_any_kind_of_state)
{
    static const char *const decoders[] = { "llama3", "mistral", "mamba", "mamba2", "lfm2", "qwen3_5", "gpt_oss", "deepseek_v2", "phi3_longrope" };
    enum { LONGEST = 200, TEXTS = 70 };

    for (size_t m = 0; m < FX_COUNT(decoders); m++) {
        fornax_model_options mo = FORNAX_OPTIONS(fornax_model_options);
        fornax_embeddings *all = NULL, *one = NULL;
        fornax_embed_input in[TEXTS];
        static int32_t ids[TEXTS][LONGEST];
        fornax_context *ctx = NULL;
        fornax_model *model = NULL;
        fornax_error err = { 0 };
        char path[512];

        mo.embeddings = 1;
        snprintf(path, sizeof(path), FXTEST_DATA "/models/%s", decoders[m]);
        CHECK_OK(fornax_context_open(&ctx, NULL, &err), err);
        CHECK_OK(fornax_model_open(&model, ctx, path, &mo, &err), err);
        for (int i = 0; i < TEXTS; i++) {
            for (int k = 0; k < LONGEST; k++)
                ids[i][k] = (i * 7 + k * k * 3 + 1) % 250;
            in[i] = (fornax_embed_input){ .ids = ids[i], .n_ids = (size_t)(1 + i * 37 % LONGEST) };
        }
        CHECK_OK(fornax_embed(&all, model, in, TEXTS, NULL, &err), err);
        for (int i = 0; i < TEXTS && all; i += 9) {
            CHECK_OK(fornax_embed(&one, model, &in[i], 1, NULL, &err), err);
            if (memcmp(fornax_embeddings_row(one, 0), fornax_embeddings_row(all, (size_t)i),
                       (size_t)fornax_embeddings_dim(all) * sizeof(float)) != 0)
                FXTEST_FAIL("%s: text %d differs alone", decoders[m], i);
            CHECK(fabs(square(fornax_embeddings_row(one, 0), fornax_embeddings_dim(one)) - 1) < 1e-4);
            fornax_embeddings_close(one);
        }
        fornax_embeddings_close(all);
        fornax_model_close(model);
        fornax_context_close(ctx);
    }
}

typedef struct watch {
    int calls, last;             /* the call that says stop; 0: none */
    double seen;
    bool falls;
} watch;

static int look(void *user, double fraction)
{
    watch *w = user;

    w->falls |= fraction < w->seen || fraction >= 1;
    w->seen = fraction;
    return ++w->calls == w->last;
}

/* Many texts and one that takes several steps can be called off between any two, and what follows is as ever. */
TEST(calling_it_off)
{
    for (size_t m = 0; m < FX_COUNT(names); m++) {
        fornax_embed_options o = FORNAX_OPTIONS(fornax_embed_options);
        fornax_embeddings *e = NULL, *again = NULL;
        fornax_embed_input in[MANY];
        fornax_error err = { 0 };
        watch all = { 0 };
        setup s;

        open_model(&s, names[m], 1);
        for (size_t i = 0; i < MANY; i++)
            in[i] = input_of(&s, i % json_array_size(s.items));
        o.progress = look;
        o.progress_user = &all;
        CHECK_OK(fornax_embed(&e, s.model, in, MANY, &o, &err), err);
        CHECK(all.calls > MANY + 2 && !all.falls && all.seen > 0.3);
        for (int last = 1; last <= all.calls; last += last < MANY - 3 ? 40 : 1) {
            watch w = { .last = last };

            o.progress_user = &w;
            again = e;
            CHECK_EQ_I64(fornax_embed(&again, s.model, in, MANY, &o, &err), FORNAX_ECANCEL);
            CHECK(again == NULL && w.calls == last && strstr(err.text, "cancelled"));
        }
        o.progress = NULL;
        CHECK_OK(fornax_embed(&again, s.model, in, MANY, &o, &err), err);
        CHECK_MEM(fornax_embeddings_row(e, 0), fornax_embeddings_row(again, 0), MANY * (size_t)fornax_embeddings_dim(e) * sizeof(float));
        fornax_embeddings_close(e);
        fornax_embeddings_close(again);
        close_model(&s);
    }
}

static int never(void *user, int64_t position, const float *logits, int64_t n)
{
    (void)user, (void)position, (void)logits, (void)n;
    return 1;
}

TEST(it_makes_no_text)
{
    fornax_error err = { 0 };
    int32_t id = 5;
    setup s;

    open_model(&s, "xlm_roberta", 1);
    CHECK_EQ_I64(fornax_model_evaluate(s.model, &id, 1, 0, never, NULL, &err), FORNAX_EUNSUP);
    close_model(&s);
}

FXTEST_MAIN()
