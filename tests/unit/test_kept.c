/* test_kept.c - replies that were kept token for token ("emitted"): they stand in the prompt as they are, whatever the
 * template would make of them, unless somebody changed what they say. */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "fornax.h"
#include "fxtest.h"

#define CODECS FXTEST_DATA "/codecs/"
#define TEMPLATES FXTEST_DATA "/templates/"

/* Families, and what their templates put behind a reply; here that is the tokenizer's own end token. */
typedef struct family {
    const char *file, *end;
} family;
static const family families[] = {
    { CODECS "hermes.jinja", "<|im_end|>" }, { CODECS "mistral.jinja", "</s>" }, { CODECS "mistral-args.jinja", "</s>" },
    { CODECS "llama3.jinja", "<|eot_id|>" }, { CODECS "deepseek.jinja", "<｜end▁of▁sentence｜>" }, { CODECS "kimi.jinja", "<|im_end|>" },
    { CODECS "glm-compact.jinja", "<|endoftext|>" }, { CODECS "lfm2.jinja", "<|end_of_turn|>" }, { CODECS "minimax.jinja", "[e~[" },
    { CODECS "pythonic.jinja", "<|end_of_turn|>" },
    { CODECS "llama4.jinja", "<|end_of_turn|>" }, { TEMPLATES "Qwen2.5-3B-Instruct.jinja", "<|im_end|>" },
    { TEMPLATES "Qwen3-4B-Instruct-2507.jinja", "<|im_end|>" }, { TEMPLATES "Qwen3-Coder-30B-A3B-Instruct.jinja", "<|im_end|>" },
    { TEMPLATES "Qwen3-4B.jinja", "<|im_end|>" },
};

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"find\",\"description\":\"Finds\",\"parameters\":{\"type\":\"object\",\"properties\":"
    "{\"text\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}}}]";

typedef struct place {
    char dir[40], tokenizer[80], chat[80], settings[80];
    fornax_context *ctx;
    fornax_tokenizer *tok;
} place;

/* A folder with SmolLM2's tokenizer and this template. */
static void open_folder(place *p, fx_str chat)
{
    fornax_error err = { 0 };

    *p = (place){ .dir = "/tmp/fornax-kept-XXXXXX" };
    REQUIRE(mkdtemp(p->dir));
    snprintf(p->tokenizer, sizeof p->tokenizer, "%s/tokenizer.json", p->dir);
    snprintf(p->chat, sizeof p->chat, "%s/chat_template.jinja", p->dir);
    snprintf(p->settings, sizeof p->settings, "%s/generation_config.json", p->dir);
    CHECK_OK(fx_file_write_atomic(p->chat, chat, &err), err);
    CHECK_OK(fx_file_write_atomic(p->settings, FX_STR("{\"eos_token_id\": 2}"), &err), err);
    REQUIRE(symlink(FXTEST_DATA "/tokenizer/smollm2/tokenizer.json", p->tokenizer) == 0);
    CHECK_OK(fornax_context_open(&p->ctx, NULL, &err), err);
    CHECK_OK(fornax_tokenizer_open(&p->tok, p->ctx, p->dir, &err), err);
}

/* ... with a family's template, whose end token becomes the tokenizer's. */
static void open_place(place *p, const char *jinja, const char *end)
{
    fx_buf text, own;
    fornax_error err = { 0 };

    fx_buf_init(&text, &fx_mem_libc);
    fx_buf_init(&own, &fx_mem_libc);
    CHECK_OK(fx_file_read(&text, jinja, 1 << 20, &err), err);
    for (size_t at = 0, next; at < text.n; at = next + strlen(end)) {
        next = FX_MIN(fx_str_find(fx_buf_view(&text), fx_str_of(end), at), text.n);
        fx_buf_add(&own, text.p + at, next - at);
        if (next < text.n)
            fx_buf_puts(&own, "<|im_end|>");
    }
    open_folder(p, fx_buf_view(&own));
    fx_buf_done(&text);
    fx_buf_done(&own);
}

static void close_place(place *p)
{
    fornax_tokenizer_close(p->tok);
    fornax_context_close(p->ctx);
    CHECK(unlink(p->tokenizer) == 0 && unlink(p->chat) == 0 && unlink(p->settings) == 0 && rmdir(p->dir) == 0);
}

static fornax_status render(fornax_prompt **out, const place *p, json_t *messages, bool more, fornax_error *err)
{
    json_t *all = json_pack("{s:O,s:o,s:b}", "messages", messages, "tools", json_loads(tools, 0, NULL), "add_generation_prompt", more);
    char *text = json_dumps(all, 0);
    fornax_status st = fornax_prompt_render(out, p->tok, text, strlen(text), err);

    free(text);
    json_decref(all);
    return st;
}

static fornax_prompt *rendered(const place *p, json_t *messages, bool more)
{
    fornax_prompt *out = NULL;
    fornax_error err = { 0 };

    CHECK_OK(render(&out, p, messages, more, &err), err);
    return out;
}

static json_t *call_message(const char *text)
{
    return json_pack("{s:s,s:s,s:[{s:s,s:s,s:{s:s,s:{s:s,s:i}}}]}", "role", "assistant", "content", "", "tool_calls", "id", "call00001",
                     "type", "function", "function", "name", "find", "arguments", "text", text, "n", 3);
}

/* Ids of a text as no tokenizer would cut it: characters by themselves, one by one, but for the end token. */
static json_t *odd_ids(const place *p, fx_str text, int32_t end)
{
    json_t *ids = json_array();

    for (size_t i = 0; i < text.n;) {
        size_t from = i, n = 0;
        int32_t at[8];

        fx_utf8_next(text, &i);
        CHECK(fornax_tokenize(p->tok, text.p + from, i - from, 0, at, 8, &n, NULL) == FORNAX_OK && n <= 8);
        for (size_t k = 0; k < n; k++)
            json_array_append_new(ids, json_integer(at[k]));
    }
    if (end >= 0)
        json_array_append_new(ids, json_integer(end));
    return ids;
}

static bool is_ids(const int32_t *at, const json_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != json_integer_value(json_array_get(ids, i)))
            return false;
    return true;
}

/* The whole begins with what the model saw and then exactly what it wrote. */
static bool goes_on(const place *p, json_t *messages, size_t reply, json_t *ids)
{
    json_t *first = json_array();
    fornax_prompt *before, *whole;
    size_t before_n, whole_n, n = json_array_size(ids);
    const int32_t *a, *b;
    bool ok;

    for (size_t i = 0; i < reply; i++)
        json_array_append(first, json_array_get(messages, i));
    before = rendered(p, first, true);
    whole = rendered(p, messages, true);
    a = fornax_prompt_ids(before, &before_n);
    b = fornax_prompt_ids(whole, &whole_n);
    ok = whole_n > before_n + n && memcmp(a, b, before_n * sizeof *a) == 0 && is_ids(b + before_n, ids, n);
    fornax_prompt_close(before);
    fornax_prompt_close(whole);
    json_decref(first);
    return ok;
}

/* What the template makes of a reply. */
static json_t *reply_ids(const place *p, json_t *messages, json_t *reply, int32_t end)
{
    json_t *all = json_copy(messages), *ids;
    fornax_prompt *before = rendered(p, messages, true), *whole;
    size_t n, m, to;
    const char *text;

    json_array_append(all, reply);
    whole = rendered(p, all, false);
    fornax_prompt_text(before, &n);
    text = fornax_prompt_text(whole, &m);
    to = fx_str_find(fx_str_n(text, m), FX_STR("<|im_end|>"), FX_MIN(n, m));
    CHECK(to != FX_STR_NONE && to >= n);
    ids = odd_ids(p, fx_str_n(text + n, to - n), end);
    fornax_prompt_close(before);
    fornax_prompt_close(whole);
    json_decref(all);
    return ids;
}

TEST(odd_tokens_stay)
{
    for (size_t f = 0; f < FX_COUNT(families); f++) {
        json_t *messages = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content", "Be kind.", "role", "user", "content", "What?");
        json_t *ids[3];
        place p;

        open_place(&p, families[f].file, families[f].end);
        for (int round = 0; round < 3; round++) {    /* a call and its answer, three times */
            json_t *m = call_message(round ? "a \"quoted\" \xc3\xbc" : "plain");

            ids[round] = reply_ids(&p, messages, m, round == 1 ? -1 : fornax_token_find(p.tok, "<|im_end|>", 10));
            json_object_set(m, "emitted", ids[round]);
            json_array_append_new(messages, m);
            json_array_append_new(messages, json_pack("{s:s,s:s,s:s}", "role", "tool", "tool_call_id", "call00001", "content", "<|im_end|> found"));
            for (int k = 0; k <= round; k++)
                if (!goes_on(&p, messages, 2 + 2 * (size_t)k, ids[k]))
                    FXTEST_FAIL("%s: reply %d of %d isn't in the prompt as it was written", families[f].file, k, round);
        }
        for (int k = 0; k < 3; k++)
            json_decref(ids[k]);
        json_decref(messages);
        close_place(&p);
    }
}

static bool equal_ids(const fornax_prompt *a, const fornax_prompt *b)
{
    size_t n, m;
    const int32_t *x = fornax_prompt_ids(a, &n), *y = fornax_prompt_ids(b, &m);

    return n == m && memcmp(x, y, n * sizeof *x) == 0;
}

/* Who changes the message, wins: then the ids count for nothing. */
TEST(changed_messages_are_the_templates)
{
    static const char *const changes[] = { "{\"content\": \"More\"}", "{\"tool_calls\": []}", "{\"reasoning_content\": \"Hm\"}",
        "{\"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": \"find\", \"arguments\": {\"text\": \"other\", \"n\": 3}}}]}",
        "{\"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": \"seek\", \"arguments\": {\"text\": \"plain\", \"n\": 3}}}]}",
        "{\"tool_calls\": [{\"id\": \"call00001\", \"type\": \"function\", \"function\": {\"name\": \"find\", \"arguments\": \"{\\\"n\\\": 4}\"}}]}" };
    place p;

    open_place(&p, families[0].file, families[0].end);
    for (size_t i = 0; i <= FX_COUNT(changes); i++) {
        json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "What?"), *m = call_message("plain"), *ids;
        json_t *change = i < FX_COUNT(changes) ? json_loads(changes[i], 0, NULL) : json_object();
        fornax_prompt *plain, *kept;

        ids = reply_ids(&p, messages, m, -1);
        json_object_update(m, change);
        json_array_append(messages, m);
        plain = rendered(&p, messages, true);
        json_object_set_new(m, "emitted", ids);
        kept = rendered(&p, messages, true);
        CHECK(equal_ids(plain, kept) == (i < FX_COUNT(changes)));
        fornax_prompt_close(plain);
        fornax_prompt_close(kept);
        json_decref(change);
        json_decref(messages);
        json_decref(m);
    }
    close_place(&p);
}

/* A template that knows nothing of calls still has them in its history, as they were written. */
TEST(templates_without_calls)
{
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "What?"), *m = call_message("plain"), *ids;
    place p;

    open_folder(&p, FX_STR("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
                           "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"));
    ids = odd_ids(&p, FX_STR("<tool_call>\n{\"name\":\"find\",\"arguments\":{\"text\":\"plain\",\"n\":3}}\n</tool_call>"), -1);
    json_object_set(m, "emitted", ids);
    json_array_append_new(messages, m);
    json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "user", "content", "And?"));
    CHECK(goes_on(&p, messages, 1, ids));
    json_decref(ids);
    json_decref(messages);
    close_place(&p);
}

/* Thoughts: in the loop of calls they stay, and come back where the message lacks them; in older turns the template drops them. */
TEST(thoughts)
{
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "What?"), *m = call_message("plain"), *ids;
    fornax_prompt *whole;
    size_t n;
    place p;

    open_place(&p, TEMPLATES "Qwen3-4B.jinja", "<|im_end|>");
    ids = odd_ids(&p, FX_STR("<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\":\"find\",\"arguments\":{\"text\":\"plain\",\"n\":3}}\n</tool_call>"), -1);
    json_object_set(m, "emitted", ids);
    json_array_append_new(messages, m);
    json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "tool", "content", "found"));
    CHECK(goes_on(&p, messages, 1, ids));
    json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "assistant", "content", "Found."));
    json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "user", "content", "And?"));
    CHECK(!goes_on(&p, messages, 1, ids));
    whole = rendered(&p, messages, true);
    CHECK(strstr(fornax_prompt_text(whole, &n), "assistant\n<tool_call>\n{\"name\":\"find\",\"arguments\":{") && n > 0);
    CHECK(!strstr(fornax_prompt_text(whole, NULL), "Hm."));
    fornax_prompt_close(whole);
    json_decref(ids);
    json_decref(messages);
    close_place(&p);
}

/* Sessions keep them by themselves: whatever a hot random model says, the next prompt finds its pages. */
TEST(sessions_go_on)
{
    fornax_session_options so = FORNAX_OPTIONS(fornax_session_options);
    fornax_request_options r = FORNAX_OPTIONS(fornax_request_options);
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_engine_stats stats = FORNAX_OPTIONS(fornax_engine_stats);
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    fornax_session *chat = NULL;
    fornax_error err = { 0 };
    uint64_t all;

    r.temperature = 2;
    r.has_seed = 1;
    r.min_tokens = 100;                  /* at each level it says something else */
    r.max_tokens = 120;
    so.sampling = &r;
    eo.manual = 1;
    CHECK_OK(fornax_context_open(&ctx, NULL, &err), err);
    CHECK_OK(fornax_model_open(&model, ctx, FXTEST_DATA "/models/llama3", NULL, &err), err);
    CHECK_OK(fornax_engine_open(&engine, model, &eo, &err), err);
    CHECK_OK(fornax_session_open(&chat, engine, &so, &err), err);
    CHECK_OK(fornax_session_say(chat, "What is it?", NULL, NULL, &err), err);
    fornax_engine_get_stats(engine, &stats);
    all = stats.prompt_tokens + stats.generated_tokens;
    CHECK(all > 100 && stats.cached_tokens == 0);
    CHECK_OK(fornax_session_say(chat, "And why?", NULL, NULL, &err), err);
    fornax_engine_get_stats(engine, &stats);
    CHECK(stats.cached_tokens >= (all - 1) / 32 * 32);
    CHECK(!strstr(fornax_session_messages(chat), "emitted"));
    fornax_session_close(chat);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
}

TEST(bad_ids_are_refused)
{
    static const char *const bad[] = { "7", "[-1]", "[\"a\"]", "[1.5]", "[999999999]", "{}" };
    place p;

    open_place(&p, families[0].file, families[0].end);
    for (size_t i = 0; i < FX_COUNT(bad); i++) {
        json_t *messages = json_pack("[{s:s,s:s,s:o}]", "role", "assistant", "content", "x", "emitted", json_loads(bad[i], JSON_DECODE_ANY, NULL));
        fornax_prompt *out = NULL;
        fornax_error err = { 0 };

        CHECK(render(&out, &p, messages, true, &err) == FORNAX_EARG && !out);
        CHECK_STR(err.param, "messages[0].emitted");
        json_decref(messages);
    }
    close_place(&p);
}

TEST(time_of_templates)
{
    fornax_prompt *out = NULL;
    fornax_error err = { 0 };
    fx_str text = FX_STR("{\"messages\": [], \"now\": 86400}"), bad = FX_STR("{\"messages\": [], \"now\": \"x\"}");
    place p;

    open_folder(&p, FX_STR("{{ strftime_now('%Y-%m-%d') }}"));
    CHECK_OK(fornax_prompt_render(&out, p.tok, text.p, text.n, &err), err);
    CHECK_STR(fornax_prompt_text(out, NULL), "1970-01-02");
    fornax_prompt_close(out);
    CHECK(fornax_prompt_render(&out, p.tok, bad.p, bad.n, &err) == FORNAX_EARG);
    CHECK_STR(err.param, "now");
    close_place(&p);
}

FXTEST_MAIN()
