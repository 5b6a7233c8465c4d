/* shape.c - the table of shape rules, and those of the ops that language models are made of:
 * what an op's results are, and whether its operands and attributes make sense together. */
#include "graph/shape_int.h"

#include "tensor/args.h"

static bool bad(fx_module *m, const fx_op *op, const char *what)
{
    return fx_rule_bad(m, op, "%s", what);
}

static bool is(const fx_type *t, fx_dtype dtype, int rank)
{
    return t->dtype == dtype && t->rank == rank;
}

static bool is_rows(const fx_type *t, fx_dtype dtype)
{
    return is(t, dtype, 2);
}

static bool same_dim(fx_dim a, fx_dim b)
{
    return fx_dim_eq(a, b);
}

static bool is_vec(const fx_type *t, fx_dim n)
{
    return t->rank == 1 && same_dim(t->dim[0], n);
}

/* These ops know no sizes by name. */
static bool sizes_are_numbers(fx_module *m, const fx_op *op)
{
    for (int i = 0; i < op->n_attrs; i++) {
        if (fx_attr_rows[op->attrs[i].key].kind == FX_ATTR_DIM && !fx_dim_is_static(op->attrs[i].u.dim))
            return fx_rule_bad(m, op, "%s must be a number", fx_attr_rows[op->attrs[i].key].text);
    }
    return true;
}

/* Whether w may be the weights of an op: floats, or quantized blocks. */
static bool is_weight_dtype(fx_dtype t)
{
    return t < FX_DTYPE_COUNT && (fx_dtype_is_float(t) || fx_dtype_is_quant(t));
}

/* ---- Element by element ---------------------------------------------------------------------- */

bool fx_rule_pair(fx_module *m, fx_op *op)
{
    if (!fx_type_eq(in_type(op, 0), in_type(op, 1)) || in_type(op, 0)->dtype != FX_F32)
        return bad(m, op, "expected two of the same shape in f32");
    return set_out(op, 0, *in_type(op, 0));
}

bool fx_rule_clamp(fx_module *m, fx_op *op)
{
    double limit = fx_op_f(op, FX_A_LIMIT);

    if (!(limit > 0 && isfinite(limit)))
        return bad(m, op, "limit must be a positive number");
    return fx_rule_same(m, op);
}

/* ---- By row --------------------------------------------------------------------------------------- */

bool fx_rule_embed(fx_module *m, fx_op *op)
{
    const fx_type *tokens = in_type(op, 0), *table = in_type(op, 1);

    if (!is(tokens, FX_I32, 1) || table->rank != 2 || !is_weight_dtype(table->dtype))
        return bad(m, op, "expected tokens i32[n] and a table of two axes");
    return set_out(op, 0, fx_type2(FX_F32, tokens->dim[0], table->dim[1]));
}

/* Weights of a norm over the last axis of x: one number a column. */
static bool norm_fits(fx_module *m, const fx_op *op, const fx_type *x, const fx_type *w)
{
    if (x->dtype != FX_F32 || x->rank < 1 || !is_floats(w) || w->rank != 1)
        return bad(m, op, "expected f32 rows and a vector of floats");
    if (!in_range(fx_op_f(op, FX_A_EPS), 0, 1e9) || !isfinite(fx_op_f(op, FX_A_OFFSET)))
        return bad(m, op, "eps must be a number >= 0, offset a finite one");
    return fx_dim_eq(fx_type_last(x), w->dim[0]) || bad(m, op, "the last axis must be len(w)");
}

bool fx_rule_add_norm(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *r = in_type(op, 1);

    if (r && !fx_type_eq(x, r))
        return bad(m, op, "x and residual must be of one shape");
    return norm_fits(m, op, x, in_type(op, 2)) && set_out(op, 0, *x) && set_out(op, 1, *x);
}

static bool quantizes(fx_module *m, const fx_op *op, const fx_type *x, fx_type *q)
{
    fx_dim cols = fx_type_last(x);

    if (x->dtype != FX_F32 || x->rank != 2 || !fx_dim_is_static(cols) || cols.n % 32)
        return bad(m, op, "expected f32 rows of a multiple of 32 columns");
    *q = *x;
    q->dtype = FX_Q8_ACT;
    return true;
}

bool fx_rule_norm_quant(fx_module *m, fx_op *op)
{
    fx_type q;

    return fx_rule_add_norm(m, op) && quantizes(m, op, in_type(op, 0), &q) && set_out(op, 2, q);
}

bool fx_rule_quant(fx_module *m, fx_op *op)
{
    fx_type q;

    return quantizes(m, op, in_type(op, 0), &q) && set_out(op, 0, q);
}

/* ---- Views and layout ------------------------------------------------------------------------------- */

/* Columns of a head of x, of which 'need' are used: one of each of n heads, or one for all; 0: neither. */
static int64_t head_columns(const fx_type *x, int64_t n, int64_t need)
{
    int64_t cols = is_rows(x, FX_F32) && fx_dim_is_static(x->dim[1]) ? x->dim[1].n : 0;

    return cols % n == 0 && cols / n >= need ? cols / n : cols >= need ? cols : 0;
}

bool fx_rule_splice(fx_module *m, fx_op *op)
{
    const fx_type *a = in_type(op, 0), *b = in_type(op, 1);
    int64_t n = fx_op_i(op, FX_A_HEADS), start = fx_op_i(op, FX_A_START), len = fx_op_i(op, FX_A_LENGTH);
    int64_t more = fx_op_i(op, FX_A_MORE);

    if (!sizes_are_numbers(m, op))
        return false;
    if (n < 1 || n > 1 << 20 || start < 0 || start > 1 << 20 || len < 1 || len > 1 << 20 || more < 0 || more > 1 << 20 ||
        !more != !b)
        return bad(m, op, "heads, start, length or more out of range");
    if (!head_columns(a, n, start + len) || (b && (!head_columns(b, n, more) || !same_dim(a->dim[0], b->dim[0]))))
        return bad(m, op, "expected f32 rows whose heads have these columns");
    return set_out(op, 0, fx_type2(FX_F32, a->dim[0], fx_dim_of(n * (len + more))));
}

/* Rows of a weight; the last row must be one of w's. */
bool fx_rule_rows(fx_module *m, fx_op *op)
{
    fx_type y = *in_type(op, 0);
    int64_t start = fx_op_i(op, FX_A_START), n = fx_op_i(op, FX_A_LENGTH), run = fx_op_i(op, FX_A_RUN);
    int64_t stride = fx_op_i(op, FX_A_STRIDE), last;

    if (!sizes_are_numbers(m, op))
        return false;
    run = run ? run : n;
    stride = stride ? stride : run;
    if (y.rank < 1 || y.rank > 2 || !is_weight_dtype(y.dtype) || !fx_dim_is_static(y.dim[0]) ||
        (y.rank == 1 && fx_dtype_is_quant(y.dtype)))
        return bad(m, op, "expected weights of one or two axes");
    if (start < 0 || n < 1 || run < 1 || stride < run || n > y.dim[0].n || stride > y.dim[0].n || start > y.dim[0].n)
        return bad(m, op, "its numbers are out of range");
    last = start + (n - 1) / run * stride + (n - 1) % run;
    if (last >= y.dim[0].n)
        return bad(m, op, "its rows leave w");
    y.dim[0] = fx_dim_of(n);
    return set_out(op, 0, y);
}

/* ---- Contractions --------------------------------------------------------------------------------------- */

/* w [n, k] against x [rows, k]; quantized activations need quantized weights. */
static bool product_fits(fx_module *m, const fx_op *op, const fx_type *x, const fx_type *w)
{
    if (!is_rows(x, FX_F32) && !is_rows(x, FX_Q8_ACT))
        return bad(m, op, "expected x as rows of f32 or q8");
    if (w->rank != 2 || !is_weight_dtype(w->dtype))
        return bad(m, op, "expected weights of two axes");
    if (!same_dim(x->dim[1], w->dim[1]))
        return bad(m, op, "the last axes of x and w differ");
    if (x->dtype == FX_Q8_ACT && !fx_dtype_is_quant(w->dtype))
        return bad(m, op, "quantized activations need quantized weights");
    return true;
}

bool fx_rule_linear(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1), *bias = in_type(op, 2), *r = in_type(op, 3);
    const fx_type *plain = in_type(op, 4);
    fx_type y;

    if (plain && (!is_rows(plain, FX_F32) || !same_dim(plain->dim[0], x->dim[0]) || !same_dim(plain->dim[1], x->dim[1])))
        return bad(m, op, "plain must be rows of f32 in the shape of x");
    if (!product_fits(m, op, x, w))
        return false;
    y = fx_type2(FX_F32, x->dim[0], w->dim[0]);
    if (bias && (!is_vec(bias, w->dim[0]) || bias->dtype >= FX_DTYPE_COUNT || !fx_dtype_is_float(bias->dtype)))
        return bad(m, op, "bias must be a vector of floats as long as w has rows");
    if (r && !fx_type_eq(r, &y))
        return bad(m, op, "residual must have the shape of the product");
    if (!isfinite(fx_op_f(op, FX_A_SCALE)))
        return bad(m, op, "scale must be a finite number");
    return set_out(op, 0, y);
}

bool fx_rule_gate(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *a = in_type(op, 1), *b = in_type(op, 2);

    if (!product_fits(m, op, x, a))
        return false;
    if (!fx_type_eq(a, b))
        return bad(m, op, "both weights must be of one type");
    return set_out(op, 0, fx_type2(FX_F32, x->dim[0], a->dim[0]));
}

/* ---- Mixtures of experts -------------------------------------------------------------------------------- */

#define MAX_EXPERTS (1 << 16)

static bool is_float_vec(const fx_type *t, int64_t n)
{
    return is_vec(t, fx_dim_of(n)) && t->dtype < FX_DTYPE_COUNT && fx_dtype_is_float(t->dtype);
}

bool fx_rule_route(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *bias = in_type(op, 1);
    int64_t top = fx_op_i(op, FX_A_TOP), groups = fx_op_i(op, FX_A_GROUPS), kept = fx_op_i(op, FX_A_TOP_GROUPS), n;

    if (!is_rows(x, FX_F32) || !fx_dim_is_static(x->dim[1]) || x->dim[1].n < 1 || x->dim[1].n > MAX_EXPERTS)
        return bad(m, op, "expected f32 rows of logits");
    n = x->dim[1].n;
    if (groups < 1 || groups > FX_MAX_GROUPS || n % groups || kept < 1 || kept > groups ||
        fx_op_i(op, FX_A_GROUP_BEST) < 1 || fx_op_i(op, FX_A_GROUP_BEST) > n)
        return bad(m, op, "experts must be whole groups, of which some are kept");
    if (top < 1 || top > n / groups * kept)
        return bad(m, op, "top must be at least 1 and at most the experts of the groups that are kept");
    if (bias && !is_float_vec(bias, n))
        return bad(m, op, "bias must be a vector of floats, one for each expert");
    if (fx_op_i(op, FX_A_SCORE) < 0 || fx_op_i(op, FX_A_SCORE) > FX_ROUTE_SOFTMAX_TOP ||
        !isfinite(fx_op_f(op, FX_A_SCALE)))
        return bad(m, op, "no such score, or scale isn't a finite number");
    return set_out(op, 0, fx_type2(FX_F32, x->dim[0], fx_dim_of(2 * top)));
}

/* Weights of n experts as [n, rows, cols] or [n * rows, cols]; turned: [n, cols, rows]. */
static bool expert_matrix(const fx_type *t, int64_t n, bool turned, int64_t *rows, int64_t *cols)
{
    for (int i = 0; i < t->rank; i++) {
        if (!fx_dim_is_static(t->dim[i]) || t->dim[i].n < 1)
            return false;
    }
    if (!is_weight_dtype(t->dtype) || (t->rank != 3 && (t->rank != 2 || turned)))
        return false;
    *rows = t->rank == 3 ? t->dim[turned ? 2 : 1].n : t->dim[0].n / n;
    *cols = t->dim[turned ? 1 : t->rank - 1].n;
    return t->rank == 3 ? t->dim[0].n == n : t->dim[0].n % n == 0 && *rows > 0;
}

/* A bias of each expert: [n, rows]. */
static bool expert_bias_fits(const fx_type *t, int64_t n, int64_t rows)
{
    return !t || (t->rank == 2 && t->dtype < FX_DTYPE_COUNT && fx_dtype_is_float(t->dtype) &&
                  fx_dim_eq(t->dim[0], fx_dim_of(n)) && fx_dim_eq(t->dim[1], fx_dim_of(rows)));
}

bool fx_rule_experts(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *routes = in_type(op, 1), *up = in_type(op, 3);
    int64_t n = fx_op_i(op, FX_A_EXPERTS), top = fx_op_i(op, FX_A_TOP), layout = fx_op_i(op, FX_A_LAYOUT);
    int64_t gate_rows, gate_cols, up_rows, up_cols, rows, cols;
    bool turned = layout == FX_EXPERTS_TRANSPOSED;

    if (n < 1 || n > MAX_EXPERTS || top < 1 || top > n || layout < 0 || layout > FX_EXPERTS_BLOCKS ||
        fx_op_i(op, FX_A_ACT) < 0 || fx_op_i(op, FX_A_ACT) > FX_GLU_CLAMPED ||
        !isfinite(fx_op_f(op, FX_A_SCALE)) || !in_range(fx_op_f(op, FX_A_LIMIT), 0, 1e30))
        return bad(m, op, "experts, top, layout, act, scale or limit out of range");
    if (!is_rows(x, FX_F32) || !is_rows(routes, FX_F32) || !same_dim(x->dim[0], routes->dim[0]) ||
        !fx_dim_eq(routes->dim[1], fx_dim_of(2 * top)))
        return bad(m, op, "expected f32 rows and as many routes of 2 * top columns");
    if (!up != (layout != FX_EXPERTS_APART))
        return bad(m, op, "up is an operand where gate and up lie apart, and only there");
    if (!expert_matrix(in_type(op, 2), n, turned, &gate_rows, &gate_cols) ||
        !expert_matrix(in_type(op, 4), n, turned, &rows, &cols) ||
        (up && (!expert_matrix(up, n, false, &up_rows, &up_cols) || up_rows != gate_rows || up_cols != gate_cols)))
        return bad(m, op, "expected weights of as many experts");
    if (!fx_dim_eq(x->dim[1], fx_dim_of(gate_cols)) || cols * (up ? 1 : 2) != gate_rows)
        return bad(m, op, "gate must fit x, down what gate and up make");
    if (!expert_bias_fits(in_type(op, 5), n, gate_rows) || !expert_bias_fits(in_type(op, 7), n, rows) ||
        (in_type(op, 6) && (!up || !expert_bias_fits(in_type(op, 6), n, gate_rows))))
        return bad(m, op, "biases must be floats [experts, rows of the weight]");
    return set_out(op, 0, fx_type2(FX_F32, x->dim[0], fx_dim_of(rows)));
}

/* ---- Products by head ----------------------------------------------------------------------------------- */

bool fx_rule_by_head(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1);
    int64_t n = fx_op_i(op, FX_A_HEADS), start = fx_op_i(op, FX_A_START), len = fx_op_i(op, FX_A_LENGTH), rows, cols;
    bool transposed = fx_op_i(op, FX_A_TRANSPOSED) == 1;

    if (!sizes_are_numbers(m, op))
        return false;
    if (n < 1 || n > 1 << 16 || fx_op_i(op, FX_A_TRANSPOSED) < 0 || fx_op_i(op, FX_A_TRANSPOSED) > 1 ||
        !expert_matrix(w, n, false, &rows, &cols))
        return bad(m, op, "expected weights of so many heads");
    if (start < 0 || len < 1 || start > rows || len > rows - start)
        return bad(m, op, "start and length leave a head's rows");
    if (!is_rows(x, FX_F32) || !fx_dim_eq(x->dim[1], fx_dim_of(n * (transposed ? len : cols))))
        return bad(m, op, "expected f32 rows whose heads fit the weights");
    return set_out(op, 0, fx_type2(FX_F32, x->dim[0], fx_dim_of(n * (transposed ? cols : len))));
}

/* ---- The sequence's state ------------------------------------------------------------------------------- */

static bool is_count(int64_t n)
{
    return n >= 1 && n <= 1 << 20;
}

/* Rows whose columns are n heads of 'dim'. */
static bool is_heads(const fx_type *t, int64_t n, int64_t dim)
{
    return t && is_rows(t, FX_F32) && fx_dim_eq(t->dim[1], fx_dim_of(n * dim));
}

static bool rotates(fx_module *m, const fx_op *op, const fx_type *inv_freq)
{
    int64_t rot = fx_op_i(op, FX_A_ROT_DIM), dim = fx_op_i(op, FX_A_HEAD_DIM);
    int64_t style = fx_op_i(op, FX_A_STYLE), long_from = fx_op_i(op, FX_A_LONG_FROM);
    double growth = fx_op_f(op, FX_A_GROWTH);

    if (!is_count(dim) || rot < 0 || rot > dim || rot % 2)
        return bad(m, op, "rot_dim must be even and at most head_dim");
    if (style != FX_ROPE_HALF && style != FX_ROPE_PAIRS)
        return bad(m, op, "no such style");
    if (!isfinite(fx_op_f(op, FX_A_ATTN_SCALE)))
        return bad(m, op, "attn_scale must be a finite number");
    if (!in_range((double)long_from, 0, INT32_MAX) || !in_range(growth, 0, 1e9) || (growth > 0 && rot < 4))
        return bad(m, op, "long_from or growth out of range");
    if (long_from > 0 && growth == 0)
        rot *= 2;                        /* of short sequences, then of long ones */
    if (rot && (!inv_freq || inv_freq->dtype != FX_F32 || !is_vec(inv_freq, fx_dim_of(rot / 2))))
        return bad(m, op, "inv_freq must be f32[rot_dim/2], or twice that where long sequences have their own");
    return true;
}

bool fx_rule_rope(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    int64_t dim = fx_op_i(op, FX_A_HEAD_DIM);

    if (!rotates(m, op, in_type(op, 1)))
        return false;
    if (!is_rows(x, FX_F32) || !fx_dim_is_static(x->dim[1]) || x->dim[1].n % dim)
        return bad(m, op, "expected f32 rows of whole heads");
    return set_out(op, 0, *x);
}

bool fx_rule_kv_store(fx_module *m, fx_op *op)
{
    const fx_type *k = in_type(op, 0), *v = in_type(op, 1) ? in_type(op, 1) : k;
    int64_t heads = fx_op_i(op, FX_A_KV_HEADS);

    if (!is_rows(k, FX_F32) || !is_rows(v, FX_F32) || !same_dim(k->dim[0], v->dim[0]) || !is_chain(in_type(op, 2)))
        return bad(m, op, "expected k and v as f32 of the same rows, and a chain");
    if (!is_count(heads) || !fx_dim_is_static(k->dim[1]) || !fx_dim_is_static(v->dim[1]) || k->dim[1].n % heads ||
        v->dim[1].n % heads || fx_op_i(op, FX_A_LAYER) < 0)
        return bad(m, op, "k and v must be whole heads");
    return set_out(op, 0, fx_type0(FX_CHAIN));
}

static bool heads_fit(fx_module *m, const fx_op *op)
{
    int64_t heads = fx_op_i(op, FX_A_HEADS), kv = fx_op_i(op, FX_A_KV_HEADS);

    if (!is_count(heads) || !is_count(kv) || heads % kv || !is_count(fx_op_i(op, FX_A_HEAD_DIM)) ||
        !is_count(fx_op_i(op, FX_A_V_DIM)) || fx_op_i(op, FX_A_LAYER) < 0)
        return bad(m, op, "heads must be a multiple of kv_heads, all sizes positive");
    return true;
}

bool fx_rule_attend(fx_module *m, fx_op *op)
{
    const fx_type *q = in_type(op, 0);
    int64_t heads = fx_op_i(op, FX_A_HEADS);

    if (!heads_fit(m, op))
        return false;
    if (!is_heads(q, heads, fx_op_i(op, FX_A_HEAD_DIM)) || !is_chain(in_type(op, 1)))
        return bad(m, op, "expected q as f32 rows of heads * head_dim columns, and a chain");
    if (in_type(op, 2) && (in_type(op, 2)->dtype != FX_F32 || !is_vec(in_type(op, 2), fx_dim_of(heads))))
        return bad(m, op, "slopes must be f32[heads]");
    if (in_type(op, 3) && !is_float_vec(in_type(op, 3), heads))
        return bad(m, op, "sinks must be a vector of floats, one for each head");
    if (fx_op_i(op, FX_A_LATENT) != 0 &&
        (fx_op_i(op, FX_A_LATENT) != 1 || fx_op_i(op, FX_A_V_DIM) > fx_op_i(op, FX_A_HEAD_DIM)))
        return bad(m, op, "latent must be 0 or 1, and then v_dim at most head_dim");
    if (!isfinite(fx_op_f(op, FX_A_SCALE)) || !in_range(fx_op_f(op, FX_A_SOFTCAP), 0, 1e9) ||
        fx_op_i(op, FX_A_WINDOW) < -1 || fx_op_i(op, FX_A_WINDOW) > INT32_MAX)
        return bad(m, op, "scale, softcap or window out of range");
    return set_out(op, 0, fx_type2(FX_F32, q->dim[0], fx_dim_of(heads * fx_op_i(op, FX_A_V_DIM))));
}

static bool head_norm_fits(const fx_type *w, int64_t dim)
{
    return !w || (is_vec(w, fx_dim_of(dim)) && w->dtype < FX_DTYPE_COUNT && fx_dtype_is_float(w->dtype));
}

bool fx_rule_rope_store(fx_module *m, fx_op *op)
{
    const fx_type *q = in_type(op, 0), *k = in_type(op, 1), *v = in_type(op, 2);
    int64_t kv, dim;

    if (!heads_fit(m, op) || !rotates(m, op, in_type(op, 5)))
        return false;
    kv = fx_op_i(op, FX_A_KV_HEADS);
    dim = fx_op_i(op, FX_A_HEAD_DIM);
    if (!is_heads(q, fx_op_i(op, FX_A_HEADS), dim) || !is_heads(k, kv, dim) ||
        (v && (!is_heads(v, kv, fx_op_i(op, FX_A_V_DIM)) || !same_dim(q->dim[0], v->dim[0]))) ||
        !same_dim(q->dim[0], k->dim[0]) || !is_chain(in_type(op, 6)))
        return bad(m, op, "expected q, k and v as f32 of the same rows in whole heads, and a chain");
    if (!head_norm_fits(in_type(op, 3), dim) || !head_norm_fits(in_type(op, 4), dim))
        return bad(m, op, "q_norm and k_norm must be vectors of head_dim floats");
    if (!in_range(fx_op_f(op, FX_A_EPS), 0, 1e9) || !isfinite(fx_op_f(op, FX_A_OFFSET)))
        return bad(m, op, "eps must be a number >= 0, offset a finite one");
    if (!in_range((double)fx_op_i(op, FX_A_NORM_LAST), 0, 1))
        return bad(m, op, "norm_last must be 0 or 1");
    return set_out(op, 0, *q) && set_out(op, 1, fx_type0(FX_CHAIN));
}

static bool is_flag(int64_t n)
{
    return n == 0 || n == 1;
}

/* A vector of n floats, or none. */
static bool is_vector_of(const fx_type *t, int64_t n)
{
    return !t || (is_floats(t) && is_vec(t, fx_dim_of(n)));
}

/* f32 rows; *cols: how many columns. */
static bool rows_of_cols(const fx_type *t, int64_t *cols)
{
    if (!is_rows(t, FX_F32) || !fx_dim_is_static(t->dim[1]) || t->dim[1].n < 1)
        return false;
    *cols = t->dim[1].n;
    return true;
}

bool fx_rule_conv1d(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *w = in_type(op, 1);
    int64_t cols;

    if (!rows_of_cols(x, &cols) || !is_chain(in_type(op, 3)) || fx_op_i(op, FX_A_LAYER) < 0)
        return bad(m, op, "expected x as f32 rows, and a chain");
    if (!is_floats(w) || w->rank < 2 || w->rank > 3 || !fx_dim_eq(w->dim[0], fx_dim_of(cols)) ||
        (w->rank == 3 && !fx_dim_eq(w->dim[1], fx_dim_of(1))) || !fx_dim_is_static(w->dim[w->rank - 1]) ||
        w->dim[w->rank - 1].n < 1 || w->dim[w->rank - 1].n > 64)
        return bad(m, op, "w must be floats, 1 to 64 for each column of x");
    if (!is_vector_of(in_type(op, 2), cols) || !is_flag(fx_op_i(op, FX_A_SILU)))
        return bad(m, op, "bias must be a number for each column; silu 0 or 1");
    return set_out(op, 0, *x) && set_out(op, 1, fx_type0(FX_CHAIN));
}

bool fx_rule_ssm_scan(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0), *a = in_type(op, 4);
    int64_t heads = fx_op_i(op, FX_A_HEADS), groups = fx_op_i(op, FX_A_GROUPS), cols, n;

    if (!rows_of_cols(x, &cols) || !is_count(heads) || cols % heads || !is_chain(in_type(op, 7)) ||
        fx_op_i(op, FX_A_LAYER) < 0 || !is_heads(in_type(op, 1), heads, 1))
        return bad(m, op, "expected x as f32 rows of whole heads, dt with a column each, and a chain");
    if (!rows_of_cols(in_type(op, 2), &n) || groups < 1 || heads % groups || n % groups ||
        !fx_type_eq(in_type(op, 2), in_type(op, 3)))
        return bad(m, op, "b and c must be f32 rows of n_state columns for each group of heads");
    if (!is_floats(a) || a->rank < 1 || a->rank > 2 || !fx_dim_eq(a->dim[0], fx_dim_of(heads)) ||
        (a->rank == 2 && !fx_dim_eq(a->dim[1], fx_dim_of(n / groups)) && !fx_dim_eq(a->dim[1], fx_dim_of(1))))
        return bad(m, op, "a must be floats, one or n_state for each head");
    if (!is_vector_of(in_type(op, 5), heads) || !is_vector_of(in_type(op, 6), heads) ||
        !is_flag(fx_op_i(op, FX_A_LOG_A)) || !(fx_op_f(op, FX_A_DT_MIN) <= fx_op_f(op, FX_A_DT_MAX)))
        return bad(m, op, "d and dt_bias must be a number for each head; dt_min at most dt_max");
    return set_out(op, 0, *x) && set_out(op, 1, fx_type0(FX_CHAIN));
}

bool fx_rule_delta_rule(fx_module *m, fx_op *op)
{
    const fx_type *q = in_type(op, 0), *v = in_type(op, 2);
    int64_t heads = fx_op_i(op, FX_A_HEADS), kv = fx_op_i(op, FX_A_KV_HEADS), k_cols, v_cols;

    if (!rows_of_cols(q, &k_cols) || !rows_of_cols(v, &v_cols) || !fx_type_eq(q, in_type(op, 1)) ||
        !same_dim(q->dim[0], v->dim[0]) || !is_chain(in_type(op, 7)) || fx_op_i(op, FX_A_LAYER) < 0)
        return bad(m, op, "expected q, k and v as f32 of the same rows, and a chain");
    if (!is_count(heads) || !is_count(kv) || heads % kv || k_cols % kv || v_cols % heads)
        return bad(m, op, "q and k must be whole key heads, v value heads, a multiple of those");
    if (!is_heads(in_type(op, 3), heads, 1) || !is_heads(in_type(op, 4), heads, 1) ||
        !is_vector_of(in_type(op, 5), heads) || !is_vector_of(in_type(op, 6), heads))
        return bad(m, op, "b, a, a_log and dt_bias must have a number for each value head");
    if (!is_flag(fx_op_i(op, FX_A_LOG_A)) || !is_flag(fx_op_i(op, FX_A_TILED)))
        return bad(m, op, "log_a and tiled must be 0 or 1");
    return set_out(op, 0, *v) && set_out(op, 1, fx_type0(FX_CHAIN));
}

bool fx_rule_gated_norm(fx_module *m, fx_op *op)
{
    const fx_type *x = in_type(op, 0);
    int64_t groups = fx_op_i(op, FX_A_GROUPS), cols;

    if (!rows_of_cols(x, &cols) || !fx_type_eq(x, in_type(op, 1)) || groups < 1 || cols % groups)
        return bad(m, op, "expected x and z as f32 rows of whole groups");
    if (!is_vector_of(in_type(op, 2), cols) && !is_vector_of(in_type(op, 2), cols / groups))
        return bad(m, op, "w must be as long as a group or as all columns");
    if (!in_range(fx_op_f(op, FX_A_EPS), 0, 1e9) || !is_flag(fx_op_i(op, FX_A_GATE_FIRST)))
        return bad(m, op, "eps must be a number >= 0, gate_first 0 or 1");
    return set_out(op, 0, *x);
}

/* ---- The table -------------------------------------------------------------------------------------------- */

typedef bool (*rule_fn)(fx_module *m, fx_op *op);
static const rule_fn rules[FX_OP_COUNT] = {
#define ATTR(key, text, kind, dflt)
#define OP(code, text, in, out, attrs, kind, rule, flags, doc) fx_rule_##rule,
#include "tensor/ops.def"
};

bool fx_shape_infer(fx_module *m, fx_op *op)
{
    for (int i = 0; i < op->n_in; i++) {
        const fx_value *v = op->in[i].value;

        if (v && v->type.buffer && !(fx_op_rows[op->code].flags & FX_OPF_BUFFERS))
            return fx_rule_bad(m, op, "takes values, not buffers");
    }
    return rules[op->code](m, op);
}

bool fx_terminator_check(fx_module *m, const fx_block *b)
{
    const fx_op *end = b->last;
    fx_opcode want = b->region && b->region->graph ? FX_OP_OUTPUT : FX_OP_YIELD;

    if (!end || !(fx_op_rows[end->code].flags & FX_OPF_END) || !b->region || (!b->region->graph && !b->region->op))
        return true;                     /* not complete, or not owned yet */
    if (end->code != want)
        return bad(m, end, want == FX_OP_OUTPUT ? "a graph ends in output" : "a block of an op ends in yield");
    return true;
}
