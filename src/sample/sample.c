/* sample.c - see sample.h.
 *
 * One pass finds the maximum of each block of the row.  For top-k, the k-th largest of the
 * block maxima is a bound that at least k values reach, so only the few values above it
 * are looked at; for top-p, values too small to matter even all together are left out.
 * Among these candidates, kept in id order, select.h finds the cut; the draw walks the
 * cumulative weights in id order.  Nothing is sorted but the few top log-probabilities. */
#include "sample/sample.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "sample/random.h"
#include "sample/select.h"

/* ---- Penalty state --------------------------------------------------------------------- */

static bool has_penalties(const fx_sample_params *p)
{
    return p->repetition != 1.0f || p->frequency != 0.0f || p->presence != 0.0f;
}

fx_status fx_sampler_init(fx_sampler *s, const fx_mem *mem, const fx_sample_params *params, int64_t vocab,
                          int32_t choice, int64_t longest, fx_error *err)
{
    *s = (fx_sampler){ .params = params, .mem = mem, .vocab = vocab, .choice = choice };
    if (!has_penalties(params))
        return FORNAX_OK;
    s->cap_seen = (int32_t)FX_MIN(vocab, longest);
    s->count = fx_mem_array(mem, (size_t)vocab, sizeof *s->count);
    s->seen = fx_mem_array(mem, (size_t)s->cap_seen, sizeof *s->seen);
    if (!s->count || !s->seen) {
        fx_sampler_done(s);
        return fx_nomem(err, "penalty counts");
    }
    return FORNAX_OK;
}

void fx_sampler_done(fx_sampler *s)
{
    if (s->count)
        fx_mem_free(s->mem, s->count, (size_t)s->vocab * sizeof *s->count);
    if (s->seen)
        fx_mem_free(s->mem, s->seen, (size_t)s->cap_seen * sizeof *s->seen);
    s->count = NULL;
    s->seen = NULL;
}

static void note(fx_sampler *s, int32_t id)
{
    if (s->count[id] == 0)
        s->seen[s->n_seen++] = id;
}

void fx_sampler_prompt(fx_sampler *s, const int32_t *ids, size_t n)
{
    for (size_t i = 0; s->count && i < n; i++) {
        note(s, ids[i]);
        s->count[ids[i]] |= 1;
    }
}

void fx_sampler_accept(fx_sampler *s, const int32_t *ids, size_t n)
{
    s->n_generated += (int64_t)n;
    for (size_t i = 0; s->count && i < n; i++) {
        note(s, ids[i]);
        s->count[ids[i]] += 2;
    }
}

/* Newest first: a token whose count returns to 0 was the last to be noted. */
void fx_sampler_rollback(fx_sampler *s, const int32_t *ids, size_t n)
{
    FX_ASSERT((int64_t)n <= s->n_generated);
    s->n_generated -= (int64_t)n;
    for (size_t i = n; s->count && i-- > 0;) {
        FX_ASSERT(s->count[ids[i]] >= 2);
        s->count[ids[i]] -= 2;
        if (s->count[ids[i]] == 0) {
            FX_ASSERT(s->seen[s->n_seen - 1] == ids[i]);
            s->n_seen--;
        }
    }
}

/* ---- Scratch ----------------------------------------------------------------------------- */

static size_t blocks_of(int64_t vocab)
{
    return (size_t)FX_DIV_UP(vocab, FX_BLOCK);
}

fx_status fx_sample_scratch_init(fx_sample_scratch *c, const fx_mem *mem, int64_t vocab, fx_error *err)
{
    size_t n = (size_t)vocab;

    *c = (fx_sample_scratch){ .mem = mem, .vocab = vocab };
    c->x = fx_mem_array(mem, n, sizeof *c->x);
    c->e = fx_mem_array(mem, n, sizeof *c->e);
    c->id = fx_mem_array(mem, n, sizeof *c->id);
    c->work = fx_mem_array(mem, n, sizeof *c->work);
    c->mask = fx_mem_array(mem, FX_DIV_UP(n, (size_t)32), sizeof *c->mask);
    c->block_max = fx_mem_array(mem, blocks_of(vocab), sizeof *c->block_max);
    c->block_sum = fx_mem_array(mem, blocks_of(vocab), sizeof *c->block_sum);
    if (!c->x || !c->e || !c->id || !c->work || !c->mask || !c->block_max || !c->block_sum) {
        fx_sample_scratch_done(c);
        return fx_nomem(err, "sampling");
    }
    return FORNAX_OK;
}

void fx_sample_scratch_done(fx_sample_scratch *c)
{
    size_t n = (size_t)c->vocab;

    if (!c->mem)
        return;
    fx_mem_free(c->mem, c->x, n * sizeof *c->x);
    fx_mem_free(c->mem, c->e, n * sizeof *c->e);
    fx_mem_free(c->mem, c->id, n * sizeof *c->id);
    fx_mem_free(c->mem, c->work, n * sizeof *c->work);
    fx_mem_free(c->mem, c->mask, FX_DIV_UP(n, (size_t)32) * sizeof *c->mask);
    fx_mem_free(c->mem, c->block_max, blocks_of(c->vocab) * sizeof *c->block_max);
    fx_mem_free(c->mem, c->block_sum, blocks_of(c->vocab) * sizeof *c->block_sum);
    *c = (fx_sample_scratch){ 0 };
}

/* ---- The row is changed -------------------------------------------------------------------- */

static void fill_banned(float *logits, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        logits[i] = -INFINITY;
}

/* 32 of them, of which some may come: only the fewer kind is touched one by one. */
static void apply_word(uint32_t word, float *logits)
{
    float before[32];

    if (__builtin_popcount(word) >= 16) {
        for (uint32_t x = ~word; x; x &= x - 1)
            logits[__builtin_ctz(x)] = -INFINITY;
        return;
    }
    memcpy(before, logits, sizeof before);
    fill_banned(logits, 32);
    for (uint32_t x = word; x; x &= x - 1)
        logits[__builtin_ctz(x)] = before[__builtin_ctz(x)];
}

static void apply_mask(const uint32_t *mask, int64_t vocab, float *logits)
{
    int64_t i = 0;

    for (; i + 32 <= vocab; i += 32) {
        if (mask[i / 32] == 0)
            fill_banned(logits + i, 32);
        else if (mask[i / 32] != UINT32_MAX)
            apply_word(mask[i / 32], logits + i);
    }
    for (; i < vocab; i++)
        if (!(mask[i / 32] >> i % 32 & 1))
            logits[i] = -INFINITY;
}

static void apply_bias(const fx_sample_params *p, float *logits)
{
    for (size_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].bias <= -100.0f)
            logits[p->bias[i].id] = -INFINITY;
        else
            logits[p->bias[i].id] += p->bias[i].bias;
    }
}

static void apply_penalties(const fx_sampler *s, float *logits)
{
    const fx_sample_params *p = s->params;

    for (int32_t i = 0; s->count && i < s->n_seen; i++) {
        float x = logits[s->seen[i]];
        uint32_t times = s->count[s->seen[i]] >> 1;

        if (p->repetition != 1.0f)
            x = x > 0 ? x / p->repetition : x * p->repetition;
        if (times > 0)
            x -= p->frequency * (float)times + p->presence;
        logits[s->seen[i]] = x;
    }
}

static void mask_ends(const fx_sampler *s, float *logits)
{
    if (s->n_generated >= s->params->min_tokens)
        return;
    for (size_t i = 0; i < s->params->n_ends; i++)
        logits[s->params->ends[i]] = -INFINITY;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* Ids whose value is at least that of the k-th largest (and perhaps more), in id order,
 * values in x; banned ones never. Returns how many. */
static int32_t collect_top(const float *logits, int32_t k, fx_sample_scratch *c)
{
    int32_t n_blocks = (int32_t)blocks_of(c->vocab), n = 0;
    float bound = -FLT_MAX;

    if (k <= n_blocks) {
        for (int32_t b = 0; b < n_blocks; b++)
            c->x[b] = FX_MAX(c->block_max[b], -FLT_MAX);
        bound = fx_cut_find(c->x, NULL, n_blocks, k, INFINITY, c->work).x;
    }
    for (int32_t b = 0; b < n_blocks; b++) {
        int32_t end = (int32_t)FX_MIN((int64_t)(b + 1) * FX_BLOCK, c->vocab);

        if (c->block_max[b] < bound)
            continue;
        for (int32_t i = b * FX_BLOCK; i < end; i++) {
            if (logits[i] >= bound) {
                c->x[n] = logits[i];
                c->id[n++] = i;
            }
        }
    }
    return n;
}

/* Leaves the candidates that the cut keeps. */
static int32_t keep(fx_cut cut, int32_t n, bool weighted, fx_sample_scratch *c)
{
    int32_t kept = 0;

    for (int32_t i = 0; i < n; i++) {
        if (!fx_cut_keeps(cut, c->x[i], i))
            continue;
        c->x[kept] = c->x[i];
        c->id[kept] = c->id[i];
        if (weighted)
            c->e[kept] = c->e[i];
        kept++;
    }
    return kept;
}

/* The k largest, in id order. */
static int32_t take_top(const float *logits, int32_t k, fx_sample_scratch *c)
{
    int32_t n = collect_top(logits, k, c);

    if (n <= k)
        return n;
    return keep(fx_cut_find(c->x, NULL, n, k, INFINITY, c->work), n, false, c);
}

/* The fewest largest whose weights sum to p of 'sum'. */
static int32_t take_mass(int32_t n, double sum, float p, fx_sample_scratch *c)
{
    if (n <= 1)
        return n;
    return keep(fx_cut_find(c->x, c->e, n, INT32_MAX, sum * (double)p, c->work), n, true, c);
}

/* ---- Log-probabilities -------------------------------------------------------------------------- */

static void top_logprobs(const float *logits, float max, float log_sum, int32_t k, fx_sample_scratch *c,
                         fx_sampled *out)
{
    int32_t n = k > 0 ? take_top(logits, k, c) : 0;

    out->n_top = n;
    for (int32_t i = 0; i < n; i++) {     /* insertion: candidates come in id order */
        int32_t j = i;

        for (; j > 0 && c->x[i] - max - log_sum > out->top[j - 1].logprob; j--)
            out->top[j] = out->top[j - 1];
        out->top[j] = (fornax_top_logprob){ c->id[i], c->x[i] - max - log_sum };
    }
}

/* ---- The draw --------------------------------------------------------------------------------------- */

/* Index into weights e[n], by the cumulative sum in order. At least one weight isn't 0. */
static int32_t draw(const float *e, int32_t n, double u, double *block_sum)
{
    double total = 0, target, sum = 0;
    int32_t b = 0, last_block = 0, last = -1;

    for (int32_t i = 0; i < n; i += FX_BLOCK, b++) {
        double lane[4] = { 0 }, s;
        int32_t end = FX_MIN(i + FX_BLOCK, n);

        for (int32_t j = i; j < end; j++)
            lane[j & 3] += (double)e[j];
        s = (lane[0] + lane[2]) + (lane[1] + lane[3]);
        block_sum[b] = s;
        total += s;
        if (s > 0)
            last_block = b;
    }
    target = u * total;
    for (b = 0; b < last_block && sum + block_sum[b] <= target; b++)
        sum += block_sum[b];
    for (int32_t i = b * FX_BLOCK; i < FX_MIN((b + 1) * FX_BLOCK, n); i++) {
        if (e[i] <= 0)
            continue;
        last = i;
        sum += (double)e[i];
        if (sum > target)
            break;
    }
    return last;
}

static void drop_small(int32_t n, float least, float *e)
{
    for (int32_t i = 0; i < n; i++)
        e[i] = e[i] >= least ? e[i] : 0.0f;
}

/* Candidates for top-p alone. What is left out weighs together less than half of what top-p
 * may leave out. */
static int32_t collect_mass(const float *logits, float max, float scale, float top_p, fx_sample_scratch *c,
                            double *sum)
{
    int32_t n = 0;
    float least;

    *sum = fx_scan_exp(logits, c->vocab, max, scale, 0.0f, c->e);
    least = (float)(0.5 * (1.0 - (double)top_p) * *sum / (double)c->vocab);
    for (int32_t i = 0; i < (int32_t)c->vocab; i++) {
        if (c->e[i] > least) {
            c->x[n] = logits[i];
            c->e[n] = c->e[i];
            c->id[n++] = i;
        }
    }
    return n;
}

static int32_t draw_token(const fx_sampler *s, const float *logits, float max, int64_t position,
                          fx_sample_scratch *c)
{
    const fx_sample_params *p = s->params;
    float scale = FX_MIN(1.0f / p->temperature, 1e30f);
    double u = fx_random_unit(p->seed, (uint32_t)s->choice, (uint64_t)position, 0);
    bool cut_k = p->top_k > 0 && p->top_k < s->vocab, cut_p = p->top_p > 0 && p->top_p < 1;
    double sum;
    int32_t n;

    if (!cut_k && !cut_p) {
        fx_scan_exp(logits, s->vocab, max, scale, p->min_p, c->e);
        return draw(c->e, (int32_t)s->vocab, u, c->block_sum);
    }
    if (cut_k) {
        n = take_top(logits, p->top_k, c);
        sum = fx_scan_exp(c->x, n, max, scale, 0.0f, c->e);
    } else {
        n = collect_mass(logits, max, scale, p->top_p, c, &sum);
    }
    if (cut_p)
        n = take_mass(n, sum, p->top_p, c);
    drop_small(n, p->min_p, c->e);
    return c->id[draw(c->e, n, u, c->block_sum)];
}

static int32_t first_of(const float *logits, float max, const fx_sample_scratch *c)
{
    int64_t i = 0;

    while (c->block_max[i] != max)
        i++;
    for (i *= FX_BLOCK; logits[i] != max; i++)
        ;
    return (int32_t)i;
}

void fx_sample(const fx_sampler *s, float *logits, const uint32_t *mask, int64_t position, fx_sample_scratch *c,
               fx_sampled *out)
{
    const fx_sample_params *p = s->params;
    float max;

    FX_ASSERT(s->vocab == c->vocab);
    *out = (fx_sampled){ .token = -1 };
    if (mask)
        apply_mask(mask, s->vocab, logits);
    apply_bias(p, logits);
    apply_penalties(s, logits);
    mask_ends(s, logits);
    if (!fx_scan_max(logits, s->vocab, c->block_max, &max)) {
        out->status = FORNAX_EINTERNAL;
        return;
    }
    if (max == INFINITY) {                /* all infinite ones are equally forced */
        for (int64_t i = 0; i < s->vocab; i++)
            logits[i] = FX_MIN(logits[i], FLT_MAX);
        fx_scan_max(logits, s->vocab, c->block_max, &max);
    }
    if (max == -INFINITY) {
        out->status = FORNAX_EARG;
        return;
    }
    out->token = p->temperature > 0 ? -1 : first_of(logits, max, c);
    if (p->logprobs) {
        float log_sum = (float)log(fx_scan_sum_exp(logits, s->vocab, max));

        top_logprobs(logits, max, log_sum, p->n_top, c, out);
        if (out->token < 0)
            out->token = draw_token(s, logits, max, position, c);
        out->logprob = logits[out->token] - max - log_sum;
    } else if (out->token < 0) {
        out->token = draw_token(s, logits, max, position, c);
    }
}
