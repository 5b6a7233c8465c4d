/* pretok.c - the steps of cutting, and how matches become words. */
#include "text/pretok.h"

#include "base/text.h"
#include "text/vocab.h"

static fx_status run_from(fx_pretok *p, size_t step, fx_str text, bool at_start);

/* ---- From matches to words ------------------------------------------------------- */

/* Takes the pieces of a text in order, matches and what is between them, and hands
 * on words.  A piece that the next one may join waits in begin..end. */
typedef struct cutter {
    fx_pretok *p;
    size_t step;
    fx_str text;
    bool at_start;
    bool waiting, waiting_match;
    size_t begin, end;
} cutter;

static fx_status emit(cutter *c, size_t begin, size_t end)
{
    return run_from(c->p, c->step + 1, fx_str_n(c->text.p + begin, end - begin), c->at_start && begin == 0);
}

static fx_status flush(cutter *c)
{
    bool waiting = c->waiting;

    c->waiting = false;
    return waiting ? emit(c, c->begin, c->end) : FORNAX_OK;
}

static bool joins_waiting(const cutter *c, fx_cut cut, bool match)
{
    if (!c->waiting)
        return false;
    switch (cut) {
    case FX_CUT_MERGED_WITH_PREVIOUS: return match && !c->waiting_match;
    case FX_CUT_MERGED_WITH_NEXT: return !match && c->waiting_match;
    case FX_CUT_CONTIGUOUS: return match == c->waiting_match;
    default: return false;
    }
}

static fx_status piece(cutter *c, size_t begin, size_t end, bool match)
{
    const fx_pretok_step *s = &c->p->steps[c->step];

    if (s->invert)
        match = !match;
    if (s->cut == FX_CUT_ISOLATED)
        return emit(c, begin, end);
    if (s->cut == FX_CUT_REMOVED)
        return match ? FORNAX_OK : emit(c, begin, end);
    if (joins_waiting(c, s->cut, match)) {
        c->end = end;
        if (s->cut != FX_CUT_CONTIGUOUS)
            return flush(c);
        return FORNAX_OK;
    }
    FX_TRY(flush(c));
    c->waiting = true;
    c->waiting_match = match;
    c->begin = begin;
    c->end = end;
    return FORNAX_OK;
}

/* ---- Finding the matches ------------------------------------------------------------ */

static fx_status cut_by_pattern(cutter *c, const fx_pretok_step *s)
{
    fx_scan scan = FX_SCAN_START;
    fx_match *m = c->p->matches[c->step];
    size_t at = 0;

    for (;;) {
        FX_TRY(fx_regex_scan(s->pattern, m, c->text, &scan, c->p->err));
        if (!scan.found)
            break;
        if (at != scan.begin)
            FX_TRY(piece(c, at, scan.begin, false));
        FX_TRY(piece(c, scan.begin, scan.end, true));
        at = scan.end;
    }
    if (at != c->text.n)
        FX_TRY(piece(c, at, c->text.n, false));
    return flush(c);
}

static fx_status cut_by_literal(cutter *c, fx_str literal)
{
    size_t at = 0, found;

    while (literal.n && (found = fx_str_find(c->text, literal, at)) != FX_STR_NONE) {
        if (at != found)
            FX_TRY(piece(c, at, found, false));
        FX_TRY(piece(c, found, found + literal.n, true));
        at = found + literal.n;
    }
    if (at != c->text.n)
        FX_TRY(piece(c, at, c->text.n, false));
    return flush(c);
}

static fx_status cut_by_characters(cutter *c, const fx_pretok_step *s)
{
    size_t at = 0;

    for (size_t i = 0; i < c->text.n;) {
        size_t begin = i;
        uint32_t r = fx_utf8_next(c->text, &i);

        if (!(s->is_match ? s->is_match(r) : r == s->rune))
            continue;
        if (at != begin)
            FX_TRY(piece(c, at, begin, false));
        FX_TRY(piece(c, begin, i, true));
        at = i;
    }
    if (at != c->text.n)
        FX_TRY(piece(c, at, c->text.n, false));
    return flush(c);
}

static fx_status cut_by_length(cutter *c, size_t length)
{
    size_t at = 0, count = 0;

    for (size_t i = 0; i < c->text.n;) {
        fx_utf8_next(c->text, &i);
        if (++count % length == 0 || i == c->text.n) {
            FX_TRY(emit(c, at, i));
            at = i;
        }
    }
    return FORNAX_OK;
}

/* ---- Steps that rewrite ---------------------------------------------------------------- */

/* A space in front, if asked for, into the step's own text. */
static fx_status with_space(fx_pretok *p, size_t step, fx_str *text)
{
    fx_buf *b = &p->texts[step];

    if (p->steps[step].prefix != FX_PREFIX_ALWAYS || text->p[0] == ' ')
        return FORNAX_OK;
    fx_buf_clear(b);
    fx_buf_putc(b, ' ');
    fx_buf_str(b, *text);
    *text = fx_buf_view(b);
    return b->failed ? fx_nomem(p->err, "words") : FORNAX_OK;
}

static fx_status metaspace(fx_pretok *p, size_t step, fx_str text, bool at_start)
{
    const fx_pretok_step *s = &p->steps[step];
    fx_buf *b = &p->texts[step];
    cutter c = { .p = p, .step = step, .at_start = at_start };
    bool prefixed = fx_str_starts(text, s->literal) || text.p[0] == ' ';

    fx_buf_clear(b);
    if (!prefixed && (s->prefix == FX_PREFIX_ALWAYS || (s->prefix == FX_PREFIX_FIRST && at_start)))
        fx_buf_str(b, s->literal);
    for (size_t i = 0; i < text.n;) {
        const char *blank = memchr(text.p + i, ' ', text.n - i);
        size_t end = blank ? (size_t)(blank - text.p) : text.n;

        fx_buf_add(b, text.p + i, end - i);
        if (blank)
            fx_buf_str(b, s->literal);
        i = end + (blank ? 1 : 0);
    }
    if (b->failed)
        return fx_nomem(p->err, "words");
    c.text = fx_buf_view(b);
    return s->split ? cut_by_literal(&c, s->literal) : emit(&c, 0, c.text.n);
}

/* The alphabet's text of one word, handed on. */
static fx_status into_alphabet(fx_pretok *p, size_t step, fx_str text, bool at_start)
{
    fx_buf *b = &p->texts[step];
    cutter c = { .p = p, .step = step, .at_start = at_start };

    fx_buf_clear(b);
    fx_bytelevel_write(b, text);
    if (b->failed)
        return fx_nomem(p->err, "words");
    c.text = fx_buf_view(b);
    return emit(&c, 0, c.text.n);
}

static fx_status run_from(fx_pretok *p, size_t step, fx_str text, bool at_start)
{
    const fx_pretok_step *s = &p->steps[step];
    cutter c = { .p = p, .step = step, .text = text, .at_start = at_start };

    if (text.n == 0)
        return FORNAX_OK;
    if (step == p->n_steps)
        return p->word(p->user, text, p->err);
    switch (s->kind) {
    case FX_PRETOK_SPLIT:
        FX_TRY(with_space(p, step, &c.text));
        return s->pattern ? cut_by_pattern(&c, s) : cut_by_literal(&c, s->literal);
    case FX_PRETOK_CHARACTERS:
        return cut_by_characters(&c, s);
    case FX_PRETOK_METASPACE:
        return metaspace(p, step, text, at_start);
    case FX_PRETOK_FIXED_LENGTH:
        return cut_by_length(&c, s->length);
    case FX_PRETOK_BYTE_LEVEL:
        return s->raw ? emit(&c, 0, text.n) : into_alphabet(p, step, text, at_start);
    }
    return FORNAX_OK;
}

fx_status fx_pretok_run(fx_pretok *p, fx_str text, bool at_start)
{
    return run_from(p, 0, text, at_start);
}

fx_status fx_pretok_init(fx_pretok *p, const fx_mem *mem, const fx_pretok_step *steps, size_t n, fx_error *err)
{
    *p = (fx_pretok){ .steps = steps, .n_steps = n, .err = err };
    p->matches = fx_mem_array(mem, n + 1, sizeof(*p->matches));
    p->texts = fx_mem_array(mem, n + 1, sizeof(*p->texts));
    if (!p->matches || !p->texts)
        return fx_nomem(err, "words");
    for (size_t i = 0; i < n; i++) {
        fx_buf_init(&p->texts[i], mem);
        if (steps[i].pattern && !(p->matches[i] = fx_match_new(steps[i].pattern, mem)))
            return fx_nomem(err, "words");
    }
    return FORNAX_OK;
}

void fx_pretok_done(fx_pretok *p, const fx_mem *mem)
{
    for (size_t i = 0; i < p->n_steps; i++) {
        if (p->matches)
            fx_match_free(p->matches[i]);
        if (p->texts && p->texts[i].mem)
            fx_buf_done(&p->texts[i]);
    }
    fx_mem_free(mem, p->matches, (p->n_steps + 1) * sizeof(*p->matches));
    fx_mem_free(mem, p->texts, (p->n_steps + 1) * sizeof(*p->texts));
}
