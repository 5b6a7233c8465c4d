/* tensor_names.c - what a role's tensor is called: one column for each naming family, and an
 * architecture's own names before them.
 *
 * A role is GGUF's name without block and suffix ("attn_q"); "attn_q.bias" is its bias.
 * A form that ends in '!' is the whole name, without ".weight".
 * A file belongs to the first family whose embedding table it has. */
#include <stdio.h>

#include "models/models_int.h"
#include "models/places.h"

enum { GGUF, LLAMA, EXAONE, FAMILIES };

typedef struct name_row {
    const char *role;
    const char *names[FAMILIES];         /* %d: the layer */
} name_row;

static const name_row rows[] = {
    { "token_embd", { "token_embd", "model.embed_tokens", "transformer.wte" } },
    { "output_norm", { "output_norm", "model.norm", "transformer.ln_f" } },
    { "output", { "output", "lm_head", "lm_head" } },
    { "attn_qkv", { "blk.%d.attn_qkv", "model.layers.%d.self_attn.qkv_proj", NULL } },
    { "ffn_gate_up", { NULL, "model.layers.%d.mlp.gate_up_proj", NULL } },
    { "attn_norm", { "blk.%d.attn_norm", "model.layers.%d.input_layernorm", "transformer.h.%d.ln_1" } },
    { "attn_q", { "blk.%d.attn_q", "model.layers.%d.self_attn.q_proj", "transformer.h.%d.attn.attention.q_proj" } },
    { "attn_k", { "blk.%d.attn_k", "model.layers.%d.self_attn.k_proj", "transformer.h.%d.attn.attention.k_proj" } },
    { "attn_v", { "blk.%d.attn_v", "model.layers.%d.self_attn.v_proj", "transformer.h.%d.attn.attention.v_proj" } },
    { "attn_output", { "blk.%d.attn_output", "model.layers.%d.self_attn.o_proj",
                       "transformer.h.%d.attn.attention.out_proj" } },
    { "attn_q_norm", { "blk.%d.attn_q_norm", "model.layers.%d.self_attn.q_norm", NULL } },
    { "attn_k_norm", { "blk.%d.attn_k_norm", "model.layers.%d.self_attn.k_norm", NULL } },
    { "post_attention_norm", { "blk.%d.post_attention_norm", NULL, NULL } },
    { "post_ffw_norm", { "blk.%d.post_ffw_norm", "model.layers.%d.post_feedforward_layernorm", NULL } },
    { "position_embd", { "position_embd", NULL, NULL } },
    { "attn_norm_2", { "blk.%d.attn_norm_2", NULL, NULL } },
    { "token_embd_norm", { "token_embd_norm", NULL, NULL } },
    { "ssm_in", { "blk.%d.ssm_in", NULL, NULL } },
    { "ssm_conv1d", { "blk.%d.ssm_conv1d", NULL, NULL } },
    { "ssm_x", { "blk.%d.ssm_x", NULL, NULL } },
    { "ssm_dt", { "blk.%d.ssm_dt", NULL, NULL } },
    { "ssm_a", { "blk.%d.ssm_a!", NULL, NULL } },
    { "ssm_d", { "blk.%d.ssm_d!", NULL, NULL } },
    { "ssm_norm", { "blk.%d.ssm_norm", NULL, NULL } },
    { "ssm_out", { "blk.%d.ssm_out", NULL, NULL } },
    { "ssm_dt_norm", { "blk.%d.ssm_dt_norm", NULL, NULL } },
    { "ssm_b_norm", { "blk.%d.ssm_b_norm", NULL, NULL } },
    { "ssm_c_norm", { "blk.%d.ssm_c_norm", NULL, NULL } },
    { "shortconv_in", { "blk.%d.shortconv.in_proj", NULL, NULL } },
    { "shortconv_conv", { "blk.%d.shortconv.conv", NULL, NULL } },
    { "shortconv_out", { "blk.%d.shortconv.out_proj", NULL, NULL } },
    { "ffn_norm", { "blk.%d.ffn_norm", "model.layers.%d.post_attention_layernorm", "transformer.h.%d.ln_2" } },
    { "attn_q_a", { "blk.%d.attn_q_a", "model.layers.%d.self_attn.q_a_proj", NULL } },
    { "attn_q_a_norm", { "blk.%d.attn_q_a_norm", "model.layers.%d.self_attn.q_a_layernorm", NULL } },
    { "attn_q_b", { "blk.%d.attn_q_b", "model.layers.%d.self_attn.q_b_proj", NULL } },
    { "attn_kv_a_mqa", { "blk.%d.attn_kv_a_mqa", "model.layers.%d.self_attn.kv_a_proj_with_mqa", NULL } },
    { "attn_kv_a_norm", { "blk.%d.attn_kv_a_norm", "model.layers.%d.self_attn.kv_a_layernorm", NULL } },
    { "attn_kv_b", { "blk.%d.attn_kv_b", "model.layers.%d.self_attn.kv_b_proj", NULL } },
    { "attn_k_b", { "blk.%d.attn_k_b", NULL, NULL } },
    { "attn_v_b", { "blk.%d.attn_v_b", NULL, NULL } },
    { "exp_probs_b", { "blk.%d.exp_probs_b", NULL, NULL } },
    { "ffn_gate_inp", { "blk.%d.ffn_gate_inp", "model.layers.%d.mlp.gate", NULL } },
    { "ffn_gate_inp_shexp", { "blk.%d.ffn_gate_inp_shexp", "model.layers.%d.mlp.shared_expert_gate", NULL } },
    { "ffn_gate_shexp", { "blk.%d.ffn_gate_shexp", "model.layers.%d.mlp.shared_expert.gate_proj", NULL } },
    { "ffn_up_shexp", { "blk.%d.ffn_up_shexp", "model.layers.%d.mlp.shared_expert.up_proj", NULL } },
    { "ffn_down_shexp", { "blk.%d.ffn_down_shexp", "model.layers.%d.mlp.shared_expert.down_proj", NULL } },
    { "ffn_gate", { "blk.%d.ffn_gate", "model.layers.%d.mlp.gate_proj", "transformer.h.%d.mlp.c_fc_0" } },
    { "ffn_up", { "blk.%d.ffn_up", "model.layers.%d.mlp.up_proj", "transformer.h.%d.mlp.c_fc_1" } },
    { "ffn_down", { "blk.%d.ffn_down", "model.layers.%d.mlp.down_proj", "transformer.h.%d.mlp.c_proj" } },
};

/* What stands where a hub name's first part ("model.") usually is: itself; nothing in files of bare models; more
 * in files of models of which this is the part for text. 'head': before names of one part. */
static const struct { const char *first, *head; } roots[] = {
    { NULL, "" },
    { "", "" },
    { "model.language_model.", "" },
    { "language_model.model.", "language_model." },
};

/* How a file names its tensors. */
typedef struct naming {
    int family;
    size_t root;
} naming;

static void put_name(const char *form, size_t root, int64_t layer, const char *suffix, char *out, size_t cap)
{
    const char *dot = strchr(form, '.'), *first = "", *d;
    char *whole;

    if (roots[root].first) {
        first = dot ? roots[root].first : roots[root].head;
        form = dot ? dot + 1 : form;
    }
    d = strstr(form, "%d");
    if (d)
        snprintf(out, cap, "%s%.*s%lld%s%s", first, (int)(d - form), form, (long long)layer, d + 2, suffix);
    else
        snprintf(out, cap, "%s%s%s", first, form, suffix);
    whole = strchr(out, '!');
    if (whole)
        *whole = 0;
}

/* The architecture's k-th own name of a role; NULL: no more. */
static const char *own_form(const fx_arch *arch, fx_str role, size_t k)
{
    for (const fx_tensor_name *t = arch->names; t && t->role; t++)
        if (fx_str_is(role, t->role) && k-- == 0)
            return t->form;
    return NULL;
}

static const char *usual_form(int family, fx_str role)
{
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (fx_str_is(role, rows[i].role))
            return rows[i].names[family];
    return NULL;
}

static bool has(const fx_weights *w, const char *name) { return fx_weights_find(w, fx_str_of(name)) != NULL; }

/* By what the embedding table is called; as usual if nothing tells, so that messages have the usual names. */
static naming naming_of(const fx_arch *arch, const fx_weights *w)
{
    const char *own = own_form(arch, FX_STR("token_embd"), 0);
    char name[128];

    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return (naming){ GGUF, 0 };
    for (int family = LLAMA; family < (own ? LLAMA + 1 : FAMILIES); family++) {
        for (size_t root = 0; root < FX_COUNT(roots); root++) {
            put_name(own ? own : rows[0].names[family], root, 0, ".weight", name, sizeof(name));
            if (has(w, name))
                return (naming){ family, root };
        }
    }
    return (naming){ LLAMA, 0 };
}

void fx_hub_name(const fx_arch *arch, const fx_weights *w, const char *form, char *out, size_t cap)
{
    put_name(form, naming_of(arch, w).root, 0, "", out, cap);
}

static fx_str split_role(const char *role, const char **suffix)
{
    const char *dot = strchr(role, '.');

    *suffix = dot ? dot : ".weight";
    return fx_str_n(role, dot ? (size_t)(dot - role) : strlen(role));
}

bool fx_role_name(const fx_arch *arch, const fx_weights *w, int64_t layer, const char *role, char *out, size_t cap)
{
    const char *suffix, *form;
    const fx_str stem = split_role(role, &suffix);
    const naming n = naming_of(arch, w);

    for (size_t k = 0; n.family != GGUF && (form = own_form(arch, stem, k)) != NULL; k++) {
        put_name(form, n.root, layer, suffix, out, cap);
        if (has(w, out))
            return true;
    }
    form = n.family == GGUF ? NULL : own_form(arch, stem, 0);
    form = form ? form : usual_form(n.family, stem);
    if (form)
        put_name(form, n.root, layer, suffix, out, cap);
    return form != NULL;
}

bool fx_role_gguf_name(int64_t layer, const char *role, char *out, size_t cap)
{
    const char *suffix, *form = usual_form(GGUF, split_role(role, &suffix));

    if (form)
        put_name(form, 0, layer, suffix, out, cap);
    return form != NULL;
}

/* ---- From a name to its role ---- */

bool fx_name_is(const char *form, fx_str name, int64_t *layer)
{
    const char *d = strstr(form, "%d");
    size_t head = d ? (size_t)(d - form) : strlen(form), at = head;

    *layer = FX_ONCE;
    if (strchr(form, '!') || name.n < head || memcmp(name.p, form, head) != 0)
        return false;
    for (*layer = d ? 0 : FX_ONCE; d && at < name.n && name.p[at] >= '0' && name.p[at] <= '9' && at < head + 9; at++)
        *layer = *layer * 10 + (name.p[at] - '0');
    if (d && at == head)
        return false;
    return fx_str_is(fx_str_n(name.p + at, name.n - at), d ? d + 2 : "");
}

const char *fx_role_of(const fx_arch *arch, fx_str name, bool gguf, int64_t *layer)
{
    for (const fx_tensor_name *t = gguf ? NULL : arch->names; t && t->role; t++) {
        if (fx_name_is(fx_place_bare(fx_str_of(t->form)).p, name, layer))
            return t->role;
    }
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        for (int f = gguf ? GGUF : LLAMA; f < (gguf ? GGUF + 1 : FAMILIES); f++) {
            const char *form = rows[i].names[f];

            if (form && fx_name_is(fx_place_bare(fx_str_of(form)).p, name, layer))
                return rows[i].role;
        }
    }
    *layer = FX_ONCE;
    return NULL;
}
