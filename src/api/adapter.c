/* adapter.c - fornax_adapter: an adapter's pairs found for the program's matrices.
 *
 * The program asks, matrix by matrix of the model's file; each entry of the adapter that is for the
 * same place gives its A and its B, with B's rows in the order that the model's file has.  An entry that
 * nothing asked for is an error: it would change the computation. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "api/adapter_file.h"
#include "base/file.h"
#include "base/text.h"

typedef struct finder {
    fx_lora_file *file;
    fx_arena scratch;            /* of one answer */
    fx_arena whole[2];           /* A and B of the entry at hand, as f32 */
    float *plain[2];
    const fx_weight *plain_of[2];
    double scale;                /* the caller's */
} finder;

/* ---- For readers ---- */

fx_status fx_lora_fault(const fx_lora_file *f, fx_str name, fx_status st, fx_error *err, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    fx_vformat(text, sizeof text, fmt, ap);
    va_end(ap);
    return fx_fail_param(err, st, "adapter", "%s: %s: %s", f->path, FX_SHOW(name), text);
}

fx_lora_entry *fx_lora_entry_of(fx_lora_file *f, fx_str name)
{
    uint64_t i = f->n;

    if (!f->entries) {
        f->entries = FX_ARENA_NEWN(&f->arena, fx_lora_entry, fx_weights_count(f->w) + 1);
        fx_map_init(&f->pairs, &f->model->ctx->mem);
    }
    if (!f->entries)
        return NULL;
    if (!fx_map_get(&f->pairs, name, &i)) {
        if (!fx_map_put(&f->pairs, name, i))
            return NULL;
        f->entries[f->n++] = (fx_lora_entry){ .name = name };
    }
    return &f->entries[i];
}

fx_status fx_lora_check_pair(const fx_lora_file *f, const fx_lora_entry *e, int axes, fx_error *err)
{
    const fx_weight *both[] = { e->a.of, e->b.of };

    if (!both[0] || !both[1])
        return fx_lora_fault(f, e->name, FORNAX_EFORMAT, err, "A and B must both be there");
    for (int i = 0; i < 2; i++) {
        if (both[i]->rank != axes)
            return fx_lora_fault(f, both[i]->name, FORNAX_EFORMAT, err, "expected %d axes, found %d", axes, both[i]->rank);
        if (!fx_dequantize_supports(both[i]->dtype))
            return fx_lora_fault(f, both[i]->name, FORNAX_EUNSUP, err, "matrices of type %s aren't supported",
                                 fx_dtype_name(both[i]->dtype));
    }
    return FORNAX_OK;
}

/* ---- Finding ---- */

static bool is_gguf(const fx_lora_file *f) { return fx_weights_kind_of(f->model->weights) == FX_WEIGHTS_GGUF; }

/* By layer, so that an ask looks at its layer's only; then by name: an order that the file's doesn't change. */
static int by_layer(const void *a, const void *b)
{
    const fx_lora_entry *x = a, *y = b;
    int c;

    if (x->place.layer != y->place.layer)
        return x->place.layer < y->place.layer ? -1 : 1;
    c = memcmp(x->name.p, y->name.p, FX_MIN(x->name.n, y->name.n));
    return c ? c : (x->name.n > y->name.n) - (x->name.n < y->name.n);
}

static size_t first_of(const fx_lora_file *f, int64_t layer)
{
    size_t low = 0, high = f->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (f->entries[mid].place.layer < layer)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The place that a matrix of the program has. */
static fx_place place_of(const fx_lora_file *f, const fx_adapter_ask *ask)
{
    fx_place p = fx_place_of(&f->places, ask->tensor, is_gguf(f));

    if (!ask->table && p.role && strcmp(p.role, "token_embd") == 0) {   /* logits from the table: the adapter of the output */
        p.role = "output";
        p.name = FX_STR("");
    }
    return p;
}

/* Adapters of these do nothing: the pooler of encoders isn't run here (vectors are made otherwise), and the hub's classes read the
 * weights of Mamba's dt_proj past what PEFT puts around it. */
static bool is_idle(const fx_lora_file *f, const fx_lora_entry *e)
{
    return f->model->arch ? !e->place.gguf && e->place.role && strcmp(e->place.role, "ssm_dt") == 0
                          : fx_str_is(e->place.name, "pooler.dense");
}

static bool is_for(const fx_lora_file *f, const fx_adapter_ask *ask, const fx_place *p, const fx_lora_entry *e,
                   fx_place_link *link)
{
    int64_t expert = p->expert >= 0 ? p->expert : ask->expert;

    return ask->table == (e->form == FX_LORA_TABLE) && !is_idle(f, e) && (e->place.expert < 0 || e->place.expert == expert) &&
           fx_place_link_of(&f->places, p, (fx_half)ask->half, &e->place, link);
}

/* A whole matrix as f32, kept until another is wanted: the experts of a stack come one after another. */
static const float *plain(finder *x, int which, const fx_weight *t)
{
    float **at = &x->plain[which];
    fx_arena *arena = &x->whole[which];

    if (x->plain_of[which] == t)
        return *at;
    x->plain_of[which] = NULL;
    fx_arena_reset(arena);
    *at = fx_arena_array(arena, (size_t)t->n_elems, sizeof **at);
    if (!*at)
        return NULL;
    fx_dequantize_row(t->dtype, t->data, *at, t->n_elems);
    x->plain_of[which] = t;
    return *at;
}

/* Rows of a view, each of 'cols' numbers; map NULL: in order. NULL: no memory. */
static float *gather(finder *x, int which, const fx_lora_view *v, int64_t expert, int64_t rows, int64_t cols,
                     const fx_place_link *map)
{
    const float *all = plain(x, which, v->of);
    float *out = fx_arena_array(&x->scratch, (size_t)(rows * cols), sizeof *out);

    for (int64_t r = 0; all && out && r < rows; r++) {
        int64_t from = expert * v->each + (map ? fx_place_row(&x->file->places, map, r) : r) * v->rows;

        for (int64_t c = 0; c < cols; c++)
            out[r * cols + c] = all[from + c * v->cols];
    }
    return all ? out : NULL;
}

/* Rows that the asked matrix has. */
static int64_t rows_asked(const fx_lora_file *f, const fx_adapter_ask *ask)
{
    const fx_weight *t = fx_weights_find(f->model->weights, ask->tensor);

    return ask->n ? ask->n : t && t->rank == 2 ? t->shape[ask->transposed ? 1 : 0] : t ? 1 : 0;
}

static fx_status check_shape(const finder *x, const fx_adapter_ask *ask, const fx_place *p, const fx_lora_entry *e,
                             int64_t n, fx_error *err)
{
    bool both = e->place.part == FX_PART_GATE_UP && (ask->half || p->part != FX_PART_GATE_UP);
    int64_t rows = both ? 2 * n : n;

    if (ask->table && (e->k != ask->k || e->n != n))
        return fx_lora_fault(x->file, e->name, FORNAX_EFORMAT, err, "expected a table of %lld rows of %lld, as %.*s is, found %lld of %lld",
                             (long long)n, (long long)ask->k, FX_STR_ARG(ask->tensor), (long long)e->n, (long long)e->k);
    if (e->k != ask->k)
        return fx_lora_fault(x->file, e->a.of->name, FORNAX_EFORMAT, err, "expected %lld columns, as %.*s has, found %lld",
                             (long long)ask->k, FX_STR_ARG(ask->tensor), (long long)e->k);
    if (e->n != rows)
        return fx_lora_fault(x->file, e->b.of->name, FORNAX_EFORMAT, err, "expected %lld rows, as %.*s has, found %lld",
                             (long long)rows, FX_STR_ARG(ask->tensor), (long long)e->n);
    return FORNAX_OK;
}

static fx_status answer(finder *x, const fx_adapter_ask *ask, const fx_place *p, fx_lora_entry *e, const fx_place_link *link,
                        fx_adapter_pair *out, fx_error *err)
{
    int64_t n = rows_asked(x->file, ask), expert = p->expert >= 0 ? p->expert : ask->expert;
    double scale = e->scale * x->scale;

    if (out->rank)
        return fx_lora_fault(x->file, e->name, FORNAX_EFORMAT, err, "%.*s is changed twice", FX_STR_ARG(ask->tensor));
    FX_TRY(check_shape(x, ask, p, e, n, err));
    if (e->form != FX_LORA_STACK)
        expert = 0;
    if (expert < 0 || expert >= e->experts)
        return fx_lora_fault(x->file, e->name, FORNAX_EFORMAT, err, "expected expert %lld, found %lld experts", (long long)expert,
                             (long long)e->experts);
    if (!(fabs(scale) <= 3.4e38))
        return fx_lora_fault(x->file, e->name, FORNAX_EFORMAT, err, "alpha: a scale of %g is too large", scale);
    out->a = gather(x, 0, &e->a, expert, e->rank, ask->table ? n : e->k, NULL);
    out->b = gather(x, 1, &e->b, expert, ask->table ? e->k : n, e->rank, ask->table ? NULL : link);
    if (!out->a || !out->b)
        return fx_nomem(err, "an adapter");
    out->rank = e->rank;
    out->n = n;
    out->scale = (float)scale;
    e->used = true;
    return FORNAX_OK;
}

static fx_status find_pair(void *user, const fx_adapter_ask *ask, fx_adapter_pair *out, fx_error *err)
{
    finder *x = user;
    fx_lora_file *f = x->file;
    fx_place p = place_of(f, ask);
    fx_place_link link;

    fx_arena_reset(&x->scratch);
    for (size_t i = first_of(f, p.layer); i < f->n && f->entries[i].place.layer == p.layer; i++) {
        if (is_for(f, ask, &p, &f->entries[i], &link))
            FX_TRY(answer(x, ask, &p, &f->entries[i], &link, out, err));
    }
    return FORNAX_OK;
}

static int64_t base_rows(void *user, fx_str tensor)
{
    const fx_weight *t = fx_weights_find(((finder *)user)->file->model->weights, tensor);

    return t && t->rank > 1 ? t->shape[0] : 0;
}

/* ---- The whole ---- */

static void mix(fx_hash128 *h, const void *p, size_t n)
{
    struct { fx_hash128 before, now; } part = { *h, fx_hash128_of(p, n, 2) };

    *h = fx_hash128_of(&part, sizeof part, 3);
}

/* Everything was used; what the adapter computes becomes its identity. */
static fx_status conclude(const finder *x, fx_hash128 *identity, fx_error *err)
{
    const fx_lora_file *f = x->file;

    *identity = (fx_hash128){ 0 };
    for (size_t i = 0; i < f->n; i++) {
        const fx_lora_entry *e = &f->entries[i];
        const fx_weight *pair[] = { e->a.of, e->b.of };
        const double numbers[] = { (double)e->rank, e->scale, x->scale, (double)e->form, (double)e->a.rows };

        if (!e->used && !is_idle(f, e))
            return fx_lora_fault(f, e->name, FORNAX_EUNSUP, err, "the model has no such matrix that an adapter can change");
        mix(identity, e->name.p, e->name.n);
        mix(identity, numbers, sizeof numbers);
        for (int k = 0; k < 2; k++) {
            mix(identity, &pair[k]->dtype, sizeof pair[k]->dtype);
            mix(identity, pair[k]->data, pair[k]->bytes);
        }
    }
    return FORNAX_OK;
}

static fx_status load(finder *x, const char *path, fx_adapter **out, fx_hash128 *identity, fx_error *err)
{
    const fx_adapter_source source = { find_pair, base_rows, x };
    fx_lora_file *f = x->file;
    fx_status st;

    FX_TRY(fx_path_is_dir(path) || !fx_path_exists(path) ? fx_lora_read_peft(f, path, err) : fx_lora_read_gguf(f, path, err));
    if (f->n == 0)
        return fx_fail(err, FORNAX_EFORMAT, "%s: no matrices in it", f->path);
    qsort(f->entries, f->n, sizeof *f->entries, by_layer);
    FX_TRY(fx_adapter_new(out, f->model->program, &source, err));
    st = conclude(x, identity, err);
    if (st != FORNAX_OK) {
        fx_adapter_free(*out);
        *out = NULL;
    }
    return st;
}

/* Reads the files and lets them go. */
static fx_status open_files(fornax_adapter *a, const char *path, double scale, fx_error *err)
{
    fornax_model *m = a->model;
    fx_lora_file f = { .model = m, .path = path, .places = { m->arch, m->weights, &m->params } };
    finder x = { .file = &f, .scale = scale != 0 ? scale : 1 };
    fx_fpmode old = fx_fpmode_enter();
    fx_status st;

    fx_arena_init(&f.arena, &m->ctx->mem, 1 << 18);
    fx_arena_init(&x.scratch, &m->ctx->mem, 1 << 18);
    for (int i = 0; i < 2; i++)
        fx_arena_init(&x.whole[i], &m->ctx->mem, 1 << 18);
    st = load(&x, path, &a->adapter, &a->identity, err);
    if (f.entries)
        fx_map_done(&f.pairs);
    for (int i = 0; i < 2; i++)
        fx_arena_done(&x.whole[i]);
    fx_arena_done(&x.scratch);
    fx_arena_done(&f.arena);
    fx_weights_close(f.w);
    fx_fpmode_leave(old);
    return st;
}

fornax_status fornax_adapter_open(fornax_adapter **out, fornax_model *model, const char *path,
                                  const fornax_adapter_options *opt, fornax_error *err)
{
    fornax_adapter_options o = FORNAX_OPTIONS(fornax_adapter_options);
    fornax_adapter *a;
    fx_status st;

    FX_API_NEED(out);
    *out = NULL;
    FX_API_NEED(model);
    FX_API_NEED(path);
    FX_TRY(fx_api_usable(model->ctx, err));
    FX_TRY(fx_api_options(&o, sizeof o, opt, "fornax_adapter_options", err));
    if (!isfinite(o.scale))
        return fx_fail_param(err, FORNAX_EARG, "scale", "scale: expected a finite number, found %g", o.scale);
    a = fx_mem_zalloc(&model->ctx->mem, sizeof *a);
    if (!a)
        return fx_nomem(err, "an adapter");
    a->model = model;
    atomic_init(&a->refs, 1);
    st = open_files(a, path, o.scale, err);
    if (st == FORNAX_OK)
        *out = a;
    else
        fx_mem_free(&model->ctx->mem, a, sizeof *a);
    return st;
}

void fx_api_adapter_drop(void *adapter)
{
    fornax_adapter *a = adapter;

    if (atomic_fetch_sub(&a->refs, 1) > 1)
        return;
    fx_adapter_free(a->adapter);
    fx_mem_free(&a->model->ctx->mem, a, sizeof *a);
}

void fornax_adapter_close(fornax_adapter *adapter)
{
    if (adapter)
        fx_api_adapter_drop(adapter);
}

fornax_status fornax_adapter_evaluate(fornax_adapter *adapter, const int32_t *ids, size_t n, size_t first,
                                      fornax_logits_fn each, void *user, fornax_error *err)
{
    FX_API_NEED(adapter);
    return fx_api_evaluate(adapter->model, adapter->adapter, ids, n, first, each, user, err);
}
