/* pcode.c - calls are lowered, their code is found or made, and handed to the program.
 *
 * Kept code is found by the text of the kernels with their math expanded, which says every bit of what they compute, and the
 * target. */
#include "compile/pcode.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fpmode.h"
#include "base/thread.h"
#include "compile/kcode.h"
#include "passes/lower_calls.h"

#define TEXT_VERSION 1           /* of the text and what it means */
#define OBJECT "object"

struct fx_pcode {
    const fx_mem *mem;
    fx_arena arena;              /* calls and kernels; the texts below */
    fx_program *program;
    fx_plan_calls *calls;
    fx_store *store;
    fx_log log;
    const char *label, *llvm;
    fx_target target;
    fx_artifact_id id;
    fx_code *loaded;
    fx_kcode *code;              /* [n_kernels + 1]; NULL: not there yet */
    pthread_mutex_t lock;        /* of the next three, and of making */
    pthread_t thread;
    bool running;
    fx_error failed;             /* for good; status OK: not */
    pid_t pid;                   /* where the thread runs: not in a forked child */
};

/* ---- Code that there is --------------------------------------------------------------------------- */

static fx_status take_object(fx_pcode *c, fx_str object, const char *name, fx_error *err)
{
    int32_t n = c->calls->n_kernels;
    fx_str *names = fx_mem_array(c->mem, (size_t)n + 1, sizeof(*names));
    fx_status st = names ? fx_code_load(&c->loaded, c->mem, object, name, err) : fx_nomem(err, "compiled code");

    for (int32_t i = 0; names && i < n; i++)
        names[i] = c->calls->kernels[i]->name;
    if (st == FORNAX_OK)
        st = fx_kcode_find(&c->code, c->mem, c->loaded, names, n, err);
    fx_mem_free(c->mem, names, names ? ((size_t)n + 1) * sizeof(*names) : 0);
    if (st == FORNAX_OK) {
        fx_program_give_code(c->program, c->code);
        return FORNAX_OK;
    }
    fx_code_free(c->loaded);
    c->loaded = NULL;
    return st;
}

static void tell(const fx_pcode *c, const char *what, uint64_t start)
{
    fx_log_print(&c->log, FX_LOG_INFO, "%s: %d generated kernels stand for %d calls, their code was %s in %.1f ms", c->label,
                 c->calls->n_kernels, c->calls->n_calls, what, (double)(fx_clock_ns() - start) / 1e6);
}

static void give_up(fx_pcode *c, const fx_error *why)
{
    fx_log_print(&c->log, why->status == FORNAX_EUNSUP ? FX_LOG_INFO : FX_LOG_WARN, "%s: all its kernels are hand-written ones: %s",
                 c->label, why->text);
    c->failed = *why;
}

static void find_kept(fx_pcode *c, uint64_t start)
{
    fx_artifact *a = c->store ? fx_store_find(c->store, &c->id) : NULL;
    const fx_section *s;
    fx_error err = { 0 };
    fx_str object;
    fx_status st;

    if (!a)
        return;
    s = fx_artifact_find(a, FX_SECTION_CODE, OBJECT);
    st = s ? fx_artifact_read(a, s, NULL, &object, &err)
           : fx_fail(&err, FORNAX_EFORMAT, "%s: it has no compiled code", fx_artifact_path(a));
    if (st == FORNAX_OK)
        st = take_object(c, object, fx_artifact_path(a), &err);
    if (st == FORNAX_OK)
        tell(c, "kept and is there", start);
    else
        fx_store_reject(c->store, a, &err);
    fx_artifact_close(a);
}

/* ---- Code that is made ---------------------------------------------------------------------------------- */

static void keep(const fx_pcode *c, const fx_buf *object)
{
    const fx_section_data section = { FX_SECTION_CODE, OBJECT, 64, object->p, object->n };

    if (c->store)
        fx_store_write_end(fx_store_write_begin(c->store, &c->id, c->label, &section, 1));
}

static fx_status compile(fx_pcode *c, fx_buf *object, fx_error *err)
{
    fx_codegen *cg;
    fx_status st;

    FX_TRY(fx_codegen_open(&cg, c->mem, c->llvm, err));
    st = fx_kernels_ready(c->calls->kernels, c->calls->n_kernels, fx_target_lanes(&c->target), err);
    if (st == FORNAX_OK)
        st = fx_codegen_compile(cg, object, c->calls->module, &c->target, &(fx_codegen_options){ .form = FX_CODE_OBJECT }, err);
    fx_codegen_close(cg);
    return st;
}

/* By the thread, or by who waits without one. Kernels are changed on the way: what failed once isn't tried again. */
static void make(fx_pcode *c)
{
    uint64_t start = fx_clock_ns();
    fx_fpmode old = fx_fpmode_enter();
    fx_error err = { 0 };
    fx_buf object;
    fx_status st;

    fx_buf_init(&object, c->mem);
    st = compile(c, &object, &err);
    if (st == FORNAX_OK)
        st = take_object(c, fx_buf_view(&object), c->label, &err);
    if (st == FORNAX_OK) {
        tell(c, "made", start);
        keep(c, &object);
    } else {
        give_up(c, &err);
    }
    fx_buf_done(&object);
    fx_fpmode_leave(old);
}

static void *make_main(void *user)
{
    fx_pcode *c = user;

    fx_thread_give_way(10);              /* as for what else is written beside the work: some tenths of a second in all */
    make(c);
    return NULL;
}

static void join(fx_pcode *c)
{
    if (c->running && c->pid == getpid())
        pthread_join(c->thread, NULL);
    c->running = false;
}

fx_status fx_pcode_wait(fx_pcode *c, fx_error *err)
{
    fx_status st;

    pthread_mutex_lock(&c->lock);
    join(c);
    if (!c->code && c->failed.status == FORNAX_OK && c->calls->n_kernels > 0)
        make(c);
    st = c->failed.status;
    if (st != FORNAX_OK && err)
        *err = c->failed;
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* ---- Beginning and end -------------------------------------------------------------------------------------- */

fx_status fx_pcode_identity(const fx_plan_calls *calls, const fx_target *target, const char *library, const fx_mem *mem,
                            fx_artifact_id *out, fx_error *err)
{
    fx_hash128 h = { 0, 0 };
    fx_buf b;

    for (int32_t i = 0; i < calls->n_kernels; i++)
        FX_TRY(fx_kir_expand_math(calls->kernels[i], err));
    fx_buf_init(&b, mem);
    fx_target_print(target, &b);
    fx_buf_putc(&b, '\n');
    fx_kir_print(calls->module, &b);
    if (!b.failed)
        h = fx_hash128_of(b.p, b.n, TEXT_VERSION);
    *out = fx_artifact_id_make(library, target->cpu, h);
    fx_buf_done(&b);
    return b.failed ? fx_nomem(err, "compiled code") : FORNAX_OK;
}

static fx_status lower(fx_pcode *c, fx_error *err)
{
    const fx_plan *plan = fx_program_plan(c->program);
    fx_dtype *tables = FX_ARENA_NEWN(&c->arena, fx_dtype, (size_t)plan->n_weights + 1);

    if (!tables)
        return fx_nomem(err, "generated kernels");
    for (int32_t i = 0; i < plan->n_weights; i++)
        tables[i] = fx_program_weight_dtype(c->program, i);
    return fx_lower_calls(&c->arena, plan, tables, fx_program_state(c->program), &c->calls, err);
}

static fx_status prepare(fx_pcode *c, const fx_pcode_options *o, fx_error *err)
{
    FX_TRY(fx_target_of_level(&c->target, o->level, err));
    FX_TRY(lower(c, err));
    return fx_pcode_identity(c->calls, &c->target, o->library, c->mem, &c->id, err);
}

static fx_status begin(fx_pcode *c, const fx_pcode_options *o, fx_error *err)
{
    uint64_t start = fx_clock_ns();
    fx_error why = { 0 };
    fx_status st;

    c->label = fx_arena_strdup(&c->arena, o->label, strlen(o->label));
    c->llvm = o->llvm ? fx_arena_strdup(&c->arena, o->llvm, strlen(o->llvm)) : NULL;
    if (!c->label || (o->llvm && !c->llvm))
        return fx_nomem(err, "generated kernels");
    st = prepare(c, o, &why);
    if (st == FORNAX_ENOMEM)
        return fx_fail(err, st, "%s", why.text);
    if (st != FORNAX_OK) {
        give_up(c, &why);
        return FORNAX_OK;
    }
    if (c->calls->n_kernels == 0)
        return FORNAX_OK;
    fx_program_set_calls(c->program, c->calls);
    find_kept(c, start);
    if (!c->code && o->make)             /* without a thread, who waits makes it */
        c->running = fx_thread_start(&c->thread, make_main, c) == 0;
    return FORNAX_OK;
}

fx_status fx_pcode_new(fx_pcode **out, const fx_mem *mem, fx_program *p, const fx_pcode_options *o, fx_error *err)
{
    fx_pcode *c = fx_mem_zalloc(mem, sizeof(*c));
    fx_status st;

    *out = NULL;
    if (!c)
        return fx_nomem(err, "generated kernels");
    *c = (fx_pcode){ .mem = mem, .program = p, .store = o->store, .log = *o->log, .pid = getpid() };
    fx_arena_init(&c->arena, mem, 1 << 16);
    pthread_mutex_init(&c->lock, NULL);
    st = begin(c, o, err);
    if (st == FORNAX_OK)
        *out = c;
    else
        fx_pcode_free(c);
    return st;
}

void fx_pcode_free(fx_pcode *c)
{
    if (!c)
        return;
    join(c);
    fx_mem_free(c->mem, c->code, c->code ? ((size_t)c->calls->n_kernels + 1) * sizeof(*c->code) : 0);
    fx_code_free(c->loaded);
    pthread_mutex_destroy(&c->lock);
    fx_arena_done(&c->arena);
    fx_mem_free(c->mem, c, sizeof(*c));
}
