/* test_reply.c - replies taken apart: each case whole, cut at every byte, and byte by byte. */
#include "agent/reply.h"

#include "fxtest.h"

typedef struct kase {
    const char *codec;
    bool thinking;
    const char *reply;
    const char *expected;    /* T: text, R: thought, C: name, A: arguments, E: the call's bytes; joined, one a line */
} kase;

#define D_BEGIN "<｜tool▁calls▁begin｜>"
#define D_CALL "<｜tool▁call▁begin｜>"
#define D_SEP "<｜tool▁sep｜>"
#define D_END "<｜tool▁call▁end｜>"
#define D_ALL "<｜tool▁calls▁end｜>"

static const kase cases[] = {
    { "hermes", false, "plain text", "T:plain text\n" },
    { "hermes", false, "  a < b <tool\n", "T:  a < b <tool\n\n" },
    { "hermes", false, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"}\\\"\"}}\n</tool_call>",
      "C:add\nA:{\"a\": 1, \"b\": \"}\\\"\"}\nE:<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": \"}\\\"\"}}\n</tool_call>\n" },
    { "hermes", false, "Sure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>{\"arguments\":{\"x\":[1,{}]},\"name\":\"g\"}</tool_call>\n",
      "T:Sure.\nC:f\nA:{}\nE:<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\nC:g\nA:{\"x\":[1,{}]}\nE:<tool_call>{\"arguments\":{\"x\":[1,{}]},\"name\":\"g\"}</tool_call>\n" },
    { "hermes", false, "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "C:f\nA:{}\nE:<tool_call>\n{\"name\": \"f\"}\n</tool_call>\n" },
    { "hermes", false, "<tool_call>\n{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 2}\"}\n</tool_call>",
      "C:f\nA:{\"a\": 2}\nE:<tool_call>\n{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 2}\"}\n</tool_call>\n" },
    { "hermes", false, "<tool_call>\nno json</tool_call> after", "T:<tool_call>\nno json</tool_call> after\n" },
    { "hermes", false, "<tool_call>\n{\"nam\": 1}\n</tool_call>", "T:<tool_call>\n{\"nam\": 1}\n</tool_call>\n" },
    { "hermes", false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1", "C:f\nA:{\"a\": 1\nE:<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1\n" },
    { "hermes", false, "<tool_call>\n{\"na", "T:<tool_call>\n{\"na\n" },
    { "hermes", false, "<think>\nhm\n\n</think>\n\nyes", "R:hm\nT:yes\n" },
    { "hermes", true, "hm <tool_call> no\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
      "R:hm <tool_call> no\nC:f\nA:{}\nE:<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n" },
    { "hermes", true, "\n\n</think>\n\nfine", "T:fine\n" },
    { "hermes", true, "never ends", "R:never ends\n" },
    { "hermes", false, "text <think> stays", "T:text <think> stays\n" },
    { "qwen3-coder", false, "<tool_call>\n<function=f>\n<parameter=n>\n3\n</parameter>\n<parameter=s>\n3\nlines\n</parameter>\n</function>\n</tool_call>",
      "C:f\nA:{\"n\": 3, \"s\": \"3\\nlines\"}\nE:<tool_call>\n<function=f>\n<parameter=n>\n3\n</parameter>\n<parameter=s>\n3\nlines\n</parameter>\n</function>\n</tool_call>\n" },
    { "glm", false, "ok<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>l</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>",
      "T:ok\nC:f\nA:{\"s\": \"12\", \"l\": [1, 2]}\nE:<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>l</arg_key>\n<arg_value>[1, 2]</arg_value>\n</tool_call>\n" },
    { "deepseek", false, D_BEGIN D_CALL "function" D_SEP "f\n```json\n{\"a\": \"```\"}\n```" D_END "\n" D_CALL "function" D_SEP "g\n```json\n{}\n```" D_END D_ALL,
      "C:f\nA:{\"a\": \"```\"}\nE:" D_BEGIN D_CALL "function" D_SEP "f\n```json\n{\"a\": \"```\"}\n```" D_END "\nC:g\nA:{}\nE:\n" D_CALL "function" D_SEP "g\n```json\n{}\n```" D_END "\n" },
    { "deepseek-v3.1", true, "so\n</think>" D_BEGIN D_CALL "f" D_SEP "{\"a\":1}" D_END D_ALL,
      "R:so\nC:f\nA:{\"a\":1}\nE:" D_BEGIN D_CALL "f" D_SEP "{\"a\":1}" D_END "\n" },
    { "kimi", false, "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|><|tool_calls_section_end|>",
      "T:I look.\nC:f\nA:{\"a\": 1}\nE:<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}<|tool_call_end|>\n" },
    { "mistral", false, "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}, {\"name\": \"g\", \"arguments\": {}}]",
      "C:f\nA:{\"a\": 1}\nE:[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}\nC:g\nA:{}\nE:, {\"name\": \"g\", \"arguments\": {}}\n" },
    { "mistral-args", false, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}",
      "C:f\nA:{\"a\": 1}\nE:[TOOL_CALLS]f[ARGS]{\"a\": 1}\nC:g\nA:{}\nE:[TOOL_CALLS]g[ARGS]{}\n" },
    { "llama3", false, "{\"name\": \"f\", \"parameters\": {\"a\": \"1\"}}", "C:f\nA:{\"a\": \"1\"}\nE:{\"name\": \"f\", \"parameters\": {\"a\": \"1\"}}\n" },
    { "llama3", false, "{\"name\": \"unknown\", \"parameters\": {}}", "T:{\"name\": \"unknown\", \"parameters\": {}}\n" },
    { "llama3", false, "{\"answer\": 4}", "T:{\"answer\": 4}\n" },
    { "llama3", false, "It is {\"name\": \"f\", \"parameters\": {}}", "T:It is {\"name\": \"f\", \"parameters\": {}}\n" },
    { "lfm2", false, "<|tool_call_start|>[f(a=1, b='it\\'s', c=[True, None], d={\"k\": 1.5}), g()]<|tool_call_end|>done",
      "C:f\nA:{\"a\": 1, \"b\": \"it's\", \"c\": [true, null], \"d\": {\"k\": 1.5}}\nE:\nC:g\nA:{}\nE:<|tool_call_start|>[f(a=1, b='it\\'s', c=[True, None], d={\"k\": 1.5}), g()]<|tool_call_end|>\nT:done\n" },
    { "pythonic", false, "[f(x=\"]\")]", "C:f\nA:{\"x\": \"]\"}\nE:[f(x=\"]\")]\n" },
    { "pythonic", false, "[1, 2, 3]", "T:[1, 2, 3]\n" },
    { "pythonic", false, "[unknown()]", "T:[unknown()]\n" },
    { "gpt-oss", false, "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>final<|message|>Hi", "R:think\nT:Hi\n" },
    { "gpt-oss", false, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
      "C:f\nA:{\"a\": 1}\nE:<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}\n" },
    { "gpt-oss", false, "just text", "T:just text\n" },
    /* tags inside JSON strings end nothing */
    { "gpt-oss", false, "<|channel|>commentary to=functions.f<|message|>{\"a\": \"<|call|><|channel|>commentary to=functions.x<|message|>{}\"}<|call|>",
      "C:f\nA:{\"a\": \"<|call|><|channel|>commentary to=functions.x<|message|>{}\"}\n"
      "E:<|channel|>commentary to=functions.f<|message|>{\"a\": \"<|call|><|channel|>commentary to=functions.x<|message|>{}\"}\n" },
    { "glm", false, "<tool_call>f<arg_key>l</arg_key><arg_value>[\"</arg_value></tool_call><tool_call>x\"]</arg_value></tool_call>",
      "C:f\nA:{\"l\": [\"</arg_value></tool_call><tool_call>x\"]}\n"
      "E:<tool_call>f<arg_key>l</arg_key><arg_value>[\"</arg_value></tool_call><tool_call>x\"]</arg_value></tool_call>\n" },
    { "glm", false, "<tool_call>f<arg_key>l</arg_key><arg_value>\"odd</arg_value></tool_call>",
      "C:f\nA:{\"l\": \"\\\"odd\"}\nE:<tool_call>f<arg_key>l</arg_key><arg_value>\"odd</arg_value></tool_call>\n" },
    { "qwen3-coder", false, "<tool_call>\n<function=f>\n<parameter=l>\n[\"</parameter></function></tool_call>\"]\n</parameter>\n</function>\n</tool_call>",
      "C:f\nA:{\"l\": [\"</parameter></function></tool_call>\"]}\n"
      "E:<tool_call>\n<function=f>\n<parameter=l>\n[\"</parameter></function></tool_call>\"]\n</parameter>\n</function>\n</tool_call>\n" },
    /* several without tags */
    { "llama3", false, "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"a\": 1}}",
      "C:f\nA:{}\nE:{\"name\": \"f\", \"parameters\": {}}\nC:g\nA:{\"a\": 1}\nE:{\"name\": \"g\", \"parameters\": {\"a\": 1}}\n" },
    /* unclosed brackets in a string */
    { "hermes", false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"command\": \"mkdir -p t/{a,b && echo \\\"}}]\\\"\"}}\n</tool_call>",
      "C:f\nA:{\"command\": \"mkdir -p t/{a,b && echo \\\"}}]\\\"\"}\n"
      "E:<tool_call>\n{\"name\": \"f\", \"arguments\": {\"command\": \"mkdir -p t/{a,b && echo \\\"}}]\\\"\"}}\n</tool_call>\n" },
    /* without blanks; without arguments */
    { "hermes", false, "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
      "C:f\nA:{}\nE:<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n" },
    { "hermes", false, "<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>",
      "C:f\nA:{\"x\":1}\nE:<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":1}}</tool_call>\n"
      "C:g\nA:{}\nE:<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>\n" },
    { "json", false, "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "C:f\nA:{}\nE:<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>\n" },
};

typedef struct joined {
    fx_buf out;
    int kind;
} joined;

/* Parts of one kind in a row are one line. */
static void part(void *user, const fx_part *p)
{
    static const char letters[] = "TRCAE";
    joined *j = user;
    bool goes_on = (int)p->kind == j->kind && (p->kind == FX_PART_TEXT || p->kind == FX_PART_THOUGHT || p->kind == FX_PART_ARGUMENTS);

    if (!goes_on && j->kind >= 0)
        fx_buf_putc(&j->out, '\n');
    if (!goes_on)
        fx_buf_printf(&j->out, "%c:", letters[p->kind]);
    fx_buf_str(&j->out, p->text);
    j->kind = (int)p->kind;
}

static void run(const kase *k, const json_t *tools, size_t cut, size_t each, fx_buf *out)
{
    joined j = { .kind = -1 };
    fx_reply_options o = { .codec = fx_codec_find(fx_str_of(k->codec)), .tools = tools, .thinking = k->thinking, .part = part, .user = &j };
    fx_reply *r;
    size_t n = strlen(k->reply);

    fx_buf_init(&j.out, &fx_mem_libc);
    CHECK(o.codec != NULL);
    r = fx_reply_new(&fx_mem_libc, &o);
    CHECK(fx_reply_feed(r, fx_str_n(k->reply, cut)));
    for (size_t i = cut; i < n; i += each)
        CHECK(fx_reply_feed(r, fx_str_n(k->reply + i, FX_MIN(each, n - i))));
    CHECK(fx_reply_end(r));
    if (j.kind >= 0)
        fx_buf_putc(&j.out, '\n');
    fx_reply_free(r);
    *out = j.out;
}

static void check(const kase *k, const json_t *tools, size_t cut, size_t each)
{
    fx_buf got;

    run(k, tools, cut, each, &got);
    if (!fx_str_is(fx_buf_view(&got), k->expected))
        FXTEST_FAIL("%s, cut at %zu: %s\ngot:\n%sexpected:\n%s", k->codec, cut, k->reply, fx_buf_view(&got).p, k->expected);
    fx_buf_done(&got);
}

TEST(cases)
{
    json_t *tools = json_loads("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\","
                               "\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}}}}},"
                               "{\"type\": \"function\", \"function\": {\"name\": \"g\"}}]", 0, NULL);

    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        check(&cases[i], tools, 0, strlen(cases[i].reply));
        check(&cases[i], tools, 0, 1);
        for (size_t cut = 1; cut < strlen(cases[i].reply); cut++)
            check(&cases[i], tools, cut, strlen(cases[i].reply));
    }
    json_decref(tools);
}

/* Without tools no tag means anything, byte for byte. */
TEST(without_tools)
{
    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        kase k = { cases[i].codec, false, cases[i].reply, NULL };
        fx_buf got;

        if (cases[i].thinking || strstr(cases[i].reply, "<think>") || strcmp(k.codec, "gpt-oss") == 0)
            continue;
        run(&k, NULL, 0, 3, &got);
        CHECK(got.n == strlen(k.reply) + 3 && memcmp(got.p + 2, k.reply, got.n - 3) == 0);
        fx_buf_done(&got);
    }
}

TEST(templates)
{
    static const struct { const char *text, *codec; } rows[] = {
        { "x <tool_call>\n{\"name\": y", "hermes" }, { "<tool_call> <function=example>", "qwen3-coder" },
        { "'<tool_call>' <arg_key>", "glm" }, { "<tool_call>n<arg_key>k</arg_key><arg_value>", "glm-compact" }, { "[TOOL_CALLS]", "mistral" }, { "[TOOL_CALLS] [ARGS]", "mistral-args" },
        { "<|channel|> <|message|>", "gpt-oss" }, { "nothing", "json" }, { "<|start_header_id|> \"parameters\"", "llama3" },
        { D_BEGIN "```json", "deepseek" }, { D_BEGIN D_SEP "'+ x", "deepseek-v3.1" },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++)
        CHECK(strcmp(fx_codec_of_template(fx_str_of(rows[i].text))->name, rows[i].codec) == 0);
}

FXTEST_MAIN()
