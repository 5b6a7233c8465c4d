/* api_engine.c - fornax_engine and fornax_request: engine/ with a model behind it. */
#include "engine/engine.h"

#include <string.h>

#include "api/api.h"

struct fornax_engine {
    fornax_model *model;
    fx_exec *exec;
    fx_engine *e;
};

static void run_step(void *user, const fx_step *step) { fx_exec_run(user, step); }
static float *step_logits(void *user, int64_t i) { return fx_exec_logits(user, i); }

static fx_status open_engine(fornax_engine *e, const fornax_engine_options *given, fx_error *err)
{
    fornax_model *m = e->model;
    const fx_state_table *state = fx_program_state(m->program);
    fornax_engine_options o;
    fx_buf identity;
    fx_status st;

    FX_TRY(fx_engine_resolve(&o, given, state, m->info.max_context, err));
    FX_TRY(fx_exec_new(&e->exec, m->program, m->ctx->pool, o.step_tokens, o.max_batch, err));
    fx_buf_init(&identity, &m->ctx->mem);
    fx_buf_add(&identity, &m->fingerprint, sizeof m->fingerprint);
    fx_buf_puts(&identity, m->info.numerics_id);
    const fx_engine_config config = {
        .mem = &m->ctx->mem, .log = &m->ctx->log, .pool = m->ctx->pool,
        .stepper = { e->exec, state, m->info.vocab_size, run_step, step_logits },
        .tokenizer = m->tok->t, .options = &o, .eos = m->tok->eos, .n_eos = m->tok->n_eos,
        .identity = fx_buf_view(&identity), .max_context = m->info.max_context,
    };
    st = identity.failed ? fx_nomem(err, "an engine") : fx_engine_open(&e->e, &config, err);
    fx_buf_done(&identity);
    return st;
}

fornax_status fornax_engine_open(fornax_engine **out, fornax_model *model, const fornax_engine_options *opt,
                                 fornax_error *err)
{
    fornax_engine_options given = FORNAX_OPTIONS(fornax_engine_options);
    fornax_engine *e;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(model);
    FX_TRY(fx_api_usable(model->ctx, err));
    FX_TRY(fx_api_options(&given, sizeof given, opt, "fornax_engine_options", err));
    e = fx_mem_zalloc(&model->ctx->mem, sizeof *e);
    if (!e)
        return fx_nomem(err, "an engine");
    e->model = model;
    st = open_engine(e, &given, err);
    if (st != FORNAX_OK) {
        fornax_engine_close(e);
        return st;
    }
    *out = e;
    return FORNAX_OK;
}

void fornax_engine_close(fornax_engine *engine)
{
    if (!engine)
        return;
    fx_engine_close(engine->e);
    fx_exec_free(engine->exec);
    fx_mem_free(&engine->model->ctx->mem, engine, sizeof *engine);
}

fornax_model *fornax_engine_model(const fornax_engine *engine) { return engine->model; }

fornax_status fornax_engine_step(fornax_engine *engine, int *did, fornax_error *err)
{
    int any;

    FX_API_NEED(engine);
    FX_TRY(fx_api_usable(engine->model->ctx, err));
    return fx_engine_step(engine->e, did ? did : &any, err);
}

int fornax_engine_fd(const fornax_engine *engine) { return fx_engine_fd(engine->e); }

void fornax_engine_get_stats(const fornax_engine *engine, fornax_engine_stats *stats)
{
    fornax_engine_stats all = FORNAX_OPTIONS(fornax_engine_stats);
    size_t size = FX_MIN(stats->size, sizeof all);

    fx_engine_get_stats(engine->e, &all);
    all.launches = fx_exec_launches(engine->exec);
    all.generated = fx_exec_generated(engine->exec);
    all.size = size;
    memcpy(stats, &all, size);
}

void fornax_engine_drop_cache(fornax_engine *engine) { fx_engine_drop_cache(engine->e); }

/* ---- Requests: fornax_request is fx_request under its public name ---- */

fornax_status fornax_request_submit(fornax_request **out, fornax_engine *engine, const fornax_request_options *opt,
                                    fornax_error *err)
{
    fornax_request_options given = FORNAX_OPTIONS(fornax_request_options);
    fx_request_grammar held = { 0 };
    fx_request_adapter with = { 0 };
    fx_request *r = NULL;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(engine);
    FX_API_NEED(opt);
    FX_TRY(fx_api_usable(engine->model->ctx, err));
    FX_TRY(fx_api_has_logits(engine->model, err));
    FX_TRY(fx_api_options(&given, sizeof given, opt, "fornax_request_options", err));
    if (given.adapter && given.adapter->model != engine->model)
        return fx_fail_param(err, FORNAX_EARG, "adapter", "adapter: it belongs to another model");
    if (given.grammar) {
        held.gram = fx_api_gram(given.grammar);
        FX_TRY(fx_api_vocab(&held.vocab, engine->model, err));
    }
    if (given.adapter) {
        fornax_adapter *a = (fornax_adapter *)given.adapter;      /* its count of users */

        with = (fx_request_adapter){ a->adapter, fx_str_n((const char *)&a->identity, sizeof a->identity),
                                     fx_api_adapter_drop, a };
        atomic_fetch_add(&a->refs, 1);
    }
    st = fx_request_submit_with(&r, engine->e, &given, &with, held.gram ? &held : NULL, err);
    *out = (fornax_request *)r;
    return st;
}

fornax_status fornax_request_next(fornax_request *req, const fornax_event **event, int timeout_ms, fornax_error *err)
{
    FX_API_NEED(event);
    *event = NULL;
    FX_API_NEED(req);
    return fx_request_next((fx_request *)req, event, timeout_ms, err);
}

int fornax_request_fd(const fornax_request *req) { return fx_request_fd((fx_request *)req); }
uint64_t fornax_request_seed(const fornax_request *req) { return fx_request_seed((const fx_request *)req); }
void fornax_request_cancel(fornax_request *req) { fx_request_cancel((fx_request *)req); }
void fornax_request_close(fornax_request *req) { fx_request_close((fx_request *)req); }
