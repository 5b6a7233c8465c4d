/* adapter.c - packs an adapter's matrices for the products of a plan. */
#include "runtime/adapter_int.h"

#include <string.h>

#define REGION_BYTES ((size_t)4 << 20)       /* address space, not memory */

/* ---- Room ---- */

/* Room for packed matrices, cache lines of its own, cleared; NULL: no memory. */
static uint8_t *room(fx_adapter *a, size_t bytes)
{
    size_t need = FX_ROUND_UP(FX_MAX(bytes, (size_t)1), 64);
    fx_weight_region *r = a->regions;

    if (!r || need > r->bytes - r->used) {
        r = fx_mem_zalloc(a->mem, sizeof *r);
        if (!r)
            return NULL;
        r->bytes = FX_MAX(need, REGION_BYTES);
        r->at = fx_pages_alloc(r->bytes);
        if (!r->at) {
            fx_mem_free(a->mem, r, sizeof *r);
            return NULL;
        }
        r->next = a->regions;
        a->regions = r;
    }
    r->used += need;
    return r->at + r->used - need;
}

/* Packs [rows, k]; row i comes from row 'map' says. */
static const uint8_t *pack(fx_adapter *a, const float *at, int64_t rows, int64_t k, const fx_plan_part *map, size_t *tile_bytes)
{
    int64_t tiles = FX_DIV_UP(rows, 16);
    uint8_t *out;

    *tile_bytes = a->kernel->tile_bytes(k);
    out = room(a, (size_t)tiles * *tile_bytes);
    for (int64_t t = 0; out && t < tiles; t++) {
        const void *row[16];

        for (int64_t i = 0; i < 16; i++) {
            int64_t r = t * 16 + i;
            int64_t from = map && map->rows ? map->start + r / map->run * map->stride + r % map->run : r;
            row[i] = r < rows ? at + from * k : NULL;
        }
        a->kernel->pack(row, k, out + (size_t)t * *tile_bytes);
    }
    return out;
}

/* ---- Parts ---- */

static fx_status push_part(fx_adapter *a, const fx_adapter_part *part, fx_error *err)
{
    bool whole = part->rank == 0 || (part->a && part->b);

    return whole && FX_VEC_PUSH(&a->parts, a->mem, *part) ? FORNAX_OK : fx_nomem(err, "an adapter");
}

static fx_status find(const fx_adapter_source *source, const fx_adapter_ask *ask, fx_adapter_pair *pair, fx_error *err)
{
    *pair = (fx_adapter_pair){ 0 };
    FX_TRY(source->find(source->user, ask, pair, err));
    if (pair->rank < 0 || pair->rank > FX_ADAPTER_MAX_RANK)
        return fx_fail(err, FORNAX_EUNSUP, "adapter for %.*s: rank: expected 1 to %d, found %lld", FX_STR_ARG(ask->tensor),
                       FX_ADAPTER_MAX_RANK, (long long)pair->rank);
    return FORNAX_OK;
}

/* Source tensor s of a product, whose columns begin at col0. */
static fx_status add_product(fx_adapter *a, const fx_plan_weight *w, int32_t s, int64_t col0, int64_t n,
                             const fx_adapter_source *source, fx_error *err)
{
    const fx_plan_part *map = &w->part[s];
    const fx_adapter_ask ask = { .tensor = w->src[s], .transposed = map->transposed, .expert = -1, .k = w->cols };
    fx_adapter_part part = { .col0 = col0, .n = n, .k = w->cols };
    fx_adapter_pair pair;
    int64_t whole = map->rows ? map->start + (map->rows - 1) / map->run * map->stride + (map->rows - 1) % map->run + 1 : n;

    FX_TRY(find(source, &ask, &pair, err));
    if (!pair.rank)
        return FORNAX_OK;
    if (pair.n < whole || (!map->rows && pair.n != n))
        return fx_fail(err, FORNAX_EFORMAT, "adapter for %.*s: expected %lld rows of B, found %lld", FX_STR_ARG(w->src[s]),
                       (long long)whole, (long long)pair.n);
    part.rank = pair.rank;
    part.scale = pair.scale;
    part.a = pack(a, pair.a, pair.rank, part.k, NULL, &part.a_tile);
    part.b = pack(a, pair.b, n, pair.rank, map, &part.b_tile);
    return push_part(a, &part, err);
}

static fx_status add_products(fx_adapter *a, const fx_plan_weight *w, const fx_adapter_source *source, fx_error *err)
{
    int64_t col0 = 0;

    for (int32_t s = 0; s < w->n_src; s++) {
        int64_t n = w->part[s].rows ? w->part[s].rows : w->n_src == 1 ? w->rows : source->rows(source->user, w->src[s]);

        FX_TRY(add_product(a, w, s, col0, n, source, err));
        col0 += n;
    }
    return FORNAX_OK;
}

/* Expert e of a weight that isn't paired: one matrix, or its half of a tensor of gate and up. */
static fx_status add_expert(fx_adapter *a, const fx_plan_weight *w, int32_t e, const fx_adapter_source *source, fx_error *err)
{
    bool stacked = w->n_src == 1;
    const fx_adapter_ask ask = { .tensor = w->expert_src[stacked ? 0 : e], .expert = stacked ? e : -1, .half = w->half,
                                 .transposed = w->layout == FX_EXPERTS_TRANSPOSED, .k = w->cols, .n = w->rows / w->experts };
    fx_adapter_part part = { .n = ask.n, .k = ask.k };
    fx_adapter_pair pair;

    FX_TRY(find(source, &ask, &pair, err));
    part.rank = pair.rank;
    part.scale = pair.scale;
    if (part.rank) {
        part.a = pack(a, pair.a, pair.rank, part.k, NULL, &part.a_tile);
        part.b = pack(a, pair.b, part.n, pair.rank, NULL, &part.b_tile);
    }
    return push_part(a, &part, err);
}

/* A's columns become rows, so that a token's numbers lie side by side. */
static const uint8_t *turn(fx_adapter *a, const float *at, int64_t rank, int64_t n)
{
    float *out = (float *)(void *)room(a, (size_t)(rank * n) * sizeof(float));

    for (int64_t i = 0; out && i < n; i++) {
        for (int64_t r = 0; r < rank; r++)
            out[i * rank + r] = at[r * n + i];
    }
    return (const uint8_t *)out;
}

static fx_status add_table(fx_adapter *a, const fx_plan_weight *w, const fx_adapter_source *source, fx_error *err)
{
    const fx_adapter_ask ask = { .tensor = w->src[0], .table = true, .expert = -1, .k = w->cols, .n = w->rows };
    fx_adapter_part part = { .n = w->cols, .k = w->rows };
    fx_adapter_pair pair;

    FX_TRY(find(source, &ask, &pair, err));
    if (!pair.rank)
        return FORNAX_OK;
    part.rank = pair.rank;
    part.scale = pair.scale;
    part.a = turn(a, pair.a, pair.rank, ask.n);
    part.b = pack(a, pair.b, ask.k, pair.rank, NULL, &part.b_tile);
    return push_part(a, &part, err);
}

static fx_status fill(fx_adapter *a, const fx_program *p, const fx_adapter_source *source, fx_error *err)
{
    for (int32_t i = 0; i < p->plan->n_weights; i++) {
        const fx_plan_weight *w = &p->plan->weights[i];

        a->first[i] = (int32_t)a->parts.n;
        if (w->use == FX_USE_TABLE)
            FX_TRY(add_table(a, w, source, err));
        for (int32_t e = 0; e < w->experts; e++)
            FX_TRY(add_expert(a, w, e, source, err));
        if (w->use == FX_USE_MATMUL && !w->experts)
            FX_TRY(add_products(a, w, source, err));
    }
    a->first[p->plan->n_weights] = (int32_t)a->parts.n;
    return FORNAX_OK;
}

fx_status fx_adapter_new(fx_adapter **out, const fx_program *p, const fx_adapter_source *source, fx_error *err)
{
    fx_adapter *a;
    fx_status st;

    *out = NULL;
    if (!p->adapters)
        return fx_fail_param(err, FORNAX_EARG, "adapters", "the model was opened without room for adapters");
    a = fx_mem_zalloc(p->mem, sizeof *a);
    if (!a)
        return fx_nomem(err, "an adapter");
    a->mem = p->mem;
    a->n_weights = p->plan->n_weights;
    a->first = fx_mem_array(a->mem, (size_t)a->n_weights + 1, sizeof *a->first);
    a->kernel = fx_matmul_find(FX_F32, FX_ACT_F32, 16, &p->cpu);
    if (!a->first)
        st = fx_nomem(err, "an adapter");
    else
        st = a->kernel ? fill(a, p, source, err) : fx_fail(err, FORNAX_EUNSUP, "no f32 matmul kernel");
    if (st != FORNAX_OK) {
        fx_adapter_free(a);
        return st;
    }
    *out = a;
    return FORNAX_OK;
}

void fx_adapter_free(fx_adapter *a)
{
    if (!a)
        return;
    while (a->regions) {
        fx_weight_region *r = a->regions;

        a->regions = r->next;
        fx_pages_free(r->at, r->bytes);
        fx_mem_free(a->mem, r, sizeof *r);
    }
    FX_VEC_FREE(&a->parts, a->mem);
    fx_mem_free(a->mem, a->first, ((size_t)a->n_weights + 1) * sizeof *a->first);
    fx_mem_free(a->mem, a, sizeof *a);
}
