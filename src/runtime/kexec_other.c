/* kexec_other.c - launches that aren't kernels of the loop IR: those of packages, blocks unpacked, tensors printed. */
#include "runtime/kexec_int.h"
#include "tensor/tensor.h"

/* ---- Kernels of packages ------------------------------------------------------------------------------ */

fx_status fx_kexec_custom(fx_kexec *x, const fx_klaunch *n, fx_error *err)
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

/* ---- Quantized blocks ------------------------------------------------------------------------------------ */

#define MAX_BLOCK_BYTES 512      /* of any dtype */

typedef struct unpacking {
    fx_dtype dtype;
    int64_t blocks;              /* of a row */
    const uint8_t *from;
    float *to;
} unpacking;

/* The bytes may lie anywhere: a block at a time goes where it is aligned. */
static void unpack_rows(void *user, int64_t t0, int64_t t1, int worker)
{
    const unpacking *u = user;
    const fx_dtype_row *row = &fx_dtype_rows[u->dtype];
    uint64_t block[MAX_BLOCK_BYTES / 8];

    (void)worker;
    for (int64_t i = t0 * u->blocks; i < t1 * u->blocks; i++) {
        memcpy(block, u->from + i * row->block_bytes, row->block_bytes);
        fx_dequantize_row(u->dtype, block, u->to + i * row->block_elems, row->block_elems);
    }
}

fx_status fx_kexec_unpack(fx_kexec *x, const fx_klaunch *n, fx_error *err)
{
    fx_dtype t = (fx_dtype)n->kernel;
    const fx_dtype_row *row = &fx_dtype_rows[t];
    const fx_ktensor *from = &x->plan->tensors[n->buffers[0]];
    int64_t bytes = x->sizes[from->dim[from->rank - 1]], rows = bytes ? x->bytes[n->buffers[0]] / bytes : 0;
    unpacking u = { t, bytes / row->block_bytes, x->data[n->buffers[0]], x->data[n->buffers[1]] };

    if (bytes % row->block_bytes || row->block_bytes > MAX_BLOCK_BYTES ||
        x->bytes[n->buffers[1]] != rows * u.blocks * row->block_elems * (int64_t)sizeof(float))
        return fx_fail(err, FORNAX_EARG, "%.*s: its rows aren't whole blocks of %s", FX_STR_ARG(n->origin), fx_dtype_name(t));
    if (x->pool && rows > 1)
        fx_pool_run(x->pool, unpack_rows, &u, rows, 1);
    else
        unpack_rows(&u, 0, rows, 0);
    return FORNAX_OK;
}

/* ---- Printing ------------------------------------------------------------------------------------------------ */

enum { MAX_TEXT = 1900, MAX_WHOLE = 64, EDGE = 3 };      /* bytes of a line; elements shown all; else so many at both ends of an axis */

static void put_number(fx_buf *b, const fx_tensor *t, const int64_t *at)
{
    if (t->dtype == FX_F64)
        fx_buf_double(b, fx_tensor_f64(t, at));
    else if (fx_dtype_is_float(t->dtype))
        fx_buf_float(b, (float)fx_tensor_f64(t, at));
    else if (t->dtype == FX_U64)
        fx_buf_printf(b, "%llu", (unsigned long long)fx_tensor_i64(t, at));
    else
        fx_buf_printf(b, "%lld", (long long)fx_tensor_i64(t, at));
}

static void put_axis(fx_buf *b, const fx_tensor *t, int64_t *at, int axis, bool whole)
{
    int64_t n = axis < t->rank ? t->dim[axis] : 0;

    if (axis == t->rank) {
        put_number(b, t, at);
        return;
    }
    fx_buf_putc(b, '[');
    for (int64_t i = 0; i < n && b->n < MAX_TEXT; i++) {
        if (i)
            fx_buf_puts(b, ", ");
        if (!whole && n > 2 * EDGE && i == EDGE) {
            fx_buf_puts(b, "..., ");
            i = n - EDGE;
        }
        at[axis] = i;
        put_axis(b, t, at, axis + 1, whole);
    }
    fx_buf_puts(b, b->n < MAX_TEXT ? "]" : "");
}

void fx_kexec_put_tensor(const fx_kexec *x, int32_t tensor, fx_buf *b)
{
    const fx_ktensor *k = &x->plan->tensors[tensor];
    int64_t dim[FX_MAX_RANK], at[FX_MAX_RANK] = { 0 };
    fx_tensor t;

    for (int i = 0; i < k->rank; i++)
        dim[i] = x->sizes[k->dim[i]];
    t = fx_tensor_dense(k->dtype, k->rank, dim, x->data[tensor]);
    fx_buf_puts(b, fx_dtype_name(k->dtype));
    for (int i = 0; i < k->rank; i++)
        fx_buf_printf(b, "%s%lld%s", i ? "," : "[", (long long)dim[i], i == k->rank - 1 ? "]" : "");
    fx_buf_putc(b, ' ');
    put_axis(b, &t, at, 0, fx_tensor_count(&t) <= MAX_WHOLE);
    fx_buf_puts(b, b->n < MAX_TEXT ? "" : " ...");
}

/* A line without memory for it isn't worth ending the run. */
fx_status fx_kexec_print(fx_kexec *x, const fx_klaunch *n, fx_error *err)
{
    fx_buf b;

    (void)err;
    fx_buf_init(&b, x->mem);
    fx_buf_str(&b, n->text);
    if (n->n_buffers > 0) {
        fx_buf_puts(&b, n->text.n ? ": " : "");
        fx_kexec_put_tensor(x, n->buffers[0], &b);
    }
    fx_log_print(x->log, FX_LOG_INFO, "%.*s", b.failed ? 0 : (int)b.n, b.p ? b.p : "");
    fx_buf_done(&b);
    return FORNAX_OK;
}
