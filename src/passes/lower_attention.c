/* lower_attention.c - one kernel for matmul(g(softmax(f(matmul(q, k)))), v), f and g element by element.
 *
 *     task: some rows of queries of one batch, so many that all keys fit in one piece if that can be
 *       three turns over all keys, in pieces of as many as 's' has room for, from the first on:
 *         s = f(q @ k) for the piece, unless it is there from the turn before
 *         turn 0:    the greatest of each row
 *         later:     s = exp(s - greatest); turn 1: their sum, in KEYS lanes
 *         turn 2:    s = g(s / sum), and result += s @ v
 *
 * So the scores of a task stay in the cache, and where all keys fit in one piece they are computed once.  Each number is made by the
 * operations of the ops it stands for, in their order: products are summed in order of k and of the keys, sums of exponentials in KEYS lanes
 * by the place of the key (lower_at_row.c's LANES).  The bits are those of the ops one by one, whatever the rows, pieces and vectors. */
#include "passes/lower_kir_int.h"

#include <math.h>

enum { MOST_ROWS = 64, LEAST_ROWS = 8, KEYS = 64, ROOM = 240 << 10 };

typedef struct attention {
    fx_lk *c;
    fx_op *scores, *softmax, *product;
    int rank, lanes, tile, vectors;      /* of the result; of a vector; rows and vectors of values whose sums are in registers */
    int64_t width, v_width, padded;      /* of q and k; of v, and that in whole vectors */
    int64_t rows, piece;         /* of a task; keys of a piece */
    fx_kop *index[FX_MAX_RANK];  /* outer axes of the result */
    fx_kop *row0, *n_rows, *n_keys;
    fx_kop *q, *k, *v, *s, *acc, *part, *greatest, *sum;         /* arrays: part is [rows, KEYS] */
} attention;

static fx_kop *num(attention *a, int64_t n) { return fx_lk_num(a->c, n); }
static fx_kop *times(attention *a, fx_kop *x, int64_t n) { return fx_lk_mul(a->c, x, num(a, n)); }
static fx_kop *plus(attention *a, fx_kop *x, fx_kop *y) { return fx_lk_add(a->c, x, y); }
static fx_kop *least(attention *a, fx_kop *x, fx_kop *y) { return op2(a->c, FX_KIR_MIN, x, y); }
static fx_kop *f32(attention *a, fx_kop *x) { return x ? fx_kir_convert(a->c->m, x, FX_F32) : NULL; }
static fx_kop *load(attention *a, fx_kop *from, fx_kop *i, fx_kop *j) { return fx_lk_load2(a->c, from, i, j, 1); }
static void store(attention *a, fx_kop *to, fx_kop *x, fx_kop *i, fx_kop *j) { fx_lk_store2(a->c, to, x, i, j); }
static fx_lk_loop in_order(attention *a, fx_kop *n) { return fx_lk_in_order(a->c, n); }
static fx_lk_loop together(attention *a, fx_kop *from, fx_kop *n) { return fx_lk_together(a->c, from, n); }
static fx_lk_loop when(attention *a, fx_kop *cond) { return fx_lk_when(a->c, cond); }
static void leave(attention *a, const fx_lk_loop *l) { fx_lk_end_loop(a->c, l); }

/* Rows and columns of operand i of op, in f32. */
static void take(attention *a, const fx_op *op, int i, fx_kop *to, fx_kop *row, fx_kop *rows, fx_kop *col, fx_kop *cols)
{
    fx_lk_take(a->c, &(fx_lk_piece){ .v = fx_op_in(op, i), .index = a->index, .rank = a->rank, .row = row, .rows = rows, .col = col, .cols = cols,
                                     .t = FX_F32 }, to);
}

/* ---- Scores ------------------------------------------------------------------------------------------------------------ */

/* What v becomes at (row, key), if what it is made of element by element, 'below', is x there; in f32. */
static fx_kop *made_of(attention *a, fx_value *v, fx_value *below, fx_kop *x, fx_kop *row, fx_kop *key)
{
    fx_kop *y = x ? fx_kir_convert(a->c->m, x, below->type.dtype) : NULL;

    a->index[a->rank - 2] = row;
    a->index[a->rank - 1] = key;
    fx_lk_remember(a->c, below, 0, a->index, a->rank, y);
    return f32(a, v == below ? y : fx_lk_value(a->c, v, a->index));
}

/* s[.., at..] for a block of keys from 'first' + 'at' on; -inf beyond the last one. */
static void score_block(attention *a, fx_kop *first, fx_kop *at, fx_kop *count)
{
    fx_kop *key0 = plus(a, first, at), *s;
    fx_lk_loop r, j;

    take(a, a->scores, 1, a->k, num(a, 0), num(a, a->width), key0, count);
    fx_lk_multiply(a->c, &(fx_lk_factors){ .x = a->q, .y = a->k, .to = a->s, .from = num(a, 0), .n = num(a, a->width), .at = at, .rows = a->n_rows,
                                           .most_rows = a->rows, .cols = KEYS, .lanes = a->lanes, .tile = a->tile, .t = FX_F32,
                                           .vectors = fx_lk_tile_vectors(a->lanes, a->tile, KEYS) });
    r = in_order(a, a->n_rows);
    j = together(a, num(a, 0), count);
    s = load(a, a->s, r.i, plus(a, at, j.i));
    s = made_of(a, fx_op_in(a->softmax, 0), &a->scores->out[0], s, plus(a, a->row0, r.i), plus(a, key0, j.i));
    store(a, a->s, s, r.i, plus(a, at, j.i));
    leave(a, &j);
    j = together(a, count, num(a, KEYS));
    store(a, a->s, fx_kir_float(a->c->m, fx_ktype_of(FX_F32, 1), -INFINITY), r.i, plus(a, at, j.i));
    leave(a, &j);
    leave(a, &r);
}

/* The blocks of a piece of 'count' keys: where one begins, and how many keys it has. (A fx_lk_loop over all that a piece may have shows at once
 * that they are within it.) */
typedef struct block {
    fx_lk_loop all, some;
    fx_kop *at, *count;
} block;

static block blocks(attention *a, fx_kop *count)
{
    block b = { .all = in_order(a, num(a, a->piece / KEYS)) };

    b.at = times(a, b.all.i, KEYS);
    b.some = when(a, op2(a->c, FX_KIR_LT, b.at, count));
    b.count = least(a, num(a, KEYS), fx_lk_sub(a->c, count, b.at));
    return b;
}

static void leave_block(attention *a, const block *b)
{
    leave(a, &b->some);
    leave(a, &b->all);
}

static void score_piece(attention *a, fx_kop *first, fx_kop *count)
{
    block b = blocks(a, count);

    score_block(a, first, b.at, b.count);
    leave_block(a, &b);
}

/* ---- Softmax --------------------------------------------------------------------------------------------------------------- */

/* part[r, lane] for all rows. */
static void fill_parts(attention *a, fx_kop *x)
{
    fx_lk_loop r = in_order(a, a->n_rows), j = together(a, num(a, 0), num(a, KEYS));

    store(a, a->part, x, r.i, j.i);
    leave(a, &j);
    leave(a, &r);
}

/* The lanes take in a piece of scores; exponentials of them, if there is a greatest already. */
static void combine_piece(attention *a, fx_kop *count, bool exponentials)
{
    fx_kop *s, *big = NULL, *zero = fx_kir_float(a->c->m, fx_ktype_of(FX_F32, 1), 0);
    fx_lk_loop r = in_order(a, a->n_rows), j;
    block b;

    if (exponentials)
        big = fx_kir_load(a->c->m, a->greatest, &r.i, 1, 1, NULL);
    b = blocks(a, count);
    j = together(a, num(a, 0), num(a, KEYS));
    s = load(a, a->s, r.i, plus(a, b.at, j.i));
    if (exponentials) {
        s = op1(a->c, FX_KIR_EXP, op2(a->c, FX_KIR_SUB, s, big));
        s = select3(a->c, op2(a->c, FX_KIR_LT, j.i, b.count), s, zero);
        store(a, a->s, s, r.i, plus(a, b.at, j.i));
    }
    store(a, a->part, op2(a->c, exponentials ? FX_KIR_ADD : FX_KIR_MAX, load(a, a->part, r.i, j.i), s), r.i, j.i);
    leave(a, &j);
    leave_block(a, &b);
    leave(a, &r);
}

/* to[r] = the lanes of row r together, as a reduction has it. */
static void finish_parts(attention *a, fx_kir_combine kind, fx_kop *to)
{
    fx_lk_loop r = in_order(a, a->n_rows);
    fx_lk_fold f = fx_lk_fold_begin(a->c, kind, KEYS, FX_F32, num(a, KEYS));
    fx_kop *y = fx_lk_fold_end(a->c, &f, load(a, a->part, r.i, f.k), NULL);

    fx_kir_store(a->c->m, to, y, &r.i, 1, NULL);
    leave(a, &r);
}

/* s becomes what v's rows are weighed by. */
static void weigh_piece(attention *a, fx_kop *first, fx_kop *count)
{
    fx_lk_loop r = in_order(a, a->n_rows), j;
    fx_kop *sum = fx_kir_load(a->c->m, a->sum, &r.i, 1, 1, NULL), *s;

    j = together(a, num(a, 0), count);
    s = op2(a->c, FX_KIR_DIV, load(a, a->s, r.i, j.i), sum);
    s = made_of(a, fx_op_in(a->product, 0), &a->softmax->out[0], s, plus(a, a->row0, r.i), plus(a, first, j.i));
    store(a, a->s, s, r.i, j.i);
    leave(a, &j);
    leave(a, &r);
}

static void add_values(attention *a, fx_kop *first, fx_kop *count)
{
    block b = blocks(a, count);

    take(a, a->product, 1, a->v, plus(a, first, b.at), b.count, num(a, 0), num(a, a->v_width));
    fx_lk_multiply(a->c, &(fx_lk_factors){ .x = a->s, .y = a->v, .to = a->acc, .from = b.at, .n = b.count, .at = num(a, 0), .rows = a->n_rows,
                                           .most_rows = a->rows,
                                           .cols = a->padded, .lanes = a->lanes, .tile = a->tile, .vectors = a->vectors, .t = FX_F32, .more = true });
    leave_block(a, &b);
}

/* ---- Turns --------------------------------------------------------------------------------------------------------------------- */

static void turn_piece(attention *a, fx_kop *turn, fx_kop *first)
{
    fx_kop *count = least(a, num(a, a->piece), fx_lk_sub(a->c, a->n_keys, first)), *many, *is0, *is2;
    fx_lk_loop l;

    many = op2(a->c, FX_KIR_LT, num(a, a->piece), a->n_keys);
    is0 = op2(a->c, FX_KIR_EQ, turn, num(a, 0));
    is2 = op2(a->c, FX_KIR_EQ, turn, num(a, 2));
    l = when(a, op2(a->c, FX_KIR_OR, is0, many));
    score_piece(a, first, count);
    leave(a, &l);
    l = when(a, is0);
    combine_piece(a, count, false);
    leave(a, &l);
    l = when(a, op2(a->c, FX_KIR_OR, op2(a->c, FX_KIR_EQ, turn, num(a, 1)), op2(a->c, FX_KIR_AND, is2, many)));
    combine_piece(a, count, true);
    leave(a, &l);
    l = when(a, is2);
    weigh_piece(a, first, count);
    add_values(a, first, count);
    leave(a, &l);
}

static void take_turns(attention *a)
{
    fx_ktype one = fx_ktype_of(FX_F32, 1);
    fx_lk_loop t = in_order(a, num(a, 3)), p, l;
    fx_kop *is0 = op2(a->c, FX_KIR_EQ, t.i, num(a, 0));

    fill_parts(a, select3(a->c, is0, fx_kir_float(a->c->m, one, -INFINITY), fx_kir_float(a->c->m, one, 0)));
    p = in_order(a, fx_lk_ceil_div(a->c, a->n_keys, a->piece));
    turn_piece(a, t.i, times(a, p.i, a->piece));
    leave(a, &p);
    l = when(a, is0);
    finish_parts(a, FX_KIR_GREATEST, a->greatest);
    leave(a, &l);
    l = when(a, op2(a->c, FX_KIR_EQ, t.i, num(a, 1)));
    finish_parts(a, FX_KIR_SUM, a->sum);
    leave(a, &l);
    leave(a, &t);
}

/* ---- The kernel -------------------------------------------------------------------------------------------------------------------- */

static fx_kop *array(attention *a, const char *name, int64_t rows, int64_t cols)
{
    return fx_kir_alloc(a->c->m, FX_KIR_PRIVATE, FX_F32, (int64_t const[]){ rows, cols }, cols ? 2 : 1, fx_str_of(name));
}

static void make_arrays(attention *a)
{
    a->q = array(a, "q", a->rows, a->width);
    a->k = array(a, "k", a->width, KEYS);
    a->v = array(a, "v", KEYS, a->padded);
    a->s = array(a, "s", a->rows, a->piece);
    a->acc = array(a, "acc", a->rows, a->padded);
    a->part = array(a, "part", a->rows, KEYS);
    a->greatest = array(a, "greatest", a->rows, 0);
    a->sum = array(a, "sum", a->rows, 0);
}

/* Keys that there is room for beside the other arrays, in whole blocks. */
static int64_t room_for(const attention *a, int64_t rows)
{
    int64_t others = rows * (a->width + a->padded + KEYS + 2) + KEYS * (a->width + a->padded);

    return (ROOM / 4 - others) / rows / KEYS * KEYS;
}

/* The fewer rows, the more keys have room. Where their number isn't known: a few rows. */
static void choose_sizes(attention *a, fx_dim rows, fx_dim keys)
{
    int64_t all = fx_dim_is_static(keys) ? FX_MAX((keys.n + KEYS - 1) / KEYS * KEYS, KEYS) : INT64_MAX;

    a->rows = fx_dim_is_static(keys) ? MOST_ROWS : 2 * LEAST_ROWS;
    while (a->rows > LEAST_ROWS && (fx_dim_is_static(keys) && room_for(a, a->rows) < all))
        a->rows /= 2;
    while (a->rows > LEAST_ROWS && fx_dim_is_static(rows) && rows.n <= a->rows / 2)
        a->rows /= 2;
    a->piece = FX_MIN(all, room_for(a, a->rows));
}

static void store_result(attention *a, fx_kop *out, fx_kop *batch)
{
    fx_lk_loop r = in_order(a, a->n_rows), j = together(a, num(a, 0), num(a, a->v_width));
    fx_kop *y = load(a, a->acc, r.i, j.i);

    y = y ? fx_kir_convert(a->c->m, y, a->product->out[0].type.dtype) : NULL;
    fx_kir_store(a->c->m, out, y, (fx_kop *const[]){ batch, plus(a, a->row0, r.i), j.i }, 3, NULL);
    leave(a, &j);
    leave(a, &r);
}

void fx_fuse_make_attention(fx_lk *c, const fx_fused *f, const int32_t *tensor)
{
    const fx_type *y = &f->part[2]->out[0].type;
    fx_dim dim[3] = { fx_lower_rows(c->l, y, y->rank - 2), y->dim[y->rank - 2], y->dim[y->rank - 1] };
    int lanes = FX_MIN(FX_MAX(c->l->lanes, 1), KEYS / 2);
    attention a = { .c = c, .scores = f->part[0], .softmax = f->part[1], .product = f->part[2], .rank = y->rank, .lanes = lanes,
                    .width = fx_type_last(&fx_op_in(f->part[0], 0)->type).n, .v_width = dim[2].n };
    fx_dim keys = fx_type_last(&f->part[0]->out[0].type);
    fx_kop *out, *blocks_of_rows, *n, *batch;

    a.tile = fx_lk_tile_rows(lanes, dim[1]);
    a.vectors = fx_lk_tile_vectors(lanes, a.tile, a.v_width);
    a.padded = (a.v_width + a.vectors * lanes - 1) / (a.vectors * lanes) * (a.vectors * lanes);
    choose_sizes(&a, dim[1], keys);
    out = fx_lk_buffer_as(c, tensor[0], FX_KIR_OUT, dim, 3);
    fx_kir_at(c->m, c->k->grid);
    n = fx_lk_mul(c, fx_lk_size(c, dim[0]), fx_lk_ceil_div(c, fx_lk_size(c, dim[1]), a.rows));
    fx_kir_yield(c->m, &n, 1);
    fx_kir_at(c->m, c->k->body);
    make_arrays(&a);
    blocks_of_rows = fx_lk_ceil_div(c, fx_lk_size(c, dim[1]), a.rows);
    batch = y->rank == 2 ? num(&a, 0) : fx_lk_div(c, c->k->task, blocks_of_rows);
    a.row0 = times(&a, y->rank == 2 ? c->k->task : fx_lk_rem(c, c->k->task, blocks_of_rows), a.rows);
    a.n_rows = least(&a, num(&a, a.rows), fx_lk_sub(c, fx_lk_size(c, dim[1]), a.row0));
    a.n_keys = fx_lk_size(c, keys);
    fx_lk_unravel(c, batch, y->dim, y->rank - 2, a.index);
    take(&a, a.scores, 0, a.q, a.row0, a.n_rows, num(&a, 0), num(&a, a.width));
    take_turns(&a);
    store_result(&a, out, batch);
}
