/* kir.c - making ops of the loop IR.
 *
 * A maker checks what it needs to know the result's type; everything else is the
 * verifier's (kir_check.c). */
#include <stdarg.h>
#include <stdio.h>

#include "kir/kir.h"

const fx_kir_row fx_kir_rows[FX_KIR_COUNT] = {
#define KOP(code, text, operands, form, flags, doc) \
    [FX_KIR_##code] = { text, operands, FX_KFORM_##form, flags, doc },
#include "kir/kir_ops.def"
};

static const char *const combine_names[FX_KIR_COMBINES] = {
    [FX_KIR_SUM] = "sum", [FX_KIR_PROD] = "prod", [FX_KIR_LEAST] = "min", [FX_KIR_GREATEST] = "max",
    [FX_KIR_ALL] = "all", [FX_KIR_ANY] = "any", [FX_KIR_DOT] = "dot", [FX_KIR_ARGLEAST] = "argmin",
    [FX_KIR_ARGGREATEST] = "argmax",
};

const char *fx_kir_combine_name(fx_kir_combine c) { return combine_names[c]; }

bool fx_kir_code_of_name(fx_kir_code *out, fx_str name)
{
    for (int i = 0; i < FX_KIR_COUNT; i++) {
        if (fx_str_is(name, fx_kir_rows[i].text)) {
            *out = (fx_kir_code)i;
            return true;
        }
    }
    return false;
}

void fx_ktype_print(fx_ktype t, fx_buf *out)
{
    fx_buf_puts(out, fx_dtype_name(t.t));
    if (t.lanes > 1)
        fx_buf_printf(out, "x%d", t.lanes);
}

/* ---- Modules, kernels, parameters ------------------------------------------------------------- */

fx_kir_module *fx_kir_module_new(fx_arena *arena)
{
    fx_kir_module *m = FX_ARENA_NEW(arena, fx_kir_module);

    if (m) {
        m->arena = arena;
        m->mem = arena->mem;
    }
    return m;
}

fx_status fx_kir_status(const fx_kir_module *m, fx_error *err)
{
    if (!m->failed)
        return FORNAX_OK;
    if (err)
        *err = m->err;
    return m->err.status;
}

void *fx_kir_fail(fx_kir_module *m, fx_status st, const char *fmt, ...)
{
    va_list ap;
    char text[512];

    if (!m->failed) {
        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        m->failed = true;
        fx_fail(&m->err, st, "%s", text);
    }
    return NULL;
}

static void *no_memory(fx_kir_module *m) { return fx_kir_fail(m, FORNAX_ENOMEM, "no memory for a kernel"); }

static void *new_array(fx_kir_module *m, size_t n, size_t each)
{
    void *p = m->failed ? NULL : fx_arena_array(m->arena, n ? n : 1, each);

    return p ? p : no_memory(m);
}

static fx_str keep(fx_kir_module *m, fx_str s)
{
    char *p = fx_arena_strdup(m->arena, s.p, s.n);

    return p ? fx_str_n(p, s.n) : (no_memory(m), FX_STR(""));
}

static fx_kir_block *new_block(fx_kir_kernel *k, fx_kop *owner)
{
    fx_kir_block *b = new_array(k->module, 1, sizeof(*b));

    if (b) {
        b->kernel = k;
        b->owner = owner;
    }
    return b;
}

static fx_kop *new_op(fx_kir_module *m, fx_kir_code code, fx_ktype type, int n_in)
{
    fx_kop *op = new_array(m, 1, sizeof(*op));

    if (!op)
        return NULL;
    op->code = code;
    op->type = type;
    op->n_in = n_in;
    op->in = n_in ? new_array(m, (size_t)n_in, sizeof(*op->in)) : NULL;
    op->line = m->line;
    op->name = FX_STR("");
    return n_in && !op->in ? NULL : op;
}

static fx_kop *new_arg(fx_kir_block *b, const char *name)
{
    fx_kop *op = b ? new_op(b->kernel->module, FX_KIR_ARG, fx_ktype_of(FX_I64, 1), 0) : NULL;

    if (op) {
        op->parent = b;
        op->name = fx_str_of(name);
        b->arg = op;
    }
    return op;
}

fx_kir_kernel *fx_kir_kernel_new(fx_kir_module *m, fx_str name)
{
    fx_kir_kernel *k = new_array(m, 1, sizeof(*k));

    if (!k)
        return NULL;
    k->module = m;
    k->name = keep(m, name);
    k->origin = FX_STR("");
    k->grid = new_block(k, NULL);
    k->body = new_block(k, NULL);
    k->task = new_arg(k->body, "t");
    if (m->failed)
        return NULL;
    *(m->last ? &m->last->next : &m->first) = k;
    m->last = k;
    m->at = k->body;
    return k;
}

fx_kir_kernel *fx_kir_kernel_find(const fx_kir_module *m, fx_str name)
{
    for (fx_kir_kernel *k = m->first; k; k = k->next) {
        if (fx_str_eq(k->name, name))
            return k;
    }
    return NULL;
}

/* The list of parameters grows in the arena: what it outgrew stays there. */
static fx_kop *add_param(fx_kir_kernel *k, fx_kop *op)
{
    fx_kop **more;

    if (!op)
        return NULL;
    if (k->params.n == k->params.cap) {
        more = new_array(k->module, k->params.cap * 2 + 8, sizeof(*more));
        if (!more)
            return NULL;
        if (k->params.n)
            memcpy(more, k->params.at, k->params.n * sizeof(*more));
        k->params.at = more;
        k->params.cap = k->params.cap * 2 + 8;
    }
    return k->params.at[k->params.n++] = op;
}

fx_kop *fx_kir_scalar(fx_kir_kernel *k, fx_str name, fx_dtype t)
{
    fx_kop *op = k ? new_op(k->module, FX_KIR_ARG, fx_ktype_of(t, 1), 0) : NULL;

    if (!op)
        return NULL;
    op->name = keep(k->module, name);
    op->u.i = k->n_args++;
    return add_param(k, op);
}

fx_kop *fx_kir_size(fx_kir_kernel *k, fx_str name)
{
    fx_kop *op = fx_kir_scalar(k, name, FX_I64);

    if (op)
        op->size = true;
    return op;
}

fx_kop *fx_kir_dim(fx_kir_module *m, int64_t n)
{
    fx_kop *op = new_op(m, FX_KIR_CONST, fx_ktype_of(FX_I64, 1), 0);

    if (op)
        op->u.i = n;
    return op;
}

static fx_kir_buf *keep_buf(fx_kir_module *m, const fx_kir_buf *buf)
{
    fx_kir_buf *b = new_array(m, 1, sizeof(*b));

    if (b) {
        *b = *buf;
        b->name = keep(m, buf->name);
    }
    return b;
}

fx_kop *fx_kir_buffer(fx_kir_kernel *k, const fx_kir_buf *buf)
{
    fx_kop *op = k ? new_op(k->module, FX_KIR_BUFFER, FX_KVOID, 0) : NULL;

    if (!op)
        return NULL;
    op->u.buf = keep_buf(k->module, buf);
    if (!op->u.buf)
        return NULL;
    op->name = op->u.buf->name;
    k->n_buffers++;
    return add_param(k, op);
}

fx_kir_block *fx_kir_at(fx_kir_module *m, fx_kir_block *b)
{
    fx_kir_block *was = m->at;

    if (b) {
        m->at = b;
        m->before = NULL;
    }
    return was;
}

void fx_kir_before(fx_kir_module *m, fx_kop *op)
{
    if (op) {
        m->at = op->parent;
        m->before = op;
    }
}

/* ---- Ops ------------------------------------------------------------------------------------------ */

static fx_kop *append(fx_kir_module *m, fx_kop *op)
{
    fx_kir_block *b = m->at;
    fx_kop *before = m->before;

    if (!op || m->failed)
        return NULL;
    if (!before && b->last && (fx_kir_rows[b->last->code].flags & FX_KOPF_END))
        return fx_kir_fail(m, FORNAX_EARG, "%s behind a yield", fx_kir_name(op->code));
    op->parent = b;
    op->prev = before ? before->prev : b->last;
    op->next = before;
    *(op->prev ? &op->prev->next : &b->first) = op;
    *(before ? &before->prev : &b->last) = op;
    return op;
}

static bool all_there(fx_kir_module *m, fx_kir_code code, fx_kop *const *in, int n)
{
    for (int i = 0; i < n; i++) {
        if (!in[i])
            return fx_kir_fail(m, FORNAX_EARG, "%s: operand %d is missing", fx_kir_name(code), i) != NULL;
    }
    return !m->failed;
}

static bool takes(const fx_kir_row *row, fx_dtype t)
{
    return ((row->flags & FX_KOPF_F) && (t == FX_F32 || t == FX_F64)) ||
           ((row->flags & FX_KOPF_I) && fx_dtype_is_int(t)) || ((row->flags & FX_KOPF_B) && t == FX_BOOL);
}

static fx_kop *wrong_types(fx_kir_module *m, fx_kir_code code, fx_kop *const *in, int n)
{
    char text[200];
    fx_buf b;

    fx_buf_init(&b, m->mem);
    for (int i = 0; i < n; i++) {
        fx_buf_puts(&b, i ? ", " : "");
        if (in[i]->type.lanes)
            fx_ktype_print(in[i]->type, &b);
        else
            fx_buf_puts(&b, in[i]->code == FX_KIR_BUFFER || in[i]->code == FX_KIR_ALLOC ? "a buffer" : "nothing");
    }
    snprintf(text, sizeof(text), "%.*s", FX_STR_ARG(fx_buf_view(&b)));
    fx_buf_done(&b);
    return fx_kir_fail(m, FORNAX_EARG, "%s doesn't take %s", fx_kir_name(code), text);
}

/* The type that operands of the forms SAME, COMPARE and SELECT give; false: none. */
static bool infer(const fx_kir_row *row, fx_kop *const *in, int n, fx_ktype *out)
{
    int from = row->form == FX_KFORM_SELECT ? 1 : 0;
    fx_ktype t = in[from]->type;

    if (t.lanes == 0)
        return false;
    for (int i = from + 1; i < n; i++) {
        if (!fx_ktype_eq(in[i]->type, t))
            return false;
    }
    *out = row->form == FX_KFORM_COMPARE ? fx_ktype_of(FX_BOOL, t.lanes) : t;
    if (row->form == FX_KFORM_SELECT)
        return fx_ktype_eq(in[0]->type, fx_ktype_of(FX_BOOL, t.lanes));
    return takes(row, t.t);
}

fx_kop *fx_kir_op(fx_kir_module *m, fx_kir_code code, fx_kop *const *in, int n)
{
    const fx_kir_row *row = &fx_kir_rows[code];
    fx_ktype t;
    fx_kop *op;

    if (!all_there(m, code, in, n))
        return NULL;
    if (n != row->operands)
        return fx_kir_fail(m, FORNAX_EARG, "%s takes %d operands, not %d", row->text, row->operands, n);
    if ((row->form != FX_KFORM_SAME && row->form != FX_KFORM_COMPARE && row->form != FX_KFORM_SELECT) ||
        code == FX_KIR_INSERT || !infer(row, in, n, &t))
        return wrong_types(m, code, in, n);
    op = new_op(m, code, t, n);
    if (op)
        memcpy(op->in, in, (size_t)n * sizeof(*in));
    return append(m, op);
}

/* An op of another form: its type is known to the caller. */
static fx_kop *make(fx_kir_module *m, fx_kir_code code, fx_ktype t, fx_kop *const *in, int n)
{
    fx_kop *op;

    if (!all_there(m, code, in, n))
        return NULL;
    op = new_op(m, code, t, n);
    if (op && n)
        memcpy(op->in, in, (size_t)n * sizeof(*in));
    return append(m, op);
}

fx_kop *fx_kir_int(fx_kir_module *m, fx_ktype t, int64_t x)
{
    fx_kop *op = make(m, FX_KIR_CONST, t, NULL, 0);

    if (op)
        op->u.i = x;
    return op;
}

fx_kop *fx_kir_float(fx_kir_module *m, fx_ktype t, double x)
{
    fx_kop *op = make(m, FX_KIR_CONST, t, NULL, 0);

    if (op)
        op->u.f = t.t == FX_F32 ? (double)(float)x : x;
    return op;
}

fx_kop *fx_kir_convert(fx_kir_module *m, fx_kop *x, fx_dtype t)
{
    if (x && x->type.t == t)
        return x;
    return make(m, FX_KIR_CONVERT, fx_ktype_of(t, x ? x->type.lanes : 1), &x, 1);
}

fx_kop *fx_kir_bitcast(fx_kir_module *m, fx_kop *x, fx_ktype t)
{
    if (x && x->type.lanes * fx_dtype_size(x->type.t) != t.lanes * fx_dtype_size(t.t))
        return wrong_types(m, FX_KIR_BITCAST, &x, 1);
    return make(m, FX_KIR_BITCAST, t, &x, 1);
}

fx_kop *fx_kir_splat(fx_kir_module *m, fx_kop *x, int lanes)
{
    if (lanes == 1 || !x)
        return x;
    return x->type.lanes == 1 ? make(m, FX_KIR_SPLAT, fx_ktype_of(x->type.t, lanes), &x, 1)
                              : wrong_types(m, FX_KIR_SPLAT, &x, 1);
}

fx_kop *fx_kir_iota(fx_kir_module *m, fx_ktype t) { return make(m, FX_KIR_IOTA, t, NULL, 0); }

fx_kop *fx_kir_extract(fx_kir_module *m, fx_kop *x, int lane)
{
    fx_kop *op;

    if (x && (lane < 0 || lane >= x->type.lanes))
        return wrong_types(m, FX_KIR_EXTRACT, &x, 1);
    op = make(m, FX_KIR_EXTRACT, fx_ktype_of(x ? x->type.t : FX_I64, 1), &x, 1);
    if (op)
        op->u.i = lane;
    return op;
}

fx_kop *fx_kir_insert(fx_kir_module *m, fx_kop *x, fx_kop *lane_value, int lane)
{
    fx_kop *in[] = { x, lane_value }, *op;

    if (x && lane_value && (lane < 0 || lane >= x->type.lanes || !fx_ktype_eq(lane_value->type, fx_ktype_of(x->type.t, 1))))
        return wrong_types(m, FX_KIR_INSERT, in, 2);
    op = make(m, FX_KIR_INSERT, x ? x->type : FX_KVOID, in, 2);
    if (op)
        op->u.i = lane;
    return op;
}

fx_kop *fx_kir_shuffle(fx_kir_module *m, fx_kop *a, fx_kop *b, const uint8_t *lanes, int n)
{
    fx_kop *in[] = { a, b }, *op;
    uint8_t *copy;

    if (a && b && !fx_ktype_eq(a->type, b->type))
        return wrong_types(m, FX_KIR_SHUFFLE, in, 2);
    op = make(m, FX_KIR_SHUFFLE, fx_ktype_of(a ? a->type.t : FX_I64, n), in, 2);
    copy = new_array(m, (size_t)n, 1);
    if (!op || !copy)
        return NULL;
    memcpy(copy, lanes, (size_t)n);
    op->u.lanes = copy;
    return op;
}

/* ---- Memory ---------------------------------------------------------------------------------------- */

fx_kop *fx_kir_alloc(fx_kir_module *m, fx_kir_space space, fx_dtype t, const int64_t *extent, int rank, fx_str name)
{
    fx_kir_buf buf = { .dtype = t, .rank = rank, .access = FX_KIR_INOUT, .space = space, .name = name };
    fx_kop *op;

    if (rank < 0 || rank > FX_KIR_MAX_RANK)
        return fx_kir_fail(m, FORNAX_EARG, "alloc of rank %d; at most %d", rank, FX_KIR_MAX_RANK);
    for (int i = 0; i < rank; i++)
        buf.extent[i] = fx_kir_dim(m, extent[i]);
    op = make(m, FX_KIR_ALLOC, FX_KVOID, NULL, 0);
    if (!op)
        return NULL;
    op->u.buf = keep_buf(m, &buf);
    if (!op->u.buf)
        return NULL;
    op->name = op->u.buf->name;
    return op;
}

/* An access: buffer, [value], indices, [mask]. */
static fx_kop *access(fx_kir_module *m, fx_kir_code code, fx_ktype t, fx_kop *buf, fx_kop *value, fx_kop *const *index, int n,
                      fx_kop *mask)
{
    fx_kop *in[FX_KIR_MAX_RANK + 3], *op;
    int k = 0;

    if (!buf || n > FX_KIR_MAX_RANK)
        return fx_kir_fail(m, FORNAX_EARG, "%s without a buffer, or of too many axes", fx_kir_name(code));
    in[k++] = buf;
    if (code == FX_KIR_STORE || code == FX_KIR_SCATTER)
        in[k++] = value;
    for (int i = 0; i < n; i++)
        in[k++] = index[i];
    if (mask)
        in[k++] = mask;
    op = make(m, code, t, in, k);
    if (op)
        op->masked = mask != NULL;
    return op;
}

static fx_dtype element_of(const fx_kop *buf) { return buf && buf->u.buf ? buf->u.buf->dtype : FX_F32; }

/* Lanes of the first index or mask that has several. */
static int lanes_of(fx_kop *const *index, int n, const fx_kop *mask)
{
    for (int i = 0; i < n; i++) {
        if (index[i] && index[i]->type.lanes > 1)
            return index[i]->type.lanes;
    }
    return mask ? mask->type.lanes : 1;
}

fx_kop *fx_kir_load(fx_kir_module *m, fx_kop *buf, fx_kop *const *index, int n, int lanes, fx_kop *mask)
{
    return access(m, FX_KIR_LOAD, fx_ktype_of(element_of(buf), lanes), buf, NULL, index, n, mask);
}

fx_kop *fx_kir_store(fx_kir_module *m, fx_kop *buf, fx_kop *value, fx_kop *const *index, int n, fx_kop *mask)
{
    return access(m, FX_KIR_STORE, FX_KVOID, buf, value, index, n, mask);
}

fx_kop *fx_kir_gather(fx_kir_module *m, fx_kop *buf, fx_kop *const *index, int n, fx_kop *mask)
{
    return access(m, FX_KIR_GATHER, fx_ktype_of(element_of(buf), lanes_of(index, n, mask)), buf, NULL, index, n, mask);
}

fx_kop *fx_kir_scatter(fx_kir_module *m, fx_kop *buf, fx_kop *value, fx_kop *const *index, int n, fx_kop *mask)
{
    return access(m, FX_KIR_SCATTER, FX_KVOID, buf, value, index, n, mask);
}

fx_kop *fx_kir_local(fx_kir_module *m, fx_kop *init, fx_str name)
{
    fx_kop *op = make(m, FX_KIR_LOCAL, init ? init->type : FX_KVOID, &init, 1);

    if (op)
        op->name = keep(m, name);
    return op;
}

fx_kop *fx_kir_get(fx_kir_module *m, fx_kop *local)
{
    return make(m, FX_KIR_GET, local ? local->type : FX_KVOID, &local, 1);
}

fx_kop *fx_kir_set(fx_kir_module *m, fx_kop *local, fx_kop *value)
{
    return make(m, FX_KIR_SET, FX_KVOID, (fx_kop *const[]){ local, value }, 2);
}

/* ---- Structure --------------------------------------------------------------------------------------- */

/* An op with blocks; counter: the name of the first one's argument, or NULL. */
static fx_kop *region_op(fx_kir_module *m, fx_kir_code code, fx_ktype t, fx_kop *const *in, int n, int blocks, const char *counter)
{
    fx_kop *op = make(m, code, t, in, n);

    if (!op)
        return NULL;
    for (int i = 0; i < blocks; i++)
        op->block[i] = new_block(m->at->kernel, op);
    if (counter)
        new_arg(op->block[0], counter);
    return m->failed ? NULL : op;
}

fx_kop *fx_kir_for(fx_kir_module *m, fx_kop *lo, fx_kop *hi, fx_kop *step)
{
    fx_kop *in[] = { lo, hi, step ? step : fx_kir_index(m, 1) };

    return region_op(m, FX_KIR_FOR, FX_KVOID, in, 3, 1, "i");
}

fx_kop *fx_kir_forall(fx_kir_module *m, fx_kop *lo, fx_kop *hi)
{
    return region_op(m, FX_KIR_FORALL, FX_KVOID, (fx_kop *const[]){ lo, hi }, 2, 1, "i");
}

fx_kop *fx_kir_if(fx_kir_module *m, fx_kop *cond, bool with_else)
{
    return region_op(m, FX_KIR_IF, FX_KVOID, &cond, 1, with_else ? 2 : 1, NULL);
}

fx_kop *fx_kir_while(fx_kir_module *m) { return region_op(m, FX_KIR_WHILE, FX_KVOID, NULL, 0, 2, NULL); }

fx_kop *fx_kir_threads(fx_kir_module *m, fx_kop *n) { return region_op(m, FX_KIR_THREADS, FX_KVOID, &n, 1, 1, "thread"); }

fx_kop *fx_kir_reduce(fx_kir_module *m, fx_kir_combine kind, int lanes, fx_dtype t, fx_kop *lo, fx_kop *hi)
{
    fx_dtype result = kind >= FX_KIR_ARGLEAST ? FX_I64 : t;
    fx_kop *op = region_op(m, FX_KIR_REDUCE, fx_ktype_of(result, 1), (fx_kop *const[]){ lo, hi }, 2, 1, "k");

    if (op) {
        op->u.reduce.kind = kind;
        op->u.reduce.lanes = (uint8_t)lanes;
    }
    return op;
}

fx_kop *fx_kir_yield(fx_kir_module *m, fx_kop *const *in, int n) { return make(m, FX_KIR_YIELD, FX_KVOID, in, n); }

/* ---- Numbers -------------------------------------------------------------------------------------------- */

static void number_block(fx_kir_kernel *k, fx_kir_block *b)
{
    if (b->arg)
        b->arg->id = k->n_ops++;
    for (fx_kop *op = b->first; op; op = op->next) {
        op->id = k->n_ops++;
        for (int i = 0; i < 2; i++) {
            if (op->block[i])
                number_block(k, op->block[i]);
        }
    }
}

void fx_kir_number(fx_kir_kernel *k)
{
    k->n_ops = 0;
    for (size_t i = 0; i < k->params.n; i++)
        k->params.at[i]->id = k->n_ops++;
    number_block(k, k->grid);
    number_block(k, k->body);
}
