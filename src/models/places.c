/* places.c - places in the network by name, and the order of rows between hub and GGUF. */
#include "models/places.h"

#include <stdio.h>

#include "models/models_int.h"

fx_str fx_place_bare(fx_str name)
{
    static const char *const fronts[] = { "base_model.model.", "model.", "transformer.", "language_model.", "gpt_neox.", "backbone.",
                                          "decoder.", "bert.", "roberta.", "xlm_roberta.", "nomic_bert.", "camembert." };
    size_t before;

    do {
        before = name.n;
        for (size_t i = 0; i < FX_COUNT(fronts); i++) {
            fx_str front = fx_str_of(fronts[i]);

            if (fx_str_starts(name, front))
                name = fx_str_n(name.p + front.n, name.n - front.n);
        }
    } while (name.n != before);
    return name;
}

static fx_str without_end(fx_str name, const char *end)
{
    fx_str e = fx_str_of(end);

    return fx_str_ends(name, e) ? fx_str_n(name.p, name.n - e.n) : name;
}

fx_place fx_place_of(const fx_places *m, fx_str name, bool gguf)
{
    fx_place out = { .layer = -1, .expert = -1, .gguf = gguf };

    name = without_end(without_end(name, ".weight"), "_blocks");
    out.name = gguf ? name : fx_place_bare(name);
    if (!m->arch)
        out.role = fx_encoder_role_of(out.name, gguf, &out.layer);
    else if (!fx_expert_name(out.name, gguf, &out.part, &out.layer, &out.expert))
        out.role = fx_role_of(m->arch, out.name, gguf, &out.layer);
    return out;
}

static const fx_weight *tensor_of(const fx_places *m, int64_t layer, const char *role, const char *suffix)
{
    char whole[96], name[128];

    snprintf(whole, sizeof whole, "%s%s", role, strcmp(suffix, ".weight") ? suffix : "");
    return fx_role_name(m->arch, m->weights, layer, whole, name, sizeof name) ? fx_weights_find(m->weights, fx_str_of(name)) : NULL;
}

const fx_weight *fx_place_tensor(const fx_places *m, const fx_place *p, const char *suffix)
{
    const fx_weight *t = p->role ? tensor_of(m, p->layer, p->role, suffix) : NULL;
    bool output = p->role && strcmp(p->role, "output") == 0;

    return t || !output ? t : tensor_of(m, p->layer, "token_embd", suffix);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Gate and up of a tensor alternate. */
static bool alternates(const fx_places *m, const fx_place *a) { return m->params->moe.turned && !a->gguf; }

static bool link_experts(const fx_places *m, const fx_place *t, fx_half half, const fx_place *a, fx_place_link *out)
{
    fx_place_part part = t->part;
    bool both = a->part == FX_PART_GATE_UP;

    if (part == FX_PART_GATE_UP && half != FX_HALF_BOTH)
        part = half == FX_HALF_GATE ? FX_PART_GATE : FX_PART_UP;
    *out = (fx_place_link){ FX_ORDER_STEP, 0, 1 };
    if (part == a->part)
        return part != FX_PART_GATE_UP || alternates(m, t) == alternates(m, a);
    if (!both || (part != FX_PART_GATE && part != FX_PART_UP))
        return false;
    out->step = alternates(m, a) ? 2 : 1;
    out->start = part == FX_PART_GATE ? 0 : alternates(m, a) ? 1 : m->params->moe.ffn ? m->params->moe.ffn : m->params->ffn;
    return true;
}

/* GGUF has gate and up of some architectures as one "ffn_up". */
static const char *plain_role(const fx_places *m, const fx_place *a)
{
    if (a->role && a->gguf && strcmp(a->role, "ffn_up") == 0 && m->arch && !m->arch->plain_mlp) {
        char name[128];

        if (fx_role_name(m->arch, m->weights, a->layer, "ffn_gate", name, sizeof name) &&
            fx_weights_find(m->weights, fx_str_of(name)))
            return a->role;
        return "ffn_gate_up";
    }
    return a->role;
}

static bool link_order(const fx_places *m, const char *role, const fx_place *t, fx_place_link *out)
{
    bool q = strcmp(role, "attn_q") == 0, k = strcmp(role, "attn_k") == 0;
    bool turned = m->arch->gguf_rope != m->arch->hf_rope;

    if (strcmp(role, "attn_qkv") == 0) {
        if (m->arch->hf_qkv == FX_QKV_GROUPS)
            out->order = t->gguf ? FX_ORDER_TO_ROWS : FX_ORDER_TO_GROUPS;
        return !turned;
    }
    if ((q || k) && turned) {
        if (m->params->rot_dim != m->params->head_dim || m->params->head_dim % 2)
            return false;
        out->order = t->gguf ? FX_ORDER_TO_PAIRS : FX_ORDER_TO_HALVES;
    }
    return true;
}

bool fx_place_link_of(const fx_places *m, const fx_place *t, fx_half half, const fx_place *a, fx_place_link *out)
{
    const char *role, *other;

    *out = (fx_place_link){ 0 };
    if (t->part != FX_PART_WHOLE || a->part != FX_PART_WHOLE)
        return t->part != FX_PART_WHOLE && a->part != FX_PART_WHOLE && t->layer == a->layer &&
               link_experts(m, t, half, a, out);
    if (t->gguf == a->gguf && fx_str_eq(t->name, a->name))
        return true;
    role = plain_role(m, t);
    other = plain_role(m, a);
    if (!role || !other || strcmp(role, other) != 0 || t->layer != a->layer)
        return false;
    return t->gguf == a->gguf || !m->arch || link_order(m, role, t, out);
}

int64_t fx_place_row(const fx_places *m, const fx_place_link *link, int64_t i)
{
    const fx_model_params *p = m->params;
    int64_t dim = p->head_dim, half = dim / 2, head = dim ? i / dim : 0, at = dim ? i % dim : 0;
    int64_t group = p->kv_heads ? p->heads / p->kv_heads : 1, kv = p->kv_heads;

    switch (link->order) {
    case FX_ORDER_SAME: return i;
    case FX_ORDER_STEP: return link->start + link->step * i;
    case FX_ORDER_TO_PAIRS: return head * dim + at % 2 * half + at / 2;
    case FX_ORDER_TO_HALVES: return head * dim + at % half * 2 + at / half;
    case FX_ORDER_TO_ROWS:
        if (head < p->heads)
            return (head / group * (group + 2) + head % group) * dim + at;
        head -= p->heads;
        return (head % kv * (group + 2) + group + head / kv) * dim + at;
    case FX_ORDER_TO_GROUPS:
        if (head % (group + 2) < group)
            return (head / (group + 2) * group + head % (group + 2)) * dim + at;
        return (p->heads + (head % (group + 2) - group) * kv + head / (group + 2)) * dim + at;
    }
    return i;
}
