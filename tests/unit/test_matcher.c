/* test_matcher.c - grammars being matched: words and others, every mask against brute force, copies, rollback. */
#include <pthread.h>

#include "grammar_walk.h"

static fx_gram_builder *builder(void) { return fx_gram_builder_new(&fx_mem_libc, NULL); }

static fx_gnode lex(fx_gram_builder *b, const char *pattern)
{
    fx_error err = { 0 };
    fx_re re = FX_RE_FAIL;

    CHECK_OK(fx_re_ecma(&re, fx_gram_regexes(b), FX_SPELL_UTF8, fx_str_of(pattern), true, &err), err);
    return fx_gram_lexeme(b, re);
}

/* A JSON string whose text matches the pattern. */
static fx_gnode str(fx_gram_builder *b, const char *pattern)
{
    fx_re_pool *p = fx_gram_regexes(b);
    fx_re q = fx_re_literal(p, FX_STR("\"")), re = FX_RE_FAIL;
    fx_error err = { 0 };

    CHECK_OK(fx_re_ecma(&re, p, FX_SPELL_JSON, fx_str_of(pattern), true, &err), err);
    return fx_gram_lexeme(b, fx_re_cat(p, q, fx_re_cat(p, re, q)));
}

static fx_re any_name(fx_gram_builder *b) { return fx_re_any_text(fx_gram_regexes(b), FX_SPELL_JSON); }

static fx_gram *finish(fx_gram_builder *b, fx_gnode root)
{
    fx_gram *g = NULL;
    fx_error err = { 0 };

    CHECK_OK(fx_gram_finish(&g, b, root, &err), err);
    return g;
}

static void check(fx_gram_builder *b, fx_gnode root, const char *what, const char *yes, const char *no)
{
    fx_gram *g = finish(b, root);
    fx_gvocab *v = walk_vocab(&fx_mem_libc);

    if (g && v) {
        walk_words(g, v, yes, true, what);
        walk_words(g, v, no, false, what);
        CHECK(walk_randomly(g, v, 20, 60, 1) >= 0);
    }
    fx_gvocab_unref(v);
    fx_gram_unref(g);
}

TEST(lexemes_and_sequences)
{
    fx_gram_builder *b = builder();
    fx_gnode kids[3] = { lex(b, "a+"), lex(b, "b*"), lex(b, "c|ab") };

    check(b, fx_gram_seq(b, kids, 3), "a+ b* (c|ab)", "ac\1aabbc\1aab\1aaab\1abab\1", "a\1ab\1c\1abcc\1");
}

TEST(choices_and_repeats)
{
    fx_gram_builder *b = builder();
    fx_gnode kids[2] = { lex(b, "ab"), lex(b, "a") }, one = fx_gram_alt(b, kids, 2);

    check(b, fx_gram_repeat(b, one, 2, 3), "(ab|a){2,3}", "aa\1aba\1abab\1ababab\1aaa\1", "a\1ab\1aaaa\1b\1\1");
    b = builder();
    check(b, fx_gram_repeat(b, lex(b, "a?"), 3, 5), "(a?){3,5}", "\1a\1aaaaa\1", "aaaaaa\1");
    b = builder();
    check(b, fx_gram_repeat(b, lex(b, "a?"), 0, FX_GRAM_INF), "(a?)*", "\1a\1aaaaaaaa\1", "b\1");
    b = builder();
    check(b, fx_gram_repeat(b, lex(b, "a"), 0, 1000000), "a{0,1000000}", "\1aaaaaaaaaaa\1", "b\1");
}

TEST(recursion)
{
    fx_gram_builder *b = builder();
    fx_gnode e = fx_gram_rule(b, FX_STR("e")), seq[3], alt[2];

    seq[0] = lex(b, "\\(");
    seq[1] = e;
    seq[2] = lex(b, "\\)");
    alt[0] = lex(b, "a");
    alt[1] = fx_gram_seq(b, seq, 3);
    fx_gram_define(b, e, fx_gram_alt(b, alt, 2));
    check(b, e, "nested", "a\1(a)\1(((a)))\1", "(a\1a)\1()\1");
}

TEST(special_tokens)
{
    fx_gram_builder *b = builder();
    fx_gnode kids[3] = { lex(b, "a*"), fx_gram_token(b, WALK_SPECIAL), lex(b, "b") };
    fx_gram *g = finish(b, fx_gram_seq(b, kids, 3));
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    fx_error err = { 0 };
    fx_matcher *m;
    uint32_t bits[WALK_N / 32 + 1];

    REQUIRE(g && v && fx_matcher_new(&m, &fx_mem_libc, g, v, &err) == FORNAX_OK);
    CHECK_OK(fx_matcher_accept(m, 'a', &err), err);
    walk_check_mask(m, bits);
    CHECK(bits[WALK_SPECIAL / 32] >> WALK_SPECIAL % 32 & 1);
    CHECK(fx_matcher_accept_bytes(m, FX_STR("<special>"), &err) == FORNAX_EARG);
    CHECK_OK(fx_matcher_accept(m, WALK_SPECIAL, &err), err);
    CHECK(fx_matcher_accept(m, WALK_EOS, &err) == FORNAX_EARG);
    CHECK_OK(fx_matcher_accept(m, 'b', &err), err);
    CHECK(fx_matcher_must_end(m));
    walk_check_mask(m, bits);
    CHECK_OK(fx_matcher_accept(m, WALK_EOS, &err), err);
    fx_matcher_rollback(m, 3);
    CHECK(!fx_matcher_can_end(m));
    CHECK_OK(fx_matcher_accept(m, WALK_SPECIAL, &err), err);
    fx_matcher_free(m);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

static fx_gnode sample_object(fx_gram_builder *b, fx_gram_object_spec spec)
{
    fx_gram_prop props[] = {
        { FX_STR("a"), lex(b, "1|12|true"), true },
        { FX_STR("ab"), str(b, ".*"), false },
        { FX_STR("\xc3\xa9\""), lex(b, "1"), false },
        { FX_STR("no"), FX_GNODE_NEVER, false },
    };

    spec.props = props;
    spec.n_props = FX_COUNT(props);
    return fx_gram_object(b, &spec);
}

TEST(objects_in_any_order)
{
    fx_gram_builder *b = builder();

    check(b, sample_object(b, (fx_gram_object_spec){ .max = FX_GRAM_INF, .any_order = true }), "any order",
          "{\"a\":1}\1{\"ab\":\"x\",\"a\":12}\1{\"\\u0061\":true}\1{\"\\u0061b\":\"\",\"\xc3\xa9\\\"\":1,\"a\":1}\1"
          "{\"a\":1,\"\\u00e9\\\"\":1}\1{\"a\":1,\"\\u00E9\\u0022\":1}\1",
          "{}\1{\"ab\":\"x\"}\1{\"a\":1,\"a\":1}\1{\"a\":1,\"\\u0061\":1}\1{\"a\":1,}\1{\"a\":1,\"x\":1}\1{\"no\":1,\"a\":1}\1"
          "{ \"a\":1}\1{\"a\":123}\1{\"a\":1\1");
}

TEST(objects_in_declared_order)
{
    fx_gram_builder *b = builder();

    check(b, sample_object(b, (fx_gram_object_spec){ .max = 2 }), "declared order",
          "{\"a\":1}\1{\"a\":12,\"ab\":\"x\"}\1{\"a\":1,\"\xc3\xa9\\\"\":1}\1",
          "{}\1{\"ab\":\"x\",\"a\":12}\1{\"a\":1,\"ab\":\"\",\"\xc3\xa9\\\"\":1}\1");
    b = builder();
    check(b, sample_object(b, (fx_gram_object_spec){ .min = 3, .max = FX_GRAM_INF }), "all needed",
          "{\"a\":1,\"ab\":\"\",\"\xc3\xa9\\\"\":1}\1", "{\"a\":1,\"ab\":\"x\"}\1{\"a\":12,\"\xc3\xa9\\\"\":1}\1");
}

TEST(free_names)
{
    fx_gram_builder *b = builder();
    fx_gram_names others = { any_name(b), lex(b, "0|true"), false };
    fx_gram_object_spec spec = { .others = &others, .n_others = 1, .max = 3, .any_order = true };

    check(b, sample_object(b, spec), "free names",
          "{\"a\":1,\"x\":0}\1{\"x\":true,\"a\":1}\1{\"\":0,\"a\":1,\"aa\":0}\1{\"a\":1,\"foo\":0,\"fo\":0}\1",
          "{\"x\":0}\1{\"a\":1,\"x\":0,\"x\":0}\1{\"x\":0,\"a\":1,\"\\u0078\":0}\1{\"a\":0}\1{\"no\":0,\"a\":1}\1"
          "{\"\\u006eo\":0,\"a\":1}\1{\"x\":0,\"y\":0,\"z\":0,\"a\":1}\1{\"a\":1,\"x\":0,\"y\":0,\"z\":0}\1{\"a\":1,\"x\":1}\1");
}

TEST(names_with_a_pattern_run_out)
{
    fx_gram_builder *b = builder();
    fx_re re;
    fx_error err = { 0 };

    CHECK_OK(fx_re_ecma(&re, fx_gram_regexes(b), FX_SPELL_JSON, FX_STR("a|b"), true, &err), err);
    fx_gram_names others = { re, lex(b, "1"), false };

    check(b, fx_gram_object(b, &(fx_gram_object_spec){ .others = &others, .n_others = 1, .max = FX_GRAM_INF, .any_order = true }),
          "a|b", "{}\1{\"a\":1}\1{\"b\":1,\"a\":1}\1", "{\"a\":1,\1{\"a\":1,\"a\":1}\1{\"b\":1,\"a\":1,\1");
}

TEST(spaces)
{
    fx_gram_builder *b = builder();

    fx_gram_set_space(b, FX_SPACE_BOUNDED);
    check(b, sample_object(b, (fx_gram_object_spec){ .max = FX_GRAM_INF }), "bounded",
          "{\n  \"a\" :\t1 , \"ab\": \"\" \r\n}\1{\"a\":1}\1", " {\"a\":1}\1{\"a\":1} \1");
    b = builder();
    fx_gram_set_space(b, FX_SPACE_NEAT);
    check(b, sample_object(b, (fx_gram_object_spec){ .max = FX_GRAM_INF }), "neat",
          "{\n  \"a\": 1,\r\n\t\"ab\":\"\"\n}\1{ \"a\":1 }\1{\"a\":1, \"ab\":\"\"}\1{\n                                \"a\":1}\1",
          "{\"a\" :1}\1{\"a\":1 ,\"ab\":\"\"}\1{  \"a\":1}\1{\n\n\"a\":1}\1{\"a\":  1}\1{\"a\":\n1}\1{\n \t\"a\":1}\1"
          "{\n                                 \"a\":1}\1{ \n\"a\":1}\1");
    b = builder();
    fx_gram_set_separators(b, FX_STR(", "), FX_STR(": "));
    check(b, sample_object(b, (fx_gram_object_spec){ .max = FX_GRAM_INF }), "separators",
          "{\"a\": 1, \"ab\": \"\"}\1", "{\"a\":1}\1{\"a\": 1,\"ab\": \"\"}\1");
}

TEST(space_is_bounded)
{
    fx_gram_builder *b = builder();
    fx_gram *g;
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    fx_matcher *m;
    fx_error err = { 0 };

    fx_gram_set_space(b, FX_SPACE_BOUNDED);
    g = finish(b, sample_object(b, (fx_gram_object_spec){ .max = FX_GRAM_INF }));
    REQUIRE(g && v && fx_matcher_new(&m, &fx_mem_libc, g, v, &err) == FORNAX_OK);
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("{"), &err), err);
    for (int i = 0; i < 64; i++)
        CHECK_OK(fx_matcher_accept_bytes(m, FX_STR(" "), &err), err);
    CHECK(fx_matcher_accept_bytes(m, FX_STR(" "), &err) == FORNAX_EARG);
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("\""), &err), err);
    fx_matcher_free(m);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

TEST(arrays)
{
    fx_gram_builder *b = builder();
    fx_gnode prefix[2] = { lex(b, "1"), lex(b, "true") };

    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .prefix = prefix, .n_prefix = 2, .rest = lex(b, "a"), .max = 4 }), "prefix",
          "[]\1[1]\1[1,true]\1[1,true,a,a]\1", "[true]\1[1,1]\1[1,true,a,a,a]\1[1,]\1[,]\1");
    b = builder();
    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .rest = lex(b, "1|12"), .min = 2, .max = FX_GRAM_INF }), "min",
          "[1,1]\1[12,1,1,1]\1", "[]\1[1]\1");
    b = builder();
    prefix[0] = lex(b, "1");
    prefix[1] = FX_GNODE_NEVER;
    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .prefix = prefix, .n_prefix = 2, .rest = lex(b, "1"), .max = FX_GRAM_INF }),
          "never", "[]\1[1]\1", "[1,1]\1");
}

TEST(contains)
{
    fx_gram_builder *b = builder();
    fx_gram_contains c = { lex(b, "a"), lex(b, "b"), 2, 3 };

    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .contains = &c, .max = 4 }), "contains 2..3",
          "[a,a]\1[b,a,a]\1[a,b,a,a]\1[a,a,b,b]\1", "[]\1[a]\1[a,b]\1[a,a,a,a]\1[b,b,b,a]\1[b,b,b\1");
}

TEST(unique_items)
{
    fx_gram_builder *b = builder();

    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .rest = lex(b, "1|2|12|1\\.0"), .max = FX_GRAM_INF, .unique = true }), "numbers",
          "[]\1[1]\1[1,2]\1[12,1,2]\1[1.0,2]\1", "[1,1]\1[1,1.0]\1[1,2,1]\1[1,2,12,\1");
    b = builder();
    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .rest = lex(b, "1e-?[0-9]+|-?[0-9]+"), .max = FX_GRAM_INF, .unique = true }),
          "exponents", "[1e1,1]\1[0,-1]\1", "[1e1,10]\1[1e0,1]\1[0,-0]\1[100,1e2]\1");
    b = builder();
    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .rest = lex(b, "true|false"), .max = FX_GRAM_INF, .unique = true }), "words",
          "[true,false]\1[false]\1", "[true,true]\1[true,false,\1");
    b = builder();
    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .rest = str(b, ".*"), .max = FX_GRAM_INF, .unique = true }), "strings",
          "[\"a\",\"b\"]\1[\"\",\"a\",\"aa\"]\1", "[\"a\",\"a\"]\1[\"a\",\"\\u0061\"]\1[\"\",\"\"]\1[\"b\",\"a\",\"b\"]\1");
    b = builder();
    fx_gnode inner = fx_gram_array(b, &(fx_gram_array_spec){ .rest = lex(b, "[12]+"), .max = FX_GRAM_INF });

    check(b, fx_gram_array(b, &(fx_gram_array_spec){ .rest = inner, .max = FX_GRAM_INF, .unique = true }), "arrays",
          "[[1],[2]]\1[[],[1,2],[2,1]]\1", "[[1],[1]]\1[[],[]]\1[[1,2],[2],[1,2]]\1");
}

TEST(overlapping_objects)
{
    fx_gram_builder *b = builder();
    fx_gnode r = fx_gram_rule(b, FX_STR("r")), alt[3];
    fx_gram_prop x[] = { { FX_STR("a"), r, false } };
    fx_gram_prop y[] = { { FX_STR("a"), r, false }, { FX_STR("b"), lex(b, "1"), false } };

    alt[0] = fx_gram_object(b, &(fx_gram_object_spec){ .props = x, .n_props = 1, .max = FX_GRAM_INF });
    alt[1] = fx_gram_object(b, &(fx_gram_object_spec){ .props = y, .n_props = 2, .max = FX_GRAM_INF });
    alt[2] = lex(b, "1");
    fx_gram_define(b, r, fx_gram_alt(b, alt, 3));
    fx_gram *g = finish(b, r);
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    fx_matcher *m;
    fx_error err = { 0 };

    REQUIRE(g && v && fx_matcher_new(&m, &fx_mem_libc, g, v, &err) == FORNAX_OK);
    for (int i = 0; i < 60; i++)            /* 2^60 stacks, were they not joined */
        CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("{\"a\":"), &err), err);
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("1"), &err), err);
    for (int i = 0; i < 30; i++)
        CHECK_OK(fx_matcher_accept_bytes(m, FX_STR(",\"b\":1}}"), &err), err);
    CHECK(fx_matcher_must_end(m));
    fx_matcher_free(m);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

TEST(nothing_matches)
{
    fx_gram_builder *b = builder();
    fx_gnode r = fx_gram_rule(b, FX_STR("loop")), kids[2] = { lex(b, "a"), r };
    fx_gram *g;
    fx_error err = { 0 };

    fx_gram_define(b, r, fx_gram_seq(b, kids, 2));
    CHECK(fx_gram_finish(&g, b, r, &err) == FORNAX_EFORMAT);
    CHECK_STR(err.text, "nothing can match: rule 'loop' has no end");
    b = builder();
    CHECK(fx_gram_finish(&g, b, fx_gram_rule(b, FX_STR("undone")), &err) == FORNAX_EFORMAT);
    CHECK_STR(err.text, "rule 'undone' is used but not defined");
    b = builder();
    CHECK(fx_gram_finish(&g, b, fx_gram_lexeme(b, fx_re_and(fx_gram_regexes(b), fx_re_literal(fx_gram_regexes(b), FX_STR("ab")),
                                                            fx_re_literal(fx_gram_regexes(b), FX_STR("ac")))), &err) == FORNAX_EFORMAT);
}

TEST(dead_branches_are_cut)
{
    fx_gram_builder *b = builder();
    fx_gnode r = fx_gram_rule(b, FX_STR("loop")), kids[2] = { lex(b, "a"), r }, alt[2];
    fx_gram_prop props[] = { { FX_STR("a"), FX_GNODE_NEVER, false }, { FX_STR("b"), lex(b, "1"), false } };

    fx_gram_define(b, r, fx_gram_seq(b, kids, 2));
    props[0].value = r;
    alt[0] = r;
    alt[1] = fx_gram_object(b, &(fx_gram_object_spec){ .props = props, .n_props = 2, .max = FX_GRAM_INF, .any_order = true });
    check(b, fx_gram_alt(b, alt, 2), "cut", "{}\1{\"b\":1}\1", "a\1{\"a\1");
}

TEST(forced_text)
{
    fx_gram_builder *b = builder();
    fx_gram_prop props[] = { { FX_STR("foo"), lex(b, "true|tru"), true }, { FX_STR("bar"), lex(b, "[0-9]"), true } };
    fx_gram *g = finish(b, fx_gram_object(b, &(fx_gram_object_spec){ .props = props, .n_props = 2, .max = FX_GRAM_INF }));
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    fx_matcher *m, *c;
    fx_error err = { 0 };
    fx_buf out;

    fx_buf_init(&out, &fx_mem_libc);
    REQUIRE(g && v && fx_matcher_new(&m, &fx_mem_libc, g, v, &err) == FORNAX_OK);
    CHECK_OK(fx_matcher_forced(m, 100, &out, &err), err);
    CHECK_STR(out.p, "{\"");                    /* then f, or an escape of it */
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("{\"foo"), &err), err);
    fx_buf_clear(&out);
    CHECK_OK(fx_matcher_forced(m, 100, &out, &err), err);
    CHECK_STR(out.p, "\":tru");
    fx_buf_clear(&out);
    CHECK_OK(fx_matcher_forced(m, 2, &out, &err), err);
    CHECK_STR(out.p, "\":");
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("\":"), &err), err);
    CHECK_OK(fx_matcher_copy(&c, m, &err), err);
    CHECK_OK(fx_matcher_accept_bytes(c, FX_STR("true,\"bar\":5"), &err), err);
    CHECK(fx_matcher_accept_bytes(m, FX_STR("5"), &err) == FORNAX_EARG);
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("tru"), &err), err);
    fx_matcher_rollback(m, 1);
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("true"), &err), err);
    CHECK_OK(fx_matcher_accept(c, '}', &err), err);
    CHECK(fx_matcher_must_end(c));
    fx_buf_done(&out);
    fx_matcher_free(m);
    fx_matcher_free(c);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

TEST(printing)
{
    fx_gram_builder *b = builder();
    fx_gram_prop props[] = { { FX_STR("a"), lex(b, "1"), true } };
    fx_gram *g = finish(b, fx_gram_object(b, &(fx_gram_object_spec){ .props = props, .n_props = 1, .max = 3 }));
    fx_buf out;

    fx_buf_init(&out, &fx_mem_libc);
    fx_gram_print(&out, g);
    CHECK(strstr(out.p, "%3 = object 0..1 \"a\"!=%2\nroot %3\n") != NULL);
    CHECK(fx_gram_bytes(g) > 0);
    fx_buf_done(&out);
    fx_gram_unref(g);
}

TEST(states_are_made_anew_when_they_are_many)
{
    fx_gram_limits limits = { .max_bytes = 1 << 20 };
    fx_gram_builder *b = fx_gram_builder_new(&fx_mem_libc, &limits);
    fx_gram_names others = { any_name(b), lex(b, "1"), false };
    fx_gram *g = finish(b, fx_gram_object(b, &(fx_gram_object_spec){ .others = &others, .n_others = 1, .max = FX_GRAM_INF }));
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    int refused = 0;

    REQUIRE(g && v);
    for (int k = 0; k < 40; k++) {              /* names never seen before, and in between more than one may hold */
        fx_matcher *m;
        fx_error err = { 0 };
        char name[32];

        CHECK_OK(fx_matcher_new(&m, &fx_mem_libc, g, v, &err), err);
        CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("{\"first\":1"), &err), err);
        for (int i = 0; i < (k % 8 == 7 ? 2000 : 20); i++) {
            snprintf(name, sizeof name, ",\"n%dx%d\":1", k, i);
            if (fx_matcher_accept_bytes(m, fx_str_of(name), &err) != FORNAX_OK) {
                CHECK_EQ_I64(err.status, FORNAX_ENOMEM);
                refused++;
                break;
            }
        }
        fx_matcher_free(m);
        CHECK(fx_gram_bytes(g) < 8 << 20);
    }
    CHECK(refused > 0 && refused <= 5);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

typedef struct shared {
    fx_gram *g;
    fx_gvocab *v;
    int bad;
} shared;

static void *match_many(void *user)
{
    shared *s = user;

    for (int k = 0; k < 30; k++)
        s->bad += !walk_accepts(s->g, s->v, FX_STR("{\"a\":1,\"x\":0,\"ab\":\"foo\",\"y\":true}"), k % 10 == 0);
    return NULL;
}

TEST(threads_share_a_grammar)
{
    fx_gram_builder *b = builder();
    fx_gram_names others = { any_name(b), lex(b, "0|true"), false };
    fx_gram *g = finish(b, sample_object(b, (fx_gram_object_spec){ .others = &others, .n_others = 1, .max = 9, .any_order = true }));
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    shared s[4];
    pthread_t t[4];

    REQUIRE(g && v);
    for (int i = 0; i < 4; i++) {
        s[i] = (shared){ g, v, 0 };
        REQUIRE(pthread_create(&t[i], NULL, match_many, &s[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        CHECK_EQ_I64(s[i].bad, 0);
    }
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

/* An allocator that refuses after 'left' calls that ask for memory. */
static void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    int *left = user;

    if (new_size > 0 && (*left)-- <= 0)
        return NULL;
    return fx_mem_libc.fn(NULL, p, old_size, new_size);
}

/* Everything from the builder to masks; true: it went through. */
static bool whole_story(const fx_mem *mem)
{
    fx_gram_builder *b = fx_gram_builder_new(mem, NULL);
    uint32_t bits[WALK_N / 32 + 1];
    fx_gvocab *v = NULL;
    fx_matcher *m = NULL, *c = NULL;
    fx_gram *g = NULL;
    fx_error err = { 0 };
    bool ok = false;

    if (!b)
        return false;
    fx_re_pool *p = fx_gram_regexes(b);
    fx_re quote = fx_re_literal(p, FX_STR("\"")), text = fx_re_any_text(p, FX_SPELL_JSON);
    fx_gnode string = fx_gram_lexeme(b, fx_re_cat(p, quote, fx_re_cat(p, text, quote)));
    fx_gram_names others = { text, string, false };
    fx_gram_prop props[] = { { FX_STR("a"), fx_gram_array(b, &(fx_gram_array_spec){ .rest = string, .max = 5, .unique = true }), true } };
    fx_gnode root = fx_gram_object(b, &(fx_gram_object_spec){ .props = props, .n_props = 1, .others = &others, .n_others = 1,
                                                              .max = FX_GRAM_INF, .any_order = true });

    if (fx_gram_finish(&g, b, root, &err) == FORNAX_OK && (v = walk_vocab(mem)) != NULL &&
        fx_matcher_new(&m, mem, g, v, &err) == FORNAX_OK) {
        static const char *const steps[] = { "{\"foo", "\":\"a\",", "\"a\":[\"x\",\"", "y\",", "\"z\"]", "}" };

        ok = true;
        for (size_t i = 0; i < FX_COUNT(steps) && ok; i++)
            ok = fx_matcher_mask(m, bits, &err) == FORNAX_OK && fx_matcher_accept_bytes(m, fx_str_of(steps[i]), &err) == FORNAX_OK;
        ok = ok && fx_matcher_copy(&c, m, &err) == FORNAX_OK && fx_matcher_can_end(c);
        if (!ok)
            CHECK_EQ_I64(err.status, FORNAX_ENOMEM);
    }
    fx_matcher_free(m);
    fx_matcher_free(c);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
    return ok;
}

TEST(every_failing_allocation_is_survived)
{
    bool done = false;

    for (int n = 0; n < 4000 && !done; n++) {
        int left = n;
        fx_mem mem = { limited, &left };

        done = whole_story(&mem);
    }
    CHECK(done);
}

FXTEST_MAIN()
