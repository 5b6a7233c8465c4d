/* model_moe.c - the feed-forward part of a mixture of experts, as architectures share it.
 *
 * What differs between them stands in fx_moe_params.  The experts' tensors are found by what the
 * file has: one of each expert, all of a kind stacked, or gate and up in one. */
#include <stdio.h>

#include "models/models_int.h"
#include "models/places.h"

/* %L: the layer; %E: the expert, where each has tensors of its own. */
typedef struct expert_form {
    const char *gate, *up, *down;        /* up NULL: gate holds both */
} expert_form;

static const expert_form forms[] = {
    { "blk.%L.ffn_gate_exps.weight", "blk.%L.ffn_up_exps.weight", "blk.%L.ffn_down_exps.weight" },
    { "blk.%L.ffn_gate_up_exps.weight", NULL, "blk.%L.ffn_down_exps.weight" },
    { "blk.%L.ffn_gate.%E.weight", "blk.%L.ffn_up.%E.weight", "blk.%L.ffn_down.%E.weight" },
    { "model.layers.%L.mlp.experts.%E.gate_proj.weight", "model.layers.%L.mlp.experts.%E.up_proj.weight",
      "model.layers.%L.mlp.experts.%E.down_proj.weight" },
    { "model.layers.%L.block_sparse_moe.experts.%E.w1.weight", "model.layers.%L.block_sparse_moe.experts.%E.w3.weight",
      "model.layers.%L.block_sparse_moe.experts.%E.w2.weight" },
    { "model.layers.%L.feed_forward.experts.%E.gate_proj.weight", "model.layers.%L.feed_forward.experts.%E.up_proj.weight",
      "model.layers.%L.feed_forward.experts.%E.down_proj.weight" },
    { "model.layers.%L.block_sparse_moe.input_linear.weight", NULL,
      "model.layers.%L.block_sparse_moe.output_linear.weight" },
    { "model.layers.%L.block_sparse_moe.experts.gate_up_proj", NULL, "model.layers.%L.block_sparse_moe.experts.down_proj" },
    { "model.layers.%L.feed_forward.experts.gate_up_proj", NULL, "model.layers.%L.feed_forward.experts.down_proj" },
    { "model.layers.%L.mlp.experts.gate_up_proj_blocks", NULL, "model.layers.%L.mlp.experts.down_proj_blocks" },
    { "model.layers.%L.mlp.experts.gate_up_proj", NULL, "model.layers.%L.mlp.experts.down_proj" },
};

/* Whether a name is of this form; the form may go on with ".weight" or "_blocks". */
static bool is_form(const char *form, fx_str name, int64_t *layer, int64_t *expert)
{
    size_t at = 0;

    for (; *form; form++) {
        int64_t *number = form[1] == 'L' ? layer : expert;
        size_t first = at;

        if (*form != '%') {
            if (at == name.n)
                return strcmp(form, ".weight") == 0 || strcmp(form, "_blocks") == 0;
            if (name.p[at++] != *form)
                return false;
            continue;
        }
        for (*number = 0, form++; at < name.n && at < first + 9 && name.p[at] >= '0' && name.p[at] <= '9'; at++)
            *number = *number * 10 + (name.p[at] - '0');
        if (at == first)
            return false;
    }
    return at == name.n;
}

bool fx_expert_name(fx_str name, bool gguf, fx_place_part *part, int64_t *layer, int64_t *expert)
{
    for (size_t i = 0; i < FX_COUNT(forms); i++) {
        const struct { const char *form; fx_place_part part; } rows[] = {
            { forms[i].gate, forms[i].up ? FX_PART_GATE : FX_PART_GATE_UP }, { forms[i].up, FX_PART_UP },
            { forms[i].down, FX_PART_DOWN } };

        for (size_t k = 0; k < FX_COUNT(rows); k++) {
            const char *form = rows[k].form ? fx_place_bare(fx_str_of(rows[k].form)).p : "";

            *layer = *expert = -1;
            *part = rows[k].part;
            if (*form && (*form == 'b') == gguf && is_form(form, name, layer, expert))
                return true;
        }
    }
    *layer = *expert = -1;
    *part = FX_PART_WHOLE;
    return false;
}

/* MXFP4 in two tensors. */
static bool is_blocks(const char *form) { return strstr(form, "_blocks") != NULL; }
static bool is_each(const char *form) { return strstr(form, "%E") != NULL; }

static void put_form(const fx_build *b, const char *form, int64_t layer, int64_t expert, char *out, size_t cap)
{
    char rooted[128];
    size_t n = 0;

    fx_hub_name(b->arch, b->weights, form, rooted, sizeof(rooted));
    for (const char *p = rooted; *p && n + 24 < cap; p++) {
        if (*p == '%' && (p[1] == 'L' || p[1] == 'E'))
            n += (size_t)snprintf(out + n, cap - n, "%lld", (long long)(*++p == 'L' ? layer : expert));
        else
            out[n++] = *p;
    }
    out[n] = 0;
}

/* The form that the file has; NULL, and a fault: none. */
static const expert_form *find_form(fx_build *b, int64_t layer)
{
    char name[128], usual[128] = "";

    for (size_t i = 0; i < FX_COUNT(forms); i++) {
        put_form(b, forms[i].gate, layer, 0, name, sizeof(name));
        if (fx_weights_find(b->weights, fx_str_of(name)))
            return &forms[i];
        if (!*usual && (*forms[i].gate == 'b') == fx_is_gguf(b))
            memcpy(usual, name, sizeof(usual));
    }
    return fx_module_fail(b->nn.m, FORNAX_EFORMAT, "%s: no tensors of experts, such as %s, in layer %lld",
                          fx_weights_path(b->weights), usual, (long long)layer);
}

/* Blocks [n, rows, cols / 32, 16] of bytes, with their scales, as one stacked tensor of MXFP4. */
static fx_value *blocks(fx_build *b, const char *name, const int64_t *shape)
{
    const fx_weight *t = fx_weights_find(b->weights, fx_str_of(name));
    fx_type type = { .dtype = FX_MXFP4, .rank = 3 };

    for (int i = 0; i < 3; i++)
        type.dim[i] = fx_dim_of(shape[i]);
    if (!t || t->dtype != FX_U8 || t->rank != 4 || t->shape[0] != shape[0] || t->shape[1] != shape[1] ||
        t->shape[2] * 32 != shape[2] || t->shape[3] != 16)
        return fx_module_fail(b->nn.m, FORNAX_EFORMAT, "%s: %s: expected u8[%lld,%lld,%lld,16]",
                              fx_weights_path(b->weights), name, (long long)shape[0], (long long)shape[1],
                              (long long)(shape[2] / 32));
    return FX_OP1(b->nn.m, WEIGHT, FX_NOIN, FX_ATTRS(FX_AS(NAME, t->name), FX_AT(TYPE, &type)), .name = t->name);
}

/* All experts' matrices of a form: the stacked tensor, or one after another. */
static fx_value *matrices(fx_build *b, int64_t layer, const char *form, int64_t rows, int64_t cols)
{
    int64_t n = b->p->moe.experts, stacked[3] = { n, rows, cols }, one[2] = { rows, cols };
    char name[128];
    fx_value **in;

    if (!is_each(form)) {
        put_form(b, form, layer, 0, name, sizeof(name));
        return is_blocks(form) ? blocks(b, name, stacked) : fx_w_named(b, name, stacked, 3);
    }
    in = FX_ARENA_NEWN(b->nn.m->arena, fx_value *, (size_t)n);
    if (!in)
        return fx_module_fail(b->nn.m, FORNAX_ENOMEM, "no memory for a graph");
    for (int64_t e = 0; e < n && !b->nn.m->failed; e++) {
        put_form(b, form, layer, e, name, sizeof(name));
        in[e] = fx_w_named(b, name, one, 2);
    }
    if (b->nn.m->failed)
        return NULL;
    return fx_op_result(fx_op_make(b->nn.m, &(fx_op_init){ .code = FX_OP_CONCAT, .in = in, .n_in = (int)n,
                                                           FX_ATTRS(FX_AI(AXIS, 0)), .name = in[0]->name,
                                                           .file = __FILE__, .line = __LINE__ }));
}

/* The biases beside stacked matrices: "x.bias" of "x.weight", "x_bias" of "x". */
static fx_value *biases(fx_build *b, int64_t layer, const char *form, int64_t rows)
{
    int64_t shape[2] = { b->p->moe.experts, rows };
    char name[160], *dot;

    put_form(b, form, layer, 0, name, sizeof(name) - 8);
    if ((dot = strstr(name, "_blocks")) != NULL)
        *dot = 0;
    dot = strstr(name, ".weight");
    memcpy(dot ? dot : name + strlen(name), dot ? ".bias" : "_bias", sizeof("_bias"));
    return fx_w_named(b, name, shape, 2);
}

static int64_t glu_of(fx_build *b)
{
    switch (b->p->act) {
    case FX_ACTIV_SILU: return FX_GLU_SILU;
    case FX_ACTIV_GELU: return FX_GLU_GELU;
    case FX_ACTIV_GELU_TANH: return FX_GLU_GELU_TANH;
    case FX_ACTIV_RELU: return FX_GLU_RELU;
    default:
        fx_module_fail(b->nn.m, FORNAX_EUNSUP, "%s: hidden_act: experts with this activation aren't supported",
                       fx_weights_path(b->weights));
        return 0;
    }
}

static void find_experts(fx_build *b, int64_t layer, fx_nn_expert_set *e)
{
    const fx_moe_params *moe = &b->p->moe;
    int64_t dim = b->p->dim, ffn = moe->ffn;
    const expert_form *f = find_form(b, layer);

    if (!f)
        return;
    e->layout = f->up ? FX_EXPERTS_APART : is_blocks(f->gate) ? FX_EXPERTS_BLOCKS : moe->turned ? FX_EXPERTS_TRANSPOSED : FX_EXPERTS_HALVES;
    if (e->layout == FX_EXPERTS_TRANSPOSED) {
        e->gate = matrices(b, layer, f->gate, dim, 2 * ffn);
        e->down = matrices(b, layer, f->down, ffn, dim);
    } else {
        e->gate = matrices(b, layer, f->gate, f->up ? ffn : 2 * ffn, dim);
        e->up = f->up ? matrices(b, layer, f->up, ffn, dim) : NULL;
        e->down = matrices(b, layer, f->down, dim, ffn);
    }
    if (!moe->bias || b->nn.m->failed)
        return;
    if (is_each(f->gate)) {
        fx_module_fail(b->nn.m, FORNAX_EUNSUP, "%s: biases of experts in tensors of their own aren't supported",
                       fx_weights_path(b->weights));
        return;
    }
    e->gate_bias = biases(b, layer, f->gate, f->up ? ffn : 2 * ffn);
    e->up_bias = f->up ? biases(b, layer, f->up, ffn) : NULL;
    e->down_bias = biases(b, layer, f->down, dim);
}

/* The experts that every row has, as one; times their gate where there is one. */
static fx_value *shared_expert(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_model_params *p = b->p;
    int64_t ffn = p->moe.shared_ffn;
    fx_value *gate = fx_b_product(b, layer, "ffn_gate_shexp", x, ffn, p->dim, p->mlp_bias);
    fx_value *up = fx_b_product(b, layer, "ffn_up_shexp", x, ffn, p->dim, p->mlp_bias);
    fx_value *h = fx_nn_mul(&b->nn, "ffn_shexp_act", fx_b_activation(b, "ffn_shexp_gate_act", gate), up);

    h = fx_b_product(b, layer, "ffn_down_shexp", h, p->dim, ffn, p->mlp_bias);
    if (!p->moe.shared_gate)
        return h;
    x = fx_b_product(b, layer, "ffn_gate_inp_shexp", x, 1, p->dim, false);
    return fx_nn_mul(&b->nn, "ffn_shexp", h, fx_nn_sigmoid(&b->nn, "ffn_shexp_gate", x));
}

bool fx_b_has_experts(const fx_build *b, int64_t layer)
{
    const fx_moe_params *moe = &b->p->moe;

    return moe->experts > 0 && layer >= moe->dense_layers && (moe->step <= 1 || (layer + 1) % moe->step == 0) &&
           !(b->p->layer_flags && b->p->layer_flags[layer] & FX_LAYER_DENSE);
}

/* A hub folder's has a name of its own, a GGUF's the ending of biases. */
static fx_value *choice_bias(fx_build *b, int64_t layer)
{
    return b->p->moe.choice_bias ? fx_w1(b, layer, fx_is_gguf(b) ? "exp_probs_b.bias" : "exp_probs_b", b->p->moe.experts) : NULL;
}

fx_value *fx_b_moe(fx_build *b, int64_t layer, fx_value *x)
{
    const fx_moe_params *moe = &b->p->moe;
    fx_nn_route route = { .top = moe->top, .score = moe->score, .groups = moe->groups, .top_groups = moe->top_groups,
                          .group_best = moe->group_best, .normalize = moe->normalize, .scale = moe->scale };
    fx_nn_expert_set e = { .n = moe->experts, .top = moe->top, .alpha = moe->alpha, .limit = moe->limit };
    fx_value *logits = fx_b_linear(b, layer, "ffn_gate_inp", x, moe->experts, b->p->dim, moe->bias), *y;

    e.act = moe->alpha != 0 ? FX_GLU_CLAMPED : glu_of(b);
    find_experts(b, layer, &e);
    if (b->nn.m->failed)
        return NULL;
    y = fx_nn_experts(&b->nn, &e, x, fx_nn_route_experts(&b->nn, &route, logits, choice_bias(b, layer)));
    return moe->shared_ffn ? fx_nn_add(&b->nn, "ffn_shared", y, shared_expert(b, layer, x)) : y;
}
