/* session.c - a conversation on an engine: messages kept as JSON, each turn rendered whole by
 * the template (the engine's prefix tree makes that cheap), the reply streamed and kept. */
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

static fx_status copy_bytes(fx_arena *a, const void **at, size_t n, size_t each, fx_error *err)
{
    if (n == 0)
        return FORNAX_OK;
    void *copy = fx_arena_array(a, n, each);
    if (!copy)
        return fx_nomem(err, "a session's options");
    memcpy(copy, *at, n * each);
    *at = copy;
    return FORNAX_OK;
}

static fx_status copy_sampling(fornax_session *s, const fornax_request_options *o, fx_error *err)
{
    fornax_string *stops;

    FX_TRY(fx_api_options(&s->sampling, sizeof s->sampling, o, "fornax_request_options", err));
    o = &s->sampling;
    FX_TRY(copy_bytes(&s->arena, (const void **)&s->sampling.logit_bias, o->n_logit_bias, sizeof *o->logit_bias, err));
    FX_TRY(copy_bytes(&s->arena, (const void **)&s->sampling.stop_ids, o->n_stop_ids, sizeof *o->stop_ids, err));
    stops = FX_ARENA_NEWN(&s->arena, fornax_string, o->n_stop + 1);
    if (!stops)
        return fx_nomem(err, "a session's options");
    for (size_t i = 0; i < o->n_stop; i++) {
        stops[i] = (fornax_string){ fx_arena_strdup(&s->arena, o->stop[i].p, o->stop[i].n), o->stop[i].n };
        if (!stops[i].p)
            return fx_nomem(err, "a session's options");
    }
    s->sampling.stop = stops;
    if (o->cache_salt && !(s->sampling.cache_salt = fx_arena_strdup(&s->arena, o->cache_salt, strlen(o->cache_salt))))
        return fx_nomem(err, "a session's options");
    s->sampling.n = 1;
    s->sampling.on_event = NULL;
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
    json_object_set_new(m, "role", json_string(role));
    json_object_set_new(m, "content", content);
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
    fornax_context *ctx = fornax_engine_model(engine)->ctx;
    fornax_session *s;

    *out = NULL;
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

    if (whole && s->kwargs)
        json_object_set(whole, "kwargs", s->kwargs);
    text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
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

static fx_status stream(fornax_session *s, fornax_request *req, fornax_piece_fn piece, void *user, fx_buf *reply,
                        fx_error *err)
{
    const fornax_event *e;
    bool manual = fornax_engine_fd(s->engine) >= 0;

    for (;;) {
        int did;
        fx_status st = fornax_request_next(req, &e, manual ? 0 : -1, err);

        if (st == FORNAX_ETIMEOUT && manual) {
            FX_TRY(fornax_engine_step(s->engine, &did, err));
            continue;
        }
        FX_TRY(st);
        if (e->kind == FORNAX_EVENT_DONE)
            break;
        fx_buf_add(reply, e->text, e->text_n);
        if (e->text_n > 0 && piece && piece(user, e->text, e->text_n) != 0)
            fornax_request_cancel(req);
    }
    if (e->status != FORNAX_OK)
        return fx_fail(err, e->status, "%s", e->error ? e->error : "the request was cancelled");
    return FORNAX_OK;
}

fornax_status fornax_session_say(fornax_session *s, const char *text, fornax_piece_fn piece, void *user,
                                 fornax_error *err)
{
    size_t before = json_array_size(s->messages);
    fornax_request *req = NULL;
    fx_buf reply;
    fx_status st, kept;

    FX_TRY(fx_api_usable(s->ctx, err));
    FX_TRY(add_message(s, "user", text, strlen(text), err));
    st = submit(s, &req, err);
    if (st != FORNAX_OK) {               /* the message wasn't sent: as if it hadn't been said */
        json_array_remove(s->messages, before);
        return st;
    }
    fx_buf_init(&reply, &s->ctx->mem);
    st = stream(s, req, piece, user, &reply, err);
    kept = reply.failed ? fx_nomem(err, "the reply")
                        : add_message(s, "assistant", fx_buf_view(&reply).p, reply.n, st == FORNAX_OK ? err : NULL);
    fx_buf_done(&reply);
    fornax_request_close(req);
    return st != FORNAX_OK ? st : kept;
}

const char *fornax_session_messages(const fornax_session *s)
{
    fornax_session *mut = (fornax_session *)s;           /* one thread at a time */

    fx_api_json_free(mut->dump);
    mut->dump = json_dumps(s->messages, JSON_COMPACT);
    return mut->dump ? mut->dump : "[]";
}

void fornax_session_clear(fornax_session *s)
{
    json_array_clear(s->messages);
    if (s->system)
        add_message(s, "system", s->system, strlen(s->system), NULL);
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
