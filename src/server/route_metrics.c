/* route_metrics.c - GET /metrics: Prometheus text, one table row a metric. */
#include "server/http.h"

typedef struct metric {
    const char *name, *type, *help;
    size_t at;
    double scale;
} metric;

#define M(name, type, field, help) { "fornax_" name, type, help, offsetof(fornax_engine_stats, field), 1 }
static const metric metrics[] = {
    M("steps_total", "counter", steps, "forward passes"),
    M("requests_total", "counter", requests_total, "requests accepted"),
    M("requests_done_total", "counter", requests_done, "requests that ended well"),
    M("requests_failed_total", "counter", requests_failed, "requests that ended with an error"),
    M("requests_cancelled_total", "counter", requests_cancelled, "requests cancelled"),
    M("requests_rejected_total", "counter", requests_rejected, "requests refused because the queue was full"),
    M("requests_waiting", "gauge", waiting, "requests in the queue"),
    M("sequences_running", "gauge", running, "sequences in the batch"),
    M("prompt_tokens_total", "counter", prompt_tokens, "tokens of prompts"),
    M("cached_tokens_total", "counter", cached_tokens, "of these, found in the prefix cache"),
    M("generated_tokens_total", "counter", generated_tokens, "tokens sampled"),
    M("prefill_tokens", "gauge", prefill_tokens, "tokens of the prompts being computed"),
    M("prefill_tokens_done", "gauge", prefill_done, "of these, computed"),
    M("kernel_launches_total", "counter", launches, "kernels begun"),
    M("generated_launches_total", "counter", generated, "of these, generated kernels"),
    M("preemptions_total", "counter", preemptions, "sequences set back for want of pages"),
    M("kv_page_bytes", "gauge", page_bytes, "bytes of a page of the KV pool"),
    M("kv_pages", "gauge", pages_total, "pages of the KV pool"),
    M("kv_pages_used", "gauge", pages_used, "pages that sequences hold"),
    M("kv_pages_cached", "gauge", pages_cached, "pages that only the prefix cache holds"),
    { "fornax_step_seconds_total", "counter", "time in forward passes",
      offsetof(fornax_engine_stats, step_ns_total), 1e-9 },
};

#define C(name, field, help) { "fornax_artifact_" name, "counter", help, offsetof(fornax_cache_stats, field), 1 }
static const metric cache_metrics[] = {
    C("hits_total", hits, "packed weights and compiled code found in the cache folder"),
    C("misses_total", misses, "packed weights and compiled code not found there"),
    C("written_total", written, "files kept there"),
    C("removed_total", removed, "files that went for the cap's sake"),
    C("faults_total", faults, "damaged files, and what couldn't be written"),
};

static const double bounds[] = { 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60 };

void fx_histogram_add(fx_histogram *h, uint64_t from_ns, uint64_t to_ns)
{
    double seconds = (double)(to_ns - from_ns) * 1e-9;
    size_t i = 0;

    while (i < FX_COUNT(bounds) && seconds > bounds[i])
        i++;
    h->counts[i]++;
    h->sum += seconds;
}

static void put_histogram(fx_buf *b, const fx_histogram *h, const char *name, const char *help)
{
    uint64_t n = 0;

    fx_buf_printf(b, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (size_t i = 0; i < FX_COUNT(h->counts); i++) {
        n += h->counts[i];
        fx_buf_printf(b, "%s_bucket{le=\"", name);
        if (i < FX_COUNT(bounds))
            fx_buf_double(b, bounds[i]);
        fx_buf_printf(b, "%s\"} %llu\n", i < FX_COUNT(bounds) ? "" : "+Inf", (unsigned long long)n);
    }
    fx_buf_printf(b, "%s_sum ", name);
    fx_buf_double(b, h->sum);
    fx_buf_printf(b, "\n%s_count %llu\n", name, (unsigned long long)n);
}

static void put_http(fx_buf *b, fx_http *h)
{
    fx_buf_puts(b, "# HELP fornax_http_responses_total answers by status, those to probes aside\n# TYPE fornax_http_responses_total counter\n");
    pthread_mutex_lock(&h->lock);
    for (int i = 1; i < 6; i++)
        fx_buf_printf(b, "fornax_http_responses_total{status=\"%dxx\"} %llu\n", i,
                      (unsigned long long)h->statuses[i]);
    put_histogram(b, &h->first_token, "fornax_time_to_first_token_seconds", "from the request to its first token");
    put_histogram(b, &h->whole, "fornax_request_seconds", "from the request to the end of its answer");
    pthread_mutex_unlock(&h->lock);
}

static void put_table(fx_buf *b, const metric *rows, size_t n, const void *values)
{
    for (const metric *m = rows; m < rows + n; m++) {
        uint64_t v;

        memcpy(&v, (const char *)values + m->at, sizeof v);
        fx_buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n%s ", m->name, m->help, m->name, m->type, m->name);
        fx_buf_double(b, (double)v * m->scale);
        fx_buf_putc(b, '\n');
    }
}

static void reply(fx_call *c)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);
    fornax_cache_stats cache = FORNAX_OPTIONS(fornax_cache_stats);
    fx_buf b;

    fornax_engine_get_stats(c->http->engine, &s);
    fornax_context_get_cache(fornax_model_context(fornax_engine_model(c->http->engine)), &cache);
    fx_buf_init(&b, &fx_mem_libc);
    put_table(&b, metrics, FX_COUNT(metrics), &s);
    put_table(&b, cache_metrics, FX_COUNT(cache_metrics), &cache);
    put_http(&b, c->http);
    fx_reply_text(c, 200, "text/plain; version=0.0.4; charset=utf-8", fx_buf_view(&b));
    fx_buf_done(&b);
}

const fx_route fx_route_metrics = { "GET", "/metrics", false, reply, true };
