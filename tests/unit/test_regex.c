/* test_regex.c - regular expressions: what they accept in each spelling, emptiness, ECMA's subset.
 *
 * Expected values come from the ECMA-262 standard's rules and RFC 8259's grammar of strings. */
#include "fxtest.h"

#include "grammar/regex_int.h"

typedef struct row {
    const char *pattern;
    const char *yes;            /* words of the language, each ended by \1 */
    const char *no;
} row;

static bool accepts(fx_re_pool *p, fx_re r, const char *text, size_t n) { return fx_re_matches(p, r, fx_str_n(text, n)); }

static void check_words(fx_re_pool *p, fx_re r, const char *pattern, const char *words, bool want)
{
    while (*words) {
        size_t n = strcspn(words, "\1");

        if (accepts(p, r, words, n) != want)
            FXTEST_FAIL("/%s/ %s '%.*s'", pattern, want ? "should match" : "shouldn't match", (int)n, words);
        words += n + (words[n] == 1);
    }
}

static void check_rows(const row *rows, size_t n, fx_spell s, bool whole)
{
    for (size_t i = 0; i < n; i++) {
        fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
        fx_error err = { 0 };
        fx_re r;

        if (fx_re_ecma(&r, p, s, fx_str_of(rows[i].pattern), whole, &err) != FORNAX_OK)
            FXTEST_FAIL("/%s/: %s", rows[i].pattern, err.text);
        else {
            check_words(p, r, rows[i].pattern, rows[i].yes, true);
            check_words(p, r, rows[i].pattern, rows[i].no, false);
        }
        fx_re_pool_free(p);
    }
}

/* A lone \1 is the empty text. */
static const row found_anywhere[] = {
    { "abc", "abc\1xabcx\1aabc\1", "ab\1\1acb\1" },
    { "^abc", "abc\1abcx\1", "xabc\1\1" },
    { "abc$", "abc\1xabc\1", "abcx\1" },
    { "^abc$", "abc\1", "xabc\1abcx\1abc\n\1" },
    { "^a|b$", "a\1ax\1xb\1b\1", "xa\1bx\1\1" },
    { "(^a|b)c", "ac\1acx\1xbc\1", "xac\1" },
    { "a(b$|c)", "ab\1xac\1acx\1", "abx\1" },
    { "^$", "\1", "a\1" },
    { "^", "\1a\1", "" },
    { "", "\1a\1", "" },
    { "^(a|^b)*$", "\1a\1b\1ba\1aa\1", "ab\1bb\1" },
    { "^(?:a|b$)+$", "a\1b\1ab\1aab\1", "ba\1\1" },
    { "^a{2,3}$", "aa\1aaa\1", "a\1aaaa\1" },
    { "^a{2,}$", "aa\1aaaaaa\1", "a\1" },
    { "^a{2}$", "aa\1", "a\1aaa\1" },
    { "^a{0}$", "\1", "a\1" },
    { "^a*?b+?c??$", "b\1aabbc\1bc\1", "a\1c\1bcc\1" },
    { "^[^a-c]$", "d\1\xc3\xa9\1\xf0\x9f\x98\x80\1", "a\1b\1dd\1\xc3\1" },
    { "^[]$", "", "\1a\1" },
    { "^[^]$", "a\1\n\1", "\1" },
    { "^[a\\-z]$", "a\1-\1z\1", "b\1" },
    { "^[-a]$", "-\1a\1", "b\1" },
    { "^[a-]$", "-\1a\1", "b\1" },
    { "^[\\w-]+$", "a-b_9\1", "a b\1" },
    { "^\\d+$", "0123456789\1", "\xd9\xa3\1a\1" },
    { "^\\D$", "a\1\xd9\xa3\1", "5\1" },
    { "^\\w$", "_\1z\1Z\0019\1", "-\1\xc3\xa9\1" },
    { "^\\W$", "-\1\xc3\xa9\1", "_\1" },
    { "^\\s$", " \1\t\1\n\1\xc2\xa0\1\xef\xbb\xbf\1\xe3\x80\x80\1", "a\1\xe2\x80\x8b\1" },
    { "^\\S$", "a\1\xe2\x80\x8b\1", " \1" },
    { "^.$", "a\1\t\1\xf0\x9f\x98\x80\1", "\n\1\r\1\xe2\x80\xa8\1" },
    { "^\\x41\\u0042\\u{43}\\cJ\\t$", "ABC\n\t\1", "" },
    { "^\\ud83d\\ude00$", "\xf0\x9f\x98\x80\1", "" },
    { "^\\.\\*\\/\\-\\@$", ".*/-@\1", "" },
    { "^\\p{Lu}\\p{Script=Greek}\\P{L}$", "A\xce\xb1" "1\1", "a\xce\xb1" "1\1A\xce\xb1" "b\1" "Aa1\1" },
    { "^\\p{L}+$", "a\xc3\xa9\xd0\xb6\xe6\xbc\xa2\1", "1\1" },
    { "^\\p{General_Category=Decimal_Number}$", "7\1\xd9\xa3\1", "a\1" },
    { "^\\p{Alphabetic}$", "a\1", "1\1" },
    { "^[\\p{Nd}_]+$", "1_\xd9\xa3\1", "a\1" },
    { "^(?<year>\\d{4})-(?:\\d\\d)$", "2024-01\1", "24-01\1" },
    { "^(?=.*\\d)(?=.*[a-z]).{4,8}$", "abc1\0011abc\1a1234567\1", "abcd\0011234\1a1\1a12345678\1" },
    { "^(?!.*foo).*$", "bar\1fo\1\1", "foo\1xfoox\1" },
    { "^(?!foo$)\\w+$", "foobar\1fo\1", "foo\1" },
    { "^((?!ab).)*$", "\1a\1ba\1bbaa\1", "ab\1xab\1abx\1" },
    { "^(?:(?!-)[a-z-]){1,3}x$", "abx\1", "-bx\1x\1" },
    { "a(?=b)", "ab\1xabx\1", "a\1ac\1" },
    { "a(?!b)", "a\1ac\1aba\1", "ab\1" },
    { "\\bcat\\b", "cat\1a cat.\1", "cats\1bobcat\1" },
    { "\\Bcat", "bobcat\1", "cat\1a cat\1" },
    { "^\\w+\\b.$", "ab.\1", "abc\1" },
    { "^\\b$", "", "\1a\1" },
    { "{a}", "{a}\1", "a\1" },
    { "^a{,2}$", "a{,2}\1", "a\1aa\1" },
    { "^[a-\\d]$", "a\1-\0015\1", "b\1" },
};

static const row found_whole[] = {
    { "a|b", "a\1b\1", "ab\1xa\1\1" },
    { "^a$", "a\1", "aa\1" },
    { "(?=a).b", "ab\1", "bb\1" },
};

/* The inside of a JSON string; backslashes here are C's. */
static const row spelled[] = {
    { "^a$", "a\1\\u0061\1", "\\u0062\1\\U0061\1\\a\1" },
    { "^k$", "\\u006b\1\\u006B\1", "\\u006\1" },
    { "^/$", "/\1\\/\1\\u002f\1\\u002F\1", "\\\\/\1" },
    { "^\"$", "\\\"\1\\u0022\1", "\"\1" },
    { "^\\\\$", "\\\\\1\\u005c\1", "\\\1" },
    { "^\\n$", "\\n\1\\u000a\1\\u000A\1", "\n\1n\1" },
    { "^\\x00$", "\\u0000\1", "" },
    { "^\\x7f$", "\x7f\1\\u007F\1", "" },
    { "^\\u00e9$", "\xc3\xa9\1\\u00e9\1\\u00E9\1", "\\u00e8\1" },
    { "^\\u{1F600}$", "\xf0\x9f\x98\x80\1\\ud83d\\ude00\1\\uD83D\\uDE00\1", "\\ud83d\1\\ude00\\ud83d\1" },
    { "^.{2}$", "ab\1\\u0061\\u0062\1\\ud83d\\ude00x\1\xf0\x9f\x98\x80\\t\1", "\\u0061\1\\n\\n\1abc\1" },
    { "^[^a]$", "b\1\\u0062\1\\t\1", "a\1\\u0061\1\x01\1\\ud800\1\"\1" },
    { "^(?!a)..$", "ba\1\\u0062a\1", "\\u0061a\1aa\1" },
    { "^[\\ud83d\\ude00-\\ud83d\\ude02]$", "\\ud83d\\ude01\1\\uD83D\\uDE02\1", "\\ud83d\\ude03\1\\ud83c\\ude01\1" },
};

TEST(patterns) { check_rows(found_anywhere, FX_COUNT(found_anywhere), FX_SPELL_UTF8, false); }
TEST(whole_patterns) { check_rows(found_whole, FX_COUNT(found_whole), FX_SPELL_UTF8, true); }
TEST(json_spellings) { check_rows(spelled, FX_COUNT(spelled), FX_SPELL_JSON, false); }

TEST(refusals)
{
    static const struct { const char *pattern; fx_status st; const char *text; } rows[] = {
        { "(a)\\1", FORNAX_EUNSUP, "pattern, offset 3: backreferences can't be expressed" },
        { "(?<x>a)\\k<x>", FORNAX_EUNSUP, "pattern, offset 7: backreferences can't be expressed" },
        { "(?<=a)b", FORNAX_EUNSUP, "pattern, offset 0: lookbehind (?<= can't be expressed" },
        { "a(?<!a)b", FORNAX_EUNSUP, "pattern, offset 1: lookbehind (?<! can't be expressed" },
        { "(?:(?=a)b)*", FORNAX_EUNSUP, NULL },
        { "(?:a\\b)*", FORNAX_EUNSUP, NULL },
        { "(?i)a", FORNAX_EUNSUP, NULL },
        { "a++", FORNAX_EUNSUP, NULL },
        { "\\p{Nonsense}", FORNAX_EUNSUP, NULL },
        { "\\p{Script=Nonsense}", FORNAX_EUNSUP, NULL },
        { "(a", FORNAX_EFORMAT, "pattern, offset 0: a group without its )" },
        { "a)", FORNAX_EFORMAT, NULL },
        { "[a", FORNAX_EFORMAT, NULL },
        { "[b-a]", FORNAX_EFORMAT, NULL },
        { "a{3,2}", FORNAX_EFORMAT, NULL },
        { "*a", FORNAX_EFORMAT, NULL },
        { "a\\", FORNAX_EFORMAT, NULL },
        { "\\q", FORNAX_EFORMAT, NULL },
        { "\\xg0", FORNAX_EFORMAT, NULL },
        { "\xff", FORNAX_EFORMAT, NULL },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
        fx_error err = { 0 };
        fx_re r;
        fx_status st = fx_re_ecma(&r, p, FX_SPELL_UTF8, fx_str_of(rows[i].pattern), false, &err);

        if (st != rows[i].st)
            FXTEST_FAIL("/%s/: status %d, expected %d: %s", rows[i].pattern, st, rows[i].st, err.text);
        if (rows[i].text)
            CHECK_STR(err.text, rows[i].text);
        fx_re_pool_free(p);
    }
}

static fx_re parse(fx_re_pool *p, const char *pattern)
{
    fx_error err = { 0 };
    fx_re r = FX_RE_FAIL;

    CHECK_OK(fx_re_ecma(&r, p, FX_SPELL_UTF8, fx_str_of(pattern), true, &err), err);
    return r;
}

TEST(algebra)
{
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
    fx_re a = parse(p, "a"), b = parse(p, "b");

    CHECK(fx_re_alt(p, a, b) == parse(p, "[ab]"));
    CHECK(fx_re_alt(p, a, b) == fx_re_alt(p, b, a));
    CHECK(fx_re_cat(p, fx_re_cat(p, a, b), a) == fx_re_cat(p, a, fx_re_cat(p, b, a)));
    CHECK(fx_re_and(p, a, b) == FX_RE_NONE);
    CHECK(fx_re_alt(p, a, fx_re_not(p, a)) == FX_RE_ALL);
    CHECK(fx_re_and(p, parse(p, "ab"), fx_re_not(p, parse(p, "ab"))) == FX_RE_NONE);
    CHECK(fx_re_not(p, fx_re_not(p, a)) == a);
    CHECK(parse(p, "(a*)*") == parse(p, "a*"));
    CHECK(parse(p, "a*a{2,3}") == parse(p, "a{2,}"));
    CHECK(fx_re_repeat(p, a, 3, 2) == FX_RE_NONE);
    fx_re_pool_free(p);
}

TEST(emptiness)
{
    static const struct { const char *x, *y; bool negate; fx_tristate want; } rows[] = {
        { "a+", "b+", false, FX_YES },
        { "a+", "[ab]{2}", false, FX_NO },
        { "[a-z]{3,8}", ".{9,}", false, FX_YES },
        { "(ab)*", "(a|b){6}", false, FX_NO },
        { "(ab)*", "(a|b){7}", false, FX_YES },
        { "(ab)+", "a(ba)*b", true, FX_YES },
        { "(ab)+", "a(ba)*", true, FX_NO },
        { ".*foo.*", ".*o.*", true, FX_YES },
        { "[0-9]+", "[0-9]*[02468]|[0-9]*[13579]", true, FX_YES },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
        fx_re y = parse(p, rows[i].y);
        fx_re r = fx_re_and(p, parse(p, rows[i].x), rows[i].negate ? fx_re_not(p, y) : y);

        CHECK_EQ_I64(fx_re_is_none(p, r, 10000), rows[i].want);
        CHECK_EQ_I64(fx_re_is_none(p, r, 10000), rows[i].want);             /* remembered */
        fx_re_pool_free(p);
    }
}

TEST(emptiness_has_a_budget)
{
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
    fx_re far = fx_re_and(p, parse(p, "(aa){5000}"), parse(p, "a*"));

    CHECK_EQ_I64(fx_re_is_none(p, far, 100), FX_UNKNOWN);
    CHECK_EQ_I64(fx_re_is_none(p, far, 20000), FX_NO);
    fx_re_pool_free(p);
}

TEST(nothing_is_unrolled)
{
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
    fx_re r = parse(p, ".{0,65536}");
    size_t before = p->nodes.n;

    CHECK(before < 200);
    for (int i = 0; i < 65536; i++)
        r = fx_re_derive(p, r, 'a');
    CHECK(r == FX_RE_EMPTY);
    CHECK(p->nodes.n < before + 65600);
    fx_re_pool_free(p);
}

static bool third_next(const void *user, uint64_t s, unsigned char byte, uint64_t *to)
{
    (void)user;
    *to = (s * 10 + (uint64_t)(byte - '0')) % 3;
    return byte >= '0' && byte <= '9';
}

static bool third_accepts(const void *user, uint64_t s)
{
    (void)user;
    return s == 0;
}

TEST(machines)
{
    static const fx_re_machine third = { third_next, third_accepts, NULL };
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
    fx_re r = fx_re_and(p, fx_re_of_machine(p, &third, NULL, 0), parse(p, "[1-9][0-9]*"));

    CHECK(accepts(p, r, "12", 2));
    CHECK(accepts(p, r, "111111111", 9));
    CHECK(!accepts(p, r, "10", 2));
    CHECK(!accepts(p, r, "", 0));
    CHECK(!accepts(p, r, "012", 3));
    CHECK_EQ_I64(fx_re_is_none(p, r, 100), FX_NO);
    CHECK_EQ_I64(fx_re_is_none(p, fx_re_and(p, r, parse(p, "[147]")), 100), FX_YES);
    fx_re_pool_free(p);
}

TEST(limits)
{
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 300);
    fx_error err = { 0 };
    fx_re r;

    CHECK(fx_re_ecma(&r, p, FX_SPELL_JSON, FX_STR("\\p{L}"), false, &err) == FORNAX_ENOMEM);
    CHECK(fx_re_pool_failed(p));
    CHECK(fx_re_cat(p, FX_RE_EMPTY, FX_RE_EMPTY) == FX_RE_FAIL);
    fx_re_pool_free(p);
}

/* Texts as long as a request's body take no stack. */
TEST(long_texts)
{
    enum { N = 600000 };
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0);
    char *text = malloc(N);
    fx_hash128 print;
    fx_re re;

    memset(text, 'c', N);
    re = fx_re_literal(p, fx_str_n(text, N));
    CHECK(re != FX_RE_FAIL && fx_re_fingerprint(p, re, &print));
    re = fx_re_cat(p, re, fx_re_literal(p, FX_STR("d")));
    CHECK(re != FX_RE_FAIL ? fx_re_is_none(p, re, 10) == FX_NO && fx_re_fingerprint(p, re, &print) : fx_re_pool_failed(p));
    free(text);
    fx_re_pool_free(p);
}

TEST(fingerprints_are_the_same_in_any_pool)
{
    fx_re_pool *p = fx_re_pool_new(&fx_mem_libc, 0), *q = fx_re_pool_new(&fx_mem_libc, 0);
    fx_hash128 a, b, c;

    parse(q, "other|things{1,3}first");
    CHECK(fx_re_fingerprint(p, parse(p, "(foo|ba+r){2,4}|x"), &a));
    CHECK(fx_re_fingerprint(q, parse(q, "(foo|ba+r){2,4}|x"), &b));
    CHECK(fx_re_fingerprint(q, parse(q, "(foo|ba+r){2,5}|x"), &c));
    CHECK(a.lo == b.lo && a.hi == b.hi);
    CHECK(a.lo != c.lo || a.hi != c.hi);
    fx_re_pool_free(p);
    fx_re_pool_free(q);
}

/* An allocator that refuses after 'left' calls that ask for memory. */
static void *limited(void *user, void *p, size_t old_size, size_t new_size)
{
    int *left = user;

    if (new_size > 0 && (*left)-- <= 0)
        return NULL;
    return fx_mem_libc.fn(NULL, p, old_size, new_size);
}

TEST(every_failing_allocation_is_survived)
{
    bool done = false;

    for (int n = 0; n < 400 && !done; n++) {
        int left = n;
        fx_mem mem = { limited, &left };
        fx_re_pool *p = fx_re_pool_new(&mem, 0);
        fx_error err = { 0 };
        fx_re r;

        if (!p)
            continue;
        if (fx_re_ecma(&r, p, FX_SPELL_JSON, FX_STR("^(?!a)(b|\\p{Sc}|^c|[^x-z]){2,9}$"), false, &err) == FORNAX_OK) {
            done = fx_re_matches(p, r, FX_STR("bbcd"));
            CHECK(done || fx_re_pool_failed(p));
        }
        fx_re_pool_free(p);
    }
    CHECK(done);
}

FXTEST_MAIN()
