/* encoder.c - BERT, RoBERTa and XLM-RoBERTa, Nomic-BERT: attention and feed-forward, each followed
 * by a residual and a layer norm.
 *
 *     x = norm(word + type[0] (+ position))
 *     x = norm(x + o(attend(q x, k x, v x)));  x = norm(x + down(act(up x)))       BERT
 *                                              x = norm(x + down(up x * act(gate x)))   Nomic
 *
 * Nomic rotates q and k instead of adding positions.  RoBERTa's positions begin behind its
 * padding token's id.  Which tensors there are, a table says for each naming family;
 * biases are used where the file has them. */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "models/encoder.h"
#include "models/places.h"
#include "models/models_int.h"

typedef struct kind {
    const char *name, *gguf;         /* ours; general.architecture */
    const char *type;                /* of "model_type" */
    const char *hf[4];               /* of "architectures" */
    bool rotary, gated, offset;      /* offset: positions begin at pad_token_id + 1 */
} kind;

static const kind kinds[] = {
    { "bert", "bert", "bert", { "BertModel", "BertForMaskedLM", "BertForPreTraining" }, false, false, false },
    { "xlm-roberta", NULL, "xlm-roberta", { "XLMRobertaModel", "XLMRobertaForMaskedLM", NULL }, false, false, true },
    { "roberta", NULL, "roberta", { "RobertaModel", "RobertaForMaskedLM", "CamembertModel", "CamembertForMaskedLM" },
      false, false, true },
    { "nomic-bert", "nomic-bert", "nomic_bert", { "NomicBertModel", "NomicBertForMaskedLM", NULL }, true, true, false },
};

typedef enum activation { ACT_GELU, ACT_GELU_TANH, ACT_SILU, ACT_RELU } activation;

typedef struct encoder {
    const kind *kind;
    const fx_weights *w;
    fx_error *err;
    fx_nn nn;
    fx_model_params p;
    const char *prefix;              /* of the tensors' names */
    int family;
    int64_t types, first_position;   /* rows of the type table; first row of the positions used */
    activation act;
    fx_nn_attn attn;
    char scope[32];
} encoder;

/* ---- Names --------------------------------------------------------------------------------- */

enum { GGUF, BERT, NOMIC, NOMIC_NEW, FAMILIES };

static const struct { const char *role, *names[FAMILIES]; } roles[] = {
    { "word", { "token_embd", "embeddings.word_embeddings", "embeddings.word_embeddings", "embeddings.word_embeddings" } },
    { "type", { "token_types", "embeddings.token_type_embeddings", "embeddings.token_type_embeddings",
                "embeddings.token_type_embeddings" } },
    { "position", { "position_embd", "embeddings.position_embeddings", NULL, NULL } },
    { "embed_norm", { "token_embd_norm", "embeddings.LayerNorm", "emb_ln", "embeddings.LayerNorm" } },
    { "q", { "blk.%d.attn_q", "encoder.layer.%d.attention.self.query", NULL, "layers.%d.self_attn.q_proj" } },
    { "k", { "blk.%d.attn_k", "encoder.layer.%d.attention.self.key", NULL, "layers.%d.self_attn.k_proj" } },
    { "v", { "blk.%d.attn_v", "encoder.layer.%d.attention.self.value", NULL, "layers.%d.self_attn.v_proj" } },
    { "qkv", { "blk.%d.attn_qkv", NULL, "encoder.layers.%d.attn.Wqkv", NULL } },
    { "o", { "blk.%d.attn_output", "encoder.layer.%d.attention.output.dense", "encoder.layers.%d.attn.out_proj",
             "layers.%d.self_attn.o_proj" } },
    { "attn_norm", { "blk.%d.attn_output_norm", "encoder.layer.%d.attention.output.LayerNorm", "encoder.layers.%d.norm1",
                     "layers.%d.post_attention_layernorm" } },
    { "up", { "blk.%d.ffn_up", "encoder.layer.%d.intermediate.dense", "encoder.layers.%d.mlp.fc11",
              "layers.%d.mlp.up_proj" } },
    { "gate", { "blk.%d.ffn_gate", NULL, "encoder.layers.%d.mlp.fc12", "layers.%d.mlp.gate_proj" } },
    { "down", { "blk.%d.ffn_down", "encoder.layer.%d.output.dense", "encoder.layers.%d.mlp.fc2",
                "layers.%d.mlp.down_proj" } },
    { "ffn_norm", { "blk.%d.layer_output_norm", "encoder.layer.%d.output.LayerNorm", "encoder.layers.%d.norm2",
                    "layers.%d.post_mlp_layernorm" } },
};

static const char *form_of(int family, const char *role)
{
    for (size_t i = 0; i < FX_COUNT(roles); i++)
        if (strcmp(roles[i].role, role) == 0)
            return roles[i].names[family];
    return NULL;
}

const char *fx_encoder_role_of(fx_str name, bool gguf, int64_t *layer)
{
    for (size_t i = 0; i < FX_COUNT(roles); i++) {
        for (int f = gguf ? GGUF : BERT; f < (gguf ? GGUF + 1 : FAMILIES); f++) {
            if (roles[i].names[f] && fx_name_is(roles[i].names[f], name, layer))
                return roles[i].role;
        }
    }
    *layer = -1;
    return NULL;
}

/* The tensor of a role with a suffix ("weight", "bias"); NULL: the file has none. */
static const fx_weight *find(const encoder *e, int64_t layer, const char *role, const char *suffix, char *name, size_t cap)
{
    const char *form = form_of(e->family, role), *d = form ? strstr(form, "%d") : NULL;

    snprintf(name, cap, "%s", role);
    if (!form)
        return NULL;
    if (d)
        snprintf(name, cap, "%s%.*s%lld%s.%s", e->prefix, (int)(d - form), form, (long long)layer, d + 2, suffix);
    else
        snprintf(name, cap, "%s%s.%s", e->prefix, form, suffix);
    return fx_weights_find(e->w, fx_str_of(name));
}

static bool has(const encoder *e, int64_t layer, const char *role, const char *suffix)
{
    char name[160];

    return find(e, layer, role, suffix, name, sizeof(name)) != NULL;
}

/* The family and prefix under which the file has its tables. */
static fx_status find_family(encoder *e)
{
    static const char *const prefixes[] = { "", "bert.", "roberta.", "xlm_roberta.", "nomic_bert.", "model.", "camembert." };
    const int wanted = e->kind->gated ? NOMIC : BERT;
    const fx_weights *w = e->w;

    e->prefix = "";
    e->family = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF ? GGUF : wanted;
    if (e->family == GGUF)
        return FORNAX_OK;
    for (size_t i = 0; i < FX_COUNT(prefixes); i++) {
        for (int f = wanted; f <= (wanted == BERT ? BERT : NOMIC_NEW); f++) {
            e->prefix = prefixes[i];
            e->family = f;
            if (has(e, 0, "word", "weight") && has(e, 0, "o", "weight"))
                return FORNAX_OK;
        }
    }
    return fx_fail(e->err, FORNAX_EFORMAT, "%s: tensor embeddings.word_embeddings.weight or those of layer 0 are missing",
                   fx_weights_path(w));
}

/* ---- Weights ---------------------------------------------------------------------------------- */

static fx_value *weight_of(encoder *e, const fx_weight *t)
{
    fx_type type = { .dtype = t->dtype, .rank = t->rank };

    if (!fx_dtype_is_float(t->dtype) && !fx_dtype_is_quant(t->dtype))
        return fx_module_fail(e->nn.m, FORNAX_EUNSUP, "%s: %.*s: weights of type %s aren't supported",
                              fx_weights_path(e->w), FX_STR_ARG(t->name), fx_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        type.dim[i] = fx_dim_of(t->shape[i]);
    return FX_OP1(e->nn.m, WEIGHT, FX_NOIN, FX_ATTRS(FX_AS(NAME, t->name), FX_AT(TYPE, &type)), .name = t->name);
}

static fx_value *missing(encoder *e, const char *name)
{
    return fx_module_fail(e->nn.m, FORNAX_EFORMAT, "%s: tensor %s is missing", fx_weights_path(e->w), name);
}

/* cols 0: a vector of 'rows'. */
static fx_value *weight(encoder *e, int64_t layer, const char *role, const char *suffix, int64_t rows, int64_t cols)
{
    char name[160];
    const fx_weight *t = find(e, layer, role, suffix, name, sizeof(name));
    int64_t have_cols;

    if (e->nn.m->failed)
        return NULL;
    if (!t)
        return missing(e, name);
    have_cols = t->rank == 2 ? t->shape[1] : 0;
    if (t->rank != (cols ? 2 : 1) || t->shape[0] != rows || have_cols != cols)
        return fx_module_fail(e->nn.m, FORNAX_EFORMAT, "%s: %s: expected [%lld,%lld], found %d axes [%lld,%lld]",
                              fx_weights_path(e->w), name, (long long)rows, (long long)cols, t->rank,
                              (long long)t->shape[0], (long long)have_cols);
    return weight_of(e, t);
}

/* A norm's or product's vector; NULL without a fault where the file has none.  Old files call a
 * norm's weight gamma and its bias beta. */
static fx_value *vector(encoder *e, int64_t layer, const char *role, const char *suffix, const char *old, int64_t n)
{
    if (has(e, layer, role, suffix))
        return weight(e, layer, role, suffix, n, 0);
    return old && has(e, layer, role, old) ? weight(e, layer, role, old, n, 0) : NULL;
}

/* ---- The graph ---------------------------------------------------------------------------------- */

static fx_value *norm(encoder *e, int64_t layer, const char *role, fx_value *x)
{
    fx_value *w = vector(e, layer, role, "weight", "gamma", e->p.dim), *b = vector(e, layer, role, "bias", "beta", e->p.dim);

    if (!w)
        return missing(e, role);
    return FX_OP1(e->nn.m, LAYERNORM, FX_IN(x, w, b), FX_ATTRS(FX_AF(EPS, e->p.eps)), .name = fx_str_of(role));
}

/* Sums are in f32, whatever the file holds. */
static fx_value *as_f32(encoder *e, fx_value *v)
{
    if (!v || v->type.dtype == FX_F32)
        return v;
    return FX_OP1(e->nn.m, CAST, FX_IN(v), FX_ATTRS(FX_AI(DTYPE, FX_F32)), .name = v->name);
}

static fx_value *linear(encoder *e, int64_t layer, const char *role, fx_value *x, int64_t rows, int64_t cols)
{
    fx_value *w = weight(e, layer, role, "weight", rows, cols);

    return fx_nn_linear(&e->nn, x, w, as_f32(e, vector(e, layer, role, "bias", NULL, rows)));
}

static fx_value *input(encoder *e, const char *name, const char *axis)
{
    fx_dim n;
    fx_type t;

    if (fx_dim_symbol(e->nn.m->arena, fx_str_of(axis), &n) != FORNAX_OK)
        return fx_module_fail(e->nn.m, FORNAX_ENOMEM, "no memory for a graph");
    t = fx_type1(FX_I32, n);
    return FX_OP1(e->nn.m, INPUT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &t)), .name = fx_str_of(name));
}

static fx_value *some_rows(encoder *e, fx_value *w, int64_t start, int64_t n)
{
    return FX_OP1(e->nn.m, ROWS, FX_IN(w), FX_ATTRS(FX_AI(START, start), FX_AI(LENGTH, n)), .name = w ? w->name : FX_STR(""));
}

static fx_value *embed(encoder *e, fx_value *tokens)
{
    const fx_model_params *p = &e->p;
    fx_value *x = fx_nn_embed(&e->nn, tokens, weight(e, 0, "word", "weight", p->vocab, p->dim), 1), *t;

    if (e->types) {
        t = weight(e, 0, "type", "weight", e->types, p->dim);
        x = fx_nn_add(&e->nn, "with_type", x, as_f32(e, e->types > 1 ? some_rows(e, t, 0, 1) : t));
    }
    if (!e->kind->rotary) {
        t = weight(e, 0, "position", "weight", p->context + e->first_position, p->dim);
        if (e->first_position)
            t = some_rows(e, t, e->first_position, p->context);
        t = FX_OP1(e->nn.m, EMBED, FX_IN(input(e, "positions", "rows"), t), FX_NOATTR, .name = FX_STR("positions"));
        x = fx_nn_add(&e->nn, "with_position", x, t);
    }
    return norm(e, 0, "embed_norm", x);
}

static void make_qkv(encoder *e, int64_t i, fx_value *x, fx_value *out[3])
{
    static const char *const names[] = { "q", "k", "v" };
    int64_t n = e->p.heads * e->p.head_dim;
    fx_value *all;

    if (!has(e, i, "qkv", "weight")) {
        for (int k = 0; k < 3; k++)
            out[k] = linear(e, i, names[k], x, n, e->p.dim);
        return;
    }
    all = linear(e, i, "qkv", x, 3 * n, e->p.dim);
    for (int k = 0; k < 3; k++)
        out[k] = FX_OP1(e->nn.m, SLICE, FX_IN(all), FX_ATTRS(FX_AI(START, k * n), FX_AI(LENGTH, n)), .name = fx_str_of(names[k]));
}

static fx_value *activate(encoder *e, fx_value *x)
{
    static const fx_opcode ops[] = { FX_OP_GELU, FX_OP_GELU_TANH, FX_OP_SILU, FX_OP_RELU };

    return fx_nn_op1_(FX_NN_HERE(&e->nn), ops[e->act], "act", x);
}

static fx_value *block(encoder *e, fx_value *x, int64_t i)
{
    const fx_model_params *p = &e->p;
    fx_value *qkv[3], *h;

    make_qkv(e, i, x, qkv);
    qkv[0] = fx_nn_rope(&e->nn, &e->attn, "q_rope", qkv[0]);
    qkv[1] = fx_nn_rope(&e->nn, &e->attn, "k_rope", qkv[1]);
    h = fx_nn_attend(&e->nn, &e->attn, qkv[0], qkv[1], qkv[2]);
    h = linear(e, i, "o", h, p->dim, p->heads * p->head_dim);
    x = norm(e, i, "attn_norm", fx_nn_add(&e->nn, "attn_residual", x, h));

    h = linear(e, i, "up", x, p->ffn, p->dim);
    if (e->kind->gated)
        h = fx_nn_mul(&e->nn, "ffn", activate(e, linear(e, i, "gate", x, p->ffn, p->dim)), h);
    else
        h = activate(e, h);
    h = linear(e, i, "down", h, p->dim, p->ffn);
    return norm(e, i, "ffn_norm", fx_nn_add(&e->nn, "ffn_residual", x, h));
}

static fx_value *frequencies(encoder *e)
{
    int64_t n = e->p.rot_dim / 2;
    float *f = FX_ARENA_NEWN(e->nn.m->arena, float, (size_t)n + 1);
    fx_type t = fx_type1(FX_F32, fx_dim_of(n));

    if (!f)
        return fx_module_fail(e->nn.m, FORNAX_ENOMEM, "no memory for a graph");
    for (int64_t i = 0; i < n; i++)
        f[i] = (float)pow(e->p.rope_theta, -2.0 * (double)i / (double)e->p.rot_dim);
    return FX_OP1(e->nn.m, CONSTANT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &t), FX_AV(VALUES, f, n)), .name = FX_STR("inv_freq"));
}

static fx_graph *build_step(encoder *e)
{
    const fx_model_params *p = &e->p;
    fx_graph *g = fx_graph_new(e->nn.m, FX_STR("step"));
    fx_value *tokens, *wanted, *x;

    if (!g)
        return NULL;
    tokens = input(e, "tokens", "rows");
    wanted = input(e, "logit_rows", "outs");
    e->nn.chain = FX_OP1(e->nn.m, CHAIN, FX_NOIN, FX_NOATTR, .name = FX_STR("start"));
    e->attn.heads = e->attn.kv_heads = p->heads;
    e->attn.head_dim = e->attn.v_dim = p->head_dim;
    e->attn.scale = p->attn_scale;
    e->attn.window = FX_WINDOW_BOTH;
    e->attn.rot_dim = e->kind->rotary ? p->rot_dim : 0;
    e->attn.attn_scale = 1;
    if (e->attn.rot_dim)
        e->attn.inv_freq = frequencies(e);
    x = embed(e, tokens);
    for (int64_t i = 0; i < p->layers && !e->nn.m->failed; i++) {
        snprintf(e->scope, sizeof(e->scope), "blk.%lld", (long long)i);
        e->nn.scope = e->scope;
        e->attn.layer = i;
        x = block(e, x, i);
    }
    e->nn.scope = NULL;
    x = fx_nn_gather(&e->nn, "hidden", x, wanted);
    FX_OP0(e->nn.m, OUTPUT, FX_IN(x, e->nn.chain), FX_NOATTR);
    return g;
}

/* ---- Parameters ------------------------------------------------------------------------------------ */

/* What a size or number is called, and its range. */
typedef struct row {
    size_t at;                       /* in fx_model_params */
    bool number, required;           /* a double; must be there */
    const char *gguf, *hf, *older;
    double lo, hi;
} row;
#define SIZE(field, required, gguf, hf, older, hi) { offsetof(fx_model_params, field), false, required, gguf, hf, older, 1, hi }

static const row sizes[] = {
    SIZE(dim, true, "embedding_length", "hidden_size", "n_embd", 1 << 20),
    SIZE(layers, true, "block_count", "num_hidden_layers", "n_layer", 4096),
    SIZE(heads, true, "attention.head_count", "num_attention_heads", "n_head", 1 << 16),
    SIZE(ffn, true, "feed_forward_length", "intermediate_size", "n_inner", 1 << 24),
};
static const row context = SIZE(context, false, "context_length", "max_position_embeddings", "n_positions", INT32_MAX);
static const row head_size = SIZE(head_dim, false, "attention.key_length", "head_dim", NULL, 1 << 16);
static const row epsilon = { offsetof(fx_model_params, eps), true, false, "attention.layer_norm_epsilon", "layer_norm_eps",
                             "layer_norm_epsilon", 0, 0.99 };
static const row rope_base = { offsetof(fx_model_params, rope_theta), true, false, "rope.freq_base", "rope_theta",
                               "rotary_emb_base", 1, 1e30 };
static const row rope_new = { offsetof(fx_model_params, rope_theta), true, false, NULL, "rope_parameters.rope_theta", NULL, 1,
                              1e30 };

/* The file's key of a row. */
static void key_of(const encoder *e, const row *r, char key[FX_PARAM_KEY])
{
    if (e->family == GGUF)
        fx_format(key, FX_PARAM_KEY, "%s.%s", e->kind->gguf, r->gguf);
    else
        fx_format(key, FX_PARAM_KEY, "%s", r->older && !fx_config_find(e->w, r->hf) && fx_config_find(e->w, r->older)
                                               ? r->older : r->hf);
}

static fx_status get_number(encoder *e, const row *r, const char *key)
{
    double *io = (double *)((char *)&e->p + r->at);

    if (e->family == GGUF)
        FX_TRY((r->required ? fx_meta_f64 : fx_meta_opt_f64)(e->w, key, io, e->err));
    else
        FX_TRY((r->required ? fx_config_f64 : fx_config_opt_f64)(e->w, key, io, e->err));
    if (*io >= r->lo && *io <= r->hi)
        return FORNAX_OK;
    return fx_param_fail(e->w, FORNAX_EFORMAT, key, e->err, "expected %g to %g, found %g", r->lo, r->hi, *io);
}

static fx_status get(encoder *e, const row *r)
{
    int64_t *io = (int64_t *)((char *)&e->p + r->at);
    char key[FX_PARAM_KEY];

    if (e->family == GGUF && !r->gguf)
        return FORNAX_OK;
    key_of(e, r, key);
    if (r->number)
        return get_number(e, r, key);
    if (e->family == GGUF)
        FX_TRY((r->required ? fx_meta_i64 : fx_meta_opt_i64)(e->w, key, io, e->err));
    else
        FX_TRY((r->required ? fx_config_i64 : fx_config_opt_i64)(e->w, key, io, e->err));
    return fx_param_limit(e->w, key, *io, (int64_t)r->lo, (int64_t)r->hi, e->err);
}

/* What a GGUF file must have, and a folder may leave out. */
static fx_status get_gguf(encoder *e, const row *r)
{
    row needed = *r;

    needed.required = e->family == GGUF;
    return get(e, &needed);
}

static fx_status refuse(encoder *e, const char *key, const char *value)
{
    return fx_fail_param(e->err, FORNAX_EUNSUP, key, "%s: %s: %s isn't supported for %s", fx_weights_path(e->w), key, value,
                         e->kind->name);
}

static fx_status read_activation(encoder *e)
{
    static const struct { const char *name; activation act; } rows[] = {
        { "gelu", ACT_GELU }, { "gelu_python", ACT_GELU }, { "gelu_new", ACT_GELU_TANH }, { "gelu_fast", ACT_GELU_TANH },
        { "gelu_pytorch_tanh", ACT_GELU_TANH }, { "gelu_accurate", ACT_GELU_TANH }, { "silu", ACT_SILU },
        { "swish", ACT_SILU }, { "swiglu", ACT_SILU }, { "geglu", ACT_GELU }, { "relu", ACT_RELU },
    };
    const char *key = fx_config_find(e->w, "hidden_act") ? "hidden_act" : "activation_function";
    fx_str name = e->kind->gated ? FX_STR("silu") : FX_STR("gelu");
    char shown[64];

    FX_TRY(e->family == GGUF ? FORNAX_OK : fx_config_opt_str(e->w, key, &name, e->err));
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        if (fx_str_is(name, rows[i].name)) {
            e->act = rows[i].act;
            return FORNAX_OK;
        }
    }
    snprintf(shown, sizeof(shown), "\"%.*s\"", (int)FX_MIN(name.n, 50), name.p);
    return refuse(e, key, shown);
}

/* Settings of config.json that would change what is computed. */
static fx_status check_config(encoder *e)
{
    static const char *const flags[] = { "is_decoder", "prenorm", "parallel_block", "use_rms_norm", "scale_attn_by_inverse_layer_idx" };
    fx_str position = FX_STR("absolute"), rope = FX_STR("default");
    bool on = false;
    char shown[64];

    for (size_t i = 0; i < FX_COUNT(flags); i++) {
        FX_TRY(fx_config_opt_bool(e->w, flags[i], &on, e->err));
        if (on)
            return refuse(e, flags[i], "true");
    }
    FX_TRY(fx_config_opt_str(e->w, "position_embedding_type", &position, e->err));
    FX_TRY(fx_config_opt_str(e->w, "rope_parameters.rope_type", &rope, e->err));
    if (!fx_str_is(position, "absolute")) {
        snprintf(shown, sizeof(shown), "\"%.*s\"", (int)FX_MIN(position.n, 50), position.p);
        return refuse(e, "position_embedding_type", shown);
    }
    if (e->kind->rotary && !fx_str_is(rope, "default")) {
        snprintf(shown, sizeof(shown), "\"%.*s\"", (int)FX_MIN(rope.n, 50), rope.p);
        return refuse(e, "rope_parameters.rope_type", shown);
    }
    return FORNAX_OK;
}

/* Nomic: how q and k rotate, and how far the model was trained without stretching it. */
static fx_status read_rotation(encoder *e)
{
    fx_model_params *p = &e->p;
    double part = 1, stretch = 0;
    int64_t trained = 0;
    bool pairs = false;

    p->rope_theta = e->family == GGUF ? 10000 : 1000;
    FX_TRY(get(e, &rope_base));
    FX_TRY(get(e, &rope_new));
    if (e->family != GGUF) {
        FX_TRY(fx_config_opt_f64(e->w, "rotary_emb_fraction", &part, e->err));
        FX_TRY(fx_config_opt_bool(e->w, "rotary_emb_interleaved", &pairs, e->err));
        FX_TRY(fx_config_opt_f64(e->w, "rotary_scaling_factor", &stretch, e->err));
        FX_TRY(fx_config_opt_i64(e->w, "max_trained_positions", &trained, e->err));
        if (fx_config_find(e->w, "rotary_emb_scale_base"))
            return refuse(e, "rotary_emb_scale_base", "xPos");
        if (stretch && (trained < 1 || trained > p->context))
            trained = FX_MIN(p->context, 2048);
        if (stretch)
            p->context = trained;                /* beyond that, frequencies would change with the length */
    }
    if (!(part > 0 && part <= 1))
        return refuse(e, "rotary_emb_fraction", "a value outside (0, 1]");
    e->attn.style = pairs ? FX_ROPE_PAIRS : FX_ROPE_HALF;
    p->rot_dim = (int64_t)((double)p->head_dim * part);
    return FORNAX_OK;
}

/* An even number of columns rotates. */
static fx_status check_rotation(encoder *e)
{
    char key[FX_PARAM_KEY];

    if (e->p.rot_dim % 2 == 0)
        return FORNAX_OK;
    key_of(e, &head_size, key);
    if (e->family != GGUF)
        fx_format(key, sizeof(key), "%s", fx_config_find(e->w, "rotary_emb_fraction") ? "rotary_emb_fraction"
                                          : fx_config_find(e->w, "head_dim") ? "head_dim" : "num_attention_heads");
    return fx_param_fail(e->w, FORNAX_EFORMAT, key, e->err, "expected an even number of rotated columns, found %lld",
                         (long long)e->p.rot_dim);
}

/* Rows of the vocabulary, type and position tables, from the tables themselves where the file doesn't say. */
static fx_status read_tables(encoder *e)
{
    fx_model_params *p = &e->p;
    char name[160];
    const fx_weight *word = find(e, 0, "word", "weight", name, sizeof(name));
    const fx_weight *type;
    int64_t pad = 1;

    if (!word || word->rank != 2)
        return fx_fail(e->err, FORNAX_EFORMAT, "%s: tensor %s is missing", fx_weights_path(e->w), name);
    p->vocab = word->shape[0];
    type = find(e, 0, "type", "weight", name, sizeof(name));
    e->types = type ? type->shape[0] : 0;
    if (!e->kind->offset || e->family == GGUF)
        return FORNAX_OK;
    FX_TRY(fx_config_opt_i64(e->w, "pad_token_id", &pad, e->err));
    FX_TRY(fx_param_limit(e->w, "pad_token_id", pad, 0, p->context - 2, e->err));
    e->first_position = pad + 1;
    p->context -= pad + 1;
    return FORNAX_OK;
}

static fx_status read_params(encoder *e)
{
    fx_model_params *p = &e->p;
    char key[FX_PARAM_KEY];

    p->rope_theta = 10000;
    p->eps = 1e-12;
    for (size_t i = 0; i < FX_COUNT(sizes); i++)
        FX_TRY(get(e, &sizes[i]));
    p->context = e->kind->rotary ? 2048 : 512;
    FX_TRY(get_gguf(e, &context));
    FX_TRY(get_gguf(e, &epsilon));
    p->head_dim = p->dim / p->heads;
    key_of(e, &sizes[2], key);
    if (e->kind->rotary)
        FX_TRY(get(e, &head_size));
    else if (p->dim % p->heads)
        return fx_param_fail(e->w, FORNAX_EFORMAT, key, e->err, "expected %lld columns to be a multiple of %lld heads",
                             (long long)p->dim, (long long)p->heads);
    p->kv_heads = p->heads;
    p->v_dim = p->head_dim;
    p->attn_scale = 1 / sqrt((double)p->head_dim);
    FX_TRY(read_activation(e));
    FX_TRY(e->family == GGUF ? FORNAX_OK : check_config(e));
    FX_TRY(read_tables(e));
    if (e->kind->rotary)
        FX_TRY(read_rotation(e));
    return check_rotation(e);
}

/* ---- The description ---------------------------------------------------------------------------------- */

static const kind *kind_of(const fx_weights *w)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    fx_str name = { "", 0 }, type = { "", 0 };
    json_t *first;

    if (gguf) {
        if (fx_meta_str(w, "general.architecture", &name, NULL) != FORNAX_OK)
            return NULL;
    } else if (fx_weights_kind_of(w) == FX_WEIGHTS_HUB) {
        first = json_array_get(fx_config_find(w, "architectures"), 0);
        name = json_is_string(first) ? fx_str_of(json_string_value(first)) : name;
        if (!fx_config_find(w, "architectures"))         /* then model_type tells */
            (void)fx_config_opt_str(w, "model_type", &type, NULL);
    }
    for (size_t i = 0; i < FX_COUNT(kinds); i++) {
        if ((gguf && kinds[i].gguf && fx_str_is(name, kinds[i].gguf)) || fx_str_is(type, kinds[i].type))
            return &kinds[i];
        for (size_t k = 0; !gguf && k < FX_COUNT(kinds[i].hf) && kinds[i].hf[k]; k++)
            if (fx_str_is(name, kinds[i].hf[k]))
                return &kinds[i];
    }
    return NULL;
}

bool fx_encoder_known(const fx_weights *w, const char **known)
{
    const kind *k = kind_of(w);

    *known = k ? k->name : NULL;
    return k != NULL;
}

/* Keys and values of one step: exact unless asked otherwise, as they are few. */
static fx_status make_state(fx_arena *a, const encoder *e, const fx_model_options *opt, fx_state_table *s)
{
    *s = (fx_state_table){ .n_layers = (int32_t)e->p.layers, .kv_dtype = opt->kv_auto ? FX_F32 : opt->kv_dtype,
                           .page_tokens = 32 };
    s->layers = FX_ARENA_NEWN(a, fx_state_layer, (size_t)e->p.layers);
    if (!s->layers)
        return fx_nomem(e->err, "a model's state table");
    for (int64_t i = 0; i < e->p.layers; i++)
        s->layers[i] = (fx_state_layer){ .kind = FX_STATE_FULL, .kv_heads = (int32_t)e->p.heads,
                                         .k_dim = (int32_t)e->p.head_dim, .v_dim = (int32_t)e->p.head_dim };
    fx_state_layout(s);
    return FORNAX_OK;
}

fx_status fx_encoder_build(fx_arena *arena, const fx_weights *w, const fx_model_options *opt, fx_model_desc *out,
                           fx_error *err)
{
    encoder e = { .kind = kind_of(w), .w = w, .err = err };

    *out = (fx_model_desc){ 0 };
    FX_TRY(find_family(&e));
    FX_TRY(read_params(&e));
    if (opt->max_context < 0 || opt->max_context > e.p.context)
        return fx_fail_param(err, FORNAX_EARG, "max_context", "max_context: expected at most the model's %lld, found %lld",
                             (long long)e.p.context, (long long)opt->max_context);
    FX_TRY(make_state(arena, &e, opt, &out->state));
    out->module = fx_module_new(arena);
    if (!out->module)
        return fx_nomem(err, "a graph");
    e.nn.m = out->module;
    out->step = build_step(&e);
    FX_TRY(fx_module_status(out->module, err));
    out->arch = e.kind->name;
    out->params = e.p;
    out->vocab = e.p.vocab;
    out->max_context = opt->max_context ? opt->max_context : e.p.context;
    out->hidden = out->both_ways = true;
    if (e.family == GGUF)
        FX_TRY(fx_meta_opt_str(w, "general.name", &out->name, err));
    return FORNAX_OK;
}
