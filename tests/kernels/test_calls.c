/* test_calls.c - kernels of the loop IR that stand for launches give the bytes of the hand-written kernels, at every level of this
 * machine: interpreted, and compiled where there is LLVM. Sizes are odd, some numbers special. */
#include "calltest.h"

enum { RES = 1, SUMS = 2, OUT = 4, Q8 = 8, IN_PLACE = 16, W = 32, B = 64, OWN = 128, VIEW = 256, ROW = 512, LAST = 1024 };

static bool has(const call_case *c, int flag) { return (c->flags & flag) != 0; }

/* Columns of a row, and where they begin: in a view not at once. */
static int64_t view_col(const call_case *c) { return has(c, VIEW) ? 3 : 0; }
static int64_t view_cols(const call_case *c, int64_t n) { return n + (has(c, VIEW) ? 7 : 0); }

/* ---- Maps ------------------------------------------------------------------------------------------- */

static void build_map(scene *s, const call_case *c)
{
    int64_t col = view_col(c);
    fx_launch *l = &s->launches[0];
    fx_map_args *a = &l->args.map;

    scene_buf(s, X, view_cols(c, c->dim), false);
    scene_buf(s, Y, has(c, IN_PLACE) ? 0 : c->dim, false);
    l->in[0] = buf_ref(X, col);
    l->out[0] = has(c, IN_PLACE) ? buf_ref(X, col) : buf_ref(Y, 0);
    *a = (fx_map_args){ .a = scene_cmat(s, X, col), .n_rows = s->n_rows, .dim = c->dim, .alpha = c->number, .b_row = has(c, ROW),
                        .y = has(c, IN_PLACE) ? scene_mat(s, X, col) : scene_mat(s, Y, 0) };
    if (has(c, ROW)) {
        l->in[1] = weight_ref(0);
        a->b = (fx_cmat){ s->vector[0], 0 };
    } else if (has(c, B)) {
        scene_buf(s, Z, c->dim, false);
        l->in[1] = buf_ref(Z, 0);
        a->b = scene_cmat(s, Z, 0);
    }
}

/* The row's own factor in one column. */
static void build_mul_rows(scene *s, const call_case *c)
{
    build_map(s, c);
    scene_buf(s, Z, 5, false);
    s->launches[0].in[1] = buf_ref(Z, 2);
    s->launches[0].args.map.b = scene_cmat(s, Z, 2);
}

/* Launches behind the first, which has 'at' as its result: ops of one operand in place, up to one that isn't an op. */
static void add_maps(scene *s, const call_case *c, int at, const fx_launch_op *ops)
{
    for (; *ops != FX_L_OPS; ops++) {
        fx_launch *l = &s->launches[s->plan.n_launches++];

        *l = (fx_launch){ .op = *ops, .layer = -1, .in = { buf_ref(at, 0) }, .out = { buf_ref(at, 0) } };
        l->args.map = (fx_map_args){ .a = scene_cmat(s, at, 0), .y = scene_mat(s, at, 0), .n_rows = s->n_rows, .dim = c->dim, .alpha = c->number };
    }
}

/* y = tanh(x * f) * f + z, the last in z's place. */
static void build_chain(scene *s, const call_case *c)
{
    static const fx_launch_op ops[] = { FX_L_TANH, FX_L_SCALE, FX_L_OPS };
    fx_launch *l;

    build_map(s, c);
    scene_buf(s, Z, c->dim, false);
    add_maps(s, c, Y, ops);
    l = &s->launches[s->plan.n_launches++];
    *l = (fx_launch){ .op = FX_L_ADD, .layer = -1, .in = { buf_ref(Z, 0), buf_ref(Y, 0) }, .out = { buf_ref(Z, 0) } };
    l->args.map = (fx_map_args){ .a = scene_cmat(s, Z, 0), .b = scene_cmat(s, Y, 0), .y = scene_mat(s, Z, 0), .n_rows = s->n_rows, .dim = c->dim };
}

/* A product's tile, in x, and what is made of it: bias (W), residual (RES) or one in its place (RES | IN_PLACE), then maps. */
static void build_end(scene *s, const call_case *c)
{
    static const fx_launch_op gelu[] = { FX_L_GELU, FX_L_OPS }, cap[] = { FX_L_SCALE, FX_L_TANH, FX_L_SCALE, FX_L_OPS };
    fx_launch *l = &s->launches[0];
    fx_epilogue *e = &l->args.matmul.epi;

    scene_buf(s, X, c->dim + 5, false);
    scene_buf(s, Y, c->dim, false);
    l->out[0] = buf_ref(Y, 0);
    l->args.matmul.n = c->dim;
    *e = (fx_epilogue){ .y = scene_mat(s, Y, 0), .scale = c->number };
    s->tile = (fx_call_tile){ .m = s->n_rows, .n = c->dim, .ld = c->dim + 5, .acc = s->at[X], .y = e->y.p };
    if (has(c, W)) {
        l->in[2] = weight_ref(0);
        e->bias = s->tile.bias = s->vector[0];
    }
    if (has(c, RES)) {
        int at = has(c, IN_PLACE) ? Y : Z;

        scene_buf(s, Z, at == Z ? c->dim : 0, false);
        l->in[3] = buf_ref(at, 0);
        e->residual = scene_cmat(s, at, 0);
        s->tile.residual = e->residual.p;
    }
    add_maps(s, c, Y, c->kernel == FX_K_GELU ? gelu : cap);
}

/* Three heads of 'groups' columns of x and, with B, 'dim' of z, which all share (ROW) or have each. */
static void build_splice(scene *s, const call_case *c)
{
    int64_t a_width = c->groups + 9, b_len = has(c, B) ? c->dim : 0, b_width = has(c, ROW) ? 0 : c->dim;
    fx_launch *l = &s->launches[0];

    scene_buf(s, X, 3 * a_width, false);
    scene_buf(s, Y, 3 * (c->groups + b_len), false);
    l->in[0] = buf_ref(X, 0);
    l->out[0] = buf_ref(Y, 0);
    l->args.splice = (fx_splice_args){ .a = scene_cmat(s, X, 0), .y = scene_mat(s, Y, 0), .n_rows = s->n_rows, .heads = 3, .a_width = a_width,
                                       .a_start = 5, .a_len = c->groups, .b_width = b_width, .b_len = b_len };
    if (b_len) {
        scene_buf(s, Z, 3 * c->dim, false);
        l->in[1] = buf_ref(Z, 0);
        l->args.splice.b = scene_cmat(s, Z, 0);
    }
}

enum { EXPERTS = 4, TOP = 3 };

/* Slots of rows' choices, backwards. */
static void build_combine(scene *s, const call_case *c)
{
    int64_t cols = fx_experts_table_cols(EXPERTS, TOP);
    fx_launch *l = &s->launches[0];

    scene_buf(s, X, TOP * c->dim, false);
    scene_buf(s, Z, 2 * TOP, false);
    scene_buf(s, SUM, cols, false);
    scene_buf(s, Y, c->dim, false);
    for (int64_t i = 0; s->at[SUM] && i < s->n_rows * TOP; i++)
        ((int32_t *)s->at[SUM])[2 * (EXPERTS + 1) + i] = (int32_t)(s->n_rows * TOP - 1 - i);
    for (int i = 0; i < 3; i++)
        l->in[i] = buf_ref(i, 0);
    l->out[0] = buf_ref(Y, 0);
    l->args.combine = (fx_combine_args){ .x = scene_cmat(s, X, 0), .routes = scene_cmat(s, Z, 0), .table = scene_cmat(s, SUM, 0),
                                         .y = scene_mat(s, Y, 0), .n_rows = s->n_rows, .dim = c->dim, .experts = EXPERTS, .top = TOP };
}

/* gate and up in two buffers, or in one behind each other or in turn (ROW); three slots. */
static void build_glu(scene *s, const call_case *c)
{
    fx_launch *l = &s->launches[0];
    int64_t width = 3 * (has(c, B) ? c->dim : 2 * c->dim);

    scene_buf(s, X, width, false);
    scene_buf(s, Y, 3 * c->dim, false);
    l->in[0] = buf_ref(X, 0);
    l->out[0] = buf_ref(Y, 0);
    if (has(c, B)) {
        scene_buf(s, Z, width, false);
        l->in[1] = buf_ref(Z, 0);
    }
    l->args.glu = (fx_glu_args){ .gate = scene_cmat(s, X, 0), .y = scene_mat(s, Y, 0), .n_rows = s->n_rows, .dim = c->dim, .slots = 3,
                                 .interleaved = has(c, ROW), .act = (fx_glu_act)c->groups, .alpha = 1.702f, .limit = c->number };
    if (has(c, B))
        l->args.glu.up = scene_cmat(s, Z, 0);
}

static void build_embed(scene *s, const call_case *c)
{
    fx_launch *l = &s->launches[0];

    scene_buf(s, Y, view_cols(c, c->dim), false);
    s->weights[0].use = FX_USE_TABLE;
    s->tables[0] = c->table;
    l->in[0] = weight_ref(0);
    l->out[0] = buf_ref(Y, view_col(c));
    l->args.embed = (fx_embed_args){ .table = s->vector[1], .dtype = c->table, .n_vocab = 32, .dim = c->dim, .n_rows = s->n_rows,
                                     .row_bytes = fx_dtype_row_bytes(c->table, c->dim), .token = s->numbers, .scale = c->number,
                                     .y = scene_mat(s, Y, view_col(c)) };
}

static void build_gather(scene *s, const call_case *c)
{
    fx_launch *l = &s->launches[0];

    scene_buf(s, X, view_cols(c, c->dim), false);
    scene_buf(s, Y, c->dim, false);
    l->in[0] = buf_ref(X, view_col(c));
    l->out[0] = buf_ref(Y, 0);
    l->args.gather = (fx_gather_args){ .x = scene_cmat(s, X, view_col(c)), .y = scene_mat(s, Y, 0), .rows = s->numbers + MAX_ROWS,
                                       .n_rows = s->n_rows, .dim = c->dim };
}

/* ---- Norms --------------------------------------------------------------------------------------------- */

static void build_rmsnorm(scene *s, const call_case *c)
{
    int64_t cols = c->dim * c->groups, col = view_col(c);
    fx_launch *l = &s->launches[0];
    fx_rmsnorm_args *a = &l->args.rmsnorm;

    scene_buf(s, X, view_cols(c, cols), false);
    scene_buf(s, Y, has(c, OUT) && !has(c, IN_PLACE) ? cols : 0, false);
    l->in[0] = buf_ref(X, col);
    *a = (fx_rmsnorm_args){ .x = scene_cmat(s, X, col), .w = s->vector[0], .eps = 1e-5f, .w_offset = c->number, .n_rows = s->n_rows,
                            .dim = c->dim, .n_groups = c->groups };
    if (has(c, RES)) {
        scene_buf(s, Z, cols, false);
        l->in[1] = buf_ref(Z, 0);
        a->residual = scene_cmat(s, Z, 0);
    }
    if (has(c, SUMS)) {                      /* in place: over the residual, or over x */
        int at = has(c, IN_PLACE) ? has(c, RES) ? Z : X : SUM;

        scene_buf(s, SUM, at == SUM ? cols : 0, false);
        l->out[0] = buf_ref(at, at == X ? col : 0);
        a->sum = scene_mat(s, at, at == X ? col : 0);
    }
    if (has(c, OUT)) {
        bool over = has(c, IN_PLACE) && !has(c, SUMS);

        scene_buf(s, Y, over ? 0 : cols, false);
        l->out[1] = over ? buf_ref(X, col) : buf_ref(Y, 0);
        a->y = over ? scene_mat(s, X, col) : scene_mat(s, Y, 0);
    }
    l->in[2] = weight_ref(0);
    if (has(c, Q8)) {
        scene_buf(s, BYTES, cols, true);
        l->out[2] = buf_ref(BYTES, 0);
        a->q8 = (fx_q8){ s->at[BYTES], cols };
    }
}

static void build_quant(scene *s, const call_case *c)
{
    fx_launch *l = &s->launches[0];

    scene_buf(s, X, view_cols(c, c->dim), false);
    scene_buf(s, BYTES, c->dim, true);
    l->in[0] = buf_ref(X, view_col(c));
    l->out[0] = buf_ref(BYTES, 0);
    l->args.quant = (fx_quant_args){ .x = scene_cmat(s, X, view_col(c)), .n_rows = s->n_rows, .q8 = { s->at[BYTES], c->dim } };
}

static void build_layernorm(scene *s, const call_case *c)
{
    int64_t cols = c->dim * c->groups, step = has(c, OWN) ? c->dim : 0;
    fx_launch *l = &s->launches[0];

    scene_buf(s, X, cols, false);
    scene_buf(s, Y, has(c, IN_PLACE) ? 0 : cols, false);
    l->in[0] = buf_ref(X, 0);
    l->out[0] = buf_ref(has(c, IN_PLACE) ? X : Y, 0);
    if (has(c, W))
        l->in[1] = weight_ref(0);
    if (has(c, B))
        l->in[2] = weight_ref(1);
    l->args.layernorm = (fx_layernorm_args){ .x = scene_cmat(s, X, 0), .y = scene_mat(s, has(c, IN_PLACE) ? X : Y, 0), .w_step = step,
                                             .w = has(c, W) ? s->vector[0] : NULL, .b = has(c, B) ? s->vector[0] : NULL, .b_step = step,
                                             .eps = 1e-5f, .w_offset = c->number, .n_rows = s->n_rows, .dim = c->dim, .n_groups = c->groups };
}

static void build_gated_norm(scene *s, const call_case *c)
{
    int64_t cols = c->dim * c->groups;
    fx_launch *l = &s->launches[0];
    int to = has(c, IN_PLACE) ? Z : Y;

    scene_buf(s, X, view_cols(c, cols), false);
    scene_buf(s, Z, cols, false);
    scene_buf(s, Y, to == Y ? cols : 0, false);
    l->in[0] = buf_ref(X, view_col(c));
    l->in[1] = buf_ref(Z, 0);
    l->in[2] = weight_ref(0);
    l->out[0] = buf_ref(to, 0);
    l->args.gated_norm = (fx_gated_norm_args){ .x = scene_cmat(s, X, view_col(c)), .z = scene_cmat(s, Z, 0), .y = scene_mat(s, to, 0),
                                               .w = s->vector[0], .w_step = has(c, OWN) ? c->dim : 0, .eps = 1e-5f, .gate_first = has(c, B),
                                               .n_rows = s->n_rows, .dim = c->dim, .n_groups = c->groups };
}

static void build_softmax(scene *s, const call_case *c)
{
    fx_launch *l = &s->launches[0];

    scene_buf(s, X, c->dim, false);
    scene_buf(s, Y, has(c, IN_PLACE) ? 0 : c->dim, false);
    l->in[0] = buf_ref(X, 0);
    l->out[0] = buf_ref(has(c, IN_PLACE) ? X : Y, 0);
    l->args.softmax = (fx_softmax_args){ .x = scene_cmat(s, X, 0), .y = scene_mat(s, has(c, IN_PLACE) ? X : Y, 0), .n_rows = s->n_rows,
                                         .dim = c->dim };
}

/* ---- Rotation ---------------------------------------------------------------------------------------------- */

enum { PAGE_TOKENS = 32 };

/* Rows are sequences of their own at odd positions, every other one a long one. */
static void build_step(scene *s, size_t page_bytes)
{
    s->step = (fx_step){ .n_rows = (int32_t)s->n_rows, .n_seqs = (int32_t)s->n_rows, .pos = s->pos, .seq = s->seq, .seqs = s->seqs,
                         .kv = s->at[SUM], .page_bytes = page_bytes, .page_tokens = PAGE_TOKENS, .n_columns = 1 };
    for (int i = 0; i < s->n_rows; i++) {
        s->pages[i] = (fx_page)(s->n_rows - 1 - i);
        s->pos[i] = i % 5 * 7 % PAGE_TOKENS;
        s->seq[i] = (int32_t)s->n_rows - 1 - i;
        s->seqs[i] = (fx_step_seq){ .n_rows = 1, .pages = &s->pages[i], .adapter = -1, .length_class = i % 2 ? 300 : 0 };
    }
}

typedef struct rope_shape {
    int heads, kv_heads, v_dim, rot_dim;
    fx_rope_style style;
    bool norms, norm_last;
    int long_from;
    float attn_scale;
} rope_shape;

static const rope_shape shapes[] = {
    { 3, 1, 64, 64, FX_ROPE_PAIRS, false, false, 0, 1 },   { 4, 2, 32, 128, FX_ROPE_HALF, true, false, 0, 1 },
    { 2, 1, 16, 20, FX_ROPE_HALF, false, false, 0, 1.2f }, { 2, 2, 8, 22, FX_ROPE_PAIRS, true, true, 0, 0.7f },
    { 3, 0, 8, 16, FX_ROPE_HALF, false, false, 0, 1 },     { 2, 1, 40, 40, FX_ROPE_PAIRS, true, false, 64, 1 },
    { 2, 1, 48, 0, FX_ROPE_HALF, true, false, 0, 1 },
};

static void build_rope(scene *s, const call_case *c)
{
    const rope_shape *o = &shapes[(int)c->number];
    int64_t q = o->heads * c->dim, k = o->kv_heads * c->dim, v = (int64_t)o->kv_heads * o->v_dim, page = PAGE_TOKENS * (k + v);
    fx_launch *l = &s->launches[0];
    int to = has(c, IN_PLACE) ? X : BYTES;

    scene_buf(s, X, view_cols(c, q), false);
    scene_buf(s, Z, k, false);
    scene_buf(s, Y, v, false);
    scene_buf(s, SUM, page, false);          /* the page pool */
    scene_buf(s, BYTES, to == X ? 0 : q, false);
    s->spoilt = Z;
    build_step(s, (size_t)page * 4);
    l->layer = 0;
    l->in[0] = buf_ref(X, view_col(c));
    l->in[1] = buf_ref(Z, 0);
    l->in[2] = buf_ref(Y, 0);
    l->out[0] = buf_ref(to, to == X ? view_col(c) : 0);
    for (int i = 3; i < 6; i++)
        l->in[i] = i == 5 || o->norms ? weight_ref(i - 3) : (fx_ref){ FX_REF_NONE, 0, 0 };
    l->args.rope_store = (fx_rope_store_args){
        .q = scene_cmat(s, X, view_col(c)), .k = scene_cmat(s, Z, 0), .v = scene_cmat(s, Y, 0), .q_out = scene_mat(s, to, l->out[0].col),
        .q_norm = o->norms ? s->vector[0] : NULL, .k_norm = o->norms ? s->vector[0] : NULL, .eps = 1e-6f, .norm_offset = 0.5f,
        .norm_last = o->norm_last, .style = o->style, .rot_dim = o->rot_dim, .inv_freq = s->vector[2], .attn_scale = o->attn_scale,
        .long_from = o->long_from, .heads = o->heads, .kv_heads = o->kv_heads, .head_dim = (int32_t)c->dim, .v_dim = o->v_dim,
        .kv_dtype = FX_F32, .v_offset = (size_t)(PAGE_TOKENS * k) * 4, .k_free = true, .step = &s->step,
    };
}

/* ---- Cases ----------------------------------------------------------------------------------------------- */

#define MAP(name, OP, dim, flags) { name, FX_L_##OP, FX_K_##OP, build_map, dim, 1, flags, 0.37f, FX_F32 }
static const call_case maps[] = {
    MAP("add", ADD, 577, B), MAP("add a row", ADD, 100, ROW | IN_PLACE), MAP("mul", MUL, 33, B | VIEW), MAP("mul by a row", MUL, 16, ROW),
    MAP("scale", SCALE, 129, IN_PLACE), MAP("silu", SILU, 300, 0), MAP("gelu", GELU, 301, VIEW), MAP("gelu_tanh", GELU_TANH, 255, IN_PLACE),
    MAP("relu", RELU, 47, 0), MAP("relu2", RELU2, 48, VIEW | IN_PLACE), MAP("clamp", CLAMP, 1, 0), MAP("sigmoid", SIGMOID, 77, 0),
    MAP("tanh", TANH, 310, IN_PLACE), MAP("swiglu", SWIGLU, 513, B), MAP("swiglu in place", SWIGLU, 64, B | IN_PLACE),
};

#define GLU(name, dim, act, flags, limit) { name, FX_L_GLU, FX_K_GLU, build_glu, dim, act, flags, limit, FX_F32 }
static const call_case gates[] = {
    GLU("silu gate", 65, FX_GLU_SILU, B, 0), GLU("gelu gate", 48, FX_GLU_GELU, 0, 0), GLU("gelu_tanh gate", 31, FX_GLU_GELU_TANH, ROW, 0),
    GLU("relu gate", 16, FX_GLU_RELU, B, 0), GLU("clamped gate", 50, FX_GLU_CLAMPED, ROW, 3), GLU("swish gate", 17, FX_GLU_CLAMPED, 0, 0),
    { "combine", FX_L_COMBINE, FX_K_COMBINE, build_combine, 83, 1, 0, 0, FX_F32 },
    { "mul_rows", FX_L_MUL_ROWS, FX_K_MUL_ROWS, build_mul_rows, 70, 1, IN_PLACE, 0, FX_F32 },
};

static const call_case chains[] = {
    { "chain", FX_L_SCALE, FX_K_SCALE, build_chain, 301, 1, 0, 0.37f, FX_F32 },
    { "product, bias, gelu", FX_L_MATMUL, FX_K_GELU, build_end, 64, 1, W, 1, FX_F32 },
    { "product, residual, capped", FX_L_MATMUL, FX_K_SCALE, build_end, 16, 1, RES, 0.5f, FX_F32 },
    { "product over a residual, capped", FX_L_MATMUL, FX_K_SCALE, build_end, 11, 1, RES | IN_PLACE | W, 0.125f, FX_F32 },
};

#define LOOKUP(name, dim, flags, scale, table) { name, FX_L_EMBED, FX_K_EMBED, build_embed, dim, 1, flags, scale, table }
static const call_case lookups[] = {
    LOOKUP("embed f32", 67, VIEW, 1, FX_F32), LOOKUP("embed f16", 96, 0, 11.5f, FX_F16), LOOKUP("embed bf16", 31, 0, 1, FX_BF16),
    LOOKUP("embed q8_0", 96, VIEW, 1, FX_Q8_0), LOOKUP("embed q4_0", 64, 0, 0.5f, FX_Q4_0), LOOKUP("embed q4_1", 320, 0, 1, FX_Q4_1),
    { "splice", FX_L_SPLICE, FX_K_SPLICE, build_splice, 20, 33, B, 0, FX_F32 },
    { "splice of one for all", FX_L_SPLICE, FX_K_SPLICE, build_splice, 16, 8, B | ROW, 0, FX_F32 },
    { "columns of heads", FX_L_SPLICE, FX_K_SPLICE, build_splice, 1, 40, 0, 0, FX_F32 },
    { "gather", FX_L_GATHER, FX_K_GATHER, build_gather, 75, 1, VIEW, 0, FX_F32 },
};

#define RMS(name, dim, groups, flags, offset) { name, FX_L_RMSNORM, FX_K_RMSNORM, build_rmsnorm, dim, groups, flags, offset, FX_F32 }
#define LAYER(name, dim, groups, flags, offset) { name, FX_L_LAYERNORM, FX_K_LAYERNORM, build_layernorm, dim, groups, flags, offset, FX_F32 }
static const call_case norms[] = {
    RMS("rmsnorm of 1", 1, 1, OUT, 0), RMS("rmsnorm of 7 x 3", 7, 3, OUT | RES | SUMS, 1), RMS("rmsnorm in place", 130, 1, OUT | IN_PLACE, 0),
    RMS("rmsnorm of a view's groups", 64, 5, OUT | VIEW, 0.25f), RMS("rmsnorm of x + residual", 576, 1, OUT | RES, 0),
    RMS("rmsnorm, sum over the residual", 576, 1, Q8 | RES | SUMS | IN_PLACE, 0), RMS("rmsnorm to bytes", 960, 1, Q8 | VIEW, 0),
    RMS("rmsnorm to both", 64, 1, OUT | Q8 | RES | SUMS, 1), RMS("rmsnorm, x kept", 33, 1, OUT | SUMS, 0),
    RMS("sum alone", 100, 1, RES | SUMS | IN_PLACE, 0), RMS("rmsnorm over a sum in place", 96, 1, OUT | SUMS | IN_PLACE | VIEW, 0),
    { "quant", FX_L_QUANT, FX_K_QUANT, build_quant, 320, 1, VIEW, 0, FX_F32 },
    { "quant of 32", FX_L_QUANT, FX_K_QUANT, build_quant, 32, 1, 0, 0, FX_F32 },
    { "gated norm", FX_L_GATED_NORM, FX_K_GATED_NORM, build_gated_norm, 70, 3, VIEW | OWN, 0, FX_F32 },
    { "gate, then norm", FX_L_GATED_NORM, FX_K_GATED_NORM, build_gated_norm, 256, 1, B | IN_PLACE, 0, FX_F32 },
    LAYER("layernorm", 769, 1, W | B, 0), LAYER("layernorm of groups", 48, 3, W | OWN, 1), LAYER("layernorm, shared", 20, 4, W | B | IN_PLACE, 0),
    LAYER("plain layernorm", 65, 1, IN_PLACE, 0), LAYER("layernorm, own b", 31, 2, B | OWN, 0),
    { "softmax", FX_L_SOFTMAX, FX_K_SOFTMAX, build_softmax, 1031, 1, 0, 0, FX_F32 },
    { "softmax in place", FX_L_SOFTMAX, FX_K_SOFTMAX, build_softmax, 12, 1, IN_PLACE, 0, FX_F32 },
};

#define ROPE(name, dim, flags, shape) { name, FX_L_ROPE_STORE, FX_K_ROPE_STORE, build_rope, dim, 1, flags, shape, FX_F32 }
static const call_case ropes[] = {
    ROPE("pairs", 64, IN_PLACE, 0), ROPE("halves, normed", 128, VIEW, 1), ROPE("part of a head", 80, 0, 2), ROPE("normed behind", 30, IN_PLACE, 3),
    ROPE("queries alone", 16, IN_PLACE | VIEW, 4), ROPE("long ones turn slower", 40, 0, 5), ROPE("norms alone", 48, IN_PLACE, 6),
};

static void compare_all(const call_case *cases, size_t n)
{
    int32_t numbers[2 * MAX_ROWS];
    float *w = kt_floats(4096, 1);
    uint16_t *table = kt_alloc(32 * 4096 * 4);
    float *freq = kt_alloc(256 * 4);
    scene s = { .n_rows = 1, .vector = { w, table, freq }, .numbers = numbers };

    for (int i = 0; i < MAX_ROWS; i++) {
        numbers[i] = (int32_t)(kt_random() % 32);
        numbers[MAX_ROWS + i] = 0;           /* there is always a row 0 */
    }
    for (int i = 0; i < 2 * 32 * 4096; i++)  /* of finite numbers, as any of the dtypes */
        table[i] = (uint16_t)(kt_random() & 0xbbff);
    for (int i = 0; i < 256; i++)
        freq[i] = (float)pow(i % 2 ? 10000 : 500, -i / 64.0);
    for (size_t i = 0; i < n; i++)
        compare_case(&cases[i], &s);
    free(freq);
    free(table);
    free(w);
}

TEST(maps_are_those_by_hand) { compare_all(maps, FX_COUNT(maps)); }
TEST(gates_are_those_by_hand) { compare_all(gates, FX_COUNT(gates)); }
TEST(chains_are_one_call) { compare_all(chains, FX_COUNT(chains)); }
TEST(rows_are_looked_up_as_by_hand) { compare_all(lookups, FX_COUNT(lookups)); }
TEST(norms_are_those_by_hand) { compare_all(norms, FX_COUNT(norms)); }
TEST(heads_are_turned_as_by_hand) { compare_all(ropes, FX_COUNT(ropes)); }

FXTEST_MAIN()
