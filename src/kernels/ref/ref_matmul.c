/* ref_matmul.c - reference kernels: y = epilogue(x @ w^T) from packed tiles.
 *
 *     f32 activations:   y[r][n] = sum over k of x[r][k] * w[n][k]
 *     bf16 activations:  the same, x rounded
 *     int8 activations:  y[r][n] = sum over blocks b of d[r][b] * (the block's sum over k of q[r][k] * w[n][k])
 *
 * Integers are exact, floats are summed in double and rounded once, so that a variant's
 * error is its own.  The paired form rounds gate and up first: y = silu(gate) * up. */
#include <math.h>

#include "kernels/matmul_set.h"
#include "kernels/pack.h"
#include "kernels/quant.h"
#include "tensor/blocks.h"

typedef void (*tile_fn)(const fx_matmul_args *a, const uint8_t *tile, int64_t row, float out[FX_TILE]);

/* ---- f32 activations ---- */

static double weight_f32(const uint8_t *tile, int64_t k, int lane)
{
    float v;

    memcpy(&v, tile + k * 64 + lane * 4, 4);
    return v;
}

static uint16_t load16(const uint8_t *p)
{
    uint16_t v;

    memcpy(&v, p, 2);
    return v;
}

static double weight_f16(const uint8_t *tile, int64_t k, int lane)
{
    return fx_f16_to_f32(load16(tile + k * 32 + lane * 2));
}

static double weight_bf16(const uint8_t *tile, int64_t k, int lane)
{
    return fx_bf16_to_f32(load16(tile + k / 2 * 64 + lane * 4 + k % 2 * 2));
}

static float as_it_is(float x) { return x; }
static float rounded(float x) { return fx_bf16_to_f32(fx_f32_to_bf16(x)); }

static void dot_plain(const fx_matmul_args *a, const uint8_t *tile, int64_t row, float out[FX_TILE],
                      float (*act)(float), double (*weight)(const uint8_t *, int64_t, int))
{
    const float *x = a->x.p + row * a->x.ld;

    for (int lane = 0; lane < FX_TILE; lane++) {
        double sum = 0;

        for (int64_t k = 0; k < a->k; k++)
            sum += act(x[k]) * weight(tile, k, lane);
        out[lane] = (float)sum;
    }
}

/* ---- int8 activations ---- */

/* The unsigned integer of (lane, k) in a block's lines. */
static int code(const uint8_t *quants, int bits, int lane, int k)
{
    int g = k / 4, at = lane * 4 + k % 4, v;

    if (bits == 8)
        return quants[g * 64 + at];
    if (bits <= 3) {
        v = quants[g % 2 * 64 + at] >> g / 2 * 2 & 3;
        return bits == 3 ? v | (quants[128 + at] >> g & 1) << 2 : v;
    }
    v = quants[g % 4 * 64 + at] >> g / 4 * 4 & 15;
    if (bits == 5)
        v |= (quants[256 + at] >> g & 1) << 4;
    if (bits == 6)
        v |= (quants[256 + g / 4 * 64 + at] >> g % 4 * 2 & 3) << 4;
    return v;
}

/* What a code stands for, where it is looked up: a value + 128. */
static int looked_up(const fx_pack *p, const uint8_t *super, int v)
{
    switch (p->table) {
    case FX_PACK_IQ4: return fx_iq4_values[v] + 128;
    case FX_PACK_MXFP4: return fx_mxfp4_values[v] + 128;
    case FX_PACK_IN_TILE: return super[FX_PACK_TABLE_AT + v];
    default: return v;
    }
}

/* Sums of q * code over the two halves of block i; xq: word 0 of the row's block. */
static void dot_codes(const fx_pack *p, const uint8_t *super, int i, int lane, const uint32_t *xq, int width,
                      int32_t sum[2])
{
    sum[0] = sum[1] = 0;
    for (int k = 0; k < 32; k++) {
        int8_t q = (int8_t)(xq[k / 4 * width] >> k % 4 * 8);

        sum[k / 16] += q * looked_up(p, super, code(super + fx_pack_quants_at(*p, i), p->bits, lane, k));
    }
}

static double f16_at(const uint8_t *p, int lane) { return fx_f16_to_f32(load16(p + lane * 2)); }

static float f32_at(const uint8_t *p, int i)
{
    float v;

    memcpy(&v, p + i * 4, 4);
    return v;
}

/* A block's own d. */
static double scale_at(const fx_pack *p, const uint8_t *s, int lane)
{
    if (p->scale == FX_PACK_F32)
        return f32_at(s, lane);
    return p->scale == FX_PACK_BF16 ? fx_bf16_to_f32(load16(s + lane * 2)) : f16_at(s, lane);
}

/* The super block's d, with the factor of types that have one in the tile. */
static double super_scale(const fx_pack *p, const uint8_t *d, int lane)
{
    return p->table == FX_PACK_IN_TILE ? f16_at(d, lane) * f32_at(d + FX_PACK_FACTOR_AT, 0) : f16_at(d, lane);
}

/* A block's sum over k of q * w, from its integer sums (dot) and the negated sums of q (neg: all, k < 16). */
static double block_value(const fx_pack *p, const uint8_t *super, int i, int lane, const int32_t dot[2],
                          const int32_t neg[2])
{
    const uint8_t *s = super + fx_pack_scales_at(*p, i), *d = super;
    double bias = 1 << p->bias_shift, all = dot[0] + dot[1], neg2 = neg[0] - neg[1];

    switch (p->form) {
    case FX_PACK_D: return scale_at(p, s, lane) * (all + bias * neg[0]);
    case FX_PACK_DM: return f16_at(s, lane) * all - f16_at(s + 32, lane) * neg[0];
    case FX_PACK_DZ: return scale_at(p, s, lane) * (all + (double)d[i * 16 + lane] * neg[0]);
    case FX_PACK_K: return f16_at(d, lane) * s[lane] * all + f16_at(d + 32, lane) * s[16 + lane] * neg[0];
    case FX_PACK_KS: return super_scale(p, d, lane) * (int8_t)s[lane] * (all + bias * neg[0]);
    case FX_PACK_K16M:
        return f16_at(d, lane) * ((s[lane] & 15) * dot[0] + (s[16 + lane] & 15) * dot[1]) +
               f16_at(d + 32, lane) * ((s[lane] >> 4) * neg[1] + (s[16 + lane] >> 4) * neg2);
    default:
        return super_scale(p, d, lane) * ((int8_t)s[lane] * (dot[0] + bias * neg[1]) +
                                          (int8_t)s[16 + lane] * (dot[1] + bias * neg2));
    }
}

static void dot_quant(const fx_matmul_args *a, const uint8_t *tile, int64_t row, float out[FX_TILE], fx_pack p)
{
    fx_q8_panel at = fx_q8_panel_of_row(a->n_rows, row);
    const uint32_t *x0 = fx_q8_panel_words(&a->q8, at.row0) + (row - at.row0);

    for (int lane = 0; lane < FX_TILE; lane++) {
        const uint32_t *x = x0;
        double sum = 0;

        for (int64_t b = 0; b < a->k / 32; b++, x += FX_Q8_WORDS * at.width) {
            const uint8_t *super = tile + b / p.blocks * p.bytes;
            int i = (int)(b % p.blocks);
            int32_t dot[2], neg[2] = { (int32_t)x[9 * at.width], (int32_t)x[10 * at.width] };

            dot_codes(&p, super, i, lane, x, at.width, dot);
            sum += (double)fx_f32_of_bits(x[8 * at.width]) * block_value(&p, super, i, lane, dot, neg);
        }
        out[lane] = (float)sum;
    }
}

/* ---- The kernels ---- */

/* Columns [16 t, 16 t + 16) of a row, gated if they are paired. */
static void one_tile(const fx_matmul_args *a, int64_t t, int64_t row, tile_fn tile, float acc[FX_TILE])
{
    const uint8_t *w = a->w + (size_t)(a->paired ? 2 * t : t) * a->tile_bytes;
    float up[FX_TILE];

    tile(a, w, row, acc);
    if (!a->paired)
        return;
    tile(a, w + a->tile_bytes, row, up);
    for (int i = 0; i < FX_TILE; i++)
        acc[i] = (float)(acc[i] / (1 + exp(-(double)acc[i])) * up[i]);
}

static void run(const fx_matmul_args *a, int64_t t0, int64_t t1, tile_fn tile)
{
    int64_t tiles = fx_matmul_tiles(a);

    for (int64_t t = t0; t < t1; t += tiles) {
        for (int64_t r = 0; r < a->n_rows; r++) {
            float acc[FX_ROUND_TILES * FX_TILE];

            for (int64_t i = 0; i < tiles; i++)
                one_tile(a, t + i, r, tile, acc + i * FX_TILE);
            a->epi.fn(&a->epi, acc, tiles * FX_TILE, r, 1, t * FX_TILE, FX_MIN(a->n - t * FX_TILE, tiles * FX_TILE));
        }
    }
}

#define REF_PLAIN(T, t)                                                                                    \
    static void tile_##t(const fx_matmul_args *a, const uint8_t *w, int64_t row, float out[FX_TILE])       \
    {                                                                                                      \
        dot_plain(a, w, row, out, as_it_is, weight_##t);                                                   \
    }
#define REF_QUANT(T, t)                                                                                    \
    static void tile_##t(const fx_matmul_args *a, const uint8_t *w, int64_t row, float out[FX_TILE])       \
    {                                                                                                      \
        dot_quant(a, w, row, out, fx_pack_of(FX_##T));                                                     \
    }
#define REF_RUN(T, t)                                                                                      \
    static void run_##t(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch)                    \
    {                                                                                                      \
        (void)scratch;                                                                                     \
        run(a, t0, t1, tile_##t);                                                                          \
    }
FX_PACK_PLAIN(REF_PLAIN)
FX_PACK_QUANT(REF_QUANT)
static void tile_bf16_rounded(const fx_matmul_args *a, const uint8_t *w, int64_t row, float out[FX_TILE])
{
    dot_plain(a, w, row, out, rounded, weight_bf16);
}
FX_PACK_PLAIN(REF_RUN)
FX_PACK_QUANT(REF_RUN)
REF_RUN(BF16, bf16_rounded)

#define ROW(T, t, act) \
    { FX_##T, act, FX_CPU_SCALAR, NULL, "matmul_" #t "_ref", fx_pack_tile_bytes_##t, fx_pack_tile_##t, run_##t, NULL },
#define ROW_SHARED(T, t, as)                                                                               \
    { FX_##T, FX_ACT_Q8, FX_CPU_SCALAR, NULL, "matmul_" #t "_ref", fx_pack_tile_bytes_##t, fx_pack_tile_##t, \
      run_##as, NULL },
#define ROW_PLAIN(T, t) ROW(T, t, FX_ACT_F32)
#define ROW_QUANT(T, t) ROW(T, t, FX_ACT_Q8)
static const fx_matmul_kernel rows[] = {
    FX_PACK_PLAIN(ROW_PLAIN) FX_PACK_QUANT(ROW_QUANT) FX_PACK_SHARED(ROW_SHARED)
    { FX_BF16, FX_ACT_BF16, FX_CPU_SCALAR, NULL, "matmul_bf16_rounded_ref", fx_pack_tile_bytes_bf16, fx_pack_tile_bf16,
      run_bf16_rounded, NULL },
};
const fx_matmul_set fx_matmul_ref = { rows, FX_COUNT(rows) };
