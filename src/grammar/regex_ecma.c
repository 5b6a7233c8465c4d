/* regex_ecma.c - the language of an ECMA-262 pattern.
 *
 * A pattern matches somewhere in a text.  Its language is built from the end: 'tail' gives, for a row
 * of items and the language of what follows them, the language of the text from the first item on.
 * A lookahead is then a conjunction with that, which is exact.  What stands before a position decides
 * ^ and \b, so a tail is four languages, one by context.
 *
 * Inside quantified groups there is no tail; there a piece is described by what it matches when it
 * begins at the text's start or not, and ends at its end or not.  Lookaheads and \b are refused there. */
#include "grammar/regex_ecma.h"

#include "grammar/regex_int.h"

typedef enum context {
    WITHIN,                     /* after some character */
    AT_START,
    AFTER_WORD,                 /* after a character of \w: only where the pattern has \b */
    AFTER_OTHER,
    N_CONTEXTS
} context;

typedef struct tail {
    fx_re after[N_CONTEXTS];
} tail;

/* e, n: matches the empty string; what else it matches; by [begins at the start][ends at the end]. */
typedef struct piece {
    bool plain;                 /* all four are alike, and 'full' is the whole language */
    fx_re full;
    bool e[2][2];
    fx_re n[2][2];
} piece;

typedef struct builder {
    fx_re_pool *p;
    fx_spell spell;
    bool edges;                 /* the pattern has \b */
    fx_re any, some;            /* any text; any but the empty one */
    fx_re word, ends_word, ends_other, begins_word;
    fx_error *err;
} builder;

static fx_status refuse(const builder *b, const fx_ecma_node *x, const char *what)
{
    return fx_fail(b->err, FORNAX_EUNSUP, "pattern, offset %zu: %s", x->offset, what);
}

/* ---- Pieces -------------------------------------------------------------------------- */

static piece plain_piece(builder *b, fx_re full)
{
    piece x = { .plain = true, .full = full };
    fx_re some = fx_re_nonempty(b->p, full);

    for (int i = 0; i < 4; i++) {
        x.e[i >> 1][i & 1] = fx_re_nullable(b->p, full);
        x.n[i >> 1][i & 1] = some;
    }
    return x;
}

static piece piece_alt(builder *b, const piece *x, const piece *y)
{
    piece z = { 0 };

    if (x->plain && y->plain)
        return plain_piece(b, fx_re_alt(b->p, x->full, y->full));
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < 2; t++) {
            z.e[s][t] = x->e[s][t] || y->e[s][t];
            z.n[s][t] = fx_re_alt(b->p, x->n[s][t], y->n[s][t]);
        }
    return z;
}

static piece piece_cat(builder *b, const piece *x, const piece *y)
{
    piece z = { 0 };

    if (x->plain && y->plain)
        return plain_piece(b, fx_re_cat(b->p, x->full, y->full));
    for (int s = 0; s < 2; s++)
        for (int t = 0; t < 2; t++) {
            fx_re kids[3] = { fx_re_cat(b->p, x->n[s][0], y->n[0][t]), FX_RE_NONE, FX_RE_NONE };

            z.e[s][t] = x->e[s][t] && y->e[s][t];
            if (x->e[s][0])
                kids[1] = y->n[s][t];
            if (y->e[0][t])
                kids[2] = x->n[s][t];
            z.n[s][t] = fx_re_alt_of(b->p, kids, 3);
        }
    return z;
}

/* x any number of times, counting only times that aren't empty. */
static piece piece_star(builder *b, const piece *x)
{
    piece z = { 0 };
    fx_re inner = fx_re_repeat(b->p, x->n[0][0], 0, FX_RE_INF);

    for (int s = 0; s < 2; s++)
        for (int t = 0; t < 2; t++) {
            z.e[s][t] = true;
            z.n[s][t] = fx_re_alt(b->p, x->n[s][t],
                                  fx_re_cat(b->p, x->n[s][0], fx_re_cat(b->p, inner, x->n[0][t])));
        }
    return z;
}

static fx_status piece_repeat(builder *b, piece *out, const fx_ecma_node *x, const piece *k)
{
    piece once = *k, maybe, z = plain_piece(b, FX_RE_EMPTY), star;
    piece nothing = z;

    if (k->plain) {
        *out = plain_piece(b, fx_re_repeat(b->p, k->full, x->min, x->max));
        return FORNAX_OK;
    }
    if (x->min > 16 || (x->max != FX_RE_INF && x->max > 16))
        return refuse(b, x, "^ or $ inside a group repeated so often can't be expressed");
    maybe = piece_alt(b, &nothing, &once);
    for (uint32_t i = 0; i < x->min; i++)
        z = piece_cat(b, &z, &once);
    for (uint32_t i = x->min; x->max != FX_RE_INF && i < x->max; i++)
        z = piece_cat(b, &z, &maybe);
    if (x->max == FX_RE_INF) {
        star = piece_star(b, &once);
        z = piece_cat(b, &z, &star);
    }
    *out = z;
    return FORNAX_OK;
}

static fx_status piece_of(builder *b, piece *out, const fx_ecma_node *x)
{
    piece k;

    switch (x->kind) {
    case FX_ECMA_CLASS:
        *out = plain_piece(b, fx_re_runes(b->p, b->spell, x->ranges, x->n));
        return FORNAX_OK;
    case FX_ECMA_SEQ:
        *out = plain_piece(b, FX_RE_EMPTY);
        for (size_t i = x->n; i-- > 0;) {
            FX_TRY(piece_of(b, &k, x->kids[i]));
            *out = piece_cat(b, &k, out);
        }
        return FORNAX_OK;
    case FX_ECMA_ALT:
        *out = plain_piece(b, FX_RE_NONE);
        for (size_t i = 0; i < x->n; i++) {
            FX_TRY(piece_of(b, &k, x->kids[i]));
            *out = piece_alt(b, out, &k);
        }
        return FORNAX_OK;
    case FX_ECMA_REPEAT:
        FX_TRY(piece_of(b, &k, x->kids[0]));
        return piece_repeat(b, out, x, &k);
    case FX_ECMA_START:
    case FX_ECMA_END:
        *out = plain_piece(b, FX_RE_NONE);
        out->plain = false;
        for (int i = 0; i < 4; i++)
            out->e[i >> 1][i & 1] = x->kind == FX_ECMA_START ? i >> 1 : i & 1;
        return FORNAX_OK;
    case FX_ECMA_EDGE:
        return refuse(b, x, "\\b inside a repeated group can't be expressed");
    case FX_ECMA_LOOK:
        return refuse(b, x, "a lookahead inside a repeated group can't be expressed");
    }
    return refuse(b, x, "no such construct");
}

/* ---- Tails ----------------------------------------------------------------------------- */

static fx_status tail_of(builder *b, tail *out, const fx_ecma_node *x, const tail *rest);

/* What some text of language x, then 'rest', may be. */
static fx_re text_then(builder *b, fx_re x, const tail *rest)
{
    if (!b->edges)
        return fx_re_cat(b->p, x, rest->after[WITHIN]);
    return fx_re_alt(b->p, fx_re_cat(b->p, fx_re_and(b->p, x, b->ends_word), rest->after[AFTER_WORD]),
                     fx_re_cat(b->p, fx_re_and(b->p, x, b->ends_other), rest->after[AFTER_OTHER]));
}

static bool context_used(const builder *b, int c) { return b->edges ? c != WITHIN : c <= AT_START; }

/* An item without lookahead, then 'rest'. */
static fx_status tail_of_piece(builder *b, tail *out, const fx_ecma_node *x, const tail *rest)
{
    piece k;
    bool at_end = false;

    FX_TRY(piece_of(b, &k, x));
    for (int c = 0; c < N_CONTEXTS; c++) {
        int s = c == AT_START;
        fx_re all[4] = { FX_RE_NONE, FX_RE_NONE, FX_RE_NONE, FX_RE_NONE };
        tail ended = *rest, goes_on = *rest;

        if (!context_used(b, c))
            continue;
        if (k.plain && !b->edges && (c == WITHIN || rest->after[WITHIN] == rest->after[AT_START])) {
            out->after[c] = fx_re_cat(b->p, k.full, rest->after[WITHIN]);
            continue;
        }
        for (int d = 0; d < N_CONTEXTS; d++) {
            if (!context_used(b, d))
                continue;
            at_end = fx_re_nullable(b->p, rest->after[d]);
            ended.after[d] = at_end ? FX_RE_EMPTY : FX_RE_NONE;
            if (k.n[s][0] != k.n[s][1] || k.e[s][0] != k.e[s][1])
                goes_on.after[d] = fx_re_nonempty(b->p, rest->after[d]);
        }
        all[0] = text_then(b, k.n[s][0], &goes_on);
        if (k.n[s][0] != k.n[s][1] || k.e[s][0] != k.e[s][1])
            all[1] = text_then(b, k.n[s][1], &ended);
        if (k.e[s][0])
            all[2] = goes_on.after[c];
        if (k.e[s][1])
            all[3] = ended.after[c];
        out->after[c] = fx_re_alt_of(b->p, all, 4);
    }
    return FORNAX_OK;
}

static fx_status tail_of_edge(builder *b, tail *out, const fx_ecma_node *x, const tail *rest)
{
    for (int c = AT_START; c < N_CONTEXTS; c++) {
        bool want_word = (c != AFTER_WORD) != x->negated;   /* a word must begin here, or must not */
        fx_re here = want_word ? b->begins_word : fx_re_not(b->p, b->begins_word);

        out->after[c] = fx_re_and(b->p, rest->after[c], here);
    }
    return FORNAX_OK;
}

static fx_status tail_of_look(builder *b, tail *out, const fx_ecma_node *x, const tail *rest)
{
    tail inside, anything;

    for (int c = 0; c < N_CONTEXTS; c++)
        anything.after[c] = b->any;
    FX_TRY(tail_of(b, &inside, x->kids[0], &anything));
    for (int c = 0; c < N_CONTEXTS; c++)
        if (context_used(b, c))
            out->after[c] = fx_re_and(b->p, rest->after[c],
                                      x->negated ? fx_re_not(b->p, inside.after[c]) : inside.after[c]);
    return FORNAX_OK;
}

/* ((?!X)c)* up to the text's end: texts of c in which X begins nowhere. */
static fx_status tail_of_guarded(builder *b, tail *out, const fx_ecma_node *x, const tail *rest, bool *did)
{
    const fx_ecma_node *body = x->kids[0], *look = body->n == 2 ? body->kids[0] : NULL;
    tail anything, bad;
    piece k;

    *did = false;
    if (body->kind != FX_ECMA_SEQ || !look || look->kind != FX_ECMA_LOOK || !look->negated || b->edges ||
        body->kids[1]->kind != FX_ECMA_CLASS || x->max != FX_RE_INF || x->min > 1 ||
        rest->after[WITHIN] != FX_RE_EMPTY || rest->after[AT_START] != FX_RE_EMPTY)
        return FORNAX_OK;
    for (int c = 0; c < N_CONTEXTS; c++)
        anything.after[c] = b->any;
    FX_TRY(tail_of(b, &bad, look->kids[0], &anything));
    if (bad.after[WITHIN] != bad.after[AT_START])
        return FORNAX_OK;
    FX_TRY(piece_of(b, &k, body->kids[1]));
    *did = true;
    out->after[WITHIN] = out->after[AT_START] =
        fx_re_and(b->p, fx_re_repeat(b->p, k.full, x->min, FX_RE_INF),
                  fx_re_not(b->p, fx_re_cat(b->p, b->any, fx_re_nonempty(b->p, bad.after[WITHIN]))));
    return FORNAX_OK;
}

/* A quantified group with lookaheads: unrolled, where it is short. */
static fx_status tail_of_repeat(builder *b, tail *out, const fx_ecma_node *x, const tail *rest)
{
    tail t = *rest, more;
    bool did;

    FX_TRY(tail_of_guarded(b, out, x, rest, &did));
    if (did)
        return FORNAX_OK;
    if (x->max > 16)
        return refuse(b, x, "a lookahead or \\b inside a repeated group can't be expressed");
    for (uint32_t i = x->max; i > 0; i--) {
        FX_TRY(tail_of(b, &more, x->kids[0], &t));
        for (int c = 0; c < N_CONTEXTS; c++)
            if (context_used(b, c))
                t.after[c] = i > x->min ? fx_re_alt(b->p, more.after[c], rest->after[c]) : more.after[c];
    }
    *out = t;
    return FORNAX_OK;
}

static fx_status tail_of(builder *b, tail *out, const fx_ecma_node *x, const tail *rest)
{
    tail t = *rest, one;

    memset(out, 0, sizeof(*out));
    if (x->kind == FX_ECMA_SEQ) {
        for (size_t i = x->n; i-- > 0;) {
            FX_TRY(tail_of(b, &one, x->kids[i], &t));
            t = one;
        }
        *out = t;
        return FORNAX_OK;
    }
    if (!x->looks)
        return tail_of_piece(b, out, x, rest);
    switch (x->kind) {
    case FX_ECMA_ALT:
        for (size_t i = 0; i < x->n; i++) {
            FX_TRY(tail_of(b, &one, x->kids[i], rest));
            for (int c = 0; c < N_CONTEXTS; c++)
                out->after[c] = i ? fx_re_alt(b->p, out->after[c], one.after[c]) : one.after[c];
        }
        return FORNAX_OK;
    case FX_ECMA_REPEAT:
        return tail_of_repeat(b, out, x, rest);
    case FX_ECMA_LOOK:
        return tail_of_look(b, out, x, rest);
    default:
        return tail_of_edge(b, out, x, rest);
    }
}

static void prepare(builder *b)
{
    static const fx_rune_range words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
    static const fx_rune_range others[] = { { 0, '0' - 1 }, { '9' + 1, 'A' - 1 }, { 'Z' + 1, '_' - 1 },
                                            { '_' + 1, 'a' - 1 }, { 'z' + 1, 0x10ffff } };
    fx_re other;

    b->any = fx_re_any_text(b->p, b->spell);
    b->some = fx_re_nonempty(b->p, b->any);
    if (!b->edges)
        return;
    b->word = fx_re_runes(b->p, b->spell, words, FX_COUNT(words));
    other = fx_re_runes(b->p, b->spell, others, FX_COUNT(others));
    b->ends_word = fx_re_cat(b->p, b->any, b->word);
    b->ends_other = fx_re_cat(b->p, b->any, other);
    b->begins_word = fx_re_cat(b->p, b->word, b->any);
}

fx_status fx_re_ecma(fx_re *out, fx_re_pool *p, fx_spell s, fx_str pattern, bool whole, fx_error *err)
{
    builder b = { .p = p, .spell = s, .err = err };
    fx_arena arena;
    fx_ecma_node *x;
    tail rest, t;
    fx_status st;

    *out = FX_RE_FAIL;
    fx_arena_init(&arena, p->mem, 0);
    st = fx_ecma_parse(&x, &arena, pattern, &b.edges, err);
    if (st == FORNAX_OK) {
        prepare(&b);
        for (int c = 0; c < N_CONTEXTS; c++)
            rest.after[c] = whole ? FX_RE_EMPTY : b.any;
        st = tail_of(&b, &t, x, &rest);
    }
    fx_arena_done(&arena);
    if (st != FORNAX_OK)
        return st;
    if (whole)
        *out = t.after[AT_START];
    else if (!b.edges && t.after[WITHIN] == t.after[AT_START])
        *out = fx_re_cat(p, b.any, t.after[WITHIN]);
    else
        *out = fx_re_alt(p, t.after[AT_START], text_then(&b, b.some, &t));
    return *out == FX_RE_FAIL ? fx_fail(err, FORNAX_ENOMEM, "pattern: too large to express") : FORNAX_OK;
}
