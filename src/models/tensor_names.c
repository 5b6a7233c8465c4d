/* tensor_names.c - what a role's tensor is called: one table for each naming family.
 *
 * A role is GGUF's name without block and suffix ("attn_q"); "attn_q.bias" is its bias. */
#include <stdio.h>

#include "models/models_int.h"

typedef struct name_row {
    const char *role, *gguf, *hf;        /* %d: the layer */
} name_row;

static const name_row names[] = {
    { "token_embd", "token_embd", "model.embed_tokens" },
    { "output_norm", "output_norm", "model.norm" },
    { "output", "output", "lm_head" },
    { "attn_norm", "blk.%d.attn_norm", "model.layers.%d.input_layernorm" },
    { "attn_q", "blk.%d.attn_q", "model.layers.%d.self_attn.q_proj" },
    { "attn_k", "blk.%d.attn_k", "model.layers.%d.self_attn.k_proj" },
    { "attn_v", "blk.%d.attn_v", "model.layers.%d.self_attn.v_proj" },
    { "attn_output", "blk.%d.attn_output", "model.layers.%d.self_attn.o_proj" },
    { "attn_q_norm", "blk.%d.attn_q_norm", "model.layers.%d.self_attn.q_norm" },
    { "attn_k_norm", "blk.%d.attn_k_norm", "model.layers.%d.self_attn.k_norm" },
    { "ffn_norm", "blk.%d.ffn_norm", "model.layers.%d.post_attention_layernorm" },
    { "ffn_gate", "blk.%d.ffn_gate", "model.layers.%d.mlp.gate_proj" },
    { "ffn_up", "blk.%d.ffn_up", "model.layers.%d.mlp.up_proj" },
    { "ffn_down", "blk.%d.ffn_down", "model.layers.%d.mlp.down_proj" },
};

bool fx_role_name(const fx_weights *w, int64_t layer, const char *role, char *out, size_t cap)
{
    bool gguf = fx_weights_kind_of(w) == FX_WEIGHTS_GGUF;
    const char *dot = strchr(role, '.');
    size_t n = dot ? (size_t)(dot - role) : strlen(role);

    for (size_t i = 0; i < FX_COUNT(names); i++) {
        const char *form = gguf ? names[i].gguf : names[i].hf, *d = form ? strstr(form, "%d") : NULL;

        if (!form || strlen(names[i].role) != n || memcmp(names[i].role, role, n))
            continue;
        if (d)
            snprintf(out, cap, "%.*s%lld%s%s", (int)(d - form), form, (long long)layer, d + 2, dot ? dot : ".weight");
        else
            snprintf(out, cap, "%s%s", form, dot ? dot : ".weight");
        return true;
    }
    return false;
}
