/* embed.c - fornax_embed: texts become ids, steps of several texts run, rows are pooled as they come.
 *
 * A text's rows are in one step, or, where rows only look back, in several.  Kernels keep
 * rows apart (the reduction contract) and sums know only their own text, so a vector's bits
 * are the same whatever else was asked for. Between steps the caller may call it off. */
#include "api/embed.h"

#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/text.h"
#include "text/runes.h"

enum { STEP_ROWS = 512, STEP_TEXTS = 64 };

struct fornax_embeddings {
    const fx_mem *mem;
    size_t n;
    int64_t dim;
    float *rows;                 /* [n][dim] */
    size_t *tokens, *cut;        /* [n] */
};

typedef struct job {
    fornax_model *m;
    fornax_embed_options o;
    const fx_mem *mem;
    fornax_embeddings *out;
    fx_ids ids;                  /* of all texts, one after another */
    size_t *begin;               /* [n + 1] */
    size_t limit;                /* tokens of a text at most */
    /* One step. */
    fx_exec *exec;
    const fx_adapter *adapter;   /* or NULL */
    size_t max_rows;
    int32_t *pos, *seq, *wanted; /* [max_rows] each */
    fx_page *pages;              /* [n_pages] */
    size_t n_pages, n_texts;     /* of a step at most */
    uint8_t *kv;
    uint8_t *slots;              /* [n_texts][slot_bytes], recurrent state; NULL: the model has none */
    fx_step_seq *seqs;           /* [STEP_TEXTS] */
    fx_pool_sums *sums;          /* [STEP_TEXTS] */
    double *room, *work;
    float *vector;
    size_t n_run;                /* tokens done */
    fx_error *err;
} job;

/* Before work that takes a while: whether the caller still wants it. */
static fx_status go_on(const job *j, double fraction)
{
    if (!j->o.progress || j->o.progress(j->o.progress_user, fraction) == 0)
        return FORNAX_OK;
    return fx_fail(j->err, FORNAX_ECANCEL, "the embedding was cancelled");
}

/* ---- Texts to ids ------------------------------------------------------------------------ */

static bool lower_case(fx_buf *out, fx_str s)
{
    for (size_t i = 0; i < s.n;) {
        size_t begin = i;
        uint32_t r = fx_utf8_next(s, &i), low[2];
        int n = r == FX_BAD_RUNE ? 0 : fx_rune_lower(r, low);
        char b[4];

        if (n == 0)
            fx_buf_add(out, s.p + begin, i - begin);
        for (int k = 0; k < n; k++)
            fx_buf_add(out, b, fx_utf8_put(b, low[k]));
    }
    return !out->failed;
}

/* Models that take their vector from the last token are trained with an end token there; some
 * tokenizers of Qwen3's leave adding it to the caller. */
static fx_status end_token(job *j, size_t begin)
{
    const fx_tokenizer *t = j->m->tok->t;
    int32_t id = fx_tokenizer_find(t, FX_STR("<|endoftext|>"));

    if (j->m->embedder.pooling != 1u << FX_POOL_LAST || strcmp(j->m->info.architecture, "qwen3") != 0 || id < 0 ||
        !fx_tokenizer_special(t, id) || (j->ids.n > begin && fx_tokenizer_special(t, j->ids.at[j->ids.n - 1])))
        return FORNAX_OK;
    return fx_ids_push(&j->ids, id) ? FORNAX_OK : fx_nomem(j->err, "token ids");
}

static fx_status take_text(job *j, fx_str text)
{
    const fx_embedder *e = &j->m->embedder;
    size_t begin = j->ids.n;
    fx_buf b;
    fx_status st = FORNAX_OK;

    fx_buf_init(&b, j->mem);
    fx_buf_str(&b, e->prompt);
    if (e->lower ? !lower_case(&b, text) : (fx_buf_str(&b, text), b.failed))
        st = fx_nomem(j->err, "a text");
    if (st == FORNAX_OK)
        st = fx_tokenizer_encode(j->m->tok->t, fx_buf_view(&b), NULL, 0, FX_ENCODE_SPECIAL | FX_ENCODE_ADD, &j->ids, j->err);
    fx_buf_done(&b);
    return st == FORNAX_OK ? end_token(j, begin) : st;
}

static fx_status take_ids(job *j, size_t i, const fornax_embed_input *in)
{
    if (in->n_ids > 0)
        FX_TRY(fx_api_need(in->ids, "ids", j->err));
    for (size_t k = 0; k < in->n_ids; k++) {
        if (in->ids[k] < 0 || in->ids[k] >= j->m->info.vocab_size)
            return fx_fail_param(j->err, FORNAX_EARG, "input", "input[%zu]: ids[%zu]: expected an id below %lld, found %d", i, k,
                                 (long long)j->m->info.vocab_size, in->ids[k]);
        if (!fx_ids_push(&j->ids, in->ids[k]))
            return fx_nomem(j->err, "token ids");
    }
    return FORNAX_OK;
}

/* Cuts the text that begins at 'begin' to the limit; of its own tokens, those at the end that the
 * tokenizer put there stay. */
static fx_status fit(job *j, size_t i, size_t begin, bool own)
{
    const fx_tokenizer *t = j->m->tok->t;
    size_t n = j->ids.n - begin, keep = 0;

    if (n == 0)
        return fx_fail_param(j->err, FORNAX_EARG, "input", "input[%zu]: expected at least one token, found none", i);
    if (n <= j->limit)
        return FORNAX_OK;
    if (!j->o.truncate)
        return fx_fail_param(j->err, FORNAX_EARG, "context_length", "input[%zu]: %zu tokens, but the model takes %zu", i, n, j->limit);
    while (own && keep < n && keep + 1 < j->limit && fx_tokenizer_special(t, j->ids.at[j->ids.n - 1 - keep]))
        keep++;
    memmove(j->ids.at + begin + j->limit - keep, j->ids.at + j->ids.n - keep, keep * sizeof(*j->ids.at));
    j->ids.n = begin + j->limit;
    j->out->cut[i] = n - j->limit;
    return FORNAX_OK;
}

static fx_status take_inputs(job *j, const fornax_embed_input *in)
{
    for (size_t i = 0; i < j->out->n; i++) {
        fx_str text = { in[i].text, in[i].text && in[i].n == SIZE_MAX ? strlen(in[i].text) : in[i].n };

        FX_TRY(go_on(j, 0));
        j->begin[i] = j->ids.n;
        if (!in[i].ids && !in[i].text)
            return fx_fail_param(j->err, FORNAX_EARG, "input", "input[%zu]: expected a text or ids", i);
        if (!in[i].ids && !j->m->tok->t)
            return fx_fail(j->err, FORNAX_ENOTFOUND, "the model has no tokenizer; give ids");
        FX_TRY(in[i].ids ? take_ids(j, i, &in[i]) : take_text(j, text));
        FX_TRY(fit(j, i, j->begin[i], !in[i].ids));
        j->out->tokens[i] = j->ids.n - j->begin[i];
    }
    j->begin[j->out->n] = j->ids.n;
    return FORNAX_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static size_t length(const job *j, size_t i) { return j->begin[i + 1] - j->begin[i]; }

/* Texts [i, result) go into one step. */
static size_t batch_end(const job *j, size_t i)
{
    size_t rows = length(j, i), end = i + 1;

    while (end < j->out->n && end - i < STEP_TEXTS && rows + length(j, end) <= STEP_ROWS)
        rows += length(j, end++);
    return end;
}

/* Executors hold a step's activations: a model keeps one for the next call, if it has the usual size. */
static fx_status take_exec(job *j)
{
    fx_exec *spare = j->max_rows == STEP_ROWS ? atomic_exchange(&j->m->spare_exec, NULL) : NULL;

    j->exec = spare;
    return spare ? FORNAX_OK
                 : fx_exec_new(&j->exec, j->m->program, j->m->ctx->pool, (int64_t)j->max_rows, (int64_t)j->max_rows, j->err);
}

static void give_exec(job *j)
{
    fx_exec *none = NULL;

    if (j->max_rows != STEP_ROWS || !atomic_compare_exchange_strong(&j->m->spare_exec, &none, j->exec))
        fx_exec_free(j->exec);
}

static fx_status make_room(job *j)
{
    const fx_state_table *s = fx_program_state(j->m->program);
    size_t dim = (size_t)j->m->info.embedding_dim, page = (size_t)s->page_tokens;

    j->max_rows = STEP_ROWS;
    for (size_t i = 0, end; i < j->out->n; i = end) {
        size_t pages = 0, rows = 0;

        end = batch_end(j, i);
        for (size_t k = i; k < end; k++) {
            pages += FX_DIV_UP(length(j, k), page) * (size_t)s->n_columns;
            rows += length(j, k);
        }
        j->n_pages = FX_MAX(j->n_pages, pages);
        j->n_texts = FX_MAX(j->n_texts, end - i);
        if (j->m->both_ways)
            j->max_rows = FX_MAX(j->max_rows, rows);
    }
    j->pos = fx_mem_array(j->mem, 3 * j->max_rows, sizeof(*j->pos));
    j->pages = fx_mem_array(j->mem, j->n_pages, sizeof(*j->pages));
    j->seqs = fx_mem_array(j->mem, STEP_TEXTS, sizeof(*j->seqs));
    j->sums = fx_mem_array(j->mem, STEP_TEXTS, sizeof(*j->sums));
    j->room = fx_mem_array(j->mem, STEP_TEXTS * fx_pool_sums_doubles((int64_t)dim), sizeof(*j->room));
    j->work = fx_mem_array(j->mem, 2 * (size_t)fx_embedder_widest(&j->m->embedder, (int64_t)dim), sizeof(*j->work));
    j->vector = fx_mem_array(j->mem, (size_t)j->m->embedder.dim, sizeof(*j->vector));
    j->kv = fx_pages_alloc(FX_MAX(j->n_pages * s->page_bytes, (size_t)64));
    if (s->slot_bytes && !(j->slots = fx_pages_alloc(j->n_texts * s->slot_bytes)))
        return fx_nomem(j->err, "an embedding");
    if (!j->pos || !j->pages || !j->seqs || !j->sums || !j->room || !j->work || !j->vector || !j->kv)
        return fx_nomem(j->err, "an embedding");
    j->seq = j->pos + j->max_rows;
    j->wanted = j->seq + j->max_rows;
    for (size_t i = 0; i < j->n_pages; i++)
        j->pages[i] = (fx_page)i;
    return take_exec(j);
}

static void free_room(job *j)
{
    const fx_state_table *s = fx_program_state(j->m->program);
    size_t dim = (size_t)j->m->info.embedding_dim;

    give_exec(j);
    fx_pages_free(j->kv, FX_MAX(j->n_pages * s->page_bytes, (size_t)64));
    fx_pages_free(j->slots, j->n_texts * s->slot_bytes);
    fx_mem_free(j->mem, j->pos, 3 * j->max_rows * sizeof(*j->pos));
    fx_mem_free(j->mem, j->pages, j->n_pages * sizeof(*j->pages));
    fx_mem_free(j->mem, j->seqs, STEP_TEXTS * sizeof(*j->seqs));
    fx_mem_free(j->mem, j->sums, STEP_TEXTS * sizeof(*j->sums));
    fx_mem_free(j->mem, j->room, STEP_TEXTS * fx_pool_sums_doubles((int64_t)dim) * sizeof(*j->room));
    fx_mem_free(j->mem, j->work, 2 * (size_t)fx_embedder_widest(&j->m->embedder, (int64_t)dim) * sizeof(*j->work));
    fx_mem_free(j->mem, j->vector, (size_t)j->m->embedder.dim * sizeof(*j->vector));
    fx_mem_free(j->mem, j->begin, (j->out->n + 1) * sizeof(*j->begin));
    fx_ids_done(&j->ids);
}

/* Whether pooling reads row k of n. */
static bool is_wanted(const job *j, size_t k, size_t n)
{
    unsigned p = j->m->embedder.pooling, ends = 1u << FX_POOL_CLS | 1u << FX_POOL_LAST;

    return p & ~ends || ((p & 1u << FX_POOL_CLS) && k == 0) || ((p & 1u << FX_POOL_LAST) && k + 1 == n);
}

/* Rows [at, at + n) of text i behind the step's rows. */
static void add_rows(job *j, fx_step *s, size_t i, size_t at, size_t n, const fx_page *pages)
{
    const fx_state_table *state = fx_program_state(j->m->program);

    j->seqs[s->n_seqs] = (fx_step_seq){ .row0 = s->n_rows, .n_rows = (int32_t)n, .pos0 = (int32_t)at, .pages = pages,
                                        .adapter = j->adapter ? 0 : -1,
                                        .slot = j->slots ? j->slots + (size_t)s->n_seqs * state->slot_bytes : NULL,
                                        .length_class = fx_state_length_class(state, (int64_t)length(j, i)) };
    for (size_t k = 0; k < n; k++, s->n_rows++) {
        j->pos[s->n_rows] = (int32_t)(at + k);
        j->seq[s->n_rows] = s->n_seqs;
        if (is_wanted(j, at + k, length(j, i)))
            j->wanted[s->n_logits++] = s->n_rows;
    }
    s->n_seqs++;
}

static fx_step new_step(const job *j, size_t first_id)
{
    const fx_state_table *s = fx_program_state(j->m->program);

    return (fx_step){ .token = j->ids.at + first_id, .pos = j->pos, .seq = j->seq, .seqs = j->seqs, .logit_rows = j->wanted,
                      .kv = j->kv, .page_bytes = s->page_bytes, .page_tokens = s->page_tokens,
                      .n_columns = s->n_columns, .adapters = j->adapter ? &j->adapter : NULL };
}

static fx_status run_step(job *j, const fx_step *s)
{
    FX_TRY(go_on(j, (double)j->n_run / (double)j->ids.n));
    fx_exec_run(j->exec, s);
    j->n_run += (size_t)s->n_rows;
    for (int32_t i = 0; i < s->n_logits; i++)
        fx_pool_row(&j->sums[j->seq[j->wanted[i]]], fx_exec_logits(j->exec, i), j->m->info.embedding_dim);
    return FORNAX_OK;
}

/* Texts [i, end), or one long text in pieces. */
static fx_status run_batch(job *j, size_t i, size_t end)
{
    const fx_state_table *state = fx_program_state(j->m->program);
    const size_t page = (size_t)state->page_tokens;
    size_t next_page = 0, at = 0, n;
    int64_t dim = j->m->info.embedding_dim;
    fx_step s = new_step(j, j->begin[i]);

    if (j->slots)
        memset(j->slots, 0, (end - i) * state->slot_bytes);
    for (size_t k = i; k < end; k++)
        fx_pool_begin(&j->sums[k - i], j->room + (k - i) * fx_pool_sums_doubles(dim), dim);
    if (length(j, i) > j->max_rows) {
        for (; at < length(j, i); at += n) {
            n = FX_MIN(length(j, i) - at, j->max_rows);
            s = new_step(j, j->begin[i] + at);
            add_rows(j, &s, i, at, n, j->pages);
            FX_TRY(run_step(j, &s));
        }
        return FORNAX_OK;
    }
    for (size_t k = i; k < end; k++) {
        add_rows(j, &s, k, 0, length(j, k), j->pages + next_page);
        next_page += FX_DIV_UP(length(j, k), page) * (size_t)state->n_columns;
    }
    return run_step(j, &s);
}

/* ---- Vectors ------------------------------------------------------------------------------------ */

static void store_vector(job *j, size_t i, const fx_pool_sums *sums)
{
    float *row = j->out->rows + (int64_t)i * j->out->dim;
    double square = 0, scale;

    fx_embedder_finish(&j->m->embedder, sums, j->m->info.embedding_dim, j->vector, j->work);
    for (int64_t k = 0; k < j->out->dim; k++)
        square += (double)j->vector[k] * (double)j->vector[k];
    scale = j->o.no_normalize ? 1 : 1 / fmax(sqrt(square), 1e-12);
    for (int64_t k = 0; k < j->out->dim; k++)
        row[k] = (float)((double)j->vector[k] * scale);
}

static fx_status run_all(job *j, const fornax_embed_input *in)
{
    FX_TRY(take_inputs(j, in));
    FX_TRY(make_room(j));
    for (size_t i = 0, end; i < j->out->n; i = end) {
        end = batch_end(j, i);
        FX_TRY(run_batch(j, i, end));
        for (size_t k = i; k < end; k++)
            store_vector(j, k, &j->sums[k - i]);
    }
    return FORNAX_OK;
}

static fx_status new_result(job *j, size_t n)
{
    fornax_embeddings *e = fx_mem_zalloc(j->mem, sizeof(*e));

    if (!e)
        return fx_nomem(j->err, "embeddings");
    j->out = e;
    *e = (fornax_embeddings){ .mem = j->mem, .n = n, .dim = j->o.dimensions ? j->o.dimensions : j->m->embedder.dim };
    e->rows = fx_mem_array(j->mem, n * (size_t)e->dim, sizeof(*e->rows));
    e->tokens = fx_mem_array(j->mem, n, sizeof(*e->tokens));
    e->cut = fx_mem_array(j->mem, n, sizeof(*e->cut));
    j->begin = fx_mem_array(j->mem, n + 1, sizeof(*j->begin));
    return e->rows && e->tokens && e->cut && j->begin ? FORNAX_OK : fx_nomem(j->err, "embeddings");
}

/* Models that list the lengths that are good for something take no others. */
static bool has_dimensions(const fx_embedder *e, int64_t n)
{
    bool found = e->n_dims == 0 || n == e->dim;

    for (size_t i = 0; i < e->n_dims && !found; i++)
        found = e->dims[i] == n;
    return found;
}

static fx_status check(const fornax_model *m, const fornax_embed_options *o, size_t n, fx_error *err)
{
    if (!m->hidden)
        return fx_fail(err, FORNAX_EUNSUP, "%s: opened for generation; set 'embeddings' when opening it", m->info.name);
    if (o->dimensions < 0 || o->dimensions > m->embedder.dim)
        return fx_fail_param(err, FORNAX_EARG, "dimensions", "dimensions: expected 1 to %lld, found %lld",
                             (long long)m->embedder.dim, (long long)o->dimensions);
    if (o->adapter && o->adapter->model != m)
        return fx_fail_param(err, FORNAX_EARG, "adapter", "adapter: it belongs to another model");
    if (o->dimensions && !has_dimensions(&m->embedder, o->dimensions))
        return fx_fail_param(err, FORNAX_EARG, "dimensions", "dimensions: %lld isn't among those that the model is made for",
                             (long long)o->dimensions);
    if (n == 0 || n > 1 << 24)
        return fx_fail_param(err, FORNAX_EARG, "input", "input: expected 1 to %d texts, found %zu", 1 << 24, n);
    return FORNAX_OK;
}

fornax_status fornax_embed(fornax_embeddings **out, fornax_model *model, const fornax_embed_input *inputs, size_t n,
                           const fornax_embed_options *opt, fornax_error *err)
{
    job j = { .m = model, .o = FORNAX_OPTIONS(fornax_embed_options), .err = err };
    fx_fpmode old;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(model);
    FX_API_NEED(inputs);
    FX_TRY(fx_api_usable(model->ctx, err));
    j.mem = &model->ctx->mem;
    FX_TRY(fx_api_options(&j.o, sizeof(j.o), opt, "fornax_embed_options", err));
    FX_TRY(check(model, &j.o, n, err));
    j.adapter = j.o.adapter ? j.o.adapter->adapter : NULL;
    fx_ids_init(&j.ids, j.mem);
    j.limit = (size_t)model->info.max_context;
    if (model->embedder.max_tokens && (size_t)model->embedder.max_tokens < j.limit)
        j.limit = (size_t)model->embedder.max_tokens;
    old = fx_fpmode_enter();
    st = new_result(&j, n);
    if (st == FORNAX_OK)
        st = run_all(&j, inputs);
    fx_fpmode_leave(old);
    if (j.out)
        free_room(&j);
    if (st != FORNAX_OK)
        fornax_embeddings_close(j.out);
    else
        *out = j.out;
    return st;
}

const float *fornax_embeddings_row(const fornax_embeddings *e, size_t i) { return i < e->n ? e->rows + (int64_t)i * e->dim : NULL; }
int64_t fornax_embeddings_dim(const fornax_embeddings *e) { return e->dim; }
size_t fornax_embeddings_count(const fornax_embeddings *e) { return e->n; }
size_t fornax_embeddings_tokens(const fornax_embeddings *e, size_t i) { return i < e->n ? e->tokens[i] : 0; }
size_t fornax_embeddings_cut(const fornax_embeddings *e, size_t i) { return i < e->n ? e->cut[i] : 0; }

void fornax_embeddings_close(fornax_embeddings *e)
{
    if (!e)
        return;
    fx_mem_free(e->mem, e->rows, e->n * (size_t)e->dim * sizeof(*e->rows));
    fx_mem_free(e->mem, e->tokens, e->n * sizeof(*e->tokens));
    fx_mem_free(e->mem, e->cut, e->n * sizeof(*e->cut));
    fx_mem_free(e->mem, e, sizeof(*e));
}
