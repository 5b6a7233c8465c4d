/* adapter_run.c - what adapters add to a product, computed before it.
 *
 * Phase 0, a task an item (rows that share an adapter x one source tensor): t = x A^T.
 * Phase 1, a task an item and a stretch of columns: delta = scale * t B^T.
 * Both are ordinary f32 products, so a row's bits don't depend on its batch mates. */
#include <string.h>

#include "runtime/adapter_int.h"

enum { MAX_PARTS = FX_PLAN_MAX_SRC, STRETCH = 16 /* tiles */ };

struct fx_adapting {
    const fx_program *program;
    const fx_mem *mem;
    int64_t max_rows, max_n;
    fx_adapter_run *runs[2];     /* by fx_rows_of: [max_rows] */
    int32_t n_runs[2];
    fx_adapter_item *items;      /* [max_rows * MAX_PARTS] */
    const float **rows;          /* [max_rows] addend of each row */
    float *t, *delta;            /* [max_rows][t_ld], [max_rows][max_n] */
    int64_t t_ld;
    /* The product at hand. */
    int64_t n_items, stretches, n;
    fx_cmat plain;
    fx_epilogue store;
    uint8_t *scratch;
    size_t scratch_each;
};

static int64_t widest(const fx_program *p, bool rows)
{
    int64_t n = 16;

    for (int32_t i = 0; i < p->plan->n_weights; i++) {
        const fx_plan_weight *w = &p->plan->weights[i];
        if (w->use == FX_USE_MATMUL && !w->experts)
            n = FX_MAX(n, rows ? w->rows : w->cols);
    }
    return n;
}

fx_status fx_adapting_new(fx_adapting **out, const fx_program *p, int64_t max_rows, size_t *scratch, fx_error *err)
{
    fx_adapting *x;
    const fx_matmul_kernel *kernel = fx_matmul_find(FX_F32, FX_ACT_F32, 16, &p->cpu);
    fx_matmul_args widest_args = { .n_rows = max_rows, .n = 16, .k = FX_MAX(widest(p, false), FX_ADAPTER_MAX_RANK) };

    *out = NULL;
    if (!p->adapters)
        return FORNAX_OK;
    x = fx_mem_zalloc(p->mem, sizeof *x);
    if (!x)
        return fx_nomem(err, "adapters");
    *x = (fx_adapting){ .program = p, .mem = p->mem, .max_rows = max_rows, .max_n = FX_ROUND_UP(widest(p, true), 16),
                        .t_ld = MAX_PARTS * FX_ADAPTER_MAX_RANK };
    *scratch = FX_MAX(*scratch, kernel && kernel->scratch_bytes ? kernel->scratch_bytes(&widest_args) : 0);
    for (int i = 0; i < 2; i++)
        x->runs[i] = fx_mem_array(x->mem, (size_t)max_rows, sizeof *x->runs[i]);
    x->items = fx_mem_array(x->mem, (size_t)max_rows * MAX_PARTS, sizeof *x->items);
    x->rows = fx_mem_array(x->mem, (size_t)max_rows, sizeof *x->rows);
    x->t = fx_pages_alloc((size_t)(max_rows * x->t_ld) * sizeof *x->t);
    x->delta = fx_pages_alloc((size_t)(max_rows * x->max_n) * sizeof *x->delta);
    if (!x->runs[0] || !x->runs[1] || !x->items || !x->rows || !x->t || !x->delta) {
        fx_adapting_free(x);
        return fx_nomem(err, "adapters");
    }
    *out = x;
    return FORNAX_OK;
}

void fx_adapting_free(fx_adapting *x)
{
    if (!x)
        return;
    for (int i = 0; i < 2; i++)
        fx_mem_free(x->mem, x->runs[i], (size_t)x->max_rows * sizeof *x->runs[i]);
    fx_mem_free(x->mem, x->items, (size_t)x->max_rows * MAX_PARTS * sizeof *x->items);
    fx_mem_free(x->mem, x->rows, (size_t)x->max_rows * sizeof *x->rows);
    fx_pages_free(x->t, (size_t)(x->max_rows * x->t_ld) * sizeof *x->t);
    fx_pages_free(x->delta, (size_t)(x->max_rows * x->max_n) * sizeof *x->delta);
    fx_mem_free(x->mem, x, sizeof *x);
}

static void add_row(fx_adapting *x, fx_rows_of space, int32_t row, const fx_step *s, int32_t seq)
{
    int32_t *n = &x->n_runs[space];
    fx_adapter_run *last = *n ? &x->runs[space][*n - 1] : NULL;
    const fx_adapter *a = s->seqs[seq].adapter >= 0 ? s->adapters[s->seqs[seq].adapter] : NULL;

    if (!a)
        return;
    if (last && last->adapter == a && last->row0 + last->n == row)
        last->n++;
    else
        x->runs[space][(*n)++] = (fx_adapter_run){ row, 1, a };
}

void fx_adapting_begin(fx_adapting *x, const fx_step *s)
{
    x->n_runs[0] = x->n_runs[1] = 0;
    if (!s->adapters)
        return;
    for (int32_t q = 0; q < s->n_seqs; q++) {
        for (int32_t r = 0; r < s->seqs[q].n_rows; r++)
            add_row(x, FX_ROWS_STEP, s->seqs[q].row0 + r, s, q);
    }
    for (int32_t i = 0; i < s->n_logits; i++)
        add_row(x, FX_ROWS_LOGITS, i, s, s->seq[s->logit_rows[i]]);
}

bool fx_adapting_product(fx_adapting *x, int32_t weight, fx_rows_of space, fx_cmat plain, int64_t n)
{
    int64_t widest_part = 0;

    x->n_items = 0;
    if (!x->n_runs[space])
        return false;
    memset(x->rows, 0, (size_t)x->max_rows * sizeof *x->rows);
    for (int32_t r = 0; r < x->n_runs[space]; r++) {
        const fx_adapter_run *run = &x->runs[space][r];
        int64_t t_col = 0;
        bool first = true;

        for (size_t p = 0; p < run->adapter->parts.n; p++) {
            const fx_adapter_part *part = &run->adapter->parts.at[p];
            if (part->weight != weight)
                continue;
            x->items[x->n_items++] = (fx_adapter_item){ run, part, first, t_col };
            t_col += part->rank;
            widest_part = FX_MAX(widest_part, part->n);
            first = false;
        }
        for (int32_t i = 0; !first && i < run->n; i++)
            x->rows[run->row0 + i] = x->delta + (run->row0 + i) * x->max_n;
    }
    x->plain = plain;
    x->n = n;
    x->stretches = FX_DIV_UP(FX_DIV_UP(widest_part, 16), STRETCH);
    x->store = (fx_epilogue){ .fn = fx_epilogue_find(&x->program->cpu), .scale = 1 };
    return x->n_items > 0;
}

static void inner_product(void *user, int64_t t0, int64_t t1, int worker)
{
    const fx_adapting *x = user;

    for (int64_t i = t0; i < t1; i++) {
        const fx_adapter_item *it = &x->items[i];
        const fx_adapter_run *run = it->run;
        fx_matmul_args a = { .x = { x->plain.p + run->row0 * x->plain.ld, x->plain.ld }, .w = it->part->a,
                             .tile_bytes = it->part->a_tile, .n_rows = run->n, .n = it->part->rank, .k = it->part->k,
                             .epi = x->store };

        a.epi.y = (fx_mat){ x->t + run->row0 * x->t_ld + it->t_col, x->t_ld };
        run->adapter->kernel->run(&a, 0, fx_matmul_tasks(&a), x->scratch + (size_t)worker * x->scratch_each);
        for (int32_t r = 0; it->first && r < run->n; r++)       /* columns that no part reaches */
            memset(x->delta + (run->row0 + r) * x->max_n, 0, (size_t)x->n * sizeof(float));
    }
}

static void outer_product(void *user, int64_t t0, int64_t t1, int worker)
{
    const fx_adapting *x = user;

    for (int64_t i = t0; i < t1; i++) {
        const fx_adapter_item *it = &x->items[i / x->stretches];
        const fx_adapter_run *run = it->run;
        fx_matmul_args a = { .x = { x->t + run->row0 * x->t_ld + it->t_col, x->t_ld }, .w = it->part->b,
                             .tile_bytes = it->part->b_tile, .n_rows = run->n, .n = it->part->n, .k = it->part->rank,
                             .epi = x->store };
        int64_t from = i % x->stretches * STRETCH, to = FX_MIN(from + STRETCH, fx_matmul_tasks(&a));

        a.epi.y = (fx_mat){ x->delta + run->row0 * x->max_n + it->part->col0, x->max_n };
        a.epi.scale = it->part->scale;
        if (from < to)
            run->adapter->kernel->run(&a, from, to, x->scratch + (size_t)worker * x->scratch_each);
    }
}

void fx_adapting_job(fx_adapting *x, int phase, void *scratch, size_t scratch_each, fx_pool_job *job)
{
    x->scratch = scratch;
    x->scratch_each = scratch_each;
    *job = (fx_pool_job){ .fn = phase ? outer_product : inner_product, .user = x, .grain = 1,
                          .n_tasks = phase ? x->n_items * x->stretches : x->n_items };
}

const float *fx_adapting_row(const fx_adapting *x, int64_t row) { return x->rows[row]; }
