/* cmd_bench.c - fornax bench MODEL: prefill and decode rates, memory; start-up; perplexity.
 *
 * Rates are medians over --repeat runs, after one that doesn't count. Prefill: the prompt's tokens over the time from the
 * submission of one request to its first token. Decode: for 'batch' requests at once, each with a prompt of --fill tokens,
 * those after the last one's first, over the time from that to the last token. Total: all generated tokens of these
 * requests over all the time, their prompts' too.
 *
 * Both are also given as shares of what the machine can do, measured beside them (limits.h). Decode: bytes of
 * weights that a step reads, times steps, over the read bandwidth. Prefill, and decode too: the time that all multiplications
 * with weights would take at the peaks, over the time taken; for bf16 weights the peak is the faster of bf16 and f32.
 *
 * With --context the same for long contexts: one request each, whose prompt and --gen tokens are that long together.
 * Shares count keys and values too: their bytes in decode, and multiplications with them, at the rate of f32, in prefill. */
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/limits.h"
#include "cli/start_time.h"

typedef struct bench_opts {
    fx_model_opts model;
    int64_t prompt, gen, batch, fill, repeat;
    const char *ppl, *context;
    bool json, start;
} bench_opts;

static const fx_opt opts[] = {
    { "prompt", 'p', FX_OPT_INT, offsetof(bench_opts, prompt), "N", "tokens of the prefill measurement (default: 512)", 1, INT32_MAX },
    { "gen", 'g', FX_OPT_INT, offsetof(bench_opts, gen), "N", "tokens generated a sequence (default: 64)", 2, INT32_MAX },
    { "batch", 'b', FX_OPT_INT, offsetof(bench_opts, batch), "N", "sequences at once in decode (default: 1)", 1, 1024 },
    { "fill", 0, FX_OPT_INT, offsetof(bench_opts, fill), "N", "tokens of their prompts (default: 1)", 1, INT32_MAX },
    { "repeat", 'r', FX_OPT_INT, offsetof(bench_opts, repeat), "N", "runs; the median counts (default: 3)", 1, 64 },
    { "ppl", 0, FX_OPT_STR, offsetof(bench_opts, ppl), "FILE", "perplexity of a text instead of rates, in windows of --ctx (default: 512)", 0, 0 },
    { "context", 0, FX_OPT_STR, offsetof(bench_opts, context), "N,N", "rates of long contexts, each prompt and --gen tokens together", 0, 0 },
    { "start", 0, FX_OPT_FLAG, offsetof(bench_opts, start), NULL, "time from a process's start to its first token, and its memory", 0, 0 },
    { "json", 0, FX_OPT_FLAG, offsetof(bench_opts, json), NULL, "one JSON object", 0, 0 },
    FX_MODEL_OPTS(bench_opts, model),
    { 0 },
};
static const bench_opts defaults = { .prompt = 512, .gen = 64, .batch = 1, .fill = 1, .repeat = 3 };

/* ---- One request's times, written on the engine's thread ---- */

typedef struct timing {
    uint64_t *at_ns;                     /* of each token */
    int64_t tokens;
    fornax_status status;
    sem_t done;
} timing;

static int on_event(void *user, const fornax_event *e)
{
    timing *t = user;

    if (e->kind == FORNAX_EVENT_TOKEN) {
        t->at_ns[t->tokens++] = fx_clock_ns();
    } else if (e->kind == FORNAX_EVENT_DONE) {
        t->status = e->status;
        sem_post(&t->done);
    }
    return 0;
}

/* Ids that are text, the same in each run: a small generator over the vocabulary. */
static void fill_ids(int32_t *ids, int64_t n, const fornax_tokenizer *tok, int64_t vocab, uint64_t seed)
{
    uint64_t x = seed * 2862933555777941757u + 3037000493u;
    int64_t limit = FX_MIN(fornax_tokenizer_size(tok), vocab);

    for (int64_t i = 0; i < n; i++) {
        do {
            x = x * 6364136223846793005u + 1442695040888963407u;
            ids[i] = (int32_t)((x >> 33) % (uint64_t)FX_MAX(limit, 1));
        } while (limit > 1000 && fornax_token_is_special(tok, ids[i]));
    }
}

/* Requests at once, all alike but for their ids. */
typedef struct load {
    int64_t prompt, gen, batch;
    uint64_t seed;
} load;

/* Tokens a second; 0: not measurable. */
typedef struct speeds {
    double prefill, decode, total;
} speeds;

static void find_speeds(speeds *s, const load *l, const timing *times, uint64_t start)
{
    uint64_t last_first = start, last = start;
    int64_t decoded = 0, all = 0;

    for (int64_t i = 0; i < l->batch; i++) {
        if (times[i].tokens == 0)
            continue;
        last_first = FX_MAX(last_first, times[i].at_ns[0]);
        last = FX_MAX(last, times[i].at_ns[times[i].tokens - 1]);
    }
    for (int64_t i = 0; i < l->batch; i++) {
        all += times[i].tokens;
        for (int64_t k = 0; k < times[i].tokens; k++)
            decoded += times[i].at_ns[k] > last_first;
    }
    s->prefill = last_first > start ? (double)(l->prompt * l->batch) / ((double)(last_first - start) / 1e9) : 0;
    s->decode = last > last_first ? (double)decoded / ((double)(last - last_first) / 1e9) : 0;
    s->total = last > start ? (double)all / ((double)(last - start) / 1e9) : 0;
}

static fornax_status submit(fornax_request **req, fornax_engine *engine, const load *l, int32_t *ids, timing *t, fornax_error *err)
{
    fornax_request_options r = FORNAX_OPTIONS(fornax_request_options);

    t->at_ns = calloc((size_t)l->gen, sizeof *t->at_ns);
    if (!t->at_ns)
        return fx_fail(err, FORNAX_ENOMEM, "out of memory");
    sem_init(&t->done, 0, 0);
    r.ids = ids;
    r.n_ids = (size_t)l->prompt;
    r.max_tokens = l->gen;
    r.ignore_eos = 1;
    r.on_event = on_event;
    r.event_user = t;
    return fornax_request_submit(req, engine, &r, err);
}

static fornax_status run_once(fornax_engine *engine, const load *l, speeds *s, fornax_error *err)
{
    fornax_model *model = fornax_engine_model(engine);
    const fornax_tokenizer *tok = fornax_model_tokenizer(model);
    int64_t vocab = fornax_model_get_info(model)->vocab_size;
    fornax_request **reqs = calloc((size_t)l->batch, sizeof *reqs);
    timing *times = calloc((size_t)l->batch, sizeof *times);
    int32_t *ids = calloc((size_t)l->prompt, sizeof *ids);
    uint64_t start = fx_clock_ns();
    fornax_status st = reqs && times && ids ? FORNAX_OK : fx_fail(err, FORNAX_ENOMEM, "out of memory");

    for (int64_t i = 0; st == FORNAX_OK && i < l->batch; i++) {
        fill_ids(ids, l->prompt, tok, vocab, l->seed + (uint64_t)i);
        st = submit(&reqs[i], engine, l, ids, &times[i], err);
    }
    for (int64_t i = 0; st == FORNAX_OK && i < l->batch; i++) {
        while (sem_wait(&times[i].done) != 0)
            for (int64_t k = 0; k < l->batch && fx_cli_interrupted(); k++)
                fornax_request_cancel(reqs[k]);
        st = times[i].status;
        if (st != FORNAX_OK)
            fx_fail(err, st, "a request failed: %s", fornax_status_name(st));
    }
    if (st == FORNAX_OK)
        find_speeds(s, l, times, start);
    for (int64_t i = 0; reqs && i < l->batch; i++)
        fornax_request_close(reqs[i]);
    for (int64_t i = 0; times && i < l->batch; i++)
        free(times[i].at_ns);
    free(ids);
    free(times);
    free(reqs);
    return st;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* The second number of /proc/self/statm, in pages. */
static int64_t resident_bytes(void)
{
    fx_buf b;
    int64_t pages = 0;

    fx_buf_init(&b, &fx_mem_libc);
    if (fx_file_read(&b, "/proc/self/statm", 4096, NULL) == FORNAX_OK) {
        fx_str s = fx_buf_view(&b), blank = FX_STR(" ");
        size_t from = fx_str_find(s, blank, 0), to = from == FX_STR_NONE ? from : fx_str_find(s, blank, from + 1);

        if (to != FX_STR_NONE && !fx_parse_i64(fx_str_n(s.p + from + 1, to - from - 1), &pages))
            pages = 0;
    }
    fx_buf_done(&b);
    return pages * sysconf(_SC_PAGESIZE);
}

typedef struct results {
    double prefill, decode, total;       /* tokens a second */
    fx_limits limits;
    double prefill_share, decode_share, decode_multiply_share;     /* of the limits; 0: unknown */
} results;

/* Seconds that these multiplications take at the least; NAN: unknown. */
static double seconds_of(const fx_limits *l, double int8, double bf16, double f32)
{
    const double parts[][2] = { { int8, l->int8 }, { bf16, FX_MAX(l->bf16, l->f32) }, { f32, l->f32 } };
    double seconds = 0;

    for (size_t i = 0; i < FX_COUNT(parts); i++) {
        if (parts[i][0] > 0)
            seconds += parts[i][1] > 0 ? 2 * parts[i][0] / parts[i][1] : NAN;
    }
    return seconds;
}

/* The same of one row without logits, when 'seen' positions are before it; and what logits add. */
static double row_seconds(const fx_limits *l, const fornax_model_info *i, double seen)
{
    return seconds_of(l, (double)i->int8_products, (double)i->bf16_products, (double)i->f32_products + seen * (double)i->context_products);
}

static double logit_seconds(const fx_limits *l, const fornax_model_info *i)
{
    return seconds_of(l, (double)i->int8_logit_products, (double)i->bf16_logit_products, (double)i->f32_logit_products);
}

static double share(double rate, double seconds) { return isnan(seconds) ? 0 : rate * seconds; }

static void find_shares(results *r, const fornax_model_info *info, int64_t batch)
{
    double seconds = row_seconds(&r->limits, info, 0);

    r->prefill_share = share(r->prefill, seconds);
    r->decode_multiply_share = share(r->decode, seconds + logit_seconds(&r->limits, info));
    r->decode_share = r->decode / (double)batch * (double)info->step_bytes / r->limits.read;
}

static void print_rates(const bench_opts *opt, const fornax_model_info *info, const results *r)
{
    double mib = 1048576;

    printf("%s (%s)\n  prefill %lld  %10.1f tokens/s", info->name, info->numerics_id, (long long)opt->prompt, r->prefill);
    if (r->prefill_share > 0)
        printf("  %3.0f %% of what the processor can multiply", 100 * r->prefill_share);
    printf("\n  decode x%lld  %10.1f tokens/s  %3.0f %% of what it can read (%.1f GB/s)", (long long)opt->batch, r->decode,
           100 * r->decode_share, r->limits.read / 1e9);
    if (r->decode_multiply_share > 0)
        printf(", %.0f %% of what it can multiply", 100 * r->decode_multiply_share);
    printf("\n");
    if (opt->fill > 1)
        printf("  total        %10.1f tokens/s with prompts of %lld\n", r->total, (long long)opt->fill);
    printf("  load         %10.1f ms\n  resident     %10.1f MiB (file %.1f MiB)\n", info->load_ms,
           (double)resident_bytes() / mib, (double)info->file_bytes / mib);
}

static void print_json(const bench_opts *opt, const fornax_context *ctx, const fornax_model_info *info, const results *r)
{
    fx_buf name;

    fx_buf_init(&name, &fx_mem_libc);
    fx_buf_json(&name, fx_str_of(info->name));
    printf("{\"model\": \"%s\", \"architecture\": \"%s\", \"dtype\": \"%s\", \"cpu\": \"%s\", "
           "\"numerics_id\": \"%s\", \"threads\": %d, \"prompt\": %lld, \"gen\": %lld, \"batch\": %lld, "
           "\"fill\": %lld, \"prefill_tps\": %.3f, \"decode_tps\": %.3f, \"total_tps\": %.3f, \"load_ms\": %.3f, \"rss_bytes\": %lld, "
           "\"weight_bytes\": %lld, \"file_bytes\": %lld, ",
           fx_buf_view(&name).p, info->architecture, info->dtype, fornax_context_cpu(ctx), info->numerics_id,
           fornax_context_threads(ctx), (long long)opt->prompt, (long long)opt->gen, (long long)opt->batch,
           (long long)opt->fill, r->prefill, r->decode, r->total, info->load_ms, (long long)resident_bytes(), (long long)info->weight_bytes,
           (long long)info->file_bytes);
    printf("\"prefill_share\": %.4f, \"decode_share\": %.4f, \"decode_multiply_share\": %.4f, \"step_bytes\": %lld, "
           "\"int8_products\": %lld, \"bf16_products\": %lld, \"f32_products\": %lld, \"int8_logit_products\": %lld, "
           "\"bf16_logit_products\": %lld, \"f32_logit_products\": %lld, \"read_limit\": %.0f, \"int8_limit\": %.0f, "
           "\"bf16_limit\": %.0f, \"f32_limit\": %.0f}\n",
           r->prefill_share, r->decode_share, r->decode_multiply_share, (long long)info->step_bytes, (long long)info->int8_products,
           (long long)info->bf16_products, (long long)info->f32_products, (long long)info->int8_logit_products,
           (long long)info->bf16_logit_products, (long long)info->f32_logit_products, r->limits.read, r->limits.int8,
           r->limits.bf16, r->limits.f32);
    fx_buf_done(&name);
}

static int rates(const bench_opts *opt, const fornax_context *ctx, fornax_engine *engine, fornax_error *err)
{
    const fornax_model_info *info = fornax_model_get_info(fornax_engine_model(engine));
    double prefill[64], decode[64], total[64];
    results r = { 0 };
    speeds one;
    fornax_status st = run_once(engine, &(load){ opt->prompt, 1, 1, 99 }, &one, err);

    if (st == FORNAX_OK)                                 /* memory of keys and values too is there before it counts */
        st = run_once(engine, &(load){ opt->fill, opt->gen, opt->batch, 99 }, &one, err);
    for (int64_t i = 0; st == FORNAX_OK && i < opt->repeat; i++) {
        st = run_once(engine, &(load){ opt->prompt, 1, 1, 1 + (uint64_t)i }, &one, err);
        prefill[i] = one.prefill;
        if (st == FORNAX_OK)
            st = run_once(engine, &(load){ opt->fill, opt->gen, opt->batch, 1000 * (1 + (uint64_t)i) }, &one, err);
        decode[i] = one.decode;
        total[i] = one.total;
    }
    if (st == FORNAX_OK)
        st = fx_limits_measure(&r.limits, fornax_context_threads(ctx), fornax_context_cpu(ctx), err);
    if (st != FORNAX_OK)
        return fx_cli_fail(err);
    r.prefill = median(prefill, opt->repeat);
    r.decode = median(decode, opt->repeat);
    r.total = median(total, opt->repeat);
    find_shares(&r, info, opt->batch);
    if (opt->json)
        print_json(opt, ctx, info, &r);
    else
        print_rates(opt, info, &r);
    return FX_EXIT_OK;
}

/* ---- Start-up ---- */

static int start_up(const bench_opts *opt, const char *path, fornax_error *err)
{
    double ms[64], rss[64];
    fx_start_time one;

    for (int64_t i = -1; i < opt->repeat; i++) {         /* the first fills caches, and doesn't count */
        if (fx_start_time_measure(&one, path, &opt->model, err) != FORNAX_OK)
            return fx_cli_fail(err);
        if (i >= 0) {
            ms[i] = one.first_ms;
            rss[i] = (double)one.rss_bytes;
        }
    }
    printf(opt->json ? "{\"first_token_ms\": %.1f, \"rss_bytes\": %.0f}\n"
                     : "first token after %.1f ms, %.0f bytes resident\n",
           median(ms, opt->repeat), median(rss, opt->repeat));
    return FX_EXIT_OK;
}

/* ---- Long contexts ---- */

#define MOST_CONTEXTS 16

typedef struct contexts {
    int64_t n, tokens[MOST_CONTEXTS];
    results at[MOST_CONTEXTS];           /* without limits */
    fx_limits limits;
} contexts;

/* "1024,8192" */
static bool read_contexts(contexts *c, const bench_opts *opt)
{
    fx_str left = fx_str_of(opt->context);
    bool more = true;

    for (c->n = 0; more; c->n++) {
        size_t end = fx_str_find(left, FX_STR(","), 0);
        fx_str one = fx_str_n(left.p, end == FX_STR_NONE ? left.n : end);

        if (c->n == MOST_CONTEXTS || !fx_parse_i64(one, &c->tokens[c->n]) || c->tokens[c->n] <= opt->gen ||
            c->tokens[c->n] > INT32_MAX)
            return false;
        more = end != FX_STR_NONE;
        if (more)
            left = fx_str_n(left.p + end + 1, left.n - end - 1);
    }
    return true;
}

static void print_contexts(const bench_opts *opt, const fornax_context *ctx, const fornax_model_info *info, const contexts *c)
{
    const fx_limits *l = &c->limits;

    if (!opt->json) {
        printf("%s (%s)\n", info->name, info->numerics_id);
        for (int64_t i = 0; i < c->n; i++)
            printf("  context %-7lld prefill %10.1f tokens/s  %3.0f %%   decode %10.1f tokens/s  %3.0f %%\n", (long long)c->tokens[i],
                   c->at[i].prefill, 100 * c->at[i].prefill_share, c->at[i].decode, 100 * c->at[i].decode_share);
        return;
    }
    printf("{\"numerics_id\": \"%s\", \"threads\": %d, \"gen\": %lld, \"step_bytes\": %lld, \"context_bytes\": %lld, "
           "\"context_products\": %lld, \"read_limit\": %.0f, \"int8_limit\": %.0f, \"bf16_limit\": %.0f, \"f32_limit\": %.0f, "
           "\"contexts\": [",
           info->numerics_id, fornax_context_threads(ctx), (long long)opt->gen, (long long)info->step_bytes,
           (long long)info->context_bytes, (long long)info->context_products, l->read, l->int8, l->bf16, l->f32);
    for (int64_t i = 0; i < c->n; i++)
        printf("%s{\"tokens\": %lld, \"prefill_tps\": %.3f, \"prefill_share\": %.4f, \"decode_tps\": %.3f, \"decode_share\": %.4f}",
               i ? ", " : "", (long long)c->tokens[i], c->at[i].prefill, c->at[i].prefill_share, c->at[i].decode,
               c->at[i].decode_share);
    printf("]}\n");
}

/* Medians of the rates of a request whose prompt and generated tokens are 'tokens' together. */
static fornax_status measure_context(const bench_opts *opt, fornax_engine *engine, int64_t tokens, results *r, fornax_error *err)
{
    double prefill[64], decode[64];

    for (int64_t i = 0; i < opt->repeat; i++) {
        speeds one;
        fornax_status st = run_once(engine, &(load){ tokens - opt->gen, opt->gen, 1, 1 + (uint64_t)i }, &one, err);

        if (st != FORNAX_OK)
            return st;
        prefill[i] = one.prefill;
        decode[i] = one.decode;
    }
    r->prefill = median(prefill, opt->repeat);
    r->decode = median(decode, opt->repeat);
    return FORNAX_OK;
}

static void find_context_shares(const bench_opts *opt, const fornax_model_info *info, const fx_limits *l, int64_t tokens, results *r)
{
    double prompt = (double)(tokens - opt->gen), seconds = row_seconds(l, info, prompt / 2);
    double bytes = (double)info->step_bytes + (prompt + (double)opt->gen / 2) * (double)info->context_bytes;

    r->prefill_share = share(r->prefill, seconds);
    r->decode_share = r->decode * bytes / l->read;
}

static int context_curve(const bench_opts *opt, contexts *curve, const fornax_context *ctx, fornax_engine *engine, fornax_error *err)
{
    const fornax_model_info *info = fornax_model_get_info(fornax_engine_model(engine));
    speeds one;
    fornax_status st = run_once(engine, &(load){ 64, 4, 1, 99 }, &one, err);

    for (int64_t i = 0; st == FORNAX_OK && i < curve->n; i++)
        st = measure_context(opt, engine, curve->tokens[i], &curve->at[i], err);
    if (st == FORNAX_OK)
        st = fx_limits_measure(&curve->limits, fornax_context_threads(ctx), fornax_context_cpu(ctx), err);
    if (st != FORNAX_OK)
        return fx_cli_fail(err);
    for (int64_t i = 0; i < curve->n; i++)
        find_context_shares(opt, info, &curve->limits, curve->tokens[i], &curve->at[i]);
    print_contexts(opt, ctx, info, curve);
    return FX_EXIT_OK;
}

/* ---- Perplexity ---- */

typedef struct scorer {
    const int32_t *ids;
    int64_t n, count;
    double nll;
} scorer;

static int score(void *user, int64_t position, const float *logits, int64_t vocab)
{
    scorer *s = user;
    double max = (double)logits[0], sum = 0;

    if (position + 1 >= s->n)
        return 0;
    for (int64_t i = 1; i < vocab; i++)
        max = FX_MAX(max, (double)logits[i]);
    for (int64_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - max);
    s->nll += max + log(sum) - (double)logits[s->ids[position + 1]];
    s->count++;
    return fx_cli_interrupted();
}

static int perplexity(const bench_opts *opt, fornax_model *model, fornax_error *err)
{
    fx_id_vec ids = { 0 };
    fx_buf text;
    scorer s = { 0 };
    fornax_status st = FORNAX_OK;
    int64_t ctx = opt->model.ctx ? opt->model.ctx : 512, windows;

    fx_buf_init(&text, &fx_mem_libc);
    if (!fx_cli_read(&text, opt->ppl)) {
        fx_buf_done(&text);
        return FX_EXIT_FAILED;
    }
    if (!fx_cli_tokenize(&ids, fornax_model_tokenizer(model), fx_buf_view(&text),
                         FORNAX_TOKENIZE_ADD | FORNAX_TOKENIZE_SPECIAL, err))
        st = err->status;
    windows = (int64_t)ids.n / ctx;
    for (int64_t w = 0; st == FORNAX_OK && w < windows; w++) {
        s.ids = ids.at + w * ctx;
        s.n = ctx;
        st = fornax_model_evaluate(model, s.ids, (size_t)ctx, (size_t)ctx / 2, score, &s, err);
        if (!opt->model.quiet && st == FORNAX_OK)
            fprintf(stderr, "\rwindow %lld of %lld: %.4f ", (long long)(w + 1), (long long)windows,
                    exp(s.nll / (double)FX_MAX(s.count, 1)));
    }
    if (!opt->model.quiet && windows > 0)
        fputc('\n', stderr);
    FX_VEC_FREE(&ids, &fx_mem_libc);
    fx_buf_done(&text);
    if (st != FORNAX_OK)
        return fx_cli_fail(err);
    if (s.count == 0) {
        snprintf(err->text, sizeof err->text, "%s: fewer than %lld tokens", opt->ppl, (long long)ctx);
        return fx_cli_fail(err);
    }
    printf(opt->json ? "{\"perplexity\": %.6f, \"tokens_scored\": %lld, \"windows\": %lld, \"ctx\": %lld}\n"
                     : "perplexity %.4f over %lld tokens (%lld windows of %lld)\n",
           exp(s.nll / (double)s.count), (long long)s.count, (long long)windows, (long long)ctx);
    return FX_EXIT_OK;
}

/* No code is to be made while something is measured; where there can be none, hand-written kernels are measured. */
static fornax_status open_model(fornax_context **ctx, fornax_model **model, const char *path, const fx_model_opts *m, fornax_error *err)
{
    fornax_status st = fx_cli_model(ctx, model, path, m, err);

    if (st == FORNAX_OK)
        fornax_model_compile(*model, NULL);
    return st;
}

static int run(const void *o, int n, char **args)
{
    const bench_opts *opt = o;
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_engine *engine = NULL;
    contexts curve = { 0 };
    int status;

    (void)n;
    if (opt->context && !read_contexts(&curve, opt))
        return fx_cli_usage("--context: expected up to %d numbers above --gen, with commas between, found '%s'", MOST_CONTEXTS,
                            opt->context);
    if (opt->ppl && opt->model.ctx && opt->model.ctx < 4)
        return fx_cli_fail(&(fornax_error){ .status = FORNAX_EARG, .param = "max_context", .text = "expected at least 4 with --ppl" });
    if (opt->start)
        return start_up(opt, args[0], &err);
    fx_cli_catch_interrupt();
    eo.no_prefix_cache = 1;
    eo.max_batch = (int)FX_MAX(opt->batch, 64);
    if (open_model(&ctx, &model, args[0], &opt->model, &err) != FORNAX_OK)
        status = fx_cli_fail(&err);
    else if (opt->ppl)
        status = perplexity(opt, model, &err);
    else if (fornax_engine_open(&engine, model, &eo, &err) != FORNAX_OK)
        status = fx_cli_fail(&err);
    else
        status = opt->context ? context_curve(opt, &curve, ctx, engine, &err) : rates(opt, ctx, engine, &err);
    fornax_engine_close(engine);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_bench = {
    .name = "bench", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "measure prefill, decode, start-up and memory beside the machine's limits, or perplexity",
    .examples = "  fornax bench model.gguf --threads 2 --prompt 512 --gen 64 --batch 16 --json\n"
                "  fornax bench model.gguf --start --no-cache\n"
                "  fornax bench model.gguf --context 1024,4096,8192 --kv-dtype int8\n"
                "  fornax bench model.gguf --ppl text.txt --ctx 512\n",
    .opts = opts, .opts_bytes = sizeof(bench_opts), .defaults = &defaults, .run = run,
};
