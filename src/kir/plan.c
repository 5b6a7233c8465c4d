/* plan.c - a plan's memory, its text, and its invariants.
 *
 * Layout: buffers from the largest to the smallest, each at the lowest offset where it
 * meets no buffer that is alive at the same time.  Ties go by index, so that equal plans get
 * equal layouts. */
#include "kir/plan.h"

static const char *const launch_names[FX_L_OPS] = {
    [FX_L_EMBED] = "embed",
    [FX_L_RMSNORM] = "rmsnorm",
    [FX_L_LAYERNORM] = "layernorm",
    [FX_L_QUANT] = "quant",
    [FX_L_MATMUL] = "matmul",
    [FX_L_ROPE_STORE] = "rope_store",
    [FX_L_ATTEND] = "attend",
    [FX_L_GATHER] = "gather",
    [FX_L_ADD] = "add",
    [FX_L_MUL] = "mul",
    [FX_L_SCALE] = "scale",
    [FX_L_SILU] = "silu",
    [FX_L_GELU] = "gelu",
    [FX_L_GELU_TANH] = "gelu_tanh",
    [FX_L_RELU] = "relu",
    [FX_L_RELU2] = "relu2",
    [FX_L_CLAMP] = "clamp",
    [FX_L_SIGMOID] = "sigmoid",
    [FX_L_TANH] = "tanh",
    [FX_L_SWIGLU] = "swiglu",
    [FX_L_SOFTMAX] = "softmax",
    [FX_L_ROUTE] = "route",
    [FX_L_DISPATCH] = "dispatch",
    [FX_L_SLOTS] = "slots",
    [FX_L_EXPERT_MATMUL] = "expert_matmul",
    [FX_L_GLU] = "glu",
    [FX_L_COMBINE] = "combine",
    [FX_L_MUL_ROWS] = "mul_rows",
    [FX_L_BY_HEAD] = "by_head",
    [FX_L_CONV1D] = "conv1d",
    [FX_L_SSM_SCAN] = "ssm_scan",
    [FX_L_DELTA_RULE] = "delta_rule",
    [FX_L_GATED_NORM] = "gated_norm",
    [FX_L_SPLICE] = "splice",
};

const char *fx_launch_name(fx_launch_op op) { return launch_names[op]; }

/* ---- Layout --------------------------------------------------------------------------- */

typedef struct slot {
    int32_t buf;
    size_t bytes, offset;
} slot;

static bool meet(const fx_plan_buf *a, const fx_plan_buf *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static bool bytes_of(const fx_plan_buf *b, int64_t max_rows, int64_t max_logits,
                     size_t (*q8_bytes)(int64_t n_rows, int64_t k), size_t *out)
{
    int64_t rows = b->rows == FX_ROWS_STEP ? max_rows : max_logits;
    size_t n;

    if (rows < 0 || b->cols < 0 || (rows && (uint64_t)b->cols > SIZE_MAX / 8 / (uint64_t)rows))
        return false;
    n = b->q8 ? q8_bytes(rows, b->cols) : (size_t)rows * (size_t)b->cols * sizeof(float);
    *out = FX_ROUND_UP(n, (size_t)64);
    return true;
}

static void sort_slots(slot *s, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        slot x = s[i];
        int32_t k = i;

        for (; k > 0 && (s[k - 1].bytes < x.bytes || (s[k - 1].bytes == x.bytes && s[k - 1].buf > x.buf)); k--)
            s[k] = s[k - 1];
        s[k] = x;
    }
}

/* The lowest offset for s[n] among s[0..n): move up past each one in the way until none is. */
static size_t find_offset(const fx_plan *p, const slot *s, int32_t n)
{
    size_t at = 0;
    bool moved = true;

    while (moved) {
        moved = false;
        for (int32_t i = 0; i < n; i++) {
            if (meet(&p->bufs[s[i].buf], &p->bufs[s[n].buf]) && at < s[i].offset + s[i].bytes &&
                s[i].offset < at + s[n].bytes) {
                at = s[i].offset + s[i].bytes;
                moved = true;
            }
        }
    }
    return at;
}

fx_status fx_plan_layout(fx_plan *p, const fx_mem *mem, int64_t max_rows, int64_t max_logits,
                         size_t (*q8_bytes)(int64_t n_rows, int64_t k), fx_error *err)
{
    slot *s = fx_mem_array(mem, (size_t)p->n_bufs + 1, sizeof(*s));

    if (!s)
        return fx_nomem(err, "the layout of a plan");
    for (int32_t i = 0; i < p->n_bufs; i++) {
        s[i].buf = i;
        if (!bytes_of(&p->bufs[i], max_rows, max_logits, q8_bytes, &s[i].bytes)) {
            fx_mem_free(mem, s, ((size_t)p->n_bufs + 1) * sizeof(*s));
            return fx_fail(err, FORNAX_ENOMEM, "a plan for %lld rows is too large", (long long)max_rows);
        }
    }
    sort_slots(s, p->n_bufs);
    p->bytes = 0;
    for (int32_t i = 0; i < p->n_bufs; i++) {
        s[i].offset = find_offset(p, s, i);
        p->bufs[s[i].buf].offset = s[i].offset;
        p->bytes = FX_MAX(p->bytes, s[i].offset + s[i].bytes);
    }
    fx_mem_free(mem, s, ((size_t)p->n_bufs + 1) * sizeof(*s));
    return FORNAX_OK;
}

/* ---- Text ---------------------------------------------------------------------------------- */

/* " rows 16+16/48*4", " transposed" */
static void print_part(const fx_plan_part *t, fx_buf *out)
{
    if (t->transposed)
        fx_buf_puts(out, " transposed");
    if (!t->rows)
        return;
    fx_buf_printf(out, " rows %lld+%lld", (long long)t->start, (long long)t->run);
    if (t->run != t->rows)
        fx_buf_printf(out, "/%lld*%lld", (long long)t->stride, (long long)(t->rows / t->run));
}

static void print_ref(const fx_plan *p, const fx_ref *r, fx_buf *out)
{
    switch (r->kind) {
    case FX_REF_NONE:
        fx_buf_putc(out, '_');
        break;
    case FX_REF_BUF: {
        const fx_plan_buf *b = &p->bufs[r->index];

        fx_buf_printf(out, "b%d:%s%s[%lld]", (int)r->index, b->rows == FX_ROWS_LOGITS ? "out." : "",
                      b->q8 ? "q8" : "f32", (long long)b->cols);
        if (r->col)
            fx_buf_printf(out, "+%lld", (long long)r->col);
        break;
    }
    case FX_REF_WEIGHT: {
        const fx_plan_weight *w = &p->weights[r->index];

        fx_buf_printf(out, "%.*s", FX_STR_ARG(w->name));
        if (w->use != FX_USE_VECTOR)
            fx_buf_printf(out, "[%lld,%lld]", (long long)w->rows, (long long)w->cols);
        for (int32_t i = 0; i < w->n_src && (!w->experts || w->by_head); i++)
            print_part(&w->part[i], out);
        if (w->paired)
            fx_buf_puts(out, " paired");
        if (w->use != FX_USE_VECTOR && w->dtype != FX_DTYPE_COUNT)
            fx_buf_printf(out, " as %s", fx_dtype_name(w->dtype));
        break;
    }
    case FX_REF_CONST:
        fx_buf_printf(out, "c%d[%lld]", (int)r->index, (long long)p->consts[r->index].n);
        break;
    }
}

/* Slots up to the last filled one. */
static void print_refs(const fx_plan *p, const fx_ref *r, size_t n, fx_buf *out)
{
    while (n && r[n - 1].kind == FX_REF_NONE)
        n--;
    for (size_t i = 0; i < n; i++) {
        fx_buf_puts(out, i ? ", " : "");
        print_ref(p, &r[i], out);
    }
}

static void put(fx_buf *out, const char *name, float x)
{
    fx_buf_printf(out, " %s=", name);
    fx_buf_float(out, x);
}

static void print_args(const fx_launch *l, fx_buf *out)
{
    switch (l->op) {
    case FX_L_RMSNORM:
        put(out, "eps", l->args.rmsnorm.eps);
        if (l->args.rmsnorm.w_offset != 0)
            put(out, "offset", l->args.rmsnorm.w_offset);
        if (l->args.rmsnorm.n_groups != 1)
            put(out, "groups", (float)l->args.rmsnorm.n_groups);
        break;
    case FX_L_LAYERNORM:
        put(out, "eps", l->args.layernorm.eps);
        if (l->args.layernorm.w_offset != 0)
            put(out, "offset", l->args.layernorm.w_offset);
        if (l->args.layernorm.n_groups != 1)
            put(out, "groups", (float)l->args.layernorm.n_groups);
        break;
    case FX_L_EMBED:
        if (l->args.embed.scale != 1)
            put(out, "scale", l->args.embed.scale);
        if (l->args.embed.by_position)
            fx_buf_puts(out, " by position");
        break;
    case FX_L_MATMUL:
        if (l->args.matmul.epi.scale != 1)
            put(out, "scale", l->args.matmul.epi.scale);
        break;
    case FX_L_ROPE_STORE:
        fx_buf_printf(out, " heads=%d/%d dim=%d/%d rot=%d%s", l->args.rope_store.heads, l->args.rope_store.kv_heads,
                      l->args.rope_store.head_dim, l->args.rope_store.v_dim, l->args.rope_store.rot_dim,
                      l->args.rope_store.style == FX_ROPE_PAIRS ? " pairs" : "");
        if (l->args.rope_store.attn_scale != 1)
            put(out, "attn_scale", l->args.rope_store.attn_scale);
        if (l->args.rope_store.norm_offset != 0)
            put(out, "offset", l->args.rope_store.norm_offset);
        if (l->args.rope_store.long_from)
            fx_buf_printf(out, " long_from=%d", (int)l->args.rope_store.long_from);
        if (l->args.rope_store.growth != 0)
            put(out, "growth", l->args.rope_store.growth);
        if (l->args.rope_store.norm_last)
            fx_buf_puts(out, " norm_last");
        break;
    case FX_L_ATTEND:
        fx_buf_printf(out, " heads=%d/%d dim=%d/%d", l->args.attend.heads, l->args.attend.kv_heads,
                      l->args.attend.head_dim, l->args.attend.v_dim);
        put(out, "scale", l->args.attend.scale);
        if (l->args.attend.window)
            fx_buf_printf(out, " window=%d", l->args.attend.window);
        if (l->args.attend.softcap != 0)
            put(out, "softcap", l->args.attend.softcap);
        fx_buf_puts(out, l->args.attend.latent ? " latent" : "");
        break;
    case FX_L_CLAMP:
        put(out, "limit", l->args.map.alpha);
        break;
    case FX_L_ROUTE:
        fx_buf_printf(out, " top=%d/%d", l->args.route.top, l->args.route.experts);
        break;
    case FX_L_SCALE:
        put(out, "factor", l->args.map.alpha);
        break;
    case FX_L_CONV1D:
        fx_buf_printf(out, " width=%lld%s", (long long)l->args.conv1d.width, l->args.conv1d.silu ? " silu" : "");
        break;
    case FX_L_SSM_SCAN:
        fx_buf_printf(out, " heads=%d dim=%d groups=%d state=%d%s", l->args.ssm_scan.heads, l->args.ssm_scan.head_dim,
                      l->args.ssm_scan.groups, l->args.ssm_scan.n_state, l->args.ssm_scan.log_a ? " log_a" : "");
        if (l->args.ssm_scan.dt_min != 0)
            put(out, "dt_min", l->args.ssm_scan.dt_min);
        if (l->args.ssm_scan.dt_max != 3e38f)
            put(out, "dt_max", l->args.ssm_scan.dt_max);
        break;
    case FX_L_DELTA_RULE:
        fx_buf_printf(out, " heads=%d/%d dim=%d/%d%s%s", l->args.delta_rule.v_heads, l->args.delta_rule.k_heads,
                      l->args.delta_rule.k_dim, l->args.delta_rule.v_dim, l->args.delta_rule.log_a ? " log_a" : "",
                      l->args.delta_rule.tiled ? " tiled" : "");
        break;
    case FX_L_GATED_NORM:
        put(out, "eps", l->args.gated_norm.eps);
        fx_buf_printf(out, " groups=%lld%s", (long long)l->args.gated_norm.n_groups,
                      l->args.gated_norm.gate_first ? " gate_first" : "");
        break;
    default:
        break;
    }
}

void fx_plan_print(const fx_plan *p, fx_buf *out)
{
    for (int32_t i = 0; i < p->n_launches; i++) {
        const fx_launch *l = &p->launches[i];

        fx_buf_printf(out, "%d %s ", (int)i, launch_names[l->op]);
        print_refs(p, l->in, FX_COUNT(l->in), out);
        fx_buf_puts(out, " -> ");
        print_refs(p, l->out, FX_COUNT(l->out), out);
        fx_buf_puts(out, l->beside ? " beside" : "");
        if (l->layer >= 0)
            fx_buf_printf(out, " layer=%d", (int)l->layer);
        print_args(l, out);
        fx_buf_printf(out, "  # %.*s\n", FX_STR_ARG(l->origin));
    }
}

/* ---- Invariants ---------------------------------------------------------------------------------- */

typedef struct slots_row {
    uint8_t in, in_optional, out, out_optional;      /* bit i: slot i */
} slots_row;

static const slots_row slots[FX_L_OPS] = {
    [FX_L_EMBED] = { 1, 0, 1, 0 },
    [FX_L_RMSNORM] = { 1 | 4, 2, 0, 1 | 2 | 4 },
    [FX_L_LAYERNORM] = { 1, 2 | 4, 1, 0 },
    [FX_L_QUANT] = { 1, 0, 1, 0 },
    [FX_L_MATMUL] = { 1 | 2, 4 | 8 | 16, 0, 1 | 2 },
    [FX_L_ROPE_STORE] = { 1 | 2, 4 | 8 | 16 | 32, 1, 0 },
    [FX_L_ATTEND] = { 1, 2 | 4, 1, 2 },
    [FX_L_GATHER] = { 1, 0, 1, 0 },
    [FX_L_ADD] = { 1 | 2, 0, 1, 0 },
    [FX_L_MUL] = { 1 | 2, 0, 1, 0 },
    [FX_L_SCALE] = { 1, 0, 1, 0 },
    [FX_L_SILU] = { 1, 0, 1, 0 },
    [FX_L_GELU] = { 1, 0, 1, 0 },
    [FX_L_GELU_TANH] = { 1, 0, 1, 0 },
    [FX_L_RELU] = { 1, 0, 1, 0 },
    [FX_L_RELU2] = { 1, 0, 1, 0 },
    [FX_L_CLAMP] = { 1, 0, 1, 0 },
    [FX_L_SIGMOID] = { 1, 0, 1, 0 },
    [FX_L_TANH] = { 1, 0, 1, 0 },
    [FX_L_SWIGLU] = { 1 | 2, 0, 1, 0 },
    [FX_L_SOFTMAX] = { 1, 0, 1, 0 },
    [FX_L_ROUTE] = { 1, 2, 1, 0 },
    [FX_L_DISPATCH] = { 1, 0, 1, 0 },
    [FX_L_SLOTS] = { 1 | 2, 0, 1, 0 },
    [FX_L_EXPERT_MATMUL] = { 1 | 2 | 8, 4 | 16, 1, 0 },
    [FX_L_GLU] = { 1, 2, 1, 0 },
    [FX_L_COMBINE] = { 1 | 2 | 4, 0, 1, 0 },
    [FX_L_MUL_ROWS] = { 1 | 2, 0, 1, 0 },
    [FX_L_BY_HEAD] = { 1 | 2, 0, 1, 0 },
    [FX_L_CONV1D] = { 1 | 2, 4, 1, 0 },
    [FX_L_SSM_SCAN] = { 1 | 2 | 4 | 8 | 16, 32 | 64, 1, 0 },
    [FX_L_DELTA_RULE] = { 1 | 2 | 4 | 8 | 16 | 32 | 64, 0, 1, 0 },
    [FX_L_GATED_NORM] = { 1 | 2 | 4, 0, 1, 0 },
    [FX_L_SPLICE] = { 1, 2, 1, 0 },
};

static void check_ref(const fx_plan *p, const fx_ref *r, int32_t launch)
{
    switch (r->kind) {
    case FX_REF_NONE:
        break;
    case FX_REF_BUF:
        FX_ASSERT(r->index >= 0 && r->index < p->n_bufs);
        FX_ASSERT(r->col >= 0 && r->col < p->bufs[r->index].cols && (r->col == 0 || !p->bufs[r->index].q8));
        FX_ASSERT(p->bufs[r->index].first <= launch && launch <= p->bufs[r->index].last);
        break;
    case FX_REF_WEIGHT:
        FX_ASSERT(r->index >= 0 && r->index < p->n_weights);
        break;
    case FX_REF_CONST:
        FX_ASSERT(r->index >= 0 && r->index < p->n_consts);
        break;
    }
}

static void check_slots(const fx_plan *p, const fx_ref *r, size_t n, uint8_t need, uint8_t may, int32_t launch)
{
    for (size_t i = 0; i < n; i++) {
        bool filled = r[i].kind != FX_REF_NONE;

        FX_ASSERT(filled || !(need >> i & 1));
        FX_ASSERT(!filled || ((need | may) >> i & 1));
        check_ref(p, &r[i], launch);
    }
}

static void check_weight(const fx_plan_weight *w)
{
    FX_ASSERT(w->n_src >= 1 && (w->experts ? w->expert_src != NULL : w->n_src <= FX_PLAN_MAX_SRC));
    FX_ASSERT(!w->paired || ((w->experts || w->n_src == 2) && w->use == FX_USE_MATMUL));
    FX_ASSERT(!w->experts || w->rows % w->experts == 0);
    for (int32_t i = 0; i < w->n_src && !w->experts; i++)
        FX_ASSERT(!w->part[i].rows || (w->part[i].run >= 1 && w->part[i].stride >= w->part[i].run &&
                                       w->part[i].start >= 0));
    FX_ASSERT(w->rows >= 1 && w->cols >= 1 && (!w->q8 || w->use == FX_USE_MATMUL));
}

/* Views of n columns stay inside their buffer. */
static void check_width(const fx_plan *p, const fx_ref *r, int64_t n)
{
    if (r->kind == FX_REF_BUF)
        FX_ASSERT(r->col + n <= p->bufs[r->index].cols);
}

/* n rounded columns, made in pieces of whole blocks. */
static void check_rounded(const fx_plan *p, const fx_ref *r, int64_t n, int64_t piece)
{
    if (r->kind == FX_REF_BUF)
        FX_ASSERT(p->bufs[r->index].q8 && p->bufs[r->index].cols == n && piece % 32 == 0);
}

static void check_widths(const fx_plan *p, const fx_launch *l)
{
    switch (l->op) {
    case FX_L_MATMUL:
        check_width(p, &l->in[0], l->args.matmul.k);
        check_width(p, &l->in[3], l->args.matmul.n);
        check_width(p, &l->in[4], l->args.matmul.k);
        check_width(p, &l->out[0], l->args.matmul.n);
        check_rounded(p, &l->out[1], l->args.matmul.n, l->args.matmul.n);
        FX_ASSERT(l->out[0].kind != FX_REF_NONE ||       /* epilogue.c: only then does it round sums that nobody wrote */
                  (l->out[1].kind != FX_REF_NONE && p->bufs[l->in[0].index].q8 && l->in[2].kind == FX_REF_NONE &&
                   l->in[3].kind == FX_REF_NONE && l->args.matmul.epi.scale == 1));
        FX_ASSERT(p->bufs[l->in[0].index].q8 == p->weights[l->in[1].index].q8);
        break;
    case FX_L_EXPERT_MATMUL:
        check_width(p, &l->in[0], l->args.experts.m.k * l->args.experts.top);
        check_width(p, &l->out[0], l->args.experts.m.n * l->args.experts.top);
        FX_ASSERT(p->bufs[l->in[0].index].q8 == p->weights[l->in[1].index].q8);
        break;
    case FX_L_BY_HEAD:
        check_width(p, &l->in[0], l->args.by_head.m.k * l->args.by_head.heads);
        check_width(p, &l->out[0], l->args.by_head.m.n * l->args.by_head.heads);
        FX_ASSERT(!p->bufs[l->in[0].index].q8 && l->in[0].index != l->out[0].index);
        break;
    case FX_L_RMSNORM:
        check_width(p, &l->in[0], l->args.rmsnorm.dim * l->args.rmsnorm.n_groups);
        check_width(p, &l->in[1], l->args.rmsnorm.dim * l->args.rmsnorm.n_groups);
        check_width(p, &l->out[1], l->args.rmsnorm.dim * l->args.rmsnorm.n_groups);
        FX_ASSERT(l->out[2].kind == FX_REF_NONE || l->args.rmsnorm.n_groups == 1);
        break;
    case FX_L_LAYERNORM:
        check_width(p, &l->in[0], l->args.layernorm.dim * l->args.layernorm.n_groups);
        check_width(p, &l->out[0], l->args.layernorm.dim * l->args.layernorm.n_groups);
        break;
    case FX_L_ROPE_STORE:
        check_width(p, &l->in[0], (int64_t)l->args.rope_store.heads * l->args.rope_store.head_dim);
        check_width(p, &l->in[1], (int64_t)l->args.rope_store.kv_heads * l->args.rope_store.head_dim);
        check_width(p, &l->in[2], (int64_t)l->args.rope_store.kv_heads * l->args.rope_store.v_dim);
        check_width(p, &l->out[0], (int64_t)l->args.rope_store.heads * l->args.rope_store.head_dim);
        FX_ASSERT(l->layer >= 0);
        break;
    case FX_L_ATTEND:
        check_width(p, &l->in[0], (int64_t)l->args.attend.heads * l->args.attend.head_dim);
        check_width(p, &l->out[0], (int64_t)l->args.attend.heads * l->args.attend.v_dim);
        check_rounded(p, &l->out[1], (int64_t)l->args.attend.heads * l->args.attend.v_dim, l->args.attend.v_dim);
        FX_ASSERT(l->layer >= 0);
        break;
    case FX_L_CONV1D:
        check_width(p, &l->in[0], l->args.conv1d.dim);
        check_width(p, &l->out[0], l->args.conv1d.dim);
        FX_ASSERT(l->layer >= 0 && l->in[0].index != l->out[0].index);
        break;
    case FX_L_SSM_SCAN:
        check_width(p, &l->in[0], (int64_t)l->args.ssm_scan.heads * l->args.ssm_scan.head_dim);
        check_width(p, &l->in[1], l->args.ssm_scan.heads);
        check_width(p, &l->in[2], (int64_t)l->args.ssm_scan.groups * l->args.ssm_scan.n_state);
        check_width(p, &l->in[3], (int64_t)l->args.ssm_scan.groups * l->args.ssm_scan.n_state);
        check_width(p, &l->out[0], (int64_t)l->args.ssm_scan.heads * l->args.ssm_scan.head_dim);
        FX_ASSERT(l->layer >= 0);
        break;
    case FX_L_DELTA_RULE:
        check_width(p, &l->in[0], (int64_t)l->args.delta_rule.k_heads * l->args.delta_rule.k_dim);
        check_width(p, &l->in[1], (int64_t)l->args.delta_rule.k_heads * l->args.delta_rule.k_dim);
        check_width(p, &l->in[2], (int64_t)l->args.delta_rule.v_heads * l->args.delta_rule.v_dim);
        check_width(p, &l->out[0], (int64_t)l->args.delta_rule.v_heads * l->args.delta_rule.v_dim);
        FX_ASSERT(l->layer >= 0);
        break;
    case FX_L_GATED_NORM:
        check_width(p, &l->in[0], l->args.gated_norm.dim * l->args.gated_norm.n_groups);
        check_width(p, &l->in[1], l->args.gated_norm.dim * l->args.gated_norm.n_groups);
        check_width(p, &l->out[0], l->args.gated_norm.dim * l->args.gated_norm.n_groups);
        break;
    default:
        break;
    }
}

void fx_plan_check(const fx_plan *p)
{
    for (int32_t i = 0; i < p->n_weights; i++)
        check_weight(&p->weights[i]);
    for (int32_t i = 0; i < p->n_launches; i++) {
        const fx_launch *l = &p->launches[i];

        FX_ASSERT(l->op < FX_L_OPS);
        check_slots(p, l->in, FX_COUNT(l->in), slots[l->op].in, slots[l->op].in_optional, i);
        check_slots(p, l->out, FX_COUNT(l->out), slots[l->op].out, slots[l->op].out_optional, i);
        check_widths(p, l);
        FX_ASSERT(!l->beside || (i > 0 && l->op == FX_L_MATMUL && p->launches[i - 1].op == FX_L_MATMUL));
    }
    FX_ASSERT(p->logits.kind == FX_REF_BUF && p->logits.index < p->n_bufs);
    FX_ASSERT(p->bufs[p->logits.index].rows == FX_ROWS_LOGITS && p->bufs[p->logits.index].last == p->n_launches);
    FX_ASSERT(p->logits.col + p->vocab <= p->bufs[p->logits.index].cols);
}
