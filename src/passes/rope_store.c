/* rope_store.c - [norm,] rotate q and k, store k and v  ==>  rope_store.
 *
 *     attend(rope(norm(q)), kv_store(rope(norm(k)), v, chain))
 *         ==>  q', chain' = rope_store(q, k, v, q_norm, k_norm, inv_freq, chain); attend(q', chain')
 *
 * Why:       five launches over small rows become one, which reads q, k, v once.
 * Preserves: values.  The store moves to where the attention is.
 * Takes:     both rotations of one kind or none at all; head norms of both on the same side of
 *            the rotation, whose epsilons and offsets agree; a norm of one alone.
 * Gives up:  when only one is rotated or they differ, a rotated value has another reader, or
 *            another user of the stored chain comes first. */
#include "passes/passes.h"

static bool same_rotation(const fx_op *a, const fx_op *b)
{
    return fx_op_in(a, 1) == fx_op_in(b, 1) && fx_op_i(a, FX_A_HEAD_DIM) == fx_op_i(b, FX_A_HEAD_DIM) &&
           fx_op_i(a, FX_A_ROT_DIM) == fx_op_i(b, FX_A_ROT_DIM) && fx_op_i(a, FX_A_STYLE) == fx_op_i(b, FX_A_STYLE) &&
           fx_op_f(a, FX_A_ATTN_SCALE) == fx_op_f(b, FX_A_ATTN_SCALE) &&
           fx_op_i(a, FX_A_LONG_FROM) == fx_op_i(b, FX_A_LONG_FROM) && fx_op_f(a, FX_A_GROWTH) == fx_op_f(b, FX_A_GROWTH);
}

/* The norm over heads that makes v and nothing else uses; NULL if there is none that folds. */
static fx_op *head_norm(const fx_value *v, int64_t head_dim)
{
    fx_op *norm = fx_def_of(v, FX_OP_RMSNORM);

    if (!norm || v->type.dtype != FX_F32 || !fx_single_use(v) || !fx_value_is_const(fx_op_in(norm, 1)))
        return NULL;
    return fx_dim_eq(fx_op_in(norm, 1)->type.dim[0], fx_dim_of(head_dim)) ? norm : NULL;
}

/* The store that feeds the attention, if it can move to it. */
static fx_op *movable_store(fx_op *attend, const char **why)
{
    fx_op *store = fx_arg_of(attend, 1, FX_OP_KV_STORE);

    if (!store)
        return NULL;
    if (store->block != attend->block || fx_op_i(store, FX_A_LAYER) != fx_op_i(attend, FX_A_LAYER) ||
        fx_op_i(store, FX_A_KV_HEADS) != fx_op_i(attend, FX_A_KV_HEADS)) {
        *why = "the keys are stored for another layer, in another form or block";
        return NULL;
    }
    for (const fx_use *u = store->out[0].uses; u; u = u->next) {
        if (u->user != attend && (u->user->block != attend->block || !fx_op_before(attend, u->user))) {
            *why = "another reader of the stored keys comes first";
            return NULL;
        }
    }
    return store;
}

/* Norms behind the rotation: q and k then stand before both norms, if these fold. */
static void norms_last(fx_value **q, fx_value **k, int64_t dim, fx_op **qn, fx_op **kn)
{
    *qn = head_norm(*q, dim);
    *kn = head_norm(*k, dim);
    if (!*qn || !*kn || !fx_arg_of(*qn, 0, FX_OP_ROPE) || !fx_arg_of(*kn, 0, FX_OP_ROPE)) {
        *qn = *kn = NULL;
        return;
    }
    *q = fx_op_in(*qn, 0);
    *k = fx_op_in(*kn, 0);
}

static bool alike(const fx_op *a, const fx_op *b)
{
    return fx_op_f(a, FX_A_EPS) == fx_op_f(b, FX_A_EPS) && fx_op_f(a, FX_A_OFFSET) == fx_op_f(b, FX_A_OFFSET);
}

/* Which norms go in: of none, one or both of q and k. */
static void norms_first(const fx_value *q, const fx_value *k, int64_t dim, fx_op **qn, fx_op **kn)
{
    *qn = head_norm(q, dim);
    *kn = head_norm(k, dim);
    if (*qn && *kn && !alike(*qn, *kn))
        *qn = *kn = NULL;
}

static fx_value *rewrite(fx_graph *g, fx_op *attend, const char **why)
{
    fx_op *store = movable_store(attend, why), *qr, *kr, *qn, *kn, *fused;
    fx_value *q, *k, *v, *inv_freq;
    int64_t dim = fx_op_i(attend, FX_A_HEAD_DIM), kv_heads = fx_op_i(attend, FX_A_KV_HEADS);
    int64_t v_dim = fx_op_i(attend, FX_A_V_DIM);
    bool last;

    if (!store)
        return NULL;
    q = fx_op_in(attend, 0);
    k = fx_op_in(store, 0);
    v = fx_op_in(store, 1);
    norms_last(&q, &k, dim, &qn, &kn);
    if (qn && (!alike(qn, kn)))
        return fx_give_up(why, "the norms of q and k differ");
    last = qn != NULL;
    qr = fx_def_of(q, FX_OP_ROPE);
    kr = fx_def_of(k, FX_OP_ROPE);
    if (!qr != !kr || (qr && (!same_rotation(qr, kr) || fx_op_i(qr, FX_A_HEAD_DIM) != dim)))
        return fx_give_up(why, "q and k aren't rotated alike");
    if (qr && (!fx_single_use(q) || !fx_single_use(k)))
        return fx_give_up(why, "a rotated value has another reader");
    if (!fx_dim_eq(k->type.dim[1], fx_dim_of(kv_heads * dim)) ||
        (v && !fx_dim_eq(v->type.dim[1], fx_dim_of(kv_heads * v_dim))) ||
        !v != (fx_op_i(attend, FX_A_LATENT) != 0) || !fx_dim_eq(k->type.dim[0], q->type.dim[0]))
        return fx_give_up(why, "keys or values aren't rows of that many heads");
    q = qr ? fx_op_in(qr, 0) : q;
    k = kr ? fx_op_in(kr, 0) : k;
    inv_freq = qr ? fx_op_in(qr, 1) : NULL;
    if (inv_freq && !fx_value_is_const(inv_freq))
        return fx_give_up(why, "the frequencies aren't known before a step");
    if (!last)
        norms_first(q, k, dim, &qn, &kn);
    fused = FX_OP(g->module, ROPE_STORE,
                  FX_IN(qn && !last ? fx_op_in(qn, 0) : q, kn && !last ? fx_op_in(kn, 0) : k, v, qn ? fx_op_in(qn, 1) : NULL,
                        kn ? fx_op_in(kn, 1) : NULL, inv_freq, fx_op_in(store, 2)),
                  FX_ATTRS(FX_AI(LAYER, fx_op_i(attend, FX_A_LAYER)), FX_AI(HEADS, fx_op_i(attend, FX_A_HEADS)),
                           FX_AI(KV_HEADS, kv_heads), FX_AI(HEAD_DIM, dim), FX_AI(V_DIM, v_dim),
                           FX_AI(ROT_DIM, qr ? fx_op_i(qr, FX_A_ROT_DIM) : 0),
                           FX_AI(STYLE, qr ? fx_op_i(qr, FX_A_STYLE) : FX_ROPE_HALF),
                           FX_AF(ATTN_SCALE, qr ? fx_op_f(qr, FX_A_ATTN_SCALE) : 1),
                           FX_AF(EPS, qn ? fx_op_f(qn, FX_A_EPS) : kn ? fx_op_f(kn, FX_A_EPS) : 0),
                           FX_AF(OFFSET, qn ? fx_op_f(qn, FX_A_OFFSET) : kn ? fx_op_f(kn, FX_A_OFFSET) : 0),
                           FX_AI(NORM_LAST, last), FX_AI(LONG_FROM, qr ? fx_op_i(qr, FX_A_LONG_FROM) : 0),
                           FX_AF(GROWTH, qr ? fx_op_f(qr, FX_A_GROWTH) : 0)),
                  .name = store->out[0].name);
    if (!fused)
        return NULL;
    fx_op_set_in(attend, 0, &fused->out[0]);
    fx_value_replace(&store->out[0], &fused->out[1]);
    fx_drop_dead(store);
    if (last)
        fx_drop_dead(qn);
    else if (qr)
        fx_drop_dead(qr);
    else if (qn)
        fx_drop_dead(qn);
    return &attend->out[0];
}

const fx_pass fx_pass_rope_store = { .name = "rope-store", .root = FX_OP_ATTEND, .rewrite = rewrite };
