/* codec.c - the rows. Those with more particular marks come first. */
#include "agent/codec.h"

static const fx_codec rows[] = {
    { .name = "gpt-oss", .marks = { "<|channel|>", "<|message|>" }, .form = FX_CALL_HARMONY, .open = "<|channel|>",
      .before_name = "<|channel|>commentary to=functions.", .after_name = " <|constrain|>json<|message|>" },
    { .name = "kimi", .marks = { "<|tool_calls_section_begin|>" }, .form = FX_CALL_NAME_JSON,
      .section_open = "<|tool_calls_section_begin|>", .section_close = "<|tool_calls_section_end|>",
      .open = "<|tool_call_begin|>", .close = "<|tool_call_end|>", .before_name = "functions.", .indexed = true,
      .after_name = "<|tool_call_argument_begin|>", .think_open = "<think>", .think_close = "</think>" },
    { .name = "deepseek-v3.1", .marks = { "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>'+" }, .form = FX_CALL_NAME_JSON,
      .section_open = "<｜tool▁calls▁begin｜>", .section_close = "<｜tool▁calls▁end｜>",
      .open = "<｜tool▁call▁begin｜>", .close = "<｜tool▁call▁end｜>", .before_name = "", .after_name = "<｜tool▁sep｜>",
      .think_open = "<think>", .think_close = "</think>" },
    { .name = "deepseek", .marks = { "<｜tool▁calls▁begin｜>", "```json" }, .form = FX_CALL_NAME_JSON,
      .section_open = "<｜tool▁calls▁begin｜>", .section_close = "<｜tool▁calls▁end｜>",
      .open = "<｜tool▁call▁begin｜>", .close = "\n```<｜tool▁call▁end｜>", .between = "\n",
      .before_name = "function<｜tool▁sep｜>", .after_name = "\n```json\n",
      .think_open = "<think>", .think_close = "</think>" },
    { .name = "mistral-args", .marks = { "[TOOL_CALLS]", "[ARGS]" }, .form = FX_CALL_NAME_JSON,
      .open = "[TOOL_CALLS]", .close = "", .before_name = "", .after_name = "[ARGS]",
      .think_open = "[THINK]", .think_close = "[/THINK]" },
    { .name = "mistral", .marks = { "[TOOL_CALLS]" }, .form = FX_CALL_JSON_LIST, .section_open = "[TOOL_CALLS]",
      .between = ", ", .name_key = "name", .args_key = "arguments", .think_open = "[THINK]", .think_close = "[/THINK]" },
    { .name = "lfm2", .marks = { "<|tool_call_start|>" }, .form = FX_CALL_PYTHON, .open = "<|tool_call_start|>",
      .close = "<|tool_call_end|>" },
    { .name = "qwen3-coder", .marks = { "<tool_call>", "<function=" }, .form = FX_CALL_XML_FUNCTION,
      .open = "<tool_call>\n", .close = "\n</tool_call>", .between = "\n", .think_open = "<think>", .think_close = "</think>" },
    { .name = "minimax", .marks = { "<minimax:tool_call>", "<invoke name=" }, .form = FX_CALL_XML_INVOKE,
      .section_open = "<minimax:tool_call>\n", .section_close = "\n</minimax:tool_call>", .open = "<invoke name=\"", .close = "</invoke>",
      .between = "\n", .think_open = "<think>", .think_close = "</think>" },
    { .name = "glm-compact", .marks = { "<tool_call>", "<arg_key>", "</arg_key><arg_value>" }, .form = FX_CALL_XML_PAIRS, .compact = true,
      .open = "<tool_call>", .close = "</tool_call>", .think_open = "<think>", .think_close = "</think>" },
    { .name = "glm", .marks = { "<tool_call>", "<arg_key>" }, .form = FX_CALL_XML_PAIRS, .open = "<tool_call>",
      .close = "</tool_call>", .think_open = "<think>", .think_close = "</think>" },
    { .name = "hermes", .marks = { "<tool_call>" }, .form = FX_CALL_JSON, .open = "<tool_call>\n",
      .close = "\n</tool_call>", .between = "\n", .name_key = "name", .args_key = "arguments",
      .think_open = "<think>", .think_close = "</think>" },
    { .name = "llama4", .marks = { "<|header_start|>" }, .form = FX_CALL_PYTHON },
    { .name = "pythonic", .marks = { "[func_name1(" }, .form = FX_CALL_PYTHON },
    { .name = "llama3", .marks = { "<|start_header_id|>", "\"parameters\"" }, .form = FX_CALL_JSON, .between = "; ",
      .name_key = "name", .args_key = "parameters" },
    { .name = "json", .form = FX_CALL_JSON, .open = "<tool_call>\n", .close = "\n</tool_call>", .between = "\n",
      .name_key = "name", .args_key = "arguments", .think_open = "<think>", .think_close = "</think>" },
};

static bool has_marks(const fx_codec *c, fx_str text)
{
    for (size_t i = 0; i < FX_COUNT(c->marks) && c->marks[i]; i++)
        if (fx_str_find(text, fx_str_of(c->marks[i]), 0) == FX_STR_NONE)
            return false;
    return true;
}

const fx_codec *fx_codec_of_template(fx_str chat_template)
{
    size_t i = 0;

    while (!has_marks(&rows[i], chat_template))
        i++;                             /* the last row has no marks */
    return &rows[i];
}

const fx_codec *fx_codec_find(fx_str name)
{
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (fx_str_is(name, rows[i].name))
            return &rows[i];
    return NULL;
}

const fx_codec *fx_codec_at(size_t i) { return i < FX_COUNT(rows) ? &rows[i] : NULL; }

bool fx_codec_tagged(const fx_codec *c) { return (c->open && c->open[0]) || (c->section_open && c->section_open[0]); }
