/* by_head.c - products of each head's columns with that head's own weights.
 *
 * The same for all levels: the matmul kernel of the weights does the work, head after head.  What
 * it promises of a row's bits holds here too.  A task is a tile of a head. */
#include "kernels/kernel_set.h"

static int64_t tasks(const void *args)
{
    const fx_by_head_args *a = args;

    return a->heads * fx_matmul_tasks(&a->m);
}

static fx_matmul_args of_head(const fx_by_head_args *a, int64_t h)
{
    fx_matmul_args m = a->m;

    m.n_rows = a->n_rows;
    m.w += (size_t)h * a->head_bytes;
    m.x.p += h * m.k;
    m.epi.y.p += h * m.n;
    return m;
}

static size_t scratch_bytes(const void *args)
{
    const fx_by_head_args *a = args;
    fx_matmul_args m = a->m;

    m.n_rows = a->n_rows;
    return a->scratch_bytes ? a->scratch_bytes(&m) : 0;
}

static void run(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_by_head_args *a = args;
    int64_t tiles = fx_matmul_tasks(&a->m);

    while (t0 < t1) {
        int64_t h = t0 / tiles, end = FX_MIN(t1, (h + 1) * tiles);
        fx_matmul_args m = of_head(a, h);

        a->run(&m, t0 - h * tiles, end - h * tiles, scratch);
        t0 = end;
    }
}

static const fx_kernel rows[] = {
    { FX_K_BY_HEAD, FX_CPU_SCALAR, "by_head", tasks, run, scratch_bytes },
};
const fx_kernel_set fx_kernels_by_head = { rows, FX_COUNT(rows) };
