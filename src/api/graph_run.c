/* graph_run.c - fornax_graph.h's second half: graphs compiled, bound to weights, run.
 *
 * A compile that goes on by itself is a thread, joined by whoever first needs the code: wait, save, print, a program. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/graph_api.h"
#include "base/file.h"
#include "base/thread.h"
#include "compile/tgraph.h"

struct fornax_compiled {
    fornax_context *ctx;
    fx_tgraph *t;
    fx_codegen *codegen;         /* NULL: interpreted, or loaded */
    fx_target target;
    fx_tgraph_options options;
    fx_kexec_checks checks;
    bool kept;                   /* code may come from the context's store and go there */
    char *dump_dir;              /* NULL: none */
    pthread_mutex_t lock;        /* of the next three */
    pthread_t thread;
    bool running;
    fx_error failed;             /* of the thread; status OK: not */
};

struct fornax_program {
    fornax_compiled *c;
    fx_kexec *exec;
    fx_weights *weights;         /* opened by fornax_program_load_weights */
    bool *set;                   /* [n_tensors] */
    fx_kvalue *values;           /* room for inputs, then outputs */
};

/* ---- Compiling ---------------------------------------------------------------------------------- */

static fx_status new_compiled(fornax_compiled **out, fornax_context *ctx, fx_error *err)
{
    fornax_compiled *c = fx_mem_zalloc(&ctx->mem, sizeof(*c));

    *out = c;
    if (!c)
        return fx_nomem(err, "a compiled graph");
    c->ctx = ctx;
    pthread_mutex_init(&c->lock, NULL);
    return FORNAX_OK;
}

/* The thread's end, if there is one: its fault, which stays. */
fornax_status fornax_compiled_wait(fornax_compiled *c, fornax_error *err)
{
    fx_status st;

    FX_API_NEED(c);
    pthread_mutex_lock(&c->lock);
    if (c->running)
        pthread_join(c->thread, NULL);
    c->running = false;
    st = c->failed.status;
    if (st != FORNAX_OK && err)
        *err = c->failed;
    pthread_mutex_unlock(&c->lock);
    return st;
}

void fornax_compiled_close(fornax_compiled *c)
{
    if (!c)
        return;
    fornax_compiled_wait(c, NULL);
    fx_tgraph_free(c->t);
    fx_codegen_close(c->codegen);
    fx_mem_free(&c->ctx->mem, c->dump_dir, c->dump_dir ? strlen(c->dump_dir) + 1 : 0);
    pthread_mutex_destroy(&c->lock);
    fx_mem_free(&c->ctx->mem, c, sizeof(*c));
}

static fx_status write_stage(void *user, int number, const char *name, fx_str text, fx_error *err)
{
    const fornax_compiled *c = user;
    fx_status st;
    fx_buf path;

    fx_buf_init(&path, &c->ctx->mem);
    fx_buf_printf(&path, "%s/%d-%s.txt", c->dump_dir, number, name);
    st = path.failed ? fx_nomem(err, "a file's name") : fx_file_write_atomic(path.p, text, err);
    fx_buf_done(&path);
    return st;
}

static fx_status choose_dump(fornax_compiled *c, const char *dir, fx_error *err)
{
    if (!dir)
        return FORNAX_OK;
    FX_TRY(fx_folder_make(dir, err));
    c->dump_dir = fx_mem_alloc(&c->ctx->mem, strlen(dir) + 1);
    if (!c->dump_dir)
        return fx_nomem(err, "a folder's name");
    memcpy(c->dump_dir, dir, strlen(dir) + 1);
    c->options.stage = write_stage;
    c->options.stage_user = c;
    return FORNAX_OK;
}

/* Checked runs know the kernels' launches, so their code isn't kept for others. */
static fx_status choose_checks(fornax_compiled *c, const fornax_compile_options *opt, fx_error *err)
{
    if (opt->n_print > 64 || (opt->n_print && !opt->print))
        return fx_fail_param(err, FORNAX_EARG, "print", "print: expected up to 64 names of values");
    c->checks = (fx_kexec_checks){ opt->check_nan != 0, opt->check_unset != 0, opt->log_launches != 0 };
    c->options.unfused = opt->check_nan != 0;
    c->options.print = opt->print;
    c->options.n_print = opt->n_print;
    c->kept = !c->checks.nan && !c->checks.unset && !c->checks.log && !opt->n_print && !opt->dump_dir;
    return choose_dump(c, opt->dump_dir, err);
}

static fx_status choose(fornax_compiled *c, const fornax_compile_options *opt, fx_error *err)
{
    fx_error why = { 0 };

    if (opt->interpret || opt->check_unset)
        return opt->target ? fx_fail_param(err, FORNAX_EARG, "target", "target: kernels that are interpreted have none") : FORNAX_OK;
    if (fx_target_named(&c->target, fx_str_of(opt->target ? opt->target : "host"), &why) != FORNAX_OK)
        return fx_fail_param(err, why.status, "target", "target: %s", why.text);
    FX_TRY(fx_codegen_open(&c->codegen, &c->ctx->mem, getenv("FORNAX_LLVM"), err));
    c->options = (fx_tgraph_options){ .codegen = c->codegen, .target = &c->target, .foreign = !fx_target_runs_here(&c->target) };
    return FORNAX_OK;
}

/* A new one with its plan, or (reuse) all of it from the context's store. */
static fx_status begin(fornax_compiled **out, const fornax_graph *g, const fornax_compile_options *opt, fx_error *err)
{
    fornax_compile_options o = { .size = sizeof(o) };
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(g);
    FX_TRY(fx_api_usable(g->owner->ctx, err));
    FX_TRY(fx_api_options(&o, sizeof(o), opt, "fornax_compile_options", err));
    FX_TRY(fornax_module_check(g->owner, err));
    FX_TRY(new_compiled(out, g->owner->ctx, err));
    st = choose(*out, &o, err);
    if (st == FORNAX_OK)
        st = choose_checks(*out, &o, err);
    if (st == FORNAX_OK)
        st = fx_tgraph_begin(&(*out)->t, &(*out)->ctx->mem, g->g, &(*out)->options, err);
    if (st != FORNAX_OK) {
        fornax_compiled_close(*out);
        *out = NULL;
    }
    return st;
}

fornax_status fornax_graph_compile(fornax_compiled **out, const fornax_graph *g, const fornax_compile_options *opt, fornax_error *err)
{
    fx_status st = begin(out, g, opt, err);

    if (st != FORNAX_OK)
        return st;
    st = fx_tgraph_finish((*out)->t, &(*out)->options, err);
    if (st != FORNAX_OK) {
        fornax_compiled_close(*out);
        *out = NULL;
    }
    return st;
}

/* From the store, or compiled and left there. What goes wrong with the store costs only its help. */
static fx_status find_or_finish(fornax_compiled *c, const fx_artifact_id *id, const char *label, fx_error *err)
{
    fx_store *store = c->ctx->store;
    fx_artifact *a = fx_store_find(store, id);
    fx_tgraph *found = NULL;
    fx_tgraph_bytes b;
    fx_error why;

    if (a) {
        if (fx_tgraph_take(&found, &c->ctx->mem, a, &why) != FORNAX_OK)
            fx_store_reject(store, a, &why);
        fx_artifact_close(a);
    }
    if (found) {
        fx_tgraph_free(c->t);
        c->t = found;
        return FORNAX_OK;
    }
    FX_TRY(fx_tgraph_finish(c->t, &c->options, err));
    if (fx_tgraph_sections(c->t, &b, NULL) == FORNAX_OK) {
        fx_store_write_end(fx_store_write_begin(store, id, label, b.sections, FX_COUNT(b.sections)));
        fx_tgraph_bytes_done(&b);
    }
    return FORNAX_OK;
}

fornax_status fornax_graph_compile_reusing(fornax_compiled **out, const fornax_graph *g, const fornax_compile_options *opt,
                                           fornax_error *err)
{
    fx_status st = begin(out, g, opt, err);
    fx_artifact_id id;

    if (st != FORNAX_OK)
        return st;
    if (!(*out)->codegen || !(*out)->ctx->store || !(*out)->kept || (*out)->options.foreign)
        st = fx_tgraph_finish((*out)->t, &(*out)->options, err);
    else {
        st = fx_tgraph_identity(g->g, &(*out)->target, &(*out)->ctx->mem, &id, err);
        if (st == FORNAX_OK)
            st = find_or_finish(*out, &id, fornax_graph_name(g), err);
    }
    if (st != FORNAX_OK) {
        fornax_compiled_close(*out);
        *out = NULL;
    }
    return st;
}

static void *finish(void *user)
{
    fornax_compiled *c = user;
    fx_error err = { 0 };

    if (fx_tgraph_finish(c->t, &c->options, &err) != FORNAX_OK)
        c->failed = err;
    return NULL;
}

fornax_status fornax_graph_compile_async(fornax_compiled **out, const fornax_graph *g, const fornax_compile_options *opt,
                                         fornax_error *err)
{
    fx_status st = begin(out, g, opt, err);

    if (st != FORNAX_OK)
        return st;
    (*out)->running = fx_thread_start(&(*out)->thread, finish, *out) == 0;
    if (!(*out)->running)                /* no thread to be had: at once, then */
        finish(*out);
    return FORNAX_OK;
}

/* ---- Files ------------------------------------------------------------------------------------------ */

fornax_status fornax_compiled_save(fornax_compiled *c, const char *path, fornax_error *err)
{
    FX_API_NEED(path);
    FX_TRY(fornax_compiled_wait(c, err));
    return fx_tgraph_save(c->t, path, err);
}

fornax_status fornax_compiled_load(fornax_compiled **out, fornax_context *ctx, const char *path, fornax_error *err)
{
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(new_compiled(out, ctx, err));
    st = fx_tgraph_load(&(*out)->t, &ctx->mem, path, err);
    if (st != FORNAX_OK) {
        fornax_compiled_close(*out);
        *out = NULL;
    }
    return st;
}

fornax_status fornax_compiled_print(fornax_text **out, fornax_compiled *c, const char *form, fornax_error *err)
{
    static const struct {
        const char *name;
        fx_code_form form;
    } rows[] = { { "llvm", FX_CODE_LLVM }, { "asm", FX_CODE_ASM } };
    const fx_code_form *wanted = NULL;
    fx_status st;
    fx_buf b;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(form);
    FX_TRY(fornax_compiled_wait(c, err));
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (strcmp(form, rows[i].name) == 0)
            wanted = &rows[i].form;
    }
    if (!wanted && strcmp(form, "kir") != 0)
        return fx_fail_param(err, FORNAX_EARG, "form", "form: expected \"kir\", \"llvm\" or \"asm\", not \"%.40s\"", form);
    if (wanted && !c->codegen)
        return fx_fail_param(err, FORNAX_EUNSUP, "form", "form: %s is only there for what was compiled here, not loaded or interpreted", form);
    fx_buf_init(&b, &c->ctx->mem);
    st = fx_tgraph_print(c->t, c->codegen, wanted, &b, err);
    if (st == FORNAX_OK)
        return fx_api_text(out, &c->ctx->mem, &b, err);
    fx_buf_done(&b);
    return st;
}

const char *fornax_target_name(size_t n) { return n < 1000 ? fx_target_name((int)n) : NULL; }

/* ---- Programs ------------------------------------------------------------------------------------------- */

fornax_status fornax_program_open(fornax_program **out, fornax_compiled *c, fornax_error *err)
{
    const fx_mem *mem;
    const fx_kplan *plan;
    fornax_program *p;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_TRY(fornax_compiled_wait(c, err));
    if (c->options.foreign)
        return fx_fail(err, FORNAX_EUNSUP, "it was compiled for %s, which this machine is not", c->target.cpu);
    mem = &c->ctx->mem;
    plan = fx_tgraph_plan(c->t);
    p = fx_mem_zalloc(mem, sizeof(*p));
    if (!p)
        return fx_nomem(err, "a program");
    p->c = c;
    p->set = fx_mem_zalloc(mem, (size_t)plan->n_tensors + 1);
    p->values = fx_mem_array(mem, (size_t)(plan->n_inputs + plan->n_outputs) + 1, sizeof(*p->values));
    st = p->set && p->values ? fx_kexec_new(&p->exec, mem, plan, fx_tgraph_code(c->t), c->ctx->pool, err) : fx_nomem(err, "a program");
    if (st != FORNAX_OK) {
        fornax_program_close(p);
        return st;
    }
    fx_kexec_log(p->exec, &c->ctx->log);
    st = fx_kexec_check(p->exec, &c->checks, err);
    if (st != FORNAX_OK) {
        fornax_program_close(p);
        return st;
    }
    *out = p;
    return FORNAX_OK;
}

void fornax_program_close(fornax_program *p)
{
    const fx_mem *mem;
    const fx_kplan *plan;

    if (!p)
        return;
    mem = &p->c->ctx->mem;
    plan = fx_tgraph_plan(p->c->t);
    fx_kexec_free(p->exec);
    fx_weights_close(p->weights);
    fx_mem_free(mem, p->set, (size_t)plan->n_tensors + 1);
    fx_mem_free(mem, p->values, ((size_t)(plan->n_inputs + plan->n_outputs) + 1) * sizeof(*p->values));
    fx_mem_free(mem, p, sizeof(*p));
}

/* Sizes of weights are numbers: the axis' program is that alone. */
static int64_t weight_dim(const fx_kplan *plan, const fx_ktensor *t, int i) { return plan->steps[plan->sizes[t->dim[i]].first].n; }

static fx_status check_weight(const fx_kplan *plan, const fx_ktensor *t, fx_dtype dtype, int rank, const int64_t *dim, fx_error *err)
{
    bool same = dtype == t->dtype && rank == t->rank;

    for (int i = 0; same && i < rank; i++)
        same = dim[i] == weight_dim(plan, t, i);
    return same ? FORNAX_OK
                : fx_fail(err, FORNAX_EARG, "weight %.*s: another dtype or shape than the graph has", FX_STR_ARG(t->name));
}

fornax_status fornax_program_set_weight(fornax_program *p, const char *name, const fornax_tensor *w, fornax_error *err)
{
    const fx_kplan *plan;

    FX_API_NEED(p);
    FX_API_NEED(name);
    FX_API_NEED(w);
    FX_API_NEED(w->data);
    plan = fx_tgraph_plan(p->c->t);
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        const fx_ktensor *t = &plan->tensors[i];

        if (t->kind != FX_KTENSOR_WEIGHT || !fx_str_is(t->name, name))
            continue;
        FX_TRY(check_weight(plan, t, (fx_dtype)w->dtype, w->rank, w->dim, err));
        fx_kexec_weight(p->exec, i, w->data);
        p->set[i] = true;
        return FORNAX_OK;
    }
    return fx_fail_param(err, FORNAX_ENOTFOUND, "name", "the graph has no weight %.200s", name);
}

static fx_status load_weight(fornax_program *p, const fx_kplan *plan, int32_t i, const char *path, fx_error *err)
{
    const fx_ktensor *t = &plan->tensors[i];
    const fx_weight *v = fx_weights_find(p->weights, t->name);

    if (!v)
        return fx_fail(err, FORNAX_ENOTFOUND, "%s: no tensor %.*s, which the graph wants", path, FX_STR_ARG(t->name));
    FX_TRY(check_weight(plan, t, v->dtype, v->rank, v->shape, err));
    fx_kexec_weight(p->exec, i, v->data);
    p->set[i] = true;
    return FORNAX_OK;
}

fornax_status fornax_program_load_weights(fornax_program *p, const char *path, fornax_error *err)
{
    const fx_kplan *plan;

    FX_API_NEED(p);
    FX_API_NEED(path);
    plan = fx_tgraph_plan(p->c->t);
    if (p->weights)
        return fx_fail(err, FORNAX_EARG, "%s: the program has weights of a file already", path);
    FX_TRY(fx_weights_open(&p->weights, &p->c->ctx->mem, path, 0, err));
    for (int32_t i = 0; i < plan->n_tensors; i++) {
        if (plan->tensors[i].kind == FX_KTENSOR_WEIGHT && !p->set[i])
            FX_TRY(load_weight(p, plan, i, path, err));
    }
    return FORNAX_OK;
}

/* ---- Runs ------------------------------------------------------------------------------------------------- */

static void take(fx_kvalue *v, const fornax_tensor *t)
{
    *v = (fx_kvalue){ .dtype = (fx_dtype)t->dtype, .rank = t->rank, .data = t->data };
    for (int i = 0; i < t->rank && i < FX_KIR_MAX_RANK; i++)
        v->dim[i] = t->dim[i];
}

static void give(fornax_tensor *t, const fx_kvalue *v)
{
    t->dtype = (fornax_dtype)v->dtype;
    t->rank = v->rank;
    t->data = v->data;
    for (int i = 0; i < v->rank; i++)
        t->dim[i] = v->dim[i];
}

typedef fx_status (*exec_fn)(fx_kexec *x, const fx_kvalue *in, fx_kvalue *out, fx_error *err);

static fx_status with_values(fornax_program *p, const fornax_tensor *in, size_t n_in, fornax_tensor *out, size_t n_out, exec_fn fn,
                             fx_error *err)
{
    const fx_kplan *plan;
    fx_kvalue *results;
    fx_status st;

    FX_API_NEED(p);
    FX_TRY(fx_api_usable(p->c->ctx, err));
    plan = fx_tgraph_plan(p->c->t);
    if (n_in != (size_t)plan->n_inputs || n_out != (size_t)plan->n_outputs)
        return fx_fail(err, FORNAX_EARG, "the graph has %d inputs and %d outputs, not %zu and %zu", (int)plan->n_inputs, (int)plan->n_outputs,
                       n_in, n_out);
    results = p->values + n_in;
    for (size_t i = 0; i < n_in; i++) {
        take(&p->values[i], &in[i]);
        if (in[i].rank < 0 || in[i].rank > FX_KIR_MAX_RANK || (!in[i].data && fn == fx_kexec_run))
            return fx_fail(err, FORNAX_EARG, "input %zu: its rank or data", i);
    }
    for (size_t i = 0; i < n_out; i++)
        results[i].data = out[i].data;
    st = fn(p->exec, p->values, results, err);
    for (size_t i = 0; i < n_out && st == FORNAX_OK; i++)
        give(&out[i], &results[i]);
    return st;
}

fornax_status fornax_program_run(fornax_program *p, const fornax_tensor *inputs, size_t n_inputs, fornax_tensor *outputs, size_t n_outputs,
                                 fornax_error *err)
{
    fx_fpmode was = fx_fpmode_enter();
    fx_status st = with_values(p, inputs, n_inputs, outputs, n_outputs, fx_kexec_run, err);

    fx_fpmode_leave(was);
    return st;
}

fornax_status fornax_program_shapes(fornax_program *p, const fornax_tensor *inputs, size_t n_inputs, fornax_tensor *outputs,
                                    size_t n_outputs, fornax_error *err)
{
    return with_values(p, inputs, n_inputs, outputs, n_outputs, fx_kexec_sizes, err);
}
