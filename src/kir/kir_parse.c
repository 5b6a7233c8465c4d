/* kir_parse.c - reads the text that kir_print.c writes.
 *
 *     module  := { "kernel" "@" name "(" [ param { "," param } ] ")" "{" "grid" block "body" value block "}" }
 *     param   := value ":" ( "size" | dtype | shape ( "in" | "out" | "inout" ) [ "same" value ] )
 *     shape   := dtype "[" [ axis { "," axis } ] "]"
 *     axis    := dim [ ":" dim ]                           extent, stride; a dim is a number or a parameter
 *     block   := "{" { op } "}"
 *     op      := [ value "=" ] name what-its-row-says
 *
 * Where an operand is wanted, a whole number is an i64 constant made just before the op.  What the
 * builder finds wrong with an op is reported at its name; the rest is the verifier's. */
#include <math.h>

#include "base/lex.h"
#include "base/text.h"
#include "kir/kir.h"

#define MAX_DEPTH 32             /* of blocks */
#define MAX_OPERANDS (FX_KIR_MAX_RANK + 3)
#define MAX_PARAMS 4096

typedef struct parser {
    fx_lex lex;
    fx_kir_module *m;
    fx_kir_kernel *k;
    fx_map values;               /* of this kernel: name to fx_kop* */
    fx_kir_block *open[MAX_DEPTH];
    int depth;
} parser;

static bool no_memory(parser *p) { return fx_lex_no_memory(&p->lex, "a kernel"); }

/* Whether the builder took what it was given; its complaint goes to 'at'. */
static bool made(parser *p, const void *what, size_t at)
{
    if (what && !p->m->failed)
        return true;
    if (p->m->err.status == FORNAX_ENOMEM || !p->m->failed)
        return no_memory(p);
    return fx_lex_fault(&p->lex, at, "%s", p->m->err.text);
}

static bool fault_here(parser *p, const char *what) { return fx_lex_fault(&p->lex, p->lex.t.at, "%s", what); }

/* ---- Names and types ------------------------------------------------------------------------------------ */

static bool define(parser *p, const fx_token *name, fx_kop *op)
{
    uint64_t v;
    bool hint = false;
    char *copy;

    if (fx_map_get(&p->values, name->s, &v))
        return fx_lex_fault(&p->lex, name->at, "%%%s is there already", FX_SHOW(name->s));
    if (!fx_map_put(&p->values, name->s, (uint64_t)(uintptr_t)op))
        return no_memory(p);
    for (size_t i = 0; i < name->s.n; i++)
        hint = hint || name->s.p[i] < '0' || name->s.p[i] > '9';
    op->name = FX_STR("");
    if (!hint)
        return true;
    copy = fx_arena_strdup(p->m->arena, name->s.p, name->s.n);
    if (!copy)
        return no_memory(p);
    op->name = fx_str_n(copy, name->s.n);
    return true;
}

/* Reads the value's name alone. */
static bool parse_name(parser *p, fx_token *out)
{
    *out = p->lex.t;
    return p->lex.t.kind == FX_T_VALUE ? fx_lex_next(&p->lex) : fault_here(p, "expected %name");
}

static bool is_open(const parser *p, const fx_kop *op)
{
    for (int i = 0; i < p->depth; i++) {
        if (p->open[i] == op->parent)
            return true;
    }
    return op->parent == NULL;           /* a parameter */
}

static bool parse_value(parser *p, fx_kop **out)
{
    const fx_token *t = &p->lex.t;
    uint64_t v;
    int64_t n;

    if (t->kind == FX_T_NUMBER || fx_lex_at(&p->lex, "-")) {
        size_t at = t->at;

        return fx_lex_i64(&p->lex, &n) && made(p, *out = fx_kir_index(p->m, n), at);
    }
    if (t->kind != FX_T_VALUE)
        return fault_here(p, "expected an operand");
    if (!fx_map_get(&p->values, t->s, &v))
        return fx_lex_fault(&p->lex, t->at, "no such value: %%%s", FX_SHOW(t->s));
    *out = (fx_kop *)(uintptr_t)v;
    if (!is_open(p, *out))
        return fx_lex_fault(&p->lex, t->at, "%%%s belongs to a block that is closed", FX_SHOW(t->s));
    return fx_lex_next(&p->lex);
}

/* Values up to 'max' of them, separated by commas; *n of them. */
static bool parse_values(parser *p, fx_kop **in, int *n, int max)
{
    do {
        if (*n >= max)
            return fault_here(p, "too many operands");
        if (!parse_value(p, &in[*n]))
            return false;
        ++*n;
    } while (fx_lex_take(&p->lex, ","));
    return p->lex.st == FORNAX_OK;
}

static bool parse_dtype(parser *p, fx_dtype *out)
{
    if (p->lex.t.kind != FX_T_NAME || !fx_dtype_of_name(out, p->lex.t.s) || !fx_dtype_size(*out))
        return fault_here(p, "expected a type");
    return fx_lex_next(&p->lex);
}

/* f32, i64x8. */
static bool parse_type(parser *p, fx_ktype *out)
{
    fx_str s = p->lex.t.s;
    size_t x = fx_str_find(s, FX_STR("x"), 0);
    uint64_t lanes = 1;
    fx_dtype t;

    if (p->lex.t.kind != FX_T_NAME || !fx_dtype_of_name(&t, x == FX_STR_NONE ? s : fx_str_n(s.p, x)) || !fx_dtype_size(t))
        return fault_here(p, "expected a type");
    if (x != FX_STR_NONE && (!fx_parse_u64(fx_str_n(s.p + x + 1, s.n - x - 1), &lanes) || lanes < 2 ||
                             lanes > FX_KIR_MAX_LANES || (lanes & (lanes - 1))))
        return fault_here(p, "the lanes of a type are 2, 4, 8, 16, 32 or 64");
    *out = fx_ktype_of(t, (int)lanes);
    return fx_lex_next(&p->lex);
}

/* A number or a scalar parameter of i64. */
static bool parse_dim(parser *p, fx_kop **out)
{
    size_t at = p->lex.t.at;
    int64_t n;

    if (p->lex.t.kind != FX_T_VALUE)
        return fx_lex_i64(&p->lex, &n) && made(p, *out = fx_kir_dim(p->m, n), at);
    if (!parse_value(p, out))
        return false;
    return ((*out)->code == FX_KIR_ARG && !(*out)->parent) || fx_lex_fault(&p->lex, at, "expected a number or a size");
}

static bool parse_shape(parser *p, fx_kir_buf *b)
{
    if (!parse_dtype(p, &b->dtype) || !fx_lex_expect(&p->lex, "["))
        return false;
    while (!fx_lex_at(&p->lex, "]")) {
        if (b->rank >= FX_KIR_MAX_RANK)
            return fault_here(p, "too many axes");
        if (!parse_dim(p, &b->extent[b->rank]) || (fx_lex_take(&p->lex, ":") && !parse_dim(p, &b->stride[b->rank])))
            return false;
        b->rank++;
        if (p->lex.st != FORNAX_OK || !fx_lex_take(&p->lex, ","))
            break;
    }
    return fx_lex_expect(&p->lex, "]");
}

/* ---- Ops --------------------------------------------------------------------------------------------------- */

typedef struct operands {
    fx_kir_code code;
    size_t at;                   /* of the op's name */
    fx_kop *in[MAX_OPERANDS];
    int n;
} operands;

static bool parse_block(parser *p, fx_kir_block *b);

/* Nothing more, where ops without operands end: the line, the block. */
static bool at_end(const parser *p)
{
    return p->lex.t.kind == FX_T_END || p->lex.t.first || fx_lex_at(&p->lex, "}");
}

static bool parse_operands(parser *p, operands *o)
{
    return at_end(p) || parse_values(p, o->in, &o->n, MAX_OPERANDS);
}

static fx_kop *plain_op(parser *p, operands *o)
{
    return parse_operands(p, o) ? fx_kir_op(p->m, o->code, o->in, o->n) : NULL;
}

static bool parse_float(parser *p, fx_ktype t, double *out)
{
    bool minus = fx_lex_take(&p->lex, "-");

    if (fx_lex_at_name(&p->lex, "inf") || fx_lex_at_name(&p->lex, "nan"))
        *out = p->lex.t.s.p[0] == 'i' ? HUGE_VAL : NAN;
    else if (p->lex.t.kind != FX_T_NUMBER || !fx_parse_double(p->lex.t.s, out))
        return fault_here(p, "expected a number");
    else if (t.t == FX_F32 && isinf((float)*out))
        return fault_here(p, "a number too large for f32");
    if (minus)
        *out = -*out;
    return fx_lex_next(&p->lex);
}

static bool parse_int(parser *p, fx_dtype t, int64_t *out)
{
    uint64_t n;

    if (t == FX_BOOL) {
        *out = fx_lex_at_name(&p->lex, "true");
        return *out ? fx_lex_next(&p->lex) : fx_lex_expect_name(&p->lex, "false");
    }
    if (t == FX_U64) {
        if (p->lex.t.kind != FX_T_NUMBER || !fx_parse_u64(p->lex.t.s, &n))
            return fault_here(p, "expected a whole number, not negative");
        *out = (int64_t)n;
        return fx_lex_next(&p->lex);
    }
    return fx_lex_i64(&p->lex, out);
}

static fx_kop *const_op(parser *p, operands *o)
{
    fx_ktype t;
    int64_t i;
    double f;

    (void)o;
    if (!parse_type(p, &t))
        return NULL;
    if (fx_dtype_is_float(t.t))
        return parse_float(p, t, &f) ? fx_kir_float(p->m, t, f) : NULL;
    return parse_int(p, t.t, &i) ? fx_kir_int(p->m, t, i) : NULL;
}

static bool one(parser *p, const operands *o)
{
    return o->n == 1 || fx_lex_fault(&p->lex, o->at, "%s takes one operand", fx_kir_name(o->code));
}

static fx_kop *typed_op(parser *p, operands *o)
{
    fx_kop *op = NULL;
    fx_ktype t;

    if (!parse_type(p, &t) || !parse_operands(p, o))
        return NULL;
    if (o->code == FX_KIR_IOTA)
        return o->n == 0 || fault_here(p, "iota takes no operand") ? fx_kir_iota(p->m, t) : NULL;
    if (!one(p, o))
        return NULL;
    if (o->code == FX_KIR_BITCAST)
        return fx_kir_bitcast(p->m, o->in[0], t);
    if (o->code == FX_KIR_CONVERT)
        op = o->in[0]->type.t == t.t ? NULL : fx_kir_convert(p->m, o->in[0], t.t);
    else if (t.lanes > 1)
        op = fx_kir_splat(p->m, o->in[0], t.lanes);
    if (!p->m->failed && (!op || !fx_ktype_eq(op->type, t)))
        fx_lex_fault(&p->lex, o->at, "%s doesn't make this type of its operand", fx_kir_name(o->code));
    return op;
}

/* Operands, of which the last is a number: extract and insert. */
static fx_kop *lane_op(parser *p, operands *o)
{
    int want = o->code == FX_KIR_INSERT ? 2 : 1;
    int64_t lane;

    for (; o->n < want; o->n++) {
        if (!parse_value(p, &o->in[o->n]) || !fx_lex_expect(&p->lex, ","))
            return NULL;
    }
    if (!fx_lex_i64(&p->lex, &lane))
        return NULL;
    if (lane < 0 || lane >= FX_KIR_MAX_LANES)
        return fx_lex_fault(&p->lex, o->at, "no such lane"), NULL;
    return want == 2 ? fx_kir_insert(p->m, o->in[0], o->in[1], (int)lane) : fx_kir_extract(p->m, o->in[0], (int)lane);
}

static fx_kop *shuffle_op(parser *p, operands *o)
{
    uint8_t lanes[FX_KIR_MAX_LANES];
    fx_ktype t;
    fx_kop *op;
    int64_t lane;

    if (!parse_type(p, &t) || !parse_value(p, &o->in[0]) || !fx_lex_expect(&p->lex, ",") || !parse_value(p, &o->in[1]) ||
        !fx_lex_expect(&p->lex, ",") || !fx_lex_expect(&p->lex, "["))
        return NULL;
    for (int i = 0; i < t.lanes; i++) {
        if ((i && !fx_lex_expect(&p->lex, ",")) || !fx_lex_i64(&p->lex, &lane))
            return NULL;
        if (lane < 0 || lane >= 2 * o->in[0]->type.lanes)
            return fx_lex_fault(&p->lex, o->at, "no such lane"), NULL;
        lanes[i] = (uint8_t)lane;
    }
    op = fx_lex_expect(&p->lex, "]") ? fx_kir_shuffle(p->m, o->in[0], o->in[1], lanes, t.lanes) : NULL;
    if (op && !fx_ktype_eq(op->type, t))
        fx_lex_fault(&p->lex, o->at, "shuffle doesn't make this type of its operands");
    return op;
}

static fx_kop *alloc_op(parser *p, operands *o)
{
    fx_kir_buf b = { .rank = 0 };
    int64_t extent[FX_KIR_MAX_RANK];
    bool shared = fx_lex_take_name(&p->lex, "shared");

    if ((!shared && !fx_lex_expect_name(&p->lex, "private")) || !parse_shape(p, &b))
        return NULL;
    for (int i = 0; i < b.rank; i++) {
        if (b.extent[i]->code != FX_KIR_CONST || b.stride[i])
            return fx_lex_fault(&p->lex, o->at, "the extents of an array are numbers, and it has no strides"), NULL;
        extent[i] = b.extent[i]->u.i;
    }
    return fx_kir_alloc(p->m, shared ? FX_KIR_SHARED : FX_KIR_PRIVATE, b.dtype, extent, b.rank, FX_STR(""));
}

static bool parse_buffer(parser *p, fx_kop **out)
{
    size_t at = p->lex.t.at;

    if (!parse_value(p, out))
        return false;
    return (*out)->code == FX_KIR_BUFFER || (*out)->code == FX_KIR_ALLOC ||
           fx_lex_fault(&p->lex, at, "expected a buffer or an array");
}

/* [type] [value,] buffer "[" indices "]" [ "if" mask ] */
static fx_kop *access_op(parser *p, operands *o)
{
    bool stores = o->code == FX_KIR_STORE || o->code == FX_KIR_SCATTER;
    fx_ktype t = FX_KVOID;
    fx_kop *buf, *value = NULL, *mask = NULL, *op;

    if (stores ? !parse_value(p, &value) || !fx_lex_expect(&p->lex, ",") : !parse_type(p, &t))
        return NULL;
    if (!parse_buffer(p, &buf) || !fx_lex_expect(&p->lex, "["))
        return NULL;
    if (!fx_lex_at(&p->lex, "]") && !parse_values(p, o->in, &o->n, FX_KIR_MAX_RANK))
        return NULL;
    if (!fx_lex_expect(&p->lex, "]"))
        return NULL;
    if (!p->lex.t.first && fx_lex_take_name(&p->lex, "if") && !parse_value(p, &mask))
        return NULL;
    if (o->code == FX_KIR_STORE)
        op = fx_kir_store(p->m, buf, value, o->in, o->n, mask);
    else if (o->code == FX_KIR_SCATTER)
        op = fx_kir_scatter(p->m, buf, value, o->in, o->n, mask);
    else if (o->code == FX_KIR_LOAD)
        op = fx_kir_load(p->m, buf, o->in, o->n, t.lanes, mask);
    else
        op = fx_kir_gather(p->m, buf, o->in, o->n, mask);
    if (op && !stores && !fx_ktype_eq(op->type, t))
        fx_lex_fault(&p->lex, o->at, "%s doesn't give this type here", fx_kir_name(o->code));
    return op;
}

/* local, get, set, yield: as many operands as the row says; a variable first, for get and set. */
static fx_kop *variable_op(parser *p, operands *o)
{
    if (!parse_operands(p, o))
        return NULL;
    if (o->code == FX_KIR_YIELD)
        return fx_kir_yield(p->m, o->in, o->n);
    if (o->n != fx_kir_rows[o->code].operands)
        return fx_lex_fault(&p->lex, o->at, "%s takes %d operands", fx_kir_name(o->code), fx_kir_rows[o->code].operands), NULL;
    if (o->code == FX_KIR_LOCAL)
        return fx_kir_local(p->m, o->in[0], FX_STR(""));
    if (o->in[0]->code != FX_KIR_LOCAL)
        return fx_lex_fault(&p->lex, o->at, "%s takes a local", fx_kir_name(o->code)), NULL;
    return o->code == FX_KIR_GET ? fx_kir_get(p->m, o->in[0]) : fx_kir_set(p->m, o->in[0], o->in[1]);
}

/* ---- Ops with blocks ------------------------------------------------------------------------------------------ */

/* %i = lo to hi [step s] */
static bool parse_range(parser *p, fx_token *counter, operands *o)
{
    if (!parse_name(p, counter) || !fx_lex_expect(&p->lex, "=") || !parse_value(p, &o->in[0]) ||
        !fx_lex_expect_name(&p->lex, "to") || !parse_value(p, &o->in[1]))
        return false;
    o->in[2] = NULL;
    return o->code != FX_KIR_FOR || !fx_lex_take_name(&p->lex, "step") || parse_value(p, &o->in[2]);
}

static fx_kop *fill(parser *p, fx_kop *op, const operands *o, const fx_token *counter)
{
    if (!made(p, op, o->at) || !define(p, counter, op->block[0]->arg))
        return NULL;
    return parse_block(p, op->block[0]) ? op : NULL;
}

static fx_kop *loop_op(parser *p, operands *o)
{
    fx_token counter;

    if (!parse_range(p, &counter, o))
        return NULL;
    return fill(p, o->code == FX_KIR_FOR ? fx_kir_for(p->m, o->in[0], o->in[1], o->in[2]) : fx_kir_forall(p->m, o->in[0], o->in[1]),
                o, &counter);
}

static fx_kop *threads_op(parser *p, operands *o)
{
    fx_token counter;
    int64_t zero;

    if (!parse_name(p, &counter) || !fx_lex_expect(&p->lex, "=") || !fx_lex_i64(&p->lex, &zero) ||
        !fx_lex_expect_name(&p->lex, "to") || !parse_value(p, &o->in[0]))
        return NULL;
    if (zero != 0)
        return fx_lex_fault(&p->lex, o->at, "threads begin at 0"), NULL;
    return fill(p, fx_kir_threads(p->m, o->in[0]), o, &counter);
}

static bool parse_kind(parser *p, fx_kir_combine *out)
{
    for (int i = 0; i < FX_KIR_COMBINES; i++) {
        if (fx_lex_take_name(&p->lex, fx_kir_combine_name((fx_kir_combine)i))) {
            *out = (fx_kir_combine)i;
            return true;
        }
    }
    return fault_here(p, "expected a kind of reduction");
}

static fx_kop *reduce_op(parser *p, operands *o)
{
    fx_kir_combine kind = FX_KIR_SUM;
    fx_token counter;
    int64_t lanes;
    fx_dtype t;
    fx_kop *op;

    if (!parse_dtype(p, &t) || !parse_kind(p, &kind) || !fx_lex_i64(&p->lex, &lanes) || !fx_lex_expect(&p->lex, ",") ||
        !parse_range(p, &counter, o))
        return NULL;
    if (lanes < 1 || lanes > FX_KIR_MAX_LANES)
        return fx_lex_fault(&p->lex, o->at, "a reduction has 1 to 64 lanes"), NULL;
    op = fx_kir_reduce(p->m, kind, (int)lanes, t, o->in[0], o->in[1]);
    if (op && op->type.t != t)
        return fx_lex_fault(&p->lex, o->at, "argmin and argmax give i64"), NULL;
    return fill(p, op, o, &counter);
}

static fx_kop *if_op(parser *p, operands *o)
{
    fx_kop *op;

    if (!parse_value(p, &o->in[0]))
        return NULL;
    op = fx_kir_if(p->m, o->in[0], true);
    if (!made(p, op, o->at) || !parse_block(p, op->block[0]))
        return NULL;
    if (!fx_lex_take_name(&p->lex, "else"))
        op->block[1] = NULL;
    return !op->block[1] || parse_block(p, op->block[1]) ? op : NULL;
}

static fx_kop *while_op(parser *p, operands *o)
{
    fx_kop *op = fx_kir_while(p->m);

    return made(p, op, o->at) && parse_block(p, op->block[0]) && fx_lex_expect_name(&p->lex, "do") &&
           parse_block(p, op->block[1]) ? op : NULL;
}

/* How what stands behind an op's name is read; others: operands, for fx_kir_op. */
static fx_kop *(*const special[FX_KIR_COUNT])(parser *, operands *) = {
    [FX_KIR_CONST] = const_op,     [FX_KIR_CONVERT] = typed_op,  [FX_KIR_BITCAST] = typed_op,
    [FX_KIR_SPLAT] = typed_op,     [FX_KIR_IOTA] = typed_op,     [FX_KIR_EXTRACT] = lane_op,
    [FX_KIR_INSERT] = lane_op,     [FX_KIR_SHUFFLE] = shuffle_op, [FX_KIR_ALLOC] = alloc_op,
    [FX_KIR_LOAD] = access_op,     [FX_KIR_GATHER] = access_op,  [FX_KIR_STORE] = access_op,
    [FX_KIR_SCATTER] = access_op,  [FX_KIR_LOCAL] = variable_op, [FX_KIR_GET] = variable_op,
    [FX_KIR_SET] = variable_op,    [FX_KIR_YIELD] = variable_op, [FX_KIR_FOR] = loop_op,
    [FX_KIR_FORALL] = loop_op,     [FX_KIR_THREADS] = threads_op, [FX_KIR_REDUCE] = reduce_op,
    [FX_KIR_IF] = if_op,           [FX_KIR_WHILE] = while_op,
};

static bool parse_op(parser *p)
{
    operands o = { .n = 0 };
    fx_token name = p->lex.t;
    bool named = name.kind == FX_T_VALUE, has_result;
    fx_kop *op;

    p->m->line = name.line;
    if (named && (!fx_lex_next(&p->lex) || !fx_lex_expect(&p->lex, "=")))
        return false;
    o.at = p->lex.t.at;
    if (p->lex.t.kind != FX_T_NAME || !fx_kir_code_of_name(&o.code, p->lex.t.s))
        return fx_lex_fault(&p->lex, o.at, "no such op: %s", FX_SHOW(p->lex.t.s));
    if (!fx_lex_next(&p->lex))
        return false;
    op = (special[o.code] ? special[o.code] : plain_op)(p, &o);
    if (p->lex.st != FORNAX_OK || !made(p, op, o.at))
        return false;
    has_result = op->type.lanes > 0 || op->code == FX_KIR_ALLOC;
    if (named != has_result)
        return fx_lex_fault(&p->lex, o.at, named ? "%s has no result" : "the result of %s needs a name", fx_kir_name(op->code));
    if (!at_end(p))
        return fault_here(p, "expected the end of the line");
    return !named || define(p, &name, op);
}

static bool parse_block(parser *p, fx_kir_block *b)
{
    fx_kir_block *was = fx_kir_at(p->m, b);

    if (p->depth >= MAX_DEPTH)
        return fault_here(p, "too deep");
    if (!fx_lex_expect(&p->lex, "{"))
        return false;
    p->open[p->depth++] = b;
    while (!fx_lex_at(&p->lex, "}")) {
        if (p->lex.t.kind == FX_T_END)
            return fault_here(p, "expected } or an op");
        if (!parse_op(p))
            return false;
    }
    p->depth--;
    fx_kir_at(p->m, was);
    return fx_lex_next(&p->lex);
}

/* ---- Kernels ------------------------------------------------------------------------------------------------------ */

static bool parse_access(parser *p, fx_kir_access *out)
{
    static const char *const names[] = { [FX_KIR_IN] = "in", [FX_KIR_OUT] = "out", [FX_KIR_INOUT] = "inout" };

    for (int i = FX_KIR_IN; i <= FX_KIR_INOUT; i++) {
        if (fx_lex_take_name(&p->lex, names[i])) {
            *out = (fx_kir_access)i;
            return true;
        }
    }
    return fault_here(p, "expected in, out or inout");
}

/* Of the buffers before this one. */
static bool parse_same(parser *p, int *same_as)
{
    size_t at = p->lex.t.at;
    fx_kop *buf;

    if (!parse_buffer(p, &buf))
        return false;
    for (size_t i = 0; i < p->k->params.n; i++) {
        *same_as += p->k->params.at[i]->code == FX_KIR_BUFFER;
        if (p->k->params.at[i] == buf)
            return true;
    }
    return fx_lex_fault(&p->lex, at, "expected a buffer");
}

static bool parse_param(parser *p)
{
    fx_kir_buf b = { .space = FX_KIR_GLOBAL };
    fx_token name;
    fx_kop *op;

    p->m->line = p->lex.t.line;
    if (!parse_name(p, &name) || !fx_lex_expect(&p->lex, ":"))
        return false;
    b.name = name.s;
    if (fx_lex_take_name(&p->lex, "size")) {
        op = fx_kir_size(p->k, name.s);
    } else if (p->lex.i < p->lex.text.n && p->lex.text.p[p->lex.i] == '[') {
        if (!parse_shape(p, &b) || !parse_access(p, &b.access) || (fx_lex_take_name(&p->lex, "same") && !parse_same(p, &b.same_as)))
            return false;
        op = fx_kir_buffer(p->k, &b);
    } else {
        if (!parse_dtype(p, &b.dtype))
            return false;
        op = fx_kir_scalar(p->k, name.s, b.dtype);
    }
    return p->lex.st == FORNAX_OK && made(p, op, name.at) && define(p, &name, op);
}

static bool parse_params(parser *p)
{
    if (!fx_lex_expect(&p->lex, "("))
        return false;
    while (!fx_lex_at(&p->lex, ")")) {
        if (p->k->params.n >= MAX_PARAMS)
            return fault_here(p, "too many parameters");
        if (!parse_param(p))
            return false;
        if (!fx_lex_take(&p->lex, ","))
            break;
    }
    return fx_lex_expect(&p->lex, ")");
}

static bool parse_body(parser *p)
{
    fx_token task;

    return parse_params(p) && fx_lex_expect(&p->lex, "{") && fx_lex_expect_name(&p->lex, "grid") && parse_block(p, p->k->grid) &&
           fx_lex_expect_name(&p->lex, "body") && parse_name(p, &task) && define(p, &task, p->k->task) &&
           parse_block(p, p->k->body) && fx_lex_expect(&p->lex, "}");
}

static bool parse_kernel(parser *p)
{
    fx_token name;
    bool ok;

    p->m->line = p->lex.t.line;
    if (!fx_lex_expect_name(&p->lex, "kernel") || !fx_lex_expect(&p->lex, "@"))
        return false;
    name = p->lex.t;
    if (name.kind != FX_T_NAME)
        return fault_here(p, "expected a name");
    if (fx_kir_kernel_find(p->m, name.s))
        return fx_lex_fault(&p->lex, name.at, "kernel @%s is there already", FX_SHOW(name.s));
    p->k = fx_kir_kernel_new(p->m, name.s);
    p->depth = 0;
    fx_map_init(&p->values, p->m->mem);
    ok = fx_lex_next(&p->lex) && made(p, p->k, name.at) && parse_body(p);
    fx_map_done(&p->values);
    return ok;
}

fx_status fx_kir_parse(fx_kir_module **out, fx_arena *arena, const char *name, fx_str text, fx_error *err)
{
    parser p = { .lex = { .file = name, .text = text, .puncts = "=,[](){}:@-", .err = err } };

    *out = NULL;
    p.m = fx_kir_module_new(arena);
    if (!p.m)
        return fx_nomem(err, "a kernel");
    if (!fx_lex_next(&p.lex))
        return p.lex.st;
    while (p.lex.t.kind != FX_T_END) {
        if (!parse_kernel(&p))
            return p.lex.st == FORNAX_OK ? fx_fail(err, FORNAX_EINTERNAL, "%s: unread", name) : p.lex.st;
    }
    *out = p.m;
    return FORNAX_OK;
}
