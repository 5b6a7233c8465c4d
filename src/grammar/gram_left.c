/* gram_left.c - left recursion taken out of a grammar before it is matched (Paull's way).
 *
 * Rules that reach themselves at their left edge form groups.  In a group, taken in order, the
 * alternatives of a rule that begin with an earlier rule get that rule's alternatives instead; then
 *     a = a x | a y | p | q     becomes     a = (p | q) (x | y)*
 * An alternative is a row of nodes whose first is no rule of the group that was done before. */
#include "grammar/gram_int.h"

#define ROWS_MAX 5000           /* alternatives of a group's rules, in all */
#define DEPTH_MAX 1000          /* of nodes within nodes at a left edge */

typedef struct row {
    fx_gnode head;              /* EMPTY: the row is empty */
    fx_gnode rest;              /* what follows, as one node; EMPTY: nothing */
} row;

typedef FX_VEC(row) rows;

typedef struct left {
    fx_gram *g;
    fx_error *err;
    uint32_t *group;            /* by node: the group of a rule, from 1; 0: none */
    uint32_t *order, *low;      /* Tarjan's, by node */
    bool *on_stack;
    FX_VEC(fx_gnode) stack;
    uint32_t next, n_groups;
    fx_gnode n_known;           /* nodes made since have no entry in the arrays: they are no rules */
    bool failed;
} left;

static fx_status too_large(left *l)
{
    return fx_fail(l->err, FORNAX_EUNSUP, "left recursion in the grammar is too large to take out");
}

static fx_gnode_data *node(left *l, fx_gnode x) { return &l->g->nodes.at[x]; }

static fx_gnode add(left *l, fx_gkind kind, uint32_t a, uint32_t b, uint32_t c)
{
    if (!FX_VEC_PUSH(&l->g->nodes, l->g->mem, ((fx_gnode_data){ .kind = (uint8_t)kind, .a = a, .b = b, .c = c }))) {
        l->failed = true;
        return FX_GNODE_EMPTY;
    }
    return (fx_gnode)l->g->nodes.n - 1;
}

static fx_gnode add_kids(left *l, fx_gkind kind, const fx_gnode *kids, size_t n)
{
    fx_gram *g = l->g;
    uint32_t first = (uint32_t)g->kids.n;
    size_t empty = 0;
    fx_gnode x;

    if (n == 1)
        return kids[0];
    if (!FX_VEC_RESERVE(&g->kids, g->mem, n)) {
        l->failed = true;
        return FX_GNODE_EMPTY;
    }
    memcpy(g->kids.at + first, kids, n * sizeof(*kids));
    g->kids.n += n;
    x = add(l, kind, first, (uint32_t)n, 0);
    for (size_t i = 0; i < n; i++)
        empty += g->nodes.at[kids[i]].nullable;
    g->nodes.at[x].nullable = kind == FX_G_SEQ ? empty == n : empty > 0;
    return x;
}

static fx_gnode join(left *l, fx_gnode a, fx_gnode b)
{
    fx_gnode both[2] = { a, b };

    if (a == FX_GNODE_EMPTY || b == FX_GNODE_EMPTY)
        return a == FX_GNODE_EMPTY ? b : a;
    return add_kids(l, FX_G_SEQ, both, 2);
}

/* ---- Groups: strong components of "has at its left edge" --------------------------------------- */

static void visit(left *l, fx_gnode rule, int depth);

/* Follows the left edge of x; rules there are visited, their lowest order noted in *low. */
static void edge(left *l, fx_gnode x, uint32_t *low, bool *itself, fx_gnode owner, int depth)
{
    fx_gnode_data n = *node(l, x);

    if (depth > DEPTH_MAX) {
        l->failed = true;
        return;
    }
    switch ((fx_gkind)n.kind) {
    case FX_G_SEQ:
        for (uint32_t i = 0; i < n.b; i++) {
            edge(l, l->g->kids.at[n.a + i], low, itself, owner, depth + 1);
            if (!node(l, l->g->kids.at[n.a + i])->nullable)
                return;
        }
        return;
    case FX_G_ALT:
        for (uint32_t i = 0; i < n.b; i++)
            edge(l, l->g->kids.at[n.a + i], low, itself, owner, depth + 1);
        return;
    case FX_G_REPEAT:
        edge(l, n.a, low, itself, owner, depth + 1);
        return;
    case FX_G_RULE:
        *itself |= x == owner;
        if (!l->order[x])
            visit(l, x, depth + 1);
        if (l->on_stack[x])
            *low = FX_MIN(*low, l->low[x]);
        return;
    default:
        return;
    }
}

static void visit(left *l, fx_gnode rule, int depth)
{
    uint32_t low = ++l->next;
    bool itself = false;
    size_t at = l->stack.n;

    l->order[rule] = l->low[rule] = low;
    if (!FX_VEC_PUSH(&l->stack, l->g->mem, rule)) {
        l->failed = true;
        return;
    }
    l->on_stack[rule] = true;
    edge(l, node(l, rule)->a, &low, &itself, rule, depth);
    l->low[rule] = low;
    if (low != l->order[rule])
        return;
    itself |= l->stack.n > at + 1;
    l->n_groups += itself;
    while (l->stack.n > at) {
        fx_gnode x = l->stack.at[--l->stack.n];

        l->on_stack[x] = false;
        l->group[x] = itself ? l->n_groups : 0;
    }
}

/* ---- Alternatives ----------------------------------------------------------------------------------- */

static bool push_row(left *l, rows *out, fx_gnode head, fx_gnode rest)
{
    if (out->n >= ROWS_MAX || !FX_VEC_PUSH(out, l->g->mem, ((row){ head, rest })))
        l->failed = true;
    return !l->failed;
}

/* Whether a rule of the group is at x's left edge, other than as x itself. */
static bool reaches(left *l, fx_gnode x, uint32_t group, int depth)
{
    fx_gnode_data n = *node(l, x);

    if (depth > DEPTH_MAX)
        l->failed = true;
    if (l->failed || (n.kind != FX_G_SEQ && n.kind != FX_G_ALT && n.kind != FX_G_REPEAT && n.kind != FX_G_RULE))
        return false;
    if (n.kind == FX_G_RULE)
        return l->group[x] == group || (l->group[x] == 0 && reaches(l, n.a, group, depth + 1));
    if (n.kind == FX_G_REPEAT)
        return reaches(l, n.a, group, depth + 1);
    for (uint32_t i = 0; i < n.b; i++) {
        if (reaches(l, l->g->kids.at[n.a + i], group, depth + 1))
            return true;
        if (n.kind == FX_G_SEQ && !node(l, l->g->kids.at[n.a + i])->nullable)
            return false;
    }
    return false;
}

/* The rows of "x then rest", as far as the group's rules are at the front. */
static fx_status expand(left *l, rows *out, fx_gnode x, fx_gnode rest, uint32_t group, int depth)
{
    fx_gnode_data n = *node(l, x);

    if (depth > DEPTH_MAX || l->failed)
        return too_large(l);
    if (n.kind == FX_G_RULE && l->group[x] == group)
        return push_row(l, out, x, rest) ? FORNAX_OK : too_large(l);
    if (!reaches(l, x, group, 0))
        return push_row(l, out, x, rest) && !l->failed ? FORNAX_OK : too_large(l);
    if (n.kind == FX_G_ALT) {
        for (uint32_t i = 0; i < n.b; i++)
            FX_TRY(expand(l, out, l->g->kids.at[n.a + i], rest, group, depth + 1));
        return FORNAX_OK;
    }
    if (n.kind == FX_G_RULE)
        return expand(l, out, n.a, rest, group, depth + 1);
    if (n.kind == FX_G_SEQ) {               /* what may be empty at the front shows in a second look */
        for (uint32_t i = n.b; i-- > 1;)
            rest = join(l, l->g->kids.at[n.a + i], rest);
        return expand(l, out, l->g->kids.at[n.a], rest, group, depth + 1);
    }
    return fx_fail(l->err, FORNAX_EUNSUP, "left recursion at the front of something repeated can't be taken out");
}

/* The rule's body from its rows, without those that begin with the rule itself; 'out' gets the new rows. */
static void rebuild(left *l, fx_gnode rule, const rows *in, rows *out)
{
    FX_VEC(fx_gnode) kids = { 0 };
    fx_gnode again = FX_GNODE_EMPTY, body = FX_GNODE_NEVER;

    for (size_t i = 0; i < in->n; i++)          /* a x: what may follow again and again */
        if (in->at[i].head == rule && in->at[i].rest != FX_GNODE_EMPTY && !FX_VEC_PUSH(&kids, l->g->mem, in->at[i].rest))
            l->failed = true;
    if (kids.n)
        again = add(l, FX_G_REPEAT, add_kids(l, FX_G_ALT, kids.at, kids.n), 0, FX_GRAM_INF);
    node(l, again)->nullable = true;
    kids.n = 0;
    for (size_t i = 0; i < in->n && !l->failed; i++) {
        fx_gnode rest;

        if (in->at[i].head == rule)
            continue;
        rest = join(l, in->at[i].rest, again);
        push_row(l, out, in->at[i].head, rest);
        if (!FX_VEC_PUSH(&kids, l->g->mem, join(l, in->at[i].head, rest)))
            l->failed = true;
    }
    if (kids.n && !l->failed)
        body = add_kids(l, FX_G_ALT, kids.at, kids.n);
    node(l, rule)->a = body;
    FX_VEC_FREE(&kids, l->g->mem);
}

/* Puts the alternatives of rules done before in place of those rules at the front. */
static fx_status substitute(left *l, rows *list, const fx_gnode *rules, const rows *done, size_t n_done)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < n_done; k++) {
            row x = list->at[i];

            if (x.head != rules[k])
                continue;
            list->at[i--] = list->at[--list->n];        /* look at what took its place, too */
            for (size_t j = 0; j < done[k].n; j++)
                if (!push_row(l, list, done[k].at[j].head, join(l, done[k].at[j].rest, x.rest)))
                    return too_large(l);
            break;
        }
    return FORNAX_OK;
}

static fx_status fix_group(left *l, uint32_t group)
{
    FX_VEC(fx_gnode) rules = { 0 };
    FX_VEC(rows) done = { 0 };
    fx_status st = FORNAX_OK;

    for (fx_gnode x = 0; x < l->n_known; x++)
        if (l->group[x] == group && !FX_VEC_PUSH(&rules, l->g->mem, x))
            l->failed = true;
    for (size_t i = 0; i < rules.n && st == FORNAX_OK; i++) {
        rows list = { 0 }, mine = { 0 };

        st = expand(l, &list, node(l, rules.at[i])->a, FX_GNODE_EMPTY, group, 0);
        if (st == FORNAX_OK)
            st = substitute(l, &list, rules.at, done.at, done.n);
        if (st == FORNAX_OK)
            rebuild(l, rules.at[i], &list, &mine);
        FX_VEC_FREE(&list, l->g->mem);
        if (!FX_VEC_PUSH(&done, l->g->mem, mine)) {
            FX_VEC_FREE(&mine, l->g->mem);
            l->failed = true;
        }
        if (st == FORNAX_OK && l->failed)
            st = too_large(l);
    }
    for (size_t i = 0; i < done.n; i++)
        FX_VEC_FREE(&done.at[i], l->g->mem);
    FX_VEC_FREE(&done, l->g->mem);
    FX_VEC_FREE(&rules, l->g->mem);
    return st;
}

/* A rule that is left recursive still, for the message. */
static fx_status still_left(left *l)
{
    fx_gnode x = 0;

    while (x + 1 < l->n_known && !l->group[x])
        x++;
    return fx_fail(l->err, FORNAX_EUNSUP, "rule '%.*s' is left recursive behind something that may be empty",
                   FX_STR_ARG(l->g->rule_names.at[node(l, x)->b]));
}

fx_status fx_gram_unleft(fx_gram *g, bool again, fx_error *err)
{
    size_t n = g->nodes.n;
    left l = { .g = g, .err = err, .n_known = (fx_gnode)g->nodes.n };
    fx_status st = FORNAX_OK;

    l.group = fx_mem_array(g->mem, n, sizeof(*l.group));
    l.order = fx_mem_array(g->mem, n, sizeof(*l.order));
    l.low = fx_mem_array(g->mem, n, sizeof(*l.low));
    l.on_stack = fx_mem_zalloc(g->mem, n);
    if (!l.group || !l.order || !l.low || !l.on_stack)
        st = fx_nomem(err, "a grammar");
    for (fx_gnode x = 0; st == FORNAX_OK && x < n; x++)
        if (g->nodes.at[x].kind == FX_G_RULE && !l.order[x])
            visit(&l, x, 0);
    if (st == FORNAX_OK && l.failed)
        st = too_large(&l);
    if (st == FORNAX_OK && again && l.n_groups)
        st = still_left(&l);
    for (uint32_t k = 1; st == FORNAX_OK && k <= l.n_groups; k++)
        st = fix_group(&l, k);
    FX_VEC_FREE(&l.stack, g->mem);
    fx_mem_free(g->mem, l.group, n * sizeof(*l.group));
    fx_mem_free(g->mem, l.order, n * sizeof(*l.order));
    fx_mem_free(g->mem, l.low, n * sizeof(*l.low));
    fx_mem_free(g->mem, l.on_stack, n);
    return st;
}
