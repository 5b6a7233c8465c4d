/* route_health.c - GET /health: shows forward progress, not just that the process lives.
 *
 * 'steps' counts steps of the engine, prefill_tokens and prefill_done how far the prompts being computed
 * have come. An engine that has work and begins no kernel for a while is stalled: 503, so that whoever probes
 * restarts the server. There is no answer yet while the model loads. */
#include "base/clock.h"
#include "server/http.h"

static bool is_stalled(fx_http *h)
{
    uint64_t now = fx_clock_ns(), moved;

    pthread_mutex_lock(&h->lock);
    moved = h->moved_ns;
    pthread_mutex_unlock(&h->lock);
    return now > moved && now - moved > (uint64_t)h->opt.stall_ms * 1000000u;
}

static void health(fx_call *c)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);
    bool stalled = is_stalled(c->http);

    fornax_engine_get_stats(c->http->engine, &s);
    fx_reply_json(c, stalled ? 503 : 200,
                  json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "status", stalled ? "stalled" : "ok", "model",
                            c->http->opt.names[0], "uptime_s", (json_int_t)(fx_clock_unix() - c->http->started), "steps",
                            (json_int_t)s.steps, "running", (json_int_t)s.running, "waiting", (json_int_t)s.waiting,
                            "generated_tokens", (json_int_t)s.generated_tokens, "prefill_tokens",
                            (json_int_t)s.prefill_tokens, "prefill_done", (json_int_t)s.prefill_done));
}

const fx_route fx_route_health = { "GET", "/health", false, health, true };
