/* lower_calls_map.c - calls that go element by element, copy rows or look them up. */
#include <math.h>

#include "passes/lower_calls_int.h"

/* ---- Maps ---------------------------------------------------------------------------------------------- */

typedef enum map_form { UNARY, BINARY, BY_COLUMN } map_form;     /* BY_COLUMN: b is one number a row */

typedef struct map_kind {
    fx_launch_op op;
    map_form form;
    fx_kir_code code;            /* what a and b are combined by */
    fx_kop *(*of_a)(fx_kir_module *m, fx_kop *x);        /* before that; NULL: a itself */
} map_kind;

static fx_kop *tanh_of(fx_kir_module *m, fx_kop *x) { return fx_kir_op1(m, FX_KIR_TANH, x); }

static const map_kind kinds[] = {
    { FX_L_ADD, BINARY, FX_KIR_ADD, NULL },
    { FX_L_MUL, BINARY, FX_KIR_MUL, NULL },
    { FX_L_MUL_ROWS, BY_COLUMN, FX_KIR_MUL, NULL },
    { FX_L_SWIGLU, BINARY, FX_KIR_MUL, fx_kir_silu },
    { FX_L_SCALE, UNARY, FX_KIR_COUNT, NULL },
    { FX_L_CLAMP, UNARY, FX_KIR_COUNT, NULL },
    { FX_L_SILU, UNARY, FX_KIR_COUNT, fx_kir_silu },
    { FX_L_SIGMOID, UNARY, FX_KIR_COUNT, fx_kir_sigmoid },
    { FX_L_GELU, UNARY, FX_KIR_COUNT, fx_kir_gelu },
    { FX_L_GELU_TANH, UNARY, FX_KIR_COUNT, fx_kir_gelu_tanh },
    { FX_L_RELU, UNARY, FX_KIR_COUNT, fx_kir_relu },
    { FX_L_RELU2, UNARY, FX_KIR_COUNT, fx_kir_relu2 },
    { FX_L_TANH, UNARY, FX_KIR_COUNT, tanh_of },
};

static const map_kind *kind_of(fx_launch_op op)
{
    for (size_t i = 0; i < FX_COUNT(kinds); i++) {
        if (kinds[i].op == op)
            return &kinds[i];
    }
    return NULL;
}

/* What the launch at hand makes of a (and b). */
static fx_kop *map_value(fx_lc *c, const map_kind *kind, fx_kop *a, fx_kop *b)
{
    double alpha = (double)c->l->args.map.alpha;

    if (c->l->op == FX_L_SCALE)
        return op2(c, FX_KIR_MUL, a, fx_lc_f32(c, alpha, 1));
    if (c->l->op == FX_L_CLAMP)
        return fx_kir_clamp(c->m, a, -alpha, alpha);
    a = kind->of_a ? kind->of_a(c->m, a) : a;
    return kind->form == UNARY ? a : op2(c, kind->code, a, b);
}

/* ---- Chains of maps ------------------------------------------------------------------------------------------ */

#define MAX_CHAIN 8

/* What the launches so far made of a column, by place. */
typedef struct made {
    fx_ref place;
    fx_kop *value, *buf;
} made;
typedef struct chain {
    int n;
    made at[MAX_CHAIN];
} chain;

static made *made_at(chain *h, const fx_ref *place)
{
    for (int i = 0; i < h->n; i++) {
        if (fx_lc_same(&h->at[i].place, place))
            return &h->at[i];
    }
    return NULL;
}

static fx_kop *operand(fx_lc *c, chain *h, int slot, size_t at, fx_kop *j, bool column)
{
    const fx_ref *r = fx_lc_ref(c, slot);
    made *known = column ? NULL : made_at(h, r);

    if (known)
        return known->value;
    if (r->kind != FX_REF_BUF)
        return fx_lc_load(c, fx_lc_vec(c, slot, at, c->l->args.map.dim), j, 1);
    return column ? fx_lc_load(c, fx_lc_mat(c, slot, at, 1, FX_KIR_IN), fx_lc_num(c, 0), 1)
                  : fx_lc_load(c, fx_lc_mat(c, slot, at, c->l->args.map.dim, FX_KIR_IN), j, 1);
}

static void add_made(chain *h, const fx_ref *place, fx_kop *value, fx_kop *buf)
{
    made *old = made_at(h, place);

    if (!old)
        old = &h->at[h->n++];
    *old = (made){ *place, value, buf };
}

static void make_map(fx_lc *c)
{
    fx_lc_loop each = fx_lc_each(c, c->l->args.map.dim);
    chain h = { .n = 0 };

    for (int32_t i = 0; i < c->n; i++) {
        const map_kind *kind = kind_of(c->l->op);
        fx_kop *a = operand(c, &h, 0, offsetof(fx_map_args, a.p), each.i, false), *b = a;

        if (kind->form != UNARY && fx_lc_has(c, 1))
            b = operand(c, &h, 1, offsetof(fx_map_args, b.p), each.i, kind->form == BY_COLUMN);
        add_made(&h, fx_lc_ref(c, FX_LC_OUT), map_value(c, kind, a, b),
                 fx_lc_mat(c, FX_LC_OUT, offsetof(fx_map_args, y.p), c->l->args.map.dim, FX_KIR_OUT));
        fx_lc_next(c);
    }
    for (int i = 0; i < h.n; i++)
        fx_lc_store(c, h.at[i].buf, h.at[i].value, each.i);
    fx_lc_end(c, &each);
}

static bool overlaps(const fx_ref *a, const fx_ref *b, int64_t cols)
{
    return a->kind == FX_REF_BUF && b->kind == FX_REF_BUF && a->index == b->index && !fx_lc_same(a, b) && a->col < b->col + cols &&
           b->col < a->col + cols;
}

/* Whether next can be in a chain that begins with first and ends with last: it goes on with what that made, and its result lies in a buffer that
 * shares no bytes with others that the chain reads. */
static bool continues(const fx_plan *p, int32_t first, int32_t last, int32_t next)
{
    const fx_launch *a = &p->launches[last], *b = &p->launches[next];

    if (!kind_of(b->op) || kind_of(b->op)->form == BY_COLUMN || b->rows != a->rows || b->args.map.dim != a->args.map.dim)
        return false;
    if (!fx_lc_same(&b->in[0], &a->out[0]) && !(kind_of(b->op)->form == BINARY && fx_lc_same(&b->in[1], &a->out[0])))
        return false;
    for (int32_t i = first; i <= next; i++) {
        const fx_launch *l = &p->launches[i];

        if (overlaps(&b->in[0], &l->out[0], a->args.map.dim) || overlaps(&b->in[1], &l->out[0], a->args.map.dim) ||
            overlaps(&b->out[0], &l->out[0], a->args.map.dim) || overlaps(&b->out[0], &l->in[0], a->args.map.dim) ||
            overlaps(&b->out[0], &l->in[1], a->args.map.dim))
            return false;
    }
    return p->bufs[b->out[0].index].first <= first;
}

static int32_t map_span(const fx_lc *c)
{
    int32_t n = 1;

    while (n < MAX_CHAIN && c->at + n < c->plan->n_launches && continues(c->plan, c->at, c->at + n - 1, c->at + n))
        n++;
    return n;
}

/* ---- Ends of products ------------------------------------------------------------------------------------------- */

/* Maps of one operand behind a product, in its place; none if the product's own result is rounded. */
static int32_t end_span(const fx_lc *c)
{
    int32_t n = 1;

    for (; c->l->out[1].kind == FX_REF_NONE && c->at + n < c->plan->n_launches; n++) {
        const fx_launch *l = &c->l[n];
        const map_kind *kind = kind_of(l->op);

        if (!kind || kind->form != UNARY || !fx_lc_same(&l->in[0], &c->l->out[0]) || !fx_lc_same(&l->out[0], &c->l->out[0]) ||
            l->rows != c->l->rows || l->args.map.dim != c->l->args.matmul.n)
            break;
    }
    return n;
}

static bool can_end(const fx_lc *c) { return end_span(c) > 1; }

static fx_kop *tile_rows(fx_lc *c, size_t at, fx_kop *n, fx_kop *stride, fx_kir_access access, const char *name)
{
    fx_kir_buf b = { .dtype = FX_F32, .rank = 2, .extent = { c->rows, n }, .stride = { stride }, .access = access, .name = fx_str_of(name) };

    return fx_lc_buffer(c, fx_lc_in_tile(at), &b);
}

static fx_kop *stride_of(fx_lc *c, int slot) { return fx_kir_dim(c->m, c->plan->bufs[fx_lc_ref(c, slot)->index].cols); }

/* scale * acc (+ bias) (+ residual), each rounded, and what the maps make of it. */
static void make_end(fx_lc *c)
{
    const fx_matmul_args *a = &c->l->args.matmul;
    fx_kop *n = fx_lc_arg(c, fx_lc_in_tile(offsetof(fx_call_tile, n)), "cols"), *ld = fx_lc_arg(c, fx_lc_in_tile(offsetof(fx_call_tile, ld)), "ld");
    fx_kop *acc = tile_rows(c, offsetof(fx_call_tile, acc), n, ld, FX_KIR_IN, "acc"), *residual = NULL, *bias = NULL, *y, *v;
    bool over = fx_lc_has(c, 3) && fx_lc_same(fx_lc_ref(c, 3), fx_lc_ref(c, FX_LC_OUT));
    fx_lc_loop each;

    y = tile_rows(c, offsetof(fx_call_tile, y), n, stride_of(c, FX_LC_OUT), over ? FX_KIR_INOUT : FX_KIR_OUT, "y");
    if (fx_lc_has(c, 3))
        residual = over ? y : tile_rows(c, offsetof(fx_call_tile, residual), n, stride_of(c, 3), FX_KIR_IN, "residual");
    if (fx_lc_has(c, 2))
        bias = fx_lc_buffer(c, fx_lc_in_tile(offsetof(fx_call_tile, bias)),
                            &(fx_kir_buf){ .dtype = FX_F32, .rank = 1, .extent = { n }, .access = FX_KIR_IN, .name = FX_STR("bias") });
    each = fx_lc_each_below(c, n);
    v = op2(c, FX_KIR_MUL, fx_lc_f32(c, (double)a->epi.scale, 1), fx_lc_load(c, acc, each.i, 1));
    v = bias ? op2(c, FX_KIR_ADD, v, fx_lc_load(c, bias, each.i, 1)) : v;
    v = residual ? op2(c, FX_KIR_ADD, v, fx_lc_load(c, residual, each.i, 1)) : v;
    for (int32_t i = 1; i < c->n; i++) {
        fx_lc_next(c);
        v = map_value(c, kind_of(c->l->op), v, NULL);
    }
    fx_lc_store(c, y, v, each.i);
    fx_lc_end(c, &each);
    c->epilogue = true;
}

/* ---- Gates ---------------------------------------------------------------------------------------------------------- */

static fx_kop *gated(fx_lc *c, const fx_glu_args *a, fx_kop *g, fx_kop *u)
{
    fx_kop *zero = fx_lc_f32(c, 0, 1);

    switch (a->act) {
    case FX_GLU_SILU: return op2(c, FX_KIR_MUL, fx_kir_silu(c->m, g), u);
    case FX_GLU_GELU: return op2(c, FX_KIR_MUL, fx_kir_gelu(c->m, g), u);
    case FX_GLU_GELU_TANH: return op2(c, FX_KIR_MUL, fx_kir_gelu_tanh(c->m, g), u);
    case FX_GLU_RELU: return select3(c, op2(c, FX_KIR_LT, g, zero), zero, op2(c, FX_KIR_MUL, g, u));
    case FX_GLU_CLAMPED: break;
    }
    if (a->limit > 0) {
        g = fx_kir_clamp(c->m, g, -INFINITY, (double)a->limit);
        u = fx_kir_clamp(c->m, u, -(double)a->limit, (double)a->limit);
    }
    g = fx_kir_sigmoid_times(c->m, op2(c, FX_KIR_MUL, g, fx_lc_f32(c, (double)a->alpha, 1)), g);
    return op2(c, FX_KIR_MUL, g, op2(c, FX_KIR_ADD, u, fx_lc_f32(c, 1, 1)));
}

static void make_glu(fx_lc *c)
{
    const fx_glu_args *a = &c->l->args.glu;
    bool apart = fx_lc_has(c, 1);
    int64_t width = apart ? a->dim : 2 * a->dim, step = !apart && a->interleaved ? 2 : 1;
    fx_kop *gate = fx_lc_mat(c, 0, offsetof(fx_glu_args, gate.p), width * a->slots, FX_KIR_IN), *up = gate, *y, *first, *g, *u;
    fx_lc_loop slots, each;

    if (apart)
        up = fx_lc_mat(c, 1, offsetof(fx_glu_args, up.p), width * a->slots, FX_KIR_IN);
    y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_glu_args, y.p), a->dim * a->slots, FX_KIR_OUT);
    slots = fx_lc_times(c, a->slots);
    first = op2(c, FX_KIR_MUL, slots.i, fx_lc_num(c, width));
    each = fx_lc_each(c, a->dim);
    g = op2(c, FX_KIR_ADD, first, op2(c, FX_KIR_MUL, each.i, fx_lc_num(c, step)));
    u = apart ? g : op2(c, FX_KIR_ADD, g, fx_lc_num(c, step == 2 ? 1 : a->dim));
    first = op2(c, FX_KIR_ADD, op2(c, FX_KIR_MUL, slots.i, fx_lc_num(c, a->dim)), each.i);
    fx_lc_store(c, y, gated(c, a, fx_lc_load(c, gate, g, 1), fx_lc_load(c, up, u, 1)), first);
    fx_lc_end(c, &each);
    fx_lc_end(c, &slots);
}

/* ---- Rows by number ----------------------------------------------------------------------------------------- */

/* Numbers of rows of something: i32, one for each row here. */
static fx_kop *row_number(fx_lc *c, size_t at)
{
    fx_kir_buf b = { .dtype = FX_I32, .rank = 1, .extent = { c->rows }, .access = FX_KIR_IN, .name = FX_STR("numbers") };
    fx_kop *numbers = fx_lc_buffer(c, fx_lc_at(c, at), &b);

    return fx_kir_convert(c->m, fx_kir_load(c->m, numbers, &c->row, 1, 1, NULL), FX_I64);
}

/* Tables of blocks of 32 (tensor/blocks.h): a factor, perhaps what is added, and the numbers, as bytes or as 16 low halves of them and 16 high
 * ones. */
typedef struct block_kind {
    fx_dtype dtype;
    bool min, halves;
    int64_t bias;                /* taken from the numbers */
} block_kind;

static const block_kind block_kinds[] = {
    { FX_Q8_0, false, false, 0 },
    { FX_Q4_0, false, true, 8 },
    { FX_Q4_1, true, true, 0 },
};

static const block_kind *blocks_of(fx_dtype t)
{
    for (size_t i = 0; i < FX_COUNT(block_kinds); i++) {
        if (block_kinds[i].dtype == t)
            return &block_kinds[i];
    }
    return NULL;
}

#define BLOCK 32

typedef struct lookup {
    fx_kop *buf, *row;
    const block_kind *kind;      /* NULL: plain numbers */
} lookup;

static fx_kop *table_bytes(fx_lc *c, const lookup *t, fx_kop *b, int64_t at, int lanes)
{
    return fx_kir_load(c->m, t->buf, (fx_kop *const[]){ t->row, b, fx_lc_num(c, at) }, 3, lanes, NULL);
}

/* The f16 at a byte of block b. */
static fx_kop *table_half(fx_lc *c, const lookup *t, fx_kop *b, int64_t at)
{
    fx_kop *x = fx_kir_bitcast(c->m, table_bytes(c, t, b, at, 2), fx_ktype_of(FX_F16, 1));

    return x ? fx_kir_splat(c->m, fx_kir_convert(c->m, x, FX_F32), BLOCK) : NULL;
}

static fx_kop *table_numbers(fx_lc *c, const lookup *t, fx_kop *b, int64_t at)
{
    fx_ktype half = fx_ktype_of(FX_U8, BLOCK / 2);
    uint8_t lane[BLOCK];
    fx_kop *x, *low, *high;

    if (!t->kind->halves) {
        x = fx_kir_bitcast(c->m, table_bytes(c, t, b, at, BLOCK), fx_ktype_of(FX_I8, BLOCK));
        return x ? fx_kir_convert(c->m, x, FX_F32) : NULL;
    }
    for (int i = 0; i < BLOCK; i++)
        lane[i] = (uint8_t)i;
    x = table_bytes(c, t, b, at, BLOCK / 2);
    low = op2(c, FX_KIR_AND, x, fx_kir_int(c->m, half, 15));
    high = op2(c, FX_KIR_SHR, x, fx_kir_int(c->m, half, 4));
    x = fx_kir_shuffle(c->m, low, high, lane, BLOCK);
    x = x ? fx_kir_convert(c->m, x, FX_I32) : NULL;
    x = op2(c, FX_KIR_SUB, x, fx_kir_int(c->m, fx_ktype_of(FX_I32, BLOCK), t->kind->bias));
    return x ? fx_kir_convert(c->m, x, FX_F32) : NULL;
}

/* Number j of the row, or its block j. */
static fx_kop *table_value(fx_lc *c, const lookup *t, fx_kop *j)
{
    fx_kop *v, *d;

    if (!t->kind) {
        v = fx_kir_load(c->m, t->buf, (fx_kop *const[]){ t->row, j }, 2, 1, NULL);
        return v ? fx_kir_convert(c->m, v, FX_F32) : NULL;
    }
    d = table_half(c, t, j, 0);
    v = op2(c, FX_KIR_MUL, d, table_numbers(c, t, j, t->kind->min ? 4 : 2));
    return t->kind->min ? op2(c, FX_KIR_ADD, v, table_half(c, t, j, 2)) : v;
}

static bool can_embed(const fx_lc *c)
{
    fx_dtype t = c->tables[fx_lc_ref(c, 0)->index];

    return t == FX_F32 || t == FX_F16 || t == FX_BF16 || (blocks_of(t) && c->l->args.embed.dim % BLOCK == 0);
}

static lookup table_of(fx_lc *c, const fx_embed_args *a)
{
    fx_dtype dtype = c->tables[fx_lc_ref(c, 0)->index];
    lookup t = { .kind = blocks_of(dtype), .row = row_number(c, offsetof(fx_embed_args, token)) };
    fx_kir_buf b = { .dtype = t.kind ? FX_U8 : dtype, .rank = 2, .access = FX_KIR_IN, .name = FX_STR("table") };

    b.extent[0] = fx_kir_dim(c->m, a->n_vocab);
    b.extent[1] = fx_kir_dim(c->m, t.kind ? a->dim / BLOCK : a->dim);
    if (t.kind) {
        b.rank = 3;
        b.extent[2] = fx_kir_dim(c->m, (int64_t)fx_dtype_row_bytes(dtype, BLOCK));
    }
    t.buf = fx_lc_buffer(c, fx_lc_at(c, offsetof(fx_embed_args, table)), &b);
    return t;
}

static void make_embed(fx_lc *c)
{
    const fx_embed_args *a = &c->l->args.embed;
    lookup t = table_of(c, a);
    int64_t lanes = t.kind ? BLOCK : 1;
    fx_kop *y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_embed_args, y.p), a->dim, FX_KIR_OUT), *v;
    fx_lc_loop each = fx_lc_each(c, a->dim / lanes);

    v = table_value(c, &t, each.i);
    if (a->scale != 1)
        v = op2(c, FX_KIR_MUL, v, fx_lc_f32(c, (double)a->scale, (int)lanes));
    fx_lc_store(c, y, v, lanes == 1 ? each.i : op2(c, FX_KIR_MUL, each.i, fx_lc_num(c, lanes)));
    fx_lc_end(c, &each);
}

/* Rows that numbers of the runtime's own name: as many as there may be, what is asked for is there. */
static fx_kop *rows_named(fx_lc *c, size_t at, int64_t cols, int64_t stride)
{
    fx_kir_buf b = { .dtype = FX_F32, .rank = 2, .access = FX_KIR_IN, .name = FX_STR("from"),
                     .extent = { fx_kir_dim(c->m, INT32_MAX), fx_kir_dim(c->m, cols) }, .stride = { fx_kir_dim(c->m, stride) } };

    return fx_lc_buffer(c, fx_lc_at(c, at), &b);
}

static void make_gather(fx_lc *c)
{
    const fx_gather_args *a = &c->l->args.gather;
    fx_kop *row = row_number(c, offsetof(fx_gather_args, rows));
    fx_kop *x = rows_named(c, offsetof(fx_gather_args, x.p), a->dim, c->plan->bufs[fx_lc_ref(c, 0)->index].cols);
    fx_kop *y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_gather_args, y.p), a->dim, FX_KIR_OUT);
    fx_lc_loop each = fx_lc_each(c, a->dim);

    fx_lc_store(c, y, fx_kir_load(c->m, x, (fx_kop *const[]){ row, each.i }, 2, 1, NULL), each.i);
    fx_lc_end(c, &each);
}

/* ---- Columns of two --------------------------------------------------------------------------------------------- */

static void copy_columns(fx_lc *c, fx_kop *from, fx_kop *from_at, fx_kop *to, fx_kop *to_at, int64_t n)
{
    fx_lc_loop each = fx_lc_each(c, n);

    fx_lc_store(c, to, fx_lc_load(c, from, op2(c, FX_KIR_ADD, from_at, each.i), 1), op2(c, FX_KIR_ADD, to_at, each.i));
    fx_lc_end(c, &each);
}

static fx_kop *times(fx_lc *c, fx_kop *i, int64_t n) { return op2(c, FX_KIR_MUL, i, fx_lc_num(c, n)); }

static void make_splice(fx_lc *c)
{
    const fx_splice_args *a = &c->l->args.splice;
    int64_t len = a->a_len + a->b_len;
    fx_kop *x = fx_lc_mat(c, 0, offsetof(fx_splice_args, a.p), (a->heads - 1) * a->a_width + a->a_start + a->a_len, FX_KIR_IN), *z = NULL, *y, *to;
    fx_lc_loop heads;

    if (a->b_len)
        z = fx_lc_mat(c, 1, offsetof(fx_splice_args, b.p), (a->heads - 1) * a->b_width + a->b_len, FX_KIR_IN);
    y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_splice_args, y.p), len * a->heads, FX_KIR_OUT);
    heads = fx_lc_times(c, a->heads);
    to = times(c, heads.i, len);
    copy_columns(c, x, op2(c, FX_KIR_ADD, times(c, heads.i, a->a_width), fx_lc_num(c, a->a_start)), y, to, a->a_len);
    if (z)
        copy_columns(c, z, times(c, heads.i, a->b_width), y, op2(c, FX_KIR_ADD, to, fx_lc_num(c, a->a_len)), a->b_len);
    fx_lc_end(c, &heads);
}

/* ---- Sums of experts ------------------------------------------------------------------------------------------------ */

#define MAX_TOP 16

static bool can_combine(const fx_lc *c) { return c->l->args.combine.top <= MAX_TOP; }

/* The slots of a row's choices stand in the table behind what experts there are (kernels/experts.h). */
static void make_combine(fx_lc *c)
{
    const fx_combine_args *a = &c->l->args.combine;
    fx_kir_buf b = { .dtype = FX_I32, .rank = 1, .extent = { fx_kir_dim(c->m, INT32_MAX) }, .access = FX_KIR_IN, .name = FX_STR("table") };
    fx_kop *x = rows_named(c, offsetof(fx_combine_args, x.p), a->dim, a->dim), *table, *y, *routes, *weight[MAX_TOP], *slot[MAX_TOP], *sum = NULL, *v;
    fx_lc_loop each;

    routes = fx_lc_mat(c, 1, offsetof(fx_combine_args, routes.p), 2 * a->top, FX_KIR_IN);
    table = fx_lc_buffer(c, fx_lc_at(c, offsetof(fx_combine_args, table.p)), &b);
    y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_combine_args, y.p), a->dim, FX_KIR_OUT);
    for (int32_t j = 0; j < a->top; j++) {
        fx_kop *at = op2(c, FX_KIR_ADD, times(c, c->row, a->top), fx_lc_num(c, 2 * ((int64_t)a->experts + 1) + j));

        slot[j] = fx_kir_convert(c->m, fx_kir_load(c->m, table, &at, 1, 1, NULL), FX_I64);
        weight[j] = fx_lc_load(c, routes, fx_lc_num(c, a->top + j), 1);
    }
    each = fx_lc_each(c, a->dim);
    for (int32_t j = 0; j < a->top; j++) {
        v = fx_kir_load(c->m, x, (fx_kop *const[]){ slot[j], each.i }, 2, 1, NULL);
        v = op2(c, FX_KIR_MUL, weight[j], v);
        sum = sum ? op2(c, FX_KIR_ADD, sum, v) : v;
    }
    fx_lc_store(c, y, sum, each.i);
    fx_lc_end(c, &each);
}

/* ---- The table ------------------------------------------------------------------------------------------------ */

#define MAP(op) { op, make_map, offsetof(fx_map_args, n_rows), NULL, map_span }
const fx_lc_maker fx_lc_maps[] = {
    MAP(FX_L_ADD), MAP(FX_L_MUL), MAP(FX_L_SCALE), MAP(FX_L_SILU), MAP(FX_L_GELU), MAP(FX_L_GELU_TANH), MAP(FX_L_RELU), MAP(FX_L_RELU2),
    MAP(FX_L_CLAMP), MAP(FX_L_SIGMOID), MAP(FX_L_TANH), MAP(FX_L_SWIGLU),
    { FX_L_MUL_ROWS, make_map, offsetof(fx_map_args, n_rows), NULL, NULL },
    { FX_L_MATMUL, make_end, FX_LC_TILE_ROWS, can_end, end_span },
    { FX_L_SPLICE, make_splice, offsetof(fx_splice_args, n_rows), NULL, NULL },
    { FX_L_COMBINE, make_combine, offsetof(fx_combine_args, n_rows), can_combine, NULL },
    { FX_L_GLU, make_glu, offsetof(fx_glu_args, n_rows), NULL, NULL },
    { FX_L_EMBED, make_embed, offsetof(fx_embed_args, n_rows), can_embed, NULL },
    { FX_L_GATHER, make_gather, offsetof(fx_gather_args, n_rows), NULL, NULL },
};
const size_t fx_lc_n_maps = FX_COUNT(fx_lc_maps);
