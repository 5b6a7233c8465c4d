/* matmul_plain_simd.h - body of the products with F32, F16 and BF16 weights, for any vector width (simd.h).
 *
 * An element is one chain of fused multiply-adds in f32 over k = 0, 1, 2, ...:
 *
 *     acc = x[k] * w[k] + acc
 *
 * so that any cut of rows, columns or k that carries the accumulator on gives the same bits.
 *
 * Many rows: they are transposed into panels [k][row] of at most PANEL rows, a span of panels
 * at a time.  For each pair of vectors of weights (16 rows of weights at width 8, 32 at width
 * 16), k is walked in steps of K_STEP whose weights stay in the second-level cache and whose
 * panels fit the first, with the accumulators kept between steps:
 *
 *     span -> pair -> k step -> panel -> k -> (two vectors of weights) x (rows of the panel)
 *
 * One row: no copy of x; four vectors of weights side by side, for the latency of the fma.
 *
 * The including file defines LEVEL, NAMED(name), SET, PANEL (rows), the instances of its
 * panels (MICROS, SINGLES, PAIRS), and loads of the even and odd k of a bf16 line. */
#ifndef FX_MATMUL_PLAIN_SIMD_H
#define FX_MATMUL_PLAIN_SIMD_H

#include "kernels/matmul_set.h"
#include "kernels/pack.h"
#include "kernels/vmath.h"

#define SPAN 10                      /* panels packed at a time */
#define K_STEP 512                   /* even: bf16 lines hold pairs */
#define LANES_PER_TILE (FX_TILE / VW)   /* vectors of a tile */
#define AHEAD 1024                   /* bytes that weights are fetched before they are used, one row */

/* What a micro kernel reads and writes. Vector v of the weights belongs to tile v / LANES_PER_TILE. */
typedef struct operands {
    const uint8_t *w;                /* the first tile, at the first k */
    size_t tile_bytes;
    const float *x;                  /* [n][M] */
    int64_t n;                       /* of k */
    float *acc;                      /* [tile][row][16] */
    int64_t acc_tile;                /* distance of tiles in acc */
    bool first;                      /* acc isn't set yet */
} operands;

static int64_t bytes_before(fx_dtype type, int64_t k) { return type == FX_F32 ? k * 64 : k * 32; }

/* Vector v at k and, in w1, at k + 1; k even. */
SIMD void load_two(fx_dtype type, const uint8_t *at, vf *w0, vf *w1)
{
    if (type == FX_F32) {
        *w0 = vf_load((const float *)(const void *)at);
        *w1 = vf_load((const float *)(const void *)(at + 64));
    } else if (type == FX_F16) {
        *w0 = vf_load_f16((const uint16_t *)(const void *)at);
        *w1 = vf_load_f16((const uint16_t *)(const void *)(at + 32));
    } else {
        *w0 = load_bf16_even(at);
        *w1 = load_bf16_odd(at);
    }
}

SIMD vf load_one(fx_dtype type, const uint8_t *at)
{
    if (type == FX_F32)
        return vf_load((const float *)(const void *)at);
    return type == FX_F16 ? vf_load_f16((const uint16_t *)(const void *)at) : load_bf16_even(at);
}

/* Byte distance of vector v from vector 0. */
SIMD size_t vector_at(fx_dtype type, const operands *o, int v)
{
    int lane = v % LANES_PER_TILE * VW;

    return (size_t)(v / LANES_PER_TILE) * o->tile_bytes + (size_t)(lane * (type == FX_F16 ? 2 : 4));
}

SIMD float *acc_at(const operands *o, int r, int v)
{
    return o->acc + v / LANES_PER_TILE * o->acc_tile + r * FX_TILE + v % LANES_PER_TILE * VW;
}

/* Fetches what will be read soon of each tile; two k are at most 128 bytes. */
SIMD void fetch(fx_dtype type, const operands *o, const uint8_t *p, int V)
{
    for (int v = 0; v < V; v += LANES_PER_TILE) {
        const char *at = (const char *)p + vector_at(type, o, v) + AHEAD;

        _mm_prefetch(at, _MM_HINT_T0);
        if (type == FX_F32)
            _mm_prefetch(at + 64, _MM_HINT_T0);
    }
}

/* acc (+)= M rows of x times V vectors of weights. */
SIMD void micro(const fx_dtype type, const int V, const int M, const operands *o)
{
    vf a[PANEL * 2], w0[4], w1[4];
    const uint8_t *p = o->w;
    const float *x = o->x;
    int64_t k = 0;

    FX_UNROLL
    for (int i = 0; i < M * V; i++)
        a[i] = o->first ? vf_zero() : vf_load(acc_at(o, i / V, i % V));
    for (; k + 2 <= o->n; k += 2, x += 2 * M, p += bytes_before(type, 2)) {
        if (M == 1)
            fetch(type, o, p, V);
        FX_UNROLL
        for (int v = 0; v < V; v++)
            load_two(type, p + vector_at(type, o, v), &w0[v], &w1[v]);
        FX_UNROLL
        for (int i = 0; i < M * V; i++)
            a[i] = vf_fma(vf_set1(x[i / V]), w0[i % V], a[i]);
        FX_UNROLL
        for (int i = 0; i < M * V; i++)
            a[i] = vf_fma(vf_set1(x[M + i / V]), w1[i % V], a[i]);
    }
    if (k < o->n)
        FX_UNROLL
        for (int i = 0; i < M * V; i++)
            a[i] = vf_fma(vf_set1(x[i / V]), load_one(type, p + vector_at(type, o, i % V)), a[i]);
    FX_UNROLL
    for (int i = 0; i < M * V; i++)
        vf_store(acc_at(o, i / V, i % V), a[i]);
}

typedef void (*micro_fn)(const operands *o);

typedef struct micros {
    fx_dtype type;
    micro_fn fn[3][PANEL + 1];       /* by log2 of the vectors and rows; four vectors for one row only */
} micros;

/* Accumulators [tiles][rows][16] to the epilogue; paired tiles are gated first. */
static void finish(const fx_matmul_args *a, float *acc, int64_t rows, int64_t row0, int64_t tile, int tiles)
{
    int64_t block = rows * FX_TILE;
    int step = a->paired ? 2 : 1;

    for (int i = 0; i < tiles; i += step) {
        float *at = acc + i * block;
        int64_t col = (tile + i) / step * FX_TILE;

        for (int64_t j = 0; a->paired && j < block; j += VW)
            vf_store(at + j, vf_mul(vf_silu(vf_load(at + j)), vf_load(at + block + j)));
        a->epi.fn(&a->epi, at, FX_TILE, row0, rows, col, FX_MIN(FX_TILE, a->n - col));
    }
}

/* Tiles [t0, t1) for one row. */
static void run_row(const fx_matmul_args *a, int64_t t0, int64_t t1, const micros *m)
{
    FX_ALIGNED(64) float acc[4 * VW];

    for (int64_t t = t0; t < t1;) {
        int64_t vectors = (t1 - t) * LANES_PER_TILE;
        int log2_v = vectors >= 4 ? 2 : vectors >= 2 ? 1 : 0, tiles = (1 << log2_v) / LANES_PER_TILE;
        operands o = { a->w + (size_t)t * a->tile_bytes, a->tile_bytes, a->x.p, a->k, acc, FX_TILE, true };

        m->fn[log2_v][1](&o);
        finish(a, acc, 1, 0, t, tiles);
        t += tiles;
    }
}

/* ---- Many rows ---- */

/* Where part i of n things cut into 'parts' begins. */
static int64_t cut(int64_t n, int64_t parts, int64_t i) { return n * i / parts; }

/* x's rows [row0, row0 + m) as [k][m]: four by four. */
static void pack_panel(const fx_matmul_args *a, int64_t row0, int m, float *out)
{
    int r = 0;

    for (; r + 4 <= m; r += 4) {
        const float *x0 = a->x.p + (row0 + r) * a->x.ld, *x1 = x0 + a->x.ld, *x2 = x1 + a->x.ld, *x3 = x2 + a->x.ld;
        int64_t k = 0;

        for (; k + 4 <= a->k; k += 4) {
            __m128 v0 = _mm_loadu_ps(x0 + k), v1 = _mm_loadu_ps(x1 + k), v2 = _mm_loadu_ps(x2 + k),
                   v3 = _mm_loadu_ps(x3 + k);

            _MM_TRANSPOSE4_PS(v0, v1, v2, v3);
            _mm_storeu_ps(out + k * m + r, v0);
            _mm_storeu_ps(out + (k + 1) * m + r, v1);
            _mm_storeu_ps(out + (k + 2) * m + r, v2);
            _mm_storeu_ps(out + (k + 3) * m + r, v3);
        }
        for (; k < a->k; k++)
            _mm_storeu_ps(out + k * m + r, _mm_setr_ps(x0[k], x1[k], x2[k], x3[k]));
    }
    for (; r < m; r++)
        for (int64_t k = 0; k < a->k; k++)
            out[k * m + r] = a->x.p[(row0 + r) * a->x.ld + k];
}

/* Rows packed in x, panel behind panel, times one or two tiles. */
static void run_tiles(const fx_matmul_args *a, const micros *m, const float *x, int64_t rows, int64_t tile, int tiles,
                      float *acc)
{
    int64_t panels = FX_DIV_UP(rows, PANEL);
    int log2_v = tiles * LANES_PER_TILE >= 2, at_once = FX_MAX(1, 2 / LANES_PER_TILE);

    for (int64_t k = 0; k < a->k; k += K_STEP)
        for (int64_t p = 0; p < panels; p++) {
            int64_t r0 = cut(rows, panels, p), width = cut(rows, panels, p + 1) - r0;
            operands o = { a->w + (size_t)tile * a->tile_bytes + bytes_before(m->type, k), a->tile_bytes,
                           x + r0 * a->k + k * width, FX_MIN(K_STEP, a->k - k), acc + r0 * FX_TILE, rows * FX_TILE, k == 0 };

            for (int i = 0; i < tiles; i += at_once, o.w += a->tile_bytes, o.acc += o.acc_tile)
                m->fn[log2_v][width](&o);
        }
}

static int64_t span_rows(const fx_matmul_args *a) { return FX_MIN(a->n_rows, SPAN * PANEL); }

/* Accumulators of two tiles, then the packed rows. */
static size_t scratch_bytes(const fx_matmul_args *a)
{
    return (size_t)span_rows(a) * ((size_t)a->k + 2 * FX_TILE) * sizeof(float);
}

static void run_span(const fx_matmul_args *a, int64_t t0, int64_t t1, const micros *m, int64_t row0, int64_t rows,
                     float *acc)
{
    int64_t panels = FX_DIV_UP(rows, PANEL);
    float *x = acc + rows * 2 * FX_TILE;

    for (int64_t p = 0; p < panels; p++) {
        int64_t r0 = cut(rows, panels, p);

        pack_panel(a, row0 + r0, (int)(cut(rows, panels, p + 1) - r0), x + r0 * a->k);
    }
    for (int64_t t = t0; t < t1;) {
        int tiles = a->paired || (LANES_PER_TILE == 1 && t1 - t >= 2) ? 2 : 1;

        run_tiles(a, m, x, rows, t, tiles, acc);
        finish(a, acc, rows, row0, t, tiles);
        t += tiles;
    }
}

static void run(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch, const micros *m)
{
    int64_t spans = FX_DIV_UP(a->n_rows, SPAN * PANEL);

    if (a->paired) {                 /* a task is two tiles */
        t0 *= 2;
        t1 *= 2;
    }
    if (a->n_rows == 1)
        run_row(a, t0, t1, m);
    for (int64_t s = 0; a->n_rows > 1 && s < spans; s++) {
        int64_t row0 = cut(a->n_rows, spans, s);

        run_span(a, t0, t1, m, row0, cut(a->n_rows, spans, s + 1) - row0, scratch);
    }
}

/* ---- Instances ---- */

#define MICRO(T, t, V, M)                                                                              \
    static void t##_##V##_##M(const operands *o) { micro(FX_##T, V, M, o); }
#define RUN(T, t)                                                                                      \
    static void run_##t(const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch)                \
    {                                                                                                  \
        static const micros m = { FX_##T, { SINGLES(t), PAIRS(t), { NULL, t##_4_1 } } };               \
                                                                                                       \
        run(a, t0, t1, scratch, &m);                                                                   \
    }
#define INSTANCES(T, t) MICROS(T, t) RUN(T, t)
FX_PACK_PLAIN(INSTANCES)

#define ROW(T, t)                                                                                      \
    { FX_##T, FX_ACT_F32, LEVEL, NULL, NAMED("matmul_" #t), fx_pack_tile_bytes_##t, fx_pack_tile_##t,  \
      run_##t, scratch_bytes },
static const fx_matmul_kernel rows_of_level[] = { FX_PACK_PLAIN(ROW) };
const fx_matmul_set SET = { rows_of_level, FX_COUNT(rows_of_level) };

#endif
