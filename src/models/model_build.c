/* model_build.c - finds the architecture of a file, reads its parameters, and builds its graph. */
#include <stdio.h>

#include "models/encoder.h"
#include "models/models_int.h"
#include "models/places.h"

static const fx_arch *const archs[] = {
#define ARCH(name) &fx_arch_##name,
#include "models/all.def"
};

size_t fx_arch_count(void) { return FX_COUNT(archs); }
const char *fx_arch_name(size_t i) { return archs[i]->name; }
const char *fx_arch_gguf_name(const fx_arch *arch) { return arch->gguf_name; }

const fx_arch *fx_arch_find(const char *name)
{
    for (size_t i = 0; i < FX_COUNT(archs); i++) {
        if (strcmp(archs[i]->name, name) == 0)
            return archs[i];
    }
    return NULL;
}

/* ---- Weights by role ----------------------------------------------------------------------- */

static void print_shape(fx_buf *b, const int64_t *shape, int rank)
{
    fx_buf_putc(b, '[');
    for (int i = 0; i < rank; i++)
        fx_buf_printf(b, i ? ",%lld" : "%lld", (long long)shape[i]);
    fx_buf_putc(b, ']');
}

static fx_value *bad_shape(fx_build *b, const fx_weight *t, const int64_t *want, int rank)
{
    fx_buf text;

    fx_buf_init(&text, b->nn.m->arena->mem);
    fx_buf_puts(&text, "expected ");
    print_shape(&text, want, rank);
    fx_buf_puts(&text, ", found ");
    print_shape(&text, t->shape, t->rank);
    fx_module_fail(b->nn.m, text.failed ? FORNAX_ENOMEM : FORNAX_EFORMAT, "%s: %.*s: %s", fx_weights_path(b->weights),
                   FX_STR_ARG(t->name), text.failed ? "no memory" : text.p);
    fx_buf_done(&text);
    return NULL;
}

/* A type, so that more of them may use one weight; the graph holds one op a tensor and a place. */
static fx_value *weight_op(fx_build *b, const fx_weight *t, const int64_t *shape, int rank, bool flat)
{
    fx_type type = { .dtype = t->dtype, .rank = rank };

    if (!fx_dtype_is_float(t->dtype) && !fx_dtype_is_quant(t->dtype))
        return fx_module_fail(b->nn.m, FORNAX_EUNSUP, "%s: %.*s: weights of type %s aren't supported",
                              fx_weights_path(b->weights), FX_STR_ARG(t->name), fx_dtype_name(t->dtype));
    for (int i = 0; i < rank; i++)
        type.dim[i] = fx_dim_of(shape[i]);
    if (flat)
        type = fx_type1(t->dtype, fx_dim_of(t->n_elems));
    return FX_OP1(b->nn.m, WEIGHT, FX_NOIN, FX_ATTRS(FX_AS(NAME, t->name), FX_AT(TYPE, &type)), .name = t->name);
}

static const fx_weight *find(fx_build *b, int64_t layer, const char *role, char *name, size_t cap)
{
    *name = 0;
    if (!fx_role_name(b->arch, b->weights, layer, role, name, cap))
        return NULL;
    return fx_weights_find(b->weights, fx_str_of(name));
}

enum { OPTIONAL = 1, FLAT = 2 };

/* Whether a tensor has this shape; one row may be stored as a vector. */
static bool has_shape(const fx_weight *t, const int64_t *shape, int rank)
{
    if (rank == 2 && shape[0] == 1 && t->rank == 1)
        return t->shape[0] == shape[1];
    for (int i = 0; i < rank && t->rank == rank; i++) {
        if (t->shape[i] != shape[i])
            return false;
    }
    return t->rank == rank;
}

/* The weight of a tensor (NULL: the file has none of this name). */
static fx_value *weight_of(fx_build *b, const fx_weight *t, const char *name, const int64_t *shape, int rank, int how)
{
    if (!t) {
        if (!(how & OPTIONAL))
            fx_module_fail(b->nn.m, FORNAX_EFORMAT, "%s: tensor %s is missing", fx_weights_path(b->weights), name);
        return NULL;
    }
    return has_shape(t, shape, rank) ? weight_op(b, t, shape, rank, how & FLAT) : bad_shape(b, t, shape, rank);
}

static fx_value *weight(fx_build *b, int64_t layer, const char *role, const int64_t *shape, int rank, int how)
{
    char name[128];
    const fx_weight *t;

    if (b->nn.m->failed)
        return NULL;
    t = find(b, layer, role, name, sizeof(name));
    return weight_of(b, t, *name ? name : role, shape, rank, how);
}

fx_value *fx_w_named(fx_build *b, const char *name, const int64_t *shape, int rank)
{
    return b->nn.m->failed ? NULL : weight_of(b, fx_weights_find(b->weights, fx_str_of(name)), name, shape, rank, 0);
}

fx_value *fx_w_role(fx_build *b, int64_t layer, const char *role, const int64_t *shape, int rank)
{
    return weight(b, layer, role, shape, rank, 0);
}

fx_value *fx_w1(fx_build *b, int64_t layer, const char *role, int64_t n)
{
    return weight(b, layer, role, &n, 1, 0);
}

fx_value *fx_w1_opt(fx_build *b, int64_t layer, const char *role, int64_t n)
{
    return weight(b, layer, role, &n, 1, OPTIONAL);
}

fx_value *fx_w2(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols)
{
    int64_t shape[2] = { rows, cols };

    return weight(b, layer, role, shape, 2, 0);
}

fx_value *fx_w_flat(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols)
{
    int64_t shape[2] = { rows, cols };

    return weight(b, layer, role, shape, 2, FLAT);
}

/* The shape without axes of length 1. */
static int squeeze(const fx_weight *t, int64_t out[2])
{
    int n = 0;

    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] == 1)
            continue;
        if (n == 2)
            return 3;
        out[n++] = t->shape[i];
    }
    return n;
}

fx_value *fx_w_loose(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols)
{
    int64_t want[2] = { rows, cols }, got[2] = { 1, 1 };
    const fx_weight *t;
    fx_type type;
    char name[128];

    if (b->nn.m->failed)
        return NULL;
    t = find(b, layer, role, name, sizeof(name));
    if (!t)
        return weight_of(b, NULL, *name ? name : role, want, cols ? 2 : 1, 0);
    if (cols ? squeeze(t, got) > 2 || got[0] * got[1] != rows * cols || (got[0] != rows && got[0] != cols) ||
               (got[0] != rows && rows != 1)
             : t->n_elems != rows)
        return bad_shape(b, t, want, cols ? 2 : 1);
    type = cols ? fx_type2(t->dtype, fx_dim_of(rows), fx_dim_of(cols)) : fx_type1(t->dtype, fx_dim_of(rows));
    return FX_OP1(b->nn.m, WEIGHT, FX_NOIN, FX_ATTRS(FX_AS(NAME, t->name), FX_AT(TYPE, &type)), .name = t->name);
}

bool fx_w_exists(const fx_build *b, int64_t layer, const char *role)
{
    char name[128];

    return fx_role_name(b->arch, b->weights, layer, role, name, sizeof(name)) &&
           fx_weights_find(b->weights, fx_str_of(name)) != NULL;
}

/* ---- Parts that architectures share --------------------------------------------------------- */

bool fx_is_gguf(const fx_build *b) { return fx_weights_kind_of(b->weights) == FX_WEIGHTS_GGUF; }

/* A product's weight [rows, cols], in whichever way the file has it. */
static fx_value *product_weight(fx_build *b, int64_t layer, const char *role, int64_t rows, int64_t cols)
{
    fx_value *w;

    if (!b->arch->hf_transposed || layer == FX_ONCE || fx_is_gguf(b))
        return fx_w2(b, layer, role, rows, cols);
    w = fx_w2(b, layer, role, cols, rows);
    return w ? FX_OP1(b->nn.m, TRANSPOSE, FX_IN(w), FX_NOATTR, .name = w->name) : NULL;
}

fx_value *fx_b_product(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t rows, int64_t cols, bool bias)
{
    char bias_role[64];

    snprintf(bias_role, sizeof(bias_role), "%s.bias", role);
    return fx_b_linear(b, layer, role, x, rows, cols, fx_is_gguf(b) ? fx_w_exists(b, layer, bias_role) : bias);
}

fx_value *fx_b_linear(fx_build *b, int64_t layer, const char *role, fx_value *x, int64_t rows, int64_t cols, bool bias)
{
    char bias_role[64];
    fx_value *w = product_weight(b, layer, role, rows, cols), *v = NULL;

    snprintf(bias_role, sizeof(bias_role), "%s.bias", role);
    if (bias)
        v = fx_w1(b, layer, bias_role, rows);
    return fx_nn_linear(&b->nn, x, w, v);
}


/* ---- The graph ---------------------------------------------------------------------------------- */

static fx_value *input(fx_build *b, const char *name, const char *axis)
{
    fx_dim n;
    fx_type t;

    if (fx_dim_symbol(b->nn.m->arena, fx_str_of(axis), &n) != FORNAX_OK)
        return fx_module_fail(b->nn.m, FORNAX_ENOMEM, "no memory for a graph");
    t = fx_type1(FX_I32, n);
    return FX_OP1(b->nn.m, INPUT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &t)), .name = fx_str_of(name));
}

fx_value *fx_b_positions(fx_build *b) { return input(b, "positions", "rows"); }

static fx_value *frequencies(fx_build *b, const char *name, const fx_rope *rope)
{
    int64_t n = rope->n;
    fx_type t = fx_type1(FX_F32, fx_dim_of(n));

    if (!n || !rope->inv_freq)
        return NULL;
    return FX_OP1(b->nn.m, CONSTANT, FX_NOIN, FX_ATTRS(FX_AT(TYPE, &t), FX_AV(VALUES, rope->inv_freq, n)),
                  .name = fx_str_of(name));
}

/* What attention does in layer i. */
static void set_attention(fx_build *b, int64_t i)
{
    const fx_model_params *p = b->p;
    int flags = p->layer_flags ? p->layer_flags[i] : p->window ? FX_LAYER_WINDOW : 0;
    bool window = flags & FX_LAYER_WINDOW, local = window && b->inv_freq_local;
    const fx_rope *rope = local ? b->rope_local : b->rope;

    b->attn = (fx_nn_attn){ .heads = p->heads,
                            .kv_heads = p->kv_heads,
                            .head_dim = p->head_dim,
                            .v_dim = p->v_dim,
                            .layer = i,
                            .scale = p->attn_scale,
                            .softcap = p->attn_softcap,
                            .window = window ? p->window : 0,
                            .rot_dim = flags & FX_LAYER_NOPE ? 0 : p->rot_dim,
                            .style = fx_is_gguf(b) ? b->arch->gguf_rope : b->arch->hf_rope,
                            .attn_scale = rope->attn_scale,
                            .long_from = rope->long_from,
                            .growth = rope->growth,
                            .inv_freq = local ? b->inv_freq_local : b->inv_freq };
}

static bool same_content(const fx_weight *a, const fx_weight *b)
{
    return a->dtype == b->dtype && a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/* The matrix that makes logits: "output", or the embedding table where the model ties them. A GGUF file
 * says so by having no "output"; config.json says so, but isn't believed where the two differ. */
static fx_value *output_weight(fx_build *b)
{
    int64_t cols = b->p->embed_dim ? b->p->embed_dim : b->p->dim;
    char name[128], table_name[128];
    const fx_weight *own = find(b, FX_ONCE, "output", name, sizeof(name));
    const fx_weight *table = find(b, FX_ONCE, "token_embd", table_name, sizeof(table_name));
    bool tied = fx_is_gguf(b) ? !own : b->p->tied && !(own && table && !same_content(own, table));

    return fx_w2(b, FX_ONCE, tied ? "token_embd" : "output", b->p->vocab, cols);
}

static fx_value *make_logits(fx_build *b, fx_value *x)
{
    const fx_model_params *p = b->p;
    bool bias = fx_is_gguf(b) ? fx_w_exists(b, FX_ONCE, "output.bias") : p->head_bias;
    fx_value *w = output_weight(b);

    x = fx_nn_linear(&b->nn, x, w, bias ? fx_w1(b, FX_ONCE, "output.bias", p->vocab) : NULL);
    x = fx_b_scale(b, "logit_scale", x, p->logit_scale);
    if (!p->logit_softcap)
        return x;
    x = fx_b_scale(b, "logit_cap", x, 1 / p->logit_softcap);
    return fx_b_scale(b, "logit_capped", fx_nn_op1_(FX_NN_HERE(&b->nn), FX_OP_TANH, "logit_tanh", x), p->logit_softcap);
}

static fx_value *embed(fx_build *b, fx_value *tokens)
{
    fx_value *table;

    if (b->arch->embed)
        return b->arch->embed(b, tokens);
    table = fx_w2(b, FX_ONCE, "token_embd", b->p->vocab, b->p->dim);
    return fx_nn_embed(&b->nn, tokens, table, b->p->embed_scale);
}

static fx_graph *build_step(fx_build *b, const fx_rope *rope, const fx_rope *local)
{
    const fx_model_params *p = b->p;
    fx_graph *g = fx_graph_new(b->nn.m, FX_STR("step"));
    fx_value *tokens, *wanted, *x;

    if (!g)
        return NULL;
    tokens = input(b, "tokens", "rows");
    wanted = input(b, "logit_rows", "outs");
    b->nn.chain = FX_OP1(b->nn.m, CHAIN, FX_NOIN, FX_NOATTR, .name = FX_STR("start"));
    b->inv_freq = frequencies(b, "inv_freq", rope);
    b->inv_freq_local = frequencies(b, "inv_freq_local", local);
    b->rope = rope;
    b->rope_local = local;
    x = embed(b, tokens);
    for (int64_t i = 0; i < p->layers && !b->nn.m->failed; i++) {
        snprintf(b->scope, sizeof(b->scope), "blk.%lld", (long long)i);
        b->nn.scope = b->scope;
        set_attention(b, i);
        x = b->arch->block(b, x, i);
    }
    b->nn.scope = NULL;
    x = fx_nn_gather(&b->nn, "wanted", x, wanted);
    x = b->arch->finish ? b->arch->finish(b, x) : fx_b_norm(b, FX_ONCE, "output_norm", x);
    if (!b->hidden)
        x = make_logits(b, x);
    if (x)
        x->name = FX_STR("logits");
    FX_OP0(b->nn.m, OUTPUT, FX_IN(x, b->nn.chain), FX_NOATTR);
    return g;
}

/* What layer i keeps. */
static fx_state_layer state_of(const fx_arch *arch, const fx_model_params *p, int64_t i)
{
    int flags = p->layer_flags ? p->layer_flags[i] : p->window ? FX_LAYER_WINDOW : 0;
    fx_state_layer l = { .kind = FX_STATE_FULL, .kv_heads = (int32_t)p->kv_heads, .k_dim = (int32_t)p->head_dim,
                         .v_dim = (int32_t)p->v_dim };

    if (p->mla.kv_rank && !p->mla.expanded) {                /* one key head: what rotates, then the latent, which is the value too */
        l.kind = FX_STATE_LATENT;
        l.kv_heads = 1;
        l.k_dim = (int32_t)(p->rot_dim + p->mla.kv_rank);
        l.v_dim = (int32_t)p->mla.kv_rank;
    } else if (flags & FX_LAYER_LINEAR) {
        l = (fx_state_layer){ .kind = FX_STATE_RECURRENT };
        arch->state(p, &l);
    } else if (flags & FX_LAYER_WINDOW) {
        l.kind = FX_STATE_WINDOW;
        l.window = (int32_t)p->window;
    }
    return l;
}

static fx_status make_state(fx_arena *a, const fx_arch *arch, const fx_model_params *p, const fx_model_options *opt,
                            fx_state_table *s, fx_error *err)
{
    *s = (fx_state_table){ .n_layers = (int32_t)p->layers };
    s->kv_dtype = opt->kv_auto ? (opt->mode == FX_MODE_F32 ? FX_F32 : FX_F16) : opt->kv_dtype;
    s->page_tokens = opt->page_tokens ? opt->page_tokens : 32;
    if (!fx_kv_type_known(s->kv_dtype))
        return fx_fail_param(err, FORNAX_EUNSUP, "kv_dtype", "kv_dtype: expected f16, bf16, f32 or i8, found %s",
                             fx_vtype_name(s->kv_dtype));
    if (s->page_tokens < 32 || s->page_tokens % 32 || s->page_tokens > 4096)
        return fx_fail_param(err, FORNAX_EARG, "page_tokens", "page_tokens: expected a multiple of 32 up to 4096, found %d",
                             (int)s->page_tokens);
    s->layers = FX_ARENA_NEWN(a, fx_state_layer, (size_t)p->layers);
    if (!s->layers)
        return fx_nomem(err, "a model's state table");
    for (int64_t i = 0; i < p->layers; i++)
        s->layers[i] = state_of(arch, p, i);
    fx_state_layout(s);
    return FORNAX_OK;
}

/* ---- Which architecture ---------------------------------------------------------------------------- */

static fx_status unknown_arch(const fx_weights *w, fx_str name, fx_error *err)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    fx_status st;
    fx_buf list;

    fx_buf_init(&list, &fx_mem_libc);
    for (size_t i = 0; i < FX_COUNT(archs); i++)
        fx_buf_printf(&list, "%s%s", i ? ", " : "", archs[i]->name);
    st = fx_param_fail(w, FORNAX_EUNSUP, gguf ? "general.architecture" : "architectures", err,
                       "\"%s\" isn't supported (known: %s)", FX_SHOW(name), list.failed ? "" : list.p);
    fx_buf_done(&list);
    return st;
}

/* "Qwen3Model" of "Qwen3ForCausalLM": the network without its output matrix. */
static bool is_headless(fx_str name, const char *with_head)
{
    fx_str base = fx_str_of(with_head), head = FX_STR("ForCausalLM"), tail = FX_STR("Model");

    if (!fx_str_ends(base, head) || !fx_str_ends(name, tail))
        return false;
    return fx_str_eq(fx_str_n(base.p, base.n - head.n), fx_str_n(name.p, name.n - tail.n));
}

/* Folders without "architectures": the architecture of their model_type. */
static const fx_arch *arch_of_type(const fx_weights *w)
{
    fx_str type = { "", 0 };

    if (fx_weights_kind_of(w) != FX_WEIGHTS_HUB || fx_config_find(w, "architectures") ||
        fx_config_opt_str(w, "model_type", &type, NULL) != FORNAX_OK)
        return NULL;
    for (size_t i = 0; i < FX_COUNT(archs); i++) {
        if (archs[i]->hf_name && fx_str_is(type, archs[i]->hf_type ? archs[i]->hf_type : archs[i]->name))
            return archs[i];
    }
    return NULL;
}

static fx_status find_arch(const fx_weights *w, bool hidden, const fx_arch **out, fx_error *err)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    fx_str name = { "", 0 };

    if (fx_weights_kind_of(w) == FX_WEIGHTS_SAFETENSORS)
        return fx_fail(err, FORNAX_EUNSUP, "%s: a model needs config.json beside its safetensors; open the folder",
                       fx_weights_path(w));
    if ((*out = arch_of_type(w)) != NULL)
        return FORNAX_OK;
    if (gguf) {
        FX_TRY(fx_meta_str(w, "general.architecture", &name, err));
    } else {
        json_t *list = fx_config_find(w, "architectures"), *first = json_array_get(list, 0);

        if (!json_is_string(first))
            return fx_param_fail(w, FORNAX_EFORMAT, "architectures", err, "expected a list of names");
        name = fx_str_n(json_string_value(first), json_string_length(first));
    }
    for (size_t i = 0; i < FX_COUNT(archs); i++) {
        const char *known = gguf ? archs[i]->gguf_name : archs[i]->hf_name, *outer = gguf ? NULL : archs[i]->hf_outer;

        if ((known && (fx_str_is(name, known) || (hidden && is_headless(name, known)))) ||
            (outer && fx_str_is(name, outer))) {
            *out = archs[i];
            return FORNAX_OK;
        }
    }
    return unknown_arch(w, name, err);
}

fx_status fx_arch_of(const fx_weights *w, const fx_arch **out, fx_error *err) { return find_arch(w, false, out, err); }

/* Other ways of quantizing are undone, or refused, where the folder is read (format/requant.c). */
static fx_status check_common(const fx_arch *arch, const fx_weights *w, fx_error *err)
{
    fx_str method = FX_STR("");

    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF || !fx_config_find(w, "quantization_config"))
        return FORNAX_OK;
    FX_TRY(fx_config_opt_str(w, "quantization_config.quant_method", &method, err));
    if (fx_str_is(method, "mxfp4") && !arch->hf_mxfp4)
        return fx_param_fail(w, FORNAX_EUNSUP, "quantization_config.quant_method", err,
                             "\"mxfp4\" isn't supported for this architecture");
    return FORNAX_OK;
}

static fx_status set_context(const fx_model_params *p, const fx_model_options *opt, int64_t *out, fx_error *err)
{
    if (opt->max_context < 0 || opt->max_context > p->context)
        return fx_fail_param(err, FORNAX_EARG, "max_context", "max_context: expected at most the model's %lld, found %lld",
                             (long long)p->context, (long long)opt->max_context);
    *out = opt->max_context ? opt->max_context : p->context;
    return FORNAX_OK;
}

fx_status fx_model_build(fx_arena *arena, const fx_weights *w, const fx_model_options *opt, fx_model_desc *out,
                         fx_error *err)
{
    fx_build b = { .weights = w };
    fx_rope rope = { .attn_scale = 1 }, local = { .attn_scale = 1 };
    const char *encoder;

    if (fx_encoder_known(w, &encoder))
        return fx_encoder_build(arena, w, opt, out, err);
    *out = (fx_model_desc){ .hidden = opt->hidden };
    b.hidden = opt->hidden;
    FX_TRY(find_arch(w, opt->hidden, &b.arch, err));
    FX_TRY(check_common(b.arch, w, err));
    FX_TRY(fx_params_read(b.arch, w, arena, &out->params, err));
    out->params.mla.expanded = opt->adapters && fx_w_exists(&b, 0, "attn_kv_b");      /* apart, nothing adapts them */
    if (b.arch->check)
        FX_TRY(b.arch->check(w, &out->params, err));
    if (out->params.rot_dim)
        FX_TRY(fx_rope_read(b.arch, w, &out->params, false, arena, &rope, err));
    if (rope.context)
        out->params.context = rope.context;
    if (out->params.rot_dim && out->params.rope_local > 0)
        FX_TRY(fx_rope_read(b.arch, w, &out->params, true, arena, &local, err));
    FX_TRY(set_context(&out->params, opt, &out->max_context, err));
    FX_TRY(make_state(arena, b.arch, &out->params, opt, &out->state, err));
    out->state.long_from = (int32_t)rope.long_from;
    out->state.long_each = rope.growth > 0;
    out->module = fx_module_new(arena);
    if (!out->module)
        return fx_nomem(err, "a graph");
    b.p = &out->params;
    b.nn.m = out->module;
    out->step = build_step(&b, &rope, &local);
    FX_TRY(fx_module_status(out->module, err));
    out->arch = b.arch->name;
    out->vocab = out->params.vocab;
    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        FX_TRY(fx_meta_opt_str(w, "general.name", &out->name, err));
    return FORNAX_OK;
}
