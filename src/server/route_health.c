/* route_health.c - GET /health: shows forward progress, not just that the process lives.
 *
 * While something runs, 'steps' grows from one call to the next; a watcher that sees running > 0 and
 * the same steps twice has found a stall. */
#include "base/clock.h"
#include "server/http.h"

static void health(fx_call *c)
{
    fornax_engine_stats s = FORNAX_OPTIONS(fornax_engine_stats);

    fornax_engine_get_stats(c->http->engine, &s);
    fx_reply_json(c, 200,
                  json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "status", "ok", "model", c->http->opt.names[0],
                            "uptime_s", (json_int_t)(fx_clock_unix() - c->http->started), "steps", (json_int_t)s.steps,
                            "running", (json_int_t)s.running, "waiting", (json_int_t)s.waiting, "generated_tokens",
                            (json_int_t)s.generated_tokens));
}

const fx_route fx_route_health = { "GET", "/health", false, health };
