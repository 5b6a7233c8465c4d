/* quantize_k.c - K blocks and IQ4_NL, whose scales are searched for.
 *
 * For given codes the best scale (and minimum) is a linear least-squares problem, and for given
 * scales the best codes are the nearest ones.  So: each sub-block alone tries some twenty scales around the
 * obvious one, each refitted to its codes, and keeps the one of least error; then its scale is rounded to a small integer
 * times d, such that the largest of the block gets the largest integer; and the codes are taken anew.
 *
 * Values count by a weight that grows with their size, as llama.cpp's quantizer does when it has no importance
 * matrix; so does what it tries, in the same order, so that the same model comes out:
 *
 *     type        codes       error                       weight
 *     Q2_K        s*q - m     absolute                    |x|
 *     Q4_K Q5_K   s*q - m     squared                     |x| + root of the mean square of the sub-block
 *     Q3_K Q6_K   s*q         squared                     x^2
 *     IQ4_NL      s*table[q]  squared                     x^2
 *
 * Plain f32 in a fixed order: the bytes are the same everywhere. */
#include <math.h>

#include "tensor/blocks.h"
#include "tensor/quantize.h"

#define NOTHING 1e-15f                   /* blocks of values below this are zeros */

/* Nearest integer, ties to even, of what is far below 2^22. */
static int nearest(float v)
{
    float r = v + 0x1.8p23f;

    return (int)(fx_f32_bits(r) & 0x7fffffu) - 0x400000;
}

static int within(int q, int lo, int hi) { return q < lo ? lo : q > hi ? hi : q; }

static bool put_f16(uint16_t *out, float x)
{
    *out = fx_f32_to_f16(x);
    return (*out & 0x7c00) != 0x7c00;
}

/* The first value of largest magnitude; 0: all are below NOTHING. */
static float extreme(const float *x, int n)
{
    float most = 0, v = 0;

    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            v = x[i];
        }
    }
    return most < NOTHING ? 0 : v;
}

/* ---- x = s*q - m, q in [0, top], s and m not negative ----------------------------------------- */

typedef struct affine {
    float s, m;
} affine;

typedef struct affine_kind {
    int n, top;                          /* values of a sub-block */
    int most;                            /* the small integers of s and m are at most this */
    float first;                         /* trial scales: (top + first + 0.1 t) codes over the range, t in [0, tries] */
    int tries;
    bool absolute;                       /* errors aren't squared */
} affine_kind;

static const affine_kind q2_k = { 16, 3, 15, -0.5f, 15, true };
static const affine_kind q4_k = { 32, 15, 63, -1.0f, 20, false };
static const affine_kind q5_k = { 32, 31, 63, -0.5f, 15, false };

static void affine_weights(const affine_kind *k, const float *x, float *w)
{
    float sum = 0, base = 0;

    for (int i = 0; i < k->n; i++)
        sum += x[i] * x[i];
    if (!k->absolute)
        base = sqrtf(sum / (float)k->n);
    for (int i = 0; i < k->n; i++)
        w[i] = base + fabsf(x[i]);
}

static float affine_error(const affine_kind *k, const float *x, const float *w, const int *q, float s, float low)
{
    float sum = 0;

    for (int i = 0; i < k->n; i++) {
        float d = s * (float)q[i] + low - x[i];

        sum += w[i] * (k->absolute ? fabsf(d) : d * d);
    }
    return sum;
}

typedef struct sums {
    float w, x, q, qq, xq;               /* weighted */
} sums;

/* Codes of x at 'inv' codes a unit above 'low', and what a refit needs. */
static void affine_codes(const affine_kind *k, const float *x, const float *w, float low, float inv, int *q, sums *a)
{
    a->q = a->qq = a->xq = 0;
    for (int i = 0; i < k->n; i++) {
        float c;

        q[i] = within(nearest(inv * (x[i] - low)), 0, k->top);
        c = (float)q[i];
        a->q += w[i] * c;
        a->qq += w[i] * c * c;
        a->xq += w[i] * c * x[i];
    }
}

/* The best scale and lowest value, which isn't above 0, for codes; false: they are all alike. */
static bool affine_refit(const sums *a, float *s, float *low)
{
    float det = a->w * a->qq - a->q * a->q;

    if (!(det > 0))
        return false;
    *s = (a->w * a->xq - a->x * a->q) / det;
    *low = (a->qq * a->x - a->q * a->xq) / det;
    if (*low > 0) {
        *low = 0;
        *s = a->xq / a->qq;
    }
    return true;
}

/* Later trials begin at the best lowest value so far. */
static affine affine_fit(const affine_kind *k, const float *x)
{
    float w[32], lo = x[0], hi = x[0], s, low, error;
    sums a = { 0 };
    int q[32];

    affine_weights(k, x, w);
    for (int i = 0; i < k->n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        a.w += w[i];
        a.x += w[i] * x[i];
    }
    lo = lo > 0 ? 0 : lo;
    if (!(hi - lo >= 0x1p-100f))
        return (affine){ 0, -lo };
    low = lo;
    s = 1 / ((float)k->top / (hi - lo));
    affine_codes(k, x, w, lo, (float)k->top / (hi - lo), q, &a);
    error = affine_error(k, x, w, q, s, low);
    for (int t = 0; t <= k->tries; t++) {
        float e, trial_s, trial_low;

        affine_codes(k, x, w, low, (k->first + 0.1f * (float)t + (float)k->top) / (hi - low), q, &a);
        if (!affine_refit(&a, &trial_s, &trial_low))
            continue;
        e = affine_error(k, x, w, q, trial_s, trial_low);
        if (e < error) {
            error = e;
            s = trial_s;
            low = trial_low;
        }
    }
    return (affine){ s, -low };
}

/* A block of 256: small integers of each sub-block, codes. */
typedef struct affine_block {
    uint16_t d, dmin;                    /* f16 */
    uint8_t sc[16], mn[16];
    uint8_t q[256];
} affine_block;

static uint8_t small(float v, int most) { return (uint8_t)within(nearest(v), 0, most); }

static bool affine_search(const affine_kind *k, const float *x, affine_block *b)
{
    affine fit[16];
    float s = 0, m = 0;
    int n = 256 / k->n;

    for (int j = 0; j < n; j++) {
        fit[j] = affine_fit(k, x + j * k->n);
        s = fit[j].s > s ? fit[j].s : s;
        m = fit[j].m > m ? fit[j].m : m;
    }
    if (!put_f16(&b->d, s / (float)k->most) || !put_f16(&b->dmin, m / (float)k->most))
        return false;
    for (int j = 0; j < n; j++) {
        float step, low;

        b->sc[j] = s > 0 ? small((float)k->most / s * fit[j].s, k->most) : 0;
        b->mn[j] = m > 0 ? small((float)k->most / m * fit[j].m, k->most) : 0;
        step = fx_f16_to_f32(b->d) * (float)b->sc[j];
        low = fx_f16_to_f32(b->dmin) * (float)b->mn[j];
        for (int i = j * k->n; i < (j + 1) * k->n; i++) {
            float v = step > 0 ? (x[i] + low) / step : 0;

            b->q[i] = (uint8_t)(v >= (float)k->top ? k->top : v > 0 ? nearest(v) : 0);
        }
    }
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
    fx_block_q2_k *o = dst;
    affine_block b;

    if (!affine_search(&q2_k, x, &b))
        return false;
    for (int j = 0; j < 16; j++)
        o->scales[j] = (uint8_t)(b.sc[j] | b.mn[j] << 4);
    put_pairs(b.q, o->qs);
    o->d = b.d;
    o->dmin = b.dmin;
    return true;
}

bool fx_quantize_q4_k(const float *x, void *dst)
{
    fx_block_q4_k *o = dst;
    affine_block b;

    if (!affine_search(&q4_k, x, &b))
        return false;
    o->d = b.d;
    o->dmin = b.dmin;
    put_k4_scales(&b, o->scales);
    put_nibbles(b.q, o->qs);
    return true;
}

bool fx_quantize_q5_k(const float *x, void *dst)
{
    fx_block_q5_k *o = dst;
    affine_block b;

    if (!affine_search(&q5_k, x, &b))
        return false;
    o->d = b.d;
    o->dmin = b.dmin;
    put_k4_scales(&b, o->scales);
    put_nibbles(b.q, o->qs);
    memset(o->qh, 0, sizeof(o->qh));
    for (int i = 0; i < 256; i++)
        o->qh[i % 32] |= (uint8_t)((b.q[i] >> 4) << i / 32);
    return true;
}

/* ---- x = s*q, q in [-half, half - 1], s of either sign --------------------------------------------- */

/* How well codes fit: for a scale refitted to them the weighted error falls by xq^2 / qq. */
typedef struct gain {
    float xq, qq;
} gain;

static gain signed_codes(const float *x, float inv, int half, int q[16])
{
    gain g = { 0, 0 };

    for (int i = 0; i < 16; i++) {
        float w = x[i] * x[i], c;

        q[i] = within(nearest(inv * x[i]), -half, half - 1);
        c = (float)q[i];
        g.xq += w * x[i] * c;
        g.qq += w * c * c;
    }
    return g;
}

/* Q6_K: the best of trial scales at which the extreme value gets about the lowest code. */
static float tried_scale(const float *x, int half)
{
    float v = extreme(x, 16), s, best;
    int q[16];
    gain g;

    if (v == 0)
        return 0;
    g = signed_codes(x, (float)-half / v, half, q);
    s = g.qq > 0 ? g.xq / g.qq : 0;
    best = s * g.xq;
    for (int t = -9; t <= 9; t++) {
        if (t == 0)
            continue;
        g = signed_codes(x, -((float)half + 0.1f * (float)t) / v, half, q);
        if (g.qq > 0 && g.xq * g.xq > best * g.qq) {
            s = g.xq / g.qq;
            best = s * g.xq;
        }
    }
    return s;
}

/* Q3_K: codes are changed one at a time, as long as one is better at the scale that the others want. */
static float improved_scale(const float *x, int half)
{
    float v = extreme(x, 16);
    int q[16];
    gain g;

    if (v == 0)
        return 0;
    g = signed_codes(x, (float)-half / v, half, q);
    for (int t = 0, changes = 1; t < 5 && changes; t++) {
        changes = 0;
        for (int i = 0; i < 16; i++) {
            float w = x[i] * x[i], c = (float)q[i];
            gain rest = { g.xq - w * x[i] * c, g.qq - w * c * c };
            int to;

            if (!(rest.xq > 0))
                continue;
            to = within(nearest(fminf(fmaxf(x[i] * rest.qq / rest.xq, -1e6f), 1e6f)), -half, half - 1);
            if (to == q[i])
                continue;
            rest.xq += w * x[i] * (float)to;
            rest.qq += w * (float)to * (float)to;
            if (rest.qq > 0 && rest.xq * rest.xq * g.qq > g.xq * g.xq * rest.qq) {
                g = rest;
                q[i] = to;
                changes++;
            }
        }
    }
    return g.qq > 0 ? g.xq / g.qq : 0;
}

typedef struct signed_block {
    int half, most;                      /* codes below 0; sc is in [-most, most - 1] */
    uint16_t d;                          /* f16 */
    int8_t sc[16], q[256];
} signed_block;

/* The code of v, a quotient that may be anything. */
static int8_t signed_code(float v, int half)
{
    return (int8_t)(v <= (float)-half ? -half : v >= (float)(half - 1) ? half - 1 : nearest(v));
}

static bool signed_search(const float *x, float (*scale_of)(const float *x, int half), signed_block *b)
{
    float fit[16], most, inv;

    for (int j = 0; j < 16; j++) {
        fit[j] = scale_of(x + 16 * j, b->half);
        if (!isfinite(fit[j]))
            return false;
    }
    most = extreme(fit, 16);
    inv = most != 0 ? (float)-b->most / most : 0;
    if (!put_f16(&b->d, inv != 0 && fabsf(inv) < INFINITY ? 1 / inv : 0))
        return false;
    for (int j = 0; j < 16; j++) {
        float step;

        b->sc[j] = (int8_t)(most != 0 && fabsf(inv) < INFINITY ? within(nearest(inv * fit[j]), -b->most, b->most - 1) : 0);
        step = fx_f16_to_f32(b->d) * (float)b->sc[j];
        for (int i = 16 * j; i < 16 * j + 16; i++)
            b->q[i] = step != 0 ? signed_code(x[i] / step, b->half) : 0;
    }
    return true;
}

bool fx_quantize_q3_k(const float *x, void *dst)
{
    signed_block b = { .half = 4, .most = 32 };
    fx_block_q3_k *o = dst;
    uint8_t q[256];

    if (!signed_search(x, improved_scale, &b))
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
    o->d = b.d;
    return true;
}

bool fx_quantize_q6_k(const float *x, void *dst)
{
    signed_block b = { .half = 32, .most = 128 };
    fx_block_q6_k *o = dst;

    if (!signed_search(x, tried_scale, &b))
        return false;
    memset(o->ql, 0, sizeof(o->ql));
    memset(o->qh, 0, sizeof(o->qh));
    for (int i = 0; i < 256; i++) {
        int half = i / 128, part = i % 128 / 32, l = i % 32, q = b.q[i] + 32;

        o->ql[half * 64 + (part & 1) * 32 + l] |= (uint8_t)((q & 15) << (part < 2 ? 0 : 4));
        o->qh[half * 32 + l] |= (uint8_t)((q >> 4) << part * 2);
    }
    memcpy(o->scales, b.sc, 16);
    o->d = b.d;
    return true;
}

/* ---- IQ4_NL: x = d * table[q] ------------------------------------------------------------------- */

/* The value of the table nearest to v, the larger one of two; its place. */
static int nearest_place(float v)
{
    int lo = 0, hi = 15;

    if (v <= (float)fx_iq4_values[0])
        return 0;
    if (v >= (float)fx_iq4_values[15])
        return 15;
    while (hi - lo > 1) {
        int mid = (lo + hi) / 2;

        if (v < (float)fx_iq4_values[mid])
            hi = mid;
        else
            lo = mid;
    }
    return v - (float)fx_iq4_values[lo] < (float)fx_iq4_values[hi] - v ? lo : hi;
}

static gain table_gain(const float *x, float inv)
{
    gain g = { 0, 0 };

    for (int i = 0; i < 32; i++) {
        float w = x[i] * x[i], c = (float)fx_iq4_values[nearest_place(inv * x[i])];

        g.xq += w * c * x[i];
        g.qq += w * c * c;
    }
    return g;
}

static float table_scale(const float *x)
{
    float v = extreme(x, 32), first = (float)fx_iq4_values[0], s, best;
    gain g;

    if (v == 0)
        return 0;
    g = table_gain(x, -first / v);               /* at the lowest value's mirror image */
    s = g.qq > 0 ? g.xq / g.qq : 0;
    best = s * g.xq;
    for (int t = -7; t <= 7; t++) {
        g = table_gain(x, ((float)t + first) / v);
        if (g.qq > 0 && g.xq * g.xq > best * g.qq) {
            s = g.xq / g.qq;
            best = s * g.xq;
        }
    }
    return s;
}

bool fx_quantize_iq4_nl(const float *x, void *dst)
{
    fx_block_iq4_nl *o = dst;
    float s = table_scale(x), inv = fabsf(s) >= 0x1p-126f ? 1 / s : 0;

    if (!put_f16(&o->d, s))
        return false;
    memset(o->qs, 0, sizeof(o->qs));
    for (int i = 0; i < 32; i++)
        o->qs[i % 16] |= (uint8_t)(nearest_place(inv * x[i]) << i / 16 * 4);
    return true;
}
