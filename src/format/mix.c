/* mix.c - the rules of each mix, by the role of a tensor in its block. */
#include "format/mix.h"

#include <stdio.h>

enum { Q2_K_MIX = 10, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M, IQ4_NL_MIX = 25 };

static const fx_mix mixes[] = {
    { "f32", FX_F32, 0 },        { "f16", FX_F16, 1 },        { "bf16", FX_BF16, 32 },     { "q4_0", FX_Q4_0, 2 },
    { "q4_1", FX_Q4_1, 3 },      { "q5_0", FX_Q5_0, 8 },      { "q5_1", FX_Q5_1, 9 },      { "q8_0", FX_Q8_0, 7 },
    { "q2_k", FX_Q2_K, Q2_K_MIX }, { "q3_k", FX_Q3_K, Q3_K_M }, { "q3_k_s", FX_Q3_K, Q3_K_S },
    { "q3_k_m", FX_Q3_K, Q3_K_M }, { "q3_k_l", FX_Q3_K, Q3_K_L }, { "q4_k", FX_Q4_K, Q4_K_M },
    { "q4_k_s", FX_Q4_K, Q4_K_S }, { "q4_k_m", FX_Q4_K, Q4_K_M }, { "q5_k", FX_Q5_K, Q5_K_M },
    { "q5_k_s", FX_Q5_K, Q5_K_S }, { "q5_k_m", FX_Q5_K, Q5_K_M }, { "q6_k", FX_Q6_K, 18 },
    { "iq4_nl", FX_IQ4_NL, IQ4_NL_MIX },
};

size_t fx_mix_count(void) { return FX_COUNT(mixes); }
const fx_mix *fx_mix_at(size_t i) { return &mixes[i]; }

const fx_mix *fx_mix_find(fx_str name)
{
    for (size_t i = 0; i < FX_COUNT(mixes); i++) {
        const char *z = mixes[i].name;
        size_t k = 0;

        while (k < name.n && z[k] && (name.p[k] | (name.p[k] >= 'A' && name.p[k] <= 'Z' ? 32 : 0)) == z[k])
            k++;
        if (k == name.n && !z[k])
            return &mixes[i];
    }
    return NULL;
}

/* ---- What the rules ask ------------------------------------------------------------------------ */

typedef struct model {
    const fx_weights *w;
    int64_t layers, experts;
    int64_t gqa;                         /* query heads a key head */
    int64_t values;                      /* layers with attn_v */
    bool falcon, has_output, is_70b;
} model;

static fx_status read_count(const fx_weights *w, fx_str arch, const char *key, int64_t *out, fx_error *err)
{
    char name[160];
    const fx_meta *m;

    snprintf(name, sizeof(name), "%.*s.%s", FX_STR_ARG(arch), key);
    m = fx_meta_find(w, name);
    if (!m || m->type == FX_META_ARRAY)          /* by layer: no rule needs those */
        return FORNAX_OK;
    return fx_meta_i64(w, name, out, err);
}

static bool holds(fx_str name, const char *part) { return fx_str_find(name, fx_str_of(part), 0) != FX_STR_NONE; }

/* N of "blk.N."; -1: not in a block. */
static int64_t layer_of(fx_str name)
{
    int64_t n = 0;
    size_t i = 4;

    if (!fx_str_starts(name, FX_STR("blk.")))
        return -1;
    for (; i < name.n && name.p[i] >= '0' && name.p[i] <= '9' && i < 12; i++)
        n = n * 10 + (name.p[i] - '0');
    return i > 4 && i < name.n && name.p[i] == '.' ? n : -1;
}

static fx_status read_model(const fx_weights *w, model *m, fx_error *err)
{
    int64_t heads = 1, kv_heads = 0;
    fx_str arch = FX_STR("");

    *m = (model){ .w = w };
    FX_TRY(fx_meta_opt_str(w, "general.architecture", &arch, err));
    arch.n = FX_MIN(arch.n, (size_t)64);
    FX_TRY(read_count(w, arch, "block_count", &m->layers, err));
    FX_TRY(read_count(w, arch, "expert_count", &m->experts, err));
    FX_TRY(read_count(w, arch, "attention.head_count", &heads, err));
    kv_heads = heads;
    FX_TRY(read_count(w, arch, "attention.head_count_kv", &kv_heads, err));
    m->gqa = kv_heads > 0 ? heads / kv_heads : 0;
    m->falcon = fx_str_is(arch, "falcon");
    m->is_70b = fx_str_is(arch, "llama") && m->layers == 80 && heads != kv_heads;
    m->has_output = fx_weights_find(w, FX_STR("output.weight")) != NULL;
    for (size_t i = 0; i < fx_weights_count(w); i++)
        m->values += holds(fx_weights_at(w, i)->name, "attn_v.weight");
    return FORNAX_OK;
}

/* How many attn_v lie in layers before this one. */
static int64_t value_index(const model *m, int64_t layer)
{
    int64_t n = 0;

    for (size_t i = 0; i < fx_weights_count(m->w); i++) {
        fx_str name = fx_weights_at(m->w, i)->name;

        n += holds(name, "attn_v.weight") && layer_of(name) < layer;
    }
    return n;
}

/* Layers that gain most: the first and last eighth, and each third between. */
static bool more_bits(int64_t i, int64_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* ---- The rules -------------------------------------------------------------------------------------- */

static fx_dtype value_type(const fx_mix *x, const model *m, int64_t layer)
{
    int64_t i = value_index(m, layer);
    fx_dtype t = x->base;

    switch (x->file_type) {
    case Q2_K_MIX: t = m->gqa >= 4 ? FX_Q4_K : FX_Q3_K; break;
    case Q3_K_M: t = i < 2 ? FX_Q5_K : FX_Q4_K; break;
    case Q3_K_L: t = FX_Q5_K; break;
    case IQ4_NL_MIX: t = m->gqa >= 4 ? FX_Q5_K : t; break;
    case Q4_K_M:
    case Q5_K_M: t = more_bits(i, m->values) ? FX_Q6_K : t; break;
    case Q4_K_S: t = i < 4 ? FX_Q5_K : t; break;
    default: break;
    }
    if (m->is_70b && (t == FX_Q3_K || t == FX_Q4_K))
        t = FX_Q5_K;
    return m->experts == 8 ? FX_Q8_0 : t;
}

static fx_dtype down_type(const fx_mix *x, const model *m, int64_t i)
{
    int64_t n = m->layers;

    switch (x->file_type) {
    case Q2_K_MIX: return FX_Q3_K;
    case Q3_K_M: return i < n / 16 ? FX_Q5_K : !m->falcon || more_bits(i, n) ? FX_Q4_K : FX_Q3_K;
    case Q3_K_L: return m->falcon ? FX_Q4_K : FX_Q5_K;
    case Q4_K_M:
        if (m->falcon)
            return i < n / 16 ? FX_Q6_K : more_bits(i, n) ? FX_Q5_K : FX_Q4_K;
        return more_bits(i, n) ? FX_Q6_K : x->base;
    case Q5_K_M: return more_bits(i, n) ? FX_Q6_K : x->base;
    case Q4_K_S: return !m->falcon && i < n / 8 ? FX_Q5_K : x->base;
    case IQ4_NL_MIX: return i < n / 8 ? FX_Q5_K : x->base;
    default: return x->base;
    }
}

static fx_dtype output_type(const fx_mix *x, const model *m)
{
    if (m->falcon)
        return x->file_type == Q3_K_L ? FX_Q4_K : x->base;
    if (m->experts == 8) {
        switch (x->file_type) {
        case Q2_K_MIX:
        case Q3_K_S:
        case Q3_K_M:
        case IQ4_NL_MIX:
        case Q4_K_S:
        case Q4_K_M: return FX_Q5_K;
        default: return x->base;
        }
    }
    switch (x->file_type) {
    case Q2_K_MIX: return FX_Q3_K;
    case Q3_K_M: return FX_Q4_K;
    case Q3_K_L: return FX_Q5_K;
    default: return x->base;
    }
}

static fx_dtype qkv_type(const fx_mix *x)
{
    switch (x->file_type) {
    case Q3_K_M:
    case Q3_K_L: return FX_Q4_K;
    case Q4_K_M: return FX_Q5_K;
    case Q5_K_M: return FX_Q6_K;
    default: return x->base;
    }
}

static fx_dtype choose(const fx_mix *x, const model *m, const fx_weight *t)
{
    int64_t layer = layer_of(t->name), cols = t->shape[t->rank - 1];

    if (fx_str_is(t->name, "output.weight") || (!m->has_output && fx_str_is(t->name, "token_embd.weight")))
        return m->falcon || cols % fx_dtype_rows[x->base].block_elems != 0 || x->base == FX_Q8_0 ? FX_Q8_0 : FX_Q6_K;
    if (holds(t->name, "attn_v.weight"))
        return value_type(x, m, layer);
    if (holds(t->name, "attn_k.weight"))
        return m->experts == 8 ? FX_Q8_0 : x->base;
    if (holds(t->name, "ffn_down"))
        return down_type(x, m, layer);
    if (holds(t->name, "attn_output.weight"))
        return output_type(x, m);
    return holds(t->name, "attn_qkv.weight") ? qkv_type(x) : x->base;
}

/* A type whose blocks the rows are made of. */
static fx_dtype fitting(fx_dtype t, int64_t cols)
{
    if (cols % fx_dtype_rows[t].block_elems == 0)
        return t;
    switch (t) {
    case FX_Q2_K:
    case FX_Q3_K: t = FX_Q4_0; break;
    case FX_Q4_K: t = FX_Q5_0; break;
    case FX_Q5_K: t = FX_Q5_1; break;
    case FX_Q6_K: t = FX_Q8_0; break;
    default: break;
    }
    return cols % fx_dtype_rows[t].block_elems == 0 ? t : FX_F16;
}

/* Small matrices, or such whose values are positions and choices. */
bool fx_mix_keeps(const fx_weight *t)
{
    static const char *const parts[] = {
        "_norm.weight", "ffn_gate_inp.weight", "altup", "laurel", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv",
        "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight",
        "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
        "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
        "time_mix_lerp_fused.weight", "attn_rel_b.weight",
    };

    if (t->rank < 2 || t->n_elems <= t->shape[t->rank - 1] || !fx_str_ends(t->name, FX_STR("weight")) || !fx_dequantize_supports(t->dtype) ||
        fx_str_is(t->name, "position_embd.weight") || fx_str_is(t->name, "token_types.weight"))
        return true;
    for (size_t i = 0; i < FX_COUNT(parts); i++) {
        if (holds(t->name, parts[i]))
            return true;
    }
    return false;
}

fx_status fx_mix_types(const fx_mix *mix, const fx_weights *w, bool pure, fx_dtype *types, fx_error *err)
{
    model m;

    FX_TRY(read_model(w, &m, err));
    for (size_t i = 0; i < fx_weights_count(w); i++) {
        const fx_weight *t = fx_weights_at(w, i);

        types[i] = t->dtype;
        if (fx_mix_keeps(t))
            continue;
        types[i] = pure || !fx_dtype_is_quant(mix->base) ? mix->base : choose(mix, &m, t);
        types[i] = fitting(types[i], t->shape[t->rank - 1]);
    }
    return FORNAX_OK;
}
