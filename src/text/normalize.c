/* normalize.c - Unicode normalization, replacement and the other rewriting steps.
 *
 * Canonical order is made here, not by utf8proc, whose sort takes quadratic time
 * on a long run of combining marks; decomposition and composition are its own.
 * ASCII never changes under any of the four forms and never joins with what is
 * before it, so a text is normalized between one ASCII character and the next. */
#include "text/normalize.h"

#include <utf8proc.h>

#include "base/text.h"
#include "text/runes.h"
#include "text/vocab.h"

void fx_marked_init(fx_marked *m, const fx_mem *mem, bool marked)
{
    fx_buf_init(&m->text, mem);
    fx_buf_init(&m->marks, mem);
    m->marked = marked;
}

void fx_marked_done(fx_marked *m)
{
    fx_buf_done(&m->text);
    fx_buf_done(&m->marks);
}

static void put_mark(fx_marked *m, size_t n, char mark)
{
    if (!m->marked || !fx_buf_reserve(&m->marks, n))
        return;
    memset(m->marks.p + m->marks.n, mark, n);
    m->marks.n += n;
}

/* Bytes of the source as they are. */
static void keep(fx_marked *m, fx_str text, const char *marks, size_t begin, size_t end)
{
    if (begin == end)
        return;
    fx_buf_add(&m->text, text.p + begin, end - begin);
    if (m->marked)
        fx_buf_add(&m->marks, marks + begin, end - begin);
}

static char mark_of(const fx_marked *m, const char *marks, size_t begin, size_t end)
{
    return m->marked && begin < end && memchr(marks + begin, 1, end - begin) ? 1 : 0;
}

static void put_rune(fx_marked *m, uint32_t r, char mark)
{
    char b[4];
    size_t n = fx_utf8_put(b, r);

    fx_buf_add(&m->text, b, n);
    put_mark(m, n, mark);
}

/* ---- NFC and its like -------------------------------------------------------------- */

typedef FX_VEC(utf8proc_int32_t) runes;

static int combining_class(utf8proc_int32_t r)
{
    return utf8proc_get_property(r)->combining_class;
}

/* Stable, by combining class, at most 254 of them. */
static bool sort_marks(utf8proc_int32_t *at, size_t n, const fx_mem *mem)
{
    size_t count[257] = { 0 };
    utf8proc_int32_t *copy;

    if (n <= 16) {
        for (size_t i = 1; i < n; i++) {
            utf8proc_int32_t x = at[i];
            size_t j = i;

            for (; j > 0 && combining_class(at[j - 1]) > combining_class(x); j--)
                at[j] = at[j - 1];
            at[j] = x;
        }
        return true;
    }
    copy = fx_mem_array(mem, n, sizeof(*copy));
    if (!copy)
        return false;
    memcpy(copy, at, n * sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        count[combining_class(copy[i]) + 1]++;
    for (int c = 1; c < 257; c++)
        count[c] += count[c - 1];
    for (size_t i = 0; i < n; i++)
        at[count[combining_class(copy[i])]++] = copy[i];
    fx_mem_free(mem, copy, n * sizeof(*copy));
    return true;
}

static bool order_marks(runes *r, const fx_mem *mem)
{
    for (size_t i = 0; i < r->n;) {
        size_t begin = i;

        while (i < r->n && combining_class(r->at[i]))
            i++;
        if (i - begin > 1 && !sort_marks(r->at + begin, i - begin, mem))
            return false;
        i += i == begin;
    }
    return true;
}

static bool decompose(runes *r, const fx_mem *mem, fx_str text, int options)
{
    r->n = 0;
    for (size_t i = 0; i < text.n;) {
        utf8proc_int32_t part[32];
        uint32_t rune = fx_utf8_next(text, &i);
        int boundary = 0;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)rune, part, FX_COUNT(part),
                                                     (utf8proc_option_t)options, &boundary);

        if (n < 0 || n > (utf8proc_ssize_t)FX_COUNT(part)) {       /* none is that long */
            part[0] = (utf8proc_int32_t)rune;
            n = 1;
        }
        if (!FX_VEC_RESERVE(r, mem, (size_t)n))
            return false;
        memcpy(r->at + r->n, part, (size_t)n * sizeof(*part));
        r->n += (size_t)n;
    }
    return order_marks(r, mem);
}

/* One stretch: at most one ASCII character, then others. */
static bool put_stretch(fx_marked *out, runes *r, fx_str text, const char *marks, size_t begin, size_t end, int options)
{
    fx_str part = { text.p + begin, end - begin };
    size_t at = out->text.n;

    if (!decompose(r, out->text.mem, part, options))
        return false;
    if (options & UTF8PROC_COMPOSE) {
        utf8proc_ssize_t n = utf8proc_normalize_utf32(r->at, (utf8proc_ssize_t)r->n, (utf8proc_option_t)options);

        r->n = n < 0 ? r->n : (size_t)n;
    }
    for (size_t i = 0; i < r->n; i++) {
        char b[4];

        fx_buf_add(&out->text, b, fx_utf8_put(b, (uint32_t)r->at[i]));
    }
    if (!out->marked || out->text.failed)
        return true;
    if (out->text.n - at == part.n && memcmp(out->text.p + at, part.p, part.n) == 0) {
        fx_buf_add(&out->marks, marks + begin, part.n);
        return true;
    }
    if (out->text.n > at && (unsigned char)part.p[0] < 0x80 && out->text.p[at] == part.p[0]) {
        fx_buf_add(&out->marks, marks + begin++, 1);            /* the ASCII character took no part */
        at++;
    }
    put_mark(out, out->text.n - at, mark_of(out, marks, begin, end));
    return true;
}

static bool unicode_form(fx_marked *out, fx_str text, const char *marks, int options)
{
    runes r = { 0 };
    bool ok = true;

    for (size_t i = 0; i < text.n && ok;) {
        size_t begin = i, ascii;

        while (i < text.n && (unsigned char)text.p[i] < 0x80)
            i++;
        ascii = i == text.n || i == begin ? i : i - 1;
        keep(out, text, marks, begin, ascii);
        if (i == text.n)
            break;
        while (i < text.n && (unsigned char)text.p[i] >= 0x80)
            i++;
        ok = put_stretch(out, &r, text, marks, ascii, i, options | UTF8PROC_STABLE);
    }
    FX_VEC_FREE(&r, out->text.mem);
    return ok;
}

/* ---- The other steps ------------------------------------------------------------------- */

static void strip(const fx_norm_step *s, fx_marked *out, fx_str text, const char *marks)
{
    size_t begin = 0, end = text.n;

    while (s->left && begin < end) {
        size_t next = begin;

        if (!fx_rune_is_space(fx_utf8_next(text, &next)))
            break;
        begin = next;
    }
    while (s->right && begin < end) {
        size_t at = end - 1, next;

        while (at > begin && ((unsigned char)text.p[at] & 0xc0) == 0x80)
            at--;
        next = at;
        if (!fx_rune_is_space(fx_utf8_next(text, &next)))
            break;
        end = at;
    }
    keep(out, text, marks, begin, end);
}

static fx_status replace_pattern(const fx_norm_step *s, fx_marked *out, fx_str text, const char *marks, fx_error *err)
{
    fx_match *m = fx_match_new(s->pattern, out->text.mem);
    fx_scan scan = FX_SCAN_START;
    size_t at = 0;
    fx_status st;

    if (!m)
        return fx_nomem(err, "a normalizer");
    while ((st = fx_regex_scan(s->pattern, m, text, &scan, err)) == FORNAX_OK && scan.found) {
        keep(out, text, marks, at, scan.begin);
        fx_buf_str(&out->text, s->content);
        put_mark(out, s->content.n, mark_of(out, marks, scan.begin, scan.end));
        at = scan.end;
    }
    keep(out, text, marks, at, text.n);
    fx_match_free(m);
    return st;
}

static void replace_literal(const fx_norm_step *s, fx_marked *out, fx_str text, const char *marks)
{
    size_t at = 0, found;

    while (s->literal.n && (found = fx_str_find(text, s->literal, at)) != FX_STR_NONE) {
        keep(out, text, marks, at, found);
        fx_buf_str(&out->text, s->content);
        put_mark(out, s->content.n, mark_of(out, marks, found, found + s->literal.n));
        at = found + s->literal.n;
    }
    keep(out, text, marks, at, text.n);
}

static void lower(fx_marked *out, fx_str text, const char *marks)
{
    for (size_t i = 0; i < text.n;) {
        size_t begin = i;
        uint32_t to[2];
        int n = fx_rune_lower(fx_utf8_next(text, &i), to);
        char mark = mark_of(out, marks, begin, i);

        for (int j = 0; j < n; j++)
            put_rune(out, to[j], mark);
    }
}

static void strip_accents(fx_marked *out, fx_str text, const char *marks, bool nonspacing_only)
{
    for (size_t i = 0; i < text.n;) {
        size_t begin = i;
        uint32_t r = fx_utf8_next(text, &i);

        if (!(nonspacing_only ? fx_rune_is_nonspacing(r) : fx_rune_is_mark(r)))
            keep(out, text, marks, begin, i);
    }
}

/* Controls and U+FFFD dropped, white space to ' ', ideographs between spaces. */
static void bert_clean(const fx_norm_step *s, fx_marked *out, fx_str text, const char *marks)
{
    for (size_t i = 0; i < text.n;) {
        size_t begin = i;
        uint32_t r = fx_utf8_next(text, &i);
        char mark = mark_of(out, marks, begin, i);
        bool blank = r == '\t' || r == '\n' || r == '\r';

        if (s->clean && (r == 0 || r == 0xfffd || (!blank && fx_rune_is_other(r))))
            continue;
        if (s->clean && (blank || fx_rune_is_space(r)))
            r = ' ';
        if (s->spaced_cjk && fx_rune_is_cjk(r)) {
            put_rune(out, ' ', mark);
            put_rune(out, r, mark);
            put_rune(out, ' ', mark);
        } else {
            put_rune(out, r, mark);
        }
    }
}

static void nmt(fx_marked *out, fx_str text, const char *marks)
{
    for (size_t i = 0; i < text.n;) {
        size_t begin = i;
        uint32_t r = fx_utf8_next(text, &i);
        char mark = mark_of(out, marks, begin, i);

        if ((r >= 1 && r <= 8) || r == 0xb || (r >= 0xe && r <= 0x1f) || r == 0x7f || r == 0x8f || r == 0x9f)
            continue;
        if (r == 9 || r == 10 || r == 12 || r == 13 || r == 0x1680 || (r >= 0x200b && r <= 0x200f) || r == 0x2028 ||
            r == 0x2029 || r == 0x2581 || r == 0xfeff || r == 0xfffd)
            r = ' ';
        put_rune(out, r, mark);
    }
}

static void byte_level(fx_marked *out, fx_str text, const char *marks)
{
    for (size_t i = 0; i < text.n; i++)
        put_rune(out, fx_bytelevel_rune((unsigned char)text.p[i]), mark_of(out, marks, i, i + 1));
}

/* ---- SentencePiece's table ----------------------------------------------------------- */

/* One stretch by the table, its shortest match; what has none is kept. */
static bool put_replaced(const fx_norm_step *s, fx_marked *out, fx_str text, const char *marks, size_t begin, size_t end)
{
    fx_str put;

    if (!fx_charsmap_match(&s->charsmap, fx_str_n(text.p + begin, end - begin), false, &put))
        return false;
    fx_buf_str(&out->text, put);
    put_mark(out, put.n, mark_of(out, marks, begin, end));
    return true;
}

static size_t grapheme_end(fx_str text, size_t begin)
{
    utf8proc_int32_t state = 0;
    size_t i = begin;
    uint32_t r = fx_utf8_next(text, &i);

    while (i < text.n) {
        size_t next = i;
        uint32_t following = fx_utf8_next(text, &next);

        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)r, (utf8proc_int32_t)following, &state))
            break;
        r = following;
        i = next;
    }
    return i;
}

/* A short grapheme is looked up whole, and where that finds nothing, each character is. */
static void precompiled(const fx_norm_step *s, fx_marked *out, fx_str text, const char *marks)
{
    for (size_t i = 0; i < text.n;) {
        size_t begin = i, end = grapheme_end(text, i);

        i = end;
        if (end - begin < 6 && put_replaced(s, out, text, marks, begin, end))
            continue;
        for (size_t at = begin; at < end;) {
            size_t next = at;

            fx_utf8_next(text, &next);
            if (!put_replaced(s, out, text, marks, at, next))
                keep(out, text, marks, at, next);
            at = next;
        }
    }
}

/* The next characters as SentencePiece's table writes them; returns the bytes taken. */
static size_t next_mapped(const fx_norm_step *s, fx_str text, size_t i, fx_str *out)
{
    size_t n = fx_charsmap_match(&s->charsmap, fx_str_n(text.p + i, text.n - i), true, out), next = i;

    if (n)
        return n;
    fx_utf8_next(text, &next);
    *out = fx_str_n(text.p + i, next - i);
    return next - i;
}

static void put_space(const fx_norm_step *s, fx_marked *out, char mark)
{
    fx_buf_str(&out->text, s->content);
    put_mark(out, s->content.n, mark);
}

static void sentencepiece(const fx_norm_step *s, fx_marked *out, fx_str text, const char *marks)
{
    bool after_space = s->remove_extra;
    fx_str part;
    size_t i = 0;

    while (s->remove_extra && i < text.n) {
        size_t n = next_mapped(s, text, i, &part);

        if (!fx_str_is(part, " "))
            break;
        i += n;
    }
    if (i == text.n)
        return;
    if (s->prefix)
        put_space(s, out, mark_of(out, marks, i, i + 1));
    while (i < text.n) {
        size_t n = next_mapped(s, text, i, &part);
        char mark = mark_of(out, marks, i, i + n);

        while (after_space && part.n && part.p[0] == ' ')
            part = fx_str_n(part.p + 1, part.n - 1);
        for (size_t k = 0; k < part.n; k++) {
            if (part.p[k] == ' ') {
                put_space(s, out, mark);
            } else {
                fx_buf_putc(&out->text, part.p[k]);
                put_mark(out, 1, mark);
            }
        }
        if (part.n)
            after_space = s->remove_extra && part.p[part.n - 1] == ' ';
        i += n;
    }
    while (s->remove_extra && fx_str_ends(fx_buf_view(&out->text), s->content)) {
        out->text.n -= s->content.n;
        out->marks.n -= out->marked ? s->content.n : 0;
    }
    if (s->suffix)
        put_space(s, out, mark_of(out, marks, text.n - 1, text.n));
}

/* ---- Running them --------------------------------------------------------------------------- */

static fx_status run_step(const fx_norm_step *s, fx_str text, const char *marks, fx_marked *out, fx_error *err)
{
    bool ok = true;

    switch (s->kind) {
    case FX_NORM_NFC: ok = unicode_form(out, text, marks, UTF8PROC_COMPOSE); break;
    case FX_NORM_NFD: ok = unicode_form(out, text, marks, UTF8PROC_DECOMPOSE); break;
    case FX_NORM_NFKC: ok = unicode_form(out, text, marks, UTF8PROC_COMPOSE | UTF8PROC_COMPAT); break;
    case FX_NORM_NFKD: ok = unicode_form(out, text, marks, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT); break;
    case FX_NORM_LOWER: lower(out, text, marks); break;
    case FX_NORM_STRIP: strip(s, out, text, marks); break;
    case FX_NORM_STRIP_ACCENTS: strip_accents(out, text, marks, false); break;
    case FX_NORM_STRIP_NONSPACING: strip_accents(out, text, marks, true); break;
    case FX_NORM_REPLACE:
        if (s->pattern)
            return replace_pattern(s, out, text, marks, err);
        replace_literal(s, out, text, marks);
        break;
    case FX_NORM_PREPEND:
        if (text.n) {
            fx_buf_str(&out->text, s->content);
            put_mark(out, s->content.n, mark_of(out, marks, 0, 1));
        }
        keep(out, text, marks, 0, text.n);
        break;
    case FX_NORM_BERT: bert_clean(s, out, text, marks); break;
    case FX_NORM_NMT: nmt(out, text, marks); break;
    case FX_NORM_BYTE_LEVEL: byte_level(out, text, marks); break;
    case FX_NORM_PRECOMPILED: precompiled(s, out, text, marks); break;
    case FX_NORM_SENTENCEPIECE: sentencepiece(s, out, text, marks); break;
    }
    return ok ? FORNAX_OK : fx_nomem(err, "a normalizer");
}

/* BERT's accents and case are two more steps, after the cleaning. */
static size_t expand(const fx_norm_step *s, fx_norm_step part[4])
{
    size_t n = 0;

    part[n++] = *s;
    if (s->kind == FX_NORM_BERT && s->strip_accents) {
        part[n++] = (fx_norm_step){ .kind = FX_NORM_NFD };
        part[n++] = (fx_norm_step){ .kind = FX_NORM_STRIP_NONSPACING };
    }
    if (s->kind == FX_NORM_BERT && s->lower)
        part[n++] = (fx_norm_step){ .kind = FX_NORM_LOWER };
    return n;
}

fx_status fx_normalize(const fx_norm_step *steps, size_t n_steps, fx_str text, const char *marks, fx_marked *out,
                       fx_marked *work, fx_error *err)
{
    fx_buf_clear(&out->text);
    fx_buf_clear(&out->marks);
    keep(out, text, marks, 0, text.n);
    for (size_t i = 0; i < n_steps; i++) {
        fx_norm_step part[4];
        size_t n = expand(&steps[i], part);

        for (size_t j = 0; j < n; j++) {
            fx_marked t = *work;

            *work = *out;
            *out = t;
            fx_buf_clear(&out->text);
            fx_buf_clear(&out->marks);
            FX_TRY(run_step(&part[j], fx_buf_view(&work->text), work->marks.p, out, err));
        }
    }
    if (out->text.failed || out->marks.failed || work->text.failed || work->marks.failed)
        return fx_nomem(err, "a normalizer");
    return FORNAX_OK;
}
