/* lower_fuse_products.c - patterns around products: attention from its pieces, and two products that are one in the end. */
#include "passes/lower_kir_int.h"

static bool is_f32_inside(const fx_value *v) { return fx_dtype_is_float(v->type.dtype) && fx_lk_wide(v->type.dtype) == FX_F32; }

/* The same batch axes, none of them broadcast. */
static bool same_outer(const fx_type *a, const fx_type *b)
{
    if (a->rank != b->rank || a->rank < 2)
        return false;
    for (int i = 0; i < a->rank - 2; i++) {
        if (!fx_dim_eq(a->dim[i], b->dim[i]))
            return false;
    }
    return true;
}

static bool is_narrow(fx_dim d) { return fx_dim_is_static(d) && d.n > 0 && d.n <= FX_ATTENTION_WIDTH; }

/* Why these three can't be one kernel; NULL: they can. */
static const char *attention_objects(const fx_op *scores, const fx_op *softmax, const fx_op *product)
{
    const fx_value *q = fx_op_in(scores, 0), *v = fx_op_in(product, 1);
    int rank = softmax->out[0].type.rank;

    if (q->type.rank < 2 || fx_op_in(scores, 1)->type.rank < 2 || v->type.rank < 2)
        return "its operands are vectors";
    if (fx_op_axis(softmax, FX_A_AXIS, rank) != rank - 1)
        return "the softmax goes along another axis than the sum behind it";
    if (!is_f32_inside(&scores->out[0]) || !is_f32_inside(fx_op_in(softmax, 0)) || !is_f32_inside(fx_op_in(product, 0)) ||
        !is_f32_inside(&product->out[0]))
        return "it is computed in f64";
    if (!is_narrow(fx_type_last(&q->type)) || !is_narrow(fx_type_last(&v->type)))
        return "the width of a head isn't a number up to 128";
    return same_outer(&product->out[0].type, &scores->out[0].type) ? NULL : "the values have other heads than the scores";
}

static bool has_few_rows(const fx_type *t) { return t->rank > 1 && fx_dim_is_static(t->dim[t->rank - 2]) && t->dim[t->rank - 2].n <= 32; }

/* attention:  matmul(softmax(f(matmul(q, k))), v)  ==>  one kernel; f, and what else comes between softmax and product, element by element:
 *             a scale, a mask that is added or chosen by where (its branches in either order), casts. No scores go to memory. */
const char *fx_fuse_attention(fx_lower *l, fx_op *root, fx_fused *f)
{
    const char *why = NULL;

    if (root->code != FX_OP_MATMUL)
        return FX_NO_PATTERN;
    f->part[1] = fx_fuse_chain(f, fx_op_in(root, 0), FX_OP_SOFTMAX, &why);
    if (!f->part[1])
        return FX_NO_PATTERN;
    f->part[0] = fx_fuse_chain(f, fx_op_in(f->part[1], 0), FX_OP_MATMUL, &why);
    if (!f->part[0])
        return "the scores aren't a product";
    f->part[2] = root;
    if (fx_lower_is_turned(l, fx_op_in(f->part[0], 1)) && !has_few_rows(&root->out[0].type)) {
        f->beside = fx_op_in(f->part[0], 1);
        f->why_beside = "attention reads its columns, side by side, once for each few rows of queries";
    }
    why = why ? why : attention_objects(f->part[0], f->part[1], root);
    fx_fuse_result(f, &root->out[0]);
    f->make = fx_fuse_make_attention;
    return why;
}

static bool is_of_vectors(const fx_op *product) { return fx_op_in(product, 0)->type.rank < 2 || fx_op_in(product, 1)->type.rank < 2; }

/* gate-up:  g(f(x @ A), h(x @ B))  ==>  both sums in the tiles of one kernel; f, g, h element by element: silu(x @ A) * (x @ B). */
const char *fx_fuse_gate_up(fx_lower *l, fx_op *root, fx_fused *f)
{
    const char *why = NULL;

    (void)l;
    if (root->n_in != 2 || root->n_out != 1 || !fx_lower_by_element(root->code) || fx_op_in(root, 0) == fx_op_in(root, 1))
        return FX_NO_PATTERN;
    for (int i = 0; i < 2; i++) {
        f->part[i] = fx_fuse_chain(f, fx_op_in(root, i), FX_OP_MATMUL, &why);
        if (!f->part[i])
            return FX_NO_PATTERN;
        if (!fx_lower_same_shape(&fx_op_in(root, i)->type, &root->out[0].type, false))
            why = "a product is broadcast";
        if (is_of_vectors(f->part[i]))
            why = "a product is one of vectors";
    }
    if (f->part[0] == f->part[1])
        return "it is one product, not two";
    return why ? why : fx_lower_apart(f->part[0], f->part[1]);
}

/* ---- Products of one input ---------------------------------------------------------------------------------- */

/* What becomes of a product by steps with one reader, element by element, whose other operands come from outside: a bias. The steps go to f.
 * NULL: a step needs something else, and is better off in tiles of its own. */
static fx_value *end_of(const fx_op *product, fx_fused *f)
{
    fx_value *v = (fx_value *)(uintptr_t)&product->out[0];

    while (fx_single_use(v)) {
        fx_op *op = v->uses->user;

        if (op->block != product->block || op->n_out != 1 || !fx_lower_by_element(op->code) || !op->out[0].uses ||
            !fx_lower_same_shape(&v->type, &op->out[0].type, false))
            break;
        for (int i = 0; i < op->n_in; i++) {
            if (fx_op_in(op, i) != v && (!fx_op_in(op, i)->def || fx_op_in(op, i)->def->n_in > 0))
                return NULL;
        }
        if (!fx_fuse_inner(f, v))
            break;
        v = &op->out[0];
    }
    return v;
}

/* Why b's product can't be one of a kernel with a's; NULL: it can. */
static const char *difference(const fx_op *a, const fx_op *b)
{
    const fx_type *x = &a->out[0].type, *y = &b->out[0].type;

    if (is_of_vectors(b) || x->rank != y->rank || !same_outer(x, y))
        return "another product of its input has other batches";
    return fx_lk_wide(x->dtype) == fx_lk_wide(y->dtype) ? NULL : "another product of its input is summed in another dtype";
}

static bool is_free(const fx_lower *l, const fx_op *product)
{
    return !fx_fused_inner(l, &product->out[0]) && !fx_fused_result(l, &product->out[0]) && product->out[0].uses;
}

/* merge-matmuls:  x @ A, x @ B, ...  ==>  one kernel for up to four products of one input, biases and the like in their tiles: q, k and v. */
const char *fx_fuse_merge(fx_lower *l, fx_op *root, fx_fused *f)
{
    const char *why = FX_NO_PATTERN;
    fx_value *end;
    int n = 0;

    if (root->code != FX_OP_MATMUL || is_of_vectors(root) || !is_free(l, root))
        return FX_NO_PATTERN;
    for (fx_op *op = root; op && n < FX_FUSE_RESULTS; op = op->next) {
        if (op->code != FX_OP_MATMUL || fx_op_in(op, 0) != fx_op_in(root, 0) || !is_free(l, op))
            continue;
        if (difference(root, op)) {
            why = difference(root, op);
            continue;
        }
        end = end_of(op, &(fx_fused){ .n_inner = 0 });
        if (!end) {
            why = "what follows one of the products of its input needs more than comes from outside";
            continue;
        }
        f->part[n++] = op;
        end_of(op, f);
        fx_fuse_result(f, end);
    }
    if (n < 2)
        return why;
    f->make = fx_fuse_make_merged;
    return fx_fuse_place(f);
}
