/* fuzz_kir.c - kernels as text: what parses prints to a text that parses back to the same text, and passes the verifier or is
 * refused with a sentence.  What passes is widened, and passes again; if it is short to run, both compute the same. */
#include <stdlib.h>

#include "../unit/kir_random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SIZE 5                   /* what every size is */
#define MOST 20000               /* ops run, elements of a buffer */

/* ---- What it takes to run one ------------------------------------------------------------------------ */

static int64_t number(const fx_kop *op)
{
    if (op->code == FX_KIR_CONST)
        return op->u.i < -MOST ? -MOST : FX_MIN(op->u.i, MOST);
    return op->code == FX_KIR_ARG && op->size ? SIZE : MOST;
}

static int64_t cost(const fx_kir_block *b, int64_t times)
{
    int64_t all = 0;

    for (const fx_kop *op = b->first; op && all < MOST; op = op->next) {
        int64_t turns = op->code == FX_KIR_IF ? 1 : op->code == FX_KIR_THREADS ? number(op->in[0]) : op->code == FX_KIR_WHILE ? MOST : 0;

        if (op->block[0] && !turns)
            turns = FX_MAX(number(op->in[1]) - (number(op->in[0]) == MOST ? -MOST : number(op->in[0])), 1);
        all += times + (op->code == FX_KIR_ALLOC ? times * 4096 : 0);
        for (int i = 0; i < 2; i++) {
            if (op->block[i])
                all += turns > MOST / times ? MOST : cost(op->block[i], times * turns);
        }
    }
    return FX_MIN(all, MOST);
}

static bool is_small(const fx_kir_kernel *k)
{
    int64_t tasks = number(k->grid->last->in[0]);

    if (k->params.n > KIR_DATA_MAX || tasks < 1 || cost(k->body, tasks) >= MOST)
        return false;
    for (size_t i = 0; i < k->params.n; i++) {
        const fx_kir_buf *b = k->params.at[i]->code == FX_KIR_BUFFER ? k->params.at[i]->u.buf : NULL;
        int64_t n = 1;

        for (int a = 0; b && a < b->rank; a++) {
            n *= number(b->extent[a]);
            if (b->stride[a] || n >= MOST)
                return false;
        }
    }
    return true;
}

/* ---- Running --------------------------------------------------------------------------------------------- */

static bool interpret(fx_kir_kernel *k, kir_data *d)
{
    fx_kir_launch l = { d->args, d->buffers };
    fx_kir_fault fault = { .op = -1 };
    fx_kir_interp *x = NULL;

    if (fx_kir_interp_new(&x, &fx_mem_libc, k, NULL) != FORNAX_OK)
        abort();
    fx_kir_interp_run(x, &l, 0, fx_kir_interp_tasks(x, &l), &fault);
    fx_kir_interp_free(x);
    return fault.op >= 0;
}

static void check(fx_kir_kernel *k)
{
    int64_t sizes[KIR_DATA_MAX];
    fx_error err = { 0 };
    kir_data one, two;
    bool small, fault = false;

    if (fx_kir_check(k, &err) != FORNAX_OK) {
        if (!err.text[0])
            abort();
        return;
    }
    small = is_small(k);
    for (int i = 0; i < KIR_DATA_MAX; i++)
        sizes[i] = SIZE;
    if (fx_kir_expand_math(k, &err) != FORNAX_OK)
        abort();
    if (small) {
        kir_data_init(&one, k, sizes, 1);
        kir_data_init(&two, k, sizes, 1);
        fault = interpret(k, &one);
    }
    if (fx_kir_widen(k, 4, &err) != FORNAX_OK || fx_kir_check(k, &err) != FORNAX_OK)
        abort();
    if (small) {
        if (interpret(k, &two) != fault || !kir_data_same(&one, &two))
            abort();
        kir_data_done(&two);
        kir_data_done(&one);
    }
}

/* ---- Text ------------------------------------------------------------------------------------------------- */

/* Parses s and appends what it prints to; false if it doesn't parse. */
static bool reprint(fx_str s, fx_buf *out)
{
    fx_error err = { 0 };
    fx_kir_module *m = NULL;
    fx_arena arena;
    bool ok;

    fx_arena_init(&arena, &fx_mem_libc, 0);
    ok = fx_kir_parse(&m, &arena, "fuzz", s, &err) == FORNAX_OK;
    if (ok) {
        fx_kir_print(m, out);
        for (fx_kir_kernel *k = m->first; k; k = k->next)
            check(k);
    } else if (!err.text[0]) {
        abort();
    }
    fx_arena_done(&arena);
    return ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fx_buf once, twice;

    fx_buf_init(&once, &fx_mem_libc);
    fx_buf_init(&twice, &fx_mem_libc);
    if (reprint(fx_str_n((const char *)data, size), &once) && !once.failed) {
        if (!reprint(fx_buf_view(&once), &twice) || !fx_str_eq(fx_buf_view(&once), fx_buf_view(&twice)))
            abort();
    }
    fx_buf_done(&once);
    fx_buf_done(&twice);
    return 0;
}
