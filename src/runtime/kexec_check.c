/* kexec_check.c - a run that is looked at: NaNs where they come from, reads of what nobody wrote, a line for each launch.
 *
 * What a launch reads and writes is told by its kernel's buffers.  For reads of what nobody wrote each of the plan's own tensors
 * has a byte an element, which the interpreter keeps (kir.h); what isn't a kernel of the loop IR writes all of its results. */
#include <stdio.h>

#include "base/clock.h"
#include "runtime/kexec_int.h"
#include "tensor/tensor.h"

fx_status fx_kexec_check(fx_kexec *x, const fx_kexec_checks *c, fx_error *err)
{
    size_t n = (size_t)x->plan->n_tensors + 1;

    if ((c->nan || c->unset || c->log) && !x->plan->module)
        return fx_fail(err, FORNAX_EUNSUP, "a graph that was loaded isn't checked: its kernels aren't there");
    if (c->unset && x->code)
        return fx_fail(err, FORNAX_EUNSUP, "only kernels that are interpreted are checked for reads of what nobody wrote");
    x->checks = *c;
    if (!c->unset || x->written)
        return FORNAX_OK;
    x->written = fx_mem_array(x->mem, n, sizeof(*x->written));
    x->n_written = fx_mem_array(x->mem, n, sizeof(*x->n_written));
    x->watched = fx_mem_array(x->mem, n, sizeof(*x->watched));
    return x->written && x->n_written && x->watched ? FORNAX_OK : fx_nomem(err, "a graph to run");
}

static void forget_written(fx_kexec *x, int32_t i)
{
    fx_mem_free(x->mem, x->written[i], x->written[i] ? x->n_written[i] : 0);
    x->written[i] = NULL;
}

void fx_kexec_check_done(fx_kexec *x)
{
    size_t n = (size_t)x->plan->n_tensors + 1;

    for (int32_t i = 0; x->written && i < x->plan->n_tensors; i++)
        forget_written(x, i);
    fx_mem_free(x->mem, x->written, x->written ? n * sizeof(*x->written) : 0);
    fx_mem_free(x->mem, x->n_written, x->n_written ? n * sizeof(*x->n_written) : 0);
    fx_mem_free(x->mem, x->watched, x->watched ? n * sizeof(*x->watched) : 0);
}

/* ---- Reads and writes ---------------------------------------------------------------------------------- */

static fx_kir_access access_of(const fx_kexec *x, const fx_klaunch *n, int32_t i)
{
    const fx_kir_kernel *k;

    if (n->kind == FX_KLAUNCH_CUSTOM)
        return i < x->plan->customs[n->kernel].n_in ? FX_KIR_IN : FX_KIR_OUT;
    if (n->kind != FX_KLAUNCH_KERNEL)
        return i == 0 ? FX_KIR_IN : FX_KIR_OUT;
    k = x->plan->kernels[n->kernel];
    for (size_t p = 0; p < k->params.n; p++) {
        if (k->params.at[p]->code == FX_KIR_BUFFER && i-- == 0)
            return k->params.at[p]->u.buf->access;
    }
    return FX_KIR_IN;
}

static fx_tensor tensor_of(const fx_kexec *x, int32_t tensor)
{
    const fx_ktensor *k = &x->plan->tensors[tensor];
    int64_t dim[FX_MAX_RANK];

    for (int i = 0; i < k->rank; i++)
        dim[i] = x->sizes[k->dim[i]];
    return fx_tensor_dense(k->dtype, k->rank, dim, x->data[tensor]);
}

/* "[1,2]" of the element at a place; "" of a number. */
static const char *index_text(const fx_kexec *x, int32_t tensor, int64_t at, char out[200])
{
    fx_tensor t = tensor_of(x, tensor);
    size_t n = 0;

    out[0] = 0;
    for (int i = 0; i < t.rank; i++) {
        n += (size_t)snprintf(out + n, 200 - n, "%c%lld", i ? ',' : '[', (long long)(at / t.stride[i]));
        at %= t.stride[i];
    }
    if (t.rank)
        snprintf(out + n, 200 - n, "]");
    return out;
}

static fx_str name_of(const fx_kexec *x, int32_t tensor)
{
    fx_str name = x->plan->tensors[tensor].name;

    return name.n ? name : FX_STR("a value");
}

/* ---- What nobody wrote ------------------------------------------------------------------------------------- */

static fx_status unwritten(const fx_kexec *x, const fx_klaunch *n, int32_t tensor, int64_t at, fx_error *err)
{
    char text[200];

    return fx_fail(err, FORNAX_EARG, "%.*s (%.*s): it reads element %s of %.*s, which nobody wrote", FX_STR_ARG(n->origin), FX_STR_ARG(n->op),
                   index_text(x, tensor, at, text), FX_STR_ARG(name_of(x, tensor)));
}

fx_status fx_kexec_unwritten(const fx_kexec *x, const fx_klaunch *n, const fx_kir_fault *f, fx_error *err)
{
    return unwritten(x, n, n->buffers[f->extent], f->index, err);
}

/* The bytes of a tensor of the plan's own; none is written where its size is new. */
static fx_status watch(fx_kexec *x, int32_t i, fx_error *err)
{
    const fx_ktensor *t = &x->plan->tensors[i];
    size_t n = (size_t)(x->bytes[i] / (int64_t)fx_dtype_size(t->dtype)) + 1;

    if ((t->kind != FX_KTENSOR_TEMP && t->kind != FX_KTENSOR_OUTPUT) || (x->written[i] && x->n_written[i] == n))
        return FORNAX_OK;
    forget_written(x, i);
    x->n_written[i] = n;
    x->written[i] = fx_mem_zalloc(x->mem, n);
    return x->written[i] ? FORNAX_OK : fx_nomem(err, "a run that is checked");
}

/* Whether all of a tensor has been written; *at: else the first place that hasn't. */
static bool is_whole(const fx_kexec *x, int32_t tensor, int64_t *at)
{
    const uint8_t *written = x->written[tensor];

    for (*at = 0; written && *at < (int64_t)x->n_written[tensor] - 1; ++*at) {
        if (!written[*at])
            return false;
    }
    return true;
}

static fx_status watch_launch(fx_kexec *x, const fx_klaunch *n, fx_error *err)
{
    int64_t at;

    for (int32_t i = 0; i < n->n_buffers; i++) {
        FX_TRY(watch(x, n->buffers[i], err));
        x->watched[i] = x->written[n->buffers[i]];
        if (n->kind != FX_KLAUNCH_KERNEL && access_of(x, n, i) == FX_KIR_IN && !is_whole(x, n->buffers[i], &at))
            return unwritten(x, n, n->buffers[i], at, err);
    }
    if (n->kind == FX_KLAUNCH_KERNEL)
        fx_kir_interp_watch(x->interps[n->kernel], x->watched);
    return FORNAX_OK;
}

static void mark_written(fx_kexec *x, const fx_klaunch *n)
{
    for (int32_t i = 0; i < n->n_buffers && n->kind != FX_KLAUNCH_KERNEL; i++) {
        if (access_of(x, n, i) != FX_KIR_IN && x->written[n->buffers[i]])
            memset(x->written[n->buffers[i]], 1, x->n_written[n->buffers[i]]);
    }
}

void fx_kexec_check_begin(fx_kexec *x)
{
    for (int32_t i = 0; x->written && i < x->plan->n_tensors; i++)
        forget_written(x, i);
}

fx_status fx_kexec_check_end(fx_kexec *x, fx_error *err)
{
    for (int32_t i = 0; x->checks.unset && i < x->plan->n_outputs; i++) {
        int32_t tensor = x->plan->outputs[i];
        char text[200];
        int64_t at;

        FX_TRY(watch(x, tensor, err));
        if (!is_whole(x, tensor, &at))
            return fx_fail(err, FORNAX_EARG, "output %d (%.*s): nobody wrote its element %s", (int)i, FX_STR_ARG(name_of(x, tensor)),
                           index_text(x, tensor, at, text));
    }
    return FORNAX_OK;
}

/* ---- NaNs ------------------------------------------------------------------------------------------------------ */

static bool has_nan(const fx_kexec *x, int32_t tensor, int64_t *place)
{
    fx_tensor t = tensor_of(x, tensor);
    int64_t at[FX_MAX_RANK] = { 0 };
    double v;

    *place = 0;
    if (!fx_dtype_is_float(t.dtype) || fx_tensor_count(&t) == 0)
        return false;
    do {
        v = fx_tensor_f64(&t, at);
        if (v != v)
            return true;
        ++*place;
    } while (fx_tensor_next(&t, at));
    return false;
}

static fx_status check_nan(const fx_kexec *x, const fx_klaunch *n, fx_error *err)
{
    int32_t result = -1;
    int64_t place = 0, any;
    char text[200];

    for (int32_t i = 0; i < n->n_buffers && result < 0; i++) {
        if (access_of(x, n, i) != FX_KIR_IN && has_nan(x, n->buffers[i], &place))
            result = n->buffers[i];
    }
    for (int32_t i = 0; i < n->n_buffers && result >= 0; i++) {
        if (access_of(x, n, i) == FX_KIR_IN && has_nan(x, n->buffers[i], &any))
            return FORNAX_OK;
    }
    return result < 0 ? FORNAX_OK
           : fx_fail(err, FORNAX_EARG, "%.*s (%.*s): element %s of its result is NaN, and none of its operands has one", FX_STR_ARG(n->origin),
                     FX_STR_ARG(n->op), index_text(x, result, place, text));
}

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

static void put_type(const fx_kexec *x, int32_t tensor, fx_buf *b)
{
    const fx_ktensor *t = &x->plan->tensors[tensor];

    fx_buf_printf(b, "%.*s %s", FX_STR_ARG(name_of(x, tensor)), fx_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        fx_buf_printf(b, "%c%lld%s", i ? ',' : '[', (long long)x->sizes[t->dim[i]], i == t->rank - 1 ? "]" : "");
}

static void put_tensors(const fx_kexec *x, const fx_klaunch *n, fx_kir_access access, const char *what, fx_buf *b)
{
    for (int32_t i = 0; i < n->n_buffers; i++) {
        if (!(access_of(x, n, i) & access))
            continue;
        fx_buf_puts(b, what);
        put_type(x, n->buffers[i], b);
        what = ", ";
    }
}

static void log_launch(const fx_kexec *x, const fx_klaunch *n, uint64_t ns)
{
    fx_buf b;

    fx_buf_init(&b, x->mem);
    fx_buf_printf(&b, "launch %d: %.*s (%.*s)", (int)(n - x->plan->launches) + 1, FX_STR_ARG(n->origin), FX_STR_ARG(n->op));
    put_tensors(x, n, FX_KIR_IN, " reads ", &b);
    put_tensors(x, n, FX_KIR_OUT, ", writes ", &b);
    fx_log_print(x->log, FX_LOG_INFO, "%.*s, %llu us", b.failed ? 0 : (int)b.n, b.p ? b.p : "", (unsigned long long)(ns / 1000));
    fx_buf_done(&b);
}

/* ---- A launch ----------------------------------------------------------------------------------------------------- */

fx_status fx_kexec_checked(fx_kexec *x, const fx_klaunch *n, fx_kexec_run_fn run, fx_error *err)
{
    uint64_t from;

    if (x->checks.unset)
        FX_TRY(watch_launch(x, n, err));
    from = fx_clock_ns();
    FX_TRY(run(x, n, err));
    if (x->checks.log)
        log_launch(x, n, fx_clock_ns() - from);
    if (x->checks.unset)
        mark_written(x, n);
    return x->checks.nan && n->kind != FX_KLAUNCH_PRINT ? check_nan(x, n, err) : FORNAX_OK;
}
