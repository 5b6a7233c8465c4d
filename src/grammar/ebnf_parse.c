/* ebnf_parse.c - reads GBNF and Lark-like grammars into rules.
 *
 * A body ends where a name and a definition sign follow, so line breaks mean nothing, but that a
 * quantifier stands on the line of what it repeats. */
#include <ctype.h>

#include "base/diag.h"
#include "base/text.h"
#include "grammar/ebnf_int.h"

#define DEPTH_MAX 200           /* of nested groups */
#define RULES_MAX 20000

typedef FX_VEC(fx_ebnf_node *) node_list;

fx_status fx_ebnf_bad(fx_ebnf *e, fx_status st, size_t at, const char *what)
{
    fx_diag(e->err, e->name, e->text, at, "%s", what);
    if (e->err)
        e->err->status = st;
    return st;
}

static fx_status bad(fx_ebnf *e, const char *what) { return fx_ebnf_bad(e, FORNAX_EFORMAT, e->i, what); }
static fx_status nomem(fx_ebnf *e) { return fx_nomem(e->err, "a grammar"); }
static int peek(const fx_ebnf *e, size_t ahead) { return e->text.n - e->i > ahead ? (unsigned char)e->text.p[e->i + ahead] : -1; }

static bool at_text(const fx_ebnf *e, const char *z)
{
    return fx_str_starts(fx_str_n(e->text.p + e->i, e->text.n - e->i), fx_str_of(z));
}

static bool take(fx_ebnf *e, const char *z)
{
    if (!at_text(e, z))
        return false;
    e->i += strlen(z);
    return true;
}

/* Blanks and comments; 'lines': line breaks too. */
static void skip(fx_ebnf *e, bool lines)
{
    for (int c; (c = peek(e, 0)) >= 0;) {
        if (c == '#' || (e->lark && at_text(e, "//"))) {
            while (peek(e, 0) >= 0 && peek(e, 0) != '\n')
                e->i++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
            e->i++;
        } else {
            return;
        }
    }
}

static bool is_name(int c) { return c >= 0 && (isalnum(c) || c == '_' || c == '-'); }

/* A name at the cursor, which moves behind it; n 0: none. */
static fx_str name_here(fx_ebnf *e)
{
    size_t from = e->i;

    while (is_name(peek(e, 0)) && (e->i > from || !isdigit(peek(e, 0))))
        e->i++;
    return fx_str_n(e->text.p + from, e->i - from);
}

/* Whether a definition or a directive begins here. */
static bool at_definition(fx_ebnf *e)
{
    size_t from = e->i;
    bool yes;

    if (peek(e, 0) == '%')
        return at_text(e, "%ignore") || at_text(e, "%import") || !at_text(e, "%json");
    if (e->lark && (peek(e, 0) == '?' || peek(e, 0) == '!'))
        e->i++;
    yes = name_here(e).n > 0;
    if (yes && e->lark && peek(e, 0) == '.')
        for (e->i++; isdigit(peek(e, 0));)
            e->i++;
    skip(e, false);
    yes = yes && (e->lark ? peek(e, 0) == ':' : at_text(e, "::="));
    e->i = from;
    return yes;
}

/* ---- Nodes ------------------------------------------------------------------------------------ */

static fx_ebnf_node *new_node(fx_ebnf *e, fx_ebnf_kind kind, size_t at)
{
    fx_ebnf_node *n = FX_ARENA_NEW(e->arena, fx_ebnf_node);

    if (n) {
        n->kind = kind;
        n->offset = at;
    }
    return n;
}

static fx_status re_node(fx_ebnf *e, fx_ebnf_node **out, size_t at, fx_re re)
{
    if (re == FX_RE_FAIL)
        return fx_fail(e->err, FORNAX_ENOMEM, "%s: the grammar is too large", e->name);
    if (!(*out = new_node(e, FX_EBNF_RE, at)))
        return nomem(e);
    (*out)->re = re;
    return FORNAX_OK;
}

static fx_status gram_node(fx_ebnf *e, fx_ebnf_node **out, size_t at, fx_gnode node)
{
    if (!(*out = new_node(e, FX_EBNF_NODE, at)))
        return nomem(e);
    (*out)->node = node;
    return FORNAX_OK;
}

static fx_status wrap(fx_ebnf *e, fx_ebnf_node **out, fx_ebnf_kind kind, const node_list *list, size_t at)
{
    fx_ebnf_node *x = list->n == 1 ? list->at[0] : new_node(e, kind, at);

    if (!x)
        return nomem(e);
    if (list->n != 1) {
        if (!(x->kids = FX_ARENA_NEWN(e->arena, fx_ebnf_node *, list->n + 1)))
            return nomem(e);
        if (list->n)
            memcpy(x->kids, list->at, list->n * sizeof(*x->kids));
        x->n = list->n;
    }
    *out = x;
    return FORNAX_OK;
}

static fx_status repeat_node(fx_ebnf *e, fx_ebnf_node **x, uint32_t min, uint32_t max)
{
    fx_ebnf_node *r = new_node(e, FX_EBNF_REPEAT, (*x)->offset);

    if (!r || !(r->kids = FX_ARENA_NEWN(e->arena, fx_ebnf_node *, 1)))
        return nomem(e);
    r->kids[0] = *x;
    r->n = 1;
    r->min = min;
    r->max = max;
    *x = r;
    return FORNAX_OK;
}

/* The rule of that name, made if there is none yet. */
static fx_status find_rule(fx_ebnf *e, fx_str name, size_t at, uint32_t *out)
{
    uint64_t id;
    bool capital = false, small = false;

    if (!fx_map_get(&e->names, name, &id)) {
        for (size_t i = 0; i < name.n; i++) {
            capital |= isupper((unsigned char)name.p[i]) != 0;
            small |= islower((unsigned char)name.p[i]) != 0;
        }
        id = e->rules.n;
        if (id >= RULES_MAX)
            return bad(e, "too many rules");
        if (!FX_VEC_PUSH(&e->rules, e->mem, ((fx_ebnf_rule){ .name = name, .offset = at, .terminal = e->lark && capital && !small })) ||
            !fx_map_put(&e->names, name, id))
            return nomem(e);
    }
    *out = (uint32_t)id;
    return FORNAX_OK;
}

/* ---- Literals, classes, patterns ---------------------------------------------------------------- */

static bool hex(const fx_ebnf *e, size_t n, uint32_t *out)
{
    *out = 0;
    for (size_t k = 0; k < n; k++) {
        int c = peek(e, k);

        if (c < 0 || !isxdigit(c))
            return false;
        *out = *out * 16 + (uint32_t)(isdigit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    return *out <= 0x10ffff && (*out < 0xd800 || *out > 0xdfff);
}

/* One character of a literal or class, escapes undone. */
static fx_status one_char(fx_ebnf *e, uint32_t *rune)
{
    static const struct { char letter; uint8_t digits; uint32_t rune; } escapes[] = {
        { 'n', 0, '\n' }, { 't', 0, '\t' }, { 'r', 0, '\r' }, { 'f', 0, '\f' }, { 'v', 0, '\v' }, { 'b', 0, '\b' },
        { 'x', 2, 0 }, { 'u', 4, 0 }, { 'U', 8, 0 },
    };
    int c;

    if (!take(e, "\\")) {
        *rune = fx_utf8_next(e->text, &e->i);
        return FORNAX_OK;
    }
    c = peek(e, 0);
    for (size_t k = 0; k < FX_COUNT(escapes); k++)
        if (c == escapes[k].letter) {
            e->i++;
            *rune = escapes[k].rune;
            if (escapes[k].digits && !hex(e, escapes[k].digits, rune))
                return bad(e, "expected the hexadecimal digits of a character");
            e->i += escapes[k].digits;
            return FORNAX_OK;
        }
    if (c < 0 || isalnum(c))
        return bad(e, "no such escape");
    *rune = (uint32_t)c;
    e->i++;
    return FORNAX_OK;
}

static fx_re folded(fx_ebnf *e, uint32_t rune, bool any_case)
{
    fx_rune_range both[2] = { { rune, rune }, { rune, rune } };

    if (any_case && rune < 128 && isalpha((int)rune))
        both[1].lo = both[1].hi = rune ^ 32;
    return fx_re_runes(e->p, FX_SPELL_UTF8, both, 2);
}

/* A literal; its opening quote is at the cursor. */
static fx_status literal(fx_ebnf *e, fx_ebnf_node **out)
{
    size_t at = e->i, end;
    char quote[2] = { (char)peek(e, 0), 0 };
    fx_re re = FX_RE_EMPTY;
    uint32_t rune;
    bool any_case;

    for (e->i++; !at_text(e, quote);) {         /* once to find its end and flag */
        if (peek(e, 0) < 0 || peek(e, 0) == '\n')
            return fx_ebnf_bad(e, FORNAX_EFORMAT, at, "a literal without its closing quote");
        FX_TRY(one_char(e, &rune));
    }
    end = e->i + 1;
    any_case = e->lark && end < e->text.n && e->text.p[end] == 'i';
    for (e->i = at + 1; !at_text(e, quote);) {
        FX_TRY(one_char(e, &rune));
        re = fx_re_cat(e->p, re, folded(e, rune, any_case));
    }
    e->i = end + any_case;
    return re_node(e, out, at, re);
}

static fx_status class_ranges(fx_ebnf *e, size_t at, void *list)
{
    FX_VEC(fx_rune_range) *c = list;

    while (!take(e, "]")) {
        fx_rune_range r;

        if (peek(e, 0) < 0 || peek(e, 0) == '\n')
            return fx_ebnf_bad(e, FORNAX_EFORMAT, at, "a class without its ]");
        FX_TRY(one_char(e, &r.lo));
        r.hi = r.lo;
        if (peek(e, 0) == '-' && peek(e, 1) != ']' && peek(e, 1) >= 0) {
            e->i++;
            FX_TRY(one_char(e, &r.hi));
        }
        if (r.lo > r.hi)
            return bad(e, "a range of characters that is out of order");
        if (!FX_VEC_PUSH(c, e->mem, r))
            return nomem(e);
    }
    return FORNAX_OK;
}

/* [...] of GBNF, at the cursor. */
static fx_status char_class(fx_ebnf *e, fx_ebnf_node **out)
{
    static const fx_rune_range all = { 0, 0x10ffff };
    size_t at = e->i++;
    bool negated = take(e, "^");
    FX_VEC(fx_rune_range) c = { 0 };
    fx_status st = class_ranges(e, at, &c);

    if (st == FORNAX_OK) {
        fx_re re = fx_re_runes(e->p, FX_SPELL_UTF8, c.at, c.n);

        if (negated)
            re = fx_re_and(e->p, fx_re_runes(e->p, FX_SPELL_UTF8, &all, 1), fx_re_not(e->p, re));
        st = re_node(e, out, at, re);
    }
    FX_VEC_FREE(&c, e->mem);
    return st;
}

/* /pattern/ of Lark, at the cursor. */
static fx_status pattern(fx_ebnf *e, fx_ebnf_node **out)
{
    size_t at = e->i++, from = e->i;
    fx_error why = { 0 };
    fx_status st;
    fx_re re;

    for (bool in_class = false; peek(e, 0) != '/' || in_class; e->i++) {
        if (peek(e, 0) < 0 || peek(e, 0) == '\n')
            return fx_ebnf_bad(e, FORNAX_EFORMAT, at, "a pattern without its closing /");
        in_class = in_class ? peek(e, 0) != ']' : peek(e, 0) == '[';
        if (peek(e, 0) == '\\' && peek(e, 1) >= 0)
            e->i++;
    }
    st = fx_re_ecma(&re, e->p, FX_SPELL_UTF8, fx_str_n(e->text.p + from, e->i - from), true, &why);
    if (st != FORNAX_OK)
        return fx_ebnf_bad(e, st, at, why.text);
    e->i++;
    if (isalpha(peek(e, 0)))
        return fx_ebnf_bad(e, FORNAX_EUNSUP, e->i, "flags of patterns can't be expressed");
    return re_node(e, out, at, re);
}

/* ---- Special tokens and schemas -------------------------------------------------------------------- */

/* <name> or <[id]>, at the cursor. */
static fx_status special(fx_ebnf *e, fx_ebnf_node **out)
{
    size_t at = e->i, end = fx_str_find(e->text, FX_STR(">"), at);
    fx_str s;
    uint64_t id;
    int32_t found;

    if (end == FX_STR_NONE || end == at + 1)
        return bad(e, "a special token without its >");
    s = fx_str_n(e->text.p + at, end + 1 - at);
    e->i = end + 1;
    if (s.p[1] == '[' && s.p[s.n - 2] == ']') {
        if (!fx_parse_u64(fx_str_n(s.p + 2, s.n - 4), &id) || id > INT32_MAX)
            return fx_ebnf_bad(e, FORNAX_EFORMAT, at, "expected a token's id in <[...]>");
        return gram_node(e, out, at, fx_gram_token(e->b, (int32_t)id));
    }
    found = e->opt->find_token ? e->opt->find_token(e->opt->user, s) : -1;
    if (found < 0)
        return fx_ebnf_bad(e, FORNAX_EFORMAT, at, "the tokenizer has no special token of that name");
    return gram_node(e, out, at, fx_gram_token(e->b, found));
}

/* The end of the JSON value at i. */
static size_t json_end(fx_str s, size_t i)
{
    int depth = 0;

    for (; i < s.n; i++) {
        char c = s.p[i];

        if (c == '"')
            for (i++; i < s.n && s.p[i] != '"'; i++)
                i += s.p[i] == '\\';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth == 0 && (c == '}' || c == ']' || c == '"'))
            return FX_MIN(i + 1, s.n);
    }
    return s.n;
}

/* After %json. */
static fx_status schema(fx_ebnf *e, fx_ebnf_node **out, size_t at)
{
    static const fx_schema_options defaults = { 0 };
    fx_error why = { 0 };
    fx_gnode root;
    fx_status st;
    size_t end;

    skip(e, true);
    if (peek(e, 0) != '{')
        return bad(e, "expected a schema's { after %json");
    end = json_end(e->text, e->i);
    st = fx_schema_build(&root, e->b, e->mem, fx_str_n(e->text.p + e->i, end - e->i),
                         e->opt->schema ? e->opt->schema : &defaults, e->warnings, &why);
    if (st == FORNAX_ENOMEM)
        return nomem(e);
    if (st != FORNAX_OK) {
        char text[256];

        fx_format(text, sizeof text, "%s%s%s", why.param, why.param[0] ? ": " : "", why.text);
        return fx_ebnf_bad(e, st, e->i, text);
    }
    e->i = end;
    return gram_node(e, out, at, root);
}

/* ---- Bodies ---------------------------------------------------------------------------------------------- */

static fx_status alternatives(fx_ebnf *e, fx_ebnf_node **out);

static fx_status group(fx_ebnf *e, fx_ebnf_node **out, const char *close)
{
    size_t at = e->i++;

    if (++e->depth > DEPTH_MAX)
        return bad(e, "groups nested too deeply");
    FX_TRY(alternatives(e, out));
    e->depth--;
    skip(e, true);
    if (!take(e, close))
        return fx_ebnf_bad(e, FORNAX_EFORMAT, at, "a group without its end");
    return *close == ']' ? repeat_node(e, out, 0, 1) : FORNAX_OK;
}

static fx_status reference(fx_ebnf *e, fx_ebnf_node **out)
{
    size_t at = e->i;
    fx_str name = name_here(e);
    uint32_t rule;

    if (name.n == 0)
        return bad(e, "expected a literal, a rule's name or a group");
    FX_TRY(find_rule(e, name, at, &rule));
    if (!(*out = new_node(e, FX_EBNF_REF, at)))
        return nomem(e);
    (*out)->rule = rule;
    return FORNAX_OK;
}

static fx_status atom(fx_ebnf *e, fx_ebnf_node **out)
{
    static const fx_rune_range any = { 0, 0x10ffff };
    size_t at = e->i;
    int c = peek(e, 0);

    if (c == '"' || c == '\'')
        return literal(e, out);
    if (c == '(')
        return group(e, out, ")");
    if (c == '[')
        return e->lark ? group(e, out, "]") : char_class(e, out);
    if (c == '/' && e->lark)
        return pattern(e, out);
    if (c == '<')
        return special(e, out);
    if (c == '!')
        return fx_ebnf_bad(e, FORNAX_EUNSUP, at, "tokens that may not come can't be expressed");
    if (take(e, "%json"))
        return schema(e, out, at);
    if (c == '.' && !e->lark) {
        e->i++;
        return re_node(e, out, at, fx_re_runes(e->p, FX_SPELL_UTF8, &any, 1));
    }
    return reference(e, out);
}

static bool number(fx_ebnf *e, uint32_t *out)
{
    uint64_t x = 0;
    size_t from = e->i;

    for (; isdigit(peek(e, 0)); e->i++)
        x = FX_MIN(x * 10 + (uint64_t)(peek(e, 0) - '0'), FX_GRAM_INF);
    *out = (uint32_t)x;
    return e->i > from && x < FX_GRAM_INF;
}

/* {m}, {m,}, {,n}, {m,n}; ~ m, ~ m..n: the sign is behind us. */
static fx_status bounds(fx_ebnf *e, bool braces, uint32_t *min, uint32_t *max)
{
    bool low;

    skip(e, false);
    low = number(e, min);
    if (!low)
        *min = 0;
    *max = *min;
    skip(e, false);
    if (take(e, braces ? "," : "..")) {
        skip(e, false);
        if (!number(e, max)) {
            if (!braces || !low)
                return bad(e, "expected a number");
            *max = FX_GRAM_INF;
        }
        skip(e, false);
    } else if (!low) {
        return bad(e, "expected a number");
    }
    if (braces && !take(e, "}"))
        return bad(e, "expected }");
    return *min <= *max ? FORNAX_OK : bad(e, "bounds out of order");
}

static fx_status quantified(fx_ebnf *e, fx_ebnf_node **out)
{
    static const struct { const char *sign; uint32_t min, max; } signs[] = {
        { "*", 0, FX_GRAM_INF }, { "+", 1, FX_GRAM_INF }, { "?", 0, 1 },
    };
    uint32_t min, max;
    size_t k = 0;

    FX_TRY(atom(e, out));
    for (;;) {
        size_t before = e->i;

        skip(e, false);
        if (e->lark && at_definition(e)) {              /* ?name: is a rule */
            e->i = before;
            return FORNAX_OK;
        }
        for (k = 0; k < FX_COUNT(signs) && !take(e, signs[k].sign);)
            k++;
        if (k < FX_COUNT(signs)) {
            min = signs[k].min;
            max = signs[k].max;
        } else if (take(e, "{")) {
            FX_TRY(bounds(e, true, &min, &max));
        } else if (e->lark && take(e, "~")) {
            FX_TRY(bounds(e, false, &min, &max));
        } else {
            e->i = before;
            return FORNAX_OK;
        }
        FX_TRY(repeat_node(e, out, min, max));
    }
}

static fx_status sequence(fx_ebnf *e, fx_ebnf_node **out)
{
    node_list list = { 0 };
    size_t at;
    fx_status st = FORNAX_OK;

    skip(e, true);
    at = e->i;
    while (st == FORNAX_OK && peek(e, 0) >= 0 && !strchr("|)]", peek(e, 0)) && !at_definition(e) && !at_text(e, "->")) {
        fx_ebnf_node *x = NULL;

        st = quantified(e, &x);
        if (st == FORNAX_OK && !FX_VEC_PUSH(&list, e->mem, x))
            st = nomem(e);
        skip(e, true);
    }
    if (st == FORNAX_OK && e->lark && take(e, "->")) {      /* an alias names a tree; there are no trees */
        skip(e, false);
        name_here(e);
        skip(e, true);
    }
    if (st == FORNAX_OK)
        st = wrap(e, out, FX_EBNF_SEQ, &list, at);
    FX_VEC_FREE(&list, e->mem);
    return st;
}

static fx_status alternatives(fx_ebnf *e, fx_ebnf_node **out)
{
    node_list list = { 0 };
    size_t at = e->i;
    fx_status st;

    do {
        fx_ebnf_node *x = NULL;

        st = sequence(e, &x);
        if (st == FORNAX_OK && !FX_VEC_PUSH(&list, e->mem, x))
            st = nomem(e);
    } while (st == FORNAX_OK && take(e, "|"));
    if (st == FORNAX_OK)
        st = wrap(e, out, FX_EBNF_ALT, &list, at);
    FX_VEC_FREE(&list, e->mem);
    return st;
}

/* ---- Rules and directives --------------------------------------------------------------------------------- */

/* Lark's library of terminals, as ECMA-262 patterns. */
static const struct { const char *name, *pattern; } common[] = {
    { "DIGIT", "[0-9]" }, { "HEXDIGIT", "[a-fA-F0-9]" }, { "INT", "[0-9]+" }, { "SIGNED_INT", "[+-]?[0-9]+" },
    { "DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+" },
    { "FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?" },
    { "NUMBER", "([0-9]+\\.[0-9]*|\\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?" },
    { "SIGNED_NUMBER", "[+-]?([0-9]+\\.[0-9]*|\\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?" },
    { "ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\"" }, { "LCASE_LETTER", "[a-z]" }, { "UCASE_LETTER", "[A-Z]" },
    { "LETTER", "[A-Za-z]" }, { "WORD", "[A-Za-z]+" }, { "CNAME", "[_A-Za-z][_A-Za-z0-9]*" },
    { "WS_INLINE", "[ \\t]+" }, { "WS", "[ \\t\\f\\r\\n]+" }, { "CR", "\\r" }, { "LF", "\\n" }, { "NEWLINE", "(\\r?\\n)+" },
};

static fx_status define(fx_ebnf *e, fx_str name, size_t at, fx_ebnf_node *body)
{
    uint32_t rule;

    FX_TRY(find_rule(e, name, at, &rule));
    if (e->rules.at[rule].body)
        return fx_ebnf_bad(e, FORNAX_EFORMAT, at, "this rule is defined already");
    e->rules.at[rule].body = body;
    return FORNAX_OK;
}

/* After %import: common.NAME [-> NAME]. */
static fx_status import(fx_ebnf *e)
{
    size_t at, k = 0;
    fx_str name;
    fx_ebnf_node *body;
    fx_re re;

    skip(e, false);
    at = e->i;
    if (!take(e, "common."))
        return fx_ebnf_bad(e, FORNAX_EUNSUP, at, "only names of 'common' can be imported");
    name = name_here(e);
    while (k < FX_COUNT(common) && !fx_str_is(name, common[k].name))
        k++;
    if (k == FX_COUNT(common))
        return fx_ebnf_bad(e, FORNAX_EUNSUP, at, "no such name in 'common'");
    FX_TRY(fx_re_ecma(&re, e->p, FX_SPELL_UTF8, fx_str_of(common[k].pattern), true, e->err));
    FX_TRY(re_node(e, &body, at, re));
    skip(e, false);
    if (take(e, "->")) {
        skip(e, false);
        name = name_here(e);
    }
    return define(e, name, at, body);
}

/* After %ignore. */
static fx_status ignore(fx_ebnf *e, size_t at)
{
    node_list both = { 0 };
    fx_ebnf_node *x;
    fx_status st;

    FX_TRY(alternatives(e, &x));
    if (!e->ignored) {
        e->ignored = x;
        return FORNAX_OK;
    }
    st = FX_VEC_PUSH(&both, e->mem, e->ignored) && FX_VEC_PUSH(&both, e->mem, x) ? wrap(e, &e->ignored, FX_EBNF_ALT, &both, at)
                                                                                 : nomem(e);
    FX_VEC_FREE(&both, e->mem);
    return st;
}

static fx_status rule(fx_ebnf *e)
{
    size_t at;
    fx_str name;
    fx_ebnf_node *body;

    if (e->lark && (peek(e, 0) == '?' || peek(e, 0) == '!'))    /* how Lark shapes its tree */
        e->i++;
    at = e->i;
    name = name_here(e);
    if (name.n == 0)
        return bad(e, "expected a rule's name");
    if (e->lark && take(e, "."))                                /* a priority: the language is the same */
        while (isdigit(peek(e, 0)))
            e->i++;
    skip(e, false);
    if (!take(e, e->lark ? ":" : "::="))
        return bad(e, e->lark ? "expected : after a rule's name" : "expected ::= after a rule's name");
    FX_TRY(alternatives(e, &body));
    return define(e, name, at, body);
}

/* GBNF, unless the first definition has Lark's sign. */
static bool looks_like_lark(fx_ebnf *e)
{
    bool lark = false;

    e->lark = true;
    skip(e, true);
    if (peek(e, 0) == '%')
        lark = true;
    else if (at_definition(e)) {
        if (peek(e, 0) == '?' || peek(e, 0) == '!')
            e->i++;
        name_here(e);
        skip(e, false);
        lark = !at_text(e, "::=");
    }
    e->i = 0;
    return lark;
}

fx_status fx_ebnf_parse(fx_ebnf *e)
{
    if (!fx_utf8_valid(e->text))
        return fx_fail(e->err, FORNAX_EFORMAT, "%s: expected valid UTF-8", e->name);
    e->lark = looks_like_lark(e);
    for (skip(e, true); peek(e, 0) >= 0; skip(e, true)) {
        size_t at = e->i;

        if (e->lark && take(e, "%import"))
            FX_TRY(import(e));
        else if (e->lark && take(e, "%ignore"))
            FX_TRY(ignore(e, at));
        else if (peek(e, 0) == '%')
            return fx_ebnf_bad(e, FORNAX_EUNSUP, at, "no such directive");
        else
            FX_TRY(rule(e));
    }
    return FORNAX_OK;
}
