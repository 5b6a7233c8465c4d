/* wordpiece.c - models that look words up: WordPiece takes the longest piece that
 * the vocabulary has, again and again; WordLevel takes whole words. */
#include "base/text.h"
#include "text/tokenizer_impl.h"

static bool unknown(const fx_tokenizer *t, fx_ids *ids)
{
    return t->wordpiece.unk < 0 || fx_ids_push(ids, t->wordpiece.unk);
}

/* The longest piece of word[begin..] that is a token; *end where it ends. */
static int32_t longest_piece(const fx_tokenizer *t, fx_str word, size_t begin, size_t *end, fx_buf *text)
{
    size_t prefix, n = FX_MIN(word.n - begin, t->wordpiece.longest);

    fx_buf_clear(text);
    if (begin)
        fx_buf_str(text, t->wordpiece.prefix);
    prefix = text->n;
    fx_buf_add(text, word.p + begin, n);
    for (; n > 0 && !text->failed; n--) {
        int32_t id;

        if (begin + n < word.n && ((unsigned char)word.p[begin + n] & 0xc0) == 0x80)
            continue;                           /* within a character */
        id = fx_vocab_find(&t->vocab, fx_str_n(text->p, prefix + n));
        if (id >= 0) {
            *end = begin + n;
            return id;
        }
    }
    return -1;
}

bool fx_wordpiece_encode(const fx_tokenizer *t, fx_str word, fx_bpe_work *w, fx_ids *ids)
{
    size_t n_before = ids->n;

    if (fx_utf8_count(word) > t->wordpiece.longest_word)
        return unknown(t, ids);
    for (size_t i = 0; i < word.n;) {
        int32_t id = longest_piece(t, word, i, &i, &w->text);

        if (w->text.failed)
            return false;
        if (id < 0) {                           /* then the whole word is unknown */
            ids->n = n_before;
            return unknown(t, ids);
        }
        if (!fx_ids_push(ids, id))
            return false;
    }
    return true;
}

bool fx_wordlevel_encode(const fx_tokenizer *t, fx_str word, fx_bpe_work *w, fx_ids *ids)
{
    int32_t id = fx_vocab_find(&t->vocab, word);

    (void)w;
    return id >= 0 ? fx_ids_push(ids, id) : unknown(t, ids);
}
