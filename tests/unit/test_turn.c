/* test_turn.c - what a reply may be: for each family, replies that the grammar takes and replies that it refuses; what it
 * takes is taken apart into the same calls. */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/codec.h"
#include "base/file.h"
#include "fornax.h"
#include "fxtest.h"

#define SMOL FXTEST_DATA "/tokenizer/smollm2/tokenizer.json"

/* How a family writes a call of $N with the argument a = "$V". */
typedef struct family {
    const char *name, *section, *call, *between, *end;
    const char *text;        /* before what is said */
    bool several, mixed;     /* calls follow each other; calls follow text */
} family;

#define JSON_CALL "{\"name\": \"$N\", \"arguments\": {\"a\":\"$V\"}}"
static const family families[] = {
    { "hermes", "", "<tool_call>\n" JSON_CALL "\n</tool_call>", "\n", "", "", true, true },
    { "json", "", "<tool_call>\n" JSON_CALL "\n</tool_call>", "\n", "", "", true, true },
    { "llama3", "", "{\"name\": \"$N\", \"parameters\": {\"a\":\"$V\"}}", "; ", "", "", true, false },
    { "mistral", "[TOOL_CALLS][", JSON_CALL, ", ", "]", "", true, true },
    { "mistral-args", "", "[TOOL_CALLS]$N[ARGS]{\"a\":\"$V\"}", "", "", "", true, true },
    { "deepseek", "<｜tool▁calls▁begin｜>",
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>$N\n```json\n{\"a\":\"$V\"}\n```<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>", "", true, true },
    { "deepseek-v3.1", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>$N<｜tool▁sep｜>{\"a\":\"$V\"}<｜tool▁call▁end｜>", "",
      "<｜tool▁calls▁end｜>", "", true, true },
    { "kimi", "<|tool_calls_section_begin|>",
      "<|tool_call_begin|>functions.$N:0<|tool_call_argument_begin|>{\"a\":\"$V\"}<|tool_call_end|>", "", "<|tool_calls_section_end|>", "",
      true, true },
    { "glm", "", "<tool_call>$N\n<arg_key>a</arg_key>\n<arg_value>$V</arg_value>\n</tool_call>", "", "", "", true, true },
    { "glm-compact", "", "<tool_call>$N<arg_key>a</arg_key><arg_value>$V</arg_value></tool_call>", "", "", "", true, true },
    { "qwen3-coder", "", "<tool_call>\n<function=$N>\n<parameter=a>\n$V\n</parameter>\n</function>\n</tool_call>", "\n", "", "", true, true },
    { "minimax", "<minimax:tool_call>\n", "<invoke name=\"$N\">\n<parameter name=\"a\">$V</parameter>\n</invoke>", "\n",
      "\n</minimax:tool_call>", "", true, true },
    { "lfm2", "<|tool_call_start|>[", "$N(a=\"$V\")", ", ", "]<|tool_call_end|>", "", true, true },
    { "llama4", "[", "$N(a=\"$V\")", ", ", "]", "", true, false },
    { "pythonic", "[", "$N(a=\"$V\")", ", ", "]", "", true, false },
    { "gpt-oss", "", "<|channel|>commentary to=functions.$N <|constrain|>json<|message|>{\"a\":\"$V\"}", "", "",
      "<|channel|>final<|message|>", false, false },
};

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"lookup\",\"parameters\":{\"type\":\"object\",\"additionalProperties\":false,"
    "\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\",\"enum\":[\"x\",\"say \\\"y\\\"\"]}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"note\",\"parameters\":{\"type\":\"object\",\"additionalProperties\":false,"
    "\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"listing\",\"parameters\":{\"type\":\"object\",\"additionalProperties\":false,"
    "\"properties\":{\"a\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}}}}]";
static const char named[] = "{\"type\":\"function\",\"function\":{\"name\":\"lookup\"}}";
static const char some[] = "{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":["
                           "{\"type\":\"function\",\"function\":{\"name\":\"note\"}}]}}";

/* ---- A tokenizer with and without the families' tags as control tokens ---- */

typedef struct bench {
    fornax_context *ctx;
    fornax_tokenizer *tok;
    fornax_vocabulary *vocab;
    bool special;
} bench;

static json_t *added_token(const char *text, json_int_t id)
{
    return json_pack("{s:I,s:s,s:b,s:b,s:b,s:b,s:b}", "id", id, "content", text, "special", 1, "single_word", 0, "lstrip", 0, "rstrip", 0,
                     "normalized", 0);
}

static void special_file(const char *path)
{
    json_t *j = json_load_file(SMOL, 0, NULL), *added = json_object_get(j, "added_tokens");
    json_int_t id = (json_int_t)json_object_size(json_object_get(json_object_get(j, "model"), "vocab")) + 100;
    const char *seen[64] = { "<|message|>", "<|end|>", "<|start|>", "<|call|>", "<|return|>", "<|constrain|>" };
    size_t n = 6;

    REQUIRE(added);
    for (size_t i = 0; fx_codec_at(i); i++) {
        const fx_codec *c = fx_codec_at(i);
        const char *const tags[] = { c->section_open, c->section_close, c->open, c->think_open };

        for (size_t k = 0; k < FX_COUNT(tags); k++)
            if (tags[k] && tags[k][0] && tags[k][strlen(tags[k]) - 1] != '\n')
                seen[n++] = tags[k];
    }
    for (size_t i = 0; i < n; i++) {
        bool again = false;

        for (size_t k = 0; k < i; k++)
            again |= strcmp(seen[i], seen[k]) == 0;
        if (!again)
            json_array_append_new(added, added_token(seen[i], id++));
    }
    REQUIRE(json_dump_file(j, path, 0) == 0);
    json_decref(j);
}

static void begin(bench *b, bool special)
{
    char path[] = "/tmp/fornax-turn-XXXXXX.json";
    fornax_error err = { 0 };

    b->special = special;
    CHECK_OK(fornax_context_open(&b->ctx, NULL, &err), err);
    if (special) {
        int fd = mkstemps(path, 5);

        REQUIRE(fd >= 0 && close(fd) == 0);
        special_file(path);
    }
    CHECK_OK(fornax_tokenizer_open(&b->tok, b->ctx, special ? path : SMOL, &err), err);
    if (special)
        unlink(path);
    CHECK_OK(fornax_vocabulary_open(&b->vocab, b->ctx, b->tok, &err), err);
}

static void finish(bench *b)
{
    fornax_vocabulary_close(b->vocab);
    fornax_tokenizer_close(b->tok);
    fornax_context_close(b->ctx);
}

/* ---- Replies ---- */

static fornax_turn *open_turn(bench *b, const char *name, const char *choice, bool single, const char *prompt)
{
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    fornax_error err = { 0 };
    fornax_turn *t = NULL;

    o.family = name;
    o.tools = tools;
    o.tool_choice = choice;
    o.single_call = single;
    o.prompt = prompt;
    o.prompt_n = SIZE_MAX;
    CHECK_OK(fornax_turn_open(&t, b->tok, &o, &err), err);
    return t;
}

/* Whether the whole text is a reply: by its bytes, and as the tokens that the tokenizer cuts it into. */
static bool takes(bench *b, const fornax_turn *t, const char *text)
{
    fornax_error err = { 0 };
    fornax_matcher *m = NULL, *bytes = NULL;
    int32_t ids[1024];
    size_t n = 0;
    bool ok, by_bytes;

    CHECK_OK(fornax_matcher_open(&m, (fornax_grammar *)(uintptr_t)fornax_turn_grammar(t), b->vocab, &err), err);
    CHECK_OK(fornax_matcher_copy(&bytes, m, &err), err);
    CHECK_OK(fornax_tokenize(b->tok, text, strlen(text), FORNAX_TOKENIZE_SPECIAL, ids, FX_COUNT(ids), &n, &err), err);
    ok = n <= FX_COUNT(ids);
    for (size_t i = 0; i < n && ok; i++)
        ok = fornax_matcher_accept(m, ids[i], &err) == FORNAX_OK;
    ok = ok && fornax_matcher_can_end(m);
    by_bytes = fornax_matcher_accept_text(bytes, text, strlen(text), &err) == FORNAX_OK && fornax_matcher_can_end(bytes);
    if (!b->special && by_bytes != ok)
        FXTEST_FAIL("%s: bytes %d, tokens %d: %s", fornax_turn_family(t), by_bytes, ok, text);
    fornax_matcher_close(m);
    fornax_matcher_close(bytes);
    return ok;
}

typedef struct calls {
    char text[4096];             /* "name{...};" with compact arguments */
    char args[2048];
    bool said;                   /* some text */
} calls;

static void part(void *user, const fornax_part *p)
{
    calls *c = user;
    json_t *v;
    char *dump;

    if (p->kind == FORNAX_PART_CALL) {
        strncat(c->text, p->text, p->n);
        c->args[0] = 0;
    } else if (p->kind == FORNAX_PART_ARGUMENTS) {
        strncat(c->args, p->text, p->n);
    } else if (p->kind == FORNAX_PART_CALL_END) {
        v = json_loads(c->args, 0, NULL);
        CHECK(v != NULL);
        dump = json_dumps(v, JSON_COMPACT);
        strcat(strcat(c->text, dump ? dump : "?"), ";");
        free(dump);
        json_decref(v);
    } else if (p->kind == FORNAX_PART_TEXT) {
        c->said = true;
    }
}

static void parse(const fornax_turn *t, const char *text, calls *c)
{
    fornax_error err = { 0 };
    fornax_reply *r = NULL;

    memset(c, 0, sizeof *c);
    CHECK_OK(fornax_reply_open(&r, t, part, c, &err), err);
    for (size_t i = 0; text[i]; i++)
        CHECK_OK(fornax_reply_feed(r, text + i, 1, &err), err);
    CHECK_OK(fornax_reply_end(r, &err), err);
    fornax_reply_close(r);
}

/* Taken, and taken apart into these calls; wanted NULL: refused. */
static void check(bench *b, const fornax_turn *t, const char *text, const char *wanted)
{
    bool got = takes(b, t, text);
    calls c;

    if (got != (wanted != NULL))
        FXTEST_FAIL("%s%s: %s: %s", fornax_turn_family(t), b->special ? " (control tokens)" : "", got ? "taken" : "refused", text);
    if (!got || !wanted)
        return;
    parse(t, text, &c);
    if (strcmp(c.text, wanted) != 0)
        FXTEST_FAIL("%s: %s\ntaken apart: %s\nexpected:    %s", fornax_turn_family(t), text, c.text, wanted);
}

/* The family's call with its $N and $V put in. */
static const char *filled(char *out, size_t cap, const char *form, const char *name, const char *value)
{
    size_t n = 0;

    for (const char *p = form; *p && n + 1 < cap; p++) {
        const char *put = *p == '$' && p[1] == 'N' ? name : *p == '$' && p[1] == 'V' ? value : NULL;

        if (put) {
            n += (size_t)snprintf(out + n, cap - n, "%s", put);
            p++;
        } else {
            out[n++] = *p;
        }
    }
    out[n] = 0;
    return out;
}

/* A reply of one call behind some text. */
static const char *one(char *out, size_t cap, const family *f, const char *before, const char *name, const char *value)
{
    char call[512];

    snprintf(out, cap, "%s%s%s%s", before, f->section, filled(call, sizeof call, f->call, name, value), f->end);
    return out;
}

static const char *two(char *out, size_t cap, const family *f, const char *name, const char *second)
{
    char a[512], b[512];

    snprintf(out, cap, "%s%s%s%s%s", f->section, filled(a, sizeof a, f->call, name, "x"), f->between,
             filled(b, sizeof b, f->call, second, "x"), f->end);
    return out;
}

typedef void (*family_test)(bench *b, const family *f);

static void each_family(family_test test)
{
    for (int special = 0; special < 2; special++) {
        bench b;

        begin(&b, special);
        for (size_t i = 0; i < FX_COUNT(families); i++)
            test(&b, &families[i]);
        finish(&b);
    }
}

/* ---- What is open ---- */

/* Without tags a call behind text is text. */
static const char *behind_text(const family *f) { return fx_codec_tagged(fx_codec_find(fx_str_of(f->name))) ? NULL : ""; }

static void open_ones(bench *b, const family *f)
{
    fornax_turn *t = open_turn(b, f->name, NULL, false, NULL);
    char s[2048], said[256];

    snprintf(said, sizeof said, "%sI look, not a refund.", f->text);
    check(b, t, said, "");
    check(b, t, one(s, sizeof s, f, "", "lookup", "x"), "lookup{\"a\":\"x\"};");
    check(b, t, one(s, sizeof s, f, "", "note", "any \xc3\xbc text"), "note{\"a\":\"any \xc3\xbc text\"};");
    check(b, t, two(s, sizeof s, f, "lookup", "note"), f->several ? "lookup{\"a\":\"x\"};note{\"a\":\"x\"};" : NULL);
    check(b, t, one(s, sizeof s, f, said, "lookup", "x"), f->mixed ? "lookup{\"a\":\"x\"};" : behind_text(f));
    fornax_turn_close(t);
}
TEST(open_tools) { each_family(open_ones); }

static void closed_ones(bench *b, const family *f)
{
    static const char *const names[] = { "refund", "Lookup", "LOOKUP", "lookup2", "look", "look_up", " lookup", "lookup ", "l\xd0\xbe" "okup",
                                         "look\xe2\x80\x8b" "up", "\\u006cookup", "functions.lookup", "lookup\", \"name\": \"refund", "" };
    static const char *const values[] = { "z", "X", " x", "x ", "\\u0078z", "", "x\",\"b\":\"x", "x\",\"a\":\"z" };
    fornax_turn *t = open_turn(b, f->name, NULL, false, NULL);
    char s[2048];

    for (size_t i = 0; i < FX_COUNT(names); i++) {
        check(b, t, one(s, sizeof s, f, "", names[i], "x"), NULL);
        check(b, t, one(s, sizeof s, f, f->text, names[i], "x"), NULL);
        check(b, t, one(s, sizeof s, f, "I look. ", names[i], "x"), behind_text(f));
        check(b, t, one(s, sizeof s, f, " \t\r\n           ", names[i], "x"), NULL);
        check(b, t, two(s, sizeof s, f, "lookup", names[i]), NULL);
        check(b, t, two(s, sizeof s, f, names[i], "lookup"), NULL);
    }
    for (size_t i = 0; i < FX_COUNT(values); i++)
        check(b, t, one(s, sizeof s, f, "", "lookup", values[i]), NULL);
    fornax_turn_close(t);
}
TEST(closed_tools) { each_family(closed_ones); }

/* The other families' forms can't be spoken either, whatever comes before. */
static void other_forms(bench *b, const family *f)
{
    fornax_turn *t = open_turn(b, f->name, NULL, false, NULL);
    char s[2048];

    for (size_t i = 0; i < FX_COUNT(families); i++) {
        const fx_codec *other = fx_codec_find(fx_str_of(families[i].name));

        if (fx_codec_tagged(other))
            check(b, t, one(s, sizeof s, &families[i], f->text[0] ? f->text : "So: ", "refund", "x"), NULL);
    }
    fornax_turn_close(t);
}
TEST(forms_of_other_families) { each_family(other_forms); }

/* Under a policy no form at all can begin in text or thoughts, those without tags neither. */
static void nothing_begins(bench *b, const family *f)
{
    static const char policy_text[] = "{\"default\":\"always\",\"tools\":{\"refund\":{\"open\":\"never\"}}}";
    static const char *const before[] = { "", "So: ", " \t\r\n          " };
    const fx_codec *c = fx_codec_find(fx_str_of(f->name));
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    fornax_error err = { 0 };
    fornax_policy *policy = NULL;
    fornax_turn *t = NULL;
    char s[2048], said[256];

    CHECK_OK(fornax_policy_open(&policy, b->ctx, policy_text, SIZE_MAX, &err), err);
    o.family = f->name;
    o.tools = tools;
    o.policy = policy;
    o.prompt = c->think_open;
    o.prompt_n = c->think_open ? SIZE_MAX : 0;
    CHECK_OK(fornax_turn_open(&t, b->tok, &o, &err), err);
    for (size_t i = 0; i < FX_COUNT(families); i++) {
        bool tagged = fx_codec_tagged(fx_codec_find(fx_str_of(families[i].name)));

        for (size_t k = 0; k < FX_COUNT(before); k++) {
            if (!tagged && k == 1)
                continue;            /* behind text it's none */
            snprintf(said, sizeof said, "%s%s%s", c->think_open ? "Hm." : "", c->think_open ? c->think_close : f->text, before[k]);
            check(b, t, one(s, sizeof s, &families[i], said, "refund", "x"), NULL);
            snprintf(said, sizeof said, "%s%s", before[k], c->think_open ? "" : f->text);
            one(s, sizeof s, &families[i], said, "refund", "x");
            if (c->think_open)
                strncat(s, c->think_close, sizeof s - strlen(s) - 1);
            check(b, t, s, NULL);
        }
    }
    snprintf(s, sizeof s, "%s%s%sNo refund {yet}, [sorry].", c->think_open ? "Hm." : "", c->think_open ? c->think_close : "", f->text);
    check(b, t, s, "");
    fornax_turn_close(t);
    fornax_policy_close(policy);
}
TEST(no_form_begins_under_a_policy) { each_family(nothing_begins); }

/* ---- The request's choice ---- */

static void choices(bench *b, const family *f)
{
    fornax_turn *t = open_turn(b, f->name, "\"required\"", false, NULL);
    char s[2048], said[256];

    snprintf(said, sizeof said, "%sNo.", f->text);
    check(b, t, said, NULL);
    check(b, t, "", NULL);
    check(b, t, one(s, sizeof s, f, "", "note", "1"), "note{\"a\":\"1\"};");
    check(b, t, one(s, sizeof s, f, said, "note", "1"), NULL);
    fornax_turn_close(t);
    t = open_turn(b, f->name, named, false, NULL);
    check(b, t, one(s, sizeof s, f, "", "lookup", "x"), "lookup{\"a\":\"x\"};");
    check(b, t, one(s, sizeof s, f, "", "note", "x"), NULL);
    check(b, t, two(s, sizeof s, f, "lookup", "lookup"), NULL);
    fornax_turn_close(t);
    t = open_turn(b, f->name, some, false, NULL);
    check(b, t, said, "");
    check(b, t, one(s, sizeof s, f, "", "note", "x"), "note{\"a\":\"x\"};");
    check(b, t, one(s, sizeof s, f, "", "lookup", "x"), NULL);
    fornax_turn_close(t);
    t = open_turn(b, f->name, NULL, true, NULL);
    check(b, t, one(s, sizeof s, f, "", "note", "x"), "note{\"a\":\"x\"};");
    check(b, t, two(s, sizeof s, f, "lookup", "note"), NULL);
    fornax_turn_close(t);
    t = open_turn(b, f->name, "\"none\"", false, NULL);
    CHECK(fornax_turn_grammar(t) == NULL);
    fornax_turn_close(t);
}
TEST(choice_of_tools) { each_family(choices); }

/* ---- Thoughts ---- */

static void thoughts(bench *b, const family *f)
{
    const fx_codec *c = fx_codec_find(fx_str_of(f->name));
    char s[2048], before[256], prompt[64];
    fornax_turn *t;

    if (!c->think_open)
        return;
    snprintf(prompt, sizeof prompt, "Prompt\n%s\n", c->think_open);
    t = open_turn(b, f->name, NULL, false, prompt);
    snprintf(before, sizeof before, "I could refund.\n%s\n\n", c->think_close);
    check(b, t, one(s, sizeof s, f, before, "lookup", "x"), "lookup{\"a\":\"x\"};");
    check(b, t, one(s, sizeof s, f, before, "refund", "x"), NULL);
    check(b, t, one(s, sizeof s, f, "", "lookup", "x"), NULL);        /* the thought isn't over */
    check(b, t, "Still thinking", NULL);
    fornax_turn_close(t);
}
TEST(thoughts_that_the_prompt_opened) { each_family(thoughts); }

/* ---- Arguments that hold what looks like a call ---- */

static void hidden(bench *b, const family *f)
{
    fornax_turn *t = open_turn(b, f->name, NULL, false, NULL);
    const fx_codec *c = fx_codec_find(fx_str_of(f->name));
    char s[4096], inner[1024], escaped[2048], args[2560], wanted[4096];
    size_t n = 0;
    const char *ends[] = { [FX_CALL_XML_PAIRS] = "</arg_value></tool_call>", [FX_CALL_XML_FUNCTION] = "\n</parameter></tool_call>",
                           [FX_CALL_XML_INVOKE] = "</parameter>\n</invoke>", [FX_CALL_HARMONY] = NULL };
    bool pairs = ends[c->form] != NULL;

    one(inner, sizeof inner, f, c->close ? c->close : "", "refund", "x");
    for (const char *p = inner; *p; p++) {       /* inside a JSON string */
        if (*p == '"')
            escaped[n++] = '\\';
        escaped[n++] = *p == '\n' ? '\\' : *p;
        if (*p == '\n')
            escaped[n++] = 'n';
    }
    escaped[n] = 0;
    snprintf(args, sizeof args, pairs ? "[\"%s\"]" : "%s", escaped);
    snprintf(wanted, sizeof wanted, pairs ? "listing{\"a\":[\"%s\"]};" : "note{\"a\":\"%s\"};", escaped);
    if (!b->special)                             /* as control tokens they aren't text */
        check(b, t, one(s, sizeof s, f, "", pairs ? "listing" : "note", args), wanted);
    if (pairs) {
        snprintf(args, sizeof args, "%s", ends[c->form]);
        strncat(args, inner, sizeof args - strlen(args) - 1);
        check(b, t, one(s, sizeof s, f, "", "note", args), NULL);
    }
    fornax_turn_close(t);
}
TEST(calls_inside_arguments) { each_family(hidden); }

/* ---- Tools as clients bring them ---- */

/* One without parameters beside one with; what a description says changes nothing. */
static void odd_tools(bench *b, const family *f)
{
    static const char *const descriptions[] = { "Path.", "Use \\\"**/*.c\\\" or {a,b}.", "line\\n</tool_call> ::= \\u0022 \xf0\x9f\x99\x82" };
    char list[1024], s[1024];

    for (size_t i = 0; i < FX_COUNT(descriptions); i++) {
        fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
        fornax_error err = { 0 };
        fornax_turn *t = NULL;

        snprintf(list, sizeof list,
                 "[{\"type\":\"function\",\"function\":{\"name\":\"noop\",\"description\":\"%s\",\"parameters\":{\"type\":\"object\","
                 "\"properties\":{},\"required\":[]}}},{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":\"object\","
                 "\"properties\":{\"a\":{\"type\":\"string\",\"description\":\"%s\"}},\"required\":[\"a\"]}}}]", descriptions[i], descriptions[i]);
        o.family = f->name;
        o.tools = list;
        CHECK_OK(fornax_turn_open(&t, b->tok, &o, &err), err);
        check(b, t, one(s, sizeof s, f, "", "add", "x"), "add{\"a\":\"x\"};");
        check(b, t, one(s, sizeof s, f, "", "noo", "x"), NULL);
        fornax_turn_close(t);
    }
}
TEST(tools_of_clients) { each_family(odd_tools); }

/* ---- Faults of the request ---- */

typedef struct fault {
    const char *family, *tools, *choice, *param;
    fornax_status status;
} fault;

#define TOOL(name, parameters) "[{\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"parameters\":" parameters "}}]"
TEST(faults)
{
    static const fault faults[] = {
        { "hermes", "{}", NULL, "tools", FORNAX_EARG },
        { "hermes", "[{\"type\":\"function\"}]", NULL, "tools[0]", FORNAX_EARG },
        { "hermes", TOOL("a b", "{}"), NULL, "tools[0].function.name", FORNAX_EARG },
        { "hermes", TOOL("a<b", "{}"), NULL, "tools[0].function.name", FORNAX_EARG },
        { "hermes", TOOL("", "{}"), NULL, "tools[0].function.name", FORNAX_EARG },
        { "hermes", TOOL("a", "7"), NULL, "tools[0].function.parameters", FORNAX_EARG },
        { "hermes", TOOL("a", "{}"), "\"maybe\"", "tool_choice", FORNAX_EARG },
        { "hermes", TOOL("a", "{}"), named, "tool_choice", FORNAX_EARG },
        { "hermes", TOOL("a", "{\"properties\":{\"k\":{\"type\":\"odd\"}}}"), NULL, "tools[0].function.parameters#/properties/k/type", FORNAX_EFORMAT },
        { "glm", TOOL("a", "{\"properties\":{\"k\":{\"type\":\"odd\"}}}"), NULL, "tools[0].function.parameters#/properties/k/type", FORNAX_EFORMAT },
        { "glm", TOOL("a", "{\"anyOf\":[]}"), NULL, "tools[0].function.parameters#/anyOf", FORNAX_EUNSUP },
        { "glm", TOOL("a", "{\"properties\":{\"k\":{\"type\":\"string\",\"pattern\":\"x\"}}}"), NULL,
          "tools[0].function.parameters#/properties/k/pattern", FORNAX_EUNSUP },
        { "lfm2", TOOL("a", "{\"properties\":{\"k=1\":{}}}"), NULL, "tools[0].function.parameters#/properties/k=1/", FORNAX_EUNSUP },
        { "odd", TOOL("a", "{}"), NULL, "family", FORNAX_EARG },
    };
    bench b;

    begin(&b, false);
    for (size_t i = 0; i < FX_COUNT(faults); i++) {
        fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
        fornax_error err = { 0 };
        fornax_turn *t = NULL;
        fornax_status st;

        o.family = faults[i].family;
        o.tools = faults[i].tools;
        o.tool_choice = faults[i].choice;
        st = fornax_turn_open(&t, b.tok, &o, &err);
        if (st != faults[i].status || strcmp(err.param, faults[i].param) != 0 || !err.text[0])
            FXTEST_FAIL("%s: status %d, param '%s', expected %d, '%s' (%s)", faults[i].tools, st, err.param, faults[i].status, faults[i].param,
                        err.text);
        fornax_turn_close(t);
    }
    finish(&b);
}

FXTEST_MAIN()
