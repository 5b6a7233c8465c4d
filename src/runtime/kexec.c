/* kexec.c - one run: the launches in order, once sizes and memory are known (kexec_sizes.c). */
#include <stdatomic.h>

#include "runtime/kexec_int.h"

#define ALIGN 64

/* ---- Making one ------------------------------------------------------------------------------------ */

static size_t rounded(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* One block for all arrays. */
static fx_status make_arrays(fx_kexec *x, fx_error *err)
{
    const fx_kplan *p = x->plan;
    size_t tensors = (size_t)p->n_tensors + 1, sizes = (size_t)p->n_sizes + 1, symbols = (size_t)p->n_symbols + 1, args = 1, buffers = 1;
    uint8_t *next;

    for (int32_t i = 0; i < p->n_launches; i++) {
        args = FX_MAX(args, (size_t)p->launches[i].n_args);
        buffers = FX_MAX(buffers, (size_t)p->launches[i].n_buffers);
    }
    const struct {
        void *at;                /* address of the pointer */
        size_t bytes;
    } rows[] = {
        { &x->symbols, 8 * symbols }, { &x->sizes, 8 * sizes },        { &x->bytes, 8 * tensors },
        { &x->binder, 4 * symbols },  { &x->symbol_stage, 4 * symbols }, { &x->size_stage, 4 * sizes },
        { &x->tensor_stage, 4 * tensors }, { &x->offset, 8 * tensors }, { &x->weights, 8 * tensors },
        { &x->data, 8 * tensors },    { &x->args, 8 * args },          { &x->buffers, 8 * buffers },
    };
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        x->arrays_bytes += rounded(rows[i].bytes);
    x->arrays = next = fx_mem_zalloc(x->mem, x->arrays_bytes);
    if (!next)
        return fx_nomem(err, "a graph to run");
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        memcpy(rows[i].at, &next, sizeof(next));
        next += rounded(rows[i].bytes);
    }
    return FORNAX_OK;
}

static fx_status make_interps(fx_kexec *x, fx_error *err)
{
    x->interps = fx_mem_array(x->mem, (size_t)x->plan->n_kernels + 1, sizeof(fx_kir_interp *));
    if (!x->interps)
        return fx_nomem(err, "a graph to run");
    for (int32_t i = 0; i < x->plan->n_kernels; i++)
        FX_TRY(fx_kir_interp_new(&x->interps[i], x->mem, x->plan->kernels[i], err));
    return FORNAX_OK;
}

static fx_status find_customs(fx_kexec *x, fx_error *err)
{
    const fx_kplan *p = x->plan;

    if (!p->n_customs)
        return FORNAX_OK;
    x->customs = fx_mem_array(x->mem, (size_t)p->n_customs, sizeof(*x->customs));
    if (!x->customs)
        return fx_nomem(err, "a graph to run");
    FX_TRY(fx_packages_open(&x->packages, x->mem, p->libraries, (size_t)p->n_libraries, err));
    for (int32_t i = 0; i < p->n_customs; i++) {
        x->customs[i] = fx_packages_find(x->packages, p->customs[i].kernel);
        if (!x->customs[i])
            return fx_fail(err, FORNAX_ENOTFOUND, "no kernel library of the module has a kernel %.*s", FX_STR_ARG(p->customs[i].kernel));
    }
    return FORNAX_OK;
}

fx_status fx_kexec_new(fx_kexec **out, const fx_mem *mem, const fx_kplan *plan, const fx_kcode *code, fx_pool *pool, fx_error *err)
{
    fx_kexec *x = fx_mem_zalloc(mem, sizeof(*x));
    fx_status st;

    *out = NULL;
    if (!x)
        return fx_nomem(err, "a graph to run");
    *x = (fx_kexec){ .mem = mem, .plan = plan, .code = code, .pool = pool };
    st = make_arrays(x, err);
    if (st == FORNAX_OK)
        st = fx_kexec_stages(x, err);
    if (st == FORNAX_OK && !code)
        st = make_interps(x, err);
    if (st == FORNAX_OK)
        st = find_customs(x, err);
    if (st != FORNAX_OK) {
        fx_kexec_free(x);
        return st;
    }
    *out = x;
    return FORNAX_OK;
}

void fx_kexec_free(fx_kexec *x)
{
    if (!x)
        return;
    for (int32_t i = 0; x->interps && i < x->plan->n_kernels; i++)
        fx_kir_interp_free(x->interps[i]);
    fx_mem_free(x->mem, x->interps, ((size_t)x->plan->n_kernels + 1) * sizeof(fx_kir_interp *));
    fx_mem_free(x->mem, x->customs, x->customs ? (size_t)x->plan->n_customs * sizeof(*x->customs) : 0);
    fx_packages_close(x->packages);
    fx_kexec_check_done(x);
    for (int32_t i = 0; x->memory && i <= x->n_stages; i++) {
        if (x->memory[i].p)
            fx_pages_free(x->memory[i].p, x->memory[i].bytes);
    }
    fx_mem_free(x->mem, x->memory, x->memory ? ((size_t)x->n_stages + 1) * sizeof(*x->memory) : 0);
    fx_mem_free(x->mem, x->arrays, x->arrays_bytes);
    fx_mem_free(x->mem, x, sizeof(*x));
}

void fx_kexec_weight(fx_kexec *x, int32_t tensor, const void *data) { x->weights[tensor] = data; }
void fx_kexec_device(fx_kexec *x, fx_kexec_device_fn run, void *user)
{
    x->device = run;
    x->device_user = user;
}

void fx_kexec_log(fx_kexec *x, const fx_log *log) { x->log = log; }

/* ---- Running ---------------------------------------------------------------------------------------------------- */

/* A tensor of a later stage gets its place then (kexec_sizes.c). */
static fx_status set_own(fx_kexec *x, int32_t i, const fx_kvalue *out, fx_error *err)
{
    const fx_ktensor *t = &x->plan->tensors[i];
    void *given = t->kind == FX_KTENSOR_OUTPUT ? out[t->index].data : NULL;

    if (given && x->tensor_stage[i] > 0)
        return fx_fail(err, FORNAX_EARG, "output %d (%.*s): only the run tells how large it is: it can't be given a place", (int)t->index,
                       FX_STR_ARG(t->name));
    x->data[i] = given ? given : x->tensor_stage[i] > 0 ? NULL : (uint8_t *)x->memory[0].p + x->offset[i];
    return FORNAX_OK;
}

static fx_status set_data(fx_kexec *x, const fx_kvalue *in, const fx_kvalue *out, fx_error *err)
{
    for (int32_t i = 0; i < x->plan->n_tensors; i++) {
        const fx_ktensor *t = &x->plan->tensors[i];

        switch (t->kind) {
        case FX_KTENSOR_INPUT: x->data[i] = in[t->index].data; break;
        case FX_KTENSOR_CONST: x->data[i] = (void *)(uintptr_t)t->data; break;
        case FX_KTENSOR_WEIGHT:
            x->data[i] = (void *)(uintptr_t)x->weights[i];
            if (!x->data[i])
                return fx_fail(err, FORNAX_EARG, "weight %.*s has no data", FX_STR_ARG(t->name));
            break;
        case FX_KTENSOR_TEMP: case FX_KTENSOR_OUTPUT: FX_TRY(set_own(x, i, out, err)); break;
        }
    }
    return FORNAX_OK;
}

typedef struct job {
    const fx_kcode *code;
    const fx_kir_launch *l;
    fx_kir_fault *fault;
    _Atomic int32_t *faults;
} job;

static void run_tasks(void *user, int64_t t0, int64_t t1, int worker)
{
    job *j = user;
    fx_kir_fault f = { .op = -1 };

    (void)worker;
    j->code->run(j->l->args, j->l->buffers, t0, t1, &f);
    if (f.op >= 0 && atomic_fetch_add(j->faults, 1) == 0)
        *j->fault = f;
}

static void run_code(fx_kexec *x, const fx_kcode *code, const fx_kir_launch *l, fx_kir_fault *fault)
{
    int64_t n = code->tasks(l->args);
    _Atomic int32_t faults = 0;
    job j = { code, l, fault, &faults };

    if (x->pool && n > 1)
        fx_pool_run(x->pool, run_tasks, &j, n, 1);
    else
        run_tasks(&j, 0, n, 0);
}

static fx_status run_kernel(fx_kexec *x, const fx_klaunch *n, fx_error *err)
{
    fx_kir_launch l = { x->args, x->buffers };
    fx_kir_fault fault = { .op = -1 };

    for (int32_t i = 0; i < n->n_args; i++)
        x->args[i] = (uint64_t)x->sizes[n->args[i]];
    for (int32_t i = 0; i < n->n_buffers; i++)
        x->buffers[i] = x->data[n->buffers[i]];
    if (x->device)
        x->device(x->device_user, x->plan->kernels[n->kernel], &l, fx_kir_interp_tasks(x->interps[n->kernel], &l), &fault);
    else if (x->code)
        run_code(x, &x->code[n->kernel], &l, &fault);
    else
        fx_kir_interp_run(x->interps[n->kernel], &l, 0, fx_kir_interp_tasks(x->interps[n->kernel], &l), &fault);
    if (fault.op < 0)
        return FORNAX_OK;
    if (fault.axis == FX_KIR_UNWRITTEN)
        return fx_kexec_unwritten(x, n, &fault, err);
    return fx_fail(err, FORNAX_EARG, "%.*s: index %lld is outside of axis %d, which has %lld", FX_STR_ARG(n->origin),
                   (long long)fault.index, (int)fault.axis, (long long)fault.extent);
}

/* Sizes and tensors whose names a launch before gave values. */
static fx_status check_known(const fx_kexec *x, const fx_klaunch *n, fx_error *err)
{
    bool known = true;

    for (int32_t i = 0; i < n->n_args; i++)
        known = known && (x->sizes[n->args[i]] >= 0 || (n->kind == FX_KLAUNCH_SIZE && i == 0));
    for (int32_t i = 0; i < n->n_buffers; i++)
        known = known && x->bytes[n->buffers[i]] >= 0;
    return known ? FORNAX_OK
                 : fx_fail(err, FORNAX_EARG, "%.*s: one of its sizes has a name that nothing before it gave a value", FX_STR_ARG(n->origin));
}

static bool is_true(const fx_kexec *x, const fx_klaunch *n) { return *(const uint8_t *)x->data[n->pred] != 0; }

static fx_status run_size(fx_kexec *x, int32_t launch, fx_error *err)
{
    const fx_klaunch *n = &x->plan->launches[launch];

    return fx_kexec_bind(x, launch, n->n_args > 1 ? x->sizes[n->args[1]] : *(const int64_t *)x->data[n->pred], err);
}

static fx_status run_launches(fx_kexec *x, int32_t i, int32_t end, fx_error *err);

/* Each turn gives the names of sizes that are told in it their values anew. */
static fx_status run_turn(fx_kexec *x, int32_t from, int32_t to, fx_error *err)
{
    fx_kexec_unbind(x, from, to);
    return run_launches(x, from, to, err);
}

static fx_status run_while(fx_kexec *x, int32_t i, fx_error *err)
{
    const fx_klaunch *n = &x->plan->launches[i++];
    int32_t second = i + n->n_first, behind = second + n->n_second;

    FX_TRY(run_turn(x, i, second, err));
    while (is_true(x, n)) {
        FX_TRY(run_turn(x, second, behind, err));
        FX_TRY(run_turn(x, i, second, err));
    }
    return FORNAX_OK;
}

static fx_status run_data(fx_kexec *x, const fx_klaunch *n, fx_kexec_run_fn run, fx_error *err)
{
    bool looked_at = x->checks.nan || x->checks.unset || x->checks.log;

    return looked_at ? fx_kexec_checked(x, n, run, err) : run(x, n, err);
}

static fx_status run_launch(fx_kexec *x, int32_t i, fx_error *err)
{
    const fx_klaunch *n = &x->plan->launches[i];
    int32_t second = i + 1 + n->n_first;

    FX_TRY(check_known(x, n, err));
    switch (n->kind) {
    case FX_KLAUNCH_KERNEL: return run_data(x, n, run_kernel, err);
    case FX_KLAUNCH_CUSTOM: return run_data(x, n, fx_kexec_custom, err);
    case FX_KLAUNCH_COND: return is_true(x, n) ? run_launches(x, i + 1, second, err) : run_launches(x, second, second + n->n_second, err);
    case FX_KLAUNCH_WHILE: return run_while(x, i, err);
    case FX_KLAUNCH_SIZE: return run_size(x, i, err);
    case FX_KLAUNCH_UNPACK: return run_data(x, n, fx_kexec_unpack, err);
    case FX_KLAUNCH_PRINT: return run_data(x, n, fx_kexec_print, err);
    }
    return fx_fail(err, FORNAX_EINTERNAL, "a launch of no kind");
}

/* Launches [i, end). */
static fx_status run_launches(fx_kexec *x, int32_t i, int32_t end, fx_error *err)
{
    for (; i < end; i += 1 + x->plan->launches[i].n_first + x->plan->launches[i].n_second)
        FX_TRY(run_launch(x, i, err));
    return FORNAX_OK;
}

fx_status fx_kexec_run(fx_kexec *x, const fx_kvalue *inputs, fx_kvalue *outputs, fx_error *err)
{
    FX_TRY(fx_kexec_prepare(x, inputs, err));
    FX_TRY(set_data(x, inputs, outputs, err));
    fx_kexec_check_begin(x);
    FX_TRY(run_launches(x, 0, x->plan->n_launches, err));
    FX_TRY(fx_kexec_check_end(x, err));
    fx_kexec_tell_outputs(x, outputs);
    for (int32_t i = 0; i < x->plan->n_outputs; i++)
        outputs[i].data = x->data[x->plan->outputs[i]];
    return FORNAX_OK;
}

fx_status fx_kexec_sizes(fx_kexec *x, const fx_kvalue *inputs, fx_kvalue *outputs, fx_error *err)
{
    FX_TRY(fx_kexec_prepare(x, inputs, err));
    fx_kexec_tell_outputs(x, outputs);
    return FORNAX_OK;
}
