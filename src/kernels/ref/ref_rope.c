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
    else
        ((float *)(void *)p)[i] = x;
}

static void store_row(const fx_rope_store_args *a, int64_t r, float *h, const float *cs, const float *sn)
{
    const fx_step *s = a->step;
    int64_t pos = s->pos[r];
    size_t elem = fx_kv_elem(a->kv_dtype);
    uint8_t *page = fx_kv_page(s, &s->seqs[s->seq[r]], pos);

    for (int32_t j = 0; j < a->kv_heads; j++) {
        uint8_t *k = page + fx_kv_k_at(s, a->k_offset, elem, j, a->head_dim, pos);
        uint8_t *v = page + fx_kv_v_at(s, a->v_offset, elem, j, a->v_dim, pos);

        memcpy(h, a->k.p + r * a->k.ld + (int64_t)j * a->head_dim, (size_t)a->head_dim * sizeof(float));
        turn_head(a, h, a->k_norm, cs, sn);
        for (int32_t d = 0; d < a->head_dim; d++)
            store(k, a->kv_dtype, (int64_t)d * FX_KV_BLOCK, h[d]);
        for (int32_t d = 0; a->v.p && d < a->v_dim; d++)
            store(v, a->kv_dtype, d, a->v.p[r * a->v.ld + (int64_t)j * a->v_dim + d]);
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
        for (int32_t j = 0; j < a->heads; j++) {
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
