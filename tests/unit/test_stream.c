/* test_stream.c - text held back for stop strings, cut the same however tokens cut it. */
#include "engine/stream.h"
#include "toy_model.h"

static fx_tokenizer *tok;

/* Letters become tokens of one letter. */
static int32_t letter(char c)
{
    return c == ' ' ? 27 : c - 'a' + 1;
}

typedef struct outcome {
    char text[256];
    int stop;
} outcome;

/* Feeds the ids; what comes out, and which stop matched. */
static outcome feed(const int32_t *ids, int n, const char *const *stops, int n_stops, int min_tokens)
{
    fornax_string strings[8];
    fx_arena arena;
    fx_stops s;
    fx_stream st;
    outcome o = { "", -1 };
    size_t at = 0;

    fx_arena_init(&arena, &fx_mem_libc, 0);
    for (int i = 0; i < n_stops; i++)
        strings[i] = (fornax_string){ stops[i], strlen(stops[i]) };
    CHECK(fx_stops_init(&s, &arena, strings, (size_t)n_stops, NULL) == FORNAX_OK);
    CHECK(fx_stream_init(&st, &fx_mem_libc, &arena, tok, &s, NULL) == FORNAX_OK);
    for (int i = 0; i < n && st.stop < 0; i++) {
        CHECK(fx_stream_push(&st, ids[i], i + 1 >= min_tokens));
        memcpy(o.text + at, st.out.p, st.out.n);
        at += st.out.n;
    }
    CHECK(fx_stream_finish(&st, true));
    memcpy(o.text + at, st.out.p, st.out.n);
    at += st.out.n;
    o.text[at] = 0;
    o.stop = st.stop;
    fx_stream_done(&st);
    fx_arena_done(&arena);
    return o;
}

static outcome feed_text(const char *text, const char *const *stops, int n_stops)
{
    int32_t ids[128];
    int n = 0;

    for (; text[n]; n++)
        ids[n] = letter(text[n]);
    return feed(ids, n, stops, n_stops, 0);
}

TEST(stops_are_found_and_cut)
{
    static const struct {
        const char *text, *stops[3], *want;
        int stop;
    } rows[] = {
        { "hello world", { "wor" }, "hello ", 0 },
        { "hello world", { "xyz" }, "hello world", -1 },
        { "hello world", { "h" }, "", 0 },
        { "hello world", { "d" }, "hello worl", 0 },
        { "aaab", { "aab" }, "a", 0 },
        { "abababac", { "ababac" }, "ab", 0 },
        { "abcd", { "bcd", "bc" }, "a", 1 },           /* the first to be complete */
        { "xab", { "b", "ab" }, "x", 1 },              /* both end here: the longest */
        { "green", { "nothing" }, "green", -1 },       /* a beginning that never went on */
        { "aaaaaaaab", { "aaab" }, "aaaaa", 0 },
        { "one two", { " two", "e t", "zz" }, "on", 1 },
    };

    tok = tok ? tok : toy_tokenizer(&fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        int n = 0;
        outcome o;

        while (n < 3 && rows[i].stops[n])
            n++;
        o = feed_text(rows[i].text, rows[i].stops, n);
        CHECK_STR(o.text, rows[i].want);
        CHECK_EQ_I64(o.stop, rows[i].stop);
    }
}

/* The text "xabcab..." in every way the vocabulary can spell it. */
static void every_split(const char *rest, int32_t *ids, int n, const char *const *stops, int n_stops,
                        const outcome *want, int *count)
{
    if (!*rest) {
        outcome o = feed(ids, n, stops, n_stops, 0);

        ++*count;
        CHECK_STR(o.text, want->text);
        CHECK_EQ_I64(o.stop, want->stop);
        return;
    }
    for (int32_t id = 1; id < (int32_t)FX_COUNT(toy_words); id++) {
        fx_str b = fx_tokenizer_bytes(tok, id);

        if (b.n > 0 && strlen(rest) >= b.n && memcmp(rest, b.p, b.n) == 0) {
            ids[n] = id;
            every_split(rest + b.n, ids, n + 1, stops, n_stops, want, count);
        }
    }
}

TEST(cut_is_the_same_for_every_split)
{
    static const char *const sets[][3] = { { "bcab", "abcd", "b" }, { "caab", "zz", "cabx" }, { "aabc", "abca" },
                                           { "q" } };
    const char *text = "xabcaabcabab";
    int32_t ids[64];

    tok = tok ? tok : toy_tokenizer(&fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(sets); i++) {
        int n = 0, count = 0;
        outcome want;

        while (n < 3 && sets[i][n])
            n++;
        want = feed_text(text, sets[i], n);
        every_split(text, ids, 0, sets[i], n, &want, &count);
        CHECK(count > 10);
    }
}

/* Whole characters only, and an unfinished one at the end is replaced. */
TEST(characters_stay_whole)
{
    const int32_t smile[] = { 1, 28, 29, 30, 31, 2 };
    const char *const stops[] = { "\xF0\x9F\x99\x82" "b" }, *const face[] = { "\xF0\x9F\x99\x82" };
    outcome o;

    tok = tok ? tok : toy_tokenizer(&fx_mem_libc);
    o = feed(smile, 6, NULL, 0, 0);
    CHECK_STR(o.text, "a\xF0\x9F\x99\x82" "b");
    o = feed(smile, 4, NULL, 0, 0);
    CHECK_STR(o.text, "a\xEF\xBF\xBD");
    o = feed(smile, 6, stops, 1, 0);
    CHECK_STR(o.text, "a");
    o = feed(smile, 5, stops, 1, 0);
    CHECK_STR(o.text, "a\xF0\x9F\x99\x82");
    o = feed(smile, 6, face, 1, 0);
    CHECK_STR(o.text, "a");
}

TEST(no_stop_before_min_tokens)
{
    const int32_t ids[] = { 1, 2, 1, 2, 1, 2 };       /* ababab */
    const char *const stops[] = { "ab" };

    tok = tok ? tok : toy_tokenizer(&fx_mem_libc);
    CHECK_STR(feed(ids, 6, stops, 1, 0).text, "");
    CHECK_STR(feed(ids, 6, stops, 1, 3).text, "ab");
    CHECK_STR(feed(ids, 6, stops, 1, 4).text, "abab");   /* "ab" would begin too early */
    CHECK_STR(feed(ids, 6, stops, 1, 7).text, "ababab");
}

TEST(bad_stop_strings)
{
    const fornax_string rows[] = { { "", 0 }, { NULL, 3 }, { "\xff", 1 }, { "\xC3", 1 } };
    fx_arena arena;
    fx_stops s;

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fx_error err = { 0 };

        fx_arena_init(&arena, &fx_mem_libc, 0);
        CHECK(fx_stops_init(&s, &arena, &rows[i], 1, &err) == FORNAX_EARG);
        CHECK_STR(err.param, "stop");
        fx_arena_done(&arena);
    }
}

int main(int argc, char **argv)
{
    int failed = fxtest_run(argc, argv);

    fx_tokenizer_free(tok);
    return failed;
}
