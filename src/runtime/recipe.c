/* recipe.c - what the bytes that a program owns are made of, as a hash.
 *
 * Two programs with equal recipes, whose files have equal content, would pack equal bytes: so the packed weights of one serve
 * the other. The recipe says of each weight which rows of which tensors it takes, the types on both sides, its place and
 * its kernel. How that kernel lays a tile out, and how a row is converted, is asked of the code itself: a made-up tile is
 * packed and hashed. A layout can thus change without a version number that somebody must remember. */
#include <string.h>

#include "runtime/program_int.h"

static void add(fx_buf *b, uint64_t x) { fx_buf_add(b, &x, sizeof x); }

static void add_text(fx_buf *b, fx_str s)
{
    add(b, s.n);
    fx_buf_str(b, s);
}

/* ---- Probes: what the code makes of bytes that hold no infinities ---- */

static void fill_pattern(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)((i * 37 + i / 61) & 0x3f);
}

static void add_hash(fx_buf *b, const void *p, size_t n)
{
    fx_hash128 h = fx_hash128_of(p, n, 0);

    fx_buf_add(b, &h, sizeof h);
}

/* A tile of rows of k. */
static void add_layout(fx_buf *b, const fx_program *p, const fx_matmul_kernel *kernel, int64_t k)
{
    size_t row = fx_dtype_row_bytes(kernel->weight, k), tile = kernel->tile_bytes(k);
    uint8_t *rows = fx_mem_alloc(p->mem, 16 * row), *out = fx_mem_zalloc(p->mem, tile + 64);
    const void *at[16];

    b->failed |= !rows || !out;
    if (!b->failed) {
        uint8_t *aligned = (uint8_t *)FX_ROUND_UP((uintptr_t)out, 64);

        fill_pattern(rows, 16 * row);
        for (size_t i = 0; i < 16; i++)
            at[i] = rows + i * row;
        kernel->pack(at, k, aligned);
        add_hash(b, aligned, tile);
    }
    fx_mem_free(p->mem, rows, 16 * row);
    fx_mem_free(p->mem, out, tile + 64);
}

/* A block of a type that is converted. */
static void add_conversion(fx_buf *b, fx_dtype from)
{
    enum { N = 256 };                    /* the longest block */
    _Alignas(16) uint8_t bytes[N * 8];
    float wide[N];

    fill_pattern(bytes, sizeof bytes);
    fx_dequantize_row(from, bytes, wide, N);
    add_hash(b, wide, sizeof wide);
}

/* ---- Weights ---- */

static void add_source(fx_buf *b, const fx_weight_source *source, fx_str name, fx_dtype held, bool *seen)
{
    fx_weight_view v = { 0 };

    if (!source->find(source->user, name, &v))
        return;                          /* laid out, so it is there */
    add_text(b, name);
    add(b, v.dtype);
    add(b, (uint64_t)v.rows);
    add(b, (uint64_t)v.cols);
    add(b, v.row_bytes);
    if (v.dtype != held && fx_dequantize_supports(v.dtype) && !seen[v.dtype]) {
        seen[v.dtype] = true;
        add_conversion(b, v.dtype);
    }
}

static void add_weight(fx_buf *b, const fx_plan_weight *w, const fx_bound_weight *bound)
{
    const uint64_t numbers[] = { w->use, (uint64_t)w->n_src, w->paired, (uint64_t)w->half, w->q8, w->dtype, (uint64_t)w->rows,
                                 (uint64_t)w->cols, (uint64_t)w->experts, w->layout, w->by_head, bound->dtype, bound->place,
                                 bound->owned_bytes, bound->row_bytes, bound->tile_bytes, bound->expert_bytes };

    fx_buf_add(b, numbers, sizeof numbers);
    for (int32_t i = 0; i < FX_PLAN_MAX_SRC; i++) {
        const fx_plan_part *t = &w->part[i];
        const uint64_t part[] = { (uint64_t)t->start, (uint64_t)t->rows, (uint64_t)t->run, (uint64_t)t->stride, t->transposed };

        fx_buf_add(b, part, sizeof part);
    }
    add_text(b, fx_str_of(bound->kernel ? bound->kernel->name : ""));
}

/* Was the kernel's layout added with an earlier weight? */
static bool seen_kernel(const fx_program *p, int32_t i)
{
    for (int32_t k = 0; k < i; k++)
        if (p->weights[k].kernel == p->weights[i].kernel)
            return true;
    return false;
}

fx_status fx_program_recipe(const fx_program *p, const fx_weight_source *source, fx_hash128 *out, fx_error *err)
{
    bool seen[FX_DTYPE_COUNT] = { false };
    fx_buf b;

    fx_buf_init(&b, p->mem);
    add(&b, (uint64_t)p->plan->n_weights);
    for (int32_t i = 0; i < p->plan->n_weights; i++) {
        const fx_plan_weight *w = &p->plan->weights[i];
        const fx_bound_weight *bound = &p->weights[i];

        if (!bound->owned_bytes)
            continue;
        add_weight(&b, w, bound);
        for (int32_t k = 0; k < w->n_src; k++)
            add_source(&b, source, w->experts ? w->expert_src[k] : w->src[k], bound->dtype, seen);
        if (bound->kernel && !seen_kernel(p, i))
            add_layout(&b, p, bound->kernel, w->cols);
    }
    *out = fx_hash128_of(b.p, b.n, 0);
    fx_buf_done(&b);
    return b.failed ? fx_nomem(err, "the weights' recipe") : FORNAX_OK;
}
