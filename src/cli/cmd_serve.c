/* cmd_serve.c - fornax serve MODEL: the OpenAI protocol over HTTP. */
#include <stdlib.h>
#include <sys/resource.h>

#include "base/file.h"
#include "cli/cli.h"
#include "server/server.h"

typedef struct serve_opts {
    fx_model_opts model;
    const char *host;
    int64_t port, max_batch, step_tokens, prefill_chunk, queue, kv_mib, max_body_mib, timeout, keep_alive, grace;
    fx_strs names, loras;
    const char *lora_dir, *policy;
    bool lenient, no_prefix_cache, any_dimensions, log_requests;
} serve_opts;

static const fx_opt opts[] = {
    { "host", 0, FX_OPT_STR, offsetof(serve_opts, host), "ADDR", "address to listen on (default: 127.0.0.1)", 0, 0 },
    { "port", 0, FX_OPT_INT, offsetof(serve_opts, port), "N", "port, 0 for any free one (default: 8000)", 0, 65535 },
    { "name", 0, FX_OPT_STRS, offsetof(serve_opts, names), "NAME", "the model's name in the API; may be given again", 0, 0 },
    { "lora", 0, FX_OPT_STRS, offsetof(serve_opts, loras), "NAME=PATH[:SCALE]",
      "an adapter that requests choose as model NAME; may be given again", 0, 0 },
    { "lora-dir", 0, FX_OPT_STR, offsetof(serve_opts, lora_dir), "DIR",
      "clients may load and unload adapters that lie below DIR", 0, 0 },
    { "policy", 0, FX_OPT_STR, offsetof(serve_opts, policy), "FILE",
      "which tools chat requests may call, and when; what was open is told on stderr", 0, 0 },
    { "max-batch", 0, FX_OPT_INT, offsetof(serve_opts, max_batch), "N", "sequences running at once (default: 64)", 0, 4096 },
    { "step-tokens", 0, FX_OPT_INT, offsetof(serve_opts, step_tokens), "N", "tokens in a step at most (default: 512)", 0, 65536 },
    { "prefill-chunk", 0, FX_OPT_INT, offsetof(serve_opts, prefill_chunk), "N",
      "prompt tokens of one request in a step (default: step tokens)", 0, 65536 },
    { "queue", 0, FX_OPT_INT, offsetof(serve_opts, queue), "N", "requests waiting at most (default: 256)", 0, 1 << 20 },
    { "kv-mib", 0, FX_OPT_INT, offsetof(serve_opts, kv_mib), "N", "size of the KV cache in MiB (default: by context)", 0, 1 << 24 },
    { "no-prefix-cache", 0, FX_OPT_FLAG, offsetof(serve_opts, no_prefix_cache), NULL, "never reuse prompts of earlier requests", 0, 0 },
    { "lenient-fields", 0, FX_OPT_FLAG, offsetof(serve_opts, lenient), NULL, "accept unknown request fields, named in a response header", 0, 0 },
    { "max-body-mib", 0, FX_OPT_INT, offsetof(serve_opts, max_body_mib), "N", "largest request body (default: 64)", 0, 1 << 12 },
    { "timeout", 0, FX_OPT_INT, offsetof(serve_opts, timeout), "SECONDS", "close idle connections after (default: 60)", 0, 86400 },
    { "keep-alive", 0, FX_OPT_INT, offsetof(serve_opts, keep_alive), "SECONDS",
      "a comment on streams silent for so long; 0: never (default: 10)", 0, 86400 },
    { "grace", 0, FX_OPT_INT, offsetof(serve_opts, grace), "SECONDS", "what runs may still finish for so long at SIGTERM (default: 2)", 0, 86400 },
    { "any-dimensions", 0, FX_OPT_FLAG, offsetof(serve_opts, any_dimensions), NULL, "embeddings may be shortened by any model", 0, 0 },
    { "log-requests", 0, FX_OPT_FLAG, offsetof(serve_opts, log_requests), NULL, "a line on stderr for each request", 0, 0 },
    FX_MODEL_OPTS(serve_opts, model),
    { 0 },
};
static const serve_opts defaults = { .host = "127.0.0.1", .port = 8000, .keep_alive = 10, .grace = 2 };

typedef struct banner {
    const serve_opts *opt;
    const char *name;
} banner;

static void ready(void *user, int port)
{
    const banner *b = user;
    bool v6 = strchr(b->opt->host, ':') != NULL;

    printf("%s is served at http://%s%s%s:%d/v1 (web page: http://%s%s%s:%d/)\n", b->name, v6 ? "[" : "", b->opt->host,
           v6 ? "]" : "", port, v6 ? "[" : "", b->opt->host, v6 ? "]" : "", port);
    fflush(stdout);
}

static int stopping(void *user)
{
    (void)user;
    return fx_cli_interrupted();
}

static void log_request(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "%s\n", line);
}

/* Every connection and every request has a descriptor: as many as the system lets us. */
static void raise_descriptors(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max == RLIM_INFINITY || r.rlim_max > 65536 ? FX_MAX(65536, r.rlim_cur) : r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
}

/* Strings of the options' adapters, to be freed. */
static void free_loras(fx_server_lora *loras, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((char *)loras[i].name);
        free((char *)loras[i].path);
    }
}

/* "name=path" or "name=path:scale"; false after a usage message. */
static bool read_lora(const char *value, fx_server_lora *out)
{
    const char *equals = strchr(value, '=');
    char *path = NULL;

    *out = (fx_server_lora){ 0 };
    if (!equals || equals == value || !equals[1]) {
        fx_cli_usage("--lora: expected NAME=PATH or NAME=PATH:SCALE, found '%s'", value);
        return false;
    }
    if (!fx_cli_lora(equals + 1, &path, &out->scale) || !(out->name = strndup(value, (size_t)(equals - value)))) {
        free(path);
        fx_cli_usage("--lora: no memory");
        return false;
    }
    out->path = path;
    if (out->scale == 0)
        fx_cli_usage("--lora: '%s': a scale of 0 is no adapter", value);
    return out->scale != 0;
}

/* NULL where none was asked for. */
static fornax_status read_policy(fornax_policy **out, fornax_context *ctx, const char *path, fornax_error *err)
{
    fornax_status st = FORNAX_OK;
    fx_buf text;

    *out = NULL;
    if (!path)
        return FORNAX_OK;
    fx_buf_init(&text, &fx_mem_libc);
    st = fx_file_read(&text, path, 1 << 24, err);
    if (st == FORNAX_OK)
        st = fornax_policy_open(out, ctx, fx_buf_view(&text).p, text.n, err);
    fx_buf_done(&text);
    return st;
}

static fornax_status serve(const serve_opts *o, fornax_model *model, const fx_server_lora *loras, const fornax_policy *policy,
                           fornax_error *err)
{
    fornax_engine_options eo = FORNAX_OPTIONS(fornax_engine_options);
    const char *name = o->names.n ? o->names.at[0] : fornax_model_get_info(model)->name;
    banner b = { o, name };
    fx_server_options so = {
        .host = o->host, .port = (int)o->port,
        .names = o->names.n ? o->names.at : &name, .n_names = o->names.n ? o->names.n : 1,
        .loras = loras, .n_loras = o->loras.n, .lora_dir = o->lora_dir, .lenient_fields = o->lenient, .max_body_bytes = (size_t)o->max_body_mib << 20,
        .idle_timeout_s = (int)o->timeout, .grace_ms = (int)o->grace * 1000, .default_temperature = -1,
        .keep_alive_s = (int)o->keep_alive, .any_dimensions = o->any_dimensions,
        .ready = ready, .ready_user = &b, .stopping = stopping,
        .policy = policy, .audit = log_request,
        .log = o->log_requests ? log_request : NULL,
    };
    fornax_engine *engine = NULL;
    fornax_status st;

    eo.max_batch = (int)o->max_batch;
    eo.step_tokens = (int)o->step_tokens;
    eo.prefill_chunk = (int)o->prefill_chunk;
    eo.queue_limit = (int)o->queue;
    eo.kv_bytes = o->kv_mib << 20;
    eo.no_prefix_cache = o->no_prefix_cache;
    st = fornax_engine_open(&engine, model, &eo, err);
    if (st == FORNAX_OK)
        st = fx_server_run(engine, &so, err);
    fornax_engine_close(engine);
    return st;
}

static int run(const void *o, int n, char **args)
{
    const serve_opts *opt = o;
    fx_server_lora loras[FX_COUNT(opt->loras.at)] = { 0 };
    fx_model_opts mo = opt->model;
    fornax_error err = { 0 };
    fornax_context *ctx = NULL;
    fornax_model *model = NULL;
    fornax_policy *policy = NULL;
    int status = FX_EXIT_OK;

    (void)n;
    for (size_t i = 0; i < opt->loras.n && status == FX_EXIT_OK; i++)
        status = read_lora(opt->loras.at[i], &loras[i]) ? FX_EXIT_OK : FX_EXIT_USAGE;
    if (status != FX_EXIT_OK) {
        free_loras(loras, opt->loras.n);
        return status;
    }
    mo.adapters = opt->loras.n > 0 || opt->lora_dir;
    fx_cli_catch_interrupt();
    raise_descriptors();
    if (fx_cli_model(&ctx, &model, args[0], &mo, &err) != FORNAX_OK || read_policy(&policy, ctx, opt->policy, &err) != FORNAX_OK ||
        serve(opt, model, loras, policy, &err) != FORNAX_OK)
        status = fx_cli_fail(&err);
    free_loras(loras, opt->loras.n);
    fornax_policy_close(policy);
    fornax_model_close(model);
    fornax_context_close(ctx);
    return status;
}

const fx_cmd fx_cmd_serve = {
    .name = "serve", .args = "MODEL", .min_args = 1, .max_args = 1,
    .summary = "serve a model with the OpenAI protocol, and a web page to chat",
    .examples = "  fornax serve model.gguf\n  fornax serve folder/ --name my-model --port 8080\n"
                "  fornax serve folder/ --lora sql=adapters/sql --lora terse=adapters/terse.gguf:0.5\n"
                "  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
                "    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
    .opts = opts, .opts_bytes = sizeof(serve_opts), .defaults = &defaults, .run = run,
};
