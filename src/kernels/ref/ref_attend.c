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

static double load(const uint8_t *p, fx_dtype type, int64_t i)
{
    return type == FX_F16 ? (double)fx_f16_to_f32(((const uint16_t *)(const void *)p)[i])
                          : (double)((const float *)(const void *)p)[i];
}

static double score(const fx_attend_args *a, const fx_step_seq *seq, const float *q, int64_t kv_head, int64_t pos)
{
    const uint8_t *k = fx_kv_page(a->step, seq, pos) +
                       fx_kv_k_at(a->step, a->k_offset, fx_kv_elem(a->kv_dtype), kv_head, a->head_dim, pos);
    double sum = 0;

    for (int32_t d = 0; d < a->head_dim; d++)
        sum += q[d] * load(k, a->kv_dtype, (int64_t)d * FX_KV_BLOCK);
    sum *= (double)a->scale;
    return a->softcap > 0 ? (double)a->softcap * tanh(sum / (double)a->softcap) : sum;
}

/* Component 0 of a value. */
static size_t value_at(const fx_attend_args *a, int64_t kv_head, int64_t pos)
{
    size_t elem = fx_kv_elem(a->kv_dtype);

    if (!a->latent)
        return fx_kv_v_at(a->step, a->v_offset, elem, kv_head, a->v_dim, pos);
    return fx_kv_k_at(a->step, a->k_offset, elem, kv_head, a->head_dim, pos) +
           elem * (size_t)((a->head_dim - a->v_dim) * FX_KV_BLOCK);
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
        const uint8_t *v = fx_kv_page(a->step, seq, j) + value_at(a, kv_head, j);
        double e = exp(s[j - j0] - p->max);

        p->sum += e;
        for (int32_t d = 0; d < a->v_dim; d++)
            p->acc[d] += e * load(v, a->kv_dtype, a->latent ? (int64_t)d * FX_KV_BLOCK : d);
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
