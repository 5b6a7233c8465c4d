/* test_codec.c - conversations rendered, replies taken apart, and rendered again from the parts: the same bytes, wherever
 * the stream is cut. The families are found from the templates. */
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"
#include "fornax.h"
#include "fxtest.h"

#define CODECS FXTEST_DATA "/codecs/"
#define TEMPLATES FXTEST_DATA "/templates/"

typedef struct row {
    const char *file, *family;
    const char *end;                     /* what the template puts behind a reply */
    bool thinks, single;                 /* replies may have thoughts; at most one call */
    bool mixed;                          /* calls may follow text */
} row;

#define EOS "<｜end▁of▁sentence｜>"
static const row rows[] = {
    { CODECS "hermes.jinja", "hermes", "<|im_end|>", true, false, true },
    { CODECS "mistral.jinja", "mistral", "</s>", false, false, true },
    { CODECS "mistral-args.jinja", "mistral-args", "</s>", true, false, true },
    { CODECS "llama3.jinja", "llama3", "<|eot_id|>", false, true, false },
    { CODECS "deepseek.jinja", "deepseek", EOS, false, false, true },
    { CODECS "deepseek-v3.1.jinja", "deepseek-v3.1", EOS, true, false, true },
    { CODECS "kimi.jinja", "kimi", "<|im_end|>", false, false, true },
    { CODECS "glm-compact.jinja", "glm-compact", "<|endoftext|>", false, false, true },
    { CODECS "minimax.jinja", "minimax", "[e~[", true, false, true },
    { CODECS "lfm2.jinja", "lfm2", "<|end_of_turn|>", false, false, true },
    { CODECS "pythonic.jinja", "pythonic", "<|end_of_turn|>", false, false, false },
    { CODECS "llama4.jinja", "llama4", "<|end_of_turn|>", false, false, false },
    { CODECS "gpt-oss.jinja", "gpt-oss", NULL, true, true, false },
    { TEMPLATES "GLM-4.5V.jinja", "glm", NULL, false, false, true },
    { TEMPLATES "Qwen2.5-3B-Instruct.jinja", "hermes", "<|im_end|>", false, false, true },
    { TEMPLATES "Qwen3-4B.jinja", "hermes", "<|im_end|>", true, false, true },
    { TEMPLATES "Qwen3-4B-Instruct-2507.jinja", "hermes", "<|im_end|>", false, false, true },
    { TEMPLATES "Qwen3-4B-Thinking-2507.jinja", "hermes", "<|im_end|>", true, false, true },
    { TEMPLATES "Qwen3-VL-4B-Instruct.jinja", "hermes", "<|im_end|>", false, false, true },
    { TEMPLATES "Qwen3-VL-4B-Thinking.jinja", "hermes", "<|im_end|>", true, false, true },
    { TEMPLATES "Qwen3-Coder-30B-A3B-Instruct.jinja", "qwen3-coder", "<|im_end|>", false, false, true },
    { TEMPLATES "minja-Qwen3-Coder-30B.jinja", "qwen3-coder", "<|im_end|>", false, false, true },
};

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"find\",\"description\":\"Finds\",\"parameters\":{\"type\":\"object\",\"required\":[\"text\"],"
    "\"properties\":{\"text\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
    "\"exact\":{\"type\":\"boolean\"}}}}},"
    "{\"type\":\"function\",\"function\":{\"name\":\"get_time\",\"description\":\"The time\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]";

/* ---- Conversations ---- */

static uint32_t draw(uint64_t *seed, uint32_t n)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*seed >> 33) % n;
}

static const char *words(uint64_t *seed)
{
    static const char *const all[] = { "plain", "two words", "a \"quoted\" one", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x99\x82", "{\"json\": [1]}", "12", "true",
                                       "line\nline", "back\\slash", "<b>bold</b> & more", "it's; [so] (it) is", "a, b=c" };

    return all[draw(seed, FX_COUNT(all))];
}

static json_t *call(uint64_t *seed, int id)
{
    json_t *args = json_object();
    char name[16];

    snprintf(name, sizeof name, "call%05d", id);
    if (draw(seed, 4) > 0) {
        json_object_set_new(args, "text", json_string(words(seed)));
        if (draw(seed, 2))
            json_object_set_new(args, "n", json_integer((json_int_t)draw(seed, 1000) - 500));
        if (draw(seed, 2))
            json_object_set_new(args, "tags", json_pack("[s,s]", words(seed), words(seed)));
        if (draw(seed, 2))
            json_object_set_new(args, "exact", json_boolean(draw(seed, 2)));
        return json_pack("{s:s,s:s,s:{s:s,s:o}}", "id", name, "type", "function", "function", "name", "find", "arguments", args);
    }
    return json_pack("{s:s,s:s,s:{s:s,s:o}}", "id", name, "type", "function", "function", "name", "get_time", "arguments", args);
}

static json_t *reply_of(const row *w, uint64_t *seed)
{
    json_t *m = json_pack("{s:s}", "role", "assistant");
    uint32_t n = draw(seed, w->single ? 2 : 3);

    if (w->thinks && draw(seed, 2))
        json_object_set_new(m, "reasoning_content", json_string("First this,\n\nthen that."));
    json_object_set_new(m, "content", json_string(n == 0 ? "The answer is 4." : w->mixed && draw(seed, 2) ? "I look." : ""));
    if (n > 0) {
        json_t *calls = json_array();

        for (uint32_t i = 0; i < n; i++)
            json_array_append_new(calls, call(seed, (int)i));
        json_object_set_new(m, "tool_calls", calls);
    }
    return m;
}

/* ---- Rendering and taking apart ---- */

static fornax_prompt *render(const fornax_tokenizer *tok, json_t *messages, bool more)
{
    json_t *all = json_pack("{s:O,s:o,s:b}", "messages", messages, "tools", json_loads(tools, 0, NULL), "add_generation_prompt", more);
    char *text = json_dumps(all, 0);
    fornax_error err = { 0 };
    fornax_prompt *p = NULL;

    CHECK_OK(fornax_prompt_render(&p, tok, text, strlen(text), &err), err);
    free(text);
    json_decref(all);
    return p;
}

typedef struct parts {
    char said[4096], thought[1024], args[4096], all[8192];
    json_t *calls;
} parts;

static void part(void *user, const fornax_part *p)
{
    parts *x = user;

    if (p->kind == FORNAX_PART_TEXT) {
        strncat(x->said, p->text, p->n);
    } else if (p->kind == FORNAX_PART_THOUGHT) {
        strncat(x->thought, p->text, p->n);
    } else if (p->kind == FORNAX_PART_ARGUMENTS) {
        strncat(x->args, p->text, p->n);
    } else if (p->kind == FORNAX_PART_CALL) {
        x->args[0] = 0;
        json_array_append_new(x->calls, json_pack("{s:s,s:s,s:{s:s%}}", "id", "call00000", "type", "function", "function", "name", p->text, p->n));
    } else {
        json_t *last = json_object_get(json_array_get(x->calls, json_array_size(x->calls) - 1), "function");
        json_t *args = json_loads(x->args, 0, NULL);

        CHECK(args != NULL);
        json_object_set_new(last, "arguments", args);
        snprintf(x->all + strlen(x->all), sizeof x->all - strlen(x->all), "%s\n", x->args);
    }
}

static void take_apart(const fornax_turn *t, const char *text, size_t n, size_t cut, parts *x)
{
    fornax_error err = { 0 };
    fornax_reply *r = NULL;

    memset(x, 0, sizeof *x);
    x->calls = json_array();
    CHECK_OK(fornax_reply_open(&r, t, part, x, &err), err);
    CHECK_OK(fornax_reply_feed(r, text, cut, &err), err);
    CHECK_OK(fornax_reply_feed(r, text + cut, n - cut, &err), err);
    CHECK_OK(fornax_reply_end(r, &err), err);
    fornax_reply_close(r);
}

static json_t *message_of(const parts *x)
{
    json_t *m = json_pack("{s:s,s:s}", "role", "assistant", "content", x->said);

    if (x->thought[0])
        json_object_set_new(m, "reasoning_content", json_string(x->thought));
    for (size_t i = 0; i < json_array_size(x->calls); i++) {
        char id[32];

        snprintf(id, sizeof id, "call%05zu", i);
        json_object_set_new(json_array_get(x->calls, i), "id", json_string(id));
    }
    if (json_array_size(x->calls) > 0)
        json_object_set(m, "tool_calls", x->calls);
    return m;
}

static fornax_turn *turn_of(const fornax_tokenizer *tok, const char *prompt, size_t n)
{
    fornax_turn_options o = FORNAX_OPTIONS(fornax_turn_options);
    fornax_error err = { 0 };
    fornax_turn *t = NULL;

    o.tools = tools;
    o.prompt = prompt;
    o.prompt_n = n;
    CHECK_OK(fornax_turn_open(&t, tok, &o, &err), err);
    return t;
}

/* The reply is what the whole has behind the prompt, without the template's end. */
static void check_reply(const row *w, const fornax_tokenizer *tok, json_t *messages, json_t *reply)
{
    fornax_prompt *prompt = render(tok, messages, true), *whole, *again;
    size_t n, all_n, again_n, end;
    const char *before = fornax_prompt_text(prompt, &n), *all, *second;
    fornax_turn *t = turn_of(tok, before, n);
    parts x, y;

    CHECK_STR(fornax_turn_family(t), w->family);
    json_array_append(messages, reply);
    whole = render(tok, messages, false);
    all = fornax_prompt_text(whole, &all_n);
    if (all_n < n || memcmp(all, before, n) != 0) {
        FXTEST_FAIL("%s: the reply doesn't go on from the prompt:\n%s\n---\n%s", w->file, before, all);
        goto out;
    }
    end = w->end ? fx_str_find(fx_str_n(all, all_n), fx_str_of(w->end), n) : all_n;
    REQUIRE(end != FX_STR_NONE);
    take_apart(t, all + n, end - n, 0, &x);
    for (size_t cut = 1; cut < end - n; cut++) {
        take_apart(t, all + n, end - n, cut, &y);
        if (strcmp(x.said, y.said) != 0 || strcmp(x.thought, y.thought) != 0 || strcmp(x.all, y.all) != 0 || !json_equal(x.calls, y.calls))
            FXTEST_FAIL("%s: cut at %zu it's taken apart another way: %.*s", w->file, cut, (int)(end - n), all + n);
        json_decref(y.calls);
    }
    json_array_remove(messages, json_array_size(messages) - 1);
    json_array_append_new(messages, message_of(&x));
    again = render(tok, messages, false);
    second = fornax_prompt_text(again, &again_n);
    if (all_n != again_n || memcmp(all, second, all_n) != 0)
        FXTEST_FAIL("%s: rendered again it differs:\n%s\n---\n%s", w->file, all + n, second + FX_MIN(n, again_n));
    json_decref(x.calls);
    fornax_prompt_close(again);
out:
    fornax_prompt_close(whole);
    fornax_prompt_close(prompt);
    fornax_turn_close(t);
}

static void conversation(const row *w, const fornax_tokenizer *tok, uint64_t seed)
{
    json_t *messages = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content", "Be kind.", "role", "user", "content", "What is it?");

    for (int i = 0; i < 3; i++) {
        json_t *m = reply_of(w, &seed);
        size_t calls = json_array_size(json_object_get(m, "tool_calls"));

        check_reply(w, tok, messages, m);
        json_decref(m);
        for (size_t k = 0; k < calls; k++) {
            char id[32];

            snprintf(id, sizeof id, "call%05zu", k);
            json_array_append_new(messages, json_pack("{s:s,s:s,s:s}", "role", "tool", "tool_call_id", id, "content", "found it"));
        }
        json_array_append_new(messages, json_pack("{s:s,s:s}", "role", "user", "content", words(&seed)));
    }
    json_decref(messages);
}

TEST(render_parse_render)
{
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        char dir[] = "/tmp/fornax-codec-XXXXXX", a[96], b[96];
        fornax_context *ctx = NULL;
        fornax_tokenizer *tok = NULL;
        fornax_error err = { 0 };

        REQUIRE(mkdtemp(dir));
        snprintf(a, sizeof a, "%s/tokenizer.json", dir);
        snprintf(b, sizeof b, "%s/chat_template.jinja", dir);
        REQUIRE(symlink(FXTEST_DATA "/tokenizer/smollm2/tokenizer.json", a) == 0 && symlink(rows[i].file, b) == 0);
        CHECK_OK(fornax_context_open(&ctx, NULL, &err), err);
        CHECK_OK(fornax_tokenizer_open(&tok, ctx, dir, &err), err);
        for (uint64_t k = 0; k < 50 && tok; k++)
            conversation(&rows[i], tok, k + 1);
        fornax_tokenizer_close(tok);
        fornax_context_close(ctx);
        CHECK(unlink(a) == 0 && unlink(b) == 0 && rmdir(dir) == 0);
    }
}

FXTEST_MAIN()
