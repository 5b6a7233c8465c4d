/* test_tokenizer.c - tokenizers against the reference's ids and texts.
 *
 * The cases were written by tests/data/tokenizer/make_cases.py with PyPI's
 * tokenizers.  Beside them: data spans, GGUF vocabularies, long words, broken
 * files (every truncation, seeded mutations) and failing allocations. */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "fxtest.h"
#include "text/pretok_names.h"
#include "text/tokenizer_impl.h"

#define DATA FXTEST_DATA "/tokenizer/"

static const char *const families[] = { "bytelevel", "llama3", "qwen2", "metaspace_normalizer", "gemma", "wordpiece",
                                        "bert_uncased", "gpt2", "qwen2_5", "smollm2" };

/* ---- Files and comparisons ----------------------------------------------------------- */

static fx_buf read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    fx_buf b;
    char part[65536];
    size_t n;

    fx_buf_init(&b, &fx_mem_libc);
    while (f && (n = fread(part, 1, sizeof(part), f)) > 0)
        fx_buf_add(&b, part, n);
    if (f)
        fclose(f);
    fx_buf_reserve(&b, 1);
    return b;
}

static json_t *read_json(const char *path)
{
    json_t *j = json_load_file(path, JSON_ALLOW_NUL, NULL);

    CHECK(j != NULL);
    return j;
}

static fx_tokenizer *load_family(const char *name)
{
    char path[512];
    fx_buf b;
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };

    snprintf(path, sizeof(path), DATA "%s/tokenizer.json", name);
    b = read_file(path);
    CHECK_OK(fx_tokenizer_from_json(&t, &fx_mem_libc, fx_buf_view(&b), FX_STR(""), &err), err);
    fx_buf_done(&b);
    return t;
}

/* The case's text: "text", or "hex" for bytes that aren't UTF-8. */
static fx_buf case_text(const json_t *c)
{
    const json_t *text = json_object_get(c, "text");
    const char *hex = json_string_value(json_object_get(c, "hex"));
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    if (text)
        fx_buf_add(&b, json_string_value(text), json_string_length(text));
    for (; hex && hex[0]; hex += 2) {
        unsigned x = 0;

        sscanf(hex, "%2x", &x);
        fx_buf_putc(&b, (char)x);
    }
    fx_buf_reserve(&b, 1);
    return b;
}

static void check_ids(const char *what, const fx_ids *got, const json_t *want, fx_str text)
{
    bool same = got->n == json_array_size(want);

    for (size_t i = 0; same && i < got->n; i++)
        same = got->at[i] == json_integer_value(json_array_get(want, i));
    if (!same)
        FXTEST_FAIL("%s: other ids for \"%.*s\": %zu, expected %zu", what, FX_STR_ARG(text), got->n, json_array_size(want));
}

static void check_encode(const char *what, const fx_tokenizer *t, fx_str text, const fx_span *spans, size_t n_spans,
                         unsigned flags, const json_t *want)
{
    fx_ids ids;
    fx_error err = { 0 };

    fx_ids_init(&ids, &fx_mem_libc);
    CHECK_OK(fx_tokenizer_encode(t, text, spans, n_spans, flags, &ids, &err), err);
    check_ids(what, &ids, want, text);
    fx_ids_done(&ids);
}

static fx_ids ids_of(const json_t *list)
{
    fx_ids ids;

    fx_ids_init(&ids, &fx_mem_libc);
    for (size_t i = 0; i < json_array_size(list); i++)
        fx_ids_push(&ids, (int32_t)json_integer_value(json_array_get(list, i)));
    return ids;
}

/* Whether a byte token occurs next to another: there a stream may differ from the whole. */
static bool has_bytes(const fx_tokenizer *t, const fx_ids *ids)
{
    for (size_t i = 0; i < ids->n; i++)
        if (t->flags[ids->at[i]] & FX_TOKEN_BYTE)
            return true;
    return false;
}

static void check_decode(const char *what, const fx_tokenizer *t, const json_t *list, bool skip, const json_t *want)
{
    fx_ids ids = ids_of(list);
    fx_str expected = { json_string_value(want), json_string_length(want) };
    fx_buf whole, stream;
    fx_detok d;

    fx_buf_init(&whole, &fx_mem_libc);
    fx_buf_init(&stream, &fx_mem_libc);
    fx_tokenizer_decode(t, ids.at, ids.n, skip, &whole);
    if (!fx_str_eq(fx_buf_view(&whole), expected))
        FXTEST_FAIL("%s: decoded \"%s\", expected \"%s\"", what, fx_buf_view(&whole).p, expected.p);
    fx_detok_init(&d, t, skip);
    for (size_t i = 0; i < ids.n; i++) {
        fx_detok_push(&d, ids.at[i], &stream);
        CHECK(fx_utf8_valid(fx_buf_view(&stream)));
    }
    fx_detok_flush(&d, &stream);
    if (!has_bytes(t, &ids) && !fx_str_eq(fx_buf_view(&stream), expected))
        FXTEST_FAIL("%s: streamed \"%s\", expected \"%s\"", what, fx_buf_view(&stream).p, expected.p);
    fx_buf_done(&whole);
    fx_buf_done(&stream);
    fx_ids_done(&ids);
}

/* ---- Against the reference ------------------------------------------------------------ */

static void check_case(const char *name, const fx_tokenizer *t, const json_t *c)
{
    fx_buf text = case_text(c);
    fx_str s = fx_buf_view(&text);
    const json_t *off = json_object_get(c, "off");
    fx_span all = { 0, s.n };

    check_encode(name, t, s, NULL, 0, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, json_object_get(c, "ids"));
    if (json_object_get(c, "plain"))
        check_encode(name, t, s, NULL, 0, FX_ENCODE_SPECIAL, json_object_get(c, "plain"));
    off = off ? off : json_object_get(c, "ids");
    check_encode(name, t, s, NULL, 0, FX_ENCODE_ADD, off);
    check_encode(name, t, s, &all, 1, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, off);
    check_decode(name, t, json_object_get(c, "ids"), false, json_object_get(c, "decoded"));
    if (json_object_get(c, "skipped"))
        check_decode(name, t, json_object_get(c, "ids"), true, json_object_get(c, "skipped"));
    fx_buf_done(&text);
}

TEST(families_agree_with_the_reference)
{
    for (size_t f = 0; f < FX_COUNT(families); f++) {
        fx_tokenizer *t = load_family(families[f]);
        char path[512];
        json_t *j, *c;
        size_t i;

        REQUIRE(t);
        snprintf(path, sizeof(path), DATA "%s/cases.json", families[f]);
        j = read_json(path);
        json_array_foreach(json_object_get(j, "cases"), i, c)
            check_case(families[f], t, c);
        json_array_foreach(json_object_get(j, "decode"), i, c) {
            check_decode(families[f], t, json_object_get(c, "ids"), false, json_object_get(c, "decoded"));
            check_decode(families[f], t, json_object_get(c, "ids"), true, json_object_get(c, "skipped"));
        }
        json_decref(j);
        fx_tokenizer_free(t);
    }
}

TEST(components_agree_with_the_reference)
{
    json_t *all = read_json(DATA "components.json"), *row, *c;
    size_t i, k;

    json_array_foreach(json_object_get(all, "components"), i, row) {
        json_t *j = json_object_get(row, "tokenizer");
        const char *name = json_string_value(json_object_get(row, "name"));
        fx_tokenizer *t = NULL;
        fx_error err = { 0 };
        char *text;

        json_object_set(j, "model", json_object_get(all, "model"));
        text = json_dumps(j, JSON_COMPACT | (i % 2 ? JSON_ENSURE_ASCII : 0));
        CHECK_OK(fx_tokenizer_from_json(&t, &fx_mem_libc, fx_str_of(text), FX_STR(""), &err), err);
        json_array_foreach(json_object_get(row, "cases"), k, c)
            if (t)
                check_case(name, t, c);
        fx_tokenizer_free(t);
        free(text);
    }
    json_decref(all);
}

/* ---- Data spans ------------------------------------------------------------------------- */

static size_t count_id(const fx_tokenizer *t, const char *text, const fx_span *spans, size_t n, int32_t id)
{
    fx_ids ids;
    fx_error err = { 0 };
    size_t count = 0;

    fx_ids_init(&ids, &fx_mem_libc);
    CHECK_OK(fx_tokenizer_encode(t, fx_str_of(text), spans, n, FX_ENCODE_SPECIAL, &ids, &err), err);
    for (size_t i = 0; i < ids.n; i++)
        count += ids.at[i] == id;
    fx_ids_done(&ids);
    return count;
}

TEST(special_tokens_in_data_are_text)
{
    fx_tokenizer *t = load_family("qwen2");
    const char *text = "<|im_start|>user\n<|im_start|>x<|im_end|>\n";
    int32_t start = fx_tokenizer_find(t, FX_STR("<|im_start|>"));
    fx_span content = { 17, 30 }, cut = { 29, 30 }, touching = { 12, 17 }, empty = { 20, 20 };
    fx_span two[] = { { 0, 1 }, { 20, 21 } }, backwards[] = { { 5, 6 }, { 2, 3 } }, beyond = { 0, 100 };
    fx_ids ids;
    fx_error err = { 0 };

    CHECK(start >= 0 && fx_tokenizer_special(t, start));
    CHECK_EQ_I64(count_id(t, text, NULL, 0, start), 2);
    CHECK_EQ_I64(count_id(t, text, &content, 1, start), 1);
    CHECK_EQ_I64(count_id(t, text, &touching, 1, start), 2);
    CHECK_EQ_I64(count_id(t, text, &empty, 1, start), 2);
    CHECK_EQ_I64(count_id(t, text, two, 2, start), 0);
    cut = (fx_span){ 28, 29 };                  /* the last byte of the second one */
    CHECK_EQ_I64(count_id(t, text, &cut, 1, start), 1);
    fx_ids_init(&ids, &fx_mem_libc);
    CHECK_EQ_I64(fx_tokenizer_encode(t, fx_str_of(text), backwards, 2, 0, &ids, &err), FORNAX_EARG);
    CHECK_EQ_I64(fx_tokenizer_encode(t, fx_str_of(text), &beyond, 1, 0, &ids, &err), FORNAX_EARG);
    CHECK_EQ_I64(ids.n, 0);
    fx_ids_done(&ids);
    /* Ill-formed bytes before a span move it along. */
    fx_span moved = { 18, 31 };
    CHECK_EQ_I64(count_id(t, "\xff<|im_start|>user\n<|im_start|>x", &moved, 1, start), 1);
    fx_tokenizer_free(t);
}

/* After a normalizer has moved the text about, template and data are still told apart. */
TEST(data_is_known_after_normalization)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":9,\"content\":\"<e>\",\"special\":true,\"normalized\":true}],"
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},{\"type\":\"Lowercase\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"q\"},\"content\":\"long\"}]},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<\":1,\"e\":2,\">\":3},\"merges\":[]}}";
    const char *text = "\xef\xac\x81q<E>\xef\xac\x81<E>";     /* U+FB01 grows, q grows */
    fx_span first = { 4, 7 }, second = { 10, 13 }, between = { 7, 10 };
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_tokenizer_from_json(&t, &fx_mem_libc, fx_str_of(json), FX_STR(""), &err), err);
    REQUIRE(t);
    CHECK_EQ_I64(count_id(t, text, NULL, 0, 4), 2);
    CHECK_EQ_I64(count_id(t, text, &first, 1, 4), 1);
    CHECK_EQ_I64(count_id(t, text, &second, 1, 4), 1);
    CHECK_EQ_I64(count_id(t, text, &between, 1, 4), 2);
    fx_tokenizer_free(t);
}

/* A turn marker that its file doesn't call special is still no business of data. */
TEST(markers_that_look_like_control_tokens)
{
    static const char json[] =
        "{\"added_tokens\":[{\"id\":4,\"content\":\"<|User|>\",\"special\":false,\"normalized\":false},"
        "{\"id\":5,\"content\":\"<b>\",\"special\":false,\"normalized\":false}],"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"<\":1,\"b\":2,\">\":3},\"merges\":[]}}";
    fx_span all = { 0, 12 };
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_tokenizer_from_json(&t, &fx_mem_libc, fx_str_of(json), FX_STR(""), &err), err);
    REQUIRE(t);
    CHECK_EQ_I64(count_id(t, "<|User|>a<b>", NULL, 0, 4), 1);
    CHECK_EQ_I64(count_id(t, "<|User|>a<b>", &all, 1, 4), 0);
    CHECK_EQ_I64(count_id(t, "<|User|>a<b>", &all, 1, 5), 1);
    fx_tokenizer_free(t);
}

/* ---- GGUF ---------------------------------------------------------------------------------- */

/* What a header would hold of a tokenizer.json gives the reference's ids too; 'ids': at least so many. */
static void check_there_and_back(const char *name, size_t ids, size_t expected_n)
{
    fx_tokenizer *t = load_family(name), *back = NULL;
    char path[512];
    json_t *root, *c;
    fx_gguf_vocab v;
    fx_arena a;
    fx_error err = { 0 };
    size_t i;

    snprintf(path, sizeof(path), DATA "%s/cases.json", name);
    root = read_json(path);
    fx_arena_init(&a, &fx_mem_libc, 0);
    CHECK_OK(fx_tokenizer_to_gguf(t, ids, &a, &v, &err), err);
    CHECK_EQ_I64(v.n, expected_n);
    CHECK_OK(fx_tokenizer_from_gguf(&back, &fx_mem_libc, &v, &err), err);
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        fx_buf text = case_text(c);
        fx_ids want, got;

        fx_ids_init(&want, &fx_mem_libc);
        fx_ids_init(&got, &fx_mem_libc);
        CHECK_OK(fx_tokenizer_encode(t, fx_buf_view(&text), NULL, 0, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, &want, &err), err);
        if (back)
            CHECK_OK(fx_tokenizer_encode(back, fx_buf_view(&text), NULL, 0, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, &got, &err), err);
        if (got.n != want.n || (want.n && memcmp(got.at, want.at, want.n * sizeof(*want.at)) != 0))
            FXTEST_FAIL("%s: other ids for \"%s\"", name, text.p);
        fx_ids_done(&want);
        fx_ids_done(&got);
        fx_buf_done(&text);
    }
    json_decref(root);
    fx_tokenizer_free(back);
    fx_tokenizer_free(t);
    fx_arena_done(&a);
}

TEST(bytelevel_as_gguf) { check_there_and_back("bytelevel", 0, 512); }
TEST(llama3_as_gguf) { check_there_and_back("llama3", 600, 600); }
TEST(qwen2_as_gguf) { check_there_and_back("qwen2", 0, 511); }
TEST(metaspace_as_gguf) { check_there_and_back("metaspace_normalizer", 0, 640); }

TEST(wordpiece_is_not_written_as_gguf)
{
    fx_tokenizer *t = load_family("wordpiece");
    fx_gguf_vocab v;
    fx_arena a;
    fx_error err = { 0 };

    fx_arena_init(&a, &fx_mem_libc, 0);
    CHECK_EQ_I64(fx_tokenizer_to_gguf(t, 0, &a, &v, &err), FORNAX_EUNSUP);
    CHECK(strstr(err.text, "BPE") != NULL);
    fx_arena_done(&a);
    fx_tokenizer_free(t);
}

/* The arrays of a tokenizer.json's BPE, as a GGUF has them. */
typedef struct gguf_arrays {
    json_t *json;
    fx_str *tokens, *merges;
    int32_t *types;
    size_t n, n_merges;
    fx_buf text;
} gguf_arrays;

static gguf_arrays arrays_of(const char *name)
{
    gguf_arrays g = { 0 };
    char path[512];
    json_t *vocab, *added, *v;
    const char *key;
    size_t i;

    snprintf(path, sizeof(path), DATA "%s/tokenizer.json", name);
    g.json = read_json(path);
    vocab = json_object_get(json_object_get(g.json, "model"), "vocab");
    added = json_object_get(g.json, "added_tokens");
    g.n = json_object_size(vocab) + json_array_size(added);
    g.tokens = calloc(g.n, sizeof(*g.tokens));
    g.types = calloc(g.n, sizeof(*g.types));
    json_object_foreach(vocab, key, v)
        g.tokens[json_integer_value(v)] = fx_str_of(key);
    for (i = 0; i < g.n; i++)
        g.types[i] = 1;
    json_array_foreach(added, i, v) {
        size_t id = (size_t)json_integer_value(json_object_get(v, "id"));

        g.n = FX_MAX(g.n, id + 1);
        g.tokens[id] = fx_str_of(json_string_value(json_object_get(v, "content")));
        g.types[id] = json_is_true(json_object_get(v, "special")) ? 3 : 4;
    }
    while (g.n && !g.tokens[g.n - 1].p)
        g.n--;
    v = json_object_get(json_object_get(g.json, "model"), "merges");
    g.n_merges = json_array_size(v);
    g.merges = calloc(g.n_merges, sizeof(*g.merges));
    fx_buf_init(&g.text, &fx_mem_libc);
    for (i = 0; i < g.n_merges; i++)
        fx_buf_printf(&g.text, "%s %s", json_string_value(json_array_get(json_array_get(v, i), 0)),
                      json_string_value(json_array_get(json_array_get(v, i), 1)));
    for (size_t k = 0, at = 0; k < g.n_merges; k++) {
        size_t n = json_string_length(json_array_get(json_array_get(v, k), 0)) + 1 +
                   json_string_length(json_array_get(json_array_get(v, k), 1));

        g.merges[k] = fx_str_n(g.text.p + at, n);
        at += n;
    }
    return g;
}

static void arrays_done(gguf_arrays *g)
{
    free(g->tokens);
    free(g->types);
    free(g->merges);
    fx_buf_done(&g->text);
    json_decref(g->json);
}

static fx_gguf_vocab vocab_of(const gguf_arrays *g, const char *model, const char *pre)
{
    return (fx_gguf_vocab){ .model = fx_str_of(model), .pre = fx_str_of(pre), .tokens = g->tokens, .n = g->n,
                            .types = g->types, .merges = g->merges, .n_merges = g->n_merges, .bos = -1, .eos = -1,
                            .eot = -1, .eom = -1, .unk = -1, .pad = -1, .add_bos = -1, .add_eos = -1,
                            .add_space_prefix = -1 };
}

static void check_gguf(const char *family, const char *pre, const char *bos)
{
    gguf_arrays g = arrays_of(family);
    fx_gguf_vocab v = vocab_of(&g, "gpt2", pre);
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };
    char path[512];
    json_t *j, *c;
    size_t i;

    for (size_t k = 0; bos && k < g.n; k++)
        if (fx_str_is(g.tokens[k], bos))
            v.bos = (int64_t)k;
    CHECK_OK(fx_tokenizer_from_gguf(&t, &fx_mem_libc, &v, &err), err);
    snprintf(path, sizeof(path), DATA "%s/cases.json", family);
    j = read_json(path);
    json_array_foreach(json_object_get(j, "cases"), i, c)
        if (t)
            check_case(pre, t, c);
    json_decref(j);
    fx_tokenizer_free(t);
    arrays_done(&g);
}

TEST(gguf_vocabularies_agree_with_the_reference)
{
    check_gguf("bytelevel", "gpt-2", NULL);
    check_gguf("qwen2", "qwen2", NULL);
    check_gguf("llama3", "llama-bpe", "<|begin_of_text|>");
}

TEST(gguf_names)
{
    static const char *const names[] = { "", "default", "smollm", "qwen2", "qwen35", "llama-bpe", "deepseek-llm", "deepseek-coder",
        "deepseek-v3", "falcon", "starcoder", "command-r", "olmo", "dbrx", "tekken", "refact", "exaone", "chatglm-bpe", "gpt-4o",
        "kimi-k2", "bloom", "viking", "bailingmoe", "seed-coder", "chameleon", "stablelm2" };
    gguf_arrays g = arrays_of("bytelevel");
    fx_error err = { 0 };
    fx_tokenizer *t;
    fx_gguf_vocab v;

    for (size_t i = 0; i < FX_COUNT(names); i++) {
        fx_ids ids;
        fx_buf text;

        v = vocab_of(&g, "gpt2", names[i]);
        t = NULL;
        CHECK_OK(fx_tokenizer_from_gguf(&t, &fx_mem_libc, &v, &err), err);
        REQUIRE(t);
        fx_ids_init(&ids, &fx_mem_libc);
        fx_buf_init(&text, &fx_mem_libc);
        CHECK_OK(fx_tokenizer_encode(t, FX_STR("A 12 b\xc3\xa9\xe4\xb8\xad  \n x's!"), NULL, 0, 0, &ids, &err), err);
        fx_tokenizer_decode(t, ids.at, ids.n, false, &text);
        CHECK_STR(text.p, "A 12 b\xc3\xa9\xe4\xb8\xad  \n x's!");
        fx_buf_done(&text);
        fx_ids_done(&ids);
        fx_tokenizer_free(t);
    }
    v = vocab_of(&g, "gpt2", "no-such-thing");
    CHECK_EQ_I64(fx_tokenizer_from_gguf(&t, &fx_mem_libc, &v, &err), FORNAX_EUNSUP);
    CHECK(strstr(err.text, "no-such-thing"));
    v = vocab_of(&g, "rwkv", "");
    CHECK_EQ_I64(fx_tokenizer_from_gguf(&t, &fx_mem_libc, &v, &err), FORNAX_EUNSUP);
    CHECK(strstr(err.text, "rwkv"));
    v = vocab_of(&g, "gpt2", "smollm");
    v.bos = (int64_t)g.n;
    CHECK_EQ_I64(fx_tokenizer_from_gguf(&t, &fx_mem_libc, &v, &err), FORNAX_EFORMAT);
    arrays_done(&g);
}

/* ---- Questions about tokens -------------------------------------------------------------------- */

TEST(tokens)
{
    fx_tokenizer *t = load_family("metaspace_normalizer");
    int32_t id = fx_tokenizer_find(t, FX_STR("<0x41>"));

    CHECK(id >= 0 && fx_str_is(fx_tokenizer_bytes(t, id), "A"));
    CHECK(fx_str_is(fx_tokenizer_spelling(t, id), "<0x41>"));
    id = fx_tokenizer_find(t, FX_STR("\xe2\x96\x81"));
    CHECK(id >= 0 && fx_str_is(fx_tokenizer_bytes(t, id), " "));
    CHECK(fx_tokenizer_bytes(t, -1).p == NULL);
    CHECK(fx_tokenizer_bytes(t, (int32_t)fx_tokenizer_size(t)).p == NULL);
    CHECK(fx_tokenizer_spelling(t, INT32_MAX).p == NULL);
    CHECK(!fx_tokenizer_special(t, -1) && !fx_tokenizer_special(t, INT32_MAX));
    CHECK_EQ_I64(fx_tokenizer_find(t, FX_STR("no such token")), -1);
    CHECK_EQ_I64(fx_tokenizer_unk(t), fx_tokenizer_find(t, FX_STR("<unk>")));
    CHECK_EQ_I64(fx_tokenizer_bos(t), -1);
    fx_tokenizer_free(t);
}

TEST(configuration_names_tokens)
{
    static const char json[] = "{\"added_tokens\":[],\"model\":{\"vocab\":{\"a\":0,\"<s>\":1,\"</s>\":2},\"merges\":[]}}";
    static const char config[] = "{\"bos_token\":\"<s>\",\"eos_token\":{\"content\":\"</s>\"},\"pad_token\":null,\"unk_token\":\"?\"}";
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };
    fx_ids ids;

    CHECK_OK(fx_tokenizer_from_json(&t, &fx_mem_libc, fx_str_of(json), fx_str_of(config), &err), err);
    REQUIRE(t);
    CHECK_EQ_I64(fx_tokenizer_bos(t), 1);
    CHECK_EQ_I64(fx_tokenizer_eos(t), 2);
    CHECK_EQ_I64(fx_tokenizer_pad(t), -1);
    CHECK_EQ_I64(fx_tokenizer_unk(t), -1);
    CHECK(fx_tokenizer_special(t, 2));
    fx_ids_init(&ids, &fx_mem_libc);
    CHECK_OK(fx_tokenizer_encode(t, FX_STR("a</s>a"), NULL, 0, FX_ENCODE_SPECIAL, &ids, &err), err);
    CHECK_EQ_I64(ids.n, 3);
    fx_ids_done(&ids);
    fx_tokenizer_free(t);
}

/* ---- Long input ------------------------------------------------------------------------------ */

static void encode_long(const fx_tokenizer *t, const char *unit, size_t bytes)
{
    fx_buf b, back;
    fx_ids ids;
    fx_error err = { 0 };

    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_init(&back, &fx_mem_libc);
    fx_ids_init(&ids, &fx_mem_libc);
    while (b.n < bytes)
        fx_buf_puts(&b, unit);
    CHECK_OK(fx_tokenizer_encode(t, fx_buf_view(&b), NULL, 0, 0, &ids, &err), err);
    fx_tokenizer_decode(t, ids.at, ids.n, false, &back);
    CHECK(fx_str_eq(fx_buf_view(&b), fx_buf_view(&back)) || unit[0] == 'd');
    fx_ids_done(&ids);
    fx_buf_done(&b);
    fx_buf_done(&back);
}

/* Each of these takes hours if any step is quadratic. */
TEST(a_megabyte_of_one_kind)
{
    static const char *const units[] = { "a", "abcdefgh", " ", "\n", " \n", "\t", "9", "!", "\xe4\xb8\xad", "\xff", "<", "<|im_start|",
        "A", "aA", "'s", "\xf0\x9f\x98\x80", "d\xcc\x81\xcc\xa3\xcc\x95", "\xe2\x80\x83" };
    static const char *const names[] = { "bytelevel", "qwen2", "metaspace_normalizer", "gemma" };

    for (size_t f = 0; f < FX_COUNT(names); f++) {
        fx_tokenizer *t = load_family(names[f]);

        for (size_t i = 0; i < FX_COUNT(units); i++)
            if (!(f >= 2 && units[i][0] == '\xff') && units[i][0] != '\xff')
                encode_long(t, units[i], 1u << 18);
        fx_tokenizer_free(t);
    }
}

/* Unbroken runs, as base64 or a line of dashes in a tool's result make them. */
static const struct { const char *unit; size_t n; } runs[] = {
    { "k", 150000 }, { " ", 150000 }, { "-", 150000 }, { "\xe7\x95\x8c", 70000 }, { "~", 900000 }, { "q7", 70000 }, { "Q2", 70000 },
    { "=+/", 50000 }, { "\r\n", 70000 }, { "\xcc\x81", 70000 },
};

static double thread_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double encode_run(const fx_tokenizer *t, const char *unit, size_t n)
{
    double start = thread_seconds();

    encode_long(t, unit, n * strlen(unit));
    return thread_seconds() - start;
}

static void *encode_runs(void *arg)
{
    (void)arg;
    static const char *const names[] = { "bytelevel", "qwen2", "llama3", "gemma" };

    for (size_t f = 0; f < FX_COUNT(names); f++) {
        fx_tokenizer *t = load_family(names[f]);

        for (size_t i = 0; i < FX_COUNT(runs); i++) {
            double one = 1e9, two = 1e9;

            for (int k = 0; k < 3 && !(two < 2.5 * one + 0.01); k++) {      /* once is enough, unless something came between */
                one = fmin(one, encode_run(t, runs[i].unit, runs[i].n / 2));
                two = fmin(two, encode_run(t, runs[i].unit, runs[i].n));
            }
            if (two > 4 * one + 0.05)
                FXTEST_FAIL("%s: %zu of \"%s\" take %.3f s, half of them %.3f s", names[f], runs[i].n, runs[i].unit, two, one);
        }
        fx_tokenizer_free(t);
    }
    return NULL;
}

/* A host may call from a thread with a small stack: nothing recurses by the length of the text, and twice the text takes
 * twice the time. */
TEST(long_runs_on_a_small_stack)
{
    pthread_attr_t attr;
    pthread_t thread;

    REQUIRE(pthread_attr_init(&attr) == 0);
    REQUIRE(pthread_attr_setstacksize(&attr, 512 << 10) == 0);
    REQUIRE(pthread_create(&thread, &attr, encode_runs, NULL) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
}

TEST(marks_in_falling_order)
{
    fx_tokenizer *t = load_family("qwen2");
    fx_buf b;
    fx_ids ids;
    fx_error err = { 0 };

    fx_buf_init(&b, &fx_mem_libc);
    fx_ids_init(&ids, &fx_mem_libc);
    for (int i = 0; i < 100000; i++)
        fx_buf_puts(&b, i < 50000 ? "\xcc\x81" : "\xcc\xa3");   /* class 230, then 220 */
    CHECK_OK(fx_tokenizer_encode(t, fx_buf_view(&b), NULL, 0, 0, &ids, &err), err);
    CHECK(ids.n > 0);
    fx_ids_done(&ids);
    fx_buf_done(&b);
    fx_tokenizer_free(t);
}

/* ---- Broken files ------------------------------------------------------------------------------- */

/* A file is refused with a sentence, or it works. */
static void try_file(fx_str json)
{
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };
    fx_ids ids;
    fx_buf text;

    if (fx_tokenizer_from_json(&t, &fx_mem_libc, json, FX_STR(""), &err) != FORNAX_OK) {
        CHECK(t == NULL && err.text[0]);
        return;
    }
    fx_ids_init(&ids, &fx_mem_libc);
    fx_buf_init(&text, &fx_mem_libc);
    if (fx_tokenizer_encode(t, FX_STR("Hi <|eot_id|> 12\n\xc3\xa9 \xff"), NULL, 0, 3, &ids, &err) == FORNAX_OK)
        fx_tokenizer_decode(t, ids.at, ids.n, true, &text);
    fx_buf_done(&text);
    fx_ids_done(&ids);
    fx_tokenizer_free(t);
}

/* llama3's file with fewer tokens, so that all truncations are quick. */
static char *small_file(void)
{
    json_t *j = read_json(DATA "llama3/tokenizer.json"), *model = json_object_get(j, "model"), *id;
    json_t *merges = json_object_get(model, "merges"), *template;
    const char *key;
    void *next;
    char *text;

    json_object_foreach_safe(json_object_get(model, "vocab"), next, key, id)
        if (json_integer_value(id) >= 270)
            json_object_del(json_object_get(model, "vocab"), key);
    while (json_array_size(merges) > 4)
        json_array_remove(merges, 4);
    template = json_array_get(json_object_get(json_object_get(j, "post_processor"), "processors"), 1);
    id = json_object_get(json_object_get(json_object_get(template, "special_tokens"), "<|begin_of_text|>"), "ids");
    json_array_set_new(id, 0, json_integer(270));
    text = json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return text;
}

TEST(truncated_files)
{
    char *text = small_file();

    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = malloc(n + 1);             /* so that reading past the end is seen */

        memcpy(copy, text, n);
        try_file(fx_str_n(copy, n));
        free(copy);
    }
    free(text);
}

TEST(mutated_files)
{
    uint64_t seed = 42;

    for (int i = 0; i < 600; i++) {
        char *text = small_file();
        size_t n = strlen(text);

        for (int k = 0; k < 1 + i % 4; k++) {
            static const char bytes[] = "{}[]\",:\\0123456789-.eEnulltruefalse \x00\xff\xc3(|)*+?^$";
            size_t at;

            seed = seed * 6364136223846793005u + 1442695040888963407u;
            at = (size_t)(seed >> 33) % n;
            if (seed >> 20 & 1)
                text[at] = bytes[(seed >> 24) % (sizeof(bytes) - 1)];
            else
                memmove(text + at, text + at + 1, n - at);      /* a byte less; the zero moves in */
        }
        try_file(fx_str_n(text, n));
        free(text);
    }
}

TEST(refused_files_say_why)
{
    static const struct { const char *json; fx_status status; const char *says; } rows[] = {
        { "", FORNAX_EFORMAT, "line 1, column 0: " },
        { "[]", FORNAX_EFORMAT, "model" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", FORNAX_EFORMAT, "merges" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", FORNAX_EFORMAT, "id" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2000000000},\"merges\":[]}}", FORNAX_EUNSUP, "sparse" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", FORNAX_EFORMAT, "merge 0" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", FORNAX_EFORMAT, "space" },
        { "{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}", FORNAX_EUNSUP, "dropout" },
        { "{\"model\":{\"type\":\"Morse\",\"vocab\":{\"a\":0},\"merges\":[]}}", FORNAX_EUNSUP, "Morse" },
        { "{\"normalizer\":{\"type\":\"Rot13\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", FORNAX_EUNSUP, "Rot13" },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"Isolated\",\"invert\":false},"
          "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", FORNAX_EFORMAT, "pre_tokenizer" },
        { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?~a)\"},\"behavior\":\"Isolated\",\"invert\":false},"
          "\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", FORNAX_EUNSUP, "absence" },
        { "{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", FORNAX_EUNSUP, "CTC" },
        { "{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",7],\"sep\":[\"a\",0]},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
          FORNAX_EFORMAT, "post_processor" },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fx_tokenizer *t = NULL;
        fx_error err = { 0 };

        CHECK_EQ_I64(fx_tokenizer_from_json(&t, &fx_mem_libc, fx_str_of(rows[i].json), FX_STR(""), &err), rows[i].status);
        if (!strstr(err.text, rows[i].says))
            FXTEST_FAIL("row %zu says \"%s\", expected \"%s\" in it", i, err.text, rows[i].says);
        fx_tokenizer_free(t);
    }
}

/* A pattern that backtracks for ever stops at its limit. */
TEST(runaway_patterns_stop)
{
    static const char json[] = "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a+)+[bd]\"},\"behavior\":\"Isolated\","
        "\"invert\":false},\"model\":{\"vocab\":{\"a\":0,\"c\":1},\"merges\":[]}}";
    fx_tokenizer *t = NULL;
    fx_error err = { 0 };
    fx_ids ids;

    CHECK_OK(fx_tokenizer_from_json(&t, &fx_mem_libc, fx_str_of(json), FX_STR(""), &err), err);
    REQUIRE(t);
    fx_ids_init(&ids, &fx_mem_libc);
    CHECK_EQ_I64(fx_tokenizer_encode(t, FX_STR("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"), NULL, 0, 0, &ids, &err),
                 FORNAX_EFORMAT);
    fx_ids_done(&ids);
    fx_tokenizer_free(t);
}

/* ---- Failing allocations ----------------------------------------------------------------------------- */

typedef struct failing {
    long left;                  /* allocations until one fails */
    long live;                  /* bytes not yet freed */
} failing;

static void *failing_fn(void *user, void *p, size_t old_size, size_t new_size)
{
    failing *f = user;

    if (new_size > old_size && f->left-- <= 0)
        return NULL;
    f->live += (long)new_size - (long)old_size;
    return fx_mem_libc.fn(NULL, p, old_size, new_size);
}

TEST(every_allocation_may_fail)
{
    char *text = small_file();
    bool done = false;

    for (long n = 0; !done && n < 5000; n++) {
        failing f = { n, 0 };
        fx_mem mem = { failing_fn, &f };
        fx_tokenizer *t = NULL;
        fx_error err = { 0 };
        fx_ids ids;
        fx_span span = { 0, 2 };
        fx_status st = fx_tokenizer_from_json(&t, &mem, fx_str_of(text), FX_STR(""), &err);

        fx_ids_init(&ids, &mem);
        if (st == FORNAX_OK)
            st = fx_tokenizer_encode(t, FX_STR("Hi there <|eot_id|> 12\n\xff"), &span, 1, 3, &ids, &err);
        done = st == FORNAX_OK;
        if (!done)
            if (st != FORNAX_ENOMEM)
                FXTEST_FAIL("allocation %ld: %s", n, err.text);
        fx_ids_done(&ids);
        fx_tokenizer_free(t);
        CHECK_EQ_I64(f.live, 0);
    }
    CHECK(done);
    free(text);
}

FXTEST_MAIN()
