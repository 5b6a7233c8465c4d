/* ref_rope.c - reference kernel: head norms, rotation by position, and the KV store.
 *
 *     h = h * (1 / sqrt(mean(h^2) + eps)) * (norm + offset)     if a norm is given; or after the rotation
 *     (a, b) = (a c - b s, b c + a s)                     for each pair of the leading rot_dim columns
 *     c, s = attn_scale * cos, sin of pos * inv_freq[i]   angle in double
 *
 * Pair i is columns (i, i + rot_dim/2) or (2i, 2i+1), by style.  q goes to q_out; k and
 * v go to the page of the row's position, rounded to the KV type.  A task is a row. */
#include <math.h>

#include "kernels/kernel_set.h"
#include "kernels/kv_page.h"

static int64_t tasks(const void *args) { return ((const fx_rope_store_args *)args)->step->n_rows; }

/* cos[rot/2], sin[rot/2], one head */
static size_t scratch_bytes(const void *args)
{
    const fx_rope_store_args *a = args;

    return (size_t)(a->rot_dim + a->head_dim) * sizeof(float);
}

static void norm_head(const fx_rope_store_args *a, float *h, const float *w)
{
    int32_t n = a->head_dim;
    double sum = 0;
    float inv;

    for (int32_t i = 0; i < n; i++)
        sum += (double)h[i] * h[i];
    inv = (float)(1.0 / sqrt(sum / n + (double)a->eps));
    for (int32_t i = 0; i < n; i++)
        h[i] = h[i] * inv * (w[i] + a->norm_offset);
}

static void rotate_head(const fx_rope_store_args *a, float *h, const float *cs, const float *sn)
{
    int32_t half = a->rot_dim / 2;

    for (int32_t i = 0; i < half; i++) {
        float *p = &h[a->style == FX_ROPE_HALF ? i : 2 * i];
        float *q = &h[a->style == FX_ROPE_HALF ? i + half : 2 * i + 1];
        double x = *p, y = *q;

        *p = (float)(x * cs[i] - y * sn[i]);
        *q = (float)(y * cs[i] + x * sn[i]);
    }
}

/* Norm and rotation, in the order that args ask for. */
static void turn_head(const fx_rope_store_args *a, float *h, const float *norm, const float *cs, const float *sn)
{
    if (norm && !a->norm_last)
        norm_head(a, h, norm);
    rotate_head(a, h, cs, sn);
    if (norm && a->norm_last)
        norm_head(a, h, norm);
}

static void store(uint8_t *p, fx_dtype type, int64_t i, float x)
{
    if (type == FX_F16)
        ((uint16_t *)(void *)p)[i] = fx_f32_to_f16(x);
    else if (type == FX_BF16)
        ((uint16_t *)(void *)p)[i] = fx_f32_to_bf16(x);
    else if (type == FX_I8)
        ((int8_t *)p)[i] = (int8_t)x;
    else
        ((float *)(void *)p)[i] = x;
}

/* The factor of n numbers when they are stored as bytes; scale: what a byte then stands for. */
static float byte_factor(const float *x, int32_t n, float *scale)
{
    float top = 0;
    bool finite = true;

    for (int32_t d = 0; d < n; d++) {
        top = fmaxf(top, fabsf(x[d]));
        finite = finite && isfinite(x[d]);
    }
    *scale = fx_kv_scale(top, finite);
    return fx_kv_inverse(*scale);
}

/* A head's key or value into place j of its block. */
static void store_head(const float *x, int32_t n, uint8_t *block, fx_dtype type, bool key, int64_t j)
{
    float scale = 0, factor = type == FX_I8 ? byte_factor(x, n, &scale) : 1;

    for (int32_t d = 0; d < n; d++)
        store(block, type, key ? fx_kv_key_at(type, d, j) : fx_kv_value_at(type, n, d, j),
              type == FX_I8 ? factor > 0 ? rintf(x[d] * factor) : 0 : x[d]);
    if (type == FX_I8)
        fx_kv_scales(block, n)[j] = scale;
}

static void store_row(const fx_rope_store_args *a, int64_t r, float *h, const float *cs, const float *sn)
{
    const fx_step *s = a->step;
    const fx_step_seq *seq = &s->seqs[s->seq[r]];
    int64_t pos = s->pos[r], at = pos % FX_KV_BLOCK;
    size_t k_bytes = fx_kv_block_bytes(a->kv_dtype, a->head_dim), v_bytes = fx_kv_block_bytes(a->kv_dtype, a->v_dim);

    for (int32_t j = 0; j < a->kv_heads; j++) {
        memcpy(h, a->k.p + r * a->k.ld + (int64_t)j * a->head_dim, (size_t)a->head_dim * sizeof(float));
        if (!a->turned)
            turn_head(a, h, a->k_norm, cs, sn);
        store_head(h, a->head_dim, fx_kv_block(s, seq, a->column, a->k_offset, k_bytes, j, pos), a->kv_dtype, true, at);
        if (a->v.p)
            store_head(a->v.p + r * a->v.ld + (int64_t)j * a->v_dim, a->v_dim,
                       fx_kv_block(s, seq, a->column, a->v_offset, v_bytes, j, pos), a->kv_dtype, false, at);
    }
}

static void run(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_rope_store_args *a = args;
    int32_t half = a->rot_dim / 2;
    float *cs = scratch, *sn = cs + half, *h = sn + half;

    for (int64_t r = t0; r < t1; r++) {
        fx_turning turn = fx_turning_of(a, &a->step->seqs[a->step->seq[r]]);

        for (int32_t i = 0; i < half; i++) {
            double angle = (double)a->step->pos[r] * (double)turn.freq[i];

            if (turn.slow != 1)
                angle *= pow(turn.slow, -2.0 * i / (a->rot_dim - 2));
            cs[i] = (float)(cos(angle) * (double)a->attn_scale);
            sn[i] = (float)(sin(angle) * (double)a->attn_scale);
        }
        for (int32_t j = 0; j < a->heads && !a->turned; j++) {
            memcpy(h, a->q.p + r * a->q.ld + (int64_t)j * a->head_dim, (size_t)a->head_dim * sizeof(float));
            turn_head(a, h, a->q_norm, cs, sn);
            memcpy(a->q_out.p + r * a->q_out.ld + (int64_t)j * a->head_dim, h, (size_t)a->head_dim * sizeof(float));
        }
        if (a->kv_heads > 0)
            store_row(a, r, h, cs, sn);
    }
}

static const fx_kernel rows[] = {
    { FX_K_ROPE_STORE, FX_CPU_SCALAR, "rope_store_ref", tasks, run, scratch_bytes },
};
const fx_kernel_set fx_kernels_ref_rope = { rows, FX_COUNT(rows) };
