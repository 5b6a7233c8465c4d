/* nn.h - the words that model builders speak: layers made of graph ops.
 *
 *     fx_nn nn = { .m = m, .chain = chain };
 *     nn.scope = "blk.0";
 *     h = fx_nn_rmsnorm(&nn, x, norm, 1e-5);
 *     q = fx_nn_linear(&nn, h, wq, bias or NULL);
 *
 * Each word is one or a few clear ops, with no eye to speed: passes/ fuse them.  After
 * a fault they return NULL and do nothing (graph.h); the fault names the line that
 * used the word. */
#ifndef FX_NN_H
#define FX_NN_H

#include "graph/graph.h"

typedef struct fx_nn {
    fx_module *m;
    const char *scope;           /* prefix of names: "blk.0"; NULL or "" none */
    fx_value *chain;             /* order of effects; words that have some advance it */
    const char *file;            /* of the word in use, for faults */
    int line;
} fx_nn;

static inline fx_nn *fx_nn_here(fx_nn *nn, const char *file, int line)
{
    nn->file = file;
    nn->line = line;
    return nn;
}
#define FX_NN_HERE(nn) fx_nn_here((nn), __FILE__, __LINE__)

/* Attention of one layer. */
typedef struct fx_nn_attn {
    int64_t layer, heads, kv_heads, head_dim, v_dim;
    double scale, softcap;       /* of scores; softcap 0: none */
    int64_t window;              /* 0: whole context */
    int64_t rot_dim;             /* 0: no rotation */
    fx_rope_style style;
    double attn_scale;
    fx_value *inv_freq;          /* f32[rot_dim/2]; rot_dim where long_from and no growth */
    int64_t long_from;           /* see ops.def */
    double growth;
    fx_value *slopes;            /* f32[heads] of ALiBi, or NULL */
    fx_value *sinks;             /* [heads] scores of a key without a value, or NULL */
} fx_nn_attn;

/* Which of a head's rows, and how they lie in a product by head. */
typedef struct fx_nn_part {
    int64_t start, length;
    bool transposed;
} fx_nn_part;

/* The choice of experts (tensor/args.h); groups 0 or 1: none. */
typedef struct fx_nn_route {
    int64_t top, score, groups, top_groups, group_best;
    bool normalize;
    double scale;                /* of weights */
} fx_nn_route;

/* Weights of a layer's experts, stacked or one after another; up NULL where gate holds both. */
typedef struct fx_nn_expert_set {
    int64_t n, top, act, layout;
    double alpha, limit;         /* of a clamped activation */
    fx_value *gate, *up, *down, *gate_bias, *up_bias, *down_bias;
} fx_nn_expert_set;

/* A name in the scope: "blk.0.attn_norm". */
fx_str fx_nn_scoped(fx_nn *nn, const char *name);

#define fx_nn_embed(nn, tokens, table, scale) fx_nn_embed_(FX_NN_HERE(nn), tokens, table, scale)
#define fx_nn_linear(nn, x, w, bias) fx_nn_linear_(FX_NN_HERE(nn), x, w, bias)
#define fx_nn_rmsnorm(nn, name, x, w, eps) fx_nn_rmsnorm_(FX_NN_HERE(nn), name, x, w, eps)
#define fx_nn_rmsnorm1(nn, name, x, w, eps, offset) fx_nn_rmsnorm1_(FX_NN_HERE(nn), name, x, w, eps, offset)
#define fx_nn_layernorm(nn, name, x, w, b, norm) fx_nn_layernorm_(FX_NN_HERE(nn), name, x, w, b, norm)
#define fx_nn_scale(nn, name, x, factor) fx_nn_scale_(FX_NN_HERE(nn), name, x, factor)
#define fx_nn_clamp(nn, name, x, limit) fx_nn_clamp_(FX_NN_HERE(nn), name, x, limit)
#define fx_nn_slice(nn, name, x, start, length) fx_nn_slice_(FX_NN_HERE(nn), name, x, start, length)
#define fx_nn_unary(nn, code, name, x) fx_nn_op1_(FX_NN_HERE(nn), code, name, x)
#define fx_nn_add(nn, name, a, b) fx_nn_op2_(FX_NN_HERE(nn), FX_OP_ADD, name, a, b)
#define fx_nn_mul(nn, name, a, b) fx_nn_op2_(FX_NN_HERE(nn), FX_OP_MUL, name, a, b)
#define fx_nn_silu(nn, name, x) fx_nn_op1_(FX_NN_HERE(nn), FX_OP_SILU, name, x)
#define fx_nn_rope(nn, a, name, x) fx_nn_rope_(FX_NN_HERE(nn), a, name, x)
#define fx_nn_attend(nn, a, q, k, v) fx_nn_attend_(FX_NN_HERE(nn), a, q, k, v)
#define fx_nn_route_experts(nn, r, logits, bias) fx_nn_route_experts_(FX_NN_HERE(nn), r, logits, bias)
#define fx_nn_by_head(nn, name, heads, x, w, part) fx_nn_by_head_(FX_NN_HERE(nn), name, heads, x, w, part)
#define fx_nn_splice(nn, name, heads, a, start, len, b, more) \
    fx_nn_splice_(FX_NN_HERE(nn), name, heads, a, start, len, b, more)
#define fx_nn_experts(nn, e, x, routes) fx_nn_experts_(FX_NN_HERE(nn), e, x, routes)
#define fx_nn_sigmoid(nn, name, x) fx_nn_op1_(FX_NN_HERE(nn), FX_OP_SIGMOID, name, x)
#define fx_nn_gather(nn, name, x, rows) fx_nn_gather_(FX_NN_HERE(nn), name, x, rows)

fx_value *fx_nn_embed_(fx_nn *nn, fx_value *tokens, fx_value *table, double scale);
/* x @ w^T (+ bias); named after the weight. */
fx_value *fx_nn_linear_(fx_nn *nn, fx_value *x, fx_value *w, fx_value *bias);
fx_value *fx_nn_rmsnorm_(fx_nn *nn, const char *name, fx_value *x, fx_value *w, double eps);
/* With an offset that is added to w. */
fx_value *fx_nn_rmsnorm1_(fx_nn *nn, const char *name, fx_value *x, fx_value *w, double eps, double offset);
typedef struct fx_nn_norm {
    double eps, offset;
    int64_t groups;
} fx_nn_norm;
/* w, b: may be NULL. */
fx_value *fx_nn_layernorm_(fx_nn *nn, const char *name, fx_value *x, fx_value *w, fx_value *b, const fx_nn_norm *norm);
fx_value *fx_nn_scale_(fx_nn *nn, const char *name, fx_value *x, double factor);
fx_value *fx_nn_clamp_(fx_nn *nn, const char *name, fx_value *x, double limit);
fx_value *fx_nn_slice_(fx_nn *nn, const char *name, fx_value *x, int64_t start, int64_t length);
fx_value *fx_nn_op1_(fx_nn *nn, fx_opcode code, const char *name, fx_value *x);
fx_value *fx_nn_op2_(fx_nn *nn, fx_opcode code, const char *name, fx_value *a, fx_value *b);
/* Rows of x by number. */
fx_value *fx_nn_gather_(fx_nn *nn, const char *name, fx_value *x, fx_value *rows);
/* x itself where rot_dim is 0. */
fx_value *fx_nn_rope_(fx_nn *nn, const fx_nn_attn *a, const char *name, fx_value *x);
/* Stores k and v, then attends; v NULL: values are the last v_dim components of keys. */
fx_value *fx_nn_attend_(fx_nn *nn, const fx_nn_attn *a, fx_value *q, fx_value *k, fx_value *v);
/* By head: x times that head's part of w: see BY_HEAD in ops.def. */
fx_value *fx_nn_by_head_(fx_nn *nn, const char *name, int64_t heads, fx_value *x, fx_value *w, const fx_nn_part *part);
/* Routes of logits; bias (or NULL) counts for the choice only. */
fx_value *fx_nn_route_experts_(fx_nn *nn, const fx_nn_route *r, fx_value *logits, fx_value *bias);
/* By head: columns [start, start + len) of a's, then 'more' of b's (or NULL): see SPLICE in ops.def. */
fx_value *fx_nn_splice_(fx_nn *nn, const char *name, int64_t heads, fx_value *a, int64_t start, int64_t len,
                        fx_value *b, int64_t more);
fx_value *fx_nn_experts_(fx_nn *nn, const fx_nn_expert_set *e, fx_value *x, fx_value *routes);

#endif
