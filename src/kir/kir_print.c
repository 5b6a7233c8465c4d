/* kir_print.c - the text of kernels; kir_parse.c reads it back.
 *
 *     kernel @scale(%n: size, %c: f32, %x: f32[%n,64] in, %y: f32[%n,64:1] out same %x) {
 *       grid {
 *         yield %n
 *       }
 *       body %t {
 *         %lo = const i64 0
 *         ...
 *         forall %j = %lo to %hi {
 *           %v = load f32 %x[%t,%j]
 *           %p = mul %v, %c  # f32
 *           store %p, %y[%t,%j]
 *         }
 *       }
 *     }
 *
 * One op a line.  How an op is written follows from its form; those of form TYPED and NONE have a
 * row each in 'special'.  The type of a result that its line doesn't spell stands in a comment. */
#include <math.h>

#include "base/naming.h"
#include "kir/kir.h"

typedef struct printer {
    fx_buf *out;
    fx_naming names;
    int depth;
} printer;

static void print_value(printer *p, const fx_kop *op)
{
    fx_buf_putc(p->out, '%');
    fx_buf_str(p->out, fx_naming_of(&p->names, op));
}

static void print_values(printer *p, fx_kop *const *in, int n)
{
    for (int i = 0; i < n; i++) {
        fx_buf_puts(p->out, i ? ", " : "");
        print_value(p, in[i]);
    }
}

static void name_value(printer *p, const fx_kop *op)
{
    fx_naming_add(&p->names, op, op->name);
    print_value(p, op);
}

static void indent(printer *p)
{
    for (int i = 0; i < p->depth; i++)
        fx_buf_puts(p->out, "  ");
}

/* ---- Types ----------------------------------------------------------------------------------------- */

static void print_dim(printer *p, const fx_kop *d)
{
    if (d->code == FX_KIR_CONST)
        fx_buf_printf(p->out, "%lld", (long long)d->u.i);
    else
        print_value(p, d);
}

static void print_shape(printer *p, const fx_kir_buf *b)
{
    fx_buf_puts(p->out, fx_dtype_name(b->dtype));
    fx_buf_putc(p->out, '[');
    for (int i = 0; i < b->rank; i++) {
        fx_buf_puts(p->out, i ? "," : "");
        print_dim(p, b->extent[i]);
        if (b->stride[i]) {
            fx_buf_putc(p->out, ':');
            print_dim(p, b->stride[i]);
        }
    }
    fx_buf_putc(p->out, ']');
}

static void print_number(printer *p, const fx_kop *op)
{
    fx_dtype t = op->type.t;

    if (t == FX_BOOL)
        fx_buf_puts(p->out, op->u.i ? "true" : "false");
    else if (fx_dtype_is_int(t) && fx_dtype_is_signed(t))
        fx_buf_printf(p->out, "%lld", (long long)op->u.i);
    else if (fx_dtype_is_int(t))
        fx_buf_printf(p->out, "%llu", (unsigned long long)op->u.i);
    else if (isnan(op->u.f))
        fx_buf_puts(p->out, "nan");
    else if (isinf(op->u.f))
        fx_buf_puts(p->out, op->u.f < 0 ? "-inf" : "inf");
    else if (t == FX_F32)
        fx_buf_float(p->out, (float)op->u.f);
    else
        fx_buf_double(p->out, op->u.f);
}

/* ---- Ops ---------------------------------------------------------------------------------------------- */

static void print_block(printer *p, const fx_kir_block *b);

static void print_type(printer *p, const fx_kop *op)
{
    fx_buf_putc(p->out, ' ');
    fx_ktype_print(op->type, p->out);
}

static void print_operands(printer *p, const fx_kop *op)
{
    fx_buf_puts(p->out, op->n_in ? " " : "");
    print_values(p, op->in, op->n_in);
}

static void print_const(printer *p, const fx_kop *op)
{
    print_type(p, op);
    fx_buf_putc(p->out, ' ');
    print_number(p, op);
}

/* A type and what comes of it. */
static void print_typed(printer *p, const fx_kop *op)
{
    print_type(p, op);
    print_operands(p, op);
}

static void print_lane(printer *p, const fx_kop *op)
{
    print_operands(p, op);
    fx_buf_printf(p->out, ", %lld", (long long)op->u.i);
}

static void print_shuffle(printer *p, const fx_kop *op)
{
    print_typed(p, op);
    for (int i = 0; i < op->type.lanes; i++)
        fx_buf_printf(p->out, "%s%d", i ? "," : ", [", op->u.lanes[i]);
    fx_buf_putc(p->out, ']');
}

static void print_alloc(printer *p, const fx_kop *op)
{
    fx_buf_puts(p->out, op->u.buf->space == FX_KIR_SHARED ? " shared " : " private ");
    print_shape(p, op->u.buf);
}

/* %buffer[indices] and the mask. */
static void print_place(printer *p, const fx_kop *op)
{
    int from = fx_kir_index_from(op);

    print_value(p, op->in[0]);
    fx_buf_putc(p->out, '[');
    for (int i = from; i < op->n_in - op->masked; i++) {
        fx_buf_puts(p->out, i > from ? "," : "");
        print_value(p, op->in[i]);
    }
    fx_buf_putc(p->out, ']');
    if (op->masked) {
        fx_buf_puts(p->out, " if ");
        print_value(p, fx_kir_mask_of(op));
    }
}

static void print_load(printer *p, const fx_kop *op)
{
    print_type(p, op);
    fx_buf_putc(p->out, ' ');
    print_place(p, op);
}

static void print_store(printer *p, const fx_kop *op)
{
    fx_buf_putc(p->out, ' ');
    print_value(p, op->in[1]);
    fx_buf_puts(p->out, ", ");
    print_place(p, op);
}

/* %i = lo to hi, and the block. */
static void print_loop(printer *p, const fx_kop *op)
{
    fx_buf_putc(p->out, ' ');
    name_value(p, op->block[0]->arg);
    fx_buf_puts(p->out, " = ");
    if (op->code == FX_KIR_THREADS)
        fx_buf_putc(p->out, '0');
    else
        print_value(p, op->in[0]);
    fx_buf_puts(p->out, " to ");
    print_value(p, op->in[op->code == FX_KIR_THREADS ? 0 : 1]);
    if (op->code == FX_KIR_FOR) {
        fx_buf_puts(p->out, " step ");
        print_value(p, op->in[2]);
    }
    print_block(p, op->block[0]);
}

static void print_reduce(printer *p, const fx_kop *op)
{
    print_type(p, op);
    fx_buf_printf(p->out, " %s %d,", fx_kir_combine_name(op->u.reduce.kind), op->u.reduce.lanes);
    print_loop(p, op);
}

static void print_if(printer *p, const fx_kop *op)
{
    print_operands(p, op);
    print_block(p, op->block[0]);
    if (op->block[1]) {
        fx_buf_puts(p->out, " else");
        print_block(p, op->block[1]);
    }
}

static void print_while(printer *p, const fx_kop *op)
{
    print_block(p, op->block[0]);
    fx_buf_puts(p->out, " do");
    print_block(p, op->block[1]);
}

/* How what stands behind an op's name is written; others: operands. */
static void (*const special[FX_KIR_COUNT])(printer *, const fx_kop *) = {
    [FX_KIR_CONST] = print_const,     [FX_KIR_CONVERT] = print_typed, [FX_KIR_BITCAST] = print_typed,
    [FX_KIR_SPLAT] = print_typed,     [FX_KIR_IOTA] = print_typed,    [FX_KIR_EXTRACT] = print_lane,
    [FX_KIR_INSERT] = print_lane,     [FX_KIR_SHUFFLE] = print_shuffle, [FX_KIR_ALLOC] = print_alloc,
    [FX_KIR_LOAD] = print_load,       [FX_KIR_GATHER] = print_load,   [FX_KIR_STORE] = print_store,
    [FX_KIR_SCATTER] = print_store,   [FX_KIR_FOR] = print_loop,      [FX_KIR_FORALL] = print_loop,
    [FX_KIR_THREADS] = print_loop,    [FX_KIR_REDUCE] = print_reduce, [FX_KIR_IF] = print_if,
    [FX_KIR_WHILE] = print_while,
};

static void print_op(printer *p, const fx_kop *op)
{
    bool has_result = op->type.lanes > 0 || op->code == FX_KIR_ALLOC;

    indent(p);
    if (has_result) {
        name_value(p, op);
        fx_buf_puts(p->out, " = ");
    }
    fx_buf_puts(p->out, fx_kir_name(op->code));
    (special[op->code] ? special[op->code] : print_operands)(p, op);
    if (op->type.lanes && (!special[op->code] || special[op->code] == print_lane)) {
        fx_buf_puts(p->out, "  #");
        print_type(p, op);
    }
    fx_buf_putc(p->out, '\n');
}

static void print_block(printer *p, const fx_kir_block *b)
{
    fx_buf_puts(p->out, " {\n");
    p->depth++;
    for (const fx_kop *op = b->first; op; op = op->next)
        print_op(p, op);
    p->depth--;
    indent(p);
    fx_buf_putc(p->out, '}');
}

/* ---- Kernels ---------------------------------------------------------------------------------------------- */

static const char *const access_names[] = { [FX_KIR_IN] = "in", [FX_KIR_OUT] = "out", [FX_KIR_INOUT] = "inout" };

static const fx_kop *buffer_at(const fx_kir_kernel *k, int number)
{
    for (size_t i = 0; i < k->params.n; i++) {
        if (k->params.at[i]->code == FX_KIR_BUFFER && number-- == 0)
            return k->params.at[i];
    }
    return NULL;
}

static void print_param(printer *p, const fx_kir_kernel *k, const fx_kop *op)
{
    const fx_kir_buf *b = op->code == FX_KIR_BUFFER ? op->u.buf : NULL;

    print_value(p, op);
    fx_buf_puts(p->out, ": ");
    if (!b) {
        fx_buf_puts(p->out, op->size ? "size" : fx_dtype_name(op->type.t));
        return;
    }
    print_shape(p, b);
    fx_buf_printf(p->out, " %s", access_names[b->access]);
    if (b->same_as) {
        fx_buf_puts(p->out, " same ");
        print_value(p, buffer_at(k, b->same_as - 1));
    }
}

static void print_kernel(printer *p, const fx_kir_kernel *k)
{
    fx_buf_printf(p->out, "kernel @%.*s(", FX_STR_ARG(k->name));
    for (size_t i = 0; i < k->params.n; i++)
        fx_naming_add(&p->names, k->params.at[i], k->params.at[i]->name);
    for (size_t i = 0; i < k->params.n; i++) {
        fx_buf_puts(p->out, i ? ", " : "");
        print_param(p, k, k->params.at[i]);
    }
    fx_buf_puts(p->out, ") {\n  grid");
    p->depth = 1;
    print_block(p, k->grid);
    fx_buf_puts(p->out, "\n  body ");
    name_value(p, k->task);
    print_block(p, k->body);
    fx_buf_puts(p->out, "\n}\n");
}

void fx_kir_kernel_print(const fx_kir_kernel *k, fx_buf *out)
{
    printer p = { .out = out };

    fx_naming_init(&p.names, k->module->mem);
    print_kernel(&p, k);
    if (p.names.failed)
        out->failed = true;
    fx_naming_done(&p.names);
}

void fx_kir_print(const fx_kir_module *m, fx_buf *out)
{
    for (const fx_kir_kernel *k = m->first; k; k = k->next)
        fx_kir_kernel_print(k, out);
}
