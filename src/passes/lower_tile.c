/* lower_tile.c - a kernel for a product of matrices and what is computed from its elements one by one.
 *
 *     task: ROWS rows and COLS columns of the result
 *       for each panel of columns (two vectors, or more where there are few rows), for each product that the result is made of, for each DEPTH of k:
 *         the piece of a, and that of b, are put side by side in arrays: whatever they are computed from, and wherever it lies
 *         for each tile of rows: for k: sum[r] = fma(a[r, k], b[k, panel], sum[r])                 vectors, in registers
 *       for each row, for each column: the value at [i, j], with its sums for the products
 *
 * Two products that the value is made of (silu(x @ A) * (x @ B)) are one kernel. Each element is summed over k in order, whatever the tile: the bits
 * are those of fx_at_matmul. */
#include "passes/lower_kir_int.h"

enum { ROWS = 64, COLS = 256, DEPTH = 128, MAX_TILE = 8, MAX_SUMS = 16 };

/* ---- Loops ------------------------------------------------------------------------------------------------ */

static fx_lk_loop enter(fx_lk *c, fx_kop *op)
{
    fx_lk_loop l = { { c->m->at, c->m->before }, NULL };

    if (op) {
        fx_kir_at(c->m, op->block[0]);
        l.i = op->block[0]->arg;
    }
    return l;
}

fx_lk_loop fx_lk_in_order(fx_lk *c, fx_kop *n) { return enter(c, fx_kir_for(c->m, fx_lk_num(c, 0), n, NULL)); }
fx_lk_loop fx_lk_together(fx_lk *c, fx_kop *from, fx_kop *n) { return enter(c, fx_kir_forall(c->m, from, n)); }
fx_lk_loop fx_lk_when(fx_lk *c, fx_kop *cond) { return enter(c, fx_kir_if(c->m, cond, false)); }
void fx_lk_end_loop(fx_lk *c, const fx_lk_loop *l) { fx_lk_leave(c, l->outside); }

fx_kop *fx_lk_load2(fx_lk *c, fx_kop *from, fx_kop *i, fx_kop *j, int lanes)
{
    return fx_kir_load(c->m, from, (fx_kop *const[]){ i, j }, 2, lanes, NULL);
}

void fx_lk_store2(fx_lk *c, fx_kop *to, fx_kop *x, fx_kop *i, fx_kop *j)
{
    fx_kir_store(c->m, to, x, (fx_kop *const[]){ i, j }, 2, NULL);
}

/* ---- Tiles -------------------------------------------------------------------------------------------------- */

int fx_lk_tile_rows(int lanes, fx_dim rows)
{
    int tile = lanes >= 16 ? MAX_TILE : MAX_TILE / 2;

    while (tile > 1 && fx_dim_is_static(rows) && rows.n <= tile / 2)
        tile /= 2;
    return tile;
}

int fx_lk_tile_vectors(int lanes, int tile, int64_t cols)
{
    int n = (lanes >= 16 ? MAX_SUMS : MAX_SUMS / 2) / tile;

    while (n > 1 && n * lanes > FX_MAX(cols, 2 * (int64_t)lanes))
        n /= 2;
    return n;
}

static fx_kop *add_product(fx_lk *c, fx_kop *x, fx_kop *y, fx_kop *sum)
{
    if (y && fx_dtype_is_float(y->type.t))
        return fx_kir_op3(c->m, FX_KIR_FMA, x, y, sum);
    return op2(c, FX_KIR_ADD, sum, op2(c, FX_KIR_MUL, x, y));
}

/* The rows of a tile and some vectors of columns. */
static void sum_tile(fx_lk *c, const fx_lk_factors *f, fx_kop *row, fx_kop *col)
{
    fx_kop *sum[MAX_SUMS], *rows[MAX_TILE], *cols[MAX_SUMS], *zero;
    int n = f->vectors;
    fx_lk_loop l;

    zero = fx_lower_zero(c, fx_ktype_of(f->t, f->lanes));
    for (int r = 0; r < f->tile; r++)
        rows[r] = fx_lk_add(c, row, fx_lk_num(c, r));
    for (int h = 0; h < n; h++)
        cols[h] = fx_lk_add(c, col, fx_lk_num(c, (int64_t)h * f->lanes));
    for (int i = 0; i < n * f->tile; i++)
        sum[i] = fx_kir_local(c->m, f->more ? fx_lk_load2(c, f->to, rows[i / n], cols[i % n], f->lanes) : zero, FX_STR("sum"));
    l = fx_lk_in_order(c, f->n);
    for (int h = 0; h < n && !c->m->failed; h++) {
        fx_kop *y = fx_lk_load2(c, f->y, l.i, cols[h], f->lanes);

        for (int r = 0; r < f->tile; r++) {
            fx_kop *x = fx_lk_load2(c, f->x, rows[r], fx_lk_add(c, f->from, l.i), 1);

            x = x ? fx_kir_splat(c->m, x, f->lanes) : NULL;
            fx_kir_set(c->m, sum[n * r + h], add_product(c, x, y, fx_kir_get(c->m, sum[n * r + h])));
        }
    }
    fx_lk_end_loop(c, &l);
    for (int i = 0; i < n * f->tile; i++)
        fx_lk_store2(c, f->to, fx_kir_get(c->m, sum[i]), rows[i / n], fx_lk_add(c, f->at, cols[i % n]));
}

void fx_lk_multiply(fx_lk *c, const fx_lk_factors *f)
{
    fx_lk_loop r = fx_lk_in_order(c, fx_lk_num(c, (f->most_rows + f->tile - 1) / f->tile)), some, j;      /* shows that rows are within the arrays */
    fx_kop *row = fx_lk_mul(c, r.i, fx_lk_num(c, f->tile));

    some = fx_lk_when(c, op2(c, FX_KIR_LT, row, f->rows));
    j = fx_lk_in_order(c, fx_lk_num(c, f->cols / (f->vectors * f->lanes)));
    sum_tile(c, f, row, fx_lk_mul(c, j.i, fx_lk_num(c, (int64_t)f->vectors * f->lanes)));
    fx_lk_end_loop(c, &j);
    fx_lk_end_loop(c, &some);
    fx_lk_end_loop(c, &r);
}

bool fx_lower_is_turned(const fx_lower *l, const fx_value *v)
{
    while (v->def && fx_lower_kept(l, v) < 0 && fx_lower_moves_only(v->def->code) && v->def->n_in > 0) {
        const fx_op *op = v->def;
        int last = v->type.rank - 1;

        if (op->code == FX_OP_TRANSPOSE && (fx_op_axis(op, FX_A_AXIS_A, last + 1) == last) != (fx_op_axis(op, FX_A_AXIS_B, last + 1) == last))
            return true;
        if (op->code == FX_OP_PERMUTE && fx_op_int_at(op, FX_A_AXES, last, last) != last && fx_op_int_at(op, FX_A_AXES, last, last) != -1)
            return true;
        v = fx_op_in(op, 0);
    }
    return false;
}

void fx_lk_take(fx_lk *c, const fx_lk_piece *p, fx_kop *to)
{
    bool turned = fx_lower_is_turned(c->l, p->v);
    fx_lk_loop outer = fx_lk_in_order(c, turned ? p->cols : p->rows), inner = fx_lk_together(c, fx_lk_num(c, 0), turned ? p->rows : p->cols);
    fx_kop *i = turned ? inner.i : outer.i, *j = turned ? outer.i : inner.i, *own[FX_MAX_RANK], *x;
    int rank = p->v->type.rank;

    for (int k = 0; k < rank - 2; k++)
        own[k] = fx_dim_eq(p->v->type.dim[k], fx_dim_of(1)) ? fx_lk_num(c, 0) : p->index[p->rank - rank + k];
    own[rank - 2] = fx_lk_add(c, p->row, i);
    own[rank - 1] = fx_lk_add(c, p->col, j);
    x = fx_lk_value(c, p->v, own);
    fx_lk_store2(c, to, x ? fx_kir_convert(c->m, x, p->t) : NULL, i, j);
    fx_lk_end_loop(c, &inner);
    fx_lk_end_loop(c, &outer);
}

/* ---- Which products ------------------------------------------------------------------------------------------- */

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

        if (fx_op_in(op, 0)->type.rank < 2 || fx_op_in(op, 1)->type.rank < 2 || op->out[0].type.rank != v->type.rank)
            return 0;
    }
    return n;
}

/* ---- The kernel --------------------------------------------------------------------------------------------------- */

typedef struct tile {
    fx_lk *c;
    fx_op *const *product;
    fx_value *v;
    fx_kop *out, *a, *b, *sums[2];       /* the result; arrays: [ROWS, depth], [depth, cols], [ROWS, cols] for each product */
    fx_dtype wide;
    int rank, n, lanes, tile, vectors;   /* of the result; products; of a vector; rows and vectors whose sums are in registers */
    int64_t depth, rows, cols;   /* k at a time; of the arrays; of a panel */
    fx_kop *index[FX_MAX_RANK];  /* outer axes */
    fx_kop *batch, *row0, *n_rows, *block;       /* block: of columns, among those of the task's results */
} tile;

static fx_kop *num(tile *t, int64_t n) { return fx_lk_num(t->c, n); }

/* The sums of product p in columns from 'col' on, 'count' of them. */
static void sum_product(tile *t, int p, fx_kop *col, fx_kop *count)
{
    fx_lk *c = t->c;
    fx_op *op = t->product[p];
    fx_kop *n = fx_lk_size(c, fx_type_last(&fx_op_in(op, 0)->type)), *k0, *depth;
    fx_lk_loop pieces = fx_lk_in_order(c, fx_lk_ceil_div(c, n, t->depth));
    fx_lk_piece a = { .v = fx_op_in(op, 0), .index = t->index, .rank = t->rank, .t = t->wide }, b = a;

    k0 = fx_lk_mul(c, pieces.i, num(t, t->depth));
    depth = op2(c, FX_KIR_MIN, num(t, t->depth), fx_lk_sub(c, n, k0));
    a.row = t->row0, a.col = k0, a.rows = t->n_rows, a.cols = depth;
    b.v = fx_op_in(op, 1);
    b.row = k0, b.col = col, b.rows = depth, b.cols = count;
    fx_lk_take(c, &a, t->a);
    fx_lk_take(c, &b, t->b);
    fx_lk_multiply(c, &(fx_lk_factors){ .x = t->a, .y = t->b, .to = t->sums[p], .from = num(t, 0), .n = depth, .at = num(t, 0), .rows = t->n_rows,
                                        .most_rows = t->rows,
                                        .cols = t->cols, .lanes = t->lanes, .tile = t->tile, .vectors = t->vectors, .t = t->wide, .more = true });
    fx_lk_end_loop(c, &pieces);
}

static void clear_sums(tile *t, int p)
{
    fx_lk_loop r = fx_lk_in_order(t->c, t->n_rows), j = fx_lk_together(t->c, num(t, 0), num(t, t->cols));

    fx_lk_store2(t->c, t->sums[p], fx_lower_zero(t->c, fx_ktype_of(t->wide, 1)), r.i, j.i);
    fx_lk_end_loop(t->c, &j);
    fx_lk_end_loop(t->c, &r);
}

/* What becomes of the sums of a panel. */
static void finish(tile *t, fx_kop *col, fx_kop *count)
{
    fx_lk *c = t->c;
    fx_lk_loop r = fx_lk_in_order(c, t->n_rows), j = fx_lk_together(c, num(t, 0), count);
    fx_kop *row = fx_lk_add(c, t->row0, r.i), *at = fx_lk_add(c, col, j.i), *y = NULL;

    t->index[t->rank - 2] = row;
    t->index[t->rank - 1] = at;
    for (int p = 0; p < t->n; p++) {
        y = fx_lk_load2(c, t->sums[p], r.i, j.i, 1);
        y = y ? fx_kir_convert(c->m, y, t->product[p]->out[0].type.dtype) : NULL;
        fx_lk_remember(c, &t->product[p]->out[0], 0, t->index, t->rank, y);
    }
    if (t->v != &t->product[0]->out[0])
        y = fx_lk_root(c, t->v, t->index);
    fx_kir_store(c->m, t->out, y, (fx_kop *const[]){ t->batch, row, at }, 3, NULL);
    fx_lk_end_loop(c, &j);
    fx_lk_end_loop(c, &r);
}

static void make_arrays(tile *t)
{
    static const char *const names[] = { "sums", "more_sums" };
    fx_dim rows = t->v->type.dim[t->rank - 2];

    t->tile = fx_lk_tile_rows(t->lanes, rows);
    t->vectors = fx_lk_tile_vectors(t->lanes, t->tile, COLS * 4 / FX_MAX((int64_t)fx_dtype_size(t->wide), 4));
    t->cols = (int64_t)t->vectors * t->lanes;
    t->rows = fx_dim_is_static(rows) ? FX_MIN(FX_MAX((rows.n + t->tile - 1) / t->tile * t->tile, t->tile), ROWS) : ROWS;
    for (int p = 0; p < t->n; p++) {
        fx_dim k = fx_type_last(&fx_op_in(t->product[p], 0)->type);

        t->depth = p && fx_dim_is_static(k) ? FX_MAX(t->depth, FX_MIN(k.n, DEPTH)) : fx_dim_is_static(k) ? FX_MIN(k.n, DEPTH) : DEPTH;
        t->sums[p] = fx_kir_alloc(t->c->m, FX_KIR_PRIVATE, t->wide, (int64_t const[]){ t->rows, t->cols }, 2, fx_str_of(names[p]));
    }
    t->depth = FX_MAX(t->depth, 1);
    t->a = fx_kir_alloc(t->c->m, FX_KIR_PRIVATE, t->wide, (int64_t const[]){ t->rows, t->depth }, 2, FX_STR("a"));
    t->b = fx_kir_alloc(t->c->m, FX_KIR_PRIVATE, t->wide, (int64_t const[]){ t->depth, t->cols }, 2, FX_STR("b"));
}

/* How many blocks of columns the first n results have. */
static fx_kop *blocks_of(fx_lk *c, fx_value *const *v, int n)
{
    fx_kop *all = fx_lk_num(c, 0);

    for (int i = 0; i < n; i++)
        all = fx_lk_add(c, all, fx_lk_ceil_div(c, fx_lk_size(c, fx_type_last(&v[i]->type)), COLS));
    return all;
}

/* The grid; its rows and block among the tasks. Results have all but their columns in common. */
static void take_place(tile *t, fx_value *const *v, int n)
{
    const fx_type *y = &v[0]->type;
    fx_lk *c = t->c;
    fx_kop *r_blocks, *c_blocks, *at;
    fx_dim rows = y->dim[y->rank - 2];

    fx_kir_at(c->m, c->k->grid);
    r_blocks = fx_lk_ceil_div(c, fx_lk_size(c, rows), ROWS);
    c_blocks = blocks_of(c, v, n);
    at = fx_lk_mul(c, fx_lk_size(c, fx_lower_rows(c->l, y, y->rank - 2)), fx_lk_mul(c, r_blocks, c_blocks));
    fx_kir_yield(c->m, &at, 1);
    fx_kir_at(c->m, c->k->body);
    make_arrays(t);
    r_blocks = fx_lk_ceil_div(c, fx_lk_size(c, rows), ROWS);
    c_blocks = blocks_of(c, v, n);
    at = fx_lk_div(c, c->k->task, c_blocks);
    t->batch = y->rank == 2 ? num(t, 0) : fx_lk_div(c, at, r_blocks);
    t->row0 = fx_lk_mul(c, y->rank == 2 ? at : fx_lk_rem(c, at, r_blocks), num(t, ROWS));
    t->n_rows = op2(c, FX_KIR_MIN, num(t, ROWS), fx_lk_sub(c, fx_lk_size(c, rows), t->row0));
    t->block = fx_lk_rem(c, c->k->task, c_blocks);
    fx_lk_unravel(c, t->batch, y->dim, y->rank - 2, t->index);
}

/* Block 'block' of t->v's columns. */
static void make_block(tile *t, fx_kop *block)
{
    fx_lk *c = t->c;
    fx_kop *col0 = fx_lk_mul(c, block, num(t, COLS)), *n_cols, *at, *col, *count;
    fx_lk_loop panels, some;

    n_cols = op2(c, FX_KIR_MIN, num(t, COLS), fx_lk_sub(c, fx_lk_size(c, fx_type_last(&t->v->type)), col0));
    panels = fx_lk_in_order(c, num(t, COLS / t->cols));      /* this bound shows that panels are within the task's columns */
    at = fx_lk_mul(c, panels.i, num(t, t->cols));
    some = fx_lk_when(c, op2(c, FX_KIR_LT, at, n_cols));
    col = fx_lk_add(c, col0, at);
    count = op2(c, FX_KIR_MIN, num(t, t->cols), fx_lk_sub(c, n_cols, at));
    for (int p = 0; p < t->n; p++) {
        clear_sums(t, p);
        sum_product(t, p, col, count);
    }
    finish(t, col, count);
    fx_lk_end_loop(c, &some);
    fx_lk_end_loop(c, &panels);
}

static fx_kop *result_buffer(fx_lk *c, const fx_value *v, int32_t tensor)
{
    const fx_type *y = &v->type;
    fx_dim dim[3] = { fx_lower_rows(c->l, y, y->rank - 2), y->dim[y->rank - 2], y->dim[y->rank - 1] };

    return fx_lk_buffer_as(c, tensor, FX_KIR_OUT, dim, 3);
}

static tile new_tile(fx_lk *c, fx_value *v, fx_op *const *product, int n, int lanes)
{
    return (tile){ .c = c, .product = product, .n = n, .v = v, .rank = v->type.rank, .lanes = lanes,
                   .wide = fx_lk_wide(product[0]->out[0].type.dtype) };
}

void fx_lower_tile_kernel(fx_lk *c, fx_value *v, fx_op *const *product, int n, int32_t tensor, int lanes)
{
    tile t = new_tile(c, v, product, n, lanes);

    t.out = result_buffer(c, v, tensor);
    take_place(&t, &v, 1);
    make_block(&t, t.block);
}

void fx_fuse_make_merged(fx_lk *c, const fx_fused *f, const int32_t *tensor)
{
    tile t = new_tile(c, f->result[0], f->part, 1, FX_MIN(FX_MAX(c->l->lanes, 1), 16));
    fx_kop *out[FX_FUSE_RESULTS], *from, *to, *own;
    fx_lk_loop own_blocks;

    for (int i = 0; i < f->n_results; i++)
        out[i] = result_buffer(c, f->result[i], tensor[i]);
    take_place(&t, f->result, f->n_results);
    for (int i = 0; i < f->n_results; i++) {
        from = blocks_of(c, f->result, i);
        to = blocks_of(c, f->result, i + 1);
        own = op2(c, FX_KIR_AND, op2(c, FX_KIR_LE, from, t.block), op2(c, FX_KIR_LT, t.block, to));
        own_blocks = fx_lk_when(c, own);
        t.v = f->result[i];
        t.out = out[i];
        t.product = &f->part[i];
        make_block(&t, fx_lk_sub(c, t.block, from));
        fx_lk_end_loop(c, &own_blocks);
    }
}
