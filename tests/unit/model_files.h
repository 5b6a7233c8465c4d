/* model_files.h - small model files for tests, made from a list of sizes.
 *
 * A spec says architecture, sizes and types; model_write makes a GGUF file or a hub folder
 * with every tensor the architecture has, holding small numbers (not random, not all equal).
 * Tests change one thing in it: a key, a tensor's shape, a missing tensor. */
#ifndef MODEL_FILES_H
#define MODEL_FILES_H

#include "format_files.h"

typedef struct model_tensor {
    char name[80];
    fx_dtype dtype;
    int rank;
    int64_t shape[2];
} model_tensor;

typedef struct model_spec {
    const char *arch;                    /* GGUF's: "llama", "qwen3" */
    bool gguf;
    int layers, dim, heads, kv_heads, head_dim, ffn, vocab;
    fx_dtype dtype, v_dtype;             /* of matrices; of attn_v (FX_BOOL: the same) */
    bool tied, bias, qk_norm;
    const char *config;                  /* more of config.json, beginning with a comma; or NULL */
    const char *drop;                    /* tensor left out */
    const char *shrink;                  /* tensor whose first dimension is one less (or 32 less) */
    void (*more_keys)(fx_buf *b, int *n); /* more of GGUF's metadata, counted in *n; b NULL: count only */
} model_spec;

typedef struct model_list {
    model_tensor at[128];
    int n;
} model_list;

static inline void model_add(model_list *l, const model_spec *s, fx_dtype t, int rank, int64_t a, int64_t b,
                             const char *gguf, const char *hub, int layer)
{
    model_tensor *m = &l->at[l->n];

    snprintf(m->name, sizeof(m->name), s->gguf ? gguf : hub, layer);
    if (s->drop && !strcmp(s->drop, m->name))
        return;
    m->dtype = t;
    m->rank = rank;
    m->shape[0] = a - (s->shrink && !strcmp(s->shrink, m->name));
    m->shape[1] = b;
    l->n++;
}

static inline void model_tensors(model_list *l, const model_spec *s)
{
    fx_dtype w = s->dtype, v = s->v_dtype == FX_BOOL ? w : s->v_dtype, f = FX_F32;
    int q_rows = s->heads * s->head_dim, kv_rows = s->kv_heads * s->head_dim;

    l->n = 0;
    model_add(l, s, w, 2, s->vocab, s->dim, "token_embd.weight", "model.embed_tokens.weight", 0);
    for (int i = 0; i < s->layers; i++) {
        model_add(l, s, f, 1, s->dim, 1, "blk.%d.attn_norm.weight", "model.layers.%d.input_layernorm.weight", i);
        model_add(l, s, w, 2, q_rows, s->dim, "blk.%d.attn_q.weight", "model.layers.%d.self_attn.q_proj.weight", i);
        model_add(l, s, w, 2, kv_rows, s->dim, "blk.%d.attn_k.weight", "model.layers.%d.self_attn.k_proj.weight", i);
        model_add(l, s, v, 2, kv_rows, s->dim, "blk.%d.attn_v.weight", "model.layers.%d.self_attn.v_proj.weight", i);
        model_add(l, s, w, 2, s->dim, q_rows, "blk.%d.attn_output.weight", "model.layers.%d.self_attn.o_proj.weight", i);
        if (s->bias) {
            model_add(l, s, f, 1, q_rows, 1, "blk.%d.attn_q.bias", "model.layers.%d.self_attn.q_proj.bias", i);
            model_add(l, s, f, 1, kv_rows, 1, "blk.%d.attn_k.bias", "model.layers.%d.self_attn.k_proj.bias", i);
            model_add(l, s, f, 1, kv_rows, 1, "blk.%d.attn_v.bias", "model.layers.%d.self_attn.v_proj.bias", i);
            model_add(l, s, f, 1, s->dim, 1, "blk.%d.attn_output.bias", "model.layers.%d.self_attn.o_proj.bias", i);
        }
        if (s->qk_norm) {
            model_add(l, s, f, 1, s->head_dim, 1, "blk.%d.attn_q_norm.weight", "model.layers.%d.self_attn.q_norm.weight", i);
            model_add(l, s, f, 1, s->head_dim, 1, "blk.%d.attn_k_norm.weight", "model.layers.%d.self_attn.k_norm.weight", i);
        }
        model_add(l, s, f, 1, s->dim, 1, "blk.%d.ffn_norm.weight", "model.layers.%d.post_attention_layernorm.weight", i);
        model_add(l, s, w, 2, s->ffn, s->dim, "blk.%d.ffn_gate.weight", "model.layers.%d.mlp.gate_proj.weight", i);
        model_add(l, s, w, 2, s->ffn, s->dim, "blk.%d.ffn_up.weight", "model.layers.%d.mlp.up_proj.weight", i);
        model_add(l, s, w, 2, s->dim, s->ffn, "blk.%d.ffn_down.weight", "model.layers.%d.mlp.down_proj.weight", i);
    }
    model_add(l, s, f, 1, s->dim, 1, "output_norm.weight", "model.norm.weight", 0);
    if (!s->tied)
        model_add(l, s, w, 2, s->vocab, s->dim, "output.weight", "lm_head.weight", 0);
}

static inline size_t model_bytes(const model_tensor *t)
{
    int64_t rows = t->rank == 2 ? t->shape[0] : 1, cols = t->rank == 2 ? t->shape[1] : t->shape[0];

    return (size_t)rows * fx_dtype_row_bytes(t->dtype, cols);
}

/* Numbers of types in GGUF files. */
static inline uint32_t model_gguf_type(fx_dtype t)
{
    switch (t) {
    case FX_F16: return 1;
    case FX_Q4_0: return 2;
    case FX_Q4_1: return 3;
    case FX_Q8_0: return 8;
    case FX_Q4_K: return 12;
    case FX_Q6_K: return 14;
    case FX_BF16: return 30;
    default: return 0;
    }
}

static inline void model_key_u32(fx_buf *b, const char *arch, const char *key, uint32_t x)
{
    char full[80];

    snprintf(full, sizeof(full), "%s.%s", arch, key);
    gguf_u32(b, full, x);
}

static inline void model_key_f32(fx_buf *b, const char *arch, const char *key, float x)
{
    char full[80];

    snprintf(full, sizeof(full), "%s.%s", arch, key);
    gguf_key(b, full, FX_META_F32);
    fx_buf_add(b, &x, sizeof(x));
}

static inline void model_gguf_keys(fx_buf *b, const model_spec *s)
{
    gguf_key(b, "general.architecture", FX_META_STR);
    put_str(b, s->arch);
    gguf_key(b, "general.name", FX_META_STR);
    put_str(b, "Tiny");
    model_key_u32(b, s->arch, "embedding_length", (uint32_t)s->dim);
    model_key_u32(b, s->arch, "block_count", (uint32_t)s->layers);
    model_key_u32(b, s->arch, "attention.head_count", (uint32_t)s->heads);
    model_key_u32(b, s->arch, "attention.head_count_kv", (uint32_t)s->kv_heads);
    model_key_u32(b, s->arch, "attention.key_length", (uint32_t)s->head_dim);
    model_key_u32(b, s->arch, "attention.value_length", (uint32_t)s->head_dim);
    model_key_u32(b, s->arch, "feed_forward_length", (uint32_t)s->ffn);
    model_key_u32(b, s->arch, "context_length", 512);
    model_key_f32(b, s->arch, "attention.layer_norm_rms_epsilon", 1e-5f);
    model_key_f32(b, s->arch, "rope.freq_base", 10000);
}

static inline void model_gguf(fx_buf *b, const model_spec *s, const model_list *l)
{
    size_t offset = 0, bytes = 0;
    int more = 0;

    if (s->more_keys)
        s->more_keys(NULL, &more);
    gguf_head(b, 3, (uint64_t)l->n, 12 + (uint64_t)more);
    model_gguf_keys(b, s);
    if (s->more_keys)
        s->more_keys(b, &more);
    for (int i = 0; i < l->n; i++) {
        const model_tensor *t = &l->at[i];

        if (t->rank == 2)
            gguf_tensor(b, t->name, model_gguf_type(t->dtype), offset, 2, (uint64_t)t->shape[1], (uint64_t)t->shape[0]);
        else
            gguf_tensor(b, t->name, model_gguf_type(t->dtype), offset, 1, (uint64_t)t->shape[0]);
        bytes = offset + model_bytes(t);
        offset = FX_ROUND_UP(bytes, (size_t)32);
    }
    gguf_data(b, 32, offset);
}

static inline void model_config(fx_buf *b, const model_spec *s)
{
    fx_buf_printf(b, "{\"architectures\": [\"%s\"], \"hidden_size\": %d, \"num_hidden_layers\": %d,"
                     " \"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d,"
                     " \"intermediate_size\": %d, \"vocab_size\": %d, \"max_position_embeddings\": 512,"
                     " \"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": %s, \"attention_bias\": %s%s}",
                  !strcmp(s->arch, "qwen3") ? "Qwen3ForCausalLM"
                  : !strcmp(s->arch, "mistral") ? "MistralForCausalLM" : "LlamaForCausalLM",
                  s->dim, s->layers, s->heads, s->kv_heads, s->head_dim, s->ffn, s->vocab, s->tied ? "true" : "false",
                  s->bias ? "true" : "false", s->config ? s->config : "");
}

static inline void model_safetensors(fx_buf *b, const model_list *l)
{
    fx_buf head;
    size_t offset = 0;

    fx_buf_init(&head, &fx_mem_libc);
    fx_buf_putc(&head, '{');
    for (int i = 0; i < l->n; i++) {
        const model_tensor *t = &l->at[i];

        fx_buf_printf(&head, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [%d", i ? ", " : "", t->name,
                      t->dtype == FX_BF16 ? "BF16" : t->dtype == FX_F16 ? "F16" : "F32", (int)t->shape[0]);
        if (t->rank == 2)
            fx_buf_printf(&head, ", %d", (int)t->shape[1]);
        fx_buf_printf(&head, "], \"data_offsets\": [%zu, %zu]}", offset, offset + model_bytes(t));
        offset += model_bytes(t);
    }
    fx_buf_putc(&head, '}');
    while (head.n % 8)
        fx_buf_putc(&head, ' ');
    safetensors(b, head.p, offset);
    fx_buf_done(&head);
}

/* Writes the model into the folder; what to open. */
static inline const char *model_write(scratch *dir, const model_spec *s)
{
    model_list l;
    fx_buf b;

    model_tensors(&l, s);
    fx_buf_init(&b, &fx_mem_libc);
    if (s->gguf) {
        model_gguf(&b, s, &l);
        scratch_write(dir, "model.gguf", fx_buf_view(&b));
    } else {
        model_config(&b, s);
        scratch_write(dir, "config.json", fx_buf_view(&b));
        fx_buf_clear(&b);
        model_safetensors(&b, &l);
        scratch_write(dir, "model.safetensors", fx_buf_view(&b));
    }
    fx_buf_done(&b);
    if (s->gguf)
        return scratch_path(dir, "model.gguf");
    return dir->dir;
}

static inline void model_remove(scratch *dir)
{
    scratch_remove(dir, "model.gguf");
    scratch_remove(dir, "config.json");
    scratch_remove(dir, "model.safetensors");
    rmdir(dir->dir);
}

#endif
