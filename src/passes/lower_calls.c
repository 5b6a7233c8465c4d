/* lower_calls.c - which launches of a plan become calls, and what makers share.
 *
 * A launch that differs from one before only in where its buffers lie takes that one's kernel: layers are made once.  Whether it does
 * is seen from a key (what the maker reads), before anything is made; kernels that come out equal all the same are found by their
 * text. */
#include "passes/lower_calls_int.h"

#include <stdio.h>

#define TILE 64                  /* lanes of a sum, everywhere (docs/kir.md; kernels/norm_simd.def) */

/* ---- Parameters -------------------------------------------------------------------------------------- */

fx_kop *fx_lc_arg(fx_lc *c, fx_call_ref ref, const char *name)
{
    if (c->n_args == FX_CALL_MAX)
        return fx_kir_fail(c->m, FORNAX_EINTERNAL, "a call has too many sizes");
    c->args[c->n_args++] = ref;
    return fx_kir_size(c->k, fx_str_of(name));
}

fx_kop *fx_lc_buffer(fx_lc *c, fx_call_ref ref, const fx_kir_buf *buf)
{
    if (c->n_buffers == FX_CALL_MAX)
        return fx_kir_fail(c->m, FORNAX_EINTERNAL, "a call has too many buffers");
    c->buffers[c->n_buffers++] = ref;
    return fx_kir_buffer(c->k, buf);
}

static fx_str name_of(char *text, size_t size, const char *letter, int n)
{
    snprintf(text, size, "%s%d", letter, n);
    return fx_str_of(text);
}

fx_kop *fx_lc_vec(fx_lc *c, int slot, size_t at, int64_t n)
{
    fx_kir_buf b = { .dtype = FX_F32, .rank = 1, .extent = { fx_kir_dim(c->m, n) }, .access = FX_KIR_IN };
    char name[16];

    FX_ASSERT(fx_lc_ref(c, slot)->kind == FX_REF_WEIGHT || fx_lc_ref(c, slot)->kind == FX_REF_CONST);
    b.name = name_of(name, sizeof(name), "v", c->n_buffers);
    return fx_lc_buffer(c, fx_lc_at(c, at), &b);
}

fx_kop *fx_lc_mat(fx_lc *c, int slot, size_t at, int64_t cols, fx_kir_access access)
{
    const fx_ref *r = fx_lc_ref(c, slot);
    const fx_plan_buf *p = r->kind == FX_REF_BUF ? &c->plan->bufs[r->index] : NULL;
    fx_kir_buf b = { .dtype = FX_F32, .rank = 2, .access = access };
    char name[16];
    fx_kop *op;

    FX_ASSERT(p && !p->q8 && r->col + cols <= p->cols);
    for (int i = 0; i < c->n_places; i++) {
        if (c->places[i].buf == r->index && c->places[i].col == r->col && c->places[i].cols == cols) {
            c->places[i].op->u.buf->access |= access;
            return c->places[i].op;
        }
    }
    b.extent[0] = c->rows;
    b.extent[1] = fx_kir_dim(c->m, cols);
    b.stride[0] = fx_kir_dim(c->m, p->cols);
    b.name = name_of(name, sizeof(name), "b", c->n_buffers);
    op = fx_lc_buffer(c, fx_lc_at(c, at), &b);
    if (op)
        c->places[c->n_places++] = (fx_lc_place){ r->index, r->col, cols, op };
    return op;
}

/* ---- Code ----------------------------------------------------------------------------------------------- */

static bool by_row(const fx_kop *buf) { return buf && buf->u.buf->rank == 2; }

fx_kop *fx_lc_load(fx_lc *c, fx_kop *buf, fx_kop *j, int lanes)
{
    fx_kop *index[] = { c->row, j };

    return by_row(buf) ? fx_kir_load(c->m, buf, index, 2, lanes, NULL) : fx_kir_load(c->m, buf, index + 1, 1, lanes, NULL);
}

void fx_lc_store(fx_lc *c, fx_kop *buf, fx_kop *value, fx_kop *j)
{
    fx_kir_store(c->m, buf, value, (fx_kop *const[]){ c->row, j }, 2, NULL);
}

static fx_lc_loop inside(fx_lc *c, fx_kop *op)
{
    fx_lc_loop loop = { .op = op, .outside = c->m->at };

    if (op) {
        fx_kir_at(c->m, op->block[0]);
        loop.i = op->block[0]->arg;
    }
    return loop;
}

fx_lc_loop fx_lc_each_below(fx_lc *c, fx_kop *n) { return inside(c, fx_kir_forall(c->m, fx_lc_num(c, 0), n)); }
fx_lc_loop fx_lc_each(fx_lc *c, int64_t n) { return fx_lc_each_below(c, fx_lc_num(c, n)); }
fx_lc_loop fx_lc_times(fx_lc *c, int64_t n) { return inside(c, fx_kir_for(c->m, fx_lc_num(c, 0), fx_lc_num(c, n), NULL)); }
void fx_lc_end(fx_lc *c, const fx_lc_loop *loop) { fx_kir_at(c->m, loop->outside); }

fx_lc_loop fx_lc_fold(fx_lc *c, fx_kir_combine kind, int64_t n)
{
    return inside(c, fx_kir_reduce(c->m, kind, TILE, FX_F32, fx_lc_num(c, 0), fx_lc_num(c, n)));
}

fx_kop *fx_lc_folded(fx_lc *c, const fx_lc_loop *loop, fx_kop *a, fx_kop *b)
{
    fx_kir_yield(c->m, (fx_kop *const[]){ a, b }, b ? 2 : 1);
    fx_lc_end(c, loop);
    return loop->op;
}

/* ---- Kernels -------------------------------------------------------------------------------------------------- */

typedef struct lowering {
    fx_arena *arena;
    const fx_mem *mem;
    fx_error *err;
    const fx_plan *plan;
    const fx_dtype *tables;
    const fx_state_table *state;
    fx_kir_module *m;
    fx_map by_key, by_text;      /* to the number of a call that has the kernel, to that of the kernel */
    FX_VEC(fx_kir_kernel *) kernels;
    FX_VEC(fx_plan_call) calls;
} lowering;

static fx_status no_memory(lowering *l) { return fx_nomem(l->err, "the calls of a plan"); }

static const fx_lc_maker *maker_of(fx_launch_op op)
{
    for (size_t i = 0; i < fx_lc_n_maps; i++) {
        if (fx_lc_maps[i].op == op)
            return &fx_lc_maps[i];
    }
    for (size_t i = 0; i < fx_lc_n_norms; i++) {
        if (fx_lc_norms[i].op == op)
            return &fx_lc_norms[i];
    }
    return NULL;
}

#define SLOTS ((int)(FX_COUNT(((fx_launch *)NULL)->in) + FX_COUNT(((fx_launch *)NULL)->out)))

static const fx_ref *slot(const fx_launch *n, int i)
{
    int ins = (int)FX_COUNT(n[0].in);

    return i % SLOTS < ins ? &n[i / SLOTS].in[i % SLOTS] : &n[i / SLOTS].out[i % SLOTS - ins];
}

/* What launch i of n has in its slots: places that are one have one number. */
static void put_refs(fx_buf *b, const lowering *l, const fx_launch *n, int i)
{
    for (int k = i * SLOTS; k < (i + 1) * SLOTS; k++) {
        const fx_ref *r = slot(n, k);
        const fx_plan_buf *p = r->kind == FX_REF_BUF ? &l->plan->bufs[r->index] : NULL;
        int first = 0;

        while (!fx_lc_same(slot(n, first), r))
            first++;
        fx_buf_printf(b, "%d,%d", (int)r->kind, first);
        if (p)
            fx_buf_printf(b, ",%d,%lld,%lld", p->q8, (long long)p->cols, (long long)r->col);
        if (r->kind == FX_REF_WEIGHT && l->plan->weights[r->index].use == FX_USE_TABLE)
            fx_buf_printf(b, ",%d", (int)l->tables[r->index]);
        fx_buf_puts(b, ";");
    }
}

static fx_str key_of(lowering *l, const fx_launch *n, int32_t n_launches, fx_buf *b)
{
    for (int32_t i = 0; i < n_launches; i++) {
        fx_buf_printf(b, "%d;", (int)n[i].op);
        put_refs(b, l, n, (int)i);
        fx_buf_add(b, &n[i].args, sizeof(n[i].args));
    }
    return fx_buf_view(b);
}

static bool remember(lowering *l, fx_map *map, fx_str key, uint64_t n)
{
    char *own = fx_arena_strdup(l->arena, key.p, key.n);

    return own && fx_map_put(map, fx_str_n(own, key.n), n);
}

static fx_call_ref rows_ref(const fx_lc *c, const fx_lc_maker *maker)
{
    return maker->n_rows == FX_LC_STEP_ROWS   ? fx_lc_in_step(offsetof(fx_step, n_rows), true)
           : maker->n_rows == FX_LC_TILE_ROWS ? fx_lc_in_tile(offsetof(fx_call_tile, m))
                                              : fx_lc_at(c, maker->n_rows);
}

static void begin(fx_lc *c, const fx_lc_maker *maker)
{
    c->k = fx_kir_kernel_new(c->m, FX_STR("k"));
    if (!c->k)
        return;
    c->rows = fx_lc_arg(c, rows_ref(c, maker), "n");
    c->row = c->k->task;
    fx_kir_at(c->m, c->k->grid);
    fx_kir_yield(c->m, &c->rows, 1);
    fx_kir_at(c->m, c->k->body);
}

/* A kernel that is there already is taken out of the module again. */
static void take_back(fx_kir_module *m, fx_kir_kernel *last)
{
    m->last = last;
    *(last ? &last->next : &m->first) = NULL;
}

/* The number of the kernel that c is: it is new, or equal to another. */
static fx_status number_of(lowering *l, fx_lc *c, fx_launch_op op, fx_kir_kernel *last, int32_t *number)
{
    char name[64];
    uint64_t n = l->kernels.n;
    bool ok = true, old;
    fx_buf text;

    fx_buf_init(&text, l->mem);
    fx_kir_kernel_print(c->k, &text);
    old = fx_map_get(&l->by_text, fx_buf_view(&text), &n);
    ok = !text.failed && (old || remember(l, &l->by_text, fx_buf_view(&text), n));
    fx_buf_done(&text);
    if (!ok)
        return no_memory(l);
    *number = (int32_t)n;
    if (old) {
        take_back(l->m, last);
        return FORNAX_OK;
    }
    snprintf(name, sizeof(name), "%s_%d", fx_launch_name(op), (int)n);
    c->k->name = fx_str_of(fx_arena_strdup(l->arena, name, strlen(name)));
    if (!c->k->name.p || !FX_VEC_PUSH(&l->kernels, l->mem, c->k))
        return no_memory(l);
    return fx_kir_check(c->k, l->err);
}

static const fx_call_ref *own_refs(lowering *l, const fx_call_ref *refs, int n)
{
    fx_call_ref *own = FX_ARENA_NEWN(l->arena, fx_call_ref, (size_t)n + 1);

    if (own)
        memcpy(own, refs, (size_t)n * sizeof(*refs));
    return own;
}

static fx_status push_call(lowering *l, fx_plan_call call, const fx_call_ref *args, const fx_call_ref *buffers)
{
    call.args = own_refs(l, args, call.n_args);
    call.buffers = own_refs(l, buffers, call.n_buffers);
    return call.args && call.buffers && FX_VEC_PUSH(&l->calls, l->mem, call) ? FORNAX_OK : no_memory(l);
}

static fx_status make_call(lowering *l, const fx_lc_maker *maker, fx_lc *c)
{
    fx_kir_kernel *last = l->m->last;
    fx_plan_call call = { .first = c->at, .n = c->n };
    fx_launch_op op = c->l->op;

    begin(c, maker);
    if (c->k)
        maker->make(c);
    FX_TRY(fx_kir_status(l->m, l->err));
    FX_TRY(number_of(l, c, op, last, &call.kernel));
    call.rest = c->rest;
    call.epilogue = c->epilogue;
    call.n_args = c->n_args;
    call.n_buffers = c->n_buffers;
    return push_call(l, call, c->args, c->buffers);
}

/* The call of launch 'at' by the example of another. */
static fx_status copy_call(lowering *l, const fx_plan_call *like, int32_t at)
{
    fx_plan_call call = *like;
    fx_call_ref args[FX_CALL_MAX], buffers[FX_CALL_MAX];

    for (int i = 0; i < call.n_args; i++) {
        args[i] = call.args[i];
        args[i].launch += at - like->first;
    }
    for (int i = 0; i < call.n_buffers; i++) {
        buffers[i] = call.buffers[i];
        buffers[i].launch += at - like->first;
    }
    call.first = at;
    return push_call(l, call, args, buffers);
}

/* The call that begins with launch *at, if there is one; then *at is the next launch. */
static fx_status lower_launch(lowering *l, int32_t *at)
{
    fx_lc c = { .plan = l->plan, .tables = l->tables, .state = l->state, .m = l->m, .l = &l->plan->launches[*at], .at = *at, .n = 1 };
    const fx_lc_maker *maker = maker_of(c.l->op);
    fx_status st;
    uint64_t like;
    fx_str key;
    fx_buf b;

    *at += 1;
    if (!maker || (maker->can && !maker->can(&c)))
        return FORNAX_OK;
    c.n = maker->span ? maker->span(&c) : 1;
    *at = c.at + c.n;
    fx_buf_init(&b, l->mem);
    key = key_of(l, c.l, c.n, &b);
    if (b.failed)
        st = no_memory(l);
    else if (fx_map_get(&l->by_key, key, &like))
        st = copy_call(l, &l->calls.at[like], c.at);
    else
        st = remember(l, &l->by_key, key, l->calls.n) ? make_call(l, maker, &c) : no_memory(l);
    fx_buf_done(&b);
    return st;
}

/* ---- The plan ------------------------------------------------------------------------------------------------- */

static fx_status hand_out(lowering *l, fx_plan_calls **out)
{
    fx_plan_calls *p = FX_ARENA_NEW(l->arena, fx_plan_calls);

    if (!p)
        return no_memory(l);
    *p = (fx_plan_calls){ .module = l->m, .n_kernels = (int32_t)l->kernels.n, .n_calls = (int32_t)l->calls.n };
    p->kernels = FX_ARENA_NEWN(l->arena, fx_kir_kernel *, l->kernels.n + 1);
    p->calls = FX_ARENA_NEWN(l->arena, fx_plan_call, l->calls.n + 1);
    if (!p->kernels || !p->calls)
        return no_memory(l);
    if (p->n_kernels)
        memcpy(p->kernels, l->kernels.at, l->kernels.n * sizeof(*p->kernels));
    if (p->n_calls)
        memcpy(p->calls, l->calls.at, l->calls.n * sizeof(*p->calls));
    *out = p;
    return FORNAX_OK;
}

fx_status fx_lower_calls(fx_arena *arena, const fx_plan *plan, const fx_dtype *tables, const fx_state_table *state,
                         fx_plan_calls **out, fx_error *err)
{
    lowering l = { .arena = arena, .mem = arena->mem, .err = err, .plan = plan, .tables = tables, .state = state };
    fx_status st = FORNAX_OK;

    l.m = fx_kir_module_new(arena);
    if (!l.m)
        return no_memory(&l);
    fx_map_init(&l.by_key, l.mem);
    fx_map_init(&l.by_text, l.mem);
    for (int32_t at = 0; at < plan->n_launches && st == FORNAX_OK;)
        st = lower_launch(&l, &at);
    if (st == FORNAX_OK)
        st = hand_out(&l, out);
    FX_VEC_FREE(&l.kernels, l.mem);
    FX_VEC_FREE(&l.calls, l.mem);
    fx_map_done(&l.by_key);
    fx_map_done(&l.by_text);
    return st;
}
