/* tokenizer.c - building's last step, encoding, and what one asks of tokens.
 *
 * Text that isn't UTF-8 is encoded as if each ill-formed piece (a maximal subpart,
 * as Python's "replace" makes them) were U+FFFD: the reference can't be given
 * such bytes any other way. */
#include "text/tokenizer_impl.h"

#include "base/text.h"

const char fx_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

void fx_ids_init(fx_ids *ids, const fx_mem *mem)
{
    *ids = (fx_ids){ .mem = mem };
}

void fx_ids_done(fx_ids *ids)
{
    FX_VEC_FREE(ids, ids->mem);
}

bool fx_ids_push(fx_ids *ids, int32_t id)
{
    return FX_VEC_PUSH(ids, ids->mem, id);
}

/* ---- Making one ------------------------------------------------------------------ */

fx_tokenizer *fx_tokenizer_new(const fx_mem *mem)
{
    fx_tokenizer *t = fx_mem_zalloc(mem, sizeof(*t));

    if (!t)
        return NULL;
    t->mem = mem;
    fx_arena_init(&t->arena, mem, 0);
    fx_buf_init(&t->text_block, mem);
    t->bos = t->eos = t->unk = t->pad = -1;
    t->bpe.unk = t->wordpiece.unk = t->unigram.unk = -1;
    return t;
}

void fx_tokenizer_free(fx_tokenizer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_norms; i++)
        fx_regex_free(t->norms[i].pattern);
    for (size_t i = 0; i < t->n_cuts; i++)
        fx_regex_free(t->cuts[i].pattern);
    for (size_t i = 0; i < t->decoder.n_edits; i++)
        fx_regex_free(t->decoder.edits[i].pattern);
    fx_unigram_done(&t->unigram);
    FX_VEC_FREE(&t->before, t->mem);
    FX_VEC_FREE(&t->after, t->mem);
    fx_buf_done(&t->text_block);
    fx_arena_done(&t->arena);
    fx_mem_free(t->mem, t, sizeof(*t));
}

fx_str fx_tokenizer_keep(fx_tokenizer *t, fx_str s)
{
    return fx_str_n(fx_arena_strdup(&t->arena, s.n ? s.p : "", s.n), s.n);
}

fx_norm_step *fx_tokenizer_add_norm(fx_tokenizer *t, fx_norm_kind kind)
{
    if (t->n_norms == FX_STEPS_MAX)
        return NULL;
    t->norms[t->n_norms] = (fx_norm_step){ .kind = kind };
    return &t->norms[t->n_norms++];
}

fx_pretok_step *fx_tokenizer_add_cut(fx_tokenizer *t, fx_pretok_kind kind)
{
    if (t->n_cuts == FX_STEPS_MAX)
        return NULL;
    t->cuts[t->n_cuts] = (fx_pretok_step){ .kind = kind };
    return &t->cuts[t->n_cuts++];
}

/* The content as it is matched: normalized, if the token says so. */
static fx_status normalize_added(fx_tokenizer *t, fx_added *a, fx_marked *out, fx_marked *work, fx_error *err)
{
    if (!a->normalized || a->exact || !t->n_norms)
        return FORNAX_OK;
    FX_TRY(fx_normalize(t->norms, t->n_norms, a->content, NULL, out, work, err));
    if (fx_str_eq(fx_buf_view(&out->text), a->content))
        return FORNAX_OK;
    a->content = fx_tokenizer_keep(t, fx_buf_view(&out->text));
    return a->content.p ? FORNAX_OK : fx_nomem(err, "added tokens");
}

/* Sorts the added tokens into the two sets; of several with one id the last counts. */
static fx_status split_added(fx_tokenizer *t, fx_error *err)
{
    fx_added *sets = FX_ARENA_NEWN(&t->arena, fx_added, t->n_added + 1);
    uint32_t *last = FX_ARENA_NEWN(&t->arena, uint32_t, t->vocab.n + 1);
    fx_marked out, work;
    size_t n_raw = 0, n_norm = 0;
    fx_status st = FORNAX_OK;

    if (!sets || !last)
        return fx_nomem(err, "added tokens");
    fx_marked_init(&out, t->mem, false);
    fx_marked_init(&work, t->mem, false);
    for (size_t i = 0; i < t->n_added; i++)
        last[t->added[i].id] = (uint32_t)i;
    for (size_t i = 0; i < t->n_added && st == FORNAX_OK; i++) {
        fx_added a = t->added[i];

        if (last[a.id] != i)
            continue;
        a.control = a.special || fx_added_looks_control(a.content);
        if (a.special)
            t->flags[a.id] |= FX_TOKEN_SPECIAL;
        st = normalize_added(t, &a, &out, &work, err);
        if (a.normalized)
            sets[t->n_added - ++n_norm] = a;    /* from the back */
        else
            sets[n_raw++] = a;
    }
    fx_added_set_init(&t->raw_set, sets, n_raw);
    fx_added_set_init(&t->norm_set, sets + t->n_added - n_norm, n_norm);
    fx_marked_done(&out);
    fx_marked_done(&work);
    return st;
}

/* A byte-level BPE whose words are cut before they enter the alphabet can skip the
 * alphabet: the model then looks up bytes. */
void fx_tokenizer_choose_bytes(fx_tokenizer *t)
{
    fx_pretok_step *last = t->n_cuts ? &t->cuts[t->n_cuts - 1] : NULL;

    if (t->model != FX_MODEL_BPE || t->bpe.prefix.n || t->bpe.suffix.n || !last || last->kind != FX_PRETOK_BYTE_LEVEL)
        return;
    for (int i = 0; i < 256; i++) {
        char text[4];
        fx_str s = { text, fx_utf8_put(text, fx_bytelevel_rune((unsigned char)i)) };

        if (fx_vocab_find(&t->vocab, s) < 0)
            return;
    }
    last->raw = true;
    t->bpe.bytes = true;
}

fx_status fx_tokenizer_finish(fx_tokenizer *t, fx_error *err)
{
    FX_TRY(split_added(t, err));
    return fx_tokenizer_make_texts(t, err);
}

/* ---- Encoding -------------------------------------------------------------------------- */

typedef struct encoder {
    const fx_tokenizer *t;
    fx_ids *ids;
    fx_error *err;
    fx_pretok words;
    fx_bpe_work work;
    fx_marked norm[2];
    fx_buf clean;               /* the text with U+FFFD for what isn't UTF-8 */
    FX_VEC(fx_span) spans;      /* the data spans in it */
    char *marks;                /* one a byte of the text: 1 is data; NULL if nobody asks */
    size_t n_marks;
    bool specials;
} encoder;

static bool unigram_encode(const fx_tokenizer *t, fx_str word, fx_bpe_work *w, fx_ids *ids)
{
    return fx_unigram_encode(&t->unigram, &t->vocab, word, w, ids);
}

static bool (*const model_encode[FX_MODEL_KINDS])(const fx_tokenizer *t, fx_str word, fx_bpe_work *w, fx_ids *ids) = {
    [FX_MODEL_WORDPIECE] = fx_wordpiece_encode,
    [FX_MODEL_WORDLEVEL] = fx_wordlevel_encode,
    [FX_MODEL_UNIGRAM] = unigram_encode,
};

static fx_status encode_word(void *user, fx_str word, fx_error *err)
{
    encoder *e = user;
    const fx_tokenizer *t = e->t;
    bool ok = t->model == FX_MODEL_BPE ? fx_bpe_encode(&t->bpe, &t->vocab, word, &e->work, e->ids)
                                       : model_encode[t->model](t, word, &e->work, e->ids);

    if (e->work.unknown)
        return fx_fail(err, FORNAX_EFORMAT, "text: a character has no token, and the tokenizer's unk_token is not in its vocabulary");
    return ok ? FORNAX_OK : fx_nomem(err, "token ids");
}

/* Calls 'rest' for what lies between the set's tokens, in order. */
static fx_status each_part(encoder *e, const fx_added_set *set, fx_str text, const fx_data *data,
                           fx_status (*rest)(encoder *e, fx_str text, const fx_data *data, size_t begin, size_t end,
                                             bool at_start),
                           bool at_start)
{
    size_t from = 0, taken = 0;
    fx_added_match m;

    while (fx_added_next(set, text, data, e->specials, from, taken, &m)) {
        if (taken < m.begin)
            FX_TRY(rest(e, text, data, taken, m.begin, at_start && taken == 0));
        if (!fx_ids_push(e->ids, m.token->id))
            return fx_nomem(e->err, "token ids");
        taken = m.end;
        from = m.next;
    }
    return taken < text.n ? rest(e, text, data, taken, text.n, at_start && taken == 0) : FORNAX_OK;
}

static fx_status cut_part(encoder *e, fx_str text, const fx_data *data, size_t begin, size_t end, bool at_start)
{
    (void)data;
    return fx_pretok_run(&e->words, fx_str_n(text.p + begin, end - begin), at_start);
}

static fx_status normalize_part(encoder *e, fx_str text, const fx_data *data, size_t begin, size_t end, bool at_start)
{
    const fx_tokenizer *t = e->t;
    fx_str part = { text.p + begin, end - begin };
    fx_data part_data = { .marks = data->marks ? data->marks + begin : NULL };

    if (!t->n_norms && !t->norm_set.n)
        return cut_part(e, part, &part_data, 0, part.n, at_start);
    if (t->n_norms) {
        FX_TRY(fx_normalize(t->norms, t->n_norms, part, part_data.marks, &e->norm[0], &e->norm[1], e->err));
        part = fx_buf_view(&e->norm[0].text);
        part_data.marks = e->norm[0].marked ? e->norm[0].marks.p : NULL;
    }
    return each_part(e, &t->norm_set, part, &part_data, cut_part, at_start);
}

/* Replaces ill-formed bytes, moving the spans' ends along: an end within a piece
 * moves outward. */
static bool clean_text(encoder *e, fx_str *text)
{
    size_t n_ends = 2 * e->spans.n, k = 0;

    for (size_t i = 0; i < text->n;) {
        size_t next = i, before = e->clean.n;
        bool bad = fx_utf8_next(*text, &next) == FX_BAD_RUNE;

        fx_buf_add(&e->clean, bad ? "\xef\xbf\xbd" : text->p + i, bad ? 3 : next - i);
        for (; k < n_ends; k++) {
            fx_span *s = &e->spans.at[k / 2];
            size_t *end = k % 2 ? &s->end : &s->begin;

            if (*end >= next)
                break;
            *end = k % 2 && *end > i ? e->clean.n : before;
        }
        i = next;
    }
    for (; k < n_ends; k++)
        *(k % 2 ? &e->spans.at[k / 2].end : &e->spans.at[k / 2].begin) = e->clean.n;
    *text = fx_buf_view(&e->clean);
    return !e->clean.failed;
}

static fx_status take_spans(encoder *e, fx_str text, const fx_span *data, size_t n_data)
{
    size_t at = 0;

    for (size_t i = 0; i < n_data; i++) {
        if (data[i].begin < at || data[i].end < data[i].begin || data[i].end > text.n)
            return fx_fail(e->err, FORNAX_EARG, "data spans: expected ascending ranges of the text's %zu bytes, found %zu..%zu",
                           text.n, data[i].begin, data[i].end);
        at = data[i].end;
        if (data[i].begin < data[i].end && !FX_VEC_PUSH(&e->spans, e->t->mem, data[i]))
            return fx_nomem(e->err, "data spans");
    }
    return FORNAX_OK;
}

/* Marks are for tokens matched after normalization, which may move everything. */
static bool mark_data(encoder *e, fx_str text)
{
    bool needed = e->spans.n && e->t->norm_set.n;

    fx_marked_init(&e->norm[0], e->t->mem, needed);
    fx_marked_init(&e->norm[1], e->t->mem, needed);
    if (!needed)
        return true;
    e->n_marks = text.n;
    e->marks = fx_mem_zalloc(e->t->mem, text.n);
    for (size_t i = 0; e->marks && i < e->spans.n; i++)
        memset(e->marks + e->spans.at[i].begin, 1, e->spans.at[i].end - e->spans.at[i].begin);
    return e->marks != NULL;
}

static fx_status encode_all(encoder *e, fx_str text, unsigned flags)
{
    const fx_tokenizer *t = e->t;
    fx_data data = { 0 };

    if (!fx_utf8_valid(text) && !clean_text(e, &text))
        return fx_nomem(e->err, "a text");
    if (!mark_data(e, text))
        return fx_nomem(e->err, "a text");
    data = (fx_data){ e->spans.at, e->spans.n, e->marks };
    for (size_t i = 0; i < t->before.n && (flags & FX_ENCODE_ADD); i++)
        if (!fx_ids_push(e->ids, t->before.at[i]))
            return fx_nomem(e->err, "token ids");
    FX_TRY(each_part(e, &t->raw_set, text, &data, normalize_part, true));
    for (size_t i = 0; i < t->after.n && (flags & FX_ENCODE_ADD); i++)
        if (!fx_ids_push(e->ids, t->after.at[i]))
            return fx_nomem(e->err, "token ids");
    return FORNAX_OK;
}

fx_status fx_tokenizer_encode(const fx_tokenizer *t, fx_str text, const fx_span *data, size_t n_data, unsigned flags,
                              fx_ids *ids, fx_error *err)
{
    encoder e = { .t = t, .ids = ids, .err = err, .specials = (flags & FX_ENCODE_SPECIAL) != 0 };
    size_t n_before = ids->n;
    fx_status st;

    if (text.n > INT32_MAX / 4)             /* normalization and the alphabet may grow it */
        return fx_fail(err, FORNAX_EARG, "text: %zu bytes, limit %d", text.n, INT32_MAX / 4);
    fx_bpe_work_init(&e.work, t->mem);
    fx_buf_init(&e.clean, t->mem);
    st = fx_pretok_init(&e.words, t->mem, t->cuts, t->n_cuts, err);
    e.words.word = encode_word;
    e.words.user = &e;
    if (st == FORNAX_OK)
        st = take_spans(&e, text, data, n_data);
    if (st == FORNAX_OK)
        st = encode_all(&e, text, flags);
    if (st != FORNAX_OK)
        ids->n = n_before;
    fx_marked_done(&e.norm[0]);
    fx_marked_done(&e.norm[1]);
    fx_mem_free(t->mem, e.marks, e.n_marks);
    FX_VEC_FREE(&e.spans, t->mem);
    fx_pretok_done(&e.words, t->mem);
    fx_bpe_work_done(&e.work);
    fx_buf_done(&e.clean);
    return st;
}

/* ---- Tokens ------------------------------------------------------------------------------- */

size_t fx_tokenizer_size(const fx_tokenizer *t)
{
    return t->vocab.n;
}

fx_str fx_tokenizer_spelling(const fx_tokenizer *t, int32_t id)
{
    return fx_vocab_text(&t->vocab, id);
}

fx_str fx_tokenizer_bytes(const fx_tokenizer *t, int32_t id)
{
    fx_piece p;

    if (!fx_vocab_text(&t->vocab, id).p)
        return (fx_str){ NULL, 0 };
    p = t->texts[id];
    if (p.at & FX_TEXT_SPELLING)
        return fx_str_n(t->vocab.block + (p.at & ~FX_TEXT_SPELLING), p.n);
    return fx_str_n(t->text_block.p + p.at, p.n);
}

bool fx_tokenizer_special(const fx_tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->vocab.n && (t->flags[id] & FX_TOKEN_SPECIAL);
}

int32_t fx_tokenizer_find(const fx_tokenizer *t, fx_str spelling)
{
    return fx_vocab_find(&t->vocab, spelling);
}

int32_t fx_tokenizer_bos(const fx_tokenizer *t) { return t->bos; }
int32_t fx_tokenizer_eos(const fx_tokenizer *t) { return t->eos; }
int32_t fx_tokenizer_unk(const fx_tokenizer *t) { return t->unk; }
int32_t fx_tokenizer_pad(const fx_tokenizer *t) { return t->pad; }
