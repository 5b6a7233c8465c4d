/* test_schema.c - JSON Schema: which texts a schema admits, and which schemas are refused where.
 *
 * The rows' verdicts follow the specification (drafts 4 to 2020-12); every text is also fed token by token
 * against brute force masks (grammar_walk.h). */
#include "grammar_walk.h"

#include "grammar/schema.h"

typedef struct row {
    const char *schema;
    const char *yes, *no;           /* texts, each ended by \1 */
} row;

static fx_schema_options judge = { .any_order = true, .any_number = true };

static fx_status build(fx_gram **g, const char *schema, const fx_schema_options *o, fx_buf *warnings, bool *never,
                       fx_error *err)
{
    fx_gram_builder *b = fx_gram_builder_new(&fx_mem_libc, NULL);
    fx_gnode root;
    fx_status st;

    *g = NULL;
    fx_gram_set_space(b, FX_SPACE_BOUNDED);
    st = fx_schema_build(&root, b, &fx_mem_libc, fx_str_of(schema), o, warnings, err);
    *never = st == FORNAX_OK && root == FX_GNODE_NEVER;
    if (st != FORNAX_OK || *never) {
        fx_gram_builder_free(b);
        return st;
    }
    return fx_gram_finish(g, b, root, err);
}

static void check_rows(const row *rows, size_t n, const fx_schema_options *o)
{
    fx_gvocab *v = walk_vocab(&fx_mem_libc);

    for (size_t i = 0; i < n; i++) {
        fx_error err = { 0 };
        fx_gram *g;
        bool never;

        if (build(&g, rows[i].schema, o, NULL, &never, &err) != FORNAX_OK) {
            FXTEST_FAIL("%s: %s", rows[i].schema, err.text);
            continue;
        }
        if (never) {
            if (rows[i].yes[0])
                FXTEST_FAIL("%s: nothing satisfies it", rows[i].schema);
            continue;
        }
        walk_words(g, v, rows[i].yes, true, rows[i].schema);
        walk_words(g, v, rows[i].no, false, rows[i].schema);
        fx_gram_unref(g);
    }
    fx_gvocab_unref(v);
}
#define CHECK_ROWS(rows, o) check_rows(rows, FX_COUNT(rows), o)

TEST(types)
{
    static const row rows[] = {
        { "true", "1\1\"x\"\1[1, {\"a\":null}]\1{}\1true\1", "\1tru\1[1,]\1{\"a\":1,}\1{a:1}\1{\"a\":1,\"a\":2}\1 1\1" },
        { "{}", "null\1[[]]\1", "nul\1" },
        { "false", "", "1\1" },
        { "{\"type\":\"null\"}", "null\1", "0\1\"\"\1" },
        { "{\"type\":\"boolean\"}", "true\1false\1", "null\1TRUE\1" },
        { "{\"type\":\"string\"}", "\"\"\1\"\\u00e9\\n\"\1\"\xc3\xa9\"\1\"\\ud83d\\ude00\"\1", "\"\t\"\1\"\\ud8\"\1\"\\x\"\1'a'\1" },
        { "{\"type\":\"number\"}", "0\1-0\1" "1.5\1" "1E+5\1" "2.5e-3\1", "01\1+1\1" "1.\1.5\1" "1e\1-\1--1\1NaN\1" },
        { "{\"type\":\"integer\"}", "0\1-12\1" "1.0\1" "1e2\1" "1.50e1\1" "100e-2\1" "0e-5\1", "1.5\1" "1e-1\1" "0.10e0\1" },
        { "{\"type\":[\"string\",\"null\"]}", "\"a\"\1null\1", "1\1[]\1" },
        { "{\"type\":[\"integer\",\"number\"]}", "1.5\1", "\"\"\1" },
        { "{\"type\":\"array\"}", "[]\1[ 1 ,\n\"a\" ]\1", "{}\1[1 2]\1[1]]\1" },
        { "{\"type\":\"object\"}", "{}\1{ \"a\" : 1 }\1", "[]\1{\"a\"}\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(numbers)
{
    static const row rows[] = {
        { "{\"minimum\":0.25,\"maximum\":3.5}", "0.25\1" "3.5\1" "35e-1\1" "0.0350E2\1" "1\1\"x\"\1",
          "0.2499\1" "3.50001\1" "36e-1\1-1\1" "0\1" "1e1\1" },
        { "{\"type\":\"number\",\"exclusiveMinimum\":0.25,\"maximum\":3.5}", "0.2501\1" "1\1" "3.49999\1" "3.500\1",
          "0.25\1" "0.250\1" "0\1" "3.5000001\1" "35\1" },
        { "{\"exclusiveMinimum\":-1e2,\"exclusiveMaximum\":0}", "-99.9\1-1e-9\1", "-100\1-1e2\1" "0\1-0\1" "0.0\1" },
        { "{\"minimum\":0}", "0\1-0.0\1" "1e300\1" "5\1", "-1\1-1e-5\1" },
        { "{\"type\":\"integer\",\"minimum\":10,\"maximum\":12}", "10\1" "11\1" "12\1" "1.2e1\1" "120e-1\1" "0.11e2\1",
          "9\1" "13\1" "10.5\1" "1.15e1\1" "1e2\1" "-10\1" },
        { "{\"type\":\"integer\",\"exclusiveMinimum\":0.5,\"exclusiveMaximum\":2.5}", "1\1" "2\1" "2.0\1", "0\1" "3\1" "1.5\1" },
        { "{\"type\":\"integer\",\"exclusiveMinimum\":-3,\"exclusiveMaximum\":3}", "-2\1" "0\1" "2\1", "-3\1" "3\1" },
        { "{\"type\":\"integer\",\"minimum\":0.2,\"maximum\":0.8}", "", "0\1" "1\1" "0.5\1" },
        { "{\"type\":\"integer\",\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807}",
          "9223372036854775807\1-9223372036854775808\1", "9223372036854775808\1-9223372036854775809\1" "1e19\1" },
        { "{\"multipleOf\":7}", "0\1" "7\1" "700007\1" "0.7e1\1-14\1", "1\1" "48\1" "0.7\1" "700008\1" },
        { "{\"multipleOf\":0.01}", "0.01\1" "19.99\1" "3\1" "1e-2\1" "0.010\1", "0.001\1" "1.005\1" "1e-3\1" },
        { "{\"multipleOf\":2.5,\"minimum\":1,\"maximum\":8}", "2.5\1" "5\1" "7.5\1" "25e-1\1" "5.0\1", "0\1" "10\1" "3\1" "2.55\1" },
        { "{\"multipleOf\":300}", "300\1" "9e2\1" "0\1", "100\1" "30\1" },
        { "{\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6},{\"maximum\":30}]}", "12\1" "24\1-12\1", "4\1" "6\1" "36\1" },
        { "{\"minimum\":5,\"exclusiveMinimum\":true}", "5.1\1", "5\1" },
        { "{\"not\":{\"type\":\"integer\"},\"type\":\"number\"}", "1.5\1" "1e-1\1", "1\1" "1.0\1" },
        { "{\"type\":\"number\",\"not\":{\"minimum\":2,\"maximum\":3}}", "1.9\1" "3.1\1", "2\1" "2.5\1" "3\1" },
        { "{\"enum\":[1,2.50,-3e2,0]}", "1\1" "1.0\1" "10e-1\1" "2.5\1" "25e-1\1-300\1" "0\1-0.0\1" "0e9\1", "2\1" "300\1" "1.01\1-1\1" },
        { "{\"type\":\"integer\",\"not\":{\"enum\":[1,20]}}", "0\1" "2\1" "10\1" "200\1", "1\1" "1.0\1" "2e1\1" "20\1" },
        { "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\"}", "1\1-0\1-12\1", "1.0\1" "1e2\1" },
        { "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\",\"minimum\":-2,\"multipleOf\":3}", "0\1" "3\1-0\1", "3.0\1-3\1" "4\1" },
        { "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":[\"integer\",\"string\"],\"enum\":[1,\"a\"]}", "1\1\"a\"\1", "1.0\1" },
        { "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"multipleOf\":1,\"maximum\":3}", "1.0\1" "3\1", "1.5\1" },
        { "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"enum\":[1,2.5]}", "1.0\1" "2.5\1", "2\1" },
        { "{\"const\":12345678901234567890123}", "12345678901234567890123\1", "12345678901234567890124\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(plain_numbers)
{
    static const fx_schema_options plain = { .any_order = true };
    static const row rows[] = {
        { "{\"type\":\"number\"}", "0\1-1\1" "1.5\1-0.25\1" "100\1", "1e5\1" "1.0\1" "1.50\1-0\1-0.0\1" "0.0\1" },
        { "{\"type\":\"integer\"}", "0\1-10\1" "7\1", "1.0\1-0\1" "1e1\1" },
        { "{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105}", "-12\1-9\1" "0\1" "9\1" "99\1" "105\1", "-13\1" "106\1" "1000\1-0\1" },
        { "{\"minimum\":0.25,\"maximum\":3.5}", "0.25\1" "0.3\1" "1\1" "3\1" "3.5\1" "2.999\1" "0.250001\1", "0.2\1" "3.51\1" "0\1" "4\1" "3.50\1" },
        { "{\"exclusiveMinimum\":0.25,\"exclusiveMaximum\":0.253}", "0.2501\1" "0.2529\1" "0.252\1", "0.25\1" "0.253\1" "0.2\1" "0.26\1" },
        { "{\"exclusiveMinimum\":0,\"maximum\":0.001}", "0.001\1" "0.0001\1", "0\1" "0.002\1" "0.0\1" },
        { "{\"minimum\":-2.5,\"exclusiveMaximum\":0}", "-2.5\1-0.1\1-1\1", "0\1-2.51\1" "1\1-3\1" },
        { "{\"type\":\"integer\",\"minimum\":95}", "95\1" "99\1" "100\1" "12345\1", "94\1" "0\1-95\1" },
        { "{\"multipleOf\":0.25,\"minimum\":0,\"maximum\":1}", "0\1" "0.25\1" "0.5\1" "0.75\1" "1\1", "0.3\1" "1.25\1" "0.50\1" },
        { "{\"multipleOf\":300}", "300\1" "0\1-900\1", "100\1" },
        { "{\"enum\":[1,2.50,-300,0,0.05]}", "1\1" "2.5\1-300\1" "0\1" "0.05\1", "1.0\1" "2.50\1" "30\1-0\1" "3\1-30\1" "0.5\1" },
        { "{\"type\":\"integer\",\"not\":{\"enum\":[1,20]}}", "0\1" "2\1" "10\1" "200\1", "1\1" "20\1" },
    };

    CHECK_ROWS(rows, &plain);
}

TEST(strings)
{
    static const row rows[] = {
        { "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"ab\"\1\"\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\"\1\"\\n\\n\\n\"\1"
          "\"\\ud83d\\ude00a\"\1", "\"a\"\1\"abcd\"\1\"\xf0\x9f\x98\x80\"\1\"\\n\"\1\"\"\1" },
        { "{\"minLength\":2}", "1\1\"ab\"\1", "\"a\"\1" },
        { "{\"pattern\":\"b\"}", "\"abc\"\1\"\\u0062\"\1" "3\1", "\"ac\"\1" },
        { "{\"pattern\":\"^a+$\",\"maxLength\":2}", "\"a\"\1\"aa\"\1", "\"aaa\"\1\"\"\1\"b\"\1" },
        { "{\"pattern\":\"^(?!admin$)[a-z]{3,6}$\"}", "\"admi\"\1\"admins\"\1", "\"admin\"\1\"ab\"\1" },
        { "{\"enum\":[\"in\",\"int\",\"\",\"a\\\"b\",\"\xc3\xa9\",\"\xf0\x9f\x98\x80\",\"x\",\"y\",\"\\u0000\"]}",
          "\"in\"\1\"int\"\1\"\"\1\"a\\\"b\"\1\"a\\u0022b\"\1\"\\u00E9\"\1\"\xc3\xa9\"\1\"\\uD83D\\ude00\"\1\"\\u0069n\"\1\"\\u0000\"\1",
          "\"i\"\1\"ints\"\1\"\\ud83d\"\1\"\\u00e8\"\1\"\xc3\xa8\"\1\"\\n\"\1" },
        { "{\"const\":\"a\",\"minLength\":2}", "", "\"a\"\1" },
        { "{\"enum\":[\"a\",\"bb\",\"ccc\"],\"minLength\":2,\"not\":{\"const\":\"ccc\"}}", "\"bb\"\1", "\"a\"\1\"ccc\"\1" },
        { "{\"type\":\"string\",\"not\":{\"enum\":[\"a\",\"b\"]}}", "\"\"\1\"ab\"\1\"c\"\1", "\"a\"\1\"\\u0061\"\1" "1\1" },
        { "{\"type\":\"string\",\"not\":{\"pattern\":\"^x\"}}", "\"\"\1\"ax\"\1", "\"x\"\1\"\\u0078y\"\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(arrays)
{
    static const row rows[] = {
        { "{\"items\":{\"type\":\"integer\"}}", "[]\1[1,2]\1\"x\"\1", "[\"a\"]\1" },
        { "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}],\"items\":false}",
          "[]\1[1]\1[1,\"a\"]\1", "[\"a\"]\1[1,\"a\",2]\1[1,2]\1" },
        { "{\"items\":[{\"type\":\"integer\"}],\"additionalItems\":{\"type\":\"null\"}}", "[1,null,null]\1[]\1", "[null]\1[1,2]\1" },
        { "{\"type\":\"array\",\"minItems\":1,\"maxItems\":2}", "[1]\1[1,2]\1", "[]\1[1,2,3]\1" },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}", "[\"a\",\"b\"]\1[]\1", "[\"a\",\"a\"]\1[\"a\",\"\\u0061\"]\1" },
        { "{\"type\":\"array\",\"contains\":{\"const\":5}}", "[5]\1[1,5.0,2]\1", "[]\1[1]\1" },
        { "{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"minContains\":2,\"maxContains\":2}", "[\"a\",1,\"b\"]\1", "[\"a\"]\1[\"a\",\"b\",\"c\"]\1" },
        { "{\"type\":\"array\",\"contains\":{\"const\":1},\"minContains\":0}", "[]\1[1]\1[2]\1", "" },
        { "{\"type\":\"array\",\"contains\":true,\"maxContains\":2}", "[1]\1[1,2]\1", "[]\1[1,2,3]\1" },
        { "{\"type\":\"array\",\"prefixItems\":[{\"const\":0}],\"contains\":{\"const\":1}}", "[0,1]\1[0, 2 ,1]\1", "[0]\1[1]\1[0,2]\1" },
        { "{\"type\":\"array\",\"allOf\":[{\"contains\":{\"multipleOf\":2}},{\"contains\":{\"multipleOf\":3}}]}", "[2,3]\1[6]\1[1,9,4]\1", "[2]\1[3,9]\1[]\1" },
        { "{\"not\":{\"items\":{\"type\":\"integer\"}}}", "[\"a\"]\1[1,\"a\",2]\1", "[1]\1[]\1" "3\1" },
        { "{\"type\":\"array\",\"not\":{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"null\"}}}", "[\"a\"]\1[1,null,2]\1", "[1]\1[1,null]\1[]\1" },
        { "{\"const\":[1,{\"a\":null}]}", "[1,{\"a\":null}]\1[1.0, { \"\\u0061\" : null } ]\1", "[1]\1[1,{}]\1[1,{\"a\":null},2]\1" },
        { "{\"not\":{\"const\":[1]},\"type\":\"array\"}", "[]\1[2]\1[1,1]\1", "[1]\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(unique_items_run_out)
{
    static const row rows[] = {
        { "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"boolean\"},\"minItems\":3}", "", "[true,false]\1" },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,\"a\",null]},\"minItems\":3}", "[1,null,\"a\"]\1", "[1,null]\1[1,null,\"a\",1]\1" },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2,\"a\",true]},\"contains\":{\"const\":1},\"minContains\":2}", "", "[1,2]\1" },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2,\"a\"]},\"contains\":{\"type\":\"integer\"},\"minItems\":3}", "[2,\"a\",1]\1", "[1,2]\1[2]\1" },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[[],[1],{\"a\":1}]},\"minItems\":4}", "", "[[],[1]]\1" },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"prefixItems\":[{\"type\":\"boolean\"},{\"type\":\"boolean\"}],\"items\":false}", "[true,false]\1[]\1[true]\1", "[true,true]\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(objects)
{
    static const row rows[] = {
        { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{}\1{\"a\":1}\1{\"b\":\"x\"}\1{\"b\":1,\"a\":2}\1",
          "{\"a\":\"x\"}\1{\"\\u0061\":\"x\"}\1{\"a\":1,\"\\u0061\":2}\1" },
        { "{\"type\":\"object\",\"properties\":{\"a\":{}},\"required\":[\"a\",\"z\"],\"additionalProperties\":{\"type\":\"null\"}}",
          "{\"a\":1,\"z\":null}\1{\"z\":null,\"q\":null,\"a\":0}\1", "{\"a\":1}\1{\"a\":1,\"z\":1}\1" },
        { "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{\"a\":true}}", "{}\1{\"a\":[]}\1", "{\"b\":1}\1{\"\\u0062\":1}\1" },
        { "{\"type\":\"object\",\"properties\":{\"a\":false}}", "{}\1{\"b\":1}\1", "{\"a\":1}\1" },
        { "{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"boolean\"},\"y$\":{\"minimum\":10}},\"additionalProperties\":false}",
          "{\"x-\":true}\1{\"ay\":11}\1{\"x-y\":true}\1", "{\"x-\":1}\1{\"y\":9}\1{\"z\":1}\1{\"x-y\":11}\1" },
        { "{\"type\":\"object\",\"properties\":{\"n\":{\"multipleOf\":5}},\"patternProperties\":{\"^n$\":{\"minimum\":10}}}", "{\"n\":15}\1", "{\"n\":5}\1{\"n\":12}\1" },
        { "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\",\"maxLength\":2}}", "{}\1{\"ab\":1}\1", "{\"A\":1}\1{\"abc\":1}\1" },
        { "{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"a\"]},\"properties\":{\"b\":{}},\"required\":[\"b\"]}", "", "{\"b\":1}\1" },
        { "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}", "{\"a\":1}\1{\"a\":1,\"b\":2}\1", "{}\1{\"a\":1,\"b\":2,\"c\":3}\1" },
        { "{\"enum\":[{\"a\":1,\"b\":[true]},{}]}", "{}\1{\"b\":[true],\"a\":1.0}\1", "{\"a\":1}\1{\"a\":1,\"b\":[true],\"c\":1}\1" },
        { "{\"type\":\"object\",\"dependentRequired\":{\"a\":[\"b\"]}}", "{}\1{\"b\":1}\1{\"b\":1,\"a\":2}\1{\"c\":1}\1", "{\"a\":1}\1" },
        { "{\"dependentSchemas\":{\"a\":{\"properties\":{\"b\":{\"type\":\"null\"}}}}}", "{\"b\":1}\1{\"a\":1}\1{\"a\":1,\"b\":null}\1" "7\1", "{\"a\":1,\"b\":1}\1" },
        { "{\"dependencies\":{\"a\":[\"b\"],\"c\":{\"required\":[\"d\"]}}}", "{\"a\":1,\"b\":1}\1{\"c\":1,\"d\":1}\1", "{\"a\":1}\1{\"c\":1}\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(combinations)
{
    static const row rows[] = {
        { "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":1}}},{\"properties\":{\"a\":{\"maximum\":3}},\"required\":[\"a\"]}]}",
          "{\"a\":2}\1", "{\"a\":4}\1{\"a\":0}\1{}\1" },
        { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"anyOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}",
          "{\"a\":1}\1{\"b\":0}\1{\"a\":1,\"b\":2}\1", "{}\1{\"c\":1}\1{\"a\":\"1\"}\1" },
        { "{\"anyOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "1\1" "2.5\1\"x\"\1", "1.5\1" },
        { "{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "1\1" "2.5\1", "3\1" "1.5\1" },
        { "{\"type\":\"string\",\"oneOf\":[{\"minLength\":2},{\"maxLength\":4}]}", "\"a\"\1\"abcde\"\1", "\"abc\"\1" "1\1" },
        { "{\"oneOf\":[{\"const\":\"a\"},{\"enum\":[\"b\",1,null]},{\"enum\":[\"b\",1.0,true]},{\"const\":null}]}", "\"a\"\1true\1", "\"b\"\1" "1\1null\1false\1" },
        { "{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"type\":\"object\"}", "{\"a\":1}\1{\"b\":1,\"c\":1}\1", "{}\1{\"a\":1,\"b\":1}\1" },
        { "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"a\"},\"n\":{\"type\":\"integer\"}},\"required\":[\"t\",\"n\"]},"
          "{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"b\"}},\"required\":[\"t\"]}]}",
          "{\"t\":\"a\",\"n\":1}\1{\"t\":\"b\"}\1", "{\"t\":\"a\"}\1{\"t\":\"c\",\"n\":1}\1" },
        { "{\"oneOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":false},"
          "{\"properties\":{\"b\":{}},\"additionalProperties\":false}],\"type\":\"object\"}", "{\"a\":1}\1{\"b\":1}\1", "{}\1{\"c\":1}\1{\"a\":1,\"b\":1}\1{\"a\":\"\"}\1" },
        { "{\"not\":{\"type\":[\"string\",\"null\"]}}", "1\1[]\1{}\1true\1", "\"x\"\1null\1" },
        { "{\"not\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}}", "1\1{\"a\":1}\1", "{}\1{\"a\":\"\"}\1" },
        { "{\"not\":{\"required\":[\"a\"]},\"type\":\"object\"}", "{}\1{\"b\":1}\1", "{\"a\":1}\1" },
        { "{\"not\":{\"not\":{\"type\":\"string\"}}}", "\"\"\1", "1\1" },
        { "{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"k\"],\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},"
          "\"then\":{\"required\":[\"n\"]},\"else\":{\"required\":[\"s\"]}}",
          "{\"k\":\"a\",\"n\":1}\1{\"s\":1,\"k\":\"b\"}\1", "{\"k\":\"a\"}\1{\"k\":\"a\",\"s\":1}\1{\"k\":\"b\",\"n\":1}\1" },
        { "{\"then\":false,\"else\":false}", "1\1", "" },
        { "{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"string\"}}}", "{\"a\":1}\1{\"a\":\"\",\"b\":2}\1{\"b\":2,\"a\":\"\"}\1", "{}\1{\"a\":\"\"}\1" },
        { "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"null\"}},\"not\":{\"properties\":{\"a\":{}},\"additionalProperties\":false},\"maxProperties\":2}",
          "{\"b\":1}\1{\"a\":null,\"c\":1}\1{\"c\":1,\"a\":null}\1", "{}\1{\"a\":null}\1{\"a\":1,\"b\":1}\1{\"a\":null,\"b\":1,\"c\":1}\1" },
        { "{\"type\":\"object\",\"not\":{\"propertyNames\":{\"pattern\":\"^x\"}},\"required\":[\"xa\"],\"maxProperties\":2}",
          "{\"xa\":1,\"b\":1}\1{\"b\":1,\"xa\":1}\1", "{\"xa\":1}\1{\"xa\":1,\"xb\":1}\1{\"b\":1,\"c\":1}\1" },
        { "{\"type\":\"object\",\"oneOf\":[{\"properties\":{\"a\":{}}},{\"properties\":{\"b\":{}},\"additionalProperties\":false}]}",
          "{\"a\":1}\1{\"c\":1}\1{\"b\":1,\"c\":2}\1", "{}\1{\"b\":1}\1" },
        { "{\"type\":\"object\",\"allOf\":[{\"not\":{\"propertyNames\":{\"pattern\":\"^a\"}}},{\"not\":{\"propertyNames\":{\"pattern\":\"z$\"}}}],\"properties\":{\"az\":{}},\"maxProperties\":2}",
          "{\"b\":1}\1{\"a\":1,\"bz\":1}\1{\"bz\":1,\"a\":1}\1{\"az\":1,\"b\":1}\1", "{}\1{\"az\":1}\1{\"a\":1}\1{\"bz\":1,\"az\":1}\1{\"az\":1,\"a\":1,\"bz\":1}\1" },
        { "{\"type\":\"object\",\"not\":{\"patternProperties\":{\"^x\":{\"minimum\":5}}}}", "{\"x\":4}\1{\"a\":1,\"xy\":1}\1", "{}\1{\"x\":5}\1{\"y\":1}\1" },
        { "{\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":1}}", "1\1\"a\"\1", "\"\"\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(references)
{
    static const row rows[] = {
        { "{\"$ref\":\"#/$defs/n\",\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"k\":{\"items\":{\"$ref\":\"#/$defs/n\"}}},"
          "\"required\":[\"v\"]}}}", "{\"v\":1}\1{\"v\":1,\"k\":[{\"v\":2,\"k\":[]}]}\1", "{}\1{\"v\":1,\"k\":[{}]}\1" },
        { "{\"properties\":{\"a/b~c%\":{\"type\":\"null\"},\"x\":{\"$ref\":\"#/properties/a~1b~0c%25\"}}}", "{\"x\":null}\1", "{\"x\":1}\1" },
        { "{\"$id\":\"http://x.y/root.json\",\"$ref\":\"sub.json#q\",\"$defs\":{\"s\":{\"$id\":\"sub.json\",\"$defs\":{\"t\":{\"$anchor\":\"q\",\"type\":\"null\"}}}}}",
          "null\1", "1\1" },
        { "{\"$ref\":\"#/$defs/a\",\"maxLength\":2,\"$defs\":{\"a\":{\"type\":\"string\"}}}", "\"ab\"\1", "\"abc\"\1" "1\1" },
        { "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"$ref\":\"#/definitions/a\",\"maxLength\":2,\"definitions\":{\"a\":{\"type\":\"string\"}}}",
          "\"abc\"\1", "1\1" },
        { "{\"$id\":\"http://x/t\",\"$dynamicAnchor\":\"n\",\"type\":\"object\",\"properties\":{\"c\":{\"items\":{\"$dynamicRef\":\"#n\"}}}}", "{\"c\":[{}]}\1", "{\"c\":[1]}\1" },
        { "{\"$id\":\"http://x/s\",\"$ref\":\"list\",\"$defs\":{\"f\":{\"$dynamicAnchor\":\"i\",\"type\":\"string\"},\"list\":{\"$id\":\"list\",\"type\":\"array\","
          "\"items\":{\"$dynamicRef\":\"#i\"},\"$defs\":{\"i\":{\"$dynamicAnchor\":\"i\"}}}}}", "[\"a\"]\1[]\1", "[1]\1" },
        { "{\"properties\":{\"$ref\":{\"type\":\"string\"}}}", "{\"$ref\":\"a\"}\1", "{\"$ref\":1}\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(unevaluated)
{
    static const row rows[] = {
        { "{\"type\":\"object\",\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"b\":true}}],\"unevaluatedProperties\":false}",
          "{}\1{\"a\":1,\"b\":2}\1", "{\"c\":1}\1{\"a\":\"\"}\1" },
        { "{\"type\":\"object\",\"properties\":{\"f\":{\"type\":\"string\"}},\"anyOf\":[{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},"
          "{\"properties\":{\"b\":{\"const\":1}},\"required\":[\"b\"]}],\"unevaluatedProperties\":false}",
          "{\"a\":1}\1{\"b\":1,\"f\":\"\"}\1{\"a\":1,\"b\":1}\1", "{\"a\":1,\"b\":2}\1{\"f\":\"\"}\1{\"a\":1,\"c\":1}\1" },
        { "{\"type\":\"object\",\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},\"then\":{\"properties\":{\"b\":{}}},\"else\":{\"properties\":{\"c\":{}}},"
          "\"unevaluatedProperties\":false}", "{\"a\":1,\"b\":2}\1{\"c\":1}\1{}\1", "{\"a\":1,\"c\":2}\1{\"b\":1}\1{\"a\":2}\1" },
        { "{\"type\":\"object\",\"patternProperties\":{\"^x\":{}},\"unevaluatedProperties\":{\"type\":\"null\"}}", "{\"x\":1,\"y\":null}\1", "{\"y\":1}\1" },
        { "{\"allOf\":[{\"properties\":{\"a\":true}},{\"unevaluatedProperties\":false}],\"type\":\"object\"}", "{}\1", "{\"a\":1}\1" },
        { "{\"type\":\"array\",\"prefixItems\":[{\"const\":1}],\"anyOf\":[{\"prefixItems\":[true,{\"const\":2}]},true],\"unevaluatedItems\":false}",
          "[1]\1[1,2]\1[]\1", "[1,3]\1[1,2,3]\1" },
        { "{\"type\":\"array\",\"contains\":{\"type\":\"string\"},\"unevaluatedItems\":{\"type\":\"null\"}}", "[\"a\"]\1[null,\"a\"]\1", "[\"a\",1]\1[null]\1" },
    };

    CHECK_ROWS(rows, &judge);
}

TEST(formats)
{
    static const row rows[] = {
        { "{\"format\":\"date\"}", "\"2024-02-29\"\1\"2023-12-31\"\1" "1\1", "\"2023-02-29\"\1\"2023-04-31\"\1\"2023-13-01\"\1\"1900-02-29\"\1" },
        { "{\"format\":\"date-time\"}", "\"2000-02-29T23:59:60Z\"\1\"2024-01-01t00:00:00.5+01:30\"\1", "\"2024-01-01\"\1\"2024-01-01T24:00:00Z\"\1\"2024-01-01T00:00:00\"\1" },
        { "{\"format\":\"ipv6\"}", "\"::1\"\1\"1:2:3:4:5:6:7:8\"\1\"::ffff:1.2.3.4\"\1\"1::\"\1\"::\"\1", "\"1:2\"\1\"1::2::3\"\1\"12345::\"\1" },
        { "{\"format\":\"uuid\"}", "\"123e4567-e89b-12d3-a456-426614174000\"\1", "\"123e4567e89b12d3a456426614174000\"\1" },
        { "{\"format\":\"email\"}", "\"a.b@c.de\"\1", "\"a@\"\1\"a..b@c\"\1\"@b\"\1" },
        { "{\"format\":\"uri\"}", "\"http://a/b?c#d\"\1\"urn:x:y\"\1", "\"//a/b\"\1\"a b\"\1\"http://a/\\\\\"\1" },
        { "{\"format\":\"hostname\"}", "\"a-b.c3\"\1\"x\"\1", "\"-a\"\1\"a..b\"\1\"xn--X\"\1\"a.\"\1\"\"\1" },
        { "{\"format\":\"iri\"}", "\"http://\xc3\xa9/?q\"\1", "\"\xc3\xa9\"\1" },
        { "{\"format\":\"ipv4\"}", "\"1.20.255.0\"\1", "\"256.1.1.1\"\1\"01.1.1.1\"\1\"1.1.1\"\1" },
        { "{\"type\":\"integer\",\"format\":\"int32\"}", "2147483647\1-2147483648\1", "2147483648\1" },
        { "{\"format\":\"duration\"}", "\"P1Y2M3DT4H5M6S\"\1\"P2W\"\1\"PT1M\"\1", "\"P\"\1\"PT\"\1\"P1W2D\"\1\"1D\"\1" },
        { "{\"format\":\"json-pointer\"}", "\"\"\1\"/a~0b/c\"\1", "\"a\"\1\"/~2\"\1" },
        { "{\"format\":\"regex\"}", "\"^a(b|c)*[d-]\\\\d+$\"\1\"^[a-zA-Z0-9_]{3,16}$\"\1", "\"(\"\1\"a)\"\1\"[\"\1\"a{3,2}\"\1\"*\"\1" },
    };
    static const row annotated[] = { { "{\"format\":\"date\"}", "\"x\"\1", "" } };
    fx_schema_options o = judge;

    CHECK_ROWS(rows, &judge);
    o.annotate_formats = true;
    CHECK_ROWS(annotated, &o);
}

/* ---- refusals and warnings ------------------------------------------------------------------- */

typedef struct refusal {
    const char *schema;
    fx_status status;
    const char *param;          /* the pointer */
} refusal;

TEST(refused_by_pointer)
{
    static const refusal rows[] = {
        { "{\"type\":\"strin\"}", FORNAX_EFORMAT, "#/type" },
        { "{\"properties\":{\"a\":{\"minLength\":-1}}}", FORNAX_EFORMAT, "#/properties/a/minLength" },
        { "{\"items\":{\"maxItems\":1.5}}", FORNAX_EFORMAT, "#/items/maxItems" },
        { "{\"properties\":{\"a\":{\"pattern\":\"(a)\\\\1\"}}}", FORNAX_EUNSUP, "#/properties/a/pattern" },
        { "{\"properties\":{\"a\":{\"pattern\":\"(\"}}}", FORNAX_EFORMAT, "#/properties/a/pattern" },
        { "{\"patternProperties\":{\"a/b[\":true}}", FORNAX_EFORMAT, "#/patternProperties/a~1b[" },
        { "{\"$ref\":\"#/$defs/x\"}", FORNAX_EFORMAT, "#/$ref" },
        { "{\"properties\":{\"a\":{\"$ref\":\"http://x/y\"}}}", FORNAX_EUNSUP, "#/properties/a/$ref" },
        { "{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},\"$ref\":\"#/$defs/a\"}", FORNAX_EUNSUP, "#/$defs/b/$ref" },
        { "{\"allOf\":[{\"$ref\":\"#\"}]}", FORNAX_EUNSUP, "#" },
        { "{\"anyOf\":[1]}", FORNAX_EFORMAT, "#/anyOf/0" },
        { "{\"anyOf\":[]}", FORNAX_EFORMAT, "#/anyOf" },
        { "{\"required\":[1]}", FORNAX_EFORMAT, "#/required" },
        { "{\"enum\":1}", FORNAX_EFORMAT, "#/enum" },
        { "{\"dependencies\":{\"a\":[1]}}", FORNAX_EFORMAT, "#/dependencies" },
        { "{\"dependentRequired\":{\"a\":true}}", FORNAX_EFORMAT, "#/dependentRequired" },
        { "{\"multipleOf\":0}", FORNAX_EFORMAT, "#/multipleOf" },
        { "{\"multipleOf\":1.23456789012}", FORNAX_EUNSUP, "#/multipleOf" },
        { "{\"minimum\":1e99999}", FORNAX_EUNSUP, "#/minimum" },
        { "{\"not\":{\"uniqueItems\":true}}", FORNAX_EUNSUP, "#/not" },
        { "{\"uniqueItems\":true,\"prefixItems\":[{\"const\":1},{\"const\":1}],\"minItems\":2}", FORNAX_EUNSUP, "#" },
        { "{\"properties\":{\"a\":{\"contains\":{\"const\":1},\"minContains\":90000,\"prefixItems\":[true]}}}", FORNAX_EUNSUP, "#/properties/a" },
        { "3", FORNAX_EFORMAT, "#" },
        { "{\"a\":1,\"a\":2}", FORNAX_EFORMAT, "" },
        { "{\"a\":1", FORNAX_EFORMAT, "" },
        { "", FORNAX_EFORMAT, "" },
        { "{\"a\":\"\\ud800\"}", FORNAX_EFORMAT, "" },
        { "{\"a\":01}", FORNAX_EFORMAT, "" },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        fx_error err = { 0 };
        fx_gram *g;
        bool never;

        if (build(&g, rows[i].schema, &judge, NULL, &never, &err) != rows[i].status)
            FXTEST_FAIL("%s: status %d, expected %d: %s", rows[i].schema, err.status, rows[i].status, err.text);
        else if (strcmp(err.param, rows[i].param) != 0 || !err.text[0])
            FXTEST_FAIL("%s: param '%s', expected '%s'", rows[i].schema, err.param, rows[i].param);
        fx_gram_unref(g);
    }
}

static void check_warnings(const char *schema, const char *expected)
{
    fx_buf w;
    fx_error err = { 0 };
    fx_gram *g;
    bool never;

    fx_buf_init(&w, &fx_mem_libc);
    CHECK_OK(build(&g, schema, &judge, &w, &never, &err), err);
    CHECK_STR(w.p ? w.p : "", expected);
    fx_gram_unref(g);
    fx_buf_done(&w);
}

/* Generated text escapes what JSON makes it escape, and nothing else. */
TEST(plain_characters_come_as_they_are)
{
    static const fx_schema_options generate = { 0 };
    static const row rows[] = {
        { "{\"type\":\"string\"}", "\"a/\xc3\xa9\x7f\"\1\"\\\"\\\\\\n\\u0001\"\1", "\"\\u0061\"\1\"\\/\"\1\"\\u00e9\"\1\"\\ud83d\\ude00\"\1" },
        { "{\"const\":\"a\\n/\"}", "\"a\\n/\"\1", "\"\\u0061\\n/\"\1\"a\\n\\/\"\1" },
        { "{\"pattern\":\"^a+\\n?$\",\"type\":\"string\"}", "\"aa\"\1\"a\\n\"\1", "\"a\\u0061\"\1" },
        { "{\"enum\":[\"q1\",\"q2\",\"q3\",\"q4\",\"q5\",\"q6\",\"q7\",\"q8\",\"q9\",\"q10\",\"q11\",\"q12\",\"q13\",\"q14\",\"q15\",\"q16\","
          "\"q17\",\"q18\",\"q19\",\"q20\",\"q\\\"\"]}", "\"q1\"\1\"q20\"\1\"q\\\"\"\1", "\"\\u00711\"\1\"q\\u0031\"\1" },
        { "{\"properties\":{\"ab\":{\"const\":1},\"c\\\"\":{\"const\":2},\"\\u0001\":{\"const\":3}},\"type\":\"object\"}",
          "{\"ab\":1,\"c\\\"\":2}\1{\"\\u0001\":3}\1{\"a\":7}\1{\"c\":7}\1",
          "{\"\\u0061b\":1}\1{\"\\u0061b\":2}\1{\"a\\u0062\":1}\1{\"\\u0063\\\"\":2}\1{\"\\u0061\":7}\1{\"ab\":2}\1{\"\\u0001\":4}\1" },
    };

    CHECK_ROWS(rows, &generate);
}

TEST(warnings)
{
    fx_schema_options o = judge;
    fx_error err = { 0 };
    fx_gram *g;
    bool never;

    check_warnings("{\"type\":\"string\",\"title\":\"t\"}", "");
    check_warnings("{\"properties\":{\"a\":{\"format\":\"colour\"},\"b\":{\"format\":\"colour\"}}}",
                   "#/properties/a/format: \"colour\": an unknown format, without effect\n");
    check_warnings("{\"maxlength\":3}", "#: \"maxlength\": an unknown keyword, without effect\n");
    check_warnings("{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"const\":3}",
                   "#: \"const\": not a keyword of the dialect in $schema, without effect\n");
    o.strict_formats = true;
    CHECK(build(&g, "{\"format\":\"colour\"}", &o, NULL, &never, &err) == FORNAX_EUNSUP);
    CHECK_STR(err.param, "#/format");
}

TEST(remote_documents)
{
    const fx_str uris[] = { FX_STR("http://x/a.json"), FX_STR("http://x/b.json") };
    const fx_str texts[] = { FX_STR("{\"$defs\":{\"n\":{\"$ref\":\"b.json#/$defs/i\"}}}"),
                             FX_STR("{\"$defs\":{\"i\":{\"type\":\"integer\",\"minimum\":{}}}}") };
    fx_schema_options o = judge;
    fx_error err = { 0 };
    fx_gram *g;
    bool never;

    o.remote_uris = uris;
    o.remote_texts = texts;
    o.n_remotes = 2;
    CHECK(build(&g, "{\"$ref\":\"http://x/a.json#/$defs/n\"}", &o, NULL, &never, &err) == FORNAX_EFORMAT);
    CHECK_STR(err.param, "http://x/b.json#/$defs/i/minimum");
}

/* ---- bounds ------------------------------------------------------------------------------------- */

/* An ending, repeated pieces with a number each, an ending. */
static char *repeated(const char *head, const char *piece, int n, const char *tail)
{
    fx_buf b;

    fx_buf_init(&b, &fx_mem_libc);
    fx_buf_puts(&b, head);
    for (int i = 0; i < n; i++) {
        fx_buf_puts(&b, i ? "," : "");
        for (const char *p = piece; *p; p++) {
            if (*p == '@')
                fx_buf_printf(&b, "%d", i);
            else
                fx_buf_putc(&b, *p);
        }
    }
    fx_buf_puts(&b, tail);
    return b.p;
}

static void check_large(const char *head, const char *piece, int n, const char *tail, fx_status expected)
{
    char *schema = repeated(head, piece, n, tail);
    fx_error err = { 0 };
    fx_gram *g;
    bool never;

    if (build(&g, schema, &judge, NULL, &never, &err) != expected)
        FXTEST_FAIL("%s%s...: status %d, expected %d: %s", head, piece, err.status, expected, err.text);
    fx_gram_unref(g);
    fx_mem_free(&fx_mem_libc, schema, 0);
}

TEST(large_and_hostile)
{
    check_large("{\"enum\":[", "\"value @ x\"", 10000, "]}", FORNAX_OK);
    check_large("{\"enum\":[", "@", 10000, "]}", FORNAX_OK);
    check_large("{\"enum\":[", "{\"id\":@}", 1000, "]}", FORNAX_OK);
    check_large("{\"properties\":{", "\"p@\":{\"type\":\"integer\"}", 5000, "}}", FORNAX_OK);
    check_large("{\"oneOf\":[", "{\"type\":\"object\",\"properties\":{\"t\":{\"const\":\"k@\"}},\"required\":[\"t\"]}", 300, "]}", FORNAX_OK);
    check_large("{\"oneOf\":[", "{\"const\":\"k@\"}", 5000, "]}", FORNAX_OK);
    check_large("{\"anyOf\":[", "{\"const\":@,\"title\":\"x\"}", 5000, "]}", FORNAX_OK);
    check_large("{\"oneOf\":[", "{\"pattern\":\"^@x\",\"type\":\"string\"}", 2000, "]}", FORNAX_EUNSUP);
    check_large("{\"type\":\"object\",\"allOf\":[", "{\"anyOf\":[{\"required\":[\"a@\"]},{\"required\":[\"b@\"]}]}", 40, "]}", FORNAX_EUNSUP);
    check_large("{\"dependentRequired\":{", "\"a@\":[\"b@\"]", 40, "}}", FORNAX_EUNSUP);
    check_large("{\"type\":\"object\",\"unevaluatedProperties\":false,\"anyOf\":[", "{\"properties\":{\"a@\":{}},\"required\":[\"r@\"]}", 30, "]}", FORNAX_EUNSUP);
    check_large("{\"patternProperties\":{", "\"a.*@x\":{\"minimum\":@}", 40, "}}", FORNAX_EUNSUP);
    check_large("{\"$ref\":\"#/$defs/d0\",\"$defs\":{\"d1000\":{},", "\"d@\":{\"minimum\":@,\"allOf\":[{\"$ref\":\"#/$defs/d999\"}]}", 999, ",\"d999\":{\"items\":{\"$ref\":\"#/$defs/d5\"}}}}", FORNAX_OK);
    check_large("{\"type\":\"array\",\"minItems\":1000000000,\"maxItems\":2000000000,\"items\":{\"enum\":[", "@", 2, "]}}", FORNAX_OK);
    check_large("{\"type\":\"string\",\"maxLength\":1000000000,\"title\":\"", "@", 2, "\"}", FORNAX_OK);
}

/* ---- generation is within judgement -------------------------------------------------------------- */

/* A text of the language, byte by byte; 0: it took too long. Checks that there is no dead end. */
static size_t random_text(fx_gram *g, fx_gvocab *v, char *out, size_t most, uint64_t *seed)
{
    fx_error err = { 0 };
    fx_matcher *m;
    size_t n = 0;

    if (fx_matcher_new(&m, &fx_mem_libc, g, v, &err) != FORNAX_OK)
        return 0;
    for (;;) {
        bool gone_on = false;

        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        if (fx_matcher_can_end(m) && (*seed >> 60 || fx_matcher_must_end(m)))
            break;
        for (unsigned k = n > most / 2 ? 0 : 4; k < 260 && n < most && !gone_on; k++) {
            out[n] = k < 4 ? "\"}],"[k] : (char)((*seed >> 33) + k * 37u);     /* later on, what closes comes first */
            gone_on = fx_matcher_accept_bytes(m, fx_str_n(out + n, 1), &err) == FORNAX_OK;
        }
        if (!gone_on) {
            if (n < most && !fx_matcher_can_end(m))
                FXTEST_FAIL("dead end after '%.*s'", (int)n, out);
            n = fx_matcher_can_end(m) ? n : 0;
            break;
        }
        n++;
    }
    fx_matcher_free(m);
    return n;
}

TEST(what_is_generated_is_valid)
{
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":-12,\"maximum\":105},\"b\":{\"enum\":[\"x\",\"yy\",3]}},\"required\":[\"b\"],\"additionalProperties\":false}",
        "{\"type\":\"number\",\"exclusiveMinimum\":0.25,\"maximum\":3.5}",
        "{\"type\":\"number\",\"multipleOf\":0.25,\"minimum\":-1,\"maximum\":20}",
        "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":10}",
        "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"contains\":{\"const\":true},\"minItems\":2,\"maxItems\":4}",
        "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"},{\"const\":\"q\"}],\"items\":{\"maximum\":9,\"minimum\":0,\"type\":\"integer\"},\"contains\":{\"const\":5},\"maxItems\":5}",
        "{\"type\":\"object\",\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}],\"additionalProperties\":{\"type\":\"null\"},\"properties\":{\"a\":{\"type\":\"null\"},\"b\":{\"type\":\"boolean\"}},\"maxProperties\":2}",
        "{\"type\":\"object\",\"not\":{\"additionalProperties\":{\"type\":\"null\"}},\"additionalProperties\":{\"enum\":[null,1]},\"propertyNames\":{\"pattern\":\"^[ab]{1,2}$\"},\"maxProperties\":3}",
        "{\"type\":\"string\",\"pattern\":\"^(?!ab)[a-c]{2,4}$\",\"not\":{\"const\":\"ca\"}}",
        "{\"type\":\"object\",\"properties\":{\"k\":{\"enum\":[\"a\",\"b\"]}},\"required\":[\"k\"],\"additionalProperties\":false,\"if\":{\"properties\":{\"k\":{\"const\":\"a\"}}},\"then\":{\"minProperties\":1}}",
        "{\"type\":\"string\",\"format\":\"date\"}",
        "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[1,2,3,\"a\"]},\"minItems\":3}",
    };
    static const fx_schema_options plain = { 0 };
    fx_gvocab *v = walk_vocab(&fx_mem_libc);
    uint64_t seed = 1;

    for (size_t i = 0; i < FX_COUNT(schemas); i++) {
        fx_gram *g = NULL, *j = NULL;
        fx_error err = { 0 };
        bool never;
        int ended = 0;

        CHECK_OK(build(&g, schemas[i], &plain, NULL, &never, &err), err);
        CHECK_OK(build(&j, schemas[i], &judge, NULL, &never, &err), err);
        for (int k = 0; g && j && k < 60; k++) {
            char text[160];
            size_t n = random_text(g, v, text, sizeof(text), &seed);

            ended += n > 0;
            if (n && !walk_accepts(j, v, fx_str_n(text, n), false))
                FXTEST_FAIL("%s: generated '%.*s'", schemas[i], (int)n, text);
        }
        if (ended < 5)
            FXTEST_FAIL("%s: only %d of 60 walks ended", schemas[i], ended);
        fx_gram_unref(g);
        fx_gram_unref(j);
    }
    fx_gvocab_unref(v);
}

/* ---- memory ---------------------------------------------------------------------------------------- */

typedef struct quota {
    int left;                   /* allocations that still succeed */
    size_t used;
} quota;

static void *rationed(void *user, void *p, size_t old_size, size_t new_size)
{
    quota *q = user;

    if (new_size > old_size && q->left-- <= 0)
        return NULL;
    p = fx_mem_libc.fn(NULL, p, old_size, new_size);
    if (p || !new_size)
        q->used += new_size - old_size;
    return p;
}

TEST(memory_runs_out)
{
    static const char schema[] =
        "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{\"k\":{\"items\":{\"$ref\":\"#/$defs/n\"}},\"e\":{\"enum\":[\"aa\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",1]}},"
        "\"patternProperties\":{\"^x\":{\"multipleOf\":2.5,\"maximum\":40}},\"unevaluatedProperties\":false,\"anyOf\":[{\"properties\":{\"q\":true}},{\"required\":[\"k\"]}],"
        "\"not\":{\"required\":[\"z\"]}}},\"$ref\":\"#/$defs/n\",\"contains\":{\"const\":[1,{\"a\":2}]},\"format\":\"ipv4\",\"zz\":1}";
    int n = 0, step = 1;

    for (bool done = false; !done; n += step) {
        quota q = { n, 0 };
        fx_mem mem = { rationed, &q };
        fx_gram_builder *b = fx_gram_builder_new(&mem, NULL);
        fx_error err = { 0 };
        fx_gnode root;
        fx_buf w;

        fx_buf_init(&w, &mem);
        if (b) {
            fx_status st = fx_schema_build(&root, b, &mem, fx_str_of(schema), &judge, &w, &err);

            done = st == FORNAX_OK;
            if (st != FORNAX_OK && st != FORNAX_ENOMEM)
                FXTEST_FAIL("allocation %d: status %d: %s", n, st, err.text);
        }
        fx_gram_builder_free(b);
        fx_buf_done(&w);
        CHECK_EQ_U64(q.used, 0);
    }
    CHECK(n > 50);
}

FXTEST_MAIN()
