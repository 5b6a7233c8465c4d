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
    M("preemptions_total", "counter", preemptions, "sequences set back for want of pages"),
    M("kv_pages", "gauge", pages_total, "pages of the KV pool"),
    M("kv_pages_used", "gauge", pages_used, "pages held by sequences or the prefix cache"),
    M("kv_pages_cached", "gauge", pages_cached, "pages held by the prefix cache only"),
    { "fornax_step_seconds_total", "counter", "time in forward passes",
      offsetof(fornax_engine_stats, step_ns_total), 1e-9 },
};

static void put_http(fx_buf *b, fx_http *h)
{
    fx_buf_puts(b, "# HELP fornax_http_responses_total answers by status\n# TYPE fornax_http_responses_total counter\n");
    pthread_mutex_lock(&h->lock);
    for (int i = 1; i < 6; i++)
        fx_buf_printf(b, "fornax_http_responses_total{status=\"%dxx\"} %llu\n", i, (unsigned long long)h->statuses[i]);
    pthread_mutex_unlock(&h->lock);
}

static void reply(fx_call *c)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);
    fx_buf b;

    fornax_engine_get_stats(c->http->engine, &s);
    fx_buf_init(&b, &fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(metrics); i++) {
        uint64_t v;

        memcpy(&v, (const char *)&s + metrics[i].at, sizeof v);
        fx_buf_printf(&b, "# HELP %s %s\n# TYPE %s %s\n%s ", metrics[i].name, metrics[i].help, metrics[i].name,
                      metrics[i].type, metrics[i].name);
        fx_buf_double(&b, (double)v * metrics[i].scale);
        fx_buf_putc(&b, '\n');
    }
    put_http(&b, c->http);
    fx_reply_text(c, 200, "text/plain; version=0.0.4; charset=utf-8", fx_buf_view(&b));
    fx_buf_done(&b);
}

const fx_route fx_route_metrics = { "GET", "/metrics", false, reply };
