/* model.c - fornax_model: opens files, builds the graph, compiles it; runs it over given ids. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/clock.h"
#include "compile/compile.h"
#include "models/places.h"

#define CONTRACT_VERSION 1       /* of the reduction contract: changes when some kernel's bits do */

typedef enum fx_code_mode { FX_CODE_AUTO, FX_CODE_OFF, FX_CODE_NOW } fx_code_mode;

/* ---- Options ---- */

static fx_status read_mode(const char *name, fx_dtype_mode *mode, fx_error *err)
{
    static const struct { const char *name; fx_dtype_mode mode; } rows[] = {
        { "auto", FX_MODE_AUTO }, { "f32", FX_MODE_F32 }, { "bf16", FX_MODE_BF16 }, { "f16", FX_MODE_F16 },
    };

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (!name || strcmp(name, rows[i].name) == 0) {
            *mode = rows[i].mode;
            return FORNAX_OK;
        }
    }
    return fx_fail_param(err, FORNAX_EARG, "dtype", "dtype: expected auto, f32, bf16 or f16, found '%s'", name);
}

static const struct { const char *name; fx_dtype type; } kv_types[] = {
    { "f16", FX_F16 }, { "bf16", FX_BF16 }, { "f32", FX_F32 }, { "int8", FX_I8 },
};

static fx_status read_kv_type(const char *name, fx_model_options *out, fx_error *err)
{
    if (!name || strcmp(name, "auto") == 0)
        return FORNAX_OK;
    out->kv_auto = false;
    for (size_t i = 0; i < FX_COUNT(kv_types); i++) {
        if (strcmp(name, kv_types[i].name) == 0) {
            out->kv_dtype = kv_types[i].type;
            return FORNAX_OK;
        }
    }
    return fx_fail_param(err, FORNAX_EARG, "kv_dtype", "kv_dtype: expected auto, f16, bf16, f32 or int8, found '%s'", name);
}

static const char *kv_name(fx_dtype type)
{
    for (size_t i = 0; i < FX_COUNT(kv_types); i++) {
        if (kv_types[i].type == type)
            return kv_types[i].name;
    }
    return NULL;
}

static fx_status read_code(const char *name, fx_code_mode *mode, fx_error *err)
{
    static const struct { const char *name; fx_code_mode mode; } rows[] = {
        { "auto", FX_CODE_AUTO }, { "off", FX_CODE_OFF }, { "now", FX_CODE_NOW },
    };

    if (!name)
        name = getenv("FORNAX_CODE");
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (!name || !*name || strcmp(name, rows[i].name) == 0) {
            *mode = rows[i].mode;
            return FORNAX_OK;
        }
    }
    return fx_fail_param(err, FORNAX_EARG, "code", "code: expected auto, off or now, found '%s'", name);
}

static fx_status read_options(const fornax_model_options *opt, fx_model_options *out, fx_error *err)
{
    *out = (fx_model_options){ .kv_auto = true };
    FX_TRY(read_mode(opt->dtype, &out->mode, err));
    FX_TRY(read_kv_type(opt->kv_dtype, out, err));
    if (opt->max_context < 0)
        return fx_fail_param(err, FORNAX_EARG, "max_context", "max_context: expected 0 or more, found %lld",
                             (long long)opt->max_context);
    out->max_context = opt->max_context;
    out->hidden = opt->embeddings != 0;
    return FORNAX_OK;
}

/* ---- Weights, as the compiler asks for them ---- */

typedef struct load {
    fornax_model *m;
    const fornax_model_options *opt;
} load;

static bool find_weight(void *user, fx_str name, fx_weight_view *out)
{
    const fx_weight *t = fx_weights_find(((load *)user)->m->weights, name);

    if (!t || t->rank < 1)
        return false;
    int64_t cols = t->shape[t->rank - 1];
    *out = (fx_weight_view){ .data = t->data, .dtype = t->dtype, .cols = cols,
                             .rows = cols ? t->n_elems / cols : 0, .row_bytes = fx_dtype_row_bytes(t->dtype, cols) };
    return true;
}

static void release_weight(void *user, fx_str name)
{
    const fx_weights *w = ((load *)user)->m->weights;
    const fx_weight *t = fx_weights_find(w, name);

    if (t)
        fx_weights_release(w, t);
}

static bool progress(void *user, double fraction)
{
    const fornax_model_options *o = ((load *)user)->opt;

    return !o->progress || o->progress(o->progress_user, fraction) == 0;
}

/* ---- Opening ---- */

/* Which files, in which state: what the prefix cache knows a model by while it is open. */
static fx_hash128 fingerprint(const fx_weights *w)
{
    fx_hash128 h = { 0, 0 };

    for (size_t i = 0; i < fx_weights_files(w); i++) {
        struct { fx_file_id id; fx_hash128 before; } part = { fx_file_identity(fx_weights_file(w, i)), h };
        h = fx_hash128_of(&part, sizeof part, 1);
    }
    return h;
}

static const char *base_name(fx_arena *a, const char *path)
{
    size_t n = strlen(path), begin;

    while (n > 1 && path[n - 1] == '/')
        n--;
    for (begin = n; begin > 0 && path[begin - 1] != '/';)
        begin--;
    if (n - begin > 5 && memcmp(path + n - 5, ".gguf", 5) == 0)
        n -= 5;
    return fx_arena_strdup(a, path + begin, n - begin);
}

static const char *mode_name(fx_dtype_mode m)
{
    static const char *const names[] = { "auto", "f32", "bf16", "f16" };

    return names[m];
}

static fx_status fill_info(fornax_model *m, const fx_model_desc *d, fx_dtype_mode mode, const char *path, fx_error *err)
{
    const fx_state_table *state = fx_program_state(m->program);
    const fx_program_work work = fx_program_row_work(m->program);
    fornax_model_info *i = &m->info;

    i->architecture = fx_arena_strdup(&m->arena, d->arch, strlen(d->arch));
    i->name = base_name(&m->arena, path);
    i->dtype = mode_name(mode);
    i->kv_dtype = kv_name(state->kv_dtype);
    i->numerics_id = fx_arena_printf(&m->arena, "%s%s%s/%s/%s/1/%d", fx_cpu_level_name(m->ctx->cpu.level),
                                     fx_program_rounds_bf16(m->program) ? "+bf16" : "",
                                     d->params.mla.kv_rank && d->params.mla.expanded ? "+expanded" : "", i->dtype, i->kv_dtype,
                                     CONTRACT_VERSION);
    for (size_t t = 0; t < fx_weights_count(m->weights); t++)
        i->n_params += fx_weights_at(m->weights, t)->n_elems;
    i->file_bytes = (int64_t)fx_weights_file_bytes(m->weights);
    i->weight_bytes = (int64_t)fx_program_weight_bytes(m->program);
    i->step_bytes = work.bytes;
    i->int8_products = work.row.int8;
    i->bf16_products = work.row.bf16;
    i->f32_products = work.row.f32;
    i->int8_logit_products = work.logits.int8;
    i->bf16_logit_products = work.logits.bf16;
    i->f32_logit_products = work.logits.f32;
    i->context_bytes = work.context_bytes;
    i->context_products = work.context_products;
    i->vocab_size = d->vocab;
    i->n_layers = d->params.layers;
    i->n_heads = d->params.heads;
    i->n_kv_heads = d->params.kv_heads;
    i->head_dim = d->params.head_dim;
    i->embedding_dim = d->params.dim;
    i->max_context = d->max_context;
    i->kv_bytes_per_token = (int64_t)(state->page_bytes * (size_t)state->n_columns / (size_t)state->page_tokens);
    return i->architecture && i->name && i->numerics_id ? FORNAX_OK : fx_nomem(err, "a model's description");
}

/* Code for the generated kernels: as kept; else by the way where it can be kept and the model is worth it, or now. */
static fx_status begin_code(fornax_model *m, fx_code_mode mode, const char *path, fx_error *err)
{
    fx_store *store = m->ctx->store;
    bool worth = store && fx_program_weight_bytes(m->program) >= m->ctx->store_min && fx_store_writable(store);
    const fx_pcode_options o = { .make = mode == FX_CODE_NOW || worth, .level = m->ctx->cpu.level, .store = store, .log = &m->ctx->log,
                                 .library = fornax_version(), .label = path, .llvm = getenv("FORNAX_LLVM") };
    fx_error why;

    if (mode == FX_CODE_OFF)
        return FORNAX_OK;
    FX_TRY(fx_pcode_new(&m->code, &m->ctx->mem, m->program, &o, err));
    if (mode == FX_CODE_NOW && fx_pcode_wait(m->code, &why) != FORNAX_OK)
        fx_log_print(&m->ctx->log, FX_LOG_WARN, "%s: its kernels aren't generated: %s", path, why.text);
    return FORNAX_OK;
}

/* In the library's floating-point mode: constants are computed on the way. */
static fx_status build_program(fornax_model *m, const fornax_model_options *opt, const char *path, fx_error *err)
{
    load l = { m, opt };
    const fx_weight_source source = { .find = find_weight, .release = release_weight, .progress = progress, .user = &l };
    fx_model_options mo;
    fx_model_desc desc;
    fx_code_mode code = FX_CODE_AUTO;
    fx_arena arena;
    fx_status st;

    FX_TRY(read_options(opt, &mo, err));
    FX_TRY(read_code(opt->code, &code, err));
    mo.adapters = opt->adapters != 0;
    mo.hidden = mo.hidden || fx_embed_meant(m->weights);
    fx_arena_init(&arena, &m->ctx->mem, 1 << 18);
    st = fx_model_build(&arena, m->weights, &mo, &desc, err);
    if (st == FORNAX_OK) {
        const fx_compile_options co = { .mode = mo.mode, .adapters = opt->adapters != 0, .cpu = m->ctx->cpu,
                                        .pool = m->ctx->pool, .store = m->ctx->store, .store_min = m->ctx->store_min,
                                        .content = m->fingerprint, .library = fornax_version(), .label = path };

        st = fx_compile(&m->program, &m->ctx->mem, desc.step, &desc.state, &source, &co, err);
    }
    if (st == FORNAX_OK)
        st = begin_code(m, code, path, err);
    if (st == FORNAX_OK)
        st = fill_info(m, &desc, mo.mode, path, err);
    m->hidden = desc.hidden;
    m->both_ways = desc.both_ways;
    m->params = desc.params;
    m->params.layer_flags = NULL;        /* of the arena here */
    m->arch = st == FORNAX_OK ? fx_arch_find(desc.arch) : NULL;
    if (st == FORNAX_OK && m->hidden)
        st = fx_embedder_read(&m->embedder, &m->arena, m->weights, desc.params.dim, err);
    m->info.matryoshka = m->embedder.matryoshka;
    fx_arena_done(&arena);
    return st;
}

/* A template that the caller gave must be one. The model's own is needed for conversations only: a warning. */
static fx_status check_template(const fornax_model *m, bool given, fx_error *err)
{
    const fx_template *t;
    fx_error own = { 0 };

    if (given)
        return fx_api_template(&t, m->tok, false, err);
    if (fx_api_template(&t, m->tok, false, &own) == FORNAX_EFORMAT)
        fx_log_print(&m->ctx->log, FX_LOG_WARN, "%s: conversations won't work: %.*s", m->info.name, (int)strcspn(own.text, "\n"), own.text);
    return FORNAX_OK;
}

fornax_status fornax_model_open(fornax_model **out, fornax_context *ctx, const char *path,
                                const fornax_model_options *given, fornax_error *err)
{
    fornax_model_options opt = FORNAX_OPTIONS(fornax_model_options);
    uint64_t start = fx_clock_ns();
    fx_fpmode old;
    fornax_model *m;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(ctx);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(ctx, err));
    FX_TRY(fx_api_options(&opt, sizeof opt, given, "fornax_model_options", err));
    m = fx_mem_zalloc(&ctx->mem, sizeof *m);
    if (!m)
        return fx_nomem(err, "a model");
    m->ctx = ctx;
    fx_arena_init(&m->arena, &ctx->mem, 0);
    pthread_mutex_init(&m->vocab_lock, NULL);
    old = fx_fpmode_enter();
    st = fx_weights_open(&m->weights, &ctx->mem, path, 0, err);
    if (st == FORNAX_OK)
        m->fingerprint = fingerprint(m->weights);
    if (st == FORNAX_OK)
        st = fx_api_tokenizer_new(&m->tok, ctx, m->weights, opt.chat_template, err);
    if (st == FORNAX_OK)
        st = build_program(m, &opt, path, err);
    if (st == FORNAX_OK)
        st = check_template(m, opt.chat_template != NULL, err);
    fx_fpmode_leave(old);
    if (st != FORNAX_OK) {
        fornax_model_close(m);
        return st;
    }
    m->info.load_ms = (double)(fx_clock_ns() - start) / 1e6;
    fx_log_print(&ctx->log, FX_LOG_INFO, "%s: %s, %s, loaded in %.0f ms", path, m->info.architecture,
                 m->info.numerics_id, m->info.load_ms);
    *out = m;
    return FORNAX_OK;
}

void fornax_model_close(fornax_model *m)
{
    if (!m)
        return;
    fx_exec_free(atomic_load(&m->spare_exec));
    fx_pcode_free(m->code);
    fx_program_free(m->program);
    if (m->vocab)
        fx_gvocab_unref(m->vocab);
    pthread_mutex_destroy(&m->vocab_lock);
    fornax_tokenizer_close(m->tok);
    fx_weights_close(m->weights);
    fx_arena_done(&m->arena);
    fx_mem_free(&m->ctx->mem, m, sizeof *m);
}

fornax_status fornax_model_compile(fornax_model *m, fornax_error *err)
{
    FX_API_NEED(m);
    FX_TRY(fx_api_usable(m->ctx, err));
    if (!m->code)
        return fx_fail_param(err, FORNAX_EARG, "code", "code: the model was opened without generated kernels");
    return fx_pcode_wait(m->code, err);
}

const fornax_model_info *fornax_model_get_info(const fornax_model *model) { return &model->info; }
const fornax_tokenizer *fornax_model_tokenizer(const fornax_model *model) { return model->tok; }
fornax_context *fornax_model_context(const fornax_model *model) { return model->ctx; }

/* ---- Evaluation ---- */

fx_status fx_api_has_logits(const fornax_model *m, fx_error *err)
{
    return !m->hidden ? FORNAX_OK
                      : fx_fail(err, FORNAX_EUNSUP, "%s: opened for embedding: it makes vectors, not text", m->info.name);
}

enum { EVAL_ROWS = 512, EVAL_LOGITS = 128 };     /* of one step */

/* One sequence with pages of its own, in order. */
typedef struct eval {
    const fornax_model *m;
    const fx_adapter *adapter;                   /* or NULL */
    fx_exec *exec;
    fx_page *pages;
    int32_t *pos, *seq, *logit_rows;             /* [EVAL_ROWS] each */
    uint8_t *kv, *slot;
    size_t kv_bytes, n_pages;
    int32_t length_class;
} eval;

static fx_status eval_open(eval *v, fornax_model *m, size_t n, fx_error *err)
{
    const fx_state_table *state = fx_program_state(m->program);
    const fx_mem *mem = &m->ctx->mem;

    *v = (eval){ .m = m, .n_pages = FX_DIV_UP(n, (size_t)state->page_tokens) * (size_t)state->n_columns,
                 .length_class = fx_state_length_class(state, (int64_t)n) };
    v->kv_bytes = v->n_pages * state->page_bytes;
    v->pages = fx_mem_array(mem, v->n_pages, sizeof *v->pages);
    v->pos = fx_mem_array(mem, 3 * EVAL_ROWS, sizeof *v->pos);
    v->kv = fx_pages_alloc(v->kv_bytes);
    v->slot = state->slot_bytes ? fx_pages_alloc(state->slot_bytes) : NULL;       /* zeros */
    if (!v->pages || !v->pos || !v->kv || (state->slot_bytes && !v->slot))
        return fx_nomem(err, "an evaluation");
    v->seq = v->pos + EVAL_ROWS;
    v->logit_rows = v->seq + EVAL_ROWS;
    for (size_t i = 0; i < v->n_pages; i++)
        v->pages[i] = (fx_page)i;
    return fx_exec_new(&v->exec, m->program, m->ctx->pool, (int64_t)FX_MIN(n, EVAL_ROWS), EVAL_LOGITS, err);
}

static void eval_close(eval *v)
{
    const fx_mem *mem = &v->m->ctx->mem;

    fx_exec_free(v->exec);
    fx_pages_free(v->kv, v->kv_bytes);
    fx_pages_free(v->slot, fx_program_state(v->m->program)->slot_bytes);
    fx_mem_free(mem, v->pos, 3 * EVAL_ROWS * sizeof *v->pos);
    fx_mem_free(mem, v->pages, v->n_pages * sizeof *v->pages);
}

/* Rows [at, at + n): positions from 'first' on give logits. */
static void eval_step(eval *v, const int32_t *ids, size_t at, size_t n, size_t first, fx_step *step)
{
    const fx_state_table *state = fx_program_state(v->m->program);
    const fx_step_seq seq = { .n_rows = (int32_t)n, .pos0 = (int32_t)at, .pages = v->pages, .adapter = v->adapter ? 0 : -1,
                              .slot = v->slot, .length_class = v->length_class };

    *step = (fx_step){ .n_rows = (int32_t)n, .n_seqs = 1, .token = ids + at, .pos = v->pos, .seq = v->seq,
                       .logit_rows = v->logit_rows, .kv = v->kv, .page_bytes = state->page_bytes,
                       .page_tokens = state->page_tokens, .n_columns = state->n_columns, .seqs = &seq, .adapters = v->adapter ? &v->adapter : NULL };
    for (size_t i = 0; i < n; i++) {
        v->pos[i] = (int32_t)(at + i);
        v->seq[i] = 0;
        if (at + i >= first)
            v->logit_rows[step->n_logits++] = (int32_t)i;
    }
    fx_exec_run(v->exec, step);
    step->seqs = NULL;
}

/* The next step's rows: many while no logits are wanted, then as many as give them at once. */
static size_t eval_rows(size_t at, size_t n, size_t first)
{
    size_t rows = FX_MIN(n - at, (size_t)EVAL_ROWS);

    if (at + rows > first)
        rows = FX_MIN(rows, FX_MAX(first, at) - at + EVAL_LOGITS);
    return rows;
}

fx_status fx_api_evaluate(fornax_model *model, const fx_adapter *adapter, const int32_t *ids, size_t n, size_t first,
                          fornax_logits_fn each, void *user, fx_error *err)
{
    int64_t vocab;
    eval v;
    fx_status st;

    FX_API_NEED(model);
    FX_API_NEED(ids);
    FX_API_NEED(each);
    FX_TRY(fx_api_usable(model->ctx, err));
    FX_TRY(fx_api_has_logits(model, err));
    vocab = model->info.vocab_size;
    if (n == 0 || first >= n)
        return fx_fail_param(err, FORNAX_EARG, "ids", "ids: expected more than %zu, found %zu", first, n);
    if (n > (size_t)model->info.max_context)
        return fx_fail_param(err, FORNAX_EARG, "context_length", "%zu tokens, but the context holds %lld", n,
                             (long long)model->info.max_context);
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= vocab)
            return fx_fail_param(err, FORNAX_EARG, "ids", "ids[%zu]: expected an id below %lld, found %d", i,
                                 (long long)vocab, ids[i]);
    }
    st = eval_open(&v, model, n, err);
    v.adapter = adapter;
    for (size_t at = 0; st == FORNAX_OK && at < n;) {
        size_t rows = eval_rows(at, n, first);
        fx_step step;

        eval_step(&v, ids, at, rows, first, &step);
        for (int32_t i = 0; st == FORNAX_OK && i < step.n_logits; i++) {
            if (each(user, (int64_t)at + v.logit_rows[i], fx_exec_logits(v.exec, i), vocab) != 0)
                st = fx_fail(err, FORNAX_ECANCEL, "the evaluation was cancelled");
        }
        at += rows;
    }
    eval_close(&v);
    return st;
}

fornax_status fornax_model_evaluate(fornax_model *model, const int32_t *ids, size_t n, size_t first,
                                    fornax_logits_fn each, void *user, fornax_error *err)
{
    return fx_api_evaluate(model, NULL, ids, n, first, each, user, err);
}
