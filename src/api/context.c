/* context.c - contexts: allocator, log, threads and instruction-set level; status names. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/text.h"

#define STR_(x) #x
#define STR(x) STR_(x)

const char *fornax_version(void)
{
    return STR(FORNAX_VERSION_MAJOR) "." STR(FORNAX_VERSION_MINOR) "." STR(FORNAX_VERSION_PATCH);
}

const char *fornax_status_name(fornax_status status)
{
    static const char *const names[] = {
        [FORNAX_OK] = "FORNAX_OK",           [FORNAX_ENOMEM] = "FORNAX_ENOMEM",
        [FORNAX_EIO] = "FORNAX_EIO",         [FORNAX_EFORMAT] = "FORNAX_EFORMAT",
        [FORNAX_EUNSUP] = "FORNAX_EUNSUP",   [FORNAX_EARG] = "FORNAX_EARG",
        [FORNAX_ECANCEL] = "FORNAX_ECANCEL", [FORNAX_EBUSY] = "FORNAX_EBUSY",
        [FORNAX_ENOTFOUND] = "FORNAX_ENOTFOUND", [FORNAX_ETIMEOUT] = "FORNAX_ETIMEOUT",
        [FORNAX_EINTERNAL] = "FORNAX_EINTERNAL",
    };

    return (unsigned)status < FX_COUNT(names) ? names[status] : "FORNAX_E?";
}

fx_status fx_api_options(void *out, size_t size, const void *given, const char *type, fx_error *err)
{
    size_t have;

    if (!given)
        return FORNAX_OK;
    memcpy(&have, given, sizeof have);
    if (have < sizeof have || have > 4096)
        return fx_fail_param(err, FORNAX_EARG, "size", "%s: size isn't set", type);
    for (size_t i = size; i < have; i++) {           /* from a newer header: only if it asks for nothing new */
        if (((const char *)given)[i] != 0)
            return fx_fail_param(err, FORNAX_EUNSUP, "size", "%s: has options that this library doesn't know", type);
    }
    memcpy(out, given, FX_MIN(have, size));
    memcpy(out, &size, sizeof size);
    return FORNAX_OK;
}

/* "2026-11-30T12:00:00" in UTC to unix seconds. */
static fx_status parse_now(const char *text, int64_t *out, fx_error *err)
{
    struct tm tm = { 0 };
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

    if (!end || (*end && strcmp(end, "Z") != 0))
        return fx_fail_param(err, FORNAX_EARG, "FORNAX_NOW", "FORNAX_NOW: expected YYYY-MM-DDTHH:MM:SS, found '%s'",
                             text);
    *out = (int64_t)timegm(&tm);
    return FORNAX_OK;
}

static fx_status read_environment(fornax_context *ctx, const char *cpu, fx_error *err)
{
    const char *now = getenv("FORNAX_NOW");

    ctx->pinned_now = -1;
    if (now && *now)
        FX_TRY(parse_now(now, &ctx->pinned_now, err));
    if (!cpu)
        cpu = getenv("FORNAX_CPU");
    if (cpu && *cpu)
        return fx_cpu_choose(&ctx->cpu, cpu, err);
    ctx->cpu = fx_cpu_detect();
    return FORNAX_OK;
}

fornax_status fornax_context_open(fornax_context **out, const fornax_context_options *given, fornax_error *err)
{
    fornax_context_options all = FORNAX_OPTIONS(fornax_context_options), *opt = &all;
    fornax_context *ctx;
    fx_mem mem = fx_mem_libc;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_TRY(fx_api_options(&all, sizeof all, given, "fornax_context_options", err));
    if (opt->threads < 0 || opt->threads > 1024)
        return fx_fail_param(err, FORNAX_EARG, "threads", "threads: expected 0 to 1024, found %d", opt->threads);
    if (opt->alloc)
        mem = (fx_mem){ opt->alloc, opt->alloc_user };
    ctx = fx_mem_zalloc(&mem, sizeof *ctx);
    if (!ctx)
        return fx_nomem(err, "a context");
    ctx->mem = mem;
    ctx->log = (fx_log){ opt->log, opt->log_user, (fx_log_level)FX_MIN(FX_MAX(opt->log_level, 0), 3) };
    ctx->pid = getpid();
    st = read_environment(ctx, opt->cpu, err);
    if (st == FORNAX_OK)
        st = fx_grammar_cache_init(&ctx->grammars, &ctx->mem, err);
    if (st == FORNAX_OK)
        st = fx_api_store_open(ctx, opt, err);
    if (st == FORNAX_OK)
        st = fx_pool_new(&ctx->pool, &ctx->mem, opt->threads, err);
    if (st != FORNAX_OK) {
        fx_store_close(ctx->store);
        fx_grammar_cache_done(&ctx->grammars);
        fx_mem_free(&mem, ctx, sizeof *ctx);
        return st;
    }
    fx_log_print(&ctx->log, FX_LOG_INFO, "fornax %s: %s, %d threads", fornax_version(),
                 fx_cpu_level_name(ctx->cpu.level), fx_pool_threads(ctx->pool));
    *out = ctx;
    return FORNAX_OK;
}

void fornax_context_close(fornax_context *ctx)
{
    if (!ctx)
        return;
    fx_mem mem = ctx->mem;
    fx_pool_free(ctx->pool);
    fx_store_close(ctx->store);
    fx_grammar_cache_done(&ctx->grammars);
    fx_mem_free(&mem, ctx, sizeof *ctx);
}

int fornax_context_threads(const fornax_context *ctx) { return fx_pool_threads(ctx->pool); }
const char *fornax_context_cpu(const fornax_context *ctx) { return fx_cpu_level_name(ctx->cpu.level); }

fx_status fx_api_usable(const fornax_context *ctx, fx_error *err)
{
    if (ctx->pid == getpid())
        return FORNAX_OK;
    return fx_fail(err, FORNAX_EARG, "after fork() a child may only close what its parent opened");
}

fx_status fx_api_need(const void *given, const char *param, fx_error *err)
{
    return given ? FORNAX_OK : fx_fail_param(err, FORNAX_EARG, param, "%s: expected a pointer, found NULL", param);
}

int64_t fx_api_now(const fornax_context *ctx) { return ctx->pinned_now >= 0 ? ctx->pinned_now : fx_clock_unix(); }

void fx_api_json_free(char *dumped)
{
    json_malloc_t take;
    json_free_t give;

    json_get_alloc_funcs(&take, &give);
    give(dumped);
}

/* ---- Texts handed out ---- */

fx_status fx_api_text(fornax_text **out, const fx_mem *mem, fx_buf *b, fx_error *err)
{
    fornax_text *t = b->failed ? NULL : fx_mem_zalloc(mem, sizeof *t);

    *out = t;
    if (!t) {
        fx_buf_done(b);
        return fx_nomem(err, "a text");
    }
    t->mem = mem;
    t->buf = *b;
    return FORNAX_OK;
}

const char *fornax_text_bytes(const fornax_text *text, size_t *n)
{
    fx_str s = fx_buf_view(&text->buf);

    if (n)
        *n = s.n;
    return s.p;
}

void fornax_text_close(fornax_text *text)
{
    if (!text)
        return;
    fx_buf_done(&text->buf);
    fx_mem_free(text->mem, text, sizeof *text);
}
