/* ref_scan.c - reference kernels of recurrent layers: causal convolution, selective scan,
 * gated delta rule; and the gated norm that follows some of them.
 *
 * State is f32 (rounded after each row), what is computed in between is double.  A task is a
 * sequence; of the gated norm, a row.  Where a sequence's state lies: kernels/slot.h. */
#include <math.h>

#include "kernels/kernel_set.h"
#include "kernels/slot.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

/* ---- Convolution ------------------------------------------------------------------------
 *
 *     y[j, c] = bias[c] + sum over k of w[c, k] x[j - width + 1 + k, c]
 *
 * with the inputs before the first row from the slot: [width - 1][dim], oldest first. */

static int64_t conv1d_tasks(const void *args) { return ((const fx_conv1d_args *)args)->step->n_seqs; }

/* The row j of the sequence, or one before its first. */
static const float *input(const fx_conv1d_args *a, const fx_step_seq *seq, const float *state, int64_t j)
{
    return j >= 0 ? a->x.p + (seq->row0 + j) * a->x.ld : state + (a->width - 1 + j) * a->dim;
}

/* The last width - 1 inputs as of row j. 'to' may be 'state': each row comes from a later one. */
static void keep_inputs(const fx_conv1d_args *a, const fx_step_seq *seq, const float *state, int64_t j, float *to)
{
    for (int64_t i = 0; i < a->width - 1; i++)
        memmove(to + i * a->dim, input(a, seq, state, j - a->width + 2 + i), (size_t)a->dim * sizeof(float));
}

static void conv1d(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_conv1d_args *a = args;

    (void)scratch;
    for (int64_t t = t0; t < t1; t++) {
        const fx_step_seq *seq = &a->step->seqs[t];
        float *state = fx_slot_at(seq, a->offset);

        for (int64_t j = 0; j < seq->n_rows; j++) {
            float *y = a->y.p + (seq->row0 + j) * a->y.ld, *snapshot = fx_snapshot_at(a->step, seq, j, a->offset);

            for (int64_t c = 0; c < a->dim; c++) {
                double sum = a->bias ? a->bias[c] : 0;

                for (int64_t k = 0; k < a->width; k++)
                    sum += (double)a->w[c * a->width + k] * input(a, seq, state, j - a->width + 1 + k)[c];
                y[c] = (float)(a->silu ? silu(sum) : sum);
            }
            if (snapshot)
                keep_inputs(a, seq, state, j, snapshot);
        }
        keep_inputs(a, seq, state, seq->n_rows - 1, state);
    }
}

/* ---- Selective scan -----------------------------------------------------------------------
 *
 *     dt = min(max(softplus(dt + dt_bias), dt_min), dt_max)               of the channel's head
 *     h[n] = exp(dt a) h[n] + dt x b[n]                                    for each channel
 *     y = sum over n of c[n] h[n] + d x
 *
 * a of the head (or of the head and n), b and c of the head's group.  The slot holds
 * h as [n_state][channels]. */

static int64_t ssm_tasks(const void *args) { return ((const fx_ssm_scan_args *)args)->step->n_seqs; }

static void ssm_channel(const fx_ssm_scan_args *a, int64_t row, int64_t ch, float *h)
{
    int64_t head = ch / a->head_dim, group = head / (a->heads / a->groups), dim = (int64_t)a->heads * a->head_dim;
    const float *b = a->b.p + row * a->b.ld + group * a->n_state, *c = a->c.p + row * a->c.ld + group * a->n_state;
    double x = a->x.p[row * a->x.ld + ch], y = 0;
    double dt = softplus((double)a->dt.p[row * a->dt.ld + head] + (a->dt_bias ? a->dt_bias[head] : 0));

    dt = fmin(fmax(dt, a->dt_min), a->dt_max);
    for (int64_t n = 0; n < a->n_state; n++) {
        double decay = a->a[a->a_per_state ? head * a->n_state + n : head];

        decay = exp(dt * (a->log_a ? -exp(decay) : decay));
        h[n * dim] = (float)(decay * h[n * dim] + dt * x * b[n]);
        y += (double)c[n] * h[n * dim];
    }
    a->y.p[row * a->y.ld + ch] = (float)(y + (a->d ? a->d[head] * x : 0));
}

static void ssm_scan(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_ssm_scan_args *a = args;
    int64_t dim = (int64_t)a->heads * a->head_dim;

    (void)scratch;
    for (int64_t t = t0; t < t1; t++) {
        const fx_step_seq *seq = &a->step->seqs[t];
        float *h = fx_slot_at(seq, a->offset);

        for (int64_t j = 0; j < seq->n_rows; j++) {
            float *snapshot = fx_snapshot_at(a->step, seq, j, a->offset);

            for (int64_t ch = 0; ch < dim; ch++)
                ssm_channel(a, seq->row0 + j, ch, h + ch);
            if (snapshot)
                memcpy(snapshot, h, (size_t)(dim * a->n_state) * sizeof(float));
        }
    }
}

/* ---- Gated delta rule ----------------------------------------------------------------------
 *
 *     q, k = q / |q| / sqrt(k_dim), k / |k|                  |x| = sqrt(sum x^2 + 1e-6)
 *     S = exp(a_h softplus(a + dt_bias)) S                   a_h = -exp(a_log), or as given
 *     S = S + k (sigmoid(b) (v - S^T k))^T
 *     y = S^T q
 *
 * by value head; its key head is head / (v_heads / k_heads), or head % k_heads where they are tiled.
 * The slot holds S as [v_heads][k_dim][v_dim]. */

static int64_t delta_tasks(const void *args) { return ((const fx_delta_rule_args *)args)->step->n_seqs; }

/* 1 / |x| */
static double inverse_length(const float *x, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    return 1 / sqrt(sum + 1e-6);
}

static void delta_head(const fx_delta_rule_args *a, int64_t row, int64_t head, float *s)
{
    int64_t kh = a->tiled ? head % a->k_heads : head / (a->v_heads / a->k_heads);
    const float *q = a->q.p + row * a->q.ld + kh * a->k_dim, *k = a->k.p + row * a->k.ld + kh * a->k_dim;
    const float *v = a->v.p + row * a->v.ld + head * a->v_dim;
    float *y = a->y.p + row * a->y.ld + head * a->v_dim;
    double per_q = inverse_length(q, a->k_dim) / sqrt((double)a->k_dim), per_k = inverse_length(k, a->k_dim);
    double rate = a->log_a ? -exp((double)a->a_log[head]) : a->a_log[head];
    double decay = exp(rate * softplus((double)a->a.p[row * a->a.ld + head] + a->dt_bias[head]));
    double beta = sigmoid(a->b.p[row * a->b.ld + head]);

    for (int64_t c = 0; c < a->v_dim; c++) {
        double known = 0, delta, sum = 0;

        for (int64_t i = 0; i < a->k_dim; i++)
            known += decay * s[i * a->v_dim + c] * (k[i] * per_k);
        delta = beta * (v[c] - known);
        for (int64_t i = 0; i < a->k_dim; i++) {
            s[i * a->v_dim + c] = (float)(decay * s[i * a->v_dim + c] + k[i] * per_k * delta);
            sum += s[i * a->v_dim + c] * (q[i] * per_q);
        }
        y[c] = (float)sum;
    }
}

static void delta_rule(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_delta_rule_args *a = args;
    int64_t each = (int64_t)a->k_dim * a->v_dim;

    (void)scratch;
    for (int64_t t = t0; t < t1; t++) {
        const fx_step_seq *seq = &a->step->seqs[t];
        float *s = fx_slot_at(seq, a->offset);

        for (int64_t j = 0; j < seq->n_rows; j++) {
            float *snapshot = fx_snapshot_at(a->step, seq, j, a->offset);

            for (int64_t head = 0; head < a->v_heads; head++)
                delta_head(a, seq->row0 + j, head, s + head * each);
            if (snapshot)
                memcpy(snapshot, s, (size_t)(each * a->v_heads) * sizeof(float));
        }
    }
}

/* ---- Gated norm ----------------------------------------------------------------------------- */

static int64_t gated_norm_tasks(const void *args) { return ((const fx_gated_norm_args *)args)->n_rows; }

/* y = norm(x silu(z)) w, or norm(x) w silu(z), each group of dim columns for itself. */
static void gated_norm(const void *args, int64_t t0, int64_t t1, void *scratch)
{
    const fx_gated_norm_args *a = args;

    (void)scratch;
    for (int64_t i = t0 * a->n_groups; i < t1 * a->n_groups; i++) {
        int64_t r = i / a->n_groups, g = i % a->n_groups;
        const float *x = a->x.p + r * a->x.ld + g * a->dim, *z = a->z.p + r * a->z.ld + g * a->dim;
        const float *w = a->w + g * a->w_step;
        float *y = a->y.p + r * a->y.ld + g * a->dim;
        double sum = 0, inv;

        for (int64_t c = 0; c < a->dim; c++)
            sum += pow(x[c] * (a->gate_first ? silu(z[c]) : 1), 2);
        inv = 1 / sqrt(sum / (double)a->dim + (double)a->eps);
        for (int64_t c = 0; c < a->dim; c++)
            y[c] = (float)(x[c] * silu(z[c]) * inv * w[c]);
    }
}

static const fx_kernel rows[] = {
    { FX_K_CONV1D, FX_CPU_SCALAR, "conv1d_ref", conv1d_tasks, conv1d, NULL },
    { FX_K_SSM_SCAN, FX_CPU_SCALAR, "ssm_scan_ref", ssm_tasks, ssm_scan, NULL },
    { FX_K_DELTA_RULE, FX_CPU_SCALAR, "delta_rule_ref", delta_tasks, delta_rule, NULL },
    { FX_K_GATED_NORM, FX_CPU_SCALAR, "gated_norm_ref", gated_norm_tasks, gated_norm, NULL },
};
const fx_kernel_set fx_kernels_ref_scan = { rows, FX_COUNT(rows) };
