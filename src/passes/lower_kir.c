/* lower_kir.c - which values are kept in memory, and a kernel for each of those.
 *
 * Ops are looked at from the last to the first: whether a value is kept depends on who reads it. Kept are results
 * of the graph, operands of ops with kernels of their own, and what would else be computed more than once: values with
 * several readers, and those that a reader asks for again and again (operands of products and windows, or of ops
 * that repeat them).  What only moves elements is never kept for that.
 *
 * A kernel computes one kept value: tasks are groups of its rows (all axes but the last), a loop goes along
 * the last one.  Values whose operands all lie alike are one long row, cut in pieces. */
#include "passes/lower_kir_int.h"

#include <stdio.h>

static fx_status no_memory(fx_lower *l) { return fx_nomem(l->err, "a plan"); }

fx_status fx_lower_unsupported(fx_lower *l, const fx_op *op, const char *what)
{
    return fx_fail(l->err, FORNAX_EUNSUP, "graph %.*s: %s (%.*s): %s", FX_STR_ARG(l->g->name), fx_opcode_name(op->code),
                   FX_STR_ARG(fx_op_label(op)), what);
}

/* ---- Sizes ------------------------------------------------------------------------------------------ */

static int32_t symbol_of(fx_lower *l, fx_str name)
{
    char *p;

    for (size_t i = 0; i < l->symbols.n; i++) {
        if (fx_str_eq(l->symbols.at[i], name))
            return (int32_t)i;
    }
    p = fx_arena_strdup(l->arena, name.p, name.n);
    if (!p || !FX_VEC_PUSH(&l->symbols, l->mem, fx_str_n(p, name.n)))
        l->no_memory = true;
    return (int32_t)l->symbols.n - 1;
}

static void make_known(fx_lower *l, int32_t symbol)
{
    while (l->known.n <= (size_t)symbol && !l->no_memory)
        l->no_memory = !FX_VEC_PUSH(&l->known, l->mem, false);
    if (!l->no_memory)
        l->known.at[symbol] = true;
}

static void push_step(fx_lower *l, fx_size_code code, int64_t n)
{
    fx_size_step s = { code, n };

    if (!FX_VEC_PUSH(&l->steps, l->mem, s))
        l->no_memory = true;
}

static void step_num(void *user, int64_t n) { push_step(user, FX_SIZE_NUM, n); }
static void step_name(void *user, fx_str name) { push_step(user, FX_SIZE_SYMBOL, symbol_of(user, name)); }
static void step_op(void *user, char op)
{
    push_step(user, op == '+' ? FX_SIZE_ADD : op == '*' ? FX_SIZE_MUL : FX_SIZE_DIV, 0);
}

/* A size in names of the plan: inside a subgraph its own names stand for what its caller has. */
static fx_dim resolved(fx_lower *l, fx_dim d)
{
    if (l->rename && !fx_dim_is_static(d) && fx_dim_subst(l->arena, d, l->rename, l->rename_user, &d) != FORNAX_OK)
        l->no_memory = true;
    return d;
}

/* Of a size that is resolved. */
static int32_t size_number(fx_lower *l, fx_dim d)
{
    fx_plan_size s = { (int32_t)l->steps.n, 0 };

    for (size_t i = 0; i < l->dims.n; i++) {
        if (fx_dim_eq(l->dims.at[i], d))
            return (int32_t)i;
    }
    fx_dim_walk(d, &(fx_dim_sink){ step_num, step_name, step_op, l });
    s.n = (int32_t)l->steps.n - s.first;
    if (!FX_VEC_PUSH(&l->dims, l->mem, d) || !FX_VEC_PUSH(&l->sizes, l->mem, s))
        l->no_memory = true;
    return (int32_t)l->sizes.n - 1;
}

int32_t fx_lower_size_number(fx_lower *l, fx_dim d) { return size_number(l, resolved(l, d)); }

void fx_lower_know(fx_lower *l, fx_dim d)
{
    fx_str name;

    if (fx_dim_is_symbol(resolved(l, d), &name))
        make_known(l, symbol_of(l, name));
}

static bool is_known(const fx_lower *l, const fx_plan_size *s)
{
    for (int32_t i = s->first; i < s->first + s->n; i++) {
        const fx_size_step *at = &l->steps.at[i];

        if (at->code == FX_SIZE_SYMBOL && ((size_t)at->n >= l->known.n || !l->known.at[at->n]))
            return false;
    }
    return true;
}

static bool shape_is_known(fx_lower *l, const fx_type *t)
{
    for (int i = 0; i < t->rank; i++) {
        int32_t n = fx_lower_size_number(l, t->dim[i]);          /* may move the sizes */

        if (n < 0 || !is_known(l, &l->sizes.at[n]))
            return false;
    }
    return true;
}

/* ---- Tensors -------------------------------------------------------------------------------------------- */

static fx_str key_of(const fx_value *const *v) { return fx_str_n((const char *)v, sizeof(*v)); }

bool fx_lower_keep(fx_lower *l, const fx_value *v, uint64_t tensor)
{
    const fx_value **key = FX_ARENA_NEW(l->arena, const fx_value *);

    if (!key)
        return false;
    *key = v;
    return fx_map_put(&l->kept, key_of(key), tensor);
}

static bool to_keep(const fx_lower *l, const fx_value *v, uint64_t *tensor) { return fx_map_get(&l->kept, key_of(&v), tensor); }

int32_t fx_lower_kept(const fx_lower *l, const fx_value *v)
{
    uint64_t t;

    return to_keep(l, v, &t) && t ? (int32_t)t - 1 : -1;
}

fx_status fx_lower_scratch(fx_lower *l, const fx_op *op, const fx_type *type, fx_str name, int32_t *out)
{
    fx_ktensor t = { .kind = FX_KTENSOR_TEMP, .dtype = type->dtype, .rank = type->rank, .first = -1, .last = -1 };
    char *kept = fx_arena_strdup(l->arena, name.p, name.n);

    if (type->rank > FX_KIR_MAX_RANK || type->dtype >= FX_DTYPE_COUNT || fx_dtype_size(type->dtype) == 0)
        return fx_lower_unsupported(l, op, "a value that isn't a tensor of plain numbers");
    t.name = fx_str_n(kept ? kept : "", kept ? name.n : 0);
    for (int i = 0; i < type->rank; i++)
        t.dim[i] = fx_lower_size_number(l, type->dim[i]);
    if (!kept || !FX_VEC_PUSH(&l->tensors, l->mem, t) || l->no_memory)
        return no_memory(l);
    *out = (int32_t)l->tensors.n - 1;
    return FORNAX_OK;
}

/* A tensor of v's type and name. */
fx_status fx_lower_tensor(fx_lower *l, const fx_value *v, fx_ktensor_kind kind, int32_t index, int32_t *out)
{
    FX_TRY(fx_lower_scratch(l, v->def, &v->type, v->name, out));
    l->tensors.at[*out].kind = kind;
    l->tensors.at[*out].index = index;
    return FORNAX_OK;
}

/* ... that it is kept in. */
static fx_status add_tensor(fx_lower *l, const fx_value *v, fx_ktensor_kind kind, int32_t index, int32_t *out)
{
    FX_TRY(fx_lower_tensor(l, v, kind, index, out));
    return fx_lower_keep(l, v, (uint64_t)*out + 1) ? FORNAX_OK : no_memory(l);
}

/* ---- Who is kept --------------------------------------------------------------------------------------------- */

bool fx_lower_moves_only(fx_opcode code)
{
    return fx_op_rows[code].kind == FX_KIND_VIEW || code == FX_OP_CAST || code == FX_OP_RANGE || code == FX_OP_SHAPE_TO_TENSOR ||
           code == FX_OP_HANN_WINDOW;
}

bool fx_lower_by_element(fx_opcode code)
{
    return fx_lower_is_map(code) || code == FX_OP_CAST || code == FX_OP_WHERE || code == FX_OP_ALL_REDUCE;
}

/* Whether b is a with axes of size 1 repeated: the last one only, if 'last'. */
bool fx_lower_same_shape(const fx_type *a, const fx_type *b, bool last)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (!fx_dim_eq(a->dim[i], b->dim[i]) && !(last && i == a->rank - 1 && fx_dim_eq(a->dim[i], fx_dim_of(1))))
            return false;
    }
    return true;
}

/* How often what reads v computes it anew: the readers that are kept, each once for a walk over its elements. */
static int64_t times_read(fx_lower *l, const fx_value *v)
{
    int64_t n = 0;
    uint64_t t;

    for (const fx_use *u = v->uses; u; u = u->next) {
        if (u->next && u->next->user == u->user)
            continue;                    /* an op that reads it twice asks once */
        for (int i = 0; i < u->user->n_out; i++) {
            if (u->user->out[i].uses)
                n += to_keep(l, &u->user->out[i], &t) ? 1 : times_read(l, &u->user->out[i]);
        }
    }
    return n;
}

/* A reduction along the last axis, or an op that keeps rows as they are. */
bool fx_lower_is_rowwise(const fx_op *op)
{
    int rank = fx_op_in(op, 0)->type.rank;

    if (!fx_op_has(op, FX_A_AXIS))
        return op->code == FX_OP_RMSNORM || op->code == FX_OP_LAYERNORM;
    return rank > 0 && fx_op_axis(op, FX_A_AXIS, rank) == rank - 1 && op->code != FX_OP_GATHER;
}

/* Whether v is a product, or would be computed from one element by element. */
static bool holds_product(const fx_value *v)
{
    const fx_op *op = v->def;

    if (!op || fx_op_rows[op->code].kind == FX_KIND_CONTRACT)
        return op != NULL;
    for (int i = 0; fx_lower_by_element(op->code) && i < op->n_in; i++) {
        if (fx_single_use(fx_op_in(op, i)) && holds_product(fx_op_in(op, i)))
            return true;
    }
    return false;
}

/* Whether the reader, element by element, would form v's product beside that of a later operand, with which it can't be summed: v is its
 * first one, or any of an all-reduce. */
static bool forms_another(const fx_value *v, const fx_op *reader)
{
    int at = 0;

    if (!holds_product(v))
        return false;
    while (fx_op_in(reader, at) != v)
        at++;
    if (at > 0 && reader->code != FX_OP_ALL_REDUCE)
        return false;
    for (int i = at + 1; i < reader->n_in; i++) {
        if (fx_op_in(reader, i) != v && fx_single_use(fx_op_in(reader, i)) && holds_product(fx_op_in(reader, i)))
            return true;
    }
    return false;
}

/* Why op's result v can't be computed where this reader needs it; NULL: it can. */
static const char *reader_objects(const fx_value *v, const fx_op *op, const fx_op *reader)
{
    const fx_type *y = reader->n_out ? &reader->out[0].type : NULL;
    fx_op_kind kind = fx_op_rows[op->code].kind;
    bool by_element = fx_lower_by_element(reader->code);

    if (by_element && forms_another(v, reader))
        return "its reader forms another product";
    if (!fx_at_of(reader))
        return reader->code == FX_OP_OUTPUT ? "a result of the graph" : "its reader has a kernel of its own";
    if (fx_lower_moves_only(op->code))
        return NULL;
    if (fx_op_rows[reader->code].kind == FX_KIND_CONTRACT || reader->code == FX_OP_AVG_POOL2D || reader->code == FX_OP_MAX_POOL2D)
        return "its reader would compute it again and again";
    if (holds_product(v) && kind != FX_KIND_CONTRACT && !by_element)
        return "a sum would be formed for each time that it is read";
    if (kind == FX_KIND_CONTRACT)
        return by_element && fx_lower_same_shape(&v->type, y, false) ? NULL : "its reader isn't element by element";
    if (kind == FX_KIND_ROW)
        return by_element && fx_lower_is_rowwise(op) && fx_lower_same_shape(&v->type, y, true) ? NULL : "its reader goes along other rows";
    if (by_element)
        return fx_lower_same_shape(&v->type, y, true) || v->type.rank == 0 ? NULL : "its reader repeats it";
    return NULL;
}

bool fx_lower_printed(fx_lower *l, const fx_value *v)
{
    for (size_t i = 0; i < l->n_print; i++) {
        if (v->name.n && fx_str_is(v->name, l->print[i])) {
            l->print_found |= UINT64_C(1) << i;
            return true;
        }
    }
    return false;
}

/* Why v is kept; NULL: it isn't. */
static const char *must_keep(fx_lower *l, const fx_op *op, const fx_value *v)
{
    if (!fx_at_of(op))
        return "it has a kernel of its own, or comes from outside";
    if (l->unfused)
        return "nothing is fused";
    if (fx_lower_printed(l, v))
        return "it is printed";
    if (fx_fused_inner(l, v))
        return NULL;
    if (fx_fused_result(l, v))
        return fx_fused_result(l, v)->kept;
    for (const fx_use *u = v->uses; u; u = u->next) {
        const char *why = reader_objects(v, op, u->user);

        if (why)
            return why;
    }
    return !fx_lower_moves_only(op->code) && times_read(l, v) > 1 ? "it is read by several" : NULL;
}

static fx_status choose(fx_lower *l, const fx_block *b)
{
    for (const fx_op *op = b->last; op; op = op->prev) {
        for (int i = 0; i < op->n_regions; i++)
            FX_TRY(choose(l, op->regions[i]->first));
        for (int i = 0; i < op->n_out; i++) {
            bool read = op->out[i].uses || fx_lower_printed(l, &op->out[i]);
            const char *why = read && op->out[i].type.dtype != FX_CHAIN ? must_keep(l, op, &op->out[i]) : NULL;

            if (why && (!fx_lower_keep(l, &op->out[i], 0) || !fx_lower_note_reason(l, &op->out[i], why)))
                return no_memory(l);
        }
    }
    return FORNAX_OK;
}

fx_status fx_lower_choose(fx_lower *l, const fx_block *b)
{
    if (!l->unfused)
        FX_TRY(fx_lower_fuse(l, b));
    return choose(l, b);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------ */

static bool one_element(const fx_type *t)
{
    for (int i = 0; i < t->rank; i++) {
        if (!fx_dim_eq(t->dim[i], fx_dim_of(1)))
            return false;
    }
    return true;
}

static fx_kop *arg_of_size(fx_lk *c, int32_t size)
{
    char name[24];
    fx_kop *op;

    for (size_t i = 0; i < c->args.n; i++) {
        if (c->args.at[i] == size)
            return c->arg_ops.at[i];
    }
    snprintf(name, sizeof(name), "n%zu", c->args.n);
    op = fx_kir_size(c->k, fx_str_of(name));
    if (!op || !FX_VEC_PUSH(&c->args, c->l->mem, size) || !FX_VEC_PUSH(&c->arg_ops, c->l->mem, op))
        return fx_kir_fail(c->m, FORNAX_ENOMEM, "no memory for a kernel");
    return op;
}

fx_kop *fx_lk_size(fx_lk *c, fx_dim d)
{
    d = resolved(c->l, d);
    return fx_dim_is_static(d) ? fx_lk_num(c, d.n) : arg_of_size(c, size_number(c->l, d));
}

/* An extent: a number or a size. */
static fx_kop *extent_of(fx_lk *c, fx_dim d)
{
    d = resolved(c->l, d);
    return fx_dim_is_static(d) ? fx_kir_dim(c->m, d.n) : arg_of_size(c, size_number(c->l, d));
}

/* A buffer of these axes over a tensor. */
fx_kop *fx_lk_buffer_as(fx_lk *c, int32_t tensor, fx_kir_access access, const fx_dim *dim, int rank)
{
    fx_kir_buf buf = { .dtype = c->l->tensors.at[tensor].dtype, .rank = rank, .access = access };
    char name[24];
    fx_kop *op;

    snprintf(name, sizeof(name), "b%zu", c->tensors.n);
    buf.name = fx_str_of(name);
    for (int i = 0; i < rank; i++)
        buf.extent[i] = extent_of(c, dim[i]);
    op = fx_kir_buffer(c->k, &buf);
    if (!op || !FX_VEC_PUSH(&c->tensors, c->l->mem, tensor) || !FX_VEC_PUSH(&c->buffer_ops, c->l->mem, op))
        return fx_kir_fail(c->m, FORNAX_ENOMEM, "no memory for a kernel");
    return op;
}

/* What is read of a tensor: it as it is, or, in a flat kernel, one long row or one element. */
fx_kop *fx_lk_buffer(fx_lk *c, int32_t tensor, const fx_type *t)
{
    for (size_t i = 0; i < c->tensors.n; i++) {
        if (c->tensors.at[i] == tensor && c->buffer_ops.at[i]->u.buf->access == FX_KIR_IN)
            return c->buffer_ops.at[i];
    }
    if (c->flat)
        return fx_lk_buffer_as(c, tensor, FX_KIR_IN, &c->flat_size, one_element(t) ? 0 : 1);
    return fx_lk_buffer_as(c, tensor, FX_KIR_IN, t->dim, t->rank);
}

fx_kop *fx_lk_load(fx_lk *c, int32_t tensor, const fx_type *t, fx_kop *const *index)
{
    fx_kop *buf = fx_lk_buffer(c, tensor, t);

    return buf ? fx_kir_load(c->m, buf, index, buf->u.buf->rank, 1, c->mask) : NULL;
}

void fx_lk_begin(fx_lower *l, fx_lk *c)
{
    *c = (fx_lk){ .l = l, .m = l->m, .k = fx_kir_kernel_new(l->m, FX_STR("k")) };
    if (c->k)
        fx_kir_at(c->m, c->k->body);
}

static void free_lk(fx_lk *c)
{
    FX_VEC_FREE(&c->args, c->l->mem);
    FX_VEC_FREE(&c->arg_ops, c->l->mem);
    FX_VEC_FREE(&c->tensors, c->l->mem);
    FX_VEC_FREE(&c->buffer_ops, c->l->mem);
    FX_VEC_FREE(&c->memo, c->l->mem);
    FX_VEC_FREE(&c->guards, c->l->mem);
}

static int32_t *keep_ints(fx_lower *l, const int32_t *at, size_t n)
{
    int32_t *p = FX_ARENA_NEWN(l->arena, int32_t, n + 1);

    if (p && n)
        memcpy(p, at, n * sizeof(*p));
    return p;
}

/* The module's last kernel goes. */
static void drop_kernel(fx_kir_module *m)
{
    fx_kir_kernel **at = &m->first, *before = NULL;

    while (*at != m->last) {
        before = *at;
        at = &(*at)->next;
    }
    *at = NULL;
    m->last = before;
}

/* The number of the kernel just made: that of an equal one if there is. */
static fx_status number_kernel(fx_lower *l, fx_kir_kernel *k, const fx_op *op, int32_t *out)
{
    fx_buf text;
    uint64_t at;
    char *key, *name;

    fx_buf_init(&text, l->mem);
    fx_kir_kernel_print(k, &text);
    if (!text.failed && fx_map_get(&l->texts, fx_buf_view(&text), &at)) {
        *out = (int32_t)at;
        fx_buf_done(&text);
        drop_kernel(l->m);
        return FORNAX_OK;
    }
    key = text.failed ? NULL : fx_arena_strdup(l->arena, text.p, text.n);
    name = fx_arena_printf(l->arena, "%s_%zu", fx_opcode_name(op->code), l->kernels.n);
    *out = (int32_t)l->kernels.n;
    if (!key || !name || !fx_map_put(&l->texts, fx_str_n(key, text.n), l->kernels.n) || !FX_VEC_PUSH(&l->kernels, l->mem, k)) {
        fx_buf_done(&text);
        return no_memory(l);
    }
    fx_buf_done(&text);
    k->name = fx_str_of(name);
    k->origin = k->name;
    return FORNAX_OK;
}

/* What a kernel is given must be known when it runs. */
static fx_status check_sizes(fx_lk *c, const fx_op *op)
{
    fx_lower *l = c->l;
    bool known = true;

    for (size_t i = 0; i < c->args.n; i++)
        known = known && is_known(l, &l->sizes.at[c->args.at[i]]);
    for (size_t i = 0; i < c->tensors.n; i++) {
        for (int k = 0; k < l->tensors.at[c->tensors.at[i]].rank; k++)
            known = known && is_known(l, &l->sizes.at[l->tensors.at[c->tensors.at[i]].dim[k]]);
    }
    return known ? FORNAX_OK : fx_lower_unsupported(l, op, "one of its sizes has a name that nothing before it gives a value");
}

static fx_status push_launch(fx_lk *c, const fx_op *op)
{
    fx_lower *l = c->l;
    fx_klaunch n = { .n_args = (int32_t)c->args.n, .n_buffers = (int32_t)c->tensors.n };
    fx_str label = fx_op_label(op);
    char *origin = fx_arena_strdup(l->arena, label.p, label.n);

    FX_TRY(fx_kir_status(l->m, l->err));
    FX_TRY(check_sizes(c, op));
    FX_TRY(number_kernel(l, c->k, op, &n.kernel));
    n.args = keep_ints(l, c->args.at, c->args.n);
    n.buffers = keep_ints(l, c->tensors.at, c->tensors.n);
    n.origin = fx_str_n(origin ? origin : "", origin ? label.n : 0);
    n.op = fx_str_of(fx_opcode_name(op->code));
    if (!origin || !n.args || !n.buffers || l->no_memory || !FX_VEC_PUSH(&l->launches, l->mem, n))
        return no_memory(l);
    return fx_lower_note_ops(c, op) ? FORNAX_OK : no_memory(l);
}

fx_status fx_lk_end(fx_lk *c, const fx_op *op)
{
    fx_status st = c->k ? push_launch(c, op) : no_memory(c->l);

    free_lk(c);
    return st;
}

/* ---- Kernels of values ------------------------------------------------------------------------------------------------ */

#define PIECE 4096               /* elements of a task, about */

/* Whether all that v is computed of lies as v does (or is one element). */
static bool is_flat(fx_lower *l, const fx_value *v, const fx_type *shape)
{
    if (one_element(&v->type))
        return fx_lower_kept(l, v) >= 0 || (v->def && v->def->code == FX_OP_CONSTANT);
    if (!fx_lower_same_shape(&v->type, shape, false))
        return false;
    if (fx_lower_kept(l, v) >= 0)
        return true;
    if (!v->def || !fx_lower_by_element(v->def->code))
        return false;
    for (int i = 0; i < v->def->n_in; i++) {
        if (!is_flat(l, fx_op_in(v->def, i), shape))
            return false;
    }
    return true;
}

fx_dim fx_lower_rows(fx_lower *l, const fx_type *t, int rank)
{
    fx_dim n = fx_dim_of(1);

    for (int i = 0; i < rank; i++) {
        if (fx_dim_mul(l->arena, n, t->dim[i], &n) != FORNAX_OK)
            l->no_memory = true;
    }
    return n;
}

fx_kop *fx_lk_ceil_div(fx_lk *c, fx_kop *n, int64_t by)
{
    return by == 1 ? n : fx_lk_div(c, fx_lk_add(c, n, fx_lk_num(c, by - 1)), fx_lk_num(c, by));
}

/* Tasks of 'piece' of n; the loop over this task's: its counter, code goes inside. */
fx_kop *fx_lk_task_loop(fx_lk *c, fx_dim n, int64_t piece)
{
    fx_kop *tasks, *from, *to, *loop;

    fx_kir_at(c->m, c->k->grid);
    tasks = fx_lk_ceil_div(c, fx_lk_size(c, n), piece);
    fx_kir_yield(c->m, &tasks, 1);
    fx_kir_at(c->m, c->k->body);
    if (piece == 1)
        return c->k->task;
    from = fx_lk_mul(c, c->k->task, fx_lk_num(c, piece));
    to = op2(c, FX_KIR_MIN, fx_lk_add(c, from, fx_lk_num(c, piece)), fx_lk_size(c, n));
    loop = fx_kir_forall(c->m, from, to);
    if (!loop)
        return NULL;
    fx_kir_at(c->m, loop->block[0]);
    return loop->block[0]->arg;
}

/* v itself, which others would load. */
fx_kop *fx_lk_root(fx_lk *c, fx_value *v, fx_kop *const *index)
{
    return fx_at_of(v->def)(c, v->def, v->index, index);
}

/* Values computed by one kernel: of one shape, and none needs another but at the same place. */
#define MAX_GROUP 4
typedef struct group {
    int n;
    fx_value *v[MAX_GROUP];
    int32_t tensor[MAX_GROUP];
    fx_kop *out[MAX_GROUP];
} group;

static void group_buffers(fx_lk *c, group *g, const fx_dim *dim, int rank)
{
    for (int i = 0; i < g->n; i++)
        g->out[i] = fx_lk_buffer_as(c, g->tensor[i], FX_KIR_OUT, dim, rank);
}

/* All values at 'index', stored at 'place'. */
static void store_group(fx_lk *c, const group *g, fx_kop *const *index, fx_kop *const *place, int rank)
{
    for (int i = 0; i < g->n; i++) {
        fx_kop *y = fx_lk_root(c, g->v[i], index);

        fx_lk_remember(c, g->v[i], 0, index, g->v[i]->type.rank, y);
        fx_kir_store(c->m, g->out[i], y, place, rank, NULL);
    }
}

static void flat_kernel(fx_lk *c, group *g)
{
    const fx_type *t = &g->v[0]->type;
    fx_dim n = fx_lower_rows(c->l, t, t->rank);
    fx_kop *i, *index[FX_MAX_RANK];

    c->flat = true;
    c->flat_size = n;
    group_buffers(c, g, &n, 1);
    i = fx_lk_task_loop(c, n, PIECE);
    for (int k = 0; k < FX_MAX_RANK; k++)
        index[k] = i;
    store_group(c, g, index, &i, 1);
}

/* So many rows in a task that it has about PIECE elements to compute. */
int64_t fx_lower_rows_of_task(const fx_value *v)
{
    int64_t cost = 1, in = 1;
    const fx_type *x = v->def->n_in ? &fx_op_in(v->def, 0)->type : &v->type;

    for (int i = v->type.rank - 1; i < v->type.rank; i++)
        cost = fx_dim_is_static(v->type.dim[i]) ? v->type.dim[i].n : PIECE;
    if (fx_op_rows[v->def->code].kind == FX_KIND_ROW && x->rank)
        in = fx_dim_is_static(x->dim[x->rank - 1]) ? x->dim[x->rank - 1].n : PIECE;
    if (fx_op_rows[v->def->code].kind == FX_KIND_CONTRACT)
        in = PIECE;
    cost = FX_MAX(FX_MAX(cost, in), 1);
    return FX_MAX(PIECE / cost, 1);
}

static void row_kernel(fx_lk *c, group *g)
{
    const fx_type *t = &g->v[0]->type;
    int rank = t->rank;
    fx_dim dim[2] = { fx_lower_rows(c->l, t, rank - 1), t->dim[rank - 1] };
    fx_kop *row, *index[FX_MAX_RANK], *loop, *j;

    group_buffers(c, g, dim, 2);
    row = fx_lk_task_loop(c, dim[0], fx_lower_rows_of_task(g->v[0]));
    fx_lk_unravel(c, row, t->dim, rank - 1, index);
    if (fx_dim_eq(dim[1], fx_dim_of(1))) {
        j = fx_lk_num(c, 0);
    } else {
        loop = fx_kir_forall(c->m, fx_lk_num(c, 0), fx_lk_size(c, dim[1]));
        if (!loop)
            return;
        fx_kir_at(c->m, loop->block[0]);
        j = loop->block[0]->arg;
    }
    index[rank - 1] = j;
    store_group(c, g, index, (fx_kop *const[]){ row, j }, 2);
}

static void scalar_kernel(fx_lk *c, group *g)
{
    fx_kop *one;

    group_buffers(c, g, NULL, 0);
    fx_kir_at(c->m, c->k->grid);
    one = fx_lk_num(c, 1);
    fx_kir_yield(c->m, &one, 1);
    fx_kir_at(c->m, c->k->body);
    store_group(c, g, NULL, NULL, 0);
}

static bool flat_root(fx_lower *l, const fx_value *v)
{
    if (!fx_lower_by_element(v->def->code) || v->type.rank < 1)
        return false;
    for (int i = 0; i < v->def->n_in; i++) {
        if (!is_flat(l, fx_op_in(v->def, i), &v->type))
            return false;
    }
    return true;
}

static bool in_group(const group *g, const fx_value *v)
{
    for (int i = 0; i < g->n; i++) {
        if (g->v[i] == v)
            return true;
    }
    return false;
}

/* Whether v can be computed now: from tensors that are there, and from what else the group computes at the same place. */
static bool is_ready(fx_lower *l, const group *g, const fx_value *v)
{
    if (!v->def || !fx_at_of(v->def) || !(fx_lower_by_element(v->def->code) || fx_lower_moves_only(v->def->code)))
        return false;
    for (int i = 0; i < v->def->n_in; i++) {
        const fx_value *in = fx_op_in(v->def, i);
        uint64_t t;

        if (!in || fx_lower_kept(l, in) >= 0)
            continue;
        if (in_group(g, in)) {
            if (!fx_lower_by_element(v->def->code) || !fx_lower_same_shape(&in->type, &v->type, false))
                return false;
        } else if (to_keep(l, in, &t) || !is_ready(l, g, in)) {
            return false;
        }
    }
    return true;
}

/* Takes along what comes later in the block, has the same shape and can be computed now; not from beyond an op that tells a size,
 * since what is behind it may need that. */
static void gather_group(fx_lower *l, group *g)
{
    const fx_type *shape = &g->v[0]->type;
    fx_op *product[2];
    uint64_t t;

    for (fx_op *op = g->v[0]->def->next; op && g->n < MAX_GROUP; op = op->next) {
        fx_value *v = &op->out[0];

        if (op->n_out && !shape_is_known(l, &v->type))
            return;
        if (op->n_out == 1 && fx_lower_by_element(op->code) && to_keep(l, v, &t) && !t && fx_lower_same_shape(&v->type, shape, false) &&
            is_ready(l, g, v) && !fx_lower_products(l, v, product) && !fx_fused_result(l, v))
            g->v[g->n++] = v;
    }
}

static fx_status lower_value(fx_lower *l, fx_value *v)
{
    fx_op *product[2];
    int products = l->lanes > 1 && v->type.rank > 1 ? fx_lower_products(l, v, product) : 0;
    group g = { .n = 1, .v = { v } };
    bool flat = true;
    fx_lk c;

    if (!products && !l->unfused && fx_lower_by_element(v->def->code))
        gather_group(l, &g);
    for (int i = 0; i < g.n; i++)
        flat = flat && flat_root(l, g.v[i]);
    for (int i = 0; i < g.n; i++)
        FX_TRY(fx_lower_tensor(l, g.v[i], FX_KTENSOR_TEMP, 0, &g.tensor[i]));
    fx_lk_begin(l, &c);
    if (!c.k)
        return fx_lk_end(&c, v->def);
    if (v->type.rank == 0)
        scalar_kernel(&c, &g);
    else if (products)
        fx_lower_tile_kernel(&c, v, product, products, g.tensor[0], l->lanes);
    else if (flat)
        flat_kernel(&c, &g);
    else
        row_kernel(&c, &g);
    for (int i = 0; i < g.n; i++) {      /* from now on; in the kernel itself nothing is read that it writes */
        if (!fx_lower_keep(l, g.v[i], (uint64_t)g.tensor[i] + 1))
            l->no_memory = true;
    }
    return fx_lk_end(&c, v->def);
}

int32_t fx_lower_spare(fx_lower *l, const fx_value *v)
{
    int32_t tensor;

    return fx_lower_tensor(l, v, FX_KTENSOR_TEMP, 0, &tensor) == FORNAX_OK ? tensor : -1;
}

/* The kernel of a pattern, launched at its place; elsewhere its results are passed over. */
static fx_status lower_fused(fx_lower *l, const fx_fused *f)
{
    int32_t tensor[FX_FUSE_RESULTS];
    fx_lk c;

    for (int i = 0; i < f->n_results; i++)
        FX_TRY(fx_lower_tensor(l, f->result[i], FX_KTENSOR_TEMP, 0, &tensor[i]));
    fx_lk_begin(l, &c);
    if (c.k)
        f->make(&c, f, tensor);
    for (int i = 0; i < f->n_results; i++) {
        if (!fx_lower_keep(l, f->result[i], (uint64_t)tensor[i] + 1))
            l->no_memory = true;
    }
    return fx_lk_end(&c, f->at);
}

#define MAX_OWN 2                /* results of an op with a kernel of its own */

static fx_status lower_own(fx_lower *l, fx_op *op)
{
    int32_t result[MAX_OWN];
    fx_lk c;

    for (int i = 0; i < op->n_out && i < MAX_OWN; i++)
        FX_TRY(add_tensor(l, &op->out[i], FX_KTENSOR_TEMP, 0, &result[i]));
    fx_lk_begin(l, &c);
    if (c.k)
        fx_own_of(op->code)(&c, op, result);
    return fx_lk_end(&c, op);
}

/* ---- The graph -------------------------------------------------------------------------------------------------------------- */

static fx_status lower_input(fx_lower *l, fx_op *op)
{
    int32_t tensor;

    FX_TRY(add_tensor(l, &op->out[0], FX_KTENSOR_INPUT, (int32_t)l->inputs.n, &tensor));
    for (int i = 0; i < op->out[0].type.rank; i++) {
        fx_str name;

        if (fx_dim_is_symbol(op->out[0].type.dim[i], &name))
            make_known(l, symbol_of(l, name));
        else if (!fx_dim_is_static(op->out[0].type.dim[i]))
            return fx_lower_unsupported(l, op, "a size of an input must be a number or a name");
    }
    return FX_VEC_PUSH(&l->inputs, l->mem, tensor) && !l->no_memory ? FORNAX_OK : no_memory(l);
}

static fx_status lower_weight(fx_lower *l, fx_op *op)
{
    fx_str name = fx_op_attr(op, FX_A_NAME)->u.s;
    int32_t tensor;
    char *p;

    FX_TRY(add_tensor(l, &op->out[0], FX_KTENSOR_WEIGHT, 0, &tensor));
    if (!name.n)
        return FORNAX_OK;
    p = fx_arena_strdup(l->arena, name.p, name.n);
    if (!p)
        return no_memory(l);
    l->tensors.at[tensor].name = fx_str_n(p, name.n);
    return FORNAX_OK;
}

static fx_status lower_constant(fx_lower *l, fx_op *op)
{
    const fx_attr *a = fx_op_attr(op, FX_A_VALUES);
    int64_t bytes = a->u.v.n * (int64_t)fx_dtype_size(a->u.v.dtype);
    int32_t tensor;
    char *copy;

    FX_TRY(add_tensor(l, &op->out[0], FX_KTENSOR_CONST, 0, &tensor));
    copy = fx_arena_strdup(l->arena, a->u.v.at, (size_t)bytes);
    if (!copy)
        return no_memory(l);
    l->tensors.at[tensor].data = copy;
    l->tensors.at[tensor].data_bytes = bytes;
    return FORNAX_OK;
}

fx_kop *fx_lower_zero(fx_lk *c, fx_ktype t)
{
    if (fx_dtype_is_float(t.t))
        return fx_kir_convert(c->m, fx_kir_float(c->m, fx_ktype_of(fx_lk_wide(t.t), t.lanes), 0), t.t);
    return fx_kir_int(c->m, t, 0);
}

fx_status fx_lower_copy(fx_lower *l, const fx_type *t, int32_t from, int32_t to, const fx_op *op)
{
    fx_dim n = fx_lower_rows(l, t, t->rank);
    fx_kop *out, *i, *x;
    fx_lk c;

    fx_lk_begin(l, &c);
    if (c.k) {
        out = fx_lk_buffer_as(&c, to, FX_KIR_OUT, &n, 1);
        i = fx_lk_task_loop(&c, n, PIECE);
        x = from < 0 ? fx_lower_zero(&c, fx_ktype_of(t->dtype, 1)) : fx_kir_load(c.m, fx_lk_buffer_as(&c, from, FX_KIR_IN, &n, 1), &i, 1, 1, NULL);
        fx_kir_store(c.m, out, x, &i, 1, NULL);
    }
    return fx_lk_end(&c, op);
}

/* A result of the graph: a tensor that was computed becomes the caller's, once; others are copied. */
static fx_status lower_result(fx_lower *l, fx_value *v)
{
    int32_t tensor = fx_lower_kept(l, v);

    if (tensor < 0)
        return fx_lower_unsupported(l, fx_graph_output(l->g), "a result that isn't a tensor");
    if (l->tensors.at[tensor].kind == FX_KTENSOR_TEMP) {
        l->tensors.at[tensor].kind = FX_KTENSOR_OUTPUT;
        l->tensors.at[tensor].index = (int32_t)l->outputs.n;
    } else {
        int32_t from = tensor;

        FX_TRY(fx_lower_tensor(l, v, FX_KTENSOR_OUTPUT, (int32_t)l->outputs.n, &tensor));
        FX_TRY(fx_lower_copy(l, &v->type, from, tensor, fx_graph_output(l->g)));
    }
    return FX_VEC_PUSH(&l->outputs, l->mem, tensor) ? FORNAX_OK : no_memory(l);
}

static bool comes_from_outside(const fx_op *op)
{
    return op->code == FX_OP_INPUT || op->code == FX_OP_WEIGHT || op->code == FX_OP_CONSTANT;
}

static fx_status lower_op(fx_lower *l, fx_op *op)
{
    const fx_fused *f;
    uint64_t t;

    if (l->in_call && (op->code == FX_OP_INPUT || op->code == FX_OP_OUTPUT))
        return FORNAX_OK;                /* lower_flow.c knows them */
    switch (op->code) {
    case FX_OP_INPUT: return lower_input(l, op);
    case FX_OP_WEIGHT: return lower_weight(l, op);
    case FX_OP_CONSTANT: return lower_constant(l, op);
    case FX_OP_CHAIN: case FX_OP_YIELD: return FORNAX_OK;
    case FX_OP_OUTPUT:
        for (int i = 0; i < op->n_in; i++)
            FX_TRY(lower_result(l, fx_op_in(op, i)));
        return FORNAX_OK;
    default: break;
    }
    if (fx_flow_of(op))
        return fx_flow_of(op)(l, op);
    FX_TRY(fx_lower_sizes(l, op));
    if (fx_own_of(op->code))
        return lower_own(l, op);
    if (!fx_at_of(op))
        return fx_lower_unsupported(l, op, "has no form in the loop IR");
    for (int i = 0; i < op->n_out; i++) {
        f = fx_fused_result(l, &op->out[i]);
        if (f && f->make && f->at != op)
            continue;
        if (to_keep(l, &op->out[i], &t) && !t)       /* else it went along with another */
            FX_TRY(f && f->make ? lower_fused(l, f) : lower_value(l, &op->out[i]));
    }
    return FORNAX_OK;
}

static fx_status lower_and_print(fx_lower *l, fx_op *op)
{
    FX_TRY(lower_op(l, op));
    for (int i = 0; l->n_print && i < op->n_out; i++) {
        if (op->out[i].type.dtype != FX_CHAIN && fx_lower_printed(l, &op->out[i]) && fx_lower_kept(l, &op->out[i]) >= 0)
            FX_TRY(fx_lower_print(l, op, &op->out[i], op->out[i].name));
    }
    return FORNAX_OK;
}

/* What comes from outside is there before all else: a kernel may be launched before the op that names its weight. */
fx_status fx_lower_block(fx_lower *l, const fx_block *b)
{
    for (int pass = 0; pass < 2; pass++) {
        for (fx_op *op = b->first; op; op = op->next) {
            if (comes_from_outside(op) == (pass == 0))
                FX_TRY(lower_and_print(l, op));
        }
    }
    return FORNAX_OK;
}

static void use_tensor(fx_lower *l, int32_t tensor, size_t first, size_t last)
{
    fx_ktensor *t = &l->tensors.at[tensor];

    t->first = t->first < 0 ? (int32_t)first : FX_MIN(t->first, (int32_t)first);
    t->last = FX_MAX(t->last, (int32_t)last);
}

/* When each tensor of the plan's own is written first and read last: what a loop touches lives as long as the loop. */
static void set_lifetimes(fx_lower *l)
{
    size_t loop_end = 0, loop = 0;

    for (size_t i = 0; i < l->launches.n; i++) {
        const fx_klaunch *n = &l->launches.at[i];
        size_t first, last;

        if (n->kind == FX_KLAUNCH_WHILE && i >= loop_end) {
            loop = i;
            loop_end = i + 1 + (size_t)n->n_first + (size_t)n->n_second;
        }
        first = i < loop_end ? loop : i;
        last = i < loop_end ? loop_end - 1 : i;
        if (n->kind == FX_KLAUNCH_COND || n->kind == FX_KLAUNCH_WHILE)
            use_tensor(l, n->pred, first, last);
        for (int32_t k = 0; k < n->n_buffers; k++)
            use_tensor(l, n->buffers[k], first, last);
    }
}

#define KEEP(field, vec)                                                          \
    (p->n_##field = (int32_t)l->vec.n, p->field = keep_all(l, l->vec.at, l->vec.n, sizeof(*l->vec.at)))

static void *keep_all(fx_lower *l, const void *at, size_t n, size_t each)
{
    void *p = fx_arena_array(l->arena, n + 1, each);

    if (!p)
        l->no_memory = true;
    else if (n)
        memcpy(p, at, n * each);
    return p;
}

static fx_status make_plan(fx_lower *l, fx_kplan **out)
{
    fx_kplan *p = FX_ARENA_NEW(l->arena, fx_kplan);

    if (!p)
        return no_memory(l);
    set_lifetimes(l);
    p->module = l->m;
    KEEP(kernels, kernels);
    KEEP(symbols, symbols);
    KEEP(steps, steps);
    KEEP(sizes, sizes);
    KEEP(tensors, tensors);
    KEEP(launches, launches);
    KEEP(inputs, inputs);
    KEEP(outputs, outputs);
    KEEP(libraries, libraries);
    KEEP(customs, customs);
    *out = p;
    return l->no_memory ? no_memory(l) : FORNAX_OK;
}

static fx_status lower_graph(fx_lower *l, fx_kplan **out)
{
    FX_TRY(fx_lower_choose(l, fx_graph_body(l->g)));
    if (l->explain)
        fx_lower_explain_values(l, fx_graph_body(l->g), 0);
    FX_TRY(fx_lower_block(l, fx_graph_body(l->g)));
    if (l->explain)
        fx_lower_explain_launches(l);
    return make_plan(l, out);
}

fx_status fx_lower_kir(fx_arena *arena, const fx_graph *g, const fx_lower_options *o, fx_kplan **out, fx_error *err)
{
    fx_lower l = { .g = g, .lanes = o->lanes, .unfused = o->unfused, .print = o->print, .n_print = o->n_print,
                   .explain = o->explain, .arena = arena, .mem = arena->mem, .err = err,
                   .m = fx_kir_module_new(arena) };
    fx_status st;

    *out = NULL;
    fx_map_init(&l.kept, l.mem);
    fx_map_init(&l.texts, l.mem);
    fx_map_init(&l.reasons, l.mem);
    fx_map_init(&l.inner, l.mem);
    fx_map_init(&l.results, l.mem);
    st = l.m ? lower_graph(&l, out) : no_memory(&l);
    for (size_t i = 0; i < o->n_print && st == FORNAX_OK; i++) {
        if (!(l.print_found >> i & 1))
            st = fx_fail_param(err, FORNAX_ENOTFOUND, "print", "print: graph %.*s has no value %.100s", FX_STR_ARG(g->name), o->print[i]);
    }
    fx_map_done(&l.kept);
    fx_map_done(&l.texts);
    fx_map_done(&l.reasons);
    fx_map_done(&l.inner);
    fx_map_done(&l.results);
    FX_VEC_FREE(&l.dims, l.mem);
    FX_VEC_FREE(&l.sizes, l.mem);
    FX_VEC_FREE(&l.steps, l.mem);
    FX_VEC_FREE(&l.symbols, l.mem);
    FX_VEC_FREE(&l.known, l.mem);
    FX_VEC_FREE(&l.tensors, l.mem);
    FX_VEC_FREE(&l.launches, l.mem);
    FX_VEC_FREE(&l.kernels, l.mem);
    FX_VEC_FREE(&l.inputs, l.mem);
    FX_VEC_FREE(&l.outputs, l.mem);
    FX_VEC_FREE(&l.libraries, l.mem);
    FX_VEC_FREE(&l.customs, l.mem);
    FX_VEC_FREE(&l.made_of, l.mem);
    return st;
}
