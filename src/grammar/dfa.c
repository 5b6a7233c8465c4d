/* dfa.c - the lexer: a grammar's expressions as an automaton whose rows are filled when asked for. */
#include "grammar/run.h"

/* States looked at before an expression counts as one that can go on.  Where that is wrong, a text may come to a
 * dead end; it is never accepted wrongly. */
#define EMPTINESS_BUDGET 300

static bool grow_rows(fx_run *r)
{
    size_t n = r->pool->nodes.n;

    if (n > r->rows.n) {
        size_t more = n - r->rows.n;

        if (!FX_VEC_RESERVE(&r->rows, r->mem, more) || !FX_VEC_RESERVE(&r->ends, r->mem, n - r->ends.n))
            return false;
        memset(r->rows.at + r->rows.n, 0, more * sizeof(*r->rows.at));
        memset(r->ends.at + r->ends.n, 0, n - r->ends.n);
        r->rows.n = r->ends.n = n;
    }
    return true;
}

static uint32_t *row_of(fx_run *r, fx_re re)
{
    if (!grow_rows(r))
        return NULL;
    if (!r->rows.at[re]) {
        uint32_t *row = fx_arena_alloc(&r->arena, 256 * sizeof(*row));

        if (row)
            memset(row, 0xff, 256 * sizeof(*row));
        r->rows.at[re] = row;
    }
    return r->rows.at[re];
}

/* The bytes around 'byte' whose derivatives are the same. */
static void span(const fx_re_pool *p, fx_re re, unsigned byte, unsigned *lo, unsigned *hi)
{
    fx_re_set bounds;

    *lo = *hi = byte;
    fx_re_boundaries(p, re, &bounds);
    while (*lo > 0 && !fx_re_set_has(&bounds, (unsigned char)*lo))
        --*lo;
    while (*hi < 255 && !fx_re_set_has(&bounds, (unsigned char)(*hi + 1)))
        ++*hi;
}

static fx_re fail(fx_run *r)
{
    r->failed = true;
    return FX_RE_FAIL;
}

fx_re fx_run_fill(fx_run *r, fx_re re, unsigned char byte)
{
    unsigned lo, hi;
    fx_tristate none;
    fx_re d;
    uint32_t *row;

    if (r->failed || re == FX_RE_FAIL)
        return FX_RE_FAIL;
    if (re == FX_RE_NONE || re == FX_RE_EMPTY)
        return FX_RE_NONE;
    d = fx_re_derive(r->pool, re, byte);
    none = fx_re_is_none(r->pool, d, EMPTINESS_BUDGET);
    row = row_of(r, re);
    if (!row || d == FX_RE_FAIL || fx_re_pool_failed(r->pool))
        return fail(r);
    if (none == FX_YES)
        d = FX_RE_NONE;
    span(r->pool, re, byte, &lo, &hi);
    for (unsigned b = lo; b <= hi; b++)
        row[b] = d;
    return d;
}

bool fx_run_goes_on(fx_run *r, fx_re re)
{
    if (re == FX_RE_EMPTY || re == FX_RE_NONE)
        return false;
    if (!(r->pool->nodes.at[re].flags & FX_RE_F_CHECK) || !fx_re_nullable(r->pool, re))
        return true;
    if (!grow_rows(r)) {
        r->failed = true;
        return false;
    }
    if (!r->ends.at[re]) {
        fx_re more = fx_re_nonempty(r->pool, re);
        fx_tristate none = fx_re_is_none(r->pool, more, EMPTINESS_BUDGET);

        if (fx_re_pool_failed(r->pool) || !grow_rows(r)) {
            r->failed = true;
            return false;
        }
        r->ends.at[re] = none == FX_YES ? 2 : 1;
    }
    return r->ends.at[re] == 1;
}
