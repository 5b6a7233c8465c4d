/* kexec_sizes.c - the sizes of a run and where its tensors lie.
 *
 * Sizes are computed when an input has another shape than before, and memory for them is laid out then: one block for
 * all tensors of the plan's own, in which those that aren't alive together overlap.  A name that only a launch gives its value
 * has a stage of its own: the sizes that it tells are computed, and their tensors laid out in a block of that stage, when
 * the launch has run.  When a name gets another value (in a loop), what later stages told isn't known any more. */
#include "runtime/kexec_int.h"

#define ALIGN 64
#define NEVER INT32_MAX          /* the stage of what nothing tells */

static size_t rounded(size_t n) { return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1); }

/* ---- Stages ----------------------------------------------------------------------------------------- */

static int32_t symbol_of(const fx_kplan *p, int32_t size) { return fx_ksize_symbol(p->steps, &p->sizes[size]); }

static int32_t stage_of_size(const fx_kexec *x, const fx_plan_size *s)
{
    int32_t stage = 0;

    for (int32_t i = s->first; i < s->first + s->n; i++) {
        if (x->plan->steps[i].code == FX_SIZE_SYMBOL)
            stage = FX_MAX(stage, x->symbol_stage[x->plan->steps[i].n]);
    }
    return stage;
}

static void stages_of_symbols(fx_kexec *x)
{
    const fx_kplan *p = x->plan;

    for (int32_t i = 0; i < p->n_symbols; i++)
        x->symbol_stage[i] = NEVER;
    for (int32_t i = 0; i < p->n_inputs; i++) {
        const fx_ktensor *t = &p->tensors[p->inputs[i]];

        for (int k = 0; k < t->rank; k++) {
            if (symbol_of(p, t->dim[k]) >= 0)
                x->symbol_stage[symbol_of(p, t->dim[k])] = 0;
        }
    }
    for (int32_t i = 0; i < p->n_launches; i++) {
        int32_t s = p->launches[i].kind == FX_KLAUNCH_SIZE ? symbol_of(p, p->launches[i].args[0]) : -1;

        if (s >= 0 && x->symbol_stage[s] == NEVER)
            x->symbol_stage[s] = ++x->n_stages;
    }
}

fx_status fx_kexec_stages(fx_kexec *x, fx_error *err)
{
    const fx_kplan *p = x->plan;

    stages_of_symbols(x);
    for (int32_t i = 0; i < p->n_sizes; i++)
        x->size_stage[i] = stage_of_size(x, &p->sizes[i]);
    for (int32_t i = 0; i < p->n_tensors; i++) {
        for (int k = 0; k < p->tensors[i].rank; k++)
            x->tensor_stage[i] = FX_MAX(x->tensor_stage[i], x->size_stage[p->tensors[i].dim[k]]);
    }
    x->memory = fx_mem_array(x->mem, (size_t)x->n_stages + 1, sizeof(*x->memory));
    return x->memory ? FORNAX_OK : fx_nomem(err, "a graph to run");
}

/* ---- Sizes ------------------------------------------------------------------------------------------------ */

static fx_status bad_input(const fx_kexec *x, int32_t i, fx_error *err, const char *what)
{
    fx_str name = x->plan->tensors[x->plan->inputs[i]].name;

    return fx_fail(err, FORNAX_EARG, "input %d (%.*s): %s", (int)i, FX_STR_ARG(name), what);
}

static bool apply(fx_size_code code, int64_t a, int64_t b, int64_t *out)
{
    if (code == FX_SIZE_ADD)
        return !__builtin_add_overflow(a, b, out);
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
            if (n == MAX_STACK)
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

static bool all_bound(const fx_kexec *x, const fx_plan_size *s)
{
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        if (x->plan->steps[i].code == FX_SIZE_SYMBOL && x->binder[x->plan->steps[i].n] < 0)
            return false;
    }
    return true;
}

static fx_status eval_stage(fx_kexec *x, int32_t stage, fx_error *err)
{
    const fx_kplan *p = x->plan;

    for (int32_t i = 0; i < p->n_sizes; i++) {
        if (x->size_stage[i] != stage || !all_bound(x, &p->sizes[i]))
            continue;
        if (!eval_size(x, &p->sizes[i], &x->sizes[i]) || x->sizes[i] < 0 || x->sizes[i] > FX_KIR_MAX_SIZE) {
            x->sizes[i] = -1;
            return fx_fail(err, FORNAX_EARG, "a size of the graph is negative or too large with %s",
                           stage ? "operands of these values" : "inputs of these shapes");
        }
    }
    for (int32_t i = 0; i < p->n_tensors; i++) {
        const fx_ktensor *t = &p->tensors[i];
        int64_t n = (int64_t)fx_dtype_size(t->dtype);

        if (x->tensor_stage[i] != stage)
            continue;
        for (int k = 0; k < t->rank && n >= 0; k++) {
            if (x->sizes[t->dim[k]] < 0)
                n = -1;
            else if (__builtin_mul_overflow(n, x->sizes[t->dim[k]], &n) || n > FX_KIR_MAX_SIZE)
                return fx_fail(err, FORNAX_EARG, "a tensor of the graph is too large with %s",
                               stage ? "operands of these values" : "inputs of these shapes");
        }
        x->bytes[i] = n;
    }
    return FORNAX_OK;
}

/* Nothing is known of this stage and those behind it. */
static void forget(fx_kexec *x, int32_t stage)
{
    for (int32_t i = 0; i < x->plan->n_sizes; i++) {
        if (x->size_stage[i] >= stage)
            x->sizes[i] = -1;
    }
    for (int32_t i = 0; i < x->plan->n_tensors; i++) {
        if (x->tensor_stage[i] >= stage)
            x->bytes[i] = -1;
    }
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

static bool in_memory(const fx_ktensor *t) { return t->kind == FX_KTENSOR_TEMP || t->kind == FX_KTENSOR_OUTPUT; }

/* Results stay until the next run. */
static bool alive_together(const fx_ktensor *a, const fx_ktensor *b)
{
    return a->kind == FX_KTENSOR_OUTPUT || b->kind == FX_KTENSOR_OUTPUT || (a->first <= b->last && b->first <= a->last);
}

static bool laid_out_in(const fx_kexec *x, int32_t i, int32_t stage)
{
    return x->tensor_stage[i] == stage && in_memory(&x->plan->tensors[i]) && x->bytes[i] >= 0;
}

/* The lowest place where tensor i meets none of those of its stage before it. */
static size_t place(const fx_kexec *x, int32_t i)
{
    const fx_ktensor *t = x->plan->tensors;
    size_t at = 0;

    for (int32_t k = 0; k < i; k++) {
        size_t end;

        if (!laid_out_in(x, k, x->tensor_stage[i]))
            continue;
        end = x->offset[k] + rounded((size_t)x->bytes[k]);
        if (alive_together(&t[k], &t[i]) && x->offset[k] < at + (size_t)x->bytes[i] && at < end) {
            at = end;
            k = -1;                      /* again from the first */
        }
    }
    return at;
}

static fx_status lay_out(fx_kexec *x, int32_t stage, fx_error *err)
{
    fx_kexec_memory *m = &x->memory[stage];
    size_t total = ALIGN;

    for (int32_t i = 0; i < x->plan->n_tensors; i++) {
        if (!laid_out_in(x, i, stage))
            continue;
        x->offset[i] = place(x, i);
        total = FX_MAX(total, x->offset[i] + rounded((size_t)x->bytes[i]));
    }
    if (total > m->bytes) {
        if (m->p)
            fx_pages_free(m->p, m->bytes);
        m->p = fx_pages_alloc(total);
        m->bytes = m->p ? total : 0;
        if (!m->p)
            return fx_nomem(err, "a graph's tensors");
    }
    return FORNAX_OK;
}

/* ---- With the inputs ------------------------------------------------------------------------------------------- */

static fx_status bind_inputs(fx_kexec *x, const fx_kvalue *in, fx_error *err)
{
    const fx_kplan *p = x->plan;

    for (int32_t i = 0; i < p->n_symbols; i++)
        x->binder[i] = -1;
    for (int32_t i = 0; i < p->n_inputs; i++) {
        const fx_ktensor *t = &p->tensors[p->inputs[i]];

        if (in[i].dtype != t->dtype || in[i].rank != t->rank)
            return bad_input(x, i, err, "another dtype or number of axes than the graph has");
        for (int k = 0; k < t->rank; k++) {
            int32_t s = symbol_of(p, t->dim[k]);

            if (in[i].dim[k] < 0 || in[i].dim[k] > FX_KIR_MAX_SIZE)
                return bad_input(x, i, err, "a size out of range");
            if (s >= 0 && x->binder[s] < 0) {
                x->binder[s] = p->n_launches;
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

fx_status fx_kexec_prepare(fx_kexec *x, const fx_kvalue *in, fx_error *err)
{
    fx_kexec_unbind(x, 0, x->plan->n_launches);
    if (x->laid_out && same_shapes(x, in))
        return FORNAX_OK;
    x->laid_out = false;
    forget(x, 0);
    FX_TRY(bind_inputs(x, in, err));
    FX_TRY(eval_stage(x, 0, err));
    FX_TRY(check_inputs(x, in, err));
    FX_TRY(lay_out(x, 0, err));
    x->laid_out = true;
    return FORNAX_OK;
}

/* ---- With launches ------------------------------------------------------------------------------------------------- */

static void set_places(fx_kexec *x, int32_t stage)
{
    for (int32_t i = 0; i < x->plan->n_tensors; i++) {
        if (laid_out_in(x, i, stage))
            x->data[i] = (uint8_t *)x->memory[stage].p + x->offset[i];
    }
}

static fx_status other_size(const fx_kexec *x, const fx_klaunch *n, int64_t value, fx_error *err)
{
    int32_t s = symbol_of(x->plan, n->args[0]);
    fx_str name = s >= 0 ? x->plan->symbols[s] : FX_STR("a size");

    return fx_fail(err, FORNAX_EARG, "%.*s: %.*s is %lld, but its operands make it %lld%s%.*s", FX_STR_ARG(n->origin), FX_STR_ARG(name),
                   (long long)x->sizes[n->args[0]], (long long)value, n->text.n ? ": " : "", FX_STR_ARG(n->text));
}

fx_status fx_kexec_bind(fx_kexec *x, int32_t launch, int64_t value, fx_error *err)
{
    const fx_klaunch *n = &x->plan->launches[launch];
    int32_t s = symbol_of(x->plan, n->args[0]);

    if (value < 0 || value > FX_KIR_MAX_SIZE)
        return fx_fail(err, FORNAX_EARG, "%.*s: its operands ask for a size of %lld%s%.*s", FX_STR_ARG(n->origin), (long long)value,
                       n->text.n ? ": " : "", FX_STR_ARG(n->text));
    if (s >= 0 && x->binder[s] < 0) {
        int32_t stage = x->symbol_stage[s];

        x->symbols[s] = value;
        x->binder[s] = launch;
        forget(x, stage);
        FX_TRY(eval_stage(x, stage, err));
        FX_TRY(lay_out(x, stage, err));
        set_places(x, stage);
        return FORNAX_OK;
    }
    return x->sizes[n->args[0]] == value ? FORNAX_OK : other_size(x, n, value, err);
}

void fx_kexec_unbind(fx_kexec *x, int32_t from, int32_t to)
{
    for (int32_t i = 0; x->n_stages > 0 && i < x->plan->n_symbols; i++) {
        if (x->binder[i] < from || x->binder[i] >= to || x->symbol_stage[i] == 0)
            continue;
        x->binder[i] = -1;
        forget(x, x->symbol_stage[i]);
    }
}

void fx_kexec_tell_outputs(const fx_kexec *x, fx_kvalue *out)
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
