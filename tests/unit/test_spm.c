/* test_spm.c - tokenizer.model files, and GGUF vocabularies of the same pieces, against SentencePiece.
 *
 * Expected values: tests/data/tokenizer/spm/make_cases.py.  Beside them: what a configuration
 * changes, broken files, failing allocations, and time on long texts. */
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "fxtest.h"
#include "text/spm_file.h"
#include "text/tokenizer_impl.h"

#define DATA FXTEST_DATA "/tokenizer/spm/"

static const char *const models[] = { "llama.model", "gemma.model", "unigram.model" };

static fx_buf read_file(const char *name)
{
    char path[512], part[65536];
    FILE *f;
    fx_buf b;
    size_t n;

    snprintf(path, sizeof(path), DATA "%s", name);
    f = fopen(path, "rb");
    fx_buf_init(&b, &fx_mem_libc);
    while (f && (n = fread(part, 1, sizeof(part), f)) > 0)
        fx_buf_add(&b, part, n);
    if (f)
        fclose(f);
    CHECK(b.n > 0);
    return b;
}

static void check_ids(const char *what, const fx_tokenizer *t, fx_str text, int32_t bos, const json_t *want)
{
    size_t n = json_array_size(want), before = bos >= 0;
    fx_error err = { 0 };
    bool same;
    fx_ids ids;

    fx_ids_init(&ids, &fx_mem_libc);
    CHECK_OK(fx_tokenizer_encode(t, text, NULL, 0, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, &ids, &err), err);
    same = ids.n == n + before && (!before || ids.at[0] == bos);
    for (size_t i = 0; same && i < n; i++)
        same = ids.at[before + i] == json_integer_value(json_array_get(want, i));
    if (!same)
        FXTEST_FAIL("%s: other ids for \"%.*s\": %zu, expected %zu", what, FX_STR_ARG(text), ids.n, n + before);
    fx_ids_done(&ids);
}

static void check_text(const char *what, const fx_tokenizer *t, const json_t *list, const char *want)
{
    int32_t ids[512];
    size_t n = FX_MIN(json_array_size(list), FX_COUNT(ids));
    fx_buf out;

    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    fx_buf_init(&out, &fx_mem_libc);
    fx_tokenizer_decode(t, ids, n, true, &out);
    if (strcmp(fx_buf_view(&out).p, want))
        FXTEST_FAIL("%s: decoded \"%s\", expected \"%s\"", what, fx_buf_view(&out).p, want);
    fx_buf_done(&out);
}

TEST(ids_and_texts_are_sentencepieces)
{
    json_t *all = json_load_file(DATA "cases.json", 0, NULL), *c;
    size_t i;

    for (size_t m = 0; m < FX_COUNT(models); m++) {
        const json_t *cases = json_object_get(all, models[m]);
        int32_t bos = (int32_t)json_integer_value(json_object_get(cases, "bos"));
        fx_buf file = read_file(models[m]);
        fx_spm_texts texts = { .model = fx_buf_view(&file) };
        fx_tokenizer *t = NULL;
        fx_error err = { 0 };

        CHECK_OK(fx_tokenizer_from_spm(&t, &fx_mem_libc, &texts, &err), err);
        CHECK_EQ_I64((int64_t)fx_tokenizer_size(t), json_integer_value(json_object_get(cases, "pieces")));
        CHECK_EQ_I64(fx_tokenizer_bos(t), bos);
        json_array_foreach(json_object_get(cases, "texts"), i, c)
            check_ids(models[m], t, fx_str_of(json_string_value(json_object_get(c, "text"))), bos, json_object_get(c, "ids"));
        json_array_foreach(json_object_get(cases, "decode"), i, c)
            check_text(models[m], t, json_object_get(c, "ids"), json_string_value(json_object_get(c, "text")));
        fx_tokenizer_free(t);
        fx_buf_done(&file);
    }
    json_decref(all);
}

/* The same pieces as a GGUF header has them. */
static fx_tokenizer *from_gguf(const fx_spm_file *f, const char *model, fx_error *err)
{
    size_t n = f->pieces.n;
    fx_str *tokens = calloc(n, sizeof(*tokens));
    int32_t *types = calloc(n, sizeof(*types));
    float *scores = calloc(n, sizeof(*scores));
    fx_gguf_vocab v = { .model = fx_str_of(model), .pre = FX_STR(""), .tokens = tokens, .n = n, .types = types, .scores = scores,
                        .bos = f->bos, .eos = f->eos, .eot = -1, .eom = -1, .unk = f->unk, .pad = -1, .cls = -1, .sep = -1,
                        .add_bos = 1, .add_eos = 0, .add_space_prefix = f->prefix, .remove_extra = f->remove_extra,
                        .charsmap = f->charsmap };
    fx_tokenizer *t = NULL;

    for (size_t i = 0; i < n; i++) {
        tokens[i] = f->pieces.at[i].text;
        types[i] = f->pieces.at[i].type;
        scores[i] = f->pieces.at[i].score;
    }
    CHECK_OK(fx_tokenizer_from_gguf(&t, &fx_mem_libc, &v, err), *err);
    free(tokens);
    free(types);
    free(scores);
    return t;
}

TEST(gguf_vocabularies_of_the_same_pieces)
{
    static const struct { const char *file, *model; } rows[] = { { "llama.model", "llama" }, { "unigram.model", "t5" } };
    json_t *all = json_load_file(DATA "cases.json", 0, NULL), *c;
    size_t i;

    for (size_t m = 0; m < FX_COUNT(rows); m++) {
        const json_t *cases = json_object_get(all, rows[m].file);
        int32_t bos = (int32_t)json_integer_value(json_object_get(cases, "bos"));
        fx_buf bytes = read_file(rows[m].file);
        fx_error err = { 0 };
        fx_spm_file f;
        fx_tokenizer *t;

        CHECK_OK(fx_spm_file_read(&f, &fx_mem_libc, fx_buf_view(&bytes), &err), err);
        t = from_gguf(&f, rows[m].model, &err);
        json_array_foreach(json_object_get(cases, "texts"), i, c) {
            const char *text = json_string_value(json_object_get(c, "text"));

            if (!strstr(text, "<s>") && !strstr(text, "<unk>"))      /* GGUF's control tokens are matched */
                check_ids(rows[m].model, t, fx_str_of(text), bos, json_object_get(c, "ids"));
        }
        fx_tokenizer_free(t);
        fx_spm_file_done(&f);
        fx_buf_done(&bytes);
    }
    json_decref(all);
}

TEST(a_configuration_names_special_tokens)
{
    fx_buf file = read_file("llama.model");
    fx_spm_texts texts = { .model = fx_buf_view(&file),
                           .config = FX_STR("{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_bos_token\": false, \"add_eos_token\": true}"),
                           .added = FX_STR("{\"<new>\": 640}") };
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };
    fx_ids ids;

    CHECK_OK(fx_tokenizer_from_spm(&t, &fx_mem_libc, &texts, &err), err);
    fx_ids_init(&ids, &fx_mem_libc);
    CHECK_OK(fx_tokenizer_encode(t, FX_STR("<s><new>"), NULL, 0, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, &ids, &err), err);
    CHECK_EQ_I64((int64_t)ids.n, 3);
    CHECK_EQ_I64(ids.at[0], 1);
    CHECK_EQ_I64(ids.at[1], 640);
    CHECK_EQ_I64(ids.at[2], 2);
    fx_ids_done(&ids);
    fx_tokenizer_free(t);
    texts.config = FX_STR("{\"tokenizer_class\": \"XLMRobertaTokenizer\"}");
    CHECK_EQ_I64(fx_tokenizer_from_spm(&t, &fx_mem_libc, &texts, &err), FORNAX_EUNSUP);
    CHECK(t == NULL);
    fx_buf_done(&file);
}

/* Every truncation near the ends, seeded changes of bytes: a tokenizer that works, or an error. */
TEST(broken_files)
{
    fx_buf file = read_file("gemma.model");
    uint32_t x = 1;

    for (int k = 0; k < 400; k++) {
        fx_spm_texts texts = { .model = fx_buf_view(&file) };
        fx_tokenizer *t = NULL;
        fx_error err = { 0 };
        fx_ids ids;

        x = x * 1664525u + 1013904223u;
        if (k < 200)
            texts.model.n = k < 100 ? (size_t)k : file.n - (size_t)(k - 99);
        else
            file.p[(x >> 8) % file.n] = (char)(x >> 3);
        if (fx_tokenizer_from_spm(&t, &fx_mem_libc, &texts, &err) != FORNAX_OK) {
            CHECK(t == NULL && err.text[0]);
            continue;
        }
        fx_ids_init(&ids, &fx_mem_libc);
        fx_tokenizer_encode(t, FX_STR("Hello, \xe4\xbd\xa0 world"), NULL, 0, FX_ENCODE_ADD, &ids, &err);
        fx_ids_done(&ids);
        fx_tokenizer_free(t);
    }
    fx_buf_done(&file);
}

TEST(time_grows_with_the_text)
{
    static const char *const parts[] = { "a", " ", "\xe2\x96\x81", "\xcc\x81", "ab ", "\xf0\x9f\x91\xa8\xe2\x80\x8d" };
    clock_t start = clock();

    for (size_t m = 0; m < FX_COUNT(models); m++) {
        fx_buf file = read_file(models[m]);
        fx_spm_texts texts = { .model = fx_buf_view(&file) };
        fx_tokenizer *t = NULL;
        fx_error err = { 0 };

        CHECK_OK(fx_tokenizer_from_spm(&t, &fx_mem_libc, &texts, &err), err);
        for (size_t p = 0; p < FX_COUNT(parts); p++) {
            fx_ids ids;
            fx_buf text;

            fx_buf_init(&text, &fx_mem_libc);
            fx_ids_init(&ids, &fx_mem_libc);
            while (text.n < 100000)
                fx_buf_puts(&text, parts[p]);
            CHECK_OK(fx_tokenizer_encode(t, fx_buf_view(&text), NULL, 0, 0, &ids, &err), err);
            fx_ids_done(&ids);
            fx_buf_done(&text);
        }
        fx_tokenizer_free(t);
        fx_buf_done(&file);
    }
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 20);      /* quadratic ways take minutes */
}

FXTEST_MAIN()
