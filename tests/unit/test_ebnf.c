/* test_ebnf.c - GBNF and Lark-like grammars: words and others, left recursion, faults with their place. */
#include "grammar_walk.h"

#include "grammar/ebnf.h"

static int32_t find_special(const void *user, fx_str s)
{
    (void)user;
    return fx_str_is(s, "<special>") ? WALK_SPECIAL : -1;
}

static fx_status build(fx_gram **g, const char *text, fx_error *err)
{
    fx_gram_builder *b = fx_gram_builder_new(&fx_mem_libc, NULL);
    fx_gnode root;
    fx_status st = fx_ebnf_build(&root, b, &fx_mem_libc, fx_str_of(text),
                                 &(fx_ebnf_options){ .name = "g", .find_token = find_special }, NULL, err);

    *g = NULL;
    if (st == FORNAX_OK)
        return fx_gram_finish(g, b, root, err);
    fx_gram_builder_free(b);
    return st;
}

static void check(const char *text, const char *yes, const char *no)
{
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    fx_error err = { 0 };
    fx_gram *g;

    if (build(&g, text, &err) != FORNAX_OK) {
        FXTEST_FAIL("%s\n%s", text, err.text);
    } else {
        walk_words(g, v, yes, true, text);
        walk_words(g, v, no, false, text);
        CHECK(walk_randomly(g, v, 10, 60, 7) >= 0);
    }
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

TEST(gbnf)
{
    check("root ::= \"yes\" | \"no\"", "yes\1no\1", "\1yesno\1");
    check("# a comment\nroot ::= item (\",\" item)* # more\nitem ::= [a-c]{2,3}\n  | \"\\x41\\n\"", "ab\1ab,abc\1A\n,aa\1", "a\1ab,\1abcd\1");
    check("root ::= [^a-y\\n] . [\\]-] \"\\u00e9\"", "z1]\xc3\xa9\1\xc3\xa9\xc3\xa9-\xc3\xa9\1", "a1]\xc3\xa9\1z1a\xc3\xa9\1");
    check("root ::= \"(\" root \")\" | \"a\"", "a\1(a)\1((a))\1", "(a\1()\1");
    check("root ::= x{,2} y{2} z{1,}\nx ::= \"x\"\ny ::= \"y\"\nz ::= \"z\"", "yyz\1xxyyzz\1", "xxxyyz\1yz\1yy\1");
    check("root ::= [] | \"a\"", "a\1", "\1b\1");          /* an empty class */
    check("root ::= a?\na ::= \"foo\"", "\1foo\1", "fo\1");
    check("root ::= \"a\" %json {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}} \"b\"", "a[true]b\1a[]b\1", "a[1]b\1ab\1");
}

TEST(lark)
{
    check("start: \"a\" B+ -> x\nB: \"b\" | /[0-9]{2}/", "ab\1a12b\1", "a\1a1\1");
    check("?start: greeting \"!\"~2..3\n!greeting.2: (\"hi\"i | \"bye\") [\" you\"]\n// done\n", "hi!!\1Hi you!!!\1bye!!\1", "hi!\1BYE!!\1");
    check("start: (A | \"(\" start \")\")*\n%import common.INT -> A\n%import common.WS\n%ignore WS\n", "\1 1 ( 23 )\1(1)(2)\1()\1", "(1\1a\1");
    check("%import common.ESCAPED_STRING\nstart: ESCAPED_STRING", "\"a\\\"b\"\1", "\"a\1a\1");
}

TEST(left_recursion)
{
    check("root ::= root \"+a\" | \"a\"", "a\1a+a\1a+a+a\1", "+a\1a+\1aa\1");
    check("root ::= sum\nsum ::= sum \"+\" product | product\nproduct ::= product \"*\" unit | unit\nunit ::= \"a\" | \"(\" sum \")\"",
          "a\1a+a*a\1(a+a)*a\1((a))\1", "a+\1(a\1a**a\1");
    check("root ::= x \"1\" | \"0\"\nx ::= y \"2\" | \"b\"\ny ::= root \"3\" | x \"4\"", "0\1b1\1" "0321\1" "0321321\1" "b421\1", "1\1b\1" "03\1");
    check("root ::= root root | \"a\"", "a\1aa\1aaaaa\1", "\1b\1");
    check("root ::= root \"a\" |", "\1a\1aaa\1", "b\1");
}

TEST(tokens)
{
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    uint32_t bits[WALK_N / 32 + 1];
    fx_error err = { 0 };
    fx_matcher *m;
    fx_gram *g;

    CHECK_OK(build(&g, "root ::= [a-z]* <special> <[97]>? \"b\"", &err), err);
    REQUIRE(g && v && fx_matcher_new(&m, &fx_mem_libc, g, v, &err) == FORNAX_OK);
    CHECK_OK(fx_matcher_accept_bytes(m, FX_STR("ab"), &err), err);
    walk_check_mask(m, bits);
    CHECK_OK(fx_matcher_accept(m, WALK_SPECIAL, &err), err);
    walk_check_mask(m, bits);
    CHECK_OK(fx_matcher_accept(m, 'b', &err), err);
    CHECK(fx_matcher_must_end(m));
    fx_matcher_free(m);
    fx_gram_unref(g);
    fx_gvocab_unref(v);
}

TEST(faults)
{
    static const struct { const char *text; fx_status st; const char *says; } rows[] = {
        { "", FORNAX_EFORMAT, "g: expected a rule named 'root'" },
        { "root ::= \"a", FORNAX_EFORMAT, "g:1:10: a literal without its closing quote\nroot ::= \"a\n         ^" },
        { "root ::= b", FORNAX_EFORMAT, "g:1:10: this rule isn't defined\nroot ::= b\n         ^" },
        { "root ::= \"a\"\nroot ::= \"b\"", FORNAX_EFORMAT, "g:2:1: this rule is defined already\nroot ::= \"b\"\n^" },
        { "root ::= (\"a\"", FORNAX_EFORMAT, NULL },
        { "root ::= [a", FORNAX_EFORMAT, NULL },
        { "root ::= [b-a]", FORNAX_EFORMAT, NULL },
        { "root ::= \"a\"{3,2}", FORNAX_EFORMAT, NULL },
        { "root ::= \"\\q\"", FORNAX_EFORMAT, NULL },
        { "root ::= <none>", FORNAX_EFORMAT, NULL },
        { "root ::= !<special>", FORNAX_EUNSUP, NULL },
        { "root = \"a\"", FORNAX_EFORMAT, NULL },
        { "start: /a/i", FORNAX_EUNSUP, NULL },
        { "start: /a\\", FORNAX_EFORMAT, NULL },
        { "root ::= \"a\\", FORNAX_EFORMAT, NULL },
        { "root ::= [a\\", FORNAX_EFORMAT, NULL },
        { "start: /(a)\\1/", FORNAX_EUNSUP, NULL },
        { "start: X\nX: \"a\" X |", FORNAX_EFORMAT, NULL },
        { "start: \"a\"\n%declare B", FORNAX_EUNSUP, NULL },
        { "%import python.NAME\nstart: NAME", FORNAX_EUNSUP, NULL },
        { "root ::= %json {\"type\": 5}", FORNAX_EFORMAT, NULL },
        { "start: \"a\"\n%ignore /b/ | %json {\"type\":\"integer\"}", FORNAX_EFORMAT,
          "g:2:8: what is ignored can't be recursive or hold tokens or schemas\n%ignore /b/ | %json {\"type\":\"integer\"}\n       ^" },
        { "root ::= \"a\" root", FORNAX_EFORMAT, "nothing can match: rule 'root' has no end" },
        { "root ::= x root \"a\" | \"b\"\nx ::= \"c\"?", FORNAX_EUNSUP, NULL },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fx_error err = { 0 };
        fx_gram *g;
        fx_status st = build(&g, rows[i].text, &err);

        if (st != rows[i].st)
            FXTEST_FAIL("%s: status %d, expected %d: %s", rows[i].text, st, rows[i].st, err.text);
        if (rows[i].says)
            CHECK_STR(err.text, rows[i].says);
        fx_gram_unref(g);
    }
}

FXTEST_MAIN()
