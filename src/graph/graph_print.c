/* graph_print.c - the text of a graph; graph_parse.c reads it back.
 *
 *     graph @step {
 *       %tokens = input i32[rows]
 *       %y, %s = add_rmsnorm %a, %b, %w, eps=1e-06  # f32[rows,64], f32[rows,64]
 *       output %y
 *     }
 *
 * One op a line: results, opcode, operands ("_" for one left out), attributes that
 * aren't at their default; types of results stand in a comment where the op
 * doesn't spell them.  Values are called as base/naming.h says. */
#include "base/naming.h"
#include "graph/graph.h"
#include "tensor/scalar.h"

typedef struct printer {
    fx_buf *out;
    fx_naming names;
} printer;

const char *fx_vtype_name(fx_dtype t)
{
    return t == FX_Q8_ACT ? "q8" : fx_dtype_name(t);
}

bool fx_vtype_of_name(fx_dtype *out, fx_str name)
{
    if (fx_str_is(name, "q8")) {
        *out = FX_Q8_ACT;
        return true;
    }
    return fx_dtype_of_name(out, name);
}

bool fx_type_eq(const fx_type *a, const fx_type *b)
{
    if (a->dtype != b->dtype || a->device != b->device || a->buffer != b->buffer || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (!fx_dim_eq(a->dim[i], b->dim[i]))
            return false;
    }
    return true;
}

void fx_type_print(const fx_type *t, fx_buf *out)
{
    fx_buf_puts(out, t->buffer ? "buffer " : "");
    fx_buf_puts(out, fx_vtype_name(t->dtype));
    if (t->rank) {
        for (int i = 0; i < t->rank; i++) {
            fx_buf_putc(out, i ? ',' : '[');
            fx_dim_print(t->dim[i], out);
        }
        fx_buf_putc(out, ']');
    }
}

static void print_value(printer *p, fx_value *v)
{
    fx_buf_putc(p->out, '%');
    fx_buf_str(p->out, fx_naming_of(&p->names, v));
}

static void name_value(printer *p, fx_value *v)
{
    fx_naming_add(&p->names, v, v->name);
    print_value(p, v);
}

static void print_string(fx_buf *out, fx_str s)
{
    fx_buf_putc(out, '"');
    fx_buf_json(out, s);
    fx_buf_putc(out, '"');
}

static void print_data(fx_buf *out, const fx_attr *a)
{
    size_t size = fx_dtype_size(a->u.v.dtype);

    fx_buf_putc(out, '{');
    for (int64_t i = 0; i < a->u.v.n; i++) {
        fx_buf_puts(out, i ? ", " : "");
        fx_scalar_print(a->u.v.dtype, (const char *)a->u.v.at + (size_t)i * size, out);
    }
    fx_buf_putc(out, '}');
}

static void print_param(fx_buf *out, const fx_kernel_param *p)
{
    fx_buf_printf(out, "%.*s=", FX_STR_ARG(p->name));
    switch (p->kind) {
    case FX_KPARAM_BOOL: fx_buf_puts(out, p->i ? "true" : "false"); break;
    case FX_KPARAM_INT: fx_buf_printf(out, "%lld", (long long)p->i); break;
    case FX_KPARAM_STR: print_string(out, p->s); break;
    case FX_KPARAM_DTYPE: fx_buf_puts(out, fx_vtype_name((fx_dtype)p->i)); break;
    }
}

/* What a list holds, or -1 for what is no list. */
static int64_t list_size(const fx_attr *a)
{
    switch (fx_attr_rows[a->key].kind) {
    case FX_ATTR_DIMS: return a->u.dims.n;
    case FX_ATTR_INTS: return a->u.ints.n;
    case FX_ATTR_TYPES: return a->u.types.n;
    case FX_ATTR_PARAMS: return a->u.params.n;
    default: return -1;
    }
}

static void print_item(fx_buf *out, const fx_attr *a, int64_t i)
{
    switch (fx_attr_rows[a->key].kind) {
    case FX_ATTR_DIMS: fx_dim_print(a->u.dims.at[i], out); break;
    case FX_ATTR_INTS: fx_buf_printf(out, "%lld", (long long)a->u.ints.at[i]); break;
    case FX_ATTR_TYPES: fx_type_print(&a->u.types.at[i], out); break;
    default: print_param(out, &a->u.params.at[i]); break;
    }
}

static void print_list(fx_buf *out, const fx_attr *a)
{
    fx_buf_putc(out, '{');
    for (int64_t i = 0; i < list_size(a); i++) {
        fx_buf_puts(out, i ? ", " : "");
        print_item(out, a, i);
    }
    fx_buf_putc(out, '}');
}

/* Without its name: those whose look tells what they are. */
static bool is_bare(fx_attr_key key)
{
    return key == FX_A_NAME || key == FX_A_TYPE || key == FX_A_DTYPE || key == FX_A_VALUES;
}

static void print_attr(fx_buf *out, const fx_attr *a)
{
    const fx_attr_row *row = &fx_attr_rows[a->key];

    if (!is_bare(a->key))
        fx_buf_printf(out, "%s=", row->text);
    switch (row->kind) {
    case FX_ATTR_INT: fx_buf_printf(out, "%lld", (long long)a->u.i); break;
    case FX_ATTR_FLOAT: fx_buf_double(out, a->u.f); break;
    case FX_ATTR_STR: print_string(out, a->u.s); break;
    case FX_ATTR_TYPE: fx_type_print(a->u.type, out); break;
    case FX_ATTR_DTYPE: fx_buf_puts(out, fx_vtype_name((fx_dtype)a->u.i)); break;
    case FX_ATTR_BOOL: fx_buf_puts(out, a->u.i ? "true" : "false"); break;
    case FX_ATTR_WORD: fx_buf_str(out, fx_attr_word(a->key, a->u.i)); break;
    case FX_ATTR_DIM: fx_dim_print(a->u.dim, out); break;
    case FX_ATTR_DATA: print_data(out, a); break;
    default: print_list(out, a); break;
    }
}

static bool at_default(const fx_attr *a)
{
    const fx_attr_row *row = &fx_attr_rows[a->key];

    if (row->required)
        return false;
    if (list_size(a) >= 0)
        return list_size(a) == 0;
    if (row->kind == FX_ATTR_FLOAT)
        return a->u.f == row->dflt;
    if (row->kind == FX_ATTR_DIM)
        return fx_dim_eq(a->u.dim, fx_dim_of((int64_t)row->dflt));
    return row->kind == FX_ATTR_STR ? a->u.s.n == 0 : a->u.i == (int64_t)row->dflt;
}

/* Operands up to the last one there is, then attributes, separated by commas. */
static void print_arguments(printer *p, const fx_op *op)
{
    const char *sep = " ";
    int n = op->n_in;

    while (n && !op->in[n - 1].value)
        n--;
    for (int i = 0; i < n; i++, sep = ", ") {
        fx_buf_puts(p->out, sep);
        if (op->in[i].value)
            print_value(p, op->in[i].value);
        else
            fx_buf_putc(p->out, '_');
    }
    for (int i = 0; i < op->n_attrs; i++) {
        if (at_default(&op->attrs[i]))
            continue;
        fx_buf_puts(p->out, sep);
        print_attr(p->out, &op->attrs[i]);
        sep = ", ";
    }
}

static void print_block(printer *p, const fx_block *b, int depth);

static void indent(printer *p, int depth)
{
    for (int i = 0; i < depth; i++)
        fx_buf_puts(p->out, "  ");
}

static void print_region(printer *p, const fx_region *r, int depth)
{
    const fx_block *b = r->first;

    fx_buf_puts(p->out, " {");
    for (int i = 0; i < b->n_args; i++) {
        fx_buf_puts(p->out, i ? ", " : " ");
        name_value(p, &b->args[i]);
        fx_buf_puts(p->out, ": ");
        fx_type_print(&b->args[i].type, p->out);
    }
    fx_buf_putc(p->out, '\n');
    print_block(p, b, depth + 1);
    indent(p, depth);
    fx_buf_putc(p->out, '}');
}

static void print_op(printer *p, fx_op *op, int depth)
{
    bool typed = fx_op_has(op, FX_A_TYPE);

    indent(p, depth);
    for (int i = 0; i < op->n_out; i++) {
        fx_buf_puts(p->out, i ? ", " : "");
        name_value(p, &op->out[i]);
    }
    fx_buf_printf(p->out, "%s%s", op->n_out ? " = " : "", fx_opcode_name(op->code));
    print_arguments(p, op);
    for (int i = 0; i < op->n_regions; i++)
        print_region(p, op->regions[i], depth);
    for (int i = 0; i < op->n_out && !typed; i++) {
        fx_buf_puts(p->out, i ? ", " : "  # ");
        fx_type_print(&op->out[i].type, p->out);
    }
    fx_buf_putc(p->out, '\n');
}

static void print_block(printer *p, const fx_block *b, int depth)
{
    for (fx_op *op = b->first; op; op = op->next)
        print_op(p, op, depth);
}

void fx_graph_print(const fx_graph *g, fx_buf *out)
{
    printer p = { .out = out };

    fx_naming_init(&p.names, g->module->arena->mem);
    fx_buf_printf(out, "%sgraph @%.*s {\n", g->subgraph ? "sub" : "", FX_STR_ARG(g->name));
    print_block(&p, fx_graph_body(g), 1);
    fx_buf_puts(out, "}\n");
    if (p.names.failed)
        out->failed = true;
    fx_naming_done(&p.names);
}

void fx_module_print(const fx_module *m, fx_buf *out)
{
    for (const fx_library *l = m->libraries; l; l = l->next) {
        fx_buf_puts(out, "library ");
        print_string(out, l->path);
        fx_buf_putc(out, '\n');
    }
    for (const fx_graph *g = m->first; g; g = g->next)
        fx_graph_print(g, out);
}
