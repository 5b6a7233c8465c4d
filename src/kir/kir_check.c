/* kir_check.c - holds a kernel to docs/kir.md, so that whoever runs it needs no checks.
 *
 * In order: parameters; every op by itself (operands in reach, their types by the op's form, what its
 * code demands beyond); every block's end; then, with all that sure, what runs at once: iterations of forall, threads
 * and tasks keep apart (kir_apart.c).  Ops are numbered on the way. */
#include <math.h>
#include <stdarg.h>

#include "base/text.h"
#include "kir/kir_range.h"

#define MAX_DEPTH 64             /* of blocks */
#define MAX_THREADS 1024

typedef struct checker {
    fx_kir_kernel *k;
    const fx_mem *mem;
    fx_error *err;
    fx_status st;
    int depth;
    int64_t array_bytes;
} checker;

/* ---- Faults -------------------------------------------------------------------------------------------- */

static bool fault(checker *c, const fx_kop *op, const char *fmt, ...) FX_PRINTF(3, 4);

/* "kernel NAME: op 7 (add), line 3: text"; op NULL: of the kernel. */
static bool fault(checker *c, const fx_kop *op, const char *fmt, ...)
{
    char text[400], where[120] = "";
    va_list ap;

    if (c->st != FORNAX_OK)
        return false;
    va_start(ap, fmt);
    fx_vformat(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (op && op->line)
        fx_format(where, sizeof(where), "op %d (%s), line %u: ", (int)op->id, fx_kir_name(op->code), (unsigned)op->line);
    else if (op)
        fx_format(where, sizeof(where), "op %d (%s): ", (int)op->id, fx_kir_name(op->code));
    c->st = fx_fail(c->err, FORNAX_EFORMAT, "kernel %s: %s%s", FX_SHOW(c->k->name), where, text);
    return false;
}

/* A type, or a kind of operand that has none, in words. */
typedef struct words {
    char z[24];
} words;

static words type_words(const fx_kop *op)
{
    words w;

    if (!op->type.lanes)
        fx_format(w.z, sizeof(w.z), "%s", op->u.buf && (op->code == FX_KIR_BUFFER || op->code == FX_KIR_ALLOC) ? "a buffer" : "nothing");
    else if (op->type.lanes == 1)
        fx_format(w.z, sizeof(w.z), "%s", fx_dtype_name(op->type.t));
    else
        fx_format(w.z, sizeof(w.z), "%sx%d", fx_dtype_name(op->type.t), op->type.lanes);
    return w;
}
#define TYPE(op) type_words(op).z

/* The fault of operands that don't fit: names their types. */
static bool wrong_operands(checker *c, const fx_kop *op, const char *wanted)
{
    char list[200];
    size_t n = 0;

    list[0] = 0;
    for (int i = 0; i < op->n_in && n + 30 < sizeof(list); i++)
        n += (size_t)fx_format(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", TYPE(op->in[i]));
    return fault(c, op, "expected %s, found %s", wanted, op->n_in ? list : "no operand");
}

/* ---- Types and operands ------------------------------------------------------------------------------------ */

static bool is_scalar(const fx_kop *op, fx_dtype t) { return op->type.lanes == 1 && op->type.t == t; }
static bool is_place(const fx_kop *op) { return op->code == FX_KIR_BUFFER || op->code == FX_KIR_ALLOC; }
static bool is_access(const fx_kop *op) { return op->code >= FX_KIR_LOAD && op->code <= FX_KIR_SCATTER; }
static bool stores(const fx_kop *op) { return op->code == FX_KIR_STORE || op->code == FX_KIR_SCATTER; }
static bool computes(fx_dtype t) { return t == FX_BOOL || fx_dtype_is_int(t) || t == FX_F32 || t == FX_F64; }

static bool is_plain(fx_ktype t)
{
    return t.t < FX_DTYPE_COUNT && fx_dtype_size(t.t) && t.lanes && t.lanes <= FX_KIR_MAX_LANES && !(t.lanes & (t.lanes - 1));
}

/* Whether the operand was made before op, in a block around it. */
static bool in_reach(const checker *c, const fx_kop *in, const fx_kop *op)
{
    if (!in->parent)
        return in->id >= 0 && (size_t)in->id < c->k->params.n && c->k->params.at[in->id] == in;
    return in->parent->kernel == c->k && in->id < op->id && fx_kir_inside(op->parent, in->parent);
}

/* Where buffers and locals may stand among operands. */
static bool check_operand(checker *c, const fx_kop *op, int i)
{
    const fx_kop *in = op->in[i];
    bool variable = op->code == FX_KIR_GET || op->code == FX_KIR_SET;

    if (!in)
        return fault(c, op, "operand %d is missing", i);
    if (!in_reach(c, in, op))
        return fault(c, op, "operand %d isn't made before it in a block around it", i);
    if (i == 0 && is_access(op))
        return is_place(in) || fault(c, op, "operand 0 isn't a buffer or an array");
    if (i == 0 && variable)
        return in->code == FX_KIR_LOCAL || fault(c, op, "operand 0 isn't a local");
    if (!in->type.lanes || in->code == FX_KIR_LOCAL)
        return fault(c, op, "operand %d is no value", i);
    return true;
}

static bool takes(const fx_kir_row *row, fx_dtype t)
{
    return ((row->flags & FX_KOPF_F) && (t == FX_F32 || t == FX_F64)) ||
           ((row->flags & FX_KOPF_I) && fx_dtype_is_int(t)) || ((row->flags & FX_KOPF_B) && t == FX_BOOL);
}

static bool all_alike(const fx_kop *op, int from, fx_ktype t)
{
    for (int i = from; i < op->n_in; i++) {
        if (!fx_ktype_eq(op->in[i]->type, t))
            return false;
    }
    return true;
}

static bool form_same(checker *c, const fx_kop *op)
{
    const fx_kir_row *row = &fx_kir_rows[op->code];

    if (op->code == FX_KIR_INSERT) {
        if (!fx_ktype_eq(op->in[0]->type, op->type) || !is_scalar(op->in[1], op->type.t))
            return wrong_operands(c, op, "a vector and a scalar of it");
        return (op->u.i >= 0 && op->u.i < op->type.lanes) || fault(c, op, "lane %lld of %s", (long long)op->u.i, TYPE(op));
    }
    if (!takes(row, op->in[0]->type.t))
        return fault(c, op, "doesn't take %s", TYPE(op->in[0]));
    return all_alike(op, 0, op->type) || wrong_operands(c, op, "operands of the result's type");
}

static bool form_compare(checker *c, const fx_kop *op)
{
    if (!takes(&fx_kir_rows[op->code], op->in[0]->type.t))
        return fault(c, op, "doesn't take %s", TYPE(op->in[0]));
    if (!fx_ktype_eq(op->type, fx_ktype_of(FX_BOOL, op->in[0]->type.lanes)))
        return fault(c, op, "gives bool in the lanes of its operands, not %s", TYPE(op));
    return all_alike(op, 1, op->in[0]->type) || wrong_operands(c, op, "two of a type");
}

static bool form_select(checker *c, const fx_kop *op)
{
    if (!fx_ktype_eq(op->in[0]->type, fx_ktype_of(FX_BOOL, op->type.lanes)) || !all_alike(op, 1, op->type))
        return wrong_operands(c, op, "a bool a lane and two of the result's type");
    return true;
}

static bool form_const(checker *c, const fx_kop *op)
{
    fx_dtype t = op->type.t;
    int bits = (int)fx_dtype_size(t) * 8;
    int64_t lo = 0, hi = INT64_MAX;

    if (!computes(t))
        return fault(c, op, "there are no numbers of %s: convert one", TYPE(op));
    if (t == FX_F32)
        return isnan(op->u.f) || (double)(float)op->u.f == op->u.f || fault(c, op, "the number isn't a float");
    if (t == FX_F64 || bits == 64)
        return true;
    if (fx_dtype_is_signed(t))
        lo = -((int64_t)1 << (bits - 1));
    hi = t == FX_BOOL ? 1 : ((int64_t)1 << (bits - (fx_dtype_is_signed(t) ? 1 : 0))) - 1;
    return (op->u.i >= lo && op->u.i <= hi) || fault(c, op, "%lld isn't in the range of %s", (long long)op->u.i, fx_dtype_name(t));
}

static bool form_convert(checker *c, const fx_kop *op)
{
    if (op->type.lanes != op->in[0]->type.lanes)
        return fault(c, op, "%s to %s: lanes differ", TYPE(op->in[0]), TYPE(op));
    return op->type.t != op->in[0]->type.t || fault(c, op, "%s to itself", TYPE(op));
}

static bool form_bitcast(checker *c, const fx_kop *op)
{
    fx_ktype from = op->in[0]->type;

    if (from.lanes * fx_dtype_size(from.t) != op->type.lanes * fx_dtype_size(op->type.t) || from.t == FX_BOOL || op->type.t == FX_BOOL)
        return fault(c, op, "%s has not the bits of %s", TYPE(op->in[0]), TYPE(op));
    return true;
}

static bool (*const forms[])(checker *, const fx_kop *) = {
    [FX_KFORM_CONST] = form_const,   [FX_KFORM_SAME] = form_same,       [FX_KFORM_COMPARE] = form_compare,
    [FX_KFORM_SELECT] = form_select, [FX_KFORM_CONVERT] = form_convert, [FX_KFORM_BITCAST] = form_bitcast,
    [FX_KFORM_TYPED] = NULL,         [FX_KFORM_NONE] = NULL,
};

/* ---- What single ops demand ---------------------------------------------------------------------------------- */

static bool check_splat(checker *c, const fx_kop *op)
{
    return (is_scalar(op->in[0], op->type.t) && op->type.lanes > 1) || wrong_operands(c, op, "a scalar of the vector's type");
}

static bool check_iota(checker *c, const fx_kop *op)
{
    return fx_dtype_is_int(op->type.t) || fault(c, op, "isn't made of %s", TYPE(op));
}

static bool check_extract(checker *c, const fx_kop *op)
{
    if (!is_scalar(op, op->in[0]->type.t))
        return fault(c, op, "gives a scalar of %s, not %s", TYPE(op->in[0]), TYPE(op));
    return (op->u.i >= 0 && op->u.i < op->in[0]->type.lanes) || fault(c, op, "lane %lld of %s", (long long)op->u.i, TYPE(op->in[0]));
}

static bool check_shuffle(checker *c, const fx_kop *op)
{
    if (!fx_ktype_eq(op->in[0]->type, op->in[1]->type) || op->in[0]->type.t != op->type.t)
        return wrong_operands(c, op, "two vectors of a type");
    for (int i = 0; i < op->type.lanes; i++) {
        if (op->u.lanes[i] >= 2 * op->in[0]->type.lanes)
            return fault(c, op, "lane %d of two %s", op->u.lanes[i], TYPE(op->in[0]));
    }
    return true;
}

static bool check_alloc(checker *c, const fx_kop *op)
{
    const fx_kir_buf *b = op->u.buf;
    int64_t n = (int64_t)fx_dtype_size(b->dtype);

    if (!n || b->rank < 0 || b->rank > FX_KIR_MAX_RANK || (b->space != FX_KIR_SHARED && b->space != FX_KIR_PRIVATE))
        return fault(c, op, "an array has a plain type, 0 to %d axes, and is shared or private", FX_KIR_MAX_RANK);
    if (b->space == FX_KIR_SHARED && op->parent != c->k->body)
        return fault(c, op, "a shared array stands in the body itself, in no other block");
    for (int i = 0; i < b->rank; i++) {
        const fx_kop *e = b->extent[i];

        if (!e || e->code != FX_KIR_CONST || !is_scalar(e, FX_I64) || e->u.i < 0 || b->stride[i])
            return fault(c, op, "extent %d isn't a number, or it has a stride", i);
        n = e->u.i > FX_KIR_MAX_ARRAYS / FX_MAX(n, 1) ? FX_KIR_MAX_ARRAYS + 1 : n * e->u.i;
    }
    c->array_bytes += n;
    return c->array_bytes <= FX_KIR_MAX_ARRAYS || fault(c, op, "the arrays of a kernel take more than %d bytes", FX_KIR_MAX_ARRAYS);
}

/* Indices: one an axis, i64; vectors only for gather and scatter, all of 'lanes'. */
static bool check_indices(checker *c, const fx_kop *op, int lanes)
{
    const fx_kir_buf *b = op->in[0]->u.buf;
    bool vectors = op->code == FX_KIR_GATHER || op->code == FX_KIR_SCATTER, any = op->masked;
    int from = fx_kir_index_from(op), n = op->n_in - from - op->masked;

    if (n != b->rank)
        return fault(c, op, "%d indices for %d axes", n, b->rank);
    for (int i = from; i < from + n; i++) {
        if (!is_scalar(op->in[i], FX_I64) && !(vectors && fx_ktype_eq(op->in[i]->type, fx_ktype_of(FX_I64, lanes))))
            return fault(c, op, "index %d is %s", i - from, TYPE(op->in[i]));
        any = any || op->in[i]->type.lanes > 1;
    }
    if (op->masked && !fx_ktype_eq(fx_kir_mask_of(op)->type, fx_ktype_of(FX_BOOL, lanes)))
        return fault(c, op, "the mask of %d lanes is %s", lanes, TYPE(fx_kir_mask_of(op)));
    return !vectors || (any && lanes > 1) || fault(c, op, "has neither a vector among its indices nor a mask");
}

static bool check_access(checker *c, const fx_kop *op)
{
    const fx_kir_buf *b = op->in[0]->u.buf;
    const fx_kop *value = stores(op) ? op->n_in > 1 ? op->in[1] : NULL : op;

    if (!value || value->type.t != b->dtype)
        return fault(c, op, "%s for elements of %s", value ? TYPE(value) : "nothing", fx_dtype_name(b->dtype));
    if (!(b->access & (stores(op) ? FX_KIR_OUT : FX_KIR_IN)))
        return fault(c, op, "%s a buffer that is '%s'", stores(op) ? "writes" : "reads", stores(op) ? "in" : "out");
    if (value->type.lanes > 1 && !b->rank)
        return fault(c, op, "%d lanes of a buffer without axes", value->type.lanes);
    return check_indices(c, op, value->type.lanes);
}

static bool check_local(checker *c, const fx_kop *op)
{
    return fx_ktype_eq(op->type, op->in[0]->type) || fault(c, op, "a local of %s begins with %s", TYPE(op), TYPE(op->in[0]));
}

static bool check_set(checker *c, const fx_kop *op)
{
    return fx_ktype_eq(op->in[0]->type, op->in[1]->type) || fault(c, op, "%s into a local of %s", TYPE(op->in[1]), TYPE(op->in[0]));
}

static bool check_loop(checker *c, const fx_kop *op)
{
    if (!all_alike(op, 0, fx_ktype_of(FX_I64, 1)))
        return wrong_operands(c, op, "i64");
    return op->code != FX_KIR_FOR || fx_kir_range(op->in[2]).lo > 0 || fault(c, op, "its step isn't surely above 0");
}

static bool check_if(checker *c, const fx_kop *op) { return is_scalar(op->in[0], FX_BOOL) || wrong_operands(c, op, "bool"); }

static bool check_threads(checker *c, const fx_kop *op)
{
    const fx_kop *n = op->in[0];

    if (n->code != FX_KIR_CONST || !is_scalar(n, FX_I64) || n->u.i < 1 || n->u.i > MAX_THREADS)
        return fault(c, op, "their number isn't a constant from 1 to %d", MAX_THREADS);
    for (const fx_kir_block *b = op->parent; b->owner; b = b->owner->parent) {
        fx_kir_code around = b->owner->code;

        if (around == FX_KIR_THREADS || around == FX_KIR_FORALL || around == FX_KIR_REDUCE)
            return fault(c, op, "stands in %s", fx_kir_name(around));
    }
    return true;
}

/* The kinds of numbers that each reduction takes, and how many values its block yields. */
static const struct { int takes, values; } combines[FX_KIR_COMBINES] = {
    [FX_KIR_SUM] = { FX_KOPF_F | FX_KOPF_I, 1 },      [FX_KIR_PROD] = { FX_KOPF_F | FX_KOPF_I, 1 },
    [FX_KIR_LEAST] = { FX_KOPF_F | FX_KOPF_I, 1 },    [FX_KIR_GREATEST] = { FX_KOPF_F | FX_KOPF_I, 1 },
    [FX_KIR_ALL] = { FX_KOPF_B, 1 },                  [FX_KIR_ANY] = { FX_KOPF_B, 1 },
    [FX_KIR_DOT] = { FX_KOPF_F, 2 },                  [FX_KIR_ARGLEAST] = { FX_KOPF_F | FX_KOPF_I, 1 },
    [FX_KIR_ARGGREATEST] = { FX_KOPF_F | FX_KOPF_I, 1 },
};

static bool check_reduce(checker *c, const fx_kop *op)
{
    int lanes = op->u.reduce.lanes;

    if (!check_loop(c, op))
        return false;
    if (op->u.reduce.kind >= FX_KIR_COMBINES || !is_plain(fx_ktype_of(FX_I64, lanes)))
        return fault(c, op, "its lanes aren't 1, 2, 4, ... 64");
    if (op->u.reduce.kind >= FX_KIR_ARGLEAST && (lanes != 1 || op->type.t != FX_I64))
        return fault(c, op, "argmin and argmax have one lane and give i64");
    if (op->u.reduce.kind >= FX_KIR_ARGLEAST && fx_kir_range(op->in[0]).lo < 0)
        return fault(c, op, "the places of argmin and argmax aren't surely from 0 on");
    return op->type.lanes == 1 || fault(c, op, "gives a scalar");
}

static bool check_yield(checker *c, const fx_kop *op);

/* By code; others are done with their form. */
static bool (*const checks[FX_KIR_COUNT])(checker *, const fx_kop *) = {
    [FX_KIR_SPLAT] = check_splat,     [FX_KIR_IOTA] = check_iota,       [FX_KIR_EXTRACT] = check_extract,
    [FX_KIR_SHUFFLE] = check_shuffle, [FX_KIR_ALLOC] = check_alloc,     [FX_KIR_LOAD] = check_access,
    [FX_KIR_STORE] = check_access,    [FX_KIR_GATHER] = check_access,   [FX_KIR_SCATTER] = check_access,
    [FX_KIR_LOCAL] = check_local,     [FX_KIR_GET] = check_local,       [FX_KIR_SET] = check_set,
    [FX_KIR_FOR] = check_loop,        [FX_KIR_FORALL] = check_loop,     [FX_KIR_IF] = check_if,
    [FX_KIR_REDUCE] = check_reduce,   [FX_KIR_THREADS] = check_threads, [FX_KIR_YIELD] = check_yield,
};

/* ---- Blocks ---------------------------------------------------------------------------------------------------- */

static bool check_reduce_yield(checker *c, const fx_kop *yield, const fx_kop *reduce)
{
    fx_kir_combine kind = reduce->u.reduce.kind;
    fx_dtype t = kind >= FX_KIR_ARGLEAST && yield->n_in ? yield->in[0]->type.t : reduce->type.t;

    if (yield->n_in != combines[kind].values)
        return fault(c, yield, "%s takes %d values, not %d", fx_kir_combine_name(kind), combines[kind].values, yield->n_in);
    if (!takes(&(fx_kir_row){ .flags = combines[kind].takes }, t) || !all_alike(yield, 0, fx_ktype_of(t, 1)))
        return fault(c, yield, "%s of %s doesn't take %s", fx_kir_combine_name(kind), fx_dtype_name(t), TYPE(yield->in[0]));
    return true;
}

/* The number of tasks; a reduction's values; whether a while goes on. */
static bool check_yield(checker *c, const fx_kop *op)
{
    const fx_kop *owner = op->parent->owner;

    if (op->parent == c->k->grid)
        return (op->n_in == 1 && is_scalar(op->in[0], FX_I64)) || wrong_operands(c, op, "the number of tasks, i64");
    if (owner && owner->code == FX_KIR_REDUCE)
        return check_reduce_yield(c, op, owner);
    if (owner && owner->code == FX_KIR_WHILE && op->parent == owner->block[0])
        return (op->n_in == 1 && is_scalar(op->in[0], FX_BOOL)) || wrong_operands(c, op, "bool");
    return fault(c, op, "this block yields nothing");
}

static bool needs_yield(const checker *c, const fx_kir_block *b)
{
    return b == c->k->grid || (b->owner && (b->owner->code == FX_KIR_REDUCE || (b->owner->code == FX_KIR_WHILE && b == b->owner->block[0])));
}

static bool check_block(checker *c, const fx_kir_block *b);

static bool check_shape_of(checker *c, const fx_kop *op)
{
    const fx_kir_row *row = &fx_kir_rows[op->code];
    bool has_result = row->form != FX_KFORM_NONE && op->code != FX_KIR_ALLOC;
    int blocks = !(row->flags & FX_KOPF_REGION) ? 0 : op->code == FX_KIR_WHILE ? 2 : 1;

    if (op->code == FX_KIR_ARG || op->code == FX_KIR_BUFFER)
        return fault(c, op, "is no op of a block");
    if (row->operands >= 0 && op->n_in != row->operands)
        return fault(c, op, "takes %d operands, not %d", row->operands, op->n_in);
    if (has_result ? !is_plain(op->type) : op->type.lanes != 0)
        return fault(c, op, "its result isn't a number in 1, 2, 4, ... %d lanes", FX_KIR_MAX_LANES);
    for (int i = 0; i < 2; i++) {
        if (op->block[i] ? i >= blocks && op->code != FX_KIR_IF : i < blocks)
            return fault(c, op, "has not the blocks that it should have");
    }
    if (op->parent == c->k->grid && (row->flags & (FX_KOPF_EFFECT | FX_KOPF_REGION)))
        return fault(c, op, "stands in the grid, which is arithmetic on sizes and scalars alone");
    return true;
}

static bool check_op(checker *c, const fx_kop *op)
{
    const fx_kir_row *row = &fx_kir_rows[op->code];

    if (!check_shape_of(c, op))
        return false;
    for (int i = 0; i < op->n_in; i++) {
        if (!check_operand(c, op, i))
            return false;
    }
    if ((forms[row->form] && !forms[row->form](c, op)) || (checks[op->code] && !checks[op->code](c, op)))
        return false;
    for (int i = 0; i < 2; i++) {
        if (op->block[i] && !check_block(c, op->block[i]))
            return false;
    }
    return true;
}

static bool check_block(checker *c, const fx_kir_block *b)
{
    if (c->depth == MAX_DEPTH)
        return fault(c, b->owner, "blocks lie more than %d deep", MAX_DEPTH);
    c->depth++;
    for (const fx_kop *op = b->first; op; op = op->next) {
        if (op->parent != b || (op->code == FX_KIR_YIELD && op->next))
            return fault(c, op, "a yield is the last op of its block");
        if (!check_op(c, op))
            return false;
    }
    c->depth--;
    if (!needs_yield(c, b) || (b->last && b->last->code == FX_KIR_YIELD))
        return true;
    return fault(c, b->owner, "%s has no yield", b->owner ? "its block" : "the grid");
}

/* ---- Parameters ------------------------------------------------------------------------------------------------- */

static bool check_dim(checker *c, const fx_kop *buf, const fx_kop *d, bool stride)
{
    if (d->code == FX_KIR_CONST)
        return (is_scalar(d, FX_I64) && (stride || (d->u.i >= 0 && d->u.i <= FX_KIR_MAX_SIZE))) ||
               fault(c, buf, "an extent is from 0 to 2^48");
    if (d->code != FX_KIR_ARG || d->parent || !in_reach(c, d, buf) || !is_scalar(d, FX_I64))
        return fault(c, buf, "its extents and strides aren't numbers or parameters of the kernel");
    return d->size || stride || fault(c, buf, "an extent is a number or a size");
}

static const fx_kop *buffer_at(const fx_kir_kernel *k, int number)
{
    for (size_t i = 0; i < k->params.n; i++) {
        if (k->params.at[i]->code == FX_KIR_BUFFER && number-- == 0)
            return k->params.at[i];
    }
    return NULL;
}

/* Another that is only read, of the same type, extents and strides; no other output has it. */
static bool check_same(checker *c, const fx_kop *op)
{
    const fx_kir_buf *b = op->u.buf, *other;
    const fx_kop *in = buffer_at(c->k, b->same_as - 1);

    if (!(b->access & FX_KIR_OUT) || !in || in->u.buf->access != FX_KIR_IN)
        return fault(c, op, "'same' goes from an output to a buffer that is only read");
    other = in->u.buf;
    if (other->dtype != b->dtype || other->rank != b->rank)
        return fault(c, op, "what is the same has the same type and extents");
    for (int i = 0; i < b->rank; i++) {
        bool one = b->stride[i] != NULL, two = other->stride[i] != NULL;

        if (!fx_kir_alike(b->extent[i], other->extent[i]) || one != two || (one && !fx_kir_alike(b->stride[i], other->stride[i])))
            return fault(c, op, "what is the same has the same extents and strides");
    }
    for (size_t i = 0; i < c->k->params.n; i++) {
        const fx_kop *p = c->k->params.at[i];

        if (p != op && p->code == FX_KIR_BUFFER && p->u.buf->same_as == b->same_as)
            return fault(c, op, "two outputs are the same as one buffer");
    }
    return true;
}

static bool check_buffer(checker *c, const fx_kop *op)
{
    const fx_kir_buf *b = op->u.buf;

    if (!fx_dtype_size(b->dtype) || b->rank < 0 || b->rank > FX_KIR_MAX_RANK || b->access < FX_KIR_IN || b->access > FX_KIR_INOUT ||
        b->space != FX_KIR_GLOBAL)
        return fault(c, op, "a buffer has a plain type, 0 to %d axes, and is in, out or inout", FX_KIR_MAX_RANK);
    for (int i = 0; i < b->rank; i++) {
        if (!b->extent[i] || !check_dim(c, op, b->extent[i], false) || (b->stride[i] && !check_dim(c, op, b->stride[i], true)))
            return fault(c, op, "axis %d has no extent", i);
        if ((b->access & FX_KIR_OUT) && b->stride[i] && b->stride[i]->code == FX_KIR_CONST && b->stride[i]->u.i == 0 &&
            fx_kir_range(b->extent[i]).hi > 1)
            return fault(c, op, "axis %d of an output has stride 0", i);
    }
    return !b->same_as || check_same(c, op);
}

static bool check_params(checker *c)
{
    for (size_t i = 0; i < c->k->params.n; i++) {
        const fx_kop *op = c->k->params.at[i];

        if (op->code == FX_KIR_BUFFER ? !check_buffer(c, op) : !is_plain(op->type) || op->type.lanes != 1)
            return fault(c, op, "a parameter is a scalar of a plain type or a buffer");
    }
    return true;
}

/* ---- What runs at once --------------------------------------------------------------------------------------------- */

typedef FX_VEC(const fx_kop *) ops;

/* The accesses and SETs in a block, and in the blocks in it, in order. */
static bool gather_effects(checker *c, const fx_kir_block *b, ops *out)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        if ((is_access(op) || op->code == FX_KIR_SET) && !FX_VEC_PUSH(out, c->mem, op)) {
            c->st = fx_nomem(c->err, "the check of a kernel");
            return false;
        }
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && !gather_effects(c, op->block[i], out))
                return false;
        }
    }
    return true;
}

/* What an access touches: buffers that may be the same count as the one that is only read. */
static const fx_kop *place_of(const checker *c, const fx_kop *access)
{
    const fx_kop *buf = access->in[0];

    return buf->code == FX_KIR_BUFFER && buf->u.buf->same_as ? buffer_at(c->k, buf->u.buf->same_as - 1) : buf;
}

static const char *what_runs(const fx_kop *counter)
{
    return !counter->parent->owner ? "tasks" : counter->parent->owner->code == FX_KIR_THREADS ? "threads" : "iterations";
}

/* Whether what is stored at 'store' lies apart by the counter from all accesses of the same place in 'all'. */
static bool check_place(checker *c, const ops *all, const fx_kop *store, const fx_kop *counter)
{
    const fx_kop *place = place_of(c, store);
    ops some = { NULL, 0, 0 };
    bool ok = true;

    for (size_t i = 0; ok && i < all->n; i++) {
        if (is_access(all->at[i]) && place_of(c, all->at[i]) == place)
            ok = FX_VEC_PUSH(&some, c->mem, all->at[i]);
    }
    if (!ok)
        c->st = fx_nomem(c->err, "the check of a kernel");
    else if (!fx_kir_apart(some.at, (int)some.n, counter))
        ok = fault(c, store, "what %s write to %%%s isn't surely apart: no axis of all accesses there tells %%%s", what_runs(counter),
                   FX_SHOW(place->name), FX_SHOW(counter->name));
    FX_VEC_FREE(&some, c->mem);
    return ok;
}

/* One place is checked once, at its first store. */
static bool is_first_store(const checker *c, const ops *all, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (stores(all->at[j]) && place_of(c, all->at[j]) == place_of(c, all->at[i]))
            return false;
    }
    return true;
}

static bool is_outside(const fx_kop *what, const fx_kir_block *b) { return !what->parent || !fx_kir_inside(what->parent, b); }

static bool runs_once(const fx_kop *counter)
{
    fx_krange r = fx_kir_range(counter);

    return r.lo == r.hi;
}

/* Iterations of a FORALL, threads, tasks. */
static bool check_parallel(checker *c, const fx_kir_block *b, const ops *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const fx_kop *op = all->at[i];

        if (op->code == FX_KIR_SET && is_outside(op->in[0], b))
            return fault(c, op, "%s set a local from outside", what_runs(b->arg));
        if (b->owner && b->owner->code == FX_KIR_THREADS && is_access(op) && is_outside(op->in[0], b) &&
            op->in[0]->u.buf->space == FX_KIR_PRIVATE)
            return fault(c, op, "threads reach for a private array from outside");
        if (stores(op) && is_outside(op->in[0], b) && !runs_once(b->arg) && is_first_store(c, all, i) &&
            !check_place(c, all, op, b->arg))
            return false;
    }
    return true;
}

static bool check_pure(checker *c, const fx_kir_block *b, const ops *all)
{
    for (size_t i = 0; i < all->n; i++) {
        if ((all->at[i]->code == FX_KIR_SET || stores(all->at[i])) && is_outside(all->at[i]->in[0], b))
            return fault(c, all->at[i], "changes something outside of the reduction around it");
    }
    return true;
}

/* ---- Outputs in the place of inputs ------------------------------------------------------------------------------------ */

/* The ancestor of op, or op itself, that stands in b. */
static const fx_kop *child_in(const fx_kir_block *b, const fx_kop *op)
{
    while (op->parent != b)
        op = op->parent->owner;
    return op;
}

/* 'store' writes what may be the memory that 'load' reads: no store before a load of the same element. */
static bool check_same_pair(checker *c, const fx_kop *store, const fx_kop *load)
{
    const fx_kop *pair[] = { store, load }, *one, *two;
    const fx_kir_block *b = store->parent;

    while (!fx_kir_inside(load->parent, b))
        b = b->owner->parent;
    one = child_in(b, store);
    two = child_in(b, load);
    if ((one->id < two->id && !fx_kir_disjoint(store, load)) || (one == two && one->code == FX_KIR_WHILE))
        return fault(c, store, "comes before a load of %%%s, which may be the same memory", FX_SHOW(load->in[0]->name));
    for (; b->owner; b = b->owner->parent) {
        if (b->arg ? !fx_kir_apart(pair, 2, b->arg) && !runs_once(b->arg) : b->owner->code == FX_KIR_WHILE)
            return fault(c, store, "may write what a later turn of %s loads from %%%s, which may be the same memory",
                         fx_kir_name(b->owner->code), FX_SHOW(load->in[0]->name));
    }
    return true;
}

static bool check_same_places(checker *c, const ops *all)
{
    for (size_t i = 0; i < all->n; i++) {
        if (!stores(all->at[i]) || place_of(c, all->at[i]) == all->at[i]->in[0])
            continue;
        for (size_t j = 0; j < all->n; j++) {
            if (is_access(all->at[j]) && all->at[j]->in[0] == place_of(c, all->at[i]) && !check_same_pair(c, all->at[i], all->at[j]))
                return false;
        }
    }
    return true;
}

static bool check_regions(checker *c, const fx_kir_block *b);

static bool check_region(checker *c, const fx_kir_block *b)
{
    fx_kir_code owner = b->owner ? b->owner->code : FX_KIR_FORALL;       /* tasks are like iterations of a FORALL */
    ops all = { NULL, 0, 0 };
    bool ok = true;

    if (owner == FX_KIR_FORALL || owner == FX_KIR_THREADS || owner == FX_KIR_REDUCE) {
        ok = gather_effects(c, b, &all) && (owner == FX_KIR_REDUCE ? check_pure : check_parallel)(c, b, &all);
        ok = ok && (b->owner || check_same_places(c, &all));
        FX_VEC_FREE(&all, c->mem);
    }
    return ok && check_regions(c, b);
}

static bool check_regions(checker *c, const fx_kir_block *b)
{
    for (const fx_kop *op = b->first; op; op = op->next) {
        for (int i = 0; i < 2; i++) {
            if (op->block[i] && !check_region(c, op->block[i]))
                return false;
        }
    }
    return true;
}

/* ---- Kernels -------------------------------------------------------------------------------------------------------------- */

fx_status fx_kir_check(fx_kir_kernel *k, fx_error *err)
{
    checker c = { .k = k, .mem = k->module->mem, .err = err };

    FX_TRY(fx_kir_status(k->module, err));
    fx_kir_number(k);
    if (check_params(&c) && check_block(&c, k->grid) && check_block(&c, k->body))
        check_region(&c, k->body);
    return c.st;
}
