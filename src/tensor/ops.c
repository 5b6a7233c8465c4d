/* ops.c - the table of ops.def, and the reading of its signatures. */
#include "tensor/ops.h"

static const char *const words[FX_A_COUNT] = {
#define ATTR(key, text, kind, dflt)
#define WORDS(key, choices) [FX_A_##key] = choices,
#define OP(code, text, in, out, attrs, kind, rule, flags, doc)
#include "tensor/ops.def"
};

#define REQUIRED (-1e308)
const fx_attr_row fx_attr_rows[FX_A_COUNT] = {
#define ATTR(key, text, kind, dflt) { text, FX_ATTR_##kind, (dflt) == REQUIRED, (dflt) == REQUIRED ? 0 : (dflt) },
#define OP(code, text, in, out, attrs, kind, rule, flags, doc)
#include "tensor/ops.def"
};

_Static_assert(FX_A_COUNT < UINT8_MAX, "keys of attributes are bytes in the rows of ops");

#define A(key) FX_A_##key,
#define NOATTRS
const fx_op_row fx_op_rows[FX_OP_COUNT] = {
#define ATTR(key, text, kind, dflt)
#define OP(code, text, in, out, attrs, kind, rule, flags, doc) \
    { text, in, out, { attrs FX_A_COUNT }, FX_KIND_##kind, flags, doc },
#include "tensor/ops.def"
};

bool fx_opcode_has(fx_opcode c, fx_attr_key key)
{
    for (const uint8_t *k = fx_op_rows[c].attrs; *k != FX_A_COUNT; k++) {
        if (*k == key)
            return true;
    }
    return false;
}

fx_str fx_attr_word(fx_attr_key key, int64_t i)
{
    const char *p = words[key] ? words[key] : "";

    for (; i > 0 && *p; i--) {
        p += strcspn(p, "|");
        p += *p == '|';
    }
    return i < 0 ? fx_str_n(p, 0) : fx_str_n(p, strcspn(p, "|"));
}

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

/* A cell of a table: a bar in it isn't the cell's end. */
static void put_cell(fx_buf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '|')
            fx_buf_putc(out, '\\');
        fx_buf_putc(out, *s);
    }
}

/* "axis=-1", "shape", "mode=constant|reflect|edge" */
static void document_attr(fx_buf *out, fx_attr_key key)
{
    const fx_attr_row *r = &fx_attr_rows[key];

    fx_buf_printf(out, " `%s", r->text);
    if (r->kind == FX_ATTR_WORD) {
        fx_buf_putc(out, '=');
        put_cell(out, words[key]);
    } else if (r->kind == FX_ATTR_BOOL)
        fx_buf_puts(out, r->dflt != 0 ? "=true" : "=false");
    else if (!r->required && (r->kind == FX_ATTR_INT || r->kind == FX_ATTR_FLOAT || r->kind == FX_ATTR_DIM)) {
        fx_buf_putc(out, '=');
        fx_buf_double(out, r->dflt);
    } else if (!r->required)
        fx_buf_putc(out, '?');
    fx_buf_putc(out, '`');
}

void fx_ops_document(fx_buf *out)
{
    fx_buf_puts(out, "| op | operands | results | attributes | kind | what it computes |\n"
                     "|---|---|---|---|---|---|\n");
    for (int c = 0; c < FX_OP_COUNT; c++) {
        const fx_op_row *r = &fx_op_rows[c];

        fx_buf_printf(out, "| %s | %s | %s |", r->text, r->operands, r->results);
        for (const uint8_t *k = r->attrs; *k != FX_A_COUNT; k++)
            document_attr(out, (fx_attr_key)*k);
        fx_buf_printf(out, " | %s | ", fx_op_kind_name(r->kind));
        put_cell(out, r->doc);
        fx_buf_puts(out, " |\n");
    }
}
