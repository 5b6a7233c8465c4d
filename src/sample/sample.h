/* sample.h - from a row of logits to a token.
 *
 * In this order: the grammar's mask, logit bias, penalties (repetition, frequency, presence), end tokens masked
 * while fewer than min_tokens were generated, log-probabilities (log-softmax of what is left),
 * temperature, top-k, top-p (of the mass that top-k left), min-p, draw.  The caller's hook
 * comes before all of it (engine/).  Temperature 0 takes the largest; ties: lowest id.
 *
 *     fx_sampler s;
 *     fx_sampler_init(&s, mem, &params, vocab, choice, max_new, err);
 *     fx_sampler_prompt(&s, ids, n);
 *     fx_sample(&s, logits, NULL, position, &scratch, &result);     logits are changed
 *     fx_sampler_accept(&s, &result.token, 1);
 *
 * The result is a pure function of the row, the parameters, what was accepted, and
 * (seed, choice, position).  The row may have NaN: that is an error in the result.
 * Threads: a sampler belongs to one thread at a time, a scratch to one worker. */
#ifndef FX_SAMPLE_H
#define FX_SAMPLE_H

#include "base/status.h"
#include "base/mem.h"

#define FX_TOP_LOGPROBS 20

typedef struct fx_sample_params {
    float temperature;                  /* 0: greedy */
    int32_t top_k;                      /* 0: all */
    float top_p, min_p;                 /* top_p 1: all; min_p 0: all */
    float repetition;                   /* 1: none */
    float frequency, presence;          /* 0: none */
    uint64_t seed;
    const fornax_logit_bias *bias;      /* ids in the vocabulary; -100 and below: never */
    size_t n_bias;
    const int32_t *ends;                /* masked before min_tokens */
    size_t n_ends;
    int64_t min_tokens;
    bool logprobs;
    int32_t n_top;                      /* 0..FX_TOP_LOGPROBS */
} fx_sample_params;

typedef struct fx_sampler {
    const fx_sample_params *params;     /* borrowed */
    const fx_mem *mem;
    int64_t vocab;
    int32_t choice;
    int64_t n_generated;
    /* Only with penalties: */
    uint32_t *count;                    /* [vocab] 2 * (times generated) + (in the prompt) */
    int32_t *seen;                      /* [n_seen] tokens whose count isn't 0, oldest first */
    int32_t n_seen, cap_seen;
} fx_sampler;

/* 'longest': tokens of prompt and generation at most. */
fx_status fx_sampler_init(fx_sampler *s, const fx_mem *mem, const fx_sample_params *params, int64_t vocab,
                          int32_t choice, int64_t longest, fx_error *err);
void fx_sampler_done(fx_sampler *s);
void fx_sampler_prompt(fx_sampler *s, const int32_t *ids, size_t n);
void fx_sampler_accept(fx_sampler *s, const int32_t *ids, size_t n);
/* Takes back the last n accepted; ids: those, oldest first. */
void fx_sampler_rollback(fx_sampler *s, const int32_t *ids, size_t n);

typedef struct fx_sample_scratch {
    const fx_mem *mem;
    int64_t vocab;
    float *x, *e, *block_max;           /* [vocab], [vocab], [blocks] */
    double *block_sum;                  /* [blocks] */
    int32_t *id, *work;                 /* [vocab] */
    uint32_t *mask;                     /* [vocab / 32], rounded up: room for a mask of the caller's */
} fx_sample_scratch;
fx_status fx_sample_scratch_init(fx_sample_scratch *c, const fx_mem *mem, int64_t vocab, fx_error *err);
void fx_sample_scratch_done(fx_sample_scratch *c);

typedef struct fx_sampled {
    fx_status status;                   /* EINTERNAL: NaN; EARG: every token is banned */
    int32_t token;
    float logprob;
    int32_t n_top;                      /* fewer than asked if the rest is banned */
    fornax_top_logprob top[FX_TOP_LOGPROBS];
} fx_sampled;
/* mask: bit i%32 of word i/32 says whether token i may come; nothing that follows brings a masked one back.
 * NULL: all may. */
void fx_sample(const fx_sampler *s, float *logits, const uint32_t *mask, int64_t position, fx_sample_scratch *c,
               fx_sampled *out);

#endif
