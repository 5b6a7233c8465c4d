/* adapter_run.c - what adapters add to a launch, computed beside it.
 *
 * An item is rows that share an adapter's part: of a product, of an expert (one slot), of a table (one row).
 * Inner: t = x A^T, a task an item.  Outer: delta = scale * t B^T, a task an item and a stretch of columns.
 * Both are ordinary f32 products, so a row's bits don't depend on its batch mates.  What a product
 * adds lies in delta until its epilogue takes it; what a table's rows get goes straight to them. */
#include <string.h>

#include "kernels/experts.h"
#include "runtime/adapter_int.h"

enum { MAX_PARTS = FX_PLAN_MAX_SRC, STRETCH = 16 /* tiles */, ITEM_ROWS = 64 };

/* Rows of a step that share an adapter, few enough that threads find work. */
typedef struct run {
    int32_t row0, n;
    const fx_adapter *adapter;
} run;

typedef struct item {
    const fx_adapter_part *part;
    const fx_matmul_kernel *kernel;
    fx_cmat x, t;
    fx_mat y;                    /* where delta, or the table's row, begins */
    int64_t n_rows, clear;       /* columns of y to clear first */
} item;

struct fx_adapting {
    const fx_program *program;
    const fx_mem *mem;
    int64_t max_rows, max_slots, max_items;
    size_t t_floats, delta_floats;
    run *runs[2];                /* by fx_rows_of: [max_rows] */
    int32_t n_runs[2];
    const fx_adapter **of_row[2];        /* [max_rows] */
    item *items;                 /* [max_items] */
    const float **addend;        /* [max_slots] of each row or slot; NULL: none */
    float *t, *delta;
    const int32_t *token, *pos;  /* of the step's rows */
    /* The launch at hand. */
    int64_t n_items, stretches;
    bool adds;                   /* to y, which has something already */
    float factor;
    fx_epilogue store;
    uint8_t *scratch;
    size_t scratch_each;
};

/* ---- Room ---- */

/* What the widest launches need. */
static void measure(fx_adapting *x, const fx_program *p)
{
    int64_t t_cols = MAX_PARTS * FX_ADAPTER_MAX_RANK;

    x->max_slots = x->max_rows;
    x->t_floats = (size_t)(x->max_rows * t_cols);
    for (int32_t i = 0; i < p->plan->n_launches; i++) {
        const fx_launch *l = &p->plan->launches[i];
        int64_t slots = x->max_rows * (l->op == FX_L_EXPERT_MATMUL ? l->args.experts.top : 1);
        int64_t cols = l->op == FX_L_EXPERT_MATMUL ? l->args.experts.m.n : l->op == FX_L_MATMUL ? l->args.matmul.n : 0;

        if (l->op == FX_L_EXPERT_MATMUL)
            x->t_floats = FX_MAX(x->t_floats, (size_t)(slots * FX_ADAPTER_MAX_RANK));
        x->max_slots = FX_MAX(x->max_slots, slots);
        x->delta_floats = FX_MAX(x->delta_floats, (size_t)(slots * FX_ROUND_UP(cols, 16)));
    }
    x->delta_floats = FX_MAX(x->delta_floats, (size_t)16);
    x->max_items = FX_MAX(x->max_rows * MAX_PARTS, x->max_slots);
}

static int64_t widest(const fx_program *p)
{
    int64_t n = FX_ADAPTER_MAX_RANK;

    for (int32_t i = 0; i < p->plan->n_weights; i++) {
        if (p->plan->weights[i].use == FX_USE_MATMUL)
            n = FX_MAX(n, p->plan->weights[i].cols);
    }
    return n;
}

fx_status fx_adapting_new(fx_adapting **out, const fx_program *p, int64_t max_rows, size_t *scratch, fx_error *err)
{
    fx_adapting *x;
    const fx_matmul_kernel *kernel = fx_matmul_find(FX_F32, FX_ACT_F32, 16, &p->cpu);
    fx_matmul_args widest_args = { .n_rows = max_rows, .n = 16, .k = widest(p) };
    bool whole;

    *out = NULL;
    if (!p->adapters)
        return FORNAX_OK;
    x = fx_mem_zalloc(p->mem, sizeof *x);
    if (!x)
        return fx_nomem(err, "adapters");
    *x = (fx_adapting){ .program = p, .mem = p->mem, .max_rows = max_rows };
    measure(x, p);
    *scratch = FX_MAX(*scratch, kernel && kernel->scratch_bytes ? kernel->scratch_bytes(&widest_args) : 0);
    x->items = fx_mem_array(x->mem, (size_t)x->max_items, sizeof *x->items);
    x->addend = fx_mem_array(x->mem, (size_t)x->max_slots, sizeof *x->addend);
    x->t = fx_pages_alloc(x->t_floats * sizeof *x->t);
    x->delta = fx_pages_alloc(x->delta_floats * sizeof *x->delta);
    whole = x->items && x->addend && x->t && x->delta;
    for (int i = 0; i < 2; i++) {
        x->runs[i] = fx_mem_array(x->mem, (size_t)max_rows, sizeof *x->runs[i]);
        x->of_row[i] = fx_mem_array(x->mem, (size_t)max_rows, sizeof *x->of_row[i]);
        whole = whole && x->runs[i] && x->of_row[i];
    }
    if (!whole) {
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
    for (int i = 0; i < 2; i++) {
        fx_mem_free(x->mem, x->runs[i], (size_t)x->max_rows * sizeof *x->runs[i]);
        fx_mem_free(x->mem, x->of_row[i], (size_t)x->max_rows * sizeof *x->of_row[i]);
    }
    fx_mem_free(x->mem, x->items, (size_t)x->max_items * sizeof *x->items);
    fx_mem_free(x->mem, x->addend, (size_t)x->max_slots * sizeof *x->addend);
    fx_pages_free(x->t, x->t_floats * sizeof *x->t);
    fx_pages_free(x->delta, x->delta_floats * sizeof *x->delta);
    fx_mem_free(x->mem, x, sizeof *x);
}

/* ---- The rows of a step ---- */

static void add_row(fx_adapting *x, fx_rows_of space, int32_t row, const fx_step *s, int32_t seq)
{
    int32_t *n = &x->n_runs[space];
    run *last = *n ? &x->runs[space][*n - 1] : NULL;
    const fx_adapter *a = s->seqs[seq].adapter >= 0 ? s->adapters[s->seqs[seq].adapter] : NULL;

    x->of_row[space][row] = a;
    if (!a)
        return;
    if (last && last->adapter == a && last->row0 + last->n == row && last->n < ITEM_ROWS)
        last->n++;
    else
        x->runs[space][(*n)++] = (run){ row, 1, a };
}

void fx_adapting_begin(fx_adapting *x, const fx_step *s)
{
    x->n_runs[0] = x->n_runs[1] = 0;
    x->token = s->token;
    x->pos = s->pos;
    if (!s->adapters)
        return;
    for (int32_t q = 0; q < s->n_seqs; q++) {
        for (int32_t r = 0; r < s->seqs[q].n_rows; r++)
            add_row(x, FX_ROWS_STEP, s->seqs[q].row0 + r, s, q);
    }
    for (int32_t i = 0; i < s->n_logits; i++)
        add_row(x, FX_ROWS_LOGITS, i, s, s->seq[s->logit_rows[i]]);
}

bool fx_adapting_any(const fx_adapting *x) { return x->n_runs[FX_ROWS_STEP] || x->n_runs[FX_ROWS_LOGITS]; }

/* ---- Items ---- */

static void begin_launch(fx_adapting *x, bool adds, float factor)
{
    x->n_items = 0;
    x->stretches = 0;
    x->adds = adds;
    x->factor = factor;
    x->store = (fx_epilogue){ .fn = fx_epilogue_find(&x->program->cpu), .scale = 1 };
}

static void push_item(fx_adapting *x, const item *it)
{
    x->items[x->n_items++] = *it;
    x->stretches = FX_MAX(x->stretches, FX_DIV_UP(FX_DIV_UP(it->part->n, 16), STRETCH));
}

bool fx_adapting_product(fx_adapting *x, const fx_launch *l, fx_cmat plain, const float *const **addend)
{
    int64_t n = l->args.matmul.n, ld = FX_ROUND_UP(n, 16), t_ld = MAX_PARTS * FX_ADAPTER_MAX_RANK;
    int32_t weight = l->in[1].index;

    if (!x->n_runs[l->rows])
        return false;
    begin_launch(x, false, 1);
    memset(x->addend, 0, (size_t)x->max_rows * sizeof *x->addend);
    for (int32_t r = 0; r < x->n_runs[l->rows]; r++) {
        const run *at = &x->runs[l->rows][r];
        const fx_adapter *a = at->adapter;
        float *delta = x->delta + at->row0 * ld;
        int64_t t_col = 0;

        for (int32_t p = a->first[weight]; p < a->first[weight + 1]; p++) {
            const fx_adapter_part *part = &a->parts.at[p];
            bool first = p == a->first[weight];

            push_item(x, &(item){ part, a->kernel, { plain.p + at->row0 * plain.ld, plain.ld },
                                  { x->t + at->row0 * t_ld + t_col, t_ld }, { delta + part->col0, ld }, at->n, first ? n : 0 });
            t_col += part->rank;
        }
        for (int32_t i = 0; t_col && i < at->n; i++)
            x->addend[at->row0 + i] = delta + i * ld;
    }
    *addend = x->addend;
    return x->n_items > 0;
}

bool fx_adapting_experts(fx_adapting *x, const fx_launch *l, fx_cmat plain, const float *const **addend)
{
    const fx_expert_matmul_args *m = &l->args.experts;
    fx_experts_table t = fx_experts_table_of(m->table.p, m->n_rows, m->experts, m->top);
    int64_t ld = FX_ROUND_UP(m->m.n, 16);

    if (!x->n_runs[l->rows])
        return false;
    begin_launch(x, false, 1);
    memset(x->addend, 0, (size_t)(m->n_rows * m->top) * sizeof *x->addend);
    for (int32_t i = 0; i < *t.used; i++) {
        for (int32_t s = t.first[t.expert[i]]; s < t.first[t.expert[i] + 1]; s++) {
            int32_t row = t.entry[s] / m->top;
            const fx_adapter *a = x->of_row[l->rows][row];
            const fx_adapter_part *part = a ? &a->parts.at[a->first[l->in[1].index] + t.expert[i]] : NULL;

            if (!part || !part->rank)
                continue;
            push_item(x, &(item){ part, a->kernel, { plain.p + (m->x_slots ? s : row) * plain.ld, plain.ld },
                                  { x->t + (int64_t)s * FX_ADAPTER_MAX_RANK, FX_ADAPTER_MAX_RANK }, { x->delta + s * ld, ld }, 1, 0 });
            x->addend[s] = x->delta + s * ld;
        }
    }
    *addend = x->addend;
    return x->n_items > 0;
}

bool fx_adapting_table(fx_adapting *x, const fx_launch *l)
{
    const fx_embed_args *e = &l->args.embed;
    const int32_t *at = e->by_position ? x->pos : x->token;

    begin_launch(x, true, e->scale);
    for (int32_t r = 0; r < x->n_runs[l->rows]; r++) {
        const run *rows = &x->runs[l->rows][r];
        const fx_adapter *a = rows->adapter;
        const fx_adapter_part *part = &a->parts.at[a->first[l->in[0].index]];

        if (a->first[l->in[0].index] == a->first[l->in[0].index + 1])
            continue;
        for (int32_t i = rows->row0; i < rows->row0 + rows->n; i++)
            push_item(x, &(item){ part, a->kernel, { 0 }, { (const float *)(const void *)part->a + at[i] * part->rank, part->rank },
                                  { e->y.p + i * e->y.ld, e->y.ld }, 1, 0 });
    }
    return x->n_items > 0;
}

/* ---- Jobs ---- */

static void inner_product(void *user, int64_t t0, int64_t t1, int worker)
{
    const fx_adapting *x = user;

    for (int64_t i = t0; i < t1; i++) {
        const item *it = &x->items[i];
        fx_matmul_args a = { .x = it->x, .w = it->part->a, .tile_bytes = it->part->a_tile, .n_rows = it->n_rows,
                             .n = it->part->rank, .k = it->part->k, .epi = x->store };

        a.epi.y = (fx_mat){ (float *)(uintptr_t)it->t.p, it->t.ld };
        it->kernel->run(&a, 0, fx_matmul_tasks(&a), x->scratch + (size_t)worker * x->scratch_each);
        for (int64_t r = 0; it->clear && r < it->n_rows; r++)        /* columns that no part reaches */
            memset(it->y.p - it->part->col0 + r * it->y.ld, 0, (size_t)it->clear * sizeof(float));
    }
}

static void outer_product(void *user, int64_t t0, int64_t t1, int worker)
{
    const fx_adapting *x = user;

    for (int64_t i = t0; i < t1; i++) {
        const item *it = &x->items[i / x->stretches];
        fx_matmul_args a = { .x = it->t, .w = it->part->b, .tile_bytes = it->part->b_tile, .n_rows = it->n_rows,
                             .n = it->part->n, .k = it->part->rank, .epi = x->store };
        int64_t from = i % x->stretches * STRETCH, to = FX_MIN(from + STRETCH, fx_matmul_tasks(&a));

        a.epi.y = it->y;
        a.epi.scale = it->part->scale * x->factor;
        if (x->adds)
            a.epi.residual = (fx_cmat){ it->y.p, it->y.ld };
        if (from < to)
            it->kernel->run(&a, from, to, x->scratch + (size_t)worker * x->scratch_each);
    }
}

void fx_adapting_job(fx_adapting *x, fx_adapting_phase phase, void *scratch, size_t scratch_each, fx_pool_job *job)
{
    bool outer = phase == FX_ADAPTING_OUTER;

    x->scratch = scratch;
    x->scratch_each = scratch_each;
    *job = (fx_pool_job){ .fn = outer ? outer_product : inner_product, .user = x, .grain = 1,
                          .n_tasks = outer ? x->n_items * x->stretches : x->n_items };
}
