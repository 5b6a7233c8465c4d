/* exec.c - runs a program's plan on the pool.
 *
 * When an exec is made, every launch's argument struct is filled from one table
 * (binds[]): which slot goes to which field, and as what.  A step then only sets row
 * counts and the row table, and walks the list; nothing is allocated. */
#include <string.h>

#include "base/fpmode.h"
#include "kernels/quant.h"
#include "runtime/exec_int.h"

/* ---- The binding table ---- */

typedef enum bind_kind { BIND_MAT, BIND_Q8, BIND_VEC, BIND_TABLE, BIND_TILES } bind_kind;
enum { OUT = 8 };                /* slot OUT+i is out[i] */

typedef struct bind_row {
    fx_launch_op op;
    int slot;
    bind_kind kind;
    size_t at;                   /* offset in the argument struct */
} bind_row;

#define ROW(op, slot, kind, type, field) { op, slot, kind, offsetof(type, field) }
#define MAP_ROWS(op)                                    \
    ROW(op, 0, BIND_MAT, fx_map_args, a),               \
    ROW(op, 1, BIND_MAT, fx_map_args, b),               \
    ROW(op, OUT, BIND_MAT, fx_map_args, y)

static const bind_row binds[] = {
    ROW(FX_L_EMBED, 0, BIND_TABLE, fx_embed_args, table),
    ROW(FX_L_EMBED, OUT, BIND_MAT, fx_embed_args, y),
    ROW(FX_L_RMSNORM, 0, BIND_MAT, fx_rmsnorm_args, x),
    ROW(FX_L_RMSNORM, 1, BIND_MAT, fx_rmsnorm_args, residual),
    ROW(FX_L_RMSNORM, 2, BIND_VEC, fx_rmsnorm_args, w),
    ROW(FX_L_RMSNORM, OUT, BIND_MAT, fx_rmsnorm_args, sum),
    ROW(FX_L_RMSNORM, OUT + 1, BIND_MAT, fx_rmsnorm_args, y),
    ROW(FX_L_RMSNORM, OUT + 2, BIND_Q8, fx_rmsnorm_args, q8),
    ROW(FX_L_LAYERNORM, 0, BIND_MAT, fx_layernorm_args, x),
    ROW(FX_L_LAYERNORM, 1, BIND_VEC, fx_layernorm_args, w),
    ROW(FX_L_LAYERNORM, 2, BIND_VEC, fx_layernorm_args, b),
    ROW(FX_L_LAYERNORM, OUT, BIND_MAT, fx_layernorm_args, y),
    ROW(FX_L_QUANT, 0, BIND_MAT, fx_quant_args, x),
    ROW(FX_L_QUANT, OUT, BIND_Q8, fx_quant_args, q8),
    ROW(FX_L_MATMUL, 0, BIND_MAT, fx_matmul_args, x),
    ROW(FX_L_MATMUL, 0, BIND_Q8, fx_matmul_args, q8),
    ROW(FX_L_MATMUL, 1, BIND_TILES, fx_matmul_args, w),
    ROW(FX_L_MATMUL, 2, BIND_VEC, fx_matmul_args, epi.bias),
    ROW(FX_L_MATMUL, 3, BIND_MAT, fx_matmul_args, epi.residual),
    ROW(FX_L_MATMUL, OUT, BIND_MAT, fx_matmul_args, epi.y),
    ROW(FX_L_MATMUL, OUT + 1, BIND_Q8, fx_matmul_args, epi.q8),
    ROW(FX_L_ROPE_STORE, 0, BIND_MAT, fx_rope_store_args, q),
    ROW(FX_L_ROPE_STORE, 1, BIND_MAT, fx_rope_store_args, k),
    ROW(FX_L_ROPE_STORE, 2, BIND_MAT, fx_rope_store_args, v),
    ROW(FX_L_ROPE_STORE, 3, BIND_VEC, fx_rope_store_args, q_norm),
    ROW(FX_L_ROPE_STORE, 4, BIND_VEC, fx_rope_store_args, k_norm),
    ROW(FX_L_ROPE_STORE, 5, BIND_VEC, fx_rope_store_args, inv_freq),
    ROW(FX_L_ROPE_STORE, OUT, BIND_MAT, fx_rope_store_args, q_out),
    ROW(FX_L_ATTEND, 0, BIND_MAT, fx_attend_args, q),
    ROW(FX_L_ATTEND, 1, BIND_VEC, fx_attend_args, slopes),
    ROW(FX_L_ATTEND, 2, BIND_VEC, fx_attend_args, sinks),
    ROW(FX_L_ATTEND, OUT, BIND_MAT, fx_attend_args, out),
    ROW(FX_L_ATTEND, OUT + 1, BIND_Q8, fx_attend_args, q8),
    ROW(FX_L_GATHER, 0, BIND_MAT, fx_gather_args, x),
    ROW(FX_L_GATHER, OUT, BIND_MAT, fx_gather_args, y),
    MAP_ROWS(FX_L_ADD), MAP_ROWS(FX_L_MUL), MAP_ROWS(FX_L_SCALE), MAP_ROWS(FX_L_SILU), MAP_ROWS(FX_L_GELU),
    MAP_ROWS(FX_L_GELU_TANH), MAP_ROWS(FX_L_RELU), MAP_ROWS(FX_L_RELU2), MAP_ROWS(FX_L_CLAMP),
    MAP_ROWS(FX_L_SIGMOID), MAP_ROWS(FX_L_TANH),
    MAP_ROWS(FX_L_SWIGLU),
    ROW(FX_L_CONV1D, 0, BIND_MAT, fx_conv1d_args, x),
    ROW(FX_L_CONV1D, 1, BIND_VEC, fx_conv1d_args, w),
    ROW(FX_L_CONV1D, 2, BIND_VEC, fx_conv1d_args, bias),
    ROW(FX_L_CONV1D, OUT, BIND_MAT, fx_conv1d_args, y),
    ROW(FX_L_SSM_SCAN, 0, BIND_MAT, fx_ssm_scan_args, x),
    ROW(FX_L_SSM_SCAN, 1, BIND_MAT, fx_ssm_scan_args, dt),
    ROW(FX_L_SSM_SCAN, 2, BIND_MAT, fx_ssm_scan_args, b),
    ROW(FX_L_SSM_SCAN, 3, BIND_MAT, fx_ssm_scan_args, c),
    ROW(FX_L_SSM_SCAN, 4, BIND_VEC, fx_ssm_scan_args, a),
    ROW(FX_L_SSM_SCAN, 5, BIND_VEC, fx_ssm_scan_args, d),
    ROW(FX_L_SSM_SCAN, 6, BIND_VEC, fx_ssm_scan_args, dt_bias),
    ROW(FX_L_SSM_SCAN, OUT, BIND_MAT, fx_ssm_scan_args, y),
    ROW(FX_L_DELTA_RULE, 0, BIND_MAT, fx_delta_rule_args, q),
    ROW(FX_L_DELTA_RULE, 1, BIND_MAT, fx_delta_rule_args, k),
    ROW(FX_L_DELTA_RULE, 2, BIND_MAT, fx_delta_rule_args, v),
    ROW(FX_L_DELTA_RULE, 3, BIND_MAT, fx_delta_rule_args, b),
    ROW(FX_L_DELTA_RULE, 4, BIND_MAT, fx_delta_rule_args, a),
    ROW(FX_L_DELTA_RULE, 5, BIND_VEC, fx_delta_rule_args, a_log),
    ROW(FX_L_DELTA_RULE, 6, BIND_VEC, fx_delta_rule_args, dt_bias),
    ROW(FX_L_DELTA_RULE, OUT, BIND_MAT, fx_delta_rule_args, y),
    ROW(FX_L_GATED_NORM, 0, BIND_MAT, fx_gated_norm_args, x),
    ROW(FX_L_GATED_NORM, 1, BIND_MAT, fx_gated_norm_args, z),
    ROW(FX_L_GATED_NORM, 2, BIND_VEC, fx_gated_norm_args, w),
    ROW(FX_L_GATED_NORM, OUT, BIND_MAT, fx_gated_norm_args, y),
    ROW(FX_L_SOFTMAX, 0, BIND_MAT, fx_softmax_args, x),
    ROW(FX_L_SOFTMAX, OUT, BIND_MAT, fx_softmax_args, y),
    ROW(FX_L_ROUTE, 0, BIND_MAT, fx_route_args, logits),
    ROW(FX_L_ROUTE, 1, BIND_VEC, fx_route_args, bias),
    ROW(FX_L_ROUTE, OUT, BIND_MAT, fx_route_args, y),
    ROW(FX_L_DISPATCH, 0, BIND_MAT, fx_dispatch_args, routes),
    ROW(FX_L_DISPATCH, OUT, BIND_MAT, fx_dispatch_args, table),
    ROW(FX_L_SLOTS, 0, BIND_MAT, fx_slots_args, x),
    ROW(FX_L_SLOTS, 1, BIND_MAT, fx_slots_args, table),
    ROW(FX_L_SLOTS, OUT, BIND_MAT, fx_slots_args, y),
    ROW(FX_L_SLOTS, OUT, BIND_Q8, fx_slots_args, q8),
    ROW(FX_L_EXPERT_MATMUL, 0, BIND_MAT, fx_expert_matmul_args, m.x),
    ROW(FX_L_EXPERT_MATMUL, 0, BIND_Q8, fx_expert_matmul_args, m.q8),
    ROW(FX_L_EXPERT_MATMUL, 1, BIND_TILES, fx_expert_matmul_args, m.w),
    ROW(FX_L_EXPERT_MATMUL, 2, BIND_VEC, fx_expert_matmul_args, m.epi.bias),
    ROW(FX_L_EXPERT_MATMUL, 3, BIND_MAT, fx_expert_matmul_args, table),
    ROW(FX_L_EXPERT_MATMUL, OUT, BIND_MAT, fx_expert_matmul_args, m.epi.y),
    ROW(FX_L_BY_HEAD, 0, BIND_MAT, fx_by_head_args, m.x),
    ROW(FX_L_BY_HEAD, 1, BIND_TILES, fx_by_head_args, m.w),
    ROW(FX_L_BY_HEAD, OUT, BIND_MAT, fx_by_head_args, m.epi.y),
    ROW(FX_L_GLU, 0, BIND_MAT, fx_glu_args, gate),
    ROW(FX_L_GLU, 1, BIND_MAT, fx_glu_args, up),
    ROW(FX_L_GLU, OUT, BIND_MAT, fx_glu_args, y),
    ROW(FX_L_COMBINE, 0, BIND_MAT, fx_combine_args, x),
    ROW(FX_L_COMBINE, 1, BIND_MAT, fx_combine_args, routes),
    ROW(FX_L_COMBINE, 2, BIND_MAT, fx_combine_args, table),
    ROW(FX_L_COMBINE, OUT, BIND_MAT, fx_combine_args, y),
    MAP_ROWS(FX_L_MUL_ROWS),
    ROW(FX_L_SPLICE, 0, BIND_MAT, fx_splice_args, a),
    ROW(FX_L_SPLICE, 1, BIND_MAT, fx_splice_args, b),
    ROW(FX_L_SPLICE, OUT, BIND_MAT, fx_splice_args, y),
};

/* Where an op's row count stands, and which kernel runs it (FX_K_OPS: a matmul). */
static const struct { fx_kernel_op kernel; size_t n_rows; } ops[FX_L_OPS] = {
    [FX_L_EMBED] = { FX_K_EMBED, offsetof(fx_embed_args, n_rows) },
    [FX_L_RMSNORM] = { FX_K_RMSNORM, offsetof(fx_rmsnorm_args, n_rows) },
    [FX_L_LAYERNORM] = { FX_K_LAYERNORM, offsetof(fx_layernorm_args, n_rows) },
    [FX_L_QUANT] = { FX_K_QUANT, offsetof(fx_quant_args, n_rows) },
    [FX_L_MATMUL] = { FX_K_OPS, offsetof(fx_matmul_args, n_rows) },
    [FX_L_ROPE_STORE] = { FX_K_ROPE_STORE, SIZE_MAX },
    [FX_L_ATTEND] = { FX_K_ATTEND, SIZE_MAX },
    [FX_L_GATHER] = { FX_K_GATHER, offsetof(fx_gather_args, n_rows) },
    [FX_L_ADD] = { FX_K_ADD, offsetof(fx_map_args, n_rows) },
    [FX_L_MUL] = { FX_K_MUL, offsetof(fx_map_args, n_rows) },
    [FX_L_SCALE] = { FX_K_SCALE, offsetof(fx_map_args, n_rows) },
    [FX_L_SILU] = { FX_K_SILU, offsetof(fx_map_args, n_rows) },
    [FX_L_GELU] = { FX_K_GELU, offsetof(fx_map_args, n_rows) },
    [FX_L_GELU_TANH] = { FX_K_GELU_TANH, offsetof(fx_map_args, n_rows) },
    [FX_L_RELU] = { FX_K_RELU, offsetof(fx_map_args, n_rows) },
    [FX_L_RELU2] = { FX_K_RELU2, offsetof(fx_map_args, n_rows) },
    [FX_L_CLAMP] = { FX_K_CLAMP, offsetof(fx_map_args, n_rows) },
    [FX_L_SIGMOID] = { FX_K_SIGMOID, offsetof(fx_map_args, n_rows) },
    [FX_L_TANH] = { FX_K_TANH, offsetof(fx_map_args, n_rows) },
    [FX_L_SWIGLU] = { FX_K_SWIGLU, offsetof(fx_map_args, n_rows) },
    [FX_L_CONV1D] = { FX_K_CONV1D, SIZE_MAX },
    [FX_L_SSM_SCAN] = { FX_K_SSM_SCAN, SIZE_MAX },
    [FX_L_DELTA_RULE] = { FX_K_DELTA_RULE, SIZE_MAX },
    [FX_L_GATED_NORM] = { FX_K_GATED_NORM, offsetof(fx_gated_norm_args, n_rows) },
    [FX_L_SOFTMAX] = { FX_K_SOFTMAX, offsetof(fx_softmax_args, n_rows) },
    [FX_L_ROUTE] = { FX_K_ROUTE, offsetof(fx_route_args, n_rows) },
    [FX_L_DISPATCH] = { FX_K_DISPATCH, offsetof(fx_dispatch_args, n_rows) },
    [FX_L_SLOTS] = { FX_K_SLOTS, offsetof(fx_slots_args, n_rows) },
    [FX_L_EXPERT_MATMUL] = { FX_K_EXPERT_MATMUL, offsetof(fx_expert_matmul_args, n_rows) },
    [FX_L_BY_HEAD] = { FX_K_BY_HEAD, offsetof(fx_by_head_args, n_rows) },
    [FX_L_GLU] = { FX_K_GLU, offsetof(fx_glu_args, n_rows) },
    [FX_L_COMBINE] = { FX_K_COMBINE, offsetof(fx_combine_args, n_rows) },
    [FX_L_MUL_ROWS] = { FX_K_MUL_ROWS, offsetof(fx_map_args, n_rows) },
    [FX_L_SPLICE] = { FX_K_SPLICE, offsetof(fx_splice_args, n_rows) },
};

/* ---- Binding ---- */

static void *buf_at(const fx_exec *x, int32_t i) { return x->buffers + x->plan.bufs[i].offset; }

static const float *vector_of(const fx_exec *x, const fx_ref *r)
{
    if (r->kind == FX_REF_CONST)
        return x->plan.consts[r->index].at;
    FX_ASSERT(r->kind == FX_REF_WEIGHT && x->plan.weights[r->index].use == FX_USE_VECTOR);
    return x->program->weights[r->index].data;
}

static void bind_slot(fx_exec *x, fx_exec_launch *e, const bind_row *b)
{
    const fx_ref *r = b->slot >= OUT ? &e->l.out[b->slot - OUT] : &e->l.in[b->slot];
    char *at = (char *)&e->l.args + b->at;
    bool q8 = r->kind == FX_REF_BUF && x->plan.bufs[r->index].q8;

    if (r->kind == FX_REF_NONE || (b->kind == BIND_Q8) != q8)
        return;
    switch (b->kind) {
    case BIND_MAT:
        if (r->kind != FX_REF_BUF) {     /* one row for all */
            *(fx_cmat *)(void *)at = (fx_cmat){ vector_of(x, r), 0 };
            break;
        }
        *(fx_mat *)(void *)at = (fx_mat){ (float *)buf_at(x, r->index) + r->col, x->plan.bufs[r->index].cols };
        break;
    case BIND_Q8:
        *(fx_q8 *)(void *)at = (fx_q8){ buf_at(x, r->index), x->plan.bufs[r->index].cols };
        break;
    case BIND_VEC:
        *(const float **)(void *)at = vector_of(x, r);
        break;
    case BIND_TABLE: {
        const fx_bound_weight *w = &x->program->weights[r->index];
        *(const void **)(void *)at = w->data;
        e->l.args.embed.dtype = w->dtype;
        e->l.args.embed.row_bytes = w->row_bytes;
        break;
    }
    case BIND_TILES: {
        const fx_bound_weight *w = &x->program->weights[r->index];
        fx_matmul_args *a = &e->l.args.matmul;
        a->w = w->data;
        a->tile_bytes = w->tile_bytes;
        a->paired = x->plan.weights[r->index].paired;
        if (!a->epi.fn)
            a->epi.fn = fx_epilogue_find(&x->program->cpu);
        break;
    }
    }
}

static void bind_state(fx_exec *x, fx_exec_launch *e)
{
    const fx_state_table *s = &x->program->state;
    const fx_state_layer *layer = e->l.layer >= 0 ? &s->layers[e->l.layer] : NULL;

    if (e->l.op == FX_L_ROPE_STORE) {
        e->l.args.rope_store.kv_dtype = s->kv_dtype;
        e->l.args.rope_store.column = layer->column;
        e->l.args.rope_store.k_offset = layer->k_offset;
        e->l.args.rope_store.v_offset = layer->v_offset;
    } else if (e->l.op == FX_L_ATTEND) {
        e->l.args.attend.kv_dtype = s->kv_dtype;
        e->l.args.attend.column = layer->column;
        e->l.args.attend.k_offset = layer->k_offset;
        e->l.args.attend.v_offset = layer->v_offset;
        e->l.args.attend.shared = x->shared;
        e->l.args.attend.shared_bytes = FX_ATTEND_SHARED;
    } else if (e->l.op == FX_L_CONV1D) {
        e->l.args.conv1d.offset = layer->conv_offset;
    } else if (e->l.op == FX_L_SSM_SCAN) {
        e->l.args.ssm_scan.offset = layer->scan_offset;
    } else if (e->l.op == FX_L_DELTA_RULE) {
        e->l.args.delta_rule.offset = layer->scan_offset;
    }
}

/* Buffers of slots hold 'top' of them in each row. The matmul arguments stand first in the experts'
 * (BIND_TILES fills them there). */
_Static_assert(offsetof(fx_expert_matmul_args, m) == 0, "a launch of experts begins as one of a product");

_Static_assert(offsetof(fx_by_head_args, m) == 0, "so does one of heads");

static void bind_heads(fx_exec *x, fx_exec_launch *e)
{
    const fx_bound_weight *w = &x->program->weights[e->l.in[1].index];
    fx_by_head_args *a = &e->l.args.by_head;

    a->head_bytes = w->expert_bytes;
    a->run = w->kernel->run;
    a->scratch_bytes = w->kernel->scratch_bytes;
}

static void bind_experts(fx_exec *x, fx_exec_launch *e)
{
    fx_expert_matmul_args *a = &e->l.args.experts;
    const fx_bound_weight *w;

    if (e->l.op == FX_L_SLOTS)
        e->l.args.slots.q8.k = e->l.args.slots.dim;
    if (e->l.op == FX_L_BY_HEAD)
        bind_heads(x, e);
    if (e->l.op != FX_L_EXPERT_MATMUL)
        return;
    w = &x->program->weights[e->l.in[1].index];
    a->expert_bytes = w->expert_bytes;
    a->run = w->kernel->run;
    a->scratch_bytes = w->kernel->scratch_bytes;
    a->m.x.ld = a->m.q8.k = a->m.k;
    a->m.epi.y.ld = a->m.n;
}

/* A task is the tiles that belong together: of a product that rounds what it makes, those of a block. */
static int64_t matmul_tasks(const void *args) { return FX_DIV_UP(fx_matmul_tasks(args), fx_matmul_tiles(args)); }

static void run_matmul(const fx_matmul_kernel *k, const fx_matmul_args *a, int64_t t0, int64_t t1, void *scratch)
{
    int64_t tiles = fx_matmul_tiles(a);

    k->run(a, t0 * tiles, FX_MIN(t1 * tiles, fx_matmul_tasks(a)), scratch);
}

static void bind_rounding(const fx_exec *x, fx_exec_launch *e)
{
    fx_epilogue *epi = &e->l.args.matmul.epi;

    epi->store = epi->fn;
    epi->fn = fx_epilogue_round;
    epi->put = fx_q8_put_find(&x->program->cpu);
    epi->n_rows = &e->l.args.matmul.n_rows;
}

static void set_rows(fx_exec_launch *e, int64_t n_rows)
{
    size_t at = ops[e->l.op].n_rows;

    if (at != SIZE_MAX)
        *(int64_t *)(void *)((char *)&e->l.args + at) = n_rows;
}

static void set_step(fx_exec_launch *e, const fx_step *s)
{
    switch (e->l.op) {
    case FX_L_EMBED: e->l.args.embed.token = e->l.args.embed.by_position ? s->pos : s->token; break;
    case FX_L_ROPE_STORE: e->l.args.rope_store.step = s; break;
    case FX_L_ATTEND: e->l.args.attend.step = s; break;
    case FX_L_CONV1D: e->l.args.conv1d.step = s; break;
    case FX_L_SSM_SCAN: e->l.args.ssm_scan.step = s; break;
    case FX_L_DELTA_RULE: e->l.args.delta_rule.step = s; break;
    case FX_L_GATHER: e->l.args.gather.rows = s->logit_rows; break;
    default: break;
    }
}

/* What a step with the most rows needs a worker for itself. */
static size_t scratch_of(const fx_exec *x, fx_exec_launch *e, const fx_step *widest)
{
    const fx_program *p = x->program;

    set_rows(e, e->l.rows == FX_ROWS_STEP ? x->max_rows : x->max_logits);
    if (ops[e->l.op].kernel == FX_K_OPS) {
        const fx_matmul_kernel *k = p->weights[e->l.in[1].index].kernel;
        return k->scratch_bytes ? k->scratch_bytes(&e->l.args.matmul) : 0;
    }
    set_step(e, widest);
    const fx_kernel *k = fx_kernel_find(ops[e->l.op].kernel, &p->cpu);
    return k->scratch_bytes ? k->scratch_bytes(&e->l.args) : 0;
}

static void bind_launch(fx_exec *x, fx_exec_launch *e)
{
    e->owner = x;
    for (size_t i = 0; i < FX_COUNT(binds); i++) {
        if (binds[i].op == e->l.op)
            bind_slot(x, e, &binds[i]);
    }
    bind_state(x, e);
    bind_experts(x, e);
    if (ops[e->l.op].kernel == FX_K_OPS) {
        e->tasks = matmul_tasks;
        e->matmul = x->program->weights[e->l.in[1].index].kernel;
        if (e->l.args.matmul.epi.q8.data)
            bind_rounding(x, e);
        e->epilogue = e->l.args.matmul.epi.fn;
    } else {
        const fx_kernel *k = fx_kernel_find(ops[e->l.op].kernel, &x->program->cpu);
        e->tasks = k->tasks;
        e->run = k->run;
        e->epilogue = e->l.op == FX_L_EXPERT_MATMUL ? e->l.args.experts.m.epi.fn : NULL;
    }
}

static fx_status bind_all(fx_exec *x, fx_error *err)
{
    fx_step widest = { .n_rows = (int32_t)x->max_rows,
                       .n_seqs = (int32_t)x->max_rows,
                       .n_logits = (int32_t)x->max_logits,
                       .page_bytes = x->program->state.page_bytes,
                       .page_tokens = x->program->state.page_tokens,
                       .n_columns = x->program->state.n_columns };

    if (fx_pool_threads(x->pool) > 1) {
        x->shared = fx_pages_alloc(FX_ATTEND_SHARED);
        if (!x->shared)
            return fx_nomem(err, "shared scratch");
    }
    for (int32_t i = 0; i < x->plan.n_launches; i++) {
        fx_exec_launch *e = &x->launches[i];
        size_t need;

        e->l = x->program->plan->launches[i];
        bind_launch(x, e);
        need = FX_ROUND_UP(scratch_of(x, e, &widest), 4096);
        x->scratch_each = FX_MAX(x->scratch_each, need);
    }
    size_t adapting = 0;
    FX_TRY(fx_adapting_new(&x->adapting, x->program, FX_MAX(x->max_rows, x->max_logits), &adapting, err));
    x->scratch_each = FX_MAX(x->scratch_each, FX_ROUND_UP(adapting, 4096));
    x->scratch_bytes = FX_MAX(x->scratch_each, (size_t)64) * (size_t)fx_pool_threads(x->pool);
    x->scratch = fx_pages_alloc(x->scratch_bytes);
    fx_exec_join_calls(x);
    fx_exec_join_ahead(x);
    return x->scratch ? FORNAX_OK : fx_nomem(err, "kernel scratch");
}

fx_status fx_exec_new(fx_exec **out, const fx_program *p, fx_pool *pool, int64_t max_rows, int64_t max_logits,
                      fx_error *err)
{
    fx_exec *x = fx_mem_zalloc(p->mem, sizeof *x);
    fx_status st;

    *out = NULL;
    if (!x)
        return fx_nomem(err, "an executor");
    *x = (fx_exec){ .program = p, .mem = p->mem, .pool = pool, .plan = *p->plan,
                    .max_rows = max_rows, .max_logits = max_logits };
    x->plan.bufs = fx_mem_array(x->mem, (size_t)x->plan.n_bufs + 1, sizeof *x->plan.bufs);
    x->launches = fx_mem_array(x->mem, (size_t)x->plan.n_launches + 1, sizeof *x->launches);
    if (!x->plan.bufs || !x->launches) {
        st = fx_nomem(err, "an executor's launches");
        goto fail;
    }
    memcpy(x->plan.bufs, p->plan->bufs, (size_t)x->plan.n_bufs * sizeof *x->plan.bufs);
    st = fx_plan_layout(&x->plan, x->mem, max_rows, max_logits, fx_q8_bytes, err);
    if (st != FORNAX_OK)
        goto fail;
    x->buffer_bytes = FX_MAX(x->plan.bytes, (size_t)64);
    x->buffers = fx_pages_alloc(x->buffer_bytes);
    if (!x->buffers) {
        st = fx_nomem(err, "activations");
        goto fail;
    }
    st = bind_all(x, err);
    if (st != FORNAX_OK)
        goto fail;
    *out = x;
    return FORNAX_OK;

fail:
    fx_exec_free(x);
    return st;
}

void fx_exec_free(fx_exec *x)
{
    if (!x)
        return;
    fx_adapting_free(x->adapting);
    fx_pages_free(x->scratch, x->scratch_bytes);
    fx_pages_free(x->shared, FX_ATTEND_SHARED);
    fx_pages_free(x->buffers, x->buffer_bytes);
    fx_mem_free(x->mem, x->launches, ((size_t)x->plan.n_launches + 1) * sizeof *x->launches);
    fx_mem_free(x->mem, x->plan.bufs, ((size_t)x->plan.n_bufs + 1) * sizeof *x->plan.bufs);
    fx_mem_free(x->mem, x, sizeof *x);
}

/* ---- Running ---- */

static void run_tasks(void *user, int64_t t0, int64_t t1, int worker)
{
    fx_exec_launch *e = user;
    void *scratch = fx_exec_scratch(e->owner, worker);

    if (e->matmul)
        run_matmul(e->matmul, &e->l.args.matmul, t0, t1, scratch);
    else
        e->run(&e->l.args, t0, t1, scratch);
}

/* The tasks of launches that run at once, one behind another's. */
static void run_beside(void *user, int64_t t0, int64_t t1, int worker)
{
    for (fx_exec_launch *e = user; t1 > 0; e++) {
        int64_t n = e->tasks(&e->l.args);

        if (t0 < n)
            run_tasks(e, t0, FX_MIN(n, t1), worker);
        t0 = FX_MAX(t0 - n, 0);
        t1 -= n;
    }
}

/* What adapters multiply: in f32, where the launch's own operand is rounded. */
static fx_cmat plain_of(const fx_exec *x, const fx_exec_launch *e)
{
    const fx_ref *r = e->l.in[4].kind == FX_REF_BUF ? &e->l.in[4] : &e->l.in[0];
    bool experts = e->l.op == FX_L_EXPERT_MATMUL;
    int64_t ld = experts && e->l.args.experts.x_slots ? e->l.args.experts.m.k : x->plan.bufs[r->index].cols;

    return (fx_cmat){ (const float *)buf_at(x, r->index) + r->col, ld };
}

/* Whether adapters add to the launch; a product's epilogue is told then. */
static bool adapts(fx_exec *x, fx_exec_launch *e)
{
    bool experts = e->l.op == FX_L_EXPERT_MATMUL, adds;
    fx_epilogue *epi = experts ? &e->l.args.experts.m.epi : &e->l.args.matmul.epi;

    if (e->l.op == FX_L_EMBED)
        return fx_adapting_table(x->adapting, &e->l);
    if (!e->epilogue)
        return false;
    adds = experts ? fx_adapting_experts(x->adapting, &e->l, plain_of(x, e), &epi->addend)
                   : fx_adapting_product(x->adapting, &e->l, plain_of(x, e), &epi->addend);
    epi->fn = adds ? fx_epilogue_add : e->epilogue;
    epi->then = e->epilogue;
    epi->addend = adds ? epi->addend : NULL;
    return adds;
}

/* A launch's jobs: before a product what its adapters need, behind a lookup what they add. */
enum { BEGIN, OUTER, LAUNCH, BEHIND };

/* With so many rows, kernels that pack them for each piece lose more by small pieces than by an uneven end. */
#define MANY_ROWS 16

/* How many launches run at e: those of its call, be it of the product's tiles, or those beside it, or it alone. */
static int32_t width_of(const fx_exec *x, const fx_exec_launch *e)
{
    int32_t at = (int32_t)(e - x->launches), n = 1;

    if (x->code && e->call)
        return e->call->n;
    if (x->adapting && fx_adapting_any(x->adapting))
        return 1;
    while (at + n < x->plan.n_launches && e[n].l.beside && !(x->code && e[n].call))
        n++;
    return n;
}

/* The job of e and the width - 1 launches behind it; those of a call are done by its code, or by e's epilogue. */
static void launch_job(fx_exec *x, fx_exec_launch *e, int32_t width, int64_t rows, fx_pool_job *job)
{
    bool packs = e->matmul && e->matmul->scratch_bytes;
    const fx_plan_call *call = fx_exec_call_at(x, e);
    int32_t n = x->code && e->call ? 1 : width;

    if (call)
        fx_exec_call_job(x, call, rows, job);
    for (int32_t i = 0; i < n && !call; i++)
        job->n_tasks += e[i].tasks(&e[i].l.args);
    if (n > 1)
        job->fn = run_beside;
    job->grain = FX_MAX(1, job->n_tasks / ((packs && rows >= MANY_ROWS ? 8 : rows > 1 ? 128 : 16) * fx_pool_threads(x->pool)));
}

static void set_launches(fx_exec *x, fx_exec_launch *e, int32_t width, int64_t rows)
{
    for (int32_t i = 0; i < width; i++) {
        set_rows(&e[i], rows);
        set_step(&e[i], x->step);
        fx_exec_set_ahead(x, &e[i]);
    }
}

static bool next_launch(void *user, int64_t i, fx_pool_job *job)
{
    fx_exec *x = user;

    if (i == 0)
        x->at = x->phase = BEGIN;
    if (x->at >= x->plan.n_launches)
        return false;
    atomic_fetch_add_explicit(&x->n_begun, 1, memory_order_relaxed);
    fx_exec_launch *e = &x->launches[x->at];
    int64_t rows = e->l.rows == FX_ROWS_STEP ? x->step->n_rows : x->step->n_logits;
    bool table = e->l.op == FX_L_EMBED, adds = false;
    int32_t width = width_of(x, e);

    *job = (fx_pool_job){ .fn = run_tasks, .user = e, .n_tasks = 0, .grain = 1 };
    if (x->phase == BEGIN && rows > 0) {
        set_launches(x, e, width, rows);
        for (int32_t n = 0; x->adapting && n < width; n++)
            adds |= adapts(x, &e[n]);
        x->phase = adds && !table ? OUTER : LAUNCH;
        if (adds && !table) {
            fx_adapting_job(x->adapting, FX_ADAPTING_INNER, x->scratch, x->scratch_each, job);
            return true;
        }
    }
    if (x->phase == OUTER || x->phase == BEHIND) {
        fx_adapting_job(x->adapting, FX_ADAPTING_OUTER, x->scratch, x->scratch_each, job);
    } else if (rows > 0) {
        launch_job(x, e, width, rows, job);
    }
    if (x->phase == OUTER) {
        x->phase = LAUNCH;
    } else if (adds) {
        x->phase = BEHIND;
    } else {
        x->phase = BEGIN;
        x->at += width;
    }
    return true;
}

void fx_exec_run(fx_exec *x, const fx_step *step)
{
    fx_fpmode old = fx_fpmode_enter();

    FX_ASSERT(step->n_rows <= x->max_rows && step->n_logits <= x->max_logits);
    x->step = step;
    fx_exec_take_code(x);
    if (x->adapting)
        fx_adapting_begin(x->adapting, step);
    fx_pool_run_list(x->pool, next_launch, x);
    fx_fpmode_leave(old);
}

uint64_t fx_exec_launches(const fx_exec *x) { return atomic_load_explicit(&x->n_begun, memory_order_relaxed); }
uint64_t fx_exec_generated(const fx_exec *x) { return atomic_load_explicit(&x->n_generated, memory_order_relaxed); }

float *fx_exec_logits(fx_exec *x, int64_t i)
{
    const fx_ref *r = &x->plan.logits;

    return (float *)buf_at(x, r->index) + i * x->plan.bufs[r->index].cols + r->col;
}
