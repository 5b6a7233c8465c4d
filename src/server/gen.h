/* gen.h - generations behind /v1/chat/completions and /v1/completions.
 *
 * One HTTP request becomes one engine request per prompt, each with n choices.
 * Events are turned into chunks (streaming) or gathered into one answer. */
#ifndef FX_GEN_H
#define FX_GEN_H

#include "server/fields.h"
#include "server/http.h"

/* What both routes read; a route's table says which fields it has. */
typedef struct fx_gen_body {
    fx_str model;
    double temperature, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty;
    int64_t top_k, n, max_tokens, max_completion_tokens, min_tokens, seed, priority, top_logprobs, logprobs_int, best_of;
    bool stream, ignore_eos, logprobs, echo, add_generation_prompt, parse_special, parallel_tool_calls;
    fx_str cache_salt, truncation, regex, grammar, reasoning_effort;
    const json_t *stop, *stop_token_ids, *logit_bias, *stream_options, *messages, *prompt, *tools, *tool_choice,
        *response_format, *choice, *kwargs, *modalities;
} fx_gen_body;

/* Field rows of sampling that both routes share. */
#define FX_GEN_FIELDS                                                                          \
    { "model", FX_F_STR, offsetof(fx_gen_body, model), 0, 0 },                                 \
    { "temperature", FX_F_NUM, offsetof(fx_gen_body, temperature), 0, 2 },                     \
    { "top_p", FX_F_NUM, offsetof(fx_gen_body, top_p), 0, 1 },                                 \
    { "min_p", FX_F_NUM, offsetof(fx_gen_body, min_p), 0, 1 },                                 \
    { "top_k", FX_F_INT, offsetof(fx_gen_body, top_k), -1, 1e9 },                              \
    { "repetition_penalty", FX_F_NUM, offsetof(fx_gen_body, repetition_penalty), 0.01, 100 },  \
    { "frequency_penalty", FX_F_NUM, offsetof(fx_gen_body, frequency_penalty), -2, 2 },        \
    { "presence_penalty", FX_F_NUM, offsetof(fx_gen_body, presence_penalty), -2, 2 },          \
    { "n", FX_F_INT, offsetof(fx_gen_body, n), 1, 128 },                                       \
    { "min_tokens", FX_F_INT, offsetof(fx_gen_body, min_tokens), 0, 1e9 },                     \
    { "seed", FX_F_INT, offsetof(fx_gen_body, seed), -9.3e18, 9.3e18 },                        \
    { "priority", FX_F_INT, offsetof(fx_gen_body, priority), -1000000, 1000000 },              \
    { "stream", FX_F_BOOL, offsetof(fx_gen_body, stream), 0, 0 },                              \
    { "ignore_eos", FX_F_BOOL, offsetof(fx_gen_body, ignore_eos), 0, 0 },                      \
    { "cache_salt", FX_F_STR, offsetof(fx_gen_body, cache_salt), 0, 0 },                       \
    { "stop", FX_F_JSON, offsetof(fx_gen_body, stop), 0, 0 },                                  \
    { "stop_token_ids", FX_F_JSON, offsetof(fx_gen_body, stop_token_ids), 0, 0 },              \
    { "logit_bias", FX_F_JSON, offsetof(fx_gen_body, logit_bias), 0, 0 },                      \
    { "response_format", FX_F_JSON, offsetof(fx_gen_body, response_format), 0, 0 },            \
    { "regex", FX_F_STR, offsetof(fx_gen_body, regex), 0, 0 },                                 \
    { "grammar", FX_F_STR, offsetof(fx_gen_body, grammar), 0, 0 },                             \
    { "choice", FX_F_JSON, offsetof(fx_gen_body, choice), 0, 0 },                              \
    { "stream_options", FX_F_JSON, offsetof(fx_gen_body, stream_options), 0, 0 },              \
    { "user", FX_F_IGNORE, 0, 0, 0 },                                                          \
    { "metadata", FX_F_IGNORE, 0, 0, 0 },                                                      \
    { "store", FX_F_IGNORE, 0, 0, 0 },                                                         \
    { "service_tier", FX_F_IGNORE, 0, 0, 0 },                                                  \
    { "safety_identifier", FX_F_IGNORE, 0, 0, 0 },                                             \
    { "prompt_cache_key", FX_F_IGNORE, 0, 0, 0 }

extern const fx_gen_body fx_gen_defaults;

/* Entry i of the field 'name' as a token id of the model. */
fx_status fx_gen_id(const fx_http *h, const json_t *v, const char *name, size_t i, int32_t *id, fx_error *err);

/* Makes a generation without prompts yet. body: borrowed until fx_gen_submit. */
fx_status fx_gen_new(fx_gen **out, fx_call *c, const fx_gen_body *body, bool chat, fx_error *err);
/* Adds a prompt: ids are copied. text: shown first where 'echo' was asked for. */
fx_status fx_gen_prompt(fx_gen *g, const int32_t *ids, size_t n, fx_str text, fx_error *err);
void fx_gen_truncated(fx_gen *g, size_t n);    /* so many tokens of the conversation were left out */
/* Taken over: what the text is held to; what a chat reply may be. */
void fx_gen_hold(fx_gen *g, fornax_grammar *grammar);
void fx_gen_turn(fx_gen *g, fornax_turn *turn);
fx_status fx_gen_submit(fx_gen *g, fx_error *err);
void fx_gen_free(fx_gen *g);                   /* cancels and closes its requests; may wait for a step */
fx_job *fx_gen_job(fx_gen *g);                 /* for the job that frees it */

/* Under the server's lock, on the pump thread: takes what request 'index' has, appends to the
 * call's answer. True when there is something new for the connection. */
bool fx_gen_drain(fx_gen *g, uint32_t index);
/* Under the lock: a comment for a stream on which nothing was sent since 'before_ns', so that nobody between us and
 * the client takes it for dead. True when there is one. */
bool fx_gen_keep_alive(fx_gen *g, uint64_t before_ns);
void fx_gen_cancel(fx_gen *g);                 /* never waits */
void fx_gen_stop(fx_gen *g);                   /* under the lock: ends its answer, the server shuts down */
size_t fx_gen_requests(const fx_gen *g);
int fx_gen_fd(const fx_gen *g, size_t index);

#endif
