/* tokenizer_spm.c - SentencePiece's model as steps of a tokenizer.
 *
 * Its normalizer becomes one step.  BPE merges by score; pieces that users defined are
 * matched whole before that.  In Unigram they take part in the search with a score that
 * favours them. */
#include <math.h>

#include "text/tokenizer_impl.h"

#define SPACE "\xe2\x96\x81"

static fx_status no_room(fx_error *err)
{
    return fx_nomem(err, "a tokenizer");
}

static fx_status set_normalizer(fx_tokenizer *t, const fx_spm *m, fx_error *err)
{
    fx_norm_step *s = fx_tokenizer_add_norm(t, FX_NORM_SENTENCEPIECE);
    fx_pretok_step *cut;
    fx_str map;

    FX_ASSERT(s);
    map = fx_tokenizer_keep(t, m->charsmap);
    if (!map.p)
        return no_room(err);
    s->content = m->escape ? FX_STR(SPACE) : FX_STR(" ");
    s->prefix = m->prefix && !m->suffix && !m->first_only;
    s->suffix = m->prefix && m->suffix;
    s->remove_extra = m->remove_extra;
    if (m->prefix && m->first_only) {
        cut = fx_tokenizer_add_cut(t, FX_PRETOK_METASPACE);
        FX_ASSERT(cut);
        cut->literal = s->content;
        cut->prefix = FX_PREFIX_FIRST;
        cut->cut = FX_CUT_MERGED_WITH_NEXT;
    }
    return fx_charsmap_init(&s->charsmap, map, m->where, err);
}

static void set_decoder(fx_tokenizer *t, const fx_spm *m)
{
    fx_decoder *d = &t->decoder;

    if (m->escape)
        d->edits[d->n_edits++] = (fx_token_edit){ .kind = FX_EDIT_REPLACE, .literal = FX_STR(SPACE), .content = FX_STR(" ") };
    d->byte_fallback = m->byte_fallback;
    d->by_character = true;
    d->joined = true;
    if (m->prefix || m->remove_extra) {
        d->strip = FX_STR(" ");
        d->strip_start = m->suffix ? 0 : m->remove_extra ? SIZE_MAX : 1;
        d->strip_stop = m->suffix ? 1 : 0;
    }
}

static fx_status set_bpe(fx_tokenizer *t, const fx_spm *m, fx_error *err)
{
    bool *usable = fx_mem_array(t->mem, t->vocab.n + 1, sizeof(*usable));
    fx_status st;

    if (!usable)
        return no_room(err);
    for (size_t i = 0; i < t->vocab.n; i++)
        usable[i] = m->types[i] == FX_PIECE_NORMAL || m->types[i] == FX_PIECE_USER;
    t->model = FX_MODEL_BPE;
    t->bpe.byte_fallback = m->byte_fallback;
    t->bpe.fuse_unk = true;
    t->bpe.unk = t->unk;
    t->bpe.unk_missing = t->unk < 0;
    st = fx_bpe_init_scored(&t->bpe, &t->arena, &t->vocab, m->scores, usable, m->where, err);
    fx_mem_free(t->mem, usable, (t->vocab.n + 1) * sizeof(*usable));
    return st;
}

/* A piece that users defined counts as if each of its bytes had the best score of all. */
static void score_pieces(const fx_tokenizer *t, const fx_spm *m, fx_scored *pieces, float *lowest)
{
    float highest = -INFINITY;

    *lowest = INFINITY;
    for (size_t i = 0; i < t->vocab.n; i++) {
        if (m->types[i] != FX_PIECE_NORMAL)
            continue;
        highest = FX_MAX(highest, m->scores[i]);
        *lowest = FX_MIN(*lowest, m->scores[i]);
    }
    if (*lowest > highest)                          /* none */
        *lowest = highest = 0;
    for (size_t i = 0; i < t->vocab.n; i++) {
        bool user = m->types[i] == FX_PIECE_USER;
        float bonus = (float)fx_vocab_text(&t->vocab, (int32_t)i).n * highest - 0.1f;

        pieces[i] = (fx_scored){ user ? bonus : m->scores[i], user || m->types[i] == FX_PIECE_NORMAL };
    }
}

static fx_status set_unigram(fx_tokenizer *t, const fx_spm *m, fx_error *err)
{
    fx_scored *pieces = fx_mem_array(t->mem, t->vocab.n + 1, sizeof(*pieces));
    fx_unigram *u = &t->unigram;
    float lowest;
    fx_status st;

    if (!pieces)
        return no_room(err);
    t->model = FX_MODEL_UNIGRAM;
    u->unk = t->unk;
    u->byte_fallback = m->byte_fallback;
    u->single = true;
    score_pieces(t, m, pieces, &lowest);
    st = fx_unigram_init(u, &t->arena, &t->vocab, pieces, t->vocab.n, (double)lowest, m->where, err);
    fx_mem_free(t->mem, pieces, (t->vocab.n + 1) * sizeof(*pieces));
    return st;
}

fx_status fx_tokenizer_set_spm(fx_tokenizer *t, const fx_spm *m, fx_error *err)
{
    FX_TRY(set_normalizer(t, m, err));
    set_decoder(t, m);
    return m->bpe ? set_bpe(t, m, err) : set_unigram(t, m, err);
}
