/* quantize_k.c - K blocks and IQ4_NL by a search for scales.
 *
 * For given codes the best scale (and minimum) is a linear least-squares problem, and for
 * given scales the best codes are the nearest ones; neither step alone finds both.  So:
 *
 *   1. each sub-block alone: codes for some twenty trial scales around the obvious one,
 *      each refitted; the best is improved by alternating the two steps
 *   2. d (and dmin): such that the largest scale (minimum) gets the largest small integer
 *   3. each sub-block's small integers, the rounded ones and their neighbours, by error;
 *      then d and dmin refitted over the whole block; twice, as long as the error falls
 *
 * The error is the plain sum of squares.  Four lanes of f32 in a fixed order, so that the
 * bytes are the same everywhere. */
#include <math.h>

#include "tensor/blocks.h"
#include "tensor/quantize.h"

typedef float v4 FX_VECTOR(16);
typedef int32_t v4i FX_VECTOR(16);

static FX_ALWAYS_INLINE v4 load4(const float *p)
{
    v4 v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static FX_ALWAYS_INLINE v4 splat(float x) { return (v4){ x, x, x, x }; }
static FX_ALWAYS_INLINE v4 select4(v4i m, v4 yes, v4 no) { return (v4)((m & (v4i)yes) | (~m & (v4i)no)); }
static FX_ALWAYS_INLINE double sum4(v4 v) { return ((double)v[0] + v[1]) + ((double)v[2] + v[3]); }

/* Nearest integer (ties to even) within [lo, hi], integers themselves. */
static FX_ALWAYS_INLINE v4 code4(v4 v, float lo, float hi)
{
    const v4 big = splat(0x1.8p23f);

    v = select4(v < splat(lo), splat(lo), v);
    v = select4(v > splat(hi), splat(hi), v);
    return (v + big) - big;
}

/* ---- x = s*q - m, q in [0, top], s and m not negative ----------------------------------------- */

typedef struct affine {
    float s, m;
} affine;

typedef struct sums {
    double x, xx, q, qq, xq;
} sums;

/* Sums over n values with q = nearest (x + shift) * inv. */
static FX_ALWAYS_INLINE sums affine_sums(const float *x, int n, float shift, float inv, float top)
{
    v4 sx = splat(0), sxx = sx, sq = sx, sqq = sx, sxq = sx;

    for (int i = 0; i < n; i += 4) {
        v4 v = load4(x + i), q = code4((v + splat(shift)) * splat(inv), 0, top);

        sx += v;
        sxx += v * v;
        sq += q;
        sqq += q * q;
        sxq += v * q;
    }
    return (sums){ sum4(sx), sum4(sxx), sum4(sq), sum4(sqq), sum4(sxq) };
}

static double affine_error(const sums *a, int n, double s, double m)
{
    return a->xx + s * s * a->qq + n * m * m - 2 * s * a->xq + 2 * m * a->x - 2 * s * m * a->q;
}

/* The best s and m for the codes of a. */
static affine affine_refit(const sums *a, int n)
{
    double det = n * a->qq - a->q * a->q, s = 0, m = 0;

    if (det > 0) {
        s = (n * a->xq - a->x * a->q) / det;
        m = (s * a->q - a->x) / n;
    }
    if (!(det > 0) || m < 0) {
        m = 0;
        s = a->qq > 0 ? a->xq / a->qq : 0;
    }
    return s > 0 ? (affine){ (float)s, (float)m } : (affine){ 0, 0 };
}

static double nearest_error(const float *x, int n, affine a, float top)
{
    float inv = a.s > 0 ? 1 / a.s : 0;
    v4 e = splat(0);

    if (!(inv < INFINITY))
        inv = 0;
    for (int i = 0; i < n; i += 4) {
        v4 v = load4(x + i) + splat(a.m), q = code4(v * splat(inv), 0, top), d = v - q * splat(a.s);

        e += d * d;
    }
    return sum4(e);
}

static affine affine_fit(const float *x, int n, int top)
{
    float lo = 0, hi = 0;
    affine best = { 0, 0 };
    double best_error;

    for (int i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = i == 0 || x[i] > hi ? x[i] : hi;
    }
    if (!(hi - lo >= 0x1p-100f))                         /* all alike, and not above 0 */
        return (affine){ 0, -lo };
    best = (affine){ (hi - lo) / (float)top, -lo };
    best_error = nearest_error(x, n, best, (float)top);
    for (int t = -10; t <= 10; t++) {
        float inv = ((float)top + 0.1f * (float)t) / (hi - lo);
        sums a = affine_sums(x, n, -lo, inv, (float)top);
        affine f = affine_refit(&a, n);
        double e = affine_error(&a, n, f.s, f.m);

        if (f.s > 0 && e < best_error) {
            best = f;
            best_error = e;
        }
    }
    for (int t = 0; t < 3; t++) {
        sums a = affine_sums(x, n, best.m, 1 / best.s, (float)top);
        affine f = affine_refit(&a, n);

        if (!(f.s > 0) || !(affine_error(&a, n, f.s, f.m) < best_error))
            break;
        best = f;
        best_error = affine_error(&a, n, f.s, f.m);
    }
    return best;
}

/* A block of 256 whose sub-blocks of 'sub' have small integers sc and mn up to 'most'. */
typedef struct affine_block {
    int sub, top, most;
    float d, dmin;                       /* rounded to f16 */
    uint8_t sc[16], mn[16];
    uint8_t q[256];
} affine_block;

static float as_f16(double x)
{
    return fx_f16_to_f32(fx_f32_to_f16((float)x));
}

static uint8_t small(float v, int most)
{
    return (uint8_t)(v >= (float)most ? most : v > 0 ? (int)(v + 0.5f) : 0);
}

/* The best of sc and mn and their neighbours; the error then. */
static double choose_small(const float *x, const affine_block *b, uint8_t *sc, uint8_t *mn)
{
    double best = INFINITY;
    int sc0 = *sc, mn0 = *mn;

    for (int s = FX_MAX(sc0 - 1, 0); s <= FX_MIN(sc0 + 1, b->most); s++)
        for (int m = FX_MAX(mn0 - 1, 0); m <= FX_MIN(mn0 + 1, b->most); m++) {
            double e = nearest_error(x, b->sub, (affine){ b->d * (float)s, b->dmin * (float)m }, (float)b->top);

            if (e < best) {
                best = e;
                *sc = (uint8_t)s;
                *mn = (uint8_t)m;
            }
        }
    return best;
}

/* d and dmin refitted for the codes at hand. */
static void refit_super(const float *x, affine_block *b)
{
    double ss = 0, sm = 0, mm = 0, xs = 0, xm = 0, det;

    for (int j = 0; j < 256 / b->sub; j++) {
        double sc = b->sc[j], mn = b->mn[j];
        float step = b->d * (float)b->sc[j];
        sums a = affine_sums(x + j * b->sub, b->sub, b->dmin * (float)b->mn[j], step > 0 ? 1 / step : 0, (float)b->top);

        ss += sc * sc * a.qq;
        sm += sc * mn * a.q;
        mm += mn * mn * b->sub;
        xs += sc * a.xq;
        xm += mn * a.x;
    }
    det = ss * mm - sm * sm;
    if (det > 0) {
        b->d = as_f16((xs * mm - xm * sm) / det);
        b->dmin = as_f16((xs * sm - xm * ss) / det);
    } else if (ss > 0) {
        b->d = as_f16((xs + b->dmin * sm) / ss);
    }
}

static double choose_all(const float *x, affine_block *b)
{
    double e = 0;

    for (int j = 0; j < 256 / b->sub; j++)
        e += choose_small(x + j * b->sub, b, &b->sc[j], &b->mn[j]);
    return e;
}

static void affine_codes(const float *x, affine_block *b)
{
    for (int i = 0; i < 256; i += 4) {
        float step = b->d * (float)b->sc[i / b->sub], inv = step > 0 ? 1 / step : 0;
        v4 q = code4((load4(x + i) + splat(b->dmin * (float)b->mn[i / b->sub])) * splat(inv < INFINITY ? inv : 0), 0,
                     (float)b->top);

        for (int l = 0; l < 4; l++)
            b->q[i + l] = (uint8_t)q[l];
    }
}

static bool affine_search(const float *x, affine_block *b)
{
    affine fit[16];
    float s = 0, m = 0;
    affine_block next;
    double error;

    for (int j = 0; j < 256 / b->sub; j++) {
        fit[j] = affine_fit(x + j * b->sub, b->sub, b->top);
        s = fit[j].s > s ? fit[j].s : s;
        m = fit[j].m > m ? fit[j].m : m;
    }
    b->d = as_f16(s / (float)b->most);
    b->dmin = as_f16(m / (float)b->most);
    if (!(b->d < INFINITY) || !(b->dmin < INFINITY))
        return false;
    for (int j = 0; j < 256 / b->sub; j++) {
        b->sc[j] = b->d > 0 ? small(fit[j].s / b->d, b->most) : 0;
        b->mn[j] = b->dmin > 0 ? small(fit[j].m / b->dmin, b->most) : 0;
    }
    error = choose_all(x, b);
    for (int t = 0; t < 2; t++) {
        double e;

        next = *b;
        refit_super(x, &next);
        if (!(next.d >= 0 && next.d < INFINITY && next.dmin >= 0 && next.dmin < INFINITY))
            break;
        e = choose_all(x, &next);
        if (!(e < error))
            break;
        *b = next;
        error = e;
    }
    affine_codes(x, b);
    return true;
}

/* The 12 bytes of Q4_K and Q5_K (blocks.h). */
static void put_k4_scales(const affine_block *b, uint8_t s[12])
{
    for (int j = 0; j < 4; j++) {
        s[j] = (uint8_t)(b->sc[j] | b->sc[j + 4] >> 4 << 6);
        s[j + 4] = (uint8_t)(b->mn[j] | b->mn[j + 4] >> 4 << 6);
        s[j + 8] = (uint8_t)((b->sc[j + 4] & 15) | (b->mn[j + 4] & 15) << 4);
    }
}

/* Two bits of 256 codes: 32 bytes hold 128 of them. */
static void put_pairs(const uint8_t q[256], uint8_t qs[64])
{
    memset(qs, 0, 64);
    for (int i = 0; i < 256; i++)
        qs[i / 128 * 32 + i % 32] |= (uint8_t)((q[i] & 3) << i % 128 / 32 * 2);
}

/* Four bits: 32 bytes hold 64 codes. */
static void put_nibbles(const uint8_t q[256], uint8_t qs[128])
{
    for (int i = 0; i < 128; i++) {
        int at = i / 32 * 64 + i % 32;

        qs[i] = (uint8_t)((q[at] & 15) | (q[at + 32] & 15) << 4);
    }
}

bool fx_quantize_q2_k(const float *x, void *dst)
{
    affine_block b = { .sub = 16, .top = 3, .most = 15 };
    fx_block_q2_k *o = dst;

    if (!affine_search(x, &b))
        return false;
    for (int j = 0; j < 16; j++)
        o->scales[j] = (uint8_t)(b.sc[j] | b.mn[j] << 4);
    put_pairs(b.q, o->qs);
    o->d = fx_f32_to_f16(b.d);
    o->dmin = fx_f32_to_f16(b.dmin);
    return true;
}

bool fx_quantize_q4_k(const float *x, void *dst)
{
    affine_block b = { .sub = 32, .top = 15, .most = 63 };
    fx_block_q4_k *o = dst;

    if (!affine_search(x, &b))
        return false;
    o->d = fx_f32_to_f16(b.d);
    o->dmin = fx_f32_to_f16(b.dmin);
    put_k4_scales(&b, o->scales);
    put_nibbles(b.q, o->qs);
    return true;
}

bool fx_quantize_q5_k(const float *x, void *dst)
{
    affine_block b = { .sub = 32, .top = 31, .most = 63 };
    fx_block_q5_k *o = dst;

    if (!affine_search(x, &b))
        return false;
    o->d = fx_f32_to_f16(b.d);
    o->dmin = fx_f32_to_f16(b.dmin);
    put_k4_scales(&b, o->scales);
    put_nibbles(b.q, o->qs);
    memset(o->qh, 0, sizeof(o->qh));
    for (int i = 0; i < 256; i++)
        o->qh[i % 32] |= (uint8_t)((b.q[i] >> 4) << i / 32);
    return true;
}

/* ---- x = s*q, q in [-levels/2, levels/2 - 1], s of either sign -------------------------------- */

/* Sums with q = nearest x * inv. */
static FX_ALWAYS_INLINE sums signed_sums(const float *x, int n, float inv, float lo, float hi)
{
    v4 sqq = splat(0), sxq = sqq, sxx = sqq;

    for (int i = 0; i < n; i += 4) {
        v4 v = load4(x + i), q = code4(v * splat(inv), lo, hi);

        sxx += v * v;
        sqq += q * q;
        sxq += v * q;
    }
    return (sums){ 0, sum4(sxx), 0, sum4(sqq), sum4(sxq) };
}

static float extreme(const float *x, int n)
{
    float v = 0;

    for (int i = 0; i < n; i++)
        v = fabsf(x[i]) > fabsf(v) ? x[i] : v;
    return v;
}

static float signed_fit(const float *x, int n, int half)
{
    float v = extreme(x, n), lo = (float)-half, hi = (float)(half - 1), best = 0;
    double gain = 0;

    if (!(fabsf(v) >= 0x1p-100f))
        return 0;
    for (int t = -9; t <= 9; t++)
        for (int side = 0; side < 2; side++) {       /* v at the lowest code, or at the highest */
            sums a = signed_sums(x, n, ((side ? hi : lo) + 0.1f * (float)t) / v, lo, hi);

            if (a.qq > 0 && a.xq * a.xq > gain * a.qq) {
                gain = a.xq * a.xq / a.qq;
                best = (float)(a.xq / a.qq);
            }
        }
    return best;
}

typedef struct signed_block {
    int half, most;                      /* codes below 0; sc is in [-most, most - 1] */
    float d;
    int8_t sc[16], q[256];
} signed_block;

static float safe_inverse(float step)
{
    return fabsf(step) >= 0x1p-126f ? 1 / step : 0;
}

static double signed_error(const float *x, float step, int half)
{
    sums a = signed_sums(x, 16, safe_inverse(step), (float)-half, (float)(half - 1));

    return a.xx - 2 * (double)step * a.xq + (double)step * step * a.qq;
}

static double choose_signed(const float *x, signed_block *b)
{
    double all = 0;

    for (int j = 0; j < 16; j++) {
        double best = INFINITY;
        int sc0 = b->sc[j];

        for (int s = FX_MAX(sc0 - 1, -b->most); s <= FX_MIN(sc0 + 1, b->most - 1); s++) {
            double e = signed_error(x + 16 * j, b->d * (float)s, b->half);

            if (e < best) {
                best = e;
                b->sc[j] = (int8_t)s;
            }
        }
        all += best;
    }
    return all;
}

static void refit_signed(const float *x, signed_block *b)
{
    double ss = 0, xs = 0;

    for (int j = 0; j < 16; j++) {
        double sc = b->sc[j];
        sums a = signed_sums(x + 16 * j, 16, safe_inverse(b->d * (float)b->sc[j]), (float)-b->half, (float)(b->half - 1));

        ss += sc * sc * a.qq;
        xs += sc * a.xq;
    }
    if (ss > 0)
        b->d = as_f16(xs / ss);
}

static int within(float v, int lo, int hi)
{
    float r = roundf(v);

    return r <= (float)lo ? lo : r >= (float)hi ? hi : (int)r;
}

static bool signed_search(const float *x, signed_block *b)
{
    float fit[16], inv;
    double error;

    for (int j = 0; j < 16; j++)
        fit[j] = signed_fit(x + 16 * j, 16, b->half);
    b->d = as_f16(extreme(fit, 16) / (float)-b->most);
    if (!isfinite(b->d))
        return false;
    inv = safe_inverse(b->d);
    for (int j = 0; j < 16; j++)
        b->sc[j] = (int8_t)within(fit[j] * inv, -b->most, b->most - 1);
    error = choose_signed(x, b);
    for (int t = 0; t < 2; t++) {
        signed_block next = *b;
        double e;

        refit_signed(x, &next);
        if (!isfinite(next.d))
            break;
        e = choose_signed(x, &next);
        if (!(e < error))
            break;
        *b = next;
        error = e;
    }
    for (int i = 0; i < 256; i += 4) {
        v4 q = code4(load4(x + i) * splat(safe_inverse(b->d * (float)b->sc[i / 16])), (float)-b->half,
                     (float)(b->half - 1));

        for (int l = 0; l < 4; l++)
            b->q[i + l] = (int8_t)q[l];
    }
    return true;
}

bool fx_quantize_q3_k(const float *x, void *dst)
{
    signed_block b = { .half = 4, .most = 32 };
    fx_block_q3_k *o = dst;
    uint8_t q[256];

    if (!signed_search(x, &b))
        return false;
    memset(o->hmask, 0, sizeof(o->hmask));
    memset(o->scales, 0, sizeof(o->scales));
    for (int i = 0; i < 256; i++) {
        q[i] = (uint8_t)(b.q[i] + 4);
        o->hmask[i % 32] |= (uint8_t)((q[i] >> 2) << i / 32);
    }
    put_pairs(q, o->qs);
    for (int j = 0; j < 16; j++) {
        int sc = b.sc[j] + 32;

        o->scales[j % 8] |= (uint8_t)((sc & 15) << j / 8 * 4);
        o->scales[8 + j % 4] |= (uint8_t)((sc >> 4) << j / 4 * 2);
    }
    o->d = fx_f32_to_f16(b.d);
    return true;
}

bool fx_quantize_q6_k(const float *x, void *dst)
{
    signed_block b = { .half = 32, .most = 128 };
    fx_block_q6_k *o = dst;

    if (!signed_search(x, &b))
        return false;
    memset(o->ql, 0, sizeof(o->ql));
    memset(o->qh, 0, sizeof(o->qh));
    for (int i = 0; i < 256; i++) {
        int half = i / 128, part = i % 128 / 32, l = i % 32, q = b.q[i] + 32;

        o->ql[half * 64 + (part & 1) * 32 + l] |= (uint8_t)((q & 15) << (part < 2 ? 0 : 4));
        o->qh[half * 32 + l] |= (uint8_t)((q >> 4) << part * 2);
    }
    memcpy(o->scales, b.sc, 16);
    o->d = fx_f32_to_f16(b.d);
    return true;
}

/* ---- IQ4_NL: x = d * table[q] ------------------------------------------------------------------- */

/* The table's value nearest to each lane. */
static FX_ALWAYS_INLINE v4 nearest_value(v4 v)
{
    v4 r = splat(fx_iq4_values[0]);

    for (int i = 1; i < 16; i++) {
        float edge = 0.5f * (float)(fx_iq4_values[i - 1] + fx_iq4_values[i]);

        r = select4(v > splat(edge), splat(fx_iq4_values[i]), r);
    }
    return r;
}

static sums table_sums(const float *x, float inv)
{
    v4 sqq = splat(0), sxq = sqq;

    for (int i = 0; i < 32; i += 4) {
        v4 v = load4(x + i), q = nearest_value(v * splat(inv));

        sqq += q * q;
        sxq += v * q;
    }
    return (sums){ 0, 0, 0, sum4(sqq), sum4(sxq) };
}

bool fx_quantize_iq4_nl(const float *x, void *dst)
{
    fx_block_iq4_nl *o = dst;
    float v = extreme(x, 32), d = 0, inv;
    double gain = 0;

    for (int t = -7; t <= 7 && fabsf(v) >= 0x1p-100f; t++)
        for (int side = 0; side < 2; side++) {
            sums a = table_sums(x, ((float)fx_iq4_values[side ? 15 : 0] + (float)t) / v);

            if (a.qq > 0 && a.xq * a.xq > gain * a.qq) {
                gain = a.xq * a.xq / a.qq;
                d = (float)(a.xq / a.qq);
            }
        }
    d = as_f16(d);
    if (!isfinite(d))
        return false;
    inv = safe_inverse(d);
    memset(o->qs, 0, sizeof(o->qs));
    for (int i = 0; i < 32; i++) {
        float q = nearest_value(splat(x[i] * inv))[0];
        int k = 0;

        while ((float)fx_iq4_values[k] < q)
            k++;
        o->qs[i % 16] |= (uint8_t)(k << i / 16 * 4);
    }
    o->d = fx_f32_to_f16(d);
    return true;
}
