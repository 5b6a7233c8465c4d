/* exec_calls.c - runs generated kernels in place of a plan's launches (kir/pcalls.h).
 *
 * What a call is given is read from the bound arguments when its turn comes: one call of an exec runs at a time, so one
 * set of arguments is enough, and a step allocates nothing.  Ends of products are called by the product's threads, each with
 * a tile of its own. */
#include "kernels/quant.h"
#include "runtime/exec_int.h"

/* Where refs of a kind point into. */
typedef struct sources {
    const fx_exec *x;
    int64_t n_rows;
    const fx_call_tile *tile;    /* of an epilogue, or NULL */
} sources;

static fx_call_panels panels_of(const fx_q8 *q, int64_t n_rows)
{
    int64_t panels = fx_q8_panels(n_rows), narrow = n_rows / panels, wide = n_rows % panels;

    return (fx_call_panels){ .n_wide = wide, .wide = narrow + 1, .n_narrow = panels - wide, .narrow = narrow,
                             .data = q->data, .rest = fx_q8_panel_words(q, wide * (narrow + 1)) };
}

/* The place that a ref means; of panels, in 'room'. */
static const void *find(const sources *s, const fx_call_ref *r, fx_call_panels *room)
{
    const char *base = NULL;

    switch (r->from) {
    case FX_FROM_ARGS: base = (const char *)&s->x->launches[r->launch].l.args; break;
    case FX_FROM_STEP: base = (const char *)s->x->step; break;
    case FX_FROM_TILE: base = (const char *)s->tile; break;
    case FX_FROM_PANELS:
        base = (const char *)&s->x->launches[r->launch].l.args + r->q8;
        *room = panels_of((const fx_q8 *)(const void *)base, s->n_rows);
        base = (const char *)room;
        break;
    }
    return base + r->at;
}

static void gather(const sources *s, const fx_plan_call *c, uint64_t *args, void **buffers)
{
    fx_call_panels room;

    for (int32_t i = 0; i < c->n_args; i++) {
        const void *at = find(s, &c->args[i], &room);

        args[i] = (uint64_t)(c->args[i].narrow ? (int64_t) * (const int32_t *)at : *(const int64_t *)at);
    }
    for (int32_t i = 0; i < c->n_buffers; i++)
        buffers[i] = *(void *const *)find(s, &c->buffers[i], &room);
}

static void run_call(void *user, int64_t t0, int64_t t1, int worker)
{
    const fx_exec_call *c = user;
    fx_kir_fault fault = { .op = -1 };

    c->code->run(c->args, c->buffers, t0, t1, &fault);
    FX_ASSERT(fault.op < 0);
    if (c->rest)
        c->rest->run(&c->rest->l.args, t0, t1, fx_exec_scratch(c->rest->owner, worker));
}

void fx_exec_call_job(fx_exec *x, const fx_plan_call *c, int64_t n_rows, fx_pool_job *job)
{
    const sources s = { .x = x, .n_rows = n_rows };

    atomic_fetch_add_explicit(&x->n_generated, 1, memory_order_relaxed);
    x->call.code = &x->code[c->kernel];
    x->call.rest = c->rest ? &x->launches[c->first] : NULL;
    gather(&s, c, x->call.args, x->call.buffers);
    job->fn = run_call;
    job->user = &x->call;
    job->n_tasks = x->call.code->tasks(x->call.args);
}

/* ---- Ends of products ---- */

static void end_tile(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n)
{
    const fx_exec_launch *l = e->call;
    const fx_plan_call *c = l->call;
    const fx_call_tile tile = { .m = m, .n = n, .ld = ld, .acc = acc, .y = e->y.p + row0 * e->y.ld + col0,
                                .residual = e->residual.p ? e->residual.p + row0 * e->residual.ld + col0 : NULL,
                                .bias = e->bias ? e->bias + col0 : NULL };
    const sources s = { .x = l->owner, .tile = &tile };
    const fx_kcode *code = &l->owner->code[c->kernel];
    fx_kir_fault fault = { .op = -1 };
    uint64_t args[FX_CALL_MAX];
    void *buffers[FX_CALL_MAX];

    gather(&s, c, args, buffers);
    code->run(args, buffers, 0, code->tasks(args), &fault);
    FX_ASSERT(fault.op < 0);
}

/* The arguments of all products begin with those of the plain one (exec.c). */
static void end_by_call(fx_exec_launch *e)
{
    FX_ASSERT(!e->l.args.matmul.epi.q8.data);    /* what is rounded is behind the call's other launches */
    e->l.args.matmul.epi.fn = end_tile;
    e->l.args.matmul.epi.call = e;
    if (e->epilogue)
        e->epilogue = end_tile;
}

/* ---- Joining ---- */

void fx_exec_join_calls(fx_exec *x)
{
    const fx_plan_calls *calls = x->program->calls;

    for (int32_t i = 0; calls && i < calls->n_calls; i++) {
        FX_ASSERT(calls->calls[i].n_args <= FX_CALL_MAX && calls->calls[i].n_buffers <= FX_CALL_MAX);
        x->launches[calls->calls[i].first].call = &calls->calls[i];
    }
    fx_exec_take_code(x);
}

void fx_exec_take_code(fx_exec *x)
{
    if (x->code || !x->program->calls)
        return;
    x->code = atomic_load_explicit(&x->program->code, memory_order_acquire);
    for (int32_t i = 0; x->code && i < x->plan.n_launches; i++) {
        fx_exec_launch *e = &x->launches[i];

        if (e->call && e->call->epilogue)
            end_by_call(e);
        if (e->call && e->call->rest)
            e->l.args.rope_store.turned = true;
    }
}
