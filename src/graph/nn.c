/* nn.c - the building words: each makes its ops at the module's insertion point. */
#include "graph/nn.h"

/* "blk.0.attn_norm" */
fx_str fx_nn_scoped(fx_nn *nn, const char *name)
{
    char *p;

    if (!nn->scope || !*nn->scope)
        return fx_str_of(name);
    p = fx_arena_printf(nn->m->arena, "%s.%s", nn->scope, name);
    if (!p)
        fx_module_fail(nn->m, FORNAX_ENOMEM, "no memory for a graph");
    return fx_str_of(p ? p : "");
}

#define MAKE(nn, c, ...) \
    fx_op_result(fx_op_make((nn)->m, &(fx_op_init){ .code = (c), __VA_ARGS__, .file = (nn)->file, .line = (nn)->line }))

/* Whether one of the values is the NULL of an earlier fault. */
static bool broken(const fx_nn *nn)
{
    return nn->m->failed;
}

fx_value *fx_nn_op1_(fx_nn *nn, fx_opcode code, const char *name, fx_value *x)
{
    return MAKE(nn, code, FX_IN(x), .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_op2_(fx_nn *nn, fx_opcode code, const char *name, fx_value *a, fx_value *b)
{
    return MAKE(nn, code, FX_IN(a, b), .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_gather_(fx_nn *nn, const char *name, fx_value *x, fx_value *rows)
{
    return MAKE(nn, FX_OP_GATHER, FX_IN(x, rows), FX_ATTRS(FX_AI(AXIS, 0)), .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_embed_(fx_nn *nn, fx_value *tokens, fx_value *table, double scale)
{
    return MAKE(nn, FX_OP_EMBED, FX_IN(tokens, table), FX_ATTRS(FX_AF(SCALE, scale)), .name = fx_nn_scoped(nn, "embed"));
}

fx_value *fx_nn_linear_(fx_nn *nn, fx_value *x, fx_value *w, fx_value *bias)
{
    fx_str name;
    fx_value *y;

    if (broken(nn))
        return NULL;
    name = w->name;
    if (fx_str_ends(name, FX_STR(".weight")))
        name.n -= sizeof(".weight") - 1;
    y = MAKE(nn, FX_OP_LINEAR, FX_IN(x, w), .name = name);
    if (bias && bias->type.dtype != FX_F32)
        bias = MAKE(nn, FX_OP_CAST, FX_IN(bias), FX_ATTRS(FX_AI(DTYPE, FX_F32)), .name = bias->name);
    return bias ? MAKE(nn, FX_OP_ADD, FX_IN(y, bias), .name = name) : y;
}

fx_value *fx_nn_rmsnorm_(fx_nn *nn, const char *name, fx_value *x, fx_value *w, double eps)
{
    return MAKE(nn, FX_OP_RMSNORM, FX_IN(x, w), FX_ATTRS(FX_AF(EPS, eps)), .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_rmsnorm1_(fx_nn *nn, const char *name, fx_value *x, fx_value *w, double eps, double offset)
{
    return MAKE(nn, FX_OP_RMSNORM, FX_IN(x, w), FX_ATTRS(FX_AF(EPS, eps), FX_AF(OFFSET, offset)),
                .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_layernorm_(fx_nn *nn, const char *name, fx_value *x, fx_value *w, fx_value *b, const fx_nn_norm *norm)
{
    return MAKE(nn, FX_OP_LAYERNORM, FX_IN(x, w, b),
                FX_ATTRS(FX_AF(EPS, norm->eps), FX_AF(OFFSET, norm->offset), FX_AI(GROUPS, norm->groups)),
                .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_scale_(fx_nn *nn, const char *name, fx_value *x, double factor)
{
    return MAKE(nn, FX_OP_SCALE, FX_IN(x), FX_ATTRS(FX_AF(FACTOR, factor)), .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_clamp_(fx_nn *nn, const char *name, fx_value *x, double limit)
{
    return MAKE(nn, FX_OP_CLAMP, FX_IN(x), FX_ATTRS(FX_AF(LIMIT, limit)), .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_slice_(fx_nn *nn, const char *name, fx_value *x, int64_t start, int64_t length)
{
    return MAKE(nn, FX_OP_SLICE, FX_IN(x), FX_ATTRS(FX_AI(START, start), FX_AI(LENGTH, length)),
                .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_rope_(fx_nn *nn, const fx_nn_attn *a, const char *name, fx_value *x)
{
    if (a->rot_dim == 0)
        return x;
    return MAKE(nn, FX_OP_ROPE, FX_IN(x, a->inv_freq),
                FX_ATTRS(FX_AI(HEAD_DIM, a->head_dim), FX_AI(ROT_DIM, a->rot_dim), FX_AI(STYLE, a->style),
                         FX_AF(ATTN_SCALE, a->attn_scale), FX_AI(LONG_FROM, a->long_from),
                         FX_AF(GROWTH, a->growth)),
                .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_attend_(fx_nn *nn, const fx_nn_attn *a, fx_value *q, fx_value *k, fx_value *v)
{
    nn->chain = MAKE(nn, FX_OP_KV_STORE, FX_IN(k, v, nn->chain),
                     FX_ATTRS(FX_AI(LAYER, a->layer), FX_AI(KV_HEADS, a->kv_heads)), .name = fx_nn_scoped(nn, "kv"));
    return MAKE(nn, FX_OP_ATTEND, FX_IN(q, nn->chain, a->slopes, a->sinks),
                FX_ATTRS(FX_AI(LAYER, a->layer), FX_AI(HEADS, a->heads), FX_AI(KV_HEADS, a->kv_heads),
                         FX_AI(HEAD_DIM, a->head_dim), FX_AI(V_DIM, a->v_dim), FX_AF(SCALE, a->scale),
                         FX_AI(WINDOW, a->window), FX_AF(SOFTCAP, a->softcap), FX_AI(LATENT, v == NULL)),
                .name = fx_nn_scoped(nn, "attn"));
}

fx_value *fx_nn_by_head_(fx_nn *nn, const char *name, int64_t heads, fx_value *x, fx_value *w, const fx_nn_part *part)
{
    return MAKE(nn, FX_OP_BY_HEAD, FX_IN(x, w),
                FX_ATTRS(FX_AI(HEADS, heads), FX_AI(START, part->start), FX_AI(LENGTH, part->length),
                         FX_AI(TRANSPOSED, part->transposed)),
                .name = fx_nn_scoped(nn, name));
}

fx_value *fx_nn_route_experts_(fx_nn *nn, const fx_nn_route *r, fx_value *logits, fx_value *bias)
{
    return MAKE(nn, FX_OP_ROUTE, FX_IN(logits, bias),
                FX_ATTRS(FX_AI(TOP, r->top), FX_AI(SCORE, r->score), FX_AI(NORMALIZE, r->normalize),
                         FX_AI(GROUPS, FX_MAX(r->groups, 1)), FX_AI(TOP_GROUPS, FX_MAX(r->top_groups, 1)),
                         FX_AI(GROUP_BEST, FX_MAX(r->group_best, 1)), FX_AF(SCALE, r->scale)),
                .name = fx_nn_scoped(nn, "ffn_routes"));
}

fx_value *fx_nn_experts_(fx_nn *nn, const fx_nn_expert_set *e, fx_value *x, fx_value *routes)
{
    return MAKE(nn, FX_OP_EXPERTS,
                FX_IN(x, routes, e->gate, e->up, e->down, e->gate_bias, e->up_bias, e->down_bias),
                FX_ATTRS(FX_AI(EXPERTS, e->n), FX_AI(TOP, e->top), FX_AI(ACT, e->act), FX_AI(LAYOUT, e->layout),
                         FX_AF(SCALE, e->alpha), FX_AF(LIMIT, e->limit)),
                .name = fx_nn_scoped(nn, "ffn_experts"));
}

fx_value *fx_nn_splice_(fx_nn *nn, const char *name, int64_t heads, fx_value *a, int64_t start, int64_t len,
                        fx_value *b, int64_t more)
{
    return MAKE(nn, FX_OP_SPLICE, FX_IN(a, b),
                FX_ATTRS(FX_AI(HEADS, heads), FX_AI(START, start), FX_AI(LENGTH, len), FX_AI(MORE, more)),
                .name = fx_nn_scoped(nn, name));
}
