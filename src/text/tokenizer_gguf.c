/* tokenizer_gguf.c - a tokenizer from the arrays of a GGUF header.
 *
 * Models are a table by tokenizer.ggml.model; one that isn't in it is
 * FORNAX_EUNSUP and named, as is an unknown tokenizer.ggml.pre.  Control and
 * unknown tokens are special; user-defined ones are matched but are text. */
#include "text/pretok_names.h"
#include "text/tokenizer_impl.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

static fx_status fill_vocab(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    size_t bytes = 0;

    for (size_t i = 0; i < v->n; i++)
        bytes += v->tokens[i].n;
    if (bytes >= FX_TEXT_SPELLING || v->n > INT32_MAX)
        return fx_fail(err, FORNAX_EUNSUP, "tokenizer.ggml.tokens: expected at most 2 GiB, found %zu bytes", bytes);
    if (!fx_vocab_init(&t->vocab, &t->arena, v->n, bytes) || !(t->flags = fx_arena_alloc(&t->arena, v->n + 1)))
        return fx_nomem(err, "tokens");
    for (size_t i = 0; i < v->n; i++)
        fx_vocab_put(&t->vocab, (int32_t)i, v->tokens[i]);
    return FORNAX_OK;
}

static fx_status add_tokens(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    size_t n = 0;

    for (size_t i = 0; v->types && i < v->n; i++)
        n += v->types[i] == TYPE_CONTROL || v->types[i] == TYPE_USER || v->types[i] == TYPE_UNKNOWN;
    t->added = FX_ARENA_NEWN(&t->arena, fx_added, n + 1);
    if (!t->added)
        return fx_nomem(err, "tokens");
    for (size_t i = 0; v->types && i < v->n; i++) {
        if (v->types[i] != TYPE_CONTROL && v->types[i] != TYPE_USER && v->types[i] != TYPE_UNKNOWN)
            continue;
        t->flags[i] |= FX_TOKEN_RAW;
        t->added[t->n_added++] = (fx_added){ .content = fx_vocab_text(&t->vocab, (int32_t)i), .id = (int32_t)i,
                                             .special = v->types[i] != TYPE_USER };
    }
    return FORNAX_OK;
}

static fx_status add_patterns(fx_tokenizer *t, const fx_pretok_name *pre, fx_error *err)
{
    for (size_t i = 0; i < FX_COUNT(pre->patterns) && pre->patterns[i]; i++) {
        fx_pretok_step *s = fx_tokenizer_add_cut(t, FX_PRETOK_SPLIT);

        FX_ASSERT(s);
        FX_TRY(fx_regex_compile(&s->pattern, t->mem, fx_str_of(pre->patterns[i]), "tokenizer.ggml.pre", err));
    }
    FX_ASSERT(t->n_cuts < FX_STEPS_MAX);
    fx_tokenizer_add_cut(t, FX_PRETOK_BYTE_LEVEL);
    return FORNAX_OK;
}

/* "a b"; the blank is looked for from the second byte, so that a token may begin with one. */
static fx_status split_merges(fx_merge_text *out, const fx_gguf_vocab *v, fx_error *err)
{
    for (size_t i = 0; i < v->n_merges; i++) {
        fx_str line = v->merges[i];
        size_t blank = fx_str_find(line, FX_STR(" "), 1);

        if (blank == FX_STR_NONE)
            return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.merges: %zu: expected two tokens with a space between them", i);
        out[i] = (fx_merge_text){ fx_str_n(line.p, blank), fx_str_n(line.p + blank + 1, line.n - blank - 1) };
    }
    return FORNAX_OK;
}

static fx_status init_bpe(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    fx_merge_text *merges = fx_mem_array(t->mem, v->n_merges + 1, sizeof(*merges));
    fx_status st;

    if (!merges)
        return fx_nomem(err, "merges");
    st = split_merges(merges, v, err);
    if (st == FORNAX_OK)
        st = fx_bpe_init(&t->bpe, &t->arena, &t->vocab, merges, v->n_merges, "tokenizer.ggml.merges", err);
    fx_mem_free(t->mem, merges, (v->n_merges + 1) * sizeof(*merges));
    return st;
}

static fx_status around(fx_tokenizer *t, const fx_gguf_vocab *v, bool add_bos, fx_error *err)
{
    bool bos = v->add_bos < 0 ? add_bos : v->add_bos > 0, eos = v->add_eos > 0;

    if ((bos && t->bos < 0 && v->add_bos > 0) || (eos && t->eos < 0))
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml: expected the token that add_%s_token puts around a text",
                       bos && t->bos < 0 ? "bos" : "eos");
    if ((bos && t->bos >= 0 && !FX_VEC_PUSH(&t->before, t->mem, t->bos)) ||
        (eos && !FX_VEC_PUSH(&t->after, t->mem, t->eos)))
        return fx_nomem(err, "tokens");
    return FORNAX_OK;
}

/* "gpt2": byte-level BPE. */
static fx_status model_gpt2(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    const fx_pretok_name *pre = fx_pretok_find(v->pre);

    if (!pre)
        return fx_fail(err, FORNAX_EUNSUP, "tokenizer.ggml.pre: \"%.*s\" is not a pre-tokenizer that is known here",
                       (int)FX_MIN(v->pre.n, 100), v->pre.p);
    if (!v->n_merges)
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.merges: expected a list of merges");
    t->model = FX_MODEL_BPE;
    t->bpe.ignore_merges = pre->ignore_merges;
    t->decoder.byte_level = true;
    if (pre->nfc)
        fx_tokenizer_add_norm(t, FX_NORM_NFC);
    FX_TRY(add_patterns(t, pre, err));
    fx_tokenizer_choose_bytes(t);
    FX_TRY(init_bpe(t, v, err));
    return around(t, v, pre->add_bos, err);
}

static const struct { const char *name; fx_status (*read)(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err); } models[] = {
    { "gpt2", model_gpt2 },
};

static fx_status take_id(int64_t id, size_t n, const char *name, int32_t *out, fx_error *err)
{
    if (id >= 0 && (uint64_t)id >= n)
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.%s_token_id: expected an id below %zu, found %lld", name, n,
                       (long long)id);
    *out = id < 0 ? -1 : (int32_t)id;
    return FORNAX_OK;
}

static fx_status build(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    if (!v->n)
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.tokens: expected a list of tokens");
    FX_TRY(take_id(v->bos, v->n, "bos", &t->bos, err));
    FX_TRY(take_id(v->eos, v->n, "eos", &t->eos, err));
    FX_TRY(take_id(v->unk, v->n, "unknown", &t->unk, err));
    FX_TRY(take_id(v->pad, v->n, "padding", &t->pad, err));
    FX_TRY(fill_vocab(t, v, err));
    FX_TRY(add_tokens(t, v, err));
    for (size_t i = 0; i < FX_COUNT(models); i++)
        if (fx_str_is(v->model, models[i].name)) {
            FX_TRY(models[i].read(t, v, err));
            return fx_tokenizer_finish(t, err);
        }
    return fx_fail(err, FORNAX_EUNSUP, "tokenizer.ggml.model: \"%.*s\" is not supported", (int)FX_MIN(v->model.n, 100),
                   v->model.p ? v->model.p : "");
}

fx_status fx_tokenizer_from_gguf(fx_tokenizer **out, const fx_mem *mem, const fx_gguf_vocab *v, fx_error *err)
{
    fx_tokenizer *t = fx_tokenizer_new(mem);
    fx_status st;

    *out = NULL;
    if (!t)
        return fx_nomem(err, "a tokenizer");
    st = build(t, v, err);
    if (st != FORNAX_OK)
        fx_tokenizer_free(t);
    else
        *out = t;
    return st;
}
