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
    if (a->dtype != b->dtype || a->device != b->device || a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++) {
        if (!fx_dim_eq(a->dim[i], b->dim[i]))
            return false;
    }
    return true;
}

void fx_type_print(const fx_type *t, fx_buf *out)
{
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

static void print_attr(printer *p, const fx_attr *a)
{
    const fx_attr_row *row = &fx_attr_rows[a->key];

    switch (row->kind) {
    case FX_ATTR_INT:
        fx_buf_printf(p->out, "%s=%lld", row->text, (long long)a->u.i);
        break;
    case FX_ATTR_FLOAT:
        fx_buf_printf(p->out, "%s=", row->text);
        fx_buf_double(p->out, a->u.f);
        break;
    case FX_ATTR_STR:
        fx_buf_putc(p->out, '"');
        fx_buf_json(p->out, a->u.s);
        fx_buf_putc(p->out, '"');
        break;
    case FX_ATTR_TYPE:
        fx_type_print(a->u.type, p->out);
        break;
    case FX_ATTR_DTYPE:
        fx_buf_puts(p->out, fx_vtype_name((fx_dtype)a->u.i));
        break;
    case FX_ATTR_FLOATS:
        fx_buf_putc(p->out, '{');
        for (int64_t i = 0; i < a->u.v.n; i++) {
            fx_buf_puts(p->out, i ? ", " : "");
            fx_buf_float(p->out, a->u.v.at[i]);
        }
        fx_buf_putc(p->out, '}');
        break;
    case FX_ATTR_ROPE:
        fx_buf_printf(p->out, "%s=%s", row->text, a->u.i == FX_ROPE_PAIRS ? "pairs" : "half");
        break;
    }
}

static bool at_default(const fx_attr *a)
{
    const fx_attr_row *row = &fx_attr_rows[a->key];

    if (row->required)
        return false;
    if (row->kind == FX_ATTR_FLOAT)
        return a->u.f == row->dflt;
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
        print_attr(p, &op->attrs[i]);
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
    bool typed = fx_op_rows[op->code].attrs & (UINT64_C(1) << FX_A_TYPE);

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
    fx_buf_printf(out, "graph @%.*s {\n", FX_STR_ARG(g->name));
    print_block(&p, fx_graph_body(g), 1);
    fx_buf_puts(out, "}\n");
    if (p.names.failed)
        out->failed = true;
    fx_naming_done(&p.names);
}

void fx_module_print(const fx_module *m, fx_buf *out)
{
    for (const fx_graph *g = m->first; g; g = g->next)
        fx_graph_print(g, out);
}
