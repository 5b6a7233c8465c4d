/* ref_attend.c - reference kernel: attention over the paged state.
 *
 *     s[j]   = scale * q . K[j]                   (softcap: s = cap * tanh(s / cap))
 *     s[j]  -= slope of the head * (pos - j)      (if there are slopes)
 *     out    = sum_j exp(s[j]) V[j] / sum_j exp(s[j])
 *
 * over the keys j <= pos, and j > pos - window if there is a window; for encoders over all keys of the sequence.  Keys are taken in
 * spans of FX_ATTEND_SPAN at absolute positions: a span gives its maximum m, the sum l
 * of exp(s - m) and the weighted sum of V; spans are merged in order.  K and V are read
 * in their stored form.  A task is a row and head; sums are in double. */
#include <math.h>

#include "kernels/attend.h"
#include "kernels/kernel_set.h"
#include "kernels/kv_page.h"
#include "kernels/quant.h"

typedef struct part {
    double max, sum, *acc;       /* acc: [v_dim] */
} part;

static int64_t tasks(const void *args)
{
    const fx_attend_args *a = args;

    return (int64_t)a->step->n_rows * a->heads;
}

static size_t scratch_bytes(const void *args)
{
    return (FX_ATTEND_SPAN + 2 * (size_t)((const fx_attend_args *)args)->v_dim) * sizeof(double);
}

/* Number i of a block, of token j. */
static double load(const uint8_t *block, fx_dtype type, int32_t width, int64_t i, int64_t j)
{
    if (type == FX_I8)
        return (double)((const int8_t *)block)[i] * (double)fx_kv_scales(block, width)[j];
    if (type == FX_F32)
        return (double)((const float *)(const void *)block)[i];
    return (double)(type == FX_F16 ? fx_f16_to_f32 : fx_bf16_to_f32)(((const uint16_t *)(const void *)block)[i]);
}

static const uint8_t *key_block(const fx_attend_args *a, const fx_step_seq *seq, int64_t kv_head, int64_t pos)
{
    return fx_kv_block(a->step, seq, a->column, a->k_offset, fx_kv_block_bytes(a->kv_dtype, a->head_dim), kv_head, pos);
}

static double score(const fx_attend_args *a, const fx_step_seq *seq, const float *q, int64_t kv_head, int64_t pos)
{
    const uint8_t *k = key_block(a, seq, kv_head, pos);
    int64_t at = pos % FX_KV_BLOCK;
    double sum = 0;

    for (int32_t d = 0; d < a->head_dim; d++)
        sum += q[d] * load(k, a->kv_dtype, a->head_dim, fx_kv_key_at(a->kv_dtype, d, at), at);
    sum *= (double)a->scale;
    return a->softcap > 0 ? (double)a->softcap * tanh(sum / (double)a->softcap) : sum;
}

/* acc += e * the value at 'pos'. */
static void add_value(const fx_attend_args *a, const fx_step_seq *seq, int64_t kv_head, int64_t pos, double e, double *acc)
{
    int64_t at = pos % FX_KV_BLOCK, first = a->head_dim - a->v_dim;     /* of a latent's value in its key */
    const uint8_t *block = a->latent ? key_block(a, seq, kv_head, pos)
                                     : fx_kv_block(a->step, seq, a->column, a->v_offset, fx_kv_block_bytes(a->kv_dtype, a->v_dim),
                                                   kv_head, pos);

    for (int32_t d = 0; d < a->v_dim; d++) {
        int64_t i = a->latent ? fx_kv_key_at(a->kv_dtype, first + d, at) : fx_kv_value_at(a->kv_dtype, a->v_dim, d, at);

        acc[d] += e * load(block, a->kv_dtype, a->latent ? a->head_dim : a->v_dim, i, at);
    }
}

/* The keys [j0, j1) of one span. */
static void span(const fx_attend_args *a, const fx_step_seq *seq, const float *q, int64_t head, int64_t pos, int64_t j0,
                 int64_t j1, double *s, part *p)
{
    int64_t kv_head = head / (a->heads / a->kv_heads);

    p->max = -INFINITY;
    p->sum = 0;
    memset(p->acc, 0, (size_t)a->v_dim * sizeof(double));
    for (int64_t j = j0; j < j1; j++) {
        s[j - j0] = score(a, seq, q, kv_head, j);
        if (a->slopes)
            s[j - j0] -= (double)a->slopes[head] * (double)(pos - j);
        if (s[j - j0] > p->max)
            p->max = s[j - j0];
    }
    for (int64_t j = j0; j < j1; j++) {
        double e = exp(s[j - j0] - p->max);

        p->sum += e;
        add_value(a, seq, kv_head, j, e, p->acc);
    }
}

/* t = t merged with p, rescaled to the larger maximum. */
static void merge(part *t, const part *p, int32_t v_dim)
{
    double max = t->max > p->max ? t->max : p->max, et = exp(t->max - max), ep = exp(p->max - max);

    t->max = max;
    t->sum = t->sum * et + p->sum * ep;
    for (int32_t d = 0; d < v_dim; d++)
        t->acc[d] = t->acc[d] * et + p->acc[d] * ep;
}

/* One more key without a value. */
static void add_sink(part *t, double score, int32_t v_dim)
{
    double max = t->max > score ? t->max : score, e = exp(t->max - max);

    t->sum = t->sum * e + exp(score - max);
    t->max = max;
    for (int32_t d = 0; d < v_dim; d++)
        t->acc[d] *= e;
}

static void attend(const fx_attend_args *a, int64_t r, int64_t head, double *scratch)
{
    const fx_step_seq *seq = &a->step->seqs[a->step->seq[r]];
    const float *q = a->q.p + r * a->q.ld + head * a->head_dim;
    float *out = a->out.p + r * a->out.ld + head * a->v_dim;
    int64_t pos = a->step->pos[r], end = a->window == FX_WINDOW_BOTH ? (int64_t)seq->pos0 + seq->n_rows : pos + 1;
    int64_t begin = a->window > 0 && end > a->window ? end - a->window : 0;
    part total = { 0, 0, scratch + FX_ATTEND_SPAN }, p = { 0, 0, scratch + FX_ATTEND_SPAN + a->v_dim };

    for (int64_t j0 = begin; j0 < end;) {
        int64_t j1 = FX_MIN(end, (j0 / FX_ATTEND_SPAN + 1) * FX_ATTEND_SPAN);

        span(a, seq, q, head, pos, j0, j1, scratch, j0 == begin ? &total : &p);
        if (j0 != begin)
            merge(&total, &p, a->v_dim);
        j0 = j1;
    }
    if (a->sinks)
        add_sink(&total, (double)a->sinks[head], a->v_dim);
    for (int32_t d = 0; d < a->v_dim; d++)
        out[d] = (float)(total.acc[d] / total.sum);
    if (a->q8.data)
        fx_q8_put(&a->q8, a->step->n_rows, r, 1, head * a->v_dim, a->v_dim, (fx_cmat){ out, 0 });
}

static void run(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_attend_args *a = args;

    for (int64_t t = t0; t < t1; t++)
        attend(a, t / a->heads, t % a->heads, scratch);
}

static const fx_kernel rows[] = {
    { FX_K_ATTEND, FX_CPU_SCALAR, "attend_ref", tasks, run, scratch_bytes },
};
const fx_kernel_set fx_kernels_ref_attend = { rows, FX_COUNT(rows) };
