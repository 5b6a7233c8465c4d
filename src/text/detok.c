/* detok.c - from token ids back to text.
 *
 * texts[id] is made once: the spelling with the decoder's per-token changes, or
 * the bytes behind the alphabet.  A stream joins them and holds back what isn't
 * certain: the bytes of an unfinished character, blanks that may yet be stripped. */
#include "base/text.h"
#include "text/tokenizer_impl.h"

#define BAD "\xef\xbf\xbd"      /* U+FFFD */

/* ---- The texts ---------------------------------------------------------------------- */

void fx_replace_all(fx_buf *out, fx_str s, fx_str literal, fx_str content)
{
    size_t at = 0, found;

    while (literal.n && (found = fx_str_find(s, literal, at)) != FX_STR_NONE) {
        fx_buf_add(out, s.p + at, found - at);
        fx_buf_str(out, content);
        at = found + literal.n;
    }
    fx_buf_add(out, s.p + at, s.n - at);
}

/* <0x41>: 0x41, else -1. */
static int byte_token(fx_str s)
{
    static const char hex[] = "0123456789abcdef";
    int x = 0;

    if (s.n != 6 || memcmp(s.p, "<0x", 3) || s.p[5] != '>')
        return -1;
    for (int i = 3; i < 5; i++) {
        char c = s.p[i] >= 'A' && s.p[i] <= 'F' ? (char)(s.p[i] + 32) : s.p[i];
        const char *at = c ? strchr(hex, c) : NULL;

        if (!at)
            return -1;
        x = x * 16 + (int)(at - hex);
    }
    return x;
}

/* BERT's blanks before punctuation and in contractions, within out[from..]. */
static void clean_up(fx_buf *out, size_t from)
{
    static const struct { const char *find, *put; } rules[] = {
        { " .", "." }, { " ?", "?" }, { " !", "!" }, { " ,", "," }, { " ' ", "'" }, { " n't", "n't" },
        { " 'm", "'m" }, { " do not", " don't" }, { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };

    if (out->failed)
        return;
    for (size_t r = 0; r < FX_COUNT(rules); r++) {
        size_t n_find = strlen(rules[r].find), n_put = strlen(rules[r].put), to = from;

        for (size_t i = from; i < out->n;) {
            if (out->n - i >= n_find && memcmp(out->p + i, rules[r].find, n_find) == 0) {
                memmove(out->p + to, rules[r].put, n_put);      /* never longer */
                to += n_put;
                i += n_find;
            } else {
                out->p[to++] = out->p[i++];
            }
        }
        out->n = to;
        out->p[to] = 0;
    }
}

static void strip_token(fx_buf *b, const fx_token_edit *e)
{
    size_t cut = 0, n = e->literal.n;

    for (size_t i = 0; i < e->start && b->n - cut >= n && memcmp(b->p + cut, e->literal.p, n) == 0; i++)
        cut += n;
    memmove(b->p, b->p + cut, b->n - cut);
    b->n -= cut;
    for (size_t i = 0; i < e->stop && b->n >= n && memcmp(b->p + b->n - n, e->literal.p, n) == 0; i++)
        b->n -= n;
    b->p[b->n] = 0;
}

static fx_status edit_token(const fx_token_edit *e, fx_match *m, fx_buf *b, fx_buf *work, fx_error *err)
{
    fx_scan scan = FX_SCAN_START;
    fx_buf t;
    size_t at = 0;

    if (e->kind == FX_EDIT_STRIP) {
        if (fx_buf_reserve(b, 0))
            strip_token(b, e);
        return FORNAX_OK;
    }
    fx_buf_clear(work);
    if (!e->pattern) {
        fx_replace_all(work, fx_buf_view(b), e->literal, e->content);
    } else {
        for (;;) {
            FX_TRY(fx_regex_scan(e->pattern, m, fx_buf_view(b), &scan, err));
            if (!scan.found)
                break;
            fx_buf_add(work, b->p + at, scan.begin - at);
            fx_buf_str(work, e->content);
            at = scan.end;
        }
        fx_buf_add(work, fx_buf_view(b).p + at, b->n - at);
    }
    t = *b;
    *b = *work;
    *work = t;
    return FORNAX_OK;
}

static fx_status edited_text(fx_tokenizer *t, fx_str spelling, fx_match **m, fx_buf *b, fx_buf *work, fx_error *err)
{
    const fx_decoder *d = &t->decoder;

    fx_buf_clear(b);
    if (d->first == FX_FIRST_WORDPIECE && !fx_str_starts(spelling, d->first_text)) {
        fx_buf_putc(b, ' ');
        fx_buf_str(b, spelling);
    } else if (d->first == FX_FIRST_WORDPIECE) {
        fx_buf_add(b, spelling.p + d->first_text.n, spelling.n - d->first_text.n);
    } else {
        fx_buf_str(b, spelling);
    }
    if (d->cleanup)
        clean_up(b, 0);
    for (size_t i = 0; i < d->n_edits; i++)
        FX_TRY(edit_token(&d->edits[i], m[i], b, work, err));
    return b->failed || work->failed ? fx_nomem(err, "token texts") : FORNAX_OK;
}

/* One token's text, made from 'source', into the block, unless it is the spelling itself. */
static fx_status make_text(fx_tokenizer *t, int32_t id, fx_str source, fx_match **m, fx_buf *b, fx_buf *work,
                           fx_error *err)
{
    const fx_decoder *d = &t->decoder;
    fx_str spelling = fx_vocab_text(&t->vocab, id);
    int byte = d->byte_fallback ? byte_token(source) : -1;
    size_t n;

    t->texts[id] = (fx_piece){ t->vocab.pieces[id].at | FX_TEXT_SPELLING, (uint32_t)spelling.n };
    if (t->flags[id] & FX_TOKEN_RAW)
        return FORNAX_OK;
    fx_buf_clear(b);
    if (byte >= 0) {
        t->flags[id] |= FX_TOKEN_BYTE;
        fx_buf_putc(b, (char)byte);
    } else if (d->byte_level) {
        if (!fx_buf_reserve(b, source.n))
            return fx_nomem(err, "token texts");
        n = fx_bytelevel_read(b->p, source);
        if (n == SIZE_MAX)                      /* not all of the alphabet: as it is */
            fx_buf_str(b, source);
        else
            b->n = n;
    } else {
        FX_TRY(edited_text(t, source, m, b, work, err));
    }
    if (b->n == spelling.n && memcmp(b->p, spelling.p, b->n) == 0)
        return FORNAX_OK;
    t->texts[id] = (fx_piece){ (uint32_t)t->text_block.n, (uint32_t)b->n };
    fx_buf_str(&t->text_block, fx_buf_view(b));
    if (t->text_block.n >= FX_TEXT_SPELLING)
        return fx_fail(err, FORNAX_EUNSUP, "tokens: expected at most 2 GiB of text");
    return t->text_block.failed || b->failed ? fx_nomem(err, "token texts") : FORNAX_OK;
}

/* Tokens matched in their normalized form are decoded in it too. */
static fx_status make_normalized_texts(fx_tokenizer *t, fx_match **m, fx_buf *b, fx_buf *work, fx_error *err)
{
    for (size_t i = 0; i < t->norm_set.n; i++)
        if (!fx_str_eq(t->norm_set.at[i].content, fx_vocab_text(&t->vocab, t->norm_set.at[i].id)))
            FX_TRY(make_text(t, t->norm_set.at[i].id, t->norm_set.at[i].content, m, b, work, err));
    return FORNAX_OK;
}

fx_status fx_tokenizer_make_texts(fx_tokenizer *t, fx_error *err)
{
    fx_match *m[FX_COUNT(t->decoder.edits)] = { 0 };
    fx_buf b, work;
    fx_status st = FORNAX_OK;

    fx_buf_init(&b, t->mem);
    fx_buf_init(&work, t->mem);
    t->texts = FX_ARENA_NEWN(&t->arena, fx_piece, t->vocab.n + 1);
    if (!t->texts || !fx_buf_reserve(&t->text_block, t->vocab.block_n))
        st = fx_nomem(err, "token texts");
    for (size_t i = 0; i < t->decoder.n_edits && st == FORNAX_OK; i++)
        if (t->decoder.edits[i].pattern && !(m[i] = fx_match_new(t->decoder.edits[i].pattern, t->mem)))
            st = fx_nomem(err, "token texts");
    for (size_t i = 0; i < t->vocab.n && st == FORNAX_OK; i++)
        if (t->vocab.pieces[i].at != FX_NO_TOKEN)
            st = make_text(t, (int32_t)i, fx_vocab_text(&t->vocab, (int32_t)i), m, &b, &work, err);
    if (st == FORNAX_OK)
        st = make_normalized_texts(t, m, &b, &work, err);
    for (size_t i = 0; i < t->decoder.n_edits; i++)
        fx_match_free(m[i]);
    fx_buf_done(&b);
    fx_buf_done(&work);
    return st;
}

/* ---- A stream of tokens --------------------------------------------------------------- */

void fx_detok_init(fx_detok *d, const fx_tokenizer *t, bool skip_special)
{
    *d = (fx_detok){ .t = t, .skip_special = skip_special, .first = true, .strip = t->decoder.strip_start };
}

/* Text that is whole characters, through the stripping of both ends. */
static void put_text(fx_detok *d, fx_str s, fx_buf *out)
{
    const fx_decoder *dec = &d->t->decoder;
    fx_str c = dec->strip;
    size_t trailing = 0;

    if (!c.n) {
        fx_buf_str(out, s);
        return;
    }
    for (; d->strip > 0 && s.n; d->strip--) {
        if (!fx_str_starts(s, c)) {
            d->strip = 0;
            break;
        }
        s = fx_str_n(s.p + c.n, s.n - c.n);
    }
    while (trailing < dec->strip_stop && s.n >= (trailing + 1) * c.n &&
           memcmp(s.p + s.n - (trailing + 1) * c.n, c.p, c.n) == 0)
        trailing++;
    if (s.n > trailing * c.n) {                 /* something else: what was held stays */
        for (; d->held > 0; d->held--)
            fx_buf_str(out, c);
        fx_buf_add(out, s.p, s.n - trailing * c.n);
    }
    for (d->held += trailing; d->held > dec->strip_stop; d->held--)
        fx_buf_str(out, c);
}

/* The tail as bytes that will never be a character. */
static void drop_tail(fx_detok *d, fx_buf *out)
{
    size_t n = d->t->decoder.byte_fallback ? d->n_tail : d->n_tail > 0;

    for (d->n_tail = 0; n > 0; n--)
        put_text(d, FX_STR(BAD), out);
}

/* One more byte of a character in the tail. */
static void put_byte(fx_detok *d, unsigned char byte, fx_buf *out)
{
    d->tail[d->n_tail++] = byte;
    while (d->n_tail) {
        fx_str tail = { (const char *)d->tail, d->n_tail };
        size_t used = 0, bad;
        uint32_t r;

        if (fx_utf8_open_tail(tail) == d->n_tail)
            return;
        r = fx_utf8_next(tail, &used);
        if (r != FX_BAD_RUNE)
            put_text(d, fx_str_n(tail.p, used), out);
        else
            for (bad = d->t->decoder.byte_fallback ? used : 1; bad > 0; bad--)
                put_text(d, FX_STR(BAD), out);
        d->n_tail -= used;
        memmove(d->tail, d->tail + used, d->n_tail);
    }
}

/* Bytes of a byte-level stream: characters may begin in one token and end in another. */
static void put_bytes(fx_detok *d, fx_str s, fx_buf *out)
{
    size_t i = 0, open;
    fx_str whole;

    while (d->n_tail && i < s.n)
        put_byte(d, (unsigned char)s.p[i++], out);
    s = fx_str_n(s.p + i, s.n - i);
    open = fx_utf8_open_tail(s);
    whole = fx_str_n(s.p, s.n - open);
    if (fx_utf8_valid(whole)) {
        put_text(d, whole, out);
        i = whole.n;
    } else {
        i = 0;
    }
    while (i < s.n)
        put_byte(d, (unsigned char)s.p[i++], out);
}

/* The first token's text where it differs from what it would be later. */
static void put_first(fx_detok *d, int32_t id, fx_buf *out)
{
    const fx_decoder *dec = &d->t->decoder;
    fx_str spelling = fx_tokenizer_spelling(d->t, id);
    size_t from = out->n;

    if (dec->first == FX_FIRST_METASPACE) {
        fx_replace_all(out, spelling, dec->first_text, FX_STR(""));
    } else {
        fx_buf_str(out, spelling);
        if (dec->cleanup)
            clean_up(out, from);
    }
}

void fx_detok_push(fx_detok *d, int32_t id, fx_buf *out)
{
    const fx_decoder *dec = &d->t->decoder;
    fx_str text = fx_tokenizer_bytes(d->t, id);
    bool first = d->first;

    if (!text.p || (d->skip_special && fx_tokenizer_special(d->t, id)))
        return;
    d->first = false;
    if (dec->byte_level) {
        put_bytes(d, text, out);
        return;
    }
    if (d->t->flags[id] & FX_TOKEN_BYTE) {
        put_byte(d, (unsigned char)text.p[0], out);
        return;
    }
    drop_tail(d, out);
    if (dec->join_space && !first)
        fx_buf_putc(out, ' ');
    if (first && dec->first != FX_FIRST_SAME)
        put_first(d, id, out);
    else
        put_text(d, text, out);
}

void fx_detok_flush(fx_detok *d, fx_buf *out)
{
    drop_tail(d, out);
    d->held = 0;
}

/* ---- All at once -------------------------------------------------------------------------- */

/* A run of byte tokens: text if the whole run is UTF-8, else U+FFFD for each. */
static void put_run(fx_detok *d, fx_buf *run, fx_buf *out)
{
    if (fx_utf8_valid(fx_buf_view(run)))
        put_text(d, fx_buf_view(run), out);
    else
        for (size_t i = 0; i < run->n; i++)
            put_text(d, FX_STR(BAD), out);
    out->failed |= run->failed;
    fx_buf_clear(run);
}

void fx_tokenizer_decode(const fx_tokenizer *t, const int32_t *ids, size_t n, bool skip_special, fx_buf *out)
{
    fx_detok d;
    fx_buf run;

    fx_detok_init(&d, t, skip_special);
    fx_buf_init(&run, t->mem);
    for (size_t i = 0; i < n; i++) {
        fx_str text = fx_tokenizer_bytes(t, ids[i]);

        if (!text.p || (skip_special && fx_tokenizer_special(t, ids[i])))
            continue;
        if (t->flags[ids[i]] & FX_TOKEN_BYTE && !t->decoder.by_character) {
            fx_buf_str(&run, text);
            d.first = false;
            continue;
        }
        if (run.n)
            put_run(&d, &run, out);
        fx_detok_push(&d, ids[i], out);
    }
    if (run.n)
        put_run(&d, &run, out);
    fx_buf_done(&run);
    fx_detok_flush(&d, out);
}
