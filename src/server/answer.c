/* answer.c - what a generation's events become: chunks of a stream, or one answer. */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "server/gen_int.h"

/* ---- Log-probabilities ---- */

static fx_str token_text(const fx_gen *g, int32_t id)
{
    size_t n;
    const char *p = fornax_token_bytes(g->call->http->tok, id, &n);

    return fx_str_n(p ? p : "", p ? n : 0);
}

/* Infinities aren't JSON; -9999 is what the protocol's makers send. */
static void put_logprob(fx_buf *b, float x) { fx_buf_double(b, isfinite(x) ? (double)x : -9999.0); }

static void chat_token(fx_buf *b, const fx_gen *g, int32_t id, float logprob)
{
    fx_str s = token_text(g, id);

    fx_buf_puts(b, "{\"token\": \"");
    fx_buf_json(b, s);
    fx_buf_puts(b, "\", \"logprob\": ");
    put_logprob(b, logprob);
    fx_buf_puts(b, ", \"bytes\": [");
    for (size_t i = 0; i < s.n; i++)
        fx_buf_printf(b, "%s%u", i ? ", " : "", (unsigned char)s.p[i]);
    fx_buf_putc(b, ']');
}

static void chat_logprob(fx_buf *b, const fx_gen *g, const fornax_event *e)
{
    chat_token(b, g, e->token, e->logprob);
    fx_buf_puts(b, ", \"top_logprobs\": [");
    for (int i = 0; i < e->n_top; i++) {
        fx_buf_puts(b, i ? ", " : "");
        chat_token(b, g, e->top[i].id, e->top[i].logprob);
        fx_buf_putc(b, '}');
    }
    fx_buf_puts(b, "]}");
}

/* A token in the completions format, which has no room for bytes: those that are no text are spelled out. */
static void put_token(fx_buf *b, fx_str token)
{
    if (fx_utf8_valid(token)) {
        fx_buf_json(b, token);
        return;
    }
    fx_buf_puts(b, "bytes:");
    for (size_t i = 0; i < token.n; i++)
        fx_buf_printf(b, "\\\\x%02x", (unsigned char)token.p[i]);
}

static void completion_logprob(fx_gen_choice *c, const fx_gen *g, const fornax_event *e)
{
    const char *comma = c->lp.n ? ", " : "";

    fx_buf_printf(&c->lp, "%s\"", comma);
    put_token(&c->lp, token_text(g, e->token));
    fx_buf_putc(&c->lp, '"');
    fx_buf_puts(&c->lp_values, comma);
    put_logprob(&c->lp_values, e->logprob);
    fx_buf_printf(&c->lp_top, "%s{", comma);
    for (int i = 0; i < e->n_top; i++) {
        fx_buf_puts(&c->lp_top, i ? ", \"" : "\"");
        put_token(&c->lp_top, token_text(g, e->top[i].id));
        fx_buf_puts(&c->lp_top, "\": ");
        put_logprob(&c->lp_top, e->top[i].logprob);
    }
    fx_buf_putc(&c->lp_top, '}');
    fx_buf_printf(&c->lp_offsets, "%s%zu", comma, c->offset);
}

static void put_completion_logprobs(fx_buf *b, fx_gen_choice *c)
{
    fx_buf_puts(b, "{\"tokens\": [");
    fx_buf_str(b, fx_buf_view(&c->lp));
    fx_buf_puts(b, "], \"token_logprobs\": [");
    fx_buf_str(b, fx_buf_view(&c->lp_values));
    fx_buf_puts(b, "], \"top_logprobs\": [");
    fx_buf_str(b, fx_buf_view(&c->lp_top));
    fx_buf_puts(b, "], \"text_offset\": [");
    fx_buf_str(b, fx_buf_view(&c->lp_offsets));
    fx_buf_puts(b, "]}");
}

static void add_logprob(fx_gen_choice *c, const fx_gen *g, const fornax_event *e)
{
    if (!g->chat) {
        completion_logprob(c, g, e);
        return;
    }
    fx_buf_puts(&c->lp, c->lp.n ? ", " : "");
    chat_logprob(&c->lp, g, e);
}

static void put_logprobs(fx_buf *b, const fx_gen *g, fx_gen_choice *c)
{
    if (!g->logprobs) {
        fx_buf_puts(b, "null");
    } else if (!g->chat) {
        put_completion_logprobs(b, c);
    } else {
        fx_buf_puts(b, "{\"content\": [");
        fx_buf_str(b, fx_buf_view(&c->lp));
        fx_buf_puts(b, "], \"refusal\": null}");
    }
}

static void clear_logprobs(fx_gen_choice *c)
{
    fx_buf_clear(&c->lp);
    fx_buf_clear(&c->lp_values);
    fx_buf_clear(&c->lp_top);
    fx_buf_clear(&c->lp_offsets);
}

/* ---- Answers ---- */

/* A turn that ends with calls is the caller's to answer, whoever asked for them. */
static const char *finish_reason(const fx_gen_choice *c)
{
    fornax_finish f = c->finish;

    if (f == FORNAX_FINISH_STOP && c->calls.n > 0)
        return "\"tool_calls\"";
    return f == FORNAX_FINISH_LENGTH ? "\"length\"" : f == FORNAX_FINISH_STOP ? "\"stop\"" : "null";
}

static void put_head(fx_buf *b, const fx_gen *g, const char *object)
{
    fx_buf_printf(b, "{\"id\": \"%s%s\", \"object\": \"%s\", \"created\": %lld, \"model\": \"",
                  g->chat ? "chatcmpl-" : "cmpl-", g->call->id, object, (long long)g->created);
    fx_buf_json(b, g->model);
    fx_buf_puts(b, "\", \"system_fingerprint\": \"");
    fx_buf_json(b, fx_str_of(fornax_model_get_info(g->call->http->model)->numerics_id));
    fx_buf_printf(b, "\", \"seed\": %lld, \"choices\": [", (long long)g->opt.seed);
}

static void put_usage(fx_buf *b, const fx_gen *g)
{
    fx_buf_printf(b, "{\"prompt_tokens\": %lld, \"completion_tokens\": %lld, \"total_tokens\": %lld, "
                     "\"prompt_tokens_details\": {\"cached_tokens\": %lld",
                  (long long)g->prompt_tokens, (long long)g->generated_tokens,
                  (long long)(g->prompt_tokens + g->generated_tokens), (long long)g->cached_tokens);
    if (g->truncated > 0)
        fx_buf_printf(b, ", \"truncated_tokens\": %zu", g->truncated);
    fx_buf_puts(b, "}}");
}

/* ---- Chunks ---- */

/* What stands in "delta" (chat) or "text" (completions) goes between the two. */
static fx_buf *open_chunk(fx_gen *g, size_t index)
{
    fx_buf *b = &g->call->out;

    fx_buf_puts(b, "data: ");
    put_head(b, g, g->chat ? "chat.completion.chunk" : "text_completion");
    fx_buf_printf(b, "{\"index\": %zu, %s", index, g->chat ? "\"delta\": {" : "\"text\": \"");
    return b;
}

static void close_chunk(fx_gen *g, size_t index)
{
    fx_gen_choice *c = &g->choices[index];
    fx_buf *b = &g->call->out;

    fx_buf_puts(b, g->chat ? "}, \"logprobs\": " : "\", \"logprobs\": ");
    if (c->lp.n > 0)
        put_logprobs(b, g, c);
    else
        fx_buf_puts(b, "null");
    fx_buf_printf(b, ", \"finish_reason\": %s}]%s}\n\n", finish_reason(c), g->include_usage ? ", \"usage\": null" : "");
    clear_logprobs(c);
}

static void put_string(fx_buf *b, const char *key, fx_str text)
{
    fx_buf_printf(b, "\"%s\": ", key);
    fx_buf_json_string(b, text);
}

static void string_chunk(fx_gen *g, size_t index, const char *key, fx_str text)
{
    fx_buf *b = open_chunk(g, index);

    if (g->chat)
        put_string(b, key, text);
    else
        fx_buf_json(b, text);
    close_chunk(g, index);
}

static void begin_choice(fx_gen *g, size_t index)
{
    fx_gen_choice *c = &g->choices[index];

    if (c->begun)
        return;
    c->begun = true;
    if (g->chat) {
        fx_buf_puts(open_chunk(g, index), "\"role\": \"assistant\", \"content\": \"\"");
        close_chunk(g, index);
    } else if (g->echo) {
        string_chunk(g, index, NULL, fx_buf_view(&g->prompts.at[index / (size_t)g->opt.n].text));
    }
}

/* ---- Parts of a chat reply ---- */

static void put_call(fx_buf *b, const fx_gen_call *call, size_t index, bool with_index)
{
    fx_buf_putc(b, '{');
    if (with_index)
        fx_buf_printf(b, "\"index\": %zu, ", index);
    put_string(b, "id", fx_str_of(call->id));
    fx_buf_puts(b, ", \"type\": \"function\", \"function\": {");
    put_string(b, "name", fx_buf_view(&call->name));
    fx_buf_puts(b, ", ");
    put_string(b, "arguments", fx_buf_view(&call->arguments));
    fx_buf_puts(b, "}}");
}

static void begin_call(fx_gen_choice *c, fx_str name)
{
    fx_gen_call call = { 0 };

    snprintf(call.id, sizeof call.id, "call_%.20s%02zx%02zx", c->gen->call->id, c->index & 255, c->calls.n & 255);
    fx_buf_init(&call.name, &fx_mem_libc);
    fx_buf_init(&call.arguments, &fx_mem_libc);
    fx_buf_str(&call.name, name);
    c->gen->lost |= call.name.failed || !FX_VEC_PUSH(&c->calls, &fx_mem_libc, call);
}

static void stream_part(fx_gen_choice *c, const fornax_part *p)
{
    fx_gen *g = c->gen;
    fx_str text = fx_str_n(p->text, p->n);
    fx_buf *b;

    switch (p->kind) {
    case FORNAX_PART_TEXT: string_chunk(g, c->index, "content", text); break;
    case FORNAX_PART_THOUGHT: string_chunk(g, c->index, "reasoning_content", text); break;
    case FORNAX_PART_CALL:
        b = open_chunk(g, c->index);
        fx_buf_puts(b, "\"tool_calls\": [");
        put_call(b, &c->calls.at[c->calls.n - 1], c->calls.n - 1, true);
        fx_buf_putc(b, ']');
        close_chunk(g, c->index);
        break;
    case FORNAX_PART_ARGUMENTS:
        b = open_chunk(g, c->index);
        fx_buf_printf(b, "\"tool_calls\": [{\"index\": %zu, \"function\": {", c->calls.n - 1);
        put_string(b, "arguments", text);
        fx_buf_puts(b, "}}]");
        close_chunk(g, c->index);
        break;
    default: break;
    }
}

static void gather_part(fx_gen_choice *c, const fornax_part *p)
{
    fx_buf *to = p->kind == FORNAX_PART_TEXT ? &c->text : p->kind == FORNAX_PART_THOUGHT ? &c->thought
                 : p->kind == FORNAX_PART_ARGUMENTS ? &c->calls.at[c->calls.n - 1].arguments : NULL;

    if (!to)
        return;
    fx_buf_add(to, p->text, p->n);
    c->gen->held += p->n;
    c->gen->lost |= to->failed;
}

static void take_part(void *user, const fornax_part *p)
{
    fx_gen_choice *c = user;

    if (p->kind == FORNAX_PART_CALL)
        begin_call(c, fx_str_n(p->text, p->n));
    if (c->gen->lost)
        return;
    if (c->gen->stream)
        stream_part(c, p);
    else
        gather_part(c, p);
}

/* ---- Events ---- */

/* How much a choice holds beside its reply's parts, and whether memory ran out for it. */
static size_t held(const fx_gen_choice *c, bool *failed)
{
    *failed = c->text.failed || c->lp.failed || c->lp_values.failed || c->lp_top.failed || c->lp_offsets.failed;
    return (c->reply ? 0 : c->text.n) + c->lp.n + c->lp_values.n + c->lp_top.n + c->lp_offsets.n;
}

static void take_text(fx_gen *g, size_t index, fx_str text, bool ends)
{
    fx_gen_choice *c = &g->choices[index];

    if (c->reply) {
        g->lost |= fornax_reply_feed(c->reply, text.p, text.n, NULL) != FORNAX_OK;
        g->lost |= ends && fornax_reply_end(c->reply, NULL) != FORNAX_OK;
    } else if (!g->stream) {
        fx_buf_str(&c->text, text);
    } else if (text.n > 0) {
        string_chunk(g, index, "content", text);
    }
}

/* The reply's tokens, its end token too, for when the conversation comes back with its calls. */
static void keep_tokens(fx_gen_choice *c, const fornax_event *e)
{
    fx_gen *g = c->gen;

    if (e->token >= 0)
        g->lost |= !FX_VEC_PUSH(&c->ids, &fx_mem_libc, e->token);
    if (e->kind == FORNAX_EVENT_FINISH && c->calls.n > 0)
        fx_emitted_add(&g->call->http->emitted, c->calls.at[0].id, c->ids.at, c->ids.n);
}

void fx_answer_event(fx_gen *g, size_t index, const fornax_event *e)
{
    fx_gen_choice *c = &g->choices[index];
    fx_str text = fx_str_n(e->text, e->text_n);
    bool ends = e->kind == FORNAX_EVENT_FINISH, failed;
    size_t before = held(c, &failed);

    if (e->kind == FORNAX_EVENT_TOKEN && g->logprobs)
        add_logprob(c, g, e);
    c->offset += fx_utf8_count(text);
    if (g->stream)
        begin_choice(g, index);
    take_text(g, index, text, ends);
    if (c->reply)
        keep_tokens(c, e);
    c->finish = ends ? e->finish : FORNAX_FINISH_NONE;
    if (!g->stream) {
        g->held += held(c, &failed) - before;
        g->lost |= failed;
    } else if (c->lp.n > 0 || ends) {
        open_chunk(g, index);
        close_chunk(g, index);
    }
}

/* ---- The beginning and the end ---- */

static fx_status begin_reply(fx_gen *g, fx_gen_choice *c, size_t index, fx_error *err)
{
    fx_buf *bufs[] = { &c->text, &c->thought, &c->lp, &c->lp_values, &c->lp_top, &c->lp_offsets };

    c->gen = g;
    c->index = index;
    for (size_t b = 0; b < FX_COUNT(bufs); b++)
        fx_buf_init(bufs[b], &fx_mem_libc);
    fx_buf_str(&c->text, fx_buf_view(&g->prompts.at[index / (size_t)g->opt.n].text));
    c->offset = fx_utf8_count(fx_buf_view(&c->text));
    return g->turn ? fornax_reply_open(&c->reply, g->turn, take_part, c, err) : FORNAX_OK;
}

fx_status fx_answer_begin(fx_gen *g, fx_error *err)
{
    size_t n = g->prompts.n * (size_t)g->opt.n;

    g->choices = calloc(n, sizeof *g->choices);
    if (!g->choices)
        return fx_nomem(err, "choices");
    for (size_t i = 0; i < n; i++)
        FX_TRY(begin_reply(g, &g->choices[i], i, err));
    return FORNAX_OK;
}

void fx_answer_free(fx_gen *g)
{
    for (size_t i = 0; g->choices && i < g->prompts.n * (size_t)g->opt.n; i++) {
        fx_gen_choice *c = &g->choices[i];
        fx_buf *bufs[] = { &c->text, &c->thought, &c->lp, &c->lp_values, &c->lp_top, &c->lp_offsets };

        for (size_t b = 0; c->gen && b < FX_COUNT(bufs); b++)
            fx_buf_done(bufs[b]);
        for (size_t k = 0; k < c->calls.n; k++) {
            fx_buf_done(&c->calls.at[k].name);
            fx_buf_done(&c->calls.at[k].arguments);
        }
        FX_VEC_FREE(&c->calls, &fx_mem_libc);
        FX_VEC_FREE(&c->ids, &fx_mem_libc);
        fornax_reply_close(c->reply);
    }
    free(g->choices);
}

/* Text, or null where calls stand in its place. */
static void put_message(fx_buf *b, const fx_gen_choice *c)
{
    fx_buf_puts(b, "\"message\": {\"role\": \"assistant\", ");
    if (c->text.n > 0 || c->calls.n == 0)
        put_string(b, "content", fx_buf_view(&c->text));
    else
        fx_buf_puts(b, "\"content\": null");
    if (c->thought.n > 0) {
        fx_buf_puts(b, ", ");
        put_string(b, "reasoning_content", fx_buf_view(&c->thought));
    }
    for (size_t k = 0; k < c->calls.n; k++) {
        fx_buf_puts(b, k ? ", " : ", \"tool_calls\": [");
        put_call(b, &c->calls.at[k], k, false);
    }
    fx_buf_puts(b, c->calls.n ? "], \"refusal\": null}" : ", \"refusal\": null}");
}

void fx_answer_whole(fx_gen *g)
{
    fx_buf *b = &g->call->out;

    put_head(b, g, g->chat ? "chat.completion" : "text_completion");
    for (size_t i = 0; i < g->prompts.n * (size_t)g->opt.n; i++) {
        fx_gen_choice *c = &g->choices[i];

        fx_buf_printf(b, "%s{\"index\": %zu, ", i ? ", " : "", i);
        if (g->chat)
            put_message(b, c);
        else
            put_string(b, "text", fx_buf_view(&c->text));
        fx_buf_puts(b, ", \"logprobs\": ");
        put_logprobs(b, g, c);
        fx_buf_printf(b, ", \"finish_reason\": %s}", finish_reason(c));
    }
    fx_buf_puts(b, "], \"usage\": ");
    put_usage(b, g);
    fx_buf_puts(b, "}\n");
}

void fx_answer_end_stream(fx_gen *g)
{
    fx_buf *b = &g->call->out;

    if (g->include_usage) {
        fx_buf_puts(b, "data: ");
        put_head(b, g, g->chat ? "chat.completion.chunk" : "text_completion");
        fx_buf_puts(b, "], \"usage\": ");
        put_usage(b, g);
        fx_buf_puts(b, "}\n\n");
    }
    fx_buf_puts(b, "data: [DONE]\n\n");
}
