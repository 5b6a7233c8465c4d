/* common.c - what several commands share: context, model with progress, sampling, input. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "cli/cli.h"

/* ---- Context and model ---- */

static void log_line(void *user, int level, const char *line)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };

    (void)user;
    fprintf(stderr, "fornax: %s: %s\n", names[level & 3], line);
}

fornax_status fx_cli_context(fornax_context **ctx, const fx_model_opts *m, fornax_error *err)
{
    fornax_context_options opt = FORNAX_OPTIONS(fornax_context_options);

    opt.log = log_line;
    opt.log_level = m->verbose ? 3 : 1;
    opt.threads = (int)m->threads;
    opt.cache_dir = m->no_cache ? NULL : m->cache ? m->cache : "";
    opt.cache_min_bytes = m->cache ? 1 : 0;      /* who names a folder wants it used */
    opt.cache_bytes = m->cache_mib << 20;
    return fornax_context_open(ctx, &opt, err);
}

static int show_progress(void *user, double fraction)
{
    int *shown = user, percent = (int)(fraction * 100);

    if (percent != *shown) {
        *shown = percent;
        fprintf(stderr, "\rloading %3d %%", percent);
    }
    return fx_cli_interrupted();
}

int fx_cli_check_interrupt(void *user, double fraction)
{
    (void)user, (void)fraction;
    return fx_cli_interrupted();
}

fornax_status fx_cli_model(fornax_context **ctx, fornax_model **model, const char *path, const fx_model_opts *m,
                           fornax_error *err)
{
    return fx_cli_model_for(ctx, model, path, m, false, err);
}

fornax_status fx_cli_model_for(fornax_context **ctx, fornax_model **model, const char *path, const fx_model_opts *m,
                               bool embeddings, fornax_error *err)
{
    fornax_model_options opt = FORNAX_OPTIONS(fornax_model_options);
    fx_buf jinja;
    int shown = -1;
    fornax_status st = fx_cli_context(ctx, m, err);

    *model = NULL;
    if (st != FORNAX_OK)
        return st;
    fx_buf_init(&jinja, &fx_mem_libc);
    if (m->chat_template) {
        st = fx_file_read(&jinja, m->chat_template, 16u << 20, err);
        opt.chat_template = fx_buf_view(&jinja).p;
    }
    opt.dtype = m->dtype;
    opt.kv_dtype = m->kv_dtype;
    opt.max_context = m->ctx;
    opt.code = m->code;
    opt.adapters = m->lora || m->adapters;
    opt.embeddings = embeddings;
    opt.progress = isatty(2) && !m->quiet ? show_progress : fx_cli_check_interrupt;
    opt.progress_user = &shown;
    if (st == FORNAX_OK)
        st = fornax_model_open(model, *ctx, path, &opt, err);
    if (shown >= 0)
        fprintf(stderr, "\r\033[K");
    fx_buf_done(&jinja);
    return st;
}

/* ---- Adapters ---- */

bool fx_cli_lora(const char *value, char **path, double *scale)
{
    const char *colon = strrchr(value, ':');
    size_t n = strlen(value);

    if (colon && fx_parse_double(fx_str_of(colon + 1), scale))
        n = (size_t)(colon - value);
    else
        *scale = 1;
    *path = malloc(n + 1);
    if (!*path)
        return false;
    memcpy(*path, value, n);
    (*path)[n] = 0;
    return true;
}

fornax_status fx_cli_adapter(fornax_adapter **adapter, fornax_model *model, const fx_model_opts *m, fornax_error *err)
{
    fornax_adapter_options o = FORNAX_OPTIONS(fornax_adapter_options);
    fornax_status st;
    char *path;

    *adapter = NULL;
    if (!m->lora)
        return FORNAX_OK;
    if (!fx_cli_lora(m->lora, &path, &o.scale))
        return fx_nomem(err, "a path");
    st = o.scale != 0 ? fornax_adapter_open(adapter, model, path, &o, err)
                      : fx_fail_param(err, FORNAX_EARG, "lora", "lora: a scale of 0 is no adapter");
    free(path);
    return st;
}

/* ---- Requests ---- */

void fx_cli_sampling(fornax_request_options *out, const fx_sampling_opts *s, fornax_string *strings)
{
    out->temperature = (float)s->temperature;
    out->top_k = (int)s->top_k;
    out->top_p = (float)s->top_p;
    out->min_p = (float)s->min_p;
    out->repetition_penalty = (float)s->repetition_penalty;
    out->frequency_penalty = (float)s->frequency_penalty;
    out->presence_penalty = (float)s->presence_penalty;
    out->max_tokens = s->max_tokens;
    out->min_tokens = s->min_tokens;
    out->n = (int)s->n;
    out->has_seed = s->seed.given;
    out->seed = s->seed.value;
    out->ignore_eos = s->ignore_eos;
    out->logprobs = s->logprobs >= 0;
    out->top_logprobs = s->logprobs > 0 ? (int)s->logprobs : 0;
    for (size_t i = 0; i < s->stop.n; i++)
        strings[i] = (fornax_string){ s->stop.at[i], strlen(s->stop.at[i]) };
    out->stop = strings;
    out->n_stop = s->stop.n;
}

/* ---- Input ---- */

static bool read_stream(fx_buf *out, FILE *f)
{
    char piece[65536];
    size_t n;

    while ((n = fread(piece, 1, sizeof piece, f)) > 0)
        fx_buf_add(out, piece, n);
    return !ferror(f) && !out->failed;
}

bool fx_cli_read(fx_buf *out, const char *path)
{
    fornax_error err = { 0 };
    char words[128];

    if (strcmp(path, "-") == 0) {
        if (read_stream(out, stdin))
            return true;
        if (out->failed)
            fx_nomem(&err, "standard input");
        else
            fx_fail(&err, FORNAX_EIO, "standard input: %s", fx_errno_text(errno, words, sizeof words));
        fx_cli_fail(&err);
        return false;
    }
    if (fx_file_read(out, path, 1u << 30, &err) == FORNAX_OK)
        return true;
    fx_cli_fail(&err);
    return false;
}

bool fx_cli_ids(fx_id_vec *out, const char *option, const char *list)
{
    for (const char *at = list; at && *list;) {
        const char *comma = strchr(at, ',');
        fx_str one = { at, comma ? (size_t)(comma - at) : strlen(at) };
        int64_t id;

        if (!fx_parse_i64(one, &id) || id < 0 || id > INT32_MAX) {
            fx_cli_usage("--%s: expected ids joined by commas, found '%.*s'", option, FX_STR_ARG(one));
            return false;
        }
        if (!FX_VEC_PUSH(out, &fx_mem_libc, (int32_t)id)) {
            fx_cli_usage("--%s: no memory", option);
            return false;
        }
        at = comma ? comma + 1 : NULL;
    }
    return true;
}

bool fx_cli_tokenize(fx_id_vec *out, const fornax_tokenizer *tok, fx_str text, unsigned flags, fornax_error *err)
{
    size_t n = 0;

    if (fornax_tokenize(tok, text.p, text.n, flags, NULL, 0, &n, err) != FORNAX_OK)
        return false;
    if (!FX_VEC_RESERVE(out, &fx_mem_libc, n + 1)) {
        snprintf(err->text, sizeof err->text, "no memory for %zu tokens", n);
        err->status = FORNAX_ENOMEM;
        return false;
    }
    if (fornax_tokenize(tok, text.p, text.n, flags, out->at, out->cap, &n, err) != FORNAX_OK)
        return false;
    out->n = n;
    return true;
}
