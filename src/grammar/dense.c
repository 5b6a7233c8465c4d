/* dense.c - expressions that take any interior token, told from their shape.
 *
 * X{m,n} rest, where X holds every interior character, takes interior tokens of at most n characters; all
 * of them where there is no n.  An alternative takes what one of its kids takes.  Every word must end in
 * a quote, which no interior character is, so that the expression isn't done in the middle of such a token. */
#include "grammar/dense.h"

#define BUDGET 200

static const fx_re_node *node(const fx_run *r, fx_re x) { return &r->pool->nodes.at[x]; }

static bool ends_in_quote(const fx_run *r, fx_re x)
{
    const fx_re_node *n = node(r, x);
    const uint64_t *w;

    while (n->kind == FX_RE_K_CAT)
        n = node(r, n->b);
    switch ((fx_re_kind)n->kind) {
    case FX_RE_K_SET:
        w = r->pool->sets.at[n->a].w;
        return w[0] == 1ull << '"' && !(w[1] | w[2] | w[3]);
    case FX_RE_K_ALT:
        for (uint32_t i = 0; i < n->b; i++)
            if (!ends_in_quote(r, r->pool->kids.at[n->a + i]))
                return false;
        return true;
    case FX_RE_K_AND:
        for (uint32_t i = 0; i < n->b; i++)
            if (ends_in_quote(r, r->pool->kids.at[n->a + i]))
                return true;
        return false;
    default:
        return false;
    }
}

static bool covers_interior(fx_run *r, fx_re x)
{
    static const fx_rune_range interior[] = { { 0x20, 0x21 }, { 0x23, 0x5b }, { 0x5d, 0x2027 }, { 0x202a, 0x10ffff } };
    size_t n = r->pool->nodes.n;

    if (!r->interior)
        r->interior = fx_re_runes(r->pool, FX_SPELL_UTF8, interior, FX_COUNT(interior));
    if (n > r->covers.n) {
        if (!FX_VEC_RESERVE(&r->covers, r->mem, n - r->covers.n)) {
            r->failed = true;
            return false;
        }
        memset(r->covers.at + r->covers.n, 0, n - r->covers.n);
        r->covers.n = n;
    }
    if (!r->covers.at[x]) {
        fx_re outside = fx_re_and(r->pool, r->interior, fx_re_not(r->pool, x));

        r->covers.at[x] = fx_re_is_none(r->pool, outside, BUDGET) == FX_YES ? 1 : 2;
    }
    return r->covers.at[x] == 1;
}

/* The most interior characters that may come; 0: can't tell. */
static uint32_t most(fx_run *r, fx_re x, bool *sure)
{
    fx_re_node n = *node(r, x);
    uint32_t k = 0;

    if (n.kind == FX_RE_K_ALT) {
        for (uint32_t i = 0; i < n.b && k != FX_RE_INF; i++)
            k = FX_MAX(k, most(r, r->pool->kids.at[n.a + i], sure));
        *sure = k == FX_RE_INF;
        return k;
    }
    if (n.kind != FX_RE_K_CAT || node(r, n.a)->kind != FX_RE_K_REPEAT || !covers_interior(r, node(r, n.a)->a))
        return 0;
    k = node(r, n.a)->c;
    *sure = k == FX_RE_INF;
    if (!*sure) {                   /* what follows must be unable to begin with an interior character */
        const fx_re_node *rest = node(r, n.b);

        *sure = rest->kind == FX_RE_K_SET && ends_in_quote(r, n.b);
    }
    return k;
}

uint32_t fx_run_dense(fx_run *r, fx_re re)
{
    bool sure = false;
    uint32_t k;

    if ((node(r, re)->kind != FX_RE_K_CAT && node(r, re)->kind != FX_RE_K_ALT) || !ends_in_quote(r, re))
        return 0;
    k = most(r, re, &sure);
    return sure ? k : 0;
}
