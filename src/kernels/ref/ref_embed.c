/* ref_embed.c - reference kernels that copy rows.
 *
 *     embed:   y[r] = scale * table[token[r]]     the table in any type of dtype.h
 *     gather:  y[i] = x[rows[i]]                                                     */
#include "kernels/kernel_set.h"

static int64_t embed_tasks(const void *args) { return ((const fx_embed_args *)args)->n_rows; }

static void embed(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_embed_args *a = args;

    (void)scratch;
    for (int64_t r = t0; r < t1; r++) {
        float *y = a->y.p + r * a->y.ld;

        FX_ASSERT(a->token[r] >= 0 && a->token[r] < a->n_vocab);
        fx_dequantize_row(a->dtype, (const uint8_t *)a->table + (size_t)a->token[r] * a->row_bytes, y, a->dim);
        if (a->scale != 1.0f)
            for (int64_t i = 0; i < a->dim; i++)
                y[i] *= a->scale;
    }
}

static int64_t gather_tasks(const void *args) { return ((const fx_gather_args *)args)->n_rows; }

static void gather(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_gather_args *a = args;

    (void)scratch;
    for (int64_t r = t0; r < t1; r++)
        memmove(a->y.p + r * a->y.ld, a->x.p + a->rows[r] * a->x.ld, (size_t)a->dim * sizeof(float));
}

static const fx_kernel rows[] = {
    { FX_K_EMBED, FX_CPU_SCALAR, "embed_ref", embed_tasks, embed, NULL },
    { FX_K_GATHER, FX_CPU_SCALAR, "gather_ref", gather_tasks, gather, NULL },
};
const fx_kernel_set fx_kernels_ref_embed = { rows, FX_COUNT(rows) };
