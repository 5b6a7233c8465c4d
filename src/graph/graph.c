/* graph.c - making, reading and changing graphs.
 *
 * An op is one arena piece with its operands, results and attributes behind it.  A
 * value's uses form a doubly linked list through the operands (fx_use.link points at
 * whatever points at it), so replacing and erasing cost what they touch.  The order of
 * ops in a block is a number per op, renewed when it is asked for after a change. */
#include "graph/graph.h"

#include <stdarg.h>

#include "base/text.h"

fx_module *fx_module_new(fx_arena *arena)
{
    fx_module *m = FX_ARENA_NEW(arena, fx_module);

    if (m)
        m->arena = arena;
    return m;
}

fx_status fx_module_status(const fx_module *m, fx_error *err)
{
    if (!m->failed)
        return FORNAX_OK;
    return fx_fail(err, m->err.status, "%s", m->err.text);
}

void *fx_module_fail(fx_module *m, fx_status st, const char *fmt, ...)
{
    char text[sizeof(m->err.text)];
    va_list ap;

    if (m->failed)
        return NULL;
    va_start(ap, fmt);
    fx_vformat(text, sizeof(text), fmt, ap);
    va_end(ap);
    m->failed = true;
    fx_fail(&m->err, st, "%s", text);
    return NULL;
}

static void *no_memory(fx_module *m)
{
    return fx_module_fail(m, FORNAX_ENOMEM, "no memory for a graph");
}

/* ---- Structure ------------------------------------------------------------------------- */

fx_block *fx_block_new(fx_module *m, const fx_type *args, int n_args)
{
    fx_block *b = FX_ARENA_NEW(m->arena, fx_block);

    if (!b || (n_args && !(b->args = FX_ARENA_NEWN(m->arena, fx_value, (size_t)n_args))))
        return no_memory(m);
    b->n_args = n_args;
    for (int i = 0; i < n_args; i++)
        b->args[i] = (fx_value){ .type = args[i], .block = b, .index = i };
    return b;
}

fx_region *fx_region_new(fx_module *m, fx_block *block)
{
    fx_region *r;

    if (!block)
        return NULL;
    r = FX_ARENA_NEW(m->arena, fx_region);
    if (!r)
        return no_memory(m);
    FX_ASSERT(!block->region);
    r->first = r->last = block;
    block->region = r;
    return r;
}

fx_graph *fx_graph_new(fx_module *m, fx_str name)
{
    fx_graph *g = FX_ARENA_NEW(m->arena, fx_graph);
    char *copy = fx_arena_strdup(m->arena, name.p, name.n);

    if (!g || !copy)
        return no_memory(m);
    if (fx_graph_find(m, name))
        return fx_module_fail(m, FORNAX_EFORMAT, "graph %.*s: there is one of this name", FX_STR_ARG(name));
    g->module = m;
    g->name = fx_str_n(copy, name.n);
    g->region = fx_region_new(m, fx_block_new(m, NULL, 0));
    if (!g->region)
        return NULL;
    g->region->graph = g;
    if (m->last)
        m->last->next = g;
    else
        m->first = g;
    m->last = g;
    m->at = (fx_point){ g->region->first, NULL };
    return g;
}

fx_graph *fx_graph_find(const fx_module *m, fx_str name)
{
    for (fx_graph *g = m->first; g; g = g->next) {
        if (fx_str_eq(g->name, name))
            return g;
    }
    return NULL;
}

bool fx_module_add_library(fx_module *m, fx_str path)
{
    fx_library **end = &m->libraries;
    char *copy;

    for (; *end; end = &(*end)->next) {
        if (fx_str_eq((*end)->path, path))
            return true;
    }
    copy = fx_arena_strdup(m->arena, path.p, path.n);
    *end = copy ? FX_ARENA_NEW(m->arena, fx_library) : NULL;
    if (!*end) {
        no_memory(m);
        return false;
    }
    (*end)->path = fx_str_n(copy, path.n);
    return true;
}

fx_op *fx_graph_output(const fx_graph *g)
{
    fx_op *last = fx_graph_body(g)->last;

    return last && last->code == FX_OP_OUTPUT ? last : NULL;
}

fx_point fx_insert_at(fx_module *m, fx_point at)
{
    fx_point was = m->at;

    m->at = at;
    return was;
}

/* ---- Uses ---------------------------------------------------------------------------------- */

static void use_drop(fx_use *u)
{
    if (!u->value)
        return;
    *u->link = u->next;
    if (u->next)
        u->next->link = u->link;
    u->value = NULL;
}

/* Adds at the end, so that the list is in the order of making. */
static void use_set(fx_use *u, fx_value *v)
{
    fx_use **link;

    use_drop(u);
    if (!v)
        return;
    for (link = &v->uses; *link; link = &(*link)->next)
        ;
    u->value = v;
    u->next = NULL;
    u->link = link;
    *link = u;
}

int fx_value_uses(const fx_value *v)
{
    int n = 0;

    for (const fx_use *u = v->uses; u; u = u->next)
        n++;
    return n;
}

void fx_op_set_in(fx_op *op, int i, fx_value *v)
{
    FX_ASSERT(i < op->n_in);
    use_set(&op->in[i], v);
}

void fx_value_replace(fx_value *was, fx_value *now)
{
    FX_ASSERT(was != now && fx_type_eq(&was->type, &now->type));
    while (was->uses)
        use_set(was->uses, now);
    if (!now->name.n)
        now->name = was->name;
}

/* ---- Making an op ------------------------------------------------------------------------------ */

static const fx_attr *find_attr(const fx_op_init *init, fx_attr_key key)
{
    for (int i = 0; i < init->n_attrs; i++) {
        if (init->attrs[i].key == key)
            return &init->attrs[i];
    }
    return NULL;
}

/* A copy of n elements in the arena; never NULL but for want of memory. */
static bool keep_array(fx_module *m, const void **at, int64_t n, size_t each)
{
    void *copy = n >= 0 ? fx_arena_array(m->arena, (size_t)n + 1, each) : NULL;

    if (copy && n)
        memcpy(copy, *at, (size_t)n * each);
    *at = copy;
    return copy != NULL;
}

static bool keep_str(fx_module *m, fx_str *s)
{
    s->p = s->n ? fx_arena_strdup(m->arena, s->p, s->n) : "";
    return s->p != NULL;
}

static bool keep_params(fx_module *m, fx_attr *a)
{
    fx_kernel_param *copy = FX_ARENA_NEWN(m->arena, fx_kernel_param, (size_t)a->u.params.n + 1);

    for (int64_t i = 0; copy && i < a->u.params.n; i++) {
        copy[i] = a->u.params.at[i];
        if (!keep_str(m, &copy[i].name) || (copy[i].kind == FX_KPARAM_STR && !keep_str(m, &copy[i].s)))
            return false;
    }
    a->u.params.at = copy;
    return copy != NULL;
}

#define KEEP_ARRAY(m, list, n) keep_array(m, (const void **)&(list), n, sizeof(*(list)))

/* Copies what an attribute points to, so that a caller's may be short-lived. */
static bool attr_keep(fx_module *m, fx_attr *a)
{
    switch (fx_attr_rows[a->key].kind) {
    case FX_ATTR_STR: return keep_str(m, &a->u.s);
    case FX_ATTR_TYPE: return KEEP_ARRAY(m, a->u.type, 1);
    case FX_ATTR_DATA: return keep_array(m, &a->u.v.at, a->u.v.n, fx_dtype_size(a->u.v.dtype));
    case FX_ATTR_DIMS: return KEEP_ARRAY(m, a->u.dims.at, a->u.dims.n);
    case FX_ATTR_INTS: return KEEP_ARRAY(m, a->u.ints.at, a->u.ints.n);
    case FX_ATTR_TYPES: return KEEP_ARRAY(m, a->u.types.at, a->u.types.n);
    case FX_ATTR_PARAMS: return keep_params(m, a);
    default: return true;
    }
}

/* What an attribute is where nobody gives it. */
static void set_default(fx_attr *a)
{
    const fx_attr_row *row = &fx_attr_rows[a->key];

    switch (row->kind) {
    case FX_ATTR_FLOAT: a->u.f = row->dflt; break;
    case FX_ATTR_STR: a->u.s = FX_STR(""); break;
    case FX_ATTR_INTS: a->u.ints.n = 0; break;
    case FX_ATTR_TYPES: a->u.types.n = 0; break;
    case FX_ATTR_PARAMS: a->u.params.n = 0; break;
    default: a->u.dim = fx_dim_of((int64_t)row->dflt); break;
    }
}

static bool set_attrs(fx_module *m, fx_op *op, const fx_op_init *init)
{
    const fx_op_row *row = &fx_op_rows[op->code];
    int used = 0;

    for (int n = 0; n < op->n_attrs; n++) {
        fx_attr_key k = (fx_attr_key)row->attrs[n];
        const fx_attr *given = find_attr(init, k);
        fx_attr *a = &op->attrs[n];

        a->key = k;
        if (given) {
            *a = *given;
            used++;
        } else if (fx_attr_rows[k].required) {
            fx_module_fail(m, FORNAX_EFORMAT, "%s: attribute %s is missing", row->text, fx_attr_rows[k].text);
            return false;
        } else {
            set_default(a);
        }
        if (!attr_keep(m, a)) {
            no_memory(m);
            return false;
        }
    }
    if (used != init->n_attrs) {
        fx_module_fail(m, FORNAX_EFORMAT, "%s: an attribute that it has not, or one given twice", row->text);
        return false;
    }
    return true;
}

static bool set_operands(fx_module *m, fx_op *op, const fx_op_init *init)
{
    const fx_op_row *row = &fx_op_rows[op->code];
    fx_op_names names = fx_op_names_of(row->operands);

    if (init->n_in > names.n && !names.variadic) {
        fx_module_fail(m, FORNAX_EFORMAT, "%s: %d operands, it takes %d (%s)", row->text, init->n_in, names.n,
                       row->operands);
        return false;
    }
    for (int i = 0; i < op->n_in; i++) {
        bool optional;
        fx_str name = fx_op_name_at(row->operands, i, &optional);
        fx_value *v = i < init->n_in ? init->in[i] : NULL;

        op->in[i].user = op;
        if (!v && !optional) {
            fx_module_fail(m, FORNAX_EFORMAT, "%s: operand %.*s is missing", row->text, FX_STR_ARG(name));
            return false;
        }
        use_set(&op->in[i], v);
    }
    return true;
}

#define MAX_RESULTS 4096

/* How many results: those of its row, or as many as what the op is made of tells. */
static int64_t count_results(const fx_module *m, const fx_op_init *init)
{
    fx_op_names names = fx_op_names_of(fx_op_rows[init->code].results);
    const fx_graph *callee;
    const fx_attr *a;

    if (!names.variadic)
        return names.n;
    switch (init->code) {
    case FX_OP_WHILE: return init->n_in;
    case FX_OP_SPLIT: return (a = find_attr(init, FX_A_SIZES)) ? a->u.dims.n : 0;
    case FX_OP_CHUNK: return (a = find_attr(init, FX_A_PARTS)) ? a->u.i : 0;
    case FX_OP_CUSTOM: return (a = find_attr(init, FX_A_TYPES)) ? a->u.types.n : 0;
    case FX_OP_INPLACE_CUSTOM: return ((a = find_attr(init, FX_A_TYPES)) ? a->u.types.n : 0) + 1;
    case FX_OP_CALL:
        a = find_attr(init, FX_A_CALLEE);
        callee = a ? fx_graph_find(m, a->u.s) : NULL;
        return callee && fx_graph_output(callee) ? fx_graph_output(callee)->n_in : 0;
    default:                             /* what its first region yields */
        return init->n_regions && init->regions[0] && init->regions[0]->first->last ? init->regions[0]->first->last->n_in : 0;
    }
}

static int count_attrs(fx_opcode code)
{
    int n = 0;

    while (fx_op_rows[code].attrs[n] != FX_A_COUNT)
        n++;
    return n;
}

static fx_op *new_op(fx_module *m, const fx_op_init *init)
{
    fx_op_names names = fx_op_names_of(fx_op_rows[init->code].operands);
    int64_t n_out = count_results(m, init);
    fx_op *op = FX_ARENA_NEW(m->arena, fx_op);

    if (!op)
        return no_memory(m);
    if (n_out < 0 || n_out > MAX_RESULTS)
        return fx_module_fail(m, FORNAX_EFORMAT, "%s: %lld results, the limit is %d", fx_opcode_name(init->code),
                              (long long)n_out, MAX_RESULTS);
    op->code = init->code;
    op->file = init->file;
    op->line = init->line;
    op->n_in = names.variadic ? init->n_in : names.n;
    op->n_out = (int)n_out;
    op->n_attrs = count_attrs(init->code);
    op->n_regions = init->n_regions;
    op->in = FX_ARENA_NEWN(m->arena, fx_use, (size_t)op->n_in + 1);
    op->out = FX_ARENA_NEWN(m->arena, fx_value, (size_t)op->n_out + 1);
    op->attrs = FX_ARENA_NEWN(m->arena, fx_attr, (size_t)op->n_attrs + 1);
    op->regions = FX_ARENA_NEWN(m->arena, fx_region *, (size_t)op->n_regions + 1);
    if (!op->in || !op->out || !op->attrs || !op->regions)
        return no_memory(m);
    for (int i = 0; i < op->n_out; i++) {
        op->out[i].def = op;
        op->out[i].index = i;
    }
    return op;
}

static bool own_regions(fx_module *m, fx_op *op, const fx_op_init *init)
{
    bool may = fx_op_rows[op->code].flags & FX_OPF_REGIONS;

    if (!may && init->n_regions) {
        fx_module_fail(m, FORNAX_EFORMAT, "%s: owns no regions", fx_opcode_name(op->code));
        return false;
    }
    for (int i = 0; i < init->n_regions; i++) {
        fx_region *r = init->regions[i];

        if (!r || r->op || r->graph) {
            fx_module_fail(m, FORNAX_EFORMAT, "%s: region %d is missing or another's", fx_opcode_name(op->code), i);
            return false;
        }
        op->regions[i] = r;
        r->op = op;
    }
    return true;
}

static bool link_op(fx_module *m, fx_op *op)
{
    fx_block *b = m->at.block;
    fx_op *before = m->at.before;

    if (!b) {
        fx_module_fail(m, FORNAX_EFORMAT, "%s: made outside of a graph", fx_opcode_name(op->code));
        return false;
    }
    FX_ASSERT(!before || before->block == b);
    if (!before && b->last && (fx_op_rows[b->last->code].flags & FX_OPF_END)) {
        fx_module_fail(m, FORNAX_EFORMAT, "%s: made behind %s, which ends the block", fx_opcode_name(op->code),
                       fx_opcode_name(b->last->code));
        return false;
    }
    op->block = b;
    for (int i = 0; i < op->n_out; i++)
        op->out[i].block = b;
    op->next = before;
    op->prev = before ? before->prev : b->last;
    *(op->prev ? &op->prev->next : &b->first) = op;
    *(before ? &before->prev : &b->last) = op;
    b->ordered = false;
    return true;
}

static void drop_operands(fx_op *op)
{
    for (int i = 0; i < op->n_in; i++)
        use_drop(&op->in[i]);
}

/* "qwen3.c:41: matmul: what; operands f32[rows,64], f32[128,32]" from the fault just recorded. */
static void add_place(fx_module *m, const fx_op_init *init)
{
    const char *file = init->file ? strrchr(init->file, '/') : NULL;
    fx_buf b;

    if (m->err.status == FORNAX_ENOMEM)
        return;
    fx_buf_init(&b, m->arena->mem);
    if (init->file)
        fx_buf_printf(&b, "%s:%d: ", file ? file + 1 : init->file, init->line);
    fx_buf_puts(&b, m->err.text);
    for (int i = 0; i < init->n_in; i++) {
        fx_buf_puts(&b, i ? ", " : "; operands ");
        if (init->in[i])
            fx_type_print(&init->in[i]->type, &b);
        else
            fx_buf_puts(&b, "_");
    }
    if (!b.failed)
        fx_fail(&m->err, m->err.status, "%s", b.p);
    fx_buf_done(&b);
}

fx_op *fx_op_make(fx_module *m, const fx_op_init *init)
{
    fx_op *op;

    if (m->failed)
        return NULL;
    op = new_op(m, init);
    if (!op) {
        add_place(m, init);
        return NULL;
    }
    if (!set_operands(m, op, init) || !set_attrs(m, op, init) || !own_regions(m, op, init) ||
        !fx_shape_infer(m, op) || !link_op(m, op)) {
        drop_operands(op);
        add_place(m, init);
        return NULL;
    }
    if (op->n_out && init->name.n) {
        char *name = fx_arena_strdup(m->arena, init->name.p, init->name.n);

        if (!name)
            return no_memory(m);
        op->out[0].name = fx_str_n(name, init->name.n);
    }
    if (fx_op_rows[op->code].flags & FX_OPF_END && !fx_terminator_check(m, op->block))
        return NULL;
    for (int i = 0; i < op->n_regions; i++) {
        if (!fx_terminator_check(m, op->regions[i]->first))
            return NULL;
    }
    return op;
}

/* ---- Reading -------------------------------------------------------------------------------- */

const fx_attr *fx_op_attr(const fx_op *op, fx_attr_key key)
{
    for (int i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].key == key)
            return &op->attrs[i];
    }
    FX_ASSERT(!"attribute of the op");
    return NULL;
}

int64_t fx_op_int_at(const fx_op *op, fx_attr_key key, int i, int64_t dflt)
{
    const fx_attr *a = fx_op_attr(op, key);

    return i < a->u.ints.n ? a->u.ints.at[i] : dflt;
}

int fx_op_axis(const fx_op *op, fx_attr_key key, int rank)
{
    int64_t axis = fx_op_i(op, key);

    return (int)(axis < 0 ? axis + rank : axis);
}

fx_op *fx_def_of(const fx_value *v, fx_opcode code)
{
    return v && v->def && v->def->code == code ? v->def : NULL;
}

fx_op *fx_arg_of(const fx_op *op, int i, fx_opcode code)
{
    return fx_def_of(fx_op_in(op, i), code);
}

static void number_block(fx_block *b)
{
    int32_t n = 0;

    for (fx_op *op = b->first; op; op = op->next)
        op->order = n++;
    b->ordered = true;
}

bool fx_op_before(fx_op *a, fx_op *b)
{
    FX_ASSERT(a->block == b->block);
    if (!a->block->ordered)
        number_block(a->block);
    return a->order < b->order;
}

bool fx_value_is_const(const fx_value *v)
{
    if (!v->def)
        return false;
    if (fx_op_rows[v->def->code].flags & FX_OPF_CONST)
        return true;
    if (v->def->code != FX_OP_CAST && v->def->code != FX_OP_CONCAT && v->def->code != FX_OP_SLICE &&
        v->def->code != FX_OP_RESHAPE && v->def->code != FX_OP_ROWS && v->def->code != FX_OP_TRANSPOSE)
        return false;
    for (int i = 0; i < v->def->n_in; i++) {
        if (v->def->in[i].value && !fx_value_is_const(v->def->in[i].value))
            return false;
    }
    return true;
}

bool fx_slice_is_columns(const fx_op *op)
{
    const fx_type *x = &fx_op_in(op, 0)->type;

    return !fx_op_in(op, 1) && fx_op_i(op, FX_A_STEP) == 1 && fx_op_axis(op, FX_A_AXIS, x->rank) == x->rank - 1 &&
           fx_dim_is_static(fx_type_last(x)) && fx_dim_is_static(fx_op_dim(op, FX_A_START)) &&
           fx_dim_is_static(fx_op_dim(op, FX_A_LENGTH));
}

bool fx_gather_is_rows(const fx_op *op)
{
    const fx_type *x = &fx_op_in(op, 0)->type, *rows = &fx_op_in(op, 1)->type;

    return fx_op_axis(op, FX_A_AXIS, x->rank) == 0 && x->rank == 2 && x->dtype == FX_F32 && rows->rank == 1 &&
           rows->dtype == FX_I32;
}

fx_str fx_op_label(const fx_op *op)
{
    for (int i = 0; i < op->n_out; i++) {
        if (op->out[i].name.n)
            return op->out[i].name;
    }
    return fx_str_of(fx_opcode_name(op->code));
}

/* ---- Changing --------------------------------------------------------------------------------- */

static void unlink_op(fx_op *op)
{
    fx_block *b = op->block;

    *(op->prev ? &op->prev->next : &b->first) = op->next;
    *(op->next ? &op->next->prev : &b->last) = op->prev;
    op->prev = op->next = NULL;
    op->block = NULL;
}

void fx_op_erase(fx_op *op)
{
    for (int i = 0; i < op->n_out; i++)
        FX_ASSERT(!op->out[i].uses);
    for (int i = 0; i < op->n_regions; i++) {
        fx_block *b = op->regions[i]->first;

        while (b->last)
            fx_op_erase(b->last);
    }
    drop_operands(op);
    unlink_op(op);
}

void fx_value_hoist(fx_value *v, fx_op *op)
{
    FX_ASSERT(fx_value_is_const(v));
    if (v->def->block != op->block || fx_op_before(v->def, op))
        return;
    for (int i = 0; i < v->def->n_in; i++) {
        if (v->def->in[i].value)
            fx_value_hoist(v->def->in[i].value, op);
    }
    fx_op *def = v->def;
    fx_block *b = op->block;

    unlink_op(def);
    def->block = b;
    def->next = op;
    def->prev = op->prev;
    *(def->prev ? &def->prev->next : &b->first) = def;
    op->prev = def;
    b->ordered = false;
}
