/* tensor_names.c - what a role's tensor is called: one column for each naming family.
 *
 * A role is GGUF's name without block and suffix ("attn_q"); "attn_q.bias" is its bias.
 * A file belongs to the first family whose embedding table it has. */
#include <stdio.h>

#include "models/models_int.h"

enum { GGUF, LLAMA, BARE, EXAONE, FAMILIES };

typedef struct name_row {
    const char *role;
    const char *names[FAMILIES];         /* %d: the layer; LLAMA's serve BARE without "model." */
} name_row;

static const name_row rows[] = {
    { "token_embd", { "token_embd", "model.embed_tokens", NULL, "transformer.wte" } },
    { "output_norm", { "output_norm", "model.norm", NULL, "transformer.ln_f" } },
    { "output", { "output", "lm_head", NULL, "lm_head" } },
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
    { "ffn_norm", { "blk.%d.ffn_norm", "model.layers.%d.post_attention_layernorm", NULL, "transformer.h.%d.ln_2" } },
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

bool fx_role_name(const fx_weights *w, int64_t layer, const char *role, char *out, size_t cap)
{
    const char *dot = strchr(role, '.'), *suffix = dot ? dot : ".weight";
    size_t n = dot ? (size_t)(dot - role) : strlen(role);
    int family = family_of(w);

    for (size_t i = 0; i < FX_COUNT(rows); i++) {
        const char *form = form_of(&rows[i], family), *d = form ? strstr(form, "%d") : NULL;

        if (!form || strlen(rows[i].role) != n || memcmp(rows[i].role, role, n))
            continue;
        if (d)
            snprintf(out, cap, "%.*s%lld%s%s", (int)(d - form), form, (long long)layer, d + 2, suffix);
        else
            snprintf(out, cap, "%s%s", form, suffix);
        return true;
    }
    return false;
}
