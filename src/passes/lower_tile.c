/* lower_tile.c - a kernel for a product of matrices and what is computed from its elements one by one.
 *
 *     task: ROWS rows and COLS columns of the result
 *       for each panel of columns (two vectors), for each tile of rows of those:
 *         for k:  b = b[k, panel];  for each row: sum[r] = fma(a[i + r, k], b, sum[r])      vectors
 *         the sums go to a small array
 *         for each row that exists, for each column: the value at [i + r, j], with its sum for the product
 *
 * Two products that the value is made of (silu(x @ A) * (x @ B)) are summed in one loop over k.
 * Each element is summed over k in order, whatever the tile: the bits are those of fx_at_matmul. */
#include "passes/lower_kir_int.h"

enum { ROWS = 64, COLS = 256, MAX_TILE = 8 };

/* The products that v is computed from element by element; returns how many there are by now. */
static int find_products(fx_lower *l, const fx_value *v, bool inside, fx_op *product[2], int n)
{
    fx_op *op = v->def;

    if (!op || (inside && fx_lower_kept(l, v) >= 0))
        return n;
    if (op->code == FX_OP_MATMUL) {
        if (n < 2)
            product[n] = op;
        return n == 1 && product[0] == op ? n : n + 1;
    }
    for (int i = 0; fx_lower_by_element(op->code) && i < op->n_in; i++)
        n = find_products(l, fx_op_in(op, i), true, product, n);
    return n;
}

const char *fx_lower_apart(const fx_op *a, const fx_op *b)
{
    if (!fx_dim_eq(fx_type_last(&fx_op_in(a, 0)->type), fx_type_last(&fx_op_in(b, 0)->type)))
        return "the products have sums of different lengths";
    if (fx_lk_wide(a->out[0].type.dtype) != fx_lk_wide(b->out[0].type.dtype))
        return "the products are summed in different dtypes";
    return fx_lower_same_shape(&a->out[0].type, &b->out[0].type, false) ? NULL : "the products differ in shape";
}

int fx_lower_products(fx_lower *l, const fx_value *v, fx_op *product[2])
{
    int n = find_products(l, v, false, product, 0);

    if (n < 1 || n > 2 || (n == 2 && fx_lower_apart(product[0], product[1])))
        return 0;
    for (int i = 0; i < n; i++) {
        const fx_op *op = product[i];

        if (fx_op_in(op, 0)->type.rank < 2 || fx_op_in(op, 1)->type.rank < 2 || op->out[0].type.rank != v->type.rank ||
            fx_lower_kept(l, fx_op_in(op, 1)) < 0)       /* else its columns don't lie side by side */
            return 0;
    }
    return n;
}

typedef struct tile {
    fx_lk *c;
    fx_op *const *product;
    int n;                       /* products */
    fx_value *v;
    fx_kop *out, *sums;          /* the result; [n * rows, 2 * lanes] */
    fx_dtype wide;
    int rank, rows, lanes;       /* of the result; of a tile; of a vector */
    fx_kop *index[FX_MAX_RANK];  /* outer axes */
    fx_kop *batch, *n_rows;
} tile;

/* The index of operand i of product p that belongs to the result's outer axes; its last two are for the caller. */
static int outer_index(tile *t, int p, int i, fx_kop **own)
{
    const fx_type *x = &fx_op_in(t->product[p], i)->type;

    for (int k = 0; k < x->rank - 2; k++)
        own[k] = fx_dim_eq(x->dim[k], fx_dim_of(1)) ? fx_lk_num(t->c, 0) : t->index[t->rank - x->rank + k];
    return x->rank - 2;
}

static fx_kop *element_of_a(tile *t, int p, fx_kop *row, fx_kop *k)
{
    fx_kop *own[FX_MAX_RANK], *x;
    int at = outer_index(t, p, 0, own);

    own[at] = row;
    own[at + 1] = k;
    x = fx_lk_value(t->c, fx_op_in(t->product[p], 0), own);
    return x ? fx_kir_splat(t->c->m, fx_kir_convert(t->c->m, x, t->wide), t->lanes) : NULL;
}

static fx_kop *vector_of_b(tile *t, int p, fx_kop *k, fx_kop *j, fx_kop *mask)
{
    fx_value *v = fx_op_in(t->product[p], 1);
    fx_kop *own[FX_MAX_RANK], *buf = fx_lk_buffer(t->c, fx_lower_kept(t->c->l, v), &v->type), *x;
    int at = outer_index(t, p, 1, own);

    own[at] = k;
    own[at + 1] = j;
    x = buf ? fx_kir_load(t->c->m, buf, own, at + 2, t->lanes, mask) : NULL;
    return x ? fx_kir_convert(t->c->m, x, t->wide) : NULL;
}

/* Which of the lanes from j on are columns. */
static fx_kop *columns_on(tile *t, fx_kop *j, fx_kop *n)
{
    fx_kir_module *m = t->c->m;
    fx_ktype i64 = fx_ktype_of(FX_I64, t->lanes);

    return fx_kir_op2(m, FX_KIR_LT, fx_kir_op2(m, FX_KIR_ADD, fx_kir_splat(m, j, t->lanes), fx_kir_iota(m, i64)),
                      fx_kir_splat(m, n, t->lanes));
}

static void add_products(tile *t, int p, fx_kop *const *row, fx_kop *k, fx_kop *const *j, fx_kop *const *mask, fx_kop *const *sum)
{
    fx_kir_module *m = t->c->m;
    fx_kop *b[2];

    for (int h = 0; h < 2; h++)
        b[h] = vector_of_b(t, p, k, j[h], mask[h]);
    for (int r = 0; r < t->rows && !m->failed; r++) {
        fx_kop *a = element_of_a(t, p, row[r], k);

        for (int h = 0; h < 2; h++) {
            fx_kop *old = fx_kir_get(m, sum[2 * r + h]);

            fx_kir_set(m, sum[2 * r + h], fx_dtype_is_float(t->wide) ? fx_kir_op3(m, FX_KIR_FMA, a, b[h], old)
                                          : fx_kir_op2(m, FX_KIR_ADD, old, fx_kir_op2(m, FX_KIR_MUL, a, b[h])));
        }
    }
}

/* The sums of a tile, into the array. */
static void sum_tile(tile *t, fx_kop *const *row, fx_kop *from, fx_kop *to)
{
    fx_lk *c = t->c;
    fx_lk_scope here = { c->m->at, c->m->before };
    fx_kop *zero = fx_lower_zero(c, fx_ktype_of(t->wide, t->lanes));
    fx_kop *j[2] = { from, fx_lk_add(c, from, fx_lk_num(c, t->lanes)) }, *mask[2], *sum[2 * MAX_TILE], *loop;

    for (int h = 0; h < 2; h++)
        mask[h] = columns_on(t, j[h], to);
    for (int i = 0; i < 2 * t->n * t->rows; i++)
        sum[i] = fx_kir_local(c->m, zero, FX_STR("sum"));
    loop = fx_kir_for(c->m, fx_lk_num(c, 0), fx_lk_size(c, fx_type_last(&fx_op_in(t->product[0], 0)->type)), NULL);
    if (!loop)
        return;
    fx_kir_at(c->m, loop->block[0]);
    for (int p = 0; p < t->n; p++)
        add_products(t, p, row, loop->block[0]->arg, j, mask, sum + 2 * p * t->rows);
    fx_lk_leave(c, here);
    for (int i = 0; i < 2 * t->n * t->rows; i++) {
        fx_kop *at[2] = { fx_lk_num(c, i / 2), fx_lk_num(c, (int64_t)(i % 2) * t->lanes) };

        fx_kir_store(c->m, t->sums, fx_kir_get(c->m, sum[i]), at, 2, NULL);
    }
}

/* What becomes of the sums of row r of the tile. */
static void finish_row(tile *t, int r, fx_kop *row, fx_kop *from, fx_kop *to)
{
    fx_lk *c = t->c;
    fx_lk_scope here = { c->m->at, c->m->before };
    fx_kop *branch = fx_kir_if(c->m, fx_kir_op2(c->m, FX_KIR_LT, row, t->n_rows), false), *loop, *j, *y = NULL;

    if (!branch)
        return;
    fx_kir_at(c->m, branch->block[0]);
    loop = fx_kir_forall(c->m, fx_lk_num(c, 0), fx_kir_op2(c->m, FX_KIR_MIN, fx_lk_num(c, 2 * (int64_t)t->lanes), fx_lk_sub(c, to, from)));
    if (!loop)
        return;
    fx_kir_at(c->m, loop->block[0]);
    j = fx_lk_add(c, from, loop->block[0]->arg);
    t->index[t->rank - 2] = row;
    t->index[t->rank - 1] = j;
    for (int p = 0; p < t->n; p++) {
        y = fx_kir_load(c->m, t->sums, (fx_kop *const[]){ fx_lk_num(c, p * t->rows + r), loop->block[0]->arg }, 2, 1, NULL);
        y = y ? fx_kir_convert(c->m, y, t->product[p]->out[0].type.dtype) : NULL;
        fx_lk_remember(c, &t->product[p]->out[0], 0, t->index, t->rank, y);
    }
    if (t->v != &t->product[0]->out[0])
        y = fx_at_of(t->v->def)(c, t->v->def, t->v->index, t->index);
    fx_kir_store(c->m, t->out, y, (fx_kop *const[]){ t->batch, row, j }, 3, NULL);
    fx_lk_leave(c, here);
}

static void make_tile(tile *t, fx_kop *i, fx_kop *from, fx_kop *to)
{
    fx_lk *c = t->c;
    fx_kop *row[MAX_TILE], *real[MAX_TILE], *last = fx_lk_sub(c, t->n_rows, fx_lk_num(c, 1));

    for (int r = 0; r < t->rows; r++) {
        real[r] = fx_lk_add(c, i, fx_lk_num(c, r));
        row[r] = r ? fx_kir_op2(c->m, FX_KIR_MIN, real[r], last) : real[r];      /* beyond the last one: that again, for nothing */
    }
    sum_tile(t, row, from, to);
    for (int r = 0; r < t->rows && !c->m->failed; r++)
        finish_row(t, r, real[r], from, to);
}

/* From 'from' on, pieces of 'step' below from + all and below 'limit': where one begins. */
static fx_kop *pieces(fx_lk *c, fx_kop *from, int64_t step, int64_t all, fx_kop *limit)
{
    fx_kop *n = fx_lk_ceil_div(c, fx_lk_sub(c, limit, from), step), *loop;

    loop = fx_kir_for(c->m, fx_lk_num(c, 0), fx_kir_op2(c->m, FX_KIR_MIN, n, fx_lk_num(c, all / step)), NULL);
    if (!loop)
        return NULL;
    fx_kir_at(c->m, loop->block[0]);
    return fx_lk_add(c, from, fx_lk_mul(c, loop->block[0]->arg, fx_lk_num(c, step)));
}

void fx_lower_tile_kernel(fx_lk *c, fx_value *v, fx_op *const *product, int n, int32_t tensor, int lanes)
{
    const fx_type *y = &v->type;
    fx_dim dim[3] = { fx_lower_rows(c->l, y, y->rank - 2), y->dim[y->rank - 2], y->dim[y->rank - 1] };
    tile t = { .c = c, .product = product, .n = n, .v = v, .rank = y->rank, .rows = (lanes >= 16 ? 8 : 4) / n, .lanes = lanes,
               .wide = fx_lk_wide(product[0]->out[0].type.dtype) };
    int64_t cols = 2 * (int64_t)lanes;
    fx_kop *r_blocks, *c_blocks, *at, *i0, *j0, *i, *j, *n_cols;

    t.out = fx_lk_buffer_as(c, tensor, FX_KIR_OUT, dim, 3);
    fx_kir_at(c->m, c->k->grid);
    r_blocks = fx_lk_ceil_div(c, fx_lk_size(c, dim[1]), ROWS);
    c_blocks = fx_lk_ceil_div(c, fx_lk_size(c, dim[2]), COLS);
    at = fx_lk_mul(c, fx_lk_size(c, dim[0]), fx_lk_mul(c, r_blocks, c_blocks));
    fx_kir_yield(c->m, &at, 1);
    fx_kir_at(c->m, c->k->body);
    t.n_rows = fx_lk_size(c, dim[1]);
    n_cols = fx_lk_size(c, dim[2]);
    t.sums = fx_kir_alloc(c->m, FX_KIR_PRIVATE, t.wide, (int64_t const[]){ n * t.rows, cols }, 2, FX_STR("sums"));
    r_blocks = fx_lk_ceil_div(c, t.n_rows, ROWS);
    c_blocks = fx_lk_ceil_div(c, n_cols, COLS);
    at = fx_lk_div(c, c->k->task, c_blocks);
    t.batch = fx_lk_div(c, at, r_blocks);
    i0 = fx_lk_mul(c, fx_lk_rem(c, at, r_blocks), fx_lk_num(c, ROWS));
    j0 = fx_lk_mul(c, fx_lk_rem(c, c->k->task, c_blocks), fx_lk_num(c, COLS));
    fx_lk_unravel(c, t.batch, y->dim, y->rank - 2, t.index);
    j = pieces(c, j0, cols, COLS, n_cols);
    i = pieces(c, i0, t.rows, ROWS, t.n_rows);
    make_tile(&t, i, j, n_cols);
}
