/* select.c - see select.h.
 *
 * The cut is found without sorting: a histogram over the values says in which of 256
 * bins it lies; only that bin's elements are looked at again, until few or equal ones
 * are left.  Bins hold counts and masses, so one walk serves top-k and top-p. */
#include "sample/select.h"

#include <math.h>
#include <string.h>

#define LANES 16
#define BINS 256
#define FEW 48

/* ---- Passes over a row ------------------------------------------------------------- */

bool fx_scan_max(const float *x, int64_t n, float *block_max, float *max)
{
    float best = -INFINITY;
    uint32_t nan = 0;

    for (int64_t b = 0; b * FX_BLOCK < n; b++) {
        const float *p = x + b * FX_BLOCK;
        float top = -INFINITY;

        if (n - b * FX_BLOCK >= FX_BLOCK) {
            float lane[LANES];
            uint32_t bad[LANES] = { 0 };

            memcpy(lane, p, sizeof lane);
            for (int i = 0; i < FX_BLOCK; i += LANES) {
                for (int l = 0; l < LANES; l++) {
                    lane[l] = p[i + l] > lane[l] ? p[i + l] : lane[l];
                    bad[l] |= p[i + l] != p[i + l];
                }
            }
            for (int l = 0; l < LANES; l++) {
                top = lane[l] > top ? lane[l] : top;
                nan |= bad[l];
            }
        } else {
            for (int64_t i = 0; i < n - b * FX_BLOCK; i++) {
                top = p[i] > top ? p[i] : top;
                nan |= p[i] != p[i];
            }
        }
        block_max[b] = top;
        best = top > best ? top : best;
    }
    *max = best;
    return nan == 0;
}

/* exp(x) = 2^n * p(r) with n = round(x / ln 2), |r| <= ln 2 / 2; p is the Taylor polynomial of
 * degree 6, whose error there is below 2e-7 relative.  Adding 1.5 * 2^23 rounds to an integer
 * and leaves it in the low bits.  Below -87 the result would be subnormal: 0.  Selection is
 * by masks, which compilers vectorise where they keep a branch for ?: */
static FX_ALWAYS_INLINE float keep_if(float x, bool keep)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    bits &= 0u - (uint32_t)keep;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static FX_ALWAYS_INLINE float exp_neg(float x)
{
    const float round = 12582912.0f;
    float t = x * 1.44269504f + round;
    float n = t - round;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.0f / 720;
    uint32_t bits;
    float scale;

    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits + 127) << 23;            /* t's low bits are n; the rest is shifted out */
    memcpy(&scale, &bits, sizeof scale);
    return keep_if(p * scale, x >= -87.0f);
}

float fx_exp_neg(float x)
{
    return exp_neg(x);
}

static double sum_block(const float *e)
{
    float lane[LANES] = { 0 };

    for (int i = 0; i < FX_BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += e[i + l];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static void exp_block(const float *x, float max, float scale, float least, float *e)
{
    float out[FX_BLOCK];

    for (int i = 0; i < FX_BLOCK; i++) {
        float y = exp_neg((x[i] - max) * scale);

        out[i] = keep_if(y, y >= least);
    }
    memcpy(e, out, sizeof out);
}

double fx_scan_exp(const float *x, int64_t n, float max, float scale, float least, float *e)
{
    double sum = 0;
    int64_t i = 0;

    for (; n - i >= FX_BLOCK; i += FX_BLOCK) {
        exp_block(x + i, max, scale, least, e + i);
        sum += sum_block(e + i);
    }
    if (i < n) {
        float tail[FX_BLOCK], out[FX_BLOCK];

        for (int j = 0; j < FX_BLOCK; j++)
            tail[j] = j < n - i ? x[i + j] : -INFINITY;
        exp_block(tail, max, scale, least, out);
        memcpy(e + i, out, (size_t)(n - i) * sizeof *e);
        sum += sum_block(out);
    }
    return sum;
}

double fx_scan_sum_exp(const float *x, int64_t n, float max)
{
    double sum = 0;
    float e[FX_BLOCK];

    for (int64_t i = 0; i < n; i += FX_BLOCK) {
        int64_t m = FX_MIN(n - i, FX_BLOCK);

        sum += fx_scan_exp(x + i, m, max, 1.0f, 0.0f, e);
    }
    return sum;
}

/* ---- The cut ------------------------------------------------------------------------ */

static bool comes_before(const float *x, int32_t a, int32_t b)
{
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

static void sort_few(const float *x, int32_t *at, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        int32_t v = at[i], j = i;

        for (; j > 0 && comes_before(x, v, at[j - 1]); j--)
            at[j] = at[j - 1];
        at[j] = v;
    }
}

typedef struct bins {
    double hi, scale;
    int32_t count[BINS];
    double mass[BINS];
} bins;

static int32_t bin_of(const bins *b, float x)
{
    int32_t i = (int32_t)((b->hi - (double)x) * b->scale);

    return i < BINS ? i : BINS - 1;
}

/* The bin in which the cut lies; takes what lies above it off *k and *mass. */
static int32_t choose_bin(const bins *b, int32_t *k, double *mass)
{
    int32_t last = 0;

    for (int32_t i = 0; i < BINS; i++) {
        if (b->count[i] == 0)
            continue;
        last = i;
        if (b->count[i] >= *k || b->mass[i] >= *mass)
            return i;
        *k -= b->count[i];
        *mass -= b->mass[i];
    }
    *k = INT32_MAX;                       /* rounding: the mass is all of it */
    *mass = INFINITY;
    return last;
}

/* Keeps the elements of one bin, in order; false: all are equal. */
static bool narrow(const float *x, const float *e, int32_t *at, int32_t *n, int32_t *k, double *mass)
{
    bins b = { 0 };
    float lo = x[at[0]], hi = lo;
    int32_t bin, kept = 0;

    for (int32_t i = 1; i < *n; i++) {
        lo = x[at[i]] < lo ? x[at[i]] : lo;
        hi = x[at[i]] > hi ? x[at[i]] : hi;
    }
    if (lo == hi)
        return false;
    b.hi = hi;
    b.scale = BINS / ((double)hi - (double)lo);
    for (int32_t i = 0; i < *n; i++) {
        bin = bin_of(&b, x[at[i]]);
        b.count[bin]++;
        b.mass[bin] += e ? (double)e[at[i]] : 0.0;
    }
    bin = choose_bin(&b, k, mass);
    for (int32_t i = 0; i < *n; i++)
        if (bin_of(&b, x[at[i]]) == bin)
            at[kept++] = at[i];
    *n = kept;
    return true;
}

fx_cut fx_cut_find(const float *x, const float *e, int32_t n, int32_t k, double mass, int32_t *work)
{
    int32_t i = 0;

    for (i = 0; i < n; i++)
        work[i] = i;
    while (n > FEW && narrow(x, e, work, &n, &k, &mass))
        ;
    if (n <= FEW)
        sort_few(x, work, n);
    for (i = 0; i < n - 1; i++) {
        k--;
        mass -= e ? (double)e[work[i]] : 0.0;
        if (k <= 0 || mass <= 0)
            break;
    }
    return (fx_cut){ x[work[i]], work[i] };
}
