/* adapter.c - packs an adapter's matrices for the products of a plan. */
#include "runtime/adapter_int.h"

#include <string.h>

static fx_status bad_shape(fx_str name, const char *which, int64_t want, int64_t found, fx_error *err)
{
    return fx_fail(err, FORNAX_EFORMAT, "adapter for %.*s: %s: expected %lld, found %lld", FX_STR_ARG(name), which,
                   (long long)want, (long long)found);
}

/* Packs [rows, k]; row i comes from row 'map' says. */
static uint8_t *pack(const fx_matmul_kernel *kernel, const float *at, int64_t rows, int64_t k, const fx_plan_part *map,
                     size_t *tile_bytes, size_t *bytes)
{
    int64_t tiles = FX_DIV_UP(rows, 16);
    uint8_t *out;

    *tile_bytes = kernel->tile_bytes(k);
    *bytes = (size_t)tiles * *tile_bytes;
    out = fx_pages_alloc(*bytes);
    for (int64_t t = 0; out && t < tiles; t++) {
        const void *row[16];

        for (int64_t i = 0; i < 16; i++) {
            int64_t r = t * 16 + i;
            int64_t from = map && map->rows ? map->start + r / map->run * map->stride + r % map->run : r;
            row[i] = r < rows ? at + from * k : NULL;
        }
        kernel->pack(row, k, out + (size_t)t * *tile_bytes);
    }
    return out;
}

static fx_status add_part(fx_adapter *a, const fx_program *p, int32_t weight, int32_t src, int64_t col0, int64_t n,
                          const fx_adapter_pair *pair, fx_error *err)
{
    const fx_plan_weight *w = &p->plan->weights[weight];
    const fx_plan_part *map = &w->part[src];
    int64_t whole = map->rows ? map->start + (map->rows - 1) / map->run * map->stride + (map->rows - 1) % map->run + 1 : n;
    fx_adapter_part part = { .weight = weight, .col0 = col0, .n = n, .k = w->cols, .rank = pair->rank, .scale = pair->scale };

    if (pair->k != w->cols)
        return bad_shape(w->src[src], "columns of lora_A", w->cols, pair->k, err);
    if (pair->n < whole || (!map->rows && pair->n != n))
        return bad_shape(w->src[src], "rows of lora_B", whole, pair->n, err);
    if (pair->rank < 1 || pair->rank > FX_ADAPTER_MAX_RANK)
        return fx_fail(err, FORNAX_EUNSUP, "adapter for %.*s: rank: expected 1 to %d, found %lld", FX_STR_ARG(w->src[src]),
                       FX_ADAPTER_MAX_RANK, (long long)pair->rank);
    part.a = pack(a->kernel, pair->a, pair->rank, pair->k, NULL, &part.a_tile, &part.a_bytes);
    part.b = pack(a->kernel, pair->b, n, pair->rank, map, &part.b_tile, &part.b_bytes);
    if (part.a && part.b && FX_VEC_PUSH(&a->parts, a->mem, part))
        return FORNAX_OK;
    fx_pages_free(part.a, part.a_bytes);
    fx_pages_free(part.b, part.b_bytes);
    return fx_nomem(err, "an adapter");
}

static fx_status fill(fx_adapter *a, const fx_program *p, const fx_adapter_source *source, fx_error *err)
{
    for (int32_t i = 0; i < p->plan->n_weights; i++) {
        const fx_plan_weight *w = &p->plan->weights[i];
        int64_t col0 = 0;

        if (w->use != FX_USE_MATMUL || w->experts)
            continue;
        for (int32_t s = 0; s < w->n_src; s++) {
            int64_t n = w->part[s].rows ? w->part[s].rows : w->n_src == 1 ? w->rows : source->rows(source->user, w->src[s]);
            fx_adapter_pair pair;

            if (source->find(source->user, w->src[s], &pair))
                FX_TRY(add_part(a, p, i, s, col0, n, &pair, err));
            col0 += n;
        }
    }
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
    a->kernel = fx_matmul_find(FX_F32, FX_ACT_F32, 16, &p->cpu);
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
    for (size_t i = 0; i < a->parts.n; i++) {
        fx_pages_free(a->parts.at[i].a, a->parts.at[i].a_bytes);
        fx_pages_free(a->parts.at[i].b, a->parts.at[i].b_bytes);
    }
    FX_VEC_FREE(&a->parts, a->mem);
    fx_mem_free(a->mem, a, sizeof *a);
}
