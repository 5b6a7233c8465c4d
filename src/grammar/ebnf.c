/* ebnf.c - the rules of an EBNF text as a grammar.
 *
 * A rule without recursion, tokens or schemas is regular and becomes one expression, and so do runs of
 * regular items in other rules; the rest become nodes.  What %ignore says may follow each terminal
 * of Lark's rules, and stand before the first. */
#include "base/diag.h"
#include "grammar/ebnf_int.h"

#define CHAIN_MAX 500           /* rules within rules that are put into one expression */

static bool regular(fx_ebnf *e, const fx_ebnf_node *x, int depth)
{
    fx_ebnf_rule *r;

    switch (x->kind) {
    case FX_EBNF_RE:
        return true;
    case FX_EBNF_NODE:
        return false;
    case FX_EBNF_REF:
        r = &e->rules.at[x->rule];
        if (r->state == FX_EBNF_UNSEEN) {
            r->state = FX_EBNF_SEEING;
            r->state = depth < CHAIN_MAX && r->body && regular(e, r->body, depth + 1) ? FX_EBNF_REGULAR : FX_EBNF_FREE;
        }
        return r->state == FX_EBNF_REGULAR;
    default:
        for (size_t i = 0; i < x->n; i++)
            if (!regular(e, x->kids[i], depth + 1))
                return false;
        return true;
    }
}

/* What may be ignored after a terminal. */
static fx_re ignored(fx_ebnf *e);

static fx_re to_re(fx_ebnf *e, const fx_ebnf_node *x, bool in_terminal)
{
    fx_re re = FX_RE_EMPTY;

    switch (x->kind) {
    case FX_EBNF_RE:
        return in_terminal ? x->re : fx_re_cat(e->p, x->re, ignored(e));
    case FX_EBNF_REF: {
        fx_ebnf_rule *r = &e->rules.at[x->rule];
        bool inner = r->terminal || in_terminal;
        fx_re *made = inner ? &r->inner : &r->re;

        if (!*made)
            *made = to_re(e, r->body, inner);
        return r->terminal && !in_terminal ? fx_re_cat(e->p, *made, ignored(e)) : *made;
    }
    case FX_EBNF_SEQ:
        for (size_t i = x->n; i-- > 0;)
            re = fx_re_cat(e->p, to_re(e, x->kids[i], in_terminal), re);
        return re;
    case FX_EBNF_ALT:
        re = FX_RE_NONE;
        for (size_t i = 0; i < x->n; i++)
            re = fx_re_alt(e->p, re, to_re(e, x->kids[i], in_terminal));
        return re;
    default:
        return fx_re_repeat(e->p, to_re(e, x->kids[0], in_terminal), x->min, x->max);
    }
}

static fx_re ignored(fx_ebnf *e)
{
    return e->ignored ? fx_re_repeat(e->p, to_re(e, e->ignored, true), 0, FX_RE_INF) : FX_RE_EMPTY;
}

static fx_gnode to_node(fx_ebnf *e, const fx_ebnf_node *x);

/* Kids of a row, runs of regular ones as one lexeme. */
static fx_gnode row(fx_ebnf *e, const fx_ebnf_node *x)
{
    fx_gnode *kids = fx_mem_array(e->mem, x->n + 1, sizeof(*kids)), out;
    size_t n = 0;

    if (!kids)
        return FX_GNODE_FAIL;
    for (size_t i = 0; i < x->n;) {
        fx_re re = FX_RE_EMPTY;
        size_t from = i;

        for (; i < x->n && regular(e, x->kids[i], 0); i++)
            re = fx_re_cat(e->p, re, to_re(e, x->kids[i], false));
        kids[n++] = i > from ? fx_gram_lexeme(e->b, re) : to_node(e, x->kids[i++]);
    }
    out = fx_gram_seq(e->b, kids, n);
    fx_mem_free(e->mem, kids, (x->n + 1) * sizeof(*kids));
    return out;
}

static fx_gnode choice(fx_ebnf *e, const fx_ebnf_node *x)
{
    fx_gnode *kids = fx_mem_array(e->mem, x->n + 1, sizeof(*kids)), out;
    fx_re re = FX_RE_NONE;
    size_t n = 0;

    if (!kids)
        return FX_GNODE_FAIL;
    for (size_t i = 0; i < x->n; i++) {
        if (regular(e, x->kids[i], 0))
            re = fx_re_alt(e->p, re, to_re(e, x->kids[i], false));
        else
            kids[n++] = to_node(e, x->kids[i]);
    }
    kids[n++] = fx_gram_lexeme(e->b, re);
    out = fx_gram_alt(e->b, kids, n);
    fx_mem_free(e->mem, kids, (x->n + 1) * sizeof(*kids));
    return out;
}

static fx_gnode to_node(fx_ebnf *e, const fx_ebnf_node *x)
{
    fx_ebnf_rule *r;

    if (regular(e, x, 0))
        return fx_gram_lexeme(e->b, to_re(e, x, false));
    switch (x->kind) {
    case FX_EBNF_NODE:
        return x->node;
    case FX_EBNF_REF:
        r = &e->rules.at[x->rule];
        if (!r->node)
            r->node = fx_gram_rule(e->b, r->name);
        return r->node;
    case FX_EBNF_SEQ:
        return row(e, x);
    case FX_EBNF_ALT:
        return choice(e, x);
    default:
        return fx_gram_repeat(e->b, to_node(e, x->kids[0]), x->min, x->max);
    }
}

static fx_status check_rules(fx_ebnf *e, uint32_t *start)
{
    const char *name = e->lark ? "start" : "root";
    uint64_t id;

    for (size_t i = 0; i < e->rules.n; i++) {
        fx_ebnf_rule *r = &e->rules.at[i];
        fx_ebnf_node ref = { .kind = FX_EBNF_REF, .rule = (uint32_t)i };

        if (!r->body)
            return fx_ebnf_bad(e, FORNAX_EFORMAT, r->offset, "this rule isn't defined");
        if (!regular(e, &ref, 0) && r->terminal)
            return fx_ebnf_bad(e, FORNAX_EFORMAT, r->offset, "a terminal can't be recursive or hold tokens or schemas");
    }
    if (e->ignored && !regular(e, e->ignored, 0))
        return fx_ebnf_bad(e, FORNAX_EFORMAT, e->ignored->offset, "what is ignored can't be recursive or hold tokens or schemas");
    if (!fx_map_get(&e->names, fx_str_of(name), &id))
        return fx_fail(e->err, FORNAX_EFORMAT, "%s: expected a rule named '%s'", e->name, name);
    *start = (uint32_t)id;
    return FORNAX_OK;
}

/* The rules that are in use become nodes; defining one may bring others into use. */
static fx_gnode define_rules(fx_ebnf *e, uint32_t start)
{
    fx_ebnf_node ref = { .kind = FX_EBNF_REF, .rule = start };
    fx_gnode pair[2] = { fx_gram_lexeme(e->b, ignored(e)), to_node(e, &ref) };
    bool *done = fx_mem_zalloc(e->mem, e->rules.n + 1), more = done != NULL;

    while (more) {
        more = false;
        for (size_t i = 0; i < e->rules.n; i++)
            if (e->rules.at[i].node && e->rules.at[i].node != FX_GNODE_FAIL && !done[i]) {
                done[i] = more = true;
                fx_gram_define(e->b, e->rules.at[i].node, to_node(e, e->rules.at[i].body));
            }
    }
    if (!done)
        return FX_GNODE_FAIL;
    fx_mem_free(e->mem, done, e->rules.n + 1);
    return fx_gram_seq(e->b, pair, 2);
}

fx_status fx_ebnf_build(fx_gnode *root, fx_gram_builder *b, const fx_mem *mem, fx_str text,
                        const fx_ebnf_options *options, fx_buf *warnings, fx_error *err)
{
    fx_arena arena;
    fx_ebnf e = { .text = text, .name = options->name, .opt = options, .b = b, .p = fx_gram_regexes(b), .mem = mem,
                  .arena = &arena, .warnings = warnings, .err = err };
    uint32_t start = 0;
    fx_status st;

    fx_arena_init(&arena, mem, 0);
    fx_map_init(&e.names, mem);
    st = fx_ebnf_parse(&e);
    if (st == FORNAX_OK)
        st = check_rules(&e, &start);
    if (st == FORNAX_OK)
        *root = define_rules(&e, start);
    fx_map_done(&e.names);
    FX_VEC_FREE(&e.rules, mem);
    fx_arena_done(&arena);
    return st;
}
