/* convert.c - a hub folder as a GGUF in memory, for fornax_quantize: the model's keys and tensors
 * (models/export.c), the tokenizer's (text/gguf_vocab.c), end tokens, chat templates. */
#include "api/convert.h"

#include "models/models.h"

static void put_id(fx_gguf_keys *k, const char *key, int64_t id)
{
    if (id >= 0)
        fx_gguf_put_u32(k, key, (uint32_t)id);
}

static void put_flag(fx_gguf_keys *k, const char *key, int flag)
{
    if (flag >= 0)
        fx_gguf_put_bool(k, key, flag > 0);
}

static void put_vocab(fx_gguf_keys *k, const fx_gguf_vocab *v)
{
    fx_gguf_put_str(k, "tokenizer.ggml.model", v->model);
    fx_gguf_put_str(k, "tokenizer.ggml.pre", v->pre);
    fx_gguf_put_strs(k, "tokenizer.ggml.tokens", v->tokens, v->n);
    fx_gguf_put_i32s(k, "tokenizer.ggml.token_type", v->types, v->n);
    if (v->scores)
        fx_gguf_put_f32s(k, "tokenizer.ggml.scores", v->scores, v->n);
    if (v->merges)
        fx_gguf_put_strs(k, "tokenizer.ggml.merges", v->merges, v->n_merges);
    put_id(k, "tokenizer.ggml.bos_token_id", v->bos);
    put_id(k, "tokenizer.ggml.eos_token_id", v->eos);
    put_id(k, "tokenizer.ggml.eot_token_id", v->eot);
    put_id(k, "tokenizer.ggml.eom_token_id", v->eom);
    put_id(k, "tokenizer.ggml.unknown_token_id", v->unk);
    put_id(k, "tokenizer.ggml.padding_token_id", v->pad);
    put_flag(k, "tokenizer.ggml.add_bos_token", v->add_bos);
    put_flag(k, "tokenizer.ggml.add_eos_token", v->add_eos);
    put_flag(k, "tokenizer.ggml.add_space_prefix", v->add_space_prefix);
    put_flag(k, "tokenizer.ggml.remove_extra_whitespaces", v->remove_extra);
}

/* All that end a text: the first as eos unless the tokenizer has one, two more as end of turn and of message. */
static void put_ends(fx_gguf_vocab *v, const fornax_tokenizer *tok)
{
    int64_t *const places[] = { &v->eos, &v->eot, &v->eom };
    size_t at = v->eos >= 0;

    for (size_t i = 0; i < tok->n_eos && at < FX_COUNT(places); i++) {
        if (tok->eos[i] != v->eos)
            *places[at++] = tok->eos[i];
    }
}

static void put_templates(fx_gguf_keys *k, const fornax_tokenizer *tok)
{
    static const fx_str tool_use = { "tool_use", 8 };

    if (tok->template_text)
        fx_gguf_put_str(k, "tokenizer.chat_template", fx_str_of(tok->template_text));
    if (tok->tool_template) {
        fx_gguf_put_strs(k, "tokenizer.chat_templates", &tool_use, 1);
        fx_gguf_put_str(k, "tokenizer.chat_template.tool_use", fx_str_of(tok->tool_template));
    }
}

static fx_status put_tokenizer(fornax_context *ctx, fx_weights *folder, size_t vocab, fx_arena *a, fx_gguf_keys *k,
                               fx_error *err)
{
    fornax_tokenizer *tok;
    fx_gguf_vocab v;
    fx_status st;

    FX_TRY(fx_api_tokenizer_new(&tok, ctx, folder, NULL, err));
    st = tok->t ? fx_tokenizer_to_gguf(tok->t, vocab, a, &v, err)
                : fx_fail(err, FORNAX_ENOTFOUND, "%s: no tokenizer.json or tokenizer.model", fx_weights_path(folder));
    if (st == FORNAX_OK) {
        put_ends(&v, tok);
        put_vocab(k, &v);
        put_templates(k, tok);
    }
    fornax_tokenizer_close(tok);
    return st;
}

static fx_status convert(fornax_context *ctx, fx_weights *folder, fx_converted *c, fx_gguf_keys *k, fx_error *err)
{
    fx_export e;

    FX_TRY(fx_model_export(&c->arena, folder, k, &e, err));
    FX_TRY(put_tokenizer(ctx, folder, (size_t)e.vocab, &c->arena, k, err));
    if (k->bytes.failed)
        return fx_nomem(err, "metadata");
    c->turn = e.turn;
    return fx_weights_make(&c->w, &ctx->mem, fx_weights_path(folder), fx_buf_view(&k->bytes), k->n, e.tensors, e.n, err);
}

fx_status fx_api_convert(fornax_context *ctx, fx_weights *folder, fx_converted *out, fx_error *err)
{
    fx_gguf_keys keys = { .n = 0 };
    fx_status st;

    *out = (fx_converted){ .w = NULL };
    fx_arena_init(&out->arena, &ctx->mem, 1 << 18);
    fx_buf_init(&keys.bytes, &ctx->mem);
    st = convert(ctx, folder, out, &keys, err);
    fx_buf_done(&keys.bytes);
    if (st != FORNAX_OK)
        fx_api_converted_done(out);
    return st;
}

void fx_api_converted_done(fx_converted *c)
{
    fx_weights_close(c->w);
    fx_arena_done(&c->arena);
    c->w = NULL;
}
