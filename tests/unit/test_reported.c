/* test_reported.c - faults of structured output that people met in other engines, each as a test of this one; those that
 * need a server are in tests/e2e/test_reported.py. tests/data/schemas/reported.jsonl holds schemas from reports and ones
 * made to trip engines, with texts and JSON Schema's verdict on each. */
#include <jansson.h>
#include <stdatomic.h>
#include <time.h>

#include "base/file.h"
#include "fornax.h"
#include "fxtest.h"
#include "grammar_walk.h"

#define SMOL FXTEST_DATA "/tokenizer/smollm2/tokenizer.json"
#define WITH_END FXTEST_DATA "/models/llama3"           /* says which token ends a text */

typedef struct bench {
    fornax_context *ctx;
    fornax_tokenizer *tok;
    fornax_vocabulary *vocab;
    uint32_t *mask;
    size_t mask_bytes;
    _Atomic int64_t bytes;               /* that the library holds */
} bench;

static void *counted(void *user, void *p, size_t old_size, size_t new_size)
{
    bench *b = user;

    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (p || new_size == 0)
        atomic_fetch_add(&b->bytes, (int64_t)new_size - (int64_t)old_size);
    return p;
}

static bool begin(bench *b, const char *tokenizer)
{
    fornax_context_options o = FORNAX_OPTIONS(fornax_context_options);
    fornax_error err = { 0 };

    memset(b, 0, sizeof *b);
    o.alloc = counted;
    o.alloc_user = b;
    CHECK_OK(fornax_context_open(&b->ctx, &o, &err), err);
    CHECK_OK(fornax_tokenizer_open(&b->tok, b->ctx, tokenizer, &err), err);
    CHECK_OK(fornax_vocabulary_open(&b->vocab, b->ctx, b->tok, &err), err);
    b->mask_bytes = fornax_vocabulary_words(b->vocab) * sizeof *b->mask;
    b->mask = malloc(b->mask_bytes);
    return b->vocab && b->mask;
}

static void finish(bench *b)
{
    free(b->mask);
    fornax_vocabulary_close(b->vocab);
    fornax_tokenizer_close(b->tok);
    fornax_context_close(b->ctx);
}

/* As judges take it, any order and spelling, or as it is generated. */
static fornax_grammar *compile(bench *b, const char *schema, bool judge)
{
    fornax_grammar_options o = FORNAX_OPTIONS(fornax_grammar_options);
    fornax_grammar *g = NULL;
    fornax_error err = { 0 };

    o.any_order = o.any_number = judge;
    CHECK_OK(fornax_grammar_open(&g, b->ctx, schema, strlen(schema), &o, &err), err);
    return g;
}

static fornax_matcher *match(bench *b, fornax_grammar *g)
{
    fornax_matcher *m = NULL;
    fornax_error err = { 0 };

    CHECK_OK(fornax_matcher_open(&m, g, b->vocab, &err), err);
    return m;
}

static bool feed(fornax_matcher *m, const char *text)
{
    fornax_error err = { 0 };

    return fornax_matcher_accept_text(m, text, strlen(text), &err) == FORNAX_OK;
}

/* ---- Schemas and texts ---- */

static void check_case(bench *b, const json_t *kase)
{
    char *schema = json_dumps(json_object_get(kase, "schema"), JSON_ENCODE_ANY);
    fornax_grammar *g = compile(b, schema, true);
    const json_t *t;
    size_t i;

    json_array_foreach(json_object_get(kase, "tests"), i, t) {
        fornax_matcher *m = match(b, g);
        bool valid = feed(m, json_string_value(json_object_get(t, "text"))) && fornax_matcher_can_end(m);

        if (valid != json_is_true(json_object_get(t, "valid")))
            FXTEST_FAIL("%s: %s: %s", json_string_value(json_object_get(kase, "id")), valid ? "accepted" : "refused",
                        json_string_value(json_object_get(t, "text")));
        fornax_matcher_close(m);
    }
    fornax_grammar_close(g);
    free(schema);
}

TEST(schemas_and_texts)
{
    fx_buf all;
    int n = 0;
    bench b;

    fx_buf_init(&all, &fx_mem_libc);
    REQUIRE(begin(&b, SMOL) && fx_file_read(&all, FXTEST_DATA "/schemas/reported.jsonl", 1 << 20, NULL) == FORNAX_OK);
    for (const char *line = all.p, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        json_t *kase = json_loadb(line, (size_t)(end - line), 0, NULL);

        REQUIRE(kase);
        check_case(&b, kase);
        json_decref(kase);
    }
    CHECK_EQ_I64(n, 32);
    fx_buf_done(&all);
    finish(&b);
}

/* ---- E07: values beyond ASCII ---- */

/* Escaped in the schema or not: the same masks all along. */
TEST(e07_escaped_values_are_the_values)
{
    static const char *const words[] = { "\"\xc3\x9c" "ber\"", "\"\xf0\x9f\x99\x82\"" };
    fornax_grammar *a, *c;
    fornax_error err = { 0 };
    uint32_t *other;
    bench b;

    REQUIRE(begin(&b, SMOL) && (other = malloc(b.mask_bytes)) != NULL);
    a = compile(&b, "{\"enum\":[\"\\u00dcber\",\"\\ud83d\\ude42\"]}", false);
    c = compile(&b, "{\"enum\":[\"\xc3\x9c" "ber\",\"\xf0\x9f\x99\x82\"]}", false);
    for (size_t i = 0; i < FX_COUNT(words); i++) {
        fornax_matcher *x = match(&b, a), *y = match(&b, c);

        for (const char *p = words[i]; *p; p++) {         /* byte by byte: characters come in pieces */
            CHECK_OK(fornax_matcher_mask(x, b.mask, &err), err);
            CHECK_OK(fornax_matcher_mask(y, other, &err), err);
            CHECK(memcmp(b.mask, other, b.mask_bytes) == 0);
            CHECK(fornax_matcher_accept_text(x, p, 1, &err) == FORNAX_OK && fornax_matcher_accept_text(y, p, 1, &err) == FORNAX_OK);
        }
        CHECK(fornax_matcher_can_end(x) && fornax_matcher_can_end(y));
        fornax_matcher_close(x);
        fornax_matcher_close(y);
    }
    fornax_matcher *m = match(&b, a);

    CHECK(!feed(m, "\"?ber\""));
    fornax_matcher_close(m);
    fornax_grammar_close(a);
    fornax_grammar_close(c);
    free(other);
    finish(&b);
}

/* ---- E09: bounded arrays ---- */

static int64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* 95 of 100 masks take less than a millisecond, at the end as at the beginning. */
TEST(e09_long_arrays_stay_cheap)
{
    fornax_error err = { 0 };
    fornax_grammar *g;
    fornax_matcher *m;
    int masks = 0, slow = 0;
    char item[16];
    bench b;

    REQUIRE(begin(&b, SMOL));
    g = compile(&b, "{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"minItems\":10,\"maxItems\":1000}", false);
    m = match(&b, g);
    for (int i = 0; i < 1000; i++) {
        snprintf(item, sizeof item, "%c%d", i ? ',' : '[', i * 37 % 1000);
        for (const char *p = item; *p; p++) {
            int64_t t = cpu_ns();

            CHECK_OK(fornax_matcher_mask(m, b.mask, &err), err);
            slow += cpu_ns() - t > 1000000;
            masks++;
            CHECK_OK(fornax_matcher_accept_text(m, p, 1, &err), err);
        }
        if (i == 8 || i == 9)
            CHECK(feed(m, "]") == (i == 9) && fornax_matcher_rollback(m, i == 9, &err) == FORNAX_OK);
    }
    CHECK(slow * 20 < masks);
    CHECK(!feed(m, ",1"));
    CHECK(feed(m, "]") && fornax_matcher_must_end(m));
    fornax_matcher_close(m);
    fornax_grammar_close(g);
    finish(&b);
}

/* ---- E11: caches have an end ---- */

/* Grammars that come once each: memory stays below the caps (64 MiB of grammars, 256 MiB of masks), and one that comes
 * again and again is found every time. */
TEST(e11_many_grammars)
{
    int n = getenv("FXTEST_LONG") ? 50000 : 3000, missed = 0;
    fornax_error err = { 0 };
    fornax_grammar *often;
    int64_t before, most = 0;
    bench b;

    REQUIRE(begin(&b, SMOL));
    before = b.bytes;
    often = compile(&b, "{\"type\":\"object\",\"properties\":{\"again\":{\"type\":\"integer\"}}}", false);
    for (int i = 0; i < n; i++) {
        char schema[128];
        fornax_grammar *g, *same;
        fornax_matcher *m;

        snprintf(schema, sizeof schema, "{\"type\":\"object\",\"properties\":{\"name%d\":{\"type\":\"integer\"}},\"required\":[\"name%d\"]}", i, i);
        g = compile(&b, schema, false);
        m = match(&b, g);
        CHECK_OK(fornax_matcher_mask(m, b.mask, &err), err);
        CHECK(feed(m, "{\""));
        CHECK_OK(fornax_matcher_mask(m, b.mask, &err), err);
        fornax_matcher_close(m);
        fornax_grammar_close(g);
        most = FX_MAX(most, b.bytes - before);
        if (i % 50 == 0) {
            same = compile(&b, "{\"type\":\"object\",\"properties\":{\"again\":{\"type\":\"integer\"}}}", false);
            missed += same != often;
            fornax_grammar_close(same);
        }
    }
    CHECK_EQ_I64(missed, 0);
    if (most >> 20 > 330)
        FXTEST_FAIL("%lld MiB more than before", (long long)(most >> 20));
    fornax_grammar_close(often);
    finish(&b);
}

/* ---- vllm-36138: the grammar begins right behind the thought's end ---- */

TEST(vllm_36138_what_follows_a_thought_in_the_same_run_is_held)
{
    static const struct { const char *text; bool taken; } rows[] = {
        { "I think.</think>{\"n\":1}", true }, { "I think.</think>\n\n{\"n\":1}", true }, { "I think.\n</think>```json\n{\"n\":1}", false },
        { "I think.</think>\n\nSure: {\"n\":1}", false }, { "{\"n\":1}", false }, { "```</think>{\"n\":12}", true },
    };
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}},\"required\":[\"n\"],\"additionalProperties\":false}";
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    fornax_error err = { 0 };
    fornax_turn *t = NULL;
    bench b;

    REQUIRE(begin(&b, SMOL));
    o.family = "hermes";
    o.format = schema;
    o.format_n = SIZE_MAX;
    o.prompt = "Prompt<think>\n";
    o.prompt_n = SIZE_MAX;
    CHECK_OK(fornax_turn_open(&t, b.tok, &o, &err), err);
    for (size_t i = 0; i < FX_COUNT(rows) && t; i++) {
        fornax_matcher *m = match(&b, (fornax_grammar *)(uintptr_t)fornax_turn_grammar(t));
        int32_t ids[256];
        size_t n = 0, k = 0;

        CHECK_OK(fornax_tokenize(b.tok, rows[i].text, SIZE_MAX, 0, ids, FX_COUNT(ids), &n, &err), err);
        while (k < n && fornax_matcher_accept(m, ids[k], &err) == FORNAX_OK)
            k++;
        if ((k == n && fornax_matcher_can_end(m)) != rows[i].taken)
            FXTEST_FAIL("%s: %zu of %zu tokens taken", rows[i].text, k, n);
        fornax_matcher_close(m);
    }
    fornax_turn_close(t);
    finish(&b);
}

/* ---- xgr-stop: after the end ---- */

TEST(xgr_stop_after_the_end_token)
{
    fornax_error err = { 0 };
    fornax_grammar *g;
    fornax_matcher *m;
    uint32_t *before;
    int32_t eos = 0;
    size_t any = 0;
    bench b;

    REQUIRE(begin(&b, WITH_END) && (before = malloc(b.mask_bytes)) != NULL);
    while (eos < fornax_tokenizer_size(b.tok) && !fornax_token_is_eos(b.tok, eos))
        eos++;
    g = compile(&b, "{\"type\":\"integer\"}", false);
    m = match(&b, g);
    CHECK(feed(m, "12"));
    CHECK_OK(fornax_matcher_mask(m, before, &err), err);
    CHECK_OK(fornax_matcher_accept(m, eos, &err), err);
    CHECK_OK(fornax_matcher_mask(m, b.mask, &err), err);
    for (size_t i = 0; i < b.mask_bytes / sizeof *b.mask; i++)
        any += b.mask[i] != 0;
    CHECK_EQ_U64(any, 0);
    CHECK(fornax_matcher_accept(m, eos, &err) == FORNAX_EARG && !feed(m, "3"));
    CHECK_OK(fornax_matcher_rollback(m, 1, &err), err);
    CHECK_OK(fornax_matcher_mask(m, b.mask, &err), err);
    CHECK(memcmp(b.mask, before, b.mask_bytes) == 0 && feed(m, "3") && fornax_matcher_can_end(m));
    fornax_matcher_close(m);
    fornax_grammar_close(g);
    free(before);
    finish(&b);
}

FXTEST_MAIN()
