/* api_cache.c - where a context keeps packed weights: the folder that its options or the environment name. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

#define CACHE_BYTES ((int64_t)16 << 30)
#define CACHE_MIN_BYTES ((int64_t)32 << 20)

/* The user's folder for such things in 'b'; false: there is no sign of one. */
static bool user_folder(fx_buf *b)
{
    static const struct { const char *variable, *below; } rows[] = {
        { "FORNAX_CACHE_DIR", "artifacts" }, { "XDG_CACHE_HOME", "fornax/artifacts" }, { "HOME", ".cache/fornax/artifacts" },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        const char *dir = getenv(rows[i].variable);

        if (dir && *dir)
            return fx_path_join(b, dir, rows[i].below);
    }
    return false;
}

fx_status fx_api_store_open(fornax_context *ctx, const fornax_context_options *opt, fx_error *err)
{
    fx_status st = FORNAX_OK;
    fx_buf dir;

    if (opt->cache_bytes < 0 || opt->cache_min_bytes < 0)
        return fx_fail_param(err, FORNAX_EARG, opt->cache_bytes < 0 ? "cache_bytes" : "cache_min_bytes",
                             "%s: expected 0 or more", opt->cache_bytes < 0 ? "cache_bytes" : "cache_min_bytes");
    if (!opt->cache_dir)
        return FORNAX_OK;
    fx_buf_init(&dir, &ctx->mem);
    if (*opt->cache_dir)
        fx_buf_puts(&dir, opt->cache_dir);
    else if (!user_folder(&dir) && !dir.failed)
        fx_log_print(&ctx->log, FX_LOG_INFO, "packed weights aren't kept: neither FORNAX_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    ctx->store_min = (size_t)(opt->cache_min_bytes ? opt->cache_min_bytes : CACHE_MIN_BYTES);
    if (dir.failed)
        st = fx_nomem(err, "the cache folder's name");
    else if (dir.n > 0)
        st = fx_store_open(&ctx->store, &ctx->mem, &ctx->log, dir.p,
                           (uint64_t)(opt->cache_bytes ? opt->cache_bytes : CACHE_BYTES), err);
    fx_buf_done(&dir);
    return st;
}

void fornax_context_get_cache(const fornax_context *ctx, fornax_cache_stats *out)
{
    fx_store_counts c = { 0 };
    fornax_cache_stats all;

    if (ctx->store)
        c = fx_store_count(ctx->store);
    all = (fornax_cache_stats){ .size = out->size, .hits = c.hits, .misses = c.misses, .written = c.written,
                                .removed = c.removed, .faults = c.faults };
    memcpy(out, &all, FX_MIN(out->size, sizeof all));
}
