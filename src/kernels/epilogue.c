/* epilogue.c - the standard end of a product's tile: y = scale * acc (+ bias) (+ residual).
 *
 * Each operation is rounded by itself, so every level gives the same bits. */
#include "kernels/epilogue.h"

void fx_epilogue_store(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0,
                       int64_t n)
{
    for (int64_t r = 0; r < m; r++, acc += ld) {
        float *y = e->y.p + (row0 + r) * e->y.ld + col0;
        const float *res = e->residual.p ? e->residual.p + (row0 + r) * e->residual.ld + col0 : NULL;

        for (int64_t i = 0; i < n; i++) {
            float v = e->scale * acc[i];

            if (e->bias)
                v += e->bias[col0 + i];
            if (res)
                v += res[i];
            y[i] = v;
        }
    }
}

void fx_epilogue_add(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n)
{
    for (int64_t r = 0; r < m; r++) {
        const float *add = e->addend[row0 + r];
        float sum[64];

        FX_ASSERT(n <= (int64_t)FX_COUNT(sum));
        for (int64_t c = 0; add && c < n; c++)
            sum[c] = acc[r * ld + c] + add[col0 + c];
        e->then(e, add ? sum : acc + r * ld, ld, row0 + r, 1, col0, n);
    }
}

void fx_epilogue_round(const fx_epilogue *e, const float *acc, int64_t ld, int64_t row0, int64_t m, int64_t col0, int64_t n)
{
    int64_t from = col0 / 32 * 32, whole = (col0 + n) / 32 * 32 - from;

    if (!e->y.p) {
        e->put(&e->q8, *e->n_rows, row0, m, col0, n, (fx_cmat){ acc, ld });
        return;
    }
    e->store(e, acc, ld, row0, m, col0, n);
    if (whole)
        e->put(&e->q8, *e->n_rows, row0, m, from, whole, (fx_cmat){ e->y.p + row0 * e->y.ld + from, e->y.ld });
}

fx_epilogue_fn fx_epilogue_find(const fx_cpu *cpu) { return FX_OF_LEVEL(cpu, fx_epilogue_store); }
