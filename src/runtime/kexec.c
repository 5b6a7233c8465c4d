/* kexec.c - one run: sizes, memory, then the launches in order.
 *
 * Sizes are computed when an input has another shape than before, and memory for them is laid out then: one block for
 * all tensors of the plan's own, in which those that aren't alive together overlap. */
#include "runtime/kexec.h"

#include <stdatomic.h>

#include "runtime/packages.h"

#define ALIGN 64

struct fx_kexec {
    const fx_mem *mem;
    const fx_kplan *plan;
    const fx_kcode *code;
    fx_pool *pool;
    fx_kir_interp **interps;     /* [n_kernels] where there is no code */
    bool laid_out;
    int64_t *symbols, *sizes, *bytes;    /* [n_symbols], [n_sizes], of each tensor */
    bool *bound;                 /* [n_symbols] */
    size_t *offset;              /* of each tensor in memory */
    const void **weights;        /* of each tensor */
    void **data;
    void *memory;
    size_t memory_bytes, arrays_bytes;
    void *arrays;
    fx_packages *packages;
    const fornax_kernel **customs;       /* [n_customs] */
    uint64_t *args;              /* of the launch at hand */
    void **buffers;
};

/* ---- Making one ------------------------------------------------------------------------------------ */

static size_t rounded(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

static fx_status make_arrays(fx_kexec *x, fx_error *err)
{
    const fx_kplan *p = x->plan;
    int32_t args = 1, buffers = 1;
    size_t n[9];
    void **at[] = { (void **)&x->symbols, (void **)&x->sizes, (void **)&x->bytes, (void **)&x->bound, (void **)&x->offset,
                    (void **)&x->weights, (void **)&x->data, (void **)&x->args, (void **)&x->buffers };
    uint8_t *next;

    for (int32_t i = 0; i < p->n_launches; i++) {
        args = FX_MAX(args, p->launches[i].n_args);
        buffers = FX_MAX(buffers, p->launches[i].n_buffers);
    }
    for (size_t i = 0; i < FX_COUNT(n); i++)
        n[i] = 8 * (size_t)(p->n_tensors + 1);
    n[0] = 8 * (size_t)(p->n_symbols + 1);
    n[1] = 8 * (size_t)(p->n_sizes + 1);
    n[3] = (size_t)p->n_symbols + 1;
    n[7] = 8 * (size_t)args;
    n[8] = 8 * (size_t)buffers;
    for (size_t i = 0; i < FX_COUNT(n); i++)
        x->arrays_bytes += rounded(n[i]);
    x->arrays = next = fx_mem_zalloc(x->mem, x->arrays_bytes);
    if (!next)
        return fx_nomem(err, "a graph to run");
    for (size_t i = 0; i < FX_COUNT(n); i++) {
        *at[i] = next;
        next += rounded(n[i]);
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
    if (x->memory)
        fx_pages_free(x->memory, x->memory_bytes);
    fx_mem_free(x->mem, x->arrays, x->arrays_bytes);
    fx_mem_free(x->mem, x, sizeof(*x));
}

void fx_kexec_weight(fx_kexec *x, int32_t tensor, const void *data) { x->weights[tensor] = data; }

/* ---- Sizes ------------------------------------------------------------------------------------------------ */

static fx_status bad_input(const fx_kexec *x, int32_t i, fx_error *err, const char *what)
{
    fx_str name = x->plan->tensors[x->plan->inputs[i]].name;

    return fx_fail(err, FORNAX_EARG, "input %d (%.*s): %s", (int)i, FX_STR_ARG(name), what);
}

static bool add64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

static bool apply(fx_size_code code, int64_t a, int64_t b, int64_t *out)
{
    if (code == FX_SIZE_ADD)
        return add64(a, b, out);
    if (code == FX_SIZE_MUL)
        return !__builtin_mul_overflow(a, b, out);
    if (b == 0 || (b == -1 && a == INT64_MIN))
        return false;
    *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
}

#define MAX_STACK 64
static bool eval_size(const fx_kexec *x, const fx_plan_size *s, int64_t *out)
{
    int64_t stack[MAX_STACK];
    int n = 0;

    for (int32_t i = s->first; i < s->first + s->n; i++) {
        const fx_size_step *step = &x->plan->steps[i];

        if (step->code == FX_SIZE_NUM || step->code == FX_SIZE_SYMBOL) {
            if (n == MAX_STACK || (step->code == FX_SIZE_SYMBOL && !x->bound[step->n]))
                return false;
            stack[n++] = step->code == FX_SIZE_NUM ? step->n : x->symbols[step->n];
        } else {
            n--;
            if (n < 1 || !apply(step->code, stack[n - 1], stack[n], &stack[n - 1]))
                return false;
        }
    }
    *out = n == 1 ? stack[0] : -1;
    return n == 1;
}

/* The symbol that this size is, or -1. */
static int64_t symbol_of(const fx_kplan *p, int32_t size)
{
    const fx_plan_size *s = &p->sizes[size];
    const fx_size_step *at = &p->steps[s->first];

    /* A name alone is 1 * name. */
    return s->n == 3 && at[0].code == FX_SIZE_NUM && at[0].n == 1 && at[1].code == FX_SIZE_SYMBOL ? at[1].n : -1;
}

static fx_status bind_symbols(fx_kexec *x, const fx_kvalue *in, fx_error *err)
{
    const fx_kplan *p = x->plan;

    memset(x->bound, 0, (size_t)p->n_symbols);
    for (int32_t i = 0; i < p->n_inputs; i++) {
        const fx_ktensor *t = &p->tensors[p->inputs[i]];

        if (in[i].dtype != t->dtype || in[i].rank != t->rank)
            return bad_input(x, i, err, "another dtype or number of axes than the graph has");
        for (int k = 0; k < t->rank; k++) {
            int64_t s = symbol_of(p, t->dim[k]);

            if (in[i].dim[k] < 0 || in[i].dim[k] > FX_KIR_MAX_SIZE)
                return bad_input(x, i, err, "a size out of range");
            if (s >= 0 && !x->bound[s]) {
                x->bound[s] = true;
                x->symbols[s] = in[i].dim[k];
            }
        }
    }
    return FORNAX_OK;
}

static fx_status check_inputs(const fx_kexec *x, const fx_kvalue *in, fx_error *err)
{
    const fx_kplan *p = x->plan;

    for (int32_t i = 0; i < p->n_inputs; i++) {
        const fx_ktensor *t = &p->tensors[p->inputs[i]];

        for (int k = 0; k < t->rank; k++) {
            if (in[i].dim[k] != x->sizes[t->dim[k]])
                return fx_fail(err, FORNAX_EARG, "input %d (%.*s): axis %d has %lld, not %lld", (int)i, FX_STR_ARG(t->name), k,
                               (long long)in[i].dim[k], (long long)x->sizes[t->dim[k]]);
        }
    }
    return FORNAX_OK;
}

static fx_status set_sizes(fx_kexec *x, const fx_kvalue *in, fx_error *err)
{
    const fx_kplan *p = x->plan;

    FX_TRY(bind_symbols(x, in, err));
    for (int32_t i = 0; i < p->n_sizes; i++) {
        if (!eval_size(x, &p->sizes[i], &x->sizes[i]) || x->sizes[i] < 0 || x->sizes[i] > FX_KIR_MAX_SIZE)
            return fx_fail(err, FORNAX_EARG, "a size of the graph is negative, too large or unknown with inputs of these shapes");
    }
    FX_TRY(check_inputs(x, in, err));
    for (int32_t i = 0; i < p->n_tensors; i++) {
        x->bytes[i] = (int64_t)fx_dtype_size(p->tensors[i].dtype);
        for (int k = 0; k < p->tensors[i].rank; k++) {
            if (__builtin_mul_overflow(x->bytes[i], x->sizes[p->tensors[i].dim[k]], &x->bytes[i]) || x->bytes[i] > FX_KIR_MAX_SIZE)
                return fx_fail(err, FORNAX_EARG, "a tensor of the graph is too large with inputs of these shapes");
        }
    }
    return FORNAX_OK;
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

static bool in_memory(const fx_ktensor *t) { return t->kind == FX_KTENSOR_TEMP || t->kind == FX_KTENSOR_OUTPUT; }

/* Results stay until the next run. */
static bool alive_together(const fx_ktensor *a, const fx_ktensor *b)
{
    return a->kind == FX_KTENSOR_OUTPUT || b->kind == FX_KTENSOR_OUTPUT || (a->first <= b->last && b->first <= a->last);
}

/* The lowest place where tensor i meets none of those before it. */
static size_t place(const fx_kexec *x, int32_t i)
{
    const fx_ktensor *t = x->plan->tensors;
    size_t at = 0;

    for (int32_t k = 0; k < i; k++) {
        size_t end = x->offset[k] + rounded((size_t)x->bytes[k]);

        if (in_memory(&t[k]) && alive_together(&t[k], &t[i]) && x->offset[k] < at + (size_t)x->bytes[i] && at < end) {
            at = end;
            k = -1;                      /* again from the first */
        }
    }
    return at;
}

static fx_status lay_out(fx_kexec *x, fx_error *err)
{
    size_t total = ALIGN;

    for (int32_t i = 0; i < x->plan->n_tensors; i++) {
        if (!in_memory(&x->plan->tensors[i]))
            continue;
        x->offset[i] = place(x, i);
        total = FX_MAX(total, x->offset[i] + rounded((size_t)x->bytes[i]));
    }
    if (total > x->memory_bytes) {
        if (x->memory)
            fx_pages_free(x->memory, x->memory_bytes);
        x->memory = fx_pages_alloc(total);
        x->memory_bytes = x->memory ? total : 0;
        if (!x->memory)
            return fx_nomem(err, "a graph's tensors");
    }
    return FORNAX_OK;
}

static bool same_shapes(const fx_kexec *x, const fx_kvalue *in)
{
    const fx_kplan *p = x->plan;

    for (int32_t i = 0; i < p->n_inputs; i++) {
        const fx_ktensor *t = &p->tensors[p->inputs[i]];

        if (in[i].dtype != t->dtype || in[i].rank != t->rank)
            return false;
        for (int k = 0; k < t->rank; k++) {
            if (in[i].dim[k] != x->sizes[t->dim[k]])
                return false;
        }
    }
    return true;
}

static fx_status prepare(fx_kexec *x, const fx_kvalue *in, fx_error *err)
{
    if (x->laid_out && same_shapes(x, in))
        return FORNAX_OK;
    x->laid_out = false;
    FX_TRY(set_sizes(x, in, err));
    FX_TRY(lay_out(x, err));
    x->laid_out = true;
    return FORNAX_OK;
}

static void tell_outputs(const fx_kexec *x, fx_kvalue *out)
{
    const fx_kplan *p = x->plan;

    for (int32_t i = 0; i < p->n_outputs; i++) {
        const fx_ktensor *t = &p->tensors[p->outputs[i]];

        out[i].dtype = t->dtype;
        out[i].rank = t->rank;
        for (int k = 0; k < t->rank; k++)
            out[i].dim[k] = x->sizes[t->dim[k]];
    }
}

fx_status fx_kexec_sizes(fx_kexec *x, const fx_kvalue *inputs, fx_kvalue *outputs, fx_error *err)
{
    FX_TRY(prepare(x, inputs, err));
    tell_outputs(x, outputs);
    return FORNAX_OK;
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

static fx_status set_data(fx_kexec *x, const fx_kvalue *in, fx_kvalue *out, fx_error *err)
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
        case FX_KTENSOR_TEMP: x->data[i] = (uint8_t *)x->memory + x->offset[i]; break;
        case FX_KTENSOR_OUTPUT:
            if (!out[t->index].data)
                out[t->index].data = (uint8_t *)x->memory + x->offset[i];
            x->data[i] = out[t->index].data;
            break;
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
    if (x->code)
        run_code(x, &x->code[n->kernel], &l, &fault);
    else
        fx_kir_interp_run(x->interps[n->kernel], &l, 0, fx_kir_interp_tasks(x->interps[n->kernel], &l), &fault);
    if (fault.op < 0)
        return FORNAX_OK;
    return fx_fail(err, FORNAX_EARG, "%.*s: index %lld is outside of axis %d, which has %lld", FX_STR_ARG(n->origin),
                   (long long)fault.index, (int)fault.axis, (long long)fault.extent);
}

static fx_status run_custom(fx_kexec *x, const fx_klaunch *n, fx_error *err)
{
    const fx_kcustom *c = &x->plan->customs[n->kernel];
    fornax_kernel_tensor t[FX_KCUSTOM_MAX];
    int64_t dim[FX_KCUSTOM_MAX][FX_KIR_MAX_RANK];
    fornax_param params[FX_KCUSTOM_MAX];
    char why[400] = "";
    fornax_kernel_call call = { .size = sizeof(call), .in = t, .out = t + c->n_in, .n_in = (size_t)c->n_in,
                                .n_out = (size_t)(n->n_buffers - c->n_in), .params = params, .n_params = (size_t)c->n_params, .error = why,
                                .error_bytes = sizeof(why) };

    for (int32_t i = 0; i < n->n_buffers; i++) {
        const fx_ktensor *k = &x->plan->tensors[n->buffers[i]];

        for (int d = 0; d < k->rank; d++)
            dim[i][d] = x->sizes[k->dim[d]];
        t[i] = (fornax_kernel_tensor){ (fornax_dtype)k->dtype, k->rank, dim[i], x->data[n->buffers[i]] };
    }
    for (int32_t i = 0; i < c->n_params; i++)        /* names and texts end with a zero (kplan.h's are kept so) */
        params[i] = (fornax_param){ c->params[i].name.p, c->params[i].kind, c->params[i].i, c->params[i].s.p };
    if (x->customs[n->kernel]->run(&call) == 0)
        return FORNAX_OK;
    why[sizeof(why) - 1] = 0;
    return fx_fail(err, FORNAX_EARG, "%.*s (kernel %.*s): %s", FX_STR_ARG(n->origin), FX_STR_ARG(c->kernel), why[0] ? why : "failed");
}

static bool is_true(const fx_kexec *x, const fx_klaunch *n) { return *(const uint8_t *)x->data[n->pred] != 0; }

/* Launches [i, end). */
static fx_status run_launches(fx_kexec *x, int32_t i, int32_t end, fx_error *err)
{
    while (i < end) {
        const fx_klaunch *n = &x->plan->launches[i++];
        int32_t second = i + n->n_first, behind = second + n->n_second;

        switch (n->kind) {
        case FX_KLAUNCH_KERNEL: FX_TRY(run_kernel(x, n, err)); break;
        case FX_KLAUNCH_CUSTOM: FX_TRY(run_custom(x, n, err)); break;
        case FX_KLAUNCH_COND: FX_TRY(is_true(x, n) ? run_launches(x, i, second, err) : run_launches(x, second, behind, err)); break;
        case FX_KLAUNCH_WHILE:
            FX_TRY(run_launches(x, i, second, err));
            while (is_true(x, n)) {
                FX_TRY(run_launches(x, second, behind, err));
                FX_TRY(run_launches(x, i, second, err));
            }
            break;
        }
        i = behind;
    }
    return FORNAX_OK;
}

fx_status fx_kexec_run(fx_kexec *x, const fx_kvalue *inputs, fx_kvalue *outputs, fx_error *err)
{
    FX_TRY(prepare(x, inputs, err));
    tell_outputs(x, outputs);
    FX_TRY(set_data(x, inputs, outputs, err));
    return run_launches(x, 0, x->plan->n_launches, err);
}
