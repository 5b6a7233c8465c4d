/* lower_calls_map.c - calls that go element by element, copy rows or look them up. */
#include "passes/lower_calls_int.h"

/* ---- Maps ---------------------------------------------------------------------------------------------- */

typedef struct map_kind {
    fx_launch_op op;
    fx_kir_code code;            /* of one op: of a and b; else: */
    fx_kop *(*unary)(fx_kir_module *m, fx_kop *x);
} map_kind;

static fx_kop *tanh_of(fx_kir_module *m, fx_kop *x) { return fx_kir_op1(m, FX_KIR_TANH, x); }

static const map_kind kinds[] = {
    { FX_L_ADD, FX_KIR_ADD, NULL },          { FX_L_MUL, FX_KIR_MUL, NULL },        { FX_L_MUL_ROWS, FX_KIR_MUL, NULL },
    { FX_L_SWIGLU, FX_KIR_MUL, fx_kir_silu }, { FX_L_SILU, FX_KIR_COUNT, fx_kir_silu },
    { FX_L_SIGMOID, FX_KIR_COUNT, fx_kir_sigmoid }, { FX_L_GELU, FX_KIR_COUNT, fx_kir_gelu },
    { FX_L_GELU_TANH, FX_KIR_COUNT, fx_kir_gelu_tanh }, { FX_L_RELU, FX_KIR_COUNT, fx_kir_relu },
    { FX_L_RELU2, FX_KIR_COUNT, fx_kir_relu2 }, { FX_L_TANH, FX_KIR_COUNT, tanh_of },
};

static fx_kop *map_value(fx_lc *c, fx_kop *x, fx_kop *b)
{
    const fx_map_args *a = &c->l->args.map;

    if (c->l->op == FX_L_SCALE)
        return fx_lc_op2(c, FX_KIR_MUL, x, fx_lc_f32(c, (double)a->alpha, 1));
    if (c->l->op == FX_L_CLAMP)
        return fx_kir_clamp(c->m, x, -(double)a->alpha, (double)a->alpha);
    for (size_t i = 0; i < FX_COUNT(kinds); i++) {
        if (kinds[i].op != c->l->op)
            continue;
        x = kinds[i].unary ? kinds[i].unary(c->m, x) : x;
        return kinds[i].code == FX_KIR_COUNT ? x : fx_lc_op2(c, kinds[i].code, x, b);
    }
    return fx_kir_fail(c->m, FORNAX_EINTERNAL, "a map without an expression");
}

static bool is_binary(fx_launch_op op) { return op == FX_L_ADD || op == FX_L_MUL || op == FX_L_MUL_ROWS || op == FX_L_SWIGLU; }

static void make_map(fx_lc *c)
{
    const fx_map_args *a = &c->l->args.map;
    bool row = fx_lc_has(c, 1) && fx_lc_ref(c, 1)->kind != FX_REF_BUF, binary = is_binary(c->l->op);
    fx_kop *x = fx_lc_mat(c, 0, offsetof(fx_map_args, a.p), a->dim, FX_KIR_IN), *b = NULL, *y, *v;
    fx_lc_loop each;

    if (binary && fx_lc_has(c, 1))
        b = row ? fx_lc_vec(c, 1, offsetof(fx_map_args, b.p), a->dim) : fx_lc_mat(c, 1, offsetof(fx_map_args, b.p), a->dim, FX_KIR_IN);
    y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_map_args, y.p), a->dim, FX_KIR_OUT);
    each = fx_lc_each(c, a->dim);
    v = fx_lc_load(c, x, each.i, 1);
    fx_lc_store(c, y, map_value(c, v, b ? fx_lc_load(c, b, each.i, 1) : v), each.i);
    fx_lc_end(c, &each);
}

/* ---- Rows by number ----------------------------------------------------------------------------------------- */

/* Numbers of rows of something: i32, one for each row here. */
static fx_kop *row_number(fx_lc *c, size_t at)
{
    fx_kir_buf b = { .dtype = FX_I32, .rank = 1, .extent = { c->rows }, .access = FX_KIR_IN, .name = FX_STR("numbers") };
    fx_kop *numbers = fx_lc_buffer(c, fx_lc_at(c, at), &b);

    return fx_kir_convert(c->m, fx_kir_load(c->m, numbers, &c->row, 1, 1, NULL), FX_I64);
}

static bool can_embed(const fx_lc *c)
{
    fx_dtype t = c->tables[fx_lc_ref(c, 0)->index];

    return t == FX_F32 || t == FX_F16 || t == FX_BF16;
}

static void make_embed(fx_lc *c)
{
    const fx_embed_args *a = &c->l->args.embed;
    fx_kir_buf b = { .dtype = c->tables[fx_lc_ref(c, 0)->index], .rank = 2, .access = FX_KIR_IN, .name = FX_STR("table"),
                     .extent = { fx_kir_dim(c->m, a->n_vocab), fx_kir_dim(c->m, a->dim) } };
    fx_kop *row = row_number(c, offsetof(fx_embed_args, token)), *table = fx_lc_buffer(c, fx_lc_at(c, offsetof(fx_embed_args, table)), &b);
    fx_kop *y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_embed_args, y.p), a->dim, FX_KIR_OUT), *v;
    fx_lc_loop each = fx_lc_each(c, a->dim);

    v = fx_kir_load(c->m, table, (fx_kop *const[]){ row, each.i }, 2, 1, NULL);
    v = v ? fx_kir_convert(c->m, v, FX_F32) : NULL;
    if (a->scale != 1)
        v = fx_lc_op2(c, FX_KIR_MUL, v, fx_lc_f32(c, (double)a->scale, 1));
    fx_lc_store(c, y, v, each.i);
    fx_lc_end(c, &each);
}

/* The rows that are copied from are the step's, as many as there may be: what is asked for is there. */
static void make_gather(fx_lc *c)
{
    const fx_gather_args *a = &c->l->args.gather;
    const fx_ref *r = fx_lc_ref(c, 0);
    const fx_plan_buf *p = &c->plan->bufs[r->index];
    fx_kir_buf b = { .dtype = FX_F32, .rank = 2, .access = FX_KIR_IN, .name = FX_STR("from"),
                     .extent = { fx_kir_dim(c->m, INT32_MAX), fx_kir_dim(c->m, p->cols - r->col) }, .stride = { fx_kir_dim(c->m, p->cols) } };
    fx_kop *row = row_number(c, offsetof(fx_gather_args, rows)), *x = fx_lc_buffer(c, fx_lc_at(c, offsetof(fx_gather_args, x.p)), &b);
    fx_kop *y = fx_lc_mat(c, FX_LC_OUT, offsetof(fx_gather_args, y.p), a->dim, FX_KIR_OUT);
    fx_lc_loop each = fx_lc_each(c, a->dim);

    fx_lc_store(c, y, fx_kir_load(c->m, x, (fx_kop *const[]){ row, each.i }, 2, 1, NULL), each.i);
    fx_lc_end(c, &each);
}

/* ---- The table ------------------------------------------------------------------------------------------------ */

#define MAP(op) { op, make_map, offsetof(fx_map_args, n_rows), NULL }
const fx_lc_maker fx_lc_maps[] = {
    MAP(FX_L_ADD), MAP(FX_L_MUL), MAP(FX_L_SCALE), MAP(FX_L_SILU), MAP(FX_L_GELU), MAP(FX_L_GELU_TANH), MAP(FX_L_RELU), MAP(FX_L_RELU2),
    MAP(FX_L_CLAMP), MAP(FX_L_SIGMOID), MAP(FX_L_TANH), MAP(FX_L_SWIGLU),
    { FX_L_EMBED, make_embed, offsetof(fx_embed_args, n_rows), can_embed },
    { FX_L_GATHER, make_gather, offsetof(fx_gather_args, n_rows), NULL },
};
const size_t fx_lc_n_maps = FX_COUNT(fx_lc_maps);
