/* jinja_parse.c - tokens to a syntax tree, by recursive descent in Jinja's grammar.
 *
 * Each parse_ function returns its node or NULL after it filled p->err.  Which
 * expression parser calls which, and who accepts filters behind what, follows
 * Jinja exactly: "-x|abs" filters the negation, "a.b is c d" takes d as the
 * test's argument, and so on.  Names become numbers here, filters and tests are
 * looked up here (an unknown one is an error unless it stands under an if,
 * where Jinja too complains only when it gets there). */
#include <stdarg.h>
#include <stdio.h>

#include "text/jinja.h"

enum {
    MAX_PARSE_DEPTH = 150,      /* brackets, statements */
    MAX_WALK_DEPTH = 3000       /* and chains of operators */
};

typedef struct parser {
    fx_template *t;
    const jj_tokens *toks;
    size_t i;
    fx_error *err;
    fx_status status;
    fx_map syms;
    size_t cap_syms;
    int depth;
    int loops;              /* loops around here within the same macro: break may stand here */
    int any_loop;           /* loops around here at all: 'loop' may not be assigned */
    bool soft;              /* under an if: unknown filters are a run-time matter */
    const jj_node *unknown; /* a filter or test not found, to be complained of */
    const char *const *ends;        /* the words that end the body being parsed */
} parser;

static const jj_tok *cur(const parser *p)
{
    return &p->toks->at[p->i];
}

static const jj_tok *look(const parser *p)
{
    return &p->toks->at[FX_MIN(p->i + 1, p->toks->n - 1)];
}

static const jj_tok *next(parser *p)
{
    const jj_tok *t = cur(p);

    if (p->i + 1 < p->toks->n)
        p->i++;
    return t;
}

static bool is(const parser *p, jj_tok_type type)
{
    return cur(p)->type == type;
}

static bool tok_word(const jj_tok *t, const char *word)
{
    return t->type == JJT_NAME && fx_str_is(t->text, word);
}

static bool word(const parser *p, const char *w)
{
    return tok_word(cur(p), w);
}

static bool skip_type(parser *p, jj_tok_type type)
{
    if (!is(p, type))
        return false;
    next(p);
    return true;
}

static bool skip_word(parser *p, const char *w)
{
    if (!word(p, w))
        return false;
    next(p);
    return true;
}

static void *fail_at(parser *p, size_t at, const char *fmt, ...) FX_PRINTF(3, 4);
static void *fail_at(parser *p, size_t at, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    if (p->status != FORNAX_OK)
        return NULL;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    p->status = fx_diag(p->err, p->t->name, p->t->source, at, "%s", text);
    return NULL;
}

static void *no_memory(parser *p)
{
    if (p->status == FORNAX_OK)
        p->status = fx_nomem(p->err, "a template");
    return NULL;
}

static void describe(const parser *p, char *out, size_t size)
{
    const jj_tok *t = cur(p);

    if (t->type == JJT_NAME)
        snprintf(out, size, "%.*s", (int)FX_MIN(t->text.n, 60), t->text.p);
    else
        snprintf(out, size, "%s", fx_jj_tok_name((jj_tok_type)t->type));
}

static void *unexpected(parser *p, const char *wanted)
{
    char got[80];

    describe(p, got, sizeof got);
    return fail_at(p, cur(p)->at, "expected %s, got '%s'", wanted, got);
}

static bool expect(parser *p, jj_tok_type type)
{
    char wanted[48];

    if (skip_type(p, type))
        return true;
    snprintf(wanted, sizeof wanted, "'%s'", fx_jj_tok_name(type));
    unexpected(p, wanted);
    return false;
}

static bool expect_word(parser *p, const char *w)
{
    char wanted[48];

    if (skip_word(p, w))
        return true;
    snprintf(wanted, sizeof wanted, "'%s'", w);
    unexpected(p, wanted);
    return false;
}

/* ---- nodes -------------------------------------------------------------------- */

static jj_node *node(parser *p, jj_kind kind, size_t at)
{
    jj_node *n = FX_ARENA_NEW(&p->t->arena, jj_node);

    if (!n)
        return no_memory(p);
    n->kind = (uint8_t)kind;
    n->at = (uint32_t)at;
    n->sym = JJ_NO_SYM;
    return n;
}

static jj_node *node1(parser *p, jj_kind kind, size_t at, jj_node *a)
{
    jj_node *n = a ? node(p, kind, at) : NULL;

    if (n)
        n->a = a;
    return n;
}

static jj_node *node2(parser *p, jj_kind kind, size_t at, jj_node *a, jj_node *b)
{
    jj_node *n = a && b ? node(p, kind, at) : NULL;

    if (n) {
        n->a = a;
        n->b = b;
    }
    return n;
}

/* Strings of the tree are complete: no later reader writes into them. */
static jj_str *literal(parser *p, fx_str s)
{
    jj_str *out = FX_ARENA_NEW(&p->t->arena, jj_str);

    if (!out)
        return no_memory(p);
    out->p = s.n ? s.p : "";
    out->n = s.n;
    out->chars = fx_utf8_count(s);
    return out;
}

static uint32_t symbol(parser *p, fx_str name)
{
    uint64_t id;

    if (fx_map_get(&p->syms, name, &id))
        return (uint32_t)id;
    if (p->t->n_syms == p->cap_syms) {
        size_t cap = p->cap_syms ? p->cap_syms * 2 : 32;
        fx_str *grown = FX_ARENA_NEWN(&p->t->arena, fx_str, cap);

        if (!grown)
            goto fail;
        if (p->t->n_syms)
            memcpy(grown, p->t->syms, p->t->n_syms * sizeof *grown);
        p->t->syms = grown;
        p->cap_syms = cap;
    }
    if (!fx_map_put(&p->syms, name, p->t->n_syms))
        goto fail;
    p->t->syms[p->t->n_syms] = name;
    return p->t->n_syms++;

fail:
    no_memory(p);
    return JJ_NO_SYM;
}

/* A chain under construction. */
typedef struct chain {
    jj_node *first, **end;
} chain;

static bool chain_add(chain *c, jj_node *n)
{
    if (!n)
        return false;
    if (!c->end)
        c->end = &c->first;
    *c->end = n;
    c->end = &n->next;
    return true;
}

static bool deeper(parser *p)
{
    if (++p->depth <= MAX_PARSE_DEPTH)
        return true;
    fail_at(p, cur(p)->at, "nested too deeply");
    return false;
}

/* ---- expressions ---------------------------------------------------------------- */

static jj_node *parse_expression(parser *p);
static jj_node *parse_or(parser *p);
static jj_node *parse_unary(parser *p, bool with_filter);
static jj_node *parse_primary(parser *p, bool with_namespace);
static jj_node *parse_postfix(parser *p, jj_node *n);

typedef struct tuple_rules {
    bool simplified;        /* only names and literals: a target */
    bool no_cond;           /* no "a if b" inside */
    bool parens;            /* explicit: may be empty */
    bool with_namespace;    /* ns.attr allowed */
    const char *end_word;   /* a name that ends the tuple, or NULL */
} tuple_rules;

static bool tuple_ends(const parser *p, const tuple_rules *how)
{
    return is(p, JJT_VAR_END) || is(p, JJT_BLOCK_END) || is(p, JJT_RPAREN) ||
           (how->end_word && word(p, how->end_word));
}

static jj_node *parse_tuple(parser *p, tuple_rules how)
{
    size_t at = cur(p)->at;
    bool is_tuple = false;
    chain items = { 0 };
    jj_node *n;

    for (;;) {
        if (items.first && !expect(p, JJT_COMMA))
            return NULL;
        if (tuple_ends(p, &how))
            break;
        n = how.simplified ? parse_primary(p, how.with_namespace)
                           : how.no_cond ? parse_or(p) : parse_expression(p);
        if (!chain_add(&items, n))
            return NULL;
        if (!is(p, JJT_COMMA))
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.first)
        return items.first;
    if (!is_tuple && !how.parens)
        return unexpected(p, "an expression");
    n = node(p, JJN_TUPLE, at);
    if (n)
        n->a = items.first;
    return n;
}

static jj_node *constant(parser *p, size_t at, jj_val v)
{
    jj_node *n = node(p, JJN_CONST, at);

    if (n)
        n->value = v;
    return n;
}

static jj_node *parse_name(parser *p, bool with_namespace)
{
    const jj_tok *t = next(p);
    jj_node *n;

    if (tok_word(t, "true") || tok_word(t, "True"))
        return constant(p, t->at, fx_jj_bool(true));
    if (tok_word(t, "false") || tok_word(t, "False"))
        return constant(p, t->at, fx_jj_bool(false));
    if (tok_word(t, "none") || tok_word(t, "None"))
        return constant(p, t->at, fx_jj_none());
    n = node(p, JJN_NAME, t->at);
    if (!n)
        return NULL;
    n->sym = symbol(p, t->text);
    if (with_namespace && is(p, JJT_DOT)) {
        next(p);
        if (!is(p, JJT_NAME))
            return unexpected(p, "'name'");
        n->kind = JJN_NSREF;
        n->str = literal(p, next(p)->text);
        return n->str ? n : NULL;
    }
    return n->sym == JJ_NO_SYM ? NULL : n;
}

static jj_node *parse_string(parser *p)
{
    size_t at = cur(p)->at, total = 0, first = p->i;
    jj_str *s;
    fx_str text;

    for (; is(p, JJT_STRING); next(p))
        total += cur(p)->text.n;
    text = p->toks->at[first].text;
    if (p->i > first + 1) {                 /* "a" "b" is one string */
        char *joined = fx_arena_alloc(&p->t->arena, total + 1);

        if (!joined)
            return no_memory(p);
        text = fx_str_n(joined, total);
        for (size_t k = first; k < p->i; k++) {
            memcpy(joined, p->toks->at[k].text.p, p->toks->at[k].text.n);
            joined += p->toks->at[k].text.n;
        }
    }
    s = literal(p, text);
    return s ? constant(p, at, fx_jj_sv(s)) : NULL;
}

static jj_node *parse_list(parser *p)
{
    size_t at = next(p)->at;
    chain items = { 0 };
    jj_node *n;

    while (!is(p, JJT_RBRACKET)) {
        if (items.first && !expect(p, JJT_COMMA))
            return NULL;
        if (is(p, JJT_RBRACKET))
            break;
        if (!chain_add(&items, parse_expression(p)))
            return NULL;
    }
    next(p);
    n = node(p, JJN_LIST, at);
    if (n)
        n->a = items.first;
    return n;
}

static jj_node *parse_dict(parser *p)
{
    size_t at = next(p)->at;
    chain items = { 0 };
    jj_node *n;

    while (!is(p, JJT_RBRACE)) {
        if (items.first && !expect(p, JJT_COMMA))
            return NULL;
        if (is(p, JJT_RBRACE))
            break;
        if (!chain_add(&items, parse_expression(p)) || !expect(p, JJT_COLON) ||
            !chain_add(&items, parse_expression(p)))
            return NULL;
    }
    next(p);
    n = node(p, JJN_DICT, at);
    if (n)
        n->a = items.first;
    return n;
}

static jj_node *parse_primary(parser *p, bool with_namespace)
{
    const jj_tok *t = cur(p);
    jj_node *n = NULL;

    if (!deeper(p))
        return NULL;
    switch (t->type) {
    case JJT_NAME:
        n = parse_name(p, with_namespace);
        break;
    case JJT_STRING:
        n = parse_string(p);
        break;
    case JJT_INT:
        n = constant(p, next(p)->at, fx_jj_int(t->u.i));
        break;
    case JJT_FLOAT:
        n = constant(p, next(p)->at, fx_jj_float(t->u.f));
        break;
    case JJT_LPAREN:
        next(p);
        n = parse_tuple(p, (tuple_rules){ .parens = true });
        if (n && !expect(p, JJT_RPAREN))
            n = NULL;
        break;
    case JJT_LBRACKET:
        n = parse_list(p);
        break;
    case JJT_LBRACE:
        n = parse_dict(p);
        break;
    default:
        unexpected(p, "an expression");
    }
    p->depth--;
    return n;
}

/* An index or a slice within [ ]. */
static jj_node *parse_subscribed(parser *p)
{
    size_t at = cur(p)->at;
    jj_node *part[3] = { 0 }, *n;

    if (!is(p, JJT_COLON)) {
        part[0] = parse_expression(p);
        if (!part[0] || !is(p, JJT_COLON))
            return part[0];
    }
    next(p);
    if (!is(p, JJT_COLON) && !is(p, JJT_RBRACKET) && !is(p, JJT_COMMA) &&
        !(part[1] = parse_expression(p)))
        return NULL;
    if (skip_type(p, JJT_COLON) && !is(p, JJT_RBRACKET) && !is(p, JJT_COMMA) &&
        !(part[2] = parse_expression(p)))
        return NULL;
    n = node(p, JJN_SLICE, at);
    if (n) {
        n->a = part[0];
        n->b = part[1];
        n->c = part[2];
    }
    return n;
}

static jj_node *parse_subscript(parser *p, jj_node *obj)
{
    const jj_tok *t = next(p);
    chain items = { 0 };
    jj_node *n;
    size_t count = 0;

    if (t->type == JJT_DOT) {
        const jj_tok *attr = cur(p);

        if (attr->type == JJT_INT) {
            next(p);
            return node2(p, JJN_ITEM, t->at, obj, constant(p, attr->at, fx_jj_int(attr->u.i)));
        }
        if (attr->type != JJT_NAME)
            return unexpected(p, "a name or a number");
        next(p);
        n = node1(p, JJN_ATTR, attr->at, obj);
        if (n && !(n->str = literal(p, attr->text)))
            return NULL;
        return n;
    }
    while (!is(p, JJT_RBRACKET)) {
        if (items.first && !expect(p, JJT_COMMA))
            return NULL;
        if (!chain_add(&items, parse_subscribed(p)))
            return NULL;
        count++;
    }
    next(p);
    if (count == 1)
        return node2(p, JJN_ITEM, t->at, obj, items.first);
    n = node(p, JJN_TUPLE, t->at);
    if (!n)
        return NULL;
    n->a = items.first;
    for (jj_node *k = items.first; k; k = k->next)
        if (k->kind == JJN_SLICE)
            return fail_at(p, k->at, "slices among several indices are not supported");
    return node2(p, JJN_ITEM, t->at, obj, n);
}

static bool parse_one_arg(parser *p, jj_callargs *args, chain *pos, chain *kw)
{
    const jj_tok *t = cur(p);
    bool ok = true;

    if (t->type == JJT_MUL) {
        ok = !args->star && !args->star2;
        next(p);
        if (ok && !(args->star = parse_expression(p)))
            return false;
    } else if (t->type == JJT_POW) {
        ok = !args->star2;
        next(p);
        if (ok && !(args->star2 = parse_expression(p)))
            return false;
    } else if (t->type == JJT_NAME && look(p)->type == JJT_ASSIGN) {
        jj_node *n = node(p, JJN_KEYWORD, t->at);

        ok = !args->star2;
        next(p);
        next(p);
        if (!n || !(n->str = literal(p, t->text)) || (ok && !(n->a = parse_expression(p))))
            return false;
        chain_add(kw, n);
    } else {
        ok = !args->star && !args->star2 && !kw->first;
        if (ok && !chain_add(pos, parse_expression(p)))
            return false;
    }
    if (!ok)
        fail_at(p, t->at, "invalid syntax for function call expression");
    return ok;
}

static jj_callargs *parse_call_args(parser *p)
{
    jj_callargs *args = FX_ARENA_NEW(&p->t->arena, jj_callargs);
    chain pos = { 0 }, kw = { 0 };
    bool comma = false;

    if (!args)
        return no_memory(p);
    if (!expect(p, JJT_LPAREN))
        return NULL;
    while (!is(p, JJT_RPAREN)) {
        if (comma) {
            if (!expect(p, JJT_COMMA))
                return NULL;
            if (is(p, JJT_RPAREN))
                break;
        }
        if (!parse_one_arg(p, args, &pos, &kw))
            return NULL;
        comma = true;
    }
    next(p);
    args->pos = pos.first;
    args->kw = kw.first;
    for (jj_node *a = args->kw; a; a = a->next)
        for (jj_node *b = a->next; b; b = b->next)
            if (fx_str_eq(fx_jj_view(a->str), fx_jj_view(b->str)))
                return fail_at(p, b->at, "keyword argument repeated: %.*s",
                               (int)FX_MIN(b->str->n, 100), b->str->p);
    return args;
}

static jj_node *parse_call(parser *p, jj_node *callee)
{
    jj_node *n = node1(p, JJN_CALL, callee->at, callee);

    if (n && !(n->args = parse_call_args(p)))
        return NULL;
    return n;
}

static jj_node *parse_postfix(parser *p, jj_node *n)
{
    int links = 0;

    while (n) {
        if (++links > MAX_PARSE_DEPTH)
            return fail_at(p, cur(p)->at, "nested too deeply");
        if (is(p, JJT_DOT) || is(p, JJT_LBRACKET))
            n = parse_subscript(p, n);
        else if (is(p, JJT_LPAREN))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* The dotted name of a filter or test. */
static jj_str *parse_dotted(parser *p)
{
    fx_str first = cur(p)->text;
    jj_str *s;

    if (!expect(p, JJT_NAME) || !(s = literal(p, first)))
        return NULL;
    while (skip_type(p, JJT_DOT)) {
        char *joined = fx_arena_printf(&p->t->arena, "%.*s.%.*s", FX_STR_ARG(fx_jj_view(s)),
                                       FX_STR_ARG(cur(p)->text));

        if (!expect(p, JJT_NAME))
            return NULL;
        if (!joined || !(s = literal(p, fx_str_of(joined))))
            return no_memory(p);
    }
    return s;
}

static jj_node *known(parser *p, jj_node *n)
{
    if (!n->def && !p->soft && !p->unknown)
        p->unknown = n;
    return n;
}

/* After a statement: nothing made the unknown name conditional. */
static bool check_known(parser *p)
{
    const jj_node *n = p->unknown;

    if (!n)
        return true;
    fail_at(p, n->at, "no %s named '%.*s'", n->kind == JJN_FILTER ? "filter" : "test",
            (int)FX_MIN(n->str->n, 100), n->str->p);
    return false;
}

/* Filters from here on, over 'n' (NULL: a block's text). 'inline_first': the
 * first comes without its bar. */
static jj_node *parse_filter(parser *p, jj_node *n, bool inline_first)
{
    int links = 0;

    while (is(p, JJT_PIPE) || inline_first) {
        jj_node *f;

        if (!inline_first)
            next(p);
        inline_first = false;
        if (++links > MAX_PARSE_DEPTH)
            return fail_at(p, cur(p)->at, "nested too deeply");
        f = node(p, JJN_FILTER, cur(p)->at);
        if (!f || !(f->str = parse_dotted(p)))
            return NULL;
        f->a = n;
        f->def = fx_jj_filter(fx_jj_view(f->str));
        if (is(p, JJT_LPAREN) && !(f->args = parse_call_args(p)))
            return NULL;
        n = known(p, f);
    }
    return n;
}

static bool starts_test_argument(const parser *p)
{
    switch (cur(p)->type) {
    case JJT_NAME:
        return !word(p, "else") && !word(p, "or") && !word(p, "and");
    case JJT_STRING: case JJT_INT: case JJT_FLOAT: case JJT_LBRACKET: case JJT_LBRACE:
        return true;
    default:
        return false;
    }
}

static jj_node *parse_test(parser *p, jj_node *subject)
{
    size_t at = next(p)->at;
    bool negated = skip_word(p, "not");
    jj_node *n = node1(p, JJN_TEST, cur(p)->at, subject);

    if (!n || !(n->str = parse_dotted(p)))
        return NULL;
    n->def = fx_jj_test(fx_jj_view(n->str));
    if (is(p, JJT_LPAREN)) {
        if (!(n->args = parse_call_args(p)))
            return NULL;
    } else if (starts_test_argument(p)) {
        jj_node *arg;

        if (word(p, "is"))
            return fail_at(p, cur(p)->at, "tests can't be chained with 'is'");
        arg = parse_primary(p, false);
        if (arg)
            arg = parse_postfix(p, arg);
        if (!arg)
            return NULL;
        n->args = FX_ARENA_NEW(&p->t->arena, jj_callargs);
        if (!n->args)
            return no_memory(p);
        n->args->pos = arg;
    }
    known(p, n);
    return negated ? node1(p, JJN_NOT, at, n) : n;
}

static jj_node *parse_filter_expr(parser *p, jj_node *n)
{
    int links = 0;

    while (n) {
        if (++links > MAX_PARSE_DEPTH)
            return fail_at(p, cur(p)->at, "nested too deeply");
        if (is(p, JJT_PIPE))
            n = parse_filter(p, n, false);
        else if (word(p, "is"))
            n = parse_test(p, n);
        else if (is(p, JJT_LPAREN))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static jj_node *parse_unary(parser *p, bool with_filter)
{
    const jj_tok *t = cur(p);
    jj_node *n;

    if (!deeper(p))
        return NULL;
    if (t->type == JJT_SUB || t->type == JJT_ADD) {
        next(p);
        n = node1(p, t->type == JJT_SUB ? JJN_NEG : JJN_POS, t->at, parse_unary(p, false));
    } else {
        n = parse_primary(p, false);
    }
    if (n)
        n = parse_postfix(p, n);
    if (n && with_filter)
        n = parse_filter_expr(p, n);
    p->depth--;
    return n;
}

static jj_node *binary(parser *p, jj_op op, size_t at, jj_node *a, jj_node *b)
{
    jj_node *n = node2(p, JJN_BIN, at, a, b);

    if (n)
        n->op = (uint8_t)op;
    return n;
}

static jj_node *parse_pow(parser *p)
{
    jj_node *left = parse_unary(p, true);

    while (left && is(p, JJT_POW)) {
        size_t at = next(p)->at;

        left = binary(p, JJO_POW, at, left, parse_unary(p, true));
    }
    return left;
}

static jj_node *parse_math2(parser *p)
{
    jj_node *left = parse_pow(p);

    while (left) {
        const jj_tok *t = cur(p);
        jj_op op;

        if (t->type == JJT_MUL) op = JJO_MUL;
        else if (t->type == JJT_DIV) op = JJO_DIV;
        else if (t->type == JJT_FLOORDIV) op = JJO_FLOORDIV;
        else if (t->type == JJT_MOD) op = JJO_MOD;
        else break;
        next(p);
        left = binary(p, op, t->at, left, parse_pow(p));
    }
    return left;
}

static jj_node *parse_concat(parser *p)
{
    size_t at = cur(p)->at;
    chain items = { 0 };
    jj_node *n;

    if (!chain_add(&items, parse_math2(p)))
        return NULL;
    while (is(p, JJT_TILDE)) {
        next(p);
        if (!chain_add(&items, parse_math2(p)))
            return NULL;
    }
    if (!items.first->next)
        return items.first;
    n = node(p, JJN_CONCAT, at);
    if (n)
        n->a = items.first;
    return n;
}

static jj_node *parse_math1(parser *p)
{
    jj_node *left = parse_concat(p);

    while (left && (is(p, JJT_ADD) || is(p, JJT_SUB))) {
        const jj_tok *t = next(p);

        left = binary(p, t->type == JJT_ADD ? JJO_ADD : JJO_SUB, t->at, left, parse_concat(p));
    }
    return left;
}

static bool compare_op(parser *p, jj_op *op)
{
    static const struct { jj_tok_type t; jj_op op; } ops[] = {
        { JJT_EQ, JJO_EQ }, { JJT_NE, JJO_NE }, { JJT_LT, JJO_LT },
        { JJT_LE, JJO_LE }, { JJT_GT, JJO_GT }, { JJT_GE, JJO_GE },
    };

    for (size_t i = 0; i < FX_COUNT(ops); i++) {
        if (is(p, ops[i].t)) {
            *op = ops[i].op;
            next(p);
            return true;
        }
    }
    if (skip_word(p, "in")) {
        *op = JJO_IN;
        return true;
    }
    if (word(p, "not") && tok_word(look(p), "in")) {
        next(p);
        next(p);
        *op = JJO_NOTIN;
        return true;
    }
    return false;
}

static jj_node *parse_compare(parser *p)
{
    jj_node *left = parse_math1(p), *n;
    chain ops = { 0 };

    while (left) {
        size_t at = cur(p)->at;
        jj_op op;

        if (!compare_op(p, &op))
            break;
        n = node1(p, JJN_OPERAND, at, parse_math1(p));
        if (!chain_add(&ops, n))
            return NULL;
        n->op = (uint8_t)op;
    }
    if (!left || !ops.first)
        return left;
    return node2(p, JJN_COMPARE, left->at, left, ops.first);
}

static jj_node *parse_not(parser *p)
{
    jj_node *n;
    size_t at;

    if (!word(p, "not"))
        return parse_compare(p);
    if (!deeper(p))
        return NULL;
    at = next(p)->at;
    n = node1(p, JJN_NOT, at, parse_not(p));
    p->depth--;
    return n;
}

static jj_node *parse_and(parser *p)
{
    jj_node *left = parse_not(p);

    while (left && word(p, "and")) {
        size_t at = next(p)->at;

        left = node2(p, JJN_AND, at, left, parse_not(p));
    }
    return left;
}

static jj_node *parse_or(parser *p)
{
    jj_node *left = parse_and(p);

    while (left && word(p, "or")) {
        size_t at = next(p)->at;

        left = node2(p, JJN_OR, at, left, parse_and(p));
    }
    return left;
}

/* "a if b else c".  Filters anywhere in such an expression are looked up late. */
static jj_node *parse_expression(parser *p)
{
    const jj_node *unknown = p->unknown;
    bool soft = p->soft;
    jj_node *n;

    if (!deeper(p))
        return NULL;
    n = parse_or(p);
    while (n && word(p, "if")) {
        size_t at = next(p)->at;
        jj_node *cond;

        p->unknown = unknown;
        p->soft = true;
        cond = parse_or(p);
        n = node2(p, JJN_COND, at, n, cond);
        if (n && skip_word(p, "else") && !(n->c = parse_expression(p)))
            n = NULL;
    }
    p->soft = soft;
    p->depth--;
    return n;
}

/* ---- statements ------------------------------------------------------------------ */

/* Words that end the body being parsed. */
typedef const char *const *words;

static bool subparse(parser *p, words ends, jj_node **out);

static bool any_word(const parser *p, words list)
{
    for (; list && *list; list++)
        if (word(p, *list))
            return true;
    return false;
}

static const char *join_words(words list, char *out, size_t size)
{
    size_t n = 0;

    out[0] = 0;
    for (size_t i = 0; list[i] && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s'%s'", i ? " or " : "", list[i]);
    return out;
}

/* The body up to one of 'ends', which is left as the current token. */
static bool parse_body(parser *p, words ends, jj_node **out)
{
    size_t start = cur(p)->at;
    char text[80];

    skip_type(p, JJT_COLON);
    if (!expect(p, JJT_BLOCK_END) || !subparse(p, ends, out))
        return false;
    if (is(p, JJT_EOF)) {
        fail_at(p, start, "unexpected end of template: this block needs %s",
                join_words(ends, text, sizeof text));
        return false;
    }
    return true;
}

/* The body and the one word that ends it. */
static bool parse_block_body(parser *p, const char *end, jj_node **out)
{
    const char *const ends[] = { end, NULL };
    bool soft = p->soft, ok;

    p->soft = false;
    ok = parse_body(p, ends, out);
    p->soft = soft;
    if (ok)
        next(p);
    return ok;
}

static bool check_name_target(parser *p, const jj_node *n)
{
    if (p->any_loop && n->sym == p->t->sym_loop) {
        fail_at(p, n->at, "can't assign to the special loop variable inside a loop");
        return false;
    }
    return true;
}

static bool check_target(parser *p, const jj_node *n)
{
    if (n->kind == JJN_TUPLE) {
        for (const jj_node *k = n->a; k; k = k->next)
            if (!check_target(p, k))
                return false;
        return true;
    }
    if (n->kind == JJN_NAME)
        return check_name_target(p, n);
    if (n->kind == JJN_NSREF)
        return true;
    fail_at(p, n->at, "can't assign to this expression");
    return false;
}

static jj_node *parse_target(parser *p, bool with_namespace, const char *end_word)
{
    jj_node *n = parse_tuple(p, (tuple_rules){ .simplified = true, .with_namespace = with_namespace,
                                               .end_word = end_word });

    return n && check_target(p, n) ? n : NULL;
}

/* A plain name that is stored to. */
static bool parse_name_target(parser *p, uint32_t *sym, size_t *at)
{
    const jj_tok *t = cur(p);
    static const char *const reserved[] = { "true", "false", "none", "True", "False", "None", NULL };

    *at = t->at;
    if (any_word(p, reserved)) {
        fail_at(p, t->at, "can't assign to '%.*s'", FX_STR_ARG(t->text));
        return false;
    }
    if (!expect(p, JJT_NAME))
        return false;
    *sym = symbol(p, t->text);
    return *sym != JJ_NO_SYM;
}

static jj_node *parse_for(parser *p)
{
    static const char *const ends[] = { "endfor", "else", NULL };
    jj_node *n = node(p, JJN_FOR, next(p)->at);
    bool soft = p->soft, ok;

    if (!n)
        return NULL;
    p->any_loop++;
    if (!(n->a = parse_target(p, false, "in")) || !expect_word(p, "in"))
        return NULL;
    p->any_loop--;
    n->b = parse_tuple(p, (tuple_rules){ .no_cond = true, .end_word = "recursive" });
    if (!n->b)
        return NULL;
    if (skip_word(p, "if") && !(n->c = parse_expression(p)))
        return NULL;
    n->flag = skip_word(p, "recursive");
    p->soft = false;
    p->loops++;
    p->any_loop++;
    ok = parse_body(p, ends, &n->d);
    p->loops--;
    p->any_loop--;
    p->soft = soft;
    if (!ok)
        return NULL;
    if (tok_word(next(p), "else") && !parse_block_body(p, "endfor", &n->e))
        return NULL;
    return n;
}

static jj_node *parse_if(parser *p)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    jj_node *n = node(p, JJN_IF, cur(p)->at);
    chain branches = { 0 };
    bool soft = p->soft, more = true;

    if (!n)
        return NULL;
    p->soft = true;
    while (more) {
        const jj_tok *t = next(p);      /* if, elif or else */
        jj_node *b = node(p, JJN_BRANCH, t->at);
        static const char *const last[] = { "endif", NULL };
        bool has_test = !tok_word(t, "else");

        if (!chain_add(&branches, b))
            return NULL;
        if (has_test && !(b->a = parse_tuple(p, (tuple_rules){ .no_cond = true })))
            return NULL;
        if (!parse_body(p, has_test ? ends : last, &b->d))
            return NULL;
        more = !word(p, "endif");
    }
    next(p);
    p->soft = soft;
    n->a = branches.first;
    return n;
}

static jj_node *parse_set(parser *p)
{
    jj_node *n = node(p, JJN_SET, next(p)->at);

    if (!n || !(n->a = parse_target(p, true, NULL)))
        return NULL;
    if (skip_type(p, JJT_ASSIGN)) {
        n->b = parse_tuple(p, (tuple_rules){ 0 });
        return n->b ? n : NULL;
    }
    n->kind = JJN_SETBLOCK;
    n->b = parse_filter(p, NULL, false);
    if (p->status != FORNAX_OK || !parse_block_body(p, "endset", &n->d))
        return NULL;
    return n;
}

static bool parse_signature(parser *p, jj_node *macro)
{
    chain params = { 0 };
    bool defaults = false;

    if (!expect(p, JJT_LPAREN))
        return false;
    while (!is(p, JJT_RPAREN)) {
        jj_node *n;
        size_t at;
        uint32_t sym;

        if (params.first && !expect(p, JJT_COMMA))
            return false;
        if (!parse_name_target(p, &sym, &at))
            return false;
        n = node(p, JJN_PARAM, at);
        if (!chain_add(&params, n))
            return false;
        n->sym = sym;
        for (const jj_node *k = params.first; k != n; k = k->next) {
            if (k->sym == sym) {
                fail_at(p, at, "duplicate argument in the signature");
                return false;
            }
        }
        if (skip_type(p, JJT_ASSIGN)) {
            defaults = true;
            if (!(n->a = parse_expression(p)))
                return false;
        } else if (defaults) {
            fail_at(p, at, "non-default argument follows default argument");
            return false;
        }
    }
    next(p);
    macro->a = params.first;
    return true;
}

static bool stores_to_a(const jj_node *n)
{
    return n->kind == JJN_FOR || n->kind == JJN_SET || n->kind == JJN_SETBLOCK || n->kind == JJN_WITH;
}

/* Is 'sym' read under n before it is stored there?  1 yes, -1 stored first, 0 neither. */
static int reads(parser *p, const jj_node *n, uint32_t sym, bool store)
{
    int got = 0;

    if (++p->depth > MAX_WALK_DEPTH) {
        fail_at(p, n ? n->at : 0, "nested too deeply");
        return 0;
    }
    for (; n && !got; n = n->next) {

        if ((n->kind == JJN_NAME || n->kind == JJN_PARAM) && n->sym == sym)
            got = store || n->kind == JJN_PARAM ? -1 : 1;
        if (n->kind == JJN_BLOCK)
            continue;
        if (!got) got = reads(p, n->a, sym, (store && n->kind == JJN_TUPLE) || stores_to_a(n));
        if (!got) got = reads(p, n->b, sym, false);
        if (!got) got = reads(p, n->c, sym, false);
        if (!got) got = reads(p, n->d, sym, false);
        if (!got) got = reads(p, n->e, sym, false);
        if (!got && n->args) {
            got = reads(p, n->args->pos, sym, false);
            if (!got) got = reads(p, n->args->kw, sym, false);
            if (!got) got = reads(p, n->args->star, sym, false);
            if (!got) got = reads(p, n->args->star2, sym, false);
        }
    }
    p->depth--;
    return got;
}

/* The body of a macro or call block, and which special names it uses. */
static bool parse_macro_body(parser *p, jj_node *n, const char *end)
{
    int loops = p->loops;
    const struct { uint32_t sym; int bit; } special[] = {
        { p->t->sym_caller, JJ_USES_CALLER },
        { p->t->sym_kwargs, JJ_USES_KWARGS },
        { p->t->sym_varargs, JJ_USES_VARARGS },
    };

    p->loops = 0;
    if (!parse_block_body(p, end, &n->d))
        return false;
    p->loops = loops;
    for (size_t i = 0; i < FX_COUNT(special) && p->status == FORNAX_OK; i++) {
        const jj_node *param = n->a;

        if (reads(p, n->d, special[i].sym, false) <= 0)
            continue;
        while (param && param->sym != special[i].sym)
            param = param->next;
        if (param && special[i].bit != JJ_USES_CALLER)
            continue;               /* an ordinary parameter of that name */
        if (param && !param->a) {
            fail_at(p, param->at, "the special \"caller\" argument must be omitted or have a default");
            return false;
        }
        n->op |= (uint8_t)special[i].bit;
    }
    return p->status == FORNAX_OK;
}

static jj_node *parse_macro(parser *p)
{
    jj_node *n = node(p, JJN_MACRO, next(p)->at);
    size_t at;

    if (!n || !parse_name_target(p, &n->sym, &at))
        return NULL;
    return parse_signature(p, n) && parse_macro_body(p, n, "endmacro") ? n : NULL;
}

static jj_node *parse_call_block(parser *p)
{
    size_t at = next(p)->at;
    jj_node *n = node(p, JJN_CALLBLOCK, at), *m = node(p, JJN_MACRO, at);

    if (!n || !m || (is(p, JJT_LPAREN) && !parse_signature(p, m)) || !(n->a = parse_expression(p)))
        return NULL;
    if (n->a->kind != JJN_CALL)
        return fail_at(p, n->a->at, "expected call");
    n->b = m;
    return parse_macro_body(p, m, "endcall") ? n : NULL;
}

static jj_node *parse_filter_block(parser *p)
{
    jj_node *n = node(p, JJN_FILTERBLOCK, next(p)->at);

    if (!n || !(n->b = parse_filter(p, NULL, true)) || !parse_block_body(p, "endfilter", &n->d))
        return NULL;
    return n;
}

static jj_node *parse_with(parser *p)
{
    jj_node *n = node(p, JJN_WITH, next(p)->at);
    chain targets = { 0 }, values = { 0 };

    while (n && !is(p, JJT_BLOCK_END)) {
        if (targets.first && !expect(p, JJT_COMMA))
            return NULL;
        if (!chain_add(&targets, parse_target(p, false, NULL)) || !expect(p, JJT_ASSIGN) ||
            !chain_add(&values, parse_expression(p)))
            return NULL;
    }
    if (!n || !parse_block_body(p, "endwith", &n->d))
        return NULL;
    n->a = targets.first;
    n->b = values.first;
    return n;
}

static jj_node *parse_block(parser *p)
{
    jj_node *n = node(p, JJN_BLOCK, next(p)->at);
    fx_str name = cur(p)->text;
    bool required;

    if (!n || !expect(p, JJT_NAME))
        return NULL;
    n->flag = skip_word(p, "scoped");
    required = skip_word(p, "required");
    if (required)
        return fail_at(p, n->at, "required blocks need template inheritance, which is not supported");
    if (!parse_block_body(p, "endblock", &n->d))
        return NULL;
    if (is(p, JJT_NAME) && fx_str_eq(cur(p)->text, name))
        next(p);
    return n;
}

static jj_node *parse_generation(parser *p)
{
    jj_node *n = node(p, JJN_GENERATION, next(p)->at);
    int loops = p->loops;

    if (!n)
        return NULL;
    p->loops = 0;               /* a call block in disguise */
    if (!parse_block_body(p, "endgeneration", &n->d))
        return NULL;
    p->loops = loops;
    return n;
}

static jj_node *parse_autoescape(parser *p)
{
    jj_node *n = node(p, JJN_AUTOESCAPE, next(p)->at);

    if (!n || !(n->a = parse_expression(p)) || !parse_block_body(p, "endautoescape", &n->d))
        return NULL;
    return n;
}

static jj_node *parse_print(parser *p)
{
    jj_node *n = node(p, JJN_PRINT, next(p)->at);
    chain items = { 0 };

    while (n && !is(p, JJT_BLOCK_END)) {
        if (items.first && !expect(p, JJT_COMMA))
            return NULL;
        if (!chain_add(&items, parse_expression(p)))
            return NULL;
    }
    if (n)
        n->a = items.first;
    return n;
}

static jj_node *parse_break(parser *p)
{
    const jj_tok *t = next(p);

    if (!p->loops)
        return fail_at(p, t->at, "'%.*s' outside loop", FX_STR_ARG(t->text));
    return node(p, tok_word(t, "break") ? JJN_BREAK : JJN_CONTINUE, t->at);
}

/* include, import and so on: kept until reached, for a template may never get there. */
static jj_node *parse_refused(parser *p)
{
    jj_node *n = node(p, JJN_REFUSED, cur(p)->at);

    if (!n || !(n->str = literal(p, cur(p)->text)))
        return NULL;
    while (!is(p, JJT_BLOCK_END) && !is(p, JJT_EOF))
        next(p);
    return n;
}

static jj_node *parse_statement(parser *p)
{
    static const struct {
        const char *word;
        jj_node *(*parse)(parser *);
    } rows[] = {
        { "if", parse_if }, { "for", parse_for }, { "set", parse_set }, { "macro", parse_macro },
        { "call", parse_call_block }, { "filter", parse_filter_block }, { "with", parse_with },
        { "block", parse_block }, { "generation", parse_generation }, { "print", parse_print },
        { "break", parse_break }, { "continue", parse_break }, { "include", parse_refused },
        { "import", parse_refused }, { "from", parse_refused }, { "extends", parse_refused }, { "autoescape", parse_autoescape },
    };
    const jj_tok *t = cur(p);
    char ends[80];

    if (t->type != JJT_NAME)
        return unexpected(p, "a tag name");
    for (size_t i = 0; i < FX_COUNT(rows); i++)
        if (fx_str_is(t->text, rows[i].word))
            return rows[i].parse(p);
    return fail_at(p, t->at, "unknown tag '%.*s'%s%s", (int)FX_MIN(t->text.n, 100), t->text.p,
                   p->ends ? "; this block ends with " : "", p->ends ? join_words(p->ends, ends, sizeof ends) : "");
}

static jj_node *parse_output(parser *p)
{
    jj_node *n = node(p, JJN_PRINT, next(p)->at);

    if (!n || !(n->a = parse_tuple(p, (tuple_rules){ 0 })) || !expect(p, JJT_VAR_END))
        return NULL;
    return n;
}

static jj_node *parse_text(parser *p)
{
    const jj_tok *t = next(p);
    jj_node *n = node(p, JJN_TEXT, t->at);

    return n && (n->str = literal(p, t->text)) ? n : NULL;
}

/* Statements up to a block that begins with one of 'ends' (that word becomes
 * current) or the end of the template. */
static bool subparse(parser *p, words ends, jj_node **out)
{
    words outer = p->ends;
    chain body = { 0 };

    if (!deeper(p))
        return false;
    p->ends = ends;
    while (!is(p, JJT_EOF)) {
        jj_node *n;

        if (is(p, JJT_DATA)) {
            n = parse_text(p);
        } else if (is(p, JJT_VAR_BEGIN)) {
            n = parse_output(p);
        } else {
            if (!expect(p, JJT_BLOCK_BEGIN))
                return false;
            if (any_word(p, ends))
                break;
            n = parse_statement(p);
            if (n && !expect(p, JJT_BLOCK_END))
                n = NULL;
        }
        if (!chain_add(&body, n) || !check_known(p))
            return false;
    }
    p->ends = outer;
    p->depth--;
    *out = body.first;
    return true;
}

fx_status fx_jj_parse(fx_template *t, const jj_tokens *toks, fx_error *err)
{
    parser p = { .t = t, .toks = toks, .err = err };

    fx_map_init(&p.syms, t->mem);
    t->sym_loop = symbol(&p, FX_STR("loop"));
    t->sym_caller = symbol(&p, FX_STR("caller"));
    t->sym_kwargs = symbol(&p, FX_STR("kwargs"));
    t->sym_varargs = symbol(&p, FX_STR("varargs"));
    if (p.status == FORNAX_OK)
        subparse(&p, NULL, &t->body);
    fx_map_done(&p.syms);
    return p.status;
}
