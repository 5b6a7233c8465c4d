/* ref_graph.c - see ref_graph.h.
 *
 * A frame is one run of a graph's body: its symbols and its values. Regions run in the frame of their
 * op, calls in one of their own. A buffer's value is its memory, which stores change in place. */
#include "ref_graph.h"

#define MAX_SYMBOLS 64

typedef struct frame {
    const fx_graph *g;
    fx_arena *arena;
    fx_map values;               /* address of the value to fx_tensor* */
    fx_ref_symbol symbols[MAX_SYMBOLS];
    int n_symbols;
    fx_error *err;
} frame;

static fx_status fail(frame *f, const char *what)
{
    return fx_fail(f->err, FORNAX_EARG, "%.*s: %s", FX_STR_ARG(f->g->name), what);
}

/* ---- Sizes --------------------------------------------------------------------------------- */

static bool lookup(void *user, fx_str name, int64_t *value)
{
    const frame *f = user;

    for (int i = 0; i < f->n_symbols; i++) {
        if (fx_str_eq(f->symbols[i].name, name)) {
            *value = f->symbols[i].value;
            return true;
        }
    }
    return false;
}

static bool bind(frame *f, fx_str name, int64_t value)
{
    int64_t was;

    if (lookup(f, name, &was))
        return was == value;
    if (f->n_symbols == MAX_SYMBOLS)
        return false;
    f->symbols[f->n_symbols++] = (fx_ref_symbol){ name, value };
    return true;
}

static fx_status size_of(frame *f, fx_dim d, int64_t *out)
{
    if (!fx_dim_eval(d, lookup, f, out))
        return fail(f, "a size has a name without a value");
    return *out >= 0 || *out == -1 ? FORNAX_OK : fail(f, "a size is negative");
}

/* ---- Values ---------------------------------------------------------------------------------- */

static fx_status set_value(frame *f, fx_value *v, const fx_tensor *t)
{
    fx_tensor *copy = FX_ARENA_NEW(f->arena, fx_tensor);
    fx_value **key = FX_ARENA_NEW(f->arena, fx_value *);

    if (!copy || !key)
        return fx_nomem(f->err, "a tensor");
    *copy = *t;
    *key = v;
    return fx_map_put(&f->values, fx_str_n((const char *)key, sizeof(*key)), (uint64_t)(uintptr_t)copy)
               ? FORNAX_OK : fx_nomem(f->err, "a tensor");
}

/* NULL for a chain. */
static const fx_tensor *value_of(frame *f, fx_value *v)
{
    uint64_t at;

    return fx_map_get(&f->values, fx_str_n((const char *)&v, sizeof(v)), &at) ? (const fx_tensor *)(uintptr_t)at : NULL;
}

static fx_status new_tensor(frame *f, const fx_type *type, fx_tensor *out)
{
    int64_t dims[FX_MAX_RANK], n = 1;
    void *data;

    for (int i = 0; i < type->rank; i++) {
        FX_TRY(size_of(f, type->dim[i], &dims[i]));
        if (dims[i] < 0)
            return fail(f, "a size is negative");
        if (dims[i] && n > INT32_MAX / dims[i])
            return fail(f, "a tensor is too large for the reference");
        n *= dims[i];
    }
    data = fx_arena_alloc(f->arena, (size_t)n * fx_dtype_size(type->dtype) + 8);
    if (!data)
        return fx_nomem(f->err, "a tensor");
    *out = fx_tensor_dense(type->dtype, type->rank, dims, data);
    return FORNAX_OK;
}

static fx_status copy_tensor(const fx_tensor *to, const fx_tensor *from, fx_error *err)
{
    fx_ref_call c = { .op = FX_OP_RESHAPE, .n_in = 1, .n_out = 1, .in = &from, .out = to, .err = err };

    return fx_ref_run(&c);
}

/* ---- Ops ------------------------------------------------------------------------------------------ */

static fx_status take_attr(frame *f, const fx_attr *a, fx_ref_attr *out)
{
    int64_t *list;

    *out = (fx_ref_attr){ .key = a->key };
    switch (fx_attr_rows[a->key].kind) {
    case FX_ATTR_FLOAT: out->f = a->u.f; break;
    case FX_ATTR_DIM: return size_of(f, a->u.dim, &out->i);
    case FX_ATTR_INTS: out->list = a->u.ints.at; out->n = a->u.ints.n; break;
    case FX_ATTR_DIMS:
        list = FX_ARENA_NEWN(f->arena, int64_t, (size_t)a->u.dims.n + 1);
        if (!list)
            return fx_nomem(f->err, "sizes");
        for (int64_t i = 0; i < a->u.dims.n; i++)
            FX_TRY(size_of(f, a->u.dims.at[i], &list[i]));
        out->list = list;
        out->n = a->u.dims.n;
        break;
    case FX_ATTR_STR: case FX_ATTR_TYPE: case FX_ATTR_TYPES: case FX_ATTR_PARAMS: case FX_ATTR_DATA: break;
    default: out->i = a->u.i; break;
    }
    return FORNAX_OK;
}

static fx_status run_reference(frame *f, fx_op *op)
{
    fx_ref_attr *attrs = FX_ARENA_NEWN(f->arena, fx_ref_attr, (size_t)op->n_attrs + 1);
    const fx_tensor **in = FX_ARENA_NEWN(f->arena, const fx_tensor *, (size_t)op->n_in + 1);
    fx_tensor *out = FX_ARENA_NEWN(f->arena, fx_tensor, (size_t)op->n_out + 1);
    fx_ref_call c = { .op = op->code, .n_in = op->n_in, .n_out = op->n_out, .n_attrs = op->n_attrs, .in = in, .out = out,
                      .attrs = attrs, .mem = &fx_mem_libc, .err = f->err };

    if (!attrs || !in || !out)
        return fx_nomem(f->err, "an op");
    for (int i = 0; i < op->n_attrs; i++)
        FX_TRY(take_attr(f, &op->attrs[i], &attrs[i]));
    for (int i = 0; i < op->n_in; i++)
        in[i] = op->in[i].value ? value_of(f, op->in[i].value) : NULL;
    for (int i = 0; i < op->n_out; i++)
        FX_TRY(new_tensor(f, &op->out[i].type, &out[i]));
    FX_TRY(fx_ref_run(&c));
    for (int i = 0; i < op->n_out; i++)
        FX_TRY(set_value(f, &op->out[i], &out[i]));
    return FORNAX_OK;
}

static fx_status run_constant(frame *f, fx_op *op)
{
    const fx_attr *a = fx_op_attr(op, FX_A_VALUES);
    fx_tensor t;

    FX_TRY(new_tensor(f, &op->out[0].type, &t));
    memcpy(t.data, a->u.v.at, (size_t)a->u.v.n * fx_dtype_size(a->u.v.dtype));
    return set_value(f, &op->out[0], &t);
}

/* The part of buffer b that a slice of x's shape, at starts and steps, lies on. */
static fx_status part_of_buffer(frame *f, const fx_op *op, const fx_tensor *b, const fx_tensor *x, fx_tensor *out)
{
    const fx_attr *starts = fx_op_attr(op, FX_A_STARTS);
    int64_t offset = 0, start, step;

    *out = *b;
    for (int i = 0; i < b->rank; i++) {
        FX_TRY(size_of(f, starts->u.dims.at[i], &start));
        step = fx_op_int_at(op, FX_A_STEPS, i, 1);
        if (x->dim[i] && (start < 0 || start >= b->dim[i] || start + (x->dim[i] - 1) * step < 0 ||
                          start + (x->dim[i] - 1) * step >= b->dim[i]))
            return fail(f, "a slice leaves its buffer");
        out->dim[i] = x->dim[i];
        out->stride[i] = b->stride[i] * step;
        offset += start * b->stride[i];
    }
    if (fx_tensor_count(x))
        out->data = (char *)b->data + offset * (int64_t)fx_dtype_size(b->dtype);
    return FORNAX_OK;
}

static fx_status run_buffer(frame *f, fx_op *op)
{
    const fx_tensor *b = value_of(f, fx_op_in(op, 0)), *x = op->n_in == 3 ? value_of(f, fx_op_in(op, 1)) : NULL;
    fx_tensor t;

    if (op->code == FX_OP_BUFFER_CREATE) {
        FX_TRY(new_tensor(f, &op->out[0].type, &t));
        return set_value(f, &op->out[0], &t);
    }
    if (op->code == FX_OP_BUFFER_LOAD) {
        FX_TRY(new_tensor(f, &op->out[0].type, &t));
        FX_TRY(copy_tensor(&t, b, f->err));
        return set_value(f, &op->out[0], &t);
    }
    if (op->code == FX_OP_BUFFER_STORE)
        return copy_tensor(b, x, f->err);
    FX_TRY(part_of_buffer(f, op, b, x, &t));
    return copy_tensor(&t, x, f->err);
}

static fx_status run_block(frame *f, const fx_block *b, const fx_op **end);

/* The values that 'from' ends with become those of 'to'. */
static fx_status hand_over(frame *f, const fx_op *from, fx_value *to, int n)
{
    for (int i = 0; i < n; i++) {
        const fx_tensor *t = value_of(f, fx_op_in(from, i));

        if (t)
            FX_TRY(set_value(f, &to[i], t));
    }
    return FORNAX_OK;
}

static bool is_true(const fx_tensor *p)
{
    int64_t zero = 0;

    return fx_tensor_i64(p, &zero) != 0;
}

static fx_status run_cond(frame *f, fx_op *op)
{
    bool p = is_true(value_of(f, fx_op_in(op, 0)));
    const fx_op *end;

    FX_TRY(run_block(f, op->regions[p ? 0 : 1]->first, &end));
    return hand_over(f, end, op->out, op->n_out);
}

static fx_status run_while(frame *f, fx_op *op)
{
    const fx_op *now = op, *end;

    for (;;) {
        FX_TRY(hand_over(f, now, op->regions[0]->first->args, op->n_in));
        FX_TRY(hand_over(f, now, op->regions[1]->first->args, op->n_in));
        FX_TRY(run_block(f, op->regions[0]->first, &end));
        if (!is_true(value_of(f, fx_op_in(end, 0))))
            break;
        FX_TRY(run_block(f, op->regions[1]->first, &now));
    }
    return hand_over(f, now, op->out, op->n_out);
}

static fx_status run_call(frame *f, fx_op *op)
{
    const fx_graph *callee = fx_graph_find(f->g->module, fx_op_attr(op, FX_A_CALLEE)->u.s);
    fx_tensor *in = FX_ARENA_NEWN(f->arena, fx_tensor, (size_t)op->n_in + 1);
    fx_tensor *out = FX_ARENA_NEWN(f->arena, fx_tensor, (size_t)op->n_out + 1);
    int n = 0, k = 0;

    if (!in || !out)
        return fx_nomem(f->err, "a call");
    for (int i = 0; i < op->n_in; i++) {
        if (value_of(f, fx_op_in(op, i)))
            in[n++] = *value_of(f, fx_op_in(op, i));
    }
    FX_TRY(fx_ref_graph_run(callee, f->arena, in, n, NULL, 0, out, &n, f->err));
    for (int i = 0; i < op->n_out; i++) {
        if (op->out[i].type.dtype != FX_CHAIN)
            FX_TRY(set_value(f, &op->out[i], &out[k++]));
    }
    return FORNAX_OK;
}

static fx_status run_op(frame *f, fx_op *op)
{
    switch (op->code) {
    case FX_OP_INPUT: case FX_OP_CHAIN: case FX_OP_PRINT: return FORNAX_OK;
    case FX_OP_CONSTANT: return run_constant(f, op);
    case FX_OP_COND: return run_cond(f, op);
    case FX_OP_WHILE: return run_while(f, op);
    case FX_OP_CALL: return run_call(f, op);
    case FX_OP_BUFFER_CREATE: case FX_OP_BUFFER_LOAD: case FX_OP_BUFFER_STORE: case FX_OP_BUFFER_STORE_SLICE:
        return run_buffer(f, op);
    default: return run_reference(f, op);
    }
}

/* Its ops up to the one that ends it, which is not run. */
static fx_status run_block(frame *f, const fx_block *b, const fx_op **end)
{
    for (fx_op *op = b->first; op != b->last; op = op->next)
        FX_TRY(run_op(f, op));
    *end = b->last;
    return FORNAX_OK;
}

/* ---- Graphs ------------------------------------------------------------------------------------------- */

static fx_status take_inputs(frame *f, const fx_tensor *inputs, int n)
{
    int k = 0;

    for (fx_op *op = fx_graph_body(f->g)->first; op; op = op->next) {
        const fx_type *t = &op->out[0].type;
        fx_str name;

        if (op->code != FX_OP_INPUT || t->dtype == FX_CHAIN)
            continue;
        if (k == n || inputs[k].rank != t->rank || inputs[k].dtype != t->dtype)
            return fail(f, "an input is missing or of another type");
        for (int i = 0; i < t->rank; i++) {
            if (fx_dim_is_symbol(t->dim[i], &name) && !bind(f, name, inputs[k].dim[i]))
                return fail(f, "an input's size contradicts another's");
        }
        FX_TRY(set_value(f, &op->out[0], &inputs[k++]));
    }
    return k == n ? FORNAX_OK : fail(f, "too many inputs");
}

static fx_status run_frame(frame *f, const fx_tensor *inputs, int n_inputs, fx_tensor *outputs, int *n_outputs)
{
    const fx_op *end;

    *n_outputs = 0;
    FX_TRY(take_inputs(f, inputs, n_inputs));
    FX_TRY(run_block(f, fx_graph_body(f->g), &end));
    for (int i = 0; i < end->n_in; i++) {
        if (value_of(f, fx_op_in(end, i)))
            outputs[(*n_outputs)++] = *value_of(f, fx_op_in(end, i));
    }
    return FORNAX_OK;
}

fx_status fx_ref_graph_run(const fx_graph *g, fx_arena *arena, const fx_tensor *inputs, int n_inputs,
                           const fx_ref_symbol *symbols, int n_symbols, fx_tensor *outputs, int *n_outputs, fx_error *err)
{
    frame f = { .g = g, .arena = arena, .err = err };
    fx_status st;

    for (int i = 0; i < n_symbols; i++)
        bind(&f, symbols[i].name, symbols[i].value);
    fx_map_init(&f.values, arena->mem);
    st = run_frame(&f, inputs, n_inputs, outputs, n_outputs);
    fx_map_done(&f.values);
    return st;
}
