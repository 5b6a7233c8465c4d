/* gguf_vocab.c - what a GGUF header holds of a tokenizer that came from elsewhere.
 *
 * Two kinds can be said there: byte-level BPE ("gpt2"), whose way of cutting is told by a name and so must be
 * one that has a name; and BPE with byte fallback over text whose blanks are marks ("llama"), whose merges
 * become scores: a piece's is the rank of the first merge that makes it, negated.  What a header
 * has no word for (blanks that an added token takes along; a mark in front of the first part only) is
 * left out, as other converters do. */
#include <stdlib.h>

#include "text/pretok_names.h"
#include "text/runes.h"
#include "text/tokenizer_impl.h"

#define MARK "\xe2\x96\x81"
#define NEVER_MERGED (-1e9f)

typedef struct writer {
    const fx_tokenizer *t;
    fx_arena *a;
    fx_gguf_vocab *out;
    fx_error *err;
} writer;

static fx_status unsupported(const writer *w, const char *what)
{
    return fx_fail(w->err, FORNAX_EUNSUP, "tokenizer: %s has no place in a GGUF file", what);
}

static fx_status no_room(const writer *w) { return fx_nomem(w->err, "a vocabulary"); }

/* ---- Tokens --------------------------------------------------------------------------------- */

static fx_status put_tokens(writer *w, size_t n_ids)
{
    const fx_tokenizer *t = w->t;
    size_t n = FX_MAX(t->vocab.n, n_ids);
    fx_str *tokens = FX_ARENA_NEWN(w->a, fx_str, n + 1);
    int32_t *types = FX_ARENA_NEWN(w->a, int32_t, n + 1);

    if (!tokens || !types)
        return no_room(w);
    for (size_t i = 0; i < n; i++) {
        tokens[i] = fx_vocab_text(&t->vocab, (int32_t)i);
        types[i] = FX_PIECE_NORMAL;
        if (tokens[i].p)
            continue;
        tokens[i] = fx_str_of(fx_arena_printf(w->a, "[PAD%zu]", i));
        types[i] = FX_PIECE_UNUSED;
        if (!tokens[i].p)
            return no_room(w);
    }
    for (size_t i = 0; i < t->n_added; i++)
        types[t->added[i].id] = t->added[i].special ? FX_PIECE_CONTROL : FX_PIECE_USER;
    w->out->tokens = tokens;
    w->out->types = types;
    w->out->n = n;
    return FORNAX_OK;
}

/* One token at most is put before and after a text, and it is the begin or the end token. */
static fx_status put_around(writer *w)
{
    const fx_tokenizer *t = w->t;

    if (t->before.n > 1 || (t->before.n && t->before.at[0] != t->bos && t->bos >= 0))
        return unsupported(w, "what it puts before a text");
    if (t->after.n > 1 || (t->after.n && t->after.at[0] != t->eos))
        return unsupported(w, "what it puts behind a text");
    w->out->bos = t->bos >= 0 || !t->before.n ? t->bos : t->before.at[0];
    w->out->eos = t->eos;
    w->out->unk = t->unk;
    w->out->pad = t->pad;
    w->out->add_bos = t->before.n > 0;
    w->out->add_eos = t->after.n > 0;
    return FORNAX_OK;
}

/* ---- Merges ------------------------------------------------------------------------------------ */

static int by_rank(const void *a, const void *b)
{
    uint32_t x = ((const fx_merge *)a)->rank, y = ((const fx_merge *)b)->rank;

    return (x > y) - (x < y);
}

/* The table in order of rank; *n of them. */
static fx_merge *sorted_merges(const writer *w, size_t *n)
{
    const fx_bpe *b = &w->t->bpe;
    fx_merge *out;

    *n = 0;
    for (size_t i = 0; i <= b->mask; i++)
        *n += b->merges[i].left >= 0;
    out = FX_ARENA_NEWN(w->a, fx_merge, *n + 1);
    if (!out)
        return NULL;
    *n = 0;
    for (size_t i = 0; i <= b->mask; i++)
        if (b->merges[i].left >= 0)
            out[(*n)++] = b->merges[i];
    qsort(out, *n, sizeof(*out), by_rank);
    return out;
}

/* "left right" each. */
static fx_status put_merges(writer *w)
{
    size_t n;
    const fx_merge *m = sorted_merges(w, &n);
    fx_str *lines = FX_ARENA_NEWN(w->a, fx_str, n + 1);

    if (!m || !lines)
        return no_room(w);
    for (size_t i = 0; i < n; i++) {
        fx_str l = fx_vocab_text(&w->t->vocab, m[i].left), r = fx_vocab_text(&w->t->vocab, m[i].right);
        char *p = fx_arena_alloc(w->a, l.n + r.n + 1);

        if (!p)
            return no_room(w);
        memcpy(p, l.p, l.n);
        p[l.n] = ' ';
        memcpy(p + l.n + 1, r.p, r.n);
        lines[i] = fx_str_n(p, l.n + r.n + 1);
    }
    w->out->merges = lines;
    w->out->n_merges = n;
    return FORNAX_OK;
}

static fx_status put_scores(writer *w)
{
    size_t n;
    const fx_merge *m = sorted_merges(w, &n);
    float *scores = FX_ARENA_NEWN(w->a, float, w->out->n + 1);

    if (!m || !scores)
        return no_room(w);
    for (size_t i = 0; i < w->out->n; i++)
        scores[i] = NEVER_MERGED;
    for (size_t i = n; i-- > 0;)                 /* the first merge's rank stays */
        scores[m[i].merged] = -(float)m[i].rank;
    w->out->scores = scores;
    return FORNAX_OK;
}

/* ---- Byte-level BPE -------------------------------------------------------------------------------- */

/* The pattern of a step, p NULL: it is something else. */
static fx_str pattern_of(const fx_pretok_step *s)
{
    if (s->cut != FX_CUT_ISOLATED || s->invert || s->prefix != FX_PREFIX_NEVER)
        return (fx_str){ NULL, 0 };
    if (s->kind == FX_PRETOK_CHARACTERS && s->is_match == fx_rune_is_numeric)
        return FX_STR("\\p{N}");
    return s->kind == FX_PRETOK_SPLIT && s->pattern ? fx_regex_source(s->pattern) : (fx_str){ NULL, 0 };
}

static fx_status put_pre(writer *w)
{
    const fx_tokenizer *t = w->t;
    fx_pretok_name traits = { .ignore_merges = t->bpe.ignore_merges, .nfc = t->n_norms == 1 };
    fx_str patterns[FX_STEPS_MAX];
    size_t n = t->n_cuts - 1;

    if (t->n_norms > 1 || (t->n_norms == 1 && t->norms[0].kind != FX_NORM_NFC))
        return unsupported(w, "its normalizer");
    for (size_t i = 0; i < n; i++) {
        patterns[i] = pattern_of(&t->cuts[i]);
        if (!patterns[i].p)
            return unsupported(w, "its pre_tokenizer");
    }
    w->out->pre = fx_pretok_name_of(patterns, n, &traits);
    return w->out->pre.n ? FORNAX_OK : unsupported(w, "its pre_tokenizer, for which there is no name,");
}

static fx_status write_gpt2(writer *w)
{
    w->out->model = FX_STR("gpt2");
    FX_TRY(put_pre(w));
    return put_merges(w);
}

/* ---- BPE with byte fallback --------------------------------------------------------------------------- */

/* Blanks become marks, perhaps one in front: by normalizing, by cutting, or as SentencePiece does. */
static fx_status read_marks(const writer *w, bool *prefix, bool *remove_extra)
{
    const fx_tokenizer *t = w->t;
    bool marked = false;

    for (size_t i = 0; i < t->n_norms; i++) {
        const fx_norm_step *s = &t->norms[i];

        if (s->kind == FX_NORM_PREPEND && fx_str_is(s->content, MARK))
            *prefix = true;
        else if (s->kind == FX_NORM_REPLACE && !s->pattern && fx_str_is(s->literal, " ") && fx_str_is(s->content, MARK))
            marked = true;
        else if (s->kind == FX_NORM_SENTENCEPIECE && !s->suffix && !s->charsmap.n_units && fx_str_is(s->content, MARK)) {
            marked = true;
            *prefix = *prefix || s->prefix;
            *remove_extra = s->remove_extra;
        } else
            return unsupported(w, "its normalizer");
    }
    for (size_t i = 0; i < t->n_cuts; i++) {
        if (t->cuts[i].kind != FX_PRETOK_METASPACE || !fx_str_is(t->cuts[i].literal, MARK) || t->cuts[i].split)
            return unsupported(w, "its pre_tokenizer");
        marked = true;
        *prefix = *prefix || t->cuts[i].prefix != FX_PREFIX_NEVER;
    }
    return marked ? FORNAX_OK : unsupported(w, "a vocabulary without marks for blanks");
}

static fx_status write_llama(writer *w)
{
    bool prefix = false, remove_extra = false;
    int32_t *types = (int32_t *)(uintptr_t)w->out->types;

    if (!w->t->bpe.byte_fallback)
        return unsupported(w, "BPE of characters without byte_fallback");
    FX_TRY(read_marks(w, &prefix, &remove_extra));
    w->out->model = FX_STR("llama");
    w->out->pre = FX_STR("default");
    w->out->add_space_prefix = prefix;
    w->out->remove_extra = remove_extra;
    for (int i = 0; i < 256; i++)
        if (w->t->bpe.fallback[i] >= 0)
            types[w->t->bpe.fallback[i]] = FX_PIECE_BYTE;
    if (w->t->unk >= 0)
        types[w->t->unk] = FX_PIECE_UNKNOWN;
    return put_scores(w);
}

fx_status fx_tokenizer_to_gguf(const fx_tokenizer *t, size_t n_ids, fx_arena *a, fx_gguf_vocab *out, fx_error *err)
{
    writer w = { t, a, out, err };
    bool bytes = t->n_cuts && t->cuts[t->n_cuts - 1].kind == FX_PRETOK_BYTE_LEVEL;

    *out = (fx_gguf_vocab){ .pre = FX_STR(""), .charsmap = FX_STR(""), .eot = -1, .eom = -1, .cls = -1, .sep = -1,
                            .add_space_prefix = -1, .remove_extra = -1 };
    if (t->model != FX_MODEL_BPE || t->bpe.prefix.n || t->bpe.suffix.n)
        return unsupported(&w, "a model other than BPE");
    FX_TRY(put_tokens(&w, n_ids));
    FX_TRY(put_around(&w));
    return bytes ? write_gpt2(&w) : write_llama(&w);
}
