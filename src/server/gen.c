/* gen.c - generations: request options from a body, events to chunks or to one answer. */
#include "server/gen_int.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"

/* Of an answer that waits: gathered, or not yet taken by a slow reader. */
#define MAX_HELD ((size_t)256 << 20)

const fx_gen_body fx_gen_defaults = {
    .temperature = NAN, .top_p = 1, .min_p = 0, .repetition_penalty = 1, .top_k = -1, .n = 1,
    .max_tokens = FX_NO_INT, .max_completion_tokens = FX_NO_INT, .seed = FX_NO_INT, .top_logprobs = FX_NO_INT,
    .logprobs_int = FX_NO_INT, .best_of = FX_NO_INT, .add_generation_prompt = true, .parse_special = true,
    .parallel_tool_calls = true,
};

fx_job *fx_gen_job(fx_gen *g) { return &g->job; }
size_t fx_gen_requests(const fx_gen *g) { return g->prompts.n; }
int fx_gen_fd(const fx_gen *g, size_t index) { return fornax_request_fd(g->prompts.at[index].req); }

/* ---- From a body to options ---- */

static fx_status bad(fx_error *err, const char *name, const char *what)
{
    return fx_fail_param(err, FORNAX_EARG, name, "%s: expected %s", name, what);
}

fx_status fx_gen_id(const fx_http *h, const json_t *v, const char *name, size_t i, int32_t *id, fx_error *err)
{
    long long vocab = fornax_model_get_info(h->model)->vocab_size, x = json_integer_value(v);

    if (!json_is_integer(v))
        return fx_fail_param(err, FORNAX_EARG, name, "%s[%zu]: expected a token id", name, i);
    if (x < 0 || x >= vocab)
        return fx_fail_param(err, FORNAX_EARG, name, "%s[%zu]: expected an id in 0..%lld, found %lld", name, i,
                             vocab - 1, x);
    *id = (int32_t)x;
    return FORNAX_OK;
}

static fx_status add_stop(fx_gen *g, const json_t *v, fx_error *err)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return bad(err, "stop", "a non-empty string or a list of them");
    char *copy = malloc(json_string_length(v) + 1);
    if (!copy || !FX_VEC_PUSH(&g->stops, &fx_mem_libc, ((fornax_string){ copy, json_string_length(v) }))) {
        free(copy);
        return fx_nomem(err, "stop strings");
    }
    memcpy(copy, json_string_value(v), json_string_length(v) + 1);
    return FORNAX_OK;
}

static fx_status read_stops(fx_gen *g, const fx_gen_body *b, fx_error *err)
{
    if (b->stop && !json_is_array(b->stop))
        FX_TRY(add_stop(g, b->stop, err));
    if (json_array_size(b->stop) > 64)
        return bad(err, "stop", "at most 64 strings");
    for (size_t i = 0; i < json_array_size(b->stop); i++)
        FX_TRY(add_stop(g, json_array_get(b->stop, i), err));
    if (b->stop_token_ids && !json_is_array(b->stop_token_ids))
        return bad(err, "stop_token_ids", "a list of ids");
    for (size_t i = 0; i < json_array_size(b->stop_token_ids); i++) {
        int32_t id;

        FX_TRY(fx_gen_id(g->call->http, json_array_get(b->stop_token_ids, i), "stop_token_ids", i, &id, err));
        if (!FX_VEC_PUSH(&g->stop_ids, &fx_mem_libc, id))
            return fx_nomem(err, "stop ids");
    }
    return FORNAX_OK;
}

static fx_status read_bias(fx_gen *g, const fx_gen_body *b, fx_error *err)
{
    int64_t vocab = fornax_model_get_info(g->call->http->model)->vocab_size;
    const char *key;
    json_t *v;

    if (b->logit_bias && !json_is_object(b->logit_bias))
        return bad(err, "logit_bias", "an object of token ids and numbers");
    json_object_foreach((json_t *)b->logit_bias, key, v) {
        int64_t id;
        double x = json_number_value(v);

        if (!fx_parse_i64(fx_str_of(key), &id) || id < 0 || id >= vocab)
            return fx_fail_param(err, FORNAX_EARG, "logit_bias", "logit_bias: expected token ids below %lld, found '%s'",
                                 (long long)vocab, fx_show(fx_str_of(key)).z);
        if (!json_is_number(v) || !(x >= -100 && x <= 100))
            return fx_fail_param(err, FORNAX_EARG, "logit_bias", "logit_bias: %s: expected a number from -100 to 100", key);
        if (!FX_VEC_PUSH(&g->bias, &fx_mem_libc, ((fornax_logit_bias){ (int32_t)id, (float)x })))
            return fx_nomem(err, "logit_bias");
    }
    return FORNAX_OK;
}

static fx_status read_stream_options(fx_gen *g, const fx_gen_body *b, fx_error *err)
{
    static const fx_field rows[] = {
        { "include_usage", FX_F_BOOL, offsetof(fx_gen, include_usage), 0, 0 },
        { "include_obfuscation", FX_F_IGNORE, 0, 0, 0 },
        { 0 },
    };
    fx_call *c = g->call;

    g->stream = b->stream;
    if (!b->stream_options)
        return FORNAX_OK;
    if (!json_is_object(b->stream_options))
        return bad(err, "stream_options", "an object");
    if (!b->stream)
        return fx_fail_param(err, FORNAX_EARG, "stream_options", "stream_options: only allowed when stream is true");
    return fx_fields_read(b->stream_options, rows, g, "stream_options", c->http->opt.lenient_fields ? &c->ignored : NULL,
                          err);
}

static fx_status read_limits(fx_gen *g, const fx_gen_body *b, fx_error *err)
{
    fornax_request_options *o = &g->opt;
    int64_t max = b->max_completion_tokens != FX_NO_INT ? b->max_completion_tokens : b->max_tokens;

    if (max == FX_NO_INT)
        max = g->chat ? 0 : 16;          /* the protocol's default for completions */
    else if (max == 0)
        max = -1;
    o->max_tokens = max;
    o->min_tokens = b->min_tokens;
    o->logprobs = g->chat ? b->logprobs : b->logprobs_int != FX_NO_INT;
    o->top_logprobs = (int)(g->chat ? (b->top_logprobs == FX_NO_INT ? 0 : b->top_logprobs)
                                    : (b->logprobs_int == FX_NO_INT ? 0 : b->logprobs_int));
    g->logprobs = o->logprobs;
    if (g->chat && !b->logprobs && b->top_logprobs != FX_NO_INT && b->top_logprobs > 0)
        return fx_fail_param(err, FORNAX_EARG, "top_logprobs", "top_logprobs: only allowed when logprobs is true");
    if (b->echo && g->logprobs)
        return fx_fail_param(err, FORNAX_EUNSUP, "echo", "echo: not supported together with logprobs");
    if (b->best_of != FX_NO_INT && b->best_of != b->n)
        return fx_fail_param(err, FORNAX_EUNSUP, "best_of", "best_of: only supported when equal to n");
    g->echo = b->echo;
    return FORNAX_OK;
}

static fx_status read_body(fx_gen *g, const fx_gen_body *b, fx_error *err)
{
    fornax_request_options *o = &g->opt;

    FX_TRY(read_stops(g, b, err));
    FX_TRY(read_bias(g, b, err));
    FX_TRY(read_stream_options(g, b, err));
    FX_TRY(read_limits(g, b, err));
    o->n = (int)b->n;
    o->temperature = (float)(isnan(b->temperature) ? g->call->http->opt.default_temperature : b->temperature);
    o->top_k = b->top_k < 0 ? 0 : (int)FX_MIN(b->top_k, INT32_MAX);
    o->top_p = (float)b->top_p;
    if (b->top_p == 0)                   /* the nucleus of nothing is the best token */
        o->top_k = 1, o->top_p = 1;
    o->min_p = (float)b->min_p;
    o->repetition_penalty = (float)b->repetition_penalty;
    o->frequency_penalty = (float)b->frequency_penalty;
    o->presence_penalty = (float)b->presence_penalty;
    o->has_seed = b->seed != FX_NO_INT;
    o->seed = (uint64_t)b->seed;
    o->ignore_eos = b->ignore_eos;
    o->priority = (int)b->priority;
    o->stop = g->stops.at;
    o->n_stop = g->stops.n;
    o->stop_ids = g->stop_ids.at;
    o->n_stop_ids = g->stop_ids.n;
    o->logit_bias = g->bias.at;
    o->n_logit_bias = g->bias.n;
    if (b->cache_salt.p) {
        g->salt = malloc(b->cache_salt.n + 1);
        if (!g->salt)
            return fx_nomem(err, "cache_salt");
        memcpy(g->salt, b->cache_salt.p, b->cache_salt.n);
        g->salt[b->cache_salt.n] = 0;
        if (strlen(g->salt) != b->cache_salt.n)
            return bad(err, "cache_salt", "a string without zero characters");
        o->cache_salt = g->salt;
    }
    return FORNAX_OK;
}

static fx_status read_model(fx_gen *g, const fx_gen_body *b, fx_error *err)
{
    FX_TRY(fx_lora_find(&g->call->http->loras, b->model, &g->lora, &g->model, err));
    g->opt.adapter = g->lora ? g->lora->adapter : NULL;
    return FORNAX_OK;
}

fx_status fx_gen_new(fx_gen **out, fx_call *c, const fx_gen_body *body, bool chat, fx_error *err)
{
    fx_gen *g = calloc(1, sizeof *g);
    fx_status st;

    *out = NULL;
    if (!g)
        return fx_nomem(err, "the request");
    g->call = c;
    g->chat = chat;
    g->created = fx_clock_unix();
    g->opt = (fornax_request_options)FORNAX_OPTIONS(fornax_request_options);
    st = read_model(g, body, err);
    if (st == FORNAX_OK)
        st = read_body(g, body, err);
    if (st != FORNAX_OK) {
        fx_gen_free(g);
        return st;
    }
    *out = g;
    return FORNAX_OK;
}

fx_status fx_gen_prompt(fx_gen *g, const int32_t *ids, size_t n, fx_str text, fx_error *err)
{
    const char *name = g->chat ? "messages" : "prompt";
    fx_gen_prompt_state p = { 0 };

    if (n == 0)
        return fx_fail_param(err, FORNAX_EARG, name, "%s: no tokens in it", name);
    p.n_ids = n;
    p.ids = malloc(n * sizeof *ids);
    if (!p.ids)
        return fx_nomem(err, "a prompt");
    memcpy(p.ids, ids, n * sizeof *ids);
    fx_buf_init(&p.text, &fx_mem_libc);
    if (g->echo)
        fx_buf_str(&p.text, text);
    if (FX_VEC_PUSH(&g->prompts, &fx_mem_libc, p))
        return FORNAX_OK;
    free(p.ids);
    fx_buf_done(&p.text);
    return fx_nomem(err, "a prompt");
}

void fx_gen_hold(fx_gen *g, fornax_grammar *grammar)
{
    g->grammar = grammar;
    g->opt.grammar = grammar;
}

void fx_gen_turn(fx_gen *g, fornax_turn *turn)
{
    g->turn = turn;
    g->opt.grammar = fornax_turn_grammar(turn);
    g->opt.special_text = fornax_turn_special_text(turn);
}

void fx_gen_truncated(fx_gen *g, size_t n)
{
    g->truncated = n;
    if (n > 0)
        fx_format(g->call->truncated, sizeof g->call->truncated, "%zu", n);
}

fx_status fx_gen_submit(fx_gen *g, fx_error *err)
{
    FX_TRY(fx_answer_begin(g, err));
    for (size_t i = 0; i < g->prompts.n; i++) {
        g->opt.ids = g->prompts.at[i].ids;
        g->opt.n_ids = g->prompts.at[i].n_ids;
        FX_TRY(fornax_request_submit(&g->prompts.at[i].req, g->call->http->engine, &g->opt, err));
        g->opt.seed = fornax_request_seed(g->prompts.at[i].req);
        g->opt.has_seed = 1;
    }
    g->news_ns = fx_clock_ns();
    return FORNAX_OK;
}

void fx_gen_cancel(fx_gen *g)
{
    for (size_t i = 0; g && i < g->prompts.n; i++) {
        if (g->prompts.at[i].req)
            fornax_request_cancel(g->prompts.at[i].req);
    }
}

void fx_gen_free(fx_gen *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->prompts.n; i++)
        fornax_request_close(g->prompts.at[i].req);
    fx_answer_free(g);
    fornax_turn_close(g->turn);
    fornax_grammar_close(g->grammar);
    for (size_t i = 0; i < g->prompts.n; i++) {
        free(g->prompts.at[i].ids);
        fx_buf_done(&g->prompts.at[i].text);
    }
    for (size_t i = 0; i < g->stops.n; i++)
        free((char *)g->stops.at[i].p);
    FX_VEC_FREE(&g->prompts, &fx_mem_libc);
    FX_VEC_FREE(&g->stops, &fx_mem_libc);
    FX_VEC_FREE(&g->stop_ids, &fx_mem_libc);
    FX_VEC_FREE(&g->bias, &fx_mem_libc);
    fx_lora_drop(g->lora);
    free(g->salt);
    free(g);
}

/* ---- Ends ---- */

/* It ended badly: an error answer if nothing is out yet, else an event in the stream. */
static void fail_as(fx_gen *g, const fx_error *err, int status)
{
    fx_call *c = g->call;

    g->failed = true;
    if (!c->ready) {
        fx_reply_error_as(c, err, status);
    } else if (!c->done) {
        fx_buf_puts(&c->out, "data: ");
        fx_error_json(&c->out, err, status);
        fx_buf_puts(&c->out, "\n\ndata: [DONE]\n\n");
        c->done = true;
    }
    fx_gen_cancel(g);
}

void fx_gen_stop(fx_gen *g)
{
    fx_error err = { 0 };

    if (g->failed)
        return;
    fx_fail(&err, FORNAX_ECANCEL, "the server is shutting down");
    fail_as(g, &err, 503);
}

static void fail(fx_gen *g, const fornax_event *e)
{
    fx_error err = { 0 };

    if (g->failed)
        return;
    fx_fail(&err, e->status, "%s", e->error ? e->error : "the request ended early");
    fail_as(g, &err, fx_error_status(&err));
}

/* Whether the answer can still be held; else it ends here. */
static void check_room(fx_gen *g)
{
    const fx_call *c = g->call;
    fx_error err = { 0 };

    if (g->failed || (!g->lost && g->held <= MAX_HELD && c->out.n - c->out_at <= MAX_HELD))
        return;
    if (g->lost)
        fx_nomem(&err, "the answer");
    else
        fx_fail(&err, FORNAX_ENOMEM, "the answer is larger than %zu bytes and was not read", MAX_HELD);
    fail_as(g, &err, fx_error_status(&err));
}

static void finish(fx_gen *g)
{
    fx_call *c = g->call;

    if (g->failed)
        return;
    if (g->stream)
        fx_answer_end_stream(g);
    else
        fx_answer_whole(g);
    c->done = c->ready = true;
    fx_histogram_add(&c->http->whole, c->start_ns, fx_clock_ns());
    if (!g->stream) {
        c->status = 200;
        c->content_type = "application/json";
    }
}

static void begin_answer(fx_gen *g)
{
    fx_call *c = g->call;

    if (!g->stream || c->ready)
        return;
    c->ready = c->streaming = true;
    c->status = 200;
    c->content_type = "text/event-stream; charset=utf-8";
}

static void take_done(fx_gen *g, fx_gen_prompt_state *p, const fornax_event *e)
{
    p->done = true;
    g->n_done++;
    g->prompt_tokens += e->prompt_tokens;
    g->cached_tokens += e->cached_tokens;
    g->generated_tokens += e->generated_tokens;
    if (e->status != FORNAX_OK)
        fail(g, e);
    else if (g->n_done == g->prompts.n)
        finish(g);
}

/* The end of a choice whose request fails: the error comes with DONE. */
static bool ends_badly(const fornax_event *e)
{
    return e->kind == FORNAX_EVENT_FINISH && e->finish != FORNAX_FINISH_STOP && e->finish != FORNAX_FINISH_LENGTH;
}

bool fx_gen_drain(fx_gen *g, uint32_t index)
{
    fx_gen_prompt_state *p = index < g->prompts.n ? &g->prompts.at[index] : NULL;
    const fornax_event *e;
    bool news = false;

    while (p && !p->done && fornax_request_next(p->req, &e, 0, NULL) == FORNAX_OK) {
        news = true;
        if (e->kind == FORNAX_EVENT_DONE) {
            if (e->status == FORNAX_OK)
                begin_answer(g);
            take_done(g, p, e);
        } else if (!g->failed && !ends_badly(e)) {
            begin_answer(g);
            if (!g->first_seen)
                fx_histogram_add(&g->call->http->first_token, g->call->start_ns, fx_clock_ns());
            g->first_seen = true;
            fx_answer_event(g, index * (size_t)g->opt.n + (size_t)e->choice, e);
            check_room(g);
        }
    }
    if (news)
        g->news_ns = fx_clock_ns();
    return news;
}

bool fx_gen_keep_alive(fx_gen *g, uint64_t before_ns)
{
    fx_call *c = g->call;

    if (!g->stream || g->failed || c->done || c->out.n > c->out_at || g->news_ns > before_ns)
        return false;
    begin_answer(g);
    fx_buf_puts(&c->out, ": still at it\n\n");
    g->news_ns = fx_clock_ns();
    return true;
}
