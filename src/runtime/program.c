/* program.c - binds a plan's weights: views, converted vectors, packed tiles.
 *
 * First each weight is laid out: its form, its kernel and its place among the bytes that
 * the program owns. Then these are found, as an earlier start packed them (recipe.c says when they are
 * the same), or filled.
 *
 * A row of a product's weight goes: file row -> (dequantized to f32 -> rounded to
 * the held dtype, where that differs) -> kernel's tile of 16 rows.  Tiles are
 * independent, so packing runs on the pool, a weight at a time; the source pages of
 * a weight are released when it is done, which keeps the peak near one copy. */
#include "runtime/program_int.h"

#include <string.h>

#include "base/fpmode.h"
#include "tensor/blocks.h"

#define SLAB_BYTES ((size_t)16 << 20)    /* packed, until the source's pages are let go */

fx_status fx_program_new(fx_program **out, const fx_mem *mem, fx_error *err)
{
    fx_program *p = fx_mem_zalloc(mem, sizeof *p);

    *out = p;
    if (!p)
        return fx_nomem(err, "a program");
    p->mem = mem;
    fx_arena_init(&p->arena, mem, 0);
    return FORNAX_OK;
}

fx_arena *fx_program_arena(fx_program *p) { return &p->arena; }
const fx_state_table *fx_program_state(const fx_program *p) { return &p->state; }
int64_t fx_program_vocab(const fx_program *p) { return p->plan->vocab; }
void fx_program_allow_adapters(fx_program *p) { p->adapters = true; }
size_t fx_program_weight_bytes(const fx_program *p) { return p->owned_bytes; }
bool fx_program_found_weights(const fx_program *p) { return p->owned && !p->pages; }

void fx_program_set_calls(fx_program *p, const fx_plan_calls *calls) { p->calls = calls; }
const fx_plan_calls *fx_program_calls(const fx_program *p) { return p->calls; }
const fx_plan *fx_program_plan(const fx_program *p) { return p->plan; }
fx_dtype fx_program_weight_dtype(const fx_program *p, int32_t weight) { return p->weights[weight].dtype; }

void fx_program_give_code(fx_program *p, const fx_kcode *code)
{
    atomic_store_explicit(&p->code, code, memory_order_release);
}

bool fx_program_has_code(const fx_program *p) { return atomic_load_explicit(&p->code, memory_order_acquire) != NULL; }

void fx_program_on_free(fx_program *p, void (*fn)(void *user), void *user)
{
    p->on_free = fn;
    p->on_free_user = user;
}

static void add_work(const fx_program *p, const fx_launch *l, fx_program_work *sum)
{
    const fx_plan_weight *w = &p->plan->weights[l->in[1].index];
    const fx_bound_weight *b = &p->weights[l->in[1].index];
    fx_products *products = l->rows == FX_ROWS_STEP ? &sum->row : &sum->logits;
    int64_t rows = w->rows;

    if (w->experts)                      /* a row goes to some of them */
        rows = rows / w->experts * l->args.experts.top;
    sum->bytes += rows * (int64_t)fx_dtype_row_bytes(b->dtype, w->cols);
    *(w->q8 ? &products->int8 : b->dtype == FX_BF16 ? &products->bf16 : &products->f32) += rows * w->cols;
}

static void add_context(const fx_program *p, const fx_attend_args *a, fx_program_work *sum)
{
    fx_dtype type = p->state.kv_dtype;
    size_t block = fx_kv_block_bytes(type, a->head_dim) + (a->latent ? 0 : fx_kv_block_bytes(type, a->v_dim));

    if (a->window > 0)
        return;
    sum->context_bytes += a->kv_heads * (int64_t)(block / FX_KV_BLOCK);
    sum->context_products += (int64_t)a->heads * (a->head_dim + a->v_dim);
}

fx_program_work fx_program_row_work(const fx_program *p)
{
    fx_program_work sum = { 0 };

    for (int32_t i = 0; i < p->plan->n_launches; i++) {
        const fx_launch *l = &p->plan->launches[i];

        if (l->op == FX_L_MATMUL || l->op == FX_L_EXPERT_MATMUL)
            add_work(p, l, &sum);
        else if (l->op == FX_L_ATTEND)
            add_context(p, &l->args.attend, &sum);
    }
    return sum;
}

bool fx_program_rounds_bf16(const fx_program *p)
{
    for (int32_t i = 0; i < p->plan->n_weights; i++) {
        const fx_matmul_kernel *k = p->weights[i].kernel;

        if (k && k->act == FX_ACT_BF16)
            return true;
    }
    return false;
}

void fx_program_free(fx_program *p)
{
    if (!p)
        return;
    if (p->on_free)
        p->on_free(p->on_free_user);
    fx_pages_free(p->pages, p->owned_bytes);
    fx_arena_done(&p->arena);
    fx_mem_free(p->mem, p, sizeof *p);
}

/* ---- Finding sources ---- */

typedef struct sources {
    fx_weight_view v[FX_PLAN_MAX_SRC];   /* rows, cols: of the part that is used */
    fx_plan_part part[FX_PLAN_MAX_SRC];  /* rows 0: as the view */
    int64_t rows;                /* together */
} sources;

static int64_t row_of_part(const fx_plan_part *t, int64_t i)
{
    return t->rows ? t->start + i / t->run * t->stride + i % t->run : i;
}

/* Narrows a view to a part; the part must lie in it. */
static fx_status take_part(const fx_plan_weight *w, int32_t i, fx_weight_view *v, fx_plan_part *t, fx_error *err)
{
    int64_t *size = w->use == FX_USE_VECTOR ? &v->cols : &v->rows;
    bool rows_of_matrix = w->use == FX_USE_VECTOR && t->rows && t->run == t->rows && !t->transposed && v->rows > 1;
    bool table_runs = w->use == FX_USE_TABLE && (t->transposed || (t->rows && t->run != t->rows));

    if ((t->transposed || (t->rows && w->use == FX_USE_VECTOR && !rows_of_matrix)) && !fx_dtype_is_float(v->dtype))
        return fx_fail(err, FORNAX_EUNSUP, "tensor %.*s: %s can't be taken apart so", FX_STR_ARG(w->src[i]),
                       fx_dtype_name(v->dtype));
    if ((w->use == FX_USE_VECTOR && !rows_of_matrix && (t->transposed || (t->rows && v->rows != 1))) || table_runs)
        return fx_fail(err, FORNAX_EUNSUP, "tensor %.*s: such a part of it isn't supported", FX_STR_ARG(w->src[i]));
    if (rows_of_matrix) {
        if (t->start + t->rows > v->rows)
            return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected more than %lld rows, found %lld",
                           FX_STR_ARG(w->src[i]), (long long)(t->start + t->rows - 1), (long long)v->rows);
        v->data = (const uint8_t *)v->data + (size_t)t->start * v->row_bytes;
        v->rows = t->rows;
        t->rows = 0;                     /* v is the part */
        return FORNAX_OK;
    }
    if (t->transposed) {
        int64_t rows = v->rows;

        v->rows = v->cols;
        v->cols = rows;
    }
    if (!t->rows)
        return FORNAX_OK;
    if (row_of_part(t, t->rows - 1) >= *size)
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected more than %lld rows, found %lld",
                       FX_STR_ARG(w->src[i]), (long long)row_of_part(t, t->rows - 1), (long long)*size);
    *size = t->rows;
    return FORNAX_OK;
}

static fx_status find_sources(const fx_plan_weight *w, const fx_weight_source *src, sources *out, fx_error *err)
{
    int64_t elements = 0;

    out->rows = 0;
    for (int32_t i = 0; i < w->n_src; i++) {
        fx_weight_view *v = &out->v[i];

        if (!src->find(src->user, w->src[i], v))
            return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: the model needs it, the file lacks it",
                           FX_STR_ARG(w->src[i]));
        out->part[i] = w->part[i];
        FX_TRY(take_part(w, i, v, &out->part[i], err));
        if (w->use == FX_USE_VECTOR) {
            elements += v->rows * v->cols;
        } else if (v->cols != w->cols) {
            return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected rows of %lld, found %lld",
                           FX_STR_ARG(w->src[i]), (long long)w->cols, (long long)v->cols);
        }
        if (!fx_dequantize_supports(v->dtype))
            return fx_fail(err, FORNAX_EUNSUP, "tensor %.*s: no kernel for weights of type %s",
                           FX_STR_ARG(w->src[i]), fx_dtype_name(v->dtype));
        out->rows += v->rows;
    }
    if (w->use == FX_USE_VECTOR && elements != w->rows * w->cols)
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected %lld elements, found %lld", FX_STR_ARG(w->name),
                       (long long)(w->rows * w->cols), (long long)elements);
    if (w->use != FX_USE_VECTOR && out->rows != w->rows)
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected %lld rows, found %lld", FX_STR_ARG(w->name),
                       (long long)w->rows, (long long)out->rows);
    return FORNAX_OK;
}

/* A place for a weight among those that the program owns, cache lines of its own. */
static fx_status own(fx_program *p, fx_bound_weight *b, size_t bytes, fx_error *err)
{
    size_t need;

    if (bytes > PTRDIFF_MAX - 64)
        return fx_nomem(err, "the packed weights");
    need = FX_ROUND_UP(FX_MAX(bytes, (size_t)1), 64);
    if (need > PTRDIFF_MAX - p->owned_bytes)
        return fx_nomem(err, "the packed weights");
    b->place = p->owned_bytes;
    b->owned_bytes = need;
    p->owned_bytes += need;
    return FORNAX_OK;
}

/* Where a weight is to be filled in. */
static uint8_t *room_of(const fx_program *p, const fx_bound_weight *b) { return p->pages + b->place; }

/* n numbers as 16-bit floats; where dst is f32, they lie there already. */
static void narrow(const float *wide, fx_dtype to, void *dst, int64_t n)
{
    for (int64_t i = 0; to == FX_BF16 && i < n; i++)
        ((uint16_t *)dst)[i] = fx_f32_to_bf16(wide[i]);
    for (int64_t i = 0; to == FX_F16 && i < n; i++)
        ((uint16_t *)dst)[i] = fx_f32_to_f16(wide[i]);
}

/* One row of the file as the dtype it is to be held in. 'f32': room for a row. Of a transposed
 * tensor, whose rows have v->row_bytes, src is the first element of a column. */
static void convert_row(const fx_weight_view *v, bool transposed, const void *src, fx_dtype to, void *dst, float *f32)
{
    float *wide = to == FX_F32 ? dst : f32;

    for (int64_t i = 0; transposed && i < v->cols; i++)
        fx_dequantize_row(v->dtype, (const uint8_t *)src + (size_t)i * v->row_bytes, &wide[i], 1);
    if (!transposed)
        fx_dequantize_row(v->dtype, src, wide, v->cols);
    narrow(wide, to, dst, v->cols);
}

/* ---- Vectors and tables ---- */

static fx_status lay_vector(fx_program *p, const fx_plan_weight *w, fx_bound_weight *b, fx_error *err)
{
    b->dtype = FX_F32;
    return own(p, b, (size_t)(w->rows * w->cols) * sizeof(float), err);
}

/* Vectors of all sources, one after another. */
static void fill_vector(const fx_plan_weight *w, const sources *s, float *dst)
{
    for (int32_t i = 0; i < w->n_src; i++) {
        const fx_weight_view *v = &s->v[i];
        size_t each = fx_dtype_is_float(v->dtype) ? fx_dtype_row_bytes(v->dtype, 1) : 0;

        if (s->part[i].rows) {
            for (int64_t e = 0; e < v->cols; e++, dst++)
                fx_dequantize_row(v->dtype, (const uint8_t *)v->data + (size_t)row_of_part(&s->part[i], e) * each, dst, 1);
            continue;
        }
        for (int64_t r = 0; r < v->rows; r++, dst += v->cols)
            fx_dequantize_row(v->dtype, (const uint8_t *)v->data + (size_t)r * v->row_bytes, dst, v->cols);
    }
}

static const uint8_t *first_row(const sources *s)
{
    return (const uint8_t *)s->v[0].data + (size_t)row_of_part(&s->part[0], 0) * s->v[0].row_bytes;
}

fx_dtype fx_table_dtype(const fx_plan_weight *w, fx_dtype stored) { return w->dtype == FX_BF16 || w->dtype == FX_F16 ? w->dtype : stored; }

/* An embedding table stays in file form; only a narrower dtype than the file's makes a copy
 * (a wider one is what the lookup computes anyway). */
static fx_status lay_table(fx_program *p, const fx_plan_weight *w, fx_bound_weight *b, const sources *s, fx_error *err)
{
    const fx_weight_view *v = &s->v[0];

    b->row_bytes = v->row_bytes;
    b->data = first_row(s);
    b->dtype = fx_table_dtype(w, v->dtype);
    if (b->dtype == v->dtype)
        return FORNAX_OK;
    b->row_bytes = (size_t)v->cols * 2;
    return own(p, b, b->row_bytes * (size_t)v->rows, err);
}

static fx_status fill_table(const fx_program *p, const fx_bound_weight *b, const sources *s, fx_error *err)
{
    const fx_weight_view *v = &s->v[0];
    float *tmp = fx_mem_array(p->mem, (size_t)v->cols, sizeof *tmp);

    if (!tmp)
        return fx_nomem(err, "an embedding row");
    for (int64_t r = 0; r < v->rows; r++)
        convert_row(v, false, first_row(s) + (size_t)r * v->row_bytes, b->dtype, room_of(p, b) + (size_t)r * b->row_bytes, tmp);
    fx_mem_free(p->mem, tmp, (size_t)v->cols * sizeof *tmp);
    return FORNAX_OK;
}

/* ---- Products ---- */

typedef struct pack_job {
    const fx_plan_weight *w;
    const sources *s;
    const fx_weight_view *views; /* [n_src] instead, of experts */
    int64_t tiles_each;          /* of an expert, pairs counted twice */
    const fx_matmul_kernel *kernel;
    fx_dtype dtype;
    uint8_t *tiles;
    size_t tile_bytes;
    int64_t first;               /* task 0 */
    uint8_t *rows;               /* [workers][17 rows] when rows are converted, else NULL */
    size_t worker_bytes;
} pack_job;

/* A row of the file: the source, and where the row starts; NULL at: there is none. */
typedef struct file_row {
    int32_t src;
    const uint8_t *at;
} file_row;

static file_row row_of_source(const sources *s, int32_t i, int64_t r)
{
    const fx_weight_view *v = &s->v[i];
    size_t step = s->part[i].transposed ? fx_dtype_row_bytes(v->dtype, 1) : v->row_bytes;

    if (r >= v->rows)
        return (file_row){ i, NULL };
    return (file_row){ i, (const uint8_t *)v->data + (size_t)row_of_part(&s->part[i], r) * step };
}

/* Row i of tile t: of a paired weight, of source t % 2, else of all sources in turn. */
static file_row tile_row(const pack_job *j, int64_t t, int i)
{
    int64_t r = t * 16 + i;

    if (j->w->paired)
        return row_of_source(j->s, (int32_t)(t % 2), t / 2 * 16 + i);
    for (int32_t k = 0; k < j->w->n_src; k++) {
        if (r < j->s->v[k].rows)
            return row_of_source(j->s, k, r);
        r -= j->s->v[k].rows;
    }
    return (file_row){ 0, NULL };
}

static void pack_tiles(void *user, int64_t t0, int64_t t1, int worker)
{
    const pack_job *j = user;
    size_t row_bytes = fx_dtype_row_bytes(j->dtype, j->w->cols);
    uint8_t *mine = j->rows ? j->rows + (size_t)worker * j->worker_bytes : NULL;

    for (int64_t t = j->first + t0; t < j->first + t1; t++) {
        const void *rows[16];

        for (int i = 0; i < 16; i++) {
            file_row row = tile_row(j, t, i);
            const fx_weight_view *v = &j->s->v[row.src];
            bool transposed = j->s->part[row.src].transposed;

            rows[i] = row.at;
            if (rows[i] && (transposed || v->dtype != j->dtype)) {
                uint8_t *at = mine + (size_t)i * FX_ROUND_UP(row_bytes, 64);
                convert_row(v, transposed, rows[i], j->dtype, at, (float *)(mine + 16 * FX_ROUND_UP(row_bytes, 64)));
                rows[i] = at;
            }
        }
        j->kernel->pack(rows, j->w->cols, j->tiles + (size_t)t * j->tile_bytes);
    }
}

/* The kernel for weights held as dtype; room for 'tiles' of them. 'changes': they are stored otherwise. */
static fx_status own_tiles(fx_program *p, const fx_plan_weight *w, fx_bound_weight *b, fx_dtype dtype, bool changes,
                           int64_t tiles, fx_error *err)
{
    b->dtype = dtype;
    b->kernel = fx_matmul_find(dtype, fx_matmul_act(dtype, w->q8, &p->cpu), w->cols, &p->cpu);
    if (!b->kernel)
        return fx_fail(err, FORNAX_EUNSUP, "tensor %.*s: no matmul kernel for %s weights with %s activations, k = %lld",
                       FX_STR_ARG(w->name), fx_dtype_name(dtype), w->q8 ? "int8" : "f32", (long long)w->cols);
    if (changes && fx_dtype_is_quant(dtype))
        return fx_fail(err, FORNAX_EUNSUP, "tensor %.*s: can't requantize to %s while loading", FX_STR_ARG(w->name),
                       fx_dtype_name(dtype));
    b->tile_bytes = b->kernel->tile_bytes(w->cols);
    return own(p, b, (size_t)tiles * b->tile_bytes, err);
}

static void release_sources(const fx_plan_weight *w, const fx_weight_source *src)
{
    for (int32_t i = 0; src->release && i < w->n_src; i++)
        src->release(src->user, w->experts ? w->expert_src[i] : w->src[i]);
}

/* Runs a job's tasks, each of which makes so many bytes, with worker_bytes of room for each worker. From time to time the
 * source's pages are let go: else those of a large weight, like an output matrix, would stand beside the packed ones. */
static fx_status run_pack(fx_task_fn fn, pack_job *j, int64_t tasks, size_t task_bytes, const fx_weight_source *src,
                          fx_pool *pool, fx_error *err)
{
    size_t room = j->worker_bytes * (size_t)fx_pool_threads(pool);
    int64_t each = (int64_t)FX_MAX(SLAB_BYTES / FX_MAX(task_bytes, (size_t)1), (size_t)1);

    j->rows = room ? fx_pages_alloc(room) : NULL;
    if (room && !j->rows)
        return fx_nomem(err, "conversion of weights");
    for (; j->first < tasks; j->first += each) {
        fx_pool_run(pool, fn, j, FX_MIN(each, tasks - j->first), 1);
        release_sources(j->w, src);
    }
    fx_pages_free(j->rows, room);
    return FORNAX_OK;
}

/* Of a worker that converts the rows of a tile. */
static size_t conversion_bytes(const pack_job *j)
{
    return 16 * FX_ROUND_UP(fx_dtype_row_bytes(j->dtype, j->w->cols), 64) +
           2 * FX_ROUND_UP((size_t)j->w->cols * sizeof(float), 64);
}

static int64_t product_tiles(const fx_plan_weight *w, const sources *s)
{
    return w->paired ? FX_DIV_UP(s->v[0].rows, 16) * 2 : FX_DIV_UP(w->rows, 16);
}

static fx_status lay_product(fx_program *p, const fx_plan_weight *w, fx_bound_weight *b, const sources *s, fx_error *err)
{
    fx_dtype dtype = w->dtype == FX_DTYPE_COUNT ? s->v[0].dtype : w->dtype;
    bool changes = false;

    for (int32_t i = 0; i < w->n_src; i++)
        changes |= s->v[i].dtype != dtype;
    return own_tiles(p, w, b, dtype, changes, product_tiles(w, s), err);
}

/* What all jobs that fill a weight with tiles have. */
static pack_job job_of(const fx_program *p, const fx_plan_weight *w, const fx_bound_weight *b)
{
    return (pack_job){ .w = w, .dtype = b->dtype, .kernel = b->kernel, .tile_bytes = b->tile_bytes, .tiles = room_of(p, b) };
}

static fx_status fill_product(const fx_program *p, const fx_plan_weight *w, const fx_bound_weight *b, const sources *s,
                              const fx_weight_source *src, fx_pool *pool, fx_error *err)
{
    pack_job j = job_of(p, w, b);
    bool converts = false;

    j.s = s;
    for (int32_t i = 0; i < w->n_src; i++)
        converts |= s->part[i].transposed || s->v[i].dtype != b->dtype;
    j.worker_bytes = converts ? conversion_bytes(&j) : 0;
    return run_pack(pack_tiles, &j, product_tiles(w, s), b->tile_bytes, src, pool, err);
}

/* ---- Experts: matrix after matrix, each in tiles of its own ---- */

/* Row i of tile t, where it starts; NULL past the end of an expert. */
static const uint8_t *expert_row(const pack_job *j, int64_t t, int i, const fx_weight_view **v)
{
    const fx_plan_weight *w = j->w;
    bool turned = w->layout == FX_EXPERTS_TRANSPOSED, apart = w->paired && w->layout == FX_EXPERTS_APART;
    int64_t sides = w->paired ? 2 : 1, e = t / j->tiles_each, half = t % sides;
    int64_t tensors = apart ? w->n_src / 2 : w->n_src;
    int64_t each = w->rows / w->experts / sides, r = t % j->tiles_each / sides * 16 + i;

    if (r >= each)
        return NULL;
    if (w->half) {
        r = w->layout >= FX_EXPERTS_TRANSPOSED ? 2 * r + w->half - 1 : (w->half - 1) * each + r;
        each *= 2;
    }
    if (w->paired && !apart) {
        r = w->layout >= FX_EXPERTS_TRANSPOSED ? 2 * r + half : half * each + r;
        each *= 2;
    }
    *v = &j->views[(apart ? half * tensors : 0) + (tensors == 1 ? 0 : e)];
    if (turned)
        return (const uint8_t *)(*v)->data + (size_t)(e * w->cols) * (*v)->row_bytes +
               (size_t)r * fx_dtype_row_bytes((*v)->dtype, 1);
    return (const uint8_t *)(*v)->data + (size_t)(tensors == 1 ? e * each + r : r) * (*v)->row_bytes;
}

/* A row of nibbles as blocks of the file format: there, 2 * i and 2 * i + 1 lie in byte i; here, i and i + 16. */
static void join_blocks(const fx_weight_view *v, const fx_weight_view *scales, const uint8_t *row, int64_t n, uint8_t *out)
{
    const uint8_t *scale = (const uint8_t *)scales->data + (row - (const uint8_t *)v->data) / 16;

    for (int64_t b = 0; b < n / 32; b++, row += 16) {
        fx_block_mxfp4 block = { .e = scale[b] };

        for (int i = 0; i < 16; i++) {
            int low = row[i / 2] >> i % 2 * 4 & 15, high = row[8 + i / 2] >> i % 2 * 4 & 15;

            block.qs[i] = (uint8_t)(low | high << 4);
        }
        memcpy(out + (size_t)b * sizeof(block), &block, sizeof(block));
    }
}

static void pack_expert_tiles(void *user, int64_t t0, int64_t t1, int worker)
{
    const pack_job *j = user;
    bool turned = j->w->layout == FX_EXPERTS_TRANSPOSED;
    size_t row_bytes = FX_ROUND_UP(fx_dtype_row_bytes(j->dtype, j->w->cols), 64);
    uint8_t *mine = j->rows ? j->rows + (size_t)worker * j->worker_bytes : NULL;

    for (int64_t t = j->first + t0; t < j->first + t1; t++) {
        const void *rows[16];

        for (int i = 0; i < 16; i++) {
            const fx_weight_view *v = NULL;
            fx_weight_view row;

            rows[i] = expert_row(j, t, i, &v);
            if (rows[i] && j->w->layout == FX_EXPERTS_BLOCKS) {
                uint8_t *at = v->dtype == j->dtype ? mine + (size_t)i * row_bytes
                                                   : mine + 16 * row_bytes + FX_ROUND_UP((size_t)j->w->cols * 4, 64);

                join_blocks(v, v + j->w->n_src, rows[i], j->w->cols, at);
                rows[i] = at;
            }
            if (rows[i] && (turned || v->dtype != j->dtype)) {
                uint8_t *at = mine + (size_t)i * row_bytes;

                row = *v;
                row.cols = j->w->cols;
                convert_row(&row, turned, rows[i], j->dtype, at, (float *)(mine + 16 * row_bytes));
                rows[i] = at;
            }
        }
        j->kernel->pack(rows, j->w->cols, j->tiles + (size_t)t * j->tile_bytes);
    }
}

static fx_status check_expert_view(const fx_plan_weight *w, fx_str name, const fx_weight_view *v, fx_error *err)
{
    bool turned = w->layout == FX_EXPERTS_TRANSPOSED, apart = w->paired && w->layout == FX_EXPERTS_APART;
    int32_t tensors = apart ? w->n_src / 2 : w->n_src, experts = tensors == 1 ? w->experts : 1;
    int64_t rows = w->rows / w->experts * (w->half ? 2 : 1) / (apart ? 2 : 1), cols = w->cols;

    if (turned) {
        cols = rows;
        rows = w->cols;
    }
    if (!fx_dequantize_supports(v->dtype))
        return fx_fail(err, FORNAX_EUNSUP, "tensor %.*s: no kernel for weights of type %s", FX_STR_ARG(name),
                       fx_dtype_name(v->dtype));
    if (v->cols != cols || v->rows != rows * experts || (turned && !fx_dtype_is_float(v->dtype)))
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected %lld rows of %lld, found %lld of %lld",
                       FX_STR_ARG(name), (long long)(rows * experts), (long long)cols, (long long)v->rows,
                       (long long)v->cols);
    return FORNAX_OK;
}

/* The scales of blocks: "x_scales" of "x_blocks". Both views become one of MXFP4 rows. */
static fx_status find_scales(const fx_plan_weight *w, const fx_weight_source *src, fx_str name, fx_weight_view *v,
                             fx_weight_view *scales, fx_error *err)
{
    static const char from[] = "blocks", to[] = "scales";
    int64_t rows = w->rows * (w->half ? 2 : 1), blocks = rows * (w->cols / 32);
    char other[256];

    if (name.n >= sizeof(other) || !fx_str_ends(name, fx_str_of(from)))
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: its scales have no name", FX_STR_ARG(name));
    memcpy(other, name.p, name.n);
    memcpy(other + name.n - sizeof(from) + 1, to, sizeof(to) - 1);
    if (!src->find(src->user, fx_str_n(other, name.n), scales))
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: the model needs it, the file lacks it", (int)name.n, other);
    if (v->dtype != FX_U8 || v->cols != 16 || v->rows != blocks || scales->dtype != FX_U8 ||
        scales->rows * scales->cols != blocks)
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected %lld blocks of 16 bytes, and as many scales",
                       FX_STR_ARG(name), (long long)blocks);
    *v = (fx_weight_view){ v->data, FX_MXFP4, rows, w->cols, (size_t)(w->cols / 32 * 16) };
    return FORNAX_OK;
}

/* Of an expert, or of a head. */
static int64_t tiles_each(const fx_plan_weight *w)
{
    int64_t sides = w->paired ? 2 : 1;

    return FX_DIV_UP(w->rows / w->experts / sides, 16) * sides;
}

static fx_status lay_experts(fx_program *p, const fx_plan_weight *w, fx_bound_weight *b, const fx_weight_view *v, bool changes,
                             fx_error *err)
{
    fx_dtype dtype = w->dtype == FX_DTYPE_COUNT ? v[0].dtype : w->dtype;

    for (int32_t i = 0; i < w->n_src; i++)
        changes |= v[i].dtype != dtype;
    FX_TRY(own_tiles(p, w, b, dtype, changes, tiles_each(w) * w->experts, err));
    b->expert_bytes = (size_t)tiles_each(w) * b->tile_bytes;
    return FORNAX_OK;
}

static fx_status fill_experts(const fx_program *p, const fx_plan_weight *w, const fx_bound_weight *b, const fx_weight_view *v,
                              const fx_weight_source *src, fx_pool *pool, fx_error *err)
{
    pack_job j = job_of(p, w, b);
    bool converts = w->layout >= FX_EXPERTS_TRANSPOSED;

    j.views = v;
    j.tiles_each = tiles_each(w);
    for (int32_t i = 0; i < w->n_src; i++)
        converts |= v[i].dtype != b->dtype;
    j.worker_bytes = converts ? conversion_bytes(&j) : 0;
    return run_pack(pack_expert_tiles, &j, j.tiles_each * w->experts, b->tile_bytes, src, pool, err);
}

/* ---- Heads: a part of each one's share of a tensor ---- */

/* Row i of a transposed part, whose n_rows rows of n_cols lie in f32, as dtype. */
static void put_column(const float *part, const fx_plan_part *t, int64_t n_cols, int64_t i, fx_dtype to, void *dst, float *f32)
{
    float *wide = to == FX_F32 ? dst : f32;

    for (int64_t c = 0; c < t->rows; c++)
        wide[c] = part[c * n_cols + i];
    narrow(wide, to, dst, t->rows);
}

/* A task is a head. */
static void pack_heads(void *user, int64_t h0, int64_t h1, int worker)
{
    const pack_job *j = user;
    const fx_plan_part *t = &j->w->part[0];
    const fx_weight_view *v = j->views;
    int64_t n_rows = j->w->rows / j->w->experts;
    size_t row_bytes = FX_ROUND_UP(fx_dtype_row_bytes(j->dtype, j->w->cols), 64);
    uint8_t *mine = j->rows + (size_t)worker * j->worker_bytes;
    float *wide = (float *)(mine + 16 * row_bytes), *part = wide + FX_ROUND_UP(j->w->cols, 16);

    for (int64_t h = j->first + h0; h < j->first + h1; h++) {
        const uint8_t *at = (const uint8_t *)v->data + (size_t)(h * t->stride + t->start) * v->row_bytes;

        for (int64_t r = 0; t->transposed && r < t->rows; r++)
            fx_dequantize_row(v->dtype, at + (size_t)r * v->row_bytes, part + r * v->cols, v->cols);
        for (int64_t tile = 0; tile < j->tiles_each; tile++) {
            const void *rows[16];

            for (int64_t i = 0, r = tile * 16; i < 16; i++, r++) {
                uint8_t *dst = mine + (size_t)i * row_bytes;

                rows[i] = r < n_rows ? dst : NULL;
                if (rows[i] && t->transposed)
                    put_column(part, t, v->cols, r, j->dtype, dst, wide);
                else if (rows[i] && v->dtype != j->dtype)
                    convert_row(v, false, at + (size_t)r * v->row_bytes, j->dtype, dst, wide);
                else if (rows[i])
                    rows[i] = at + (size_t)r * v->row_bytes;
            }
            j->kernel->pack(rows, j->w->cols, j->tiles + (size_t)(h * j->tiles_each + tile) * j->tile_bytes);
        }
    }
}

static fx_status fill_heads(const fx_program *p, const fx_plan_weight *w, const fx_bound_weight *b, const fx_weight_view *v,
                            const fx_weight_source *src, fx_pool *pool, fx_error *err)
{
    pack_job j = job_of(p, w, b);

    j.views = v;
    j.tiles_each = tiles_each(w);
    j.worker_bytes = 16 * FX_ROUND_UP(fx_dtype_row_bytes(j.dtype, w->cols), 64) +
                     FX_ROUND_UP((size_t)w->cols * sizeof(float), 64) +
                     FX_ROUND_UP((size_t)(w->part[0].rows * v->cols) * sizeof(float), 64);
    return run_pack(pack_heads, &j, w->experts, b->expert_bytes, src, pool, err);
}

static fx_status find_head_view(const fx_plan_weight *w, const fx_weight_source *src, fx_weight_view *v, fx_error *err)
{
    const fx_plan_part *t = &w->part[0];
    int64_t cols = t->transposed ? w->rows / w->experts : w->cols;

    if (!src->find(src->user, w->expert_src[0], v))
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: the model needs it, the file lacks it", FX_STR_ARG(w->name));
    if (v->rows != t->stride * w->experts || v->cols != cols || !fx_dequantize_supports(v->dtype))
        return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: expected %lld rows of %lld numbers, found %lld of %lld",
                       FX_STR_ARG(w->name), (long long)(t->stride * w->experts), (long long)cols, (long long)v->rows,
                       (long long)v->cols);
    return FORNAX_OK;
}

/* Checked views of experts or heads, of which there may be many: [n_src], and the scales, where there are some, behind. */
static fx_status find_views(const fx_plan_weight *w, const fx_weight_source *src, fx_weight_view *v, fx_error *err)
{
    if (w->by_head)
        return find_head_view(w, src, v, err);
    for (int32_t i = 0; i < w->n_src; i++) {
        if (!src->find(src->user, w->expert_src[i], &v[i]))
            return fx_fail(err, FORNAX_EFORMAT, "tensor %.*s: the model needs it, the file lacks it",
                           FX_STR_ARG(w->expert_src[i]));
        FX_TRY(w->layout == FX_EXPERTS_BLOCKS ? find_scales(w, src, w->expert_src[i], &v[i], &v[w->n_src + i], err)
                                              : check_expert_view(w, w->expert_src[i], &v[i], err));
    }
    return FORNAX_OK;
}

static fx_status copy_state(fx_program *p, const fx_state_table *state, fx_error *err)
{
    p->state = *state;
    p->state.layers = FX_ARENA_NEWN(&p->arena, fx_state_layer, (size_t)state->n_layers + 1);
    if (!p->state.layers)
        return fx_nomem(err, "a state table");
    if (state->n_layers > 0)
        memcpy(p->state.layers, state->layers, (size_t)state->n_layers * sizeof *state->layers);
    return FORNAX_OK;
}

/* ---- All kinds ---- */

/* Lays a weight out, or fills it. */
static fx_status bind_views(fx_program *p, const fx_plan_weight *w, fx_bound_weight *b, const fx_weight_source *source,
                            bool fill, fx_pool *pool, fx_error *err)
{
    size_t n = (size_t)FX_MAX(w->n_src, 1) * 2;
    fx_weight_view *v = fx_mem_array(p->mem, n, sizeof *v);
    fx_status st = v ? find_views(w, source, v, err) : fx_nomem(err, "the views of experts");

    if (st == FORNAX_OK && !fill)
        st = lay_experts(p, w, b, v, w->by_head && w->part[0].transposed, err);
    else if (st == FORNAX_OK)
        st = w->by_head ? fill_heads(p, w, b, v, source, pool, err) : fill_experts(p, w, b, v, source, pool, err);
    fx_mem_free(p->mem, v, n * sizeof *v);
    return st;
}

static fx_status bind_weight(fx_program *p, const fx_plan_weight *w, fx_bound_weight *b, const fx_weight_source *source,
                             bool fill, fx_pool *pool, fx_error *err)
{
    sources s;

    if (w->by_head || w->experts)
        return bind_views(p, w, b, source, fill, pool, err);
    FX_TRY(find_sources(w, source, &s, err));
    switch (w->use) {
    case FX_USE_VECTOR:
        if (!fill)
            return lay_vector(p, w, b, err);
        fill_vector(w, &s, (float *)(void *)room_of(p, b));
        return FORNAX_OK;
    case FX_USE_TABLE: return fill ? fill_table(p, b, &s, err) : lay_table(p, w, b, &s, err);
    case FX_USE_MATMUL: break;
    }
    return fill ? fill_product(p, w, b, &s, source, pool, err) : lay_product(p, w, b, &s, err);
}

/* Where a router hangs on them activations aren't rounded to bf16: near ties between experts are common, and the
 * wrong one costs far more than the rounding itself. */
static bool has_router(const fx_plan *plan)
{
    for (int32_t i = 0; i < plan->n_launches; i++)
        if (plan->launches[i].op == FX_L_ROUTE)
            return true;
    return false;
}

static fx_status lay_out(fx_program *p, const fx_weight_source *source, fx_error *err)
{
    p->weights = FX_ARENA_NEWN(&p->arena, fx_bound_weight, (size_t)p->plan->n_weights + 1);
    if (!p->weights)
        return fx_nomem(err, "the weight table");
    for (int32_t i = 0; i < p->plan->n_weights; i++)
        FX_TRY(bind_weight(p, &p->plan->weights[i], &p->weights[i], source, false, NULL, err));
    return FORNAX_OK;
}

static fx_status fill_all(fx_program *p, const fx_weight_source *source, fx_pool *pool, fx_error *err)
{
    int32_t n = p->plan->n_weights;

    p->pages = fx_pages_alloc(p->owned_bytes);
    if (!p->pages)
        return fx_nomem(err, "the packed weights");
    p->owned = p->pages;
    for (int32_t i = 0; i < n; i++) {
        const fx_plan_weight *w = &p->plan->weights[i];
        fx_bound_weight *b = &p->weights[i];

        if (source->progress && !source->progress(source->user, (double)i / n))
            return fx_fail(err, FORNAX_ECANCEL, "loading was cancelled");
        if (b->owned_bytes)
            FX_TRY(bind_weight(p, w, b, source, true, pool, err));
    }
    return FORNAX_OK;
}

/* The bytes that the program owns: found, or filled and kept. */
static fx_status get_weights(fx_program *p, const fx_weight_source *source, fx_pool *pool, fx_error *err)
{
    const fx_weight_keep *keep = source->keep;
    fx_hash128 recipe;

    FX_TRY(lay_out(p, source, err));
    if (keep) {
        FX_TRY(fx_program_recipe(p, source, &recipe, err));
        p->owned = keep->find(keep->user, recipe, p->owned_bytes);
    }
    if (!p->owned) {
        FX_TRY(fill_all(p, source, pool, err));
        if (keep)
            keep->keep(keep->user, recipe, p->pages, p->owned_bytes);
    }
    for (int32_t i = 0; i < p->plan->n_weights; i++)
        if (p->weights[i].owned_bytes)
            p->weights[i].data = p->owned + p->weights[i].place;
    return FORNAX_OK;
}

fx_status fx_program_bind(fx_program *p, const fx_plan *plan, const fx_state_table *state,
                          const fx_weight_source *source, fx_pool *pool, const fx_cpu *cpu, fx_error *err)
{
    fx_fpmode old = fx_fpmode_enter();
    fx_status st = copy_state(p, state, err);

    p->plan = plan;
    p->cpu = *cpu;
    p->cpu.bf16_fast = cpu->bf16_fast && !has_router(plan);
    if (st == FORNAX_OK)
        st = get_weights(p, source, pool, err);
    fx_fpmode_leave(old);
    return st;
}
