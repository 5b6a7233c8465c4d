/* tensor_names.c - what a role's tensor is called: one column for each naming family, and an
 * architecture's own names before them.
 *
 * A role is GGUF's name without block and suffix ("attn_q"); "attn_q.bias" is its bias.
 * A form that ends in '!' is the whole name, without ".weight".
 * A file belongs to the first family whose embedding table it has. */
#include <stdio.h>

#include "models/models_int.h"
#include "models/places.h"

enum { GGUF, LLAMA, BARE, EXAONE, FAMILIES };

typedef struct name_row {
    const char *role;
    const char *names[FAMILIES];         /* %d: the layer; LLAMA's serve BARE without "model." */
} name_row;

static const name_row rows[] = {
    { "token_embd", { "token_embd", "model.embed_tokens", NULL, "transformer.wte" } },
    { "output_norm", { "output_norm", "model.norm", NULL, "transformer.ln_f" } },
    { "output", { "output", "lm_head", NULL, "lm_head" } },
    { "attn_qkv", { "blk.%d.attn_qkv", "model.layers.%d.self_attn.qkv_proj", NULL, NULL } },
    { "ffn_gate_up", { NULL, "model.layers.%d.mlp.gate_up_proj", NULL, NULL } },
    { "attn_norm", { "blk.%d.attn_norm", "model.layers.%d.input_layernorm", NULL, "transformer.h.%d.ln_1" } },
    { "attn_q", { "blk.%d.attn_q", "model.layers.%d.self_attn.q_proj", NULL,
                  "transformer.h.%d.attn.attention.q_proj" } },
    { "attn_k", { "blk.%d.attn_k", "model.layers.%d.self_attn.k_proj", NULL,
                  "transformer.h.%d.attn.attention.k_proj" } },
    { "attn_v", { "blk.%d.attn_v", "model.layers.%d.self_attn.v_proj", NULL,
                  "transformer.h.%d.attn.attention.v_proj" } },
    { "attn_output", { "blk.%d.attn_output", "model.layers.%d.self_attn.o_proj", NULL,
                       "transformer.h.%d.attn.attention.out_proj" } },
    { "attn_q_norm", { "blk.%d.attn_q_norm", "model.layers.%d.self_attn.q_norm", NULL, NULL } },
    { "attn_k_norm", { "blk.%d.attn_k_norm", "model.layers.%d.self_attn.k_norm", NULL, NULL } },
    { "post_attention_norm", { "blk.%d.post_attention_norm", NULL, NULL, NULL } },
    { "post_ffw_norm", { "blk.%d.post_ffw_norm", "model.layers.%d.post_feedforward_layernorm", NULL, NULL } },
    { "position_embd", { "position_embd", NULL, NULL, NULL } },
    { "attn_norm_2", { "blk.%d.attn_norm_2", NULL, NULL, NULL } },
    { "token_embd_norm", { "token_embd_norm", NULL, NULL, NULL } },
    { "ssm_in", { "blk.%d.ssm_in", NULL, NULL, NULL } },
    { "ssm_conv1d", { "blk.%d.ssm_conv1d", NULL, NULL, NULL } },
    { "ssm_x", { "blk.%d.ssm_x", NULL, NULL, NULL } },
    { "ssm_dt", { "blk.%d.ssm_dt", NULL, NULL, NULL } },
    { "ssm_a", { "blk.%d.ssm_a!", NULL, NULL, NULL } },
    { "ssm_d", { "blk.%d.ssm_d!", NULL, NULL, NULL } },
    { "ssm_norm", { "blk.%d.ssm_norm", NULL, NULL, NULL } },
    { "ssm_out", { "blk.%d.ssm_out", NULL, NULL, NULL } },
    { "ssm_dt_norm", { "blk.%d.ssm_dt_norm", NULL, NULL, NULL } },
    { "ssm_b_norm", { "blk.%d.ssm_b_norm", NULL, NULL, NULL } },
    { "ssm_c_norm", { "blk.%d.ssm_c_norm", NULL, NULL, NULL } },
    { "shortconv_in", { "blk.%d.shortconv.in_proj", NULL, NULL, NULL } },
    { "shortconv_conv", { "blk.%d.shortconv.conv", NULL, NULL, NULL } },
    { "shortconv_out", { "blk.%d.shortconv.out_proj", NULL, NULL, NULL } },
    { "ffn_norm", { "blk.%d.ffn_norm", "model.layers.%d.post_attention_layernorm", NULL, "transformer.h.%d.ln_2" } },
    { "attn_q_a", { "blk.%d.attn_q_a", "model.layers.%d.self_attn.q_a_proj", NULL, NULL } },
    { "attn_q_a_norm", { "blk.%d.attn_q_a_norm", "model.layers.%d.self_attn.q_a_layernorm", NULL, NULL } },
    { "attn_q_b", { "blk.%d.attn_q_b", "model.layers.%d.self_attn.q_b_proj", NULL, NULL } },
    { "attn_kv_a_mqa", { "blk.%d.attn_kv_a_mqa", "model.layers.%d.self_attn.kv_a_proj_with_mqa", NULL, NULL } },
    { "attn_kv_a_norm", { "blk.%d.attn_kv_a_norm", "model.layers.%d.self_attn.kv_a_layernorm", NULL, NULL } },
    { "attn_kv_b", { "blk.%d.attn_kv_b", "model.layers.%d.self_attn.kv_b_proj", NULL, NULL } },
    { "ffn_gate_inp", { "blk.%d.ffn_gate_inp", "model.layers.%d.mlp.gate", NULL, NULL } },
    { "ffn_gate_inp_shexp", { "blk.%d.ffn_gate_inp_shexp", "model.layers.%d.mlp.shared_expert_gate", NULL, NULL } },
    { "ffn_gate_shexp", { "blk.%d.ffn_gate_shexp", "model.layers.%d.mlp.shared_expert.gate_proj", NULL, NULL } },
    { "ffn_up_shexp", { "blk.%d.ffn_up_shexp", "model.layers.%d.mlp.shared_expert.up_proj", NULL, NULL } },
    { "ffn_down_shexp", { "blk.%d.ffn_down_shexp", "model.layers.%d.mlp.shared_expert.down_proj", NULL, NULL } },
    { "ffn_gate", { "blk.%d.ffn_gate", "model.layers.%d.mlp.gate_proj", NULL, "transformer.h.%d.mlp.c_fc_0" } },
    { "ffn_up", { "blk.%d.ffn_up", "model.layers.%d.mlp.up_proj", NULL, "transformer.h.%d.mlp.c_fc_1" } },
    { "ffn_down", { "blk.%d.ffn_down", "model.layers.%d.mlp.down_proj", NULL, "transformer.h.%d.mlp.c_proj" } },
};

/* A row's name in a family; NULL: none. */
static const char *form_of(const name_row *row, int family)
{
    const char *form = row->names[family == BARE ? LLAMA : family];

    if (form && family == BARE && strncmp(form, "model.", 6) == 0)
        form += 6;
    return form;
}

/* The family of a file; LLAMA if nothing tells, so that messages have the usual names. */
static int family_of(const fx_weights *w)
{
    char name[64];

    if (fx_weights_kind_of(w) == FX_WEIGHTS_GGUF)
        return GGUF;
    for (int f = LLAMA; f < FAMILIES; f++) {
        snprintf(name, sizeof(name), "%s.weight", form_of(&rows[0], f));
        if (fx_weights_find(w, fx_str_of(name)))
            return f;
    }
    return LLAMA;
}

static void put_name(const char *form, int64_t layer, const char *suffix, char *out, size_t cap)
{
    const char *d = strstr(form, "%d");
    char *whole;

    if (d)
        snprintf(out, cap, "%.*s%lld%s%s", (int)(d - form), form, (long long)layer, d + 2, suffix);
    else
        snprintf(out, cap, "%s%s", form, suffix);
    whole = strchr(out, '!');
    if (whole)
        *whole = 0;
}

/* Whether a folder's names lack their first part ("transformer."), as those of bare models do. */
static bool is_bare(const fx_arch *arch, const fx_weights *w)
{
    char name[128];

    for (const fx_tensor_name *t = arch->names; t->role; t++) {
        const char *dot = strchr(t->form, '.');

        if (strcmp(t->role, "token_embd") || !dot)
            continue;
        put_name(t->form, 0, ".weight", name, sizeof(name));
        return !fx_weights_find(w, fx_str_of(name)) && fx_weights_find(w, fx_str_of(name + (dot + 1 - t->form)));
    }
    return false;
}

/* The architecture's own name of a role. */
static bool own_name(const fx_arch *arch, const fx_weights *w, int64_t layer, fx_str role, const char *suffix,
                     char *out, size_t cap)
{
    for (const fx_tensor_name *t = arch->names; t && t->role; t++) {
        const char *form = t->form;

        if (!fx_str_is(role, t->role))
            continue;
        if (is_bare(arch, w) && strchr(form, '.'))
            form = strchr(form, '.') + 1;
        put_name(form, layer, suffix, out, cap);
        return true;
    }
    return false;
}

/* The name of a role in a family: role up to its dot, then the suffix. */
static bool family_name(int family, int64_t layer, fx_str role, const char *suffix, char *out, size_t cap)
{
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        const char *form = form_of(&rows[i], family);

        if (!form || !fx_str_is(role, rows[i].role))
            continue;
        put_name(form, layer, suffix, out, cap);
        return true;
    }
    return false;
}

static fx_str split_role(const char *role, const char **suffix)
{
    const char *dot = strchr(role, '.');

    *suffix = dot ? dot : ".weight";
    return fx_str_n(role, dot ? (size_t)(dot - role) : strlen(role));
}

bool fx_role_name(const fx_arch *arch, const fx_weights *w, int64_t layer, const char *role, char *out, size_t cap)
{
    const char *suffix;
    fx_str stem = split_role(role, &suffix);
    int family = family_of(w);

    if (family != GGUF && own_name(arch, w, layer, stem, suffix, out, cap))
        return true;
    return family_name(family, layer, stem, suffix, out, cap);
}

bool fx_role_gguf_name(int64_t layer, const char *role, char *out, size_t cap)
{
    const char *suffix;
    fx_str stem = split_role(role, &suffix);

    return family_name(GGUF, layer, stem, suffix, out, cap);
}

/* ---- From a name to its role ---- */

/* Whether a name is of this form, and of which layer. */
static bool is_of(const char *form, fx_str name, int64_t *layer)
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
        if (is_of(fx_place_bare(fx_str_of(t->form)).p, name, layer))
            return t->role;
    }
    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        for (int f = gguf ? GGUF : LLAMA; f < (gguf ? GGUF + 1 : FAMILIES); f++) {
            const char *form = form_of(&rows[i], f);

            if (form && is_of(fx_place_bare(fx_str_of(form)).p, name, layer))
                return rows[i].role;
        }
    }
    *layer = FX_ONCE;
    return NULL;
}
