/* test_models.c - architectures: parameters, checks of tensors, and the plans of small models
 * against the recorded ones of tests/cases/plans.
 *
 * FXTEST_UPDATE=1 records plans anew; the difference is to be read before it is committed. */
#include "fxtest.h"

#include "model_files.h"
#include "models/models.h"
#include "passes/passes.h"

#define LLAMA .arch = "llama", .layers = 2, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 96, .vocab = 100
#define QWEN3 .arch = "qwen3", .layers = 2, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 32, .ffn = 96, .vocab = 100, \
    .qk_norm = true

typedef struct built {
    fx_arena arena;
    fx_weights *w;
    fx_model_desc d;
    scratch dir;
    fx_error err;
    fx_status st;
} built;

static void build(built *b, const model_spec *s, const fx_model_options *opt)
{
    memset(b, 0, sizeof(*b));
    fx_arena_init(&b->arena, &fx_mem_libc, 0);
    if (!scratch_open(&b->dir)) {
        b->st = FORNAX_EIO;
        return;
    }
    b->st = fx_weights_open(&b->w, &fx_mem_libc, model_write(&b->dir, s), 0, &b->err);
    if (b->st == FORNAX_OK)
        b->st = fx_model_build(&b->arena, b->w, opt, &b->d, &b->err);
}

static void discard(built *b)
{
    fx_weights_close(b->w);
    fx_arena_done(&b->arena);
    model_remove(&b->dir);
}

static const fx_model_options plain = { .mode = FX_MODE_AUTO, .kv_auto = true };

/* ---- Descriptions ---------------------------------------------------------------------------- */

TEST(a_gguf_llama_is_described)
{
    model_spec s = { LLAMA, .gguf = true, .dtype = FX_Q8_0, .tied = true };
    built b;

    build(&b, &s, &plain);
    CHECK_OK(b.st, b.err);
    CHECK_STR(b.d.arch, "llama");
    CHECK(fx_str_is(b.d.name, "Tiny"));
    CHECK_EQ_I64(b.d.vocab, 100);
    CHECK_EQ_I64(b.d.max_context, 512);
    CHECK_EQ_I64(b.d.params.layers, 2);
    CHECK_EQ_I64(b.d.params.head_dim, 16);
    CHECK_NEAR(b.d.params.attn_scale, 0.25, 0);
    CHECK_NEAR(b.d.params.eps, 1e-5, 1e-11);
    CHECK_EQ_I64(b.d.state.n_layers, 2);
    CHECK_EQ_I64(b.d.state.kv_dtype, FX_F16);
    CHECK_EQ_I64(b.d.state.page_tokens, 32);
    CHECK_EQ_I64(b.d.state.page_bytes, 2 * 2 * 2 * 32 * 16 * 2);      /* layers, k and v, heads, tokens, dim, f16 */
    CHECK_OK(fx_module_check(b.d.module, &b.err), b.err);
    discard(&b);
}

/* A token of a model with latent attention keeps the latent and what rotates of each layer, nothing by head. */
TEST(latent_attention_keeps_the_latent)
{
    static const struct { const char *path; int64_t layers, rot, rank; } cases[] = {
        { FXTEST_DATA "/models/deepseek_v2", 3, 8, 32 }, { FXTEST_DATA "/models/minicpm3", 2, 8, 32 },
    };

    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        fx_error err = { 0 };
        fx_model_desc d;
        fx_weights *w;
        fx_arena a;

        fx_arena_init(&a, &fx_mem_libc, 0);
        CHECK_OK(fx_weights_open(&w, &fx_mem_libc, cases[i].path, 0, &err), err);
        CHECK_OK(fx_model_build(&a, w, &plain, &d, &err), err);
        CHECK_EQ_I64(d.state.layers[0].kind, FX_STATE_LATENT);
        CHECK_EQ_I64(d.state.n_layers, cases[i].layers);
        CHECK_EQ_I64(d.state.page_bytes, cases[i].layers * 32 * (cases[i].rot + cases[i].rank) * 2);
        fx_weights_close(w);
        fx_arena_done(&a);
    }
}

TEST(options_are_honoured)
{
    model_spec s = { LLAMA, .dtype = FX_BF16 };
    static const struct { fx_model_options o; fx_status st; fx_dtype kv; int64_t context; int page; } table[] = {
        { { .mode = FX_MODE_F32, .kv_auto = true }, FORNAX_OK, FX_F32, 512, 32 },
        { { .mode = FX_MODE_BF16, .kv_auto = true }, FORNAX_OK, FX_F16, 512, 32 },
        { { .kv_dtype = FX_F32, .page_tokens = 64, .max_context = 100 }, FORNAX_OK, FX_F32, 100, 64 },
        { { .mode = FX_MODE_F32, .kv_dtype = FX_F16 }, FORNAX_OK, FX_F16, 512, 32 },
        { { .kv_dtype = FX_I16 }, FORNAX_EUNSUP, 0, 0, 0 },
        { { .kv_dtype = FX_BF16 }, FORNAX_OK, FX_BF16, 512, 32 },
        { { .kv_dtype = FX_I8 }, FORNAX_OK, FX_I8, 512, 32 },
        { { .kv_auto = true, .page_tokens = 33 }, FORNAX_EARG, 0, 0, 0 },
        { { .kv_auto = true, .page_tokens = -32 }, FORNAX_EARG, 0, 0, 0 },
        { { .kv_auto = true, .max_context = 513 }, FORNAX_EARG, 0, 0, 0 },
        { { .kv_auto = true, .max_context = -1 }, FORNAX_EARG, 0, 0, 0 },
    };

    for (size_t i = 0; i < FX_COUNT(table); i++) {
        built b;

        build(&b, &s, &table[i].o);
        CHECK_EQ_I64(b.st, table[i].st);
        if (b.st == FORNAX_OK) {
            CHECK_EQ_I64(b.d.state.kv_dtype, table[i].kv);
            CHECK_EQ_I64(b.d.max_context, table[i].context);
            CHECK_EQ_I64(b.d.state.page_tokens, table[i].page);
        }
        discard(&b);
    }
}

/* ---- Rotation ------------------------------------------------------------------------------------- */

static const float *frequencies(const built *b, int64_t *n)
{
    for (fx_op *op = fx_graph_body(b->d.step)->first; op; op = op->next) {
        if (op->code == FX_OP_CONSTANT) {
            *n = fx_op_attr(op, FX_A_VALUES)->u.v.n;
            return fx_op_attr(op, FX_A_VALUES)->u.v.at;
        }
    }
    *n = 0;
    return NULL;
}

static void linear_keys(fx_buf *b, int *n)
{
    *n = 2;
    if (b) {
        gguf_key(b, "llama.rope.scaling.type", FX_META_STR);
        put_str(b, "linear");
        model_key_f32(b, "llama", "rope.scaling.factor", 4);
    }
}

static void old_linear_keys(fx_buf *b, int *n)
{
    *n = 1;
    if (b)
        model_key_f32(b, "llama", "rope.scale_linear", 4);
}

/* For head_dim 16 and theta 10000: theta^(-i/8), i = 0..7; divided by 4; and llama3's with factor 8,
 * low 1, high 4, original 64, by the published formula in NumPy. */
static const float f_plain[8] = { 1.0f, 0.31622776f, 0.1f, 0.031622775f, 0.01f, 0.0031622776f, 0.001f, 0.00031622776f };
static const float f_linear[8] = { 0.25f, 0.07905694f, 0.025f, 0.0079056937f, 0.0025f, 0.00079056941f, 0.00025f,
                                   0.000079056941f };
static const float f_llama3[8] = { 1.0f, 0.244384602f, 0.0130422562f, 0.00395284686f, 0.00125f, 0.000395284704f,
                                   0.000125f, 0.0000395284696f };

/* yarn with factor 4 and original 64; longrope's divisors, of short and of long sequences. NumPy, f64. */
static const float f_yarn[8] = { 1.0f, 0.237170825f, 0.05f, 0.00790569415f, 0.0025f, 0.000790569415f, 0.00025f,
                                 7.90569415e-05f };
static const float f_longrope[16] = { 1.0f, 0.301169301f, 0.0909090909f, 0.0263523138f, 0.00769230769f, 0.00210818511f,
                                      0.000588235294f, 0.000158113883f, 0.909090909f, 0.225876976f, 0.05f,
                                      0.0105409255f, 0.00222222222f, 0.000527046277f, 0.000142857143f, 3.95284708e-05f };
#define LONGROPE ", \"original_max_position_embeddings\": 64, \"rope_scaling\": {\"type\": \"longrope\"," \
    " \"short_factor\": [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0]," \
    " \"long_factor\": [1.1, 1.4, 2.0, 3.0, 4.5, 6.0, 7.0, 8.0]}"
#define DYNAMIC ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 4.0}"

static const struct { model_spec s; const float *want; } rotations[] = {
    { { LLAMA, .dtype = FX_F32, .config = ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4.0,"
        " \"original_max_position_embeddings\": 64}" }, f_yarn },
    { { LLAMA, .dtype = FX_F32, .config = DYNAMIC }, f_plain },
    { { LLAMA, .dtype = FX_F32, .config = LONGROPE }, f_longrope },
    { { LLAMA, .dtype = FX_F32 }, f_plain },
    { { LLAMA, .dtype = FX_F32, .config = ", \"rope_theta\": 10000.0, \"rope_scaling\": null" }, f_plain },
    { { LLAMA, .dtype = FX_F32, .config = ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4.0}" }, f_linear },
    { { LLAMA, .dtype = FX_F32, .config = ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0,"
        " \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}" }, f_llama3 },
    { { LLAMA, .dtype = FX_F32, .config = ", \"rope_theta\": 7, \"rope_parameters\": {\"rope_type\": \"llama3\","
        " \"rope_theta\": 10000, \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4,"
        " \"original_max_position_embeddings\": 64}" }, f_llama3 },
    { { LLAMA, .gguf = true, .dtype = FX_F32 }, f_plain },
    { { LLAMA, .gguf = true, .dtype = FX_F32, .more_keys = linear_keys }, f_linear },
    { { LLAMA, .gguf = true, .dtype = FX_F32, .more_keys = old_linear_keys }, f_linear },
};

TEST(frequencies_follow_the_scaling)
{
    for (size_t i = 0; i < FX_COUNT(rotations); i++) {
        built b;
        int64_t n = 0;
        const float *f;

        build(&b, &rotations[i].s, &plain);
        CHECK_OK(b.st, b.err);
        f = b.st == FORNAX_OK ? frequencies(&b, &n) : NULL;
        CHECK_EQ_I64(n, rotations[i].want == f_longrope ? 16 : 8);
        for (int64_t k = 0; k < n; k++) {
            if (fabsf(f[k] - rotations[i].want[k]) > 2e-6f * rotations[i].want[k])
                FXTEST_FAIL("case %zu: frequency %d is %.9g, expected %.9g", i, (int)k, (double)f[k],
                            (double)rotations[i].want[k]);
        }
        discard(&b);
    }
}

/* Which sequences turn otherwise, by the length of their prompts. */
TEST(lengths_have_classes)
{
    static const struct { model_spec s; int64_t context; int32_t at[4]; double attn_scale; } cases[] = {
        { { LLAMA, .dtype = FX_F32 }, 512, { 0, 0, 0, 0 }, 1 },
        { { LLAMA, .dtype = FX_F32, .config = LONGROPE }, 512, { 0, 0, 65, 65 }, 1.224744871391589 },
        { { LLAMA, .dtype = FX_F32, .config = DYNAMIC }, 2048, { 0, 0, 0, 600 }, 1 },
        { { LLAMA, .dtype = FX_F32, .config = ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}" }, 512,
          { 0, 0, 0, 0 }, 1.138629436111989 },
    };
    static const int64_t lengths[4] = { 1, 64, 65, 600 };

    for (size_t i = 0; i < FX_COUNT(cases); i++) {
        built b;

        build(&b, &cases[i].s, &plain);
        CHECK_OK(b.st, b.err);
        CHECK_EQ_I64(b.d.max_context, cases[i].context);
        for (int k = 0; k < 4; k++)
            CHECK_EQ_I64(fx_state_length_class(&b.d.state, lengths[k]), cases[i].at[k]);
        for (fx_op *op = fx_graph_body(b.d.step)->first; op; op = op->next) {
            if (op->code == FX_OP_ROPE)
                CHECK_NEAR(fx_op_f(op, FX_A_ATTN_SCALE), cases[i].attn_scale, 1e-12);
        }
        discard(&b);
    }
}

/* ---- Refusals ---------------------------------------------------------------------------------------- */

static void experts_key(fx_buf *b, int *n)
{
    *n = 1;
    if (b)
        gguf_u32(b, "llama.expert_count", 8);
}

#define SCALED(type) ", \"rope_scaling\": {\"rope_type\": \"" type "\", \"factor\": 4.0}"
static const struct { model_spec s; fx_status st; const char *why; } refusals[] = {
    { { LLAMA, .dtype = FX_F32, .drop = "model.layers.1.mlp.up_proj.weight" }, FORNAX_EFORMAT,
      "tensor model.layers.1.mlp.up_proj.weight is missing" },
    { { LLAMA, .dtype = FX_F32, .drop = "lm_head.weight" }, FORNAX_EFORMAT, "tensor lm_head.weight is missing" },
    { { LLAMA, .dtype = FX_F32, .shrink = "model.layers.1.self_attn.k_proj.weight" }, FORNAX_EFORMAT,
      "model.layers.1.self_attn.k_proj.weight: expected [32,64], found [31,64]" },
    { { LLAMA, .dtype = FX_F32, .shrink = "model.norm.weight" }, FORNAX_EFORMAT,
      "model.norm.weight: expected [64], found [63]" },
    { { LLAMA, .gguf = true, .dtype = FX_F32, .drop = "blk.0.attn_norm.weight" }, FORNAX_EFORMAT,
      "tensor blk.0.attn_norm.weight is missing" },
    { { LLAMA, .gguf = true, .dtype = FX_Q8_0, .shrink = "blk.1.ffn_down.weight" }, FORNAX_EFORMAT,
      "blk.1.ffn_down.weight: expected [64,96], found [63,96]" },
    { { LLAMA, .gguf = true, .dtype = FX_F32, .drop = "token_embd.weight" }, FORNAX_EFORMAT,
      "tensor token_embd.weight is missing" },
    { { LLAMA, .gguf = true, .dtype = FX_F32, .more_keys = experts_key }, FORNAX_EFORMAT, "experts of a row" },
    { { LLAMA, .dtype = FX_F32, .config = SCALED("mrope") }, FORNAX_EUNSUP, "\"mrope\"" },
    { { LLAMA, .dtype = FX_F32, .config = SCALED("longrope") }, FORNAX_EFORMAT, "rope_scaling.short_factor" },
    { { LLAMA, .dtype = FX_F32, .config = ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 0.5}" },
      FORNAX_EFORMAT, "rope_scaling.factor" },
    { { LLAMA, .dtype = FX_F32, .config = SCALED("new") }, FORNAX_EUNSUP, "\"new\"" },
    { { LLAMA, .dtype = FX_F32, .config = SCALED("llama3") }, FORNAX_ENOTFOUND, "rope_scaling.low_freq_factor" },
    { { LLAMA, .dtype = FX_F32, .config = ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}" }, FORNAX_EFORMAT,
      "rope_scaling.factor" },
    { { LLAMA, .dtype = FX_F32, .config = ", \"hidden_act\": \"xielu\"" }, FORNAX_EUNSUP, "hidden_act: \"xielu\"" },
    { { LLAMA, .dtype = FX_F32, .config = ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]" },
      FORNAX_EFORMAT, "sliding_window is missing" },
    { { QWEN3, .dtype = FX_F32, .config = ", \"layer_types\": [\"full_attention\", \"chunked_attention\"]" },
      FORNAX_EUNSUP, "\"chunked_attention\" (layer 1)" },
    { { QWEN3, .dtype = FX_F32, .config = ", \"layer_types\": [\"full_attention\"]" }, FORNAX_EFORMAT, "a list of 2" },
    { { LLAMA, .dtype = FX_F32, .config = ", \"quantization_config\": {\"quant_method\": \"quip\"}" }, FORNAX_EUNSUP,
      "quip" },
    { { QWEN3, .dtype = FX_F32, .drop = "model.layers.0.self_attn.q_norm.weight" }, FORNAX_EFORMAT,
      "model.layers.0.self_attn.q_norm.weight is missing" },
    { { .arch = "gpt5", .gguf = true, .dtype = FX_F32 }, FORNAX_EUNSUP, "\"gpt5\"" },
    { { .arch = "llama", .layers = 1, .dim = 64, .heads = 3, .kv_heads = 2, .head_dim = 16, .ffn = 96, .vocab = 100,
        .dtype = FX_F32 }, FORNAX_EFORMAT, "num_key_value_heads: expected heads to be a multiple of kv heads, found 3 and 2" },
    { { .arch = "llama", .layers = 0, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 96, .vocab = 100,
        .dtype = FX_F32 }, FORNAX_EFORMAT, "num_hidden_layers: number of layers: expected 1 to 4096, found 0" },
    { { .arch = "llama", .layers = 1, .dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 15, .ffn = 96, .vocab = 100,
        .dtype = FX_F32 }, FORNAX_EFORMAT, "an even number" },
};

TEST(what_cannot_be_run_is_refused)
{
    for (size_t i = 0; i < FX_COUNT(refusals); i++) {
        built b;

        build(&b, &refusals[i].s, &plain);
        if (b.st != refusals[i].st || !strstr(b.err.text, refusals[i].why))
            FXTEST_FAIL("case %zu: %d: %s, expected %d: %s", i, (int)b.st, b.err.text, (int)refusals[i].st,
                        refusals[i].why);
        discard(&b);
    }
}

/* Tensors that nobody asks for, and keys that change nothing. */
TEST(what_does_not_matter_is_left_alone)
{
    static const model_spec table[] = {
        { LLAMA, .dtype = FX_F32, .bias = true, .config = ", \"pretraining_tp\": 1, \"torch_dtype\": \"bfloat16\"" },
        { LLAMA, .dtype = FX_F32, .config = ", \"layer_types\": [\"full_attention\", \"full_attention\"]" },
        { LLAMA, .dtype = FX_F32, .config = ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e4}" },
        { QWEN3, .dtype = FX_F32, .config = ", \"use_sliding_window\": false, \"sliding_window\": 32" },
        { QWEN3, .gguf = true, .dtype = FX_Q4_0 },
        { LLAMA, .gguf = true, .dtype = FX_F32, .bias = true },
        { .arch = "mistral", .layers = 1, .dim = 64, .heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 96, .vocab = 100,
          .dtype = FX_F16, .config = ", \"sliding_window\": 32" },
    };

    for (size_t i = 0; i < FX_COUNT(table); i++) {
        built b;

        build(&b, &table[i], &plain);
        if (b.st != FORNAX_OK)
            FXTEST_FAIL("case %zu: %s", i, b.err.text);
        discard(&b);
    }
}

/* ---- Plans ---------------------------------------------------------------------------------------------- */

static size_t q8_bytes(int64_t n_rows, int64_t k)
{
    return (size_t)(n_rows * (k + k / 8));
}

/* No two buffers that live at once share bytes, and all lie inside. */
static void check_layout(const fx_plan *p, int64_t rows, int64_t outs)
{
    for (int32_t i = 0; i < p->n_bufs; i++) {
        const fx_plan_buf *a = &p->bufs[i];
        size_t n = a->q8 ? q8_bytes(a->rows == FX_ROWS_STEP ? rows : outs, a->cols)
                         : (size_t)(a->rows == FX_ROWS_STEP ? rows : outs) * (size_t)a->cols * 4;

        CHECK(a->offset % 64 == 0 && a->offset + n <= p->bytes);
        for (int32_t k = 0; k < p->n_bufs; k++) {
            const fx_plan_buf *b = &p->bufs[k];

            if (k != i && a->first <= b->last && b->first <= a->last && b->offset >= a->offset)
                CHECK(b->offset >= a->offset + n);
        }
    }
}

static fx_plan *plan_of(built *b, const model_spec *s, fx_dtype_mode mode)
{
    fx_model_options o = { .mode = mode, .kv_auto = true };
    fx_plan *p = NULL;

    build(b, s, &o);
    CHECK_OK(b->st, b->err);
    if (b->st != FORNAX_OK)
        return NULL;
    CHECK_OK(fx_passes_run(b->d.step, &(fx_pass_options){ .mode = mode }, &b->err), b->err);
    CHECK_OK(fx_lower_plan(&b->arena, b->d.step, false, &p, &b->err), b->err);
    return p;
}

/* With room for adapters every product keeps what it multiplies in f32, and gate and up stay apart. */
TEST(plans_with_room_for_adapters)
{
    model_spec s = { QWEN3, .gguf = true, .dtype = FX_Q8_0 };
    fx_plan *p = NULL;
    int products = 0;
    built b;

    build(&b, &s, &plain);
    CHECK_OK(b.st, b.err);
    CHECK_OK(fx_passes_run(b.d.step, &(fx_pass_options){ .mode = FX_MODE_AUTO, .adapters = true }, &b.err), b.err);
    CHECK_OK(fx_lower_plan(&b.arena, b.d.step, true, &p, &b.err), b.err);
    CHECK_OK(fx_plan_layout(p, &fx_mem_libc, 8, 8, q8_bytes, &b.err), b.err);
    fx_plan_check(p);
    for (int32_t i = 0; p && i < p->n_launches; i++) {
        const fx_launch *l = &p->launches[i];

        if (l->op != FX_L_MATMUL)
            continue;
        products++;
        CHECK(l->in[4].kind == FX_REF_BUF && !p->bufs[l->in[4].index].q8 && p->bufs[l->in[4].index].cols >= l->args.matmul.k);
        CHECK(!p->weights[l->in[1].index].paired);
    }
    CHECK(products > 1);
    discard(&b);
}

static void compare_plan(const char *name, const fx_plan *p)
{
    fx_error err = { 0 };
    fx_buf got, want;
    char path[512];

    fx_buf_init(&got, &fx_mem_libc);
    fx_buf_init(&want, &fx_mem_libc);
    fx_plan_print(p, &got);
    fx_buf_printf(&got, "bytes of 64 rows, 4 outs: %zu\n", p->bytes);
    snprintf(path, sizeof(path), FXTEST_SOURCE "/tests/cases/plans/%s.txt", name);
    if (getenv("FXTEST_UPDATE"))
        CHECK_OK(fx_file_write_atomic(path, fx_buf_view(&got), &err), err);
    CHECK_OK(fx_file_read(&want, path, 1 << 20, &err), err);
    if (!want.p || strcmp(got.p, want.p))
        FXTEST_FAIL("plan of %s is\n%s", name, got.p);
    fx_buf_done(&got);
    fx_buf_done(&want);
}

static const struct { const char *name; model_spec s; fx_dtype_mode mode; int per_layer, rounded; } plans[] = {
    { "llama_q8_0", { LLAMA, .gguf = true, .dtype = FX_Q8_0, .tied = true }, FX_MODE_AUTO, 9, 0 },      /* heads of half a block */
    { "llama_q8_0_exact", { LLAMA, .gguf = true, .dtype = FX_Q8_0, .tied = true }, FX_MODE_F32, 8, 0 },
    { "llama_bf16", { LLAMA, .dtype = FX_BF16 }, FX_MODE_AUTO, 8, 0 },
    { "llama_f16_as_bf16", { LLAMA, .dtype = FX_F16 }, FX_MODE_BF16, 8, 0 },
    { "llama_bias", { LLAMA, .dtype = FX_F32, .bias = true }, FX_MODE_AUTO, 8, 0 },
    { "qwen3_q4_0", { QWEN3, .gguf = true, .dtype = FX_Q4_0, .v_dtype = FX_Q8_0 }, FX_MODE_AUTO, 9, 1 },
    { "qwen3_bf16", { QWEN3, .dtype = FX_BF16, .tied = true }, FX_MODE_AUTO, 8, 0 },
};

TEST(plans_are_the_recorded_ones)
{
    for (size_t i = 0; i < FX_COUNT(plans); i++) {
        built b;
        fx_plan *p = plan_of(&b, &plans[i].s, plans[i].mode);

        if (p) {
            CHECK_OK(fx_plan_layout(p, &fx_mem_libc, 64, 4, q8_bytes, &b.err), b.err);
            check_layout(p, 64, 4);
            compare_plan(plans[i].name, p);
            /* embed, layers, two gathers, the rounding of one, norm, logits */
            CHECK_EQ_I64(p->n_launches, 5 + 2 * plans[i].per_layer + plans[i].rounded);
            CHECK_EQ_I64(p->vocab, 100);
        }
        discard(&b);
    }
}

/* Every allocation may fail: a status, nothing lost (the sanitizer watches), nothing half done. */
typedef struct failing {
    int64_t left;
} failing;

static void *failing_alloc(void *user, void *p, size_t old_size, size_t new_size)
{
    failing *f = user;

    if (new_size && f->left-- <= 0)
        return NULL;
    return fx_mem_libc.fn(fx_mem_libc.user, p, old_size, new_size);
}

static fx_status plan_with(fx_arena *a, const fx_weights *w, fx_error *err)
{
    fx_model_desc d;
    fx_plan *p;

    FX_TRY(fx_model_build(a, w, &plain, &d, err));
    FX_TRY(fx_passes_run(d.step, &(fx_pass_options){ .mode = FX_MODE_AUTO }, err));
    FX_TRY(fx_lower_plan(a, d.step, false, &p, err));
    return fx_plan_layout(p, a->mem, 64, 4, q8_bytes, err);
}

TEST(memory_may_run_out_anywhere)
{
    model_spec s = { QWEN3, .gguf = true, .dtype = FX_Q8_0 };
    built b;
    fx_status st = FORNAX_ENOMEM;

    build(&b, &s, &plain);
    CHECK_OK(b.st, b.err);
    for (int64_t n = 0; b.st == FORNAX_OK && st != FORNAX_OK && n < 100000; n++) {
        failing f = { n };
        fx_mem mem = { failing_alloc, &f };
        fx_arena a;

        fx_arena_init(&a, &mem, 4096);
        st = plan_with(&a, b.w, &b.err);
        if (st != FORNAX_OK && st != FORNAX_ENOMEM)
            FXTEST_FAIL("request %lld: %s", (long long)n, b.err.text);
        fx_arena_done(&a);
    }
    CHECK_EQ_I64(st, FORNAX_OK);
    discard(&b);
}

FXTEST_MAIN()
