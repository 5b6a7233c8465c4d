/* session.c - a conversation on an engine: messages kept as JSON, each turn rendered whole by
 * the template (the engine's prefix tree makes that cheap), the reply streamed and kept, with its tokens. */
#include <string.h>

#include "api/api.h"

struct fornax_session {
    fornax_engine *engine;
    fornax_context *ctx;
    fx_arena arena;                      /* copies of the options' strings and lists */
    fornax_request_options sampling;
    json_t *messages, *kwargs;
    char *system, *dump;                 /* dump: what fornax_session_messages handed out */
};

static fx_status copy_list(fx_arena *a, const void **at, size_t n, size_t each, const char *name, fx_error *err)
{
    void *copy;

    if (n == 0) {
        *at = NULL;
        return FORNAX_OK;
    }
    FX_TRY(fx_api_need(*at, name, err));
    copy = fx_arena_array(a, n, each);
    if (!copy)
        return fx_nomem(err, "a session's options");
    memcpy(copy, *at, n * each);
    *at = copy;
    return FORNAX_OK;
}

/* The strings of a list that is copied already. */
static fx_status copy_stops(fx_arena *a, fornax_string *stops, size_t n, fx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        FX_TRY(fx_api_need(stops[i].p, "stop", err));
        if (stops[i].n == SIZE_MAX)
            stops[i].n = strlen(stops[i].p);
        stops[i].p = fx_arena_strdup(a, stops[i].p, stops[i].n);
        if (!stops[i].p)
            return fx_nomem(err, "a session's options");
    }
    return FORNAX_OK;
}

static fx_status copy_sampling(fornax_session *s, const fornax_request_options *o, fx_error *err)
{
    fornax_request_options *to = &s->sampling;
    fx_arena *a = &s->arena;

    FX_TRY(fx_api_options(to, sizeof *to, o, "fornax_request_options", err));
    if (to->n < 0 || to->n > 1)
        return fx_fail_param(err, FORNAX_EARG, "n", "n: a session has one reply to a message, found %d", to->n);
    FX_TRY(copy_list(a, (const void **)&to->logit_bias, to->n_logit_bias, sizeof *to->logit_bias, "logit_bias", err));
    FX_TRY(copy_list(a, (const void **)&to->stop_ids, to->n_stop_ids, sizeof *to->stop_ids, "stop_ids", err));
    FX_TRY(copy_list(a, (const void **)&to->stop, to->n_stop, sizeof *to->stop, "stop", err));
    FX_TRY(copy_stops(a, (fornax_string *)to->stop, to->n_stop, err));
    if (to->cache_salt && !(to->cache_salt = fx_arena_strdup(a, to->cache_salt, strlen(to->cache_salt))))
        return fx_nomem(err, "a session's options");
    to->on_event = NULL;
    return FORNAX_OK;
}

static fx_status add_message(fornax_session *s, const char *role, const char *text, size_t n, fx_error *err)
{
    json_t *content = json_stringn(text, n), *m = json_object();

    if (!content || !m) {
        json_decref(content);
        json_decref(m);
        return fx_fail(err, m ? FORNAX_EFORMAT : FORNAX_ENOMEM, m ? "%s message: not UTF-8" : "no memory for a %s message",
                       role);
    }
    bool whole = json_object_set_new(m, "role", json_string(role)) == 0;

    whole = json_object_set_new(m, "content", content) == 0 && whole;
    if (!whole) {
        json_decref(m);
        return fx_nomem(err, "a message");
    }
    return json_array_append_new(s->messages, m) == 0 ? FORNAX_OK : fx_nomem(err, "a message");
}

static fx_status read_kwargs(fornax_session *s, const char *text, fx_error *err)
{
    json_error_t je;

    s->kwargs = json_loads(text, JSON_REJECT_DUPLICATES, &je);
    if (!s->kwargs)
        return fx_fail_param(err, FORNAX_EFORMAT, "kwargs", "kwargs: line %d: %s", je.line, je.text);
    if (!json_is_object(s->kwargs))
        return fx_fail_param(err, FORNAX_EFORMAT, "kwargs", "kwargs: expected a JSON object");
    return FORNAX_OK;
}

static fx_status set_up(fornax_session *s, const fornax_session_options *given, fx_error *err)
{
    fornax_session_options all = FORNAX_OPTIONS(fornax_session_options), *opt = &all;

    FX_TRY(fx_api_options(&all, sizeof all, given, "fornax_session_options", err));
    s->messages = json_array();
    if (!s->messages)
        return fx_nomem(err, "a session");
    s->sampling = (fornax_request_options)FORNAX_OPTIONS(fornax_request_options);
    if (opt->sampling)
        FX_TRY(copy_sampling(s, opt->sampling, err));
    if (opt->kwargs)
        FX_TRY(read_kwargs(s, opt->kwargs, err));
    if (opt->system) {
        s->system = fx_arena_strdup(&s->arena, opt->system, strlen(opt->system));
        if (!s->system)
            return fx_nomem(err, "a session");
        return add_message(s, "system", s->system, strlen(s->system), err);
    }
    return FORNAX_OK;
}

fornax_status fornax_session_open(fornax_session **out, fornax_engine *engine, const fornax_session_options *opt,
                                  fornax_error *err)
{
    fornax_context *ctx;
    fornax_session *s;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(engine);
    ctx = fornax_engine_model(engine)->ctx;
    FX_TRY(fx_api_usable(ctx, err));
    s = fx_mem_zalloc(&ctx->mem, sizeof *s);
    if (!s)
        return fx_nomem(err, "a session");
    s->engine = engine;
    s->ctx = ctx;
    fx_arena_init(&s->arena, &ctx->mem, 0);
    fx_status st = set_up(s, opt, err);
    if (st != FORNAX_OK) {
        fornax_session_close(s);
        return st;
    }
    *out = s;
    return FORNAX_OK;
}

/* The conversation so far as a submitted request. */
static fx_status submit(fornax_session *s, fornax_request **req, fx_error *err)
{
    json_t *whole = json_pack("{s:O}", "messages", s->messages);
    fornax_prompt *prompt = NULL;
    char *text;
    fx_status st;

    bool complete = whole && (!s->kwargs || json_object_set(whole, "kwargs", s->kwargs) == 0);

    text = complete ? json_dumps(whole, JSON_COMPACT) : NULL;
    json_decref(whole);
    if (!text)
        return fx_nomem(err, "the conversation");
    st = fornax_prompt_render(&prompt, fornax_model_tokenizer(fornax_engine_model(s->engine)), text, SIZE_MAX, err);
    fx_api_json_free(text);
    if (st == FORNAX_OK) {
        s->sampling.ids = fornax_prompt_ids(prompt, &s->sampling.n_ids);
        st = fornax_request_submit(req, s->engine, &s->sampling, err);
    }
    fornax_prompt_close(prompt);
    return st;
}

/* ids: gets the reply's tokens. */
static fx_status stream(fornax_session *s, fornax_request *req, fornax_piece_fn piece, void *user, fx_buf *reply, json_t *ids,
                        fx_error *err)
{
    const fornax_event *e;
    bool manual = fornax_engine_fd(s->engine) >= 0;

    for (;;) {
        fx_error none;               /* that there is no event yet is no error of the caller's */
        fx_status st = fornax_request_next(req, &e, manual ? 0 : -1, &none);

        if (st == FORNAX_ETIMEOUT && manual) {
            FX_TRY(fornax_engine_step(s->engine, NULL, err));
            continue;
        }
        if (st != FORNAX_OK)
            return fx_fail(err, st, "%s", none.text);
        if (e->kind == FORNAX_EVENT_DONE)
            break;
        fx_buf_add(reply, e->text, e->text_n);
        if (e->token >= 0 && json_array_append_new(ids, json_integer(e->token)) != 0)
            return fx_nomem(err, "the reply");
        if (e->text_n > 0 && piece && piece(user, e->text, e->text_n) != 0)
            return fx_fail(err, FORNAX_ECANCEL, "the reply was stopped");     /* closing cancels */
    }
    if (e->status != FORNAX_OK)
        return fx_fail(err, e->status, "%s", e->error ? e->error : "the request was cancelled");
    return FORNAX_OK;
}

/* A whole reply's tokens stand in later prompts as they are. */
static fx_status keep_ids(fornax_session *s, json_t *ids, fx_error *err)
{
    json_t *last = json_array_get(s->messages, json_array_size(s->messages) - 1);

    return json_object_set(last, "emitted", ids) == 0 ? FORNAX_OK : fx_nomem(err, "the reply");
}

fornax_status fornax_session_say(fornax_session *s, const char *text, fornax_piece_fn piece, void *user,
                                 fornax_error *err)
{
    fornax_request *req = NULL;
    size_t before;
    json_t *ids;
    fx_buf reply;
    fx_status st, kept;

    FX_TRY(fx_api_need(s, "session", err));
    FX_API_NEED(text);
    FX_TRY(fx_api_usable(s->ctx, err));
    before = json_array_size(s->messages);
    FX_TRY(add_message(s, "user", text, strlen(text), err));
    st = submit(s, &req, err);
    if (st != FORNAX_OK) {               /* the message wasn't sent: as if it hadn't been said */
        json_array_remove(s->messages, before);
        return st;
    }
    fx_buf_init(&reply, &s->ctx->mem);
    ids = json_array();
    st = ids ? stream(s, req, piece, user, &reply, ids, err) : fx_nomem(err, "the reply");
    kept = reply.failed ? fx_nomem(err, "the reply")
                        : add_message(s, "assistant", fx_buf_view(&reply).p, reply.n, st == FORNAX_OK ? err : NULL);
    if (st == FORNAX_OK && kept == FORNAX_OK)
        kept = keep_ids(s, ids, err);
    json_decref(ids);
    fx_buf_done(&reply);
    fornax_request_close(req);
    return st != FORNAX_OK ? st : kept;
}

const char *fornax_session_messages(const fornax_session *s)
{
    fornax_session *mut = (fornax_session *)s;           /* one thread at a time */
    json_t *shown = json_array();
    bool ok = shown != NULL;

    for (size_t i = 0; ok && i < json_array_size(s->messages); i++) {
        json_t *m = json_copy(json_array_get(s->messages, i));

        json_object_del(m, "emitted");
        ok = m && json_array_append_new(shown, m) == 0;
    }
    fx_api_json_free(mut->dump);
    mut->dump = ok ? json_dumps(shown, JSON_COMPACT) : NULL;
    json_decref(shown);
    return mut->dump;
}

void fornax_session_clear(fornax_session *s)
{
    for (size_t n = json_array_size(s->messages); n > (s->system ? 1u : 0u); n--)
        json_array_remove(s->messages, n - 1);
}

void fornax_session_close(fornax_session *s)
{
    if (!s)
        return;
    json_decref(s->messages);
    json_decref(s->kwargs);
    fx_api_json_free(s->dump);
    fx_arena_done(&s->arena);
    fx_mem_free(&s->ctx->mem, s, sizeof *s);
}
