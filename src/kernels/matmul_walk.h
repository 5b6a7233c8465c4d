/* matmul_walk.h - the loops around a quantized tile kernel, for any vector width (simd.h).
 *
 * A tile kernel multiplies one tile of weights with one panel of rows.  Rows are walked in
 * spans whose quantized form stays in the second-level cache while the task's tiles pass:
 * span -> tile -> panel.  Nothing here changes an element's operations. */
#ifndef FX_MATMUL_WALK_H
#define FX_MATMUL_WALK_H

#include "kernels/matmul_set.h"
#include "kernels/pack.h"
#include "kernels/quant.h"
#include "kernels/vmath.h"

#define SPAN_BYTES (384 * 1024)      /* of quantized rows; second-level caches have 512 KiB and more */

/* out[width][16] = rows of the panel times the tile; x: the panel's words, blocks = k / 32. */
typedef void (*panel_fn)(const uint8_t *tile, const uint32_t *x, int64_t blocks, float *out);

/* acc = silu(acc) * up, n a multiple of 16. */
static void gate(float *acc, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i += VW)
        vf_store(acc + i, vf_mul(vf_silu(vf_load(acc + i)), vf_load(up + i)));
}

static void walk_panel(const fx_matmul_args *a, const panel_fn *fns, int64_t t, fx_q8_panel p)
{
    FX_ALIGNED(64) float acc[FX_Q8_PANEL * FX_TILE], up[FX_Q8_PANEL * FX_TILE];
    const uint8_t *w = a->w + (size_t)(a->paired ? 2 * t : t) * a->tile_bytes;
    const uint32_t *x = fx_q8_panel_words(&a->q8, p.row0);

    fns[p.width](w, x, a->k / 32, acc);
    if (a->paired) {
        fns[p.width](w + a->tile_bytes, x, a->k / 32, up);
        gate(acc, up, (int64_t)p.width * FX_TILE);
    }
    a->epi.fn(&a->epi, acc, FX_TILE, p.row0, p.width, t * FX_TILE, FX_MIN(a->n - t * FX_TILE, FX_TILE));
}

static void walk(const fx_matmul_args *a, int64_t t0, int64_t t1, const panel_fn *fns)
{
    int64_t panels = fx_q8_panels(a->n_rows), bytes = a->k / 32 * (FX_Q8_WORDS * 4 * FX_Q8_PANEL);
    int64_t span = FX_MAX(1, SPAN_BYTES / bytes);

    for (int64_t p0 = 0; p0 < panels; p0 += span)
        for (int64_t t = t0; t < t1; t++)
            for (int64_t p = p0; p < FX_MIN(p0 + span, panels); p++)
                walk_panel(a, fns, t, fx_q8_panel_at(a->n_rows, p));
}

#endif
