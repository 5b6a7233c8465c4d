/* gram_check.c - what a finished grammar must hold: every rule is defined and the root matches something.
 *
 * What matches nothing (a rule that never ends, an empty intersection) is found as a least fixed point
 * and taken out of alternatives, objects and arrays, so that matching never walks into a dead end. */
#include "grammar/gram_int.h"
#include "grammar/regex_int.h"

#define EMPTINESS_BUDGET 1500           /* states looked at to see whether an expression is empty */

#define WORK_MAX 20000000u              /* nodes looked at to see which can match */

static bool productive(const fx_gram *g, fx_gnode x) { return g->nodes.at[x].productive; }

static fx_status lexeme_is_none(fx_gram *g, fx_re re, bool *none, fx_error *err)
{
    fx_tristate t = fx_re_is_none(g->pool, re, EMPTINESS_BUDGET);

    if (t == FX_UNKNOWN)
        return fx_fail(err, FORNAX_EUNSUP, "an intersection of patterns or lengths is too large to tell whether it can match");
    *none = t == FX_YES;
    return FORNAX_OK;
}

/* The marks are few, and so are the classes that bring them. */
uint32_t fx_gobject_owed(const fx_gram *g, const fx_gobject *o, uint32_t marks)
{
    uint32_t best = UINT32_MAX;

    if (!marks)
        return 0;
    for (size_t i = 0; i < o->n_others; i++) {
        uint32_t more;

        if (!(o->others[i].marks & marks) || o->others[i].name == FX_RE_NONE || !productive(g, o->others[i].value))
            continue;
        more = fx_gobject_owed(g, o, marks & ~o->others[i].marks);
        best = more < best ? more + 1 : best;
    }
    return best;
}

static uint32_t count_bits(const uint64_t *w, size_t n)
{
    uint32_t k = 0;

    for (size_t i = 0; i < n; i++)
        for (uint64_t x = w[i]; x; x &= x - 1)
            k++;
    return k;
}

static bool object_productive(const fx_gram *g, const fx_gobject *o)
{
    uint32_t can = 0, must = count_bits(o->required, o->n / 64 + 1);
    uint32_t owed = fx_gobject_owed(g, o, o->marks);
    bool free_names = false;

    for (size_t i = 0; i < o->n; i++) {
        can += productive(g, o->values[i]);
        if ((o->required[i / 64] >> i % 64 & 1) && !productive(g, o->values[i]))
            return false;
    }
    for (size_t i = 0; i < o->n_others; i++)
        free_names |= o->others[i].name != FX_RE_NONE && productive(g, o->others[i].value);
    return owed <= o->max && must <= o->max - owed && o->min <= o->max && (free_names || o->min <= can);
}

static bool array_productive(const fx_gram *g, const fx_garray *a)
{
    uint32_t n = a->min;

    if (a->min > a->max)
        return false;
    if (a->has_contains) {
        bool yes = productive(g, a->contains.yes), no = productive(g, a->contains.no);

        n = FX_MAX(a->min, a->contains.min);
        if (n > a->max || a->contains.min > a->contains.max || (!yes && a->contains.min > 0))
            return false;
        return n == 0 || (yes && no) || (yes ? n <= a->contains.max : no);
    }
    for (size_t i = 0; i < a->n_prefix && i < n; i++)
        if (!productive(g, a->prefix[i]))
            return false;
    return n <= a->n_prefix || productive(g, a->rest);
}

static bool node_productive(const fx_gram *g, const fx_gnode_data *n)
{
    switch ((fx_gkind)n->kind) {
    case FX_G_NEVER:
    case FX_G_LEXEME:                       /* settled before */
        return n->productive;
    case FX_G_EMPTY:
    case FX_G_TOKEN:
        return true;
    case FX_G_SEQ:
        for (uint32_t i = 0; i < n->b; i++)
            if (!productive(g, g->kids.at[n->a + i]))
                return false;
        return true;
    case FX_G_ALT:
        for (uint32_t i = 0; i < n->b; i++)
            if (productive(g, g->kids.at[n->a + i]))
                return true;
        return false;
    case FX_G_REPEAT:
        return n->b == 0 || productive(g, n->a);
    case FX_G_RULE:
        return productive(g, n->a);
    case FX_G_OBJECT:
        return object_productive(g, &g->objects.at[n->a]);
    case FX_G_ARRAY:
        return array_productive(g, &g->arrays.at[n->a]);
    }
    return false;
}

static bool node_nullable(const fx_gram *g, const fx_gnode_data *n)
{
    switch ((fx_gkind)n->kind) {
    case FX_G_EMPTY:
        return true;
    case FX_G_LEXEME:
        return fx_re_nullable(g->pool, n->a);
    case FX_G_SEQ:
        for (uint32_t i = 0; i < n->b; i++)
            if (!g->nodes.at[g->kids.at[n->a + i]].nullable)
                return false;
        return true;
    case FX_G_ALT:
        for (uint32_t i = 0; i < n->b; i++)
            if (g->nodes.at[g->kids.at[n->a + i]].nullable)
                return true;
        return false;
    case FX_G_REPEAT:
        return n->b == 0 || g->nodes.at[n->a].nullable;
    case FX_G_RULE:
        return g->nodes.at[n->a].nullable;
    default:
        return false;
    }
}

static fx_status check_leaves(fx_gram *g, fx_error *err)
{
    bool none = false;

    for (fx_gnode x = 0; x < g->nodes.n; x++) {
        fx_gnode_data *n = &g->nodes.at[x];

        if (n->kind == FX_G_RULE && n->a == FX_GNODE_FAIL)
            return fx_fail(err, FORNAX_EFORMAT, "rule '%.*s' is used but not defined", FX_STR_ARG(g->rule_names.at[n->b]));
        if (n->kind == FX_G_LEXEME) {
            FX_TRY(lexeme_is_none(g, n->a, &none, err));
            n->productive = !none;
        }
    }
    for (size_t i = 0; i < g->objects.n; i++)
        for (size_t k = 0; k < g->objects.at[i].n_others; k++) {
            FX_TRY(lexeme_is_none(g, g->objects.at[i].others[k].name, &none, err));
            if (none)
                g->objects.at[i].others[k].name = FX_RE_NONE;
        }
    return FORNAX_OK;
}

/* Passes over all nodes, there and back, until nothing changes; a kid usually comes before its parents. */
static fx_status fix(fx_gram *g, fx_error *err)
{
    uint64_t work = 0;
    bool changed = true;

    for (bool back = false; changed; back = !back) {
        changed = false;
        for (size_t i = 0; i < g->nodes.n; i++) {
            fx_gnode_data *n = &g->nodes.at[back ? g->nodes.n - 1 - i : i];
            bool p = node_productive(g, n), e = node_nullable(g, n);

            changed |= p != n->productive || e != n->nullable;
            n->productive = p;
            n->nullable = e;
        }
        work += g->nodes.n;
        if (work > WORK_MAX + 4 * g->nodes.n)
            return fx_fail(err, FORNAX_EUNSUP, "the grammar's rules are too entangled to tell which of them can match");
    }
    return FORNAX_OK;
}

static void prune_object(fx_gram *g, fx_gobject *o)
{
    size_t k = 0;
    uint32_t can = 0;

    for (size_t i = 0; i < o->n; i++) {
        if (!productive(g, o->values[i])) {
            o->values[i] = FX_GNODE_NEVER;
            o->allowed[i / 64] &= ~(1ull << i % 64);
        }
        can += o->values[i] != FX_GNODE_NEVER;
    }
    for (size_t i = 0; i < o->n_others; i++)
        if (o->others[i].name != FX_RE_NONE && productive(g, o->others[i].value))
            o->others[k++] = o->others[i];
    o->n_others = k;
    if (k == 0)
        o->max = FX_MIN(o->max, can);
}

static void prune_array(fx_gram *g, fx_garray *a)
{
    if (a->has_contains) {
        if (!productive(g, a->contains.yes))
            a->contains.max = 0;
        if (!productive(g, a->contains.no))         /* every item must match */
            a->max = FX_MIN(a->max, a->contains.max);
        return;
    }
    for (size_t i = 0; i < a->n_prefix; i++)
        if (!productive(g, a->prefix[i]))
            a->max = FX_MIN(a->max, (uint32_t)i);
    if (!productive(g, a->rest))
        a->max = FX_MIN(a->max, (uint32_t)a->n_prefix);
}

/* Every item is a string or word, whose spellings fx_used_values knows, and there are words enough: then no item
 * that was begun is refused at its end. */
static bool all_words(fx_gram *g, fx_gnode x, uint64_t want, int depth)
{
    const fx_gnode_data *n = &g->nodes.at[x];
    fx_re_set first = { { 0 } };

    if (n->kind == FX_G_RULE && depth < 20)
        return all_words(g, n->a, want, depth + 1);
    if (n->kind != FX_G_LEXEME)
        return false;
    fx_re_first(g->pool, n->a, &first);
    for (int b = 0; b < 256; b++)
        if (fx_re_set_has(&first, (unsigned char)b) && b != '"' && b != 't' && b != 'f' && b != 'n')
            return false;
    return fx_re_has_words(g->pool, n->a, want);
}

static void find_exact(fx_gram *g)
{
    for (size_t i = 0; i < g->arrays.n; i++) {
        fx_garray *a = &g->arrays.at[i];

        a->exact = a->unique && !a->has_contains && a->n_prefix == 0 &&
                   all_words(g, a->rest, FX_MIN(a->max, 1000000u), 0);
    }
}

static void prune(fx_gram *g)
{
    for (fx_gnode x = 0; x < g->nodes.n; x++) {
        fx_gnode_data *n = &g->nodes.at[x];
        uint32_t k = 0;

        if (n->kind == FX_G_ALT) {
            for (uint32_t i = 0; i < n->b; i++)
                if (productive(g, g->kids.at[n->a + i]))
                    g->kids.at[n->a + k++] = g->kids.at[n->a + i];
            n->b = k;
        } else if (n->kind == FX_G_REPEAT) {
            if (!productive(g, n->a))
                n->kind = n->productive ? FX_G_EMPTY : FX_G_NEVER;
            else if (g->nodes.at[n->a].nullable)
                n->b = 0;
        }
    }
    for (size_t i = 0; i < g->objects.n; i++)
        prune_object(g, &g->objects.at[i]);
    for (size_t i = 0; i < g->arrays.n; i++)
        prune_array(g, &g->arrays.at[i]);
}

/* The first rule below the root that matches nothing, for the message. */
static fx_status nothing_matches(const fx_gram *g, fx_error *err)
{
    for (fx_gnode x = 0; x < g->nodes.n; x++)
        if (g->nodes.at[x].kind == FX_G_RULE && !g->nodes.at[x].productive)
            return fx_fail(err, FORNAX_EFORMAT, "nothing can match: rule '%.*s' has no end",
                           FX_STR_ARG(g->rule_names.at[g->nodes.at[x].b]));
    return fx_fail(err, FORNAX_EFORMAT, "nothing can match");
}

fx_status fx_gram_check(fx_gram *g, fx_error *err)
{
    size_t n_nodes;

    FX_TRY(check_leaves(g, err));
    FX_TRY(fix(g, err));
    n_nodes = g->nodes.n;
    FX_TRY(fx_gram_unleft(g, false, err));
    if (g->nodes.n != n_nodes) {
        FX_TRY(fix(g, err));
        FX_TRY(fx_gram_unleft(g, true, err));
    }
    if (!productive(g, g->root)) {
        if (!g->limits.allow_never)
            return nothing_matches(g, err);
        g->root = FX_GNODE_NEVER;
    }
    prune(g);
    find_exact(g);
    return FORNAX_OK;
}
