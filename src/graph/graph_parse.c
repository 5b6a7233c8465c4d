/* graph_parse.c - reads the text that graph_print.c writes.
 *
 *     module  := { "library" string } { ( "graph" | "subgraph" ) "@" name "{" ops "}" }
 *              | ops                                   one graph "main"
 *     op      := [ value { "," value } "=" ] opcode [ arg { "," arg } ] { region }
 *     arg     := value | "_" | type | dtype | string | "{" numbers "}" | name "=" ( scalar | list )
 *     scalar  := number | "true" | "false" | word | dim | string
 *     list    := "{" [ item { "," item } ] "}"          item: a dim, a type, or name "=" a parameter
 *     region  := "{" [ value ":" type { "," value ":" type } ] ops "}"
 *     type    := [ "buffer" ] dtype [ "[" dim { "," dim } "]" ] [ "@" device ]
 *     dim     := + - * // and parentheses over numbers and names
 *
 * "#" starts a comment.  An op is one line, but may go on behind a comma; braces
 * open and close anywhere.  Every fault has its place (base/diag.h); what the builder finds
 * wrong with an op is reported at its opcode. */
#include <math.h>

#include "base/lex.h"
#include "base/text.h"
#include "graph/graph.h"
#include "tensor/scalar.h"

#define MAX_DEPTH 16             /* of regions, and of parentheses in a dim */
#define MAX_ARGS 4096            /* operands of an op */

typedef struct parser {
    fx_lex lex;
    fx_module *m;
    const fx_mem *mem;
    fx_map values;               /* name to fx_value* */
    fx_block *open[MAX_DEPTH];   /* blocks around the place being read */
    int depth;
} parser;

/* ---- Faults and words --------------------------------------------------------------------- */

static bool fault(parser *p, size_t at, const char *what) { return fx_lex_fault(&p->lex, at, "%s", what); }
static bool fault_here(parser *p, const char *what) { return fault(p, p->lex.t.at, what); }
static bool no_memory(parser *p) { return fx_lex_no_memory(&p->lex, "a graph"); }

static bool fault_name(parser *p, const fx_token *t, const char *what)
{
    return fx_lex_fault(&p->lex, t->at, "%s: %.*s", what, FX_STR_ARG(t->s));
}

static bool expect(parser *p, const char *s, const char *what)
{
    return fx_lex_at(&p->lex, s) ? fx_lex_next(&p->lex) : fault_here(p, what);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether a size could be computed; 'why' if it is the text's fault. */
static bool dim_made(parser *p, fx_status st, size_t at, const char *why)
{
    if (st == FORNAX_ENOMEM)
        return no_memory(p);
    return st == FORNAX_OK || fault(p, at, why);
}

/* ---- Types ---------------------------------------------------------------------------------- */

static bool parse_dim(parser *p, fx_dim *out, int depth);

static bool parse_dim_factor(parser *p, fx_dim *out, int depth)
{
    size_t at = p->lex.t.at;
    int64_t n;
    fx_dim d;

    if (depth > MAX_DEPTH)
        return fault_here(p, "too deep");
    if (fx_lex_take(&p->lex, "-")) {
        if (!parse_dim_factor(p, &d, depth + 1))
            return false;
        return dim_made(p, fx_dim_sub(p->m->arena, fx_dim_of(0), d, out), at, "the size is too large");
    }
    if (fx_lex_take(&p->lex, "("))
        return parse_dim(p, out, depth + 1) && expect(p, ")", "expected )");
    if (p->lex.t.kind == FX_T_NUMBER) {
        if (!fx_parse_i64(p->lex.t.s, &n))
            return fault_here(p, "expected a whole number");
        *out = fx_dim_of(n);
        return fx_lex_next(&p->lex);
    }
    if (p->lex.t.kind != FX_T_NAME)
        return fault_here(p, "expected a size: a number or a name");
    return dim_made(p, fx_dim_symbol(p->m->arena, p->lex.t.s, out), at, "no name") && fx_lex_next(&p->lex);
}

static bool parse_dim_term(parser *p, fx_dim *out, int depth)
{
    fx_dim d;

    if (!parse_dim_factor(p, out, depth))
        return false;
    while (fx_lex_at(&p->lex, "*") || fx_lex_at(&p->lex, "//")) {
        bool mul = fx_lex_at(&p->lex, "*");
        size_t at = p->lex.t.at;

        if (!fx_lex_next(&p->lex) || !parse_dim_factor(p, &d, depth))
            return false;
        if (!dim_made(p, (mul ? fx_dim_mul : fx_dim_div)(p->m->arena, *out, d, out), at,
                      mul ? "the size is too large" : "divided by zero, or too large"))
            return false;
    }
    return true;
}

static bool parse_dim(parser *p, fx_dim *out, int depth)
{
    fx_dim d;

    if (!parse_dim_term(p, out, depth))
        return false;
    while (fx_lex_at(&p->lex, "+") || fx_lex_at(&p->lex, "-")) {
        bool add = fx_lex_at(&p->lex, "+");
        size_t at = p->lex.t.at;

        if (!fx_lex_next(&p->lex) || !parse_dim_term(p, &d, depth))
            return false;
        if (!dim_made(p, (add ? fx_dim_add : fx_dim_sub)(p->m->arena, *out, d, out), at, "the size is too large"))
            return false;
    }
    return true;
}

static bool parse_device(parser *p)
{
    if (p->lex.t.kind != FX_T_NAME || !fx_str_is(p->lex.t.s, "cpu"))
        return fault_here(p, "expected a device: cpu");
    return fx_lex_next(&p->lex);
}

/* p->lex.t is the name of a dtype. */
static bool parse_type(parser *p, fx_type *out)
{
    *out = (fx_type){ .device = FX_DEVICE_CPU };
    if (p->lex.t.kind == FX_T_NAME && fx_str_is(p->lex.t.s, "buffer")) {
        out->buffer = true;
        if (!fx_lex_next(&p->lex))
            return false;
    }
    if (p->lex.t.kind != FX_T_NAME || !fx_vtype_of_name(&out->dtype, p->lex.t.s))
        return fault_name(p, &p->lex.t, "expected a type");
    if (!fx_lex_next(&p->lex))
        return false;
    if (fx_lex_take(&p->lex, "[")) {
        do {
            size_t at = p->lex.t.at;

            if (out->rank >= FX_MAX_RANK)
                return fault(p, at, "too many axes");
            if (!parse_dim(p, &out->dim[out->rank], 0))
                return false;
            if (fx_dim_is_static(out->dim[out->rank]) && out->dim[out->rank].n < 0)
                return fault(p, at, "a size can't be negative");
            out->rank++;
        } while (fx_lex_take(&p->lex, ","));
        if (!expect(p, "]", "expected ] or ,"))
            return false;
    }
    return !fx_lex_take(&p->lex, "@") || parse_device(p);
}

/* ---- Arguments --------------------------------------------------------------------------------- */

typedef struct arguments {
    FX_VEC(fx_value *) in;
    fx_attr attrs[FX_A_COUNT];
    int n_attrs;
    fx_type type;
} arguments;

static fx_value *value_of(parser *p, fx_str name)
{
    uint64_t v;

    return fx_map_get(&p->values, name, &v) ? (fx_value *)(uintptr_t)v : NULL;
}

static bool parse_operand(parser *p, arguments *a)
{
    fx_value *v = NULL;
    bool seen = p->lex.t.kind != FX_T_VALUE;

    if (p->lex.t.kind == FX_T_VALUE) {
        v = value_of(p, p->lex.t.s);
        if (!v)
            return fault_name(p, &p->lex.t, "no such value");
        for (int i = 0; i < p->depth; i++)
            seen = seen || p->open[i] == v->block;
        if (!seen)
            return fault_name(p, &p->lex.t, "a value of a block that is closed");
    }
    if (a->n_attrs)
        return fault_here(p, "operands come before attributes");
    if (a->in.n >= MAX_ARGS)
        return fault_here(p, "too many operands");
    if (!FX_VEC_PUSH(&a->in, p->mem, v))
        return no_memory(p);
    return fx_lex_next(&p->lex);
}

static bool parse_double(parser *p, double *out)
{
    bool minus = fx_lex_at(&p->lex, "-");

    if (minus && !fx_lex_next(&p->lex))
        return false;
    if (p->lex.t.kind == FX_T_NAME && (fx_str_is(p->lex.t.s, "inf") || fx_str_is(p->lex.t.s, "nan")))
        *out = p->lex.t.s.p[0] == 'i' ? HUGE_VAL : NAN;
    else if (p->lex.t.kind != FX_T_NUMBER || !fx_parse_double(p->lex.t.s, out))
        return fault_here(p, "expected a number");
    if (minus)
        *out = -*out;
    return fx_lex_next(&p->lex);
}

static bool parse_int(parser *p, int64_t *out)
{
    bool minus = fx_lex_at(&p->lex, "-");

    if (minus && !fx_lex_next(&p->lex))
        return false;
    if (p->lex.t.kind != FX_T_NUMBER || !fx_parse_i64(p->lex.t.s, out))
        return fault_here(p, "expected a whole number");
    *out = minus ? -*out : *out;
    return fx_lex_next(&p->lex);
}

/* One element of a constant of this dtype, into 'at'. */
static bool parse_element(parser *p, fx_dtype dtype, void *at)
{
    size_t where = p->lex.t.at;
    uint64_t u;
    int64_t i;
    double x;

    if (fx_dtype_is_float(dtype)) {
        if (!parse_double(p, &x))
            return false;
        fx_scalar_set_f64(dtype, at, x);
        if (isfinite(x) && !isfinite(fx_scalar_f64(dtype, at)))
            return fault(p, where, "a number too large for its type");
        return true;
    }
    if (dtype == FX_U64 && p->lex.t.kind == FX_T_NUMBER && fx_parse_u64(p->lex.t.s, &u)) {
        memcpy(at, &u, sizeof(u));
        return fx_lex_next(&p->lex);
    }
    if (!parse_int(p, &i))
        return false;
    fx_scalar_set_i64(dtype, at, i);
    return fx_scalar_i64(dtype, at) == i || fault(p, where, "a number too large for its type");
}

/* "{1, 2}": as many elements as stand there. */
static bool parse_data(parser *p, fx_dtype dtype, fx_attr *a)
{
    size_t each = dtype < FX_CHAIN ? fx_dtype_size(dtype) : 0;
    fx_buf b;
    char item[8];
    bool ok = each || fault_here(p, "values come behind their type");

    fx_buf_init(&b, p->mem);
    ok = ok && expect(p, "{", "expected {");
    while (ok && !fx_lex_at(&p->lex, "}")) {
        ok = parse_element(p, dtype, item);
        fx_buf_add(&b, item, ok ? each : 0);
        ok = ok && (fx_lex_take(&p->lex, ",") || fx_lex_at(&p->lex, "}") || fault_here(p, "expected } or ,"));
    }
    ok = ok && expect(p, "}", "expected }");
    a->u.v.dtype = dtype;
    a->u.v.n = each ? (int64_t)(b.n / each) : 0;
    a->u.v.at = ok && !b.failed ? fx_arena_strdup(p->m->arena, fx_buf_view(&b).p, b.n) : NULL;
    fx_buf_done(&b);
    return ok && (a->u.v.at || no_memory(p));
}

static int hex_digit(char c)
{
    return is_digit(c) ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* One escape of a JSON string at s[*i] (behind the backslash); false: none that is known. */
static bool unescape(fx_str s, size_t *i, fx_buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *k = s.p[*i] ? strchr(from, s.p[*i]) : NULL;
    uint32_t rune = 0;
    char bytes[4];

    if (k) {
        fx_buf_putc(out, to[k - from]);
        ++*i;
        return true;
    }
    if (s.p[*i] != 'u' || s.n - *i < 5)
        return false;
    for (int d = 1; d <= 4; d++) {
        int h = hex_digit(s.p[*i + (size_t)d]);

        if (h < 0)
            return false;
        rune = rune * 16 + (uint32_t)h;
    }
    if (rune >= 0xd800 && rune < 0xe000)
        return false;
    *i += 5;
    fx_buf_add(out, bytes, fx_utf8_put(bytes, rune));
    return true;
}

static bool parse_string(parser *p, fx_attr *a)
{
    fx_str s = p->lex.t.s;
    fx_buf b;
    char *copy = NULL;
    bool ok = true;

    fx_buf_init(&b, p->mem);
    for (size_t i = 0; ok && i < s.n;) {
        if (s.p[i] != '\\') {
            fx_buf_putc(&b, s.p[i++]);
        } else if (i++, i >= s.n || !unescape(s, &i, &b)) {
            ok = fault_here(p, "an escape that isn't known");
        }
    }
    if (ok)
        copy = b.failed ? NULL : fx_arena_strdup(p->m->arena, fx_buf_view(&b).p, b.n);
    a->u.s = fx_str_n(copy, b.n);
    fx_buf_done(&b);
    return ok && (copy ? fx_lex_next(&p->lex) : no_memory(p));
}

static bool parse_bool(parser *p, int64_t *out)
{
    *out = fx_str_is(p->lex.t.s, "true");
    if (p->lex.t.kind != FX_T_NAME || (!*out && !fx_str_is(p->lex.t.s, "false")))
        return fault_here(p, "expected true or false");
    return fx_lex_next(&p->lex);
}

/* One of the words of the attribute. */
static bool parse_word(parser *p, fx_attr *a)
{
    fx_str word;

    for (a->u.i = 0; p->lex.t.kind == FX_T_NAME && (word = fx_attr_word(a->key, a->u.i)).n; a->u.i++) {
        if (fx_str_eq(word, p->lex.t.s))
            return fx_lex_next(&p->lex);
    }
    return fault_name(p, &p->lex.t, "no such word for this attribute");
}

static bool parse_param(parser *p, fx_kernel_param *out)
{
    fx_attr s = { .key = FX_A_NAME };
    fx_dtype t;

    if (p->lex.t.kind != FX_T_NAME)
        return fault_here(p, "expected the name of a parameter");
    out->name = p->lex.t.s;
    if (!fx_lex_next(&p->lex) || !expect(p, "=", "expected ="))
        return false;
    if (p->lex.t.kind == FX_T_STRING) {
        out->kind = FX_KPARAM_STR;
        if (!parse_string(p, &s))
            return false;
        out->s = s.u.s;
        return true;
    }
    if (p->lex.t.kind == FX_T_NAME && fx_vtype_of_name(&t, p->lex.t.s)) {
        out->kind = FX_KPARAM_DTYPE;
        out->i = t;
        return fx_lex_next(&p->lex);
    }
    out->kind = p->lex.t.kind == FX_T_NAME ? FX_KPARAM_BOOL : FX_KPARAM_INT;
    return p->lex.t.kind == FX_T_NAME ? parse_bool(p, &out->i) : parse_int(p, &out->i);
}

/* One item of a list, into the place that 'kind' makes of it. */
static bool parse_item(parser *p, fx_attr_kind kind, void *at)
{
    switch (kind) {
    case FX_ATTR_INTS: return parse_int(p, at);
    case FX_ATTR_DIMS: return parse_dim(p, at, 0);
    case FX_ATTR_TYPES: return parse_type(p, at);
    default: return parse_param(p, at);
    }
}

static bool parse_list(parser *p, fx_attr *a)
{
    fx_attr_kind kind = fx_attr_rows[a->key].kind;
    size_t each = kind == FX_ATTR_INTS ? sizeof(int64_t) : kind == FX_ATTR_DIMS ? sizeof(fx_dim)
                : kind == FX_ATTR_TYPES ? sizeof(fx_type) : sizeof(fx_kernel_param);
    union { int64_t i; fx_dim dim; fx_type type; fx_kernel_param param; } item;
    fx_buf b;
    bool ok = expect(p, "{", "expected {");

    fx_buf_init(&b, p->mem);
    while (ok && !fx_lex_at(&p->lex, "}")) {
        memset(&item, 0, sizeof(item));
        ok = parse_item(p, kind, &item);
        fx_buf_add(&b, &item, ok ? each : 0);
        ok = ok && (fx_lex_take(&p->lex, ",") || fx_lex_at(&p->lex, "}") || fault_here(p, "expected } or ,"));
    }
    ok = ok && expect(p, "}", "expected }");
    a->u.ints.n = (int64_t)(b.n / each);           /* all lists begin alike: where, how many */
    a->u.ints.at = ok && !b.failed ? fx_arena_alloc(p->m->arena, b.n + 1) : NULL;
    if (a->u.ints.at && b.n)
        memcpy((void *)(uintptr_t)a->u.ints.at, b.p, b.n);
    fx_buf_done(&b);
    return ok && (a->u.ints.at || no_memory(p));
}

static bool parse_value(parser *p, fx_attr *a)
{
    switch (fx_attr_rows[a->key].kind) {
    case FX_ATTR_INT: return parse_int(p, &a->u.i);
    case FX_ATTR_FLOAT: return parse_double(p, &a->u.f);
    case FX_ATTR_BOOL: return parse_bool(p, &a->u.i);
    case FX_ATTR_WORD: return parse_word(p, a);
    case FX_ATTR_DIM: return parse_dim(p, &a->u.dim, 0);
    case FX_ATTR_STR:
        if (a->key != FX_A_NAME)
            return p->lex.t.kind == FX_T_STRING ? parse_string(p, a) : fault_here(p, "expected a string");
        break;
    case FX_ATTR_DIMS:
    case FX_ATTR_INTS:
    case FX_ATTR_TYPES:
    case FX_ATTR_PARAMS: return parse_list(p, a);
    default: break;
    }
    return fault_here(p, "this attribute is written without its name");
}

/* name = value; the name is read, p->lex.t is "=".  Several attributes may share a name: the op's own is meant. */
static bool parse_named(parser *p, fx_opcode code, const fx_token *name, fx_attr *a)
{
    int found = FX_A_COUNT;

    for (int k = 0; k < FX_A_COUNT; k++) {
        if (fx_str_is(name->s, fx_attr_rows[k].text) && (found == FX_A_COUNT || fx_opcode_has(code, (fx_attr_key)k)))
            found = k;
    }
    if (found == FX_A_COUNT)
        return fault_name(p, name, "no such attribute");
    a->key = (fx_attr_key)found;
    return fx_lex_next(&p->lex) && parse_value(p, a);
}

/* The dtype that the op's TYPE, read before, gives to its data. */
static fx_dtype data_dtype(const arguments *a)
{
    for (int i = 0; i < a->n_attrs; i++) {
        if (a->attrs[i].key == FX_A_TYPE)
            return a->type.dtype;
    }
    return FX_DTYPE_COUNT;
}

static bool parse_attr(parser *p, fx_opcode code, arguments *a)
{
    fx_attr *at = &a->attrs[a->n_attrs];
    fx_token name = p->lex.t;

    if (a->n_attrs >= FX_A_COUNT)
        return fault_here(p, "too many attributes");
    a->n_attrs++;
    if (fx_lex_at(&p->lex, "{")) {
        at->key = FX_A_VALUES;
        return parse_data(p, data_dtype(a), at);
    }
    if (p->lex.t.kind == FX_T_STRING) {
        at->key = FX_A_NAME;
        return parse_string(p, at);
    }
    if (p->lex.t.kind != FX_T_NAME)
        return fault_here(p, "expected an operand or an attribute");
    if (fx_lex_peek(&p->lex, 0) == '=')
        return fx_lex_next(&p->lex) && parse_named(p, code, &name, at);
    if (fx_opcode_has(code, FX_A_DTYPE)) {
        fx_type t;

        at->key = FX_A_DTYPE;
        if (!parse_type(p, &t))
            return false;
        at->u.i = t.dtype;
        return t.rank == 0 || fault(p, name.at, "expected a type without a shape");
    }
    at->key = FX_A_TYPE;
    at->u.type = &a->type;
    return parse_type(p, &a->type);
}

/* Everything behind the opcode up to a region or the end of the line. */
static bool parse_arguments(parser *p, fx_opcode code, arguments *a)
{
    bool regions = fx_op_rows[code].flags & FX_OPF_REGIONS;

    if (p->lex.t.kind == FX_T_END || p->lex.t.first || fx_lex_at(&p->lex, "}") || (regions && fx_lex_at(&p->lex, "{")))
        return true;
    do {
        bool operand = p->lex.t.kind == FX_T_VALUE || (p->lex.t.kind == FX_T_NAME && fx_str_is(p->lex.t.s, "_"));

        if (!(operand ? parse_operand(p, a) : parse_attr(p, code, a)))
            return false;
    } while (fx_lex_take(&p->lex, ","));
    return p->lex.st == FORNAX_OK;
}

/* ---- Ops ------------------------------------------------------------------------------------------- */

static bool parse_ops(parser *p);

static bool define(parser *p, const fx_token *name, fx_value *v)
{
    bool hint = false;

    if (value_of(p, name->s))
        return fault_name(p, name, "a value of this name is there already");
    if (!fx_map_put(&p->values, name->s, (uint64_t)(uintptr_t)v))
        return no_memory(p);
    for (size_t i = 0; i < name->s.n; i++)
        hint = hint || !is_digit(name->s.p[i]);
    if (hint) {
        char *copy = fx_arena_strdup(p->m->arena, name->s.p, name->s.n);

        if (!copy)
            return no_memory(p);
        v->name = fx_str_n(copy, name->s.n);
    }
    return true;
}

#define MAX_BLOCK_ARGS 64

static fx_region *parse_region(parser *p)
{
    fx_token names[MAX_BLOCK_ARGS];
    fx_type types[MAX_BLOCK_ARGS];
    int n = 0;
    fx_point was = p->m->at;
    fx_region *r;
    fx_block *b;

    if (p->depth >= MAX_DEPTH)
        return fault_here(p, "too deep"), NULL;
    if (!expect(p, "{", "expected {"))
        return NULL;
    while (p->lex.t.kind == FX_T_VALUE && fx_lex_peek(&p->lex, 0) == ':') {
        if (n >= MAX_BLOCK_ARGS)
            return fault_here(p, "too many arguments"), NULL;
        names[n] = p->lex.t;
        if (!fx_lex_next(&p->lex) || !fx_lex_next(&p->lex) || !parse_type(p, &types[n]))
            return NULL;
        n++;
        if (!fx_lex_take(&p->lex, ","))
            break;
    }
    b = fx_block_new(p->m, types, n);
    r = fx_region_new(p->m, b);
    if (!r)
        return no_memory(p), NULL;
    p->open[p->depth++] = b;
    fx_insert_at(p->m, (fx_point){ b, NULL });
    for (int i = 0; i < n; i++) {
        if (!define(p, &names[i], &b->args[i]))
            return NULL;
    }
    if (!parse_ops(p) || !expect(p, "}", "expected } or an op"))
        return NULL;
    p->depth--;
    fx_insert_at(p->m, was);
    return r;
}

#define MAX_RESULTS 64

/* Makes the op and binds its results. */
static bool make(parser *p, fx_opcode code, size_t at, const arguments *a, fx_region *const *regions, int n_regions,
                 const fx_token *results, int n_results)
{
    fx_op *op = fx_op_make(p->m, &(fx_op_init){ .code = code, .in = a->in.at, .n_in = (int)a->in.n, .attrs = a->attrs,
                                                .n_attrs = a->n_attrs, .regions = regions, .n_regions = n_regions });

    if (!op) {
        if (p->m->err.status == FORNAX_ENOMEM)
            return no_memory(p);
        return fault(p, at, p->m->err.text);
    }
    if (op->n_out != n_results)
        return fx_lex_fault(&p->lex, at, "%s has %d results, %d are named", fx_opcode_name(code), op->n_out, n_results);
    for (int i = 0; i < n_results; i++) {
        if (!define(p, &results[i], &op->out[i]))
            return false;
    }
    return true;
}

static bool parse_op(parser *p)
{
    fx_token results[MAX_RESULTS];
    fx_region *regions[4];
    arguments a = { .n_attrs = 0 };
    int n_results = 0, n_regions = 0;
    fx_opcode code;
    size_t at;
    bool ok;

    while (p->lex.t.kind == FX_T_VALUE) {
        if (n_results >= MAX_RESULTS)
            return fault_here(p, "too many results");
        results[n_results++] = p->lex.t;
        if (!fx_lex_next(&p->lex))
            return false;
        if (!fx_lex_take(&p->lex, ","))
            break;
    }
    if (n_results && !expect(p, "=", "expected ="))
        return false;
    at = p->lex.t.at;
    if (p->lex.t.kind != FX_T_NAME || !fx_opcode_of_name(&code, p->lex.t.s))
        return fault_name(p, &p->lex.t, "no such op");
    ok = fx_lex_next(&p->lex) && parse_arguments(p, code, &a);
    while (ok && (fx_op_rows[code].flags & FX_OPF_REGIONS) && fx_lex_at(&p->lex, "{")) {
        if (n_regions == (int)FX_COUNT(regions))
            ok = fault_here(p, "too many regions");
        else
            ok = (regions[n_regions++] = parse_region(p)) != NULL;
    }
    if (ok && p->lex.t.kind != FX_T_END && !p->lex.t.first && !fx_lex_at(&p->lex, "}"))
        ok = fault_here(p, "expected the end of the line");
    ok = ok && make(p, code, at, &a, regions, n_regions, results, n_results);
    FX_VEC_FREE(&a.in, p->mem);
    return ok;
}

static bool parse_ops(parser *p)
{
    while (p->lex.st == FORNAX_OK && p->lex.t.kind != FX_T_END && !fx_lex_at(&p->lex, "}")) {
        if (!parse_op(p))
            return false;
    }
    return p->lex.st == FORNAX_OK;
}

/* ---- Graphs ------------------------------------------------------------------------------------------ */

static bool parse_graph(parser *p, fx_str name, size_t at)
{
    fx_graph *g = fx_graph_new(p->m, name);
    bool ok;

    if (!g) {
        if (p->m->err.status == FORNAX_ENOMEM)
            return no_memory(p);
        return fault(p, at, p->m->err.text);
    }
    fx_map_init(&p->values, p->mem);
    p->depth = 0;
    p->open[p->depth++] = fx_graph_body(g);
    ok = parse_ops(p);
    fx_map_done(&p->values);
    if (ok && !fx_graph_output(g))
        ok = fault(p, at, "the graph doesn't end in output");
    return ok;
}

static bool at_word(const parser *p, const char *word)
{
    return p->lex.t.kind == FX_T_NAME && fx_str_is(p->lex.t.s, word);
}

static bool parse_library(parser *p)
{
    fx_attr path = { .key = FX_A_NAME };

    if (!fx_lex_next(&p->lex))
        return false;
    if (p->lex.t.kind != FX_T_STRING)
        return fault_here(p, "expected the path of a kernel library");
    return parse_string(p, &path) && (fx_module_add_library(p->m, path.u.s) || no_memory(p));
}

static bool parse_named_graph(parser *p)
{
    bool subgraph = at_word(p, "subgraph");
    fx_token name;

    if (!subgraph && !at_word(p, "graph"))
        return fault_here(p, "expected graph @name {");
    if (!fx_lex_next(&p->lex) || !expect(p, "@", "expected @name"))
        return false;
    name = p->lex.t;
    if (name.kind != FX_T_NAME)
        return fault_here(p, "expected a name");
    if (!fx_lex_next(&p->lex) || !expect(p, "{", "expected {") || !parse_graph(p, name.s, name.at) ||
        !expect(p, "}", "expected } or an op"))
        return false;
    p->m->last->subgraph = subgraph;
    return true;
}

static bool parse_module(parser *p)
{
    if (!fx_lex_next(&p->lex))
        return false;
    if (!at_word(p, "graph") && !at_word(p, "subgraph") && !at_word(p, "library"))
        return parse_graph(p, FX_STR("main"), 0) && (p->lex.t.kind == FX_T_END || fault_here(p, "expected an op"));
    while (p->lex.st == FORNAX_OK && p->lex.t.kind != FX_T_END) {
        if (!(at_word(p, "library") && !p->m->first ? parse_library(p) : parse_named_graph(p)))
            return false;
    }
    return p->lex.st == FORNAX_OK;
}

fx_status fx_module_parse(fx_module **out, fx_arena *arena, const char *name, fx_str text, fx_error *err)
{
    parser p = { .lex = { .file = name, .text = text, .puncts = "=,[](){}:@+-*/\"", .err = err }, .mem = arena->mem };
    fx_error flaw = { 0 };

    *out = NULL;
    p.m = fx_module_new(arena);
    if (!p.m)
        return fx_nomem(err, "a graph");
    if (!parse_module(&p))
        return p.lex.st == FORNAX_OK ? fx_fail(err, FORNAX_EINTERNAL, "%s: unread", name) : p.lex.st;
    if (fx_module_check(p.m, &flaw) != FORNAX_OK)       /* what isn't seen op by op: forked chains */
        return fx_fail(err, flaw.status == FORNAX_ENOMEM ? FORNAX_ENOMEM : FORNAX_EFORMAT, "%s: %s", name, flaw.text);
    *out = p.m;
    return FORNAX_OK;
}
