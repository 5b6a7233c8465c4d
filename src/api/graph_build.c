/* graph_build.c - graphs, where their ops go, ops by name with their attributes, values. */
#include "api/graph_api.h"
#include "tensor/scalar.h"

/* The names here are functions; callers' macros add their line. */
#undef fornax_graph_input
#undef fornax_graph_weight
#undef fornax_graph_constant
#undef fornax_graph_int
#undef fornax_graph_float
#undef fornax_graph_seed
#undef fornax_graph_output
#undef fornax_graph_insert
#undef fornax_op_make

/* ---- Graphs ------------------------------------------------------------------------------ */

static fornax_graph *new_graph(fornax_module *m, const char *name, bool subgraph)
{
    fornax_graph *g;

    if (!m || m->m->failed)
        return NULL;
    if (!name || !*name)
        return fx_module_fail(m->m, FORNAX_EARG, "a graph needs a name");
    for (const char *p = name; *p; p++) {
        if (!(*p == '_' || (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (p > name && *p >= '0' && *p <= '9')))
            return fx_module_fail(m->m, FORNAX_EARG, "a graph's name is letters, digits and _; not %s", name);
    }
    g = FX_ARENA_NEW(&m->arena, fornax_graph);
    if (!g)
        return fx_module_fail(m->m, FORNAX_ENOMEM, "no memory for a graph");
    g->owner = m;
    g->g = fx_graph_new(m->m, fx_str_of(name));
    if (!g->g)
        return NULL;
    g->g->subgraph = subgraph;
    g->at = (fx_point){ fx_graph_body(g->g), NULL };
    *(m->last ? &m->last->next : &m->first) = g;
    m->last = g;
    return g;
}

fornax_graph *fornax_graph_new(fornax_module *m, const char *name) { return new_graph(m, name, false); }
fornax_graph *fornax_subgraph_new(fornax_module *m, const char *name) { return new_graph(m, name, true); }

const char *fornax_graph_name(const fornax_graph *g)
{
    return g ? g->g->name.p : "";
}

fornax_graph *fornax_graph_at(fornax_graph *g, const char *file, int line)
{
    if (g) {
        g->file = file;
        g->line = line;
    }
    return g;
}

void fornax_graph_insert(fornax_graph *g, int where, fornax_op *op)
{
    fx_op *at = fx_api_op(op);

    if (fx_api_broken(g))
        return;
    if (where == FORNAX_AT_END && !op)
        g->at = (fx_point){ g->block ? g->block->b : fx_graph_body(g->g), NULL };
    else if ((where == FORNAX_BEFORE || where == FORNAX_AFTER) && at && at->block)
        g->at = (fx_point){ at->block, where == FORNAX_BEFORE ? at : at->next };
    else
        fx_api_fault(g, FORNAX_EARG, "insertion: expected before or after an op, or the end and no op");
}

fx_op *fx_api_make(fornax_graph *g, fx_op_init init)
{
    fx_op *op;

    init.file = g->file;
    init.line = g->line;
    fx_insert_at(fx_api_module(g), g->at);
    op = fx_op_make(fx_api_module(g), &init);
    return op;
}

/* ---- Effects -------------------------------------------------------------------------------- */

/* The chain that a subgraph is given, behind its other inputs. */
static fx_value *chain_input(fornax_graph *g)
{
    fx_type type = fx_type0(FX_CHAIN);
    fx_point was = g->at;
    fx_op *first = g->last_input ? g->last_input->next : fx_graph_body(g->g)->first;
    fx_op *op;

    g->at = (fx_point){ fx_graph_body(g->g), first };
    op = fx_api_make(g, (fx_op_init){ .code = FX_OP_INPUT, FX_ATTRS(FX_AT(TYPE, &type)), .name = FX_STR("chain") });
    g->at = was;
    return fx_op_result(op);
}

fx_value *fx_api_chain(fornax_graph *g)
{
    if (g->block)
        return g->block->chain;
    if (!g->chain)
        g->chain = g->g->subgraph ? chain_input(g) : fx_op_result(fx_api_make(g, (fx_op_init){ .code = FX_OP_CHAIN }));
    return g->chain;
}

void fx_api_set_chain(fornax_graph *g, fx_value *chain)
{
    *(g->block ? &g->block->chain : &g->chain) = chain;
}

/* ---- Inputs, weights, constants, outputs ------------------------------------------------------ */

fornax_value *fornax_graph_input(fornax_graph *g, const char *name, const fornax_type *type)
{
    fx_point was;
    fx_type t;
    fx_op *op;

    if (fx_api_broken(g) || !fx_api_type(g, type, &t))
        return NULL;
    if (!name || !*name)
        return fx_api_fault(g, FORNAX_EARG, "an input needs a name");
    was = g->at;
    g->at = (fx_point){ fx_graph_body(g->g), g->last_input ? g->last_input->next : fx_graph_body(g->g)->first };
    op = fx_api_make(g, (fx_op_init){ .code = FX_OP_INPUT, FX_ATTRS(FX_AT(TYPE, &t)), .name = fx_str_of(name) });
    g->at = was;
    g->last_input = op;
    return fx_api_of_value(fx_op_result(op));
}

/* The weight of that name, if there is one. */
static fx_op *find_weight(const fornax_graph *g, fx_str name)
{
    for (fx_op *op = fx_graph_body(g->g)->first; op; op = op->next) {
        if (op->code == FX_OP_WEIGHT && fx_str_eq(fx_op_attr(op, FX_A_NAME)->u.s, name))
            return op;
    }
    return NULL;
}

fornax_value *fornax_graph_weight(fornax_graph *g, const char *name, const fornax_type *type)
{
    fx_op *op, *last;
    fx_point was;
    fx_type t;

    if (fx_api_broken(g) || !fx_api_type(g, type, &t))
        return NULL;
    if (!name || !*name)
        return fx_api_fault(g, FORNAX_EARG, "a weight needs a name");
    op = find_weight(g, fx_str_of(name));
    if (op && !fx_type_eq(&op->out[0].type, &t))
        return fx_api_fault(g, FORNAX_EARG, "weight %s: there is one of another type", name);
    if (op)
        return fx_api_of_value(&op->out[0]);
    was = g->at;
    last = g->last_weight ? g->last_weight : g->last_input;
    g->at = (fx_point){ fx_graph_body(g->g), last ? last->next : fx_graph_body(g->g)->first };
    op = fx_api_make(g, (fx_op_init){ .code = FX_OP_WEIGHT, .name = fx_str_of(name),
                                      FX_ATTRS(FX_AS(NAME, fx_str_of(name)), FX_AT(TYPE, &t)) });
    g->at = was;
    g->last_weight = op;
    return fx_api_of_value(fx_op_result(op));
}

fornax_value *fornax_graph_constant(fornax_graph *g, const fornax_type *type, const void *data)
{
    fx_type t;
    fx_dim n;

    if (fx_api_broken(g) || !fx_api_type(g, type, &t))
        return NULL;
    if (fx_dtype_size(t.dtype) == 0)
        return fx_api_fault(g, FORNAX_EARG, "a constant holds numbers or bools");
    if (fx_count_elements(&g->owner->arena, &t, &n) != FORNAX_OK || !fx_dim_is_static(n) ||
        n.n > (int64_t)(PTRDIFF_MAX / fx_dtype_size(t.dtype)))
        return fx_api_fault(g, FORNAX_EARG, "a constant's sizes are numbers, not too many");
    if (!data && n.n)
        return fx_api_fault(g, FORNAX_EARG, "a constant's data is NULL");
    return fx_api_of_value(fx_op_result(fx_api_make(
        g, (fx_op_init){ .code = FX_OP_CONSTANT, FX_ATTRS(FX_AT(TYPE, &t), FX_AVT(VALUES, t.dtype, data, n.n)) })));
}

fx_value *fx_api_constant(fornax_graph *g, fx_dtype dtype, const void *data)
{
    fx_type t = fx_type0(dtype);

    return fx_op_result(fx_api_make(g, (fx_op_init){ .code = FX_OP_CONSTANT,
                                                     FX_ATTRS(FX_AT(TYPE, &t), FX_AVT(VALUES, dtype, data, 1)) }));
}

/* The dtype that a number takes; FX_CHAIN after a fault. */
static fx_dtype like_dtype(fornax_graph *g, const fornax_value *like)
{
    const fx_value *v = fx_api_value(like);

    if (v && v->type.dtype < FX_CHAIN && fx_dtype_size(v->type.dtype))
        return v->type.dtype;
    fx_api_fault(g, FORNAX_EARG, "expected a value of numbers whose dtype the number takes");
    return FX_CHAIN;
}

fornax_value *fornax_graph_int(fornax_graph *g, const fornax_value *like, int64_t x)
{
    uint64_t room = 0;
    fx_dtype t;

    if (fx_api_broken(g) || (t = like_dtype(g, like)) == FX_CHAIN)
        return NULL;
    if (!fx_dtype_counts_to(t, x))
        return fx_api_fault(g, FORNAX_EARG, "%s doesn't hold %lld", fx_dtype_name(t), (long long)x);
    if (fx_dtype_is_float(t))
        fx_scalar_set_f64(t, &room, (double)x);
    else
        fx_scalar_set_i64(t, &room, x);
    return fx_api_of_value(fx_api_constant(g, t, &room));
}

fornax_value *fornax_graph_float(fornax_graph *g, const fornax_value *like, double x)
{
    uint64_t room = 0;
    fx_dtype t;

    if (fx_api_broken(g) || (t = like_dtype(g, like)) == FX_CHAIN)
        return NULL;
    if (!fx_dtype_is_float(t))
        return fx_api_fault(g, FORNAX_EARG, "a float can't become %s", fx_dtype_name(t));
    fx_scalar_set_f64(t, &room, x);
    return fx_api_of_value(fx_api_constant(g, t, &room));
}

void fornax_graph_seed(fornax_graph *g, fornax_value *seed, int64_t number)
{
    const fx_value *v = fx_api_value(seed);

    if (fx_api_broken(g))
        return;
    if (v && (v->type.dtype != FX_I64 || v->type.rank != 0)) {
        fx_api_fault(g, FORNAX_EARG, "the seed must be an i64 scalar");
        return;
    }
    g->seed = fx_api_value(seed);
    g->seed_number = number;
    g->seeded = true;
    g->draws = 0;
}

/* The seed of the next op that draws. */
static fx_value *next_seed(fornax_graph *g)
{
    int64_t n = g->draws++;
    uint64_t number = (uint64_t)g->seed_number + (uint64_t)n;
    fx_value *more;

    if (!g->seeded)
        return fx_api_fault(g, FORNAX_EARG, "no seed is set for random numbers");
    if (!g->seed)
        return fx_api_constant(g, FX_I64, &number);
    if (n == 0)
        return g->seed;
    more = fx_api_constant(g, FX_I64, &n);
    return fx_op_result(fx_api_make(g, (fx_op_init){ .code = FX_OP_ADD, FX_IN(g->seed, more) }));
}

void fornax_graph_output(fornax_graph *g, fornax_value *const *values, size_t n)
{
    fx_value **in;
    int count = 0;

    if (fx_api_broken(g))
        return;
    if (n > INT32_MAX - 1 || (n && !values) || g->block) {
        fx_api_fault(g, FORNAX_EARG, g->block ? "output: a block isn't ended" : "output: its values are NULL or too many");
        return;
    }
    in = FX_ARENA_NEWN(&g->owner->arena, fx_value *, n + 1);
    if (!in) {
        fx_api_no_memory(g);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        in[count++] = fx_api_value(values[i]);
        if (!values[i]) {
            fx_api_fault(g, FORNAX_EARG, "output: value %zu is NULL", i);
            return;
        }
    }
    if (g->g->subgraph && g->chain)
        in[count++] = g->chain;
    g->at = (fx_point){ fx_graph_body(g->g), NULL };
    fx_api_make(g, (fx_op_init){ .code = FX_OP_OUTPUT, .in = in, .n_in = count });
}

/* ---- Attributes ----------------------------------------------------------------------------------- */

static bool take_word(fornax_graph *g, const char *s, fx_attr *a)
{
    fx_str word;

    if (!s)
        return true;                     /* its default is word 0 */
    for (int64_t i = 0; (word = fx_attr_word(a->key, i)).n; i++) {
        if (fx_str_is(word, s)) {
            a->u.i = i;
            return true;
        }
    }
    return fx_api_fault(g, FORNAX_EARG, "%s: there is no %s", fx_attr_rows[a->key].text, s);
}

/* Room for the n items of a list, at least one; NULL after a fault. */
static void *list_room(fornax_graph *g, const fornax_attr *from, size_t each)
{
    void *p;

    if (from->n > INT32_MAX || (from->n && !from->list))
        return fx_api_fault(g, FORNAX_EARG, "%s: its list is NULL or too long", from->name);
    p = fx_arena_array(&g->owner->arena, from->n + 1, each);
    return p ? p : fx_api_no_memory(g);
}

static bool take_dims(fornax_graph *g, const fornax_attr *from, fx_attr *a)
{
    const fornax_dim *given = from->list;
    fx_dim *dims = list_room(g, from, sizeof(*dims));

    for (size_t i = 0; dims && i < from->n; i++)
        dims[i] = (fx_dim){ given[i].n, given[i].expr };
    a->u.dims.at = dims;
    a->u.dims.n = (int64_t)from->n;
    return dims != NULL;
}

static bool take_types(fornax_graph *g, const fornax_attr *from, fx_attr *a)
{
    const fornax_type *given = from->list;
    fx_type *types = list_room(g, from, sizeof(*types));

    for (size_t i = 0; types && i < from->n; i++) {
        if (!fx_api_type(g, &given[i], &types[i]))
            return false;
    }
    a->u.types.at = types;
    a->u.types.n = (int64_t)from->n;
    if (fx_attr_rows[a->key].kind == FX_ATTR_TYPE)
        a->u.type = from->n == 1 ? types : fx_api_fault(g, FORNAX_EARG, "%s: expected a type", from->name);
    return types && !fx_api_module(g)->failed;
}

static bool take_params(fornax_graph *g, const fornax_attr *from, fx_attr *a)
{
    const fornax_param *given = from->list;
    fx_kernel_param *params = list_room(g, from, sizeof(*params));

    for (size_t i = 0; params && i < from->n; i++) {
        if (!given[i].name || !*given[i].name || given[i].kind < 0 || given[i].kind > FORNAX_PARAM_DTYPE ||
            (given[i].kind == FORNAX_PARAM_TEXT && !given[i].s) ||
            (given[i].kind == FORNAX_PARAM_DTYPE && (given[i].i < 0 || given[i].i > FX_MXFP4)))
            return fx_api_fault(g, FORNAX_EARG, "%s: parameter %zu has no name, kind or value", from->name, i);
        params[i] = (fx_kernel_param){ fx_str_of(given[i].name), (fx_kernel_param_kind)given[i].kind, given[i].i,
                                       fx_str_of(given[i].kind == FORNAX_PARAM_TEXT ? given[i].s : "") };
        if (given[i].kind == FORNAX_PARAM_BOOL)
            params[i].i = given[i].i != 0;
    }
    a->u.params.at = params;
    a->u.params.n = (int64_t)from->n;
    return params != NULL;
}

/* One attribute of the caller as one of the op's; its key is set. */
static bool take_attr(fornax_graph *g, const fornax_attr *from, fx_attr *a)
{
    switch (fx_attr_rows[a->key].kind) {
    case FX_ATTR_FLOAT: a->u.f = from->f; return true;
    case FX_ATTR_STR: a->u.s = fx_str_of(from->s ? from->s : ""); return true;
    case FX_ATTR_WORD: return take_word(g, from->s, a);
    case FX_ATTR_BOOL: a->u.i = from->i != 0; return true;
    case FX_ATTR_DIM: a->u.dim = (fx_dim){ from->dim.n, from->dim.expr }; return true;
    case FX_ATTR_DIMS: return take_dims(g, from, a);
    case FX_ATTR_TYPE:
    case FX_ATTR_TYPES: return take_types(g, from, a);
    case FX_ATTR_PARAMS: return take_params(g, from, a);
    case FX_ATTR_INTS:
        a->u.ints.at = from->list;
        a->u.ints.n = (int64_t)from->n;
        return (from->n <= INT32_MAX && (from->list || !from->n)) ||
               fx_api_fault(g, FORNAX_EARG, "%s: its list is NULL or too long", from->name);
    case FX_ATTR_DTYPE:
        a->u.i = from->i;
        return (from->i >= 0 && from->i <= FX_MXFP4) || fx_api_fault(g, FORNAX_EARG, "no dtype %lld", (long long)from->i);
    case FX_ATTR_DATA: return fx_api_fault(g, FORNAX_EARG, "%s: see fornax_graph_constant", from->name);
    default: a->u.i = from->i; return true;
    }
}

static bool take_attrs(fornax_graph *g, fx_opcode code, const fornax_attr *attrs, size_t n, fx_attr *out)
{
    const fx_op_row *row = &fx_op_rows[code];

    for (size_t i = 0; i < n; i++) {
        const uint8_t *k = row->attrs;

        while (*k != FX_A_COUNT && (!attrs[i].name || strcmp(fx_attr_rows[*k].text, attrs[i].name)))
            k++;
        if (*k == FX_A_COUNT)
            return fx_api_fault(g, FORNAX_EARG, "%s: it has no attribute %s", row->text, attrs[i].name ? attrs[i].name : "NULL");
        memset(&out[i], 0, sizeof(out[i]));
        out[i].key = (fx_attr_key)*k;
        if (!take_attr(g, &attrs[i], &out[i]))
            return false;
    }
    return true;
}

/* ---- Ops --------------------------------------------------------------------------------------------- */

/* What only the library may make. */
static bool is_reserved(fx_opcode code)
{
    return code == FX_OP_INPUT || code == FX_OP_WEIGHT || code == FX_OP_CHAIN || code == FX_OP_OUTPUT ||
           code == FX_OP_YIELD || code == FX_OP_COND || code == FX_OP_WHILE || code == FX_OP_CALL ||
           code == FX_OP_CONSTANT || (fx_op_rows[code].flags & FX_OPF_STEP);
}

/* Which operand is added by the library: the chain (last or, for in-place kernels, behind all), the seed; -1: none. */
static int added_operand(fx_opcode code, size_t n_in)
{
    fx_op_names names = fx_op_names_of(fx_op_rows[code].operands);
    bool optional;

    if (code == FX_OP_INPLACE_CUSTOM)
        return (int)n_in;
    for (int i = 0; i < names.n && !names.variadic; i++) {
        fx_str name = fx_op_name_at(fx_op_rows[code].operands, i, &optional);

        if (fx_str_is(name, "chain") || fx_str_is(name, "seed"))
            return i;
    }
    return -1;
}

/* The caller's operands, with what the library adds in its place. */
static bool take_operands(fornax_graph *g, fx_opcode code, fornax_value *const *in, size_t n, fx_value **out, int *n_out)
{
    int added = added_operand(code, n);
    size_t k = 0;

    *n_out = 0;
    for (; k < n && (added < 0 || (int)k < added); k++)
        out[(*n_out)++] = fx_api_value(in[k]);
    if (added < 0)
        return true;
    while (*n_out < added)
        out[(*n_out)++] = NULL;
    if (fx_op_rows[code].kind == FX_KIND_EFFECT &&
        (g->at.before || g->at.block != (g->block ? g->block->b : fx_graph_body(g->g))))
        return fx_api_fault(g, FORNAX_EARG, "%s: effects go to the end of a block", fx_opcode_name(code));
    out[*n_out] = fx_op_rows[code].kind == FX_KIND_EFFECT ? fx_api_chain(g) : next_seed(g);
    if (!out[(*n_out)++])
        return false;
    for (; k < n; k++)
        out[(*n_out)++] = fx_api_value(in[k]);
    return true;
}

fornax_op *fornax_op_make(fornax_graph *g, const char *name, fornax_value *const *in, size_t n_in,
                          const fornax_attr *attrs, size_t n_attrs)
{
    fx_attr at[FX_MAX_ATTRS];
    fx_value **operands;
    fx_opcode code;
    fx_op *op;
    int n;

    if (fx_api_broken(g))
        return NULL;
    if (!name || !fx_opcode_of_name(&code, fx_str_of(name)) || is_reserved(code))
        return fx_api_fault(g, FORNAX_EARG, "there is no op %s to make", name ? name : "NULL");
    if (n_attrs > FX_MAX_ATTRS || n_in > INT32_MAX - 16 || (n_in && !in) || (n_attrs && !attrs))
        return fx_api_fault(g, FORNAX_EARG, "%s: operands or attributes are NULL or too many", name);
    operands = FX_ARENA_NEWN(&g->owner->arena, fx_value *, n_in + 16);
    if (!operands)
        return fx_api_no_memory(g);
    if (!take_attrs(g, code, attrs, n_attrs, at) || !take_operands(g, code, in, n_in, operands, &n))
        return NULL;
    op = fx_api_make(g, (fx_op_init){ .code = code, .in = operands, .n_in = n, .attrs = at, .n_attrs = (int)n_attrs });
    if (op && op->n_out && op->out[op->n_out - 1].type.dtype == FX_CHAIN)
        fx_api_set_chain(g, &op->out[op->n_out - 1]);
    return fx_api_of_op(op);
}

/* ---- Values ------------------------------------------------------------------------------------------- */

fornax_value *fornax_op_result(fornax_op *op, size_t i)
{
    fx_op *o = fx_api_op(op);

    if (!o || i >= (size_t)o->n_out || o->out[i].type.dtype == FX_CHAIN)
        return NULL;
    return fx_api_of_value(&o->out[i]);
}

fornax_type fornax_value_type(const fornax_value *v)
{
    static const fx_type none = { 0 };

    return fx_api_of_type(v ? &fx_api_value(v)->type : &none);
}

const char *fornax_value_name(const fornax_value *v)
{
    const fx_value *x = fx_api_value(v);

    return x && x->name.n ? x->name.p : "";
}

fornax_op *fornax_value_op(const fornax_value *v)
{
    return v ? fx_api_of_op(fx_api_value(v)->def) : NULL;
}

fornax_value *fornax_value_set_name(fornax_graph *g, fornax_value *v, const char *name)
{
    fx_value *x = fx_api_value(v);
    char *copy;

    if (fx_api_broken(g) || !v)
        return v;
    if (!name)
        return fx_api_fault(g, FORNAX_EARG, "a value's name is NULL");
    copy = fx_arena_strdup(&g->owner->arena, name, strlen(name));
    if (!copy)
        return fx_api_no_memory(g);
    x->name = fx_str_of(copy);
    return v;
}
