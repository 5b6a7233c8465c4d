/* lower_tile.c - a kernel for a product of matrices and what is computed from its elements one by one.
 *
 *     task: ROWS rows and COLS columns of the result
 *       for each panel of columns, for each tile of rows of those:
 *         forall j in the panel                       becomes vectors (kir_widen.c)
 *           acc[r] = 0 for each row of the tile
 *           for k:  b = b[k, j];  acc[r] = fma(a[i + r, k], b, acc[r])
 *           for each row that exists: the value at [i + r, j], with acc[r] for the product
 *
 * Each element is summed over k in order, whatever the tile: the bits are those of fx_at_matmul. */
#include "passes/lower_kir_int.h"

enum { ROWS = 64, COLS = 256, MAX_TILE = 8 };

/* The one product that v is computed from element by element; NULL: none, or several, or one of vectors. */
static fx_op *product_of(fx_lower *l, const fx_value *v, const fx_type *shape, int *found)
{
    fx_op *op = v->def, *at = NULL, *got;

    if (!op || (shape && fx_lower_kept(l, v) >= 0))
        return NULL;
    if (op->code == FX_OP_MATMUL) {
        ++*found;
        return op;
    }
    if (!fx_lower_by_element(op->code))
        return NULL;
    for (int i = 0; i < op->n_in; i++) {
        got = product_of(l, fx_op_in(op, i), &v->type, found);
        at = got ? got : at;
    }
    return at;
}

fx_op *fx_lower_product(fx_lower *l, const fx_value *v)
{
    int found = 0;
    fx_op *op = product_of(l, v, NULL, &found);

    if (!op || found != 1 || fx_op_in(op, 0)->type.rank < 2 || fx_op_in(op, 1)->type.rank < 2)
        return NULL;
    return fx_type_eq(&op->out[0].type, &v->type) || op->out[0].type.rank == v->type.rank ? op : NULL;
}

typedef struct tile {
    fx_lk *c;
    fx_op *product;
    fx_value *v;
    fx_kop *out;
    int rank, rows, cols;        /* of the result; of a tile */
    fx_kop *index[FX_MAX_RANK];  /* outer axes */
    fx_kop *batch, *n_rows, *n_cols;
} tile;

static fx_kop *operand(tile *t, int i, fx_kop *row, fx_kop *col)
{
    const fx_value *v = fx_op_in(t->product, i);
    int outer = v->type.rank - 2;
    fx_kop *own[FX_MAX_RANK], *x;

    for (int k = 0; k < outer; k++)
        own[k] = fx_dim_eq(v->type.dim[k], fx_dim_of(1)) ? fx_lk_num(t->c, 0) : t->index[t->rank - 2 - outer + k];
    own[outer] = row;
    own[outer + 1] = col;
    x = fx_lk_value(t->c, fx_op_in(t->product, i), own);
    return x ? fx_kir_convert(t->c->m, x, fx_lk_wide(t->product->out[0].type.dtype)) : NULL;
}

/* The sums of column j for the rows of a tile, into acc. */
static void sum_column(tile *t, fx_kop *const *row, fx_kop *j, fx_kop **acc)
{
    fx_lk *c = t->c;
    fx_dtype wide = fx_lk_wide(t->product->out[0].type.dtype);
    fx_lk_scope here = { c->m->at, c->m->before };
    fx_kop *zero = fx_dtype_is_float(wide) ? fx_kir_float(c->m, fx_ktype_of(wide, 1), 0) : fx_kir_int(c->m, fx_ktype_of(wide, 1), 0);
    fx_kop *local[MAX_TILE], *loop, *b, *k;

    for (int r = 0; r < t->rows; r++)
        local[r] = fx_kir_local(c->m, zero, FX_STR("acc"));
    loop = fx_kir_for(c->m, fx_lk_num(c, 0), fx_lk_size(c, fx_type_last(&fx_op_in(t->product, 0)->type)), NULL);
    if (!loop)
        return;
    fx_kir_at(c->m, loop->block[0]);
    k = loop->block[0]->arg;
    b = operand(t, 1, k, j);
    for (int r = 0; r < t->rows; r++) {
        fx_kop *a = operand(t, 0, row[r], k), *sum = fx_kir_get(c->m, local[r]);

        sum = fx_dtype_is_float(wide) ? fx_kir_op3(c->m, FX_KIR_FMA, a, b, sum)
                                      : fx_kir_op2(c->m, FX_KIR_ADD, sum, fx_kir_op2(c->m, FX_KIR_MUL, a, b));
        fx_kir_set(c->m, local[r], sum);
    }
    fx_lk_leave(c, here);
    for (int r = 0; r < t->rows; r++)
        acc[r] = fx_kir_convert(c->m, fx_kir_get(c->m, local[r]), t->product->out[0].type.dtype);
}

/* What becomes of the sum of one element. */
static void store_element(tile *t, fx_kop *row, fx_kop *j, fx_kop *acc)
{
    fx_lk *c = t->c;
    fx_lk_scope here = { c->m->at, c->m->before };
    fx_kop *branch = fx_kir_if(c->m, fx_kir_op2(c->m, FX_KIR_LT, row, t->n_rows), false);

    if (!branch)
        return;
    fx_kir_at(c->m, branch->block[0]);
    t->index[t->rank - 2] = row;
    t->index[t->rank - 1] = j;
    fx_lk_remember(c, &t->product->out[0], 0, t->index, t->rank, acc);
    if (t->v != &t->product->out[0])
        acc = fx_at_of(t->v->def->code)(c, t->v->def, t->v->index, t->index);
    fx_kir_store(c->m, t->out, acc, (fx_kop *const[]){ t->batch, row, j }, 3, NULL);
    fx_lk_leave(c, here);
}

/* The loop over the columns of a panel, for the rows from i on. */
static void make_tile(tile *t, fx_kop *i, fx_kop *from, fx_kop *to)
{
    fx_lk *c = t->c;
    fx_kop *row[MAX_TILE], *real[MAX_TILE], *acc[MAX_TILE] = { NULL }, *last = fx_lk_sub(c, t->n_rows, fx_lk_num(c, 1)), *loop;

    for (int r = 0; r < t->rows; r++) {
        real[r] = fx_lk_add(c, i, fx_lk_num(c, r));
        row[r] = fx_kir_op2(c->m, FX_KIR_MIN, real[r], last);     /* beyond the last one: that again, for nothing */
    }
    loop = fx_kir_forall(c->m, from, to);
    if (!loop)
        return;
    fx_kir_at(c->m, loop->block[0]);
    sum_column(t, row, loop->block[0]->arg, acc);
    for (int r = 0; r < t->rows && !c->m->failed; r++)
        store_element(t, real[r], loop->block[0]->arg, acc[r]);
}

static fx_kop *open_loop(fx_lk *c, fx_kop *lo, fx_kop *hi, int64_t step)
{
    fx_kop *loop = fx_kir_for(c->m, lo, hi, fx_lk_num(c, step));

    if (!loop)
        return NULL;
    fx_kir_at(c->m, loop->block[0]);
    return loop->block[0]->arg;
}

static fx_kop *end_of(fx_lk *c, fx_kop *from, int64_t n, fx_kop *limit)
{
    return fx_kir_op2(c->m, FX_KIR_MIN, fx_lk_add(c, from, fx_lk_num(c, n)), limit);
}

void fx_lower_tile_kernel(fx_lk *c, fx_value *v, fx_op *product, int32_t tensor, int lanes)
{
    const fx_type *y = &v->type;
    fx_dim dim[3] = { fx_lower_rows(c->l, y, y->rank - 2), y->dim[y->rank - 2], y->dim[y->rank - 1] };
    tile t = { .c = c, .product = product, .v = v, .rank = y->rank, .rows = lanes >= 16 ? 8 : 4, .cols = 2 * lanes };
    fx_kop *r_blocks, *c_blocks, *at, *i0, *j0, *i1, *j1, *i, *j;

    t.out = fx_lk_buffer_as(c, tensor, FX_KIR_OUT, dim, 3);
    fx_kir_at(c->m, c->k->grid);
    r_blocks = fx_lk_ceil_div(c, fx_lk_size(c, dim[1]), ROWS);
    c_blocks = fx_lk_ceil_div(c, fx_lk_size(c, dim[2]), COLS);
    at = fx_lk_mul(c, fx_lk_size(c, dim[0]), fx_lk_mul(c, r_blocks, c_blocks));
    fx_kir_yield(c->m, &at, 1);
    fx_kir_at(c->m, c->k->body);
    t.n_rows = fx_lk_size(c, dim[1]);
    t.n_cols = fx_lk_size(c, dim[2]);
    r_blocks = fx_lk_ceil_div(c, t.n_rows, ROWS);
    c_blocks = fx_lk_ceil_div(c, t.n_cols, COLS);
    at = fx_lk_div(c, c->k->task, c_blocks);
    t.batch = fx_lk_div(c, at, r_blocks);
    i0 = fx_lk_mul(c, fx_lk_rem(c, at, r_blocks), fx_lk_num(c, ROWS));
    j0 = fx_lk_mul(c, fx_lk_rem(c, c->k->task, c_blocks), fx_lk_num(c, COLS));
    fx_lk_unravel(c, t.batch, y->dim, y->rank - 2, t.index);
    i1 = end_of(c, i0, ROWS, t.n_rows);
    j1 = end_of(c, j0, COLS, t.n_cols);
    j = open_loop(c, j0, j1, t.cols);
    i = open_loop(c, i0, i1, t.rows);
    make_tile(&t, i, j, end_of(c, j, t.cols, j1));
}
