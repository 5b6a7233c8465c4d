/* ops.c - the table of ops.def, and the reading of its signatures. */
#include "tensor/ops.h"

#define REQUIRED (-1e308)
const fx_attr_row fx_attr_rows[FX_A_COUNT] = {
#define ATTR(key, text, kind, dflt) { text, FX_ATTR_##kind, (dflt) == REQUIRED, (dflt) == REQUIRED ? 0 : (dflt) },
#define OP(code, text, in, out, attrs, kind, rule, flags, doc)
#include "tensor/ops.def"
};

_Static_assert(FX_A_COUNT <= 64, "attribute sets are 64 bits wide");

#define A(key) (UINT64_C(1) << FX_A_##key)
const fx_op_row fx_op_rows[FX_OP_COUNT] = {
#define ATTR(key, text, kind, dflt)
#define OP(code, text, in, out, attrs, kind, rule, flags, doc) { text, in, out, attrs, FX_KIND_##kind, flags, doc },
#include "tensor/ops.def"
};

bool fx_opcode_of_name(fx_opcode *out, fx_str name)
{
    for (int c = 0; c < FX_OP_COUNT; c++) {
        if (fx_str_is(name, fx_op_rows[c].text)) {
            *out = (fx_opcode)c;
            return true;
        }
    }
    return false;
}

const char *fx_op_kind_name(fx_op_kind k)
{
    static const char *const names[] = { "none", "map", "row", "contract", "view", "effect", "end" };

    return (unsigned)k < FX_COUNT(names) ? names[k] : "kind?";
}

/* The name at *s, which moves behind it; its suffix ('?', '.' or 0) in *mark. */
static fx_str next_name(const char **s, char *mark)
{
    const char *p = *s;
    fx_str name;

    while (*p == ' ' || *p == ',')
        p++;
    name.p = p;
    while (*p && *p != ',' && *p != '?' && *p != '.')
        p++;
    name.n = (size_t)(p - name.p);
    *mark = *p == '?' || *p == '.' ? *p : 0;
    while (*p && *p != ',')
        p++;
    *s = p;
    return name;
}

fx_op_names fx_op_names_of(const char *signature)
{
    fx_op_names r = { 0, false };
    char mark;

    while (next_name(&signature, &mark).n) {
        r.n++;
        r.variadic = mark == '.';
    }
    return r;
}

fx_str fx_op_name_at(const char *signature, int i, bool *optional)
{
    char mark = 0;
    fx_str name = { "", 0 };

    for (int k = 0; k <= i; k++) {
        fx_str next = next_name(&signature, &mark);

        if (!next.n)
            break;
        name = next;
        if (k < i && mark != '.' && !*signature)
            name.n = 0;
    }
    *optional = mark == '?';
    return name;
}

static void document_attrs(fx_buf *out, uint64_t set)
{
    for (int k = 0; k < FX_A_COUNT; k++) {
        if (!(set >> k & 1))
            continue;
        fx_buf_printf(out, " `%s`", fx_attr_rows[k].text);
        if (!fx_attr_rows[k].required) {
            fx_buf_putc(out, '=');
            fx_buf_double(out, fx_attr_rows[k].dflt);
        }
    }
}

void fx_ops_document(fx_buf *out)
{
    fx_buf_puts(out, "| op | operands | results | attributes | kind | what it computes |\n"
                     "|---|---|---|---|---|---|\n");
    for (int c = 0; c < FX_OP_COUNT; c++) {
        const fx_op_row *r = &fx_op_rows[c];

        fx_buf_printf(out, "| %s | %s | %s |", r->text, r->operands, r->results);
        document_attrs(out, r->attrs);
        fx_buf_printf(out, " | %s | %s |\n", fx_op_kind_name(r->kind), r->doc);
    }
}
