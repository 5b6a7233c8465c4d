/* tokenizer_gguf.c - a tokenizer from the arrays of a GGUF header.
 *
 * Models are a table by tokenizer.ggml.model; one that isn't in it is
 * FORNAX_EUNSUP and named, as is an unknown tokenizer.ggml.pre.  Control and
 * unknown tokens are special; user-defined ones are matched but are text. */
#include "text/pretok_names.h"
#include "text/runes.h"
#include "text/tokenizer_impl.h"

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

/* A token as its model knows it: WordPiece's in the hub's spelling. */
static fx_str spelling_of(const fx_gguf_vocab *v, size_t i, fx_buf *b)
{
    fx_str s = v->tokens[i];

    if (!fx_str_is(v->model, "bert") || (v->types && v->types[i] != TYPE_NORMAL && v->types[i] != TYPE_UNUSED))
        return s;
    if (fx_str_starts(s, FX_STR("\xe2\x96\x81")))
        return fx_str_n(s.p + 3, s.n - 3);
    if (!v->types && fx_str_starts(s, FX_STR("[")) && fx_str_ends(s, FX_STR("]")))
        return s;
    fx_buf_clear(b);
    fx_buf_puts(b, "##");
    fx_buf_str(b, s);
    return fx_buf_view(b);
}

static fx_status fill_vocab(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    fx_status st = FORNAX_OK;
    size_t bytes = 0;
    fx_buf b;

    for (size_t i = 0; i < v->n; i++)
        bytes += v->tokens[i].n + 2;
    if (bytes >= FX_TEXT_SPELLING || v->n > INT32_MAX)
        return fx_fail(err, FORNAX_EUNSUP, "tokenizer.ggml.tokens: expected at most 2 GiB, found %zu bytes", bytes);
    if (!fx_vocab_init(&t->vocab, &t->arena, v->n, bytes) || !(t->flags = fx_arena_alloc(&t->arena, v->n + 1)))
        return fx_nomem(err, "tokens");
    fx_buf_init(&b, t->mem);
    for (size_t i = 0; i < v->n; i++)
        fx_vocab_put(&t->vocab, (int32_t)i, spelling_of(v, i, &b));
    if (b.failed)
        st = fx_nomem(err, "tokens");
    fx_buf_done(&b);
    return st;
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

static fx_status take_id(int64_t id, size_t n, const char *name, int32_t *out, fx_error *err)
{
    if (id >= 0 && (uint64_t)id >= n)
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.%s_token_id: expected an id below %zu, found %lld", name, n,
                       (long long)id);
    *out = id < 0 ? -1 : (int32_t)id;
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

/* Types where the file has none: bytes by their spelling. */
static void spm_types(fx_tokenizer *t, const fx_gguf_vocab *v, int32_t *types)
{
    int32_t bytes[256];

    fx_vocab_find_bytes(&t->vocab, bytes);
    for (size_t i = 0; i < v->n; i++)
        types[i] = v->types ? v->types[i] : TYPE_NORMAL;
    for (int i = 0; i < 256; i++)
        if (bytes[i] >= 0)
            types[bytes[i]] = TYPE_BYTE;
    if (t->unk >= 0)
        types[t->unk] = TYPE_UNKNOWN;
}

static fx_status set_spm(fx_tokenizer *t, const fx_gguf_vocab *v, bool bpe, fx_error *err)
{
    fx_spm m = { .scores = v->scores, .bpe = bpe, .byte_fallback = true, .charsmap = v->charsmap, .escape = true,
                 .prefix = v->add_space_prefix != 0, .remove_extra = v->remove_extra > 0, .where = "tokenizer.ggml" };
    int32_t *types;
    fx_status st;

    if (!v->scores)
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.scores: expected a score for each token");
    for (size_t i = 0; i < v->n; i++)
        if (!(v->scores[i] - v->scores[i] == 0))
            return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.scores: %zu: expected a finite number", i);
    types = fx_mem_array(t->mem, v->n + 1, sizeof(*types));
    if (!types)
        return fx_nomem(err, "tokens");
    spm_types(t, v, types);
    m.types = types;
    st = fx_tokenizer_set_spm(t, &m, err);
    fx_mem_free(t->mem, types, (v->n + 1) * sizeof(*types));
    return st;
}

/* "llama": SentencePiece's BPE. */
static fx_status model_llama(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    FX_TRY(set_spm(t, v, true, err));
    return around(t, v, true, err);
}

/* "t5": SentencePiece's Unigram; an end token unless the file says otherwise. */
static fx_status model_t5(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    fx_gguf_vocab w = *v;

    if (w.add_eos < 0)
        w.add_eos = t->eos >= 0;
    FX_TRY(set_spm(t, v, false, err));
    return around(t, &w, false, err);
}

/* "bert": WordPiece.  The converter writes words with a mark in front and continuing pieces
 * bare; fill_vocab has turned them back into "word" and "##piece". */
static fx_status model_bert(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err)
{
    fx_norm_step *s = fx_tokenizer_add_norm(t, FX_NORM_BERT);
    int32_t cls = -1, sep = -1;
    fx_pretok_step *cut;

    FX_ASSERT(s);
    s->clean = s->spaced_cjk = s->strip_accents = s->lower = true;
    for (int i = 0; i < 2; i++) {
        cut = fx_tokenizer_add_cut(t, FX_PRETOK_CHARACTERS);
        FX_ASSERT(cut);
        cut->is_match = i ? fx_rune_is_punctuation : fx_rune_is_space;
        cut->cut = i ? FX_CUT_ISOLATED : FX_CUT_REMOVED;
    }
    t->model = FX_MODEL_WORDPIECE;
    t->wordpiece = (fx_wordpiece){ .prefix = FX_STR("##"), .unk = t->unk, .longest_word = 100 };
    if (t->unk < 0)
        return fx_fail(err, FORNAX_EFORMAT, "tokenizer.ggml.unknown_token_id: expected the token of unknown words");
    for (size_t i = 0; i < t->vocab.n; i++)
        t->wordpiece.longest = FX_MAX(t->wordpiece.longest, t->vocab.pieces[i].n);
    t->decoder.first = FX_FIRST_WORDPIECE;
    t->decoder.first_text = FX_STR("##");
    t->decoder.cleanup = true;
    FX_TRY(take_id(v->cls >= 0 ? v->cls : v->bos, v->n, "cls", &cls, err));
    FX_TRY(take_id(v->sep >= 0 ? v->sep : v->eos, v->n, "seperator", &sep, err));
    if ((v->add_bos != 0 && cls >= 0 && !FX_VEC_PUSH(&t->before, t->mem, cls)) ||
        (v->add_eos != 0 && sep >= 0 && !FX_VEC_PUSH(&t->after, t->mem, sep)))
        return fx_nomem(err, "tokens");
    return FORNAX_OK;
}

static const struct { const char *name; fx_status (*read)(fx_tokenizer *t, const fx_gguf_vocab *v, fx_error *err); } models[] = {
    { "gpt2", model_gpt2 }, { "llama", model_llama }, { "t5", model_t5 }, { "bert", model_bert },
};

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
